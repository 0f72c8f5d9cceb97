"""Equations as text, LaTeX, SymPy expressions, Python source, C source and SBML.

Every exporter takes `RightHandSides.of(terms, coef, states, inputs)`.
"""

from cindy.export.code import to_c, to_python
from cindy.export.latex import to_latex
from cindy.export.mathml import definition, left_side, summand, term_markup, with_symbols
from cindy.export.number import format_value
from cindy.export.right_hand_sides import RightHandSides
from cindy.export.sbml import to_sbml
from cindy.export.symbolic import to_sympy
from cindy.export.text import to_text

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
