"""Atoms and their weights: the one mutable object of a run."""

import numpy as np
from numpy.typing import NDArray

from cindy.least_squares import LeastSquares
from cindy.solver.oracle import Atom, Oracle

__all__ = ["ActiveSet", "Iterate"]

Floats = NDArray[np.float64]
Ints = NDArray[np.intp]


class Iterate:
    """A point x with its residual, gradient and objective, kept in step.

    x: (terms, targets); flat: the same memory, (size,)
    residual: (k, targets), A x − B
    gradient: (size,)
    """

    def __init__(self, objective: LeastSquares, origin: Floats) -> None:
        self._least_squares = objective
        self._design = objective.design
        self._target = objective.target
        self.targets = objective.targets
        self.origin = origin
        self.flat = origin.copy()
        self.x = self.flat.reshape(objective.terms, objective.targets)
        self.residual = np.empty_like(self._target)
        self.gradient = np.empty_like(self.flat)
        self._losses = np.empty(self.targets)
        self.refresh()
        self._origin_residual = self.residual.copy()

    @property
    def count(self) -> int:
        """How many atoms carry weight."""
        raise NotImplementedError

    @property
    def objective(self) -> float:
        return float(self._losses.sum())

    def refresh(self, only: Ints | None = None) -> None:
        """Recompute residual, gradient and loss from x, for some targets only where that is enough."""
        gradient = self.gradient.reshape(self.x.shape)
        if only is None:
            self.residual = self._design @ self.x - self._target
            gradient[:] = 2.0 * (self._design.T @ self.residual)
            self._losses = np.einsum("ij,ij->j", self.residual, self.residual)
            return
        for j in only:
            residual = self._design @ self.x[:, j] - self._target[:, j]
            self.residual[:, j] = residual
            gradient[:, j] = 2.0 * (self._design.T @ residual)
            self._losses[j] = residual @ residual

    def gap(self, atom: Atom) -> float:
        """The Frank-Wolfe gap, given the atom that the oracle found at this gradient."""
        return float(self.gradient @ (self.flat - self.origin)) - atom.slope(self.gradient)

    def product(self, atom: Atom) -> Floats:
        """(k, targets): A times the displacement of an atom."""
        terms, targets = np.divmod(atom.indices, self.targets)
        product = np.zeros_like(self._target)
        if len(terms) <= self.targets:
            for i, j, value in zip(terms, targets, atom.values, strict=True):
                product[:, j] += value * self._design[:, i]
            return product
        displacement = np.zeros(self.x.shape)
        displacement[terms, targets] = atom.values
        return np.asarray(self._design @ displacement)


