"""Doubts: tests whether noise is white, motion without kicks, and no measurement an outlier, as fits assume.

Whiteness. Let w = L⁻¹ r be the white residuals of a law at its fitted states, in time order. If the
assumptions hold they are white. Otherwise their autocorrelation time κ = 1 + 2 Σ ρ_k says how many of them
count as one, and an autoregressive process w_k = Σ a_i w_{k−i} + innovation of variance s² changes −2 log p
by n log s² + order · log n.

Kicks. Unexplained motion that is large beside the noise and has a short memory is a sign of random kicks,
which act between samples too (`Forcing`).

Outliers, and trajectories that are noisier than others, are found from the residuals y − x of the
measurements in units of the noise of their own trajectory.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from math import lgamma
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy.linalg import lapack

from cindy._arrays import Floats, Ints
from cindy.states.fitting import FEW_ROWS
from cindy.states.linearised import Forcing
from cindy.states.motion import Fitted, Motion
from cindy.states.record import MISSING, at_measurements, since_start

_WHITE, _SURE = 1.1, 2.0
"""Rows are white if their autocorrelation time 1 + 2 Σ ρ_k is below the first number plus 2 z √(lags / rows),
as the sum of l correlations of white noise has the variance l / rows. z is the second number where one state
is looked at, and √(z² + 2 log d) where the residuals of d states are: the chance that one of them exceeds it
stays the same. White noise of one state and 500 rows exceeds this once in 30 times, of 5,000 once in 300
(simulated). Data of solvers at their usual tolerances have 1.3 to 40 (benchmark: solver_made)."""
_ORDERS = 20
"""Largest order of an autoregressive process: a bound on work."""
_FORGETTING = (0.5, 0.7, 0.85, 0.93, 0.97)
"""Factors by which an exponential filter multiplies its last value, for memories from 2 to 30 samples.
Without the filter a slow drift in white noise is taken for kicks (benchmark: wrong_noise)."""


def leaves_noise(motion: Motion, fitted: Fitted) -> bool:
    """Whether the residuals of a law are white, or too large to be errors of a solver or of rounding."""
    left = _left(motion, fitted)
    if left < _DOUBT.tiny:
        return False
    return left >= _DOUBT.resolved or all(memory.white for memory in noise_memory(motion, fitted))


def leaves_little(motion: Motion, fitted: Fitted) -> bool:
    """Whether the residuals of a law are as small as errors of a computation."""
    return _left(motion, fitted) < _DOUBT.tiny


def _left(motion: Motion, fitted: Fitted) -> float:
    """The largest residual of a state, relative to its step between samples. One unmeasured has no noise."""
    noise = np.where(motion.measured, 2.0 * fitted.variance, 0.0)
    residual = np.sqrt(noise + fitted.error * motion.step)
    return float(np.max(residual / np.maximum(motion.moved, 1e-300), initial=0.0))


def noise_memory(motion: Motion, fitted: Fitted) -> list[_Memory]:
    """The autocorrelation time of the white residuals, by state; empty if S is not positive definite."""
    return _memories(_white_residuals(motion, fitted))


def sensor_memory(motion: Motion, fitted: Fitted) -> list[_Memory]:
    """The autocorrelation time of the measurement noise of each state, 1 for states that were not measured.

    With unmeasured states, several equations share the noise of one measurement, such as those of a position
    and of its rate. The residuals y − x of the measurements are then used in place of the white residuals.
    """
    residuals = _white_residuals if motion.measured.all() else _measurement_residuals
    return _memories(residuals(motion, fitted))


def _memories(residuals: list[list[Floats]]) -> list[_Memory]:
    """The autocorrelation time of each state, one of as many as there are residuals."""
    among = sum(map(bool, residuals))
    return [memory(stretches)._replace(among=max(among, 1)) for stretches in residuals]


def autoregression(motion: Motion, fitted: Fitted) -> float:
    """The change of −2 log p if the noise is autoregressive, including the price of its parameters.

    If every sample measures every state, each white row is the innovation of one sample and state. With
    missing states or samples this is not so, as some rows hold no noise. For an exact law the residuals y − x
    are the noise itself, and the process is fitted to them. For a kicked law they depend on the kicks, and
    the change is 0.
    """
    complete = motion.measured.all() and not any(record.missing.any() for record in motion.records)
    if not complete and motion.kicked(fitted).any():
        return 0.0
    residuals = _white_residuals(motion, fitted) if complete else _measurement_residuals(motion, fitted)
    return sum(_autoregression(stretches) for stretches in residuals if stretches)


def _autoregression(stretches: list[Floats]) -> float:
    """The least n log s² + parameters · log n, for a process with a slow drift beside it or without one.

    White noise beside a drift needs a process of infinite order. So the drift is filtered out,
    w_k − w_{k−1} = v_k − θ v_{k−1}, and the process is fitted to v (Box and Jenkins, Time Series Analysis,
    1970). The filter and the process are unit triangular matrices, so that densities stay comparable.
    """
    rows = sum(map(len, stretches))
    size = sum(float(values @ values) for values in stretches)
    best = _by_levinson(stretches)
    for forgetting in _FORGETTING if size > 0.0 else ():
        filtered = [_filtered(values, forgetting) for values in stretches]
        ratio = sum(float(values @ values) for values in filtered) / size
        drifting = rows * float(np.log(max(ratio, 1e-12))) + float(np.log(max(rows, 1)))
        best = min(best, drifting + _by_levinson(filtered))
    return best


def _filtered(values: Floats, forgetting: float) -> Floats:
    """v of v_k − θ v_{k−1} = w_k − w_{k−1}. (The filter of scipy.signal takes half a second to import.)"""
    band = np.ones((2, len(values)), order="F")
    band[1] = -forgetting
    return np.asarray(lapack.dtbtrs(band, np.diff(values, prepend=0.0)[:, None], uplo="L")[0][:, 0])


def _by_levinson(stretches: list[Floats]) -> float:
    """The least n log s² + order · log n over all orders, by the recursion of Levinson and Durbin."""
    rows = sum(map(len, stretches))
    highest = min(_ORDERS, rows // 10)
    lags = [
        sum(float(values[k:] @ values[: max(len(values) - k, 0)]) for values in stretches)
        for k in range(highest + 1)
    ]
    if not rows or lags[0] <= 0.0:
        return 0.0
    correlation = np.array(lags) / lags[0]
    variance, filter_, best = 1.0, np.zeros(0), 0.0
    for order in range(1, highest + 1):
        # The reflection coefficient of this order follows from the last filter in O(order) operations.
        reflection = (correlation[order] - filter_ @ correlation[order - 1 : 0 : -1]) / variance
        filter_ = np.append(filter_ - reflection * filter_[::-1], reflection)
        variance *= max(1.0 - reflection**2, 1e-12)
        best = min(best, rows * float(np.log(variance)) + order * float(np.log(rows)))
    return best


def _measurement_residuals(motion: Motion, fitted: Fitted) -> list[list[Floats]]:
    """The residuals y − x of each state, stretch by stretch; an empty list for an unmeasured state."""
    residuals = [record.y - x for record, x in zip(motion.records, fitted.x, strict=True)]
    return at_measurements(motion.records, residuals)


def _white_residuals(motion: Motion, fitted: Fitted) -> list[list[Floats]]:
    """The white residuals of each state, stretch by stretch; empty lists where S is not positive definite."""
    residuals: list[list[Floats]] = [[] for _ in range(motion.states)]
    for white in motion.in_time_order(fitted):
        if white is None:
            return [[] for _ in residuals]
        table = motion.table(white, fitted.law, fitted.coef)
        residual = (table[:, -1] - table[:, :-1] @ fitted.coef).reshape(white.linear.target.shape)
        for j, stretches in enumerate(residuals):
            stretches += list(residual[..., j])
    return residuals


class _Memory(NamedTuple):
    """An autocorrelation time, the number of lags in its sum, and the number of rows it was computed from.

    among: how many times are looked at together, of which chance makes some long
    """

    time: float
    lags: int
    rows: int
    among: int = 1

    @property
    def white(self) -> bool:
        """Whether white noise may have this autocorrelation time by chance."""
        sure = float(np.sqrt(_SURE**2 + 2.0 * np.log(self.among)))
        return self.time < _WHITE + 2.0 * sure * float(np.sqrt(self.lags / max(self.rows, 1)))


def memory(stretches: list[Floats]) -> _Memory:
    """The autocorrelation time 1 + 2 Σ ρ_k of all stretches, over the lags that `until_chance` leaves."""
    values, rows = until_chance(all_lags(stretches)), sum(map(len, stretches))
    if len(values) < 2 or values[0] == 0.0:
        return _Memory(1.0, 1, rows)
    return _Memory(float(2.0 * np.sum(values / values[0]) - 1.0), len(values) - 1, rows)


def all_lags(stretches: list[Floats]) -> Floats:
    """The autocovariances of all stretches, at every lag of the longest."""
    longest, rows = max(map(len, stretches), default=0), sum(map(len, stretches))
    values = np.zeros(max(longest, 1))
    for stretch in stretches:
        # All lags by one Fourier transform, of twice the length so that the ends do not wrap round.
        values[:longest] += np.fft.irfft(np.abs(np.fft.rfft(stretch, 2 * longest)) ** 2)[:longest] / rows
    return values


def until_chance(values: Floats) -> Floats:
    """Autocovariances over the lags whose pairs of neighbours are positive (Geyer, Stat. Sci. 7, 1992)."""
    if len(values) < 4:
        return values[:1]
    # Sums of neighbouring lags are positive for a reversible chain. From the first that is not, lags are
    # noise.
    pairs = values[: len(values) // 2 * 2].reshape(-1, 2).sum(axis=1)
    negative = np.flatnonzero(pairs <= 0)
    count = int(negative[0]) if len(negative) else len(pairs)
    return values[: max(2 * count, 1)]


_CLEARLY = 1e-2
"""Model error over one sampling step, in units of σ², from which it counts as kicks (benchmark: oddities)."""
_SHORT = 3.0
"""Largest autocorrelation time, in samples, of the residuals of a kicked equation in rows of independent
model errors. Van der Pol's velocity has 1.6 without noise, missing terms mostly tens (benchmark: kicks)."""
_ROUGH = 2.0
"""Kicks of rates are tried if an exact law needs this many times the noise variance that differences of the
positions show. Kicked oscillators need hundreds, laws that hold need 1 (benchmark: kicks)."""


