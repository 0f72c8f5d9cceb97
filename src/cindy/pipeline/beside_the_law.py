"""What inputs, velocities and single runs say beside a law that was found.

Each of these is a test of the model found, at its own fitted states, and becomes a finding:

1. Other holds (`other_hold`): the states are fitted once more with the same terms and each other way in which
   inputs may run between samples; −2 log p of the measurements tells which of them the inputs had.
2. Closed loops (`closed_loop`): a controller turns noise of the past into inputs of the future. With e_k the
   noise found at sample k and v_k what its past does not explain of an input (an autoregression), the
   correlations of e_k with v_{k+1}, …, v_{k+L} are zero in open loop, each of size 1/√n by
   chance (Box and Jenkins, Time Series Analysis, 1970, chapter 11). A wrong law leaves residuals that go with
   inputs of the past as well: these must be clearly smaller.
3. Noise of inputs (`noisy_input`): a motion follows the input itself and not the noise of its measurement.
   With v_k = u_k − (u_{k−1} + u_{k+1})/2, the roughness of an input, F(x, u) − F(x, u − v) is one more column
   of the white rows. Its coefficient is 0 where the motion follows v, whatever v is, and −s where a share s
   of v is noise, which then has about the variance s ⟨v²⟩. How much the coefficients of u change beside that
   column is a part of what the noise took from them (errors in variables: Fuller, Measurement Error Models,
   1987); it is told where it is more than their errors.
4. Missing rates (`follows_velocity`): for x'' = F(x) the slope of the fitted states is one more column of the
   white rows; its gain in χ² is compared with what a term must gain.
5. Runs that do not share a coefficient (`runs_apart`): balls have a drag each, patients a clearance each. For
   each coefficient j of the law, least squares have b_j free in every run and all others shared: within a
   run, column j is projected out of the white rows; what is left of all runs determines the shared ones. With
   S the residual sum of squares of the law, S_j that with b_j free, n rows and m runs that have column j,

       (S − S_j) / (m − 1) / (S_j / ν)  ~  F(m − 1, ν),   ν = n/κ − m − k + 1,   if the runs share b_j

   where k is the number of coefficients and κ the autocorrelation time of the rows that are left, which are
   fewer than they look (Chow, Econometrica 28, 1960). The coefficient with the least probability is told, if
   that is small and the values differ by enough to matter.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import partial

import numpy as np
from numpy.typing import NDArray

from cindy._arrays import Floats
from cindy.basis import is_run, listed, pretty, term_variables
from cindy.data import Trajectory
from cindy.errors import DataError
from cindy.findings import Finding
from cindy.least_squares import lengths, triangle
from cindy.model import unmeasured
from cindy.pipeline.models_met import Search
from cindy.pipeline.passes import NEAR, Found
from cindy.pipeline.request import Request
from cindy.pipeline.second_look import Look
from cindy.states import LEVELS, Fitted, Motion, Whitened, memory, start_of

__all__ = ["beside_the_law", "runs_apart"]


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
    unfollowed: float = 0.2
    """Share of the roughness of an input that must be noise. It is 0.7 to 1.1 where all of it is noise;
    integrals through the corners of a rough input on straight lines reach 0.05."""
    matters: float = 1.0
    """Standard errors by which noise of an input must change a coefficient to be told."""
    turned: float = 2.0
    """By how much correlations with the future must exceed those with the past, which a wrong law has as
    well."""


_INPUTS = _Inputs()


@dataclass(frozen=True)
class _Runs:
    """When runs are told to differ."""

    chance: float = 1e-6
    """Probability below which that is told. None of 192 data sets of one law in eight kinds of noise has such
    a finding (benchmark: wrong_noise)."""
    smallest: float = 1e-300
    """The smallest probability that is told."""
    matters: float = 0.01
    """Of a coefficient: differences of its values between runs that are not worth a sentence."""


_RUNS = _Runs()


def beside_the_law(request: Request, look: Look, variance: Floats) -> tuple[Finding, ...]:
    """What there is to say of inputs and velocities once a law was found."""
    if look.found is None or not len(look.found.best.support):
        return ()
    held, noisy = _other_hold(request, look, variance), _noisy_inputs(request, look)
    # Noise of an input looks like a wrong hold and the other way round: the better explanation is told.
    better = max((one.values["gain"] for one in noisy), default=0.0)
    held = tuple(one for one in held if one.values["gain"] > better)
    return (
        *(held or noisy),
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
        # The model at hand is the fit with the hold that was given.
        motion = None if hold == first.hold else request.motion(held)
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


def _noisy_inputs(request: Request, look: Look) -> tuple[Finding, ...]:
    """Findings where the motion does not follow the roughness of an input, and coefficients suffer."""
    assert look.found is not None
    motion, found = look.motion, look.found
    fitted, findings = found.best.fitted, []
    inputs = request.data[0].inputs
    few = sum(map(len, request.data)) <= _INPUTS.most_compared
    if not motion.parts or fitted.law.unknown or not few:
        return ()
    within = _with_inputs(request, motion)[fitted.law.support]
    # Rows that repeat each other count once.
    repeated = 1.0 if motion.memory is None else float(np.max(motion.memory))
    for k, name in enumerate(inputs if within.any() else ()):
        if unmeasured(name):
            continue
        rough = [_roughness(one, k) for one in request.data]
        less = [_less(one, k, v) for one, v in zip(request.data, rough, strict=True)]
        bare = request.motion(less, instants=motion.parts)
        if bare is None or [r.u.shape for r in bare.records] != [r.u.shape for r in motion.records]:
            continue
        factor = _triangle_with(motion, fitted, partial(_of_roughness, fitted, bare))
        if factor is None:
            continue
        gain = float(factor[-2, -1]) ** 2 / repeated
        share = -float(factor[-2, -1] / factor[-2, -2])
        change, error = _change(factor)
        own = within & (np.abs(change) > _INPUTS.matters * np.sqrt(repeated) * error)
        if gain > _INPUTS.worth * found.options.price and share > _INPUTS.unfollowed and own.any():
            square = np.concatenate(rough) ** 2
            size = float(np.sqrt(share * np.mean(square[square > 0.0])))
            most = float(np.max(np.abs(change / fitted.coef[: len(change)])[own]))
            findings.append(_noisy(name, size, most, gain))
    return tuple(findings)


def _noisy(name: str, size: float, change: float, gain: float) -> Finding:
    message = (
        f"The motion does not follow the fastest changes of {pretty(name)}, as if it was measured with "
        f"noise of standard deviation {size:.2g}. That biases coefficients, here by some "
        f"{100 * change:.1g} %: give what drives the motion, such as the command in place of its "
        f"measurement, or smooth {pretty(name)} first. A lagging actuator makes the same."
    )
    return Finding("noisy-input", message, {"input": name, "noise": size, "change": change, "gain": gain})


def _roughness(one: Trajectory, number: int) -> Floats:
    """(n,) what the straight line between its neighbours does not explain of an input; zero at ends."""
    assert one.u is not None
    u, rough = one.u[:, number], np.zeros(len(one))
    if len(one) > 2:
        share = (one.t[1:-1] - one.t[:-2]) / (one.t[2:] - one.t[:-2])
        rough[1:-1] = np.nan_to_num(u[1:-1] - (1.0 - share) * u[:-2] - share * u[2:])
    return rough


def _less(one: Trajectory, number: int, rough: Floats) -> Trajectory:
    assert one.u is not None
    u = np.array(one.u)
    u[:, number] -= rough
    return replace(one, u=u)


def _of_roughness(fitted: Fitted, bare: Motion, number: int, white: Whitened) -> Floats:
    """(stretches, rows, states) integrals of F with an input less those without its roughness."""
    linear = white.linear
    table = fitted.law.table(fitted.coef)
    both = (linear.record, replace(linear.record, u=bare.records[number].u))
    rough, smooth = (record.integrated(linear.x, fitted.law.values) @ table for record in both)
    return np.asarray(rough - smooth)


def _change(factor: Floats) -> tuple[Floats, Floats]:
    """How much the last column changes the coefficients of the others, and their errors without it."""
    count = factor.shape[1] - 2
    inverse = np.linalg.pinv(factor[:count, :count])
    change = -inverse @ factor[:count, count] * (factor[count, -1] / factor[count, count])
    return change, np.sqrt(np.sum(inverse**2, axis=1))


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
            # Reversed in time, the same test asks for inputs of the past: a wrong law shows there as well,
            # a controller does not.
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
        # The first regression finds the jumps, the second does without them.
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
    gain = np.zeros(motion.states)

    def integrals(j: int, _: int, white: Whitened) -> Floats:
        grid = white.linear.record.grid
        more = np.zeros(white.linear.target.shape)
        more[..., j] = grid.integrals(column(grid.t, white.linear.x))[..., j]
        return more

    for j in motion.sought if not fitted.law.unknown else ():
        factor = _triangle_with(motion, fitted, partial(integrals, int(j)))
        if factor is None:
            return gain
        # The last row but one of the triangle: what the column adds to all others, and what that explains.
        gain[j] = float(factor[-2, -1]) ** 2
    return gain


def _triangle_with(
    motion: Motion, fitted: Fitted, column: Callable[[int, Whitened], Floats]
) -> Floats | None:
    """The triangle of the white rows [terms | one more column | target]; None where it has too few rows.

    column: (stretches, rows, states) from the number of a record and its rows
    """
    factor = np.zeros((0, len(fitted.law.support) + 2))
    for number, white in enumerate(motion.whitened(fitted)):
        if white is None:
            return None
        table = motion.table(white, fitted.law)
        more = white.white(column(number, white)[..., None])
        factor = triangle(np.concatenate([factor, np.hstack([table[:, :-1], more, table[:, -1:]])]))
    # A column that says nothing new has no coefficient.
    whole = len(factor) == factor.shape[1] and abs(factor[-2, -2]) > _INPUTS.ridge * np.linalg.norm(
        factor[:, -2]
    )
    return factor if whole else None


@dataclass(frozen=True, eq=False)
class _Freed:
    """A coefficient that is free in every run.

    place: in the law; values: (runs,) NaN where a run does not have its column; shared: (k,) of the others
    after: the residual sum of squares; runs: how many have its column
    """

    place: int
    values: Floats
    shared: Floats
    after: float
    runs: int

    def chance(self, before: float, rows: float) -> float:
        """log p of a fall of the sum of squares as large as this, of so many independent rows."""
        from scipy.special import fdtrc

        more, left = self.runs - 1, rows - self.runs - len(self.shared) + 1
        if left <= 0:
            return 0.0
        ratio = (before - self.after) / more / max(self.after / left, 1e-300)
        return float(np.log(max(fdtrc(more, left, ratio), _RUNS.smallest)))


def runs_apart(motion: Motion, found: Found, data: Sequence[Trajectory]) -> Finding | None:
    """What to say where a coefficient differs from run to run; None where none is seen to."""
    fitted, allowed = found.best.fitted, any(map(is_run, motion.variables))
    if len(data) < 2 or not len(fitted.coef) or fitted.law.unknown or len(found.options.rows) or allowed:
        return None
    rows: dict[int, list[Floats]] = {}
    for white in motion.whitened(fitted):
        if white is None:
            return None
        table = motion.table(white, fitted.law, fitted.coef)
        stretches = table.reshape(*white.linear.target.shape, table.shape[1])
        for run, stretch in zip(white.linear.record.source.tolist(), stretches, strict=True):
            rows.setdefault(run, []).append(stretch)
    triangles = [triangle(np.concatenate([s.reshape(-1, s.shape[-1]) for s in own])) for own in rows.values()]
    # A row where nothing was measured fits by itself.
    count = motion.rows - sum(int(np.count_nonzero(record.missing)) for record in motion.records)
    before = _least_squares(np.concatenate(triangles))[1]
    every = [_freed(triangles, j) for j in range(len(fitted.coef))]
    freed = [coefficient for coefficient in every if coefficient is not None]
    if not freed or before == 0.0:
        return None
    best = min(freed, key=lambda coefficient: coefficient.chance(before, count))
    chance = best.chance(before, count / _memory(best, list(rows.values()))) + np.log(len(freed))
    known = best.values[np.isfinite(best.values)]
    if chance > np.log(_RUNS.chance) or np.ptp(known) < _RUNS.matters * np.abs(known).max():
        return None
    names = [data[run].name for run in rows]
    if not all(names) or len(set(names)) < len(names):
        names = [f"run {run + 1}" for run in rows]
    return _runs_differ(
        motion,
        int(fitted.law.support[best.place]),
        dict(zip(names, best.values.tolist(), strict=True)),
        chance / np.log(10.0),
    )


def _least_squares(table: Floats) -> tuple[Floats, float]:
    """Coefficients of least squares, the target being the last column, and the residual sum of squares."""
    design, target = table[:, :-1], table[:, -1]
    size = lengths(design)
    coef = np.linalg.lstsq(design / size, target, rcond=1e-10)[0] / size
    return coef, float(np.sum((target - design @ coef) ** 2))


def _freed(triangles: Sequence[Floats], place: int) -> _Freed | None:
    """Least squares with one coefficient free in every run; None where fewer than two have its column."""
    kept = [k for k in range(triangles[0].shape[1]) if k != place]
    units, sizes, rest = [], [], []
    for run in triangles:
        size = float(np.linalg.norm(run[:, place]))
        unit = run[:, place] / size if size > 0.0 else run[:, place]
        units.append(unit)
        sizes.append(size)
        rest.append(run[:, kept] - np.outer(unit, unit @ run[:, kept]))
    if np.count_nonzero(sizes) < 2:
        return None
    coef, after = _least_squares(np.concatenate(rest))
    weights = np.append(-coef, 1.0)
    values = [
        float(unit @ run[:, kept] @ weights) / size if size > 0.0 else np.nan
        for run, unit, size in zip(triangles, units, sizes, strict=True)
    ]
    return _Freed(place, np.array(values), np.insert(coef, place, 0.0), after, int(np.count_nonzero(sizes)))


def _memory(freed: _Freed, rows: Sequence[Sequence[Floats]]) -> float:
    """The longest autocorrelation time of what is left, of all states."""
    left: list[list[Floats]] = [[] for _ in range(rows[0][0].shape[1])]
    for own, value in zip(rows, freed.values, strict=True):
        coef = freed.shared.copy()
        coef[freed.place] = np.nan_to_num(value)
        for stretch in own:
            residual = stretch[..., -1] - stretch[..., :-1] @ coef
            for j, stretches in enumerate(left):
                stretches.append(residual[:, j])
    return max(1.0, *(memory(stretches).time for stretches in left))


def _runs_differ(motion: Motion, flat: int, values: dict[str, float], chance: float) -> Finding:
    """The finding on a coefficient, by its flat index; chance: log10 p."""
    term, state = (
        motion.basis.names(motion.variables)[flat // motion.states],
        motion.variables[flat % motion.states],
    )
    known = {name: value for name, value in values.items() if np.isfinite(value)}
    least, most = min(known, key=known.__getitem__), max(known, key=known.__getitem__)
    named = "the constant" if term == "1" else f"the coefficient of {pretty(term)}"
    message = (
        f"The runs differ: {named} in the equation of {pretty(state)} lies between {known[least]:.3g} "
        f'("{least}") and {known[most]:.3g} ("{most}"), where the model has one value for all of them '
        f"(p < 1e{int(np.ceil(chance))}). Give every run a value of its own with `PerRun`, or identify the "
        "runs one by one."
    )
    return Finding("runs-differ", message, {"state": state, "term": term, "values": known, "log10_p": chance})
