"""Direct and its siblings against interior-point methods and lasso paths; samples and memory."""

import tracemalloc
import warnings
from collections.abc import Callable
from typing import Any

import numpy as np

from benchmarks import other_solvers, problems
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
    "Blended, gradients only": Blended(inner_steps=10**6),
    "FullyCorrective": FullyCorrective(),
    "Plain": Plain(),
}
THEIRS = {"Clarabel": other_solvers.by_clarabel, "CVXOPT": other_solvers.by_cvxopt}
LONGEST = 2.0
NOTES = (
    "Radius in units of the norm of least squares; ties: neighbours interchangeable. Our times include "
    f"presolve; a run that takes longer than {LONGEST:g} s of wall time is cut off, and the gap reached says "
    "so. Gaps of the interior-point methods, asked for 1e-8, are those of their points, scaled into the ball "
    "where they lie outside. `times ours` is the time over that of Direct to 1e-8 in the same run; where the "
    "radius does not bind, over that of Direct with a leap, which gives no path, as they give none. Blended, "
    "gradients only: the paper's method to the letter, without exact minimisers where gradients are slow."
)


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
            for share in (0.5, 2.0):
                rows += _one(name, share, ties)
                write("solver", "Seconds to a relative gap", rows, NOTES, show=False)
    write("solver", "Seconds to a relative gap", rows, NOTES)


def _one(name: str, share: float, ties: bool) -> list[dict[str, Any]]:
    objective, region = problems.objective(name), problems.region(name, share, ties=ties)
    rows = []
    for label, correction in OURS.items():
        if not _of_interest(label, name, share):
            continue
        for tol in (1e-6, 1e-8):

            def solve(correction=correction, tol=tol) -> Any:
                return conditional_gradient(
                    objective, oracle_for(region), correction, tol=tol, max_iter=10**6, max_seconds=LONGEST
                )

            seconds, result = best_of(solve, enough=0.5)
            rows.append(_row(name, share, ties, tol, label, seconds, result.relative_gap))
    oracle = oracle_for(region)
    for label, solver in THEIRS.items():
        tol = 1e-8
        seconds, x = best_of(lambda solver=solver, tol=tol: solver(objective, region, tol), enough=0.5)
        x = x * min(1.0, region.radius / region.norm(x))
        gap = gap_at(objective, oracle, x) / float(np.sum(objective.target**2))
        rows.append(_row(name, share, ties, tol, label, seconds, gap))
    base = next(r["seconds"] for r in rows if r["method"].startswith("Direct") and r["tol"] == 1e-8)
    if share > 1:
        base = next(r["seconds"] for r in rows if r["method"] == "Direct, leap" and r["tol"] == 1e-8)
    for row in rows:
        row["times ours"] = row["seconds"] / base
    return rows


def _of_interest(label: str, name: str, share: float) -> bool:
    """Leaps where the radius does not bind; the slow ones on small problems."""
    if label == "Direct, leap":
        return share > 1
    if label in ("Plain", "Blended, gradients only"):
        return name == "kuramoto5"
    return label == "Direct" or share < 1 or name.endswith("5")


def _row(name, share, ties, tol, method, seconds, gap) -> dict[str, Any]:
    return {
        "problem": name,
        "radius": share,
        "ties": "yes" if ties else "no",
        "tol": tol,
        "method": method,
        "seconds": seconds,
        "gap": gap,
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

        calls: dict[str, Callable[[], Any]] = {"Direct": direct, **other_solvers.paths(objective, terms)}
        for label, call in calls.items():
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
        "Until as many terms are in as the system has. Direct walks for all targets at once, a term a step; "
        "LARS knot by knot for each target, with the Gram matrix given; coordinate descent, celer and skglm "
        "take twenty penalties a target (celer and skglm: after compilation).",
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
        for share in (0.5, 2.0):
            objective, region = problems.objective(name), problems.region(name, share)
            for label in ("Direct", "Direct, leap", "Blended"):
                if label == "Blended" and share > 1 and name.endswith("10"):
                    continue
                peak = _peak(objective, region, OURS[label])
                rows.append({"problem": name, "radius": share, "method": label, "peak bytes": peak})
                rows[-1]["times factor"] = peak / objective.factor.nbytes
    write(
        "memory",
        "Peak memory of a solve to gap 1e-6, over that of the R factor",
        rows,
        "Direct keeps Q and R of the terms in use for every target: with all terms in use that alone is "
        "twice as many factors as there are targets. The path, of 50,000 nonzeros or half a factor, comes on "
        "top. A leap keeps neither.",
    )


def _peak(objective: LeastSquares, region: Region, correction: Any = None) -> int:
    oracle = oracle_for(region)
    tracemalloc.start()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)
        conditional_gradient(objective, oracle, correction, tol=1e-6)
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    return peak
