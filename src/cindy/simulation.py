"""Solutions of an identified system, stopped where they blow up."""

from __future__ import annotations

import warnings
from bisect import bisect_right
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from cindy._check import floats, integer, positive
from cindy.errors import CindyError, DataError
from cindy.formulation import Discrete
from cindy.trajectory import Trajectory

if TYPE_CHECKING:
    from cindy.model import Model

__all__ = ["Limits", "integrate", "iterate", "simulate"]

Floats = NDArray[np.float64]
RightHandSide = Callable[[float, Any], Any]
Signal = Callable[[float], Sequence[float]]

_EXCESS_WORK = -1
"""What LSODA returns when it has used up its steps."""

_LEAST_STEPS_PER_SAMPLE = 2000
"""What a fast transient between two samples may take, however many samples there are."""


@dataclass(frozen=True)
class Limits:
    """How exact a simulation is, and when it is given up.

    rtol: relative tolerance of one step
    atol: absolute tolerance of one step, in units of the scale of the states
    growth: a state beyond this many times the scale counts as blown up
    steps: how many steps the simulation may take, shared out evenly between its samples
    """

    rtol: float = 1e-9
    atol: float = 1e-12
    growth: float = 1e10
    steps: int = 200_000

    def __post_init__(self) -> None:
        for name in ("rtol", "atol", "growth"):
            if name != "growth" or self.growth != np.inf:
                positive(getattr(self, name), f"Limits: `{name}`")
        integer(self.steps, "Limits: `steps`", least=1)


def simulate(
    model: Model,
    x0: ArrayLike,
    t: ArrayLike,
    u: Callable[[float], ArrayLike] | ArrayLike | None = None,
    *,
    v0: ArrayLike | None = None,
    limits: Limits,
) -> Trajectory:
    """The solution of a model at the times t; see `Model.simulate`."""
    d, names = len(model.states), model.states
    times = Trajectory(t, np.zeros(np.shape(t))).t
    start = _start(model, x0, v0)
    signal = _input_signal(u, times, len(model.inputs))
    largest = float(np.max(np.abs(start))) or 1.0
    usual = np.where(model.scale > 0, model.scale, largest)
    step = _right_hand_side(model, signal)
    if model.order == 2:
        names = (*names, *(f"{name}'" for name in names))
        usual = np.concatenate([usual, np.full(d, max(largest, float(np.max(usual))))])
    solve = iterate if isinstance(model.formulation, Discrete) else integrate
    rows, stopped = solve(step, start, times, names, scale=np.maximum(usual, np.abs(start)), limits=limits)
    times = times[: len(rows)]
    known = None if signal is None else [signal(s) for s in times]
    return Trajectory(times, rows[:, :d], model.states, u=known, inputs=model.inputs or None, stopped=stopped)


def _start(model: Model, x0: ArrayLike, v0: ArrayLike | None) -> Floats:
    """The state to start from: positions, and velocities after them for order 2."""
    start = floats(x0, "simulate: x0", ndim=1)
    d = len(model.states)
    if model.order == 2 and len(start) == d:
        velocity = np.zeros(d) if v0 is None else floats(v0, "simulate: v0", ndim=1)
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


def _right_hand_side(model: Model, signal: Signal | None) -> RightHandSide:
    """The compiled equations as (t, array) → list, of first order whatever their own."""
    rhs, d = model.rhs, len(model.states)
    if model.order == 1:
        if signal is None:
            return lambda s, x: rhs(s, x.tolist())
        return lambda s, x: rhs(s, x.tolist(), signal(s))

    def first_order(s: float, y: Floats) -> list[float]:
        values: list[float] = y.tolist()
        return values[d:] + rhs(s, values[:d], () if signal is None else signal(s))

    return first_order


