"""Measurements as they come: missing entries, gross outliers, coarse steps, unequal noise, few samples."""

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

import cindy
from benchmarks.attempt import METHODS, attempt, counted, scored, truth_of
from benchmarks.cells import Row, Subset, measured
from benchmarks.table import write
from cindy import systems

__all__ = ["run"]

Floats = NDArray[np.float64]
SEEDS = tuple(range(5))
NOISE = 0.02


@dataclass(frozen=True)
class Case:
    """A system, its dictionary, and what happened to its measurements."""

    system: systems.System
    basis: cindy.Basis
    data: Callable[[int], list[cindy.Trajectory]]


def _lorenz(
    seed: int, *, step: float = 0.01, count: int = 4, samples: int = 1000, noise: float = NOISE
) -> list[cindy.Trajectory]:
    return systems.lorenz().simulate(
        seed=seed, noise=noise, trajectories=count, points=count * samples, horizon=step * (samples - 1)
    )


def _holes(seed: int) -> list[cindy.Trajectory]:
    rng = np.random.default_rng([seed, 1])
    data = _lorenz(seed)
    return [_with(one, np.where(rng.random(one.x.shape) < 0.3, np.nan, one.x)) for one in data]


def _outliers(seed: int) -> list[cindy.Trajectory]:
    """One entry in a hundred is off by three to ten times the spread of its state."""
    rng = np.random.default_rng([seed, 2])
    data = _lorenz(seed)
    spread = np.vstack([one.x for one in data]).std(axis=0)
    moved = []
    for one in data:
        jump = rng.uniform(3.0, 10.0, one.x.shape) * rng.choice([-1.0, 1.0], one.x.shape) * spread
        moved.append(_with(one, one.x + np.where(rng.random(one.x.shape) < 0.01, jump, 0.0)))
    return moved


def _unequal(seed: int) -> list[cindy.Trajectory]:
    """0.5 to 20 % noise, from one trajectory to the next."""
    rng = np.random.default_rng([seed, 3])
    exact = _lorenz(seed, noise=0.0)
    spread = np.vstack([one.x for one in exact]).std(axis=0)
    levels = (0.005, 0.02, 0.08, 0.2)
    return [
        _with(one, one.x + level * spread * rng.standard_normal(one.x.shape))
        for one, level in zip(exact, levels, strict=True)
    ]


def _yearly(seed: int) -> list[cindy.Trajectory]:
    """Hares and lynxes, 26 years, about two and a half cycles."""
    years = systems.lotka_volterra(growth=0.55, predation=0.028, gain=0.026, death=0.84)
    return years.simulate(
        seed=seed, noise=0.03, times=np.arange(26.0), trajectories=1, initial=np.array([[30.0, 4.0]])
    )


def _bursts(seed: int) -> list[cindy.Trajectory]:
    """Two time units measured, one not."""
    return [_paused(one, burst=2.0, pause=1.0) for one in _lorenz(seed, samples=1500)]


def _visits(seed: int) -> list[cindy.Trajectory]:
    """Hares and lynxes, twenty times in every first half year: the motion is slow beside the pauses."""
    times = np.arange(0.0, 26.0, 0.025)
    start = np.array([[30.0, 4.0]])
    data = HARES.simulate(seed=seed, noise=0.03, times=times, trajectories=1, initial=start)
    return [_paused(one, burst=0.5, pause=0.5) for one in data]


def _paused(one: cindy.Trajectory, *, burst: float, pause: float) -> cindy.Trajectory:
    seen = one.t % (burst + pause) < burst
    return cindy.Trajectory(one.t[seen], one.x[seen], one.states)


def _with(one: cindy.Trajectory, x: Floats) -> cindy.Trajectory:
    return cindy.Trajectory(one.t, x, one.states)


LORENZ = systems.lorenz()
HARES = systems.lotka_volterra(growth=0.55, predation=0.028, gain=0.026, death=0.84)
CASES = {
    "lorenz as it is": Case(LORENZ, cindy.Polynomial(3), _lorenz),
    "lorenz 30 % missing": Case(LORENZ, cindy.Polynomial(3), _holes),
    "lorenz 1 % outliers": Case(LORENZ, cindy.Polynomial(3), _outliers),
    "lorenz step 0.06": Case(LORENZ, cindy.Polynomial(3), lambda seed: _lorenz(seed, step=0.06, samples=500)),
    "lorenz unequal noise": Case(LORENZ, cindy.Polynomial(3), _unequal),
    "lorenz with pauses": Case(LORENZ, cindy.Polynomial(3), _bursts),
    "lotka-volterra with pauses": Case(HARES, cindy.Polynomial(2), _visits),
    "lotka-volterra 26 years": Case(HARES, cindy.Polynomial(2), _yearly),
}


def run(subset: Subset = Subset()) -> None:  # noqa: B008
    """One row a case, draw and method; a table over the draws."""
    cells = [
        {"case": name, "method": method, "seed": seed}
        for name in subset.pick("names", tuple(CASES))
        for method in subset.pick("methods", tuple(METHODS))
        for seed in subset.pick("seeds", SEEDS)
    ]
    rows = measured("damage_cells", cells, _measure, subset)
    table = []
    for name, method in dict.fromkeys((row["case"], row["method"]) for row in rows):
        group = [row for row in rows if (row["case"], row["method"]) == (name, method)]
        warned = sum(row["warnings"] > 0 for row in group)
        table.append({"data": name, "method": method, **counted(group), "warned of": warned})
    write(
        "damage",
        "Damaged data",
        sorted(table, key=lambda row: list(CASES).index(row["data"])),
        "Lorenz, four trajectories of 1,000 samples, step 0.01, 2 % noise, polynomials to degree 3: as they "
        "are; three in ten entries missing; one entry in a hundred off by 3 to 10 times the spread; "
        "a step of 0.06 (500 samples); 0.5, 2, 8 and 20 % noise in the four; pauses of 1 "
        "between stretches of 2. Lotka-Volterra at 3 %, polynomials to degree 2, 26 years: "
        "measured in every first half year, and once a year. `near`: draws with the truth among the "
        "near-equal models.",
        folder=subset.out,
    )


def _measure(case: str, method: str, seed: int) -> Row:
    one = CASES[case]
    truth = truth_of(one.basis, one.system.states, one.system.equations)
    return scored(attempt(method, one.data(seed), one.basis, truth.shape), truth)
