"""One Lorenz trajectory at much noise: how often its seven terms come out, by noise and length.

The map of Fung (arXiv 2507.23426): steps of 0.01, degree 2, noise relative to the spread of all states, many
draws. The same data in other units, x → 10⁴ x and t → 10⁻³ t, must give the same terms.
"""

from typing import Any

import numpy as np

import cindy
from benchmarks.attempt import attempt, median, support_of, truth_of
from benchmarks.cells import Row, Subset, measured
from benchmarks.table import write
from cindy import systems
from cindy.systems import integrate

__all__ = ["run"]

NOISE = (0.1, 0.2, 0.3, 0.4)
HORIZONS = (4.0, 10.0)
SEEDS = tuple(range(40))
STEP = 0.01


def run(subset: Subset = Subset()) -> None:  # noqa: B008
    """One row a length, level and draw; a table of shares."""
    cells = [
        {"horizon": horizon, "noise": noise, "seed": seed}
        for horizon in HORIZONS
        for noise in subset.pick("noise", NOISE)
        for seed in subset.pick("seeds", SEEDS)
    ]
    rows = measured("lorenz_map_cells", cells, _measure, subset)
    table = []
    for horizon, noise in dict.fromkeys((row["horizon"], row["noise"]) for row in rows):
        here = [row for row in rows if (row["horizon"], row["noise"]) == (horizon, noise)]
        table.append(
            {
                "horizon": horizon,
                "noise": noise,
                "right": f"{sum(row['right'] for row in here)} of {len(here)}",
                "truth near": sum(row["near"] for row in here),
                "same in other units": sum(row["same"] for row in here),
                "seconds": median([row["seconds"] for row in here]),
            }
        )
    write(
        "lorenz_map",
        "One Lorenz trajectory at much noise",
        table,
        "Steps of 0.01, polynomials to degree 2, noise relative to the spread of all states together. "
        "`truth near`: exactly the true terms are in the model or in one of its near-equal ones.",
        folder=subset.out,
    )


def _measure(horizon: float, noise: float, seed: int) -> Row:
    system = systems.lorenz()
    basis = cindy.Polynomial(2)
    truth = truth_of(basis, system.states, system.equations)
    t = STEP * np.arange(round(horizon / STEP))
    rng = np.random.default_rng([seed, round(100 * noise), round(horizon)])
    start = np.array([-8.0, 7.0, 27.0])[None]
    x = integrate(lambda z: basis.evaluate(z.reshape(-1, 3), system.states) @ truth, start, t)[:, 0]
    y = x + noise * x.std() * rng.standard_normal(x.shape)
    got = attempt("fitted states", cindy.Trajectory(t, y, system.states), basis, truth.shape)
    other = attempt("fitted states", cindy.Trajectory(1e-3 * t, 1e4 * y, system.states), basis, truth.shape)
    extra, missing = support_of(got.coef, truth)
    row: dict[str, Any] = {
        "right": int(extra + missing == 0),
        "extra": extra,
        "missing": missing,
        "near": int(got.holds(truth != 0)),
        "same": int(np.array_equal(got.coef != 0, other.coef != 0)),
        "seconds": got.seconds,
    }
    return row
