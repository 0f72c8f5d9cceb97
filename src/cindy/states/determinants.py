"""Determinants: how the normalisation of the likelihood changes with the coefficients of a law.

If the rows of a law have the residual r, the density of the measurements is

    −2 log p(Ξ) = rᵀ S⁻¹ r + log det S − 2 log |det B₂|,     B = D − W J(Ξ),   S = B Σ Bᵀ + K .

Least squares on the white rows minimises the first term alone. Where the unexplained motion q is small
beside the noise, the two determinants cancel. Where random kicks drive the motion they do not: W averages
over samples that a kick has already moved, and least squares mistakes this for drift. The gradient is

    g_ki = −2 tr(S⁻¹ W E_ki Σ Bᵀ) + 2 tr(B₂⁻¹ W E_ki),       E_ki at sample m: e_i ∇ψ_k(x_m)ᵀ
         = Σ_m Σ_j ∂ψ_k/∂x_j(x_m) M_m[j, i],   M_m = 2 (B₂⁻¹ W)_mm − 2 (Σ Bᵀ S⁻¹ W)_mm .

The blocks M_m hold no candidate term, so that they serve all candidates. The covariance K of the kicks
(`Forcing`) is held fixed: since E r rᵀ = S the score stays unbiased, unless K depends on the states
(`weight_lean`). As Σ → 0, g tends to q times Itô's correction; as q → 0 it vanishes. The cost is linear in
the number of samples:

1. S = L Lᵀ with the banded L that the fit has already computed. From the last block of columns k to the
   first, with n the rows below that it reaches and G = L_nk L_kk⁻¹, Z_nk = −Z_nn G and
   Z_kk = L_kk⁻ᵀ L_kk⁻¹ + Gᵀ Z_nn G are the blocks of S⁻¹ near its diagonal (Takahashi, Fagan, Chin 1973).
2. B₂ is block tridiagonal and not symmetric. Its blocks are eliminated from the first to the last, and the
   blocks of its inverse follow on the way back by the same recursion.
3. For each sample, add the blocks of all rows that use it, multiplied by the weights of the grid.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import lru_cache
from itertools import count

import numpy as np
from scipy.sparse import csr_array

from cindy._arrays import Floats, Ints
from cindy.states.grid import Grid
from cindy.states.linearised import Factor, Linearised

Sums = tuple[Floats, Floats, Floats]
"""What `sums_at_samples` returns: noise and determinants share it."""

_COLUMNS = 40
"""Columns of L that one step of the recursion eliminates. Timed for 1 to 24 states: with fewer columns the
loop has too many steps, with more it computes entries of S⁻¹ that nothing uses."""
_WIDE = 12
"""Least width of the blocks of B₂: a smaller block takes as much time, and there are more of them."""


def determinant_slopes(linear: Linearised, variance: Floats, sums: Sums) -> Floats:
    """(stretches, samples, states j, states i): M, the derivative of both determinants by J_m[i, j].

    sums: of S⁻¹ at the samples, from `sums_at_samples`
    """
    with np.errstate(all="ignore"):  # states may have diverged
        return 2.0 * (_flow_slopes(linear) - _noise_slopes(linear, variance, sums))


def weight_lean(
    linear: Linearised, error: Floats, near: Floats, inverted: Callable[[Floats], Floats]
) -> Floats | None:
    """(stretches, rows, states) u: the bias of rows weighed by q(x); None where q is constant.

    A kick of step j moves the later states x_m, and with them the covariance K_m that weighs the rows. The
    expectation of Xᵀ S⁻¹ r then has, besides the gradient of the determinants, the term −Xᵀ S⁻¹ u with
    u_m = K'_m Σ_{j<m} (S⁻¹)_mj K_j. It tends to q' σ²/q for little noise and to q' h/2 for much noise. To
    first order in the step, the sum over earlier rows equals that over later rows, so that half of the sum
    over all other rows is taken.

    inverted: a function that applies S⁻¹ to rows
    """
    forced = linear.forced
    if forced is None or forced.slope is None:
        return None
    own = near[:, _covariance_places(linear.grid).offsets == 0]
    kicks, lean = forced.size**2 * error, np.zeros_like(forced.size)
    for a in range(kicks.shape[2]):
        if not forced.slope[..., a].any():
            continue
        single = np.zeros_like(kicks)
        single[..., a] = kicks[..., a]
        from_others = inverted(single) - own[..., a] * kicks[..., a, None]
        lean += forced.slope[..., a] * error * from_others / 2.0
    return lean


def inverse_blocks(linear: Linearised, factors: Sequence[Factor]) -> tuple[Floats, Ints, Ints]:
    """Step 1. S⁻¹ near its diagonal: blocks (stretches, pairs, d, d) of rows k and k + o; and k and o.

    factors: L of every stretch
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


