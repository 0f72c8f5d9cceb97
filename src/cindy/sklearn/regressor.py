"""Constrained sparse regression with the interface of scikit-learn."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import ArrayLike
from scipy.sparse import csr_array, diags_array
from sklearn.base import BaseEstimator, MultiOutputMixin, RegressorMixin
from sklearn.utils.validation import _check_sample_weight, check_is_fitted, validate_data

from cindy._types import Floats
from cindy.least_squares import LeastSquares
from cindy.solver import Correction, Direct, Region, conditional_gradient, oracle_for, smallest_radius

__all__ = ["ConditionalGradientRegressor"]


class ConditionalGradientRegressor(MultiOutputMixin, RegressorMixin, BaseEstimator):  # type: ignore[misc]
    """min ‖X x − y‖² over a weighted l1 ball and linear rows, with a certificate.

    Constraints are rows lower ≤ matrix x ≤ upper on the coefficients in the
    units of X and y; they hold exactly, also under scaling. The coefficient of
    feature i for target j stands at i · targets + j of the flattened x.

    radius: of the ball; None: twice the norm of the least-squares solution (a
        radius that the rows allow, if that is larger)
    weights: (features · targets,), positive; None: ones
    matrix, lower, upper: the rows, as in `Region`
    scale: whether columns of X and y are brought to unit root mean square
        first, so that one radius means the same for all; the radius and the
        weights are then in those units
    fit_intercept: whether a constant, free of the ball and the rows, is fitted
    correction: Direct(leap=True) when None; also Blended(), FullyCorrective(), Plain()
    tol: gap at which the run stops, relative to the loss of the zero model

    Fitted: `coef_` (features,) or (targets, features), `intercept_`, `gap_`
    (no feasible coefficients have a loss smaller by more, in units of y² — of
    scaled y² under `scale`), `radius_`, `result_`, `n_iter_`.

    >>> X = np.array([[1.0, 0.0], [0.0, 1.0], [1.0, 1.0]])
    >>> model = ConditionalGradientRegressor(radius=1.0, scale=False).fit(X, [2.0, 0.0, 2.0])
    >>> model.coef_.round(6)
    array([1., 0.])
    """

    def __init__(
        self,
        radius: float | None = None,
        *,
        weights: ArrayLike | None = None,
        matrix: ArrayLike | None = None,
        lower: ArrayLike = -np.inf,
        upper: ArrayLike = np.inf,
        scale: bool = True,
        fit_intercept: bool = False,
        correction: Correction | None = None,
        tol: float = 1e-8,
        max_iter: int = 10_000,
    ) -> None:
        self.radius = radius
        self.weights = weights
        self.matrix = matrix
        self.lower = lower
        self.upper = upper
        self.scale = scale
        self.fit_intercept = fit_intercept
        self.correction = correction
        self.tol = tol
        self.max_iter = max_iter

    def fit(self, X: Any, y: Any, sample_weight: Any = None) -> ConditionalGradientRegressor:
        """Fit coefficients to X (samples, features), y (samples,) or (samples, targets)."""
        X, y = validate_data(self, X, y, multi_output=True, y_numeric=True, dtype=np.float64)
        y = np.asarray(y, dtype=np.float64)
        target = y.reshape(len(y), -1)
        weight = _check_sample_weight(sample_weight, X, dtype=np.float64, ensure_non_negative=True)
        middle_x, middle_y = np.zeros(X.shape[1]), np.zeros(target.shape[1])
        if self.fit_intercept:
            middle_x, middle_y = weight @ X / weight.sum(), weight @ target / weight.sum()
        root = np.sqrt(weight)[:, None]
        whole = LeastSquares.from_rows(root * (X - middle_x), root * (target - middle_y))
        columns, targets = self._units(whole, float(weight.sum()))
        objective = whole.scaled(columns, targets)
        region = self._region(objective, columns, targets)
        self.result_ = conditional_gradient(
            objective,
            oracle_for(region),
            self.correction or Direct(leap=True),
            tol=self.tol,
            max_iter=self.max_iter,
        )
        coef = self.result_.x * targets / columns[:, None]
        self.radius_ = region.radius
        self.gap_ = self.result_.gap
        self.n_iter_ = max(1, self.result_.iterations)
        intercept = middle_y - middle_x @ coef
        self.coef_ = coef.ravel() if y.ndim == 1 else coef.T.copy()
        self.intercept_ = float(intercept[0]) if y.ndim == 1 else intercept
        return self

    def predict(self, X: Any) -> Floats:
        """(samples,) or (samples, targets)"""
        check_is_fitted(self)
        X = validate_data(self, X, reset=False, dtype=np.float64)
        return np.asarray(X @ self.coef_.T + self.intercept_, dtype=np.float64)

    def _units(self, whole: LeastSquares, total: float) -> tuple[Floats, Floats]:
        """What the columns of X and y are divided by."""
        if not self.scale:
            return np.ones(whole.terms), np.ones(whole.targets)
        sizes = np.linalg.norm(whole.factor, axis=0) / np.sqrt(total)
        sizes[sizes == 0] = 1.0
        return sizes[: whole.terms], sizes[whole.terms :]

    def _region(self, objective: LeastSquares, columns: Floats, targets: Floats) -> Region:
        size = objective.terms * objective.targets
        unit = np.ravel(targets / columns[:, None])
        rows = Region(size, 1.0, self.weights, self.matrix, self.lower, self.upper)
        matrix = csr_array(rows.matrix @ diags_array(unit))
        radius = self.radius
        if radius is None:
            least = np.linalg.lstsq(objective.design, objective.target, rcond=None)[0]
            radius = rows.norm(least)
            if (rows.lower > 0).any() or (rows.upper < 0).any():
                allowed, _ = smallest_radius(Region(size, 1.0, rows.weights, matrix, rows.lower, rows.upper))
                radius = max(radius, allowed)
            radius = 2.0 * radius if radius > 0 else 1.0
        return Region(size, radius, rows.weights, matrix, rows.lower, rows.upper)
