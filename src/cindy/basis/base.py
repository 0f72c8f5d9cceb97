"""Bases, which can be added, multiplied and restricted to variables, and parameters inside their terms."""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from functools import lru_cache
from typing import Any, ClassVar

import numpy as np
from numpy.typing import ArrayLike, NDArray

from cindy import _check
from cindy._arrays import Floats, Space
from cindy.basis.expression import CONSTANTS, FUNCTIONS, SEVERAL
from cindy.basis.plan import Dictionary
from cindy.basis.term import Term, renamed
from cindy.errors import DataError

Functions = Mapping[str, Callable[..., Any]]

MOST_TERMS = 200_000
"""A triangle of so many columns would take 320 GB; a larger basis is a mistake in its degree."""
DEEPEST = 40
"""Levels of a description in a file: nobody nests bases so deeply, and reading them is recursive."""
_COMPOSED = ("Sum", "Product", "Subset", "Without")

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


class Basis(ABC):
    """A family of terms over any variables (states, then inputs).

    A family defines its `terms`; names, values, derivatives and renamings follow from these. A basis never
    changes, and two bases are equal if they are written in the same way.

    >>> from cindy.basis import Fourier, Polynomial
    >>> basis = Polynomial(1) + Fourier(1)
    >>> basis.names(("x",))
    ('1', 'x', 'sin(x)', 'cos(x)')
    >>> (Polynomial(1) * Fourier(1)).names(("x",))
    ('sin(x)', 'cos(x)', 'x sin(x)', 'x cos(x)')
    """

    kinds: ClassVar[dict[str, type[Basis]]] = {}

    def __init_subclass__(cls, *, abstract: bool = False) -> None:
        if abstract:
            return
        # A class of the user may not replace the classes that +, * and `on` make.
        if cls.__name__ not in _COMPOSED or cls.__name__ not in Basis.kinds:
            Basis.kinds[cls.__name__] = cls

    @abstractmethod
    def terms(self, variables: tuple[str, ...]) -> tuple[Term, ...]:
        """The terms in these variables, distinct and in order; the caller has checked the names."""

    @abstractmethod
    def to_dict(self) -> dict[str, Any]:
        """A JSON-ready description, read back by `from_dict`."""

    @classmethod
    def _read(cls, data: Mapping[str, Any], functions: Functions, depth: int) -> Basis:
        """The inverse of `to_dict` for one family; `data` comes without its "basis" key.

        functions: the Python functions of terms, by name
        depth: how many bases contain this one, for `from_dict`
        """
        return cls(**data)

    def names(self, variables: tuple[str, ...]) -> tuple[str, ...]:
        """The terms as a user writes them; no data are needed."""
        return _dictionary(self, _check.unique_names(variables, "names: variables")).names

    def evaluate(
        self, x: ArrayLike, variables: tuple[str, ...] | None = None, *, out: Floats | None = None
    ) -> Floats:
        """The terms at the rows of x (n, variables): (n, terms), stored column by column.

        variables: names of the columns of x, by default x1, x2, …
        out: an array (n, terms) in any memory order, to which the values are written
        """
        values, dictionary = self._opened(x, variables)
        shape = (len(values), len(dictionary.names))
        if out is None:
            # Columns are written, and later factorised, one after the other.
            out = np.empty(shape, order="F")
        elif not isinstance(out, np.ndarray) or out.shape != shape or out.dtype != np.float64:
            raise DataError(
                f"evaluate: `out` must be a float array of shape {shape}, but is {_check.short(out)}."
            )
        dictionary.plan.run(values, out)
        return out

    def on_device(self, x: Any, variables: tuple[str, ...], space: Space) -> Any:
        """(terms, n): the terms at the columns of x (variables, n), in a space of arrays."""
        dictionary = _dictionary(self, tuple(variables))
        _within_floating_point(float(space.xp.max(space.xp.abs(x))), dictionary)
        return dictionary.plan.on_device(x, space)

    def derivative(self, x: ArrayLike, variables: tuple[str, ...] | None = None) -> Floats:
        """The derivative of every term by every variable at the rows of x: (n, terms, variables).

        Exact, except for Python functions in `Custom`, where it comes from central differences.
        """
        values, dictionary = self._opened(x, variables)
        # The slopes of many terms share factors, so that one plan evaluates all before they are summed.
        plan, slopes = dictionary.slopes
        table = np.empty((len(values), len(plan.terms)), order="F")
        plan.run(values, table)
        result = np.zeros((len(values), len(dictionary.names), values.shape[1]))
        for term, variable, coefficient, column in slopes:
            result[:, term, variable] += coefficient * table[:, column]
        return result

    def renamed(self, variables: tuple[str, ...], mapping: Mapping[str, str]) -> NDArray[np.intp]:
        """(terms,): for each term the index of the term that it becomes when variables are renamed, or -1.

        mapping: old name to new name, applied at once: {"x": "y", "y": "x"} exchanges x and y

        >>> from cindy.basis import Polynomial
        >>> Polynomial(2).renamed(("x", "y"), {"x": "y", "y": "x"})
        array([0, 2, 1, 5, 4, 3])
        """
        _check.unique_names(variables, "renamed: `variables`")
        _check.instance(mapping, Mapping, "renamed: `mapping`", 'a mapping such as {"x": "y", "y": "x"}')
        for name in (*mapping, *mapping.values()):
            if name not in variables:
                raise DataError(
                    f"renamed: {name!r} is not a variable. {_check.did_you_mean(name, variables)}"
                )
        terms = _dictionary(self, tuple(variables)).plan.terms
        # Terms are canonical and hashable, so that the image of a term can be looked up.
        index = {term: i for i, term in enumerate(terms)}
        return np.array([index.get(renamed(term, mapping, variables), -1) for term in terms], dtype=np.intp)

    def on_axes(self, axes: tuple[str, ...]) -> Basis:
        """The basis for data with these axes of space; it is unchanged if no term has a derivative."""
        return self

    def on(self, *variables: str) -> Basis:
        """The same family in these variables only."""
        return _composed("Subset", self, _check.unique_names(variables, "on"))

    def asks_for(self, name: str) -> bool:
        """Whether some part of the basis names a variable that need not be measured: the time, or the run."""
        return False

    def apart_from(self, hidden: tuple[str, ...]) -> Basis:
        """The basis in which only those parts use hidden variables that name them."""
        return _composed("Without", self, hidden)

    def unknowns(self) -> tuple[Parameter, ...]:
        """The parameters inside terms that have no value yet, each listed once."""
        return ()

    def parameter_names(self) -> frozenset[str]:
        """The names of all parameters inside terms, with and without a value."""
        return frozenset()

    def at(self, values: Mapping[str, float]) -> Basis:
        """The same basis with values for some parameters, by name, which are then no longer unknown."""
        parameters = self.parameter_names()
        _check.instance(values, Mapping, "at: `values`", 'a mapping such as {"K": 0.5}')
        for name in values:
            # A misspelt name would otherwise leave a parameter in the middle of its range.
            if name not in parameters:
                hint = (
                    _check.did_you_mean(name, sorted(parameters)) if parameters else "It has no parameters."
                )
                raise DataError(f"at: {_check.short(name)} is no parameter of {self!r}. {hint}")
            _check.number(values[name], f"at: the value of {name!r}")
        return self._at(values)

    def _at(self, values: Mapping[str, float]) -> Basis:
        """As `at`, for one family; `values` may hold parameters of other families."""
        return self

    def _summands(self) -> tuple[Basis, ...]:
        return (self,)

    def __add__(self, other: Basis) -> Basis:
        """The terms of both bases; a common term occurs once."""
        if not isinstance(other, Basis):
            return NotImplemented
        return _composed("Sum", (*self._summands(), *other._summands()))

    def __mul__(self, other: Basis) -> Basis:
        """Every product of a term of one basis and a term of the other; equal products occur once."""
        return _composed("Product", self, other) if isinstance(other, Basis) else NotImplemented

    @staticmethod
    def from_dict(data: Mapping[str, Any], functions: Functions | None = None) -> Basis:
        """The basis that `to_dict` described. Nothing in the description is executed.

        functions: the Python functions of `Custom` by name, which a file cannot hold
        """
        if functions is not None:
            _check.instance(functions, Mapping, "basis: `functions`", "a mapping from names to functions")
        return from_dict(data, functions or {}, 0)

    def _opened(self, x: ArrayLike, variables: tuple[str, ...] | None) -> tuple[Floats, Dictionary]:
        """The checked samples, and the dictionary of the terms in their variables."""
        values = _check.floats(x, "evaluate: x", ndim=2)
        if variables is None:
            variables = tuple(f"x{i + 1}" for i in range(values.shape[1]))
        variables = _check.unique_names(variables, "evaluate: variables")
        if len(variables) != values.shape[1]:
            raise DataError(
                f"evaluate: x must have one column for each of the {len(variables)} variables "
                f"{', '.join(variables)}, but has shape {values.shape}."
            )
        dictionary = _dictionary(self, variables)
        # np.abs(values).max() would make a copy of all samples.
        _within_floating_point(max(values.max(initial=0.0), -values.min(initial=0.0)), dictionary)
        return values, dictionary


