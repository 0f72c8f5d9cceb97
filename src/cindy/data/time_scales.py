"""Estimates from the samples alone: their noise, their oscillations, their pauses; and excerpts of data."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import NamedTuple, TypeVar

import numpy as np
from numpy.typing import NDArray

from cindy._arrays import Floats
from cindy.calculus import derivative_weights
from cindy.data.trajectory import Trajectory

T = TypeVar("T")

LOOK = 12
"""Segments, spread over the data, by which settings are chosen: more would not change the choice."""
LOOK_SAMPLES = 4000
"""Samples at the beginning of a segment by which settings are chosen."""


@dataclass(frozen=True)
class _Look:
    """Settings of these estimates."""

    few_periods: float = 3.0
    """Oscillations from which their period is known. As the length of the windows of the integral form hangs
    on it: with 1 errors are larger by 8 %, with 9 smaller by 2 %, but a chaotic solution of nine oscillations
    is not a smooth function of its initial state (benchmark: constants)."""
    shortest: int = 24
    """Fewest samples in half a period; with 72 errors are smaller by 5 %, with 8 the same (benchmark:
    constants)."""
    often: float = 0.5
    """Share of the samples of the most often measured state, from which another state is measured often."""
    most: int = 300
    """Trajectories from which the noise is estimated: the error of its variance is then a few per cent."""
    far: float = 0.7
    """Motion within a pause, in units of the spread, from which the pause splits a trajectory. By
    `python -m benchmarks damage`, from 0.5 to 2 Lorenz with pauses is right and slow hares are not split. If
    no pause split, Lorenz would have 21 false terms; if all did, hares would have 3 to 15 times the error."""
    per_swing: int = 40
    """Samples per oscillation that thinning leaves: enough to compare solutions with."""
    inputs_alike: float = 0.01
    """Change of an input between the remaining samples, as a share of its spread, that thinning may cause."""
    driven: int = 3
    """The most that states are thinned by if thinning would change the inputs. The inputs are not thinned
    then, and each of their samples costs a step of a solution."""


_LOOK = _Look()


def periods(segment: Trajectory) -> float:
    """The number of oscillations of the fastest state about its mean.

    Only samples farther from the mean than a quarter of a standard deviation and three of the noise count, so
    that noise near the mean makes no crossings.
    """
    crossings = 0
    for column, noise in zip((segment.x - segment.x.mean(axis=0)).T, noise_level(segment), strict=True):
        band = max(0.25 * float(column.std()), 3.0 * float(noise))
        side = np.sign(column[np.abs(column) > band])
        crossings = max(crossings, int(np.count_nonzero(np.diff(side))))
    return crossings / 2


def half_period(segments: Sequence[Trajectory]) -> int:
    """Samples in half a period, over which a solution is a smooth function of its initial state.

    Errors grow exponentially along a chaotic orbit, but only by a factor of order one in half a period. The
    result is 0 if the data have fewer than three periods.
    """
    segments = [segment.part(0, min(len(segment), LOOK_SAMPLES)) for segment in segments if len(segment) > 2]
    if not segments:
        return 0
    turns = np.array([periods(segment) for segment in segments])
    lengths = np.array([len(segment) for segment in segments], dtype=float)
    if np.median(turns) < _LOOK.few_periods:
        return 0
    moves = turns > 0
    return max(round(float(np.median(lengths[moves] / turns[moves])) / 2), _LOOK.shortest)


def noise_level(segment: Trajectory) -> Floats:
    """(d,) estimated standard deviation of the noise, from the residuals of local polynomials.

    With P the local projection onto polynomials, σ² = mean |y − P y|² / mean (1 − P_kk), because the residual
    of white noise has the variance σ² (1 − P_kk) at sample k. The result is the smallest of the estimates by
    polynomials of several degrees: a degree too low for the motion takes motion for noise.
    """
    if len(segment) < 4:
        return np.zeros(segment.dimension)
    estimates = []
    for degree, half_width in ((2, 2), (4, 3), (6, 4), (8, 5), (10, 6)):
        possible = min(degree, len(segment) - 2)
        projection = derivative_weights(segment.t, order=0, degree=possible, half_width=half_width)
        residual = segment.x - projection @ segment.x
        estimates.append(np.sqrt(np.mean(residual**2, axis=0) / np.mean(1.0 - projection.diagonal())))
    return np.asarray(np.min(estimates, axis=0))


def rounding_step(values: Floats) -> float:
    """The step to which values are rounded, for example by an analogue-digital converter; 0 if they are not.

    Values are rounded if at most half of them are different, at least three are, and all differences are
    whole multiples of the smallest one.
    """
    levels = np.unique(values)
    if not 3 <= len(levels) < len(values) / 2:
        return 0.0
    # Some levels may not occur, so that the gaps between levels are multiples of the step.
    gaps = np.diff(levels)
    step = float(gaps.min())
    return step if bool(np.all(np.abs(gaps / step - np.round(gaps / step)) < 1e-4)) else 0.0


def noise_variance(trajectories: Sequence[Trajectory]) -> Floats:
    """(states,) variance of the noise: the mean over segments of at most 300 trajectories."""
    chosen = spread_over(trajectories, _LOOK.most)
    segments = [segment for trajectory in chosen for segment in trajectory.segments()]
    return np.asarray(np.mean([noise_level(segment) ** 2 for segment in segments], axis=0))


def each_alone(trajectories: Sequence[Trajectory]) -> list[list[Trajectory]]:
    """For each state the trajectories of this state alone, at the instants at which it was measured."""
    groups = []
    for j, name in enumerate(trajectories[0].states):
        group = []
        for trajectory in trajectories:
            measured = np.isfinite(trajectory.x[:, j])
            if np.count_nonzero(measured) > 2:
                group.append(Trajectory(trajectory.t[measured], trajectory.x[measured, j], (name,)))
        groups.append(group)
    return groups


def looked_at(trajectories: Sequence[Trajectory]) -> list[Sequence[Trajectory]]:
    """The trajectories of the states that are measured often, in groups that share their instants.

    There is one group if most rows are complete in these states. If sensors have clocks of their own, few or
    no rows are complete, and each state is a group.
    """
    # With a state that is measured now and then, such as a concentration beside temperatures, hardly any row
    # would be complete.
    present = np.mean([np.isfinite(trajectory.x).mean(axis=0) for trajectory in trajectories], axis=0)
    often = np.flatnonzero(present >= _LOOK.often * present.max())
    if len(often) < len(present):
        names = tuple(trajectories[0].states[j] for j in often)
        trajectories = [
            replace(trajectory, x=trajectory.x[:, often], states=names, delay={})
            for trajectory in trajectories
        ]
    complete = np.mean([np.isfinite(trajectory.x).all(axis=1).mean() for trajectory in trajectories])
    if complete > _LOOK.often * present.max():
        return [trajectories]
    return [group for group in each_alone(trajectories) if group]


class Roughness(NamedTuple):
    """(states,) noise estimated by `noise_level`, NaN where too little is measured; and the samples used."""

    noise: Floats
    samples: int


def rough_noise(trajectories: Sequence[Trajectory]) -> Roughness:
    """The noise in at most 50 segments of 11 samples or more."""
    noise, samples = np.full(trajectories[0].dimension, np.nan), 0
    for group in looked_at(trajectories):
        # The polynomial of degree ten would leave no residual in fewer than eleven samples.
        segments = [segment for trajectory in group for segment in trajectory.segments()]
        segments = [segment for segment in segments if len(segment) >= 11][:50]
        if segments:
            places = [trajectories[0].states.index(name) for name in group[0].states]
            noise[places] = np.sqrt(np.mean([noise_level(segment) ** 2 for segment in segments], axis=0))
            samples = max(samples, sum(map(len, segments)))
    return Roughness(noise, samples)


def some_segments(
    trajectories: Sequence[Trajectory], count: int = LOOK, longest: int = LOOK_SAMPLES
) -> list[Trajectory]:
    """The segments of a few trajectories that are spread over the data, each cut to a bounded length."""
    chosen = spread_over(trajectories, count)
    segments = [segment for trajectory in chosen for segment in trajectory.segments()]
    return [segment.part(0, min(len(segment), longest)) for segment in segments if len(segment) > 2]


def spread_over(data: Sequence[T], most: int) -> list[T]:
    """At most so many items of the data, spread evenly over it, including the first and the last."""
    places = np.unique(np.linspace(0, len(data) - 1, min(most, len(data))).round().astype(int))
    return [data[int(k)] for k in places]


def pauses(t: Floats, x: Floats, longest: int) -> NDArray[np.intp]:
    """Numbers k of the steps from t[k] to t[k + 1] over which the motion is unknown.

    Such a step is longer than `longest` of its neighbours and of the median step; at least as many samples
    lie on either side of it, because fewer would be lost by splitting; and a state moves far in its time,
    because a slow motion can be bridged.

    x: (samples, states), NaN where missing
    """
    steps = np.diff(t)
    if len(steps) < 2 * longest:
        return np.zeros(0, dtype=np.intp)
    # Neighbours matter: on a grid that becomes coarser gradually no step is a pause.
    neighbours = np.maximum(np.append(steps[0], steps[:-1]), np.append(steps[1:], steps[-1]))
    long = np.flatnonzero(steps > longest * np.maximum(neighbours, np.median(steps)))
    edges = np.concatenate([[0], long + 1, [len(t)]])
    filled = np.diff(edges) >= longest
    bursts = [(t[a:b], x[a:b]) for a, b in zip(edges[:-1][filled], edges[1:][filled], strict=True)]
    spread = np.nanstd(x, axis=0)
    spread = np.where(spread > 0, spread, np.inf)
    far = [filled[i] and filled[i + 1] and _moves(bursts, spread, float(steps[k])) > _LOOK.far
           for i, k in enumerate(long)]  # fmt: skip
    return np.asarray(long[np.array(far, dtype=bool)])


def _moves(bursts: list[tuple[Floats, Floats]], spread: Floats, time: float) -> float:
    """The distance that the fastest state moves in such a time, in units of its spread.

    The standard deviation of a straight line times √12 is its range. The variance of white noise is at most
    half the mean square of differences, which is subtracted. The motion in a burst that is shorter than the
    time is extrapolated.
    """
    distances = []
    for t, x in bursts:
        length = t[-1] - t[0]
        # Pieces are as long as the pause: the motion within one of them may have happened in the pause.
        pieces = np.array_split(x, max(int(length / time), 1))
        noise = 0.5 * np.nanmean(np.diff(x, axis=0) ** 2, axis=0)
        variance = np.nanmean([np.nanvar(piece, axis=0) for piece in pieces], axis=0) - noise
        distances.append(np.sqrt(12.0 * np.maximum(variance, 0.0)) * max(time / length, 1.0))
    return float(np.nanmax(np.nanmedian(distances, axis=0) / spread, initial=0.0))


def excerpt(data: Sequence[Trajectory], most: int) -> list[Trajectory]:
    """About so many samples: the beginnings of trajectories that are spread evenly over the data."""
    total = sum(len(trajectory) for trajectory in data)
    if total <= most:
        return list(data)
    # Long beginnings of some rather than short ones of all: solutions are compared along time.
    chosen = spread_over(data, max(1, round(len(data) * most / total)))
    length = max(200, most // len(chosen))
    return [trajectory.part(0, min(len(trajectory), length)) for trajectory in chosen]


def beginning(trajectory: Trajectory, most: int) -> Trajectory:
    """At most so many samples: the trajectory is thinned as far as the motion allows, and then cut.

    If inputs change between the remaining samples, all instants of inputs stay; states are missing there.
    """
    if len(trajectory) <= most:
        return trajectory
    inspected = min(len(trajectory), 50 * most)
    turns = max([periods(part) for part in trajectory.part(0, inspected).segments()], default=1.0) or 1.0
    # Thinned before it is cut, since a longer time says more than more samples per oscillation.
    thinning = max(1, min(len(trajectory) // most, int(inspected / (_LOOK.per_swing * turns))))
    if trajectory.u is None or _same_inputs(trajectory, thinning, most):
        rows = slice(0, thinning * most, thinning)
        u = None if trajectory.u is None else trajectory.u[rows]
        return replace(trajectory, t=trajectory.t[rows], x=trajectory.x[rows], u=u)
    measured = np.flatnonzero(np.isfinite(trajectory.x).any(axis=1))[:: min(thinning, _LOOK.driven)][:most]
    span = trajectory.part(0, int(measured[-1]) + 1 if len(measured) else most)
    x = np.full_like(span.x, np.nan)
    x[measured] = span.x[measured]
    return replace(span, x=x)


def _same_inputs(trajectory: Trajectory, thinning: int, most: int) -> bool:
    """Whether the inputs hardly change if only every few samples remain."""
    span = trajectory.part(0, min(thinning * most, len(trajectory)))
    known = np.isfinite(span.values[::thinning])
    if span.u is None or not known.all():
        return span.u is None
    thinned = replace(span, t=span.t[::thinning], x=span.x[::thinning], u=span.u[::thinning])
    signal = thinned.signal()
    assert signal is not None
    change = np.abs(signal.at(span.t) - span.u)[: (len(thinned) - 1) * thinning + 1]
    return bool(np.all(np.nan_to_num(change) <= _LOOK.inputs_alike * np.nanstd(span.u, axis=0)))
