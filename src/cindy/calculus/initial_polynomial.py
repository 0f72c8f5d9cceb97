"""Free initial values: polynomials in time that are eliminated from windows, and the way back."""

from __future__ import annotations

import numpy as np

from cindy._types import Floats

__all__ = ["onto_samples", "without_first", "without_polynomials"]


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
