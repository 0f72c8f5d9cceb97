"""A channel that is read later than its time stamp says: told, and the delay that is told makes it right."""

import numpy as np
import pytest
from benchmarks.wrong_noise import DOUBTS, LAWS
from scipy.integrate import solve_ivp

import cindy

STEP, SAMPLES = 0.05, 300


def _double_well(late: float, seed: int) -> list[cindy.Trajectory]:
    """Two runs in 1 % noise, their y read so many time units late."""
    law, rng, runs = LAWS["double well"], np.random.default_rng(seed), []
    t = STEP * np.arange(SAMPLES)
    for start in ([1.2, 0.6], [-0.5, 1.1]):
        span = (-0.5, t[-1] + 0.5)
        path = solve_ivp(
            lambda _, x: law.slope(x[None])[0], span, start, rtol=1e-9, atol=1e-9, dense_output=True
        ).sol
        x = np.stack([path(t)[0], path(t - late)[1]], axis=1)
        runs.append(cindy.Trajectory(t, x + 0.01 * rng.standard_normal(x.shape), ("x", "y")))
    return runs


@pytest.mark.parametrize("samples_late", [0.5, 1.0])
def test_the_delay_that_is_told_gives_the_right_law(samples_late: float) -> None:
    data = _double_well(samples_late * STEP, seed=7)
    model = cindy.identify(data, cindy.Polynomial(3))
    told = [one for one in model.findings if one.code == "late-channel"]
    assert len(told) == 1
    assert told[0].values["state"] == "y"
    assert told[0].values["delay"] == pytest.approx(samples_late * STEP, abs=4 * told[0].values["error"])
    delay = {"y": told[0].values["delay"]}
    corrected = [cindy.Trajectory(one.t, one.x, one.states, delay=delay) for one in data]
    again = cindy.identify(corrected, cindy.Polynomial(3))
    true = LAWS["double well"].coef
    assert np.abs(model.coef - true).max() > 0.03
    assert np.abs(again.coef - true).max() < 0.01


def test_channels_that_are_read_in_time_raise_no_word() -> None:
    model = cindy.identify(_double_well(0.0, seed=8), cindy.Polynomial(3))
    assert not {one.code for one in model.findings} & DOUBTS


def test_kicks_are_no_delay() -> None:
    rng, kept = np.random.default_rng(3), np.exp(-STEP)
    x = np.zeros((600, 2))
    for k in range(1, len(x)):
        x[k] = kept * x[k - 1] + np.sqrt(1.0 - kept**2) * rng.standard_normal(2)
    model = cindy.identify((STEP * np.arange(len(x)), x), cindy.Polynomial(1), least="best")
    assert "late-channel" not in {one.code for one in model.findings}
