"""Parameters: unknown numbers inside terms, with the ranges in which they are searched."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from cindy import _check
from cindy._arrays import Floats
from cindy.basis.expression import CONSTANTS, FUNCTIONS, SEVERAL
from cindy.errors import DataError

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
