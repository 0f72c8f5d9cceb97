"""A summary of the data, known physics as constraints, and a radius: the scaled problem for the solver."""

from cindy.problem.constraint import (
    Conservation as Conservation,
    Constraint as Constraint,
    Names as Names,
    Row as Row,
    at_samples as at_samples,
    bound as bound,
    conserve as conserve,
    exchange as exchange,
    fix as fix,
    linear as linear,
    preserve_energy as preserve_energy,
    tie as tie,
)
from cindy.problem.problem import (
    Adaptive as Adaptive,
    Physics as Physics,
    Problem as Problem,
    StandardForm as StandardForm,
    Uniform as Uniform,
    Weights as Weights,
)
