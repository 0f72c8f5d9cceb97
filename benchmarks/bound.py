"""The paper's systems against the Cramér-Rao bound with states unknown."""

from functools import cache
from itertools import pairwise
from typing import Any

import numpy as np
from numpy.typing import NDArray

import cindy
from benchmarks.attempt import METHODS, attempt, median, support_of
from benchmarks.cells import Row, Subset, measured
from benchmarks.recovery import SYSTEMS
from benchmarks.table import write
from cindy.systems import System

__all__ = ["information_root", "run"]

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
_SUBSTEPS = 4
"""Runge-Kutta steps from one sample to the next; twice as many change the bounds by less than 1e-5."""


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


def information_root(system: System, start: Floats, t: Floats, spread: Floats) -> Floats:
    """R with RᵀR the Fisher information of the true coefficients, at noise of one `spread` in each state.

    Measured is x(tₖ; x₀, Ξ) plus white noise. With S₀ and S the derivatives of
    all measured values with respect to the initial state of a trajectory and to
    the coefficients, in units of the noise, the information about the
    coefficients is Sᵀ(1 − P₀)S, P₀ the projection on the columns of S₀,
    summed over trajectories. Any unbiased estimate has at least the covariance
    (RᵀR)⁻¹; noise η times the spread gives η² times that. The variance of the
    noise may be unknown: its information is orthogonal to that of the mean.

    start: (trajectories, states); for order 2 the initial rates are zero, and unknown too
    """
    d, order = len(system.states), system.order
    rows, columns = np.nonzero(system.coef)
    size, free = d * order, len(rows)
    z = np.zeros((len(start), size, 1 + size + free))
    z[:, :d, 0] = start
    z[:, :, 1 : 1 + size] = np.eye(size)

    def slope(z: Floats) -> Floats:
        x = z[:, :d, 0]
        out = np.empty_like(z)
        out[:, :-d] = z[:, d:]
        out[:, -d:] = _jacobian(system, x) @ z[:, :d]
        out[:, -d:, 0] = system.rhs(x)
        out[:, size - d + columns, 1 + size + np.arange(free)] += system.basis.evaluate(x)[:, rows]
        return out

    kept = [z[:, :d, 1:]]
    for before, after in pairwise(t):
        h = (after - before) / _SUBSTEPS
        for _ in range(_SUBSTEPS):
            z = _runge_kutta(slope, z, h)
        kept.append(z[:, :d, 1:])
    sensitivity = np.stack(kept, axis=1) / spread[:, None]
    total = np.zeros((0, free))
    for one in sensitivity:
        # The part of R below the columns of the initial state has them projected out.
        total = np.vstack([total, np.linalg.qr(one.reshape(-1, size + free), mode="r")[size:, size:]])
        total = np.linalg.qr(total, mode="r")
    return total


def _runge_kutta(slope: Any, z: Floats, h: float) -> Floats:
    one = slope(z)
    two = slope(z + h / 2 * one)
    three = slope(z + h / 2 * two)
    four = slope(z + h * three)
    return z + h / 6 * (one + 2 * two + 2 * three + four)


def _jacobian(system: System, x: Floats) -> Floats:
    """∂F/∂x (points, states, states) by central differences: 1e-9 is far more than a bound needs."""
    step = 1e-6 * np.eye(x.shape[1])[:, None, :]
    slopes = (system.rhs(x + step) - system.rhs(x - step)) / 2e-6
    return np.moveaxis(slopes, 0, -1)
