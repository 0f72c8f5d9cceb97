"""Peers that need only the matrices, up to a rotation of their rows; each tuned on the validation set."""

import warnings
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from typing import Any

import numpy as np

from cindy._types import Floats
from cindy.experiments.interior_point import interior_point
from cindy.experiments.setting import Setting
from cindy.experiments.tuning import Range, Tuned, tune
from cindy.least_squares import LeastSquares

__all__ = ["fista", "frols", "ipm", "lars", "sindy", "sindy_ridge", "sr3", "ssr", "true_support"]


TINY_RIDGE = 1e-15
SHRINKAGE = Range(1e-16, 1.0, closed=("low", "high"))
"""Of an l1 penalty, in units of the smallest one that gives the zero model; below is only rounding."""


@contextmanager
def quietly() -> Iterator[None]:
    """Peers warn at every trial that drops all terms or ends early; tuning judges by the loss instead.

    The checks of scikit-learn at every call are a third of the time of a small fit, and are left out.
    """
    from sklearn import config_context

    with warnings.catch_warnings(), config_context(assume_finite=True, skip_parameter_validation=True):
        warnings.simplefilter("ignore")
        yield


def true_support(setting: Setting, trials: int, seed: int) -> Tuned:
    """Least squares on the true support: what knowing the terms beforehand would give."""
    train = setting.scaled_train
    coef = np.zeros((train.terms, train.targets))
    for j, used in enumerate((setting.system.coef != 0).T):
        coef[used, j] = np.linalg.lstsq(train.design[:, used], train.target[:, j], rcond=None)[0]
    return Tuned(coef, {}, setting.validation_loss(coef), 0, "")


def thresholds(setting: Setting) -> Range:
    """From below the smallest coefficient of least squares to its largest: nothing lies beyond."""
    size = np.abs(setting.least_squares[setting.least_squares != 0])
    return Range(0.5 * float(size.min()), float(size.max()), closed=("low", "high"))


def sindy(setting: Setting, trials: int, seed: int) -> Tuned:
    """Sequentially thresholded least squares (pysindy.STLSQ), as in SINDy."""
    # The thresholds that work can lie within a tenth of a decade of each other: many trials, or none is met.
    return _stlsq(setting, {"threshold": thresholds(setting)}, 3 * trials, seed)


def sindy_ridge(setting: Setting, trials: int, seed: int) -> Tuned:
    """Sequentially thresholded ridge regression (pysindy.STLSQ), as in PDE-FIND."""
    rows = float(setting.train.rows)
    ranges = {
        "threshold": thresholds(setting),
        # Columns have unit mean square: the upper end leaves a ten-thousandth of every coefficient.
        "ridge": Range(1e-14 * rows, 1e4 * rows, closed=("low", "high")),
    }
    return _stlsq(setting, ranges, 3 * trials, seed)


def _stlsq(setting: Setting, ranges: Mapping[str, Range], trials: int, seed: int) -> Tuned:
    from pysindy.optimizers import STLSQ

    train = setting.scaled_train

    def fit(p: Mapping[str, float]) -> Floats:
        ridge = p.get("ridge", TINY_RIDGE * train.rows)
        with quietly():
            model = STLSQ(threshold=p["threshold"], alpha=ridge, max_iter=200)
            return np.asarray(model.fit(train.design, train.target).coef_.T)

    return tune(fit, setting.validation_loss, ranges, trials=trials, seed=seed)


def sr3(regularizer: str) -> Callable[[Setting, int, int], Tuned]:
    """Sparse relaxed regularised regression with the physics (pysindy.ConstrainedSR3), by "l0" or "l1"."""

    def method(setting: Setting, trials: int, seed: int) -> Tuned:
        train = setting.scaled_train
        size = np.abs(setting.least_squares[setting.least_squares != 0])
        ranges = {
            "threshold": Range(1e-3 * float(size.min()), float(size.max()), closed=("low", "high")),
            "relaxation": Range(1e-6 / train.rows, 1e12 / train.rows, closed=("high",)),
        }

        def fit(p: Mapping[str, float]) -> Floats:
            nu = p["relaxation"]
            weight = p["threshold"] ** 2 / (2 * nu) if regularizer == "l0" else p["threshold"] / nu
            model = _constrained_sr3()(
                reg_weight_lam=weight,
                regularizer=regularizer,
                relax_coeff_nu=nu,
                constraint_lhs=setting.equalities,
                constraint_rhs=np.zeros(len(setting.equalities)),
                constraint_order="feature",
                equality_constraints=True,
                # pysindy divides the change of the coefficients by nu before it compares.
                tol=1e-8 * float(size.max()) / nu,
                max_iter=300,
            )
            with quietly():
                return np.asarray(model.fit(train.design, train.target).coef_.T)

        # Two parameters over many decades, and cheap: more trials than the others.
        return tune(fit, setting.validation_loss, ranges, trials=3 * trials, seed=seed)

    return method


