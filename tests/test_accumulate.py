"""accumulate: the same summary however the data come, and a sentence when they cannot."""

from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given, strategies as st
from tests.sums import close, gram

from cindy.basis import Custom, Polynomial
from cindy.data.trajectory import Trajectory
from cindy.errors import DataError
from cindy.formulation import Differential, Discrete, Integral
from cindy.summary.accumulation import accumulate

BASIS = Polynomial(2)
FORMULATIONS = [
    Integral(window=0, feedback=0.0),
    Integral(window=16, feedback=0.0),
    Integral(window=16, feedback=3.0),
    Integral(order=2, window=16, feedback=0.0),
    Integral(window=16, smooth=2, feedback=0.0),
    Integral(initial="first", window=0),
    Integral(order=2, initial="first", window=0, rate=(4, 3)),
    Differential(degree=4, half_width=3),
    Differential(order=2, degree=6, half_width=5, smooth=3),
    Discrete(),
]
every_formulation = pytest.mark.parametrize("formulation", FORMULATIONS, ids=str)


def run(samples: int, seed: int, **more) -> Trajectory:
    t = np.arange(samples) * 0.05
    phase = np.random.default_rng(seed).uniform(0, 6, 2)
    return Trajectory(t, np.sin(t[:, None] * (1 + phase / 6) + phase), ("x", "y"), **more)


RUNS = [run(40 + 7 * k, k) for k in range(12)]


@every_formulation
@pytest.mark.parametrize("blocks", [1, 3, 50])
def test_the_sum_is_blind_to_chunks_blocks_and_streaming(formulation, blocks):
    whole = accumulate(RUNS, BASIS, formulation=formulation, blocks=1, chunk=10**6)
    for chunk in (1, 50, 10**6):
        other = accumulate(RUNS, BASIS, formulation=formulation, blocks=blocks, chunk=chunk)
        assert close(gram(other), gram(whole))
        assert other.total.rows == whole.total.rows
        assert other.samples == whole.samples
    fitted = whole.formulation
    streamed = accumulate(iter(RUNS), BASIS, formulation=fitted, blocks=blocks)
    assert close(gram(streamed), gram(whole))


def test_the_blocks_are_blind_to_the_number_of_processes():
    one, two = (accumulate(RUNS, BASIS, blocks=5, processes=p) for p in (1, 2))
    assert one.labels == two.labels
    assert all(close(a.factor, b.factor) for a, b in zip(one.blocks, two.blocks, strict=True))


def test_processes_share_a_stream_and_python_functions():
    basis = Custom({"sum": lambda x, y: x + y})
    one, two = (accumulate((r for r in RUNS), basis, processes=p) for p in (1, 2))
    assert close(gram(two), gram(one))


def test_a_mistake_in_another_process_is_told_as_in_this_one():
    def broken(x):
        return np.where(x > 0.9, np.nan, x)

    for processes in (1, 2):
        with pytest.raises(DataError, match="broken"):
            accumulate(RUNS, Custom({"broken": broken}), processes=processes)


@given(
    lengths=st.lists(st.integers(3, 60), min_size=1, max_size=12),
    blocks=st.integers(1, 8),
    stream=st.booleans(),
)
def test_blocks_are_contiguous_nearly_as_many_as_wanted_and_lose_nothing(lengths, blocks, stream):
    data = [run(n, k) for k, n in enumerate(lengths)]
    formulation = Integral(window=6, feedback=0.0, degree=2, half_width=1)
    summary = accumulate(iter(data) if stream else data, BASIS, formulation=formulation, blocks=blocks)
    windows = sum(len(formulation.edges(n)) - 1 for n in lengths)
    assert summary.total.rows == sum(lengths) - windows
    assert summary.samples == sum(lengths)
    assert len(summary.blocks) <= max(blocks, len(lengths)) + len(lengths)
    assert len(summary.blocks) >= min(blocks, len(lengths), windows) / 2
    if stream:
        assert len(summary.blocks) <= blocks


def test_as_many_trajectories_as_blocks_stay_whole():
    summary = accumulate(RUNS, BASIS, blocks=4)
    assert len(summary.blocks) == 4
    assert summary.labels[0] == "trajectory 0 … trajectory 3"
    named = accumulate(
        [run(50, 1, name="a"), run(50, 2, name="b")], BASIS, blocks=2, formulation=Integral(window=0)
    )
    assert named.labels == ("a", "b")


