"""Problem: scaling and its undoing, the radius, the weights, and what cannot be."""

import numpy as np
import pytest
from hypothesis import given, strategies as st

import cindy
from cindy import Adaptive, Polynomial, Problem, Trajectory, Uniform
from cindy.errors import CindyError, ConstraintError, DataError, InfeasibleError
from cindy.summary import accumulate
from cindy.systems import lotka_volterra, michaelis_menten

SYSTEM = michaelis_menten()
LAWS = [*SYSTEM.constraints(), cindy.bound("P", "ES", 0.2, 0.8), cindy.fix("S", "1", 0.125)]


@pytest.fixture(scope="module")
def summary():
    return accumulate(SYSTEM.simulate(seed=0, noise=1e-3, trajectories=20, points=800), SYSTEM.basis)


def line(samples=50):
    t = np.linspace(0, 4, samples)
    return Trajectory(t, np.stack([np.exp(-t), np.cos(t)], axis=1), ("x", "y"))


def test_scaled_terms_and_targets_have_unit_root_mean_square(summary):
    objective = Problem(summary).objective
    np.testing.assert_allclose(np.sum(objective.design**2, axis=0) / objective.rows, 1.0)
    np.testing.assert_allclose(np.sum(objective.target**2, axis=0) / objective.rows, 1.0)


@given(st.integers(0, 1000))
def test_scaling_is_undone_exactly(seed):
    problem = Problem(accumulate(line(), Polynomial(2)))
    coef = np.random.default_rng(seed).standard_normal((6, 2)) * 10.0 ** np.arange(-5, 7, 2)[:, None]
    np.testing.assert_allclose(problem.physical(problem.form.scaled(coef)), coef, rtol=1e-15)


def test_residuals_in_scaled_units_are_those_in_physical_units_divided_by_the_size_of_the_target(summary):
    problem = Problem(summary)
    coef = SYSTEM.coef + 0.1
    scaled = problem.objective.residual(problem.form.scaled(coef)) * problem.size
    physical = summary.total.residual(coef)
    np.testing.assert_allclose(np.sum(scaled**2, axis=0), np.sum(physical**2, axis=0), rtol=1e-9)


def test_constraints_mean_the_same_scaled_and_physical(summary):
    problem = Problem(summary, constraints=LAWS)
    rng = np.random.default_rng(0)
    for _ in range(20):
        coef = rng.standard_normal((15, 4))
        x = problem.form.scaled(coef).ravel()
        scaled = problem.form.scaled_rows
        for below, physical in ((scaled.lower, problem.rows.lower), (scaled.upper, problem.rows.upper)):
            inside, outside = scaled.matrix @ x - below, problem.rows.matrix @ coef.ravel() - physical
            np.testing.assert_array_equal(np.sign(inside), np.sign(outside))
    assert problem.violation(SYSTEM.coef) == pytest.approx(0.2)


def test_the_radius_is_twice_the_norm_of_least_squares(summary):
    problem = Problem(summary, weights=Uniform())
    total = problem.objective
    least = np.linalg.lstsq(total.design, total.target)[0]
    assert problem.region.radius == pytest.approx(2 * np.abs(least).sum(), rel=1e-3)
    assert Problem(summary, radius=1.5).region.radius == 1.5


def test_the_pilot_obeys_the_equalities_and_is_steady_where_terms_depend_on_each_other():
    t = np.linspace(0, 10, 400)
    rng = np.random.default_rng(0)
    circle = Trajectory(
        t, np.stack([np.cos(t), np.sin(t)], 1) + 1e-6 * rng.standard_normal((400, 2)), ("x", "y")
    )
    problem = Problem(
        accumulate(circle, Polynomial(3)), constraints=[cindy.tie(("x", "y"), ("y", "x"), -1.0)]
    )
    pilot = problem.form.pilot
    assert np.abs(pilot).max() < 10
    assert problem.violation(problem.physical(pilot)) < 1e-12
    coef = problem.physical(pilot)
    assert coef[2, 0] == pytest.approx(-coef[1, 1])


def test_the_weights_fall_with_the_pilot(summary):
    pilot = np.array([[4.0, -1.0], [0.5, 0.0]])
    np.testing.assert_array_equal(Uniform().of(pilot), np.ones((2, 2)))
    np.testing.assert_allclose(Adaptive().of(pilot), [[1, 4], [8, 1e6]])
    np.testing.assert_allclose(Adaptive(power=0.5).of(pilot), [[1, 2], [np.sqrt(8), 1e3]])
    np.testing.assert_array_equal(Adaptive().of(np.zeros((2, 2))), np.ones((2, 2)))
    assert Problem(summary, weights=Uniform()).region.weights.tolist() == [1.0] * 60
    with pytest.raises(DataError, match="power"):
        Adaptive(power=0.0)


