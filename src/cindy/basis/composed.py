"""Bases made of bases: sums, products, restrictions to some variables, and terms of single runs."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

from cindy import _check
from cindy.basis.base import Basis, Functions, Parameter, check_size, from_dict, merged
from cindy.basis.expression import Expression
from cindy.basis.term import Factor, Term, product
from cindy.errors import DataError

RUN = "[]"
"""The name of the variable that `asks_for` is called with to learn whether a basis needs to know the run."""


class _Composed(Basis, abstract=True):
    """A basis made of other bases; its answers are those of its parts."""

    @property
    @abstractmethod
    def _bases(self) -> tuple[Basis, ...]:
        """The parts, in order."""

    @abstractmethod
    def _of(self, bases: tuple[Basis, ...]) -> Basis:
        """The same composition of other parts."""

    def asks_for(self, name: str) -> bool:
        return any(part.asks_for(name) for part in self._bases)

    def apart_from(self, hidden: tuple[str, ...]) -> Basis:
        return self._of(tuple(part.apart_from(hidden) for part in self._bases))

    def unknowns(self) -> tuple[Parameter, ...]:
        return merged([part.unknowns() for part in self._bases], repr(self))

    def parameter_names(self) -> frozenset[str]:
        return frozenset().union(*(part.parameter_names() for part in self._bases))

    def on_axes(self, axes: tuple[str, ...]) -> Basis:
        return self._of(tuple(part.on_axes(axes) for part in self._bases))

    def _at(self, values: Mapping[str, float]) -> Basis:
        return self._of(tuple(part._at(values) for part in self._bases))


@dataclass(frozen=True)
class Sum(_Composed):
    """The terms of several bases, each term once, in order of first occurrence; usually written a + b."""

    parts: tuple[Basis, ...]

    @property
    def _bases(self) -> tuple[Basis, ...]:
        return self.parts

    def _of(self, bases: tuple[Basis, ...]) -> Basis:
        return Sum(bases)

    def terms(self, variables: tuple[str, ...]) -> tuple[Term, ...]:
        # A term that two families share would make the design singular.
        return tuple(dict.fromkeys(term for part in self.parts for term in part.terms(variables)))

    def _summands(self) -> tuple[Basis, ...]:
        return self.parts

    def to_dict(self) -> dict[str, Any]:
        return {"basis": "Sum", "parts": [part.to_dict() for part in self.parts]}

    @classmethod
    def _read(cls, data: Mapping[str, Any], functions: Functions, depth: int) -> Basis:
        parts = data["parts"]
        if not isinstance(parts, list) or not parts:
            raise DataError(f"basis: the parts of a Sum must be a list, but are {parts!r}.")
        return cls(tuple(from_dict(part, functions, depth + 1) for part in parts))

    def __repr__(self) -> str:
        return " + ".join(map(repr, self.parts))


@dataclass(frozen=True)
class _Wrapped(_Composed, abstract=True):
    """A composition of one basis."""

    basis: Basis

    def __post_init__(self) -> None:
        where = f"{type(self).__name__}: `basis`"
        _check.instance(self.basis, Basis, where, "a basis, such as Polynomial(1)")

    @property
    def _bases(self) -> tuple[Basis, ...]:
        return (self.basis,)

    def _of(self, bases: tuple[Basis, ...]) -> Basis:
        return replace(self, basis=bases[0])


@dataclass(frozen=True)
class Averaged(_Wrapped, abstract=True):
    """The terms of a basis with their jumps spread over two time steps; it serves rows and is not saved.

    widths: switching functions, and by how much each changes within the step in which it changes its sign
    """

    widths: tuple[tuple[Expression, float], ...]

    def terms(self, variables: tuple[str, ...]) -> tuple[Term, ...]:
        widths = dict(self.widths)
        terms = self.basis.terms(variables)
        return tuple(tuple(_averaged(factor, widths) for factor in term) for term in terms)

    def to_dict(self) -> dict[str, Any]:
        return self.basis.to_dict()


def _averaged(factor: Factor, widths: Mapping[Expression, float]) -> Factor:
    if factor.expression is None or factor.symbolic is not None:
        return factor
    return replace(factor, expression=factor.expression.averaged(widths))


@dataclass(frozen=True)
class Product(_Composed):
    """Every product of a term of `left` and a term of `right`; equal ones once; usually written a * b."""

    left: Basis
    right: Basis

    @property
    def _bases(self) -> tuple[Basis, ...]:
        return (self.left, self.right)

    def _of(self, bases: tuple[Basis, ...]) -> Basis:
        return Product(*bases)

    def terms(self, variables: tuple[str, ...]) -> tuple[Term, ...]:
        left, right = self.left.terms(variables), self.right.terms(variables)
        check_size(len(left) * len(right), self)
        # x · x y and x² · y are the same product, written once.
        return tuple(dict.fromkeys(product((*a, *b), variables) for a in left for b in right))

    def to_dict(self) -> dict[str, Any]:
        return {"basis": "Product", "left": self.left.to_dict(), "right": self.right.to_dict()}

    @classmethod
    def _read(cls, data: Mapping[str, Any], functions: Functions, depth: int) -> Basis:
        left, right = (from_dict(data[side], functions, depth + 1) for side in ("left", "right"))
        return cls(left, right)

    def __repr__(self) -> str:
        return " * ".join(
            f"({part!r})"
            if isinstance(part, Sum) or (isinstance(part, Product) and part is self.right)
            else repr(part)
            for part in (self.left, self.right)
        )


@dataclass(frozen=True)
class Subset(_Wrapped):
    """A basis in some of the variables, in the order given; usually written basis.on("x", "y")."""

    variables: tuple[str, ...]

    def terms(self, variables: tuple[str, ...]) -> tuple[Term, ...]:
        for name in self.variables:
            if name not in variables:
                raise DataError(
                    f"{self!r}: {name!r} is not a variable. {_check.did_you_mean(name, variables)}"
                )
        # The inner basis orders factors as the variables were given to `on`; they are put in the order of the
        # data, so that the terms equal those of other bases.
        inner = self.basis.terms(self.variables)
        return tuple(product(term, variables) for term in inner)

    def asks_for(self, name: str) -> bool:
        return name in self.variables or self.basis.asks_for(name)

    def apart_from(self, hidden: tuple[str, ...]) -> Basis:
        return self

    def to_dict(self) -> dict[str, Any]:
        return {"basis": "Subset", "of": self.basis.to_dict(), "variables": list(self.variables)}

    @classmethod
    def _read(cls, data: Mapping[str, Any], functions: Functions, depth: int) -> Basis:
        names = data["variables"]
        if not isinstance(names, list):
            raise DataError(f"basis: the variables of a Subset must be a list of names, but are {names!r}.")
        return cls(
            from_dict(data["of"], functions, depth + 1), _check.unique_names(names, "basis: variables")
        )

    def __repr__(self) -> str:
        inner = f"({self.basis!r})" if isinstance(self.basis, (Sum, Product)) else repr(self.basis)
        return f"{inner}.on({', '.join(map(repr, self.variables))})"


@dataclass(frozen=True)
class Without(_Wrapped):
    """A basis in all variables but some."""

    hidden: tuple[str, ...]

    def terms(self, variables: tuple[str, ...]) -> tuple[Term, ...]:
        return self.basis.terms(tuple(name for name in variables if name not in self.hidden))

    def asks_for(self, name: str) -> bool:
        return name not in self.hidden and self.basis.asks_for(name)

    def to_dict(self) -> dict[str, Any]:
        return {"basis": "Without", "of": self.basis.to_dict(), "hidden": list(self.hidden)}

    @classmethod
    def _read(cls, data: Mapping[str, Any], functions: Functions, depth: int) -> Basis:
        hidden = _check.unique_names(data["hidden"], "basis: hidden")
        return cls(from_dict(data["of"], functions, depth + 1), hidden)

    def __repr__(self) -> str:
        return repr(self.basis)


def is_run(name: str) -> bool:
    """Whether a variable is the indicator of a run: 1 for its samples, 0 for all others."""
    return name.startswith("[") and name.endswith("]")


@dataclass(frozen=True)
class PerRun(_Wrapped):
    """The terms of a basis with a coefficient of its own for every trajectory; all others are shared.

    For eleven balls that fall with the same g, but each with its own drag, write `Polynomial(0) +
    PerRun(Custom({"v": "v"}))`. The term v of the run called "golf" is "v [golf]". Only `identify` knows the
    runs; a simulation gets one by its argument `run`.

    >>> from cindy.basis import Polynomial
    >>> PerRun(Polynomial(1)).names(("v", "[a]", "[b]"))
    ('[a]', '[b]', 'v [a]', 'v [b]')
    """

    def terms(self, variables: tuple[str, ...]) -> tuple[Term, ...]:
        runs = [name for name in variables if is_run(name)]
        if not runs:
            raise DataError(f"{self!r} needs to know the runs. Use it with `identify`, which does.")
        inner = self.basis.terms(tuple(name for name in variables if not is_run(name)))
        check_size(len(inner) * len(runs), self)
        return tuple(
            product((*term, Factor("variable", (run,))), variables) for term in inner for run in runs
        )

    def asks_for(self, name: str) -> bool:
        return name == RUN or self.basis.asks_for(name)

    def apart_from(self, hidden: tuple[str, ...]) -> Basis:
        return PerRun(self.basis.apart_from(tuple(name for name in hidden if not is_run(name))))

    def to_dict(self) -> dict[str, Any]:
        return {"basis": "PerRun", "of": self.basis.to_dict()}

    @classmethod
    def _read(cls, data: Mapping[str, Any], functions: Functions, depth: int) -> Basis:
        return cls(from_dict(data["of"], functions, depth + 1))

    def __repr__(self) -> str:
        return f"PerRun({self.basis!r})"
