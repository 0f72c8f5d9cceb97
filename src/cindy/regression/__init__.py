"""Least squares on a support, with errors."""

from cindy.regression.constrained_fit import Refit, binding, refit
from cindy.regression.regression import Regression, independent
from cindy.regression.standard_errors import classical, design_effect, sandwich

__all__ = [
    "Refit",
    "Regression",
    "binding",
    "classical",
    "design_effect",
    "independent",
    "refit",
    "sandwich",
]
