"""Factor: the Cholesky factor of a banded covariance, in time linear in its rows."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property, lru_cache

import numpy as np
from numpy.lib.stride_tricks import as_strided
from numpy.typing import NDArray
from scipy.linalg import blas, lapack

from cindy._types import Floats

__all__ = ["Factor", "factored"]


_FEW = 32
"""Columns up to which one banded solve is faster than a loop over blocks."""


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
    def _blocks(self) -> list[tuple[int, int, Floats, Floats]]:
        """(start, stop, diagonal block, block below it on the left): L is block bidiagonal."""
        height, size = self.band.shape
        wide = max(height - 1, 1)
        made = []
        flat = self.band.ravel(order="K")
        empty = np.zeros((0, 0))
        lower = _below(wide)
        for a in range(0, size, wide):
            b = min(a + wide, size)
            # Element (r, c) lies at c · height + (r − c): a dense matrix of leading dimension height − 1.
            diagonal = np.where(lower[: b - a, : b - a], _view(flat, a * height, b - a, b - a, wide), 0.0)
            left = empty
            if a:
                corner = _view(flat, (a - wide) * height + wide, b - a, wide, wide)
                left = np.where(lower.T[: b - a], corner, 0.0)
            made.append((a, b, diagonal, left))
        return made

    def whiten(self, values: Floats) -> Floats:
        """L⁻¹ values, (size, columns)."""
        if values.shape[1] <= _FEW or self.band.shape[0] == 1:
            return _banded_solve(self.band, values, transposed=False)
        out = np.array(values, order="C")
        before: Floats | None = None
        for a, b, diagonal, left in self._blocks:
            part = out[a:b]
            if before is not None:
                part -= left @ before
            # Xᵀ Lᵀ = Bᵀ: row-major blocks are column-major transposes.
            before = blas.dtrsm(1.0, diagonal.T, part.T, side=1, lower=0).T
            out[a:b] = before
        return out

    def whiten_back(self, values: Floats) -> Floats:
        """L⁻ᵀ values, (size, columns)."""
        return _banded_solve(self.band, values, transposed=True)


@lru_cache(maxsize=16)
def _below(size: int) -> NDArray[np.bool_]:
    return np.tri(size, dtype=bool)


def factored(band: Floats) -> Factor | None:
    """The factor of a symmetric matrix in lower band storage, overwritten; None where it is not positive."""
    made, info = lapack.dpbtrf(band, lower=1, overwrite_ab=1)
    return None if info else Factor(made)


def _banded_solve(band: Floats, values: Floats, *, transposed: bool) -> Floats:
    solution, info = lapack.dtbtrs(band, values, uplo="L", trans="T" if transposed else "N")
    if info:
        raise ArithmeticError("a covariance of the rows is singular")
    return np.asarray(solution)


def _view(flat: Floats, offset: int, rows: int, columns: int, leading: int) -> Floats:
    """Dense view; what lies outside the memory of the band belongs to the part that is masked."""
    need = offset + (columns - 1) * leading + rows
    if need > len(flat):
        flat = np.concatenate([flat[offset:], np.zeros(need - len(flat))])
        offset = 0
    item = flat.itemsize
    return as_strided(flat[offset:], (rows, columns), (item, leading * item), writeable=False)
