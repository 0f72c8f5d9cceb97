"""From trajectories to records: stretches on common grids, with first values where nothing was measured."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from itertools import pairwise

import numpy as np

from cindy._types import Floats
from cindy.data import Trajectory
from cindy.states.grid import Grid
from cindy.states.record import MISSING, Record

__all__ = ["records_of"]


_LONGEST = 2000
"""Samples in a stretch: longer trajectories are cut, which bounds the memory and costs one row a cut."""
_AT_ONCE = 10_000
"""Samples in a record."""
_LONGEST_HOLE = 12
"""Instants in a row without any measurement beyond which a trajectory is split."""


def records_of(
    trajectories: Sequence[Trajectory],
    grid_of: Callable[[Floats], Grid],
    *,
    least: int,
    longest: int = _LONGEST,
) -> tuple[Record, ...]:
    """Stretches of at least `least` samples, those that share a grid in one record."""
    groups: dict[int, tuple[Grid, list[tuple[Floats, Floats, Floats, int, int]]]] = {}
    for number, one in enumerate(trajectories):
        for start, stop in _spans(one, least, longest):
            grid = grid_of(one.t[start:stop])
            _, members = groups.setdefault(id(grid), (grid, []))
            members.append((*_filled(one, start, stop), number, start))
    records = []
    for grid, members in groups.values():
        size = max(_AT_ONCE // grid.samples, 1)
        for a in range(0, len(members), size):
            y, spread, u, source, offset = zip(*members[a : a + size], strict=True)
            records.append(
                Record(grid, np.stack(y), np.stack(spread), np.stack(u), np.array(source), np.array(offset))
            )
    return tuple(records)


def _spans(one: Trajectory, least: int, longest: int) -> list[tuple[int, int]]:
    """(start, stop) of stretches without long holes, none longer than allowed."""
    empty = np.isnan(one.x).all(axis=1)
    if one.u is not None:
        empty |= np.isnan(one.u).any(axis=1)
    seen = np.flatnonzero(~empty)
    if not len(seen):
        return []
    cuts = np.flatnonzero(np.diff(seen) > _LONGEST_HOLE) + 1
    spans = []
    for run in np.split(seen, cuts):
        first, last = int(run[0]), int(run[-1]) + 1
        count = max(-(-(last - first) // longest), 1)
        edges = np.linspace(first, last, count + 1).astype(int)
        spans += [(int(a), int(b)) for a, b in pairwise(edges) if b - a >= least]
    return spans


def _filled(one: Trajectory, start: int, stop: int) -> tuple[Floats, Floats, Floats]:
    """Values, variances in units of the noise, and inputs of a stretch."""
    t, y = one.t[start:stop], np.array(one.x[start:stop])
    u = np.zeros((len(t), 0)) if one.u is None else np.array(one.u[start:stop])
    missing = np.isnan(y)
    spread = np.where(missing, MISSING, 1.0) / one.weight
    for column in [*y.T, *u.T]:
        hole = np.isnan(column)
        if hole.any():
            column[hole] = np.interp(t[hole], t[~hole], column[~hole]) if not hole.all() else 0.0
    return y, spread, u
