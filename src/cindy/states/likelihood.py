"""The likelihood of the measurements under a fitted law, and standard errors that follow from it.

    −2 log p = rᵀ S⁻¹ r + log det S − 2 log |det B₂|,     B₂ = ∂ rows / ∂ y

up to a constant of the data, with the residual r of the rows and their covariance S from the fit. The
determinants come from banded Cholesky and LU factors, in time linear in the samples. `propagated` and
`by_averages` correct standard errors. `quadrature_error` and `stiffness` tell whether the samples resolve the
motion, `blurred_terms` which terms only the noise tells apart.

Distortions. To first order a faulty channel or clock adds to the measurements (s is the time since the run
began, in units of the longest run)

    late     a channel that is read τ late holds             x − τ x'
    blurred  one that averages over a window of variance s²  x + ½ s² x''
    gain     one whose gain drifts by g along a run          x + g s x

where the law gives x' = F(x) and x'' = J F with its Jacobian J. A distortion c of the measurements adds the
column B c to the terms in the rows D y − W J (y − x̂) = W ψ(x̂) Ξ + B e. A clock whose rate drifts by r along
a run makes x' = (1 + r s) F, which adds the column W s F. The size of each distortion is one more unknown of
least squares (`rows_beside`): a score test (Rao, Proc. Camb. Phil. Soc. 44, 1948).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from itertools import pairwise
from typing import Literal, NamedTuple

import numpy as np
from numpy.lib.stride_tricks import as_strided
from numpy.typing import NDArray
from scipy.linalg import expm, lapack

from cindy._arrays import Floats, Ints
from cindy.least_squares import LeastSquares, lengths, quick_triangle
from cindy.states.doubts import all_lags, until_chance
from cindy.states.fitting import LEVELS, signs
from cindy.states.linearised import Linearised
from cindy.states.motion import Fitted, Motion, Whitened
from cindy.states.record import Record, at_measurements, since_start

_ROUGH = 0.5
"""Error of polynomials of degree 6 relative to degree 4 above which motion counts as rough: 0.03 to 0.16 on
the Lorenz attractor at steps of 0.03 to 0.1, 0.87 to 0.94 for kicked motion (benchmark: kicks)."""


def deviance(motion: Motion, fitted: Fitted) -> float:
    """−2 log p of the measurements, with a flat prior of the initial states, up to a constant of the data.

    It is rᵀ S⁻¹ r + log det S − 2 log |det B₂|, where B₂ is B without the columns of the first samples. The
    last term turns the density of the rows into that of the measurements, so that models with different
    Jacobians can be compared. The density of missing entries is divided out.
    """
    total = 0.0
    law, coef = fitted.law.at(fitted.coef), fitted.coef[: len(fitted.law.support)]
    for white in motion.whitened(fitted):
        if white is None:
            return np.inf
        linear, record = white.linear, white.linear.record
        residual = linear.target - record.integrated(linear.x, law.values) @ law.table(coef)
        total += float(np.sum(white.white(residual[..., None]) ** 2))
        total += white.log_det - 2.0 * log_volume(linear)
        missing = record.missing[:, record.grid.order :]
        if missing.any():
            variance = record.spread[:, record.grid.order :] * fitted.variance
            total -= float(np.sum(np.log(variance[missing])))
    return total


def log_volume(linear: Linearised) -> float:
    """log |det B₂|, summed over the stretches. B₂ is B without the columns of the first samples."""
    grid, d = linear.record.grid, linear.record.states
    k, first = np.arange(grid.rows), grid.start - grid.order
    before, behind = int(np.max(k - first)), int(np.max(first + grid.width - 1 - k))
    kl, ku = (before + 1) * d - 1, (behind + 1) * d - 1
    height, state, total = 2 * kl + ku + 1, np.arange(d), 0.0
    # All rows at one end use the same samples. Each row between them starts one sample after the row before.
    # Within each of these runs the blocks lie at equal distances in memory.
    turns = np.flatnonzero((np.diff(np.minimum(first, 0)) != 0) | (np.diff(first == first[-1]) != 0)) + 1
    runs = list(pairwise([0, *turns.tolist(), grid.rows]))
    for jacobian in linear.jacobian:
        band = np.zeros((grid.rows * d, height))
        item = band.itemsize
        for begin, end in runs:
            skipped = max(-int(first[begin]), 0)
            blocks = (
                -grid.integral[begin:end, skipped:, None, None] * jacobian[grid.window[begin:end, skipped:]]
            )
            blocks[..., state, state] += grid.difference[begin:end, skipped:, None]
            # Element (r, c) of B₂ lies at c · height + kl + ku + r − c.
            right = (height - 1) * d
            down = d + right * (int(first[begin + 1] - first[begin]) if end > begin + 1 else 0)
            corner = band.ravel()[kl + ku + begin * d + (int(first[begin]) + skipped) * right :]
            along = down * item, right * item, item, (height - 1) * item
            as_strided(corner, blocks.shape, along)[...] = blocks
        lu, _, info = lapack.dgbtrf(band.T, kl, ku, overwrite_ab=1)
        if info > 0:
            return -np.inf
        total += float(np.sum(np.log(np.abs(lu[kl + ku]))))
    return total


def exact(motion: Motion, fitted: Fitted) -> bool:
    """Whether the law is exact: the model error of every equation is too small to matter for errors."""
    # Where the data stop a fit at the last level but one, that is hardly more than nothing.
    least = motion.errors(LEVELS[-2], fitted.variance)
    return motion.forcing is None and bool(np.all(fitted.error < 2.0 * least))


def propagated(motion: Motion, fitted: Fitted, directions: Floats) -> Floats:
    """(k, k) covariance of the coefficients of an exact law, propagated from the noise of the measurements.

    For an exact law the rows are B e, and noise moves the coefficients by (XᵀS⁻¹X)⁻¹ Σ_j c_jᵀ e_j, with
    c = Bᵀ S⁻¹ X for each measurement and e_j the noise of state j. Their covariance is

        (XᵀS⁻¹X)⁻¹ (Σ_j c_jᵀ Γ_j c_j) (XᵀS⁻¹X)⁻¹     Γ_j the covariance of e_j in one stretch .

    (XᵀS⁻¹X)⁻¹ alone is too large, by a factor of 1.4 in white noise at a model error of 1e-4 σ²/h (benchmark:
    wrong_noise): S includes it, as it helps the fit to converge, and it is not in the data.

    White noise: Γ_j = σ_j², but at least Σ_t u_t u_tᵀ with u_t = Σ_j c_tj e_tj (White, Econometrica 48,
    1980). This accounts for noise whose size varies together with a term, and for noise that states share.
    Noise with a memory: Γ_j is the Toeplitz matrix of its autocovariances in units of the noise of each
    sample, from `_of_noise` (Newey and West, Econometrica 55, 1987). A slow drift averages out in terms that
    vary fast.

    directions: (k, free) along which constraints let the coefficients vary
    """
    free = directions.shape[1]
    if not free:
        return np.zeros((len(directions), len(directions)))
    information, model, scores = np.zeros((3, free, free))
    pulls, left = list[Floats](), list[Floats]()
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
            sums = np.sum(c * e, axis=-1).reshape(free, -1)
            scores += sums @ sums.T
        else:
            size = np.sqrt(record.spread)
            pulls.append(np.moveaxis(c * size, 0, -1))
            left.append(e / size)
    inverse = np.asarray(np.linalg.pinv(information))
    if motion.memory is not None:
        noise = _of_noise(motion, fitted, at_measurements(motion.records, left), pulls, inverse)
        for values, stretches in zip(noise, at_measurements(motion.records, pulls), strict=True):
            model += sum((_weighed(stretch, values) for stretch in stretches), np.zeros((free, free)))
    spread = directions @ inverse
    covariance = spread @ model @ spread.T
    size = np.sqrt(np.diagonal(spread @ scores @ spread.T) / np.maximum(np.diagonal(covariance), 1e-300))
    size = np.maximum(size, 1.0)
    return np.asarray(covariance * size[:, None] * size)


def _of_noise(
    motion: Motion, fitted: Fitted, left: list[list[Floats]], pulls: Sequence[Floats], inverse: Floats
) -> list[Floats]:
    """By state, the autocovariances of the noise up to Geyer's last lag, without the bias of residuals.

    Coefficients and states follow a part of the noise, most of all of slow noise, by which autocovariances γ
    of residuals are too small: for an autocorrelation time of 19 samples, standard errors from them are too
    small by a sixth (benchmark: wrong_noise). To first order, noise e leaves the residuals

        ê = Σ (Bᵀ S⁻¹ B e − c δ),     δ = (XᵀS⁻¹X)⁻¹ cᵀ e

    so that the mean of γ(e) − γ(ê) over drawn e estimates the bias, which is added (Efron and Tibshirani, An
    Introduction to the Bootstrap, 1993, chapter 10). This is done twice, as the first e are too small, too.

    left: residuals by state and stretch; pulls: c by record, (stretches, samples, states, k); both in units
        of the noise of each sample; inverse: of XᵀS⁻¹X
    """
    residual = [all_lags(stretches) for stretches in left]
    noise = [until_chance(values) for values in residual]
    sizes = [2 * record.y[0].size for record in motion.records]
    for _ in range(2):
        bias = [np.zeros_like(values) for values in residual]
        vectors = list(signs(motion, sizes))
        count = vectors[0].shape[1]
        for k in range(count):
            drawn = [
                _drawn(record, v[:, k], noise) for record, v in zip(motion.records, vectors, strict=True)
            ]
            after = _residuals(motion, fitted, drawn, pulls, inverse)
            both = (at_measurements(motion.records, tables) for tables in (drawn, after))
            for added, before, rest in zip(bias, *both, strict=True):
                added += (all_lags(before) - all_lags(rest)) / count
        noise = [until_chance(g + added) for g, added in zip(residual, bias, strict=True)]
    # The variance is no less than that of the fit, which rounding bounds from below.
    return [g * max(v / max(g[0], 1e-300), 1.0) for g, v in zip(noise, fitted.variance, strict=True)]


def _drawn(record: Record, vectors: NDArray[np.int8], noise: Sequence[Floats]) -> Floats:
    """(stretches, samples, states) noise with these autocovariances by state; 0 where nothing was measured.

    vectors: (stretches, 2 · samples · states) white noise
    """
    drawn = np.zeros(record.y.shape)
    for s, j in np.argwhere(~record.missing.all(axis=1)):
        measured = np.flatnonzero(~record.missing[s, :, j])
        white = vectors[s].reshape(record.states, -1)[j, : 2 * len(measured)]
        # Half of a circle of twice the length, so that the ends do not depend on each other.
        waves = np.fft.rfft(white) * np.sqrt(_spectrum(noise[j], len(white)))
        drawn[s, measured, j] = np.fft.irfft(waves, len(white))[: len(measured)]
    return drawn


def _residuals(
    motion: Motion, fitted: Fitted, drawn: Sequence[Floats], pulls: Sequence[Floats], inverse: Floats
) -> list[Floats]:
    """ê of each record, for noise e; all in units of the noise of each sample."""
    delta = inverse @ sum(np.einsum("smjk,smj->k", c, e) for c, e in zip(pulls, drawn, strict=True))
    residuals = []
    for white, e, c in zip(motion.whitened(fitted), drawn, pulls, strict=True):
        assert white is not None
        linear, size = white.linear, np.sqrt(white.linear.record.spread)
        rows = white.white(linear.moved(size * e)[..., None])[:, 0]
        collected = linear.noise_of(white.solved(rows)) - c @ delta / size
        shared = linear.record.shared(fitted.variance, collected)
        residuals.append(size * fitted.variance * collected + shared / size)
    return residuals


def _weighed(rows: Floats, values: Floats) -> Floats:
    """Xᵀ Γ X for rows X in time order and the Toeplitz matrix Γ of autocovariances, by Fourier transforms."""
    size = 2 * len(rows)
    spectrum = _spectrum(values, size)
    waves = np.fft.rfft(rows, size, axis=0)
    # All frequencies except the first and the last stand for two.
    spectrum[1:-1] *= 2.0
    return np.asarray((waves.conj().T @ (spectrum[:, None] * waves)).real / size)


def _spectrum(values: Floats, size: int) -> Floats:
    """The spectrum of autocovariances on a circle of `size` samples, of which they may fill half."""
    lags, circle = min(len(values), size // 2), np.zeros(size)
    circle[:lags] = values[:lags]
    circle[size - lags + 1 :] = values[1:lags][::-1]
    # The spectrum of autocovariances that are cut off at a lag may be slightly negative.
    return np.maximum(np.fft.rfft(circle).real, 0.0)


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


def stiffness(motion: Motion, fitted: Fitted, coarse: float, decays: float) -> float:
    """By how much the law grows or turns a deviation within a step, at its 90th percentile over the samples.

    It is the larger of log ‖exp(h J)‖, by which a deviation grows, and |Im λ(h J)|, by which it turns, each
    state in units of its spread. Neither exceeds ‖h J‖, which is used where it is small. A deviation that
    decays within a step hides no motion: the state follows the others, as the current of a fast circuit
    follows its voltages.

    h is the mean step, weighted by the speed of the states. Samples of a decay are often dense at first and
    sparse later, when only slow motion is left. The plain mean would call the fast motion unresolved there.

    coarse: a result above which the samples do not resolve the law; decays: ‖h J‖ above which even a decay
        is too fast for the rule that integrates the terms
    """
    sizes = []
    unit = motion.spread / motion.spread[:, None]
    for record, x in zip(motion.records, fitted.x, strict=True):
        points = record.points(x)
        # Some 2,000 samples are enough for a quantile.
        thin = max(len(points) // 2000, 1)
        jacobian = fitted.law.jacobian(points[::thin], fitted.coef) * unit
        moved = jacobian * _moving_step(record, x / motion.spread)
        size = np.linalg.norm(moved, ord=2, axis=(1, 2))
        fast = (size > coarse) & (size < decays)
        if fast.any():
            grown = np.log(np.linalg.norm(expm(moved[fast]), ord=2, axis=(1, 2)))
            size[fast] = np.maximum(grown, np.abs(np.linalg.eigvals(moved[fast]).imag).max(axis=1))
        sizes.append(size)
    return float(np.quantile(np.concatenate(sizes), 0.9))


def _moving_step(record: Record, x: Floats) -> float:
    """The mean step of a record, weighted by the speed of its states x (stretches, samples, states)."""
    grid = record.grid
    moved = np.linalg.norm(x[:, grid.order :] - x[:, : -grid.order], axis=2).sum(axis=0)
    speed = moved / (grid.t[grid.order :] - grid.t[: -grid.order])
    step = np.abs(grid.integral.sum(axis=1))
    return float(np.average(step, weights=speed) if speed.any() else np.mean(step))


class Distortion(NamedTuple):
    """A kind of distortion, and the state whose channel has it; −1 for a clock, which all states share."""

    kind: Literal["late", "blurred", "gain", "clock"]
    state: int = -1


def rows_beside(
    motion: Motion, fitted: Fitted, support: Ints, beside: Callable[[int, Whitened], Floats]
) -> LeastSquares | None:
    """White rows of the coefficients of a support, and after them of further columns.

    None where a covariance is not positive definite.

    beside: (stretches, rows, states, columns) from the number of a record and its rows
    """
    law, factor, rows = motion.law(support), np.zeros((0, 0)), 0
    for number, white in enumerate(motion.whitened(fitted)):
        if white is None:
            return None
        table = motion.table(white, law)
        table = np.concatenate([table[:, :-1], white.white(beside(number, white)), table[:, -1:]], axis=1)
        rows += len(table)
        table = motion.counted_once(table)
        factor = quick_triangle(np.concatenate([factor, table]) if len(factor) else table, 1e-6)
    return LeastSquares(factor, factor.shape[1] - 1, rows)


def distorted_rows(
    motion: Motion, fitted: Fitted, support: Ints, distortions: Sequence[Distortion]
) -> LeastSquares | None:
    """White rows of the coefficients of a support, and after them of the size of each distortion."""
    since = since_start(motion.records, motion.parts)

    def added(number: int, white: Whitened) -> Floats:
        linear = white.linear
        values = fitted.law.values(linear.record.points(linear.x))
        slope = (values @ fitted.law.table(fitted.coef)).reshape(linear.x.shape)
        return np.stack(
            [_added(linear, slope, since[number], distortion) for distortion in distortions], axis=-1
        )

    return rows_beside(motion, fitted, support, added)


def _added(linear: Linearised, slope: Floats, since: Floats, distortion: Distortion) -> Floats:
    """(stretches, rows, states): what a distortion of size 1 adds to the rows.

    slope: (stretches, samples, states) of the law
    """
    if distortion.kind == "clock":
        return linear.record.grid.integrals(since[..., None] * slope)
    if distortion.kind == "late":
        change = -slope
    elif distortion.kind == "gain":
        change = since[..., None] * linear.x
    else:
        change = (linear.jacobian @ slope[..., None])[..., 0] / 2.0
    selected = np.zeros_like(change)
    measured = ~linear.record.missing[..., distortion.state]
    selected[..., distortion.state] = np.where(measured, change[..., distortion.state], 0.0)
    return linear.moved(selected)


_APART = 2.0
"""Ratio below which terms differ by errors of the states rather than by the motion. True laws in 40 % noise
have 20 and more, false ones of a closed orbit less than 1 (benchmarks: chaotic, honesty)."""
_SHARE = 0.1
"""Least weight of a term in a combination, relative to the largest. With 0.5 the terms are the same
(benchmark: constants)."""
_POINTS = 4_000
"""Number of samples at which terms are compared."""


def blurred_terms(motion: Motion, fitted: Fitted) -> Ints:
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
    rng = np.random.default_rng(0)
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
