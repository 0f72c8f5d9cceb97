"""ConditionalGradient inside pysindy: recovery, constraints, and the manners of its own optimizers."""

import pickle
import warnings

import numpy as np
import pysindy as ps
import pytest
from sklearn.base import clone
from sklearn.exceptions import ConvergenceWarning, NotFittedError
from sklearn.linear_model import LinearRegression
from sklearn.model_selection import GridSearchCV, TimeSeriesSplit
from sklearn.utils.validation import check_is_fitted
from tests.pysindy.lorenz import NAMES, STEP, TRUTH, clean, noisy, terms

import cindy
from cindy.pysindy import ConditionalGradient

warnings.filterwarnings("ignore", module="pysindy")


def fitted(x, optimizer, **settings):
    return ps.SINDy(optimizer=optimizer, **settings).fit(x, t=STEP, feature_names=NAMES)


@pytest.fixture
def data():
    rng = np.random.default_rng(0)
    design = rng.normal(size=(300, 5)) * np.array([1, 100, 0.01, 1, 1])
    truth = np.array([[2.0, 0, 0, -1, 0], [0, 0.3, 50, 0, 0]])
    return design, design @ truth.T + 0.01 * rng.normal(size=(300, 2)), truth


# --- recovery


@pytest.mark.parametrize("seed", range(3))
@pytest.mark.parametrize("degree", [2, 3])
@pytest.mark.parametrize("method", [None, ps.SmoothedFiniteDifference()], ids=["default", "smoothed"])
def test_lorenz_with_one_percent_noise_has_its_seven_terms(seed, degree, method):
    library = ps.PolynomialLibrary(degree)
    model = fitted(noisy(seed), ConditionalGradient(), feature_library=library, differentiation_method=method)
    assert terms(model) == TRUTH
    assert model.complexity == 7


@pytest.mark.parametrize("level", [0.0, 1e-5, 1e-3])
@pytest.mark.parametrize("step", [STEP, 0.01])
def test_errors_of_differentiation_are_not_mistaken_for_terms(level, step):
    model = ps.SINDy(optimizer=ConditionalGradient())
    model.fit(noisy(level=level, step=step), t=step, feature_names=NAMES)
    assert terms(model) == TRUTH


def test_trajectories_of_few_samples_are_taken_together():
    x = [noisy()[k : k + 25] for k in range(0, 5000, 25)]
    model = ps.SINDy(optimizer=ConditionalGradient()).fit(x, t=STEP, feature_names=NAMES)
    assert terms(model) == TRUTH


def test_normalised_columns_change_nothing():
    plain, normalised = (
        fitted(noisy(), ConditionalGradient(normalize_columns=n)).coefficients() for n in (False, True)
    )
    np.testing.assert_allclose(normalised, plain, rtol=1e-9)


def test_units_do_not_matter():
    unit = np.array([1e-3, 1.0, 1e4])
    plain = fitted(noisy(), ConditionalGradient())
    changed = fitted(noisy() * unit, ConditionalGradient())
    assert terms(changed) == terms(plain)


def test_the_standard_errors_cover_the_truth(data):
    design, target, truth = data
    model = ConditionalGradient().fit(design, target)
    off = np.abs(model.coef_ - truth)[truth != 0] / model.coef_error_[truth != 0]
    assert (off < 4).all()
    assert (model.coef_error_[truth == 0] == 0).all()


def test_several_trajectories_inputs_and_discrete_time():
    rng = np.random.default_rng(0)
    u = [rng.uniform(-1, 1, size=(200, 1)) for _ in range(3)]
    x = [np.zeros((201, 1)) for _ in range(3)]
    for one, given in zip(x, u, strict=True):
        for k in range(200):
            one[k + 1] = 0.8 * one[k] + 0.5 * given[k] - 0.1 * one[k] * given[k]
    model = ps.DiscreteSINDy(optimizer=ConditionalGradient())
    model.fit([a[:-1] for a in x], t=1, x_next=[a[1:] for a in x], u=u, feature_names=["x", "u"])
    assert terms(model) == {("x", "x"), ("x", "u"), ("x", "x u")}
    np.testing.assert_allclose(model.coefficients()[0, [1, 2, 4]], [0.8, 0.5, -0.1], atol=1e-9)


