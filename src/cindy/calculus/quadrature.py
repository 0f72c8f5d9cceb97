"""Repeated integrals of samples, and one operator for all windows that are alike."""

from typing import Any

import numpy as np
from numpy.lib.stride_tricks import as_strided

from cindy._arrays import Space
from cindy._types import Floats
from cindy.calculus.local_polynomial import interval_weights, reach

__all__ = ["apply_alike", "increments", "nested", "running_sums", "windowed"]


_FEW_WINDOWS = 8
"""Below as many, going along all windows in step is slower than going through one at a time."""


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
