"""What odd data are told apart by: alarms on good data, and on data with a known fault."""

from collections.abc import Callable
from functools import cache, lru_cache
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.integrate import odeint

import cindy
from benchmarks.attempt import attempt, support_of
from benchmarks.cells import Row, Subset, measured
from benchmarks.table import write
from cindy import systems
from cindy.basis import Listed
from cindy.data import noise_level, oddities, periods
from cindy.data.plausibility import roughness, unknown_rates, unknown_steps

__all__ = ["run"]

Floats = NDArray[np.float64]
SEEDS = (0, 1)
SAMPLES, RUNS = 400, 3
FINE = (12, 25, 100)
"""Samples to a period that ought to be enough."""
COARSE = (2.5, 3, 4, 5, 6, 8)
NOISE = (0.0, 0.01, 0.05, 0.1, 0.2, 0.4)
SAID = {
    "wrapped": "unwrap it",
    "rounded": "data are rounded",
    "map": "steps of a map",
    "rough": "by about as much as it ever does",
    "few a swing": "samples to a swing",
    "state missing": "a state is missing",
    "far from zero": "from another zero",
}
"""The alarms, by a piece of their sentences."""
MOTIONS: dict[str, Callable[[], systems.System]] = {
    "lorenz": systems.lorenz,
    "rossler": systems.rossler,
    "lotka_volterra": systems.lotka_volterra,
    "van_der_pol": systems.van_der_pol,
    "duffing": systems.duffing,
    "sir": systems.sir,
    "michaelis_menten": systems.michaelis_menten,
    "kuramoto": lambda: systems.kuramoto(3),
}
OFFSETS = (0, 10, 20, 30, 50, 100, 300, 1000, 10_000)
"""Spreads that states are moved away from zero by."""
CURVED = {"lotka_volterra": 2, "lorenz": 2, "rossler": 2, "sir": 2, "van_der_pol": 3, "duffing": 3}
"""Degrees of the laws, which no shift changes."""
SWINGING = ("lorenz", "rossler", "lotka_volterra", "van_der_pol")
"""Those that swing for ever, so that a state less is a state too few."""


def _logistic(x: Floats) -> Floats:
    return 3.9 * x * (1 - x)


def _henon(x: Floats) -> Floats:
    return np.array([1 - 1.4 * x[0] ** 2 + x[1], 0.3 * x[0]])


def _ricker(x: Floats) -> Floats:
    return x * np.exp(2.9 * (1 - x))


def _delayed(x: Floats) -> Floats:
    return np.array([2.27 * x[0] * (1 - x[1]), x[0]])


MAPS: dict[str, tuple[Callable[[Floats], Floats], int]] = {
    "logistic": (_logistic, 1),
    "henon": (_henon, 2),
    "ricker": (_ricker, 1),
    "delayed logistic": (_delayed, 2),
}


def _solved(system: systems.System, seed: int, t: Floats) -> list[cindy.Trajectory]:
    """Solutions good to 1e-8 or so, which is no noise here."""
    starts = system.initial(np.random.default_rng([seed, 9]), RUNS)
    paths = [odeint(lambda _, x: system.rhs(x), x0, t, tfirst=True, rtol=1e-10, atol=1e-10) for x0 in starts]
    return [cindy.Trajectory(t, x, system.states) for x in paths]


@cache
def period(name: str) -> float:
    """Time of a swing; of a motion that comes to rest a quarter of its horizon."""
    system = MOTIONS[name]()
    if name not in SWINGING:
        return system.horizon / 4
    length = 10 * system.horizon
    fine = _solved(system, 0, np.linspace(0.0, length, 4000))
    return length / float(np.median([periods(one) for one in fine]))


@lru_cache(maxsize=50)
def _exact(name: str, per_swing: float, seed: int) -> list[cindy.Trajectory]:
    system = MOTIONS[name]()
    step = period(name) / per_swing
    samples = SAMPLES if name in SWINGING else int(np.clip(system.horizon / step, 12, SAMPLES))
    return _solved(system, seed, step * np.arange(samples))


