"""The choice of terms for a problem in standard form, at fixed rows.

1. The conditional gradient solves the convex problem: a certificate and a path of supports (`choose`).
2. The rule picks a support from the candidates on the path and beside it (`candidates.py`, `rules.py`).
3. Coefficients are fitted on the support under all constraints, within the radius if the user gave one.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace

import numpy as np
from scipy.sparse import csr_array, eye_array, vstack

from cindy._arrays import Floats, Ints
from cindy.errors import InfeasibleError
from cindy.problem import StandardForm
from cindy.regression import Refit
from cindy.selection.candidates import Candidates
from cindy.selection.effort import EFFORT
from cindy.selection.prices import Selection
from cindy.solver import Correction, Direct, Region, Result, Step, conditional_gradient, oracle_for


@dataclass(frozen=True, eq=False)
class Choice:
    """The support that a rule picked, the fit on it, and the run of the solver before it.

    correction: of that run
    support: flat indices of the coefficients kept; fit: scaled coefficients on them, with errors
    """

    result: Result
    correction: Correction
    candidates: Candidates
    support: Ints
    fit: Refit

    def on(self, form: StandardForm, support: Ints) -> Choice:
        """The same run with another support, enlarged by the terms that constraints need."""
        larger = self.candidates.with_needed(support)
        return replace(self, support=larger, fit=_fitted(form, self.candidates, larger))


def choose(
    form: StandardForm,
    rule: Selection,
    correction: Correction | None = None,
    *,
    tol: float = 1e-6,
    max_iter: int = 10_000,
    callback: Callable[[Step], bool | None] | None = None,
) -> Choice:
    """Solve the convex problem for its certificate and its path, and let the rule pick."""
    if correction is None:
        # Of a large problem only the last iterate is needed, so the run may leap to it. The whole path is
        # needed where a callback watches it, or where terms depend on each other and it tells which serve.
        size, terms = form.region.size, form.regression.shape[0]
        large = callback is None and size > EFFORT.choice_large and form.regression.independent == terms
        correction = Direct(leap=rule.refits and large)
    result = conditional_gradient(
        form.objective,
        form.oracle,
        correction,
        tol=rule.tolerance(tol),
        max_iter=max_iter,
        callback=callback,
    )
    path = [support for support, _ in result.path]
    candidates = Candidates(form.regression, result.x, form.sizes[1], path)
    support = rule.pick(candidates)
    fit = _fitted(form, candidates, support)
    if not rule.refits:
        fit = replace(fit, x=result.x)
    return Choice(result, correction, candidates, support, fit)


def _fitted(form: StandardForm, candidates: Candidates, support: Ints) -> Refit:
    """Least squares on a support, under all constraints and inside the ball."""
    try:
        fit = candidates.refit(support)
    except InfeasibleError as error:
        raise form.named(error, support) from error
    if form.radius is not None and form.region.norm(fit.x) > form.region.radius:
        return replace(fit, x=within_radius(form, support))
    return fit


def within_radius(form: StandardForm, support: Ints) -> Floats:
    """Least squares on the support inside the ball, for a radius of the user that binds."""
    region = form.region
    # Equalities hold the coefficients outside the support at zero, so that the same solver can be used.
    absent = np.setdiff1d(np.arange(region.size), support)
    rows = csr_array(eye_array(region.size, format="csr")[absent])
    zeros = np.zeros(len(absent))
    inside = Region(
        region.size,
        region.radius,
        region.weights,
        csr_array(vstack([region.matrix, rows])),
        np.concatenate([region.lower, zeros]),
        np.concatenate([region.upper, zeros]),
    )
    return conditional_gradient(form.objective, oracle_for(inside), tol=1e-10).x
