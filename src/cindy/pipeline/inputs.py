"""What inputs and velocities say beside a law that was found: other holds, closed loops, missing rates.

Each of these is a test of the model found, at its own fitted states, and becomes a finding:

1. Other holds (`other_hold`): the states are fitted once more with the same terms and each other way in which
   inputs may run between samples; −2 log p of the measurements tells which of them the inputs had.
2. Closed loops (`closed_loop`): a controller turns noise of the past into inputs of the future. With e_k the
   noise found at sample k and v_k what its past does not explain of an input (an autoregression), the
   correlations of e_k with v_{k+1}, …, v_{k+L} are zero in open loop, each of size 1/√n by
   chance (Box and Jenkins, Time Series Analysis, 1970, chapter 11). A wrong law leaves residuals that go with
   inputs of the past as well: these must be clearly smaller.
3. Missing rates (`follows_velocity`): for x'' = F(x) the slope of the fitted states is one more column of the
   white rows; its gain in χ² is compared with what a term must gain.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from cindy._arrays import Floats
from cindy.basis import listed, pretty, term_variables
from cindy.errors import DataError
from cindy.findings import Finding
from cindy.least_squares import triangle
from cindy.pipeline.models_met import Search
from cindy.pipeline.passes import NEAR
from cindy.pipeline.request import Request
from cindy.pipeline.second_look import Look
from cindy.states import LEVELS, Fitted, Motion, start_of

__all__ = ["beside_the_law"]


@dataclass(frozen=True)
class _Inputs:
    """When inputs are told to follow the states, or to be held otherwise."""

    most_compared: int = 30_000
    """Samples up to which other holds of the inputs are tried: a bound on work."""
    lags: int = 10
    """Samples after which a controller is expected to have reacted, and of the autoregression of an input."""
    by_chance: float = 5.0
    """Standard errors that a correlation must exceed: once in 1.7 million by chance, for any lag and
    state."""
    usual: float = 4.0
    """Medians beyond which a change of an input is cut off: 2.7 standard deviations of normal ones."""
    ridge: float = 1e-6
    """Of the largest singular value: an input without noise, such as a sine, has a singular past."""
    negligible: float = 1e-3
    """Of the spread of an input: what a controller makes of noise matters no more if it is less."""
    worth: float = 2.0
    """Prices of a term that the slope must be worth: with two candidates once in 600 data sets by chance."""
    turned: float = 2.0
    """By how much correlations with the future must exceed those with the past, which a wrong law has as
    well."""


_INPUTS = _Inputs()


def beside_the_law(request: Request, look: Look, variance: Floats) -> tuple[Finding, ...]:
    """What there is to say of inputs and velocities once a law was found."""
    if look.found is None or not len(look.found.best.support):
        return ()
    return (
        *_other_hold(request, look, variance),
        *_closed_loop(request, look),
        *_follows_velocity(look),
    )


def _other_hold(request: Request, look: Look, variance: Floats) -> tuple[Finding, ...]:
    """A finding where inputs that are held in another way explain the data better by the same equations."""
    first, found = request.data[0], look.found
    few = sum(map(len, request.data)) <= _INPUTS.most_compared
    if not first.inputs or found is None or not few or look.motion.parts == 0:
        return ()
    best = found.best
    if not np.isin(np.flatnonzero(_with_inputs(request, look.motion)), best.support).any():
        return ()
    fits: dict[str, float] = {}
    for hold in ("zero", "linear", "band"):
        try:
            held = [replace(one, hold=hold) for one in request.data]
        except DataError:
            # A band-limited input needs even steps.
            continue
        motion = None if hold == first.hold else request.form.motion(held, request.basis)
        if motion is None:
            continue
        start = start_of(motion, best.support, best.fitted.coef, variance)
        met = Search(replace(motion, memory=look.motion.memory), found.options).fit(start, LEVELS)
        if met is not None:
            fits[hold] = met.deviance
    if not fits or min(fits.values()) > best.deviance - NEAR:
        return ()
    likely = min(fits, key=lambda hold: fits[hold])
    gain = best.deviance - fits[likely]
    message = (
        f'Inputs with hold="{likely}" explain the data better than with hold="{first.hold}" (−2 log p is '
        f'lower by {gain:.0f}): give the trajectories hold="{likely}" if that is how the inputs were made.'
    )
    return (Finding("other-hold", message, {"hold": likely, "gain": gain}),)


def _with_inputs(request: Request, motion: Motion) -> NDArray[np.bool_]:
    """(terms · states,) whether the term of a coefficient holds an input."""
    inputs = set(request.data[0].inputs)
    each = [bool(term_variables(term) & inputs) for term in motion.basis.terms(motion.variables)]
    return np.repeat(each, motion.states)


def _closed_loop(request: Request, look: Look) -> tuple[Finding, ...]:
    """A finding where inputs follow the noise that the law found in the past."""
    assert look.found is not None
    motion, fitted = look.motion, look.found.best.fitted
    told = []
    for k, name in enumerate(request.data[0].inputs):
        if name == "t":
            continue
        for j in np.flatnonzero(motion.measured):
            after, before = (_followed(motion, fitted, int(j), k, turn) for turn in (1, -1))
            if after > max(_INPUTS.by_chance, _INPUTS.turned * before):
                told.append((name, motion.variables[j], after))
    if not told:
        return ()
    named = listed([f"{pretty(name)} follows {pretty(state)}" for name, state, _ in told])
    message = (
        f"Inputs react to noise in earlier measurements, as in a closed loop: {named}. Noise and inputs are "
        "then not independent: keep the noise small, or add an independent test signal to the inputs."
    )
    return (Finding("closed-loop", message, {"inputs": sorted({name for name, _, _ in told})}),)


def _followed(motion: Motion, fitted: Fitted, state: int, number: int, turn: int) -> float:
    """The largest correlation, in standard errors, of the noise of a state with later samples of an input.

    turn: 1, or −1 for the same with time reversed: inputs of the past
    """
    products, noises, inputs = np.zeros(_INPUTS.lags), 0.0, 0.0
    count = 0
    for record, x in zip(motion.records, fitted.x, strict=True):
        for s in range(record.stretches):
            seen = np.flatnonzero(~record.missing[s, :, state])
            if len(seen) < 4 * _INPUTS.lags:
                continue
            e = (record.y[s, seen, state] - x[s, seen, state])[::turn]
            v = _unforeseen(record.u[s, seen, number][::turn])
            e = e - e.mean()
            count += len(e)
            noises, inputs = noises + float(e @ e), inputs + float(v @ v)
            products += [float(e[: -lag or None] @ v[lag:]) for lag in range(1, _INPUTS.lags + 1)]
    if noises == 0.0 or inputs == 0.0:
        return 0.0
    return float(np.max(np.abs(products)) / np.sqrt(noises * inputs / count))


def _unforeseen(u: Floats) -> Floats:
    """(n,) what its past does not explain of an input, in units of its spread; zero without a past.

    Jumps of a set point would drown what a controller makes of noise: a second regression leaves them out,
    and what they leave is cut off.
    """
    u = (u - u.mean()) / (float(u.std()) or 1.0)
    past = np.stack([u[_INPUTS.lags - lag : len(u) - lag] for lag in range(1, _INPUTS.lags + 1)], axis=1)
    now, left, usual = u[_INPUTS.lags :], u[_INPUTS.lags :], np.inf
    for _ in range(2):
        kept = np.abs(left) <= _INPUTS.usual * usual
        left = now - past @ np.linalg.lstsq(past[kept], now[kept], rcond=_INPUTS.ridge)[0]
        usual = float(np.median(np.abs(left)))
        if usual < _INPUTS.negligible:
            return np.zeros(len(u))
    return np.concatenate(
        [np.zeros(_INPUTS.lags), np.clip(left, -_INPUTS.usual * usual, _INPUTS.usual * usual)]
    )


def _follows_velocity(look: Look) -> tuple[Finding, ...]:
    """A finding where what x'' = F(x) leaves goes with the slope of the states, which F does not see."""
    assert look.found is not None
    motion, found = look.motion, look.found
    best = found.best
    if motion.records[0].grid.order != 2 or not motion.parts:
        return ()
    gain = _gain_of(motion, best.fitted, _slopes)
    if motion.memory is not None:
        # Rows that repeat each other count once.
        gain = gain / motion.memory
    told = [j for j in motion.sought if gain[j] > _INPUTS.worth * found.options.price]
    if not told:
        return ()
    named = listed([pretty(motion.variables[j]) for j in told])
    message = (
        f"The residuals of {named} are proportional to the velocity, as with damping: use "
        "`Integral(order=2, rates=True)`, which finds terms in rates as well."
    )
    states = [motion.variables[j] for j in told]
    return (Finding("follows-velocity", message, {"states": states}),)


def _slopes(t: Floats, x: Floats) -> Floats:
    from scipy.interpolate import CubicSpline  # loads much else, and only x'' = F(x) asks for slopes

    return np.asarray(CubicSpline(t, x, axis=1)(t, 1))


def _gain_of(motion: Motion, fitted: Fitted, column: Callable[[Floats, Floats], Floats]) -> Floats:
    """(states,) how much one more column for each equation, made of times and states, lowers χ²."""
    law = fitted.law
    gain = np.zeros(motion.states)
    for j in motion.sought if not law.unknown else ():
        factor = np.zeros((0, len(law.support) + 2))
        for white in motion.whitened(fitted):
            if white is None:
                return gain
            linear = white.linear
            more = np.zeros((*linear.target.shape, 1))
            integrals = linear.record.grid.integrals(column(linear.record.grid.t, linear.x))
            more[:, :, j, 0] = integrals[..., j]
            table = motion.table(white, law)
            rows = np.hstack([table[:, :-1], white.white(more), table[:, -1:]])
            factor = triangle(np.concatenate([factor, rows]))
        # The last row but one of the triangle: what the column adds to all others, and what that explains.
        gain[j] = float(factor[-2, -1]) ** 2 if len(factor) > 1 else 0.0
    return gain
