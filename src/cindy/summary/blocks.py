"""Blocks as they come in, and the summary that they make."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from cindy.basis import Basis
from cindy.data import Trajectory
from cindy.errors import DataError
from cindy.formulation import Formulation
from cindy.least_squares import LeastSquares
from cindy.summary.factoring import Factored
from cindy.summary.pieces import Origin
from cindy.summary.summary import Summary, add_up

__all__ = ["Gathering"]


@dataclass(frozen=True, eq=False)
class _Block:
    objective: LeastSquares
    origin: Origin

    def __add__(self, other: _Block) -> _Block:
        return _Block(add_up((self.objective, other.objective)), self.origin + other.origin)


class Gathering:
    """Blocks as they come in; of a stream without end never more than twice as many as wanted."""

    def __init__(self, aim: int, terms: int, *, stream: bool) -> None:
        self.aim, self.terms, self.stream = aim, terms, stream
        self.blocks: list[_Block] = []
        self.parts: list[LeastSquares] = []
        self.origin: Origin | None = None
        self.samples = self.skipped = 0

    def add(self, made: Factored) -> None:
        """Take in what became of a task; tasks come in order."""
        self.samples += made.samples
        self.skipped += made.skipped
        for factor, rows, origin, closes in made.factors:
            if origin is not None:
                self.parts.append(LeastSquares(factor, self.terms, rows))
                self.origin = origin if self.origin is None else self.origin + origin
            if closes and self.origin is not None:
                whole = self.parts[0] if len(self.parts) == 1 else add_up(tuple(self.parts))
                self.blocks.append(_Block(whole, self.origin))
                self.parts, self.origin = [], None
                if len(self.blocks) > 2 * self.aim:
                    self._merge()

    def _merge(self) -> None:
        """Join the smallest neighbours until there are as many blocks as wanted."""
        while len(self.blocks) > self.aim:
            rows = np.array([b.objective.rows for b in self.blocks])
            i = int(np.argmin(rows[:-1] + rows[1:]))
            self.blocks[i : i + 2] = [self.blocks[i] + self.blocks[i + 1]]

    def summary(self, like: Trajectory, basis: Basis, formulation: Formulation) -> Summary:
        """The summary of all that came in, for trajectories like the given one."""
        if self.stream:
            self._merge()
        if not self.blocks:
            least = f"{formulation.min_samples} samples that {type(formulation).__name__} needs"
            short = (
                f"each of the {self.skipped} stretch(es) without missing values has fewer than the {least}"
            )
            raise DataError(
                f"accumulate: nothing is left: {short if self.skipped else 'no sample has all its values'}. "
                + ("Give longer trajectories." if self.skipped else "Leave out the states that are missing.")
            )
        return Summary(
            tuple(b.objective for b in self.blocks),
            tuple(b.origin.label for b in self.blocks),
            like.states,
            like.inputs,
            basis,
            formulation,
            self.samples,
            self.skipped,
        )