def test_a_weak_library_runs_and_recovers():
    t = np.arange(len(clean())) * STEP
    np.random.seed(0)  # noqa: NPY002 (pysindy draws its subdomains from the global state)
    library = ps.WeakPDELibrary(
        ps.PolynomialLibrary(2, include_bias=False), spatiotemporal_grid=t, K=200, H_xt=[0.1]
    )
    model = ps.SINDy(optimizer=ConditionalGradient(), feature_library=library)
    assert terms(model.fit(noisy(), t=t, feature_names=NAMES)) == TRUTH


# --- constraints


def inequality(order):
    """x' : coef of x + coef of y ≤ −1;  y' : coef of x ≤ 27. The truth breaks both."""
    table = np.zeros((2, 3, 10))
    table[0, 0, [1, 2]] = 1.0
    table[1, 1, 1] = 1.0
    lhs = table.reshape(2, -1) if order == "target" else table.transpose(0, 2, 1).reshape(2, -1)
    return {"constraint_lhs": lhs, "constraint_rhs": np.array([-1.0, 27.0]), "constraint_order": order}


@pytest.mark.parametrize("normalise", [False, True])
@pytest.mark.parametrize("order", ["target", "feature"])
@pytest.mark.parametrize("kind", ["inequality_constraints", "equality_constraints"])
def test_equalities_and_inequalities_that_bind_hold_exactly(normalise, order, kind):
    optimizer = ConditionalGradient(**inequality(order), normalize_columns=normalise, **{kind: True})
    coef = fitted(noisy(), optimizer).coefficients()
    assert coef[0, 1] + coef[0, 2] == pytest.approx(-1.0, abs=1e-9)
    assert coef[1, 1] == pytest.approx(27.0, abs=1e-9)
    assert optimizer.violation_ <= 1e-9
    assert np.count_nonzero(coef) < 12


def test_inequalities_come_first_and_equalities_after_the_index(data):
    design, target, _ = data
    optimizer = ConditionalGradient(
        constraint_lhs=np.eye(10)[[0, 6]],  # target 0: feature 0 at most 1; target 1: feature 1 is 0.4
        constraint_rhs=[1.0, 0.4],
        inequality_constraints=True,
        equality_constraints=True,
        constraint_separation_index=1,
    ).fit(design, target)
    assert optimizer.coef_[0, 0] == pytest.approx(1.0, abs=1e-9)
    assert optimizer.coef_[1, 1] == pytest.approx(0.4, abs=1e-9)
    assert "coef_[0, 0] ≤ 1" in optimizer.constraints_[0]
    assert "coef_[1, 1] = 0.4" in optimizer.constraints_[1]


def test_an_inequality_that_does_not_bind_changes_nothing(data):
    design, target, _ = data
    free = ConditionalGradient().fit(design, target)
    held = ConditionalGradient(
        constraint_lhs=np.eye(10)[:1], constraint_rhs=[3.0], inequality_constraints=True
    ).fit(design, target)
    np.testing.assert_allclose(held.coef_, free.coef_, rtol=1e-9)


@pytest.mark.parametrize("level", [0.01, 5.0])
def test_a_bound_away_from_zero_keeps_its_term(data, level):
    design, target, _ = data
    held = ConditionalGradient(
        constraint_lhs=-np.eye(10)[4:5], constraint_rhs=[-level], inequality_constraints=True
    ).fit(design, target)
    assert held.coef_[0, 4] == pytest.approx(level, abs=1e-9)


def test_redundant_and_sparse_rows_are_fine(data):
    from scipy.sparse import csr_array

    design, target, _ = data
    row = np.eye(10)[[0, 0, 0]]
    held = ConditionalGradient(
        constraint_lhs=csr_array(row), constraint_rhs=[1.5, 1.5, 1.5], equality_constraints=True
    ).fit(design, target)
    assert held.coef_[0, 0] == pytest.approx(1.5, abs=1e-9)


@pytest.mark.parametrize("kind", ["equality_constraints", "inequality_constraints"])
def test_infeasible_constraints_say_which(data, kind):
    design, target, _ = data
    lhs = np.vstack([np.eye(10)[0], -np.eye(10)[0], np.eye(10)[1]])
    optimizer = ConditionalGradient(constraint_lhs=lhs, constraint_rhs=[1.0, -2.0, 5.0], **{kind: True})
    with pytest.raises(
        cindy.InfeasibleError, match=r'exclude each other: "row 0: \+1 coef_\[0, 0\]'
    ) as caught:
        optimizer.fit(design, target)
    assert "row 1" in str(caught.value)
    assert "row 2" not in str(caught.value)
    assert isinstance(caught.value, ValueError)


