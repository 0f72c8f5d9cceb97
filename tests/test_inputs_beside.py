"""What is told of inputs and velocities beside a law: closed loops, missing rates; and dry friction."""

import numpy as np
import pytest

import cindy
from cindy.search.beside_the_law import _noisy


def controlled(gain, seed, samples=500, step=0.05):
    """x' = -x + 2 u, u = reference - gain * measured x of the sample before, held over each step."""
    rng = np.random.default_rng(seed)
    reference = np.repeat(rng.standard_normal(samples // 10 + 1), 10)[:samples]
    x, y, u = np.zeros(samples), np.zeros(samples), np.zeros(samples)
    for k in range(samples):
        y[k] = x[k] + 0.05 * rng.standard_normal()
        u[k] = reference[k] - (gain * y[k - 1] if k else 0.0)
        if k + 1 < samples:
            x[k + 1] = 2 * u[k] + (x[k] - 2 * u[k]) * np.exp(-step)
    return cindy.Trajectory(step, y, ("x",), u=u, inputs=("u",), hold="zero")


def codes(model):
    return {finding.code for finding in model.findings}


def test_an_input_that_follows_earlier_noise_is_told_as_a_closed_loop():
    model = cindy.identify(controlled(0.8, seed=1), cindy.Polynomial(1))
    [finding] = [finding for finding in model.findings if finding.code == "closed-loop"]
    assert finding.values["inputs"] == ["u"]


@pytest.mark.parametrize("seed", [2, 3])
def test_an_input_of_its_own_is_no_closed_loop(seed):
    assert "closed-loop" not in codes(cindy.identify(controlled(0.0, seed=seed), cindy.Polynomial(1)))


@pytest.mark.parametrize("damping", [0.0, 0.3])
def test_a_force_that_follows_the_velocity_is_told_where_no_term_can_hold_it(damping):
    t = 0.05 * np.arange(300)
    fast = np.sqrt(4.0 - damping**2 / 4)
    noise = 0.01 * np.random.default_rng(4).standard_normal(len(t))
    data = cindy.Trajectory(t, np.exp(-damping * t / 2) * np.cos(fast * t) + noise, ("x",))
    model = cindy.identify(data, cindy.Polynomial(1), formulation=cindy.Integral(order=2))
    assert ("follows-velocity" in codes(model)) == (damping > 0)


def rubbed(samples=200, step=0.04):
    """v' = u - f(v), f = tanh(6 v) (0.6 + 0.4 exp(-|v|/0.3)): dry friction that falls with the speed."""
    t = step * np.arange(samples)
    u = 1.6 * np.sin(1.3 * t) + 0.9 * np.sin(2.9 * t + 1.0)
    fine, v, values = 20, 0.4, []
    for k in range(samples):
        values.append(v)
        for _ in range(fine):
            level = 0.6 + 0.4 * np.exp(-abs(v) / 0.3)
            v += step / fine * (u[k] - np.tanh(6 * v) * level)
    noise = 0.003 * np.random.default_rng(5).standard_normal(samples)
    return cindy.Trajectory(t, np.array(values) + noise, ("v",), u=u, inputs=("u",), hold="zero")


def test_dry_friction_with_a_level_and_a_slope_as_parameters_is_found():
    terms = {"level": "tanh(6*v)", "rise": "tanh(6*v)*exp(-abs(v)/s)"}
    basis = cindy.Custom({"u": "u"}) + cindy.Custom(terms, parameters={"s": (0.05, 2.0)})
    model = cindy.identify(rubbed(), basis)
    found = {term: model.coef[i, 0] for i, term in enumerate(model.terms)}
    assert found["u"] == pytest.approx(1.0, abs=0.02)
    assert found["level"] == pytest.approx(-0.6, abs=0.06)
    assert found["rise"] == pytest.approx(-0.4, abs=0.06)
    assert model.parameters["s"].value == pytest.approx(0.3, abs=0.1)


def with_noisy_input(noise, seed, samples=600, step=0.05):
    """x' = -x + 2 u with a smooth u, exactly, and u read with noise."""
    rng = np.random.default_rng(seed)
    frequency, phase = rng.uniform(0.02, 0.5, 8), rng.uniform(0, 2 * np.pi, 8)
    # The response of the linear law to each cosine, once its start is forgotten.
    t = step * np.arange(samples) + 20.0
    angle = 2 * np.pi * frequency * t[:, None] + phase
    gain = 1 / np.hypot(1, 2 * np.pi * frequency)
    u = np.cos(angle).sum(axis=1)
    x = 2 * (gain * np.cos(angle - np.arctan(2 * np.pi * frequency))).sum(axis=1)
    x += 0.01 * x.std() * rng.standard_normal(samples)
    u += noise * u.std() * rng.standard_normal(samples)
    data = cindy.Trajectory(t, x, ("x",), u=u, inputs=("u",))
    return cindy.identify(data, cindy.Polynomial(1)), u.std()


def test_an_input_that_was_read_with_noise_is_told_with_the_size_of_the_noise():
    model, spread = with_noisy_input(0.2, seed=60)
    [finding] = [one for one in model.findings if one.code == "noisy-input"]
    assert finding.values["input"] == "u"
    assert finding.values["noise"] == pytest.approx(0.2 * spread, rel=0.3)
    # 14 % was "some 1e+01 %".
    assert "here by some 10 %" in _noisy("u", 1.0, 0.14, 20.0).message


def test_a_clean_input_is_not_called_noisy():
    model, _ = with_noisy_input(0.0, seed=61)
    assert "noisy-input" not in {one.code for one in model.findings}


@pytest.mark.parametrize("hold", ["zero", "linear"])
def test_a_rough_input_that_the_motion_follows_is_not_called_noisy(hold):
    rng, samples, step = np.random.default_rng(62), 400, 0.05
    u, x = rng.standard_normal(samples), np.zeros(samples)
    for k in range(samples - 1):
        x[k + 1] = 2 * u[k] + (x[k] - 2 * u[k]) * np.exp(-step)
    x += 0.02 * x.std() * rng.standard_normal(samples)
    data = cindy.Trajectory(step, x, ("x",), u=u, inputs=("u",), hold=hold)
    codes = {one.code for one in cindy.identify(data, cindy.Polynomial(1)).findings}
    assert "noisy-input" not in codes
    assert ("other-hold" in codes) == (hold == "linear")
