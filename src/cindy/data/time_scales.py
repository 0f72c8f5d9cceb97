"""What data say about themselves: their noise, how often they swing, where they pause; excerpts of them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np
from numpy.typing import NDArray

from cindy._types import Floats
from cindy.calculus import derivative_weights
from cindy.data.trajectory import Trajectory

__all__ = [
    "LOOK",
    "LOOK_SAMPLES",
    "beginning",
    "excerpt",
    "noise_level",
    "noise_variance",
    "pauses",
    "periods",
    "some_segments",
    "spread_over",
]


LOOK = 12
"""Segments looked at, spread over the data: the settings need no more, and no second pass."""
LOOK_SAMPLES = 4000
"""Samples of a segment that are looked at."""
_MOST = 300
"""Trajectories whose noise is looked at: the error of its variance is then a few parts in a hundred."""


def periods(segment: Trajectory) -> float:
    """How many times the fastest state swings about its mean and back.

    A swing counts when it goes from a quarter of a standard deviation, and three
    of the noise, above the mean to as much below: noise is not taken for motion.
    """
    most = 0
    for column, noise in zip((segment.x - segment.x.mean(axis=0)).T, noise_level(segment), strict=True):
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
        weights = derivative_weights(segment.t, order=0, degree=below, half_width=half_width)
        left = 1.0 - weights.diagonal()
        residual = segment.x - weights @ segment.x
        estimates.append(np.sqrt(np.mean(residual**2, axis=0) / np.mean(left)))
    if not estimates:
        return np.zeros(segment.dimension)
    return np.asarray(np.min(estimates, axis=0))


def noise_variance(trajectories: Sequence[Trajectory]) -> Floats:
    """(states,) of the noise: the mean over stretches of at most 300 trajectories, spread over the data."""
    stretches = [s for trajectory in spread_over(trajectories, _MOST) for s in trajectory.segments()]
    return np.asarray(np.mean([noise_level(s) ** 2 for s in stretches], axis=0))


def some_segments(
    trajectories: Sequence[Trajectory], count: int = LOOK, longest: int = LOOK_SAMPLES
) -> list[Trajectory]:
    """Those of a few trajectories spread over the data, each cut to a bounded length."""
    segments = [s for trajectory in spread_over(trajectories, count) for s in trajectory.segments()]
    return [s.part(0, min(len(s), longest)) for s in segments if len(s) > 2]


def spread_over(data: Sequence[Trajectory], most: int) -> list[Trajectory]:
    """At most so many trajectories, spread evenly over the data, with both ends."""
    places = np.unique(np.linspace(0, len(data) - 1, min(most, len(data))).round().astype(int))
    return [data[int(k)] for k in places]


_FAR = 0.7
"""Of the spread of a state: what moves less far in a pause is bridged. `python -m benchmarks damage`: from
0.5 to 2 Lorenz with pauses is right and slow hares are bridged; were all bridged, Lorenz would have 21
false terms, were none, hares 3 to 15 times the error."""


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
    near = np.maximum(np.append(steps[0], steps[:-1]), np.append(steps[1:], steps[-1]))
    long = np.flatnonzero(steps > longest * np.maximum(near, np.median(steps)))
    edges = np.concatenate([[0], long + 1, [len(t)]])
    enough = np.diff(edges) >= longest
    bursts = [(t[a:b], x[a:b]) for a, b in zip(edges[:-1][enough], edges[1:][enough], strict=True)]
    spread = np.nanstd(x, axis=0)
    spread = np.where(spread > 0, spread, np.inf)
    far = [enough[i] and enough[i + 1] and _moves(bursts, spread, float(steps[k])) > _FAR
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
        pieces = np.array_split(x, max(int(length / time), 1))
        noise = 0.5 * np.nanmean(np.diff(x, axis=0) ** 2, axis=0)
        variance = np.nanmean([np.nanvar(piece, axis=0) for piece in pieces], axis=0) - noise
        distances.append(np.sqrt(12.0 * np.maximum(variance, 0.0)) * max(time / length, 1.0))
    return float(np.nanmax(np.nanmedian(distances, axis=0) / spread, initial=0.0))


_PER_SWING = 40
"""Samples to a swing that thinning leaves: solutions are compared at them, and need no more."""


def excerpt(data: Sequence[Trajectory], most: int) -> list[Trajectory]:
    """About so many samples: trajectories spread evenly, of long ones the beginnings."""
    total = sum(len(trajectory) for trajectory in data)
    if total <= most:
        return list(data)
    some = spread_over(data, max(1, round(len(data) * most / total)))
    each = max(200, most // len(some))
    return [trajectory.part(0, min(len(trajectory), each)) for trajectory in some]


def beginning(trajectory: Trajectory, most: int) -> Trajectory:
    """At most so many samples: every few as far as the motion allows, then cut."""
    if len(trajectory) <= most:
        return trajectory
    seen = min(len(trajectory), 50 * most)
    turns = max([periods(part) for part in trajectory.part(0, seen).segments()], default=1.0) or 1.0
    every = max(1, min(len(trajectory) // most, int(seen / (_PER_SWING * turns))))
    rows = slice(0, every * most, every)
    return replace(
        trajectory,
        t=trajectory.t[rows],
        x=trajectory.x[rows],
        u=None if trajectory.u is None else trajectory.u[rows],
    )
