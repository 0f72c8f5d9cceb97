"""What constants decide: each is changed, and the same data sets are gone through again."""

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from types import ModuleType
from typing import Any

import numpy as np

import cindy
from benchmarks.attempt import relative
from benchmarks.hard_data import FEW, excess, truth_in
from benchmarks.pde_systems import pde_systems
from benchmarks.table import write
from cindy import systems
from cindy.data import grid_noise, grid_statistics
from cindy.formulation import feedback, scales
from cindy.pipeline import models_met, options, passes, settle
from cindy.regression import standard_errors
from cindy.selection import candidates, elimination, rules, search, supports
from cindy.states import autocorrelation, doubts, fitting, motion, resolution

__all__ = ["run"]

SEARCH: list[tuple[ModuleType, str, Any]] = [
    (search, "_CANDIDATES", 2),
    (search, "_WEAKEST", 3),
    (search, "_STARTS", 3),
    (search, "_LONGEST", 5),
    (search, "_OTHERS", 1),
    (search, "_MOST_MOVES", 3),
    (search, "_HOPE", 0.0),
    (search, "_BEYOND", 0),
    (elimination, "_HOPELESS", 2.0),
    (elimination, "_AT_ONCE", 0.5),
    (candidates, "_SPARE", 2),
]
ROWS: list[tuple[ModuleType, str, Any]] = [
    (scales, "_FEW_PERIODS", 1.0),
    (scales, "_FEW_PERIODS", 9.0),
    (scales, "_SHORTEST_WINDOW", 8),
    (scales, "_SHORTEST_WINDOW", 72),
    (scales, "_ENOUGH_WINDOWS", 3),
    (scales, "_ENOUGH_WINDOWS", 48),
    (feedback, "_DEGREE", 2),
    (feedback, "_CLEAR", 0.01),
    (feedback, "_CLEAR", 0.5),
    (feedback, "_NEGLIGIBLE", 0.0),
    (feedback, "_NEGLIGIBLE", 0.5),
    (feedback, "_SAMPLES", 40),
    (settle, "_CLOSE", 10.0),
    (rules, "_FEW_BLOCKS", 2),
    (rules, "_FEW_BLOCKS", 40),
    (standard_errors, "_ALONE", 0.1),
]
STATES: list[tuple[ModuleType, str, Any]] = [
    (resolution, "_SHARE", 0.5),
    (models_met, "_ROUNDS", 2),
    (models_met, "_STIFF", 8.0),
    (passes, "_SHARES", (1.0,)),
    (models_met, "_RIDGE", 1e-4),
    (models_met, "_RIDGE", 1.0),
    (motion, "_QUIET", 0.0),
    (motion, "_QUIET", 0.2),
    (passes, "_MOST_FITTED", 5),
    (passes, "_FEW_ROWS", 0),
    (models_met, "_MOST_STEPS", 50),
    (options, "_MATTERS", 1.0),
    (options, "_MATTERS", 10.0),
    (supports, "_DEPENDENT", 1e-3),
    (supports, "_TRIED", 3),
    (fitting, "_FLOOR", 1e-3),
    (fitting, "_SLOW", 0.03),
    (fitting, "_SLOW", 3.0),
    (fitting, "_WORTH", 10.0),
    (fitting, "_NEGLIGIBLE", 2e-2),
    (fitting, "_PROBES", 1),
    (motion, "_STILL", 0.01),
    (motion, "_STILL", 1.0),
    (doubts, "_FAR", 4.0),
    (doubts, "_UNEQUAL", 1.05),
    (doubts, "_CLEARLY", 3.0),
    (autocorrelation, "_RESOLVED", 1.0),
]
SEEDS = range(4)
PASSES: dict[str, tuple[Callable[[], systems.System], dict[str, Any]]] = {
    "lorenz": (systems.lorenz, {"trajectories": 4, "points": 2000, "noise": 0.02}),
    "lorenz, short": (systems.lorenz, {"trajectories": 10, "points": 1000, "horizon": 1.0, "noise": 0.02}),
    "rossler": (systems.rossler, {"trajectories": 3, "points": 1200, "horizon": 30.0, "noise": 0.02}),
    "lotka_volterra": (systems.lotka_volterra, {"trajectories": 3, "points": 300, "noise": 0.02}),
    "van_der_pol": (systems.van_der_pol, {"trajectories": 3, "points": 600, "horizon": 30.0, "noise": 0.02}),
    "duffing": (systems.duffing, {"trajectories": 4, "points": 400, "noise": 0.02}),
    "kuramoto3": (lambda: systems.kuramoto(3), {"trajectories": 6, "points": 600, "noise": 0.01}),
    "sir": (systems.sir, {"trajectories": 5, "points": 500, "noise": 0.01}),
}
FITTED: list[tuple[Callable[[], systems.System], dict[str, Any]]] = [
    (systems.lorenz, {"trajectories": 1, "points": 1000, "noise": 0.05}),
    (systems.rossler, {"trajectories": 1, "points": 800, "horizon": 40.0, "noise": 0.1}),
    (systems.lotka_volterra, {"trajectories": 2, "points": 150, "noise": 0.1}),
    (systems.van_der_pol, {"trajectories": 2, "points": 300, "horizon": 15.0, "noise": 0.02}),
    (systems.duffing, {"trajectories": 2, "points": 300, "noise": 1e-3}),
    (lambda: systems.kuramoto(3), {"trajectories": 4, "points": 300, "noise": 0.01}),
]


