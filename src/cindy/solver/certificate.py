"""The Frank-Wolfe gap as a bound that holds: with what rounding may have taken from it."""

from dataclasses import dataclass
from typing import Any

import numpy as np

from cindy._types import Floats
from cindy.least_squares import LeastSquares
from cindy.solver.oracle import Atom, Line, Oracle
from cindy.solver.region import Region

__all__ = ["Sizes", "certificate", "floor", "lower_bound"]

_ROWS = 16
"""That are turned into longer numbers at a time: few beside the whole, many for a product."""
_LARGEST = 100_000_000
"""Products beyond which the gradient is not worked out again with longer numbers: some seconds' work."""


@dataclass(frozen=True)
class Sizes:
    """What rounding of a gradient 2 Aᵀ(A x − B) is proportional to.

    columns: (terms,) lengths of the columns of A; target, residual: (targets,) of B and A x − B
    count: the longest sum
    """

    columns: Floats
    target: Floats
    residual: Floats
    count: int

    @classmethod
    def of(cls, objective: LeastSquares, x: Floats) -> "Sizes":
        parts = (objective.design, objective.target, objective.residual(x))
        lengths = [_lengths(part) for part in parts]
        return cls(lengths[0], lengths[1], lengths[2], max(objective.design.shape) + 2)

    def reach(self, x: Floats, unit: float) -> Floats:
        """(targets,) what the length of the residual can be off by if products are rounded to `unit`."""
        return np.asarray(self.count * unit * (self.columns @ np.abs(x) + self.target + self.residual))


def _lengths(matrix: Floats) -> Floats:
    """(columns,) lengths; norm() copies a plain array whole, and a design on a device knows only norm()."""
    if type(matrix) is np.ndarray:
        return np.asarray(np.sqrt(np.einsum("ij,ij->j", matrix, matrix)))
    return np.asarray(np.linalg.norm(matrix, axis=0))


def certificate(
    oracle: Oracle, x: Floats, gradient: Floats, sizes: Sizes, *, objective: LeastSquares | None, aim: float
) -> tuple[Atom, float]:
    """An atom, and a number that no point of the region is better than x by.

    ⟨g, x − s⟩ at its largest over the region, from a bound that the oracle proves, and what
    rounding of the gradient can add to it (Higham, Accuracy and Stability of Numerical
    Algorithms, 2002, section 3.5). Where that is more than the gap itself, and more than what
    is aimed at, the gradient of the objective is worked out again with the longest numbers of
    the machine.

    x: (terms, targets); gradient: (size,), computed at x in double precision
    aim: a gap below which nothing more is wanted
    """
    radius = oracle.region.radius
    atom, line = oracle.proved(gradient)
    gap = max(-_from(oracle, x, gradient, line).at(radius), 0.0)
    off = -_rounding(oracle, x, gradient, sizes, np.float64).at(radius)
    if objective is None or gap + off <= aim or off <= 0.01 * gap or _too_large(objective):
        return atom, gap + off
    again, _ = _in_longest_numbers(objective, x)
    atom, line = oracle.proved(again)
    gap = max(-_from(oracle, x, again, line).at(radius), 0.0)
    return atom, gap - _rounding(oracle, x, gradient, sizes, np.longdouble).at(radius)


def floor(objective: LeastSquares, oracle: Oracle, x: Floats) -> Line:
    """The loss of no point that obeys the rows of the oracle's region within radius r is below this line.

    ‖A s − B‖² ≥ f(x) + ⟨g, s − x⟩ by convexity; the oracle bounds the second part for every radius, and
    rounding of f and g is taken off.
    """
    sizes = Sizes.of(objective, x)
    kind: type[np.floating[Any]] = np.float64 if _too_large(objective) else np.longdouble
    gradient, value = objective.gradient(x).ravel(), objective.value(x)
    if kind is np.longdouble:
        gradient, value = _in_longest_numbers(objective, x)
    rest = _from(oracle, x, gradient, oracle.proved(gradient)[1])
    off = _rounding(oracle, x, gradient, sizes, kind)
    # ‖r + e‖² with ‖r‖ as computed and ‖e‖ ≤ reach, and a sum of squares that is rounded itself.
    reach = sizes.reach(x, float(np.finfo(kind).eps))
    doubt = float(np.sum(2.0 * sizes.residual * reach + reach**2))
    doubt += 2.0 * (sizes.count * float(np.finfo(kind).eps) + float(np.finfo(float).eps)) * value
    return Line(value + rest.level + off.level - doubt, rest.slope + off.slope)


