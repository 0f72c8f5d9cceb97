"""The triangular factor of rows that come in one lot after the other."""

import numpy as np
import scipy.linalg.lapack

from cindy._types import Floats

__all__ = ["RunningTriangle"]


_LOT = 512
"""Rows worked on together: fewer would be mostly overhead."""
_PANEL = 32
"""Columns that are eliminated one by one before the rest is brought up to date with them all at once."""
_NARROW_PANEL = 16
"""The same for narrow matrices."""
_NARROW = range(33, 257)
"""Columns of matrices for which a panel takes half of the work: with 61 of them sums are a tenth faster by
the narrower panel (`python -m benchmarks stream`)."""


class RunningTriangle:
    """The R factor of all rows added so far, brought up to date lot by lot."""

    def __init__(self) -> None:
        self.rows = 0
        self._triangle: Floats | None = None
        self._waiting: list[Floats] = []
        self._height = 0

    def add(self, matrix: Floats) -> None:
        """Add the rows of a matrix, which is overwritten."""
        if len(matrix) == 0:
            return
        self.rows += len(matrix)
        self._height += len(matrix)
        self._waiting.append(matrix)
        if self._height >= _LOT:
            self._work()

    def factor(self) -> Floats:
        """(min(rows, columns), columns), upper triangular; (0, 0) when there were no rows."""
        if self._waiting:
            self._work()
        if self._triangle is None:
            return np.zeros((0, 0))
        return np.ascontiguousarray(self._triangle[: min(self.rows, len(self._triangle))])

    def _work(self) -> None:
        lot = self._waiting[0] if len(self._waiting) == 1 else np.concatenate(self._waiting)
        self._waiting, self._height = [], 0
        width = lot.shape[1]
        if self._triangle is None:
            self._triangle = np.zeros((width, width), order="F")
        panel = _NARROW_PANEL if width in _NARROW else _PANEL
        # Only the lot is dense: a plain QR of both would work on the zeros of the triangle too.
        self._triangle, _, _, _ = scipy.linalg.lapack.dtpqrt(
            0, min(panel, width), self._triangle, np.asfortranarray(lot), overwrite_a=True, overwrite_b=True
        )
