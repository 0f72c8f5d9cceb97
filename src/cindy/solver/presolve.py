"""Regions whose rows fall apart into small blocks, as the hull of a few known points."""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from cindy.solver.region import Region

__all__ = ["Presolved", "presolve"]


@dataclass(frozen=True, eq=False)
class Presolved:
    """The hull of an origin and of displacements from it.

    origin: (size,); indices, values: (displacements, longest), padded with zero values
    """

    origin: NDArray[np.float64]
    indices: NDArray[np.intp]
    values: NDArray[np.float64]


def presolve(region: Region) -> Presolved | None:
    """The region as a hull of few points, or None where only a linear program will do."""
    return None
