"""Trace: every support while they are few, fewer of the large ones when they are many."""

import numpy as np

from cindy.solver.result import Trace


def growing(count):
    """Iterates that gain one nonzero a step."""
    x = np.zeros(count)
    for i in range(count):
        x[i] = i + 1.0
        yield x.copy()


def filled(room, iterates):
    trace = Trace(room)
    for x in iterates:
        trace.add(np.count_nonzero(x), lambda x=x: np.array(x))
    return trace


def test_while_there_is_room_every_support_is_kept_in_order():
    trace = filled(10_000, growing(100))
    assert [len(support) for support, _ in trace.path()] == list(range(1, 101))


def test_a_support_seen_again_is_kept_once_with_its_last_values_at_its_last_place():
    (first, _), (last, values) = filled(100, ([1.0, 0, 0], [1.0, 2.0, 0], [3.0, 0, 0])).path()
    np.testing.assert_array_equal(first, [0, 1])
    np.testing.assert_array_equal(last, [0])
    np.testing.assert_array_equal(values, [3.0, 0, 0])


def test_when_room_runs_out_small_supports_and_the_newest_stay():
    sizes = [len(support) for support, _ in filled(20_000, growing(1_000)).path()]
    assert sum(sizes) <= 21_000
    assert sizes[:20] == list(range(1, 21))
    assert sizes[-1] == 1_000
    assert len(sizes) > 40
