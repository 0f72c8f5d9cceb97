"""Backward elimination: the order in which terms can be spared."""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray
from scipy.linalg.blas import dgemm

from cindy.regression import Fit, Regression

__all__ = ["Descent", "Stage", "Trail", "eliminate"]

Floats = NDArray[np.float64]
Ints = NDArray[np.intp]

_HOPELESS = 0.5
"""Terms this far below their standard error may leave together."""
_AT_ONCE = 0.1
_FULL = 0.8
"""Share of the arrays in use below which they are made smaller."""
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
    """The mutable state of one group on its way down.

    What has left stays in the arrays, as zeros, until a good part of them is that.
    """

    targets: Ints
    fit: Fit
    order: list[int] = field(default_factory=list)
    age: int = 0

    def __post_init__(self) -> None:
        self.take(self.fit)

    def take(self, fit: Fit) -> None:
        self.loss, self.free, self.age = fit.loss, fit.free, 0
        self._names, self._x = fit.support, fit.x.copy()
        self._covariance = fit.spread @ fit.spread.T
        self._left = np.arange(len(fit.support))

    @property
    def support(self) -> Ints:
        return self._names[self._left]

    @property
    def x(self) -> Floats:
        return self._x[self._left]

    @property
    def variance(self) -> Floats:
        """Of each coefficient of the support, in units of the noise."""
        return np.diagonal(self._covariance)[self._left]

    def leave(self, out: Ints) -> None:
        """Fit anew with the given coefficients at zero: a change of low rank, no new factorisation."""
        at, before = self._left[out], self.variance
        inverse, rank = _inverse(self._covariance[np.ix_(at, at)])
        across = self._covariance[:, at]
        pull = inverse @ self._x[at]
        self.loss += float(self._x[at] @ pull)
        self._x -= across @ pull
        # The transpose of a symmetric matrix is itself, and in the order that BLAS changes in place.
        turned = self._covariance.T
        changed = dgemm(-1.0, across @ inverse, across, beta=1.0, c=turned, trans_b=True, overwrite_c=True)
        self._covariance = changed.T
        self.free -= rank
        # What is tied to a coefficient that left has neither value nor freedom any more.
        gone = (self.variance <= 1e-9 * before) & (before > 0)
        gone[out] = True
        self._remove(gone)
        self.age += 1

    def _remove(self, gone: NDArray[np.bool_]) -> None:
        self.order += [int(i) for i in self.support[gone]]
        at, self._left = self._left[gone], self._left[~gone]
        self._covariance[at], self._covariance[:, at], self._x[at] = 0.0, 0.0, 0.0
        if len(self._left) < _FULL * len(self._names):
            self._names, self._x = self.support, self.x
            self._covariance = self._covariance[np.ix_(self._left, self._left)]
            self._left = np.arange(len(self._names))


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
        error = np.sqrt(d.variance * (d.loss / max(rows - d.free, 1)))
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
