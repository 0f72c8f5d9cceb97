"""Tests of a fitted model: how inputs were held, closed loops, noise in inputs, missing rates, unequal runs.

Each test takes the states that were fitted under the model and returns a finding where it fails. All but the
first cost one pass over the white rows, or two for each input:

1. Other holds (`_other_hold`). The states are fitted again with the same terms and each other assumption on
   how inputs run between samples. The assumption with the least −2 log p of the measurements is reported.
2. Noise of inputs (`_noisy_inputs`). A motion follows the input itself and not the noise of its measurement.
   With v_k = u_k − (u_{k−1} + u_{k+1})/2, the roughness of an input, F(x, u) − F(x, u − v) is one more column
   of the white rows. Its coefficient is 0 where the motion follows v, whatever v is, and −s where a share s
   of v is noise, which then has about the variance s ⟨v²⟩. The change of the coefficients of u beside that
   column is a part of their bias by that noise (errors in variables: Fuller, Measurement Error Models, 1987).
   The finding is reported where that change exceeds their standard errors.
3. Closed loops (`_closed_loop`). A controller turns noise of the past into inputs of the future. Let e_k be
   the estimated noise at sample k and v_k the residual of an autoregression of an input. In open loop the
   correlations of e_k with v_{k+1}, …, v_{k+L} are zero, each of size 1/√n by chance (Box and Jenkins, Time
   Series Analysis, 1970, chapter 11). The residuals of a wrong law are also correlated with inputs of the
   past; those correlations must be clearly smaller.
4. Missing rates (`_follows_velocity`). For x'' = F(x) the slope of the fitted states is one more column of
   the white rows; the fall of χ² by it is compared with the price of a term.
5. Runs that do not share a coefficient (`runs_apart`): balls have a drag each, patients a clearance each. For
   each coefficient j of the law, least squares are solved with b_j free in every run and all others shared:
   within a run, column j is projected out of the white rows; the rest of all runs determines the shared
   coefficients. With S the residual sum of squares of the law, S_j that with b_j free, n rows and m runs that
   have column j,

       (S − S_j) / (m − 1) / (S_j / ν)  ~  F(m − 1, ν),   ν = n/κ − m − k + 1,   if the runs share b_j

   where k is the number of coefficients and κ the autocorrelation time of the residuals: correlated rows
   count as fewer (Chow, Econometrica 28, 1960). The coefficient with the least probability is reported, if
   that is small and the values differ by enough to matter.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import partial

import numpy as np
from numpy.typing import NDArray

from cindy._arrays import Floats, Ints
from cindy.basis import RUN, equation_label, listed, pretty, term_variables
from cindy.data import Trajectory
from cindy.errors import DataError
from cindy.findings import Finding
from cindy.least_squares import LeastSquares, lengths, triangle
from cindy.model import unmeasured
from cindy.search.loop import Search
from cindy.search.request import Request
from cindy.search.starts import NEAR, Found
from cindy.states import LEVELS, Fitted, Motion, Whitened, memory, rows_beside, start_of


@dataclass(frozen=True)
class _Inputs:
    """Thresholds of the tests that concern inputs and velocities."""

    most_compared: int = 30_000
    """Samples up to which the tests that fit or integrate again are made: a bound on work."""
    lags: int = 10
    """Samples within which a controller is expected to react, and the order of an input's autoregression."""
    by_chance: float = 5.0
    """Standard errors that a correlation must exceed: once in 1.7 million by chance, for any lag and
    state."""
    usual: float = 4.0
    """Medians beyond which a change of an input is cut off: 2.7 standard deviations of normal ones."""
    ridge: float = 1e-6
    """Singular values below this share of the largest count as zero: an input without noise, such as a sine,
    has linearly dependent past values."""
    negligible: float = 1e-3
    """Share of the spread of an input below which the part that a controller makes of noise is ignored."""
    worth: float = 2.0
    """How many times the price of a term a further column must lower χ² by. With two candidates that happens
    once in 600 data sets by chance."""
    unfollowed: float = 0.2
    """Share of the roughness of an input that must be noise. The estimate is 0.7 to 1.1 where all of it is
    noise, and at most 0.05 where a rough input without noise is interpolated by straight lines."""
    matters: float = 1.0
    """Standard errors by which the noise of an input must change a coefficient to be reported."""
    turned: float = 2.0
    """Factor by which correlations with future inputs must exceed those with past inputs, which a wrong law
    causes as well."""


