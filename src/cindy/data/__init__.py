"""Measurements and how they are read."""

from cindy.data.readers import as_trajectories, read
from cindy.data.time_scales import LOOK, LOOK_SAMPLES, noise_level, periods, some_segments
from cindy.data.trajectory import Trajectory, as_trajectory, same_variables

__all__ = [
    "LOOK",
    "LOOK_SAMPLES",
    "Trajectory",
    "as_trajectories",
    "as_trajectory",
    "noise_level",
    "periods",
    "read",
    "same_variables",
    "some_segments",
]
