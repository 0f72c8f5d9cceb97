"""Equations as text, LaTeX, MathML, SymPy and CasADi expressions, source code, SBML and FMUs.

Every exporter takes `RightHandSides(terms, coef, states, inputs)`.
"""

from cindy.export.code import to_c, to_julia, to_modelica, to_python
from cindy.export.exchange import to_fmu, to_sbml
from cindy.export.markup import (
    definition,
    differential,
    left_sides,
    summand,
    term_markup,
    to_latex,
    with_symbols,
)
from cindy.export.sides import RightHandSides, format_value, shorter, to_casadi, to_sympy, to_text

__all__ = [
    "RightHandSides",
    "definition",
    "differential",
    "format_value",
    "left_sides",
    "shorter",
    "summand",
    "term_markup",
    "to_c",
    "to_casadi",
    "to_fmu",
    "to_julia",
    "to_latex",
    "to_modelica",
    "to_python",
    "to_sbml",
    "to_sympy",
    "to_text",
    "with_symbols",
]
