"""From trajectories to records: stretches on common grids, with first values where nothing was measured."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import pairwise

import numpy as np
from numpy.typing import NDArray

from cindy._arrays import Floats
from cindy.data import Held, Trajectory, looked_at, pauses
from cindy.states.grid import Grid
from cindy.states.record import MISSING, Record
from cindy.states.smoothing import roughness, smoothed

__all__ = ["instants_for", "records_of"]


@dataclass(frozen=True)
class _Instants:
    """How many instants a trajectory gets, and when it is cut."""

    longest: int = 2000
    """Samples in a stretch: longer trajectories are cut, which bounds the memory and costs one row a cut."""
    at_once: int = 30_000
    """Values, samples times states, in a record."""
    look: int = 8
    """Trajectories that are looked at for it; a median needs no more."""
    coarse: float = 0.6
    fine: float = 0.2
    """Bending from sample to sample beyond which instants are put between them, and what they aim for.

    True motions of the 70 chaotic systems at 100 samples a period bend by 0.05 to 0.5 and need none."""
    band: int = 3
    """Parts of a step where inputs are band-limited: six instants for the shortest period. Not varied yet."""
    most_parts: int = 8
    """Beyond, what happens between two samples is guessed and not measured."""
    longest_hole: int = 12
    """Instants in a row without any measurement beyond which a trajectory is split, and steps of the usual
    length that a pause is long; a hole is one whether or not its empty rows were written down."""


_INSTANTS = _Instants()


def records_of(
    trajectories: Sequence[Trajectory],
    grid_of: Callable[[Floats], Grid],
    *,
    least: int,
    instants: int = 1,
    rates: bool = False,
) -> tuple[Record, ...]:
    """Stretches of at least `least` samples, those that share a grid in one record.

    instants: into how many parts every step is divided, by instants at which nothing is measured
    rates: whether the rates of the states are states too, which nobody measured
    """
    groups: dict[int, tuple[Grid, list[tuple[Floats, Floats, Floats, int, int]]]] = {}
    for number, one in enumerate(trajectories):
        for start, stop in _spans(one, least):
            t = one.t[start:stop]
            filled = _filled(one, start, stop)
            filled = _with_rates(t, filled) if rates else filled
            if instants > 1:
                t, filled = _divided(one, t, filled, instants)
            grid = grid_of(t)
            _, members = groups.setdefault(id(grid), (grid, []))
            members.append((*filled, number, start))
    records = []
    for grid, members in groups.values():
        size = max(_INSTANTS.at_once // (grid.samples * members[0][0].shape[1]), 1)
        for a in range(0, len(members), size):
            y, spread, u, source, offset = zip(*members[a : a + size], strict=True)
            records.append(
                Record(
                    grid,
                    np.stack(y),
                    np.stack(spread),
                    np.stack(u),
                    np.array(source),
                    np.array(offset),
                    _held(trajectories[0]),
                )
            )
    return tuple(records)


def _held(one: Trajectory) -> NDArray[np.bool_] | None:
    """Which inputs keep each value until the next sample: all that the user held, but not the time."""
    held = np.array([name != "t" for name in one.inputs], dtype=bool)
    return held if one.hold == "zero" and held.any() else None


def _spans(one: Trajectory, least: int) -> list[tuple[int, int]]:
    """(start, stop) of stretches without long holes, none longer than allowed."""
    empty = np.isnan(one.x).all(axis=1)
    if one.u is not None:
        empty |= np.isnan(one.u).any(axis=1)
    seen = np.flatnonzero(~empty)
    if not len(seen):
        return []
    cuts = (
        np.union1d(
            np.flatnonzero(np.diff(seen) > _INSTANTS.longest_hole),
            pauses(one.t[seen], one.x[np.ix_(seen, ~np.isnan(one.x).all(axis=0))], _INSTANTS.longest_hole),
        )
        + 1
    )
    spans = []
    for run in np.split(seen, cuts):
        first, last = int(run[0]), int(run[-1]) + 1
        count = max(-(-(last - first) // _INSTANTS.longest), 1)
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


def _with_rates(t: Floats, filled: tuple[Floats, Floats, Floats]) -> tuple[Floats, Floats, Floats]:
    """The same with the slopes of smoothed states as further states, none of them measured."""
    from scipy.interpolate import CubicSpline

    y, spread, u = filled
    slopes = CubicSpline(t, smoothed(t, y).values)(t, 1)
    return np.hstack([y, slopes]), np.hstack([spread, np.full_like(spread, MISSING)]), u


def _divided(
    one: Trajectory, t: Floats, filled: tuple[Floats, Floats, Floats], parts: int
) -> tuple[Floats, tuple[Floats, Floats, Floats]]:
    """The same with instants between the samples: states on a spline, inputs as they are held."""
    from scipy.interpolate import CubicSpline

    y, spread, u = filled
    number = np.arange(len(t), dtype=np.float64)
    at = np.arange(parts * (len(t) - 1) + 1) / parts
    times = np.interp(at, number, t)
    values = CubicSpline(t, smoothed(t, y).values)(times)
    values[::parts] = y
    unseen = np.full_like(values, MISSING)
    unseen[::parts] = spread
    known = values[:, :0] if one.u is None else Held(one.t, one.u, one.hold).at(times)
    if u.shape[1] and (one.u is None or not np.isfinite(one.u).all()):
        known = Held(t, u, one.hold).at(times)
    return times, (values, unseen, known)


def instants_for(trajectories: Sequence[Trajectory]) -> int:
    """Into how many parts steps must be divided for integrals to be right, by how the samples bend."""
    groups = [[one for one in group if len(one) > 3][: _INSTANTS.look] for group in looked_at(trajectories)]
    bent = [_bending(looks, trajectories if len(groups) > 1 else looks) for looks in groups]
    worst = max(bent, default=0.0)
    if any(one.hold == "band" and one.inputs for looks in groups for one in looks):
        # Up to half the sampling rate an input turns within two samples: polynomials need more of them.
        return max(
            _INSTANTS.band,
            1
            if worst <= _INSTANTS.coarse
            else min(int(np.ceil(worst / _INSTANTS.fine)), _INSTANTS.most_parts),
        )
    return 1 if worst <= _INSTANTS.coarse else min(int(np.ceil(worst / _INSTANTS.fine)), _INSTANTS.most_parts)


def _bending(looks: Sequence[Trajectory], grid: Sequence[Trajectory]) -> float:
    """The median of how much trajectories bend from instant to instant of a grid that may be finer."""
    rough = [roughness(s.t, s.x) for one in looks for s in one.segments()[:1]]
    if not rough:
        return 0.0
    own, all_instants = (
        np.median(np.concatenate([np.diff(one.t) for one in some])) for some in (looks, grid)
    )
    return float(np.median(rough) * min(all_instants / own, 1.0) if grid is not looks else np.median(rough))
