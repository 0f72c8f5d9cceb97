"""Trajectories of a model: from a start, times and inputs to a solution."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Callable, Mapping, Sequence

import numpy as np
from numpy.typing import ArrayLike

from cindy._check import floats
from cindy._types import Floats
from cindy.basis import is_run
from cindy.data import Trajectory
from cindy.errors import DataError
from cindy.model.by_name import in_order
from cindy.model.equations import Equations
from cindy.model.integration import Limits, RightHandSide, flow, step_through
from cindy.model.unmeasured import unmeasured

__all__ = ["simulate"]

Signal = Callable[[float], Sequence[float]]


def simulate(
    model: Equations,
    x0: ArrayLike | Mapping[str, float],
    t: ArrayLike,
    u: Callable[[float], ArrayLike] | ArrayLike | None = None,
    *,
    v0: ArrayLike | None = None,
    run: str | None = None,
    limits: Limits,
) -> Trajectory:
    """The solution of a model at the times t; see `Model.simulate`."""
    d, names = len(model.states), model.states
    if np.ndim(t) != 1:
        raise DataError(
            "simulate: `t` must be the times of the solution, such as numpy.linspace(0, 10, 1001)."
        )
    times = Trajectory(t, np.zeros(np.shape(t))).t
    start = _start(model, x0, v0)
    signal = _all_inputs(model, u, times, run)
    largest = float(np.max(np.abs(start))) or 1.0
    usual = np.where(model.scale > 0, model.scale, largest)
    step = _right_hand_side(model, signal)
    if model.order == 2:
        names = (*names, *(f"{name}'" for name in names))
        usual = np.concatenate([usual, np.full(d, max(largest, float(np.max(usual))))])
    solve = step_through if model.formulation.discrete else flow
    rows, stopped = solve(step, start, times, names, scale=np.maximum(usual, np.abs(start)), limits=limits)
    times = times[: len(rows)]
    known = None if signal is None else [signal(s) for s in times]
    return Trajectory(times, rows[:, :d], model.states, u=known, inputs=model.inputs or None, stopped=stopped)


def _start(model: Equations, x0: ArrayLike | Mapping[str, float], v0: ArrayLike | None) -> Floats:
    """The state to start from: positions, and velocities after them for order 2."""
    d = len(model.states)
    names = model.states
    if isinstance(x0, Mapping) and len(x0) == 2 * d and model.order == 2:
        names += tuple(f"{name}'" for name in names)
    start = floats(in_order(x0, names, "simulate: x0"), "simulate: x0", ndim=1)
    if model.order == 2 and len(start) == d:
        velocity = (
            np.zeros(d)
            if v0 is None
            else floats(in_order(v0, model.states, "simulate: v0"), "simulate: v0", ndim=1)
        )
        start = np.concatenate([start, velocity])
    elif v0 is not None:
        why = "x0 holds velocities already" if model.order == 2 else "the equations are of first order"
        raise DataError(f"simulate: `v0` must be left out: {why}.")
    if len(start) != model.order * d:
        expected = f"{d} values ({', '.join(model.states)})" + (
            f", with as many in v0, or {2 * d}" * (model.order == 2)
        )
        raise DataError(f"simulate: x0 must have {expected}, but there are {len(start)} in all.")
    return start


def _right_hand_side(model: Equations, signal: Signal | None) -> RightHandSide:
    """The compiled equations as (t, array) → list, of first order whatever their own."""
    rhs, d, rates = model.rhs, len(model.states), bool(model.rates)
    if model.order == 1:
        if signal is None:
            return lambda s, x: rhs(s, x.tolist())
        return lambda s, x: rhs(s, x.tolist(), signal(s))

    def first_order(s: float, y: Floats) -> list[float]:
        values: list[float] = y.tolist()
        return values[d:] + rhs(s, values if rates else values[:d], () if signal is None else signal(s))

    return first_order


def _all_inputs(
    model: Equations, u: Callable[[float], ArrayLike] | ArrayLike | None, t: Floats, run: str | None
) -> Signal | None:
    """The inputs as a function of time, with those that nobody measures: the time itself, and the run."""
    measured = [name for name in model.inputs if not unmeasured(name)]
    runs = [name for name in model.inputs if is_run(name)]
    given = 0 if u is None else np.size(u(float(t[0]))) if callable(u) else np.size(u) // max(len(t), 1)
    if len(measured) == len(model.inputs) or given == len(model.inputs):
        if run is not None:
            raise DataError("simulate: `run` must be left out: no term has a coefficient for each run.")
        return _input_signal(u, t, len(model.inputs))
    if runs and (run is None or f"[{run}]" not in runs):
        known = ", ".join(repr(name[1:-1]) for name in runs[:12])
        raise DataError(f"simulate: the model has coefficients for each run; say which with run=…: {known}.")
    signal = _input_signal(u, t, len(measured))
    place = {name: k for k, name in enumerate(measured)}
    fixed = {name: float(name == f"[{run}]") for name in runs}

    def every(s: float) -> Sequence[float]:
        known = () if signal is None else signal(s)
        return [known[place[n]] if n in place else fixed.get(n, s) for n in model.inputs]

    return every


def _input_signal(u: Callable[[float], ArrayLike] | ArrayLike | None, t: Floats, count: int) -> Signal | None:
    """The inputs as a function of time: a function as it is, samples on `t` joined by straight lines.

    None where there are no inputs (count = 0).
    """
    if u is None or count == 0:
        if u is None and count == 0:
            return None
        expected = f"{count} input(s), which `u` must give" if count else "no inputs, so `u` must be left out"
        raise DataError(f"simulate: the model has {expected}.")
    if callable(u):
        function = u

        def called(s: float) -> Sequence[float]:
            values: list[float] = np.atleast_1d(np.asarray(function(s), dtype=np.float64)).tolist()
            if len(values) != count:
                raise DataError(
                    f"simulate: `u` must return {count} value(s), but u({s:g}) returned {len(values)}."
                )
            return values

        return called
    array = np.asarray(u)
    array = floats(array[:, None] if array.ndim == 1 else array, "simulate: `u`", ndim=2)
    if array.shape != (len(t), count):
        raise DataError(
            f"simulate: `u` must have shape ({len(t)}, {count}), one row per time and one column per input, "
            f"but has shape {array.shape}."
        )
    times, rows = t.tolist(), array.tolist()
    if len(times) == 1:
        return lambda s: rows[0]

    def joined(s: float) -> Sequence[float]:
        k = min(max(bisect_right(times, s) - 1, 0), len(times) - 2)
        share = (s - times[k]) / (times[k + 1] - times[k])
        return [a + share * (b - a) for a, b in zip(rows[k], rows[k + 1], strict=True)]

    return joined
