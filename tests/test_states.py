"""States that are fitted: their rows, their covariance, and the laws found at them."""

from dataclasses import replace

import numpy as np
import pytest
from scipy.integrate import odeint, solve_ivp
from scipy.optimize import minimize_scalar
from scipy.signal import lfilter
from scipy.stats import norm, t as student

from cindy import Discrete, Integral, Polynomial, Trajectory, fix, identify, load, tie
from cindy.selection import trying
from cindy.states import grid_of, growing, start_of, without_outliers
from cindy.states.doubts import memory, tailed_deviance
from cindy.states.linearised import Linearised
from cindy.states.record import Record
from cindy.systems import lorenz as lorenz_system


def lorenz(t, x):
    return [10 * (x[1] - x[0]), x[0] * (28 - x[2]) - x[1], x[0] * x[1] - 8 / 3 * x[2]]


def oscillator(noise, *, seed=0, samples=400):
    t = np.linspace(0, 12, samples)
    x = np.stack([np.cos(2 * t), -2 * np.sin(2 * t)], axis=1)
    y = x + noise * x.std(axis=0) * np.random.default_rng(seed).normal(size=x.shape)
    return Trajectory(t, y, ("x", "v")), x


@pytest.mark.parametrize("order", [1, 2])
@pytest.mark.parametrize("even", [True, False])
def test_differences_equal_integrals_for_polynomials(order, even):
    steps = np.full(29, 0.1) if even else np.random.default_rng(0).uniform(0.05, 0.15, 29)
    t = np.concatenate([[0.0], np.cumsum(steps)])
    grid = grid_of(t, order)
    power = 5
    whole = t ** (power + order) / np.prod(np.arange(power + 1, power + order + 1))
    left, right = grid.differences(whole[None, :, None]), grid.integrals((t**power)[None, :, None])
    np.testing.assert_allclose(left, right, atol=1e-6 * np.abs(left).max())


@pytest.mark.parametrize("order", [1, 2])
def test_integrals_of_lower_degree_are_the_same_on_an_even_grid_and_row_by_row(order):
    t = 0.1 * np.arange(80)
    even, uneven = grid_of(t, order), grid_of(np.append(t, 8.05), order)
    # The windows of the first rows do not reach the last sample, whose step is shorter.
    for degree in (6, 4):
        np.testing.assert_allclose(
            even.coarser(degree)[:60], uneven.coarser(degree)[:60], rtol=1e-9, atol=1e-13
        )


def test_the_band_holds_the_covariance_of_the_rows():
    rng = np.random.default_rng(0)
    samples, states = 60, 2
    grid = grid_of(np.linspace(0, 3, samples))
    spread = rng.uniform(0.5, 2.0, size=(1, samples, states))
    nothing = np.zeros((1, samples, 0))
    record = Record(grid, np.zeros((1, samples, states)), spread, nothing, np.zeros(1, int), np.zeros(1, int))
    jacobian = rng.normal(size=(1, samples, states, states))
    linear = Linearised(record, record.y, jacobian)
    basis = np.eye(samples * states).reshape(-1, 1, samples, states)
    moved = np.stack([linear.turned(linear.moved(one))[0].ravel() for one in basis], axis=1)
    variance, error = np.array([0.3, 0.7]), np.array([0.01, 0.02])
    whole = moved @ np.diag((spread[0] * variance).ravel()) @ moved.T
    whole += np.diag((error * grid.step[:, None]).ravel())
    band = linear.bands(variance, error)[0]
    for offset in range(band.shape[1]):
        size = len(whole) - offset
        np.testing.assert_allclose(band[:size, offset], np.diagonal(whole, -offset), atol=1e-10)


@pytest.mark.parametrize("noise", [0.0, 1e-8, 1e-3, 0.1])
def test_an_oscillator_gives_its_two_terms_at_any_noise(noise):
    data, _ = oscillator(noise)
    model = identify(data, Polynomial(2), passes=None)
    assert np.flatnonzero(model.coef).tolist() == [3, 4]
    np.testing.assert_allclose(model.coef.ravel()[[3, 4]], [-4.0, 1.0], rtol=max(noise, 1e-9))


