"""Noise with a memory: the law is found beside it, and right models raise no alarm."""

from dataclasses import replace
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
import scipy.linalg
import scipy.signal
from benchmarks.attempt import truth_of
from benchmarks.wrong_noise import DOUBTS, KINDS, LAWS

import cindy
from cindy import systems
from cindy.search.loop import Met, Search
from cindy.states import fit_states, propagated, start_of
from cindy.states.doubts import (
    _autoregression,
    _by_levinson,
    _far_ends,
    _memories,
    all_lags,
    autoregression,
    until_chance,
)
from cindy.states.likelihood import _weighed


def _model(kind: str, law: str, level: float, seed: int, runs: int = 3) -> cindy.Model:
    rng, true = np.random.default_rng(seed), LAWS[law]
    data = [KINDS[kind](true, *true.run(rng), level, rng) for _ in range(runs)]
    return cindy.identify([cindy.Trajectory(*one, true.states) for one in data], cindy.Polynomial(3))


@pytest.mark.parametrize(
    ("kind", "law", "level"),
    [
        ("smoothing spline", "epidemic", 0.1),
        ("slow drift", "van der Pol", 0.02),
        ("autoregressive 0.9", "double well", 0.02),
    ],
)
def test_an_instrument_is_blamed_before_the_law(kind: str, law: str, level: float) -> None:
    model = _model(kind, law, level, 3, runs=2)
    assert np.array_equal(model.coef != 0, LAWS[law].coef != 0)
    assert (model.noise_memory > 1.5).all()
    codes = {one.code for one in model.findings}
    assert "noise-memory" in codes
    assert not codes & DOUBTS


def test_motion_that_is_kicked_keeps_its_kicks() -> None:
    model = _model("kicked motion", "Lotka-Volterra", 0.1, 3, runs=2)
    assert np.array_equal(model.coef != 0, LAWS["Lotka-Volterra"].coef != 0)
    assert model.diffusion is not None
    assert (model.noise_memory == 1.0).all()


@pytest.mark.parametrize(("kind", "level"), [("running mean of 5", 0.02), ("smoothing spline", 0.02)])
def test_what_a_filter_bends_makes_no_terms_and_is_in_the_errors(kind: str, level: float) -> None:
    law = LAWS["double well"]
    model = _model(kind, "double well", level, 100)
    assert np.array_equal(model.coef != 0, law.coef != 0)
    here = law.coef != 0
    assert (np.abs(model.coef - law.coef)[here] < 3.0 * model.coef_error[here]).all()


def test_a_law_whose_noise_the_roughness_of_the_data_contradicts_loses() -> None:
    t = np.linspace(0, 10, 200)
    data = cindy.Trajectory(t, np.cos(t), ("x",))
    motion = cindy.Integral().motion([data], cindy.Polynomial(1))
    options: Any = SimpleNamespace()
    state = Search(motion, options, rough=np.array([1e-6]))
    start = start_of(motion, np.array([1]), np.zeros(1), np.array([1e-6]))
    # Standard deviations of 0.05 and 0.2, where the data are rough by 0.001.
    near, far = (
        Met(replace(start, variance=np.array([v])), 0.0, c) for v, c in ((2.5e-3, 9.0), (4e-2, -9.0))
    )
    assert state.better(near, far) is near
    assert Search(motion, options).better(near, far) is far


def test_white_noise_of_a_short_record_is_not_taken_for_a_memory_by_chance() -> None:
    # The residual of x has an autocorrelation time of 1.6 samples, as one of thirty such records has.
    lorenz = systems.lorenz()
    basis, t = cindy.Polynomial(2), 0.01 * np.arange(400)
    truth = truth_of(basis, lorenz.states, lorenz.equations)
    start = np.array([[-8.0, 7.0, 27.0]])
    x = systems.integrate(lambda z: basis.evaluate(z.reshape(-1, 3), lorenz.states) @ truth, start, t)[:, 0]
    noise = 0.2 * x.std() * np.random.default_rng([106, 20, 4]).standard_normal(x.shape)
    model = cindy.identify(cindy.Trajectory(t, x + noise, lorenz.states), basis)
    assert (model.noise_memory == 1.0).all()
    assert "noise-memory" not in {one.code for one in model.findings}


