"""Motion driven by noise: drift terms, their errors and the diffusion, beside a regression of increments.

`python -m benchmarks kicks --names "van der pol" --noise 0.02 --seeds 0,1` runs some of the cells.
"""

import time
from collections.abc import Callable
from dataclasses import dataclass
from itertools import combinations_with_replacement

import numpy as np
from numpy.typing import NDArray
from scipy.special import ndtri

import cindy
from benchmarks.cells import Row, Subset, measured
from benchmarks.table import write

__all__ = ["run"]

Floats = NDArray[np.float64]
SEEDS = tuple(range(20))
NOISE = (0.0, 0.02, 0.1)
METHODS = ("cindy", "increments")
PARTS = 10
"""Steps of the simulation between two samples."""


@dataclass(frozen=True)
class Kicked:
    """dx = F(x) dt + √q(x) dW: F and q at one state (states,), and the coefficients of F by (state, term)."""

    drift: Callable[[Floats], Floats]
    diffusion: Callable[[Floats], Floats]
    start: tuple[float, ...]
    truth: dict[tuple[str, str], float]
    step: float
    samples: int
    degree: int

    @property
    def states(self) -> tuple[str, ...]:
        return ("x", "y", "z")[: len(self.start)]

    def path(self, seed: int) -> Floats:
        """Heun's rule for the drift, Milstein's for kicks that depend on their own state."""
        rng = np.random.default_rng(seed)
        x, h = np.array(self.start), self.step / PARTS
        out = np.empty((self.samples, len(x)))
        wide = 1e-4 * np.eye(len(x))
        for k in range(len(out)):
            out[k] = x
            for change in np.sqrt(h) * rng.standard_normal((PARTS, len(x))):
                q = self.diffusion(x)
                slope = np.array(
                    [(self.diffusion(x + e)[i] - self.diffusion(x - e)[i]) / 2e-4 for i, e in enumerate(wide)]
                )
                noise = np.sqrt(q) * change
                force = self.drift(x)
                ahead = self.drift(x + h * force + noise)
                x = x + h * (force + ahead) / 2 + noise + slope * (change**2 - h) / 4
        return out


def _lorenz(x: Floats) -> Floats:
    return np.array([10 * (x[1] - x[0]), x[0] * (28 - x[2]) - x[1], x[0] * x[1] - 8 / 3 * x[2]])


def _prey(x: Floats) -> Floats:
    return np.array([x[0] - x[0] * x[1], -x[1] + x[0] * x[1]])


SYSTEMS: dict[str, Kicked] = {
    "ornstein-uhlenbeck": Kicked(lambda x: -x, np.ones_like, (0.0,), {("x", "x"): -1.0}, 0.05, 8000, 3),
    "double well": Kicked(
        lambda x: x - x**3,
        lambda x: np.full_like(x, 0.5),
        (1.0,),
        {("x", "x"): 1.0, ("x", "x^3"): -1.0},
        0.05,
        16_000,
        5,
    ),
    "multiplicative": Kicked(
        lambda x: -x, lambda x: 0.5 + 0.5 * x**2, (0.0,), {("x", "x"): -1.0}, 0.05, 8000, 3
    ),
    "van der pol": Kicked(
        lambda x: np.array([x[1], 2 * (1 - x[0] ** 2) * x[1] - x[0]]),
        lambda x: np.array([0.0, 0.25]),
        (1.0, 0.0),
        {("x", "y"): 1.0, ("y", "y"): 2.0, ("y", "x"): -1.0, ("y", "x^2 y"): -2.0},
        0.02,
        6000,
        3,
    ),
    "lorenz": Kicked(
        _lorenz,
        lambda x: np.full(3, 4.0),
        (1.0, 2.0, 25.0),
        {
            ("x", "x"): -10.0,
            ("x", "y"): 10.0,
            ("y", "x"): 28.0,
            ("y", "y"): -1.0,
            ("y", "x z"): -1.0,
            ("z", "z"): -8 / 3,
            ("z", "x y"): 1.0,
        },
        0.01,
        6000,
        2,
    ),
    "predators and prey": Kicked(
        _prey,
        lambda x: 0.01 * x**2,
        (1.0, 0.6),
        {("x", "x"): 1.0, ("x", "x y"): -1.0, ("y", "y"): -1.0, ("y", "x y"): 1.0},
        0.02,
        6000,
        2,
    ),
}


