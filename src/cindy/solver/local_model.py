"""A quadratic that agrees with an objective at one point, and elsewhere with a sample of its rows."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from cindy._types import Floats, Ints
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
    columns: the terms that W has columns of; None: all. Of the others the slope alone is known
    """

    anchor: Floats
    tilt: Floats
    level: float
    columns: Ints | None = None

    @classmethod
    def around(
        cls,
        anchor: Floats,
        level: float,
        tilt: Floats,
        sample: Floats,
        rows: int,
        columns: Ints | None = None,
    ) -> LocalModel:
        """sample: (k, columns + targets), W and room for W anchor; rows: how many it stands for."""
        terms = len(anchor)
        width = terms if columns is None else len(columns)
        sample[:, width:] = sample[:, :width] @ (anchor if columns is None else anchor[columns])
        return cls(sample, terms, rows, anchor, tilt, level, columns)

    @property
    def targets(self) -> int:
        return int(self.anchor.shape[1])

    @property
    def design(self) -> Any:
        values = self.factor[:, : -self.targets]
        return values if self.columns is None else _SomeColumns(values, self.columns, self.terms)

    @property
    def target(self) -> Floats:
        return self.factor[:, -self.targets :]

    def knows(self, terms: Ints) -> bool:
        """Whether the sample has the columns of these terms."""
        return self.columns is None or bool(np.isin(terms, self.columns).all())

    def value(self, x: Floats) -> float:
        return self.offset(x) + super().value(x)

    def gradient(self, x: Floats) -> Floats:
        return self.tilt + super().gradient(x)

    def offset(self, x: Floats) -> float:
        """What the rows of the factor know nothing of."""
        return self.level + float(np.sum(self.tilt * (x - self.anchor)))


class _SomeColumns:
    """A matrix of which only some columns differ from zero, with what the loop needs of a design."""

    def __init__(self, values: Floats, columns: Ints, width: int, turned: bool = False) -> None:
        self._values, self._columns, self._width, self._turned = values, columns, width, turned

    @property
    def shape(self) -> tuple[int, int]:
        shape = (len(self._values), self._width)
        return (shape[1], shape[0]) if self._turned else shape

    def __len__(self) -> int:
        return self.shape[0]

    @property
    def T(self) -> _SomeColumns:
        return _SomeColumns(self._values, self._columns, self._width, not self._turned)

    def __matmul__(self, other: Floats) -> Floats:
        if not self._turned:
            return np.asarray(self._values @ other[self._columns])
        made = np.zeros((self._width, other.shape[1]))
        made[self._columns] = self._values.T @ other
        return made

    def __getitem__(self, rows: slice) -> _SomeColumns:
        return _SomeColumns(self._values[rows], self._columns, self._width)

    def any(self) -> bool:
        """Whether an entry differs from zero."""
        return bool(self._values.any())
