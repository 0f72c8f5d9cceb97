"""Short and nearly clean data, as Bertsimas and Gurnee have them: one trajectory, fine steps, 0.2 % noise.

A search that begins with the path of the conditional gradient alone ends in local minima here; one that also
begins with elimination of the whole dictionary does not.
"""

from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import NDArray

import cindy
from benchmarks.attempt import METHODS, attempt, median, support_of, truth_of
from benchmarks.cells import Row, Subset, measured
from benchmarks.table import write
from cindy import systems

__all__ = ["run"]

Floats = NDArray[np.float64]
Equations = dict[tuple[str, str], float]
SEEDS = tuple(range(10))
STEP, NOISE = 0.002, 0.002

HOPF: Equations = {
    ("x", "x"): 1.0, ("x", "y"): -1.0, ("x", "x^3"): -1.0, ("x", "x y^2"): -1.0,
    ("y", "x"): 1.0, ("y", "y"): 1.0, ("y", "x^2 y"): -1.0, ("y", "y^3"): -1.0,
}  # fmt: skip
MHD: Equations = {
    ("a", "b c"): 4.0, ("a", "v w"): -4.0, ("b", "a c"): -7.0, ("b", "u w"): 7.0,
    ("c", "a b"): 3.0, ("c", "u v"): -3.0, ("u", "b w"): 2.0, ("u", "c v"): -2.0,
    ("v", "c u"): 5.0, ("v", "a w"): -5.0, ("w", "a v"): 9.0, ("w", "b u"): -9.0,
}  # fmt: skip
CASES: dict[str, tuple[Equations, str, float, int, Callable[[np.random.Generator], Floats]]] = {
    "Hopf": (HOPF, "xy", 4.5, 5, lambda rng: rng.uniform(-2, 2, 2)),
    "MHD": (MHD, "abcuvw", 0.94, 3, lambda rng: rng.uniform(-1, 1, 6)),
    "Lorenz": (systems.lorenz().equations, "xyz", 0.69, 5, lambda rng: rng.normal((0, 0, 25), 8.0)),
}


def run(subset: Subset = Subset()) -> None:  # noqa: B008
    """One row a case, method and draw; a table of counts."""
    cells = [
        {"case": case, "method": method, "seed": seed}
        for case in subset.pick("names", tuple(CASES))
        for method in subset.pick("methods", tuple(METHODS))
        for seed in subset.pick("seeds", SEEDS)
    ]
    rows = measured("short_clean_cells", cells, _measure, subset)
    table = []
    for case, method in dict.fromkeys((row["case"], row["method"]) for row in rows):
        here = [row for row in rows if (row["case"], row["method"]) == (case, method)]
        table.append(
            {
                "case": case,
                "method": method,
                "right": f"{sum(row['right'] for row in here)} of {len(here)}",
                "extra": sum(row["extra"] for row in here),
                "missing": sum(row["missing"] for row in here),
                "seconds": median([row["seconds"] for row in here]),
            }
        )
    write(
        "short_clean",
        "Short and nearly clean data",
        table,
        "One trajectory over 4.5, 0.94 and 0.69 time units in steps of 0.002, noise of 0.2 % of the spread "
        "of all states, polynomials to degree 5, 3 and 5, random starts.",
        folder=subset.out,
    )


def _measure(case: str, method: str, seed: int) -> Row:
    from scipy.integrate import solve_ivp

    equations, letters, horizon, degree, start = CASES[case]
    states, basis = tuple(letters), cindy.Polynomial(degree)
    truth = truth_of(basis, states, equations)
    rng = np.random.default_rng([seed, list(CASES).index(case)])
    t = np.arange(0.0, horizon, STEP)

    def slope(_: float, x: Floats) -> Any:
        return (basis.evaluate(x[None], states) @ truth)[0]

    x = solve_ivp(slope, (0.0, horizon), start(rng), "DOP853", t, rtol=1e-12, atol=1e-12).y.T
    y = x + NOISE * x.std() * rng.standard_normal(x.shape)
    got = attempt(method, cindy.Trajectory(t, y, states), basis, truth.shape)
    extra, missing = support_of(got.coef, truth)
    return {"right": int(extra + missing == 0), "extra": extra, "missing": missing, "seconds": got.seconds}
