"""The models that a search has met so far, and how to go on from one.

A pass makes the rows at the current states, for every candidate term; poses the convex problem on them with
all constraints; takes the model of least criterion on the path of its conditional gradients; adds and drops
terms by their z-scores; and fits states and coefficients on what is left.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace

import numpy as np

from cindy._types import Floats, Ints
from cindy.errors import InfeasibleError
from cindy.least_squares import LeastSquares, lengths
from cindy.pipeline.options import Options
from cindy.problem import StandardForm
from cindy.regression import Regression, binding
from cindy.rows import Rows
from cindy.selection import SupportFit, Supports
from cindy.solver import Result, conditional_gradient
from cindy.states import LEVELS, NEARBY, Fitted, Motion, blurred_terms, deviance, fit_states, stiffness

__all__ = ["Met", "Search", "better", "rank"]

# Where the benchmark `constants` is named, other values were tried one by one on its 12 data sets of noise
# from 0.1 to 10 % with fitted states.
_ROUNDS = 12
"""Passes from one start; three are typical, 8 not unheard of (benchmark: chaotic). With 2, terms are the same
and the search takes half as long again (benchmark: constants)."""
_STIFF = 2.0
"""‖h J‖ beyond which the samples do not resolve a model: true ones reach 2.0 (benchmark: chaotic)."""
_RIDGE = 1e-2
"""Of the pilot at fitted states, in units of a column (benchmark: chaotic). With 1e-4 or 1, one data set
loses its terms (benchmark: constants)."""
_BINDS = 1e-6
"""Of the radius: a run that ends closer to it than this was held back by it."""
_MOST_STEPS = 400
"""Iterations of the solver in the passes before the last: supports beyond are no candidates. With
50 terms are the same (benchmark: constants)."""


@dataclass(frozen=True, eq=False)
class Met:
    """A model met on the way: its support, what it explains, and the states that belong to it.

    unclear: coefficients that only noise tells apart
    """

    fitted: Fitted
    deviance: float
    criterion: float
    unclear: Ints = field(default_factory=lambda: np.zeros(0, dtype=np.intp))

    @property
    def support(self) -> Ints:
        return self.fitted.law.support

    @property
    def blurred(self) -> bool:
        """Whether only noise tells some of its terms apart, so that a shorter law says the same."""
        return len(self.unclear) > 0


@dataclass(eq=False)
class Search:
    """The models met so far, and how to go on from one.

    met: by support; None where the states do not settle; ends: where the way from a support ended
    bound: whether a path was all that terms could come from
    kept: the problem posed at the states of the best model so far, which is asked for again
    """

    motion: Motion
    options: Options
    met: dict[bytes, Met | None] = field(default_factory=dict)
    ends: dict[bytes, Met | None] = field(default_factory=dict)
    bound: bool = False
    kept: tuple[Fitted, tuple[StandardForm, Supports]] | None = None

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

    def path(self, form: StandardForm, supports: Supports | None = None) -> tuple[Result, list[Ints]]:
        """A run of the solver, and the supports of its iterates.

        supports: the run ends where no larger one can have less criterion, unless a user's options shape it
        """
        options = self.options
        limit = options.max_iter if options.faithful else min(options.max_iter, _MOST_STEPS)
        usual = options.radius is None and options.max_iter > _MOST_STEPS and not options.faithful
        result = conditional_gradient(
            form.objective,
            form.oracle,
            options.correction,
            tol=options.tol,
            max_iter=limit,
            callback=supports.can_gain(float(form.sizes[1][0]) ** 2)
            if supports and usual and not supports.coupled
            else None,
            quiet=True,
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
            if self.options.met is not None:
                self.options.met()
            fitted = fit_states(self.motion, start, self.solve, levels=levels)
            met = None
            # States that did not settle may be anywhere, even where the terms have no finite slope.
            if fitted.converged and (not self.motion.parts or stiffness(self.motion, fitted) <= _STIFF):
                met = self.priced(fitted, deviance(self.motion, fitted))
            self.met[key] = met
        return self.met[key]

    def again(self, met: Met) -> Met:
        """The same from its own states on, as its rivals are, where noise and model error gain by that."""
        fitted = fit_states(self.motion, replace(met.fitted, settled=False), self.solve, levels=NEARBY)
        if fitted.converged:
            met = min(met, self.priced(fitted, deviance(self.motion, fitted)), key=rank)
            self.met[met.support.tobytes()] = met
        return met

    def priced(self, fitted: Fitted, value: float) -> Met:
        criterion = value + self.options.cost(fitted.law.support, self._memory(fitted.law.support))
        return Met(fitted, value, criterion, blurred_terms(self.motion, fitted))

    def _memory(self, support: Ints) -> Floats | float:
        """How many samples count as one in the equation of each coefficient."""
        memory = self.motion.memory
        return 1.0 if memory is None else memory[support % self.motion.states]

    def posed(self, fitted: Fitted) -> tuple[StandardForm, Supports] | None:
        """The convex problem of the rows at fitted states, and the fits on its supports."""
        if self.kept is not None and self.kept[0] is fitted:
            return self.kept[1]
        blocks = self.motion.objectives(fitted, self.columns, blocks=1, apart=1e-6)
        if blocks is None:
            return None
        form = self.form(blocks)
        made = form, Supports.of_form(form, self.options.prices(self.columns))
        best = min((one for one in self.met.values() if one is not None), key=rank, default=None)
        if best is not None and best.fitted is fitted:
            self.kept = fitted, made
        return made

    def choose(self, fitted: Fitted) -> tuple[SupportFit, StandardForm] | None:
        """The support that the rows at fitted states ask for."""
        posed = self.posed(fitted)
        if posed is None:
            return None
        form, supports = posed
        result, path = self.path(form, supports)
        fits = [supports.best(path)]
        if not self.bound_to(form, result):
            own = supports.possible(np.searchsorted(self.columns, fitted.law.support))
            fits = [supports.settle(f) for f in (*fits, own) if f is not None]
        best = min((f for f in fits if f is not None), key=supports.criterion, default=None)
        return None if best is None else (best, form)

    def clearer(self, met: Met) -> tuple[SupportFit, StandardForm] | None:
        """The law without the noisiest of the terms that only noise tells apart, and what it held up."""
        free = not (self.bound or self.options.faithful)
        posed = self.posed(met.fitted) if met.blurred and free else None
        if posed is None:
            return None
        form, supports = posed
        fit = None
        less = supports.possible(np.searchsorted(self.columns, np.setdiff1d(met.support, met.unclear[:1])))
        while less is not None:
            fit, less = less, supports.without_weakest(less)
        return None if fit is None or len(fit.support) >= len(met.support) else (fit, form)

    def _support(self, fit: SupportFit) -> Ints:
        """Flat indices of the coefficients of a fit on the rows of all candidates."""
        return np.asarray(self.columns[fit.support])

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
                best = better(best, self.ends[key])
                break
            seen.append(key)
            met = self.fit(now, levels)
            best = better(best, met)
            chosen = None if met is None else self.choose(met.fitted)
            if met is not None and (chosen is None or self._support(chosen[0]).tobytes() in seen):
                chosen = self.clearer(met)
            if met is None or chosen is None:
                break
            fit, form = chosen
            coef = fit.x * form.unit.ravel()[fit.support]
            law = self.motion.law(self._support(fit))
            now = replace(met.fitted, law=law, coef=coef, settled=False)
            levels = NEARBY
        self.ends.update(dict.fromkeys(seen, best))
        return best


def better(one: Met | None, other: Met | None) -> Met | None:
    if one is None or other is None:
        return one or other
    return min(one, other, key=rank)


def rank(met: Met) -> tuple[bool, float]:
    """What can be told apart comes first, and among that the least criterion."""
    return met.blurred, met.criterion


def _restricted(rows: Rows, columns: Ints) -> Rows:
    """The rows over some of the coefficients, all others being zero."""
    return Rows(rows.matrix[:, columns], rows.lower, rows.upper, rows.owner)
