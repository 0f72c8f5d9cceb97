"""A library for each equation, and equations that are known."""

import numpy as np
import pytest
from scipy.integrate import solve_ivp

import cindy
from cindy import ConstraintError, DataError, Polynomial, Trajectory, Trigonometric, fix


@pytest.fixture(scope="module")
def pendulum() -> Trajectory:
    t = np.linspace(0, 20, 400)
    sol = solve_ivp(
        lambda _, x: [x[1], -np.sin(x[0]) - 0.1 * x[1]], (0, 20), [2, 0], t_eval=t, rtol=1e-9, atol=1e-10
    )
    noise = 0.01 * np.random.default_rng(0).standard_normal((400, 2))
    return Trajectory(t, sol.y.T + noise, ("q", "v"))


ANGLE = Polynomial(1) + Trigonometric(1).on("q")


@pytest.mark.parametrize("passes", [None, 1])
def test_each_equation_has_terms_of_its_own_library_only(pendulum, passes):
    model = cindy.identify(pendulum, {"q": "poly:1", "v": ANGLE}, passes=passes)
    allowed = {"q": set(Polynomial(1).names(("q", "v"))), "v": set(ANGLE.names(("q", "v")))}
    for state, column in zip(model.states, model.coef.T, strict=True):
        assert {model.terms[i] for i in np.flatnonzero(column)} <= allowed[state]
    assert model.coef[model.terms.index("v"), 1] == pytest.approx(-0.1, abs=5e-3)
    assert model.violation < 1e-12


def test_equal_libraries_give_the_model_of_one_basis(pendulum):
    shared = cindy.identify(pendulum, ANGLE)
    each = cindy.identify(pendulum, {"q": ANGLE, "v": ANGLE})
    np.testing.assert_array_equal(shared.coef, each.coef)


@pytest.mark.parametrize("passes", [None, 1])
def test_known_equation_is_kept_to_the_digits(pendulum, passes):
    model = cindy.identify(pendulum, ANGLE, known={"q": "v"}, passes=passes)
    assert model.terms == ANGLE.names(("q", "v"))
    np.testing.assert_allclose(model.coef[:, 0], np.array(model.terms) == "v", atol=1e-12)
    assert model.coef_error[model.terms.index("v"), 0] == 0
    np.testing.assert_allclose(model.coef[model.terms.index("sin(q)"), 1], -1, atol=5e-3)


def test_summands_that_no_library_has_become_terms_of_the_known_equation_alone(pendulum):
    model = cindy.identify(pendulum, Polynomial(1), known={"v": "-sin(q) - v/10"})
    assert model.coef[model.terms.index("sin(q)")].tolist() == [0, -1]
    assert model.coef[model.terms.index("v"), 1] == -0.1
    np.testing.assert_allclose(model.coef[model.terms.index("v"), 0], 1, atol=5e-3)


@pytest.mark.parametrize(
    ("basis", "known", "message"),
    [
        ({"q": Polynomial(1)}, None, "no terms for v"),
        ({"z": Polynomial(1)}, None, 'the state "z"'),
        ({"q": 3, "v": Polynomial(1)}, None, 'the library of "q" must be a basis'),
        ({}, None, "`basis` is empty"),
        (ANGLE, {"w": "v"}, 'the state "w"'),
        (ANGLE, {"q": "speed"}, "no variable"),
        (ANGLE, {"q": "v v"}, "cannot be read"),
        (ANGLE, {"q": 1.0}, "a formula in text"),
        (ANGLE, "v", "formulas by state"),
        (Polynomial(1, bias=False), {"q": "v + 1"}, "has the constant 1"),
    ],
)
def test_what_cannot_be_is_said_in_one_sentence(pendulum, basis, known, message):
    with pytest.raises(DataError, match=message):
        cindy.identify(pendulum, basis, known=known)


def test_constraint_that_contradicts_a_known_equation_is_named(pendulum):
    with pytest.raises(
        ConstraintError, match=r"\[q: v\] = 2 contradicts what else was said: q' = v is known"
    ):
        cindy.identify(pendulum, ANGLE, known={"q": "v"}, constraints=[fix("q", "v", 2)])


def test_constraints_beside_libraries_hold(pendulum):
    model = cindy.identify(
        pendulum, {"q": "poly:1", "v": ANGLE}, constraints=[fix("v", "v", -0.1), fix("v", "1", 0)]
    )
    assert model.coef[model.terms.index("v"), 1] == pytest.approx(-0.1, abs=1e-12)
    assert model.coef[model.terms.index("1"), 1] == 0
