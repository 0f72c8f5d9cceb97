"""Distortions: what a channel that is late, or that averages over time, adds to its measurements.

To first order a channel that is read τ late holds x − τ x', and one that averages over a window with the
variance s² holds x + ½ s² x''. Along a law x' = F(x) and x'' = J F, with J its Jacobian. A distortion c of
the measurements enters the rows D y − W J (y − x̂) = W ψ(x̂) Ξ + B e as the column B c beside those of the
terms: its size is one more unknown of least squares.
"""

from __future__ import annotations

from typing import Literal

import numpy as np

from cindy._arrays import Floats, Ints
from cindy.least_squares import LeastSquares, quick_triangle
from cindy.states.linearised import Linearised
from cindy.states.motion import Fitted, Motion

__all__ = ["distorted_rows"]


def distorted_rows(
    motion: Motion, fitted: Fitted, columns: Ints, states: Ints, kind: Literal["late", "blurred"]
) -> LeastSquares | None:
    """White rows of the coefficients in `columns` and, after them, of a distortion of each of the states.

    None where a covariance is not positive.
    """
    law = motion.law(columns)
    width = len(columns) + len(states)
    factor, rows = np.zeros((0, width + 1)), 0
    for white in motion.whitened(fitted):
        if white is None:
            return None
        added = _distortions(white.linear, fitted, states, kind)
        table = motion.table(white, law)
        table = np.concatenate([table[:, :-1], white.white(added), table[:, -1:]], axis=1)
        rows += len(table)
        factor = quick_triangle(np.concatenate([factor, motion.counted_once(table)]), 1e-6)
    return LeastSquares(factor, width, rows)


def _distortions(linear: Linearised, fitted: Fitted, states: Ints, kind: str) -> Floats:
    """(stretches, rows, states, k): what a unit of each distortion adds to the rows."""
    values = fitted.law.values(linear.record.points(linear.x))
    slope = (values @ fitted.law.table(fitted.coef)).reshape(linear.x.shape)
    change = -slope if kind == "late" else (linear.jacobian @ slope[..., None])[..., 0] / 2.0
    added = np.zeros((*linear.target.shape, len(states)))
    for k, j in enumerate(states):
        alone = np.zeros_like(change)
        alone[..., j] = np.where(linear.record.missing[..., j], 0.0, change[..., j])
        added[..., k] = linear.moved(alone)
    return added
