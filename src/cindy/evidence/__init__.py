"""Evidence of fields: the rows of the weak form, their noise, and tests of the data and of the residuals."""

from cindy.evidence.grid_operators import INEXACT
from cindy.evidence.leftover import Unexplained, unexplained
from cindy.evidence.modes import Modes, as_columns, modes_of, noise_covariance
from cindy.evidence.noise_in_terms import Whitened, calibrated, calibration
from cindy.evidence.screening import Fault, FaultKind, screened
from cindy.evidence.weak import WeakRows

__all__ = [
    "INEXACT",
    "Fault",
    "FaultKind",
    "Modes",
    "Unexplained",
    "WeakRows",
    "Whitened",
    "as_columns",
    "calibrated",
    "calibration",
    "modes_of",
    "noise_covariance",
    "screened",
    "unexplained",
]
