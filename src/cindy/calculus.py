"""Derivatives, integrals and differences of samples, on any time grid.

An operator is a sparse matrix that acts on samples. Each of its rows holds the weights of the derivative at
one sample or of the integral over one time step of the least-squares polynomial through nearby samples:

1. Take the window of 2 half_width + 1 samples around the row, moved inwards at the ends of the grid.
2. Evaluate the Legendre polynomials P_0 … P_degree at its samples: V, one row a sample.
3. With w the derivatives, or integrals, of these polynomials, the weights are Q R⁻ᵀ w, where V = Q R.

Savitzky and Golay (Anal. Chem. 36, 1964) give such weights for even grids, where all inner rows are equal.
An operator costs a QR factorisation for each row, or for a few rows on an even grid; using it costs 2
half_width + 1 products a row.
"""

from __future__ import annotations

from functools import lru_cache
from typing import Any

import numpy as np
import scipy.linalg
import scipy.sparse
from numpy.lib.stride_tricks import as_strided
from numpy.polynomial import legendre

from cindy._arrays import Floats, Ints, Space
from cindy._check import integer
from cindy.errors import DataError

Operator = scipy.sparse.csr_array

_BATCH = 4096
"""Windows that are factorised at once: enough to be fast, few enough to stay in memory."""
_LARGEST_CACHED = 20_000
"""Operators on longer grids are not cached: the memory would cost more than making them anew."""


def derivative_weights(t: Floats, *, order: int, degree: int, half_width: int) -> Operator:
    """(n, n) weights of the derivative of the given order at every sample; order 0 smooths.

    Each row is exact for polynomials of the given degree. If there are fewer than 2 half_width + 1 samples,
    every window holds all of them.

    >>> t = np.array([0.0, 0.1, 0.25, 0.3, 0.5])
    >>> bool(np.allclose(derivative_weights(t, order=1, degree=2, half_width=1) @ t**2, 2 * t))
    True
    """
    integer(order, "derivative_weights: `order`", least=0)
    return _weights(t, ("derivative", order), degree, half_width)


def interval_weights(t: Floats, *, degree: int, half_width: int) -> Operator:
    """(n − 1, n) weights of the integral from every sample to the next.

    >>> t = np.array([0.0, 0.1, 0.25, 0.3, 0.5])
    >>> steps = interval_weights(t, degree=2, half_width=1) @ t**2
    >>> bool(np.allclose(steps, np.diff(t**3) / 3))
    True
    """
    return _weights(t, ("integral", 0), degree, half_width)


def cumulative(values: Floats, weights: Operator) -> Floats:
    """(n, …) integral of `values` (n, …) from the first sample to every sample; the first row is zero."""
    result = np.zeros_like(values)
    np.cumsum(weights @ values, axis=0, out=result[1:])
    return result


def derivative(
    t: Floats, x: Floats, start: int, stop: int, *, order: int, degree: int, half_width: int
) -> Floats:
    """(stop − start, d) derivative of x (n, d) at samples start … stop − 1."""
    low, high = reach(len(t), start, stop, half_width)
    weights = derivative_weights(t[low:high], order=order, degree=degree, half_width=half_width)
    return np.asarray((weights @ x[low:high])[start - low : stop - low])


def reach(samples: int, start: int, stop: int, half_width: int) -> tuple[int, int]:
    """The stretch of samples that the rows start … stop − 1 of an operator on `samples` samples depend on.

    An operator made on that stretch alone has the same rows as one made on the whole grid, so that a long
    trajectory can be processed in pieces with the same result.
    """
    # At the ends windows are one-sided but as wide as elsewhere, so that they reach farther on one side.
    width = min(2 * half_width + 1, samples)
    low = min(max(start - half_width, 0), samples - width)
    return low, max(min(stop + half_width, samples), low + width)


def _weights(t: Floats, kind: tuple[str, int], degree: int, half_width: int) -> Operator:
    """The operator of the given kind, from a cache because many trajectories share their grid."""
    integer(degree, "calculus: `degree`", least=0)
    integer(half_width, "calculus: `half_width`", least=1)
    if len(t) < 2:
        raise DataError(f"calculus: at least 2 samples are needed, but there are {len(t)}.")
    if kind[0] == "derivative" and kind[1] > min(degree, len(t) - 1):
        raise DataError(
            f"calculus: a derivative of order {kind[1]} needs at least that degree and more samples, "
            f"but degree is {degree} and there are {len(t)} samples."
        )
    keep = len(t) <= _LARGEST_CACHED
    step = uniform_step(t)
    if step is not None:
        # One operator serves every uniform grid of this length, whatever its step.
        make = _on_unit_steps if keep else _on_unit_steps.__wrapped__
        unit, power = make(len(t), kind, degree, half_width), 1 if kind[0] == "integral" else -kind[1]
        return unit * step**power if power else unit
    if not keep:
        return _build(t, kind, degree, half_width)
    return _on_grid((t - t[0]).tobytes(), kind, degree, half_width)


