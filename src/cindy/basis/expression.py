"""Formulas such as "x*exp(-y)", which are parsed, evaluated and differentiated.

No text is executed: a formula becomes a tree of the operations listed below, or an error.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from itertools import pairwise
from typing import Any

import numpy as np

from cindy._arrays import Floats
from cindy._check import did_you_mean
from cindy.errors import DataError

_NAMES = "sin cos tan asin acos atan sinh cosh tanh exp log sqrt abs sign"
FUNCTIONS: dict[str, Callable[[Floats], Floats]] = {name: getattr(np, name) for name in _NAMES.split()}
"""Functions of one argument, which have the same names in numpy."""
SEVERAL: dict[str, Callable[[Floats, Floats], Floats]] = {"max": np.maximum, "min": np.minimum}
"""Functions of two arguments or more."""
COMPARISONS: dict[str, Callable[[Floats, Floats], Any]] = {
    "<": np.less,
    "<=": np.less_equal,
    ">": np.greater,
    ">=": np.greater_equal,
    "==": np.equal,
    "!=": np.not_equal,
}
"""Comparisons, whose value is 1 where they hold and 0 elsewhere."""
CONSTANTS = {"pi": float(np.pi), "e": float(np.e)}
_TINY = 1e-300
"""Replaces zero under a logarithm; about the smallest normal float."""
LONGEST = 2000
"""Characters of a formula: far more than a person writes, and still quick to parse."""
LONGEST_CHAIN = 200
"""Nested operations in the text of a formula: the parser is recursive, and Python allows a thousand."""
DEEPEST = 60
"""Levels of a simplified formula: derivatives and generated code are recursive too."""
_QUOTE, _PRIME = re.compile(r"(?<=\w)'"), "\N{MODIFIER LETTER PRIME}"
"""The prime in the name of a rate, and a letter that may stand for it in a name of Python."""


@dataclass(frozen=True, slots=True)
class Expression:
    """A node of a formula.

    operation: "number", "symbol", "+", "*", "/", "**", "-" (of one operand), a name in FUNCTIONS, SEVERAL or
        COMPARISONS, or "where" (condition, value where it is not zero, value elsewhere)
    operands: none for numbers and symbols; those of sums and products are in a fixed order, so that formulas
        that differ only in the order of their operands are equal
    """

    operation: str
    operands: tuple[Expression, ...] = ()
    number: float = 0.0
    symbol: str = ""

    def symbols(self) -> frozenset[str]:
        """The names that occur."""
        if self.operation == "symbol":
            return frozenset({self.symbol})
        return frozenset().union(*(operand.symbols() for operand in self.operands))

    def evaluate(self, values: Mapping[str, Floats]) -> Floats:
        """The value for arrays given by name; nan or inf outside the domain of the formula."""
        if self.operation == "number":
            return np.float64(self.number)  # type: ignore[return-value]
        if self.operation == "symbol":
            return values[self.symbol]
        first, *others = [operand.evaluate(values) for operand in self.operands]
        if self.operation == "**":
            return _power(first, others[0])
        if self.operation == "where":
            return np.where(np.not_equal(first, 0.0), *others)
        if self.operation in COMPARISONS:
            return np.asarray(COMPARISONS[self.operation](first, others[0]), dtype=np.float64)
        for other in others:
            first = _PAIRWISE[self.operation](first, other)
        return FUNCTIONS.get(self.operation, np.negative if self.operation == "-" else np.positive)(first)

    def replaced(self, symbols: Mapping[str, Expression]) -> Expression:
        """The formula with symbols replaced, all at the same time."""
        if self.operation == "symbol":
            return symbols.get(self.symbol, self)
        return build(self.operation, *(o.replaced(symbols) for o in self.operands)) if self.operands else self

    def derivative(self, symbol: str) -> Expression:
        """The exact derivative with respect to `symbol`."""
        if not self.operands:
            return number(1.0 if self.symbol == symbol else 0.0)
        if symbol not in self.symbols():
            return number(0.0)
        # Steps have the slope zero except at their jumps, which `switches` lists.
        if self.operation in COMPARISONS or self.operation == "sign":
            return number(0.0)
        inner = [operand.derivative(symbol) for operand in self.operands]
        if self.operation == "where":
            return build("where", self.operands[0], *inner[1:])
        if self.operation in SEVERAL:
            return self._slope_of_extreme(inner)
        if self.operation in _OUTER:
            return build("*", _OUTER[self.operation](self.operands[0]), inner[0])
        if self.operation in "+-":
            return build(self.operation, *inner)
        if self.operation == "*":
            products = [
                build("*", slope, *self.operands[:i], *self.operands[i + 1 :])
                for i, slope in enumerate(inner)
            ]
            return build("+", *products)
        a, b = self.operands
        if self.operation == "/":
            quotient = build("*", a, inner[1])
            return build(
                "+", build("/", inner[0], b), build("-", build("/", quotient, build("**", b, number(2.0))))
            )
        # d(a^b) = b a^(b−1) da + a^b log(a) db. The second part is left out if the exponent is constant,
        # because the base may then be negative and have no logarithm.
        by_base = build("*", b, build("**", a, build("+", b, number(-1.0))), inner[0])
        if _is(inner[1], 0.0):
            return by_base
        # 0^b does not depend on b, but log 0 is infinite.
        positive = a if a.operation == "number" else build("max", a, number(_TINY))
        return build("+", by_base, build("*", self, build("log", positive), inner[1]))

    def switches(self) -> tuple[Expression, ...]:
        """The expressions that change sign where the formula has a corner or a jump.

        >>> [sorted(switch.symbols()) for switch in parse("abs(x) + max(y, z)", "example").switches()]
        [['x'], ['y', 'z']]
        """
        switching: list[Expression] = []
        if self.operation in COMPARISONS or self.operation in SEVERAL:
            switching = [build("+", a, build("-", b)) for a, b in pairwise(self.operands)]
        elif self.operation in ("sign", "abs"):
            switching = list(self.operands)
        inside = [switch for operand in self.operands for switch in operand.switches()]
        return tuple(dict.fromkeys(switch for switch in (*switching, *inside) if switch.symbols()))

    def averaged(self, widths: Mapping[Expression, float]) -> Expression:
        """The formula with its jumps smoothed over a range of their switching function (`_spread`).

        widths: half of that range, by switching function as `switches` gives it; jumps of other functions
            stay, and so do corners

        >>> step = parse("sign(x)", "example").averaged({symbol("x"): 2.0})
        >>> step.evaluate({"x": np.array([-3.0, -1.0, 0.0, 1.0])})
        array([-1.  , -0.75,  0.  ,  0.75])
        """
        if self.operation in ("sign", *_SIDES) and not widths.keys() & set(self.switches()[:1]):
            return self
        if self.operation == "sign":
            return _spread(self.operands[0], widths[self.operands[0]])
        if self.operation in _SIDES:
            gap = self.switches()[0]
            half = build("*", number(_SIDES[self.operation]), _spread(gap, widths[gap]))
            return build("+", number(0.5), half)
        if not self.operands:
            return self
        if self.operation != "where":
            return build(self.operation, *(operand.averaged(widths) for operand in self.operands))
        first, holds, other = self.operands
        # Only numbers are blended, because other values may be undefined on the other side of the jump.
        if first.operation in _SIDES and holds.operation == other.operation == "number":
            step = build("*", first.averaged(widths), number(holds.number - other.number))
            return build("+", other, step)
        return build("where", first, holds.averaged(widths), other.averaged(widths))

    def _slope_of_extreme(self, inner: Sequence[Expression]) -> Expression:
        """The slope of the largest or smallest operand; at a tie, that of the first (a one-sided slope)."""
        beats = ">=" if self.operation == "max" else "<="
        best, slope = self.operands[0], inner[0]
        for other, steeper in zip(self.operands[1:], inner[1:], strict=True):
            slope = build("where", build(beats, best, other), slope, steeper)
            best = build(self.operation, best, other)
        return slope


_SIDES = {">": 0.5, ">=": 0.5, "<": -0.5, "<=": -0.5}
"""Comparisons that jump, and half of their jump."""


def _spread(g: Expression, width: float) -> Expression:
    """The mean of sign under a hat function from g − width to g + width, s (2 − |s|) with s = g / width."""
    share = build("/", g, number(width))
    inside = build("*", share, build("+", number(2.0), build("-", build("abs", share))))
    return build("where", build("<", build("abs", g), number(width)), inside, build("sign", g))


def number(value: float) -> Expression:
    return Expression("number", number=value)


def symbol(name: str) -> Expression:
    return Expression("symbol", symbol=name)


def build(operation: str, *operands: Expression) -> Expression:
    """A node without neutral operands, with numbers combined and operands in a fixed order."""
    if operation in ("+", "*"):
        return _collected(operation, operands)
    if operation in SEVERAL:
        return Expression(operation, tuple(sorted(operands, key=_rank)))
    first = operands[0]
    if operation == "-":
        if first.operation == "number":
            return number(-first.number)
        return first.operands[0] if first.operation == "-" else Expression("-", operands)
    if operation == "/":
        return first if _is(operands[1], 1.0) or _is(first, 0.0) else Expression("/", operands)
    if operation == "where" and operands[1] == operands[2]:
        return operands[1]
    if operation == "**":
        if _is(operands[1], 1.0):
            return first
        return number(1.0) if _is(operands[1], 0.0) else Expression("**", operands)
    return Expression(operation, operands)


def _collected(operation: str, operands: tuple[Expression, ...]) -> Expression:
    """A sum or product: (a + b) + c and a + (b + c) become the same node, so that equal terms are equal."""
    flat: list[Expression] = []
    for operand in operands:
        flat.extend(operand.operands if operand.operation == operation else (operand,))
    neutral = 0.0 if operation == "+" else 1.0
    constant = neutral
    parts = []
    for operand in flat:
        if operand.operation == "number":
            constant = constant + operand.number if operation == "+" else constant * operand.number
        else:
            parts.append(operand)
    if operation == "*" and constant == 0.0:
        return number(0.0)
    if constant != neutral or not parts:
        parts.append(number(constant))
    return parts[0] if len(parts) == 1 else Expression(operation, tuple(sorted(parts, key=_rank)))


def _rank(node: Expression) -> tuple[int, str]:
    simple = {"number": 0, "symbol": 1, "**": 2}
    return simple.get(node.operation, 3), repr(node)


def _is(node: Expression, value: float) -> bool:
    return node.operation == "number" and node.number == value


def _power(base: Floats, exponent: Floats) -> Floats:
    # A power of numpy is twenty times slower than a product.
    if np.ndim(exponent) == 0 and exponent in (2.0, 3.0):
        return base * base if exponent == 2.0 else base * base * base
    return np.power(base, exponent)


_PAIRWISE: dict[str, Callable[[Floats, Floats], Floats]] = {
    "+": np.add,
    "*": np.multiply,
    "/": np.divide,
    **SEVERAL,
}

_OUTER: dict[str, Callable[[Expression], Expression]] = {
    "sin": lambda a: build("cos", a),
    "cos": lambda a: build("-", build("sin", a)),
    "tan": lambda a: build("/", number(1.0), build("**", build("cos", a), number(2.0))),
    "asin": lambda a: build("/", number(1.0), build("sqrt", _one_and(a, -1.0))),
    "acos": lambda a: build("/", number(-1.0), build("sqrt", _one_and(a, -1.0))),
    "atan": lambda a: build("/", number(1.0), _one_and(a, 1.0)),
    "sinh": lambda a: build("cosh", a),
    "cosh": lambda a: build("sinh", a),
    "tanh": lambda a: build("+", number(1.0), build("-", build("**", build("tanh", a), number(2.0)))),
    "exp": lambda a: build("exp", a),
    "log": lambda a: build("/", number(1.0), a),
    "sqrt": lambda a: build("/", number(0.5), build("sqrt", a)),
    "abs": lambda a: build("sign", a),
}


def _one_and(a: Expression, sign: float) -> Expression:
    """1 ± a²."""
    return build("+", number(1.0), build("*", number(sign), build("**", a, number(2.0))))


@lru_cache(maxsize=256)
def parse(text: str, where: str) -> Expression:
    """The formula in `text`; `^` and `**` both mean a power, and x' is a name like x.

    >>> parse("x*exp(-y) + 2", "example").symbols() == {"x", "y"}
    True
    """
    if len(text) > LONGEST:
        raise DataError(f"{where} must be a formula of at most {LONGEST} characters, but has {len(text)}.")
    try:
        # Python's parser reads the text but executes nothing; `_converted` accepts only what it lists.
        tree = ast.parse(_QUOTE.sub(_PRIME, text.strip().replace("^", "**")), mode="eval")
        result = _converted(tree.body, where, 0)
        _check_depth(result, where, DEEPEST)
        check_finite(result, where)
        return result
    except (SyntaxError, RecursionError, MemoryError) as error:
        reason = getattr(error, "msg", None) or type(error).__name__
        advice = " Write products with *." if re.search(r"\w\s+\w", text) else ""
        raise DataError(
            f"{where} must be a formula such as 'x*exp(-y)', "
            f"but {text[:80]!r} cannot be read ({reason}).{advice}"
        ) from error
    except ValueError as error:
        if isinstance(error, DataError):
            raise
        raise DataError(f"{where}: {text[:80]!r} cannot be read ({error}).") from error


_COMPARED = dict(zip((ast.Lt, ast.LtE, ast.Gt, ast.GtE, ast.Eq, ast.NotEq), COMPARISONS, strict=True))
_ARITY = dict.fromkeys(FUNCTIONS, (1, 1)) | dict.fromkeys(SEVERAL, (2, 40)) | {"where": (3, 3)}
"""The fewest and the most arguments of every function."""
_OPERATORS = {ast.Add: "+", ast.Sub: "+", ast.Mult: "*", ast.Div: "/", ast.Pow: "**"}


def _converted(node: ast.expr, where: str, depth: int) -> Expression:
    """The formula of a node of Python's parser, or an error."""
    # A long sum from a file would overflow Python's stack here, or that of a compiler later.
    if depth > LONGEST_CHAIN:
        raise DataError(f"{where} has too many operations. Split the formula into several terms.")
    match node:
        case ast.Constant(value=int() | float() as value) if not isinstance(value, bool):
            return number(_finite(value, where))
        case ast.Name(id=name):
            return symbol(name.replace(_PRIME, "'"))
        case ast.UnaryOp(op=ast.USub(), operand=operand):
            return build("-", _converted(operand, where, depth + 1))
        case ast.UnaryOp(op=ast.UAdd(), operand=operand):
            return _converted(operand, where, depth + 1)
        case ast.BinOp(left=left, op=op, right=right) if type(op) in _OPERATORS:
            a, b = (_converted(side, where, depth + 1) for side in (left, right))
            return build(_OPERATORS[type(op)], a, build("-", b) if isinstance(op, ast.Sub) else b)
        case ast.Compare(left=left, ops=[op], comparators=[right]) if type(op) in _COMPARED:
            return build(_COMPARED[type(op)], *(_converted(side, where, depth + 1) for side in (left, right)))
        case ast.Call(func=ast.Name(id=name), args=arguments, keywords=[]):
            _check_call(name, len(arguments), where)
            return build(name, *(_converted(argument, where, depth + 1) for argument in arguments))
    raise DataError(
        f"{where} may hold numbers, names, + - * / **, < <= > >= == != and {', '.join(_ARITY)}, "
        f"but holds {ast.unparse(node)[:60]!r}."
    )


