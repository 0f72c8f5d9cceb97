"""from_pysindy: a fitted model of pysindy, simulated, exported and saved as ours."""

import numpy as np
import pysindy as ps
import pytest
from numpy.testing import assert_allclose
from sklearn.exceptions import NotFittedError
from tests.pysindy.libraries import MADE, STATES
from tests.pysindy.lorenz import NAMES, STEP, clean, noisy

import cindy
from cindy.pysindy import ConditionalGradient, from_pysindy


def lorenz(optimizer=None, **settings):
    return ps.SINDy(optimizer=optimizer, **settings).fit(noisy(), t=STEP, feature_names=NAMES)


@pytest.mark.parametrize("made", MADE.values(), ids=MADE)
def test_both_models_have_the_same_right_hand_side(made):
    x = np.random.default_rng(0).normal(size=(80, 3))
    theirs = ps.SINDy(feature_library=made(), optimizer=ps.STLSQ(threshold=0.0, alpha=1e-3))
    theirs.fit(x, t=0.1, feature_names=list(STATES))
    ours = from_pysindy(theirs)
    assert_allclose(ours.predict(x), np.asarray(theirs.predict(x)), rtol=1e-9, atol=1e-9)
    assert_allclose(ours.rhs(0.0, x[0]), ours.predict(x[0]), rtol=1e-9, atol=1e-12)


def test_a_simulation_agrees_with_theirs():
    theirs = lorenz()
    t = np.linspace(0, 1, 20)
    ours = from_pysindy(theirs).simulate(clean()[0], t)
    slow = theirs.simulate(clean()[0], t, integrator_kws={"method": "LSODA", "rtol": 1e-8, "atol": 1e-8})
    assert_allclose(ours.x, slow, atol=1e-3)


def test_errors_certificate_and_constraints_of_our_optimizer_come_along():
    optimizer = ConditionalGradient(
        constraint_lhs=np.eye(30)[[11]], constraint_rhs=[28.0], equality_constraints=True
    )
    model = from_pysindy(lorenz(optimizer))
    assert model.coef[model.place("y", "x")] == pytest.approx(28.0, abs=1e-9)
    assert np.isfinite(model.coef_error).all()
    assert 0 <= model.gap < 0.1
    assert model.violation <= 1e-9
    assert "coef_[1, 1] = 28" in model.constraints[0]
    assert model.equations()[1].startswith("y' =  28 x")


def test_errors_of_other_optimizers_are_unknown():
    model = from_pysindy(lorenz())
    assert np.isnan(model.coef_error[model.coef != 0]).all()
    assert np.isnan(model.gap)


def test_it_is_exported_and_saved(tmp_path):
    model = from_pysindy(lorenz(ConditionalGradient()))
    assert model.states == ("x", "y", "z")
    assert repr(model.basis) == "Polynomial(degree=2)"
    assert r"\dot{x}" in model.to_latex()
    model.save(tmp_path / "model.json")
    again = cindy.load(tmp_path / "model.json")
    assert again.equations() == model.equations()


def test_inputs_and_discrete_time_come_along():
    rng = np.random.default_rng(0)
    u = rng.uniform(-1, 1, size=(200, 1))
    x = np.zeros((201, 1))
    for k in range(200):
        x[k + 1] = 0.8 * x[k] + 0.5 * u[k]
    theirs = ps.DiscreteSINDy(optimizer=ConditionalGradient())
    theirs.fit(x[:-1], t=1, x_next=x[1:], u=u, feature_names=["x", "u"])
    model = from_pysindy(theirs)
    assert (model.states, model.inputs) == (("x",), ("u",))
    assert isinstance(model.formulation, cindy.Discrete)
    assert_allclose(model.predict(x[:-1], u), x[1:], atol=1e-9)


def test_what_is_no_fitted_model_is_refused():
    with pytest.raises(NotFittedError):
        from_pysindy(ps.SINDy())
    with pytest.raises(cindy.DataError, match="fitted"):
        from_pysindy(ps.STLSQ())
