"""Read-outs: sensors that measure combinations of states."""

import numpy as np
import pytest

import cindy
from cindy.systems import lotka_volterra


def measured():
    [data] = lotka_volterra().simulate(seed=0, trajectories=1, points=300, noise=0.01)
    return data


def test_a_full_set_of_states_gives_the_model_of_today_to_the_digits():
    data = measured()
    basis = cindy.Polynomial(2)
    plain = cindy.identify(data, basis)
    same = cindy.identify(data, basis, observe={name: name for name in data.states})
    np.testing.assert_array_equal(plain.coef, same.coef)
    np.testing.assert_array_equal(plain.coef_error, same.coef_error)


def test_a_sum_and_one_state_give_the_law_of_both():
    data = measured()
    x, y = data.states
    sums = cindy.Trajectory(data.t, np.column_stack([data.x.sum(axis=1), data.x[:, 0]]), ("total", x))
    model = cindy.identify(sums, cindy.Polynomial(2), observe={"total": f"{x} + {y}"})
    assert set(model.states) == {x, y}
    plain = cindy.identify(data, cindy.Polynomial(2))
    for i, term in enumerate(plain.terms):
        for state in (x, y):
            there = (
                model.coef[model.terms.index(term), model.states.index(state)] if term in model.terms else 0
            )
            assert (there != 0) == (plain.coef[i, plain.states.index(state)] != 0)
    assert "shared-readouts" in {finding.code for finding in model.findings}


@pytest.mark.parametrize(
    ("observe", "said"),
    [
        ({"nobody": "x"}, "nobody"),
        ({"x": "a + b", "y": "a + b + c"}, "combination"),
        ({"x": "a^2"}, "linear combination"),
        ("x + y", "formulas by column"),
    ],
)
def test_a_bad_read_out_is_told_in_a_sentence(observe, said):
    data = cindy.Trajectory(0.1, np.random.default_rng(0).standard_normal((50, 2)), ("x", "y"))
    with pytest.raises(cindy.CindyError, match=said):
        cindy.identify(data, cindy.Polynomial(1), observe=observe)
