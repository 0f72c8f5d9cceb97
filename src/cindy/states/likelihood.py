"""The likelihood of the measurements under a fitted law, and standard errors that follow from it.

    −2 log p = rᵀ S⁻¹ r + log det S − 2 log |det B₂|,     B₂ = ∂ rows / ∂ y

up to a constant of the data, with the residual r of the rows and their covariance S from the fit. The
determinants come from banded Cholesky and LU factors, in time linear in the samples. `propagated`,
`with_unknown_sizes` and `by_averages` correct standard errors. `quadrature_error` and `stiffness` tell
whether the samples resolve the motion, `blurred_terms` which terms only the noise tells apart.
"""

from __future__ import annotations

from itertools import pairwise

import numpy as np

from cindy._arrays import Floats, Ints
from cindy.least_squares import lengths
from cindy.states.determinants import log_volume
from cindy.states.doubts import Distortion, autocovariance, distorted_rows
from cindy.states.fitting import LEVELS
from cindy.states.motion import Fitted, Motion, Whitened
from cindy.states.record import Record

__all__ = [
    "blurred_terms",
    "by_averages",
    "deviance",
    "exact",
    "propagated",
    "quadrature_error",
    "stiffness",
    "with_unknown_sizes",
]

_ROUGH = 0.5
"""Error of polynomials of degree 6 relative to degree 4 above which motion counts as rough: 0.03 to 0.16 on
the Lorenz attractor at steps of 0.03 to 0.1, 0.87 to 0.94 for kicked motion (benchmark: kicks)."""

_TOLD_APART = 0.1
"""Least share of the information on the sizes of noise and kicks that remains if coefficients are unknown:
with less, a law cannot be told from noise. Not varied; double wells at steps of 0.05 keep 0.8 (benchmark:
kicks)."""


def deviance(motion: Motion, fitted: Fitted) -> float:
    """−2 log p of the measurements, with a flat prior of the initial states, up to a constant of the data.

    It is rᵀ S⁻¹ r + log det S − 2 log |det B₂|, where B₂ is B without the columns of the first samples. The
    last term turns the density of the rows into that of the measurements, so that models with different
    Jacobians can be compared. The density of missing entries is divided out.
    """
    total = 0.0
    for white in motion.whitened(fitted):
        if white is None:
            return np.inf
        total += float(np.sum(white.white(_residual(white, fitted)[..., None]) ** 2))
        total += white.log_det - 2.0 * log_volume(white.linear)
        record = white.linear.record
        missing = record.missing[:, record.grid.order :]
        if missing.any():
            variance = record.spread[:, record.grid.order :] * fitted.variance
            total -= float(np.sum(np.log(variance[missing])))
    return total


