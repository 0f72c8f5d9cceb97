"""Rows made white although noise drifts through the terms."""

import numpy as np
import scipy.linalg
from numpy.typing import NDArray

from cindy.errors import DataError

__all__ = ["whitened"]

Floats = NDArray[np.float64]


def whitened(stack: Floats, t: Floats, count: int, feedback: float) -> Floats:
    """The rows of each window without {1, …, t^(count − 1)}, white although noise drifts.

    White noise e in the states leaves residuals e + drift, where the drift is the integral,
    taken `count` times, of noise that is `feedback` times as large in mean square.
    Differences of order `count` remove the polynomials and make the covariance of both
    parts banded; the rows are then solved with its Cholesky factor, in linear time.

    stack: (windows, length, columns); t: (windows, length)
    returns (windows · (length − count), columns)
    """
    plain, drift = _taps(np.diff(t, axis=1), count)
    size = stack.shape[1] - count
    rows = np.zeros((len(stack), size, stack.shape[2]))
    for i in range(count + 1):
        rows += plain[:, :, i, None] * stack[:, i : i + size]
    band = np.zeros((count + 1, len(stack), size))
    for s in range(min(count + 1, size)):
        for taps, strength in ((plain, 1.0), (drift, feedback)):
            products = taps[:, : size - s, s:] * taps[:, s:, : count + 1 - s]
            band[s, :, : size - s] += strength * products.sum(axis=2)
    factor = scipy.linalg.cholesky_banded(band.reshape(count + 1, -1), lower=True, check_finite=False)
    flat = np.asfortranarray(rows.reshape(-1, stack.shape[2]))
    solved, info = scipy.linalg.lapack.dtbtrs(factor, flat, uplo="L", overwrite_b=True)
    if info != 0:
        raise DataError(f"Integral: the samples of a window cannot be told apart (row {info}).")
    return np.asarray(solved)


def _taps(steps: Floats, count: int) -> tuple[Floats, Floats]:
    """(windows, rows, count + 1): weights of a difference, and of the same difference of an integral."""
    if count == 1:
        plain = np.stack([-np.ones_like(steps), np.ones_like(steps)], axis=2)
        return plain, np.stack([steps / 2, steps / 2], axis=2)
    before, after = steps[:, :-1], steps[:, 1:]
    whole = before + after
    plain = np.stack([after / whole, -np.ones_like(whole), before / whole], axis=2)
    return plain, np.array([1.0, 4.0, 1.0]) / 6.0 * (before * after / 2)[:, :, None]
