"""What values on a grid tell of themselves: the noise, whether neighbours share it, how fast the signal
varies."""

from __future__ import annotations

from collections.abc import Sequence
from math import comb
from typing import Any

import numpy as np

from cindy._types import Floats
from cindy.calculus import divided_differences
from cindy.data.subbands import boxes, white_level

__all__ = ["corner", "grid_noise", "shared_by_neighbours", "without_noise"]


_DIFFERENCE = 8
"""Order of the differences along every axis: with it the noise is within 2 to 4 % on the twelve equations of
`python -m benchmarks pde`, at noise from 1 to 100 %."""
_RISE = 1.25
"""A noise that rises by more when every second sample is left out is shared by neighbours: independent noise
stays where it is, within the 4 % above."""
_NEAREST = 12
"""Samples in time by which a field is read at its first and last time, when noise is taken off."""
_MOST_RISE = 4.0
"""A rise by more is the signal, which thinning makes rougher: an average of two neighbours rises by 3."""


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
    overlap = comb(4 * _DIFFERENCE, 2 * _DIFFERENCE) / comb(2 * _DIFFERENCE, _DIFFERENCE) ** 2
    doubt = np.sqrt(np.pi * overlap**values.ndim / max(count, 1))
    return float(np.sqrt(white_level(values, safe, float(doubt))))


def _safe_variance(values: Floats, coordinates: Sequence[Floats]) -> tuple[float, int]:
    """Of the noise by high differences alone, and how many of them there are."""
    left = values
    for axis, x in enumerate(coordinates):
        left = _difference(left, x, axis)
    known = [float(part.mean()) for part in boxes(left * left)]
    return (float(np.median(known)) if known else 0.0), int(np.isfinite(left).sum())


def _even(x: Floats) -> bool:
    steps = np.diff(x)
    return len(steps) > 0 and bool(np.ptp(steps) <= 1e-3 * float(np.mean(steps)))


def shared_by_neighbours(values: Floats, coordinates: Sequence[Floats]) -> tuple[int, ...]:
    """For every axis, of how many samples one must be kept for the noise to be independent."""
    found = []
    whole = np.sqrt(_safe_variance(values, coordinates)[0])
    for axis, x in enumerate(coordinates):
        step = 1
        levels = [whole]
        for k in (2, 4, 8):
            # Two levels are needed to tell a rise that ends; few samples must do for the second.
            if len(x) // k < _DIFFERENCE + (5 if k > 4 else 2):
                break
            thin = [slice(None)] * values.ndim
            thin[axis] = slice(None, None, k)
            others = [*coordinates[:axis], x[::k], *coordinates[axis + 1 :]]
            levels.append(np.sqrt(_safe_variance(values[tuple(thin)], others)[0]))
        # It rises, by no more than averaging explains, and then stays: noise. A signal goes on rising.
        for k in range(1, len(levels) - 1):
            rises = _RISE < levels[k] / max(levels[k - 1], 1e-300) < _MOST_RISE
            stays = levels[k + 1] < _RISE * levels[k]
            if rises and stays:
                step = 2**k
        found.append(step)
    return tuple(found)


def _difference(values: Floats, x: Floats, axis: int) -> Floats:
    """Differences of the eighth order along an axis, in units in which white noise keeps its size."""
    order = min(_DIFFERENCE, len(x) - 1)
    if order < 1:
        return values
    if _even(x):
        return np.asarray(np.diff(values, order, axis=axis) / np.sqrt(comb(2 * order, order)))
    weights = divided_differences(x, order)
    moved = np.moveaxis(values, axis, -1)
    seen = np.lib.stride_tricks.sliding_window_view(moved, order + 1, axis=-1)
    return np.moveaxis(np.einsum("...wk,wk->...w", seen, weights), -1, axis)


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
    if count < 2 * _NEAREST:
        return _cut(values, sigma, periodic)
    index = np.arange(float(_NEAREST))
    row = np.linalg.pinv(np.vander(index, 3, increasing=True))[0]
    size = sigma * float(np.linalg.norm(row))
    first = _cut(values[..., :_NEAREST] @ row, size, periodic)
    last = _cut(values[..., : -_NEAREST - 1 : -1] @ row, size, periodic)
    line = first[..., None] + (last - first)[..., None] * np.linspace(0.0, 1.0, count)
    inner = fft.dst((values - line)[..., 1:-1], type=1, axis=-1, norm="ortho")
    kept = fft.idst(_cut(inner, sigma, periodic), type=1, axis=-1, norm="ortho")
    line[..., 1:-1] += kept
    return np.asarray(line)


def _cut(values: Floats, sigma: float, periodic: Sequence[bool]) -> Floats:
    """The values without waves in space, the first axes, that do not rise above noise of this size."""
    from scipy import fft

    even = [k for k, around in enumerate(periodic) if not around]
    around = [k for k, ring in enumerate(periodic) if ring]
    waves: Any = fft.dctn(values, axes=even, norm="ortho") if even else values
    if around:
        waves = fft.fftn(waves, axes=around, norm="ortho")
    waves = np.where(np.abs(waves) > sigma * np.sqrt(2.0 * np.log(max(values.size, 2))), waves, 0.0)
    if around:
        waves = np.real(fft.ifftn(waves, axes=around, norm="ortho"))
    return np.asarray(fft.idctn(waves, axes=even, norm="ortho") if even else waves)