class ActiveSet(Iterate):
    """x = origin + Σ weights_i displacement_i with weights ≥ 0 and Σ weights ≤ 1.

    Atoms are kept as sparse displacements; products with the design are never
    stored, only the inner products of each atom's product with the others'.

    gram: (atoms, atoms)
    """

    def __init__(self, objective: LeastSquares, oracle: Oracle) -> None:
        super().__init__(objective, oracle.origin)
        self.oracle = oracle
        self.atoms: list[Atom] = []
        self.weights = np.zeros(0)
        self.gram = np.zeros((0, 0))
        self._known: dict[bytes, int] = {}
        self._labels = oracle.components(self.targets)
        self._block = np.zeros(0, dtype=np.intp)
        self._spectra: dict[int, tuple[float, float]] = {}
        self._lay_out()

    @property
    def count(self) -> int:
        """How many atoms carry weight."""
        return len(self.atoms)

    @property
    def scales(self) -> Floats:
        """(atoms,): lengths of the products, the natural units of the weights."""
        lengths: Floats = np.sqrt(np.diag(self.gram))
        return lengths

    def slopes(self) -> Floats:
        """(atoms,): derivative of the objective by each weight."""
        return self._gather(self.gradient)

    def step(self, atom: Atom, gap: float) -> bool:
        """Move towards an atom by exact line search; False if that leads nowhere."""
        direction = self.product(atom) - (self.residual - self._origin_residual)
        curvature = float(np.sum(direction**2))
        if not (curvature > 0.0 and gap > 0.0):
            return False
        share = min(1.0, 0.5 * gap / curvature)
        position = self._find(atom)
        weights = self.weights * (1.0 - share)
        weights[position] += share
        self.assign(weights)
        return True

    def place(self, start: list[tuple[Atom, float]]) -> None:
        """Move to the point that the given atoms and weights make."""
        weights = np.zeros(len(start))
        for atom, weight in start:
            weights[self._find(atom)] += weight
        self.assign(weights)

    def assign(self, weights: Floats) -> None:
        """Give the atoms new weights; those with none leave."""
        keep = weights > 0.0
        if keep.all():
            self.weights = weights
        else:
            self._drop(keep, weights)
        self.flat[:] = self.origin
        np.add.at(self.flat, self._indices, self._values * self.weights[self._owner])
        self.refresh()

    def assign_if_better(self, weights: Floats) -> None:
        """Give the atoms new weights unless rounding makes the objective rise by it."""
        before, old, atoms = self.objective, self.weights, self.atoms
        gram, block = self.gram, self._block
        self.assign(weights)
        if self.objective > before:
            self.atoms, self.gram, self._block = atoms, gram, block
            self._spectra.clear()
            self._lay_out()
            self._index()
            self.assign(old)

    def curvature(self) -> tuple[float, float]:
        """Largest and smallest eigenvalue of the gram matrix in units of `scales`."""
        scales = self.scales
        for label in np.unique(self._block):
            if label not in self._spectra:
                members = np.flatnonzero(self._block == label)
                part = self.gram[np.ix_(members, members)] / np.outer(scales[members], scales[members])
                values = np.linalg.eigvalsh(part)
                self._spectra[int(label)] = (float(values[-1]), float(max(values[0], 0.0)))
        pairs = [self._spectra[int(label)] for label in np.unique(self._block)]
        return max(p[0] for p in pairs), min(p[1] for p in pairs)

    def _gather(self, flat: Floats) -> Floats:
        sums = np.bincount(self._owner, self._values * flat[self._indices], minlength=len(self.atoms))
        return np.asarray(sums, dtype=np.float64)

    def _find(self, atom: Atom) -> int:
        key = atom.indices.tobytes() + atom.values.tobytes()
        position = self._known.get(key)
        if position is not None:
            return position
        product = self.product(atom)
        self.atoms.append(atom)
        self._known[key] = len(self.atoms) - 1
        self.weights = np.append(self.weights, 0.0)
        self._lay_out()
        row = self._gather((self._design.T @ product).ravel())
        n = len(row)
        gram = np.empty((n, n))
        gram[: n - 1, : n - 1] = self.gram
        gram[n - 1] = gram[:, n - 1] = row
        self.gram = gram
        label = int(self._labels[atom.indices[0] % self.targets])
        self._block = np.append(self._block, label)
        self._spectra.pop(label, None)
        return n - 1

    def _drop(self, keep: NDArray[np.bool_], weights: Floats) -> None:
        for label in np.unique(self._block[~keep]):
            self._spectra.pop(int(label), None)
        self.atoms = [atom for atom, kept in zip(self.atoms, keep, strict=True) if kept]
        self._index()
        self.weights = weights[keep]
        self._block = self._block[keep]
        self.gram = self.gram[np.ix_(keep, keep)]
        self._lay_out()

    def _index(self) -> None:
        self._known = {a.indices.tobytes() + a.values.tobytes(): k for k, a in enumerate(self.atoms)}

    def _lay_out(self) -> None:
        """Index, value and owner of every nonzero of the atoms, end to end."""
        lengths = [len(atom.indices) for atom in self.atoms]
        self._owner = np.repeat(np.arange(len(lengths)), lengths)
        empty = np.zeros(0)
        self._indices = np.concatenate([a.indices for a in self.atoms] or [empty.astype(np.intp)])
        self._values = np.concatenate([a.values for a in self.atoms] or [empty])
