"""Oracles: the point of a region that minimises a linear function, which is returned as an `Atom`.

A corner of the region minimises ⟨gradient, x⟩. The ball has the corners ± radius / weights_i (`Ball`), and
some regions have few corners after presolve (`Rays`). All others need a linear program.
"""

from abc import ABC, abstractmethod
from dataclasses import dataclass
from functools import cached_property
from typing import NamedTuple

import numpy as np
from scipy.sparse import coo_array
from scipy.sparse.csgraph import connected_components

from cindy._arrays import Floats, Ints
from cindy._check import floats
from cindy.errors import DataError
from cindy.solver.region import Presolved, Region


@dataclass(frozen=True, eq=False)
class Atom:
    """A point of the region, as a sparse displacement from the origin of its oracle.

    indices, values: (nonzeros,), the displacement
    origin: (size,), shared by all atoms of an oracle

    >>> import numpy as np
    >>> from cindy.solver import Atom
    >>> Atom.at(np.array([0.0, 2.0, 0.0]), origin=np.zeros(3)).point().tolist()
    [0.0, 2.0, 0.0]
    """

    indices: Ints
    values: Floats
    origin: Floats

    @classmethod
    def at(cls, point: Floats, origin: Floats) -> "Atom":
        """A flat point as an atom."""
        displacement = point - origin
        indices = np.flatnonzero(displacement)
        return cls(indices, displacement[indices], origin)

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


class Line(NamedTuple):
    """A lower bound level − slope · r for every point within radius r that obeys the rows of a region."""

    level: float
    slope: float

    def at(self, radius: float) -> float:
        """The bound for one radius."""
        return self.level - self.slope * radius


class Oracle(ABC):
    """Finds the point of a region that minimises a linear function.

    `origin` is a point of the region: zero wherever zero is feasible. The region is the hull of the origin
    and of what the oracle returns, so runs start at the origin and count it among their atoms.

    costly: whether a call takes longer than a look through earlier atoms

    A subclass needs `region`, `origin` and `minimise`. This one looks through two points of the ball:

    >>> import numpy as np
    >>> from cindy.solver import Atom, Oracle, Region
    >>> class TwoPoints(Oracle):
    ...     region, origin = Region(2, radius=1.0), np.zeros(2)
    ...     def minimise(self, gradient):
    ...         points = np.array([[1.0, 0.0], [0.0, -1.0]])
    ...         return Atom.at(points[np.argmin(points @ gradient)], self.origin)
    >>> TwoPoints().minimise(np.array([0.5, 3.0])).point().tolist()
    [0.0, -1.0]
    """

    region: Region
    origin: Floats
    costly = False

    @abstractmethod
    def minimise(self, gradient: Floats) -> Atom:
        """The minimiser for a flat gradient that is known to be finite and of the right size."""

    def proved(self, gradient: Floats) -> tuple[Atom, Line]:
        """The atom of `minimise`, and a lower bound on the inner products of all displacements of the region.

        The bound holds in spite of rounding and of tolerances. This one allows for rounding of the inner
        product and holds for the radius of the region; those of the oracles of `oracle_for` hold for any.
        """
        atom = self.minimise(gradient)
        # An inner product of n rounded factors is off by at most about n eps Σ |a_i b_i|.
        size = float(np.abs(gradient[atom.indices]) @ np.abs(atom.values))
        least = atom.slope(gradient) - (2 + len(atom.indices)) * np.finfo(float).eps * size
        return atom, Line(least, 0.0)

    def components(self, targets: int) -> Ints:
        """(targets,): labels 0, 1, …; no atom touches targets with different labels."""
        return np.zeros(targets, dtype=np.intp)

    def decompose(self, x: Floats, targets: int) -> list[tuple[Atom, float]]:
        """Atoms and weights that make up a point of the region, each atom within one component."""
        atom = Atom.at(x, self.origin)
        return [(atom, 1.0)] if len(atom.indices) else []

    def __call__(self, gradient: Floats) -> Atom:
        """The atom of the region with the least inner product with `gradient`, (size,)."""
        flat = floats(gradient, "Oracle: the gradient", ndim=1)
        if len(flat) != self.region.size:
            raise DataError(
                f"Oracle: the gradient must have {self.region.size} entries, but has {len(flat)}."
            )
        return self.minimise(flat)


_ROUNDING = 4 * float(np.finfo(np.float64).eps)
"""Relative error of a slope, a product of a few numbers."""
_PRESOLVED = 8 * float(np.finfo(np.float64).eps)
"""Relative error of the corners from presolve: ties are exact, other blocks are small and balanced."""


