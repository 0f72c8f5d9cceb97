"""Record: stretches of measurements that share one time grid."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from cindy._arrays import Floats
from cindy.states.grid import Grid

__all__ = ["MISSING", "Record"]


MISSING = 1e4
"""Variance of an entry that was not measured, in units of that of the noise. It need not be larger:
each step moves the state from where the last one left it."""


@dataclass(frozen=True, eq=False)
class Record:
    """Measurements y of stretches of equal length at the times of one grid.

    y: (stretches, samples, states); where nothing was measured, a first guess
    spread: (stretches, samples, states) variance of each entry in units of that of its state's noise:
        1 for a plain measurement, large where there is none
    u: (stretches, samples, inputs)
    source: (stretches,) number of the trajectory that each stretch is from; offset: its first sample there
    held: (inputs,) which inputs keep each value until the next sample; None: none of them
    """

    grid: Grid
    y: Floats
    spread: Floats
    u: Floats
    source: NDArray[np.intp]
    offset: NDArray[np.intp]
    held: NDArray[np.bool_] | None = None

    @property
    def stretches(self) -> int:
        return len(self.y)

    @property
    def states(self) -> int:
        return int(self.y.shape[2])

    @property
    def rows(self) -> int:
        """Scalar rows: one for every stretch, row of the grid and state."""
        return self.stretches * self.grid.rows * self.states

    @property
    def missing(self) -> NDArray[np.bool_]:
        """Entries without a measurement."""
        return self.spread >= MISSING

    def unmeasured(self, count: int) -> Record:
        """The same with the values of so many of the last states as first values, and no measurements."""
        spread = self.spread.copy()
        spread[..., -count:] = MISSING
        return replace(self, spread=spread)

    def centred(self, x: Floats) -> Record:
        """The same around the current states: what was not measured is wherever it is thought to be."""
        if not self.missing.any():
            return self
        return replace(self, y=np.where(self.missing, x, self.y))

    def points(self, x: Floats) -> Floats:
        """(n, variables): states and inputs of all samples, one below the other."""
        return np.concatenate([x, self.u], axis=2).reshape(-1, x.shape[2] + self.u.shape[2])

    def integrated(
        self, x: Floats, evaluate: Callable[[Floats], Floats], weights: Floats | None = None
    ) -> Floats:
        """(stretches, rows, columns): integrals over the rows of functions of states and inputs.

        An input that is held jumps at the samples, and no polynomial passes through a jump. Within a step it
        is constant, so that row k takes ∫ ψ(x(t), u_k) dt = Σ_p W_kp ψ(x_{k+p}, u_k): the functions are
        evaluated once for every sample that a row looks at.

        evaluate: (n, columns) from points (n, variables); weights: other than the grid's, (rows, width)
        """
        grid = self.grid
        if self.held is None:
            values = evaluate(self.points(x)).reshape(*x.shape[:2], -1)
            if weights is None:
                return grid.integrals(values)
            return np.asarray(np.einsum("rw,srwj->srj", weights, values[:, grid.window]))
        total: Floats | None = None
        row = np.arange(grid.rows)
        for later, part in enumerate(grid.by_interval if weights is None else (weights,)):
            for place in range(grid.width):
                at = grid.start + place
                u = np.where(self.held, self.u[:, row + later], self.u[:, at])
                points = np.concatenate([x[:, at], u], axis=2)
                values = evaluate(points.reshape(-1, points.shape[2])).reshape(*points.shape[:2], -1)
                added = part[:, place, None] * values
                total = added if total is None else total + added
        assert total is not None
        return total

    def part(self, which: NDArray[np.intp]) -> Record:
        """Some of the stretches."""
        return Record(
            self.grid,
            self.y[which],
            self.spread[which],
            self.u[which],
            self.source[which],
            self.offset[which],
            self.held,
        )
