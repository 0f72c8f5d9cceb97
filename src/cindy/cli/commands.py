"""The commands fit and demo, and what the others read and write."""

from __future__ import annotations

import csv
import io
import warnings
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
from rich.table import Column

import cindy
from cindy._files import make_folder, whole_file
from cindy.basis import Basis, listed
from cindy.cli import screen, texts
from cindy.cli.settings import FitSettings
from cindy.data import NETCDF, Field, Trajectory, read
from cindy.errors import DataError, NoModelError, require
from cindy.export import format_value
from cindy.identification import basis_from_text, name_list, number, whole
from cindy.model import Model, unmeasured
from cindy.systems.catalogue import KINETICS, kinetics


def solve_field(model: Model, start: Path, t: str | None, periodic: str | None, out: Path | None) -> None:
    """Solve from the first field of a file, at the given times or at those of the file."""
    if out is None or out.suffix != ".npz":
        raise DataError("simulate: a solution of fields is written to a file. Say --out solution.npz.")
    [field] = fields_of([str(start)], periodic, model.inputs, None)
    times = field.t if t is None else texts.times(t)
    with screen.bar("Simulating") as progress:
        solution = model.simulate(field, times, progress=lambda done, total: progress(done, total, ""))
    arrays = {axis: solution.coordinate(axis) for axis in (*solution.axes, solution.time)}
    arrays |= {state: solution[state] for state in solution.states}
    with whole_file(out, "the solution") as stream:
        np.savez_compressed(stream, **arrays)  # type: ignore[arg-type]
    if solution.stopped is not None:
        screen.show_warnings([f"stopped after {len(solution)} of {len(times)} times: {solution.stopped}."])


def inputs_from(model: Model, file: Path | None, time: str | None) -> Trajectory | None:
    """The inputs over time from a file; None for a model without inputs."""
    measured = tuple(name for name in model.inputs if not unmeasured(name))
    if file is None:
        if measured:
            raise DataError(
                f"simulate: the model has the inputs {listed(measured)}. Name a file with these columns and "
                "one of times with --inputs."
            )
        return None
    if not measured:
        raise DataError("simulate: the model has no inputs, so --inputs must be left out.")
    runs = read(file, names(time, "--time"), measured)
    if len(runs) != 1:
        raise DataError(f"simulate: {file} must hold the inputs of one trajectory, but holds {len(runs)}.")
    return runs[0]


def as_csv(solution: Trajectory) -> str:
    stream = io.StringIO()
    csv.writer(stream, lineterminator="\n").writerow(("t", *solution.variables))
    np.savetxt(stream, np.column_stack([solution.t, solution.values]), "%.12g", ",")
    return stream.getvalue()


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
    # Rounded, so that a level is the same number however it was typed and finished work is recognised.
    return tuple(float(f"{level:.6g}") for level in np.geomspace(low, high, count))


def run_fit(settings: FitSettings, config: Path | None) -> None:
    """Read, identify, show, write."""
    if not settings.data:
        raise DataError('fit: no data. Name a file, as in "cindy fit data.csv".')
    if config is not None:
        screen.out.print(f"Options from {config}", style="dim")
    data: list[Any]
    hint = ""
    # netCDF files hold fields, and so do those for a basis with derivatives in space.
    if "pde" in settings.basis or any(Path(f).suffix.lower() in NETCDF for f in settings.data):
        settings = _for_fields(settings)
        inputs = names(settings.inputs, "--inputs") or ()
        data = list(fields_of(settings.data, settings.periodic, inputs, settings.time))
        _show_fields(settings.data, data)
    else:
        data = [trajectory for file in settings.data for trajectory in _read(file, settings)]
        screen.show_data(settings.data, data)
        if settings.states is None and settings.inputs is None and len(data[0].states) > 1:
            hint = (
                "All columns were taken as states, which get an equation each. Name those that are set from "
                "outside, such as a heater, with --inputs, and say --hold zero if they are switched."
            )
    terms, parameters = settings.terms(), settings.parameters()
    basis = basis_from_text(settings.basis, terms, parameters, where="--basis")
    try:
        model, sentences = identified(data, basis, **settings.arguments())
    except NoModelError as error:
        raise NoModelError(f"{error} {hint}".rstrip()) from error
    wanted = (settings.out, settings.report, settings.figures)
    out, report, figures = (None if name is None else Path(name) for name in wanted)
    try:
        screen.show_model(model, sentences, hint)
    finally:
        # A reader that closes the pipe early, as in "cindy fit … | head", still gets the files.
        files = write(model, data, out=out, report=report, figures=figures)
    screen.show_files(files)


