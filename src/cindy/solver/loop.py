"""The conditional gradient method (Frank and Wolfe, 1956): the one loop of every run of the solver.

It minimises f(x) = ‖A x − B‖² over a region that only an oracle knows. With g = ∇f(x):

1. The oracle gives the atom s of the region with the least ⟨g, s⟩.
2. The gap ⟨g, x − s⟩ bounds f(x) − min f from above, by convexity. It costs nothing beyond step 1.
3. Where the gap, or a limit, says so: prove the gap with rounding taken into account (`certificate`), stop.
4. Otherwise the correction moves x with the help of s, and the loop begins again.

How x is kept and moved is the correction's matter (`correction.py`); `epochs.py` has rows that are read in
samples. An iteration costs one call of the oracle and one gradient, a product with the triangle of the data.
"""

import time
import warnings
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from cindy._arrays import Floats
from cindy._check import floats, instance, integer, positive, short
from cindy.errors import ConvergenceWarning, DataError
from cindy.least_squares import LeastSquares
from cindy.solver.correction import Correction, Direct
from cindy.solver.epochs import Epochs
from cindy.solver.iterate import Iterate
from cindy.solver.oracle import Atom, Oracle
from cindy.solver.result import Result, Sizes, Status, Step, Trace, certificate
from cindy.solver.sampled_rows import SampledRows

PATIENCE = 50
"""Iterations in a row with neither a measurable decrease nor a narrower gap, after which rounding has the
upper hand. In its last digits the objective may rise and fall by turns for ever (test_laws.py)."""
MEASURABLE = 4 * np.finfo(float).eps
"""A fall of the objective by less, relative to it, is rounding."""


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

    Ends when the Frank-Wolfe gap is at most `tol` times the loss at zero, at a limit, when the callback
    returns False, or when rounding allows no further progress; the status says which, and limits and
    rounding also give a ConvergenceWarning, unless `quiet`. The gap holds for the whole region in every
    case. Of SampledRows the steps between two passes have estimates of it; the last never.

    >>> from cindy.solver import Region, oracle_for
    >>> f = LeastSquares.from_rows(np.eye(3), np.array([[3.0], [1.0], [0.0]]))
    >>> conditional_gradient(f, oracle_for(Region(3, 2.0))).x.ravel()
    array([2., 0., 0.])
    """
    began = time.perf_counter()
    check_problem(objective, oracle, correction, "conditional_gradient")
    _check_limits(tol, max_iter, max_seconds, callback)
    scale, iterate, advance = _begin(objective, oracle, correction or Direct(), tol, start)
    history, trace = list[Step](), Trace(max(_size(objective) // 2, 50_000))
    patience, unproved = _Patience(), np.inf
    while True:
        atom = oracle.minimise(iterate.gradient)
        gap = max(iterate.gap(atom), 0.0)
        step = _step(iterate, len(history), gap, began)
        status = _status(step, tol * scale, max_iter, max_seconds, patience.idle)
        if status is not None and not iterate.honest:
            # Step 3. The certificate rests on the point itself, not on how it was found.
            iterate.refresh()
            continue
        if status is Status.CONVERGED and patience.strained and not _falls(iterate.objective, unproved):
            # What could not be proved at this objective was rounding, and a proof costs many calls.
            gap, status = history[-1].gap, None
            step = step._replace(gap=gap)
        elif status is not None:
            # The proof counts rounding in, and may find an atom that the oracle had lost: then on with it.
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
    result = _result(iterate.x.copy(), tuple(history), scale, status, began, trace)
    return _warned(result, tol, quiet)


@dataclass
class _Patience:
    """Steps in a row without measurable progress; the narrowest gap and the lowest objective so far."""

    idle: int = 0
    narrowest: float = np.inf
    lowest: float = np.inf

    @property
    def strained(self) -> bool:
        """Whether some of it is gone, and not all."""
        return 0 < self.idle < PATIENCE

    def spend(self, step: Step, gap: float, iterate: Iterate | Epochs, estimated: bool) -> None:
        """Progress is judged between two exact objectives, and not where one is a sample's estimate."""
        if estimated or iterate.estimated:
            return
        # Beside the lowest so far, not the last: rounding lets the objective rise and fall by turns.
        self.lowest = min(self.lowest, step.objective)
        moves = gap < self.narrowest or _falls(iterate.objective, self.lowest)
        self.idle, self.narrowest = 0 if moves else self.idle + 1, min(self.narrowest, gap)


def _step(iterate: Iterate | Epochs, number: int, gap: float, began: float) -> Step:
    seconds = time.perf_counter() - began
    return Step(number, gap, iterate.objective, iterate.count, seconds, iterate.passes)


