"""What data say about themselves: their noise, and how often they swing."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from cindy._types import Floats
from cindy.calculus import derivative_weights
from cindy.data.trajectory import Trajectory

__all__ = ["LOOK", "LOOK_SAMPLES", "noise_level", "noise_variance", "periods", "some_segments", "spread_over"]

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
    stretches = [s for one in spread_over(trajectories, _MOST) for s in one.segments()]
    return np.asarray(np.mean([noise_level(s) ** 2 for s in stretches], axis=0))


def some_segments(
    trajectories: Sequence[Trajectory], count: int = LOOK, longest: int = LOOK_SAMPLES
) -> list[Trajectory]:
    """Those of a few trajectories spread over the data, each cut to a bounded length."""
    found = [s for one in spread_over(trajectories, count) for s in one.segments()]
    return [s.part(0, min(len(s), longest)) for s in found if len(s) > 2]


def spread_over(data: Sequence[Trajectory], most: int) -> list[Trajectory]:
    """At most so many trajectories, spread evenly over the data, with both ends."""
    places = np.unique(np.linspace(0, len(data) - 1, min(most, len(data))).round().astype(int))
    return [data[int(k)] for k in places]
