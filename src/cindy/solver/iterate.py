"""The one mutable object of a run: a point with its gradient and objective."""

from abc import ABC, abstractmethod

import numpy as np

from cindy._types import Floats, Ints
from cindy.least_squares import LeastSquares
from cindy.solver.local_model import LocalModel
from cindy.solver.oracle import Atom
from cindy.solver.trace import Nonzeros, Snapshot, way_back

__all__ = ["Iterate", "Walk"]


class Iterate(ABC):
    """A point x with its gradient and objective.

    x: (terms, targets); flat: the same memory, (size,)
    gradient: (size,)
    honest: whether gradient and objective were computed from x itself
    estimated: whether the objective is that of a sample
    passes: over data that lie elsewhere
    """

    honest = True
    estimated = False
    passes = 0.0

    def __init__(self, objective: LeastSquares, origin: Floats) -> None:
        # Below its triangle the factor holds what no coefficients can change.
        used = objective.terms if not objective.design[objective.terms :].any() else len(objective.design)
        self.design = objective.design[:used]
        self.target = objective.target[:used]
        self.beyond = float(np.sum(objective.target[used:] ** 2))
        self._model = objective if isinstance(objective, LocalModel) else None
        self.targets = objective.targets
        self.origin = origin
        self._from_zero = not origin.any()
        self.flat = origin.copy()
        self.x = self.flat.reshape(objective.terms, objective.targets)
        self.gradient = np.empty_like(self.flat)
        self.refresh()

    @property
    @abstractmethod
    def count(self) -> int:
        """How many atoms carry weight."""

    def parts(self) -> list[tuple[Atom, float]]:
        """Atoms and weights that make up this point."""
        displacement = self.flat - self.origin
        indices = np.flatnonzero(displacement)
        return [(Atom(indices, displacement[indices], self.origin), 1.0)] if len(indices) else []

    def snapshot(self) -> Snapshot:
        """A way back to this iterate that takes little memory."""
        return way_back(self.origin, [self.nonzeros(np.flatnonzero(self.flat != self.origin))])

    def nonzeros(self, indices: Ints) -> Nonzeros:
        """The point at the given indices."""
        return indices.astype(np.int32), self.flat[indices]

    def residual(self) -> Floats:
        """(k, targets): A x − B, less rows that no coefficients can change."""
        return np.asarray(self.design @ self.x - self.target)

    def refresh(self) -> None:
        """Compute gradient and objective from x."""
        residual = self.residual()
        self.gradient[:] = (self.design.T @ (2.0 * residual)).ravel()
        self.objective = float(np.sum(residual * residual)) + self.beyond
        if self._model is not None:
            self.gradient += self._model.tilt.ravel()
            self.objective += self._model.offset(self.x)
        self.honest = True

    def slope(self) -> float:
        """Inner product of the gradient with the displacement from the origin."""
        if self._from_zero:
            return float(self.gradient @ self.flat)
        return float(self.gradient @ (self.flat - self.origin))

    def gap(self, atom: Atom) -> float:
        """The Frank-Wolfe gap, given the atom that the oracle found at this gradient."""
        return self.slope() - atom.slope(self.gradient)

    def product(self, atom: Atom) -> Floats:
        """(k, targets): A times the displacement of an atom."""
        terms, targets = np.divmod(atom.indices, self.targets)
        displacement = np.zeros(self.x.shape)
        displacement[terms, targets] = atom.values
        return np.asarray(self.design @ displacement)

    def line_search(self, atom: Atom, gap: float) -> float:
        """The share of the way to an atom that lowers the objective most; 0 if none does."""
        displacement = -(self.flat - self.origin)
        displacement[atom.indices] += atom.values
        direction = self.design @ displacement.reshape(self.x.shape)
        curvature = float(np.sum(direction**2))
        if not (curvature > 0.0 and gap > 0.0):
            return 0.0
        return min(1.0, 0.5 * gap / curvature)


class Walk(Iterate):
    """An iterate that moves towards atoms and forgets them."""

    def __init__(self, objective: LeastSquares, origin: Floats) -> None:
        super().__init__(objective, origin)
        self._seen: set[bytes] = set()

    @property
    def count(self) -> int:
        return len(self._seen)

    def place(self, start: list[tuple[Atom, float]]) -> None:
        """Move to the point that the given atoms and weights make."""
        for atom, weight in start:
            self._seen.add(atom.key)
            self.flat[atom.indices] += weight * atom.values
        self.refresh()

    def jump(self, flat: Floats) -> None:
        """Move to a point."""
        self.flat[:] = flat
        self.refresh()

    def step(self, atom: Atom, share: float) -> None:
        """Move the given share of the way to an atom."""
        self._seen.add(atom.key)
        self.flat += share * (self.origin - self.flat)
        self.flat[atom.indices] += share * atom.values
        self.refresh()