def test_fitted_states_are_nearer_to_the_truth_than_measured_ones():
    data, truth = oscillator(0.1)
    model = identify(data, Polynomial(2), passes=None)
    fitted = model.smooth(data)[0]
    assert np.sqrt(np.mean((fitted.x - truth) ** 2)) < 0.3 * np.sqrt(np.mean((data.x - truth) ** 2))
    np.testing.assert_allclose(model.noise, 0.1 * truth.std(axis=0), rtol=0.15)


def test_what_the_model_knows_of_itself_is_saved_and_loaded(tmp_path):
    model = identify(oscillator(0.05)[0], Polynomial(2), passes=None)
    model.save(tmp_path / "model.json")
    again = load(tmp_path / "model.json")
    for name in ("noise", "model_error", "inclusion", "covariance"):
        np.testing.assert_allclose(getattr(again, name), getattr(model, name))
    assert [m.size for m in again.near] == [m.size for m in model.near]
    assert again.near.scores[0] == 0.0
    np.testing.assert_array_less(0.9, model.inclusion[model.coef != 0])


def test_missing_entries_and_outliers_do_no_harm():
    data, _ = oscillator(0.02, samples=600)
    rng = np.random.default_rng(1)
    x = np.array(data.x)
    x[rng.random(x.shape) < 0.2] = np.nan
    x[rng.random(x.shape) < 0.01] += 5.0
    model = identify(Trajectory(data.t, x, data.states), Polynomial(2), passes=None)
    assert np.flatnonzero(model.coef).tolist() == [3, 4]
    assert any("outlier" in said for said in model.warnings)


def test_coarse_samples_are_bridged_by_instants_between_them():
    t = np.arange(26.0)
    rates = lambda t, x: [0.6 * x[0] - 0.03 * x[0] * x[1], -x[1] + 0.03 * x[0] * x[1]]  # noqa: E731
    x = solve_ivp(rates, (0, 25), [30, 4], t_eval=t, rtol=1e-9, atol=1e-9).y.T
    y = x + 0.03 * x.std(axis=0) * np.random.default_rng(0).normal(size=x.shape)
    model = identify(Trajectory(t, y, ("hare", "lynx")), Polynomial(2), passes=None)
    assert np.flatnonzero(model.coef).tolist() == [2, 5, 8, 9]


def test_a_random_walk_has_no_law():
    walk = np.cumsum(np.random.default_rng(0).normal(size=(400, 2)), axis=0)
    with pytest.raises(ValueError, match="no term is significant"):
        identify(Trajectory(np.arange(400) * 0.1, walk), Polynomial(2), passes=None)


def test_a_noisy_map_and_a_second_order_motion_are_found():
    x = np.zeros((300, 2))
    for k in range(299):
        x[k + 1] = 1 - 1.4 * x[k, 0] ** 2 + x[k, 1], 0.3 * x[k, 0]
    y = x + 0.03 * x.std(axis=0) * np.random.default_rng(0).normal(size=x.shape)
    henon = Trajectory(np.arange(300.0), y, ("x", "y"))
    model = identify(henon, Polynomial(2), formulation=Discrete(), passes=None)
    assert np.flatnonzero(model.coef).tolist() == [0, 3, 4, 6]
    data, _ = oscillator(0.02)
    position = Trajectory(data.t, data.x[:, :1], ("x",))
    model = identify(position, Polynomial(3), formulation=Integral(order=2), passes=None)
    assert np.flatnonzero(model.coef).tolist() == [1]


def test_lorenz_is_found_at_ten_per_cent_noise():
    t = np.arange(0, 20, 0.01)
    x = solve_ivp(lorenz, (0, 20), [-8, 7, 27], t_eval=t, rtol=1e-9, atol=1e-9).y.T
    y = x + 0.1 * x.std(axis=0) * np.random.default_rng(0).normal(size=x.shape)
    model = identify(Trajectory(t, y, ("x", "y", "z")), Polynomial(3), passes=None)
    assert model.size == 7