def inverse_at_samples(linear: Linearised, sums: Sums) -> Floats:
    """(stretches, samples, states, states): diagonal blocks of Bᵀ S⁻¹ B, for the traces of noise."""
    return _collected(sums, linear.jacobian)


def inverse_at_steps(linear: Linearised, near: Floats) -> Floats:
    """(stretches, rows, states, states): Aᵀ S⁻¹ A + Jᵀ S⁻¹ J h²/12, for the traces of kicks."""
    own = near[:, _covariance_places(linear.grid).offsets == 0]
    forced = linear.forced
    if forced is None:
        return own
    jacobian = forced.jacobian[:, : own.shape[1]]
    moment = np.swapaxes(jacobian, -1, -2) @ own @ jacobian * (forced.grid.step**2 / 12.0)[:, None, None]
    return _collected(sums_at_samples(forced.grid.steps, near), forced.jacobian)[:, : own.shape[1]] + moment


def _collected(sums: Sums, jacobian: Floats) -> Floats:
    """The diagonal blocks of Mᵀ S⁻¹ M for M = D − W J."""
    differences, mixed, integral = sums
    crossed = mixed @ jacobian
    quadratic = np.swapaxes(jacobian, -1, -2) @ integral @ jacobian
    return np.asarray(differences - crossed - np.swapaxes(crossed, -1, -2) + quadratic)


def sums_at_samples(grid: Grid, near: Floats) -> Sums:
    """Step 3. (stretches, samples, d, d) each: the diagonal blocks of Dᵀ S⁻¹ D, Dᵀ S⁻¹ W and Wᵀ S⁻¹ W."""
    d = near.shape[-1]
    places = _covariance_places(grid)
    shape = grid.samples, len(near), d, d
    flat = np.moveaxis(near, 0, 1).reshape(len(places.offsets), -1)
    both, mixed, integral = (
        (direct @ flat).reshape(shape) + np.swapaxes((mirrored @ flat).reshape(shape), -1, -2)
        for direct, mirrored in places.products
    )
    return np.moveaxis(both, 0, 1), np.moveaxis(mixed, 0, 1), np.moveaxis(integral, 0, 1)


def _noise_slopes(linear: Linearised, variance: Floats, sums: Sums) -> Floats:
    """(Σ Bᵀ S⁻¹ W)_mm."""
    _, mixed, integral = sums
    pulled = mixed - np.swapaxes(linear.jacobian, -1, -2) @ integral
    if linear.record.correlation is not None:
        return np.asarray(linear.record.covariance(variance) @ pulled)
    return np.asarray((linear.record.spread * variance)[..., None] * pulled)


