"""The waist: a least-squares objective that has forgotten how many rows it had, under linear constraints.

`LeastSquares` holds ‖A x − B‖² by a triangular factor, `Rows` the constraints lower ≤ R x ≤ upper on the
flattened coefficients, and `Freedom` the null space that equalities among them leave free.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import cached_property

import numpy as np
import scipy.linalg
from numpy.typing import NDArray
from scipy.sparse import csr_array
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
    "quick_triangle",
    "stacked",
    "triangle",
]

_WIDE = 800
"""Columns from which triangles on top of each other are worth a method of their own (benchmark: large)."""
_PANEL = 32
"""Columns that LAPACK eliminates at a time."""
_MOST_COLUMNS = 2**40
"""More have no address: a bound on what a wrong value may ask for."""


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
        # Of very many terms few are used, and only their columns are read.
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

    QR, not AᵀA: on clean data the loss is the difference of two numbers of the
    size of ‖B‖², and the normal equations lose all of its digits.
    """
    if len(matrix) == 0:
        return matrix
    (r,) = scipy.linalg.qr(matrix, mode="r", overwrite_a=True, check_finite=False)
    return np.asarray(r[: min(matrix.shape)], dtype=np.float64)


def lengths(matrix: Floats) -> Floats:
    """(columns,) lengths of the columns; 1 for one of zeros, so that all may be divided by them."""
    size = np.sqrt(np.einsum("ij,ij->j", matrix, matrix))
    size[size == 0.0] = 1.0
    return np.asarray(size)


def orthogonalised(columns: Floats) -> tuple[Floats, Floats]:
    """Orthonormal directions Q and the triangle R of columns, as `numpy.linalg.qr` gives them.

    A search fits thousands of small supports, and NumPy's wrapper takes longer than their factors do.
    """
    rows, count = columns.shape
    if not 0 < count <= rows:
        return np.linalg.qr(columns)
    packed, tau, _, _ = scipy.linalg.lapack.dgeqrf(columns)
    directions, _, _ = scipy.linalg.lapack.dorgqr(packed, tau)
    return directions, packed[:count] * np.tri(count).T


