"""Figures of the noise and sample-size studies, in the layout of the paper."""

import io
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from benchmarks.paper.methods import METHODS
from benchmarks.paper.setting import PAPER_FORMULATIONS
from cindy._arrays import Floats
from cindy._files import make_folder, whole_file

__all__ = ["MORE_PEERS", "PAPER_METHODS", "heat_maps", "metrics_against_noise", "save", "title"]

Record = dict[str, str]

PAPER_METHODS = (
    "floor", "sindy", "sr3-l0", "sr3-l1", "fista", "ipm", "ipm-c",
    "cindy", "cindy-c", "cindy-early", "cindy-early-c", "default", "default-c", "states", "states-c",
)  # fmt: skip
MORE_PEERS = (
    "floor", "sindy", "sindy-ridge", "lars", "ssr", "frols", "ensemble", "weak",
    "cindy-early-c", "default", "default-c",
)  # fmt: skip
PANELS = (
    ("recovery", "recovery error $E_R/\\eta$"),
    ("flow", "derivative error $E_D/\\eta$"),
    ("path", "trajectory error $E_T/\\eta$"),
    ("extra", "extra terms $S_E$"),
    ("missing", "missing terms $S_M$"),
)
TITLES = {
    "kuramoto5": "Kuramoto, d = 5",
    "kuramoto10": "Kuramoto, d = 10",
    "fput5": "Fermi-Pasta-Ulam-Tsingou, d = 5",
    "fput10": "Fermi-Pasta-Ulam-Tsingou, d = 10",
    "michaelis": "Michaelis-Menten",
}
OWN_FORMULATION = {**dict.fromkeys(("default", "default-c", "states", "states-c"), "free"), "weak": "weak"}
"""Methods that bring a formulation of their own: drawn beside both of the paper's."""


def title(system: str) -> str:
    return TITLES.get(system, system)


def save(figure: Any, path: Path) -> Path:
    """Write a figure as PNG, in 128 colours since a page holds many, and forget it."""
    import matplotlib.pyplot as plt
    from PIL import Image

    make_folder(path.parent)
    picture = io.BytesIO()
    figure.savefig(picture, format="png", dpi=100, bbox_inches="tight")
    plt.close(figure)
    with Image.open(picture) as image, whole_file(path, "a figure") as stream:
        image.convert("RGB").quantize(128).save(stream, format="PNG", optimize=True)
    return path


def metrics_against_noise(rows: Sequence[Record], methods: Sequence[str]) -> Any:
    """Five metrics against noise for both formulations: means, shaded by one standard deviation."""
    figure, axes = subplots(len(PANELS), 2, size=(13.0, 17.5))
    for column, formulation in enumerate(PAPER_FORMULATIONS):
        for line, (metric, label) in enumerate(PANELS):
            ax = axes[line, column]
            for name in methods:
                _draw(ax, rows, name, OWN_FORMULATION.get(name, formulation), metric)
            _dress(ax, metric, label if column == 0 else "")
        axes[0, column].set_title(f"{formulation} formulation")
        axes[-1, column].set_xlabel("noise level $\\eta$")
    _same_limits(axes)
    handles, labels = axes[0, 0].get_legend_handles_labels()
    figure.legend(handles, labels, loc="upper center", ncol=5, bbox_to_anchor=(0.5, 0.0), frameon=False)
    figure.suptitle(f"{title(rows[0]['system'])}: " + _size(rows), fontsize=14)
    return figure


def heat_maps(rows: Sequence[Record], system: str, metric: str, label: str, methods: Sequence[str]) -> Any:
    """One metric over noise and number of training samples: a row of maps for each formulation."""
    mine = [r for r in rows if r["system"] == system and not r["error"]]
    figure, axes = subplots(2, len(methods), size=(2.9 * len(methods) + 1.2, 6.2))
    noises = sorted({float(r["noise"]) for r in mine})
    sizes = sorted({int(r["trajectories"]) for r in mine})
    maps = {
        (f, m): _grid(mine, OWN_FORMULATION.get(m, f), m, metric, noises, sizes)
        for f in PAPER_FORMULATIONS
        for m in methods
    }
    known = np.concatenate([g[np.isfinite(g)] for g in maps.values()])
    low, high = (float(known.min()), float(known.max())) if known.size else (0.0, 1.0)
    image: Any = None
    for i, formulation in enumerate(PAPER_FORMULATIONS):
        for j, name in enumerate(methods):
            ax = axes[i, j]
            image = ax.imshow(
                maps[formulation, name], origin="lower", aspect="auto", vmin=low, vmax=high, cmap="cividis"
            )
            ax.set_xticks(range(len(noises)), [f"{np.log10(n):g}" for n in noises])
            ax.set_yticks(range(len(sizes)), [str(s) for s in sizes] if j == 0 else [])
            ax.grid(False)
            ax.set_title(METHODS[name].label if i == 0 else "")
            if j == 0:
                ax.set_ylabel(f"{formulation}\nexperiments")
            if i == 1:
                ax.set_xlabel("log₁₀ η")
    figure.colorbar(image, ax=axes, label=label, shrink=0.8)
    figure.suptitle(f"{title(system)}: {label} (70 % of the experiments train)")
    return figure


