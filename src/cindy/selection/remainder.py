"""What is left of one target and of the terms when some terms have been taken in."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from cindy._types import Floats, Ints
from cindy.regression import Regression

__all__ = ["Remainder"]


_DEPENDENT = 1e-14
"""Share of a term's squares below which what is left of it is rounding."""


@dataclass(eq=False)
class Remainder:
    """beyond: (rows, terms) each term without its part along those taken in; left: (rows,) of the target."""

    beyond: Floats
    left: Floats
    least: Floats

    @classmethod
    def of(
        cls, regression: Regression, j: int, inside: Ints | None = None, x: Floats | None = None
    ) -> Remainder:
        """Of target j, in units of its noise, with the terms `inside` taken in at the coefficients x."""
        terms = regression.shape[0]
        design = regression.total.design[:terms] / regression.noise[j]
        left = regression.total.target[:terms, j] / regression.noise[j]
        least = _DEPENDENT * np.sum(design**2, axis=0)
        if inside is None or x is None or not len(inside):
            return cls(design, left, least)
        q = np.linalg.qr(design[:, inside])[0]
        return cls(design - q @ (q.T @ design), left - design[:, inside] @ x, least)

    @property
    def loss(self) -> float:
        return float(self.left @ self.left)

    def gains(self) -> Floats:
        """(terms,) by how much the loss would fall with each term; 0 for what depends on those taken in."""
        size = np.sum(self.beyond**2, axis=0)
        new = size > self.least
        return np.where(new, (self.left @ self.beyond) ** 2 / np.where(new, size, 1.0), 0.0)

    def take(self, i: int) -> None:
        """Take in term i."""
        size = float(np.sum(self.beyond[:, i] ** 2))
        if size > self.least[i]:
            q = self.beyond[:, i] / np.sqrt(size)
            self.beyond = self.beyond - np.outer(q, q @ self.beyond)
            self.left = self.left - q * (q @ self.left)
