"""Estimates from the samples alone: their noise, how often they swing, where they pause; and excerpts."""

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
"""Segments, spread over the data, that settings are chosen by: more of them would not change the choice."""
LOOK_SAMPLES = 4000
"""Samples of a segment that are looked at."""


@dataclass(frozen=True)
class _Look:
    """How closely samples are looked at before any model."""

    often: float = 0.5
    """Of the samples of the state that is measured most often: a state with more is measured often."""
    most: int = 300
    """Trajectories whose noise is looked at: the error of its variance is then a few parts in a hundred."""
    far: float = 0.7
    """Of the spread of a state: what moves less far in a pause is bridged. `python -m benchmarks damage`:
    from 0.5 to 2 Lorenz with pauses is right and slow hares are bridged; were all bridged, Lorenz would have
    21 false terms, were none, hares 3 to 15 times the error."""
    per_swing: int = 40
    """Samples to a swing that thinning leaves: solutions are compared at them, and need no more."""
    inputs_alike: float = 0.01
    """Of the spread of an input: thinning may change it by no more between the samples that it leaves."""
    driven: int = 3
    """Thinning where it changes the inputs: all of these are kept, and each takes a step of a solution."""


_LOOK = _Look()


def periods(segment: Trajectory) -> float:
    """How many times the fastest state swings about its mean and back.

    A swing counts when it goes from a quarter of a standard deviation, and three
    of the noise, above the mean to as much below: noise is not taken for motion.
    """
    most = 0
    for column, noise in zip((segment.x - segment.x.mean(axis=0)).T, noise_level(segment), strict=True):
        # Hysteresis: samples within the band are passed over, so that noise near the mean makes no
        # crossings.
        band = max(0.25 * float(column.std()), 3.0 * float(noise))
        side = np.sign(column[np.abs(column) > band])
        most = max(most, int(np.count_nonzero(np.diff(side))))
    return most / 2


def noise_level(segment: Trajectory) -> Floats:
    """(d,) estimated standard deviation of the noise: what no local polynomial explains.

    The smallest of the estimates by polynomials of several degrees, since a degree
    too low for the motion takes motion for noise. With P the local projection onto
    polynomials, σ² = mean |y − P y|² / mean (1 − P_kk).
    """
    estimates = []
    for degree, half_width in ((2, 2), (4, 3), (6, 4), (8, 5), (10, 6)):
        if len(segment) < 4:
            break
        below = min(degree, len(segment) - 2)
        # The residual y − P y of white noise has the variance σ² (1 − P_kk) at sample k, P being a
        # projection.
        weights = derivative_weights(segment.t, order=0, degree=below, half_width=half_width)
        left = 1.0 - weights.diagonal()
        residual = segment.x - weights @ segment.x
        estimates.append(np.sqrt(np.mean(residual**2, axis=0) / np.mean(left)))
    if not estimates:
        return np.zeros(segment.dimension)
    return np.asarray(np.min(estimates, axis=0))


def rounding_step(values: Floats) -> float:
    """The step in which values are reported, as by a converter; 0 where they are not.

    They are if at most half of them differ, at least three do, and all differences are whole numbers of the
    least one.
    """
    levels = np.unique(values)
    if not 3 <= len(levels) < len(values) / 2:
        return 0.0
    # Distances between levels that occur; some multiples of the step may be missing among them.
    gaps = np.diff(levels)
    step = float(gaps.min())
    return step if bool(np.all(np.abs(gaps / step - np.round(gaps / step)) < 1e-4)) else 0.0


def noise_variance(trajectories: Sequence[Trajectory]) -> Floats:
    """(states,) of the noise: the mean over stretches of at most 300 trajectories, spread over the data."""
    stretches = [s for trajectory in spread_over(trajectories, _LOOK.most) for s in trajectory.segments()]
    return np.asarray(np.mean([noise_level(s) ** 2 for s in stretches], axis=0))


def _each_alone(trajectories: Sequence[Trajectory]) -> list[list[Trajectory]]:
    """For each state its own trajectories, at the instants at which that state was measured."""
    columns = []
    for j, name in enumerate(trajectories[0].states):
        own = []
        for trajectory in trajectories:
            seen = np.isfinite(trajectory.x[:, j])
            if np.count_nonzero(seen) > 2:
                own.append(Trajectory(trajectory.t[seen], trajectory.x[seen, j], (name,)))
        columns.append(own)
    return columns


def looked_at(trajectories: Sequence[Trajectory]) -> list[Sequence[Trajectory]]:
    """The trajectories of the states that are measured often, in groups that share their instants.

    Rows that are complete in these states tell of noise and bending, and there is one group. Where sensors
    have clocks of their own few rows are complete or none, and each state is a group.
    """
    # A state that is measured now and then, a concentration beside temperatures say, would leave hardly a
    # complete row.
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
    return [own for own in _each_alone(trajectories) if own]


class Roughness(NamedTuple):
    """(states,) noise by the roughness of stretches, NaN where too little is measured; and their samples."""

    noise: Floats
    samples: int


def rough_noise(trajectories: Sequence[Trajectory]) -> Roughness:
    """The roughness of at most 50 stretches of 11 samples or more."""
    noise, samples = np.full(trajectories[0].dimension, np.nan), 0
    for group in looked_at(trajectories):
        # Eleven samples: with fewer the polynomial of degree ten would leave nothing.
        stretches = [part for trajectory in group for part in trajectory.segments() if len(part) >= 11][:50]
        if stretches:
            places = [trajectories[0].states.index(name) for name in group[0].states]
            noise[places] = np.sqrt(np.mean([noise_level(part) ** 2 for part in stretches], axis=0))
            samples = max(samples, sum(map(len, stretches)))
    return Roughness(noise, samples)