def _falls(objective: float, before: float) -> bool:
    """By more than rounding."""
    return bool(objective < (1.0 - MEASURABLE) * before)


def _last(
    objective: LeastSquares | SampledRows, oracle: Oracle, iterate: Iterate | Epochs, step: Step
) -> Step:
    """The step again, as what it says of a point that is made honest: a run may be stopped anywhere."""
    # The first refresh ends an epoch at the best point of a line, whose gradient is a combination of two;
    # the second computes it at that point.
    if not iterate.honest:
        iterate.refresh()
    if not iterate.honest:
        iterate.refresh()
    _, gap = _proved(objective, oracle, iterate, 0.0)
    return step._replace(gap=gap, objective=iterate.objective, atoms=iterate.count, passes=iterate.passes)


def gap_at(objective: LeastSquares | SampledRows, oracle: Oracle, x: Floats) -> float:
    """The Frank-Wolfe gap at any feasible x, (terms, targets): no point of the region is better by more."""
    check_problem(objective, oracle, None, "gap_at")
    point = floats(x, "gap_at: `x`", ndim=2)
    if point.shape != (objective.terms, objective.targets):
        raise DataError(
            f"gap_at: `x` must have shape {(objective.terms, objective.targets)}, but has {point.shape}."
        )
    if isinstance(objective, SampledRows):
        epochs = Epochs(objective, oracle, Direct(), 1.0)
        epochs.begin([(Atom.at(point.ravel(), oracle.origin), 1.0)])
        return _proved(objective, oracle, epochs, 0.0)[1]
    gradient = objective.gradient(point).ravel()
    sizes = Sizes.of(objective, point)
    return certificate(oracle, point, gradient, sizes, objective=objective, aim=0.0)[1]


def _proved(
    objective: LeastSquares | SampledRows, oracle: Oracle, iterate: Iterate | Epochs, aim: float
) -> tuple[Atom, float]:
    """The certificate of an honest iterate."""
    if isinstance(iterate, Epochs):
        return certificate(oracle, iterate.x, iterate.gradient, iterate.sizes(), objective=None, aim=aim)
    assert isinstance(objective, LeastSquares)
    sizes = Sizes.of(objective, iterate.x)
    return certificate(oracle, iterate.x, iterate.gradient, sizes, objective=objective, aim=aim)


def _begin(
    objective: LeastSquares | SampledRows,
    oracle: Oracle,
    correction: Correction,
    tol: float,
    start: Floats | None,
) -> tuple[float, Iterate | Epochs, Callable[[Atom, float], Iterate | Epochs]]:
    """The unit of the tolerance, an iterate, and the move that follows each oracle call."""
    atoms = _start(oracle, objective, start)
    if isinstance(objective, SampledRows):
        epochs = Epochs(objective, oracle, correction, tol)
        if atoms:
            epochs.begin(atoms)
        return epochs.scale, epochs, epochs.advance
    scale = _scale(objective, oracle)
    return scale, *correction.begin(objective, oracle, tol * scale, atoms)


def _size(objective: LeastSquares | SampledRows) -> int:
    """How many numbers describe the objective."""
    if isinstance(objective, SampledRows):
        return objective.terms * objective.targets
    return objective.factor.size


def check_problem(
    objective: LeastSquares | SampledRows, oracle: Oracle, correction: Correction | None, where: str
) -> None:
    """Raise unless these are what a run needs, and fit together."""
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


def _start(
    oracle: Oracle, objective: LeastSquares | SampledRows, start: Floats | None
) -> list[tuple[Atom, float]]:
    """The start as weighted atoms; none for the origin."""
    if start is None:
        return []
    point = floats(start, "conditional_gradient: `start`", ndim=2)
    if point.shape != (objective.terms, objective.targets):
        raise DataError(
            f"conditional_gradient: `start` must have shape {(objective.terms, objective.targets)}, "
            f"but has {point.shape}."
        )
    # A start outside would make the gap meaningless: atoms could not be combined to it.
    violation = oracle.region.violation(point)
    if violation > 1e-9 * max(1.0, oracle.region.radius):
        raise DataError(
            f"conditional_gradient: `start` leaves the region by {violation:.3g}. Start inside it."
        )
    return oracle.decompose(point.ravel(), objective.targets)


def _scale(objective: LeastSquares, oracle: Oracle) -> float:
    """The loss at zero; where that is zero, the loss at the origin of the region."""
    # The loss at zero is what a user can judge a tolerance by. It vanishes where the targets are zero, and
    # a region that excludes zero still has something to minimise there.
    at_zero = float(np.sum(objective.target**2))
    if at_zero > 0:
        return at_zero
    at_origin = objective.value(oracle.origin.reshape(objective.terms, objective.targets))
    return at_origin if at_origin > 0 else 1.0


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
