"""Part of the data, where all of them would say no more."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from cindy.data.time_scales import periods, spread_over
from cindy.data.trajectory import Trajectory

__all__ = ["beginning", "excerpt"]

_PER_SWING = 40
"""Samples to a swing that thinning leaves: solutions are compared at them, and need no more."""


def excerpt(data: Sequence[Trajectory], most: int) -> list[Trajectory]:
    """About so many samples: trajectories spread evenly, of long ones the beginnings."""
    total = sum(len(one) for one in data)
    if total <= most:
        return list(data)
    kept = spread_over(data, max(1, round(len(data) * most / total)))
    each = max(200, most // len(kept))
    return [one.part(0, min(len(one), each)) for one in kept]


def beginning(one: Trajectory, most: int) -> Trajectory:
    """At most so many samples: every few as far as the motion allows, then cut."""
    if len(one) <= most:
        return one
    seen = min(len(one), 50 * most)
    turns = max([periods(part) for part in one.part(0, seen).segments()], default=1.0) or 1.0
    every = max(1, min(len(one) // most, int(seen / (_PER_SWING * turns))))
    rows = slice(0, every * most, every)
    return replace(one, t=one.t[rows], x=one.x[rows], u=None if one.u is None else one.u[rows])
