"""What samples resolve: terms that only noise tells apart, and fast motion where samples are dense."""

from dataclasses import replace

import numpy as np
import pytest
from scipy.linalg import expm

import cindy
from cindy import systems
from cindy.least_squares import Rows
from cindy.search.loop import Search
from cindy.search.request import Options
from cindy.states import NEARBY, blurred_terms, grid_of, start_of, states_under


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
    assert any("Models without x v in x′" in said for said in model.warnings)
    # At its price as a product of two factors the term is not there.
    assert cindy.identify(orbit(1_000, 44), cindy.Polynomial(3)).support.sum() == 2


OFTEN_AT_FIRST = np.array([5, 10, 15, 20, 30, 45, 60, 75, 90, 120, 150, 180, 240, 300, 360]) - 5.0
RARELY_IN_THE_END = np.array([0.08, 0.17, 0.25, 0.5, 0.75, 1, 1.5, 2, 3, 4, 6, 8, 12, 16, 24])


def two_compartments(t, seed, *, out, there, back, noise=0.02):
    """A drug that leaves the blood c and is exchanged with a tissue p; six subjects, one dose each."""
    rng, flow = np.random.default_rng([seed, 11]), np.array([[-out - there, back], [there, -back]])
    runs = []
    for dose in rng.uniform(60, 140, 6):
        x = np.array([expm(flow * time) @ [dose, 0.0] for time in t])
        runs.append(cindy.Trajectory(t, x + noise * x.std(axis=0) * rng.standard_normal(x.shape), ("c", "p")))
    return runs


@pytest.mark.parametrize("seed", range(3))
@pytest.mark.parametrize(
    ("t", "rates"),
    [
        (OFTEN_AT_FIRST, {"out": 0.03, "there": 0.04, "back": 0.012}),
        (RARELY_IN_THE_END, {"out": 0.3, "there": 0.9, "back": 0.35}),
    ],
)
def test_samples_that_are_dense_only_while_a_decay_is_fast_resolve_it(t, rates, seed):
    data = two_compartments(t, seed, **rates)
    model = cindy.identify(data, "poly:2")
    assert {(model.terms[i], model.states[j]) for i, j in zip(*np.nonzero(model.coef), strict=True)} == {
        ("c", "c"),
        ("p", "c"),
        ("c", "p"),
        ("p", "p"),
    }
    blood = [cindy.Trajectory(run.t, run.x[:, 0], ("c",)) for run in data]
    model = cindy.identify(blood, "poly:1:nobias", hidden="w")
    # With c' = w the tissue is a part of w, whose equation has the sum and the product of the two rates.
    assert model.coef[:, 1].tolist() == pytest.approx(
        [-rates["out"] * rates["back"], -sum(rates.values())], rel=0.25
    )


def test_the_last_of_growing_steps_is_integrated_through_the_nearest_samples():
    grid = grid_of(RARELY_IN_THE_END)
    # The fast part of this motion is over long before the last step begins.
    x = np.exp(-1.4 * grid.t) + np.exp(-0.08 * grid.t)
    slope = -1.4 * np.exp(-1.4 * grid.t) - 0.08 * np.exp(-0.08 * grid.t)
    missed = grid.differences(x[None, :, None]) - grid.integrals(slope[None, :, None])
    assert np.abs(missed[0, -1, 0]) < 0.02


def test_slow_motion_at_random_times_is_integrated_through_all_samples_around():
    grid = grid_of(np.cumsum(np.random.default_rng(0).exponential(1, 40)))
    x = np.exp(-3 * grid.t / grid.t[-1])
    missed = grid.differences(x[None, :, None]) - grid.integrals(-3 / grid.t[-1] * x[None, :, None])
    assert np.abs(missed).max() < 1e-6


def test_noise_with_a_memory_names_the_missing_state_as_another_explanation():
    data = two_compartments(OFTEN_AT_FIRST, 0, out=0.03, there=0.04, back=0.012)
    blood = [cindy.Trajectory(run.t, run.x[:, 0], ("c",)) for run in data]
    model = cindy.identify(blood, "poly:1:nobias")
    [told] = [finding.message for finding in model.findings if finding.code == "noise-memory"]
    assert told.count("a term or a state is missing: offer other terms") == 1


@pytest.mark.parametrize(("samples", "known"), [(6, False), (9, True)])
def test_runs_of_fewer_than_eight_samples_do_not_tell_what_noise_allows(samples, known):
    rng, t = np.random.default_rng(0), np.linspace(0.0, 8.0, samples)
    runs = [
        cindy.Trajectory(t, 1 / (1 + (1 / x0 - 1) * np.exp(-t)) + 0.02 * rng.standard_normal(samples), ("x",))
        for x0 in np.linspace(0.05, 0.4, 8)
    ]
    summary = cindy.identify(runs, "poly:2:nobias").summary()
    assert ("where noise allows" in summary) == known
