"""The feasible set: a weighted l1 ball cut by linear rows."""

from dataclasses import dataclass, fields
from functools import cached_property
from typing import cast

import numpy as np
import scipy.sparse
from numpy.typing import ArrayLike, NDArray

from cindy._check import floats, integer, numbers, positive
from cindy._types import Floats
from cindy.errors import DataError, InfeasibleError

__all__ = ["Region"]

Sparse = scipy.sparse.csr_array


@dataclass(frozen=True, eq=False, init=False)
class Region:
    """{ x : Σ weights_i |x_i| ≤ radius, lower ≤ matrix x ≤ upper } over the flattened coefficients.

    The coefficient of term i in target j stands at i · targets + j. The rows
    are kept sparse; a row with lower = upper is an equality. Whether the set
    is empty shows when an oracle is made of it.

    size: number of coefficients
    radius: of the weighted l1 ball
    weights: (size,), positive; ones when left out
    matrix: (rows, size), dense or sparse; no rows when left out
    lower, upper: (rows,) or one number for all; infinite where a side is free

    >>> ball = Region(3, 2.0)
    >>> ball.violation(np.array([1.0, -1.5, 0.0]))
    0.5
    """

    size: int
    radius: float
    weights: Floats
    matrix: Sparse
    lower: Floats
    upper: Floats

    def __init__(
        self,
        size: int,
        radius: float,
        weights: ArrayLike | None = None,
        matrix: ArrayLike | scipy.sparse.sparray | None = None,
        lower: ArrayLike = -np.inf,
        upper: ArrayLike = np.inf,
    ) -> None:
        count = integer(size, "Region: `size`", least=1)
        rows = _rows(matrix, count)
        low = _bound(lower, "lower", int(rows.shape[0]))
        high = _bound(upper, "upper", int(rows.shape[0]))
        _check_order(low, high)
        values = (
            count,
            positive(radius, "Region: `radius`"),
            _weights(weights, count),
            rows,
            low,
            high,
        )
        for field, value in zip(fields(self), values, strict=True):
            object.__setattr__(self, field.name, value)

    @property
    def rows(self) -> int:
        """How many linear rows there are."""
        return int(self.matrix.shape[0])

    @cached_property
    def equality(self) -> NDArray[np.bool_]:
        """(rows,): which rows are equalities."""
        return np.asarray(self.lower == self.upper)

    def norm(self, x: ArrayLike) -> float:
        """Σ weights_i |x_i| of x, flat or of shape (terms, targets)."""
        return float(self.weights @ np.abs(self._flat(x)))

    def violation(self, x: ArrayLike) -> float:
        """By how much x exceeds the radius or leaves a row, whichever is largest; 0 inside."""
        flat = self._flat(x)
        worst = max(0.0, self.norm(flat) - self.radius)
        if self.rows:
            values = self.matrix @ flat
            worst = max(worst, float(np.max(self.lower - values)), float(np.max(values - self.upper)))
        return worst

    def _flat(self, x: ArrayLike) -> Floats:
        flat = numbers(x, "Region: `x`").ravel()
        if len(flat) != self.size:
            raise DataError(f"Region: `x` must have {self.size} coefficients, but has {len(flat)}.")
        return flat

    def with_radius(self, radius: float) -> "Region":
        """The same region with another radius."""
        return Region(self.size, radius, self.weights, self.matrix, self.lower, self.upper)


def _weights(weights: ArrayLike | None, size: int) -> Floats:
    if weights is None:
        return np.ones(size)
    array = floats(weights, "Region: `weights`", ndim=1)
    if len(array) != size:
        raise DataError(
            f"Region: `weights` must have {size} entries, one a coefficient, but has {len(array)}."
        )
    if not (array > 0).all():
        i = int(np.argmin(array))
        raise DataError(
            f"Region: `weights` must be positive, but weights[{i}] = {array[i]:g}. "
            "Without a weight the coefficient would be unbounded."
        )
    return array


def _rows(matrix: ArrayLike | scipy.sparse.sparray | None, size: int) -> Sparse:
    if matrix is None:
        return Sparse((0, size), dtype=np.float64)
    if scipy.sparse.issparse(matrix):
        rows = Sparse(cast(Sparse, matrix).astype(np.float64))
    else:
        rows = Sparse(floats(cast(ArrayLike, matrix), "Region: `matrix`", ndim=2))
    if rows.shape[1] != size:
        raise DataError(
            f"Region: `matrix` must have {size} columns, one a coefficient, but has shape {rows.shape}."
        )
    floats(rows.data, "Region: the entries of `matrix`", ndim=1)
    rows.eliminate_zeros()
    return rows


def _bound(values: ArrayLike, name: str, count: int) -> Floats:
    array = numbers(values, f"Region: `{name}`").copy()
    if array.ndim == 0:
        array = np.full(count, float(array))
    if array.shape != (count,):
        raise DataError(
            f"Region: `{name}` must have one entry for each of the {count} rows, but has shape {array.shape}."
        )
    if np.isnan(array).any():
        raise DataError(
            f"Region: `{name}` must be numbers, but {name}[{int(np.argmax(np.isnan(array)))}] is nan."
        )
    return array


def _check_order(lower: Floats, upper: Floats) -> None:
    wrong = (lower > upper) | (lower == np.inf) | (upper == -np.inf)
    if wrong.any():
        i = int(np.argmax(wrong))
        raise InfeasibleError(
            f"Region: row {i} asks for a value from {lower[i]:g} to {upper[i]:g}, and there is none. "
            "Exchange the two bounds, or remove the row."
        )
