"""What a run leaves behind: steps, status, the path, and the point with its certificate.

The certificate is the Frank-Wolfe gap as a bound that holds: with what rounding may have taken from it.
"""

from collections.abc import Callable
from dataclasses import dataclass, field
from enum import StrEnum
from functools import partial
from typing import Any, NamedTuple, Self

import numpy as np
from numpy.typing import NDArray

from cindy._arrays import Floats, Ints
from cindy._files import json_number
from cindy.least_squares import LeastSquares
from cindy.solver.oracle import Atom, Line, Oracle
from cindy.solver.region import Region

# Gives back a flat iterate.
Snapshot = Callable[[], Floats]
# Flat indices and the values there.
Nonzeros = tuple[NDArray[np.int32], Floats]


class Trace:
    """Snapshots of a run with the number of nonzeros of each, in order.

    All are kept until they hold more nonzeros than `room` together; from then
    on a snapshot must differ in size from the one before by a few per cent, so
    that small supports all stay and large ones thin out. The newest always
    stays until the next comes.
    """

    def __init__(self, room: int) -> None:
        self._room = room
        self._held = 0
        self._spacing = 0.0
        self._entries: list[tuple[int, Snapshot]] = []

    def add(self, size: int, snapshot: Snapshot) -> None:
        """Keep a snapshot of about `size` nonzeros."""
        if self._spacing > 0.0 and len(self._entries) > 1 and self._near(-1, -2):
            self._held -= self._entries.pop()[0]
        self._entries.append((size, snapshot))
        self._held += size
        while self._held > self._room and self._spacing < 1.0:
            self._thin_out()

    def path(self) -> tuple[tuple[Ints, Floats], ...]:
        """(flat indices of the nonzeros, flat iterate), one a support: where it came last."""
        by_support: dict[bytes, tuple[Ints, Floats]] = {}
        for _, snapshot in self._entries:
            flat = snapshot()
            support = np.flatnonzero(flat)
            key = support.tobytes()
            # A support that returns moves to its last place, with the values that the run had there.
            by_support.pop(key, None)
            by_support[key] = (support, flat)
        return tuple(by_support.values())

    def _near(self, position: int, before: int) -> bool:
        size, last = self._entries[position][0], self._entries[before][0]
        return abs(size - last) < self._spacing * last

    def _thin_out(self) -> None:
        # Spacing is relative: among small supports every term counts, among large ones a few per cent do
        # not.
        self._spacing = max(0.01, 1.5 * self._spacing)
        kept = self._entries[:1]
        for entry in self._entries[1:-1]:
            if abs(entry[0] - kept[-1][0]) >= self._spacing * kept[-1][0]:
                kept.append(entry)
        self._entries = [*kept, *self._entries[1:][-1:]]
        self._held = sum([size for size, _ in self._entries])


def way_back(origin: Floats, parts: list[Nonzeros]) -> Snapshot:
    """To the point that differs from the origin in the given parts only."""
    return partial(_restored, origin, parts)


def _restored(origin: Floats, parts: list[Nonzeros]) -> Floats:
    flat = origin.copy()
    for indices, values in parts:
        flat[indices] = values
    return flat


class Status(StrEnum):
    """Why a run ended."""

    CONVERGED = "converged"
    ITERATIONS = "iteration limit"
    TIME = "time limit"
    STOPPED = "stopped by callback"
    STALLED = "stalled"


class Step(NamedTuple):
    """One iteration as the callback sees it: the state before the step is taken.

    gap: Frank-Wolfe gap over the whole region, absolute
    objective: ‖A x − B‖²
    atoms: how many atoms carry weight
    seconds: since the run began
    passes: data read so far, in units of the whole; of sampled rows only

    >>> import numpy as np
    >>> import cindy
    >>> t = np.linspace(0, 6, 200)
    >>> swing = cindy.Trajectory(t, np.stack([np.cos(t), -np.sin(t)], axis=1), ("x", "v"))
    >>> steps = []
    >>> model = cindy.identify(swing, "poly:2", callback=lambda step: steps.append(step.gap), passes=1)
    >>> len(steps) == len(model.result.history)
    True
    """

    iteration: int
    gap: float
    objective: float
    atoms: int
    seconds: float
    passes: float = 0.0


