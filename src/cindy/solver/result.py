"""The result of a run: steps, status, the path, and the point with its certificate.

The certificate is the Frank-Wolfe gap as a rigorous bound, with the rounding of its computation included:

1. ‖A s − B‖² ≥ f(x) + ⟨g, s − x⟩ for every point s, by convexity, with g = ∇f(x).
2. The oracle proves ⟨g, s − origin⟩ ≥ level − slope · r for every s within radius r (`Oracle.proved`).
3. Bounds on the rounding of g, f and the inner products are subtracted (`_rounding`; Higham, Accuracy and
   Stability of Numerical Algorithms, 2002, section 3.5).
4. Where rounding dominates, the gradient is computed again in extended precision.

Steps 1 to 3 cost a call of the oracle and a few products with the triangle; step 4 costs many times as much.
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
from cindy.solver.region import Atom, Line, Oracle, Region

# A function that restores a flat iterate.
Snapshot = Callable[[], Floats]
# Flat indices and the values there.
Nonzeros = tuple[NDArray[np.int32], Floats]


class Trace:
    """Snapshots of a run with the number of nonzeros of each, in order.

    All are kept until together they hold more nonzeros than `room`. From then on a snapshot stays only if its
    size differs from the one before by a few per cent, so that small supports all stay and large ones thin
    out. The newest always stays until the next comes.
    """

    def __init__(self, room: int) -> None:
        self._room = room
        self._held = 0
        self._spacing = 0.0
        self._entries: list[tuple[int, Snapshot]] = []

    def add(self, size: int, snapshot: Snapshot) -> None:
        """Keep a snapshot of about `size` nonzeros."""
        if self._spacing > 0.0 and len(self._entries) > 1:
            (before, _), (last, _) = self._entries[-2:]
            if abs(last - before) < self._spacing * before:
                self._held -= self._entries.pop()[0]
        self._entries.append((size, snapshot))
        self._held += size
        while self._held > self._room and self._spacing < 1.0:
            self._thin_out()

    def path(self) -> tuple[tuple[Ints, Floats], ...]:
        """(flat indices of the nonzeros, flat iterate), each support once, where it occurred last."""
        by_support: dict[bytes, tuple[Ints, Floats]] = {}
        for _, snapshot in self._entries:
            flat = snapshot()
            support = np.flatnonzero(flat)
            key = support.tobytes()
            # Without this a support that returns would stay at its first place.
            by_support.pop(key, None)
            by_support[key] = (support, flat)
        return tuple(by_support.values())

    def _thin_out(self) -> None:
        # Spacing is relative: among small supports every term matters, among large ones a few per cent do
        # not.
        self._spacing = max(0.01, 1.5 * self._spacing)
        spaced = self._entries[:1]
        for entry in self._entries[1:-1]:
            if abs(entry[0] - spaced[-1][0]) >= self._spacing * spaced[-1][0]:
                spaced.append(entry)
        self._entries = [*spaced, *self._entries[1:][-1:]]
        self._held = sum([size for size, _ in self._entries])


def way_back(origin: Floats, parts: list[Nonzeros]) -> Snapshot:
    """A snapshot of the point that differs from the origin in the given parts only."""
    return partial(_restored, origin, parts)


def _restored(origin: Floats, parts: list[Nonzeros]) -> Floats:
    flat = origin.copy()
    for indices, values in parts:
        flat[indices] = values
    return flat


class Status(StrEnum):
    """Why a run ended.

    >>> from cindy.solver import Status
    >>> [status.value for status in Status]
    ['converged', 'iteration limit', 'time limit', 'stopped by callback', 'stalled']
    """

    CONVERGED = "converged"
    ITERATIONS = "iteration limit"
    TIME = "time limit"
    STOPPED = "stopped by callback"
    STALLED = "stalled"


class Step(NamedTuple):
    """One iteration as the callback sees it: the state before the iterate moves.

    gap: Frank-Wolfe gap over the whole region, absolute
    objective: ‖A x − B‖²
    atoms: how many atoms carry weight
    seconds: since the run began
    passes: data read so far, in units of the whole; 0 unless the rows are sampled

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
    """A feasible point, and a bound on how much better any other point can be.

    No point of the region has an objective below `objective − gap`, whatever the status: this is what the
    Frank-Wolfe gap certifies.

    x: (terms, targets)
    scale: loss at zero, the unit of `tol`
    history: one Step an iteration; the gap of the last is `gap`
    passes: data read, in units of the whole; 0 for a LeastSquares, which holds its data

    >>> import numpy as np
    >>> from cindy import LeastSquares
    >>> from cindy.solver import Region, conditional_gradient, oracle_for
    >>> objective = LeastSquares.from_rows(np.eye(2), np.array([[3.0], [1.0]]))
    >>> result = conditional_gradient(objective, oracle_for(Region(2, radius=2.0)))
    >>> result.converged, result.x.ravel().tolist(), result.relative_gap < 1e-8
    (True, [2.0, 0.0], True)
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
        """Whether the gap fell below the tolerance."""
        return self.status is Status.CONVERGED

    @property
    def path(self) -> tuple[tuple[Ints, Floats], ...]:
        """The iterates along the run, each support once with its last values: (flat indices of nonzeros, x).

        Long runs keep only some of the large supports (`Trace`). Every access restores the iterates anew.
        """
        if self.trace is None:
            return ((np.flatnonzero(self.x), self.x),)
        steps = [(support, flat.reshape(self.x.shape)) for support, flat in self.trace.path()]
        return (*steps[:-1], (np.flatnonzero(self.x), self.x))


_ROWS = 16
"""Rows converted to extended precision at a time: few beside the whole matrix, enough for fast products."""
_LARGEST = 100_000_000
"""Products beyond which the gradient is not computed in extended precision, which would take seconds."""


@dataclass(frozen=True)
class Sizes:
    """The sizes that bound the rounding of a gradient 2 Aᵀ(A x − B).

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
        # The error of an inner product of n terms is at most n eps times the lengths of its two vectors
        # (Cauchy and Schwarz).
        columns, target, residual = (_lengths(part) for part in parts)
        return cls(columns, target, residual, max(objective.design.shape) + 2)

    def reach(self, x: Floats, unit: float) -> Floats:
        """(targets,) bounds on the error of the length of the residual if products are rounded to `unit`."""
        return np.asarray(self.count * unit * (self.columns @ np.abs(x) + self.target + self.residual))


