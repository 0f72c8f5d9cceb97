"""search: from several starts to the model of least criterion, and what a rule without a price picks there.

The criterion of a law with support S, with states, noise and model error of largest likelihood, is

    C(S) = −2 log p(measurements | S) + Σ price_i over S

The search over S has local minima. A start in which most terms are right leads to the right law, so that
several starts are followed.

1. Starts (`first_starts`) are made at measured states with white noise. The first is the best support of each
   equation alone, by the path of the conditional gradient, backward elimination and regrowth. Others are
   supports of the path: the best, smaller and larger ones. There are two such lists, for two guesses of the
   model error.
2. From each start the states are fitted and terms chosen on the rows at these states, until the support
   comes back (`Search.follow`). Where motion may be kicked, it is fitted once more with the determinants.
   The search ends when two starts have led to the same model and no model fitted so far is better.
3. Other combinations of the terms of one equation that explain the rows of the best model almost as well are
   fitted with their own states, because the rows favour the model at whose states they were made
   (`_with_rivals`).
4. A random walk without any law must have a larger criterion (`_fit_nothing`).
5. Once a law is known, only the terms beside it are tested and prices fall: with them the search goes on from
   that law (`stepped_down`).
6. A rule without a price (a number of terms, cross-validation, a residual) begins with the states of the best
   model. It picks from the rows there, and the states are fitted again, until its support comes back
   (`picked`).
"""

from __future__ import annotations

from collections.abc import Iterator, Set
from dataclasses import dataclass, field, replace
from functools import partial
from itertools import chain
from typing import ClassVar

import numpy as np

from cindy._arrays import Floats, Ints
from cindy.errors import InfeasibleError
from cindy.least_squares import Rows
from cindy.problem import StandardForm
from cindy.search.loop import Loop, Met, Posed, Search, white_candidates
from cindy.search.request import Options
from cindy.selection import (
    EFFORT,
    Selection,
    Significance,
    SupportFit,
    Supports,
    correlated_tests,
    eliminated,
    equation_by_equation,
    recombined,
)
from cindy.solver import conditional_gradient
from cindy.states import (
    FEW_ROWS,
    LEVELS,
    NEARBY,
    Fitted,
    Motion,
    deviance_of_nothing,
    drift_of_data,
    drift_of_nothing,
    first_objective,
    leaves_noise,
    start_of,
    start_of_nothing,
)

NEAR = 14.0
"""Units of the criterion within which a model counts as almost equal (benchmark: chaotic at 40 %)."""


@dataclass(frozen=True, eq=False)
class Found:
    """The result of a search.

    best: the model of least criterion; met: all models that were fitted, the best first
    agreed: whether two starts led to the same model
    options: those of the search; their price is another than the user's where the residual is no noise
    posed: the convex problem that was posed last, mostly at the states of the best model
    """

    best: Met
    met: tuple[Met, ...]
    agreed: bool
    options: Options
    posed: Posed | None = None

    def form(self, motion: Motion) -> StandardForm:
        """The convex problem of all candidates at the states of the best model, to at least eight digits."""
        posed, fitted = self.posed, self.best.fitted
        at_best = posed is not None and posed.fitted is fitted
        if posed is not None and at_best and np.array_equal(posed.columns, motion.candidates) and posed.sharp:
            return posed.form
        blocks = motion.objectives(fitted, motion.candidates, blocks=1)
        assert blocks is not None
        return Search(motion, self.options).form(blocks)


