"""Terms with coefficients of their own in every run."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from cindy.basis.base import Basis, Functions, basis_from_dict, check_size
from cindy.basis.parameter import Parameter
from cindy.basis.term import Factor, Term, product
from cindy.errors import DataError

__all__ = ["RUN", "PerRun", "is_run"]

RUN = "[]"
"""What a basis asks for that must know the run."""


def is_run(name: str) -> bool:
    """Whether a variable says, by 1 and 0, which run a sample belongs to."""
    return name.startswith("[") and name.endswith("]")


@dataclass(frozen=True)
class PerRun(Basis):
    """The terms of a basis with a coefficient of its own for every trajectory; all others are shared.

    Eleven balls that fall with one g and a drag each: `Polynomial(0) + PerRun(Custom({"v": "v"}))`. The term
    v of the run called "golf" is "v [golf]". Only `identify` knows the runs; a simulation is told by `run`.

    >>> from cindy.basis import Polynomial
    >>> PerRun(Polynomial(1)).names(("v", "[a]", "[b]"))
    ('[a]', '[b]', 'v [a]', 'v [b]')
    """

    basis: Basis

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

    def unknowns(self) -> tuple[Parameter, ...]:
        return self.basis.unknowns()

    def parameter_names(self) -> frozenset[str]:
        return self.basis.parameter_names()

    def _at(self, values: Mapping[str, float]) -> Basis:
        return PerRun(self.basis._at(values))

    def to_dict(self) -> dict[str, Any]:
        return {"basis": "PerRun", "of": self.basis.to_dict()}

    @classmethod
    def _read(cls, data: Mapping[str, Any], functions: Functions, depth: int) -> Basis:
        return cls(basis_from_dict(data["of"], functions))

    def __repr__(self) -> str:
        return f"PerRun({self.basis!r})"