def _lengths(matrix: Floats) -> Floats:
    """(columns,) lengths; norm() copies a numpy array whole, but a design on a device has nothing else."""
    if type(matrix) is np.ndarray:
        return np.asarray(np.sqrt(np.einsum("ij,ij->j", matrix, matrix)))
    return np.asarray(np.linalg.norm(matrix, axis=0))


def certificate(
    oracle: Oracle, x: Floats, gradient: Floats, sizes: Sizes, *, objective: LeastSquares | None, aim: float
) -> tuple[Atom, float]:
    """An atom, and the certified gap: no point of the region has an objective smaller by more than this.

    It is the largest ⟨g, x − s⟩ over the region (steps 1 and 2 above), plus what rounding can add to it
    (step 3). Step 4 is taken where rounding is more than 1 % of the gap, and the sum is larger than `aim`.

    x: (terms, targets); gradient: (size,), computed at x in double precision
    aim: a gap that is small enough
    """
    radius = oracle.region.radius
    atom, line = oracle.proved(gradient)
    gap = max(-_relative_to(oracle, x, gradient, line).at(radius), 0.0)
    doubt = -_rounding(oracle, x, gradient, sizes, np.float64).at(radius)
    if objective is None or gap + doubt <= aim or doubt <= 0.01 * gap or _too_large(objective):
        return atom, gap + doubt
    # Step 4.
    precise, _ = _in_extended_precision(objective, x)
    atom, line = oracle.proved(precise)
    gap = max(-_relative_to(oracle, x, precise, line).at(radius), 0.0)
    return atom, gap - _rounding(oracle, x, gradient, sizes, np.longdouble).at(radius)


def floor(objective: LeastSquares, oracle: Oracle, x: Floats) -> Line:
    """A line below the loss of every point within radius r that obeys the rows of the oracle's region."""
    sizes = Sizes.of(objective, x)
    kind: type[np.floating[Any]] = np.float64 if _too_large(objective) else np.longdouble
    gradient, value = objective.gradient(x).ravel(), objective.value(x)
    if kind is np.longdouble:
        gradient, value = _in_extended_precision(objective, x)
    rest = _relative_to(oracle, x, gradient, oracle.proved(gradient)[1])
    rounding = _rounding(oracle, x, gradient, sizes, kind)
    # The true residual is r + e with the computed r and ‖e‖ ≤ reach, and the sum of squares is rounded too.
    reach = sizes.reach(x, float(np.finfo(kind).eps))
    doubt = float(np.sum(2.0 * sizes.residual * reach + reach**2))
    doubt += 2.0 * (sizes.count * float(np.finfo(kind).eps) + float(np.finfo(float).eps)) * value
    return Line(value + rest.level + rounding.level - doubt, rest.slope + rounding.slope)