def search(
    motion: Motion, options: Options, variance: Floats, first: Fitted | None = None, known: Met | None = None
) -> Found | None:
    """The model of least criterion.

    1. Follow starts until two of them lead to the same model (`Search.follow`).
    2. If starts led to different models, follow one more: the shortest equations met.
    3. Fit other combinations of terms that explain the rows of the best model almost as well.
    4. Compare with a model without terms, and rank.

    first: a model of nearly the same data, which is the first start; known: a model of these very data
    """
    state = Search(motion, options, rough=None if motion.memory is None else variance)
    if known is not None:
        first = known.fitted
        state.met[state.key(first)] = state.priced(known.fitted, known.deviance)
    quiet = motion.quiet(variance)
    # The starts are a generator, so that later ones are made only if earlier ones do not agree.
    starts = first_starts(state, variance, noisy=not quiet)
    if quiet and first is None and options.likely is None and motion.memory is None:
        begin = next(starts, None)
        smooth = None if begin is None else _searched_beside_a_smooth_error(state, begin, variance)
        if smooth is not None:
            return smooth
        starts = chain([] if begin is None else [begin], starts)
    reached, agreed = _reached(state, starts, first, sure=quiet or motion.work > EFFORT.starts_costly)
    if len({met.support.tobytes() for met in reached}) > 1 and not state.bound and not options.faithful:
        shortest = shortest_equations(state, min(reached, key=state.rank))
        met = None if shortest is None else state.follow(shortest)
        reached += [] if met is None else [met]
    _heed_determinants(state)
    if reached and not state.bound and not options.faithful:
        best = min(reached, key=state.rank)
        _with_rivals(state, state.met[state.key(best.fitted)] or best)
    # An exact law is not compared with a random walk, which would describe noise with memory well.
    if not (quiet and reached) and motion.memory is None:
        _fit_nothing(state, variance)
    every = state.models
    if state.bound:
        # If the user limited the radius or the iterations, the model that the limited path contains is
        # returned, even where no terms at all would be worth more.
        every.sort(key=lambda m: not len(m.support))
    elif every and not len(every[0].support):
        # No model is best, except for models whose terms only noise tells apart: one of these counts if it is
        # clearly better than none.
        every.sort(key=lambda m: m.criterion + NEAR * m.blurred)
    return Found(every[0], tuple(every), agreed, options, state.posed_at_best) if every else None


def _reached(
    state: Search, starts: Iterator[Fitted], first: Fitted | None, *, sure: bool
) -> tuple[list[Met], bool]:
    """The models that starts lead to, and whether two starts agreed on the last one.

    sure: no second start is needed if the first leads back to its own support
    """
    options, reached, agreed = state.options, list[Met](), False
    for start in chain([] if first is None else [first], starts):
        met = state.follow(start, near=start is first)
        if met is None:
            continue
        # Two starts seldom end in the same local minimum, unless it is the right model.
        agreed = any(np.array_equal(met.support, other.support) for other in reached)
        # One start is enough if its support comes back, and if there is little noise or the support was found
        # before on differently weighted data. It is also enough where terms must matter and a given start
        # has kept some.
        given = start is first and (options.likely is not None and len(met.support) > 0)
        agreed |= given or (
            not reached and (sure or start is first) and np.array_equal(met.support, start.law.support)
        )
        # If another model is better, even by terms that only noise tells apart, the search goes on.
        least = min(other.criterion for other in state.models)
        agreed &= not met.blurred and met.criterion <= least
        reached.append(met)
        if agreed or len(state.met) >= (
            EFFORT.starts_most_coupled if len(options.rows) else EFFORT.starts_most_fitted
        ):
            break
    return reached, agreed


def shortest_equations(state: Search, best: Met) -> Fitted | None:
    """For each state the equation of least price among all models met, at the states of the best one.

    A search may have one equation right in one model and another in the next. False terms compensate for what
    is wrong elsewhere, so that a right equation is mostly the shortest. Without this start HyperYan at 20 and
    40 % noise is up to 300 units of −2 log p from the truth (benchmark: chaotic).
    """
    posed, count = state.posed(best.fitted), state.motion.states
    if posed is None or posed.supports.coupled:
        return None
    equations = []
    for j in state.motion.sought:
        met = [model.support[model.support % count == j] for model in state.models]
        equations.append(min(filter(len, met), key=state.options.cost, default=posed.columns[:0]))
    fit = posed.supports.possible(posed.places(np.sort(np.concatenate(equations))))
    return None if fit is None else replace(posed.start(best.fitted, fit), heeded=False)


