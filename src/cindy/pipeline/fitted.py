"""Models whose states are denoised, of few candidates and of very many.

`identify_with_states` goes through the steps of every such model:

1. Find the law on a part of the data, among the likely candidates (`search`), in steps as fine as it asks
   for.
2. Look once more where measurements are not as was assumed (`second_look`), and at kicks (`with_kicks`).
3. Let a rule without a price pick at the denoised states (`picked`), and confirm the law on all data.
4. Drop the terms that the final errors do not show, build the model (`LastPass`) and say what was found.

`refined` serves thousands of candidates, for which rows at denoised states are too many to make. It begins
with the law that one pass found. The score of a candidate, cᵀ S⁻¹ r with c its column and r the residual of
the law, needs one solve for all of them (Rao, Proc. Camb. Phil. Soc. 44, 1948); the length of what a column
adds to those of the law is estimated from a few stretches. Terms are then chosen among the law's own and
those of the largest scores.
"""

from __future__ import annotations

from collections.abc import Set
from dataclasses import dataclass, field, replace
from functools import partial
from typing import ClassVar

import numpy as np
from scipy.sparse import csr_array

from cindy._arrays import Floats, Ints
from cindy.errors import NoModelError
from cindy.findings import Finding, has_finding
from cindy.least_squares import Rows, connected
from cindy.model import Model
from cindy.pipeline.beside_the_law import beside_the_law, runs_apart
from cindy.pipeline.inference import LastPass, not_significant, plain_findings, shown_by_errors
from cindy.pipeline.judgement import instrument_fault
from cindy.pipeline.large import confirmed, screened, some_of
from cindy.pipeline.models_met import Met, Search
from cindy.pipeline.passes import Found, picked, search
from cindy.pipeline.request import Options, Request, solve_with_samples
from cindy.pipeline.second_look import Look, forced, second_look, walk_of, with_kicks
from cindy.problem import Problem, at_samples
from cindy.regression import independent
from cindy.selection import EFFORT, Terms
from cindy.states import Fitted, Motion, quadrature_error, start_of

__all__ = ["findings_of", "identify_with_states", "refined"]


def identify_with_states(request: Request, motion: Motion) -> Model:
    """The model of passes over the data, its states fitted too."""
    searched = partial(_searched, request, motion, request.variance(motion))
    return solve_with_samples(request.problem(motion), request.data, searched)


def _searched(request: Request, motion: Motion, variance: Floats, problem: Problem) -> Model:
    """The model that the search ends with, on all data, and what to say of it."""
    options = request.options(motion, problem)
    whole, look = _looked(request, request.narrowed(motion, problem), variance, options)
    # Step 2. Kicks change the likelihood that terms are chosen by, hence before a rule picks. They would also
    # explain runs that do not share a coefficient.
    apart = None if look.found is None else runs_apart(look.motion, look.found, request.data)
    look, kicks = with_kicks(look, variance)
    here, found, more = look.motion, *_required(look, request, variance)
    # Step 3.
    found = picked(request.selection, here, found)
    if here.samples < whole.samples or request.pieces.source.whole is None:
        here, found = confirmed(
            request, replace(whole, candidates=here.candidates, forcing=here.forcing), here, found
        )
    # Step 4.
    last = LastPass.of(problem, here, found, request.callback)
    if request.selection.by_price and here is look.motion:
        last = shown_by_errors(last)
        found = last.found
    model = last.model()
    told = (
        *findings_of(look, found, model, problem.summary.skipped),
        *beside_the_law(request, look, variance),
        *(() if apart is None else (apart,)),
    )
    findings = (*more, *look.findings, *model.findings, *told)
    model = replace(model, findings=findings, settings=request.settings)
    return forced(model, kicks)


def _looked(request: Request, motion: Motion, variance: Floats, options: Options) -> tuple[Motion, Look]:
    """What is found in a part of the data, and the motion of all of them, in steps as fine as it asks for."""
    # Step 1. Terms and steps are found on a part of much data; what is found is confirmed on all of them.
    whole, here = motion, screened(some_of(motion, request.seed), options, variance)
    found = search(here, options, variance)
    parts = _parts_for(here, found)
    if parts > motion.parts:
        # Samples are too far apart for the law that was found: its integrals would make terms. The search
        # goes on from that law, on instants between the samples.
        finer = request.motion(instants=parts)
        assert finer is not None
        whole, here = finer, replace(some_of(finer, request.seed), candidates=here.candidates)
        assert found is not None
        start = start_of(here, found.best.support, found.best.fitted.coef, variance)
        found = search(here, found.options, variance, start)
    return whole, second_look(Look(here, found), variance)


def _required(look: Look, request: Request, variance: Floats) -> tuple[Found, tuple[Finding, ...]]:
    """What was found, if anything was, or the best there is where that was asked for; and what to say."""
    found = look.found
    if found is None:
        raise NoModelError(
            "identify: no fit converged on these data: the denoised states diverge. "
            "Give `passes=1`, another basis, or more samples."
        )
    # A rule without a price, such as a number of terms, picks from the path whatever that is worth.
    if len(found.best.support) or not request.selection.by_price:
        return found, ()
    some = tuple(met for met in found.met if len(met.support))
    if request.least == "best" and some:
        worse = some[0].criterion - found.best.criterion
        return replace(found, best=some[0], met=some), (not_significant(worse),)
    if request.least == "best":
        # No start led to a model with terms: the most important term alone is one.
        return picked(Terms(1), look.motion, found), (not_significant(),)
    error = request.selection.nothing_kept("identify")
    walk = walk_of(look, variance)
    raise NoModelError(f"{error} {walk}") if walk else error


def _parts_for(motion: Motion, found: Found | None) -> int:
    """Into how many parts steps must be divided for what integrals are wrong by not to make terms."""
    if found is None or not motion.parts or not len(found.best.support):
        return motion.parts
    wrong = quadrature_error(motion, found.best.fitted)
    # The error falls with the ninth power of the step.
    return motion.parts if wrong < 1.0 else motion.parts * min(int(np.ceil((10 * wrong) ** (1 / 18))), 4)


def findings_of(look: Look, found: Found, model: Model, skipped: int) -> tuple[Finding, ...]:
    """What a user must know of the model."""
    assert look.found is not None
    motion, fitted, terms = look.motion, found.best.fitted, len(model.terms)
    rank = independent(motion.values(look.found.best.fitted, 4 * terms + 1_000))
    done = model.result is None or model.result.status == "converged"
    said = plain_findings(skipped, rank, terms, "" if done or model.result is None else model.result.status)
    large = (fitted.error * motion.step > 1e-2 * fitted.variance)[motion.sought]
    if large.any() and not has_finding(look.findings, "smooth-residual"):
        names = [n for n, big in zip(model.states, large, strict=True) if big]
        message = (
            f"The equations of {', '.join(names)} leave more than noise unexplained (see `model_error`): "
            "a term may be missing."
        )
        said.append(Finding("unexplained-motion", message, {"states": names}))
    fault = instrument_fault(motion, look.found)
    return (*said, *(() if fault is None else (fault,)))


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
        total += motion.basis.evaluate(record.points(x), motion.variables).T @ back.reshape(-1, d)
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
