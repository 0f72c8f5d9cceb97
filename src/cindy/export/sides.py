"""Right-hand sides, from which every exporter starts; as text, and in computer algebra (SymPy, CasADi).

A language of formulas is a subclass of `Algebra`, which walks through the factors of a term.
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Mapping
from dataclasses import KW_ONLY, dataclass, field
from decimal import Context, Decimal
from functools import reduce
from operator import add, mul, truediv
from typing import Any

import numpy as np

from cindy._arrays import Floats
from cindy.basis import (
    COMPARISONS,
    TIME,
    Expression,
    Factor,
    Term,
    spatial,
    term_label,
    term_variables,
    variable_label,
)
from cindy.errors import DataError, require


@dataclass(frozen=True, eq=False)
class RightHandSides:
    """Terms with coefficients (terms, states), as a model has checked them.

    inputs: the measured inputs; one called t is the time, which is none, and says that terms may hold it
    errors: (terms, states), standard errors for exporters that write them; None: none are written
    order: 1 for x' = F, 2 for x'' = F
    discrete: whether F gives the next state instead of a derivative
    parameters: (value, error) of numbers inside terms by name
    kicks: variances of random kicks per unit of time, in the same states; exporters that cannot write them
        say so
    """

    terms: tuple[Term, ...]
    coef: Floats
    states: tuple[str, ...]
    inputs: tuple[str, ...] = ()
    _: KW_ONLY
    errors: Floats | None = None
    order: int = 1
    discrete: bool = False
    parameters: Mapping[str, tuple[float, float]] = field(default_factory=dict)
    kicks: RightHandSides | None = None
    timed: bool = field(init=False)

    def __post_init__(self) -> None:
        # Whoever solves the equations knows the time, so that it is not an input.
        inputs = tuple(name for name in self.inputs if name != TIME)
        object.__setattr__(self, "timed", len(inputs) < len(self.inputs))
        object.__setattr__(self, "inputs", inputs)

    @property
    def remark(self) -> str:
        """That random kicks are left out, for formats without noise; empty if there are none."""
        return ": the drift alone, random kicks are left out" if self.kicks is not None else ""

    @property
    def rates(self) -> tuple[str, ...]:
        """The rates of all states, if a term of x'' = F(x, x') holds one; else none."""
        named = tuple(f"{state}'" for state in self.states)
        # An input may be called x' as well.
        used = frozenset().union(*map(term_variables, self.terms)) - set(self.inputs)
        return named if self.order == 2 and used & set(named) else ()

    @property
    def first_order_states(self) -> tuple[str, ...]:
        """The states of the equations in first-order form: for order 2 the rates follow the positions."""
        return self.states + tuple(f"{state}'" for state in self.states) * (self.order == 2)

    @property
    def variables(self) -> tuple[str, ...]:
        """The variables of terms: states, their rates, inputs, and last the time."""
        return self.states + self.rates + self.inputs + (TIME,) * self.timed

    def summands(self, equation: int) -> Iterator[tuple[float, float, Term]]:
        """(coefficient, error, term) of the summands of one equation."""
        for i in np.flatnonzero(self.coef[:, equation]):
            times, term = shorter(self.terms[int(i)])
            error = np.nan if self.errors is None else float(self.errors[i, equation])
            yield times * float(self.coef[i, equation]), times * error, term

    @property
    def used(self) -> tuple[tuple[Term, ...], Floats]:
        """The terms that have a coefficient, and their rows of `coef`."""
        rows = np.flatnonzero(self.coef.any(axis=1))
        return tuple(self.terms[i] for i in rows), self.coef[rows]

    @property
    def axes(self) -> tuple[str, ...]:
        """The axes of space by which terms have derivatives; none for ordinary equations."""
        return tuple(dict.fromkeys(axis for term in self.terms for f in term for axis in f.by))


def shorter(term: Term) -> tuple[float, Term]:
    """2 and u u_x for (u^2)_x, which is longer to read; 1 and the term itself for others."""
    whole = term[0] if len(term) == 1 and term[0].power == 1 else None
    if whole is not None and whole.kind == "derivative" and len(whole.by) == 1 and len(whole.of) == 1:
        inner = whole.of[0]
        if inner.kind == "variable" and inner.power == 2:
            return 2.0, (inner.base, spatial((inner.base,), whole.by))
    return 1.0, term


MOST_DIGITS = 12
"""Digits of a value beyond which its error is too small to be written."""
_EXACT = Context(prec=800)
"""Enough digits for the ratio of the largest and the smallest float."""


def format_value(value: float, error: float | None = None) -> str:
    """The value up to the first digit of its error, followed by that digit of the error in parentheses.

    Small and large values are in scientific form. An error that is much larger than the value is written
    beside it. Without an error (None, zero or NaN) there are six significant digits.

    >>> format_value(28.0, 0.02), format_value(-2e-4, 3e-6), format_value(1234.0, 56.0), format_value(1 / 3)
    ('28.00(2)', '-2.00(3)e-4', '1.23(6)e3', '0.333333')
    """
    if error is None or not math.isfinite(error) or error <= 0 or not math.isfinite(value):
        return _plain(value, 6)
    # One digit of the error, and the value to that digit.
    last = _exponent(error)
    # An error that has more digits than the value is written beside it.
    if value and last > _exponent(value) + 1:
        return f"({_plain(value, 2)} ± {_plain(error, 1)})"
    if value:
        last = min(last, _exponent(value))
    # In decimals, since rounding may carry into a new leading digit.
    rounded = Decimal(value).quantize(Decimal(1).scaleb(last), context=_EXACT)
    first = rounded.adjusted() if value else last
    if first - last >= MOST_DIGITS:
        return _plain(value, MOST_DIGITS)
    uncertain = f"({round(error / 10.0**last)})"
    if _is_scientific(first) or last > 0:
        return f"{rounded.scaleb(-first, context=_EXACT):f}{uncertain}e{first}"
    return f"{rounded:f}{uncertain}"


def _plain(value: float, digits: int) -> str:
    if not math.isfinite(value) or value == 0:
        return f"{value:g}"
    mantissa, _, power = f"{value:.{digits - 1}e}".partition("e")
    if not _is_scientific(int(power)):
        return f"{value:.{digits}g}"
    return f"{mantissa.rstrip('0').rstrip('.')}e{int(power)}"


def _exponent(value: float) -> int:
    """The power of ten of the leading digit, after rounding to that digit."""
    return int(f"{value:.0e}".partition("e")[2])


def _is_scientific(exponent: int) -> bool:
    return exponent < -3 or exponent > 4


def to_text(equations: RightHandSides) -> str:
    """One line per state, such as "x' = -10.00(1) x + 10.00(1) y", and one for each parameter inside terms.

    With random kicks all equations are written as differentials.
    """
    order, kicks = equations.order, equations.kicks
    mark = "[k+1]" if equations.discrete else "_" + "t" * order if equations.axes else "'" * order
    left = [printable(variable_label(state)) + mark for state in equations.states]
    right = [_right_hand_side(equations, j) for j in range(len(left))]
    if kicks is not None:
        left = [f"d{printable(variable_label(state))}{mark[1:]}" for state in equations.states]
        right = [_differential(side, _kick(kicks, j)) for j, side in enumerate(right)]
    left += [printable(name) for name in equations.parameters]
    right += [
        format_value(value, None if equations.errors is None else error)
        for value, error in equations.parameters.values()
    ]
    width = max(map(len, left))
    # A blank in place of a sign aligns the first digits.
    signed = any(side.startswith("-") for side in right)
    return "\n".join(
        f"{name:<{width}} = {' ' if signed and not side.startswith('-') else ''}{side}"
        for name, side in zip(left, right, strict=True)
    )


def _differential(side: str, kick: str) -> str:
    """The right-hand side of a differential, such as "-2 x dt + 0.5 dW" from "-2 x" and "0.5 dW"."""
    drift = "" if side == "0" else f"({side}) dt" if " + " in side or " - " in side else f"{side} dt"
    return " + ".join(part for part in (drift, printable(kick)) if part) or "0"


def _kick(variance: RightHandSides, equation: int) -> str:
    """The random kicks of an equation, such as "0.5 dW" or "√(0.25 + 0.5 x^2) dW_x"; empty without kicks."""
    summands, states = list(variance.summands(equation)), variance.states
    if not summands:
        return ""
    increment = "dW" if len(states) == 1 else f"dW_{states[equation]}"
    value, error, term = summands[0]
    if len(summands) > 1 or term:
        return f"√({_right_hand_side(variance, equation)}) {increment}"
    # The error of a root by the first derivative: d√v = dv / 2√v.
    size = math.sqrt(value)
    return f"{format_value(size, error / (2 * size))} {increment}"


def _right_hand_side(equations: RightHandSides, equation: int) -> str:
    pieces: list[str] = []
    for value, error, term in equations.summands(equation):
        lead = " - " if value < 0 else " + "
        if not pieces:
            lead = lead.replace("+", "").strip()
        number = format_value(abs(value), error)
        pieces.append(
            lead + (f"{number} {printable(term_label(term, equations.variables))}" if term else number)
        )
    return "".join(pieces) or "0"


def printable(text: str) -> str:
    """The text with line breaks and control characters escaped, so that a name stays on its line."""
    return "".join(c if c.isprintable() else ascii(c)[1:-1] for c in text)


def to_sympy(equations: RightHandSides) -> list[Any]:
    """The right-hand sides as SymPy expressions, one per state, in symbols named after states and inputs.

    Fields, whose terms have derivatives in space, become functions of the axes and t. A custom Python
    function becomes an undefined function of its variables.
    """
    sympy = require("sympy", "sympy", "to_sympy")
    symbols = {name: sympy.Symbol(name) for name in equations.variables}
    if equations.axes:
        # Coordinates of space may be inputs, and stay symbols.
        places = [sympy.Symbol(axis) for axis in (*equations.axes, "t")]
        symbols |= {n: sympy.Function(n)(*places) for n in symbols if n not in equations.axes}
    algebra = _SymPy(sympy)
    sides = []
    for j in range(len(equations.states)):
        summands = algebra.summands(equations, j, symbols)
        sides.append(sympy.Add(*(sympy.Mul(sympy.Float(value), *factors) for value, factors in summands)))
    return sides


def to_casadi(equations: RightHandSides) -> Any:
    """A casadi.Function f(x[, u][, t]) of column vectors; see `Model.to_casadi`."""
    casadi = require("casadi", "control", "to_casadi")
    names, d = equations.first_order_states, len(equations.states)
    # CasADi reads a name in brackets as a list of names, and makes a vector of it.
    known = {
        name: casadi.SX.sym(name.strip("[]"))
        for name in (*names, *equations.inputs, *(TIME,) * equations.timed)
    }
    algebra = _CasADi(casadi)
    sides = [known[rate] for rate in names[d:]]
    for j in range(d):
        summands = algebra.summands(equations, j, known)
        products = (reduce(mul, factors, casadi.SX(value)) for value, factors in summands)
        sides.append(reduce(add, products, casadi.SX(0.0)))
    arguments = {"x": casadi.vertcat(*(known[name] for name in names))}
    if equations.inputs:
        arguments["u"] = casadi.vertcat(*(known[name] for name in equations.inputs))
    if equations.timed:
        arguments["t"] = known[TIME]
    result = "x_next" if equations.discrete else "xdot"
    return casadi.Function("f", list(arguments.values()), [casadi.vertcat(*sides)], list(arguments), [result])


class Algebra(ABC):
    """Terms in a language of formulas: the walk through their factors, and what languages differ in.

    Formulas are joined by the operators of Python unless a language overrides `joined`.
    """

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

    def joined(self, operation: str, parts: list[Any]) -> Any:
        """A sum, product, quotient or power of the parts, or the negative of one."""
        return -parts[0] if operation == "-" else reduce(_OPERATORS[operation], parts)

    def summands(
        self, equations: RightHandSides, equation: int, symbols: Mapping[str, Any]
    ) -> Iterator[tuple[float, list[Any]]]:
        """(coefficient, factors) of the summands of one equation."""
        for value, _, term in equations.summands(equation):
            yield value, [self.factor(factor, symbols) for factor in term]

    def factor(self, factor: Factor, symbols: Mapping[str, Any]) -> Any:
        """A factor in the symbols of the variables."""
        arguments = [symbols[name] for name in factor.variables]
        if factor.kind == "variable":
            base = arguments[0]
        elif factor.kind in ("sin", "cos"):
            if factor.frequency != 1.0:
                arguments = [self.joined("*", [self.number(factor.frequency), *arguments])]
            base = self.call(factor.kind, arguments)
        elif factor.expression is not None:
            base = self._formula(factor.expression, symbols)
        else:
            base = self.unknown(factor, arguments)
        return base if factor.power == 1 else self.joined("**", [base, self.number(float(factor.power))])

    def _formula(self, node: Expression, symbols: Mapping[str, Any]) -> Any:
        if node.operation == "number":
            return self.number(node.number)
        if node.operation == "symbol":
            return symbols[node.symbol]
        if node.operation in COMPARISONS:
            return self.choice(self._condition(node, symbols), self.number(1.0), self.number(0.0))
        if node.operation == "where":
            condition, *values = node.operands
            chosen = (self._formula(value, symbols) for value in values)
            return self.choice(self._condition(condition, symbols), *chosen)
        parts = [self._formula(operand, symbols) for operand in node.operands]
        known = node.operation == "-" or node.operation in _OPERATORS
        return self.joined(node.operation, parts) if known else self.call(node.operation, parts)

    def _condition(self, node: Expression, symbols: Mapping[str, Any]) -> Any:
        """A comparison as a relation; anything else is compared with zero."""
        if node.operation not in COMPARISONS:
            return self.relation("!=", self._formula(node, symbols), self.number(0.0))
        return self.relation(node.operation, *(self._formula(operand, symbols) for operand in node.operands))


_OPERATORS: dict[str, Callable[[Any, Any], Any]] = {"+": add, "*": mul, "/": truediv, "**": pow}


def without_formula(factor: Factor, where: str) -> DataError:
    """The error for a factor that cannot be written."""
    if factor.kind == "derivative":
        return DataError(f"{where}: derivatives in space have no value at a point.")
    return DataError(
        f"{where}: the custom term {factor.name!r} is a Python function and has no formula to write. "
        "Give it to Custom as a formula, such as 'x*exp(-y)'."
    )


class _SymPy(Algebra):
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
        product = self.sympy.Mul(*(self.factor(inner, symbols) for inner in factor.of))
        return self.sympy.Derivative(product, *(self.sympy.Symbol(axis) for axis in factor.by))


class _CasADi(Algebra):
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
        raise without_formula(factor, "to_casadi")
