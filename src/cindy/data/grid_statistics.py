"""Estimates from values on a grid alone: the noise, whether neighbours share it, the bandwidth of the signal.

The standard deviation of the noise is estimated in two steps (`grid_noise`).

1. Eighth differences along all axes remove the signal and keep the noise. Their mean squares are taken over
   boxes of the grid; the median over the boxes ignores those few that hold a front.
2. On even grids, orthonormal filters split the values into frequency bands (`white_level`). White noise has
   the same level in every band, so all bands that agree with the fastest one are averaged, which makes the
   estimate three to four times more precise. The cost is a few passes over the values.
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
    """Settings of the estimates; `python -m benchmarks constants` changes each of them."""

    difference: int = 8
    """Order of the differences along every axis: with 8 the estimated noise is right within 2 to 4 % on the
    twelve equations of `python -m benchmarks pde`, at noise from 1 to 100 %."""
    rise: float = 1.25
    """If leaving out every second sample raises the estimate by a larger factor, neighbours share their
    noise: the estimate of independent noise stays the same within the 4 % above."""
    nearest: int = 12
    """Samples in time from which the field at its first and last time is estimated, when it is denoised."""
    most_rise: float = 4.0
    """A larger rise comes from the signal, which thinning makes rougher: averaging two neighbours explains
    a rise by 3."""
    # `python -m benchmarks constants` changes the next ones in turn on five equations and a moving shock
    # at 1 to 100 % noise. With the values below, the bias of the level is at most 0.25 % and its root mean
    # square error 0.41 %.
    moments: int = 8
    """Vanishing moments of the filters: polynomials of lower degree have nothing in the fast half. With 4
    the largest bias doubles (benchmark: constants)."""
    boxes: int = 5
    """Boxes along every axis: fronts and edges fill a few of them. With 2 a moving shock fills most boxes and
    is taken for noise; with 10 errors are a tenth larger (benchmark: constants)."""
    front: float = 4.0
    """Standard deviations above the median from which a box is said to hold more than noise; white noise
    almost never reaches it. With 2 errors are two fifths larger; without a limit a moving shock makes the
    level 3.8 % too large (benchmark: constants)."""
    few: float = 0.2
    """Share of such boxes up to which they are taken for fronts. If there are more, the noise itself varies
    over the grid, and the median over all boxes is returned. With 0 the largest bias is 0.8 % (benchmark:
    constants); with 1 nothing changes there, but noise that trebles along an axis comes out a tenth small."""
    alike: float = 2.0
    """Standard deviations within which two bands count as equal: noise alone differs by more in one of twenty
    cases, and a weaker signal changes the level no more than chance does. With 1 errors are half as large
    again, with 6 the largest bias is 1.8 % (benchmark: constants)."""
    rough: float = 3.0
    """The same for the fastest band and the estimate by differences, which is less precise. With 1 errors are
    four fifths larger (benchmark: constants)."""


_LEVEL = _Level()


def grid_noise(values: Floats, coordinates: Sequence[Floats]) -> float:
    """The standard deviation of white noise in values on a grid, in the two steps above.

    The first step alone is right within 1 to 2 %. That is not enough for nonlinear terms and large noise: for
    λ-ω at 50 % the coefficients of u³ are then wrong by three standard errors, by one with the true level.

    values: (…), NaN where missing; coordinates: one for each axis
    """
    # Step 1.
    safe, count = _safe_variance(values, coordinates)
    if not all(_even(x) for x in coordinates) or safe == 0.0:
        return float(np.sqrt(safe))
    # Step 2. Neighbouring differences share samples: the sum over lags of their squared correlation, for each
    # axis, says how many of them are worth one independent value. A median is less precise by π/2 in
    # variance.
    order = _LEVEL.difference
    overlap = comb(4 * order, 2 * order) / comb(2 * order, order) ** 2
    doubt = np.sqrt(np.pi * overlap**values.ndim / max(count, 1))
    return float(np.sqrt(white_level(values, safe, float(doubt))))


def _safe_variance(values: Floats, coordinates: Sequence[Floats]) -> tuple[float, int]:
    """The variance of the noise by high differences alone, and the number of these differences."""
    # Differences along one axis after the other: a wave that is slow along any axis is removed.
    differences = values
    for axis, coordinate in enumerate(coordinates):
        differences = _difference(differences, coordinate, axis)
    # The mean is precise within a box; the median over the boxes ignores the few that hold a front.
    means = [float(box.mean()) for box in boxes(differences * differences)]
    return (float(np.median(means)) if means else 0.0), int(np.isfinite(differences).sum())


def _even(x: Floats) -> bool:
    steps = np.diff(x)
    return len(steps) > 0 and bool(np.ptp(steps) <= 1e-3 * float(np.mean(steps)))


def _difference(values: Floats, x: Floats, axis: int) -> Floats:
    """Differences of the eighth order along an axis, scaled so that white noise keeps its variance."""
    order = min(_LEVEL.difference, len(x) - 1)
    if order < 1:
        return values
    if _even(x):
        return np.asarray(np.diff(values, order, axis=axis) / np.sqrt(comb(2 * order, order)))
    weights = divided_differences(x, order)
    windows = np.lib.stride_tricks.sliding_window_view(np.moveaxis(values, axis, -1), order + 1, axis=-1)
    return np.moveaxis(np.einsum("...wk,wk->...w", windows, weights), -1, axis)


def white_level(values: Floats, safe: float, doubt: float) -> float:
    """The variance of white noise in values on an even grid: the mean square over its frequency bands.

    Orthonormal filters (Daubechies, Comm. Pure Appl. Math. 41, 1988) split every axis into a slow and a fast
    half. White noise has the same variance in all resulting bands; the signal is in the bands that are slow
    along most axes (Donoho and Johnstone, Biometrika 81, 1994, use the fastest band alone). Starting with the
    fastest band, each band that agrees with the mean of those before it is averaged in. On a grid of
    256 × 200 the result is three to four times more precise than by differences of high order.

    values: (…), NaN where missing
    safe, doubt: a variance that no smooth signal enters, and its relative standard error
    """
    total, count = 0.0, 0.0
    level, error = safe, doubt
    for band in _bands(values):
        # The mean square of n independent values has the relative standard error √(2/n).
        variance, independent = _level(band * band)
        if not independent:
            continue
        deviation = float(np.sqrt(2.0 / independent + error**2)) * level
        # If even the fastest band holds signal, only the differences can be trusted.
        if not count and variance > level + _LEVEL.rough * deviation:
            return safe
        if count and abs(variance - level) > _LEVEL.alike * deviation:
            continue
        total, count = total + independent * variance, count + independent
        level, error = total / count, float(np.sqrt(2.0 / count))
    return level


def _bands(values: Floats) -> Iterator[Floats]:
    """The bands that are fast along at least one axis; those that are fast along most axes come first.

    Axes of few samples are not split.
    """
    slow = _filter()
    # The quadrature mirror filter, orthogonal to the slow one and to its even shifts.
    fast = slow[::-1] * (-1.0) ** np.arange(len(slow))
    bands: dict[tuple[int, ...], Floats] = {(): values}
    for axis in range(values.ndim):
        if values.shape[axis] >= 4 * _LEVEL.moments:
            bands = {
                (*rates, rate): _half(band, weights, axis)
                for rates, band in bands.items()
                for rate, weights in ((1, fast), (0, slow))
            }
    for rates in sorted(bands, key=lambda rates: -sum(rates)):
        if any(rates):
            yield bands[rates]


def _half(values: Floats, weights: Floats, axis: int) -> Floats:
    """Every second value of the filtered ones, without those for which the filter leaves the axis."""
    moved = np.moveaxis(values, axis, 0)
    count = (len(moved) - len(weights)) // 2 + 1
    total = weights[0] * moved[: 2 * count : 2][:count]
    for k, weight in enumerate(weights[1:], 1):
        total += weight * moved[k : k + 2 * count : 2][:count]
    return np.moveaxis(total, 0, axis)


@lru_cache(maxsize=1)
def _filter() -> Floats:
    """The slow filter of Daubechies with `moments` vanishing moments, by spectral factorisation."""
    roots = []
    # Daubechies' polynomial P(y) has y = sin²(ω/2). Each of its roots is a pair z, 1/z; the ones inside the
    # unit circle give the filter of minimum phase.
    for y in np.roots([comb(_LEVEL.moments - 1 + k, k) for k in range(_LEVEL.moments)][::-1]):
        middle = 1.0 - 2.0 * y
        z = middle + np.sqrt(middle * middle - 1.0 + 0j)
        roots.append(z if abs(z) < 1.0 else 1.0 / z)
    weights = np.real(np.poly([*roots, *(-1.0,) * _LEVEL.moments]))
    return np.asarray(weights / np.linalg.norm(weights))


def boxes(values: Floats) -> list[Floats]:
    """The known values of every box of a grid of which more than a quarter are known."""
    parts = [values]
    for axis in range(values.ndim):
        count = max(1, min(_LEVEL.boxes, values.shape[axis] // 4))
        parts = [piece for part in parts for piece in np.array_split(part, count, axis=axis)]
    known = [(part[np.isfinite(part)], part.size) for part in parts]
    return [box for box, size in known if box.size > 0.25 * size]


def _level(squares: Floats) -> tuple[float, float]:
    """The mean of squares over boxes without fronts, and the number of independent values behind it."""
    filled = boxes(squares)
    if not filled:
        return 0.0, 0.0
    means, sizes = np.array([box.mean() for box in filled]), np.array([float(box.size) for box in filled])
    median = float(np.median(means))
    calm = means <= median * (1.0 + _LEVEL.front * np.sqrt(2.0 / sizes))
    if np.mean(~calm) > _LEVEL.few:
        # The median of normal values is less precise than the mean by π/2 in variance.
        return median, float(sizes.sum()) / 1.57
    return float(np.average(means[calm], weights=sizes[calm])), float(sizes[calm].sum())


def shared_by_neighbours(values: Floats, coordinates: Sequence[Floats]) -> tuple[int, ...]:
    """For every axis the number n such that the noise is independent if one of n samples is kept.

    The estimated noise rises when samples are left out until those that share noise are apart, and then it
    stays; it rises for ever if the roughness is that of the signal.
    """
    steps = []
    level = np.sqrt(_safe_variance(values, coordinates)[0])
    for axis, coordinate in enumerate(coordinates):
        step = 1
        levels = [level]
        for k in (2, 4, 8):
            # Thinning by 8 only has to show that a rise has ended, but needs enough samples to show it.
            if len(coordinate) // k < _LEVEL.difference + (5 if k > 4 else 2):
                break
            thinned = [slice(None)] * values.ndim
            thinned[axis] = slice(None, None, k)
            grid = [*coordinates[:axis], coordinate[::k], *coordinates[axis + 1 :]]
            levels.append(np.sqrt(_safe_variance(values[tuple(thinned)], grid)[0]))
        # A rise that averaging explains and that then ends is due to shared noise.
        for k in range(1, len(levels) - 1):
            rises = _LEVEL.rise < levels[k] / max(levels[k - 1], 1e-300) < _LEVEL.most_rise
            stays = levels[k + 1] < _LEVEL.rise * levels[k]
            if rises and stays:
                step = 2**k
        steps.append(step)
    return tuple(steps)


def corner(values: Floats, axis: int, *, periodic: bool) -> float:
    """The frequency, in radians per sample, at which the spectrum along an axis goes over from signal to
    noise.

    The running sum of the amplitudes grows fast over the signal and slowly over the noise. The corner is
    where two straight lines fit that sum best (Messenger and Bortz, J. Comput. Phys. 443, 2021).
    """
    from scipy import fft

    moved = np.moveaxis(values, axis, 0).reshape(values.shape[axis], -1)
    moved = moved[:, np.isfinite(moved).all(axis=0)]
    n = len(moved)
    if n < 8 or moved.shape[1] == 0:
        return np.pi / 4
    # Cosines if the axis is not periodic: the jump from the last sample to the first would look like signal.
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
        # One straight line from the first end to the corner, another from there to the second end.
        first = running[0] + (running[k] - running[0]) * places[: k + 1] / k
        second = running[k] + (running[-1] - running[k]) * (places[k:] - k) / (last - k)
        errors[k] = np.sum((running[: k + 1] - first) ** 2) + np.sum((running[k:] - second) ** 2)
    k = int(np.argmin(errors))
    return float(2 * np.pi * k / n if periodic else np.pi * k / n)


def without_noise(values: Floats, sigma: float, periodic: Sequence[bool]) -> Floats:
    """The values, over space and then time, without the waves whose amplitude white noise explains.

    1. The field at the first and the last time is estimated by a parabola through the nearest samples in
       time; its waves in space that are below its noise are removed.
    2. The straight line in time between these two is subtracted. The rest vanishes at both ends, so that its
       waves in time are sines. In space waves are complex exponentials along periodic axes, else cosines.
    3. Waves of the rest that are below the noise are removed, and the line is added again.

    periodic: whether each axis of space is
    """
    from scipy import fft

    count = values.shape[-1]
    if count < 2 * _LEVEL.nearest:
        return _cut(values, sigma, periodic)
    # Step 1. The norm of the weights is the standard deviation of their value in units of the noise.
    index = np.arange(float(_LEVEL.nearest))
    weights = np.linalg.pinv(np.vander(index, 3, increasing=True))[0]
    noise = sigma * float(np.linalg.norm(weights))
    first = _cut(values[..., : _LEVEL.nearest] @ weights, noise, periodic)
    last = _cut(values[..., : -_LEVEL.nearest - 1 : -1] @ weights, noise, periodic)
    # Steps 2 and 3.
    line = first[..., None] + (last - first)[..., None] * np.linspace(0.0, 1.0, count)
    inner = fft.dst((values - line)[..., 1:-1], type=1, axis=-1, norm="ortho")
    inner_waves = fft.idst(_cut(inner, sigma, periodic), type=1, axis=-1, norm="ortho")
    line[..., 1:-1] += inner_waves
    return np.asarray(line)


def _cut(values: Floats, sigma: float, periodic: Sequence[bool]) -> Floats:
    """The values without the waves along the first axes, those of space, that noise of this size explains."""
    from scipy import fft

    bounded = [axis for axis, repeats in enumerate(periodic) if not repeats]
    rings = [axis for axis, repeats in enumerate(periodic) if repeats]
    waves: Any = fft.dctn(values, axes=bounded, norm="ortho") if bounded else values
    if rings:
        waves = fft.fftn(waves, axes=rings, norm="ortho")
    # In an orthonormal basis every coefficient of white noise has the standard deviation σ, and the largest
    # of n is about σ √(2 log n).
    waves = np.where(np.abs(waves) > sigma * np.sqrt(2.0 * np.log(max(values.size, 2))), waves, 0.0)
    if rings:
        waves = np.real(fft.ifftn(waves, axes=rings, norm="ortho"))
    return np.asarray(fft.idctn(waves, axes=bounded, norm="ortho") if bounded else waves)
