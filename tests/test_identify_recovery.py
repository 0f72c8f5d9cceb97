"""What identify recovers with its defaults; the whole table is a benchmark."""

import numpy as np
import pytest
from benchmarks.solver_made import SYSTEMS
from scipy.integrate import solve_ivp

import cindy
from cindy import Integral, Polynomial
from cindy.identification import identify
from cindy.systems import (
    duffing,
    fput,
    kuramoto,
    lorenz,
    lotka_volterra,
    michaelis_menten,
    rossler,
    sir,
    spring_masses,
    van_der_pol,
)

CELLS = [
    (kuramoto(5), 1e-4),
    (kuramoto(3), 1e-2),
    (fput(5), 1e-8),
    (fput(5), 1e-4),
    (fput(5, amplitude=1.0), 1e-2),
    (michaelis_menten(), 1e-6),
    (michaelis_menten(), 1e-4),
]
CLEAN = [
    kuramoto(3),
    fput(5),
    michaelis_menten(),
    spring_masses(),
    lorenz(),
    lotka_volterra(),
    van_der_pol(),
    duffing(),
    rossler(),
    sir(),
]


def part(system, seed, noise, share=2):
    """Half as many trajectories as an experiment of the paper has, or fewer: enough for a law, and faster."""
    trajectories = max(system.trajectories // share, 2)
    return system.simulate(seed=seed, noise=noise, trajectories=trajectories, points=system.points // share)


def error(model, truth):
    return float(np.linalg.norm(model.coef - truth))


def on_true_support(data, system):
    """Least squares that is told the support, in the plain form with free initial states."""
    form = Integral(order=system.order, feedback=0.0)
    total = cindy.accumulate(data, system.basis, formulation=form).total
    coef = np.zeros_like(system.coef)
    for j in range(coef.shape[1]):
        true = np.flatnonzero(system.coef[:, j])
        coef[true, j] = np.linalg.lstsq(total.design[:, true], total.target[:, j])[0]
    return float(np.linalg.norm(coef - system.coef))


@pytest.mark.parametrize(("system", "noise"), CELLS, ids=[f"{s.name} {n:g}" for s, n in CELLS])
def test_the_support_is_exact_and_the_error_within_10_per_cent_of_least_squares_told_the_support(
    system, noise
):
    data = part(system, 11, noise, 2 if noise > 1e-3 else 4)
    model = identify(data, system.basis, formulation=Integral(order=system.order))
    np.testing.assert_array_equal(model.coef != 0, system.coef != 0)
    assert error(model, system.coef) < 1.1 * on_true_support(data, system)
    sigma = noise * np.concatenate([one.x for one in data]).std(axis=0)
    np.testing.assert_allclose(model.noise, sigma, rtol=0.1)


def test_lorenz_at_1_per_cent_from_one_trajectory_and_cubic_terms():
    system = lorenz()
    data = system.simulate(seed=11, noise=0.01, trajectories=1, points=4000, horizon=20.0)
    model = identify(data, Polynomial(3))
    assert dict(zip(model.terms, (model.coef != 0).any(axis=1), strict=True))["x z"]
    truth = np.zeros_like(model.coef)
    truth[[model.terms.index(t) for t in system.terms]] = system.coef
    np.testing.assert_array_equal(model.coef != 0, truth != 0)
    assert error(model, truth) < 0.1


def test_a_normal_form_near_its_cycle_is_found_where_one_equation_must_change_at_once():
    # On the circle x² + y² = 1 the cubic terms of x' are those of 1, x² and y², which the rows at the states
    # of that law prefer by three units; its own states show the cubic ones to be better by two.
    rng = np.random.default_rng([736, 0])
    t, basis = np.arange(0.0, 4.5, 0.002), Polynomial(5)
    terms = basis.names(("x", "y"))
    truth = np.zeros((len(terms), 2))
    for j, terms_of in enumerate((("x", "-y", "-x^3", "-x y^2"), ("x", "y", "-x^2 y", "-y^3"))):
        for term in terms_of:
            truth[terms.index(term.strip("-")), j] = -1.0 if term.startswith("-") else 1.0

    def slope(_, x):
        return (basis.evaluate(x[None], ("x", "y")) @ truth)[0]

    start = rng.uniform(-2, 2, 2)
    x = solve_ivp(slope, (0.0, 4.5), start, "DOP853", t, rtol=1e-12, atol=1e-12).y.T
    noisy = x + 0.002 * x.std() * rng.standard_normal(x.shape)
    model = identify(cindy.Trajectory(t, noisy, ("x", "y")), basis)
    np.testing.assert_array_equal(model.coef != 0, truth != 0)


@pytest.mark.parametrize("system", CLEAN, ids=lambda s: s.name)
def test_data_without_noise_give_the_exact_support_and_coefficients_to_seven_digits(system):
    model = identify(part(system, 2, 0.0, 4), system.basis, formulation=Integral(order=system.order))
    np.testing.assert_array_equal(model.coef != 0, system.coef != 0)
    np.testing.assert_allclose(model.coef, system.coef, atol=1e-7)


@pytest.mark.parametrize(
    ("system", "noise", "share"), [(michaelis_menten(), 1e-3, 6), (kuramoto(3), 1e-2, 8)]
)
def test_constraints_help_and_hold(system, noise, share):
    free, told = [], []
    for seed in range(3):
        data = part(system, seed, noise, share)
        free.append(error(identify(data, system.basis), system.coef))
        model = identify(data, system.basis, constraints=system.constraints())
        told.append(error(model, system.coef))
        assert model.violation < 1e-9
        rows = cindy.Problem(cindy.accumulate(data, system.basis), constraints=system.constraints())
        assert rows.violation(model.coef) < 1e-9
    assert np.median(told) < np.median(free)


@pytest.mark.parametrize("passes", [None, 1])
@pytest.mark.parametrize("seed", [1, 2])
def test_totals_that_a_single_run_conserves_do_not_hide_its_terms(seed, passes):
    # Along one run E + ES is a number, so that ES and E·ES + ES² are the same but for a factor.
    def rates(_, state):
        enzyme, substrate, bound, _ = state
        binding = enzyme * substrate
        return [1.2 * bound - binding, 0.5 * bound - binding, binding - 1.2 * bound, 0.7 * bound]

    t = np.linspace(0, 5, 400)
    x = solve_ivp(rates, (0, 5), [1, 2, 0.1, 0], t_eval=t, rtol=1e-10, atol=1e-12).y.T
    x = x + 0.01 * x.std(axis=0) * np.random.default_rng(seed).standard_normal(x.shape)
    run = cindy.Trajectory(t, x, ("E", "S", "ES", "P"))
    totals = [cindy.conserve({"S": 1, "ES": 1, "P": 1}), cindy.conserve({"E": 1, "ES": 1})]
    model = identify(run, Polynomial(2), constraints=totals, passes=passes)
    used = {(s, model.terms[i]) for i, j in np.argwhere(model.coef) for s in [model.states[j]]}
    assert used == {(s, "ES") for s in ("E", "S", "ES", "P")} | {(s, "E S") for s in ("E", "S", "ES")}


def test_a_conserved_total_lets_one_term_take_the_place_of_several():
    # S + I + R is a number, so that I and I·S + I² + I·R are the same but for a factor.
    def rates(_, state):
        new = 1.5 * state[0] * state[1]
        return [-new, new - 0.4 * state[1], 0.4 * state[1]]

    t = np.linspace(0, 20, 400)
    x = solve_ivp(rates, (0, 20), [0.99, 0.01, 0.0], t_eval=t, rtol=1e-10, atol=1e-12).y.T
    x = x + 0.01 * x.std(axis=0) * np.random.default_rng(32).standard_normal(x.shape)
    run = cindy.Trajectory(t, x, ("S", "I", "R"))
    model = identify(run, Polynomial(2), constraints=[cindy.conserve({"S": 1, "I": 1, "R": 1})])
    used = {(model.states[j], model.terms[i]) for i, j in np.argwhere(model.coef)}
    assert used == {("S", "S I"), ("I", "S I"), ("I", "I"), ("R", "I")}


def test_neighbours_that_are_interchangeable_have_equal_coefficients():
    system = fput(5)
    data = part(system, 0, 1e-4)
    model = identify(data, system.basis, formulation=Integral(order=2), constraints=system.constraints())
    np.testing.assert_array_equal(model.coef != 0, system.coef != 0)
    place = {name: i for i, name in enumerate(model.terms)}
    for i in range(1, 5):
        assert model.coef[place[f"x{i}"], i - 1] == pytest.approx(model.coef[place[f"x{i + 1}"], i], abs=1e-9)
        assert model.coef[place[f"x{i + 1}^3"], i - 1] == pytest.approx(
            model.coef[place[f"x{i}^3"], i], abs=1e-9
        )


def test_standard_errors_cover_what_they_say():
    system = lotka_volterra()
    true = system.coef != 0
    scores = []
    for seed in range(15):
        model = identify(system.simulate(seed=seed, noise=1e-2, points=500), system.basis)
        if ((model.coef != 0) == true).all():
            scores.append((model.coef - system.coef)[true] / model.coef_error[true])
    assert len(scores) >= 14
    spread = np.sqrt(np.mean(np.square(scores)))
    assert 0.7 < spread < 1.2
    assert np.mean(np.abs(scores) < 2) > 0.9


def test_a_dictionary_with_sin2_and_cos2_beside_the_constant_gives_the_parsimonious_model():
    system = kuramoto(3)
    basis = cindy.Trigonometric(1) * cindy.Trigonometric(1) + Polynomial(0)
    for seed in (1, 2):
        model = identify(part(system, seed, 1e-4, 4), basis)
        assert {"sin(x1)^2", "cos(x1)^2", "1"} <= set(model.terms)
        truth = np.zeros_like(model.coef)
        truth[[model.terms.index(t) for t in system.terms]] = system.coef
        np.testing.assert_array_equal(model.coef != 0, truth != 0)
        assert any("independent" in w for w in model.warnings)


def test_one_state_twelve_states_one_trajectory_and_few_samples():
    t = np.linspace(0, 8, 40)
    rng = np.random.default_rng(0)
    growth = 1 / (1 + 9 * np.exp(-t)) + 1e-3 * rng.standard_normal(40)
    model = identify((t, growth[:, None]), Polynomial(3))
    assert model.coef.shape == (4, 1)
    np.testing.assert_array_equal(model.coef[:, 0] != 0, [False, True, True, False])

    import scipy.linalg

    chain = -np.eye(12) + 0.7 * np.eye(12, k=1) - 0.4 * np.eye(12, k=-1)
    steps = np.array([scipy.linalg.expm(0.05 * k * chain) for k in range(40)])
    runs = [
        (0.05 * np.arange(40), steps @ rng.standard_normal(12) + 1e-3 * rng.standard_normal((40, 12)))
        for _ in range(12)
    ]
    model = identify(runs, Polynomial(1))
    truth = np.vstack([np.zeros(12), chain.T])
    np.testing.assert_array_equal(model.coef != 0, truth != 0)
    assert np.abs(model.coef - truth).max() < 0.01


@pytest.mark.parametrize(
    ("name", "tolerance"), [("rössler", 1e-6), ("lotka-volterra", 1e-8), ("van der pol", 1e-10)]
)
def test_data_of_a_solver_give_the_true_terms_whatever_its_tolerance(name, tolerance):
    law = SYSTEMS[name]
    t = np.linspace(0.0, law.horizon, 500)
    run = solve_ivp(
        lambda _, x: law.slope(x), (0.0, t[-1]), law.start, t_eval=t, rtol=tolerance, atol=tolerance
    )
    model = cindy.identify(cindy.Trajectory(t, run.y.T, law.states), cindy.Polynomial(3))
    np.testing.assert_array_equal(model.coef != 0.0, law.truth != 0.0)
    assert [finding.code for finding in model.findings] == ["tiny-residual"]
