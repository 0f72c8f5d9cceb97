"""Terms that only noise tells apart, and laws that explain the data almost as well."""

from dataclasses import replace

import numpy as np
import pytest

import cindy
from cindy import systems
from cindy.least_squares import Rows
from cindy.pipeline.loop import Search
from cindy.pipeline.request import Options
from cindy.states import NEARBY, blurred_terms, start_of, states_under


def orbit(samples, seed):
    """x' = v, v' = −4x with 1 % noise: x² + v²/4 is constant."""
    t = 0.02 * np.arange(samples)
    x = np.stack([np.cos(2 * t), -2 * np.sin(2 * t)], axis=1)
    rng = np.random.default_rng([seed, 7])
    return cindy.Trajectory(t, x + 0.01 * x.std(axis=0) * rng.standard_normal(x.shape), ("x", "v"))


@pytest.mark.parametrize("seed", [2, 4])
def test_a_closed_orbit_keeps_its_two_terms_where_cubic_ones_repeat_them(seed):
    model = cindy.identify(orbit(10_000, seed), cindy.Polynomial(3))
    assert [(model.terms[i], model.states[j]) for i, j in zip(*np.nonzero(model.coef), strict=True)] == [
        ("x", "v"),
        ("v", "x"),
    ]


NAMES = cindy.Polynomial(3).names(("x", "v"))
PLAIN = {("v", 0): 1.0, ("x", 1): -4.0}
BLURRED = {**PLAIN, ("v", 0): 2.0, ("x^2 v", 0): -1.0, ("v^3", 0): -0.25}
VARIANCE = np.array([5e-5, 2e-4])


@pytest.fixture(scope="module")
def motion():
    return cindy.Integral().motion([orbit(1_000, 0)], cindy.Polynomial(3))


def start(motion, coefficients):
    support = np.array([2 * NAMES.index(term) + j for term, j in coefficients])
    order = np.argsort(support)
    return start_of(motion, support[order], np.array(list(coefficients.values()))[order], VARIANCE)


def test_the_motion_tells_terms_apart_that_an_orbit_does_not(motion):
    def blurred(coefficients):
        begin = start(motion, coefficients)
        error = motion.errors(1e-4, VARIANCE)
        fitted = states_under(motion, begin.law, begin.coef, VARIANCE, error)
        return {NAMES[k // 2] for k in blurred_terms(motion, fitted)}

    assert blurred(PLAIN) == set()
    assert blurred({**PLAIN, ("x^2", 1): 1e-6}) == set()
    assert blurred(BLURRED) == {"v", "x^2 v", "v^3"}


def test_a_law_that_only_noise_tells_apart_goes_on_without_the_noisiest_term(motion):
    search = Search(motion, Options(Rows.none(2 * len(NAMES)), (), price=12.0))
    met = search.fit(start(motion, BLURRED), NEARBY)
    left = {(NAMES[k // 2], k % 2) for k in search.clearer(met).law.support}
    assert left < set(BLURRED)
    assert ("v^3", 0) not in left
    held = replace(search, options=replace(search.options, faithful=True))
    assert held.clearer(met) is None


def test_the_truth_is_near_where_noise_hides_it():
    lorenz = systems.lorenz()
    exact = lorenz.simulate(1, trajectories=1, points=1000, horizon=9.99)[0]
    noise = 0.3 * exact.x.std() * np.random.default_rng([1, 8]).standard_normal(exact.x.shape)
    model = cindy.identify(cindy.Trajectory(exact.t, exact.x + noise, lorenz.states), lorenz.basis)
    assert any(np.array_equal(one.support, lorenz.coef != 0) for one in model.near.models)


def test_a_term_that_chance_may_have_added_is_told():
    cheap = cindy.Significance(per_factor=0)
    model = cindy.identify(orbit(1_000, 44), cindy.Polynomial(3), selection=cheap)
    assert model.support.sum() == 3
    assert any("Models without x v in the equation of x′" in said for said in model.warnings)
    # At its price as a product of two factors the term is not there.
    assert cindy.identify(orbit(1_000, 44), cindy.Polynomial(3)).support.sum() == 2
