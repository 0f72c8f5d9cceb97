"""Factor: the Cholesky factor of a banded covariance, in time linear in its rows."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import numpy as np
from numpy.lib.stride_tricks import as_strided
from scipy.linalg import blas, lapack

from cindy._types import Floats

__all__ = ["Factor", "factored"]


_FEW = 900
"""Columns times width of the band up to which one banded solve is faster than a loop over blocks. Timed for
widths of 1 to 39 and 9 to 281 columns the two cross at 350 to 520, and the blocks must be made first."""


@dataclass(frozen=True, eq=False)
class Factor:
    """L of S = L Lᵀ, banded.

    band: (kd + 1, size), column by column: band[i, j] = L[i + j, j]
    """

    band: Floats

    @property
    def log_det(self) -> float:
        """log det S."""
        return 2.0 * float(np.sum(np.log(self.band[0])))

    @cached_property
    def _blocks(self) -> tuple[int, Floats, Floats]:
        """(width, diagonal blocks, blocks below them on the left): L is block bidiagonal.

        The blocks are square, (count, width, width); what is beyond the last row is never looked at.
        """
        height, size = self.band.shape
        wide = max(height - 1, 1)
        count = -(-size // wide)
        # Element (r, c) lies at c · height + (r − c): dense matrices of leading dimension height − 1, one
        # every `wide` columns, whose other triangle is other columns': masked, unless nobody looks at it.
        flat = np.concatenate(
            [self.band.ravel(order="K"), np.zeros(count * wide * height + wide - self.band.size)]
        )
        item = flat.itemsize
        along = (wide * height * item, item, wide * item)
        lower = np.tri(wide, dtype=bool)
        square = (count, wide, wide)
        diagonal = np.ascontiguousarray(as_strided(flat, square, along, writeable=False))
        left = np.where(lower.T, as_strided(flat[wide:], square, along, writeable=False), 0.0)
        return wide, diagonal, left

    def whiten(self, values: Floats) -> Floats:
        """L⁻¹ values, (size, columns) row by row in memory, written over them."""
        if values.shape[1] * (self.band.shape[0] - 1) <= _FEW:
            values[...] = _banded_solve(self.band, values, transposed=False)
            return values
        assert values.flags.c_contiguous
        wide, diagonals, lefts = self._blocks
        for k, diagonal in enumerate(diagonals):
            part = values[k * wide : (k + 1) * wide]
            rows = len(part)
            if k:
                part -= lefts[k - 1, :rows] @ values[(k - 1) * wide : k * wide]
            # Xᵀ Lᵀ = Bᵀ: row-major blocks are column-major transposes, solved where they are.
            blas.dtrsm(1.0, diagonal[:rows, :rows].T, part.T, side=1, lower=0, overwrite_b=1)
        return values

    def whiten_back(self, values: Floats) -> Floats:
        """L⁻ᵀ values, (size, columns)."""
        return _banded_solve(self.band, values, transposed=True)


def factored(band: Floats) -> Factor | None:
    """The factor of a symmetric matrix in lower band storage, overwritten; None where it is not positive."""
    made, info = lapack.dpbtrf(band, lower=1, overwrite_ab=1)
    return None if info else Factor(made)


def _banded_solve(band: Floats, values: Floats, *, transposed: bool) -> Floats:
    solution, info = lapack.dtbtrs(band, values, uplo="L", trans="T" if transposed else "N")
    if info:
        raise ArithmeticError("a covariance of the rows is singular")
    return np.asarray(solution)
