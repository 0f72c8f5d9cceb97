"""Doubts: whether measurements are what they are taken for, white, undistorted and without outliers.

Whiteness. The white rows that a law leaves at its states are w = L⁻¹ r, in time order. Where the assumptions
hold they are white. Where they are not, κ = 1 + 2 Σ ρ_k is how many of them count as one, and an
autoregressive process on them, w_k = Σ a_i w_{k−i} + innovation of variance s², changes −2 log p by n log s²
+ order · log n.

Distortions. To first order a faulty channel or clock adds to the measurements, with s the time since a run
began, in units of the longest run,

    late     a channel that is read τ late holds             x − τ x'
    blurred  one that averages over a window of variance s²  x + ½ s² x''
    gain     one whose gain drifts by g along a run          x + g s x

and along a law x' = F(x) and x'' = J F, with J its Jacobian. A distortion c of the measurements enters the
rows D y − W J (y − x̂) = W ψ(x̂) Ξ + B e as the column B c beside those of the terms. A clock whose rate
drifts by r along a run makes x' = (1 + r s) F, and so the column W s F. The size of each distortion is one
more unknown of least squares.

Outliers and trajectories that are noisier than others are found by what each measurement leaves of the law,
in units of the noise of its own run.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Literal, NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy.linalg import lapack

from cindy._arrays import Floats, Ints
from cindy.least_squares import LeastSquares, quick_triangle
from cindy.states.linearised import Linearised
from cindy.states.motion import Fitted, Motion
from cindy.states.record import MISSING, Record

__all__ = [
    "Distortion",
    "autocovariance",
    "autoregression",
    "distorted_rows",
    "doubted",
    "growing",
    "leaves_noise",
    "memory",
    "noise_memory",
    "sensor_memory",
    "without_outliers",
]

_WHITE, _CHANCE = 1.1, 4.0
"""Autocorrelation time up to which rows are white, and by how much chance may lengthen it, times √(lags that
it adds up / rows): the sum of l correlations of white noise has the variance l / rows. White noise of 500
rows is longer once in 30 times, of 5,000 once in 300 (simulated), data of solvers at their usual
tolerances have 1.3 to 40 (benchmark: solver_made)."""
_RESOLVED = 0.05
"""What is left of a step from sample to sample: beyond, it is noise or a missing term that hides the law.

