"""Clipped values: a sensor at the end of its range says that a state is beyond, and not where.

Such samples are no measurements. They are recognised by three signs together: many samples at exactly the
highest or lowest value, several times as many as at the values next to it, and runs of them that are entered
and left at the speed of the motion. A motion that turns round at its extreme is there once, or some twice as
often as at the next value where it is rounded; one that settles at a fixed point comes there slowly and does
not leave. What is recognised is taken as missing, so that the states there follow from the law and the other
channels.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import NamedTuple

import numpy as np

from cindy._arrays import Floats
from cindy.data.time_scales import rounding_step
from cindy.data.trajectory import Trajectory
from cindy.findings import Finding

__all__ = ["without_clipped"]


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
    findings, kept = [], list(data)
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
            kept = [_without(one, limit) for one in kept]
    return kept, findings


def _without(one: Trajectory, limit: _Limit) -> Trajectory:
    at = one.x[:, limit.state] == limit.level
    if not at.any():
        return one
    x = one.x.copy()
    x[at, limit.state] = np.nan
    return replace(one, x=x)


def _limits(data: Sequence[Trajectory]) -> Iterator[_Limit]:
    """The limits that states run into and stay at."""
    for j in range(data[0].dimension):
        columns = [one.x[np.isfinite(one.x[:, j]), j] for one in data]
        values = np.concatenate(columns)
        levels, counts = np.unique(values, return_counts=True)
        if len(levels) < _PILE_OF.few_levels:
            continue
        usual = float(np.mean(np.abs(np.concatenate([np.diff(one) for one in columns]))))
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
        if first == 0 or last == len(x) - 1:
            continue
        if min(abs(x[first - 1] - level), abs(x[last + 1] - level)) > least:
            count += len(run)
    return count