def lower_bound(region: Region, gradient: Floats, origin: Floats, prices: Floats) -> Line:
    """A line below ⟨gradient, x − origin⟩ over the region, from any prices of its rows, by weak duality:

        Σ prices · (bounds − matrix origin) − rest · origin − r · max |rest| / weights

    with rest = gradient − matrixᵀ prices. It is computed in extended precision, and its rounding subtracted.
    """
    wide = np.longdouble
    # A positive price uses the lower bound of its row and a negative one the upper. Where that bound is
    # infinite the price proves nothing and is dropped. The others still give a valid bound.
    slack = np.where(prices > 0, region.lower, region.upper)
    prices = np.where(np.isfinite(slack), prices, 0.0).astype(wide)
    slack = np.where(np.isfinite(slack), slack, 0.0).astype(wide)
    matrix = region.matrix.astype(wide)
    rest = gradient.astype(wide) - matrix.T @ prices
    of_rows = prices * (slack - matrix @ origin.astype(wide))
    unit = (region.rows + region.size + 4) * np.finfo(wide).eps
    size = np.abs(gradient) + abs(matrix).T @ np.abs(prices)
    doubt = np.abs(of_rows).sum() + size @ np.abs(origin)
    doubt += np.abs(prices) @ (np.abs(slack) + abs(matrix) @ np.abs(origin))
    level = of_rows.sum() - rest @ origin - unit * doubt
    slope = np.max((np.abs(rest) + unit * size) / region.weights, initial=0.0)
    # Level is rounded down to double precision and slope up, so that the bound still holds.
    return Line(float(np.nextafter(float(level), -np.inf)), float(np.nextafter(float(slope), np.inf)))


def _too_large(objective: LeastSquares) -> bool:
    return int(objective.design.size) * objective.targets > _LARGEST


def _in_extended_precision(objective: LeastSquares, x: Floats) -> tuple[Floats, float]:
    """2 Aᵀ(A x − B), flat, and ‖A x − B‖², a few rows at a time, so that no copy of A is made."""
    wide = np.longdouble
    point, total, squares = x.astype(wide), np.zeros(x.shape, dtype=wide), wide(0.0)
    for begin in range(0, len(objective.design), _ROWS):
        rows = objective.design[begin : begin + _ROWS].astype(wide)
        residual = rows @ point - objective.target[begin : begin + _ROWS]
        total += rows.T @ residual
        squares += np.sum(residual**2)
    return np.asarray(2.0 * total, dtype=np.float64).ravel(), float(squares)


def _relative_to(oracle: Oracle, x: Floats, gradient: Floats, line: Line) -> Line:
    """A line below ⟨gradient, s − x⟩, from one below ⟨gradient, s − origin⟩."""
    # Near the optimum ⟨g, x⟩ and ⟨g, s⟩ agree in most digits, and the gap is their difference.
    ahead = gradient.astype(np.longdouble) @ (x.ravel() - oracle.origin)
    return Line(line.level - float(ahead), line.slope)


def _rounding(
    oracle: Oracle, x: Floats, gradient: Floats, sizes: Sizes, kind: type[np.floating[Any]]
) -> Line:
    """A line below the error of ⟨g, s − x⟩ if products are rounded to a kind of number, and g to doubles."""
    region, origin = oracle.region, oracle.origin
    each = 2.0 * np.outer(sizes.columns, sizes.reach(x, float(np.finfo(kind).eps))).ravel()
    each += np.finfo(np.float64).eps * np.abs(gradient)
    # |s − x| ≤ |x − origin| + |origin| + |s|, and Σ each · |s| is at most radius · max each / weights.
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
        """The record as plain values, for a file."""
        history = {name: [json_number(getattr(step, name)) for step in self.history] for name in Step._fields}
        counts = {name: getattr(self, name) for name in ("iterations", "oracle_calls")}
        numbers = {name: json_number(getattr(self, name)) for name in ("gap", "objective", "seconds")}
        return {"status": str(self.status), **counts, **numbers, "history": history}
