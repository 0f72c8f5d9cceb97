"""Candidates: the supports that a rule may choose from, on any rows.

1. The convex problem is solved by conditional gradients; the supports of its iterates are the path.
2. Equations that no equality connects are searched separately, each on its own triangle (`Supports`). The
   search starts at the best support of the path and at the result of greedy growth (`starts`), and moves on
   from there.
3. The rule picks: by a price, by a number of terms, by blocks left out, by a residual, or the iterate itself.
4. Coefficients are fitted anew on the support, under all constraints, with errors clustered by block.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import NamedTuple

import numpy as np

from cindy._arrays import Floats, Ints
from cindy.errors import InfeasibleError
from cindy.least_squares import Rows
from cindy.regression import Refit, Regression, classical, design_effect, refit, sandwich
from cindy.selection.effort import EFFORT
from cindy.selection.orders import equation_by_equation, greedy, ranking, regrown
from cindy.selection.supports import SupportFit, Supports


class Judged(NamedTuple):
    """Equations that equalities connect, with the fit on the chosen support.

    columns: flat indices of their coefficients; supports: their rows in units of the noise; own: the fit
    """

    columns: Ints
    supports: Supports
    own: SupportFit


@dataclass(frozen=True, eq=False)
class Candidates:
    """A regression, and the supports on the path of the solver.

    Supports are compared under the equalities alone; a `refit` obeys the inequalities too.

    path: flat supports of the solver's iterates; solution: (terms, targets), the last iterate
    size: (targets,), the unit of each target in physical units
    known: whether the rows are white with noise of size 1, as at denoised states
    noise: (states,), if `known`: standard deviation of the measurements, in physical units
    """

    regression: Regression
    solution: Floats
    size: Floats
    path: Sequence[Ints] = ()
    known: bool = False
    noise: Floats | None = None

    def in_units_of_noise(self, given: Floats) -> Floats:
        """(targets,) a given standard deviation of the measurements in units of the estimated one."""
        if self.noise is not None:
            return np.full(1, np.sqrt(np.mean((given / self.noise) ** 2)))
        return np.asarray(given / (self.size * self.regression.noise))

    @cached_property
    def groups(self) -> list[Ints]:
        """Targets that equalities connect."""
        return self.regression.groups

    def supports(self, group: Ints, price: Floats | float) -> Supports:
        """The rows of a group of targets, with a price for its parameters."""
        return replace(Supports.of_regression(self.regression, group, price), known=self.known)

    def by_price(self, price: float, *, clustered: bool = True) -> Ints:
        """The support of least criterion.

        clustered: whether rows count less by the design effect of their blocks
        """
        chosen = []
        for group in self.groups:
            supports = self.supports(group, price)
            fit = self._best(group, supports)
            # The design effect is estimated from residuals, and therefore on a first choice.
            effect = self._design_effect(group, fit) if clustered else 1.0
            if effect > 1.0:
                # Rows of a block depend on each other: they count for less, and the search begins anew.
                fit = self._best(group, replace(supports, effect=effect))
            chosen.append(self.regression.coefficients(group)[fit.support])
        return self.with_needed(np.sort(np.concatenate(chosen)))

    def judged(self, group: Ints, price: Floats | float, support: Ints) -> Judged:
        """The rows of a group in units of the residual on a support, and the fit on that support."""
        supports = self.supports(group, price)
        columns = self.regression.coefficients(group)
        fit = supports.fit(np.flatnonzero(np.isin(columns, support)))
        if not self.known:
            freedom = max(supports.rows - fit.free, 1)
            supports = supports.in_units_of(self._design_effect(group, fit) * fit.loss / freedom)
        if supports.size > EFFORT.orders_eliminated:
            # Of very many columns only those in the support and those of largest gain are kept: near models
            # differ from the chosen one by few terms, which are among these.
            likely = np.union1d(fit.support, np.argsort(-supports.gains(fit))[: EFFORT.candidates_likely])
            chosen = np.flatnonzero(np.isin(supports.group, supports.group[likely]))
            own = np.searchsorted(chosen, fit.support)
            supports, columns, fit = supports.only(chosen), columns[chosen], replace(fit, support=own)
        return Judged(columns, supports, supports.fit(fit.support))

    def starts(self, group: Ints, supports: Supports) -> list[SupportFit]:
        """The best support of the path, the result of greedy growth, and under equalities a third."""
        columns, width = self.regression.coefficients(group), self.regression.shape[1]
        distinct = {}
        for support in self.path:
            own = np.flatnonzero(np.isin(columns, support, assume_unique=True))
            distinct[own.tobytes()] = own
        path = list(distinct.values())
        starts = [supports.best(path), greedy(supports, EFFORT.candidates_greedy)]
        if supports.coupled:
            parts = [(np.flatnonzero(columns % width == j), self._alone(j, supports.price)) for j in group]
            starts.append(equation_by_equation(supports, parts, path))
        # Where the constraints need more terms than any start has, begin with all of them.
        return [fit for fit in starts if fit is not None] or [supports.fit(np.arange(supports.size))]

    def _alone(self, target: int, price: Floats) -> Supports:
        """The rows of one equation without its equalities."""
        alone = self.supports(np.array([target]), float(price.min()))
        return replace(alone, constraints=Rows.none(alone.size))

    def _best(self, group: Ints, supports: Supports) -> SupportFit:
        """The best support that the search reaches from its starts."""
        fits = [supports.settle(fit) for fit in self.starts(group, supports)]
        return regrown(supports, fits)

    def _design_effect(self, group: Ints, chosen: SupportFit) -> float:
        """The factor by which rows of a block count less than independent rows, by the fit on a support."""
        regression = self.regression
        if self.known or len(regression.blocks) < 2 or not len(chosen.support):
            return 1.0
        fit = regression.fit(regression.coefficients(group)[chosen.support], group)
        x = np.zeros(int(np.prod(regression.shape)))
        x[fit.support] = fit.x
        return design_effect(classical(regression, fit), sandwich(regression, fit, x))

    def ranking(self, through: Ints, most: int) -> Ints:
        """Coefficients from the most to the least important, over all equations.

        through: a support that comes first; most: how many coefficients are ordered, at least all of these
        """
        orders, strengths = [], []
        more = max(most - len(through), 0)
        for group in self.groups:
            columns = self.regression.coefficients(group)
            supports = self.supports(group, 0.0)
            fit = supports.possible(np.flatnonzero(np.isin(columns, through)))
            if fit is None:
                fit = supports.fit(np.arange(supports.size))
            order, strength = ranking(supports, fit, len(fit.support) + more)
            orders.append(columns[order])
            strengths.append(strength / np.sqrt(self._design_effect(group, fit)))
        order, strength = np.concatenate(orders), np.concatenate(strengths)
        # Coefficients that constraints keep from zero can never leave, and come first. The sort is stable, so
        # that the order within an equation stays.
        chosen, needed = np.isin(order, through), np.isin(order, self._kept_from_zero)
        return np.asarray(order[np.lexsort((-strength, ~chosen, ~(needed & chosen)))])

    def with_needed(self, support: Ints) -> Ints:
        """The support, enlarged where the inequalities cannot be met on it."""
        rows = self.regression.rows
        if rows.equality.all() or self.possible(support) is not None:
            return support
        # First the terms that inequalities keep from zero are added, then all terms.
        larger = np.union1d(support, self._kept_from_zero)
        if self.possible(larger) is not None:
            return larger
        return np.arange(int(np.prod(self.regression.shape)))

    @cached_property
    def _kept_from_zero(self) -> Ints:
        """Coefficients in inequalities that zero does not satisfy."""
        rows = self.regression.rows
        away = ~rows.equality & ((rows.lower > 0) | (rows.upper < 0))
        return np.unique(rows.matrix[away].nonzero()[1]).astype(np.intp)

    def possible(self, support: Ints) -> Refit | None:
        """As `refit`; None where the constraints cannot be met on the support."""
        try:
            return self.refit(support)
        except InfeasibleError:
            return None

    def refit(self, support: Ints) -> Refit:
        """The coefficients on a support under all constraints, with errors."""
        return refit(self.regression, support)
