"""Many coefficients: from the law that one pass found to states fitted under it, terms screened by scores.

Rows at fitted states for thousands of candidates are too many to make. The score of a candidate, cᵀ S⁻¹ r
with c its column and r what the law leaves, needs one solve for all of them (Rao 1948); the length of what a
column adds to the law's is taken from a few stretches. Terms are then chosen among the law's and those of the
largest scores.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np
from scipy.sparse import csr_array

from cindy._types import Floats, Ints
from cindy.model import Model
from cindy.pipeline.fitted import findings_of
from cindy.pipeline.inference import LastPass
from cindy.pipeline.models_met import Search
from cindy.pipeline.options import Options
from cindy.pipeline.passes import Found, picked
from cindy.pipeline.request import Request
from cindy.pipeline.second_look import Look
from cindy.problem import at_samples
from cindy.rows import Rows, connected
from cindy.states import NEARBY, Fitted, Motion, start_of

__all__ = ["refined"]

_LIKELY = 300
"""Candidates beside the terms of the law that rows are made for (benchmark: bound, kuramoto10)."""
_POOR = 0.1
"""Of the noise: model error from one sample to the next beyond which an equation lacks terms: it was
2.6 where 16 of 20 terms were missing, and 4e-3 where none were (`cindy reproduce kuramoto10`, noise 1e-2)."""
_WHOLE = 1_000
"""Candidates of such equations that rows are made for at most: three times `_LIKELY`, a bound on work. Ten
oscillators have 211 an equation."""
_ROUNDS = 8
"""States and terms in turn; a support that comes back ends it sooner. Four were needed for those 16 terms."""
_STRETCHES = 4
"""Stretches by which lengths of columns are judged: they only rank candidates."""
_ROWS = 20_000
"""Rows of these stretches that are enough, likewise, where stretches are long."""
_NUMBERS = 20_000_000
"""Numbers of a table of white columns that are held at once: 160 MB."""
_DEPENDENT = 1e-5
"""What is left of a column beyond the terms of the law, below which it says nothing new."""
_MOST_WORK = 1e10
"""Multiplications of one step over states and coefficients that are spent unasked: ten coupled oscillators
take 4e9, and a step a second."""


def refined(request: Request, model: Model, *, anyway: bool) -> Model:
    """The model with fitted states that starts from one of measured states; as it is where none settles.

    anyway: however long it takes
    """
    motion = request.motion()
    if motion is None or not motion.records:
        return model
    support = motion.widened(np.flatnonzero(model.coef))
    work = motion.rows * (10.0 * motion.states + len(support)) * len(support)
    problem = request.problem(motion)
    if (work > _MOST_WORK and not anyway) or any(at_samples(c) for c in problem.constraints):
        return model
    start = start_of(motion, support, model.coef[model.coef != 0], request.variance(motion))
    here, found = _followed(request.narrowed(motion, problem), request.options(motion, problem), start)
    if found is None:
        return model
    found = picked(request.selection, here, found)
    made = LastPass.of(problem, here, found, request.callback).model()
    said = (*made.findings, *findings_of(Look(here, found), found, made, problem.summary.skipped))
    return replace(made, findings=said, settings=model.settings)


def _followed(motion: Motion, options: Options, start: Fitted) -> tuple[Motion, Found | None]:
    """States and terms in turn until a support comes back: the candidates looked at, and what was met."""
    state, agreed = Search(motion, options), False
    now, looked = start, motion
    for _ in range(_ROUNDS):
        met = state.fit(now, NEARBY)
        likely = None if met is None else _likely(motion, options.rows, met.fitted)
        if met is None or likely is None:
            break
        known = [m.support for m in state.met.values() if m is not None]
        looked = replace(motion, candidates=np.unique(np.concatenate([likely, *known])))
        chosen = Search(looked, options).choose(met.fitted)
        if chosen is None:
            break
        fit, form = chosen
        support = looked.candidates[fit.support]
        agreed = np.array_equal(support, met.support)
        if agreed or support.tobytes() in state.met:
            break
        coef = fit.x * form.unit.ravel()[fit.support]
        now = replace(met.fitted, law=motion.law(support), coef=coef, settled=False)
    ranked = sorted((m for m in state.met.values() if m is not None), key=lambda m: m.criterion)
    if not ranked or not len(ranked[0].support):
        return looked, None
    every = np.unique(np.concatenate([looked.candidates, *(m.support for m in ranked)]))
    return replace(motion, candidates=every), Found(ranked[0], tuple(ranked), agreed, options)


def _likely(motion: Motion, rows: Rows, fitted: Fitted) -> Ints | None:
    """The terms of a law, those of the largest scores, and what constraints tie to them."""
    gradient = _gradient(motion, fitted)
    size = None if gradient is None else _lengths(motion, fitted)
    if gradient is None or size is None:
        return None
    score = np.where(size > 0, gradient**2 / np.where(size > 0, size, 1.0), 0.0)
    score[np.isin(motion.candidates, fitted.law.support)] = 0.0
    kept = np.union1d(fitted.law.support, motion.candidates[np.argsort(-score)[:_LIKELY]])
    # Terms that only work together have no score each for itself: an equation that leaves much gets all.
    poor = np.flatnonzero(fitted.error * motion.step > _POOR * fitted.variance)
    whole = motion.candidates[np.isin(motion.candidates % motion.states, poor)]
    if len(whole) <= _WHOLE:
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
    each = -(-_STRETCHES // len(motion.records))
    for record, x in zip(motion.records, fitted.x, strict=True):
        size = record.grid.rows * motion.states
        most = min(each, record.stretches, max(_ROWS // size, 1))
        which = np.unique(np.linspace(0, record.stretches - 1, most).astype(np.intp))
        part = motion.part([record.part(which)])
        [white] = part.whitened(replace(fitted, x=(x[which],)))
        if white is None:
            return None
        inside = part.table(white, fitted.law)[:, :-1]
        directions = np.linalg.qr(inside)[0]
        pieces = np.array_split(motion.candidates, -(-len(motion.candidates) * len(inside) // _NUMBERS))
        at = 0
        for piece in pieces:
            table = part.table(white, motion.law(piece))[:, :-1]
            whole = np.sum(table**2, axis=0)
            beyond = whole - np.sum((directions.T @ table) ** 2, axis=0)
            total[at : at + len(piece)] += np.where(beyond > _DEPENDENT**2 * whole, beyond, 0.0)
            at += len(piece)
        rows += len(inside)
        if rows > 5 * inside.shape[1] and rows >= min(_STRETCHES * size, _ROWS):
            break
    return total * (motion.rows / max(rows, 1))
