"""The metrics by hand."""

import numpy as np
import pytest
from benchmarks.paper.setting import measure, prepare

from cindy.errors import DataError


@pytest.fixture(scope="module")
def setting():
    return prepare("michaelis", "integral", 1e-3, 0, trajectories=10, points=200)


def test_the_truth_has_no_error(setting):
    scores = measure(setting.system.coef, setting)
    assert (scores.recovery, scores.flow, scores.path, scores.extra, scores.missing) == (0, 0, 0, 0, 0)


def test_extra_and_missing_count_entries_and_not_values(setting):
    coef = setting.system.coef.copy()
    entries = np.argwhere(coef != 0)
    empty = np.argwhere(coef == 0)
    coef[tuple(entries[:2].T)] = 0.0
    # One value thrice: three entries.
    coef[tuple(empty[:3].T)] = 1e-12
    scores = measure(coef, setting)
    assert (scores.extra, scores.missing) == (3, 2)


def test_the_errors_are_norms_of_the_rows_of_the_test_trajectories(setting):
    rng = np.random.default_rng(0)
    error = rng.standard_normal(setting.system.coef.shape)
    scores = measure(setting.system.coef + error, setting)
    assert scores.recovery == pytest.approx(np.linalg.norm(error))
    runs = setting.system.simulate(0, noise=1e-3, trajectories=10, points=200)[9:]
    flow = np.vstack([setting.system.basis.evaluate(r.x, setting.system.states) for r in runs]) @ error
    assert scores.flow == pytest.approx(np.linalg.norm(flow))
    path = np.vstack([a for r in runs for a, _ in setting.form.rows(r, setting.system.basis)]) @ error
    assert scores.path == pytest.approx(np.linalg.norm(path))


def test_trajectories_are_split_whole_and_each_is_used_once(setting):
    runs = setting.system.simulate(0, noise=1e-3, trajectories=10, points=200)
    assert (len(setting.training), len(setting.validation)) == (7, 2)
    for ours, theirs in zip([*setting.training, *setting.validation], runs, strict=False):
        np.testing.assert_array_equal(ours.x, theirs.x)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("pendulum", "integral", 1e-3, 0), "system"),
        (("michaelis", "sideways", 1e-3, 0), "formulation"),
    ],
)
def test_an_unknown_name_is_told(arguments, message):
    with pytest.raises(DataError, match=message):
        prepare(*arguments)


def test_too_few_trajectories_to_split_are_told():
    with pytest.raises(DataError, match="3 trajectories"):
        prepare("michaelis", "integral", 1e-3, 0, trajectories=2, points=60)
