"""Derivatives and integrals of samples by local polynomials, on any time grid.

Every operator is a sparse matrix that acts on samples: a row holds the weights of
one derivative, or of the integral over one time step.
"""

from functools import lru_cache

import numpy as np
import scipy.sparse
from numpy.polynomial import legendre
from numpy.typing import NDArray

from cindy._check import integer
from cindy._types import Floats
from cindy.errors import DataError

__all__ = [
    "central_differences",
    "cumulative",
    "derivative",
    "derivative_weights",
    "interval_weights",
    "reach",
    "simpson_weights",
    "trapezoid_weights",
    "uniform_step",
]

Ints = NDArray[np.int64]
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


def central_differences(t: Floats, *, order: int = 1) -> Operator:
    """(n, n) three-point differences, kept for comparison."""
    return derivative_weights(t, order=order, degree=2, half_width=1)


def simpson_weights(t: Floats) -> Operator:
    """(n − 1, n) Simpson's rule on any grid, kept for comparison."""
    return interval_weights(t, degree=2, half_width=1)


def trapezoid_weights(t: Floats) -> Operator:
    """(n − 1, n) trapezoid rule, kept for comparison."""
    half = np.diff(t) / 2
    return _assemble(np.column_stack([half, half]), np.arange(len(half)), len(t))


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
        return make(len(t), kind, degree, half_width) * step ** (1 if kind[0] == "integral" else -kind[1])
    if not keep:
        return _build(t, kind, degree, half_width)
    return _on_grid((t - t[0]).tobytes(), kind, degree, half_width)


def uniform_step(t: Floats) -> float | None:
    """The step of a grid that is uniform up to the rounding of its own numbers, else None."""
    step = float(t[-1] - t[0]) / (len(t) - 1)
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
    pick[:half_width] = np.arange(half_width)
    pick[-half_width:] = np.arange(len(few) - half_width, len(few))
    return _assemble(few[pick], _starts(rows, samples, half_width), samples)


@lru_cache(maxsize=32)
def _on_grid(grid: bytes, kind: tuple[str, int], degree: int, half_width: int) -> Operator:
    return _build(np.frombuffer(grid), kind, degree, half_width)


def _build(t: Floats, kind: tuple[str, int], degree: int, half_width: int) -> Operator:
    width = min(2 * half_width + 1, len(t))
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
