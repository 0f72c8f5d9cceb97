"""Scales of motion that the integral form is posed by: windows, and how noise drifts through the terms."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from cindy._arrays import Floats, Ints
from cindy.basis import Basis
from cindy.calculus import Operator, derivative_weights, interval_weights
from cindy.data import LOOK, LOOK_SAMPLES, Trajectory, noise_level, periods, some_segments
from cindy.errors import DataError


def single_steps(t: Floats) -> NDArray[np.bool_]:
    """(n − 1,): which steps of an otherwise uniform grid are single ones; the others pass missing samples."""
    steps = np.diff(t)
    usual = float(np.median(steps)) if len(steps) else 1.0
    ratio = steps / usual
    odd = np.flatnonzero((np.abs(ratio - np.round(ratio)) > 1e-3 * ratio) | (np.round(ratio) < 1))
    if len(odd):
        i = int(odd[0])
        raise DataError(
            f"Discrete: the time steps must be equal, but t = {t[i]:g} is followed by {t[i + 1]:g} "
            f"while the usual step is {usual:g}. Resample, or use Integral, which takes any grid."
        )
    return np.asarray(np.round(ratio) == 1)


def split(samples: int, length: int, *, least: int = 1) -> Ints:
    """Edges of windows of about `length` samples, as equal as can be, the longer ones first.

    No window is shorter than `least`, unless there are fewer samples than that.

    >>> split(10, 3).tolist()
    [0, 4, 7, 10]
    """
    # Equal windows instead of a short last one, whose initial state would cost as much as that of a long
    # one.
    count = max(1, min(round(samples / length), samples // least))
    short, extra = divmod(samples, count)
    lengths = np.full(count, short)
    lengths[:extra] += 1
    return np.concatenate([[0], np.cumsum(lengths)])


def stacks(rows: Floats, t: Floats, edges: Ints) -> Iterator[tuple[Floats, Floats]]:
    """Views (windows, length, columns) of rows and (windows, length) of times, one for each length."""
    lengths = np.diff(edges)
    changes = np.flatnonzero(np.diff(lengths)) + 1
    for first, last in zip([0, *changes], [*changes, len(lengths)], strict=True):
        a, b, length = int(edges[first]), int(edges[last]), int(lengths[first])
        yield rows[a:b].reshape(-1, length, rows.shape[1]), t[a:b].reshape(-1, length)


@dataclass(frozen=True)
class _Windows:
    """How windows and local polynomials are chosen."""

    # `python -m benchmarks constants` changes these on 32 data sets: all are right whatever they are, and the
    # errors of coefficients stay within a tenth.
    few_periods: float = 3.0
    """Swings up to which a trajectory stays whole: with 1 errors are larger by 8 %, with 9 smaller by 2 %,
    but a chaotic solution of nine swings is no smooth function of its first state."""
    shortest_window: int = 24
    """Samples; with 72 errors are smaller by 5 %, with 8 the same."""
    enough_windows: int = 12
    """Windows that errors are judged by; with 3 or 48 errors are smaller by 2 % or less."""
    degrees: tuple[int, ...] = (8, 6, 4, 2)
    """Of local polynomials for derivatives, that of least bias first; on even grids odd ones repeat a
    neighbour."""
    widths: tuple[int, ...] = (1, 2, 3, 4, 5, 6, 8, 10, 13, 16, 20, 25, 32, 40, 50)
    """Half-widths to choose from, about a quarter apart."""
    # A first guess, which the model found with it replaces: changed on the 32 data sets of
    # `python -m benchmarks constants`, none of these moves the error of coefficients by more than a part
    # in 500.
    widths_of_feedback: tuple[int, ...] = (4, 6, 9, 13, 19, 28, 40, 60)
    """Half-widths of the local polynomials that slopes are taken from, half as wide again each."""
    degree: int = 4
    """Of these polynomials."""
    clear: float = 0.1
    """Share of noise in a mean square below which it is trusted."""
    negligible: float = 0.05
    """Mean square of the drift within a window, in units of the noise, below which there is none."""
    samples: int = 400
    """At which the Jacobian of a model is averaged."""


_WINDOWS = _Windows()


_HARMLESS = float(np.log(1.5))
"""Neighbouring time steps that differ by less do not magnify noise."""
_QUADRATURES = ((8, 4), (8, 5), (8, 6), (6, 3), (6, 4), (6, 5), (4, 3), (4, 4), (2, 2), (2, 3))
"""Degree and half-width for integrals, that of least bias first: nine points, then fewer degrees on as
many points or more."""


def window_length(segments: Sequence[Trajectory], samples: int, *, least: int) -> int:
    """Samples in a window of the integral form; 0 where trajectories should stay whole.

    segments: some of the data (`some_segments`); samples: in all of them

    A trajectory of fewer than three periods stays whole: every cut costs an initial state.
    Longer ones are cut into windows of one and a half periods, or less where there would be
    too few of them to judge errors by, but no less than half a period.
    """
    half = half_period(segments, least=least)
    enough = samples // _WINDOWS.enough_windows
    return min(max(half, enough), 3 * half)


def half_period(segments: Sequence[Trajectory], *, least: int) -> int:
    """Samples over which even a chaotic solution is a smooth function of its initial state.

    0 where the data do not swing three times, and so do not tell.
    """
    segments = [s.part(0, min(len(s), LOOK_SAMPLES)) for s in segments if len(s) > 2]
    if not segments:
        return 0
    # Errors grow exponentially along a chaotic orbit, by a factor of order one in half a swing: over that
    # length a solution is still a smooth function of its start.
    turns = np.array([periods(s) for s in segments])
    lengths = np.array([len(s) for s in segments], dtype=float)
    if np.median(turns) < _WINDOWS.few_periods:
        return 0
    return max(round(float(np.median(lengths / turns)) / 2), least, _WINDOWS.shortest_window)


def derivative_window(
    trajectories: Sequence[Trajectory],
    *,
    order: int,
    degree: int | None = None,
    half_width: int | None = None,
) -> tuple[int, int]:
    """Degree and half-width for derivatives of the given order, as the noise in the data asks for.

    The method of Goldenshluger and Lepski: the bias of a candidate is how far its
    derivative lies, beyond what noise explains, from those that let through more
    noise; the candidate of least bias and noise wins.
    """
    segments = [s for s in some_segments(trajectories, 6, 200) if len(s) > order + 1]
    samples = int(np.median([len(s) for s in segments])) if segments else 0
    candidates = _candidates(samples, order, degree, half_width)
    if len(candidates) == 1:
        return candidates[0]

    def weights(t: Floats, p: int, w: int) -> Operator:
        return derivative_weights(t, order=order, degree=p, half_width=w)

    # Noise averages out over the rows of a fit and bias does not, hence its larger weight.
    gain, bias = _risks(segments, candidates, weights)
    return candidates[int(np.argmin(10 * bias + gain))]


def integral_window(
    trajectories: Sequence[Trajectory], *, degree: int | None = None, half_width: int | None = None
) -> tuple[int, int]:
    """Degree and half-width for integrals.

    Nine points and degree 8, unless the grid is so uneven that the noise of a few
    samples would be blown up by extrapolation; then a lower degree, if the data
    have noise that is worth it.
    """
    candidates = [(p, w) for p, w in _QUADRATURES if degree in (None, p) and half_width in (None, w)] or [
        (degree or 2 * (half_width or 4), half_width or max(1, -(-(degree or 8) // 2)))
    ]
    # A few steps of one grid may magnify noise more than all others together.
    uneven = sorted(trajectories, key=_unevenness)[-LOOK // 2 :]
    if len(candidates) == 1 or not uneven or _unevenness(uneven[-1]) < _HARMLESS:
        return candidates[0]
    segments = some_segments(uneven, LOOK // 2, 200) + some_segments(trajectories, LOOK // 2, 200)
    if not segments:
        return candidates[0]

    def weights(t: Floats, p: int, w: int) -> Operator:
        return interval_weights(t, degree=p, half_width=w)

    gain, bias = _risks(segments, candidates, weights)
    # Bias adds up along a window where noise cancels; and what gains little is not worth any.
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
    weights: Callable[[Floats, int, int], Operator],
) -> tuple[Floats, Floats]:
    """Squared noise and squared bias of each candidate, in units of the noise in the data.

    Two candidates are compared row by row, each row in units of its own noise: the
    few rows that magnify noise most would drown all others.
    """
    noise = np.sqrt(np.mean([noise_level(s) ** 2 for s in segments], axis=0))
    rounding = 1e-15 * np.sqrt(np.mean([np.mean(s.x**2, axis=0) for s in segments], axis=0))
    unit = np.maximum(noise, np.maximum(rounding, np.finfo(float).tiny))
    gains, variances, distances = [], [], []
    for s in segments:
        operators = np.array([weights(s.t, p, w).toarray() for p, w in candidates]).swapaxes(0, 1)
        squares = np.sum(operators**2, axis=2)
        # The variance of the difference of two estimates from the same noisy samples.
        between = squares[:, :, None] + squares[:, None, :] - 2 * operators @ operators.swapaxes(1, 2)
        values = operators @ (s.x / unit)
        apart = np.mean((values[:, :, None, :] - values[:, None, :, :]) ** 2, axis=3)
        alike = between <= 1e-12 * (squares[:, :, None] + squares[:, None, :])
        gains.append(squares)
        variances.append(between)
        distances.append(np.where(alike, 1.0, apart / np.where(alike, 1.0, between)))
    gain = np.sum(np.concatenate(gains), axis=0)
    variance, distance = np.concatenate(variances), np.concatenate(distances)
    # Windows overlap: what a window of width w makes of noise, w neighbours repeat.
    widths = np.array([w for _, w in candidates])
    chance = 1 + 3 * np.sqrt(2 * np.maximum.outer(widths, widths) / (distance.shape[0] * len(unit)))
    excess = np.maximum(distance.mean(axis=0) - chance, 0.0) * np.median(variance, axis=0) * len(variance)
    return gain, np.max(np.where(gain >= gain[:, None], excess, 0.0), axis=1)


def _candidates(
    samples: int, order: int, degree: int | None, half_width: int | None
) -> list[tuple[int, int]]:
    """(degree, half-width) to choose from; the first is the one of least bias."""
    widest = max((samples - 1) // 2, 1)
    widths = [half_width] if half_width else sorted({min(w, widest) for w in _WINDOWS.widths})
    degrees = [degree] if degree else _WINDOWS.degrees
    pairs = [(p, w) for p in degrees for w in widths if order <= p <= 2 * w]
    return pairs or [(degree or max(order, 2 * widths[-1]), half_width or max(widths[-1], 1))]


def feedback_of_data(segments: Sequence[Trajectory], order: int, window: int) -> float:
    """A first guess from some of the data alone (`some_segments`).

    With order 1, x'' = J x'; with order 2, x'' = J x: the ratio of their mean squares.
    Zero where noise hides the derivatives, or where the drift within a window is negligible.
    """
    segments = [s for s in segments if len(s) > 2 * _WINDOWS.widths_of_feedback[0]]
    if not segments:
        return 0.0
    noise = np.mean([noise_level(s) ** 2 for s in segments], axis=0)
    low = 2 - order
    for width in _WINDOWS.widths_of_feedback:
        fit = [s.part(0, min(len(s), 600)) for s in segments if len(s) > 2 * width]
        if not fit:
            return 0.0
        slow, slow_gain = _mean_squares(fit, low, width)
        fast, fast_gain = _mean_squares(fit, 2, width)
        # The narrowest window whose second derivative is mostly signal; wider ones would flatten it.
        share = noise * fast_gain / np.maximum(fast, 1e-300)
        if float(np.median(share)) < _WINDOWS.clear:
            below = np.maximum(slow - noise * slow_gain, 1e-300)
            ratio = float(np.median((fast - noise * fast_gain) / below))
            return _unless_negligible(max(ratio, 0.0), segments, order, window)
    return 0.0


def feedback_of_model(
    coef: Floats, noise: Floats, basis: Basis, trajectories: Sequence[Trajectory], order: int, window: int
) -> float:
    """The mean square of the Jacobian of known equations, each state in units of its noise."""
    segments = [s for one in trajectories for s in one.segments()]
    values = np.concatenate([s.values for s in segments])
    values = values[np.unique(np.linspace(0, len(values) - 1, _WINDOWS.samples).astype(int))]
    used = np.flatnonzero(coef.any(axis=1))
    slopes = basis.derivative(values, segments[0].variables)[:, used, : coef.shape[1]]
    # An error e in the states changes the right-hand side by J e, which is integrated along: that is the
    # drift.
    jacobian = np.einsum("mnv,ni->miv", slopes, coef[used])
    sigma = np.where(noise > 0, noise, 1.0)
    # In units of the noise of either state, so that states of different size count alike.
    relative = jacobian * (sigma[None, None, :] / sigma[None, :, None])
    strength = np.mean(np.sum(relative**2, axis=2), axis=0)
    return _unless_negligible(float(np.mean(strength)), segments, order, window)


def _mean_squares(segments: Sequence[Trajectory], order: int, width: int) -> tuple[Floats, float]:
    """Mean squares (states,) of a derivative away from the ends, and by how much it magnifies noise."""
    squares, gains, count = 0.0, 0.0, 0
    for s in segments:
        weights = derivative_weights(s.t, order=order, degree=_WINDOWS.degree, half_width=width)[width:-width]
        x = s.x - s.x.mean(axis=0)
        squares = squares + np.sum((weights @ x) ** 2, axis=0)
        gains += float(np.sum(weights.data**2))
        count += weights.shape[0]
    return np.asarray(squares) / max(count, 1), gains / max(count, 1)


def _unless_negligible(strength: float, segments: Sequence[Trajectory], order: int, window: int) -> float:
    """Zero where the drift over a window is far below the noise: rows then stay as they are."""
    lengths = [s.t[min(window or len(s), len(s)) - 1] - s.t[0] for s in segments]
    horizon = float(np.median(lengths))
    return strength if strength * horizon ** (2 * order) > _WINDOWS.negligible else 0.0
