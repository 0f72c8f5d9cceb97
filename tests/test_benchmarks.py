"""What the large tables stand on: cells kept between runs, the facts about chaos, and the bound."""

from importlib import import_module
from operator import attrgetter

import numpy as np
import pytest
from benchmarks import ablation, constants, frozen, house, walk
from benchmarks.__main__ import sections
from benchmarks.bound import information_root
from benchmarks.cells import Subset, measured, subset_of
from benchmarks.chaotic_systems import systems as chaotic_systems

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


@pytest.mark.parametrize("section", sections())
def test_a_section_finds_every_name_that_it_takes_from_the_library(section):
    assert callable(import_module(f"benchmarks.{section}").run)


def test_every_constant_can_be_changed_and_is_put_back():
    planned = constants.changes()
    assert len(planned) > 100
    for change in planned:
        value = attrgetter(change.constant.name)
        home = import_module(f"cindy.{change.constant.module}")
        with change.made():
            assert value(home) == change.value != change.constant.value
        assert value(home) == change.constant.value, change.name


@pytest.mark.parametrize("move", ablation.MOVES)
def test_every_move_of_the_search_can_be_taken_away(move):
    with ablation.taken_away(move):
        pass


def test_a_constant_is_a_number_bound_to_a_name_in_capitals(tmp_path):
    (tmp_path / "some.py").write_text(
        "A, _B = 1, 2e-3\nC: float = -1 / 2\nD = (1, 2)\nE = 'x'\nF = True\nlow = 3\n"
    )
    assert [(c.where, c.value) for c in house.constants(tmp_path)] == [
        ("some.A", 1),
        ("some._B", 2e-3),
        ("some.C", -0.5),
        ("some.D", (1, 2)),
    ]


def test_a_field_counts_where_a_module_makes_the_object(tmp_path):
    (tmp_path / "some.py").write_text(
        "class _Most:\n    terms: int = 4\n    name: str = 'x'\n\n\n"
        "class Other:\n    size: int = 3\n\n\n_MOST = _Most()\n"
    )
    assert [(c.where, c.value) for c in house.fields(tmp_path)] == [("some._MOST.terms", 4)]


@pytest.mark.parametrize("kind", [kind for kind in constants.KINDS if kind != "chaotic 40 %"])
def test_the_data_on_which_constants_are_tried_have_the_true_terms_in_their_dictionary(kind):
    case = next(iter(constants.KINDS[kind](Subset(), 0)))()
    assert np.count_nonzero(case.coef) >= 1
    assert set(constants.HARD) <= set(chaotic_systems())


def test_frozen_models_are_compared_by_terms_then_digits(capsys, tmp_path):
    subset = Subset(names=("one pass: prey",), out=tmp_path)
    frozen.run(subset)
    frozen.run(subset)
    first, second = capsys.readouterr().out.splitlines()[::2]
    assert first.endswith("written")
    assert second.endswith("identical")
    old = {"coef": {"x: x": "1.0"}, "error": {"x: x": "0.1"}, "parameters": {}, "path": 3, "warnings": []}
    assert frozen._difference({**old, "coef": {"x: x": "1.0000000001"}}, old) == "the same to six digits"
    assert frozen._difference({**old, "coef": {"x: x": "1.01"}}, old) == "coef differ by 0.01"
    assert frozen._difference({**old, "coef": {"x: y": "1.0"}}, old) == "other terms: + x: y, − x: x"
    assert frozen._difference({**old, "warnings": ["!"]}, old) == "warnings differ"


def test_splitting_runs_changes_errors_as_the_bound_says():
    """A half knows nothing of where the other began: errors rise by what that costs, and by no more."""
    system, seed, count = cindy.systems.sir(), 31, 100
    exact = system.simulate(seed, trajectories=2, points=4 * count)
    noisy = system.simulate(seed, trajectories=2, points=4 * count, noise=0.01)
    spread = np.vstack([run.x for run in exact]).std(axis=0)
    said, least = [], []
    for parts in (1, 2):
        length = 2 * count // parts
        cuts = [(k * length, (k + 1) * length) for k in range(parts)]
        model = cindy.identify([run.part(a, b) for run in noisy for a, b in cuts], system.basis)
        assert np.array_equal(model.support, system.coef != 0)
        starts = np.stack([run.x[a] for run in exact for a, _ in cuts])
        root = np.linalg.inv(information_root(system, starts, exact[0].t[:length], spread))
        least.append(0.01 * np.linalg.norm(root, axis=1))
        said.append(model.coef_error[model.support])
    expected, reported = least[1] / least[0], said[1] / said[0]
    assert expected.max() > 1.5
    assert reported == pytest.approx(expected, rel=0.35)


def test_a_datum_is_gone_through_five_times_on_its_way_to_equations():
    """`python -m benchmarks walk` has 61 modules and 5 readings: lower them with the figures."""
    visited, readers = walk.followed()
    assert "identification.fitted" in {name.removeprefix("cindy.") for name in visited}
    assert 0 < readers.total() <= 5, readers
    assert len(visited) <= 62
