"""A summary, known physics and a radius: the scaled problem that the solver gets."""

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
