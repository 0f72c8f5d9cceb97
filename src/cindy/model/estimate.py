"""Estimate: a number with its standard error."""

from __future__ import annotations

from typing import NamedTuple

__all__ = ["Estimate"]


class Estimate(NamedTuple):
    """A value and its standard error, NaN where unknown.

    >>> one = Estimate(0.37312, 0.0041)
    >>> print(one, float(one))
    0.373(4) 0.37312
    """

    value: float
    error: float

    def __float__(self) -> float:
        return self.value

    def __str__(self) -> str:
        from cindy.export import format_value

        return format_value(self.value, self.error)
