"""Laws over every reference system: coefficients, trajectories, noise, physics."""

from dataclasses import replace

import numpy as np
import pytest
from scipy.integrate import solve_ivp

from cindy import systems
from cindy.errors import CindyError, DataError
from cindy.problem.constraint import Names
from cindy.systems import integrate, system as reference

SYSTEMS = {
    "kuramoto5": systems.kuramoto,
    "kuramoto10": lambda: systems.kuramoto(10),
    "fput5": systems.fput,
    "fput10": lambda: systems.fput(10, amplitude=1.0),
    "michaelis": systems.michaelis_menten,
    "springs": systems.spring_masses,
    "lorenz": systems.lorenz,
    "rossler": systems.rossler,
    "lotka_volterra": systems.lotka_volterra,
    "van_der_pol": systems.van_der_pol,
    "duffing": systems.duffing,
    "sir": systems.sir,
}


@pytest.fixture(params=SYSTEMS, scope="module")
def system(request):
    return SYSTEMS[request.param]()


def test_the_true_coefficients_in_the_basis_are_the_right_hand_side(system):
    x = system.initial(np.random.default_rng(0), 50)
    np.testing.assert_allclose(
        system.basis.evaluate(x, system.states) @ system.coef, system.rhs(x), rtol=1e-12, atol=1e-13
    )


@pytest.mark.parametrize(
    ("name", "terms", "nonzero"),
    [
        ("kuramoto5", 56, 50),
        ("kuramoto10", 211, 200),
        ("fput5", 56, 42),
        ("fput10", 286, 92),
        ("michaelis", 15, 7),
        ("springs", 3, 4),
    ],
)
def test_the_papers_dictionaries_and_supports_have_the_papers_sizes(name, terms, nonzero):
    coef = SYSTEMS[name]().coef
    assert (len(coef), np.count_nonzero(coef)) == (terms, nonzero)


@pytest.mark.parametrize(
    ("name", "points", "trajectories", "horizon"),
    [
        ("kuramoto5", 6000, 40, 10.0),
        ("kuramoto10", 6000, 40, 10.0),
        ("fput5", 4500, 150, 1.0),
        ("fput10", 9000, 150, 1.0),
        ("michaelis", 6000, 150, 0.01),
    ],
)
def test_an_experiment_has_the_papers_size(name, points, trajectories, horizon):
    runs = SYSTEMS[name]().simulate(0)
    assert len(runs) == trajectories
    assert sum(len(r) for r in runs) == points
    assert {(r.t[0], r.t[-1]) for r in runs} == {(0.0, horizon)}


def test_trajectories_agree_with_an_independent_integrator(system):
    (run,) = system.simulate(3, trajectories=1, points=20)
    d = len(system.states)

    def rhs(_, z):
        return system.rhs(z) if system.order == 1 else np.concatenate([z[d:], system.rhs(z[:d])])

    start = run.x[0] if system.order == 1 else np.concatenate([run.x[0], np.zeros(d)])
    other = solve_ivp(
        rhs, (0, run.t[-1]), start, method="DOP853", rtol=3e-14, atol=1e-15, t_eval=run.t, max_step=0.01
    )
    # As good as the other integrator; the next test is sharper.
    np.testing.assert_allclose(run.x, other.y[:d].T, atol=1e-10 * max(1.0, np.abs(run.x).max()))


def test_trajectories_are_exact_to_1e_13_of_their_size(system, monkeypatch):
    """Polynomials of another degree take other steps and make another error: both share the solution."""
    runs = system.simulate(3, trajectories=4)
    monkeypatch.setattr(reference, "_SCHEME", replace(reference._SCHEME, nodes=18))
    for run, other in zip(runs, system.simulate(3, trajectories=4), strict=True):
        assert np.abs(run.x - other.x).max() < 1e-13 * max(1.0, np.abs(run.x).max())


