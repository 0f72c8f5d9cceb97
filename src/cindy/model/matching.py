"""Data as a model needs them: time and run as inputs, measurements inside the domain of its terms."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace

import numpy as np
from numpy.typing import NDArray

from cindy._arrays import Floats
from cindy.basis import TIME, Basis, is_run, term_parameters
from cindy.data import Trajectory
from cindy.errors import DataError
from cindy.model.equations import Equations

__all__ = [
    "between",
    "inside_domain",
    "outside_domain",
    "run_names",
    "unmeasured",
    "with_inputs",
]


def unmeasured(name: str) -> bool:
    """Whether an input follows from the trajectory itself."""
    return name == TIME or is_run(name)


def run_names(data: Sequence[Trajectory]) -> tuple[str, ...]:
    """An input for every trajectory, called as it is where all have names, and by number otherwise."""
    names = [one.name for one in data]
    if not all(names) or len(set(names)) < len(names):
        names = [f"run {k}" for k in range(1, len(data) + 1)]
    return tuple(f"[{name}]" for name in names)


def with_inputs(data: Sequence[Trajectory], inputs: Sequence[str]) -> list[Trajectory]:
    """The trajectories with what is missing of `inputs`, as far as nobody measures it: the time and the runs.

    A trajectory belongs to the run that is called as it is, or else to the one in its place.
    """
    known = data[0].inputs
    missing = [name for name in inputs if name not in known and unmeasured(name)]
    if not missing:
        return list(data)
    runs = [name for name in inputs if is_run(name)]
    own = run_names(data)
    # A run that the model has no coefficients for cannot be predicted, and another's coefficients would be
    # wrong.
    if runs and not set(own) <= set(runs):
        shown = ", ".join(sorted(set(own) - set(runs))[:3])
        raise DataError(
            f"The model has coefficients for {', '.join(runs[:6])}{', …' if len(runs) > 6 else ''}, "
            f"but not for {shown}. Give the trajectories the names of those runs."
        )
    return [_with(one, missing, run) for one, run in zip(data, own, strict=True)]


def _with(one: Trajectory, missing: Sequence[str], run: str) -> Trajectory:
    def column(name: str) -> Floats:
        return np.asarray(one.t) if name == TIME else np.full(len(one), float(name == run))

    known = [] if one.u is None else [one.u]
    u = np.column_stack([*known, *(column(name) for name in missing)])
    return replace(one, u=u, inputs=(*one.inputs, *missing))


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
    # Noise can push a concentration below zero, where √x has no value; few such samples are noise, many a
    # wrong range of a parameter.
    points = np.concatenate([one.values for one in data])
    outside = outside_domain(model.basis, model.variables, points)
    if not outside.any():
        return list(data), 0
    # Back to trajectory by trajectory.
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
    filled = np.array(x)
    for column in filled.T:
        known = ~outside & np.isfinite(column)
        if known.any():
            column[outside] = np.interp(t[outside], t[known], column[known])
    return filled
