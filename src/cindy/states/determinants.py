"""Determinants: how the likelihood's normalisation changes with the coefficients of a law.

The density of the measurements whose rows have the residual r is

    −2 log p(Ξ) = rᵀ S⁻¹ r + log det S − 2 log |det B₂|,     B = D − W J(Ξ),   S = B Σ Bᵀ + K .

Least squares on the white rows minimises the first part alone. Where what the law leaves unexplained, q, is
small beside the noise the two determinants cancel. Where motion is kicked they do not: W looks at samples
that a kick has already moved, and least squares takes that for drift. The gradient of the determinants is

    g_ki = −2 tr(S⁻¹ W E_ki Σ Bᵀ) + 2 tr(B₂⁻¹ W E_ki),       E_ki at sample m: e_i ∇ψ_k(x_m)ᵀ
         = Σ_m Σ_j ∂ψ_k/∂x_j(x_m) M_m[j, i],   M_m = 2 (B₂⁻¹ W)_mm − 2 (Σ Bᵀ S⁻¹ W)_mm ,

so that the blocks M_m, which no candidate enters, serve all of them. K, the covariance of kicks
(`Forcing`), is kept as it is: the score stays unbiased, since E r rᵀ = S, unless K depends on the states
(`weight_lean`). As Σ → 0, g tends to q times Itô's correction; as q → 0 it vanishes. The blocks are found in
time linear in the samples:

1. S = L Lᵀ with L banded, which the fit has at hand: from the last block of columns k to the first, with n
   the rows below that it reaches and G = L_nk L_kk⁻¹, Z_nk = −Z_nn G and Z_kk = L_kk⁻ᵀ L_kk⁻¹ + Gᵀ Z_nn G are
   the blocks of S⁻¹ near its diagonal (Takahashi, Fagan, Chin 1973).
2. B₂ is block tridiagonal and has no such factor: its blocks are eliminated from the first to the last, and
   those of its inverse found on the way back in the same manner.
3. Add up over the rows that look at a sample, with the weights of the grid.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import lru_cache
from itertools import count, pairwise

import numpy as np
from numpy.lib.stride_tricks import as_strided
from scipy.linalg import lapack
from scipy.sparse import csr_array

from cindy._arrays import Floats, Ints
from cindy.states.grid import Grid
from cindy.states.linearised import Factor, Linearised

__all__ = [
    "determinant_slopes",
    "inverse_at_samples",
    "inverse_at_steps",
    "inverse_blocks",
    "log_volume",
    "weight_lean",
]

_COLUMNS = 40
"""Columns of L that are worked on at once, whole rows of the grid. Timed for 1 to 24 states: with fewer the
loop takes long, with more the blocks of S⁻¹ hold what nobody asks for."""
_WIDE = 12
"""Least width of the blocks of B₂: smaller ones take as long each, and there are more of them."""


def determinant_slopes(linear: Linearised, variance: Floats, near: Floats) -> Floats:
    """(stretches, samples, states j, states i): M, the derivative of both determinants by J_m[i, j].

    near: the blocks of S⁻¹ that `inverse_blocks` gives
    """
    with np.errstate(all="ignore"):  # of states that run away
        return 2.0 * (_of_the_flow(linear) - _of_the_noise(linear, variance, near))


def weight_lean(
    linear: Linearised, error: Floats, near: Floats, inverted: Callable[[Floats], Floats]
) -> Floats | None:
    """(stretches, rows, states) u: by how much rows weighed by q(x) lean; None where kicks are of one size.

    A kick of step j moves the states x_m behind it, and with them K_m, by which rows are weighed:
    E Xᵀ S⁻¹ r has, beside what the determinants say, −Xᵀ S⁻¹ u with u_m = K'_m Σ_{j<m} (S⁻¹)_mj K_j, which is
    q' σ²/q at little noise and q' h/2 at much. Rows before and behind have the same sum to first order in the
    step, so that half of that over all rows but its own is taken.

    inverted: S⁻¹ of rows
    """
    forced = linear.forced
    if forced is None or forced.slope is None:
        return None
    own = near[:, _covariance_places(linear.grid).offsets == 0]
    kicks, lean = forced.size**2 * error, np.zeros_like(forced.size)
    for a in range(kicks.shape[2]):
        if not forced.slope[..., a].any():
            continue
        alone = np.zeros_like(kicks)
        alone[..., a] = kicks[..., a]
        others = inverted(alone) - own[..., a] * kicks[..., a, None]
        lean += forced.slope[..., a] * error * others / 2.0
    return lean


def log_volume(linear: Linearised) -> float:
    """log |det B₂|, summed over the stretches, B₂ being B without the columns of the first samples."""
    grid, d = linear.record.grid, linear.record.states
    k, first = np.arange(grid.rows), grid.start - grid.order
    before, behind = int(np.max(k - first)), int(np.max(first + grid.width - 1 - k))
    kl, ku = (before + 1) * d - 1, (behind + 1) * d - 1
    height, state, total = 2 * kl + ku + 1, np.arange(d), 0.0
    # Rows at the ends look at the same samples, those between at one sample further than the row before: the
    # blocks of each of these runs lie evenly in memory.
    turns = np.flatnonzero((np.diff(np.minimum(first, 0)) != 0) | (np.diff(first == first[-1]) != 0)) + 1
    runs = list(pairwise([0, *turns.tolist(), grid.rows]))
    for jacobian in linear.jacobian:
        band = np.zeros((grid.rows * d, height))
        item = band.itemsize
        for begin, end in runs:
            inside = max(-int(first[begin]), 0)
            blocks = (
                -grid.integral[begin:end, inside:, None, None] * jacobian[grid.window[begin:end, inside:]]
            )
            blocks[..., state, state] += grid.difference[begin:end, inside:, None]
            # Element (r, c) of B₂ lies at c · height + kl + ku + r − c.
            right = (height - 1) * d
            down = d + right * (int(first[begin + 1] - first[begin]) if end > begin + 1 else 0)
            corner = band.ravel()[kl + ku + begin * d + (int(first[begin]) + inside) * right :]
            along = down * item, right * item, item, (height - 1) * item
            as_strided(corner, blocks.shape, along)[...] = blocks
        lu, _, info = lapack.dgbtrf(band.T, kl, ku, overwrite_ab=1)
        if info > 0:
            return -np.inf
        total += float(np.sum(np.log(np.abs(lu[kl + ku]))))
    return total


def inverse_blocks(linear: Linearised, factors: Sequence[Factor]) -> tuple[Floats, Ints, Ints]:
    """S⁻¹ near its diagonal: blocks (stretches, pairs, states, states) of rows k and k + o; and k and o.

    factors: of S, a stretch each
    """
    grid, d = linear.grid, linear.record.states
    places = _covariance_places(grid)
    group = max(min(_COLUMNS // d, grid.reach), 1)
    reach = -(-grid.reach // group)
    columns = np.stack([factor.columns(group * d, reach) for factor in factors], axis=1)
    with np.errstate(all="ignore"):
        inverse = _inverse_of_product(columns)
    shape = -1, len(factors), group, d, (reach + 1) * group, d
    at, within = places.rows // group, places.rows % group
    near = inverse.reshape(shape)[at, :, within, :, within + places.offsets]
    return np.moveaxis(near, 0, 1), places.rows, places.offsets


def inverse_at_samples(linear: Linearised, near: Floats) -> Floats:
    """(stretches, samples, states, states): the diagonal blocks of Bᵀ S⁻¹ B, whose traces noise has."""
    return _collected(linear.grid, linear.jacobian, near)


def inverse_at_steps(linear: Linearised, near: Floats) -> Floats:
    """(stretches, rows, states, states): those of Aᵀ S⁻¹ A + Jᵀ S⁻¹ J h²/12, whose traces kicks have."""
    own = near[:, _covariance_places(linear.grid).offsets == 0]
    forced = linear.forced
    if forced is None:
        return own
    jacobian = forced.jacobian[:, : own.shape[1]]
    moment = np.swapaxes(jacobian, -1, -2) @ own @ jacobian * (forced.grid.step**2 / 12.0)[:, None, None]
    return _collected(forced.grid.steps, forced.jacobian, near)[:, : own.shape[1]] + moment


def _collected(grid: Grid, jacobian: Floats, near: Floats) -> Floats:
    """The diagonal blocks of Mᵀ S⁻¹ M for M = D − W J."""
    both, mixed, integral = _sums(grid, near)
    crossed = mixed @ jacobian
    back = np.swapaxes(jacobian, -1, -2) @ integral @ jacobian
    return np.asarray(both - crossed - np.swapaxes(crossed, -1, -2) + back)


def _sums(grid: Grid, near: Floats) -> tuple[Floats, Floats, Floats]:
    """(stretches, samples, d, d) each: the diagonal blocks of Dᵀ S⁻¹ D, Dᵀ S⁻¹ W and Wᵀ S⁻¹ W."""
    d = near.shape[-1]
    places = _covariance_places(grid)
    shape = grid.samples, len(near), d, d
    flat = np.moveaxis(near, 0, 1).reshape(len(places.offsets), -1)
    # Row k and row k + o at the samples of row k; the other half by symmetry.
    beyond = flat * (places.offsets > 0)[:, None]
    here = [matrix @ flat for matrix in places.products]
    mirrored = [matrix @ beyond for matrix in places.products]
    pairs = ((here[0], mirrored[0]), (here[1], mirrored[2]), (here[3], mirrored[3]))
    both, mixed, integral = (
        np.moveaxis(a.reshape(shape) + np.swapaxes(b.reshape(shape), -1, -2), 0, 1) for a, b in pairs
    )
    return both, mixed, integral


def _of_the_noise(linear: Linearised, variance: Floats, near: Floats) -> Floats:
    """(Σ Bᵀ S⁻¹ W)_mm."""
    _, mixed, integral = _sums(linear.grid, near)
    pulled = mixed - np.swapaxes(linear.jacobian, -1, -2) @ integral
    if linear.record.correlation is not None:
        return np.asarray(linear.record.covariance(variance) @ pulled)
    return np.asarray((linear.record.spread * variance)[..., None] * pulled)


def _of_the_flow(linear: Linearised) -> Floats:
    """(B₂⁻¹ W)_mm, zero at the first samples, which B₂ does not have."""
    grid, d = linear.record.grid, linear.record.states
    places = _flow_places(grid, d)
    blocks = -grid.integral[places.row, places.place, None, None] * linear.jacobian[:, places.sample]
    blocks[..., np.arange(d), np.arange(d)] += grid.difference[places.row, places.place, None]
    near = places.back.entries(_selected_inverse(places.here.blocks(blocks)))
    near = np.moveaxis(near, 0, 1).reshape(len(places.row), -1)
    return np.moveaxis((places.sums @ near).reshape(grid.samples, len(blocks), d, d), 0, 1)


def _inverse_of_product(columns: Floats) -> Floats:
    """(count, stretches, wide, (reach + 1) wide): (L Lᵀ)⁻¹ from its diagonal blocks to the right.

    columns: (count, stretches, (reach + 1) wide, wide) those of L, from its diagonal blocks down
    """
    wide = columns.shape[-1]
    inverse = np.linalg.inv(columns[..., :wide, :])
    down = columns[..., wide:, :] @ inverse
    own = np.swapaxes(inverse, -1, -2) @ inverse
    out = np.empty_like(np.swapaxes(columns, -1, -2))
    # What is known of S⁻¹ around the next block: beyond the last row L is an identity, and reaches nothing.
    window = np.zeros((*down.shape[1:-1], down.shape[-2]))
    for k in range(len(columns) - 1, -1, -1):
        below = -window @ down[k]
        out[k, ..., wide:] = np.swapaxes(below, -1, -2)
        out[k, ..., :wide] = own[k] - np.swapaxes(down[k], -1, -2) @ below
        window[..., wide:, wide:] = window[..., :-wide, :-wide].copy()
        window[..., :wide, :] = out[k, ..., :-wide]
        window[..., wide:, :wide] = np.swapaxes(out[k, ..., wide:-wide], -1, -2)
    return out


def _selected_inverse(blocks: Floats) -> Floats:
    """The inverse of a block tridiagonal matrix on its three diagonals, in the same shape.

    blocks: (stretches, count, wide, 3 wide), rows of blocks left of, on and right of the diagonal. With
    P_k = (A_kk − A_{k,k−1} P_{k−1} A_{k−1,k})⁻¹, going forth, the inverse has, going back, the blocks
    Z_{k+1,k} = −Z_{k+1,k+1} A_{k+1,k} P_k, Z_{k,k+1} = −P_k A_{k,k+1} Z_{k+1,k+1} and
    Z_kk = P_k − Z_{k,k+1} A_{k+1,k} P_k.
    """
    wide = blocks.shape[2]
    # Block by block in memory, all stretches of one together.
    left, middle, right = (
        np.ascontiguousarray(np.moveaxis(blocks[..., i * wide : (i + 1) * wide], 1, 0)) for i in range(3)
    )
    pivots, down = np.empty_like(middle), np.empty_like(middle[1:])
    pivots[0] = np.linalg.inv(middle[0])
    for k in range(1, len(middle)):
        down[k - 1] = left[k] @ pivots[k - 1]
        pivots[k] = np.linalg.inv(middle[k] - down[k - 1] @ right[k - 1])
    up = pivots[:-1] @ right[:-1]
    out = np.zeros_like(blocks)
    before, on, after = (out[..., i * wide : (i + 1) * wide] for i in range(3))
    here = on[:, -1] = pivots[-1]
    for k in range(len(middle) - 2, -1, -1):
        beyond = up[k] @ here
        before[:, k + 1], after[:, k] = -here @ down[k], -beyond
        here = on[:, k] = pivots[k] + beyond @ down[k]
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
        number = -(-self.size // self.wide)
        made = np.zeros((len(entries), number, self.wide, 3 * self.wide))
        made[:, self.block, self.row, self.column] = entries
        # An identity beyond the last row keeps the last block invertible and changes nothing else.
        padding = np.arange(self.size, number * self.wide) % self.wide
        made[:, -1, padding, self.wide + padding] = 1.0
        return made

    def entries(self, blocks: Floats) -> Floats:
        """(stretches, …) from all blocks."""
        return np.asarray(blocks[:, self.block, self.row, self.column])


@dataclass(frozen=True, eq=False)
class _CovariancePlaces:
    """What of the inverse of S belongs to a pair of rows (k, k + o).

    rows, offsets: (pairs,) k and o; products: for D D, D W, W D and W W, (samples, pairs)
        the sums over the pairs at a sample
    """

    rows: Ints
    offsets: Ints
    products: tuple[csr_array, ...]


@lru_cache(maxsize=16)
def _covariance_places(grid: Grid) -> _CovariancePlaces:
    offsets, k = np.nonzero(np.add.outer(np.arange(grid.reach + 1), np.arange(grid.rows)) < grid.rows)
    sums = []
    for products in grid.products:
        pointers = np.arange(0, len(k) * grid.width + 1, grid.width)
        shape = len(k), grid.samples
        sums.append(
            csr_array(
                csr_array((products[k, offsets].ravel(), grid.window[k].ravel(), pointers), shape=shape).T
            )
        )
    return _CovariancePlaces(k, offsets, tuple(sums))


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
    # Rows at the ends look further than the others, and along one side: blocks need not be as wide for it.
    group = next(g for g in count(-(-_WIDE // d)) if np.max(np.abs(column // g - row // g)) <= 1)
    size, wide = grid.rows * d, group * d
    rows, columns = _of_states(row, column, d)
    weights = csr_array(
        (grid.integral[row, place], (sample, np.arange(len(row)))), shape=(grid.samples, len(row))
    )
    return _FlowPlaces(
        row,
        place,
        sample,
        _Blocks.of(rows, columns, size, wide),
        _Blocks.of(np.swapaxes(columns, 1, 2), np.swapaxes(rows, 1, 2), size, wide),
        weights,
    )


def _of_states(rows: Ints, columns: Ints, d: int) -> tuple[Ints, Ints]:
    """(n, d, d) rows and columns of the entries of blocks (n,)."""
    state, shape = np.arange(d), (len(rows), d, d)
    row, column = (rows * d)[:, None, None] + state[:, None], (columns * d)[:, None, None] + state
    return np.broadcast_to(row, shape), np.broadcast_to(column, shape)
