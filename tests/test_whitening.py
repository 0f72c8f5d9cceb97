"""Rows that stay white although noise drifts through the terms."""

import numpy as np
import pytest
from hypothesis import given, strategies as st

from cindy.basis import Polynomial
from cindy.calculus import whitened, without_polynomials
from cindy.data.trajectory import Trajectory
from cindy.errors import DataError
from cindy.formulation import Integral
from cindy.formulation.scales import feedback_of_data, feedback_of_model
from cindy.identification.identification import identify
from cindy.systems import duffing, fput, kuramoto, lorenz, lotka_volterra, rossler, spring_masses

GRIDS = {
    "even": np.linspace(0.0, 2.0, 41),
    "uneven": np.cumsum(np.random.default_rng(3).uniform(0.02, 0.08, 41)),
    "doubling": np.concatenate([np.linspace(0, 1, 21), np.linspace(1, 3, 21)[1:]]),
}
SYSTEMS = [kuramoto(), lorenz(), lotka_volterra(), duffing(), rossler()]
every_grid = pytest.mark.parametrize("grid", list(GRIDS))
both_orders = pytest.mark.parametrize("order", [1, 2])


def drift(t, noise, order):
    """Noise that is joined by straight lines, integrated once or twice: exact sums, (samples, draws)."""
    steps = np.diff(t)[:, None]
    once = np.vstack([np.zeros(noise.shape[1]), np.cumsum(steps * (noise[:-1] + noise[1:]) / 2, axis=0)])
    if order == 1:
        return once
    inner = steps**2 * (noise[:-1] / 3 + noise[1:] / 6)
    parts = steps * once[:-1] + inner
    return np.vstack([np.zeros(noise.shape[1]), np.cumsum(parts, axis=0)])


@every_grid
@both_orders
@pytest.mark.parametrize("feedback", [0.5, 30.0, 3000.0])
def test_noise_and_its_drift_come_out_white(grid, order, feedback):
    t = GRIDS[grid]
    rng = np.random.default_rng(0)
    draws = 40_000
    noise, inside = rng.standard_normal((2, len(t), draws))
    states = noise + np.sqrt(feedback) * drift(t, inside, order)
    rows = whitened(states[None], t[None], order, feedback)
    covariance = rows @ rows.T / draws
    assert rows.shape == (len(t) - order, draws)
    error = np.abs(covariance - np.eye(len(rows)))
    # Five standard errors of a sample covariance; the drift itself is right to a few per cent.
    assert error.max() < 5 / np.sqrt(draws) + 0.06
    assert np.mean(np.diag(covariance)) == pytest.approx(1.0, abs=0.03)


@every_grid
@both_orders
def test_without_feedback_the_rows_are_the_plain_ones_rotated(grid, order):
    t = GRIDS[grid]
    stack = np.random.default_rng(1).standard_normal((1, len(t), 5))
    plain = without_polynomials(stack.copy(), t[None], order)
    same = whitened(stack, t[None], order, 0.0)
    np.testing.assert_allclose(same.T @ same, plain.T @ plain, atol=1e-9)
    nearly = whitened(stack, t[None], order, 1e-9)
    np.testing.assert_allclose(nearly.T @ nearly, plain.T @ plain, atol=1e-4)


@given(st.integers(0, 100), st.sampled_from([1, 2]), st.floats(0, 1e4))
def test_initial_states_leave_no_trace(seed, order, feedback):
    rng = np.random.default_rng(seed)
    t = np.cumsum(rng.uniform(0.01, 0.1, (3, 20)), axis=1)
    stack = rng.standard_normal((3, 20, 2))
    shift = sum(rng.standard_normal((3, 1, 2)) * t[:, :, None] ** k for k in range(order))
    rows = whitened(stack, t, order, feedback)
    np.testing.assert_allclose(whitened(stack + 10 * shift, t, order, feedback), rows, atol=1e-7)


