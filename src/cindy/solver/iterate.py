"""Iterates: the point of a run with its gradient and objective, alone (`Walk`) or as a mixture (`ActiveSet`).

A mixture x = origin + Σ λ_i d_i of atoms, λ ≥ 0, Σ λ ≤ 1, is minimised over its weights λ by accelerated
projected gradients (Nesterov, Introductory lectures on convex optimization, 2004, section 2.2):

1. Step from the extrapolated point against the gradient by 1/L, where L is the largest curvature.
2. Project onto {λ ≥ 0, Σ λ ≤ 1} (`project`; Held, Wolfe and Crowder, 1974).
3. Extrapolate by the momentum. With a bound μ > 0 on the least curvature the momentum is constant.

A step costs a product with the Gram matrix of the atoms in use, whatever the number of rows.
"""

from abc import ABC, abstractmethod
from collections.abc import Callable

import numpy as np
from numpy.typing import NDArray

from cindy._arrays import Floats, Ints
from cindy.least_squares import LeastSquares
from cindy.solver.region import Atom, Oracle
from cindy.solver.result import Nonzeros, Snapshot, way_back
from cindy.solver.sampled_rows import LocalModel


class Iterate(ABC):
    """A point x with its gradient and objective.

    x: (terms, targets); flat: the same memory, (size,)
    gradient: (size,)
    honest: whether gradient and objective were computed from x itself
    estimated: whether the objective is that of a sample
    passes: data read so far, in units of the whole; 0 where the objective holds its data
    """

    honest = True
    estimated = False
    passes = 0.0

    def __init__(self, objective: LeastSquares, origin: Floats) -> None:
        # Rows below the triangle of the design add a constant to the objective, `beyond`, and need not be
        # multiplied at every step.
        used = objective.terms if not objective.design[objective.terms :].any() else len(objective.design)
        self.design = objective.design[:used]
        self.target = objective.target[:used]
        self.beyond = float(np.sum(objective.target[used:] ** 2))
        # A local model adds a linear part to the squares of its rows.
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
        atom = Atom.at(self.flat, self.origin)
        return [(atom, 1.0)] if len(atom.indices) else []

    def snapshot(self) -> Snapshot:
        """A function that restores this iterate, and takes little memory."""
        return way_back(self.origin, [self.nonzeros(np.flatnonzero(self.flat != self.origin))])

    def nonzeros(self, indices: Ints) -> Nonzeros:
        """The point at the given indices."""
        return indices.astype(np.int32), self.flat[indices]

    def residual(self) -> Floats:
        """(k, targets): A x − B, without the rows that no coefficients can change."""
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
        # Along x + s (atom − x) the objective is f(s) = f(0) − gap s + curvature s², with its minimum at
        # gap / (2 curvature).
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

    def step(self, atom: Atom, share: float) -> None:
        """Move the given share of the way to an atom."""
        self._seen.add(atom.key)
        self.flat += share * (self.origin - self.flat)
        self.flat[atom.indices] += share * atom.values
        self.refresh()


NOTHING = np.zeros(1)


