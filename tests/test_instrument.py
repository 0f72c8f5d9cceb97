"""Channels that are read late, gains and clocks that drift: told, with sizes that make the data right."""

import numpy as np
import pytest
from benchmarks.wrong_noise import DOUBTS, LAWS
from scipy.integrate import solve_ivp

import cindy

STEP, SAMPLES = 0.05, 300


def _double_well(late: float, seed: int, *, gain: float = 0.0, clock: float = 0.0) -> list[cindy.Trajectory]:
    """Two runs in 1 % noise, their y read so many time units late.

    gain, clock: by how much the gain of y, and the rate of the clock, change along a run
    """
    law, rng, runs = LAWS["double well"], np.random.default_rng(seed), []
    t = STEP * np.arange(SAMPLES)
    for start in ([1.2, 0.6], [-0.5, 1.1]):
        span = (-0.5, t[-1] + 1.0)
        path = solve_ivp(
            lambda _, x: law.slope(x[None])[0], span, start, rtol=1e-9, atol=1e-9, dense_output=True
        ).sol
        at = t + clock * t**2 / (2.0 * t[-1])
        x = np.stack([path(at)[0], path(at - late)[1] * (1.0 + gain * t / t[-1])], axis=1)
        noisy = x + 0.01 * rng.standard_normal(x.shape)
        runs.append(cindy.Trajectory(t, noisy, ("x", "y"), time_unit="s"))
    return runs


@pytest.mark.parametrize("samples_late", [0.5, 1.0])
def test_the_delay_that_is_told_gives_the_right_law(samples_late: float) -> None:
    data = _double_well(samples_late * STEP, seed=7)
    model = cindy.identify(data, cindy.Polynomial(3))
    told = [one for one in model.findings if one.code == "late-channel"]
    assert len(told) == 1
    assert told[0].values["state"] == "y"
    assert told[0].values["delay"] == pytest.approx(samples_late * STEP, abs=4 * told[0].values["error"])
    lag = told[0].values["delay"]
    assert " s later than" in told[0].message
    assert f'--delay "y={lag:.3g}"' in told[0].message
    delay = {"y": lag}
    corrected = [cindy.Trajectory(one.t, one.x, one.states, delay=delay) for one in data]
    again = cindy.identify(corrected, cindy.Polynomial(3))
    true = LAWS["double well"].coef
    assert np.abs(model.coef - true).max() > 0.03
    assert np.abs(again.coef - true).max() < 0.01


@pytest.mark.parametrize("fault", ["gain", "clock"])
def test_a_drift_along_the_runs_is_told_with_its_size(fault: str) -> None:
    data = _double_well(0.0, seed=7, **{fault: 0.1})
    model = cindy.identify(data, cindy.Polynomial(3))
    told = {one.code: one.values for one in model.findings}
    assert {"drifting-gain", "drifting-clock"} & set(told) == {f"drifting-{fault}"}
    values = told[f"drifting-{fault}"]
    assert values["change"] == pytest.approx(0.1, abs=4 * values["error"])
    assert values["error"] < 0.02
    assert values.get("state", "y") == "y"


@pytest.mark.parametrize("seed", [4, 15])
def test_growth_that_slows_down_with_age_is_no_fault_as_large_as_what_it_distorts(seed: int) -> None:
    """Trees whose growth falls to a tenth of what it was, each with a vigour of its own."""
    rng, age = np.random.default_rng(seed), np.array([3.0, 5.0, 10.0, 15.0, 20.0, 25.0])
    runs = []
    for vigour in rng.normal(1.0, 0.05, size=14):
        height = 4.5 + vigour * 90.0 * (np.exp(-0.12) - np.exp(-0.04 * age)) + rng.normal(0, 0.5, size=6)
        runs.append(cindy.Trajectory(age, height, ("height",)))
    model = cindy.identify(runs, cindy.Polynomial(2))
    assert not {"drifting-gain", "drifting-clock"} & {one.code for one in model.findings}
    assert {model.terms[k] for k in np.flatnonzero(model.coef[:, 0])} == {"1", "height"}


def test_channels_that_are_read_in_time_raise_no_word() -> None:
    model = cindy.identify(_double_well(0.0, seed=8), cindy.Polynomial(3))
    assert not {one.code for one in model.findings} & DOUBTS
    assert {"drifting-gain", "drifting-clock"} < DOUBTS


def test_kicks_are_no_fault_of_an_instrument() -> None:
    rng, kept = np.random.default_rng(3), np.exp(-STEP)
    x = np.zeros((600, 2))
    for k in range(1, len(x)):
        x[k] = kept * x[k - 1] + np.sqrt(1.0 - kept**2) * rng.standard_normal(2)
    model = cindy.identify((STEP * np.arange(len(x)), x), cindy.Polynomial(1), least="best")
    faults = {"late-channel", "drifting-gain", "drifting-clock"}
    assert not faults & {one.code for one in model.findings}


def test_a_channel_without_another_is_not_late() -> None:
    """The indicator of a run is no channel."""
    t, runs = np.linspace(0, 6, 120), []
    for k, rate in enumerate([0.5, 1.0, 1.5]):
        x = 1 / rate + (3 - 1 / rate) * np.exp(-rate * t)
        noise = 0.01 * x.std() * np.random.default_rng(k).standard_normal(120)
        runs.append(cindy.Trajectory(t, x + noise, ("c",), name=f"run {k}"))
    model = cindy.identify(runs, cindy.PerRun(cindy.Polynomial(1)))
    assert "late-channel" not in {one.code for one in model.findings}


def test_a_state_whose_input_is_constant_in_every_run_is_not_late() -> None:
    """Animals with a diet each, which grow at rates of their own: the weight was "read 15,000 days early"."""
    rng, runs, t = np.random.default_rng(0), [], np.append(np.arange(0.0, 21.0, 2.0), 21.0)
    for k in range(48):
        rate, slower = rng.normal(0.074, 0.014), 0.04 * rng.standard_normal()
        weight = 41.0 * np.exp(rate * (t - slower * t**2 / t[-1])) + np.cumsum(rng.standard_normal(len(t)))
        diet = np.full(len(t), 1.0 + k // 12)
        runs.append(cindy.Trajectory(t, weight, ("weight",), u=diet, inputs=("diet",)))
    codes = {one.code for one in cindy.identify(runs, "poly:2:nobias").findings}
    assert "late-channel" not in codes
    assert "runs-differ" in codes
