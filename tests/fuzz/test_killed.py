"""Processes that are killed while they write: nothing torn, nothing lost."""

import json
import os
import signal
import subprocess
import sys
import time

import numpy as np
import pytest
from benchmarks import kills

import cindy
from cindy.summary import Summary

MOMENTS = 20

SAVE = """
import sys, numpy as np, cindy
folder = sys.argv[1]
t = np.linspace(0, 6, 200)
data = cindy.Trajectory(t, np.column_stack([np.cos(t), -np.sin(t)]), ("x", "v"))
summary = cindy.accumulate(data, cindy.Polynomial(3))
model = cindy.solve(cindy.Problem(summary))
print("ready", flush=True)
while True:
    model.save(folder + "/model.json")
    summary.save(folder + "/summary.npz")
"""

ROWS = """
import sys, pathlib
from benchmarks.paper import runner
from benchmarks.table import append_row, mend
out = pathlib.Path(sys.argv[1]) / "table.csv"
key = runner.Case("kuramoto5", "integral", 1e-3, 0).key
print("ready", flush=True)
k = 0
mend(out)
while True:
    append_row(out, runner.COLUMNS, runner._row(key(f"method {k}"), error="a long sentence " * 8))
    k += 1
"""


def killed(program, folder, delay):
    """Run a program, kill it a moment after it is ready."""
    with subprocess.Popen([sys.executable, "-c", program, folder], stdout=subprocess.PIPE) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == b"ready\n"
        time.sleep(delay)
        os.kill(process.pid, signal.SIGKILL)


@pytest.mark.skipif(not hasattr(signal, "SIGKILL"), reason="the system cannot kill")
def test_a_model_and_a_summary_are_whole_whenever_the_writer_is_killed(tmp_path):
    # One writer forks many times over: starting Python for each moment would take long.
    rng = np.random.default_rng(0)
    ready = SAVE.replace(
        'print("ready", flush=True)',
        "import os, time, signal\\n"
        'for delay in map(float, sys.argv[2].split(",")):\\n'
        "    child = os.fork()\\n"
        "    if child == 0:\\n        break\\n"
        "    time.sleep(delay)\\n    os.kill(child, signal.SIGKILL)\\n    os.waitpid(child, 0)\\n"
        "    cindy.load(folder + '/model.json')\\n"
        "    cindy.Summary.load(folder + '/summary.npz')\\n"
        "else:\\n    sys.exit(0)",
    ).replace("\\n", "\n")
    first = SAVE.replace("while True:", "for _ in range(1):")
    subprocess.run([sys.executable, "-c", first, tmp_path], check=True, stdout=subprocess.DEVNULL)
    delays = ",".join(f"{d:.4f}" for d in rng.uniform(0.001, 0.06, MOMENTS))
    subprocess.run([sys.executable, "-c", ready, tmp_path, delays], check=True)
    assert cindy.load(tmp_path / "model.json").size == 2
    assert len(Summary.load(tmp_path / "summary.npz").terms) == 10
    assert json.loads((tmp_path / "model.json").read_text())["format"] == "cindy-model"


@pytest.mark.skipif(not hasattr(signal, "SIGKILL"), reason="the system cannot kill")
def test_a_table_that_a_killed_run_left_is_resumed_without_a_torn_row(tmp_path):
    from benchmarks.table import mend, read_table

    for delay in (0.01, 0.05):
        killed(ROWS, str(tmp_path), delay)
    mend(tmp_path / "table.csv")
    rows = read_table(tmp_path / "table.csv")
    assert rows
    assert all(row["error"] == "a long sentence " * 8 for row in rows)
    assert all(None not in row and None not in row.values() for row in rows)


@pytest.mark.skipif(not hasattr(os, "fork"), reason="the system cannot fork")
@pytest.mark.parametrize(("command", "moments"), [(kills.fit, 2), (kills.accumulate, 4)])
def test_a_command_that_is_killed_leaves_its_files_as_they_were_or_as_they_should_be(
    command, moments, tmp_path
):
    # Fifty moments of each, and of `reproduce`: python -m benchmarks kills.
    command(tmp_path, moments, seed=1)
