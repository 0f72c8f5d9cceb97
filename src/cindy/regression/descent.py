"""One group of targets on its way down: coefficients leave a fit without a new factorisation."""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray
from scipy.linalg.blas import dgemm

from cindy._types import Floats, Ints
from cindy.regression.regression import Fit

__all__ = ["Descent"]

_FULL = 0.8
"""Share of the arrays in use below which they are made smaller."""
_ROUNDING = 1e-6
"""Of a coefficient that left, in units of its error before: what rounding may leave of it."""


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
        self._valued = np.zeros(len(fit.support), dtype=bool) if fit.valued is None else fit.valued

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
        """Fit anew with the given coefficients at zero: a change of low rank, no new factorisation.

        Of those that an equality holds away from zero only the first leaves: without it, another
        may have to stay.
        """
        held = np.flatnonzero(self._valued[self._left[out]])
        out = np.delete(out, held[1:])
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
        # What is tied to a coefficient that left has neither value nor freedom any more,
        # unless an equality gives it a value.
        gone = (self.variance <= 1e-9 * before) & (before > 0)
        fixed = gone & self._valued[self._left] & (np.abs(self.x) > _ROUNDING * np.sqrt(before))
        self._covariance[self._left[fixed]], self._covariance[:, self._left[fixed]] = 0.0, 0.0
        gone &= ~fixed
        gone[out] = True
        self._remove(gone)
        self.age += 1

    def _remove(self, gone: NDArray[np.bool_]) -> None:
        self.order += [int(i) for i in self.support[gone]]
        at, self._left = self._left[gone], self._left[~gone]
        self._covariance[at], self._covariance[:, at], self._x[at] = 0.0, 0.0, 0.0
        if len(self._left) < _FULL * len(self._names):
            self._names, self._x, self._valued = self.support, self.x, self._valued[self._left]
            self._covariance = self._covariance[np.ix_(self._left, self._left)]
            self._left = np.arange(len(self._names))


def _inverse(covariance: Floats) -> tuple[Floats, int]:
    """The (pseudo-)inverse of a covariance, and its rank: coefficients that are tied vary as one."""
    if len(covariance) == 1:
        return 1.0 / covariance, 1
    scale = np.sqrt(np.diagonal(covariance))
    unit = np.outer(scale, scale)
    inverse = np.linalg.pinv(covariance / unit, rcond=1e-10, hermitian=True) / unit
    return inverse, round(float(np.sum(inverse * covariance)))
