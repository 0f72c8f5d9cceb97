"""Options: how the convex problem of a pass is posed and solved."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field, replace

import numpy as np

from cindy._arrays import Floats, Ints
from cindy.least_squares import Rows
from cindy.problem import Adaptive, Weights
from cindy.selection import EFFORT
from cindy.solver import Correction, Direct

__all__ = ["Options"]


@dataclass(frozen=True, eq=False)
class Options:
    """How the convex problem of a pass is posed and solved.

    price: what a parameter must lower χ² by; likely: what it must lower −2 log p by, if that is another
    surcharge: (coefficients,) what each must be worth beyond that, as the rule says of its term
    faithful: whether terms may only come from the path of the solver, as its options left it
    met: called for every model whose states are fitted
    """

    rows: Rows
    texts: tuple[object, ...]
    price: float
    weights: Weights = field(default_factory=Adaptive)
    radius: float | None = None
    correction: Correction = field(default_factory=Direct)
    tol: float = 1e-6
    max_iter: int = 10_000
    faithful: bool = False
    likely: float | None = None
    surcharge: Floats | None = None
    met: Callable[[], None] | None = None

    def prices(self, columns: Ints, *, likelihood: bool = False) -> Floats:
        """(columns,) what each coefficient must lower χ² by, or −2 log p."""
        price = self.likely if likelihood and self.likely is not None else self.price
        return price + (np.zeros(len(columns)) if self.surcharge is None else self.surcharge[columns])

    def cost(self, support: Ints, memory: Floats | float = 1.0) -> float:
        """The price of a support in −2 log p; where equalities tie coefficients, of as many as are free.

        memory: how many samples count as one, for each coefficient: n log σ² counts every one of them
        """
        free = self.rows.equalities.freedom(support) if len(self.rows) else None
        share = 1.0 if free is None or not len(support) else free.basis.shape[1] / len(support)
        return share * float(np.sum(memory * self.prices(support, likelihood=True)))

    def resolved(self, rows: int) -> Options:
        """The same where what is left is not noise: a term must also matter, beside what is left.

        Over the rows of an equation the loss of a term must leave m times what is left with it, m being
        `Effort.options_matters`: χ² rises by rows · m², and −2 log p, each model with its own variance, by
        its logarithm.
        """
        least = EFFORT.options_matters**2 * rows
        likely = rows * float(np.log1p(EFFORT.options_matters**2))
        return replace(self, price=max(self.price, least), likely=max(self.price, likely))
