"""Errors of the coefficients of fields, by the noise at every sample."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from cindy._types import Floats, Ints
from cindy.data import Field
from cindy.formulation import field_rows, noise_covariance
from cindy.model import Model
from cindy.problem import Problem
from cindy.regression import binding

__all__ = ["with_noise_errors"]


_SCATTER = 1.5
"""Residuals over what noise explains, as squares, up to which noise explains them: the right models of
`python -m benchmarks pde` stay within 0.7 and 1.4, as there are few independent rows."""


def with_noise_errors(model: Model, problem: Problem, fields: Sequence[Field]) -> Model:
    """The model with errors and covariance that come from the noise at every sample.

    Where residuals are larger than noise explains, equations lack something: then that share of the scatter
    between blocks of rows is added.
    """
    summary = problem.summary
    support = np.flatnonzero(model.coef)
    if summary.calibration is None or summary.spurious is None or not len(support):
        return model
    residual = np.hstack([-model.coef.T, np.eye(len(model.states))])
    influence = _influence(problem, summary.calibration, support)
    form: Any = summary.formulation
    parts = [noise_covariance(r, influence, residual) for r in field_rows(fields, summary.basis, form)]
    known = [part for part in parts if part is not None]
    total = np.sum(known, axis=0)
    if len(known) < len(parts) or not (np.diagonal(total) > 0).all():
        return model
    by_noise = np.sqrt(np.diagonal(total))
    by_blocks = model.coef_error.ravel()[support]
    share = _unexplained(summary.total.factor, summary.spurious, residual)[support % len(model.states)]
    error = np.sqrt(by_noise**2 + share * by_blocks**2)
    # What an equality holds fast has no error, and rounding is none.
    error[by_blocks == 0] = 0.0
    scale = error / by_noise
    errors = np.zeros(model.coef.size)
    errors[support] = error
    sure = {"coef_error": errors.reshape(model.coef.shape), "covariance": total * np.outer(scale, scale)}
    models = tuple(
        replace(one, **sure) if k == model.path.chosen else one for k, one in enumerate(model.path)
    )
    return replace(model, path=replace(model.path, models=models), **sure)


def _influence(problem: Problem, calibration: Floats, support: Ints) -> Floats:
    """(k, states, terms): by how much the residual of a state, times a row's terms, moves each coefficient.

    Least squares on the support moves by M Zᵀ r, with Z the calibrated columns and M the inverse of ZᵀZ under
    the equalities that hold, all in the units of the standard form.
    """
    regression = binding(problem.regression, support)
    terms, width = regression.shape
    columns, targets = problem.form.sizes
    found = np.zeros((terms * width, width, terms))
    for group in regression.groups:
        fit = regression.fit(support[np.isin(support % width, group)], group)
        inverse = fit.spread @ fit.spread.T
        for j in group:
            here = np.flatnonzero(fit.support % width == j)
            term = fit.support[here] // width
            scaled = calibration[:terms, term] / columns[term]
            size = regression.noise[j] ** 2 * targets[j]
            found[fit.support, j] += inverse[:, here] @ scaled.T / size
    return (found * problem.form.unit.ravel()[:, None, None])[support]


def _unexplained(factor: Floats, spurious: Floats, residual: Floats) -> Floats:
    """(states,): the share of the squared residuals that is beyond what noise explains."""
    left = np.sum((factor @ residual.T) ** 2, axis=0)
    noise = np.sum((residual @ spurious) * residual, axis=1)
    share = 1.0 - _SCATTER * np.divide(noise, left, out=np.zeros_like(left), where=left > 0)
    return np.asarray(np.clip(share, 0.0, 1.0))
