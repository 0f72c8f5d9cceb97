"""Figures as PNG files."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import cindy
from cindy._extras import require
from cindy._files import whole_file
from cindy.data import Trajectory
from cindy.model import Model

__all__ = ["draw"]

_TRAJECTORIES = 2
"""More of them hide each other."""


def draw(model: Model, data: Sequence[Any], folder: Path) -> list[tuple[Path, str]]:
    """Write the figures into the folder; returns each file with what it shows."""
    require("matplotlib", "plot", "drawing figures")
    if model.formulation.for_fields:
        return _of_fields(model, data, folder)
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
