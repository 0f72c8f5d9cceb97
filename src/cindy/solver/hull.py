"""The exact minimiser over the hull of an origin and a few atoms, updated as atoms come and go.

It solves min ‖A x − B‖² over x = origin + Σ λ_i d_i, λ ≥ 0, Σ λ ≤ 1, where d_i are the displacements of the
atoms, by an active-set method (Lawson and Hanson, Solving least squares problems, 1974, chapter 23; Wolfe,
Finding the nearest point in a polytope, 1976):

1. An atom enters: its product A d is taken into a QR factorisation of the products in use (`_GrowingQR`). If
   the product depends on the others, the atom takes the place of one of them (`_exchange`).
2. Compute the minimiser on the half-space Σ λ ≤ 1, whatever the signs of λ.
3. If a weight is negative there, walk towards it until the first weight is zero, remove that atom, repeat 2.
4. Otherwise the minimiser is the new point. Its gradient comes from the factors.

A step with k atoms and m rows costs O(m k), beside the gradient.
"""

import numpy as np
from scipy.linalg import qr_delete
from scipy.linalg.lapack import dtrtrs

from cindy._arrays import Floats, Ints
from cindy.least_squares import LeastSquares
from cindy.solver.iterate import Group, Iterate
from cindy.solver.region import Atom, Oracle
from cindy.solver.result import Nonzeros, Snapshot, way_back

DEPENDENT = 1e-12
"""A column whose distance from the span of the others is below this part of its length counts as dependent:
the distance is rounding."""
STEEP = 1e3
"""Where weights are larger than this, the difference of two vectors of them loses three digits or more."""


