"""Twelve cells that a change of form must leave as they are: coefficients, errors, paths and warnings.

`python -m benchmarks frozen --out before` keeps them; run again with the same folder, the section says
for every cell whether it is identical. Whoever moves code runs it before and after.
"""

import json
from collections.abc import Callable
from typing import Any

import numpy as np

import cindy
from benchmarks.cells import Subset
from cindy import systems

Cell = Callable[[], cindy.Model]


def _cell(system: Any, basis: cindy.Basis | None = None, *, physics: bool = False, **settings: Any) -> Cell:
    data = {k: settings.pop(k) for k in ("noise", "trajectories", "points", "horizon") if k in settings}

    def made() -> cindy.Model:
        runs = system.simulate(seed=3, **data)
        laws = system.constraints() if physics else settings.pop("constraints", ())
        return cindy.identify(runs, basis or system.basis, constraints=laws, **settings)

    return made


CELLS: dict[str, Cell] = {
    "lorenz 1 %": _cell(systems.lorenz(), cindy.Polynomial(3), noise=0.01, trajectories=2, points=2000),
    "lorenz 1e-6": _cell(systems.lorenz(), cindy.Polynomial(2), noise=1e-6, trajectories=1, points=1500),
    "kuramoto5 1e-4": _cell(systems.kuramoto(5), noise=1e-4, points=2000),
    "kuramoto5 1e-4, exchange": _cell(systems.kuramoto(5), physics=True, noise=1e-4, points=2000),
    "fput5 1e-6": _cell(systems.fput(5), noise=1e-6, points=2250, formulation=cindy.Integral(order=2)),
    "michaelis 1e-3": _cell(systems.michaelis_menten(), noise=1e-3),
    "michaelis 1e-3, conserved": _cell(systems.michaelis_menten(), physics=True, noise=1e-3),
    "lotka-volterra 1 %, cross-validation": _cell(
        systems.lotka_volterra(), cindy.Polynomial(2), noise=0.01, selection=cindy.CrossValidation()
    ),
    "lotka-volterra 1 %, BIC": _cell(
        systems.lotka_volterra(), cindy.Polynomial(3), noise=0.01, selection=cindy.BIC()
    ),
    "van der pol 1 %, bounded": _cell(
        systems.van_der_pol(),
        cindy.Polynomial(3),
        noise=0.01,
        constraints=(cindy.bound(*systems.van_der_pol().states[:1], "x", upper=0.5),),
    ),
    "kuramoto5 1e-4, the paper's form": _cell(
        systems.kuramoto(5),
        noise=1e-4,
        points=1000,
        formulation=cindy.Differential(),
        weights=cindy.Uniform(),
        correction=cindy.Blended(),
        selection=cindy.Gap(1e-4),
    ),
    "lorenz 1 %, first sample": _cell(
        systems.lorenz(),
        cindy.Polynomial(2),
        noise=0.01,
        trajectories=2,
        points=2000,
        formulation=cindy.Integral(initial="first"),
    ),
}


def run(subset: Subset) -> None:
    """Compare with what the folder holds, or fill it."""
    subset.out.mkdir(parents=True, exist_ok=True)
    file = subset.out / "frozen.json"
    known = json.loads(file.read_text(encoding="utf-8")) if file.exists() else {}
    for name in subset.pick("names", list(CELLS)):
        found = _plain(CELLS[name]())
        if name in known:
            apart = [key for key in found if found[key] != known[name].get(key)]
            print(f"{name:40} {'identical' if not apart else 'differs in ' + ', '.join(apart)}", flush=True)
        else:
            known[name] = found
            print(f"{name:40} kept, {found['terms']} terms", flush=True)
    file.write_text(json.dumps(known), encoding="utf-8")


def _plain(model: cindy.Model) -> dict[str, Any]:
    """Every digit: floats as hexadecimal text."""

    def digits(values: np.ndarray) -> list[str]:
        return [float(v).hex() for v in np.ravel(values)]

    return {
        "terms": model.size,
        "coef": digits(model.coef),
        "coef_error": digits(model.coef_error),
        "path": [digits(one.coef) for one in model.path],
        "scores": digits(np.array(model.path.scores)),
        "warnings": list(model.warnings),
    }
