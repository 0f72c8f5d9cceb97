"""Motion that is driven by noise: drift, kicks and measurement noise told apart by the whole likelihood."""

from dataclasses import replace

import numpy as np
import pytest
from scipy.integrate import solve_ivp
from scipy.linalg import block_diag, expm

from cindy import Custom, DataError, Integral, Model, NoModelError, Polynomial, Trajectory, identify, load
from cindy.model import Solution, band, densities
from cindy.model.ensemble import RandomPath, many_paths, paths_apart
from cindy.selection import trying
from cindy.states import Diffusion, Fitted, Forcing, fit_states, start_of, with_unknown_sizes
from cindy.states.determinants import (
    _covariance_places,
    inverse_at_samples,
    inverse_at_steps,
    inverse_blocks,
    sums_at_samples,
)
from cindy.states.likelihood import log_volume


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
        return sum(white.log_det - 2.0 * log_volume(white.linear) for white in whole)

    small = 1e-5
    slopes = [(determinants(coef + e) - determinants(coef - e)) / (2 * small) for e in small * np.eye(5)]
    np.testing.assert_allclose(motion.determinants(fitted, law), slopes, rtol=1e-6)


@pytest.mark.parametrize(("states", "samples"), [(1, 40), (3, 26), (9, 25), (11, 30)])
def test_blocks_of_both_inverses_are_those_of_dense_matrices_for_any_number_of_states(states, samples):
    rng = np.random.default_rng(states)
    runs = [rng.normal(size=(samples, states)).cumsum(axis=0) / 20 for _ in range(2)]
    motion = Integral().motion([Trajectory(0.1, x) for x in runs], Polynomial(1), instants=1)
    law = motion.law(np.arange(states, (states + 1) * states))
    variance, error = rng.uniform(0.001, 0.02, states), rng.uniform(0.1, 0.3, states)
    coef = rng.normal(size=len(law.support)) / np.sqrt(states)
    fitted = Fitted(law, tuple(r.y for r in motion.records), coef, variance, error)
    for white in motion.whitened(fitted):
        linear, grid = white.linear, white.linear.record.grid
        covariance, near = linear.bands(variance, error), white.inverse[0]
        every, noise = np.eye(samples)[None], np.tile(variance, samples)
        difference, integral = (
            np.kron(linear.turned(of(every))[0], np.eye(states)) for of in (grid.differences, grid.integrals)
        )
        for s, jacobian in enumerate(linear.jacobian):
            inverse = np.linalg.inv(dense(covariance[s]))
            blocks = inverse.reshape(grid.rows, states, grid.rows, states)
            k, o = white.inverse[1:]
            exact = blocks[k, :, k + o]
            np.testing.assert_allclose(near[s], exact, atol=1e-9 * np.abs(inverse).max())
            b = difference - integral @ block_diag(*jacobian)
            change = -noise[:, None] * (b.T @ inverse @ integral)
            change[states:] += np.linalg.solve(b[:, states:], integral)
            own = change.reshape(samples, states, samples, states)[range(samples), :, range(samples)]
            np.testing.assert_allclose(white.slopes[s], 2.0 * own, atol=1e-9 * np.abs(own).max())


def test_nine_states_of_kicked_chaos_have_their_coefficients_and_kicks():
    def three_lorenz(t, x):
        x, y, z = x.reshape(3, 3).T
        return np.stack([10 * (y - x), x * (28 - z) - y, x * y - 8 / 3 * z], axis=1).ravel()

    names = tuple(f"{name}{i}" for i in range(3) for name in "xyz")
    start = [1.0, 2.0, 25.0, -3.0, 1.0, 20.0, 5.0, 5.0, 18.0]
    data = kicked(three_lorenz, [2.0] * 9, start, step=0.01, samples=600, seed=7, noise=0.02, states=names)
    motion, terms = Integral().motion([data], Polynomial(2)), Polynomial(2).names(names)
    motion = replace(motion, forcing=Forcing.everywhere(names))
    truth = {}
    for i in range(3):
        x, y, z = names[3 * i : 3 * i + 3]
        for equation, law in enumerate(
            ({x: -10, y: 10}, {x: 28, y: -1, f"{x} {z}": -1}, {z: -8 / 3, f"{x} {y}": 1})
        ):
            truth |= {terms.index(term) * 9 + 3 * i + equation: value for term, value in law.items()}
    support = np.array(sorted(truth))
    exact = np.array([truth[place] for place in support])
    begin = start_of(motion, support, exact, (0.02 * data.x.std(axis=0)) ** 2)
    triangles = []

    def solve(objective, support):
        triangles.append(objective.design)
        return np.linalg.lstsq(objective.design, objective.target[:, 0], rcond=None)[0]

    fitted = fit_states(motion, replace(begin, error=np.full(9, 4.0)), solve)
    assert fitted.alive
    spread = np.sqrt(np.diagonal(np.linalg.inv(triangles[-1].T @ triangles[-1])))
    assert np.sqrt(np.mean(((fitted.coef - exact) / spread) ** 2)) < 1.5
    np.testing.assert_allclose(fitted.error, 4.0, rtol=0.4)


