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
from cindy.least_squares import lengths
from cindy.states.determinants import log_volume
from cindy.states.doubts import Distortion, autocovariance, distorted_rows
from cindy.states.fitting import LEVELS
from cindy.states.motion import Fitted, Motion, Whitened

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


def exact(motion: Motion, fitted: Fitted) -> bool:
    """Whether the model error is that of the last level in all equations: so little that it is not told."""
    return motion.forcing is None and bool(
        np.all(fitted.error < 2.0 * motion.errors(LEVELS[-1], fitted.variance))
    )


def propagated(motion: Motion, fitted: Fitted, directions: Floats) -> Floats:
    """(k, k) covariance of the coefficients of an exact law: how the noise of all measurements moves them.

    Where the law holds rows are B e, and noise moves the coefficients by (XᵀS⁻¹X)⁻¹ Σ_j c_jᵀ e_j, with
    c = Bᵀ S⁻¹ X for each measurement and e_j the noise of state j. So

        (XᵀS⁻¹X)⁻¹ (Σ_j c_jᵀ Γ_j c_j) (XᵀS⁻¹X)⁻¹     Γ_j the covariance of e_j in one stretch

    is their covariance. (XᵀS⁻¹X)⁻¹ alone is too large, by a factor of 1.4 in white noise (benchmark:
    wrong_noise): S has the last model error too, which helps the fit to converge and is not in the data.

    White noise: Γ_j = σ_j², but not below Σ_t u_t u_tᵀ with u_t = Σ_j c_tj e_tj (White, Econometrica 48,
    1980), to which noise that is large where a term is, and noise that states share, contribute as they are.
    Noise with a memory: Γ_j is the Toeplitz matrix of the autocovariances of y − x, up to Geyer's last lag
    (Newey and West, Econometrica 55, 1987). A slow drift averages out in terms that vary fast.

    directions: (k, free) along which constraints let the coefficients vary
    """
    free = directions.shape[1]
    if not free:
        return np.zeros((len(directions), len(directions)))
    information, model, seen = np.zeros((3, free, free))
    weights: list[list[Floats]] = [[] for _ in range(motion.states)]
    noise: list[list[Floats]] = [[] for _ in range(motion.states)]
    for white, x in zip(motion.whitened(fitted), fitted.x, strict=True):
        if white is None:
            return np.asarray(directions @ directions.T)
        record = white.linear.record
        rows = motion.table(white, fitted.law, fitted.coef)[:, : len(directions)] @ directions
        information += rows.T @ rows
        missing = record.missing
        back = [white.linear.noise_of(white.solved(one.copy())) for one in rows.T]
        c = np.stack([np.where(missing, 0.0, one) for one in back])
        e = np.where(missing, 0.0, record.y - x)
        if motion.memory is None:
            size = record.spread * fitted.variance
            shared = [size * one + record.shared(fitted.variance, one) for one in c]
            model += np.einsum("ismj,ksmj->ik", c, np.stack(shared), optimize=True)
            pulls = np.sum(c * e, axis=-1).reshape(free, -1)
            seen += pulls @ pulls.T
        else:
            # As it is: behind a drift, noise that seems to grow or to differ between runs often does not.
            for j in np.flatnonzero(motion.measured):
                weights[j] += list(np.moveaxis(c, 0, -1)[:, :, j])
                noise[j] += list(e[..., j])
    for stretches, left in zip(weights, noise, strict=True):
        # Samples that were not measured add nothing, and lower the autocovariances by their share.
        share = np.mean(np.concatenate(left) != 0.0) if left else 1.0
        values = autocovariance(left) / max(share, 1e-300)
        model += sum((_weighed(one, values) for one in stretches), np.zeros((free, free)))
    spread = directions @ np.linalg.pinv(information)
    covariance = spread @ model @ spread.T
    size = np.sqrt(np.diagonal(spread @ seen @ spread.T) / np.maximum(np.diagonal(covariance), 1e-300))
    size = np.maximum(size, 1.0)
    return np.asarray(covariance * size[:, None] * size)


def _weighed(rows: Floats, values: Floats) -> Floats:
    """Xᵀ Γ X for rows X in time order and the Toeplitz matrix Γ of autocovariances."""
    size, lags = 2 * len(rows), min(len(values), len(rows))
    circle = np.zeros(size)
    circle[:lags] = values[:lags]
    circle[size - lags + 1 :] = values[1:lags][::-1]
    # A spectrum is positive, that of autocovariances cut off at a lag only nearly so.
    spectrum = np.maximum(np.fft.rfft(circle).real, 0.0)
    waves = np.fft.rfft(rows, size, axis=0)
    # All frequencies but the first and the last stand for two.
    spectrum[1:-1] *= 2.0
    return np.asarray((waves.conj().T @ (spectrum[:, None] * waves)).real / size)


def by_averages(motion: Motion, fitted: Fitted, price: float) -> Floats:
    """(k, k) what coefficients are less certain by if each channel with a memory may be an average over time.

    Noise with a memory often comes from a filter, which bends the motion too: by ½ s² x'' where it averages
    over a window of variance s². A window of κ samples has (κ² − 1) / 12 of their squared step, which is the
    standard deviation that s² is taken to have beforehand. Coefficients are left as they are. If there are
    such windows, their covariance grows by that of the joint fit and by the square of how far it moves them.
    That counts by the probability of windows, beforehand one half: hardly at all behind a drift, and in full
    behind running means and splines, where 95 % intervals cover 0.33 and 0.72 without it (benchmark:
    wrong_noise).

    A false term may mend what windows do, so that nothing is left for them. So windows without a term are
    compared with it as well; price: of a term
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
    # A prior of mean zero on the variance of each window, as rows of their own.
    prior = np.hstack([np.zeros((len(states), count)), np.diag(1.0 / window)])
    design = np.vstack([objective.design, prior])
    size = lengths(design)
    design, terms = design / size, design[:, :count] / size[:count]
    target = np.append(objective.target[:, 0], np.zeros(len(states)))
    beside, alone = np.linalg.pinv(design), np.linalg.pinv(terms)
    left = [
        float(np.sum((target - x @ (back @ target)) ** 2)) for x, back in ((terms, alone), (design, beside))
    ]
    # The evidence of windows is what they explain, less the volume that the data leave of the prior's.
    volume = np.abs(np.diagonal(np.linalg.qr(design, mode="r"))[count:]) * size[count:] * window
    evidence = (left[0] - left[1]) / 2.0 - float(np.sum(np.log(volume)))
    beside = beside[:count]
    covariance, moved = beside @ beside.T, (beside - alone) @ target
    # Without a term the joint fit is worse by the square of its z.
    odds = evidence + np.maximum(price - (beside @ target) ** 2 / np.diagonal(covariance), 0.0) / 2.0
    share = np.sqrt(1.0 / (1.0 + np.exp(np.minimum(-odds, 700.0)))) / size[:count]
    return np.asarray((covariance - alone @ alone.T + np.outer(moved, moved)) * share * share[:, None])


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
