"""Whether every form and rule tells that a law lies outside the library, and keeps still where it is right.

Motions are drawn anew for every seed: 20 whose law the basis lacks, and 17 whose law it holds; likewise ten
and six maps. An alarm is a finding that says that the equations leave something, or a refusal.
"""

from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.integrate import solve_ivp

import cindy
from benchmarks.cells import Row, Subset, measured
from benchmarks.table import write
from cindy import systems

__all__ = ["run"]

Floats = NDArray[np.float64]
Rng = np.random.Generator
SEEDS = (700,)
NOISE = (0.01,)
ALARMS = frozenset(
    {
        "not-explained",
        "not-predictive",
        "unexplained-motion",
        "unexplained-steps",
        "smooth-residual",
        "large-residuals",
        "correlated-residuals",
        "random-forcing",
        "missing-state",
        "noise-memory",
        "looks-like-a-map",
    }
)
"""Codes of findings after which nobody takes the equations for the whole law."""
METHODS: dict[str, dict[str, Any]] = {
    "integral": {},
    "one pass": {"passes": 1},
    "differential": {"formulation": "differential"},
    "bic": {"selection": "bic"},
    "discrepancy": {"selection": "discrepancy"},
    "gap": {"selection": "gap:1e-6"},
    "cv": {"selection": "cv:3"},
    "differential bic": {"formulation": "differential", "selection": "bic"},
}
MAP_METHODS: dict[str, dict[str, Any]] = {
    "discrete": {"formulation": "discrete"},
    "discrete one pass": {"formulation": "discrete", "passes": 1},
    "discrete bic": {"formulation": "discrete", "selection": "bic"},
}


def _paths(
    law: Callable[[float, Floats], Any], starts: Floats, horizon: float, samples: int = 400
) -> list[tuple[Floats, Floats]]:
    t = np.linspace(0.0, horizon, samples)
    return [(t, solve_ivp(law, (0, horizon), x0, t_eval=t, rtol=1e-9, atol=1e-10).y.T) for x0 in starts]


def _swinging(force: Callable[[float, Floats], float]) -> Callable[[Rng], list[tuple[Floats, Floats]]]:
    """x'' = −x − 0.2 x' and something more."""

    def made(rng: Rng) -> list[tuple[Floats, Floats]]:
        return _paths(
            lambda s, x: [x[1], -x[0] - 0.2 * x[1] + force(s, x)], rng.uniform(-2.5, 2.5, (3, 2)), 20.0
        )

    return made


def _holling(rng: Rng) -> list[tuple[Floats, Floats]]:
    def law(_: float, x: Floats) -> list[float]:
        eaten = x[0] * x[1] / (1 + x[0])
        return [x[0] * (1 - x[0] / 4) - 2 * eaten, eaten - 0.5 * x[1]]

    return _paths(law, rng.uniform(0.5, 3.0, (3, 2)), 30.0)


def _repressor(rng: Rng) -> list[tuple[Floats, Floats]]:
    return _paths(lambda s, x: 3 / (1 + np.roll(x, 1) ** 4) - x, rng.uniform(0.2, 2.5, (3, 3)), 20.0)


def _part(
    system: Callable[[], systems.System], states: int, horizon: float
) -> Callable[[Rng], list[tuple[Floats, Floats]]]:
    """Only the first states of a system."""

    def made(rng: Rng) -> list[tuple[Floats, Floats]]:
        law = system()
        paths = _paths(lambda s, x: law.rhs(x[None])[0], law.initial(rng, 3), horizon, 600)
        return [(t, x[:, :states]) for t, x in paths]

    return made


def _pooled(rng: Rng) -> list[tuple[Floats, Floats]]:
    paths = []
    for rate in rng.uniform(0.7, 1.5, 4):
        paths += _paths(lambda s, x, r=rate: [x[1], -r * x[0] - 0.1 * x[1]], rng.uniform(-2, 2, (1, 2)), 20.0)
    return paths


