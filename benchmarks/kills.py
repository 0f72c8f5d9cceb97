"""Whole commands killed at random moments: nothing torn, nothing lost."""

import os
import signal
import sys
import tempfile
import time
from collections.abc import Callable
from contextlib import redirect_stderr, redirect_stdout
from pathlib import Path

import numpy as np

import cindy
from benchmarks.table import write
from cindy import systems

__all__ = ["accumulate", "fit", "reproduce", "run"]

MOMENTS = 50
LATE = 0.2
"""Of the time of a command: its last part, when it writes, in which every second of the moments lies."""


def run() -> None:
    """One row a command."""
    table = []
    for command in (fit, accumulate, reproduce):
        with tempfile.TemporaryDirectory() as folder:
            began = time.perf_counter()
            ended = command(Path(folder), MOMENTS, seed=0)
            table.append(
                {
                    "command": command.__name__,
                    "killed": MOMENTS - ended,
                    "ended before": ended,
                    "torn or lost": 0,
                    "seconds": time.perf_counter() - began,
                }
            )
    write(
        "kills",
        "Commands killed with SIGKILL",
        table,
        "`cindy fit data.csv --out model.json --report report.html` over files of an earlier run; a summary "
        "that data are added to; `cindy reproduce michaelis`, begun again each time. After every kill "
        "each file is what it was before or what the command makes of it, and in the end the "
        "table is, byte for byte, that of a run that nobody killed. Anything else ends this section.",
        how="seconds by the clock",
    )


def fit(folder: Path, moments: int, seed: int) -> int:
    """Fit over the files of an earlier fit; returns how many fits ended before they were killed."""
    data, model, report = (folder / name for name in ("data.csv", "model.json", "report.html"))
    (one,) = systems.lotka_volterra().simulate(0, noise=0.01, trajectories=1, points=150)
    rows = np.column_stack([one.t, one.x])
    np.savetxt(data, rows, delimiter=",", header=",".join(("t", *one.states)), comments="")
    before = data.read_bytes()

    def command() -> None:
        _cindy("fit", str(data), "--basis", "poly:2", "--out", str(model), "--report", str(report))

    took = _timed(command)
    coef, pages = cindy.load(model).coef, {_page(report)}
    ended = 0
    for delay in _delays(moments, took, seed):
        ended += _killed(command, delay)
        assert data.read_bytes() == before, "the data changed"
        assert np.array_equal(cindy.load(model).coef, coef), "the model changed"
        assert _page(report) in pages, "the report is torn"
    return ended


def accumulate(folder: Path, moments: int, seed: int) -> int:
    """Data added to a summary on disk, again and again."""
    path = folder / "summary.npz"
    data = systems.lorenz().simulate(0, noise=0.01, trajectories=3, points=1500)
    cindy.accumulate(data, cindy.Polynomial(3)).save(path)
    once = cindy.Summary.load(path).total.rows

    def command() -> None:
        (cindy.Summary.load(path) + cindy.accumulate(data, cindy.Polynomial(3))).save(path)

    took = _timed(command)
    rows, ended = cindy.Summary.load(path).total.rows, 0
    for delay in _delays(moments, took, seed):
        done = _killed(command, delay)
        now = cindy.Summary.load(path).total.rows
        assert now - rows in ((once,) if done else (0, once)), "rows of the summary were lost"
        rows, ended = now, ended + done
    return ended


def reproduce(folder: Path, moments: int, seed: int) -> int:
    """A study that is begun again after every kill, and goes on from there."""

    def command(out: str) -> None:
        noise = "1e-4:1e-4:1"
        _cindy("reproduce", "michaelis", "--repetitions", "1", "--noise", noise, "--processes", "1",
               "--out", str(folder / out))  # fmt: skip

    took = _timed(lambda: command("whole"))
    shares = np.random.default_rng(seed).uniform(0, 4 / max(moments, 4), moments)
    ended = sum(_killed(lambda: command("killed"), took * share) for share in shares)
    command("killed")
    for whole in (folder / "whole").rglob("*.csv"):
        if "seconds" not in whole.name:
            other = folder / "killed" / whole.relative_to(folder / "whole")
            assert whole.read_bytes() == other.read_bytes(), f"{whole.name} is not what it should be"
    return ended


def _cindy(*arguments: str) -> None:
    from cindy.cli.app import app

    app(list(arguments), standalone_mode=False)


def _page(report: Path) -> str:
    """What a report consists of, but for the moment it was made; a torn one has no end."""
    text = report.read_text(encoding="utf-8")
    assert text.rstrip().endswith("</html>"), "the report has no end"
    return text[-200:]


def _delays(moments: int, took: float, seed: int) -> list[float]:
    rng = np.random.default_rng(seed)
    return [took * float(rng.uniform(0.0 if k % 2 else 1 - LATE, 1.0)) for k in range(moments)]


def _timed(command: Callable[[], None]) -> float:
    """Seconds of the command in a fork of this process, which loads all it needs by doing it once."""
    with open(os.devnull, "w") as nowhere, redirect_stdout(nowhere), redirect_stderr(nowhere):
        command()
    began = time.perf_counter()
    assert _killed(command, 600.0)
    return time.perf_counter() - began


def _killed(command: Callable[[], None], delay: float) -> bool:
    """Run a command in a fork and kill that after `delay` seconds; whether it had ended by itself."""
    sys.stdout.flush()
    child = os.fork()
    if child == 0:
        status = 1
        try:
            quiet = os.open(os.devnull, os.O_WRONLY)
            os.dup2(quiet, 1)
            os.dup2(quiet, 2)
            command()
            status = 0
        finally:
            os._exit(status)
    ends = time.perf_counter() + delay
    while time.perf_counter() < ends:
        done, status = os.waitpid(child, os.WNOHANG)
        if done:
            assert status == 0, "the command failed by itself"
            return True
        time.sleep(min(0.002, max(ends - time.perf_counter(), 0.0)))
    os.kill(child, signal.SIGKILL)
    os.waitpid(child, 0)
    return False
