"""A model compared with data: residuals, R², and solutions over the time for which the model predicts.

Trajectories are compared sample by sample, fields row by row of the weak form.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
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
from cindy.model.denoised import completed, inside_domain, matched
from cindy.model.equations import Equations
from cindy.model.field_simulation import simulate_field
from cindy.model.matching import as_states
from cindy.model.simulation import Limits
from cindy.model.solution import Solution, solutions
from cindy.summary import accumulate


def matched_fields(model: Equations, data: Any, where: str) -> list[Field]:
    """Anything that holds fields, as fields with the variables of the model."""
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
            'score: derivatives of fields are not estimated. Use kind="equation", which integrates against '
            'test functions, or kind="trajectory".'
        )
    if kind == "equation":
        return explained_rows(model, field_rows_of(model, fields)[1])
    # The ratio is that of sums over all fields, so that a short field counts less than a long one.
    rest, whole = np.zeros(len(model.states)), np.zeros(len(model.states))
    for field in fields:
        solution = solved_field(model, field, window=window)
        if any(np.isnan(values).any() for values in solution.values()):
            return -np.inf
        left, about = field_errors(field, solution)
        rest, whole = rest + left.sum(axis=1), whole + about.sum(axis=1)
    return float(np.mean(1.0 - rest / np.where(whole > 0, whole, 1.0)))


def field_errors(field: Field, solved: Mapping[str, Floats]) -> tuple[Floats, Floats]:
    """(states, times) sums over space of the squares of a field less its solution, and less its mean."""
    space = tuple(range(len(field.axes)))
    left = [np.nansum((field[state] - values) ** 2, axis=space) for state, values in solved.items()]
    about = [np.nansum((field[state] - np.nanmean(field[state])) ** 2, axis=space) for state in solved]
    return np.array(left), np.array(about)


def field_rows_of(model: Equations, fields: Sequence[Field]) -> tuple[Formulation, LeastSquares]:
    """The form, and the rows of the fields in it, as one objective."""
    summary = accumulate(list(fields), model.basis, formulation=model.formulation, blocks=1)
    return summary.formulation, summary.total


def explained_rows(model: Equations, total: LeastSquares) -> float:
    """R² of equations in the rows of fields, whose mean the test functions remove; mean over the states."""
    return float(np.mean(1.0 - unexplained_rows(total, model.coef)))


def unexplained_rows(total: LeastSquares, coef: Floats) -> Floats:
    """(states,) sum of squared residuals of the rows over that of their targets; 0 where those are zero."""
    left = np.sum((total.design @ coef - total.target) ** 2, axis=0)
    whole = np.sum(total.target**2, axis=0)
    return np.asarray(np.divide(left, whole, out=np.zeros(len(left)), where=whole > 0))


def solved_field(model: Equations, field: Field, *, window: int | None = None) -> dict[str, Floats]:
    """The solution at the times of a field, by state; NaN after a blow-up.

    It starts from the smoothed field, if no value is missing, since noise in the start would be carried
    along. It is restarted every `window` samples if given.
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
    """Data less equations, in the form that the model was fitted in, on one window without gaps.

    trajectory: the index of its trajectory in the data
    t: (n,) times; values: (n, states), in the units of the states for the integral form, of their rates
        for the differential one
    """

    trajectory: int
    t: Floats
    values: Floats


def residuals(model: Equations, trajectories: Any) -> list[Residual]:
    """The residuals of every window of the data, in order.

    In the integral form every window has its own initial state, that of the smallest residuals.

    >>> from cindy.basis import Polynomial
    >>> from cindy.model import Model
    >>> t = np.linspace(0, 2, 50)
    >>> decay = Model([[0.0], [-1.0]], Polynomial(1), ("x",))
    >>> [residual] = residuals(decay, Trajectory(t, np.exp(-t), ("x",)))
    >>> residual.values.shape, bool(abs(residual.values).max() < 1e-8)
    ((50, 1), True)
    """
    data = inside_domain(model, completed(model, matched(model, trajectories, "residuals")))[0]
    form = model.formulation.fit_to(data)
    windows_left: list[Residual] = []
    for i, run in enumerate(data):
        for segment in run.segments():
            if len(segment) >= form.min_samples:
                # A weight changes how much a row counts, not its residual.
                plain = replace(segment, weight=1.0)
                measured, modelled = form.compared(plain, model.basis, model.coef)
                windows = form.at_samples(plain, measured - modelled)
                windows_left.extend(Residual(i, t, values) for t, values in windows)
    if not windows_left:
        raise DataError("residuals: no trajectory has enough complete samples in a row.")
    return windows_left


