"""Equalities that must not be zero, and rows without weight, all the way from data to a model."""

from functools import cache

import numpy as np
import pytest
from scipy.integrate import solve_ivp

import cindy
from cindy.errors import ConstraintError, InfeasibleError

RATES = (1.0, 0.4, 0.7)
INFLOW = 0.3


@cache
def runs(noise):
    """S + E ⇌ C → P + E with an inflow of C: E + C changes at a constant rate."""
    rng = np.random.default_rng(5)
    bind, release, convert = RATES

    def rate(_, x):
        s, e, c, _ = x
        flow, back = bind * s * e, (release + convert) * c
        return [-flow + release * c, -flow + back, flow - back + INFLOW, convert * c]

    t = np.linspace(0, 4, 40)
    found = []
    for _ in range(4):
        x = solve_ivp(rate, (0, 4), rng.uniform(0.3, 2, 4), t_eval=t, rtol=1e-8, atol=1e-9).y.T
        noisy = x + noise * x.std(axis=0) * rng.normal(size=x.shape)
        found.append(cindy.Trajectory(t, noisy, ("S", "E", "C", "P")))
    return found


@pytest.fixture
def reactions():
    return runs(3e-2)


LAWS = {
    "a total that changes at a rate": [cindy.conserve({"E": 1, "C": 1}, rate=INFLOW)],
    "a sum with a value": [cindy.linear({("E", "S E"): 1, ("C", "S E"): 1.5}, 0.5, 0.5)],
    "a value beside a law": [
        cindy.conserve({"S": 1, "C": 1, "P": 1}, rate=INFLOW),
        cindy.fix("P", "C", RATES[2]),
    ],
    "a value beside a law that does not hold": [
        cindy.conserve({"S": 1, "C": 1, "P": 1}),
        cindy.fix("P", "E", 1.0),
    ],
    "a sum with a value beside a tie": [
        cindy.tie(("S", "S E"), ("E", "S E")),
        cindy.linear({("E", "S E"): 1, ("E", "C"): 1}, 0.1, 0.1),
    ],
}


@pytest.mark.parametrize(
    ("noise", "law"), [*((3e-2, law) for law in LAWS), *((1e-4, law) for law in list(LAWS)[:2])]
)
def test_an_equality_with_a_value_holds_in_the_model(noise, law):
    # A law that does not hold makes every state wrong: fitting them takes long, and half a run shows as much.
    data = [runs(noise)[0].part(0, 20)] if "does not hold" in law else runs(noise)
    model = cindy.identify(data, cindy.Polynomial(2), constraints=LAWS[law])
    assert model.violation < 1e-9


@pytest.mark.parametrize(
    "rule", [cindy.BIC(), cindy.Terms(7), cindy.Discrepancy(), cindy.CrossValidation(3)], ids=repr
)
def test_every_rule_keeps_what_an_equality_with_a_value_needs(reactions, rule):
    law = cindy.conserve({"E": 1, "C": 1}, rate=INFLOW)
    model = cindy.identify(reactions, cindy.Polynomial(2), constraints=[law], selection=rule)
    assert model.violation < 1e-9
    constant = model.coef[model.terms.index("1")]
    assert constant[1] + constant[2] == pytest.approx(INFLOW)


@pytest.mark.parametrize(
    "constraint",
    [
        cindy.tie(("S", "S"), ("E", "E"), 0.0),
        cindy.tie(("S", "S"), ("S", "S")),
        cindy.tie(("S", "S"), ("S", "S"), 2.0),
        cindy.conserve({"S": 1, "C": 1, "P": 1, "E": 0}, rate=INFLOW),
        cindy.linear({("S", "S"): 0.0, ("E", "E"): 0.0}, -1.0, 1.0),
    ],
    ids=str,
)
def test_weights_of_zero_say_nothing(reactions, constraint):
    model = cindy.identify(reactions, cindy.Polynomial(2), constraints=[constraint])
    assert model.violation < 1e-9


def test_a_tie_to_nothing_keeps_a_coefficient_at_zero(reactions):
    tie = cindy.tie(("S", "S E"), ("E", "E"), 0.0)
    model = cindy.identify(reactions, cindy.Polynomial(2), constraints=[tie])
    assert model.coef[model.terms.index("S E"), 0] == 0.0


def test_a_row_without_weights_that_must_not_be_zero_is_named(reactions):
    with pytest.raises(InfeasibleError, match="cannot be satisfied"):
        cindy.identify(
            reactions, cindy.Polynomial(2), constraints=[cindy.linear({("S", "S"): 0.0}, 1.0, 2.0)]
        )


def test_a_total_of_nothing_is_told():
    with pytest.raises(ConstraintError, match="all 0"):
        cindy.conserve({"S": 0, "E": 0})
