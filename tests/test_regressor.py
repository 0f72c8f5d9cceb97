"""ConditionalGradientRegressor: what scikit-learn asks of it, and what it promises itself."""

import warnings

import numpy as np
import pytest
from sklearn.base import clone
from sklearn.exceptions import NotFittedError
from sklearn.linear_model import LinearRegression
from sklearn.model_selection import GridSearchCV
from sklearn.utils.estimator_checks import parametrize_with_checks

from cindy.errors import DataError, InfeasibleError
from cindy.sklearn import ConditionalGradientRegressor
from cindy.solver import Blended


@parametrize_with_checks([ConditionalGradientRegressor(), ConditionalGradientRegressor(fit_intercept=True)])
def test_scikit_learn_accepts_it_as_an_estimator(estimator, check):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        check(estimator)


@pytest.fixture
def data():
    rng = np.random.default_rng(0)
    design = rng.normal(size=(80, 6)) * np.array([1, 10, 0.1, 1, 1, 1])
    truth = np.zeros((6, 2))
    truth[[0, 1, 2, 4], [0, 0, 1, 1]] = 2.0, -0.3, 5.0, 1.0
    return design, design @ truth + 0.01 * rng.normal(size=(80, 2))


def test_without_scaling_it_solves_the_problem_as_written(data):
    design, target = data
    model = ConditionalGradientRegressor(radius=3.0, scale=False).fit(design, target)
    assert np.abs(model.coef_).sum() <= 3.0 + 1e-12
    loss = np.sum((model.predict(design) - target) ** 2)
    assert model.result_.objective == pytest.approx(loss, rel=1e-9)
    gradient = 2 * design.T @ (model.predict(design) - target)
    gap = np.sum(gradient * model.coef_.T) + 3.0 * np.abs(gradient).max()
    assert model.gap_ == pytest.approx(gap, abs=1e-9 * np.sum(target**2))


def test_the_default_radius_does_not_bind(data):
    design, target = data
    model = ConditionalGradientRegressor(tol=1e-13).fit(design, target)
    least = np.linalg.lstsq(design, target, rcond=None)[0]
    np.testing.assert_allclose(model.coef_.T, least, atol=1e-6)


@pytest.mark.parametrize("scale", [True, False])
def test_constraints_hold_in_the_units_of_the_data(data, scale):
    design, target = data
    matrix = np.zeros((3, 12))
    matrix[0, [0, 3]] = 1.0, -1.0  # feature 0, target 0 equals feature 1, target 1
    matrix[1, 9] = 1.0  # feature 4, target 1 is 0.5
    matrix[2, 5] = 1.0  # feature 2, target 1 is at most 4
    lower, upper = np.array([0, 0.5, -np.inf]), np.array([0, 0.5, 4.0])
    model = ConditionalGradientRegressor(matrix=matrix, lower=lower, upper=upper, scale=scale).fit(
        design, target
    )
    values = matrix @ model.coef_.T.ravel()
    assert (values >= lower - 1e-10).all()
    assert (values <= upper + 1e-10).all()
    assert values[2] == pytest.approx(4.0)


def test_an_intercept_is_that_of_least_squares_on_centred_data(data):
    design, target = data
    ours = ConditionalGradientRegressor(fit_intercept=True, tol=1e-13).fit(design + 3.0, target + 1.0)
    theirs = LinearRegression().fit(design + 3.0, target + 1.0)
    np.testing.assert_allclose(ours.intercept_, theirs.intercept_, atol=1e-6)


def test_a_weight_of_two_is_a_row_twice(data):
    design, target = data
    weight = np.ones(80)
    weight[:10] = 2.0
    weighted = ConditionalGradientRegressor(radius=1.0).fit(design, target, sample_weight=weight)
    twice = ConditionalGradientRegressor(radius=1.0).fit(
        np.vstack([design, design[:10]]), np.vstack([target, target[:10]])
    )
    np.testing.assert_allclose(weighted.coef_, twice.coef_, atol=1e-9)


def test_units_of_the_features_do_not_matter_under_scaling(data):
    design, target = data
    unit = np.array([1e6, 1e-6, 1, 1e3, 1e-3, 10])
    plain = ConditionalGradientRegressor(radius=0.8).fit(design, target)
    changed = ConditionalGradientRegressor(radius=0.8).fit(design * unit, target)
    np.testing.assert_allclose(changed.coef_ * unit, plain.coef_, atol=1e-9)


def test_a_grid_search_finds_a_radius_and_parameters_survive_cloning(data):
    design, target = data
    search = GridSearchCV(ConditionalGradientRegressor(correction=Blended()), {"radius": [0.01, 2.0]})
    assert search.fit(design, target).best_params_ == {"radius": 2.0}
    assert clone(search.best_estimator_).get_params()["radius"] == 2.0


def test_impossible_rows_say_so(data):
    design, target = data
    row = np.eye(12)[:1]
    with pytest.raises(InfeasibleError, match="smallest feasible radius is 5"):
        ConditionalGradientRegressor(radius=1.0, scale=False, matrix=row, lower=5, upper=5).fit(
            design, target
        )
    with pytest.raises(DataError, match="12 columns"):
        ConditionalGradientRegressor(matrix=row[:, :4], lower=0).fit(design, target)


def test_predicting_before_fitting_raises(data):
    with pytest.raises(NotFittedError):
        ConditionalGradientRegressor().predict(data[0])
