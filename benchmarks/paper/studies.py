"""The studies of the paper by name: what runs, how large, which files and figures come out."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from benchmarks.paper import convergence, estimates, figures, motion
from benchmarks.paper.methods import METHODS
from benchmarks.paper.runner import Case, CaseProgress, run
from benchmarks.paper.setting import FORMULATIONS, PAPER_FORMULATIONS
from benchmarks.paper.tables import FRONT_NOISE, anchors_table, front_table
from benchmarks.table import RESULTS, read_table, write_table
from cindy._check import did_you_mean, integer, positive
from cindy._files import write_text
from cindy.errors import DataError

__all__ = ["STUDIES", "failures", "reproduce"]

HEAT_METHODS = ("sindy", "cindy-early", "cindy-early-c", "default", "default-c")
HEAT_METRICS = {
    "recovery": "log₁₀ of the recovery error $E_R$",
    "extra": "log₁₀(1 + extra terms)",
    "missing": "log₁₀(1 + missing terms)",
}
ANCHOR_METHODS = (
    "floor",
    "sindy",
    "cindy",
    "cindy-c",
    "cindy-early",
    "cindy-early-c",
    "default",
    "default-c",
)


@dataclass(frozen=True)
class StudyPlan:
    """How large a study is. The committed results use `committed`; `quick` is a picture in minutes."""

    noise: tuple[float, ...]
    repetitions: int
    trials: int


SMALL = {
    "kuramoto5": StudyPlan(tuple(np.logspace(-8, -2, 7).tolist()), 5, 16),
    "fput5": StudyPlan(tuple(np.logspace(-8, -2, 7).tolist()), 5, 16),
    "michaelis": StudyPlan(tuple(np.logspace(-8, -1, 8).tolist()), 5, 16),
}
LARGE = {
    "kuramoto10": StudyPlan((1e-8, 1e-6, 1e-4, 1e-2), 2, 12),
    "fput10": StudyPlan((1e-8, 1e-6, 1e-4, 1e-2), 2, 12),
}
QUICK = {
    **dict.fromkeys(SMALL, StudyPlan((1e-6, 1e-4, 1e-2), 2, 8)),
    **dict.fromkeys(LARGE, StudyPlan((1e-6, 1e-4), 1, 6)),
}
SIZES = {"kuramoto5": (10, 20, 40, 80, 160), "fput5": (20, 40, 80, 160, 320)}
HEAT = StudyPlan((1e-6, 1e-5, 1e-4, 1e-3, 1e-2), 2, 8)
QUICK_HEAT = StudyPlan((1e-6, 1e-4, 1e-2), 1, 4)
ESTIMATES = tuple(np.logspace(-8, -2, 13).tolist())


@dataclass(frozen=True)
class Request:
    """What the caller asked for."""

    out: Path
    repetitions: int | None
    noise: tuple[float, ...] | None
    quick: bool
    processes: int
    progress: CaseProgress | None
    methods: tuple[str, ...] = tuple(METHODS)

    def plan(self, full: StudyPlan, quick: StudyPlan) -> StudyPlan:
        chosen = quick if self.quick else full
        return StudyPlan(self.noise or chosen.noise, self.repetitions or chosen.repetitions, chosen.trials)


def reproduce(
    system: str,
    *,
    out: Path | str = RESULTS / "paper",
    repetitions: int | None = None,
    noise: Sequence[float] | None = None,
    quick: bool = False,
    processes: int = 2,
    progress: CaseProgress | None = None,
    methods: Sequence[str] | None = None,
) -> list[Path]:
    """Repeat one study of the paper, or "all": the files that were written.

    Results are csv files in `out`, figures are under `out/figures`. What a file of
    an earlier or broken run holds is kept and not repeated, so more repetitions or
    more levels of noise extend it. `quick` is smaller, and keeps its files apart.

    noise, repetitions: in place of the study's own
    progress: called with the tasks finished, the tasks in all, and the last one's name
    methods: those of the studies against noise, as "states" and "default-c"; None: all
    """
    if system not in (*STUDIES, "all"):
        raise DataError(f'reproduce: there is no study "{system}". {did_you_mean(system, (*STUDIES, "all"))}')
    if repetitions is not None:
        integer(repetitions, "reproduce: `repetitions`", least=1)
    integer(processes, "reproduce: `processes`", least=1)
    for method in methods or ():
        if method not in METHODS:
            raise DataError(f'reproduce: there is no method "{method}". {did_you_mean(method, METHODS)}')
    levels = None if noise is None else tuple(positive(n, "reproduce: a level of noise") for n in noise)
    folder = Path(out) / "quick" if quick else Path(out)
    request = Request(folder, repetitions, levels, quick, processes, progress, tuple(methods or METHODS))
    names = list(STUDIES) if system == "all" else [system]
    return [path for name in names for path in STUDIES[name](name, request)]


def failures(files: Sequence[Path]) -> list[str]:
    """A sentence for each task that failed, or whose tuned value stands at an end of its range."""
    found = []
    for file in files:
        for row in read_table(file) if file.suffix == ".csv" else ():
            task = " ".join(row.get(k, "") for k in ("system", "formulation", "noise", "method"))
            if row.get("error"):
                found.append(f"{task}, repetition {row['repetition']}: {row['error']}")
            if row.get("edge"):
                found.append(
                    f"{task}, repetition {row['repetition']}: tuned to an end of the range, {row['edge']}"
                )
    return found


def _noise_study(system: str, request: Request) -> list[Path]:
    """The five metrics against noise, every method, every formulation."""
    plan = request.plan({**SMALL, **LARGE}[system], QUICK[system])
    cases = [
        Case(system, formulation, eta, repetition)
        for repetition in range(plan.repetitions)
        for eta in plan.noise
        for formulation in FORMULATIONS
    ]
    table = request.out / f"{system}.csv"
    rows = run(
        cases,
        request.methods,
        table,
        trials=plan.trials,
        processes=request.processes,
        progress=request.progress,
    )
    drawn = [
        figures.save(
            figures.metrics_against_noise(rows, methods), request.out / "figures" / f"{system}{suffix}.png"
        )
        for methods, suffix in ((figures.PAPER_METHODS, ""), (figures.MORE_PEERS, "-more"))
    ]
    text = request.out / f"{system}.md"
    if any(float(row["noise"]) == FRONT_NOISE for row in rows):
        write_text(text, front_table(rows, read_table(table.with_suffix(".seconds.csv"))), "a table")
        drawn.append(text)
    return [table, *drawn]


def _sample_efficiency(name: str, request: Request) -> list[Path]:
    """E_R, S_E and S_M over noise and number of experiments."""
    plan = request.plan(HEAT, QUICK_HEAT)
    cases = [
        Case(system, formulation, eta, repetition, trajectories=size)
        for repetition in range(plan.repetitions)
        for system, sizes in SIZES.items()
        for size in (sizes[:3] if request.quick else sizes)
        for eta in plan.noise
        for formulation in (*PAPER_FORMULATIONS, "free")
    ]
    table = request.out / f"{name}.csv"
    rows = run(
        cases, HEAT_METHODS, table, trials=plan.trials, processes=request.processes, progress=request.progress
    )
    drawn = [
        figures.save(
            figures.heat_maps(rows, system, metric, label, HEAT_METHODS),
            request.out / "figures" / f"{name}-{system}-{metric}.png",
        )
        for system in SIZES
        for metric, label in HEAT_METRICS.items()
    ]
    return [table, *drawn]


def _trajectories(name: str, request: Request) -> list[Path]:
    """Identified models of Kuramoto-10 and FPUT-10, simulated."""
    paths = []
    for done, system in enumerate(motion.NOISE):
        table = request.out / f"{name}-{system}.csv"
        if not table.exists():
            write_table(
                table,
                motion.motion_columns(),
                motion.set_in_motion(system, trials=6 if request.quick else 16),
            )
        drawn = motion.draw_motion(read_table(table), system)
        paths += [table, figures.save(drawn, request.out / "figures" / f"{name}-{system}.png")]
        _tell(request, done + 1, len(motion.NOISE), f"{name} {system}")
    return paths


def _estimates(name: str, request: Request) -> list[Path]:
    """Errors of derivative and integral estimates against noise."""
    repetitions = request.repetitions or (1 if request.quick else 5)
    rows = estimates.estimate_errors(request.noise or ESTIMATES, repetitions)
    table = write_table(request.out / f"{name}.csv", estimates.COLUMNS, rows)
    _tell(request, 1, 1, name)
    return [
        table,
        figures.save(estimates.draw_estimates(read_table(table)), request.out / "figures" / f"{name}.png"),
    ]


def _convergence(name: str, request: Request) -> list[Path]:
    """Objective along the run of each algorithm."""
    paths = []
    for done, system in enumerate(SMALL):
        table, clock = request.out / f"{name}-{system}.csv", request.out / f"{name}-{system}.seconds.csv"
        if not table.exists():
            rows = convergence.objective_along_runs(system, points=8 if request.quick else 14)
            write_table(clock, convergence.SECONDS, [{k: r[k] for k in convergence.SECONDS} for r in rows])
            write_table(table, convergence.COLUMNS, [{k: r[k] for k in convergence.COLUMNS} for r in rows])
        drawn = convergence.draw_convergence(read_table(table), read_table(clock))
        paths += [table, figures.save(drawn, request.out / "figures" / f"{name}-{system}.png")]
        _tell(request, done + 1, len(SMALL), f"{name} {system}")
    return paths


def _anchors(name: str, request: Request) -> list[Path]:
    """The noise of the authors' code, η = 1e-4: for comparison with figures measured with that code."""
    cases = [
        Case(system, formulation, 1e-4, repetition, spread="trajectory")
        for repetition in range(request.repetitions or (1 if request.quick else 3))
        for system in SMALL
        for formulation in (*PAPER_FORMULATIONS, "free")
    ]
    table = request.out / f"{name}.csv"
    trials = 4 if request.quick else 16
    rows = run(
        cases,
        ANCHOR_METHODS,
        table,
        trials=trials,
        processes=request.processes,
        progress=request.progress,
    )
    text = request.out / f"{name}.md"
    write_text(text, anchors_table(rows, read_table(table.with_suffix(".seconds.csv"))), "a table")
    return [table, text]


def _tell(request: Request, done: int, total: int, label: str) -> None:
    if request.progress is not None:
        request.progress(done, total, label)


STUDIES: dict[str, Callable[[str, Request], list[Path]]] = {
    **dict.fromkeys((*SMALL, *LARGE), _noise_study),
    "sample-efficiency": _sample_efficiency,
    "trajectories": _trajectories,
    "estimates": _estimates,
    "convergence": _convergence,
    "anchors": _anchors,
}
