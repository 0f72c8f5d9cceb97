"""CINDy: identification with the manners of scikit-learn."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterable, Sequence
from typing import Any, Literal, Self

import numpy as np
from numpy.typing import ArrayLike, NDArray
from sklearn.base import BaseEstimator
from sklearn.utils.validation import check_is_fitted

from cindy.basis import Basis, Polynomial
from cindy.data import Trajectory
from cindy.errors import DataError
from cindy.formulation import Formulation
from cindy.model import Model
from cindy.pipeline import identify
from cindy.problem import Constraint, Weights
from cindy.selection import Selection
from cindy.solver import Correction

__all__ = ["CINDy"]


_BREAK = 10.0
"""A time step longer than this many median steps starts another trajectory: what a fold leaves out."""


class CINDy(BaseEstimator):  # type: ignore[misc]
    """Sparse differential equations from time series, as a scikit-learn estimator.

    Every setting is that of `cindy.identify`; None stands for its default. X is an array (n, states), a
    DataFrame, a `Trajectory`, or a list of any of these, one per trajectory. To cross-validate, pass a
    list: folds are then whole trajectories.

    basis: None for Polynomial(2)
    time: name of the column that holds the time, where X is a DataFrame

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
        time: str | None = None,
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
        self.time = time

    def fit(self, X: Any, y: Any = None, *, t: Any = None, u: Any = None) -> Self:
        """Identify the equations behind X.

        y: ignored; there for scikit-learn
        t: times (n,), or the time step; a list of these for a list of trajectories
        u: inputs (n, inputs), or a list of these
        """
        data = self._trajectories(X, t, u, step=None)
        self.model_: Model = identify(
            data,
            Polynomial(2) if self.basis is None else self.basis,
            formulation=self.formulation,
            constraints=self.constraints,
            selection=self.selection,
            correction=self.correction,
            weights=self.weights,
            radius=self.radius,
            tol=self.tol,
            max_iter=self.max_iter,
            seed=self.seed,
            passes=self.passes,
        )
        self.coef_ = self.model_.coef
        self.n_features_in_ = len(self.model_.states)
        self.feature_names_in_ = np.array(self.model_.states, dtype=object)
        self.step_ = _common_step(data)
        return self

    def predict(self, X: Any, u: Any = None) -> Any:
        """The right-hand side at the rows of X: (n, states), or a list of these for a list."""
        check_is_fitted(self, "model_")
        if _is_list(X):
            inputs = [None] * len(X) if u is None else list(u)
            return [self.predict(one, known) for one, known in zip(X, inputs, strict=True)]
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
        data = self._trajectories(X, t, u, step=self.step_)
        model = self.model_
        same = [Trajectory(d.t, d.x, model.states, u=d.u, inputs=model.inputs or None) for d in data]
        return model.score(same, kind)

    def equations(self) -> list[str]:
        """One line per state."""
        check_is_fitted(self, "model_")
        return self.model_.equations()

    def get_feature_names_out(self, input_features: Any = None) -> NDArray[np.object_]:
        """The names of the terms, as the rows of `coef_`."""
        check_is_fitted(self, "model_")
        return np.array(self.model_.terms, dtype=object)

    def _trajectories(self, X: Any, t: Any, u: Any, *, step: float | None) -> list[Trajectory]:
        many = list(X) if _is_list(X) else [X]
        times = _each(t, len(many), _is_list(X), "t")
        inputs = _each(u, len(many), _is_list(X), "u")
        found = [
            part
            for one, when, known in zip(many, times, inputs, strict=True)
            for part in _trajectory(one, when, known, self.time, step)
        ]
        if not found:
            raise DataError("CINDy: X is an empty list. Pass at least one trajectory.")
        return found


def _is_list(X: Any) -> bool:
    """Whether X holds several trajectories, and is not itself a table written as a list of rows."""
    return isinstance(X, (list, tuple)) and not (X and np.ndim(X[0]) < 2 and not isinstance(X[0], Trajectory))


def _each(value: Any, count: int, is_list: bool, name: str) -> list[Any]:
    """One value per trajectory: from a list of them, or one shared by all."""
    if not is_list or value is None or np.ndim(value) == 0:
        return [value] * count
    if isinstance(value, (list, tuple)) and np.ndim(value[0]) > 0:
        if len(value) != count:
            raise DataError(f"CINDy: `{name}` must have one entry per trajectory, {count}, not {len(value)}.")
        return list(value)
    if name == "t" and np.ndim(value) == 1 and len(value) == count and count > 1:
        raise DataError("CINDy: `t` must be a list of arrays, one per trajectory, or one array for all.")
    return [value] * count


def _trajectory(X: Any, t: Any, u: Any, time: str | None, step: float | None) -> Iterable[Trajectory]:
    if isinstance(X, Trajectory):
        return [X]
    values, names, column = _table(X, time)
    t = column if t is None else t
    if t is None:
        t = step
    if t is None:
        raise DataError(
            "CINDy: the times are missing. Pass t=times or t=step, a Trajectory, or a DataFrame with "
            "CINDy(time=…)."
        )
    times = np.arange(len(values)) * float(t) if np.ndim(t) == 0 else np.asarray(t)
    return _unbroken(Trajectory(times, values, names, u=u))


def _table(X: Any, time: str | None) -> tuple[Any, tuple[str, ...] | None, Any]:
    """Values, names of the columns if they have any, and the times if a column holds them."""
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


def _unbroken(whole: Trajectory) -> list[Trajectory]:
    steps = np.diff(whole.t)
    limit = _BREAK * float(np.median(steps)) if len(steps) else np.inf
    edges = [0, *(int(c) + 1 for c in np.flatnonzero(steps > limit)), len(whole)]
    return [whole.part(a, b) for a, b in itertools.pairwise(edges)]


def _common_step(data: list[Trajectory]) -> float | None:
    """The time step that all samples share, or None."""
    steps = np.concatenate([np.diff(one.t) for one in data])
    if len(steps) == 0:
        return None
    middle = float(np.median(steps))
    return middle if np.allclose(steps, middle, rtol=1e-6) else None
