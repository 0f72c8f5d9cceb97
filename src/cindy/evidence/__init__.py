"""Evidence: what data say about candidate terms, as rows with known noise."""

from cindy.evidence.grid_operators import INEXACT
from cindy.evidence.leftover import Unexplained, unexplained
from cindy.evidence.modes import Modes, modes_of, noise_covariance
from cindy.evidence.noise_in_terms import Whitened, calibrated, calibration
from cindy.evidence.screening import Fault, Screened, screened
from cindy.evidence.weak import FieldRows, Gathered, WeakRows

__all__ = [
    "INEXACT",
    "Fault",
    "FieldRows",
    "Gathered",
    "Modes",
    "Screened",
    "Unexplained",
    "WeakRows",
    "Whitened",
    "calibrated",
    "calibration",
    "modes_of",
    "noise_covariance",
    "screened",
    "unexplained",
]
