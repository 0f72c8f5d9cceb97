"""WeakIDENT's data sets: five systems and five fields with noise, and the errors its authors report.

Data: Tang, Liao, Kuske, Kang, WeakIdent, J. Comput. Phys. 483 (2023), 112069; each file holds the states, the
coordinates and the true coefficients. Noise is white, in units of the root mean square of a state about the
middle of its range. The errors beside ours are those of the sample output that comes with their code.
"""

import time
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

import cindy
from benchmarks.attempt import median, relative, support_of
from benchmarks.cells import Row, Subset, measured
from benchmarks.table import write

__all__ = ["compare"]

Floats = NDArray[np.float64]
SEEDS = (0, 1, 2)


@dataclass(frozen=True)
class Case:
    """A file, the degree of the library, the noise, and what was published: error, share of true terms found.

    every: of so many samples one is used; their rows, too, stand that far apart
    """

    degree: int
    noise: float
    error: float
    found: float = 1.0
    every: int = 1


SYSTEMS = {
    "Linear2d": Case(6, 0.1, 0.00256),
    "VanderPol": Case(5, 0.1, 0.0182, every=15),
    "Duffing": Case(5, 0.1, 0.0360, 0.75),
    "LotkaVolterra": Case(3, 0.1, 0.0661),
    "Lorenz": Case(3, 0.1, 0.00077, every=5),
}
FIELDS = {
    "transportDiff": Case(6, 0.5, 0.0075),
    "heat": Case(6, 0.1, 0.0015),
    "KdV": Case(6, 0.2, 0.0200),
    "KS": Case(6, 0.4, 0.0627),
    "NLS": Case(6, 0.1, 0.0075),
}
DERIVATIVES = 6


def compare(subset: Subset, folder: Path) -> None:
    """Measure the cells that are asked for, and write the table."""
    asked = {n for n in subset.names if n != "weakident"}
    names = [n for n in (*SYSTEMS, *FIELDS) if n in asked or not asked]
    cells = [{"data": name, "seed": seed} for name in names for seed in subset.pick("seeds", SEEDS)]

    def work(data: str, seed: int) -> Row:
        return _measure(folder / f"{data}.npy", data, seed)

    kept = measured("weakident_cells", cells, work, subset, show=False)
    rows = []
    for name, case in {**SYSTEMS, **FIELDS}.items():
        mine = [row for row in kept if row["data"] == name]
        if mine:
            rows.append(
                {
                    "data": name,
                    "noise": f"{case.noise:.0%}",
                    "true terms found": median([float(row["tpr"]) for row in mine]),
                    "terms that are true": median([float(row["ppv"]) for row in mine]),
                    "right": f"{sum(int(row['right']) for row in mine)} of {len(mine)}",
                    "error": median([float(row["error"]) for row in mine]),
                    "WeakIDENT found": case.found,
                    "WeakIDENT error": case.error,
                    "s": median([float(row["seconds"]) for row in mine]),
                }
            )
    write(
        "weakident",
        "WeakIDENT's data sets",
        rows,
        "Data, noise and libraries of WeakIDENT; medians over draws of the noise. Error: ‖Ξ − Ξ*‖ / ‖Ξ*‖. "
        "WeakIDENT: one draw, from the sample output of its authors. Of VanderPol every 15th sample "
        "is used and of Lorenz every 5th.",
        folder=subset.out,
    )


def _measure(file: Path, name: str, seed: int) -> Row:
    values, coordinates, equations = _read(file)
    rng = np.random.default_rng([seed, 24])
    case = SYSTEMS.get(name) or FIELDS[name]
    shaken = [one + case.noise * _size(one) * rng.standard_normal(one.shape) for one in values]
    states = ("x", "y", "z")[: len(values)] if name in SYSTEMS else ("u", "v")[: len(values)]
    data: Any
    basis: Any
    if name in SYSTEMS:
        basis = cindy.Polynomial(case.degree)
        terms = basis.names(states)
        x = np.stack([one.ravel() for one in shaken], axis=1)[:: case.every]
        data = cindy.Trajectory(coordinates[0][:: case.every], x, states)
    else:
        basis = cindy.Derivatives(case.degree, DERIVATIVES)
        terms = basis.on_axes(("x",)).names(states)
        data = cindy.Field(**dict(zip(states, shaken, strict=True)), x=coordinates[0], t=coordinates[1])
    truth = np.zeros((len(terms), len(states)))
    for j, equation in enumerate(equations):
        for row in equation:
            truth[terms.index(_term(row, states)), j] = row[-1]
    began = time.process_time()
    coef = np.asarray(cindy.identify(data, basis).coef)
    seconds = time.process_time() - began
    extra, missing = support_of(coef, truth)
    there = int(np.count_nonzero(truth)) - missing
    return {
        "tpr": there / (there + missing),
        "ppv": there / max(there + extra, 1),
        "right": int(extra + missing == 0),
        "error": relative(coef, truth),
        "seconds": seconds,
    }


def _read(file: Path) -> tuple[list[Floats], list[Floats], list[list[list[float]]]]:
    """States, coordinates, and of each equation rows of powers, derivatives and a coefficient."""
    with file.open("rb") as stream:
        parts = [np.load(stream, allow_pickle=True) for _ in range(3)]
    values = [np.asarray(one, dtype=np.float64) for one in parts[0]]
    coordinates = [np.ravel(np.asarray(one, dtype=np.float64)) for one in parts[1]]
    return values, coordinates, [np.asarray(one, dtype=np.float64).tolist() for one in parts[2]]


def _size(values: Floats) -> float:
    return float(np.sqrt(np.mean((values - 0.5 * (values.max() + values.min())) ** 2)))


def _term(row: list[float], states: tuple[str, ...]) -> str:
    """The name of a term, from its powers of the states and how often it is derived by x."""
    factors = [
        name + (f"^{power:g}" if power > 1 else "") for name, power in zip(states, row, strict=False) if power
    ]
    name = " ".join(factors)
    derived = int(row[len(states)])
    if not derived:
        return name
    whole = name if len(factors) == 1 and "^" not in name else f"({name})"
    return f"{whole}_{'x' * derived}"