@pytest.mark.parametrize(
    ("settings", "said"),
    [
        ({"unbias": True, "constraint_lhs": np.eye(4), "constraint_rhs": np.ones(4)}, "unbias"),
        ({"constraint_lhs": np.eye(4)}, "go together"),
        ({"inequality_constraints": True}, "need `constraint_lhs`"),
        ({"constraint_lhs": np.eye(4), "constraint_rhs": np.ones(4), "constraint_order": "row"}, "order"),
        (
            {
                "constraint_lhs": np.eye(4),
                "constraint_rhs": np.ones(4),
                "equality_constraints": True,
                "inequality_constraints": True,
            },
            "constraint_separation_index",
        ),
        ({"max_iter": 0}, "max_iter"),
        ({"tol": -1.0}, "tol"),
        ({"selection": 0.1}, "selection"),
        ({"blocks": 0}, "blocks"),
        ({"radius": 0.0}, "radius"),
    ],
)
def test_settings_that_make_no_sense_are_refused_when_made(settings, said):
    with pytest.raises(ValueError, match=said):
        ConditionalGradient(**settings)


def test_settings_changed_later_are_checked_when_fitting(data):
    optimizer = ConditionalGradient().set_params(constraint_lhs=np.eye(10), constraint_rhs=np.ones(10))
    with pytest.raises(cindy.ConstraintError, match="unbias"):
        optimizer.set_params(unbias=True).fit(*data[:2])


@pytest.mark.parametrize(
    ("lhs", "rhs", "said"), [(np.eye(4), np.ones(4), "= 10 coefficients"), (np.eye(10), [1.0], "10 rows")]
)
def test_matrices_of_the_wrong_shape_are_refused(data, lhs, rhs, said):
    optimizer = ConditionalGradient(constraint_lhs=lhs, constraint_rhs=rhs, equality_constraints=True)
    with pytest.raises(cindy.CindyError, match=said):
        optimizer.fit(*data[:2])


def test_constraints_that_are_not_called_either_are_equalities_with_a_warning(data):
    optimizer = ConditionalGradient(constraint_lhs=np.eye(10)[:1], constraint_rhs=[1.0])
    with pytest.warns(UserWarning, match="equalities"):
        optimizer.fit(*data[:2])
    assert optimizer.coef_[0, 0] == pytest.approx(1.0, abs=1e-9)


# --- ensembles


def test_an_ensemble_of_samples_has_the_right_terms():
    np.random.seed(0)  # noqa: NPY002 (pysindy draws from the global state)
    ensemble = ps.EnsembleOptimizer(ConditionalGradient(), bagging=True, n_models=5)
    assert terms(fitted(noisy(), ensemble)) == TRUTH


def test_an_ensemble_of_libraries_runs():
    np.random.seed(0)  # noqa: NPY002
    ensemble = ps.EnsembleOptimizer(ConditionalGradient(), library_ensemble=True, n_models=5)
    assert len(fitted(noisy(), ensemble).optimizer.coef_list) == 5


def test_the_mean_of_an_ensemble_keeps_the_constraints():
    np.random.seed(0)  # noqa: NPY002
    inner = ConditionalGradient(**inequality("target"), equality_constraints=True)
    ensemble = ps.EnsembleOptimizer(
        inner, bagging=True, n_models=4, ensemble_aggregator=lambda c: np.mean(c, axis=0)
    )
    coef = fitted(noisy(), ensemble).coefficients()
    assert coef[0, 1] + coef[0, 2] == pytest.approx(-1.0, abs=1e-9)


def test_an_ensemble_that_drops_terms_cannot_have_constraints():
    inner = ConditionalGradient(**inequality("target"), equality_constraints=True)
    with pytest.raises(cindy.ConstraintError, match="leaves out library terms"):
        fitted(noisy(), ps.EnsembleOptimizer(inner, library_ensemble=True, n_models=2))


# --- manners


def test_nothing_is_fitted_at_first(data):
    with pytest.raises(NotFittedError):
        ConditionalGradient().predict(data[0])
    with pytest.raises(NotFittedError):
        _ = ConditionalGradient().complexity