(benchmark: solver_made, where it parts the data of solvers from those with 5 % of noise)"""

_ORDERS = 20
"""Of the autoregressive process that two hypotheses are compared with: a bound on work."""
_FORGETTING = (0.5, 0.7, 0.85, 0.93, 0.97)
"""What an exponential filter keeps of its last value at every sample, as a grid of memories from 2 to 30
samples: without it a slow drift in white noise passes for kicks (benchmark: wrong_noise)."""


def leaves_noise(motion: Motion, fitted: Fitted) -> bool:
    """Whether what a law leaves is white, or too large a part of a step to be called an error of the data."""
    left = np.sqrt(2.0 * fitted.variance + fitted.error * motion.step)
    if not np.all((left < _RESOLVED * motion.moved)[motion.measured]):
        return True
    return all(one.white for one in noise_memory(motion, fitted))


def noise_memory(motion: Motion, fitted: Fitted) -> list[Memory]:
    """How long what a law leaves remembers, state by state."""
    return [memory(stretches) for stretches in _left(motion, fitted)]


def sensor_memory(motion: Motion, fitted: Fitted) -> list[Memory]:
    """How long the noise of each state remembers, with 1 for states that nobody measured.

    Beside a state without measurements the rows of an equation are no noise of their own: a position and its
    rate share them. What the law leaves of the measurements, y − x, is then asked instead.
    """
    if motion.measured.all():
        return noise_memory(motion, fitted)
    return [memory(stretches) for stretches in _noise(motion, fitted)]


def autoregression(motion: Motion, fitted: Fitted) -> float:
    """The change of −2 log p by an autoregressive process on what a law leaves, its parameters paid for.

    If every sample measures every state, the white rows are one innovation per sample and state. With states
    or instants that were not measured they are not: some rows hold no noise. For an exact law the residuals
    y − x are the noise itself, and the process is fitted to them. For a kicked law they are not independent
    of the kicks, and it gets no credit.
    """
    whole = motion.measured.all() and not any(record.missing.any() for record in motion.records)
    if not whole and motion.kicked(fitted).any():
        return 0.0
    left = _left(motion, fitted) if whole else _noise(motion, fitted)
    return sum(_autoregression(stretches) for stretches in left if stretches)


def _autoregression(stretches: list[Floats]) -> float:
    """n log s² + parameters · log n at its least, with a slow drift beside the process and without one.

    White noise beside a drift needs autoregression of endless order: w_k − w_{k−1} = v_k − θ v_{k−1}, and the
    process is that of v (an exponential filter; Box and Jenkins, Time Series Analysis, 1970). Its first value
    and its weights make a unit triangle, so that densities stay comparable.
    """
    rows = sum(map(len, stretches))
    size = sum(float(one @ one) for one in stretches)
    best = _by_levinson(stretches)
    for forgetting in _FORGETTING if size > 0.0 else ():
        left = [_filtered(one, forgetting) for one in stretches]
        ratio = sum(float(one @ one) for one in left) / size
        drifting = rows * float(np.log(max(ratio, 1e-12))) + float(np.log(max(rows, 1)))
        best = min(best, drifting + _by_levinson(left))
    return best


def _filtered(values: Floats, forgetting: float) -> Floats:
    """v of v_k − θ v_{k−1} = w_k − w_{k−1}: scipy.signal's filter takes half a second to import."""
    band = np.ones((2, len(values)), order="F")
    band[1] = -forgetting
    return np.asarray(lapack.dtbtrs(band, np.diff(values, prepend=0.0)[:, None], uplo="L")[0][:, 0])


