"""Dask: a real cluster of two processes gives the bits of this one, also when a worker is killed."""

import os
import signal
import sys
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest

import cindy

dask = pytest.importorskip("dask")
pytest.importorskip("distributed")

BASIS = cindy.Polynomial(2)
STEP = 0.05


def states(t: np.ndarray, seed: int) -> np.ndarray:
    size, phase = np.random.default_rng(seed).uniform(1, 6, 2)
    return size * np.stack([np.sin(t + phase), np.cos(t + phase)], axis=1)


def run(seed: int) -> cindy.Trajectory:
    t = np.arange(200 + 17 * (seed % 12)) * STEP
    return cindy.Trajectory(t, states(t, seed), ("x", "y"))


def frame(seed: int):
    import pandas as pd

    one = run(seed)
    return pd.DataFrame({"run": seed, "t": one.t, "x": one.x[:, 0], "y": one.x[:, 1]})


class Deadly:
    """A run of which number 20 kills the first process, other than this one, that makes it."""

    def __init__(self, flag: Path) -> None:
        self.flag, self.here = flag, os.getpid()

    def __call__(self, seed: int) -> cindy.Trajectory:
        if seed == 20 and os.getpid() != self.here and not self.flag.exists():
            self.flag.write_text(str(os.getpid()))
            os.kill(os.getpid(), signal.SIGKILL)
        return run(seed)


@pytest.fixture(scope="module")
def client() -> Iterator:
    import cloudpickle
    import distributed

    # Functions of this file are sent by value: the workers do not know it.
    cloudpickle.register_pickle_by_value(sys.modules[__name__])
    quiet = {"logging.distributed": "critical", "distributed.scheduler.allowed-failures": 1}
    with (
        dask.config.set(quiet),
        distributed.LocalCluster(
            n_workers=2, threads_per_worker=1, processes=True, dashboard_address=None, host="127.0.0.1"
        ) as local,
        distributed.Client(local, set_as_default=False) as client,
    ):
        yield client


def test_a_cluster_of_two_processes_gives_the_coefficients_of_one_bit_for_bit(client):
    runs = [run(k) for k in range(24)]
    serial = cindy.identify(runs, BASIS).coef
    assert cindy.identify(runs, BASIS, processes=2).coef.tobytes() == serial.tobytes()
    assert cindy.identify(runs, BASIS, executor=client.get_executor()).coef.tobytes() == serial.tobytes()
    assert serial[BASIS.names(("x", "y")).index("y"), 0] == pytest.approx(1.0, abs=1e-6)


def test_a_bag_gives_the_same_bits_although_a_worker_is_killed_in_the_middle(client, tmp_path):
    import dask.bag

    flag = tmp_path / "died"
    bag = dask.bag.from_sequence(range(24), npartitions=24).map(Deadly(flag))
    serial = cindy.identify(bag, BASIS)
    assert not flag.exists()
    spread = cindy.identify(bag, BASIS, executor=client)
    assert flag.exists()
    assert spread.coef.tobytes() == serial.coef.tobytes()
    assert spread.coef_error.tobytes() == serial.coef_error.tobytes()


def test_partitions_of_a_data_frame_are_loaded_one_by_one():
    pytest.importorskip("pandas")
    frames = pytest.importorskip("dask.dataframe")
    import pandas as pd

    table = frames.from_pandas(pd.concat([frame(k) for k in range(6)], ignore_index=True), npartitions=3)
    lazy = cindy.read(table, by="run", lazy=True)
    assert len(lazy.parts) == 3
    names = [one.name for one in lazy]
    assert names[0] == "partition 0, run 0"
    assert sum(len(one) for one in lazy) == len(table)
    assert lazy.parts[0]()[0].states == ("x", "y")
    whole = cindy.identify(cindy.read(table, by="run"), BASIS)
    assert np.allclose(cindy.identify(lazy, BASIS).coef, whole.coef, atol=1e-8)
    one = frames.from_pandas(frame(0).drop(columns="run"), npartitions=2)
    assert cindy.accumulate(one, BASIS).samples == len(run(0))
    assert [len(smooth) for smooth in cindy.identify(frame(0).drop(columns="run"), BASIS).smooth(one)] == [
        len(run(0))
    ]


def test_chunks_of_arrays_and_of_a_dataset_are_loaded_one_by_one():
    arrays = pytest.importorskip("dask.array")
    xarray = pytest.importorskip("xarray")
    t = np.arange(4000) * STEP
    x = arrays.from_array(states(t, 3), chunks=(1000, 2))
    model = cindy.identify((t, x), BASIS)
    assert model.coef[2, 0] == pytest.approx(1.0, abs=1e-6)
    assert cindy.accumulate((t, x), BASIS).labels[0].startswith("chunk 0")
    dataset = xarray.Dataset(
        {"x": ("t", states(t, 3)[:, 0]), "y": ("t", states(t, 3)[:, 1])}, {"t": t}
    ).chunk(t=800)
    lazy = cindy.read(dataset, lazy=True)
    assert [len(one) for one in lazy] == [800] * 5
    assert cindy.identify(lazy, BASIS).coef[1, 1] == pytest.approx(-1.0, abs=1e-6)
    with pytest.raises(cindy.DataError, match="has no times"):
        cindy.identify(x, BASIS)


def test_a_task_that_kills_its_worker_every_time_ends_in_one_sentence(client):
    import dask.bag

    here = os.getpid()

    def deadly(seed: int) -> cindy.Trajectory:
        if os.getpid() != here:
            os.kill(os.getpid(), signal.SIGKILL)
        return run(seed)

    bag = dask.bag.from_sequence(range(2), npartitions=1).map(deadly)
    with pytest.raises(cindy.WorkerError, match="died"):
        cindy.accumulate(bag, BASIS, executor=client)