def with_unknown_sizes(motion: Motion, fitted: Fitted, covariance: Floats) -> Floats:
    """(k, k): the covariance of the coefficients of a kicked law whose noise and kicks are estimated too.

    covariance: P of the coefficients if both sizes were known. With t_i = S_i S⁻¹ r for each size v_i the
    information of coefficients and sizes together is

        XᵀS⁻¹X     XᵀS⁻¹t
        tᵀS⁻¹X   ½ tᵀS⁻¹t      ⇒   P + P C (½ tᵀS⁻¹t − CᵀP C)⁻¹ CᵀP,    C = XᵀS⁻¹t .

    Without kicks C is zero on average. With kicks it is not: noise makes successive differences return, and
    so does a drift to the mean. Errors of an Ornstein-Uhlenbeck process with steps of 0.1 grow by a fifth.
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
    # The small diagonal is for sizes that the data do not tell apart.
    half = np.linalg.cholesky(own + 1e-9 * np.eye(len(own)))
    moved = np.linalg.solve(half, (covariance @ cross).T).T
    shared, directions = np.linalg.eigh(
        np.linalg.solve(half, np.linalg.solve(half, cross.T @ covariance @ cross).T)
    )
    # 1 − shared is the part of the information on each size that remains if coefficients are unknown.
    moved = moved @ directions / np.sqrt(np.maximum(1.0 - shared, _TOLD_APART))
    return np.asarray(covariance + moved @ moved.T)


def exact(motion: Motion, fitted: Fitted) -> bool:
    """Whether the law is exact: the model error of every equation is at its last, negligible level."""
    return motion.forcing is None and bool(
        np.all(fitted.error < 2.0 * motion.errors(LEVELS[-1], fitted.variance))
    )


def propagated(motion: Motion, fitted: Fitted, directions: Floats) -> Floats:
    """(k, k) covariance of the coefficients of an exact law, propagated from the noise of the measurements.

    For an exact law the rows are B e, and noise moves the coefficients by (XᵀS⁻¹X)⁻¹ Σ_j c_jᵀ e_j, with
    c = Bᵀ S⁻¹ X for each measurement and e_j the noise of state j. Their covariance is

        (XᵀS⁻¹X)⁻¹ (Σ_j c_jᵀ Γ_j c_j) (XᵀS⁻¹X)⁻¹     Γ_j the covariance of e_j in one stretch .

    (XᵀS⁻¹X)⁻¹ alone is too large, by a factor of 1.4 in white noise (benchmark: wrong_noise): S includes the
    model error of the last level, which helps the fit to converge and is not in the data.

    White noise: Γ_j = σ_j², but at least Σ_t u_t u_tᵀ with u_t = Σ_j c_tj e_tj (White, Econometrica 48,
    1980). This accounts for noise whose size varies together with a term, and for noise that states share.
    Noise with a memory: Γ_j is the Toeplitz matrix of the autocovariances of y − x in units of the noise of
    each sample, up to Geyer's last lag (Newey and West, Econometrica 55, 1987). A slow drift averages out in
    terms that vary fast.

    directions: (k, free) along which constraints let the coefficients vary
    """
    free = directions.shape[1]
    if not free:
        return np.zeros((len(directions), len(directions)))
    information, model, scores = np.zeros((3, free, free))
    influences: list[list[Floats]] = [[] for _ in range(motion.states)]
    noise: list[list[Floats]] = [[] for _ in range(motion.states)]
    for white, x in zip(motion.whitened(fitted), fitted.x, strict=True):
        if white is None:
            return np.asarray(directions @ directions.T)
        record = white.linear.record
        rows = motion.table(white, fitted.law, fitted.coef)[:, : len(directions)] @ directions
        information += rows.T @ rows
        missing = record.missing
        collected = [white.linear.noise_of(white.solved(column.copy())) for column in rows.T]
        c = np.stack([np.where(missing, 0.0, column) for column in collected])
        e = np.where(missing, 0.0, record.y - x)
        if motion.memory is None:
            size = record.spread * fitted.variance
            noisy = [size * column + record.shared(fitted.variance, column) for column in c]
            model += np.einsum("ismj,ksmj->ik", c, np.stack(noisy), optimize=True)
            pulls = np.sum(c * e, axis=-1).reshape(free, -1)
            scores += pulls @ pulls.T
        else:
            size = np.sqrt(record.spread)
            c, e = c * size, e / size
            for j in np.flatnonzero(motion.measured):
                influences[j] += list(np.moveaxis(c, 0, -1)[:, :, j])
                noise[j] += list(e[..., j])
    for j in np.flatnonzero(motion.measured) if motion.memory is not None else ():
        # The variance of the fit allows for what was estimated, and for missing samples, which count as zero.
        covariances = autocovariance(noise[j])
        covariances = covariances * (fitted.variance[j] / max(covariances[0], 1e-300))
        model += sum((_weighed(stretch, covariances) for stretch in influences[j]), np.zeros((free, free)))
    spread = directions @ np.linalg.pinv(information)
    covariance = spread @ model @ spread.T
    size = np.sqrt(np.diagonal(spread @ scores @ spread.T) / np.maximum(np.diagonal(covariance), 1e-300))
    size = np.maximum(size, 1.0)
    return np.asarray(covariance * size[:, None] * size)


def _weighed(rows: Floats, values: Floats) -> Floats:
    """Xᵀ Γ X for rows X in time order and the Toeplitz matrix Γ of autocovariances, by Fourier transforms."""
    size, lags = 2 * len(rows), min(len(values), len(rows))
    circle = np.zeros(size)
    circle[:lags] = values[:lags]
    circle[size - lags + 1 :] = values[1:lags][::-1]
    # The spectrum of autocovariances that are cut off at a lag may be slightly negative.
    spectrum = np.maximum(np.fft.rfft(circle).real, 0.0)
    waves = np.fft.rfft(rows, size, axis=0)
    # All frequencies except the first and the last stand for two.
    spectrum[1:-1] *= 2.0
    return np.asarray((waves.conj().T @ (spectrum[:, None] * waves)).real / size)


def by_averages(motion: Motion, fitted: Fitted, price: float) -> Floats:
    """(k, k) added covariance of coefficients, as each channel with a memory may be an average over time.

    Noise with a memory often comes from a filter, which also bends the motion, by ½ s² x'' if it averages
    over a window of variance s². A window of κ samples has s² = (κ² − 1) / 12 squared steps, the prior
    standard deviation of s². The coefficients stay as they are. If there are such windows, their covariance
    grows by that of the joint fit and by the square of how far the joint fit moves them. This counts by the
    posterior probability of windows, with a prior of one half: little behind a drift, much behind running
    means and splines, where 95 % intervals cover 0.33 and 0.72 without it (benchmark: wrong_noise).

    A false term may hide the windows. So windows without a term are compared as well; price: of a term
    """
    support, count = fitted.law.support, len(fitted.law.support)
    memory = np.ones(motion.states) if motion.memory is None else motion.memory
    states = np.flatnonzero(motion.measured & (memory > 1.0))
    able = count and len(states) and not (motion.known.any() or fitted.law.unknown)
    blurred = [Distortion("blurred", int(j)) for j in states]
    objective = distorted_rows(motion, fitted, support, blurred) if able else None
    if objective is None:
        return np.zeros((count, count))
    window = (memory[states] ** 2 - 1.0) / 12.0 * motion.step**2
    # A normal prior of mean zero on the variance of each window, as one more row each.
    prior = np.hstack([np.zeros((len(states), count)), np.diag(1.0 / window)])
    design = np.vstack([objective.design, prior])
    size = lengths(design)
    design, terms = design / size, design[:, :count] / size[:count]
    target = np.append(objective.target[:, 0], np.zeros(len(states)))
    joint_inverse, terms_inverse = np.linalg.pinv(design), np.linalg.pinv(terms)
    squares = [
        float(np.sum((target - x @ (inverse @ target)) ** 2))
        for x, inverse in ((terms, terms_inverse), (design, joint_inverse))
    ]
    # Log Bayes factor of windows: the squares they explain, less the log ratio of prior to posterior volume.
    volume = np.abs(np.diagonal(np.linalg.qr(design, mode="r"))[count:]) * size[count:] * window
    evidence = (squares[0] - squares[1]) / 2.0 - float(np.sum(np.log(volume)))
    joint_inverse = joint_inverse[:count]
    covariance, moved = joint_inverse @ joint_inverse.T, (joint_inverse - terms_inverse) @ target
    # Without a term, −2 log p of the joint fit is larger by the square of its z and smaller by its price.
    odds = evidence + np.maximum(price - (joint_inverse @ target) ** 2 / np.diagonal(covariance), 0.0) / 2.0
    share = np.sqrt(1.0 / (1.0 + np.exp(np.minimum(-odds, 700.0)))) / size[:count]
    return np.asarray(
        (covariance - terms_inverse @ terms_inverse.T + np.outer(moved, moved)) * share * share[:, None]
    )


def _residual(white: Whitened, fitted: Fitted) -> Floats:
    """(stretches, rows, states): the residual of the rows of a record, not whitened."""
    linear, law = white.linear, fitted.law
    now, coef = law.at(fitted.coef), fitted.coef[: len(law.support)]
    return linear.target - linear.record.integrated(linear.x, now.values) @ now.table(coef)


def quadrature_error(motion: Motion, fitted: Fitted) -> float:
    """χ² of the error of the integrals of the law. Below 1 the error is too small to make a term.

    It is extrapolated: polynomials of degree 8 improve on degree 6 about as much as degree 6 improves on
    degree 4. Kicked motion is no polynomial between samples, so that a higher degree does not help, and is
    not counted.
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
        # The rate at which the integrals converge over degrees 4, 6 and 8 gives the error of the last.
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
    """The 90th percentile of ‖h J‖, each state in units of its spread. Above 2 the samples are too coarse.

    h is the mean step, weighted by the speed of the states. Samples of a decay are often dense at first and
    sparse later, when only slow motion is left. The plain mean would call the fast motion unresolved there.
    """
    sizes = []
    unit = motion.spread / motion.spread[:, None]
    for record, x in zip(motion.records, fitted.x, strict=True):
        points = record.points(x)
        # Some 2,000 samples are enough for a quantile.
        thin = max(len(points) // 2000, 1)
        jacobian = fitted.law.jacobian(points[::thin], fitted.coef) * unit
        sizes.append(np.linalg.norm(jacobian, ord=2, axis=(1, 2)) * _moving_step(record, x / motion.spread))
    return float(np.quantile(np.concatenate(sizes), 0.9))


def _moving_step(record: Record, x: Floats) -> float:
    """The mean step of a record, weighted by the speed of its states x (stretches, samples, states)."""
    grid = record.grid
    moved = np.linalg.norm(x[:, grid.order :] - x[:, : -grid.order], axis=2).sum(axis=0)
    speed = moved / (grid.t[grid.order :] - grid.t[: -grid.order])
    step = np.abs(grid.integral.sum(axis=1))
    return float(np.average(step, weights=speed) if speed.any() else np.mean(step))


_APART = 2.0
"""Ratio below which terms differ by errors of the states rather than by the motion. True laws in 40 % noise
have 20 and more, false ones of a closed orbit less than 1 (benchmarks: chaotic, honesty)."""
_SHARE = 0.1
"""Least weight of a term in a combination, relative to the largest. With 0.5 the terms are the same
(benchmark: constants)."""
_POINTS = 4_000
"""Number of samples at which terms are compared."""


def blurred_terms(motion: Motion, fitted: Fitted, seed: int = 0) -> Ints:
    """The coefficients whose terms differ by errors of the states, not by the motion; none in a good law.

    For a combination w of the terms of an equation and a draw d of the errors of x, the ratio
    |ψ(x) w|² / |(ψ(x + d) − ψ(x)) w|² compares how the motion and how errors of the states distinguish the
    terms. It is at most about 1 if noise alone does. The result holds the terms of the combination with the
    least ratio, beginning with the term that errors of the states change most.
    """
    law = fitted.law.at(fitted.coef)
    shared = [j for j in range(motion.states) if np.sum(law.targets == j) > 1]
    if not shared:
        return fitted.law.support[:0]
    rng = np.random.default_rng(seed)
    points, drawn = [], []
    for white in motion.whitened(fitted):
        if white is None:
            return fitted.law.support
        record, x = white.linear.record, white.linear.x
        points.append(record.points(x))
        drawn.append(record.points(x + _draw(white, fitted, rng)))
    all_points = np.concatenate(points)
    thin = max(len(all_points) // _POINTS, 1)
    with np.errstate(all="ignore"):
        values, drawn_values = (law.values(at[::thin]) for at in (all_points, np.concatenate(drawn)))
    size = np.linalg.norm(values, axis=0)
    size[size == 0.0] = 1.0
    values, change = values / size, (drawn_values - values) / size
    if not np.isfinite(change).all():
        return fitted.law.support
    places = [np.flatnonzero(law.targets == j) for j in shared]
    least = [_least(values[:, law.columns[k]], change[:, law.columns[k]]) for k in places]
    apart, weights, held = min(
        ((*pair, k) for pair, k in zip(least, places, strict=True)), key=lambda candidate: candidate[0]
    )
    if apart >= _APART:
        return fitted.law.support[:0]
    heavy = held[(np.abs(weights) >= _SHARE * np.abs(weights).max()) & (held < len(law.support))]
    return np.asarray(law.pairs[heavy[np.argsort(-np.linalg.norm(change[:, law.columns[heavy]], axis=0))]])


def _draw(white: Whitened, fitted: Fitted, rng: np.random.Generator) -> Floats:
    """A draw of the errors of the states, e − Σ Bᵀ S⁻¹ (B e + ε), of covariance Σ − Σ Bᵀ S⁻¹ B Σ."""
    linear = white.linear
    variance = linear.record.spread * fitted.variance
    record, normal = linear.record, rng.standard_normal(variance.shape)
    if record.correlation is not None:
        normal = np.where(record.missing, normal, normal @ np.linalg.cholesky(record.correlation).T)
    noise = np.sqrt(variance) * normal
    rows = linear.moved(noise) + linear.drawn_kicks(fitted.error, rng)
    collected = linear.noise_of(white.solved(white.white(rows[..., None])[:, 0]))
    return np.asarray(noise - variance * collected - record.shared(fitted.variance, collected))


def _least(values: Floats, change: Floats) -> tuple[float, Floats]:
    """The least |A w|² / |D w|² over w, and this w, from the triangles of A and D."""
    a, d = np.linalg.qr(values, mode="r"), np.linalg.qr(change, mode="r")
    inverse = np.linalg.pinv(a)
    _, sizes, directions = np.linalg.svd(d @ inverse)
    return (1.0 / float(sizes[0]) ** 2 if sizes[0] > 0 else np.inf), inverse @ directions[0]
