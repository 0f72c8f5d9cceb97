"""Least squares on a chosen support under all constraints: inequalities that bind included."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from cindy._types import Floats, Ints
from cindy.errors import InfeasibleError
from cindy.regression.regression import Regression
from cindy.regression.standard_errors import classical, jackknife
from cindy.rows import Rows

__all__ = ["Refit", "binding", "refit"]


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
