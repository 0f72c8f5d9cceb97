"""Which support explains the rows best for its size: from both sides, then local search."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
from scipy.sparse.csgraph import connected_components

from cindy._types import Floats, Ints
from cindy.errors import InfeasibleError
from cindy.regression import Descent, Regression
from cindy.selection.elimination import Trail
from cindy.selection.remainder import Remainder

__all__ = ["Criterion", "best_stage", "criterion_of", "forward", "improve"]


# `python -m benchmarks constants` changes them one by one on 48 equations of few samples. Those that bound
# the work without deciding anything there say so; with less of the others searches fail.
_CANDIDATES = 8
"""Terms that are tried as one more, those of the largest gain; with 2 no search fails."""
_WEAKEST = 12
"""Terms that others are put in the place of, the weakest first; with 3 no search fails."""
_STARTS = 30
"""Terms that small models are begun anew with; with 3, 3 of 48 searches fail."""
_LONGEST = 15
"""Terms up to which a model is begun anew; with 5, 3 of 48 searches fail."""
_OTHERS = 4
"""Terms that come in the place of one; those that are superfluous go again. With 1 no search fails."""
_MOST_MOVES = 30
"""Moves in all; with 3, 2 of 48 searches fail."""
_HOPE = 3.0
"""How far above the best, in prices of a parameter, the way down is followed; with 0 no search fails."""
_NOTHING = 1e-300
"""A loss below this counts as this: an exact fit has no logarithm."""
_BEYOND = 10
"""Terms added after the criterion was best: some that pay only together may be among them. With 0 no search
fails."""


@dataclass(frozen=True)
class Criterion:
    """The extended information criterion: rows · log(loss) + price · free parameters.

    rows: independent rows, fewer than there are where residuals are correlated within blocks
    """

    rows: float
    price: float

    def __call__(self, loss: float, free: int) -> float:
        return self.rows * float(np.log(max(loss, _NOTHING))) + self.price * free


def criterion_of(
    regression: Regression, targets: Ints, *, effect: float = 1.0, extended: bool = True
) -> Criterion:
    """log m a parameter, and 2 log n more where it was picked out of n (extended)."""
    rows = regression.total.rows * len(targets)
    price = float(np.log(rows)) + (2.0 * float(np.log(regression.shape[0])) if extended else 0.0)
    return Criterion(rows / effect, price)


def best_stage(trail: Trail, criterion: Criterion) -> int:
    return int(np.argmin([criterion(s.loss, s.free) for s in trail.stages]))


def forward(regression: Regression, targets: Ints, criterion: Criterion) -> tuple[float, Ints]:
    """The best support on the way down from terms that were added greedily, and its value.

    Where terms are many and nearly dependent, elimination can lose a true one at the very
    beginning and keep dozens in its place; from the other side it is found at once.
    """
    width = regression.shape[1]
    every = np.concatenate([_added(regression, int(j), criterion.price) * width + j for j in targets])
    if len(regression.equal):
        needed = regression.equal.matrix[regression.equal.goal != 0].indices
        every = np.concatenate([every, needed[np.isin(needed % width, targets)]])
        units = _units(regression, targets)
        every = np.unique(np.concatenate([u for u in units if np.isin(u, every).any()] or [every]))
    try:
        return _shrunk(regression, targets, np.sort(every), criterion)
    except InfeasibleError:
        return np.inf, every


def _added(regression: Regression, j: int, price: float) -> Ints:
    """Terms as each lowers the loss of target j most, a few beyond the point where it pays."""
    remainder = Remainder.of(regression, j)
    rest = regression.unexplained(np.array([j]))
    rows = regression.total.rows
    order: list[int] = []
    best, at = np.inf, 0
    while len(order) < min(regression.shape[0], rows // 2) and len(order) <= at + _BEYOND:
        value = rows * float(np.log(max(remainder.loss + rest, _NOTHING))) + price * len(order)
        if value < best:
            best, at = value, len(order)
        gains = remainder.gains()
        i = int(np.argmax(gains))
        if gains[i] <= 0:
            break
        remainder.take(i)
        order.append(i)
    return np.array(order, dtype=np.intp)


def improve(regression: Regression, targets: Ints, support: Ints, criterion: Criterion) -> Ints:
    """The support after moves that add a term, or put others in the place of one, while they pay.

    What is superfluous after a move is dropped. Elimination alone can drop, early, a term that
    stands for many others; then the term comes back and they go. Where they stand for it so
    well that it adds nothing to them, it comes back when one of them has gone.
    """
    units = _units(regression, targets)
    value, support = _shrunk(regression, targets, support, criterion)
    for _ in range(_MOST_MOVES):
        for moves in (_larger, _regrown, _fresh):
            trials = [
                _shrunk(regression, targets, other, criterion)
                for other in moves(regression, targets, support, units)
            ]
            best = min(trials, key=lambda pair: pair[0], default=(np.inf, support))
            if best[0] < value - 1e-9 * abs(value):
                value, support = best
                break
        else:
            break
    return support


def _shrunk(regression: Regression, targets: Ints, support: Ints, criterion: Criterion) -> tuple[float, Ints]:
    """The best support on the way down from the given one, and its value."""
    descent = Descent(targets, regression.fit(support, targets))
    best = criterion(descent.loss, descent.free), descent.support
    while True:
        variance = descent.variance
        free = variance > 0
        if not free.any():
            return best
        ratio = np.full(len(free), np.inf)
        ratio[free] = descent.x[free] ** 2 / variance[free]
        descent.leave(np.array([int(np.argmin(ratio))]))
        now = criterion(descent.loss, descent.free)
        if now >= best[0] + _HOPE * criterion.price:
            # The weakest leaves first: what stays is worth more than what has gone.
            return best
        if now < best[0]:
            best = now, descent.support


def _units(regression: Regression, targets: Ints) -> list[Ints]:
    """Coefficients that enter together: those that equalities connect."""
    every = regression.coefficients(targets)
    if not len(regression.equal):
        return [every[i : i + 1] for i in range(len(every))]
    rows = regression.equal.matrix[:, every]
    labels = connected_components(rows.T @ rows, directed=False)[1]
    order = np.argsort(labels, kind="stable")
    return [every[part] for part in np.split(order, np.flatnonzero(np.diff(labels[order])) + 1)]


def _larger(regression: Regression, targets: Ints, support: Ints, units: list[Ints]) -> Iterator[Ints]:
    """Supports with one unit more: those that would lower the loss most."""
    worth = _Prospect(regression, targets, support, units).worth()
    for k in np.argsort(-worth, kind="stable")[:_CANDIDATES]:
        if worth[k] > 0:
            yield np.union1d(support, units[k])


def _regrown(regression: Regression, targets: Ints, support: Ints, units: list[Ints]) -> Iterator[Ints]:
    """Supports without one unit, the weaker first, and with a few others in its place."""
    fit = regression.fit(support, targets)
    variance = np.sum(fit.spread**2, axis=1)
    strength = np.full(int(np.prod(regression.shape)), -1.0)
    strength[fit.support] = np.inf
    free = variance > 0
    strength[fit.support[free]] = fit.x[free] ** 2 / variance[free]
    each = np.array([strength[unit].max() for unit in units])
    inside = np.flatnonzero((each >= 0) & np.isfinite(each))
    for k in inside[np.argsort(each[inside], kind="stable")][:_WEAKEST]:
        rest = np.setdiff1d(support, units[k])
        try:
            prospect = _Prospect(regression, targets, rest, units)
        except InfeasibleError:
            # An equality needs the unit.
            continue
        yield prospect.grown(_OTHERS, without=int(k))


def _fresh(regression: Regression, targets: Ints, support: Ints, units: list[Ints]) -> Iterator[Ints]:
    """Supports as large, begun anew with one unit: a wrong first choice may lead all others."""
    if len(regression.equal) or len(support) > _LONGEST:
        return
    nothing = support[:0]
    worth = _Prospect(regression, targets, nothing, units).worth()
    for k in np.argsort(-worth, kind="stable")[:_STARTS]:
        if worth[k] > 0:
            yield _Prospect(regression, targets, units[k], units).grown(len(support))


class _Prospect:
    """What each unit outside a support would gain; where equalities couple targets, nearly."""

    def __init__(self, regression: Regression, targets: Ints, support: Ints, units: list[Ints]) -> None:
        terms, self._width = regression.shape
        fit = regression.fit(support, targets)
        x = np.zeros(terms * self._width)
        x[fit.support] = fit.x
        self.support = support
        self._units = units
        self._order = np.concatenate(units)
        self._starts = np.cumsum([0, *(len(unit) for unit in units[:-1])])
        self._gains = np.zeros((terms, self._width))
        self._remainders = {}
        for j in targets:
            inside = support[support % self._width == j]
            remainder = Remainder.of(regression, int(j), inside // self._width, x[inside])
            self._remainders[int(j)] = remainder

    def worth(self) -> Floats:
        for j, remainder in self._remainders.items():
            self._gains[:, j] = remainder.gains()
        gains = self._gains.ravel()
        gains[self.support] = 0.0
        return np.asarray(np.add.reduceat(gains[self._order], self._starts))

    def grown(self, count: int, *, without: int | None = None) -> Ints:
        """The support after so many units more, each the best beside those before it."""
        for _ in range(count):
            worth = self.worth()
            if without is not None:
                worth[without] = 0.0
            k = int(np.argmax(worth))
            if worth[k] <= 0:
                break
            for i in self._units[k]:
                self._remainders[int(i % self._width)].take(int(i // self._width))
            self.support = np.union1d(self.support, self._units[k])
        return self.support
