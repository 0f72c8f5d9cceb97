"""Inputs between samples: rows and simulations take them as they were held."""

import numpy as np
import pytest

import cindy


def driven(held, seed, noise=0.01, samples=600, step=0.05):
    """x' = -x + 2 u with u held for some samples, exactly, and measured with noise."""
    rng = np.random.default_rng(seed)
    u = np.repeat(rng.standard_normal(samples // held + 1), held)[:samples]
    x = np.zeros(samples)
    for k in range(samples - 1):
        x[k + 1] = 2 * u[k] + (x[k] - 2 * u[k]) * np.exp(-step)
    y = x + noise * x.std() * rng.standard_normal(samples)
    return step * np.arange(samples), y, u


def identified(held, seed, hold):
    t, y, u = driven(held, seed)
    return cindy.identify(cindy.Trajectory(t, y, ("x",), u=u, inputs=("u",), hold=hold), cindy.Polynomial(2))


@pytest.mark.parametrize("held", [1, 5, 20])
def test_a_held_input_gives_the_law_within_three_errors(held):
    model = identified(held, seed=held, hold="zero")
    x, u = model.terms.index("x"), model.terms.index("u")
    assert set(np.flatnonzero(model.coef[:, 0])) == {x, u}
    assert abs(model.coef[x, 0] + 1) < 3 * model.coef_error[x, 0]
    assert abs(model.coef[u, 0] - 2) < 3 * model.coef_error[u, 0]
    assert "other-hold" not in {finding.code for finding in model.findings}


@pytest.mark.parametrize("held", [1, 5, 20])
def test_a_wrong_hold_is_told_and_the_right_one_named(held):
    model = identified(held, seed=10 + held, hold="linear")
    [finding] = [finding for finding in model.findings if finding.code == "other-hold"]
    assert finding.values["hold"] == "zero"


def test_a_band_limited_input_gives_the_law():
    rng = np.random.default_rng(3)
    step, samples = 0.1, 800
    fine = 40
    t = np.arange(samples * fine) * step / fine
    frequency = rng.uniform(0.2, 4.0, 12)
    phase = rng.uniform(0, 2 * np.pi, 12)
    u = np.cos(2 * np.pi * frequency * t[:, None] + phase).sum(axis=1)
    x = np.zeros(len(t))
    # The exact solution between fine instants, u on straight lines there.
    decay, h = np.exp(-step / fine), step / fine
    for k in range(len(t) - 1):
        slope = (u[k + 1] - u[k]) / h
        offset = 2 * u[k] - 2 * slope
        x[k + 1] = offset + 2 * slope * h + (x[k] - offset) * decay
    y = x[::fine] + 0.002 * x.std() * rng.standard_normal(samples)
    data = cindy.Trajectory(t[::fine], y, ("x",), u=u[::fine], inputs=("u",), hold="band")
    model = cindy.identify(data, cindy.Polynomial(2))
    found = {term: model.coef[i, 0] for i, term in enumerate(model.terms) if model.coef[i, 0]}
    assert set(found) == {"x", "u"}
    assert found["x"] == pytest.approx(-1, rel=0.02)
    assert found["u"] == pytest.approx(2, rel=0.02)
