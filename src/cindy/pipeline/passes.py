"""Passes: states fitted, terms chosen at them by conditional gradients, until the model comes back.

An explicit loop. A pass makes the rows at the current states, for every candidate term; poses the convex
problem on them with all constraints; takes the model of least criterion on the path of its conditional
gradients; adds and drops terms by their z-scores; and fits states and coefficients on what is left. The
starts lie along the path at measured states; two that lead to the same model end the search.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from itertools import chain

import numpy as np
from numpy.typing import NDArray

from cindy._types import Floats
from cindy.errors import InfeasibleError
from cindy.least_squares import LeastSquares, lengths
from cindy.pipeline.options import Options
from cindy.pipeline.rivals import rivals
from cindy.problem import StandardForm
from cindy.regression import Regression, binding
from cindy.rows import Rows
from cindy.selection import SupportFit, Supports
from cindy.solver import Result, conditional_gradient
from cindy.states import (
    LEVELS,
    NEARBY,
    Fitted,
    Motion,
    deviance,
    drift_of_data,
    drift_of_nothing,
    first_objective,
    fit_states,
    leaves_noise,
    start_of,
    start_of_nothing,
    stiffness,
    tells_apart,
)

__all__ = ["NEAR", "Found", "Met", "Search", "search"]

Ints = NDArray[np.intp]

NEAR = 14.0
"""Units of the criterion within which a model counts as almost equal (benchmark: chaotic at 40 %)."""
_RIVALS, _CLOSE = 4, 8.0
"""Models whose own states are fitted, and units within which the rows cannot say (benchmark: honesty)."""
# Where the benchmark `constants` is named, other values were tried one by one on its 12 data sets of noise
# from 0.1 to 10 % with fitted states, before rivals were fitted.
_ROUNDS = 8
"""Passes from one start; three are typical. With 2, one data set loses its terms (benchmark: constants)."""
_STIFF = 2.0
"""‖h J‖ beyond which the samples do not resolve a model: true ones reach 2.0 (benchmark: chaotic)."""
_SHARES = (1.0, 0.5, 0.75, 1.5)
"""Sizes of the starts, in units of the best model on the first path, while they do not lead to the same.
With the first alone terms are the same (benchmark: constants)."""
_RIDGE = 1e-2
"""Of the pilot at fitted states, in units of a column (benchmark: chaotic). With 1e-4 or 1, one data set
loses its terms (benchmark: constants)."""
_BINDS = 1e-6
"""Of the radius: a run that ends closer to it than this was held back by it."""
_MOST_FITTED = 40
"""Models after which no further start is made; chaotic systems need 5 in the median (benchmark: chaotic)."""
_FEW_ROWS = 400
"""Rows below which a walk that explains nothing fits as well as a law: there it gets no head start.