def run(subset: Subset = Subset()) -> None:  # noqa: B008
    """Cells of all systems, levels of noise and draws, and a table of them."""
    cells = [
        {"data": name, "noise": noise, "method": method, "seed": seed}
        for name in subset.pick("names", tuple(SYSTEMS))
        for noise in subset.pick("noise", NOISE)
        for method in subset.pick("methods", METHODS)
        for seed in subset.pick("seeds", SEEDS)
    ]
    rows = measured("kicks_cells", cells, _cell, subset)
    table = []
    for name in SYSTEMS:
        for noise in NOISE:
            for method in METHODS:
                mine = [
                    r for r in rows if (r["data"], float(r["noise"]), r["method"]) == (name, noise, method)
                ]
                if mine:
                    table.append(_summed(name, noise, method, mine))
    notes = (
        "Right terms: draws whose drift has exactly the true terms. z: root mean square of (coefficient − "
        "truth) / standard error over true terms that were found. Diffusion: median relative error of the "
        "mean variance per unit of time. Increments: least squares of (x[k+1] − x[k]) / h on terms at x[k], "
        "terms dropped by their t-values, which knows of no measurement noise."
    )
    write("kicks", "Motion driven by noise", table, notes, folder=subset.out)


def _summed(name: str, noise: float, method: str, rows: list[Row]) -> Row:
    squares = sum(float(r["squares"]) for r in rows)
    count = max(sum(int(r["count"]) for r in rows), 1)
    return {
        "data": name,
        "noise": f"{noise:.0%}",
        "method": method,
        "draws": len(rows),
        "right terms": sum(int(r["right"]) for r in rows),
        "z": f"{np.sqrt(squares / count):.2f}",
        "diffusion": f"{np.median([float(r['diffusion']) for r in rows]):.1%}",
        "seconds": f"{np.median([float(r['seconds']) for r in rows]):.1f}",
    }


def _cell(data: str, noise: float, method: str, seed: int) -> Row:
    system = SYSTEMS[data]
    x = system.path(seed)
    rng = np.random.default_rng(seed + 1000)
    y = x + float(noise) * x.std(axis=0) * rng.standard_normal(x.shape)
    actual = np.mean([system.diffusion(one) for one in x], axis=0)
    began = time.process_time()
    work = _identified if method == "cindy" else _regressed
    coef, error, found = work(system, y)
    seconds = time.process_time() - began
    truth = np.zeros(coef.shape)
    names = cindy.Polynomial(system.degree).names(system.states)
    for (state, term), value in system.truth.items():
        truth[names.index(term), system.states.index(state)] = value
    both = (truth != 0) & (coef != 0) & (error > 0)
    z = (coef - truth)[both] / error[both]
    kicked = actual > 0
    return {
        "right": int(np.array_equal(coef != 0, truth != 0)),
        "terms": int(np.count_nonzero(coef)),
        "squares": float(z @ z),
        "count": len(z),
        "diffusion": float(np.mean(np.abs(found / np.where(kicked, actual, 1.0) - 1.0)[kicked])),
        "seconds": seconds,
    }


def _identified(system: Kicked, y: Floats) -> tuple[Floats, Floats, Floats]:
    data = cindy.Trajectory(system.step * np.arange(len(y)), y, system.states)
    try:
        model = cindy.identify(data, cindy.Polynomial(system.degree))
    except cindy.NoModelError:
        empty = np.zeros((len(cindy.Polynomial(system.degree).names(system.states)), y.shape[1]))
        return empty, empty, np.zeros(y.shape[1])
    return model.coef, model.coef_error, np.nan_to_num(model.model_error) ** 2


def _regressed(system: Kicked, y: Floats) -> tuple[Floats, Floats, Floats]:
    """Least squares of increments, the weakest term dropped while its t-value is below that of chance."""
    powers = [
        c for n in range(system.degree + 1) for c in combinations_with_replacement(range(y.shape[1]), n)
    ]
    values = np.stack([np.prod(y[:-1, list(c)], axis=1) for c in powers], axis=1)
    rates = np.diff(y, axis=0) / system.step
    coef, error = np.zeros((len(powers), y.shape[1])), np.zeros((len(powers), y.shape[1]))
    least = float(ndtri(1.0 - 0.05 / (2.0 * coef.size)))
    diffusion = np.zeros(y.shape[1])
    for i, rate in enumerate(rates.T):
        kept = np.arange(len(powers))
        while len(kept):
            solution = np.linalg.lstsq(values[:, kept], rate, rcond=None)[0]
            left = rate - values[:, kept] @ solution
            variance = left @ left / (len(left) - len(kept))
            spread = np.sqrt(variance * np.diagonal(np.linalg.inv(values[:, kept].T @ values[:, kept])))
            weakest = int(np.argmin(np.abs(solution) / spread))
            if abs(solution[weakest]) >= least * spread[weakest]:
                coef[kept, i], error[kept, i] = solution, spread
                break
            kept = np.delete(kept, weakest)
        diffusion[i] = np.mean((rate - values @ coef[:, i]) ** 2) * system.step
    return coef, error, diffusion