@dataclass(frozen=True, eq=False)
class Result:
    """A feasible point, and how far it can be from the best one.

    No point of the region has an objective below `objective − gap`: that is
    what the Frank-Wolfe gap certifies, whatever the status.

    x: (terms, targets)
    scale: loss at zero, the unit of `tol`
    history: one Step an iteration; the gap of the last is `gap`
    passes: data read, in units of the whole; 0 for a LeastSquares, which holds its data
    """

    x: Floats
    objective: float
    gap: float
    scale: float
    status: Status
    iterations: int
    oracle_calls: int
    seconds: float
    history: tuple[Step, ...] = ()
    trace: Trace | None = field(default=None, repr=False)
    passes: float = 0.0

    @property
    def relative_gap(self) -> float:
        """The gap over the loss at zero."""
        return self.gap / self.scale

    @property
    def converged(self) -> bool:
        return self.status is Status.CONVERGED

    @property
    def path(self) -> tuple[tuple[Ints, Floats], ...]:
        """The iterates along the run, one a support: (flat indices of the nonzeros, x).

        In the order of the run, each with the last values seen on that support;
        long runs thin out large supports (see `Trace`). Worked out at every
        access, from what the run kept.
        """
        if self.trace is None:
            return ((np.flatnonzero(self.x), self.x),)
        steps = [(support, flat.reshape(self.x.shape)) for support, flat in self.trace.path()]
        return (*steps[:-1], (np.flatnonzero(self.x), self.x))


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
        # An inner product is off by at most n eps times the lengths of its two vectors (Cauchy and
        # Schwarz).
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
    # Longer numbers are slow. They are worth it only where rounding is most of the gap and the gap is not
    # yet small enough.
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
    # A positive price leans on the lower bound of its row and a negative one on the upper. Where that bound
    # is infinite the price can prove nothing and is dropped; what is left is still a valid bound.
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
    # Near the optimum ⟨g, x⟩ and ⟨g, s⟩ agree in most digits, and their difference is the gap.
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


@dataclass(frozen=True)
class Run:
    """The certificate of a run, its counts and its history, without the coefficients.

    gap, objective: relative to the loss of the zero model, in the history too
    history: one `Step` (iteration, gap, objective, atoms, seconds) per iteration

    >>> import numpy as np
    >>> import cindy
    >>> t = np.linspace(0, 6, 200)
    >>> swing = cindy.Trajectory(t, np.stack([np.cos(t), -np.sin(t)], axis=1), ("x", "v"))
    >>> run = cindy.identify(swing, "poly:2", passes=1).result
    >>> run.status, run.gap < 1e-5
    ('converged', True)
    """

    gap: float
    objective: float
    status: str
    iterations: int
    oracle_calls: int
    seconds: float
    history: tuple[Step, ...] = ()

    @classmethod
    def of(cls, result: Result) -> Self:
        """The record of a solver's result."""
        counts = (result.iterations, result.oracle_calls, result.seconds)
        history = tuple(
            step._replace(gap=step.gap / result.scale, objective=step.objective / result.scale)
            for step in result.history
        )
        return cls(result.relative_gap, result.objective / result.scale, str(result.status), *counts, history)

    def to_dict(self) -> dict[str, Any]:
        """As plain values."""
        history = {name: [json_number(getattr(s, name)) for s in self.history] for name in Step._fields}
        counts = {
            "status": str(self.status),
            "iterations": self.iterations,
            "oracle_calls": self.oracle_calls,
        }
        numbers = {name: json_number(getattr(self, name)) for name in ("gap", "objective", "seconds")}
        return {**counts, **numbers, "history": history}