def sampled(name: str, per_swing: float, noise: float, seed: int) -> list[cindy.Trajectory]:
    """A motion with so many samples to a swing; what comes to rest is sampled over its horizon."""
    exact = _exact(name, per_swing, seed)
    spread = np.vstack([one.x for one in exact]).std(axis=0)
    rng = np.random.default_rng([seed, 10])
    return [
        cindy.Trajectory(one.t, one.x + noise * spread * rng.standard_normal(one.x.shape), one.states)
        for one in exact
    ]


def of_a_map(name: str, noise: float, seed: int) -> list[cindy.Trajectory]:
    rng = np.random.default_rng([seed, 11])
    step, states = MAPS[name]
    x = np.empty((SAMPLES, states))
    x[0] = rng.uniform(0.1, 0.3, states)
    for k in range(1, SAMPLES):
        x[k] = step(x[k - 1])
    noisy = x + noise * x.std(axis=0) * rng.standard_normal(x.shape)
    return [cindy.Trajectory(np.arange(float(SAMPLES)), noisy)]


def of_rotors(name: str, noise: float, seed: int) -> list[cindy.Trajectory]:
    """Angles that go round, kept within a turn."""
    rng = np.random.default_rng([seed, 12])
    t = np.linspace(0.0, 20.0, SAMPLES)
    turn = {"wrapped 2π": 2 * np.pi, "wrapped 360": 360.0}[name]
    speed = rng.uniform(0.5, 3.0, 2)
    angle = speed * t[:, None] + 0.3 * np.sin(t[:, None] * speed) + rng.uniform(0, 6, 2)
    angle = (angle + noise * rng.standard_normal(angle.shape)) / (2 * np.pi)
    return [cindy.Trajectory(t, turn * (angle % 1.0))]


def run(subset: Subset = Subset()) -> None:  # noqa: B008
    """Three tables: alarms by data alone, sentences about models, right and wrong, states far from zero."""
    rows = measured("oddities_cells", _cells(subset), _looked_at, subset, show=False)
    write(
        "oddities",
        "Alarms by data alone",
        _counts(rows),
        f"Eight motions at {FINE[0]} to {FINE[-1]} samples to a swing ought to raise none; maps, angles kept "
        "within a turn, states that were left out and rounded data ought to raise theirs. Coarse samples "
        "are no fault as long as their law is found: see the other table.",
        folder=subset.out,
    )
    rows = measured("oddities_models_cells", _fits(subset), _judged, subset, show=False)
    table = []
    for good in (1, 0):
        counted = _counts([row for row in rows if row["right"] == good])
        table += [{"model": "right" if good else "wrong", **row} for row in counted]
    write(
        "oddities_models",
        "Sentences about models",
        table,
        "The same motions, identified: with all terms, without the nonlinear term of the largest "
        "coefficient, and at coarse steps. Right: exactly the true terms; a sentence about a right model is "
        "a false alarm.",
        folder=subset.out,
    )
    rows = measured("oddities_offset_cells", _shifts(subset), _shifted, subset, show=False)
    table = []
    for kind, far in dict.fromkeys((row["kind"], row["offset"]) for row in rows):
        group = [row for row in rows if (row["kind"], row["offset"]) == (kind, far)]
        found = sum(row["rates"] < 0.1 for row in group)
        told = sum(row["far from zero"] for row in group)
        row = {"law": kind, "spreads from zero": far, "data sets": len(group), "found": found, "told": told}
        table.append(row)
    write(
        "oddities_offset",
        "States far from zero",
        table,
        "Motions of degree 2 and 3, and a circle, 50 samples to a swing, with every state moved away from "
        "zero by so many times its spread; polynomials of the degree of the law. Found: the rates are right "
        "to a tenth. Told: the model, or the refusal, comes with the sentence.",
        folder=subset.out,
    )


def _shifts(subset: Subset) -> list[Row]:
    cells = [("curved", name, 0.01) for name in CURVED]
    cells += [("straight", "circle", noise) for noise in (0.001, 0.01, 0.1)]
    return [
        {"kind": kind, "data": name, "offset": far, "noise": noise, "seed": seed}
        for seed in subset.pick("seeds", SEEDS[:1])
        for kind, name, noise in cells
        for far in OFFSETS
        if not subset.names or name in subset.names
    ]


