"""Models drawn from what is known of them, and identification that says how far it is."""

from dataclasses import replace

import numpy as np
import pytest

import cindy
from cindy.model import Model, Path
from cindy.systems import lotka_volterra

DATA = lotka_volterra().simulate(seed=3, noise=0.05)


@pytest.fixture(scope="module")
def fitted():
    return cindy.identify(DATA, "poly:2")


def test_draws_have_the_mean_and_the_covariance_of_the_estimate(fitted):
    model = replace(fitted, near=Path())
    draws = [drawn.coef for drawn in model.sample(2500)]
    drawn = np.array([coef[model.support] for coef in draws])
    flat = np.array([coef.ravel()[np.flatnonzero(model.coef)] for coef in draws])
    error = model.coef_error[model.support]
    np.testing.assert_allclose(drawn.mean(axis=0), model.coef[model.support], atol=5 * error.max() / 50)
    expected = np.sqrt(np.diagonal(model.covariance))
    np.testing.assert_allclose(np.cov(flat.T) / np.outer(expected, expected),
                               model.covariance / np.outer(expected, expected), atol=0.08)  # fmt: skip
    assert all(np.array_equal(drawn.support, model.support) for drawn in model.sample(5))


def test_a_seed_gives_the_same_models_and_another_gives_others(fitted):
    first, same, other = fitted.sample(3), fitted.sample(3), fitted.sample(3, seed=1)
    assert all(np.array_equal(a.coef, b.coef) for a, b in zip(first, same, strict=True))
    assert not np.array_equal(first[0].coef, other[0].coef)


def test_near_models_are_drawn_by_their_weight():
    model = Model([[0.0], [-1.0], [0.0]], cindy.Polynomial(2), ("x",), coef_error=[[0], [0.1], [0]])
    other = Model([[0.0], [0.0], [-2.0]], cindy.Polynomial(2), ("x",), coef_error=[[0], [0], [0.2]])
    model = replace(model, near=Path((model, other), (0.0, 2.0), 0))
    drawn = model.sample(2000)
    share = np.mean([one.coef[2, 0] != 0 for one in drawn])
    assert share == pytest.approx(np.exp(-1) / (1 + np.exp(-1)), abs=0.03)
    values = [one.coef[2, 0] for one in drawn if one.coef[2, 0]]
    assert np.std(values) == pytest.approx(0.2, rel=0.1)


def test_draws_obey_the_constraints():
    laws = [cindy.tie(("x", "x y"), ("y", "x y"), ratio=-1.0)]
    try:
        model = cindy.identify(DATA, "poly:2", constraints=laws)
    except cindy.CindyError:
        pytest.skip("these data do not bear that constraint")
    i = model.terms.index("x y")
    for one in model.sample(20):
        assert one.coef[i, 0] == pytest.approx(-one.coef[i, 1], abs=1e-9)


def test_parameters_are_drawn_with_the_coefficients():
    basis = cindy.Custom({"uptake": "S/(K + S)"}, parameters={"K": (0.01, 10)}).at({"K": 0.5})
    known = {"K": cindy.model.Estimate(0.5, 0.1)}
    covariance = [[0.01, 0.0095], [0.0095, 0.01]]
    model = Model([[-1.0]], basis, ("S",), parameters=known, covariance=covariance)
    drawn = model.sample(2000)
    pairs = np.array([[one.coef[0, 0], float(one.parameters["K"])] for one in drawn])
    assert np.corrcoef(pairs.T)[0, 1] == pytest.approx(0.95, abs=0.02)
    one = drawn[0]
    expected = one.coef[0, 0] * 2.0 / (float(one.parameters["K"]) + 2.0)
    assert one.predict([2.0])[0] == pytest.approx(expected)


def test_a_model_without_errors_cannot_be_drawn_from():
    with pytest.raises(cindy.DataError, match="no standard errors"):
        Model([[0.0], [-1.0]], cindy.Polynomial(1), ("x",)).sample(3)


def test_progress_is_told_in_every_stage_with_its_name():
    told = []
    cindy.identify(DATA, "poly:2", progress=lambda done, of, stage: told.append((done, of, stage)))
    stages = [stage for _, _, stage in told]
    assert {"search", "comparison"} <= set(stages)
    assert told[-1] == (1, 1, "comparison")
    searched = [done for done, _, stage in told if stage == "search"]
    assert searched == list(range(1, len(searched) + 1))


def test_a_function_of_two_arguments_is_told_of_the_data_alone():
    told = []
    cindy.identify(DATA, "poly:2", passes=1, progress=lambda done, total: told.append((done, total)))
    assert told[-1][0] == told[-1][1] == sum(map(len, DATA))
