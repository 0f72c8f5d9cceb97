"""Least squares in a size that does not depend on the number of samples, and linear constraints on it.

`LeastSquares` holds ‖A x − B‖² by the triangular factor of [A | B], `Rows` the constraints
lower ≤ R x ≤ upper on the flattened coefficients, and `Freedom` what the equalities among them leave free.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import cached_property

import numpy as np
import scipy.linalg
from numpy.typing import NDArray
from scipy.sparse import csr_array, eye_array
from scipy.sparse.csgraph import connected_components

from cindy._arrays import Floats, Ints
from cindy._check import integer, numbers
from cindy.errors import DataError, InfeasibleError

__all__ = [
    "Equalities",
    "Freedom",
    "LeastSquares",
    "Rows",
    "affine",
    "connected",
    "lengths",
    "orthogonalised",
    "pieces",
    "quick_triangle",
    "stacked",
    "triangle",
]

_WIDE = 800
"""Columns from which stacked triangles have a faster method of their own (benchmark: large)."""
_PANEL = 32
"""Columns that LAPACK eliminates at a time."""
_MOST_COLUMNS = 2**40
"""No array has more columns; a larger number is a mistake of the caller."""


@dataclass(frozen=True, eq=False)
class LeastSquares:
    """The objective ‖A x − B‖², summed over the columns of x, in square-root form.

    Only the triangular factor of [A | B] is kept, so memory and time do not depend on the number of rows.
    `a + b` is the objective of the rows of both.

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
        integer(terms, "LeastSquares.empty: `terms`", least=0, most=_MOST_COLUMNS)
        integer(targets, "LeastSquares.empty: `targets`", least=0, most=_MOST_COLUMNS)
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
        shape = (self.terms, self.targets)
        x = x if isinstance(x, np.ndarray) else numbers(x, "LeastSquares: `x`")
        if x.shape != shape:
            raise DataError(f"LeastSquares: `x` must have shape {shape}, but has {x.shape}.")
        # Of very many terms x uses only a few, and only their columns are read.
        used = np.flatnonzero(x.any(axis=1)) if self.terms >= _WIDE else slice(None)
        return self.design[:, used] @ x[used] - self.target

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

    QR, not AᵀA: on clean data the loss is the difference of two numbers of the size of ‖B‖², and the normal
    equations lose all of its digits.
    """
    if len(matrix) == 0:
        return matrix
    (r,) = scipy.linalg.qr(matrix, mode="r", overwrite_a=True, check_finite=False)
    return np.asarray(r[: min(matrix.shape)], dtype=np.float64)


def lengths(matrix: Floats) -> Floats:
    """(columns,) lengths of the columns; 1 for a column of zeros, so that all may be divided by them."""
    size = np.sqrt(np.einsum("ij,ij->j", matrix, matrix))
    size[size == 0.0] = 1.0
    return np.asarray(size)


def orthogonalised(columns: Floats) -> tuple[Floats, Floats]:
    """The orthonormal Q and the triangle R of columns, as `numpy.linalg.qr` gives them.

    A search factorises thousands of small supports, for which NumPy's wrapper takes longer than LAPACK.
    """
    rows, count = columns.shape
    if not 0 < count <= rows:
        return np.linalg.qr(columns)
    packed, tau, _, _ = scipy.linalg.lapack.dgeqrf(columns)
    directions, _, _ = scipy.linalg.lapack.dorgqr(packed, tau)
    return directions, packed[:count] * np.tri(count).T


def stacked(factors: Sequence[Floats]) -> Floats:
    """The triangle of factors on top of each other."""
    width = factors[0].shape[1]
    # A QR factorisation of the whole stack also works on the zeros below the triangles. Wide triangles are
    # instead merged into the first one by one, in a third of the time. The merge needs a square triangle at
    # the top, and triangles below it.
    if width < _WIDE or len(factors[0]) != width or any(np.tril(f, -1).any() for f in factors):
        return triangle(np.vstack(factors))
    r, panel = np.array(factors[0], order="F"), min(_PANEL, width)
    for other in factors[1:]:
        if len(other):
            below = np.array(other, order="F")
            r = scipy.linalg.lapack.dtpqrt(len(other), panel, r, below, overwrite_a=True, overwrite_b=True)[0]
    return np.ascontiguousarray(r)


def quick_triangle(matrix: Floats, apart: float = 1e-4) -> Floats:
    """As `triangle`, by the Cholesky factor of AᵀA where columns are far from dependent: ten times as fast.

    The target is a column too. On clean data it depends on the others, and QR is used. The matrix is not
    changed.

    apart: the least pivot of the unit columns; relative to the pivot the error is about 1e-16 / apart²
    """
    columns = matrix.shape[1]
    # With fewer rows than columns AᵀA is singular, whatever the data.
    if len(matrix) < columns:
        return triangle(matrix.copy())
    gram = matrix.T @ matrix
    size = np.sqrt(np.diagonal(gram))
    if not (np.isfinite(size).all() and size.all()):
        return triangle(matrix.copy())
    # The pivots of unit columns are their distances from the span of those before them, so that `apart` means
    # the same for terms of any size.
    r, info = scipy.linalg.lapack.dpotrf(gram / size / size[:, None], lower=0, clean=1, overwrite_a=1)
    if info or np.diagonal(r).min(initial=1.0) < apart:
        return triangle(matrix.copy())
    return np.asarray(r * size)


_ROUNDING = 1e-11
"""Singular values below this part of the largest are rounding of rows that depend on each other."""


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

    @cached_property
    def equalities(self) -> Equalities:
        return Equalities(csr_array(self.matrix[self.equality]), self.lower[self.equality])

    def scaled(self, unit: Floats) -> Rows:
        """The rows over x / unit, each divided by its largest weight; without those that hold for every x."""
        matrix = csr_array(self.matrix.multiply(unit))
        matrix.eliminate_zeros()
        # A row 0 ≤ 0 would only disturb the rank. A row 0 = 1 stays, for its contradiction to be found.
        needed = (np.diff(matrix.indptr) > 0) | (self.lower > 0) | (self.upper < 0)
        matrix, size = csr_array(matrix[needed]), _largest(matrix)[needed]
        return Rows(
            csr_array(matrix.multiply(1.0 / size[:, None])),
            self.lower[needed] / size,
            self.upper[needed] / size,
            self.owner[needed],
        )

    def bound(self, which: Ints, values: Floats) -> Rows:
        """The same rows, of which the given ones are equalities with these values."""
        lower, upper = self.lower.copy(), self.upper.copy()
        lower[which] = upper[which] = values
        return Rows(self.matrix, lower, upper, self.owner)

    def violation(self, x: Floats) -> float:
        """The largest amount by which x misses a row."""
        if not len(self):
            return 0.0
        values = self.matrix @ x.ravel()
        return float(max(0.0, np.max(self.lower - values), np.max(values - self.upper)))


def _largest(matrix: csr_array) -> Floats:
    """(rows,) largest absolute entries; 1 for a row of zeros."""
    if not matrix.shape[0]:
        return np.zeros(0)
    size = np.asarray(abs(matrix).max(axis=1).toarray(), dtype=np.float64).ravel()
    size[size == 0.0] = 1.0
    return size


@dataclass(frozen=True, eq=False)
class Equalities:
    """The equalities matrix x = goal, and what they leave free on a support.

    A support is a set of coefficients, all others being zero. What is left free is the null space of the
    equalities on the support, x = basis θ + offset (`freedom`):

    1. Rows that share coefficients form a part, which is treated by itself (`_parts`).
    2. A part without the coefficients outside the support may fall apart further (`_Part.left`).
    3. A singular value decomposition gives the null space of each piece, and the offset of least norm
       (`affine`).

    A search asks for thousands of supports that differ in a term or two, so each part remembers its answers.

    matrix: (rows, coefficients), sparse
    """

    matrix: csr_array
    goal: Floats

    def __len__(self) -> int:
        return len(self.goal)

    @cached_property
    def _parts(self) -> list[_Part]:
        """Step 1."""
        # To slice sparse rows part by part takes longer than a dense copy of all, if that fits in 8 MB.
        small = self.matrix.shape[0] * self.matrix.shape[1] < 1_000_000
        dense = self.matrix.toarray() if small else None
        parts = []
        for rows, inside in pieces(self.matrix)[0]:
            part = self.matrix[rows][:, inside].toarray() if dense is None else dense[np.ix_(rows, inside)]
            parts.append(_Part(rows, inside, part, self.goal[rows]))
        return parts

    @cached_property
    def _tied(self) -> NDArray[np.bool_]:
        """(coefficients,) which a row names."""
        tied = np.zeros(self.matrix.shape[1], dtype=bool)
        tied[self.matrix.indices] = True
        return tied

    def freedom(self, support: Ints, *, also: NDArray[np.bool_] | None = None) -> Freedom | None:
        """What the equalities leave free on a support; None where none of them applies to it.

        An InfeasibleError says that nothing satisfies them.

        also: (rows,) which apply even if none of their coefficients is in the support
        """
        place = np.full(self.matrix.shape[1], -1, dtype=np.intp)
        place[support] = np.arange(len(support))
        # A coefficient that no row names is a parameter of its own.
        loose = np.flatnonzero(~self._tied[support])
        offset = np.zeros(len(support))
        row, column, value = [loose], [np.arange(len(loose))], [np.ones(len(loose))]
        free, applies = len(loose), False
        for part in self._parts:
            inside = place[part.columns]
            left = part.left(inside >= 0, None if also is None else also[part.rows])
            members = inside[inside >= 0]
            applies |= left.applies
            offset[members] = left.offset
            row.append(members[left.row])
            column.append(free + left.column)
            value.append(left.value)
            free += left.free
        if not applies:
            return None
        places = (np.concatenate(row), np.concatenate(column))
        return Freedom(csr_array((np.concatenate(value), places), shape=(len(support), free)), offset)


@dataclass(frozen=True, eq=False)
class _Left:
    """What the equalities of one part leave free on some of its coefficients.

    row, column, value: the entries of the basis; offset: as in `Freedom`
    applies: whether any equality of the part applies
    """

    row: Ints
    column: Ints
    value: Floats
    free: int
    offset: Floats
    applies: bool


@dataclass(frozen=True, eq=False)
class _Part:
    """Equalities that share coefficients.

    rows, columns: where they stand among all; matrix: dense; known: earlier answers of `left`
    """

    rows: Ints
    columns: Ints
    matrix: Floats
    goal: Floats
    known: dict[bytes, _Left] = field(default_factory=dict)

    def left(self, inside: NDArray[np.bool_], also: NDArray[np.bool_] | None) -> _Left:
        """inside: (columns,) which are in the support; also: (rows,) as in `Equalities.freedom`."""
        key = inside.tobytes() + (b"" if also is None else also.tobytes())
        if key not in self.known:
            self.known[key] = self._left(inside, also)
        return self.known[key]

    def _left(self, inside: NDArray[np.bool_], also: NDArray[np.bool_] | None) -> _Left:
        part = self.matrix[:, inside]
        # A row without coefficients in the support is 0 = goal. It applies only if the caller says so.
        used = (part != 0).any(axis=1)
        if also is not None:
            used |= also
        # Step 2.
        together, loose = [(np.arange(len(used)), np.arange(part.shape[1]))], np.zeros(0, np.intp)
        if not (inside.all() and used.all()):
            together, loose = pieces(csr_array(part[used]))
        # A coefficient that no applying row names is a parameter of its own.
        offset, free = np.zeros(part.shape[1]), len(loose)
        row, column, value = [loose], [np.arange(free)], [np.ones(free)]
        for rows, piece in together:
            null, offset[piece] = _null_space(part[used][np.ix_(rows, piece)], self.goal[used][rows])
            row.append(np.repeat(piece, null.shape[1]))
            column.append(np.tile(np.arange(free, free + null.shape[1]), len(piece)))
            value.append(null.ravel())
            free += null.shape[1]
        entries = np.concatenate(row), np.concatenate(column), np.concatenate(value)
        return _Left(*entries, free, offset, bool(used.any()))


@dataclass(frozen=True, eq=False)
class Freedom:
    """All coefficients that obey the equalities: basis θ + offset, for any θ.

    basis: (coefficients, free), sparse; a coefficient that nothing ties has a column with one entry
    offset: (coefficients,)
    """

    basis: csr_array
    offset: Floats

    @classmethod
    def whole(cls, size: int) -> Freedom:
        """The freedom without any equality: each coefficient is a parameter."""
        return cls(eye_array(size, format="csr"), np.zeros(size))


def connected(matrix: csr_array) -> tuple[Ints, Ints]:
    """Labels of rows and of columns, equal for those that entries of the matrix connect."""
    rows, columns = matrix.shape
    # Rows and columns are the nodes of one graph; an entry links its row to its column.
    ends = np.append(matrix.indptr, np.full(columns, matrix.indptr[-1]))
    links = csr_array((matrix.data, matrix.indices + rows, ends), shape=(rows + columns, rows + columns))
    labels = connected_components(links, directed=False)[1].astype(np.intp)
    return labels[:rows], labels[rows:]


def pieces(matrix: csr_array) -> tuple[list[tuple[Ints, Ints]], Ints]:
    """(rows, columns) of each set that entries connect, and the columns that no row names."""
    labels = connected(matrix)
    # Rows come first in the graph, so that sets with rows have the lowest labels.
    count = 1 + int(labels[0].max(initial=-1))
    orders = [np.argsort(label, kind="stable") for label in labels]
    (*rows, _), (*columns, loose) = (
        np.split(order, np.searchsorted(label, np.arange(1, count + 1), sorter=order))
        for label, order in zip(labels, orders, strict=True)
    )
    return list(zip(rows, columns, strict=True)), loose


def _null_space(rows: Floats, goal: Floats) -> tuple[Floats, Floats]:
    """Step 3: as `affine`, for rows of any units; raises InfeasibleError where they contradict each other."""
    if not rows.shape[1]:
        if np.abs(goal).max(initial=0.0) > 0:
            raise InfeasibleError("an equality that must not be zero has none of its coefficients left.")
        return np.zeros((0, 0)), np.zeros(0)
    size = np.abs(rows).max(axis=1)
    size[size == 0.0] = 1.0
    solution = affine(rows / size[:, None], goal / size)
    if solution is None:
        raise InfeasibleError("the equalities contradict each other on this support.")
    null, shift = solution
    # Entries of rounding would tie coefficients together that are independent of each other.
    null[np.abs(null) < 1e-15] = 0.0
    return null, shift


def affine(rows: Floats, goal: Floats) -> tuple[Floats, Floats] | None:
    """An orthonormal basis of what rows x = goal leave free, and the solution of least norm.

    None where the rows contradict each other. rows: dense, in similar units
    """
    # With rows = U S Vᵀ the last rows of Vᵀ span what the equalities leave free, and V S⁻¹ Uᵀ goal is the
    # solution of least norm. The rank leaves out rows that depend on each other.
    u, s, vt = np.linalg.svd(rows)
    rank = int((s > _ROUNDING * s[0]).sum())
    least = vt[:rank].T @ ((u[:, :rank].T @ goal) / s[:rank])
    # The solution of least norm misses the goal only where rows contradict each other.
    if np.abs(rows @ least - goal).max() > 1e-9 * np.abs(goal).max(initial=1e-300):
        return None
    return vt[rank:].T, least
