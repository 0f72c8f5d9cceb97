"""Laws with states that nobody measured: Lorenz without z, Rössler by one of three, and others."""

import time
from dataclasses import replace

import numpy as np
from numpy.typing import NDArray
from scipy.optimize import least_squares

import cindy
from benchmarks.attempt import median
from benchmarks.cells import Row, Subset, measured
from benchmarks.hidden_systems import CASES, Case
from benchmarks.table import write

__all__ = ["run"]

Floats = NDArray[np.float64]

NOISE = (0.01, 0.05)
SEEDS = tuple(range(10))


def run(subset: Subset = Subset()) -> None:  # noqa: B008
    """One row a system, level and draw; a table over the draws."""
    cells = [
        {"system": name, "noise": noise, "seed": seed}
        for seed in subset.pick("seeds", SEEDS)
        for noise in subset.pick("noise", NOISE)
        for name in subset.pick("names", tuple(CASES))
    ]
    rows = measured("hidden_cells", cells, _measure, subset)
    # What the data allow hangs on the cell alone, and is asked for wherever the table has one.
    every = [{key: row[key] for key in ("system", "noise", "seed")} for row in rows]
    bound = replace(subset, anew=False)
    bounds = {_cell(row): row["r2"] for row in measured("hidden_truth_cells", every, _bound, bound)}
    table = []
    for name, noise in dict.fromkeys((row["system"], row["noise"]) for row in rows):
        group = [row for row in rows if (row["system"], row["noise"]) == (name, noise)]
        known = bool(CASES[name].laws)
        possible = [bounds[_cell(row)] for row in group]
        table.append(
            {
                "system": name,
                "noise": noise,
                "draws": len(group),
                "right terms": sum(bool(row["right"]) for row in group) if known else "–",
                "R² above 0.95": sum(row["r2"] > 0.95 for row in group),
                "failures told": sum(row["r2"] <= 0.95 and bool(row["doubt"]) for row in group),
                "true law above 0.95": sum(r2 > 0.95 for r2 in possible),
                "R²": median([row["r2"] for row in group]),
                "R² of the true law": median(possible),
                "terms": median([row["terms"] for row in group]),
                "left": median([row["left"] for row in group]),
                "seconds": median([row["seconds"] for row in group]),
            }
        )
    write(
        "hidden",
        "States that nobody measured",
        sorted(table, key=lambda row: (list(CASES).index(row["system"]), row["noise"])),
        "`identify(data, basis, hidden=…)`: three runs of 1,000 samples, noise relative to the spread of "
        "each column. `right terms`: draws with the terms of the law in a sparsest gauge, where it is known; "
        "`R²`: of the columns of a fresh run (100 samples for Lorenz, 400 for Rössler, which are chaotic), "
        "from the states that are fitted to its first fifth; `true law`: the same with the equations that "
        "made the data and the most likely start, which is the most that the first fifth tells; `failures "
        "told`: draws below 0.95 in which there is no model, or a finding doubts it; `left`: the variance "
        "that the law leaves, over that of the noise; `seconds`: of the processor.",
        folder=subset.out,
    )


_DOUBTS = {
    "hidden-unidentified",
    "hidden-not-needed",
    "large-residuals",
    "not-explained",
    "not-forecast",
    "not-predictive",
    "unexplained-motion",
    "not-significant",
}
"""Findings that tell a reader not to trust a law with hidden states."""


def _cell(row: Row) -> tuple[str, float, int]:
    return row["system"], row["noise"], row["seed"]


def _bound(system: str, noise: float, seed: int) -> Row:
    """R² that the equations themselves have: their start fitted to the first fifth of the same fresh run."""
    case = CASES[system]
    t, truth, noisy = case.fresh(seed, noise)
    fifth = len(t) // 5
    spread = truth.std(axis=0)

    def left(start: Floats) -> Floats:
        return np.ravel((case.solved([start], t[:fifth])[:, 0] - noisy[:fifth]) / spread)

    # From the true start: this is the global maximum of the likelihood, and no search for it.
    fitted = least_squares(left, case.system.fresh, x_scale=1.0 + np.abs(case.system.fresh))
    return {"r2": _explained(case.solved([fitted.x], t)[:, 0], truth)}


def _explained(columns: Floats, truth: Floats) -> float:
    """R² of the column that is predicted worst."""
    return float(np.min(1 - np.mean((columns - truth) ** 2, axis=0) / truth.var(axis=0)))


def _measure(system: str, noise: float, seed: int) -> Row:
    case = CASES[system]
    data = case.simulate(seed, noise)
    began = time.process_time()
    try:
        model = cindy.identify(data, case.basis, hidden=case.hidden, observe=case.observe or None)
    except cindy.CindyError as error:
        wrong = {"right": 0, "r2": -np.inf, "left": np.inf, "terms": 0, "told": str(error), "doubt": 1}
        return {**wrong, "seconds": time.process_time() - began}
    seconds = time.process_time() - began
    terms = {(model.terms[i], model.states[j]) for i, j in np.argwhere(model.coef != 0)}
    left = _left(case, model, data, noise)
    codes = [one.code for one in model.findings]
    return {
        "right": int(frozenset(terms) in case.laws),
        "r2": _predicted(case, model, seed, noise),
        "left": left,
        "terms": len(terms),
        "told": ", ".join(codes),
        "doubt": int(bool(_DOUBTS & set(codes))),
        "seconds": seconds,
    }


def _left(case: Case, model: cindy.Model, data: list[cindy.Trajectory], noise: float) -> float:
    """The variance that the law leaves of the columns, over that of the noise."""
    seen = [name for name in case.seen if name in model.states]
    spread = np.nanstd(np.concatenate([one.x for one in data]), axis=0)
    ratios = [
        model.noise[model.states.index(name)] / (noise * spread[list(case.seen).index(name)]) for name in seen
    ]
    return float(np.max(ratios) ** 2)


def _predicted(case: Case, model: cindy.Model, seed: int, noise: float) -> float:
    """R² of the columns of a fresh run, from the states fitted to its first fifth."""
    t, truth, noisy = case.fresh(seed, noise)
    fifth = len(t) // 5
    begun = cindy.Trajectory(t[:fifth], noisy[:fifth], tuple(case.seen))
    try:
        [first] = model.smooth(begun)
        solved = model.simulate(first.x[0], t).x
    except cindy.CindyError:
        return -np.inf
    if len(solved) < len(truth):
        return -np.inf
    return _explained(_readouts(case, model, solved), truth)


def _readouts(case: Case, model: cindy.Model, states: np.ndarray) -> np.ndarray:
    """The columns that states of the model are measured by."""
    values = dict(zip(model.states, states.T, strict=True))
    if case.observe:
        values["total"] = values["P"] + values["D"]
    return np.stack([values[name] for name in case.seen], axis=1)
