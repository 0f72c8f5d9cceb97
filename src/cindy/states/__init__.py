"""States fitted to measurements under a model; noise and model error by likelihood."""

from cindy.states.diffusion import Diffusion, Kicks, estimate_kicks, kicked_everywhere, kicked_rates
from cindy.states.doubts import (
    Distortion,
    autoregression,
    distorted_rows,
    doubted,
    growing,
    leaves_noise,
    memory,
    sensor_memory,
    with_memory,
    without_outliers,
)
from cindy.states.first import (
    deviance_of_nothing,
    drift_of_data,
    drift_of_nothing,
    first_objective,
    start_of,
    start_of_nothing,
)
from cindy.states.fitting import (
    FEW_ROWS,
    LEVELS,
    NEARBY,
    Solve,
    along_walks,
    at_level,
    fit_states,
    states_under,
)
from cindy.states.grid import Grid, grid_of, map_grid
from cindy.states.likelihood import blurred_terms, deviance, quadrature_error, stiffness, with_unknown_sizes
from cindy.states.linearised import Forcing
from cindy.states.motion import Fitted, Motion, Whitened
from cindy.states.record import Record, averaged, instants_for, principal_motion, records_of, smoothed

__all__ = [
    "FEW_ROWS",
    "LEVELS",
    "NEARBY",
    "Diffusion",
    "Distortion",
    "Fitted",
    "Forcing",
    "Grid",
    "Kicks",
    "Motion",
    "Record",
    "Solve",
    "Whitened",
    "along_walks",
    "at_level",
    "autoregression",
    "averaged",
    "blurred_terms",
    "deviance",
    "deviance_of_nothing",
    "distorted_rows",
    "doubted",
    "drift_of_data",
    "drift_of_nothing",
    "estimate_kicks",
    "first_objective",
    "fit_states",
    "grid_of",
    "growing",
    "instants_for",
    "kicked_everywhere",
    "kicked_rates",
    "leaves_noise",
    "map_grid",
    "memory",
    "principal_motion",
    "quadrature_error",
    "records_of",
    "sensor_memory",
    "smoothed",
    "start_of",
    "start_of_nothing",
    "states_under",
    "stiffness",
    "with_memory",
    "with_unknown_sizes",
    "without_outliers",
]
