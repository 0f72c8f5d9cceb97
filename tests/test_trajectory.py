"""Trajectory: what it accepts, what it refuses, and where it splits."""

import pickle

import numpy as np
import pytest
from hypothesis import given, strategies as st

from cindy.data import Trajectory, as_trajectories
from cindy.errors import DataError

T = np.linspace(0, 1, 11)
X = np.column_stack([np.sin(T), np.cos(T)])


def test_states_and_inputs_get_default_names():
    trajectory = Trajectory(T, X, u=T)
    assert trajectory.variables == ("x1", "x2", "u1")
    assert trajectory.values.shape == (11, 3)
    assert trajectory.dimension == 2
    assert len(trajectory) == 11


def test_columns_of_a_data_frame_name_states_and_inputs():
    pandas = pytest.importorskip("pandas")
    frame = pandas.DataFrame(X, columns=["angle", "rate"])
    assert Trajectory(T, frame, u=frame[["rate"]].rename(columns={"rate": "push"})).variables == (
        "angle",
        "rate",
        "push",
    )
    assert Trajectory(T, frame, states=("p", "q")).states == ("p", "q")
    assert Trajectory(T, pandas.DataFrame(X)).states == ("x1", "x2")


def test_a_single_state_may_come_as_a_vector():
    assert Trajectory(T, np.sin(T)).x.shape == (11, 1)


def test_a_trajectory_cannot_be_changed_and_leaves_the_callers_array_writable():
    x = X.copy()
    trajectory = Trajectory(T, x)
    with pytest.raises(ValueError):
        trajectory.x[0, 0] = 7.0
    with pytest.raises(AttributeError):
        trajectory.t = T
    x[0, 0] = 0.5


def test_a_pickled_trajectory_comes_back_the_same():
    first = Trajectory(T, X, ("a", "b"), name="run 7", weight=2.0)
    again = pickle.loads(pickle.dumps(first))
    assert np.array_equal(again.x, first.x)
    assert (again.states, again.name, again.weight) == (("a", "b"), "run 7", 2.0)


def test_a_part_shares_memory_and_everything_else():
    whole = Trajectory(T, X, ("a", "b"), u=T, name="run 7", weight=2.0)
    part = whole.part(3, 7)
    assert np.shares_memory(part.x, whole.x)
    assert part.u is not None
    assert np.array_equal(part.u[:, 0], T[3:7])
    assert (part.states, part.inputs, part.name, part.weight) == (("a", "b"), ("u1",), "run 7", 2.0)
    for start, stop in ((3, 3), (-1, 2), (5, 12)):
        with pytest.raises(DataError, match="no samples"):
            whole.part(start, stop)


BAD = {
    "t must increase": (
        [0.0, 1.0, 1.0],
        np.zeros((3, 2)),
        {},
        r"t\[1\] = 1 is followed by t\[2\] = 1.*repeated",
    ),
    "time goes back": ([0.0, 2.0, 1.0], np.zeros((3, 2)), {}, r"t\[1\] = 2 is followed by t\[2\] = 1.*Sort"),
    "lengths": ([0.0, 1.0, 2.0], np.zeros((4, 2)), {}, "3 times and 4 rows"),
    "transposed": ([0.0, 1.0, 2.0], np.zeros((2, 3)), {}, "transpose"),
    "lengths of u": ([0.0, 1.0], np.zeros((2, 2)), {"u": np.zeros(3)}, "`u`.*2 times and 3 rows"),
    "no samples": ([], np.zeros((0, 2)), {}, "empty"),
    "no states": ([0.0], np.zeros((1, 0)), {}, "no columns"),
    "infinite": ([0.0, 1.0], [[1.0], [np.inf]], {}, r"\[1, 0\] is inf"),
    "missing time": ([0.0, np.nan], np.zeros((2, 1)), {}, "must be finite"),
    "words": ([0.0, 1.0], [["a"], ["b"]], {}, "must be numbers"),
    "three dimensions": ([0.0, 1.0], np.zeros((2, 2, 2)), {}, "2 dimension"),
    "repeated names": ([0.0, 1.0], np.zeros((2, 2)), {"states": ("a", "a")}, "'a' occurs more than once"),
    "a name twice": (
        [0.0],
        np.zeros((1, 1)),
        {"states": ("a",), "u": [0.0], "inputs": ("a",)},
        "more than once",
    ),
    "too few names": (
        [0.0, 1.0],
        np.zeros((2, 2)),
        {"states": ("a",)},
        "must name 2 columns, but holds 1 name: a",
    ),
    "one string": ([0.0, 1.0], np.zeros((2, 2)), {"states": "ab"}, "single string"),
    "weight": ([0.0], np.zeros((1, 1)), {"weight": 0.0}, "`weight` must be a positive"),
}


