"""Equations as source that runs alone: Python, C, Julia and Modelica.

Python and C compute the right-hand side by straight-line code in which every product stands once. Julia and
Modelica read like the equations themselves, and their coefficients and parameters can be changed by name.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from numpy.typing import ArrayLike

from cindy._check import floats
from cindy.basis import Language, Plan, Term, factor_code, statements, term_name, term_variables
from cindy.errors import DataError
from cindy.export.sides import RightHandSides

__all__ = [
    "C",
    "Coefficient",
    "coefficients",
    "identifiers",
    "start_values",
    "to_c",
    "to_julia",
    "to_modelica",
    "to_python",
]


PYTHON = Language(module="math.")
C = Language(prefix="const double ", end=";", extreme="f", choice="({0} ? {1} : {2})")
JULIA = Language(absolute="abs", power="", choice="({0} ? {1} : {2})")
# Modelica compares real numbers by order alone.
MODELICA = Language(
    absolute="abs",
    power="",
    truth="(if {0} then 1.0 else 0.0)",
    choice="(if {0} then {1} else {2})",
    equal="abs(({0}) - ({1})) <= 0.0",
    unequal="abs(({0}) - ({1})) > 0.0",
)

_JULIA_WORDS = (
    "du u p t c v input parameters baremodule begin break catch const continue do else elseif end "
    "export false finally for function global if im import in isa let local macro module mutable pi "
    "quote return struct true try using where while abs acos asin atan cos cosh exp log max min sign "
    "sin sinh sqrt tan tanh"
)
_MODELICA_WORDS = (
    "algorithm and annotation assert block break class connect connector constant constrainedby der "
    "discrete each else elseif elsewhen encapsulated end enumeration equation expandable extends "
    "external false final flow for function if import impure in initial inner input loop model not "
    "operator or outer output package parameter partial protected public pure record redeclare "
    "replaceable return stream then time true type when while within abs acos asin atan cos cosh exp "
    "log max min sign sin sinh sqrt tan tanh Real Integer Boolean String sum product size sample pre "
    "edge change delay"
)
"""Names that have a meaning already."""


def to_python(equations: RightHandSides) -> str:
    """A Python module with `rhs(t, x, u=())`, which needs only the standard library.

    Coefficients stand in full precision. A custom Python function with a coefficient is a DataError:
    it has no source to copy.
    """
    outputs = [f"dx{j}" for j in range(len(equations.states))]
    loads, body = _parts(equations, PYTHON, outputs, "s{} = {}  # {}")
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
    loads, body = _parts(equations, C, outputs, "const double s{} = {}; /* {} */")
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
    places = places_in_arrays(equations)
    loads = [
        load.format(k, place, _comment(name))
        for k, (name, place) in enumerate(zip(equations.variables, places, strict=True))
        if name in used
    ]
    names = [f"s{k}" for k in range(len(places))]
    plan = Plan.of(terms, equations.variables)
    return loads, statements(plan, equations.coef[kept], language, names, outputs)


def places_in_arrays(equations: RightHandSides, first: int = 0) -> list[str]:
    """Where code finds the variables: x[0], …, u[0], …, t."""
    d = len(equations.states) + len(equations.rates)
    places = [f"x[{k + first}]" for k in range(d)]
    places += [f"u[{k + first}]" for k in range(len(equations.inputs))]
    return places + ["t"] * equations.timed


@dataclass(frozen=True)
class Coefficient:
    """A number of the equations that a user of exported code may change.

    place: (term, equation) of a coefficient; None for a parameter inside terms
    """

    name: str
    value: float
    meaning: str
    place: tuple[int, int] | None = None


def coefficients(equations: RightHandSides) -> tuple[list[Coefficient], list[Coefficient]]:
    """The coefficients that are not zero, equation by equation, as c1, c2, …; and the parameters in use."""
    found: list[Coefficient] = []
    inside: dict[str, float] = {}
    mark = "[k+1]" if equations.discrete else "'" * equations.order
    for j, state in enumerate(equations.states):
        for i, term in enumerate(equations.terms):
            if equations.coef[i, j]:
                meaning = f"{state}{mark}: {term_name(term)}"
                found.append(Coefficient(f"c{len(found) + 1}", float(equations.coef[i, j]), meaning, (i, j)))
                inside |= {name: value for factor in term for name, value in factor.values}
    return found, [Coefficient(name, value, f"inside terms: {name}") for name, value in inside.items()]


def to_julia(equations: RightHandSides) -> str:
    """A Julia function f!(du, u, p, t) in place, for DifferentialEquations.jl, and its parameters p.

    u holds the states, and for equations of second order their rates after them. p.c holds the coefficients,
    and p the parameters inside terms by name. Where the equations have inputs, p.input is a function of
    time that returns them. For maps du is the next state.
    """
    d = len(equations.states)
    numbers, inside = coefficients(equations)
    names = identifiers(equations.variables, _JULIA_WORDS.split())
    heads = identifiers([one.name for one in inside], _JULIA_WORDS.split())
    symbols = dict(zip((one.name for one in inside), (f"p.{name}" for name in heads), strict=True))
    places = places_in_arrays(equations, first=1)
    places = [place.replace("u[", "v[").replace("x[", "u[") for place in places]
    used = _used(equations)
    body = ["v = p.input(t)"] if equations.inputs else []
    body += [
        f"{names[k]} = {places[k]}"
        for k, name in enumerate(equations.variables)
        if name in used and places[k] != "t"
    ]
    known = {
        name: "t" if place == "t" else names[k]
        for k, (name, place) in enumerate(zip(equations.variables, places, strict=True))
    }
    known |= symbols
    first = 0
    if equations.order == 2:
        first = d
        body += [f"du[{j + 1}] = u[{d + j + 1}]" for j in range(d)]
    by_place = {one.place: f"p.c[{k + 1}]" for k, one in enumerate(numbers)}
    body += [f"du[{first + j + 1}] = {_side(equations, j, by_place, known, JULIA)}" for j in range(d)]
    entries = ["c = [" + ", ".join(repr(one.value) for one in numbers) + "]"]
    entries += [f"{name} = {one.value!r}" for name, one in zip(heads, inside, strict=True)]
    entries += [f"input = t -> zeros({len(equations.inputs)})"] if equations.inputs else []
    order = ", ".join(map(_comment, equations.states)) + (
        ", then their rates" if equations.order == 2 else ""
    )
    lines = [
        f"# Made by CINDy: {'the next states' if equations.discrete else 'the derivatives of the states'}.",
        f"# u: {order}",
        *([f"# p.input(t): {', '.join(map(_comment, equations.inputs))}"] if equations.inputs else []),
        *(f"# p.c[{k + 1}]  {_comment(one.meaning)}" for k, one in enumerate(numbers)),
        f"parameters = ({', '.join(entries)},)",
        "",
        "function f!(du, u, p, t)",
        *(f"    {line}" for line in body),
        "    return nothing",
        "end",
    ]
    return "\n".join(lines) + "\n"


def to_modelica(equations: RightHandSides, *, name: str = "Cindy", initial: ArrayLike | None = None) -> str:
    """A Modelica model whose coefficients and parameters are `parameter Real` and whose inputs are `input`.

    name: of the model
    initial: (states,) values to start from, positions and rates for order 2; zero if not given
    """
    if equations.discrete:
        raise DataError("to_modelica: a map has no derivatives. Use to_python, to_c, to_casadi or to_julia.")
    if name in _MODELICA_WORDS.split() or not re.fullmatch(r"[A-Za-z]\w*", name, flags=re.ASCII):
        raise DataError(f"to_modelica: the model must be called by a word of letters, but is {name!r}.")
    numbers, inside = coefficients(equations)
    taken = [*_MODELICA_WORDS.split(), *(one.name for one in numbers), name]
    rates = tuple(f"{state}'" for state in equations.states) if equations.order == 2 else ()
    variables = (*equations.states, *rates, *equations.inputs)
    heads = identifiers((*variables, *(one.name for one in inside)), taken)
    known = dict(zip((*variables, *(one.name for one in inside)), heads, strict=True)) | {"t": "time"}
    if "t" in variables:
        known["t"] = heads[variables.index("t")]
    start = start_values(equations, initial, "to_modelica")
    by_place = {one.place: one.name for one in numbers}
    lines = [f'model {name} "Made by CINDy"']
    for one, head in (
        *zip(numbers, (one.name for one in numbers), strict=True),
        *zip(inside, heads[len(variables) :], strict=True),
    ):
        lines.append(f'  parameter Real {head} = {one.value!r} "{_comment(one.meaning)}";')
    for state, value in zip((*equations.states, *rates), start, strict=True):
        lines.append(f'  Real {known[state]}(start = {value!r}, fixed = true) "{_comment(state)}";')
    lines += [f'  input Real {known[one]} "{_comment(one)}";' for one in equations.inputs]
    lines.append("equation")
    lines += [f"  der({known[x]}) = {known[v]};" for x, v in zip(equations.states, rates, strict=False)]
    for j, left in enumerate(rates or equations.states):
        lines.append(f"  der({known[left]}) = {_side(equations, j, by_place, known, MODELICA)};")
    lines.append(f"end {name};")
    return "\n".join(lines) + "\n"


def start_values(equations: RightHandSides, initial: ArrayLike | None, where: str) -> list[float]:
    """(order · states,) values to start from: those given, and zero for what is not."""
    d = len(equations.states)
    if initial is None:
        return [0.0] * (equations.order * d)
    values: list[float] = floats(initial, f"{where}: x0", ndim=1).tolist()
    if len(values) not in (d, equations.order * d):
        expected = f"{d}" + f" or {2 * d}" * (equations.order == 2)
        raise DataError(f"{where}: x0 must hold {expected} values, but holds {len(values)}.")
    return values + [0.0] * (equations.order * d - len(values))


def _side(
    equations: RightHandSides,
    equation: int,
    symbols: Mapping[tuple[int, int] | None, str],
    names: Mapping[str, str],
    language: Language,
) -> str:
    """A right-hand side as it is written by hand: symbols of coefficients times products of factors."""
    pieces = []
    for i, term in enumerate(equations.terms):
        if equations.coef[i, equation]:
            pieces.append("*".join([symbols[i, equation], *_product(term, names, language)]))
    return " + ".join(pieces) or "0.0"


def _product(term: Term, names: Mapping[str, str], language: Language) -> list[str]:
    pieces = []
    for factor in term:
        code = factor_code(factor, names, language, {}, symbolic=True)
        if factor.kind == "call" and not re.fullmatch(r"\w+(\.\w+)?", code):
            code = f"({code})"
        pieces.append(code if factor.power == 1 else f"{code}^{factor.power}")
    return pieces


def _used(equations: RightHandSides) -> frozenset[str]:
    """The variables that terms with a coefficient hold."""
    terms = (term for term, row in zip(equations.terms, equations.coef, strict=True) if row.any())
    return frozenset().union(*map(term_variables, terms))


def identifiers(names: Sequence[str], taken: Iterable[str]) -> list[str]:
    """Words that every language takes as names: the names themselves where they are such words.

    x' becomes x_rate and a keyword gets an underscore; what is no word then, or stands twice, is s1, s2, ….

    >>> identifiers(["x", "x'", "if", "été"], ["if"])
    ['x', 'x_rate', 'if_', 's4']
    """
    reserved = set(taken)
    plain = [name.removesuffix("'") + "_rate" if name.endswith("'") else name for name in names]
    plain = [f"{name}_" if name in reserved else name for name in plain]
    result = []
    for k, name in enumerate(plain):
        word = re.fullmatch(r"[A-Za-z][A-Za-z0-9_]*", name) and not re.fullmatch(r"[cs]\d+", name)
        result.append(name if word and name not in reserved and plain.count(name) == 1 else f"s{k + 1}")
    return result


def _meaning(equations: RightHandSides) -> str:
    if equations.discrete:
        return "the next states"
    return "the derivatives of the states" if equations.order == 1 else "the second derivatives of the states"


def _then(equations: RightHandSides) -> str:
    return ", the positions and then their rates," if equations.rates else ""


def _comment(name: str) -> str:
    """A name that can end neither a line nor a comment."""
    return re.sub(r"[^A-Za-z0-9 _.,:+()'^-]", "_", name)
