"""States denoised under a law, with the noise and the model error estimated by maximum likelihood."""

from cindy.states.diffusion import (
    Diffusion as Diffusion,
    Kicks as Kicks,
    estimate_kicks as estimate_kicks,
    with_unknown_sizes as with_unknown_sizes,
)
from cindy.states.doubts import (
    autoregression as autoregression,
    doubted as doubted,
    growing as growing,
    kicked_everywhere as kicked_everywhere,
    kicked_rates as kicked_rates,
    leaves_little as leaves_little,
    leaves_noise as leaves_noise,
    memory as memory,
    sensor_memory as sensor_memory,
    without_outliers as without_outliers,
)
from cindy.states.first import (
    deviance_of_nothing as deviance_of_nothing,
    drift_of_data as drift_of_data,
    drift_of_nothing as drift_of_nothing,
    first_objective as first_objective,
    start_of as start_of,
    start_of_nothing as start_of_nothing,
)
from cindy.states.fitting import (
    FEW_ROWS as FEW_ROWS,
    LEVELS as LEVELS,
    NEARBY as NEARBY,
    Solve as Solve,
    along_walks as along_walks,
    at_level as at_level,
    fit_states as fit_states,
    states_under as states_under,
)
from cindy.states.grid import Grid as Grid, grid_of as grid_of, map_grid as map_grid
from cindy.states.likelihood import (
    Distortion as Distortion,
    blurred_terms as blurred_terms,
    by_averages as by_averages,
    deviance as deviance,
    distorted_rows as distorted_rows,
    exact as exact,
    propagated as propagated,
    quadrature_error as quadrature_error,
    rows_beside as rows_beside,
    stiffness as stiffness,
)
from cindy.states.linearised import Forcing as Forcing
from cindy.states.motion import Fitted as Fitted, Motion as Motion, Whitened as Whitened
from cindy.states.record import (
    Record as Record,
    averaged as averaged,
    instants_for as instants_for,
    principal_motion as principal_motion,
    records_of as records_of,
    smoothed as smoothed,
)
