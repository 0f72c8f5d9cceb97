"""Atoms in groups that no constraint connects, and the iterate that is a mixture of them."""

import numpy as np
from numpy.typing import NDArray

from cindy._types import Floats, Ints
from cindy.least_squares import LeastSquares
from cindy.solver.iterate import Iterate
from cindy.solver.oracle import Atom, Oracle

__all__ = ["ActiveSet", "Group"]

NOTHING = np.zeros(1)


class Group:
    """The atoms that touch one set of targets, with their weights.

    weights: (atoms,)
    indices, values, owner: of every nonzero of the atoms, end to end; `owner` is the atom's number
    """

    def __init__(self, targets: Ints) -> None:
        self.targets = targets
        self.atoms: list[Atom] = []
        self.weights = np.zeros(0)
        self.indices = np.zeros(0, dtype=np.intp)
        self.values = np.zeros(0)
        self.owner = np.zeros(0, dtype=np.intp)

    def append(self, atom: Atom) -> None:
        """Take in an atom with no weight."""
        self.weights = np.concatenate((self.weights, NOTHING))
        self.indices = np.concatenate((self.indices, atom.indices))
        self.values = np.concatenate((self.values, atom.values))
        self.owner = np.concatenate((self.owner, np.full(len(atom.indices), len(self.atoms))))
        self.atoms.append(atom)

    def keep(self, mask: NDArray[np.bool_]) -> None:
        """Let the atoms outside the mask go."""
        nonzeros = mask[self.owner]
        renumbered = np.cumsum(mask) - 1
        self.indices, self.values = self.indices[nonzeros], self.values[nonzeros]
        self.owner = renumbered[self.owner[nonzeros]]
        self.weights = self.weights[mask]
        self.atoms = [atom for atom, kept in zip(self.atoms, mask, strict=True) if kept]

    def write(self, flat: Floats, weights: Floats | None = None) -> None:
        """Add the displacements to a flat point, weighted by their weights or by others."""
        chosen = self.weights if weights is None else weights
        np.add.at(flat, self.indices, self.values * chosen[self.owner])

    def gather(self, flat: Floats) -> Floats:
        """(atoms,): inner products of the displacements with a flat vector."""
        sums = np.bincount(self.owner, self.values * flat[self.indices], minlength=len(self.atoms))
        return np.asarray(sums, dtype=np.float64)


class _GramGroup(Group):
    """A group with the inner products of its atoms' products, and bounds on their spectrum.

    gram: (atoms, atoms)
    largest, smallest: bounds on the eigenvalues of the gram matrix with unit diagonal;
        `smallest` may be too large by what a few recent atoms changed
    """

    def __init__(self, targets: Ints) -> None:
        super().__init__(targets)
        self.gram = np.zeros((0, 0))
        self.largest = 0.0
        self.smallest = 0.0
        self._stale = 0

    def extend(self, atom: Atom, image: Floats) -> None:
        """Take in an atom; `image` is AᵀA times its displacement, (size,)."""
        self.append(atom)
        row = self.gather(image)
        n = len(row)
        gram = np.empty((n, n))
        gram[: n - 1, : n - 1] = self.gram
        gram[n - 1] = gram[:, n - 1] = row
        self.gram = gram
        self._stale += 1
        if self._stale > n // 20:
            lengths = np.sqrt(np.diag(gram))
            values = np.linalg.eigvalsh(gram / np.outer(lengths, lengths))
            self.largest, self.smallest, self._stale = float(values[-1]), float(max(values[0], 0.0)), 0
        else:
            border = row[:-1] / np.sqrt(np.diag(gram)[:-1] * row[-1])
            self.largest = max(self.largest, 1.0) + float(np.linalg.norm(border))

    def keep(self, mask: NDArray[np.bool_]) -> None:
        # The spectrum of a principal submatrix lies within that of the whole.
        super().keep(mask)
        self.gram = self.gram[np.ix_(mask, mask)]


class ActiveSet(Iterate):
    """x = origin + Σ weights_i displacement_i with weights ≥ 0 and Σ weights ≤ 1.

    Products of the atoms with the design are never stored, only their inner
    products, and those separately for sets of targets that no atom connects.
    Arrays over all atoms run group by group.
    """

    def __init__(self, objective: LeastSquares, oracle: Oracle) -> None:
        super().__init__(objective, oracle.origin)
        self._label = oracle.components(self.targets)
        self.groups = [
            _GramGroup(np.flatnonzero(self._label == k)) for k in range(int(self._label.max()) + 1)
        ]
        self._known: dict[bytes, _GramGroup] = {}

    @property
    def count(self) -> int:
        return len(self._known)

    @property
    def weights(self) -> Floats:
        """(atoms,)"""
        return np.concatenate([group.weights for group in self.groups])

    @property
    def atoms(self) -> list[Atom]:
        return [atom for group in self.groups for atom in group.atoms]

    def parts(self) -> list[tuple[Atom, float]]:
        return list(zip(self.atoms, self.weights.tolist(), strict=True))

    def slopes(self) -> Floats:
        """(atoms,): derivative of the objective by each weight."""
        return np.concatenate([group.gather(self.gradient) for group in self.groups])

    def place(self, start: list[tuple[Atom, float]]) -> None:
        """Move to the point that the given atoms and weights make."""
        for atom, weight in start:
            group, position = self._find(atom)
            group.weights[position] += weight
        self.propose(self.weights, whatever=True)

    def step(self, atom: Atom, share: float) -> None:
        """Move the given share of the way to an atom."""
        for group in self.groups:
            group.weights = (1.0 - share) * group.weights
        if len(atom.indices):
            group, position = self._find(atom)
            group.weights[position] += share
        self.propose(self.weights, whatever=True)

    def propose(self, weights: Floats, *, whatever: bool = False) -> None:
        """Give the atoms new weights unless the objective would rise; those with none leave."""
        before = self.objective
        old = [group.weights for group in self.groups]
        ends = np.cumsum([len(w) for w in old])
        for group, new in zip(self.groups, np.split(weights, ends[:-1]), strict=True):
            group.weights = new
        self._write()
        if self.objective > before and not whatever:
            for group, w in zip(self.groups, old, strict=True):
                group.weights = w
            self._write()
        for group in self.groups:
            keep = group.weights > 0.0
            if not keep.all():
                for i in np.flatnonzero(~keep):
                    del self._known[group.atoms[i].key]
                group.keep(keep)

    def _write(self) -> None:
        self.flat[:] = self.origin
        for group in self.groups:
            group.write(self.flat)
        self.refresh()

    def _find(self, atom: Atom) -> tuple[_GramGroup, int]:
        known = self._known.get(atom.key)
        if known is not None:
            return known, next(i for i, a in enumerate(known.atoms) if a.key == atom.key)
        label = int(self._label[atom.indices[0] % self.targets])
        group = self.groups[label]
        group.extend(atom, (self.design.T @ self.product(atom)).ravel())
        self._known[atom.key] = group
        return group, len(group.atoms) - 1
