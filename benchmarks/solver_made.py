"""The data new users try first: made by a solver with its usual tolerances, or with multiplicative noise."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.integrate import odeint, solve_ivp

import cindy
from benchmarks.attempt import METHODS, attempt, scored, truth_of
from benchmarks.cells import Row, Subset, measured
from benchmarks.table import write
from cindy import systems

__all__ = ["run"]

Floats = NDArray[np.float64]
SAMPLES = 500
DEGREE = 3


@dataclass(frozen=True)
class Textbook:
    """Polynomial equations by (state, term), an initial state, and a horizon."""

    states: tuple[str, ...]
    equations: Mapping[tuple[str, str], float]
    start: tuple[float, ...]
    horizon: float

    @property
    def truth(self) -> Floats:
        return truth_of(cindy.Polynomial(DEGREE), self.states, self.equations)

    def slope(self, x: Floats) -> Floats:
        powers = dict(zip(self.states, x, strict=True))
        out = np.zeros(len(x))
        for (state, term), value in self.equations.items():
            for factor in term.split():
                name, _, power = factor.partition("^")
                value = value * powers[name] ** int(power or 1) if name != "1" else value
            out[self.states.index(state)] += value
        return out


SYSTEMS = {
    "logistic": Textbook(("x",), {("x", "x"): 1.0, ("x", "x^2"): -0.5}, (0.1,), 10.0),
    "pitchfork": Textbook(("x",), {("x", "x"): 1.0, ("x", "x^3"): -1.0}, (0.05,), 8.0),
    "linear spiral": Textbook(
        ("x", "y"),
        {("x", "x"): -0.1, ("x", "y"): 2.0, ("y", "x"): -2.0, ("y", "y"): -0.1},
        (2.0, 0.0),
        25.0,
    ),
    "lotka-volterra": Textbook(
        ("x", "y"),
        {("x", "x"): 1.0, ("x", "x y"): -0.5, ("y", "y"): -1.0, ("y", "x y"): 0.5},
        (4.0, 1.0),
        25.0,
    ),
    "van der pol": Textbook(
        ("x", "y"),
        {("x", "y"): 1.0, ("y", "x"): -1.0, ("y", "y"): 1.0, ("y", "x^2 y"): -1.0},
        (0.5, 0.0),
        25.0,
    ),
    "duffing": Textbook(
        ("x", "y"),
        {("x", "y"): 1.0, ("y", "x"): 1.0, ("y", "y"): -0.1, ("y", "x^3"): -1.0},
        (1.8, 0.0),
        25.0,
    ),
    "SIR": Textbook(
        ("S", "I"), {("S", "S I"): -1.5, ("I", "S I"): 1.5, ("I", "I"): -0.4}, (0.99, 0.01), 25.0
    ),
    "glycolysis": Textbook(
        ("x", "y"),
        {
            ("x", "x"): -1.0, ("x", "y"): 0.08, ("x", "x^2 y"): 1.0,
            ("y", "1"): 0.6, ("y", "y"): -0.08, ("y", "x^2 y"): -1.0,
        },
        (1.0, 1.0),
        30.0,
    ),
    "brusselator": Textbook(
        ("x", "y"),
        {
            ("x", "1"): 1.0, ("x", "x"): -4.0, ("x", "x^2 y"): 1.0,
            ("y", "x"): 3.0, ("y", "x^2 y"): -1.0,
        },
        (1.0, 1.0),
        20.0,
    ),
    "fitzhugh-nagumo": Textbook(
        ("v", "w"),
        {
            ("v", "1"): 0.5, ("v", "v"): 1.0, ("v", "v^3"): -1 / 3, ("v", "w"): -1.0,
            ("w", "1"): 0.056, ("w", "v"): 0.08, ("w", "w"): -0.064,
        },
        (-1.0, 1.0),
        100.0,
    ),
    "lorenz": Textbook(
        ("x", "y", "z"),
        systems.lorenz().equations,
        (-8.0, 8.0, 27.0),
        10.0,
    ),
    "rössler": Textbook(
        ("x", "y", "z"),
        {
            ("x", "y"): -1.0, ("x", "z"): -1.0, ("y", "x"): 1.0, ("y", "y"): 0.2,
            ("z", "1"): 0.2, ("z", "z"): -5.7, ("z", "x z"): 1.0,
        },
        (1.0, 1.0, 0.0),
        50.0,
    ),
}  # fmt: skip


def _by_solve_ivp(one: Textbook, t: Floats, **tolerances: Any) -> Floats:
    return np.asarray(
        solve_ivp(lambda _, x: one.slope(x), (0.0, t[-1]), one.start, t_eval=t, **tolerances).y.T
    )


def _by_odeint(one: Textbook, t: Floats, **tolerances: Any) -> Floats:
    return np.asarray(odeint(lambda x, _: one.slope(x), one.start, t, **tolerances))


def _multiplied(one: Textbook, t: Floats, seed: int) -> Floats:
    x = _by_odeint(one, t)
    return x * (1.0 + 0.05 * np.random.default_rng([seed, 5]).standard_normal(x.shape))


MAKERS: dict[str, Callable[[Textbook, Floats, int], Floats]] = {
    "solve_ivp": lambda one, t, seed: _by_solve_ivp(one, t),
    "solve_ivp, 1e-6": lambda one, t, seed: _by_solve_ivp(one, t, rtol=1e-6, atol=1e-6),
    "solve_ivp, 1e-8": lambda one, t, seed: _by_solve_ivp(one, t, rtol=1e-8, atol=1e-8),
    "solve_ivp, 1e-10": lambda one, t, seed: _by_solve_ivp(one, t, rtol=1e-10, atol=1e-10),
    "odeint": lambda one, t, seed: _by_odeint(one, t),
    "odeint, 1e-6": lambda one, t, seed: _by_odeint(one, t, rtol=1e-6, atol=1e-6),
    "odeint, 5 % multiplicative noise": _multiplied,
}
SEEDS = (0, 1, 2)


def run(subset: Subset = Subset()) -> None:  # noqa: B008
    """One row a maker, system and method; a table of counts that names what was missed."""
    cells = [
        {"made by": maker, "method": method, "seed": seed, "system": name}
        for maker in MAKERS
        for method in subset.pick("methods", tuple(METHODS))
        # Without noise there is nothing to draw.
        for seed in (subset.pick("seeds", SEEDS) if "noise" in maker else SEEDS[:1])
        for name in subset.pick("names", tuple(SYSTEMS))
    ]
    rows = measured("solver_made_cells", cells, _measure, subset)
    table = []
    for maker, method, seed in dict.fromkeys((r["made by"], r["method"], r["seed"]) for r in rows):
        group = [r for r in rows if (r["made by"], r["method"], r["seed"]) == (maker, method, seed)]
        wrong = [row for row in group if not row["right"]]
        table.append(
            {
                "made by": maker,
                "draw": seed,
                "method": method,
                "right": f"{len(group) - len(wrong)} of {len(group)}",
                "extra": sum(row["extra"] for row in group),
                "right, warned of": sum(row["right"] and row["warnings"] > 0 for row in group),
                "wrong, warned of": sum(bool(row["warnings"]) for row in wrong),
                "wrong, truth near": sum(row["near"] for row in wrong),
                "wrong": ", ".join(row["system"] for row in wrong) or "none",
            }
        )
    order = list(MAKERS)
    write(
        "solver_made",
        "Data made by a solver",
        sorted(table, key=lambda row: (order.index(row["made by"]), row["draw"])),
        "Twelve textbook systems, one trajectory of 500 samples, polynomials to degree 3. No noise is added "
        "but in the last: the data are what scipy's solvers give with their default tolerances, or with "
        "both tolerances as small as said. A warning that right models get as often as wrong ones says "
        "nothing.",
        folder=subset.out,
    )


def _measure(**cell: Any) -> Row:
    one = SYSTEMS[cell["system"]]
    t = np.linspace(0.0, one.horizon, SAMPLES)
    x = MAKERS[cell["made by"]](one, t, cell["seed"])
    truth = one.truth
    data = cindy.Trajectory(t, x, one.states)
    return scored(attempt(cell["method"], data, cindy.Polynomial(DEGREE), truth.shape), truth)
