"""Sines and cosines of several frequencies."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from cindy import _check
from cindy.basis.base import Basis, Functions, check_size
from cindy.basis.term import Factor, Term, shortest
from cindy.errors import DataError

__all__ = ["Fourier"]


@dataclass(frozen=True)
class Fourier(Basis):
    """sin(k s) and cos(k s) for every variable s and frequency k; without the constant 1.

    frequencies: positive numbers, or a whole number n for 1, 2, …, n

    >>> Fourier([1, 2]).names(("x",))
    ('sin(x)', 'cos(x)', 'sin(2 x)', 'cos(2 x)')
    """

    frequencies: Sequence[float] | int

    def __post_init__(self) -> None:
        given = self.frequencies
        if isinstance(given, int):
            count = _check.integer(given, "Fourier: frequencies", least=1)
            check_size(count, self)
            given = range(1, count + 1)
        try:
            values = tuple(given)
        except TypeError as error:
            raise DataError(f"Fourier: frequencies must be a list of numbers, but is {given!r}.") from error
        values = tuple(_check.positive(k, f"Fourier: frequencies[{i}]") for i, k in enumerate(values))
        if not values or len(set(values)) < len(values):
            raise DataError(f"Fourier: frequencies must be some distinct numbers, but are {list(values)}.")
        object.__setattr__(self, "frequencies", values)

    @property
    def _values(self) -> tuple[float, ...]:
        assert isinstance(self.frequencies, tuple)
        return self.frequencies

    def terms(self, variables: tuple[str, ...]) -> tuple[Term, ...]:
        check_size(2 * len(variables) * len(self._values), self)
        return tuple(
            (factor,)
            for name in variables
            for k in self._values
            for factor in (Factor("sin", (name,), frequency=k), Factor("cos", (name,), frequency=k))
        )

    def to_dict(self) -> dict[str, Any]:
        return {"basis": "Fourier", "frequencies": list(self._values)}

    @classmethod
    def _read(cls, data: Mapping[str, Any], functions: Functions, depth: int) -> Basis:
        return cls(**data)

    def __repr__(self) -> str:
        given = self.frequencies
        listed = [shortest(k) for k in given] if isinstance(given, tuple) else [str(given)]
        return f"Fourier([{', '.join(listed)}])"
