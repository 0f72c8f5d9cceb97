"""The denoised states stay with the model: nothing estimates them twice."""

import pickle
from unittest import mock

import numpy as np
import pytest

import cindy
from cindy.model import compare, denoised as room, diagnose
from cindy.systems import lorenz, lotka_volterra


@pytest.fixture(scope="module")
def data():
    return lotka_volterra().simulate(seed=2, noise=0.05)


@pytest.fixture(scope="module")
def model(data):
    return cindy.identify(data, "poly:2")


def test_the_states_at_hand_are_those_that_the_equations_give(data, model):
    again = cindy.Model(
        model.coef,
        model.basis,
        model.states,
        noise=model.noise,
        model_error=model.model_error,
        formulation=model.formulation,
    )
    for kept, new, one in zip(model.smooth(data), again.smooth(data), data, strict=True):
        np.testing.assert_allclose(kept.x, new.x, atol=0.05 * float(np.max(model.noise)))
        assert (kept.x - one.x).std() == pytest.approx(float(np.mean(model.noise)), rel=0.3)


def test_nothing_fits_the_states_of_the_same_data_again(data, model):
    with mock.patch.object(room, "states_under", side_effect=AssertionError("fitted again")):
        assert len(model.smoothed) == len(data)
        model.smooth(data[:2])
        model.smooth(data[0].part(10, 60))
        diagnose(model, data)
        compare(model, data[:2])


def test_other_data_are_denoised_under_the_equations(model):
    fresh = lotka_volterra().simulate(seed=9, noise=0.05)
    exact = lotka_volterra().simulate(seed=9, noise=0.0)
    [states] = model.smooth(fresh[:1])
    assert (states.x - exact[0].x).std() < 0.6 * (fresh[0].x - exact[0].x).std()
    assert np.all(diagnose(model, fresh).loss < 0.1)


def test_a_file_and_a_pickle_hold_no_data(tmp_path, model):
    model.save(tmp_path / "model.json")
    for other in (cindy.load(tmp_path / "model.json"), pickle.loads(pickle.dumps(model))):
        assert other.denoised
        assert other.fitted is None
        assert other.smoothed == ()


def test_rows_at_denoised_states_tell_right_equations_from_wrong_ones():
    data = lorenz().simulate(seed=1, noise=0.2, trajectories=4, points=1600)
    right = cindy.identify(data, "poly:2")
    wrong = cindy.identify(data, "poly:1")
    assert right.explained["equations"] > 0.95
    assert wrong.explained["equations"] < 0.6


def test_the_loss_of_the_model_is_the_smallest_of_its_support(data, model):
    own = model.fitted.relative_loss(model.coef)
    assert own < 0.05
    for place in np.argwhere(model.support):
        moved = np.array(model.coef)
        moved[tuple(place)] *= 1.05
        assert model.fitted.relative_loss(moved) > own


def test_states_are_denoised_alike_in_whatever_order_the_data_hold_them():
    known, new = cindy.systems.lotka_volterra().simulate(trajectories=2, points=200, noise=0.01)
    model = cindy.identify(known, "poly:2")
    turned = cindy.Trajectory(new.t, new.x[:, ::-1], ("y", "x"))
    np.testing.assert_array_equal(model.smooth(turned)[0].x, model.smooth(new)[0].x)


@pytest.mark.parametrize("hidden", [0, 1])
def test_a_loaded_model_whose_terms_hold_the_time_denoises_data(tmp_path, hidden):
    basis = cindy.Custom({"x": "x", "w": "w", "pull": "cos(1.5*t)"})
    law = cindy.Model([[0, -2], [1, -0.3], [0, 1]], basis, ("x", "w"), inputs=("t",))
    t, rng = np.linspace(0, 12, 500), np.random.default_rng(0)
    x = law.simulate([1.0, 0.0], t).x + 0.003 * rng.standard_normal((500, 2))
    data = cindy.Trajectory(t, x[:, :1], ("x",)) if hidden else cindy.Trajectory(t, x, ("x", "w"))
    model = cindy.identify(data, basis, hidden=("w",) if hidden else 0)
    model.save(tmp_path / "model.json")
    [smooth] = cindy.load(tmp_path / "model.json").smooth(data)
    assert (smooth.states, smooth.inputs) == (("x", "w"), ())
    np.testing.assert_allclose(smooth.x, model.smooth(data)[0].x, atol=1e-4)
    assert model.score(data, "trajectory") > 0.9999