def test_windows_do_not_know_of_each_other():
    rng = np.random.default_rng(0)
    t = np.cumsum(rng.uniform(0.01, 0.1, (4, 15)), axis=1)
    stack = rng.standard_normal((4, 15, 3))
    together = whitened(stack, t, 2, 7.0)
    apart = np.concatenate([whitened(stack[k : k + 1], t[k : k + 1], 2, 7.0) for k in range(4)])
    np.testing.assert_allclose(together, apart, atol=1e-12)


def test_the_integral_form_with_vanishing_feedback_is_the_plain_one():
    data = lotka_volterra().simulate(seed=0, noise=1e-2, trajectories=1, points=100)[0]
    rows = {}
    for feedback in (0.0, 1e-9):
        form = Integral(feedback=feedback).fit_to([data])
        matrix = form.matrix(data, Polynomial(2), form.edges(len(data)))
        rows[feedback] = matrix.T @ matrix
    np.testing.assert_allclose(rows[1e-9], rows[0.0], rtol=1e-4, atol=1e-6 * np.abs(rows[0.0]).max())


@pytest.mark.parametrize("system", SYSTEMS, ids=lambda s: s.name)
def test_identify_settles_on_the_feedback_of_the_true_equations(system):
    data = system.simulate(seed=0, noise=1e-3)
    settled = identify(data, system.basis, passes=1).formulation
    noise = 1e-3 * np.concatenate([one.x for one in data]).std(axis=0)
    true = feedback_of_model(system.coef, noise, system.basis, data, 1, settled.window)
    assert 0.4 < settled.feedback / true < 2.5


@pytest.mark.parametrize("system", [*SYSTEMS, fput(), spring_masses()], ids=lambda s: s.name)
@pytest.mark.parametrize("noise", [1e-4, 1e-2])
def test_the_guess_from_the_data_is_right_to_an_order_of_magnitude(system, noise):
    data = system.simulate(seed=0, noise=noise)
    window = Integral(order=system.order).fit_to(data).window
    sigma = noise * np.concatenate([one.x for one in data]).std(axis=0)
    true = feedback_of_model(system.coef, sigma, system.basis, data, system.order, window)
    assert 1 / 25 < feedback_of_data(data, system.order, window) / true < 25


@pytest.mark.parametrize("order", [1, 2])
def test_feedback_has_the_unit_of_time_to_the_power_minus_twice_the_order(order):
    system = lorenz() if order == 1 else spring_masses()
    data = system.simulate(seed=0, noise=1e-3)
    slower = [Trajectory(1000 * one.t, one.x, one.states) for one in data]
    window = Integral(order=order).fit_to(data).window
    ratio = feedback_of_data(slower, order, window) / feedback_of_data(data, order, window)
    assert ratio == pytest.approx(1000.0 ** (-2 * order), rel=1e-6)


def test_the_feedback_of_a_linear_model_is_the_square_of_its_matrix():
    system = spring_masses()
    data = system.simulate(seed=0)
    told = feedback_of_model(system.coef, np.array([2.0, 2.0]), system.basis, data, 2, 0)
    assert told == pytest.approx(1.5**2 + 0.5**2)


def test_drift_far_below_the_noise_is_left_alone():
    t = np.linspace(0, 0.01, 100)
    slow = [Trajectory(t, np.exp(-t)[:, None])]
    coef = np.array([[0.0], [-1.0]])
    assert feedback_of_model(coef, np.ones(1), Polynomial(1), slow, 1, 0) == 0.0
    long = [Trajectory(100 * t, np.exp(-t)[:, None])]
    assert feedback_of_model(coef, np.ones(1), Polynomial(1), long, 1, 0) == pytest.approx(1.0)


@pytest.mark.parametrize("feedback", [-1.0, np.inf, np.nan])
def test_feedback_is_a_finite_number_of_at_least_0(feedback):
    with pytest.raises(DataError, match="`feedback` must be a number of at least 0"):
        Integral(feedback=feedback)