@pytest.mark.parametrize("targets", [1, 2])
def test_shapes_are_those_of_pysindy(data, targets):
    design, target, _ = data
    y = target[:, 0] if targets == 1 else target
    model = ConditionalGradient().fit(design, y)
    check_is_fitted(model)
    assert model.coef_.shape == model.coef_error_.shape == (targets, 5)
    assert model.complexity == 2 * targets
    assert model.predict(design).shape == (300, targets)
    assert np.shape(model.history_) == (3, targets, 5)


def test_a_run_cut_short_warns_as_scikit_learn_and_as_we_do(data):
    for kind in (ConvergenceWarning, cindy.ConvergenceWarning):
        with pytest.warns(kind, match="iteration limit"):
            ConditionalGradient(max_iter=1).fit(*data[:2])
    optimizer = ConditionalGradient()
    optimizer.max_iter = 0
    with pytest.warns(ConvergenceWarning, match="after 0 iterations"):
        optimizer.fit(*data[:2])


def test_verbose_shows_the_steps_and_quiet_shows_none(data, capsys):
    ConditionalGradient().fit(*data[:2])
    assert not capsys.readouterr().out
    ConditionalGradient(verbose=True).fit(*data[:2])
    assert "Iteration" in capsys.readouterr().out


def test_wrapped_it_serves_targets_one_by_one(data):
    design, target, truth = data
    wrapped = ps.WrappedOptimizer(ConditionalGradient(), unbias=False).fit(design, target)
    np.testing.assert_array_equal(wrapped.coef_ != 0, truth != 0)


def test_the_gap_bounds_what_any_coefficients_gain(data):
    design, target, _ = data
    model = ConditionalGradient(normalize_columns=True).fit(design, target)
    size = np.sqrt(np.mean(target**2, axis=0))
    best = LinearRegression(fit_intercept=False).fit(design, target)
    loss, least = (np.sum(((m.predict(design) - target) / size) ** 2) for m in (model, best))
    assert (loss - least) / np.sum((target / size) ** 2) <= model.gap_


def test_a_weight_of_zero_leaves_a_sample_out(data):
    design, target, _ = data
    weight = np.ones(300)
    weight[::2] = 0.0
    weighted = ConditionalGradient().fit(design, target, sample_weight=weight)
    np.testing.assert_allclose(
        weighted.coef_, ConditionalGradient().fit(design[1::2], target[1::2]).coef_, rtol=1e-9
    )


def test_weights_move_the_fit_towards_heavy_samples(data):
    design, target, _ = data
    shifted = target + np.where(np.arange(300) < 150, 0.0, 1.0)[:, None] * design[:, :1]
    weight = np.where(np.arange(300) < 150, 1e6, 1.0)
    model = ConditionalGradient(normalize_columns=True).fit(design, shifted, sample_weight=weight)
    assert model.coef_[0, 0] == pytest.approx(2.0, abs=0.01)
    with pytest.raises(cindy.DataError, match="sample_weight"):
        ConditionalGradient().fit(design, target, sample_weight=-weight)


def test_unbiasing_is_least_squares_on_the_terms_that_stay(data):
    design, target, _ = data
    model = ConditionalGradient(cindy.Gap(1e-2), radius=4.0, unbias=True).fit(design, target)
    kept = model.coef_[0] != 0
    least = np.linalg.lstsq(design[:, kept], target[:, 0], rcond=None)[0]
    np.testing.assert_allclose(model.coef_[0, kept], least, rtol=1e-9)


def test_a_target_that_is_zero_or_pure_noise_has_no_terms(data):
    design, target, _ = data
    silent = np.column_stack([target[:, 0], np.zeros(300)])
    np.testing.assert_array_equal(ConditionalGradient().fit(design, silent).coef_[1], 0.0)
    noise = np.random.default_rng(1).normal(size=300)
    with pytest.warns(UserWarning, match="better than chance"):
        assert not ConditionalGradient().fit(design, noise).coef_.any()


def test_a_column_of_zeros_stays_out_or_is_named(data):
    design, target, truth = data
    wider = np.hstack([design, np.zeros((300, 1))])
    model = ConditionalGradient().fit(wider, target)
    np.testing.assert_array_equal(model.coef_ != 0, np.hstack([truth, np.zeros((2, 1))]) != 0)
    with pytest.raises(cindy.DataError, match="feature 5 is zero"):
        ConditionalGradient(normalize_columns=True).fit(wider, target)


