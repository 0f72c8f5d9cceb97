"""Search: the loop over supports for trajectories whose states are denoised, and the models met on the way.

A model on a support S is fitted by maximum likelihood: states, noise, model error and coefficients together
(`states.fit_states`). It is judged by

    C(S) = −2 log p(measurements | S) + Σ price_i over S

1. `fit`        states and coefficients on a support; a support is fitted once and remembered
2. `posed`      the convex problem of the white rows of all candidates at the fitted states
3. `choose`     the path of the conditional gradient on these rows, the best support on it by price, and the
                moves from there and from the present support
4. `following`  where the support came back and motion may be kicked, the same with the determinants
5. `clearer`    where only noise tells terms apart, the law without the noisiest of them
"""

from __future__ import annotations

from collections.abc import Callable, Set
from dataclasses import dataclass, field, replace
from typing import Any, ClassVar

import numpy as np

from cindy._arrays import Floats, Ints
from cindy.errors import DataError, InfeasibleError
from cindy.least_squares import LeastSquares, Rows, lengths
from cindy.pipeline.loop import Loop
from cindy.pipeline.request import Options
from cindy.problem import StandardForm
from cindy.regression import Regression, binding
from cindy.selection import EFFORT, Candidates, SupportFit, Supports
from cindy.solver import Result, Step, conditional_gradient
from cindy.states import LEVELS, NEARBY, Fitted, Motion, blurred_terms, deviance, fit_states, stiffness

__all__ = ["Met", "Posed", "Search", "white_candidates"]


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
    def order(self) -> tuple[float, int]:
        """The criterion without its rounding errors, then the number of terms, by which models are ranked.

        A coefficient that constraints hold at zero costs nothing, and a model is the same without it.
        """
        return round(self.criterion, 6), len(self.support)

    @property
    def blurred(self) -> bool:
        """Whether only noise tells some of its terms apart, so that a shorter law says the same."""
        return len(self.unclear) > 0


@dataclass(frozen=True, eq=False)
class Posed:
    """The convex problem of the rows at fitted states, and least squares on its supports.

    columns: flat indices of the coefficients that have a column
    """

    fitted: Fitted
    columns: Ints
    form: StandardForm
    supports: Supports

    @property
    def sharp(self) -> bool:
        """Whether Cholesky's method has kept eight digits, so that rows need not be factored by QR again."""
        factors = [block.factor for block in self.form.blocks]
        left = [np.min(np.abs(np.diagonal(one)) / lengths(one), initial=1.0) for one in factors]
        # A share of 1e-16 / 1e-4² is lost at most.
        return bool(min(left) > 1e-4 and all(len(one) == one.shape[1] for one in factors))

    def places(self, support: Ints) -> Ints:
        """The columns of the coefficients of a support."""
        return np.searchsorted(self.columns, support)

    def start(self, fitted: Fitted, fit: SupportFit) -> Fitted:
        """The fitted states, with the support and the coefficients of a fit on the rows there."""
        coef = fit.x * self.form.unit.ravel()[fit.support]
        law = replace(fitted.law, support=np.asarray(self.columns[fit.support]), unknown=())
        return replace(fitted, law=law, coef=coef, settled=False)


