"""Measurements that a law and its states do not bear out: outliers, and trajectories noisier than others."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from cindy._arrays import Floats
from cindy.states.motion import Fitted, Motion
from cindy.states.record import MISSING

__all__ = ["doubted", "growing", "without_outliers"]


@dataclass(frozen=True)
class _Doubt:
    """When samples, runs or a constant noise are doubted."""

    far: float = 6.0
    """Standard deviations beyond which a measurement is an outlier: chance makes one in 5e8. With 4 errors
    are larger by 2 % (benchmark: constants)."""
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
    noise for all, the tails of a noisier trajectory would be outliers.
    """
    noise = _robust(motion, fitted)
    records, count = [], 0
    for record, x in zip(motion.records, fitted.x, strict=True):
        size = np.stack([noise[int(number)] for number in record.source])[:, None]
        far = (np.abs(record.y - x) > _DOUBT.far * size * np.sqrt(record.spread)) & ~record.missing
        count += int(far.sum())
        values = np.where(far, x, record.y)
        records.append(replace(record, y=values, spread=np.where(far, MISSING, record.spread)))
    return motion.part(records), count


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
