"""Run: what a model remembers of the solver's run that made it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from cindy.model.json_values import number
from cindy.solver import Result, Step

__all__ = ["Run"]


@dataclass(frozen=True)
class Run:
    """The certificate of a run, its counts and its history, without the coefficients.

    gap, objective: relative to the loss of the zero model, in the history too
    history: one `Step` (iteration, gap, objective, atoms, seconds) per iteration
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