@pytest.mark.parametrize("states", [1, 3, 30])
def test_the_white_noise_of_many_states_is_as_seldom_taken_for_a_memory_as_that_of_one(states: int) -> None:
    rng, doubted = np.random.default_rng(5), 0
    for _ in range(60):
        residuals = [list(rng.standard_normal((8, 400))) for _ in range(states)]
        doubted += not all(memory.white for memory in _memories(residuals))
    assert doubted <= 3


def test_the_memory_of_noise_does_not_depend_on_a_tiny_jitter_of_the_times() -> None:
    # Rows of equal steps are mixed at the ends of a run, which would hide what neighbours have in common.
    rng, t = np.random.default_rng(0), np.linspace(0, 10, 150)
    noise = scipy.signal.lfilter([0.05], [1.0, -0.9], rng.standard_normal((150, 2)), axis=0)
    x = np.column_stack([np.cos(t), -np.sin(t)]) + noise
    likelier = []
    for times in (t, t + 1e-9 * rng.standard_normal(150)):
        motion = cindy.Integral().motion([cindy.Trajectory(times, x, ("x", "v"))], cindy.Polynomial(1))
        start = start_of(motion, np.array([3, 4]), np.array([-1.0, 1.0]), np.full(2, 0.01))
        likelier.append(autoregression(motion, start))
    assert likelier[0] == pytest.approx(likelier[1], rel=1e-3)


def test_white_noise_beside_a_slow_drift_is_told_from_kicks() -> None:
    rng = np.random.default_rng(5)
    white = [rng.standard_normal(2000)]
    drifting = [white[0] + 3.0 * np.sin(np.linspace(0.0, 7.0, 2000))]
    alone = _by_levinson(drifting)
    assert _autoregression(white) > -20.0
    assert _autoregression(drifting) < alone - 50.0


def test_noise_that_grows_with_the_state_is_in_the_errors() -> None:
    model = _model("multiplicative", "Lotka-Volterra", 0.02, 300)
    law = LAWS["Lotka-Volterra"].coef
    assert np.array_equal(model.coef != 0, law != 0)
    assert (np.abs(model.coef - law) <= 4.0 * model.coef_error).all()


def test_scores_of_correlated_rows_are_weighed_by_the_whole_matrix_of_autocovariances() -> None:
    rows, values = np.random.default_rng(0).standard_normal((60, 3)), 0.8 ** np.arange(40)
    whole = scipy.linalg.toeplitz(np.append(values, np.zeros(20)))
    assert np.allclose(_weighed(rows, values), rows.T @ whole @ rows, rtol=1e-12)


def test_a_mean_of_correlated_noise_has_the_error_that_its_autocovariances_say() -> None:
    # w_k = 0.7 w_{k−1} + innovation: the mean has 2.4 times the error that white noise of its size has.
    rng = np.random.default_rng(1)
    noise = scipy.signal.lfilter([1.0], [1.0, -0.7], rng.standard_normal((200, 600)), axis=1)[:, 100:]
    one = np.ones((500, 1))
    told = np.mean([_weighed(one, until_chance(all_lags([w])))[0, 0] for w in noise]) / 500**2
    assert told == pytest.approx(np.var(noise.mean(axis=1)), rel=0.25)


