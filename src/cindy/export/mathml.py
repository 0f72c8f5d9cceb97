"""Equations in MathML, which browsers typeset by themselves: names, terms, numbers, left-hand sides."""

from __future__ import annotations

import re
from dataclasses import replace
from html import escape

from cindy.basis import COMPARISONS, GREEK, Expression, Factor, Term, shortest
from cindy.export.sides import format_value

__all__ = ["definition", "left_side", "name", "number", "summand", "term_markup", "with_symbols"]

_THIN = '<mspace width="0.17em"/>'
_BETWEEN = '<mspace width="0.25em"/>'
_DOT = "<mo>·</mo>"
_APPLY = "<mo>&#x2061;</mo>"
_RELATIONS = {"<=": "≤", ">=": "≥", "==": "=", "!=": "≠"}


def summand(value: float, error: float, what: Term, *, first: bool, dots: bool = False) -> str:
    """One signed summand of a right-hand side, as a whole `math` element.

    first: whether it opens the side, where a plus is left out
    dots: whether factors stand apart by a dot, where names could be misread
    """
    sign = "−" if value < 0 else "" if first else "+"
    lead = f'<mo form="{"prefix" if first else "infix"}">{sign}</mo>' if sign else ""
    return f"<math>{lead}{number(format_value(abs(value), error))}{_after_number(what, dots)}</math>"


def _after_number(what: Term, dots: bool) -> str:
    return _THIN + term_markup(what, dots=dots) if what else ""


def number(text: str) -> str:
    """A formatted value: "2.00(3)e-4" with the error in a class of its own and a power of ten.

    >>> number("2.00(3)e-4")
    '<mn>2.00</mn><mn class="error">(3)</mn><mo>×</mo><msup><mn>10</mn><mn>−4</mn></msup>'
    """
    found = re.fullmatch(r"(-?[\d.]+)(\(\d+\))?(?:e(-?\d+))?", text)
    if not found:
        return f"<mtext>{escape(text)}</mtext>"
    value, error, power = found.groups()
    result = f"<mn>{value.replace('-', '−')}</mn>"
    if error:
        result += f'<mn class="error">{error}</mn>'
    if power:
        result += f"<mo>×</mo><msup><mn>10</mn><mn>{power.replace('-', '−')}</mn></msup>"
    return result


def left_side(state: str, order: int, *, discrete: bool = False, partial: bool = False) -> str:
    """The left-hand side of a state's equation, as a whole `math` element: ẋ, ẍ, dS/dt, x[k+1] or u_t."""
    head, index = _parts(state)
    if partial:
        times = '<mi class="v">t</mi>' * order
        inside = _lowered(_with_index(head, index), times)
    elif discrete:
        inside = _with_index(head, index) + "<mo>[</mo><mi>k</mi><mo>+</mo><mn>1</mn><mo>]</mo>"
    elif len(_letters(head)) == 1:
        inside = _with_index(_dotted(head, "˙" if order == 1 else "¨"), index)
    else:
        d = "<mi>d</mi>" if order == 1 else "<msup><mi>d</mi><mn>2</mn></msup>"
        t = "<mi>t</mi>" if order == 1 else "<msup><mi>t</mi><mn>2</mn></msup>"
        below = f"<mi>d</mi>{t}"
        inside = f"<mfrac><mrow>{d}{_with_index(head, index)}</mrow><mrow>{below}</mrow></mfrac>"
    return f"<math>{inside}<mo>=</mo></math>"


def definition(what: str, value: float, error: float) -> tuple[str, str]:
    """The two sides of K = 0.370(5), each a whole `math` element."""
    return f"<math>{name(what)}<mo>=</mo></math>", f"<math>{number(format_value(value, error))}</math>"


def with_symbols(what: Term) -> Term:
    """The term with its parameters as symbols in place of their values."""
    return tuple(f if f.symbolic is None else replace(f, expression=f.symbolic) for f in what)


def term_markup(what: Term, *, dots: bool = False) -> str:
    """A product of factors, or the number 1."""
    return (_DOT if dots else _BETWEEN).join(_factor(one) for one in what) or "<mn>1</mn>"


def _factor(factor: Factor) -> str:
    if factor.kind == "variable":
        return _power(name(factor.variables[0]), factor.power)
    if factor.kind == "derivative":
        axes = "".join(name(axis) for axis in factor.by)
        plain = len(factor.of) == 1 and factor.of[0].kind == "variable" and factor.of[0].power == 1
        inner = term_markup(factor.of) if plain else _in_parentheses(term_markup(factor.of))
        return _power(_lowered(inner, axes), factor.power)
    if factor.kind != "call":
        inside = name(factor.variables[0])
        if factor.frequency != 1.0:
            inside = f"<mn>{shortest(factor.frequency)}</mn>{_THIN}{inside}"
        return _power(f"<mi>{factor.kind}</mi>", factor.power) + _APPLY + _in_parentheses(inside)
    if factor.expression is None:
        return _power(f"<mtext>{escape(factor.name)}</mtext>", factor.power)
    body = _formula(factor.expression)
    simple = factor.expression.operation not in ("+", "-")
    return (
        f"<mrow>{body}</mrow>"
        if simple and factor.power == 1
        else _power(_in_parentheses(body), factor.power)
    )


