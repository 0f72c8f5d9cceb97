"""Inputs that nobody measures: the time itself, and which run a sample belongs to."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from cindy._types import Floats
from cindy.basis import is_run
from cindy.data import Trajectory, as_trajectories
from cindy.errors import DataError
from cindy.model.by_name import reordered
from cindy.model.equations import Equations

__all__ = ["TIME", "matched", "run_names", "unmeasured", "with_inputs"]

TIME = "t"


def unmeasured(name: str) -> bool:
    """Whether an input follows from the trajectory itself."""
    return name == TIME or is_run(name)


def matched(model: Equations, trajectories: Any, where: str) -> list[Trajectory]:
    """Whatever a user may hold, as trajectories with the variables of the model; or an error."""
    data = as_trajectories(trajectories)
    own = tuple(name for name in model.inputs if name in data[0].inputs or not unmeasured(name))
    data = with_inputs(reordered(data, model.states, own, where), model.inputs)
    return reordered(data, model.states, model.inputs, where)


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
