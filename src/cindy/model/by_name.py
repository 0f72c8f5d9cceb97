"""Values that come with names, put into the order of a model."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from cindy._check import did_you_mean
from cindy.data import Trajectory
from cindy.errors import DataError

__all__ = ["in_order", "reordered"]


def in_order(values: Any, names: Sequence[str], where: str) -> ArrayLike:
    """One value, or column, for each name, of a dict, a Series, a frame or a Trajectory; else as it came.

    Frames whose columns have no names, only numbers, are taken as arrays.
    """
    if isinstance(values, Trajectory):
        (one,) = reordered([values], tuple(names), (), where)
        return one.x
    keys = _keys(values)
    if not keys or not all(isinstance(key, str) for key in keys):
        return values  # type: ignore[no-any-return]
    for name in names:
        if name not in keys:
            raise DataError(f'{where} has no value for "{name}". {did_you_mean(name, keys)}')
    return np.stack([np.asarray(values[name]) for name in names], axis=-1)


def _keys(values: Any) -> list[Any]:
    if isinstance(values, Mapping):
        return list(values)
    if hasattr(values, "columns"):  # a frame
        return list(values.columns)
    return list(values.index) if hasattr(values, "to_frame") and hasattr(values, "index") else []


def reordered(
    data: list[Trajectory], states: tuple[str, ...], inputs: tuple[str, ...], where: str
) -> list[Trajectory]:
    """The trajectories with these states and inputs, in this order; what else they hold is left out."""
    found = []
    for one in data:
        if (one.states, one.inputs) != (states, inputs):
            lacks = [name for name in states + inputs if name not in one.variables]
            if lacks:
                raise DataError(
                    f"{where}: the model is about {', '.join(states + inputs)}, but the data hold "
                    f"{', '.join(one.variables)}. Give the trajectories the names of the model."
                )
            place = {name: k for k, name in enumerate(one.variables)}
            x, u = (one.values[:, [place[name] for name in names]] for names in (states, inputs))
            known = u if inputs else None
            one = Trajectory(
                one.t, x, states,
                u=known, inputs=inputs or None, stopped=one.stopped, name=one.name, weight=one.weight,
            )  # fmt: skip
        found.append(one)
    return found
