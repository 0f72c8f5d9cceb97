"""Solutions of partial differential equations: exact ones are met, blow-up is told."""

import numpy as np
import pytest

import cindy

N = 128
X = 40 * np.arange(N) / N - 20


def model(equations: dict[tuple[str, str], float], *, degree=3, order=4, states=("u",), axes=("x",), time=1):
    basis = cindy.Derivatives(degree, order, axes=axes)
    empty = np.zeros((len(basis.names(states)), len(states)))
    return cindy.Model(empty, basis, states, formulation=cindy.Weak(order=time)).with_coef(equations)


def test_a_soliton_keeps_its_shape():
    speed, t = 1.0, np.linspace(0, 3, 7)
    exact = 0.5 * speed / np.cosh(0.5 * np.sqrt(speed) * (X[:, None] - speed * t)) ** 2
    kdv = model({("u", "(u^2)_x"): -3.0, ("u", "u_xxx"): -1.0})
    found = kdv.simulate(cindy.Field(u=exact, x=X, t=t, periodic="x").first, t)
    assert found.stopped is None
    np.testing.assert_allclose(found["u"], exact, atol=2e-4)


def test_a_wave_of_second_order_goes_both_ways():
    t = np.linspace(0, 5, 11)
    exact = 0.5 * (np.exp(-((X[:, None] - t) ** 2)) + np.exp(-((X[:, None] + t) ** 2)))
    wave = model({("u", "u_xx"): 1.0}, time=2)
    found = wave.simulate(cindy.Field(u=exact, x=X, t=t, periodic="x").first, t)
    np.testing.assert_allclose(found["u"], exact, atol=1e-6)


@pytest.mark.parametrize(
    "grid", [np.linspace(0, np.pi, 41), np.pi * np.linspace(0, 1, 41) ** 1.2], ids=["even", "uneven"]
)
def test_heat_spreads_on_an_axis_with_ends(grid):
    t = np.linspace(0, 1, 6)
    exact = np.cos(2 * grid)[:, None] * np.exp(-4 * 0.3 * t)
    heat = model({("u", "u_xx"): 0.3}, order=2)
    found = heat.simulate(cindy.Field(u=exact, x=grid, t=t).first, t)
    np.testing.assert_allclose(found["u"], exact, atol=2e-3)


def test_values_at_the_ends_can_be_held():
    grid, t = np.linspace(0, np.pi, 41), np.linspace(0, 1, 6)
    exact = np.sin(2 * grid)[:, None] * np.exp(-4 * 0.3 * t)
    heat = model({("u", "u_xx"): 0.3}, order=2)
    found = heat.simulate(cindy.Field(u=exact, x=grid, t=t).first, t, boundary="held")
    np.testing.assert_allclose(found["u"], exact, atol=2e-3)


@pytest.mark.parametrize("periodic", [(), ("x",)])
def test_a_solution_that_blows_up_ends_with_a_sentence(periodic):
    x = np.linspace(0, 1, 32)
    start = cindy.Field(u=np.ones((32, 1)), x=x, t=[0.0], periodic=periodic)
    found = model({("u", "u^2"): 1.0}, order=1).simulate(start, np.linspace(0, 3, 31))
    assert found.stopped is not None
    assert "blows up" in found.stopped or "exceeds" in found.stopped
    assert 0.5 < found.t[-1] <= 1.0
    np.testing.assert_allclose(found["u"][0, :5], 1 / (1 - found.t[:5]), rtol=1e-3)


def test_both_ways_of_solving_agree():
    x, t = 2 * np.pi * np.arange(48) / 48, np.linspace(0, 1, 5)
    start = cindy.Field(u=np.sin(x)[:, None], x=x, t=[0.0], periodic="x")
    # A period that is a little uneven on paper keeps the spectral way from being taken.
    burgers = model({("u", "(u^2)_x"): -0.5, ("u", "u_xx"): 0.2}, order=2)
    spectral = burgers.simulate(start, t)
    shaken = x + 1e-5 * np.arange(48) ** 2 / 48**2
    lines = burgers.simulate(
        cindy.Field(u=np.sin(x)[:, None], x=shaken, t=[0.0], periodic={"x": 2 * np.pi}), t
    )
    np.testing.assert_allclose(lines["u"], spectral["u"], atol=1e-3)


def test_products_of_slopes_and_inputs_are_simulated():
    x, t = 2 * np.pi * np.arange(64) / 64, np.linspace(0, 0.5, 6)
    basis = cindy.Derivatives(2, 2, products=True, axes=("x",))
    names = basis.names(("h", "a"))
    coef = np.zeros((len(names), 1))
    coef[names.index("h_xx")], coef[names.index("h_x^2")], coef[names.index("a")] = 0.5, 0.5, 1.0
    kpz = cindy.Model(coef, basis, ("h",), inputs=("a",), formulation=cindy.Weak())
    start = cindy.Field(h=np.zeros((64, 1)), x=x, t=[0.0], periodic="x", inputs={"a": np.ones(64)})
    np.testing.assert_allclose(kpz.simulate(start, t)["h"], np.broadcast_to(t, (64, 6)), atol=1e-6)
    # h = log(w) with w_t = w_xx / 2 + a w.
    w = 2 + np.cos(x)
    begun = cindy.Field(h=np.log(w)[:, None], x=x, t=[0.0], periodic="x", inputs={"a": np.zeros(64)})
    exact = np.log(2 + np.cos(x)[:, None] * np.exp(-0.5 * t))
    np.testing.assert_allclose(kpz.simulate(begun, t)["h"], exact, atol=1e-4)


def test_smoothing_takes_most_of_the_noise_away():
    t = np.linspace(0, 4, 81)
    clean = np.sin(2 * np.pi * (X[:, None] - t) / 20)
    noisy = clean + 0.3 * np.random.default_rng(0).standard_normal(clean.shape)
    smooth = cindy.Field(u=noisy, x=X, t=t, periodic="x").smoothed()["u"]
    assert np.sqrt(np.mean((smooth - clean) ** 2)) < 0.05


def test_a_start_that_is_no_field_gets_a_sentence():
    with pytest.raises(cindy.DataError, match=r"field\.first"):
        model({("u", "u_xx"): 1.0}).simulate([1.0], [0.0, 1.0])
