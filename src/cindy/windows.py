"""Windows of consecutive samples, and what is eliminated from each of them."""

from collections.abc import Iterator

import numpy as np
from numpy.typing import NDArray

from cindy.errors import DataError

__all__ = ["onto_samples", "single_steps", "split", "stacks", "without_first", "without_polynomials"]

Floats = NDArray[np.float64]
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
