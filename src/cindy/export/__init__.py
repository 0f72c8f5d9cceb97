"""Equations as text, LaTeX, SymPy expressions, Python source, C source and SBML.

Every exporter takes `RightHandSides.of(terms, coef, states, inputs)`.
"""

from cindy.export.code import to_c, to_python
from cindy.export.latex import to_latex
from cindy.export.mathml import definition, left_side, summand, term_markup, with_symbols
from cindy.export.sbml import to_sbml
from cindy.export.sides import RightHandSides, format_value, to_text
from cindy.export.symbolic import to_sympy

__all__ = [
    "RightHandSides",
    "definition",
    "format_value",
    "left_side",
    "summand",
    "term_markup",
    "to_c",
    "to_latex",
    "to_python",
    "to_sbml",
    "to_sympy",
    "to_text",
    "with_symbols",
]
