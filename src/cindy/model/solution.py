"""Solutions of a model that start where the data start, one for every stretch of data without gaps.

A solution is compared with data by its fit, so that it should start at the state x₀ that minimises

    Σ_k ‖ (x(t_k; x₀) − y_k) / spread ‖²,   x₀ within the range of the data,

with x(t; x₀) the solution and y_k the samples. A chaotic solution is a smooth function of x₀ over a short
time only, and therefore the horizon grows (`_fitted_start`):

1. Candidates for x₀ are the denoised state, the first sample, the least-squares start of the integrated
   equations, and for order 2 a local cubic. Take the one whose solution misses the first samples least.
2. Double the horizon as long as that solution follows the samples.
3. Improve x₀ by Levenberg and Marquardt's method with differences, and double the horizon again, until the
   whole stretch is covered or the solution no longer follows.

Cost: a simulation per state and round, at most `MOST` samples long.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import cache, partial
from typing import NamedTuple

import numpy as np

from cindy._arrays import Floats
from cindy.calculus import cumulative, derivative_weights, interval_weights
from cindy.data import LOOK, Trajectory, half_period, noise_level, spread_over
from cindy.errors import DataError
from cindy.model.denoised import denoised_states, inside_domain
from cindy.model.equations import Equations
from cindy.model.simulation import Limits, simulate

_LIMITS = Limits(rtol=1e-6, atol=1e-8, growth=1e3, steps=20_000)
"""For simulations during the fit of a start: far more accurate than data, and given up early."""


@dataclass(frozen=True)
class _Start:
    """How the start of a solution is fitted to the samples ahead; errors are in spreads of a state."""

    difference: float = 1e-4
    """Step of the differences: far above the tolerance of the simulation, far below its curvature."""
    rounds: int = 6
    """Rounds of Levenberg and Marquardt. A round that gains less than a thousandth is the last."""
    follows: float = 0.5
    """Root mean square error up to which a solution follows the samples."""
    beyond: float = 0.1
    """How far outside the range of the data a start may lie, in widths of that range."""
    exact: float = 1e-5
    """Largest error that needs no improvement, in view of the tolerance of the simulation."""
    many: int = 12
    """States beyond which differences are taken once per horizon and then updated by Broyden's rule: they
    take a simulation for each state in every round, which was 43 of 111 s for a model of 50 states
    (`python -m benchmarks large`). With the rule for fewer states, solutions of Paramecium lose 0.03 of R²
    (examples/paramecium.py)."""
    smooth_curve: int = 300
    """Points of a curve without bends that looks smooth in a figure."""
    visible: float = 1e-4
    """Distance between a curve and the line from point to point that may be seen, in widths of a figure: a
    tenth of a pixel."""
    most_between: int = 12
    """Points of a curve for each of the first ones, where it bends."""
    degree: int = 6
    half_width: int = 3
    """Of the polynomials by which the right-hand side is integrated."""
    most_missed: float = 3.0
    """Largest error of the integrated equations, in units of the noise. Right equations have errors above 1
    if noise is integrated twice."""


_START = _Start()


MOST = 400
"""Samples that a start is fitted to at most: more change it little and cost as much again."""


def _fitted_start(
    model: Equations, ahead: Trajectory, guesses: Sequence[Floats], *, first: int, driven: Trajectory
) -> Floats:
    """The start whose solution misses the samples ahead least, by the steps above.

    It is never worse than the best guess on the samples that it was fitted to, and is the best guess if no
    solution follows them.

    guesses: starts, (states,) or (2 · states,) with rates for order 2
    first: samples of the first horizon
    driven: the inputs over that time, possibly at more times
    """
    d = len(model.states)
    low, high = ahead.x.min(axis=0), ahead.x.max(axis=0)
    width = np.where(high > low, high - low, np.abs(high))
    spread = _spread(model, ahead, width)
    span = float(ahead.t[-1] - ahead.t[0])
    # Rates are of the size of one swing over the time ahead; their own spread was not measured.
    scale = np.concatenate([spread, spread * (2 * np.pi / span)])[: model.order * d]
    free = np.full(d, np.inf)
    lower = np.concatenate([low - _START.beyond * width, -free])[: len(scale)]
    upper = np.concatenate([high + _START.beyond * width, free])[: len(scale)]

    @cache
    def beside(samples: int, start: bytes) -> Floats:
        piece = ahead.part(0, samples)
        return _off(_solved(model, np.frombuffer(start).copy(), piece, driven, _LIMITS), piece, spread)

    def missed(samples: int, start: Floats) -> Floats:
        # Cached, since several decisions need the same solution.
        return beside(samples, start.tobytes())

    def improved(samples: int, start: Floats) -> Floats:
        if np.max(np.abs(missed(samples, start))) <= _START.exact:
            return start
        return _improved(start, partial(missed, samples), scale, lower, upper)

    def follows(samples: int, start: Floats) -> bool:
        return bool(np.sqrt(np.mean(missed(samples, start) ** 2)) <= _START.follows)

    whole = min(len(ahead), MOST)
    horizon = min(max(first, 4 * model.order), whole)
    # Step 1.
    starts = [np.clip(guess, lower, upper) for guess in guesses if np.all(np.isfinite(guess))]
    guess = min(starts, key=lambda start: float(np.sum(missed(horizon, start) ** 2)))
    # Step 2.
    while horizon < whole and follows(min(2 * horizon, whole), guess):
        horizon = min(2 * horizon, whole)
    # Step 3. Wrong equations that never follow would start anywhere, to be least wrong in the mean.
    best = improved(horizon, guess)
    if not follows(horizon, best):
        return guess
    while horizon < whole:
        horizon = min(2 * horizon, whole)
        further = improved(horizon, best)
        # A fit over a horizon that is too long may have left the samples next to the start.
        if not follows(horizon, further):
            return best
        best = further
    return best


def _spread(model: Equations, ahead: Trajectory, width: Floats) -> Floats:
    """(states,) the unit of the errors: the standard deviations of the states."""
    # An absent species has none, and its usual size is taken. Its width is zero, and its start is not fitted.
    spread = np.maximum(ahead.x.std(axis=0), 1e-3 * width)
    return np.where(spread > 0, spread, np.where(model.scale > 0, model.scale, 1.0))


def _off(solution: Trajectory, piece: Trajectory, spread: Floats) -> Floats:
    """(samples · states,) errors of a solution in units of the spread; 3 after it has ended."""
    # A solution that blew up must be worse than any that follows, yet finite to have a slope.
    result = np.full(piece.x.shape, 3.0)
    result[: len(solution)] = (solution.x - piece.x[: len(solution)]) / spread
    return np.ravel(np.clip(result, -1e3, 1e3))


def _improved(
    start: Floats, missed: Callable[[Floats], Floats], scale: Floats, lower: Floats, upper: Floats
) -> Floats:
    """The start after a few rounds of Levenberg and Marquardt's method within bounds."""

    def slope_at(start: Floats, left: Floats) -> Floats:
        """Derivatives of the errors by the start, in units of the scale, by differences; 0 if it is fixed."""
        columns = []
        for k, unit in enumerate(scale):
            if lower[k] == upper[k]:
                columns.append(np.zeros(len(left)))
                continue
            step = np.zeros(len(start))
            step[k] = _START.difference * unit
            step[k] *= 1 if start[k] + step[k] <= upper[k] else -1
            columns.append((missed(start + step) - left) / step[k] * unit)
        return np.column_stack(columns)

    left = missed(start)
    damping, slope = 1e-3, np.zeros((len(left), 0))
    for _ in range(_START.rounds):
        if slope.shape[1] == 0 or len(start) <= _START.many:
            slope = slope_at(start, left)
        if not np.all(np.isfinite(slope)):
            return start
        before = float(left @ left)
        for _ in range(4):
            # Marquardt's scaling by the diagonal; the small multiple of the trace bounds directions that
            # nothing depends on.
            normal = slope.T @ slope
            size = np.diag(normal) + 1e-12 * np.trace(normal) + 1e-300
            normal[np.diag_indices_from(normal)] += damping * size
            change = np.linalg.lstsq(normal, -slope.T @ left)[0]
            tried = np.clip(start + change * scale, lower, upper)
            tried_left = missed(tried)
            # Broyden's rule: the smallest change of the slope that explains the step (Math. Comp. 19, 1965).
            step = (tried - start) / scale
            if len(start) > _START.many and np.any(step):
                slope += np.outer(tried_left - left - slope @ step, step / (step @ step))
            if float(tried_left @ tried_left) < before:
                start, left, damping = tried, tried_left, damping / 10
                break
            damping *= 10
        else:
            return start
        if before - float(left @ left) < 1e-3 * before:
            return start
    return start


