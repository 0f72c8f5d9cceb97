"""Request: what a user asks of `identify`, and what it comes to where states are fitted."""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import Executor
from dataclasses import dataclass, field, replace
from inspect import signature
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.sparse import csr_array

from cindy._arrays import Floats
from cindy.basis import Basis
from cindy.data import Source, Trajectory, looked_at, noise_variance
from cindy.formulation import Formulation
from cindy.least_squares import LeastSquares, Rows
from cindy.pipeline.options import Options
from cindy.problem import Problem
from cindy.selection import Selection
from cindy.solver import Correction, Direct, Step
from cindy.states import Motion
from cindy.summary import Summary

__all__ = ["Pieces", "Request", "Stages"]


class Stages:
    """How far identification is, for whoever asked: progress(done, of, stage) in every stage.

    Stages are "data" (samples read, of all), "search" (models fitted; of how many is not known before) and
    "comparison" (0 of 1, 1 of 1). A function of two arguments is told of the data only.
    """

    def __init__(self, progress: Callable[..., Any] | None) -> None:
        self._progress, self._models = progress, 0
        self._named = progress is not None and _takes_three(progress)

    @property
    def data(self) -> Callable[[int, int | None], None] | None:
        """For passes over the data; None where nobody asked."""
        if self._progress is None or not self._named:
            return self._progress
        return lambda done, of: self.tell(done, of, "data")

    def tell(self, done: int, of: int | None, stage: str) -> None:
        """Say how far a stage is."""
        if self._progress is not None and self._named:
            self._progress(done, of, stage)

    def model(self) -> None:
        """Say that the states of one more model are fitted."""
        self._models += 1
        self.tell(self._models, None, "search")


def _takes_three(function: Callable[..., Any]) -> bool:
    try:
        signature(function).bind(0, 1, "data")
    except TypeError:
        return False
    except ValueError:  # some built-in functions do not say what they take
        return True
    return True


@dataclass(frozen=True, eq=False)
class Pieces:
    """All data, where they are and who works on them.

    source: trajectories in parts; executor: None for this process; stages: who is told how far the work is
    """

    source: Source
    executor: Executor | None = None
    stages: Stages = field(default_factory=lambda: Stages(None))

    def told(self, done: int) -> None:
        """Tell whoever asked for it that so many samples are done."""
        if self.stages.data is not None:
            whole = self.source.whole
            self.stages.data(done, None if whole is None else sum(map(len, whole)))


@dataclass(frozen=True, eq=False)
class Request:
    """A law of these data, in these terms, found and chosen in this way.

    pieces: all data, and who works on them; data: those in memory, or some to look at
    pose: the problem that sums over the data make with the physics, the radius and the weights asked for
    seed: of the part of much data that is looked at first
    least: "significant", or "best" where a model is wanted that is no better than chance
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
    least: str = "significant"

    def motion(self) -> Motion | None:
        """The equations with the states unknown; None where the form takes them as measured."""
        return self.form.motion(self.data, self.basis) if isinstance(self.form, Formulation) else None

    def price(self, motion: Motion) -> float:
        """What a parameter must lower −2 log p by."""
        return self.selection.price(motion.rows, len(motion.candidates))

    def variance(self, motion: Motion) -> Floats:
        """Of the noise of each state of the motion, as the roughness of the data tells it."""
        groups, states = looked_at(self.data), self.data[0].states
        if len(groups) == 1 and groups[0][0].dimension == len(states):
            return motion.variances(noise_variance(self.data))
        noise = {
            name: value
            for group in groups
            for name, value in zip(group[0].states, noise_variance(group), strict=True)
        }
        places = [states.index(name) for name in noise]
        values = np.array(list(noise.values()))
        # Of states that are rarely measured rows say nothing: theirs is in proportion to the others'.
        spread = np.nanstd(np.concatenate([one.x for one in self.data]), axis=0)
        relative = float(np.median(values / np.maximum(spread[places] ** 2, 1e-300)))
        every = relative * spread**2
        every[places] = values
        return motion.variances(every)

    def problem(self, motion: Motion) -> Problem:
        """What the physics say of the names and the number of rows; the rows follow with the states."""
        like, terms = self.data[0], len(self.basis.names(motion.variables))
        skipped = len(self.data) - len({int(k) for record in motion.records for k in record.source})
        nothing = LeastSquares(np.zeros((0, terms + like.dimension)), terms, motion.rows // motion.states)
        form = self.form.fit_to(self.data)
        return self.pose(
            Summary((nothing,), ("all",), like.states, like.inputs, self.basis, form, motion.samples, skipped)
        )

    def narrowed(self, motion: Motion, problem: Problem) -> Motion:
        """The motion without coefficients that a constraint of their own says are zero: no candidates."""
        rows = motion.constraints(problem.rows)
        zero = np.unique(rows.matrix[_says_zero(rows)].indices)
        if not len(zero):
            return motion
        return replace(motion, candidates=np.setdiff1d(motion.candidates, zero))

    def options(self, motion: Motion, problem: Problem) -> Options:
        """How the passes over a motion are solved; rows over what is no candidate are left out."""
        rows = motion.constraints(problem.rows)
        says = ~_says_zero(rows)
        return Options(
            Rows(csr_array(rows.matrix[says]), rows.lower[says], rows.upper[says], rows.owner[says]),
            tuple(problem.constraints),
            self.price(motion),
            problem.weights,
            problem.radius,
            self.correction or Direct(),
            self.tol,
            self.max_iter,
            faithful=not problem.weights.adapts,
            surcharge=self._surcharge(motion),
            met=self.pieces.stages.model,
        )

    def _surcharge(self, motion: Motion) -> Floats:
        """(terms · states,) what a coefficient must be worth beyond the price, for its term."""
        each = [self.selection.surcharge(term) for term in motion.basis.terms(motion.variables)]
        return np.repeat(np.array(each, dtype=np.float64), motion.states)

    @property
    def settings(self) -> dict[str, Any]:
        """What a model remembers of it."""
        used = repr(self.correction or Direct())
        return {"selection": repr(self.selection), "correction": used, "tol": self.tol}


def _says_zero(rows: Rows) -> NDArray[np.bool_]:
    """(rows,) which of them say that one coefficient is zero, and nothing else."""
    return np.asarray((np.diff(rows.matrix.indptr) == 1) & (rows.lower == 0) & (rows.upper == 0))
