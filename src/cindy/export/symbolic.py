"""Equations as expressions of computer algebra: SymPy, and CasADi for optimal control."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping
from functools import reduce
from operator import add, mul
from typing import Any

from cindy.basis import COMPARISONS, TIME, Expression, Factor
from cindy.errors import DataError, require
from cindy.export.sides import RightHandSides

__all__ = ["to_casadi", "to_sympy"]


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
    algebra = _SymPy(sympy)
    return [
        sympy.Add(
            *(
                sympy.Mul(sympy.Float(value), *(_factor(factor, symbols, algebra) for factor in term))
                for value, _, term in equations.summands(j)
            )
        )
        for j in range(len(equations.states))
    ]


def to_casadi(equations: RightHandSides) -> Any:
    """A casadi.Function f(x[, u][, t]) → xdot in first-order form.

    x: (states, 1), for second order the positions and then their rates, as xdot is
    u: (inputs, 1), an argument only where the equations have inputs
    t: the time, an argument only where terms hold it

    A map gives x_next in the place of xdot.
    """
    casadi = require("casadi", "control", "to_casadi")
    names, d = equations.first_order_states, len(equations.states)
    known = {name: casadi.SX.sym(name) for name in (*names, *equations.inputs, *(TIME,) * equations.timed)}
    algebra = _CasADi(casadi)
    sides = [
        reduce(
            add,
            (
                reduce(mul, (_factor(factor, known, algebra) for factor in term), casadi.SX(value))
                for value, _, term in equations.summands(j)
            ),
            casadi.SX(0.0),
        )
        for j in range(d)
    ]
    sides = [known[rate] for rate in names[d:]] + sides
    arguments = {"x": casadi.vertcat(*(known[name] for name in names))}
    if equations.inputs:
        arguments["u"] = casadi.vertcat(*(known[name] for name in equations.inputs))
    if equations.timed:
        arguments["t"] = known[TIME]
    result = "x_next" if equations.discrete else "xdot"
    return casadi.Function("f", list(arguments.values()), [casadi.vertcat(*sides)], list(arguments), [result])


class _Algebra(ABC):
    """What differs between systems of computer algebra; sums, products and powers are Python's own."""

    @abstractmethod
    def number(self, value: float) -> Any: ...

    @abstractmethod
    def call(self, function: str, arguments: list[Any]) -> Any:
        """sin, abs, max, …"""

    @abstractmethod
    def relation(self, sign: str, left: Any, right: Any) -> Any: ...

    @abstractmethod
    def choice(self, condition: Any, value: Any, otherwise: Any) -> Any: ...

    @abstractmethod
    def unknown(self, factor: Factor, arguments: list[Any]) -> Any:
        """A factor that is a Python function or a derivative in space."""


class _SymPy(_Algebra):
    def __init__(self, sympy: Any) -> None:
        self.sympy = sympy

    def number(self, value: float) -> Any:
        # A large number stays a float: SymPy would raise whole ones to each other digit by digit.
        whole = abs(value) < 1e9 and value == int(value)
        return self.sympy.Integer(int(value)) if whole else self.sympy.Float(value)

    def call(self, function: str, arguments: list[Any]) -> Any:
        name = {"abs": "Abs", "max": "Max", "min": "Min"}.get(function, function)
        return getattr(self.sympy, name)(*arguments)

    def relation(self, sign: str, left: Any, right: Any) -> Any:
        return self.sympy.Rel(left, right, sign)

    def choice(self, condition: Any, value: Any, otherwise: Any) -> Any:
        return self.sympy.Piecewise((value, condition), (otherwise, True))

    def unknown(self, factor: Factor, arguments: list[Any]) -> Any:
        if factor.kind != "derivative":
            return self.sympy.Function(factor.name)(*arguments)
        symbols = dict(zip(factor.variables, arguments, strict=True))
        product = self.sympy.Mul(*(_factor(inner, symbols, self) for inner in factor.of))
        return self.sympy.Derivative(product, *(self.sympy.Symbol(axis) for axis in factor.by))


class _CasADi(_Algebra):
    def __init__(self, casadi: Any) -> None:
        self.casadi = casadi

    def number(self, value: float) -> Any:
        return value

    def call(self, function: str, arguments: list[Any]) -> Any:
        name = {"abs": "fabs", "max": "fmax", "min": "fmin"}.get(function, function)
        if len(arguments) == 1:
            return getattr(self.casadi, name)(arguments[0])
        # fmax and fmin of CasADi take two arguments.
        return reduce(getattr(self.casadi, name), arguments)

    def relation(self, sign: str, left: Any, right: Any) -> Any:
        operators = {"<": "lt", "<=": "le", ">": "gt", ">=": "ge", "==": "eq", "!=": "ne"}
        return getattr(self.casadi, operators[sign])(left, right)

    def choice(self, condition: Any, value: Any, otherwise: Any) -> Any:
        return self.casadi.if_else(condition, value, otherwise)

    def unknown(self, factor: Factor, arguments: list[Any]) -> Any:
        if factor.kind == "derivative":
            raise DataError("to_casadi: derivatives in space have no value at a point.")
        raise DataError(
            f"to_casadi: the custom term {factor.name!r} is a Python function and has no formula to write. "
            "Give it to Custom as a formula, such as 'x*exp(-y)'."
        )


def _factor(factor: Factor, symbols: Mapping[str, Any], algebra: _Algebra) -> Any:
    arguments = [symbols[name] for name in factor.variables]
    if factor.kind == "variable":
        base = arguments[0]
    elif factor.kind in ("sin", "cos"):
        base = algebra.call(factor.kind, [algebra.number(factor.frequency) * arguments[0]])
    elif factor.expression is not None:
        base = _formula(factor.expression, symbols, algebra)
    else:
        base = algebra.unknown(factor, arguments)
    return base**factor.power


def _formula(node: Expression, symbols: Mapping[str, Any], algebra: _Algebra) -> Any:
    if node.operation == "number":
        return algebra.number(node.number)
    if node.operation == "symbol":
        return symbols[node.symbol]
    parts = [_formula(operand, symbols, algebra) for operand in node.operands]
    match node.operation:
        case "+":
            return reduce(add, parts)
        case "*":
            return reduce(mul, parts)
        case "-":
            return -parts[0]
        case "/":
            return parts[0] / parts[1]
        case "**":
            return parts[0] ** parts[1]
        case "where":
            return algebra.choice(_condition(node.operands[0], symbols, algebra), *parts[1:])
        case operation if operation in COMPARISONS:
            return algebra.choice(
                _condition(node, symbols, algebra), algebra.number(1.0), algebra.number(0.0)
            )
    return algebra.call(node.operation, parts)


def _condition(node: Expression, symbols: Mapping[str, Any], algebra: _Algebra) -> Any:
    """A comparison as a relation; anything else is compared with zero."""
    if node.operation not in COMPARISONS:
        return algebra.relation("!=", _formula(node, symbols, algebra), algebra.number(0.0))
    return algebra.relation(
        node.operation, *(_formula(operand, symbols, algebra) for operand in node.operands)
    )
