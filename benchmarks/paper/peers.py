"""The peers, each tuned on the validation set.

First how parameters are chosen, then the peers that need only the matrices, up to a rotation of their rows,
then pysindy's weak form and its ensembles, which need the samples themselves.
"""

import warnings
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from benchmarks.paper.lasso import interior_point, l1_limit, proximal_gradient
from benchmarks.paper.setting import Setting
from cindy._arrays import Floats
from cindy.calculus import derivative_weights
from cindy.least_squares import triangle

__all__ = [
    "Range",
    "Tuned",
    "ensemble",
    "fista",
    "frols",
    "ipm",
    "lars",
    "sindy",
    "sindy_ridge",
    "sr3",
    "ssr",
    "true_support",
    "tune",
    "weak",
]

EDGE = 0.02


@dataclass(frozen=True)
class Range:
    """A logarithmic interval of a parameter.

    closed: ends beyond which the method cannot change any more (a threshold below the smallest
        coefficient keeps everything, one above the largest drops everything): a value there is not an edge
    """

    low: float
    high: float
    closed: tuple[str, ...] = ()

    def edge(self, value: float) -> str:
        """The open end that `value` stands at, within 2 % of the range; empty where there is none."""
        place = np.log(value / self.low) / np.log(self.high / self.low)
        end = "low" if place < EDGE else "high" if place > 1.0 - EDGE else ""
        return "" if end in self.closed else end


@dataclass(frozen=True, eq=False)
class Tuned:
    """The best model that was tried, its parameters, and whether one of them wants to leave its range."""

    coef: Floats
    parameters: Mapping[str, float]
    loss: float
    trials: int
    edge: str
    note: str = ""


def tune(
    fit: Callable[[Mapping[str, float]], Floats],
    loss: Callable[[Floats], float],
    ranges: Mapping[str, Range],
    *,
    trials: int,
    seed: int,
) -> Tuned:
    """Fit `trials` times and keep what has the smallest loss.

    Half of the trials lie on a line through the ranges from end to end, so that no
    optimum is missed by chance; the tree-structured Parzen estimator places the rest.
    """
    import optuna

    optuna.logging.set_verbosity(optuna.logging.ERROR)
    spread = trials // 2
    study = optuna.create_study(
        sampler=optuna.samplers.TPESampler(seed=seed, n_startup_trials=spread, multivariate=len(ranges) > 1)
    )
    for parameters in _spread(ranges, spread, seed):
        study.enqueue_trial(parameters)
    best: dict[str, Any] = {"loss": np.inf}

    def attempt(trial: Any) -> float:
        chosen = {k: trial.suggest_float(k, r.low, r.high, log=True) for k, r in ranges.items()}
        coef = fit(chosen)
        value = loss(coef)
        if not np.isfinite(value):
            return float("inf")
        if value < best["loss"]:
            best.update(loss=value, coef=coef, parameters=chosen)
        return value

    study.optimize(attempt, n_trials=trials)
    if "coef" not in best:
        raise ArithmeticError(f"none of the {trials} trials gave a finite validation loss")
    edges = [f"{k}:{end}" for k, r in ranges.items() if (end := r.edge(best["parameters"][k]))]
    return Tuned(best["coef"], best["parameters"], float(best["loss"]), trials, " ".join(edges))


def _spread(ranges: Mapping[str, Range], count: int, seed: int) -> list[dict[str, float]]:
    """`count` points: evenly spaced in every parameter, the parameters shuffled against each other."""
    rng = np.random.default_rng(seed)
    points: list[dict[str, float]] = [{} for _ in range(count)]
    for k, (name, r) in enumerate(ranges.items()):
        at = (np.arange(count) + 0.5) / count
        at = at if k == 0 else rng.permutation(at)
        for point, place in zip(points, at, strict=True):
            point[name] = float(r.low * (r.high / r.low) ** place)
    return points


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


def fista(setting: Setting, trials: int, seed: int) -> Tuned:
    """min ‖A x − B‖² + λ‖x‖₁ by the accelerated proximal gradient, restarted when it overshoots."""
    train = setting.scaled_train
    limit = l1_limit(train)
    lipschitz = 2.0 * float(np.linalg.norm(train.design, 2)) ** 2

    def fit(p: Mapping[str, float]) -> Floats:
        return proximal_gradient(train, p["penalty"] * limit, lipschitz)

    return tune(fit, setting.validation_loss, {"penalty": SHRINKAGE}, trials=trials, seed=seed)


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