class Ball(Oracle):
    """The weighted l1 ball: the atoms are its corners ± radius / weights_i."""

    def __init__(self, region: Region) -> None:
        self.region = region
        self.origin = np.zeros(region.size)
        self._corner = region.radius / region.weights
        self._slopes = np.empty(region.size)

    def minimise(self, gradient: Floats) -> Atom:
        np.multiply(gradient, self._corner, out=self._slopes)
        best = int(np.abs(self._slopes, out=self._slopes).argmax())
        value = -self._corner[best] if gradient[best] > 0 else self._corner[best]
        return Atom(np.array([best]), np.array([value]), self.origin)

    def proved(self, gradient: Floats) -> tuple[Atom, Line]:
        # Hölder: ⟨g, x⟩ ≥ −max |g_i| / w_i · Σ w_i |x_i|, for any radius.
        steepest = float(np.max(np.abs(gradient) / self.region.weights))
        return self.minimise(gradient), Line(0.0, (1.0 + _ROUNDING) * steepest)

    def components(self, targets: int) -> Ints:
        return np.arange(targets)

    def decompose(self, x: Floats, targets: int) -> list[tuple[Atom, float]]:
        corners = np.copysign(self._corner, x)
        return [
            (Atom(np.array([i]), corners[i : i + 1], self.origin), float(x[i] / corners[i]))
            for i in np.flatnonzero(x)
        ]


class Rays(Oracle):
    """A presolved region: the hull of its origin and of displacements with few nonzeros."""

    def __init__(self, region: Region, hull: Presolved) -> None:
        self.region = region
        self.origin = hull.origin
        self._room = hull.room
        # Zero where a row names the coefficient: a product over all is faster than picking out the free ones.
        self._free = np.zeros(region.size)
        self._free[hull.free] = 1.0 / region.weights[hull.free]
        self._corner = hull.room * self._free
        self._indices = hull.indices
        self._directions = hull.values
        self._values = hull.room * hull.values
        self._length = np.count_nonzero(hull.values, axis=1)

    def minimise(self, gradient: Floats) -> Atom:
        slopes = gradient * self._corner
        best = int(np.abs(slopes).argmax())
        least = -abs(float(slopes[best]))
        if len(self._indices):
            rays = np.einsum("ij,ij->i", self._values, gradient[self._indices])
            ray = int(rays.argmin())
            if rays[ray] < least:
                end = self._length[ray]
                return Atom(self._indices[ray, :end], self._values[ray, :end], self.origin)
        chosen = np.array([best] if least < 0.0 else [], dtype=np.intp)
        return Atom(chosen, -np.copysign(self._corner[chosen], slopes[chosen]), self.origin)

    def proved(self, gradient: Floats) -> tuple[Atom, Line]:
        # All displacements have the norm `room`, the radius less the norm of the origin, in fixed directions.
        # The least product therefore falls with the radius at the rate of the steepest direction.
        atom = self.minimise(gradient)
        steepest = size = float(np.max(np.abs(gradient) * self._free))
        if len(self._indices):
            slopes = gradient[self._indices]
            steepest = max(steepest, -float(np.einsum("ij,ij->i", self._directions, slopes).min()))
            sizes = np.einsum("ij,ij->i", np.abs(self._directions), np.abs(slopes))
            size = max(size, float(sizes.max()))
        slope = steepest + _PRESOLVED * size
        norm = self.region.norm(self.origin)
        return atom, Line(slope * norm * (1.0 - _PRESOLVED * len(self.origin)), slope)

    def components(self, targets: int) -> Ints:
        used = self._values != 0
        touched = self._indices % targets
        first = np.broadcast_to(touched[:, :1], used.shape)
        # A displacement connects the targets that it touches: each is linked to the first of them.
        links = coo_array((used[used], (first[used], touched[used])), shape=(targets, targets))
        return connected_components(links, directed=False)[1].astype(np.intp)

    def decompose(self, x: Floats, targets: int) -> list[tuple[Atom, float]]:
        # The region is a sum of cones cut at a common norm, so the part of the displacement in each component
        # is an atom once it is stretched to that norm.
        displacement = x - self.origin
        label = self.components(targets)[np.arange(len(x)) % targets]
        parts = []
        for k in range(int(label.max()) + 1):
            indices = np.flatnonzero((label == k) & (displacement != 0.0))
            length = float(self.region.weights[indices] @ np.abs(displacement[indices]))
            share = length / self._room if length > 0.0 else 0.0
            if share > 0.0:
                parts.append((Atom(indices, displacement[indices] / share, self.origin), share))
        return parts
