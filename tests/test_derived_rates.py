"""Rates that were computed from positions: recognised, and the law from positions alone told beside."""

import numpy as np
import pytest
from scipy.signal import savgol_filter

import cindy
from cindy.data import oddities

T = 0.05 * np.arange(400)


def _swing(noise: float, seed: int) -> np.ndarray:
    rng = np.random.default_rng(seed)
    return np.exp(-0.05 * T) * np.cos(2.0 * T) + noise * rng.standard_normal(len(T))


def _codes(x: np.ndarray, v: np.ndarray) -> dict[str, dict[str, str]]:
    data = [cindy.Trajectory(T, np.stack([x, v], axis=1), ("x", "v"))]
    return {one.code: dict(one.values).get("rates", {}) for one in oddities(data)}


@pytest.mark.parametrize("noise", [1e-3, 0.03])
@pytest.mark.parametrize("how", ["difference", "filter"])
def test_rates_computed_from_positions_are_recognised(how: str, noise: float) -> None:
    x = _swing(noise, 1)
    v = np.gradient(x, T) if how == "difference" else savgol_filter(x, 11, 3, deriv=1, delta=T[1])
    assert _codes(x, v)["derived-rates"] == {"v": "x"}


@pytest.mark.parametrize("noise", [0.0, 1e-3, 0.03])
def test_rates_that_were_measured_are_not(noise: float) -> None:
    true = np.gradient(_swing(0.0, 1), T)
    v = true + 2.0 * noise * np.random.default_rng(2).standard_normal(len(T))
    assert "derived-rates" not in _codes(_swing(noise, 1), v)


def test_what_positions_alone_give_is_told() -> None:
    x = _swing(0.02, 3)
    v = savgol_filter(x, 11, 3, deriv=1, delta=T[1])
    model = cindy.identify(cindy.Trajectory(T, np.stack([x, v], axis=1), ("x", "v")), cindy.Polynomial(1))
    told = next(one for one in model.findings if one.code == "derived-rates")
    assert told.values["terms"] == 2
    assert "x'' = -" in told.message
    assert told.values["equations"] in told.message
