"""Some thirty models that a change of form must leave as they are: terms, coefficients, errors and warnings.

`python -m benchmarks frozen` compares every cell with benchmarks/results/frozen.json and says how far apart
the two are: identical to the bit, the same to six digits, the same terms with other coefficients, or other
terms. `--write` renews the file, `--names` picks cells by the beginning of their name, `--out` is the folder.
Whoever moves code runs it before and after, on one machine: processors differ in the last digits, and an
ill-posed cell shows them earlier than others.
"""

import json
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

import cindy
from benchmarks import chaotic_systems
from benchmarks.cells import Subset
from benchmarks.pde_systems import allen_cahn, burgers, kdv, kuramoto_sivashinsky
from cindy import systems

Cell = Callable[[], cindy.Model]

SAME = 1e-6
"""Relative difference of two numbers below which they count as the same."""


def _cell(system: systems.System, basis: cindy.Basis | None = None, **settings: Any) -> Cell:
    """`identify` on a simulation of the system; `physics=True` imposes what is known of it."""
    data = {k: settings.pop(k) for k in ("noise", "trajectories", "points", "horizon") if k in settings}
    physics = settings.pop("physics", False)

    def fit() -> cindy.Model:
        runs = system.simulate(seed=3, **data)
        laws = system.constraints() if physics else settings.get("constraints", ())
        return cindy.identify(runs, basis or system.basis, **{**settings, "constraints": laws})

    return fit


def _damaged(kind: str) -> Cell:
    """Lorenz at 5 % noise with entries that are missing, or far off, or noise that differs between states."""

    def fit() -> cindy.Model:
        rng = np.random.default_rng(5)
        runs = systems.lorenz().simulate(seed=3, noise=0.05, trajectories=2, points=1200, horizon=6.0)
        spread = np.vstack([run.x for run in runs]).std(axis=0)
        changed = []
        for run in runs:
            x = np.array(run.x)
            hit = rng.random(x.shape) < (0.2 if kind == "holes" else 0.01)
            if kind == "holes":
                x[hit] = np.nan
            elif kind == "outliers":
                x = x + np.where(hit, 6.0 * spread * rng.choice([-1.0, 1.0], x.shape), 0.0)
            else:
                x = x + spread * np.array([0.0, 0.05, 0.2]) * rng.standard_normal(x.shape)
            changed.append(cindy.Trajectory(run.t, x, run.states))
        return cindy.identify(changed, cindy.Polynomial(2))

    return fit


def _map() -> cindy.Model:
    """Hénon's map, both states measured with 0.2 % noise."""
    x = np.zeros((400, 2))
    for k in range(len(x) - 1):
        x[k + 1] = 1.0 - 1.4 * x[k, 0] ** 2 + x[k, 1], 0.3 * x[k, 0]
    noisy = x + 0.002 * np.random.default_rng(1).standard_normal(x.shape)
    data = cindy.Trajectory(np.arange(float(len(x))), noisy, ("x", "y"))
    return cindy.identify(data, cindy.Polynomial(3), formulation=cindy.Discrete())


def _rates() -> cindy.Model:
    """Van der Pol's equation from noisy positions alone."""
    t = np.linspace(0.0, 15.0, 500)
    starts = np.array([[0.5, 0.0], [-2.5, 1.0]])
    exact = systems.integrate(systems.van_der_pol().rhs, starts, t)
    noise = 0.02 * np.random.default_rng(2).standard_normal((2, len(t), 1))
    runs = [cindy.Trajectory(t, exact[:, k, :1] + noise[k], ("x",)) for k in range(2)]
    return cindy.identify(runs, cindy.Polynomial(3), formulation=cindy.Integral(order=2, rates=True))


def _orbit() -> cindy.Model:
    """A closed orbit, on which cubic terms repeat linear ones."""
    t = 0.02 * np.arange(1000)
    x = np.stack([np.cos(2 * t), -2 * np.sin(2 * t)], axis=1)
    noisy = x + 0.01 * np.random.default_rng(7).standard_normal(x.shape)
    return cindy.identify(cindy.Trajectory(t, noisy, ("x", "v")), cindy.Polynomial(3))


def _driven() -> cindy.Model:
    """An oscillator with a measured input."""
    t = np.linspace(0.0, 20.0, 800)
    force = np.sin(1.7 * t) + 0.5 * np.cos(0.6 * t)
    x = np.zeros((len(t), 2))
    h = t[1] - t[0]
    for k in range(len(t) - 1):
        z = x[k]
        for part in range(20):
            u = force[k] + (force[k + 1] - force[k]) * part / 20
            z = z + h / 20 * np.array([z[1], -3.0 * z[0] - 0.4 * z[1] + u])
        x[k + 1] = z
    noisy = x + 0.005 * np.random.default_rng(4).standard_normal(x.shape)
    data = cindy.Trajectory(t, noisy, ("x", "v"), u=force[:, None], inputs=("u",))
    return cindy.identify(data, cindy.Polynomial(2))