def test_units_of_the_states_do_not_matter_to_fitted_states():
    data, _ = oscillator(0.05)
    units = np.array([1e6, 1e-6])
    plain = identify(data, Polynomial(2), passes=None)
    other = identify(Trajectory(data.t, data.x * units, data.states), Polynomial(2), passes=None)
    terms = Polynomial(2).evaluate(units[None], data.states)[0]
    np.testing.assert_allclose(other.coef * terms[:, None] / units, plain.coef, rtol=1e-9)


def test_constraints_hold_and_the_gap_is_that_of_the_fitted_rows():
    data, _ = oscillator(0.1)
    laws = [fix("x", "v", 1.0), tie(("v", "x"), ("x", "v"), ratio=-4.0)]
    model = identify(data, Polynomial(2), constraints=laws, passes=None)
    assert model.violation < 1e-9
    np.testing.assert_allclose(model.coef.ravel()[[3, 4]], [-4.0, 1.0], atol=1e-9)
    assert 0.0 <= model.gap < 1e-2


def test_much_data_are_confirmed_after_a_part_of_them():
    t = np.linspace(0, 12, 400)
    x = np.stack([np.cos(2 * t), -2 * np.sin(2 * t)], axis=1)
    rng = np.random.default_rng(0)
    data = [Trajectory(t, x + 0.01 * rng.normal(size=x.shape), ("x", "v")) for _ in range(20)]
    with trying(large_enough=2000):
        model = identify(data, Polynomial(2), passes=None)
    assert np.flatnonzero(model.coef).tolist() == [3, 4]
    off = np.abs(model.coef.ravel()[[3, 4]] - [-4.0, 1.0])
    assert (off < 4 * model.coef_error.ravel()[[3, 4]]).all()
    assert off.max() < 2e-3


def prey(t, **tolerances):
    """Lotka-Volterra as a solver has it; true terms x, x y, y, x y."""
    made = odeint(
        lambda x, _: [x[0] - 0.5 * x[0] * x[1], 0.5 * x[0] * x[1] - x[1]], [4.0, 1.0], t, **tolerances
    )
    return Trajectory(t, made, ("x", "y"))


def terms_of(model):
    return {
        (state, term)
        for state, terms in zip(model.states, (model.coef != 0).T, strict=True)
        for term in np.array(model.terms)[terms]
    }


PREY = {("x", "x"), ("x", "x y"), ("y", "y"), ("y", "x y")}


@pytest.mark.parametrize("tolerance", [1.5e-8, 1e-6, 1e-4])
def test_the_tolerance_of_a_solver_makes_no_terms_and_is_told(tolerance):
    model = identify(prey(np.linspace(0, 25, 500), rtol=tolerance, atol=tolerance), Polynomial(3))
    assert terms_of(model) == PREY
    assert any("the tolerance of a solver" in sentence for sentence in model.warnings)


def test_white_noise_is_not_taken_for_a_smooth_error():
    clean = prey(np.linspace(0, 25, 500), rtol=1e-12, atol=1e-12)
    noise = 1e-3 * np.random.default_rng(3).normal(size=clean.x.shape)
    model = identify(Trajectory(clean.t, clean.x + noise, clean.states), Polynomial(3))
    assert terms_of(model) == PREY
    assert not model.findings


def test_noise_that_grows_with_the_state_is_seen_and_weighed():
    clean = prey(np.linspace(0, 25, 500), rtol=1e-12, atol=1e-12)
    factor = 1 + 0.05 * np.random.default_rng(4).normal(size=clean.x.shape)
    model = identify(Trajectory(clean.t, clean.x * factor, clean.states), Polynomial(3))
    assert terms_of(model) == PREY
    assert any("grows with the state" in sentence for sentence in model.warnings)


TAILS = (16.0, 4.0, 2.0, 1.0)


