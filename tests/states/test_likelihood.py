"""The likelihood of measurements under a law, against plain implementations of the same formulas."""

from dataclasses import replace

import numpy as np
import pytest
from scipy.linalg import expm

from cindy import Integral, Polynomial, Trajectory, accumulate, systems
from cindy._arrays import evenly
from cindy.data import noise_variance
from cindy.states import Fitted, deviance, deviance_of_nothing, fit_states, start_of, start_of_nothing
from cindy.states.linearised import Law


def lotka_volterra(x):
    return np.stack([x[:, 0] - x[:, 0] * x[:, 1], -x[:, 1] + x[:, 0] * x[:, 1]], axis=1)


def fitted_under(motion, law, coef, x, variance, error):
    """States and coefficients as if they had been fitted."""
    return Fitted(motion.law(np.array(law)), x, np.array(coef), np.array(variance), np.array(error))


def dense_deviance(motion, fitted, field, jacobian):
    """−2 log p by dense matrices: rᵀ S⁻¹ r + log det S − 2 log |det B₂|, and the entries never measured."""
    total = 0.0
    for record, states in zip(motion.records, fitted.x, strict=True):
        grid, d = record.grid, record.states
        unit = np.eye(grid.samples)[None]
        D, W = (np.kron(m(unit)[0], np.eye(d)) for m in (grid.differences, grid.integrals))
        for y, x, spread, missing in zip(record.y, states, record.spread, record.missing, strict=True):
            J = np.zeros((x.size, x.size))
            for m, block in enumerate(jacobian(x)):
                J[m * d : (m + 1) * d, m * d : (m + 1) * d] = block
            y = np.where(missing, x, y)
            sigma = (spread * fitted.variance).ravel()
            B = D - W @ J
            r = D @ y.ravel() - W @ J @ (y - x).ravel() - W @ field(x).ravel()
            S = B * sigma @ B.T + np.diag(np.outer(grid.step, fitted.error).ravel())
            total += r @ np.linalg.solve(S, r) + np.linalg.slogdet(S)[1]
            total -= 2 * np.linalg.slogdet(B[:, grid.order * d :])[1]
            total -= np.log(sigma[grid.order * d :][missing[grid.order :].ravel()]).sum()
    return total


def test_the_deviance_is_that_of_a_dense_gaussian():
    rng = np.random.default_rng(0)
    t = np.linspace(0, 2, 40)
    runs = [1.0 + 0.3 * rng.normal(size=(n, 2)).cumsum(axis=0) / 6 for n in (40, 40, 25)]
    runs[1][5, 0] = runs[1][9] = runs[2][:3, 1] = np.nan
    motion = Integral().motion([Trajectory(t[: len(x)], x) for x in runs], Polynomial(2), instants=1)
    # Terms 1, x, y, x^2, x y, y^2, two equations: x − x y and −y + x y.
    states = tuple(r.y + 0.05 * rng.normal(size=r.y.shape) for r in motion.records)
    fitted = fitted_under(motion, [2, 5, 8, 9], [1, -1, -1, 1], states, [0.02, 0.05], [0.3, 0.01])

    def jacobian(x):
        rows = [[1 - x[:, 1], -x[:, 0]], [x[:, 1], x[:, 0] - 1]]
        return np.moveaxis(np.array(rows), 2, 0)

    dense = dense_deviance(motion, fitted, lotka_volterra, jacobian)
    assert deviance(motion, fitted) == pytest.approx(dense, abs=1e-6)


def test_the_deviance_of_rates_that_nobody_measured_is_that_of_a_dense_gaussian():
    t = np.linspace(0, 5, 50)
    x = np.cos(2 * t)[:, None] + 0.01 * np.random.default_rng(1).normal(size=(50, 1))
    motion = Integral(order=2, rates=True).motion([Trajectory(t, x, ("x",))], Polynomial(1), instants=1)
    # States x and its rate; terms 1, x, x': the equation of the rate has −4 x − 0.1 x'.
    fitted = fitted_under(motion, [3, 5], [-4, -0.1], (motion.records[0].y,), [1e-4, 4e-4], [1e-9, 0.2])
    A = np.array([[0.0, 1.0], [-4.0, -0.1]])
    dense = dense_deviance(motion, fitted, lambda x: x @ A.T, lambda x: np.tile(A, (len(x), 1, 1)))
    assert deviance(motion, fitted) == pytest.approx(dense, abs=1e-6)


