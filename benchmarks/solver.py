"""Direct and its siblings against interior-point methods and lasso paths; samples and memory."""

import tracemalloc
import warnings
from collections.abc import Callable
from typing import Any

import numpy as np

from benchmarks import peers, problems
from benchmarks.table import best_of, write
from cindy.errors import ConvergenceWarning
from cindy.least_squares import LeastSquares
from cindy.solver import (
    Blended,
    Direct,
    FullyCorrective,
    Plain,
    Region,
    conditional_gradient,
    gap_at,
    oracle_for,
)

__all__ = ["run"]

OURS = {
    "Direct": Direct(),
    "Direct, leap": Direct(leap=True),
    "Blended": Blended(),
    "FullyCorrective": FullyCorrective(),
    "Plain": Plain(),
}
THEIRS = {"Clarabel": peers.by_clarabel, "CVXOPT": peers.by_cvxopt}
LONGEST = 5.0


def run() -> None:
    warnings.simplefilter("ignore")
    _gaps()
    _paths()
    _samples()
    _memory()


def _gaps() -> None:
    rows = []
    for name in problems.NAMES:
        for ties in (False, True):
            for share in (0.5, 0.9, 2.0):
                for tol in (1e-6, 1e-8):
                    rows += _one(name, share, ties, tol)
    write(
        "solver",
        "Seconds to a relative gap",
        rows,
        "Radius in units of the norm of least squares; ties: neighbours interchangeable. `times Direct` is the "
        "time over that of Direct in the same run; our times include presolve. A run that takes longer than "
        f"{LONGEST:g} s is cut off; the gap reached says so. Gaps of the interior-point methods are those of "
        "their points, scaled into the region where they lie outside. Direct, leap: without a path.",
    )


def _one(name: str, share: float, ties: bool, tol: float) -> list[dict[str, Any]]:
    objective, region = problems.objective(name), problems.region(name, share, ties=ties)
    scale = float(np.sum(objective.target**2))
    small = name.endswith("5")
    rows = []
    for label, correction in OURS.items():
        if label in ("FullyCorrective", "Plain") and not (small and tol == 1e-6):
            continue

        def solve(correction=correction) -> Any:
            return conditional_gradient(
                objective, oracle_for(region), correction, tol=tol, max_iter=10**6, max_seconds=LONGEST
            )

        seconds, result = best_of(solve)
        rows.append(
            _row(name, share, ties, tol, label, seconds, result.relative_gap, result.history[-1].atoms)
        )
    if tol == 1e-8:
        oracle = oracle_for(region)
        for label, solver in THEIRS.items():
            seconds, x = best_of(lambda solver=solver: solver(objective, region, tol), times=2, enough=1.0)
            x = x * min(1.0, region.radius / region.norm(x))
            gap = gap_at(objective, oracle, x) / scale
            rows.append(_row(name, share, ties, tol, label, seconds, gap, int(np.sum(np.abs(x) > 1e-6))))
    for row in rows:
        row["times Direct"] = row["seconds"] / rows[0]["seconds"]
    return rows


def _row(name, share, ties, tol, method, seconds, gap, terms) -> dict[str, Any]:
    return {
        "problem": name,
        "radius": share,
        "ties": "yes" if ties else "no",
        "tol": tol,
        "method": method,
        "seconds": seconds,
        "gap": gap,
        "terms": terms,
    }


def _paths() -> None:
    rows = []
    for name in problems.NAMES:
        objective, terms = problems.objective(name), problems.support(name)
        oracle = oracle_for(problems.region(name, 2.0))

        def direct(objective=objective, oracle=oracle, terms=terms) -> tuple[int, Any]:
            result = conditional_gradient(
                objective, oracle, tol=1e-12, callback=lambda step: step.atoms < terms
            )
            return result.iterations, result

        calls: dict[str, Callable[[], Any]] = {"Direct": direct, **peers.paths(objective, terms)}
        for label, call in calls.items():
            if label in ("celer", "skglm") and name.endswith("10"):
                continue
            call()
            seconds, (reached, _) = best_of(call, enough=1.0)
            rows.append({"problem": name, "method": label, "seconds": seconds, "supports": reached})
            rows[-1]["µs per support"] = 1e6 * seconds / max(reached, 1)
        first = next(r for r in rows if r["problem"] == name)
        for row in rows:
            if row["problem"] == name:
                row["times Direct"] = row["µs per support"] / first["µs per support"]
    write(
        "paths",
        "Time per support along a path",
        rows,
        "Until as many terms are in as the system has. Direct refits all targets at once and one term joins a "
        "step; LARS walks knot by knot for each target, with the Gram matrix given; coordinate descent, celer "
        "and skglm take twenty penalties a target (celer and skglm: after compilation, d = 5).",
    )


def _samples() -> None:
    rng = np.random.default_rng(0)
    truth = rng.normal(size=(50, 5)) * (rng.random((50, 5)) < 0.2)
    rows = []
    for count in (10_000, 1_000_000):
        objective = LeastSquares.empty(50, 5)
        for _ in range(count // 10_000):
            design = rng.normal(size=(10_000, 50))
            objective += LeastSquares.from_rows(design, design @ truth + 0.1 * rng.normal(size=(10_000, 5)))
        region = Region(250, 0.9 * float(np.abs(truth).sum()))
        seconds, result = best_of(
            lambda f=objective, r=region: conditional_gradient(f, oracle_for(r)), times=5
        )
        rows.append(
            {
                "rows": count,
                "seconds": seconds,
                "iterations": result.iterations,
                "bytes of factor": objective.factor.nbytes,
                "peak bytes": _peak(objective, region),
            }
        )
    write("samples", "A solve does not depend on the number of samples", rows)


def _memory() -> None:
    rows = []
    for name in problems.NAMES:
        for share in (0.5, 0.9, 2.0):
            objective, region = problems.objective(name), problems.region(name, share)
            for label in ("Direct", "Direct, leap", "Blended"):
                if label == "Blended" and share > 1 and name.endswith("10"):
                    continue
                peak = _peak(objective, region, OURS[label])
                rows.append({"problem": name, "radius": share, "method": label, "peak bytes": peak})
                rows[-1]["times factor"] = peak / objective.factor.nbytes
    write("memory", "Peak memory of a solve to gap 1e-6, over that of the R factor", rows)


def _peak(objective: LeastSquares, region: Region, correction: Any = None) -> int:
    oracle = oracle_for(region)
    tracemalloc.start()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)
        conditional_gradient(objective, oracle, correction, tol=1e-6, max_seconds=LONGEST)
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    return peak
