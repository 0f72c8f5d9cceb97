"""How strongly noise in the states feeds back into their rates.

The terms are evaluated at noisy states, and their noise is integrated: residuals of
the integral form are the noise itself plus a slow drift. With J the Jacobian of the
right-hand side, the drift is the integral of J times the noise; its mean square, in units of
the noise, is all that is needed to make the rows white again.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from cindy._types import Floats
from cindy.basis import Basis
from cindy.calculus import derivative_weights
from cindy.data import Trajectory, noise_level, some_segments

__all__ = ["feedback_of_data", "feedback_of_model"]


# A first guess, which the model found with it replaces: changed on the 32 data sets of `python -m benchmarks
# constants`, none of these moves the error of coefficients by more than a part in 500.
_WIDTHS = (4, 6, 9, 13, 19, 28, 40, 60)
"""Half-widths of the local polynomials that slopes are taken from, half as wide again each."""
_DEGREE = 4
"""Of these polynomials."""
_CLEAR = 0.1
"""Share of noise in a mean square below which it is trusted."""
_NEGLIGIBLE = 0.05
"""Mean square of the drift within a window, in units of the noise, below which there is none."""
_SAMPLES = 400
"""At which the Jacobian of a model is averaged."""


def feedback_of_data(trajectories: Sequence[Trajectory], order: int, window: int) -> float:
    """A first guess from the data alone.

    With order 1, x'' = J x'; with order 2, x'' = J x: the ratio of their mean squares.
    Zero where noise hides the derivatives, or where the drift within a window is negligible.
    """
    segments = [s for s in some_segments(trajectories) if len(s) > 2 * _WIDTHS[0]]
    if not segments:
        return 0.0
    noise = np.mean([noise_level(s) ** 2 for s in segments], axis=0)
    low = 2 - order
    for width in _WIDTHS:
        fit = [s.part(0, min(len(s), 600)) for s in segments if len(s) > 2 * width]
        if not fit:
            return 0.0
        slow, slow_gain = _mean_squares(fit, low, width)
        fast, fast_gain = _mean_squares(fit, 2, width)
        share = noise * fast_gain / np.maximum(fast, 1e-300)
        if float(np.median(share)) < _CLEAR:
            below = np.maximum(slow - noise * slow_gain, 1e-300)
            ratio = float(np.median((fast - noise * fast_gain) / below))
            return _unless_negligible(max(ratio, 0.0), segments, order, window)
    return 0.0


def feedback_of_model(
    coef: Floats, noise: Floats, basis: Basis, trajectories: Sequence[Trajectory], order: int, window: int
) -> float:
    """The mean square of the Jacobian of known equations, each state in units of its noise."""
    segments = [s for one in trajectories for s in one.segments()]
    values = np.concatenate([s.values for s in segments])
    values = values[np.unique(np.linspace(0, len(values) - 1, _SAMPLES).astype(int))]
    used = np.flatnonzero(coef.any(axis=1))
    slopes = basis.derivative(values, segments[0].variables)[:, used, : coef.shape[1]]
    jacobian = np.einsum("mnv,ni->miv", slopes, coef[used])
    sigma = np.where(noise > 0, noise, 1.0)
    relative = jacobian * (sigma[None, None, :] / sigma[None, :, None])
    strength = np.mean(np.sum(relative**2, axis=2), axis=0)
    return _unless_negligible(float(np.mean(strength)), segments, order, window)


def _mean_squares(segments: Sequence[Trajectory], order: int, width: int) -> tuple[Floats, float]:
    """Mean squares (states,) of a derivative away from the ends, and by how much it magnifies noise."""
    squares, gains, count = 0.0, 0.0, 0
    for s in segments:
        weights = derivative_weights(s.t, order=order, degree=_DEGREE, half_width=width)[width:-width]
        x = s.x - s.x.mean(axis=0)
        squares = squares + np.sum((weights @ x) ** 2, axis=0)
        gains += float(np.sum(weights.data**2))
        count += weights.shape[0]
    return np.asarray(squares) / max(count, 1), gains / max(count, 1)


def _unless_negligible(strength: float, segments: Sequence[Trajectory], order: int, window: int) -> float:
    """Zero where the drift over a window is far below the noise: rows then stay as they are."""
    lengths = [s.t[min(window or len(s), len(s)) - 1] - s.t[0] for s in segments]
    horizon = float(np.median(lengths))
    return strength if strength * horizon ** (2 * order) > _NEGLIGIBLE else 0.0