def uniform_step(t: Floats) -> float | None:
    """The step of a grid that is uniform up to the rounding of its own numbers, else None."""
    step = float(t[-1] - t[0]) / (len(t) - 1)
    # Times such as 1.7e9 + k · 0.01 are rounded to 2e-7, and no grid can be more even than its rounding.
    slack = 4 * np.finfo(float).eps * max(abs(float(t[0])), abs(float(t[-1])))
    off = t - t[0]
    off -= step * np.arange(len(t))
    return step if max(float(off.max()), -float(off.min())) <= slack else None


@lru_cache(maxsize=64)
def _on_unit_steps(samples: int, kind: tuple[str, int], degree: int, half_width: int) -> Operator:
    """The operator on the grid 0, 1, 2, …"""
    width = 2 * half_width + 1
    if samples <= 2 * width:
        return _build(np.arange(float(samples)), kind, degree, half_width)
    # A short grid has all different rows: those at the two ends, and the one that repeats between them.
    different = _build(np.arange(2.0 * width), kind, degree, half_width).data.reshape(-1, width)
    rows = samples - (kind[0] == "integral")
    pick = np.full(rows, half_width)
    pick[:half_width] = np.arange(half_width)
    pick[-half_width:] = np.arange(len(different) - half_width, len(different))
    return _assemble(different[pick], _starts(rows, samples, half_width), samples)


@lru_cache(maxsize=32)
def _on_grid(grid: bytes, kind: tuple[str, int], degree: int, half_width: int) -> Operator:
    return _build(np.frombuffer(grid), kind, degree, half_width)


def _build(t: Floats, kind: tuple[str, int], degree: int, half_width: int) -> Operator:
    """The operator of the given kind by steps 1 to 3 above."""
    width = min(2 * half_width + 1, len(t))
    # A polynomial that interpolates all samples of the window; a higher degree is not determined by them.
    degree = min(degree, width - 1)
    rows = len(t) - (kind[0] == "integral")
    starts = _starts(rows, len(t), half_width)
    values = np.empty((rows, width))
    for a in range(0, rows, _BATCH):
        # Step 1, for as many rows as fit in memory.
        row = np.arange(a, min(a + _BATCH, rows))
        windows = t[starts[row, None] + np.arange(width)]
        centre, half = (windows[:, -1] + windows[:, 0]) / 2, (windows[:, -1] - windows[:, 0]) / 2
        # Step 2. Legendre polynomials on [-1, 1]: powers of t would lose half of the digits, and all of
        # them on times such as 1.7e9.
        basis = legendre.legvander((windows - centre[:, None]) / half[:, None], degree)
        place = (t[row] - centre) / half
        if kind[0] == "integral":
            ends = [legendre.legvander(at, degree + 1) for at in ((t[row + 1] - centre) / half, place)]
            moments = (ends[0] - ends[1]) @ legendre.legint(np.eye(degree + 1), axis=0) * half[:, None]
        else:
            slopes = legendre.legder(np.eye(degree + 1), kind[1], axis=0)
            moments = legendre.legvander(place, degree - kind[1]) @ slopes / half[:, None] ** kind[1]
        # Step 3. QR, not the normal equations, which would square the condition number.
        if degree == width - 1:  # interpolation
            weights = np.linalg.solve(basis.transpose(0, 2, 1), moments[:, :, None])
        else:
            q, r = np.linalg.qr(basis)
            weights = q @ np.linalg.solve(r.transpose(0, 2, 1), moments[:, :, None])
        values[row] = weights[:, :, 0]
    return _assemble(values, starts, len(t))


def _starts(rows: int, samples: int, half_width: int) -> Ints:
    """The first sample of the window of each row: centred if there is room, one-sided at the ends."""
    return np.clip(np.arange(rows) - half_width, 0, max(samples - 2 * half_width - 1, 0))


def _assemble(values: Floats, starts: Ints, samples: int) -> Operator:
    """The operator with these weights (rows, width), which begin at these samples."""
    rows, width = values.shape
    columns = (starts[:, None] + np.arange(width)).ravel()
    pointers = np.arange(0, rows * width + 1, width)
    return Operator((values.ravel(), columns, pointers), shape=(rows, samples))