def autocorrelation(windows: Sequence[Residual], lags: int) -> Floats:
    """(lags + 1, states): the autocorrelation of the residuals within windows.

    NaN at lags that no window is long enough for, or if nothing varies.
    """
    states = windows[0].values.shape[1]
    products, counts = np.zeros((lags + 1, states)), np.zeros((lags + 1, states))
    for window in windows:
        n = len(window.values)
        for lag in range(min(lags, n - 1) + 1):
            # The mean over the pairs of each lag: with a common number, correlations would decay by gaps.
            pairs = window.values[: n - lag] * window.values[lag:]
            products[lag] += np.nansum(pairs, axis=0)
            counts[lag] += np.count_nonzero(np.isfinite(pairs), axis=0)
    with np.errstate(divide="ignore", invalid="ignore"):
        means = products / counts
        return np.asarray(means / means[0])


@dataclass(frozen=True)
class _Horizon:
    """How long a solution follows the data, and how much of the data is compared."""

    follows: float = 0.9
    """R² of every state, relative to the R² that noise allows, above which solutions need no restart."""
    off: float = 0.5
    """Error beyond the noise, in spreads, at which a solution has left the data: R² = 0.75."""
    shortest: int = 20
    """Fewest samples between restarts: any curve follows fewer."""
    shortest_steps: int = 6
    """The same for maps: chaotic ones forget their start in ten steps."""
    tries: int = 3
    """Halvings of the time between restarts, to an eighth of the time over which solutions seem to follow."""
    most_samples: int = 20_000
    """Samples of all runs from which residuals are computed: more would not change the findings."""
    most_looked_at: int = 300
    """The same for runs: each of very many short ones costs as much as a long one."""
    most_runs: int = 2
    most_solved: int = 200
    """Runs, and samples of each, whose R² a summary and a report state: a fraction of a second."""


_HORIZON = _Horizon()


@dataclass(frozen=True, eq=False)
class Comparison:
    """Solutions beside stretches of data.

    solutions: in order; window: samples between their restarts; None without restarts
    span: the longest time that a solution lasts
    explained: (states,) R² of the solutions; through: the same without restarts; −∞ after a blow-up
    stopped: why solutions without restarts ended early, in sentences
    allowed: (states,) R² of the best possible solution, in view of the noise in the data; 1 where unknown
    rough: whether a run has the eight samples from which its noise is estimated
    """

    solutions: tuple[Solution, ...]
    window: int | None
    span: float
    explained: Floats
    through: Floats
    stopped: tuple[str, ...]
    allowed: Floats
    rough: bool


@one_thread()
def compare(model: Equations, data: Sequence[Trajectory]) -> Comparison:
    """Solutions from fitted starts, restarted after the time over which the model can predict.

    1. Solve without restarts. If every state reaches `follows` times the R² that noise allows, that is all.
    2. Else restart after the median, over the solutions, of the time that each stays within half a spread of
       the data, beyond their noise. One solution from a bad start does not decide for all.
    3. Halve that time as long as solutions of this length do not follow either.
    """
    # An equation of second order needs a rate to start from, which takes a few samples.
    least = 4 if model.order == 2 else 2
    runs = completed(model, data) if data else []
    # Step 1.
    whole = tuple(solutions(model, runs, least=least))
    states = len(model.states)
    explained = through = _explained(whole, states)
    stopped = tuple(dict.fromkeys(solved.simulated.stopped for solved in whole if solved.simulated.stopped))
    best, window = whole, None
    allowed = _explainable(model, whole)
    enough = _HORIZON.follows * allowed
    if np.any(explained < enough) and whole:
        least_length = _HORIZON.shortest_steps if model.formulation.discrete else _HORIZON.shortest
        # The windows of the integral form were chosen so that solutions can be compared over them.
        shortest = max(getattr(model.formulation, "window", 0) or 0, least_length)
        # Step 2.
        length = int(np.median([_follows(model, solved) for solved in whole]))
        longest = max(len(solved.measured) for solved in whole)
        for _ in range(_HORIZON.tries):
            length = max(length, min(shortest, longest))
            if length >= longest:
                break
            again = tuple(solutions(model, runs, window=length, least=least))
            if np.min(_explained(again, states)) > np.min(explained):
                best, window, explained = again, length, _explained(again, states)
            if np.all(explained >= enough) or length == shortest:
                break
            # Step 3.
            length //= 2
    span = max((float(solved.measured.t[-1] - solved.measured.t[0]) for solved in best), default=np.nan)
    rough = any(len(solved.measured) >= 8 for solved in whole)
    return Comparison(best, window, span, explained, through, stopped, allowed, rough)


