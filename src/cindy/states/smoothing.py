"""What samples say of themselves before any law: their noise, and how much they bend from one to the next."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from scipy.linalg import cho_solve_banded, cholesky_banded

from cindy._arrays import Floats

__all__ = ["Smooth", "principal_motion", "roughness", "smoothed"]

_ORDER = 3
"""Of the differences that are taken for noise: a parabola bends freely (Whittaker, 1923)."""
_RATIOS = 10.0 ** np.arange(-8.0, 12.1, 1.0)
"""Of bending to noise, a decade apart, as far as double precision tells them from none."""
_MOST_LAGS = 250
"""Samples of a window of singular spectrum analysis: a bound on work."""
_FEW = 12
"""Samples below which nothing is smoothed."""


@dataclass(frozen=True, eq=False)
class Smooth:
    """Values (samples, states) along which samples run, and the noise beside them (states,)."""

    values: Floats
    noise: Floats


def smoothed(t: Floats, y: Floats) -> Smooth:
    """Whittaker's smoother, each state with the ratio of bending to noise that is most likely.

    Third divided differences of the samples have the covariance σ² D Dᵀ + τ²; the likelihood of both
    variances is maximal over a grid of ratios.
    """
    if len(t) < _FEW:
        return Smooth(y.copy(), np.zeros(y.shape[1]))
    d = _differences(t)
    rows = len(d)
    product = np.zeros((_ORDER + 1, rows))
    for o in range(_ORDER + 1):
        product[o, : rows - o] = np.sum(d[: rows - o, o:] * d[o:, : d.shape[1] - o], axis=1)
    values, noise = y.copy(), np.zeros(y.shape[1])
    z = np.stack([_apply(d, column) for column in y.T], axis=1)
    best = np.full(y.shape[1], np.inf)
    for ratio in _RATIOS:
        band = product.copy()
        band[0] += ratio
        try:
            factor = cholesky_banded(band, lower=True, check_finite=False)
        except np.linalg.LinAlgError:
            # Steps that differ by orders leave no digits for so small a ratio: the next is larger.
            continue
        u = cho_solve_banded((factor, True), z, check_finite=False)
        square = np.maximum(np.sum(z * u, axis=0), 1e-300)
        value = rows * np.log(square) + 2.0 * float(np.log(factor[0]).sum())
        for j in np.flatnonzero(value < best):
            best[j], noise[j] = value[j], np.sqrt(square[j] / rows)
            values[:, j] = y[:, j] - _back(d, u[:, j], len(t))
    return Smooth(values, noise)


def roughness(t: Floats, y: Floats) -> float:
    """How much a motion bends from sample to sample: ω h for a wave of frequency ω; the worst state's."""
    if len(t) < _FEW:
        return 1.0
    x = smoothed(t, y).values
    first, second = np.diff(x, axis=0), np.diff(x, 2, axis=0)
    size = np.sqrt(np.mean(first**2, axis=0))
    return float(np.max(np.sqrt(np.mean(second**2, axis=0)) / np.where(size > 0, size, np.inf)))


def principal_motion(stretches: Floats, noise: float) -> Floats:
    """(stretches, samples) without noise, for derivatives of high order: singular spectrum analysis.

    1. Windows of L samples of all stretches are the columns of a matrix H (L, K).
    2. White noise has eigenvalues of H Hᵀ up to σ² (√K + √L)²; the eigenvectors above are the motion.
    3. The windows are projected onto these, and what the windows say of one sample is averaged.

    Motion has few and slow eigenvectors, so that what noise is left in them is slow as well, and derivatives
    do not magnify it. Reference: Golyandina, Nekrutkin, Zhigljavsky, Analysis of Time Series Structure, 2001.
    """
    length = min(max(stretches.shape[1] // 4, 2), _MOST_LAGS)
    windows = np.lib.stride_tricks.sliding_window_view(stretches, length, axis=1)
    count = windows.shape[0] * windows.shape[1]
    values, vectors = np.linalg.eigh(np.einsum("skl,skm->lm", windows, windows))
    motion = vectors[:, values > noise**2 * (np.sqrt(count) + np.sqrt(length)) ** 2]
    projected = windows @ motion @ motion.T
    total, weight = np.zeros_like(stretches), np.zeros(stretches.shape[1])
    for lag in range(length):
        total[:, lag : lag + windows.shape[1]] += projected[..., lag]
        weight[lag : lag + windows.shape[1]] += 1.0
    return total / weight


def _differences(t: Floats) -> Floats:
    """(rows, 4) weights of third differences, 1, 3, 3, 1 where steps are equal."""
    weights = np.ones((len(t), 1))
    mean = float(t[-1] - t[0]) / (len(t) - 1)
    for k in range(1, _ORDER + 1):
        step = ((t[k:] - t[:-k]) / (k * mean))[:, None]
        left = np.hstack([weights[:-1], np.zeros((len(weights) - 1, 1))])
        right = np.hstack([np.zeros((len(weights) - 1, 1)), weights[1:]])
        weights = (right - left) / step
    return weights


def _apply(d: Floats, y: Floats) -> Floats:
    return np.asarray(sum(d[:, p] * y[p : p + len(d)] for p in range(d.shape[1])))


def _back(d: Floats, u: Floats, samples: int) -> Floats:
    out = np.zeros(samples)
    for p in range(d.shape[1]):
        out[p : p + len(d)] += d[:, p] * u
    return out
