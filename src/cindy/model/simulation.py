"""Simulation: the solution of x' = F(x, u, t), x'' = F or a map at given times, or up to a blow-up.

1. Inputs that are held jump at their samples. Cut the times there, so that each stretch is smooth.
2. Ask LSODA for all samples of a stretch at once (Petzold, SIAM J. Sci. Stat. Comput. 4, 1983). It changes
   between an explicit and an implicit method as the equations need.
3. If that fails, solve one half after the other, down to a single interval between two samples. Go through
   it step by step, to find at which time and for what reason the solution ends. LSODA must not overstep
   there: beyond the next sample it may leave the domain of F although the sample itself exists.
4. Equations with switches are solved step by step from the start, as the integrator begins anew after each
   switch (`switching`).

Random paths are in `ensemble`; maps are iterated.
"""

from __future__ import annotations

import itertools
import warnings
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from cindy._arrays import Floats, one_thread
from cindy._check import counted, floats, integer, numbers, one_of, positive
from cindy.basis import TIME, is_run
from cindy.data import HOLDS, Held, Hold, Trajectory, with_turns
from cindy.errors import CindyError, DataError
from cindy.model.equations import Equations, start_of
from cindy.model.matching import unmeasured
from cindy.model.switching import Signal, SwitchedMotion, first_switch, longest_step

RightHandSide = Callable[[float, Any], Any]
Inputs = Callable[[float], ArrayLike] | ArrayLike | None
"""A function of time, samples at the times of the solution, or none."""


