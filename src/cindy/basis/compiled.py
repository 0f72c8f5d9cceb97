"""Right-hand sides as straight-line Python functions of one state, for integrators."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from cindy._types import Floats
from cindy.basis.plan import Dictionary, Plan, call
from cindy.basis.source import Language, statements
from cindy.basis.term import Factor, Term
from cindy.errors import CindyError, DataError

__all__ = ["compile_jacobian", "compile_rhs", "scalar_source"]


_PYTHON = Language(prefix="", end="", module="")
_MATH = {name: getattr(math, name) for name in dir(math) if not name.startswith("_")}


def compile_rhs(
    terms: Sequence[Term], coef: Floats, variables: Sequence[str], given: int | None = None
) -> Callable[[float, Any, Any], list[float]]:
    """A function (t, x, u=()) that returns Σ_i coef[i, j] term_i for every equation j, as a list.

    Only terms with a coefficient are computed, and what they share is computed once. Where a term leaves
    its domain or overflows, the result is nan; a custom Python function that raises is a DataError.

    coef: (terms, states)
    variables: the states, which are given in x, then the inputs, given in u
    given: how many are given in x; as many as there are equations if None

    >>> from cindy.basis import Polynomial
    >>> terms = Polynomial(2).terms(("x", "y"))
    >>> rhs = compile_rhs(terms, np.array([[0, 1.0], [0, 0], [2, 0], [0, 0], [0, -3], [0, 0]]), ("x", "y"))
    >>> rhs(0.0, [5.0, 7.0])
    [14.0, -104.0]
    """
    source, functions = _source(terms, coef, variables, coef.shape[1] if given is None else given)
    return _function(source, functions)


def compile_jacobian(
    terms: Sequence[Term], coef: Floats, variables: Sequence[str], given: int | None = None
) -> Callable[[float, Any, Any], list[list[float]]]:
    """A function (t, x, u=()) that returns the derivative of equation j by the k-th of x as entry [j][k].

    Exact, except for custom Python functions, which are differentiated by central differences.
    """
    d = coef.shape[1] if given is None else given
    plan, slopes = Dictionary.of(tuple(terms), tuple(variables), "compile_jacobian").slopes
    flat = np.zeros((len(plan.terms), coef.shape[1] * d))
    for term, variable, coefficient, column in slopes:
        if variable < d:
            flat[column, variable::d] += coefficient * coef[term]
    source, functions = _source(plan.terms, flat, variables, d)
    row_by_row = _function(source, functions)

    def jacobian(t: float, x: ArrayLike, u: ArrayLike = ()) -> list[list[float]]:
        values = row_by_row(t, x, u)
        return [values[j : j + d] for j in range(0, len(values), d)]

    return jacobian


def scalar_source(terms: Sequence[Term], coef: Floats, variables: Sequence[str]) -> str:
    """The Python source that `compile_rhs` runs; it holds no name and no text of the user's."""
    return _source(terms, coef, variables, coef.shape[1])[0]


def _source(
    terms: Sequence[Term], coef: Floats, variables: Sequence[str], states: int
) -> tuple[str, dict[str, Callable[..., float]]]:
    if coef.shape[0] != len(terms) or states > len(variables):
        raise DataError(
            f"compile: coef must have a row for each of the {len(terms)} terms and a column for each state "
            f"among the {len(variables)} variables, but has shape {coef.shape}."
        )
    kept = [i for i, row in enumerate(coef) if row.any()]
    plan = Plan.of([terms[i] for i in kept], variables)
    factors = [step.factor for step in plan.steps if step.factor and step.factor.function]
    calls = {factor: f"call{k}" for k, factor in enumerate(factors)}
    inputs = [f"v{k}" for k in range(len(variables))]
    outputs = [f"d{j}" for j in range(coef.shape[1])]
    body = statements(plan, coef[kept], _PYTHON, inputs, outputs, calls)
    unpacked = [
        line
        for names, given in ((inputs[:states], "x"), (inputs[states:], "u"))
        if names
        for line in (
            f"if type({given}) is not list: {given} = list(map(float, {given}))",
            f"{', '.join(names)}, = {given}",
        )
    ]
    lines = ["def rhs(t, x, u=()):"]
    lines += [f"    {line}" for line in unpacked]
    lines += ["    try:", *(f"        {line}" for line in body)]
    lines += [f"        return [{', '.join(outputs)}]"]
    lines += ["    except CindyError:", "        raise"]
    lines += ["    except (ArithmeticError, ValueError):", f"        return [nan]*{len(outputs)}"]
    return "\n".join(lines) + "\n", {name: _scalar(factor) for factor, name in calls.items()}


def _scalar(factor: Factor) -> Callable[..., float]:
    """A custom Python function of numbers, called as it is for many samples, with arrays of one."""

    def function(*values: float) -> float:
        columns = [np.array([value]) for value in values]
        return float(call(factor, columns, finite=False)[0])

    return function


def _function(source: str, functions: dict[str, Callable[..., float]]) -> Callable[..., list[float]]:
    namespace: dict[str, Any] = {**_MATH, **functions, "CindyError": CindyError}
    # the source is put together from numbers and names made here, never from text that was read
    exec(compile(source, "<cindy right-hand side>", "exec"), namespace)
    made: Callable[..., list[float]] = namespace["rhs"]
    return made
