"""Records: trajectories become stretches of measurements on common time grids, before any law is known.

1. `smoothed` estimates the motion beneath the noise of samples (Whittaker's smoother).
2. `records_of` cuts trajectories into stretches that share a time grid (`Record`), with as many instants
   between samples as the curvature of the motion requires (`instants_for`).
3. A missing entry starts from values interpolated in time, and gets a variance that marks it (`MISSING`).
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from itertools import pairwise

import numpy as np
from numpy.typing import NDArray
from scipy.linalg import cho_solve_banded, cholesky_banded

from cindy._arrays import Floats
from cindy.basis import Averaged, Basis, Expression
from cindy.data import Held, Trajectory, looked_at, pauses
from cindy.states.grid import Grid

_ORDER = 3
"""Order of the differences that are taken as noise: a parabola has none (Whittaker, 1923)."""
_RATIOS = 10.0 ** np.arange(-8.0, 12.1, 1.0)
"""Ratios tried of the variances of bending and noise, a decade apart, within double precision."""
_MOST_LAGS = 250
"""Largest window of singular spectrum analysis, in samples: a bound on work."""
_FEW = 12
"""Number of samples below which nothing is smoothed."""


def smoothed(t: Floats, y: Floats) -> Floats:
    """(samples, states) by Whittaker's smoother, each state with the most likely ratio of bending to noise.

    Third divided differences of the samples have the covariance σ² D Dᵀ + τ². The likelihood of both
    variances is maximised over a grid of their ratios, in time linear in the samples.
    """
    if len(t) < _FEW:
        return y.copy()
    d = _differences(t)
    rows = len(d)
    product = np.zeros((_ORDER + 1, rows))
    for o in range(_ORDER + 1):
        product[o, : rows - o] = np.sum(d[: rows - o, o:] * d[o:, : d.shape[1] - o], axis=1)
    values = y.copy()
    z = np.stack([_apply(d, column) for column in y.T], axis=1)
    best = np.full(y.shape[1], np.inf)
    for ratio in _RATIOS:
        band = product.copy()
        band[0] += ratio
        try:
            factor = cholesky_banded(band, lower=True, check_finite=False)
        except np.linalg.LinAlgError:
            # With very uneven steps so small a ratio is lost to rounding; the next ratio is larger.
            continue
        u = cho_solve_banded((factor, True), z, check_finite=False)
        square = np.maximum(np.sum(z * u, axis=0), 1e-300)
        # −2 log p of this ratio, with the common factor of both variances profiled out.
        deviance = rows * np.log(square) + 2.0 * float(np.log(factor[0]).sum())
        for j in np.flatnonzero(deviance < best):
            best[j] = deviance[j]
            values[:, j] = y[:, j] - _back(d, u[:, j], len(t))
    return values


def roughness(t: Floats, y: Floats) -> Floats:
    """(columns,) how much motions bend between samples: ω h for a wave of frequency ω."""
    if len(t) < _FEW:
        return np.ones(y.shape[1])
    x = smoothed(t, y)
    first, second = np.diff(x, axis=0), np.diff(x, 2, axis=0)
    size = np.sqrt(np.mean(first**2, axis=0))
    return np.asarray(np.sqrt(np.mean(second**2, axis=0)) / np.where(size > 0, size, np.inf))


def principal_motion(stretches: Floats, noise: float) -> Floats:
    """(stretches, samples) denoised for derivatives of high order, by singular spectrum analysis.

    1. Windows of L samples of all stretches are the columns of a matrix H (L, K).
    2. White noise has eigenvalues of H Hᵀ up to σ² (√K + √L)². The eigenvectors above are the motion.
    3. The windows are projected onto these, and the values of all windows at one sample are averaged.

    Motion has few and slow eigenvectors. The noise that remains in them is slow as well, so that derivatives
    do not amplify it. Reference: Golyandina, Nekrutkin, Zhigljavsky, Analysis of Time Series Structure, 2001.
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
    """(rows, 4) weights of third divided differences; 1, 3, 3, 1 up to sign for equal steps."""
    weights = np.ones((len(t), 1))
    mean = float(t[-1] - t[0]) / (len(t) - 1)
    for k in range(1, _ORDER + 1):
        step = ((t[k:] - t[:-k]) / (k * mean))[:, None]
        left = np.hstack([weights[:-1], np.zeros((len(weights) - 1, 1))])
        right = np.hstack([np.zeros((len(weights) - 1, 1)), weights[1:]])
        weights = (right - left) / step
    return weights


