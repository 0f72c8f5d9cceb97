"""Least squares on a chosen support under all constraints, and the errors of its coefficients.

Inequalities that bind are kept as equalities. Rows of one block are not independent of each other: errors
come from the scatter between blocks, and are never below the classical ones.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from cindy._types import Floats, Ints
from cindy.errors import InfeasibleError
from cindy.regression.regression import Fit, Regression
from cindy.rows import Rows

__all__ = ["Refit", "binding", "classical", "design_effect", "jackknife", "refit", "sandwich"]

_MOST = 100
"""Parameters beyond which leaving blocks out, one by one, would take too long."""
_ALONE = 0.002
"""A direction that one block determines but for this share is not left to the others. At 0.1, one of 32 data
sets of `python -m benchmarks constants` loses its terms."""


def classical(regression: Regression, fit: Fit) -> Floats:
    """(k,) variances of the coefficients, if all rows were independent and scattered as they do.

    diag (AᵀA)⁻¹ · loss / (rows − parameters), with (AᵀA)⁻¹ = spread spreadᵀ.
    """
    targets = len(np.unique(fit.support % regression.shape[1]))
    freedom = max(regression.total.rows * targets - fit.free, 1)
    return np.asarray(np.sum(fit.spread**2, axis=1) * (fit.loss / freedom))


def sandwich(regression: Regression, fit: Fit, x: Floats) -> Floats:
    """(k,) variances by the scatter of what the blocks pull at.

    diag (AᵀA)⁻¹ (Σ_g s_g s_gᵀ) (AᵀA)⁻¹ · G / (G − 1), s_g = A_gᵀ r_g the score of block g of G
    (Liang and Zeger, Biometrika 73, 1986).

    x: flat coefficients of all equations, those of the fit among them
    """
    moved = _pulls(regression, fit, x) @ fit.spread.T
    return np.asarray(np.sum(moved**2, axis=0) * (len(moved) / max(len(moved) - 1, 1)))


def jackknife(regression: Regression, fit: Fit, x: Floats) -> Floats:
    """(k,) variances by how far the coefficients move when a block is left out.

    Σ_g (ξ_{−g} − ξ)² · (G − 1) / G, with ξ_{−g} − ξ = −(AᵀA − A_gᵀ A_g)⁻¹ s_g (Bell and McCaffrey,
    Surv. Methodol. 28, 2002).

    As the sandwich, but honest where few blocks determine a coefficient: their residuals
    are small because the fit follows them. With more parameters than blocks could tell
    apart, what blocks add to the errors is taken to be the same for all.
    """
    terms, targets = np.divmod(fit.support, regression.shape[1])
    if fit.free > len(regression.blocks) * len(np.unique(targets)):
        independent = classical(regression, fit)
        return independent * design_effect(independent, sandwich(regression, fit, x))
    if fit.free > _MOST:
        return sandwich(regression, fit, x)
    rest = np.tile((1.0 + _ALONE) * np.eye(fit.free), (len(regression.blocks), 1, 1))
    for j in np.unique(targets):
        here = np.flatnonzero(targets == j)
        spread = fit.spread[here] / regression.noise[j]
        rest -= spread.T @ regression.grams(terms[here]) @ spread
    moved = np.linalg.solve(rest, _pulls(regression, fit, x)[:, :, None])[:, :, 0] @ fit.spread.T
    return np.asarray(np.sum(moved**2, axis=0) * ((len(moved) - 1) / len(moved)))


def design_effect(independent: Floats, clustered: Floats) -> float:
    """By how much correlation within blocks inflates the variances, at least 1.

    The median over the coefficients of clustered over independent variance (Kish, Survey
    Sampling, 1965).
    """
    known = independent > 0
    return max(1.0, float(np.median(clustered[known] / independent[known]))) if known.any() else 1.0


def _pulls(regression: Regression, fit: Fit, x: Floats) -> Floats:
    """(blocks, free): the scores in the parameters of the fit."""
    noise = regression.noise[fit.support % regression.shape[1]]
    return np.asarray((regression.scores(x, fit.support) / noise**2) @ fit.spread)


@dataclass(frozen=True, eq=False)
class Refit:
    """Scaled coefficients on a support, and their standard errors.

    x, error: (terms, targets); error is clustered by block, and never below the classical one
    loss: in units of the noise; free: parameters
    left: (targets,) root mean square residual, for the rows left after the parameters
    """

    x: Floats
    error: Floats
    loss: float
    free: int
    left: Floats

    @property
    def weakest(self) -> float:
        """The least coefficient in units of its error; infinite where nothing is free."""
        known = self.error > 0
        return float(np.min(np.abs(self.x[known]) / self.error[known])) if known.any() else np.inf


def binding(regression: Regression, support: Ints) -> Regression:
    """The regression with those inequalities as equalities that bind at the optimum on the support."""
    rows = regression.rows
    loose = np.flatnonzero(~rows.equality)
    if not len(loose):
        return regression
    fits = [regression.fit(support[np.isin(support % regression.shape[1], g)], g) for g in regression.groups]
    at = np.concatenate([f.support for f in fits])
    x = np.concatenate([f.x for f in fits])
    spread = np.zeros((len(at), sum(f.free for f in fits)))
    row = column = 0
    for f in fits:
        spread[row : row + len(f.x), column : column + f.free] = f.spread
        row, column = row + len(f.x), column + f.free
    active, values = _active(rows, loose, at, x, spread)
    if not len(active):
        return regression
    return replace(regression, rows=rows.bound(active, values))


def _active(rows: Rows, loose: Ints, at: Ints, x: Floats, spread: Floats) -> tuple[Ints, Floats]:
    """Rows on one of their bounds at the feasible point nearest to x in the metric of its covariance.

    That point is x + spread z with the least ‖z‖: a least-distance problem, solved by
    non-negative least squares on its dual.
    """
    from scipy.optimize import nnls

    matrix = rows.matrix[loose][:, at].toarray()
    value, slope = matrix @ x, matrix @ spread
    sides = [(slope, rows.lower[loose] - value, loose, rows.lower[loose])]
    sides.append((-slope, value - rows.upper[loose], loose, rows.upper[loose]))
    keep = [np.isfinite(side[1]) for side in sides]
    slopes = np.vstack([side[0][k] for side, k in zip(sides, keep, strict=True)])
    needs = np.concatenate([side[1][k] for side, k in zip(sides, keep, strict=True)])
    number = np.concatenate([side[2][k] for side, k in zip(sides, keep, strict=True)])
    level = np.concatenate([side[3][k] for side, k in zip(sides, keep, strict=True)])
    if (needs <= 0).all():
        return np.zeros(0, dtype=np.intp), np.zeros(0)
    size = np.linalg.norm(slopes, axis=1)
    # A row that equalities hold fast moves with none of its coefficients, however little those vary.
    reach = np.abs(matrix) @ np.linalg.norm(spread, axis=1)
    stuck = size <= 1e-9 * np.concatenate([reach[k] for k in keep])
    if (needs[stuck] > 1e-9).any():
        raise InfeasibleError("an inequality cannot be met with the terms that are left.")
    slopes, needs = slopes[~stuck] / size[~stuck, None], needs[~stuck] / size[~stuck]
    scale = needs.max()
    dual = np.vstack([slopes.T, needs[None, :] / scale])
    goal = np.zeros(len(dual))
    goal[-1] = 1.0
    weight, distance = nnls(dual, goal, maxiter=30 * dual.shape[1])
    if distance <= 1e-10:
        raise InfeasibleError("the inequalities cannot be met with the terms that are left.")
    on = weight > 1e-12 * weight.max()
    return number[~stuck][on], level[~stuck][on]


def refit(regression: Regression, support: Ints) -> Refit:
    """The coefficients on the support (flat indices), fitted under all constraints, with errors."""
    regression = binding(regression, support)
    terms, width = regression.shape
    x, error = np.zeros(terms * width), np.zeros(terms * width)
    fits = [regression.fit(support[np.isin(support % width, g)], g) for g in regression.groups]
    for fit in fits:
        x[fit.support] = fit.x
    rows = regression.total.rows
    for fit in fits:
        moved = jackknife(regression, fit, x)
        error[fit.support] = np.sqrt(np.maximum(classical(regression, fit), moved))
    table = x.reshape(terms, width)
    squares = np.sum(regression.total.residual(table) ** 2, axis=0)
    used = np.bincount(support % width, minlength=width)
    left = np.sqrt(squares / np.maximum(rows - used, 1))
    return Refit(
        table, error.reshape(terms, width), sum(f.loss for f in fits), sum(f.free for f in fits), left
    )
