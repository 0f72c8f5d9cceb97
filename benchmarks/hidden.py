"""Laws with a state that nobody measured: Lorenz without z, FitzHugh-Nagumo without w, and others."""

import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

import cindy
from benchmarks.attempt import median
from benchmarks.cells import Row, Subset, measured
from benchmarks.table import write
from cindy.systems import integrate

__all__ = ["run"]

Floats = NDArray[np.float64]
NOISE = (0.01, 0.05)
SEEDS = tuple(range(10))


@dataclass(frozen=True)
class Case:
    """A system, the states that are seen, the library, and the terms of the law in the gauge it is found in.

    fresh: a start that is not among the data; ahead: samples from there
    terms: (term, state) pairs, the hidden state being w
    """

    slope: Callable[[Any], Any]
    starts: tuple[tuple[float, ...], ...]
    fresh: tuple[float, ...]
    step: float
    samples: int
    ahead: int
    seen: tuple[str, ...]
    columns: tuple[int, ...]
    basis: cindy.Basis
    terms: frozenset[tuple[str, str]]

    def simulate(self, seed: int, noise: float) -> list[cindy.Trajectory]:
        t = self.step * np.arange(self.samples)
        x = integrate(self.slope, np.array(self.starts), t)[:, :, list(self.columns)]
        rng = np.random.default_rng([seed, 23])
        noisy = x + noise * x.std(axis=(0, 1)) * rng.standard_normal(x.shape)
        return [cindy.Trajectory(t, noisy[:, k], self.seen) for k in range(len(self.starts))]


def _pairs(text: str) -> frozenset[tuple[str, str]]:
    """Terms as "x: x, y; y: y, x w"."""
    equations = (part.split(":") for part in text.split(";"))
    return frozenset((term.strip(), state.strip()) for state, terms in equations for term in terms.split(","))


def _columns(*values: Any) -> Any:
    return np.stack(np.broadcast_arrays(*values), axis=-1)


CASES = {
    "Lorenz without z": Case(
        lambda s: _columns(
            10 * (s[:, 1] - s[:, 0]),
            28 * s[:, 0] - s[:, 1] - s[:, 0] * s[:, 2],
            s[:, 0] * s[:, 1] - 8 / 3 * s[:, 2],
        ),
        ((-8.0, 8.0, 27.0), (5.0, 3.0, 20.0), (10.0, -5.0, 30.0)),
        (-3.0, -4.0, 22.0),
        0.02,
        400,
        200,
        ("x", "y"),
        (0, 1),
        cindy.Polynomial(2),
        _pairs("x: x, y; y: y, x w; w: 1, w, x y"),
    ),
    "FitzHugh-Nagumo without w": Case(
        lambda s: _columns(
            s[:, 0] - s[:, 0] ** 3 / 3 - s[:, 1] + 0.5, 0.08 * (s[:, 0] + 0.7 - 0.8 * s[:, 1])
        ),
        ((-1.0, 1.0), (2.0, -0.5), (0.0, 0.0)),
        (1.0, 1.0),
        0.25,
        400,
        400,
        ("v",),
        (0,),
        cindy.Polynomial(3),
        _pairs("v: w; w: 1, v, w, v^3, v^2 w"),
    ),
    "oscillator by position": Case(
        lambda s: _columns(s[:, 1], -2 * s[:, 0] - 0.2 * s[:, 1]),
        ((1.0, 0.0), (0.0, 2.0)),
        (0.5, 1.0),
        0.05,
        300,
        300,
        ("q",),
        (0,),
        cindy.Polynomial(2),
        _pairs("q: w; w: q, w"),
    ),
    "SEIR without E": Case(
        lambda s: _columns(
            -0.9 * s[:, 0] * s[:, 2], 0.9 * s[:, 0] * s[:, 2] - 0.3 * s[:, 1], 0.3 * s[:, 1] - 0.2 * s[:, 2]
        ),
        ((0.99, 0.005, 0.005), (0.8, 0.01, 0.1), (0.9, 0.08, 0.01)),
        (0.95, 0.03, 0.02),
        0.25,
        300,
        300,
        ("S", "I"),
        (0, 2),
        cindy.Polynomial(2),
        _pairs("S: S I; I: w; w: I, w, S I"),
    ),
}


def run(subset: Subset = Subset()) -> None:  # noqa: B008
    """One row a system, level and draw; a table over the draws."""
    cells = [
        {"system": name, "noise": noise, "seed": seed}
        for name in subset.pick("names", tuple(CASES))
        for noise in subset.pick("noise", NOISE)
        for seed in subset.pick("seeds", SEEDS)
    ]
    rows = measured("hidden_cells", cells, _measure, subset)
    table = []
    for name, noise in dict.fromkeys((row["system"], row["noise"]) for row in rows):
        group = [row for row in rows if (row["system"], row["noise"]) == (name, noise)]
        table.append(
            {
                "system": name,
                "noise": noise,
                "draws": len(group),
                "right terms": sum(bool(row["right"]) for row in group),
                "R² above 0.95": sum(row["r2"] > 0.95 for row in group),
                "R²": median([row["r2"] for row in group]),
                "left": median([row["left"] for row in group]),
                "seconds": median([row["seconds"] for row in group]),
            }
        )
    write(
        "hidden",
        "A state that nobody measured",
        table,
        "`identify(data, basis, hidden=1)`: two or three runs of 300 to 400 samples, noise relative to the "
        "spread of each state. `right terms`: draws with the terms of the law in the gauge that is chosen; "
        "`R²`: of the seen states of a fresh run (half as long for Lorenz, which is chaotic), from the "
        "states that are fitted to its first fifth; `left`: the variance that the law leaves, over that of "
        "the noise.",
    )


def _measure(system: str, noise: float, seed: int) -> Row:
    case = CASES[system]
    data = case.simulate(seed, noise)
    began = time.perf_counter()
    try:
        model = cindy.identify(data, case.basis, hidden=1)
    except cindy.CindyError as error:
        wrong = {"right": False, "r2": -np.inf, "left": np.inf, "told": str(error)}
        return {**wrong, "seconds": time.perf_counter() - began}
    seconds = time.perf_counter() - began
    places = np.argwhere(model.coef != 0)
    terms = {(model.terms[i], model.states[j]) for i, j in places}
    spread = np.concatenate([one.x for one in data]).std(axis=0)
    left = np.max(model.noise[: len(case.seen)] / (noise * spread)) ** 2
    return {
        "right": terms == case.terms,
        "r2": _predicted(case, model, seed, noise),
        "left": float(left),
        "told": ", ".join(one.code for one in model.findings),
        "seconds": seconds,
    }


def _predicted(case: Case, model: cindy.Model, seed: int, noise: float) -> float:
    """R² of the seen states of a fresh run, from the states fitted to its first fifth."""
    t = case.step * np.arange(case.ahead)
    truth = integrate(case.slope, np.array([case.fresh]), t)[:, 0][:, list(case.columns)]
    rng = np.random.default_rng([seed, 24])
    noisy = truth + noise * truth.std(axis=0) * rng.standard_normal(truth.shape)
    fifth = case.ahead // 5
    try:
        [begun] = model.smooth(cindy.Trajectory(t[:fifth], noisy[:fifth], case.seen))
        solved = model.simulate(begun.x[0], t).x[:, : len(case.seen)]
    except cindy.CindyError:
        return -np.inf
    if len(solved) < len(truth):
        return -np.inf
    return float(np.min(1 - np.mean((solved - truth) ** 2, axis=0) / truth.var(axis=0)))
