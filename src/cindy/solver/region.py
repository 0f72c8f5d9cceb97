"""The feasible set, a weighted l1 ball cut by linear rows, and the oracle that finds its corners.

An oracle gives a point of a region that minimises a linear function ⟨gradient, x⟩, as an `Atom`; a corner
does. The ball has the corners ± radius / weights_i (`Ball`), some regions have few corners (`corners.py`),
and all others need a linear program (`linear_program.py`).
"""

from abc import ABC, abstractmethod
from dataclasses import dataclass, fields
from functools import cached_property
from typing import NamedTuple, cast

import numpy as np
import scipy.sparse
from numpy.typing import ArrayLike, NDArray

from cindy._arrays import Floats, Ints
from cindy._check import floats, integer, numbers, positive
from cindy.errors import DataError, InfeasibleError

Sparse = scipy.sparse.csr_array


@dataclass(frozen=True, eq=False, init=False)
class Region:
    """{ x : Σ weights_i |x_i| ≤ radius, lower ≤ matrix x ≤ upper } over the flattened coefficients.

    The coefficient of term i in target j stands at i · targets + j. The rows are stored sparse; a row with
    lower = upper is an equality. An empty region raises its error when an oracle is made of it.

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
        values = (count, positive(radius, "Region: `radius`"), _weights(weights, count), rows, low, high)
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
        """The largest amount by which x exceeds the radius or leaves a row; 0 inside."""
        flat = self._flat(x)
        worst = max(0.0, self.norm(flat) - self.radius)
        if self.rows:
            values = self.matrix @ flat
            worst = max(worst, float(np.max(self.lower - values)), float(np.max(values - self.upper)))
        return worst

    def outside(self, x: ArrayLike) -> float:
        """The largest amount by which x leaves a row, in units of its terms: Σ |entries · x| + |bound|."""
        flat = self._flat(x)
        values, sizes = self.matrix @ flat, abs(self.matrix) @ np.abs(flat)
        worst = 0.0
        for bound, miss in ((self.lower, self.lower - values), (self.upper, values - self.upper)):
            finite = np.isfinite(bound)
            units = (sizes + np.abs(bound))[finite].clip(np.finfo(float).tiny)
            worst = max(worst, float(np.max(miss[finite] / units, initial=0.0)))
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


@dataclass(frozen=True, eq=False)
class Atom:
    """A point of the region, as a sparse displacement from the origin of its oracle.

    indices, values: (nonzeros,), the displacement
    origin: (size,), shared by all atoms of an oracle

    >>> import numpy as np
    >>> from cindy.solver import Atom
    >>> Atom.at(np.array([0.0, 2.0, 0.0]), origin=np.zeros(3)).point().tolist()
    [0.0, 2.0, 0.0]
    """

    indices: Ints
    values: Floats
    origin: Floats

    @classmethod
    def at(cls, point: Floats, origin: Floats) -> "Atom":
        """A flat point as an atom."""
        displacement = point - origin
        indices = np.flatnonzero(displacement)
        return cls(indices, displacement[indices], origin)

    def point(self) -> Floats:
        """(size,): the point itself."""
        x = self.origin.copy()
        x[self.indices] += self.values
        return x

    @cached_property
    def key(self) -> bytes:
        """Equal for equal displacements."""
        return self.indices.tobytes() + self.values.tobytes()

    def slope(self, gradient: Floats) -> float:
        """Inner product of the displacement with a flat gradient."""
        return float(gradient[self.indices] @ self.values)


class Line(NamedTuple):
    """A lower bound level − slope · r for every point within radius r that obeys the rows of a region."""

    level: float
    slope: float

    def at(self, radius: float) -> float:
        """The bound for one radius."""
        return self.level - self.slope * radius


class Oracle(ABC):
    """Finds the point of a region that minimises a linear function.

    `origin` is a point of the region: zero wherever zero is feasible. The region is the hull of the origin
    and of what the oracle returns, so runs start at the origin and count it among their atoms.

    costly: whether a call takes longer than a look through earlier atoms

    A subclass needs `region`, `origin` and `minimise`. This one looks through two points of the ball:

    >>> import numpy as np
    >>> from cindy.solver import Atom, Oracle, Region
    >>> class TwoPoints(Oracle):
    ...     region, origin = Region(2, radius=1.0), np.zeros(2)
    ...     def minimise(self, gradient):
    ...         points = np.array([[1.0, 0.0], [0.0, -1.0]])
    ...         return Atom.at(points[np.argmin(points @ gradient)], self.origin)
    >>> TwoPoints().minimise(np.array([0.5, 3.0])).point().tolist()
    [0.0, -1.0]
    """

    region: Region
    origin: Floats
    costly = False

    @abstractmethod
    def minimise(self, gradient: Floats) -> Atom:
        """The minimiser for a flat gradient that is known to be finite and of the right size."""

    def proved(self, gradient: Floats) -> tuple[Atom, Line]:
        """The atom of `minimise`, and a lower bound on the inner products of all displacements of the region.

        The bound holds in spite of rounding and of tolerances. This one allows for rounding of the inner
        product and holds for the radius of the region; those of the oracles of `oracle_for` hold for any.
        """
        atom = self.minimise(gradient)
        # An inner product of n rounded factors is off by at most about n eps Σ |a_i b_i|.
        size = float(np.abs(gradient[atom.indices]) @ np.abs(atom.values))
        least = atom.slope(gradient) - (2 + len(atom.indices)) * np.finfo(float).eps * size
        return atom, Line(least, 0.0)

    def components(self, targets: int) -> Ints:
        """(targets,): labels 0, 1, …; no atom touches targets with different labels."""
        return np.zeros(targets, dtype=np.intp)

    def decompose(self, x: Floats, targets: int) -> list[tuple[Atom, float]]:
        """Atoms and weights that make up a point of the region, each atom within one component."""
        atom = Atom.at(x, self.origin)
        return [(atom, 1.0)] if len(atom.indices) else []

    def __call__(self, gradient: Floats) -> Atom:
        """The atom of the region with the least inner product with `gradient`, (size,)."""
        flat = floats(gradient, "Oracle: the gradient", ndim=1)
        if len(flat) != self.region.size:
            raise DataError(
                f"Oracle: the gradient must have {self.region.size} entries, but has {len(flat)}."
            )
        return self.minimise(flat)


_ROUNDING = 4 * float(np.finfo(np.float64).eps)
"""Relative error of a slope, a product of a few numbers."""


class Ball(Oracle):
    """The weighted l1 ball: the atoms are its corners ± radius / weights_i."""

    def __init__(self, region: Region) -> None:
        self.region = region
        self.origin = np.zeros(region.size)
        self._corner = region.radius / region.weights
        self._slopes = np.empty(region.size)

    def minimise(self, gradient: Floats) -> Atom:
        np.multiply(gradient, self._corner, out=self._slopes)
        best = int(np.abs(self._slopes, out=self._slopes).argmax())
        value = -self._corner[best] if gradient[best] > 0 else self._corner[best]
        return Atom(np.array([best]), np.array([value]), self.origin)

    def proved(self, gradient: Floats) -> tuple[Atom, Line]:
        # Hölder: ⟨g, x⟩ ≥ −max |g_i| / w_i · Σ w_i |x_i|, for any radius.
        steepest = float(np.max(np.abs(gradient) / self.region.weights))
        return self.minimise(gradient), Line(0.0, (1.0 + _ROUNDING) * steepest)

    def components(self, targets: int) -> Ints:
        return np.arange(targets)

    def decompose(self, x: Floats, targets: int) -> list[tuple[Atom, float]]:
        corners = np.copysign(self._corner, x)
        return [
            (Atom(np.array([i]), corners[i : i + 1], self.origin), float(x[i] / corners[i]))
            for i in np.flatnonzero(x)
        ]
