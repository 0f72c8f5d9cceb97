"""Record: stretches of measurements that share one time grid."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from cindy._types import Floats
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
    """

    grid: Grid
    y: Floats
    spread: Floats
    u: Floats
    source: NDArray[np.intp]
    offset: NDArray[np.intp]

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

    def centred(self, x: Floats) -> Record:
        """The same around the current states: what was not measured is wherever it is thought to be."""
        if not self.missing.any():
            return self
        return replace(self, y=np.where(self.missing, x, self.y))

    def part(self, which: NDArray[np.intp]) -> Record:
        """Some of the stretches."""
        return Record(
            self.grid,
            self.y[which],
            self.spread[which],
            self.u[which],
            self.source[which],
            self.offset[which],
        )