_INPUTS = _Inputs()


@dataclass(frozen=True)
class _Runs:
    """Thresholds of the test for runs that do not share a coefficient."""

    chance: float = 1e-6
    """Probability below which the finding is reported. None of 192 data sets of one law in eight kinds of
    noise has it (benchmark: wrong_noise)."""
    smallest: float = 1e-300
    """The smallest probability that is computed, so that its logarithm is finite."""
    matters: float = 0.01
    """Relative difference between the values of two runs below which it is not worth a finding."""


_RUNS = _Runs()


def findings_beside(request: Request, motion: Motion, found: Found, variance: Floats) -> tuple[Finding, ...]:
    """Findings on inputs and velocities, by the states and residuals of the model that was found."""
    if not len(found.best.support):
        return ()
    held = _other_hold(request, motion, found, variance)
    noisy = _noisy_inputs(request, motion, found)
    # Noise of an input looks like a wrong hold and the other way round: the better explanation is reported.
    better = max((finding.values["gain"] for finding in noisy), default=0.0)
    held = tuple(finding for finding in held if finding.values["gain"] > better)
    return (
        *(held or noisy),
        *_closed_loop(request, motion, found.best.fitted),
        *_follows_velocity(motion, found),
    )


def _other_hold(request: Request, motion: Motion, found: Found, variance: Floats) -> tuple[Finding, ...]:
    """Test 1: a finding where the same equations explain the data better with inputs held in another way."""
    first, best = request.data[0], found.best
    few = sum(map(len, request.data)) <= _INPUTS.most_compared
    if not first.inputs or not few or motion.parts == 0:
        return ()
    if not np.isin(np.flatnonzero(_with_inputs(request, motion)), best.support).any():
        return ()
    fits: dict[str, float] = {}
    for hold in ("zero", "linear", "band"):
        try:
            data = [replace(trajectory, hold=hold) for trajectory in request.data]
        except DataError:
            # A band-limited input needs even steps.
            continue
        # The model at hand is the fit with the hold that was given.
        other = None if hold == first.hold else request.motion(data)
        if other is None:
            continue
        start = start_of(other, best.support, best.fitted.coef, variance)
        met = Search(replace(other, memory=motion.memory), found.options).fit(start, LEVELS)
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


def _noisy_inputs(request: Request, motion: Motion, found: Found) -> tuple[Finding, ...]:
    """Test 2: findings where the motion does not follow the roughness of an input, which biases its terms."""
    fitted, findings = found.best.fitted, []
    few = sum(map(len, request.data)) <= _INPUTS.most_compared
    if not motion.parts or fitted.law.unknown or not few:
        return ()
    within = _with_inputs(request, motion)[fitted.law.support]
    for number, name in enumerate(request.data[0].inputs if within.any() else ()):
        if unmeasured(name):
            continue
        rough = [_roughness(trajectory, number) for trajectory in request.data]
        smooth = [_less(trajectory, number, v) for trajectory, v in zip(request.data, rough, strict=True)]
        bare = request.motion(smooth, instants=motion.parts)
        if bare is None or [r.u.shape for r in bare.records] != [r.u.shape for r in motion.records]:
            continue
        white = rows_beside(motion, fitted, fitted.law.support, partial(_of_roughness, fitted, bare))
        if white is None or len(white.factor) <= white.terms:
            continue
        [slope], [gain] = beside_terms(white, len(within))
        inverse = np.linalg.pinv(white.factor[: len(within), : len(within)])
        change = np.abs(inverse @ white.factor[: len(within), len(within)] * slope)
        own = within & (change > _INPUTS.matters * np.sqrt(np.sum(inverse**2, axis=1)))
        if gain > _INPUTS.worth * found.options.price and -slope > _INPUTS.unfollowed and own.any():
            square = np.concatenate(rough) ** 2
            size = float(np.sqrt(-slope * np.mean(square[square > 0.0])))
            findings.append(
                _noisy(name, size, float(np.max((change / np.abs(fitted.coef))[own])), float(gain))
            )
    return tuple(findings)


def _noisy(name: str, size: float, change: float, gain: float) -> Finding:
    percent = float(f"{100 * change:.1g}")
    message = (
        f"The motion does not follow the fastest changes of {pretty(name)}, as if it was measured with "
        f"noise of standard deviation {size:.2g}. That biases coefficients, here by some {percent:g} %: "
        "give what drives the motion, such as the command in place of its measurement, or smooth "
        f"{pretty(name)} first. A lagging actuator makes the same."
    )
    return Finding("noisy-input", message, {"input": name, "noise": size, "change": change, "gain": gain})