def _check_call(name: str, given: int, where: str) -> None:
    if name not in _ARITY:
        raise DataError(
            f"{where} uses the function {name!r}, which is not known. {did_you_mean(name, _ARITY)}"
        )
    least, most = _ARITY[name]
    if not least <= given <= most:
        expected = f"{least} argument{'s' * (least > 1)}{' or more' * (most > least)}"
        raise DataError(f"{where}: {name} takes {expected}, but got {given}.")


def check_finite(node: Expression, where: str) -> None:
    """Raise if a part of the formula without variables is not finite, such as 1e300**2, log(0) or 1/0."""
    if not node.symbols():
        with np.errstate(all="ignore"):
            value = node.evaluate({})
        if not np.isfinite(value):
            raise DataError(f"{where} holds a number that is not finite: a part of it is {float(value)}.")
        return
    for operand in node.operands:
        check_finite(operand, where)


def _check_depth(node: Expression, where: str, levels: int) -> None:
    """Raise if generated source would be nested too deeply for the parsers of Python and C."""
    if levels == 0:
        raise DataError(
            f"{where} is nested more than {DEEPEST} levels deep. Split the formula into several terms."
        )
    for operand in node.operands:
        _check_depth(operand, where, levels - 1)


def _finite(value: float, where: str) -> float:
    try:
        result = float(value)
    except OverflowError:
        result = float("inf")
    if not np.isfinite(result):
        raise DataError(f"{where} holds a number that is too large for floating point.")
    return result
