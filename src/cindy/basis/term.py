"""Terms: products of powers, sines, cosines and custom functions, their parameters, and their names."""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import lru_cache
from typing import Any, Literal

import numpy as np

from cindy import _check
from cindy._arrays import Floats
from cindy.basis.expression import CONSTANTS, FUNCTIONS, SEVERAL, Expression, number, symbol
from cindy.errors import DataError


@dataclass(frozen=True, slots=True)
class Factor:
    """A variable, the sine or cosine of a multiple of it, a custom function or a derivative, each to a power.

    Two factors are equal if they are the same function of the same variables, whatever the name of a call is.

    variables: the arguments; one, except for a call
    expression: the formula of a call, if it has one
    function: the Python function of any other call, with one column per variable as arguments
    symbolic: the formula with its parameters as symbols, if it has any; `expression` has their values
    values: these values, by name
    of, by: the term of which a derivative in space is taken, and the axes by which, in order
    """

    kind: Literal["variable", "sin", "cos", "call", "derivative"]
    variables: tuple[str, ...]
    power: int = 1
    frequency: float = 1.0
    expression: Expression | None = None
    function: Callable[..., Any] | None = None
    symbolic: Expression | None = None
    values: tuple[tuple[str, float], ...] = ()
    of: tuple[Factor, ...] = ()
    by: tuple[str, ...] = ()
    name: str = field(default="", compare=False)

    @property
    def base(self) -> Factor:
        """The factor without its power."""
        return self if self.power == 1 else replace(self, power=1)


TIME = "t"
"""The name of the time as a variable; it needs no measurements."""

Term = tuple[Factor, ...]
"""A product of factors in canonical order; the empty product is the constant 1."""

_RANK = {"variable": 0, "sin": 1, "cos": 2, "call": 3, "derivative": 4}
"""The order of factors in a product."""


def spatial(term: Term, by: Sequence[str]) -> Factor:
    """The derivative of a term by one or more axes of space.

    >>> term_name((spatial((Factor("variable", ("u",), 2),), ("x", "x")),))
    '(u^2)_xx'
    """
    names = tuple(dict.fromkeys(name for factor in term for name in factor.variables))
    return Factor("derivative", names, of=term, by=tuple(by))


def product(factors: Sequence[Factor], variables: Sequence[str]) -> Term:
    """The product in canonical order: by variable, then powers, sines, cosines; custom factors last.

    >>> x, y = Factor("variable", ("x",)), Factor("variable", ("y",))
    >>> term_name(product([y, x, y], ("x", "y")))
    'x y^2'
    """
    place = {name: i for i, name in enumerate(variables)}
    powers: dict[Factor, Factor] = {}
    for factor in factors:
        base = factor.base
        same = powers.get(base)
        powers[base] = factor if same is None else replace(same, power=same.power + factor.power)

    def rank(factor: Factor) -> tuple[Any, ...]:
        # The order follows from the variables alone, so that equal products are equal tuples.
        places = tuple(place[name] for name in factor.variables)
        kind = _RANK[factor.kind]
        return (kind >= 3, places, kind, factor.frequency, factor.name, len(factor.by), factor.by)

    return tuple(sorted(powers.values(), key=rank))


def term_name(term: Term) -> str:
    """The term as a user writes it: "1", "x^2", "x y", "sin(x) cos(2 y)"."""
    if not term:
        return "1"
    alone = len(term) == 1 and term[0].power == 1
    return " ".join(_factor_name(factor, alone) for factor in term)


def _factor_name(factor: Factor, alone: bool) -> str:
    if factor.kind == "variable":
        name = factor.variables[0]
    elif factor.kind == "derivative":
        inner = term_name(factor.of)
        plain = len(factor.of) == 1 and factor.of[0].kind == "variable" and factor.of[0].power == 1
        joint = "" if all(len(axis) == 1 for axis in factor.by) else ","
        name = f"{inner if plain else f'({inner})'}_{joint.join(factor.by)}"
    elif factor.kind == "call":
        simple = alone or re.fullmatch(r"\w+(\([^()]*\))?", factor.name)
        name = factor.name if simple else f"({factor.name})"
    else:
        argument = factor.variables[0]
        if factor.frequency != 1.0:
            argument = f"{shortest(factor.frequency)} {argument}"
        name = f"{factor.kind}({argument})"
    return name if factor.power == 1 else f"{name}^{factor.power}"


def shortest(value: float) -> str:
    """The shortest text that gives the same number when it is read; whole numbers have no point."""
    return str(int(value)) if value == int(value) and abs(value) < 1e15 else repr(float(value))


def term_variables(term: Term) -> frozenset[str]:
    """The variables that a term depends on; none for the constant."""
    return frozenset(name for factor in term for name in factor.variables)