@pytest.mark.parametrize("samples", [2, 5, 400])
def test_the_integrator_meets_closed_forms_between_dense_samples_and_sparse_ones(samples):
    t = np.linspace(0, 20, samples)
    start = np.array([[1.0, 0.0], [0.0, 2.0]])
    spin = integrate(lambda z: np.stack([z[:, 1], -z[:, 0]], axis=1), start, t)
    np.testing.assert_allclose(spin[:, 0, 0], np.cos(t), atol=2e-15)
    np.testing.assert_allclose(spin[:, 1, 0], 2 * np.sin(t), atol=4e-15)


def test_the_integrator_meets_a_closed_form_that_is_not_linear():
    t = np.linspace(0, 8, 50)
    start = np.array([[0.01], [0.5], [3.0]])
    logistic = integrate(lambda x: x * (1 - x), start, t)[:, :, 0]
    grown = start[:, 0] * np.exp(t[:, None])
    np.testing.assert_allclose(logistic, grown / (1 - start[:, 0] + grown), rtol=1e-14)


def test_a_right_hand_side_in_double_precision_takes_steps_as_long_as_another():
    calls = []

    def rhs(x, kind):
        calls.append(kind)
        x = np.asarray(x, dtype=kind)
        return np.stack([x[:, 1], -np.sin(x[:, 0])], axis=1)

    t, start = np.linspace(0, 20, 200), np.array([[1.0, 0.0]])
    double, wide = (integrate(lambda x, k=k: rhs(x, k), start, t) for k in (np.float64, np.longdouble))
    np.testing.assert_allclose(double, wide, atol=2e-14)
    assert calls.count(np.float64) < 2 * calls.count(np.longdouble)


@pytest.mark.parametrize("samples", [2, 500])
def test_a_solution_that_leaves_every_bound_is_an_error_and_not_a_loop(samples):
    with pytest.raises(CindyError, match="shorter horizon"):
        integrate(lambda x: x * x, np.array([[1.0]]), np.linspace(0.0, 2.0, samples))


def test_one_initial_state_is_told_to_be_a_row():
    with pytest.raises(DataError, match=r"x0\[None\]"):
        integrate(lambda x: -x, np.ones(2), np.linspace(0.0, 1.0, 3))


def test_pooled_noise_has_the_level_asked_for_in_units_of_the_pooled_spread(system):
    size = {"trajectories": 20, "points": 2000}
    clean, noisy = system.simulate(1, **size), system.simulate(1, **size, noise=0.1)
    exact = np.vstack([r.x for r in clean])
    error = np.vstack([r.x for r in noisy]) - exact
    np.testing.assert_allclose(error.std(axis=0), 0.1 * exact.std(axis=0), rtol=0.1)


def test_noise_per_trajectory_follows_each_trajectorys_own_spread():
    system = systems.kuramoto(5)
    clean = system.simulate(1, trajectories=3, points=6000)
    noisy = system.simulate(1, trajectories=3, points=6000, noise=0.1, spread="trajectory")
    for a, b in zip(clean, noisy, strict=True):
        np.testing.assert_allclose((b.x - a.x).std(axis=0), 0.1 * a.x.std(axis=0), rtol=0.1)


def test_a_seed_repeats_its_data_and_another_seed_does_not(system):
    first, again, other = (system.simulate(s, noise=1e-3, trajectories=2, points=20) for s in (1, 1, 2))
    assert all(np.array_equal(a.x, b.x) for a, b in zip(first, again, strict=True))
    assert not np.allclose(first[0].x, other[0].x)


def test_every_trajectory_may_have_a_grid_of_its_own():
    system = systems.lotka_volterra()
    grids = [np.array([0.0, 0.5, 2.0]), np.array([0.25, 1.0, 1.5, 3.0])]
    runs = system.simulate(0, times=grids)
    assert [len(r) for r in runs] == [3, 4]
    whole = system.simulate(0, times=np.unique(np.concatenate(grids)), trajectories=2)
    np.testing.assert_allclose(runs[0].x[-1], whole[0].x[whole[0].t == 2.0][0], atol=1e-13)