def exact_information(step, samples, noise):
    """(3, 3) of the drift, the diffusion and the noise of x' = −x + kicks, by the exact density."""
    apart = step * np.abs(np.subtract.outer(np.arange(samples), np.arange(samples)))
    like = np.exp(-apart)
    slopes = [like * (1.0 + apart) / 2.0, like / 2.0, np.eye(samples)]
    parts = [np.linalg.solve(like / 2.0 + noise * np.eye(samples), one) for one in slopes]
    return np.array([[0.5 * np.sum(a * b.T) for a in parts] for b in parts])


def test_errors_of_a_drift_are_those_of_the_exact_density():
    for seed in (11, 12):
        data = kicked(lambda t, x: -x, [1.0], [0.0], step=0.05, samples=4000, seed=seed)
        x = data.x[:, 0]
        # x[k+1] = ρ x[k] + noise, ρ = exp(−θ h): least squares of ρ are the maximum of the exact density.
        kept = x[1:] @ x[:-1] / (x[:-1] @ x[:-1])
        left = x[1:] - kept * x[:-1]
        spread = np.sqrt(left @ left / (len(left) - 1) / (x[:-1] @ x[:-1])) / (0.05 * kept)
        model = identify(data, Polynomial(1))
        # Noise is unknown here, and may be taken for some: the drift is uncertain by that much more.
        exact = exact_information(0.05, 400, 0.0) - exact_information(0.05, 200, 0.0)
        more = np.sqrt(np.linalg.inv(exact)[0, 0] * exact[0, 0])
        assert more > 1.05
        assert model.coef_error[1, 0] == pytest.approx(more * spread, rel=0.05)
        assert abs(model.coef[1, 0] - np.log(kept) / 0.05) < 0.6 * spread


@pytest.mark.parametrize("noise", [0.02, 0.001])
def test_errors_of_a_drift_grow_by_as_much_as_unknown_noise_and_kicks_ask_for(noise):
    step, samples = 0.1, 8000
    # Of one sample more, in the middle of many.
    exact = (exact_information(step, 400, noise) - exact_information(step, 200, noise)) / 200
    rng, kept = np.random.default_rng(3), np.exp(-step)
    x = np.zeros(samples)
    for k, kick in enumerate(np.sqrt((1 - kept**2) / 2) * rng.normal(size=samples - 1)):
        x[k + 1] = kept * x[k] + kick
    seen = x + np.sqrt(noise) * rng.normal(size=samples)
    motion = Integral().motion([Trajectory(step, seen[:, None], ("x",))], Polynomial(1))
    motion = replace(motion, forcing=Forcing.everywhere(("x",)))
    truth = np.array([-1.0]), np.array([noise]), np.array([1.0])
    fitted = Fitted(motion.law(np.array([1])), tuple(r.y for r in motion.records), *truth)
    [white] = motion.whitened(fitted)
    # The fitted states, linear as the law is, and their rows.
    residual = motion.table(white, fitted.law)
    back = white.linear.noise_of(white.solved(residual[:, 1] + residual[:, 0]))
    fitted = replace(fitted, x=tuple(r.y - noise * back for r in motion.records))
    [white] = motion.whitened(fitted)
    known = 1.0 / np.sum(motion.table(white, fitted.law)[:, :1] ** 2, axis=0)[:, None]
    assert known[0, 0] == pytest.approx(1.0 / exact[0, 0] / samples, rel=0.1)
    ratio = np.sqrt(np.linalg.inv(exact)[0, 0] * exact[0, 0])
    assert ratio > 1.15
    assert np.sqrt(with_unknown_sizes(motion, fitted, known) / known) == pytest.approx(ratio, abs=0.05)