def renamed(term: Term, mapping: Mapping[str, str], variables: Sequence[str]) -> Term:
    """The term with its variables renamed, all at the same time, in canonical order."""
    symbols = {old: symbol(new) for old, new in mapping.items()}

    def image(factor: Factor) -> Factor:
        names = tuple(mapping.get(name, name) for name in factor.variables)
        if factor.kind == "derivative":
            return replace(spatial(renamed(factor.of, mapping, variables), factor.by), power=factor.power)
        if factor.expression is None:
            return replace(factor, variables=names)
        in_order = tuple(sorted(names, key=list(variables).index))
        symbolic = None if factor.symbolic is None else factor.symbolic.replaced(symbols)
        expression = factor.expression.replaced(symbols)
        return replace(factor, variables=in_order, expression=expression, symbolic=symbolic)

    return product([image(factor) for factor in term], variables)


def differentiate(term: Term, variable: str, variables: Sequence[str]) -> tuple[tuple[float, Term], ...]:
    """d term / d variable as a sum of (coefficient, term).

    The derivative is exact, except that Python functions are differentiated by central differences.
    """

    def slope(factor: Factor) -> Iterator[tuple[float, Term]]:
        if variable in factor.variables:
            yield _slope(factor, variable)

    return _product_rule(term, slope, variables)


def _product_rule(
    term: Term, slope: Callable[[Factor], Iterable[tuple[float, Term]]], variables: Sequence[str]
) -> tuple[tuple[float, Term], ...]:
    """The derivative of a product, from the slopes of its factors without their powers."""
    result: list[tuple[float, Term]] = []
    for i, factor in enumerate(term):
        others = [*term[:i], *term[i + 1 :]]
        # By the power rule one factor of f^p is replaced by the slope of f.
        if factor.power > 1:
            others.append(replace(factor, power=factor.power - 1))
        for coefficient, inner in slope(factor.base):
            if coefficient:
                result.append((factor.power * coefficient, product([*others, *inner], variables)))
    return tuple(result)


def _slope(factor: Factor, variable: str) -> tuple[float, Term]:
    """The derivative of a factor without its power, as a coefficient and a term."""
    if factor.kind == "variable":
        return 1.0, ()
    if factor.kind == "derivative":
        raise DataError(
            f'the term "{term_name((factor,))}" is a derivative in space and has no slope at a single point.'
        )
    if factor.kind != "call":
        # d sin(k x) = k cos(k x) and d cos(k x) = −k sin(k x) are waves too, which plans evaluate once.
        other: Literal["sin", "cos"] = "cos" if factor.kind == "sin" else "sin"
        sign = 1.0 if factor.kind == "sin" else -1.0
        return sign * factor.frequency, (replace(factor, kind=other),)
    if factor.expression is None:
        assert factor.function is not None
        partial = Partial(factor.function, factor.variables.index(variable))
        return 1.0, (replace(factor, function=partial, name=f"d({factor.name})/d({variable})"),)
    return _with_formula(factor, factor.expression.derivative(variable), variable)


def _with_formula(factor: Factor, slope: Expression, by: str) -> tuple[float, Term]:
    """The slope of a call as another call, or as a number."""
    if slope.operation == "number":
        return slope.number, ()
    # Variables on which the slope does not depend are left out, so that equal slopes are equal factors.
    used, name = tuple(v for v in factor.variables if v in slope.symbols()), f"d({factor.name})/d({by})"
    return 1.0, (replace(factor, expression=slope, symbolic=None, values=(), variables=used, name=name),)


def term_parameters(term: Term) -> frozenset[str]:
    """The parameters inside a term."""
    inside = [term_parameters(factor.of) for factor in term if factor.of]
    return frozenset(name for factor in term for name, _ in factor.values).union(*inside)


def differentiate_by_parameter(
    term: Term, parameter: str, variables: Sequence[str]
) -> tuple[tuple[float, Term], ...]:
    """d term / d parameter at the current value of the parameter, as a sum of (coefficient, term)."""

    def slope(factor: Factor) -> Iterator[tuple[float, Term]]:
        # A derivative in space commutes with one by a parameter: ∂_K (g_K(u))_xx = (∂_K g_K(u))_xx.
        for weight, part in differentiate_by_parameter(factor.of, parameter, variables):
            if part:
                yield weight, (spatial(part, factor.by),)
        if factor.symbolic is not None and parameter in dict(factor.values):
            numbers = {name: number(value) for name, value in factor.values}
            yield _with_formula(factor, factor.symbolic.derivative(parameter).replaced(numbers), parameter)

    return _product_rule(term, slope, variables)


_AROUND = 10.0
"""A single start stands for the range from a tenth of it to ten times it."""
_WIDE = 3.0
"""The grid of a range whose ends have one sign and at least this ratio is logarithmic."""