def test_fewer_rows_than_features_are_solved_untested_with_a_warning(data):
    design, target, _ = data
    with pytest.warns(UserWarning, match="4 rows"):
        model = ConditionalGradient(tol=1e-9).fit(design[:4], target[:4])
    np.testing.assert_allclose(model.predict(design[:4]), target[:4], atol=0.1)


@pytest.mark.parametrize("rows", [6, 7, 12])
def test_few_rows_are_enough_for_a_model(data, rows):
    design, target, _ = data
    assert ConditionalGradient().fit(design[:rows], target[:rows]).coef_.shape == (2, 5)


@pytest.mark.parametrize("rule", [cindy.Terms(4), cindy.BIC(), cindy.CrossValidation(), cindy.Gap(1e-8)])
def test_every_rule_of_selection_serves(data, rule):
    design, target, truth = data
    model = ConditionalGradient(rule).fit(design, target)
    assert (model.coef_ != 0)[truth != 0].all()
    np.testing.assert_allclose(model.coef_, truth, atol=0.2)


def test_clones_and_pickles_are_equal(data):
    design, target, _ = data
    lhs = np.eye(10)[:1]
    model = ConditionalGradient(
        cindy.BIC(), constraint_lhs=lhs, constraint_rhs=[1.0], equality_constraints=True, max_iter=77
    ).fit(design, target)
    twin = clone(model)
    assert not hasattr(twin, "gap_")
    assert twin.max_iter == 77
    np.testing.assert_array_equal(twin.fit(design, target).coef_, model.coef_)
    again = pickle.loads(pickle.dumps(model))
    np.testing.assert_array_equal(again.coef_, model.coef_)
    assert again.gap_ == model.gap_
    inside = pickle.loads(pickle.dumps(fitted(noisy(), ConditionalGradient())))
    assert terms(inside) == TRUTH


def test_a_grid_search_over_the_optimizer_itself_picks_a_setting(data):
    design, target, _ = data
    search = GridSearchCV(ConditionalGradient(), {"selection": [cindy.Terms(1), cindy.Terms(4)]}, cv=3)
    assert search.fit(design, target).best_params_["selection"] == cindy.Terms(4)


def test_a_grid_search_over_a_sindy_model_reaches_the_optimizer():
    search = GridSearchCV(
        ps.SINDy(optimizer=ConditionalGradient(), differentiation_method=ps.FiniteDifference()),
        {
            "optimizer__selection": [cindy.Terms(1), cindy.Terms(7)],
            "feature_library": [ps.PolynomialLibrary(2)],
        },
        cv=TimeSeriesSplit(3),
        scoring=lambda model, x, y=None: model.score(x, STEP),
    )
    search.fit(noisy(), t=STEP)
    assert search.best_params_["optimizer__selection"] == cindy.Terms(7)
    assert search.best_estimator_.complexity == 7


@pytest.mark.parametrize("value", [-1.0, 3.0])
def test_a_coefficient_is_fixed_though_its_feature_depends_on_others(value):
    t = np.linspace(0, 3, 100)[:, None]
    x = np.hstack([t, -2 * t, 3 * t, t**2])
    y = np.column_stack([x[:, 0] + x[:, 1], x[:, 1] + x[:, 2], x[:, 0] + x[:, 2]])
    lhs = np.zeros((2, 3, 4))
    lhs[0, 1, 1] = lhs[1, 2, 2] = 1.0
    optimizer = ConditionalGradient(
        constraint_lhs=lhs.reshape(2, -1), constraint_rhs=np.full(2, value), equality_constraints=True
    )
    coef = optimizer.fit(x, y).coef_
    assert coef[1, 1] == pytest.approx(value)
    assert coef[2, 2] == pytest.approx(value)


def test_an_initial_guess_is_kept_in_the_history_and_must_fit_the_data():
    x = np.random.default_rng(0).normal(size=(50, 3))
    guess = np.ones((2, 3))
    fitted = ConditionalGradient(initial_guess=guess).fit(x, x[:, :2])
    assert (fitted.history_[0] == guess).all()
    assert fitted.coef_ == pytest.approx(np.eye(3)[:2], abs=1e-9)
    with pytest.raises(ValueError, match="shape"):
        ConditionalGradient(initial_guess=np.ones(3)).fit(x, x[:, :2])
