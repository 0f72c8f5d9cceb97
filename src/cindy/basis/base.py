"""A basis: which terms a right-hand side may be made of. Bases add, multiply and restrict to variables."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import lru_cache
from typing import Any, ClassVar

import numpy as np
from numpy.typing import ArrayLike, NDArray

from cindy import _check
from cindy._arrays import Space
from cindy._types import Floats
from cindy.basis.parameter import Parameter, merged
from cindy.basis.plan import Dictionary
from cindy.basis.term import Term, product, renamed
from cindy.errors import DataError

__all__ = ["Basis", "Product", "Subset", "Sum", "basis_from_dict"]

Functions = Mapping[str, Callable[..., Any]]

MOST_TERMS = 200_000
DEEPEST = 40


class Basis(ABC):
    """A family of terms over any variables (states, then inputs).

    A family says what its `terms` are; names, values, derivatives and renamings follow from that. Bases
    are values: equal when they are written alike, and never changed.
    """

    kinds: ClassVar[dict[str, type[Basis]]] = {}

    def __init_subclass__(cls) -> None:
        Basis.kinds[cls.__name__] = cls

    @abstractmethod
    def terms(self, variables: tuple[str, ...]) -> tuple[Term, ...]:
        """The terms, distinct and in order."""

    @abstractmethod
    def to_dict(self) -> dict[str, Any]:
        """A JSON-ready description, read back by `basis_from_dict`."""

    @classmethod
    @abstractmethod
    def _read(cls, data: Mapping[str, Any], functions: Functions, depth: int) -> Basis:
        """The inverse of `to_dict` for one family; `data` without its "basis" key."""

    def names(self, variables: tuple[str, ...]) -> tuple[str, ...]:
        """The terms as a user writes them; needs no data."""
        return _dictionary(self, _check.unique_names(variables, "names: variables")).names

    def evaluate(
        self, x: ArrayLike, variables: tuple[str, ...] | None = None, *, out: Floats | None = None
    ) -> Floats:
        """The terms at the rows of x (n, variables): (n, terms), stored column by column.

        variables: names of the columns of x; x1, x2, … if not given
        out: where to write, of shape (n, terms) and any memory order
        """
        values, dictionary = self._opened(x, variables)
        shape = (len(values), len(dictionary.names))
        if out is None:
            # columns are written, and later factorised, one after the other
            out = np.empty(shape, order="F")
        elif out.shape != shape or out.dtype != np.float64:
            raise DataError(
                f"evaluate: `out` must be a float array of shape {shape}, but has {out.shape}, {out.dtype}."
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
        plan, slopes = dictionary.slopes
        table = np.empty((len(values), len(plan.terms)), order="F")
        plan.run(values, table)
        result = np.zeros((len(values), len(dictionary.names), values.shape[1]))
        for term, variable, coefficient, column in slopes:
            result[:, term, variable] += coefficient * table[:, column]
        return result

    def renamed(self, variables: tuple[str, ...], mapping: Mapping[str, str]) -> NDArray[np.intp]:
        """(terms,): for each term the index of the term it becomes when variables are renamed, or -1.

        mapping: old name to new name, all at once; {"x": "y", "y": "x"} exchanges two

        >>> from cindy.basis import Polynomial
        >>> Polynomial(2).renamed(("x", "y"), {"x": "y", "y": "x"})
        array([0, 2, 1, 5, 4, 3])
        """
        for name in (*mapping, *mapping.values()):
            if name not in variables:
                raise DataError(
                    f"renamed: {name!r} is not a variable. {_check.did_you_mean(name, variables)}"
                )
        terms = _dictionary(self, tuple(variables)).plan.terms
        index = {term: i for i, term in enumerate(terms)}
        return np.array([index.get(renamed(term, mapping, variables), -1) for term in terms], dtype=np.intp)

    def on_axes(self, axes: tuple[str, ...]) -> Basis:
        """The basis on data with these axes of space; the same where no term has a derivative."""
        return self

    def on(self, *variables: str) -> Basis:
        """The same family in these variables only."""
        return Subset(self, _check.unique_names(variables, "on"))

    def asks_for(self, name: str) -> bool:
        """Whether some part names a variable that need not be measured: the time, or the run."""
        return False

    def apart_from(self, hidden: tuple[str, ...]) -> Basis:
        """The basis in which only those parts see hidden variables that name them."""
        return Without(self, hidden)

    def unknowns(self) -> tuple[Parameter, ...]:
        """The parameters inside terms that have no value yet, each once."""
        return ()

    def at(self, values: Mapping[str, float]) -> Basis:
        """The same basis with parameters at these values, by name; they are then no longer unknown."""
        return self

    def __add__(self, other: Basis) -> Basis:
        """The terms of both, a common term once."""
        if not isinstance(other, Basis):
            return NotImplemented
        parts = [part.parts if isinstance(part, Sum) else (part,) for part in (self, other)]
        return Sum((*parts[0], *parts[1]))

    def __mul__(self, other: Basis) -> Basis:
        """Every product of a term of one and a term of the other, each once."""
        return Product(self, other) if isinstance(other, Basis) else NotImplemented

    @staticmethod
    def from_dict(data: Mapping[str, Any], functions: Functions | None = None) -> Basis:
        """The basis that `to_dict` described; `functions` gives back the Python functions of `Custom`."""
        return basis_from_dict(data, functions)

    def _opened(self, x: ArrayLike, variables: tuple[str, ...] | None) -> tuple[Floats, Dictionary]:
        values = _check.floats(x, "evaluate: x", ndim=2)
        largest = max(float(values.max(initial=0.0)), -float(values.min(initial=0.0)))
        if variables is None:
            variables = tuple(f"x{i + 1}" for i in range(values.shape[1]))
        if len(variables) != values.shape[1]:
            raise DataError(
                f"evaluate: x must have one column for each of the {len(variables)} variables "
                f"{', '.join(variables)}, but has shape {values.shape}."
            )
        dictionary = _dictionary(self, tuple(variables))
        _within_floating_point(largest, dictionary)
        return values, dictionary


def _within_floating_point(largest: float, dictionary: Dictionary) -> None:
    if largest > 1.0 and dictionary.degree * np.log10(largest) > 300:
        raise DataError(
            f"evaluate: x holds values of size {largest:.3g}, whose power {dictionary.degree} is beyond "
            "floating point. Use other units for the states."
        )


@lru_cache(maxsize=64)
def _dictionary(basis: Basis, variables: tuple[str, ...]) -> Dictionary:
    _check.unique_names(variables, "variables")
    return Dictionary.of(basis.terms(variables), variables, repr(basis))


@dataclass(frozen=True)
class Sum(Basis):
    """The terms of several bases, each term once, in order of first occurrence; usually written a + b."""

    parts: tuple[Basis, ...]

    def terms(self, variables: tuple[str, ...]) -> tuple[Term, ...]:
        return tuple(dict.fromkeys(term for part in self.parts for term in part.terms(variables)))

    def asks_for(self, name: str) -> bool:
        return any(part.asks_for(name) for part in self.parts)

    def apart_from(self, hidden: tuple[str, ...]) -> Basis:
        return Sum(tuple(part.apart_from(hidden) for part in self.parts))

    def unknowns(self) -> tuple[Parameter, ...]:
        return merged([part.unknowns() for part in self.parts], repr(self))

    def at(self, values: Mapping[str, float]) -> Basis:
        return Sum(tuple(part.at(values) for part in self.parts))

    def on_axes(self, axes: tuple[str, ...]) -> Basis:
        return Sum(tuple(part.on_axes(axes) for part in self.parts))

    def to_dict(self) -> dict[str, Any]:
        return {"basis": "Sum", "parts": [part.to_dict() for part in self.parts]}

    @classmethod
    def _read(cls, data: Mapping[str, Any], functions: Functions, depth: int) -> Basis:
        parts = data["parts"]
        if not isinstance(parts, list) or not parts:
            raise DataError(f"basis: the parts of a Sum must be a list, but are {parts!r}.")
        return cls(tuple(_from_dict(part, functions, depth + 1) for part in parts))

    def __repr__(self) -> str:
        return " + ".join(map(repr, self.parts))


@dataclass(frozen=True)
class Product(Basis):
    """Every product of a term of `left` and a term of `right`, each once; usually written a * b."""

    left: Basis
    right: Basis

    def terms(self, variables: tuple[str, ...]) -> tuple[Term, ...]:
        left, right = self.left.terms(variables), self.right.terms(variables)
        check_size(len(left) * len(right), self)
        return tuple(dict.fromkeys(product((*a, *b), variables) for a in left for b in right))

    def asks_for(self, name: str) -> bool:
        return self.left.asks_for(name) or self.right.asks_for(name)

    def apart_from(self, hidden: tuple[str, ...]) -> Basis:
        return Product(self.left.apart_from(hidden), self.right.apart_from(hidden))

    def unknowns(self) -> tuple[Parameter, ...]:
        return merged([part.unknowns() for part in (self.left, self.right)], repr(self))

    def at(self, values: Mapping[str, float]) -> Basis:
        return Product(self.left.at(values), self.right.at(values))

    def to_dict(self) -> dict[str, Any]:
        return {"basis": "Product", "left": self.left.to_dict(), "right": self.right.to_dict()}

    @classmethod
    def _read(cls, data: Mapping[str, Any], functions: Functions, depth: int) -> Basis:
        left, right = (_from_dict(data[side], functions, depth + 1) for side in ("left", "right"))
        return cls(left, right)

    def __repr__(self) -> str:
        return " * ".join(
            f"({part!r})"
            if isinstance(part, Sum) or (isinstance(part, Product) and part is self.right)
            else repr(part)
            for part in (self.left, self.right)
        )


@dataclass(frozen=True)
class Subset(Basis):
    """A basis in some of the variables, in the order given; usually written basis.on("x", "y")."""

    basis: Basis
    variables: tuple[str, ...]

    def terms(self, variables: tuple[str, ...]) -> tuple[Term, ...]:
        for name in self.variables:
            if name not in variables:
                raise DataError(
                    f"{self!r}: {name!r} is not a variable. {_check.did_you_mean(name, variables)}"
                )
        inner = self.basis.terms(self.variables)
        return tuple(product(term, variables) for term in inner)

    def asks_for(self, name: str) -> bool:
        return name in self.variables or self.basis.asks_for(name)

    def apart_from(self, hidden: tuple[str, ...]) -> Basis:
        return self

    def unknowns(self) -> tuple[Parameter, ...]:
        return self.basis.unknowns()

    def at(self, values: Mapping[str, float]) -> Basis:
        return Subset(self.basis.at(values), self.variables)

    def on_axes(self, axes: tuple[str, ...]) -> Basis:
        return Subset(self.basis.on_axes(axes), self.variables)

    def to_dict(self) -> dict[str, Any]:
        return {"basis": "Subset", "of": self.basis.to_dict(), "variables": list(self.variables)}

    @classmethod
    def _read(cls, data: Mapping[str, Any], functions: Functions, depth: int) -> Basis:
        names = data["variables"]
        if not isinstance(names, list):
            raise DataError(f"basis: the variables of a Subset must be a list of names, but are {names!r}.")
        return cls(
            _from_dict(data["of"], functions, depth + 1), _check.unique_names(names, "basis: variables")
        )

    def __repr__(self) -> str:
        inner = f"({self.basis!r})" if isinstance(self.basis, (Sum, Product)) else repr(self.basis)
        return f"{inner}.on({', '.join(map(repr, self.variables))})"


@dataclass(frozen=True)
class Without(Basis):
    """A basis in all variables but some."""

    basis: Basis
    hidden: tuple[str, ...]

    def terms(self, variables: tuple[str, ...]) -> tuple[Term, ...]:
        return self.basis.terms(tuple(name for name in variables if name not in self.hidden))

    def unknowns(self) -> tuple[Parameter, ...]:
        return self.basis.unknowns()

    def at(self, values: Mapping[str, float]) -> Basis:
        return Without(self.basis.at(values), self.hidden)

    def to_dict(self) -> dict[str, Any]:
        return {"basis": "Without", "of": self.basis.to_dict(), "hidden": list(self.hidden)}

    @classmethod
    def _read(cls, data: Mapping[str, Any], functions: Functions, depth: int) -> Basis:
        hidden = _check.unique_names(data["hidden"], "basis: hidden")
        return cls(_from_dict(data["of"], functions, depth + 1), hidden)

    def __repr__(self) -> str:
        return repr(self.basis)


def basis_from_dict(data: Mapping[str, Any], functions: Functions | None = None) -> Basis:
    """The basis that `to_dict` described; never executes what it reads.

    functions: by name, the Python functions of `Custom`, which a file cannot hold
    """
    return _from_dict(data, functions or {}, 0)


def _from_dict(data: Any, functions: Functions, depth: int) -> Basis:
    if not isinstance(data, Mapping) or not isinstance(data.get("basis"), str) or depth > DEEPEST:
        raise DataError(f'basis: expected a mapping with a "basis" entry, but got {str(data)[:80]!r}.')
    kind = Basis.kinds.get(data["basis"])
    if kind is None:
        raise DataError(
            f"basis: unknown kind {data['basis']!r}. {_check.did_you_mean(data['basis'], Basis.kinds)}"
        )
    rest = {key: value for key, value in data.items() if key != "basis"}
    try:
        result = kind._read(rest, functions, depth)
    except (KeyError, TypeError) as error:
        raise DataError(f"basis: the description of a {data['basis']} is damaged ({error}).") from error
    return result


def check_size(count: int, basis: Basis) -> None:
    """Refuse a dictionary that no memory would hold."""
    if count > MOST_TERMS:
        raise DataError(f"{basis!r} would have {count} terms here; at most {MOST_TERMS} are allowed.")
