"""Systems of which some states are not measured: equations, starts, what is seen, and the law to be found."""

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

import cindy
from cindy.systems import integrate

__all__ = ["CASES", "Case"]

Floats = NDArray[np.float64]


@dataclass(frozen=True)
class System:
    """Equations, three starts of the data and one that is not among them.

    step: between samples; ahead: samples of the fresh run, fewer where motion is chaotic
    """

    slope: Callable[[Any], Any]
    starts: tuple[tuple[float, ...], ...]
    fresh: tuple[float, ...]
    step: float
    ahead: int = 1000


@dataclass(frozen=True)
class Case:
    """What is seen of a system, the library, and the laws that are right.

    seen: what each column of the data measures, as weights of the states
    hidden: the argument of `identify`; observe: the formulas of the columns, where they are no states
    laws: (term, state) pairs of the sparsest law; several where gauges give as many terms, none where the
        sparsest gauge is not known
    rare: the last column is measured in one of so many samples
    """

    system: System
    seen: dict[str, tuple[float, ...]]
    basis: cindy.Basis
    hidden: Any = 1
    observe: dict[str, str] = field(default_factory=dict)
    laws: tuple[frozenset[tuple[str, str]], ...] = ()
    samples: int = 1000
    rare: int = 1

    def solved(self, starts: Any, t: Floats) -> Floats:
        """(samples, starts, columns) without noise."""
        x = integrate(self.system.slope, np.array(starts, dtype=float), t)
        return np.asarray(x @ np.array(list(self.seen.values()), dtype=float).T)

    def simulate(self, seed: int, noise: float) -> list[cindy.Trajectory]:
        """Three runs, noise relative to the spread of each column."""
        t = self.system.step * np.arange(self.samples)
        y = self.solved(self.system.starts, t)
        rng = np.random.default_rng([seed, 23])
        noisy = y + noise * y.std(axis=(0, 1)) * rng.standard_normal(y.shape)
        noisy[np.arange(self.samples) % self.rare > 0, :, -1] = np.nan
        return [cindy.Trajectory(t, noisy[:, k], tuple(self.seen)) for k in range(y.shape[1])]

    def fresh(self, seed: int, noise: float) -> tuple[Floats, Floats, Floats]:
        """Times, columns without noise and with it, of a run that is not among the data."""
        t = self.system.step * np.arange(self.system.ahead)
        truth = self.solved([self.system.fresh], t)[:, 0]
        rng = np.random.default_rng([seed, 24])
        return t, truth, truth + noise * truth.std(axis=0) * rng.standard_normal(truth.shape)


def _pairs(text: str) -> frozenset[tuple[str, str]]:
    """Terms as "x: x, y; y: y, x w"."""
    equations = (part.split(":") for part in text.split(";"))
    return frozenset((term.strip(), state.strip()) for state, terms in equations for term in terms.split(","))


def _columns(*values: Any) -> Any:
    return np.stack(np.broadcast_arrays(*values), axis=-1)


def _chain(s: Any) -> Any:
    """Three masses in a row between two walls, positions before velocities."""
    q, v = s[:, :3], s[:, 3:]
    left = np.column_stack([np.zeros(len(s)), q[:, :2]])
    right = np.column_stack([q[:, 1:], np.zeros(len(s))])
    return np.column_stack([v, left - 2 * q + right - 0.1 * v])


LORENZ = System(
    lambda s: _columns(
        10 * (s[:, 1] - s[:, 0]),
        28 * s[:, 0] - s[:, 1] - s[:, 0] * s[:, 2],
        s[:, 0] * s[:, 1] - 8 / 3 * s[:, 2],
    ),
    ((-8.0, 8.0, 27.0), (5.0, 3.0, 20.0), (10.0, -5.0, 30.0)),
    (-3.0, -4.0, 22.0),
    0.02,
    100,
)
ROESSLER = System(
    lambda s: _columns(-s[:, 1] - s[:, 2], s[:, 0] + 0.2 * s[:, 1], 0.2 + s[:, 2] * (s[:, 0] - 5.7)),
    ((1.0, 1.0, 1.0), (-5.0, 3.0, 0.5), (6.0, -2.0, 2.0)),
    (0.0, -4.0, 0.1),
    0.05,
    400,
)
FITZHUGH_NAGUMO = System(
    lambda s: _columns(s[:, 0] - s[:, 0] ** 3 / 3 - s[:, 1] + 0.5, 0.08 * (s[:, 0] + 0.7 - 0.8 * s[:, 1])),
    ((-1.0, 1.0), (2.0, -0.5), (0.0, 0.0)),
    (1.0, 1.0),
    0.1,
)
SEIR = System(
    lambda s: _columns(
        -0.9 * s[:, 0] * s[:, 2], 0.9 * s[:, 0] * s[:, 2] - 0.3 * s[:, 1], 0.3 * s[:, 1] - 0.2 * s[:, 2]
    ),
    ((0.99, 0.005, 0.005), (0.8, 0.01, 0.1), (0.9, 0.08, 0.01)),
    (0.95, 0.03, 0.02),
    0.075,
)
LOTKA_VOLTERRA = System(
    lambda s: _columns(s[:, 0] - 0.5 * s[:, 0] * s[:, 1], 0.3 * s[:, 0] * s[:, 1] - 0.8 * s[:, 1]),
    ((2.0, 1.0), (4.0, 2.5), (1.0, 3.0)),
    (3.0, 1.0),
    0.03,
)
CHAIN = System(
    _chain,
    ((1, 0, 0, 0, 0, 0), (0, -1, 0, 1, 0, 1), (0.5, 1, 0, 0.5, -1, 1)),
    (1, 0, 1, 1, -0.5, 0),
    0.05,
)
LORENZ_TERMS = _pairs("x: x, y; y: x, y, x z; z: z, x y")
PREY, PREDATOR = (1.0, 0.0), (0.0, 1.0)
X, Y, Z = (1.0, 0.0, 0.0), (0.0, 1.0, 0.0), (0.0, 0.0, 1.0)

