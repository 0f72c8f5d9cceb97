"""Equations as text, LaTeX, MathML, SymPy and CasADi expressions, source code, SBML and FMUs.

Every exporter takes `RightHandSides(terms, coef, states, inputs)`.
"""

from cindy.export.code import (
    to_c as to_c,
    to_julia as to_julia,
    to_modelica as to_modelica,
    to_python as to_python,
)
from cindy.export.exchange import to_fmu as to_fmu, to_sbml as to_sbml
from cindy.export.markup import (
    definition as definition,
    differential as differential,
    left_sides as left_sides,
    summand as summand,
    term_markup as term_markup,
    to_latex as to_latex,
    with_symbols as with_symbols,
)
from cindy.export.sides import (
    RightHandSides as RightHandSides,
    format_value as format_value,
    shorter as shorter,
    to_casadi as to_casadi,
    to_sympy as to_sympy,
    to_text as to_text,
)
