"""Request: what a user asks of `identify`, and what it comes to where states are fitted."""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import Executor
from dataclasses import dataclass
from typing import Any

import numpy as np

from cindy._types import Floats
from cindy.basis import Basis
from cindy.data import Source, Trajectory, noise_variance
from cindy.formulation import Formulation
from cindy.least_squares import LeastSquares
from cindy.pipeline.options import Options
from cindy.problem import Problem
from cindy.selection import Selection
from cindy.solver import Correction, Direct, Step
from cindy.states import Motion
from cindy.summary import Summary

__all__ = ["Pieces", "Request"]


@dataclass(frozen=True, eq=False)
class Pieces:
    """All data, where they are and who works on them.

    source: trajectories in parts; executor: None for this process; progress: as in `accumulate`
    """

    source: Source
    executor: Executor | None = None
    progress: Callable[[int, int | None], None] | None = None

    def told(self, done: int) -> None:
        """Tell whoever asked for it that so many samples are done."""
        if self.progress is not None:
            whole = self.source.whole
            self.progress(done, None if whole is None else sum(map(len, whole)))


@dataclass(frozen=True, eq=False)
class Request:
    """A law of these data, in these terms, found and chosen in this way.

    pieces: all data, and who works on them; data: those in memory, or some to look at
    pose: the problem that sums over the data make with the physics, the radius and the weights asked for
    seed: of the part of much data that is looked at first
    """

    pieces: Pieces
    data: list[Trajectory]
    basis: Basis
    form: Formulation
    pose: Callable[[Summary], Problem]
    selection: Selection
    correction: Correction | None
    tol: float
    max_iter: int
    callback: Callable[[Step], bool | None] | None
    seed: int

    def motion(self) -> Motion | None:
        """The equations with the states unknown; None where the form takes them as measured."""
        return self.form.motion(self.data, self.basis) if isinstance(self.form, Formulation) else None

    def price(self, motion: Motion) -> float:
        """What a parameter must lower −2 log p by."""
        return self.selection.price(motion.rows, len(motion.candidates))

    def variance(self, motion: Motion) -> Floats:
        """Of the noise of each state of the motion, as the roughness of the data tells it."""
        return motion.variances(noise_variance(self.data))

    def problem(self, motion: Motion) -> Problem:
        """What the physics say of the names and the number of rows; the rows follow with the states."""
        like, terms = self.data[0], len(self.basis.names(motion.variables))
        skipped = len(self.data) - len({int(k) for record in motion.records for k in record.source})
        nothing = LeastSquares(np.zeros((0, terms + like.dimension)), terms, motion.rows // motion.states)
        form = self.form.fit_to(self.data)
        return self.pose(
            Summary((nothing,), ("all",), like.states, like.inputs, self.basis, form, motion.samples, skipped)
        )

    def options(self, motion: Motion, problem: Problem) -> Options:
        """How the passes over a motion are solved."""
        return Options(
            motion.constraints(problem.rows),
            tuple(problem.constraints),
            self.price(motion),
            problem.weights,
            problem.radius,
            self.correction or Direct(),
            self.tol,
            self.max_iter,
            faithful=not problem.weights.adapts,
            surcharge=self._surcharge(motion),
        )

    def _surcharge(self, motion: Motion) -> Floats:
        """(terms · states,) what a coefficient must be worth beyond the price, for its term."""
        each = [self.selection.surcharge(term) for term in self.basis.terms(motion.variables)]
        return np.repeat(np.array(each, dtype=np.float64), motion.states)

    @property
    def settings(self) -> dict[str, Any]:
        """What a model remembers of it."""
        used = repr(self.correction or Direct())
        return {"selection": repr(self.selection), "correction": used, "tol": self.tol}
