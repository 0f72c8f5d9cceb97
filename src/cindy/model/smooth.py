"""States fitted to measurements under the equations of a model."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from cindy._types import Floats
from cindy.data import Trajectory, as_trajectories
from cindy.errors import DataError
from cindy.states import states_under

if TYPE_CHECKING:
    from cindy.model.equations import Equations

__all__ = ["fitted_states", "smooth"]


def smooth(model: Equations, trajectories: Any) -> list[Trajectory]:
    """The trajectories with fitted states in place of measured ones; NaN where a stretch was too short.

    Where rates were fitted too, they are further states of these trajectories.
    """
    if model.formulation.for_fields:
        raise DataError("smooth: states are fitted along trajectories; values of fields are not fitted.")
    data = as_trajectories(trajectories)
    found = fitted_states(model, data)
    if found is None and np.isfinite([*model.noise, *model.model_error]).all():
        raise DataError("smooth: the fitted states run away: these data do not follow the equations.")
    if found is None:
        raise DataError(
            "smooth: states are fitted under models that were identified with fitted states, "
            "and this one was not. Identify it with `passes=None`, in the integral form or as a map."
        )
    names = model.states + model.rates
    return [
        Trajectory(one.t, x, names, u=one.u, inputs=one.inputs or None, name=one.name)
        for one, x in zip(data, found, strict=True)
    ]


def fitted_states(model: Equations, data: Sequence[Trajectory]) -> list[Floats] | None:
    """(samples, states and rates) for each trajectory, NaN where a stretch was too short.

    None where noise and model error are not known, and where what is fitted runs away.
    """
    motion = model.formulation.motion(data, model.basis)
    if motion is None or not np.isfinite([*model.noise, *model.model_error]).all():
        return None
    support = np.flatnonzero(model.coef)
    coef = model.coef.ravel()[support]
    variance = motion.variances(np.square(model.noise))
    error = motion.errors(0.0, variance)
    error[motion.sought] = np.square(model.model_error)
    fitted = states_under(motion, motion.law(motion.widened(support)), coef, variance, error)
    if not fitted.alive:
        return None
    out = [np.full((len(one), motion.states), np.nan) for one in data]
    for record, x in zip(motion.records, fitted.x, strict=True):
        for number, offset, states in zip(record.source, record.offset, x, strict=True):
            kept = states[:: max(motion.parts, 1)]
            out[number][offset : offset + len(kept)] = kept
    return out
