"""What differentiation of the data leaves of the truth, and terms that explain no more than that."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from cindy.candidates import Candidates
from cindy.refit import binding
from cindy.regression import Regression
from cindy.selection import Selection

__all__ = ["Beyond", "difference_error"]

Floats = NDArray[np.float64]
Ints = NDArray[np.intp]

_FEWEST = 20
_APART = 5
"""Steps at which second differences of centred differences have no sample in common."""
_SMOOTH = 0.5
"""Second differences in units of the signal; of rows in no order they are larger by a factor of 5."""
_TAIL = 0.02
"""Share of the samples left aside on either side: where one trajectory ends and the next begins."""


def difference_error(target: Floats) -> Floats:
    """(targets,) root mean square error of derivatives by centred differences, from the derivatives.

    The leading error, step² x''' / 6, is a sixth of the second difference of x'. Noise has
    second differences too, but at samples next to each other they have opposite signs, and at
    samples some steps apart nothing in common: what the products of such pairs agree on is
    not noise. Rows that do not follow each other in time, or that are coarse or noisy beyond
    use, tell nothing, and the error is then taken as 0.

    >>> t = 0.01 * np.arange(500)
    >>> x = np.sin(3 * t)
    >>> wrong = (x[2:] - x[:-2]) / 0.02 - 3 * np.cos(3 * t)[1:-1]
    >>> estimate = difference_error(((x[2:] - x[:-2]) / 0.02)[:, None])
    >>> bool(0.8 < estimate[0] / np.sqrt(np.mean(wrong**2)) < 1.2)
    True
    """
    if len(target) < _FEWEST:
        return np.zeros(target.shape[1])
    second = np.diff(target, n=2, axis=0)
    near, _ = _middle(second[1:] * second[:-1])
    far, doubt = _middle(second[_APART:] * second[:-_APART])
    agreed = np.maximum(near, far - 2.0 * doubt)
    agreed[np.mean(second**2, axis=0) > _SMOOTH**2 * np.mean(target**2, axis=0)] = 0.0
    return np.asarray(np.sqrt(np.maximum(agreed, 0.0)) / 6.0)


def _middle(products: Floats) -> tuple[Floats, Floats]:
    """Mean of all but the extremes, and its standard error."""
    aside = int(_TAIL * len(products))
    middle = np.sort(products, axis=0)[aside : len(products) - aside]
    return np.mean(middle, axis=0), np.std(middle, axis=0) / np.sqrt(len(middle))


@dataclass(frozen=True, eq=False)
class Beyond(Selection):
    """What a rule picks, less the terms that together explain no more than an error of the rows.

    error: (targets,) root mean square, in the units of the regression

    A small error that is not noise does not average out: with enough rows, terms that
    mimic it are significant.
    """

    rule: Selection
    error: Floats

    def pick(self, candidates: Candidates) -> Ints:
        support = self.rule.pick(candidates)
        if not np.any(self.error):
            return support
        regression = binding(candidates.regression, support)
        width = regression.shape[1]
        parts = [
            self._lessened(regression, support[np.isin(support % width, g)], g) for g in regression.groups
        ]
        smaller = np.sort(np.concatenate(parts))
        return smaller if candidates.possible(smaller) is not None else support

    def _lessened(self, regression: Regression, support: Ints, targets: Ints) -> Ints:
        share = self.error[targets] / regression.noise[targets]
        fit = regression.fit(support, targets)
        most = fit.loss + regression.total.rows * float(np.sum(share**2))
        while True:
            variance = np.sum(fit.spread**2, axis=1)
            free = variance > 0
            if not free.any():
                return fit.support
            rise = np.full(len(free), np.inf)
            rise[free] = fit.x[free] ** 2 / variance[free]
            smaller = regression.fit(np.delete(fit.support, int(np.argmin(rise))), targets)
            if smaller.loss > most:
                return fit.support
            fit = regression.fit(smaller.support[smaller.x != 0], targets)
