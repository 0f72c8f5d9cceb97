"""Determinants: how the likelihood's normalisation changes with the coefficients of a law.

The density of the measurements whose rows have the residual r is

    −2 log p(Ξ) = rᵀ S⁻¹ r + log det S − 2 log |det B₂|,     B = D − W J(Ξ),   S = B Σ Bᵀ + q h .

Least squares on the white rows minimises the first part alone. Where what the law leaves unexplained, q, is
small beside the noise the two determinants cancel. Where motion is kicked they do not: W looks at samples
that a kick has already moved, and least squares takes that for drift. The gradient of the determinants is

    g_ki = −2 tr(S⁻¹ W E_ki Σ Bᵀ) + 2 tr(B₂⁻¹ W E_ki),       E_ki at sample m: e_i ∇ψ_k(x_m)ᵀ
         = Σ_m Σ_j ∂ψ_k/∂x_j(x_m) M_m[j, i],   M_m = 2 (B₂⁻¹ W)_mm − 2 (Σ Bᵀ S⁻¹ W)_mm ,

so that the blocks M_m, which no candidate enters, serve all of them. As Σ → 0, g tends to q times Itô's
correction; as q → 0 it vanishes. The blocks are found in time linear in the samples:

1. S and B₂ are block tridiagonal. Eliminate every second block, and every second of the rest, until one is
   left (cyclic reduction); then go back for the blocks of the inverse on the three diagonals (Takahashi,
   Fagan, Chin 1973).
2. Add up over the rows that look at a sample, with the weights of the grid.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache

import numpy as np
from numpy.typing import NDArray
from scipy.sparse import csr_array

from cindy._types import Floats
from cindy.states.grid import Grid
from cindy.states.linearised import Linearised

__all__ = ["determinant_slopes", "inverse_blocks"]

Ints = NDArray[np.intp]


def determinant_slopes(linear: Linearised, variance: Floats, error: Floats) -> Floats:
    """(stretches, samples, states j, states i): M, the derivative of both determinants by J_m[i, j]."""
    with np.errstate(all="ignore"):  # of states that run away
        return 2.0 * (_of_the_flow(linear) - _of_the_noise(linear, variance, error))


def inverse_blocks(linear: Linearised, variance: Floats, error: Floats) -> tuple[Floats, Ints, Ints]:
    """S⁻¹ near its diagonal: blocks (stretches, pairs, states, states) of rows k and k + o; and k and o."""
    places = _covariance_places(linear.record.grid, linear.record.states)
    band = linear.bands(variance, error)
    inverse = _selected_inverse(places.band.blocks(band[:, places.column, places.offset]))
    return places.pairs.entries(inverse), places.rows, places.offsets


def _of_the_noise(linear: Linearised, variance: Floats, error: Floats) -> Floats:
    """(Σ Bᵀ S⁻¹ W)_mm."""
    record, d = linear.record, linear.record.states
    places = _covariance_places(record.grid, d)
    near = inverse_blocks(linear, variance, error)[0]
    near = np.moveaxis(near, 0, 1).reshape(len(places.offsets), -1)
    # (D, W), (W, D) and (W, W) of row k and row k + o at the samples of row k; the other half by symmetry.
    shape = record.grid.samples, record.stretches, d, d
    ahead, behind, both = ((matrix @ near).reshape(shape) for matrix in places.products)
    behind, again = (
        (matrix @ (near * (places.offsets > 0)[:, None])).reshape(shape) for matrix in places.products[1:]
    )
    difference = np.moveaxis(ahead + np.swapaxes(behind, -1, -2), 0, 1)
    integral = np.moveaxis(both + np.swapaxes(again, -1, -2), 0, 1)
    pulled = difference - np.swapaxes(linear.jacobian, -1, -2) @ integral
    return np.asarray((record.spread * variance)[..., None] * pulled)


def _of_the_flow(linear: Linearised) -> Floats:
    """(B₂⁻¹ W)_mm, zero at the first samples, which B₂ does not have."""
    grid, d = linear.record.grid, linear.record.states
    places = _flow_places(grid, d)
    blocks = -grid.integral[places.row, places.place, None, None] * linear.jacobian[:, places.sample]
    blocks[..., np.arange(d), np.arange(d)] += grid.difference[places.row, places.place, None]
    near = places.back.entries(_selected_inverse(places.here.blocks(blocks)))
    near = np.moveaxis(near, 0, 1).reshape(len(places.row), -1)
    return np.moveaxis((places.sums @ near).reshape(grid.samples, len(blocks), d, d), 0, 1)


def _selected_inverse(blocks: Floats) -> Floats:
    """The inverse of a block tridiagonal matrix on its three diagonals, in the same shape.

    blocks: (stretches, count, wide, 3 wide), rows of blocks left of, on and right of the diagonal. Without
    its odd blocks the matrix is block tridiagonal again, A_ee − A_eo A_oo⁻¹ A_oe, and its inverse is that of
    the whole at the even ones; Z_oe = −A_oo⁻¹ A_oe Z_ee and Z_oo = A_oo⁻¹ − Z_oe A_eo A_oo⁻¹.
    """
    count, wide = blocks.shape[1:3]
    left, middle, right = (blocks[..., i * wide : (i + 1) * wide] for i in range(3))
    if count == 1:
        alone = np.zeros_like(blocks)
        alone[..., wide : 2 * wide] = np.linalg.inv(middle)
        return alone
    odd = count // 2
    pivots = np.linalg.inv(middle[:, 1::2])
    # The even blocks before and behind an odd one; the last odd one may have none behind it.
    behind = count - 1 - odd
    down, up = pivots @ left[:, 1::2], pivots[:, :behind] @ right[:, 1::2][:, :behind]
    reduced = np.zeros((len(blocks), count - odd, wide, 3 * wide))
    before, here, after = (reduced[..., i * wide : (i + 1) * wide] for i in range(3))
    here[...] = middle[:, ::2]
    here[:, :odd] -= right[:, ::2][:, :odd] @ down
    here[:, 1:] -= left[:, 2::2] @ up
    after[:, :behind] = -right[:, ::2][:, :behind] @ up
    before[:, 1:] = -left[:, 2::2] @ down[:, :behind]
    inner = _selected_inverse(reduced)
    before, here, after = (inner[..., i * wide : (i + 1) * wide] for i in range(3))
    out = np.zeros_like(blocks)
    zleft, zmiddle, zright = (out[..., i * wide : (i + 1) * wide] for i in range(3))
    zmiddle[:, ::2] = here
    # Rows and columns of the odd blocks at the even ones on both sides.
    rows_left, columns_left = -down @ here[:, :odd], here[:, :odd] @ right[:, ::2][:, :odd]
    rows_left[:, :behind] -= up @ before[:, 1:]
    columns_left[:, :behind] += after[:, :behind] @ left[:, 2::2]
    rows_right = -up @ here[:, 1:] - down[:, :behind] @ after[:, :behind]
    columns_right = here[:, 1:] @ left[:, 2::2] + before[:, 1:] @ right[:, ::2][:, :behind]
    zleft[:, 1::2], zright[:, 1::2][:, :behind] = rows_left, rows_right
    zright[:, ::2][:, :odd] = -columns_left @ pivots
    zleft[:, 2::2] = -columns_right @ pivots[:, :behind]
    back = rows_left @ right[:, ::2][:, :odd]
    back[:, :behind] += rows_right @ left[:, 2::2]
    zmiddle[:, 1::2] = pivots - back @ pivots
    return out


@dataclass(frozen=True, eq=False)
class _Blocks:
    """Where entries (row, column) of a banded matrix lie among its blocks on three diagonals."""

    block: Ints
    row: Ints
    column: Ints
    size: int
    wide: int

    @classmethod
    def of(cls, rows: Ints, columns: Ints, size: int, wide: int) -> _Blocks:
        return cls(rows // wide, rows % wide, columns - (rows // wide - 1) * wide, size, wide)

    def blocks(self, entries: Floats) -> Floats:
        """(stretches, count, wide, 3 wide) from entries (stretches, …); ones beyond the last row."""
        count = -(-self.size // self.wide)
        made = np.zeros((len(entries), count, self.wide, 3 * self.wide))
        made[:, self.block, self.row, self.column] = entries
        padding = np.arange(self.size, count * self.wide) % self.wide
        made[:, -1, padding, self.wide + padding] = 1.0
        return made

    def entries(self, blocks: Floats) -> Floats:
        """(stretches, …) from all blocks."""
        return np.asarray(blocks[:, self.block, self.row, self.column])


@dataclass(frozen=True, eq=False)
class _CovariancePlaces:
    """Where the band of S goes, and what of its inverse belongs to a pair of rows (k, k + o).

    rows, offsets: (pairs,) k and o; products: for D W, W D and W W, (samples, pairs) the
        sums over the pairs at a sample
    """

    column: Ints
    offset: Ints
    band: _Blocks
    pairs: _Blocks
    rows: Ints
    offsets: Ints
    products: tuple[csr_array, csr_array, csr_array]


@lru_cache(maxsize=16)
def _covariance_places(grid: Grid, d: int) -> _CovariancePlaces:
    height, size = (grid.reach + 1) * d, grid.rows * d
    offset, column = (
        i.astype(np.intp) for i in np.nonzero(np.add.outer(np.arange(height), np.arange(size)) < size)
    )
    lower, upper = (column + offset, column), (column, column + offset)
    rows, columns = (np.concatenate(pair) for pair in zip(lower, upper, strict=True))
    wide = max(height - 1, 1)
    offsets, k = np.nonzero(np.add.outer(np.arange(grid.reach + 1), np.arange(grid.rows)) < grid.rows)
    sums = []
    for products in grid.products[1:]:
        pointers = np.arange(0, len(k) * grid.width + 1, grid.width)
        shape = len(k), grid.samples
        sums.append(
            csr_array(
                csr_array((products[k, offsets].ravel(), grid.window[k].ravel(), pointers), shape=shape).T
            )
        )
    return _CovariancePlaces(
        np.concatenate([column, column]),
        np.concatenate([offset, offset]),
        _Blocks.of(rows, columns, size, wide),
        _Blocks.of(*_of_states(k, k + offsets, d), size, wide),
        k,
        offsets,
        (sums[0], sums[1], sums[2]),
    )


@dataclass(frozen=True, eq=False)
class _FlowPlaces:
    """Where the weights of B₂ go, and what of its inverse meets them again.

    row, place, sample: of every weight of the grid at a sample that B₂ has
    sums: (samples, weights) Σ of the integral's weights at a sample
    """

    row: Ints
    place: Ints
    sample: Ints
    here: _Blocks
    back: _Blocks
    sums: csr_array


@lru_cache(maxsize=16)
def _flow_places(grid: Grid, d: int) -> _FlowPlaces:
    row, place = np.nonzero(grid.window >= grid.order)
    sample = grid.window[row, place]
    column = sample - grid.order
    size, wide = grid.rows * d, (int(np.max(np.abs(column - row))) + 1) * d - 1
    rows, columns = _of_states(row, column, d)
    weights = csr_array(
        (grid.integral[row, place], (sample, np.arange(len(row)))), shape=(grid.samples, len(row))
    )
    return _FlowPlaces(
        row,
        place,
        sample,
        _Blocks.of(rows, columns, size, max(wide, 1)),
        _Blocks.of(np.swapaxes(columns, 1, 2), np.swapaxes(rows, 1, 2), size, max(wide, 1)),
        weights,
    )


def _of_states(rows: Ints, columns: Ints, d: int) -> tuple[Ints, Ints]:
    """(n, d, d) rows and columns of the entries of blocks (n,)."""
    state, shape = np.arange(d), (len(rows), d, d)
    row, column = (rows * d)[:, None, None] + state[:, None], (columns * d)[:, None, None] + state
    return np.broadcast_to(row, shape), np.broadcast_to(column, shape)
