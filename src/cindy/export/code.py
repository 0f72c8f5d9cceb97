"""Equations as source that runs alone: Python with nothing but `math`, C with nothing but math.h."""

from __future__ import annotations

import re
from collections.abc import Sequence

from cindy.basis import Language, Plan, statements, term_variables
from cindy.export.sides import RightHandSides

__all__ = ["to_c", "to_python"]


PYTHON = Language(prefix="", end="", module="math.")
C = Language(prefix="const double ", end=";", module="", extreme="f", choice="({0} ? {1} : {2})")


def to_python(equations: RightHandSides) -> str:
    """A Python module with `rhs(t, x, u=())`, which needs only the standard library.

    Coefficients stand in full precision. A custom Python function with a coefficient is a DataError:
    it has no source to copy.
    """
    outputs = [f"dx{j}" for j in range(len(equations.states))]
    loads, body = _parts(equations, PYTHON, outputs, "s{} = {}[{}]  # {}")
    lines = [
        f'"""Made by CINDy: {_meaning(equations)}."""',
        "",
        "import math" if any("math." in line for line in body) else "",
        "",
        f"STATES = {equations.states!a}",
        f"INPUTS = {equations.inputs!a}",
        "",
        "",
        "def rhs(t, x, u=()):",
        f'    """Return {_meaning(equations)} at the states x{_then(equations)} and the inputs u."""',
        *(f"    {line}" for line in (*loads, *body)),
        f"    return [{', '.join(outputs)}]",
    ]
    return re.sub(r"\n{4,}", "\n\n", "\n".join(lines)) + "\n"


def to_c(equations: RightHandSides) -> str:
    """A C file with `void rhs(double t, const double *x, const double *u, double *dx)`.

    Standard C99; link with -lm. u may be NULL when there are no inputs.
    """
    outputs = [f"dx[{j}]" for j in range(len(equations.states))]
    loads, body = _parts(equations, C, outputs, "const double s{} = {}[{}]; /* {} */")
    where = f"at the states x{_then(equations)} and the inputs u"
    lines = [
        f"/* Made by CINDy: dx is {_meaning(equations)} {where}. */",
        "#include <math.h>",
        "",
        "void rhs(double t, const double *x, const double *u, double *dx)",
        "{",
        *(f"    {line}" for line in (*loads, "(void)t; (void)x; (void)u;", *body)),
        "}",
    ]
    return "\n".join(lines) + "\n"


def _parts(
    equations: RightHandSides, language: Language, outputs: Sequence[str], load: str
) -> tuple[list[str], list[str]]:
    """Lines that load the variables in use, and lines that compute the outputs."""
    kept = [i for i, row in enumerate(equations.coef) if row.any()]
    terms = [equations.terms[i] for i in kept]
    used = frozenset().union(*map(term_variables, terms))
    d = len(equations.states) + len(equations.rates)
    places = [("x", k) for k in range(d)] + [("u", k) for k in range(len(equations.inputs))]
    loads = [
        load.format(k, array, index, _comment(name))
        for k, (name, (array, index)) in enumerate(zip(equations.variables, places, strict=True))
        if name in used
    ]
    names = [f"s{k}" for k in range(len(places))]
    plan = Plan.of(terms, equations.variables)
    return loads, statements(plan, equations.coef[kept], language, names, outputs)


def _meaning(equations: RightHandSides) -> str:
    if equations.discrete:
        return "the next states"
    return "the derivatives of the states" if equations.order == 1 else "the second derivatives of the states"


def _then(equations: RightHandSides) -> str:
    return ", the positions and then their rates," if equations.rates else ""


def _comment(name: str) -> str:
    """A name that can end neither a line nor a comment."""
    return re.sub(r"[^A-Za-z0-9 _.,:+()'^-]", "_", name)