def lower_bound(region: Region, gradient: Floats, origin: Floats, prices: Floats) -> Line:
    """On ⟨gradient, x − origin⟩ over the region, by any prices of its rows: weak duality.

    The rows give at least Σ prices · (a bound − matrix origin), the ball at least
    −radius · max |gradient − matrixᵀ prices| / weights; worked out with the longest numbers
    that the machine has, and less what these may be off by.
    """
    wide = np.longdouble
    slack = np.where(prices > 0, region.lower, region.upper)
    prices = np.where(np.isfinite(slack), prices, 0.0).astype(wide)
    slack = np.where(np.isfinite(slack), slack, 0.0).astype(wide)
    matrix = region.matrix.astype(wide)
    rest = gradient.astype(wide) - matrix.T @ prices
    of_rows = prices * (slack - matrix @ origin.astype(wide))
    unit = (region.rows + region.size + 4) * np.finfo(wide).eps
    size = np.abs(gradient) + abs(matrix).T @ np.abs(prices)
    off = np.abs(of_rows).sum() + size @ np.abs(origin)
    off += np.abs(prices) @ (np.abs(slack) + abs(matrix) @ np.abs(origin))
    level = of_rows.sum() - rest @ origin - unit * off
    slope = np.max((np.abs(rest) + unit * size) / region.weights, initial=0.0)
    # Rounded to double precision away from what is claimed.
    return Line(float(np.nextafter(float(level), -np.inf)), float(np.nextafter(float(slope), np.inf)))


def _too_large(objective: LeastSquares) -> bool:
    return int(objective.design.size) * objective.targets > _LARGEST


def _in_longest_numbers(objective: LeastSquares, x: Floats) -> tuple[Floats, float]:
    """2 Aᵀ(A x − B), flat, and ‖A x − B‖², a few rows at a time: long numbers are no copy of the whole."""
    wide = np.longdouble
    point, total, squares = x.astype(wide), np.zeros(x.shape, dtype=wide), wide(0.0)
    for begin in range(0, len(objective.design), _ROWS):
        rows = objective.design[begin : begin + _ROWS].astype(wide)
        residual = rows @ point - objective.target[begin : begin + _ROWS]
        total += rows.T @ residual
        squares += np.sum(residual**2)
    return np.asarray(2.0 * total, dtype=np.float64).ravel(), float(squares)


def _from(oracle: Oracle, x: Floats, gradient: Floats, line: Line) -> Line:
    """What ⟨gradient, s − x⟩ is at least, from what ⟨gradient, s − origin⟩ is."""
    ahead = gradient.astype(np.longdouble) @ (x.ravel() - oracle.origin)
    return Line(line.level - float(ahead), line.slope)


def _rounding(
    oracle: Oracle, x: Floats, gradient: Floats, sizes: Sizes, kind: type[np.floating[Any]]
) -> Line:
    """What ⟨g, s − x⟩ can be off by if products are rounded to a kind of number, and g to doubles."""
    region, origin = oracle.region, oracle.origin
    each = 2.0 * np.outer(sizes.columns, sizes.reach(x, float(np.finfo(kind).eps))).ravel()
    each += np.finfo(np.float64).eps * np.abs(gradient)
    # |x − s| ≤ |x − origin| + |origin| + |s|, and Σ each · |s| is at most radius · max each / weights.
    fixed = each @ (np.abs(origin) + np.abs(x.ravel() - origin))
    return Line(-float(fixed), float(np.max(each / region.weights)))
