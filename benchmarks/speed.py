"""What a default fit takes, in turns with other versions: `--methods now,7b0b029` names revisions of git.

1. The data of a case are made once, by this version, and kept in a file.
2. Every version fits them in a process of its own, with its source from `git archive`, one after the other,
   so that what else the machine does falls on all of them alike. The fit alone is timed, after a small one
   for which libraries are loaded.
3. A case has one row for each version: medians over its data sets, and the median of the ratios to the
   version that is named last.
"""

import io
import os
import subprocess
import sys
import tarfile
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from statistics import median

import numpy as np
from numpy.typing import NDArray

import cindy
from benchmarks.cells import Row, Subset, measured
from benchmarks.chaotic_systems import DEGREE, clean, measured_with, systems
from benchmarks.large import CASES as RINGS
from benchmarks.table import write

__all__ = ["run"]

Floats = NDArray[np.float64]
ROOT = Path(__file__).parent.parent
NOW = "now"
SEEDS = (0,)
TWELVE = tuple(systems())[::6]

FIT = """
import sys, time, warnings
import numpy as np, cindy
path, basis, settings = sys.argv[1:]
warnings.simplefilter("ignore")
with np.load(path) as file:
    states = tuple(str(name) for name in file["states"])
    runs = [cindy.Trajectory(t, x, states) for t, x in zip(file["t"], file["x"], strict=True)]
t = np.linspace(0.0, 10.0, 200)
turn = np.stack([np.cos(t), -np.sin(t)], axis=1) + 0.01 * np.random.default_rng(0).standard_normal((200, 2))
cindy.identify(cindy.Trajectory(t, turn), cindy.Polynomial(2), **eval(settings))
wall, processor = time.perf_counter(), time.process_time()
model = cindy.identify(runs, eval(basis), **eval(settings))
print(time.process_time() - processor, time.perf_counter() - wall, np.count_nonzero(model.coef))
"""


@dataclass(frozen=True)
class Case:
    """Data sets that are fitted in one way. make: the trajectories of a data set, by its name and a seed."""

    names: tuple[str, ...]
    make: Callable[[str, int, Path], list[cindy.Trajectory]]
    basis: str
    settings: str = "{}"


def chaotic(noise: float) -> Case:
    """Twelve of the seventy chaotic systems."""

    def make(name: str, seed: int, cache: Path) -> list[cindy.Trajectory]:
        system = systems()[name]
        return measured_with(system, *clean(system, cache), noise, seed)

    return Case(TWELVE, make, f"cindy.Polynomial({DEGREE})")


def oscillators(name: str, seed: int, cache: Path) -> list[cindy.Trajectory]:
    """Fifteen damped oscillators that are weakly coupled: 30 states, 8 runs of 400 samples, 1 % noise."""
    rng = np.random.default_rng(seed)
    size, t = 30, np.linspace(0.0, 10.0, 400)
    law = np.zeros((size, size))
    for i in range(0, size, 2):
        turn = rng.uniform(1.0, 3.0)
        law[i : i + 2, i : i + 2] = [[-0.1, turn], [-turn, -0.1]]
        law[i, (i + 2) % size] = 0.3
    values, vectors = np.linalg.eig(law)
    runs = []
    for _ in range(8):
        start = np.linalg.solve(vectors, rng.standard_normal(size))
        x = ((np.exp(np.multiply.outer(t, values)) * start) @ vectors.T).real
        noisy = x + 0.01 * x.std(axis=0) * rng.standard_normal(x.shape)
        runs.append(cindy.Trajectory(t, noisy, [f"x{k}" for k in range(size)]))
    return runs


def ring(name: str, seed: int, cache: Path) -> list[cindy.Trajectory]:
    """Twenty states on a ring of Lorenz (1996), as in the section `large`; its draws are its own."""
    return next(case for case in RINGS if case.states == 20).data()


