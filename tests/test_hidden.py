"""States that nobody measured."""

import numpy as np
import pytest
from scipy.integrate import solve_ivp

import cindy
from cindy import DataError, Differential, Polynomial, Trajectory

T = np.arange(300) * 0.05


def runs(rhs, starts, t=T, *, noise=0.01, seed=0):
    rng = np.random.default_rng(seed)
    for x0 in starts:
        x = solve_ivp(lambda _, x: rhs(x), (0, t[-1]), x0, t_eval=t, rtol=1e-9, atol=1e-10).y.T
        yield x + noise * x.std(axis=0) * rng.standard_normal(x.shape)


def oscillator(x):
    return [x[1], -2 * x[0] - 0.2 * x[1]]


@pytest.fixture(scope="module")
def positions():
    return [Trajectory(T, x[:, :1], ("q",)) for x in runs(oscillator, [[1, 0], [0, 2]])]


@pytest.fixture(scope="module")
def model(positions):
    return cindy.identify(positions, Polynomial(2), hidden="v")


def codes(model):
    return {one.code for one in model.findings}


def test_the_velocity_of_an_oscillator_is_found_from_its_position(model):
    assert model.states == ("q", "v")
    wanted = np.zeros((6, 2))
    wanted[[1, 2, 2], [1, 0, 1]] = [-2, 1, -0.2]
    np.testing.assert_array_equal(model.coef != 0, wanted != 0)
    assert np.all(np.abs(model.coef - wanted) <= 5 * model.coef_error + 1e-12)
    assert model.violation < 1e-12


def test_what_is_hidden_is_told_and_has_no_noise(model, positions):
    assert {"hidden-state", "hidden-gauge"} <= codes(model)
    assert np.isnan(model.noise).tolist() == [False, True]
    gauge = next(one for one in model.findings if one.code == "hidden-gauge")
    assert gauge.values == {"state": "v", "equation": "q", "one": "v", "zero": ["1", "q"]}
    truth = next(runs(oscillator, [[1, 0]], noise=0))
    [first, _] = model.smoothed
    assert first.states == ("q", "v")
    assert np.abs(first.x - truth).max() < 0.02


def test_solutions_start_from_all_states(model, tmp_path):
    truth = next(runs(oscillator, [[0.5, 1.0]], noise=0))
    np.testing.assert_allclose(model.simulate([0.5, 1.0], T).x, truth, atol=0.02)
    model.save(tmp_path / "model.json")
    again = cindy.load(tmp_path / "model.json")
    np.testing.assert_array_equal(again.coef, model.coef)
    assert np.isnan(again.noise).tolist() == [False, True]


def test_data_without_the_hidden_state_are_smoothed_and_compared(model, positions, tmp_path):
    model.save(tmp_path / "model.json")
    loaded = cindy.load(tmp_path / "model.json")
    assert loaded.hidden == ("v",)
    for one, own in zip(loaded.smooth(positions), model.smoothed, strict=True):
        np.testing.assert_allclose(one.x, own.x, atol=1e-3)
    fresh = next(runs(oscillator, [[0.5, 1.0]], seed=5))
    [found] = loaded.smooth(Trajectory(T, fresh[:, :1], ("q",)))
    np.testing.assert_allclose(found.x, next(runs(oscillator, [[0.5, 1.0]], noise=0)), atol=0.03)
    assert loaded.score(positions) > 0.99


def test_a_state_that_is_not_needed_is_left_out():
    data = [Trajectory(T, x, ("q", "v")) for x in runs(oscillator, [[1, 0]])]
    model = cindy.identify(data, Polynomial(1), hidden="auto")
    assert model.states == ("q", "v")
    assert "hidden-not-needed" in codes(model)


def test_a_state_that_is_rarely_measured_has_its_equation():
    """Rows complete in all states lie 50 samples apart, and say nothing of noise and bending."""

    def lorenz(s):
        return [10 * (s[1] - s[0]), s[0] * (28 - s[2]) - s[1], s[0] * s[1] - 8 / 3 * s[2]]

    t = np.arange(400) * 0.02
    data = []
    for x in runs(lorenz, [[-8, 8, 27], [5, 3, 20]], t):
        x[np.arange(400) % 50 > 0, 2] = np.nan
        data.append(Trajectory(t, x, ("x", "y", "z")))
    model = cindy.identify(data, Polynomial(2))
    terms = {(model.terms[i], model.states[j]) for i, j in np.argwhere(model.coef)}
    lorenz_terms = [("x", "x"), ("y", "x"), ("x", "y"), ("y", "y"), ("x z", "y"), ("z", "z"), ("x y", "z")]
    assert terms == set(lorenz_terms)


def test_fields_have_no_hidden_states():
    axis = np.linspace(0, 1, 20)
    field = cindy.Field(u=np.outer(axis, axis), x=axis, t=axis)
    with pytest.raises(DataError, match="these data are fields"):
        cindy.identify(field, "pde:2,2", hidden=1)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"hidden": "q"}, 'hidden state "q" has the name of a state'),
        ({"hidden": 2}, "2 hidden states were asked for"),
        ({"hidden": 1.5}, "`hidden` must be a number"),
        ({"hidden": "a b"}, "must have a name such as w"),
        ({"hidden": 1, "passes": 1}, "with passes=1 they are not"),
        ({"hidden": 1, "formulation": Differential()}, r"use Integral\(\)"),
        ({"hidden": 1, "formulation": "integral:2"}, "equations of first order"),
    ],
)
def test_what_cannot_be_is_said_in_one_sentence(positions, options, message):
    with pytest.raises(DataError, match=message):
        cindy.identify(positions, Polynomial(2), **options)
