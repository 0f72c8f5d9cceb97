"""Formulations: how a trajectory and a basis become rows of a least-squares problem."""

from cindy.formulation.base import (
    Differential as Differential,
    Discrete as Discrete,
    Formulation as Formulation,
    Weak as Weak,
    formulation_from_dict as formulation_from_dict,
)
from cindy.formulation.integral import Integral as Integral
from cindy.formulation.scales import feedback_of_model as feedback_of_model
