"""The exact minimiser over the hull of an origin and a few atoms, kept as atoms come and go."""

from collections.abc import Iterable

import numpy as np
from numpy.typing import NDArray

from cindy.least_squares import LeastSquares
from cindy.solver.active_set import Group, Iterate
from cindy.solver.factor import Factor
from cindy.solver.oracle import Atom, Oracle

__all__ = ["Corral"]

Floats = NDArray[np.float64]
Ints = NDArray[np.intp]


class _FactorGroup(Group):
    """A group with the QR factorisation of its atoms' products."""

    def __init__(self, targets: Ints, goal: Floats) -> None:
        super().__init__(targets)
        self.factor = Factor(goal)

    def delete(self, position: int) -> None:
        self.factor.delete(position)
        mask = np.ones(len(self.atoms), dtype=bool)
        mask[position] = False
        self.keep(mask)


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
        self._label = oracle.components(self.targets)
        self._groups = [
            _FactorGroup(members, -self.residual[:, members].ravel(order="F"))
            for members in (np.flatnonzero(self._label == k) for k in range(int(self._label.max()) + 1))
        ]
        self._multiplier = 0.0

    @property
    def count(self) -> int:
        return sum(len(group.atoms) for group in self._groups)

    def enter(self, atom: Atom) -> None:
        """Take in an atom and minimise over the larger hull, as far as rounding allows."""
        before = self.objective
        self._enter(atom)
        if self.objective >= before:
            self._refine()

    def _enter(self, atom: Atom) -> None:
        if not len(atom.indices):
            return
        number = int(self._label[atom.indices[0] % self.targets])
        group = self._groups[number]
        column = self.product(atom)[:, group.targets].ravel(order="F")
        coordinates = group.factor.append(column)
        if coordinates is None:
            group.append(atom)
        elif not self._exchange(group, atom, column, coordinates):
            return
        self._settle(number)

    def gather(self, atoms: list[Atom], accuracy: float) -> None:
        """Minimise over the hull of the given atoms, to a gap over it of `accuracy` or to rounding."""
        pool = Group(np.arange(self.targets))
        for atom in atoms:
            pool.append(atom)
        while atoms:
            slopes = pool.gather(self.gradient)
            best = int(np.argmin(slopes))
            before = self.objective
            if float(self.gradient @ (self.flat - self.origin)) - slopes[best] <= accuracy:
                return
            self.enter(atoms[best])
            if self.objective >= before:
                return

    def _refine(self) -> None:
        """Correct the point by what its own residual shows to be missing.

        Atoms may be far longer than the point they make up, and rounding of
        their weights then shows in it. The correction is small, so adding it to
        the point, not to the weights alone, brings the lost digits back.
        """
        shifts = [g.factor.project(self.residual[:, g.targets].ravel(order="F")) for g in self._groups]
        multiplier = 0.0
        if self._multiplier > 0.0:
            excess = sum(float(g.factor.ones @ s) for g, s in zip(self._groups, shifts, strict=True))
            excess += 1.0 - sum(float(g.weights.sum()) for g in self._groups)
            multiplier = excess / sum(g.factor.spread for g in self._groups)
        for group, shift in zip(self._groups, shifts, strict=True):
            change = group.factor.solve(multiplier * group.factor.ones - shift)
            change = np.maximum(change, -group.weights)
            group.write(self.flat, change)
            group.weights = group.weights + change
        self.refresh()

    def _exchange(self, group: _FactorGroup, atom: Atom, column: Floats, coordinates: Floats) -> bool:
        """Let an atom whose product depends on the others take the place of one of them.

        With Σ coordinates > 1 the swap keeps the product A x and frees radius,
        which is what makes progress possible; otherwise there is none to make.
        """
        falling = coordinates > 1e-9 * np.abs(coordinates).max(initial=0.0)
        if not falling.any() or coordinates.sum() <= 1.0 + 1e-12:
            return False
        steps = np.full(len(coordinates), np.inf)
        steps[falling] = group.weights[falling] / coordinates[falling]
        leaver = int(np.argmin(steps))
        step = float(steps[leaver])
        self._lift(group)
        group.weights = np.maximum(group.weights - step * coordinates, 0.0)
        group.delete(leaver)
        if group.factor.append(column) is None:
            group.append(atom)
            group.weights[-1] = step
        return True

    def _settle(self, number: int) -> None:
        """Walk to the minimiser over the half-space, shedding atoms on the way."""
        before = self._multiplier
        while True:
            goals, multiplier = self._goals(number, before)
            share, leaver = self._first_to_leave(goals)
            for k, goal in goals.items():
                group = self._groups[k]
                group.weights = np.maximum(group.weights + share * (goal - group.weights), 0.0)
            if leaver is None:
                self._multiplier = multiplier
                self._place(goals)
                return
            k, position = leaver
            self._lift(self._groups[k])
            self._groups[k].delete(position)
            if len(goals) > 1:
                # Stopped half-way: every group is off its minimiser now.
                before = np.nan

    def _goals(self, number: int, before: float) -> tuple[dict[int, Floats], float]:
        """Weights that minimise over the half-space, for the groups in which they have changed."""
        factors = [group.factor for group in self._groups]
        total = sum(factor.total for factor in factors)
        multiplier = 0.0
        if total > 1.0:
            multiplier = (total - 1.0) / sum(factor.spread for factor in factors)
        changed = [number] if multiplier == before == 0.0 else range(len(factors))
        return {
            k: factors[k].solve(factors[k].projected - multiplier * factors[k].ones) for k in changed
        }, multiplier

    def _first_to_leave(self, goals: dict[int, Floats]) -> tuple[float, tuple[int, int] | None]:
        """How far the walk goes before a weight is zero, and whose."""
        share, leaver = 1.0, None
        for k, goal in goals.items():
            falling = np.flatnonzero(goal < 0.0)
            if len(falling):
                weights = self._groups[k].weights[falling]
                shares = weights / (weights - goal[falling])
                first = int(np.argmin(shares))
                if shares[first] < share or leaver is None:
                    share, leaver = float(shares[first]), (k, int(falling[first]))
        return share, leaver

    def _lift(self, group: Group) -> None:
        self.flat[group.indices] = self.origin[group.indices]

    def _place(self, changed: Iterable[int]) -> None:
        """Write the weights of some groups into the point."""
        groups = [self._groups[k] for k in changed]
        excess = sum(float(group.weights.sum()) for group in self._groups) if self._multiplier > 0.0 else 0.0
        for group in groups:
            if excess > 1.0:
                group.weights = group.weights / excess
            self._lift(group)
            group.write(self.flat)
        self.refresh(np.concatenate([group.targets for group in groups]))
