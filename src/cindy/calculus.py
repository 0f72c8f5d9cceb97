"""Derivatives, integrals and differences of samples, on any time grid.

Every operator is a sparse matrix that acts on samples: a row holds the weights of one derivative, of the
integral over one time step, or of one divided difference. Weights come from local polynomials.
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

__all__ = [
    "Operator",
    "apply_alike",
    "cumulative",
    "derivative",
    "derivative_weights",
    "divided_differences",
    "increments",
    "interval_weights",
    "nested",
    "onto_samples",
    "reach",
    "running_sums",
    "uniform_step",
    "whitened",
    "whitened_differences",
    "windowed",
    "without_first",
    "without_polynomials",
]

Operator = scipy.sparse.csr_array

_BATCH = 4096
"""Windows factorised at once: enough to be fast, few enough to stay in memory."""
_LARGEST_CACHED = 20_000
"""Operators on longer grids are made anew: keeping them would cost more than making them."""


def derivative_weights(t: Floats, *, order: int, degree: int, half_width: int) -> Operator:
    """(n, n) weights of the derivative of the given order at every sample; order 0 smooths.

    Each row differentiates the least-squares polynomial of `degree` through the
    2 half_width + 1 samples around its own (the nearest as many at the ends, all
    of them when there are fewer), and is exact for polynomials of that degree.

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
    """(n, …) integral of `values` (n, …) from the first sample to each; the first row is zero."""
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
    """The samples that the rows start … stop − 1 of an operator on `samples` samples look at.

    Operators made on that stretch alone have the same rows as those made on the
    whole grid, so a long trajectory can be taken in pieces without a trace.
    """
    # At the ends windows are one-sided but as wide as elsewhere, so that they reach further on the other
    # side.
    width = min(2 * half_width + 1, samples)
    low = min(max(start - half_width, 0), samples - width)
    return low, max(min(stop + half_width, samples), low + width)


def _weights(t: Floats, kind: tuple[str, int], degree: int, half_width: int) -> Operator:
    """The operator of the given kind; cached, as many trajectories share their grid."""
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
    # Times such as 1.7e9 + k · 0.01 are rounded to 2e-7: a grid is uniform up to what its own numbers can
    # hold.
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
    # Away from the ends every window is the same one, shifted.
    few = _build(np.arange(2.0 * width), kind, degree, half_width).data.reshape(-1, width)
    rows = samples - (kind[0] == "integral")
    pick = np.full(rows, half_width)
    # Only windows at the two ends differ from the one in the middle.
    pick[:half_width] = np.arange(half_width)
    pick[-half_width:] = np.arange(len(few) - half_width, len(few))
    return _assemble(few[pick], _starts(rows, samples, half_width), samples)


@lru_cache(maxsize=32)
def _on_grid(grid: bytes, kind: tuple[str, int], degree: int, half_width: int) -> Operator:
    return _build(np.frombuffer(grid), kind, degree, half_width)


def _build(t: Floats, kind: tuple[str, int], degree: int, half_width: int) -> Operator:
    width = min(2 * half_width + 1, len(t))
    # As many samples as coefficients interpolate; a higher degree would not be determined.
    degree = min(degree, width - 1)
    rows = len(t) - (kind[0] == "integral")
    starts = _starts(rows, len(t), half_width)
    values = np.empty((rows, width))
    for a in range(0, rows, _BATCH):
        row = np.arange(a, min(a + _BATCH, rows))
        windows = t[starts[row, None] + np.arange(width)]
        centre, half = (windows[:, -1] + windows[:, 0]) / 2, (windows[:, -1] - windows[:, 0]) / 2
        # Legendre polynomials on [-1, 1]: powers of t would lose half of the digits, and all of
        # them on times such as 1.7e9.
        basis = legendre.legvander((windows - centre[:, None]) / half[:, None], degree)
        here = (t[row] - centre) / half
        if kind[0] == "integral":
            wanted = _step_integrals(here, (t[row + 1] - centre) / half, degree) * half[:, None]
        else:
            wanted = _derivatives(here, degree, kind[1]) / half[:, None] ** kind[1]
        values[row] = _combined(basis, wanted)
    return _assemble(values, starts, len(t))


