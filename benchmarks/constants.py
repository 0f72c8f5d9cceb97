"""What the constants of one pass decide: each is changed, and the same data sets are gone through again."""

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from types import ModuleType
from typing import Any

import numpy as np

import cindy
from benchmarks.attempt import relative
from benchmarks.hard_data import FEW, excess, truth_in
from benchmarks.table import write
from cindy import systems
from cindy.formulation import feedback, scales
from cindy.pipeline import settle
from cindy.regression import standard_errors
from cindy.selection import candidates, elimination, rules, search

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


@contextmanager
def _changed(module: ModuleType, name: str, value: Any) -> Iterator[None]:
    before = getattr(module, name)
    setattr(module, name, value)
    try:
        yield
    finally:
        setattr(module, name, before)


def run() -> None:
    """Two tables: the search on small data, and the rows and errors of one pass."""
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
        _table(ROWS, _identified(SEEDS)),
        f"{len(PASSES)} kinds of data, {len(SEEDS)} seeds, `passes=1`: how often the terms are right; the "
        "geometric mean of the errors of the coefficients; and the root mean square of deviation over "
        "standard error where the terms are right.",
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


def _identified(seeds: range) -> Callable[[], dict[str, Any]]:
    sets = []
    for make, settings in PASSES.values():
        system = make()
        sets += [(system, system.simulate(seed, **settings)) for seed in seeds]

    def work() -> dict[str, Any]:
        began = time.process_time()
        right, errors, z = 0, [], []
        for system, data in sets:
            form = cindy.Integral(order=system.order)
            model = cindy.identify(data, system.basis, formulation=form, passes=1)
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
