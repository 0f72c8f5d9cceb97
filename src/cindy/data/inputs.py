"""Inputs between their samples: held, joined by straight lines, or band-limited.

The samples of an input do not determine its values between them; that depends on how it was made. A digital
controller holds each value until the next one ("zero"). A slow signal that was merely sampled is close to
straight lines ("linear"). A signal that passed an anti-aliasing filter has no content above half the sampling
rate and is determined by its samples ("band", Shannon).

Each kind becomes one piecewise polynomial, so that rows and simulations evaluate the same function:

    zero    u(t) = u_k                                     for t_k ≤ t < t_{k+1}
    linear  u(t) = u_k + (t − t_k) (u_{k+1} − u_k) / h_k
    band    u(t) = line + Σ_m b_m sin(π m (t − t_0) / T)

For "band" the steps are: 1. subtract the line through the first and the last sample; 2. continue the rest as
an odd periodic function, which has no jump of value or slope at the ends; 3. refine its sine series eight
times by a zero-padded transform; 4. run a quintic spline through the refined values, whose error is below
10⁻⁶ of the amplitude at half the sampling rate. Some ten samples from either end the signal is less certain:
it depends on samples that were not recorded.

Inputs may have been sampled at other instants than the states (`at_common_times`). The instants at which the
inputs jump or bend are then added to the record, with the states missing there.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Sequence
from dataclasses import dataclass
from math import factorial
from typing import Literal, get_args

import numpy as np
from numpy.typing import ArrayLike

from cindy._arrays import Floats
from cindy.errors import DataError

Hold = Literal["zero", "linear", "band"]
HOLDS = get_args(Hold)


@dataclass(frozen=True)
class _Between:
    """Settings of the continuation of inputs between samples."""

    longest_bridge: float = 2.5
    """A step longer than this many median steps is a hole, as in `Trajectory.segments`."""
    refinement: int = 8
    degree: int = 5
    off_lattice: float = 1e-3
    """Jitter of time stamps that "band" tolerates, as a share of a step. It shifts the phase of the fastest
    component, which advances by π per step, by 0.003."""
    shorter: float = 0.1
    """Quantile of the steps that is taken for the constant step of a grid with missing samples."""
    one_time: float = 1e-6
    """Share of the shortest step of the states: inputs sampled closer to a state are moved to its instant."""


_BETWEEN = _Between()


class Held:
    """Inputs as a function of time: calling it with a time gives p values, `at` many times gives (n, p).

    Before the first and after the last sample the inputs are constant.

    t: (n,) times of the samples; u: (n, p)
    """

    def __init__(self, t: Floats, u: Floats, hold: Hold) -> None:
        if hold == "band" and len(t) > 2:
            self._breaks, self._coefficients = _band_limited(t, u)
        elif hold == "zero" or len(t) < 2:
            self._breaks, self._coefficients = t, u[None]
        else:
            slopes = np.diff(u, axis=0) / np.diff(t)[:, None]
            self._breaks, self._coefficients = t[:-1], np.stack([slopes, u[:-1]])
        self._first, self._last = float(t[0]), float(t[-1])
        # Rounding must not move a time just below the sample at which the input jumps.
        self._slack = 1e-9 * float(np.min(np.diff(t))) if hold == "zero" and len(t) > 1 else 0.0
        self._lists: tuple[list[float], list[list[list[float]]]] | None = None

    def __call__(self, s: float) -> list[float]:
        """The values at one time; lists make this fast for integrators, which ask time after time."""
        if self._lists is None:
            self._lists = self._breaks.tolist(), self._coefficients.transpose(1, 0, 2).tolist()
        breaks, pieces = self._lists
        s = min(max(s, self._first), self._last)
        k = max(bisect_right(breaks, s + self._slack) - 1, 0)
        return _horner(pieces[k], s - breaks[k])

    def at(self, times: ArrayLike) -> Floats:
        """(n, p): the values at many times."""
        s = np.clip(np.asarray(times, dtype=np.float64), self._first, self._last)
        k = np.maximum(np.searchsorted(self._breaks, s + self._slack, side="right") - 1, 0)
        ahead = (s - self._breaks[k])[:, None]
        values = np.zeros((len(s), self._coefficients.shape[2]))
        for coefficient in self._coefficients:
            values = values * ahead + coefficient[k]
        return values


def lattice(t: Floats) -> float | None:
    """The step of which every step of `t` is a multiple, up to jitter; None if there is no such step."""
    steps = np.diff(t)
    if len(steps) == 0:
        return None
    # Not the shortest step: instants of two clocks have a common step too, but one too short to be useful.
    usual = float(np.quantile(steps, _BETWEEN.shorter, method="lower"))
    counts = np.round(steps / usual)
    step = float(np.sum(steps) / max(np.sum(counts), 1.0))
    places = (t - t[0]) / step
    return step if float(np.max(np.abs(places - np.round(places)))) <= _BETWEEN.off_lattice else None


def constant_step(t: Floats, where: str) -> float:
    """The same, or the error that inputs are not determined by these samples."""
    step = lattice(t)
    if step is None:
        raise DataError(
            f'{where}: hold="band" needs a constant step, because only then do samples determine a '
            'band-limited signal. Resample the data, or use hold="linear".'
        )
    return step


def at_common_times(
    t: Floats, x: Floats, u_t: Floats, u: Floats, hold: Hold, where: str
) -> tuple[Floats, Floats, Floats]:
    """Common times, states (NaN where there is no sample) and inputs, if inputs have times of their own.

    Inputs are missing before their first sample. After the last one they are missing too, unless they are
    held: a held value stays.

    t: (n,) and x: (n, d), the samples of the states; u_t: (m,) and u: (m, p), those of the inputs
    """
    sampled = np.isfinite(u).all(axis=1)
    if not sampled.any():
        raise DataError(f"{where}: the inputs are missing at every sample.")
    u_t, u = u_t[sampled], u[sampled]
    times, u_t = with_turns(t, u_t, u, hold)
    states = np.full((len(times), x.shape[1]), np.nan)
    states[np.searchsorted(times, t)] = x
    values = Held(u_t, u, hold).at(times)
    values[times < u_t[0]] = np.nan
    if hold != "zero":
        values[times > u_t[-1]] = np.nan
    return times, states, values


def with_turns(t: Floats, u_t: Floats, u: Floats, hold: Hold) -> tuple[Floats, Floats]:
    """The times t joined by those at which the inputs jump or bend; and u_t, moved to times of t nearby.

    Held inputs jump where their value changes, straight lines bend at each sample. A band-limited input is
    smooth: if it was sampled faster than the states, every step of t is divided into equal steps that are no
    longer than its own, which keeps its content and a constant step.
    """
    nearest = np.rint(np.interp(u_t, t, np.arange(len(t)))).astype(np.intp)
    close = _BETWEEN.one_time * (float(np.min(np.diff(t))) if len(t) > 1 else 1.0)
    u_t = np.where(np.abs(u_t - t[nearest]) <= close, t[nearest], u_t)
    if hold == "band":
        return _divided_lattice(t, u_t), u_t
    turns = u_t[np.append(True, (np.diff(u, axis=0) != 0).any(axis=1))] if hold == "zero" else u_t
    return np.union1d(t, turns[(turns > t[0]) & (turns < t[-1])]), u_t


def moved_holds(t: Floats, x: Floats, u: Floats, lags: Sequence[float]) -> tuple[Floats, Floats, Floats]:
    """Times, states and inputs after each held input was moved to earlier times by its own lag.

    The jumps are added to the times; states are missing there, inputs where they were not measured.
    """
    turns = [with_turns(t, t - lag, u[:, [k]], "zero") for k, lag in enumerate(lags)]
    times = np.unique(np.concatenate([joined for joined, _ in turns]))
    states, inputs = np.full((len(times), x.shape[1]), np.nan), np.full((len(times), u.shape[1]), np.nan)
    states[np.searchsorted(times, t)] = x
    for k, (_, sampled) in enumerate(turns):
        inside = (times >= sampled[0]) & (times <= sampled[-1])
        inputs[inside, k] = Held(sampled, u[:, [k]], "zero").at(times[inside])[:, 0]
    return times, states, inputs


def _divided_lattice(t: Floats, u_t: Floats) -> Floats:
    """The times t with instants between them, at a constant step that is no longer than that of u_t."""
    step, input_step = lattice(t), lattice(u_t)
    if step is None or input_step is None or input_step > step * (1.0 - _BETWEEN.off_lattice):
        return t
    parts = int(np.ceil(step / input_step - _BETWEEN.off_lattice))
    places = np.round((t - t[0]) / step).astype(np.intp)
    times = t[0] + np.arange(parts * places[-1] + 1) * (step / parts)
    times[parts * places] = t
    return np.asarray(times)


def _horner(piece: list[list[float]], ahead: float) -> list[float]:
    """The polynomials of one piece at a time so far ahead of its start, the highest power first."""
    values = piece[0]
    for coefficient in piece[1:]:
        values = [v * ahead + c for v, c in zip(values, coefficient, strict=True)]
    return list(values)


def _band_limited(t: Floats, u: Floats) -> tuple[Floats, Floats]:
    """Breaks and coefficients (degree + 1, pieces, p), the highest power first, by steps 1 to 4 above."""
    from scipy.fft import dst
    from scipy.interpolate import CubicSpline, make_interp_spline

    step = constant_step(t, "The inputs")
    places = np.round((t - t[0]) / step).astype(np.intp)
    if len(places) < places[-1] + 1:  # a spline bridges missing samples
        u = CubicSpline(places, u)(np.arange(places[-1] + 1))
    n = len(u)
    # Step 1.
    line = u[0] + np.linspace(0.0, 1.0, n)[:, None] * (u[-1] - u[0])
    bending = (u - line)[1:-1]
    fine = _BETWEEN.refinement * (n - 1) + 1
    series = np.zeros((fine - 2, u.shape[1]))
    # Steps 2 and 3. The transform of scipy is 2 Σ x sin; applied twice it multiplies by 2 (n − 1).
    series[: n - 2] = dst(bending, type=1, axis=0) / (2.0 * (n - 1))
    values = np.zeros((fine, u.shape[1]))
    values[1:-1] = dst(series, type=1, axis=0)
    values += u[0] + np.linspace(0.0, 1.0, fine)[:, None] * (u[-1] - u[0])
    grid = t[0] + np.linspace(0.0, (n - 1) * step, fine)
    degree = min(_BETWEEN.degree, fine - 1)
    spline = make_interp_spline(grid, values, k=degree)
    # Step 4. Between two neighbours of the grid the spline equals its Taylor series at the first of them.
    powers = [spline(grid[:-1], nu=m) / factorial(m) for m in range(degree, -1, -1)]
    return grid[:-1], np.stack(powers)


def interpolated(t: Floats, values: Floats, times: Floats) -> Floats:
    """(m,) one channel at other times, interpolated by local polynomials of degree five.

    The polynomial runs through the three known samples before and the three after each time. The result is
    NaN outside the known samples, and in holes of more than 2.5 median steps.
    """
    sampled = np.isfinite(values)
    t, values = t[sampled], values[sampled]
    result = np.full(len(times), np.nan)
    if len(t) == 0:
        return result
    place = np.clip(np.searchsorted(t, times, side="right"), 1, max(len(t) - 1, 1))
    tiny = 1e-9 * (float(np.median(np.diff(t))) if len(t) > 1 else 1.0)
    inside = (times >= t[0] - tiny) & (times <= t[-1] + tiny)
    if len(t) > 1:
        hole = np.diff(t) > _BETWEEN.longest_bridge * float(np.median(np.diff(t)))
        at_sample = (
            np.min(np.abs(times[:, None] - np.stack([t[place - 1], t[place]], axis=1)), axis=1) <= tiny
        )
        inside &= ~hole[place - 1] | at_sample
    points = min(_BETWEEN.degree + 1, len(t))
    first = np.clip(place - points // 2, 0, len(t) - points)
    nodes = first[:, None] + np.arange(points)
    abscissas, heights = t[nodes], values[nodes]
    total = np.zeros(len(times))
    for k in range(points):  # Lagrange's form: one basis polynomial for each node
        others = [node for node in range(points) if node != k]
        ratio = (times[:, None] - abscissas[:, others]) / (abscissas[:, [k]] - abscissas[:, others])
        total += heights[:, k] * np.prod(ratio, axis=1)
    return np.where(inside, total, result)
