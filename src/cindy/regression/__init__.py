"""Least squares on a support, with errors."""

from cindy.regression.constrained_fit import Refit, binding, classical, design_effect, refit, sandwich
from cindy.regression.regression import Regression, independent

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
