"""Rows: linear constraints over flattened coefficients."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from scipy.sparse import csr_array

__all__ = ["Rows"]

Floats = NDArray[np.float64]
Ints = NDArray[np.intp]


@dataclass(frozen=True, eq=False)
class Rows:
    """lower ≤ matrix x ≤ upper; a row with lower = upper is an equality.

    matrix: (rows, coefficients), sparse
    owner: (rows,) the number of the constraint that each row belongs to
    """

    matrix: csr_array
    lower: Floats
    upper: Floats
    owner: Ints

    @classmethod
    def none(cls, size: int) -> Rows:
        """No rows over so many coefficients."""
        empty = np.zeros(0)
        return cls(csr_array((0, size), dtype=np.float64), empty, empty, np.zeros(0, dtype=np.intp))

    def __len__(self) -> int:
        return len(self.lower)

    @property
    def equality(self) -> NDArray[np.bool_]:
        return np.asarray(self.lower == self.upper)

    def scaled(self, unit: Floats) -> Rows:
        """The rows over x / unit, each divided by its largest weight."""
        matrix = csr_array(self.matrix.multiply(unit))
        size = _largest(matrix)
        return Rows(
            csr_array(matrix.multiply(1.0 / size[:, None])), self.lower / size, self.upper / size, self.owner
        )

    def bound(self, which: Ints, values: Floats) -> Rows:
        """The same with the given rows as equalities."""
        lower, upper = self.lower.copy(), self.upper.copy()
        lower[which] = upper[which] = values
        return Rows(self.matrix, lower, upper, self.owner)

    def violation(self, x: Floats) -> float:
        """By how much a row is missed, at most."""
        if not len(self):
            return 0.0
        values = self.matrix @ x.ravel()
        return float(max(0.0, np.max(self.lower - values), np.max(values - self.upper)))


def _largest(matrix: csr_array) -> Floats:
    if not matrix.shape[0]:
        return np.zeros(0)
    size = np.asarray(abs(matrix).max(axis=1).toarray(), dtype=np.float64).ravel()
    size[size == 0.0] = 1.0
    return size
