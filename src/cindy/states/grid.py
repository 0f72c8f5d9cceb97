"""Grid: differences of samples, and the integrals that they must equal, on one set of times.

    x(t_{k+1}) − x(t_k) = ∫ F dt,      and for second order, with a hat over two steps,
    (x₂ − x₁)/h₁ − (x₁ − x₀)/h₀ = ∫ hat(t) F dt / mean step

1. F is taken for the polynomial through the nine samples around a row, in Legendre polynomials.
2. Its integral against the kernel follows from Gauss-Legendre quadrature, exact for these degrees.
3. Where a grid is so uneven that the weights would magnify noise, the degree is lowered row by row.

A row is a few weights at neighbouring samples, so that products with grids take time linear in the samples,
and covariances of rows are banded.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property, lru_cache

import numpy as np
from numpy.lib.stride_tricks import as_strided
from numpy.polynomial import legendre
from scipy.sparse import csr_array

from cindy._arrays import Floats, Ints

__all__ = ["Grid", "grid_of", "map_grid"]


@dataclass(frozen=True)
class _Nodes:
    """How integrals over steps are formed from values at instants."""

    points: int = 9
    """Samples under a local polynomial: with 6 its error shows as false terms at 1 % noise (chaotic)."""
    nodes: int = 6
    """Of the Gauss-Legendre rule: exact to degree 11, a polynomial of degree 8 times a straight line."""
    sparse: float = 0.5
    """Share of the entries of a pair of rows below which zeros are skipped, which then takes less time."""
    in_step: int = 100_000
    """Numbers of which covariances of rows are made at once: what they take stays in a cache."""
    few_alike: int = 40
    """Rows alike for which going along them in step is worth it."""
    swell: float = 10.0
    """Integration weights whose sizes add up to more than this times the step magnify noise: lower degree.

    One-sided rows at the ends of an even grid reach 8."""


_NODES_OF = _Nodes()


@dataclass(frozen=True, eq=False)
class Grid:
    """The equations of motion on the times of a stretch: difference @ x = integral @ F(x).

    Row k takes the difference of order r that removes 1, …, t^(r−1) at samples k … k + r,
    and the same difference of the r-fold integral of F, where F stands for the polynomials
    through the samples around. Both are banded: row k looks at `width` samples from start[k] on.

    t: (samples,) times; order: r, 1 or 2
    start: (rows,) first sample that each row looks at
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
        """(rows, width): the samples that each row looks at."""
        return self.start[:, None] + np.arange(self.width)

    @cached_property
    def reach(self) -> int:
        """The largest distance of two rows that look at a common sample."""
        last = np.searchsorted(self.start, self.start + self.width - 1, side="right") - 1
        return int(np.max(last - np.arange(self.rows)))

    @cached_property
    def turns(self) -> tuple[Floats, Floats]:
        """Orthogonal mixes of the rows that look at the first samples, and of those at the last.

        Such rows all look at the same samples and reach further than those between: of nine samples 12 rows,
        where others reach 8. Mixed by the orthogonal factor of their weights each looks at one sample less
        than the one before it, and none reaches more than 9. Rows of equal steps only, as model errors of one
        size must stay independent; others are not mixed.
        """
        turns = []
        for ends, far in ((self.start == self.start[0], -1), (self.start == self.start[-1], 1)):
            count = int(np.sum(ends))
            if 2 * count > self.rows or np.ptp(self.step[ends]) > 1e-9 * self.step[0]:
                count = 1
            rows = self.integral[:count] if far < 0 else self.integral[-count:]
            turns.append(np.linalg.qr(rows[:, ::far][:, : count - 1], mode="complete")[0].T[::far])
        return turns[0], turns[1]

    def turned(self, rows: Floats, *, back: bool = False) -> Floats:
        """Rows (stretches, rows, …) with those at the ends mixed, written over them, or mixed back."""
        for turn, far in zip(self.turns, (False, True), strict=True):
            ends = rows[:, -len(turn) :] if far else rows[:, : len(turn)]
            ends[...] = np.einsum("kr,sr...->sk...", turn.T if back else turn, ends)
        return rows

    @cached_property
    def narrow(self) -> Grid:
        """The same equations with the rows at the ends mixed: their covariance has a narrower band."""
        difference, integral = (self.turned(w[None].copy())[0] for w in (self.difference, self.integral))
        integral[np.abs(integral) < 1e-12 * np.abs(integral).max()] = 0.0
        return _Narrow(self.t, self.order, self.start, difference, integral, self.step)

    @cached_property
    def products(self) -> tuple[Floats, Floats, Floats, Floats]:
        """(rows, reach + 1, width) each: products of weights of row k and row k + o at the samples of row k.

        difference × difference, difference × integral, integral × difference, integral × integral
        """
        shape = (self.rows, self.reach + 1, self.width)
        other = {"d": np.zeros(shape), "w": np.zeros(shape)}
        place = np.arange(self.width)
        for o in range(self.reach + 1):
            count = self.rows - o
            at = place - (self.start[o:] - self.start[:count])[:, None]
            inside = (at >= 0) & (at < self.width)
            at = np.clip(at, 0, self.width - 1)
            for key, weights in (("d", self.difference), ("w", self.integral)):
                other[key][:count, o] = np.where(inside, np.take_along_axis(weights[o:], at, axis=1), 0.0)
        d, w = self.difference[:, None, :], self.integral[:, None, :]
        return d * other["d"], d * other["w"], w * other["d"], w * other["w"]

    @cached_property
    def alike(self) -> tuple[slice, Ints, Floats]:
        """Rows whose weights, and those of the rows they reach, are one row's, shifted; and their products.

        The products are (offsets, used), without the offsets that only rows at the ends reach; `used` are
        those of the 4 · width places, kind by kind and sample by sample, at which any are not zero. No rows
        are alike on an uneven grid.
        """
        # On an even grid all rows but those at the ends are one row, shifted: one product of matrices
        # serves all of them.
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
        # A sparse law couples few of many states: entries that are zero at every sample are skipped.
        entries = np.flatnonzero(kinds.any(axis=(0, 1, 2)))
        sparse = len(entries) < _NODES_OF.sparse * d * d
        some = np.ascontiguousarray(kinds[..., entries]) if sparse else kinds
        at_once = max(_NODES_OF.in_step // max(len(used) * some.shape[-1], 1), 1)
        for begin in range(rows.start, rows.stop, at_once):
            at = slice(begin, min(begin + at_once, rows.stop))
            first = int(self.start[begin])
            for c in range(len(band)):
                # A view in which row k begins one sample after row k − 1, without a copy.
                seen = some[:, c, first : first + at.stop - at.start + self.width - 1]
                sums = weights @ _shifted(seen, self.width, used)
                if sparse:
                    whole = np.zeros((len(sums), at.stop - at.start, d * d))
                    whole[..., entries] = sums.reshape(len(sums), -1, len(entries))
                    sums = whole
                _enter(band[c : c + 1, at], sums.reshape(len(sums), 1, -1, d, d))
        for at in (slice(0, rows.start), slice(rows.stop, self.rows)):
            if at.stop > at.start:
                near = zip(self.products, kinds[:, :, self.window[at]], strict=True)
                sums = sum(products[at] @ kind for products, kind in near)
                _enter(band[:, at], np.moveaxis(sums, 2, 0).reshape(-1, *sums.shape[:2], d, d))
        return band

    @cached_property
    def steps(self) -> Grid:
        """How what happens within the steps reaches the rows: weights of steps in the place of samples.

        A jump δ of the states within step j moves F by J δ from then on. Row k has the integral of F over its
        step, and takes the sum over the samples behind the jump for it: it is wrong by C_kj J δ, C_kj being
        the time within step k behind the middle of step j less the weights of those samples. So D stands for
        the jump itself and −W for C. There is one step more than there are, so that shapes stay.
        """
        k, place = np.arange(self.rows), np.arange(self.width)
        own = k - self.start
        behind = np.cumsum(self.integral[:, ::-1], axis=1)[:, ::-1]
        length = behind[:, :1]
        after = np.concatenate([behind[:, 1:], np.zeros((self.rows, 1))], axis=1)
        carried = np.where(place < own[:, None], length, 0.0) - after
        carried[k, own] += length[:, 0] / 2.0
        carried[:, -1] = 0.0
        jump = np.zeros((self.rows, self.width))
        jump[k, own] = 1.0
        return Grid(self.t, self.order, self.start, jump, -carried, self.step)

    def coarser(self, degree: int) -> Floats:
        """(rows, width): the integrals by polynomials of lower degree through the same samples."""
        alike = self.alike[0]
        degree = min(degree, self.width - 1)
        if alike.stop > alike.start and self.rows > 4 * self.width:
            t = self.t[: 3 * self.width]
            few = _of_degree(t, _starts(len(t), self.order), self.width, degree, self.order)
            weights = _tiled(few, self.rows, self.width)
        else:
            weights = _of_degree(self.t, self.start, self.width, degree, self.order)
        return weights * (self.step[:, None] ** (1 / 3) if self.order == 2 else 1.0)

    @cached_property
    def by_interval(self) -> tuple[Floats, ...]:
        """(rows, width) each: the integrals step by step, one of order 1 and two of order 2, which add up."""
        if self.order == 1:
            return (self.integral,)
        weights = _of_degree(self.t, self.start, self.width, self.width - 1, self.order, steps=1)
        first = weights * self.step[:, None] ** (1 / 3)
        return first, self.integral - first

    @cached_property
    def _difference_matrix(self) -> csr_array:
        return self._matrix(self.difference)

    @cached_property
    def _integral_matrix(self) -> csr_array:
        return self._matrix(self.integral)

    def _matrix(self, weights: Floats) -> csr_array:
        pointers = np.arange(0, weights.size + 1, self.width)
        matrix = csr_array(
            (weights.flatten(), self.window.flatten(), pointers), shape=(self.rows, self.samples)
        )
        matrix.eliminate_zeros()
        return matrix

    def differences(self, values: Floats) -> Floats:
        """(stretches, rows, …) of values (stretches, samples, …)."""
        return _along(self._difference_matrix, values)

    def integrals(self, values: Floats) -> Floats:
        """(stretches, rows, …) of values (stretches, samples, …)."""
        return _along(self._integral_matrix, values)

    def differences_back(self, values: Floats) -> Floats:
        """The transpose of `differences`: from rows to samples."""
        return _along(self._difference_back, values)

    def integrals_back(self, values: Floats) -> Floats:
        """The transpose of `integrals`."""
        return _along(self._integral_back, values)

    @cached_property
    def _difference_back(self) -> csr_array:
        return csr_array(self._difference_matrix.T)

    @cached_property
    def _integral_back(self) -> csr_array:
        return csr_array(self._integral_matrix.T)


class _Narrow(Grid):
    """A grid whose rows at the ends look at fewer samples than their windows have."""

    @cached_property
    def reach(self) -> int:
        seen = (self.difference != 0.0) | (self.integral != 0.0)
        first = self.start + np.argmax(seen, axis=1)
        last = self.start + self.width - 1 - np.argmax(seen[:, ::-1], axis=1)
        first = np.minimum.accumulate(first[::-1])[::-1]
        return int(np.max(np.searchsorted(first, last, side="right") - 1 - np.arange(self.rows)))


def _along(matrix: csr_array, values: Floats) -> Floats:
    """A matrix applied along the second axis."""
    moved = np.moveaxis(values, 1, 0)
    made = matrix @ np.ascontiguousarray(moved.reshape(len(moved), -1))
    return np.moveaxis(np.asarray(made).reshape(len(made), *moved.shape[1:]), 0, 1)


def _shifted(kinds: Floats, width: int, used: Ints) -> Floats:
    """(used, rows · entries): what each row meets at some of its kinds · width places, row by row."""
    count, samples, entries = kinds.shape
    step = kinds.itemsize
    along = (kinds.strides[0], entries * step, step)
    places = as_strided(kinds, (count, width, (samples - width + 1) * entries), along)
    return np.asarray(places[np.divmod(used, width)])


def _enter(band: Floats, blocks: Floats) -> None:
    """Blocks (reach + 1, stretches, rows, d, d) of row k with row k + o, into the lower band of S.

    band: (stretches, rows, d, kd + 1)
    """
    d = blocks.shape[-1]
    for a in range(d):
        band[..., a, : d - a] = blocks[0][..., a, a:]
    # Element (a, b) of block o lies at o · d + b − a of column a.
    step = band.itemsize
    along = (d * step, *band.strides[:2], band.strides[2] - step, step)
    beyond = as_strided(band[..., d:], (len(blocks) - 1, *blocks.shape[1:]), along)
    beyond[...] = blocks[1:]


def grid_of(t: Floats, order: int = 1) -> Grid:
    """The grid of these times; equal grids, up to a shift in time, are made once."""
    steps = np.diff(t)
    # Equal up to the rounding of the times themselves, which large offsets such as dates make coarse.
    even = np.ptp(steps) <= 1e-9 * steps.max(initial=0.0) + 8 * np.finfo(float).eps * np.abs(t).max()
    if even:
        return _uniform(len(t), float(f"{(t[-1] - t[0]) / (len(t) - 1):.12e}"), order)
    return _uneven((t - t[0]).tobytes(), order)


@lru_cache(maxsize=64)
def map_grid(samples: int) -> Grid:
    """The same for a map: the next sample equals F at this one."""
    start = np.arange(samples - 1)
    difference, integral = np.tile([0.0, 1.0], (samples - 1, 1)), np.tile([1.0, 0.0], (samples - 1, 1))
    return Grid(np.arange(float(samples)), 1, start, difference, integral, np.ones(samples - 1))


@lru_cache(maxsize=64)
def _uniform(samples: int, step: float, order: int) -> Grid:
    return _made(step * np.arange(float(samples)), order, even=True)


@lru_cache(maxsize=64)
def _uneven(times: bytes, order: int) -> Grid:
    return _made(np.frombuffer(times, dtype=np.float64), order, even=False)


def _made(t: Floats, order: int, *, even: bool) -> Grid:
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


def _starts(samples: int, order: int) -> Ints:
    """(rows,) the first of the samples that each row looks at."""
    width = min(_NODES_OF.points, samples)
    return np.clip(np.arange(samples - order) - (width - order) // 2, 0, samples - width)


def _tiled(few: Floats, rows: int, width: int) -> Floats:
    """The weights of many rows from those of a few: away from the ends every row is the same one."""
    tiled = np.repeat(few[len(few) // 2][None], rows, axis=0)
    tiled[:width], tiled[-width:] = few[:width], few[-width:]
    return tiled


def _integrals(t: Floats, order: int) -> Floats:
    """(rows, width): weights of ∫ kernel F; the kernel is 1 over a step, or a hat over two."""
    start, width = _starts(len(t), order), min(_NODES_OF.points, len(t))
    weights = _of_degree(t, start, width, width - 1, order)
    span = t[order:] - t[:-order]
    for degree in (6, 4, 2, 1):
        # Step 3: weights of both signs that are large beside the step would turn noise into motion.
        wild = np.flatnonzero(np.abs(weights).sum(axis=1) > _NODES_OF.swell * span / order)
        if degree >= width - 1 or not len(wild):
            continue
        weights[wild] = _of_degree(t, start, width, degree, order)[wild]
    return weights


def _of_degree(
    t: Floats, start: Ints, width: int, degree: int, order: int, steps: int | None = None
) -> Floats:
    """(rows, width): weights by polynomials of a degree; over the first `steps` of a row, or all of them."""
    nodes, gauss = legendre.leggauss(_NODES_OF.nodes)
    windows = t[start[:, None] + np.arange(width)]
    centre, half = (windows[:, -1] + windows[:, 0]) / 2, (windows[:, -1] - windows[:, 0]) / 2
    basis = legendre.legvander((windows - centre[:, None]) / half[:, None], degree)
    wanted = np.zeros((len(start), degree + 1))
    for part in range(order if steps is None else steps):
        a, b = t[part : part + len(start)], t[part + 1 : part + 1 + len(start)]
        at = (a + b)[:, None] / 2 + (b - a)[:, None] / 2 * nodes
        kernel = np.ones_like(at)
        if order == 2:
            # The hat rises over the first step and falls over the second.
            kernel = (1 + nodes if part == 0 else 1 - nodes) / 2 * kernel
        values = legendre.legvander((at - centre[:, None]) / half[:, None], degree)
        wanted += np.einsum("kg,kgp->kp", gauss * kernel * (b - a)[:, None] / 2, values)
    # Weights that give the integral of the interpolating, or least-squares, polynomial: QR, since normal
    # equations would square the condition.
    q, r = np.linalg.qr(basis)
    return np.asarray((q @ np.linalg.solve(r.transpose(0, 2, 1), wanted[:, :, None]))[:, :, 0])
