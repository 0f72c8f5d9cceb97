"""The waist: a least-squares objective that has forgotten how many rows it had."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import scipy.linalg

from cindy._check import numbers
from cindy._types import Floats
from cindy.errors import DataError

__all__ = ["LeastSquares", "lengths", "quick_triangle", "stacked", "triangle"]

_WIDE = 800
"""Columns from which triangles on top of each other are worth a method of their own (benchmark: large)."""
_PANEL = 32
"""Columns that LAPACK eliminates at a time."""


@dataclass(frozen=True, eq=False)
class LeastSquares:
    """The objective ‖A x − B‖², summed over the columns of x, in square-root form.

    Only the triangular factor of [A | B] is kept, so memory and time do not
    depend on the number of rows, and two objectives add up: `a + b` is the
    objective of the rows of both.

    factor: (k, terms + targets), k ≤ terms + targets, upper triangular
    terms: number of columns of A
    rows: how many independent rows the factor stands for

    >>> import numpy as np
    >>> f = LeastSquares.from_rows(np.eye(2), np.array([[3.0], [4.0]]))
    >>> round(f.value(np.zeros((2, 1))), 9)
    25.0
    >>> round((f + f).value(np.zeros((2, 1))), 9)
    50.0
    """

    factor: Floats
    terms: int
    rows: int

    @classmethod
    def from_rows(cls, design: Floats, target: Floats, *, rows: int | None = None) -> LeastSquares:
        """The objective of the rows [design | target]; `rows` overrides their count."""
        design, target = numbers(design, "LeastSquares: `design`"), numbers(target, "LeastSquares: `target`")
        if design.ndim != 2 or target.ndim != 2 or len(design) != len(target):
            raise DataError(
                "LeastSquares: design and target must be matrices with as many rows each, "
                f"but have shapes {design.shape} and {target.shape}."
            )
        return cls(
            triangle(np.hstack([design, target])), design.shape[1], len(design) if rows is None else rows
        )

    @classmethod
    def empty(cls, terms: int, targets: int) -> LeastSquares:
        """The zero objective, neutral under `+`."""
        return cls(np.zeros((0, terms + targets)), terms, 0)

    @property
    def targets(self) -> int:
        return int(self.factor.shape[1]) - self.terms

    @property
    def design(self) -> Floats:
        """(k, terms): stands for A in every product AᵀA, AᵀB."""
        return self.factor[:, : self.terms]

    @property
    def target(self) -> Floats:
        """(k, targets): stands for B."""
        return self.factor[:, self.terms :]

    def residual(self, x: Floats) -> Floats:
        """(k, targets): A x − B up to a rotation of the rows."""
        return self.design @ x - self.target

    def value(self, x: Floats) -> float:
        """‖A x − B‖² at x of shape (terms, targets)."""
        return float(np.sum(self.residual(x) ** 2))

    def gradient(self, x: Floats) -> Floats:
        """2 Aᵀ(A x − B), of the shape of x."""
        return 2.0 * (self.design.T @ self.residual(x))

    def scaled(self, columns: Floats, targets: Floats) -> LeastSquares:
        """The same rows with column i of A divided by columns[i], column j of B by targets[j]."""
        return LeastSquares(self.factor / np.concatenate([columns, targets]), self.terms, self.rows)

    def __add__(self, other: LeastSquares) -> LeastSquares:
        if not isinstance(other, LeastSquares):
            return NotImplemented
        if (self.terms, self.targets) != (other.terms, other.targets):
            raise DataError(
                f"LeastSquares: cannot add {other.terms} terms × {other.targets} targets "
                f"to {self.terms} terms × {self.targets} targets."
            )
        return LeastSquares(stacked([self.factor, other.factor]), self.terms, self.rows + other.rows)


def triangle(matrix: Floats) -> Floats:
    """The upper-triangular R of a QR factorisation, with min(rows, columns) rows.

    QR, not AᵀA: on clean data the loss is the difference of two numbers of the
    size of ‖B‖², and the normal equations lose all of its digits.
    """
    if len(matrix) == 0:
        return matrix
    (r,) = scipy.linalg.qr(matrix, mode="r", overwrite_a=True, check_finite=False)
    return np.asarray(r[: min(matrix.shape)], dtype=np.float64)


def lengths(matrix: Floats) -> Floats:
    """(columns,) lengths of the columns; 1 for one of zeros, so that all may be divided by them."""
    size = np.linalg.norm(matrix, axis=0)
    size[size == 0.0] = 1.0
    return np.asarray(size)


def stacked(factors: Sequence[Floats]) -> Floats:
    """The triangle of factors on top of each other.

    A QR factorisation of them all would work on the zeros of triangles too: of wide ones, where that
    takes seconds, each is worked into the first by itself, in a third of the time.
    """
    width = factors[0].shape[1]
    if width < _WIDE or len(factors[0]) != width or any(np.tril(f, -1).any() for f in factors):
        return triangle(np.vstack(factors))
    r = np.array(factors[0], order="F")
    for other in factors[1:]:
        if len(other):
            r, _, _, _ = scipy.linalg.lapack.dtpqrt(
                len(other),
                min(_PANEL, width),
                r,
                np.array(other, order="F"),
                overwrite_a=True,
                overwrite_b=True,
            )
    return np.ascontiguousarray(r)


def quick_triangle(matrix: Floats, apart: float = 1e-4) -> Floats:
    """The same by Cholesky's factor of AᵀA, ten times as fast, where columns are far from dependent.

    The target is a column too: where little of it is left, as on clean data, QR is what serves.

    apart: what must be left of every unit column beyond those before it; a share of 1e-16 / apart² is lost
    """
    columns = matrix.shape[1]
    if len(matrix) < columns:
        return triangle(matrix)
    gram = matrix.T @ matrix
    size = np.sqrt(np.diagonal(gram))
    if not (np.isfinite(size).all() and size.all()):
        return triangle(matrix)
    r, info = scipy.linalg.lapack.dpotrf(gram / size / size[:, None], lower=0, clean=1, overwrite_a=1)
    if info or np.diagonal(r).min(initial=1.0) < apart:
        return triangle(matrix)
    return np.asarray(r * size)
