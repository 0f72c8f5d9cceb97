"""The likelihood of the measurements under a law whose states are fitted.

    −2 log p = rᵀ S⁻¹ r + log det S − 2 log |det B₂|,     B₂ = ∂ rows / ∂ y

up to a constant of the data, with the residual r of the rows and their covariance S. Both come from the fit;
the determinants from banded LU and Cholesky factors. `quadrature_error` and `stiffness` tell whether the
samples resolve the motion.
"""

from __future__ import annotations

from itertools import pairwise

import numpy as np

from cindy._arrays import Floats, Ints
from cindy.states.determinants import log_volume
from cindy.states.motion import Fitted, Motion, Whitened

__all__ = ["blurred_terms", "deviance", "quadrature_error", "stiffness", "with_unknown_sizes"]

_ROUGH = 0.5
"""Of the error of polynomials of degree 4 that those of degree 6 have: 0.03 to 0.16 on the Lorenz attractor
at steps of 0.03 to 0.1, 0.87 to 0.94 where motion is kicked (benchmark: kicks)."""

_TOLD_APART = 0.1
"""Share of the information on the sizes of noise and kicks that coefficients leave, at the least: with less
a law and noise are the same thing. Not varied; double wells at steps of 0.05 leave 0.8 (benchmark:
kicks)."""


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
        total += float(np.sum(white.white(_residual(white, fitted)[..., None]) ** 2))
        total += white.log_det - 2.0 * log_volume(white.linear)
        record = white.linear.record
        unseen = record.missing[:, record.grid.order :]
        if unseen.any():
            variance = record.spread[:, record.grid.order :] * fitted.variance
            total -= float(np.sum(np.log(variance[unseen])))
    return total


def with_unknown_sizes(motion: Motion, fitted: Fitted, covariance: Floats) -> Floats:
    """(k, k): the covariance of the coefficients of a kicked law whose noise and kicks are estimated too.

    covariance: P of the coefficients where both sizes are known. With t_i = S_i S⁻¹ r for each size v_i the
    information of coefficients and sizes together is

        XᵀS⁻¹X     XᵀS⁻¹t
        tᵀS⁻¹X   ½ tᵀS⁻¹t      ⇒   P + P C (½ tᵀS⁻¹t − CᵀP C)⁻¹ CᵀP,    C = XᵀS⁻¹t .

    Without kicks C vanishes but for chance. With them noise makes successive differences return, and so does
    a drift to the mean: errors of an Ornstein-Uhlenbeck process with steps of 0.1 grow by a fifth.
    """
    cross, own = np.zeros((len(covariance), 2 * motion.states)), np.zeros((2 * motion.states,) * 2)
    for white in motion.whitened(fitted):
        if white is None:
            return covariance
        table = motion.table(white, fitted.law)
        z = white.solved(table[:, -1] - table[:, :-1] @ fitted.coef)
        varied = white.varied(z, white.linear.noise_of(z))
        cross += table[:, :-1].T @ varied
        own += 0.5 * varied.T @ varied
    used = np.flatnonzero(np.concatenate([motion.measured, motion.kicked(fitted)]) & (np.diagonal(own) > 0))
    size = np.sqrt(np.diagonal(own)[used])
    cross, own = cross[:, used] / size, own[np.ix_(used, used)] / np.outer(size, size)
    # Sizes that the data do not tell apart have no curvature.
    half = np.linalg.cholesky(own + 1e-9 * np.eye(len(own)))
    moved = np.linalg.solve(half, (covariance @ cross).T).T
    shared, directions = np.linalg.eigh(
        np.linalg.solve(half, np.linalg.solve(half, cross.T @ covariance @ cross).T)
    )
    moved = moved @ directions / np.sqrt(np.maximum(1.0 - shared, _TOLD_APART))
    return np.asarray(covariance + moved @ moved.T)