def _constrained_sr3() -> Any:
    """pysindy's class with the linear algebra of its constrained step done once a fit, not once an iteration.

    The step itself is the same: a test compares the two. As published, 2,110
    coefficients would take an inverse of that size in every iteration of every trial.
    """
    from pysindy.optimizers import ConstrainedSR3

    class FactoredOnce(ConstrainedSR3):  # type: ignore[misc, unused-ignore]
        def _reduce(self, x: Floats, y: Floats) -> None:
            self.parts_: Any = None
            super()._reduce(x, y)

        def _update_full_coef_constraints(
            self, H: Floats, x_transpose_y: Floats, coef_sparse: Floats
        ) -> Floats:
            if self.parts_ is None:
                inverse = np.linalg.inv(H)
                rows = self.constraint_lhs.reshape(-1, *coef_sparse.shape)
                spread = np.einsum("ij,mjk->mik", inverse, rows, optimize=True).reshape(len(rows), -1)
                middle = np.linalg.inv(spread @ self.constraint_lhs.T)
                self.parts_ = (inverse, spread, middle)
            inverse, spread, middle = self.parts_
            free = inverse @ (x_transpose_y + coef_sparse / self.relax_coeff_nu)
            pull = middle @ (self.constraint_rhs - self.constraint_lhs @ free.ravel())
            return np.asarray(free + (pull @ spread).reshape(free.shape))

    return FactoredOnce


def l1_limit(train: LeastSquares) -> float:
    """The smallest l1 penalty of ‖A x − B‖² under which zero is the minimiser."""
    return 2.0 * float(np.abs(train.design.T @ train.target).max())


def fista(setting: Setting, trials: int, seed: int) -> Tuned:
    """min ‖A x − B‖² + λ‖x‖₁ by the accelerated proximal gradient, restarted when it overshoots."""
    train = setting.scaled_train
    limit = l1_limit(train)
    lipschitz = 2.0 * float(np.linalg.norm(train.design, 2)) ** 2

    def fit(p: Mapping[str, float]) -> Floats:
        return proximal_gradient(train, p["penalty"] * limit, lipschitz)

    return tune(fit, setting.validation_loss, {"penalty": SHRINKAGE}, trials=trials, seed=seed)


def proximal_gradient(
    train: LeastSquares, penalty: float, lipschitz: float, *, tol: float = 1e-8, max_iter: int = 5000
) -> Floats:
    """FISTA until no coefficient moves by more than `tol` of the largest, or `max_iter` steps."""
    gram, goal = (
        2.0 * train.design.T @ train.design / lipschitz,
        2.0 * train.design.T @ train.target / lipschitz,
    )
    shrink = penalty / lipschitz
    x = ahead = np.zeros((train.terms, train.targets))
    momentum = 1.0
    for _ in range(max_iter):
        moved = ahead - gram @ ahead + goal
        new = np.sign(moved) * np.maximum(np.abs(moved) - shrink, 0.0)
        step = new - x
        if np.vdot(ahead - new, step) > 0:
            momentum = 1.0
        after = 0.5 * (1.0 + np.sqrt(1.0 + 4.0 * momentum**2))
        x, ahead, momentum = new, new + (momentum - 1.0) / after * step, after
        if np.abs(step).max() <= tol * np.abs(x).max():
            break
    return x


def ipm(*, constrained: bool) -> Callable[[Setting, int, int], Tuned]:
    """The same problem by CVXOPT's interior-point method, without or with the physics."""

    def method(setting: Setting, trials: int, seed: int) -> Tuned:
        train = setting.scaled_train
        limit = l1_limit(train)
        rows = setting.equalities if constrained else np.zeros((0, train.terms * train.targets))

        def fit(p: Mapping[str, float]) -> Floats:
            return interior_point(train, p["penalty"] * limit, rows)

        return tune(fit, setting.validation_loss, {"penalty": SHRINKAGE}, trials=trials, seed=seed)

    return method


def lars(setting: Setting, trials: int, seed: int) -> Tuned:
    """The whole lasso path of every equation (scikit-learn), each cut where its validation loss is least."""
    from sklearn.linear_model import lars_path

    train = setting.scaled_train
    paths = []
    for j in range(train.targets):
        with quietly():
            paths.append(
                lars_path(train.design, train.target[:, j], method="lasso", max_iter=5 * train.terms)[2].T
            )
    return _cut(setting, paths)


def ssr(setting: Setting, trials: int, seed: int) -> Tuned:
    """Stepwise sparse regression (pysindy.SSR): the smallest coefficient leaves, one at a time."""
    from pysindy.optimizers import SSR

    train = setting.scaled_train
    with quietly():
        model = SSR(alpha=TINY_RIDGE * train.rows, max_iter=train.terms, unbias=False)
        model.fit(train.design, train.target)
    # Its first entry is overwritten in place by the second: least squares stands in for it.
    history = [setting.least_squares.T, *model.history_[1:]]
    return _cut(setting, [[np.asarray(h[j]) for h in history] for j in range(train.targets)])


def frols(setting: Setting, trials: int, seed: int) -> Tuned:
    """Forward regression by orthogonal least squares (pysindy.FROLS): the best term enters, one at a time."""
    from pysindy.optimizers import FROLS

    train = setting.scaled_train
    with quietly():
        model = FROLS(alpha=TINY_RIDGE, max_iter=min(25, train.terms - 1), unbias=False)
        model.fit(train.design, train.target)
    return _cut(setting, [[np.asarray(h[j]) for h in model.history_] for j in range(train.targets)])


def _cut(setting: Setting, paths: list[Any]) -> Tuned:
    """Every equation's path at the point where the validation loss of that equation is least."""
    valid = setting.valid
    coef = np.zeros((valid.terms, valid.targets))
    chosen: dict[str, float] = {}
    for j, path in enumerate(paths):
        points = np.asarray(path).T / setting.scale[:, None]
        losses = np.sum((valid.design @ points - valid.target[:, [j]]) ** 2, axis=0)
        best = int(np.argmin(losses))
        coef[:, j] = path[best]
        chosen[f"step{j + 1}"] = float(best)
    return Tuned(coef, chosen, setting.validation_loss(coef), max(len(p) for p in paths), "")
