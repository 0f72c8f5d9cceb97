"""Candidates: the supports that a rule may choose from, on any rows.

1. The convex problem is solved by conditional gradients; the supports of its iterates are the path.
2. Equations that no equality connects are searched apart, each on its own triangle (`Supports`): from the
   best support of the path and from the one that greedy growth leads to, by the moves of `Supports.settle`.
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

__all__ = ["Candidates", "Judged"]


class Judged(NamedTuple):
    """Equations that equalities connect: flat indices of their columns, the rows in units of the noise, and
    the fit on the chosen support."""

    columns: Ints
    supports: Supports
    own: SupportFit


@dataclass(frozen=True, eq=False)
class Candidates:
    """A regression, and the supports that the path of the solver offers.

    Supports are compared under the equalities alone; a `refit` obeys the inequalities too.

    path: flat supports of the solver's iterates; solution: (terms, targets) the last of them
    size: (targets,) what one unit of each target is in physical units
    known: whether the rows are white with noise of size 1, as at fitted states
    noise: (states,) then, of the measurements, in physical units
    """

    regression: Regression
    solution: Floats
    size: Floats
    path: Sequence[Ints] = ()
    known: bool = False
    noise: Floats | None = None

    def in_units_of_noise(self, given: Floats) -> Floats:
        """(targets,) a standard deviation of the measurements in units of the one found."""
        if self.noise is not None:
            return np.full(1, np.sqrt(np.mean((given / self.noise) ** 2)))
        return np.asarray(given / (self.size * self.regression.noise))

    @cached_property
    def groups(self) -> list[Ints]:
        """Targets that equalities connect."""
        return self.regression.groups

    def supports(self, group: Ints, price: Floats | float) -> Supports:
        """The rows of a group of targets."""
        return replace(Supports.of_regression(self.regression, group, price), known=self.known)

    def by_price(self, price: float, *, clustered: bool = True) -> Ints:
        """The support of least criterion.

        clustered: count rows as the design effect of the blocks suggests
        """
        chosen = []
        for group in self.groups:
            supports = self.supports(group, price)
            fit = self._best(group, supports)
            # The effect is measured on a first choice: it needs residuals, and those need a support.
            effect = self._design_effect(group, fit) if clustered else 1.0
            if effect > 1.0:
                # Rows of a block depend on each other: they count for less, and the search begins anew.
                fit = self._best(group, replace(supports, effect=effect))
            chosen.append(self.regression.coefficients(group)[fit.support])
        return self.with_needed(np.sort(np.concatenate(chosen)))

    def judged(self, group: Ints, price: Floats | float, support: Ints) -> Judged:
        """The rows of a group in units of the noise that a support leaves, and the fit on that support.

        Of very many columns those stay that the support has or would take in first.
        """
        supports = self.supports(group, price)
        names = self.regression.coefficients(group)
        fit = supports.fit(np.flatnonzero(np.isin(names, support)))
        if not self.known:
            freedom = max(supports.rows - fit.free, 1)
            supports = supports.in_units_of(self._design_effect(group, fit) * fit.loss / freedom)
        if supports.size > EFFORT.orders_eliminated:
            # Near models differ from the chosen one by few terms, and those are among the ones of largest
            # gain.
            likely = np.union1d(fit.support, np.argsort(-supports.gains(fit))[: EFFORT.candidates_likely])
            kept = np.flatnonzero(np.isin(supports.group, supports.group[likely]))
            own = np.searchsorted(kept, fit.support)
            supports, names, fit = supports.only(kept), names[kept], replace(fit, support=own)
        return Judged(names, supports, supports.fit(fit.support))

    def starts(self, group: Ints, supports: Supports) -> list[SupportFit]:
        """The best support of the path, the one that greedy growth leads to, and under equalities a third."""
        names, width = self.regression.coefficients(group), self.regression.shape[1]
        offered = {}
        for support in self.path:
            mine = np.flatnonzero(np.isin(names, support, assume_unique=True))
            offered[mine.tobytes()] = mine
        starts = [supports.best(list(offered.values())), greedy(supports, EFFORT.candidates_greedy)]
        if supports.coupled:
            parts = [(np.flatnonzero(names % width == j), self._alone(j, supports.price)) for j in group]
            starts.append(equation_by_equation(supports, parts, list(offered.values())))
        # Constraints may need more than any start has.
        every = [fit for fit in starts if fit is not None]
        return every or [supports.fit(np.arange(supports.size))]

    def _alone(self, target: int, price: Floats) -> Supports:
        """The rows of one equation, without what equalities say of its coefficients."""
        alone = self.supports(np.array([target]), float(price.min()))
        return replace(alone, constraints=Rows.none(alone.size))

    def _best(self, group: Ints, supports: Supports) -> SupportFit:
        fits = [supports.settle(fit) for fit in self.starts(group, supports)]
        return regrown(supports, fits)

    def _design_effect(self, group: Ints, found: SupportFit) -> float:
        """By how much the scatter between blocks says that rows count less than they seem to."""
        regression = self.regression
        if self.known or len(regression.blocks) < 2 or not len(found.support):
            return 1.0
        fit = regression.fit(regression.coefficients(group)[found.support], group)
        x = np.zeros(int(np.prod(regression.shape)))
        x[fit.support] = fit.x
        return design_effect(classical(regression, fit), sandwich(regression, fit, x))

    def ranking(self, through: Ints, most: int) -> Ints:
        """Coefficients from the most to the least important, over all equations; `through` is a prefix.

        most: how many are put in order, at least all of `through`
        """
        orders, strengths = [], []
        more = max(most - len(through), 0)
        for group in self.groups:
            names = self.regression.coefficients(group)
            supports = self.supports(group, 0.0)
            fit = supports.possible(np.flatnonzero(np.isin(names, through)))
            if fit is None:
                fit = supports.fit(np.arange(supports.size))
            order, strength = ranking(supports, fit, len(fit.support) + more)
            orders.append(names[order])
            strengths.append(strength / np.sqrt(self._design_effect(group, fit)))
        order, strength = np.concatenate(orders), np.concatenate(strengths)
        # The sort is stable: within an equation the order stays. Coefficients that constraints hold away from
        # zero never leave, and come first.
        chosen, needed = np.isin(order, through), np.isin(order, self._kept_from_zero)
        return np.asarray(order[np.lexsort((-strength, ~chosen, ~(needed & chosen)))])

    def with_needed(self, support: Ints) -> Ints:
        """The support, and where inequalities cannot be met on it, the terms that they keep from zero."""
        rows = self.regression.rows
        if rows.equality.all() or self.possible(support) is not None:
            return support
        # First with the terms that inequalities keep from zero, then with all of them.
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
        """As `refit`; None where the constraints need a coefficient that the support lacks."""
        try:
            return self.refit(support)
        except InfeasibleError:
            return None

    def refit(self, support: Ints) -> Refit:
        """The coefficients on a support under all constraints, with errors."""
        return refit(self.regression, support)
