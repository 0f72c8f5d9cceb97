"""The exact minimiser over the hull of an origin and a few atoms, kept as atoms come and go."""

import numpy as np
from numpy.typing import NDArray

from cindy.least_squares import LeastSquares
from cindy.solver.active_set import Iterate
from cindy.solver.factor import Factor
from cindy.solver.oracle import Atom, Oracle

__all__ = ["Corral"]

Floats = NDArray[np.float64]
Ints = NDArray[np.intp]


class _Block:
    """The atoms that touch one set of targets, with their weights and their QR factorisation."""

    def __init__(self, targets: Ints, goal: Floats) -> None:
        self.targets = targets
        self.factor = Factor(goal)
        self.atoms: list[Atom] = []
        self.weights = np.zeros(0)
        self.indices = np.zeros(0, dtype=np.intp)
        self._values = np.zeros(0)
        self._owner = np.zeros(0, dtype=np.intp)

    def append(self, atom: Atom) -> None:
        self.atoms.append(atom)
        self.weights = np.append(self.weights, 0.0)
        self.indices = np.concatenate([self.indices, atom.indices])
        self._values = np.concatenate([self._values, atom.values])
        self._owner = np.concatenate([self._owner, np.full(len(atom.indices), len(self.atoms) - 1)])

    def delete(self, position: int) -> None:
        self.factor.delete(position)
        del self.atoms[position]
        self.weights = np.delete(self.weights, position)
        keep = self._owner != position
        self.indices, self._values, self._owner = self.indices[keep], self._values[keep], self._owner[keep]
        self._owner = self._owner - (self._owner > position)

    def write(self, flat: Floats) -> None:
        """Add the weighted displacements to a flat point."""
        np.add.at(flat, self.indices, self._values * self.weights[self._owner])


class Corral(Iterate):
    """min ‖A x − B‖² over x = origin + Σ λ_i displacement_i, λ ≥ 0, Σ λ ≤ 1, at every moment.

    An active-set method in the manner of Lawson and Hanson, and of Wolfe's
    minimum-norm point: an atom enters, the minimiser over the half-space
    Σ λ ≤ 1 is computed without regard to signs, and the walk towards it sheds
    every atom whose weight would turn negative. The products of the atoms stay
    linearly independent. They are factorised separately for sets of targets
    that no atom connects; only the multiplier of Σ λ ≤ 1 couples those.
    """

    def __init__(self, objective: LeastSquares, oracle: Oracle) -> None:
        super().__init__(objective, oracle.origin)
        labels = oracle.components(self.targets)
        self._block_of = labels
        self._blocks = [
            _Block(members, -self.residual[:, members].ravel(order="F"))
            for members in (np.flatnonzero(labels == k) for k in range(int(labels.max()) + 1))
        ]
        self._multiplier = 0.0

    @property
    def count(self) -> int:
        """How many atoms carry weight."""
        return sum(len(block.atoms) for block in self._blocks)

    def weights(self) -> list[tuple[int, float]]:
        """The identity of every atom, with its weight."""
        return [
            (id(atom), float(weight))
            for block in self._blocks
            for atom, weight in zip(block.atoms, block.weights, strict=True)
        ]

    def enter(self, atom: Atom) -> bool:
        """Take in an atom and minimise over the larger hull; False if that changes nothing."""
        if not len(atom.indices):
            return False
        number = int(self._block_of[atom.indices[0] % self.targets])
        block = self._blocks[number]
        column = self.product(atom)[:, block.targets].ravel(order="F")
        self._lift(block)
        coordinates = block.factor.append(column)
        if coordinates is None:
            block.append(atom)
        elif not self._exchange(block, atom, column, coordinates):
            block.write(self.flat)
            return False
        block.write(self.flat)
        return self._settle(number)

    def _lift(self, block: _Block) -> None:
        self.flat[block.indices] = self.origin[block.indices]

    def _exchange(self, block: _Block, atom: Atom, column: Floats, coordinates: Floats) -> bool:
        """Let an atom whose product depends on the others take the place of one of them.

        With Σ coordinates > 1 the swap keeps the product A x and frees radius,
        which is what makes progress possible; otherwise there is none to make.
        """
        falling = coordinates > 0
        if not falling.any() or coordinates.sum() <= 1.0 + 1e-12:
            return False
        steps = np.full(len(coordinates), np.inf)
        steps[falling] = block.weights[falling] / coordinates[falling]
        leaver = int(np.argmin(steps))
        step = float(steps[leaver])
        block.weights = np.maximum(block.weights - step * coordinates, 0.0)
        block.delete(leaver)
        if block.factor.append(column) is not None:
            return False
        block.append(atom)
        block.weights[-1] = step
        return True

    def _settle(self, number: int) -> bool:
        """Walk to the minimiser over the half-space, shedding atoms on the way."""
        before = self._multiplier
        for _ in range(10 * (self.count + 1)):
            goals, multiplier = self._goals(number, before)
            share, leaver = self._first_to_leave(goals)
            for k, goal in goals.items():
                block = self._blocks[k]
                block.weights = block.weights + share * (goal - block.weights)
            if leaver is None:
                self._multiplier = multiplier
                self._place(goals.keys() if multiplier == before == 0.0 else range(len(self._blocks)))
                return True
            # From here on every block may be off its minimiser.
            k, position = leaver
            self._lift(self._blocks[k])
            self._blocks[k].delete(position)
            if len(goals) > 1 or k != number:
                before = np.nan
        return False

    def _goals(self, number: int, before: float) -> tuple[dict[int, Floats], float]:
        """Weights that minimise over the half-space, for the blocks in which they have changed."""
        factors = [block.factor for block in self._blocks]
        total = sum(float(f.ones @ f.projected) for f in factors)
        multiplier = 0.0
        if total > 1.0:
            multiplier = (total - 1.0) / sum(float(f.ones @ f.ones) for f in factors)
        changed = [number] if multiplier == before == 0.0 else range(len(factors))
        return {
            k: factors[k].solve(factors[k].projected - multiplier * factors[k].ones) for k in changed
        }, multiplier

    def _first_to_leave(self, goals: dict[int, Floats]) -> tuple[float, tuple[int, int] | None]:
        """How far the walk goes before a weight is zero, and whose."""
        share, leaver = 1.0, None
        for k, goal in goals.items():
            weights = self._blocks[k].weights
            falling = np.flatnonzero(goal < 0.0)
            if len(falling):
                shares = weights[falling] / (weights[falling] - goal[falling])
                first = int(np.argmin(shares))
                if shares[first] < share or leaver is None:
                    share, leaver = float(shares[first]), (k, int(falling[first]))
        return share, leaver

    def _place(self, changed: object) -> None:
        numbers = list(changed)  # type: ignore[call-overload]
        for k in numbers:
            block = self._blocks[k]
            self._lift(block)
            block.write(self.flat)
        if len(numbers) == len(self._blocks):
            self.refresh()
        else:
            self.refresh(np.concatenate([self._blocks[k].targets for k in numbers]))