def test_errors_beside_slow_noise_are_as_large_as_draws_scatter() -> None:
    # Residuals have less slow noise than there was, as the fit follows a part of it.
    law, t = LAWS["Lotka-Volterra"].coef, np.linspace(0.0, 20.0, 250)
    support, start = np.flatnonzero(law), np.array([[1.0, 2.0]])
    true = law.ravel()[support]
    basis = cindy.Polynomial(3)
    x = systems.integrate(lambda z: basis.evaluate(z, ("x", "y")) @ law, start, t)[:, 0]
    rng, found, errors = np.random.default_rng(3), [], []
    for _ in range(60):
        noise = scipy.signal.lfilter([0.01], [1.0, -0.9], rng.standard_normal((350, 2)), axis=0)[100:]
        motion = cindy.Integral().motion([cindy.Trajectory(t, x + noise, ("x", "y"))], basis)
        motion = replace(motion, memory=np.full(2, 19.0))
        begin = start_of(motion, support, true, np.full(2, 5e-4))
        fitted = fit_states(
            motion, begin, lambda o, _: np.linalg.lstsq(o.design, o.target[:, 0])[0], levels=(1e-4,)
        )
        found.append(fitted.coef)
        errors.append(np.sqrt(np.diagonal(propagated(motion, fitted, np.eye(len(support))))))
    told = np.median(errors, axis=0) / np.std(found, axis=0)
    assert np.mean(told) == pytest.approx(1.0, abs=0.08)


def test_a_slow_drift_enlarges_the_errors_of_terms_by_how_slow_they_are() -> None:
    law = LAWS["van der Pol"].coef
    model = _model("slow drift", "van der Pol", 0.1, 3, runs=2)
    assert np.array_equal(model.coef != 0, law != 0)
    here = law != 0
    z = np.abs(model.coef - law)[here] / model.coef_error[here]
    # With one autocorrelation time an equation errors are those of its white rows, divided by its root.
    assert model.fitted is not None
    columns = np.isin(model.fitted.columns, np.flatnonzero(here))
    spread = np.linalg.pinv(model.fitted.white.design[:, columns])
    by_equation = np.linalg.norm(spread, axis=1)
    assert (z < 3.0).all()
    assert (model.coef_error[here] < by_equation).all()
    assert (model.coef_error[here] < 0.7 * by_equation).any()


def test_an_outlier_at_the_end_of_a_run_is_told_by_its_neighbours_and_a_fast_start_is_none() -> None:
    k, limit = np.arange(60.0), np.full((1, 60, 2), 0.06)
    x = np.stack([np.sin(k / 5.0), np.exp(-k / 3.0)], axis=1)[None]
    y = x + 0.01 * np.random.default_rng(2).standard_normal(x.shape)
    assert not _far_ends(y, x, limit)[1].any()
    # A law with a false term starts at the outlier, so that nothing is left of it there.
    y[0, 0, 0] = x[0, 0, 0] = 3.0
    values, far = _far_ends(y, x, limit)
    assert np.array_equal(np.argwhere(far), [[0, 0, 0]])
    assert abs(values[0, 0, 0]) < 0.1


def test_errors_of_an_exact_law_have_the_size_by_which_coefficients_scatter() -> None:
    # (XᵀS⁻¹X)⁻¹ alone, in which the last model error counts, gives 0.7 of k (60 draws).
    law, rng = LAWS["van der Pol"], np.random.default_rng(5)
    here, chi2 = law.coef != 0, []
    runs = [law.run(rng) for _ in range(2)]
    for _ in range(20):
        data = [
            cindy.Trajectory(t, x + 0.05 * x.std(axis=0) * rng.standard_normal(x.shape), law.states)
            for t, x in runs
        ]
        model = cindy.identify(data, cindy.Polynomial(3))
        assert np.array_equal(model.coef != 0, here)
        assert model.covariance is not None
        away = (model.coef - law.coef)[here]
        chi2.append(away @ np.linalg.solve(model.covariance, away))
    # The mean of 20 draws of χ² with 4 degrees of freedom has the error 0.16 of its mean.
    assert np.mean(chi2) / 4 == pytest.approx(1.0, abs=0.25)