@pytest.mark.parametrize("case", BAD)
def test_bad_data_is_refused_with_a_sentence_that_helps(case):
    t, x, more, message = BAD[case]
    with pytest.raises(DataError, match=f"(?s){message}"):
        Trajectory(t, x, **more)


def test_without_missing_values_an_uneven_trajectory_is_not_split():
    uneven = Trajectory(np.array([0.0, 0.1, 0.2, 5.0, 5.1]), np.zeros(5))
    assert uneven.segments() == [uneven]


def test_a_single_missing_sample_is_bridged_and_a_longer_gap_splits():
    x = X.copy()
    x[3, 0] = np.nan
    (one,) = Trajectory(T, x).segments()
    assert len(one) == 10
    x[6:8, 1] = np.nan
    first, second = Trajectory(T, x).segments()
    assert (len(first), len(second)) == (5, 3)
    assert np.array_equal(second.t, T[8:])


def test_a_state_measured_at_every_third_sample_leaves_one_segment():
    x = X.copy()
    x[np.arange(11) % 3 != 0, 1] = np.nan
    (one,) = Trajectory(T, x).segments()
    assert np.array_equal(one.t, T[::3])


def test_a_missing_input_leaves_its_sample_out():
    u = np.ones(11)
    u[4] = np.nan
    (one,) = Trajectory(T, X, u=u).segments()
    assert len(one) == 10
    assert one.u is not None
    assert np.isfinite(one.u).all()


def test_a_trajectory_without_one_complete_sample_has_no_segments():
    assert Trajectory(T, np.full(11, np.nan)).segments() == []


@given(st.lists(st.booleans(), min_size=1, max_size=40))
def test_segments_hold_exactly_the_complete_samples_in_order(present):
    x = np.where(present, 1.0, np.nan)
    pieces = Trajectory(np.arange(float(len(x))), x).segments()
    kept = np.concatenate([p.t for p in pieces]) if pieces else np.zeros(0)
    assert np.array_equal(kept, np.flatnonzero(present))


@pytest.mark.parametrize(
    ("data", "count"),
    [
        (Trajectory(T, X), 1),
        ((T, X), 1),
        ([T, X], 1),
        ([(T, X), (T[:5], X[:5])], 2),
        ([(T, np.sin(T)), (T, np.cos(T))], 2),
        ([Trajectory(T, X), (T, X)], 2),
        ((Trajectory(T, X), Trajectory(T, X)), 2),
    ],
)
def test_whatever_a_user_holds_becomes_a_list_of_trajectories(data, count):
    assert len(as_trajectories(data)) == count


@pytest.mark.parametrize("data", [[], 7, "file.csv", [1.0, 2.0, 3.0], X, None])
def test_what_is_no_trajectory_is_refused(data):
    with pytest.raises(DataError):
        as_trajectories(data)


def test_trajectories_of_different_variables_are_refused_and_named():
    with pytest.raises(DataError, match=r"same states.*\(x1, x2\).*trajectory 1 has \(a, b\)"):
        as_trajectories([Trajectory(T, X), Trajectory(T, X, ("a", "b"))])
    with pytest.raises(DataError, match="same inputs"):
        as_trajectories([Trajectory(T, X), Trajectory(T, X, u=T)])


def test_a_single_sample_has_no_step():
    assert Trajectory([0.0, 1.0], [[1.0], [2.0]]).step(0, 1) is None