@dataclass(frozen=True, eq=False)
class Solution:
    """A stretch of data without gaps, and the solution that starts with it.

    trajectory: the index of its trajectory in the data
    driven: the inputs over that time, possibly at more times than the samples
    simulated: the solution; it has fewer samples than `measured` if it blew up
    start: the state that it starts from, with rates for order 2
    """

    trajectory: int
    measured: Trajectory
    driven: Trajectory
    simulated: Trajectory
    start: Floats


class _Stretch(NamedTuple):
    """Samples without a gap between them.

    trajectory: the index of their trajectory in the data
    around: the same samples together with those at which only inputs are known
    """

    trajectory: int
    samples: Trajectory
    around: Trajectory


def solutions(
    model: Equations, data: Sequence[Trajectory], *, window: int | None = None, least: int = 1
) -> Iterator[Solution]:
    """A solution for every stretch of the data, in order, restarted every `window` samples if given.

    Without restarts it begins at the fitted start. With restarts it has too few samples ahead to fit one
    under large noise, and begins at denoised states, which use the samples before as well.

    least: samples of a stretch; shorter ones are left out
    """
    segments = [(i, part) for i, run in enumerate(data) for part in run.segments() if len(part) >= least]
    stretches = [_Stretch(i, part, _around(part, data[i])) for i, part in segments]
    # Over half an oscillation even a chaotic solution is a smooth function of its start.
    looked = spread_over(sorted({stretch.trajectory for stretch in stretches}), LOOK)
    near = half_period([stretch.samples for stretch in stretches if stretch.trajectory in looked])
    denoised = _fitted(model, stretches, window)
    for (i, segment, driven), states in zip(stretches, denoised, strict=True):
        length = window or len(segment)
        noise = noise_level(segment)
        for begin in range(0, len(segment) - 1, length):
            piece = segment.part(begin, min(begin + length, len(segment)))
            start = states[begin]
            if window is None or not np.all(np.isfinite(start)):
                first = min(near or length, len(piece))
                # A sample has no rate, which order 2 needs.
                guesses = [start] if model.order == 2 else [start, np.asarray(piece.x[0])]
                if not model.formulation.discrete:
                    guess = _start_of_equations(model, piece.part(0, first), noise)
                    if guess is None:
                        guess = _start_of_data(segment, begin, model.order, near or len(segment) // 4)
                    guesses.append(guess)
                start = _fitted_start(model, piece, guesses, first=first, driven=driven)
            solved = _solved(model, start, piece, driven, Limits())
            yield Solution(i, piece, driven, solved, start)


def _around(segment: Trajectory, whole: Trajectory) -> Trajectory:
    """A segment together with the samples between its ends at which states are missing but inputs known."""
    begin, end = np.searchsorted(whole.t, [segment.t[0], segment.t[-1]])
    return segment if whole.u is None or end + 1 - begin == len(segment) else whole.part(begin, end + 1)


def _solved(
    model: Equations,
    start: Floats,
    piece: Trajectory,
    driven: Trajectory,
    limits: Limits,
    times: Floats | None = None,
) -> Trajectory:
    """The solution at the samples of a piece, with the inputs at all times at which they are known.

    times: within the piece, in place of those of its samples
    """
    begin, end = np.searchsorted(driven.t, [piece.t[0], piece.t[-1]])
    own = piece if driven.u is None or end + 1 - begin == len(piece) else driven.part(begin, end + 1)
    if own is piece and times is None:
        return simulate(model, start, piece.t, piece.u, hold=piece.hold, limits=limits)
    if times is not None and (own.u is None or own.hold == "band"):
        # At uneven times band-limited inputs are no samples from which others could follow, but a function.
        return simulate(model, start, times, own.signal(), limits=limits)
    wanted = piece.t if times is None else times
    return simulate(model, start, wanted, own.u, hold=own.hold, u_t=own.t, limits=limits)


def fine_curve(model: Equations, solution: Solution, most: int = 6000) -> Trajectory:
    """The solution at enough times for a smooth curve, most of them where it bends.

    Maps have no states between their samples.
    most: points beyond which a curve of many turns may have kinks
    """
    curve = solution.simulated
    if model.formulation.discrete or len(curve) < 2:
        return curve
    at = partial(_solved, model, solution.start, solution.measured, solution.driven, Limits())
    if len(curve) < _START.smooth_curve:
        between = np.linspace(curve.t[0], curve.t[-1], _START.smooth_curve)
        curve = at(np.union1d(between, curve.t))
    parts, room = _between(curve.t, curve.x, solution.measured.x), max(most - len(curve), 0)
    if np.sum(parts) > room:
        parts = np.floor(parts * (room / np.sum(parts)))
    if not parts.any():
        return curve
    steps = zip(curve.t[:-1].tolist(), curve.t[1:].tolist(), (parts.astype(int) + 2).tolist(), strict=True)
    times = np.unique(np.concatenate([np.linspace(begin, end, count) for begin, end, count in steps]))
    return at(times)


def _between(t: Floats, x: Floats, measured: Floats) -> Floats:
    """(points − 1,) how many points a curve needs between each two of its points to look smooth."""
    low, high = np.nanmin(measured, axis=0), np.nanmax(measured, axis=0)
    width = np.where(high > low, high - low, np.ptp(x, axis=0))
    # A solution that leaves the data by far is not drawn there.
    seen = np.clip(x, low - width, high + width) / np.where(width > 0, width, 1.0)
    if len(t) < 3:
        return np.zeros(len(t) - 1)
    share = ((t[1:-1] - t[:-2]) / (t[2:] - t[:-2]))[:, None]
    # How far a point lies from the line between its neighbours; between them a parabola is as far from its
    # own chord as a quarter of that.
    off = 0.25 * np.max(np.abs(seen[1:-1] - (1 - share) * seen[:-2] - share * seen[2:]), axis=1)
    off = np.maximum(np.append(off, 0.0), np.insert(off, 0, 0.0))
    return np.asarray(np.ceil(np.sqrt(off / _START.visible) - 1.0).clip(0.0, _START.most_between))


def _fitted(model: Equations, stretches: Sequence[_Stretch], window: int | None) -> list[Floats]:
    """(samples, order · states) of each stretch: denoised states to start from; NaN if they are unknown."""
    width = model.order * len(model.states)
    # Without restarts only the beginning is needed.
    wanted = [len(part) if window else min(len(part), MOST) for _, part, _ in stretches]
    ahead = [_around(s.samples.part(0, count), s.around) for s, count in zip(stretches, wanted, strict=True)]
    possible = ahead and width == len(model.states + model.rates)
    try:
        states = denoised_states(model, ahead) if possible else None
    except DataError:  # an iterate has left the domain of a term
        states = None
    return states or [np.full((len(stretch), width), np.nan) for stretch in ahead]


def _start_of_equations(model: Equations, ahead: Trajectory, noise: Floats) -> Floats | None:
    """The initial state, and rate for order 2, from which the integrated equations fit the samples best.

    It averages the noise of all samples, but only if the equations are right: None if they miss by much more
    than the noise, or if terms hold rates that were not measured.
    """
    if len(ahead) < 4 + 2 * model.order or model.rates:
        return None
    [defined], _ = inside_domain(model, [ahead])
    values = model.predict(defined.x, defined.u)
    weights = interval_weights(ahead.t, degree=_START.degree, half_width=_START.half_width)
    for _ in range(model.order):
        values = cumulative(values, weights)
    # x(t) = x₀ + v₀ t + ∫∫ F: linear in the start, so that least squares finds it.
    powers = (ahead.t - ahead.t[0])[:, None] ** np.arange(model.order)
    left = ahead.x - values
    best = np.linalg.lstsq(powers, left)[0]
    missed = np.sqrt(np.sum((left - powers @ best) ** 2, axis=0) / (len(left) - model.order))
    return np.ravel(best) if np.all(missed <= _START.most_missed * noise) else None


def _start_of_data(segment: Trajectory, begin: int, order: int, near: int) -> Floats:
    """The state at a sample, and its rate for order 2, by a cubic through the samples around it."""
    if len(segment) < 4:
        if order == 2:
            raise DataError("A solution of second order needs at least 4 samples in a row to start from.")
        return np.asarray(segment.x[begin])
    half_width = max(near // 4, 2)
    low = max(0, begin - 2 * half_width)
    around = segment.part(low, min(len(segment), begin + 2 * half_width + 1))
    degree = min(3, len(around) - 1)
    estimates = [
        (derivative_weights(around.t, order=k, degree=degree, half_width=half_width) @ around.x)[begin - low]
        for k in range(order)
    ]
    return np.concatenate(estimates)
