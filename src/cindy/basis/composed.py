"""Bases made of bases: sums, products, and restrictions to some of the variables."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from cindy import _check
from cindy.basis.base import Basis, Functions, check_size, from_dict
from cindy.basis.parameter import Parameter, merged
from cindy.basis.term import Term, product
from cindy.errors import DataError

__all__ = ["Product", "Subset", "Sum", "Without"]


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

    def parameter_names(self) -> frozenset[str]:
        return frozenset().union(*(part.parameter_names() for part in self.parts))

    def _summands(self) -> tuple[Basis, ...]:
        return self.parts

    def _at(self, values: Mapping[str, float]) -> Basis:
        return Sum(tuple(part._at(values) for part in self.parts))

    def on_axes(self, axes: tuple[str, ...]) -> Basis:
        return Sum(tuple(part.on_axes(axes) for part in self.parts))

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

    def parameter_names(self) -> frozenset[str]:
        return self.left.parameter_names() | self.right.parameter_names()

    def _at(self, values: Mapping[str, float]) -> Basis:
        return Product(self.left._at(values), self.right._at(values))

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

    def parameter_names(self) -> frozenset[str]:
        return self.basis.parameter_names()

    def _at(self, values: Mapping[str, float]) -> Basis:
        return Subset(self.basis._at(values), self.variables)

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
            from_dict(data["of"], functions, depth + 1), _check.unique_names(names, "basis: variables")
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

    def parameter_names(self) -> frozenset[str]:
        return self.basis.parameter_names()

    def _at(self, values: Mapping[str, float]) -> Basis:
        return Without(self.basis._at(values), self.hidden)

    def to_dict(self) -> dict[str, Any]:
        return {"basis": "Without", "of": self.basis.to_dict(), "hidden": list(self.hidden)}

    @classmethod
    def _read(cls, data: Mapping[str, Any], functions: Functions, depth: int) -> Basis:
        hidden = _check.unique_names(data["hidden"], "basis: hidden")
        return cls(from_dict(data["of"], functions, depth + 1), hidden)

    def __repr__(self) -> str:
        return repr(self.basis)