def _delayed(rng: Rng) -> list[tuple[Floats, Floats]]:
    """x' = x (1 − x(t − 1.4)), by small Euler steps."""
    paths = []
    for start in rng.uniform(0.3, 1.5, 3):
        step, lag = 0.005, 280
        x = np.full(8000 + lag, start)
        for k in range(lag, len(x) - 1):
            x[k + 1] = x[k] + step * x[k] * (1 - x[k - lag])
        paths.append((step * np.arange(0, 8000, 20), x[lag::20][:400, None]))
    return paths


def _kicked(rng: Rng) -> list[tuple[Floats, Floats]]:
    paths = []
    for start in rng.uniform(-1.5, 1.5, (3, 2)):
        x, step, kept = start.copy(), 0.005, []
        for k in range(4000):
            if k % 10 == 0:
                kept.append(x.copy())
            x = x + step * np.array([x[1], x[0] - x[0] ** 3 - 0.3 * x[1]])
            x[1] += 0.3 * np.sqrt(step) * rng.standard_normal()
        paths.append((0.05 * np.arange(400.0), np.array(kept)))
    return paths


def _of(system: Callable[[], systems.System], horizon: float = 0.0) -> Callable[[Rng], Any]:
    """A system whose law the basis holds."""

    def made(rng: Rng) -> list[tuple[Floats, Floats]]:
        law = system()
        length = horizon or law.horizon
        return _paths(lambda s, x: law.rhs(x[None])[0], law.initial(rng, 3), length)

    return made


def _law(
    law: Callable[[float, Floats], Any], low: float, high: float, states: int, horizon: float
) -> Callable[[Rng], list[tuple[Floats, Floats]]]:
    return lambda rng: _paths(law, rng.uniform(low, high, (3, states)), horizon)


WRONG: dict[str, tuple[Callable[[Rng], Any], int]] = {
    "force": (_swinging(lambda s, x: 0.4 * np.cos(1.7 * s)), 3),
    "weak force": (_swinging(lambda s, x: 0.1 * np.cos(1.7 * s)), 3),
    "slow force": (_swinging(lambda s, x: 0.4 * np.cos(0.3 * s)), 3),
    "ageing spring": (_swinging(lambda s, x: 0.02 * s * x[0]), 3),
    "dry friction": (_swinging(lambda s, x: -0.2 * np.tanh(20 * x[1])), 3),
    "fifth power": (_swinging(lambda s, x: -0.15 * x[0] ** 5), 3),
    "one-sided spring": (_swinging(lambda s, x: -1.5 * max(x[0], 0.0)), 3),
    "backlash": (_swinging(lambda s, x: x[0] - np.sign(x[0]) * max(abs(x[0]) - 0.5, 0.0)), 3),
    "pendulum": (_law(lambda s, x: [x[1], -2 * np.sin(x[0])], -2.4, 2.4, 2, 20.0), 3),
    "exponential": (_law(lambda s, x: [1 - np.exp(1.5 * x[1]), x[0] - 0.1 * x[1]], -1, 1, 2, 15.0), 2),
    "holling": (_holling, 2),
    "repressor": (_repressor, 2),
    "lorenz without z": (_part(systems.lorenz, 2, 6.0), 3),
    "rossler without z": (_part(systems.rossler, 2, 40.0), 3),
    "sir without i": (_part(systems.sir, 1, 40.0), 3),
    "linear of lotka": (_law(lambda s, x: [x[0] - x[0] * x[1], x[0] * x[1] - x[1]], 0.5, 2, 2, 15.0), 1),
    "quadratic of duffing": (_law(lambda s, x: [x[1], x[0] - x[0] ** 3 - 0.1 * x[1]], -1.5, 1.5, 2, 20.0), 2),
    "pooled": (_pooled, 3),
    "delay": (_delayed, 3),
    "kicks": (_kicked, 3),
}
"""Laws outside the library: data, and the degree of the polynomials to choose from."""
RIGHT: dict[str, tuple[Callable[[Rng], Any], int]] = {
    "spring": (_swinging(lambda s, x: 0.0), 3),
    "hard spring": (_swinging(lambda s, x: -0.4 * x[0] ** 3), 3),
    "lorenz": (_of(systems.lorenz, 4.0), 2),
    "rossler": (_of(systems.rossler, 20.0), 2),
    "lotka_volterra": (_of(systems.lotka_volterra), 2),
    "van_der_pol": (_of(systems.van_der_pol), 3),
    "duffing": (_of(systems.duffing), 3),
    "sir": (_of(systems.sir), 2),
    "michaelis_menten": (_of(systems.michaelis_menten), 2),
    "brusselator": (
        _law(lambda s, x: [1 - 4 * x[0] + x[0] ** 2 * x[1], 3 * x[0] - x[0] ** 2 * x[1]], 0.5, 2.5, 2, 15.0),
        3,
    ),
    "nagumo": (
        _law(
            lambda s, x: [x[0] - x[0] ** 3 / 3 - x[1] + 0.5, 0.1 * x[0] + 0.07 - 0.08 * x[1]], -2, 2, 2, 60.0
        ),
        3,
    ),
    "rigid body": (
        _law(lambda s, x: [0.5 * x[1] * x[2], -x[0] * x[2], 0.4 * x[0] * x[1]], -2, 2, 3, 15.0),
        2,
    ),
    "decay": (_law(lambda s, x: [-0.5 * x[0], 0.5 * x[0] - 0.2 * x[1]], 0.5, 3, 2, 10.0), 2),
    "logistic": (_law(lambda s, x: x * (1 - x / 3), 0.1, 1.0, 1, 8.0), 3),
    "competition": (
        _law(
            lambda s, x: [x[0] * (1 - x[0] - 0.5 * x[1]), x[1] * (0.8 - x[1] - 0.3 * x[0])],
            0.05,
            1.5,
            2,
            12.0,
        ),
        2,
    ),
    "double well": (_law(lambda s, x: [x[1], x[0] - x[0] ** 3 - 0.15 * x[1]], -1.5, 1.5, 2, 20.0), 3),
    "rotor": (_law(lambda s, x: [-2 * x[1] - 0.1 * x[0], 2 * x[0] - 0.1 * x[1]], -2, 2, 2, 15.0), 2),
}
"""Laws inside it."""


