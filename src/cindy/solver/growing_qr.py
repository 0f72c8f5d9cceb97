"""A QR factorisation that columns may join and leave."""

import numpy as np
from scipy.linalg import qr_delete
from scipy.linalg.lapack import dtrtrs

from cindy._types import Floats

__all__ = ["GrowingQR"]


DEPENDENT = 1e-12
"""A column that lies in the span of the others up to this part of its length is taken to lie in it: what is
left of it is rounding."""
STEEP = 1e3
"""Size of weights beyond which the difference of two vectors of them would lose three digits."""


class GrowingQR:
    """The columns D = Q R in use, and what least squares on a half-space needs of them.

    The minimiser of ‖D λ − b‖² under the price ν on Σ λ is R⁻¹ (Qᵀ b − ν R⁻ᵀ 1) =
    `free` − ν lean, with residual D λ − b = −(`rest` + ν `tilt`), and factors
    that share a price add up: the step of `least_squares_first` for the one row
    Σ λ = 1, brought up to date as columns come and go. QR, not DᵀD: near the end of a run the residual
    is far smaller than b.

    size: number of columns
    free: (size,)
    rest_squared, spread: ‖D λ − b‖² is `rest_squared` + ν² `spread`
    rest, tilt: (rows,); `rest` is b less its projection on the columns, `tilt` is Q R⁻ᵀ 1
    newest: (rows,), the last column of Q; share, one: what it took of `rest` and added to `tilt`
    total: Σ λ at the price 0, which a unit of ν lowers by `spread`
    """

    def __init__(self, target: Floats) -> None:
        self._target = target
        self._q: Floats = np.empty((len(target), 4), order="F")
        self._r: Floats = np.zeros((4, 4), order="F")
        self._sides: Floats = np.zeros((4, 2), order="F")  # Qᵀ b, R⁻ᵀ 1
        self.size = 0
        self.free = np.zeros(0)
        self._lean: Floats | None = None
        self.rest_squared = float(target @ target)
        self.rest = target.copy()
        self.tilt = np.zeros(len(target))
        self.newest = self.tilt
        self.share = self.one = 0.0
        self.total = 0.0
        self.spread = 0.0

    def append(self, column: Floats, begin: int = 0, end: int | None = None) -> Floats | None:
        """Take in a column; if it depends on the others, leave it and return its coordinates in them.

        begin, end: the rows outside which the column is zero
        """
        k = self.size
        q = self._q[:, :k]
        along = column[begin:end] @ q[begin:end]
        rest = column - q @ along
        length, left = float(column @ column), float(rest @ rest)
        if left < 0.5 * length:
            # Twice is enough: the second pass removes what rounding left of the first.
            again = rest @ q
            rest -= q @ again
            along += again
            left = float(rest @ rest)
        height = float(np.sqrt(left))
        if height <= DEPENDENT * np.sqrt(length):
            return self._solve(along)
        self._reserve(k + 1)
        rest /= height
        self._q[:, k] = self.newest = rest
        self._r[:k, k] = along
        self._r[k, k] = height
        self.share = float(rest @ self.rest)
        self.one = (1.0 - float(along @ self._sides[:k, 1])) / height
        self._sides[k] = self.share, self.one
        self.rest -= self.share * rest
        self.tilt += self.one * rest
        self.size = k + 1
        self.total += self.share * self.one
        self.spread += self.one**2
        self._solve_sides()
        return None

    def delete(self, position: int) -> None:
        """Let the column at `position` go; those behind it move up."""
        k = self.size - 1
        whole = self._q[:, : k + 1]
        q, r = qr_delete(
            whole,
            self._r[: k + 1, : k + 1],
            position,
            which="col",
            overwrite_qr=True,
            check_finite=False,
        )
        if not np.may_share_memory(q, whole):
            self._q[:, :k] = q[:, :k]
        if not np.may_share_memory(r, self._r):
            self._r[:k, :k] = r[:k]
        self.size = k
        self._sides[position:k, 0] = self._target @ self._q[:, position:k]
        self._sides[:k, 1] = self._solve(np.ones(k), transposed=True)
        self.rest = self._target - self._q[:, :k] @ self._sides[:k, 0]
        self.tilt = self._q[:, :k] @ self._sides[:k, 1]
        self.total = float(self._sides[:k, 0] @ self._sides[:k, 1])
        self.spread = float(self._sides[:k, 1] @ self._sides[:k, 1])
        self._solve_sides()

    def minimiser(self, price: float) -> Floats:
        """(size,): λ under a price on its sum."""
        if price == 0.0:
            return self.free
        if self._lean is None:
            self._lean = self._solve(self._sides[: self.size, 1])
        # Weights are at most 1: where these are far larger, their difference loses digits.
        if not self.size or float(np.abs(self.free).max()) <= STEEP:
            return self.free - price * self._lean
        sides = self._sides[: self.size]
        return self._solve(sides[:, 0] - price * sides[:, 1])

    def along(self, residual: Floats) -> Floats:
        """(size,): what of a residual lies in the columns, in the coordinates of Q."""
        return np.asarray(residual @ self._q[:, : self.size])

    def correction(self, along: Floats, price: float) -> Floats:
        """(size,): the change of λ that a residual D λ − b asks for, under a price on its sum."""
        return self._solve(price * self._sides[: self.size, 1] - along)

    def overlap(self, along: Floats) -> float:
        """By how much the correction for a residual would lower Σ λ without a price."""
        return float(along @ self._sides[: self.size, 1])

    def _solve_sides(self) -> None:
        self.rest_squared = float(self.rest @ self.rest)
        self.free = self._solve(self._sides[: self.size, 0])
        self._lean = None

    def _solve(self, values: Floats, *, transposed: bool = False) -> Floats:
        if not self.size:
            return np.zeros(0)
        solution, _ = dtrtrs(self._r[:, : self.size], values, trans=int(transposed))
        return np.asarray(solution)

    def _reserve(self, columns: int) -> None:
        k, room = self.size, len(self._r)
        if columns <= room:
            return
        # In small steps: to copy costs little beside the products of every append, and room is memory.
        room = max(columns, room + room // 16, room + 4)
        q, r, sides = self._q, self._r, self._sides
        self._q = np.empty((len(self._target), room), order="F")
        self._q[:, :k] = q[:, :k]
        self._r = np.zeros((room, room), order="F")
        self._r[:k, :k] = r[:k, :k]
        self._sides = np.zeros((room, 2), order="F")
        self._sides[:k] = sides[:k]
