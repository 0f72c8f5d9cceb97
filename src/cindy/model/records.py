"""What a model records beside its equations: estimates, the solver's run, and their form in a file."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np

from cindy.errors import DataError
from cindy.solver import Result, Step

__all__ = ["Estimate", "Run", "no_constant", "number", "plain", "to_float", "to_mapping", "to_names"]


def number(value: Any) -> float | str | None:
    """JSON has no NaN and no infinity: null and "inf" stand for them."""
    number = float(value)
    if math.isfinite(number):
        return number
    return None if math.isnan(number) else str(number)


def plain(value: Any) -> Any:
    """Settings as JSON: numbers and texts as they are, anything else by its repr."""
    if value is None or isinstance(value, (str, bool, int)):
        return value
    if isinstance(value, (float, np.floating)):
        return number(value)
    if isinstance(value, np.integer):
        return int(value)
    if isinstance(value, Mapping):
        return {str(k): plain(v) for k, v in value.items()}
    if isinstance(value, Sequence):
        return [plain(v) for v in value]
    return repr(value)


def to_float(value: Any, what: str) -> float:
    if value is None:
        return math.nan
    if value in ("inf", "-inf") or (isinstance(value, (int, float)) and not isinstance(value, bool)):
        return float(value)
    raise DataError(f"{what} must be a number, but is {str(value)[:40]!r}")


def to_names(value: Any, what: str) -> tuple[str, ...]:
    if not isinstance(value, list) or not all(isinstance(v, str) for v in value):
        raise DataError(f'"{what}" must be a list of texts')
    return tuple(value)


def to_mapping(value: Any, what: str) -> dict[str, Any]:
    if not isinstance(value, dict):
        raise DataError(f'"{what}" must be an object, but is {str(value)[:40]!r}')
    return value


def no_constant(name: str) -> float:
    raise DataError(f"it holds {name}, which is not JSON")


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


@dataclass(frozen=True)
class Run:
    """The certificate of a run, its counts and its history, without the coefficients.

    gap, objective: relative to the loss of the zero model, in the history too
    history: one `Step` (iteration, gap, objective, atoms, seconds) per iteration

    >>> import numpy as np
    >>> import cindy
    >>> t = np.linspace(0, 6, 200)
    >>> swing = cindy.Trajectory(t, np.stack([np.cos(t), -np.sin(t)], axis=1), ("x", "v"))
    >>> run = cindy.identify(swing, "poly:2", passes=1).result
    >>> run.status, run.gap < 1e-5
    ('converged', True)
    """

    gap: float
    objective: float
    status: str
    iterations: int
    oracle_calls: int
    seconds: float
    history: tuple[Step, ...] = ()

    @classmethod
    def of(cls, result: Result) -> Run:
        """The record of a solver's result."""
        counts = (result.iterations, result.oracle_calls, result.seconds)
        history = tuple(
            step._replace(gap=step.gap / result.scale, objective=step.objective / result.scale)
            for step in result.history
        )
        return cls(result.relative_gap, result.objective / result.scale, str(result.status), *counts, history)

    def to_dict(self) -> dict[str, Any]:
        """As plain values."""
        history = {name: [number(getattr(s, name)) for s in self.history] for name in Step._fields}
        counts = {
            "status": str(self.status),
            "iterations": self.iterations,
            "oracle_calls": self.oracle_calls,
        }
        numbers = {name: number(getattr(self, name)) for name in ("gap", "objective", "seconds")}
        return {**counts, **numbers, "history": history}