def _formula(node: Expression) -> str:
    if node.operation == "number":
        return number(shortest(node.number))
    if node.operation == "symbol":
        return name(node.symbol)
    parts = [_formula(operand) for operand in node.operands]
    signed = [operand.operation in ("+", "-") for operand in node.operands]
    match node.operation:
        case "+":
            joined = "<mo>+</mo>".join(parts)
            return joined.replace("<mo>+</mo><mo>−</mo>", "<mo>−</mo>")
        case "-":
            return "<mo>−</mo>" + (_in_parentheses(parts[0]) if signed[0] else parts[0])
        case "*":
            return _THIN.join(_in_parentheses(p) if s else p for p, s in zip(parts, signed, strict=True))
        case "/":
            return f"<mfrac><mrow>{parts[0]}</mrow><mrow>{parts[1]}</mrow></mfrac>"
        case "**":
            atom = node.operands[0].operation in ("symbol", "number", "abs")
            base = f"<mrow>{parts[0]}</mrow>" if atom else _in_parentheses(parts[0])
            return f"<msup>{base}<mrow>{parts[1]}</mrow></msup>"
        case "sqrt":
            return f"<msqrt>{parts[0]}</msqrt>"
        case "abs":
            return f"<mrow><mo>|</mo>{parts[0]}<mo>|</mo></mrow>"
        case "sign":
            return f"<mi>sgn</mi>{_APPLY}{_in_parentheses(parts[0])}"
        case "where":
            rows = (
                (parts[1], _condition(node.operands[0], parts[0])),
                (parts[2], "<mtext>otherwise</mtext>"),
            )
            cells = "".join(f"<mtr><mtd>{a}</mtd><mtd>{_THIN}{b}</mtd></mtr>" for a, b in rows)
            return f"<mrow><mo>{{</mo><mtable>{cells}</mtable></mrow>"
        case operation if operation in COMPARISONS:
            return f"<mrow><mo>[</mo>{_condition(node, '')}<mo>]</mo></mrow>"
    return f"<mi>{node.operation}</mi>{_APPLY}{_in_parentheses('<mo>,</mo>'.join(parts))}"


def _condition(node: Expression, text: str) -> str:
    """A comparison without the brackets that make a number of it; anything else is compared with zero."""
    if node.operation not in COMPARISONS:
        return f"{text}<mo>≠</mo><mn>0</mn>"
    left, right = (_formula(operand) for operand in node.operands)
    return f"{left}<mo>{escape(_RELATIONS.get(node.operation, node.operation))}</mo>{right}"


def _power(body: str, power: int) -> str:
    if power == 1:
        return body
    if body.startswith("<msub>"):
        inside = body.removeprefix("<msub>").removesuffix("</msub>")
        return f"<msubsup>{inside}<mn>{power}</mn></msubsup>"
    return f"<msup>{body}<mn>{power}</mn></msup>"


def _in_parentheses(body: str) -> str:
    return f"<mrow><mo>(</mo>{body}<mo>)</mo></mrow>"


def name(text: str) -> str:
    """A variable: x1 and x_1 are x with subscript 1, omega_max is ω with subscript max, x' is ẋ."""
    head, index = _parts(text.removesuffix("'"))
    if text.endswith("'") and len(_letters(head)) == 1:
        return _with_index(_dotted(head, "˙"), index)
    return _with_index(*_parts(text))


def _dotted(head: str, dots: str) -> str:
    return f'<mover accent="true">{head}<mo stretchy="false">{dots}</mo></mover>'


def _with_index(head: str, index: str) -> str:
    return f"<msub>{head}{index}</msub>" if index else head


def _lowered(body: str, below: str) -> str:
    """A derivative by its axes; fonts without a table of mathematics lower letters too little."""
    return f'<msub><mrow>{body}</mrow><mpadded voffset="-0.25em">{below}</mpadded></msub>'


def _parts(text: str) -> tuple[str, str]:
    found = re.fullmatch(r"([^\W\d_]+)(?:_?(\d+)|_([^\W_]+))?", text)
    if not found:
        return f"<mtext>{escape(text)}</mtext>", ""
    word, digits, index = found.groups()
    head = _identifier(GREEK.get(word, word))
    if digits:
        return head, f"<mn>{digits}</mn>"
    return head, _identifier(GREEK.get(index, index)) if index else ""


def _identifier(text: str) -> str:
    """Single letters are slanted by the page, in its own font; longer names stand upright."""
    return f'<mi class="v">{text}</mi>' if len(text) == 1 else f"<mi>{text}</mi>"


def _letters(element: str) -> str:
    return re.sub(r"<[^>]*>", "", element)