MODELS, ROWS_A_TERM = 10, 4
WIDTHS = 5
"""Subdomains of the weak form, from 4 samples wide, the fewest that mean anything, to most of the horizon."""


@contextmanager
def global_seed(seed: int) -> Iterator[None]:
    """pysindy draws from numpy's global generator: seed it here, and leave it as it was."""
    before = np.random.get_state()  # noqa: NPY002
    np.random.seed(seed)  # noqa: NPY002
    try:
        yield
    finally:
        np.random.set_state(before)  # noqa: NPY002


def ensemble(setting: Setting, trials: int, seed: int) -> Tuned:
    """The median of thresholded least squares over random subsets of the rows (pysindy.EnsembleOptimizer)."""
    from pysindy.optimizers import STLSQ, EnsembleOptimizer

    design, target = setting.rows()
    subset = min(len(design), ROWS_A_TERM * design.shape[1])

    def fit(p: Mapping[str, float]) -> Floats:
        inner = STLSQ(threshold=p["threshold"], alpha=TINY_RIDGE * subset, max_iter=50)
        with quietly(), global_seed(seed):
            model = EnsembleOptimizer(inner, bagging=True, n_models=MODELS, n_subset=subset)
            return np.asarray(model.fit(design, target).coef_.T)

    ranges = {"threshold": thresholds(setting)}
    return tune(fit, setting.validation_loss, ranges, trials=max(trials // 2, 2), seed=seed)


def weak(setting: Setting, trials: int, seed: int) -> Tuned:
    """Thresholded least squares on pysindy's weak form (WeakPDELibrary), its width of subdomains tuned too.

    The library integrates whatever columns it is handed against its test functions, so
    it is handed the dictionary's. It knows first-order equations only: for order 2 the
    velocities are estimated and stand for the states on the left-hand side.
    """
    from pysindy.optimizers import STLSQ

    t = setting.training[0].t
    best: Tuned | None = None
    for width in np.geomspace(4 * (t[1] - t[0]), 0.8 * (t[-1] - t[0]), WIDTHS):
        design, target = _weak_matrices(setting, float(width), seed)

        def fit(p: Mapping[str, float], design: Floats = design, target: Floats = target) -> Floats:
            with quietly():
                model = STLSQ(threshold=p["threshold"], alpha=TINY_RIDGE, max_iter=50)
                return np.asarray(model.fit(design, target).coef_.T)

        ranges = {"threshold": thresholds(setting)}
        tuned = tune(fit, setting.validation_loss, ranges, trials=max(trials // 2, 2), seed=seed)
        if best is None or tuned.loss < best.loss:
            best = replace(tuned, parameters={**tuned.parameters, "width": float(width)})
    assert best is not None
    return replace(best, trials=best.trials * WIDTHS)


def _weak_matrices(setting: Setting, width: float, seed: int) -> tuple[Floats, Floats]:
    """(k, terms) scaled as the other peers' columns, and (k, states): the triangular factor of the weak rows.

    Trajectories share one time grid and so one library, as in pysindy itself; the
    columns of all of them go through it side by side, since setting it up is what costs.
    """
    from pysindy import IdentityLibrary, WeakPDELibrary

    system, runs = setting.system, setting.training
    terms, states, count = len(setting.scale), len(system.states), len(runs)
    columns = np.hstack([system.basis.evaluate(run.x, system.states) / setting.scale for run in runs])
    left = np.hstack([run.x if system.order == 1 else _velocity(run.t, run.x) for run in runs])
    with quietly(), global_seed(seed):
        library = WeakPDELibrary(
            function_library=IdentityLibrary(),
            spatiotemporal_grid=runs[0].t,
            K=max(len(runs[0]) // 2, 10),
            H_xt=width / 2,
        )
        design = np.asarray(library.fit_transform(columns)).reshape(-1, count, terms)
        target = np.asarray(library.convert_u_dot_integral(left)).reshape(-1, count, states)
    rows = np.concatenate([design, target], axis=2).reshape(-1, terms + states)
    factor = triangle(rows)
    return factor[:, :terms], factor[:, terms:]


def _velocity(t: Floats, x: Floats) -> Floats:
    return np.asarray(derivative_weights(t, order=1, degree=6, half_width=3) @ x)