@dataclass(frozen=True)
class Parameter:
    """An unknown number inside terms, with the range in which it is searched.

    The scale of the search is logarithmic if both ends have one sign and lie far apart, otherwise linear. The
    `place` of a value on it is log |value| or the value itself.

    >>> Parameter("K", 0.01, 100.0).grid(3)
    array([1.e-02, 1.e+00, 1.e+02])
    """

    name: str
    lower: float
    upper: float

    @property
    def logarithmic(self) -> bool:
        # A half-saturation of 0.01 is as likely as one of 100; a linear grid would hardly visit the lower
        # decades.
        small, large = sorted((abs(self.lower), abs(self.upper)))
        return self.lower * self.upper > 0 and large / small >= _WIDE

    @property
    def places(self) -> tuple[float, float]:
        """The places of the two ends, in increasing order."""
        first, last = sorted((self.place(self.lower), self.place(self.upper)))
        return first, last

    def place(self, value: float) -> float:
        return math.log(abs(value)) if self.logarithmic else value

    def value(self, place: float) -> float:
        """The value at a place, clipped to the range."""
        # exp(log(x)) may leave the range by a rounding error, and a term may be undefined there.
        number = math.copysign(math.exp(place), self.lower) if self.logarithmic else place
        return min(max(number, self.lower), self.upper)

    def slope(self, value: float) -> float:
        """The derivative of the value by its place."""
        return value if self.logarithmic else 1.0

    def grid(self, count: int) -> Floats:
        """So many values from one end to the other, evenly spaced on the scale of the search."""
        return np.array([self.value(place) for place in np.linspace(*self.places, count)])

    @property
    def middle(self) -> float:
        return self.value(0.5 * sum(self.places))


def read_parameters(given: Any, where: str) -> tuple[Parameter, ...]:
    """Parameters from a mapping of names to ranges (lower, upper) or starts."""
    if isinstance(given, tuple) and all(isinstance(entry, Parameter) for entry in given):
        return given
    if not isinstance(given, Mapping):
        raise DataError(
            f'{where}: `parameters` must be a mapping such as {{"K": (0.01, 10)}}, '
            f"but is {_check.short(given)}."
        )
    return tuple(_read(name, span, where) for name, span in given.items())


def _read(name: Any, span: Any, where: str) -> Parameter:
    """One parameter from its name and a range or a start."""
    if not isinstance(name, str) or not name.isidentifier():
        raise DataError(f"{where}: the name of a parameter must be a word as in a formula, but is {name!r}.")
    if name in CONSTANTS or name in FUNCTIONS or name in SEVERAL or name == "where":
        raise DataError(f"{where}: {name!r} has a meaning in formulas already; call the parameter otherwise.")
    if isinstance(span, (int, float, np.integer, np.floating)) and not isinstance(span, bool):
        start = float(span)
        if not math.isfinite(start) or start == 0:
            raise DataError(
                f"{where}: the start of {name!r} must be a finite number other than 0, which says its size, "
                f"but is {span!r}. Give a range such as (-1, 1) instead."
            )
        return Parameter(name, *sorted((start / _AROUND, start * _AROUND)))
    try:
        lower, upper = (float(end) for end in span)
    except (TypeError, ValueError):
        raise DataError(
            f"{where}: {name!r} needs a range (lower, upper) or a start, but got {span!r}."
        ) from None
    if not (math.isfinite(lower) and math.isfinite(upper)) or not lower < upper:
        raise DataError(
            f"{where}: the range of {name!r} must be two finite numbers, the lower first, but is "
            f"({lower:g}, {upper:g})."
        )
    return Parameter(name, lower, upper)


def merged(parts: Iterable[tuple[Parameter, ...]], where: str) -> tuple[Parameter, ...]:
    """The parameters of several bases; a parameter of several bases must have the same range in all."""
    parameters: dict[str, Parameter] = {}
    for part in parts:
        for parameter in part:
            first = parameters.setdefault(parameter.name, parameter)
            if first != parameter:
                ranges = " and ".join(f"({p.lower:g}, {p.upper:g})" for p in (first, parameter))
                raise DataError(
                    f"{where}: the parameter {parameter.name!r} has the ranges {ranges} in two places. "
                    "Give it one range, or two names."
                )
    return tuple(parameters.values())


@dataclass(frozen=True)
class Partial:
    """The partial derivative of a Python function by one argument, by central differences of sixth order.

    The relative error is about 1e-11 for functions that vary on the scale of their argument.
    """

    function: Callable[..., Any]
    position: int

    def __call__(self, *columns: Any) -> Any:
        middle = columns[self.position]
        # This step balances the truncation error, of order step⁶, and rounding, of order 1e-16 / step.
        step = 5e-3 * (abs(middle) + 1e-3)
        before, after = columns[: self.position], columns[self.position + 1 :]
        total = 0.0
        for k, weight in ((1, 45.0), (2, -9.0), (3, 1.0)):
            above, below = (self.function(*before, middle + s, *after) for s in (k * step, -k * step))
            total = total + weight * (above - below)
        return total / (60.0 * step)


