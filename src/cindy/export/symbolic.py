"""Equations as SymPy expressions."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from cindy._extras import require
from cindy.basis import COMPARISONS, Expression, Factor
from cindy.export.sides import RightHandSides

__all__ = ["to_sympy"]


def to_sympy(equations: RightHandSides) -> list[Any]:
    """The right-hand sides as SymPy expressions, one per state, in symbols called as the states and inputs;
    where terms have derivatives in space, in functions of the axes and t.

    A custom Python function becomes an undefined function of its variables.
    """
    sympy = require("sympy", "sympy", "to_sympy")
    symbols = {name: sympy.Symbol(name) for name in equations.variables}
    if equations.axes:
        # Fields are functions of space and time; coordinates among the inputs stay symbols.
        places = [sympy.Symbol(axis) for axis in (*equations.axes, "t")]
        symbols |= {n: sympy.Function(n)(*places) for n in symbols if n not in equations.axes}
    result = []
    for j in range(len(equations.states)):
        products = [
            sympy.Mul(sympy.Float(value), *(_factor(factor, symbols) for factor in term))
            for value, _, term in equations.summands(j)
        ]
        result.append(sympy.Add(*products))
    return result


def _factor(factor: Factor, symbols: Mapping[str, Any]) -> Any:
    import sympy

    arguments = [symbols[name] for name in factor.variables]
    if factor.kind == "derivative":
        inner = sympy.Mul(*(_factor(one, symbols) for one in factor.of))
        base = sympy.Derivative(inner, *(sympy.Symbol(axis) for axis in factor.by))
    elif factor.kind == "variable":
        base = arguments[0]
    elif factor.kind != "call":
        frequency = factor.frequency
        exact = sympy.Integer(int(frequency)) if frequency == int(frequency) else sympy.Float(frequency)
        base = getattr(sympy, factor.kind)(exact * arguments[0])
    elif factor.expression is not None:
        base = _formula(factor.expression, symbols)
    else:
        base = sympy.Function(factor.name)(*arguments)
    return base**factor.power


def _formula(node: Expression, symbols: Mapping[str, Any]) -> Any:
    import sympy

    if node.operation == "number":
        # A large number stays a float: SymPy would raise whole ones to each other digit by digit.
        whole = abs(node.number) < 1e9 and node.number == int(node.number)
        return sympy.Integer(int(node.number)) if whole else sympy.Float(node.number)
    if node.operation == "symbol":
        return symbols[node.symbol]
    parts = [_formula(operand, symbols) for operand in node.operands]
    match node.operation:
        case "+":
            return sympy.Add(*parts)
        case "*":
            return sympy.Mul(*parts)
        case "-":
            return -parts[0]
        case "/":
            return parts[0] / parts[1]
        case "**":
            return parts[0] ** parts[1]
        case "abs":
            return sympy.Abs(parts[0])
        case "max" | "min":
            return getattr(sympy, node.operation.capitalize())(*parts)
        case "where":
            return sympy.Piecewise((parts[1], _condition(node.operands[0], symbols)), (parts[2], True))
        case operation if operation in COMPARISONS:
            return sympy.Piecewise((1, _condition(node, symbols)), (0, True))
    return getattr(sympy, node.operation)(*parts)


def _condition(node: Expression, symbols: Mapping[str, Any]) -> Any:
    """A comparison as a relation; anything else is compared with zero."""
    import sympy

    if node.operation not in COMPARISONS:
        return sympy.Ne(_formula(node, symbols), 0)
    return sympy.Rel(*(_formula(operand, symbols) for operand in node.operands), node.operation)
