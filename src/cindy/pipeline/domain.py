"""Domain: measurements that noise has carried to where terms with parameters are not defined.

x^n has no value where noise makes a small concentration negative. The state itself was positive, and once it
is fitted all is well; only a look at the measured states needs another place for it.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace

import numpy as np
from numpy.typing import NDArray

from cindy._types import Floats
from cindy.basis import Basis, term_parameters
from cindy.data import Trajectory
from cindy.states import Motion

__all__ = ["data_inside", "motion_inside"]

Mask = NDArray[np.bool_]

_FEW = 0.05
"""Share of the samples that noise may be blamed for. Where more are outside, the range of a parameter is."""
_VALUES = 5
"""Values of an unknown parameter at which its terms are looked at, from end to end."""


def motion_inside(motion: Motion) -> Motion:
    """The same with the few measurements at which terms are undefined moved in between their neighbours:
    where states may begin."""
    parts = [np.concatenate([r.y, r.u], axis=2) for r in motion.records]
    flat = np.concatenate([part.reshape(-1, part.shape[2]) for part in parts])
    outside = _outside(motion.basis, motion.variables, flat)
    if not outside.any():
        return motion
    records, first = [], 0
    for record in motion.records:
        here = outside[first : first + record.y[..., 0].size].reshape(record.y.shape[:2])
        first += here.size
        moved = [_between(record.grid.t, x, mask) for x, mask in zip(record.y, here, strict=True)]
        records.append(replace(record, y=np.stack(moved)))
    return replace(motion, records=tuple(records))


def data_inside(data: Sequence[Trajectory], basis: Basis) -> tuple[list[Trajectory], int]:
    """The same of trajectories, and how many samples were moved."""
    points = np.concatenate([one.values for one in data])
    outside = _outside(basis, data[0].variables, points)
    if not outside.any():
        return list(data), 0
    masks = np.split(outside, np.cumsum([len(one) for one in data])[:-1])
    moved = [replace(one, x=_between(one.t, one.x, mask)) for one, mask in zip(data, masks, strict=True)]
    return moved, int(outside.sum())


def _outside(basis: Basis, variables: tuple[str, ...], points: Floats) -> Mask:
    """(n,) where a term with parameters has no value although everything was measured."""
    columns = dict(zip(variables, points.T, strict=True))
    every = np.zeros(len(points), dtype=bool)
    measured = np.isfinite(points).all(axis=1)
    for placed in _placed(basis):
        here = np.zeros(len(points), dtype=bool)
        with np.errstate(all="ignore"):
            for term in placed.terms(variables):
                for factor in term if term_parameters(term) else ():
                    if factor.expression is not None:
                        here |= measured & ~np.isfinite(factor.expression.evaluate(columns))
        if here.mean() <= _FEW:
            every |= here
    return every


def _placed(basis: Basis) -> Iterator[Basis]:
    """The basis as it is, or with each unknown parameter at a few values, the others in mid-range."""
    unknown = basis.unknowns()
    middle = {one.name: one.middle for one in unknown}
    if not unknown:
        yield basis
    for one in unknown:
        for value in one.grid(_VALUES):
            yield basis.at({**middle, one.name: float(value)})


def _between(t: Floats, x: Floats, outside: Mask) -> Floats:
    """(samples, states): straight lines through the measurements around."""
    made = np.array(x)
    for column in made.T:
        known = ~outside & np.isfinite(column)
        if known.any():
            column[outside] = np.interp(t[outside], t[known], column[known])
    return made