def _heed_determinants(state: Search) -> None:
    """Fit the best models once more with the determinants, where motion may be kicked."""
    models = state.models
    for met in models:
        if met.criterion < models[0].criterion + NEAR:
            state.fit(replace(met.fitted, heeded=True), ())


def _fit_nothing(state: Search, variance: Floats) -> None:
    """Fit the model without terms, a random walk with a variance by likelihood, unless it is clearly worse.

    Every law must have a smaller criterion than this model.
    """
    motion, models = state.motion, state.models
    if motion.rows < FEW_ROWS:
        state.fit(start_of(motion, motion.candidates[:0], np.zeros(0), variance), LEVELS)
    elif (
        not models or deviance_of_nothing(motion) < models[0].criterion + EFFORT.starts_clearly * motion.rows
    ):
        state.fit(start_of_nothing(motion, variance), ())


def stepped_down(motion: Motion, found: Found, variance: Floats) -> Found:
    """The result of the search at the prices that hold once a law is known, repeated while terms come in.

    The weakest term of the law counts as one that is still tested, so that it must earn its place by the same
    price as a term that would come in. Where noise is small, or constraints tie coefficients, prices stay.
    """
    while True:
        options, best = found.options, found.best
        state = Search(motion, options)
        posed = None if best.blurred or options.likely is not None else state.posed(best.fitted)
        if options.falls is None or posed is None or posed.supports.coupled or not len(best.support):
            return found
        fit = posed.supports.fit(posed.places(best.support))
        rest = posed.supports.fit(np.delete(fit.support, int(np.argmin(fit.z))))
        columns, correlation = correlated_tests(posed.supports, rest)
        spared = options.falls(posed.columns[columns], correlation)
        if spared <= options.spared:
            return found
        options = replace(options, spared=spared)
        again = search(motion, options, variance, best.fitted)
        if again is None or len(again.best.support) <= len(best.support):
            return found
        found = again


@dataclass(eq=False)
class Picking(Search):
    """The search by a rule without a price, which picks from the path at fitted states."""

    rule: Selection = field(default_factory=Significance)

    rounds: ClassVar[int] = 4
    """Two are typical: a bound on work."""

    better = Loop.better
    """The last pick of the rule counts, whatever its criterion."""

    def fit(self, start: Fitted, levels: tuple[float, ...]) -> Met | None:
        """A model on the support that the rule picked, even where the states do not converge.

        A rule that keeps the coefficients of the solver has none fitted.
        """
        known = self.rule.refits or self.key(start) in self.met
        return (super().fit(start, levels) if known else None) or self.priced(start, np.inf)

    def plain(self, met: Met) -> tuple[Motion, Fitted]:
        """The motion and the fitted states; numbers inside terms are held at their fitted values."""
        return self.motion, met.fitted

    def begun(self, met: Met, support: Ints, coef: Floats) -> Fitted:
        """A start at the fitted states with the support that the rule picked."""
        law = self.motion.law(support)
        return replace(met.fitted, law=law, coef=coef, settled=False, heeded=True)

    def following(self, met: Met, seen: Set[bytes]) -> Fitted | None:
        """What the rule picks from the white rows at the fitted states."""
        options, rule = self.options, self.rule
        if len(seen) > 1 and not (rule.repeats and rule.refits):
            return None
        motion, fitted = self.plain(met)
        blocks = motion.objectives(fitted, self.columns, blocks=EFFORT.starts_blocks)
        if blocks is None:
            return None
        form = self.form(blocks)
        result = conditional_gradient(
            form.objective,
            form.oracle,
            options.correction,
            tol=rule.tolerance(options.tol),
            max_iter=options.max_iter,
            quiet=True,
        )
        candidates = white_candidates(form, result, motion.noise(fitted))
        support = rule.pick(candidates)
        if not len(support):
            raise rule.nothing_kept("identify")
        try:
            x = (candidates.refit(support) if rule.refits else result).x.ravel()[support]
        except InfeasibleError as error:
            raise form.named(error, support) from error
        return self.begun(met, self.columns[support], x * form.unit.ravel()[support])


