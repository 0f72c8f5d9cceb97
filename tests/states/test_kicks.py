"""Motion that is driven by noise: drift, kicks and measurement noise told apart by the whole likelihood."""

from dataclasses import replace

import numpy as np
import pytest

from cindy import Integral, NoModelError, Polynomial, Trajectory, identify
from cindy.states import Fitted
from cindy.states.likelihood import _log_volume


def kicked(drift, kicks, start, *, step, samples, seed, noise=0.0, states=None, parts=5):
    """A path of dx = drift dt + kicks dW by Heun's scheme, measured with noise relative to its spread."""
    rng = np.random.default_rng(seed)
    x, h = np.array(start, dtype=float), step / parts
    path = np.empty((samples, len(x)))
    for k in range(samples):
        path[k] = x
        for i in range(parts):
            kick = np.array(kicks) * np.sqrt(h) * rng.normal(size=len(x))
            t = k * step + i * h
            slope = drift(t, x)
            x = x + h * (slope + drift(t + h, x + h * slope + kick)) / 2 + kick
    path += noise * path.std(axis=0) * rng.normal(size=path.shape)
    return Trajectory(step * np.arange(samples), path, states or ("x", "y")[: len(x)])


def test_the_gradient_of_the_determinants_is_that_of_finite_differences():
    rng = np.random.default_rng(0)
    runs = [1.0 + rng.normal(size=(n, 2)).cumsum(axis=0) / 20 for n in (40, 40, 25)]
    runs[1][5, 0] = runs[2][7] = np.nan
    motion = Integral().motion(
        [Trajectory(np.arange(len(x)) / 10, x) for x in runs], Polynomial(2), instants=1
    )
    law = motion.law(np.array([2, 5, 8, 9, 11]))
    coef = np.array([1.0, -1.0, -1.0, 1.0, 0.3])
    fitted = Fitted(
        law, tuple(r.y for r in motion.records), coef, np.array([0.02, 0.001]), np.array([0.3, 0.1])
    )

    def determinants(coef):
        whole = motion.whitened(replace(fitted, coef=coef))
        return sum(white.log_det - 2.0 * _log_volume(white.linear) for white in whole)

    small = 1e-5
    slopes = [(determinants(coef + e) - determinants(coef - e)) / (2 * small) for e in small * np.eye(5)]
    np.testing.assert_allclose(motion.determinants(fitted, law), slopes, rtol=1e-6)


@pytest.mark.parametrize("noise", [0.0, 0.1])
def test_an_ornstein_uhlenbeck_process_gives_its_drift_and_its_kicks(noise):
    data = kicked(lambda t, x: -x, [1.0], [0.0], step=0.05, samples=4000, seed=1, noise=noise)
    model = identify(data, Polynomial(3))
    assert [str(t) for t in np.array(model.terms)[model.coef[:, 0] != 0]] == ["x"]
    value, error = model.coef[1, 0], model.coef_error[1, 0]
    assert error == pytest.approx(np.sqrt(2 / 200), rel=0.2)
    assert abs(value + 1.0) < 2.5 * error
    assert model.model_error[0] == pytest.approx(1.0, rel=0.05)


def test_a_kicked_heater_gives_its_drift_and_the_gain_of_its_input():
    def switched(t):
        return np.sign(np.sin(0.7 * t))

    run = kicked(lambda t, x: -0.5 * x + switched(t), [0.3], [0.0], step=0.05, samples=4000, seed=2)
    data = Trajectory(run.t, run.x, ("T",), u=switched(run.t)[:, None], inputs=("u",))
    model = identify(data, Polynomial(1))
    names = np.array(model.terms)[model.coef[:, 0] != 0].tolist()
    assert names == ["T", "u"]
    off = (model.coef[:, 0] - [0.0, -0.5, 1.0])[1:] / model.coef_error[1:, 0]
    assert np.all(np.abs(off) < 2.5)


def test_kicks_in_one_equation_leave_the_other_exact():
    def van_der_pol(t, x):
        return np.array([x[1], 2 * (1 - x[0] ** 2) * x[1] - x[0]])

    data = kicked(van_der_pol, [0.0, 0.5], [1.0, 0.0], step=0.02, samples=4000, seed=0, noise=0.02, parts=10)
    model = identify(data, Polynomial(3))
    truth = np.zeros(model.coef.shape)
    for term, state, value in [("y", 0, 1), ("y", 1, 2), ("x", 1, -1), ("x^2 y", 1, -2)]:
        truth[model.terms.index(term), state] = value
    assert np.array_equal(model.coef != 0, truth != 0)
    known = truth != 0
    assert np.all(np.abs(model.coef - truth)[known] < 3.0 * model.coef_error[known])
    assert model.model_error[1] == pytest.approx(0.5, rel=0.1)
    assert model.model_error[0] < 0.05


@pytest.mark.parametrize("noise", [0.0, 0.05])
def test_a_random_walk_is_refused(noise):
    walk = kicked(lambda t, x: 0.0 * x, [1.0, 0.5], [0.0, 0.0], step=0.05, samples=1500, seed=3, noise=noise)
    with pytest.raises(NoModelError):
        identify(walk, Polynomial(3))
