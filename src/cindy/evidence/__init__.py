"""Evidence of fields: the rows of the weak form, their noise, and tests of the data and of the residuals."""

from cindy.evidence.grid_operators import INEXACT as INEXACT
from cindy.evidence.leftover import Unexplained as Unexplained, unexplained as unexplained
from cindy.evidence.modes import (
    Modes as Modes,
    as_columns as as_columns,
    modes_of as modes_of,
    noise_covariance as noise_covariance,
)
from cindy.evidence.noise_in_terms import (
    Whitened as Whitened,
    calibrated as calibrated,
    calibration as calibration,
)
from cindy.evidence.screening import Fault as Fault, FaultKind as FaultKind, screened as screened
from cindy.evidence.weak import WeakRows as WeakRows
