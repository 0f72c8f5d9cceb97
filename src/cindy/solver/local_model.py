"""A quadratic that agrees with an objective at one point, and elsewhere with a sample of its rows."""

from dataclasses import dataclass

import numpy as np

from cindy._types import Floats
from cindy.least_squares import LeastSquares

__all__ = ["LocalModel"]


@dataclass(frozen=True, eq=False)
class LocalModel(LeastSquares):
    """level + ⟨tilt, x − anchor⟩ + ‖W (x − anchor)‖², the factor being [W | W anchor].

    With W some rows of a larger A, scaled so that WᵀW estimates AᵀA, its gradient
    tilt + 2 WᵀW (x − anchor) is the variance-reduced estimate of Johnson and Zhang
    (Accelerating stochastic gradient descent using predictive variance reduction, 2013):
    exact at the anchor, and the better the nearer to it.

    anchor, tilt: (terms, targets)
    """

    anchor: Floats
    tilt: Floats
    level: float

    @classmethod
    def around(cls, anchor: Floats, level: float, tilt: Floats, sample: Floats, rows: int) -> "LocalModel":
        """sample: (k, terms + targets), W and room for W anchor; rows: how many it stands for."""
        terms = len(anchor)
        sample[:, terms:] = sample[:, :terms] @ anchor
        return cls(sample, terms, rows, anchor, tilt, level)

    def value(self, x: Floats) -> float:
        return self.offset(x) + super().value(x)

    def gradient(self, x: Floats) -> Floats:
        return self.tilt + super().gradient(x)

    def offset(self, x: Floats) -> float:
        """What the rows of the factor know nothing of."""
        return self.level + float(np.sum(self.tilt * (x - self.anchor)))
