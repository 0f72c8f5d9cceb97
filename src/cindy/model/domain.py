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
from cindy.model.equations import Equations

__all__ = ["between", "inside_domain", "outside_domain"]

Mask = NDArray[np.bool_]

_FEW = 0.05
"""Share of the samples that noise may be blamed for. Where more are outside, the range of a parameter is."""
_VALUES = 5
"""Values of an unknown parameter at which its terms are looked at, from end to end."""


def inside_domain(model: Equations, data: Sequence[Trajectory]) -> tuple[list[Trajectory], int]:
    """The data with the few samples at which terms are undefined moved in between their neighbours in time,
    and how many these are."""
    if not model.basis.parameter_names() or model.rates:
        return list(data), 0
    points = np.concatenate([one.values for one in data])
    outside = outside_domain(model.basis, model.variables, points)
    if not outside.any():
        return list(data), 0
    masks = np.split(outside, np.cumsum([len(one) for one in data])[:-1])
    moved = [replace(one, x=between(one.t, one.x, mask)) for one, mask in zip(data, masks, strict=True)]
    return moved, int(outside.sum())


def outside_domain(basis: Basis, variables: tuple[str, ...], points: Floats) -> Mask:
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


def between(t: Floats, x: Floats, outside: Mask) -> Floats:
    """(samples, states): straight lines through the measurements around."""
    made = np.array(x)
    for column in made.T:
        known = ~outside & np.isfinite(column)
        if known.any():
            column[outside] = np.interp(t[outside], t[known], column[known])
    return made