def subplots(rows: int, columns: int, *, size: tuple[float, float]) -> tuple[Any, NDArray[Any]]:
    """A figure and a two-dimensional array of axes, in the common style."""
    import matplotlib

    matplotlib.use("Agg")
    import matplotlib.pyplot as plt

    with plt.rc_context({"font.size": 11, "axes.grid": True, "grid.alpha": 0.25, "axes.axisbelow": True}):
        figure, axes = plt.subplots(rows, columns, figsize=size, squeeze=False, layout="constrained")
    return figure, axes


def _draw(ax: Any, rows: Sequence[Record], name: str, formulation: str, metric: str) -> None:
    noises, means, deviations = series(rows, name, formulation, metric)
    if not len(noises):
        return
    method = METHODS[name]
    ours = name.startswith(("default", "states"))
    ax.plot(
        noises, means, method.line, color=method.colour, marker=method.marker, label=method.label,
        linewidth=2.4 if ours else 1.4, markersize=6 if ours else 5, zorder=4 if ours else 3,
        markerfacecolor=method.colour if method.line == "-" else "white",
    )  # fmt: skip
    low = (
        np.maximum(means - deviations, 0.1 * means)
        if metric not in ("extra", "missing")
        else means - deviations
    )
    ax.fill_between(noises, low, means + deviations, color=method.colour, alpha=0.10, linewidth=0, zorder=1)


def series(rows: Sequence[Record], name: str, formulation: str, metric: str) -> tuple[Floats, Floats, Floats]:
    """Noise levels, means and standard deviations of one line; errors E are over the noise level."""
    found: dict[float, list[float]] = {}
    for row in rows:
        if row["method"] == name and row["formulation"] == formulation and not row["error"]:
            eta = float(row["noise"])
            unit = 1.0 if metric in ("extra", "missing") else eta
            found.setdefault(eta, []).append(float(row[metric]) / unit)
    noises = np.array(sorted(found))
    return (
        noises,
        np.array([np.mean(found[n]) for n in noises]),
        np.array([np.std(found[n]) for n in noises]),
    )


def _dress(ax: Any, metric: str, label: str) -> None:
    ax.set_xscale("log")
    if metric in ("extra", "missing"):
        ax.set_yscale("symlog", linthresh=1.0)
        ax.set_ylim(-0.2, 1.6 * max(ax.get_ylim()[1], 1.0))
    else:
        ax.set_yscale("log")
    ax.set_ylabel(label)


def _same_limits(axes: NDArray[Any]) -> None:
    """Both formulations of a metric on one scale, so that the columns can be compared."""
    for left, right in axes:
        low = min(left.get_ylim()[0], right.get_ylim()[0])
        high = max(left.get_ylim()[1], right.get_ylim()[1])
        left.set_ylim(low, high)
        right.set_ylim(low, high)


def _size(rows: Sequence[Record]) -> str:
    return f"mean and standard deviation over {len({r['repetition'] for r in rows})} repetitions"


def _grid(
    rows: Sequence[Record],
    formulation: str,
    name: str,
    metric: str,
    noises: Sequence[float],
    sizes: Sequence[int],
) -> Floats:
    """(sizes, noises): the mean over repetitions; the logarithm for the recovery error."""
    grid = np.full((len(sizes), len(noises)), np.nan)
    for i, size in enumerate(sizes):
        for j, noise in enumerate(noises):
            values = [
                float(r[metric])
                for r in rows
                if r["method"] == name
                and r["formulation"] == formulation
                and int(r["trajectories"]) == size
                and float(r["noise"]) == noise
            ]
            if values:
                mean = float(np.mean(values))
                grid[i, j] = np.log10(max(mean, 1e-300)) if metric == "recovery" else np.log10(1.0 + mean)
    return grid