def some_segments(
    trajectories: Sequence[Trajectory], count: int = LOOK, longest: int = LOOK_SAMPLES
) -> list[Trajectory]:
    """Those of a few trajectories spread over the data, each cut to a bounded length."""
    segments = [s for trajectory in spread_over(trajectories, count) for s in trajectory.segments()]
    return [s.part(0, min(len(s), longest)) for s in segments if len(s) > 2]


def spread_over(data: Sequence[T], most: int) -> list[T]:
    """At most so many trajectories, or whatever there is, spread evenly over the data, with both ends."""
    places = np.unique(np.linspace(0, len(data) - 1, min(most, len(data))).round().astype(int))
    return [data[int(k)] for k in places]


def pauses(t: Floats, x: Floats, longest: int) -> NDArray[np.intp]:
    """Numbers k of the steps from t[k] to t[k + 1] that nothing can be said about.

    A step is one when it is longer than `longest` of its neighbours and of the usual steps, when as
    many samples lie on either side (a lone sample or a few would be lost for good), and when a
    state moves far in such a time: a slow motion is bridged.

    x: (samples, states), missing entries nan
    """
    steps = np.diff(t)
    if len(steps) < 2 * longest:
        return np.zeros(0, dtype=np.intp)
    # Compared with its neighbours as well: on a grid that becomes coarser gradually no step is a pause.
    near = np.maximum(np.append(steps[0], steps[:-1]), np.append(steps[1:], steps[-1]))
    long = np.flatnonzero(steps > longest * np.maximum(near, np.median(steps)))
    edges = np.concatenate([[0], long + 1, [len(t)]])
    enough = np.diff(edges) >= longest
    bursts = [(t[a:b], x[a:b]) for a, b in zip(edges[:-1][enough], edges[1:][enough], strict=True)]
    spread = np.nanstd(x, axis=0)
    spread = np.where(spread > 0, spread, np.inf)
    far = [enough[i] and enough[i + 1] and _moves(bursts, spread, float(steps[k])) > _LOOK.far
           for i, k in enumerate(long)]  # fmt: skip
    return np.asarray(long[np.array(far, dtype=bool)])


def _moves(bursts: list[tuple[Floats, Floats]], spread: Floats, time: float) -> float:
    """How far a state moves in such a time, at most, in units of its spread.

    √12 times the standard deviation of a straight line is its range; half the mean square of
    differences is the variance of white noise and a little more. A burst that is shorter than the
    time is thought to go on as it does.
    """
    distances = []
    for t, x in bursts:
        length = t[-1] - t[0]
        # Stretches as long as the pause: what a state does within one of them it may have done in the
        # pause.
        pieces = np.array_split(x, max(int(length / time), 1))
        noise = 0.5 * np.nanmean(np.diff(x, axis=0) ** 2, axis=0)
        variance = np.nanmean([np.nanvar(piece, axis=0) for piece in pieces], axis=0) - noise
        distances.append(np.sqrt(12.0 * np.maximum(variance, 0.0)) * max(time / length, 1.0))
    return float(np.nanmax(np.nanmedian(distances, axis=0) / spread, initial=0.0))


def excerpt(data: Sequence[Trajectory], most: int) -> list[Trajectory]:
    """About so many samples: trajectories spread evenly, of long ones the beginnings."""
    total = sum(len(trajectory) for trajectory in data)
    if total <= most:
        return list(data)
    # Whole beginnings of some rather than a little of all: solutions are compared along time.
    some = spread_over(data, max(1, round(len(data) * most / total)))
    each = max(200, most // len(some))
    return [trajectory.part(0, min(len(trajectory), each)) for trajectory in some]


def beginning(trajectory: Trajectory, most: int) -> Trajectory:
    """At most so many samples: every few as far as the motion allows, then cut.

    Where inputs change between the samples that are left, their instants stay, without states.
    """
    if len(trajectory) <= most:
        return trajectory
    seen = min(len(trajectory), 50 * most)
    turns = max([periods(part) for part in trajectory.part(0, seen).segments()], default=1.0) or 1.0
    # Thinned first, since a longer time says more than more samples to a swing.
    every = max(1, min(len(trajectory) // most, int(seen / (_LOOK.per_swing * turns))))
    if trajectory.u is None or _same_inputs(trajectory, every, most):
        rows = slice(0, every * most, every)
        u = None if trajectory.u is None else trajectory.u[rows]
        return replace(trajectory, t=trajectory.t[rows], x=trajectory.x[rows], u=u)
    measured = np.flatnonzero(np.isfinite(trajectory.x).any(axis=1))[:: min(every, _LOOK.driven)][:most]
    whole = trajectory.part(0, int(measured[-1]) + 1 if len(measured) else most)
    x = np.full_like(whole.x, np.nan)
    x[measured] = whole.x[measured]
    return replace(whole, x=x)


def _same_inputs(trajectory: Trajectory, every: int, most: int) -> bool:
    """Whether the inputs between every few samples are what those samples say."""
    span = trajectory.part(0, min(every * most, len(trajectory)))
    known = np.isfinite(span.values[::every])
    if span.u is None or not known.all():
        return span.u is None
    thinned = replace(span, t=span.t[::every], x=span.x[::every], u=span.u[::every])
    signal = thinned.signal()
    assert signal is not None
    wrong = np.abs(signal.at(span.t) - span.u)[: (len(thinned) - 1) * every + 1]
    return bool(np.all(np.nan_to_num(wrong) <= _LOOK.inputs_alike * np.nanstd(span.u, axis=0)))
