"""Objective on training and validation data along the run of each algorithm (appendix D of the paper)."""

import time
import warnings
from collections.abc import Sequence
from typing import Any

import numpy as np
from scipy.sparse import csr_array

from benchmarks.paper.figures import subplots, title
from benchmarks.paper.lasso import l1_limit, proximal_gradient
from benchmarks.paper.setting import PAPER_FORMULATIONS, Setting, prepare
from cindy._arrays import Floats
from cindy.errors import ConvergenceWarning
from cindy.solver import Blended, Direct, FullyCorrective, Plain, Region, conditional_gradient, oracle_for

__all__ = ["COLUMNS", "SECONDS", "draw_convergence", "objective_along_runs"]


KEY = ("system", "formulation", "algorithm", "iteration")
COLUMNS = (*KEY, "training", "validation")
SECONDS = (*KEY, "seconds")
ALGORITHMS = {
    "CG": ("#E69F00", ":"),
    "FCCG": ("#009E73", "-."),
    "BCG": ("#56B4E9", "-"),
    "BCG (c)": ("#0072B2", "--"),
    "direct": ("#000000", "-"),
    "direct (c)": ("#000000", "--"),
    "FISTA": ("#D55E00", "-"),
}
CORRECTIONS = {"CG": Plain, "FCCG": FullyCorrective, "BCG": Blended, "direct": Direct}
"""The paper's algorithms by their names there, and the correction of each."""
NOISE = 1e-4


def objective_along_runs(
    system: str, *, iterations: int = 300, points: int = 14, trajectories: int | None = None
) -> list[dict[str, Any]]:
    """Root mean square residuals on training and validation data after 1, 2, … iterations, and the seconds.

    Each point is a run with that limit of iterations: a run never looks ahead, so
    the runs are stretches of one. Seconds are the least of three.
    """
    limits = np.unique(np.round(np.geomspace(1, iterations, points)).astype(int))
    rows: list[dict[str, Any]] = []
    for formulation in PAPER_FORMULATIONS:
        setting = prepare(system, formulation, NOISE, 0, trajectories=trajectories)
        for name in ALGORITHMS:
            spent = 0.0
            for limit in limits:
                x, seconds = _timed(setting, name, int(limit))
                # A longer run takes no less, but for chance.
                spent = max(spent, seconds)
                train = float(np.sqrt(setting.scaled_train.value(x) / setting.train.rows))
                valid = float(np.sqrt(setting.validation_loss(x)))
                key = (system, formulation, name, int(limit))
                rows.append(dict(zip((*COLUMNS, "seconds"), (*key, train, valid, spent), strict=True)))
    return rows


def _timed(setting: Setting, name: str, limit: int) -> tuple[Floats, float]:
    """The iterate of one algorithm after so many iterations, and the least seconds of three runs to it."""
    clock = []
    for _ in range(3):
        began = time.perf_counter()
        x = _after(setting, name, limit)
        clock.append(time.perf_counter() - began)
    return x, min(clock)


def _after(setting: Setting, name: str, limit: int) -> Floats:
    """The iterate of one algorithm after so many iterations."""
    train = setting.scaled_train
    if name == "FISTA":
        lipschitz = 2.0 * float(np.linalg.norm(train.design, 2)) ** 2
        return proximal_gradient(train, 1e-8 * l1_limit(train), lipschitz, tol=0.0, max_iter=limit)
    radius = 2.0 * float(np.abs(setting.least_squares).sum())
    size = train.terms * train.targets
    if name.endswith("(c)"):
        zero = np.zeros(len(setting.equalities))
        region = Region(size, radius, matrix=csr_array(setting.equalities), lower=zero, upper=zero)
    else:
        region = Region(size, radius)
    correction = CORRECTIONS[name.removesuffix(" (c)")]()
    with warnings.catch_warnings():
        # Ended on purpose.
        warnings.simplefilter("ignore", ConvergenceWarning)
        return conditional_gradient(train, oracle_for(region), correction, tol=1e-12, max_iter=limit).x


def draw_convergence(rows: Sequence[dict[str, str]], seconds: Sequence[dict[str, str]]) -> Any:
    """Training and validation residuals against iteration, training residuals against time."""
    clock = {tuple(r[k] for k in KEY): float(r["seconds"]) for r in seconds}
    panels = (("training", "iteration"), ("validation", "iteration"), ("training", "seconds"))
    figure, axes = subplots(len(panels), 2, size=(12.0, 11.5))
    for j, formulation in enumerate(PAPER_FORMULATIONS):
        for i, (data, against) in enumerate(panels):
            ax = axes[i, j]
            for name, (colour, line) in ALGORITHMS.items():
                mine = [r for r in rows if r["formulation"] == formulation and r["algorithm"] == name]
                if against == "iteration":
                    across = [float(r["iteration"]) for r in mine]
                else:
                    across = [clock[tuple(r[k] for k in KEY)] for r in mine]
                values = [float(r[data]) for r in mine]
                ax.loglog(across, values, line, color=colour, label=name, linewidth=1.8)
            ax.set_title(f"{formulation} formulation, {data} data" if i < 2 else "")
            ax.set_xlabel(against)
            if j == 0:
                ax.set_ylabel(f"residual, {data}")
    handles, labels = axes[0, 0].get_legend_handles_labels()
    figure.legend(handles, labels, loc="upper center", ncol=7, bbox_to_anchor=(0.5, 0.0), frameon=False)
    figure.suptitle(f"{title(rows[0]['system'])}, noise η = {NOISE:g}: root mean square residuals")
    return figure
