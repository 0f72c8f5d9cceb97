"""What is accepted as a trajectory."""

from __future__ import annotations

from typing import Any

from cindy._arrays import is_foreign, to_numpy
from cindy.data.device_trajectory import DeviceTrajectory
from cindy.data.trajectory import Trajectory, is_pair
from cindy.errors import DataError

__all__ = ["as_trajectory"]


def as_trajectory(item: Any) -> Trajectory:
    """A trajectory from a trajectory or from a pair (t, x), which may be on a device."""
    if isinstance(item, Trajectory):
        return item
    if is_pair(item):
        if all(map(is_foreign, item)):
            return DeviceTrajectory(item[0], item[1])
        return Trajectory(*(to_numpy(one) if is_foreign(one) else one for one in item))
    raise DataError(
        f"Expected a Trajectory or a pair (t, x), but got {type(item).__name__}. "
        "Wrap the data in cindy.Trajectory(t, x, states=…)."
    )
