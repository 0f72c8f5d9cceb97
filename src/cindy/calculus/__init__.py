"""Derivatives, integrals and differences of samples, as banded weights."""

from cindy.calculus.local_polynomial import (
    Operator,
    central_differences,
    cumulative,
    derivative,
    derivative_weights,
    interval_weights,
    simpson_weights,
    trapezoid_weights,
    uniform_step,
)
from cindy.calculus.quadrature import (
    apply_alike,
    divided_differences,
    increments,
    nested,
    onto_samples,
    running_sums,
    whitened,
    whitened_differences,
    windowed,
    without_first,
    without_polynomials,
)

__all__ = [
    "Operator",
    "apply_alike",
    "central_differences",
    "cumulative",
    "derivative",
    "derivative_weights",
    "divided_differences",
    "increments",
    "interval_weights",
    "nested",
    "onto_samples",
    "running_sums",
    "simpson_weights",
    "trapezoid_weights",
    "uniform_step",
    "whitened",
    "whitened_differences",
    "windowed",
    "without_first",
    "without_polynomials",
]
