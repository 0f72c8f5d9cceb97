"""What is accepted as a trajectory."""

from __future__ import annotations

from collections.abc import Mapping
from os import PathLike
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
        f"Expected a Trajectory or a pair (t, x), but got {type(item).__name__}. " + _what_to_do(item)
    )


def _what_to_do(item: Any) -> str:
    if isinstance(item, (str, PathLike)):
        return f"If it names a file, read that first: cindy.read({str(item)!r})."
    if hasattr(item, "to_dataset"):
        return 'Turn it into a Dataset first: .to_dataset(dim="…") with the axis that lists the states.'
    if hasattr(item, "to_frame") and hasattr(item, "index"):
        return "Turn the Series into a DataFrame first, with .to_frame()."
    if isinstance(item, Mapping):
        return "Turn it into a DataFrame first, or pass (d[time], d[states])."
    if getattr(item, "ndim", 0) in (1, 2):
        return "The times are missing: pass the pair (t, x), x with one row per time."
    return "Wrap the data in cindy.Trajectory(t, x, states=…)."
