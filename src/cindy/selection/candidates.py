"""Candidates: the supports that a rule may choose from, worked out when first asked for."""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np
import scipy.linalg
from numpy.typing import NDArray

from cindy._types import Floats, Ints
from cindy.errors import InfeasibleError
from cindy.regression import Refit, Regression, classical, design_effect, refit, sandwich
from cindy.rows import Rows, connected
from cindy.selection.elimination import Trail, eliminate
from cindy.selection.search import best_stage, criterion_of, forward, improve
from cindy.selection.views import View, views_of

__all__ = ["Candidates"]


_MANY = 800
"""Coupled coefficients beyond which elimination does not begin with all of them."""
_SPARE = 10
"""Terms beyond twice those of the best stage that the search begins with at most; with 2 no search of the
benchmark `constants` fails."""


@dataclass(frozen=True, eq=False)
class Candidates:
    """A regression, and the way from its whole dictionary to ever smaller supports.

    Supports are compared under the equalities alone; a `refit` obeys the inequalities too.

    solution: (terms, targets) of the convex problem; its terms come first where terms are dependent
    size: (targets,) what one unit of each target is in physical units
    """

    regression: Regression
    solution: Floats
    size: Floats

    @cached_property
    def columns(self) -> Ints:
        """Terms that the data tell apart: all, or a largest independent set, the solver's picks first."""
        regression = self.regression
        design = regression.total.design
        terms = regression.shape[0]
        if regression.independent == terms:
            return np.arange(terms)
        size = np.linalg.norm(design, axis=0)
        use = np.abs(self.solution).max(axis=1)
        # A pivoted factorisation takes the longest column first: what the solver used is made long.
        length = np.where(use > 0, 1e3 * (1.0 + use / use.max(initial=1e-300)), 1.0)
        scaled = design / np.where(size > 0, size, 1.0) * length * (size > 0)
        _, order = scipy.linalg.qr(scaled, mode="r", pivoting=True)
        return np.sort(order[: regression.independent].astype(np.intp))

    @cached_property
    def views(self) -> list[View]:
        """Where each group of equations is searched."""
        return views_of(self.regression, self.solution)

    @cached_property
    def _within(self) -> list[Candidates]:
        """The candidates of every view that is not the whole."""
        width = self.regression.shape[1]
        return [
            Candidates(v.regression, self.solution.reshape(-1, 1)[v.names], self.size[v.names[:1] % width])
            for v in self.views
            if v.names is not None
        ]

    @cached_property
    def start(self) -> Ints:
        """Flat indices of the coefficients that elimination begins with.

        Those of all terms, or of the likely ones where they are many; but where equalities couple so many
        that the way down would take minutes, a generous share of what each equation keeps on its own, and
        what the equalities need beside it.
        """
        if self._within:
            parts = [v.whole(c.start) for v, c in zip(self.views, self._within, strict=True)]
            return np.sort(np.concatenate(parts))
        width = self.regression.shape[1]
        every = self._with_valued((self.columns[:, None] * width + np.arange(width)).ravel())
        coupled = max(len(part) for part in self.parts(every))
        if coupled <= max(_MANY, len(self.columns)):
            return every
        return np.intersect1d(self._screened(), every)

    def _with_valued(self, every: Ints) -> Ints:
        """Coefficients of independent terms, and those that equalities with a value cannot do without."""
        regression = self.regression
        if len(self.columns) == regression.shape[0] or not regression.equal.goal.any():
            return every
        try:
            for group, part in zip(regression.groups, self.parts(every), strict=True):
                regression.fit(part, group)
        except InfeasibleError:
            of_row, of_column = connected(regression.equal.matrix)
            held = np.flatnonzero(np.isin(of_column, of_row[regression.equal.goal != 0]))
            return np.union1d(every, held)
        return every

    def _screened(self) -> Ints:
        regression = self.regression
        size = int(np.prod(regression.shape))
        apart = replace(regression, rows=Rows.none(size))
        keep = np.zeros(size, dtype=bool)
        for trail in Candidates(apart, self.solution, self.size).trails:
            best = best_stage(trail, criterion_of(apart, trail.targets, extended=False))
            most = 2 * len(trail.stages[best].support) + _SPARE
            keep[next(s.support for s in trail.stages if len(s.support) <= most)] = True
        return np.flatnonzero(_completed(keep, regression))

    @cached_property
    def trails(self) -> list[Trail]:
        """The way down of every group of equations that must be fitted together."""
        if not self._within:
            return eliminate(self.regression, self.parts(self.start))
        groups = self.regression.groups
        return [
            trail.named(view.whole, group)
            for view, within, group in zip(self.views, self._within, groups, strict=True)
            for trail in within.trails
        ]

    @cached_property
    def effects(self) -> list[float]:
        """Design effect of the blocks in every group, on the support that rows as such would choose."""
        regression = self.regression
        stages = [t.stages[best_stage(t, criterion_of(regression, t.targets))] for t in self.trails]
        fits = [regression.fit(s.support, t.targets) for s, t in zip(stages, self.trails, strict=True)]
        x = np.zeros(np.prod(regression.shape))
        for fit in fits:
            x[fit.support] = fit.x
        return [design_effect(classical(regression, f), sandwich(regression, f, x)) for f in fits]

    def parts(self, support: Ints) -> list[Ints]:
        """A support, group by group."""
        width = self.regression.shape[1]
        return [support[np.isin(support % width, g)] for g in self.regression.groups]

    def by_criterion(self, *, extended: bool = True, clustered: bool = True, search: bool = True) -> Ints:
        """The support of least information criterion.

        clustered: count rows as the design effect of the blocks suggests
        search: improve on what elimination found by local search
        """
        found = []
        for view, trail, effect in zip(self.views, self.trails, self.effects, strict=True):
            criterion = criterion_of(
                self.regression, trail.targets, effect=effect if clustered else 1.0, extended=extended
            )
            stage = trail.stages[best_stage(trail, criterion)]
            value, other = forward(view.regression, view.targets, criterion)
            better = criterion(stage.loss, stage.free) <= value
            support = view.inside(stage.support) if better else other
            if search:
                support = improve(view.regression, view.targets, support, criterion)
            found.append(view.whole(support))
        return self.with_needed(np.sort(np.concatenate(found)))

    def with_needed(self, support: Ints) -> Ints:
        """The support, and where inequalities cannot be met on it, the terms that they keep from zero."""
        rows = self.regression.rows
        if rows.equality.all() or self.possible(support) is not None:
            return support
        larger = np.union1d(support, self._kept_from_zero)
        return larger if self.possible(larger) is not None else self.start

    @cached_property
    def _kept_from_zero(self) -> Ints:
        """Coefficients in inequalities that zero does not satisfy."""
        rows = self.regression.rows
        away = ~rows.equality & ((rows.lower > 0) | (rows.upper < 0))
        return np.unique(rows.matrix[away].nonzero()[1]).astype(np.intp)

    def ranking(self, through: Ints) -> Ints:
        """All coefficients of the start, the most important first; `through` is one of the prefixes."""
        inside = _merged(eliminate(self.regression, self.parts(through)), self.effects)
        outside = _merged(self.trails, self.effects)
        # Coefficients that constraints hold away from zero never leave: they come first.
        held = np.union1d(np.setdiff1d(through, inside), np.intersect1d(self._kept_from_zero, through))
        inside = inside[~np.isin(inside, held)]
        return np.concatenate([held, inside, outside[~np.isin(outside, through)]])

    def possible(self, support: Ints) -> Refit | None:
        """As `refit`; None where the constraints need a coefficient that the support lacks."""
        try:
            return self.refit(support)
        except InfeasibleError:
            return None

    def refit(self, support: Ints) -> Refit:
        """The coefficients on a support under all constraints, with errors."""
        return refit(self.regression, support)


def _completed(keep: NDArray[np.bool_], regression: Regression) -> NDArray[np.bool_]:
    """Beside each coefficient what it cannot be without.

    That is what it is tied to; the whole of an equality of several in which it would be
    alone; and all that stand in an equality that must not be zero.
    """
    rows = abs(regression.equal.matrix)
    wide = np.diff(rows.indptr) > 2
    while True:
        kept = np.diff(np.append(0, np.cumsum(keep[rows.indices]))[rows.indptr])
        lacking = (regression.equal.goal != 0) | (wide & (kept == 1)) | (~wide & (kept > 0))
        more = keep | (np.asarray(rows.T @ lacking.astype(np.float64)) > 0)
        if (more == keep).all():
            return keep
        keep = more


def _merged(trails: list[Trail], effects: list[float]) -> Ints:
    """The coefficients of all trails by the strength with which they left, strongest first."""
    order = np.concatenate([t.order for t in trails])
    strength = np.concatenate([t.strength / np.sqrt(e) for t, e in zip(trails, effects, strict=True)])
    place = np.concatenate([np.arange(len(t.order)) - len(t.order) for t in trails])
    return np.asarray(order[np.lexsort((-place, -strength))])
