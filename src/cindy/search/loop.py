"""The one loop: fit a model on a support, choose a support from the rows there, until it comes back.

Every kind of evidence for a law is searched in the same way, and every kind of search is one class below:

    repeat   1. fit         what is no coefficient, such as states and noise, is estimated on the support of a
                            start (`model_on`)
             2. rows        white rows of all candidates are made at these estimates
             3. choose      the path of the conditional gradient offers supports; the rule picks one, with
                            terms added, dropped and exchanged on the same triangle (`following`)
    until the support comes back

| evidence                      | what is profiled out                      | class                          |
|-------------------------------|-------------------------------------------|--------------------------------|
| trajectories, states denoised | states, noise, model error, memory, kicks | `loop.Search`                  |
| the same, very many terms     | the same; rows for the likely terms only  | `fitted.ManyTerms`             |
| the same, more than memory    | states, part by part                      | `large.Confirmation`           |
| numbers inside terms          | states and numbers together               | `parametric.ParametricSearch`  |
| the same, in fields           | the numbers                               | `field_parameters.FieldSearch` |
| any, by a rule without price  | as above                                  | `starts.Picking`               |

There are finitely many supports, so one comes back; a search ends there, or after `rounds` at the latest.
The cost is that of a fit for every support on the way. At the end terms may still leave, one by one, by the
errors of the final model (`inference.shown_by_errors`, `measured.model_of`).

`Search` is the loop for trajectories whose states are denoised. A model on a support S is fitted by maximum
likelihood: states, noise, model error and coefficients together (`states.fit_states`). It is judged by

    C(S) = −2 log p(measurements | S) + Σ price_i over S

1. `fit`        fits states and coefficients on a support; a support is fitted once and remembered
2. `posed`      poses the convex problem of the white rows of all candidates at the fitted states
3. `choose`     runs the conditional gradient on these rows, takes the best support of its path by price, and
                makes the moves of `Supports.settle` from there and from the present support
4. `following`  says where to go on; a support that came back is fitted once more with the determinants where
                motion may be kicked
5. `clearer`    leaves out the noisiest of the terms that only noise tells apart
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Set
from dataclasses import dataclass, field, replace
from typing import Any, ClassVar, Generic, TypeVar

import numpy as np

from cindy._arrays import Floats, Ints
from cindy.errors import DataError, InfeasibleError
from cindy.least_squares import LeastSquares, Rows, lengths
from cindy.problem import StandardForm
from cindy.regression import Regression, binding
from cindy.search.request import Options
from cindy.selection import EFFORT, Candidates, SupportFit, Supports
from cindy.solver import Result, conditional_gradient
from cindy.states import LEVELS, NEARBY, Fitted, Motion, blurred_terms, deviance, fit_states, stiffness

Start = TypeVar("Start")
"""A support, and first values of what is estimated on it beside the coefficients."""
Reached = TypeVar("Reached")
"""A model that was fitted on a support."""


@dataclass(eq=False)
class Loop(ABC, Generic[Start, Reached]):
    """A search over supports; a subclass says how a model is fitted, and which support follows from it.

    ends: by the key of a start, the best model of the search that led through it, so that none is made twice
    """

    ends: dict[bytes, Reached | None] = field(default_factory=dict, kw_only=True)

    rounds: ClassVar[int]
    """Models that are fitted from one start at most: a bound on work."""

    @abstractmethod
    def support(self, start: Start) -> bytes:
        """The terms of a start: the search ends where they come back."""

    @abstractmethod
    def model_on(self, start: Start, *, near: bool) -> Reached | None:
        """The model on the support of a start; None where the fit does not converge.

        near: whether the first values are close to those of the fit
        """

    @abstractmethod
    def following(self, met: Reached, seen: Set[bytes]) -> Start | None:
        """The next start, from a model; seen: the supports so far. None where no other support is better."""

    def key(self, start: Start) -> bytes:
        """What a fit depends on: the support, unless the subclass says that there is more."""
        return self.support(start)

    def better(self, first: Reached | None, second: Reached | None) -> Reached | None:
        """Which of two models counts: the later one, unless the subclass compares them."""
        return second or first

    def follow(self, start: Start, *, near: bool = False) -> Reached | None:
        """Fit and choose from a start on until the support comes back; the best model met is returned."""
        best: Reached | None = None
        seen: dict[bytes, bytes] = {}
        now: Start | None = start
        for _ in range(self.rounds):
            if now is None or self.support(now) in seen:
                break
            key = self.key(now)
            if key in self.ends:
                # An earlier search came through here: it ends where that one did.
                best = self.better(best, self.ends[key])
                break
            seen[self.support(now)] = key
            met = self.model_on(now, near=near)
            best = self.better(best, met)
            if met is None:
                break
            now, near = self.following(met, seen.keys()), True
        self.ends.update(dict.fromkeys(seen.values(), best))
        return best


@dataclass(frozen=True, eq=False)
class Met:
    """A model that the search has fitted: its support and states, −2 log p, and its criterion.

    unclear: coefficients whose terms only the noise in the states tells apart
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
        """What models are ranked by: the criterion without its rounding errors, then the number of terms.

        A coefficient that constraints hold at zero has no price, so that two models may tie.
        """
        return round(self.criterion, 6), len(self.support)

    @property
    def blurred(self) -> bool:
        """Whether only noise tells some terms apart, so that a shorter law describes the same motion."""
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
        # At most a share of 1e-16 / 1e-4² is lost. A block of few rows is no triangle.
        return all(
            len(factor) == factor.shape[1]
            and bool(np.all(np.abs(np.diagonal(factor)) > 1e-4 * lengths(factor)))
            for factor in factors
        )

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
    """The models fitted so far, and how to go on from one.

    met: the models by the key of their start; None where the states do not converge
    bound: whether the user's options allow only terms of the path
    posed_at_best: the problem at the states of the best model so far, which is asked for again
    restricted: the constraints over the coefficients of a support, which every step asks for
    rough: (states,) variance of the noise as estimated from the roughness of the data; None where models are
        not judged by it
    """

    motion: Motion
    options: Options
    met: dict[bytes, Met | None] = field(default_factory=dict)
    bound: bool = False
    posed_at_best: Posed | None = None
    restricted: dict[bytes, Rows] = field(default_factory=dict)
    rough: Floats | None = None

    rounds: ClassVar[int] = 12
    """Models fitted from one start: three are typical, eight occur (benchmark: chaotic). With 2, terms are
    the same and the search takes half as long again (benchmark: constants)."""

    @property
    def columns(self) -> Ints:
        return self.motion.candidates

    @property
    def models(self) -> list[Met]:
        """All models whose states converged, the best first."""
        return sorted((met for met in self.met.values() if met is not None), key=self.rank)

    def rank(self, met: Met) -> Any:
        """Models sort by this: whether terms are told apart only by noise, then whether the data contradict
        the model, then by criterion.

        The likelihood of a law that is held exact has many maxima. If the noise at one of them is a hundred
        times what the roughness of the data allows, the data contradict it.
        """
        return met.blurred, self.contradicted(met), *met.order

    def contradicted(self, met: Met) -> bool:
        """Whether a model needs far more noise than the roughness of the data allows."""
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
            ridge=EFFORT.loop_ridge,
        )

    def path(self, form: StandardForm) -> tuple[Result, list[Ints]]:
        """A run of the solver, and the supports of its iterates."""
        options = self.options
        limit = options.max_iter if options.faithful else min(options.max_iter, EFFORT.loop_most_steps)
        result = conditional_gradient(
            form.objective,
            form.oracle,
            options.correction,
            tol=options.tol,
            max_iter=limit,
            quiet=True,
        )
        return result, [support for support, _ in result.path]

    def bound_to(self, form: StandardForm, result: Result) -> bool:
        """Whether terms may come only from this path, because the user's options limited it."""
        options = self.options
        held = options.radius is not None and form.region.norm(result.x) >= options.radius * (
            1 - EFFORT.loop_binds
        )
        cut = options.max_iter <= EFFORT.loop_most_steps and not result.converged
        self.bound |= held or cut
        return options.faithful or held or cut

    def solve(self, objective: LeastSquares, support: Ints) -> Floats:
        """Coefficients on a support from its white rows, under all constraints."""
        rows = self.rows_over(support)
        count = objective.terms
        if not len(rows):
            size = lengths(objective.design)
            # In units of the columns, so that the cut-off finds dependent columns and not small terms.
            scaled = np.linalg.lstsq(objective.design / size, objective.target[:, 0], rcond=1e-13)[0]
            return np.asarray(scaled / size)
        every = np.arange(count)
        try:
            fit = binding(Regression((objective,), rows), every).fit(every, np.zeros(1, dtype=np.intp))
        except InfeasibleError:
            return np.full(count, np.nan)
        return fit.x

    def support(self, start: Fitted) -> bytes:
        # With the determinants, a support that has come back counts as a new one.
        return start.law.support.tobytes() + (b"" if start.heeded else b"without determinants")

    def key(self, start: Fitted) -> bytes:
        return start.law.support.tobytes()

    def model_on(self, start: Fitted, *, near: bool) -> Met | None:
        met = self.fit(start, NEARBY if near else LEVELS)
        if met is None or met.fitted.heeded or self.worse_than_unkicked(met):
            return met
        return self.fit(replace(met.fitted, heeded=True), ())

    def worse_than_unkicked(self, met: Met) -> bool:
        """Whether a law without kicks explains more: then the kicks of this one replace terms that it lacks.

        Such a model is not fitted again with the determinants. Where no law without kicks is better, motion
        may be kicked, and without the determinants the search may end at another law or at none (benchmark:
        kicks).
        """
        return any(
            other.criterion < met.criterion and not self.motion.kicked(other.fitted).any()
            for other in self.models
        )

    def fit(self, start: Fitted, levels: tuple[float, ...]) -> Met | None:
        """The model with the support of a start; None where its states do not converge."""
        key = self.key(start)
        known = self.met.get(key)
        first = known is not None and start.heeded and not known.fitted.heeded
        if known is not None and first and self.motion.may_be_kicked(known.fitted):
            # It was fitted without the determinants, as all models on the way are.
            del self.met[key]
            start, levels = replace(known.fitted, heeded=True), ()
        if key not in self.met:
            if self.options.met is not None:
                self.options.met()
            met = None
            try:
                fitted = fit_states(self.motion, start, self.solve, levels=levels)
            except DataError:
                # During the fit a state has left the domain of a term.
                fitted = replace(start, alive=False)
            # States that did not converge may be anywhere, even where the terms have no finite slope.
            if fitted.converged and (not self.motion.parts or _resolved(self.motion, fitted)):
                met = self.priced(fitted, deviance(self.motion, fitted))
            self.met[key] = met
        return self.met[key]

    def again(self, met: Met) -> Met:
        """A model fitted once more from its own states, as its rivals are, so that all have equal chances."""
        start = replace(met.fitted, settled=False, heeded=True)
        fitted = fit_states(self.motion, start, self.solve, levels=NEARBY)
        if fitted.converged:
            met = min(met, self.priced(fitted, deviance(self.motion, fitted)), key=self.rank)
            self.met[self.key(met.fitted)] = met
        return met

    def priced(self, fitted: Fitted, value: float) -> Met:
        """A model with its criterion: −2 log p and the price of its numbers."""
        law, memory = fitted.law, self.motion.memory
        # Where noise has a memory of κ samples, they count as one: a term must be worth κ times its price.
        samples_as_one = 1.0 if memory is None else memory[law.support % self.motion.states]
        criterion = value + self.options.cost(law.support, samples_as_one)
        criterion += self.options.price * len(law.unknown)
        return Met(fitted, value, criterion, blurred_terms(self.motion, fitted))

    def candidates_at(self, fitted: Fitted) -> Ints | None:
        """The coefficients that rows are made for at fitted states; None where states have diverged."""
        return self.columns

    def posed(self, fitted: Fitted) -> Posed | None:
        """The convex problem of the rows at fitted states."""
        if self.posed_at_best is not None and self.posed_at_best.fitted is fitted:
            return self.posed_at_best
        columns = self.candidates_at(fitted)
        blocks = None if columns is None else self.motion.objectives(fitted, columns, blocks=1, apart=1e-6)
        if columns is None or blocks is None:
            return None
        form = self.form(blocks, columns)
        posed = Posed(fitted, columns, form, Supports.of_form(form, self.options.prices(columns)))
        models = self.models
        if models and models[0].fitted is fitted:
            self.posed_at_best = posed
        return posed

    def choose(self, fitted: Fitted) -> Fitted | None:
        """The best support by the rows at fitted states, from the path or by moves from the present one."""
        posed = self.posed(fitted)
        if posed is None:
            return None
        supports = posed.supports
        result, path = self.path(posed.form)
        fits = [supports.best(path)]
        if not self.bound_to(posed.form, result):
            own = supports.possible(posed.places(fitted.law.support))
            fits = [supports.settle(f) for f in (*fits, own) if f is not None]
        best = min((f for f in fits if f is not None), key=supports.criterion, default=None)
        return None if best is None else posed.start(fitted, best)

    def clearer(self, met: Met) -> Fitted | None:
        """The law without the noisiest of the terms that only noise tells apart, and without what then fails.

        None where all terms are told apart by the motion.
        """
        free = not (self.bound or self.options.faithful)
        posed = self.posed(met.fitted) if met.blurred and free else None
        if posed is None:
            return None
        fit, less = None, posed.supports.possible(posed.places(np.setdiff1d(met.support, met.unclear[:1])))
        while less is not None:
            fit, less = less, posed.supports.without_weakest(less)
        return None if fit is None or len(fit.support) >= len(met.support) else posed.start(met.fitted, fit)

    def stay(self, fitted: Fitted) -> Fitted | None:
        """The same support with the coefficients of least squares on the rows at the fitted states."""
        posed = self.posed(fitted)
        fit = posed and posed.supports.possible(posed.places(fitted.law.support))
        return posed.start(fitted, fit) if posed and fit else None

    def following(self, met: Met, seen: Set[bytes]) -> Fitted | None:
        chosen = self.choose(met.fitted)
        back = chosen is None or np.array_equal(chosen.law.support, met.support)
        if chosen is not None and not back and self.support(chosen) not in seen:
            return chosen
        # The support came back. The model is fitted again with the determinants; where they do not matter, a
        # term that only noise tells apart is left out.
        if not met.fitted.heeded and self.motion.may_be_kicked(met.fitted):
            return replace(met.fitted, heeded=True)
        return self.clearer(met)


def white_candidates(form: StandardForm, result: Result, noise: Floats | None = None) -> Candidates:
    """The candidates of a rule on white rows with noise of size 1, as at fitted states.

    noise: (states,) standard deviations of the measurements, in physical units
    """
    white = replace(form.regression, unit=1.0 / form.sizes[1])
    path = [support for support, _ in result.path]
    return Candidates(white, result.x, form.sizes[1], path, known=True, noise=noise)


def _resolved(motion: Motion, fitted: Fitted) -> bool:
    """Whether the samples are dense enough for a law."""
    return stiffness(motion, fitted, EFFORT.loop_stiff, EFFORT.loop_decays) <= EFFORT.loop_stiff
