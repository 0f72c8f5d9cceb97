"""Sensors with clocks of their own: rows in which only some states were measured."""

import numpy as np
import pytest
from scipy.integrate import solve_ivp

import cindy
from cindy import DataError, Polynomial, Trajectory


def sensors(noise, seed=0, length=25.0):
    """A van der Pol oscillator seen by two sensors, at 10 and at 7 Hz, that share no instant."""
    rng = np.random.default_rng(seed)
    clocks = np.arange(0, length, 0.1), 0.013 + np.arange(0, length - 0.2, 1 / 7)
    for start in ([1.0, 0.0], [-2.0, 1.0], [0.5, -2.0]):
        solved = solve_ivp(
            lambda _, x: [x[1], 1.5 * (1 - x[0] ** 2) * x[1] - x[0]],
            (0, length),
            start,
            dense_output=True,
            rtol=1e-9,
            atol=1e-10,
        )
        seen = [solved.sol(t)[j] for j, t in enumerate(clocks)]
        yield [
            Trajectory(t, x + noise * x.std() * rng.standard_normal(len(t)), (name,))
            for t, x, name in zip(clocks, seen, "xv", strict=True)
        ]


@pytest.fixture(scope="module")
def data():
    return [Trajectory.merged(both) for both in sensors(0.05)]


@pytest.fixture(scope="module")
def model(data):
    return cindy.identify(data, Polynomial(3))


def test_two_sensors_without_a_shared_instant_give_the_law(model):
    wanted = np.zeros((10, 2))
    names = {name: k for k, name in enumerate(model.terms)}
    wanted[names["v"]] = [1, 1.5]
    wanted[names["x"], 1], wanted[names["x^2 v"], 1] = -1, -1.5
    np.testing.assert_array_equal(model.coef != 0, wanted != 0)
    assert np.all(np.abs(model.coef - wanted) <= 5 * model.coef_error)


def test_the_noise_of_each_sensor_is_found(model, data):
    spread = np.nanstd(np.concatenate([one.x for one in data]), axis=0)
    np.testing.assert_allclose(model.noise, 0.05 * spread, rtol=0.15)


def test_the_model_is_compared_with_data_in_which_no_row_is_complete(model, data):
    assert not any(np.isfinite(one.x).all(axis=1).any() for one in data)
    assert not {"not-compared", "large-residuals"} & {one.code for one in model.findings}
    assert model.score(data, "trajectory") > 0.98
    assert all(np.isfinite(one.x).all() for one in model.smooth(data))


def test_times_that_differ_by_rounding_are_one_time():
    first = Trajectory(np.arange(8) * 0.1, np.arange(8.0), ("a",))
    second = Trajectory(np.arange(4) * 0.2 + 1e-12, np.arange(4.0), ("b",))
    both = Trajectory.merged([first, second])
    assert len(both) == 8
    assert np.isfinite(both.x[:, 1]).tolist() == [True, False] * 4


def test_inputs_are_taken_to_the_instants_of_all_sensors():
    first = Trajectory([0.0, 1.0, 2.0], [0.0, 0, 0], ("a",), u=[0.0, 2.0, 4.0])
    second = Trajectory([0.5, 1.5], [1.0, 1.0], ("b",))
    assert Trajectory.merged([second, first]).u[:, 0].tolist() == [0, 1, 2, 3, 4]


def test_a_state_that_is_measured_twice_at_one_time_is_refused():
    one = Trajectory([0.0, 1.0], [1.0, 2.0], ("a",))
    with pytest.raises(DataError, match="'a' is measured twice at t = 0"):
        Trajectory.merged([one, one])
    with pytest.raises(DataError, match="there is no sensor"):
        Trajectory.merged([])
