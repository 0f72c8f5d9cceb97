"""Triangular factors on a device: rows are made and factorised where the terms were evaluated."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from cindy._arrays import Floats, Space, space_of
from cindy.basis import Basis
from cindy.formulation import Formulation
from cindy.summary.pieces import Piece

__all__ = ["DeviceTriangle", "OnDevice"]


@dataclass(frozen=True)
class _Device:
    """Sizes of blocks on a device, and when a triangle is not trusted."""

    elements: int = 64_000_000
    """Numbers in a matrix that is worked on at a time: half a gigabyte, and ten such matrices are alive."""
    sample: int = 32
    """Rows a column in a first look at new rows, spread over them: those of one stretch of time are too
    alike."""
    round: float = 30.0
    """Ratio of the diagonal of an update beyond which it is taken for a first guess and repeated."""
    dependent: float = 1e-11
    """A column whose own part is smaller than this part of it is left to Householder reflections."""


_DEVICE = _Device()


class OnDevice:
    """The factor of the rows of pieces, made on a device."""

    def __init__(self, basis: Basis, formulation: Formulation, device: Any) -> None:
        self._basis, self._formulation, self._space = basis, formulation, space_of(device)
        self._running = DeviceTriangle(self._space)

    @property
    def rows(self) -> int:
        return self._running.rows

    def add(self, piece: Piece) -> None:
        """Add the rows of a piece, as many at a time as memory should hold."""
        one = piece.segment
        variables = self._formulation.variables(one.states, one.inputs)
        width = len(self._basis.names(variables)) + one.dimension
        ends = np.cumsum(np.diff(piece.edges))
        first = 0
        while first < len(ends):
            before = ends[first - 1] if first else 0
            last = max(
                int(np.searchsorted(ends, before + _DEVICE.elements // width, side="right")), first + 1
            )
            edges = piece.edges[first : last + 1]
            self._running.add(self._formulation.on_device(piece.segment, self._basis, edges, self._space))
            first = last

    def factor(self) -> Floats:
        return self._running.factor()


class DeviceTriangle:
    """The R factor of all rows added so far, brought up to date by matrix products.

    With the factor R so far and new rows A, let W = A R⁻¹. Then RᵀR + AᵀA = Rᵀ (I + WᵀW) R,
    so the new factor is L R, where LᵀL = I + WᵀW is a Cholesky factorisation of a matrix that is
    well conditioned wherever the new rows resemble the old ones: unlike AᵀA it
    loses no digits. Any other triangle will do in the place of R, such as that of a sample of the rows
    where there is none yet. W comes from a product with R⁻¹ and one step of refinement, which
    makes it as good as a triangular solve. Where the update is uneven it is repeated with its result in the
    place of R (as in CholeskyQR2: Yamamoto et al., ETNA 44, 2015); where R is singular
    to working precision, Householder reflections take over, slower and always right.
    """

    def __init__(self, space: Space) -> None:
        self.rows = 0
        self._space = space
        self._triangle: Any = None

    def add(self, matrix: Any) -> None:
        """Add rows: (columns, rows), as many rows of the matrix as it has columns."""
        width, rows = int(matrix.shape[0]), int(matrix.shape[1])
        if rows == 0:
            return
        self.rows += rows
        stride = rows // (_DEVICE.sample * width)
        updated = None
        if stride > 1:
            updated = None if self._triangle is None else self._updated(matrix, self._triangle)
            updated = self._updated(matrix, self._joined(matrix[:, ::stride])) if updated is None else updated
        self._triangle = self._joined(matrix) if updated is None else updated

    def factor(self) -> Floats:
        """(min(rows, columns), columns), upper triangular; (0, 0) when there were no rows."""
        if self._triangle is None:
            return np.zeros((0, 0))
        return np.ascontiguousarray(np.triu(self._space.get(self._triangle)))

    def _updated(self, matrix: Any, guess: Any) -> Any | None:
        """The factor with more rows, (columns, rows), by matrix products; None where that is not safe.

        guess: a triangle that is not far from it
        """
        xp = self._space.xp
        for _ in range(3):
            if not self._independent(guess):
                return None
            inverse = xp.linalg.inv(guess)
            new = self._solved(guess, inverse, matrix)
            gram = xp.matmul(new, xp.matrix_transpose(new))
            if self._triangle is not None:
                old = xp.matmul(self._triangle, inverse)
                gram = gram + xp.matmul(xp.matrix_transpose(old), old)
            try:
                update = xp.matrix_transpose(xp.linalg.cholesky((gram + xp.matrix_transpose(gram)) * 0.5))
            except (RuntimeError, ValueError):
                return None
            guess = xp.matmul(update, guess)
            sizes = self._space.get(xp.linalg.diagonal(update))
            if not np.isfinite(sizes).all() or sizes.min() <= 0.0:
                return None
            if sizes.max() <= _DEVICE.round * sizes.min():
                return guess
        return None

    def _independent(self, triangle: Any) -> bool:
        """Whether no column is a combination of those before it, up to rounding."""
        if triangle.shape[0] < triangle.shape[1]:
            return False
        xp = self._space.xp
        own = self._space.get(xp.abs(xp.linalg.diagonal(triangle)))
        length = self._space.get(xp.linalg.vector_norm(triangle, axis=0))
        return bool(np.isfinite(length).all() and (own > _DEVICE.dependent * length).all())

    def _solved(self, triangle: Any, inverse: Any, matrix: Any) -> Any:
        """The transpose of (rows of the matrix) · triangle⁻¹, as good as by substitution."""
        xp = self._space.xp
        back, forth = xp.matrix_transpose(inverse), xp.matrix_transpose(triangle)
        solved = xp.matmul(back, matrix)
        return solved + xp.matmul(back, matrix - xp.matmul(forth, solved))

    def _joined(self, matrix: Any) -> Any:
        """The factor with more rows, (columns, rows), by Householder reflections."""
        xp = self._space.xp
        rows = xp.matrix_transpose(matrix)
        return xp.linalg.qr(rows if self._triangle is None else xp.concat([self._triangle, rows], axis=0)).R
