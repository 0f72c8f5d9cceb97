"""Formulations: how a trajectory and a basis become rows of a least-squares problem."""

from cindy.formulation.base import Differential, Discrete, Formulation, Weak, formulation_from_dict
from cindy.formulation.integral import Integral
from cindy.formulation.scales import feedback_of_model

__all__ = [
    "Differential",
    "Discrete",
    "Formulation",
    "Integral",
    "Weak",
    "feedback_of_model",
    "formulation_from_dict",
]
