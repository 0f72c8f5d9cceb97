"""Rows made white although noise drifts through the terms."""

import numpy as np
import scipy.linalg

from cindy._types import Floats
from cindy.errors import DataError

__all__ = ["whitened", "whitened_differences"]


_FEW_WINDOWS = 8
"""Below as many, going along all windows in step is slower than going through one at a time."""


def whitened(stack: Floats, t: Floats, count: int, feedback: float) -> Floats:
    """The rows of each window without {1, …, t^(count − 1)}, white although noise drifts.

    White noise e in the states leaves residuals e + drift, where the drift is the integral,
    taken `count` times, of noise that is `feedback` times as large in mean square.
    Differences of order `count` remove the polynomials and make the covariance of both
    parts banded; the rows are then solved with its Cholesky factor, in linear time.

    stack: (windows, length, columns); t: (windows, length)
    returns (windows · (length − count), columns)
    """
    plain, _ = _taps(np.diff(t, axis=1), count)
    size = stack.shape[1] - count
    rows = plain[:, :, 0, None] * stack[:, :size]
    for i in range(1, count + 1):
        rows += plain[:, :, i, None] * stack[:, i : i + size]
    return whitened_differences(rows, t, count, feedback)


def whitened_differences(rows: Floats, t: Floats, count: int, feedback: float) -> Floats:
    """As `whitened`, from the differences of the rows: (windows, length − count, columns).

    The differences are overwritten. That of neighbours is (x[1] − x[0]) for count 1, and for count 2
    the middle sample less the line through its neighbours, with the sign turned.
    """
    plain, drift = _taps(np.diff(t, axis=1), count)
    windows, size, columns = rows.shape
    band = np.zeros((count + 1, windows, size))
    for s in range(min(count + 1, size)):
        for taps, strength in ((plain, 1.0), (drift, feedback)):
            products = taps[:, : size - s, s:] * taps[:, s:, : count + 1 - s]
            band[s, :, : size - s] += strength * products.sum(axis=2)
    try:
        factor = scipy.linalg.cholesky_banded(band.reshape(count + 1, -1), lower=True, check_finite=False)
    except np.linalg.LinAlgError as error:
        raise DataError(f"Integral: the samples of a window cannot be told apart: {error}.") from error
    if windows < _FEW_WINDOWS:
        solved, _ = scipy.linalg.lapack.dtbtrs(factor, rows.reshape(-1, columns), uplo="L")
        return np.asarray(solved)
    below = factor.reshape(count + 1, windows, size)
    # Forward substitution in all windows at once: a window begins anew, with nothing before its first row.
    for j in range(size):
        for s in range(1, min(count, j) + 1):
            rows[:, j] -= below[s, :, j - s, None] * rows[:, j - s]
        rows[:, j] /= below[0, :, j, None]
    return rows.reshape(-1, columns)


def _taps(steps: Floats, count: int) -> tuple[Floats, Floats]:
    """(windows, rows, count + 1): weights of a difference, and of the same difference of an integral."""
    if count == 1:
        plain = np.stack([-np.ones_like(steps), np.ones_like(steps)], axis=2)
        return plain, np.stack([steps / 2, steps / 2], axis=2)
    before, after = steps[:, :-1], steps[:, 1:]
    whole = before + after
    plain = np.stack([after / whole, -np.ones_like(whole), before / whole], axis=2)
    return plain, np.array([1.0, 4.0, 1.0]) / 6.0 * (before * after / 2)[:, :, None]
