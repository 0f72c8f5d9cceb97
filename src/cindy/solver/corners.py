"""Regions with few corners: their presolve, and the oracle that looks at all of them (`Rays`).

`presolve` turns a region whose rows fall apart into small blocks into the hull of a few points, over which a
linear function is minimised by looking at all of them:

1. Rows that share coefficients form a block (`_split`). Rows that only tie two coefficients have the corners
   ±(−b, a) in closed form.
2. The equalities of a block are eliminated (`_eliminate`): a basis of what they leave free, and an offset.
3. The corners of the block are the lines in which as many planes ξ_i = 0 or row = 0 meet as there are
   dimensions to lose (`_corners`). With f free dimensions and p planes there are at most C(p, f − 1).
4. All corners are scaled to unit norm; the radius is what they share (`Rays`).
"""

from dataclasses import dataclass
from itertools import combinations
from math import comb

import numpy as np
from scipy.sparse import coo_array
from scipy.sparse.csgraph import connected_components

from cindy._arrays import Floats, Ints
from cindy.errors import InfeasibleError
from cindy.least_squares import affine, pieces
from cindy.solver.region import Atom, Line, Oracle, Region

# Directions of corners with equally many nonzeros, one a row: where those are, and the values there.
_Directions = tuple[Ints, Floats]
# The offset of a block, and its corners as places among its members with the values there.
_Solved = tuple[Floats, list[_Directions]]


@dataclass(frozen=True)
class _Corners:
    """Limits beyond which a linear program is cheaper than listing corners, and what counts as rounding."""

    most_corners: int = 5_000
    """Candidates for corners in one block."""
    most_in_all: int = 50_000
    """Corners in all blocks together: an oracle call looks at every corner."""
    most_free: int = 40
    """Coefficients of a block less its equalities: the number of corners grows exponentially with it."""
    rounding: float = 1e-11
    """Relative size below which a number left by elimination counts as zero."""
    presolved: float = 8 * float(np.finfo(np.float64).eps)
    """Relative error of the corners: ties are exact, other blocks are small and balanced."""


_CORNERS = _Corners()


@dataclass(frozen=True, eq=False)
class _Block:
    """Coefficients that rows connect, and those rows, dense.

    members: flat indices of the coefficients; row_numbers: numbers of the rows
    equal, goal: rows with equal x = goal; signs: rows with signs x ≥ 0
    """

    members: Ints
    row_numbers: Ints
    equal: Floats
    goal: Floats
    signs: Floats

    @property
    def look(self) -> tuple[int, bytes, bytes, bytes]:
        """A key that is equal for blocks with the same equations over other coefficients."""
        return len(self.members), self.equal.tobytes(), self.goal.tobytes(), self.signs.tobytes()


def presolve(region: Region) -> "Rays | None":
    """The oracle that looks at all corners, or None where only a linear program will do.

    A block qualifies if its rows are homogeneous (ties, conservation laws, signs) or leave no freedom at all
    (fixed values). Different blocks share only the radius, so each corner of the region lies in one block.
    Redundant rows do no harm; contradictory ones raise InfeasibleError.
    """
    split = _split(region)
    if split is None:
        return None
    ties, blocks = split
    origin = np.zeros(region.size)
    free = np.ones(region.size, dtype=bool)
    free[ties[0]] = False
    corners = [ties] if ties[0].size else []
    solved: dict[tuple[int, bytes, bytes, bytes], _Solved | None] = {}
    for block in blocks:
        free[block.members] = False
        if len(block.members) - len(block.equal) > _CORNERS.most_free or len(corners) > _CORNERS.most_in_all:
            return None
        # A law for many terms gives many blocks with the same equations, which are solved once.
        if block.look not in solved:
            solved[block.look] = _solve(block)
        hull = solved[block.look]
        if hull is None:
            return None
        offset, directions = hull
        origin[block.members] = offset
        corners += [(block.members[places], values) for places, values in directions]
    room = region.radius - region.norm(origin)
    if room < -_CORNERS.rounding * region.radius:
        raise InfeasibleError(
            f"no coefficients satisfy the {region.rows} linear rows within radius {region.radius:g}.\n"
            f"The smallest feasible radius is {region.norm(origin):.6g}."
        )
    return Rays(region, origin, max(room, 0.0), np.flatnonzero(free), corners)