def _apply(d: Floats, y: Floats) -> Floats:
    """D y."""
    return np.asarray(sum(d[:, p] * y[p : p + len(d)] for p in range(d.shape[1])))


def _back(d: Floats, u: Floats, samples: int) -> Floats:
    """Dᵀ u."""
    out = np.zeros(samples)
    for p in range(d.shape[1]):
        out[p : p + len(d)] += d[:, p] * u
    return out


MISSING = 1e4
"""Variance of a missing entry, in units of that of the noise. It need not be larger, because each step of the
fit moves the state from its last value."""


@dataclass(frozen=True, eq=False)
class Record:
    """Measurements y of stretches of equal length at the times of one grid.

    y: (stretches, samples, states); a first guess where nothing was measured
    spread: (stretches, samples, states) variance of each entry in units of the noise variance of its state:
        1 for a plain measurement, `MISSING` and above for a missing one
    u: (stretches, samples, inputs)
    source: (stretches,) number of the trajectory of each stretch; offset: its first sample there
    held: (inputs,) which inputs keep each value until the next sample; None: none of them
    correlation: (states, states) of the noise, for states computed from the same read-outs; None: independent
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
        """Number of scalar rows: one for every stretch, row of the grid and state."""
        return self.stretches * self.grid.rows * self.states

    @property
    def missing(self) -> NDArray[np.bool_]:
        """Entries without a measurement."""
        return self.spread >= MISSING

    def covariance(self, variance: Floats) -> Floats:
        """(stretches, samples, states, states): Σ, the covariance of the noise at each instant."""
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
        """The derivative of Σ values by the logarithm of the variance of state i, zero for missing entries.

        Covariances are proportional to √(v_i v_j): half of row i of Σ, and half of its column i.
        """
        selected = np.zeros_like(values)
        selected[..., i] = values[..., i]
        crossed = self.shared(variance, selected)
        measured = np.where(self.missing[..., i], 0.0, self.spread[..., i])
        selected[..., i] = variance[i] * measured * values[..., i]
        if self.correlation is None:
            return selected
        selected[..., i] += self.shared(variance, values)[..., i] / 2.0
        return np.asarray(selected + crossed / 2.0)

    @property
    def _beside(self) -> Floats:
        """The correlation matrix with a zero diagonal."""
        assert self.correlation is not None
        return self.correlation - np.eye(self.states)

    def unmeasured(self, count: int) -> Record:
        """The record with the last `count` states unmeasured, their values kept as first guesses."""
        spread = self.spread.copy()
        spread[..., -count:] = MISSING
        return replace(self, spread=spread)

    def centred(self, x: Floats) -> Record:
        """The record with missing entries of y replaced by the current states."""
        if not self.missing.any():
            return self
        return replace(self, y=np.where(self.missing, x, self.y))

    def points(self, x: Floats) -> Floats:
        """(n, variables): states and inputs of all samples, stretch after stretch."""
        return np.concatenate([x, self.u], axis=2).reshape(-1, x.shape[2] + self.u.shape[2])

    def integrated(
        self, x: Floats, evaluate: Callable[[Floats], Floats], weights: Floats | None = None
    ) -> Floats:
        """(stretches, rows, columns): integrals over the rows of functions of states and inputs.

        A held input jumps at the samples, and no polynomial passes through a jump. Within a step it is
        constant, so that row k takes ∫ ψ(x(t), u_k) dt = Σ_p W_kp ψ(x_{k+p}, u_k): the functions are
        evaluated once for every sample that a row uses.

        evaluate: (n, columns) from points (n, variables); weights: (rows, width), by default those of the
            grid
        """
        grid = self.grid
        if self.held is None:
            values = evaluate(self.points(x)).reshape(*x.shape[:2], -1)
            if weights is None:
                return grid.integrals(values)
            return np.asarray(np.einsum("rw,srwj->srj", weights, values[:, grid.window]))
        total: Floats = np.zeros(())
        row = np.arange(grid.rows)
        for later, part in enumerate(grid.by_interval if weights is None else (weights,)):
            for place in range(grid.width):
                at = grid.start + place
                u = np.where(self.held, self.u[:, row + later], self.u[:, at])
                points = np.concatenate([x[:, at], u], axis=2)
                values = evaluate(points.reshape(-1, points.shape[2])).reshape(*points.shape[:2], -1)
                total = total + part[:, place, None] * values
        return total

    def part(self, which: NDArray[np.intp]) -> Record:
        """The record of some of the stretches."""
        return replace(
            self,
            y=self.y[which],
            spread=self.spread[which],
            u=self.u[which],
            source=self.source[which],
            offset=self.offset[which],
        )


@dataclass(frozen=True)
class _Instants:
    """When a trajectory is cut, and how many instants are put between its samples."""

    longest: int = 2000
    """Most samples in a stretch. Longer trajectories are cut, which bounds memory and costs one row a cut."""
    at_once: int = 30_000
    """Most values, samples times states, in a record."""
    look: int = 8
    """Number of trajectories from which the bending is estimated; a median needs no more."""
    coarse: float = 0.6
    fine: float = 0.2
    """Bending between samples above which instants are put between them, and the bending they aim for. The 70
    chaotic systems at 100 samples a period bend by 0.05 to 0.5 and need none."""
    band: int = 3
    """Parts of a step with band-limited inputs: six instants for the shortest period. Not varied yet."""
    fast: float = 0.9
    """Quantile of the change of a switching function over the steps in which it changes its sign. Spreading a
    jump too widely does less harm than leaving it between two samples. Not varied yet."""
    most_parts: int = 8
    """Most parts of a step: with more, the motion between two samples would be a guess."""
    longest_hole: int = 12
    """Longest hole, in samples or in steps of the usual length, over which a trajectory is not split. It does
    not matter whether the table has empty rows there."""


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

    instants: number of parts of every step, divided by instants without measurements
    rates: whether the rates of the states are further states, none of them measured
    """
    groups: dict[int, tuple[Grid, list[tuple[Floats, Floats, Floats, int, int]]]] = {}
    for number, trajectory in enumerate(trajectories):
        for start, stop in _spans(trajectory, least):
            t = trajectory.t[start:stop]
            filled = _filled(trajectory, start, stop)
            filled = _with_rates(t, filled) if rates else filled
            if instants > 1:
                t, filled = _divided(trajectory, t, filled, instants)
            grid = grid_of(t)
            # Equal grids are one object, so that its identity groups the stretches.
            _, members = groups.setdefault(id(grid), (grid, []))
            members.append((*filled, number, start))
    records = []
    for grid, members in groups.values():
        size = max(_INSTANTS.at_once // (grid.samples * members[0][0].shape[1]), 1)
        for a in range(0, len(members), size):
            columns = zip(*members[a : a + size], strict=True)
            y, spread, u, source, offset = (np.stack(column) for column in columns)
            records.append(Record(grid, y, spread, u, source, offset, _held(trajectories[0])))
    return tuple(records)


def averaged(basis: Basis, variables: tuple[str, ...], records: Sequence[Record]) -> Basis:
    """The basis with jumps such as sign(v) spread over the two steps around a sample.

    If v passes zero between two samples, their signs do not tell when. The integral of sign(v) is then wrong
    by up to a step, and its derivative by v is zero. The mean of sign(v) under a hat over both steps, with v
    changing by w in each, is

        s(v) = (v/w)(2 − |v/w|)  for |v| < w,  sign(v) beyond.

    Its values at samples add up to the integral, and v can be fitted. w follows from the smoothed samples.
    Jumps that depend on inputs alone occur at samples, and are left as they are.
    """
    factors = [factor for term in basis.plan(variables).terms for factor in term]
    formulas = [f.expression for f in factors if f.expression is not None and f.symbolic is None]
    states = set(variables[: records[0].states]) if records else set()
    surfaces = dict.fromkeys(g for formula in formulas for g in formula.switches() if g.symbols() & states)
    if not surfaces:
        return basis
    changes: dict[Expression, list[Floats]] = {g: [] for g in surfaces}
    for record in records:
        for y, u in zip(record.y, record.u, strict=True):
            x = smoothed(record.grid.t, y)
            ends = [dict(zip(variables, np.hstack([end, u[:-1]]).T, strict=True)) for end in (x[:-1], x[1:])]
            for g in surfaces:
                before, after = (g.evaluate(end) for end in ends)
                changes[g].append(np.abs(after - before)[before * after < 0])
    sizes = {g: np.concatenate(each) for g, each in changes.items()}
    widths = tuple((g, float(np.quantile(size, _INSTANTS.fast))) for g, size in sizes.items() if len(size))
    return Averaged(basis, widths) if widths else basis


def _held(trajectory: Trajectory) -> NDArray[np.bool_] | None:
    """Which inputs keep each value until the next sample: all that the user held, except the time."""
    held = np.array([name != "t" for name in trajectory.inputs], dtype=bool)
    return held if trajectory.hold == "zero" and held.any() else None


def _spans(trajectory: Trajectory, least: int) -> list[tuple[int, int]]:
    """(start, stop) of stretches without long holes, none longer than allowed."""
    empty = np.isnan(trajectory.x).all(axis=1)
    if trajectory.u is not None:
        empty |= np.isnan(trajectory.u).any(axis=1)
    present = np.flatnonzero(~empty)
    if not len(present):
        return []
    measured = trajectory.x[np.ix_(present, ~np.isnan(trajectory.x).all(axis=0))]
    holes = np.flatnonzero(np.diff(present) > _INSTANTS.longest_hole)
    cuts = np.union1d(holes, pauses(trajectory.t[present], measured, _INSTANTS.longest_hole))
    spans = []
    for run in np.split(present, cuts + 1):
        first, last = int(run[0]), int(run[-1]) + 1
        count = max(-(-(last - first) // _INSTANTS.longest), 1)
        edges = np.linspace(first, last, count + 1).astype(int)
        spans += [(int(a), int(b)) for a, b in pairwise(edges) if b - a >= least]
    return spans


def _filled(trajectory: Trajectory, start: int, stop: int) -> tuple[Floats, Floats, Floats]:
    """Values, variances in units of the noise, and inputs of a stretch, with holes interpolated."""
    t, y = trajectory.t[start:stop], np.array(trajectory.x[start:stop])
    u = np.zeros((len(t), 0)) if trajectory.u is None else np.array(trajectory.u[start:stop])
    missing = np.isnan(y)
    spread = np.where(missing, MISSING, 1.0) / trajectory.weight
    for column in [*y.T, *u.T]:
        hole = np.isnan(column)
        if hole.any():
            column[hole] = np.interp(t[hole], t[~hole], column[~hole]) if not hole.all() else 0.0
    return y, spread, u


def _with_rates(t: Floats, filled: tuple[Floats, Floats, Floats]) -> tuple[Floats, Floats, Floats]:
    """The same with the slopes of the smoothed states as further states, none of them measured."""
    from scipy.interpolate import CubicSpline

    y, spread, u = filled
    slopes = CubicSpline(t, smoothed(t, y))(t, 1)
    return np.hstack([y, slopes]), np.hstack([spread, np.full_like(spread, MISSING)]), u


def _divided(
    trajectory: Trajectory, t: Floats, filled: tuple[Floats, Floats, Floats], parts: int
) -> tuple[Floats, tuple[Floats, Floats, Floats]]:
    """The times and arrays with instants between the samples: states on a spline, inputs as they are held."""
    from scipy.interpolate import CubicSpline

    y, spread, u = filled
    number = np.arange(len(t), dtype=np.float64)
    at = np.arange(parts * (len(t) - 1) + 1) / parts
    times = np.interp(at, number, t)
    # A spline through the smoothed samples is only a first guess, which the fit replaces.
    values = CubicSpline(t, smoothed(t, y))(times)
    values[::parts] = y
    divided = np.full_like(values, MISSING)
    divided[::parts] = spread
    if trajectory.u is None:
        inputs = values[:, :0]
    elif np.isfinite(trajectory.u).all():
        inputs = Held(trajectory.t, trajectory.u, trajectory.hold).at(times)
    else:
        inputs = Held(t, u, trajectory.hold).at(times)
    return times, (values, divided, inputs)


def since_start(records: Sequence[Record], parts: int) -> list[Floats]:
    """(stretches, samples) for each record: time since the start of the run, in units of the longest run.

    The samples count as evenly spaced.
    """
    since = []
    for record in records:
        t = record.grid.t - record.grid.t[0]
        step = float(t[-1]) / max(len(t) - 1, 1)
        since.append(record.offset[:, None] * max(parts, 1) * step + t)
    longest = max(float(s.max()) for s in since)
    return [np.asarray(s / longest) for s in since]


def instants_for(trajectories: Sequence[Trajectory]) -> int:
    """The number of parts of each step that makes integrals accurate, from how much the motion bends."""
    groups = [[run for run in group if len(run) > 3][: _INSTANTS.look] for group in looked_at(trajectories)]
    bent = [_bending(looks, trajectories if len(groups) > 1 else looks) for looks in groups]
    worst = max(bent, default=0.0)
    parts = 1 if worst <= _INSTANTS.coarse else int(np.ceil(worst / _INSTANTS.fine))
    parts = min(parts, _INSTANTS.most_parts)
    # Band-limited inputs may turn within two samples, so that polynomials need more instants.
    limited = any(run.hold == "band" and run.inputs for looks in groups for run in looks)
    return max(_INSTANTS.band, parts) if limited else parts


def _bending(looks: Sequence[Trajectory], grid: Sequence[Trajectory]) -> float:
    """The median of how much trajectories bend between the instants of a grid that may be finer."""
    by_times: dict[bytes, list[Trajectory]] = {}
    for trajectory in looks:
        for first in trajectory.segments()[:1]:
            by_times.setdefault((first.t - first.t[0]).tobytes(), []).append(first)
    if not by_times:
        return 0.0
    # The worst state counts. Runs at the same times are smoothed together.
    bent = [
        roughness(runs[0].t, np.hstack([run.x for run in runs])).reshape(len(runs), -1)
        for runs in by_times.values()
    ]
    rough = np.concatenate([states.max(axis=1) for states in bent])
    own, all_instants = (
        np.median(np.concatenate([np.diff(run.t) for run in runs])) for runs in (looks, grid)
    )
    return float(np.median(rough) * min(all_instants / own, 1.0) if grid is not looks else np.median(rough))


def at_measurements(records: Sequence[Record], tables: Iterable[Floats]) -> list[list[Floats]]:
    """Values of each state where it was measured, stretch by stretch; an empty list for an unmeasured state.

    tables: for each record (stretches, samples, states) or (stretches, samples, states, columns)
    """
    values: list[list[Floats]] = [[] for _ in range(records[0].states)]
    for record, table in zip(records, tables, strict=True):
        for s, j in np.argwhere(~record.missing.all(axis=1)):
            values[j].append(table[s, ~record.missing[s, :, j], j])
    return values
