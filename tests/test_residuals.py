"""Residuals: what the data say beyond the equations, at their own times."""

import numpy as np
import pytest

from cindy.basis import Polynomial
from cindy.calculus import onto_samples, without_polynomials
from cindy.data.trajectory import Trajectory
from cindy.errors import DataError
from cindy.formulation import Differential, Discrete, Integral
from cindy.model.comparison import Residual, autocorrelation, residuals
from cindy.model.model import Model
from cindy.model.solution import solutions
from cindy.systems import lorenz, lotka_volterra, spring_masses

FORMS = [
    Integral(window=0),
    Integral(window=37),
    Integral(initial="first"),
    Differential(),
    Integral(window=25, smooth=2),
]


def true_model(system, **more):
    return Model(system.coef, system.basis, system.states, **more)


@pytest.mark.parametrize("count", [1, 2])
def test_the_way_back_to_samples_is_the_inverse_on_what_holds_no_polynomial(count):
    rng = np.random.default_rng(0)
    t = np.sort(rng.uniform(3, 5, 40))
    rows = rng.normal(size=(40 - count, 3))
    values = onto_samples(rows, t, count)
    for power in range(count):
        np.testing.assert_allclose(t**power @ values, 0, atol=1e-12)
    again = without_polynomials(values[None].copy(), t[None], count)
    np.testing.assert_allclose(again, rows, atol=1e-13)


@pytest.mark.parametrize("form", FORMS, ids=repr)
def test_the_truth_leaves_next_to_nothing_of_clean_data(form):
    system = lotka_volterra()
    data = system.simulate(seed=0, trajectories=3, points=900)
    for one in residuals(true_model(system, formulation=form), data):
        assert len(one.t) == len(one.values)
        assert np.abs(one.values).max() < 1e-4


@pytest.mark.parametrize("system", [lotka_volterra(), spring_masses()], ids=lambda s: s.name)
def test_the_residuals_of_the_integral_form_are_the_noise_itself(system):
    data = system.simulate(seed=1, noise=0.003)
    clean = system.simulate(seed=1)
    found = residuals(true_model(system, formulation=Integral(order=system.order)), data)
    noise = np.vstack([a.x - b.x for a, b in zip(data, clean, strict=True)])
    left = np.vstack([one.values for one in found])
    # the noise inside the dictionary, integrated, comes on top
    np.testing.assert_allclose(left.std(axis=0), noise.std(axis=0), rtol=0.15)


def test_residuals_keep_to_the_times_around_gaps_and_know_their_trajectory():
    system = lotka_volterra()
    data = system.simulate(seed=2, trajectories=2, points=400)
    x = np.array(data[1].x)
    x[80:120] = np.nan
    found = residuals(
        true_model(system, formulation=Integral(window=0)), [data[0], Trajectory(data[1].t, x, ("x", "y"))]
    )
    assert [one.trajectory for one in found] == [0, 1, 1]
    np.testing.assert_array_equal(
        np.concatenate([one.t for one in found[1:]]), np.delete(data[1].t, range(80, 120))
    )


def test_a_discrete_residual_belongs_to_the_sample_that_was_foretold():
    model = Model([[0.0], [0.5]], Polynomial(1), ("x",), formulation=Discrete())
    [one] = residuals(model, Trajectory([0.0, 1.0, 2.0, 4.0], [8.0, 4.0, 2.5, 1.0], ("x",)))
    np.testing.assert_array_equal(one.t, [1.0, 2.0])
    np.testing.assert_allclose(one.values[:, 0], [0.0, 0.5])


def test_a_weight_does_not_scale_residuals():
    system = lotka_volterra()
    [data] = system.simulate(seed=0, trajectories=1, points=200, noise=0.01)
    heavy = Trajectory(data.t, data.x, data.states, weight=9.0)
    model = true_model(system)
    np.testing.assert_allclose(residuals(model, heavy)[0].values, residuals(model, data)[0].values)


def test_residuals_refuse_other_states_and_too_little_data():
    model = true_model(lorenz())
    with pytest.raises(DataError, match="the model is about x, y, z"):
        residuals(model, Trajectory(range(9), np.ones((9, 3))))
    with pytest.raises(DataError, match="enough complete samples"):
        residuals(model, Trajectory([0.0], np.ones((1, 3)), ("x", "y", "z")))


def test_white_noise_has_no_autocorrelation_and_a_repeated_value_has():
    rng = np.random.default_rng(0)
    white = [Residual(0, np.arange(500.0), rng.normal(size=(500, 1))) for _ in range(4)]
    slow = [Residual(0, one.t, np.repeat(one.values, 10, axis=0)[:500]) for one in white]
    assert np.abs(autocorrelation(white, 20)[1:]).max() < 0.08
    assert autocorrelation(slow, 5)[1, 0] > 0.85
    assert np.isnan(autocorrelation([Residual(0, np.arange(3.0), np.ones((3, 1)))], 5)[4, 0])


def test_solutions_follow_clean_data_start_afresh_and_end_where_they_blow_up():
    system = lorenz()
    data = system.simulate(seed=0, trajectories=1, points=1000)
    found = list(solutions(true_model(system), data, window=300))
    assert [len(one.measured) for one in found] == [300, 300, 300, 100]
    for one in found:
        assert np.abs(one.measured.x - one.simulated.x).max() < 1e-2
    bad = true_model(system).with_coef({("x", "x^2"): 5.0})
    assert any(len(one.simulated) < len(one.measured) for one in solutions(bad, data))


def test_a_solution_starts_nearer_to_the_truth_than_a_measurement_does():
    system = lotka_volterra()
    data, clean = (system.simulate(seed=3, noise=noise) for noise in (0.02, 0.0))
    started = [one.simulated.x[0] for one in solutions(true_model(system), data)]
    off = [
        np.sqrt(np.mean((np.array(found) - [one.x[0] for one in clean]) ** 2))
        for found in (started, [one.x[0] for one in data])
    ]
    assert off[0] < 0.6 * off[1]


@pytest.mark.parametrize("seed", range(3))
def test_a_solution_of_second_order_starts_at_a_rate_that_takes_it_to_the_end_of_noisy_data(seed):
    system = spring_masses()
    model = true_model(system, formulation=Integral(order=2))
    for one in solutions(model, system.simulate(seed=seed, noise=0.02)):
        assert np.abs(one.measured.x - one.simulated.x).max() < 0.12


def test_a_solution_of_wrong_equations_starts_at_the_data_all_the_same():
    system = lotka_volterra()
    data = system.simulate(seed=0, noise=0.01, trajectories=2, points=400)
    still = true_model(system).with_coef(np.zeros(system.coef.shape))
    for one in solutions(still, data):
        assert np.abs(one.simulated.x[0] - one.measured.x[0]).max() < 0.1