def _roughness(trajectory: Trajectory, number: int) -> Floats:
    """(n,) an input less the straight line between the neighbours of each sample; zero at the ends."""
    assert trajectory.u is not None
    t, u, rough = trajectory.t, trajectory.u[:, number], np.zeros(len(trajectory))
    if len(trajectory) > 2:
        share = (t[1:-1] - t[:-2]) / (t[2:] - t[:-2])
        rough[1:-1] = np.nan_to_num(u[1:-1] - (1.0 - share) * u[:-2] - share * u[2:])
    return rough


def _less(trajectory: Trajectory, number: int, rough: Floats) -> Trajectory:
    """The trajectory whose input is smooth: its roughness is taken away."""
    assert trajectory.u is not None
    u = np.array(trajectory.u)
    u[:, number] -= rough
    return replace(trajectory, u=u)


def _of_roughness(fitted: Fitted, bare: Motion, number: int, white: Whitened) -> Floats:
    """(stretches, rows, states, 1) integrals of F with an input less those without its roughness."""
    linear = white.linear
    table = fitted.law.table(fitted.coef)
    records = (linear.record, replace(linear.record, u=bare.records[number].u))
    rough, smooth = (record.integrated(linear.x, fitted.law.values) @ table for record in records)
    return np.asarray(rough - smooth)[..., None]


def beside_terms(white: LeastSquares, terms: int) -> tuple[Floats, Floats]:
    """(columns,) the coefficient of each column after the terms, were it the only one, and the fall of χ²."""
    # Below the terms the triangle holds the parts of columns and target that are orthogonal to them.
    columns, target = white.factor[terms:, terms:-1], white.factor[terms:, -1]
    square = np.sum(columns**2, axis=0)
    # A column that depends on the terms has no coefficient.
    independent = square > _INPUTS.ridge**2 * np.sum(white.factor[:, terms:-1] ** 2, axis=0)
    slope = np.where(independent, target @ columns / np.where(independent, square, 1.0), 0.0)
    return slope, slope**2 * square


def _with_inputs(request: Request, motion: Motion) -> NDArray[np.bool_]:
    """(terms · states,) whether the term of a coefficient holds an input."""
    inputs = set(request.data[0].inputs)
    each = [bool(term_variables(term) & inputs) for term in motion.basis.plan(motion.variables).terms]
    return np.repeat(each, motion.states)


def _closed_loop(request: Request, motion: Motion, fitted: Fitted) -> tuple[Finding, ...]:
    """Test 3: a finding where inputs follow the estimated noise of earlier measurements."""
    pairs = []
    for number, name in enumerate(request.data[0].inputs):
        if name == "t":
            continue
        for j in np.flatnonzero(motion.measured):
            after, before = (_followed(motion, fitted, int(j), number, turn) for turn in (1, -1))
            if after > max(_INPUTS.by_chance, _INPUTS.turned * before):
                pairs.append((name, motion.variables[j]))
    if not pairs:
        return ()
    named = listed([f"{pretty(name)} follows {pretty(state)}" for name, state in pairs])
    message = (
        f"Inputs react to noise in earlier measurements, as in a closed loop: {named}. Noise and inputs are "
        "then not independent: keep the noise small, or add an independent test signal to the inputs."
    )
    return (Finding("closed-loop", message, {"inputs": sorted({name for name, _ in pairs})}),)