def _shifted(kind: str, data: str, offset: float, noise: float, seed: int) -> Row:
    """The error of the rates that a model of shifted states has at the true ones."""
    if kind == "straight":
        t = 2 * np.pi / FINE[1] / 2 * np.arange(SAMPLES)
        exact = np.column_stack([np.cos(t), -np.sin(t)])
        rates = np.column_stack([exact[:, 1], -exact[:, 0]])
        rng = np.random.default_rng([seed, 13])
        seen = [cindy.Trajectory(t, exact + noise * exact.std(axis=0) * rng.standard_normal(exact.shape))]
    else:
        seen = sampled(data, 2 * FINE[1], noise, seed)
        exact = np.vstack([one.x for one in _exact(data, 2 * FINE[1], seed)])
        rates = MOTIONS[data]().rhs(exact)
    away = offset * exact.std(axis=0)
    moved = [cindy.Trajectory(one.t, one.x + away, one.states) for one in seen]
    try:
        model = cindy.identify(moved, cindy.Polynomial(CURVED.get(data, 1)))
    except cindy.NoModelError as error:
        return {"rates": 1.0, "terms": 0, **_alarms([str(error)])}
    wrong = np.mean((model.predict(exact + away) - rates) ** 2, axis=0) / np.mean(rates**2, axis=0)
    return {"rates": float(np.sqrt(np.max(wrong))), "terms": model.size, **_alarms(model.warnings)}


def _cells(subset: Subset) -> list[Row]:
    levels = subset.pick("noise", NOISE)
    cells = [("good", name, k, noise) for name in MOTIONS for k in FINE for noise in levels]
    cells += [
        ("coarse", name, k, noise) for name in SWINGING for k in COARSE for noise in levels if noise < 0.1
    ]
    cells += [("map", name, 0, noise) for name in MAPS for noise in levels if noise < 0.1]
    cells += [
        ("wrapped", f"wrapped {turn}", 0, noise) for turn in ("2π", "360") for noise in (0.0, 0.01, 0.05)
    ]
    cells += [("state missing", name, k, noise)
              for name in SWINGING for k in FINE[1:] for noise in (0.0, 0.001, 0.01)]  # fmt: skip
    cells += [("rounded", name, k, noise) for name in SWINGING for k in FINE for noise in (0.0, 0.01)]
    return _rows(subset, cells, subset.pick("seeds", SEEDS))


def _rows(subset: Subset, cells: list[tuple[str, str, float, float]], seeds: list[int]) -> list[Row]:
    """One row a cell and seed; those that differ in nothing but their noise follow each other."""
    return [
        {"kind": kind, "data": data, "per swing": k, "noise": noise, "seed": seed}
        for seed in seeds
        for kind, data, k, noise in cells
        if not subset.names or data in subset.names
    ]


def data_of(cell: Row) -> list[cindy.Trajectory]:
    kind, name, k, noise, seed = (cell[key] for key in ("kind", "data", "per swing", "noise", "seed"))
    if kind == "map":
        return of_a_map(name, noise, seed)
    if kind == "wrapped":
        return of_rotors(name, noise, seed)
    data = sampled(name, k, noise, seed)
    if kind == "state missing":
        return [cindy.Trajectory(one.t, one.x[:, :-1], one.states[:-1]) for one in data]
    if kind == "rounded":
        step = 0.02 * np.ptp(np.vstack([one.x for one in data]), axis=0)
        return [cindy.Trajectory(one.t, step * np.round(one.x / step), one.states) for one in data]
    return data


def _alarms(sentences: Any) -> Row:
    return {name: int(any(piece in str(one) for one in sentences)) for name, piece in SAID.items()}


def _looked_at(**cell: Any) -> Row:
    data = data_of(cell)
    swings = [len(one) / turns for one in data if (turns := periods(one)) >= 2]
    return {
        "spreads from zero": float(np.max(_from_zero(data))),
        "roughness": float(np.max(roughness(data))),
        "seen per swing": float(np.median(swings)) if swings else float("nan"),
        "next unknown": unknown_steps(data),
        "rates unknown": unknown_rates(data),
        **_alarms(oddities(data)),
    }


