"""Terms of fields that stay significant when errors come from the noise at every sample."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace

import numpy as np

from cindy._types import Ints
from cindy.model import Model
from cindy.problem import Problem
from cindy.selection import Candidates, Selection

__all__ = ["borne_out"]


def borne_out(
    problem: Problem, rule: Selection, run: Callable[..., Model], sure: Callable[[Model], Model]
) -> Model:
    """What a rule picks, less the terms that are no longer worth their price, with the surest errors.

    A rule judges terms by the scatter between some fifty blocks, which is itself uncertain by a tenth; of
    many terms the one whose error came out too small stays. Errors by the noise are known far better:

        ξ_i² / error_i² > price of a parameter (Bonferroni's quantile, squared, for Significance)

    `python -m benchmarks pde` has no true term below this where all terms are found.

    sure: a model with such errors
    """
    model = sure(run(problem))
    price = rule.price(problem.summary.total.rows, model.coef.size)
    while price is not None:
        support = np.flatnonzero(model.coef)
        x, error = model.coef.ravel()[support], model.coef_error.ravel()[support]
        worth = np.full(len(support), np.inf)
        np.divide(x**2, error**2, out=worth, where=error > 0)
        if worth.min() > price or len(support) == 1:
            break
        smaller = run(problem, selection=_Given(np.delete(support, worth.argmin())))
        if np.count_nonzero(smaller.coef) >= len(support):
            # A constraint needs the term.
            break
        model = sure(replace(smaller, settings=model.settings))
    return model


@dataclass(frozen=True, eq=False)
class _Given(Selection):
    """A support that was chosen before, and what constraints need beside it."""

    support: Ints

    def pick(self, candidates: Candidates) -> Ints:
        return candidates.with_needed(self.support)
