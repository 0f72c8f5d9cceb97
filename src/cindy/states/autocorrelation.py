"""Whiteness: whether what a law leaves unexplained is white noise, noise with memory, or something smooth.

The white rows that a law leaves at its states are w = L⁻¹ r, in time order. Where the assumptions hold they
are white. Where they are not, κ = 1 + 2 Σ ρ_k is how many of them count as one, and an autoregressive process
on them, w_k = Σ a_i w_{k−i} + innovation of variance s², changes −2 log p by n log s² + order · log n.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from cindy._arrays import Floats
from cindy.states.motion import Fitted, Motion

__all__ = ["autoregression", "leaves_noise", "memory", "noise_memory", "sensor_memory"]

_WHITE, _CHANCE = 1.1, 4.0
"""Autocorrelation time up to which rows are white, and by how much chance may lengthen it, times √(lags that
it adds up / rows): the sum of l correlations of white noise has the variance l / rows. White noise of 500
rows is longer once in 30 times, of 5,000 once in 300 (simulated), data of solvers at their usual
tolerances have 1.3 to 40 (benchmark: solver_made)."""
_RESOLVED = 0.05
"""What is left of a step from sample to sample: beyond, it is noise or a missing term that hides the law.

(benchmark: solver_made, where it parts the data of solvers from those with 5 % of noise)"""

_ORDERS = 20
"""Of the autoregressive process that two hypotheses are compared with: a bound on work."""
_FORGETTING = (0.5, 0.7, 0.85, 0.93, 0.97)
"""What an exponential filter keeps of its last value at every sample, as a grid of memories from 2 to 30
samples: without it a slow drift in white noise passes for kicks (benchmark: wrong_noise)."""


def leaves_noise(motion: Motion, fitted: Fitted) -> bool:
    """Whether what a law leaves is white, or too large a part of a step to be called an error of the data."""
    left = np.sqrt(2.0 * fitted.variance + fitted.error * motion.step)
    if not np.all((left < _RESOLVED * motion.moved)[motion.measured]):
        return True
    return all(one.white for one in noise_memory(motion, fitted))


def noise_memory(motion: Motion, fitted: Fitted) -> list[Memory]:
    """How long what a law leaves remembers, state by state."""
    return [memory(stretches) for stretches in _left(motion, fitted)]


def sensor_memory(motion: Motion, fitted: Fitted) -> list[Memory]:
    """How long the noise of each state remembers, with 1 for states that nobody measured.

    Beside a state without measurements the rows of an equation are no noise of their own: a position and its
    rate share them. What the law leaves of the measurements, y − x, is then asked instead.
    """
    if motion.measured.all():
        return noise_memory(motion, fitted)
    left: list[list[Floats]] = [[] for _ in range(motion.states)]
    for record, x in zip(motion.records, fitted.x, strict=True):
        for j in np.flatnonzero(motion.measured):
            for residual, missing in zip((record.y - x)[..., j], record.missing[..., j], strict=True):
                left[j].append(residual[~missing])
    return [memory(stretches) for stretches in left]


def autoregression(motion: Motion, fitted: Fitted) -> float:
    """The change of −2 log p by an autoregressive process on what a law leaves, its parameters paid for.

    Rows of states that nobody measured hold no noise: what they leave is as smooth as the law.
    """
    left = zip(_left(motion, fitted), motion.measured, strict=False)
    return sum(_autoregression(stretches) for stretches, measured in left if measured)


def _autoregression(stretches: list[Floats]) -> float:
    """n log s² + parameters · log n at its least, with a slow drift beside the process and without one.

    White noise beside a drift needs autoregression of endless order: w_k − w_{k−1} = v_k − θ v_{k−1}, and the
    process is that of v (an exponential filter; Box and Jenkins, Time Series Analysis, 1970). Its first value
    and its weights make a unit triangle, so that densities stay comparable.
    """
    # It loads scipy.stats and takes a moment: only whoever compares hypotheses waits for it.
    from scipy.signal import lfilter

    rows = sum(map(len, stretches))
    size = sum(float(one @ one) for one in stretches)
    best = _by_levinson(stretches)
    for forgetting in _FORGETTING if size > 0.0 else ():
        left = [lfilter([1.0, -1.0], [1.0, -forgetting], one) for one in stretches]
        ratio = sum(float(one @ one) for one in left) / size
        drifting = rows * float(np.log(max(ratio, 1e-12))) + float(np.log(max(rows, 1)))
        best = min(best, drifting + _by_levinson(left))
    return best


def _by_levinson(stretches: list[Floats]) -> float:
    """n log s² + order · log n at its least over the orders, by Levinson's recursion."""
    rows = sum(map(len, stretches))
    most = min(_ORDERS, rows // 10)
    lags = [sum(float(one[k:] @ one[: max(len(one) - k, 0)]) for one in stretches) for k in range(most + 1)]
    if not rows or lags[0] <= 0.0:
        return 0.0
    correlation = np.array(lags) / lags[0]
    left, filter_, best = 1.0, np.zeros(0), 0.0
    for order in range(1, most + 1):
        # Levinson and Durbin: the next reflection coefficient from the last filter, in O(order) operations.
        reflection = (correlation[order] - filter_ @ correlation[order - 1 : 0 : -1]) / left
        filter_ = np.append(filter_ - reflection * filter_[::-1], reflection)
        left *= max(1.0 - reflection**2, 1e-12)
        best = min(best, rows * float(np.log(left)) + order * float(np.log(rows)))
    return best


def _left(motion: Motion, fitted: Fitted) -> list[list[Floats]]:
    """The white rows that a law leaves at its states, state by state and stretch by stretch."""
    left: list[list[Floats]] = [[] for _ in range(motion.states)]
    for white in motion.whitened(fitted):
        if white is None:
            return []
        table = motion.table(white, fitted.law, fitted.coef)
        rows = (table[:, -1] - table[:, :-1] @ fitted.coef).reshape(white.linear.target.shape)
        for j, stretches in enumerate(left):
            stretches += list(rows[..., j])
    return left


class Memory(NamedTuple):
    """An autocorrelation time, the lags that it adds up, and the rows it is of."""

    time: float
    lags: int
    rows: int

    @property
    def white(self) -> bool:
        """Whether chance may have made it as long as it is."""
        return self.time < _WHITE + _CHANCE * float(np.sqrt(self.lags / max(self.rows, 1)))


def memory(stretches: list[Floats]) -> Memory:
    """1 + 2 Σ ρ_k over the lags whose pairs of neighbours are positive (Geyer 1992), of all stretches."""
    longest, rows = max((len(one) for one in stretches), default=0), sum(map(len, stretches))
    size = sum(float(one @ one) for one in stretches)
    if longest < 4 or size == 0.0:
        return Memory(1.0, 1, rows)
    correlation = np.zeros(longest)
    for one in stretches:
        # All lags at once; twice the length, so that the ends do not wrap round.
        correlation += np.fft.irfft(np.abs(np.fft.rfft(one, 2 * longest)) ** 2)[:longest]
    # Sums of neighbouring lags are positive for a reversible chain; the first that is not marks where noise
    # begins.
    pairs = (correlation / size)[: longest // 2 * 2].reshape(-1, 2).sum(axis=1)
    negative = np.flatnonzero(pairs <= 0)
    count = int(negative[0]) if len(negative) else len(pairs)
    return Memory(float(2.0 * np.sum(pairs[:count]) - 1.0), max(2 * count - 1, 1), rows)
