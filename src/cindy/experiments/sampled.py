"""Peers that need the samples themselves: pysindy's weak form and its ensembles."""

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import replace

import numpy as np

from cindy._types import Floats
from cindy.calculus import derivative_weights
from cindy.experiments.peers import TINY_RIDGE, quietly, thresholds
from cindy.experiments.setting import Setting
from cindy.experiments.tuning import Tuned, tune
from cindy.least_squares import triangle

__all__ = ["ensemble", "weak"]


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
