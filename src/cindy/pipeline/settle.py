"""What only a first model can tell: how noise drifts, and how far to trust integrals."""

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import cast

import numpy as np

from cindy._types import Floats
from cindy.basis import Basis
from cindy.data import Source, Trajectory, some_segments
from cindy.formulation import Integral, feedback_of_model
from cindy.problem import Problem, at_samples
from cindy.selection import Candidates, Significance
from cindy.summary import Summary

__all__ = ["quadrature_error", "settled"]


_CLOSE = 2.0
"""A guess of the feedback within this factor of what the model says is kept. With 10 the terms are the same
on `python -m benchmarks constants`."""
_ROUNDING = 1e-15
"""Of the states themselves: what double precision leaves of a number, and some sums of it."""


def settled(
    problem: Problem,
    source: Source,
    data: list[Trajectory],
    gather: Callable[..., Summary],
    *,
    drift_known: bool,
) -> Problem:
    """The problem in the integral form as a first model says it should be posed.

    Drift of the noise: the guess from the data is rough, yet good enough to find a first
    model; a second pass over the data pays where that says otherwise and they can be read again.
    Quadrature and rounding: residuals below their error are not to be explained by terms.
    """
    form = problem.summary.formulation
    form = cast(Integral, form)
    basis = problem.summary.basis
    # Laws that hold at samples only are left aside: a first look does without.
    exact = tuple(c for c in problem.constraints if not at_samples(c))
    look = replace(problem, constraints=exact)
    look.require_feasible()
    start = Candidates(look.regression, look.form.pilot, look.size)
    rows, size = look.regression.total.rows, int(np.prod(look.regression.shape))
    fit = start.refit(start.by_price(Significance().price(rows, size)))
    coef, noise = look.physical(fit.x), fit.left * look.size
    told = form.feedback if drift_known else _drift(form, coef, noise, basis, data)
    if source.again and told != form.feedback:
        form = replace(form, feedback=told)
        problem = replace(problem, summary=gather(source, formulation=form))
    values = np.abs(np.concatenate([one.x for one in data]))
    floor = np.hypot(quadrature_error(form, basis, coef, data), _ROUNDING * np.nanmax(values, axis=0))
    return replace(problem, floor=floor)


def _drift(form: Integral, coef: Floats, noise: Floats, basis: Basis, data: list[Trajectory]) -> float | None:
    """The feedback of a model, or the guess that the data gave where the two are close."""
    told = feedback_of_model(coef, noise, basis, data, form.order, form.window or 0)
    guess = form.feedback or 0.0
    return form.feedback if guess > 0 and 1 / _CLOSE <= told / guess <= _CLOSE else told


def quadrature_error(form: Integral, basis: Basis, coef: Floats, data: Sequence[Trajectory]) -> Floats:
    """(states,) root mean square difference that a rule of lower degree makes in the rows of a model.

    The rule in use is better than that by orders where samples are dense; where they
    are sparse, both are wrong by as much, and no term should be kept to explain it.
    """
    fitted = form.fit_to(data)
    assert fitted.degree is not None
    coarser = replace(fitted, degree=max(fitted.degree - 2, 1))
    squares, count = np.zeros(coef.shape[1]), 0
    for segment in some_segments(data):
        if len(segment) < fitted.min_samples:
            continue
        edges = fitted.edges(len(segment))
        fine = fitted.matrix(segment, basis, edges)[:, : len(coef)]
        rough = coarser.matrix(segment, basis, edges)[:, : len(coef)]
        squares += np.sum(((fine - rough) @ coef) ** 2, axis=0)
        count += len(fine)
    return np.asarray(np.sqrt(squares / max(count, 1)))