class _GrowingQR:
    """The columns D = Q R in use, and the least-squares solution with a price on the sum of the weights.

    The minimiser of ‖D λ − b‖² + 2 ν Σ λ is

        λ = R⁻¹ (Qᵀ b − ν R⁻ᵀ 1) = free − ν lean,    D λ − b = −(rest + ν tilt).

    The price ν is the multiplier of Σ λ ≤ 1. All of it is updated as columns come and go. QR, not DᵀD: near
    the end of a run the residual is far smaller than b.

    size: number of columns
    free: (size,), the minimiser at the price 0
    rest, tilt: (rows,), b less its projection on the columns, and Q R⁻ᵀ 1; both: (2, rows), the two
    rest_squared, spread: ‖D λ − b‖² is `rest_squared` + ν² `spread`
    total: Σ λ at the price 0, which a unit of ν lowers by `spread`
    """

    def __init__(self, target: Floats) -> None:
        self._target = target
        self._q: Floats = np.empty((len(target), 4), order="F")
        self._r: Floats = np.zeros((4, 4), order="F")
        self._sides: Floats = np.zeros((4, 2), order="F")  # Qᵀ b, R⁻ᵀ 1
        self.size = 0
        self.free = np.zeros(0)
        self._lean: Floats | None = None
        self.rest_squared = float(target @ target)
        self.both = np.array([target, np.zeros(len(target))])
        self.rest, self.tilt = self.both
        self.total = self.spread = 0.0

    def append(self, column: Floats) -> Floats | None:
        """Take in a column. If it depends on the others, leave it out and return its coordinates in them."""
        k = self.size
        q = self._q[:, :k]
        # Gram-Schmidt: the coordinates of the column in the span of Q, and the rest.
        along = column @ q
        rest = column - q @ along
        length, left = float(column @ column), float(rest @ rest)
        if left < 0.5 * length:
            # Two passes are enough: the second one removes what rounding left in the first.
            correction = rest @ q
            rest -= q @ correction
            along += correction
            left = float(rest @ rest)
        height = float(np.sqrt(left))
        if height <= DEPENDENT * np.sqrt(length):
            return self._solve(along)
        self._reserve(k + 1)
        rest /= height
        self._q[:, k] = rest
        self._r[:k, k] = along
        self._r[k, k] = height
        from_rest = float(rest @ self.rest)
        to_tilt = (1.0 - float(along @ self._sides[:k, 1])) / height
        self._sides[k] = from_rest, to_tilt
        self.rest -= from_rest * rest
        self.tilt += to_tilt * rest
        self.size = k + 1
        self.total += from_rest * to_tilt
        self.spread += to_tilt**2
        self._solve_sides()
        return None

    def delete(self, position: int) -> None:
        """Remove the column at `position`; those behind it move up."""
        k = self.size - 1
        # Givens rotations restore the triangle in O(k rows); a new factorisation would take O(k² rows).
        whole, triangle = self._q[:, : k + 1], self._r[: k + 1, : k + 1]
        q, r = qr_delete(whole, triangle, position, which="col", overwrite_qr=True, check_finite=False)
        if not np.may_share_memory(q, whole):
            self._q[:, :k] = q[:, :k]
        if not np.may_share_memory(r, self._r):
            self._r[:k, :k] = r[:k]
        self.size = k
        # Columns of Q before `position` have not changed. The sums are computed anew, so that rounding does
        # not accumulate.
        self._sides[position:k, 0] = self._target @ self._q[:, position:k]
        self._sides[:k, 1] = self._solve(np.ones(k), transposed=True)
        self.rest[:] = self._target - self._q[:, :k] @ self._sides[:k, 0]
        self.tilt[:] = self._q[:, :k] @ self._sides[:k, 1]
        self.total = float(self._sides[:k, 0] @ self._sides[:k, 1])
        self.spread = float(self._sides[:k, 1] @ self._sides[:k, 1])
        self._solve_sides()

    def minimiser(self, price: float) -> Floats:
        """(size,): the minimiser λ at a price on its sum."""
        if price == 0.0:
            return self.free
        if self._lean is None:
            self._lean = self._solve(self._sides[: self.size, 1])
        # The weights are at most 1: where the two vectors are far larger, their difference loses digits.
        if not self.size or float(np.abs(self.free).max()) <= STEEP:
            return self.free - price * self._lean
        sides = self._sides[: self.size]
        return self._solve(sides[:, 0] - price * sides[:, 1])

    def along(self, residual: Floats) -> Floats:
        """(size,): the projection of a residual on the columns, in the coordinates of Q."""
        return np.asarray(residual @ self._q[:, : self.size])

    def correction(self, along: Floats, price: float) -> Floats:
        """(size,): the change of λ that a residual D λ − b calls for, at a price on its sum."""
        return self._solve(price * self._sides[: self.size, 1] - along)

    def overlap(self, along: Floats) -> float:
        """By how much the correction for a residual lowers Σ λ at the price 0."""
        return float(along @ self._sides[: self.size, 1])

    def _solve_sides(self) -> None:
        self.rest_squared = float(self.rest @ self.rest)
        self.free = self._solve(self._sides[: self.size, 0])
        self._lean = None

    def _solve(self, values: Floats, *, transposed: bool = False) -> Floats:
        if not self.size:
            return np.zeros(0)
        solution, _ = dtrtrs(self._r[:, : self.size], values, trans=int(transposed))
        return np.asarray(solution)

    def _reserve(self, columns: int) -> None:
        k, room = self.size, len(self._r)
        if columns <= room:
            return
        # Room grows in small steps: it is memory, and a copy costs little beside the products of an append.
        room = max(columns, room + room // 16, room + 4)
        q, r, sides = self._q, self._r, self._sides
        self._q = np.empty((len(self._target), room), order="F")
        self._q[:, :k] = q[:, :k]
        self._r = np.zeros((room, room), order="F")
        self._r[:k, :k] = r[:k, :k]
        self._sides = np.zeros((room, 2), order="F")
        self._sides[:k] = sides[:k]


class Pool:
    """Atoms found earlier, each once. When they have more than `room` nonzeros, the oldest are forgotten.

    An atom that has left is often needed again, and a look through the pool costs far less than a linear
    program.
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
            count = len(self._group.atoms)
            self._group.keep(np.arange(count) >= count // 4)
            self._keys = {atom.key for atom in self._group.atoms}

    def best(self, gradient: Floats) -> tuple[Atom | None, float]:
        """The atom of least inner product with a flat gradient, and that product; (None, 0) without atoms."""
        if not len(self):
            return None, 0.0
        slopes = self._group.gather(gradient)
        least = int(np.argmin(slopes))
        return self._group.atoms[least], float(slopes[least])


WORTHWHILE = 0.1
"""Atoms of the pool enter before the oracle is called again, while the gap over the pool is at least this
part of the gap that the oracle's last atom had."""


class _FactorGroup(Group):
    """A group with the QR factorisation of its atoms' products.

    columns: its targets, as an index of columns
    current: how many images are up to date, of the factor's `rest` and then of its `tilt`
    record: the group's part of the last snapshot, shared by all snapshots until its weights change
    """

    def __init__(self, targets: Ints, goal: Floats) -> None:
        super().__init__(targets)
        self.factor = _GrowingQR(goal[:, targets].ravel(order="F"))
        # Neighbouring targets are indexed by a slice, which gives a view and not a copy.
        span = slice(int(targets[0]), int(targets[-1]) + 1)
        self.columns: slice | Ints = span if len(targets) == span.stop - span.start else targets
        self.current = 0
        self.record: Nonzeros | None = None

    def delete(self, position: int) -> None:
        self.current = 0
        self.factor.delete(position)
        mask = np.ones(len(self.atoms), dtype=bool)
        mask[position] = False
        self.keep(mask)


class Corral(Iterate):
    """An iterate that is the exact minimiser over the hull of its atoms, as the head of this file describes.

    The products of the atoms are linearly independent at all times. They are factorised separately for sets
    of targets that no atom connects (groups); only the price ν of Σ λ ≤ 1 couples the groups.

    The gradient is computed from the factors as −2 Aᵀ(rest + ν tilt). The products Aᵀ rest and Aᵀ tilt, the
    images, are computed again only for groups that have changed.

    Where calls of the oracle are costly, a pool remembers the atoms that leave: in a thin region thousands of
    calls would find the same few hundred atoms again.
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
        # At the price 0 a step changes only one group. Snapshots share the records of the other groups.
        for group in self._groups:
            if group.record is None:
                group.record = self.nonzeros(group.indices)
        return way_back(self.origin, [group.record for group in self._groups if group.record])

    def enter(self, atom: Atom) -> None:
        """Take in an atom and minimise over the larger hull, as far as rounding allows."""
        if self._pool is None:
            self._take(atom)
            return
        gap = self.gap(atom)
        self._take(atom)
        self._draw(self._pool, WORTHWHILE * gap)
        # The hull can be so thin that the factors give only ten digits of the loss.
        if len(self._pool) and not self.honest:
            self.refresh()

    def gather(self, atoms: list[Atom], accuracy: float) -> None:
        """Minimise over the hull of the given atoms until the gap over it is `accuracy` or rounding."""
        pool = Pool() if self._pool is None else self._pool
        for atom in atoms:
            pool.add(atom)
        self._draw(pool, accuracy)

    def _draw(self, pool: Pool, accuracy: float) -> None:
        """Take in atoms of a pool until the gap over it is `accuracy`, or rounding stops the descent."""
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
        # Step 1.
        column = self._column(atom, group)
        coordinates = group.factor.append(column)
        if coordinates is None:
            group.append(atom)
            group.current = 0
        elif not self._exchange(group, atom, column, coordinates):
            return
        self._settle(number)

    def _column(self, atom: Atom, group: Group) -> Floats:
        """The product of an atom, one target of its group after the other."""
        column = np.zeros((len(self.design), len(group.targets)), order="F")
        for index, value in zip(atom.indices.tolist(), atom.values.tolist(), strict=True):
            place = self._place_in_group[index % self.targets]
            column[:, place] += value * self.design[:, index // self.targets]
        return column.ravel(order="F")

    def _exchange(self, group: _FactorGroup, atom: Atom, column: Floats, coordinates: Floats) -> bool:
        """Let an atom whose product depends on the others replace one of them; False if none can leave."""
        # With column = Σ c_i column_i, a weight t on the atom takes t c_i from the others and leaves A x
        # unchanged. The first of them to reach zero leaves. If Σ c_i > 1 this makes Σ λ smaller, and so room
        # for progress; otherwise the atom cannot help.
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
        """Walk to the minimiser over the half-space; atoms whose weight reaches zero on the way leave."""
        before = self._price
        while True:
            price = self._multiplier()
            # At the price 0 the groups are independent, and only this one has changed.
            changed = [self._groups[number]] if price == before == 0.0 else self._groups
            # Step 2.
            goal = np.concatenate([group.factor.minimiser(price) for group in changed])
            # Step 4. Rounding may leave Σ λ a little above 1.
            if goal.min(initial=0.0) >= 0.0:
                total = float(goal.sum()) if price > 0.0 else 0.0
                self._price = price
                self._place(changed, goal / total if total > 1.0 else goal)
                return
            # Step 3.
            weights = np.concatenate([group.weights for group in changed])
            share, leaver = _first_to_leave(weights, goal)
            _hand_out(changed, np.maximum(weights + share * (goal - weights), 0.0))
            if len(changed) > 1:
                # The walk has stopped half-way: no group is at its minimiser now.
                before = np.nan
            for group in changed:
                if leaver < len(group.atoms):
                    self._dismiss(group, leaver)
                    break
                leaver -= len(group.atoms)

    def _multiplier(self) -> float:
        """The price ν at which Σ λ = 1; 0 where Σ λ ≤ 1 holds without one."""
        excess = sum([group.factor.total for group in self._groups]) - 1.0
        return excess / sum([group.factor.spread for group in self._groups]) if excess > 0.0 else 0.0

    def _place(self, changed: list[_FactorGroup], weights: Floats) -> None:
        """Step 4: write weights into the point, and bring gradient and objective up to date."""
        _hand_out(changed, weights)
        indices = np.concatenate([group.indices for group in changed])
        nonzeros = np.concatenate([group.weights[group.owner] * group.values for group in changed])
        self.flat[indices] = self.origin[indices]
        np.add.at(self.flat, indices, nonzeros)
        for group in changed:
            self._update_images(group, 2 if self._price > 0.0 else 1)
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

    def _update_images(self, group: _FactorGroup, count: int) -> None:
        """Bring the first `count` images of a group up to date; one product reads the design once."""
        outdated = slice(group.current, count)
        if group.current < count:
            stacked = group.factor.both[outdated].reshape(-1, len(self.design))
            images = (self.design.T @ stacked.T).reshape(len(self.x), -1, len(group.targets))
            self._images[outdated, :, group.columns] = images.swapaxes(0, 1)
            group.current = count

    def refresh(self) -> None:
        """Correct the point by a least-squares step on its own residual, and compute the rest from it."""
        # Atoms may be far longer than the point that they make up, and rounding of their weights then shows
        # in the point. The correction is small: added to the point itself, not only to the weights, it
        # restores the lost digits.
        residual = self.residual()
        parts = [group.factor.along(residual[:, group.targets].ravel(order="F")) for group in self._groups]
        price = 0.0
        if self._price > 0.0:
            # Where the radius binds the correction must keep Σ λ = 1, so it has a price of its own.
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
        """Remove an atom. The point is without its group until `_place` writes the weights of the others."""
        if self._pool is not None:
            self._pool.add(group.atoms[position])
        self.flat[group.indices] = self.origin[group.indices]
        group.delete(position)


def _first_to_leave(weights: Floats, goal: Floats) -> tuple[float, int]:
    """The share of the walk from weights to a goal at which the first of them is zero, and its place."""
    falling = np.flatnonzero(goal < 0.0)
    shares = weights[falling] / (weights[falling] - goal[falling])
    first = int(np.argmin(shares))
    return float(shares[first]), int(falling[first])


def _hand_out(groups: list[_FactorGroup], weights: Floats) -> None:
    """Give each group its part of the weights."""
    end = 0
    for group in groups:
        begin, end = end, end + len(group.atoms)
        group.weights = weights[begin:end]
        group.record = None
