"""What accumulating costs: samples a second against the bare factorisation, memory, processes."""

import multiprocessing
import resource
import tempfile
import time
from collections.abc import Iterator
from concurrent.futures import ProcessPoolExecutor
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks.table import best_of, write
from cindy.basis import Polynomial
from cindy.data import Trajectory, read
from cindy.formulation import Integral
from cindy.summary.accumulation import accumulate

__all__ = ["run"]

SAMPLES = 20_000_000
EACH = 10_000
STATES, DEGREE = 5, 3
BLOCK = 4096
FILE = 1_000_000
FILES = (10, 20, 100)
FILES_NOTES = (
    f"As above, from parquet files of {FILE:,} samples by read(paths, lazy=True): time includes "
    "reading them. Processor time grows in proportion to the files, and memory is that of one file and "
    "its terms."
)


def run() -> None:
    rows: list[dict[str, Any]] = []
    for uniform in (True, False):
        total = SAMPLES if uniform else SAMPLES // 10
        seconds, samples, peak, width = _in_a_fresh_process(total, uniform)
        bare = _factorising(width)
        rows.append(
            {
                "time grid": "uniform" if uniform else "irregular",
                "samples": samples,
                "terms": width - STATES,
                "µs a sample": 1e6 * seconds / samples,
                "numpy.linalg.qr µs a row": 1e6 * bare,
                "speed against numpy": bare * samples / seconds,
                "peak MB": peak,
            }
        )
    write(
        "stream",
        "Streaming trajectories into a summary",
        rows,
        f"{STATES} states, all monomials to degree {DEGREE}, the integral form in windows of 64 samples, "
        f"from a generator of trajectories of {EACH:,} samples; against the bare factorisation of blocks of "
        f"{BLOCK:,} rows.",
    )
    write(
        "stream_files",
        "Parquet files, loaded one after the other",
        _from_files(),
        FILES_NOTES,
    )
    write(
        "stream_processes",
        "Two processes",
        [_processes(4_000_000)],
        "The best of three runs each. Wall time on a machine shared with other programs; the last "
        "column is twice the processor time of one process over that of two and their parent together.",
    )


def parquet(folder: Path, files: int) -> None:
    """Files of a million samples each, in double precision."""
    import pandas as pd

    for k, one in enumerate(_trajectories(files * FILE, True, FILE)):
        columns = {name: one.x[:, i] for i, name in enumerate(one.states)}
        pd.DataFrame({"t": one.t, **columns}).to_parquet(folder / f"{k:04}.parquet", compression=None)


def _from_files() -> list[dict[str, Any]]:
    """Processor time and memory of files loaded one after the other, for ever more of them."""
    rows = []
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        parquet(folder, max(FILES))
        for files in FILES:
            paths = sorted(folder.glob("*.parquet"))[:files]
            before = _factorising(61)
            one, peak = _in_a_process(paths, 1)
            # The machine is shared: what it can do is asked before and after.
            bare = (before + _factorising(61)) / 2
            row: dict[str, Any] = {
                "samples": files * FILE,
                "processor s": one,
                "µs a sample": 1e6 * one / (files * FILE),
                "numpy.linalg.qr µs a row": 1e6 * bare,
                "speed against numpy": bare * files * FILE / one,
                "peak MB": peak,
            }
            if files == min(FILES):
                two, _ = _in_a_process(paths, 2)
                row |= {"processor s, two": two, "gain on two free cores": 2 * one / two}
            rows.append(row)
            print(row, flush=True)
    return rows


def _in_a_process(paths: list[Path], processes: int) -> tuple[float, float]:
    # Not a Pool, whose workers may have no processes of their own.
    with ProcessPoolExecutor(1, multiprocessing.get_context("spawn")) as pool:
        return pool.submit(_loaded, paths, processes).result()


def _loaded(paths: list[Path], processes: int) -> tuple[float, float]:
    """Processor seconds of this process and its workers, and the largest memory of any of them in MB."""
    began = _used()
    data = read(paths, time="t", lazy=True)
    accumulate(data, Polynomial(DEGREE), formulation=Integral(window=64), processes=processes)
    who = (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN)
    return _used() - began, max(resource.getrusage(w).ru_maxrss for w in who) / 1e3


def _trajectories(total: int, uniform: bool, each: int = EACH) -> Iterator[Trajectory]:
    rng = np.random.default_rng(0)
    steps = np.full(each, 0.01) if uniform else rng.uniform(0.005, 0.015, each)
    t = np.cumsum(steps) if not uniform else np.arange(each) * 0.01
    turns, phases = rng.uniform(0.5, 2.0, (8, STATES)), rng.uniform(0, 6, (8, STATES))
    waves = [np.sin(t[:, None] * w + p) for w, p in zip(turns, phases, strict=True)]
    for k in range(total // each):
        yield Trajectory(t, waves[k % len(waves)])


def _stream(total: int, uniform: bool, processes: int = 1) -> tuple[int, int]:
    form = Integral(window=64)
    summary = accumulate(
        _trajectories(total, uniform), Polynomial(DEGREE), formulation=form, processes=processes
    )
    return summary.samples, summary.total.factor.shape[1]


def _in_a_fresh_process(total: int, uniform: bool) -> tuple[float, int, float, int]:
    """Processor seconds, samples, peak memory in MB of one stream, and the columns of its factor."""
    with multiprocessing.get_context("spawn").Pool(1) as pool:
        return pool.apply(_measured, (total, uniform))


def _measured(total: int, uniform: bool) -> tuple[float, int, float, int]:
    began = time.process_time()
    samples, width = _stream(total, uniform)
    seconds = time.process_time() - began
    return seconds, samples, resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1e3, width


def _factorising(width: int) -> float:
    """Processor seconds a row of numpy's QR of a block, all it takes to have R."""
    block = np.random.default_rng(0).standard_normal((BLOCK, width))
    repeats = 50
    least, _ = best_of(lambda: [np.linalg.qr(block, mode="r") for _ in range(repeats)], times=5)
    return least / (repeats * BLOCK)


def _processes(total: int) -> dict[str, Any]:
    """Wall time as it was, and what processor time promises where two cores are free."""
    walls: dict[int, list[float]] = {1: [], 2: []}
    spent: dict[int, list[float]] = {1: [], 2: []}
    for _ in range(3):
        for processes in walls:
            began, used = time.perf_counter(), _used()
            _stream(total, True, processes)
            walls[processes].append(time.perf_counter() - began)
            spent[processes].append(_used() - used)
    return {
        "samples": total,
        "one process s": min(walls[1]),
        "two processes s": min(walls[2]),
        "gain": min(walls[1]) / min(walls[2]),
        "processor s, one": min(spent[1]),
        "processor s, two": min(spent[2]),
        "gain on two free cores": 2 * min(spent[1]) / min(spent[2]),
    }


def _used() -> float:
    """Processor seconds of this process and of those that it has ended."""
    both = (resource.getrusage(who) for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN))
    return sum(one.ru_utime + one.ru_stime for one in both)
