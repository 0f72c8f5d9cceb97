"""Factor: the Cholesky factor of a banded covariance, in time linear in its rows."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
from numpy.lib.stride_tricks import as_strided
from scipy.linalg import blas, lapack

from cindy._arrays import Floats

__all__ = ["Factor", "factored"]


_FEW = 900
"""Columns times width of the band up to which one banded solve is faster than a loop over blocks. Timed for
widths of 1 to 39 and 9 to 281 columns the two cross at 350 to 520, and the blocks must be made first."""
_CACHED = 60_000
"""Numbers of the blocks that are copied at once: half a megabyte stays in a cache."""


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

    def _blocks(self) -> Iterator[tuple[Floats, Floats]]:
        """The diagonal blocks of L and those below them, (width, width) each: L is block bidiagonal.

        Element (r, c) of L lies at c · height + (r − c) in memory: a block is a dense matrix of leading
        dimension height − 1 whose other triangle holds other columns' numbers. Blocks are copied a cache's
        worth at a time: all at once would take as much memory as the band, many times per step.
        """
        height, size = self.band.shape
        wide = max(height - 1, 1)
        count = -(-size // wide)
        flat = self.band.ravel(order="K")
        item = flat.itemsize
        along = (wide * height * item, item, wide * item)
        # Below the diagonal blocks L has upper triangles; what else the view shows are numbers of other
        # columns.
        upper = np.tri(wide, dtype=bool).T
        at_once = max(_CACHED // wide**2, 1)
        for first in range(0, count, at_once):
            some = min(at_once, count - first)
            begin, needed = first * wide * height, some * wide * height + wide
            run = flat[begin : begin + needed]
            if len(run) < needed:
                # What is beyond the last row is never looked at.
                run = np.concatenate([run, np.zeros(needed - len(run))])
            square = (some, wide, wide)
            diagonal = np.ascontiguousarray(as_strided(run, square, along, writeable=False))
            yield from zip(
                diagonal,
                np.where(upper, as_strided(run[wide:], square, along, writeable=False), 0.0),
                strict=True,
            )

    def blocks(self) -> tuple[Floats, Floats]:
        """(count, width, width) each: the diagonal blocks of L, and those below them; ones beyond its end."""
        diagonal, below = (np.stack(parts) for parts in zip(*self._blocks(), strict=True))
        size, wide = self.band.shape[1], diagonal.shape[1]
        beyond = np.arange(size - (len(diagonal) - 1) * wide, wide)
        # The band goes on below the last row, and what it holds there means nothing.
        below[-2:-1, beyond] = 0.0
        below[-1] = 0.0
        diagonal[-1, beyond] = 0.0
        diagonal[-1, beyond, beyond] = 1.0
        return np.tril(diagonal), below

    def whiten(self, values: Floats) -> Floats:
        """L⁻¹ values, (size, columns) row by row in memory, written over them."""
        wide = max(self.band.shape[0] - 1, 1)
        if values.shape[1] * (self.band.shape[0] - 1) <= _FEW:
            values[...] = _banded_solve(self.band, values, transposed=False)
            return values
        assert values.flags.c_contiguous
        before, below = values[:0], np.zeros((wide, 0))
        for k, (diagonal, next_below) in enumerate(self._blocks()):
            part = values[k * wide : (k + 1) * wide]
            rows = len(part)
            if k:
                part -= below[:rows] @ before
            # Xᵀ Lᵀ = Bᵀ: row-major blocks are column-major transposes, solved where they are.
            blas.dtrsm(1.0, diagonal[:rows, :rows].T, part.T, side=1, lower=0, overwrite_b=1)
            before, below = part, next_below
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