def test_one_long_trajectory_is_cut_into_blocks_of_windows():
    summary = accumulate(run(1000, 0), BASIS, formulation=Integral(window=20), blocks=10)
    assert [b.rows for b in summary.blocks] == [95] * 10
    assert summary.labels[1].startswith("trajectory 0, t = 5 … 9.95")


def test_a_whole_trajectory_is_one_block():
    assert len(accumulate(run(300, 0), BASIS, formulation=Integral(window=0), blocks=10).blocks) == 1


def test_many_terms_get_fewer_blocks():
    data = run(400, 0)
    basis = Custom({f"f{k}": f"sin({k}*x)" for k in range(1, 1300)})
    summary = accumulate(data, basis, formulation=Integral(window=8), blocks=50)
    assert sum(b.factor.size for b in summary.blocks) * 8 <= 256e6
    assert len(summary.blocks) < 50


def test_a_long_trajectory_is_never_evaluated_all_at_once(monkeypatch):
    seen = []
    honest = Polynomial.evaluate
    monkeypatch.setattr(
        Polynomial, "evaluate", lambda self, x, *a, **k: (seen.append(len(x)), honest(self, x, *a, **k))[1]
    )
    accumulate(run(20_000, 0), BASIS, formulation=Integral(window=40), chunk=500)
    assert max(seen) <= 500 + 2 * 10


def test_missing_values_split_and_short_stretches_are_counted():
    x = run(200, 0).x.copy()
    x[50:60] = np.nan
    x[70:80, 1] = np.nan
    x[82:90] = np.nan
    summary = accumulate(Trajectory(np.arange(200) * 0.05, x), BASIS)
    assert summary.skipped == 1
    assert summary.samples == 50 + 10 + 110


def test_when_nothing_is_left_the_reason_is_given():
    with pytest.raises(DataError, match=r"nothing is left.*fewer than the 3 samples that Integral needs"):
        accumulate([run(2, 0), run(1, 1)], BASIS)
    with pytest.raises(DataError, match="nothing is left"):
        accumulate(Trajectory(np.arange(5.0), np.full(5, np.nan)), BASIS)


def test_an_empty_stream_is_refused():
    with pytest.raises(DataError, match="no trajectories"):
        accumulate(iter([]), BASIS)


def test_a_stream_is_read_once_and_its_variables_checked_as_they_come():
    def stream():
        yield from RUNS[:2]
        yield run(30, 0, u=np.zeros(30))

    with pytest.raises(DataError, match=r"same inputs.*trajectory 2"):
        accumulate(stream(), BASIS)


def test_progress_counts_every_sample():
    calls = []
    accumulate(RUNS, BASIS, progress=lambda done, total: calls.append((done, total)))
    total = sum(len(r) for r in RUNS)
    assert calls[-1] == (total, total)
    assert all(a <= b for (a, _), (b, _) in pairwise(calls))
    accumulate(iter(RUNS), BASIS, progress=lambda done, total: calls.append((done, total)))
    assert calls[-1] == (total, None)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"basis": "poly"}, "`basis` must be a basis"),
        ({"formulation": "integral"}, "`formulation` must be"),
        ({"blocks": 0}, "`blocks`"),
        ({"processes": 0}, "`processes`"),
        ({"chunk": 0}, "`chunk`"),
    ],
)
def test_arguments_that_make_no_sense_are_refused(arguments, message):
    basis = arguments.pop("basis", BASIS)
    with pytest.raises(DataError, match=message):
        accumulate(RUNS, basis, **arguments)


def test_a_custom_function_of_the_wrong_shape_is_named():
    with pytest.raises(DataError, match="wrong"):
        accumulate(RUNS, Custom({"wrong": lambda x: x[:3]}))


def test_a_weight_of_two_counts_a_trajectory_twice():
    twice = accumulate([RUNS[0], RUNS[0]], BASIS, formulation=Integral(window=0, feedback=0.0))
    heavy = accumulate(run(40, 0, weight=2.0), BASIS, formulation=Integral(window=0, feedback=0.0))
    assert close(gram(heavy), gram(twice))