NOISE_OF_FIELDS: list[tuple[ModuleType, str, Any]] = [
    (grid_statistics, "_MOMENTS", 4),
    (grid_statistics, "_BOXES", 2),
    (grid_statistics, "_BOXES", 10),
    (grid_statistics, "_FRONT", 2.0),
    (grid_statistics, "_FRONT", 100.0),
    (grid_statistics, "_FEW", 0.0),
    (grid_statistics, "_FEW", 1.0),
    (grid_statistics, "_ALIKE", 1.0),
    (grid_statistics, "_ALIKE", 6.0),
    (grid_statistics, "_ROUGH", 1.0),
    (grid_statistics, "_ROUGH", 100.0),
]
LINES = ("Burgers", "inviscid Burgers", "Kuramoto-Sivashinsky", "Fisher-KPP", "Korteweg-de Vries")


@contextmanager
def _changed(module: ModuleType, name: str, value: Any) -> Iterator[None]:
    before = getattr(module, name)
    setattr(module, name, value)
    try:
        yield
    finally:
        setattr(module, name, before)


def run() -> None:
    """The search on small data, the rows and errors of one pass, fitted states, and the noise of fields."""
    write(
        "constants_search",
        "Constants of the search, changed",
        _table(SEARCH, _searched(SEEDS)),
        f"The data sets of `few_samples`, {len(SEEDS)} seeds: equations in which the search ends with a "
        "larger criterion than the true terms have.",
    )
    write(
        "constants_rows",
        "Constants of rows and errors, changed",
        _table(ROWS, _identified(list(PASSES.values()), SEEDS, passes=1)),
        f"{len(PASSES)} kinds of data, {len(SEEDS)} seeds, `passes=1`: how often the terms are right; the "
        "geometric mean of the errors of the coefficients; and the root mean square of deviation over "
        "standard error where the terms are right.",
    )
    states()
    fields()


def fields() -> None:
    """The level of the noise of fields alone."""
    write(
        "constants_fields",
        "Constants of the noise of fields, changed",
        _table(NOISE_OF_FIELDS, _levels(LINES, range(20))),
        f"The noise level of {len(LINES)} equations, one of them with a shock that stands and moves, "
        "at 1, 10 and 100 % noise, 20 draws: the largest bias of a cell and the root mean square of all "
        "errors, relative to the noise that was drawn.",
    )