def stacked(factors: Sequence[Floats]) -> Floats:
    """The triangle of factors on top of each other.

    A QR factorisation of them all would work on the zeros of triangles too: of wide ones, where that
    takes seconds, each is worked into the first by itself, in a third of the time.
    """
    width = factors[0].shape[1]
    # The other method needs a square triangle to work into, and triangles below it.
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

    The target is a column too: where little of it is left, as on clean data, QR is what serves. The matrix
    is left as it is.

    apart: what must be left of every unit column beyond those before it; a share of 1e-16 / apart² is lost
    """
    columns = matrix.shape[1]
    # With fewer rows than columns AᵀA is singular, whatever the data.
    if len(matrix) < columns:
        return triangle(matrix.copy())
    gram = matrix.T @ matrix
    size = np.sqrt(np.diagonal(gram))
    if not (np.isfinite(size).all() and size.all()):
        return triangle(matrix.copy())
    # In units of the columns the pivots say what is left of each beyond those before it, so that `apart`
    # means the same for terms of any size.
    r, info = scipy.linalg.lapack.dpotrf(gram / size / size[:, None], lower=0, clean=1, overwrite_a=1)
    if info or np.diagonal(r).min(initial=1.0) < apart:
        return triangle(matrix.copy())
    return np.asarray(r * size)


_ROUNDING = 1e-11
"""Of the largest singular value: directions of smaller ones are rounding of rows that repeat each other."""


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
        """The rows over x / unit, each divided by its largest weight; without those that say nothing.

        A row that has no weight and must not be zero stays: nothing satisfies it.
        """
        matrix = csr_array(self.matrix.multiply(unit))
        matrix.eliminate_zeros()
        # A row 0 ≤ 0 says nothing and would only disturb the rank. A row 0 = 1 says that nothing is
        # possible.
        says = (np.diff(matrix.indptr) > 0) | (self.lower > 0) | (self.upper < 0)
        matrix, size = csr_array(matrix[says]), _largest(matrix)[says]
        return Rows(
            csr_array(matrix.multiply(1.0 / size[:, None])),
            self.lower[says] / size,
            self.upper[says] / size,
            self.owner[says],
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


@dataclass(frozen=True, eq=False)
class Equalities:
    """matrix x = goal.

    matrix: (rows, coefficients), sparse
    """

    matrix: csr_array
    goal: Floats

    def __len__(self) -> int:
        return len(self.goal)

    @cached_property
    def _parts(self) -> list[_Tied]:
        """Coefficients that no row connects do not know of each other."""
        row_label, column_label = connected(self.matrix)
        columns = _members(column_label)
        # Slicing sparse rows part by part costs more than all of it dense, as long as that fits in 8 MB.
        small = self.matrix.shape[0] * self.matrix.shape[1] < 1_000_000
        dense = self.matrix.toarray() if small else None
        parts = []
        for label, rows in _members(row_label).items():
            inside = columns.get(label, np.zeros(0, dtype=np.intp))
            part = self.matrix[rows][:, inside].toarray() if dense is None else dense[np.ix_(rows, inside)]
            parts.append(_Tied(rows, inside, part, self.goal[rows]))
        return parts

    @cached_property
    def _tied(self) -> NDArray[np.bool_]:
        """(coefficients,) which a row mentions."""
        tied = np.zeros(self.matrix.shape[1], dtype=bool)
        tied[self.matrix.indices] = True
        return tied

    def freedom(self, support: Ints, *, also: NDArray[np.bool_] | None = None) -> Freedom | None:
        """What they leave free on a support, all other coefficients being zero; None where they say nothing.

        Raises InfeasibleError where nothing satisfies them.

        also: (rows,) which count even where none of their coefficients is left
        """
        place = np.full(self.matrix.shape[1], -1, dtype=np.intp)
        place[support] = np.arange(len(support))
        # Each connected part is worked out on its own; coefficients that no row mentions stay as they are.
        loose = np.flatnonzero(~self._tied[support])
        offset, valued = np.zeros(len(support)), np.zeros(len(support), dtype=bool)
        at, column, value = [loose], [np.arange(len(loose))], [np.ones(len(loose))]
        free, said = len(loose), False
        for part in self._parts:
            inside = place[part.columns]
            left = part.left(inside >= 0, None if also is None else also[part.rows])
            names = inside[inside >= 0]
            said |= left.said
            offset[names], valued[names] = left.offset, left.valued
            at.append(names[left.at])
            column.append(free + left.column)
            value.append(left.value)
            free += left.free
        if not said:
            return None
        places = (np.concatenate(at), np.concatenate(column))
        return Freedom(csr_array((np.concatenate(value), places), shape=(len(support), free)), offset, valued)


@dataclass(frozen=True, eq=False)
class _Left:
    """What the equalities of one part leave free on some of its coefficients.

    at, column, value: the entries of the basis; offset, valued: as in `Freedom`; said: whether any row counts
    """

    at: Ints
    column: Ints
    value: Floats
    free: int
    offset: Floats
    valued: NDArray[np.bool_]
    said: bool


@dataclass(frozen=True, eq=False)
class _Tied:
    """Equalities that share coefficients.

    A search asks for thousands of supports that differ in a term or two: what most parts leave is known.

    rows, columns: where they stand among all; matrix: dense
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
        # A row whose coefficients are all outside the support is 0 = goal: satisfied, or the caller's
        # matter (`also`).
        used = (part != 0).any(axis=1)
        if also is not None:
            used |= also
        count = part.shape[1]
        offset, valued = np.zeros(count), np.zeros(count, dtype=bool)
        at, column, value, free = [], [], [], 0
        if inside.all() and used.all():
            row_label, column_label = np.zeros(len(used), dtype=np.intp), np.zeros(count, dtype=np.intp)
        else:
            # Without the coefficients outside, the rest may fall apart.
            row_label, column_label = connected(csr_array(part[used]))
        columns = _members(column_label)
        for label, own in _members(row_label).items():
            here = columns.pop(label, np.zeros(0, dtype=np.intp))
            goal = self.goal[used][own]
            null, shift = _null_space(part[used][np.ix_(own, here)], goal)
            offset[here], valued[here] = shift, bool(goal.any())
            at.append(np.repeat(here, null.shape[1]))
            column.append(np.tile(np.arange(free, free + null.shape[1]), len(here)))
            value.append(null.ravel())
            free += null.shape[1]
        # Those that no row is left to mention stay as they are.
        loose = np.array([single for (single,) in columns.values()], dtype=np.intp)
        count = len(loose)
        return _Left(
            np.concatenate([*at, loose]),
            np.concatenate([*column, np.arange(free, free + count)]),
            np.concatenate([*value, np.ones(count)]),
            free + count,
            offset,
            valued,
            bool(used.any()),
        )


