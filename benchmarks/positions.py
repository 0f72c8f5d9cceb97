"""Second-order laws from positions alone: the rates are states that nobody measured."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

import cindy
from benchmarks.attempt import attempt, counted, median, scored
from benchmarks.cells import Row, Subset, measured
from benchmarks.table import write
from cindy.systems import integrate

__all__ = ["run"]

Floats = NDArray[np.float64]
NOISE = (0.01, 0.05)
SEEDS = tuple(range(5))
SAMPLES = 1000
FACTORS: dict[str, Callable[[Any, Any], Any]] = {
    "x": lambda x, v: x,
    "x'": lambda x, v: v,
    "x^3": lambda x, v: x**3,
    "x^2 x'": lambda x, v: x * x * v,
    "sin(x)": lambda x, v: np.sin(x),
}


@dataclass(frozen=True)
class Oscillator:
    """x'' as a sum of terms, the dictionary to find them in, where it starts, and for how long it runs."""

    terms: Mapping[str, float]
    basis: cindy.Basis
    starts: tuple[tuple[float, float], ...]
    horizon: float

    def simulate(self, seed: int, noise: float) -> list[cindy.Trajectory]:
        """Positions with noise relative to their spread."""
        t = np.linspace(0.0, self.horizon, SAMPLES)
        z = integrate(self._slope, np.array(self.starts), t)
        x = z[:, :, :1]
        rng = np.random.default_rng([seed, 4])
        size = noise * x.std()
        noisy = x + size * rng.standard_normal(x.shape)
        return [cindy.Trajectory(t, noisy[:, k], ("x",)) for k in range(len(self.starts))]

    def _slope(self, z: Any) -> Any:
        x, v = z[..., 0], z[..., 1]
        force = sum(value * FACTORS[term](x, v) for term, value in self.terms.items())
        return np.stack([v, force], axis=-1)


CUBIC = cindy.Polynomial(3)
SYSTEMS = {
    "damped oscillator": Oscillator({"x": -4.0, "x'": -0.3}, CUBIC, ((2.0, 0.0), (-1.0, 3.0)), 10.0),
    "van der pol": Oscillator({"x": -1.0, "x'": 1.0, "x^2 x'": -1.0}, CUBIC, ((0.5, 0.0), (-2.5, 1.0)), 20.0),
    "duffing": Oscillator({"x": 1.0, "x^3": -1.0, "x'": -0.2}, CUBIC, ((1.5, 0.0), (-0.2, 1.5)), 20.0),
    "pendulum": Oscillator(
        {"sin(x)": -4.0, "x'": -0.2},
        cindy.Polynomial(3) + cindy.Trigonometric(1).on("x"),
        ((2.8, 0.0), (-1.0, 2.0)),
        20.0,
    ),
}


def run(subset: Subset = Subset()) -> None:  # noqa: B008
    """One row a system, level and draw; a table over the draws."""
    cells = [
        {"system": name, "noise": noise, "seed": seed}
        for name in subset.pick("names", tuple(SYSTEMS))
        for noise in subset.pick("noise", NOISE)
        for seed in subset.pick("seeds", SEEDS)
    ]
    rows = measured("positions_cells", cells, _measure, subset)
    table = []
    for name, noise in dict.fromkeys((row["system"], row["noise"]) for row in rows):
        group = [row for row in rows if (row["system"], row["noise"]) == (name, noise)]
        simulated = median([row["simulated"] for row in group])
        table.append({"system": name, "noise": noise, **counted(group), "simulated": simulated})
    write(
        "positions",
        "Positions alone",
        sorted(table, key=lambda row: (list(SYSTEMS).index(row["system"]), row["noise"])),
        "x'' = F(x, x') by `Integral(order=2, rates=True)` from two trajectories of 1,000 noisy positions, "
        "polynomials to degree 3 in x and x', and sin x, cos x for the pendulum. `simulated`: the root mean "
        "square of the exact positions less those that `simulate` gives from the exact position and rate, "
        "first trajectory, in units of their spread.",
        folder=subset.out,
    )


def _measure(system: str, noise: float, seed: int) -> Row:
    one = SYSTEMS[system]
    names = one.basis.names(("x", "x'"))
    truth = np.zeros((len(names), 1))
    for term, value in one.terms.items():
        truth[names.index(term), 0] = value
    form = cindy.Integral(order=2, rates=True)
    got = attempt("fitted states", one.simulate(seed, noise), one.basis, truth.shape, formulation=form)
    simulated = float("nan") if got.model is None else _distance(one, got.model)
    return {**scored(got, truth), "simulated": simulated}


def _distance(one: Oscillator, model: cindy.Model) -> float:
    exact = one.simulate(0, 0.0)[0]
    ours = model.simulate(one.starts[0], exact.t)
    if ours.stopped:
        return float("inf")
    return float(np.sqrt(np.mean((ours.x[:, 0] - exact.x[:, 0]) ** 2)) / exact.x.std())