@pytest.mark.parametrize("tail", [1.0, 3.0, np.inf])
def test_noise_with_tails_has_the_likelihood_of_an_independent_maximiser(tail):
    rng = np.random.default_rng(3)
    shapes = np.array([np.ones(400), np.linspace(0.1, 3.0, 400)])
    law = norm() if tail == np.inf else student(tail)
    noise = 0.3 * np.sqrt(shapes[1]) * law.rvs(size=400, random_state=rng)
    for shape, found in zip(shapes, tailed_deviance(noise**2, shapes, TAILS), strict=True):

        def deviance(log_scale, law, shape=shape):
            size = np.exp(log_scale) * np.sqrt(shape)
            return -2.0 * np.sum(law.logpdf(noise / size) - np.log(size))

        laws = [norm, *map(student, TAILS)]
        best = min(minimize_scalar(deviance, (-3.0, 0.0), args=(law,)).fun for law in laws)
        assert found == pytest.approx(best, abs=0.1)


@pytest.mark.parametrize("seed", range(8))
@pytest.mark.parametrize("cause", [None, "state", "later", "sooner"])
def test_outliers_neither_pass_for_noise_that_grows_nor_hide_it(cause, seed):
    data, clean = oscillator(0.0, samples=500)
    motion = Integral().motion([Trajectory(data.t, clean, data.states)], Polynomial(1))
    fitted = start_of(motion, motion.candidates[[2, 3]], np.ones(2), np.full(2, 1e-4))
    since = data.t[:, None] / data.t[-1]
    shape = {None: 0 * since, "state": clean**2, "later": since**2, "sooner": (1 - since) ** 2}[cause]
    rng = np.random.default_rng([seed, 7])
    noise = 0.02 * np.sqrt(1 + 30 * shape) * rng.standard_normal(clean.shape)
    far = rng.random(clean.shape) < 0.01
    noise[far] += rng.uniform(3, 10, far.sum()) * rng.choice([-1, 1], far.sum())
    [record] = motion.records
    noisy = motion.part([replace(record, y=fitted.x[0] + noise)])
    assert growing(noisy, fitted)[1] == ({cause: [0, 1]} if cause else {})


@pytest.mark.parametrize("seed", range(4))
@pytest.mark.parametrize("grows", [False, True])
def test_noisier_runs_of_larger_states_are_no_noise_that_grows_with_the_state(grows, seed):
    data, clean = oscillator(0.0, samples=300)
    sizes = (0.2, 1.0, 5.0)
    runs = [Trajectory(data.t, size * clean, data.states) for size in sizes]
    motion = Integral().motion(runs, Polynomial(1))
    fitted = start_of(motion, motion.candidates[[2, 3]], np.ones(2), np.full(2, 1e-4))
    [record] = motion.records
    along = np.linspace(0.2, 1.7, 300)[:, None] if grows else 1.0
    noise = (
        0.02 * np.reshape(sizes, (3, 1, 1)) * along * np.random.default_rng(seed).normal(size=record.y.shape)
    )
    noisy = motion.part([replace(record, y=fitted.x[0] + noise)])
    assert growing(noisy, fitted)[1] == ({"later": [0, 1]} if grows else {})


def test_errors_hold_where_noise_is_a_share_of_the_state():
    clean = prey(np.linspace(0, 25, 500), rtol=1e-12, atol=1e-12)
    truth = {("x", "x"): 1.0, ("x", "x y"): -0.5, ("y", "y"): -1.0, ("y", "x y"): 0.5}
    z = []
    for seed in range(4):
        factor = 1 + 0.02 * np.random.default_rng([17, seed]).normal(size=clean.x.shape)
        model = identify(Trajectory(clean.t, clean.x * factor, clean.states), Polynomial(2))
        assert terms_of(model) == PREY
        for (state, term), value in truth.items():
            at = model.terms.index(term), model.states.index(state)
            z.append((model.coef[at] - value) / model.coef_error[at])
    # Of 16 independent values of variance 1 the mean square lies between 0.3 and 2.1 in 99 of 100 cases; the
    # four of one draw are correlated.
    assert 0.2 < np.mean(np.square(z)) < 3.0


