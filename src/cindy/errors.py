"""What can go wrong, by name.

A user's mistake is a `CindyError`, which is also a `ValueError`, so code that
knows nothing of this library still catches it.
"""

__all__ = [
    "CindyError",
    "ConstraintError",
    "ConvergenceWarning",
    "DataError",
    "InfeasibleError",
    "MissingExtraError",
    "NoModelError",
    "SolverError",
    "WorkerError",
]


class CindyError(ValueError):
    """Every error that this library raises on purpose."""


class DataError(CindyError):
    """Numbers, names, shapes or files that cannot be used as they are."""


class NoModelError(DataError):
    """Data in which nothing that was offered is a law."""


class ConstraintError(CindyError):
    """A constraint that names what does not exist, or contradicts another."""


class InfeasibleError(ConstraintError):
    """No coefficients satisfy the constraints within the radius."""


class SolverError(CindyError):
    """A linear or quadratic program that ended without an optimum."""


class WorkerError(CindyError):
    """Other processes or machines that ended before their work was done."""


class MissingExtraError(CindyError, ImportError):
    """A part of the library whose optional dependencies are not installed."""


class ConvergenceWarning(UserWarning):
    """A run that stopped before its gap fell below the tolerance."""
