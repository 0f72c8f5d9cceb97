"""Equations as source code that needs no library of ours: Python, C, Julia and Modelica.

Python and C compute the right-hand side by straight-line code that computes every product once. Julia and
Modelica read like the equations, and their coefficients and parameters can be changed by name.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from cindy.basis import TIME, Language, Plan, factor_code, statements, term_name, term_variables
from cindy.errors import DataError
from cindy.export.sides import RightHandSides

PYTHON = Language(module="math.")
C = Language(prefix="const double ", end=";", extreme="f", choice="({0} ? {1} : {2})")
JULIA = Language(absolute="abs", power="", choice="({0} ? {1} : {2})")
# Modelica forbids == for real numbers.
MODELICA = Language(
    absolute="abs",
    power="",
    truth="(if {0} then 1.0 else 0.0)",
    choice="(if {0} then {1} else {2})",
    equal="abs(({0}) - ({1})) <= 0.0",
    unequal="abs(({0}) - ({1})) > 0.0",
)

_JULIA_WORDS = (
    "du u p t c q v input parameters baremodule begin break catch const continue do else elseif end "
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
"""Names that have a meaning in the language or in the exported code."""


_KICKS = "the standard deviations of random kicks per root of time, in the sense of Ito"


def to_python(equations: RightHandSides) -> str:
    """A Python module with `rhs(t, x, u=())`, which needs only the standard library.

    Coefficients are in full precision. A custom Python function with a coefficient raises a DataError, since
    it has no formula. With random kicks, `noise(t, x)` gives their standard deviations.
    """
    about, kicks = _meaning(equations), equations.kicks
    where = f"{about} at the states x{_then(equations)} and the inputs u"
    functions = ["", "", *_python_function("rhs(t, x, u=())", where, equations, "dx", "{}")]
    if kicks is not None:
        functions += ["", "", *_python_function("noise(t, x)", _KICKS, kicks, "q", "math.sqrt(max({}, 0.0))")]
    lines = [
        f'"""Made by CINDy: {about.rstrip(",")}."""',
        "",
        "import math" if any("math." in line for line in functions) else "",
        "",
        f"STATES = {equations.states!a}",
        f"INPUTS = {equations.inputs!a}",
        *functions,
    ]
    return re.sub(r"\n{4,}", "\n\n", "\n".join(lines)) + "\n"


def _python_function(head: str, about: str, equations: RightHandSides, name: str, result: str) -> list[str]:
    """A function of Python; name: of each right-hand side, result: the pattern of what it returns of it."""
    outputs = [f"{name}{j}" for j in range(len(equations.states))]
    lines = [f'"""Return {about}."""', *_body(equations, PYTHON, outputs, "s{} = {}  # {}")]
    lines.append(f"return [{', '.join(map(result.format, outputs))}]")
    return [f"def {head}:", *(f"    {line}" for line in lines)]


def to_c(equations: RightHandSides) -> str:
    """A C file with `void rhs(double t, const double *x, const double *u, double *dx)`.

    Standard C99; link with -lm. u may be NULL when there are no inputs. With random kicks,
    `void noise(double t, const double *x, double *s)` gives their standard deviations.
    """
    where = f"at the states x{_then(equations)} and the inputs u"
    lines = [f"/* Made by CINDy: dx is {_meaning(equations)} {where}. */", "#include <math.h>", ""]
    lines += _c_function("rhs(double t, const double *x, const double *u, double *dx)", equations, "dx[{}]")
    if equations.kicks is not None:
        lines += ["", f"/* s is {_KICKS}. */"]
        # A fitted variance may be slightly negative outside the range of the data.
        roots = [f"s[{j}] = sqrt(s[{j}] > 0.0 ? s[{j}] : 0.0);" for j in range(len(equations.states))]
        lines += _c_function("noise(double t, const double *x, double *s)", equations.kicks, "s[{}]", roots)
    return "\n".join(lines) + "\n"


def _c_function(head: str, equations: RightHandSides, place: str, after: Sequence[str] = ()) -> list[str]:
    """A function of C; place: the pattern of its outputs; after: statements after theirs."""
    unused = [f"(void){name};" for name in "txu" if name == "t" or f"*{name}" in head]
    outputs = [place.format(j) for j in range(len(equations.states))]
    load = "const double s{} = {}; /* {} */"
    lines = [*_body(equations, C, outputs, load, [" ".join(unused)]), *after]
    return [f"void {head}", "{", *(f"    {line}" for line in lines), "}"]


def _body(
    equations: RightHandSides,
    language: Language,
    outputs: Sequence[str],
    load: str,
    between: Sequence[str] = (),
) -> list[str]:
    """Lines that load the used variables, those `between`, and then lines that compute the outputs."""
    terms, coef = equations.used
    used = frozenset().union(*map(term_variables, terms))
    places = places_in_arrays(equations)
    loads = [
        load.format(k, place, _comment(name))
        for k, (name, place) in enumerate(zip(equations.variables, places, strict=True))
        if name in used
    ]
    names = [f"s{k}" for k in range(len(places))]
    plan = Plan.of(terms, equations.variables)
    return [*loads, *between, *statements(plan, coef, language, names, outputs)]


def places_in_arrays(equations: RightHandSides) -> list[str]:
    """The places of the variables in code: x[0], …, u[0], …, t."""
    places = [f"x[{k}]" for k in range(len(equations.states) + len(equations.rates))]
    return places + [f"u[{k}]" for k in range(len(equations.inputs))] + ["t"] * equations.timed


@dataclass(frozen=True)
class Coefficient:
    """A number of the equations that users of exported code may change.

    place: (term, equation) of a coefficient; None for a parameter inside terms
    """

    name: str
    value: float
    meaning: str
    place: tuple[int, int] | None = None


def coefficients(equations: RightHandSides) -> tuple[list[Coefficient], list[Coefficient]]:
    """The non-zero coefficients, equation by equation, as c1, c2, …; and the parameters inside terms."""
    numbers: list[Coefficient] = []
    inside: dict[str, float] = {}
    mark = "[k+1]" if equations.discrete else "'" * equations.order
    for j, state in enumerate(equations.states):
        for i in np.flatnonzero(equations.coef[:, j]).tolist():
            term, value = equations.terms[i], float(equations.coef[i, j])
            meaning = f"{state}{mark}: {term_name(term)}"
            numbers.append(Coefficient(f"c{len(numbers) + 1}", value, meaning, (i, j)))
            inside |= {name: number for factor in term for name, number in factor.values}
    return numbers, [Coefficient(name, value, f"inside terms: {name}") for name, value in inside.items()]


def to_julia(equations: RightHandSides) -> str:
    """A Julia function f!(du, u, p, t) in place, for DifferentialEquations.jl, and its parameters p.

    u holds the states, followed by their rates for equations of second order. p.c holds the coefficients, and
    p the parameters inside terms by name. If the equations have inputs, p.input is a function of time that
    returns them. For maps du is the next state. With random kicks g! is the noise of an SDEProblem, with the
    coefficients of their variance in p.q.
    """
    states, inputs = equations.first_order_states, equations.inputs
    numbers, inside = coefficients(equations)
    heads = _identifiers([number.name for number in inside], _JULIA_WORDS.split())
    inner = {number.name: f"p.{head}" for number, head in zip(inside, heads, strict=True)}
    # In first-order form the derivatives of the positions are the rates, which follow them in u.
    rates = [f"u[{len(equations.states) + k + 1}]" for k in range(len(states) - len(equations.states))]
    functions = [_julia_function("f!", equations, "c", inner, rates, "{}")]
    entries = ["c = [" + ", ".join(repr(number.value) for number in numbers) + "]"]
    entries += [f"{head} = {number.value!r}" for head, number in zip(heads, inside, strict=True)]
    entries += [f"input = t -> zeros({len(inputs)})"] if inputs else []
    if equations.kicks is not None:
        kicks = ", ".join(repr(number.value) for number in coefficients(equations.kicks)[0])
        entries.append(f"q = [{kicks}]")
        # In x'' = F only the rates are kicked.
        still = ["0.0"] * len(rates)
        functions.append(_julia_function("g!", equations.kicks, "q", {}, still, "sqrt(max(0.0, {}))"))
    lines = [
        f"# Made by CINDy: {'the next states' if equations.discrete else 'the derivatives of the states'}.",
        f"# u: {', '.join(map(_comment, states))}",
        *([f"# p.input(t): {', '.join(map(_comment, inputs))}"] if inputs else []),
        *(f"# p.c[{k + 1}]  {_comment(number.meaning)}" for k, number in enumerate(numbers)),
        f"parameters = ({', '.join(entries)},)",
    ]
    return "\n\n".join(["\n".join(lines), *functions]) + "\n"


def _julia_function(
    name: str,
    equations: RightHandSides,
    vector: str,
    inside: Mapping[str, str],
    rates: Sequence[str],
    pattern: str,
) -> str:
    """A Julia function that writes into du.

    vector: the field of p that holds the coefficients; inside: names of the parameters inside terms
    rates: the derivatives of the positions of equations of second order; pattern: around right-hand sides
    """
    places = {state: f"u[{k + 1}]" for k, state in enumerate(equations.first_order_states)}
    places |= {name: f"v[{k + 1}]" for k, name in enumerate(equations.inputs)}
    # Names of states may be invalid in the language, or have a meaning in it.
    names = dict(zip(places, _identifiers(list(places), _JULIA_WORDS.split()), strict=True))
    used = frozenset().union(*map(term_variables, equations.used[0]))
    body = ["v = p.input(t)"] if equations.inputs else []
    body += [f"{names[variable]} = {place}" for variable, place in places.items() if variable in used]
    known = {**names, **inside, **({TIME: "t"} if equations.timed else {})}
    symbols = {number.place: f"p.{vector}[{k + 1}]" for k, number in enumerate(coefficients(equations)[0])}
    sides = [_side(equations, j, symbols, known, JULIA) for j in range(len(equations.states))]
    sides = [*rates, *(side if side == "0.0" else pattern.format(side) for side in sides)]
    body += [f"du[{k + 1}] = {side}" for k, side in enumerate(sides)]
    head = f"function {name}(du, u, p, t)"
    return "\n".join([head, *(f"    {line}" for line in body), "    return nothing", "end"])


def to_modelica(equations: RightHandSides, *, name: str = "Cindy", x0: Sequence[float] | None = None) -> str:
    """A Modelica model whose coefficients and parameters are `parameter Real` and whose inputs are `input`.

    See `Model.to_modelica`; x0 holds positions and then rates for order 2.
    """
    if equations.discrete:
        raise DataError("to_modelica: a map has no derivatives. Use to_python, to_c, to_casadi or to_julia.")
    if name in _MODELICA_WORDS.split() or not re.fullmatch(r"[A-Za-z]\w*", name, flags=re.ASCII):
        raise DataError(f"to_modelica: the model must be called by a word of letters, but is {name!r}.")
    states, d = equations.first_order_states, len(equations.states)
    numbers, inside = coefficients(equations)
    # A state may be called c1, or like a word of the language. It gets another name then, and the comment
    # beside it says which state it is.
    taken = [*_MODELICA_WORDS.split(), *(number.name for number in numbers), name]
    variables = (*states, *equations.inputs, *(number.name for number in inside))
    known = dict(zip(variables, _identifiers(variables, taken), strict=True))
    known |= {TIME: "time"} if equations.timed else {}
    lines = [f'model {name} "Made by CINDy{equations.remark}"']
    for number in (*numbers, *inside):
        head = number.name if number.place else known[number.name]
        lines.append(f'  parameter Real {head} = {number.value!r} "{_comment(number.meaning)}";')
    for state, value in zip(states, x0 or [0.0] * len(states), strict=True):
        lines.append(f'  Real {known[state]}(start = {value!r}, fixed = true) "{_comment(state)}";')
    lines += [f'  input Real {known[driver]} "{_comment(driver)}";' for driver in equations.inputs]
    lines.append("equation")
    symbols = {number.place: number.name for number in numbers}
    sides = [known[rate] for rate in states[d:]]
    sides += [_side(equations, j, symbols, known, MODELICA) for j in range(d)]
    lines += [f"  der({known[state]}) = {side};" for state, side in zip(states, sides, strict=True)]
    lines.append(f"end {name};")
    return "\n".join(lines) + "\n"


def _side(
    equations: RightHandSides,
    equation: int,
    symbols: Mapping[tuple[int, int] | None, str],
    names: Mapping[str, str],
    language: Language,
) -> str:
    """A right-hand side as one writes it by hand: symbols of coefficients times products of factors."""
    pieces = []
    for i in np.flatnonzero(equations.coef[:, equation]).tolist():
        product = [symbols[i, equation]]
        for factor in equations.terms[i]:
            code = factor_code(factor, names, language, {}, symbolic=True)
            if factor.kind == "call" and not re.fullmatch(r"\w+(\.\w+)?", code):
                code = f"({code})"
            product.append(code if factor.power == 1 else f"{code}^{factor.power}")
        pieces.append("*".join(product))
    return " + ".join(pieces) or "0.0"


def _identifiers(names: Sequence[str], taken: Iterable[str]) -> list[str]:
    """Names that are valid in every language: the given names where these are valid.

    x' becomes x_rate and a keyword gets an underscore; names that are still invalid, or not unique, become
    s1, s2, ….

    >>> _identifiers(["x", "x'", "if", "été"], ["if"])
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
    kicked = ", without their random kicks," if equations.kicks is not None else ""
    second = "second " if equations.order == 2 else ""
    return f"the {second}derivatives of the states{kicked}"


def _then(equations: RightHandSides) -> str:
    return ", the positions and then their rates," if equations.rates else ""


def _comment(name: str) -> str:
    """A name for a comment, which it cannot end."""
    return re.sub(r"[^A-Za-z0-9 _.,:+()'^-]", "_", name)
