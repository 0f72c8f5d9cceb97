"""Fields of a model: from a first field and times to a solution."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from cindy._arrays import one_thread
from cindy._check import floats
from cindy._types import Floats
from cindy.calculus import derivative_weights
from cindy.data import Field
from cindy.errors import DataError
from cindy.model.equations import Equations
from cindy.model.lines import Boundary, Lines, lines_solution
from cindy.model.simulation import Limits
from cindy.model.spectral import Spectral, Summand, spectral_solution

__all__ = ["simulate_field", "summands"]

_RATE = 7
"""Times by which the first rate of an equation of second order is estimated, where they are given."""
_STEP = 1e-5
"""Relative tolerance of a solution, unless the limits ask for less: data are seldom better."""


@one_thread()
def simulate_field(
    model: Equations,
    start: Any,
    t: ArrayLike,
    *,
    boundary: Boundary = "reflecting",
    limits: Limits,
    progress: Callable[[int, int], None] | None = None,
) -> Field:
    """The solution of a model of fields at the times t; see `Model.simulate`."""
    if not isinstance(start, Field):
        raise DataError("simulate: a model of fields starts from a Field, such as field.first.")
    if start.states != model.states:
        raise DataError(
            f"simulate: the model is about {', '.join(model.states)}, but the field holds "
            f"{', '.join(start.states)}."
        )
    times = floats(t, "simulate: t", ndim=1)
    if not len(times) or (np.diff(times) <= 0).any():
        raise DataError("simulate: t must hold increasing times.")
    first = _first(start, model.order)
    known = _known(start, model.inputs)
    found = summands(model, start.axes)
    periods = tuple(start.period(axis) for axis in start.axes)
    rtol = max(limits.rtol, _STEP)
    uniform = all(start.uniform(axis) for axis in start.axes)
    solution: Callable[..., tuple[list[Floats], str | None]]
    if uniform and all(p is not None for p in periods):
        lengths = tuple(float(p or 0.0) for p in periods)
        shape = first.shape[1:]
        system: Any = Spectral(found, model.states, start.axes, shape, lengths, known, model.order)
        solution = spectral_solution
    else:
        coordinates = tuple(start.coordinate(axis) for axis in start.axes)
        system = Lines(
            found,
            model.states,
            model.variables,
            start.axes,
            coordinates,
            periods,
            known,
            boundary,
            model.order,
        )
        solution = lines_solution
    rows, stopped = solution(
        system, first, times, rtol=rtol, growth=min(limits.growth, 1e6), progress=progress
    )
    values = {state: np.stack([row[i] for row in rows], axis=-1) for i, state in enumerate(model.states)}
    return start.with_values(times[: len(rows)], values, stopped=stopped)


def summands(model: Equations, axes: tuple[str, ...]) -> list[Summand]:
    """The terms that are present: functions of the fields, orders of their derivatives, coefficients."""
    found: list[Summand] = []
    for term, coef in zip(model.basis.terms(model.variables), model.coef, strict=True):
        if coef.any():
            whole = len(term) == 1 and term[0].kind == "derivative" and term[0].power == 1
            orders = tuple(term[0].by.count(axis) if whole else 0 for axis in axes)
            found.append((term[0].of if whole else term, orders, np.asarray(coef)))
    return found


def _first(start: Field, order: int) -> Floats:
    """(states · order, space …): the fields at the first time, and their rates for order 2."""
    values = [start.slab(state, 0, 1)[..., 0] for state in start.states]
    if order == 2:
        count = min(_RATE, len(start))
        if count > 1:
            weights = derivative_weights(start.t[:count], order=1, degree=min(3, count - 1), half_width=count)
            row = weights.toarray()[0]
            values += [start.slab(state, 0, count) @ row for state in start.states]
        else:
            values += [np.zeros_like(v) for v in values]
    first = np.stack(values)
    if np.isnan(first).any():
        raise DataError("simulate: the field to start from has missing values.")
    return first


def _known(start: Field, inputs: tuple[str, ...]) -> Callable[[float], dict[str, Floats]]:
    """The inputs as a function of time, joined by straight lines."""
    missing = [name for name in inputs if name not in start.inputs]
    if missing:
        raise DataError(f"simulate: the field to start from lacks the input {missing[0]!r} of the model.")
    grids = {name: start[name] for name in inputs}
    times = start.t

    def at(t: float) -> dict[str, Floats]:
        k = int(np.clip(np.searchsorted(times, t) - 1, 0, max(len(times) - 2, 0)))
        if len(times) == 1:
            return {name: grid[..., 0] for name, grid in grids.items()}
        share = float(np.clip((t - times[k]) / (times[k + 1] - times[k]), 0.0, 1.0))
        return {name: (1 - share) * grid[..., k] + share * grid[..., k + 1] for name, grid in grids.items()}

    return at
