"""Any executor: the same bits as without, in order, and one clear error where it cannot be done."""

import os
import signal
from concurrent.futures import Executor, Future, ProcessPoolExecutor, ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pytest

import cindy
from cindy.data import Lazy
from cindy.errors import DataError, WorkerError
from cindy.selection import trying
from cindy.summary.executor import map_in_order, workers

BASIS = cindy.Polynomial(2)
LINES = cindy.Polynomial(1)


def run(samples: int, seed: int, **more) -> cindy.Trajectory:
    t = np.arange(samples) * 0.05
    size, phase = np.random.default_rng(seed).uniform(1, 6, 2)
    return cindy.Trajectory(
        t, size * np.stack([np.sin(t + phase), np.cos(t + phase)], axis=1), ("x", "y"), **more
    )


RUNS = [run(400 + 37 * k, k) for k in range(12)]


@dataclass(frozen=True)
class Loads:
    """A part that makes its trajectories; the process that loads `deadly` for the first time is killed."""

    seeds: tuple[int, ...]
    deadly: Path | None = None
    again: bool = False

    def __call__(self) -> list[cindy.Trajectory]:
        if self.deadly is not None and (self.again or not self.deadly.exists()):
            self.deadly.write_text(str(os.getpid()))
            os.kill(os.getpid(), signal.SIGKILL)
        return [RUNS[k] for k in self.seeds]


def lazy(deadly: Path | None = None, *, again: bool = False) -> Lazy:
    # the part in the middle of the data is none of those that settings are chosen by
    parts = [Loads((k,)) for k in range(12)] + [
        Loads((k % 12,), deadly if k == 20 else None, again) for k in range(40)
    ]
    return Lazy(parts, "functions")


def bits(summary: cindy.Summary) -> list[bytes]:
    return [block.factor.tobytes() for block in summary.blocks] + [str(summary.labels).encode()]


def noisy(count: int) -> list[cindy.Trajectory]:
    rng = np.random.default_rng(7)
    return [
        cindy.Trajectory(one.t, one.x + 0.1 * rng.normal(size=one.x.shape), one.states)
        for one in RUNS[:count]
    ]


@dataclass(frozen=True)
class Noisy:
    number: int

    def __call__(self) -> list[cindy.Trajectory]:
        return [noisy(4)[self.number]]


def agree_on_the_motion(one: cindy.Model, other: cindy.Model) -> bool:
    """Whether both have x' = y, y' = −x within half an error of each other."""
    places = (np.array([2, 1]), np.array([0, 1]))
    apart = np.abs(one.coef - other.coef)[places] / other.coef_error[places]
    return bool(np.allclose(other.coef[places], (1, -1), atol=0.01) and (apart < 0.5).all())


def test_states_are_fitted_to_data_that_are_loaded_in_parts_with_the_same_bits_anywhere():
    whole = cindy.identify(noisy(4), LINES)
    data = Lazy([Noisy(k) for k in range(4)], "functions")
    seen: list[int] = []
    serial = cindy.identify(data, LINES, progress=lambda done, total: seen.append(done))
    assert seen[-1] == sum(map(len, RUNS[:4]))
    assert agree_on_the_motion(serial, whole)
    assert len(serial.near)
    with ProcessPoolExecutor(2) as pool:
        spread = cindy.identify(data, LINES, executor=pool)
    for name in ("coef", "coef_error", "covariance", "noise"):
        assert getattr(spread, name).tobytes() == getattr(serial, name).tobytes()


def test_a_law_found_on_a_part_of_the_data_is_confirmed_on_all_by_any_executor():
    data = noisy(4)
    whole = cindy.identify(data, LINES)
    with trying(large_enough=500):
        serial = cindy.identify(data, LINES)
        backwards = cindy.identify(data, LINES, executor=Backwards())
    assert agree_on_the_motion(serial, whole)
    assert backwards.coef.tobytes() == serial.coef.tobytes()
    assert backwards.covariance.tobytes() == serial.covariance.tobytes()


class Backwards(Executor):
    """Works when it is asked for a result, and on the newest task first."""

    def __init__(self) -> None:
        self.waiting: list = []
        self.most = 0

    def submit(self, fn, /, *args, **kwargs):
        owner = self

        class Late(Future):
            def result(self, timeout=None):
                while not self.done():
                    future, call = owner.waiting.pop()
                    future.set_result(call())
                return super().result(timeout)

        future: Future = Late()
        self.waiting.append((future, lambda: fn(*args, **kwargs)))
        self.most = max(self.most, len(self.waiting))
        return future


