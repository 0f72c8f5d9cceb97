"""Settings of formulations that follow from the data: local polynomials, and the drift of noise."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from itertools import pairwise

import numpy as np
from numpy.typing import NDArray

from cindy._arrays import Floats, Ints
from cindy.basis import Basis
from cindy.calculus import Operator, derivative_weights, interval_weights
from cindy.data import LOOK, LOOK_SAMPLES, Trajectory, noise_level, some_segments
from cindy.errors import DataError


def single_steps(t: Floats) -> NDArray[np.bool_]:
    """(n − 1,): whether each step of a uniform grid is a single one; the others pass over missing samples."""
    steps = np.diff(t)
    median = float(np.median(steps)) if len(steps) else 1.0
    ratio = steps / median
    odd = np.flatnonzero((np.abs(ratio - np.round(ratio)) > 1e-3 * ratio) | (np.round(ratio) < 1))
    if len(odd):
        i = int(odd[0])
        raise DataError(
            f"Discrete: the time steps must be equal, but t = {t[i]:g} is followed by {t[i + 1]:g} "
            f"while the usual step is {median:g}. Resample, or use Integral, which takes any grid."
        )
    return np.asarray(np.round(ratio) == 1)


def split(samples: int, length: int, *, least: int = 1) -> Ints:
    """Edges of windows of about `length` samples, which differ by one at most, the longer ones first.

    No window is shorter than `least`, unless there are fewer samples than that.

    >>> split(10, 3).tolist()
    [0, 4, 7, 10]
    """
    # Equal windows: a short last one would have an initial state, too, which costs as much as any other.
    count = max(1, min(round(samples / length), samples // least))
    short, extra = divmod(samples, count)
    place = np.arange(count + 1)
    return place * short + np.minimum(place, extra)


def stacks(rows: Floats, t: Floats, edges: Ints) -> Iterator[tuple[Floats, Floats]]:
    """Views (windows, length, columns) of rows and (windows, length) of times, one for each length."""
    lengths = np.diff(edges)
    for first, last in pairwise([0, *(np.flatnonzero(np.diff(lengths)) + 1), len(lengths)]):
        a, b, length = int(edges[first]), int(edges[last]), int(lengths[first])
        yield rows[a:b].reshape(-1, length, rows.shape[1]), t[a:b].reshape(-1, length)


@dataclass(frozen=True)
class _Windows:
    """Settings of these choices."""

    # `python -m benchmarks constants` changes these on 32 data sets. All models stay right, and the errors of
    # their coefficients change by a tenth at most.
    degrees: tuple[int, ...] = (8, 6, 4, 2)
    """Degrees of local polynomials for derivatives, the one of least bias first; on even grids an odd degree
    gives the same derivatives as a neighbouring even one."""
    widths: tuple[int, ...] = (1, 2, 3, 4, 5, 6, 8, 10, 13, 16, 20, 25, 32, 40, 50)
    """Half-widths to choose from, about a quarter apart."""
    # The next ones give a first guess, which a first model replaces. On the 32 data sets of
    # `python -m benchmarks constants` none of them changes the error of coefficients by more than 0.2 %.
    widths_of_feedback: tuple[int, ...] = (4, 6, 9, 13, 19, 28, 40, 60)
    """Half-widths of the local polynomials for slopes, each half as wide again as the one before."""
    degree: int = 4
    """Degree of these polynomials."""
    clear: float = 0.1
    """Share of noise in a mean square up to which the mean square is trusted."""
    negligible: float = 0.05
    """Mean square of the drift within a window, in units of the noise, up to which it is neglected."""
    samples: int = 400
    """Samples at which the Jacobian of a model is averaged."""
    harmless: float = 1.5
    """Ratio of neighbouring time steps up to which noise is not amplified."""


_WINDOWS = _Windows()


_QUADRATURES = ((8, 4), (8, 5), (8, 6), (6, 3), (6, 4), (6, 5), (4, 3), (4, 4), (2, 2), (2, 3))
"""Degree and half-width for integrals, the pair of least bias first: nine points or more, and lower
degrees."""


def derivative_window(
    trajectories: Sequence[Trajectory],
    *,
    order: int,
    degree: int | None = None,
    half_width: int | None = None,
) -> tuple[int, int]:
    """Degree and half-width for derivatives of the given order, chosen for the noise in the data.

    By the method of Goldenshluger and Lepski (Ann. Stat. 39, 2011), the bias of a candidate is the distance
    of its derivatives from those of candidates that pass more noise, beyond what noise explains. The
    candidate with the least sum of bias and noise is chosen.
    """
    segments = [segment for segment in some_segments(trajectories, 6, 200) if len(segment) > order + 1]
    samples = int(np.median([len(segment) for segment in segments])) if segments else 0
    candidates = _candidates(samples, order, degree, half_width)
    if len(candidates) == 1:
        return candidates[0]
    # Noise averages out over the rows of a fit and bias does not, hence its larger weight.
    gain, bias = _risks(segments, candidates, partial(derivative_weights, order=order))
    return candidates[int(np.argmin(10 * bias + gain))]


def integral_window(
    trajectories: Sequence[Trajectory], *, degree: int | None = None, half_width: int | None = None
) -> tuple[int, int]:
    """Degree and half-width for integrals.

    They are 8 and 4, nine points, unless the grid is so uneven that extrapolation would amplify the noise of
    a few samples. A lower degree is then chosen if that reduces the noise enough.
    """
    candidates = [(p, w) for p, w in _QUADRATURES if degree in (None, p) and half_width in (None, w)] or [
        (degree or 2 * (half_width or 4), half_width or max(1, -(-(degree or 8) // 2)))
    ]
    # A few steps of one grid may amplify noise more than all others together.
    uneven = sorted(trajectories, key=_unevenness)[-LOOK // 2 :]
    if len(candidates) == 1 or not uneven or _unevenness(uneven[-1]) < np.log(_WINDOWS.harmless):
        return candidates[0]
    segments = some_segments(uneven, LOOK // 2, 200) + some_segments(trajectories, LOOK // 2, 200)
    if not segments:
        return candidates[0]
    gain, bias = _risks(segments, candidates, interval_weights)
    # Along a window bias adds up and noise cancels; a candidate must also reduce noise to a quarter.
    risk = np.where(gain <= gain[0] / 4, 100 * bias + gain, np.inf)
    risk[0] = 100 * bias[0] + gain[0]
    return candidates[int(np.argmin(risk))]


def _unevenness(trajectory: Trajectory) -> float:
    """The largest ratio of two neighbouring time steps, as a logarithm."""
    steps = np.log(np.diff(trajectory.t[: 50 * LOOK_SAMPLES]))
    return float(np.max(np.abs(np.diff(steps)), initial=0.0))


def _risks(
    segments: Sequence[Trajectory],
    candidates: Sequence[tuple[int, int]],
    weights: Callable[..., Operator],
) -> tuple[Floats, Floats]:
    """Squared noise and squared bias of each candidate, in units of the noise in the data.

    Two candidates are compared row by row, each row in units of its own noise; otherwise the few rows that
    amplify noise most would dominate.

    weights: the operator on a time grid, for a `degree` and a `half_width`
    """
    noise = np.sqrt(np.mean([noise_level(segment) ** 2 for segment in segments], axis=0))
    squared_sizes = [np.mean(segment.x**2, axis=0) for segment in segments]
    rounding = 1e-15 * np.sqrt(np.mean(squared_sizes, axis=0))
    unit = np.maximum(noise, np.maximum(rounding, np.finfo(float).tiny))
    gains, variances, distances = [], [], []
    for segment in segments:
        dense = [weights(segment.t, degree=p, half_width=w).toarray() for p, w in candidates]
        operators = np.array(dense).swapaxes(0, 1)
        squares = np.sum(operators**2, axis=2)
        # The variance of the difference of two estimates from the same noisy samples.
        between = squares[:, :, None] + squares[:, None, :] - 2 * operators @ operators.swapaxes(1, 2)
        values = operators @ (segment.x / unit)
        difference = np.mean((values[:, :, None, :] - values[:, None, :, :]) ** 2, axis=3)
        equal = between <= 1e-12 * (squares[:, :, None] + squares[:, None, :])
        gains.append(squares)
        variances.append(between)
        distances.append(np.where(equal, 1.0, difference / np.where(equal, 1.0, between)))
    gain = np.sum(np.concatenate(gains), axis=0)
    variance, distance = np.concatenate(variances), np.concatenate(distances)
    # Windows overlap, so that the errors of neighbouring rows are correlated over the width of a window.
    widths = np.array([w for _, w in candidates])
    chance = 1 + 3 * np.sqrt(2 * np.maximum.outer(widths, widths) / (distance.shape[0] * len(unit)))
    excess = np.maximum(distance.mean(axis=0) - chance, 0.0) * np.median(variance, axis=0) * len(variance)
    return gain, np.max(np.where(gain >= gain[:, None], excess, 0.0), axis=1)


def _candidates(
    samples: int, order: int, degree: int | None, half_width: int | None
) -> list[tuple[int, int]]:
    """The pairs (degree, half-width) to choose from; the first has the least bias."""
    widest = max((samples - 1) // 2, 1)
    widths = [half_width] if half_width else sorted({min(w, widest) for w in _WINDOWS.widths})
    degrees = [degree] if degree else _WINDOWS.degrees
    pairs = [(p, w) for p in degrees for w in widths if order <= p <= 2 * w]
    return pairs or [(degree or max(order, 2 * widths[-1]), half_width or max(widths[-1], 1))]


def feedback_of_data(segments: Sequence[Trajectory], order: int, window: int) -> float:
    """A first guess of `feedback`, the mean square of the Jacobian J, from some of the data alone.

    It is the ratio of the mean squares of x'' and x' for order 1, where x'' = J x', and of x'' and x for
    order 2, where x'' = J x. It is 0 if noise hides the derivatives or the drift within a window is
    negligible.
    """
    segments = [segment for segment in segments if len(segment) > 2 * _WINDOWS.widths_of_feedback[0]]
    if not segments:
        return 0.0
    noise = np.mean([noise_level(segment) ** 2 for segment in segments], axis=0)
    for width in _WINDOWS.widths_of_feedback:
        wide = [segment.part(0, min(len(segment), 600)) for segment in segments if len(segment) > 2 * width]
        if not wide:
            return 0.0
        slow, slow_gain = _mean_squares(wide, 2 - order, width)
        fast, fast_gain = _mean_squares(wide, 2, width)
        # The narrowest window whose second derivative is mostly signal, because wider ones would flatten it.
        share = noise * fast_gain / np.maximum(fast, 1e-300)
        if float(np.median(share)) < _WINDOWS.clear:
            signal = np.maximum(slow - noise * slow_gain, 1e-300)
            ratio = float(np.median((fast - noise * fast_gain) / signal))
            return _unless_negligible(max(ratio, 0.0), segments, order, window)
    return 0.0


def feedback_of_model(
    coef: Floats, noise: Floats, basis: Basis, trajectories: Sequence[Trajectory], order: int, window: int
) -> float:
    """The mean square of the Jacobian of known equations, each state in units of its noise."""
    segments = [segment for trajectory in trajectories for segment in trajectory.segments()]
    values = np.concatenate([segment.values for segment in segments])
    values = values[np.unique(np.linspace(0, len(values) - 1, _WINDOWS.samples).astype(int))]
    used = np.flatnonzero(coef.any(axis=1))
    slopes = basis.derivative(values, segments[0].variables)[:, used, : coef.shape[1]]
    # An error e in the states changes the right-hand side by J e, whose integral is the drift.
    jacobian = np.einsum("mnv,ni->miv", slopes, coef[used])
    sigma = np.where(noise > 0, noise, 1.0)
    # In units of the noise of both states, so that the result does not depend on the units of the data.
    relative = jacobian * (sigma[None, None, :] / sigma[None, :, None])
    strength = np.mean(np.sum(relative**2, axis=2), axis=0)
    return _unless_negligible(float(np.mean(strength)), segments, order, window)


def _mean_squares(segments: Sequence[Trajectory], order: int, width: int) -> tuple[Floats, float]:
    """(states,) mean squares of a derivative away from the ends, and its mean square for unit noise."""
    squares, gains, count = 0.0, 0.0, 0
    for segment in segments:
        operator = derivative_weights(segment.t, order=order, degree=_WINDOWS.degree, half_width=width)
        inner = operator[width:-width]
        squares = squares + np.sum((inner @ (segment.x - segment.x.mean(axis=0))) ** 2, axis=0)
        gains += float(np.sum(inner.data**2))
        count += inner.shape[0]
    return np.asarray(squares) / max(count, 1), gains / max(count, 1)


def _unless_negligible(strength: float, segments: Sequence[Trajectory], order: int, window: int) -> float:
    """The strength, or 0 if the drift over a window is far below the noise: whitening is not needed then."""
    ends = [segment.t[[0, min(window or len(segment), len(segment)) - 1]] for segment in segments]
    horizon = float(np.median(np.diff(ends)))
    return strength if strength * horizon ** (2 * order) > _WINDOWS.negligible else 0.0