def test_rows_weighed_by_a_diffusion_that_depends_on_noisy_states_do_not_lean():
    size = lambda x: np.sqrt(0.5 + 0.5 * x**2)  # noqa: E731
    run = kicked(
        lambda t, x: -x,
        size,
        np.zeros(12),
        step=0.05,
        samples=2500,
        seed=5,
        noise=0.2,
        states=tuple("abcdefghijkl"),
    )
    runs = [Trajectory(run.t, one[:, None], ("x",)) for one in run.x.T]
    motion = Integral().motion(runs, Polynomial(1))
    x = run.x / np.sqrt(1.04)
    mean = float(np.mean(0.5 + 0.5 * x**2))
    motion = replace(motion, forcing=Forcing(("x",), np.array([[0.5], [0.0], [0.5]]) / mean, np.eye(1)))
    triangles = []

    def solve(objective, support):
        triangles.append(objective.design)
        return np.linalg.lstsq(objective.design, objective.target[:, 0], rcond=None)[0]

    begin = start_of(motion, np.array([1]), np.array([-1.0]), np.array([0.04 * x.var()]))
    fitted = fit_states(motion, replace(begin, error=np.array([mean])), solve)
    error = 1.0 / np.linalg.norm(triangles[-1])
    # Kicks to the outside enlarge q behind them, and rows there count less: −1.16 where nothing mends it.
    assert abs(fitted.coef[0] + 1.0) < 2.5 * error


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


def test_much_kicked_data_have_the_errors_of_a_fit_to_all_of_them():
    data = [
        kicked(lambda t, x: x - x**3, [0.5], [1.0], step=0.05, samples=400, seed=seed, noise=0.02)
        for seed in range(20)
    ]
    whole = identify(data, Polynomial(3))
    with trying(large_enough=2000, large_fewest=2000):
        confirmed = identify(data, Polynomial(3))
    assert np.flatnonzero(confirmed.coef).tolist() == [1, 3]
    np.testing.assert_allclose(confirmed.coef_error[[1, 3]], whole.coef_error[[1, 3]], rtol=0.1)
    np.testing.assert_allclose(confirmed.coef[[1, 3]], whole.coef[[1, 3]], atol=whole.coef_error[1, 0])