def integrate(
    rhs: RightHandSide, start: Floats, t: Floats, names: Sequence[str], *, scale: Floats, limits: Limits
) -> tuple[Floats, str | None]:
    """The solution of x' = rhs(t, x) from `start` at t[0], and why it ended early if it did.

    Returns (k, states) for the first k ≥ 1 times of `t`: all of them, or those before the blow-up.

    scale: (states,) the usual size of each state, above zero
    """
    # LSODA turns to an implicit method by itself where the system is stiff. The interface that hands over one
    # sample at a time keeps what was found before a failure, for 2 µs a sample; solve_ivp takes 50 µs a step.
    solver = _solver(rhs, start, t, scale, limits)
    bound = limits.growth * scale
    rows = [start]
    for k, upto in enumerate(t[1:]):
        row = _advance(solver, float(upto))
        if row is not None and np.all(np.abs(row) <= bound):
            rows.append(row)
            continue
        exhausted = row is None and solver.get_return_code() == _EXCESS_WORK
        if exhausted and np.all(np.abs(solver.y) <= bound):
            return np.array(rows), _too_fast(solver, names)
        return np.array(rows), _reason(rhs, rows[-1], t[k : k + 2], names, scale, limits)
    return np.array(rows), None


def iterate(
    step: RightHandSide, start: Floats, t: Floats, names: Sequence[str], *, scale: Floats, limits: Limits
) -> tuple[Floats, str | None]:
    """The iterates of x ← step(t, x), one per time, and why they ended early if they did."""
    bound = limits.growth * scale
    rows = [start]
    for k in range(len(t) - 1):
        try:
            with np.errstate(all="ignore"):
                row = np.array(step(float(t[k]), rows[-1]), dtype=np.float64)
        except CindyError:
            raise
        except (ArithmeticError, ValueError):
            row = np.full(len(start), np.nan)
        if not np.all(np.abs(row) <= bound):
            return np.array(rows), _blown_up(row, float(t[k + 1]), names, bound)
        rows.append(row)
    return np.array(rows), None


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


def _solver(rhs: RightHandSide, start: Floats, t: Floats, scale: Floats, limits: Limits) -> Any:
    from scipy.integrate import ode  # 40 ms to import, and most uses of a model never simulate

    steps = max(_LEAST_STEPS_PER_SAMPLE, limits.steps // max(1, len(t) - 1))
    # The stubs know no tolerance per state; LSODA does.
    atol: Any = limits.atol * scale
    solver = ode(rhs).set_integrator("lsoda", rtol=limits.rtol, atol=atol, nsteps=steps)
    return solver.set_initial_value(start, float(t[0]))


def _advance(solver: Any, upto: float) -> Floats | None:
    """The state at `upto`; None where the solver gave up or the right-hand side has no value."""
    with warnings.catch_warnings(), np.errstate(all="ignore"):
        warnings.simplefilter("ignore")
        try:
            row = np.array(solver.integrate(upto), dtype=np.float64)
        except CindyError:
            raise
        except (ArithmeticError, ValueError):
            return None
    return row if solver.successful() else None


class _Beyond(ArithmeticError):
    """Raised to end the search: a state has left the bounds, or its slope has no value."""


def _reason(
    rhs: RightHandSide, start: Floats, t: Floats, names: Sequence[str], scale: Floats, limits: Limits
) -> str:
    """Which state left the bounds and when, found by going once more from the last good sample."""
    bound = limits.growth * scale
    last = (float(t[0]), start)

    def watched(s: float, x: Floats) -> Any:
        nonlocal last
        last = (s, np.array(x))
        slope = rhs(s, x) if np.all(np.abs(x) <= bound) else [np.nan]
        if not np.all(np.isfinite(slope)):
            raise _Beyond
        return slope

    _advance(_solver(watched, start, t, scale, limits), float(t[1]))
    when, where = last
    if not np.all(np.abs(where) <= bound):
        return _blown_up(where, when, names, bound)
    return f"the right-hand side has no value at t = {when:.6g} ({_state(where, names)})"


def _too_fast(solver: Any, names: Sequence[str]) -> str:
    return (
        f"the solution changes too fast to follow at t = {solver.t:.6g} ({_state(solver.y, names)}): the "
        "limit on steps between two samples was reached. It may be about to blow up; if not, raise "
        "Limits.steps"
    )


def _blown_up(row: Floats, when: float, names: Sequence[str], bound: Floats) -> str:
    worst = int(np.argmax(np.where(np.isnan(row), np.inf, np.abs(row) / bound)))
    return f"{names[worst]} blew up at t = {when:.6g}: it left the bounds ±{bound[worst]:.3g}"


def _state(row: Floats, names: Sequence[str]) -> str:
    shown = [f"{name} = {value:.4g}" for name, value in zip(names, row, strict=True)]
    return ", ".join(shown[:4]) + (", …" if len(shown) > 4 else "")
