"""Hard data: few samples of nearly dependent terms."""

from typing import Any

import numpy as np

import cindy
from benchmarks.table import write
from cindy import systems
from cindy.selection import BIC, Candidates, choose

__all__ = ["FEW", "excess", "run", "truth_in"]

FEW: list[tuple[systems.System, cindy.Basis, dict[str, Any]]] = [
    (systems.kuramoto(3), cindy.Trigonometric(2), {"trajectories": 10, "points": 1500, "noise": 0.02}),
    (systems.kuramoto(3), cindy.Trigonometric(2), {"trajectories": 6, "points": 600, "noise": 0.01}),
    (systems.lotka_volterra(), cindy.Polynomial(4), {"trajectories": 1, "points": 60, "noise": 0.05}),
    (systems.van_der_pol(), cindy.Polynomial(5), {"trajectories": 3, "points": 180, "noise": 0.03}),
    (systems.duffing(), cindy.Polynomial(5), {"trajectories": 4, "points": 400, "noise": 0.02}),
]
SEEDS = 12


def run() -> None:
    """How often few samples are enough, and whether the search or the data fail."""
    write(
        "few_samples",
        "Few samples of nearly dependent terms",
        [_few(*cell) for cell in FEW],
        f"{SEEDS} seeds: how often `identify` gives the right terms; and of all equations, in rows as they "
        "are before a first model has told how noise drifts, in how many the search ends with a larger "
        "criterion than the true terms have (the search failed), and in how many with a smaller "
        "one (the rows favour others).",
    )


def _few(system: systems.System, basis: cindy.Basis, settings: dict[str, Any]) -> dict[str, Any]:
    truth = truth_in(system, basis)
    exact = failed = other = 0
    for seed in range(SEEDS):
        data = system.simulate(seed, **settings)
        form = cindy.Integral(order=system.order)
        exact += np.array_equal(cindy.identify(data, basis, formulation=form).support, truth)
        over = excess(cindy.Problem(cindy.accumulate(data, basis, formulation=form)), truth)
        failed += sum(e > 1e-6 for e in over)
        other += sum(e < -1e-6 for e in over)
    return {
        "system": system.name,
        "trajectories": settings["trajectories"],
        "samples": settings["points"],
        "noise": settings["noise"],
        "terms": len(truth),
        "exact": f"{exact} of {SEEDS}",
        "equations": SEEDS * len(system.states),
        "search failed": failed,
        "rows favour others": other,
    }


def truth_in(system: systems.System, basis: cindy.Basis) -> np.ndarray[Any, Any]:
    """(terms, states) whether a term of this basis is in an equation."""
    names = basis.names(system.states)
    truth = np.zeros((len(names), len(system.states)), dtype=bool)
    for term, row in zip(system.terms, system.coef, strict=True):
        truth[names.index(term)] = row != 0
    return truth


def excess(problem: cindy.Problem, truth: np.ndarray[Any, Any]) -> list[float]:
    """For every equation, by how much the criterion of what the search finds exceeds that of the truth."""
    regression = problem.regression
    path = choose(problem.form, BIC()).candidates.path
    candidates = Candidates(regression, problem.form.pilot, problem.size, path)
    price = BIC().price(regression.total.rows, regression.shape[0])
    found = candidates.by_price(price, clustered=False)
    excess = []
    for group in regression.groups:
        supports = candidates.supports(group, price)
        names = regression.coefficients(group)
        values = [
            supports.criterion(supports.fit(np.flatnonzero(np.isin(names, support))))
            for support in (found, np.flatnonzero(truth))
        ]
        excess.append(values[0] - values[1])
    return excess