def _combined(basis: Floats, wanted: Floats) -> Floats:
    """(n, width): weights that give what is wanted (n, k) of the polynomials in the basis (n, width, k)."""
    if basis.shape[1] == basis.shape[2]:  # interpolation
        return np.asarray(np.linalg.solve(basis.transpose(0, 2, 1), wanted[:, :, None])[:, :, 0])
    # QR, not normal equations, which would square the condition number.
    q, r = np.linalg.qr(basis)
    return np.asarray((q @ np.linalg.solve(r.transpose(0, 2, 1), wanted[:, :, None]))[:, :, 0])


def _derivatives(at: Floats, degree: int, order: int) -> Floats:
    """(n, degree + 1): derivatives of the Legendre polynomials at the given points."""
    return np.asarray(
        legendre.legvander(at, degree - order) @ legendre.legder(np.eye(degree + 1), order, axis=0)
    )


def _step_integrals(start: Floats, stop: Floats, degree: int) -> Floats:
    """(n, degree + 1): integrals of the Legendre polynomials from `start` to `stop`."""
    step = legendre.legvander(stop, degree + 1) - legendre.legvander(start, degree + 1)
    return np.asarray(step @ legendre.legint(np.eye(degree + 1), axis=0))


def _starts(rows: int, samples: int, half_width: int) -> Ints:
    """The first sample of each row's window: centred where there is room, one-sided at the ends."""
    return np.clip(np.arange(rows) - half_width, 0, max(samples - 2 * half_width - 1, 0))


def _assemble(values: Floats, starts: Ints, samples: int) -> Operator:
    rows, width = values.shape
    columns = (starts[:, None] + np.arange(width)).ravel()
    pointers = np.arange(0, rows * width + 1, width)
    return Operator((values.ravel(), columns, pointers), shape=(rows, samples))


def divided_differences(x: Floats, order: int) -> Floats:
    """(samples − order, order + 1): weights of the differences of an order over neighbours, of unit length.

    White noise keeps its size, and of polynomials of lower degree nothing is left.
    """
    windows = np.lib.stride_tricks.sliding_window_view(x, order + 1)
    # The weights of a divided difference are 1 / Π_{j≠i} (x_i − x_j). Scaling the distances first avoids
    # overflow, and normalising afterwards makes it irrelevant.
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
    for j, mirror in enumerate(_mirrors(t, count)):
        rest = stack[:, j:]
        rest -= mirror[:, :, None] * (mirror[:, None, :] @ rest)
    return stack[:, count:].reshape(len(stack) * (length - count), stack.shape[2])


def _mirrors(t: Floats, count: int) -> list[Floats]:
    """(windows, length − j) for j < count: Householder's vectors, of length √2, for {1, …, t^(count − 1)}."""
    half = (t[:, -1:] - t[:, :1]) / 2
    powers = ((t - (t[:, -1:] + t[:, :1]) / 2) / half)[:, :, None] ** np.arange(count)
    mirrors = []
    for j in range(count):
        mirror = powers[:, j:, j].copy()
        # The sign that avoids cancellation in the first entry.
        mirror[:, 0] += np.copysign(np.linalg.norm(mirror, axis=1), mirror[:, 0])
        mirror *= (np.sqrt(2.0) / np.linalg.norm(mirror, axis=1))[:, None]
        powers[:, j:] -= mirror[:, :, None] * (mirror[:, None, :] @ powers[:, j:])
        mirrors.append(mirror)
    return mirrors


def onto_samples(rows: Floats, t: Floats, count: int) -> Floats:
    """The way back from `without_polynomials` for one window: (length, columns) with no polynomial in it.

    rows: (length − count, columns) in the basis of the complement; t: (length,)
    """
    result = np.vstack([np.zeros((count, rows.shape[1])), rows])
    for j, (mirror,) in reversed(list(enumerate(_mirrors(t[None], count)))):
        result[j:] -= np.outer(mirror, mirror @ result[j:])
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
    # The covariance of the differences, band by band: neighbours share `count` samples, so that it has as
    # many diagonals beside the main one.
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
    # A second difference with unequal steps: the line through the neighbours, at the middle, less the middle.
    # Of an integral taken twice it is the mean under a hat over both steps, of area before · after / 2, of
    # which the three samples have 1/6, 4/6 and 1/6 where steps are equal.
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
        # The outermost integral is wanted as increments; the inner ones as values, summed from any start.
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
    rows = xp.matmul(own, space.put(operator.T))
    return xp.reshape(rows, (columns, windows * operator.shape[0]))
