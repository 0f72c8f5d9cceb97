"""CINDy: the manners of scikit-learn."""

import pickle

import numpy as np
import pandas as pd
import polars as pl
import pytest
from sklearn.base import clone
from sklearn.exceptions import NotFittedError
from sklearn.model_selection import GridSearchCV, KFold, cross_val_score

import cindy
from cindy import CINDy
from cindy.errors import DataError
from cindy.systems import lotka_volterra

SYSTEM = lotka_volterra()
BASIS = cindy.Polynomial(2)


@pytest.fixture(scope="module")
def runs():
    return SYSTEM.simulate(seed=0, noise=1e-4, trajectories=6, points=360)


@pytest.fixture(scope="module")
def fitted(runs):
    return CINDy(BASIS).fit(runs)


def forms(runs):
    """The same data as a user may hold them: X, t and the time column."""
    frames = [pd.DataFrame({"t": r.t, **dict(zip(r.states, r.x.T, strict=True))}) for r in runs]
    arrays, times = [r.x for r in runs], [r.t for r in runs]
    return {
        "trajectories": (runs, None, None),
        "arrays": (arrays, times, None),
        "arrays on one grid": (arrays, times[0], None),
        "arrays and a step": (arrays, float(times[0][1] - times[0][0]), None),
        "frames with a time column": (frames, None, "t"),
        "polars frames": ([pl.from_pandas(f) for f in frames], None, "t"),
        "frames and times": ([f.drop(columns="t") for f in frames], times, None),
    }


@pytest.mark.parametrize("form", list(forms(SYSTEM.simulate(seed=0, trajectories=2, points=40))))
def test_every_form_of_the_data_gives_the_same_model(form, runs, fitted):
    X, t, time = forms(runs)[form]
    found = CINDy(BASIS, time=time).fit(X, t=t)
    np.testing.assert_allclose(found.coef_, fitted.coef_, rtol=1e-8, atol=1e-10)
    assert found.score(X, t=t) == pytest.approx(fitted.score(runs), abs=1e-9)


def test_the_names_of_a_frame_are_the_names_of_the_states(runs):
    frame = pd.DataFrame(runs[0].x, columns=["prey", "predator"])
    found = CINDy(BASIS).fit(frame, t=runs[0].t)
    assert found.feature_names_in_.tolist() == ["prey", "predator"]
    assert found.get_feature_names_out().tolist() == list(BASIS.names(("prey", "predator")))
    assert found.n_features_in_ == 2
    assert found.equations()[0].startswith("prey' ")
    assert found.score(frame) > 0.99
    assert found.predict(frame).shape == frame.shape


def test_the_estimator_is_identify(runs, fitted):
    model = cindy.identify(runs, BASIS)
    np.testing.assert_array_equal(fitted.model_.coef, model.coef)
    np.testing.assert_array_equal(fitted.coef_, model.coef)
    np.testing.assert_array_equal(fitted.predict(runs[0].x), model.predict(runs[0].x))
    t = np.linspace(0, 1, 11)
    np.testing.assert_array_equal(fitted.simulate(runs[0].x[0], t).x, model.simulate(runs[0].x[0], t).x)
    assert [p.shape for p in fitted.predict(runs)] == [r.x.shape for r in runs]


def test_settings_go_in_and_come_out():
    given = {
        "basis": BASIS,
        "formulation": cindy.Differential(),
        "constraints": [cindy.fix(SYSTEM.states[0], "1", 0.0)],
        "selection": cindy.Terms(3),
        "correction": cindy.Blended(),
        "weights": cindy.Uniform(),
        "radius": 3.0,
        "tol": 1e-4,
        "max_iter": 77,
        "seed": 5,
        "passes": None,
        "known": {"q": "v"},
        "hidden": ("w",),
        "observe": {"total": "x + y"},
        "least": "best",
        "time": "t",
        "dt": 0.05,
        "hold": "zero",
    }
    estimator = CINDy(**given)
    assert estimator.get_params() == given
    assert CINDy().set_params(**given).get_params() == given
    assert {k: repr(v) for k, v in clone(estimator).get_params().items()} == {
        k: repr(v) for k, v in given.items()
    }
    with pytest.raises(ValueError, match="Invalid parameter"):
        estimator.set_params(threshold=0.1)


def test_a_set_parameter_takes_effect(runs, fitted):
    found = clone(fitted).set_params(selection=cindy.Terms(3)).fit(runs)
    assert found.model_.size == 3


def test_constraints_hold(runs):
    law = cindy.fix(SYSTEM.states[0], SYSTEM.states[0], 1.25)
    found = CINDy(BASIS, constraints=[law]).fit(runs)
    assert found.coef_[found.model_.place(SYSTEM.states[0], SYSTEM.states[0])] == pytest.approx(
        1.25, abs=1e-9
    )