def _stepped(step: Callable[[Floats, int], Any], low: float, high: float, states: int, seen: int = 0) -> Any:
    """Three runs of a map, of which the first states are seen."""

    def made(rng: Rng) -> list[tuple[Floats, Floats]]:
        runs = []
        while len(runs) < 3:
            x = [rng.uniform(low, high, states)]
            for k in range(299):
                x.append(np.asarray(step(x[-1], k), dtype=float))
                if not np.max(np.abs(x[-1])) < 50:
                    break
            if len(x) == 300:
                runs.append((np.arange(300.0), np.array(x)[:, : seen or states]))
        return runs

    return made


def _henon(x: Floats, a: float = 1.4) -> list[float]:
    return [1 - a * x[0] ** 2 + x[1], 0.3 * x[0]]


MAPS_WRONG: dict[str, tuple[Callable[[Rng], Any], int]] = {
    "ricker": (_stepped(lambda x, k: x * np.exp(2.7 * (1 - x)), 0.2, 1.5, 1), 3),
    "tent": (_stepped(lambda x, k: 0.95 * (1 - np.abs(1 - 2 * x)), 0.1, 0.9, 1), 3),
    "sine": (_stepped(lambda x, k: 2.8 * np.sin(1.3 * x), 0.2, 1.5, 1), 2),
    "lozi": (_stepped(lambda x, k: [1 - 1.6 * abs(x[0]) + x[1], 0.4 * x[0]], -0.1, 0.1, 2), 3),
    "henon without y": (_stepped(lambda x, k: _henon(x), -0.1, 0.1, 2, 1), 3),
    "ageing henon": (_stepped(lambda x, k: _henon(x, 1.2 + 0.0006 * k), -0.1, 0.1, 2), 2),
    "driven logistic": (
        _stepped(lambda x, k: 3.7 * x * (1 - x) * (1 + 0.05 * np.cos(0.7 * k)), 0.2, 0.8, 1),
        3,
    ),
    "linear of logistic": (_stepped(lambda x, k: 3.9 * x * (1 - x), 0.2, 0.8, 1), 1),
    "saturating": (
        _stepped(lambda x, k: [3 * x[0] / (1 + x[1] ** 2), 0.5 * x[1] + 0.5 * x[0]], 0.5, 2, 2),
        2,
    ),
    "rational": (_stepped(lambda x, k: [2.9 / (1 + x[0] ** 2) + x[1] - 2, 0.3 * x[0]], -0.5, 0.5, 2), 2),
}
MAPS_RIGHT: dict[str, tuple[Callable[[Rng], Any], int]] = {
    "logistic": (_stepped(lambda x, k: 3.8 * x * (1 - x), 0.2, 0.8, 1), 3),
    "henon": (_stepped(lambda x, k: _henon(x), -0.1, 0.1, 2), 2),
    "delayed logistic": (_stepped(lambda x, k: [2.2 * x[0] * (1 - x[1]), x[0]], 0.3, 0.6, 2), 2),
    "rotation": (
        _stepped(
            lambda x, k: [0.998 * (0.8 * x[0] - 0.6 * x[1]), 0.998 * (0.6 * x[0] + 0.8 * x[1])], -2, 2, 2
        ),
        2,
    ),
    "cubic": (_stepped(lambda x, k: 2.6 * x - x**3, -1.0, 1.0, 1), 3),
    "burgers": (
        _stepped(lambda x, k: [0.25 * x[0] - x[1] ** 2, 1.75 * x[1] + x[0] * x[1]], 0.1, 0.3, 2),
        2,
    ),
}
KINDS = {
    "outside": (WRONG, METHODS),
    "inside": (RIGHT, METHODS),
    "map outside": (MAPS_WRONG, MAP_METHODS),
    "map inside": (MAPS_RIGHT, MAP_METHODS),
}


