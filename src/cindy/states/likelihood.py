"""The likelihood of the measurements under a law whose states are fitted."""

from __future__ import annotations

from itertools import pairwise

import numpy as np

from cindy._arrays import Floats
from cindy.states.determinants import flow_factors
from cindy.states.linearised import Linearised
from cindy.states.motion import Fitted, Motion

__all__ = ["deviance", "quadrature_error", "stiffness"]

_ROUGH = 0.5
"""Of the error of polynomials of degree 4 that those of degree 6 have: 0.03 to 0.16 on the Lorenz attractor
at steps of 0.03 to 0.1, 0.87 to 0.94 where motion is kicked (benchmark: kicks)."""


def deviance(motion: Motion, fitted: Fitted) -> float:
    """−2 log p of the measurements, flat in the initial states, up to a constant of the data.

    rᵀ S⁻¹ r + log det S − 2 log |det B₂|, B₂ being B without the columns of the first samples. The last
    term turns the density of the rows into that of the measurements: without it models of different
    Jacobians cannot be compared. Entries without a measurement have no density: theirs is taken out.
    """
    total = 0.0
    for white in motion.whitened(fitted):
        if white is None:
            return np.inf
        table = motion.table(white, fitted.law, fitted.coef)
        total += float(np.sum((table[:, -1] - table[:, :-1] @ fitted.coef) ** 2))
        total += white.log_det - 2.0 * _log_volume(white.linear)
        record = white.linear.record
        unseen = record.missing[:, record.grid.order :]
        if unseen.any():
            variance = record.spread[:, record.grid.order :] * fitted.variance
            total -= float(np.sum(np.log(variance[unseen])))
    return total


def quadrature_error(motion: Motion, fitted: Fitted) -> float:
    """χ² of what the integrals of the law are wrong by: below 1 no term can be made of it.

    Polynomials of degree 8 are better than those of degree 6 about as these are than those of degree 4.
    Kicked motion is no polynomial between samples, however finely these are divided: a higher degree does not
    help, and nothing is counted.
    """
    total, kicked = 0.0, bool(motion.kicked(fitted).any())
    dense = fitted.law.table(fitted.coef)

    def force(points: Floats) -> Floats:
        return np.asarray(fitted.law.values(points) @ dense)

    for white in motion.whitened(fitted):
        if white is None:
            return np.inf
        record, x = white.linear.record, white.linear.x
        grid = record.grid
        better, worse = (
            record.integrated(x, force, high - low)
            for high, low in pairwise((grid.integral, grid.coarser(6), grid.coarser(4)))
        )
        ratio = min(float(np.linalg.norm(better)) / max(float(np.linalg.norm(worse)), 1e-300), 1.0)
        if kicked and ratio > _ROUGH:
            continue
        total += float(np.sum(white.white(better[..., None]) ** 2)) * ratio**2
    return total


def stiffness(motion: Motion, fitted: Fitted) -> float:
    """The 90th percentile of ‖h J‖, each state in units of its spread: beyond 2 samples do not resolve it."""
    sizes = []
    unit = motion.spread / motion.spread[:, None]
    for record, x in zip(motion.records, fitted.x, strict=True):
        points = record.points(x)
        thin = max(len(points) // 2000, 1)
        jacobian = fitted.law.jacobian(points[::thin], fitted.coef) * unit
        step = float(np.mean(np.abs(record.grid.integral.sum(axis=1))))
        sizes.append(np.linalg.norm(jacobian, ord=2, axis=(1, 2)) * step)
    return float(np.quantile(np.concatenate(sizes), 0.9))


def _log_volume(linear: Linearised) -> float:
    """log |det B₂|, summed over the stretches."""
    total = 0.0
    for flow in flow_factors(linear):
        if flow is None:
            return -np.inf
        total += float(np.sum(np.log(np.abs(flow.diagonal))))
    return total
