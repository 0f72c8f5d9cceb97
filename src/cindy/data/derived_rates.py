"""Derived rates: whether a channel was computed from the samples of another, as a rate out of positions.

A rate that a difference, a filter or a spline took out of positions is v_k = Σ_l a_l x_{k+l}: it holds no
measurement of its own, and its noise is a filtered copy of that of the positions. A measured rate also lies
close to such a sum, but never closer than the noise of the positions allows:

    mean (v − Σ a_l x_l)²  ≥  σ_x² Σ a_l²         for a rate measured by itself
    mean (v − Σ a_l x_l)²  ≈  0                   for one computed from the positions

so that the ratio of the two sides tells them apart without any model. Steps:

1. pairs of states of which one follows the slope of the other;
2. the weights a by least squares over all samples whose neighbours are there;
3. the ratio, with σ_x from the roughness of the positions.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.lib.stride_tricks import sliding_window_view

from cindy._arrays import Floats
from cindy.data.time_scales import rough_noise
from cindy.data.trajectory import Trajectory
from cindy.findings import Finding

__all__ = ["derived_rates"]


@dataclass(frozen=True)
class _Rates:
    """When a column is the rate of another one, computed and not measured."""

    half_width: int = 10
    """Samples on either side that a rate may be computed from."""
    shares: float = 0.2
    """Of what the noise of the positions allows: a rate that lies closer was computed from them. Rates
    measured by themselves have 0.87 and more in fourteen kinds of noise (data of the benchmark wrong_noise),
    those of filmed springs 0.04 at most, those of differences and of Savitzky-Golay filters 1e-6."""
    follows: float = 0.9
    """Correlation with the slope of the positions from which a state may be their rate."""
    clean: float = 1e-5
    """Of the spread: noise below which there is none to share."""
    even: float = 0.1
    """Of a step: samples that are less even were not filtered with one set of weights. Times may be
    rounded."""


_RATES = _Rates()


def derived_rates(segments: Sequence[Trajectory]) -> list[Finding]:
    """A finding on rates that hold no measurement of their own, and what to do."""
    enough = [one for one in segments if len(one) > 4 * _RATES.half_width and _is_even(one.t)]
    if sum(map(len, enough)) < 10 * _RATES.half_width or enough[0].dimension < 2:
        return []
    states = enough[0].states
    noise = rough_noise(enough)[0]
    spread = np.concatenate([one.x for one in enough]).std(axis=0)
    slopes = np.concatenate([np.gradient(one.x, one.t, axis=0) for one in enough])
    values = np.concatenate([one.x for one in enough])
    rates: dict[str, str] = {}
    for i in map(int, np.flatnonzero(noise > _RATES.clean * spread)):
        for j in range(len(states)):
            follows = j != i and _correlation(slopes[:, i], values[:, j]) > _RATES.follows
            if follows and _beyond_noise(enough, i, j, float(noise[i])) < _RATES.shares:
                rates[states[j]] = states[i]
    if not rates:
        return []
    named = ", ".join(f'"{rate}" from "{position}"' for rate, position in rates.items())
    message = (
        f"Rates were computed from positions: {named}. They hold no measurement of their own, and their "
        "noise follows that of the positions. Leave them out, and look for x'' = F(x, x') with "
        "formulation=Integral(order=2, rates=True)."
    )
    return [Finding("derived-rates", message, {"rates": rates})]


def _is_even(t: Floats) -> bool:
    even = np.linspace(t[0], t[-1], len(t))
    return bool(np.abs(t - even).max() < _RATES.even * float(t[-1] - t[0]) / (len(t) - 1))


def _correlation(a: Floats, b: Floats) -> float:
    a, b = a - a.mean(), b - b.mean()
    return float(a @ b / max(float(np.sqrt((a @ a) * (b @ b))), 1e-300))


def _beyond_noise(segments: Sequence[Trajectory], i: int, j: int, noise: float) -> float:
    """What weights of neighbouring samples of state i leave of state j, over what their noise allows."""
    width = 2 * _RATES.half_width + 1
    near = np.concatenate([sliding_window_view(one.x[:, i], width) for one in segments])
    rate = np.concatenate([one.x[_RATES.half_width : len(one) - _RATES.half_width, j] for one in segments])
    size = max(float(np.abs(near).max()), 1e-300)
    columns = np.column_stack([near / size, np.ones(len(near))])
    weights = np.linalg.lstsq(columns, rate, rcond=1e-12)[0]
    left = float(np.sum((rate - columns @ weights) ** 2)) / max(len(rate) - width - 1, 1)
    allowed = noise**2 * float(np.sum(weights[:-1] ** 2)) / size**2
    return left / max(allowed, 1e-300)