def _from_zero(data: list[cindy.Trajectory]) -> Floats:
    x = np.vstack([one.x for one in data])
    return np.abs(x.mean(axis=0)) / x.std(axis=0)


def _fits(subset: Subset) -> list[Row]:
    cells = [("all terms", name, k, noise)
             for name in MOTIONS for k in (12, 50) for noise in (0.01, 0.1)]  # fmt: skip
    cells += [("all terms, coarse", name, k, 0.01) for name in SWINGING for k in COARSE]
    cells += [("a term missing", name, 50, noise) for name in MOTIONS for noise in (0.01, 0.1)]
    return _rows(subset, cells, subset.pick("seeds", SEEDS[:1]))


SENTENCES = {
    "do not use": "not-explained",
    "mostly noise": "mostly-noise",
    "do not follow": "not-predictive",
    "driven": "unexplained-steps",
    "beyond noise": "large-residuals",
    "correlated": "correlated-residuals",
    "collinear": "collinear-terms",
    "exchangeable": "exchangeable-terms",
    "includes zero": "uncertain-terms",
}
"""Findings about models, by their codes."""


def _judged(**cell: Any) -> Row:
    system = MOTIONS[cell["data"]]()
    data = sampled(cell["data"], cell["per swing"], cell["noise"], cell["seed"])
    basis, truth = system.basis, system.coef
    if cell["kind"] == "a term missing":
        basis, truth = _without(system)
    got = attempt("fitted states", data, basis, truth.shape)
    extra, missing = support_of(got.coef, truth)
    explained = {} if got.model is None else got.model.explained
    right = extra + missing == 0 and cell["kind"] != "a term missing"
    codes = set() if got.model is None else {one.code for one in got.model.findings}
    said = {name: int(code in codes) for name, code in SENTENCES.items()}
    return {
        "right": int(right),
        "no model": int(got.model is None),
        "R² equations": float(explained.get("equations", np.nan)),
        "R² solutions": float(explained.get("solutions", np.nan)),
        "driven by": _kick(got.model, data),
        "noise over roughness": _beyond(got.model, data),
        "any": int(bool(got.warnings) or got.model is None),
        **said,
        **_alarms(oddities(data)),
        "seconds": got.seconds,
    }


def _without(system: systems.System) -> tuple[cindy.Basis, Floats]:
    """The basis without the nonlinear term of the largest coefficient, and the truth without it."""
    linear = {"1", *system.states}
    size = np.abs(system.coef).max(axis=1)
    worst = max((i for i, term in enumerate(system.terms) if term not in linear), key=lambda i: size[i])
    kept = [i for i in range(len(system.terms)) if i != worst]
    terms = system.basis.terms(system.states)
    return Listed(tuple(terms[i] for i in kept)), system.coef[kept]


def _kick(model: cindy.Model | None, data: list[cindy.Trajectory]) -> float:
    """The largest model error between two samples, in units of the noise."""
    if model is None or not np.all(np.isfinite(model.model_error)) or not np.all(model.noise > 0):
        return float("nan")
    step = float(np.median(np.diff(data[0].t)))
    return float(np.max(model.model_error * np.sqrt(step) / model.noise))


def _beyond(model: cindy.Model | None, data: list[cindy.Trajectory]) -> float:
    """The noise of the model in units of what local polynomials leave of the data."""
    if model is None or not np.all(model.noise > 0):
        return float("nan")
    rough = np.sqrt(np.mean([noise_level(one) ** 2 for one in data], axis=0))
    return float(np.max(model.noise / rough))


def _counts(rows: list[Row]) -> list[Row]:
    """Data sets of each kind, and how often each sentence was said."""
    table = []
    for kind in dict.fromkeys(row["kind"] for row in rows):
        group = [row for row in rows if row["kind"] == kind]
        said = [name for name in ("no model", "any", *SENTENCES, *SAID) if name in group[0]]
        table.append({"data": kind, "data sets": len(group)} | {n: sum(r[n] for r in group) for n in said})
    return table
