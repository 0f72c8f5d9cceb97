"""A QR factorisation that columns may join and leave."""

import numpy as np
from numpy.typing import NDArray
from scipy.linalg import qr_delete
from scipy.linalg.blas import dtrsv

__all__ = ["Factor"]

Floats = NDArray[np.float64]

# A column that lies in the span of the others up to this part of its length is
# taken to lie in it: what is left of it is rounding.
DEPENDENT = 1e-12


class Factor:
    """The columns D = Q R in use, and what least squares on a half-space needs of them.

    With right-hand side b: `projected` is Qᵀ b, `ones` solves Rᵀ ones = 1. So
    the minimiser of ‖D λ − b‖² is R⁻¹ projected, its sum is ones · projected,
    and the minimiser with sum σ is R⁻¹ (projected − ν ones) with a multiplier
    ν that all factors of a run share. QR, not DᵀD: near the end of a run the
    residual is far smaller than b.

    size: number of columns
    total: sum of the minimiser's coordinates
    spread: by how much a unit of ν lowers that sum
    """

    def __init__(self, target: Floats) -> None:
        self._target = target
        self._q: Floats = np.empty((len(target), 4), order="F")
        self._r: Floats = np.zeros((4, 4), order="F")
        self.size = 0
        self.projected = np.zeros(0)
        self.ones = np.zeros(0)
        self.total = 0.0
        self.spread = 0.0

    def append(self, column: Floats) -> Floats | None:
        """Take in a column; if it depends on the others, leave it and return its coordinates in them."""
        k = self.size
        length = float(np.linalg.norm(column))
        q = self._q[:, :k]
        along = q.T @ column
        rest = column - q @ along
        # Twice is enough: the second pass removes what rounding left of the first.
        again = q.T @ rest
        rest -= q @ again
        along += again
        height = float(np.linalg.norm(rest))
        if height <= DEPENDENT * length:
            return self.solve(along) if k else np.zeros(0)
        self._reserve(k + 1)
        self._q[:, k] = rest / height
        self._r[:k, k] = along
        self._r[k, k] = height
        self.size = k + 1
        unit = self._q[:, k]
        residual = self._target - self._q[:, :k] @ self.projected
        self.projected = np.append(self.projected, unit @ residual)
        self.ones = np.append(self.ones, (1.0 - along @ self.ones) / height)
        self._sum_up()
        return None

    def delete(self, position: int) -> None:
        """Let the column at `position` go; those behind it move up."""
        k = self.size
        q, r = qr_delete(
            self._q[:, :k], self._r[:k, :k], position, which="col", overwrite_qr=False, check_finite=False
        )
        # With an economic Q (more rows than columns) the last column is gone; a square Q keeps it.
        self._q[:, : k - 1] = q[:, : k - 1]
        self._r[: k - 1, : k - 1] = r[: k - 1]
        self._r[: k - 1, k - 1] = 0.0
        self._r[k - 1, :k] = 0.0
        self.size = k - 1
        self.projected = self._q[:, : k - 1].T @ self._target
        self.ones = self._backward(np.ones(k - 1), transposed=True)
        self._sum_up()

    def project(self, values: Floats) -> Floats:
        """Qᵀ values."""
        return np.asarray(self._q[:, : self.size].T @ values)

    def solve(self, values: Floats) -> Floats:
        """R⁻¹ values."""
        return self._backward(values, transposed=False)

    def _sum_up(self) -> None:
        self.total = float(self.ones @ self.projected)
        self.spread = float(self.ones @ self.ones)

    def _backward(self, values: Floats, *, transposed: bool) -> Floats:
        if not self.size:
            return np.zeros(0)
        solution = dtrsv(self._r[: self.size, : self.size], values, trans=int(transposed))
        return np.asarray(solution, dtype=np.float64)

    def _reserve(self, columns: int) -> None:
        room = self._q.shape[1]
        if columns <= room:
            return
        room = max(columns, room + room // 2)
        q = np.empty((len(self._target), room), order="F")
        q[:, : self.size] = self._q[:, : self.size]
        r = np.zeros((room, room), order="F")
        r[: self.size, : self.size] = self._r[: self.size, : self.size]
        self._q, self._r = q, r
