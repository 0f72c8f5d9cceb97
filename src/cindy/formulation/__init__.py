"""Formulations: how a trajectory and a basis become rows of a least-squares problem."""

from cindy.formulation.base import Formulation
from cindy.formulation.differential import Differential
from cindy.formulation.discrete import Discrete
from cindy.formulation.feedback import feedback_of_model
from cindy.formulation.fronts import INEXACT
from cindy.formulation.integral import Integral
from cindy.formulation.modes import Modes, modes_of
from cindy.formulation.propagation import noise_covariance
from cindy.formulation.registry import formulation_from_dict
from cindy.formulation.scales import half_period
from cindy.formulation.weak import Weak
from cindy.formulation.weak_rows import field_rows

__all__ = [
    "INEXACT",
    "Differential",
    "Discrete",
    "Formulation",
    "Integral",
    "Modes",
    "Weak",
    "feedback_of_model",
    "field_rows",
    "formulation_from_dict",
    "half_period",
    "modes_of",
    "noise_covariance",
]