def _followed(motion: Motion, fitted: Fitted, state: int, number: int, turn: int) -> float:
    """The largest correlation, in standard errors, of the noise of a state with later samples of an input.

    turn: 1; or −1, which reverses time and so tests earlier samples of the input
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
    """(n,) residuals of an autoregression of an input, in units of its spread; zero for the first samples.

    Jumps of a set point would hide what a controller makes of noise: a second regression leaves them out, and
    their residuals are cut off.
    """
    u = (u - u.mean()) / (float(u.std()) or 1.0)
    past = np.stack([u[_INPUTS.lags - lag : len(u) - lag] for lag in range(1, _INPUTS.lags + 1)], axis=1)
    now, left, usual = u[_INPUTS.lags :], u[_INPUTS.lags :], np.inf
    for _ in range(2):
        # The first regression finds the jumps, the second does without them.
        steady = np.abs(left) <= _INPUTS.usual * usual
        left = now - past @ np.linalg.lstsq(past[steady], now[steady], rcond=_INPUTS.ridge)[0]
        usual = float(np.median(np.abs(left)))
        if usual < _INPUTS.negligible:
            return np.zeros(len(u))
    return np.concatenate(
        [np.zeros(_INPUTS.lags), np.clip(left, -_INPUTS.usual * usual, _INPUTS.usual * usual)]
    )


def _follows_velocity(motion: Motion, found: Found) -> tuple[Finding, ...]:
    """Test 4: a finding where the residuals of x'' = F(x) follow the slope of the states."""
    if motion.records[0].grid.order != 2 or not motion.parts:
        return ()
    from scipy.interpolate import CubicSpline  # loads much else, and only x'' = F(x) asks for slopes

    law, sought = found.best.fitted.law, motion.sought

    def integrals(_: int, white: Whitened) -> Floats:
        grid = white.linear.record.grid
        slopes = grid.integrals(np.asarray(CubicSpline(grid.t, white.linear.x, axis=1)(grid.t, 1)))
        return np.asarray(slopes[..., None] * np.eye(motion.states)[:, sought])

    white = None if law.unknown else rows_beside(motion, found.best.fitted, law.support, integrals)
    if white is None or len(white.factor) <= white.terms:
        return ()
    _, gain = beside_terms(white, len(law.support))
    states = [motion.variables[j] for j in sought[gain > _INPUTS.worth * found.options.price]]
    if not states:
        return ()
    message = (
        f"The residuals of {listed(list(map(pretty, states)))} are proportional to the velocity, as with "
        "damping: use `Integral(order=2, rates=True)`, which finds terms in rates as well."
    )
    return (Finding("follows-velocity", message, {"states": states}),)


@dataclass(frozen=True, eq=False)
class _Freed:
    """Least squares where one coefficient has a value of its own in every run.

    place: of that coefficient in the law; values: (runs,) NaN where a run does not have its column
    sizes: (runs,) of the column, to which the error of a value is in inverse proportion
    shared: (k,) the other coefficients; after: the residual sum of squares
    """

    place: int
    values: Floats
    sizes: Floats
    shared: Floats
    after: float

    @property
    def runs(self) -> int:
        """How many runs have the column."""
        return int(np.count_nonzero(self.sizes))

    @property
    def apart(self) -> tuple[int, int]:
        """The runs with the lower and the higher value that differ most in units of the error.

        A run in which a state hardly occurs has any value, and a large error.
        """
        own = np.flatnonzero(self.sizes)
        value, error = self.values[own], 1.0 / self.sizes[own]
        z = np.subtract.outer(value, value) / np.hypot.outer(error, error)
        high, low = np.unravel_index(np.argmax(z), z.shape)
        return int(own[low]), int(own[high])

    def chance(self, before: float, rows: float) -> float:
        """log p of the F test: the probability that the sum of squares falls as much by chance.

        before: the residual sum of squares where all runs share the coefficient
        rows: how many are independent
        """
        from scipy.special import fdtrc

        more, left = self.runs - 1, rows - self.runs - len(self.shared) + 1
        if left <= 0:
            return 0.0
        ratio = (before - self.after) / more / max(self.after / left, 1e-300)
        return float(np.log(max(fdtrc(more, left, ratio), _RUNS.smallest)))


def runs_apart(motion: Motion, found: Found, data: Sequence[Trajectory]) -> Finding | None:
    """Test 5: a finding where a coefficient differs from run to run; None where none does."""
    fitted, allowed = found.best.fitted, motion.basis.asks_for(RUN)
    if len(data) < 2 or not len(fitted.coef) or fitted.law.unknown or len(found.options.rows) or allowed:
        return None
    rows = rows_by_run(motion, fitted, fitted.law.support)
    if rows is None:
        return None
    triangles = [triangle_of(own) for own in rows.values()]
    # A row where nothing was measured has no residual, so it does not count.
    count = motion.informed
    before = least_squares_of(np.concatenate(triangles))[1]
    tried = [_freed(triangles, j) for j in range(len(fitted.coef))]
    freed = [coefficient for coefficient in tried if coefficient is not None]
    if not freed or before == 0.0:
        return None
    best = min(freed, key=lambda coefficient: coefficient.chance(before, count))
    chance = best.chance(before, count / _memory(best, list(rows.values()))) + np.log(len(freed))
    apart = best.apart
    least, most = best.values[list(apart)]
    if chance > np.log(_RUNS.chance) or most - least < _RUNS.matters * max(-least, most):
        return None
    names = [data[run].name for run in rows]
    if not all(names) or len(set(names)) < len(names):
        names = [f"run {run + 1}" for run in rows]
    return _runs_differ(
        motion,
        int(fitted.law.support[best.place]),
        dict(zip(names, best.values.tolist(), strict=True)),
        (names[apart[0]], names[apart[1]]),
        chance / np.log(10.0),
    )


def rows_by_run(motion: Motion, fitted: Fitted, support: Ints) -> dict[int, list[Floats]] | None:
    """By run the white rows [terms | target] of its stretches, (rows, states, terms + 1) each."""
    rows, law = dict[int, list[Floats]](), motion.law(support)
    for white in motion.whitened(fitted):
        if white is None:
            return None
        table = motion.table(white, law)
        stretches = table.reshape(*white.linear.target.shape, table.shape[1])
        for run, stretch in zip(white.linear.record.source.tolist(), stretches, strict=True):
            rows.setdefault(run, []).append(stretch)
    return rows


def triangle_of(stretches: Sequence[Floats]) -> Floats:
    """The triangle of the rows of all stretches and states of a run."""
    return triangle(np.concatenate([stretch.reshape(-1, stretch.shape[-1]) for stretch in stretches]))


def least_squares_of(table: Floats) -> tuple[Floats, float]:
    """Coefficients of least squares, the target being the last column, and the residual sum of squares."""
    design, target = table[:, :-1], table[:, -1]
    size = lengths(design)
    coef = np.linalg.lstsq(design / size, target, rcond=1e-8)[0] / size
    return coef, float(np.sum((target - design @ coef) ** 2))


def _freed(triangles: Sequence[Floats], place: int) -> _Freed | None:
    """Least squares with one coefficient free in every run; None where fewer than two have its column."""
    others = [k for k in range(triangles[0].shape[1]) if k != place]
    units, sizes, rest = [], [], []
    for run in triangles:
        size = float(np.linalg.norm(run[:, place]))
        unit = run[:, place] / size if size > 0.0 else run[:, place]
        units.append(unit)
        sizes.append(size)
        rest.append(run[:, others] - np.outer(unit, unit @ run[:, others]))
    if np.count_nonzero(sizes) < 2:
        return None
    coef, after = least_squares_of(np.concatenate(rest))
    weights = np.append(-coef, 1.0)
    values = [
        float(unit @ run[:, others] @ weights) / size if size > 0.0 else np.nan
        for run, unit, size in zip(triangles, units, sizes, strict=True)
    ]
    return _Freed(place, np.array(values), np.array(sizes), np.insert(coef, place, 0.0), after)


def _memory(freed: _Freed, rows: Sequence[Sequence[Floats]]) -> float:
    """The longest autocorrelation time of the residuals of a state."""
    left: list[list[Floats]] = [[] for _ in range(rows[0][0].shape[1])]
    for own, value in zip(rows, freed.values, strict=True):
        coef = freed.shared.copy()
        coef[freed.place] = np.nan_to_num(value)
        for stretch in own:
            residual = stretch[..., -1] - stretch[..., :-1] @ coef
            for j, stretches in enumerate(left):
                stretches.append(residual[:, j])
    return max(1.0, *(memory(stretches).time for stretches in left))


def _runs_differ(
    motion: Motion, flat: int, values: dict[str, float], apart: tuple[str, str], chance: float
) -> Finding:
    """The finding on a coefficient, by its flat index; apart: two runs that differ; chance: log10 p."""
    term, place = motion.basis.names(motion.variables)[flat // motion.states], flat % motion.states
    rates = len(motion.given) > 0
    # The equation of a rate is that of its position.
    state = motion.variables[place - motion.states // 2 if rates else place]
    side = equation_label(state, 2 if rates else motion.records[0].grid.order, not motion.parts)
    known = {name: value for name, value in values.items() if np.isfinite(value)}
    least, most = apart
    named = "the constant" if term == "1" else f"the coefficient of {pretty(term)}"
    message = (
        f"The runs differ: {named} in the equation of {side} is {known[least]:.3g} in "
        f'"{least}" and {known[most]:.3g} in "{most}", where the model has one value for all of them '
        f"(p < 1e{int(np.ceil(chance))}). Give every run a value of its own with `PerRun`, or identify the "
        "runs one by one."
    )
    return Finding("runs-differ", message, {"state": state, "term": term, "values": known, "log10_p": chance})