CASES = {
    "Lorenz without z": Case(
        LORENZ,
        {"x": X, "y": Y},
        cindy.Polynomial(2),
        laws=(_pairs("x: x, y; y: y, x w; w: 1, w, x y"), _pairs("x: x, y; y: x, y, x w; w: w, x y")),
    ),
    "Lorenz without x": Case(
        LORENZ, {"y": Y, "z": Z}, cindy.Polynomial(2), laws=(_pairs("y: y, w, z w; z: z, y w; w: y, w"),)
    ),
    **{
        f"Lorenz with z in 1 of {rare}": Case(
            LORENZ, {"x": X, "y": Y, "z": Z}, cindy.Polynomial(2), hidden=0, laws=(LORENZ_TERMS,), rare=rare
        )
        for rare in (5, 20, 50, 200)
    },
    "Rössler without x": Case(
        ROESSLER,
        {"y": Y, "z": Z},
        cindy.Polynomial(2),
        laws=(_pairs("y: y, w; z: 1, z, z w; w: y, z"), _pairs("y: 1, y, w; z: 1, z w; w: y, z")),
    ),
    "Rössler without z": Case(
        ROESSLER,
        {"x": X, "y": Y},
        cindy.Polynomial(2),
        laws=(_pairs("x: y, w; y: x, y; w: 1, w, x w"),),
    ),
    "Rössler by x": Case(ROESSLER, {"x": X}, cindy.Polynomial(2), hidden=2),
    "Rössler by y": Case(ROESSLER, {"y": Y}, cindy.Polynomial(2), hidden=2),
    "Rössler by z": Case(
        ROESSLER,
        {"z": Z},
        cindy.Polynomial(2),
        hidden=2,
        laws=(
            _pairs("z: 1, z w1; w1: z, w2; w2: 1, w1, w2"),
            _pairs("z: 1, z, z w1; w1: z, w2; w2: w1, w2"),
        ),
    ),
    "FitzHugh-Nagumo without w": Case(
        FITZHUGH_NAGUMO,
        {"v": (1.0, 0.0)},
        cindy.Polynomial(3),
        laws=(
            _pairs("v: w; w: 1, v, w, v^3, v^2 w"),
            _pairs("v: v, v^3, w; w: 1, v, w"),
            _pairs("v: v, v^3, w; w: v, w"),
            _pairs("v: 1, v, v^3, w; w: v, w"),
        ),
    ),
    "SEIR without E": Case(
        SEIR,
        {"S": X, "I": Z},
        cindy.Polynomial(2),
        laws=(
            _pairs("S: S I; I: w; w: I, w, S I"),
            _pairs("S: S I; I: I, w; w: w, S I"),
        ),
    ),
    "SEIR by I": Case(
        SEIR,
        {"I": Z},
        cindy.Polynomial(2),
        hidden=2,
        laws=(
            _pairs("I: w1; w1: w1, I w2; w2: I, I w2"),
            _pairs("I: w1; w1: I, w1, I w2; w2: I w2"),
            _pairs("I: I, w1; w1: w1, I w2; w2: I w2"),
            _pairs("I: I, w1; w1: I w2; w2: I, I w2"),
            _pairs("I: I, w1; w1: I, I w2; w2: I w2"),
        ),
    ),
    "Lotka-Volterra by sum and prey": Case(
        LOTKA_VOLTERRA,
        {"total": (1.0, 1.0), "P": PREY},
        cindy.Polynomial(2),
        hidden=0,
        observe={"total": "P + D"},
        laws=(_pairs("P: P, P D; D: D, P D"),),
    ),
    "chain of masses by one": Case(
        CHAIN,
        {"p": (1.0, 0.0, 0.0, 0.0, 0.0, 0.0)},
        cindy.Polynomial(1, bias=False),
        hidden=5,
        laws=(_pairs("p: w1; w1: w2; w2: w3; w3: w4; w4: w5; w5: p, w1, w2, w3, w4, w5"),),
    ),
}