_LETTERS = (
    "alpha beta gamma delta epsilon zeta eta theta iota kappa lambda mu nu xi pi rho sigma tau upsilon phi "
    "chi psi omega Gamma Delta Theta Lambda Xi Pi Sigma Upsilon Phi Psi Omega"
)
GREEK = dict(zip(_LETTERS.split(), "αβγδεζηθικλμνξπρστυφχψωΓΔΘΛΞΠΣΥΦΨΩ", strict=True))
"""Letters by their English names."""
_RAISED = str.maketrans("0123456789-", "⁰¹²³⁴⁵⁶⁷⁸⁹⁻")
_LOWERED = str.maketrans("0123456789", "₀₁₂₃₄₅₆₇₈₉")


def pretty(name: str) -> str:
    """The name of a variable or term with superscripts, subscripts and Greek letters.

    >>> pretty("x1^2 omega_2"), pretty("sin(2 theta)"), pretty("ES")
    ('x₁² ω₂', 'sin(2 θ)', 'ES')
    """
    # Only whole words are letters: the "pi" of "pitch" is none.
    lowered = re.sub(r"(?<![^\W_])([A-Za-z]+)(_?\d+)?(?![^\W_])", _word, name)
    return re.sub(r"\^(-?\d+)", lambda match: match[1].translate(_RAISED), lowered)


def _word(match: re.Match[str]) -> str:
    index = (match[2] or "").lstrip("_").translate(_LOWERED)
    return GREEK.get(match[1], match[1]) + index


def axis_label(name: str, units: Mapping[str, str] | None = None) -> str:
    """The label of an axis: the name, with its unit in parentheses if that is known."""
    unit = (units or {}).get(name, "")
    return f"{pretty(name)} ({unit})" if unit else pretty(name)


def equation_label(state: str, order: int, discrete: bool = False, partial: bool = False) -> str:
    """The left-hand side of a state's equation: x′, x″, x[k+1], or u_t."""
    if partial:
        return f"{pretty(state)}_{'t' * order}"
    return pretty(state) + ("[k+1]" if discrete else "′″"[order - 1])


def listed(names: Sequence[str], most: int = 6) -> str:
    """Names in a sentence; of many names only the first few.

    >>> listed(["x", "y", "z"]), listed(list("abcdefgh"), most=2)
    ('x, y and z', 'a, b and 6 more')
    """
    shown = list(names[:most])
    if len(names) > most:
        shown.append(f"{len(names) - most} more")
    return " and ".join(filter(None, [", ".join(shown[:-1]), *shown[-1:]]))


def term_label(term: Term, variables: Sequence[str]) -> str:
    """The term as it is shown: its name, unless the names of variables could be misread.

    If a name contains blanks or signs, or reads like a product of others (ES beside E and S), products are
    written with a middle dot, and names that are not one word are put in quotes.

    >>> from cindy.basis import Polynomial
    >>> [term_label(t, ("E", "S", "ES")) for t in Polynomial(2).terms(("E", "S", "ES"))[4:6]]
    ['E^2', 'E·S']
    """
    if not _misread(tuple(variables)):
        return term_name(term)
    return "·".join(_factor_label(factor) for factor in term) or "1"


def variable_label(name: str) -> str:
    """The name of a variable, in quotes if it is not one word."""
    return name if re.fullmatch(r"\w+'*|\[.*\]", name) else f'"{name}"'


def _factor_label(factor: Factor) -> str:
    if factor.kind == "call":
        return term_name((factor,))
    quoted = {name: variable_label(name) for name in factor.variables}
    return term_name((replace(factor, variables=tuple(quoted[name] for name in factor.variables)),))


@lru_cache(maxsize=64)
def _misread(variables: tuple[str, ...]) -> bool:
    """Whether products of these variables, written with blanks, could be misread."""
    if any(variable_label(name) != name or name.startswith("[") for name in variables):
        return True
    return any(_composed(name, frozenset(variables) - {name}) for name in variables if len(name) > 1)


def _composed(name: str, others: frozenset[str]) -> bool:
    """Whether a name is a sequence of two or more other names."""
    # Dynamic programming: the ends of all prefixes that are sequences of other names. A regular expression
    # would need exponential time for some names.
    ends = {0}
    for end in range(1, len(name) + 1):
        if any(name[:end].endswith(other) and end - len(other) in ends for other in others):
            ends.add(end)
    return len(name) in ends