def excerpt_of(data: Sequence[Trajectory]) -> list[Trajectory]:
    """The part of the data from which the findings about a model are computed."""
    return excerpt(spread_over(data, _HORIZON.most_looked_at), _HORIZON.most_samples)


def compare_few(model: Equations, data: Sequence[Trajectory]) -> tuple[Comparison, int]:
    """Solutions beside the beginnings of a few runs, and the number of these.

    The summary, the command line and the report all state the R² of this comparison.
    """
    runs = completed(model, spread_over(excerpt_of(data), _HORIZON.most_runs))
    return compare(model, [beginning(run, _HORIZON.most_solved) for run in runs]), len(runs)


def _follows(model: Equations, solution: Solution) -> int:
    """The number of samples over which the running root mean square error of a solution stays small."""
    spread = solution.measured.x.std(axis=0)
    spread = np.where(spread > 0, spread, np.inf)
    off = (solution.simulated.x - solution.measured.x[: len(solution.simulated)]) / spread
    allowed = (
        np.hypot(_HORIZON.off, float(np.max(_noise(model, solution.measured) / spread)))
        if len(solution.measured) >= 8
        else _HORIZON.off
    )
    width = max(3, len(solution.measured) // 50)
    # A running mean, because an outlier is no departure, and a solution may cross the data by chance.
    size = np.convolve(np.mean(off**2, axis=1), np.ones(width) / width, mode="same")
    lost = np.flatnonzero(size > allowed**2)
    return int(lost[0]) if len(lost) else len(solution.simulated)


def _noise(model: Equations, run: Trajectory) -> Floats:
    """(states,) standard deviation of the noise: the roughness of the samples, which in a map is motion."""
    known = model.formulation.discrete and np.isfinite(model.noise).all()
    return model.noise if known else noise_level(run)


def _explainable(model: Equations, compared: Sequence[Solution]) -> Floats:
    """(states,) R² of the best possible solution, in view of the noise; 1 if samples are too few."""
    measured = [solution.measured for solution in compared if len(solution.measured) >= 8]
    states = len(model.states)
    if not measured:
        return np.ones(states)
    noise = np.mean([_noise(model, run) ** 2 for run in measured], axis=0)
    whole = np.vstack([run.x for run in measured]).var(axis=0)
    return np.asarray(1 - np.minimum(np.divide(noise, whole, out=np.zeros(states), where=whole > 0), 1.0))


def _explained(compared: Sequence[Solution], states: int) -> Floats:
    """(states,) R² over all solutions; −∞ if one blew up."""
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
    """(states,) whether the squared residuals are rounding, as of a state that does not vary."""
    return np.asarray(left <= 1e-24 * np.sum(x**2, axis=0))


Compared = tuple[Floats, Floats]


def score(model: Equations, trajectories: Any, kind: str = "equation", *, window: int | None = None) -> float:
    """R², the mean over the states, or over the read-outs that data are; see `Model.score`."""
    one_of(kind, ("equation", "trajectory", "derivative"), "score: `kind`")
    if window is not None:
        integer(window, "score: `window`", least=2)
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
        form = form.fit_to(data).unweighted()
        segments = [part for run in data for part in run.segments() if len(part) >= form.min_samples]
        if kind == "derivative" and model.rates:
            pairs = [_slopes(model, segment, form) for segment in segments]
        else:
            pairs = [form.compared(segment, model.basis, model.coef) for segment in segments]
    if not pairs:
        raise DataError("score: no trajectory has enough complete samples in a row to be compared.")
    # The integral form has removed the unknown initial state, and with it the mean.
    centred = not (kind == "equation" and model.formulation.integrates)
    seen, modelled = (np.concatenate(parts) for parts in zip(*pairs, strict=True))
    if readouts is not None:
        seen, modelled = (readouts.columns_of(model.states, values) for values in (seen, modelled))
    else:
        # Hidden states follow the model by construction and must not count.
        places = [k for k, s in enumerate(model.states) if s in measured[0].states or s not in model.hidden]
        seen, modelled = seen[:, places], modelled[:, places]
    return _determination(seen, modelled, centred=centred)


def _slopes(model: Equations, segment: Trajectory, form: Formulation) -> Compared:
    """(estimated derivatives, right-hand side) if terms hold rates, which are estimated in the same way."""
    settings = form.to_dict()
    how = {"degree": settings["degree"], "half_width": settings["half_width"]}
    rates, slopes = (derivative(segment.t, segment.x, 0, len(segment), order=k, **how) for k in (1, 2))
    return slopes, model.predict(np.hstack([segment.x, rates]), segment.u)


def _solutions(model: Equations, data: list[Trajectory], window: int | None) -> Iterator[Compared]:
    """(measured, simulated) states; those after a blow-up are NaN."""
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
