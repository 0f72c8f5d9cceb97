"""Simulation: exact where a solution is known, stopped where there is none."""

import numpy as np
import pytest

from cindy.basis import Custom, Polynomial
from cindy.errors import DataError
from cindy.formulation import Differential, Discrete, Integral
from cindy.model.model import Model
from cindy.model.simulation import Limits
from cindy.systems import fput, kuramoto, lorenz, michaelis_menten, rossler, spring_masses, van_der_pol

SYSTEMS = [
    lorenz(),
    rossler(),
    van_der_pol(),
    michaelis_menten(),
    kuramoto(5),
    kuramoto(10),
    fput(5),
    spring_masses(),
]


def model_of(system):
    form = Integral(order=system.order)
    return Model(system.coef, system.basis, system.states, formulation=form)


def scalar(term, coefficient, *, basis=None, **more):
    basis = basis or Polynomial(3)
    empty = Model(np.zeros((len(basis.names(("x",))), 1)), basis, ("x",), **more)
    return empty.with_coef({("x", term): coefficient})


@pytest.mark.parametrize("system", SYSTEMS, ids=lambda s: s.name)
def test_a_simulation_of_the_true_equations_is_the_reference_solution(system):
    reference = system.simulate(seed=3)[0]
    found = model_of(system).simulate(reference.x[0], reference.t)
    assert found.stopped is None
    # The chaotic ones multiply the tolerance of a step, 1e-9, by e^(λ t) with λ t up to 7.
    assert np.max(np.abs(found.x - reference.x)) <= 1e-6 * np.max(np.abs(reference.x))


def test_a_second_order_model_starts_from_positions_and_velocities_in_either_form():
    spring = scalar("x", -4.0, formulation=Integral(order=2))
    t = np.linspace(0, 3, 50)
    exact = np.cos(2 * t) + 0.5 * np.sin(2 * t)
    for found in (spring.simulate([1.0], t, v0=[1.0]), spring.simulate([1.0, 1.0], t)):
        np.testing.assert_allclose(found.x[:, 0], exact, atol=1e-7)
    np.testing.assert_allclose(spring.simulate([1.0], t).x[:, 0], np.cos(2 * t), atol=1e-7)


def test_a_discrete_model_takes_one_step_per_time():
    halving = scalar("x", 0.5, formulation=Discrete())
    found = halving.simulate([8.0], np.arange(4.0))
    assert found.x[:, 0].tolist() == [8.0, 4.0, 2.0, 1.0]


@pytest.mark.parametrize("as_function", [True, False])
def test_inputs_drive_the_solution(as_function):
    # x' = −x + u with u = t: x = t − 1 + e^(−t)
    basis = Polynomial(1)
    model = Model(np.array([[0.0], [-1.0], [1.0]]), basis, ("x",), inputs=("u",))
    t = np.linspace(0, 4, 41)
    found = model.simulate([0.0], t, (lambda s: s) if as_function else t[:, None])
    np.testing.assert_allclose(found.x[:, 0], t - 1 + np.exp(-t), atol=1e-7)
    np.testing.assert_allclose(found.u[:, 0], t)


BLOW_UPS = [
    (scalar("x^2", 1.0), 1.0, 1.0),
    (scalar("x^3", 1.0), 1.0, 0.5),
    (scalar("x^2", 1e6), 1.0, 1e-6),
    (scalar("x^2", 1.0), 1e-3, 1e3),
    (scalar("exp(x)", 1.0, basis=Custom({"exp(x)": "exp(x)"})), 0.0, 1.0),
]


@pytest.mark.parametrize(("model", "start", "end"), BLOW_UPS)
@pytest.mark.parametrize("samples", [2, 11, 1001])
def test_a_blow_up_ends_the_trajectory_and_says_when(model, start, end, samples):
    t = np.linspace(0, 2 * end, samples)
    found = model.simulate([start], t)
    assert len(found) == np.count_nonzero(t < end)
    assert "x" in found.stopped
    said = float(found.stopped.split("t = ")[1].split(":")[0].split(" ")[0])
    assert said == pytest.approx(end, rel=1e-3)


def test_a_blow_up_of_iterates_ends_them():
    found = scalar("x^2", 1.0, formulation=Discrete()).simulate([2.0], np.arange(100.0))
    assert found.x[:, 0].tolist() == [2.0, 4.0, 16.0, 256.0, 65536.0, 65536.0**2]
    assert "x blew up at t = 6" in found.stopped


def test_growth_within_the_limit_is_followed():
    t = np.linspace(0, 30, 31)
    assert "blew up" in scalar("x", 1.0).simulate([1.0], t).stopped
    found = scalar("x", 1.0).simulate([1.0], t, limits=Limits(growth=np.inf))
    np.testing.assert_allclose(found.x[:, 0], np.exp(t), rtol=1e-6)


