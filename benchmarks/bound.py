"""The paper's systems against the Cramér-Rao bound with states unknown."""

from functools import cache
from typing import Any

import numpy as np
from numpy.typing import NDArray

import cindy
from benchmarks.attempt import METHODS, attempt, median, support_of
from benchmarks.cells import Row, Subset, measured
from benchmarks.fisher import information_root
from benchmarks.recovery import SYSTEMS
from benchmarks.table import write

__all__ = ["run"]

Floats = NDArray[np.float64]

LEVELS = {
    "kuramoto5": (1e-8, 1e-6, 1e-4, 1e-3, 1e-2),
    "kuramoto10": (1e-8, 1e-6, 1e-4, 1e-3, 1e-2),
    "fput5": (1e-8, 1e-6, 1e-5, 1e-4),
    "fput5 ±1": (1e-8, 1e-6, 1e-4, 1e-3, 1e-2),
    "fput10": (1e-8, 1e-6, 1e-5),
    "michaelis": (1e-8, 1e-6, 1e-5, 1e-4, 1e-3),
}
SEEDS = tuple(range(5))


def run(subset: Subset = Subset()) -> None:  # noqa: B008
    """One row a system, level, draw and method; a table over the draws."""
    cells = [
        {"system": name, "noise": noise, "method": method, "seed": seed}
        for name in subset.pick("names", tuple(LEVELS))
        for noise in LEVELS[name]
        if not subset.noise or noise in subset.noise
        for method in subset.pick("methods", tuple(METHODS))
        for seed in subset.pick("seeds", SEEDS)
    ]
    rows = measured("bound_cells", cells, _measure, subset)
    write(
        "bound",
        "The Cramér-Rao bound",
        _table(rows),
        "The paper's experiments, defaults, no constraints. Error and bound are ‖Ξ − Ξ*‖ and the root of the "
        "trace of the inverse Fisher information, over the noise η; initial states and coefficients "
        "are unknown, the terms are not. `ratio`: the root mean square of error over bound, all draws; "
        "`z`: the root mean square of the deviations of all coefficients, each direction in units of its own "
        "bound, where the terms are right: an efficient estimate has 1 in the mean of both.",
        folder=subset.out,
    )


@cache
def _root(name: str, seed: int) -> Floats:
    system = SYSTEMS[name](seed)
    exact = system.simulate(seed=seed)
    start = np.stack([one.x[0] for one in exact])
    spread = np.vstack([one.x for one in exact]).std(axis=0)
    return information_root(system, start, exact[0].t, spread)


def _measure(system: str, noise: float, method: str, seed: int) -> Row:
    root = _root(system, seed)
    one = SYSTEMS[system](seed)
    data = one.simulate(seed=seed, noise=noise)
    got = attempt(method, data, one.basis, one.coef.shape, formulation=cindy.Integral(order=one.order))
    extra, missing = support_of(got.coef, one.coef)
    off = (got.coef - one.coef)[np.nonzero(one.coef)]
    bound = float(np.linalg.norm(np.linalg.inv(root)))
    error = float(np.linalg.norm(got.coef - one.coef)) / noise
    z = float(np.linalg.norm(root @ off) / noise / np.sqrt(len(off)))
    return {
        "right": int(extra + missing == 0),
        "extra": extra,
        "missing": missing,
        "error": error,
        "bound": bound,
        "ratio": error / bound,
        "z": z if extra + missing == 0 else float("nan"),
        "seconds": got.seconds,
        "said": got.said,
    }


def _table(rows: list[Row]) -> list[Row]:
    table: list[dict[str, Any]] = []
    for cell in dict.fromkeys((row["system"], row["noise"], row["method"]) for row in rows):
        group = [row for row in rows if (row["system"], row["noise"], row["method"]) == cell]
        right = [row for row in group if row["right"]]
        table.append(
            {
                "system": cell[0],
                "noise": cell[1],
                "method": cell[2],
                "exact": f"{len(right)} of {len(group)}",
                "error": median([row["error"] for row in group]),
                "bound": median([row["bound"] for row in group]),
                "ratio": _root_mean_square([row["ratio"] for row in group]),
                "z": _root_mean_square([row["z"] for row in right]),
                "seconds": median([row["seconds"] for row in group]),
            }
        )
    return sorted(table, key=lambda row: (list(LEVELS).index(row["system"]), row["noise"]))


def _root_mean_square(values: list[float]) -> float:
    return float(np.sqrt(np.mean(np.square(values)))) if values else float("nan")
