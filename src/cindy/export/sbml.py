"""Equations as SBML, which biochemical simulators read: a species and a rate rule for every state."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from xml.sax.saxutils import escape, quoteattr

from numpy.typing import ArrayLike

from cindy._check import floats
from cindy.basis import COMPARISONS, TIME, Expression, Factor
from cindy.errors import DataError
from cindy.export.sides import RightHandSides

__all__ = ["to_sbml"]


_HEAD = """<?xml version="1.0" encoding="UTF-8"?>
<sbml xmlns="http://www.sbml.org/sbml/level3/version2/core" level="3" version="2">
  <model id="cindy">{0}
    <listOfCompartments>
      <compartment id="volume_" spatialDimensions="3" size="1" constant="true"/>
    </listOfCompartments>"""
_SPECIES = (
    '      <species id="{0}" name={1} compartment="volume_"{2} hasOnlySubstanceUnits="false" '
    'boundaryCondition="false" constant="false"/>'
)
_RULE = (
    '      <rateRule variable="{0}">\n'
    '        <math xmlns="http://www.w3.org/1998/Math/MathML">{1}</math>\n'
    "      </rateRule>"
)
_OPERATIONS = {
    "+": "plus",
    "*": "times",
    "/": "divide",
    "**": "power",
    "-": "minus",
    "log": "ln",
    "sqrt": "root",
}

_CLOCK = '<csymbol encoding="text" definitionURL="http://www.sbml.org/sbml/symbols/time">t</csymbol>'
_RELATIONS = {"<": "lt", "<=": "leq", ">": "gt", ">=": "geq", "==": "eq", "!=": "neq"}


def to_sbml(equations: RightHandSides, *, initial: ArrayLike | None = None) -> str:
    """An SBML document, Level 3 Version 2, with coefficients in full precision.

    States become concentrations in a compartment of unit size. Only equations of first order without inputs
    can be written; terms may hold the time.

    initial: (states,) concentrations to start from
    """
    if equations.order != 1 or equations.discrete or equations.inputs:
        raise DataError(
            "to_sbml: only equations x' = F(x) without inputs have a form in SBML. "
            "Use to_python or to_c for others."
        )
    ids = _ids(equations.states)
    start = [""] * len(ids)
    if initial is not None:
        values = floats(initial, "to_sbml: initial", ndim=1)
        if len(values) != len(ids):
            raise DataError(f"to_sbml: initial must hold {len(ids)} concentrations, but holds {len(values)}.")
        start = [f' initialConcentration="{value!r}"' for value in values.tolist()]
    names = dict(zip(equations.states, map(_symbol, ids), strict=True))
    if equations.timed:
        names[TIME] = _CLOCK
    species = [
        _SPECIES.format(own, quoteattr(_legal(state)), at)
        for own, state, at in zip(ids, equations.states, start, strict=True)
    ]
    rules = [_RULE.format(ids[j], _side(equations, j, names)) for j in range(len(ids))]
    notes = ""
    if equations.remark:
        sentence = f"Made by CINDy{equations.remark}."
        notes = f'\n    <notes><p xmlns="http://www.w3.org/1999/xhtml">{sentence}</p></notes>'
    body = [
        _HEAD.format(notes),
        "    <listOfSpecies>", *species, "    </listOfSpecies>",
        "    <listOfRules>", *rules, "    </listOfRules>",
        "  </model>",
        "</sbml>",
    ]  # fmt: skip
    return "\n".join(body) + "\n"


def _ids(states: Sequence[str]) -> list[str]:
    """Names that SBML accepts as identifiers: the states' own where they are."""
    plain = all(re.fullmatch(r"[A-Za-z][A-Za-z0-9_]*", name) and name != "volume_" for name in states)
    return list(states) if plain else [f"s{k}" for k in range(len(states))]


def _legal(name: str) -> str:
    """The name with what no XML may hold written out, as \\x01."""
    allowed = re.compile("[\t\n\r\u0020-\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]")
    return "".join(c if allowed.match(c) else ascii(c)[1:-1] for c in name)


def _side(equations: RightHandSides, equation: int, names: Mapping[str, str]) -> str:
    parts = [
        _apply("times", _number(value), *(_factor(factor, names) for factor in term))
        if term
        else _number(value)
        for value, _, term in equations.summands(equation)
    ]
    return _apply("plus", *parts) if len(parts) > 1 else parts[0] if parts else _number(0.0)


def _factor(factor: Factor, names: Mapping[str, str]) -> str:
    if factor.kind == "call":
        if factor.expression is None:
            raise DataError(
                f"to_sbml: the custom term {factor.name!r} is a Python function and has no formula to write. "
                "Give it to Custom as a formula, such as 'x*exp(-y)'."
            )
        body = _formula(factor.expression, names)
    else:
        body = names[factor.variables[0]]
        if factor.kind != "variable":
            inside = body if factor.frequency == 1.0 else _apply("times", _number(factor.frequency), body)
            body = _apply(factor.kind, inside)
    return body if factor.power == 1 else _apply("power", body, _number(float(factor.power)))


def _formula(node: Expression, names: Mapping[str, str]) -> str:
    if node.operation == "number":
        return _number(node.number)
    if node.operation == "symbol":
        return names[node.symbol]
    if node.operation in COMPARISONS:
        return _piecewise(_number(1.0), _condition(node, names), _number(0.0))
    if node.operation == "where":
        condition, value, otherwise = node.operands
        return _piecewise(_formula(value, names), _condition(condition, names), _formula(otherwise, names))
    if node.operation == "sign":
        inside, zero = _formula(node.operands[0], names), _number(0.0)
        # MathML as SBML uses it has no sign function.
        negative = _piecewise(_number(-1.0), _apply("lt", inside, zero), zero)
        return _piecewise(_number(1.0), _apply("gt", inside, zero), negative)
    arc = re.sub(r"^a(sin|cos|tan)$", r"arc\1", node.operation)
    operands = [_formula(operand, names) for operand in node.operands]
    return _apply(_OPERATIONS.get(node.operation, arc), *operands)


def _condition(node: Expression, names: Mapping[str, str]) -> str:
    if node.operation not in COMPARISONS:
        return _apply("neq", _formula(node, names), _number(0.0))
    return _apply(_RELATIONS[node.operation], *(_formula(operand, names) for operand in node.operands))


def _piecewise(value: str, condition: str, otherwise: str) -> str:
    piece = f"<piece>{value}{condition}</piece>"
    return f"<piecewise>{piece}<otherwise>{otherwise}</otherwise></piecewise>"


def _apply(operation: str, *operands: str) -> str:
    return f"<apply><{operation}/>{''.join(operands)}</apply>"


def _symbol(name: str) -> str:
    return f"<ci>{escape(name)}</ci>"


def _number(value: float) -> str:
    mantissa, _, power = repr(float(value)).partition("e")
    if power:
        return f'<cn type="e-notation">{mantissa}<sep/>{int(power)}</cn>'
    return f"<cn>{mantissa}</cn>"
