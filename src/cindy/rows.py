"""Linear constraints over flattened coefficients, and what equalities among them leave free."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from scipy.sparse import block_array, coo_array, csr_array
from scipy.sparse.csgraph import connected_components

from cindy._types import Floats, Ints
from cindy.errors import InfeasibleError

__all__ = ["Equalities", "Freedom", "Rows", "affine", "connected"]


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

    @property
    def equalities(self) -> Equalities:
        return Equalities(csr_array(self.matrix[self.equality]), self.lower[self.equality])

    def scaled(self, unit: Floats) -> Rows:
        """The rows over x / unit, each divided by its largest weight; without those that say nothing.

        A row that has no weight and must not be zero stays: nothing satisfies it.
        """
        matrix = csr_array(self.matrix.multiply(unit))
        matrix.eliminate_zeros()
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

    def freedom(self, support: Ints, *, also: NDArray[np.bool_] | None = None) -> Freedom | None:
        """What they leave free on a support, all other coefficients being zero; None where they say nothing.

        Raises InfeasibleError where nothing satisfies them.

        also: (rows,) which count even where none of their coefficients is left
        """
        rows = csr_array(self.matrix[:, support])
        named = np.diff(rows.indptr) > 0
        used = np.flatnonzero(named if also is None else named | also)
        return _freedom(csr_array(rows[used]), self.goal[used]) if len(used) else None


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


def _freedom(rows: csr_array, goal: Floats) -> Freedom:
    """Of rows x = goal.

    Coefficients that no row connects do not know of each other, so each connected
    part is worked out on its own, and those that no row mentions stay as they are.
    """
    size = rows.shape[1]
    row_label, column_label = connected(rows)
    tied = np.isin(column_label, row_label)
    loose = np.flatnonzero(~tied)
    offset, valued = np.zeros(size), np.zeros(size, dtype=bool)
    at, column, value = [loose], [np.arange(len(loose))], [np.ones(len(loose))]
    free = len(loose)
    dense = rows.toarray() if rows.shape[0] * size < 1_000_000 else None
    members = _members(column_label)
    for label, numbers in _members(row_label).items():
        inside = members.get(label, np.zeros(0, dtype=np.intp))
        part = rows[numbers][:, inside].toarray() if dense is None else dense[np.ix_(numbers, inside)]
        null, shift = _null_space(part, goal[numbers])
        offset[inside], valued[inside] = shift, bool(goal[numbers].any())
        at.append(np.repeat(inside, null.shape[1]))
        column.append(np.tile(np.arange(free, free + null.shape[1]), len(inside)))
        value.append(null.ravel())
        free += null.shape[1]
    places = (np.concatenate(at), np.concatenate(column))
    basis = csr_array(coo_array((np.concatenate(value), places), shape=(size, free)))
    return Freedom(basis, offset, valued)


def connected(matrix: csr_array) -> tuple[Ints, Ints]:
    """Labels of rows and of columns, equal for those that entries of the matrix connect."""
    links = block_array([[None, matrix], [matrix.T, None]], format="csr", dtype=np.float64)
    labels = connected_components(links, directed=False)[1].astype(np.intp)
    return labels[: matrix.shape[0]], labels[matrix.shape[0] :]


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
    found = affine(rows / size[:, None], goal / size)
    if found is None:
        raise InfeasibleError("the equalities contradict each other on this support.")
    null, shift = found
    null[np.abs(null) < 1e-15] = 0.0
    return null, shift


def affine(rows: Floats, goal: Floats) -> tuple[Floats, Floats] | None:
    """An orthonormal basis of what rows x = goal leave free, and their least solution.

    None where they contradict each other. rows: dense, of one unit
    """
    u, s, vt = np.linalg.svd(rows)
    rank = int((s > _ROUNDING * s[0]).sum())
    least = vt[:rank].T @ ((u[:, :rank].T @ goal) / s[:rank])
    if np.abs(rows @ least - goal).max() > 1e-9 * np.abs(goal).max(initial=1e-300):
        return None
    return vt[rank:].T, least
