"""Sub-bands of values on a grid: what is fast along some axes, and in which of them only noise is left."""

from __future__ import annotations

from collections.abc import Iterator
from functools import lru_cache
from math import comb

import numpy as np

from cindy._types import Floats

__all__ = ["boxes", "white_level"]

# `python -m benchmarks constants` changes them one by one on five equations and a moving shock at 1 to 100 %
# noise: as they are, the level is biased by 0.25 % at most and 0.41 % off in the root mean square.
_MOMENTS = 8
"""Polynomials of lower degree leave the fast half of the filters empty, as differences of this order do. With
4 the largest bias doubles (benchmark: constants)."""
_BOXES = 5
"""Boxes along every axis: fronts and edges fill a few of them. With 2 a moving shock fills most, and is taken
for noise; with 10 errors are a tenth larger (benchmark: constants)."""
_FRONT = 4.0
"""Standard deviations above the median at which a box holds more than noise; white noise almost never
comes so far. With 2 errors are two fifths larger; without a limit a moving shock makes the level 3.8 % too
large (benchmark: constants)."""
_FEW = 0.2
"""Share of such boxes up to which they are fronts; where there are more, the noise itself differs, and the
median over boxes is what is meant. With 0 the largest bias is 0.8 % (benchmark: constants); with 1 nothing
moves there, but noise that trebles along an axis comes out a tenth too small."""
_ALIKE = 2.0
"""Standard deviations within which two bands have the same level: noise alone differs by more in one of
twenty cases, and a signal that remains below changes the level by no more than chance does. With 1 errors are
half as large again, with 6 the largest bias is 1.8 % (benchmark: constants)."""
_ROUGH = 3.0
"""Likewise, for the fastest band above the level that no signal enters, which is known less well. With 1
errors are four fifths larger (benchmark: constants)."""


def white_level(values: Floats, safe: float, doubt: float) -> float:
    """The variance of white noise in values on an even grid.

    values: (…), NaN where missing
    safe: a variance that no smooth signal enters, with its relative standard error, the doubt

    Orthonormal filters (Daubechies, Comm. Pure Appl. Math. 41, 1988) part every axis into a slow and a fast
    half. White noise has one level in all of the bands that come out, and the signal is in those that are
    slow along most axes (Donoho and Johnstone, Biometrika 81, 1994, who take the fastest alone). From the
    fastest on, every band that agrees with those before it counts: all samples but a few of them. On a grid
    of 256 × 200 the level is then known three to four times better than by differences of high order.
    """
    total, count = 0.0, 0.0
    level, error = safe, doubt
    for band in _bands(values):
        found, independent = _level(band * band)
        if not independent:
            continue
        apart = float(np.sqrt(2.0 / independent + error**2)) * level
        if not count and found > level + _ROUGH * apart:
            return safe
        if count and abs(found - level) > _ALIKE * apart:
            continue
        total, count = total + independent * found, count + independent
        level, error = total / count, float(np.sqrt(2.0 / count))
    return level


def _bands(values: Floats) -> Iterator[Floats]:
    """The bands that are fast along an axis at least, those that are fast along most of them first.

    An axis of few samples is left as it is.
    """
    slow = _filter()
    fast = slow[::-1] * (-1.0) ** np.arange(len(slow))
    bands: dict[tuple[int, ...], Floats] = {(): values}
    for axis in range(values.ndim):
        if values.shape[axis] >= 4 * _MOMENTS:
            bands = {
                (*which, rate): _half(band, weights, axis)
                for which, band in bands.items()
                for rate, weights in ((1, fast), (0, slow))
            }
    for which in sorted(bands, key=lambda rates: -sum(rates)):
        if any(which):
            yield bands[which]


def _half(values: Floats, weights: Floats, axis: int) -> Floats:
    """Every second value of the filtered ones, where the filter lies within the axis."""
    moved = np.moveaxis(values, axis, 0)
    count = (len(moved) - len(weights)) // 2 + 1
    total = weights[0] * moved[: 2 * count : 2][:count]
    for k, weight in enumerate(weights[1:], 1):
        total += weight * moved[k : k + 2 * count : 2][:count]
    return np.moveaxis(total, 0, axis)


@lru_cache(maxsize=1)
def _filter() -> Floats:
    """The slow half of the orthonormal filters with so many vanishing moments, by spectral factors."""
    roots = []
    for y in np.roots([comb(_MOMENTS - 1 + k, k) for k in range(_MOMENTS)][::-1]):
        middle = 1.0 - 2.0 * y
        z = middle + np.sqrt(middle * middle - 1.0 + 0j)
        roots.append(z if abs(z) < 1.0 else 1.0 / z)
    weights = np.real(np.poly([*roots, *(-1.0,) * _MOMENTS]))
    return np.asarray(weights / np.linalg.norm(weights))


def boxes(values: Floats) -> list[Floats]:
    """The known values of every box of a grid in which most are known."""
    parts = [values]
    for axis in range(values.ndim):
        count = max(1, min(_BOXES, values.shape[axis] // 4))
        parts = [piece for part in parts for piece in np.array_split(part, count, axis=axis)]
    known = [(part[np.isfinite(part)], part.size) for part in parts]
    return [part for part, whole in known if part.size > 0.25 * whole]


def _level(squares: Floats) -> tuple[float, float]:
    """The mean of squares over boxes without fronts, and how many of them it is made of."""
    known = boxes(squares)
    if not known:
        return 0.0, 0.0
    means, sizes = np.array([p.mean() for p in known]), np.array([float(p.size) for p in known])
    middle = float(np.median(means))
    calm = means <= middle * (1.0 + _FRONT * np.sqrt(2.0 / sizes))
    if np.mean(~calm) > _FEW:
        return middle, float(sizes.sum()) / 1.57
    return float(np.average(means[calm], weights=sizes[calm])), float(sizes[calm].sum())