def kalman_deviance(t, y, A, noise, kicks):
    """−2 log p of y under dx = A x dt + √kicks dW, measured with noise, by a Kalman filter.

    The step from sample to sample is exact (Van Loan 1978); the first state may be anywhere.
    """
    d, h = len(A), t[1] - t[0]
    block = expm(h * np.block([[-A, np.diag(kicks)], [np.zeros((d, d)), A.T]]))
    move = block[d:, d:].T
    spread = move @ block[:d, d:]
    R = np.diag(noise)
    mean, P, total = y[0].copy(), R.copy(), 0.0  # the first measurement, with a flat state before it
    for value in y[1:]:
        mean, P = move @ mean, move @ P @ move.T + spread
        left, S = value - mean, P + R
        total += left @ np.linalg.solve(S, left) + np.linalg.slogdet(S)[1]
        gain = np.linalg.solve(S, P).T
        mean, P = mean + gain @ left, P - gain @ P
    return total


@pytest.mark.parametrize(("noise", "kicks"), [(0.05, 0.0), (0.05, 0.05), (0.005, 0.3)])
def test_a_linear_law_has_the_likelihood_of_a_kalman_filter(noise, kicks):
    rng = np.random.default_rng(2)
    t = np.linspace(0, 8, 401)
    h, A = t[1], np.array([[-0.3, 1.5], [-1.5, -0.3]])
    x = np.empty((len(t), 2))
    x[0] = 1.0, 0.0
    for k in range(len(t) - 1):
        x[k + 1] = expm(h * A) @ x[k] + np.sqrt(kicks * h) * rng.normal(size=2)
    y = x + noise * rng.normal(size=x.shape)
    motion = Integral().motion([Trajectory(t, y, ("x", "y"))], Polynomial(1, bias=False), instants=1)

    def both(A, noise, kicks):
        q = np.full(2, max(kicks, 1e-9))
        args = motion, [0, 1, 2, 3], A.T.ravel(), (motion.records[0].y,), np.full(2, noise**2), q
        return np.array(
            [deviance(motion, fitted_under(*args)), kalman_deviance(t, y, A, np.full(2, noise**2), q)]
        )

    here = both(A, noise, kicks)
    others = [(A + 0.1, noise, kicks), (1.1 * A, 1.3 * noise, kicks), (A, noise, 1.5 * kicks + 1e-3)]
    for other in others:
        own, filtered = both(*other) - here
        assert own == pytest.approx(filtered, rel=0.02, abs=0.1)


def noisy_circle(seed, noise=0.05):
    t = np.linspace(0, 6, 150)
    x = np.stack([np.cos(2 * t), np.sin(2 * t)], axis=1)
    return Trajectory(t, x + noise * np.random.default_rng(seed).normal(size=x.shape), ("x", "y"))


def plain(objective, support):
    return np.linalg.lstsq(objective.design, objective.target[:, 0], rcond=1e-13)[0]


def fit_circle(runs):
    """y' = a x, x' = b y fitted to noisy circles."""
    motion = Integral().motion(runs, Polynomial(2), instants=1)
    start = start_of(motion, np.array([3, 4]), np.array([2.0, -2.0]), np.full(2, 2.5e-3))
    return motion, fit_states(motion, start, plain)


def test_rows_at_fitted_states_are_blind_to_the_order_of_trajectories():
    runs = [noisy_circle(0), noisy_circle(1), replace_end(noisy_circle(2))]
    motion, fitted = fit_circle(runs)
    turned, back = fit_circle(runs[::-1])
    np.testing.assert_allclose(fitted.coef, back.coef, rtol=1e-9)
    for blocks in (1, 9):
        one = motion.objectives(fitted, motion.candidates, blocks)
        other = turned.objectives(replace(back, coef=fitted.coef), motion.candidates, blocks)
        own, its = (sum(b.factor.T @ b.factor for b in each) for each in (one, other))
        np.testing.assert_allclose(own, its, rtol=1e-6, atol=1e-6 * np.abs(own).max())