Three runs of Paramecium, 108 rows, are a walk by 3 units of −2 log p, and a law to every reader."""
_MOST_STEPS = 400
"""Iterations of the solver in the passes before the last: supports beyond are no candidates. With
50 terms are the same (benchmark: constants)."""


@dataclass(frozen=True, eq=False)
class Met:
    """A model met on the way: its support, what it explains, and the states that belong to it.

    blurred: whether only noise tells its terms apart, so that a shorter law says the same
    """

    fitted: Fitted
    deviance: float
    criterion: float
    blurred: bool = False

    @property
    def support(self) -> Ints:
        return self.fitted.law.support


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


@dataclass(eq=False)
class Search:
    """The models met so far, and how to go on from one.

    met: by support; None where the states do not settle; ends: where the way from a support ended
    bound: whether a path was all that terms could come from
    """

    motion: Motion
    options: Options
    met: dict[bytes, Met | None] = field(default_factory=dict)
    ends: dict[bytes, Met | None] = field(default_factory=dict)
    bound: bool = False

    @property
    def columns(self) -> Ints:
        return self.motion.candidates

    def form(self, blocks: tuple[LeastSquares, ...]) -> StandardForm:
        """The convex problem on white rows: one target, a coefficient a column."""
        options = self.options
        return StandardForm(
            blocks,
            _restricted(options.rows, self.columns),
            weights=options.weights,
            radius=options.radius,
            texts=options.texts,
            ridge=_RIDGE,
        )

    def path(self, form: StandardForm) -> tuple[Result, list[Ints]]:
        """A run of the solver, and the supports of its iterates."""
        options = self.options
        limit = options.max_iter if options.faithful else min(options.max_iter, _MOST_STEPS)
        result = conditional_gradient(
            form.objective, form.oracle, options.correction, tol=options.tol, max_iter=limit, quiet=True
        )
        return result, [support for support, _ in result.path]

    def bound_to(self, form: StandardForm, result: Result) -> bool:
        """Whether terms may only come from this path: the user's options made it, or cut it off."""
        options = self.options
        held = options.radius is not None and form.region.norm(result.x) >= options.radius * (1 - _BINDS)
        cut = options.max_iter <= _MOST_STEPS and not result.converged
        self.bound |= held or cut
        return options.faithful or held or cut

    def solve(self, objective: LeastSquares, support: Ints) -> Floats:
        """Coefficients on a support from its white rows, under all constraints."""
        rows = _restricted(self.options.rows, support)
        count = objective.terms
        if not len(rows):
            size = lengths(objective.design)
            scaled = np.linalg.lstsq(objective.design / size, objective.target[:, 0], rcond=1e-13)[0]
            return np.asarray(scaled / size)
        every = np.arange(count)
        try:
            fit = binding(Regression((objective,), rows), every).fit(every, np.zeros(1, dtype=np.intp))
        except InfeasibleError:
            return np.full(count, np.nan)
        return fit.x

    def fit(self, start: Fitted, levels: tuple[float, ...]) -> Met | None:
        """States and coefficients on the support of a start; None where they do not settle."""
        key = start.law.support.tobytes()
        if key not in self.met:
            fitted = fit_states(self.motion, start, self.solve, levels=levels)
            met = None
            resolved = not self.motion.parts or stiffness(self.motion, fitted) <= _STIFF
            if fitted.converged and resolved:
                met = self.priced(fitted, deviance(self.motion, fitted))
            self.met[key] = met
        return self.met[key]

    def again(self, met: Met) -> Met:
        """The same from its own states on, as its rivals are, where noise and model error gain by that."""
        fitted = fit_states(self.motion, replace(met.fitted, settled=False), self.solve, levels=NEARBY)
        if fitted.converged:
            met = min(met, self.priced(fitted, deviance(self.motion, fitted)), key=_rank)
            self.met[met.support.tobytes()] = met
        return met

    def priced(self, fitted: Fitted, value: float) -> Met:
        free = _free(self.options.rows, fitted.law.support)
        criterion = value + self.options.price_of_likelihood * free
        return Met(fitted, value, criterion, blurred=not tells_apart(self.motion, fitted))

    def posed(self, fitted: Fitted) -> tuple[StandardForm, Supports] | None:
        """The convex problem of the rows at fitted states, and the fits on its supports."""
        blocks = self.motion.objectives(fitted, self.columns, blocks=1, apart=1e-6)
        if blocks is None:
            return None
        form = self.form(blocks)
        return form, Supports(form, self.options.price)

    def choose(self, fitted: Fitted) -> tuple[SupportFit, StandardForm] | None:
        """The support that the rows at fitted states ask for."""
        posed = self.posed(fitted)
        if posed is None:
            return None
        form, supports = posed
        result, path = self.path(form)
        fits = [supports.best(path)]
        if not self.bound_to(form, result):
            own = supports.possible(np.searchsorted(self.columns, fitted.law.support))
            fits = [supports.settle(f) for f in (*fits, own) if f is not None]
        best = min((f for f in fits if f is not None), key=supports.criterion, default=None)
        return None if best is None else (best, form)

    def stay(self, fitted: Fitted) -> tuple[SupportFit, StandardForm] | None:
        """The coefficients that the rows at fitted states ask for on the support they were fitted with."""
        posed = self.posed(fitted)
        fit = posed and posed[1].possible(np.searchsorted(self.columns, fitted.law.support))
        return (fit, posed[0]) if posed and fit else None

    def follow(self, start: Fitted, levels: tuple[float, ...] = LEVELS) -> Met | None:
        """From a start, fit and choose until the support comes back: the best model on that way."""
        best: Met | None = None
        seen: list[bytes] = []
        now = start
        for _ in range(_ROUNDS):
            key = now.law.support.tobytes()
            if key in seen:
                break
            if key in self.ends:
                best = _better(best, self.ends[key])
                break
            seen.append(key)
            met = self.fit(now, levels)
            best = _better(best, met)
            chosen = None if met is None else self.choose(met.fitted)
            if met is None or chosen is None:
                break
            fit, form = chosen
            coef = fit.x * form.unit.ravel()[fit.support]
            law = self.motion.law(self.columns[fit.support])
            now = replace(met.fitted, law=law, coef=coef, settled=False)
            levels = NEARBY
        self.ends.update(dict.fromkeys(seen, best))
        return best