def _solve(block: _Block) -> _Solved | None:
    """The block as a hull; None where only a linear program will do."""
    basis, offset = _eliminate(block)
    if offset.any():
        # A block that has both an offset and freedom is no cone: its corners depend on the radius.
        if basis.shape[1]:
            return None
        if (block.signs @ offset < -_CORNERS.rounding * np.abs(block.signs) @ np.abs(offset)).any():
            raise InfeasibleError(_contradiction(block))
    corners = _corners(block, basis)
    if corners is None:
        return None
    places = [corner.nonzero()[0] for corner in corners]
    return offset, [
        (chosen[None], corner[None, chosen]) for chosen, corner in zip(places, corners, strict=True)
    ]


def _split(region: Region) -> tuple[_Directions, list[_Block]] | None:
    """Step 1: the corners of ties, and the blocks of all other connected rows.

    None if an inequality has a bound other than zero.
    """
    bounded = np.isfinite(region.lower) | np.isfinite(region.upper)
    # Inequalities with bounds of zero or infinity describe cones. With any other bound the corners depend on
    # the radius.
    through_zero = np.isin(region.lower, (0.0, -np.inf)) & np.isin(region.upper, (0.0, np.inf))
    if (bounded & ~region.equality & ~through_zero).any():
        return None
    # A tie a x_i + b x_j = 0 of coefficients in no other row has two corners in closed form: thousands need
    # neither elimination nor a graph.
    matrix = region.matrix
    named = np.bincount(matrix.indices, minlength=region.size)
    elsewhere = abs(matrix).sign() @ (named - 1)
    tie = (np.diff(matrix.indptr) == 2) & region.equality & (region.lower == 0) & (elsewhere == 0)
    entries = matrix.indptr[:-1][tie][:, None] + np.arange(2)
    pairs, values = matrix.indices[entries].astype(np.intp), matrix.data[entries]
    directions = values[:, ::-1] * (-1.0, 1.0)
    others, blocks = np.flatnonzero(bounded & ~tie), []
    for rows, members in pieces(matrix[others])[0]:
        row_numbers = others[rows]
        if len(members):
            blocks.append(_block(region, row_numbers, members))
        elif (region.lower[row_numbers] > 0).any() | (region.upper[row_numbers] < 0).any():
            raise InfeasibleError(f"linear row {row_numbers[0]} has no coefficients, but must not be zero.")
    return (np.vstack([pairs, pairs]), np.vstack([directions, -directions])), blocks


def _block(region: Region, row_numbers: Ints, members: Ints) -> _Block:
    rows = region.matrix
    dense = np.zeros((len(row_numbers), len(members)))
    for i, number in enumerate(row_numbers):
        entries = slice(rows.indptr[number], rows.indptr[number + 1])
        dense[i, np.searchsorted(members, rows.indices[entries])] = rows.data[entries]
    # Rows may have any units. Once they are scaled, blocks of the same law are equal and solved once.
    scale = np.abs(dense).max(axis=1)
    dense /= scale[:, None]
    equal = region.equality[row_numbers]
    goal = region.lower[row_numbers][equal] / scale[equal]
    loose, lower, upper = dense[~equal], region.lower[row_numbers][~equal], region.upper[row_numbers][~equal]
    signs = np.vstack([loose[lower == 0], -loose[upper == 0]])
    return _Block(members, row_numbers, dense[equal], goal, signs)


def _eliminate(block: _Block) -> tuple[Floats, Floats]:
    """Step 2: a basis of what the equalities leave free, and one solution of them."""
    size = len(block.members)
    if not len(block.equal):
        return np.eye(size), np.zeros(size)
    # Coefficients may have different units. Balanced, the rank does not depend on them.
    unit = _units(block)
    solution = affine(block.equal / unit, block.goal)
    if solution is None:
        raise InfeasibleError(_contradiction(block))
    basis, offset = solution
    # A coefficient that the rows fix at zero must not keep an offset of rounding, which would rule out the
    # closed form.
    offset[np.abs(offset) <= _CORNERS.rounding * np.abs(offset).max(initial=0.0)] = 0.0
    return basis / unit[:, None], offset / unit


def _units(block: _Block) -> Floats:
    """The largest entry of each coefficient in the equalities, its unit for balance; 1 where it has none."""
    unit = np.abs(block.equal).max(axis=0, initial=0.0)
    unit[unit == 0] = 1.0
    return np.asarray(unit)