def test_known_equations_hidden_states_and_a_step_go_to_identify():
    t = np.arange(400) * 0.05
    noise = 0.01 * np.random.default_rng(3).normal(size=(400, 2))
    x = np.stack([np.cos(2 * t), -2 * np.sin(2 * t)], axis=1) + noise
    named = pd.DataFrame(x, columns=["q", "v"])
    law = CINDy(cindy.Polynomial(2), dt=0.05, known={"q": "v"}).fit(named)
    assert law.equations()[0] == "q' =  1 v"
    assert law.score(named) > 0.99

    seen = named[["q"]]
    hidden = CINDy(cindy.Polynomial(1), dt=0.05, hidden="w").fit(seen)
    assert hidden.model_.states == ("q", "w")
    assert list(hidden.feature_names_in_) == ["q"]
    assert hidden.n_features_in_ == 1
    assert hidden.score(seen, kind="trajectory") > 0.99

    read = CINDy(cindy.Polynomial(2), dt=0.05, observe={"total": "q + v"})
    found = read.fit(pd.DataFrame({"q": x[:, 0], "total": x.sum(axis=1)}))
    assert set(found.model_.states) == {"q", "v"}
    assert found.model_.size == 2


def test_inputs_are_held_as_the_estimator_says():
    rng = np.random.default_rng(8)
    t, u = np.arange(400) * 0.1, np.repeat(rng.normal(size=80), 5)
    x = np.zeros(400)
    for k in range(399):
        x[k + 1] = x[k] * np.exp(-0.1) + 2 * u[k] * (1 - np.exp(-0.1))
    x += 0.005 * rng.normal(size=400)
    found = CINDy(cindy.Polynomial(1), hold="zero").fit(x[:, None], t=t, u=u[:, None])
    same = cindy.Trajectory(t, x, ("x1",), u=u, hold="zero")
    np.testing.assert_array_equal(found.coef_, cindy.identify(same, cindy.Polynomial(1)).coef)
    assert np.abs(found.coef_[1:, 0] - [-1, 2]).max() < 0.02


def test_a_clone_is_not_fitted(fitted, runs):
    with pytest.raises(NotFittedError):
        clone(fitted).predict(runs[0].x)
    with pytest.raises(NotFittedError):
        CINDy().score(runs)


def test_a_pickle_predicts_the_same(fitted, runs):
    fitted.simulate(runs[0].x[0], runs[0].t[:5])
    again = pickle.loads(pickle.dumps(fitted))
    np.testing.assert_array_equal(again.predict(runs[0].x), fitted.predict(runs[0].x))


def test_a_grid_search_finds_the_degree_and_the_rule(runs):
    grid = {
        "basis": [cindy.Polynomial(1), cindy.Polynomial(2)],
        "selection": [cindy.Terms(1), cindy.Significance()],
    }
    search = GridSearchCV(CINDy(), grid, cv=2, error_score="raise").fit(runs)
    assert search.best_params_["basis"] == cindy.Polynomial(2)
    assert search.best_params_["selection"] == cindy.Significance()
    np.testing.assert_array_equal(search.best_estimator_.model_.support, SYSTEM.coef != 0)


def test_one_long_trajectory_is_cross_validated_without_integrating_over_what_a_fold_leaves_out():
    run = SYSTEM.simulate(seed=1, trajectories=1, points=2000, horizon=30.0, noise=1e-4)[0]
    search = GridSearchCV(CINDy(), {"basis": [BASIS]}, cv=KFold(4), error_score="raise")
    search.fit(run.x, t=run.t)
    assert search.best_score_ > 0.999


def test_scores_are_higher_the_better_and_at_most_one(runs):
    good, bad = (cross_val_score(CINDy(cindy.Polynomial(k)), runs, cv=3, error_score="raise") for k in (2, 1))
    assert np.all(good <= 1)
    assert good.mean() > 0.999 > bad.mean()


@pytest.mark.parametrize(
    ("call", "sentence"),
    [
        (lambda x, t: CINDy().fit(x), "times are missing"),
        (lambda x, t: CINDy().fit([]), "empty list"),
        (lambda x, t: CINDy().fit([x, x], t=[t]), "one entry per trajectory"),
        (lambda x, t: CINDy(time="s").fit(pd.DataFrame(x)), 'no column "s"'),
        (lambda x, t: CINDy().fit(x, t=t[:-1]), "one row per time"),
        (lambda x, t: CINDy().fit(x, t=t).predict(x[:, :1]), "one column for each"),
    ],
)
def test_data_that_do_not_fit_together_are_refused(call, sentence, runs):
    with pytest.raises(DataError, match=sentence):
        call(runs[0].x, runs[0].t)


def test_without_times_a_score_takes_the_step_of_the_fit(runs):
    t = np.sort(np.random.default_rng(0).uniform(0, 5, 200))
    irregular = SYSTEM.simulate(seed=0, trajectories=1, times=t)[0]
    found = CINDy(BASIS).fit(irregular.x, t=irregular.t)
    assert found.score(irregular.x, t=irregular.t) > 0.99
    with pytest.raises(DataError, match="times are missing"):
        found.score(irregular.x)
