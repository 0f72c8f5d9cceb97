"""Grid: differences of samples, and the integrals that they must equal, on one set of times.

    x(t_{k+1}) − x(t_k) = ∫ F dt,      and for second order, with a hat function over two steps,
    (x₂ − x₁)/h₁ − (x₁ − x₀)/h₀ = ∫ hat(t) F dt / mean step

1. F is replaced by the polynomial through the nine samples around a row, in Legendre polynomials.
2. Its integral against the kernel follows from Gauss-Legendre quadrature, exact for these degrees.
3. Where a grid is so uneven that the weights would amplify noise, the degree is lowered row by row. The
   polynomial then passes through the nearest samples only, unless that amplifies noise too.

A row consists of a few weights at neighbouring samples. So products with the grid cost time linear in the
samples, and the covariance of the rows is banded.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property, lru_cache

import numpy as np
from numpy.lib.stride_tricks import as_strided
from numpy.polynomial import legendre
from numpy.typing import NDArray
from scipy.sparse import csr_array

from cindy._arrays import Floats, Ints


@dataclass(frozen=True)
class _Nodes:
    """How integrals over steps, and covariances of rows, are computed."""

    points: int = 9
    """Samples that a local polynomial passes through. With 6 its error makes false terms at 1 % noise
    (benchmark: chaotic)."""
    nodes: int = 6
    """Nodes of the Gauss-Legendre rule, exact to degree 11: a polynomial of degree 8 times a straight
    line."""
    sparse: float = 0.5
    """Share of nonzero entries in the blocks of the covariance below which skipping the zeros is faster."""
    in_step: int = 100_000
    """Numbers in the blocks of the covariance that are computed at once, so that they fit in the cache."""
    few_alike: int = 40
    """Least number of equal rows for which one product of matrices for all of them is faster."""
    swell: float = 10.0
    """The degree is lowered if the absolute weights of an integral add up to more than this times the step.
    One-sided rows at the ends of an even grid reach 8."""


_NODES_OF = _Nodes()


@dataclass(frozen=True, eq=False)
class Grid:
    """The equations of motion on the times of a stretch: difference @ x = integral @ F(x).

    Row k takes the difference of order r that removes 1, …, t^(r−1) at samples k … k + r,
    and the same difference of the r-fold integral of F, where F stands for the polynomials
    through the samples around. Both are banded: row k has weights at `width` samples from start[k] on.

    t: (samples,) times; order: r, 1 or 2
    start: (rows,) first sample that each row uses
    difference, integral: (rows, width) weights of those samples
    step: (rows,) length of time that a row stands for
    """

    t: Floats
    order: int
    start: Ints
    difference: Floats
    integral: Floats
    step: Floats

    @property
    def rows(self) -> int:
        return len(self.start)

    @property
    def samples(self) -> int:
        return len(self.t)

    @property
    def width(self) -> int:
        return int(self.integral.shape[1])

    @cached_property
    def window(self) -> Ints:
        """(rows, width): the samples that each row uses."""
        return self.start[:, None] + np.arange(self.width)

    @cached_property
    def reach(self) -> int:
        """The largest distance of two rows that share a sample."""
        last = np.searchsorted(self.start, self.start + self.width - 1, side="right") - 1
        return int(np.max(last - np.arange(self.rows)))

    @cached_property
    def turns(self) -> tuple[Floats, Floats]:
        """Orthogonal matrices that mix the rows at the first and at the last samples, to narrow the band.

        All rows at one end use the same samples and reach further than the rows between, 12 rows in place of
        8 for nine samples. Mixed by the orthogonal factor of their weights, each uses one sample less than
        the row before it, and none reaches more than 9 rows. Only rows of equal steps are mixed, so that
        equal model errors stay independent.
        """
        turns = []
        for ends, direction in ((self.start == self.start[0], -1), (self.start == self.start[-1], 1)):
            count = int(np.sum(ends))
            if 2 * count > self.rows or np.ptp(self.step[ends]) > 1e-9 * self.step[0]:
                count = 1
            rows = self.integral[:count] if direction < 0 else self.integral[-count:]
            turns.append(
                np.linalg.qr(rows[:, ::direction][:, : count - 1], mode="complete")[0].T[::direction]
            )
        return turns[0], turns[1]

    def turned(self, rows: Floats, *, back: bool = False) -> Floats:
        """Rows (stretches, rows, …) mixed at the ends, or mixed back. The array is overwritten."""
        for turn, last in zip(self.turns, (False, True), strict=True):
            if len(turn) == 1:
                continue
            ends = rows[:, -len(turn) :] if last else rows[:, : len(turn)]
            ends[...] = np.einsum("kr,sr...->sk...", turn.T if back else turn, ends)
        return rows

    @cached_property
    def narrow(self) -> Grid:
        """The same equations with the rows at the ends mixed, whose covariance has a narrower band."""
        difference, integral = (self.turned(w[None].copy())[0] for w in (self.difference, self.integral))
        integral[np.abs(integral) < 1e-12 * np.abs(integral).max()] = 0.0
        return _Narrow(self.t, self.order, self.start, difference, integral, self.step)

    @cached_property
    def products(self) -> tuple[Floats, Floats, Floats, Floats]:
        """(rows, reach + 1, width) each: products of weights of row k and row k + o at the samples of row k.

        difference × difference, difference × integral, integral × difference, integral × integral
        """
        shape = (self.rows, self.reach + 1, self.width)
        reached = {"d": np.zeros(shape), "w": np.zeros(shape)}
        place = np.arange(self.width)
        for o in range(self.reach + 1):
            count = self.rows - o
            shifted = place - (self.start[o:] - self.start[:count])[:, None]
            inside = (shifted >= 0) & (shifted < self.width)
            shifted = np.clip(shifted, 0, self.width - 1)
            for key, weights in (("d", self.difference), ("w", self.integral)):
                reached[key][:count, o] = np.where(
                    inside, np.take_along_axis(weights[o:], shifted, axis=1), 0.0
                )
        d, w = self.difference[:, None, :], self.integral[:, None, :]
        return d * reached["d"], d * reached["w"], w * reached["d"], w * reached["w"]

    @cached_property
    def alike(self) -> tuple[slice, Ints, Floats]:
        """The longest run of rows that are shifted copies of one row, together with all rows they reach.

        Returns (rows, used, products). The products (offsets, used) leave out the offsets that only rows at
        the ends reach; `used` are the places, of 4 kinds times width, at which any product is not zero. An
        uneven grid has no such rows.
        """
        # On an even grid all rows except those at the ends are shifted copies of one row, so that one product
        # of matrices gives the covariances of all of them.
        same = (np.diff(self.start) == 1) & (np.abs(np.diff(self.integral, axis=0)).max(axis=1) == 0.0)
        edges = np.concatenate([[0], np.flatnonzero(~same) + 1, [self.rows]])
        longest = int(np.argmax(np.diff(edges)))
        rows = slice(int(edges[longest]), max(int(edges[longest + 1]) - self.reach, int(edges[longest])))
        if rows.stop - rows.start < _NODES_OF.few_alike:
            rows = slice(0, 0)
        weights = np.hstack([products[rows.start] for products in self.products])
        used, reached = np.flatnonzero(np.any(weights, axis=0)), np.flatnonzero(np.any(weights, axis=1))
        return rows, used, np.asarray(weights[: reached.max(initial=0) + 1, used])

    def banded(self, kinds: Floats) -> Floats:
        """(stretches, rows, d, (reach + 1) d): the lower band of M V Mᵀ, column by column, M = D − W J.

        kinds: (4, stretches, samples, d²) V, −V Jᵀ, −J V and J V Jᵀ at the samples
        """
        d = round(np.sqrt(kinds.shape[-1]))
        band = np.zeros((kinds.shape[1], self.rows, d, (self.reach + 1) * d))
        rows, used, weights = self.alike
        # A sparse law couples only a few states. Entries that are zero at every sample are skipped.
        entries = np.flatnonzero(kinds.any(axis=(0, 1, 2)))
        sparse = len(entries) < _NODES_OF.sparse * d * d
        nonzero = np.ascontiguousarray(kinds[..., entries]) if sparse else kinds
        at_once = max(_NODES_OF.in_step // max(len(used) * nonzero.shape[-1], 1), 1)
        for begin in range(rows.start, rows.stop, at_once):
            at = slice(begin, min(begin + at_once, rows.stop))
            first = int(self.start[begin])
            for c in range(len(band)):
                samples = nonzero[:, c, first : first + at.stop - at.start + self.width - 1]
                sums = weights @ _shifted(samples, self.width, used)
                if sparse:
                    whole = np.zeros((len(sums), at.stop - at.start, d * d))
                    whole[..., entries] = sums.reshape(len(sums), -1, len(entries))
                    sums = whole
                _enter(band[c : c + 1, at], sums.reshape(len(sums), 1, -1, d, d))
        for at in (slice(0, rows.start), slice(rows.stop, self.rows)):
            if at.stop > at.start:
                # In place, one kind after the other: with all at once in memory, the system took four times
                # as long to give and take that memory as the products took.
                sums = self.products[0][at] @ kinds[0][:, self.window[at]]
                for products, kind in zip(self.products[1:], kinds[1:], strict=True):
                    sums += products[at] @ kind[:, self.window[at]]
                _enter(band[:, at], np.moveaxis(sums, 2, 0).reshape(-1, *sums.shape[:2], d, d))
        return band

    @cached_property
    def steps(self) -> Grid:
        """How kicks within the steps reach the rows: a grid with weights of steps instead of samples.

        A jump δ of the states within step j changes F by J δ from then on. Row k holds the integral of F over
        its step, and approximates it by the sum over samples. The error of this sum is C_kj J δ, where C_kj
        is the time within step k after the middle of step j, less the weights of the later samples. So
        `difference` holds the jump itself and `integral` holds −C. One further step at the end keeps the
        shapes of a grid.
        """
        k, sample = np.arange(self.rows), np.arange(self.width)
        position = k - self.start
        later = np.cumsum(self.integral[:, ::-1], axis=1)[:, ::-1]
        length = later[:, :1]
        strictly_later = np.concatenate([later[:, 1:], np.zeros((self.rows, 1))], axis=1)
        carried = np.where(sample < position[:, None], length, 0.0) - strictly_later
        carried[k, position] += length[:, 0] / 2.0
        carried[:, -1] = 0.0
        jump = np.zeros((self.rows, self.width))
        jump[k, position] = 1.0
        return Grid(self.t, self.order, self.start, jump, -carried, self.step)

    def coarser(self, degree: int) -> Floats:
        """(rows, width): the integrals by polynomials of lower degree through the same samples."""
        equal_rows = self.alike[0]
        degree = min(degree, self.width - 1)
        if equal_rows.stop > equal_rows.start and self.rows > 4 * self.width:
            t = self.t[: 3 * self.width]
            few = _of_degree(t, _starts(len(t), self.order), self.width, degree, self.order)
            weights = _tiled(few, self.rows, self.width)
        else:
            weights = _of_degree(self.t, self.start, self.width, degree, self.order)
        return weights * (self.step[:, None] ** (1 / 3) if self.order == 2 else 1.0)

    @cached_property
    def by_interval(self) -> tuple[Floats, ...]:
        """(rows, width) each: the integrals over each step alone, one for order 1 and two for order 2."""
        if self.order == 1:
            return (self.integral,)
        weights = _of_degree(self.t, self.start, self.width, self.width - 1, self.order, steps=1)
        first = weights * self.step[:, None] ** (1 / 3)
        return first, self.integral - first

    @cached_property
    def _matrices(self) -> tuple[csr_array, csr_array]:
        """(rows, samples) sparse matrices of the differences and of the integrals."""
        matrices = []
        for weights in (self.difference, self.integral):
            # Fresh arrays each time, as `eliminate_zeros` writes into them.
            pointers = np.arange(0, weights.size + 1, self.width)
            entries = weights.flatten(), self.window.flatten(), pointers
            matrices.append(csr_array(entries, shape=(self.rows, self.samples)))
            matrices[-1].eliminate_zeros()
        return matrices[0], matrices[1]

    @cached_property
    def _transposes(self) -> tuple[csr_array, csr_array]:
        return csr_array(self._matrices[0].T), csr_array(self._matrices[1].T)

    def differences(self, values: Floats) -> Floats:
        """(stretches, rows, …) of values (stretches, samples, …)."""
        return _along(self._matrices[0], values)

    def integrals(self, values: Floats) -> Floats:
        """(stretches, rows, …) of values (stretches, samples, …)."""
        return _along(self._matrices[1], values)

    def differences_back(self, values: Floats) -> Floats:
        """The transpose of `differences`: from rows to samples."""
        return _along(self._transposes[0], values)

    def integrals_back(self, values: Floats) -> Floats:
        """The transpose of `integrals`."""
        return _along(self._transposes[1], values)


class _Narrow(Grid):
    """A grid whose rows at the ends use fewer samples than their windows have."""

    @cached_property
    def reach(self) -> int:
        used = (self.difference != 0.0) | (self.integral != 0.0)
        first = self.start + np.argmax(used, axis=1)
        last = self.start + self.width - 1 - np.argmax(used[:, ::-1], axis=1)
        first = np.minimum.accumulate(first[::-1])[::-1]
        return int(np.max(np.searchsorted(first, last, side="right") - 1 - np.arange(self.rows)))


def _along(matrix: csr_array, values: Floats) -> Floats:
    """The matrix applied along the second axis."""
    moved = values.swapaxes(0, 1)
    product = np.asarray(matrix @ moved.reshape(len(moved), -1))
    return product.reshape(len(product), *moved.shape[1:]).swapaxes(0, 1)


def _shifted(kinds: Floats, width: int, used: Ints) -> Floats:
    """(used, rows · entries): the values at some of the kinds · width places of each row, row by row.

    Row k begins one sample after row k − 1, so that this is a view of overlapping windows without a copy.
    """
    count, samples, entries = kinds.shape
    step = kinds.itemsize
    along = (kinds.strides[0], entries * step, step)
    places = as_strided(kinds, (count, width, (samples - width + 1) * entries), along)
    return np.asarray(places[np.divmod(used, width)])


def _enter(band: Floats, blocks: Floats) -> None:
    """Write blocks (reach + 1, stretches, rows, d, d) of row k with row k + o into the lower band of S.

    band: (stretches, rows, d, kd + 1)
    """
    d = blocks.shape[-1]
    for a in range(d):
        band[..., a, : d - a] = blocks[0][..., a, a:]
    # Element (a, b) of block o lies at o · d + b − a of column a.
    step = band.itemsize
    strides = (d * step, *band.strides[:2], band.strides[2] - step, step)
    off_diagonal = as_strided(band[..., d:], (len(blocks) - 1, *blocks.shape[1:]), strides)
    off_diagonal[...] = blocks[1:]


def grid_of(t: Floats, order: int = 1) -> Grid:
    """The grid of these times. Equal grids, up to a shift in time, are one object."""
    steps = np.diff(t)
    # Steps may differ by the rounding of the times, which is coarse if times are large, such as dates.
    even = np.ptp(steps) <= 1e-9 * steps.max(initial=0.0) + 8 * np.finfo(float).eps * np.abs(t).max()
    times = float(f"{(t[-1] - t[0]) / (len(t) - 1):.12e}") * np.arange(float(len(t))) if even else t - t[0]
    return _grid(times.tobytes(), order, bool(even))


@lru_cache(maxsize=64)
def map_grid(samples: int) -> Grid:
    """The grid of a map: the next sample equals F of the current one."""
    start = np.arange(samples - 1)
    difference, integral = np.tile([0.0, 1.0], (samples - 1, 1)), np.tile([1.0, 0.0], (samples - 1, 1))
    return Grid(np.arange(float(samples)), 1, start, difference, integral, np.ones(samples - 1))


@lru_cache(maxsize=128)
def _grid(times: bytes, order: int, even: bool) -> Grid:
    t = np.frombuffer(times, dtype=np.float64)
    rows, width = len(t) - order, min(_NODES_OF.points, len(t))
    k, start = np.arange(rows), _starts(len(t), order)
    steps = np.diff(t)
    difference = np.zeros((rows, width))
    if order == 1:
        difference[k, k - start], difference[k, k + 1 - start] = -1.0, 1.0
        span = steps
    else:
        # (x₂ − x₁)/h₁ − (x₁ − x₀)/h₀, times the mean step: 1, −2, 1 where steps are equal.
        span = (steps[:-1] + steps[1:]) / 2
        difference[k, k - start] = span / steps[:-1]
        difference[k, k + 2 - start] = span / steps[1:]
        difference[k, k + 1 - start] = -span / steps[:-1] - span / steps[1:]
    if even and rows > 4 * width:
        integral = _tiled(_integrals(t[: 3 * width], order), rows, width)
    else:
        integral = _integrals(t, order)
    if order == 2:
        integral *= span[:, None]
        span = span**3
    return Grid(t, order, start, difference, integral, np.asarray(span))


def _starts(samples: int, order: int, points: int = _NODES_OF.points) -> Ints:
    """(rows,) the first sample that each row uses."""
    width = min(points, samples)
    return np.clip(np.arange(samples - order) - (width - order) // 2, 0, samples - width)


def _tiled(few: Floats, rows: int, width: int) -> Floats:
    """The weights of many rows from those of a few, as all rows away from the ends are equal."""
    tiled = np.repeat(few[len(few) // 2][None], rows, axis=0)
    tiled[:width], tiled[-width:] = few[:width], few[-width:]
    return tiled


def _integrals(t: Floats, order: int) -> Floats:
    """(rows, width): weights of ∫ kernel F. The kernel is 1 over one step, or a hat over two."""
    start, width = _starts(len(t), order), min(_NODES_OF.points, len(t))
    weights = _of_degree(t, start, width, width - 1, order)
    span = t[order:] - t[:-order]
    for degree in (6, 4, 2, 1):
        # Step 3: large weights of both signs would amplify noise.
        wild = np.flatnonzero(_swells(weights, span / order))
        if degree >= width - 1 or not len(wild):
            continue
        every, nearest = (f(t, start, width, degree, order) for f in (_of_degree, _through_nearest))
        swells = _swells(nearest, span / order)
        weights[wild] = np.where(swells[:, None], every, nearest)[wild]
    return weights


def _swells(weights: Floats, span: Floats) -> NDArray[np.bool_]:
    """(rows,) whether the absolute weights add up to too much more than the step."""
    return np.asarray(np.abs(weights).sum(axis=1) > _NODES_OF.swell * span)


def _through_nearest(t: Floats, start: Ints, width: int, degree: int, order: int) -> Floats:
    """(rows, width): weights by polynomials of a degree through the samples nearest to each row.

    Where steps grow along a decay, the nine samples of the last row reach far back into fast motion. A
    polynomial of low degree through all of them is wrong by much more than one through the nearest few.
    """
    near = min(max(degree, order) + 1, width)
    first = _starts(len(t), order, near)
    weights = np.zeros((len(start), width))
    place = (first - start)[:, None] + np.arange(near)
    np.put_along_axis(weights, place, _of_degree(t, first, near, degree, order), axis=1)
    return weights


def _of_degree(
    t: Floats, start: Ints, width: int, degree: int, order: int, steps: int | None = None
) -> Floats:
    """(rows, width): weights by polynomials of a degree, over the first `steps` of a row or all."""
    nodes, gauss = legendre.leggauss(_NODES_OF.nodes)
    windows = t[start[:, None] + np.arange(width)]
    centre, half = (windows[:, -1] + windows[:, 0]) / 2, (windows[:, -1] - windows[:, 0]) / 2
    basis = legendre.legvander((windows - centre[:, None]) / half[:, None], degree)
    wanted = np.zeros((len(start), degree + 1))
    for step in range(order if steps is None else steps):
        a, b = t[step : step + len(start)], t[step + 1 : step + 1 + len(start)]
        times = (a + b)[:, None] / 2 + (b - a)[:, None] / 2 * nodes
        kernel = np.ones_like(times)
        if order == 2:
            # The hat rises over the first step and falls over the second.
            kernel = (1 + nodes if step == 0 else 1 - nodes) / 2 * kernel
        values = legendre.legvander((times - centre[:, None]) / half[:, None], degree)
        wanted += np.einsum("kg,kgp->kp", gauss * kernel * (b - a)[:, None] / 2, values)
    # The weights integrate the interpolating, or least-squares, polynomial. QR is used because the normal
    # equations would square the condition number.
    q, r = np.linalg.qr(basis)
    return np.asarray((q @ np.linalg.solve(r.transpose(0, 2, 1), wanted[:, :, None]))[:, :, 0])
