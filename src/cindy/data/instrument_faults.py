"""Faults of instruments that can be seen in the samples: glitches, clipped values, and computed rates.

A glitch is a sample that no motion reaches, such as −9999 where a value is missing, or a reading that is off
by the range of the state. One of them can outweigh all other samples in every sum of squares, so that no
search leads to equations whose residuals would show it. Glitches are treated as missing. The samples alone
tell them from spikes of the motion (`without_glitches`):

1. The excursion of a sample is its distance from the interval between the two middle ones of its four
   neighbours, which one other glitch among them does not move.
2. The largest excursions are glitches if the smallest of them is still twice as large as every step between
   other samples: the state moves so far nowhere else. Smaller excursions are not among these other samples
   where the state takes many steps for its range: a motion that is resolved so well has no spikes of one
   sample.
3. Glitches do not know the motion. They lie side by side no more often than by chance, and the states pass
   them no faster than other samples. A spike of the motion takes other states with it.

Smaller outliers are found beside the equations (states/doubts.py).

A sensor at the end of its range says only that a state is beyond it. Clipped samples are therefore bounds,
not measurements. Samples count as clipped if three signs occur together: many samples have exactly the
highest or lowest value, several times as many as have the values next to it, and the motion enters and leaves
runs of them at its usual speed. A motion that turns round at its extreme is there once, or about twice as
often as at the next value if values are rounded; a motion that settles at a fixed point arrives slowly and
does not leave. Clipped samples are treated as missing, so that the law and the other channels determine the
states there.

A rate that was computed from positions by differences, a filter or a spline is v_k = Σ_l a_l x_{k+l}. It
holds no measurement of its own, and its noise is the filtered noise of the positions. A measured rate also
lies close to such a sum, but not closer than the noise of the positions allows:

    mean (v − Σ a_l x_l)²  ≥  σ_x² Σ a_l²         for a measured rate
    mean (v − Σ a_l x_l)²  ≈  0                   for a rate computed from the positions

so that the ratio of the two sides distinguishes them without any model (`derived_rates`):

1. Find pairs of states of which one is correlated with the slope of the other.
2. Estimate the weights a by least squares over all samples that have neighbours on both sides.
3. Compute the ratio, with σ_x from the roughness of the positions.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import NamedTuple

import numpy as np
from numpy.lib.stride_tricks import sliding_window_view
from numpy.typing import NDArray

from cindy._arrays import Floats, Ints
from cindy._check import counted
from cindy.data.time_scales import rough_noise, rounding_step
from cindy.data.trajectory import Trajectory
from cindy.findings import Finding


@dataclass(frozen=True)
class _Glitch:
    """When samples count as glitches."""

    far: float = 2.0
    """Smallest excursion, in units of the largest step between other samples (benchmark: wrong_noise)."""
    resolved: float = 6.0
    """Range of a state, in units of its largest step, from which its motion has no spikes of one sample. With
    3, largest values of Roessler's z are taken for glitches where few samples show them; with 9, outliers of
    every size in 10 % noise are left in (benchmark: wrong_noise)."""
    most: float = 0.05
    """Largest share of glitches among the samples of a state; there may be one among twenty or more."""
    chance: float = 0.01
    """Probability below which excursions belong to the motion: that samples at random lie side by side as
    often, or in as fast a motion."""
    rounds: int = 4
    """How often excursions are looked for beside those found before, which may have hidden them."""


_GLITCH = _Glitch()


@dataclass(frozen=True)
class _Pile:
    """When values at the end of a range count as clipped by the instrument."""

    # `python -m benchmarks oddities` gives the extremes of good and of faulty data; these lie between them.
    few_levels: int = 8
    """A state with fewer different values is a switch, whose extremes are its positions."""
    pile: int = 5
    pile_ratio: float = 4.0
    """Samples at an extreme value, and their ratio to the mean of the next five values, from which a state
    counts as clipped. A rounded turning point has 2.4 times the samples of the next value."""
    entered: float = 0.1
    """Share of the mean step of the motion: a state that reaches its extreme by less settles there."""
    steps: float = 1.5
    """The same in units of the rounding step of the values: more than one of them."""
    most: float = 0.5
    """Share of the samples: a state that is at its limit more often is reported, but left as it is."""


_PILE_OF = _Pile()


class _Limit(NamedTuple):
    """The limit of a state (by its index), its side, and the number and share of the samples there."""

    state: int
    side: str
    level: float
    samples: int
    share: float


def without_faults(data: Sequence[Trajectory]) -> tuple[list[Trajectory], list[Finding]]:
    """The data with glitches and clipped values replaced by missing ones, and a finding for each state."""
    cleaned, findings = without_glitches(data)
    for limit in _limits(cleaned):
        name = data[0].states[limit.state]
        # Weeks without a case of a disease are measurements, and many of them say that it is over.
        is_count = limit.level == 0.0 and all(_whole(run.x[:, limit.state]) for run in data)
        removed = limit.share < _PILE_OF.most and not is_count
        if removed:
            consequence = "These samples are bounds and not measurements, and were taken as missing."
        elif is_count:
            consequence = (
                "If it is a count, none is a measurement as well, and so these samples were kept. "
                "If a sensor cannot show less, make them missing."
            )
        else:
            consequence = "Most of its samples are bounds and not measurements."
        message = (
            f'"{name}" has its {limit.side} value, {limit.level:.6g}, {limit.samples} times '
            f"({limit.share:.1%} of the samples), and runs into it: it seems clipped there. {consequence}"
        )
        values = {"state": name, "level": limit.level, "count": limit.samples, "share": limit.share}
        findings.append(Finding("clipped-data", message, values))
        if removed:
            cleaned = [
                _with_missing(run, limit.state, run.x[:, limit.state] == limit.level) for run in cleaned
            ]
    return cleaned, findings


def without_glitches(data: Sequence[Trajectory]) -> tuple[list[Trajectory], list[Finding]]:
    """The data with glitches replaced by missing values, and a finding for each state that has some."""
    x = np.concatenate([run.x for run in data])
    runs = np.repeat(np.arange(len(data)), [len(run) for run in data])
    sizes = np.stack([_excursions(column, runs) for column in x.T], axis=1)
    if not sizes.any():
        return list(data), []
    passed = _passed_as_fast(x, runs)
    findings, cleaned = [], x.copy()
    for j in np.flatnonzero(sizes.any(axis=0)):
        least = _least_glitch(x[:, j], sizes[:, j], passed, runs)
        glitches = _with_ends(x[:, j], sizes[:, j] >= least, least, runs)
        name, count = data[0].states[j], int(glitches.sum())
        if count:
            cleaned[glitches, j] = np.nan
            message = (
                f'"{name}" has {counted(count, "outlier")}, farther from samples before and after than its '
                "motion reaches: taken as missing."
            )
            findings.append(Finding("outliers", message, {"state": name, "count": count}))
    if not findings:
        return list(data), []
    parts = np.split(cleaned, np.cumsum([len(run) for run in data])[:-1])
    return [replace(run, x=part) for run, part in zip(data, parts, strict=True)], findings


def _excursions(x: Floats, runs: Ints) -> Floats:
    """(samples,) by step 1, zero where that is too little for a glitch.

    Before a run stands its first sample once more, and behind it the last one, so that these two have none.

    runs: (samples,) number of the run of each sample
    """
    sizes, places = np.zeros(len(x)), np.flatnonzero(np.isfinite(x))
    if _GLITCH.most * len(places) < 1.0:
        return sizes
    steps = np.abs(np.diff(x[places]))[runs[places[:-1]] == runs[places[1:]]]
    # Each glitch has two steps. Of the other steps the largest is at least as large as this one.
    least = _GLITCH.far * float(np.quantile(np.append(steps, 0.0), 1.0 - 2.0 * _GLITCH.most))
    # Where a state rests nearly always, its motion is what it does seldom.
    for _ in range(_GLITCH.rounds if least > 0.0 else 0):
        kept = places[sizes[places] == 0.0]
        begin = np.searchsorted(runs[kept], runs[kept])
        end = np.searchsorted(runs[kept], runs[kept], side="right") - 1
        beside = [np.clip(np.arange(len(kept)) + k, begin, end) for k in (-2, -1, 1, 2)]
        _, low, high, _ = np.sort(x[kept][beside], axis=0)
        size = np.maximum(x[kept] - high, low - x[kept])
        found = size > least
        if not found.any():
            break
        sizes[kept[found]] = size[found]
    return sizes


def _passed_as_fast(x: Floats, runs: Ints) -> Floats:
    """(samples,) share of all samples that the states pass at least as fast as this one.

    They do so as fast as the fastest of them, relative to its spread, moves from the last measurement before
    the sample to the first one after it.
    """
    every, speed = np.arange(len(x)), np.zeros(len(x))
    for column in x.T:
        places = np.flatnonzero(np.isfinite(column))
        before, after = np.searchsorted(places, every) - 1, np.searchsorted(places, every, side="right")
        inside = np.flatnonzero((before >= 0) & (after < len(places)))
        before, after = places[before[inside]], places[after[inside]]
        step = np.where(runs[before] == runs[after], np.abs(column[after] - column[before]), 0.0)
        speed[inside] = np.maximum(speed[inside], step / max(float(column[places].std()), 1e-300))
    return 1.0 - np.searchsorted(np.sort(speed), speed) / len(speed)


def _least_glitch(x: Floats, sizes: Floats, passed: Floats, runs: Ints) -> float:
    """The smallest excursion that is a glitch by steps 2 and 3; ∞ if none is.

    Of m samples at random among n about m² / n lie side by side (Poisson). The shares by which m samples are
    passed as fast or faster are even between 0 and 1, so that their sum is s or less with a probability of
    s^m / m! at most (Edgington, J. Psychol. 80, 1972).
    """
    from scipy.special import gammainc, gammaln  # loaded by what needs it alone

    places, far = np.flatnonzero(np.isfinite(x)), np.flatnonzero(sizes)
    far = far[np.argsort(-sizes[far])][: int(_GLITCH.most * len(places))]
    limits, number = sizes[far], np.arange(1, len(far) + 1)
    # Step 2: the largest step between samples without an excursion that reaches the limit. Steps at the ends
    # of runs do not count.
    one, other = places[:-1], places[1:]
    inner = np.append(np.append(False, runs[places[:-3]] == runs[places[3:]]), False)
    reaches, step = (v[inner] for v in (np.maximum(sizes[one], sizes[other]), np.abs(x[other] - x[one])))
    order = np.argsort(reaches)
    largest = np.append(0.0, np.maximum.accumulate(step[order]))
    usual = largest[np.count_nonzero(reaches == 0.0)]
    if np.ptp(x[places[sizes[places] == 0.0]]) > _GLITCH.resolved * usual:
        beyond = limits >= _GLITCH.far * usual
    else:
        beyond = limits >= _GLITCH.far * largest[np.searchsorted(reaches[order], limits)]
    # Step 3.
    pairs = np.sort(np.minimum(sizes[one], sizes[other])[runs[one] == runs[other]])
    beside = gammainc(len(pairs) - np.searchsorted(pairs, limits), number**2 / len(places))
    fast = number * np.log(np.cumsum(passed[far])) - gammaln(number + 1.0)
    glitches = limits[beyond & (beside > _GLITCH.chance) & (fast > np.log(_GLITCH.chance))]
    return float(glitches.min(initial=np.inf))


def _with_ends(x: Floats, glitches: NDArray[np.bool_], least: float, runs: Ints) -> NDArray[np.bool_]:
    """The glitches with first and last samples of runs that are as far from the next one.

    A motion may also start far away. Glitches are at ends no more often than elsewhere (Poisson).
    """
    from scipy.special import gammainc

    places = np.flatnonzero(np.isfinite(x) & ~glitches)
    begins = np.flatnonzero(np.diff(runs[places], prepend=-1))
    ends = np.append(begins[1:], len(places)) - 1
    begins, ends = begins[ends - begins > 2], ends[ends - begins > 2]
    far = [np.abs(x[places[begins]] - x[places[begins + 1]]) >= least,
           np.abs(x[places[ends]] - x[places[ends - 1]]) >= least]  # fmt: skip
    count = int(np.sum(far))
    expected = 2.0 * len(begins) * float(glitches.sum()) / len(places)
    if not count or not gammainc(count, expected) > _GLITCH.chance:
        return glitches
    wider = glitches.copy()
    wider[places[begins[far[0]]]] = wider[places[ends[far[1]]]] = True
    return wider


def _with_missing(trajectory: Trajectory, state: int, at: NDArray[np.bool_]) -> Trajectory:
    """The trajectory without a state at some samples; itself if there are none."""
    if not at.any():
        return trajectory
    x = trajectory.x.copy()
    x[at, state] = np.nan
    return replace(trajectory, x=x)


def _whole(values: Floats) -> bool:
    """Whether all values that were measured are whole numbers, as counts are."""
    return bool(np.all(values[np.isfinite(values)] % 1.0 == 0.0))


def _limits(data: Sequence[Trajectory]) -> Iterator[_Limit]:
    """The limits that states run into and stay at."""
    for j in range(data[0].dimension):
        columns = [trajectory.x[np.isfinite(trajectory.x[:, j]), j] for trajectory in data]
        values = np.concatenate(columns)
        levels, counts = np.unique(values, return_counts=True)
        if len(levels) < _PILE_OF.few_levels:
            continue
        # A motion runs into the limit of its sensor at about its mean speed.
        mean_step = float(np.mean(np.abs(np.concatenate([np.diff(column) for column in columns]))))
        # An unclipped motion has as many samples at its turning point as at the next five values.
        for side, place, inner in (("highest", -1, slice(-6, -1)), ("lowest", 0, slice(1, 6))):
            level = float(levels[place])
            if counts[place] < _PILE_OF.pile:
                continue
            stays = sum(_stays(column, level, _PILE_OF.entered * mean_step) for column in columns)
            if (
                stays >= max(_PILE_OF.pile, 0.005 * len(values))
                and stays > _PILE_OF.pile_ratio * counts[inner].mean()
            ):
                yield _Limit(j, side, level, stays, stays / len(values))


def _stays(x: Floats, level: float, least: float) -> int:
    """Samples at a level in runs that are entered and left by more than the least step.

    Rounded values reach any level by at least one rounding step, however slow the motion is; the least step
    is therefore larger than that.
    """
    places = np.flatnonzero(x == level)
    if len(places) == 0:
        return 0
    count, least = 0, max(least, _PILE_OF.steps * rounding_step(x))
    for run in np.split(places, np.flatnonzero(np.diff(places) > 1) + 1):
        first, last = int(run[0]), int(run[-1])
        # A record that begins or ends at the limit does not show how it got there.
        if first == 0 or last == len(x) - 1:
            continue
        if min(abs(x[first - 1] - level), abs(x[last + 1] - level)) > least:
            count += len(run)
    return count


@dataclass(frozen=True)
class _Rates:
    """When a column counts as the rate of another one that was computed and not measured."""

    half_width: int = 10
    """Samples on either side from which a rate may have been computed."""
    shares: float = 0.2
    """The ratio of the two sides below which a rate counts as computed. Measured rates have 0.87 and more
    with fourteen kinds of noise (data of the benchmark wrong_noise), rates of filmed springs 0.04 at most,
    and rates by differences or Savitzky-Golay filters 1e-6."""
    follows: float = 0.9
    """Correlation with the slope of the positions from which a state may be their rate."""
    clean: float = 1e-5
    """Noise of the positions, as a share of their spread, below which nothing can be decided."""
    even: float = 0.1
    """Deviation from even times, as a share of a step, up to which one filter may have made all rates. Times
    may be rounded."""


_RATES = _Rates()


def derived_rates(segments: Sequence[Trajectory]) -> list[Finding]:
    """A finding on rates that were computed from positions, if there are any (steps 1 to 3 above)."""
    segments = [segment for segment in segments if len(segment) > 4 * _RATES.half_width]
    segments = [segment for segment in segments if _is_even(segment.t)]
    if sum(map(len, segments)) < 10 * _RATES.half_width or segments[0].dimension < 2:
        return []
    states = segments[0].states
    noise = rough_noise(segments).noise
    values = np.concatenate([segment.x for segment in segments])
    slopes = np.concatenate([np.gradient(segment.x, segment.t, axis=0) for segment in segments])
    rates: dict[str, str] = {}
    # Without noise any smooth rate is a filter of its positions to all digits, whether it was measured or
    # not.
    for i in map(int, np.flatnonzero(noise > _RATES.clean * values.std(axis=0))):
        for j in range(len(states)):
            # Step 1 is cheap, so that steps 2 and 3 are left to the few pairs that pass it.
            follows = j != i and _correlation(slopes[:, i], values[:, j]) > _RATES.follows
            if follows and _ratio_to_noise(segments, i, j, float(noise[i])) < _RATES.shares:
                rates[states[j]] = states[i]
    if not rates:
        return []
    pairs = ", ".join(f'"{rate}" from "{position}"' for rate, position in rates.items())
    message = (
        f"Rates were computed from positions: {pairs}. They are not independent measurements: their "
        "noise comes from that of the positions. Leave them out, and look for x'' = F(x, x') with "
        "`formulation=Integral(order=2, rates=True)`."
    )
    return [Finding("derived-rates", message, {"rates": rates})]


def _is_even(t: Floats) -> bool:
    even = np.linspace(t[0], t[-1], len(t))
    return bool(np.abs(t - even).max() < _RATES.even * float(t[-1] - t[0]) / (len(t) - 1))


def _correlation(a: Floats, b: Floats) -> float:
    a, b = a - a.mean(), b - b.mean()
    return float(a @ b / max(float(np.sqrt((a @ a) * (b @ b))), 1e-300))


def _ratio_to_noise(segments: Sequence[Trajectory], i: int, j: int, noise: float) -> float:
    """Mean (v − Σ a_l x_l)² over σ_x² Σ a_l², for the rate v in state j and the positions x in state i."""
    width = 2 * _RATES.half_width + 1
    windows = np.concatenate([sliding_window_view(segment.x[:, i], width) for segment in segments])
    rate = np.concatenate(
        [segment.x[_RATES.half_width : len(segment) - _RATES.half_width, j] for segment in segments]
    )
    # Step 2. Positions are scaled so that the constant column is of the same size as the others.
    size = max(float(np.abs(windows).max()), 1e-300)
    columns = np.column_stack([windows / size, np.ones(len(windows))])
    weights = np.linalg.lstsq(columns, rate, rcond=1e-12)[0]
    residual = float(np.sum((rate - columns @ weights) ** 2)) / max(len(rate) - width - 1, 1)
    # Step 3. The weights are those of scaled positions, hence the division by the squared size.
    allowed = noise**2 * float(np.sum(weights[:-1] ** 2)) / size**2
    return residual / max(allowed, 1e-300)
