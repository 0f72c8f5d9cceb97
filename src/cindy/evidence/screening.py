"""Faults of measured fields, recognised before rows are computed, corrected where that is safe, and reported.

A sample is compared with the cubic through its two neighbours on either side along one axis. The difference

    e = u_i − (−u_{i−2} + 4 u_{i−1} + 4 u_{i+1} − u_{i+2}) / 6,     Var e = 35/18 σ² for white noise

is noise where the grid resolves the field. Faults show in it as follows.

1. False period: e is larger across the seam than anywhere else. The axis is then taken as not periodic.
2. Dead pixels: at one place along space e is large at most times. The place becomes missing.
3. Saturation: many samples have exactly the largest or the smallest value. They become missing.
4. Outliers: e is large along every axis, and the sample lies outside the range of its neighbours. They become
   missing.
5. Missing samples that stand alone are filled by cubics through the nearest samples; larger holes remain.
6. Offsets and gains of pixels or frames: differences of high order of the mean along the other axes, and
   their slope against the field itself, are larger than noise makes them. They are only reported.
7. Lost frames: the step between two frames is twice as large as those around it. The field is cut there.

Fields of more values than `_LARGEST` are not screened, as they are read in slabs of time.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from itertools import pairwise
from math import comb
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from cindy._arrays import Floats, Ints
from cindy.data import Field
from cindy.evidence.weak_settings import Noise

Mask = NDArray[np.bool_]
FaultKind = Literal[
    "false-period", "saturated-values", "dead-pixels", "outliers", "lost-frames", "unequal-pixels",
    "unequal-frames", "filled-values",
]  # fmt: skip

_LARGEST = 4_000_000
"""Largest number of values of a field that is screened."""
_CUBIC = 35.0 / 18.0
"""Variance of e for white noise of variance 1."""
_FAR = 6.0
"""Standard deviations by which an outlier differs from its neighbours; chance exceeds them once in 5e8."""
_MOST = 0.1
"""Largest share of samples or pixels that may be outliers or dead: what is common is no fault."""
_SATURATED = 0.25
"""Largest share of saturated samples that are left out."""
_TIES = 5
"""Samples at the extreme, in units of those at the next value: rounded data have ties everywhere."""
_SEAM = 4.0
"""Mean square of e across a false seam, in units of the 98 % quantile elsewhere."""
_LOST = 2.2
"""Square of a step between frames in units of those around it; for one lost frame it is 4."""
_SHORTEST = 20
"""Fewest frames of a piece that a field is cut into."""
_SHARED = 3.0
"""Variance of offsets or gains, in units of that by noise alone (benchmark: field_honesty)."""
_NEGLIGIBLE = 1e-4
"""Size relative to the standard deviation of a field below which faults do no harm."""
_DIFFERENCE = 8
"""Order of the differences that distinguish offsets and gains from a smooth field."""
_WIDEST = 3
"""Most missing samples in a row that are filled."""


@dataclass(frozen=True)
class Fault:
    """A fault of one state of a field.

    axis: along which, where that matters; count: samples, pixels or frames; size: relative to the field
    where: coordinates, at most a few
    """

    kind: FaultKind
    state: str
    axis: str = ""
    count: int = 0
    share: float = 0.0
    size: float = 0.0
    where: tuple[float, ...] = ()


@dataclass(frozen=True, eq=False)
class _Screened:
    """Fields with their faults corrected where that is safe.

    noise: of every field with filled values, which would make it seem smaller; None: to be measured as usual
    filled: share of all samples that were filled
    """

    fields: tuple[Field, ...]
    noise: tuple[Noise | None, ...]
    faults: tuple[Fault, ...]
    filled: float = 0.0


def screened(fields: Sequence[Field]) -> _Screened:
    """The corrected fields, and their faults."""
    parts: list[Field] = []
    noise: list[Noise | None] = []
    faults: list[Fault] = []
    filled = total = 0
    for field in fields:
        size = int(np.prod(field.shape)) * len(field.states)
        total += size
        if np.prod(field.shape) > _LARGEST or min(field.shape) < 9:
            parts.append(field)
            noise.append(None)
            continue
        screen = _Screen.of(field)
        faults += screen.faults
        filled += screen.filled
        pieces = screen.pieces()
        parts += pieces
        noise += [screen.sigma if screen.filled else None] * len(pieces)
    return _Screened(tuple(parts), tuple(noise), tuple(faults), filled / max(total, 1))


@dataclass(frozen=True, eq=False)
class _Screen:
    """One field while it is screened: its values by state, its faults, and frames after which it is cut."""

    field: Field
    values: dict[str, Floats]
    periods: dict[str, float]
    sigma: Noise
    faults: tuple[Fault, ...] = ()
    cuts: tuple[int, ...] = ()
    filled: int = 0
    changed: bool = False

    @classmethod
    def of(cls, field: Field) -> _Screen:
        """The field after all steps."""
        values = {state: field[state] for state in field.states}
        periods = {axis: p for axis in field.axes if (p := field.period(axis)) is not None}
        screen = cls(field, values, periods, {s: _robust_noise(u) for s, u in values.items()})
        screen = screen._without_false_periods()
        for state in field.states:
            # Dead pixels and saturated samples go first, since they would count as outliers too.
            screen = screen._without(state, "dead-pixels", screen._dead(state))
            screen = screen._without(state, "saturated-values", screen._saturated(state))
            screen = screen._without(state, "outliers", screen._outliers(state))
            # Differences of high order need all samples, so that holes are filled before the next step.
            screen = screen._fill(state)
            screen = replace(screen, faults=(*screen.faults, *screen._shared(state)))
        return screen._cut()

    @property
    def axes(self) -> tuple[str, ...]:
        return (*self.field.axes, self.field.time)

    @cached_property
    def least(self) -> Noise:
        """The noise of each state, or at least the size below which faults do no harm."""
        spread = {state: float(np.nanstd(u)) for state, u in self.values.items()}
        return {state: max(sigma, _NEGLIGIBLE * spread[state]) for state, sigma in self.sigma.items()}

    def pieces(self) -> list[Field]:
        """The corrected field, in pieces if it is cut; the same object if it has no faults."""
        field = self.field
        if self.changed:
            arrays: dict[str, Any] = {axis: field.coordinate(axis) for axis in self.axes} | self.values
            named = {"time": field.time, "time_unit": field.time_unit, "name": field.name}
            corrected = Field(arrays, periodic=self.periods, weight=field.weight, **named)
            field = corrected.with_inputs_of(field)
        if not self.cuts:
            return [field]
        return [field.part(a, b) for a, b in pairwise([0, *(k + 1 for k in self.cuts), len(field)])]

    def _without_false_periods(self) -> _Screen:
        """Step 1."""
        screen = self
        for k, axis in enumerate(self.field.axes):
            if axis not in self.periods:
                continue
            for state in self.field.states:
                seam, inside, noise = self._seam(state, k)
                if seam > _SEAM * inside and seam > noise:
                    fault = Fault(
                        "false-period", state, axis, size=float(np.sqrt(seam / max(inside, 1e-300)))
                    )
                    periods = {a: p for a, p in screen.periods.items() if a != axis}
                    screen = replace(screen, periods=periods, changed=True, faults=(*screen.faults, fault))
                    break
        return screen

    def _seam(self, state: str, k: int) -> tuple[float, float, float]:
        """Mean squares of e: across the seam, inside (98 % quantile), and the largest that noise explains."""
        rough = _rough(self.values[state], k, around=True)
        squares = np.moveaxis(rough**2, k, 0).reshape(self.field.shape[k], -1)
        known = np.isfinite(squares)
        sums, counts = np.where(known, squares, 0.0).sum(axis=1), known.sum(axis=1)
        by_place = np.where(counts > 0, sums / np.maximum(counts, 1), np.nan)
        # The cubic through four neighbours looks two samples across the seam on either side.
        edge = by_place[[0, 1, -2, -1]]
        inside = by_place[2:-2]
        if not np.isfinite(edge).any() or not np.isfinite(inside).any():
            return 0.0, 1.0, 0.0
        white = _CUBIC * self.least[state] ** 2
        chance = white * (1.0 + _FAR * float(np.sqrt(2.0 / squares.shape[1])))
        return float(np.nanmax(edge)), float(np.nanquantile(inside, 0.98)), chance

    def _saturated(self, state: str) -> Mask | None:
        """Step 3. Samples at an extreme value that many others share."""
        u = self.values[state]
        known = u[np.isfinite(u)]
        ordered, counts = np.unique(known, return_counts=True)
        if len(ordered) < 20:
            return None
        saturated = np.zeros(u.shape, dtype=bool)
        for end, beside in ((0, 1), (-1, -2)):
            if counts[end] > max(10, 0.002 * known.size) and counts[end] > _TIES * counts[beside]:
                saturated |= u == ordered[end]
        return saturated if 0 < saturated.mean() <= _SATURATED else None

    def _dead(self, state: str) -> Mask | None:
        """Step 2. Places whose samples do not fit their neighbours in space at most times."""
        u, n = self.values[state], len(self.field)
        space = [axis in self.periods for axis in self.field.axes]
        sigma = self.least[state]
        # Zero where no axis has enough neighbours, at ends and beside holes.
        along = [np.abs(_rough(u, k, around=ring)) for k, ring in enumerate(space)]
        rough = np.nan_to_num(np.fmin.reduce(along))
        low, high = _neighbours(u, space)
        with np.errstate(invalid="ignore"):
            outside = np.maximum(u - high, low - u) > 4 * sigma
        size = np.sqrt(np.mean(rough**2, axis=-1))
        usual = float(np.median(size)) + sigma
        known = np.isfinite(u)
        mean = np.where(known, u, 0.0).sum(axis=-1) / np.maximum(known.sum(axis=-1), 1)
        wander = np.where(known, u - mean[..., None], 0.0).std(axis=-1)
        limit = max(4.0 * usual, 0.02 * float(np.nanstd(u)))
        bad = (size > limit) & (outside.sum(axis=-1) > 0.3 * n)
        bad |= (wander < 0.3 * sigma) & (size > 1.5 * usual) & known.any(axis=-1)
        if not bad.any() or bad.mean() > _MOST:
            return None
        return np.broadcast_to(bad[..., None], u.shape)

    def _outliers(self, state: str) -> Mask | None:
        """Step 4. Samples that fit no axis and lie outside the range of their neighbours."""
        u, sigma = self.values[state], self.least[state]
        outliers = np.zeros(u.shape, dtype=bool)
        around = [axis in self.periods for axis in self.axes]
        for _ in range(3):
            rough = [np.abs(_rough(u, k, around=ring)) for k, ring in enumerate(around)]
            low, high = _neighbours(u, around)
            with np.errstate(invalid="ignore"):
                far = (np.maximum(u - high, low - u) > 3 * sigma) & np.isfinite(rough).any(axis=0)
                # Axes without enough neighbours, at an end or beside a hole, do not count.
                far &= np.all([(e > _FAR * np.sqrt(_CUBIC) * sigma) | ~np.isfinite(e) for e in rough], axis=0)
                for e in rough if far.any() else ():
                    far &= (e > _FAR * (np.sqrt(_CUBIC) * sigma + _local_scale(e))) | ~np.isfinite(e)
            if not far.any():
                break
            outliers |= far
            u = np.where(far, np.nan, u)
        return outliers if 0 < outliers.mean() <= _MOST else None

    def _without(self, state: str, kind: FaultKind, bad: Mask | None) -> _Screen:
        """The screen with some samples missing, and a fault of this kind."""
        if bad is None or not bad.any():
            return self
        values = {**self.values, state: np.where(bad, np.nan, self.values[state])}
        places = bad.all(axis=-1)
        dead = kind == "dead-pixels"
        where: tuple[float, ...] = ()
        if dead and bad.ndim == 2:
            where = tuple(float(x) for x in self.field.coordinate(self.field.axes[0])[places][:8])
        count = int(places.sum() if dead else bad.sum())
        fault = Fault(kind, state, count=count, share=float(np.mean(bad)), where=where)
        return replace(self, values=values, changed=True, faults=(*self.faults, fault))

    def _cut(self) -> _Screen:
        """Step 7. The screen, cut where frames were lost."""
        # Offsets and gains of frames make steps between frames unequal too.
        if any(fault.kind == "unequal-frames" for fault in self.faults):
            return self
        squares = np.zeros(len(self.field) - 1)
        doubt = np.zeros(len(squares))
        for state, u in self.values.items():
            flat = np.diff(u, axis=-1).reshape(-1, len(squares))
            flat = np.sort(flat[np.isfinite(flat).all(axis=1)] ** 2, axis=0)
            # The largest few may be outliers that were not recognised.
            flat = flat[: max(1, int(0.95 * len(flat)))]
            if len(flat):
                spread = max(float(np.nanvar(u)), 1e-300)
                white = 2 * self.least[state] ** 2 / spread
                squares += flat.mean(axis=0) / spread
                doubt += white * np.sqrt(2.0 / len(flat))
        squares = squares - min(float(np.min(squares)), sum(2 * s**2 for s in self.sigma.values()))
        lost = [k for k in range(3, len(squares) - 3) if _stands_out(squares, k, doubt[k])]
        if not lost or len(lost) > _MOST * len(squares):
            return self
        edges = [0, *(k + 1 for k in lost), len(self.field)]
        safe = min(np.diff(edges)) >= _SHORTEST
        times = tuple(float(self.field.t[k]) for k in lost[:8])
        fault = Fault("lost-frames", "", self.field.time, count=len(lost), where=times, share=float(safe))
        return replace(self, cuts=tuple(lost) if safe else (), faults=(*self.faults, fault))

    def _fill(self, state: str) -> _Screen:
        """Step 5. The screen with missing samples that stand alone filled."""
        u = self.values[state]
        missing = np.isnan(u)
        if not missing.any() or missing.all():
            return self
        sigma = _robust_noise(u)
        filled = _filled(
            u, [self.field.coordinate(a) for a in self.axes], [self.periods.get(a) for a in self.axes], sigma
        )
        count = int(missing.sum() - np.isnan(filled).sum())
        if not count:
            return self
        faults = self.faults
        dead = any(fault.kind == "dead-pixels" and fault.state == state for fault in faults)
        if not dead and np.isnan(self.field[state]).any():
            faults = (*faults, Fault("filled-values", state, count=count, share=count / u.size))
        return replace(
            self,
            values={**self.values, state: filled},
            sigma={**self.sigma, state: _single_axis_noise(u, sigma)},
            faults=faults,
            changed=True,
            filled=self.filled + count,
        )

    def _shared(self, state: str) -> Iterator[Fault]:
        """Step 6. Offsets or gains that all samples of a pixel, or of a frame, share."""
        u, sigma = self.values[state], self.least[state]
        if np.isnan(u).any():
            return
        space, time = tuple(range(u.ndim - 1)), (u.ndim - 1,)
        kinds: tuple[FaultKind, FaultKind] = ("unequal-pixels", "unequal-frames")
        for kind, along, other in zip(kinds, (space, time), (time, space), strict=True):
            if min(u.shape[k] for k in along) < 2 * _DIFFERENCE + 20:
                continue
            sizes = [_sizes(u, along, other, order) for order in (_DIFFERENCE, 2 * _DIFFERENCE)]
            count = float(np.prod([u.shape[k] for k in other]))
            for what, (size, units), (at_twice, _) in zip(("offset", "gain"), *sizes, strict=True):
                # Twice the order removes more of a smooth field, but nothing of independent faults.
                large = size * units > _SHARED * sigma**2 / (count if what == "offset" else 1.0)
                if large and at_twice > 0.5 * size:
                    scale = float(np.var(u)) if what == "offset" else 1.0
                    yield Fault(kind, state, what, size=float(np.sqrt(size / scale)))
                    break


def _sizes(
    u: Floats, along: Sequence[int], other: tuple[int, ...], order: int
) -> tuple[tuple[float, float], tuple[float, float]]:
    """(variance, factor that turns it into one of noise) of the offsets, and of the gains, along some axes.

    Variances are estimated by medians, so that a few faulty places do not count.
    """
    rough = middle = u
    for k in along:
        rough = np.diff(rough, order, axis=k) / np.sqrt(comb(2 * order, order))
        middle = np.moveaxis(np.moveaxis(middle, k, 0)[order // 2 :][: rough.shape[k]], 0, k)
    offset = rough.mean(axis=other)
    # The slope against a neighbour along another axis, whose noise is independent.
    away = np.roll(middle - middle.mean(axis=other, keepdims=True), 1, axis=other[0])
    power = np.maximum((away**2).sum(axis=other), 1e-300)
    gain = (rough * away).sum(axis=other) / power
    square = 1.0 / 0.4549
    by_offset, by_gain = float(np.median(offset**2)), float(np.median(gain**2))
    return (square * by_offset, 1.0), (square * by_gain, float(np.median(power)))


def _stands_out(squares: Floats, k: int, doubt: float) -> bool:
    """Whether a step between frames is about twice as large as those on either side."""
    beside = np.concatenate([squares[k - 3 : k], squares[k + 1 : k + 4]])
    usual = max(float(np.median(beside[:3])), float(np.median(beside[3:])), 0.0)
    deviation = float(np.median(np.abs(beside - np.median(beside))))
    nearest = max(squares[k - 1], squares[k + 1])
    enough = squares[k] > _LOST * usual and squares[k] > 0.5 * _LOST * nearest
    return bool(enough and squares[k] - usual > _FAR * (doubt + deviation))


def _rough(u: Floats, k: int, *, around: bool) -> Floats:
    """e along an axis; NaN where a neighbour is beyond the end, unless the axis runs `around` a ring."""
    moved = np.moveaxis(u, k, 0)
    if around:
        windows = [np.roll(moved, shift, 0) for shift in (2, 1, 0, -1, -2)]
    else:
        windows = [moved[i : len(moved) - 4 + i] for i in range(5)]
    before2, before, middle, after, after2 = windows
    e = middle - (4 * (before + after) - before2 - after2) / 6
    if not around:
        inside, e = e, np.full(moved.shape, np.nan)
        e[2:-2] = inside
    return np.moveaxis(e, 0, k)


def _neighbours(u: Floats, around: Sequence[bool]) -> tuple[Floats, Floats]:
    """(smallest, largest) of the two nearest samples on either side along the first axes.

    around: of each of these axes, whether it runs around a ring
    """
    low, high = np.full(u.shape, np.inf), np.full(u.shape, -np.inf)
    for k, ring in enumerate(around):
        moved = np.moveaxis(u, k, 0)
        for shift in (-2, -1, 1, 2):
            near = np.roll(moved, shift, 0)
            if not ring:
                near[slice(None, shift) if shift > 0 else slice(shift, None)] = np.nan
            near = np.moveaxis(near, 0, k)
            low, high = np.fmin(low, near), np.fmax(high, near)
    return low, high


def _local_scale(e: Floats) -> Floats:
    """Robust standard deviation of |e| in windows of five samples along every axis."""
    from scipy.ndimage import median_filter

    return np.asarray(1.4826 * median_filter(np.where(np.isfinite(e), e, 0.0), size=5, mode="nearest"))


def _robust_noise(u: Floats) -> float:
    """The noise by the median of high differences, along the axis where it is least."""
    levels = []
    for k in range(u.ndim):
        order = min(_DIFFERENCE, u.shape[k] - 1)
        rough = np.abs(np.diff(u, order, axis=k))
        rough = rough[np.isfinite(rough)]
        if rough.size >= 20:
            levels.append(1.4826 * float(np.median(rough)) / np.sqrt(comb(2 * order, order)))
    return min(levels, default=0.0)


def _single_axis_noise(u: Floats, fallback: float) -> float:
    """The noise by mean squares of high differences along one axis, which meet fewer holes."""
    levels = []
    for k in range(u.ndim):
        order = min(_DIFFERENCE, u.shape[k] - 1)
        squares = np.diff(u, order, axis=k) ** 2 / comb(2 * order, order)
        parts = [p[np.isfinite(p)] for p in np.array_split(squares, 8, axis=k)]
        means = [float(p.mean()) for p in parts if p.size >= 20]
        if means:
            levels.append(float(np.sqrt(np.median(means))))
    return min(levels, default=fallback)


def _filled(u: Floats, coordinates: list[Floats], periods: list[float | None], sigma: float) -> Floats:
    """The values with lone missing samples from cubics along the axes, weighted by their errors."""
    total, weight = np.zeros(u.shape), np.zeros(u.shape)
    for k, (x, period) in enumerate(zip(coordinates, periods, strict=True)):
        rough = _rough(u, k, around=period is not None)
        if not np.isfinite(rough).any():
            continue
        bias = np.nanmean(rough**2) - _CUBIC * sigma**2
        places, values, gains = _along(u, k, x, period)
        error = gains * sigma**2 + max(float(bias), 0.0) + 1e-300
        total[places] += values / error
        weight[places] += 1.0 / error
    return np.where(np.isnan(u) & (weight > 0), total / np.where(weight > 0, weight, 1.0), u)


def _along(u: Floats, k: int, x: Floats, period: float | None) -> tuple[tuple[Ints, ...], Floats, Floats]:
    """Missing samples that have two known ones near on either side of an axis, their cubics, and their gain.

    The gain is the variance of the cubic in units of the noise variance.
    """
    moved = np.moveaxis(u, k, -1)
    n, pad = moved.shape[-1], min(2 * _WIDEST + 4, moved.shape[-1])
    ends = (moved[..., n - pad :], moved[..., :pad])
    if period is None:
        ends = (np.full_like(ends[0], np.nan), np.full_like(ends[1], np.nan))
    wide = np.concatenate([ends[0], moved, ends[1]], axis=-1)
    at = np.concatenate([x[n - pad :] - (period or 0.0), x, x[:pad] + (period or 0.0)])
    known, index = np.isfinite(wide), np.arange(wide.shape[-1])
    before = np.maximum.accumulate(np.where(known, index, 0), axis=-1)
    after = np.minimum.accumulate(np.where(known, index, len(index) - 1)[..., ::-1], axis=-1)[..., ::-1]
    *lines, place = np.nonzero(np.isnan(moved))
    line = tuple(lines)
    b1, a1 = before[(*line, place + pad)], after[(*line, place + pad)]
    b2, a2 = before[(*line, np.maximum(b1 - 1, 0))], after[(*line, np.minimum(a1 + 1, len(index) - 1))]
    four = np.stack([b2, b1, a1, a2])
    values = np.stack([wide[(*line, neighbour)] for neighbour in four])
    near = (a1 - b1 - 1 <= _WIDEST) & (a2 - b2 <= 2 * _WIDEST + 4) & np.isfinite(values).all(axis=0)
    near &= (b2 < b1) & (b1 < a1) & (a1 < a2)
    four, values, place, line = four[:, near], values[:, near], place[near], tuple(i[near] for i in line)
    weights = np.ones(four.shape)
    for a in range(4):
        for b in range(4):
            if a != b:
                weights[a] *= (x[place] - at[four[b]]) / (at[four[a]] - at[four[b]])
    places = [*line]
    places.insert(k, place)
    return tuple(places), np.sum(weights * values, axis=0), np.sum(weights**2, axis=0)
