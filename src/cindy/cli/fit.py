"""cindy fit: from files to equations, and what is written about them."""

from __future__ import annotations

import warnings
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import cindy
from cindy._files import make_folder
from cindy.basis import Basis
from cindy.cli import screen, texts
from cindy.cli.fields import are_fields, for_fields, read_fields, show_fields
from cindy.cli.figures import draw
from cindy.cli.settings import FitSettings
from cindy.data import Trajectory, as_hold, read
from cindy.errors import DataError
from cindy.model import Model

__all__ = ["identified", "run", "write"]


def run(settings: FitSettings, config: Path | None) -> None:
    """Read, identify, show, write."""
    if not settings.data:
        raise DataError('fit: no data. Name a file, as in "cindy fit data.csv".')
    if config is not None:
        screen.out.print(f"Options from {config}", style="dim")
    data: list[Any]
    if are_fields(settings):
        settings = for_fields(settings)
        data = read_fields(settings)
        show_fields(settings.data, data)
    else:
        data = [one for file in settings.data for one in _read(file, settings)]
        screen.show_data(settings.data, data)
    basis, arguments = _basis(settings), settings.arguments()
    model = identified(data, basis, **arguments)
    screen.show_equations(model)
    screen.show_path(model)
    screen.show_certificate(model)
    figures = None if settings.figures is None else Path(settings.figures)
    out, report = (None if name is None else Path(name) for name in (settings.out, settings.report))
    screen.show_files(write(model, data, model_file=out, report=report, figures=figures))


def _basis(settings: FitSettings) -> Basis:
    return texts.basis(settings.basis, settings.terms(), settings.parameters())


def _read(file: str, settings: FitSettings) -> list[Trajectory]:
    states = None if settings.states is None else texts.names(settings.states, "--states")
    inputs = None if settings.inputs is None else texts.names(settings.inputs, "--inputs")
    hold = as_hold(settings.hold or "linear", "--hold")
    with screen.working(f"Reading {file}"):
        return read(
            Path(file), settings.time, states, by=settings.by, inputs=inputs, dt=settings.dt, hold=hold
        )


def identified(data: Sequence[Any], basis: Basis, **arguments: Any) -> Model:
    """The model, with its iterations shown on a terminal, and its warnings as sentences."""
    with screen.working("Identifying") as progress, warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")

        def follow(step: Any) -> None:
            progress(f"iteration {step.iteration}, {step.atoms} atoms, gap {step.gap:.2e}")

        def count(done: int, total: int | None) -> None:
            progress(f"{done:,} samples" if total is None else f"{done:,} of {total:,} samples")

        model = cindy.identify(list(data), basis, callback=follow, progress=count, **arguments)
    said = [str(one.message) for one in caught if issubclass(one.category, cindy.ConvergenceWarning)]
    screen.show_warnings(list(dict.fromkeys([*said, *model.warnings])))
    return model


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
