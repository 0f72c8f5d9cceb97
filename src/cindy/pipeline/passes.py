"""Passes: states fitted, terms chosen at them by conditional gradients, until the model comes back.

An explicit loop over starts, each followed pass by pass (`Search.follow`). The starts lie along the path at
measured states; two that lead to the same model end the search.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from functools import partial
from itertools import chain

import numpy as np

from cindy._types import Floats, Ints
from cindy.errors import InfeasibleError
from cindy.pipeline.models_met import Met, Search, better, rank
from cindy.pipeline.options import Options
from cindy.regression import refit
from cindy.rows import Rows
from cindy.selection import Candidates, Selection, SupportFit, Supports, eliminated, regrown, rivals
from cindy.solver import conditional_gradient
from cindy.states import (
    FEW_ROWS,
    LEVELS,
    NEARBY,
    Fitted,
    Motion,
    drift_of_data,
    drift_of_nothing,
    first_objective,
    leaves_noise,
    start_of,
    start_of_nothing,
)

__all__ = ["NEAR", "Found", "picked", "search"]

NEAR = 14.0
"""Units of the criterion within which a model counts as almost equal (benchmark: chaotic at 40 %)."""
_RIVALS, _CLOSE = 4, 8.0
"""Models whose own states are fitted, and units within which the rows cannot say (benchmark: honesty)."""
_SHARES = (1.0, 0.5, 0.75, 1.5)
"""Sizes of the starts, in units of the best model on the first path, while they do not lead to the same.
With the first alone terms are the same (benchmark: constants)."""
_PICKED = 4
"""Rounds in which a rule without a price picks and states are fitted; two are typical: a bound on work."""
_BLOCKS = 50
"""Blocks of white rows that such a rule may leave out, as in `accumulate`."""
_MOST_FITTED = 40
"""Models after which no further start is made; chaotic systems need 5 in the median (benchmark: chaotic)."""
_MOST_COUPLED = 12
"""The same under constraints, where the fits of a choice cost a hundred times as much: a bound on work."""


@dataclass(frozen=True, eq=False)
class Found:
    """Where the search ended.

    best: the model of least criterion; met: all that were fitted, best first
    options: those of the search; another price than asked for where what is left is no noise
    """

    best: Met
    met: tuple[Met, ...]
    agreed: bool
    options: Options


def search(
    motion: Motion, options: Options, variance: Floats, first: Fitted | None = None, known: Met | None = None
) -> Found | None:
    """From starts along the paths at measured states to the model of least criterion.

    first: a model that is tried before, fitted to much the same data; known: the same, fitted to these
    """
    state = Search(motion, options)
    if known is not None:
        first = known.fitted
        state.met[known.support.tobytes()] = state.priced(known.fitted, known.deviance)
    reached: list[Met] = []
    agreed = False
    quiet = motion.quiet(variance)
    starts = _starts(state, variance, noisy=not quiet)
    if quiet and first is None and options.likely is None and motion.memory is None:
        begin = next(starts, None)
        smooth = None if begin is None else _searched_beside_a_smooth_error(state, begin, variance)
        if smooth is not None:
            return smooth
        starts = chain([] if begin is None else [begin], starts)
    for start in chain([] if first is None else [first], starts):
        met = state.follow(start, NEARBY if start is first else LEVELS)
        if met is None:
            continue
        agreed = any(np.array_equal(met.support, other.support) for other in reached)
        # At little noise the first pass is as good as any: a model that it and the last agree on is the one.
        # And so is a model that was found before and comes back as the data are weighed anew, or that is
        # left of the terms of a first start where they must matter.
        told = start is first and (options.likely is not None and len(met.support) > 0)
        agreed |= told or (
            not reached and (quiet or start is first) and np.array_equal(met.support, start.law.support)
        )
        # What explains more, be it by terms that noise alone tells apart, says that there is more to find.
        least = min(other.criterion for other in state.met.values() if other is not None)
        agreed &= not met.blurred and met.criterion <= least
        reached.append(met)
        if agreed or len(state.met) >= (_MOST_COUPLED if len(options.rows) else _MOST_FITTED):
            break
    if reached and not state.bound and not options.faithful:
        _with_rivals(state, min(reached, key=rank))
    # A random walk describes noise with memory well; with the law exact it is no measure of a model.
    if not (quiet and reached) and motion.memory is None:
        # Every model must be worth more than none, whose variance is by likelihood too.
        # Where it fits as well as a law it gets no head start.
        few = motion.rows < FEW_ROWS
        state.fit(
            start_of(motion, motion.candidates[:0], np.zeros(0), variance)
            if few
            else start_of_nothing(motion, variance),
            LEVELS if few else (),
        )
    # What is left of a path that was cut off or held back is what was asked for, be it worse than nothing.
    every = sorted((m for m in state.met.values() if m is not None), key=rank)
    if state.bound:
        every.sort(key=lambda m: not len(m.support))
    elif every and not len(every[0].support):
        # Nothing that can be told apart is worth more than none: then what cannot be, if that clearly is.
        every.sort(key=lambda m: m.criterion + NEAR * m.blurred)
    return Found(every[0], tuple(every), agreed, options) if every else None


def picked(rule: Selection, motion: Motion, found: Found) -> Found:
    """What a rule without a price picks at fitted states, and the states that belong to it.

    The search by a price gives the first states. Then the rule picks from the white rows there, states are
    fitted on what it picked, and so on until its support comes back.
    """
    if rule.by_price:
        return found
    state, best = Search(motion, found.options), found.best
    seen: set[bytes] = set()
    while best.support.tobytes() not in seen and len(seen) < _PICKED:
        seen.add(best.support.tobytes())
        blocks = motion.objectives(best.fitted, motion.candidates, blocks=_BLOCKS)
        if blocks is None:
            break
        form = state.form(blocks)
        options = found.options
        result = conditional_gradient(
            form.objective,
            form.oracle,
            options.correction,
            tol=rule.tolerance(options.tol),
            max_iter=options.max_iter,
            quiet=True,
        )
        white = replace(form.regression, unit=1.0 / form.sizes[1])
        path = [support for support, _ in result.path]
        noise = motion.noise(best.fitted)
        support = rule.pick(Candidates(white, result.x, form.sizes[1], path, known=True, noise=noise))
        if not len(support):
            raise rule.nothing_kept("identify")
        law = motion.law(motion.candidates[support])
        if not rule.refits:
            coef = (result.x * form.unit).ravel()[support]
            best = replace(best, fitted=replace(best.fitted, law=law, coef=coef))
            break
        try:
            x = refit(white, support).x.ravel()[support]
        except InfeasibleError as error:
            raise form.named(error, support) from error
        start = replace(best.fitted, law=law, coef=x * form.unit.ravel()[support], settled=False)
        best = state.fit(start, NEARBY) or state.priced(start, np.inf)
        if not rule.repeats:
            break
    return Found(best, (best,), found.agreed, found.options)


def _with_rivals(state: Search, best: Met) -> None:
    """Fit what explains the rows of the best almost as well, at its own states; on from what is better."""
    for _ in range(_RIVALS):
        posed = None if best.blurred else state.posed(best.fitted)
        if posed is None or len(state.met) >= _MOST_FITTED:
            return
        form, supports = posed
        if supports.coupled:
            return
        own = supports.fit(np.searchsorted(state.columns, best.support))
        # Terms that would come in addition were not significant: those in the place of others are tried.
        others = [one for one in rivals(supports, own, _CLOSE) if one.fit.free <= own.free][:_RIVALS]
        if others:
            best = state.again(best)
        now = best
        for rival in others:
            law = state.motion.law(state.columns[rival.fit.support])
            coef = rival.fit.x * form.unit.ravel()[rival.fit.support]
            met = state.fit(replace(best.fitted, law=law, coef=coef, settled=False), NEARBY)
            now = better(now, met) or now
        if now is best:
            return
        best = now


def _searched_beside_a_smooth_error(state: Search, start: Fitted, variance: Floats) -> Found | None:
    """The search where terms must matter, if the first start, which has terms enough, leaves no noise."""
    motion, met = state.motion, state.fit(start, LEVELS)
    if met is None or not len(met.support) or leaves_noise(motion, met.fitted):
        return None
    options = state.options.resolved(motion.rows // motion.states)
    found = search(motion, options, variance, known=met)
    return found if found is not None and len(found.best.support) else None


def _starts(state: Search, variance: Floats, *, noisy: bool) -> Iterator[Fitted]:
    """Models along the first paths: the best, smaller and larger ones.

    Without much noise first the best with terms added and dropped; with it, that is no start of its own.
    """
    motion = state.motion
    seen: set[bytes] = set()
    for drift_of in (partial(drift_of_data, variance=variance), drift_of_nothing):
        form = state.form((first_objective(motion, drift_of(motion)),))
        # The variance of these rows is a guess: each model is judged by its own.
        supports = replace(
            Supports.of_form(form, state.options.prices(state.columns, likelihood=True)), known=False
        )
        result, path = state.path(form)
        best = supports.best(path)
        if best is None:
            continue
        bound = state.bound_to(form, result)
        settled = None if noisy or bound else supports.settle(best)
        apart = None if bound else _equation_by_equation(state, supports, path)
        sizes = [share * len(best.support) for share in _SHARES] + [2.0 * motion.states, 3.0 * motion.states]
        near = [min(path, key=lambda s: abs(len(s) - size)) for size in sizes]
        for fit in chain([apart, settled], map(supports.possible, near)):
            if fit is None or fit.support.tobytes() in seen:
                continue
            seen.add(fit.support.tobytes())
            coef = fit.x * form.unit.ravel()[fit.support]
            yield start_of(motion, state.columns[fit.support], coef, variance)


def _equation_by_equation(state: Search, supports: Supports, path: list[Ints]) -> SupportFit | None:
    """The best support of each equation for itself: at measured states no equation knows of another.

    Elimination and regrowth then go through the terms of one equation at a time. On short and nearly clean
    data the path alone ends in local minima, and this start is right (benchmark: short_clean). Where
    constraints couple equations, elimination of them all.
    """
    motion = state.motion
    if len(supports.constraints):
        down = eliminated(supports, path[-1] if path else ())
        return None if down is None else supports.settle(down)
    chosen = []
    rows = supports.rows // len(motion.sought)
    for j in motion.sought:
        columns = np.flatnonzero(state.columns % motion.states == j)
        directions, triangle = np.linalg.qr(supports.design[:, columns])
        alone = replace(
            supports,
            design=triangle,
            target=directions.T @ supports.target,
            rows=rows,
            constraints=Rows.none(len(columns)),
            price=supports.price[columns],
            # The rows of each equation are in units of what all of its terms leave.
            rest=float(max(rows - len(columns), 1)),
        )
        offered = {np.flatnonzero(np.isin(columns, one)).tobytes(): one for one in path}
        starts = [
            alone.best([np.flatnonzero(np.isin(columns, one)) for one in offered.values()]),
            eliminated(alone),
        ]
        fits = [alone.settle(fit) for fit in starts if fit is not None]
        if not fits:
            return None
        best = regrown(alone, fits)
        chosen.append(columns[best.support])
    return supports.possible(np.sort(np.concatenate(chosen)))
