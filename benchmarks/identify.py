"""How long identify takes: against thresholded least squares, and from start to finish."""

import resource
import subprocess
import sys
import tempfile
import time
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

import cindy
from benchmarks.table import write
from cindy import systems
from cindy.systems.catalogue import KINETICS

__all__ = ["run"]

FACE = "from cindy.cli import main; main()"
THRESHOLDS = np.geomspace(1e-3, 1.0, 30)
CASES: list[tuple[str, systems.System, float]] = [
    ("kuramoto5", systems.kuramoto(5), 1e-4),
    ("fput5", systems.fput(5), 1e-5),
    ("kuramoto10", systems.kuramoto(10), 1e-4),
    ("fput10", systems.fput(10), 1e-5),
]


def run() -> None:
    """Two tables: identify against pysindy, and what a user waits for."""
    write(
        "identify",
        "identify with its defaults against STLSQ over 30 thresholds",
        [_against(*case) for case in CASES],
        "identify: from trajectories to the selected model, its path and errors; `physics`: the same under "
        "the constraints of the system. pysindy: `STLSQ(threshold).fit` alone, for 30 thresholds from 1e-3 "
        "to 1, on the terms and derivatives of the same samples, which it is given for nothing. "
        "Ratio: identify over pysindy.",
    )
    write(
        "waiting",
        "From start to finish",
        [
            _waited("import cindy", 0.5, ["-c", "import cindy"]),
            _waited("cindy fit (demo data)", 5.0, ["-c", FACE, "fit", str(KINETICS), "--by", "run"]),
        ],
        "A new process each time, the best of five.",
    )


def _against(name: str, system: systems.System, noise: float) -> dict[str, Any]:
    data = system.simulate(seed=0, noise=noise)
    form = cindy.Integral(order=system.order)
    laws = system.constraints()
    free, model = _timed(lambda: cindy.identify(data, system.basis, formulation=form))
    told, _ = _timed(lambda: cindy.identify(data, system.basis, formulation=form, constraints=laws))
    design = system.basis.evaluate(np.concatenate([one.x for one in data]), system.states)
    target = np.concatenate([np.gradient(one.x, one.t, axis=0) for one in data])
    theirs, _ = _timed(lambda: _thresholds(design, target))
    return {
        "system": name,
        "rows × terms × states": f"{len(design)} × {design.shape[1]} × {target.shape[1]}",
        "exact": bool(((model.coef != 0) == (system.coef != 0)).all()),
        "identify (s)": free,
        "physics (s)": told,
        "pysindy (s)": theirs,
        "ratio": free / theirs,
    }


def _thresholds(design: np.ndarray, target: np.ndarray) -> None:
    import pysindy

    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        for threshold in THRESHOLDS:
            pysindy.STLSQ(threshold=float(threshold)).fit(design, target)


def _timed(action: Callable[[], Any]) -> tuple[float, Any]:
    began = time.process_time()
    result = action()
    return time.process_time() - began, result


def _waited(what: str, limit: float, arguments: list[str]) -> dict[str, Any]:
    seconds = []
    for _ in range(5):
        with tempfile.TemporaryDirectory() as folder:
            out = ["--out", str(Path(folder, "model.json"))] if "fit" in arguments else []
            began = _spent()
            subprocess.run([sys.executable, *arguments, *out], check=True, capture_output=True)
            seconds.append(_spent() - began)
    return {"what": what, "seconds": min(seconds), "at most": limit}


def _spent() -> float:
    """Processor time of the processes that have been waited for, in seconds."""
    usage = resource.getrusage(resource.RUSAGE_CHILDREN)
    return usage.ru_utime + usage.ru_stime
