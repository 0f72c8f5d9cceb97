"""SINDy-PI's noise study: a rational law, x' = 0.6 − 1.5 x/(0.3 + x), at the study's levels of noise.

2,400 simulated runs of Michaelis-Menten kinetics, 22 samples each, 0.1 apart, from x = 0.19 to 11; noise of
one size is added to all of them. Data: Kaheman, Kutz, Brunton, SINDy-PI, Proc. R. Soc. A 476 (2020), 20200279
(MMK_Simulation.mat, without noise). The study adds noise of 1e-7 to 0.5 to 2,400 runs and takes derivatives
of each; a rational law is there a sum of polynomials in x and x' that is zero. Here 120 of the runs are used,
and the denominator has an unknown parameter K beside polynomials to degree 4.
"""

import time
from pathlib import Path
from typing import Any

import numpy as np
from scipy.io import loadmat

import cindy
from benchmarks.attempt import median
from benchmarks.cells import Subset
from benchmarks.table import write

__all__ = ["compare"]

STEP, SAMPLES, RUNS = 0.1, 22, 120
LEVELS = (0.001, 0.01, 0.1, 0.5)
SEEDS = (0, 1)
TERMS = {"1": 0.6, "x/(K + x)": -1.5}
K = 0.3


def compare(subset: Subset, folder: Path) -> None:
    """The law at every level of noise, and a table of how often it is right."""
    every = np.ravel(loadmat(folder / "MMK_Simulation.mat")["Data"]).reshape(-1, SAMPLES)
    clean = every[np.linspace(0, len(every) - 1, RUNS).astype(int)]
    rows = []
    for level in subset.pick("noise", LEVELS):
        cells = [_measure(clean, level, seed) for seed in subset.pick("seeds", SEEDS)]
        rows.append(
            {
                "noise": level,
                "right": f"{sum(cell['right'] for cell in cells)} of {len(cells)}",
                "error": median([cell["error"] for cell in cells]),
                "s": median([cell["seconds"] for cell in cells]),
                "law": cells[0]["law"],
            }
        )
    write(
        "sindy_pi",
        "SINDy-PI's noise study",
        rows,
        f"x' = 0.6 - 1.5 x/(0.3 + x) from {RUNS} of the study's 2,400 runs. Right: exactly the two true "
        "terms of six. Error: relative, of both coefficients and K; 1 where the terms are wrong. Noise is in "
        "the units of x, which begins at 0.19 to 11 and ends at 0.2.",
        folder=subset.out,
    )


def _measure(clean: Any, level: float, seed: int) -> dict[str, Any]:
    noisy = clean + level * np.random.default_rng([seed, 24]).standard_normal(clean.shape)
    data = [cindy.Trajectory(STEP, run, ("x",)) for run in noisy]
    rational = cindy.Custom({"x/(K + x)": "x/(K + x)"}, parameters={"K": (0.01, 10)})
    began = time.process_time()
    model = cindy.identify(data, cindy.Polynomial(4) + rational)
    seconds = time.process_time() - began
    found = {model.terms[i]: float(model.coef[i, 0]) for i in np.flatnonzero(model.coef[:, 0])}
    right, error = set(found) == set(TERMS), 1.0
    if right:
        apart = [found[term] - value for term, value in TERMS.items()]
        apart.append(model.parameters["K"].value - K)
        error = float(np.linalg.norm(apart) / np.linalg.norm([*TERMS.values(), K]))
    law = "; ".join(str(model).splitlines())
    return {"right": right, "error": error, "seconds": seconds, "law": law}
