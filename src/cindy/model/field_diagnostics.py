"""What a careful reader would check of equations of fields."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from cindy._arrays import one_thread
from cindy._types import Floats
from cindy.data import Field
from cindy.errors import CindyError
from cindy.model.diagnostics import Diagnostics, MeasuredRows
from cindy.model.field_comparison import field_rows_of, solved_field
from cindy.model.model import Model

__all__ = ["FieldComparison", "compare_fields", "diagnose_fields"]


_MOST = 2_000_000
"""Values of a field beyond which it is not solved for a picture: that would take minutes."""


@dataclass(frozen=True, eq=False)
class FieldComparison:
    """A field beside the solution that starts as it does.

    solved: by state, over space and time, NaN after a blow-up; empty where there is no solution
    explained: (states,) R² of the solution; NaN without one
    follows: the time until which the solution explains half of every state at least
    said: why there is none, or why it ended
    """

    field: Field
    solved: dict[str, Floats]
    explained: Floats
    follows: float
    said: tuple[str, ...] = ()


def diagnose_fields(model: Model, fields: Sequence[Field]) -> Diagnostics:
    """The rows and what the equations leave of them; fields have no residuals in time alone."""
    form, total = field_rows_of(model, fields)
    rows, nothing = MeasuredRows(total), np.full(len(model.states), np.nan)
    return Diagnostics(
        formulation=form,
        rows=rows,
        loss=rows.losses(model.coef),
        residuals=[],
        rms=nothing,
        correlation=nothing[None, :],
        band=0.0,
        noise=np.asarray(model.noise),
        findings=model.findings,
    )


@one_thread()
def compare_fields(model: Model, one: Field) -> FieldComparison:
    """The solution of a model beside a field, if it can be had in reasonable time."""
    nothing = np.full(len(model.states), np.nan)
    if np.prod(one.shape) > _MOST:
        return FieldComparison(one, {}, nothing, np.nan, ("The grid is too large to be solved for a page.",))
    try:
        solved = solved_field(model, one)
    except CindyError as error:
        return FieldComparison(one, {}, nothing, np.nan, (f"There is no solution to show: {error}",))
    left, whole = [], []
    for state in model.states:
        measured = one[state]
        space = tuple(range(measured.ndim - 1))
        left.append(np.nansum((measured - solved[state]) ** 2, axis=space))
        whole.append(np.nansum((measured - np.nanmean(measured)) ** 2, axis=space))
    known = np.all(
        [np.isfinite(solved[s]).any(axis=tuple(range(solved[s].ndim - 1))) for s in solved], axis=0
    )
    said = () if known.all() else (f"The solution ends at {one.time} = {one.t[known][-1]:.4g}.",)
    good = known & np.all(np.array(left) <= 0.5 * np.mean(whole, axis=1, keepdims=True), axis=0)
    last = int(np.argmin(good)) if not good.all() else len(good)
    explained = 1.0 - np.array(left)[:, known].sum(axis=1) / np.maximum(
        np.array(whole)[:, known].sum(axis=1), 1e-300
    )
    return FieldComparison(one, solved, explained, float(one.t[max(last - 1, 0)]), said)