class Group:
    """The atoms that touch one set of targets, with their weights.

    weights: (atoms,)
    indices, values, owner: of every nonzero of the atoms, one atom after the other; `owner` is its number
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
        """Remove the atoms outside the mask."""
        nonzeros = mask[self.owner]
        renumbered = np.cumsum(mask) - 1
        self.indices, self.values = self.indices[nonzeros], self.values[nonzeros]
        self.owner = renumbered[self.owner[nonzeros]]
        self.weights = self.weights[mask]
        self.atoms = [atom for atom, stays in zip(self.atoms, mask, strict=True) if stays]

    def write(self, flat: Floats, weights: Floats | None = None) -> None:
        """Add the displacements to a flat point, weighted by their weights or by others."""
        chosen = self.weights if weights is None else weights
        np.add.at(flat, self.indices, self.values * chosen[self.owner])

    def gather(self, flat: Floats) -> Floats:
        """(atoms,): inner products of the displacements with a flat vector."""
        sums = np.bincount(self.owner, self.values * flat[self.indices], minlength=len(self.atoms))
        return np.asarray(sums, dtype=np.float64)


class _GramGroup(Group):
    """A group with the Gram matrix of its atoms' products, and bounds on its eigenvalues.

    gram: (atoms, atoms)
    largest, smallest: bounds on the eigenvalues of the Gram matrix scaled to unit diagonal; after a few new
        atoms `smallest` may be too large
    """

    def __init__(self, targets: Ints) -> None:
        super().__init__(targets)
        self.gram = np.zeros((0, 0))
        self.largest = 0.0
        self.smallest = 0.0
        self._stale = 0

    @property
    def lengths(self) -> Floats:
        """(atoms,) of the products; 1 where the product is zero."""
        squares = np.diag(self.gram)
        return np.sqrt(np.where(squares > 0.0, squares, 1.0))

    def extend(self, atom: Atom, image: Floats) -> None:
        """Take in an atom; `image` is AᵀA times its displacement, (size,)."""
        self.append(atom)
        row = self.gather(image)
        n = len(row)
        gram = np.empty((n, n))
        gram[: n - 1, : n - 1] = self.gram
        gram[n - 1] = gram[:, n - 1] = row
        self.gram = gram
        # Eigenvalues cost n³, so they are computed only once in a while. In between, a border of norm β
        # raises the largest by at most β. The smallest may be too large, which can cost steps but no
        # accuracy, since `propose` refuses weights that raise the objective.
        self._stale += 1
        if self._stale > n // 20:
            lengths = self.lengths
            values = np.linalg.eigvalsh(gram / np.outer(lengths, lengths))
            self.largest, self.smallest, self._stale = float(values[-1]), float(max(values[0], 0.0)), 0
        else:
            lengths = self.lengths
            border = row[:-1] / (lengths[:-1] * lengths[-1])
            self.largest = max(self.largest, 1.0) + float(np.linalg.norm(border))

    def keep(self, mask: NDArray[np.bool_]) -> None:
        # The spectrum of a principal submatrix lies within that of the whole.
        super().keep(mask)
        self.gram = self.gram[np.ix_(mask, mask)]


class ActiveSet(Iterate):
    """x = origin + Σ weights_i displacement_i with weights ≥ 0 and Σ weights ≤ 1.

    Of the products of the atoms with the design only the inner products are stored, separately for sets of
    targets that no atom connects (groups). Arrays over all atoms hold one group after the other.
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
        self._write()
        self._drop()

    def step(self, atom: Atom, share: float) -> None:
        """Move the given share of the way to an atom."""
        for group in self.groups:
            group.weights = (1.0 - share) * group.weights
        if len(atom.indices):
            group, position = self._find(atom)
            group.weights[position] += share
        self._write()
        self._drop()

    def propose(self, weights: Floats) -> None:
        """Give the atoms new weights, unless they raise the objective."""
        before, old = self.objective, [group.weights for group in self.groups]
        ends = np.cumsum([len(part) for part in old])
        for group, part in zip(self.groups, np.split(weights, ends[:-1]), strict=True):
            group.weights = part
        self._write()
        # Rounding in the Gram matrix can make a proposal worse than the weights before it.
        if self.objective > before:
            for group, part in zip(self.groups, old, strict=True):
                group.weights = part
            self._write()
        self._drop()

    def _drop(self) -> None:
        """Remove atoms without weight: the fewer atoms, the better conditioned their Gram matrix."""
        for group in self.groups:
            keep = group.weights > 0.0
            if not keep.all():
                for i in np.flatnonzero(~keep):
                    del self._known[group.atoms[i].key]
                group.keep(keep)

    def _write(self) -> None:
        """Compute the point, its gradient and its objective from the weights."""
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


Map = Callable[[Floats], Floats]
Test = Callable[[Floats], bool]


def project(point: Floats, *, costs: Floats | None = None, below: bool = False) -> Floats:
    """The nearest point of {x ≥ 0, costs · x = 1}, or of {x ≥ 0, costs · x ≤ 1} with `below`.

    costs: (n,), positive; ones, the probability simplex, when left out

    >>> project(np.array([0.9, 0.5, -2.0]))
    array([0.7, 0.3, 0. ])
    """
    price = np.ones_like(point) if costs is None else costs
    if below:
        clipped = np.maximum(point, 0.0)
        if price @ clipped <= 1.0:
            return clipped
    # The projection subtracts the same multiple of the costs, the multiplier, from every coordinate that
    # stays positive. Which ones stay positive follows from sorting by ratio.
    ratio = point / price
    order = np.argsort(-ratio)
    spent = np.cumsum(price[order] * point[order]) - 1.0
    shifts = spent / np.cumsum(price[order] ** 2)
    # The support is the longest prefix, by ratio, that stays positive under its own shift.
    last = int(np.flatnonzero(ratio[order] > shifts)[-1])
    return np.asarray(np.maximum(point - shifts[last] * price, 0.0))


def accelerated(
    gradient: Map,
    projection: Map,
    start: Floats,
    *,
    smoothness: float,
    convexity: float = 0.0,
    steps: int,
    done: Test,
    every: int = 5,
) -> Floats:
    """Accelerated projected gradient for a convex function: error ≤ 2 L ‖x₀ − x*‖² / (k + 1)² after k steps.

    smoothness: L, an upper bound on the curvature
    convexity: μ, a lower bound; if it is above zero, a step multiplies the error by 1 − √(μ / L)
    done: whether a point is accurate enough; asked once in `every` steps
    """
    root = np.sqrt(convexity / smoothness)
    point = ahead = start
    momentum = 1.0
    for step in range(1, steps + 1):
        # Steps 1 and 2.
        following = projection(ahead - gradient(ahead) / smoothness)
        # The test costs as much as a step, so it is not made at every one.
        if step % every == 0 and done(following):
            return following
        # Step 3.
        larger = 0.5 * (1.0 + np.sqrt(1.0 + 4.0 * momentum**2))
        push = (1.0 - root) / (1.0 + root) if convexity > 0.0 else (momentum - 1.0) / larger
        ahead = following + push * (following - point)
        point, momentum = following, larger
    return point