def _read(file: str, settings: FitSettings) -> list[Trajectory]:
    states, inputs = names(settings.states, "--states"), names(settings.inputs, "--inputs")
    by = names(settings.by, "--by")
    hold: Any = settings.hold or "linear"
    with screen.working(f"Reading {file}"):
        unit, dt = settings.time_unit, settings.dt
        times = names(settings.time, "--time")
        runs = read(Path(file), times, states, by, inputs, dt=dt, hold=hold, time_unit=unit)
        return [replace(run, delay=settings.delays()) for run in runs]


def names(text: str | None, option: str) -> tuple[str, ...] | None:
    """The names of an option; None if it is not given."""
    return None if text is None else name_list(text, option)


def fields_of(
    files: Sequence[str], periodic: str | None, inputs: tuple[str, ...], time: str | None
) -> list[Field]:
    """The files as fields, whose values are read when they are needed."""
    axes = names(periodic, "--periodic") or ()
    return [Field(file, periodic=axes, inputs=inputs, time=time, name=Path(file).stem) for file in files]


def identified(data: Sequence[Any], basis: Basis, **arguments: Any) -> tuple[Model, list[str]]:
    """The model and the warnings of the run; its stages are shown on a terminal."""
    with screen.working("Identifying") as progress, warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")

        def follow(step: Any) -> None:
            progress(f"iteration {step.iteration}, {step.atoms} atoms, gap {step.gap:.2e}")

        def count(done: int, of: int | None, stage: str) -> None:
            if stage == "data":
                progress(f"{done:,} samples" if of is None else f"{done:,} of {of:,} samples")
            else:
                progress(f"searching, {done} models compared" if stage == "search" else "comparing with data")

        model = cindy.identify(list(data), basis, callback=follow, progress=count, **arguments)
    # Other warnings come from libraries, and users of the command line can do nothing about them.
    sentences = [
        str(warning.message) for warning in caught if issubclass(warning.category, cindy.ConvergenceWarning)
    ]
    return model, sentences


def write(
    model: Model, data: Sequence[Any], *, out: Path | None, report: Path | None, figures: Path | None
) -> list[tuple[Path, str]]:
    """Write the files that are named; returns each with a description."""
    written: list[tuple[Path, str]] = []
    for folder in (figures, *(file.parent for file in (out, report) if file is not None)):
        if folder is not None:
            make_folder(folder)
    if out is not None:
        model.save(out)
        written.append((out, "the model"))
    if figures is not None:
        with screen.working("Drawing"):
            written += draw(model, data, figures)
    if report is not None:
        with screen.working("Writing the report"):
            cindy.report.write(model, list(data), report)
        written.append((report, "the report: one page, opens in a browser"))
    return written


def _for_fields(settings: FitSettings) -> FitSettings:
    """The settings, with the basis and the formulation for fields unless others were given."""
    usual = FitSettings()
    basis = "pde:3,4" if settings.basis == usual.basis else settings.basis
    form = "weak" if settings.formulation == usual.formulation else settings.formulation
    return replace(settings, basis=basis, formulation=form)


