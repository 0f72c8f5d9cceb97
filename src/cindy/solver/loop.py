"""The conditional gradient method (Frank and Wolfe, 1956): the one loop of every run of the solver.

It minimises f(x) = ‖A x − B‖² over a region that is known only through an oracle. With g = ∇f(x):

1. The oracle gives the atom s of the region with the least ⟨g, s⟩ (`oracle_for`).
2. The gap ⟨g, x − s⟩ bounds f(x) − min f from above, by convexity. It costs nothing beyond step 1.
3. If the gap is small enough or a limit is reached, prove the gap with rounding included (`certificate`) and
   stop.
4. Otherwise the correction moves x with the help of s, and the loop begins again.

The correction decides how x is stored and moved (`correction.py`; `epochs.py` for rows that are read in
samples). An iteration costs one call of the oracle and one gradient, a product with the triangle of the data.
"""

import time
import warnings
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from cindy._arrays import Floats
from cindy._check import floats, instance, integer, positive, short
from cindy.errors import ConvergenceWarning, DataError, InfeasibleError
from cindy.least_squares import LeastSquares
from cindy.solver.corners import presolve
from cindy.solver.correction import Correction, Direct
from cindy.solver.epochs import Epochs
from cindy.solver.iterate import Iterate
from cindy.solver.linear_program import LinearProgram, contradictory, why_infeasible
from cindy.solver.region import Atom, Ball, Oracle, Region
from cindy.solver.result import Result, Sizes, Status, Step, Trace, certificate
from cindy.solver.sampled_rows import SampledRows

Objective = LeastSquares | SampledRows
# The point of a run on the one, and on the other.
Moving = Iterate | Epochs

PATIENCE = 50
"""Iterations in a row with neither a measurable decrease nor a narrower gap, after which the run has stalled:
in its last digits the objective may rise and fall by turns for ever (test_laws.py)."""
MEASURABLE = 4 * np.finfo(float).eps
"""A relative decrease of the objective by less than this is rounding."""


def oracle_for(region: Region) -> Oracle:
    """The cheapest oracle that is exact on the region.

    - Without rows: the closed form of the ball (`Ball`).
    - Rows that fall apart into small homogeneous blocks (ties, conservation laws, signs): the least value
      over the corners of the blocks, which `presolve` lists.
    - Any other rows: a linear program (`LinearProgram`).

    >>> import numpy as np
    >>> from cindy.solver import Region, oracle_for
    >>> oracle = oracle_for(Region(3, radius=2.0))
    >>> atom = oracle.minimise(np.array([0.5, -3.0, 1.0]))  # where ⟨gradient, x⟩ is least
    >>> atom.indices.tolist(), atom.values.tolist()
    ([1], [2.0])
    """
    instance(region, Region, "oracle_for: `region`", "a Region, such as Region(size, radius)")
    if region.rows == 0:
        return Ball(region)
    try:
        rays = presolve(region)
    except InfeasibleError as error:
        if not contradictory(region):
            raise
        raise InfeasibleError(why_infeasible(region)) from error
    return LinearProgram(region) if rays is None else rays


