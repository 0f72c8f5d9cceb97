"""Where a search begins: starts that are made from the models that others led to."""

import numpy as np
import pytest

import cindy
from cindy import systems
from cindy.least_squares import Rows
from cindy.search.request import Options
from cindy.search.starts import Search, shortest_equations
from cindy.states import NEARBY, start_of

LORENZ = systems.lorenz()
NAMES = LORENZ.basis.names(LORENZ.states)
FALSE = {"x": ("z", "x^2", "y z"), "y": ("y^2", "z"), "z": ("1", "x", "z^2")}


@pytest.fixture(scope="module")
def search():
    data = LORENZ.simulate(3, trajectories=2, points=500, horizon=5.0, noise=0.05)
    motion = cindy.Integral().motion(data, LORENZ.basis)
    return Search(motion, Options(Rows.none(len(motion.candidates)), (), price=12.0))


def met(search, wrong):
    """The true equations, with false terms in those of some states."""
    coef = LORENZ.coef.copy()
    for state in wrong:
        coef[[NAMES.index(term) for term in FALSE[state]], LORENZ.states.index(state)] = 1e-3
    support = np.flatnonzero(coef)
    return search.fit(start_of(search.motion, support, coef.ravel()[support], np.full(3, 0.1)), NEARBY)


def test_equations_that_are_right_in_different_models_are_put_together(search):
    found = [met(search, wrong) for wrong in ("xz", "y")]
    start = shortest_equations(search, min(found, key=search.rank))
    assert np.array_equal(start.law.support, np.flatnonzero(LORENZ.coef))
    end = search.follow(start)
    assert np.array_equal(end.support, start.law.support)
    assert all(search.better(end, other) is end for other in found)


@pytest.mark.parametrize("seed", [5000, 5004])
def test_a_weak_term_is_found_where_the_exact_likelihood_tells_it(seed):
    # By multiple shooting -y in y' is worth 33 and 48 units of -2 log p, and its price is 8. Where the states
    # of a model forget after 100 samples, 6 and 7 units are left.
    t, start = 0.01 * np.arange(1000), np.array([[-8.0, 7.0, 27.0]])
    x = systems.integrate(LORENZ.rhs, start, t)[:, 0]
    noise = 0.3 * x.std() * np.random.default_rng([seed, 30, 10]).standard_normal(x.shape)
    model = cindy.identify(cindy.Trajectory(t, x + noise, LORENZ.states), cindy.Polynomial(2))
    assert np.array_equal(model.coef != 0, LORENZ.coef != 0)
