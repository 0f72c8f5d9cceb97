"""The commands beside fit: show, export, simulate, report, reproduce and bench."""

import csv
import io
import runpy
import sys
import warnings
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import typer

import cindy
from cindy._files import whole_file, write_text
from cindy.cli import screen, texts
from cindy.cli.screen import bar, show_warnings, working
from cindy.cli.texts import number, whole
from cindy.data import Field, Trajectory, as_hold, read
from cindy.errors import DataError, require
from cindy.model import Model, load, unmeasured

__all__ = ["levels", "run_bench", "run_export", "run_report", "run_reproduce", "run_show", "run_simulate"]


_FORMS = {
    ".fmu": "fmu",
    ".casadi": "casadi",
    ".mo": "modelica",
    ".jl": "julia",
    ".c": "c",
    ".py": "python",
    ".tex": "latex",
    ".xml": "sbml",
}
"""What `export` writes, by the ending of the file."""
_STARTED = ("fmu", "modelica", "sbml")
"""Forms that hold where a solution starts."""


def run_show(file: Path, forms: Sequence[str]) -> None:
    """The model in one of the forms of `Model.to_…`, or as a summary where no form is named."""
    model = load(file)
    if len(forms) > 1:
        raise DataError(f"show: choose one of --{' and --'.join(forms)}.")
    if not forms:
        screen.show_model(model)
        return
    if forms[0] == "near":
        screen.show_near(model)
        return
    if forms[0] == "sympy":
        mark = "'" * model.order
        for state, formula in zip(model.states, model.to_sympy(), strict=True):
            screen.out.file.write(f"{state}{mark} = {formula}\n")
        return
    source = model.to_latex(errors=True) if forms[0] == "latex" else str(getattr(model, f"to_{forms[0]}")())
    screen.out.file.write(source.rstrip("\n") + "\n")


def run_export(file: Path, target: Path, x0: str | None) -> None:
    """Write the model in the form that the ending of `target` names."""
    model = load(file)
    form = _FORMS.get(target.suffix.lower())
    if form is None:
        raise DataError(f"export: {target} must end in one of {', '.join(_FORMS)}.")
    if x0 is not None and form not in _STARTED:
        raise DataError(f"export: a {target.suffix} file holds no start; leave --x0 out.")
    start = None if x0 is None else texts.start(x0, model.states, "--x0")
    if form == "fmu":
        with warnings.catch_warnings(record=True) as told:
            warnings.simplefilter("always")
            model.to_fmu(target, x0=start)
        show_warnings([str(one.message) for one in told])
    elif form == "casadi":
        model.to_casadi().save(str(target))
    else:
        options = {"x0": start} if form in _STARTED else {}
        write_text(target, str(getattr(model, f"to_{form}")(**options)).rstrip("\n") + "\n", "the export")
    screen.show_files([(target, f"the model as {form}")])


def run_report(
    file: Path, data: Sequence[str], *, time: str | None, by: str | None, periodic: str | None, out: Path
) -> None:
    """The report of a saved model on data."""
    model = load(file)
    if model.formulation.for_fields:
        around = () if periodic is None else texts.names(periodic, "--periodic")
        known: list[Any] = [
            Field(one, periodic=around, inputs=model.inputs, time=time or "t", name=Path(one).stem)
            for one in data
        ]
    else:
        inputs = tuple(name for name in model.inputs if not unmeasured(name))
        known = [
            one
            for name in data
            for one in read(Path(name), time=time, states=model.states, by=by, inputs=inputs or None)
        ]
    with working("Writing the report"):
        cindy.report.write(model, known, out)
    screen.show_files([(out, "the report: one page, opens in a browser")])


def run_simulate(
    file: Path,
    *,
    x0: str,
    t: str | None,
    v0: str | None = None,
    inputs: Path | None = None,
    hold: str | None = None,
    periodic: str | None = None,
    out: Path | None,
) -> None:
    """Solve, and write the solution as csv to a file or to the screen; fields as npz."""
    model = load(file)
    if model.formulation.for_fields:
        _solve_field(model, Path(x0), t, periodic, out)
        return
    start = texts.start(x0, model.states, "--x0")
    velocity = None if v0 is None else texts.start(v0, model.states, "--v0")
    between = as_hold(hold or model.settings.get("hold", "linear"), "--hold")
    known = None if inputs is None else _inputs(model, inputs)
    if t is None and known is None:
        raise DataError('simulate: the times are missing. Say --t "start:stop:step".')
    times = known.t if t is None and known is not None else texts.times(t or "")
    with working("Simulating"):
        if known is None:
            found = model.simulate(start, times, v0=velocity)
        else:
            found = model.simulate(start, times, known.x, between, u_t=known.t, v0=velocity)
    text = _csv(found)
    if out is None:
        sys.stdout.write(text)
    else:
        write_text(out, text, "the solution")
    if found.stopped is not None:
        show_warnings([f"stopped after {len(found)} of {len(times)} samples: {found.stopped}."])


