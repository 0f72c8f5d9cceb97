"""identify for fields: one pass over the grid, calibrated blocks, and the selection that trajectories
have."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import partial
from typing import Any

import numpy as np

from cindy._arrays import Floats
from cindy.basis import Basis
from cindy.data import Field, as_fields
from cindy.errors import DataError
from cindy.evidence import INEXACT, WeakRows, screened
from cindy.formulation import Formulation, Weak
from cindy.model import Model, explained_rows
from cindy.pipeline.field_estimates import estimated
from cindy.pipeline.field_findings import faults_told, grid_told, left_over
from cindy.pipeline.field_parameters import FieldSearch
from cindy.problem import Problem, at_samples
from cindy.summary import Summary

__all__ = ["identify_fields"]

_ROUNDING = 4 * float(np.finfo(float).eps)
"""Of the largest value: what two samples that should be equal differ by after a few operations."""


def identify_fields(
    data: Any,
    basis: Basis,
    form: Formulation | None,
    gather: Callable[..., Summary],
    pose: Callable[..., Problem],
    run: Callable[..., Model],
    seed: int,
) -> Model:
    """The partial differential equations behind measured fields.

    1. Faults of the measurements are corrected where that is safe (`screened`).
    2. The fields become rows, and the rows sums that add up (`WeakRows`).
    3. A rule chooses terms; coefficients and errors follow from the noise at every sample (`estimated`), and
       terms that are not worth their price by these errors are dropped (`measured.model_of`).
    4. What is left of the rows is compared with the noise (`left_over`).
    """
    fields = as_fields(data)
    _check_motion(fields)
    screen = screened(fields)

    def posed(some: Basis) -> tuple[WeakRows, Problem]:
        evidence = WeakRows.of(screen.fields, some, form or Weak(), screen.noise, screen.filled)
        summary = gather(evidence)
        target = np.sqrt(np.sum(summary.total.target**2, axis=0) / max(summary.total.rows, 1))
        return evidence, pose(summary, floor=INEXACT * target)

    def law(some: Basis) -> Model:
        evidence, problem = posed(some)
        summary = problem.summary
        if any(at_samples(c) for c in problem.constraints):
            raise DataError(
                "identify: a conservation law with a tolerance at every sample needs values without noise, "
                "which fields do not give. Leave the tolerance out."
            )
        model = run(problem, estimator=partial(estimated, evidence=evidence))
        return replace(
            model,
            scale=_scale(fields),
            noise=_noise(evidence),
            findings=(*model.findings, *grid_told(evidence), *left_over(model, evidence, summary)),
            settings={**model.settings, "seed": seed},
            explained={"equations": explained_rows(model, summary.total)},
        )

    search = FieldSearch(basis, law, posed)
    model = search.model() if basis.unknowns() else law(basis)
    return replace(model, findings=(*faults_told(screen.faults), *model.findings))


def _noise(evidence: WeakRows) -> Floats:
    """(fields,) root mean square over all grids."""
    levels = [list(noise.values()) for noise in evidence.noise]
    return np.asarray(np.sqrt(np.mean(np.square(levels), axis=0)))


def _scale(fields: Sequence[Field]) -> Floats:
    look = [[float(np.nanmax(np.abs(f.part(0, 1)[s]))) for s in f.states] for f in fields]
    last = [[float(np.nanmax(np.abs(f.last[s]))) for s in f.states] for f in fields]
    return np.asarray(np.max([*look, *last], axis=0))


def _check_motion(fields: Sequence[Field]) -> None:
    for state in fields[0].states:
        ends = [(f.first[state], f.last[state]) for f in fields]
        if all(_same(a, b) for a, b in ends) and all(_still(f, state) for f in fields):
            raise DataError(
                f'identify: the field "{state}" does not change in time, so nothing can be learnt about it. '
                "Leave it out, or pass it as an input."
            )


def _same(a: Floats, b: Floats) -> bool:
    """Whether two fields are, but for rounding."""
    return bool(np.nanmax(np.abs(a - b), initial=0.0) <= _ROUNDING * np.nanmax(np.abs(a), initial=0.0))


def _still(field: Field, state: str) -> bool:
    values = field.slab(state, 0, min(len(field), 8))
    return all(_same(values[..., 0], values[..., k]) for k in range(1, values.shape[-1]))