def test_many_short_runs_of_second_order_are_fitted_without_a_model_error_of_their_own():
    system = systems.fput(5)
    data = system.simulate(seed=3, noise=1e-5)
    motion = Integral(order=2).motion(data, system.basis, instants=1)
    true = np.flatnonzero(system.coef)
    start = start_of(motion, true, system.coef.ravel()[true], noise_variance(data))
    fitted = fit_states(motion, start, plain)
    # At so little noise measured states are as good as fitted ones, and least squares there is efficient.
    total = accumulate(data, system.basis, formulation=Integral(order=2, feedback=0.0)).total
    least = np.zeros_like(system.coef)
    for j, column in enumerate(system.coef.T):
        there = np.flatnonzero(column)
        least[there, j] = np.linalg.lstsq(total.design[:, there], total.target[:, j])[0]
    error = np.linalg.norm(fitted.coef - system.coef.ravel()[true])
    assert error < 1.05 * np.linalg.norm(least - system.coef)
    assert (fitted.error * motion.step < 1e-6 * fitted.variance).all()


def replace_end(run):
    """A shorter run, on a grid of its own."""
    return Trajectory(run.t[:90], run.x[:90], run.states)


def test_white_rows_of_simulated_noise_and_kicks_have_the_identity_for_covariance():
    rng = np.random.default_rng(3)
    motion, fitted = fit_circle([noisy_circle(0)])
    fitted = replace(fitted, error=np.array([1e-3, 3e-3]))
    [white] = motion.whitened(fitted)
    linear = white.linear
    draws = 3000
    noise = np.sqrt(fitted.variance) * rng.normal(size=(draws, *linear.x.shape))
    step = np.sqrt(fitted.error * linear.record.grid.step[:, None])
    rows = [linear.moved(e) + step * rng.normal(size=step.shape) for e in noise]
    table = white.white(np.stack(rows, axis=-1))
    covariance = table @ table.T / draws
    off = covariance - np.eye(len(covariance))
    # Each entry has the variance 1 / draws, those on the diagonal twice that.
    assert np.sqrt(np.mean(off**2) * draws) == pytest.approx(1.0, abs=0.03)
    assert np.abs(off).max() * np.sqrt(draws) < 8.0


def test_standard_errors_are_those_of_a_parametric_bootstrap():
    coefs, errors = [], []
    for seed in range(40):
        motion, fitted = fit_circle([noisy_circle(seed)])
        [rows] = motion.objectives(fitted, fitted.law.support, 1)
        coefs.append(fitted.coef)
        errors.append(np.sqrt(np.diagonal(np.linalg.inv(rows.design.T @ rows.design))))
    ratio = np.std(coefs, axis=0, ddof=1) / np.mean(errors, axis=0)
    assert np.all((ratio > 0.7) & (ratio < 1.35))
    bias = (np.mean(coefs, axis=0) - [2.0, -2.0]) / np.mean(errors, axis=0)
    assert np.all(np.abs(bias) * np.sqrt(40) < 3.5)


@pytest.mark.parametrize("noise", [0.1, 0.3])
def test_the_walk_at_the_best_of_a_few_drifts_has_the_likelihood_of_the_fitted_one(noise):
    data = systems.lorenz().simulate(3, noise=noise, trajectories=2, points=300, horizon=4.0)
    motion = Integral().motion(data, Polynomial(2))
    variance = motion.variances(noise_variance(data))
    fitted = fit_states(
        motion, start_of_nothing(motion, variance), lambda objective, support: np.zeros(0), levels=()
    )
    exact = deviance(motion, fitted)
    assert exact - 1.0 < deviance_of_nothing(motion) < exact + 0.05 * motion.rows


@pytest.mark.parametrize("places", [[], [3], [0, 1, 2], [1, 4, 7, 10], [0, 2, 3], [4, 4]])
def test_evenly_spaced_places_select_the_same_as_a_slice(places):
    places, values = np.array(places, dtype=np.intp), np.arange(12.0)
    assert np.array_equal(values[evenly(places)], values[places])
    assert isinstance(evenly(places), slice) == (places.tolist() in [[0, 1, 2], [1, 4, 7, 10]])


def test_the_laws_of_a_search_list_the_terms_of_the_dictionary_once(monkeypatch):
    listed, terms = [], Polynomial.terms
    monkeypatch.setattr(Polynomial, "terms", lambda *given: listed.append(given) or terms(*given))
    names, points = ("listed", "once"), np.ones((4, 2))
    for support in ([0, 3], [5], [1, 2, 7]):
        Law(Polynomial(3), names, 2, np.array(support), np.zeros(0, np.intp)).values(points)
    assert len(listed) == 1
