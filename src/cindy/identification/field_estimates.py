"""Coefficients of fields on chosen terms, with standard errors that come from the noise at every sample.

1. `with_noise_errors` gives the errors of least squares by propagating the noise of every sample. Where
   residuals are larger than noise explains, a term is missing or wrong: then that share of the scatter
   between blocks of rows is added.
2. `weighed` estimates the coefficients once more by generalized least squares over modes, each weighed by
   its noise, where the noise of every row is known and explains the residuals.

With W the weights, X the columns of the terms over the modes, G = XᵀWX and C the part of G that is noise,
both over a band of modes of like noise, the columns Z = X (I − G⁻¹C) are the best estimate of the terms
without their noise. Step 2 solves ZᵀW (Y − Xβ) = its mean over the noise, the equations of the generalized
method of moments with the weights of least variance (Hansen, Econometrica 50, 1982). The weights depend on β
through the residual, so this is repeated a few times.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import numpy as np
from numpy.typing import NDArray

from cindy._arrays import Floats, Ints
from cindy.evidence import Modes, WeakRows, Whitened, as_columns, modes_of, noise_covariance
from cindy.identification.inference import Estimates
from cindy.problem import Problem
from cindy.regression import Regression, binding
from cindy.selection import EFFORT
from cindy.summary import Summary


def estimated(problem: Problem, plain: Estimates, evidence: WeakRows) -> Estimates:
    """Both steps: coefficients and errors by the noise of the rows, from those of least squares."""
    by_samples = with_noise_errors(problem, plain, evidence)
    return weighed(problem, by_samples, evidence) or by_samples


def leaves(coefs: Sequence[Floats], evidence: WeakRows) -> Floats | None:
    """(models, states) mean squared residuals in units of the noise; None if that is not known in every row.

    coefs: (terms, states) of each model
    """
    terms = np.flatnonzero(np.any([coef.any(axis=1) for coef in coefs], axis=0))
    modes = modes_of(evidence, tuple(terms.tolist()))
    return None if not modes else np.array([_left(modes, coef[terms]) for coef in coefs])


def with_noise_errors(problem: Problem, plain: Estimates, evidence: WeakRows) -> Estimates:
    """Step 1: the estimates with errors and covariance that come from the noise at every sample."""
    summary = problem.summary
    support, width = np.flatnonzero(plain.coef), plain.coef.shape[1]
    if summary.calibration is None or not len(support):
        return plain
    # The residual of an equation is a sum of columns, −ξ for its terms and 1 for its target: the noise of
    # each column is known, hence that of the residual.
    residual = as_columns(plain.coef)
    influence = _influence(problem, summary.calibration, support)
    parts = [noise_covariance(rows, influence, residual) for rows in evidence.rows]
    known = [part for part in parts if part is not None]
    total = np.sum(known, axis=0)
    # A derivative that was estimated from neighbours has the noise of many samples, which is not propagated.
    if len(known) < len(parts) or not (np.diagonal(total) > 0).all():
        return plain
    by_noise = np.sqrt(np.diagonal(total))
    # Unlike the noise at samples, the scatter between blocks contains errors of the equations.
    by_blocks = plain.error.ravel()[support]
    left, noise = squares_left(summary, plain.coef)
    by_rows = np.divide(noise, left, out=np.zeros_like(left), where=left > 0)
    share = np.clip(1.0 - EFFORT.field_estimates_scatter * by_rows, 0.0, 1.0)[support % width]
    error = np.sqrt(by_noise**2 + share * by_blocks**2)
    # A coefficient that an equality fixes has no error but rounding.
    error[by_blocks == 0] = 0.0
    scale = error / by_noise
    errors = np.zeros(plain.coef.size)
    errors[support] = error
    return Estimates(plain.coef, errors.reshape(plain.coef.shape), total * np.outer(scale, scale))


def _influence(problem: Problem, calibration: Floats, support: Ints) -> Floats:
    """(k, states, terms) by how much the residual of a state, times a row's terms, moves each coefficient.

    Least squares on the support moves by M Zᵀ r, with Z the calibrated columns and M the inverse of ZᵀZ under
    the equalities that hold, all in the units of the standard form.
    """
    regression = binding(problem.regression, support)
    terms, width = regression.shape
    columns, targets = problem.form.sizes
    influence = np.zeros((terms * width, width, terms))
    for group in regression.groups:
        fit = regression.fit(support[np.isin(support % width, group)], group)
        inverse = fit.spread @ fit.spread.T
        for j in group:
            own = np.flatnonzero(fit.support % width == j)
            term = fit.support[own] // width
            scaled = calibration[:terms, term] / columns[term]
            size = regression.noise[j] ** 2 * targets[j]
            influence[fit.support, j] += inverse[:, own] @ scaled.T / size
    return (influence * problem.form.unit.ravel()[:, None, None])[support]


def squares_left(summary: Summary, coef: Floats) -> tuple[Floats, Floats]:
    """(states,) squares that coefficients (terms, states) leave of the rows, and those that noise adds."""
    residual, spurious = as_columns(coef), summary.spurious
    left = np.sum((summary.total.factor @ residual.T) ** 2, axis=0)
    return left, np.zeros_like(left) if spurious is None else np.sum((residual @ spurious) * residual, axis=1)


def weighed(problem: Problem, plain: Estimates, evidence: WeakRows) -> Estimates | None:
    """Step 2: generalized least squares on the terms of an estimate, with errors by the noise at all samples.

    None where the noise is not known in every row, or does not explain the residuals. Terms are chosen by
    least squares, in which all rows count alike, since the residuals of a wrong model need not look like
    noise. For the right terms rows overlap and differ in noise, and weights by the noise give errors that are
    smaller, by a quarter to a third on short records (Aitken 1936; benchmark: pde_short).
    """
    summary = problem.summary
    support, width = np.flatnonzero(plain.coef), plain.coef.shape[1]
    if summary.calibration is None or not len(support):
        return None
    terms = np.unique(support // width)
    modes = modes_of(evidence, tuple(terms.tolist()))
    if not modes:
        return None
    # An equation whose residual is larger than its noise is wrong or lacks a term: its weights would rest on
    # a wrong model, and its least-squares estimate stays.
    sure = np.flatnonzero(_left(modes, plain.coef[terms]) < EFFORT.field_estimates_explained)
    regression = binding(problem.regression, support)
    groups = [g for g in regression.groups if np.isin(g, sure).all()]
    within = np.isin(support % width, np.concatenate([np.zeros(0, dtype=np.intp), *groups]))
    used = support[within]
    if not len(used):
        return None
    place = np.searchsorted(terms, used // width) * width + used % width
    directions = _directions(regression, problem.form.unit, support, within)
    solution = _weighted(modes, plain.coef[terms], place, directions)
    return None if solution is None else _replaced(problem, plain, within, *solution)


def _replaced(
    problem: Problem, plain: Estimates, within: NDArray[np.bool_], values: Floats, covariance: Floats
) -> Estimates | None:
    """The estimates with other coefficients on some of the support.

    None where these violate constraints, contradict the old estimates, or do not have smaller errors.
    """
    support = np.flatnonzero(plain.coef)
    used = support[within]
    coef, errors = plain.coef.ravel().copy(), plain.error.ravel().copy()
    apart = np.abs(values - coef[used])
    coef[used] = values
    errors[used] = np.sqrt(np.maximum(np.diagonal(covariance), 0.0))
    before = plain.error.ravel()[used]
    allowed = EFFORT.field_estimates_apart * np.hypot(errors[used], before)
    size = float(np.abs(plain.coef).max())
    table = coef.reshape(plain.coef.shape)
    if (apart > allowed + 1e-12 * size).any() or not values.all():
        return None
    free = before > 0
    # Where errors do not become smaller the plain estimate stays, which assumes less.
    if np.sum(np.log(errors[used][free] / before[free])) > 0:
        return None
    if problem.violation(table) > max(problem.violation(plain.coef), 1e-9 * size):
        return None
    # The covariance between coefficients of the two estimates is not known, and set to zero.
    whole = np.zeros((len(support), len(support)))
    if plain.covariance is not None:
        whole[np.ix_(~within, ~within)] = plain.covariance[np.ix_(~within, ~within)]
    whole[np.ix_(within, within)] = covariance
    return Estimates(table, errors.reshape(plain.coef.shape), whole)


def _directions(regression: Regression, unit: Floats, support: Ints, within: NDArray[np.bool_]) -> Floats:
    """(k, free) the directions in which constraints let some of the coefficients of a support move."""
    width = regression.shape[1]
    parts = []
    for group in regression.groups:
        mine = np.isin(support % width, group) & within
        if mine.any():
            fit = regression.fit(support[mine], group)
            whole = np.zeros((len(support), fit.free))
            whole[np.searchsorted(support, fit.support)] = fit.spread
            parts.append(whole)
    return np.asarray((np.hstack(parts) * unit.ravel()[support][:, None])[within])


def _left(modes: Sequence[Modes], coef: Floats) -> Floats:
    """(states,) mean squared residual of coefficients (terms, states), in units of its noise."""
    residual = as_columns(coef)
    total = np.zeros(len(residual))
    for mode in modes:
        rest, noise = (mode.table @ residual.T).T, mode.variance(residual)
        total += np.sum(np.divide(rest**2, noise, out=np.full_like(rest, np.inf), where=noise > 0), axis=1)
    return total / sum(len(mode.table) for mode in modes)


def _weighted(
    modes: Sequence[Modes], first: Floats, support: Ints, directions: Floats
) -> tuple[Floats, Floats] | None:
    """The coefficients on a support (flat indices) that move in some directions, and their covariance.

    None where the columns depend on each other, or residuals are larger than noise explains.

    first: (terms, states) the coefficients that give the first weights
    """
    table = first.copy()
    coef = table.ravel()
    for _ in range(EFFORT.field_estimates_rounds):
        residual = as_columns(table)
        fits = [_Filtered(mode, support, residual) for mode in modes]
        inner = directions.T @ np.sum([f.gram() for f in fits], axis=0) @ directions
        if not len(inner) or np.linalg.cond(inner) > EFFORT.field_estimates_dependent:
            return None
        gain = directions @ np.linalg.solve(inner, directions.T)
        coef[support] += gain @ np.sum([f.score() for f in fits], axis=0)
    # The covariance of the last round, by samples: modes are independent only nearly.
    scatter = np.sum([f.mode.scatter(f.moved(gain), residual) for f in fits], axis=0)
    left = _left(modes, table)[support % table.shape[1]]
    if (left > EFFORT.field_estimates_explained).any():
        return None
    # A residual that is a little larger than its noise widens the errors; one that is smaller does not narrow
    # them.
    scale = np.sqrt(np.maximum(left, 1.0))
    covariance = scatter + np.sum([f.twice(gain) for f in fits], axis=0)
    return coef[support], covariance * np.outer(scale, scale)


class _Filtered:
    """One field's modes with weights W by the noise of residuals, and the columns Z of the head.

    A band in which terms are mostly noise hardly counts.
    """

    def __init__(self, mode: Modes, support: Ints, residual: Floats) -> None:
        self.mode, self.residual = mode, residual
        self.weight = mode.rows.field.weight / mode.variance(residual)
        # (states, modes, k) the columns Z of each equation, and the mean of Z r over the noise.
        self.columns = np.zeros((*self.weight.shape, len(support)))
        self.mean = np.zeros(self.columns.shape)
        for j, weight in enumerate(self.weight):
            own = np.flatnonzero(support % len(residual) == j)
            if len(own):
                self.columns[j, :, own], self.mean[j, :, own] = self._of_state(
                    weight, support[own] // len(residual), residual[j]
                )
        self.weighted = self.columns * self.weight[..., None]

    def _of_state(self, weight: Floats, terms: Ints, residual: Floats) -> tuple[Floats, Floats]:
        """(k, modes) the columns of the terms of one equation without their noise, and the mean of Z r."""
        columns, mean = self.mode.table[:, terms], np.zeros((len(weight), len(terms)))
        for k, a in enumerate(terms):
            for b in np.flatnonzero(residual):
                mean[:, k] += residual[b] * self.mode.shared(int(a), int(b))
        filtered = np.zeros_like(columns)
        for band in _bands(weight):
            noise = [
                [np.sum((weight * self.mode.shared(int(a), int(b)))[band]) for b in terms] for a in terms
            ]
            scaled = columns[band] * np.sqrt(weight[band, None])
            keep = Whitened(scaled).without_noise(np.array(noise))
            filtered[band], mean[band] = columns[band] @ keep, mean[band] @ keep
        return filtered.T, mean.T

    def gram(self) -> Floats:
        """(k, k) ZᵀWZ."""
        return np.asarray(np.tensordot(self.weighted, self.columns, axes=((0, 1), (0, 1))))

    def score(self) -> Floats:
        """(k,) ZᵀWr less its mean over the noise."""
        rest = (self.mode.table @ self.residual.T).T
        difference = self.columns * rest[..., None] - self.mean
        return np.asarray(np.tensordot(self.weight, difference, axes=((0, 1), (0, 1))))

    def moved(self, gain: Floats) -> Floats:
        """(k, states, modes) by how much residuals move the coefficients."""
        return np.asarray(np.tensordot(gain, self.weighted, axes=(1, 2)))

    def twice(self, gain: Floats) -> Floats:
        """(k, k) what the noise that terms and residual share adds to the covariance.

        The variance of a product e r of Gaussian noise is the variance of e times that of r, which `moved`
        accounts for, plus the square of their covariance (Isserlis, Biometrika 12, 1918).
        """
        both = np.tensordot(gain, self.mean * self.weight[..., None], axes=(1, 2)).reshape(len(gain), -1)
        return np.asarray(both @ both.T)


def _bands(weight: Floats) -> Iterator[Ints]:
    """Modes of like noise: within a factor of two in variance, or more where those are few."""
    order = np.argsort(-weight, kind="stable")
    octave = np.floor(np.log2(weight[order[0]] / weight[order]))
    begin, least = 0, EFFORT.field_estimates_band
    for end in (np.flatnonzero(np.diff(octave)) + 1).tolist():
        if end - begin >= least and len(order) - end >= least:
            yield order[begin:end]
            begin = end
    yield order[begin:]
