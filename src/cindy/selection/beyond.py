"""Terms that explain no more than a known error of the rows."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from cindy._types import Floats, Ints
from cindy.regression import Regression, binding
from cindy.selection.candidates import Candidates
from cindy.selection.rules import Selection

__all__ = ["Beyond"]


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
