"""What a model says of itself: laws in noise, terms that data cannot tell apart, intervals, near models."""

from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.ndimage import gaussian_filter1d

import cindy
from benchmarks.attempt import METHODS, Attempt, attempt, support_of, truth_of
from benchmarks.cells import Row, Subset, measured
from benchmarks.table import write
from cindy import systems

__all__ = ["run"]

Floats = NDArray[np.float64]
SEEDS = tuple(range(100))
DEGREE = 3
SURE = 0.9
"""Terms of at least this inclusion probability should be right nine times in ten."""


def _walk(rng: np.random.Generator) -> Floats:
    return np.cumsum(rng.standard_normal((1000, 2)), axis=0)


def _smooth_noise(rng: np.random.Generator) -> Floats:
    return np.asarray(gaussian_filter1d(rng.standard_normal((1000, 2)), 8.0, axis=0))


def _ornstein_uhlenbeck(rng: np.random.Generator) -> Floats:
    """x' = −x + white noise, two of them, exactly sampled at steps of 0.05."""
    kept = np.exp(-0.05)
    x = np.zeros((1000, 2))
    x[0] = rng.standard_normal(2)
    for k in range(1, len(x)):
        x[k] = kept * x[k - 1] + np.sqrt(1.0 - kept**2) * rng.standard_normal(2)
    return x


LAWLESS: dict[str, Callable[[np.random.Generator], Floats]] = {
    "random walk": _walk,
    "smoothed noise": _smooth_noise,
    "ornstein-uhlenbeck": _ornstein_uhlenbeck,
}
ORBITS = {"closed orbit 1000": 1000, "closed orbit 10000": 10_000, "closed orbit 100000": 100_000}
POL = (0.001, 0.01, 0.05)
COVERED: dict[str, tuple[Callable[[], systems.System], dict[str, Any]]] = {
    "lorenz": (systems.lorenz, {"trajectories": 3, "points": 1200, "horizon": 4.0, "noise": 0.02}),
    "rossler": (systems.rossler, {"trajectories": 3, "points": 1200, "horizon": 20.0, "noise": 0.02}),
    "lotka_volterra": (systems.lotka_volterra, {"trajectories": 3, "points": 600, "noise": 0.02}),
    "van_der_pol": (systems.van_der_pol, {"trajectories": 3, "points": 600, "noise": 0.02}),
    "duffing": (systems.duffing, {"trajectories": 3, "points": 600, "noise": 0.02}),
    "sir": (systems.sir, {"trajectories": 5, "points": 500, "noise": 0.01}),
}
HARD = {"lorenz 20 %": 0.2, "lorenz 30 %": 0.3}
"""One trajectory of 10 time units, step 0.01, degree 2: data that often cannot tell (noise of all states)."""


def run(subset: Subset = Subset()) -> None:  # noqa: B008
    """Three tables: lawless data and dependent terms, van der Pol, and what the model says of itself."""
    _lawless(subset)
    _orbits(subset)
    _van_der_pol(subset)
    _coverage(subset)


def _cells(subset: Subset, names: list[str]) -> list[Row]:
    return [
        {"data": name, "method": method, "seed": seed}
        for name in names
        if not subset.names or name in subset.names
        for method in subset.pick("methods", tuple(METHODS))
        for seed in subset.pick("seeds", SEEDS)
    ]


def _groups(rows: list[Row]) -> list[tuple[str, str, list[Row]]]:
    pairs = dict.fromkeys((row["data"], row["method"]) for row in rows)
    return [(*pair, [row for row in rows if (row["data"], row["method"]) == pair]) for pair in pairs]


def _lawless(subset: Subset) -> None:
    def work(data: str, method: str, seed: int) -> Row:
        x = LAWLESS[data](np.random.default_rng([seed, 6]))
        t = 0.05 * np.arange(len(x))
        one = cindy.Trajectory(t, x, ("x", "y"))
        shape = (len(cindy.Polynomial(DEGREE).names(("x", "y"))), 2)
        got = attempt(method, one, cindy.Polynomial(DEGREE), shape)
        return {
            "terms": int((got.coef != 0).sum()),
            "warnings": len(got.warnings),
            "seconds": got.seconds,
            "said": got.said,
        }

    rows = measured("honesty_lawless_cells", _cells(subset, list(LAWLESS)), work, subset, show=False)
    write(
        "honesty_lawless",
        "Data without a law",
        [
            {
                "data": name,
                "method": method,
                "data sets": len(group),
                "no model": sum(not row["terms"] for row in group),
                "a law, warned of": sum(row["terms"] > 0 and row["warnings"] > 0 for row in group),
                "a law, no warning": sum(row["terms"] > 0 and not row["warnings"] for row in group),
                "seconds": float(np.median([row["seconds"] for row in group])),
            }
            for name, method, group in _groups(rows)
        ],
        "Two states, one trajectory of 1,000 samples, polynomials to degree 3. Random walks; white noise "
        "smoothed over 8 samples; Ornstein-Uhlenbeck, relaxation time 20 samples: its drift is a law, but "
        "its motion is noise, and the model must say so.",
        folder=subset.out,
    )