@dataclass(frozen=True)
class Limits:
    """The accuracy of a simulation, and the limits at which it stops.

    rtol: relative tolerance of one step
    atol: absolute tolerance of one step, in units of the scale of the states
    growth: a state larger than this many times its scale has blown up
    steps: the most steps of a simulation, shared evenly between its samples

    >>> from cindy.basis import Polynomial
    >>> from cindy.model import Model
    >>> grows = Model([[0.0], [0.0], [1.0]], Polynomial(2), ("x",))
    >>> grows.simulate([1.0], [0.0, 0.5, 2.0], limits=Limits(growth=100)).stopped
    'x blew up at t = 0.990156: it left the bounds ±100'
    """

    rtol: float = 1e-9
    atol: float = 1e-12
    growth: float = 1e10
    steps: int = 200_000

    def __post_init__(self) -> None:
        for name in ("rtol", "atol", "growth"):
            if name != "growth" or not (isinstance(self.growth, float) and self.growth == np.inf):
                positive(getattr(self, name), f"Limits: `{name}`")
        integer(self.steps, "Limits: `steps`", least=1)

    def steps_per_sample(self, samples: int) -> int:
        """An even share of the steps, but enough for a fast transient however many samples there are."""
        return max(2000, self.steps // max(1, samples - 1))


def flow(
    rhs: RightHandSide, start: Floats, t: Floats, names: Sequence[str], *, scale: Floats, limits: Limits
) -> tuple[Floats, str | None]:
    """The solution of x' = rhs(t, x) from `start` at t[0], and why it ended early if it did.

    Returns (k, states) for the first k ≥ 1 times of `t`: all of them, or those before the blow-up.

    scale: (states,) the usual size of each state, above zero
    """
    if isinstance(rhs, SwitchedMotion):
        return _step_by_step(rhs, start, t, names, scale, limits)
    rows = _at_once(rhs, start, t, scale, limits)
    if rows is not None and np.all(np.abs(rows) <= limits.growth * scale):
        return rows, None
    if len(t) <= 2:
        return _step_by_step(rhs, start, t, names, scale, limits)
    # Step 3.
    limits, middle = replace(limits, steps=max(1, limits.steps // 2)), len(t) // 2
    rows, stopped = flow(rhs, start, t[: middle + 1], names, scale=scale, limits=limits)
    if stopped is not None:
        return rows, stopped
    more, stopped = flow(rhs, rows[-1], t[middle:], names, scale=scale, limits=limits)
    return np.concatenate([rows, more[1:]]), stopped


def _at_once(rhs: RightHandSide, start: Floats, t: Floats, scale: Floats, limits: Limits) -> Floats | None:
    """All samples in one call of LSODA, or None if that failed.

    It is called through odeint, which spends 0.4 µs a step outside the right-hand side where solve_ivp
    spends 50. The samples that odeint returns after a failure are undefined, hence None.
    """
    from scipy.integrate import odeint  # 40 ms to import, and most uses of a model never simulate

    if len(t) == 1:
        return start[None]
    # The type stubs lack a tolerance per state; LSODA has it.
    atol: Any = limits.atol * scale
    try:
        steps = limits.steps_per_sample(len(t))
        rows, info = odeint(
            rhs, start, t, tfirst=True, full_output=True, rtol=limits.rtol, atol=atol, mxstep=steps
        )
    except CindyError:
        raise
    except (ArithmeticError, ValueError):
        return None
    return np.asarray(rows) if info["message"] == "Integration successful." else None


def _step_by_step(
    rhs: RightHandSide, start: Floats, t: Floats, names: Sequence[str], scale: Floats, limits: Limits
) -> tuple[Floats, str | None]:
    """The samples before the solution ends, and why it ends; from switch to switch if there are switches."""
    from scipy.integrate import LSODA

    switched = rhs if isinstance(rhs, SwitchedMotion) else None
    longest = switched.longest if switched else np.inf
    tolerances: Any = {"rtol": limits.rtol, "atol": limits.atol * scale}
    bound, most = limits.growth * scale, limits.steps_per_sample(len(t))
    watch = _Watch(rhs, bound)
    solver: Any = None
    rows, now, y, steps = [start], float(t[0]), start, 0
    if switched is not None:
        switched.begin(now, y, scale)
    while len(rows) < len(t):
        if solver is None:
            # The history of a multistep method is invalid beyond a switch.
            solver = LSODA(watch, now, y, float(t[-1]), max_step=longest, **tolerances)
        if not _advanced(solver) or not np.all(np.abs(solver.y) <= bound):
            return np.array(rows), watch.reason(names, solver.y, solver.t)
        before, now, y, place, steps = now, solver.t, solver.y, None, steps + 1
        if switched is not None or t[len(rows)] <= now:
            curve = solver.dense_output()
            if switched is not None:
                now, place = first_switch(switched, curve, before, now, scale)
                y = curve(now)
            while len(rows) < len(t) and t[len(rows)] <= now:
                rows.append(curve(t[len(rows)]))
                steps = 0
        if steps > most:
            # Within bounds: the solution oscillates too fast, and does not blow up.
            return np.array(rows), _too_fast(y, now, names)
        if switched is not None and place is not None:
            solver = None
            switched.switch(place, now, y)
            if switched.stuck:
                where = f"t = {now:.6g} ({_state(y, names)})"
                return np.array(rows), f"the equations switch too often to follow at {where}"
    return np.array(rows), None


def _advanced(solver: Any) -> bool:
    """Whether the solver took a step: not if it gave up, or if the right-hand side has no value."""
    try:
        solver.step()
    except CindyError:
        raise
    except (ArithmeticError, ValueError):
        return False
    return bool(solver.status != "failed")


def _iterates(
    step: RightHandSide, start: Floats, t: Floats, names: Sequence[str], *, scale: Floats, limits: Limits
) -> tuple[Floats, str | None]:
    """The iterates of x ← step(t, x), one per time, and why they ended early if they did."""
    bound = limits.growth * scale
    rows = [start]
    for k in range(len(t) - 1):
        try:
            row = np.array(step(float(t[k]), rows[-1]), dtype=np.float64)
        except CindyError:
            raise
        except (ArithmeticError, ValueError):
            row = np.full(len(start), np.nan)
        if not np.all(np.abs(row) <= bound):
            return np.array(rows), blown_up(row, float(t[k + 1]), names, bound)
        rows.append(row)
    return np.array(rows), None


class _Watch:
    """A right-hand side that remembers its last argument, and stops the solver at the end of a solution."""

    def __init__(self, rhs: RightHandSide, bound: Floats) -> None:
        self.rhs, self.bound = rhs, bound
        self.when, self.where, self.slope = np.nan, bound, bound

    def __call__(self, s: float, x: Floats) -> Floats:
        self.when, self.where = s, np.array(x)
        self.slope = np.full(len(x), np.nan)
        if np.all(np.abs(x) <= self.bound):
            self.slope = np.array(self.rhs(s, x))
        if not np.all(np.isfinite(self.slope)):
            raise ArithmeticError
        return self.slope

    def reason(self, names: Sequence[str], row: Floats, upto: float) -> str:
        """Why the solution ends: at the last argument, or at `row`, its value at the time `upto`."""
        if not np.all(np.abs(self.where) <= self.bound):
            return blown_up(self.where, self.when, names, self.bound)
        if not np.all(np.isfinite(self.slope)):
            return f"the right-hand side has no value at t = {self.when:.6g} ({_state(self.where, names)})"
        if not np.all(np.abs(row) <= self.bound):
            return blown_up(row, upto, names, self.bound)
        return _too_fast(self.where, self.when, names)


def _too_fast(row: Floats, when: float, names: Sequence[str]) -> str:
    return (
        f"the solution changes too fast to follow at t = {when:.6g} ({_state(row, names)}): the steps "
        "allowed between two samples are used up. If it is not about to blow up, raise Limits.steps"
    )


def blown_up(row: Floats, when: float, names: Sequence[str], bound: Floats) -> str:
    """Which state left its bounds, and when."""
    worst = int(np.argmax(np.where(np.isnan(row), np.inf, np.abs(row) / bound)))
    return f"{names[worst]} blew up at t = {when:.6g}: it left the bounds ±{bound[worst]:.3g}"


def _state(row: Floats, names: Sequence[str]) -> str:
    shown = [f"{name} = {value:.4g}" for name, value in zip(names, row, strict=True)]
    return ", ".join(shown[:4]) + (", …" if len(shown) > 4 else "")


@one_thread()
def simulate(
    model: Equations,
    x0: ArrayLike | Mapping[str, float],
    t: ArrayLike,
    u: Inputs = None,
    *,
    hold: Hold = "linear",
    u_t: ArrayLike | None = None,
    v0: ArrayLike | None = None,
    run: str | None = None,
    limits: Limits,
    path: Callable[..., tuple[Floats, str | None]] | None = None,
) -> Trajectory:
    """The solution of a model at the times t; see `Model.simulate`.

    path: a solver in place of `flow`, such as a `RandomPath`
    """
    d, names = len(model.states), model.states
    times = numbers(t, "simulate: `t`")
    if times.ndim != 1:
        raise DataError("simulate: `t` must be the times of a solution, such as numpy.linspace(0, 10, 1001).")
    # Times must be finite and increase, which the constructor of a trajectory checks.
    times = Trajectory(times, np.zeros(np.shape(times))).t
    one_of(hold, HOLDS, "simulate: `hold`")
    own = times
    if u_t is not None:
        own, u = _measured(times, u, u_t, hold)
    start = start_of(model, x0, v0, "simulate")
    u = without_time(model, u, own)
    signal = all_inputs(model, u, own, run, hold)
    # A model written by hand does not know the size of its states; the start is the only hint.
    largest = float(np.max(np.abs(start))) or 1.0
    scale = np.where(model.scale > 0, model.scale, largest)
    if model.order == 2:
        names = (*names, *(f"{name}'" for name in names))
        # The size of rates is not known; a generous one only makes the bounds wider.
        scale = np.concatenate([scale, np.full(d, max(largest, float(np.max(scale))))])
    scale = np.maximum(scale, np.abs(start))
    solve = partial(path or (_iterates if model.formulation.discrete else flow), names=names, limits=limits)
    rows, state, stopped = [start[None]], start, None
    # Step 1.
    jumps = () if model.formulation.discrete else _jumps(u, own, hold)
    edges = np.unique([times[0], *(s for s in jumps if times[0] < s < times[-1]), times[-1]])
    for begin, end in itertools.pairwise(edges.tolist()):
        held = signal if signal is None or not len(jumps) else _constant(signal(begin))
        rhs = _right_hand_side(model, held, times if path is None else None)
        inside = times[(times > begin) & (times <= end)]
        with warnings.catch_warnings(), np.errstate(all="ignore"):
            warnings.simplefilter("ignore")
            span = np.union1d([begin, end], inside)
            more, stopped = solve(rhs, state, span, scale=scale)
        rows.append(more[1:][np.isin(span[1 : len(more)], inside)])
        state = more[-1]
        if stopped is not None:
            break
    x = np.concatenate(rows)[:, :d]
    times = times[: len(x)]
    values = None if signal is None else [signal(s) for s in times]
    given = tuple(name for name in model.inputs if name != TIME) or None
    return Trajectory(times, x, model.states, u=values, inputs=given, hold=hold, stopped=stopped)


def _measured(t: Floats, u: Inputs, u_t: ArrayLike, hold: Hold) -> tuple[Floats, Floats]:
    """The times at which inputs were measured that have times of their own, and the inputs there."""
    if u is None or callable(u):
        raise DataError("simulate: `u_t` gives the times of sampled inputs, so `u` must hold their values.")
    given = Trajectory(u_t, np.asarray(u))
    measured = np.isfinite(given.x).all(axis=1)
    own, values = given.t[measured], given.x[measured]
    if not len(own) or t[0] < own[0] or (t[-1] > own[-1] and hold != "zero"):
        span = f"known for t = {own[0]:g} … {own[-1]:g}" if len(own) else "missing at every sample"
        raise DataError(f"simulate: the inputs are {span}, but the times are {t[0]:g} … {t[-1]:g}.")
    return with_turns(t, own, values, hold)[1], values


def _jumps(u: Inputs, t: Floats, hold: Hold) -> Floats:
    """The times at which held inputs jump.

    An integrator that starts anew after each jump of the inputs keeps its order. One that steps across does
    not, and may miss a short pulse.
    """
    if hold != "zero" or u is None or callable(u):
        return np.zeros(0)
    rows = np.asarray(u, dtype=np.float64).reshape(len(t), -1)
    return np.asarray(t[1:][(np.diff(rows, axis=0) != 0).any(axis=1)])


def _constant(values: Sequence[float]) -> Signal:
    return lambda s: values


def _right_hand_side(model: Equations, signal: Signal | None, times: Floats | None) -> RightHandSide:
    """The compiled equations in first-order form, as (t, array) → list; with their switches if they have any.

    times: of the whole solution, for an integrator that goes from switch to switch; else None
    """
    rhs, d, rates = model.rhs, len(model.states), bool(model.rates)
    if times is not None and not model.formulation.discrete and model.switches is not None:
        return SwitchedMotion(model.switches, signal, longest_step(times))
    if model.order == 1:
        if signal is None:
            return lambda s, x: rhs(s, x.tolist())
        return lambda s, x: rhs(s, x.tolist(), signal(s))

    def first_order(s: float, y: Floats) -> list[float]:
        values: list[float] = y.tolist()
        return values[d:] + rhs(s, values if rates else values[:d], () if signal is None else signal(s))

    return first_order


def _width(u: Inputs, t: Floats) -> int:
    """The number of inputs in `u`."""
    if u is None:
        return 0
    return np.size(u(float(t[0]))) if callable(u) else np.size(u) // max(len(t), 1)


def without_time(model: Equations, u: Inputs, t: Floats) -> Inputs:
    """The inputs without the time, which is a column of trajectories that were matched with the model."""
    if TIME not in model.inputs or _width(u, t) != len(model.inputs):
        return u
    if len(model.inputs) == 1:
        return None
    column = model.inputs.index(TIME)
    if callable(u):
        function = u
        return lambda s: np.delete(np.asarray(function(s), dtype=np.float64), column)
    return np.delete(np.asarray(u, dtype=np.float64).reshape(len(t), -1), column, axis=1)


def all_inputs(model: Equations, u: Inputs, t: Floats, run: str | None, hold: Hold) -> Signal | None:
    """The inputs but the time as a function of time, those included that select the run (`PerRun`)."""
    inputs = [name for name in model.inputs if name != TIME]
    measured = [name for name in inputs if not unmeasured(name)]
    runs = [name for name in inputs if is_run(name)]
    if len(measured) == len(inputs) or _width(u, t) == len(inputs):
        if run is not None:
            raise DataError("simulate: `run` must be left out: no term has a coefficient for each run.")
        return _input_signal(u, t, len(inputs), hold)
    if runs and (run is None or f"[{run}]" not in runs):
        names = ", ".join(repr(name[1:-1]) for name in runs[:12])
        raise DataError(
            f"simulate: the model has coefficients for each run; say which with `run` (--run): {names}."
        )
    signal = _input_signal(u, t, len(measured), hold)
    place = {name: k for k, name in enumerate(measured)}

    def complete(s: float) -> Sequence[float]:
        values = () if signal is None else signal(s)
        return [values[place[n]] if n in place else float(n == f"[{run}]") for n in inputs]

    return complete


def _input_signal(u: Inputs, t: Floats, count: int, hold: Hold) -> Signal | None:
    """The inputs as a function of time: `u` itself, or its samples at the times `t`, continued by `hold`.

    None if there are no inputs (count = 0).
    """
    if u is None or count == 0:
        if u is None and count == 0:
            return None
        expected = (
            f"{counted(count, 'input')}, which `u` must give"
            if count
            else "no inputs, so `u` must be left out"
        )
        raise DataError(f"simulate: the model has {expected}.")
    if callable(u):
        function = u

        def called(s: float) -> Sequence[float]:
            values: list[float] = np.atleast_1d(np.asarray(function(s), dtype=np.float64)).tolist()
            if len(values) != count:
                raise DataError(
                    f"simulate: `u` must return {counted(count, 'value')}, "
                    f"but u({s:g}) returned {len(values)}."
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
    return Held(t, array, hold)
