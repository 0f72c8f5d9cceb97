"""Monomials."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from itertools import combinations_with_replacement
from math import comb
from typing import Any

from cindy import _check
from cindy.basis.base import Basis, Functions, check_size
from cindy.basis.term import Factor, Term, product
from cindy.errors import DataError

__all__ = ["Polynomial"]

HIGHEST = 100
"""Powers beyond leave the range of floats for states of a thousand."""


@dataclass(frozen=True)
class Polynomial(Basis):
    """The monomials up to a degree, by degree and then in the order of the variables.

    bias: whether the constant 1 is among them
    interaction: whether products of different variables are; if not, only pure powers

    >>> Polynomial(2).names(("x", "y"))
    ('1', 'x', 'y', 'x^2', 'x y', 'y^2')
    """

    degree: int
    bias: bool = True
    interaction: bool = True

    def __post_init__(self) -> None:
        _check.integer(self.degree, "Polynomial: degree", least=0)
        if self.degree > HIGHEST:
            raise DataError(f"Polynomial: degree must be at most {HIGHEST}, but is {self.degree}.")
        for name in ("bias", "interaction"):
            if not isinstance(getattr(self, name), bool):
                raise DataError(f"Polynomial: {name} must be True or False, but is {getattr(self, name)!r}.")

    def terms(self, variables: tuple[str, ...]) -> tuple[Term, ...]:
        d = len(variables)
        check_size(comb(d + self.degree, d) if self.interaction else d * self.degree, self)
        monomials = [Factor("variable", (name,)) for name in variables]
        result: list[Term] = [()] if self.bias else []
        for degree in range(1, self.degree + 1):
            pure = [(m,) * degree for m in monomials]
            choices = combinations_with_replacement(monomials, degree) if self.interaction else pure
            result.extend(product(choice, variables) for choice in choices)
        return tuple(result)

    def to_dict(self) -> dict[str, Any]:
        return {
            "basis": "Polynomial",
            "degree": self.degree,
            "bias": self.bias,
            "interaction": self.interaction,
        }

    @classmethod
    def _read(cls, data: Mapping[str, Any], functions: Functions, depth: int) -> Basis:
        return cls(**data)

    def __repr__(self) -> str:
        options = [f"{name}=False" for name in ("bias", "interaction") if not getattr(self, name)]
        return f"Polynomial({', '.join([f'degree={self.degree}', *options])})"