def divided_differences(x: Floats, order: int) -> Floats:
    """(samples − order, order + 1): weights 1 / Π_{j≠i} (x_i − x_j) of divided differences, normalised.

    The differences of white noise have its variance; those of polynomials of lower degree vanish.
    """
    windows = np.lib.stride_tricks.sliding_window_view(x, order + 1)
    # Distances are scaled to avoid overflow; the scale cancels when the weights are normalised.
    distances = windows[:, :, None] - windows[:, None, :]
    scale = np.abs(distances).max(axis=(1, 2))[:, None, None]
    distances = np.where(np.eye(order + 1, dtype=bool), 1.0, distances / scale)
    weights = 1.0 / np.prod(distances, axis=2)
    return np.asarray(weights / np.linalg.norm(weights, axis=1, keepdims=True))


def without_polynomials(stack: Floats, t: Floats, count: int) -> Floats:
    """The rows of each window in an orthonormal basis of the complement of {1, …, t^(count − 1)}.

    `count` Householder reflections map those polynomials onto the first `count` rows, which are dropped.
    White noise stays white, because the reflections are orthogonal. `stack` is overwritten.
    """
    length = t.shape[1]
    if count == 1:
        # The only reflection maps the constant vector onto the first row and takes one row from the others.
        root = np.sqrt(length)
        shared = (stack[:, 1:].sum(axis=1) + (1 + root) * stack[:, 0]) / (length + root)
        return np.asarray((stack[:, 1:] - shared[:, None]).reshape(-1, stack.shape[2]))
    for j, mirror in enumerate(_mirrors(t, count)):
        below = stack[:, j:]
        below -= mirror[:, :, None] * (mirror[:, None, :] @ below)
    return stack[:, count:].reshape(len(stack) * (length - count), stack.shape[2])


def _mirrors(t: Floats, count: int) -> list[Floats]:
    """(windows, length − j) for j < count: Householder's vectors, of length √2, for {1, …, t^(count − 1)}."""
    half = (t[:, -1:] - t[:, :1]) / 2
    powers = ((t - (t[:, -1:] + t[:, :1]) / 2) / half)[:, :, None] ** np.arange(count)
    mirrors = []
    for j in range(count):
        mirror = powers[:, j:, j].copy()
        # This sign avoids cancellation in the first entry.
        mirror[:, 0] += np.copysign(np.linalg.norm(mirror, axis=1), mirror[:, 0])
        mirror *= (np.sqrt(2.0) / np.linalg.norm(mirror, axis=1))[:, None]
        powers[:, j:] -= mirror[:, :, None] * (mirror[:, None, :] @ powers[:, j:])
        mirrors.append(mirror)
    return mirrors


def onto_samples(rows: Floats, t: Floats, count: int) -> Floats:
    """The inverse of `without_polynomials` for one window: (length, columns), orthogonal to the polynomials.

    rows: (length − count, columns) in the basis of the complement; t: (length,)
    """
    result = np.vstack([np.zeros((count, rows.shape[1])), rows])
    for j, (mirror,) in reversed(list(enumerate(_mirrors(t[None], count)))):
        result[j:] -= np.outer(mirror, mirror @ result[j:])
    return result


_FEW_WINDOWS = 8
"""With fewer windows, a loop over samples that serves all windows is slower than one window at a time."""


def whitened(stack: Floats, t: Floats, count: int, feedback: float) -> Floats:
    """The rows of each window without {1, …, t^(count − 1)}, whitened for noise that drifts.

    White noise e in the states leaves the residual e + drift. The drift is the integral, taken `count` times,
    of noise with `feedback` times the mean square of e.

    1. Differences of order `count` remove the polynomials. The covariance of their residuals, D Dᵀ plus
       `feedback` times that of the differences of the drift, is banded.
    2. The differences are solved with its banded Cholesky factor, which makes them white in linear time.

    stack: (windows, length, columns); t: (windows, length)
    returns (windows · (length − count), columns)
    """
    # Step 1; `whitened_differences` is step 2.
    plain, _ = _taps(np.diff(t, axis=1), count)
    size = stack.shape[1] - count
    rows = plain[:, :, 0, None] * stack[:, :size]
    for i in range(1, count + 1):
        rows += plain[:, :, i, None] * stack[:, i : i + size]
    return whitened_differences(rows, t, count, feedback)