def data_of(kind: str, name: str, noise: float, seed: int) -> list[cindy.Trajectory]:
    """Three runs or so with white noise, in proportion to each state."""
    rng = np.random.default_rng([seed, *name.encode()])
    paths = KINDS[kind][0][name][0](rng)
    spread = np.vstack([x for _, x in paths]).std(axis=0)
    return [cindy.Trajectory(t, x + noise * spread * rng.standard_normal(x.shape)) for t, x in paths]


def run(subset: Subset = Subset()) -> None:  # noqa: B008
    """A table of alarms by form and rule."""
    cells = [
        {"kind": kind, "law": name, "method": method, "noise": noise, "seed": seed}
        for seed in subset.pick("seeds", SEEDS)
        for noise in subset.noise or NOISE
        for kind, (laws, methods) in KINDS.items()
        for name in laws
        for method in methods
        if (not subset.names or name in subset.names) and (not subset.methods or method in subset.methods)
    ]
    rows = measured("every_form_cells", cells, _told, subset)
    groups = dict.fromkeys((row["kind"], row["method"], row["noise"]) for row in rows)
    table = []
    for kind, method, noise in groups:
        group = [r for r in rows if (r["kind"], r["method"], r["noise"]) == (kind, method, noise)]
        table.append(
            {
                "law": kind,
                "method": method,
                "noise": noise,
                "data sets": len(group),
                "refused": sum(r["refused"] for r in group),
                "alarm": sum(r["alarm"] for r in group),
                "doubt only": sum(not r["alarm"] and not r["refused"] and r["codes"] != "-" for r in group),
                "silent": sum(r["codes"] == "-" for r in group),
            }
        )
    write(
        "every_form",
        "Laws outside and inside the library, by form and rule",
        table,
        "An alarm says that the equations leave something, or that a state is missing. A doubt speaks of "
        "terms or of the data alone.",
        folder=subset.out,
    )


def _told(kind: str, law: str, method: str, noise: float, seed: int) -> Row:
    laws, methods = KINDS[kind]
    try:
        model = cindy.identify(
            data_of(kind, law, noise, seed), cindy.Polynomial(laws[law][1]), **methods[method]
        )
    except cindy.NoModelError:
        return {"refused": 1, "alarm": 0, "codes": "refused", "explained": float("nan"), "terms": 0}
    codes = sorted({finding.code for finding in model.findings})
    return {
        "refused": 0,
        "alarm": int(not ALARMS.isdisjoint(codes)),
        "codes": " ".join(codes) or "-",
        "explained": float(model.explained.get("equations", np.nan)),
        "terms": int(model.size),
    }