def kicked_everywhere(motion: Motion, fitted: Fitted) -> Motion | None:
    """The motion with kicks of constant size that also act between samples; None without a sign of kicks.

    In `motion` each row has an independent model error. Kicks then leave residuals with an autocorrelation
    time of a sample or two, and missing terms residuals with a longer one.
    """
    if not motion.parts or motion.records[0].grid.order != 1 or motion.rows < FEW_ROWS:
        return None
    large = kicked_clearly(motion, fitted)
    memories = noise_memory(motion, fitted) if large.any() else []
    if not any(memory.time < _SHORT for memory, much in zip(memories, large, strict=False) if much):
        return None
    return replace(motion, forcing=Forcing.everywhere(motion.variables[: motion.states]))


def kicked_rates(motion: Motion, fitted: Fitted, variance: Floats) -> tuple[Motion, Fitted] | None:
    """The motion with kicks of unmeasured rates, and a start for its fit; None if there is no sign of them.

    Positions may follow a law whose rates are kicked, or have much noise: the likelihood has a maximum for
    each. A search that starts from small model errors ends in the second. This start leads to the first. It
    takes the noise from differences of the positions, and kicks that account for the rest: an oscillator of
    frequency ω = v/x with kicks of variance q has a variance of about q / ω³.

    variance: (states,) of the noise, from differences
    """
    half = motion.states // 2
    positions = np.arange(motion.states) < half
    alike = (motion.known == positions) & (motion.measured == positions)
    if motion.states != 2 * half or not alike.all():
        return None
    if np.all(fitted.variance[:half] < _ROUGH * variance[:half]):
        return None
    squares = np.mean(np.concatenate([x.reshape(-1, motion.states) for x in fitted.x]) ** 2, axis=0)
    frequency = np.sqrt(squares[half:] / np.maximum(squares[:half], 1e-300))
    error = fitted.error.copy()
    error[half:] = fitted.variance[:half] * frequency**3
    forcing = Forcing.everywhere(motion.variables[: motion.states])
    # The rates are uncertain by their whole spread, however precisely the positions are measured.
    start = replace(fitted, error=error, variance=np.where(positions, variance, squares))
    return replace(motion, forcing=forcing, memory=None), start


