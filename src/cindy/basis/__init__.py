"""Dictionaries: which terms a right-hand side may be made of."""

from cindy.basis.base import Basis, Functions, basis_from_dict
from cindy.basis.compiled import compile_jacobian, compile_rhs
from cindy.basis.composed import Product, Subset, Sum
from cindy.basis.custom import Custom
from cindy.basis.derivatives import Derivatives
from cindy.basis.expression import COMPARISONS, Expression
from cindy.basis.fourier import Fourier
from cindy.basis.labels import GREEK, axis_label, equation_label, listed, pretty, term_label, variable_label
from cindy.basis.parameter import Parameter
from cindy.basis.per_run import RUN, PerRun, is_run
from cindy.basis.plan import Dictionary, Plan, call
from cindy.basis.polynomial import Polynomial
from cindy.basis.source import Language, statements
from cindy.basis.term import (
    Factor,
    Term,
    differentiate,
    differentiate_by_parameter,
    product,
    shortest,
    spatial,
    term_name,
    term_parameters,
    term_variables,
)
from cindy.basis.term_list import Listed
from cindy.basis.trigonometric import Trigonometric

__all__ = [
    "COMPARISONS",
    "GREEK",
    "RUN",
    "Basis",
    "Custom",
    "Derivatives",
    "Dictionary",
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
    "Product",
    "Subset",
    "Sum",
    "Term",
    "Trigonometric",
    "axis_label",
    "basis_from_dict",
    "call",
    "compile_jacobian",
    "compile_rhs",
    "differentiate",
    "differentiate_by_parameter",
    "equation_label",
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
