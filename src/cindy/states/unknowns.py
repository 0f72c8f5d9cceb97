"""Parameters inside terms: one more column each, Σ ξ ∂ψ/∂θ, beside those of the coefficients.

Variable projection (Golub, Pereyra 1973): coefficients follow from the parameters, so that a step is a small
problem in the parameters alone, within their ranges. A step that does not fit better is halved.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from cindy._arrays import Floats
from cindy.basis import Parameter
from cindy.errors import DataError
from cindy.least_squares import LeastSquares, lengths, triangle
from cindy.states.motion import Fitted, Motion, Whitened

__all__ = ["Stride", "stride"]

Ints = NDArray[np.intp]
Solve = Callable[[LeastSquares, Ints], Floats]
Parts = list[tuple[Whitened, Floats]]

_FURTHEST = 1.0
"""A step in the logarithm of a parameter: a factor of e."""
_SHARE = 0.2
"""Of the range: a step of a parameter that is spanned by differences."""
_HALVINGS = 5
"""Of a step that does not fit better; then the parameters stay."""


@dataclass(frozen=True, eq=False)
class Stride:
    """Where a step of coefficients and parameters leads: the new numbers of the law, and the rows there.

    far: how far the parameters went, in units of their errors
    """

    coef: Floats
    parts: Parts
    far: float


def stride(motion: Motion, now: Fitted, parts: Parts, solve: Solve) -> Stride | None:
    """A step that fits better with states held; the same parameters where there is none, None beyond ψ."""
    from scipy.optimize import lsq_linear  # a sixth of the time of `import cindy`

    k, law = len(now.law.support), now.law
    start = now.coef[k:]
    here = _Rows.of([table for _, table in parts], k)
    coef = here.coefficients(solve, law.support, start)
    if not np.isfinite(coef).all():
        return None
    slopes = here.slopes(solve, law.support, start)
    low, high = _reach(law.unknown, start)
    goal, size = here.residual(coef, start), lengths(slopes)
    inside = lsq_linear(slopes / size, goal, bounds=((low - start) * size, (high - start) * size))
    whole = inside.x / size
    best = float(goal @ goal)
    for share in 0.5 ** np.arange(_HALVINGS):
        place = start + share * whole
        try:
            moved = [(white, motion.table(white, law, np.concatenate([coef, place]))) for white, _ in parts]
        except DataError:
            continue
        there = _Rows.of([table for _, table in moved], k)
        new = there.coefficients(solve, law.support, place)
        left = there.residual(new, place)
        if np.isfinite(new).all() and float(left @ left) <= best * (1 + 1e-12):
            far = float(np.linalg.norm(slopes @ (place - start)))
            return Stride(np.concatenate([new, place]), moved, far)
    return Stride(np.concatenate([coef, start]), parts, 0.0)


@dataclass(frozen=True, eq=False)
class _Rows:
    """White rows [ψ | tangents | target] of all records, as a triangle."""

    factor: Floats
    coefs: int
    rows: int

    @classmethod
    def of(cls, tables: Sequence[Floats], coefs: int) -> _Rows:
        factor = triangle(np.concatenate(tables))
        return cls(factor, coefs, sum(len(table) for table in tables))

    def _left(self, places: Floats) -> Floats:
        return np.asarray(self.factor[:, -1] - self.factor[:, self.coefs : -1] @ places)

    def coefficients(self, solve: Solve, support: Ints, places: Floats) -> Floats:
        """The coefficients that go with parameters, under all constraints."""
        columns = np.column_stack([self.factor[:, : self.coefs], self._left(places)])
        return solve(LeastSquares(columns, self.coefs, self.rows), support)

    def residual(self, coef: Floats, places: Floats) -> Floats:
        return np.asarray(self._left(places) - self.factor[:, : self.coefs] @ coef)

    def slopes(self, solve: Solve, support: Ints, places: Floats) -> Floats:
        """(rows, p): by how much the residual falls with each parameter, coefficients following.

        They follow piece by piece along straight lines, so that a difference is exact.
        """
        there = self.residual(self.coefficients(solve, support, places), places)
        columns = []
        for p in range(len(places)):
            size = float(np.linalg.norm(self.factor[:, self.coefs + p]))
            moved = np.array(places)
            moved[p] += 1e-3 / size if size else 1e-3
            coef = self.coefficients(solve, support, moved)
            columns.append((there - self.residual(coef, moved)) / (moved[p] - places[p]))
        return np.stack(columns, axis=1)


def _reach(unknown: Sequence[Parameter], start: Floats) -> tuple[Floats, Floats]:
    """The places that one step may lead to: inside the range and not too far."""
    ends = np.array([one.places for one in unknown])
    far = np.array(
        [
            _FURTHEST if one.logarithmic else _SHARE * (b - a)
            for one, (a, b) in zip(unknown, ends, strict=True)
        ]
    )
    low, high = np.maximum(ends[:, 0], start - far), np.minimum(ends[:, 1], start + far)
    # lsq_linear wants room between its bounds
    return low - 1e-12, high + 1e-12
