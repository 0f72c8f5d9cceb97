"""Laws whose terms hold unknown numbers: right terms, parameters within their errors, and coverage."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
from scipy.integrate import solve_ivp

import cindy
from benchmarks.attempt import attempt, median, relative, support_of, truth_of
from benchmarks.cells import Row, Subset, measured
from benchmarks.table import write
from cindy._arrays import Floats

__all__ = ["BLOCKS", "LAWS", "Law", "run"]

NOISE = (0.01, 0.05)
SEEDS = tuple(range(20))
INTERVAL = 1.96


@dataclass(frozen=True)
class Law:
    """A right-hand side, the same by terms and parameters, and where and how long it is measured.

    terms: coefficients by (state, term); library: "own", or that of the shared building blocks
    """

    slope: Callable[[float, Any], Any]
    states: tuple[str, ...]
    terms: Mapping[tuple[str, str], float]
    parameters: Mapping[str, float]
    basis: cindy.Basis
    starts: tuple[tuple[float, ...], ...]
    horizon: float
    samples: int
    library: str = "own"

    @property
    def coef(self) -> Floats:
        """(terms, states) as of a model, which has time among its inputs where a term holds it."""
        if not self.basis.asks_for("t"):
            return truth_of(self.basis, self.states, self.terms)
        return truth_of(self.basis.apart_from(("t",)), (*self.states, "t"), self.terms, len(self.states))

    def simulate(self, seed: int, noise: float) -> list[cindy.Trajectory]:
        """Noise relative to the root mean square of each state."""
        t = np.linspace(0.0, self.horizon, self.samples)
        exact = [
            solve_ivp(self.slope, (0, self.horizon), x0, t_eval=t, rtol=1e-9, atol=1e-11).y.T
            for x0 in self.starts
        ]
        size = noise * np.sqrt(np.mean(np.concatenate(exact) ** 2, axis=0))
        rng = np.random.default_rng([seed, 14])
        return [cindy.Trajectory(t, x + size * rng.standard_normal(x.shape), self.states) for x in exact]


def _eaten(x: Any, y: Any) -> Any:
    return x * y / (0.4 + x)


BLOCKS = cindy.Polynomial(2) + cindy.Custom(
    {
        "x/(K + x)": "x/(K + x)",
        "x y/(K + x)": "x*y/(K + x)",
        "x^2/(L^2 + x^2)": "x^2/(L^2 + x^2)",
        "x^2 y/(L^2 + x^2)": "x^2*y/(L^2 + x^2)",
        "1/(M^2 + y^2)": "1/(M^2 + y^2)",
    },
    parameters={"K": (0.05, 5), "L": (0.05, 5), "M": (0.1, 5)},
)
"""One library for six textbook laws of two states: saturation, activation and repression."""


def _custom(formulas: dict[str, str], parameters: dict[str, Any], degree: int = 2) -> cindy.Basis:
    return cindy.Polynomial(degree) + cindy.Custom(formulas, parameters)


LAWS = {
    "Michaelis-Menten": Law(
        lambda t, s: [-1.2 * s[0] / (0.37 + s[0])],
        ("S",),
        {("S", "uptake"): -1.2},
        {"K": 0.37},
        _custom({"uptake": "S/(K + S)"}, {"K": (0.01, 10)}),
        ((2.0,), (4.0,)),
        6.0,
        400,
    ),
    "Hill": Law(
        lambda t, x: [0.2 + 2.0 * x[0] ** 3.3 / (1.5**3.3 + x[0] ** 3.3) - 0.8 * x[0]],
        ("x",),
        {("x", "1"): 0.2, ("x", "x"): -0.8, ("x", "activation"): 2.0},
        {"n": 3.3, "K": 1.5},
        _custom({"activation": "x^n/(K^n + x^n)"}, {"n": (1, 8), "K": (0.2, 5)}),
        ((0.4,), (1.0,), (1.3,), (1.6,), (4.0,)),
        8.0,
        200,
    ),
    "dry friction": Law(
        lambda t, z: [z[1], -4.0 * np.sin(z[0]) - 0.1 * z[1] - 0.8 * np.tanh(z[1] / 0.15)],
        ("a", "w"),
        {("a", "w"): 1.0, ("w", "sin a"): -4.0, ("w", "w"): -0.1, ("w", "friction"): -0.8},
        {"eps": 0.15},
        _custom({"sin a": "sin(a)", "friction": "tanh(w/eps)"}, {"eps": (0.01, 3)}),
        ((2.5, 0.0), (0.5, 3.0)),
        10.0,
        500,
    ),
    "forced oscillator": Law(
        lambda t, z: [z[1], -2.0 * z[0] - 0.2 * z[1] + 1.5 * np.sin(1.3 * t + 0.7)],
        ("x", "v"),
        {("x", "v"): 1.0, ("v", "x"): -2.0, ("v", "v"): -0.2, ("v", "drive"): 1.5},
        {"omega": 1.3, "phi": 0.7},
        _custom({"drive": "sin(omega*t + phi)"}, {"omega": (0.3, 4), "phi": (0, np.pi)}),
        ((1.0, 0.0), (-1.0, 1.0)),
        25.0,
        500,
    ),
    "Rosenzweig-MacArthur": Law(
        lambda t, z: [z[0] - z[0] ** 2 - 1.2 * _eaten(*z), 0.9 * _eaten(*z) - 0.4 * z[1]],
        ("x", "y"),
        {
            ("x", "x"): 1.0,
            ("x", "x^2"): -1.0,
            ("x", "eaten"): -1.2,
            ("y", "eaten"): 0.9,
            ("y", "y"): -0.4,
        },
        {"b": 0.4},
        _custom({"eaten": "x*y/(b + x)"}, {"b": (0.05, 5)}, 3),
        ((0.3, 0.5), (0.9, 0.2)),
        40.0,
        400,
    ),
    "genetic switch": Law(
        lambda t, z: [0.3 + 3.0 / (1 + z[1] ** 2.5) - z[0], 0.3 + 2.5 / (1 + z[0] ** 2.0) - z[1]],
        ("u", "v"),
        {
            ("u", "1"): 0.3,
            ("u", "u"): -1.0,
            ("u", "by v"): 3.0,
            ("v", "1"): 0.3,
            ("v", "v"): -1.0,
            ("v", "by u"): 2.5,
        },
        {"n": 2.5, "m": 2.0},
        _custom({"by v": "1/(1 + v^n)", "by u": "1/(1 + u^m)"}, {"n": (1, 6), "m": (1, 6)}),
        # As a switch is measured: from neither and both proteins, from either end, and from close to the
        # separatrix on both of its sides. Without the ends 1/(1 + u^2) and a straight line are alike.
        ((0.1, 0.2), (4.0, 3.8), (0.1, 4.0), (4.0, 0.1), (0.8, 1.2), (1.5, 0.6)),
        8.0,
        300,
    ),
    "blocks: Holling II": Law(
        lambda t, z: [z[0] - z[0] ** 2 - 1.2 * _eaten(*z), 0.9 * _eaten(*z) - 0.4 * z[1]],
        ("x", "y"),
        {
            ("x", "x"): 1.0,
            ("x", "x^2"): -1.0,
            ("x", "x y/(K + x)"): -1.2,
            ("y", "x y/(K + x)"): 0.9,
            ("y", "y"): -0.4,
        },
        {"K": 0.4},
        BLOCKS,
        ((0.3, 0.5), (0.9, 0.2)),
        40.0,
        400,
        "blocks",
    ),
    "blocks: Holling III": Law(
        lambda t, z: [
            1.5 * z[0] - z[0] ** 2 - z[0] ** 2 * z[1] / (0.25 + z[0] ** 2),
            0.8 * z[0] ** 2 * z[1] / (0.25 + z[0] ** 2) - 0.4 * z[1],
        ],
        ("x", "y"),
        {
            ("x", "x"): 1.5,
            ("x", "x^2"): -1.0,
            ("x", "x^2 y/(L^2 + x^2)"): -1.0,
            ("y", "x^2 y/(L^2 + x^2)"): 0.8,
            ("y", "y"): -0.4,
        },
        {"L": 0.5},
        BLOCKS,
        ((0.3, 0.5), (1.2, 0.2), (1.0, 1.5)),
        25.0,
        300,
        "blocks",
    ),
    "blocks: chemostat": Law(
        lambda t, z: [
            0.5 * (2.0 - z[0]) - 1.6 * z[0] * z[1] / (0.6 + z[0]),
            0.8 * z[0] * z[1] / (0.6 + z[0]) - 0.5 * z[1],
        ],
        ("x", "y"),
        {
            ("x", "1"): 1.0,
            ("x", "x"): -0.5,
            ("x", "x y/(K + x)"): -1.6,
            ("y", "x y/(K + x)"): 0.8,
            ("y", "y"): -0.5,
        },
        {"K": 0.6},
        BLOCKS,
        ((2.0, 0.1), (0.3, 1.5), (1.0, 0.5)),
        12.0,
        300,
        "blocks",
    ),
    "blocks: autoactivation": Law(
        lambda t, z: [0.1 + 2.0 * z[0] ** 2 / (1.0 + z[0] ** 2) - z[0], 0.7 * z[0] - 0.5 * z[1]],
        ("x", "y"),
        {
            ("x", "1"): 0.1,
            ("x", "x^2/(L^2 + x^2)"): 2.0,
            ("x", "x"): -1.0,
            ("y", "x"): 0.7,
            ("y", "y"): -0.5,
        },
        {"L": 1.0},
        BLOCKS,
        ((0.3, 1.0), (0.8, 0.2), (1.2, 2.0), (3.5, 0.5)),
        10.0,
        250,
        "blocks",
    ),
    "blocks: enzyme chain": Law(
        lambda t, z: [0.3 - 1.5 * z[0] / (0.7 + z[0]), 1.5 * z[0] / (0.7 + z[0]) - 0.6 * z[1]],
        ("x", "y"),
        {("x", "1"): 0.3, ("x", "x/(K + x)"): -1.5, ("y", "x/(K + x)"): 1.5, ("y", "y"): -0.6},
        {"K": 0.7},
        BLOCKS,
        ((3.0, 0.2), (1.5, 2.0), (5.0, 1.0)),
        8.0,
        300,
        "blocks",
    ),
    "blocks: repression": Law(
        lambda t, z: [2.0 / (0.64 + z[1] ** 2) - 0.8 * z[0], 0.9 * z[0] - 0.7 * z[1]],
        ("x", "y"),
        {("x", "1/(M^2 + y^2)"): 2.0, ("x", "x"): -0.8, ("y", "x"): 0.9, ("y", "y"): -0.7},
        {"M": 0.8},
        BLOCKS,
        ((0.3, 0.3), (2.5, 0.4), (0.5, 3.0)),
        10.0,
        300,
        "blocks",
    ),
}


def run(subset: Subset = Subset()) -> None:  # noqa: B008
    """One row a law, level and draw; a table over the draws."""
    cells = [
        {"law": name, "noise": noise, "seed": seed}
        for name in subset.pick("names", tuple(LAWS))
        for noise in subset.pick("noise", NOISE)
        for seed in subset.pick("seeds", SEEDS if LAWS[name].library == "own" else SEEDS[:5])
    ]
    rows = measured("parameters_cells", cells, _measure, subset)
    table = []
    for name, noise in dict.fromkeys((row["law"], row["noise"]) for row in rows):
        group = [row for row in rows if (row["law"], row["noise"]) == (name, noise)]
        table.append(_summary(name, noise, group))
    table.sort(key=lambda row: (list(LAWS).index(row["law"]), float(row["noise"])))
    for level in sorted({float(row["noise"]) for row in rows}):
        table.append(_summary("all", level, [row for row in rows if float(row["noise"]) == level]))
    write(
        "parameters",
        "Parameters inside terms",
        table,
        "Laws with unknown numbers inside terms beside a polynomial library. `right`: exactly the terms of "
        "the law; `within 3`: and every parameter within three of its standard errors; `covered`: parameters "
        "of the right models inside their 95 % intervals; `near`: the law itself or one of those that fit "
        "almost as well. A draw of the noise is the same at both levels. Those called blocks are found in "
        "one library of shared building blocks, five draws each.",
        folder=subset.out,
    )


def _summary(name: str, noise: float, group: list[Row]) -> Row:
    found = [row for row in group if int(row["right"])]
    known = sum(int(row["parameters"]) for row in found)
    inside = sum(int(row["covered"]) for row in found)
    return {
        "law": name,
        "noise": noise,
        "right": f"{len(found)} of {len(group)}",
        "within 3": sum(int(row["within"]) for row in group),
        "covered": f"{inside} of {known}",
        "error": median([float(row["error"]) for row in group]),
        "near": sum(int(row["near"]) for row in group),
        "seconds": median([float(row["seconds"]) for row in group]),
    }


def _measure(law: str, noise: float, seed: int) -> Row:
    one = LAWS[law]
    data = one.simulate(seed, noise)
    truth = one.coef
    got = attempt("fitted states", data, one.basis, truth.shape)
    extra, missing = support_of(got.coef, truth)
    right = extra + missing == 0
    scores = []
    if right and got.model is not None:
        found = got.model.parameters
        scores = [
            abs(found[name].value - value) / found[name].error for name, value in one.parameters.items()
        ]
    return {
        "right": int(right),
        "within": int(right and max(scores) < 3),
        "extra": extra,
        "missing": missing,
        "parameters": len(scores),
        "covered": sum(score < INTERVAL for score in scores),
        "error": relative(got.coef, truth),
        "near": int(got.holds(truth != 0)),
        "seconds": got.seconds,
        "warnings": len(got.warnings),
        "said": got.said,
    }
