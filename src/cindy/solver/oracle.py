"""Oracles: linear minimisation over a region, and the atoms they return."""

from abc import ABC, abstractmethod
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from cindy._check import floats
from cindy._types import Floats, Ints
from cindy.errors import DataError
from cindy.solver.region import Region

__all__ = ["Atom", "Oracle"]


@dataclass(frozen=True, eq=False)
class Atom:
    """A point of the region, as a sparse displacement from the origin of its oracle.

    indices, values: (nonzeros,), the displacement
    origin: (size,), shared by all atoms of an oracle
    """

    indices: Ints
    values: Floats
    origin: Floats

    def point(self) -> Floats:
        """(size,): the point itself."""
        x = self.origin.copy()
        x[self.indices] += self.values
        return x

    @cached_property
    def key(self) -> bytes:
        """Equal for equal displacements."""
        return self.indices.tobytes() + self.values.tobytes()

    def slope(self, gradient: Floats) -> float:
        """Inner product of the displacement with a flat gradient."""
        return float(gradient[self.indices] @ self.values)


class Oracle(ABC):
    """Finds the point of a region that minimises a linear function.

    `origin` is a point of the region too: zero wherever zero is feasible. The
    region is then the hull of what the oracle returns and the origin, so runs
    start there and may keep it among their atoms.

    costly: whether a call takes longer than a look through earlier atoms
    """

    region: Region
    origin: Floats
    costly = False

    @abstractmethod
    def minimise(self, gradient: Floats) -> Atom:
        """The minimiser for a flat gradient that is known to be finite and of the right size."""

    def proved(self, gradient: Floats) -> tuple[Atom, float]:
        """An atom, and a bound from below on what `minimise` looks for over the whole region.

        As `minimise`, but whatever rounding or a tolerance may have lost is in the bound; here, the rounding
        of the inner product.
        """
        atom = self.minimise(gradient)
        size = float(np.abs(gradient[atom.indices]) @ np.abs(atom.values))
        return atom, atom.slope(gradient) - (2 + len(atom.indices)) * np.finfo(float).eps * size

    @abstractmethod
    def price(self, gradient: Floats) -> float:
        """By how much a unit more of radius lowers the least inner product with `gradient`, (size,)."""

    def components(self, targets: int) -> Ints:
        """(targets,): labels 0, 1, …; no atom touches targets with different labels."""
        return np.zeros(targets, dtype=np.intp)

    def decompose(self, x: Floats, targets: int) -> list[tuple[Atom, float]]:
        """Atoms and weights that give back a point of the region, each within one component."""
        displacement = x - self.origin
        indices = np.flatnonzero(displacement)
        return [(Atom(indices, displacement[indices], self.origin), 1.0)] if len(indices) else []

    def __call__(self, gradient: Floats) -> Atom:
        """The atom of the region with the least inner product with `gradient`, (size,)."""
        flat = floats(gradient, "Oracle: the gradient", ndim=1)
        if len(flat) != self.region.size:
            raise DataError(
                f"Oracle: the gradient must have {self.region.size} entries, but has {len(flat)}."
            )
        return self.minimise(flat)