def test_constraints_may_ask_for_more_than_least_squares_has(summary):
    problem = Problem(summary, constraints=[cindy.bound("P", "P^2", lower=1e4)])
    problem.require_feasible()
    assert problem.violation(cindy.solve(problem).coef) < 1e-9


EXCLUSIVE = [
    ([cindy.fix("P", "ES", 1), cindy.fix("P", "ES", 2)], "these two constraints exclude each other"),
    ([cindy.fix("P", "ES", 1), cindy.bound("P", "ES", upper=0.5)], "these two constraints exclude"),
    (
        [cindy.bound("P", "ES", 1), cindy.fix("S", "S", 0), cindy.bound("P", "ES", upper=0.5)],
        r'these two .*: "1 ≤ \[P: ES\]", "\[P: ES\] ≤ 0.5"',
    ),
    (
        [*SYSTEM.constraints(), cindy.fix("S", "ES", 1), cindy.fix("ES", "ES", 1), cindy.fix("P", "ES", 1)],
        "these 4 constraints exclude each other",
    ),
    ([cindy.conserve(["P"], rate=1), cindy.conserve(["P"])], "these two constraints exclude each other"),
    ([cindy.linear({("P", "ES"): 0.0}, 1, 2)], "cannot be satisfied by any coefficients"),
    ([cindy.tie(("P", "ES"), ("P", "ES"), 2.0), cindy.fix("P", "ES", 1)], "these two constraints exclude"),
]  # fmt: skip


@pytest.mark.parametrize(
    ("constraints", "sentence"), EXCLUSIVE, ids=[" ".join(map(str, e[0])) for e in EXCLUSIVE]
)
def test_constraints_that_exclude_each_other_are_named(summary, constraints, sentence):
    with pytest.raises(InfeasibleError, match=sentence):
        Problem(summary, constraints=constraints).require_feasible()
    with pytest.raises(InfeasibleError, match=sentence):
        cindy.solve(Problem(summary, constraints=constraints))


def test_a_radius_too_small_for_the_constraints_says_which_would_do(summary):
    problem = Problem(summary, constraints=[cindy.fix("P", "ES", 1.0)], radius=1e-3)
    with pytest.raises(InfeasibleError, match="smallest feasible radius is") as error:
        problem.require_feasible()
    least = float(str(error.value).rsplit(" ", 1)[1].rstrip("."))
    Problem(summary, constraints=[cindy.fix("P", "ES", 1.0)], radius=least * 1.01).require_feasible()


WRONG = [
    (lambda s: Problem(s, radius=0.0), "`radius` must be a positive number, but is 0.0"),
    (lambda s: Problem(s, radius=-1.0), "`radius`"),
    (lambda s: Problem(s, radius=np.nan), "`radius`"),
    (lambda s: Problem(s, radius="wide"), "`radius` must be a positive number, but is 'wide'"),
    (lambda s: Problem(s, weights="uniform"), "Adaptive.* or Uniform"),
    (lambda s: Problem(s, constraints=["P = 1"]), "made by cindy.fix, bound"),
    (lambda s: Problem(accumulate(line(12), Polynomial(5))), "11 rows of data cannot tell 21 terms apart"),
    (lambda s: Problem(s, constraints=[cindy.conserve(["P"], tolerance=0.1)]).rows, "speaks of samples"),
]  # fmt: skip


@pytest.mark.parametrize(("mistake", "sentence"), WRONG, ids=[w[1] for w in WRONG])
def test_a_mistake_is_told_in_a_sentence(summary, mistake, sentence):
    with pytest.raises(CindyError, match=sentence):
        mistake(summary)


def test_a_state_that_never_changes_is_named():
    t = np.linspace(0, 4, 50)
    still = Trajectory(t, np.stack([np.cos(t), np.ones(50)], axis=1), ("x", "still"))
    problem = Problem(accumulate(still, Polynomial(1)))
    with pytest.raises(DataError, match='state "still" does not change'):
        problem.objective  # noqa: B018


def test_one_constraint_needs_no_list(summary):
    assert Problem(summary, constraints=cindy.fix("P", "ES", 1.0)).constraints == (cindy.fix("P", "ES", 1.0),)
    with pytest.raises(ConstraintError, match="Did you mean"):
        Problem(summary, constraints=cindy.fix("P", "SE", 1.0)).rows  # noqa: B018


def test_a_summary_and_a_problem_give_the_model_that_identify_gives():
    system = lotka_volterra()
    data = system.simulate(seed=1, noise=1e-3)
    model = cindy.identify(data, system.basis, passes=1)
    summary = accumulate(data, system.basis, formulation=model.formulation)
    again = cindy.solve(Problem(summary))
    np.testing.assert_array_equal(again.coef != 0, model.coef != 0)
    np.testing.assert_allclose(again.coef, model.coef, atol=1e-9)
