"""Much data: the terms, the error, seconds and memory from 4,000 to a million samples."""

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np

import cindy
from benchmarks.attempt import METHODS, attempt, peak_megabytes, relative, support_of, truth_of
from benchmarks.cells import Row, Subset, measured
from benchmarks.table import write
from cindy import systems

__all__ = ["run"]

LENGTH = 4000
STEP = 0.01
NOISE = 0.05
SEEDS = (0, 1, 2)
SIZES = {
    "lorenz 4000": 1,
    "lorenz 20000": 5,
    "lorenz 80000": 20,
    "lorenz 200000": 50,
    "lorenz 1000000": 250,
}
"""Lorenz, trajectories of 4,000 samples: how many."""
LONG = "lorenz 1000000 in one"
FPUT = "fput5 2000 × 30"


def run(subset: Subset = Subset()) -> None:  # noqa: B008
    """Every cell in a process of its own, so that its peak is its own."""
    names = subset.pick("names", (*SIZES, LONG, FPUT))
    cells = [
        {"data": name, "method": method, "seed": seed}
        for name in names
        for method in subset.pick("methods", tuple(METHODS))
        # The largest take a minute each; the noise in a million samples leaves little to chance.
        for seed in subset.pick("seeds", SEEDS if name in list(SIZES)[:4] else SEEDS[:1])
    ]

    def work(data: str, method: str, seed: int) -> Row:
        _clean(data, subset.cache)
        told = json.dumps({"data": data, "method": method, "seed": seed, "cache": str(subset.cache)})
        done = subprocess.run(
            [sys.executable, "-m", "benchmarks.growth", told],
            env={**os.environ, "OMP_NUM_THREADS": "1", "OPENBLAS_NUM_THREADS": "1"},
            stdout=subprocess.PIPE,
            text=True,
            check=True,
        )
        return dict(json.loads(done.stdout.splitlines()[-1]))

    rows = measured("growth_cells", cells, work, subset)
    order = (*SIZES, LONG, FPUT)
    table = []
    for name, method in dict.fromkeys((row["data"], row["method"]) for row in rows):
        group = [row for row in rows if (row["data"], row["method"]) == (name, method)]
        table.append(
            {
                "data": name,
                "method": method,
                "right": f"{sum(row['right'] for row in group)} of {len(group)}",
                "terms": ", ".join(str(row["terms"]) for row in group),
                "error": float(np.median([row["error"] for row in group])),
                "error · √samples": float(
                    np.median([row["error"] * np.sqrt(row["samples"]) for row in group])
                ),
                "seconds": float(np.median([row["seconds"] for row in group])),
                "peak MB": max(row["peak MB"] for row in group),
            }
        )
    write(
        "growth",
        "Much data",
        sorted(table, key=lambda row: order.index(row["data"])),
        "Lorenz, 5 % noise, polynomials to degree 3, trajectories of 4,000 samples, step 0.01; the same in "
        "one trajectory; and 2,000 trajectories of 30 samples of FPUT-5 at 1e-4. Seven terms are right "
        "for Lorenz, 42 for FPUT-5. The peak is that of the whole process, imports and data included.",
        folder=subset.out,
    )


def _clean(name: str, cache: Path) -> Path:
    """Exact states on disk: (trajectories, samples, states)."""
    path = cache / (f"growth-{'long' if name == LONG else 'fput' if name == FPUT else 'lorenz'}.npy")
    if path.exists():
        return path
    cache.mkdir(parents=True, exist_ok=True)
    lorenz = systems.lorenz()
    if name == LONG:
        from scipy.integrate import odeint

        t = np.arange(LENGTH * SIZES["lorenz 1000000"]) * STEP
        start = lorenz.initial(np.random.default_rng(7), 1)[0]
        x = odeint(lambda x, _: lorenz.rhs(x), start, t, rtol=1e-12, atol=1e-12, mxstep=10_000)[None]
    elif name == FPUT:
        exact = systems.fput(5).simulate(seed=7, trajectories=2000, points=60_000)
        x = np.stack([one.x for one in exact])
    else:
        count = SIZES["lorenz 1000000"]
        exact = lorenz.simulate(
            seed=7, trajectories=count, points=LENGTH * count, horizon=STEP * (LENGTH - 1)
        )
        x = np.stack([one.x for one in exact])
    np.save(path, x)
    return path


def _cell(data: str, method: str, seed: int, cache: str) -> dict[str, Any]:
    x = np.load(_clean(data, Path(cache)))[: SIZES.get(data)]
    system = systems.fput(5) if data == FPUT else systems.lorenz()
    basis = cindy.Polynomial(3)
    truth = truth_of(basis, system.states, system.equations)
    t = np.linspace(0.0, 1.0, 30) if data == FPUT else np.arange(x.shape[1]) * STEP
    size = (1e-4 if data == FPUT else NOISE) * x.std(axis=(0, 1))
    rng = np.random.default_rng([seed, len(x)])
    noisy = [cindy.Trajectory(t, one + size * rng.standard_normal(one.shape), system.states) for one in x]
    samples = x.shape[0] * x.shape[1]
    del x
    got = attempt(method, noisy, basis, truth.shape, formulation=cindy.Integral(order=system.order))
    return {
        "samples": samples,
        "right": int(support_of(got.coef, truth) == (0, 0)),
        "terms": int((got.coef != 0).sum()),
        "error": relative(got.coef, truth),
        "seconds": got.seconds,
        "peak MB": peak_megabytes(),
        "warnings": len(got.warnings),
        "said": got.said,
    }


if __name__ == "__main__":
    print(json.dumps(_cell(**json.loads(sys.argv[1]))))
