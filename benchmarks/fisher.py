"""The Cramér-Rao bound of coefficients when the states are unknown: initial states and coefficients free."""

from itertools import pairwise
from typing import Any

import numpy as np
from numpy.typing import NDArray

from cindy.systems import System

__all__ = ["information_root"]

Floats = NDArray[np.float64]

_SUBSTEPS = 4
"""Runge-Kutta steps from one sample to the next; twice as many change the bounds by less than 1e-5."""


def information_root(system: System, start: Floats, t: Floats, spread: Floats) -> Floats:
    """R with RᵀR the Fisher information of the true coefficients, at noise of one `spread` in each state.

    Measured is x(tₖ; x₀, Ξ) plus white noise. With S₀ and S the derivatives of
    all measured values with respect to the initial state of a trajectory and to
    the coefficients, in units of the noise, the information about the
    coefficients is Sᵀ(1 − P₀)S, P₀ the projection on the columns of S₀,
    summed over trajectories. Any unbiased estimate has at least the covariance
    (RᵀR)⁻¹; noise η times the spread gives η² times that. The variance of the
    noise may be unknown: its information is orthogonal to that of the mean.

    start: (trajectories, states); for order 2 the initial rates are zero, and unknown too
    """
    d, order = len(system.states), system.order
    rows, columns = np.nonzero(system.coef)
    size, free = d * order, len(rows)
    z = np.zeros((len(start), size, 1 + size + free))
    z[:, :d, 0] = start
    z[:, :, 1 : 1 + size] = np.eye(size)

    def slope(z: Floats) -> Floats:
        x = z[:, :d, 0]
        out = np.empty_like(z)
        out[:, :-d] = z[:, d:]
        out[:, -d:] = _jacobian(system, x) @ z[:, :d]
        out[:, -d:, 0] = system.rhs(x)
        out[:, size - d + columns, 1 + size + np.arange(free)] += system.basis.evaluate(x)[:, rows]
        return out

    kept = [z[:, :d, 1:]]
    for before, after in pairwise(t):
        h = (after - before) / _SUBSTEPS
        for _ in range(_SUBSTEPS):
            z = _runge_kutta(slope, z, h)
        kept.append(z[:, :d, 1:])
    sensitivity = np.stack(kept, axis=1) / spread[:, None]
    total = np.zeros((0, free))
    for one in sensitivity:
        # The part of R below the columns of the initial state has them projected out.
        total = np.vstack([total, np.linalg.qr(one.reshape(-1, size + free), mode="r")[size:, size:]])
        total = np.linalg.qr(total, mode="r")
    return total


def _runge_kutta(slope: Any, z: Floats, h: float) -> Floats:
    one = slope(z)
    two = slope(z + h / 2 * one)
    three = slope(z + h / 2 * two)
    four = slope(z + h * three)
    return z + h / 6 * (one + 2 * two + 2 * three + four)


def _jacobian(system: System, x: Floats) -> Floats:
    """∂F/∂x (points, states, states) by central differences: 1e-9 is far more than a bound needs."""
    step = 1e-6 * np.eye(x.shape[1])[:, None, :]
    slopes = (system.rhs(x + step) - system.rhs(x - step)) / 2e-6
    return np.moveaxis(slopes, 0, -1)
