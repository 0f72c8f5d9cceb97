"""Equations that switch: events are located, and solutions slide along a surface instead of chattering."""

import numpy as np
import pytest
from scipy.integrate import solve_ivp
from scipy.optimize import brentq

import cindy
from cindy import Custom, Model, Polynomial

MU, PUSH, PACE = 1.0, 1.4, 0.35
"""Of a mass on a spring: dry friction, drive and its frequency; it sticks twice a period."""


def oscillator(mu=MU, push=PUSH, pace=PACE):
    basis = Custom({"x": "x", "v": "v", "friction": "sign(v)", "drive": f"cos({pace!r}*t)"})
    return Model([[0, -1], [1, 0], [0, -mu], [0, push]], basis, ("x", "v"), inputs=("t",))


class Reference:
    """The same by hand: exact solutions of each phase, joined at roots of exact functions.

    Slipping with the sign s: x = −μ s + a cos t + b sin t + p cos ωt, p = A/(1 − ω²).
    Sticking: x stays, as long as |A cos ωt − x| ≤ μ.
    """

    def __init__(self, mu=MU, push=PUSH, pace=PACE):
        self.mu, self.push, self.pace, self.p = mu, push, pace, push / (1 - pace**2)

    def slipping(self, t0, x0, v0, s):
        c, d = np.cos(t0), np.sin(t0)
        left = x0 + self.mu * s - self.p * np.cos(self.pace * t0)
        right = v0 + self.p * self.pace * np.sin(self.pace * t0)
        a, b = c * left - d * right, d * left + c * right

        def x(t):
            return -self.mu * s + a * np.cos(t) + b * np.sin(t) + self.p * np.cos(self.pace * t)

        def v(t):
            return -a * np.sin(t) + b * np.cos(t) - self.p * self.pace * np.sin(self.pace * t)

        return x, v

    def first_root(self, f, t0, step=1e-3, most=100.0):
        t = t0 + step
        while t < t0 + most:
            if f(t) <= 0:
                return brentq(f, t - step, t, xtol=1e-14)
            t += step
        raise AssertionError("no root")

    def run(self, x0, v0, sticks):
        """(begin, x(t), v(t)) of each phase until so many sticks have ended."""
        phases, t, x, v, ended = [], 0.0, x0, v0, 0
        side = np.sign(v0)
        while ended < sticks:
            fx, fv = self.slipping(t, x, v, side)
            phases.append((t, fx, fv))
            t = self.first_root(lambda s, fv=fv, side=side: side * fv(s), t + 1e-6)
            x, v = float(fx(t)), 0.0
            force = self.push * np.cos(self.pace * t) - x
            if abs(force) <= self.mu:
                phases.append((t, lambda s, x=x: x + 0 * s, lambda s: 0.0 * s))
                t = self.first_root(lambda s, x=x: self.mu - abs(self.push * np.cos(self.pace * s) - x), t)
                ended += 1
                force = self.push * np.cos(self.pace * t) - x
            side = np.sign(force)
        return phases, t

    def at(self, phases, times):
        begins = np.array([begin for begin, _, _ in phases])
        which = np.searchsorted(begins, times, side="right") - 1
        return np.array([[float(f(t)) for f in phases[k][1:]] for k, t in zip(which, times, strict=True)])


def test_a_stick_slip_oscillator_follows_the_exact_solution_through_twenty_sticks():
    reference = Reference()
    phases, end = reference.run(2.0, 0.5, 20)
    times = np.linspace(0.0, end, 800)
    found = oscillator().simulate([2.0, 0.5], times)
    assert found.stopped is None
    exact = reference.at(phases, times)
    at_rest = np.mean(exact[:, 1] == 0)
    assert 0.1 < at_rest < 0.9
    np.testing.assert_allclose(found.x, exact, atol=1e-6)


def test_a_body_on_a_belt_sticks_to_it_and_slips_from_it():
    # With Coulomb friction alone the slip is a half circle about −μ: its start and its end are known.
    belt, mu = 0.3, 1.0
    basis = Custom({"x": "x", "v": "v", "friction": f"sign({belt} - v)"})
    model = Model([[0, -1], [1, 0], [0, mu]], basis, ("x", "v"))
    found = model.simulate([0.0, belt], np.linspace(0, 6, 601))
    # It rides on the belt until the spring is as strong as friction: x = μ at t = μ/belt.
    riding = found.t <= mu / belt
    np.testing.assert_allclose(
        found.x[riding], np.stack([belt * found.t, belt + 0 * found.t], 1)[riding], atol=1e-9
    )
    after = found.t[~riding] - mu / belt
    np.testing.assert_allclose(found.x[~riding, 0], mu + belt * np.sin(after), atol=1e-6)


def test_a_body_at_rest_under_friction_stays_at_rest():
    found = oscillator(push=0.5).simulate([0.2, 0.0], np.linspace(0, 20, 50))
    np.testing.assert_allclose(found.x, [[0.2, 0.0]] * 50, atol=1e-12)


