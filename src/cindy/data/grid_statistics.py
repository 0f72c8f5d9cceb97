"""Estimates from values on a grid alone: the noise, whether neighbours share it, the bandwidth of the signal.

The noise is measured in two steps.

1. Eighth differences along all axes at once leave the noise and hardly any signal; the median over boxes of
   their mean squares passes over fronts.
2. On even grids orthonormal filters part the values into bands (`white_level`). White noise has one level
   in all of them, so every band that agrees with the fastest counts, and the level is known three to four
   times better.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import lru_cache
from math import comb
from typing import Any

import numpy as np

from cindy._arrays import Floats
from cindy.calculus import divided_differences


@dataclass(frozen=True)
class _Level:
    """How the noise of a field is measured; `python -m benchmarks constants` changes each."""

    difference: int = 8
    """Order of the differences along every axis: with it the noise is within 2 to 4 % on the twelve equations
    of `python -m benchmarks pde`, at noise from 1 to 100 %."""
    rise: float = 1.25
    """A noise that rises by more when every second sample is left out is shared by neighbours: independent
    noise stays where it is, within the 4 % above."""
    nearest: int = 12
    """Samples in time by which a field is read at its first and last time, when noise is taken off."""
    most_rise: float = 4.0
    """A rise by more is the signal, which thinning makes rougher: an average of two neighbours rises by 3."""
    # `python -m benchmarks constants` changes the next one by one on five equations and a moving shock
    # at 1 to 100 % noise: as they are, the level is biased by 0.25 % at most and 0.41 % off in the root
    # mean square.
    moments: int = 8
    """Polynomials of lower degree leave the fast half of the filters empty, as differences of this order do.
    With 4 the largest bias doubles (benchmark: constants)."""
    boxes: int = 5
    """Boxes along every axis: fronts and edges fill a few of them. With 2 a moving shock fills most, and is
    taken for noise; with 10 errors are a tenth larger (benchmark: constants)."""
    front: float = 4.0
    """Standard deviations above the median at which a box holds more than noise; white noise almost never
    comes so far. With 2 errors are two fifths larger; without a limit a moving shock makes the level 3.8 %
    too large (benchmark: constants)."""
    few: float = 0.2
    """Share of such boxes up to which they are fronts; where there are more, the noise itself differs, and
    the median over boxes is what is meant. With 0 the largest bias is 0.8 % (benchmark: constants); with 1
    nothing moves there, but noise that trebles along an axis comes out a tenth too small."""
    alike: float = 2.0
    """Standard deviations within which two bands have the same level: noise alone differs by more in one of
    twenty cases, and a signal that remains below changes the level by no more than chance does. With 1 errors
    are half as large again, with 6 the largest bias is 1.8 % (benchmark: constants)."""
    rough: float = 3.0
    """Likewise, for the fastest band above the level that no signal enters, which is known less well. With 1
    errors are four fifths larger (benchmark: constants)."""


_LEVEL = _Level()


def grid_noise(values: Floats, coordinates: Sequence[Floats]) -> float:
    """The standard deviation of white noise in values on a grid, by differences along all axes at once.

    values: (…), NaN where missing; coordinates: one an axis
    The signal varies little from sample to sample along every axis, so that the product of high differences
    leaves the noise alone; the median over boxes of their mean squares passes over fronts. That is within 1
    to 2 %. Where terms are bent and noise is large that is not enough (λ-ω at 50 %: the coefficients of u³
    lie three standard errors off, with the true level one): on even grids `white_level` makes it sharper.
    """
    safe, count = _safe_variance(values, coordinates)
    if not all(_even(x) for x in coordinates) or safe == 0.0:
        return float(np.sqrt(safe))
    # Squares of differences that overlap: Σ over lags of their squared correlation, an axis, and the median.
    order = _LEVEL.difference
    # Neighbouring differences share samples, so that there are fewer independent ones than differences.
    overlap = comb(4 * order, 2 * order) / comb(2 * order, order) ** 2
    doubt = np.sqrt(np.pi * overlap**values.ndim / max(count, 1))
    return float(np.sqrt(white_level(values, safe, float(doubt))))


def _safe_variance(values: Floats, coordinates: Sequence[Floats]) -> tuple[float, int]:
    """Of the noise by high differences alone, and how many of them there are."""
    # Differences along one axis after the other: a wave that is slow along any axis is removed.
    left = values
    for axis, x in enumerate(coordinates):
        left = _difference(left, x, axis)
    # The median over boxes, since a front fills few of them, and the mean within, since it is more precise
    # there.
    known = [float(part.mean()) for part in boxes(left * left)]
    return (float(np.median(known)) if known else 0.0), int(np.isfinite(left).sum())


def _even(x: Floats) -> bool:
    steps = np.diff(x)
    return len(steps) > 0 and bool(np.ptp(steps) <= 1e-3 * float(np.mean(steps)))


def _difference(values: Floats, x: Floats, axis: int) -> Floats:
    """Differences of the eighth order along an axis, in units in which white noise keeps its size."""
    order = min(_LEVEL.difference, len(x) - 1)
    if order < 1:
        return values
    if _even(x):
        return np.asarray(np.diff(values, order, axis=axis) / np.sqrt(comb(2 * order, order)))
    weights = divided_differences(x, order)
    moved = np.moveaxis(values, axis, -1)
    seen = np.lib.stride_tricks.sliding_window_view(moved, order + 1, axis=-1)
    return np.moveaxis(np.einsum("...wk,wk->...w", seen, weights), -1, axis)


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
        # A band of n independent values knows the variance of white noise with a relative error √(2/n).
        own, independent = _level(band * band)
        if not independent:
            continue
        apart = float(np.sqrt(2.0 / independent + error**2)) * level
        # Even the fastest band holds signal: then only the differences are safe.
        if not count and own > level + _LEVEL.rough * apart:
            return safe
        if count and abs(own - level) > _LEVEL.alike * apart:
            continue
        total, count = total + independent * own, count + independent
        level, error = total / count, float(np.sqrt(2.0 / count))
    return level


def _bands(values: Floats) -> Iterator[Floats]:
    """The bands that are fast along an axis at least, those that are fast along most of them first.

    An axis of few samples is left as it is.
    """
    slow = _filter()
    # The quadrature mirror filter, orthogonal to the slow one and to its even shifts.
    fast = slow[::-1] * (-1.0) ** np.arange(len(slow))
    bands: dict[tuple[int, ...], Floats] = {(): values}
    for axis in range(values.ndim):
        if values.shape[axis] >= 4 * _LEVEL.moments:
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
    # Daubechies' polynomial P(y) with y = sin²(ω/2). Each root is a pair z, 1/z; the one inside the circle
    # gives the filter of minimum phase.
    for y in np.roots([comb(_LEVEL.moments - 1 + k, k) for k in range(_LEVEL.moments)][::-1]):
        middle = 1.0 - 2.0 * y
        z = middle + np.sqrt(middle * middle - 1.0 + 0j)
        roots.append(z if abs(z) < 1.0 else 1.0 / z)
    weights = np.real(np.poly([*roots, *(-1.0,) * _LEVEL.moments]))
    return np.asarray(weights / np.linalg.norm(weights))


def boxes(values: Floats) -> list[Floats]:
    """The known values of every box of a grid in which most are known."""
    parts = [values]
    for axis in range(values.ndim):
        count = max(1, min(_LEVEL.boxes, values.shape[axis] // 4))
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
    calm = means <= middle * (1.0 + _LEVEL.front * np.sqrt(2.0 / sizes))
    if np.mean(~calm) > _LEVEL.few:
        # The median of normal values is less precise than the mean by π/2 in variance.
        return middle, float(sizes.sum()) / 1.57
    return float(np.average(means[calm], weights=sizes[calm])), float(sizes[calm].sum())


def shared_by_neighbours(values: Floats, coordinates: Sequence[Floats]) -> tuple[int, ...]:
    """For every axis, of how many samples one must be kept for the noise to be independent."""
    steps = []
    whole = np.sqrt(_safe_variance(values, coordinates)[0])
    for axis, x in enumerate(coordinates):
        step = 1
        levels = [whole]
        for k in (2, 4, 8):
            # Two levels are needed to tell a rise that ends; few samples must do for the second.
            if len(x) // k < _LEVEL.difference + (5 if k > 4 else 2):
                break
            thin = [slice(None)] * values.ndim
            thin[axis] = slice(None, None, k)
            others = [*coordinates[:axis], x[::k], *coordinates[axis + 1 :]]
            levels.append(np.sqrt(_safe_variance(values[tuple(thin)], others)[0]))
        # It rises, by no more than averaging explains, and then stays: noise. A signal goes on rising.
        for k in range(1, len(levels) - 1):
            rises = _LEVEL.rise < levels[k] / max(levels[k - 1], 1e-300) < _LEVEL.most_rise
            stays = levels[k + 1] < _LEVEL.rise * levels[k]
            if rises and stays:
                step = 2**k
        steps.append(step)
    return tuple(steps)


def corner(values: Floats, axis: int, *, periodic: bool) -> float:
    """The frequency, in radians a sample, at which the spectrum along an axis goes over from signal to noise.

    Where two straight lines fit the running sum of the amplitudes best (Messenger and Bortz,
    J. Comput. Phys. 443, 2021): the sum grows fast over the signal and slowly over what is left.
    """
    from scipy import fft

    moved = np.moveaxis(values, axis, 0).reshape(values.shape[axis], -1)
    moved = moved[:, np.isfinite(moved).all(axis=0)]
    n = len(moved)
    if n < 8 or moved.shape[1] == 0:
        return np.pi / 4
    # Cosines where the axis does not repeat: a jump from the last sample to the first would look like signal.
    spectrum = np.abs(fft.rfft(moved, axis=0)) if periodic else np.abs(fft.dct(moved, axis=0))
    amplitude = spectrum.mean(axis=1)
    amplitude[0] = 0.0
    running = np.cumsum(amplitude)
    if running[-1] <= 0:
        return np.pi / 4
    last = len(running) - 1
    places = np.arange(len(running))
    errors = np.full(len(running), np.inf)
    for k in range(1, last):
        first = running[0] + (running[k] - running[0]) * places[: k + 1] / k
        second = running[k] + (running[-1] - running[k]) * (places[k:] - k) / (last - k)
        # Two straight lines through the ends and the corner.
        errors[k] = np.sum((running[: k + 1] - first) ** 2) + np.sum((running[k:] - second) ** 2)
    k = int(np.argmin(errors))
    return float(2 * np.pi * k / n if periodic else np.pi * k / n)


def without_noise(values: Floats, sigma: float, periodic: Sequence[bool]) -> Floats:
    """The values, over space and then time, without the waves whose amplitude white noise explains.

    Along axes of space that are not periodic waves are cosines. Along time they are sines beside the
    straight line between the ends, which follow a slope there, and the ends are read from the parabola
    through the samples nearest.

    periodic: of the axes of space
    """
    from scipy import fft

    count = values.shape[-1]
    if count < 2 * _LEVEL.nearest:
        return _cut(values, sigma, periodic)
    index = np.arange(float(_LEVEL.nearest))
    # Weights of the value at the first sample, of a parabola by least squares; their length says how noisy
    # it is.
    row = np.linalg.pinv(np.vander(index, 3, increasing=True))[0]
    size = sigma * float(np.linalg.norm(row))
    # Fields at the first and the last time, less noisy than single frames and without waves below their
    # noise.
    first = _cut(values[..., : _LEVEL.nearest] @ row, size, periodic)
    last = _cut(values[..., : -_LEVEL.nearest - 1 : -1] @ row, size, periodic)
    line = first[..., None] + (last - first)[..., None] * np.linspace(0.0, 1.0, count)
    inner = fft.dst((values - line)[..., 1:-1], type=1, axis=-1, norm="ortho")
    inner_waves = fft.idst(_cut(inner, sigma, periodic), type=1, axis=-1, norm="ortho")
    line[..., 1:-1] += inner_waves
    return np.asarray(line)


def _cut(values: Floats, sigma: float, periodic: Sequence[bool]) -> Floats:
    """The values without waves in space, the first axes, that do not rise above noise of this size."""
    from scipy import fft

    even = [k for k, around in enumerate(periodic) if not around]
    around = [k for k, ring in enumerate(periodic) if ring]
    waves: Any = fft.dctn(values, axes=even, norm="ortho") if even else values
    if around:
        waves = fft.fftn(waves, axes=around, norm="ortho")
    # In an orthonormal basis white noise has the size σ in every coefficient; the largest of n is about σ
    # √(2 log n).
    waves = np.where(np.abs(waves) > sigma * np.sqrt(2.0 * np.log(max(values.size, 2))), waves, 0.0)
    if around:
        waves = np.real(fft.ifftn(waves, axes=around, norm="ortho"))
    return np.asarray(fft.idctn(waves, axes=even, norm="ortho") if even else waves)
