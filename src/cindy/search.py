"""Which support explains the rows best for its size: elimination, then local search."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from scipy.sparse.csgraph import connected_components

from cindy.elimination import Descent, Trail
from cindy.regression import Regression

__all__ = ["Criterion", "best_stage", "criterion_of", "improve"]

Floats = NDArray[np.float64]
Ints = NDArray[np.intp]

_CANDIDATES = 8
_MOST_MOVES = 30


@dataclass(frozen=True)
class Criterion:
    """The extended information criterion: rows · log(loss) + price · free parameters.

    rows: independent rows, fewer than there are where residuals are correlated within blocks
    """

    rows: float
    price: float

    def __call__(self, loss: float, free: int) -> float:
        return self.rows * float(np.log(max(loss, 1e-300))) + self.price * free


def criterion_of(
    regression: Regression, targets: Ints, *, effect: float = 1.0, extended: bool = True
) -> Criterion:
    """log m a parameter, and 2 log n more where it was picked out of n (extended)."""
    rows = regression.total.rows * len(targets)
    price = float(np.log(rows)) + (2.0 * float(np.log(regression.shape[0])) if extended else 0.0)
    return Criterion(rows / effect, price)


def best_stage(trail: Trail, criterion: Criterion) -> int:
    return int(np.argmin([criterion(s.loss, s.free) for s in trail.stages]))


def improve(regression: Regression, targets: Ints, support: Ints, criterion: Criterion) -> Ints:
    """The support after moves that add a term and drop what it makes superfluous, while they pay.

    Elimination alone can drop, early, a term that stands for many others; then the
    term comes back and they go.
    """
    units = _units(regression, targets)
    value, support = _shrunk(regression, targets, support, criterion)
    for _ in range(_MOST_MOVES):
        trials = [
            _shrunk(regression, targets, np.union1d(support, unit), criterion)
            for unit in _promising(regression, targets, support, units)
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
        variance = np.diagonal(descent.covariance)
        free = variance > 0
        if not free.any():
            return best
        ratio = np.full(len(free), np.inf)
        ratio[free] = descent.x[free] ** 2 / variance[free]
        descent.leave(np.array([int(np.argmin(ratio))]))
        if criterion(descent.loss, 0) >= best[0]:
            # The loss never falls on the way down, so nothing below can be better.
            return best
        now = criterion(descent.loss, descent.free)
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


def _promising(regression: Regression, targets: Ints, support: Ints, units: list[Ints]) -> list[Ints]:
    """The units outside the support that would lower the loss most, each on its own."""
    terms, width = regression.shape
    fit = regression.fit(support, targets)
    x = np.zeros(terms * width)
    x[fit.support] = fit.x
    gain = np.zeros((terms, width))
    for j in targets:
        design = regression.total.design[:terms] / regression.noise[j]
        here = support[support % width == j] // width
        left = (
            regression.total.target[:terms, j] / regression.noise[j] - design @ x.reshape(terms, width)[:, j]
        )
        q = np.linalg.qr(design[:, here])[0]
        beyond = design - q @ (q.T @ design)
        size = np.sum(beyond**2, axis=0)
        new = size > 1e-16 * np.sum(design**2, axis=0)
        gain[new, j] = (beyond.T @ left)[new] ** 2 / size[new]
    flat = gain.ravel()
    flat[support] = 0.0
    worth = np.array([flat[unit].sum() for unit in units])
    top = np.argsort(-worth, kind="stable")[:_CANDIDATES]
    return [units[i] for i in top if worth[i] > 0]