def _flow_slopes(linear: Linearised) -> Floats:
    """Step 2. (B₂⁻¹ W)_mm, zero at the first samples, whose columns B₂ does not have."""
    grid, d = linear.record.grid, linear.record.states
    places = _flow_places(grid, d)
    blocks = -grid.integral[places.row, places.place, None, None] * linear.jacobian[:, places.sample]
    blocks[..., np.arange(d), np.arange(d)] += grid.difference[places.row, places.place, None]
    size, wide = grid.rows * d, places.wide
    parts = np.zeros((len(blocks), -(-size // wide), wide, 3 * wide))
    parts[:, *places.direct] = blocks
    # An identity beyond the last row keeps the last block invertible and changes nothing else.
    padding = np.arange(size, parts.shape[1] * wide) % wide
    parts[:, -1, padding, wide + padding] = 1.0
    near = _selected_inverse(parts)[:, *places.transposed]
    near = np.moveaxis(near, 0, 1).reshape(len(places.row), -1)
    return np.moveaxis((places.sums @ near).reshape(grid.samples, len(blocks), d, d), 0, 1)


def _inverse_of_product(columns: Floats) -> Floats:
    """(count, stretches, wide, (reach + 1) wide): blocks of (L Lᵀ)⁻¹ from the diagonal to the right.

    columns: (count, stretches, (reach + 1) wide, wide) blocks of L from the diagonal down
    """
    wide = columns.shape[-1]
    inverse = np.linalg.inv(columns[..., :wide, :])
    down = columns[..., wide:, :] @ inverse
    own = np.swapaxes(inverse, -1, -2) @ inverse
    out = np.empty_like(np.swapaxes(columns, -1, -2))
    # Z_nn, the part of S⁻¹ that the next block reaches. It is zero below the last row of L.
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

    blocks: (stretches, count, wide, 3 wide), each row of blocks from left of the diagonal to right of it

    With the pivots P_k = (A_kk − A_{k,k−1} P_{k−1} A_{k−1,k})⁻¹, computed forwards, the inverse follows
    backwards: Z_{k+1,k} = −Z_{k+1,k+1} A_{k+1,k} P_k, Z_{k,k+1} = −P_k A_{k,k+1} Z_{k+1,k+1} and Z_kk = P_k −
    Z_{k,k+1} A_{k+1,k} P_k.
    """
    wide = blocks.shape[2]
    # The recursion visits one block of all stretches at a time, so these must be contiguous in memory.
    lower, middle, upper = (
        np.ascontiguousarray(np.moveaxis(blocks[..., i * wide : (i + 1) * wide], 1, 0)) for i in range(3)
    )
    pivots, down = np.empty_like(middle), np.empty_like(middle[1:])
    pivots[0] = np.linalg.inv(middle[0])
    for k in range(1, len(middle)):
        down[k - 1] = lower[k] @ pivots[k - 1]
        pivots[k] = np.linalg.inv(middle[k] - down[k - 1] @ upper[k - 1])
    up = pivots[:-1] @ upper[:-1]
    out = np.zeros_like(blocks)
    before, on, after = (out[..., i * wide : (i + 1) * wide] for i in range(3))
    diagonal = on[:, -1] = pivots[-1]
    for k in range(len(middle) - 2, -1, -1):
        product = up[k] @ diagonal
        before[:, k + 1], after[:, k] = -diagonal @ down[k], -product
        diagonal = on[:, k] = pivots[k] + product @ down[k]
    return out


@dataclass(frozen=True, eq=False)
class _CovariancePlaces:
    """The pairs of rows (k, k + o) that share samples, and how their blocks add up at the samples.

    rows, offsets: (pairs,) k and o
    products: (samples, pairs) twice for D D, D W and W W: the products of weights of row k and row k + o at
        each sample; and those of row k + o and row k, o > 0, by which transposed blocks are multiplied
    """

    rows: Ints
    offsets: Ints
    products: tuple[tuple[csr_array, csr_array], ...]


@lru_cache(maxsize=16)
def _covariance_places(grid: Grid) -> _CovariancePlaces:
    offsets, k = np.nonzero(np.add.outer(np.arange(grid.reach + 1), np.arange(grid.rows)) < grid.rows)

    def at_samples(products: Floats) -> csr_array:
        """The products that are not zero, (samples, pairs)."""
        pointers = np.arange(0, len(k) * grid.width + 1, grid.width)
        entries = products[k, offsets].ravel(), grid.window[k].ravel(), pointers
        matrix = csr_array(csr_array(entries, shape=(len(k), grid.samples)).T)
        matrix.eliminate_zeros()
        return matrix

    later = (np.arange(grid.reach + 1) > 0)[:, None]
    dd, dw, wd, ww = grid.products
    pairs = (dd, dd), (dw, wd), (ww, ww)
    return _CovariancePlaces(k, offsets, tuple((at_samples(a), at_samples(b * later)) for a, b in pairs))


@dataclass(frozen=True, eq=False)
class _FlowPlaces:
    """Where the weights of B₂ stand in its blocks, and how its inverse is summed with the integral's weights.

    row, place, sample: of every weight of the grid at a sample that B₂ has
    wide: of the blocks of B₂ on its three diagonals
    direct, transposed: (block, row, column) of these weights in B₂, and in its transpose
    sums: (samples, weights) the integral's weights, at their samples
    """

    row: Ints
    place: Ints
    sample: Ints
    wide: int
    direct: tuple[Ints, Ints, Ints]
    transposed: tuple[Ints, Ints, Ints]
    sums: csr_array


@lru_cache(maxsize=16)
def _flow_places(grid: Grid, d: int) -> _FlowPlaces:
    row, place = np.nonzero(grid.window >= grid.order)
    sample = grid.window[row, place]
    column = sample - grid.order
    # The narrowest blocks for which B₂ is block tridiagonal; rows at the ends reach further, but to one side.
    group = next(g for g in count(-(-_WIDE // d)) if np.max(np.abs(column // g - row // g)) <= 1)
    wide, shape = group * d, (len(row), d, d)
    rows = np.broadcast_to((row * d)[:, None, None] + np.arange(d)[:, None], shape)
    columns = np.broadcast_to((column * d)[:, None, None] + np.arange(d), shape)
    turned = np.swapaxes(columns, 1, 2), np.swapaxes(rows, 1, 2)
    direct, transposed = (
        (r // wide, r % wide, c - (r // wide - 1) * wide) for r, c in ((rows, columns), turned)
    )
    weights = csr_array(
        (grid.integral[row, place], (sample, np.arange(len(row)))), shape=(grid.samples, len(row))
    )
    return _FlowPlaces(row, place, sample, wide, direct, transposed, weights)