def _composed(kind: str, *parts: Any) -> Basis:
    """A basis made of bases, by the name of its class, because `composed` imports this module."""
    return Basis.kinds[kind](*parts)


def _within_floating_point(largest: float, dictionary: Dictionary) -> None:
    """Raise if the powers of the largest value are beyond floating point."""
    if largest > 1.0 and dictionary.degree * np.log10(largest) > 300:
        raise DataError(
            f"evaluate: x holds values of size {largest:.3g}, whose power {dictionary.degree} is beyond "
            "floating point. Use other units for the states."
        )


@lru_cache(maxsize=64)
def _dictionary(basis: Basis, variables: tuple[str, ...]) -> Dictionary:
    return Dictionary.of(basis.terms(variables), variables, repr(basis))


def from_dict(data: Any, functions: Functions, depth: int) -> Basis:
    """As `Basis.from_dict`; `depth` is the number of bases that contain this one."""
    if not isinstance(data, Mapping) or not isinstance(data.get("basis"), str) or depth > DEEPEST:
        raise DataError(f'basis: expected a mapping with a "basis" entry, but got {_check.short(data)}.')
    kind = Basis.kinds.get(data["basis"])
    if kind is None:
        raise DataError(
            f"basis: unknown kind {data['basis']!r}. {_check.did_you_mean(data['basis'], Basis.kinds)}"
        )
    settings = {key: value for key, value in data.items() if key != "basis"}
    try:
        return kind._read(settings, functions, depth)
    except (KeyError, TypeError) as error:
        raise DataError(f"basis: the description of a {data['basis']} is damaged ({error}).") from error


def check_size(count: int, basis: Basis) -> None:
    """Raise if a basis has more terms than any memory holds."""
    if count > MOST_TERMS:
        raise DataError(f"{basis!r} would have {count} terms here; at most {MOST_TERMS} are allowed.")
