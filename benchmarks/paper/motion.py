"""Identified models set in motion: Kuramoto-10 and FPUT-10 from a start that was not in the data."""

from collections.abc import Sequence
from typing import Any

import numpy as np

from benchmarks.paper.figures import subplots, title
from benchmarks.paper.methods import METHODS
from benchmarks.paper.setting import SYSTEMS, prepare
from cindy._arrays import Floats
from cindy.formulation import Integral
from cindy.model import Model

__all__ = ["draw_motion", "motion_columns", "set_in_motion"]


NOISE = {"kuramoto10": 1e-3, "fput10": 1e-4}
TIMES = {"kuramoto10": np.linspace(0.0, 40.0, 161), "fput10": np.linspace(0.0, 20.0, 161)}
SHOWN = {"kuramoto10": (5.0, 15.0, 40.0), "fput10": (5.0, 10.0, 20.0)}
MODELS = {"sindy": "integral", "cindy-early": "integral", "default": "free", "default-c": "free"}
MARKERS = {"truth": "o", "sindy": "x", "cindy-early": "+", "default": ".", "default-c": "s"}
SIZES = {"truth": 11.0, "default": 7.0, "default-c": 4.0}


def motion_columns(states: int = 10) -> tuple[str, ...]:
    return ("system", "model", "t", *(f"x{i + 1}" for i in range(states)))


def set_in_motion(system: str, *, trials: int, trajectories: int | None = None) -> list[dict[str, Any]]:
    """The truth and the models of SINDy, CINDy and this library, from one start; rows of states over time.

    A model that blows up has fewer rows.
    """
    truth = SYSTEMS[system](0)
    states = truth.states
    if system.startswith("fput"):
        start = np.sin(np.pi * np.arange(1, len(states) + 1) / (len(states) + 1))
    else:
        start = np.random.default_rng(1000).uniform(0.0, 2 * np.pi, len(states))
    times = TIMES.get(system, np.linspace(0.0, 20.0, 41))
    (exact,) = truth.simulate(initial=start[None], times=times)
    runs = {"truth": exact}
    for name, formulation in MODELS.items():
        setting = prepare(system, formulation, NOISE.get(system, 1e-3), 0, trajectories=trajectories)
        coef = setting.physical(METHODS[name].fit(setting, trials, 0).coef)
        model = Model(coef, truth.basis, states, formulation=Integral(order=truth.order))
        runs[name] = model.simulate(start, times)
    return [
        {
            "system": system,
            "model": name,
            "t": float(t),
            **{s: float(v) for s, v in zip(states, x, strict=True)},
        }
        for name, run in runs.items()
        for t, x in zip(run.t, run.x, strict=True)
    ]


def draw_motion(rows: Sequence[dict[str, str]], system: str) -> Any:
    """Snapshots, a column each, and the distance from the truth over time."""
    runs = {name: _run(rows, system, name) for name in ("truth", *MODELS)}
    shown = SHOWN.get(system, (5.0, 10.0, 20.0))
    figure, axes = subplots(1, len(shown) + 1, size=(4.2 * (len(shown) + 1), 4.6))
    for ax, when in zip(axes[0], shown, strict=False):
        for name, (t, x) in runs.items():
            if len(t) and t[-1] >= when - 1e-9:
                _snapshot(ax, system, name, x[int(np.argmin(np.abs(t - when)))])
            else:
                label, colour, line = _style(name)
                ax.plot([], [], label=f"{label} (has blown up)", color=colour, linestyle=line)
        ax.set_title(f"t = {when:g}")
    figure.legend(*axes[0, 0].get_legend_handles_labels(), loc="outside lower center", ncol=5, frameon=False)
    last = axes[0, -1]
    true_t, true_x = runs["truth"]
    for name, (t, x) in runs.items():
        if name != "truth":
            distance = np.sqrt(np.mean((x - true_x[: len(t)]) ** 2, axis=1))
            label, colour, line = _style(name)
            last.semilogy(t[1:], np.maximum(distance[1:], 1e-12), color=colour, linestyle=line, label=label)
    last.set_xlim(0, true_t[-1])
    last.set_title("distance from the truth")
    last.set_xlabel("t")
    figure.suptitle(f"{title(system)}, trained at noise η = {NOISE.get(system, 1e-3):g}, new initial state")
    return figure


def _run(rows: Sequence[dict[str, str]], system: str, name: str) -> tuple[Floats, Floats]:
    mine = [r for r in rows if r["system"] == system and r["model"] == name]
    t = np.array([float(r["t"]) for r in mine])
    x = np.array([[float(v) for k, v in r.items() if k.startswith("x") and v] for r in mine])
    return t, x


def _style(name: str) -> tuple[str, str, str]:
    """Label, colour and line of a model, as in all figures."""
    if name == "truth":
        return "truth", "#888888", "-"
    method = METHODS[name]
    return method.label, method.colour, method.line


def _snapshot(ax: Any, system: str, name: str, x: Floats) -> None:
    label, colour, line = _style(name)
    true = name == "truth"
    look = {
        "color": colour,
        "marker": MARKERS[name],
        "label": label,
        "markersize": SIZES.get(name, 9.0),
        "markerfacecolor": "white" if name == "default-c" else colour,
        "alpha": 0.6 if true else 1.0,
    }
    if system.startswith("fput"):
        # The walls at both ends do not move.
        ax.plot(range(len(x) + 2), [0.0, *x, 0.0], linestyle=line, linewidth=4.0 if true else 1.2, **look)
        ax.set_xlabel("particle")
        return
    radius = np.arange(1.0, len(x) + 1)
    if true:
        for r in radius:
            ax.add_patch(_circle(float(r)))
    ax.plot(radius * np.cos(x), radius * np.sin(x), linestyle="", markeredgewidth=1.4, **look)
    ax.set_aspect("equal")


def _circle(radius: float) -> Any:
    from matplotlib.patches import Circle

    return Circle((0.0, 0.0), radius, fill=False, color="#dddddd", linewidth=0.7)
