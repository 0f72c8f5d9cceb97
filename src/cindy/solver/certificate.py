"""The Frank-Wolfe gap as a bound that holds: with what rounding may have taken from it."""

from dataclasses import dataclass

import numpy as np

from cindy._types import Floats
from cindy.least_squares import LeastSquares
from cindy.solver.oracle import Atom, Oracle

__all__ = ["Sizes", "certificate"]

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
    atom, gap = _gap(oracle, x, gradient)
    off = _off(oracle, x, gradient, sizes, float(np.finfo(np.float64).eps))
    if objective is None or gap + off <= aim or off <= 0.01 * gap:
        return atom, gap + off
    if objective.design.size * objective.targets > _LARGEST:
        return atom, gap + off
    again = _in_longest_numbers(objective, x)
    atom, gap = _gap(oracle, x, again.ravel())
    return atom, gap + _off(oracle, x, gradient, sizes, float(np.finfo(np.longdouble).eps))


def _in_longest_numbers(objective: LeastSquares, x: Floats) -> Floats:
    """2 Aᵀ(A x − B), a few rows at a time: numbers twice as long are no copy of the whole."""
    wide = np.longdouble
    point, total = x.astype(wide), np.zeros(x.shape, dtype=wide)
    for begin in range(0, len(objective.design), _ROWS):
        rows = objective.design[begin : begin + _ROWS].astype(wide)
        total += rows.T @ (rows @ point - objective.target[begin : begin + _ROWS])
    return np.asarray(2.0 * total, dtype=np.float64)


def _gap(oracle: Oracle, x: Floats, gradient: Floats) -> tuple[Atom, float]:
    atom, least = oracle.proved(gradient)
    return atom, max(float(gradient @ (x.ravel() - oracle.origin)) - least, 0.0)


def _off(oracle: Oracle, x: Floats, gradient: Floats, sizes: Sizes, unit: float) -> float:
    """What the gap can be off by if products are rounded to `unit`, and the gradient to double precision."""
    region, origin = oracle.region, oracle.origin
    reach = sizes.count * unit * (sizes.columns @ np.abs(x) + sizes.target + sizes.residual)
    each = (2.0 * np.outer(sizes.columns, reach)).ravel()
    each += np.finfo(np.float64).eps * np.abs(gradient)
    # Σ each · |x − s| over the region is at most this.
    most = region.radius * np.max(each / region.weights)
    return float(most + each @ (np.abs(origin) + np.abs(x.ravel() - origin)))
