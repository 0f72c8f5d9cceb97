"""Figures as PNG files: the data against the model's own solutions, and the path."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

from cindy.extras import require
from cindy.model import Model
from cindy.trajectory import Trajectory
from cindy.whole_file import whole_file

__all__ = ["draw"]

_TRAJECTORIES = 3


def draw(model: Model, data: Sequence[Trajectory], folder: Path) -> list[tuple[Path, str]]:
    """Write the figures into the folder; returns each file with what it shows."""
    figure_module = require("matplotlib.figure", "plot", "drawing figures")
    drawn = [
        ("trajectories.png", "the data and the model's solutions", _trajectories),
        ("path.png", "the models that were compared", _path),
    ]
    written = []
    for name, what, plot in drawn:
        figure = figure_module.Figure(figsize=(8, 5), layout="constrained")
        plot(figure, model, data)
        with whole_file(folder / name, "the figure") as stream:
            figure.savefig(stream, format="png", dpi=150)
        written.append((folder / name, what))
    return written


def _trajectories(figure: Any, model: Model, data: Sequence[Trajectory]) -> None:
    shown = [max(one.segments(), key=len) for one in data[:_TRAJECTORIES] if one.segments()]
    axes = figure.subplots(len(model.states), len(shown), sharex="col", sharey="row", squeeze=False)
    for column, one in enumerate(shown):
        velocity = np.gradient(one.x[:3], one.t[:3], axis=0)[0] if model.order == 2 else None
        solved = model.simulate(one.x[0], one.t, one.u, v0=velocity)
        for row, state in enumerate(model.states):
            ax = axes[row, column]
            ax.plot(one.t, one.x[:, row], ".", ms=3, color="0.6", label="data")
            ax.plot(solved.t, solved.x[:, row], lw=1.5, color="C0", label="model")
            ax.spines[["top", "right"]].set_visible(False)
            if column == 0:
                ax.set_ylabel(state)
        axes[0, column].set_title(one.name or f"trajectory {column + 1}", fontsize=9)
        axes[-1, column].set_xlabel("t")
    axes[0, 0].legend(frameon=False, fontsize=8)


def _path(figure: Any, model: Model, data: Sequence[Trajectory]) -> None:
    ax = figure.subplots()
    sizes = [one.size for one in model.path]
    ax.plot(sizes, model.path.scores, ".-", color="0.5")
    if model.path.chosen is not None:
        chosen = model.path.chosen
        ax.plot(sizes[chosen], model.path.scores[chosen], "o", color="C0", label="chosen")
        ax.legend(frameon=False)
    ax.set(xlabel="terms", ylabel="score")
    ax.spines[["top", "right"]].set_visible(False)
