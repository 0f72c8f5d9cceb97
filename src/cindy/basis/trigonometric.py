"""Products of sines and cosines."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from itertools import combinations
from math import comb
from typing import Any

from cindy import _check
from cindy.basis.base import Basis, Functions, check_size
from cindy.basis.term import Factor, Term

__all__ = ["Trigonometric"]


@dataclass(frozen=True)
class Trigonometric(Basis):
    """The products of at most `degree` distinct factors out of sin s, cos s for every variable s.

    The constant 1 (no factor) and sin(x) cos(x) of one variable are among them, sin(x)^2 is not;
    Trigonometric(1) * Trigonometric(1) has all three.

    >>> Trigonometric(2).names(("x",))
    ('1', 'sin(x)', 'cos(x)', 'sin(x) cos(x)')
    """

    degree: int = 1

    def __post_init__(self) -> None:
        _check.integer(self.degree, "Trigonometric: degree", least=1)

    def terms(self, variables: tuple[str, ...]) -> tuple[Term, ...]:
        waves = [factor for name in variables for factor in (Factor("sin", (name,)), Factor("cos", (name,)))]
        highest = min(self.degree, len(waves))
        check_size(sum(comb(len(waves), k) for k in range(highest + 1)), self)
        return tuple(choice for k in range(highest + 1) for choice in combinations(waves, k))

    def to_dict(self) -> dict[str, Any]:
        return {"basis": "Trigonometric", "degree": self.degree}

    @classmethod
    def _read(cls, data: Mapping[str, Any], functions: Functions, depth: int) -> Basis:
        return cls(**data)

    def __repr__(self) -> str:
        return f"Trigonometric(degree={self.degree})"