def kicked_clearly(motion: Motion, fitted: Fitted) -> NDArray[np.bool_]:
    """(states,): whether the unexplained motion of each unknown equation is large beside the noise."""
    much = fitted.error * motion.step > _CLEARLY * motion.noise_beside_kicks(fitted)
    return np.asarray(much & ~motion.known)


@dataclass(frozen=True)
class _Doubt:
    """Limits beyond which samples, trajectories, a constant noise or noise at all are rejected."""

    resolved: float = 0.05
    """Residual, relative to the step between samples, above which noise or a missing term hides the law. It
    separates the data of solvers from data with 5 % noise (benchmark: solver_made)."""
    tiny: float = 3e-5
    """The same below which it is an error of a computation, white or not: errors of a solver depend on the
    states and make false terms. RK45 at tolerances from 1e-6 on leaves up to 2.4e-5 (benchmark:
    solver_made)."""
    far: float = 6.0
    """Standard deviations beyond which a measurement is an outlier; chance exceeds them once in 5e8. With 4,
    errors are larger by 2 % (benchmark: constants)."""
    most: float = 0.1
    """Largest share of the measurements that may be outliers: beyond it the law is wrong where they are.
    Benchmark wrong_noise has 3 %, and measured counts of epidemics reached 18 %."""
    bends: float = 3.0
    """The first or last value of a run is an outlier beyond this many times its largest third difference. Not
    varied; one outlier was 7 standard deviations of the motion away (benchmark: wrong_noise)."""
    unequal: float = 1.5
    """Ratio of variances above which trajectories get noise variances of their own (benchmark: damage)."""
    least: float = 1e-6
    """Least share of the noise that a trajectory gets; one at rest would have none."""
    clearly: float = 30.0
    """Units of −2 log p by which growing noise must fit better (benchmarks: solver_made, damage)."""
    noisiest: float = 0.1
    """Largest variance of a measurement, as a share of the variance that marks a missing entry."""
    tails: tuple[float, ...] = (16.0, 4.0, 2.0, 1.0)
    """Degrees of freedom of Student's distribution that noise may have, beside the normal one."""
    rounds: int = 5
    """Steps towards the scale of such noise, from that of the next: the deviance is flat there."""
    few: int = 50
    """Fewest measurements of a state for an estimate of growing noise, or of the noise of a trajectory."""


