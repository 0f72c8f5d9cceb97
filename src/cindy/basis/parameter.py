"""Parameter: an unknown number inside terms, such as K in S/(K + S)."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from cindy._types import Floats
from cindy.basis.expression import CONSTANTS, FUNCTIONS, SEVERAL
from cindy.errors import DataError

__all__ = ["Parameter", "merged", "read_parameters"]

_AROUND = 10.0
"""A start alone stands for the range from a tenth of it to ten times it."""
_WIDE = 3.0
"""Ends of one sign whose ratio is at least this are spanned by factors, others by differences."""


@dataclass(frozen=True)
class Parameter:
    """A number to be found between two ends.

    Between ends of one sign that lie far apart it moves by factors (`logarithmic`), otherwise by
    differences; its `place` is the logarithm or the number itself.

    >>> Parameter("K", 0.01, 100.0).grid(3)
    array([1.e-02, 1.e+00, 1.e+02])
    """

    name: str
    lower: float
    upper: float

    @property
    def logarithmic(self) -> bool:
        return self.lower * self.upper > 0 and self._ratio >= _WIDE

    @property
    def _ratio(self) -> float:
        small, large = sorted((abs(self.lower), abs(self.upper)))
        return large / small

    @property
    def places(self) -> tuple[float, float]:
        """The ends as places, increasing."""
        first, last = sorted((self.place(self.lower), self.place(self.upper)))
        return first, last

    def place(self, value: float) -> float:
        return math.log(abs(value)) if self.logarithmic else value

    def value(self, place: float) -> float:
        """The number at a place, never beyond the ends."""
        made = math.copysign(math.exp(place), self.lower) if self.logarithmic else place
        return min(max(made, self.lower), self.upper)

    def slope(self, value: float) -> float:
        """d value / d place."""
        return value if self.logarithmic else 1.0

    def grid(self, count: int) -> Floats:
        """So many values from end to end, evenly placed."""
        return np.array([self.value(place) for place in np.linspace(*self.places, count)])

    @property
    def middle(self) -> float:
        return self.value(0.5 * sum(self.places))


def read_parameters(given: Any, where: str) -> tuple[Parameter, ...]:
    """Parameters from a mapping of names to a range (lower, upper) or a start."""
    if isinstance(given, tuple) and all(isinstance(one, Parameter) for one in given):
        return given
    if not isinstance(given, Mapping):
        raise DataError(
            f'{where}: `parameters` must be a mapping such as {{"K": (0.01, 10)}}, but is {given!r}.'
        )
    return tuple(_read(name, what, where) for name, what in given.items())


def _read(name: Any, what: Any, where: str) -> Parameter:
    if not isinstance(name, str) or not name.isidentifier():
        raise DataError(f"{where}: the name of a parameter must be a word as in a formula, but is {name!r}.")
    if name in CONSTANTS or name in FUNCTIONS or name in SEVERAL or name == "where":
        raise DataError(f"{where}: {name!r} has a meaning in formulas already; call the parameter otherwise.")
    if isinstance(what, (int, float, np.integer, np.floating)) and not isinstance(what, bool):
        start = float(what)
        if not math.isfinite(start) or start == 0:
            raise DataError(
                f"{where}: the start of {name!r} must be a finite number other than 0, which says its size, "
                f"but is {what!r}. Give a range such as (-1, 1) instead."
            )
        return Parameter(name, *sorted((start / _AROUND, start * _AROUND)))
    try:
        lower, upper = (float(end) for end in what)
    except (TypeError, ValueError):
        raise DataError(
            f"{where}: {name!r} needs a range (lower, upper) or a start, but got {what!r}."
        ) from None
    if not (math.isfinite(lower) and math.isfinite(upper)) or not lower < upper:
        raise DataError(
            f"{where}: the range of {name!r} must be two finite numbers, the lower first, but is "
            f"({lower:g}, {upper:g})."
        )
    return Parameter(name, lower, upper)


def merged(parts: Iterable[tuple[Parameter, ...]], where: str) -> tuple[Parameter, ...]:
    """The parameters of several bases; one that several name must have one range."""
    known: dict[str, Parameter] = {}
    for part in parts:
        for one in part:
            other = known.setdefault(one.name, one)
            if other != one:
                raise DataError(
                    f"{where}: the parameter {one.name!r} has the range ({other.lower:g}, {other.upper:g}) "
                    f"in one place and ({one.lower:g}, {one.upper:g}) in another. Give it one, or two names."
                )
    return tuple(known.values())