@pytest.mark.parametrize("noise", [0.0, 0.05])
def test_a_diffusion_that_depends_on_the_state_is_found_with_its_terms(noise, tmp_path):
    data = kicked(
        lambda t, x: -x, lambda x: np.sqrt(0.5 + 0.5 * x**2), [0.0], step=0.05, samples=3000, seed=1,
        noise=noise, parts=10,
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


def test_kicks_that_come_together_are_told_and_modelled():
    rng = np.random.default_rng(4)
    h, x, path = 0.05, np.zeros(2), []
    for _ in range(1000):
        path.append(x)
        own, shared = rng.normal(size=2), rng.normal()
        x = x * np.exp(-h * np.array([1.0, 2.0])) + np.sqrt(h) * (np.sqrt(0.6) * shared + np.sqrt(0.4) * own)
    model = identify(Trajectory(h * np.arange(1000), np.array(path), ("x", "y")), Polynomial(1))
    [told] = [one for one in model.findings if one.code == "correlated-kicks"]
    assert told.values["correlation"] == pytest.approx(0.6, abs=0.06)
    assert model.diffusion.correlation[0, 1] == told.values["correlation"]
    # Least squares of increments with the same shared force has these errors; the drift is within them.
    assert (model.coef != 0).tolist() == [[False, False], [True, False], [False, True]]
    assert np.all(np.abs(model.coef[[1, 2], [0, 1]] + [1.0, 2.0]) < 3.0 * model.coef_error[[1, 2], [0, 1]])


def stochastic(coef, diffusion):
    """x' = coef x with kicks of variance diffusion · (1, x, x²)."""
    noise = Diffusion(("1", "x", "x^2"), np.array(diffusion)[:, None], np.zeros((3, 1)), ("x",))
    return Model(np.array([[0.0], [coef]]), Polynomial(1), ("x",), diffusion=noise)


def test_paths_with_kicks_have_the_moments_of_the_process_and_depend_on_the_seed_alone():
    model = stochastic(-1.0, [2.0, 0.0, 0.0])
    t = np.arange(0.0, 400.0, 0.1)
    path = model.simulate([0.0], t, noise=True, seed=1)
    assert np.array_equal(path.x[:50], model.simulate([0.0], t[:50], noise=True, seed=1).x)
    assert not np.array_equal(path.x[:50], model.simulate([0.0], t[:50], noise=True, seed=2).x)
    # Stationary variance q / 2, known to √(2 / 400) of it; correlation exp(−t).
    assert path.x.var() == pytest.approx(1.0, abs=0.25)
    x = path.x[:, 0]
    assert np.corrcoef(x[:-1], x[1:])[0, 1] == pytest.approx(np.exp(-0.1), abs=0.02)


def test_halving_steps_halves_the_error_where_noise_depends_on_its_own_state():
    drift, size = -0.1, 0.6
    noise = stochastic(drift, [0.0, 0.0, size**2]).diffusion
    fine = np.random.default_rng(0).normal(size=(256, 400, 1))

    class Increments:
        """The same Brownian paths, added up over fewer and longer steps."""

        def __init__(self, every):
            self.sums = iter(fine.reshape(-1, every, *fine.shape[1:]).sum(axis=1) / np.sqrt(every))

        def standard_normal(self, shape):
            return next(self.sums)

    exact = np.exp(drift - size**2 / 2 + size * fine.sum(axis=0) / 16)
    errors = []
    for every in (16, 8, 4):
        # Four steps between two samples, the least there are.
        t = np.linspace(0.0, 1.0, 256 // every // 4 + 1)
        path = RandomPath(noise, Increments(every))
        *_, end = path.along(lambda s, x: drift * x, np.ones((400, 1)), t, np.ones(1), 1e6)
        errors.append(np.mean(np.abs(end - exact)))
    # Order one halves the error of geometric Brownian motion; Euler's one half leaves 0.71 of it.
    ratios = np.divide(errors[1:], errors[:-1])
    assert np.all((ratios > 0.4) & (ratios < 0.6))


def test_equations_with_kicks_are_written_as_differentials():
    model = stochastic(-1.0, [0.25, 0.0, 0.5])
    assert str(model) == "dx = -1 x dt + √(0.25 + 0.5 x^2) dW"
    assert (
        r"\mathrm{d}x &= -1\, x\,\mathrm{d}t + \sqrt{0.25 + 0.5\, x^{2}}\,\mathrm{d}W"
        "\n" in model.to_latex()
    )
    assert str(stochastic(-1.0, [0.25, 0.0, 0.0])) == "dx = -1 x dt + 0.5 dW"


def test_a_model_without_kicks_refuses_to_draw_them():
    model = Model(np.array([[0.0], [-1.0]]), Polynomial(1), ("x",))
    with pytest.raises(DataError, match="has none"):
        model.simulate([1.0], [0.0, 1.0], noise=True)


def test_a_kicked_heater_gives_its_drift_and_the_gain_of_its_input():
    def switched(t):
        return np.sign(np.sin(0.7 * t))

    run = kicked(lambda t, x: -0.5 * x + switched(t), [0.3], [0.0], step=0.05, samples=2000, seed=2)
    data = Trajectory(run.t, run.x, ("T",), u=switched(run.t)[:, None], inputs=("u",))
    model = identify(data, Polynomial(1))
    names = np.array(model.terms)[model.coef[:, 0] != 0].tolist()
    assert names == ["T", "u"]
    error = model.coef_error[1:, 0]
    assert np.all(np.abs(model.coef[1:, 0] - [-0.5, 1.0]) < 3.0 * error)
    # Without measurement noise the regression of increments is efficient. It is 2.6 of its errors away from
    # the truth in this draw, and the model must be beside it.
    terms = np.column_stack([run.x[:-1, 0], switched(run.t[:-1])])
    increments = np.linalg.lstsq(terms, np.diff(run.x[:, 0]) / 0.05, rcond=None)[0]
    assert np.all(np.abs(model.coef[1:, 0] - increments) < 0.6 * error)


def test_kicks_in_one_equation_leave_the_other_exact():
    def van_der_pol(t, x):
        return np.array([x[1], 2 * (1 - x[0] ** 2) * x[1] - x[0]])

    data = kicked(van_der_pol, [0.0, 0.5], [1.0, 0.0], step=0.02, samples=2500, seed=0, noise=0.02, parts=5)
    model = identify(data, Polynomial(3))
    truth = np.zeros(model.coef.shape)
    for term, state, value in [("y", 0, 1), ("y", 1, 2), ("x", 1, -1), ("x^2 y", 1, -2)]:
        truth[model.terms.index(term), state] = value
    assert np.array_equal(model.coef != 0, truth != 0)
    known = truth != 0
    assert np.all(np.abs(model.coef - truth)[known] < 3.0 * model.coef_error[known])
    assert model.model_error[1] == pytest.approx(0.5, rel=0.04)
    assert model.model_error[0] < 0.05


def positions(force, kicks, *, noise, step=0.1, samples=1200):
    """x'' = force(t, x, v) with kicks of v, seen by x alone."""
    run = kicked(
        lambda t, x: np.array([x[1], force(t, *x)]), [0.0, kicks], [1.0, 0.0],
        step=step, samples=samples, seed=7, noise=noise, states=("x", "v"),
    )  # fmt: skip
    return Trajectory(run.t, run.x[:, :1], ("x",))


@pytest.mark.parametrize("noise", [0.0, 0.05])
def test_kicks_of_a_rate_are_found_from_positions_alone(noise):
    data = positions(lambda t, x, v: -x - 0.5 * v, 1.0, noise=noise)
    model = identify(data, Polynomial(1), formulation=Integral(order=2, rates=True))
    assert (model.coef[:, 0] != 0).tolist() == [False, True, True]
    assert np.all(np.abs(model.coef[1:, 0] + [1.0, 0.5]) < 3.0 * model.coef_error[1:, 0])
    assert model.diffusion.coef[0, 0] == pytest.approx(1.0, rel=0.25)
    assert model.noise[0] == pytest.approx(noise * data.x.std(), abs=0.02)


def test_kicks_of_a_rate_are_no_smooth_error_of_long_positions_without_noise():
    data = positions(lambda t, x, v: -x - 0.5 * v, 1.0, noise=0.0, step=0.05, samples=4000)
    model = identify(data, Polynomial(2), formulation=Integral(order=2, rates=True))
    assert [model.terms[k] for k in np.flatnonzero(model.coef[:, 0])] == ["x", "x'"]
    assert model.diffusion.coef[0, 0] == pytest.approx(1.0, rel=0.15)


def test_a_term_that_the_basis_lacks_is_named_where_it_looks_like_random_kicks():
    t = np.arange(0.0, 10.0, 0.01)
    path = solve_ivp(
        lambda t, y: [y[1], -20.0 * np.sin(y[0]) - 0.3 * y[1]], (0.0, 10.0), [1.5, 0.0], t_eval=t, rtol=1e-9
    ).y[0]
    seen = path + 0.01 * np.random.default_rng(0).normal(size=len(t))
    form = Integral(order=2, rates=True)
    model = identify(Trajectory(t, seen, ("angle",)), Polynomial(2), formulation=form)
    [finding] = [f for f in model.findings if f.code == "kicks-follow-states"]
    assert finding.values["term"] == "angle^3"
    assert not finding.note
    [note] = [f.message for f in model.findings if f.code == "random-forcing"]
    assert note.startswith("What the law of angle lacks is taken for random kicks. ")
    assert "drive" not in note
    better = identify(Trajectory(t, seen, ("angle",)), Polynomial(3), formulation=form)
    assert better.diffusion is None
    walking = positions(lambda t, x, v: -x - 0.5 * v, 1.0, noise=0.05)
    kicked = identify(walking, Polynomial(2), formulation=form)
    assert [f.code for f in kicked.findings if f.code == "kicks-follow-states"] == []
    assert any(f.message.startswith("Random kicks drive ") for f in kicked.findings)


@pytest.mark.parametrize("seed", [1, 2])
def test_a_kicked_and_damped_oscillator_is_told_from_a_steady_one_by_few_coarse_positions(seed):
    """Eleven samples a period, as yearly sunspots have: Yule, Phil. Trans. R. Soc. A 226, 1927."""
    drift = np.array([[0.0, 1.0], [-0.36, -0.32]])
    step, parts, count = 1.0, 50, 300
    rng, x = np.random.default_rng(seed), np.array([2.0, 0.0])
    path = []
    for k in range(parts * (count + 50)):
        x = x + drift @ x * (step / parts) + np.array([0.0, 1.3 * np.sqrt(step / parts)]) * rng.normal()
        if k % parts == 0:
            path.append(x[0])
    seen = np.array(path[50:]) + 0.05 * rng.normal(size=count)
    form = Integral(order=2, rates=True)
    model = identify(Trajectory(step, seen, ("x",)), Polynomial(1), formulation=form)
    assert [model.terms[k] for k in np.flatnonzero(model.coef[:, 0])] == ["x", "x'"]
    coef, error = model.coef[[1, 2], 0], model.coef_error[[1, 2], 0]
    assert np.all(np.abs(coef - [-0.36, -0.32]) < 3.5 * error)
    assert model.diffusion is not None
    assert model.model_error[0] == pytest.approx(1.3, rel=0.25)


@pytest.mark.parametrize("seed", [1, 6])
def test_kicks_of_changing_size_do_not_seem_to_grow_with_an_unmeasured_rate(seed):
    rng, count, parts = np.random.default_rng(seed), 400, 20
    # The size changes from sample to sample, so the tails are those of Student's t.
    size = np.repeat(1.2 * np.sqrt(4.0 / rng.chisquare(4, count)), parts)
    kicks = size * rng.standard_normal(count * parts) / np.sqrt(parts)
    flow, x, path = expm(np.array([[0.0, 1.0], [-0.32, -0.34]]) / parts), np.zeros(2), []
    for k, kick in enumerate(kicks, 1):
        x = flow @ x + [0.0, kick]
        if k % parts == 0:
            path.append(x[0])
    seen = np.array(path[100:]) + 0.1 * rng.standard_normal(300)
    form = Integral(order=2, rates=True)
    model = identify(Trajectory(1.0, seen, ("x",)), Polynomial(1), formulation=form)
    assert not model.diffusion.coef[["x'" in term for term in model.diffusion.terms]].any()
    paths = many_paths(model, np.zeros((40, 2)), Trajectory(1.0, seen, ("x",)))
    assert np.median(paths[..., 0].std(axis=1)) == pytest.approx(seen.std(), rel=0.4)


def test_what_a_steady_oscillation_leaves_between_coarse_samples_is_no_process():
    """Instants without measurements leave no noise, which must not pass for noise that can be foretold."""
    t = np.arange(300.0)
    seen = 2.0 * np.cos(0.6 * t) + 0.5 * np.random.default_rng(5).normal(size=300)
    form = Integral(order=2, rates=True)
    model = identify(Trajectory(t, seen, ("x",)), Polynomial(1), formulation=form)
    assert model.diffusion is None
    assert [model.terms[k] for k in np.flatnonzero(model.coef[:, 0])] == ["x"]
    assert model.coef[1, 0] == pytest.approx(-0.36, abs=0.004)


def test_a_force_that_was_not_measured_is_no_random_kick():
    data = positions(lambda t, x, v: -x - 0.2 * v + np.cos(0.7 * t) + 0.5 * np.cos(0.31 * t), 0.0, noise=0.02)
    model = identify(data, Polynomial(1), formulation=Integral(order=2, rates=True))
    assert model.diffusion is None


@pytest.mark.parametrize("noise", [0.0, 0.05])
def test_a_random_walk_is_refused(noise):
    walk = kicked(lambda t, x: 0.0 * x, [1.0, 0.5], [0.0, 0.0], step=0.05, samples=1500, seed=3, noise=noise)
    with pytest.raises(NoModelError, match=r"random kicks alone, of variance .* \(x\), .* \(y\)"):
        identify(walk, Polynomial(3))


def oscillator(step, samples, forcing):
    """Rows of x' = y, y' = −x − y/2 with kicks of y: what they leave, by `forcing` and exactly (dense)."""
    jacobian, kicks = np.array([[0.0, 1.0], [-1.0, -0.5]]), np.diag([0.0, 1.0])
    data = Trajectory(step * np.arange(samples), np.ones((samples, 2)), ("x", "y"))
    motion = replace(Integral().motion([data], Polynomial(1), instants=1), forcing=forcing)
    law = motion.law(np.array([3, 4, 5]))
    x = tuple(r.y for r in motion.records)
    fitted = Fitted(law, x, np.array([-1.0, 1.0, -0.5]), np.full(2, 1e-20), np.array([1e-12, 1.0]))
    [white] = motion.whitened(fitted)
    grid = white.linear.record.grid
    # Van Loan: the covariance that kicks add over a step, and the samples by the kicks before them.
    whole = expm(step * np.block([[-jacobian, kicks], [np.zeros((2, 2)), jacobian.T]]))
    flow = whole[2:, 2:].T
    added = flow @ whole[:2, 2:]
    reach = np.zeros((2 * samples, 2 * samples))
    for k in range(1, samples):
        for j in range(1, k + 1):
            reach[2 * k : 2 * k + 2, 2 * j : 2 * j + 2] = np.linalg.matrix_power(flow, k - j)
    every = np.eye(samples)[None]
    rows = np.kron(grid.differences(every)[0], np.eye(2)) - np.kron(grid.integrals(every)[0], jacobian)
    rows = rows @ reach
    return white, rows @ np.kron(np.eye(samples), added) @ rows.T


def dense(band):
    """A symmetric matrix from the lower band of its columns."""
    band = band.reshape(-1, band.shape[-1])
    size, height = band.shape
    matrix = np.zeros((size, size))
    for offset in range(height):
        column = np.arange(size - offset)
        matrix[column + offset, column] = matrix[column, column + offset] = band[column, offset]
    return matrix


@pytest.mark.parametrize("step", [0.1, 0.05])
def test_kicks_reach_the_rows_of_an_oscillator_as_its_exact_density_says(step):
    white, exact = oscillator(step, 24, Forcing.everywhere(("x", "y")))
    own = dense(white.linear.forced.band(np.array([0.0, 1.0]))[0])
    size = np.sqrt(np.diagonal(exact))
    # To first order in the step: half of it, half the difference.
    assert np.max(np.abs(own - exact) / np.outer(size, size)) < 0.06 * step
    spread = np.linalg.eigvals(np.linalg.solve(exact, own)).real
    assert np.all(np.abs(spread - 1.0) < 1.2 * step)


def test_sums_at_samples_multiply_no_zeros_and_serve_noise_and_determinants():
    white, _ = oscillator(0.1, 40, Forcing.everywhere(("x", "y")))
    for pair in _covariance_places(white.linear.grid).products:
        assert all(matrix.data.all() for matrix in pair)
    assert white.slopes.shape == (1, 40, 2, 2)
    assert "sums" in vars(white)


def test_blocks_of_the_inverse_give_the_traces_of_noise_and_kicks():
    forcing = replace(Forcing.everywhere(("x", "y")), correlation=np.array([[1.0, 0.4], [0.4, 1.0]]))
    white, _ = oscillator(0.1, 20, forcing)
    linear, error, variance = white.linear, np.array([0.3, 1.0]), np.array([0.02, 0.01])
    inverse = np.linalg.inv(dense(linear.bands(variance, error)[0]))
    near = inverse_blocks(linear, linear.factors(variance, error))[0]
    sums = sums_at_samples(linear.grid, near)
    noise = np.einsum("smii->i", inverse_at_samples(linear, sums)) * variance
    kicks = np.einsum("skij,skji->i", linear.forced.covariance(error), inverse_at_steps(linear, near))
    small = 1e-5
    for i, only in enumerate(np.eye(2)):
        ends = [dense(linear.bands(variance * (1 + s * only), error)[0]) for s in (small, -small)]
        assert noise[i] == pytest.approx(np.sum(inverse * (ends[0] - ends[1])) / (2 * small), rel=1e-6)
        ends = [dense(linear.bands(variance, error * (1 + s * only))[0]) for s in (small, -small)]
        assert kicks[i] == pytest.approx(np.sum(inverse * (ends[0] - ends[1])) / (2 * small), rel=1e-6)
    z = np.random.default_rng(0).normal(size=linear.target.shape)
    pulled = linear.kicked(linear.weighted(error, linear.kicks_of(z)))
    np.testing.assert_allclose(pulled.ravel(), dense(linear.forced.band(error)[0]) @ z.ravel(), atol=1e-12)


def test_increments_of_correlated_kicks_are_correlated():
    names, coef = ("1", "x", "y", "x^2", "x y", "y^2"), np.zeros((6, 2))
    coef[0] = 1.0
    together = np.array([[1.0, -0.6], [-0.6, 1.0]])
    noise = Diffusion(names, coef, np.zeros((6, 2)), ("x", "y"), together)
    model = Model(np.zeros((3, 2)), Polynomial(1), ("x", "y"), diffusion=noise)
    path = model.simulate([0.0, 0.0], np.arange(0.0, 100.0, 0.1), noise=True)
    assert np.corrcoef(np.diff(path.x, axis=0).T)[0, 1] == pytest.approx(-0.6, abs=0.1)
    with pytest.raises(DataError, match="correlations of the kicks"):
        replace(noise, correlation=2.0 * together)


def test_paths_drawn_together_have_the_moments_of_the_process_and_end_where_they_blow_up():
    model = replace(stochastic(-1.0, [2.0, 0.0, 0.0]), noise=np.array([0.5]))
    like = Trajectory(np.arange(0.0, 6.0, 0.1), np.zeros((60, 1)), ("x",))
    paths = many_paths(model, np.zeros((400, 1)), like)
    # Variance 1 − exp(−2 t), known to √(2 / 400) of it.
    assert paths[:, 5].var() == pytest.approx(1 - np.exp(-1.0), rel=0.25)
    assert paths[:, -1].var() == pytest.approx(1.0, rel=0.25)
    [density] = densities(model, [like])
    assert np.sum(density.model * np.diff(density.edges)) == pytest.approx(1.0)
    middle = (density.edges[1:] + density.edges[:-1]) / 2
    # Of measurements: the noise of 0.5 comes on top of the stationary variance q / 2.
    assert np.sum(density.model * np.diff(density.edges) * middle**2) == pytest.approx(1.25, rel=0.2)
    growing = stochastic(60.0, [1.0, 0.0, 0.0])
    paths = many_paths(growing, np.ones((3, 1)), like)
    assert np.isnan(paths[:, -1]).all()
    assert np.isfinite(paths[:, 1]).all()


def test_a_band_holds_nine_tenths_of_the_measurements():
    model = replace(stochastic(-1.0, [2.0, 0.0, 0.0]), noise=np.array([0.2]))
    truth = model.simulate([0.0], np.arange(0.0, 30.0, 0.1), noise=True, seed=5)
    data = replace(truth, x=truth.x + 0.2 * np.random.default_rng(6).normal(size=truth.x.shape))
    low, high = band(model, Solution(0, data, data, truth, np.zeros(1)))
    # 300 samples, of which some 15 are independent.
    assert 0.7 < np.mean((low <= data.x) & (data.x <= high)) <= 1.0
    assert np.mean(high - low) == pytest.approx(2 * 1.645 * np.sqrt(1.04), rel=0.1)


def test_kicks_drive_equations_that_switch():
    noise = Diffusion(("1", "x", "x^2"), np.array([[1.0], [0.0], [0.0]]), np.zeros((3, 1)), ("x",))
    model = Model(np.array([[-1.0]]), Custom({"s": "sign(x)"}), ("x",), diffusion=noise)
    assert model.simulate([0.0], np.linspace(0.0, 5.0, 51), noise=True).x.std() > 0.1


def test_paths_that_run_away_do_not_stretch_the_axis_of_a_density():
    # x' = x + kicks has no stationary density: its paths leave the data by a factor of a million.
    model = replace(stochastic(1.0, [1.0, 0.0, 0.0]), noise=np.array([0.1]))
    data = Trajectory(np.arange(0.0, 15.0, 0.1), np.random.default_rng(0).standard_normal((150, 1)), ("x",))
    [density] = densities(model, [data])
    assert np.ptp(density.edges) <= 3.0 * np.ptp(data.x)
    assert np.sum(density.model * np.diff(density.edges)) < 0.1
    assert np.sum(density.data * np.diff(density.edges)) == pytest.approx(1.0)


def test_paths_that_spread_unlike_the_data_are_told():
    rng = np.random.default_rng(3)
    x = np.zeros(500)
    for k in range(1, 500):
        x[k] = 0.9 * x[k - 1] + 0.3 * rng.standard_normal()
    data = [Trajectory(0.1, x, ("x",))]
    model = identify(data, Polynomial(1))
    assert "paths-apart" not in {finding.code for finding in model.findings}
    place = model.place("x", "x")
    for rate, beyond, said in (
        (0.0, True, "times as far"),
        (-20.0, False, "times as far"),
        (9.0, True, "run away"),
    ):
        wrong = model.coef.copy()
        wrong[place] = rate
        [found] = paths_apart(replace(model, coef=wrong), data)
        assert found.code == "paths-apart"
        assert (found.values["ratio"] > 3.0) is beyond
        assert said in found.message
