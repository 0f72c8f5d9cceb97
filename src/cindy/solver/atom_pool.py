"""Atoms found earlier, from which the best for a new gradient is drawn without asking the oracle."""

import numpy as np

from cindy._types import Floats
from cindy.solver.atom_groups import Group
from cindy.solver.oracle import Atom

__all__ = ["Pool"]


class Pool:
    """Atoms, each once; with more nonzeros than `room` together the oldest are forgotten.

    A linear program costs far more than a look through what it found before,
    and an atom that has left is often wanted again.
    """

    def __init__(self, room: float = np.inf) -> None:
        self._room = room
        self._keys: set[bytes] = set()
        self._group = Group(np.zeros(0, dtype=np.intp))

    def __len__(self) -> int:
        return len(self._group.atoms)

    def add(self, atom: Atom) -> None:
        """Remember an atom."""
        if atom.key in self._keys:
            return
        self._keys.add(atom.key)
        self._group.append(atom)
        if len(self._group.indices) > self._room:
            self._forget()

    def best(self, gradient: Floats) -> tuple[Atom | None, float]:
        """The atom with the least inner product with a flat gradient, and that product; (None, 0) if none."""
        if not len(self):
            return None, 0.0
        slopes = self._group.gather(gradient)
        least = int(np.argmin(slopes))
        return self._group.atoms[least], float(slopes[least])

    def _forget(self) -> None:
        keep = np.arange(len(self._group.atoms)) >= len(self._group.atoms) // 4
        self._group.keep(keep)
        self._keys = {atom.key for atom in self._group.atoms}