@dataclass(eq=False)
class Search(Loop[Fitted, Met]):
    """The models met so far, and how to go on from one.

    met: by where they started; None where the states do not settle
    bound: whether a path was all that terms could come from
    kept: what is posed at the states of the best model so far, which is asked for again
    restricted: the constraints over the coefficients of a support, which every step asks for
    rough: (states,) variance of the noise as the roughness of the data tells it, where it ranks models; None
        elsewhere
    """

    motion: Motion
    options: Options
    met: dict[bytes, Met | None] = field(default_factory=dict)
    bound: bool = False
    kept: Posed | None = None
    restricted: dict[bytes, Rows] = field(default_factory=dict)
    rough: Floats | None = None

    rounds: ClassVar[int] = 12
    """Passes from one start; three are typical, 8 not unheard of (benchmark: chaotic). With 2, terms are the
    same and the search takes half as long again (benchmark: constants)."""

    @property
    def columns(self) -> Ints:
        return self.motion.candidates

    @property
    def models(self) -> list[Met]:
        """All that settled, the best first."""
        return sorted((met for met in self.met.values() if met is not None), key=self.rank)

    def rank(self, met: Met) -> Any:
        """What can be told apart comes first, then what the data do not contradict, then the least criterion.

        With the law held exact the likelihood has many maxima. One whose noise is a hundred times what the
        data's own roughness says is contradicted by them.
        """
        return met.blurred, self.contradicted(met), *met.order

    def contradicted(self, met: Met) -> bool:
        """Whether the noise of a law is far more than the roughness of the data."""
        if self.rough is None:
            return False
        least = EFFORT.second_look_contradicted**2 * np.maximum(self.rough, self.motion.floor)
        return bool(np.any((met.fitted.variance > least)[self.motion.measured]))

    def better(self, first: Met | None, second: Met | None) -> Met | None:
        if first is None or second is None:
            return first or second
        return min(first, second, key=self.rank)

    def rows_over(self, columns: Ints) -> Rows:
        """The constraints over some of the coefficients, all others being zero."""
        key, rows = columns.tobytes(), self.options.rows
        if key not in self.restricted:
            self.restricted[key] = Rows(rows.matrix[:, columns], rows.lower, rows.upper, rows.owner)
        return self.restricted[key]

    def form(self, blocks: tuple[LeastSquares, ...], columns: Ints | None = None) -> StandardForm:
        """The convex problem on white rows: one target, a coefficient a column."""
        options = self.options
        return StandardForm(
            blocks,
            self.rows_over(self.columns if columns is None else columns),
            weights=options.weights,
            radius=options.radius,
            texts=options.texts,
            ridge=EFFORT.models_met_ridge,
        )

    def path(self, form: StandardForm, supports: Supports | None = None) -> tuple[Result, list[Ints]]:
        """A run of the solver, and the supports of its iterates.

        supports: the run ends where no larger one can have less criterion, unless a user's options shape it
        """
        options = self.options
        limit = options.max_iter if options.faithful else min(options.max_iter, EFFORT.models_met_most_steps)
        # With a radius or a limit on iterations of the user's own, the path is what was asked for and must
        # not be cut short.
        usual = (
            options.radius is None
            and options.max_iter > EFFORT.models_met_most_steps
            and not options.faithful
        )
        result = conditional_gradient(
            form.objective,
            form.oracle,
            options.correction,
            tol=options.tol,
            max_iter=limit,
            callback=_can_gain(supports, float(form.sizes[1][0]) ** 2)
            if supports and usual and not supports.coupled
            else None,
            quiet=True,
        )
        return result, [support for support, _ in result.path]

    def bound_to(self, form: StandardForm, result: Result) -> bool:
        """Whether terms may only come from this path: the user's options made it, or cut it off."""
        options = self.options
        held = options.radius is not None and form.region.norm(result.x) >= options.radius * (
            1 - EFFORT.models_met_binds
        )
        cut = options.max_iter <= EFFORT.models_met_most_steps and not result.converged
        self.bound |= held or cut
        return options.faithful or held or cut

    def solve(self, objective: LeastSquares, support: Ints) -> Floats:
        """Coefficients on a support from its white rows, under all constraints."""
        rows = self.rows_over(support)
        count = objective.terms
        if not len(rows):
            size = lengths(objective.design)
            # In units of the columns, so that the cut-off means dependence and not small terms.
            scaled = np.linalg.lstsq(objective.design / size, objective.target[:, 0], rcond=1e-13)[0]
            return np.asarray(scaled / size)
        every = np.arange(count)
        try:
            fit = binding(Regression((objective,), rows), every).fit(every, np.zeros(1, dtype=np.intp))
        except InfeasibleError:
            return np.full(count, np.nan)
        return fit.x

    def support(self, start: Fitted) -> bytes:
        # A support that has come back is new once more: with the determinants.
        return start.law.support.tobytes() + (b"" if start.heeded else b"without determinants")

    def key(self, start: Fitted) -> bytes:
        return start.law.support.tobytes()

    def model_on(self, start: Fitted, *, near: bool) -> Met | None:
        met = self.fit(start, NEARBY if near else LEVELS)
        if met is None or met.fitted.heeded or self.worse_than_unkicked(met):
            return met
        return self.fit(replace(met.fitted, heeded=True), ())

    def worse_than_unkicked(self, met: Met) -> bool:
        """Whether a law without kicks explains more, so that the kicks of this one are what it lacks.

        Only where there is none may motion be kicked, and a way without the determinants lead to another law
        or to none (benchmark: kicks).
        """
        return any(
            one.criterion < met.criterion and not self.motion.kicked(one.fitted).any() for one in self.models
        )

    def fit(self, start: Fitted, levels: tuple[float, ...]) -> Met | None:
        """States and coefficients on the support of a start; None where they do not settle."""
        key = self.key(start)
        known = self.met.get(key)
        first = known is not None and start.heeded and not known.fitted.heeded
        if known is not None and first and self.motion.may_be_kicked(known.fitted):
            # It was fitted on the way, where determinants are left out.
            del self.met[key]
            start, levels = replace(known.fitted, heeded=True), ()
        if key not in self.met:
            if self.options.met is not None:
                self.options.met()
            met = None
            try:
                fitted = fit_states(self.motion, start, self.solve, levels=levels)
            except DataError:
                # On the way a state has left the domain of a term.
                fitted = replace(start, alive=False)
            # States that did not settle may be anywhere, even where the terms have no finite slope.
            if fitted.converged and (
                not self.motion.parts or stiffness(self.motion, fitted) <= EFFORT.models_met_stiff
            ):
                met = self.priced(fitted, deviance(self.motion, fitted))
            self.met[key] = met
        return self.met[key]

    def again(self, met: Met) -> Met:
        """The same from its own states on, as its rivals are, where noise and model error gain by that."""
        start = replace(met.fitted, settled=False, heeded=True)
        fitted = fit_states(self.motion, start, self.solve, levels=NEARBY)
        if fitted.converged:
            met = min(met, self.priced(fitted, deviance(self.motion, fitted)), key=self.rank)
            self.met[self.key(met.fitted)] = met
        return met

    def priced(self, fitted: Fitted, value: float) -> Met:
        """A model with its criterion: −2 log p and the price of its numbers."""
        law, memory = fitted.law, self.motion.memory
        # Where noise has a memory, so many samples count as one, and a term must be worth as many times its
        # price.
        samples_as_one = 1.0 if memory is None else memory[law.support % self.motion.states]
        criterion = value + self.options.cost(law.support, samples_as_one)
        criterion += self.options.price * len(law.unknown)
        return Met(fitted, value, criterion, blurred_terms(self.motion, fitted))

    def candidates_at(self, fitted: Fitted) -> Ints | None:
        """The coefficients that rows are made for at fitted states; None where states have run away."""
        return self.columns

    def posed(self, fitted: Fitted) -> Posed | None:
        """The convex problem of the rows at fitted states."""
        if self.kept is not None and self.kept.fitted is fitted:
            return self.kept
        columns = self.candidates_at(fitted)
        blocks = None if columns is None else self.motion.objectives(fitted, columns, blocks=1, apart=1e-6)
        if columns is None or blocks is None:
            return None
        form = self.form(blocks, columns)
        posed = Posed(fitted, columns, form, Supports.of_form(form, self.options.prices(columns)))
        models = self.models
        if models and models[0].fitted is fitted:
            self.kept = posed
        return posed

    def choose(self, fitted: Fitted) -> Fitted | None:
        """The support that the rows at fitted states ask for, from the path and from the present one."""
        posed = self.posed(fitted)
        if posed is None:
            return None
        supports = posed.supports
        result, path = self.path(posed.form, supports)
        fits = [supports.best(path)]
        if not self.bound_to(posed.form, result):
            own = supports.possible(posed.places(fitted.law.support))
            fits = [supports.settle(f) for f in (*fits, own) if f is not None]
        best = min((f for f in fits if f is not None), key=supports.criterion, default=None)
        return None if best is None else posed.start(fitted, best)

    def clearer(self, met: Met) -> Fitted | None:
        """The law without the noisiest of the terms that only noise tells apart, and what it held up."""
        free = not (self.bound or self.options.faithful)
        posed = self.posed(met.fitted) if met.blurred and free else None
        if posed is None:
            return None
        fit, less = None, posed.supports.possible(posed.places(np.setdiff1d(met.support, met.unclear[:1])))
        while less is not None:
            fit, less = less, posed.supports.without_weakest(less)
        return None if fit is None or len(fit.support) >= len(met.support) else posed.start(met.fitted, fit)

    def stay(self, fitted: Fitted) -> Fitted | None:
        """The coefficients that the rows at fitted states ask for on the support they were fitted with."""
        posed = self.posed(fitted)
        fit = posed and posed.supports.possible(posed.places(fitted.law.support))
        return posed.start(fitted, fit) if posed and fit else None

    def following(self, met: Met, seen: Set[bytes]) -> Fitted | None:
        chosen = self.choose(met.fitted)
        back = chosen is None or np.array_equal(chosen.law.support, met.support)
        if chosen is not None and not back and self.support(chosen) not in seen:
            return chosen
        # The support came back. Now the determinants have their say, and where they do not matter a term that
        # only noise tells apart is tried without.
        if not met.fitted.heeded and self.motion.may_be_kicked(met.fitted):
            return replace(met.fitted, heeded=True)
        return self.clearer(met)


def white_candidates(form: StandardForm, result: Result, noise: Floats | None = None) -> Candidates:
    """What a rule may choose from where the rows are white with noise of size 1, as at fitted states.

    noise: (states,) of the measurements, in physical units
    """
    white = replace(form.regression, unit=1.0 / form.sizes[1])
    path = [support for support, _ in result.path]
    return Candidates(white, result.x, form.sizes[1], path, known=True, noise=noise)


def _can_gain(supports: Supports, unit: float) -> Callable[[Step], bool]:
    """For a run of the solver: whether larger supports may still have a smaller criterion than those met.

    An iterate has at least the χ² of its support, and no support less than all coefficients together.

    unit: what one unit of the solver's objective is in χ²
    """
    smallest = np.inf
    cheapest, dearest = float(supports.price.min()), float(supports.price.max())

    def goes_on(step: Step) -> bool:
        nonlocal smallest
        # An upper bound on the best criterion so far, and a lower bound on that of any larger support: the
        # run may stop when the second exceeds the first.
        smallest = min(smallest, unit * step.objective + dearest * step.atoms)
        return supports.least + cheapest * step.atoms <= smallest

    return goes_on