def _by_levinson(stretches: list[Floats]) -> float:
    """n log s² + order · log n at its least over the orders, by Levinson's recursion."""
    rows = sum(map(len, stretches))
    most = min(_ORDERS, rows // 10)
    lags = [sum(float(one[k:] @ one[: max(len(one) - k, 0)]) for one in stretches) for k in range(most + 1)]
    if not rows or lags[0] <= 0.0:
        return 0.0
    correlation = np.array(lags) / lags[0]
    left, filter_, best = 1.0, np.zeros(0), 0.0
    for order in range(1, most + 1):
        # Levinson and Durbin: the next reflection coefficient from the last filter, in O(order) operations.
        reflection = (correlation[order] - filter_ @ correlation[order - 1 : 0 : -1]) / left
        filter_ = np.append(filter_ - reflection * filter_[::-1], reflection)
        left *= max(1.0 - reflection**2, 1e-12)
        best = min(best, rows * float(np.log(left)) + order * float(np.log(rows)))
    return best


def _noise(motion: Motion, fitted: Fitted) -> list[list[Floats]]:
    """What a law leaves of the measurements, y − x, state by state; nothing of states without any."""
    left: list[list[Floats]] = [[] for _ in range(motion.states)]
    for record, x in zip(motion.records, fitted.x, strict=True):
        for j in np.flatnonzero(motion.measured):
            for residual, missing in zip((record.y - x)[..., j], record.missing[..., j], strict=True):
                left[j].append(residual[~missing])
    return left


def _left(motion: Motion, fitted: Fitted) -> list[list[Floats]]:
    """The white rows that a law leaves at its states, state by state and stretch by stretch.

    None at all where a covariance is not positive.
    """
    left: list[list[Floats]] = [[] for _ in range(motion.states)]
    for white in motion.whitened(fitted):
        if white is None:
            return [[] for _ in left]
        table = motion.table(white, fitted.law, fitted.coef)
        residual = (table[:, -1] - table[:, :-1] @ fitted.coef).reshape(white.linear.target.shape)
        for j, stretches in enumerate(left):
            stretches += list(residual[..., j])
    return left


class Memory(NamedTuple):
    """An autocorrelation time, the lags that it adds up, and the rows it is of."""

    time: float
    lags: int
    rows: int

    @property
    def white(self) -> bool:
        """Whether chance may have made it as long as it is."""
        return self.time < _WHITE + _CHANCE * float(np.sqrt(self.lags / max(self.rows, 1)))


def memory(stretches: list[Floats]) -> Memory:
    """1 + 2 Σ ρ_k over the lags that tell more than chance, of all stretches."""
    values, rows = autocovariance(stretches), sum(map(len, stretches))
    if len(values) < 2 or values[0] == 0.0:
        return Memory(1.0, 1, rows)
    return Memory(float(2.0 * np.sum(values / values[0]) - 1.0), len(values) - 1, rows)


def autocovariance(stretches: list[Floats]) -> Floats:
    """Of all stretches, over the lags whose pairs of neighbours are positive (Geyer 1992)."""
    longest, rows = max((len(one) for one in stretches), default=0), sum(map(len, stretches))
    if longest < 4:
        return np.array([sum(float(one @ one) for one in stretches) / max(rows, 1)])
    values = np.zeros(longest)
    for one in stretches:
        # All lags at once; twice the length, so that the ends do not wrap round.
        values += np.fft.irfft(np.abs(np.fft.rfft(one, 2 * longest)) ** 2)[:longest] / rows
    # Sums of neighbouring lags are positive for a reversible chain; the first that is not marks where noise
    # begins.
    pairs = values[: longest // 2 * 2].reshape(-1, 2).sum(axis=1)
    negative = np.flatnonzero(pairs <= 0)
    count = int(negative[0]) if len(negative) else len(pairs)
    return values[: max(2 * count, 1)]


class Distortion(NamedTuple):
    """A kind of distortion, and the state whose channel it is; a clock is shared by all of them."""

    kind: Literal["late", "blurred", "gain", "clock"]
    state: int = -1


def distorted_rows(
    motion: Motion, fitted: Fitted, columns: Ints, distortions: Sequence[Distortion]
) -> LeastSquares | None:
    """White rows of the coefficients in `columns` and, after them, of the size of each distortion.

    None where a covariance is not positive.
    """
    law = motion.law(columns)
    width = len(columns) + len(distortions)
    longest = max(float(_since(motion, record).max()) for record in motion.records)
    factor, rows = np.zeros((0, width + 1)), 0
    for white in motion.whitened(fitted):
        if white is None:
            return None
        since = _since(motion, white.linear.record) / longest
        linear = white.linear
        values = fitted.law.values(linear.record.points(linear.x))
        slope = (values @ fitted.law.table(fitted.coef)).reshape(linear.x.shape)
        added = np.stack([_added(linear, slope, since, one) for one in distortions], axis=-1)
        table = motion.table(white, law)
        table = np.concatenate([table[:, :-1], white.white(added), table[:, -1:]], axis=1)
        rows += len(table)
        table = motion.counted_once(table)
        factor = quick_triangle(np.concatenate([factor, table]) if len(factor) else table, 1e-6)
    return LeastSquares(factor, width, rows)


def _since(motion: Motion, record: Record) -> Floats:
    """(stretches, samples) time since the run began that a stretch is from, as if its samples were even."""
    t = record.grid.t - record.grid.t[0]
    step = float(t[-1]) / max(len(t) - 1, 1)
    return np.asarray(record.offset[:, None] * max(motion.parts, 1) * step + t)


def _added(linear: Linearised, slope: Floats, since: Floats, one: Distortion) -> Floats:
    """(stretches, rows, states): what a unit of the distortion adds to the rows.

    slope: (stretches, samples, states) of the law
    """
    if one.kind == "clock":
        return linear.record.grid.integrals(since[..., None] * slope)
    if one.kind == "late":
        change = -slope
    elif one.kind == "gain":
        change = since[..., None] * linear.x
    else:
        change = (linear.jacobian @ slope[..., None])[..., 0] / 2.0
    alone = np.zeros_like(change)
    seen = ~linear.record.missing[..., one.state]
    alone[..., one.state] = np.where(seen, change[..., one.state], 0.0)
    return linear.moved(alone)


@dataclass(frozen=True)
class _Doubt:
    """When samples, runs or a constant noise are doubted."""

    far: float = 6.0
    """Standard deviations beyond which a measurement is an outlier: chance makes one in 5e8. With 4 errors
    are larger by 2 % (benchmark: constants)."""
    bends: float = 3.0
    """Times the largest third difference of a run, beyond which its first or last value is an outlier. Not
    varied: one outlier was 7 standard deviations of the motion away (benchmark: wrong_noise)."""
    unequal: float = 1.5
    """Ratio of variances from which trajectories have noise of their own (benchmark: damage)."""
    least: float = 1e-6
    """Share of the noise that a trajectory has at least: one at rest is met exactly."""
    clearly: float = 30.0
    """Units of −2 log p by which noise must be seen to grow (benchmarks: solver_made, damage)."""
    noisiest: float = 0.1
    """Of the variance that marks a missing entry: a measurement has less, however large its state."""
    few: int = 50
    """Measurements of a state below which their noise is not looked at: no trend, and none of a run."""


_DOUBT = _Doubt()


_GROWTH = 10.0 ** np.arange(-1.0, 4.1, 0.5)
"""Noise that grows with the state beside the constant one, at the mean square of the state."""


def without_outliers(motion: Motion, fitted: Fitted) -> tuple[Motion, int]:
    """The same without the measurements far from the fitted states, and how many these are.

    The noise of each trajectory is judged by the median of its size, which outliers do not move: with one
    noise for all, the tails of a noisier trajectory would be outliers. Where there are outliers, the ends of
    the runs are judged by their neighbours too: a law with a false term may start at any first value.
    """
    noise, count = _robust(motion, fitted), 0
    for judged in (_far, _far_ends):
        records = []
        for record, x in zip(motion.records, fitted.x, strict=True):
            size = np.stack([noise[int(number)] for number in record.source])[:, None] * np.sqrt(
                record.spread
            )
            values, far = judged(record.y, x, _DOUBT.far * size)
            far &= ~record.missing
            count += int(far.sum())
            kept = np.where(far, values, record.y)
            records.append(replace(record, y=kept, spread=np.where(far, MISSING, record.spread)))
        motion = motion.part(records)
        if not count:
            break
    return motion, count


def _far(y: Floats, x: Floats, limit: Floats) -> tuple[Floats, NDArray[np.bool_]]:
    """What stands for measurements that are far from the fitted states, and which these are."""
    return x, np.abs(y - x) > limit


def _far_ends(y: Floats, x: Floats, limit: Floats) -> tuple[Floats, NDArray[np.bool_]]:
    """The same for the first and last of each stretch, by the parabola through the three states beside it.

    The motion itself leaves that parabola at most as far as it does elsewhere.
    """
    values, far = x.copy(), np.zeros(y.shape, dtype=bool)
    if y.shape[1] < 8:
        return values, far
    bends = np.abs(np.diff(x[:, 1:-1], 3, axis=1)).max(axis=1)
    for end, beside in ((0, (1, 2, 3)), (-1, (-2, -3, -4))):
        values[:, end] = 3.0 * x[:, beside[0]] - 3.0 * x[:, beside[1]] + x[:, beside[2]]
        left = np.abs(y[:, end] - values[:, end])
        # The error of the parabola has 1 + 9 + 9 + 1 times the variance of one measurement.
        far[:, end] = (left > np.sqrt(20.0) * limit[:, end]) & (left > _DOUBT.bends * bends)
    return values, far


def growing(motion: Motion, fitted: Fitted) -> tuple[Motion, tuple[int, ...]]:
    """The same with noise that grows with the state where the measurements say so, and of which states.

    σ² (1 + ρ x²) in place of σ², ρ by likelihood: Σ log(1 + ρ x²) + n log Σ ê²/(1 + ρ x²) over a grid. The
    variances are in units of their mean: 1 + ρ x² alone reaches the size that marks a missing measurement.
    """
    rates, means, states = np.zeros(motion.states), np.ones(motion.states), []
    pairs = list(zip(motion.records, fitted.x, strict=True))
    for j in range(motion.states):
        seen = [~record.missing[..., j] for record, _ in pairs]
        size = np.concatenate([x[..., j][s] ** 2 for (_, x), s in zip(pairs, seen, strict=True)])
        noise = np.concatenate(
            [((r.y - x)[..., j] ** 2 / r.spread[..., j])[s] for (r, x), s in zip(pairs, seen, strict=True)]
        )
        if len(size) < _DOUBT.few or not noise.any():
            continue
        tried = np.concatenate([[0.0], _GROWTH / max(float(np.mean(size)), 1e-300)])
        shapes = 1.0 + tried[:, None] * size
        # −2 log p of normal noise of variance σ² shape, with σ² profiled out.
        value = np.sum(np.log(shapes), axis=1) + len(size) * np.log(np.mean(noise / shapes, axis=1))
        if value[0] - value.min() > _DOUBT.clearly:
            best = int(np.argmin(value))
            rates[j], means[j] = tried[best], float(np.mean(shapes[best]))
            states.append(j)
    if not states:
        return motion, ()
    records = []
    for record, x in pairs:
        spread = np.minimum(record.spread * (1.0 + rates * x**2) / means, _DOUBT.noisiest * MISSING)
        records.append(replace(record, spread=np.where(record.missing, record.spread, spread)))
    return motion.part(records), tuple(states)


def doubted(motion: Motion, fitted: Fitted) -> Motion | None:
    """The same with the noise of each trajectory in its own proportion; None where they do not differ."""
    squares: dict[int, list[Floats]] = {}
    for record, x in zip(motion.records, fitted.x, strict=True):
        size = np.where(record.missing, np.nan, (record.y - x) ** 2 / (record.spread * fitted.variance))
        for number, one in zip(record.source, size, strict=True):
            squares.setdefault(int(number), []).append(one[np.isfinite(one)])
    factor = {k: float(np.mean(np.concatenate(v))) for k, v in squares.items()}
    sizes = {k: sum(len(one) for one in v) for k, v in squares.items()}
    known = [k for k in factor if sizes[k] > 0 and factor[k] > 0]
    if len(known) < 2:
        return None
    logs = np.array([abs(np.log(factor[k])) for k in known])
    # The logarithm of a variance from n samples has the error √(2/n): short runs differ by chance.
    limits = np.array([max(np.log(_DOUBT.unequal), 5.0 * np.sqrt(2.0 / sizes[k])) for k in known])
    if not (logs > limits).any():
        return None
    records = []
    for record in motion.records:
        own = np.array([max(factor.get(int(k), 1.0), _DOUBT.least) for k in record.source])[:, None, None]
        records.append(replace(record, spread=np.where(record.missing, record.spread, record.spread * own)))
    return motion.part(records)


def _robust(motion: Motion, fitted: Fitted) -> dict[int, Floats]:
    """(states,) standard deviation of the noise of every trajectory, by the median of its size.

    Where a trajectory has few measurements of a state, that of all of them. A state at rest that is reported
    in steps has the noise of rounding.
    """
    sizes: dict[int, list[Floats]] = {}
    for record, x in zip(motion.records, fitted.x, strict=True):
        size = np.where(record.missing, np.nan, np.abs(record.y - x) / np.sqrt(record.spread))
        for number, one in zip(record.source, size, strict=True):
            sizes.setdefault(int(number), []).append(one)
    own = {number: np.concatenate(parts) for number, parts in sizes.items()}
    seen, everything = motion.measured, np.sqrt(fitted.variance)
    everything[seen] = 1.4826 * np.nanmedian(np.concatenate(list(own.values()))[:, seen], axis=0)
    noise = {}
    for number, size in own.items():
        enough = np.sum(~np.isnan(size), axis=0) >= _DOUBT.few
        noise[number] = everything.copy()
        median = 1.4826 * np.nanmedian(size[:, enough], axis=0)
        noise[number][enough] = np.maximum(median, np.sqrt(motion.floor[enough]))
    return noise
