"""Numerical solutions of x' = F and of x ← F, stopped where they blow up."""

import itertools
import warnings
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from cindy._check import integer, positive
from cindy._types import Floats
from cindy.errors import CindyError

__all__ = ["Limits", "RightHandSide", "flow", "step_through"]

RightHandSide = Callable[[float, Any], Any]

_EXCESS_WORK = -1
"""What LSODA returns when it has used up its steps."""


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

    def steps_per_sample(self, samples: int) -> int:
        """An even share of the steps, with room for a fast transient however many samples there are."""
        return max(2000, self.steps // max(1, samples - 1))


def flow(
    rhs: RightHandSide, start: Floats, t: Floats, names: Sequence[str], *, scale: Floats, limits: Limits
) -> tuple[Floats, str | None]:
    """The solution of x' = rhs(t, x) from `start` at t[0], and why it ended early if it did.

    Returns (k, states) for the first k ≥ 1 times of `t`: all of them, or those before the blow-up.

    scale: (states,) the usual size of each state, above zero
    """
    bound = limits.growth * scale
    with warnings.catch_warnings(), np.errstate(all="ignore"):
        warnings.simplefilter("ignore")
        rows = _at_once(rhs, start, t, scale, limits)
        if rows is not None and np.all(np.abs(rows) <= bound):
            return rows, None
        return _one_by_one(rhs, start, t, names, scale, limits)


def _at_once(rhs: RightHandSide, start: Floats, t: Floats, scale: Floats, limits: Limits) -> Floats | None:
    """All samples in one call, or None where that failed.

    LSODA, because it turns to an implicit method by itself where the system is stiff; odeint, because it
    spends 0.4 µs a step outside the right-hand side where solve_ivp spends 50. What it leaves after a
    failure is not defined, so a failure is gone over again, sample by sample.
    """
    from scipy.integrate import odeint  # 40 ms to import, and most uses of a model never simulate

    if len(t) == 1:
        return start[None]
    # The stubs know no tolerance per state; LSODA does.
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


def _one_by_one(
    rhs: RightHandSide, start: Floats, t: Floats, names: Sequence[str], scale: Floats, limits: Limits
) -> tuple[Floats, str | None]:
    """The samples before the solution ends, and why it does.

    LSODA steps beyond the next sample and may so leave the domain of the right-hand side too early;
    only a second try that starts at the last good sample and does not overstep decides.
    """
    bound = limits.growth * scale
    solver = _solver(rhs, start, t[0], scale, limits, len(t))
    rows = [start]
    for before, upto in itertools.pairwise(t.tolist()):
        row = _advance(solver, upto)
        if row is None and solver.get_return_code() == _EXCESS_WORK and np.all(np.abs(solver.y) <= bound):
            return np.array(rows), _too_fast(solver.y, solver.t, names)
        if row is None or not np.all(np.abs(row) <= bound):
            watch = _Watch(rhs, bound)
            solver = _solver(watch, rows[-1], before, scale, limits, len(t), longest=upto - before)
            row = _advance(solver, upto)
            if row is None or not np.all(np.abs(row) <= bound):
                return np.array(rows), watch.reason(names, solver.y if row is None else row, upto)
        rows.append(row)
    return np.array(rows), None


def step_through(
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


def _solver(
    rhs: RightHandSide,
    start: Floats,
    begin: float,
    scale: Floats,
    limits: Limits,
    samples: int,
    *,
    longest: float = 0.0,
) -> Any:
    from scipy.integrate import ode

    atol: Any = limits.atol * scale
    steps = limits.steps_per_sample(samples)
    solver = ode(rhs)
    solver.set_integrator("lsoda", rtol=limits.rtol, atol=atol, nsteps=steps, max_step=longest)
    return solver.set_initial_value(start, begin)


def _advance(solver: Any, upto: float) -> Floats | None:
    """The state at `upto`; None where the solver gave up or the right-hand side has no value."""
    try:
        row = np.array(solver.integrate(upto), dtype=np.float64)
    except CindyError:
        raise
    except (ArithmeticError, ValueError):
        return None
    return row if solver.successful() else None


class _Watch:
    """A right-hand side that remembers where it was asked, and stops the solver where things end."""

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
        """Why the solution ends: at the last place that was asked about, or at `row` at the time `upto`."""
        if not np.all(np.abs(self.where) <= self.bound):
            return _blown_up(self.where, self.when, names, self.bound)
        if not np.all(np.isfinite(self.slope)):
            return f"the right-hand side has no value at t = {self.when:.6g} ({_state(self.where, names)})"
        if not np.all(np.abs(row) <= self.bound):
            return _blown_up(row, upto, names, self.bound)
        return _too_fast(self.where, self.when, names)


def _too_fast(row: Floats, when: float, names: Sequence[str]) -> str:
    return (
        f"the solution changes too fast to follow at t = {when:.6g} ({_state(row, names)}): the steps "
        "allowed between two samples are used up. If it is not about to blow up, raise Limits.steps"
    )


def _blown_up(row: Floats, when: float, names: Sequence[str], bound: Floats) -> str:
    worst = int(np.argmax(np.where(np.isnan(row), np.inf, np.abs(row) / bound)))
    return f"{names[worst]} blew up at t = {when:.6g}: it left the bounds ±{bound[worst]:.3g}"


def _state(row: Floats, names: Sequence[str]) -> str:
    shown = [f"{name} = {value:.4g}" for name, value in zip(names, row, strict=True)]
    return ", ".join(shown[:4]) + (", …" if len(shown) > 4 else "")
