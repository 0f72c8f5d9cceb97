"""A summary of the data, known physics as constraints, and a radius: the scaled problem for the solver."""

from cindy.problem.constraint import (
    Conservation,
    Constraint,
    Names,
    Row,
    at_samples,
    bound,
    conserve,
    exchange,
    fix,
    linear,
    preserve_energy,
    tie,
)
from cindy.problem.problem import Adaptive, Problem, StandardForm, Uniform, Weights

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
