"""Divided differences over neighbouring samples: what is rough in values on any grid."""

from __future__ import annotations

from typing import Any

import numpy as np
import scipy.linalg
from numpy.lib.stride_tricks import as_strided

from cindy._arrays import Space
from cindy._types import Floats
from cindy.calculus.local_polynomial import interval_weights, reach
from cindy.errors import DataError

__all__ = [
    "apply_alike",
    "divided_differences",
    "increments",
    "nested",
    "onto_samples",
    "running_sums",
    "whitened",
    "whitened_differences",
    "windowed",
    "without_first",
    "without_polynomials",
]


def divided_differences(x: Floats, order: int) -> Floats:
    """(samples − order, order + 1): weights of the differences of an order over neighbours, of unit length.

    White noise keeps its size, and of polynomials of lower degree nothing is left.
    """
    windows = np.lib.stride_tricks.sliding_window_view(x, order + 1)
    apart = windows[:, :, None] - windows[:, None, :]
    scale = np.abs(apart).max(axis=(1, 2))[:, None, None]
    apart = np.where(np.eye(order + 1, dtype=bool), 1.0, apart / scale)
    weights = 1.0 / np.prod(apart, axis=2)
    return np.asarray(weights / np.linalg.norm(weights, axis=1, keepdims=True))


def without_first(stack: Floats) -> Floats:
    """Differences to the first row of each window, as (windows · (length − 1), columns)."""
    return (stack[:, 1:] - stack[:, :1]).reshape(-1, stack.shape[2])


def without_polynomials(stack: Floats, t: Floats, count: int) -> Floats:
    """The rows of each window in an orthonormal basis of the complement of {1, …, t^(count − 1)}.

    `count` reflections map those polynomials onto the first `count` rows, which are
    dropped; what was white noise before is white noise after. `stack` is overwritten.
    """
    length = t.shape[1]
    if count == 1:
        # The one reflection maps the constant vector onto the first row, and takes the same from all others.
        root = np.sqrt(length)
        shared = (stack[:, 1:].sum(axis=1) + (1 + root) * stack[:, 0]) / (length + root)
        return np.asarray((stack[:, 1:] - shared[:, None]).reshape(-1, stack.shape[2]))
    half = (t[:, -1:] - t[:, :1]) / 2
    scaled = (t - (t[:, -1:] + t[:, :1]) / 2) / half
    powers = scaled[:, :, None] ** np.arange(count)
    for j in range(count):
        mirror = powers[:, j:, j].copy()
        mirror[:, 0] += np.copysign(np.linalg.norm(mirror, axis=1), mirror[:, 0])
        mirror *= (np.sqrt(2.0) / np.linalg.norm(mirror, axis=1))[:, None]
        for part in (stack[:, j:], powers[:, j:]):
            part -= mirror[:, :, None] * (mirror[:, None, :] @ part)
    return stack[:, count:].reshape(len(stack) * (length - count), stack.shape[2])


def onto_samples(rows: Floats, t: Floats, count: int) -> Floats:
    """The way back from `without_polynomials` for one window: (length, columns) with no polynomial in it.

    rows: (length − count, columns) in the basis of the complement; t: (length,)
    """
    half = (t[-1] - t[0]) / 2
    powers = ((t - (t[-1] + t[0]) / 2) / half)[:, None] ** np.arange(count)
    mirrors = []
    for j in range(count):
        mirror = powers[j:, j].copy()
        mirror[0] += np.copysign(np.linalg.norm(mirror), mirror[0])
        mirror *= np.sqrt(2.0) / np.linalg.norm(mirror)
        powers[j:] -= np.outer(mirror, mirror @ powers[j:])
        mirrors.append(mirror)
    result = np.vstack([np.zeros((count, rows.shape[1])), rows])
    for j in reversed(range(count)):
        result[j:] -= np.outer(mirrors[j], mirrors[j] @ result[j:])
    return result


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


def nested(samples: int, start: int, stop: int, half_width: int, times: int) -> list[tuple[int, int]]:
    """The stretches of samples that an integral taken `times` times looks at, from narrow to wide.

    The first is start … stop − 1 itself; each integral is made from the next one.
    """
    spans = [(start, stop)]
    for _ in range(times):
        a, b = spans[-1]
        spans.append(reach(samples, a, max(b - 1, a + 1), half_width))
    return spans


def increments(
    values: Floats, t: Floats, spans: list[tuple[int, int]], *, degree: int, half_width: int
) -> Floats:
    """(b − a − 1, columns): how the repeated integral grows from sample to sample of the first stretch.

    values: (samples of the last stretch, columns); t: the times of those samples
    The inner integrals begin anywhere: what that adds is a polynomial in t, and is
    eliminated with the initial state.
    """
    origin = spans[-1][0]
    for k in range(len(spans) - 1, 0, -1):
        (a, b), (low, high) = spans[k - 1], spans[k]
        weights = interval_weights(t[low - origin : high - origin], degree=degree, half_width=half_width)
        steps = np.asarray(weights @ values)[a - low : b - 1 - low]
        if k > 1:
            values = np.zeros((b - a, values.shape[1]))
            np.cumsum(steps, axis=0, out=values[1:])
    return steps


def running_sums(stack: Floats) -> None:
    """Turn rows into sums of the rows so far, in every window of a stack (windows, length, columns)."""
    if len(stack) < _FEW_WINDOWS:
        np.cumsum(stack, axis=1, out=stack)
        return
    for j in range(1, stack.shape[1]):
        stack[:, j] += stack[:, j - 1]


def apply_alike(operator: Floats, values: Floats, first: int, length: int, out: Floats) -> None:
    """The same operator applied to every window: the rows of window k go to its place in `out`.

    operator: (k, m), from the m samples that a window looks at to its k rows
    values: (samples, columns), column by column; window k looks at first + k · length and on
    out: (windows · k, columns) of a matrix that is stored column by column
    """
    rows, width = operator.shape
    windows, columns = len(out) // rows, values.shape[1]
    item = values.itemsize
    last = first + (windows - 1) * length + width
    if windows and not 0 <= first < last <= len(values):
        # Strides look at any memory: what lies behind the values may be NaN, and NaN times zero is NaN.
        raise IndexError(f"windows look at samples {first} … {last - 1} of {len(values)}")
    looked = as_strided(
        values[first:], (windows, columns, width), (length * item, values.strides[1], item), writeable=False
    )
    into = as_strided(out, (windows, columns, rows), (rows * item, out.strides[1], item))
    np.matmul(looked, operator.T, out=into)


def windowed(values: Any, operator: Floats, windows: int, length: int, space: Space) -> Any:
    """(columns, windows · k): as `apply_alike`, on a device, where every column is a row.

    values: (columns, windows · length + m − length), for an operator (k, m); `length` ≥ m − length
    """
    xp = space.xp
    columns, more = int(values.shape[0]), operator.shape[1] - length
    own = xp.reshape(values[:, : windows * length], (columns, windows, length))
    if more:
        # What a window sees of the next one: its beginning; the last sees what is left.
        last = xp.reshape(values[:, windows * length :], (columns, 1, more))
        own = xp.concat([own, xp.concat([own[:, 1:, :more], last], axis=1)], axis=2)
    made = xp.matmul(own, space.put(operator.T))
    return xp.reshape(made, (columns, windows * operator.shape[0]))