_DOUBT = _Doubt()

_GROWTH = 10.0 ** np.arange(-1.0, 4.1, 0.5)
"""Ratios tried for growing noise to constant noise, at the mean square of the state."""


def without_outliers(motion: Motion, fitted: Fitted) -> tuple[Motion, int]:
    """The motion without the measurements that are far from the fitted states, and their number.

    The noise of each trajectory is estimated by a median, which outliers do not move. One noise for all would
    make outliers of the tails of a noisier trajectory. If there are outliers, the first and last samples are
    also compared with their neighbours, because a law with a false term can start from any value.
    """
    noise, count, before = _robust(motion, fitted), 0, motion
    for judged in (_far, _far_ends):
        records = []
        for record, x in zip(motion.records, fitted.x, strict=True):
            size = np.stack([noise[int(number)] for number in record.source])[:, None] * np.sqrt(
                record.spread
            )
            values, far = judged(record.y, x, _DOUBT.far * size)
            far &= ~record.missing
            count += int(far.sum())
            spread = np.where(far, MISSING, record.spread)
            records.append(replace(record, y=np.where(far, values, record.y), spread=spread))
        motion = motion.part(records)
        if not count:
            break
    measured = sum(int(np.sum(~record.missing)) for record in before.records)
    return (before, 0) if count > _DOUBT.most * measured else (motion, count)


def _far(y: Floats, x: Floats, limit: Floats) -> tuple[Floats, NDArray[np.bool_]]:
    """Values to replace outliers, and which measurements are outliers: those far from the fitted states."""
    return x, np.abs(y - x) > limit


def _far_ends(y: Floats, x: Floats, limit: Floats) -> tuple[Floats, NDArray[np.bool_]]:
    """The same for the first and last samples, by extrapolating the parabola through the next three states.

    The deviation must also exceed the largest that the fitted motion itself has elsewhere.
    """
    values, far = x.copy(), np.zeros(y.shape, dtype=bool)
    if y.shape[1] < 8:
        return values, far
    bends = np.abs(np.diff(x[:, 1:-1], 3, axis=1)).max(axis=1)
    for end, beside in ((0, (1, 2, 3)), (-1, (-2, -3, -4))):
        values[:, end] = 3.0 * x[:, beside[0]] - 3.0 * x[:, beside[1]] + x[:, beside[2]]
        deviation = np.abs(y[:, end] - values[:, end])
        # The error of the parabola has 1 + 9 + 9 + 1 times the variance of one measurement.
        far[:, end] = (deviation > np.sqrt(20.0) * limit[:, end]) & (deviation > _DOUBT.bends * bends)
    return values, far


