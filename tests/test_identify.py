"""identify: what does not matter to it, what does, and how it says no."""

import warnings
from functools import partial

import numpy as np
import pytest
from hypothesis import given, settings, strategies as st
from scipy.integrate import solve_ivp

import cindy
from cindy import (
    Blended,
    Differential,
    Discrete,
    Gap,
    Integral,
    Polynomial,
    Problem,
    Significance,
    Terms,
    Trajectory,
    Uniform,
    bound,
    conserve,
    fix,
    linear,
    solve,
    tie,
)
from cindy.errors import ConvergenceWarning
from cindy.identification import identify
from cindy.summary import accumulate
from cindy.systems import duffing, fput, kuramoto, lorenz, lotka_volterra, michaelis_menten, spring_masses

SYSTEM = lotka_volterra()
DATA = SYSTEM.simulate(seed=0, noise=1e-3)


@pytest.fixture(scope="module")
def model():
    return identify(DATA, SYSTEM.basis)


def with_units(data, units):
    return [Trajectory(one.t, one.x * units, one.states) for one in data]


@pytest.mark.parametrize("system", [lotka_volterra(), lorenz(), duffing(), michaelis_menten(), fput(3)])
def test_units_of_the_states_do_not_matter(system):
    data = system.simulate(seed=0, noise=1e-4, trajectories=system.trajectories // 4, points=450)
    form = Integral(order=system.order)
    plain = identify(data, system.basis, formulation=form)
    mixed = 10.0 ** (6.0 * (np.arange(len(system.states)) % 3 - 1))
    for units in (np.full(len(mixed), 1e-6), np.full(len(mixed), 1e6), mixed):
        model = identify(with_units(data, units), system.basis, formulation=form)
        terms = system.basis.evaluate(units[None], system.states)[0]
        back = model.coef * terms[:, None] / units
        np.testing.assert_array_equal(model.coef != 0, plain.coef != 0)
        np.testing.assert_allclose(back, plain.coef, rtol=1e-6)
        np.testing.assert_allclose(model.coef_error * terms[:, None] / units, plain.coef_error, rtol=1e-4)
        np.testing.assert_allclose(model.noise / units, plain.noise, rtol=1e-6)


@pytest.mark.parametrize("unit", [1e-6, 1e6])
def test_the_unit_of_time_does_not_matter(unit, model):
    slower = [Trajectory(one.t * unit, one.x, one.states) for one in DATA]
    again = identify(slower, SYSTEM.basis)
    np.testing.assert_allclose(again.coef * unit, model.coef, rtol=1e-6)


def test_the_order_of_trajectories_does_not_matter(model):
    order = np.random.default_rng(0).permutation(len(DATA))
    again = identify([DATA[i] for i in order], SYSTEM.basis)
    np.testing.assert_allclose(again.coef, model.coef, rtol=1e-9)
    np.testing.assert_allclose(again.coef_error, model.coef_error, rtol=1e-6)


def test_the_number_of_processes_does_not_matter(model):
    again = identify(DATA, SYSTEM.basis, processes=2)
    np.testing.assert_array_equal(again.coef, model.coef)


def test_chunks_do_not_matter():
    one, other = (accumulate(DATA, SYSTEM.basis, chunk=chunk) for chunk in (17, 100_000))
    first, second = solve(Problem(one)), solve(Problem(other))
    np.testing.assert_allclose(first.coef, second.coef, rtol=1e-9)
    np.testing.assert_array_equal(first.coef != 0, second.coef != 0)


def test_the_same_seed_gives_the_same_model_bit_for_bit(model):
    again = identify(DATA, SYSTEM.basis, seed=0)
    for name in ("coef", "coef_error", "noise", "gap", "radius"):
        np.testing.assert_array_equal(getattr(again, name), getattr(model, name))
    assert [one.size for one in again.path] == [one.size for one in model.path]


def test_pairs_lists_and_trajectories_are_the_same_data(model):
    pairs = identify([(one.t, one.x) for one in DATA], SYSTEM.basis)
    np.testing.assert_array_equal(pairs.coef, model.coef)
    assert pairs.states == ("x1", "x2")


PAPER = [kuramoto(3), lorenz(), michaelis_menten(), fput(3)]


@pytest.mark.parametrize("system", PAPER, ids=lambda s: s.name)
@pytest.mark.parametrize("form", [Differential, lambda order: Integral(order=order, initial="first")])
def test_the_papers_own_algorithm_ends_with_its_gap(system, form):
    data = system.simulate(seed=0, noise=1e-3, points=system.points // 4)
    model = identify(
        data,
        system.basis,
        formulation=form(order=system.order),
        weights=Uniform(),
        correction=Blended(),
        selection=Gap(1e-6),
    )
    assert model.result.gap <= 1e-6
    # Both include what rounding may hide, of which the run asks for no less than its tolerance.
    assert model.gap == pytest.approx(model.result.gap, rel=1e-6, abs=1e-10)
    assert model.result.status == "converged"
    summary = accumulate(data, system.basis, formulation=form(order=system.order))
    scaled = Problem(summary, weights=Uniform()).form.scaled(model.coef)
    assert np.abs(scaled).sum() <= model.radius * (1 + 1e-9)


FORMS = [
    (lotka_volterra(), Differential()),
    (lotka_volterra(), Integral(initial="first")),
    (spring_masses(), Differential(order=2)),
    (spring_masses(), Integral(order=2)),
    (spring_masses(), Integral(order=2, initial="first")),
]


@pytest.mark.parametrize(("system", "form"), FORMS, ids=[f"{s.name} {f}" for s, f in FORMS])
def test_every_formulation_selects_the_right_terms(system, form):
    data = system.simulate(seed=5, noise=1e-4)
    for rule in (Significance(), Terms(4)):
        model = identify(data, system.basis, formulation=form, selection=rule)
        np.testing.assert_array_equal(model.coef != 0, system.coef != 0)
        assert model.formulation.order == system.order


def test_maps_are_found_from_their_iterates():
    rng = np.random.default_rng(0)
    runs = []
    for _ in range(6):
        x = [rng.uniform(0.2, 0.6, 2)]
        for _ in range(150):
            a, b = x[-1]
            x.append(np.array([3.6 * a - 3.6 * a**2, 0.5 * b + 0.3 * a * b + 0.2]))
        runs.append((np.arange(151.0), np.array(x) + 1e-5 * rng.standard_normal((151, 2))))
    model = identify(runs, Polynomial(2), formulation=Discrete())
    expected = np.array([[0, 0.2], [3.6, 0], [0, 0.5], [-3.6, 0], [0, 0.3], [0, 0]])
    np.testing.assert_array_equal(model.coef != 0, expected != 0)
    np.testing.assert_allclose(model.coef, expected, atol=1e-3)


def pushed(rng):
    """A damped swing under a push that is measured too."""
    a, b = rng.uniform(0, 6, 2)
    t = np.linspace(0, 8, 300)

    def push(s):
        return np.sin(2 * s + a) + 0.5 * np.cos(5 * s + b)

    def rates(s, x):
        return [x[1], -2 * x[0] - 0.3 * x[1] + 1.5 * push(s)]

    x = solve_ivp(rates, (0, 8), rng.standard_normal(2), t_eval=t, rtol=1e-9, atol=1e-9).y.T
    return Trajectory(
        t, x + 1e-3 * rng.standard_normal(x.shape), ("x", "v"), u=push(t)[:, None], inputs=("u",)
    )


@pytest.mark.parametrize("form", [Integral(), Integral(initial="first"), Differential()], ids=repr)
def test_inputs_enter_the_equations_and_have_none_themselves(form):
    rng = np.random.default_rng(0)
    runs = [pushed(rng) for _ in range(8)]
    model = identify(runs, Polynomial(2), formulation=form, constraints=[fix("x", "v", 1.0)])
    found = {(model.states[j], model.terms[i]): model.coef[i, j] for i, j in np.argwhere(model.coef)}
    assert found.keys() == {("x", "v"), ("v", "x"), ("v", "v"), ("v", "u")}
    assert found["x", "v"] == pytest.approx(1.0, abs=1e-12)
    assert found["v", "u"] == pytest.approx(1.5, abs=0.01)


@given(st.lists(st.integers(0, 5), min_size=1, max_size=4, unique=True), st.integers(0, 1000))
@settings(max_examples=4)
def test_constraints_hold_to_1e9_on_what_is_returned(kinds, seed):
    rng = np.random.default_rng(seed)
    one, two = (float(v) for v in rng.uniform(-1, 1, 2))
    pool = [
        fix("P", "ES", 0.9 + 0.1 * one),
        bound("E", "ES", upper=1.8 + 0.1 * two),
        tie(("E", "E S"), ("S", "E S"), 1.0 + 0.2 * one),
        conserve({"S": 1, "ES": 1, "P": 1}),
        linear({("E", "ES"): 1.0, ("ES", "ES"): 0.9}, 0.0, 0.1),
        conserve({"E": 1, "ES": 1}, tolerance=0.01),
    ]
    chosen = [pool[k] for k in kinds]
    system = michaelis_menten()
    data = system.simulate(seed=seed, noise=1e-4, trajectories=4, points=160)
    model = identify(data, system.basis, constraints=chosen)
    assert model.violation < 1e-9
    summary = accumulate(data, system.basis)
    exact = [c for c in chosen if "at every sample" not in str(c)]
    assert Problem(summary, constraints=exact).violation(model.coef) < 1e-9
    assert model.constraints == tuple(str(c) for c in chosen)


def test_a_law_within_a_tolerance_holds_at_every_sample():
    system = michaelis_menten()
    data = system.simulate(seed=0, noise=1e-3, trajectories=20, points=1000)
    law = conserve({"S": 1, "ES": 1, "P": 1}, tolerance=1e-4)
    model = identify(data, system.basis, constraints=[law])
    rates = np.concatenate([model.predict(one.x) for one in data]) @ [0, 1, 1, 1]
    assert np.abs(rates).max() <= 1e-4 + 1e-9
    assert np.abs(rates).max() > 1e-6


def test_a_callback_sees_every_step_and_may_stop():
    steps = []

    def watch(step):
        steps.append(step)
        return len(steps) < 3

    model = identify(DATA, SYSTEM.basis, callback=watch, passes=1)
    assert len(steps) == 3
    assert [s.iteration for s in steps] == sorted(s.iteration for s in steps)
    assert model.result.status == "stopped by callback"
    assert any("stopped by callback" in w for w in model.warnings)


def test_a_large_problem_is_certified_by_a_leap_and_its_model_is_the_same():
    system = fput(8)
    data = system.simulate(seed=0, trajectories=60, points=3000, noise=1e-6)
    steps = []
    form = Integral(order=2)
    short = identify(data, system.basis, formulation=form, passes=1)
    watched = identify(data, system.basis, formulation=form, callback=steps.append, passes=1)
    np.testing.assert_array_equal(short.support, system.coef != 0)
    np.testing.assert_allclose(short.coef, watched.coef, rtol=1e-9)
    assert short.settings["correction"] == "Direct(leap=True)"
    assert watched.settings["correction"] == "Direct(leap=False)"
    assert len(steps) > 50 > len(short.result.history)
    assert short.result.gap <= 1e-9  # rounding of the gradient counts in it
    assert short.gap <= watched.gap * (1 + 1e-6) + 1e-12


def test_a_run_that_is_cut_short_warns_once_and_the_model_says_so():
    with warnings.catch_warnings(record=True) as seen:
        warnings.simplefilter("always")
        model = identify(DATA, SYSTEM.basis, max_iter=1)
    assert [w.category for w in seen] == [ConvergenceWarning]
    assert "relative gap of" in str(seen[0].message)
    assert any("iteration limit" in w for w in model.warnings)


def test_a_radius_that_binds_keeps_the_coefficients_inside_and_is_told():
    model = identify(DATA, SYSTEM.basis, passes=1)
    small = identify(DATA, SYSTEM.basis, radius=model.radius / 8, passes=1)
    norm = Problem(accumulate(DATA, SYSTEM.basis, formulation=small.formulation), radius=small.radius)
    assert norm.region.norm(norm.form.scaled(small.coef)) <= small.radius * (1 + 1e-6)
    assert any("radius" in w and "binds" in w for w in small.warnings)
    assert not any("binds" in w for w in model.warnings)


def test_missing_values_and_short_stretches_are_left_out_and_told():
    holes = []
    for k, one in enumerate(DATA):
        x = one.x.copy()
        x[50 + k : 60 + k] = np.nan
        holes.append(Trajectory(one.t, x, one.states))
    holes += [Trajectory(DATA[0].t[:2], DATA[0].x[:2], DATA[0].states, name=name) for name in ("", "dog 7")]
    model = identify(holes, SYSTEM.basis)
    np.testing.assert_array_equal(model.coef != 0, SYSTEM.coef != 0)
    [told] = [f.message for f in model.findings if f.code == "short-stretches"]
    number = len(holes) - 1
    assert told == f'2 runs were left out, with too few samples to use: number {number}, "dog 7".'


@pytest.mark.parametrize("measured_states", [False, True])
def test_the_best_model_comes_back_where_none_is_better_than_chance(measured_states: bool) -> None:
    kicks = np.random.default_rng(4).standard_normal((400, 1))
    x = kicks if measured_states else np.cumsum(kicks, axis=0)
    form = {"formulation": Discrete(), "passes": 1} if measured_states else {}
    asked = partial(cindy.identify, cindy.Trajectory(np.arange(400.0), x, ("x",)), Polynomial(2), **form)
    with pytest.raises(cindy.NoModelError, match='least="best"'):
        asked()
    model = asked(least="best")
    assert model.coef.any()
    assert "not-significant" in {one.code for one in model.findings}
    with pytest.raises(cindy.DataError, match="`least`"):
        asked(least="any")


@pytest.mark.parametrize("rule", ["cv", "discrepancy"])
def test_the_best_model_comes_back_where_a_rule_without_a_price_keeps_nothing(rule: str) -> None:
    noise = np.random.default_rng(77).standard_normal((400, 2))
    asked = partial(cindy.identify, (np.linspace(0, 10, 400), noise), Polynomial(2), selection=rule)
    with pytest.raises(cindy.NoModelError, match='least="best"'):
        asked()
    model = asked(least="best")
    assert np.count_nonzero(model.coef) == 1
    assert "not-significant" in {finding.code for finding in model.findings}


@pytest.mark.parametrize("seed", [2, 3])
def test_a_model_comes_back_where_no_start_leads_to_one_with_a_term(seed: int) -> None:
    rng = np.random.default_rng(seed)
    t = np.linspace(0.0, 20.0, 200)
    # A switch that is taken for a state: no fit with a term converges.
    switch, x = np.repeat(rng.choice([0.0, 1.0], 20), 10), np.zeros(200)
    for k in range(199):
        x[k + 1] = switch[k] + (x[k] - switch[k]) * np.exp(t[0] - t[1])
    states = np.stack([x + 0.01 * rng.standard_normal(200), switch], axis=1)
    model = cindy.identify(cindy.Trajectory(t, states, ("x", "u")), Polynomial(2), least="best")
    assert model.coef.any()
    assert {"not-significant", "not-explained"} & {one.code for one in model.findings}
