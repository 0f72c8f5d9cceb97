"""Motion that is driven by noise: drift, kicks and measurement noise told apart by the whole likelihood."""

from dataclasses import replace

import numpy as np
import pytest

from cindy import DataError, Integral, Model, NoModelError, Polynomial, Trajectory, identify, load
from cindy.model.simulation import Limits
from cindy.model.stochastic import RandomPath
from cindy.states import Diffusion, Fitted
from cindy.states.likelihood import _log_volume


def kicked(drift, kicks, start, *, step, samples, seed, noise=0.0, states=None, parts=5):
    """A path of dx = drift dt + kicks dW by Heun's scheme, measured with noise relative to its spread."""
    rng = np.random.default_rng(seed)
    x, h = np.array(start, dtype=float), step / parts
    path = np.empty((samples, len(x)))
    for k in range(samples):
        path[k] = x
        for i in range(parts):
            size = kicks(x) if callable(kicks) else np.array(kicks)
            kick = size * np.sqrt(h) * rng.normal(size=len(x))
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
    assert model.diffusion.additive
    assert abs(model.diffusion.coef[0, 0] - 1.0) < 3.0 * model.diffusion.coef_error[0, 0]
    assert [one.code for one in model.findings] == ["random-forcing"]


@pytest.mark.parametrize("noise", [0.0, 0.05])
def test_a_diffusion_that_depends_on_the_state_is_found_with_its_terms(noise, tmp_path):
    data = kicked(
        lambda t, x: -x, lambda x: np.sqrt(0.5 + 0.5 * x**2), [0.0], step=0.05, samples=5000, seed=1,
        noise=noise, parts=20,
    )  # fmt: skip
    model = identify(data, Polynomial(3))
    assert (model.coef[:, 0] != 0).tolist() == [False, True, False, False]
    assert abs(model.coef[1, 0] + 1.0) < 2.5 * model.coef_error[1, 0]
    assert (model.diffusion.coef[:, 0] != 0).tolist() == [True, False, True]
    off = (model.diffusion.coef - [[0.5], [0.0], [0.5]])[[0, 2]] / model.diffusion.coef_error[[0, 2]]
    assert np.all(np.abs(off) < 3.0)
    model.save(tmp_path / "model.json")
    again = load(tmp_path / "model.json")
    assert np.array_equal(again.diffusion.coef, model.diffusion.coef)
    assert str(again) == str(model)
    assert "√(" in str(model)


def test_kicks_that_come_together_are_told():
    rng = np.random.default_rng(4)
    h, x, path = 0.05, np.zeros(2), []
    for _ in range(2000):
        path.append(x)
        own, shared = rng.normal(size=2), rng.normal()
        x = x * np.exp(-h * np.array([1.0, 2.0])) + np.sqrt(h) * (np.sqrt(0.3) * shared + np.sqrt(0.7) * own)
    model = identify(Trajectory(h * np.arange(2000), np.array(path), ("x", "y")), Polynomial(1))
    [told] = [one for one in model.findings if one.code == "correlated-kicks"]
    assert told.values["correlation"] == pytest.approx(0.3, abs=0.07)


def stochastic(coef, diffusion):
    """x' = coef x with kicks of variance diffusion · (1, x, x²)."""
    noise = Diffusion(("1", "x", "x^2"), np.array(diffusion)[:, None], np.zeros((3, 1)), ("x",))
    return Model(np.array([[0.0], [coef]]), Polynomial(1), ("x",), diffusion=noise)


def test_paths_with_kicks_have_the_moments_of_the_process_and_depend_on_the_seed_alone():
    model = stochastic(-1.0, [2.0, 0.0, 0.0])
    t = np.arange(0.0, 400.0, 0.1)
    path = model.simulate([0.0], t, noise=True, seed=1)
    assert np.array_equal(path.x, model.simulate([0.0], t, noise=True, seed=1).x)
    assert not np.array_equal(path.x, model.simulate([0.0], t, noise=True, seed=2).x)
    # Stationary variance q / 2, known to √(2 / 400) of it; correlation exp(−t).
    assert path.x.var() == pytest.approx(1.0, abs=0.25)
    x = path.x[:, 0]
    assert np.corrcoef(x[:-1], x[1:])[0, 1] == pytest.approx(np.exp(-0.1), abs=0.02)


def test_paths_are_of_strong_order_one_where_noise_depends_on_its_own_state():
    drift, size = -0.1, 0.6
    rhs = stochastic(drift, [0.0, 0.0, size**2])

    class Increments:
        """The same Brownian path, added up over fewer and longer steps."""

        def __init__(self, fine, every):
            self.sums = iter(fine.reshape(-1, every).sum(axis=1))
            self.scale = np.sqrt(every)

        def standard_normal(self, count):
            return np.array([next(self.sums) / self.scale])

    errors = []
    for every in (16, 4):
        off = []
        for seed in range(200):
            fine = np.random.default_rng(seed).normal(size=256)
            path = RandomPath(rhs.diffusion, Increments(fine, every))
            t = np.linspace(0.0, 1.0, 256 // every // 4 + 1)
            # Four steps between two samples, the least there are.
            rows, _ = path(lambda s, x: drift * x, np.ones(1), t, ("x",), scale=np.ones(1), limits=Limits())
            exact = np.exp(drift - size**2 / 2 + size * fine.sum() / 16)
            off.append(abs(rows[-1, 0] - exact))
        errors.append(np.mean(off))
    # Four times shorter steps: order one gives 4, Euler's one half gives 2.
    assert errors[0] / errors[1] > 3.0


def test_equations_with_kicks_are_written_as_differentials():
    model = stochastic(-1.0, [0.25, 0.0, 0.5])
    assert str(model) == "dx = -1 x dt + √(0.25 + 0.5 x^2) dW"
    assert (
        r"\mathrm{d}x &= -1\, x\,\mathrm{d}t + \sqrt{0.25 + 0.5\, x^{2}}\,\mathrm{d}W_{x}" in model.to_latex()
    )
    assert str(stochastic(-1.0, [0.25, 0.0, 0.0])) == "dx = -1 x dt + 0.5 dW"


def test_a_model_without_kicks_refuses_to_draw_them():
    model = Model(np.array([[0.0], [-1.0]]), Polynomial(1), ("x",))
    with pytest.raises(DataError, match="has none"):
        model.simulate([1.0], [0.0, 1.0], noise=True)


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
    with pytest.raises(NoModelError, match=r"random kicks alone, of variance .* \(x\), .* \(y\)"):
        identify(walk, Polynomial(3))