CASES = {
    "12 chaotic systems, 10 % noise": chaotic(0.1),
    "12 chaotic systems, 40 % noise": chaotic(0.4),
    "30 linear states, 3,200 samples": Case(("oscillators",), oscillators, "cindy.Polynomial(1)"),
    "1,771 terms, 20 states, one pass": Case(("ring",), ring, "cindy.Polynomial(3)", "{'passes': 1}"),
    "1,771 terms, 20 states": Case(("ring",), ring, "cindy.Polynomial(3)"),
}


def run(subset: Subset = Subset()) -> None:  # noqa: B008
    """One row a data set and version; a table of medians."""
    versions = list(subset.methods or (NOW,))
    sources = {version: _source(version, subset.cache) for version in versions}
    names = subset.pick("names", tuple(dict.fromkeys(name for case in CASES.values() for name in case.names)))
    cells = [
        {"case": case, "data": name, "seed": seed, "version": version}
        for case in CASES
        for name in CASES[case].names
        if name in names
        for seed in subset.pick("seeds", SEEDS)
        for version in versions
    ]

    def work(case: str, data: str, seed: int, version: str) -> Row:
        path = subset.cache / "speed" / f"{list(CASES).index(case)}-{data}-{seed}.npz"
        if not path.exists():
            _save(path, CASES[case].make(data, seed, subset.cache))
        return _fitted(sources[version], path, CASES[case])

    rows = measured("speed_cells", cells, work, subset)
    asked = {tuple(cell.values()) for cell in cells}
    write(
        "speed",
        "What a fit takes, version by version",
        list(_medians([row for row in rows if tuple(row[key] for key in cells[0]) in asked], versions)),
        "Medians over the data sets of a case, which every version fits in turns, in a process of its own. "
        "`ratio`: the median ratio of processor time to that of the version named last.",
        folder=subset.out,
        how="the threads that a fit takes by default",
    )


def _source(version: str, cache: Path) -> Path:
    """The source of a version: that of the working tree, or of a revision out of git."""
    if version == NOW:
        return ROOT / "src"
    folder = cache / "versions" / version
    if not folder.exists():
        tree = ["git", "-C", str(ROOT), "archive", version, "src"]
        archive = subprocess.run(tree, check=True, capture_output=True).stdout
        with tarfile.open(fileobj=io.BytesIO(archive)) as files:
            files.extractall(folder, filter="data")
    return folder / "src"


def _save(path: Path, runs: list[cindy.Trajectory]) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    part = path.with_suffix(".part.npz")
    np.savez(part, t=[run.t for run in runs], x=[run.x for run in runs], states=runs[0].states)
    part.replace(path)


def _fitted(source: Path, data: Path, case: Case) -> Row:
    """Seconds of the processor and of the clock that a fit takes, and the number of its terms."""
    command = [sys.executable, "-c", FIT, str(data), case.basis, case.settings]
    first = {"PYTHONPATH": os.pathsep.join([str(source), os.environ.get("PYTHONPATH", "")])}
    printed = subprocess.run(
        command, check=True, stdout=subprocess.PIPE, text=True, env={**os.environ, **first}
    ).stdout
    processor, wall, terms = printed.split()
    return {"seconds": float(processor), "wall": float(wall), "terms": int(terms)}


def _medians(rows: list[Row], versions: list[str]) -> Iterator[Row]:
    last = {(row["case"], row["data"], row["seed"]): row for row in rows if row["version"] == versions[-1]}
    for case in dict.fromkeys(row["case"] for row in rows):
        for version in versions:
            its = [row for row in rows if (row["case"], row["version"]) == (case, version)]
            ratios = [row["seconds"] / last[case, row["data"], row["seed"]]["seconds"] for row in its]
            yield {
                "case": case,
                "version": version,
                "fits": len(its),
                "processor (s)": median(row["seconds"] for row in its),
                "wall (s)": median(row["wall"] for row in its),
                "processor / wall": median(row["seconds"] / row["wall"] for row in its),
                "ratio": median(ratios),
            }
