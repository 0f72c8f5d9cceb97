"""What a call of the oracle costs: closed forms, presolve, linear programs."""

import time
from typing import Any

import numpy as np

from benchmarks import problems
from benchmarks.table import best_of, write
from cindy.solver import Oracle, Region, conditional_gradient, oracle_for
from cindy.solver.linear_program import LinearProgram

__all__ = ["run"]


def run() -> None:
    _calls()
    _ties()


def _regions() -> dict[str, Region]:
    """2,110 coefficients, 270 rows where there are rows."""
    rng = np.random.default_rng(0)
    size, count = 2_110, 270
    pairs, triples = np.zeros((count, size)), np.zeros((count, size))
    sparse = rng.normal(size=(count, size)) * (rng.random((count, size)) < 0.01)
    free = rng.permutation(size)
    for i in range(count):
        pairs[i, free[2 * i : 2 * i + 2]] = 1.0, -1.0
        triples[i, free[3 * i : 3 * i + 3]] = 1.0
    return {
        "ball": Region(size, 10.0),
        "ties": Region(size, 10.0, None, pairs, 0, 0),
        "conservation laws": Region(size, 10.0, None, triples, 0, 0),
        "signs": Region(size, 10.0, None, np.eye(size)[:count], 0, np.inf),
        "bounds": Region(size, 10.0, None, np.eye(size)[:count], -1, 1),
        "sparse rows": Region(size, 10.0, None, sparse, -0.1, 0.1),
    }


def _calls() -> None:
    rows: list[dict[str, Any]] = []
    for name, region in _regions().items():
        kinds = [oracle_for] if name == "ball" else [oracle_for, LinearProgram]
        for make in kinds:
            built, oracle = best_of(lambda make=make, region=region: make(region), times=2)
            if make is LinearProgram and type(oracle_for(region)) is LinearProgram:
                continue
            each = _milliseconds(oracle)
            rows.append(
                {
                    "region": name,
                    "oracle": type(oracle).__name__,
                    "build ms": 1e3 * built,
                    "median ms a call": float(np.median(each)),
                    "longest ms": float(np.max(each)),
                }
            )
    write(
        "oracle",
        "Calls of the oracle at 2,110 coefficients and 270 rows",
        rows,
        "200 calls, the gradient drifting by a tenth of its size from one to the next.",
    )


def _milliseconds(oracle: Oracle) -> list[float]:
    rng = np.random.default_rng(1)
    gradient = rng.normal(size=oracle.region.size)
    taken = []
    for _ in range(200):
        gradient = gradient + 0.1 * rng.normal(size=len(gradient))
        began = time.process_time()
        oracle(gradient)
        taken.append(1e3 * (time.process_time() - began))
    return taken


def _ties() -> None:
    rows = []
    for name in problems.NAMES:
        objective = problems.objective(name)
        for share in (0.5, 0.9):
            region = problems.region(name, share, ties=True)
            seconds = {}
            for label, make in (("presolve", oracle_for), ("linear program", LinearProgram)):
                seconds[label], result = best_of(
                    lambda make=make, f=objective, r=region: conditional_gradient(f, make(r), tol=1e-6)
                )
                rows.append({"problem": name, "radius": share, "rows": region.rows, "ties by": label})
                rows[-1] |= {"seconds": seconds[label], "gap": result.relative_gap}
                rows[-1] |= {"times presolve": seconds[label] / seconds["presolve"]}
    write("ties", "A whole solve by Direct to gap 1e-6, ties by presolve or by linear program", rows)