def growing(motion: Motion, fitted: Fitted) -> tuple[Motion, dict[str, list[int]]]:
    """The motion with noise that grows where the measurements show it, and the states by what it grows with.

    The variance σ² becomes σ² (1 + ρ g) with g one of

        state   x²          noise that is a share of the state, as of most sensors
        later   s²          noise that grows along the runs
        sooner  (1 − s)²    noise that falls along the runs, as of a sensor that settles

    where s is the time since the run began, in units of the longest run. ρ and g minimise −2 log p of the
    residuals ê, ρ over a grid and σ² by run, as runs of larger states and more noise look like noise that
    grows with the state. 1 + ρ g is divided by its mean, since alone it can reach `MISSING`.
    """

    def table(values: Iterable[NDArray[Any]]) -> NDArray[Any]:
        whole = [np.broadcast_to(v, x.shape) for v, x in zip(values, fitted.x, strict=True)]
        return np.concatenate([v.reshape(-1, motion.states) for v in whole])

    x, since = table(fitted.x), table(s[..., None] for s in since_start(motion.records, motion.parts))
    causes = {"state": x**2, "later": since**2, "sooner": (1.0 - since) ** 2}
    spread = table(record.spread for record in motion.records)
    noise = (table(record.y for record in motion.records) - x) ** 2 / spread
    measured = ~table(record.missing for record in motion.records)
    runs = table(record.source[:, None, None] for record in motion.records)
    states = dict[str, list[int]]()
    for j in range(motion.states):
        at = measured[:, j], j
        cause, ratio, mean = _growth(noise[at], runs[at], {name: g[at] for name, g in causes.items()})
        if ratio:
            states.setdefault(cause, []).append(j)
            grown = spread[at] * (1.0 + ratio * causes[cause][at]) / mean
            spread[at] = np.minimum(grown, _DOUBT.noisiest * MISSING)
    parts = np.split(spread, np.cumsum([len(x.reshape(-1, motion.states)) for x in fitted.x])[:-1])
    records = [replace(r, spread=p.reshape(r.y.shape)) for r, p in zip(motion.records, parts, strict=True)]
    return motion.part(records), states


def _growth(noise: Floats, runs: Ints, causes: Mapping[str, Floats]) -> tuple[str, float, float]:
    """What the noise grows with, the ratio ρ, and the mean of 1 + ρ g; ρ is 0 where noise does not grow."""
    best = ("", 0.0, 1.0)
    if len(noise) < _DOUBT.few or not noise.any():
        return best
    numbers, own, counts = np.unique(runs, return_inverse=True, return_counts=True)
    # Runs with few measurements share one σ².
    own = np.where(counts[own] < _DOUBT.few, len(numbers), own)
    groups = [group for k in np.unique(own) if noise[group := own == k].any()]

    def deviance_of(shapes: Floats, tails: Sequence[float]) -> Floats:
        return np.asarray(sum(tailed_deviance(noise[g], shapes[:, g], tails) for g in groups))

    normal, tailed = (float(deviance_of(np.ones((1, len(noise))), t)[0]) for t in ((), _DOUBT.tails))
    # Tails that hardly matter decide nothing, and would take a tenth of the time of a fit.
    tails = _DOUBT.tails if normal - tailed > _DOUBT.clearly else ()
    least = (tailed if tails else normal) - _DOUBT.clearly
    for name, values in causes.items():
        ratios = _GROWTH / max(float(np.mean(values)), 1e-300)
        shapes = 1.0 + ratios[:, None] * values
        deviance = deviance_of(shapes, tails)
        place = int(np.argmin(deviance))
        if deviance[place] < least:
            least, best = deviance[place], (name, float(ratios[place]), float(np.mean(shapes[place])))
    return best