def _uptake(noise: float) -> Cell:
    """Michaelis and Menten's rate law with an unknown number inside."""

    def fit() -> cindy.Model:
        t = np.linspace(0.0, 6.0, 200)
        exact = systems.integrate(lambda s: -1.2 * s / (0.37 + s), np.array([[2.0], [4.0]]), t)
        rng = np.random.default_rng(6)
        runs = [
            cindy.Trajectory(t, exact[:, k] + noise * rng.standard_normal((len(t), 1)), ("S",))
            for k in range(2)
        ]
        law = cindy.Custom({"uptake": "S/(K + S)"}, parameters={"K": (0.01, 10.0)})
        return cindy.identify(runs, cindy.Polynomial(2) + law)

    return fit


def _field(system: Any, noise: float) -> Cell:
    def fit() -> cindy.Model:
        return cindy.identify(
            system.simulate(seed=3, noise=noise), system.basis, formulation=cindy.Weak(order=system.order)
        )

    return fit


def _chaotic(name: str, noise: float) -> Cell:
    """One of the seventy chaotic systems, polynomials to degree 4."""

    def fit() -> cindy.Model:
        system = chaotic_systems.systems()[name]
        t, x = chaotic_systems.clean(system, Subset().cache)
        return cindy.identify(chaotic_systems.measured_with(system, t, x, noise, 3), system.basis)

    return fit


def _parts() -> cindy.Model:
    """Data that are gathered in pieces and solved afterwards."""
    runs = systems.lorenz().simulate(seed=3, noise=1e-3, trajectories=4, points=4000)
    first, second = (cindy.accumulate(half, cindy.Polynomial(3)) for half in (runs[:2], runs[2:]))
    return cindy.solve(cindy.Problem(first + second))


LORENZ, PREY, POL = systems.lorenz(), systems.lotka_volterra(), systems.van_der_pol()
KURAMOTO, ENZYME = systems.kuramoto(5), systems.michaelis_menten()
CUBIC = cindy.Polynomial(3)
CELLS: dict[str, Cell] = {
    "states: lorenz 1 %": _cell(LORENZ, CUBIC, noise=0.01, trajectories=2, points=2000),
    "states: lorenz 1e-6": _cell(LORENZ, noise=1e-6, trajectories=1, points=1500),
    "states: lorenz 30 %": _cell(LORENZ, noise=0.3, trajectories=1, points=1000, horizon=10.0),
    "states: rossler 10 %": _cell(systems.rossler(), noise=0.1, trajectories=1, points=800, horizon=40.0),
    "states: duffing 2 %": _cell(systems.duffing(), noise=0.02, trajectories=2, points=300),
    "states: fput5 1e-6": _cell(
        systems.fput(5), noise=1e-6, points=2250, formulation=cindy.Integral(order=2)
    ),
    "states: michaelis 1e-3": _cell(ENZYME, noise=1e-3),
    "states: prey 10 %": _cell(PREY, CUBIC, noise=0.1, trajectories=2, points=150),
    "states: chaotic, Qi-Chen 20 %": _chaotic("QiChen", 0.2),
    "states: chaotic, Hyper-Bao 40 %": _chaotic("HyperBao", 0.4),
    "states: closed orbit": _orbit,
    "states: an input": _driven,
    "rates: van der pol 2 %": _rates,
    "map: henon": _map,
    "constraints: kuramoto5, exchange": _cell(KURAMOTO, physics=True, noise=1e-4, points=2000),
    "constraints: michaelis, conserved": _cell(ENZYME, physics=True, noise=1e-3),
    "constraints: van der pol, bounded": _cell(
        POL, noise=0.01, constraints=(cindy.bound("x", "x", upper=0.5),)
    ),
    "constraints: prey, one coefficient known": _cell(
        PREY, noise=0.02, constraints=(cindy.fix("x", "x", 1.0),)
    ),
    "damage: holes": _damaged("holes"),
    "damage: outliers": _damaged("outliers"),
    "damage: unequal noise": _damaged("unequal"),
    "much data: lorenz 40,000": _cell(LORENZ, noise=0.02, trajectories=4, points=40_000, horizon=100.0),
    "many terms: kuramoto5": _cell(KURAMOTO, noise=1e-4, points=2000),
    "one pass: lorenz 1 %": _cell(LORENZ, CUBIC, noise=0.01, trajectories=2, points=2000, passes=1),
    "one pass: prey, cross-validation": _cell(PREY, noise=0.01, selection=cindy.CrossValidation(), passes=1),
    "one pass: the paper's form": _cell(
        KURAMOTO,
        noise=1e-4,
        points=1000,
        formulation=cindy.Differential(),
        weights=cindy.Uniform(),
        correction=cindy.Blended(),
        selection=cindy.Gap(1e-4),
    ),
    "one pass: lorenz, first sample": _cell(
        LORENZ, noise=0.01, trajectories=2, points=2000, formulation=cindy.Integral(initial="first"), passes=1
    ),
    "one pass: gathered in parts": _parts,
    "rules: prey, cross-validation": _cell(PREY, noise=0.01, selection=cindy.CrossValidation()),
    "rules: prey, BIC": _cell(PREY, CUBIC, noise=0.01, selection=cindy.BIC()),
    "rules: lorenz, seven terms": _cell(
        LORENZ, noise=0.05, trajectories=1, points=800, selection=cindy.Terms(7)
    ),
    "parameters: uptake 1 %": _uptake(0.02),
    "parameters: uptake 5 %": _uptake(0.1),
    "fields: burgers 10 %": _field(burgers(), 0.1),
    "fields: korteweg-de vries 1 %": _field(kdv(), 0.01),
    "fields: allen-cahn 10 %": _field(allen_cahn(), 0.1),
    "fields: kuramoto-sivashinsky 25 %": _field(kuramoto_sivashinsky(), 0.25),
}


