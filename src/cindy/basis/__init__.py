"""Dictionaries: which terms a right-hand side may be made of."""

from cindy.basis.base import Basis, Product, Subset, Sum, basis_from_dict
from cindy.basis.custom import Custom
from cindy.basis.fourier import Fourier
from cindy.basis.polynomial import Polynomial
from cindy.basis.term import Factor, Term, term_name, term_variables
from cindy.basis.trigonometric import Trigonometric

__all__ = [
    "Basis",
    "Custom",
    "Factor",
    "Fourier",
    "Polynomial",
    "Product",
    "Subset",
    "Sum",
    "Term",
    "Trigonometric",
    "basis_from_dict",
    "term_name",
    "term_variables",
]
