"""Distortions: what a faulty channel or clock adds to the measurements.

To first order, with s the time since a run began, in units of the longest run,

    late     a channel that is read τ late holds             x − τ x'
    blurred  one that averages over a window of variance s²  x + ½ s² x''
    gain     one whose gain drifts by g along a run          x + g s x

and along a law x' = F(x) and x'' = J F, with J its Jacobian. A distortion c of the measurements enters the
rows D y − W J (y − x̂) = W ψ(x̂) Ξ + B e as the column B c beside those of the terms. A clock whose rate drifts
by r along a run makes x' = (1 + r s) F, and so the column W s F. The size of each distortion is one more
unknown of least squares.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal, NamedTuple

import numpy as np

from cindy._arrays import Floats, Ints
from cindy.least_squares import LeastSquares, quick_triangle
from cindy.states.linearised import Linearised
from cindy.states.motion import Fitted, Motion
from cindy.states.record import Record

__all__ = ["Distortion", "distorted_rows"]


class Distortion(NamedTuple):
    """A kind of distortion, and the state whose channel it is; a clock is shared by all of them."""

    kind: Literal["late", "blurred", "gain", "clock"]
    state: int = -1


def distorted_rows(
    motion: Motion, fitted: Fitted, columns: Ints, distortions: Sequence[Distortion]
) -> LeastSquares | None:
    """White rows of the coefficients in `columns` and, after them, of the size of each distortion.

    None where a covariance is not positive.
    """
    law = motion.law(columns)
    width = len(columns) + len(distortions)
    longest = max(float(_since(motion, record).max()) for record in motion.records)
    factor, rows = np.zeros((0, width + 1)), 0
    for white in motion.whitened(fitted):
        if white is None:
            return None
        since = _since(motion, white.linear.record) / longest
        added = np.stack([_added(white.linear, fitted, since, one) for one in distortions], axis=-1)
        table = motion.table(white, law)
        table = np.concatenate([table[:, :-1], white.white(added), table[:, -1:]], axis=1)
        rows += len(table)
        factor = quick_triangle(np.concatenate([factor, motion.counted_once(table)]), 1e-6)
    return LeastSquares(factor, width, rows)


def _since(motion: Motion, record: Record) -> Floats:
    """(stretches, samples) time since the run began that a stretch is from, as if its samples were even."""
    t = record.grid.t - record.grid.t[0]
    step = float(t[-1]) / max(len(t) - 1, 1)
    return np.asarray(record.offset[:, None] * max(motion.parts, 1) * step + t)


def _added(linear: Linearised, fitted: Fitted, since: Floats, one: Distortion) -> Floats:
    """(stretches, rows, states): what a unit of the distortion adds to the rows."""
    values = fitted.law.values(linear.record.points(linear.x))
    slope = (values @ fitted.law.table(fitted.coef)).reshape(linear.x.shape)
    if one.kind == "clock":
        return linear.record.grid.integrals(since[..., None] * slope)
    if one.kind == "late":
        change = -slope
    elif one.kind == "gain":
        change = since[..., None] * linear.x
    else:
        change = (linear.jacobian @ slope[..., None])[..., 0] / 2.0
    alone = np.zeros_like(change)
    seen = ~linear.record.missing[..., one.state]
    alone[..., one.state] = np.where(seen, change[..., one.state], 0.0)
    return linear.moved(alone)
