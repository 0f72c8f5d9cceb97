"""cindy fit and cindy demo: from files to equations, and what is written about them."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
from rich.padding import Padding
from rich.table import Table

import cindy
from cindy._files import make_folder, whole_file
from cindy.basis import Basis
from cindy.cli import screen, texts
from cindy.cli.settings import FitSettings
from cindy.data import NETCDF, Field, Trajectory, as_hold, read
from cindy.errors import DataError, require
from cindy.export import format_value
from cindy.model import Model
from cindy.pipeline import basis_from_text
from cindy.systems.catalogue import KINETICS, kinetics

__all__ = ["identified", "run_demo", "run_fit", "write"]


def run_fit(settings: FitSettings, config: Path | None) -> None:
    """Read, identify, show, write."""
    if not settings.data:
        raise DataError('fit: no data. Name a file, as in "cindy fit data.csv".')
    if config is not None:
        screen.out.print(f"Options from {config}", style="dim")
    data: list[Any]
    if _are_fields(settings):
        settings = _for_fields(settings)
        data = _read_fields(settings)
        _show_fields(settings.data, data)
    else:
        data = [one for file in settings.data for one in _read(file, settings)]
        screen.show_data(settings.data, data)
    terms, parameters = settings.terms(), settings.parameters()
    basis = basis_from_text(settings.basis, terms, parameters, where="--basis")
    model, said = identified(data, basis, **settings.arguments())
    screen.show_model(model, said)
    figures = None if settings.figures is None else Path(settings.figures)
    out, report = (None if name is None else Path(name) for name in (settings.out, settings.report))
    screen.show_files(write(model, data, model_file=out, report=report, figures=figures))


def _read(file: str, settings: FitSettings) -> list[Trajectory]:
    states = None if settings.states is None else texts.names(settings.states, "--states")
    inputs = None if settings.inputs is None else texts.names(settings.inputs, "--inputs")
    hold = as_hold(settings.hold or "linear", "--hold")
    with screen.working(f"Reading {file}"):
        return read(
            Path(file), settings.time, states, by=settings.by, inputs=inputs, dt=settings.dt, hold=hold
        )


def identified(data: Sequence[Any], basis: Basis, **arguments: Any) -> tuple[Model, list[str]]:
    """The model, with its stages shown on a terminal, and what was said on the way."""
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
    # Other warnings are of libraries, and nothing that a user of the command line could act on.
    said = [str(one.message) for one in caught if issubclass(one.category, cindy.ConvergenceWarning)]
    return model, said


def write(
    model: Model,
    data: Sequence[Any],
    *,
    model_file: Path | None = None,
    report: Path | None = None,
    figures: Path | None = None,
) -> list[tuple[Path, str]]:
    """Write what was asked for; returns each file with what it holds."""
    written: list[tuple[Path, str]] = []
    for folder in (figures, *(file.parent for file in (model_file, report) if file is not None)):
        if folder is not None:
            make_folder(folder)
    if model_file is not None:
        model.save(model_file)
        written.append((model_file, "the model"))
    if figures is not None:
        with screen.working("Drawing"):
            written += draw(model, data, figures)
    if report is not None:
        with screen.working("Writing the report"):
            cindy.report.write(model, list(data), report)
        written.append((report, "the report: one page, opens in a browser"))
    return written


def _are_fields(settings: FitSettings) -> bool:
    """Whether the files hold fields: netCDF does, and what a basis of derivatives is asked for."""
    return "pde" in settings.basis or any(Path(f).suffix.lower() in NETCDF for f in settings.data)


def _for_fields(settings: FitSettings) -> FitSettings:
    """The settings with what fields take where nothing else was said."""
    usual = FitSettings()
    basis = "pde:3,4" if settings.basis == usual.basis else settings.basis
    form = "weak" if settings.formulation == usual.formulation else settings.formulation
    return replace(settings, basis=basis, formulation=form)


def _read_fields(settings: FitSettings) -> list[Field]:
    """Every file as a field; values are read when they are needed."""
    periodic = () if settings.periodic is None else texts.names(settings.periodic, "--periodic")
    inputs = () if settings.inputs is None else texts.names(settings.inputs, "--inputs")
    time = settings.time
    return [
        cindy.Field(file, periodic=periodic, inputs=inputs, time=time, name=Path(file).stem)
        for file in settings.data
    ]


def _show_fields(files: Sequence[str], fields: Sequence[Field]) -> None:
    """What the grids are."""
    screen.section("Data")
    for file, field in zip(files, fields, strict=True):
        grid = " × ".join(
            f"{n} {axis}" for axis, n in zip((*field.axes, field.time), field.shape, strict=True)
        )
        around = [axis for axis in field.axes if field.period(axis) is not None]
        known = f"; inputs {', '.join(field.inputs)}" if field.inputs else ""
        told = f"; periodic in {', '.join(around)}" if around else ""
        screen.plain(f"{file}: {', '.join(field.states)} on {grid}{told}{known}")


_TRAJECTORIES = 2
"""More of them hide each other."""


def draw(model: Model, data: Sequence[Any], folder: Path) -> list[tuple[Path, str]]:
    """Write the figures into the folder; returns each file with what it shows."""
    require("matplotlib", "plot", "drawing figures")
    if model.formulation.for_fields:
        return _of_fields(model, data, folder)
    # The longest show most of the motion.
    few = sorted(data, key=len)[-_TRAJECTORIES:]
    # Solutions of chaotic equations leave the data after a while, whatever the model: start them afresh.
    window = getattr(model.formulation, "window", None) or None
    plots: list[tuple[str, str, Callable[[], Any]]] = [
        ("trajectories", "the data and the model's solutions", lambda: _trajectories(few, model, window)),
        ("coefficients", "the coefficients with their errors", lambda: cindy.plot.coefficients(model)),
        ("residuals", "what the equations leave of the data", lambda: cindy.plot.residuals(model, few)),
    ]
    if len(model.path) > 1:
        plots.append(("path", "the models that were compared", lambda: cindy.plot.path(model)))
    return [(_saved(plot, folder / f"{name}.png"), what) for name, what, plot in plots]


def _of_fields(model: Model, data: Sequence[Any], folder: Path) -> list[tuple[Path, str]]:
    plots: list[tuple[str, str, Callable[[], Any]]] = [
        ("field", "the data, the model's solution, and what is between them", lambda: _field(data[0], model)),
        ("coefficients", "the coefficients with their errors", lambda: cindy.plot.coefficients(model)),
    ]
    if len(model.path) > 1:
        plots.append(("path", "the models that were compared", lambda: cindy.plot.path(model)))
    return [(_saved(plot, folder / f"{name}.png"), what) for name, what, plot in plots]


def _field(field: Any, model: Model) -> Any:
    return cindy.plot.field(field, model)[0, 0]


def _trajectories(few: Sequence[Trajectory], model: Model, window: int | None) -> Any:
    return cindy.plot.trajectories(few, model, window=window)


def _saved(plot: Callable[[], Any], file: Path) -> Path:
    from matplotlib import pyplot

    figure = plot().figure
    with whole_file(file, "the figure") as stream:
        figure.savefig(stream, format="png", dpi=150)
    pyplot.close(figure)
    return file


_LAWS = ("E + ES", "S + ES + P")


def run_demo(out: Path) -> None:
    """Identify the reaction behind the data, and compare with the rates that made them."""
    data = read(KINETICS, by="run")
    screen.out.print("An enzyme E binds a substrate S, and the complex ES releases a product P.")
    screen.show_data([KINETICS.name], data)
    screen.section("Known beforehand")
    for law in _LAWS:
        screen.plain(f"{law} does not change: the total is conserved, exactly")
    laws = [texts.conserve(law) for law in _LAWS]
    model, said = identified(data, cindy.Polynomial(2), constraints=laws)
    screen.show_model(model, said)
    _compare(model)
    files = write(model, data, model_file=out / "model.json", report=out / "report.html", figures=out)
    screen.show_files(files)
    typed = " ".join(f'--conserve "{law}"' for law in _LAWS)
    screen.section("The same by hand")
    screen.plain(f"cindy fit {KINETICS} --by run --basis poly:2 {typed}")


def _compare(model: Model) -> None:
    """Every coefficient that is found or should be, beside the one that made the data."""
    truth = kinetics().coef
    screen.section("Against the rates that made the data")
    table = Table(box=None, pad_edge=False, header_style="dim", padding=(0, 3, 0, 0))
    for name, side in (
        ("equation", "left"),
        ("term", "left"),
        ("found", "right"),
        ("true", "right"),
        ("off by", "right"),
    ):
        table.add_column(name, justify=side)  # type: ignore[arg-type]
    for j, i in np.argwhere((model.coef.T != 0) | (truth.T != 0)):
        value, error = float(model.coef[i, j]), float(model.coef_error[i, j])
        off = f"{abs(value - truth[i, j]) / error:.1f} σ" if error > 0 else ""
        found = format_value(value, error) if value else "absent"
        true = format_value(float(truth[i, j])) if truth[i, j] else "absent"
        table.add_row(f"{model.states[j]}'", model.labels[i], found, true, off)
    screen.out.print(Padding(table, (0, 0, 0, 2), expand=False))