def _show_fields(files: Sequence[str], fields: Sequence[Field]) -> None:
    """Print the grids of fields."""
    screen.section("Data")
    for file, field in zip(files, fields, strict=True):
        grid = " × ".join(
            f"{n} {axis}" for axis, n in zip((*field.axes, field.time), field.shape, strict=True)
        )
        axes = [axis for axis in field.axes if field.period(axis) is not None]
        inputs = f"; inputs {', '.join(field.inputs)}" if field.inputs else ""
        periodic = f"; periodic in {', '.join(axes)}" if axes else ""
        screen.plain(f"{file}: {', '.join(field.states)} on {grid}{periodic}{inputs}")


_TRAJECTORIES = 2
"""Trajectories in a figure; more would hide each other."""


def draw(model: Model, data: Sequence[Any], folder: Path) -> list[tuple[Path, str]]:
    """Write the figures into the folder; returns each file with a description."""
    require("matplotlib", "plot", "drawing figures")
    plots: list[tuple[str, str, Callable[[], Any]]] = [
        ("coefficients", "the coefficients with their errors", lambda: cindy.plot.coefficients(model))
    ]
    if model.formulation.for_fields:
        what = "the data, the model's solution, and their difference"
        plots.insert(0, ("field", what, lambda: cindy.plot.field(data[0], model)[0, 0]))
    else:
        # The longest trajectories show most of the motion.
        few = sorted(data, key=len)[-_TRAJECTORIES:]
        # Chaotic solutions leave the data after a while, however good the model is, and are restarted.
        window = getattr(model.formulation, "window", None) or None
        what = "the data and the model's solutions"
        plots.insert(0, ("trajectories", what, lambda: cindy.plot.trajectories(few, model, window=window)))
        what = "the residuals of the equations"
        plots.append(("residuals", what, lambda: cindy.plot.residuals(model, few)))
    if len(model.path) > 1:
        plots.append(("path", "the models that were compared", lambda: cindy.plot.path(model)))
    return [(_saved(plot, folder / f"{name}.png"), shown) for name, shown, plot in plots]


def _saved(plot: Callable[[], Any], file: Path) -> Path:
    from matplotlib import pyplot

    figure = plot().figure
    with whole_file(file, "the figure") as stream:
        figure.savefig(stream, format="png", dpi=150)
    pyplot.close(figure)
    return file


_LAWS = ("E + ES", "S + ES + P")


def run_demo(out: Path) -> None:
    """Identify the equations of a reaction, and compare them with those that generated the data."""
    data = read(KINETICS, by="run")
    screen.out.print("An enzyme E binds a substrate S, and the complex ES releases a product P.")
    screen.show_data([KINETICS.name], data)
    screen.section("Known beforehand")
    for law in _LAWS:
        screen.plain(f"{law} does not change: the total is conserved, exactly")
    laws = [texts.conserve(law) for law in _LAWS]
    model, sentences = identified(data, cindy.Polynomial(2), constraints=laws)
    screen.show_model(model, sentences)
    _compare(model)
    files = write(model, data, out=out / "model.json", report=out / "report.html", figures=out)
    screen.show_files(files)
    typed = " ".join(f'--conserve "{law}"' for law in _LAWS)
    screen.section("The same by hand")
    screen.plain(f"cindy fit {KINETICS} --by run --basis poly:2 {typed}")


def _compare(model: Model) -> None:
    """Print every identified or true coefficient beside the one that generated the data."""
    truth = kinetics().coef
    screen.section("Against the rates that made the data")
    right = (Column(name, justify="right") for name in ("found", "true", "off by"))
    table = screen.columns("equation", "term", *right)
    for j, i in np.argwhere((model.coef.T != 0) | (truth.T != 0)):
        value, error = float(model.coef[i, j]), float(model.coef_error[i, j])
        off = f"{abs(value - truth[i, j]) / error:.1f} σ" if error > 0 else ""
        shown = format_value(value, error) if value else "absent"
        true = format_value(float(truth[i, j])) if truth[i, j] else "absent"
        table.add_row(f"{model.states[j]}'", model.labels[i], shown, true, off)
    screen.plain(table)
