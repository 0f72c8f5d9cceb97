"""The exact minimiser over the hull of an origin and a few atoms, kept as atoms come and go."""

import numpy as np

from cindy._types import Floats, Ints
from cindy.least_squares import LeastSquares
from cindy.solver.atom_groups import Group
from cindy.solver.atom_pool import Pool
from cindy.solver.growing_qr import GrowingQR
from cindy.solver.iterate import Iterate
from cindy.solver.oracle import Atom, Oracle
from cindy.solver.trace import Nonzeros, Snapshot, way_back

__all__ = ["Corral"]


WORTHWHILE = 0.1
"""Atoms found earlier come before the oracle while one promises this part of what its last atom did."""


class _FactorGroup(Group):
    """A group with the QR factorisation of its atoms' products.

    stale, stale_tilt: whether the images of the factor's `rest` and `tilt` are out of date
    record: its part of the last snapshot, shared by all snapshots until its weights change
    """

    def __init__(self, targets: Ints, goal: Floats) -> None:
        super().__init__(targets)
        self.factor = GrowingQR(goal[:, targets].ravel(order="F"))
        # A slice where it will do: indexing by it is a view.
        whole = slice(int(targets[0]), int(targets[-1]) + 1)
        self.columns: slice | Ints = whole if len(targets) == whole.stop - whole.start else targets
        self.stale = self.stale_tilt = True
        self.record: Nonzeros | None = None

    def by_target(self, stacked: Floats) -> Floats:
        """(k, targets of the group), from one target after another."""
        return stacked.reshape(-1, len(self.targets), order="F")

    def delete(self, position: int) -> None:
        self.stale = self.stale_tilt = True
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
    that no atom connects; only the price ν of Σ λ ≤ 1 couples those.

    The gradient is taken from the factors, −2 Aᵀ(rest + ν tilt): of the images
    only those of a changed group are computed again.

    Where calls of the oracle are costly, atoms are remembered when they leave.
    Seen from its corners a thin region is all detail, and without that thousands
    of calls find the same few hundred atoms again.
    """

    def __init__(self, objective: LeastSquares, oracle: Oracle) -> None:
        self._groups: list[_FactorGroup] = []
        self._price = 0.0
        super().__init__(objective, oracle.origin)
        self._label = oracle.components(self.targets)
        goal = -self.residual()
        self._groups = [
            _FactorGroup(members, goal)
            for members in (np.flatnonzero(self._label == k) for k in range(int(self._label.max()) + 1))
        ]
        self._place_in_group = {
            int(target): place for group in self._groups for place, target in enumerate(group.targets)
        }
        self._images = np.zeros((2, *self.x.shape))
        self._pool = Pool(max(objective.factor.size // 4, 20_000)) if oracle.costly else None

    @property
    def count(self) -> int:
        return sum([len(group.atoms) for group in self._groups])

    def snapshot(self) -> Snapshot:
        if self._price > 0.0:
            return way_back(
                self.origin, [self.nonzeros(np.concatenate([group.indices for group in self._groups]))]
            )
        # At no price a step changes one group; of the others the snapshots share what they hold.
        for group in self._groups:
            if group.record is None:
                group.record = self.nonzeros(group.indices)
        return way_back(self.origin, [group.record for group in self._groups if group.record])

    def enter(self, atom: Atom) -> None:
        """Take in an atom and minimise over the larger hull, as far as rounding allows."""
        if self._pool is None:
            self._take(atom)
            return
        promise = self.gap(atom)
        self._take(atom)
        self._draw(self._pool, WORTHWHILE * promise)
        # The hull can be so thin that the factors give the loss to ten digits only.
        if len(self._pool) and not self.honest:
            self.refresh()

    def gather(self, atoms: list[Atom], accuracy: float) -> None:
        """Minimise over the hull of the given atoms, to a gap over it of `accuracy` or to rounding."""
        pool = Pool() if self._pool is None else self._pool
        for atom in atoms:
            pool.add(atom)
        self._draw(pool, accuracy)

    def _draw(self, pool: Pool, accuracy: float) -> None:
        """Take in atoms of a pool until the gap over it is `accuracy` or rounding prevails."""
        atom, slope = pool.best(self.gradient)
        while atom is not None and self.slope() - slope > accuracy:
            before = self.objective
            self._take(atom)
            if self.objective >= before:
                return
            atom, slope = pool.best(self.gradient)

    def _take(self, atom: Atom) -> None:
        before = self.objective
        if len(atom.indices):
            self._enter(atom)
        if self.objective >= before:
            self.refresh()

    def _enter(self, atom: Atom) -> None:
        number = int(self._label[atom.indices[0] % self.targets])
        group = self._groups[number]
        column, begin, end = self._column(atom, group)
        coordinates = group.factor.append(column, begin, end)
        if coordinates is None:
            group.append(atom)
            self._extend_images(group)
        elif not self._exchange(group, atom, column, coordinates):
            return
        self._settle(number)

    def _column(self, atom: Atom, group: Group) -> tuple[Floats, int, int]:
        """The product of an atom, target after target of its group, and where in it the nonzeros are."""
        rows = len(self.design)
        if len(group.targets) == len(atom.indices) == 1:
            return atom.values[0] * self.design[:, atom.indices[0] // self.targets], 0, rows
        if len(atom.indices) > len(group.targets):
            product = self.product(atom)[:, group.targets].ravel(order="F")
            return product, 0, len(product)
        column = np.zeros(rows * len(group.targets))
        first, last = len(group.targets), 0
        for index, value in zip(atom.indices.tolist(), atom.values.tolist(), strict=True):
            place = self._place_in_group[index % self.targets]
            column[place * rows : (place + 1) * rows] += value * self.design[:, index // self.targets]
            first, last = min(first, place), max(last, place)
        return column, first * rows, (last + 1) * rows

    def _extend_images(self, group: _FactorGroup) -> None:
        """Bring the images up to date with the newest column, unless they were out of date before."""
        if group.stale:
            return
        image = self.design.T @ group.by_target(group.factor.newest)
        self._images[0][:, group.columns] -= group.factor.share * image
        if self._price > 0.0 and not group.stale_tilt:
            self._images[1][:, group.columns] += group.factor.one * image
        else:
            group.stale_tilt = True

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
        group.weights = np.maximum(group.weights - step * coordinates, 0.0)
        self._dismiss(group, leaver)
        if group.factor.append(column) is None:
            group.append(atom)
            group.weights[-1] = step
        return True

    def _settle(self, number: int) -> None:
        """Walk to the minimiser over the half-space, shedding atoms on the way."""
        before = self._price
        while True:
            price = self._fair_price()
            # At no price the groups are independent, and only this one has changed.
            changed = [self._groups[number]] if price == before == 0.0 else self._groups
            goal = np.concatenate([group.factor.minimiser(price) for group in changed])
            if goal.min(initial=0.0) >= 0.0:
                total = float(goal.sum()) if price > 0.0 else 0.0
                self._price = price
                self._place(changed, goal / total if total > 1.0 else goal)
                return
            weights = np.concatenate([group.weights for group in changed])
            share, leaver = _first_to_leave(weights, goal)
            _hand_out(changed, np.maximum(weights + share * (goal - weights), 0.0))
            if len(changed) > 1:
                # Stopped half-way: every group is off its minimiser now.
                before = np.nan
            for group in changed:
                if leaver < len(group.atoms):
                    self._dismiss(group, leaver)
                    break
                leaver -= len(group.atoms)

    def _fair_price(self) -> float:
        """The ν at which Σ λ ≤ 1 holds."""
        excess = sum([group.factor.total for group in self._groups]) - 1.0
        return excess / sum([group.factor.spread for group in self._groups]) if excess > 0.0 else 0.0

    def _place(self, changed: list[_FactorGroup], weights: Floats) -> None:
        """Write weights into the point, and bring gradient and objective up to date."""
        _hand_out(changed, weights)
        indices = np.concatenate([group.indices for group in changed])
        nonzeros = np.concatenate([group.weights[group.owner] * group.values for group in changed])
        self.flat[indices] = self.origin[indices]
        np.add.at(self.flat, indices, nonzeros)
        for group in changed:
            if group.stale:
                self._images[0][:, group.columns] = self.design.T @ group.by_target(group.factor.rest)
                group.stale = False
            if group.stale_tilt and self._price > 0.0:
                self._images[1][:, group.columns] = self.design.T @ group.by_target(group.factor.tilt)
                group.stale_tilt = False
        gradient = self.gradient.reshape(self.x.shape)
        if self._price > 0.0:
            np.multiply(self._images[1], self._price, out=gradient)
            gradient += self._images[0]
            gradient *= -2.0
        else:
            for group in changed:
                np.multiply(self._images[0][:, group.columns], -2.0, out=gradient[:, group.columns])
        self.objective = self.beyond + sum([group.factor.rest_squared for group in self._groups])
        if self._price > 0.0:
            self.objective += self._price**2 * sum([group.factor.spread for group in self._groups])
        self.honest = False

    def refresh(self) -> None:
        """Correct the point by what its own residual shows to be missing, and start afresh from it.

        Atoms may be far longer than the point they make up, and rounding of
        their weights then shows in it. The correction is small, so adding it to
        the point, not to the weights alone, brings the lost digits back.
        """
        residual = self.residual()
        parts = [g.factor.along(residual[:, g.targets].ravel(order="F")) for g in self._groups]
        price = 0.0
        if self._price > 0.0:
            excess = 1.0 - sum(float(group.weights.sum()) for group in self._groups)
            excess += sum(g.factor.overlap(part) for g, part in zip(self._groups, parts, strict=True))
            price = excess / sum(group.factor.spread for group in self._groups)
        for group, part in zip(self._groups, parts, strict=True):
            change = np.maximum(group.factor.correction(part, price), -group.weights)
            group.write(self.flat, change)
            group.weights = group.weights + change
            group.record = None
        super().refresh()

    def _dismiss(self, group: _FactorGroup, position: int) -> None:
        """Let an atom go; the point gets its share of the group back when the weights are placed."""
        if self._pool is not None:
            self._pool.add(group.atoms[position])
        self.flat[group.indices] = self.origin[group.indices]
        group.delete(position)


def _first_to_leave(weights: Floats, goal: Floats) -> tuple[float, int]:
    """How far the walk from weights to a partly negative goal goes before one is zero, and which."""
    falling = np.flatnonzero(goal < 0.0)
    shares = weights[falling] / (weights[falling] - goal[falling])
    first = int(np.argmin(shares))
    return float(shares[first]), int(falling[first])


def _hand_out(groups: list[_FactorGroup], weights: Floats) -> None:
    end = 0
    for group in groups:
        begin, end = end, end + len(group.atoms)
        group.weights = weights[begin:end]
        group.record = None