def _orbits(subset: Subset) -> None:
    basis = cindy.Polynomial(DEGREE)
    truth = truth_of(basis, ("x", "v"), {("x", "v"): 1.0, ("v", "x"): -4.0})

    def work(data: str, method: str, seed: int) -> Row:
        t = 0.02 * np.arange(ORBITS[data])
        x = np.stack([np.cos(2 * t), -2 * np.sin(2 * t)], axis=1)
        rng = np.random.default_rng([seed, 7])
        noisy = x + 0.01 * x.std(axis=0) * rng.standard_normal(x.shape)
        got = attempt(method, cindy.Trajectory(t, noisy, ("x", "v")), basis, truth.shape)
        return _judged(got, truth)

    cells = [
        cell
        for cell in _cells(subset, list(ORBITS))
        # A hundred sets of 100,000 samples would be the whole night.
        if cell["seed"] < 10 or cell["data"] != list(ORBITS)[-1] or subset.seeds
    ]
    _table("honesty_orbit", "A closed orbit", cells, work, subset,
        "x' = v, v' = −4x, 1 % noise, step 0.02, polynomials to degree 3: x² + v²/4 is constant, so cubic "
        "terms repeat linear ones. Wrong must be warned of.")  # fmt: skip


def _van_der_pol(subset: Subset) -> None:
    system = systems.van_der_pol(damping=2.0)
    levels = {f"van der pol {100 * noise:g} %": noise for noise in POL}

    def work(data: str, method: str, seed: int) -> Row:
        noisy = system.simulate(seed, noise=levels[data], trajectories=2, points=1200, horizon=12.0)
        return _judged(attempt(method, noisy, system.basis, system.coef.shape), system.coef)

    _table("honesty_van_der_pol", "Van der Pol, μ = 2", _cells(subset, list(levels)), work, subset,
        "Two trajectories of 600 samples over 12 time units, polynomials to degree 3.")  # fmt: skip


def _judged(got: Attempt, truth: Floats) -> Row:
    extra, missing = support_of(got.coef, truth)
    return {
        "right": int(extra + missing == 0),
        "extra": extra,
        "missing": missing,
        "near": int(got.holds(truth != 0)),
        "warnings": len(got.warnings),
        "seconds": got.seconds,
        "said": got.said,
    }


def _table(
    name: str, title: str, cells: list[Row], work: Callable[..., Row], subset: Subset, notes: str
) -> None:
    rows = measured(f"{name}_cells", cells, work, subset, show=False)
    table = [
        {
            "data": data,
            "method": method,
            "data sets": len(group),
            "right": sum(row["right"] for row in group),
            "right, warned of": sum(row["right"] and row["warnings"] > 0 for row in group),
            "wrong, warned of": sum(not row["right"] and row["warnings"] > 0 for row in group),
            "wrong, no warning": sum(not row["right"] and not row["warnings"] for row in group),
            "truth near": sum(row["near"] for row in group),
            "seconds": float(np.median([row["seconds"] for row in group])),
        }
        for data, method, group in _groups(rows)
    ]
    write(name, title, table, notes, folder=subset.out)


def _coverage(subset: Subset) -> None:
    rows = measured("honesty_coverage_cells", _cells(subset, [*COVERED, *HARD]), _covered, subset, show=False)
    table = []
    for name, method, group in _groups(rows):
        present = sum(row["present"] for row in group)
        sure = sum(row["sure"] for row in group)
        table.append(
            {
                "data": name,
                "method": method,
                "data sets": len(group),
                "right": sum(row["right"] for row in group),
                "coverage": sum(row["covered"] for row in group) / present if present else float("nan"),
                "z": float(np.sqrt(sum(row["z²"] for row in group) / present)) if present else float("nan"),
                "truth near": sum(row["near"] for row in group),
                "sure terms": sure,
                "right of them": sum(row["sure right"] for row in group) / sure if sure else float("nan"),
                "seconds": float(np.median([row["seconds"] for row in group])),
            }
        )
    write(
        "honesty_coverage",
        "What the model says of itself",
        table,
        "Coverage of the 95 % intervals, coefficient ± 1.96 standard errors, over the true terms found; z is "
        "the root mean square of deviation over standard error. `truth near`: the true terms are those of "
        "the model or of one of its near-equal ones. Sure: inclusion 0.9 to 1. The last rows are one Lorenz "
        "trajectory of 10 time units, step 0.01, degree 2, with noise relative to the spread of all states.",
        folder=subset.out,
    )


def _covered(data: str, method: str, seed: int) -> Row:
    if data in HARD:
        system = systems.lorenz()
        exact = system.simulate(seed, trajectories=1, points=1000, horizon=9.99)[0]
        rng = np.random.default_rng([seed, 8])
        x = exact.x + HARD[data] * exact.x.std() * rng.standard_normal(exact.x.shape)
        noisy = [cindy.Trajectory(exact.t, x, system.states)]
    else:
        make, settings = COVERED[data]
        system = make()
        noisy = system.simulate(seed, **settings)
    truth = system.coef
    got = attempt(method, noisy, system.basis, truth.shape)
    row = _judged(got, truth)
    both = (truth != 0) & (got.coef != 0)
    error = np.ones_like(truth) if got.model is None else np.asarray(got.model.coef_error)
    z = (got.coef - truth)[both] / error[both]
    inclusion = None if got.model is None else getattr(got.model, "inclusion", None)
    sure = np.zeros_like(both) if inclusion is None else np.asarray(inclusion) >= SURE
    return {
        **row,
        "present": int(both.sum()),
        "covered": int((np.abs(z) <= 1.959964).sum()),
        "z²": float(np.sum(z**2)),
        "sure": int(sure.sum()),
        "sure right": int((sure & (truth != 0)).sum()),
    }
