"""Measurements and how they are read."""

from cindy.data.field import Field, as_fields
from cindy.data.files import NETCDF
from cindy.data.grid_statistics import corner, grid_noise, shared_by_neighbours
from cindy.data.inputs import HOLDS, Held, Hold, with_turns
from cindy.data.instrument_faults import without_clipped
from cindy.data.plausibility import lack_of_fit, oddities
from cindy.data.readers import Lazy, Part, glimpse, loaded, read
from cindy.data.source import Source, as_source, as_trajectories, is_fields
from cindy.data.time_scales import (
    LOOK,
    LOOK_SAMPLES,
    Roughness,
    beginning,
    each_alone,
    excerpt,
    half_period,
    looked_at,
    noise_level,
    noise_variance,
    pauses,
    periods,
    rough_noise,
    rounding_step,
    some_segments,
    spread_over,
)
from cindy.data.trajectory import Trajectory, same_variables

__all__ = [
    "HOLDS",
    "LOOK",
    "LOOK_SAMPLES",
    "NETCDF",
    "Field",
    "Held",
    "Hold",
    "Lazy",
    "Part",
    "Roughness",
    "Source",
    "Trajectory",
    "as_fields",
    "as_source",
    "as_trajectories",
    "beginning",
    "corner",
    "each_alone",
    "excerpt",
    "glimpse",
    "grid_noise",
    "half_period",
    "is_fields",
    "lack_of_fit",
    "loaded",
    "looked_at",
    "noise_level",
    "noise_variance",
    "oddities",
    "pauses",
    "periods",
    "read",
    "rough_noise",
    "rounding_step",
    "same_variables",
    "shared_by_neighbours",
    "some_segments",
    "spread_over",
    "with_turns",
    "without_clipped",
]
