"""Windows of consecutive samples, and what is eliminated from each of them."""

from collections.abc import Iterator

import numpy as np
from numpy.typing import NDArray

from cindy._types import Floats
from cindy.errors import DataError

__all__ = ["single_steps", "split", "stacks"]

Ints = NDArray[np.int64]


def single_steps(t: Floats) -> NDArray[np.bool_]:
    """(n − 1,): which steps of an otherwise uniform grid are single ones; the others pass missing samples."""
    steps = np.diff(t)
    usual = float(np.median(steps)) if len(steps) else 1.0
    ratio = steps / usual
    odd = np.flatnonzero((np.abs(ratio - np.round(ratio)) > 1e-3 * ratio) | (np.round(ratio) < 1))
    if len(odd):
        i = int(odd[0])
        raise DataError(
            f"Discrete: the time steps must be equal, but t = {t[i]:g} is followed by {t[i + 1]:g} "
            f"while the usual step is {usual:g}. Resample, or use Integral, which takes any grid."
        )
    return np.asarray(np.round(ratio) == 1)


def split(samples: int, length: int, *, least: int = 1) -> Ints:
    """Edges of windows of about `length` samples, as equal as can be, the longer ones first.

    No window is shorter than `least`, unless there are fewer samples than that.

    >>> split(10, 3).tolist()
    [0, 4, 7, 10]
    """
    count = max(1, min(round(samples / length), samples // least))
    short, extra = divmod(samples, count)
    lengths = np.full(count, short)
    lengths[:extra] += 1
    return np.concatenate([[0], np.cumsum(lengths)])


def stacks(rows: Floats, t: Floats, edges: Ints) -> Iterator[tuple[Floats, Floats]]:
    """Views (windows, length, columns) of rows and (windows, length) of times, one for each length."""
    lengths = np.diff(edges)
    changes = np.flatnonzero(np.diff(lengths)) + 1
    for first, last in zip([0, *changes], [*changes, len(lengths)], strict=True):
        a, b, length = int(edges[first]), int(edges[last]), int(lengths[first])
        yield rows[a:b].reshape(-1, length, rows.shape[1]), t[a:b].reshape(-1, length)
