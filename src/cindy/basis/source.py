"""Terms as straight-line code: one assignment per step of a plan, in any language that looks like C."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import reduce

import numpy as np

from cindy._types import Floats
from cindy.basis.expression import COMPARISONS, SEVERAL, Expression
from cindy.basis.plan import Plan
from cindy.basis.term import Factor
from cindy.errors import DataError

__all__ = ["Language", "formula", "statements"]


LONGEST_SUM = 40
"""Longer sums are cut into several statements: compilers recurse over a sum."""


@dataclass(frozen=True)
class Language:
    """How a language writes what differs between languages.

    prefix: before a declaration ("double ")
    end: after a statement (";")
    module: before a mathematical function ("math.")
    absolute: its name for the absolute value
    extreme: before "max" and "min" of two numbers
    choice: condition, value where it holds, value elsewhere
    """

    prefix: str
    end: str
    module: str
    absolute: str = "fabs"
    extreme: str = ""
    choice: str = "({1} if {0} else {2})"


def statements(
    plan: Plan,
    coef: Floats,
    language: Language,
    inputs: Sequence[str],
    outputs: Sequence[str],
    calls: Mapping[Factor, str] | None = None,
) -> list[str]:
    """Assignments that compute Σ_i coef[i, j] term_i into outputs[j], every step once.

    coef: (terms, outputs); finite
    inputs: what the code calls the variables of the plan
    calls: what it calls the Python functions of custom terms
    """
    if not np.isfinite(coef).all():
        raise DataError("code: the coefficients must be finite.")
    names = dict(zip(plan.variables, inputs, strict=True))
    value: list[str] = []
    lines = []
    for k, step in enumerate(plan.steps):
        if step.left >= 0:
            code = f"{value[step.left]}*{value[step.right]}"
        elif step.factor is None:
            value.append("1.0")
            continue
        elif step.factor.kind == "variable":
            value.append(names[step.factor.variables[0]])
            continue
        else:
            code = _factor(step.factor, names, language, calls or {})
        value.append(f"w{k}")
        lines.append(f"{language.prefix}w{k} = {code}{language.end}")
    for j, output in enumerate(outputs):
        rows = np.flatnonzero(coef[:, j])
        products = [(float(coef[i, j]), value[plan.slots[i]]) for i in rows]
        chunks = [products[i : i + LONGEST_SUM] for i in range(0, len(products), LONGEST_SUM)] or [[]]
        for number, chunk in enumerate(chunks):
            sign = "+=" if number else "="
            lines.append(f"{output} {sign} {_sum(chunk)}{language.end}")
    return lines


def _sum(products: Sequence[tuple[float, str]]) -> str:
    if not products:
        return "0.0"
    pieces = []
    for i, (coefficient, value) in enumerate(products):
        sign = "-" if coefficient < 0 else "+"
        lead = ("-" if coefficient < 0 else "") if i == 0 else f" {sign} "
        size = repr(abs(coefficient))
        pieces.append(lead + (size if value == "1.0" else f"{size}*{value}"))
    return "".join(pieces)


def _factor(factor: Factor, names: Mapping[str, str], language: Language, calls: Mapping[Factor, str]) -> str:
    if factor.kind == "derivative":
        raise DataError(
            "export: derivatives in space have no value at a point, so equations of fields cannot be "
            "written as "
            "code. Use to_latex, to_sympy, or simulate."
        )
    if factor.kind != "call":
        argument = names[factor.variables[0]]
        if factor.frequency != 1.0:
            argument = f"{factor.frequency!r}*{argument}"
        return f"{language.module}{factor.kind}({argument})"
    if factor.expression is not None:
        return formula(factor.expression, names, language)
    if factor not in calls:
        raise DataError(
            f"export: the custom term {factor.name!r} is a Python function and has no source to write. "
            "Give it to Custom as a formula, such as 'x*exp(-y)'."
        )
    return f"{calls[factor]}({', '.join(names[v] for v in factor.variables)})"


def formula(node: Expression, names: Mapping[str, str], language: Language) -> str:
    """A formula as source, with the variables called as in `names`."""
    if node.operation == "number":
        return repr(node.number)
    if node.operation == "symbol":
        return names[node.symbol]
    parts = [formula(operand, names, language) for operand in node.operands]
    if node.operation == "+":
        return " + ".join(parts)
    if node.operation in ("-", "*", "/"):
        wrapped = [
            part if _binds(operand, node.operation, i) else f"({part})"
            for i, (operand, part) in enumerate(zip(node.operands, parts, strict=True))
        ]
        return f"-{wrapped[0]}" if node.operation == "-" else node.operation.join(wrapped)
    if node.operation in COMPARISONS:
        return f"(1.0*({parts[0]} {node.operation} {parts[1]}))"
    if node.operation == "sign":
        return f"(1.0*({parts[0]} > 0.0) - 1.0*({parts[0]} < 0.0))"
    if node.operation == "where":
        return language.choice.format(f"({parts[0]}) != 0.0", f"({parts[1]})", f"({parts[2]})")
    if node.operation in SEVERAL:
        return reduce(lambda a, b: f"{language.extreme}{node.operation}({a}, {b})", parts)
    name = {"**": "pow", "abs": language.absolute}.get(node.operation, node.operation)
    return f"{language.module}{name}({', '.join(parts)})"


def _binds(operand: Expression, outer: str, position: int) -> bool:
    """Whether an operand needs no parentheses."""
    if operand.operation == "number":
        return operand.number >= 0 or (outer != "-" and position == 0)
    if operand.operation in ("+", "-"):
        return False
    return operand.operation not in ("*", "/") or (outer != "-" and position == 0)
