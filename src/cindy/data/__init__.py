"""Measurements and how they are read."""

from cindy.data.field import Field as Field, as_fields as as_fields
from cindy.data.files import NETCDF as NETCDF
from cindy.data.grid_statistics import (
    corner as corner,
    grid_noise as grid_noise,
    shared_by_neighbours as shared_by_neighbours,
)
from cindy.data.inputs import HOLDS as HOLDS, Held as Held, Hold as Hold, with_turns as with_turns
from cindy.data.instrument_faults import (
    without_faults as without_faults,
    without_glitches as without_glitches,
)
from cindy.data.plausibility import (
    lack_of_fit as lack_of_fit,
    long_in_seconds as long_in_seconds,
    oddities as oddities,
)
from cindy.data.readers import Lazy as Lazy, Part as Part, glimpse as glimpse, loaded as loaded, read as read
from cindy.data.source import (
    Source as Source,
    as_source as as_source,
    as_trajectories as as_trajectories,
    is_fields as is_fields,
)
from cindy.data.time_scales import (
    LOOK as LOOK,
    LOOK_SAMPLES as LOOK_SAMPLES,
    Roughness as Roughness,
    beginning as beginning,
    each_alone as each_alone,
    excerpt as excerpt,
    half_period as half_period,
    looked_at as looked_at,
    noise_level as noise_level,
    noise_variance as noise_variance,
    pauses as pauses,
    periods as periods,
    rough_noise as rough_noise,
    rounding_step as rounding_step,
    some_segments as some_segments,
    spread_over as spread_over,
)
from cindy.data.trajectory import Trajectory as Trajectory, same_variables as same_variables
