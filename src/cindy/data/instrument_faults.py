"""Faults of instruments that the samples themselves give away: clipped values, and rates that were computed.

A sensor at the end of its range says that a state is beyond, and not where, so that clipped samples are no
measurements. They are recognised by three signs together: many samples at exactly the highest or lowest
value, several times as many as at the values next to it, and runs of them that are entered and left at the
speed of the motion. A motion that turns round at its extreme is there once, or some twice as often as at the
next value where it is rounded; one that settles at a fixed point comes there slowly and does not leave. What
is recognised is taken as missing, so that the states there follow from the law and the other channels.

A rate that a difference, a filter or a spline took out of positions is v_k = Σ_l a_l x_{k+l}: it holds no
measurement of its own, and its noise is a filtered copy of that of the positions. A measured rate also lies
close to such a sum, but never closer than the noise of the positions allows:

    mean (v − Σ a_l x_l)²  ≥  σ_x² Σ a_l²         for a rate measured by itself
    mean (v − Σ a_l x_l)²  ≈  0                   for one computed from the positions

so that the ratio of the two sides tells them apart without any model. Steps:

1. pairs of states of which one follows the slope of the other;
2. the weights a by least squares over all samples whose neighbours are there;
3. the ratio, with σ_x from the roughness of the positions.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import NamedTuple

import numpy as np
from numpy.lib.stride_tricks import sliding_window_view

from cindy._arrays import Floats
from cindy.data.time_scales import rough_noise, rounding_step
from cindy.data.trajectory import Trajectory
from cindy.findings import Finding


@dataclass(frozen=True)
class _Pile:
    """When values at the end of a range were clipped by the instrument."""

    # Chosen by `python -m benchmarks oddities`, between what good data show at most and faulty data at least.
    few_levels: int = 8
    """Values of a state: with fewer it switches, and its extremes are states of rest."""
    pile: int = 5
    pile_ratio: float = 4.0
    """Samples at an extreme value, and their number beside that of the five next values, from which a state
    counts as clipped. A turning point that was rounded has 2.4 times the samples of the next value."""
    entered: float = 0.1
    """Of the usual step: a state that comes to its extreme more slowly settles there."""
    steps: float = 1.5
    """Of the step in which values are reported, likewise: more than one of them."""
    most: float = 0.5
    """Of the samples: a state that is at its limit more often is told of and left as it is."""


_PILE_OF = _Pile()


class _Limit(NamedTuple):
    """The limit of a state (its place), which side it is on, and how many samples are there."""

    state: int
    side: str
    level: float
    samples: int
    share: float


def without_clipped(data: Sequence[Trajectory]) -> tuple[list[Trajectory], list[Finding]]:
    """The data with clipped values taken as missing, and what to say of them."""
    findings, cleaned = [], list(data)
    for limit in _limits(data):
        name = data[0].states[limit.state]
        removed = limit.share < _PILE_OF.most
        then = (
            "These samples are bounds and not measurements, and were taken as missing."
            if removed
            else "Most of its samples are bounds and not measurements."
        )
        message = (
            f'"{name}" has its {limit.side} value, {limit.level:.6g}, {limit.samples} times '
            f"({limit.share:.1%} of the samples), and runs into it: it seems clipped there. {then}"
        )
        values = {"state": name, "level": limit.level, "count": limit.samples, "share": limit.share}
        findings.append(Finding("clipped-data", message, values))
        if removed:
            cleaned = [_without(trajectory, limit) for trajectory in cleaned]
    return cleaned, findings


def _without(trajectory: Trajectory, limit: _Limit) -> Trajectory:
    at = trajectory.x[:, limit.state] == limit.level
    if not at.any():
        return trajectory
    x = trajectory.x.copy()
    x[at, limit.state] = np.nan
    return replace(trajectory, x=x)


def _limits(data: Sequence[Trajectory]) -> Iterator[_Limit]:
    """The limits that states run into and stay at."""
    for j in range(data[0].dimension):
        columns = [one.x[np.isfinite(one.x[:, j]), j] for one in data]
        values = np.concatenate(columns)
        levels, counts = np.unique(values, return_counts=True)
        if len(levels) < _PILE_OF.few_levels:
            continue
        # The usual step of the motion: a sensor runs into its limit at about that speed.
        usual = float(np.mean(np.abs(np.concatenate([np.diff(one) for one in columns]))))
        # The five values next to the extreme tell how many samples an unclipped motion has near its turning
        # points.
        for side, place, inner in (("highest", -1, slice(-6, -1)), ("lowest", 0, slice(1, 6))):
            level = float(levels[place])
            if counts[place] < _PILE_OF.pile:
                continue
            stays = sum(_stays(one, level, _PILE_OF.entered * usual) for one in columns)
            if (
                stays >= max(_PILE_OF.pile, 0.005 * len(values))
                and stays > _PILE_OF.pile_ratio * counts[inner].mean()
            ):
                yield _Limit(j, side, level, stays, stays / len(values))


def _stays(x: Floats, level: float, least: float) -> int:
    """Samples at a level in runs that are entered and left by more than the least step.

    Values that are reported in steps come to any level by one of them, however slow the motion is.
    """
    at = np.flatnonzero(x == level)
    if len(at) == 0:
        return 0
    count, least = 0, max(least, _PILE_OF.steps * rounding_step(x))
    for run in np.split(at, np.flatnonzero(np.diff(at) > 1) + 1):
        first, last = int(run[0]), int(run[-1])
        # A record that begins or ends at the limit does not show how it came there.
        if first == 0 or last == len(x) - 1:
            continue
        if min(abs(x[first - 1] - level), abs(x[last + 1] - level)) > least:
            count += len(run)
    return count


@dataclass(frozen=True)
class _Rates:
    """When a column is the rate of another one, computed and not measured."""

    half_width: int = 10
    """Samples on either side that a rate may be computed from."""
    shares: float = 0.2
    """Of what the noise of the positions allows: a rate that lies closer was computed from them. Rates
    measured by themselves have 0.87 and more in fourteen kinds of noise (data of the benchmark wrong_noise),
    those of filmed springs 0.04 at most, those of differences and of Savitzky-Golay filters 1e-6."""
    follows: float = 0.9
    """Correlation with the slope of the positions from which a state may be their rate."""
    clean: float = 1e-5
    """Of the spread: noise below which there is none to share."""
    even: float = 0.1
    """Of a step: samples that are less even were not filtered with one set of weights. Times may be
    rounded."""


_RATES = _Rates()


def derived_rates(segments: Sequence[Trajectory]) -> list[Finding]:
    """A finding on rates that hold no measurement of their own, and what to do."""
    enough = [segment for segment in segments if len(segment) > 4 * _RATES.half_width and _is_even(segment.t)]
    if sum(map(len, enough)) < 10 * _RATES.half_width or enough[0].dimension < 2:
        return []
    states = enough[0].states
    noise = rough_noise(enough).noise
    spread = np.concatenate([segment.x for segment in enough]).std(axis=0)
    slopes = np.concatenate([np.gradient(segment.x, segment.t, axis=0) for segment in enough])
    values = np.concatenate([segment.x for segment in enough])
    rates: dict[str, str] = {}
    # Without noise any smooth rate is a filter of its positions to all digits, be it measured or not.
    for i in map(int, np.flatnonzero(noise > _RATES.clean * spread)):
        for j in range(len(states)):
            follows = j != i and _correlation(slopes[:, i], values[:, j]) > _RATES.follows
            if follows and _beyond_noise(enough, i, j, float(noise[i])) < _RATES.shares:
                rates[states[j]] = states[i]
    if not rates:
        return []
    named = ", ".join(f'"{rate}" from "{position}"' for rate, position in rates.items())
    message = (
        f"Rates were computed from positions: {named}. They are not independent measurements: their "
        "noise comes from that of the positions. Leave them out, and look for x'' = F(x, x') with "
        "formulation=Integral(order=2, rates=True)."
    )
    return [Finding("derived-rates", message, {"rates": rates})]


def _is_even(t: Floats) -> bool:
    even = np.linspace(t[0], t[-1], len(t))
    return bool(np.abs(t - even).max() < _RATES.even * float(t[-1] - t[0]) / (len(t) - 1))


def _correlation(a: Floats, b: Floats) -> float:
    a, b = a - a.mean(), b - b.mean()
    return float(a @ b / max(float(np.sqrt((a @ a) * (b @ b))), 1e-300))


def _beyond_noise(segments: Sequence[Trajectory], i: int, j: int, noise: float) -> float:
    """What weights of neighbouring samples of state i leave of state j, over what their noise allows."""
    width = 2 * _RATES.half_width + 1
    # A linear filter of unknown weights, by least squares on all windows.
    near = np.concatenate([sliding_window_view(segment.x[:, i], width) for segment in segments])
    rate = np.concatenate(
        [segment.x[_RATES.half_width : len(segment) - _RATES.half_width, j] for segment in segments]
    )
    # In units of the positions, so that the constant column is of the same size as the others.
    size = max(float(np.abs(near).max()), 1e-300)
    columns = np.column_stack([near / size, np.ones(len(near))])
    weights = np.linalg.lstsq(columns, rate, rcond=1e-12)[0]
    left = float(np.sum((rate - columns @ weights) ** 2)) / max(len(rate) - width - 1, 1)
    allowed = noise**2 * float(np.sum(weights[:-1] ** 2)) / size**2
    return left / max(allowed, 1e-300)