def states() -> None:
    """The table of fitted states alone: the longest of the four."""
    write(
        "constants_states",
        "Constants of fitted states, changed",
        _table(STATES, _identified(FITTED, range(2), passes=None)),
        f"{len(FITTED)} kinds of data, noise from 0.1 to 10 %, 2 seeds, states fitted: columns as in "
        "`constants_rows`.",
    )


def _table(
    changes: list[tuple[ModuleType, str, Any]], work: Callable[[], dict[str, Any]]
) -> list[dict[str, Any]]:
    rows = [{"constant": "as they are", "value": "", "changed to": "", **work()}]
    for module, name, value in changes:
        with _changed(module, name, value):
            found = work()
        where = f"{module.__name__.removeprefix('cindy.')}.{name}"
        rows.append({"constant": where, "value": getattr(module, name), "changed to": value, **found})
        print(rows[-1], flush=True)
    return rows


def _levels(names: tuple[str, ...], seeds: range) -> Callable[[], dict[str, Any]]:
    cells = []
    for system in (one for one in pde_systems() if one.name in names):
        exact = system.exact
        u = exact[exact.states[0]]
        grid = [*(exact.coordinate(axis) for axis in exact.axes), exact.t]
        # Seen by someone who moves a step of the grid a sample, a front is fast along both axes.
        moving = np.stack([np.roll(u[:, k], k) for k in range(u.shape[1])], axis=1)
        for v in (u, moving) if system.name == "inviscid Burgers" else (u,):
            cells += [(v, grid, noise * float(np.sqrt(np.mean(v**2)))) for noise in (0.01, 0.1, 1.0)]

    def work() -> dict[str, Any]:
        began = time.process_time()
        grid_statistics._filter.cache_clear()
        errors = np.zeros((len(cells), len(seeds)))
        for i, (u, grid, size) in enumerate(cells):
            for k, seed in enumerate(seeds):
                noise = size * np.random.default_rng(seed).standard_normal(u.shape)
                errors[i, k] = grid_noise(u + noise, grid) / float(np.sqrt(np.mean(noise**2))) - 1.0
        grid_statistics._filter.cache_clear()
        return {
            "largest bias": float(np.abs(errors.mean(axis=1)).max()),
            "root mean square": float(np.sqrt(np.mean(errors**2))),
            "seconds": time.process_time() - began,
        }

    return work


def _searched(seeds: range) -> Callable[[], dict[str, Any]]:
    problems = []
    for system, basis, settings in FEW:
        for seed in seeds:
            data = system.simulate(seed, **settings)
            summary = cindy.accumulate(data, basis, formulation=cindy.Integral(order=system.order))
            problems.append((summary, truth_in(system, basis)))

    def work() -> dict[str, Any]:
        began = time.process_time()
        over = [e for summary, truth in problems for e in excess(cindy.Problem(summary), truth)]
        failed = sum(e > 1e-6 for e in over)
        return {"equations": len(over), "search failed": failed, "seconds": time.process_time() - began}

    return work


def _identified(
    kinds: list[tuple[Callable[[], systems.System], dict[str, Any]]], seeds: range, passes: int | None
) -> Callable[[], dict[str, Any]]:
    sets = []
    for make, settings in kinds:
        system = make()
        sets += [(system, system.simulate(seed, **settings)) for seed in seeds]

    def work() -> dict[str, Any]:
        began = time.process_time()
        right, errors, z = 0, [], []
        for system, data in sets:
            form = cindy.Integral(order=system.order)
            model = cindy.identify(data, system.basis, formulation=form, passes=passes)
            truth = system.coef
            errors.append(relative(np.asarray(model.coef), truth))
            if np.array_equal(model.support, truth != 0):
                right += 1
                z.append(((model.coef - truth) / np.where(truth != 0, model.coef_error, 1.0))[truth != 0])
        return {
            "right": f"{right} of {len(sets)}",
            "error": float(np.exp(np.mean(np.log(errors)))),
            "z": float(np.sqrt(np.mean(np.concatenate(z) ** 2))) if z else float("nan"),
            "seconds": time.process_time() - began,
        }

    return work