def test_a_solution_that_leaves_the_domain_is_followed_up_to_there():
    draining = scalar("sqrt(x)", -2.0, basis=Custom({"sqrt(x)": "sqrt(x)"}))
    t = np.linspace(0, 3, 61)
    found = draining.simulate([1.0], t)
    np.testing.assert_allclose(found.x[:, 0], (1 - t[: len(found)]) ** 2, atol=1e-7)
    assert found.t[-1] >= 0.95
    assert "has no value" in found.stopped


@pytest.mark.parametrize("t", [[0.0], [0.0, 1.0], [0.0, 0.5, 1.0]])
def test_a_start_out_of_bounds_is_all_there_is(t):
    assert len(scalar("x", 1.0).simulate([1.0], t, limits=Limits(growth=0.5))) == 1


def test_a_solution_with_a_switch_that_blows_up_says_so():
    growing = Model([[1.0]], Custom({"x |x|": "x*abs(x)"}), ("x",))
    found = growing.simulate([1.0], np.linspace(0, 2, 101))
    assert found.t[-1] == pytest.approx(0.98)
    assert "x blew up at t = 1" in found.stopped


def test_a_map_makes_one_step_per_time_whatever_the_clock_of_its_inputs():
    counting = Model([[0.0], [1.0], [1.0]], Polynomial(1), ("x",), inputs=("u",), formulation=Discrete())
    u_t = np.arange(0.0, 10.0, 0.25)
    found = counting.simulate([0.0], np.arange(5.0), np.ones((len(u_t), 1)), u_t=u_t)
    assert found.x[:, 0].tolist() == [0.0, 1.0, 2.0, 3.0, 4.0]


def test_a_solution_too_fast_to_follow_is_given_up():
    spinning = Model(np.array([[0, 0], [0, 1e12], [-1e12, 0]]), Polynomial(1), ("x", "y"))
    found = spinning.simulate([1.0, 0.0], [0.0, 1.0], limits=Limits(steps=3000))
    assert len(found) == 1
    assert "too fast" in found.stopped


def test_stiff_equations_are_solved():
    # Robertson's kinetics, whose rates span nine orders of magnitude
    basis = Polynomial(2)
    model = Model(np.zeros((10, 3)), basis, ("a", "b", "c")).with_coef(
        {
            ("a", "a"): -0.04,
            ("a", "b c"): 1e4,
            ("b", "a"): 0.04,
            ("b", "b c"): -1e4,
            ("b", "b^2"): -3e7,
            ("c", "b^2"): 3e7,
        }
    )
    found = model.simulate([1.0, 0.0, 0.0], [0.0, 0.4, 40.0, 4000.0])
    # Hairer and Wanner, Solving Ordinary Differential Equations II
    np.testing.assert_allclose(found.x[1], [0.98517, 3.3864e-5, 1.4794e-2], rtol=1e-4)
    np.testing.assert_allclose(found.x[2], [0.71583, 9.1855e-6, 0.28416], rtol=1e-4)


BAD_CALLS = [
    ({"x0": [1.0, 2.0], "t": [0, 1]}, "x0 must have 1 values"),
    ({"x0": [np.nan], "t": [0, 1]}, "must be finite"),
    ({"x0": [1.0], "t": [0, 1, 1]}, "must increase"),
    ({"x0": [1.0], "t": []}, "empty"),
    ({"x0": [1.0], "t": [0, 1], "v0": [1.0]}, "`v0` must be left out"),
    ({"x0": [1.0], "t": [0, 1], "u": [1, 2]}, "`u` must be left out"),
]


@pytest.mark.parametrize(("call", "sentence"), BAD_CALLS)
def test_a_call_that_cannot_be_meant_is_refused(call, sentence):
    with pytest.raises(DataError, match=sentence):
        scalar("x", -1.0, formulation=Differential()).simulate(**call)


def test_a_driven_model_asks_for_its_inputs():
    model = Model(np.zeros((3, 1)), Polynomial(1), ("x",), inputs=("u",))
    with pytest.raises(DataError, match="`u` must give"):
        model.simulate([0.0], [0.0, 1.0])
    with pytest.raises(DataError, match=r"shape \(2, 1\)"):
        model.simulate([0.0], [0.0, 1.0], np.zeros((3, 1)))
    with pytest.raises(DataError, match=r"must return 1 value, but"):
        model.simulate([0.0], [0.0, 1.0], lambda t: [t, t])


@pytest.mark.parametrize("setting", ["rtol", "atol", "growth", "steps"])
def test_limits_must_be_positive(setting):
    with pytest.raises(DataError, match=setting):
        Limits(**{setting: 0})
