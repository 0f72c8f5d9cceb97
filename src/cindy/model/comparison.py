"""A model beside data: residuals sample by sample, R², and solutions for as long as the model can predict.

Trajectories and fields each have their own unit: samples of a state, or weak rows of a field.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from cindy._arrays import Floats, one_thread
from cindy._check import integer, one_of
from cindy.calculus import derivative
from cindy.data import (
    Field,
    Trajectory,
    as_fields,
    as_trajectories,
    beginning,
    excerpt,
    is_fields,
    noise_level,
    spread_over,
)
from cindy.errors import DataError
from cindy.formulation import Differential, Formulation
from cindy.least_squares import LeastSquares
from cindy.model.denoised import completed, matched
from cindy.model.equations import Equations
from cindy.model.field_simulation import simulate_field
from cindy.model.matching import as_states, inside_domain
from cindy.model.simulation import Limits
from cindy.model.solution import Solution, solutions, solved_along, stretches_of
from cindy.summary import accumulate


def matched_fields(model: Equations, data: Any, where: str) -> list[Field]:
    """Whatever a user may hold, as fields with the variables of the model; or an error."""
    if not is_fields(data):
        raise DataError(f"{where}: a model of fields needs a Field, or a list of them.")
    fields = as_fields(data)
    first = fields[0]
    if (first.states, first.inputs) != (model.states, model.inputs):
        about, held = (", ".join(names) for names in (model.variables, first.variables))
        raise DataError(f"{where}: the model is about {about}, but the fields hold {held}.")
    return fields


def _score_fields(model: Equations, data: Any, kind: str, *, window: int | None) -> float:
    """R², the mean over the fields; see `Model.score`."""
    fields = matched_fields(model, data, "score")
    if kind == "derivative":
        raise DataError(
            'score: no derivative of a field is estimated. Use kind="equation", which integrates against '
            'test functions, or kind="trajectory".'
        )
    if kind == "equation":
        return explained_rows(model, field_rows_of(model, fields)[1])
    if window is not None:
        integer(window, "score: `window`", least=2)
    # Sums over all fields before the ratio: a short field must not count as much as a long one.
    rest, whole = np.zeros(len(model.states)), np.zeros(len(model.states))
    for field in fields:
        solution = solved_field(model, field, window=window)
        for j, state in enumerate(model.states):
            measured, solved = field[state], solution[state]
            if np.isnan(solved).any():
                return -np.inf
            rest[j] += np.nansum((measured - solved) ** 2)
            whole[j] += np.nansum((measured - np.nanmean(measured)) ** 2)
    return float(np.mean(1.0 - rest / np.where(whole > 0, whole, 1.0)))


def field_rows_of(model: Equations, fields: Sequence[Field]) -> tuple[Formulation, LeastSquares]:
    """The form, and the rows of the fields in it, as one objective."""
    summary = accumulate(list(fields), model.basis, formulation=model.formulation, blocks=1)
    return summary.formulation, summary.total


def explained_rows(model: Equations, total: LeastSquares) -> float:
    """R² of equations in the rows of fields, whose mean test functions take out; the mean over the states."""
    left = np.sum((total.design @ model.coef - total.target) ** 2, axis=0)
    whole = np.sum(total.target**2, axis=0)
    return float(np.mean(1.0 - np.divide(left, whole, out=np.zeros(len(left)), where=whole > 0)))


def solved_field(model: Equations, field: Field, *, window: int | None = None) -> dict[str, Floats]:
    """The solution at the times of a field, by state; NaN after a blow-up.

    It starts from the smoothed field, where nothing is missing, since noise in the start would be carried
    along; afresh every `window` samples if given.
    """
    holes = any(np.isnan(field[state]).any() for state in field.states)
    start = field if holes else field.smoothed()
    values = {state: np.full(field.shape, np.nan) for state in field.states}
    length = len(field) if window is None else window
    for low in range(0, len(field), length):
        high = min(low + length, len(field))
        begun = start.part(low, high)
        solution = simulate_field(model, begun, field.t[low:high], limits=Limits())
        for state in field.states:
            values[state][..., low : low + len(solution)] = solution[state]
    return values


@dataclass(frozen=True, eq=False)
class Residual:
    """Data less equations, in the form the model was fitted in, on one window without gaps.

    trajectory: the place of its trajectory in the data
    t: (n,) times; values: (n, states), in the units of the states for the integral form, of their rates
        for the differential one
    """

    trajectory: int
    t: Floats
    values: Floats


def residuals(model: Equations, trajectories: Any) -> list[Residual]:
    """The residuals of every window of the data, in order.

    In the integral form a window has an initial state of its own, the one that leaves the least residual.

    >>> from cindy.basis import Polynomial
    >>> from cindy.model import Model
    >>> t = np.linspace(0, 2, 50)
    >>> decay = Model([[0.0], [-1.0]], Polynomial(1), ("x",))
    >>> [one] = residuals(decay, Trajectory(t, np.exp(-t), ("x",)))
    >>> one.values.shape, bool(abs(one.values).max() < 1e-8)
    ((50, 1), True)
    """
    data = inside_domain(model, completed(model, matched(model, trajectories, "residuals")))[0]
    form = model.formulation.fit_to(data)
    windows_left: list[Residual] = []
    for i, run in enumerate(data):
        for segment in run.segments():
            if len(segment) >= form.min_samples:
                # A weight says how much a row counts, not how large its residual is.
                plain = replace(segment, weight=1.0)
                measured, modelled = form.compared(plain, model.basis, model.coef)
                windows = form.at_samples(plain, measured - modelled)
                windows_left.extend(Residual(i, t, values) for t, values in windows)
    if not windows_left:
        raise DataError("residuals: no trajectory has enough complete samples in a row.")
    return windows_left


def autocorrelation(windows: Sequence[Residual], lags: int) -> Floats:
    """(lags + 1, states): the correlation of residuals that many samples apart within a window.

    NaN where no window is long enough, or nothing varies.
    """
    states = windows[0].values.shape[1]
    products, counts = np.zeros((lags + 1, states)), np.zeros((lags + 1, states))
    for window in windows:
        n = len(window.values)
        for lag in range(min(lags, n - 1) + 1):
            # Each lag has a mean of its own number of pairs, so that gaps do not make correlations fall
            # off.
            pairs = window.values[: n - lag] * window.values[lag:]
            products[lag] += np.nansum(pairs, axis=0)
            counts[lag] += np.count_nonzero(np.isfinite(pairs), axis=0)
    with np.errstate(divide="ignore", invalid="ignore"):
        means = products / counts
        return np.asarray(means / means[0])


@dataclass(frozen=True)
class _Horizon:
    """For how long a solution counts as following the data."""

    follows: float = 0.9
    """R² of every state, as a share of what noise leaves to explain, above which solutions run through."""
    off: float = 0.5
    """Of the spread, beyond the noise: a solution that is further off has left the data, at R² = 0.75."""
    shortest: int = 20
    """Samples of a window, at least: in fewer, any curve follows the data."""
    shortest_steps: int = 6
    """The same for maps, each sample of which is a step of the law: chaotic ones forget their start in
    ten."""
    tries: int = 3
    """Halvings of the window: an eighth of the time over which solutions seem to follow."""
    most_samples: int = 20_000
    """Of all runs, that residuals are looked at: more would not change what is said of a model."""
    most_looked_at: int = 300
    """Runs, likewise: of very many short ones each costs as much as a long one."""
    most_runs: int = 2
    most_solved: int = 200
    """Runs, and samples of each, whose R² a summary and a report state: a fraction of a second."""


_HORIZON = _Horizon()


@dataclass(frozen=True, eq=False)
class Comparison:
    """Solutions beside stretches of data.

    solutions: in order; window: samples after which they start afresh; None where they run through
    span: the time that a solution lasts, at most
    explained: (states,) R² of the solutions; through: the same without starting afresh; −∞ after a blow-up
    stopped: why solutions that run through ended early, in sentences
    allowed: (states,) R² that the noise in the data leaves to the best of solutions
    """

    solutions: tuple[Solution, ...]
    window: int | None
    span: float
    explained: Floats
    through: Floats
    stopped: tuple[str, ...]
    allowed: Floats


@one_thread()
def compare(model: Equations, data: Sequence[Trajectory]) -> Comparison:
    """Solutions from fitted starts, afresh after the time over which the model can predict.

    That time is the median over the solutions of how long each stays within half of the spread of the data,
    beyond their noise; it is halved where solutions of that length do not follow either.
    """
    least, stretches = 4 if model.order == 2 else 2, stretches_of(completed(model, data))
    # A stretch that is too short to start from has nothing to be compared with; an equation of second order
    # needs a rate to start from, which takes a few samples.
    short = {stretch.trajectory for stretch in stretches if len(stretch.samples) < least}
    comparable = [stretch for stretch in stretches if stretch.trajectory not in short]
    whole = tuple(solved_along(model, comparable))
    states = len(model.states)
    explained = through = _explained(whole, states)
    # Each reason once, however many solutions ended by it.
    stopped = tuple(dict.fromkeys(solved.simulated.stopped for solved in whole if solved.simulated.stopped))
    best, window = whole, None
    allowed = _explainable(whole, states)
    enough = _HORIZON.follows * allowed
    if np.any(explained < enough) and whole:
        few = _HORIZON.shortest_steps if model.formulation.discrete else _HORIZON.shortest
        # The windows of the integral form are as long as the motion allows a solution to be compared.
        shortest = max(getattr(model.formulation, "window", 0) or 0, few)
        # The median over solutions: one that leaves early, by a bad start, does not decide for all.
        length = int(np.median([_follows(solved) for solved in whole]))
        longest = max(len(solved.measured) for solved in whole)
        for _ in range(_HORIZON.tries):
            length = max(length, min(shortest, longest))
            if length >= longest:
                break
            again = tuple(solved_along(model, comparable, window=length))
            if np.min(_explained(again, states)) > np.min(explained):
                best, window, explained = again, length, _explained(again, states)
            if np.all(explained >= enough) or length == shortest:
                break
            length //= 2
    span = max((float(solved.measured.t[-1] - solved.measured.t[0]) for solved in best), default=np.nan)
    return Comparison(best, window, span, explained, through, stopped, allowed)


def excerpt_of(data: Sequence[Trajectory]) -> list[Trajectory]:
    """The part of the data that models are judged by."""
    return excerpt(spread_over(data, _HORIZON.most_looked_at), _HORIZON.most_samples)


def compare_few(model: Equations, data: Sequence[Trajectory]) -> tuple[Comparison, int]:
    """Solutions beside the beginnings of a few runs, and how many runs these are.

    The summary, the command line and the report all state the R² of this comparison.
    """
    few = completed(model, spread_over(excerpt_of(data), _HORIZON.most_runs))
    return compare(model, [beginning(run, _HORIZON.most_solved) for run in few]), len(few)


def _follows(solution: Solution) -> int:
    """Samples over which a solution stays with the data, in the root mean square over a few of them."""
    spread = solution.measured.x.std(axis=0)
    spread = np.where(spread > 0, spread, np.inf)
    off = (solution.simulated.x - solution.measured.x[: len(solution.simulated)]) / spread
    allowed = (
        np.hypot(_HORIZON.off, float(np.max(noise_level(solution.measured) / spread)))
        if len(solution.measured) >= 8
        else _HORIZON.off
    )
    few = max(3, len(solution.measured) // 50)
    # A running mean: one outlier is no departure, and a solution that crosses the data by chance does not
    # follow.
    size = np.convolve(np.mean(off**2, axis=1), np.ones(few) / few, mode="same")
    lost = np.flatnonzero(size > allowed**2)
    return int(lost[0]) if len(lost) else len(solution.simulated)


def _explainable(compared: Sequence[Solution], states: int) -> Floats:
    """R² of each state that noise leaves to the best of solutions; 1 where samples are too few to tell."""
    measured = [solution.measured for solution in compared if len(solution.measured) >= 8]
    if not measured:
        return np.ones(states)
    noise = np.mean([noise_level(run) ** 2 for run in measured], axis=0)
    whole = np.vstack([run.x for run in measured]).var(axis=0)
    return np.asarray(1 - np.minimum(np.divide(noise, whole, out=np.zeros(states), where=whole > 0), 1.0))


def _explained(compared: Sequence[Solution], states: int) -> Floats:
    """R² of each state, over all solutions; −∞ where one blew up."""
    if not compared:
        return np.full(states, np.nan)
    if any(len(solution.simulated) < len(solution.measured) for solution in compared):
        return np.full(states, -np.inf)
    x = np.vstack([solution.measured.x for solution in compared])
    left = np.sum((x - np.vstack([solution.simulated.x for solution in compared])) ** 2, axis=0)
    whole = np.sum((x - x.mean(axis=0)) ** 2, axis=0)
    ratio = np.divide(left, whole, out=np.zeros(states), where=whole > 0)
    return np.asarray(np.where(_rounding(left, x), 1.0, 1.0 - ratio))


def _rounding(left: Floats, x: Floats) -> NDArray[np.bool_]:
    """(states,) where the squares that are left are rounding, as of a state that does not vary."""
    return np.asarray(left <= 1e-24 * np.sum(x**2, axis=0))


Compared = tuple[Floats, Floats]

KINDS = ("equation", "trajectory", "derivative")


def score(model: Equations, trajectories: Any, kind: str = "equation", *, window: int | None = None) -> float:
    """R², the mean over the states, or over the read-outs that data are; see `Model.score`."""
    one_of(kind, KINDS, "score: `kind`")
    if model.formulation.for_fields:
        return _score_fields(model, trajectories, kind, window=window)
    measured, readouts = as_states(model, as_trajectories(trajectories))
    data = inside_domain(model, completed(model, matched(model, measured, "score")))[0]
    if kind == "trajectory":
        pairs = list(_solutions(model, data, window))
    elif kind == "derivative" and model.formulation.discrete:
        raise DataError('score: a discrete model has no derivatives. Use kind="equation".')
    else:
        form = model.formulation if kind == "equation" else Differential(order=model.order)
        compared = _slopes if kind == "derivative" and model.rates else _rows
        pairs = list(compared(model, data, form.fit_to(data).unweighted()))
    if not pairs:
        raise DataError("score: no trajectory has enough complete samples in a row to be compared.")
    # The integral form has taken the unknown initial state out already: there is no mean left to take out.
    centred = not (kind == "equation" and model.formulation.integrates)
    seen, modelled = (np.concatenate(parts) for parts in zip(*pairs, strict=True))
    if readouts is not None:
        seen, modelled = (readouts.columns_of(model.states, values) for values in (seen, modelled))
    else:
        # Estimates of what nobody measured follow the model, and say nothing of the data.
        places = [k for k, s in enumerate(model.states) if s in measured[0].states or s not in model.hidden]
        seen, modelled = seen[:, places], modelled[:, places]
    return _determination(seen, modelled, centred=centred)


def _rows(model: Equations, data: list[Trajectory], form: Formulation) -> Iterator[Compared]:
    """(what the data say, what the equations say), for each stretch without gaps."""
    for segment in (part for run in data for part in run.segments()):
        if len(segment) >= form.min_samples:
            yield form.compared(segment, model.basis, model.coef)


def _slopes(model: Equations, data: list[Trajectory], form: Formulation) -> Iterator[Compared]:
    """The same for derivatives where terms hold rates: those are estimated as the derivatives are."""
    settings = form.to_dict()
    how = {"degree": settings["degree"], "half_width": settings["half_width"]}
    for segment in (part for run in data for part in run.segments()):
        if len(segment) >= form.min_samples:
            rates, slopes = (
                derivative(segment.t, segment.x, 0, len(segment), order=k, **how) for k in (1, 2)
            )
            yield slopes, model.predict(np.hstack([segment.x, rates]), segment.u)


def _solutions(model: Equations, data: list[Trajectory], window: int | None) -> Iterator[Compared]:
    """(measured, simulated) states; those after a blow-up are NaN."""
    if window is not None:
        integer(window, "score: `window`", least=2)
    for solution in solutions(model, data, window=window):
        simulated = np.full(solution.measured.x.shape, np.nan)
        simulated[: len(solution.simulated)] = solution.simulated.x
        yield np.asarray(solution.measured.x), simulated


def _determination(measured: Floats, modelled: Floats, *, centred: bool) -> float:
    if not np.all(np.isfinite(modelled)):
        return -np.inf
    spread = measured - measured.mean(axis=0) if centred else measured
    total = np.sum(spread**2, axis=0)
    rest = np.sum((measured - modelled) ** 2, axis=0)
    ratio = np.divide(rest, total, out=np.ones(len(rest)), where=total > 0)
    return float(np.mean(np.where(_rounding(rest, measured), 1.0, 1.0 - ratio)))
