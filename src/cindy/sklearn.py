"""Estimators with scikit-learn's interface: identification, and constrained sparse regression."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from typing import Any, Literal, Self

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.sparse import csr_array, diags_array
from sklearn.base import BaseEstimator, MultiOutputMixin, RegressorMixin
from sklearn.utils.validation import _check_sample_weight, check_is_fitted, validate_data

from cindy._arrays import Floats
from cindy._check import flag, positive, short
from cindy.basis import Basis, Polynomial
from cindy.data import Hold, Trajectory
from cindy.errors import DataError
from cindy.formulation import Formulation
from cindy.identification import identify
from cindy.least_squares import LeastSquares
from cindy.model import Model
from cindy.problem import Constraint, Weights
from cindy.selection import Selection
from cindy.solver import Correction, Direct, Region, conditional_gradient, oracle_for, smallest_radius

__all__ = ["CINDy", "ConditionalGradientRegressor"]


_BREAK = 10.0
"""A time step longer than this many median steps starts another trajectory: a fold was left out there."""


class CINDy(BaseEstimator):  # type: ignore[misc]
    """Sparse differential equations from time series, as a scikit-learn estimator.

    The settings are those of `cindy.identify`; None stands for its default. X is an array (n, states), a
    DataFrame, a `Trajectory`, or a list of any of these, one per trajectory. For cross-validation pass a
    list: folds are then whole trajectories.

    basis: None for Polynomial(2)
    time: name of the column that holds the time, where X is a DataFrame
    dt: the time step, where neither `fit` nor X says when samples were taken
    hold: what inputs do between samples: "zero", "linear" or "band"

    After `fit`: `model_`, `coef_` (terms, states), `n_features_in_`, `feature_names_in_`.

    >>> t = np.linspace(0, 5, 200)
    >>> fitted = CINDy(basis=Polynomial(1)).fit(np.exp(-2 * t)[:, None], t=t)
    >>> fitted.coef_.round(3) + 0.0
    array([[ 0.],
           [-2.]])
    """

    def __init__(
        self,
        basis: Basis | None = None,
        *,
        formulation: Formulation | None = None,
        constraints: Sequence[Constraint] = (),
        selection: Selection | None = None,
        correction: Correction | None = None,
        weights: Weights | None = None,
        radius: float | None = None,
        tol: float = 1e-6,
        max_iter: int = 10_000,
        seed: int = 0,
        passes: int | None = None,
        known: Mapping[str, str] | None = None,
        hidden: int | str | Sequence[str] | Mapping[str, str] = 0,
        observe: Mapping[str, str] | None = None,
        least: str = "significant",
        time: str | None = None,
        dt: float | None = None,
        hold: Hold = "linear",
    ) -> None:
        self.basis = basis
        self.formulation = formulation
        self.constraints = constraints
        self.selection = selection
        self.correction = correction
        self.weights = weights
        self.radius = radius
        self.tol = tol
        self.max_iter = max_iter
        self.seed = seed
        self.passes = passes
        self.known = known
        self.hidden = hidden
        self.observe = observe
        self.least = least
        self.time = time
        self.dt = dt
        self.hold = hold

    def fit(self, X: Any, y: Any = None, *, t: Any = None, u: Any = None) -> Self:
        """Identify the equations behind X.

        y: ignored; there for scikit-learn
        t: times (n,), or the time step; a list of these for a list of trajectories
        u: inputs (n, inputs), or a list of these
        """
        data = self._trajectories(X, t, u, step=self.dt)
        settings = self.get_params(deep=False)
        basis = settings.pop("basis")
        for about_data in ("time", "dt", "hold"):
            del settings[about_data]
        self.model_: Model = identify(data, Polynomial(2) if basis is None else basis, **settings)
        self.coef_ = self.model_.coef
        # Columns of X: fewer than states where some are hidden, and read-outs where `observe` says so.
        self.n_features_in_ = len(data[0].states)
        self.feature_names_in_ = np.array(data[0].states, dtype=object)
        self.step_ = _common_step(data)
        return self

    def predict(self, X: Any, u: Any = None) -> Any:
        """The right-hand side at the rows of X: (n, states), or a list of these for a list."""
        check_is_fitted(self, "model_")
        if _is_list(X):
            inputs = [None] * len(X) if u is None else list(u)
            return [self.predict(data, given) for data, given in zip(X, inputs, strict=True)]
        if isinstance(X, Trajectory):
            return self.model_.predict(X, u)
        named = hasattr(X, "columns") and set(self.model_.states) <= set(X.columns)
        return self.model_.predict(X if named else _table(X, self.time)[0], u)

    def simulate(
        self, x0: ArrayLike, t: ArrayLike, u: Callable[[float], ArrayLike] | ArrayLike | None = None
    ) -> Trajectory:
        """The solution at the times t from x0; see `Model.simulate`."""
        check_is_fitted(self, "model_")
        return self.model_.simulate(x0, t, u)

    def score(
        self,
        X: Any,
        y: Any = None,
        *,
        t: Any = None,
        u: Any = None,
        kind: Literal["equation", "trajectory", "derivative"] = "equation",
    ) -> float:
        """R² of the equations on X, at most 1; see `Model.score`. Without t, the time step of `fit` holds."""
        check_is_fitted(self, "model_")
        columns, inputs = tuple(self.feature_names_in_), self.model_.inputs
        data = self._trajectories(X, t, u, step=self.step_)
        return self.model_.score([replace(part, states=columns, inputs=inputs) for part in data], kind)

    def equations(self) -> list[str]:
        """One line per state."""
        check_is_fitted(self, "model_")
        return self.model_.equations()

    def get_feature_names_out(self, input_features: Any = None) -> NDArray[np.object_]:
        """The names of the terms, as the rows of `coef_`."""
        check_is_fitted(self, "model_")
        return np.array(self.model_.terms, dtype=object)

    def _trajectories(self, X: Any, t: Any, u: Any, *, step: float | None) -> list[Trajectory]:
        """The data as trajectories; `step` holds where neither t nor X has times."""
        tables = list(X) if _is_list(X) else [X]
        times = _each(t, len(tables), _is_list(X), "t")
        inputs = _each(u, len(tables), _is_list(X), "u")
        trajectories = [
            part
            for table, when, given in zip(tables, times, inputs, strict=True)
            for part in _trajectory(table, when, given, self.time, step, self.hold)
        ]
        if not trajectories:
            raise DataError("CINDy: X is an empty list. Pass at least one trajectory.")
        return trajectories


def _dimensions(value: Any) -> int:
    """The number of dimensions; 1 for rows of different length."""
    try:
        return np.ndim(value)
    except ValueError:
        return 1


def _is_list(X: Any) -> bool:
    """Whether X holds several trajectories, and is not itself a table written as a list of rows."""
    return isinstance(X, (list, tuple)) and not (
        X and _dimensions(X[0]) < 2 and not isinstance(X[0], Trajectory)
    )


def _each(value: Any, count: int, is_list: bool, name: str) -> list[Any]:
    """One value per trajectory: from a list of them, or one shared by all."""
    if not is_list or value is None or _dimensions(value) == 0:
        return [value] * count
    if isinstance(value, (list, tuple)) and _dimensions(value[0]) > 0:
        if len(value) != count:
            raise DataError(f"CINDy: `{name}` must have one entry per trajectory, {count}, not {len(value)}.")
        return list(value)
    # As many numbers as trajectories may be a step for each or times that all share. Neither is guessed.
    if name == "t" and _dimensions(value) == 1 and len(value) == count and count > 1:
        raise DataError("CINDy: `t` must be a list of arrays, one per trajectory, or one array for all.")
    return [value] * count


def _trajectory(
    X: Any, t: Any, u: Any, time: str | None, step: float | None, hold: Hold
) -> Iterable[Trajectory]:
    """The trajectories of one table, which is divided at gaps in time."""
    if isinstance(X, Trajectory):
        return [X]
    values, names, column = _table(X, time)
    t = next((times for times in (t, column, step) if times is not None), None)
    if t is None:
        raise DataError(
            "CINDy: the times are missing. Pass t=times or t=step, a Trajectory, a DataFrame with "
            "CINDy(time=…), or the step as CINDy(dt=…)."
        )
    if _dimensions(values) == 0 or not len(values):
        raise DataError(f"CINDy: X must be an array (n, states) or a list of these, but is {short(X)}.")
    if _dimensions(t) == 0:
        t = positive(t, "CINDy: the time step `t`") * np.arange(len(values))
    return _unbroken(Trajectory(t, values, names, u=u, hold=hold))


def _table(X: Any, time: str | None) -> tuple[Any, tuple[str, ...] | None, Any]:
    """The values, the names of the columns if there are any, and the times if a column holds them."""
    if not hasattr(X, "columns"):
        return X, None, None
    names = [str(name) for name in X.columns]
    if time is None:
        return X.to_numpy(), tuple(names), None
    if time not in names:
        raise DataError(f'CINDy: X has no column "{time}" for the time, only {", ".join(names)}.')
    place = names.index(time)
    values = X.to_numpy()
    rest = [i for i in range(len(names)) if i != place]
    return values[:, rest], tuple(names[i] for i in rest), values[:, place]


def _unbroken(trajectory: Trajectory) -> list[Trajectory]:
    """The parts of a trajectory between gaps in time."""
    steps = np.diff(trajectory.t)
    limit = _BREAK * float(np.median(steps)) if len(steps) else np.inf
    edges = [0, *(int(gap) + 1 for gap in np.flatnonzero(steps > limit)), len(trajectory)]
    return [trajectory.part(begin, end) for begin, end in itertools.pairwise(edges)]


def _common_step(data: list[Trajectory]) -> float | None:
    """The time step that all samples share, or None."""
    steps = np.concatenate([np.diff(trajectory.t) for trajectory in data])
    if len(steps) == 0:
        return None
    middle = float(np.median(steps))
    return middle if np.allclose(steps, middle, rtol=1e-6) else None


class ConditionalGradientRegressor(MultiOutputMixin, RegressorMixin, BaseEstimator):  # type: ignore[misc]
    """Sparse regression, min ‖X x − y‖² over a weighted l1 ball and linear rows, with a certificate.

    Constraints are rows lower ≤ matrix x ≤ upper on the coefficients in the units of X and y; they hold
    exactly, also under scaling. The coefficient of feature i for target j is entry i · targets + j of the
    flattened x.

    radius: of the ball; None: twice the norm of the least-squares solution, or twice the least radius that
        the rows allow, if that is larger
    weights: (features · targets,), positive; None: ones
    matrix, lower, upper: the rows, as in `Region`
    scale: whether columns of X and y are scaled to unit root mean square first, so that one radius means the
        same for all; the radius and the weights are then in those units
    fit_intercept: whether a constant is fitted, to which ball and rows do not apply
    correction: None: Direct(leap=True); also Blended(), FullyCorrective(), Plain()
    tol: gap at which the run stops, relative to the loss of the zero model

    Fitted: `coef_` (features,) or (targets, features), `intercept_`, `gap_` (no feasible coefficients have a
    loss smaller by more, in units of y², or of scaled y² under `scale`), `radius_`, `result_`, `n_iter_`.

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
        for name in ("scale", "fit_intercept"):
            flag(getattr(self, name), f"ConditionalGradientRegressor: `{name}`")
        X, y = validate_data(self, X, y, multi_output=True, y_numeric=True, dtype=np.float64)
        y = np.asarray(y, dtype=np.float64)
        target = y.reshape(len(y), -1)
        weight = _check_sample_weight(sample_weight, X, dtype=np.float64, ensure_non_negative=True)
        middle_x, middle_y = np.zeros(X.shape[1]), np.zeros(target.shape[1])
        if self.fit_intercept:
            # With a free constant the residuals have mean zero. Centring both sides eliminates it.
            middle_x, middle_y = weight @ X / weight.sum(), weight @ target / weight.sum()
        root = np.sqrt(weight)[:, None]
        physical = LeastSquares.from_rows(root * (X - middle_x), root * (target - middle_y))
        columns, targets = self._units(physical, float(weight.sum()))
        objective = physical.scaled(columns, targets)
        region = self._region(objective, columns, targets)
        self.result_ = conditional_gradient(
            objective,
            oracle_for(region),
            Direct(leap=True) if self.correction is None else self.correction,
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

    def _units(self, objective: LeastSquares, weight: float) -> tuple[Floats, Floats]:
        """The units of the columns of X and y; weight: the sum over the samples."""
        if not self.scale:
            return np.ones(objective.terms), np.ones(objective.targets)
        sizes = np.linalg.norm(objective.factor, axis=0) / np.sqrt(weight)
        sizes[sizes == 0] = 1.0
        return sizes[: objective.terms], sizes[objective.terms :]

    def _region(self, objective: LeastSquares, columns: Floats, targets: Floats) -> Region:
        size = objective.terms * objective.targets
        unit = np.ravel(targets / columns[:, None])
        rows = Region(size, 1.0, self.weights, self.matrix, self.lower, self.upper)
        # The rows hold for coefficients in the units of X and y, the solver has scaled ones.
        matrix = csr_array(rows.matrix @ diags_array(unit))
        radius = self.radius
        if radius is None:
            least = np.linalg.lstsq(objective.design, objective.target, rcond=None)[0]
            radius = rows.norm(least)
            # Rows that exclude zero may need a larger radius than least squares.
            if (rows.lower > 0).any() or (rows.upper < 0).any():
                allowed, _ = smallest_radius(Region(size, 1.0, rows.weights, matrix, rows.lower, rows.upper))
                radius = max(radius, allowed)
            radius = 2.0 * radius if radius > 0 else 1.0
        return Region(size, radius, rows.weights, matrix, rows.lower, rows.upper)