def test_two_bodies_stick_and_slip_each_for_itself():
    basis = Custom({"v": "v", "w": "w", "a": "sign(v)", "b": "sign(w)", "c": "cos(t)"})
    model = Model([[0, 0], [0, 0], [-1, 0], [0, -0.25], [0.5, 0.5]], basis, ("v", "w"), inputs=("t",))
    found = model.simulate([0.5, 0.0], np.linspace(0, 12, 241))
    alone = [
        Model([[-1.0], [0.5]], Custom({"a": "sign(v)", "c": "cos(t)"}), ("v",), inputs=("t",)),
        Model([[-0.25], [0.5]], Custom({"b": "sign(w)", "c": "cos(t)"}), ("w",), inputs=("t",)),
    ]
    for j, (model, start) in enumerate(zip(alone, (0.5, 0.0), strict=True)):
        np.testing.assert_allclose(found.x[:, j], model.simulate([start], found.t).x[:, 0], atol=1e-7)
    assert np.all(np.abs(found.x[found.t > 2, 0]) < 1e-9)
    assert np.ptp(found.x[:, 1]) > 0.1


SMOOTH = {
    "abs": ("abs(x)", lambda x, t: abs(x)),
    "max": ("max(x, 0.3)", lambda x, t: max(x, 0.3)),
    "min of three": ("min(x, 0.5, 1 - x)", lambda x, t: min(x, 0.5, 1 - x)),
    "where": ("where(x > 0.2, x, 1 + x)", lambda x, t: x if x > 0.2 else 1 + x),
    "comparison": ("x*(t >= 1)", lambda x, t: x * (t >= 1)),
    "nested": ("max(abs(x) - 0.5, 0)", lambda x, t: max(abs(x) - 0.5, 0)),
}


@pytest.mark.parametrize("name", SMOOTH)
def test_a_switch_that_is_crossed_costs_no_accuracy(name):
    formula, function = SMOOTH[name]
    basis = Custom({"f": formula, "drive": "cos(3*t)"})
    model = Model([[-1.0], [2.0]], basis, ("x",), inputs=("t",))
    times = np.linspace(0, 6, 61)
    found = model.simulate([0.7], times)
    exact = solve_ivp(
        lambda t, x: [-function(x[0], t) + 2 * np.cos(3 * t)], (0, 6), [0.7],
        method="DOP853", rtol=1e-10, atol=1e-12, max_step=5e-3, t_eval=times,
    )  # fmt: skip
    np.testing.assert_allclose(found.x[:, 0], exact.y[0], atol=2e-6)


def test_switches_hold_for_positions_with_rates_and_for_held_inputs():
    form = cindy.Integral(order=2, rates=True)
    basis = Custom({"x": "x", "friction": "sign(x')", "u": "u"})
    model = Model([[-1.0], [-0.5], [1.0]], basis, ("x",), inputs=("u",), formulation=form)
    t = np.linspace(0, 10, 101)
    u = np.where(t < 5, 0.3, 2.0)[:, None]
    found = model.simulate([0.4, 0.0], t, u, hold="zero")
    early = found.t <= 5
    np.testing.assert_allclose(found.x[early, 0], 0.4, atol=1e-10)
    assert found.x[-1, 0] > 1.0


def test_equations_without_a_switch_do_not_ask_for_any():
    assert Model([[0.0], [-1.0]], Polynomial(1), ("x",)).switches is None
    unused = Model([[0.0], [-1.0]], Custom({"a": "sign(x)", "b": "x"}), ("x",))
    assert unused.switches is None


@pytest.mark.parametrize("late", [-0.5, -0.2, 0.0, 0.3, 0.5])
@pytest.mark.parametrize("formula", ["sign(v)", "2*(v > 0) - 1", "where(v <= 0, -1, 1)"])
def test_the_means_of_a_jump_at_samples_add_up_to_its_integral(formula, late):
    v = np.arange(-6.0, 7.0) + late
    [[factor]] = Custom({"f": formula}).terms(("v",))
    [surface] = factor.expression.switches()
    spread = factor.expression.averaged({surface: 1.0})
    # v passes zero at −late: of thirteen steps so many lie before and behind it.
    assert np.isclose(np.sum(spread.evaluate({"v": v})), 2 * late, atol=1e-12)
    slope = spread.derivative("v").evaluate({"v": v})
    assert np.all(slope[np.abs(v) < 0.9] > 0)
    assert np.all(slope[np.abs(v) > 1] == 0)


def test_a_jump_of_an_input_and_a_branch_without_values_stay_as_they_are():
    basis = Custom({"on": "sign(u)", "root": "where(x > 0, sqrt(abs(x)), x)", "corner": "abs(x)"})
    t = np.linspace(0, 10, 200)
    data = cindy.Trajectory(t, np.sin(t), ("x",), u=np.sign(np.sin(3 * t)), inputs=("u",))
    motion = cindy.Integral().motion([data], basis)
    assert motion is not None
    assert motion.basis.terms(("x", "u")) == basis.terms(("x", "u"))


def test_dry_friction_is_found_where_the_velocity_passes_zero_within_a_step():
    basis = Custom({"x": "x", "v": "v", "sign(v)": "sign(v)"})
    model = Model([[0.0, -4.0], [1.0, 0.0], [0.0, -0.3]], basis, ("x", "v"))
    exact = model.simulate([2.0, 0.0], np.linspace(0, 8, 200))
    noise = 2e-4 * exact.x.std(axis=0) * np.random.default_rng(1).standard_normal(exact.x.shape)
    data = cindy.Trajectory(exact.t, exact.x + noise, ("x", "v"))
    found = cindy.identify(data, Polynomial(1) + Custom({"sign(v)": "sign(v)"}))
    assert found.size == 3
    place = found.place("v", "sign(v)")
    assert abs(found.coef[place] + 0.3) < 3 * found.coef_error[place]
    assert found.coef_error[place] < 1e-4
    assert not found.findings
