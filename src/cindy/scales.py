"""What data say about themselves: their period, their noise, and the windows that follow."""

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from cindy.calculus import derivative_weights
from cindy.trajectory import Trajectory

__all__ = ["derivative_window", "noise_level", "periods", "window_length"]

Floats = NDArray[np.float64]

_LOOK = 12
"""Segments looked at, spread over the data: the settings need no more, and no second pass."""
_LOOK_SAMPLES = 4000
_FEW_PERIODS = 3.0
_SHORTEST_WINDOW = 24


def window_length(trajectories: Sequence[Trajectory], *, least: int) -> int:
    """Samples in a window of the integral form; 0 where trajectories should stay whole.

    A trajectory of fewer than three periods stays whole: every cut costs an initial
    state. Longer ones are cut into half periods, over which even a chaotic
    solution is still a smooth function of its initial state.
    """
    segments = _some_segments(trajectories)
    if not segments:
        return 0
    turns = np.array([periods(s) for s in segments])
    lengths = np.array([len(s) for s in segments], dtype=float)
    if np.median(turns) < _FEW_PERIODS:
        return 0
    half_period = float(np.median(lengths / turns)) / 2
    return max(round(half_period), least, _SHORTEST_WINDOW)


def periods(segment: Trajectory) -> float:
    """How many times the fastest state swings about its mean and back.

    A swing counts when it goes from a quarter of a standard deviation above the
    mean to as much below, so noise about the mean is not taken for motion.
    """
    most = 0
    for column in (segment.x - segment.x.mean(axis=0)).T:
        band = 0.25 * float(column.std())
        side = np.sign(column[np.abs(column) > band])
        most = max(most, int(np.count_nonzero(np.diff(side))))
    return most / 2


def noise_level(segment: Trajectory) -> Floats:
    """(d,) estimated standard deviation of the noise: what no local polynomial explains.

    The smallest of the estimates by polynomials of several degrees, since a degree
    too low for the motion takes motion for noise.
    """
    estimates = []
    for degree, half_width in ((2, 2), (4, 3), (6, 4), (8, 5)):
        if len(segment) < 2 * half_width + 1:
            break
        weights = derivative_weights(segment.t, order=0, degree=degree, half_width=half_width)
        left = 1.0 - weights.diagonal()
        residual = segment.x - weights @ segment.x
        estimates.append(np.sqrt(np.mean(residual**2, axis=0) / np.mean(left)))
    if not estimates:
        return np.zeros(segment.dimension)
    return np.asarray(np.min(estimates, axis=0))


def derivative_window(
    trajectories: Sequence[Trajectory], *, order: int, degree: int | None, half_width: int | None
) -> tuple[int, int]:
    """Degree and half-width for derivatives of the given order.

    Lepski's rule: of all candidates, in the order of how much noise they let through,
    the last whose derivative agrees, within the noise, with all before it.
    """
    segments = [s for s in _some_segments(trajectories) if len(s) >= order + 2]
    shortest = int(np.median([len(s) for s in segments])) if segments else 9
    candidates = _candidates(shortest, order, degree, half_width)
    if len(candidates) == 1 or not segments:
        return candidates[0]
    gains, slopes = [], []
    for p, w in candidates:
        operators = [derivative_weights(s.t, order=order, degree=p, half_width=w) for s in segments]
        slopes.append(np.vstack([d @ s.x for d, s in zip(operators, segments, strict=True)]))
        gains.append(np.sqrt(np.concatenate([d.power(2).sum(axis=1) for d in operators])))
    noise = np.sqrt(np.mean([noise_level(s) ** 2 for s in segments], axis=0))
    ranked = [int(i) for i in np.argsort([-np.sqrt(np.mean(g**2)) for g in gains])]
    best = ranked[0]
    for k, candidate in enumerate(ranked[1:], start=1):
        for earlier in ranked[:k]:
            # Row by row in units of its own noise: the one-sided rows at the ends would drown the others.
            apart = (slopes[candidate] - slopes[earlier]) / gains[earlier][:, None]
            if np.sqrt(np.mean((apart / np.maximum(noise, np.finfo(float).tiny)) ** 2)) > 1.2:
                return candidates[best]
        best = candidate
    return candidates[best]


def _candidates(
    samples: int, order: int, degree: int | None, half_width: int | None
) -> list[tuple[int, int]]:
    widest = max((samples - 1) // 2, 1)
    widths = sorted({min(w, widest) for w in (4, 5, 6, 8, 10, 13, 16, 20, 25, 32, 40, 50)})
    pairs = {
        (p, w)
        for w in ([half_width] if half_width else widths)
        for p in ([degree] if degree else [min(8, max(2 * w, order))])
        if p <= 2 * w or half_width
    }
    return sorted(pairs) or [(degree or max(order, 2), widths[-1])]


def _some_segments(trajectories: Sequence[Trajectory]) -> list[Trajectory]:
    """A few segments spread over the data, each cut to a bounded length."""
    pick = np.unique(np.linspace(0, len(trajectories) - 1, min(_LOOK, len(trajectories))).round().astype(int))
    found = [s for i in pick for s in trajectories[int(i)].segments()]
    return [s.part(0, min(len(s), _LOOK_SAMPLES)) for s in found if len(s) > 2]
