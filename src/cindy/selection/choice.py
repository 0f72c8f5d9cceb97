"""choose: from a problem in standard form to the support that a rule picks."""

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
from cindy.selection.rules import Selection
from cindy.solver import Correction, Direct, Region, Result, Step, conditional_gradient, oracle_for

__all__ = ["Choice", "choose", "within_radius"]


@dataclass(frozen=True, eq=False)
class Choice:
    """What a rule picked, and the run of the solver it picked from.

    correction: of that run
    support: flat indices of the coefficients kept; fit: scaled coefficients on them, with errors
    """

    result: Result
    correction: Correction
    candidates: Candidates
    support: Ints
    fit: Refit

    def on(self, form: StandardForm, support: Ints) -> Choice:
        """The same run with another support, and what constraints need beside it."""
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
        # Of a long run only the end is wanted, unless someone watches; with dependent terms it also
        # tells which of them serve best, and that takes the whole way.
        size, terms = form.region.size, form.regression.shape[0]
        short = callback is None and size > EFFORT.choice_large and form.regression.independent == terms
        correction = Direct(leap=rule.refits and short)
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
    """Least squares on the support inside the ball, where the user gave one that binds."""
    region = form.region
    # Coefficients outside the support are held at zero by equalities, so that the same solver finds the
    # least squares inside the ball.
    absent = np.setdiff1d(np.arange(region.size), support)
    zeros = csr_array(eye_array(region.size, format="csr")[absent])
    nought = np.zeros(len(absent))
    inside = Region(
        region.size,
        region.radius,
        region.weights,
        csr_array(vstack([region.matrix, zeros])),
        np.concatenate([region.lower, nought]),
        np.concatenate([region.upper, nought]),
    )
    return conditional_gradient(form.objective, oracle_for(inside), tol=1e-10).x
