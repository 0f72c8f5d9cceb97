"""A summary, known physics and a radius: the scaled problem that the solver gets."""

from cindy.problem.ball_weights import Adaptive, Uniform, Weights
from cindy.problem.constraint import (
    Conservation,
    Constraint,
    Row,
    at_samples,
    bound,
    conserve,
    exchange,
    fix,
    linear,
    tie,
)
from cindy.problem.energy import preserve_energy
from cindy.problem.names import Names
from cindy.problem.problem import Problem
from cindy.problem.standard_form import StandardForm

__all__ = [
    "Adaptive",
    "Conservation",
    "Constraint",
    "Names",
    "Problem",
    "Row",
    "StandardForm",
    "Uniform",
    "Weights",
    "at_samples",
    "bound",
    "conserve",
    "exchange",
    "fix",
    "linear",
    "preserve_energy",
    "tie",
]
