"""Tests for faulty data that need no model, only the samples.

They recognise wrapped angles, rounded and interpolated values, runs that are listed twice, samples that are
too far apart for the motion, rates that were computed from positions, and states that were not measured.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

import numpy as np

from cindy._arrays import Floats, Ints
from cindy._check import counted
from cindy.data.instrument_faults import derived_rates
from cindy.data.moments import UNITS_IN_SECONDS
from cindy.data.time_scales import noise_level, periods, rounding_step, some_segments
from cindy.data.trajectory import Trajectory
from cindy.findings import Finding

_TURNS = {"2π": 2 * np.pi, "360": 360.0}


@dataclass(frozen=True)
class _Limits:
    """From which values on the tests report a finding."""

    # `python -m benchmarks oddities` gives the extremes of good and of faulty data; these lie between them.
    per_swing: float = 6.0
    """Samples per oscillation below which the motion between two samples is not known. With 5 the law of none
    of four motions is found, with 6 of one, with 8 of two, with 12 of all."""
    rough: float = 0.8
    """Residual of local polynomials, in units of the spread, above which no curve runs through the samples.
    Motions with 40 % noise reach 0.67, white noise 1, chaotic maps 1.3."""
    known: float = 0.15
    """Share of the variance of the next sample, after prediction from the nearest similar state, below which
    the samples look like a map. Maps with 5 % noise have 0.02, noise has 0.4 and more."""
    unknown: float = 0.25
    """Share of the variance of the rates, after prediction from the nearest similar state, above which a
    state is missing. Good data reach 0.07, an oscillator without its rate has 0.3 to 1.1. Lorenz and Rössler
    without z have 0.05 and 0.17 and are not recognised."""
    calm: float = 0.02
    """Noise, as a share of the spread, above which rates are too uncertain for this test."""
    calm_means: float = 0.08
    """The same for a single state averaged over twelfths of a swing. A pendulum with 10 % noise has 0.04,
    random walks 0.16 in the median: kicks do not average out."""
    resting: float = 0.5
    """Share of the samples with one reading beyond which rounding hides more of a state than it shows. z of
    Rössler's system has 0.78 and 0.90 in steps of 2 and 9 % of its range, where constants go wrong; other
    quantised laws have 0.52 at most (benchmark: wrong_noise)."""
    offset: float = 25.0
    """Ratio of mean and spread of a state above which its powers and products are nearly collinear. At 20 the
    rates of all six motions are found, at 30 of five, at 1,000 of none. Good data stay within 5."""
    offset_linear: float = 3000.0
    """The same if no powers or products are among the terms: laws are found at 1,000 and lost at 10,000 with
    10 % noise."""
    like: float = 0.1
    """Distance, in units of the spread, up to which two states count as similar."""
    repetitions: int = 8
    """Knots that a pattern of interpolation must show."""
    most: int = 1500
    """Samples that are compared with similar ones."""
    coming_back: int = 30
    """Samples to whose neighbourhood the motion must return before similar states are compared."""


_AT = _Limits()


def oddities(
    data: Sequence[Trajectory],
    looked: Sequence[Trajectory] | None = None,
    *,
    order: int = 1,
    discrete: bool = False,
    followed: bool = False,
    powers: bool = True,
    hidden: int = 0,
) -> list[Finding]:
    """Findings about faults in the data, each with what to do about it.

    looked: some of the stretches without gaps, if the caller has them already
    order: the order of the equations that are sought; discrete: whether they are a map
    followed: whether a law in these states is known to follow the data, so that no state can be missing
    powers: whether powers or products of states are among the terms
    hidden: how many states, the last ones, hold estimates: only whether a state is missing is asked of them
    """
    looked = some_segments(data) if looked is None else looked
    segments = [segment for segment in looked if len(segment) >= 12]
    findings = [*_pulsed(data), *_doses_filled(data)]
    if not segments:
        return findings
    measured = [_without_last(segment, hidden) for segment in segments]
    findings += [*_wrapped(measured), *_quantised(measured), *_far_from_zero(measured, powers)]
    findings += [*_listed_twice(data), *_clock_times(data)]
    if not discrete:
        findings += _interpolated(measured)
        findings += derived_rates(measured) if order == 1 else []
        findings += _coarse(segments) or (_state_missing(segments) if order == 1 and not followed else [])
    return findings


def _without_last(segment: Trajectory, count: int) -> Trajectory:
    """A stretch without its last states."""
    if not count:
        return segment
    return replace(segment, x=segment.x[:, :-count], states=segment.states[:-count])


def _wrapped(segments: Sequence[Trajectory]) -> Iterator[Finding]:
    """Angles that jump by a turn, because they are kept within one."""
    for j, state in enumerate(segments[0].states):
        jumps = np.concatenate([np.diff(segment.x[:, j]) for segment in segments])
        reach = max(float(np.ptp(segment.x[:, j])) for segment in segments)
        for name, turn in _TURNS.items():
            # No step may be close to half a turn: short ones are motion, long ones jumps back by a turn.
            back = np.abs(jumps) > 0.75 * turn
            motion = np.abs(jumps[~back])
            if back.any() and reach <= 1.01 * turn and len(motion) and float(motion.max()) < 0.25 * turn:
                times = "once" if back.sum() == 1 else f"{back.sum()} times"
                yield Finding(
                    "wrapped-angle",
                    f'"{state}" jumps by about {name} {times}, as an angle does that is kept within a turn. '
                    "No equation explains such jumps: unwrap it first, with numpy.unwrap"
                    + ("." if name == "2π" else "(…, period=360)."),
                    {"state": state, "turn": turn},
                )
                break


def _quantised(segments: Sequence[Trajectory]) -> Iterator[Finding]:
    """States that are rounded so coarsely that their errors are not white noise, or hide motion."""
    steps, resting = [], []
    for j, state in enumerate(segments[0].states):
        columns = [segment.x[:, j] for segment in segments]
        values = np.concatenate(columns)
        # A converter that sets its own range has another step in every run.
        step = rounding_step(values) or float(np.median([rounding_step(column) for column in columns]))
        # The error of rounding is close to white noise if the motion passes many steps between two samples.
        change = float(np.median(np.abs(np.concatenate([np.diff(column) for column in columns]))))
        if change < 3 * step:
            steps.append(
                f'"{state}" in steps of {step:.4g} ({step / float(np.ptp(values)):.1%} of the range)'
            )
        share = sum(np.unique(column, return_counts=True)[1].max() for column in columns) / len(values)
        if step > 0 and share > _AT.resting and np.any(values % 1.0):
            resting.append(f'"{state}" in {share:.0%} of the samples')
    if steps:
        yield Finding(
            "rounded-data",
            f"The data are rounded: {', '.join(steps[:4])}{', …' if len(steps) > 4 else ''}. These steps "
            "are about as large as the changes from one sample to the next, so the errors are not white "
            "noise. Keep only every few samples, or record more digits unless they are counts.",
        )
    if resting:
        yield Finding(
            "motion-below-rounding",
            f"Rounding hides motion: {', '.join(resting)} has one and the same reading. The mean there may "
            "be off by half a step, and small terms, such as a constant, may be missing or stand in the "
            "wrong equation. Record more digits.",
        )


def _clock_times(data: Sequence[Trajectory]) -> Iterator[Finding]:
    """Times that are hours and minutes in one number, with or without seconds, such as 859 before 900."""
    every = np.concatenate([run.t for run in data])
    if np.any(every % 1.0) or np.any(every < 0) or np.any(every >= 24_00_00):
        return
    times = [run.t.astype(np.int64) for run in data]
    long = bool(np.any(every >= 24_00))
    minutes = [t // 100 // 100 * 60 + t // 100 % 100 if long else t // 100 for t in times]
    clocks = [60 * before + t % 100 for before, t in zip(minutes, times, strict=True)]
    if np.any(every % 100 >= 60) or (long and np.any(every // 100 % 100 >= 60)):
        return
    # If a clock is read at even steps, such numbers jump by 40 at each full hour.
    even, jumping = (_most_frequent([np.diff(t) for t in of]) for of in (clocks, times))
    if even > max(jumping, 0.5):
        before, after = next(
            (t[k], t[k + 1]) for t in times for k in np.flatnonzero(np.diff(t // 100) * np.diff(t) > 0)
        )
        written = "hours, minutes and seconds" if long else "hours and minutes"
        yield Finding(
            "clock-times",
            f"The times seem to be {written} in one number, as {before} is followed by {after}. Such numbers "
            "jump at every full hour: write times with colons, as 09:05, or count minutes.",
        )


def long_in_seconds(data: Sequence[Trajectory]) -> Iterator[Finding]:
    """A note on runs of months whose times, read from dates, count in seconds: coefficients are then tiny."""
    days = max(float(np.ptp(run.t)) for run in data) / UNITS_IN_SECONDS["day"]
    if data[0].time_unit == "s" and days > 30.0:
        yield Finding(
            "long-in-seconds",
            f"Times count in seconds over {days:,.0f} days, so that coefficients per second are tiny. "
            'With time_unit="day" they are per day.',
            {"days": days},
        )


def _pulsed(data: Sequence[Trajectory]) -> Iterator[Finding]:
    """Inputs that leave their usual value, or are given at all, at single samples only, as doses are."""
    for j, name in enumerate(data[0].inputs):
        columns = [run.u[:, j] for run in data if run.u is not None]
        values, counts = np.unique(np.concatenate(columns), return_counts=True)
        usual = values[np.argmax(counts)]
        away = [~np.isclose(column, usual, rtol=0.0, atol=0.0, equal_nan=True) for column in columns]
        given = sum(map(np.count_nonzero, away))
        if not given or 2 * counts.max() <= counts.sum() or any(np.any(a[1:] & a[:-1]) for a in away):
            continue
        rest = "missing" if np.isnan(usual) else f"{usual:g}"
        yield Finding(
            "pulsed-input",
            f'"{name}" is given at single samples ({given} of {counts.sum()}) and {rest} at the others, as a '
            "dose is. The model lets it last until the samples beside it. What acts at once is no input: "
            "leave it out, and let a run of its own begin after each dose (`by`).",
            {"input": name, "count": int(given)},
        )


def _doses_filled(data: Sequence[Trajectory]) -> Iterator[Finding]:
    """Inputs on straight lines between the times at which they are given, most often with the value before.

    Doses are so, and settings that are held.
    """
    filled = [run for run in data if run.hold == "linear"]
    for j, name in enumerate(data[0].inputs):
        cells = [
            np.interp(run.given[(run.given >= run.t[0]) & (run.given <= run.t[-1])], run.t, run.u[:, j])
            for run in filled
            if run.given is not None and run.u is not None
        ]
        steps = np.concatenate([np.diff(values) for values in cells] or [np.zeros(0)])
        # An input that never changes is the same in whatever way it is held.
        if np.any(steps) and 2 * np.count_nonzero(steps == 0) > len(steps):
            count = sum(map(len, cells))
            yield Finding(
                "pulsed-input",
                f'"{name}" is given at times of its own ({counted(count, "value")}), mostly with the value '
                "before, as doses and settings are, but the model draws straight lines between them. A dose, "
                "which acts at once, is no input: leave it out, and let a run of its own begin after each "
                '(`by`). A setting, which stays until the next one, is held: hold="zero".',
                {"input": name, "count": count},
            )


def _most_frequent(steps: Sequence[Ints]) -> float:
    """The share of the step that occurs most often."""
    every = np.concatenate(steps)
    return float(np.unique(every, return_counts=True)[1].max(initial=0) / max(len(every), 1))


def _listed_twice(data: Sequence[Trajectory]) -> list[Finding]:
    """Runs with the same samples as an earlier run; they count twice, which makes errors too small."""
    first_with: dict[bytes, int] = {}
    pairs = []
    for i, trajectory in enumerate(data):
        # Equal to the bit: two measurements never agree in all digits, however similar the runs are.
        earlier = first_with.setdefault(trajectory.x.tobytes(), i)
        if earlier != i and len(trajectory) > 2:
            pairs.append((earlier, i))
    if not pairs:
        return []

    def label(k: int) -> str:
        return f'"{data[k].name}"' if data[k].name else f"number {k + 1}"

    examples = ", ".join(f"{label(later)} repeats {label(earlier)}" for earlier, later in pairs[:3])
    others = f" and {len(pairs) - 3} more" if len(pairs) > 3 else ""
    message = (
        f"Runs are listed twice: {examples}{others}. They count twice, which makes standard errors too "
        "small. Leave the repetitions out."
    )
    return [Finding("repeated-runs", message, {"pairs": tuple(pairs)})]


def _interpolated(segments: Sequence[Trajectory]) -> list[Finding]:
    """States with values that were interpolated between the measured ones.

    Differences of order 1 vanish between repeated values, of order 2 on straight lines, and of order 4 on
    cubic polynomials. At a knot, which every p-th sample is, 1, 1 and 3 successive ones do not vanish.
    """
    for j, state in enumerate(segments[0].states):
        for order, knots, pattern in (
            (1, 1, "its value only changes at every {}. sample"),
            (2, 1, "between every {}. sample its values lie on straight lines"),
            (4, 3, "between every {}. sample its values lie on cubic polynomials"),
        ):
            period, *others = {_period_of_knots(segment.x[:, j], order, knots) for segment in segments}
            if period is not None and not others:
                message = (
                    f'"{state}" was interpolated to a finer grid: {pattern.format(period)}. The samples in '
                    "between are not measurements, and their errors are correlated. Keep the measured ones."
                )
                values = {"state": state, "every": period, "order": order}
                return [Finding("interpolated-data", message, values)]
    return []


def _period_of_knots(x: Floats, order: int, knots: int) -> int | None:
    """The p such that all differences vanish except at `knots` successive places in every p samples.

    The share of differences that vanish is 1 − knots / p, which determines p. A spline may have fewer knots
    at its ends, so that p − 1 is tried as well. None: there is no such p.
    """
    # The differences of interpolated values are rounding errors, which differencing magnifies by 2^order.
    differences = np.abs(np.diff(x, order))
    rounding = 2.0**order * float(np.finfo(float).eps) * float(np.max(np.abs(x)))
    vanish = differences <= 1e-9 * float(np.max(differences, initial=0.0)) + rounding
    # All differences vanish in a constant or a polynomial, which is no sign of interpolation.
    share = float(np.mean(vanish)) if len(vanish) else 0.0
    if not 0.2 < share < 1.0:
        return None
    guess = round(knots / (1.0 - share))
    for period in (guess, guess - 1):
        if knots < period <= len(vanish) // _AT.repetitions:
            shares = vanish[: len(vanish) // period * period].reshape(-1, period).mean(axis=0)
            if np.sum(shares < 0.15) == knots and np.sum(shares > 0.95) == period - knots:
                return period
    return None


def _coarse(segments: Sequence[Trajectory]) -> list[Finding]:
    """Samples that are too far apart for the motion, or that are a map or mostly noise."""
    rough = roughness(segments)
    if np.max(rough) > _AT.rough:
        j = int(np.argmax(rough))
        # A map and noise are equally rough, but only in a map does the next sample follow from the last one.
        if unknown_steps(segments) < _AT.known:
            message = (
                "No smooth curve runs through the samples, yet each follows from the one before: they "
                "look like the steps of a map. If they are, use Discrete(); if a motion was measured, sample "
                "faster."
            )
            return [Finding("looks-like-a-map", message)]
        state = segments[0].states[j]
        message = (
            f'"{state}" changes from sample to sample by about as much as it ever does: the '
            "samples are too far apart for equations of motion, or mostly noise. Sample faster, or average."
        )
        return [Finding("rough-samples", message, {"state": state})]
    # Only segments with two oscillations or more say how many samples an oscillation has.
    swings = [len(segment) / turns for segment in segments if (turns := periods(segment)) >= 2]
    if swings and float(np.median(swings)) < _AT.per_swing:
        message = (
            f"There are only {np.median(swings):.1f} samples per oscillation, too few to know the motion "
            "between them. Sample faster; coefficients may be wrong by more than their standard errors."
        )
        return [Finding("few-samples-a-swing", message, {"samples": float(np.median(swings))})]
    return []


def _far_from_zero(segments: Sequence[Trajectory], powers: bool) -> list[Finding]:
    """States whose spread is small compared with their mean, so that their powers are nearly collinear."""
    x = np.vstack([segment.x for segment in segments])
    mean, spread = x.mean(axis=0), x.std(axis=0)
    limit = _AT.offset if powers else _AT.offset_linear
    distant = np.flatnonzero((spread > 0) & (np.abs(mean) > limit * spread))
    consequence = "powers and products of it are hard to tell apart" if powers else "it is almost a constant"
    return [
        Finding(
            "far-from-zero",
            f'"{segments[0].states[j]}" varies by {spread[j]:.2g} about {mean[j]:.6g}: {consequence}. '
            "Subtract a typical value first.",
            {"state": segments[0].states[j], "mean": float(mean[j]), "spread": float(spread[j])},
        )
        for j in distant[:3]
    ]


def _state_missing(segments: Sequence[Trajectory]) -> list[Finding]:
    """Similar states with different rates: the measured states do not determine what comes next."""
    swings, calm = sum(periods(segment) for segment in segments), _AT.calm
    if swings < 2:
        return []
    alone = len(segments[0].variables) == 1
    if alone:
        # No equation x' = F(x) lets a state swing. So a single state can be averaged before the test.
        size = max(int(sum(map(len, segments)) / swings / 12), 1)
        segments = [_means(segment, size) for segment in segments if len(segment) >= 12 * size]
        calm = _AT.calm_means
    if not segments:
        return []
    if np.max(roughness(segments)) <= calm and unknown_rates(segments) > _AT.unknown:
        named = ", ".join(f'"{name}"' for name in segments[0].variables[:4])
        message = (
            f"The same values of {named} are followed by different motion at different times: a state is "
            "missing, perhaps a velocity. Measure it, or look for x'' = F with `order=2`"
            + (", or for x'' = F(x, x') with `Integral(order=2, rates=True)`." if alone else ".")
        )
        return [Finding("missing-state", message)]
    return []


def roughness(segments: Sequence[Trajectory]) -> Floats:
    """(states,) residual of local polynomials, in units of the spread of all data."""
    spread = np.vstack([segment.x for segment in segments]).std(axis=0)
    level = np.median([noise_level(segment) for segment in segments], axis=0)
    return np.asarray(np.divide(level, spread, out=np.zeros(len(level)), where=spread > 0))


def _means(segment: Trajectory, size: int) -> Trajectory:
    """The means over every `size` samples."""
    count = len(segment) // size * size
    t, x = (
        values[:count].reshape(-1, size, *values.shape[1:]).mean(axis=1) for values in (segment.t, segment.x)
    )
    return Trajectory(t, x, segment.states)


def unknown_steps(segments: Sequence[Trajectory]) -> float:
    """The share of the variance of the steps between samples that the state does not explain."""
    return _left_by_neighbours(segments, [segment.x[1:] - segment.x[:-1] for segment in segments])


def unknown_rates(segments: Sequence[Trajectory]) -> float:
    """The share of the variance of the rates that neither the state nor noise explains."""
    rates = [np.gradient(segment.x, segment.t, axis=0)[:-1] for segment in segments]
    # The central difference (y_{k+1} − y_{k−1}) / 2h of white noise has the variance 2 σ² / 4h².
    noise = [noise_level(segment) ** 2 * np.mean(0.5 / np.diff(segment.t) ** 2) for segment in segments]
    return _left_by_neighbours(segments, rates, np.mean(noise, axis=0))


def _left_by_neighbours(
    segments: Sequence[Trajectory], targets: Sequence[Floats], noise: Floats | float = 0.0
) -> float:
    """The share of the variance of the targets that similar states, at other times, leave unexplained.

    It is half the mean square of the differences of targets at similar states over their variance: 0 if the
    target is a function of the state, 1 if it is independent of it. The result is the largest over the
    states, NaN if the motion hardly ever returns.

    noise: variance of the targets that is due to noise, which no state explains
    """
    pairs = _like_states(segments)
    if pairs is None:
        return np.nan
    target = np.vstack(list(targets))
    # The difference of two independent values has twice their variance.
    unexplained = np.maximum(np.mean((target[pairs[0]] - target[pairs[1]]) ** 2, axis=0) / 2 - noise, 0.0)
    variance = np.var(target, axis=0) - noise
    # A target that is mostly noise is no evidence for or against a missing state.
    clear = variance > np.maximum(noise, 0.0)
    return float(np.max(np.divide(unexplained, variance, out=np.zeros(len(variance)), where=clear)))


def lack_of_fit(segments: Sequence[Trajectory], residuals: Sequence[Floats]) -> Floats:
    """(targets,) root mean square of the residuals over that of their pure error.

    Similar states at other times have independent noise, so that half the mean square of the difference of
    their residuals is the pure error of a lack-of-fit test with near replicates (Daniel and Wood, Fitting
    Equations to Data, 1980). The ratio is 1 for noise, and NaN if the motion hardly ever returns.

    residuals: (n − 1, …) for each segment of n samples, at all samples but the last
    """
    stacked, pairs = np.vstack(list(residuals)), _like_states(segments)
    if pairs is None:
        return np.full(stacked.shape[1], np.nan)
    pure = np.mean((stacked[pairs[0]] - stacked[pairs[1]]) ** 2, axis=0) / 2
    total = np.mean(stacked[np.concatenate(pairs)] ** 2, axis=0)
    return np.asarray(np.sqrt(np.divide(total, pure, out=np.ones(len(pure)), where=pure > 0)))


def _like_states(segments: Sequence[Trajectory]) -> tuple[Ints, Ints] | None:
    """Pairs of samples, none the last of a segment, with similar states at times that are not close."""
    from scipy.spatial import cKDTree

    values = np.vstack([segment.values[:-1] for segment in segments])
    # The offset of each run exceeds the number of its samples, so that samples of two runs are never close.
    moment = np.concatenate(
        [np.arange(len(segment) - 1) + 10_000_000 * i for i, segment in enumerate(segments)]
    )
    chosen = np.unique(np.linspace(0, len(values) - 1, _AT.most).astype(int))
    spread = np.where(values.std(axis=0) > 0, values.std(axis=0), 1.0)
    tree = cKDTree(values / spread)
    # Thirty neighbours, because the nearest few are often the samples just before and after.
    distance, neighbour = map(np.asarray, tree.query(values[chosen] / spread, k=min(30, len(values))))
    similar = np.abs(moment[neighbour] - moment[chosen][:, None]) > max(
        5, len(values) // (60 * len(segments))
    )
    similar &= distance < _AT.like
    if np.count_nonzero(similar.any(axis=1)) < _AT.coming_back:
        return None
    return np.repeat(chosen, similar.sum(axis=1)), neighbour[similar]