def test_given_initial_states_replace_random_ones():
    system = systems.fput(4)
    start = np.sin(np.pi * np.arange(1, 5) / 5)[None]
    (run,) = system.simulate(0, initial=start)
    np.testing.assert_array_equal(run.x[0], start[0])
    # At rest: the first step is quadratic in time.
    assert np.abs(run.x[1] - run.x[0]).max() < 5 * run.t[1] ** 2


def test_energy_is_conserved_by_the_chain_of_masses():
    system = systems.spring_masses()
    (run,) = system.simulate(0, trajectories=1, times=np.linspace(0, 10, 2001))
    v = np.gradient(run.x, run.t, axis=0, edge_order=2)[1:-1]
    x = run.x[1:-1]
    energy = 0.5 * (v**2).sum(axis=1) - 0.5 * np.einsum("ni,ij,nj->n", x, system.coef[1:], x)
    np.testing.assert_allclose(energy, energy[0], rtol=1e-3)


@pytest.mark.parametrize("d", [2, 3, 5])
def test_the_frequencies_of_the_oscillators_can_be_given(d):
    omega = np.linspace(0.1, 0.9, d)
    np.testing.assert_array_equal(systems.kuramoto(d, frequencies=omega).coef[0], omega)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"spread": "both"}, "spread"),
        ({"noise": -1.0}, "noise"),
        ({"noise": float("nan")}, "noise"),
        ({"trajectories": 0}, "trajectories"),
        ({"points": 3}, "points per trajectory"),
        ({"horizon": 0.0}, "horizon"),
        ({"times": np.array([-1.0, 0.0])}, "negative"),
        ({"times": [np.array([0.0, 1.0])], "trajectories": 2}, "2 grids"),
        ({"initial": np.ones((2, 3))}, "shape"),
    ],
)
def test_a_mistake_is_named(arguments, message):
    with pytest.raises(DataError, match=message):
        systems.lotka_volterra().simulate(0, **arguments)


def test_the_true_coefficients_satisfy_the_physics_that_is_claimed(system):
    names = Names(system.basis, system.states)
    truth = system.coef.ravel()
    for law in system.constraints():
        rows = list(law.rows(names))
        assert rows
        for row in rows:
            value = sum(weight * truth[i] for i, weight in row.weights.items())
            assert row.lower - 1e-12 <= value <= row.upper + 1e-12


def test_the_systems_of_the_paper_have_its_physics():
    counts = {
        name: len(SYSTEMS[name]().constraints()) for name in ("kuramoto5", "fput5", "michaelis", "springs")
    }
    assert counts == {"kuramoto5": 10, "fput5": 4, "michaelis": 2, "springs": 1}


@pytest.mark.parametrize(
    ("name", "textbook"),
    [
        ("lorenz", lambda x, y, z: (10 * (y - x), x * (28 - z) - y, x * y - 8 / 3 * z)),
        ("rossler", lambda x, y, z: (-y - z, x + 0.2 * y, 0.2 + z * (x - 5.7))),
        ("lotka_volterra", lambda x, y: (x - 0.5 * x * y, 0.5 * x * y - y)),
        ("van_der_pol", lambda x, y: (y, (1 - x * x) * y - x)),
        ("duffing", lambda x, y: (y, x - x**3 - 0.3 * y)),
        ("sir", lambda s, i, r: (-1.5 * s * i, 1.5 * s * i - 0.4 * i, 0.4 * i)),
    ],
)
def test_a_classic_has_the_equations_of_the_textbooks(name, textbook):
    system = SYSTEMS[name]()
    x = system.initial(np.random.default_rng(0), 20)
    np.testing.assert_allclose(system.rhs(x), np.transpose(textbook(*x.T)), rtol=1e-12, atol=1e-12)
