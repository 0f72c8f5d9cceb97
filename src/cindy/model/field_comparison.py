"""Fields beside their models: what the equations explain, and what solutions do."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from cindy._check import integer
from cindy._types import Floats
from cindy.data import Field, as_fields, is_fields
from cindy.errors import DataError
from cindy.formulation import Formulation
from cindy.least_squares import LeastSquares
from cindy.model.equations import Equations
from cindy.model.field_simulation import simulate_field
from cindy.model.simulation import Limits
from cindy.summary import accumulate

__all__ = ["explained_rows", "field_rows_of", "matched_fields", "score_fields", "solved_field"]


def matched_fields(model: Equations, data: Any, where: str) -> list[Field]:
    """Whatever a user may hold, as fields with the variables of the model; or an error."""
    if not is_fields(data):
        raise DataError(f"{where}: a model of fields needs a Field, or a list of them.")
    found = as_fields(data)
    one = found[0]
    if (one.states, one.inputs) != (model.states, model.inputs):
        about, got = (", ".join(names) for names in (model.variables, one.variables))
        raise DataError(f"{where}: the model is about {about}, but the fields hold {got}.")
    return found


def score_fields(model: Equations, data: Any, kind: str, *, window: int | None) -> float:
    """R², the mean over the fields; see `Model.score`."""
    fields = matched_fields(model, data, "score")
    if kind == "derivative":
        raise DataError(
            'score: no derivative of a field is estimated. Use kind="equation", which integrates against '
            'test functions, or kind="trajectory".'
        )
    if kind == "equation":
        return explained_rows(model, field_rows_of(model, fields)[1])
    if window is not None:
        integer(window, "score: `window`", least=2)
    rest, whole = np.zeros(len(model.states)), np.zeros(len(model.states))
    for field in fields:
        found = solved_field(model, field, window=window)
        for j, state in enumerate(model.states):
            measured, solved = field[state], found[state]
            if np.isnan(solved).any():
                return -np.inf
            rest[j] += np.nansum((measured - solved) ** 2)
            whole[j] += np.nansum((measured - np.nanmean(measured)) ** 2)
    return float(np.mean(1.0 - rest / np.where(whole > 0, whole, 1.0)))


def field_rows_of(model: Equations, fields: Sequence[Field]) -> tuple[Formulation, LeastSquares]:
    """The form, and the rows of the fields in it, as one objective."""
    summary = accumulate(list(fields), model.basis, formulation=model.formulation, blocks=1)
    return summary.formulation, summary.total


def explained_rows(model: Equations, total: LeastSquares) -> float:
    """R² of equations in the rows of fields, whose mean test functions take out; the mean over the states."""
    left = np.sum((total.design @ model.coef - total.target) ** 2, axis=0)
    whole = np.sum(total.target**2, axis=0)
    return float(np.mean(1.0 - np.divide(left, whole, out=np.zeros(len(left)), where=whole > 0)))


def solved_field(
    model: Equations,
    field: Field,
    *,
    window: int | None = None,
    progress: Callable[[int, int], None] | None = None,
) -> dict[str, Floats]:
    """The solution at the times of a field, by state; NaN after a blow-up.

    It starts from the smoothed field, where nothing is missing, since noise in the start would be carried
    along; afresh every `window` samples if given.
    """
    holes = any(np.isnan(field[state]).any() for state in field.states)
    start = field if holes else field.smoothed()
    values = {state: np.full(field.shape, np.nan) for state in field.states}
    every = len(field) if window is None else window
    for low in range(0, len(field), every):
        high = min(low + every, len(field))
        begun = start.part(low, high)
        made = simulate_field(model, begun, field.t[low:high], limits=Limits(), progress=progress)
        for state in field.states:
            values[state][..., low : low + len(made)] = made[state]
    return values