def _solve_field(model: Model, start: Path, t: str | None, periodic: str | None, out: Path | None) -> None:
    """From the first field of a file to the solution at the times asked for, or at those of the file."""
    if out is None or out.suffix != ".npz":
        raise DataError("simulate: a solution of fields is written to a file. Say --out solution.npz.")
    around = () if periodic is None else texts.names(periodic, "--periodic")
    field = Field(start, periodic=around, inputs=model.inputs)
    times = field.t if t is None else texts.times(t)
    with bar("Simulating") as progress:
        found = model.simulate(field, times, progress=lambda done, total: progress(done, total, ""))
    arrays = {axis: found.coordinate(axis) for axis in (*found.axes, found.time)}
    arrays |= {state: found[state] for state in found.states}
    with whole_file(out, "the solution") as stream:
        np.savez_compressed(stream, **arrays)  # type: ignore[arg-type]
    if found.stopped is not None:
        show_warnings([f"stopped after {len(found)} of {len(times)} times: {found.stopped}."])


def _inputs(model: Model, file: Path) -> Trajectory:
    measured = tuple(name for name in model.inputs if not unmeasured(name))
    if not measured:
        raise DataError("simulate: the model has no inputs, so --inputs must be left out.")
    found = read(file, states=measured)
    if len(found) != 1:
        raise DataError(f"simulate: {file} must hold the inputs of one trajectory, but holds {len(found)}.")
    return found[0]


def _csv(found: Trajectory) -> str:
    stream = io.StringIO()
    csv.writer(stream, lineterminator="\n").writerow(("t", *found.variables))
    np.savetxt(stream, np.column_stack([found.t, found.values]), "%.12g", ",")
    return stream.getvalue()


def run_reproduce(
    experiment: str,
    repetitions: int | None,
    noise: str | None,
    out: Path | None,
    *,
    quick: bool,
    processes: int,
) -> None:
    """Repeat one experiment of the paper."""
    folder = _checkout("reproduce", "experiments of the paper")
    experiments = require("benchmarks.paper", "bench", "cindy reproduce")
    with screen.bar(f"Reproducing {experiment}") as progress:
        files = experiments.reproduce(
            experiment,
            out=out or folder / "benchmarks" / "results" / "paper",
            repetitions=repetitions,
            noise=None if noise is None else levels(noise),
            quick=quick,
            processes=processes,
            progress=progress,
        )
    screen.show_files([(Path(file), "") for file in files])
    failed = experiments.failures([Path(file) for file in files])
    if failed:
        screen.show_failures(failed)
        raise typer.Exit(1)


def levels(text: str) -> tuple[float, ...]:
    """Levels of noise as "lowest:highest:count", evenly spaced in the logarithm, or with commas.

    >>> levels("1e-4:1e-2:3")
    (0.0001, 0.001, 0.01)
    """
    if ":" not in text:
        return tuple(number(part, "--noise") for part in text.split(","))
    parts = text.split(":")
    if len(parts) != 3:
        raise DataError(f'--noise: expected "lowest:highest:count", as in "1e-8:1e-2:13", but got "{text}".')
    low, high, count = number(parts[0], "--noise"), number(parts[1], "--noise"), whole(parts[2], "--noise")
    if not (0 < low <= high and 1 <= count <= 1000):
        raise DataError(f'--noise: "{text}" needs 0 < lowest ≤ highest and a count from 1 to 1000.')
    # Rounded, so that a level is the same number however it was typed, and finished work is found again.
    return tuple(float(f"{level:.6g}") for level in np.geomspace(low, high, count))


def run_bench(sections: Sequence[str]) -> None:
    """Run the benchmarks of the checkout."""
    _checkout("bench", "benchmarks")
    sys.argv = ["benchmarks", *sections]
    runpy.run_module("benchmarks", run_name="__main__")


def _checkout(command: str, what: str) -> Path:
    """The checkout that the current folder lies in, and from now on the place of the package `benchmarks`."""
    here = Path.cwd()
    for folder in (here, *here.parents):
        if (folder / "benchmarks" / "paper").is_dir() and (folder / "src" / "cindy").is_dir():
            sys.path.insert(0, str(folder))
            return folder
    raise DataError(
        f"{command}: the {what} are part of the repository and not of the installed package, so clone the "
        'repository, run pip install -e ".[bench]" in it and repeat this command there.'
    )
