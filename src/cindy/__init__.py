"""CINDy: sparse differential equations from measured time series."""

from cindy.errors import (
    CindyError,
    ConstraintError,
    ConvergenceWarning,
    DataError,
    InfeasibleError,
    SolverError,
)
from cindy.least_squares import LeastSquares

__all__ = [
    "CindyError",
    "ConstraintError",
    "ConvergenceWarning",
    "DataError",
    "InfeasibleError",
    "LeastSquares",
    "SolverError",
]

__version__ = "0.1.0"