def tailed_deviance(squares: Floats, shapes: Floats, tails: Sequence[float]) -> Floats:
    """(shapes,) the least −2 log p, over s² and tails, of noise with squares e² and variance s² · shape.

    The noise is normal, or Student's t with ν of `tails` degrees of freedom, as a few outliers would decide
    for normal noise (Lange, Little and Taylor, J. Am. Stat. Assoc. 84, 1989). Up to what depends on ν alone,

        −2 log p = Σ log(s² shape) + (ν + 1) log(1 + e² / (ν s² shape))

    s² is found by expectation and maximisation with expanded parameters (Liu, Rubin and Wu, Biometrika 85,
    1998): it goes to the mean of e² / shape with the weights 1 / (ν + e² / (s² shape)).
    """
    relative, count = squares / shapes, len(squares)
    log_shapes = np.sum(np.log(shapes), axis=1)
    scale = np.median(relative, axis=1) / 0.45
    scale = np.where(scale > 0.0, scale, np.mean(relative, axis=1))[:, None]
    found = [log_shapes + count * (np.log(2.0 * np.pi * np.mean(relative, axis=1)) + 1.0)]
    for nu in tails:
        for _ in range(_DOUBT.rounds):
            scale = np.average(relative, axis=1, weights=1.0 / (nu + relative / scale))[:, None]
        tail = np.sum(np.log1p(relative / (nu * scale)), axis=1)
        constant = lgamma(nu / 2.0) - lgamma((nu + 1.0) / 2.0) + 0.5 * np.log(nu * np.pi)
        found.append(log_shapes + count * (np.log(scale[:, 0]) + 2.0 * constant) + (nu + 1.0) * tail)
    return np.asarray(np.min(found, axis=0))


def doubted(motion: Motion, fitted: Fitted) -> Motion | None:
    """The motion with noise of different size in each trajectory; None where the sizes do not differ."""
    pairs = zip(motion.records, fitted.x, strict=True)
    squares = _by_trajectory(motion, [(r.y - x) ** 2 / (r.spread * fitted.variance) for r, x in pairs])
    measured = {number: values[np.isfinite(values)] for number, values in squares.items()}
    factor = {number: float(np.mean(values)) for number, values in measured.items()}
    known = [number for number, values in measured.items() if len(values) and factor[number] > 0]
    if len(known) < 2:
        return None
    logs = np.array([abs(np.log(factor[k])) for k in known])
    # The logarithm of a variance from n samples has the error √(2/n): short runs differ by chance.
    limits = np.array([max(np.log(_DOUBT.unequal), 5.0 * np.sqrt(2.0 / len(measured[k]))) for k in known])
    if not (logs > limits).any():
        return None
    records = []
    for record in motion.records:
        own = np.array([max(factor.get(int(k), 1.0), _DOUBT.least) for k in record.source])[:, None, None]
        records.append(replace(record, spread=np.where(record.missing, record.spread, record.spread * own)))
    return motion.part(records)


def _robust(motion: Motion, fitted: Fitted) -> dict[int, Floats]:
    """(states,) standard deviation of the noise of every trajectory, from the median of its residuals.

    Where a trajectory has few measurements of a state, the median over all trajectories is used. A state at
    rest that is reported in steps has the noise of rounding.
    """
    pairs = zip(motion.records, fitted.x, strict=True)
    sizes = _by_trajectory(motion, [np.abs(record.y - x) / np.sqrt(record.spread) for record, x in pairs])
    measured, overall = motion.measured, np.sqrt(fitted.variance)
    overall[measured] = 1.4826 * np.nanmedian(np.concatenate(list(sizes.values()))[:, measured], axis=0)
    noise = {}
    for number, size in sizes.items():
        enough = np.sum(~np.isnan(size), axis=0) >= _DOUBT.few
        noise[number] = overall.copy()
        median = 1.4826 * np.nanmedian(size[:, enough], axis=0)
        noise[number][enough] = np.maximum(median, np.sqrt(motion.floor[enough]))
    return noise


def _by_trajectory(motion: Motion, sizes: Sequence[Floats]) -> dict[int, Floats]:
    """(samples, states) of each trajectory, NaN where nothing was measured, from `sizes` of each record."""
    parts: dict[int, list[Floats]] = {}
    for record, size in zip(motion.records, sizes, strict=True):
        for number, stretch in zip(record.source, np.where(record.missing, np.nan, size), strict=True):
            parts.setdefault(int(number), []).append(stretch)
    return {number: np.concatenate(stretches) for number, stretches in parts.items()}