def picked(rule: Selection, motion: Motion, found: Found) -> Found:
    """The model that a rule without a price picks at fitted states.

    The first states are those of the search by price. The rule picks from the white rows there, states are
    fitted on the support that it picked, and so on until the support comes back.
    """
    if rule.by_price:
        return found
    state = Picking(motion, found.options, rule=rule)
    state.met[state.key(found.best.fitted)] = found.best
    best = state.follow(replace(found.best.fitted, heeded=True)) or found.best
    return Found(best, (best,), found.agreed, found.options)


def _with_rivals(state: Search, best: Met) -> None:
    """Fit other combinations of the terms of one equation, at their own states; go on from a better one.

    On the rows of the best model their criterion is almost as small (`recombined`).
    """
    for _ in range(EFFORT.starts_rivals):
        posed = None if best.blurred else state.posed(best.fitted)
        if posed is None or posed.supports.coupled:
            return
        own = posed.supports.fit(posed.places(best.support))
        equations, most = _by_equation(state.motion, posed.columns), EFFORT.starts_rivals
        rivals = recombined(posed.supports, own, equations, EFFORT.starts_close, most)
        if rivals:
            best = state.again(best)
        better = best
        for rival in rivals:
            start = replace(posed.start(best.fitted, rival.fit), heeded=True)
            better = state.better(better, state.fit(start, NEARBY)) or better
        if better is best:
            return
        best = better


def _searched_beside_a_smooth_error(state: Search, start: Fitted, variance: Floats) -> Found | None:
    """The search in which terms must matter, if the residual of the first start is smooth and no noise."""
    motion, met = state.motion, state.fit(start, LEVELS)
    if met is None or not len(met.support) or leaves_noise(motion, met.fitted):
        return None
    options = state.options.resolved(motion.rows // motion.states)
    found = search(replace(motion, forgetful=True), options, variance, known=met)
    return found if found is not None and len(found.best.support) else None


def first_starts(state: Search, variance: Floats, *, noisy: bool) -> Iterator[Fitted]:
    """Starts at measured states, for two guesses of the model error.

    Each guess gives the best support of each equation alone, the best of the path by moves from there where
    there is little noise, and supports of the path of several sizes.
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
        apart = None if bound else _first_choice(state, supports, path)
        # Where noise hides terms, the best support at measured states is too small or too large.
        sizes = [share * len(best.support) for share in EFFORT.starts_shares]
        sizes += [2.0 * motion.states, 3.0 * motion.states]
        near = [min(path, key=lambda s: abs(len(s) - size)) for size in sizes]
        for fit in chain([apart, settled], map(supports.possible, near)):
            if fit is None or fit.support.tobytes() in seen:
                continue
            seen.add(fit.support.tobytes())
            coef = fit.x * form.unit.ravel()[fit.support]
            start = start_of(motion, state.columns[fit.support], coef, variance)
            yield replace(start, heeded=False)


def _first_choice(state: Search, supports: Supports, path: list[Ints]) -> SupportFit | None:
    """The best support of each equation alone, or under constraints that of elimination from all terms.

    Constraints that pin the gauge of hidden states tie equations together: without the second start the two
    hidden states of an epidemic are not found (benchmark: hidden).
    """
    apart = equation_by_equation(supports, _equations(state, supports), path)
    if not len(supports.constraints):
        return apart
    down = eliminated(supports, path[-1] if path else ())
    fits = [apart, None if down is None else supports.settle(down)]
    return min((fit for fit in fits if fit is not None), key=supports.criterion, default=None)


def _by_equation(motion: Motion, columns: Ints) -> list[Ints]:
    """Where the columns of each equation stand."""
    return [np.flatnonzero(columns % motion.states == j) for j in motion.sought]


def _equations(state: Search, supports: Supports) -> Iterator[tuple[Ints, Supports]]:
    """The columns of each equation and its rows at measured states, where equations are independent."""
    motion = state.motion
    rows = supports.rows // len(motion.sought)
    for columns in _by_equation(motion, state.columns):
        # The triangle of one equation, and its target in the same directions.
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
        yield columns, alone