def conditional_gradient(
    objective: LeastSquares | SampledRows,
    oracle: Oracle,
    correction: Correction | None = None,
    *,
    tol: float = 1e-8,
    max_iter: int = 10_000,
    max_seconds: float | None = None,
    callback: Callable[[Step], bool | None] | None = None,
    start: Floats | None = None,
    quiet: bool = False,
) -> Result:
    """Minimise ‖A x − B‖² over the region of the oracle, from `start` or the oracle's origin.

    The run ends when the Frank-Wolfe gap is at most `tol` times the loss at zero, at a limit, when the
    callback returns False, or when rounding allows no further progress. Limits and rounding also give a
    ConvergenceWarning, unless `quiet`. The final gap always holds for the whole region.

    >>> from cindy.solver import Region, oracle_for
    >>> f = LeastSquares.from_rows(np.eye(3), np.array([[3.0], [1.0], [0.0]]))
    >>> conditional_gradient(f, oracle_for(Region(3, 2.0))).x.ravel()
    array([2., 0., 0.])
    """
    began = time.perf_counter()
    check_problem(objective, oracle, correction, "conditional_gradient")
    _check_limits(tol, max_iter, max_seconds, callback)
    scale, iterate, advance = _begin(objective, oracle, correction or Direct(), tol, start)
    numbers = iterate.x.size if isinstance(objective, SampledRows) else objective.factor.size
    history, trace = list[Step](), Trace(max(numbers // 2, 50_000))
    patience, unproved = _Patience(), np.inf
    while True:
        # Steps 1 and 2.
        atom = oracle.minimise(iterate.gradient)
        gap = max(iterate.gap(atom), 0.0)
        step = _step(iterate, len(history), gap, began)
        status = _status(step, tol * scale, max_iter, max_seconds, patience.idle)
        if status is not None and not iterate.honest:
            # Step 3. The certificate needs gradient and objective computed from the point itself.
            iterate.refresh()
            continue
        if status is Status.CONVERGED and patience.strained and not _falls(iterate.objective, unproved):
            # The proof failed at this objective because of rounding, and costs many calls: do not repeat it.
            gap, status = history[-1].gap, None
            step = step._replace(gap=gap)
        elif status is not None:
            # The proof includes rounding. If the gap is then too large, the run goes on with its atom.
            atom, gap = _proved(objective, oracle, iterate, tol * scale)
            step = step._replace(gap=gap)
            status = _status(step, tol * scale, max_iter, max_seconds, patience.idle)
            unproved = iterate.objective
        history.append(step)
        trace.add(step.atoms, iterate.snapshot())
        if callback is not None and callback(step) is False and status is None:
            status, history[-1] = Status.STOPPED, _last(objective, oracle, iterate, step)
        if status is not None:
            break
        # Step 4.
        estimated, iterate = iterate.estimated, advance(atom, gap)
        patience.spend(step, gap, iterate, estimated)
    return _warned(_result(iterate.x.copy(), tuple(history), scale, status, began, trace), tol, quiet)


@dataclass
class _Patience:
    """Counts steps in a row without measurable progress.

    idle: their number; narrowest, lowest: the narrowest gap and the lowest objective so far
    """

    idle: int = 0
    narrowest: float = np.inf
    lowest: float = np.inf

    @property
    def strained(self) -> bool:
        """Whether the last step made no progress, but the run has not stalled yet."""
        return 0 < self.idle < PATIENCE

    def spend(self, step: Step, gap: float, iterate: Moving, estimated: bool) -> None:
        """Count a step. Progress is judged by two exact objectives, not where one is a sample's estimate."""
        if estimated or iterate.estimated:
            return
        # The comparison is with the lowest objective: rounding lets the last one rise and fall by turns.
        self.lowest = min(self.lowest, step.objective)
        moves = gap < self.narrowest or _falls(iterate.objective, self.lowest)
        self.idle, self.narrowest = 0 if moves else self.idle + 1, min(self.narrowest, gap)


def _step(iterate: Moving, number: int, gap: float, began: float) -> Step:
    seconds = time.perf_counter() - began
    return Step(number, gap, iterate.objective, iterate.count, seconds, iterate.passes)


def _falls(objective: float, before: float) -> bool:
    """Whether the objective has decreased by more than rounding."""
    return bool(objective < (1.0 - MEASURABLE) * before)


def _last(objective: Objective, oracle: Oracle, iterate: Moving, step: Step) -> Step:
    """The step where a callback stops the run, with gap and objective computed from the point itself."""
    # The first refresh ends an epoch at the best point of a line, whose gradient is a combination of two. The
    # second computes the gradient at that point.
    for _ in range(2):
        if not iterate.honest:
            iterate.refresh()
    _, gap = _proved(objective, oracle, iterate, 0.0)
    return step._replace(gap=gap, objective=iterate.objective, atoms=iterate.count, passes=iterate.passes)


def gap_at(objective: LeastSquares | SampledRows, oracle: Oracle, x: Floats) -> float:
    """The Frank-Wolfe gap at any feasible x, (terms, targets): no point of the region is better by more.

    >>> import numpy as np
    >>> from cindy.solver import Region, gap_at, oracle_for
    >>> objective = LeastSquares.from_rows(np.eye(2), np.array([[3.0], [1.0]]))
    >>> round(gap_at(objective, oracle_for(Region(2, radius=2.0)), np.zeros((2, 1))), 6)
    12.0
    """
    check_problem(objective, oracle, None, "gap_at")
    point = _point(x, objective, "gap_at: `x`")
    if isinstance(objective, SampledRows):
        epochs = Epochs(objective, oracle, Direct(), 1.0)
        epochs.begin([(Atom.at(point.ravel(), oracle.origin), 1.0)])
        return _proved(objective, oracle, epochs, 0.0)[1]
    gradient = objective.gradient(point).ravel()
    sizes = Sizes.of(objective, point)
    return certificate(oracle, point, gradient, sizes, objective=objective, aim=0.0)[1]


def _point(x: Floats, objective: Objective, where: str) -> Floats:
    """A point that was given, of shape (terms, targets)."""
    point = floats(x, where, ndim=2)
    shape = (objective.terms, objective.targets)
    if point.shape != shape:
        raise DataError(f"{where} must have shape {shape}, but has {point.shape}.")
    return point


def _proved(objective: Objective, oracle: Oracle, iterate: Moving, aim: float) -> tuple[Atom, float]:
    """The certificate of an honest iterate."""
    if isinstance(iterate, Epochs):
        return certificate(oracle, iterate.x, iterate.gradient, iterate.sizes(), objective=None, aim=aim)
    assert isinstance(objective, LeastSquares)
    sizes = Sizes.of(objective, iterate.x)
    return certificate(oracle, iterate.x, iterate.gradient, sizes, objective=objective, aim=aim)


def _begin(
    objective: Objective,
    oracle: Oracle,
    correction: Correction,
    tol: float,
    start: Floats | None,
) -> tuple[float, Moving, Callable[[Atom, float], Moving]]:
    """The unit of the tolerance, the first iterate, and the function that moves it after each oracle call."""
    atoms = _start(oracle, objective, start)
    if isinstance(objective, SampledRows):
        epochs = Epochs(objective, oracle, correction, tol)
        if atoms:
            epochs.begin(atoms)
        return epochs.scale, epochs, epochs.advance
    scale = _scale(objective, oracle)
    return scale, *correction.begin(objective, oracle, tol * scale, atoms)


def check_problem(objective: Objective, oracle: Oracle, correction: Correction | None, where: str) -> None:
    """Raise an error unless these are what a run needs, and fit together."""
    example = "LeastSquares.from_rows(design, target) or SampledRows(design, target)"
    instance(objective, (LeastSquares, SampledRows), f"{where}: `objective`", example)
    instance(oracle, Oracle, f"{where}: `oracle`", "an oracle, such as oracle_for(region)")
    if correction is not None:
        instance(correction, Correction, f"{where}: `correction`", "one such as Direct() or Blended()")
    if oracle.region.size != objective.terms * objective.targets:
        raise DataError(
            f"{where}: the region has {oracle.region.size} coefficients, but the objective has "
            f"{objective.terms} terms × {objective.targets} targets."
        )
    if isinstance(objective, LeastSquares):
        floats(objective.factor, f"{where}: the factor of the objective", ndim=2)


def _check_limits(tol: float, max_iter: int, max_seconds: float | None, callback: object) -> None:
    positive(tol, "conditional_gradient: `tol`")
    integer(max_iter, "conditional_gradient: `max_iter`", least=0)
    if max_seconds is not None:
        positive(max_seconds, "conditional_gradient: `max_seconds`")
    if callback is not None and not callable(callback):
        raise DataError(
            f"conditional_gradient: `callback` must be a function of a Step, but is {short(callback)}."
        )


def _start(oracle: Oracle, objective: Objective, start: Floats | None) -> list[tuple[Atom, float]]:
    """The start as weighted atoms; none for the origin."""
    if start is None:
        return []
    point = _point(start, objective, "conditional_gradient: `start`")
    # Atoms cannot be combined to a point outside, and the gap would mean nothing there.
    violation = oracle.region.violation(point)
    if violation > 1e-9 * max(1.0, oracle.region.radius):
        raise DataError(
            f"conditional_gradient: `start` leaves the region by {violation:.3g}. Start inside it."
        )
    return oracle.decompose(point.ravel(), objective.targets)


def _scale(objective: LeastSquares, oracle: Oracle) -> float:
    """The loss at zero; where that is zero, the loss at the origin of the region."""
    # Users judge a tolerance by the loss at zero. It vanishes where the targets are zero, but a region that
    # excludes zero still has something to minimise there.
    origin = oracle.origin.reshape(objective.terms, objective.targets)
    return float(np.sum(objective.target**2)) or objective.value(origin) or 1.0


def _result(
    x: Floats, history: tuple[Step, ...], scale: float, status: Status, began: float, trace: Trace
) -> Result:
    last = history[-1]
    return Result(
        x=x,
        objective=last.objective,
        gap=last.gap,
        scale=scale,
        status=status,
        iterations=last.iteration,
        oracle_calls=len(history),
        seconds=time.perf_counter() - began,
        history=history,
        trace=trace,
        passes=last.passes,
    )


def _status(step: Step, target: float, max_iter: int, max_seconds: float | None, idle: int) -> Status | None:
    if step.gap <= target:
        return Status.CONVERGED
    if idle >= PATIENCE:
        return Status.STALLED
    if step.iteration >= max_iter:
        return Status.ITERATIONS
    if max_seconds is not None and step.seconds >= max_seconds:
        return Status.TIME
    return None


def _warned(result: Result, tol: float, quiet: bool) -> Result:
    if quiet or result.status in (Status.CONVERGED, Status.STOPPED):
        return result
    advice = {
        Status.ITERATIONS: "Raise `max_iter`, or loosen `tol`.",
        Status.TIME: "Raise `max_seconds`, or loosen `tol`.",
        Status.STALLED: "Rounding allows no further progress at this radius: loosen `tol`.",
    }[result.status]
    warnings.warn(
        f"conditional_gradient ended ({result.status}) after {result.iterations} iterations with a relative "
        f"gap of {result.relative_gap:.2e}, above the tolerance {tol:.2e}. {advice}",
        ConvergenceWarning,
        stacklevel=3,
    )
    return result