def _better(one: Met | None, other: Met | None) -> Met | None:
    if one is None or other is None:
        return one or other
    return min(one, other, key=_rank)


def _rank(met: Met) -> tuple[bool, float]:
    """What can be told apart comes first, and among that the least criterion."""
    return met.blurred, met.criterion


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
    if quiet and first is None and options.likely is None:
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
        if agreed or len(state.met) >= _MOST_FITTED:
            break
    if reached and not state.bound and not options.faithful:
        _with_rivals(state, min(reached, key=_rank))
    if not (quiet and reached):
        # Every model must be worth more than none, whose variance is by likelihood too.
        few = motion.rows < _FEW_ROWS
        state.fit(
            start_of(motion, motion.candidates[:0], np.zeros(0), variance)
            if few
            else start_of_nothing(motion, variance),
            LEVELS if few else (),
        )
    # What is left of a path that was cut off or held back is what was asked for, be it worse than nothing.
    every = sorted((m for m in state.met.values() if m is not None), key=_rank)
    if state.bound:
        every.sort(key=lambda m: not len(m.support))
    elif every and not len(every[0].support):
        # Nothing that can be told apart is worth more than none: then what cannot be, if that is.
        every.sort(key=lambda m: m.criterion)
    return Found(every[0], tuple(every), agreed, options) if every else None


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
            now = _better(now, met) or now
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
    for drift in (drift_of_data(motion, variance), drift_of_nothing(motion)):
        form = state.form((first_objective(motion, drift),))
        supports = Supports(form, state.options.price)
        result, path = state.path(form)
        best = supports.best(path, own_variance=state.options.price_of_likelihood)
        if best is None:
            continue
        scale = best.loss / form.objective.rows
        settled = None if noisy or state.bound_to(form, result) else supports.settle(best, scale=scale)
        sizes = [share * len(best.support) for share in _SHARES] + [2.0 * motion.states, 3.0 * motion.states]
        near = [min(path, key=lambda s: abs(len(s) - size)) for size in sizes]
        for fit in chain([settled], map(supports.possible, near)):
            if fit is None or fit.support.tobytes() in seen:
                continue
            seen.add(fit.support.tobytes())
            coef = fit.x * form.unit.ravel()[fit.support]
            yield start_of(motion, state.columns[fit.support], coef, variance)


def _restricted(rows: Rows, columns: Ints) -> Rows:
    """The rows over some of the coefficients, all others being zero."""
    return Rows(rows.matrix[:, columns], rows.lower, rows.upper, rows.owner)


def _free(rows: Rows, support: Ints) -> int:
    """How many parameters a support has under the equalities."""
    free = rows.equalities.freedom(support) if len(rows) else None
    return len(support) if free is None else int(free.basis.shape[1])
