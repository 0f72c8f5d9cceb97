"""Many coefficients: from the law that one pass found to states fitted under it, terms screened by scores.

Rows at fitted states for thousands of candidates are too many to make. The score of a candidate, cᵀ S⁻¹ r
with c its column and r what the law leaves, needs one solve for all of them (Rao 1948); the length of what a
column adds to the law's is taken from a few stretches. Terms are then chosen among the law's and those of the
largest scores.
"""

from __future__ import annotations

from collections.abc import Set
from dataclasses import dataclass, field, replace
from typing import ClassVar

import numpy as np
from scipy.sparse import csr_array

from cindy._arrays import Floats, Ints
from cindy.least_squares import Rows, connected
from cindy.model import Model
from cindy.pipeline.fitted import findings_of
from cindy.pipeline.inference import LastPass
from cindy.pipeline.models_met import Met, Search
from cindy.pipeline.passes import Found, picked
from cindy.pipeline.request import Request
from cindy.pipeline.second_look import Look
from cindy.problem import at_samples
from cindy.selection import EFFORT
from cindy.states import Fitted, Motion, start_of

__all__ = ["refined"]


def refined(request: Request, motion: Motion, model: Model, *, anyway: bool) -> Model:
    """The model with fitted states that starts from one of measured states; as it is where none settles.

    anyway: however long it takes
    """
    support = motion.widened(np.flatnonzero(model.coef))
    work = motion.rows * (10.0 * motion.states + len(support)) * len(support)
    problem = request.problem(motion)
    if (work > EFFORT.refinement_most_work and not anyway) or any(at_samples(c) for c in problem.constraints):
        return model
    start = start_of(motion, support, model.coef[model.coef != 0], request.variance(motion))
    state = ManyTerms(request.narrowed(motion, problem), request.options(motion, problem))
    best = state.follow(start, near=True)
    if best is None or not len(best.support):
        return model
    here, found = state.looked_at, Found(best, tuple(state.models), state.returned, state.options)
    found = picked(request.selection, here, found)
    made = LastPass.of(problem, here, found, request.callback).model()
    said = (*made.findings, *findings_of(Look(here, found), found, made, problem.summary.skipped))
    return replace(made, findings=said, settings=model.settings)


@dataclass(eq=False)
class ManyTerms(Search):
    """The search among very many candidates: rows are made for the terms of a law and the likely ones.

    likely: those of the last look; returned: whether the rows asked for the support that they were made at
    """

    likely: Ints = field(default_factory=lambda: np.zeros(0, dtype=np.intp))
    returned: bool = False

    rounds: ClassVar[int] = 8
    """A support that comes back ends it sooner. Four were needed where 16 of 20 terms were missing."""

    @property
    def looked_at(self) -> Motion:
        """The motion with the candidates of the last look and those of all models."""
        every = [self.likely, *(met.support for met in self.models)]
        return replace(self.motion, candidates=np.unique(np.concatenate(every)))

    def candidates_at(self, fitted: Fitted) -> Ints | None:
        likely = _likely(self.motion, self.options.rows, fitted)
        if likely is None:
            return None
        self.likely = np.unique(np.concatenate([likely, *(met.support for met in self.models)]))
        return self.likely

    def following(self, met: Met, seen: Set[bytes]) -> Fitted | None:
        chosen = self.choose(met.fitted)
        self.returned = chosen is not None and np.array_equal(chosen.law.support, met.support)
        return chosen


def _likely(motion: Motion, rows: Rows, fitted: Fitted) -> Ints | None:
    """The terms of a law, those of the largest scores, and what constraints tie to them."""
    gradient = _gradient(motion, fitted)
    size = None if gradient is None else _lengths(motion, fitted)
    if gradient is None or size is None:
        return None
    score = np.where(size > 0, gradient**2 / np.where(size > 0, size, 1.0), 0.0)
    score[np.isin(motion.candidates, fitted.law.support)] = 0.0
    kept = np.union1d(fitted.law.support, motion.candidates[np.argsort(-score)[: EFFORT.refinement_likely]])
    # Terms that only work together have no score each for itself: an equation that leaves much gets all.
    poor = np.flatnonzero(fitted.error * motion.step > EFFORT.refinement_poor * fitted.variance)
    whole = motion.candidates[np.isin(motion.candidates % motion.states, poor)]
    if len(whole) <= EFFORT.refinement_whole:
        kept = np.union1d(kept, whole)
    if not len(rows):
        return kept
    missed = (rows.lower > 0) | (rows.upper < 0)
    kept = np.union1d(kept, np.unique(csr_array(rows.matrix[missed]).indices))
    tied = connected(rows.equalities.matrix)[1]
    return np.asarray(motion.candidates[np.isin(tied[motion.candidates], tied[kept])])


def _gradient(motion: Motion, fitted: Fitted) -> Floats | None:
    """(candidates,) cᵀ S⁻¹ r."""
    d = motion.states
    total = np.zeros((len(motion.basis.names(motion.variables)), d))
    for white, x in zip(motion.whitened(fitted), fitted.x, strict=True):
        if white is None:
            return None
        table = motion.table(white, fitted.law)
        record = white.linear.record
        back = record.grid.integrals_back(white.solved(table[:, -1] - table[:, :-1] @ fitted.coef))
        points = np.concatenate([x, record.u], axis=2).reshape(-1, x.shape[2] + record.u.shape[2])
        total += motion.basis.evaluate(points, motion.variables).T @ back.reshape(-1, d)
    return np.asarray(total.ravel()[motion.candidates])


def _lengths(motion: Motion, fitted: Fitted) -> Floats | None:
    """(candidates,) squares of what the white column of each adds to those of the law, by a few stretches."""
    total, rows = np.zeros(len(motion.candidates)), 0
    each = -(-EFFORT.refinement_stretches // len(motion.records))
    for record, x in zip(motion.records, fitted.x, strict=True):
        size = record.grid.rows * motion.states
        most = min(each, record.stretches, max(EFFORT.refinement_rows // size, 1))
        which = np.unique(np.linspace(0, record.stretches - 1, most).astype(np.intp))
        part = motion.part([record.part(which)])
        [white] = part.whitened(replace(fitted, x=(x[which],)))
        if white is None:
            return None
        inside = part.table(white, fitted.law)[:, :-1]
        directions = np.linalg.qr(inside)[0]
        pieces = np.array_split(
            motion.candidates, -(-len(motion.candidates) * len(inside) // EFFORT.refinement_numbers)
        )
        at = 0
        for piece in pieces:
            table = part.table(white, motion.law(piece))[:, :-1]
            whole = np.sum(table**2, axis=0)
            beyond = whole - np.sum((directions.T @ table) ** 2, axis=0)
            total[at : at + len(piece)] += np.where(
                beyond > EFFORT.supports_dependent**2 * whole, beyond, 0.0
            )
            at += len(piece)
        rows += len(inside)
        if rows > 5 * inside.shape[1] and rows >= min(
            EFFORT.refinement_stretches * size, EFFORT.refinement_rows
        ):
            break
    return total * (motion.rows / max(rows, 1))
