"""Conservation laws that must hold within a tolerance at every sample."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import numpy as np

from cindy._arrays import Floats
from cindy.data import Trajectory
from cindy.errors import ConstraintError
from cindy.model import Model
from cindy.problem import Conservation, Problem, at_samples
from cindy.selection import EFFORT

__all__ = ["solve_with_samples"]


def solve_with_samples(problem: Problem, data: list[Trajectory], run: Callable[[Problem], Model]) -> Model:
    """What `run` makes of the problem, the laws with a tolerance imposed at every sample.

    Few samples bind: those that a model violates most are added until none is violated.
    """
    laws = [c for c in problem.constraints if at_samples(c)]
    if not laws:
        return run(problem)
    if problem.summary.formulation.needs_states:
        raise ConstraintError(
            f"{laws[0]}: a tolerance speaks of samples, and rates were not measured at them. "
            "Impose it exactly: tolerance=None."
        )
    variables = problem.names.variables
    values = np.concatenate([s.values for one in data for s in one.segments()])
    terms = problem.summary.basis.evaluate(values, variables)
    held = np.unique(np.linspace(0, len(terms) - 1, EFFORT.tolerance_at_a_time).astype(int))
    while True:
        model = run(replace(problem, samples=terms[held]))
        excess = _excess(problem, laws, terms, model.coef)
        over = np.flatnonzero(excess > EFFORT.tolerance_slack)
        new = np.setdiff1d(over[np.argsort(-excess[over])][: EFFORT.tolerance_at_a_time], held)
        if not len(new):
            return replace(model, violation=max(model.violation, float(excess.max())))
        held = np.union1d(held, new)


def _excess(problem: Problem, laws: list[Conservation], terms: Floats, coef: Floats) -> Floats:
    """(samples,) by how much the worst law is missed at each sample."""
    worst = np.zeros(len(terms))
    for law in laws:
        rate = np.zeros(len(terms))
        for j, weight in law.sample_weights(problem.names).items():
            rate += weight * (terms @ coef[:, j])
        worst = np.maximum(worst, np.abs(rate - law.rate) - (law.tolerance or 0.0))
    return worst