@pytest.mark.parametrize(("every", "left_out"), [(20, 20), (4, 0)])
def test_measurements_are_no_outliers_where_many_of_them_are(every, left_out):
    data, _ = oscillator(0.01)
    motion = Integral().motion([data], Polynomial(1))
    fitted = start_of(motion, motion.candidates[[2, 3]], np.ones(2), np.full(2, 1e-4))
    [record] = motion.records
    y = record.y.copy()
    y[:, 3::every, 0] += 3.0
    marked, count = without_outliers(motion.part([replace(record, y=y)]), fitted)
    assert count == left_out
    assert int(np.sum(marked.records[0].missing)) == left_out


def test_a_run_with_fewer_rows_than_candidates_is_data_too():
    data = lorenz_system().simulate(seed=1, trajectories=3, points=300, horizon=4.0, noise=0.01)
    short = data[1]
    model = identify([data[0], Trajectory(short.t[:6], short.x[:6], short.states), data[2]], Polynomial(3))
    assert np.count_nonzero(model.coef) == 7


@pytest.mark.parametrize("seed", range(4))
def test_outliers_are_no_growing_noise_and_no_kicks(seed):
    data = lorenz_system().simulate(seed=seed, trajectories=2, points=600, horizon=4.0, noise=0.02)
    rng = np.random.default_rng(seed + 100)
    runs = []
    for run in data:
        hit = rng.random(run.x.shape) < 0.01
        runs.append(Trajectory(run.t, run.x + np.where(hit, 10 * rng.normal(size=hit.shape), 0), run.states))
    codes = {finding.code for finding in identify(runs, Polynomial(2)).findings}
    assert "outliers" in codes
    assert codes.isdisjoint({"growing-noise", "random-forcing"})


@pytest.mark.parametrize(
    ("cause", "sizes"), [("along the runs", (0.1, 2.0)), ("start of the runs", (2.0, 0.1))]
)
def test_noise_that_grows_or_falls_along_the_runs_is_told(cause, sizes):
    data = lorenz_system().simulate(seed=1, trajectories=2, points=600, horizon=4.0, noise=0.0)
    rng, size = np.random.default_rng(5), 0.3 * np.linspace(*sizes, 300)[:, None]
    runs = [Trajectory(run.t, run.x + size * rng.normal(size=run.x.shape), run.states) for run in data]
    [told] = [f.message for f in identify(runs, Polynomial(2)).findings if f.code == "growing-noise"]
    assert f"The noise of x, y and z grows {cause if cause[0] == 'a' else 'towards the ' + cause}." in told


def test_the_tails_of_a_noisier_run_are_no_outliers():
    clean = prey(np.linspace(0, 25, 400), rtol=1e-12, atol=1e-12)
    noise = np.random.default_rng(5).normal(size=(2, *clean.x.shape))
    runs = [clean.x + size * one for size, one in zip((0.01, 0.06), noise, strict=True)]
    runs[0][100, 0] += 0.5
    model = identify([Trajectory(clean.t, one, clean.states) for one in runs], Polynomial(2))
    told = {finding.code: finding.values for finding in model.findings}
    assert told["outliers"]["count"] == 1
    sentence = (
        "1 measurement more than 6 standard deviations from the fitted states was left out as an outlier."
    )
    assert sentence in [finding.message for finding in model.findings]
    assert "unequal-noise" in told
    assert terms_of(model) == PREY


def test_white_noise_is_seldom_taken_for_something_smooth():
    rng = np.random.default_rng(0)
    noise = rng.standard_normal((400, 500))
    assert sum(not memory([rows]).white for rows in noise) < 20
    drifting = lfilter([1.0], [1.0, -0.5], rng.standard_normal((100, 500)))
    assert not any(memory([rows]).white for rows in drifting)


def test_noise_of_values_that_are_reported_in_steps_is_not_below_their_rounding():
    data = lorenz_system().simulate(seed=4, trajectories=2, points=1600, horizon=6.0, noise=0.0)
    step = 2.5
    rounded = [Trajectory(one.t, step * np.round(one.x / step), one.states) for one in data]
    model = identify(rounded, Polynomial(2))
    assert np.all(model.noise > 0.99 * step / np.sqrt(12))
    assert {finding.code for finding in model.findings}.isdisjoint({"clipped-data", "growing-noise"})
    assert np.count_nonzero(model.coef) == 7
