"""Whiteness: whether what a law leaves unexplained is noise, or something smooth."""

from __future__ import annotations

import numpy as np

from cindy._types import Floats
from cindy.states.motion import Fitted, Motion

__all__ = ["autocorrelation_time", "leaves_noise", "whiteness"]

_WHITE, _CHANCE = 1.1, 4.0
"""Autocorrelation time up to which rows are white, and by how much chance may lengthen it, times √rows.

Noise gives 0.9 to 1.1, solvers at their usual tolerances 1.3 to 40 (benchmarks: chaotic, solver_made)."""
_RESOLVED = 0.05
"""What is left of a step from sample to sample: beyond, it is noise or a missing term that hides the law.

(benchmark: solver_made, where it parts the data of solvers from those with 5 % of noise)"""


def leaves_noise(motion: Motion, fitted: Fitted) -> bool:
    """Whether what a law leaves is white, or too large a part of a step to be called an error of the data."""
    left = np.sqrt(2.0 * fitted.variance + fitted.error * motion.step)
    if not np.all((left < _RESOLVED * motion.moved)[motion.measured]):
        return True
    limit = _WHITE + _CHANCE / np.sqrt(motion.rows // motion.states)
    return bool((whiteness(motion, fitted) < limit).all())


def whiteness(motion: Motion, fitted: Fitted) -> Floats:
    """(states,) autocorrelation times of the white rows that a law leaves at its states; 1 for noise."""
    left: list[list[Floats]] = [[] for _ in range(motion.states)]
    for white in motion.whitened(fitted):
        if white is None:
            return np.ones(motion.states)
        table = motion.table(white, fitted.law, fitted.coef)
        rows = (table[:, -1] - table[:, :-1] @ fitted.coef).reshape(white.linear.target.shape)
        for j, stretches in enumerate(left):
            stretches += list(rows[..., j])
    return np.array([autocorrelation_time(stretches) for stretches in left])


def autocorrelation_time(stretches: list[Floats]) -> float:
    """1 + 2 Σ ρ_k over the lags whose pairs of neighbours are positive (Geyer 1992), of all stretches."""
    longest = max((len(one) for one in stretches), default=0)
    size = sum(float(one @ one) for one in stretches)
    if longest < 4 or size == 0.0:
        return 1.0
    correlation = np.zeros(longest)
    for one in stretches:
        correlation += np.fft.irfft(np.abs(np.fft.rfft(one, 2 * longest)) ** 2)[:longest]
    pairs = (correlation / size)[: longest // 2 * 2].reshape(-1, 2).sum(axis=1)
    negative = np.flatnonzero(pairs <= 0)
    return float(2.0 * np.sum(pairs[: negative[0] if len(negative) else len(pairs)]) - 1.0)
