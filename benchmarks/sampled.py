"""Sampled rows: passes over data on a disk until the objective is within 1 % of the least, and memory.

A full-gradient run reads all rows for every gradient; its passes are counted as its iterations,
one each, though the products of line searches would take more.
"""

import multiprocessing
import resource
import tempfile
import time
import warnings
from itertools import combinations_with_replacement
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks.table import write
from cindy.least_squares import LeastSquares, triangle
from cindy.solver import Direct, Plain, Region, SampledRows, conditional_gradient, oracle_for

ROWS, COLUMNS, TERMS = 1_000_000, 500, 30
WIDE_ROWS, WIDE_STATES, WIDE_TERMS = 10_000, 65, 40
CHUNK = 10_000
WITHIN = 1.01
NOTES = (
    f"{ROWS:,} rows of {COLUMNS} columns on disk (4 GB), {TERMS} true terms, correlated columns, noise "
    "a third of the signal; and a dictionary of 50,116 terms evaluated when read, whose factor would "
    "take 20 GB. Passes: data read until the objective was within 1 % of the least, in units of all "
    "rows; for full gradients, iterations. Gap: certified by a pass over all rows, relative to the loss "
    "at zero."
)


def run() -> None:
    rows = []
    with tempfile.TemporaryDirectory() as folder:
        radius = _write(Path(folder))
        regions = {"ball": Region(COLUMNS, radius), "ball and signs": _signs(radius)}
        regions["ball and bounds"] = _bounds(radius)
        factor = _factor(Path(folder))
        for name, region in regions.items():
            rows.append(_against_full_gradients(Path(folder), name, region, factor))
    rows.append(_in_a_fresh_process(_wide))
    write(
        "sampled",
        "Rows read in samples",
        rows,
        NOTES,
    )


def _write(folder: Path) -> float:
    """Design and target as files of numpy, row after row; the radius at which the truth is cut by a tenth."""
    rng = np.random.default_rng(0)
    truth = np.zeros(COLUMNS)
    truth[rng.choice(COLUMNS, TERMS, replace=False)] = rng.normal(size=TERMS)
    design = np.lib.format.open_memmap(folder / "design.npy", "w+", np.float64, (ROWS, COLUMNS))
    target = np.lib.format.open_memmap(folder / "target.npy", "w+", np.float64, (ROWS, 1))
    for begin in range(0, ROWS, CHUNK):
        part = rng.normal(size=(CHUNK, COLUMNS))
        part[:, 1:] += 0.7 * part[:, :-1]
        part += rng.normal(size=(CHUNK, 1))
        signal = part @ truth
        design[begin : begin + CHUNK] = part
        target[begin : begin + CHUNK, 0] = signal + 0.33 * signal.std() * rng.normal(size=CHUNK)
    design.flush()
    target.flush()
    return 0.9 * float(np.abs(truth).sum())


def _signs(radius: float) -> Region:
    """Every third coefficient must not be negative."""
    return Region(COLUMNS, radius, None, np.eye(COLUMNS)[::3], 0.0, np.inf)


def _bounds(radius: float) -> Region:
    """No coefficient beyond a tenth of the radius: a linear program at every call of the oracle."""
    return Region(COLUMNS, radius, None, np.eye(COLUMNS), -0.1 * radius, 0.1 * radius)


def _factor(folder: Path) -> LeastSquares:
    """All rows as one triangle, to know the least objective."""
    design = np.load(folder / "design.npy", mmap_mode="r")
    target = np.load(folder / "target.npy", mmap_mode="r")
    whole = np.zeros((0, COLUMNS + 1))
    for begin in range(0, ROWS, CHUNK):
        part = slice(begin, begin + CHUNK)
        whole = triangle(np.vstack([whole, np.hstack([design[part], target[part]])]))
    return LeastSquares(whole, COLUMNS, ROWS)


def _against_full_gradients(folder: Path, name: str, region: Region, factor: LeastSquares) -> dict[str, Any]:
    least = conditional_gradient(factor, oracle_for(region), tol=1e-9).objective
    full = {}
    for label, correction in (("corrective", Direct()), ("plain", Plain())):
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            history = conditional_gradient(
                factor, oracle_for(region), correction, tol=1e-9, max_iter=2000, callback=_until(least)
            ).history
        reached = history[-1].objective <= WITHIN * least
        full[label] = history[-1].iteration + 1 if reached else f"> {history[-1].iteration}"
    with multiprocessing.get_context("spawn").Pool(1) as pool:
        sampled = pool.apply(_on_disk, (folder, region, least))
    row = {"rows": ROWS, "columns": COLUMNS, "region": name, "passes, sampled": sampled.pop("passes")}
    return row | {f"passes, full {label}": count for label, count in full.items()} | sampled


def _until(least: float) -> Any:
    return lambda step: step.objective > WITHIN * least


def _on_disk(folder: Path, region: Region, least: float) -> dict[str, Any]:
    design, target = (np.load(folder / f"{name}.npy", mmap_mode="r") for name in ("design", "target"))
    return _run(SampledRows(design, target), region, least, 1e-4)


def _run(objective: SampledRows, region: Region, least: float | None, tol: float) -> dict[str, Any]:
    began, spent = time.perf_counter(), time.process_time()
    result = conditional_gradient(objective, oracle_for(region), tol=tol)
    seconds, wall = time.process_time() - spent, time.perf_counter() - began
    # Between passes the objective is an estimate: what counts is the next pass.
    honest = [
        b for a, b in zip(result.history, result.history[1:], strict=False) if b.passes - a.passes > 0.9
    ]
    row: dict[str, Any] = {"passes": result.passes}
    if least is not None:
        row["passes"] = next(step.passes for step in honest if step.objective <= WITHIN * least)
    return row | {
        "passes at the end": result.passes,
        "excess at the end": result.objective / least - 1 if least is not None else "",
        "gap": result.relative_gap,
        "terms": int(np.count_nonzero(result.x)),
        "memory MB": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1e3,
        "processor s": seconds,
        "wall s": wall,
    }


class _Dictionary:
    """All monomials of degree up to three at samples, evaluated for the rows that are asked for."""

    def __init__(self, samples: np.ndarray) -> None:
        self._samples = np.column_stack([np.ones(len(samples)), samples])
        self._factors = np.array(list(combinations_with_replacement(range(self._samples.shape[1]), 3))).T
        self.shape = (len(samples), self._factors.shape[1])

    def __getitem__(self, which: Any) -> np.ndarray:
        first, second, third = (self._samples[which].T[factor] for factor in self._factors)
        first *= second
        first *= third
        return first.T


def _wide() -> dict[str, Any]:
    rng = np.random.default_rng(1)
    design = _Dictionary(rng.uniform(-1.7, 1.7, size=(WIDE_ROWS, WIDE_STATES)))
    chosen = rng.choice(design.shape[1], WIDE_TERMS, replace=False)
    truth = rng.normal(size=WIDE_TERMS)
    target = np.concatenate([design[i : i + 100][:, chosen] @ truth for i in range(0, WIDE_ROWS, 100)])
    target += 0.1 * target.std() * rng.normal(size=WIDE_ROWS)
    region = Region(design.shape[1], float(np.abs(truth).sum()))
    row = _run(SampledRows(design, target), region, None, 1e-3)
    found = {
        "rows": WIDE_ROWS,
        "columns": design.shape[1],
        "region": "ball",
        "passes, sampled": row.pop("passes"),
    }
    return found | row


def _in_a_fresh_process(task: Any) -> Any:
    with multiprocessing.get_context("spawn").Pool(1) as pool:
        return pool.apply(task)
