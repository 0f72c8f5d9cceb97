"""Signs of faulty data in the measurements alone, before any model.

Wrapped angles, rounded and interpolated values, runs that are listed twice, samples that are too
coarse for a motion, rates computed from positions, states that are missing. Each test looks at the samples
alone.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np

from cindy._arrays import Floats, Ints
from cindy.data.instrument_faults import derived_rates
from cindy.data.time_scales import noise_level, periods, rounding_step, some_segments
from cindy.data.trajectory import Trajectory
from cindy.findings import Finding

_TURNS = {"2π": 2 * np.pi, "360": 360.0}


@dataclass(frozen=True)
class _Limits:
    """From where on data are told to be odd, chosen by `python -m benchmarks oddities`."""

    # Chosen by `python -m benchmarks oddities`, between what good data show at most and faulty data at least.
    per_swing: float = 6.0
    """Samples to a swing: with fewer, what happens between two samples is guessed. With 5 the law of none of
    four motions is found, with 6 of one, with 8 of two, with 12 of all."""
    rough: float = 0.8
    """Of the spread: no curve runs through samples that local polynomials miss by more. Motions with 40 %
    noise reach 0.67, white noise 1, chaotic maps 1.3."""
    known: float = 0.15
    """Of the variance: what is left of the next sample when it is taken from the nearest like state. Maps
    with 5 % noise 0.02, noise 0.4 and more."""
    unknown: float = 0.25
    """Of the variance of the rates, as left by the nearest like state: more means that a state is missing.
    Good data reach 0.07, a swing without its other half 0.3 to 1.1; Lorenz and Rössler without z, 0.05 and
    0.17, go unnoticed."""
    calm: float = 0.02
    """Of the spread: noise beyond which rates tell little."""
    offset: float = 25.0
    """Spreads from zero: of a state that keeps further away, powers and products are too alike to tell. At 20
    the rates of all six motions are found, at 30 of five, at 1,000 of none. Good data keep within 5."""
    offset_linear: float = 3000.0
    """The same where only the state itself is among the terms: found at 1,000, lost at 10,000 with 10 %
    noise."""
    like: float = 0.1
    """Two states are alike that are no further apart than this, in units of the spread."""
    repetitions: int = 8
    """Knots that a pattern of interpolation must show."""
    most: int = 1500
    """Samples that are compared with each other."""
    coming_back: int = 30
    """Samples near which the motion must pass again for like states to be compared."""


_AT = _Limits()


def oddities(
    data: Sequence[Trajectory],
    looked: Sequence[Trajectory] | None = None,
    *,
    order: int = 1,
    discrete: bool = False,
    followed: bool = False,
    powers: bool = True,
) -> list[Finding]:
    """Findings about what the data can tell of themselves, each with what to do.

    looked: some of the stretches without gaps, where somebody has them already
    order: of the equations that are sought; discrete: whether they step from sample to sample
    followed: whether solutions of a law in these states follow them, so that no state is missing
    powers: whether powers or products of states are among the terms
    """
    looked = some_segments(data) if looked is None else looked
    segments = [segment for segment in looked if len(segment) >= 12]
    if not segments:
        return []
    findings = [*_wrapped(segments), *_quantised(segments), *_far_from_zero(segments, powers)]
    findings += _listed_twice(data)
    if not discrete:
        findings += _interpolated(segments)
        findings += derived_rates(segments) if order == 1 else []
        findings += _coarse(segments) or (_state_missing(segments) if order == 1 and not followed else [])
    return findings


def _wrapped(segments: Sequence[Trajectory]) -> Iterator[Finding]:
    for j, state in enumerate(segments[0].states):
        jumps = np.concatenate([np.diff(segment.x[:, j]) for segment in segments])
        reach = max(float(np.ptp(segment.x[:, j])) for segment in segments)
        for name, turn in _TURNS.items():
            # All steps are far from half a turn: short ones are motion, long ones the way back across the
            # cut.
            back = np.abs(jumps) > 0.75 * turn
            rest = np.abs(jumps[~back])
            if back.any() and reach <= 1.01 * turn and len(rest) and float(rest.max()) < 0.25 * turn:
                times = "once" if back.sum() == 1 else f"{back.sum()} times"
                yield Finding(
                    "wrapped-angle",
                    f'"{state}" jumps by about {name} {times}, as an angle does that is kept within a turn. '
                    "No equation explains such jumps: unwrap it first, with numpy.unwrap"
                    + ("." if name == "2π" else "(…, period=360)."),
                    {"state": state, "turn": turn},
                )
                break


def _quantised(segments: Sequence[Trajectory]) -> list[Finding]:
    steps = []
    for j, state in enumerate(segments[0].states):
        values = np.concatenate([segment.x[:, j] for segment in segments])
        step = rounding_step(values)
        # Rounding is harmless where a motion passes many steps between two samples: its error is then close
        # to white.
        usual = float(np.median(np.abs(np.concatenate([np.diff(segment.x[:, j]) for segment in segments]))))
        if usual < 3 * step:
            steps.append(
                f'"{state}" in steps of {step:.4g} ({step / float(np.ptp(values)):.1%} of the range)'
            )
    if not steps:
        return []
    message = (
        f"The data are rounded: {', '.join(steps[:4])}{', …' if len(steps) > 4 else ''}. These steps "
        "are about as large as the changes from one sample to the next, so the errors are not white noise. "
        "Record more digits, or keep only every few samples."
    )
    return [Finding("rounded-data", message)]


def _listed_twice(data: Sequence[Trajectory]) -> list[Finding]:
    """Runs whose samples are those of an earlier run: they count twice, and errors come out too small."""
    seen: dict[bytes, int] = {}
    pairs = []
    for i, trajectory in enumerate(data):
        # To the bit: two measured runs never agree in all digits, however alike they are.
        content = np.ascontiguousarray(trajectory.x).tobytes()
        earlier = seen.setdefault(content, i)
        if earlier != i and len(trajectory) > 2:
            pairs.append((earlier, i))
    if not pairs:
        return []

    def called(k: int) -> str:
        return f'"{data[k].name}"' if data[k].name else f"number {k + 1}"

    shown = ", ".join(f"{called(b)} repeats {called(a)}" for a, b in pairs[:3])
    more = f" and {len(pairs) - 3} more" if len(pairs) > 3 else ""
    message = (
        f"Runs are listed twice: {shown}{more}. They count twice, which makes standard errors too "
        "small. Leave the repetitions out."
    )
    return [Finding("repeated-runs", message, {"pairs": tuple(pairs)})]


def _interpolated(segments: Sequence[Trajectory]) -> list[Finding]:
    """Values that were put between the measured ones: differences that vanish at all samples but every p-th.

    Differences of order 1 vanish between values that were repeated, of order 2 on straight lines, and of
    order 4 on cubic polynomials. At a knot 1, 1 and 3 of them in succession do not.
    """
    for j, state in enumerate(segments[0].states):
        for order, knots, what in (
            (1, 1, "its value only changes at every {}. sample"),
            (2, 1, "between every {}. sample its values lie on straight lines"),
            (4, 3, "between every {}. sample its values lie on cubic polynomials"),
        ):
            periods_here = [_period_of_knots(segment.x[:, j], order, knots) for segment in segments]
            every = periods_here[0]
            if every is not None and all(period == every for period in periods_here):
                message = (
                    f'"{state}" was interpolated to a finer grid: {what.format(every)}. The samples in '
                    "between are not measurements, and their errors are correlated. Keep the measured ones."
                )
                return [
                    Finding("interpolated-data", message, {"state": state, "every": every, "order": order})
                ]
    return []


def _period_of_knots(x: Floats, order: int, knots: int) -> int | None:
    """The p of which all differences vanish but those at `knots` successive places in every p samples."""
    # Interpolation leaves rounding errors, magnified by the differences, and nothing else.
    differences = np.abs(np.diff(x, order))
    rounding = 2.0**order * float(np.finfo(float).eps) * float(np.max(np.abs(x)))
    vanish = differences <= 1e-9 * float(np.max(differences, initial=0.0)) + rounding
    # All differences vanish in a constant or a polynomial, which is no sign of interpolation.
    share = float(np.mean(vanish)) if len(vanish) else 0.0
    if not 0.2 < share < 1.0:
        return None
    # Of p differences `knots` do not vanish, and p follows from their share; a spline lacks some at its ends.
    guess = round(knots / (1.0 - share))
    for every in (guess, guess - 1):
        if knots < every <= len(vanish) // _AT.repetitions:
            each = vanish[: len(vanish) // every * every].reshape(-1, every).mean(axis=0)
            if np.sum(each < 0.15) == knots and np.sum(each > 0.95) == every - knots:
                return every
    return None


def _coarse(segments: Sequence[Trajectory]) -> list[Finding]:
    """Samples too far apart, or no samples of a motion at all."""
    rough = roughness(segments)
    if np.max(rough) > _AT.rough:
        j = int(np.argmax(rough))
        # Roughness alone does not tell a map from noise; that the next sample follows from the last one
        # does.
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
    # A motion that does not swing twice has no samples to a swing.
    swings = [(len(segment) / turns) for segment in segments if (turns := periods(segment)) >= 2]
    if swings and float(np.median(swings)) < _AT.per_swing:
        message = (
            f"There are only {np.median(swings):.1f} samples per oscillation, too few to know the motion "
            "between them. Sample faster; coefficients may be wrong by more than their standard errors."
        )
        return [Finding("few-samples-a-swing", message, {"samples": float(np.median(swings))})]
    return []


def _far_from_zero(segments: Sequence[Trajectory], powers: bool) -> list[Finding]:
    """States that hardly vary beside their size: no two powers of them can be told apart."""
    x = np.vstack([segment.x for segment in segments])
    middle, spread = x.mean(axis=0), x.std(axis=0)
    limit = _AT.offset if powers else _AT.offset_linear
    far = np.flatnonzero((spread > 0) & (np.abs(middle) > limit * spread))
    alike = "powers and products of it are hard to tell apart" if powers else "it is almost a constant"
    return [
        Finding(
            "far-from-zero",
            f'"{segments[0].states[j]}" varies by {spread[j]:.2g} about {middle[j]:.6g}: {alike}. '
            "Subtract a typical value first.",
            {"state": segments[0].states[j], "mean": float(middle[j]), "spread": float(spread[j])},
        )
        for j in far[:3]
    ]


def _state_missing(segments: Sequence[Trajectory]) -> list[Finding]:
    """Like states that move apart: what was measured does not tell what comes next."""
    if np.max(roughness(segments)) > _AT.calm or sum(periods(segment) for segment in segments) < 2:
        return []
    if unknown_rates(segments) > _AT.unknown:
        named = ", ".join(f'"{name}"' for name in segments[0].variables[:4])
        message = (
            f"The same values of {named} are followed by different motion at different times: a state is "
            "missing, perhaps a velocity. Measure it, or look for x'' = F with order=2."
        )
        return [Finding("missing-state", message)]
    return []


def roughness(segments: Sequence[Trajectory]) -> Floats:
    """(states,) what no local polynomial explains, in units of the spread of all data."""
    spread = np.vstack([segment.x for segment in segments]).std(axis=0)
    level = np.median([noise_level(segment) for segment in segments], axis=0)
    return np.asarray(np.divide(level, spread, out=np.zeros(len(level)), where=spread > 0))


def unknown_steps(segments: Sequence[Trajectory]) -> float:
    """The share of what happens from one sample to the next that the state there does not tell."""
    return _left_by_neighbours(segments, [segment.x[1:] - segment.x[:-1] for segment in segments])


def unknown_rates(segments: Sequence[Trajectory]) -> float:
    """The share of the rates that the state does not tell, beyond what noise does to rates.

    A central difference over 2h has the variance σ²/(2h²).
    """
    rates = [np.gradient(segment.x, segment.t, axis=0)[:-1] for segment in segments]
    # (y_{k+1} − y_{k−1}) / 2h of white noise has the variance 2 σ² / 4h².
    noise = [noise_level(segment) ** 2 * np.mean(0.5 / np.diff(segment.t) ** 2) for segment in segments]
    return _left_by_neighbours(segments, rates, np.mean(noise, axis=0))


def _left_by_neighbours(
    segments: Sequence[Trajectory], targets: Sequence[Floats], noise: Floats | float = 0.0
) -> float:
    """The share of the variance of the targets that the nearest like states, elsewhere in time, leave.

    Half the mean square of their differences over the variance: 0 where the target is a function of the
    state, 1 where it is chance. The worst over the states; NaN where hardly any comes back.

    noise: variance of the targets that is due to noise, which no state tells
    """
    pairs = _like_states(segments)
    if pairs is None:
        return np.nan
    target = np.vstack(list(targets))
    # The difference of two independent values has twice their variance.
    left = np.maximum(np.mean((target[pairs[0]] - target[pairs[1]]) ** 2, axis=0) / 2 - noise, 0.0)
    whole = np.var(target, axis=0) - noise
    # A target that is mostly noise tells nothing, neither way.
    telling = whole > np.maximum(noise, 0.0)
    return float(np.max(np.divide(left, whole, out=np.zeros(len(left)), where=telling)))


def lack_of_fit(segments: Sequence[Trajectory], residuals: Sequence[Floats]) -> Floats:
    """(targets,) the size of residuals over that of the part which no function of the state explains.

    Like states that lie apart in time have independent noise, so that half the mean square of the difference
    of their residuals is the pure error of a lack-of-fit test with near replicates (Daniel and Wood, Fitting
    Equations to Data, 1980). 1 for noise; NaN where hardly any state comes back.

    residuals: (n − 1, …) for each segment of n samples, at all samples but the last
    """
    left, pairs = np.vstack(list(residuals)), _like_states(segments)
    if pairs is None:
        return np.full(left.shape[1], np.nan)
    pure = np.mean((left[pairs[0]] - left[pairs[1]]) ** 2, axis=0) / 2
    whole = np.mean(left[np.concatenate(pairs)] ** 2, axis=0)
    return np.asarray(np.sqrt(np.divide(whole, pure, out=np.ones(len(pure)), where=pure > 0)))


def _like_states(segments: Sequence[Trajectory]) -> tuple[Ints, Ints] | None:
    """Pairs of samples, none the last of a segment, whose states are alike though they lie apart in time."""
    from scipy.spatial import cKDTree

    values = np.vstack([segment.values[:-1] for segment in segments])
    # A distance between runs that no sample number reaches, so that samples of two runs always lie apart in
    # time.
    moment = np.concatenate(
        [np.arange(len(segment) - 1) + 10_000_000 * i for i, segment in enumerate(segments)]
    )
    some = np.unique(np.linspace(0, len(values) - 1, _AT.most).astype(int))
    spread = np.where(values.std(axis=0) > 0, values.std(axis=0), 1.0)
    tree = cKDTree(values / spread)
    # Thirty neighbours, since the nearest few are often the samples just before and after.
    far, near = (np.asarray(nearest) for nearest in tree.query(values[some] / spread, k=min(30, len(values))))
    # A sample's own neighbours in time are near for that reason alone; and what is far is not like it.
    apart = np.abs(moment[near] - moment[some][:, None]) > max(5, len(values) // (60 * len(segments)))
    apart &= far < _AT.like
    if np.count_nonzero(apart.any(axis=1)) < _AT.coming_back:
        return None
    return np.repeat(some, apart.sum(axis=1)), near[apart]