def run(subset: Subset) -> None:
    """Compare every cell with the file, or write it."""
    file = subset.out / "frozen.json"
    known: dict[str, Any] = json.loads(file.read_text(encoding="utf-8")) if file.exists() else {}
    names = [name for name in CELLS if not subset.names or name.startswith(subset.names)]
    moved = 0
    for name in names:
        began = time.process_time()
        record = _record(CELLS[name]())
        seconds = time.process_time() - began
        if subset.write or name not in known:
            said, known[name] = "written", record
        else:
            said = _difference(record, known[name])
            moved += said != "identical"
        print(f"{name:42} {seconds:5.1f} s  {said}", flush=True)
    print(f"{len(names) - moved} of {len(names)} identical", flush=True)
    if subset.write or not file.exists():
        _write(file, {name: known[name] for name in CELLS if name in known})


def _record(model: cindy.Model) -> dict[str, Any]:
    """What is compared: coefficients by equation and term, with every digit, and what is said of them."""
    return {
        "coef": _entries(model, model.coef),
        "error": _entries(model, model.coef_error),
        "parameters": {name: repr(value) for name, value in _parameters(model).items()},
        "path": len(model.path),
        "warnings": list(model.warnings),
    }


def _entries(model: cindy.Model, values: Any) -> dict[str, str]:
    return {
        f"{state}: {term}": repr(float(values[i, j]))
        for j, state in enumerate(model.states)
        for i, term in enumerate(model.terms)
        if model.coef[i, j] != 0
    }


def _parameters(model: cindy.Model) -> dict[str, float]:
    return {name: float(value) for name, value in dict(getattr(model, "parameters", {}) or {}).items()}


def _difference(new: dict[str, Any], old: dict[str, Any]) -> str:
    """One phrase: in what two records differ."""
    extra, missing = (sorted(set(a["coef"]) - set(b["coef"])) for a, b in ((new, old), (old, new)))
    if extra or missing:
        return "other terms: " + ", ".join([*(f"+ {e}" for e in extra), *(f"− {m}" for m in missing)])
    apart = [key for key in old if new[key] != old[key]]
    if not apart:
        return "identical"
    parts = []
    for key in ("coef", "error", "parameters"):
        distance = _distance(new[key], old[key])
        if distance > SAME:
            parts.append(f"{key} differ by {distance:.1g}")
    parts += [f"{key} differ" for key in ("path", "warnings") if key in apart]
    return "; ".join(parts) or "the same to six digits"


def _distance(new: dict[str, str], old: dict[str, str]) -> float:
    """The largest relative difference of an entry."""
    pairs = [(float(new[key]), float(old[key])) for key in old if key in new]
    return max((abs(a - b) / max(abs(a), abs(b)) for a, b in pairs if a != b), default=0.0)


def _write(file: Path, known: dict[str, Any]) -> None:
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_text(json.dumps(known, indent=1, ensure_ascii=False) + "\n", encoding="utf-8")
