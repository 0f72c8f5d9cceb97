"""Dictionaries: which terms a right-hand side may be made of."""

from cindy.basis.base import RUN, Averaged, Basis, Functions, PerRun, Sum, is_run
from cindy.basis.code import Language, compile_rhs, factor_code, formula, statements
from cindy.basis.custom import Custom
from cindy.basis.expression import COMPARISONS, Expression
from cindy.basis.families import Derivatives, Fourier, Listed, Polynomial, Trigonometric
from cindy.basis.parameter import Parameter
from cindy.basis.plan import Plan, call
from cindy.basis.term import (
    GREEK,
    TIME,
    Factor,
    Term,
    axis_label,
    differentiate,
    differentiate_by_parameter,
    equation_label,
    listed,
    pretty,
    product,
    shortest,
    spatial,
    term_label,
    term_name,
    term_parameters,
    term_variables,
    variable_label,
)

__all__ = [
    "COMPARISONS",
    "GREEK",
    "RUN",
    "TIME",
    "Averaged",
    "Basis",
    "Custom",
    "Derivatives",
    "Expression",
    "Factor",
    "Fourier",
    "Functions",
    "Language",
    "Listed",
    "Parameter",
    "PerRun",
    "Plan",
    "Polynomial",
    "Sum",
    "Term",
    "Trigonometric",
    "axis_label",
    "call",
    "compile_rhs",
    "differentiate",
    "differentiate_by_parameter",
    "equation_label",
    "factor_code",
    "formula",
    "is_run",
    "listed",
    "pretty",
    "product",
    "shortest",
    "spatial",
    "statements",
    "term_label",
    "term_name",
    "term_parameters",
    "term_variables",
    "variable_label",
]
