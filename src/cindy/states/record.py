"""Records: how trajectories become stretches of measurements on common grids, before any law is known.

1. `smoothed` tells the noise of samples and how much they bend from one to the next (Whittaker's smoother).
2. `records_of` cuts trajectories into stretches that share a time grid (`Record`), with as many instants
   between samples as their bending asks for (`instants_for`).
3. Where a state was not measured it begins with values from its neighbours in time, and a variance that says
   that they are no measurements (`MISSING`).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from itertools import pairwise

import numpy as np
from numpy.typing import NDArray
from scipy.linalg import cho_solve_banded, cholesky_banded

from cindy._arrays import Floats
from cindy.basis import Averaged, Basis, Expression
from cindy.data import Held, Trajectory, looked_at, pauses
from cindy.states.grid import Grid

__all__ = [
    "MISSING",
    "Record",
    "Smooth",
    "averaged",
    "instants_for",
    "principal_motion",
    "records_of",
    "roughness",
    "smoothed",
]

_ORDER = 3
"""Of the differences that are taken for noise: a parabola bends freely (Whittaker, 1923)."""
_RATIOS = 10.0 ** np.arange(-8.0, 12.1, 1.0)
"""Of bending to noise, a decade apart, as far as double precision tells them from none."""
_MOST_LAGS = 250
"""Samples of a window of singular spectrum analysis: a bound on work."""
_FEW = 12
"""Samples below which nothing is smoothed."""


@dataclass(frozen=True, eq=False)
class Smooth:
    """Values (samples, states) along which samples run, and the noise beside them (states,)."""

    values: Floats
    noise: Floats


def smoothed(t: Floats, y: Floats) -> Smooth:
    """Whittaker's smoother, each state with the ratio of bending to noise that is most likely.

    Third divided differences of the samples have the covariance σ² D Dᵀ + τ²; the likelihood of both
    variances is maximal over a grid of ratios.
    """
    if len(t) < _FEW:
        return Smooth(y.copy(), np.zeros(y.shape[1]))
    d = _differences(t)
    rows = len(d)
    product = np.zeros((_ORDER + 1, rows))
    for o in range(_ORDER + 1):
        product[o, : rows - o] = np.sum(d[: rows - o, o:] * d[o:, : d.shape[1] - o], axis=1)
    values, noise = y.copy(), np.zeros(y.shape[1])
    z = np.stack([_apply(d, column) for column in y.T], axis=1)
    best = np.full(y.shape[1], np.inf)
    for ratio in _RATIOS:
        band = product.copy()
        band[0] += ratio
        try:
            factor = cholesky_banded(band, lower=True, check_finite=False)
        except np.linalg.LinAlgError:
            # Steps that differ by orders leave no digits for so small a ratio: the next is larger.
            continue
        u = cho_solve_banded((factor, True), z, check_finite=False)
        square = np.maximum(np.sum(z * u, axis=0), 1e-300)
        value = rows * np.log(square) + 2.0 * float(np.log(factor[0]).sum())
        for j in np.flatnonzero(value < best):
            best[j], noise[j] = value[j], np.sqrt(square[j] / rows)
            values[:, j] = y[:, j] - _back(d, u[:, j], len(t))
    return Smooth(values, noise)


def roughness(t: Floats, y: Floats) -> Floats:
    """(columns,) how much motions bend from sample to sample: ω h for a wave of frequency ω."""
    if len(t) < _FEW:
        return np.ones(y.shape[1])
    x = smoothed(t, y).values
    first, second = np.diff(x, axis=0), np.diff(x, 2, axis=0)
    size = np.sqrt(np.mean(first**2, axis=0))
    return np.asarray(np.sqrt(np.mean(second**2, axis=0)) / np.where(size > 0, size, np.inf))


def principal_motion(stretches: Floats, noise: float) -> Floats:
    """(stretches, samples) without noise, for derivatives of high order: singular spectrum analysis.

    1. Windows of L samples of all stretches are the columns of a matrix H (L, K).
    2. White noise has eigenvalues of H Hᵀ up to σ² (√K + √L)²; the eigenvectors above are the motion.
    3. The windows are projected onto these, and what the windows say of one sample is averaged.

    Motion has few and slow eigenvectors, so that what noise is left in them is slow as well, and derivatives
    do not magnify it. Reference: Golyandina, Nekrutkin, Zhigljavsky, Analysis of Time Series Structure, 2001.
    """
    length = min(max(stretches.shape[1] // 4, 2), _MOST_LAGS)
    windows = np.lib.stride_tricks.sliding_window_view(stretches, length, axis=1)
    count = windows.shape[0] * windows.shape[1]
    values, vectors = np.linalg.eigh(np.einsum("skl,skm->lm", windows, windows))
    motion = vectors[:, values > noise**2 * (np.sqrt(count) + np.sqrt(length)) ** 2]
    projected = windows @ motion @ motion.T
    total, weight = np.zeros_like(stretches), np.zeros(stretches.shape[1])
    for lag in range(length):
        total[:, lag : lag + windows.shape[1]] += projected[..., lag]
        weight[lag : lag + windows.shape[1]] += 1.0
    return total / weight


def _differences(t: Floats) -> Floats:
    """(rows, 4) weights of third differences, 1, 3, 3, 1 where steps are equal."""
    weights = np.ones((len(t), 1))
    mean = float(t[-1] - t[0]) / (len(t) - 1)
    for k in range(1, _ORDER + 1):
        step = ((t[k:] - t[:-k]) / (k * mean))[:, None]
        left = np.hstack([weights[:-1], np.zeros((len(weights) - 1, 1))])
        right = np.hstack([np.zeros((len(weights) - 1, 1)), weights[1:]])
        weights = (right - left) / step
    return weights


def _apply(d: Floats, y: Floats) -> Floats:
    return np.asarray(sum(d[:, p] * y[p : p + len(d)] for p in range(d.shape[1])))


def _back(d: Floats, u: Floats, samples: int) -> Floats:
    out = np.zeros(samples)
    for p in range(d.shape[1]):
        out[p : p + len(d)] += d[:, p] * u
    return out


MISSING = 1e4
"""Variance of an entry that was not measured, in units of that of the noise. It need not be larger:
each step moves the state from where the last one left it."""


@dataclass(frozen=True, eq=False)
class Record:
    """Measurements y of stretches of equal length at the times of one grid.

    y: (stretches, samples, states); where nothing was measured, a first guess
    spread: (stretches, samples, states) variance of each entry in units of that of its state's noise:
        1 for a plain measurement, large where there is none
    u: (stretches, samples, inputs)
    source: (stretches,) number of the trajectory that each stretch is from; offset: its first sample there
    held: (inputs,) which inputs keep each value until the next sample; None: none of them
    correlation: (states, states) of the noise of states that are worked out from the same read-outs; None
        where it is independent
    """

    grid: Grid
    y: Floats
    spread: Floats
    u: Floats
    source: NDArray[np.intp]
    offset: NDArray[np.intp]
    held: NDArray[np.bool_] | None = None
    correlation: Floats | None = None

    @property
    def stretches(self) -> int:
        return len(self.y)

    @property
    def states(self) -> int:
        return int(self.y.shape[2])

    @property
    def rows(self) -> int:
        """Scalar rows: one for every stretch, row of the grid and state."""
        return self.stretches * self.grid.rows * self.states

    @property
    def missing(self) -> NDArray[np.bool_]:
        """Entries without a measurement."""
        return self.spread >= MISSING

    def covariance(self, variance: Floats) -> Floats:
        """(stretches, samples, states, states): Σ, of the noise at each instant."""
        sigma = self.spread * variance
        blocks = sigma[..., None] * np.eye(self.states)
        if self.correlation is None:
            return blocks
        size = np.where(self.missing, 0.0, np.sqrt(sigma))
        return np.asarray(blocks + size[..., None] * self._beside * size[..., None, :])

    def shared(self, variance: Floats, values: Floats) -> Floats:
        """Σ values without the diagonal of Σ, for values (stretches, samples, states)."""
        if self.correlation is None:
            return np.broadcast_to(0.0, values.shape)
        size = np.where(self.missing, 0.0, np.sqrt(self.spread * variance))
        return np.asarray(size * ((size * values) @ self._beside))

    def varied(self, variance: Floats, values: Floats, i: int) -> Floats:
        """The derivative of Σ values by the logarithm of the variance of state i; nothing of what is missing.

        Covariances go as √(v_i v_j): half of row i of Σ, and half of its column i.
        """
        only = np.zeros_like(values)
        only[..., i] = values[..., i]
        others = self.shared(variance, only)
        seen = np.where(self.missing[..., i], 0.0, self.spread[..., i])
        only[..., i] = variance[i] * seen * values[..., i]
        if self.correlation is None:
            return only
        only[..., i] += self.shared(variance, values)[..., i] / 2.0
        return np.asarray(only + others / 2.0)

    @property
    def _beside(self) -> Floats:
        """The correlations without their diagonal."""
        assert self.correlation is not None
        return self.correlation - np.eye(self.states)

    def unmeasured(self, count: int) -> Record:
        """The same with the values of so many of the last states as first values, and no measurements."""
        spread = self.spread.copy()
        spread[..., -count:] = MISSING
        return replace(self, spread=spread)

    def centred(self, x: Floats) -> Record:
        """The same around the current states: what was not measured is wherever it is thought to be."""
        if not self.missing.any():
            return self
        return replace(self, y=np.where(self.missing, x, self.y))

    def points(self, x: Floats) -> Floats:
        """(n, variables): states and inputs of all samples, one below the other."""
        return np.concatenate([x, self.u], axis=2).reshape(-1, x.shape[2] + self.u.shape[2])

    def integrated(
        self, x: Floats, evaluate: Callable[[Floats], Floats], weights: Floats | None = None
    ) -> Floats:
        """(stretches, rows, columns): integrals over the rows of functions of states and inputs.

        An input that is held jumps at the samples, and no polynomial passes through a jump. Within a step it
        is constant, so that row k takes ∫ ψ(x(t), u_k) dt = Σ_p W_kp ψ(x_{k+p}, u_k): the functions are
        evaluated once for every sample that a row looks at.

        evaluate: (n, columns) from points (n, variables); weights: other than the grid's, (rows, width)
        """
        grid = self.grid
        if self.held is None:
            values = evaluate(self.points(x)).reshape(*x.shape[:2], -1)
            if weights is None:
                return grid.integrals(values)
            return np.asarray(np.einsum("rw,srwj->srj", weights, values[:, grid.window]))
        total: Floats | None = None
        row = np.arange(grid.rows)
        for later, part in enumerate(grid.by_interval if weights is None else (weights,)):
            for place in range(grid.width):
                at = grid.start + place
                u = np.where(self.held, self.u[:, row + later], self.u[:, at])
                points = np.concatenate([x[:, at], u], axis=2)
                values = evaluate(points.reshape(-1, points.shape[2])).reshape(*points.shape[:2], -1)
                added = part[:, place, None] * values
                total = added if total is None else total + added
        assert total is not None
        return total

    def part(self, which: NDArray[np.intp]) -> Record:
        """Some of the stretches."""
        return Record(
            self.grid,
            self.y[which],
            self.spread[which],
            self.u[which],
            self.source[which],
            self.offset[which],
            self.held,
            self.correlation,
        )


@dataclass(frozen=True)
class _Instants:
    """How many instants a trajectory gets, and when it is cut."""

    longest: int = 2000
    """Samples in a stretch: longer trajectories are cut, which bounds the memory and costs one row a cut."""
    at_once: int = 30_000
    """Values, samples times states, in a record."""
    look: int = 8
    """Trajectories that are looked at for it; a median needs no more."""
    coarse: float = 0.6
    fine: float = 0.2
    """Bending from sample to sample beyond which instants are put between them, and what they aim for.

    True motions of the 70 chaotic systems at 100 samples a period bend by 0.05 to 0.5 and need none."""
    band: int = 3
    """Parts of a step where inputs are band-limited: six instants for the shortest period. Not varied yet."""
    fast: float = 0.9
    """Quantile of what a switching function changes by in the steps in which it changes its sign. A jump that
    is spread too widely does less harm than one that falls between two samples. Not varied yet."""
    most_parts: int = 8
    """Beyond, what happens between two samples is guessed and not measured."""
    longest_hole: int = 12
    """Instants in a row without any measurement beyond which a trajectory is split, and steps of the usual
    length that a pause is long; a hole is one whether or not its empty rows were written down."""


_INSTANTS = _Instants()


def records_of(
    trajectories: Sequence[Trajectory],
    grid_of: Callable[[Floats], Grid],
    *,
    least: int,
    instants: int = 1,
    rates: bool = False,
) -> tuple[Record, ...]:
    """Stretches of at least `least` samples, those that share a grid in one record.

    instants: into how many parts every step is divided, by instants at which nothing is measured
    rates: whether the rates of the states are states too, which nobody measured
    """
    groups: dict[int, tuple[Grid, list[tuple[Floats, Floats, Floats, int, int]]]] = {}
    for number, one in enumerate(trajectories):
        for start, stop in _spans(one, least):
            t = one.t[start:stop]
            filled = _filled(one, start, stop)
            filled = _with_rates(t, filled) if rates else filled
            if instants > 1:
                t, filled = _divided(one, t, filled, instants)
            grid = grid_of(t)
            _, members = groups.setdefault(id(grid), (grid, []))
            members.append((*filled, number, start))
    records = []
    for grid, members in groups.values():
        size = max(_INSTANTS.at_once // (grid.samples * members[0][0].shape[1]), 1)
        for a in range(0, len(members), size):
            y, spread, u, source, offset = zip(*members[a : a + size], strict=True)
            records.append(
                Record(
                    grid,
                    np.stack(y),
                    np.stack(spread),
                    np.stack(u),
                    np.array(source),
                    np.array(offset),
                    _held(trajectories[0]),
                )
            )
    return tuple(records)


def averaged(basis: Basis, variables: tuple[str, ...], records: Sequence[Record]) -> Basis:
    """The basis with jumps such as sign(v) spread over the two steps around a sample.

    Where v passes zero between two samples, their signs do not tell when, so that the integral of sign(v) is
    wrong by up to a step, and its slope by v is zero. With the mean of sign(v) under a hat over both steps,
    v changing by w in each,

        s(v) = (v/w)(2 − |v/w|)  for |v| < w,  sign(v) beyond,

    the values at samples add up to the integral, and v can be fitted. w follows from the smoothed samples.
    Jumps that inputs alone make are at samples, and stay.
    """
    terms = [factor for term in basis.terms(variables) for factor in term]
    formulas = [f.expression for f in terms if f.expression is not None and f.symbolic is None]
    states = set(variables[: records[0].states]) if records else set()
    surfaces = dict.fromkeys(g for one in formulas for g in one.switches() if g.symbols() & states)
    if not surfaces:
        return basis
    changes: dict[Expression, list[Floats]] = {g: [] for g in surfaces}
    for record in records:
        for y, u in zip(record.y, record.u, strict=True):
            x = smoothed(record.grid.t, y).values
            here, there = (
                dict(zip(variables, np.hstack([one, u[:-1]]).T, strict=True)) for one in (x[:-1], x[1:])
            )
            for g in surfaces:
                before, after = g.evaluate(here), g.evaluate(there)
                changes[g].append(np.abs(after - before)[before * after < 0])
    sizes = {g: np.concatenate(each) for g, each in changes.items()}
    widths = tuple((g, float(np.quantile(size, _INSTANTS.fast))) for g, size in sizes.items() if len(size))
    return Averaged(basis, widths) if widths else basis


def _held(one: Trajectory) -> NDArray[np.bool_] | None:
    """Which inputs keep each value until the next sample: all that the user held, but not the time."""
    held = np.array([name != "t" for name in one.inputs], dtype=bool)
    return held if one.hold == "zero" and held.any() else None


def _spans(one: Trajectory, least: int) -> list[tuple[int, int]]:
    """(start, stop) of stretches without long holes, none longer than allowed."""
    empty = np.isnan(one.x).all(axis=1)
    if one.u is not None:
        empty |= np.isnan(one.u).any(axis=1)
    seen = np.flatnonzero(~empty)
    if not len(seen):
        return []
    cuts = (
        np.union1d(
            np.flatnonzero(np.diff(seen) > _INSTANTS.longest_hole),
            pauses(one.t[seen], one.x[np.ix_(seen, ~np.isnan(one.x).all(axis=0))], _INSTANTS.longest_hole),
        )
        + 1
    )
    spans = []
    for run in np.split(seen, cuts):
        first, last = int(run[0]), int(run[-1]) + 1
        count = max(-(-(last - first) // _INSTANTS.longest), 1)
        edges = np.linspace(first, last, count + 1).astype(int)
        spans += [(int(a), int(b)) for a, b in pairwise(edges) if b - a >= least]
    return spans


def _filled(one: Trajectory, start: int, stop: int) -> tuple[Floats, Floats, Floats]:
    """Values, variances in units of the noise, and inputs of a stretch."""
    t, y = one.t[start:stop], np.array(one.x[start:stop])
    u = np.zeros((len(t), 0)) if one.u is None else np.array(one.u[start:stop])
    missing = np.isnan(y)
    spread = np.where(missing, MISSING, 1.0) / one.weight
    for column in [*y.T, *u.T]:
        hole = np.isnan(column)
        if hole.any():
            column[hole] = np.interp(t[hole], t[~hole], column[~hole]) if not hole.all() else 0.0
    return y, spread, u


def _with_rates(t: Floats, filled: tuple[Floats, Floats, Floats]) -> tuple[Floats, Floats, Floats]:
    """The same with the slopes of smoothed states as further states, none of them measured."""
    from scipy.interpolate import CubicSpline

    y, spread, u = filled
    slopes = CubicSpline(t, smoothed(t, y).values)(t, 1)
    return np.hstack([y, slopes]), np.hstack([spread, np.full_like(spread, MISSING)]), u


def _divided(
    one: Trajectory, t: Floats, filled: tuple[Floats, Floats, Floats], parts: int
) -> tuple[Floats, tuple[Floats, Floats, Floats]]:
    """The same with instants between the samples: states on a spline, inputs as they are held."""
    from scipy.interpolate import CubicSpline

    y, spread, u = filled
    number = np.arange(len(t), dtype=np.float64)
    at = np.arange(parts * (len(t) - 1) + 1) / parts
    times = np.interp(at, number, t)
    values = CubicSpline(t, smoothed(t, y).values)(times)
    values[::parts] = y
    unseen = np.full_like(values, MISSING)
    unseen[::parts] = spread
    known = values[:, :0] if one.u is None else Held(one.t, one.u, one.hold).at(times)
    if u.shape[1] and (one.u is None or not np.isfinite(one.u).all()):
        known = Held(t, u, one.hold).at(times)
    return times, (values, unseen, known)


def instants_for(trajectories: Sequence[Trajectory]) -> int:
    """Into how many parts steps must be divided for integrals to be right, by how the samples bend."""
    groups = [[one for one in group if len(one) > 3][: _INSTANTS.look] for group in looked_at(trajectories)]
    bent = [_bending(looks, trajectories if len(groups) > 1 else looks) for looks in groups]
    worst = max(bent, default=0.0)
    if any(one.hold == "band" and one.inputs for looks in groups for one in looks):
        # Up to half the sampling rate an input turns within two samples: polynomials need more of them.
        return max(
            _INSTANTS.band,
            1
            if worst <= _INSTANTS.coarse
            else min(int(np.ceil(worst / _INSTANTS.fine)), _INSTANTS.most_parts),
        )
    return 1 if worst <= _INSTANTS.coarse else min(int(np.ceil(worst / _INSTANTS.fine)), _INSTANTS.most_parts)


def _bending(looks: Sequence[Trajectory], grid: Sequence[Trajectory]) -> float:
    """The median of how much trajectories bend from instant to instant of a grid that may be finer."""
    alike: dict[bytes, list[Trajectory]] = {}
    for one in looks:
        for first in one.segments()[:1]:
            alike.setdefault((first.t - first.t[0]).tobytes(), []).append(first)
    if not alike:
        return 0.0
    # The worst state's of each; those at the same times are smoothed by the same factors.
    each = [
        roughness(some[0].t, np.hstack([s.x for s in some])).reshape(len(some), -1) for some in alike.values()
    ]
    rough = np.concatenate([bent.max(axis=1) for bent in each])
    own, all_instants = (
        np.median(np.concatenate([np.diff(one.t) for one in some])) for some in (looks, grid)
    )
    return float(np.median(rough) * min(all_instants / own, 1.0) if grid is not looks else np.median(rough))