@dataclass(frozen=True, eq=False)
class Freedom:
    """Coefficients that obey the equalities: basis θ + offset, for any θ.

    basis: (coefficients, free), sparse; one entry a column where nothing is tied
    offset: (coefficients,)
    valued: (coefficients,) which an equality that must not be zero holds, alone or through others
    """

    basis: csr_array
    offset: Floats
    valued: NDArray[np.bool_]

    @classmethod
    def whole(cls, size: int) -> Freedom:
        """No equality at all."""
        at = np.arange(size)
        basis = csr_array((np.ones(size), at, np.arange(size + 1)), shape=(size, size))
        return cls(basis, np.zeros(size), np.zeros(size, dtype=bool))


def connected(matrix: csr_array) -> tuple[Ints, Ints]:
    """Labels of rows and of columns, equal for those that entries of the matrix connect."""
    rows, columns = matrix.shape
    # Rows and columns are the nodes of one graph, and an entry is a link from its row to its column.
    ends = np.append(matrix.indptr, np.full(columns, matrix.indptr[-1]))
    links = csr_array((matrix.data, matrix.indices + rows, ends), shape=(rows + columns, rows + columns))
    labels = connected_components(links, directed=False)[1].astype(np.intp)
    return labels[:rows], labels[rows:]


def _members(labels: Ints) -> dict[int, Ints]:
    """Label: where it stands."""
    order = np.argsort(labels, kind="stable")
    parts = np.split(order, np.flatnonzero(np.diff(labels[order])) + 1)
    return {int(labels[part[0]]): part for part in parts if len(part)}


def _null_space(rows: Floats, goal: Floats) -> tuple[Floats, Floats]:
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
    # Rounding would tie coefficients together that have nothing to do with each other.
    null[np.abs(null) < 1e-15] = 0.0
    return null, shift


def affine(rows: Floats, goal: Floats) -> tuple[Floats, Floats] | None:
    """An orthonormal basis of what rows x = goal leave free, and their least solution.

    None where they contradict each other. rows: dense, of one unit
    """
    # rows = U S Vᵀ: the last rows of Vᵀ span what the equalities leave free, V S⁻¹ Uᵀ goal is the solution
    # of least norm. Rows that repeat each other have singular values at rounding and are left out by the
    # rank.
    u, s, vt = np.linalg.svd(rows)
    rank = int((s > _ROUNDING * s[0]).sum())
    least = vt[:rank].T @ ((u[:, :rank].T @ goal) / s[:rank])
    # The least solution misses the goal only where rows contradict each other.
    if np.abs(rows @ least - goal).max() > 1e-9 * np.abs(goal).max(initial=1e-300):
        return None
    return vt[rank:].T, least