@pytest.mark.parametrize("data", [RUNS, lazy()], ids=["list", "lazy"])
def test_the_summary_is_the_same_bit_for_bit_on_every_executor(data):
    serial = bits(cindy.accumulate(data, BASIS))
    assert bits(cindy.accumulate(data, BASIS, processes=2)) == serial
    assert bits(cindy.accumulate(data, BASIS, executor=Backwards())) == serial
    with ThreadPoolExecutor(3) as threads, ProcessPoolExecutor(2) as processes:
        assert bits(cindy.accumulate(data, BASIS, executor=threads)) == serial
        assert bits(cindy.accumulate(data, BASIS, executor=processes)) == serial
        model = cindy.identify(data, BASIS, executor=processes)
    assert model.coef.tobytes() == cindy.identify(data, BASIS).coef.tobytes()


def test_columns_in_memory_give_the_same_bits_as_rows():
    columns = [cindy.Trajectory(one.t, np.asfortranarray(one.x), one.states) for one in RUNS]
    basis = cindy.Trigonometric(2)
    assert bits(cindy.accumulate(columns, basis)) == bits(cindy.accumulate(RUNS, basis))


def test_results_come_in_order_and_few_tasks_wait():
    executor = Backwards()
    done = list(map_in_order(str, range(100), executor))
    assert done == [str(k) for k in range(100)]
    assert executor.most <= 2 * (os.cpu_count() or 1)


def test_a_killed_process_is_replaced_and_its_work_repeated(tmp_path):
    flag = tmp_path / "died"
    assert bits(cindy.accumulate(lazy(flag), BASIS, processes=2)) == bits(cindy.accumulate(lazy(), BASIS))
    assert int(flag.read_text()) != os.getpid()


def test_work_that_kills_every_process_ends_in_one_sentence(tmp_path):
    with pytest.raises(WorkerError, match="3 times in a row"):
        cindy.accumulate(lazy(tmp_path / "died", again=True), BASIS, processes=2)


def test_an_executor_that_loses_a_worker_is_told_in_one_sentence(tmp_path):
    with ProcessPoolExecutor(2) as pool:
        with pytest.raises(WorkerError, match="A worker of ProcessPoolExecutor died"):
            cindy.accumulate(lazy(tmp_path / "died"), BASIS, executor=pool)
        with pytest.raises(WorkerError, match="ProcessPoolExecutor"):
            cindy.accumulate(lazy(), BASIS, executor=pool)
    closed = ThreadPoolExecutor(1)
    closed.shutdown()
    with pytest.raises(WorkerError, match="takes no more work"):
        cindy.accumulate(lazy(), BASIS, executor=closed)


def test_what_cannot_be_sent_is_told_in_one_sentence():
    basis = cindy.Custom({"sum": lambda x, y: x + y})
    with ProcessPoolExecutor(2) as pool, pytest.raises(DataError, match="cannot be sent"):
        cindy.accumulate(RUNS, basis, executor=pool)


def broken(x):
    return np.where(x > 0.9, np.nan, x)


def test_a_mistake_in_a_worker_is_told_as_in_this_process():
    with ProcessPoolExecutor(2) as pool, pytest.raises(DataError, match="broken"):
        cindy.accumulate(RUNS, cindy.Custom({"broken": broken}), executor=pool)


def test_progress_comes_back_from_workers():
    for data in (RUNS, lazy()):
        seen: list[tuple[int, int | None]] = []

        def note(done: int, total: int | None, seen=seen) -> None:
            seen.append((done, total))

        with ProcessPoolExecutor(2) as pool:
            cindy.accumulate(data, BASIS, executor=pool, progress=note)
        done = [d for d, _ in seen]
        assert done == sorted(done)
        assert done[-1] == sum(len(one) for one in data)
        assert len(done) > 2


def test_an_executor_is_checked():
    with pytest.raises(DataError, match=r"must be a concurrent\.futures\.Executor"):
        cindy.accumulate(RUNS, BASIS, executor="cluster")
    with ThreadPoolExecutor(1) as pool, pytest.raises(DataError, match="not both"):
        cindy.accumulate(RUNS, BASIS, executor=pool, processes=2)
    with workers(None, 1, where="here") as hands:
        assert hands is None
