"""Equations in LaTeX (with amsmath)."""

from __future__ import annotations

import math
import re
from collections.abc import Mapping

from cindy.basis import COMPARISONS, GREEK, Expression, Factor, Term, shortest
from cindy.export.sides import RightHandSides, format_value

__all__ = ["to_latex"]


_GREEK = "|".join(GREEK)
_ESCAPES = {
    "\\": r"\textbackslash{}",
    "^": r"\textasciicircum{}",
    "~": r"\textasciitilde{}",
    **{c: "\\" + c for c in "{}#$%&_"},
}
_RELATIONS = {"<=": r"\le", ">=": r"\ge", "==": "=", "!=": r"\ne"}
_FUNCTIONS = {"asin": r"\arcsin", "acos": r"\arccos", "atan": r"\arctan"}


def to_latex(
    equations: RightHandSides, *, parameters: Mapping[str, tuple[float, float]] | None = None
) -> str:
    r"""An `aligned` block with one equation per state, such as \dot{x} &= -10.00(1)\, x + 10.00(1)\, y."""
    order = equations.order
    lines = []
    for j, state in enumerate(equations.states):
        head, index = _name_parts(state)
        if equations.discrete:
            left = f"{head}{index}[k+1]"
        elif equations.axes:
            left = rf"\partial_{{{'t' * order}}} {head}{index}"
        else:
            left = rf"\{'d' * order}ot{{{head}}}{index}"
        pieces: list[str] = []
        for value, error, term in equations.summands(j):
            lead = " - " if value < 0 else " + "
            if not pieces:
                lead = lead.replace("+", "").strip()
            pieces.append(
                lead + r"\, ".join([_value(abs(value), error), *_term(term, symbolic=bool(parameters))])
            )
        lines.append(f"{left} &= {''.join(pieces) or '0'}")
    for name, (value, error) in (parameters or {}).items():
        size = _value(abs(value), error if equations.with_errors else math.nan)
        lines.append(f"{_name(name)} &= {'-' if value < 0 else ''}{size}")
    return "\\begin{aligned}\n" + " \\\\\n".join(lines) + "\n\\end{aligned}"


def _value(value: float, error: float) -> str:
    return _powers(format_value(value, error)).replace("±", r"\pm")


def _number(value: float) -> str:
    return _powers(shortest(value))


def _powers(text: str) -> str:
    return re.sub(r"e\+?(-?)0*(\d+)", r" \\times 10^{\1\2}", text)


def _term(term: Term, *, symbolic: bool = False) -> list[str]:
    return [_factor(factor, alone=len(term) == 1, symbolic=symbolic) for factor in term]


def _factor(factor: Factor, *, alone: bool, symbolic: bool = False) -> str:
    power = f"^{{{factor.power}}}" if factor.power > 1 else ""
    if factor.kind == "variable":
        return _name(factor.variables[0]) + power
    if factor.kind == "derivative":
        inner = r"\, ".join(_term(factor.of))
        plain = len(factor.of) == 1 and factor.of[0].kind == "variable" and factor.of[0].power == 1
        made = rf"\partial_{{{' '.join(factor.by)}}} {inner if plain else _wrapped(inner)}"
        return _wrapped(made) + power if power else made
    if factor.kind != "call":
        argument = _name(factor.variables[0])
        if factor.frequency != 1.0:
            argument = rf"{_number(factor.frequency)}\, {argument}"
        return rf"\{factor.kind}{power}\left({argument}\right)"
    if factor.expression is None:
        body = _text(factor.name)
        return rf"{{{body}}}{power}"
    formula = factor.symbolic if symbolic and factor.symbolic is not None else factor.expression
    body = _formula(formula)
    is_simple = formula.operation not in ("+", "-")
    return body if is_simple and not power else _wrapped(body) + power


def _formula(node: Expression) -> str:
    if node.operation == "number":
        return _number(node.number)
    if node.operation == "symbol":
        return _name(node.symbol)
    parts = [_formula(operand) for operand in node.operands]
    match node.operation:
        case "+":
            return re.sub(r"\+ -", "- ", " + ".join(parts))
        case "-":
            return f"-{_wrapped(parts[0]) if node.operands[0].operation == '+' else parts[0]}"
        case "*":
            signed = [operand.operation in ("+", "-") for operand in node.operands]
            return r"\, ".join(_wrapped(p) if s else p for p, s in zip(parts, signed, strict=True))
        case "/":
            return rf"\frac{{{parts[0]}}}{{{parts[1]}}}"
        case "**":
            base = node.operands[0]
            is_atom = base.operation in ("symbol", "abs") or (base.operation == "number" and base.number >= 0)
            return f"{{{parts[0] if is_atom else _wrapped(parts[0])}}}^{{{parts[1]}}}"
        case "sqrt":
            return rf"\sqrt{{{parts[0]}}}"
        case "abs":
            return rf"\left|{parts[0]}\right|"
        case "sign":
            return rf"\operatorname{{sgn}}{_wrapped(parts[0])}"
        case "max" | "min":
            return rf"\{node.operation}{_wrapped(', '.join(parts))}"
        case "where":
            cases = (
                rf"{parts[1]} & {_condition(node.operands[0], parts[0])} \\ {parts[2]} & \text{{otherwise}}"
            )
            return rf"\begin{{cases}} {cases} \end{{cases}}"
        case operation if operation in COMPARISONS:
            return rf"\left[{_condition(node, '')}\right]"
    return _FUNCTIONS.get(node.operation, "\\" + node.operation) + _wrapped(parts[0])


def _condition(node: Expression, text: str) -> str:
    """A comparison without the brackets that make a number of it; anything else is compared with zero."""
    if node.operation not in COMPARISONS:
        return rf"{text} \ne 0"
    left, right = (_formula(operand) for operand in node.operands)
    return f"{left} {_RELATIONS.get(node.operation, node.operation)} {right}"


def _wrapped(text: str) -> str:
    return rf"\left({text}\right)"


def _name(name: str) -> str:
    head, index = _name_parts(name.removesuffix("'"))
    dotted = name.endswith("'") and not head.startswith(r"\text{")
    return rf"\dot{{{head}}}{index}" if dotted else "".join(_name_parts(name))


def _name_parts(name: str) -> tuple[str, str]:
    """A name and its subscript: x1 and x_1 are x with subscript 1, omega_max is ω with subscript max."""
    found = re.fullmatch(r"([A-Za-z]+)(?:_?(\d+)|_([A-Za-z0-9]+))?", name)
    if not found:
        return _text(name), ""
    word, number, index = found.groups()
    if re.fullmatch(_GREEK, word):
        head = "\\" + word
    else:
        head = word if len(word) == 1 else rf"\mathrm{{{word}}}"
    if number or (index and len(index) == 1):
        return head, f"_{{{number or index}}}"
    return head, rf"_{{\mathrm{{{index}}}}}" if index else ""


def _text(text: str) -> str:
    """Any text, set as it stands, with nothing in it that LaTeX would obey."""
    shown = "".join(_ESCAPES.get(c, c if c.isprintable() else " ") for c in text)
    return rf"\text{{{shown}}}"