def whitened_differences(rows: Floats, t: Floats, count: int, feedback: float) -> Floats:
    """As `whitened`, from the differences of the rows: (windows, length − count, columns), overwritten.

    A difference is x[1] − x[0] for count 1, and for count 2 the line through the two neighbours of a sample,
    less that sample.
    """
    plain, drift = _taps(np.diff(t, axis=1), count)
    windows, size, columns = rows.shape
    # Differences share samples with `count` neighbours, so that the covariance has as many off-diagonals.
    band = np.zeros((count + 1, windows, size))
    for s in range(min(count + 1, size)):
        for taps, strength in ((plain, 1.0), (drift, feedback)):
            products = taps[:, : size - s, s:] * taps[:, s:, : count + 1 - s]
            band[s, :, : size - s] += strength * products.sum(axis=2)
    try:
        factor = scipy.linalg.cholesky_banded(band.reshape(count + 1, -1), lower=True, check_finite=False)
    except np.linalg.LinAlgError as error:
        raise DataError(f"Integral: the covariance of a window is not positive definite: {error}.") from error
    if windows < _FEW_WINDOWS:
        solved, _ = scipy.linalg.lapack.dtbtrs(factor, rows.reshape(-1, columns), uplo="L")
        return np.asarray(solved)
    below = factor.reshape(count + 1, windows, size)
    # Forward substitution in all windows at once; no entry of the factor couples two windows.
    for j in range(size):
        for s in range(1, min(count, j) + 1):
            rows[:, j] -= below[s, :, j - s, None] * rows[:, j - s]
        rows[:, j] /= below[0, :, j, None]
    return rows.reshape(-1, columns)


def _taps(steps: Floats, count: int) -> tuple[Floats, Floats]:
    """(windows, rows, count + 1): weights of a difference, and of that difference of a repeated integral."""
    if count == 1:
        plain = np.stack([-np.ones_like(steps), np.ones_like(steps)], axis=2)
        return plain, np.stack([steps / 2, steps / 2], axis=2)
    before, after = steps[:, :-1], steps[:, 1:]
    span = before + after
    # A second difference with unequal steps is the line through the neighbours less the middle sample. Of an
    # integral taken twice it is the integral under a hat over both steps, whose area is before · after / 2;
    # for equal steps the three samples share it as 1/6, 4/6 and 1/6.
    plain = np.stack([after / span, -np.ones_like(span), before / span], axis=2)
    return plain, np.array([1.0, 4.0, 1.0]) / 6.0 * (before * after / 2)[:, :, None]


def running_sums(stack: Floats) -> None:
    """Replace the rows of every window in a stack (windows, length, columns) by their cumulative sums."""
    if len(stack) < _FEW_WINDOWS:
        np.cumsum(stack, axis=1, out=stack)
        return
    for j in range(1, stack.shape[1]):
        stack[:, j] += stack[:, j - 1]


def apply_alike(operator: Floats, values: Floats, first: int, length: int, out: Floats) -> None:
    """Apply one operator to all windows at once, by one product of strided views.

    operator: (k, m), from the m samples that a window needs to its k rows
    values: (samples, columns), stored by columns; window i needs samples first + i · length and on
    out: (windows · k, columns) of a matrix that is stored by columns; rows i · k and on are those of window i
    """
    rows, width = operator.shape
    windows, columns = len(out) // rows, values.shape[1]
    item = values.itemsize
    last = first + (windows - 1) * length + width
    if windows and not 0 <= first < last <= len(values):
        # Strides can reach any memory: what lies behind the values may be NaN, and NaN times zero is NaN.
        raise IndexError(f"windows need samples {first} … {last - 1} of {len(values)}")
    samples = as_strided(
        values[first:], (windows, columns, width), (length * item, values.strides[1], item), writeable=False
    )
    target = as_strided(out, (windows, columns, rows), (rows * item, out.strides[1], item))
    np.matmul(samples, operator.T, out=target)


def windowed(values: Any, operator: Floats, windows: int, length: int, space: Space) -> Any:
    """(columns, windows · k): as `apply_alike`, on a device, where arrays are transposed.

    values: (columns, windows · length + m − length), for an operator (k, m); `length` ≥ m − length
    """
    xp = space.xp
    columns, overlap = int(values.shape[0]), operator.shape[1] - length
    samples = xp.reshape(values[:, : windows * length], (columns, windows, length))
    if overlap:
        # Each window also needs the beginning of the next one, and the last window the remaining samples.
        last = xp.reshape(values[:, windows * length :], (columns, 1, overlap))
        samples = xp.concat([samples, xp.concat([samples[:, 1:, :overlap], last], axis=1)], axis=2)
    rows = xp.matmul(samples, space.put(operator.T))
    return xp.reshape(rows, (columns, windows * operator.shape[0]))
