"""States fitted to measurements under the equations of a model."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from cindy.data import Trajectory, as_trajectories
from cindy.errors import DataError
from cindy.states import states_under

if TYPE_CHECKING:
    from cindy.model.equations import Equations

__all__ = ["smooth"]


def smooth(model: Equations, trajectories: Any, noise: Any, model_error: Any) -> list[Trajectory]:
    """The trajectories with fitted states in place of measured ones; NaN where a stretch was too short.

    Where rates were fitted too, they are further states of these trajectories.
    """
    if model.formulation.for_fields:
        raise DataError("smooth: states are fitted along trajectories; values of fields are not fitted.")
    data = as_trajectories(trajectories)
    motion = model.formulation.motion(data, model.basis)
    if motion is None or not np.isfinite(noise).all() or not np.isfinite(model_error).all():
        raise DataError(
            "smooth: states are fitted under models that were identified with fitted states, "
            "and this one was not. Identify it with `passes=None`, in the integral form or as a map."
        )
    support = np.flatnonzero(model.coef)
    coef = model.coef.ravel()[support]
    variance = motion.variances(np.square(noise))
    error = motion.errors(0.0, variance)
    error[motion.sought] = np.square(model_error)
    fitted = states_under(motion, motion.law(motion.widened(support)), coef, variance, error)
    if not fitted.alive:
        raise DataError("smooth: the fitted states run away: these data do not follow the equations.")
    out = [np.full((len(one), motion.states), np.nan) for one in data]
    names = model.states + model.rates
    for record, x in zip(motion.records, fitted.x, strict=True):
        for number, offset, states in zip(record.source, record.offset, x, strict=True):
            kept = states[:: max(motion.parts, 1)]
            out[number][offset : offset + len(kept)] = kept
    return [
        Trajectory(one.t, x, names, u=one.u, inputs=one.inputs or None, name=one.name)
        for one, x in zip(data, out, strict=True)
    ]
