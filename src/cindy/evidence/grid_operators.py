"""Test functions on a grid: the operators along one axis, and rows at fronts that the grid does not resolve.

A row of the weak form is the integral of a field times a test function that is a product over the axes,
φ(x, t) = Π (1 − s_k²)^{p_k}. So one matrix for each axis suffices: along axis k the matrix of order a holds
the weights of (−1)^a ∫ φ^{(a)} g, with the derivative moved onto φ by parts.

1. `bumps` computes these matrices for an axis (`AxisRows`), `integrals` those for time as an integral from a
   free initial state.
2. `reduce` applies them from the last axis to the first, and computes each partial product once.
3. `alternating_sums` and `counted` find rows at fronts: sums over the even and over the odd samples agree
   where the grid resolves a field, and differ where it is steeper.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import pairwise
from math import ceil, floor, gamma
from typing import Literal, TypeVar

import numpy as np
import scipy.sparse
from numpy.typing import NDArray

from cindy._arrays import Floats, Ints
from cindy.calculus import divided_differences, interval_weights

Key = TypeVar("Key")


@dataclass(frozen=True)
class _Fronts:
    """When products are dense, when test functions are narrow, and when a row holds a front."""

    dense: float = 0.04
    """Share of nonzero entries above which a dense product is faster than a sparse one, on one core."""
    neighbours: int = 4
    """Samples on each side that predict a sample of an uneven grid: differences of order eight, as for the
    noise."""
    narrow: float = 0.55
    """Standard deviation s of a bump's spectrum, in radians a sample, above which every second sample is too
    few even for smooth fields: the product of a bump and a field that varies as fast as two bumps has
    exp(−(π/s − 2)²/2) of its spectrum at π, here 1e-3."""
    front: float = 6.0
    """Standard deviations of a row's noise above which its alternating sum shows a front; chance exceeds them
    once in 5e8. At 1 % noise the smooth solutions of `python -m benchmarks pde` reach 4.2 by chance, the
    shock of the inviscid Burgers equation 140."""


_FRONTS = _Fronts()


INEXACT = 1e-3
"""Error of the rows, relative to the root mean square of the target, that is allowed even without noise. Data
of solvers and images are no better, and on the twelve equations of `python -m benchmarks pde` at 1 % noise it
has no effect."""


@dataclass(frozen=True, eq=False)
class AxisRows:
    """The rows along one axis, one for each place of the test function.

    matrices: by order of the derivative that was moved onto the test function, (rows, samples)
    starts, stops: (rows,) a row uses the samples start … stop − 1, unless it wraps around
    rough: (samples, samples) what neighbours do not predict of a sample. On a grid of equal steps it is the
        identity, as alternating signs already remove the smooth part. None: no bumps, or bumps too narrow for
        alternating signs
    """

    matrices: Mapping[int, Floats]
    starts: Ints
    stops: Ints
    rough: scipy.sparse.csr_array | None = None

    @property
    def rows(self) -> int:
        return len(self.starts)

    @cached_property
    def touched(self) -> Floats:
        """(rows, samples): 1 where a row uses a sample."""
        return np.asarray(sum(abs(m) for m in self.matrices.values()) > 0, dtype=np.float64)

    def alternating(self, order: int) -> Floats:
        """(rows, samples): the weights with every second sign changed.

        On a grid of equal steps this is half the difference between the sums over even and over odd samples.
        The noise keeps its size, and the part that the grid resolves cancels. On uneven grids unequal steps
        would remain, so that the signs multiply differences of neighbours instead.
        """
        assert self.rough is not None
        samples = self.matrices[0].shape[1]
        away = np.arange(samples) - self.matrices[0].argmax(axis=1)[:, None]
        # Signs count from the centre of each bump, also across the seam of a periodic axis.
        away -= samples * np.round(away / samples).astype(np.intp)
        turned = np.where(away % 2 == 0, 1.0, -1.0) * self.matrices[order]
        # A row uses no sample beyond its own, however time is cut.
        used = self.rough.astype(bool).astype(np.float64)
        turned[self.touched @ used.T < used.sum(axis=1)] = 0.0
        return np.asarray(turned @ self.rough)


def products(matrices: Mapping[int, Floats]) -> dict[tuple[int, int], Floats]:
    """(rows, samples): products of the weights of every two orders, for covariances of independent noise."""
    return {(a, b): matrices[a] * matrices[b] for a in matrices for b in matrices if a <= b}


def bumps(
    x: Floats, *, half_width: float, power: int, orders: tuple[int, ...], spacing: float, period: float | None
) -> AxisRows:
    """Step 1. Rows of the test function (1 − s²)^power, s = (x − centre) / half_width, of unit integral.

    Row a of the derivative of order k holds the weights of ∫ φ ∂ᵏg dx, integrated by parts: of
    (−1)ᵏ ∫ φ⁽ᵏ⁾ g dx. Centres lie on samples, about `spacing` apart.
    """
    weight = _quadrature(x, period)
    centres = _centres(x, half_width, spacing, period)
    away = x[None, :] - x[centres][:, None]
    if period is not None:
        # The shorter way round, so that a bump may lie across the seam.
        away -= period * np.round(away / period)
    s = away / half_width
    inside = np.abs(s) < 1.0
    s = np.where(inside, s, 0.0)
    # ∫ (1 − s²)^p ds over [−1, 1] = B(1/2, p + 1)
    whole = half_width * gamma(0.5) * gamma(power + 1.0) / gamma(power + 1.5)
    matrices = {}
    for k in orders:
        shape = _bump(s, power, k) * (-1.0 / half_width) ** k / whole
        matrices[k] = np.where(inside, shape, 0.0) * weight
    # The standard deviation of the bump's spectrum: the reciprocal of its own, in samples.
    spread = np.sqrt(2 * power + 3) * float(np.mean(np.diff(x))) / half_width
    rough = _rough(x, period, weight) if spread < _FRONTS.narrow else None
    starts, stops = inside.argmax(axis=1), len(x) - inside[:, ::-1].argmax(axis=1)
    return AxisRows(matrices, starts.astype(np.intp), stops.astype(np.intp), rough)


def _rough(x: Floats, period: float | None, weight: Floats) -> scipy.sparse.csr_array:
    """`AxisRows.rough`; on uneven grids by divided differences around every sample."""
    n, half = len(x), _FRONTS.neighbours
    if np.ptp(weight) == 0.0:
        return scipy.sparse.csr_array(scipy.sparse.eye_array(n))
    if period is not None:
        x = np.concatenate([x[-half:] - period, x, x[:half] + period])
    weights = divided_differences(x, 2 * half)
    middle = np.arange(n) if period is not None else np.arange(half, n - half)
    neighbours = (middle[:, None] + np.arange(-half, half + 1)) % n
    places = (np.repeat(middle, 2 * half + 1), neighbours.ravel())
    return scipy.sparse.csr_array((weights.ravel(), places), shape=(n, n))


def _bump(s: Floats, p: int, order: int) -> Floats:
    """The derivative of (1 − s²)^p: a polynomial times (1 − s²)^(p − order), which loses no digits."""
    q = np.polynomial.Polynomial([1.0])
    round_ = np.polynomial.Polynomial([1.0, 0.0, -1.0])
    for a in range(order):
        # d/ds [(1 − s²)^m q] = (1 − s²)^(m − 1) [(1 − s²) q' − 2 m s q]
        q = round_ * q.deriv() - 2.0 * (p - a) * np.polynomial.Polynomial([0.0, 1.0]) * q
    return np.asarray((1.0 - s * s) ** (p - order) * q(s))


def _centres(x: Floats, half_width: float, spacing: float, period: float | None) -> Ints:
    """Samples about `spacing` apart around which the whole bump lies inside the axis."""
    if period is not None:
        count = max(1, floor(period / spacing))
        places = x[0] + period * np.arange(count) / count
    else:
        slack = 1e-9 * half_width
        fits = x[(x - half_width >= x[0] - slack) & (x + half_width <= x[-1] + slack)]
        if not len(fits):
            return np.zeros(0, dtype=np.intp)
        count = floor((fits[-1] - fits[0]) / spacing * (1 + 1e-9)) + 1
        places = np.linspace(fits[0], fits[-1], count) if count > 1 else fits[len(fits) // 2][None]
    nearest = np.clip(np.searchsorted(x, places), 1, len(x) - 1)
    nearest -= places - x[nearest - 1] < x[nearest] - places
    return np.unique(nearest).astype(np.intp)


def _quadrature(x: Floats, period: float | None) -> Floats:
    """Weights of the integral over the axis; on a uniform grid all equal, as a bump is zero at its ends."""
    steps = np.diff(x)
    if np.ptp(steps) <= 1e-6 * float(np.mean(steps)):
        return np.full(len(x), float(np.mean(steps)))
    if period is not None:
        # Three turns: the ends of the middle one have neighbours on both sides.
        turns = np.concatenate([x - period, x, x + period])
        return _quadrature(turns, None)[len(x) : 2 * len(x)]
    degree = min(5, len(x) - 1)
    intervals = interval_weights(x, degree=degree, half_width=ceil(degree / 2)).toarray()
    return np.asarray(intervals.sum(axis=0), dtype=np.float64)


def integrals(t: Floats, *, order: int, windows: int, modes: int) -> AxisRows:
    """Step 1. Rows in time without a test function: the integral from a free initial state, mode by mode.

    In each window of samples the equation u(t) = Σ_{j<r} c_j t^j + ∫…∫ g is projected onto the slowest
    cosines that are orthogonal to 1, …, t^{r − 1}: the initial state drops out, and white noise stays white.
    Order 0 holds the weights of the terms, order r those of the fields.
    """
    edges = np.linspace(0, len(t), windows + 1).astype(int)
    plain: list[Floats] = []
    integrated: list[Floats] = []
    starts: list[int] = []
    stops: list[int] = []
    for a, b in pairwise(edges.tolist()):
        at = t[a:b]
        degree = min(6, b - a - 1)
        step = interval_weights(at, degree=degree, half_width=ceil(degree / 2)).toarray()
        once = np.vstack([np.zeros((1, b - a)), np.cumsum(step, axis=0)])
        count = min(modes, b - a - order)
        s = (at - at[0]) / (at[-1] - at[0])
        free = np.vander(2.0 * s - 1.0, order, increasing=True)
        cosines = np.cos(np.pi * np.outer(s, np.arange(1, count + 1)))
        # The first columns span 1, …, t^(r − 1), and the others are orthogonal to them.
        q, _ = np.linalg.qr(np.hstack([free, cosines]))
        project = q[:, order:].T
        for rows, into in ((project, plain), (project @ np.linalg.matrix_power(once, order), integrated)):
            padded = np.zeros((len(rows), len(t)))
            padded[:, a:b] = rows
            into.append(padded)
        starts += [a] * len(project)
        stops += [b] * len(project)
    scale = 1.0 / np.mean(np.diff(t)) ** order / np.sqrt(len(t))
    # In units of the highest derivative, so that rows in time are of the size of those of the weak form.
    matrices = {0: np.vstack(integrated) * scale, order: np.vstack(plain) * scale}
    return AxisRows(matrices, np.array(starts, dtype=np.intp), np.array(stops, dtype=np.intp))


def apply(matrix: Floats, values: Floats, axis: int) -> Floats:
    """The matrix times the values along an axis, which then has the rows of the matrix."""
    if axis == values.ndim - 1:
        flat = values.reshape(-1, values.shape[-1])
        out = (
            flat @ matrix.T if _is_dense(matrix) else np.asarray((scipy.sparse.csr_array(matrix) @ flat.T).T)
        )
        return np.asarray(out.reshape(*values.shape[:-1], len(matrix)))
    lead = values.shape[:axis]
    flat = values.reshape(*lead, values.shape[axis], -1)
    if _is_dense(matrix):
        out = np.matmul(matrix, flat)
    else:
        sparse = scipy.sparse.csr_array(matrix)
        out = np.stack([np.asarray(sparse @ part) for part in flat.reshape(-1, *flat.shape[-2:])])
    return np.asarray(out.reshape(*lead, len(matrix), *values.shape[axis + 1 :]))


def _is_dense(matrix: Floats) -> bool:
    return matrix.size < 1_000_000 or bool(np.count_nonzero(matrix) > _FRONTS.dense * matrix.size)


def reduce(
    values: Floats, operators: Sequence[Mapping[Key, Floats]], wanted: set[tuple[Key, ...]]
) -> dict[tuple[Key, ...], Floats]:
    """Step 2. For every wanted tuple of keys, one for each axis, the values with those operators applied.

    Axes are reduced from the last to the first, and each partial product is computed once.
    """
    results: dict[tuple[Key, ...], Floats] = {}

    def down(part: Floats, axis: int, tail: tuple[Key, ...], remaining: set[tuple[Key, ...]]) -> None:
        if axis < 0:
            results[tail] = part
            return
        for key in sorted({keys[axis] for keys in remaining}, key=repr):
            down(
                apply(operators[axis][key], part, axis),
                axis - 1,
                (key, *tail),
                {k for k in remaining if k[axis] == key},
            )

    down(values, len(operators) - 1, (), wanted)
    return results


def alternating_sums(values: Mapping[str, Floats], axes: Sequence[AxisRows], order: int) -> Floats:
    """Step 3. (states, axes + 1, rows …): targets with alternating signs along each axis, and last without.

    The sums over the even and over the odd samples differ by twice these sums. They have as much noise as the
    target itself, and the part that the grid resolves cancels. Zero along axes on which signs cannot tell.
    """
    operators = [
        {False: a.matrices[k]} if a.rough is None else {False: a.matrices[k], True: a.alternating(k)}
        for a, k in zip(axes, _orders(axes, order), strict=True)
    ]
    numbers = range(len(axes))
    wanted = {tuple(k == j for k in numbers) for j in numbers if True in operators[j]}
    sums_of = np.zeros((len(values), len(axes) + 1, *(a.rows for a in axes)))
    for i, field in enumerate(values.values()):
        for key, reduced in reduce(field, operators, {*wanted, (False,) * len(axes)}).items():
            sums_of[i, key.index(True) if any(key) else -1] = reduced
    return sums_of


def _orders(axes: Sequence[AxisRows], order: int) -> list[int]:
    """The orders of the derivatives in the target, along every axis."""
    return [0] * (len(axes) - 1) + [order]


@dataclass(frozen=True, eq=False)
class Counted:
    """Which rows of a field count.

    whole: (rows …) those that use no missing value
    fronts: (rows …) of these, those at a front that the grid does not resolve
    """

    whole: NDArray[np.bool_]
    fronts: NDArray[np.bool_]

    @cached_property
    def coarse(self) -> bool:
        """Whether most rows are at fronts: the grid is coarse everywhere, and all rows are used."""
        return bool(2 * self.fronts.sum() >= self.whole.sum() > 0)

    @cached_property
    def kept(self) -> NDArray[np.bool_] | None:
        """(rows …): those that count; None: all of them."""
        counts = self.whole if self.coarse else self.whole & ~self.fronts
        return None if counts.all() else counts


def counted(
    sums: Floats, whole: NDArray[np.bool_], noise: Sequence[float], axes: Sequence[AxisRows], order: int
) -> Counted:
    """Step 3. Which rows count: not those with alternating sums beyond noise, nor their neighbours.

    The sum over a jump has an error of up to one step of the grid, which depends on where the jump lies in
    it. This error is no noise: at a shock in 1 % noise it looks like diffusion.

    sums: from `alternating_sums`; whole: (rows …) where no value is missing
    """
    from scipy.ndimage import maximum_filter

    plain = [np.linalg.norm(a.matrices[k], axis=1) for a, k in zip(axes, _orders(axes, order), strict=True)]
    size = np.zeros((len(axes), *whole.shape))
    for j, (axis, k) in enumerate(zip(axes, _orders(axes, order), strict=True)):
        if axis.rough is not None:
            turned = np.linalg.norm(axis.alternating(k), axis=1)
            size[j] = np.multiply.reduce(np.broadcast_arrays(*np.ix_(*plain[:j], turned, *plain[j + 1 :])))
    steep = np.zeros(whole.shape, dtype=bool)
    for sigma, (*sides, target) in zip(noise, sums, strict=True):
        inexact = INEXACT * float(np.sqrt(np.mean(target[whole] ** 2))) if whole.any() else 0.0
        steep |= (np.abs(sides) > _FRONTS.front * np.hypot(sigma * size, inexact)).any(axis=0)
    # Rows that overlap with these use some samples of the front too.
    ends: list[Literal["wrap", "nearest"]] = [
        "wrap" if axis.matrices[0][0, -1] != 0.0 else "nearest" for axis in axes[:-1]
    ]
    return Counted(whole, whole & maximum_filter(steep & whole, size=3, mode=[*ends, "nearest"]))
