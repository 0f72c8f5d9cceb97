"""Backward elimination: the order in which terms can be spared."""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from cindy.regression import Fit, Regression

__all__ = ["Descent", "Stage", "Trail", "eliminate"]

Floats = NDArray[np.float64]
Ints = NDArray[np.intp]

_HOPELESS = 0.5
"""Terms this far below their standard error may leave together."""
_AT_ONCE = 0.1
_REFRESH = 12
"""Rounds of updates, at least, after which rounding is cleared away by a new factorisation."""


@dataclass(frozen=True, eq=False)
class Stage:
    """One support on the way down; loss: in units of the noise; free: parameters."""

    support: Ints
    loss: float
    free: int


@dataclass(frozen=True, eq=False)
class Trail:
    """The way down of one group of targets.

    stages: from the start to the empty support
    order: flat indices as they left, the last the most important
    strength: |t| at which each left, by errors that take rows as independent; never falling
    """

    targets: Ints
    stages: tuple[Stage, ...]
    order: Ints
    strength: Floats


@dataclass(eq=False)
class Descent:
    """The mutable state of one group on its way down."""

    targets: Ints
    fit: Fit
    covariance: Floats = field(init=False)
    order: list[int] = field(default_factory=list)
    age: int = 0

    def __post_init__(self) -> None:
        self.take(self.fit)

    def take(self, fit: Fit) -> None:
        self.support, self.x, self.loss, self.free = fit.support, fit.x.copy(), fit.loss, fit.free
        self.covariance = fit.spread @ fit.spread.T
        self.age = 0

    def leave(self, out: Ints) -> None:
        """Fit anew with the given coefficients at zero: a change of low rank, no new factorisation."""
        inverse, rank = _inverse(self.covariance[np.ix_(out, out)])
        across = self.covariance[:, out]
        pull = inverse @ self.x[out]
        before = np.diagonal(self.covariance).copy()
        self.loss += float(self.x[out] @ pull)
        self.x = self.x - across @ pull
        self.covariance = self.covariance - across @ inverse @ across.T
        self.free -= rank
        # What is tied to a coefficient that left has neither value nor freedom any more.
        gone = np.diagonal(self.covariance) <= 1e-9 * before
        gone &= before > 0
        gone[out] = True
        self.order += [int(i) for i in self.support[gone]]
        keep = ~gone
        self.support, self.x = self.support[keep], self.x[keep]
        self.covariance = self.covariance[np.ix_(keep, keep)]
        self.age += 1


def eliminate(regression: Regression, starts: list[Ints]) -> list[Trail]:
    """The trail of every group, from its start (flat indices) down to nothing."""
    return [_down(regression, g, start) for g, start in zip(regression.groups, starts, strict=True)]


def _down(regression: Regression, group: Ints, start: Ints) -> Trail:
    d = Descent(group, regression.fit(start, group))
    rows = regression.total.rows * len(group)
    stages, strength = [Stage(d.support, d.loss, d.free)], []
    while len(d.support):
        # The order follows the loss alone: with more terms than blocks, errors clustered by
        # block are too uncertain to rank single terms by.
        error = np.sqrt(np.diagonal(d.covariance) * (d.loss / max(rows - d.free, 1)))
        t = np.full(len(error), np.inf)
        np.divide(np.abs(d.x), error, out=t, where=error > 0)
        if np.isinf(t).all():
            break
        out = _weakest(t)
        before = len(d.order)
        d.leave(out)
        strength += [float(t[out].max())] * (len(d.order) - before)
        if d.age >= max(_REFRESH, len(d.support) // 10) and len(d.support):
            d.take(regression.fit(d.support, group))
        stages.append(Stage(d.support, d.loss, d.free))
    never_falling = np.maximum.accumulate(np.array(strength)) if strength else np.zeros(0)
    return Trail(group, tuple(stages), np.array(d.order, dtype=np.intp), never_falling)


def _inverse(covariance: Floats) -> tuple[Floats, int]:
    """The (pseudo-)inverse of a covariance, and its rank: coefficients that are tied vary as one."""
    if len(covariance) == 1:
        return 1.0 / covariance, 1
    scale = np.sqrt(np.diagonal(covariance))
    unit = np.outer(scale, scale)
    inverse = np.linalg.pinv(covariance / unit, rcond=1e-10, hermitian=True) / unit
    return inverse, round(float(np.sum(inverse * covariance)))


def _weakest(t: Floats) -> Ints:
    hopeless = int((t < _HOPELESS).sum())
    count = max(1, min(hopeless, int(_AT_ONCE * len(t))))
    return np.argsort(t, kind="stable")[:count]
