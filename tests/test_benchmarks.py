"""What the large tables stand on: cells kept between runs, the facts about chaos, and the bound."""

import numpy as np
import pytest
from benchmarks.cells import Subset, measured, subset_of
from benchmarks.chaotic_systems import systems as chaotic_systems
from benchmarks.fisher import information_root

import cindy
from cindy.systems import System


def test_a_cell_that_is_in_the_table_is_not_measured_again(tmp_path):
    calls = []

    def work(noise, seed):
        calls.append((noise, seed))
        return {"error": noise * len(calls), "said": ""}

    def rows(seeds, **how):
        cells = [{"noise": 0.1, "seed": seed} for seed in seeds]
        return measured("some", cells, work, Subset(out=tmp_path, **how), show=False)

    assert len(rows([0, 1])) == 2
    assert len(rows([1, 2])) == 3
    assert calls == [(0.1, 0), (0.1, 1), (0.1, 2)]
    again = rows([1], anew=True)
    assert len(again) == 3
    assert next(row for row in again if row["seed"] == 1)["error"] == pytest.approx(0.4)
    assert rows([]) == again


def test_a_subset_that_names_nothing_known_says_what_there_is():
    subset = subset_of(["--names", "Lorenz,Rosler", "--noise", "0.1"])
    assert subset.noise == (0.1,)
    with pytest.raises(SystemExit, match=r"'Rosler'.*Rossler"):
        subset.pick("names", ("Lorenz", "Rossler"))


def test_the_chaotic_systems_move_as_their_coefficients_say():
    known = chaotic_systems()
    assert len(known) == 70
    for system in known.values():
        x = np.random.default_rng(0).standard_normal((4, len(system.states)))
        assert system.basis.evaluate(x) @ system.coef == pytest.approx(system.rhs(x))


def test_the_bound_of_exponential_decay_is_the_one_by_hand():
    decay = System(
        name="decay",
        states=("x",),
        basis=cindy.Polynomial(1),
        rhs=lambda x: -x,
        equations={("x", "x"): -1.0},
        initial=lambda rng, count: np.ones((count, 1)),
        horizon=1.0,
        trajectories=1,
        points=11,
    )
    t = np.linspace(0.0, 1.0, 11)
    root = information_root(decay, np.array([[2.0], [1.0]]), t, np.array([0.5]))
    # x = x₀ exp(ξ t): the derivatives are exp(−t) for x₀ and x₀ t exp(−t) for ξ.
    by_start, by_rate = np.exp(-t) / 0.5, t * np.exp(-t) / 0.5
    left = by_rate @ by_rate - (by_rate @ by_start) ** 2 / (by_start @ by_start)
    assert root[0, 0] ** 2 == pytest.approx((2.0**2 + 1.0**2) * left, rel=1e-6)