def _residual(white: Whitened, fitted: Fitted) -> Floats:
    """(stretches, rows, states): what the law leaves of the rows of a record, not yet white."""
    linear, law = white.linear, fitted.law
    now, coef = law.at(fitted.coef), fitted.coef[: len(law.support)]
    return linear.target - linear.record.integrated(linear.x, now.values) @ now.table(coef)


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
        # The same integrals by polynomials of degree 8, 6 and 4: how fast they converge says how far the
        # best is from the truth.
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


_APART = 2.0
"""Below, errors of the states tell terms apart more than the motion does. True laws in 40 % noise keep 20 and
more, false ones of a closed orbit have less than 1 (benchmarks: chaotic, honesty)."""
_SHARE = 0.1
"""Of the heaviest term of a combination: lighter ones do not count as part of it. With 0.5 terms are the same
(benchmark: constants)."""
_POINTS = 4_000
"""Samples at which terms are compared."""


def blurred_terms(motion: Motion, fitted: Fitted, seed: int = 0) -> Ints:
    """Those coefficients of a law whose terms noise tells apart and not the motion; none in a good law.

    For a combination w of the terms of an equation, |ψ(x) w|² / |(ψ(x + d) − ψ(x)) w|² says by how much the
    motion sets them apart, in units of what errors of states do, d being a draw of the errors of x: at most
    about 1 where noise alone makes the difference. The terms are those of the least such combination, the
    one that errors of states change most first.
    """
    law = fitted.law.at(fitted.coef)
    shared = [j for j in range(motion.states) if np.sum(law.targets == j) > 1]
    if not shared:
        return fitted.law.support[:0]
    rng = np.random.default_rng(seed)
    here, moved = [], []
    for white in motion.whitened(fitted):
        if white is None:
            return fitted.law.support
        record, x = white.linear.record, white.linear.x
        here.append(record.points(x))
        moved.append(record.points(x + _draw(white, fitted, rng)))
    every = np.concatenate(here)
    thin = max(len(every) // _POINTS, 1)
    with np.errstate(all="ignore"):
        values, others = (law.values(points[::thin]) for points in (every, np.concatenate(moved)))
    size = np.linalg.norm(values, axis=0)
    size[size == 0.0] = 1.0
    values, change = values / size, (others - values) / size
    if not np.isfinite(change).all():
        return fitted.law.support
    places = [np.flatnonzero(law.targets == j) for j in shared]
    least = [_least(values[:, law.columns[here]], change[:, law.columns[here]]) for here in places]
    apart, weights, held = min(
        ((*one, here) for one, here in zip(least, places, strict=True)), key=lambda one: one[0]
    )
    if apart >= _APART:
        return fitted.law.support[:0]
    heavy = held[(np.abs(weights) >= _SHARE * np.abs(weights).max()) & (held < len(law.support))]
    return np.asarray(law.pairs[heavy[np.argsort(-np.linalg.norm(change[:, law.columns[heavy]], axis=0))]])


def _draw(white: Whitened, fitted: Fitted, rng: np.random.Generator) -> Floats:
    """Errors of the fitted states, drawn: those of e − Σ Bᵀ S⁻¹ (B e + ε), covariance Σ − Σ Bᵀ S⁻¹ B Σ."""
    linear = white.linear
    variance = linear.record.spread * fitted.variance
    record, signs = linear.record, rng.standard_normal(variance.shape)
    if record.correlation is not None:
        signs = np.where(record.missing, signs, signs @ np.linalg.cholesky(record.correlation).T)
    noise = np.sqrt(variance) * signs
    rows = linear.moved(noise) + linear.drawn_kicks(fitted.error, rng)
    back = linear.noise_of(white.solved(white.white(rows[..., None])[:, 0]))
    return np.asarray(noise - variance * back - record.shared(fitted.variance, back))


def _least(values: Floats, change: Floats) -> tuple[float, Floats]:
    """min |A w|² / |D w|² over w, and where, by the triangles of both."""
    a, d = np.linalg.qr(values, mode="r"), np.linalg.qr(change, mode="r")
    back = np.linalg.pinv(a)
    _, sizes, directions = np.linalg.svd(d @ back)
    return (1.0 / float(sizes[0]) ** 2 if sizes[0] > 0 else np.inf), back @ directions[0]
