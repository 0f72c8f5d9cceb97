"""The runner: cases × methods over processes, into a csv that a broken run resumes from."""

import multiprocessing
import os
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from queue import Empty
from typing import Any

from benchmarks.paper.methods import METHODS
from benchmarks.paper.setting import measure, prepare
from benchmarks.table import alone, append_row, mend, read_table, shown, write_table
from cindy import __version__
from cindy._files import make_folder

__all__ = ["COLUMNS", "Case", "CaseProgress", "run"]

CaseProgress = Callable[[int, int, str], None]
"""Called with the number of finished tasks, of all tasks, and the one just finished."""
Record = dict[str, str]

KEY = ("system", "formulation", "noise", "repetition", "trajectories", "spread", "method")
VALUES = (
    "recovery",
    "flow",
    "path",
    "extra",
    "missing",
    "loss",
    "trials",
    "parameters",
    "edge",
    "note",
    "error",
    "version",
)
COLUMNS = KEY + VALUES


@dataclass(frozen=True)
class Case:
    """One data set in one formulation. `trajectories` 0: as many as the paper has."""

    system: str
    formulation: str
    noise: float
    repetition: int
    trajectories: int = 0
    spread: str = "pooled"

    def key(self, method: str) -> Record:
        return {
            "system": self.system,
            "formulation": self.formulation,
            "noise": f"{self.noise:.3g}",
            "repetition": str(self.repetition),
            "trajectories": str(self.trajectories),
            "spread": self.spread,
            "method": method,
        }


def run(
    cases: Iterable[Case],
    methods: Sequence[str],
    out: Path,
    *,
    trials: int,
    processes: int = 1,
    progress: CaseProgress | None = None,
) -> list[Record]:
    """Every method that takes part in a case's formulation, on every case; all rows of the file `out`.

    Rows are appended as they come, and what the file holds already is not repeated. A second run into the
    same file while this one lasts is refused.
    Each row has the version of the library that made it.
    At the end the file is sorted, so two runs give the same file. Seconds of the
    processor are beside it, in `NAME.seconds.csv`, since no two runs share those.
    """
    make_folder(out.parent)
    with alone(out):
        return _run(cases, methods, out, trials, processes, progress)


def _run(
    cases: Iterable[Case],
    methods: Sequence[str],
    out: Path,
    trials: int,
    processes: int,
    progress: CaseProgress | None,
) -> list[Record]:
    for path in (out, _seconds_file(out)):
        mend(path)
    finished = {_identity(row) for row in read_table(out)}
    work: list[tuple[Case, list[str]]] = []
    for case in cases:
        todo = [m for m in methods if case.formulation in METHODS[m].formulations]
        missing = [m for m in todo if _identity(case.key(m)) not in finished]
        if missing:
            work.append((case, missing))
    total = sum(len(m) for _, m in work)
    for done, (row, seconds) in enumerate(_results(work, trials, processes), start=1):
        append_row(out, COLUMNS, row)
        append_row(
            _seconds_file(out), (*KEY, "seconds"), {**{k: row[k] for k in KEY}, "seconds": f"{seconds:.3f}"}
        )
        if progress is not None:
            progress(done, total, " ".join(row[k] for k in ("system", "formulation", "noise", "method")))
    rows = _once(read_table(out))
    if work:
        write_table(out, COLUMNS, rows)
        write_table(_seconds_file(out), (*KEY, "seconds"), _once(read_table(_seconds_file(out))))
    return rows


def _once(rows: Iterable[Record]) -> list[Record]:
    """The rows in order, one for each case and method: the first, as a run that resumes would keep it."""
    kept: dict[tuple[str, ...], Record] = {}
    for row in rows:
        kept.setdefault(_identity(row), row)
    return sorted(kept.values(), key=_order)


def attempts(case: Case, methods: Sequence[str], trials: int) -> Iterator[tuple[Record, float]]:
    """All `methods` on one case, each as it ends, with its seconds; a failure is a row with its error."""
    try:
        setting = prepare(
            case.system,
            case.formulation,
            case.noise,
            case.repetition,
            trajectories=case.trajectories or None,
            points=case.trajectories * _samples(case.system) or None,
            spread=case.spread,
        )
    except Exception as error:
        for method in methods:
            yield _row(case.key(method), error=_sentence(error)), 0.0
        return
    for method in methods:
        began = time.process_time()
        try:
            tuned = METHODS[method].fit(setting, trials, case.repetition)
            seconds = time.process_time() - began
            scores = measure(setting.physical(tuned.coef), setting)
            row = _row(
                case.key(method),
                recovery=scores.recovery,
                flow=scores.flow,
                path=scores.path,
                extra=scores.extra,
                missing=scores.missing,
                loss=tuned.loss,
                trials=tuned.trials,
                parameters=" ".join(f"{k}={v:.3g}" for k, v in tuned.parameters.items()),
                edge=tuned.edge,
                note=tuned.note,
            )
        except Exception as error:
            # A peer may fail in any way at all, and the others must still run.
            seconds = time.process_time() - began
            row = _row(case.key(method), error=_sentence(error))
        yield row, seconds


def _send(
    case: Case, methods: Sequence[str], trials: int, send: Callable[[tuple[Record, float]], None]
) -> None:
    for result in attempts(case, methods, trials):
        send(result)


def _results(
    work: Sequence[tuple[Case, list[str]]], trials: int, processes: int
) -> Iterator[tuple[Record, float]]:
    if processes <= 1 or len(work) <= 1:
        for case, methods in work:
            yield from attempts(case, methods, trials)
        return
    # One BLAS thread a process, set before the workers load it: more would fight for the same cores.
    before = {
        name: os.environ.get(name) for name in ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS")
    }
    os.environ.update(dict.fromkeys(before, "1"))
    try:
        context = multiprocessing.get_context("spawn")
        with context.Manager() as manager, ProcessPoolExecutor(processes, mp_context=context) as pool:
            queue = manager.Queue()
            futures = [pool.submit(_send, case, methods, trials, queue.put) for case, methods in work]
            waiting = sum(len(methods) for _, methods in work)
            while waiting:
                try:
                    yield queue.get(timeout=1.0)
                    waiting -= 1
                except Empty:
                    for future in futures:
                        if future.done():
                            future.result()
    finally:
        for name, value in before.items():
            if value is None:
                os.environ.pop(name, None)
            else:
                os.environ[name] = value


def _samples(system: str) -> int:
    """Samples a trajectory in the paper's studies of sample efficiency."""
    return 50 if system.startswith("kuramoto") else 30


def _row(key: Record, **values: Any) -> Record:
    told = {k: shown(v) for k, v in values.items()}
    return {**dict.fromkeys(COLUMNS, ""), **key, **told, "version": __version__}


def _sentence(error: Exception) -> str:
    return f"{type(error).__name__}: {error}".replace("\n", " ")[:200]


def _identity(row: Record) -> tuple[str, ...]:
    return tuple(row[k] for k in KEY)


def _order(row: Mapping[str, Any]) -> tuple[Any, ...]:
    return (
        row["system"],
        row["formulation"],
        int(row["trajectories"]),
        row["spread"],
        float(row["noise"]),
        int(row["repetition"]),
        list(METHODS).index(row["method"]),
    )


def _seconds_file(out: Path) -> Path:
    return out.with_suffix(".seconds.csv")
