"""The evaluation of many terms with one multiplication each: of arrays, on a device, and as source code.

Terms share factors: x, x y and x y² are one chain of products. A plan is such a chain for all terms of a
dictionary:

1. Every term becomes a sorted tuple of base factors, in which a power repeats its factor: x y² is (x, y, y).
2. From short to long tuples, a term becomes the product of an earlier term and one factor. If there is no
   such earlier term, auxiliary steps compute the missing product.
3. Rows are evaluated in blocks that fit in the cache; each step writes its values directly to a column.
4. In source code every step is a statement (`statements`); integrators get it compiled (`compile_rhs`).

So n terms cost about n multiplications per sample and one evaluation of each function, whatever their degree.
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property, reduce
from typing import Any

import numpy as np

from cindy._arrays import Floats, Space
from cindy.basis.expression import COMPARISONS, SEVERAL, Expression
from cindy.basis.term import TIME, Factor, Term, differentiate, term_name
from cindy.errors import CindyError, DataError

BLOCK = 4096
"""Rows that are evaluated at a time: a few hundred columns of so many rows fit in the cache."""
LONGEST_SUM = 40
"""Terms of a sum in one statement: compilers recurse over a sum, so that longer ones are cut."""


@dataclass(frozen=True, slots=True)
class _Operation:
    """One value: a factor, the product of two earlier values (`left` ≥ 0), or otherwise the number 1."""

    factor: Factor | None = None
    left: int = -1
    right: int = -1


@dataclass(frozen=True, eq=False)
class Plan:
    """The steps that evaluate `terms`, each using earlier ones.

    steps: in order of computation; step k makes value k
    slots: for each term, the step whose value it is
    """

    terms: tuple[Term, ...]
    variables: tuple[str, ...]
    steps: tuple[_Operation, ...]
    slots: tuple[int, ...]

    @classmethod
    def of(cls, terms: Sequence[Term], variables: Sequence[str]) -> Plan:
        """The plan of these terms, by steps 1 and 2."""
        # Step 1. Numbers stand for factors, because the tuples are hashed often.
        bases: dict[Factor, int] = {}
        units = []
        for term in terms:
            powers = [(bases.setdefault(factor.base, len(bases)), factor.power) for factor in term]
            units.append(tuple(number for number, power in powers for _ in range(power)))
        factors = list(bases)
        steps: list[_Operation] = []
        known: dict[tuple[int, ...], int] = {}

        def slot(unit: tuple[int, ...]) -> int:
            if unit not in known:
                if len(unit) < 2:
                    step = _Operation(factors[unit[0]] if unit else None)
                else:
                    # The last factor is dropped first: by degree, what remains is then a recent term.
                    drops = range(len(unit) - 1, -1, -1)
                    drop = next((i for i in drops if unit[:i] + unit[i + 1 :] in known), len(unit) - 1)
                    earlier = slot(unit[:drop] + unit[drop + 1 :])
                    step = _Operation(None, earlier, slot((unit[drop],)))
                known[unit] = len(steps)
                steps.append(step)
            return known[unit]

        # Step 2. Shorter tuples come first, so that the factors of a term are known before it.
        for unit in sorted(dict.fromkeys(units), key=len):
            slot(unit)
        return cls(tuple(terms), tuple(variables), tuple(steps), tuple(known[unit] for unit in units))

    @cached_property
    def names(self) -> tuple[str, ...]:
        """The terms as a user writes them."""
        return tuple(term_name(term) for term in self.terms)

    @cached_property
    def degree(self) -> int:
        """The largest degree of a term in all variables together."""
        return max(sum(factor.power for factor in term if factor.kind == "variable") for term in self.terms)

    @cached_property
    def slopes(self) -> tuple[Plan, tuple[tuple[int, int, float, int], ...]]:
        """A plan for the terms of which derivatives consist, and every derivative as a sum of those terms.

        A summand (term, variable, coefficient, column) of d term / d variable is `coefficient` times the term
        `column` of that plan.
        """
        columns: dict[Term, int] = {}
        entries = []
        for i, term in enumerate(self.terms):
            for j, variable in enumerate(self.variables):
                for coefficient, slope in differentiate(term, variable, self.variables):
                    entries.append((i, j, coefficient, columns.setdefault(slope, len(columns))))
        return Plan.of(tuple(columns), self.variables), tuple(entries)

    def run(self, x: Floats, out: Floats) -> None:
        """Write the terms at the rows of x (n, variables) into out (n, terms)."""
        column = dict(zip(self.slots, range(len(self.slots)), strict=True))
        place = {name: i for i, name in enumerate(self.variables)}
        # Auxiliary steps have no column in the output; all blocks write them to the same memory.
        spare = np.empty((len(self.steps) - len(column), min(BLOCK, len(x))))
        for start in range(0, len(x), BLOCK):
            rows = slice(start, min(start + BLOCK, len(x)))
            # Contiguous, because a strided column is read from memory again by every term that uses it.
            inputs = x[rows].T.copy()
            values: list[Floats] = []
            unused = 0
            for k, step in enumerate(self.steps):
                if k in column:
                    target = out[rows, column[k]]
                else:
                    target = spare[unused, : inputs.shape[1]]
                    unused += 1
                if step.left >= 0:
                    np.multiply(values[step.left], values[step.right], out=target)
                elif step.factor is None:
                    target.fill(1.0)
                else:
                    _write(step.factor, [inputs[place[v]] for v in step.factor.variables], target, start)
                values.append(target)

    def on_device(self, x: Any, space: Space) -> Any:
        """(terms, n): the terms at the columns of x (variables, n), in a space of arrays."""
        xp = space.xp
        samples = int(x.shape[1])
        out = xp.empty((len(self.terms), samples), dtype=xp.float64, device=space.device)
        column = dict(zip(self.slots, range(len(self.slots)), strict=True))
        given = {name: x[i, :] for i, name in enumerate(self.variables)}
        values: list[Any] = []
        for k, step in enumerate(self.steps):
            if step.left >= 0:
                value = values[step.left] * values[step.right]
            elif step.factor is None:
                value = xp.ones((samples,), dtype=xp.float64, device=space.device)
            else:
                value = _on_device(step.factor, [given[v] for v in step.factor.variables], space)
            if k in column:
                out[column[k], :] = value
                value = out[column[k], :]
            values.append(value)
        return out


def _write(factor: Factor, columns: list[Floats], target: Floats, start: int) -> None:
    """Write the values of a factor without its power to `target`."""
    if factor.kind == "variable":
        target[:] = columns[0]
    elif factor.kind == "call":
        target[:] = call(factor, columns, start)
    elif factor.kind == "derivative":
        raise DataError(
            f'evaluate: the term "{term_name((factor,))}" is a derivative in space, which rows of values '
            "cannot give. Terms with derivatives need a Field."
        )
    else:
        np.multiply(columns[0], factor.frequency, out=target)
        (np.sin if factor.kind == "sin" else np.cos)(target, out=target)


def _on_device(factor: Factor, columns: list[Any], space: Space) -> Any:
    if factor.kind == "variable":
        return columns[0]
    if factor.kind in ("sin", "cos"):
        wave = space.xp.sin if factor.kind == "sin" else space.xp.cos
        return wave(columns[0] * factor.frequency)
    # Functions of the user are written for numpy.
    return space.put(call(factor, [space.get(column) for column in columns]))


def call(factor: Factor, columns: Sequence[Floats], start: int = 0, *, finite: bool = True) -> Floats:
    """The n values of a custom factor at columns of length n, or an error that names the function.

    start: number of the first sample, for the message
    finite: whether nan and inf are errors
    """
    n = len(columns[0])
    where = f"Custom: the function {factor.name!r}"
    # A function that changes its argument in place would change the data for all later terms.
    views = [values.view() for values in columns]
    for view in views:
        view.flags.writeable = False
    try:
        with np.errstate(all="ignore"):
            if factor.expression is not None:
                result = factor.expression.evaluate(dict(zip(factor.variables, views, strict=True)))
            else:
                assert factor.function is not None
                result = factor.function(*views)
        array = np.asarray(result)
    except Exception as error:
        raise DataError(
            f"{where} raised {type(error).__name__}: {error}. "
            f"It is called with arrays of shape ({n},) and must work on them element by element."
        ) from error
    if array.shape != (n,):
        raise DataError(
            f"{where} must return one number per sample, an array of shape ({n},), "
            f"but returned shape {array.shape}."
        )
    if array.dtype.kind not in "fiub":
        raise DataError(f"{where} must return real numbers, but returned {array.dtype}.")
    if finite and not np.isfinite(array).all():
        row = int(np.argmin(np.isfinite(array)))
        arguments = ", ".join(
            f"{name} = {values[row]:.6g}" for name, values in zip(factor.variables, columns, strict=True)
        )
        raise DataError(
            f"{where} must return finite numbers, but gave {array[row]} at sample {start + row} "
            f"({arguments}). Change the function or leave those samples out."
        )
    return np.asarray(array, dtype=np.float64)


@dataclass(frozen=True)
class Language:
    """The notation of one programming language, as far as languages differ.

    prefix: before a declaration ("double ")
    end: after a statement (";")
    module: before a mathematical function ("math.")
    absolute: its name for the absolute value
    extreme: what stands before "max" and "min" of two numbers
    power: pattern of base and exponent; empty if the sign ^ stands between them
    truth: pattern that turns a condition into the number 1 or 0
    choice: pattern of a condition, the value if it holds, and the value otherwise
    equal, unequal: patterns of conditions on two numbers
    """

    prefix: str = ""
    end: str = ""
    module: str = ""
    absolute: str = "fabs"
    extreme: str = ""
    power: str = "pow({0}, {1})"
    truth: str = "(1.0*({0}))"
    choice: str = "({1} if {0} else {2})"
    equal: str = "({0}) == ({1})"
    unequal: str = "({0}) != ({1})"


def statements(
    plan: Plan,
    coef: Floats,
    language: Language,
    inputs: Sequence[str],
    outputs: Sequence[str],
    calls: Mapping[Factor, str] | None = None,
    *,
    symbols: Mapping[tuple[int, int], str] | None = None,
    parameters: Mapping[str, str] | None = None,
) -> list[str]:
    """Assignments that compute outputs[j] = Σ_i coef[i, j] term_i, with each step of the plan once.

    coef: (terms, outputs), finite
    inputs: names of the variables of the plan in the code
    calls: names of the Python functions of custom terms
    symbols: names of coefficients, by (term, output); all others are written as numbers
    parameters: names of the parameters inside terms; None: they are written as numbers
    """
    if not np.isfinite(coef).all():
        raise DataError("code: the coefficients must be finite.")
    names = dict(zip(plan.variables, inputs, strict=True)) | dict(parameters or {})
    value: list[str] = []
    lines = []
    for k, step in enumerate(plan.steps):
        if step.left >= 0:
            code = f"{value[step.left]}*{value[step.right]}"
        elif step.factor is None:
            # Constants and variables get no statement of their own, so that the code stays readable.
            value.append("1.0")
            continue
        elif step.factor.kind == "variable":
            value.append(names[step.factor.variables[0]])
            continue
        else:
            code = factor_code(step.factor, names, language, calls or {}, symbolic=parameters is not None)
        value.append(f"w{k}")
        lines.append(f"{language.prefix}w{k} = {code}{language.end}")
    for j, output in enumerate(outputs):
        rows = np.flatnonzero(coef[:, j])
        products = [(float(coef[i, j]), (symbols or {}).get((int(i), j)), value[plan.slots[i]]) for i in rows]
        # An equation without terms still needs a statement, which says that the derivative is zero.
        chunks = [products[i : i + LONGEST_SUM] for i in range(0, len(products), LONGEST_SUM)] or [[]]
        for number, chunk in enumerate(chunks):
            sign = "+=" if number else "="
            lines.append(f"{output} {sign} {_sum(chunk)}{language.end}")
    return lines


def _sum(products: Sequence[tuple[float, str | None, str]]) -> str:
    """The sum of coefficients, by name or as numbers, times values."""
    pieces: list[str] = []
    for coefficient, symbol, value in products:
        minus = symbol is None and coefficient < 0
        lead = (" - " if minus else " + ") if pieces else "-" * minus
        size = repr(abs(coefficient)) if symbol is None else symbol
        pieces.append(lead + (size if value == "1.0" else f"{size}*{value}"))
    return "".join(pieces) or "0.0"


def factor_code(
    factor: Factor,
    names: Mapping[str, str],
    language: Language,
    calls: Mapping[Factor, str],
    *,
    symbolic: bool = False,
) -> str:
    """The source of a factor without its power.

    symbolic: whether parameters are written by their names, which `names` then contains, or as numbers
    """
    if factor.kind == "derivative":
        raise DataError(
            "export: derivatives in space have no value at a point, so equations of fields cannot be "
            "written as code. Use to_latex, to_sympy, or simulate."
        )
    if factor.kind == "variable":
        return names[factor.variables[0]]
    if factor.kind != "call":
        argument = names[factor.variables[0]]
        if factor.frequency != 1.0:
            argument = f"{factor.frequency!r}*{argument}"
        return f"{language.module}{factor.kind}({argument})"
    expression = factor.symbolic if symbolic and factor.symbolic is not None else factor.expression
    if expression is not None:
        return formula(expression, names, language)
    if factor not in calls:
        raise DataError(
            f"export: the custom term {factor.name!r} is a Python function and has no source to write. "
            "Give it to Custom as a formula, such as 'x*exp(-y)'."
        )
    return f"{calls[factor]}({', '.join(names[v] for v in factor.variables)})"


def formula(node: Expression, names: Mapping[str, str], language: Language) -> str:
    """The source of a formula whose variables have the names in `names`."""
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
        return language.truth.format(_condition(node, names, language))
    if node.operation == "sign":
        # Few languages have a sign function, and C's copysign gives ±1 at zero.
        above, below = (language.truth.format(f"({parts[0]}) {sign} 0.0") for sign in "><")
        return f"({above} - {below})"
    if node.operation == "where":
        condition = _condition(node.operands[0], names, language)
        return language.choice.format(condition, f"({parts[1]})", f"({parts[2]})")
    if node.operation in SEVERAL:
        return reduce(lambda a, b: f"{language.extreme}{node.operation}({a}, {b})", parts)
    if node.operation == "**":
        if language.power:
            return language.module + language.power.format(*parts)
        return "^".join(part if re.fullmatch(r"\w+", part) else f"({part})" for part in map(_whole, parts))
    name = language.absolute if node.operation == "abs" else node.operation
    return f"{language.module}{name}({', '.join(parts)})"


def _whole(number: str) -> str:
    """2 for 2.0, because languages compute whole powers by products."""
    return re.sub(r"^(\d+)\.0$", r"\1", number)


def _condition(node: Expression, names: Mapping[str, str], language: Language) -> str:
    """The source of a condition; an expression that is no comparison is compared with zero."""
    if node.operation not in COMPARISONS:
        return language.unequal.format(formula(node, names, language), "0.0")
    left, right = (formula(operand, names, language) for operand in node.operands)
    if node.operation in ("==", "!="):
        return (language.equal if node.operation == "==" else language.unequal).format(left, right)
    return f"({left}) {node.operation} ({right})"


def _binds(operand: Expression, outer: str, position: int) -> bool:
    """Whether an operand needs no parentheses beside the outer operation."""
    if operand.operation == "number":
        return operand.number >= 0 or (outer != "-" and position == 0)
    if operand.operation in ("+", "-"):
        return False
    return operand.operation not in ("*", "/") or (outer != "-" and position == 0)


_PYTHON = Language()
_MATH = {name: getattr(math, name) for name in dir(math) if not name.startswith("_")}


def compile_rhs(
    terms: Sequence[Term], coef: Floats, variables: Sequence[str], given: int | None = None
) -> Callable[[float, Any, Any], list[float]]:
    """A function (t, x, u=()) that returns Σ_i coef[i, j] term_i for every equation j, as a list.

    Only terms with a coefficient are computed, and common factors only once. The result is nan if a term
    leaves its domain or overflows; a custom Python function that raises an error becomes a DataError.

    coef: (terms, states)
    variables: the states, whose values are in x, then the inputs, whose values are in u; an input called t is
        the time, which is not in u
    given: the number of values in x; None: as many as there are equations

    >>> from cindy.basis import Polynomial
    >>> terms = Polynomial(2).terms(("x", "y"))
    >>> rhs = compile_rhs(terms, np.array([[0, 1.0], [0, 0], [2, 0], [0, 0], [0, -3], [0, 0]]), ("x", "y"))
    >>> rhs(0.0, [5.0, 7.0])
    [14.0, -104.0]
    """
    source, functions = _source(terms, coef, variables, coef.shape[1] if given is None else given)
    namespace: dict[str, Any] = {**_MATH, **functions, "CindyError": CindyError}
    # The source consists of numbers and of names made in this module, never of text that was read.
    exec(compile(source, "<cindy right-hand side>", "exec"), namespace)
    rhs: Callable[[float, Any, Any], list[float]] = namespace["rhs"]
    return rhs


def _source(
    terms: Sequence[Term], coef: Floats, variables: Sequence[str], states: int
) -> tuple[str, dict[str, Callable[..., float]]]:
    if coef.shape[0] != len(terms) or states > len(variables):
        raise DataError(
            f"compile: coef must have a row for each of the {len(terms)} terms and a column for each state "
            f"among the {len(variables)} variables, but has shape {coef.shape}."
        )
    # Terms without a coefficient are left out, because they may be undefined where the model is defined.
    used = np.flatnonzero(coef.any(axis=1)).tolist()
    plan = Plan.of([terms[i] for i in used], variables)
    called = [step.factor for step in plan.steps if step.factor and step.factor.function]
    calls = {factor: f"call{k}" for k, factor in enumerate(called)}
    timed = [k >= states and name == TIME for k, name in enumerate(variables)]
    inputs = ["t" if clock else f"v{k}" for k, clock in enumerate(timed)]
    measured = [name for name in inputs[states:] if name != "t"]
    outputs = [f"d{j}" for j in range(coef.shape[1])]
    body = statements(plan, coef[used], _PYTHON, inputs, outputs, calls)
    unpacked = [
        line
        for names, given in ((inputs[:states], "x"), (measured, "u"))
        if names
        for line in (
            # Arithmetic on numpy scalars is several times slower than on Python's own numbers.
            f"if type({given}) is not list: {given} = list(map(float, {given}))",
            f"{', '.join(names)}, = {given}",
        )
    ]
    lines = ["def rhs(t, x, u=()):"]
    lines += [f"    {line}" for line in unpacked]
    lines += ["    try:", *(f"        {line}" for line in body)]
    lines += [f"        return [{', '.join(outputs)}]"]
    lines += ["    except CindyError:", "        raise"]
    # An integrator shortens its step if it gets nan; an exception of `math` would end the run.
    lines += ["    except (ArithmeticError, ValueError):", f"        return [nan]*{len(outputs)}"]
    return "\n".join(lines) + "\n", {name: _scalar(factor) for factor, name in calls.items()}


def _scalar(factor: Factor) -> Callable[..., float]:
    """A custom Python function as a function of numbers; it is called with arrays of one sample."""

    def function(*values: float) -> float:
        columns = [np.array([value]) for value in values]
        return float(call(factor, columns, finite=False)[0])

    return function
