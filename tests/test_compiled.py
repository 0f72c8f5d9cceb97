"""Compiled right-hand sides at the edges; that they agree with the basis is a law in tests/basis."""

import math

import numpy as np
import pytest
from scipy.integrate import solve_ivp
from tests.test_export import HOSTILE_NAMES

from cindy.basis import Custom, Polynomial
from cindy.basis.plan import _source, compile_rhs
from cindy.errors import DataError


def single(formula):
    """x' = formula(x), compiled."""
    return compile_rhs(Custom({"f": formula}).terms(("x",)), np.ones((1, 1)), ("x",))


@pytest.mark.parametrize("formula", ["log(x)", "1/(x + 1)", "exp(-999*x)", "x**0.5", "sqrt(x)"])
def test_outside_its_domain_a_right_hand_side_is_nan(formula):
    assert math.isnan(single(formula)(0.0, [-1.0])[0])
    assert math.isfinite(single(formula)(0.0, [2.0])[0])


def test_a_custom_function_that_raises_is_named():
    def broken(x):
        raise RuntimeError("out of order")

    with pytest.raises(DataError, match="'f' raised RuntimeError: out of order"):
        single(broken)(0.0, [1.0])


def test_a_custom_function_sees_what_it_sees_in_the_data():
    seen = []

    def curious(x):
        seen.append(x.shape)
        return x.clip(0.0)

    assert single(curious)(0.0, [3.0]) == [3.0]
    assert seen == [(1,)]


def test_a_state_of_the_wrong_length_is_an_error_and_not_nan():
    with pytest.raises(ValueError, match="unpack"):
        single("x")(0.0, [1.0, 2.0])


def test_inputs_come_after_states():
    rhs = compile_rhs(Polynomial(1).terms(("x", "u")), np.array([[0.0], [2.0], [3.0]]), ("x", "u"))
    assert rhs(0.0, [5.0], [7.0]) == rhs(0.0, np.array([5.0]), (7.0,)) == [31.0]


def test_an_input_called_t_is_the_time():
    terms = Custom({"f": "t*u", "g": "x"}).terms(("x", "t", "u"))
    rhs = compile_rhs(terms, np.array([[1.0], [10.0]]), ("x", "t", "u"))
    assert rhs(3.0, [1.0], [5.0]) == [25.0]


def test_terms_without_a_coefficient_are_not_computed():
    terms = Custom({"f": "x", "g": "log(-1 - x^2)"}).terms(("x",))
    assert compile_rhs(terms, np.array([[2.0], [0.0]]), ("x",))(0.0, [3.0]) == [6.0]


def test_nothing_at_all_gives_zeros():
    terms = Polynomial(1).terms(("x", "y"))
    assert compile_rhs(terms, np.zeros((3, 2)), ("x", "y"))(0.0, [1.0, 2.0]) == [0.0, 0.0]


def test_the_source_holds_no_name_of_the_users():
    terms = Polynomial(2).terms(HOSTILE_NAMES)
    source, _ = _source(terms, np.ones((len(terms), len(HOSTILE_NAMES))), HOSTILE_NAMES, len(HOSTILE_NAMES))
    assert source.isascii()
    assert not any(name in source for name in HOSTILE_NAMES if name not in ("2", "class", "math"))


def test_coefficients_must_fit_and_be_finite():
    terms = Polynomial(1).terms(("x",))
    for coef in (np.ones((3, 1)), np.ones((2, 2)), np.array([[1.0], [np.inf]])):
        with pytest.raises(DataError):
            compile_rhs(terms, coef, ("x",))


def test_an_integrator_takes_the_function_as_it_is():
    rhs = compile_rhs(Polynomial(1).terms(("x", "v")), np.array([[0, 0], [0, -1.0], [1.0, 0]]), ("x", "v"))
    path = solve_ivp(rhs, (0, 1), [0.0, 1.0], method="LSODA", rtol=1e-10, atol=1e-12)
    assert path.y[0, -1] == pytest.approx(math.sin(1.0), rel=1e-8)
