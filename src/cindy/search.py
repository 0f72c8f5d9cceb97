"""Which support explains the rows best for its size: elimination, then local search."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from scipy.sparse.csgraph import connected_components

from cindy.elimination import Descent, Trail
from cindy.errors import InfeasibleError
from cindy.regression import Regression

__all__ = ["Criterion", "best_stage", "criterion_of", "forward", "improve"]

Floats = NDArray[np.float64]
Ints = NDArray[np.intp]

_CANDIDATES = 8
_MOST_MOVES = 30
_HOPE = 3.0
"""How far above the best, in prices of a parameter, the way down is followed."""
_NOTHING = 1e-300
"""A loss below this counts as this: an exact fit has no logarithm."""
_BEYOND = 10
"""Terms added after the criterion was best: some that pay only together may be among them."""


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
    if regression.equal.shape[0]:
        needed = regression.equal[regression.goal != 0].indices
        every = np.concatenate([every, needed[np.isin(needed % width, targets)]])
        units = _units(regression, targets)
        every = np.unique(np.concatenate([u for u in units if np.isin(u, every).any()] or [every]))
    try:
        return _shrunk(regression, targets, np.sort(every), criterion)
    except InfeasibleError:
        return np.inf, every


def _added(regression: Regression, j: int, price: float) -> Ints:
    """Terms as each lowers the loss of target j most, a few beyond the point where it pays."""
    terms = regression.shape[0]
    beyond = regression.total.design[:terms] / regression.noise[j]
    left = regression.total.target[:terms, j] / regression.noise[j]
    least = 1e-12 * np.sum(beyond**2, axis=0)
    rest = regression.unexplained(np.array([j]))
    rows = regression.total.rows
    order: list[int] = []
    best, at = np.inf, 0
    while len(order) < min(terms, rows // 2) and len(order) <= at + _BEYOND:
        value = rows * float(np.log(max(left @ left + rest, _NOTHING))) + price * len(order)
        if value < best:
            best, at = value, len(order)
        size = np.sum(beyond**2, axis=0)
        gain = np.where(size > least, (beyond.T @ left) ** 2 / np.where(size > least, size, 1.0), 0.0)
        i = int(np.argmax(gain))
        if gain[i] <= 0:
            break
        q = beyond[:, i] / np.sqrt(size[i])
        beyond = beyond - np.outer(q, q @ beyond)
        left = left - q * (q @ left)
        order.append(i)
    return np.array(order, dtype=np.intp)


def improve(regression: Regression, targets: Ints, support: Ints, criterion: Criterion) -> Ints:
    """The support after moves that add or exchange a term and drop what is then superfluous, while they pay.

    Elimination alone can drop, early, a term that stands for many others; then the
    term comes back and they go. Where they stand for it so well that it adds nothing to
    them, it comes back in the place of one of them.
    """
    units = _units(regression, targets)
    value, support = _shrunk(regression, targets, support, criterion)
    for _ in range(_MOST_MOVES):
        trials = [
            _shrunk(regression, targets, other, criterion)
            for other in _neighbours(regression, targets, support, units)
        ]
        if not trials:
            break
        best = min(trials, key=lambda pair: pair[0])
        if best[0] >= value - 1e-9 * abs(value):
            break
        value, support = best
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
    if not regression.equal.shape[0]:
        return [every[i : i + 1] for i in range(len(every))]
    rows = regression.equal[:, every]
    labels = connected_components(rows.T @ rows, directed=False)[1]
    order = np.argsort(labels, kind="stable")
    return [every[part] for part in np.split(order, np.flatnonzero(np.diff(labels[order])) + 1)]


def _neighbours(regression: Regression, targets: Ints, support: Ints, units: list[Ints]) -> list[Ints]:
    """Supports with one unit more, or one coefficient exchanged, that would lower the loss most."""
    terms, width = regression.shape
    fit = regression.fit(support, targets)
    x = np.zeros(terms * width)
    x[fit.support] = fit.x
    untied = np.ones(terms * width, dtype=bool)
    untied[regression.equal.indices] = False
    gain, swaps = np.zeros((terms, width)), []
    for j in targets:
        inside = support[support % width == j]
        added, exchanged = _gains(regression, int(j), inside // width, x[inside])
        gain[:, j] = added
        exchanged[:, ~untied[np.arange(terms) * width + j]] = -np.inf
        exchanged[~untied[inside]] = -np.inf
        best = np.argsort(-exchanged, axis=None)[:_CANDIDATES]
        for m, i in zip(*np.unravel_index(best, exchanged.shape), strict=True):
            swaps.append((float(exchanged[m, i]), int(inside[m]), int(i) * width + int(j)))
    flat = gain.ravel()
    flat[support] = 0.0
    worth = np.array([flat[unit].sum() for unit in units])
    top = np.argsort(-worth, kind="stable")[:_CANDIDATES]
    larger = [np.union1d(support, units[i]) for i in top if worth[i] > 0]
    swaps = sorted((s for s in swaps if np.isfinite(s[0])), key=lambda s: -s[0])[:_CANDIDATES]
    return larger + [np.union1d(support[support != out], [new]) for _, out, new in swaps]


def _gains(regression: Regression, j: int, inside: Ints, x: Floats) -> tuple[Floats, Floats]:
    """By how much the loss of target j falls with each term more, (terms,), or exchanged, (inside, terms).

    Dropping a term gives back the one direction that it alone explains; what the others
    explain of that direction is theirs to gain.
    """
    terms = regression.shape[0]
    design = regression.total.design[:terms] / regression.noise[j]
    left = regression.total.target[:terms, j] / regression.noise[j] - design[:, inside] @ x
    q, r = np.linalg.qr(design[:, inside])
    beyond = design - q @ (q.T @ design)
    size, pull = np.sum(beyond**2, axis=0), beyond.T @ left
    least = 1e-16 * np.sum(design**2, axis=0)
    added = np.where(size > least, pull**2 / np.where(size > least, size, 1.0), 0.0)
    alone = q @ np.linalg.pinv(r).T
    length = np.linalg.norm(alone, axis=0)
    length[length == 0] = 1.0
    given, across = x / length, (alone / length).T @ design
    whole = size + across**2
    gained = (pull + across * given[:, None]) ** 2 / np.where(whole > least, whole, 1.0)
    exchanged = np.where(whole > least, gained - given[:, None] ** 2, -np.inf)
    exchanged[:, inside] = -np.inf
    return added, exchanged
