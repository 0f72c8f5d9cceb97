"""The level of white noise on a grid, from all bands that hold nothing else."""

from __future__ import annotations

import numpy as np
import pytest

from cindy.data import grid_noise
from cindy.data.grid_statistics import white_level

X, T = np.linspace(0.0, 1.0, 160), np.linspace(0.0, 1.0, 120)
SIZE = len(X) * len(T)
WHITE = np.random.default_rng(3).standard_normal((160, 120))
CHANCE = np.sqrt(2.0 / SIZE)
"""The relative standard deviation of the variance of that many values."""


def waves(rate: float) -> np.ndarray:
    return np.sin(rate * X)[:, None] * np.cos(4.0 * T)


def test_white_noise_is_known_almost_as_well_as_by_all_of_its_samples():
    errors = []
    for seed in range(20):
        white = np.random.default_rng(seed).standard_normal(WHITE.shape)
        errors.append(grid_noise(waves(6.0) + 0.1 * white, [X, T]) ** 2 / 0.01 - 1.0)
    assert np.sqrt(np.mean(np.square(errors))) < 1.7 * CHANCE
    assert abs(np.mean(errors)) < 0.75 * CHANCE


def test_a_wave_that_is_fast_along_one_axis_is_no_noise():
    fast = 0.5 * np.cos(0.8 * np.pi * np.arange(160))[:, None] * np.cos(4.0 * T)
    assert grid_noise(fast + 0.1 * WHITE, [X, T]) == pytest.approx(0.1, rel=3 * CHANCE)


def test_a_front_is_no_noise():
    front = np.where(X[:, None] < 0.4 + 0.001 * T, 0.0, 1.0)
    assert grid_noise(front + 0.01 * WHITE, [X, T]) == pytest.approx(0.01, rel=3 * CHANCE)


def test_holes_are_left_out():
    with_holes = waves(6.0) + 0.1 * WHITE
    with_holes[30:50, 40:60] = np.nan
    assert grid_noise(with_holes, [X, T]) == pytest.approx(0.1, rel=4 * CHANCE)


def test_a_signal_in_the_fastest_band_leaves_the_safe_level():
    checks = 0.3 * (-1.0) ** np.add.outer(np.arange(160), np.arange(120))
    assert white_level(checks + 0.1 * WHITE, 0.01, 0.03) == 0.01


def test_short_axes_are_left_as_they_are():
    assert white_level(WHITE[:20, :20], 0.7, 0.03) == 0.7
    assert white_level(WHITE[:20], 1.1, 0.05) == pytest.approx(1.0, rel=3 * np.sqrt(2.0 / 1000))


def test_smooth_values_have_next_to_no_noise():
    assert grid_noise(waves(6.0), [X, T]) < 1e-10