def _contradiction(block: _Block) -> str:
    return (
        f"the {len(block.row_numbers)} linear rows from row {block.row_numbers[0]} on contradict each other."
    )


def _corners(block: _Block, basis: Floats) -> list[Floats] | None:
    """Step 3: directions in which the corners of the block lie; None if there are too many to try."""
    free, unit = basis.shape[1], _units(block)
    if not free:
        return []
    if free == 1 and not len(block.signs):
        size = np.abs(basis[:, 0]) * unit
        corner = basis[:, 0] * (size > _CORNERS.rounding * size.max())
        return [corner, -corner]
    # In the coordinates of the free subspace every coefficient and every sign row is a plane through zero. A
    # corner lies on one plane fewer than there are dimensions; parallel planes, as from ties, count once.
    planes = _distinct(np.vstack([basis, block.signs @ basis])) if free > 1 else basis[:0]
    if comb(len(planes), free - 1) > _CORNERS.most_corners:
        return None
    corners: dict[bytes, Floats] = {}
    for direction in _meets(planes, free):
        corner = basis @ direction
        size = np.abs(corner) * unit
        corner[size <= _CORNERS.rounding * size.max()] = 0.0
        side = block.signs @ corner
        slack = _CORNERS.rounding * np.abs(block.signs) @ np.abs(corner)
        for sign in (1.0, -1.0):
            if (sign * side >= -slack).all():
                balanced = sign * corner * unit / size.max()
                corners[(np.round(balanced, 9) + 0.0).tobytes()] = sign * corner / np.abs(corner).max()
    return list(corners.values())


def _meets(planes: Floats, free: int) -> Floats:
    """(lines, free): the lines in which free − 1 of the planes meet."""
    if free == 1:
        return np.ones((1, 1))
    chosen = np.array(list(combinations(range(len(planes)), free - 1)))
    # The null vectors of free − 1 normals, for all choices at once. A small singular value shows that the
    # planes are dependent and meet in more than a line.
    _, s, vt = np.linalg.svd(planes[chosen])
    return np.asarray(vt[s[:, -1] > _CORNERS.rounding, -1])


def _distinct(planes: Floats) -> Floats:
    """The planes, normalised, without zeros and repetitions."""
    lengths = np.linalg.norm(planes, axis=1)
    planes = planes[lengths > _CORNERS.rounding] / lengths[lengths > _CORNERS.rounding, None]
    leading = np.argmax(np.abs(planes) > 1e-6, axis=1)
    planes = planes * np.sign(planes[np.arange(len(planes)), leading])[:, None]
    _, first = np.unique(np.round(planes, 9) + 0.0, axis=0, return_index=True)
    return np.asarray(planes[np.sort(first)])


class Rays(Oracle):
    """The hull of an origin and of displacements with few nonzeros.

    origin: (size,); room: the radius less the norm of the origin
    free: coefficients in no row; ± room / weight in each is a displacement
    corners: directions of the other displacements
    """

    def __init__(
        self, region: Region, origin: Floats, room: float, free: Ints, corners: list[_Directions]
    ) -> None:
        self.region, self.origin, self._room = region, origin, room
        # Zero where a row names the coefficient: a product over all is faster than picking out the free ones.
        self._free = np.zeros(region.size)
        self._free[free] = 1.0 / region.weights[free]
        self._corner = room * self._free
        # Step 4, in arrays padded with zeros.
        longest = max([1, *(members.shape[1] for members, _ in corners)])
        shape = sum(len(members) for members, _ in corners), longest
        self._indices, directions = np.zeros(shape, dtype=np.intp), np.zeros(shape)
        end = 0
        for members, values in corners:
            begin, end, width = end, end + len(members), members.shape[1]
            self._indices[begin:end, :width] = members
            directions[begin:end, :width] = values
        lengths = np.einsum("ij,ij->i", region.weights[self._indices], np.abs(directions))
        self._directions = directions / lengths[:, None]
        self._values = room * self._directions
        self._length = np.count_nonzero(directions, axis=1)

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
        slope = steepest + _CORNERS.presolved * size
        norm = self.region.norm(self.origin)
        return atom, Line(slope * norm * (1.0 - _CORNERS.presolved * len(self.origin)), slope)

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
