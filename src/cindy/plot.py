"""Figures for papers and notebooks: each takes `ax` (None makes one) and returns it.

units: unit by name, of states, inputs and of "t" (by default that of the data), as {"x": "mm", "t": "s"}
"""

from collections.abc import Callable, Mapping, Sequence, Sized
from functools import wraps
from inspect import signature
from statistics import NormalDist
from typing import Any, ParamSpec, TypeVar

import numpy as np
from matplotlib import pyplot
from matplotlib.axes import Axes
from matplotlib.lines import Line2D
from matplotlib.ticker import MaxNLocator
from numpy.typing import ArrayLike, NDArray

from cindy._arrays import Floats
from cindy._check import all_units, did_you_mean, flag, instance, integer, numbers, positive, unique_names
from cindy.basis import axis_label, equation_label, pretty
from cindy.data import Field, as_trajectories
from cindy.errors import DataError
from cindy.export import format_value
from cindy.model import (
    Model,
    Solution,
    band,
    completed,
    densities,
    equation_labels,
    fine_curve,
    matched,
    residuals as residuals_of,
    solutions,
)

__all__ = [
    "COLOURS",
    "coefficients",
    "density",
    "field",
    "path",
    "phase",
    "residuals",
    "sparsity",
    "trajectories",
]

Units = Mapping[str, str]

COLOURS = ("#0072B2", "#D55E00", "#009E73", "#CC79A7", "#56B4E9", "#E69F00", "#555555")
"""Okabe and Ito's colours, which colour-blind readers tell apart; in the order of the states."""
_MUTED = "#9a9a9a"
_FEW_SAMPLES = 100
"""Samples of a trajectory up to which each is an open circle; more of them would cover each other."""
_MOST_IN_LEGEND = 12
"""Names in a legend; with more it would hide the curves."""

_Given = ParamSpec("_Given")
_Drawn = TypeVar("_Drawn")


_CHECKS: dict[str, Callable[[Any, str], Any]] = {
    "model": lambda value, where: instance(value, Model, where, "a Model, as `identify` gives it"),
    "ax": lambda value, where: instance(value, Axes, where, "axes of matplotlib, such as pyplot.gca()"),
    "units": lambda value, where: instance(value, Mapping, where, 'units by name, such as {"x": "mm"}'),
    "state": lambda value, where: instance(value, str, where, "the name of a state"),
    "window": lambda value, where: integer(value, where, least=2),
    "states": unique_names,
    "smooth": flag,
    "level": positive,
}
"""The checks of the arguments of figures, by their names."""


def _checked(figure: Callable[_Given, _Drawn]) -> Callable[_Given, _Drawn]:
    """The function of a figure, with a check of its arguments."""
    expected = signature(figure)

    @wraps(figure)
    def drawing(*args: _Given.args, **kwargs: _Given.kwargs) -> _Drawn:
        for name, value in expected.bind(*args, **kwargs).arguments.items():
            # None is valid where it is the default.
            if name in _CHECKS and not (value is None and expected.parameters[name].default is None):
                _CHECKS[name](value, f"plot.{figure.__name__}: `{name}`")
        return figure(*args, **kwargs)

    return drawing


@_checked
def trajectories(
    data: Any,
    model: Model | None = None,
    *,
    states: Sequence[str] | None = None,
    window: int | None = None,
    units: Units | None = None,
    ax: Axes | None = None,
) -> Axes:
    """States against time: the data as dots, and with a model its solutions as lines.

    If random kicks drive the model, the lines follow the drift, and a band contains 90 % of the measurements
    of paths with kicks from the same start.

    states: which to draw; all if not given
    window: samples after which solutions are restarted; chaotic ones follow the data only so long

    >>> import cindy
    >>> data = cindy.systems.lotka_volterra().simulate(trajectories=2, points=200, noise=0.02)
    >>> model = cindy.identify(data, "poly:2")
    >>> ax = cindy.plot.trajectories(data, model, units={"t": "years"})
    >>> ax.figure.savefig("trajectories.png")
    """
    runs = as_trajectories(data) if model is None else matched(model, data, "plot")
    columns = _columns(runs[0].states, states)
    ax = _axes(ax)
    alone = len(columns) == 1
    for run in runs:
        for j in columns:
            colour = _MUTED if model and alone else _colour(j)
            ax.plot(run.t, run.x[:, j], color=colour, **(_dots(run) if model else {"lw": 1.4}))
    if model is not None:
        for solved in solutions(model, runs, window=window):
            _solution(ax, model, solved, columns)
    handles = [_line(pretty(runs[0].states[j]), color=_colour(j), lw=1.4) for j in columns if not alone]
    if model:
        handles.append(_line("data", color=_MUTED, marker=".", ls="none"))
        handles.append(_line("model", color=_colour(columns[0]) if alone else _MUTED, lw=1.4))
        if model.diffusion is not None:
            handles.append(_line("90 % with kicks", color=handles[-1].get_color(), alpha=0.25, lw=6))
    _legend(ax, handles)
    names = [runs[0].states[j] for j in columns]
    # The axis of several states has a unit if all of them share it.
    same = {(units or {}).get(name, "") for name in names}
    unit = f" ({next(iter(same))})" if len(same) == 1 and same != {""} else ""
    ax.set_xlabel(axis_label("t", all_units(units, runs[0].time_unit)))
    ax.set_ylabel(axis_label(names[0], units) if len(names) == 1 else _along_axis(names) + unit)
    return ax


def _solution(ax: Axes, model: Model, solved: Solution, columns: Sequence[int]) -> None:
    """A line for each state, and the band of paths where the model is kicked."""
    curve = fine_curve(model, solved)
    for j in columns:
        ax.plot(curve.t, curve.x[:, j], color=_colour(j), lw=1.4)
    if model.diffusion is None:
        return
    low, high = band(model, solved)
    for j in columns:
        ax.fill_between(solved.measured.t, low[:, j], high[:, j], color=_colour(j), alpha=0.18, lw=0)


@_checked
def density(
    data: Any, model: Model, *, state: str | None = None, units: Units | None = None, ax: Axes | None = None
) -> Axes:
    """The histogram of one state, the first if not given, and the stationary density of the model.

    The density is that of measurements of many paths with random kicks, after their start is forgotten; with
    inputs, of paths along those of the data.

    >>> import cindy
    >>> import numpy as np
    >>> x = np.convolve(np.random.default_rng(0).standard_normal(1500), 0.3 * 0.9 ** np.arange(60))
    >>> data = cindy.Trajectory(0.1, x, states=("x",))
    >>> ax = cindy.plot.density(data, cindy.identify(data, "poly:1"))
    >>> ax.figure.savefig("density.png")
    """
    if model.diffusion is None:
        raise DataError("density: no random kicks drive this model, and `model.diffusion` is None.")
    runs = matched(model, data, "plot")
    (j,) = _columns(model.states, None if state is None else [state])[:1]
    histograms = densities(model, completed(model, runs))
    if not histograms:
        raise DataError("density: no sample of the data has values of all states.")
    ax, histogram = _axes(ax), histograms[j]
    middle, width = (histogram.edges[1:] + histogram.edges[:-1]) / 2, np.diff(histogram.edges)
    bars = ax.bar(middle, histogram.data, width, color=_MUTED, alpha=0.5, lw=0, label="data")
    (line,) = ax.plot(middle, histogram.model, color=_colour(j), lw=1.6, label="model")
    _legend(ax, [bars, line])
    ax.set(xlabel=axis_label(model.states[j], units), ylabel="density")
    return ax


@_checked
def field(
    data: Field, model: Model | None = None, *, states: Sequence[str] | None = None, smooth: bool = True
) -> NDArray[np.object_]:
    """Fields over space and time, a row each: the data, and with a model its solution and their difference.

    With one axis of space, time goes upwards. With more, the picture shows the last time, at the middle of
    the third and later axes. Returns the axes, (fields, panels).

    smooth: whether the solution starts from smoothed data; noise in the start would be carried along

    >>> import cindy
    >>> import numpy as np
    >>> x, t = np.linspace(0, 2 * np.pi, 32, endpoint=False), np.linspace(0, 2, 41)
    >>> u = np.exp(-0.5 * t) * np.sin(x)[:, None] + np.exp(-2 * t) * np.cos(2 * x)[:, None]
    >>> heat = cindy.Field(u=u, x=x, t=t, periodic="x")
    >>> [[data, solution, difference]] = cindy.plot.field(heat, cindy.identify(heat, "pde:2"))
    >>> data.figure.savefig("field.png")
    """
    instance(data, Field, "plot.field: `data`", "a Field")
    chosen = [data.states[j] for j in _columns(data.states, states)]
    solved = None
    if model is not None:
        whole = smooth and not any(np.isnan(data[s]).any() for s in data.states)
        solved = model.simulate(data.smoothed() if whole else data, data.t)
    panels = 1 if solved is None else 3
    size = (3.4 * panels + 0.6, 2.9 * len(chosen))
    _, grid = pyplot.subplots(len(chosen), panels, figsize=size, squeeze=False, layout="constrained")
    for row, state in zip(grid, chosen, strict=True):
        shown = data[state]
        images = [(f"{pretty(state)}, data", shown)]
        if solved is not None:
            # A solution that blew up ends early.
            missing = np.full((*shown.shape[:-1], shown.shape[-1] - len(solved)), np.nan)
            modelled = np.concatenate([solved[state], missing], axis=-1)
            images += [(f"{pretty(state)}, model", modelled), ("difference", shown - modelled)]
        # Without the outermost hundredth, since one outlier would take all contrast from the picture.
        low, high = np.nanpercentile(shown, [0.5, 99.5])
        for ax, (title, values) in zip(row, images, strict=True):
            _image(ax, data, values, float(low), float(high), centred=title == "difference")
            ax.set_title(title, fontsize=10)
    return np.asarray(grid)


def _image(ax: Axes, data: Field, values: Floats, low: float, high: float, *, centred: bool) -> None:
    """One picture: space across and time upwards, or two axes of space at the last time."""
    across, up = (data.axes[0], data.time) if len(data.axes) == 1 else data.axes[:2]
    if len(data.axes) > 1:
        values = values[..., -1]
        while values.ndim > 2:
            values = values[..., values.shape[-1] // 2]
    # On the scale of the data the difference would be blank; it has its own, as its colour bar shows.
    half = float(np.nanpercentile(np.abs(values), 99.5)) if centred else 0.5 * (high - low)
    half = half if np.isfinite(half) and half > 0 else 1.0
    limits = {"vmin": -half, "vmax": half, "cmap": "RdBu_r"} if centred else {"vmin": low, "vmax": high}
    mesh = ax.pcolormesh(
        data.coordinate(across), data.coordinate(up), values.T, shading="nearest", rasterized=True, **limits
    )
    ax.set(xlabel=across, ylabel=up)
    ax.figure.colorbar(mesh, ax=ax, fraction=0.06, pad=0.02)


@_checked
def phase(
    data: Any,
    model: Model | None = None,
    *,
    states: tuple[str, str] | None = None,
    window: int | None = None,
    units: Units | None = None,
    ax: Axes | None = None,
) -> Axes:
    """One state against another, the first two if not given: data as dots, the model's solutions as lines.

    >>> import cindy
    >>> data = cindy.systems.lotka_volterra().simulate(trajectories=2, points=200, noise=0.02)
    >>> model = cindy.identify(data, "poly:2")
    >>> ax = cindy.plot.phase(data, model)
    >>> ax.figure.savefig("phase.png")
    """
    runs = as_trajectories(data) if model is None else matched(model, data, "plot")
    names = runs[0].states[:2] if states is None else tuple(states)
    if len(names) != 2:
        raise DataError(f"phase: `states` must name two states, but names {len(names)}: {', '.join(names)}.")
    i, j = _columns(runs[0].states, names)
    ax = _axes(ax, (5.2, 5.0))
    for run in runs:
        colour = _MUTED if model else COLOURS[0]
        ax.plot(run.x[:, i], run.x[:, j], color=colour, **(_dots(run) if model else {"lw": 1.1}))
    if model is not None:
        for solved in solutions(model, runs, window=window):
            curve = fine_curve(model, solved)
            ax.plot(curve.x[:, i], curve.x[:, j], color=COLOURS[0], lw=1.2)
        dots = _line("data", color=_MUTED, marker=".", ls="none")
        _legend(ax, [dots, _line("model", color=COLOURS[0], lw=1.2)])
    ax.set(xlabel=axis_label(names[0], units), ylabel=axis_label(names[1], units))
    return ax


@_checked
def coefficients(
    model: Model, *, truth: ArrayLike | None = None, level: float = 0.95, ax: Axes | None = None
) -> Axes:
    """Every coefficient that is not zero with its interval, a row each, grouped by equation.

    truth: (terms, states), the true coefficients if known, drawn as crosses
    level: of the intervals, by the normal distribution

    >>> import cindy
    >>> model = cindy.identify(cindy.systems.lotka_volterra().simulate(points=500, noise=0.02), "poly:2")
    >>> ax = cindy.plot.coefficients(model)
    >>> ax.figure.savefig("coefficients.png")
    """
    known = _like(truth, model.coef, "coefficients: truth")
    shown = (model.coef != 0) | (np.nan_to_num(known) != 0)
    rows = [(int(j), int(i)) for j, i in np.argwhere(shown.T)]
    sides = equation_labels(model)
    names = [f"{sides[j]}:  {pretty(model.labels[i])}" for j, i in rows]
    longest = max(map(len, names), default=0)
    ax = _axes(ax, (6.4 + 0.1 * max(0, longest - 16), max(1.6, 0.9 + 0.26 * len(rows))))
    ax.axvline(0, color=_MUTED, lw=0.8, zorder=0)
    if not 0 < level < 1:
        raise DataError(f"coefficients: `level` must lie between 0 and 1, but is {level!r}.")
    width = NormalDist().inv_cdf((1 + level) / 2)
    for y, (j, i) in enumerate(rows):
        value, error = model.coef[i, j], width * np.nan_to_num(model.coef_error[i, j])
        if value:
            # Values are written at the right, since intervals are often too narrow to read.
            number = format_value(value, model.coef_error[i, j]).replace("-", "−")
            ax.errorbar(
                value, y, xerr=error, fmt="o", ms=4, color=_colour(j), capsize=3, elinewidth=1.4, zorder=2
            )
            ax.text(1.02, y, number, transform=ax.get_yaxis_transform(), va="center", fontsize="small")
        if truth is not None:
            ax.plot(known[i, j], y, marker="x", ms=7, color="black", ls="none", zorder=3)
    ax.set_yticks(range(len(rows)), names)
    ax.set_ylim(len(rows) - 0.4, -0.6)
    ax.set_xlabel(f"coefficient, with {100 * level:g} % interval")
    sizes = np.abs(np.concatenate([model.coef[model.support], known[np.nan_to_num(known) != 0]]))
    # Coefficients of very different sizes are only visible on a logarithmic scale on both sides of zero.
    if len(sizes) and sizes.max() > 100 * sizes.min():
        ax.set_xscale("symlog", linthresh=10 ** np.floor(np.log10(sizes.min())))
    ax.spines["left"].set_visible(False)
    ax.tick_params(axis="y", length=0)
    if truth is not None:
        found = _line("found", color=_MUTED, marker="o", ms=4.5, ls="none")
        _legend(ax, [found, _line("true", color="black", marker="x", ls="none")])
    return ax


@_checked
def path(model: Model, *, ax: Axes | None = None) -> Axes:
    """The models that were compared: the score of each against its number of terms, the chosen one marked.

    >>> import cindy
    >>> model = cindy.identify(cindy.systems.lotka_volterra().simulate(points=500, noise=0.02), "poly:2")
    >>> ax = cindy.plot.path(model)
    >>> model.path[0].size  # every point of the figure is a model
    1
    """
    if not len(model.path):
        raise DataError("path: the model has no path. Models from `identify` have one; `with_coef` drops it.")
    ax = _axes(ax)
    sizes, scores = np.array([compared.size for compared in model.path]), np.array(model.path.scores)
    ax.plot(sizes, scores, "o-", ms=4, lw=1.2, color=COLOURS[0], mfc="white")
    positive = scores[np.isfinite(scores)]
    if len(positive) and positive.min() > 0 and positive.max() > 50 * positive.min():
        ax.set_yscale("log")
    chosen = model.path.chosen
    if chosen is not None and np.isfinite(scores[chosen]):
        text = f"chosen, {sizes[chosen]} terms"
        mark: dict[str, Any] = {"marker": "o", "ms": 9, "color": COLOURS[1], "ls": "none"}
        _legend(ax, [ax.plot(sizes[chosen], scores[chosen], zorder=3, label=text, **mark)[0]])
    ax.set(xlabel="terms", ylabel="score (lower is better)")
    ax.xaxis.set_major_locator(MaxNLocator(integer=True))
    return ax


@_checked
def residuals(
    model: Model,
    data: Any,
    *,
    states: Sequence[str] | None = None,
    units: Units | None = None,
    ax: Axes | None = None,
) -> Axes:
    """The residuals of the equations against time, in the formulation of the model.

    >>> import cindy
    >>> data = cindy.systems.lotka_volterra().simulate(trajectories=2, points=200, noise=0.02)
    >>> model = cindy.identify(data, "poly:2")
    >>> ax = cindy.plot.residuals(model, data, states=["x"])
    >>> ax.figure.savefig("residuals.png")
    """
    columns = _columns(model.states, states)
    ax = _axes(ax)
    ax.axhline(0, color=_MUTED, lw=0.8, zorder=0)
    for window in residuals_of(model, data):
        for j in columns:
            ax.plot(window.t, window.values[:, j], color=_colour(j), **_dots(window.t))
    names = [model.states[j] for j in columns]
    if len(columns) > 1:
        keys = zip(names, columns, strict=True)
        _legend(ax, [_line(pretty(name), color=_colour(j), marker=".", ls="none") for name, j in keys])
    rates = model.formulation.differentiates
    left = [equation_label(name, model.order) if rates else pretty(name) for name in names]
    unit = (units or {}).get(names[0], "") if len(names) == 1 and not rates else ""
    ax.set_xlabel(axis_label("t", all_units(units, model.settings.get("time_unit"))))
    ax.set_ylabel(f"residual of {_along_axis(left)}" + (f" ({unit})" if unit else ""))
    return ax


@_checked
def sparsity(model: Model, *, truth: ArrayLike | None = None, ax: Axes | None = None) -> Axes:
    """Which terms are in which equation: a square each, with terms along and states down.

    The size of a square shows that of the coefficient relative to the others of its equation. Positive ones
    are blue, negative ones orange. With `truth`, superfluous terms are crossed and missing ones are rings.

    >>> import cindy
    >>> system = cindy.systems.lorenz()
    >>> data = system.simulate(trajectories=2, points=1000, noise=0.05)
    >>> ax = cindy.plot.sparsity(cindy.identify(data, system.basis), truth=system.coef)
    >>> ax.figure.savefig("sparsity.png")
    """
    known = _like(truth, model.coef, "sparsity: truth")
    terms, states = model.coef.shape
    # Names longer than ten letters need room beside the squares, 0.08 inches a letter.
    across, up = (
        0.08 * max(0, *(len(name) - 10 for name in names)) for names in (equation_labels(model), model.labels)
    )
    ax = _axes(ax, (max(3.2, 1.2 + 0.24 * terms) + across, max(1.4, 1.0 + 0.3 * states) + up))
    largest = np.max(np.abs(model.coef), axis=0, initial=1e-300)
    for i in range(terms):
        for j in range(states):
            value = model.coef[i, j]
            wrong = truth is not None and bool(value) != bool(known[i, j])
            side = 8.5 * np.sqrt(0.35 + 0.65 * abs(value) / largest[j])
            if value:
                colour = COLOURS[0] if value > 0 else COLOURS[1]
                ax.plot(i, j, marker="s", ms=side, mew=0, color=colour, alpha=0.4 if wrong else 1.0)
            else:
                ax.plot(i, j, marker=".", ms=2, mew=0, color="0.7")
            if wrong:
                ax.plot(i, j, marker="x" if value else "o", ms=9, mfc="none", mec="black", mew=1.3)
    ax.set_xticks(range(terms), [pretty(name) for name in model.labels], rotation=90)
    ax.set_yticks(range(states), equation_labels(model))
    ax.set_xlim(-0.7, terms - 0.3)
    ax.set_ylim(states - 0.4, -0.6)
    ax.set(xlabel="term", ylabel="equation")
    signs = (("positive", COLOURS[0]), ("negative", COLOURS[1]))
    keys = [_line(name, color=colour, marker="s", ls="none") for name, colour in signs]
    if truth is not None:
        keys.append(_line("too many", color="black", marker="x", ls="none"))
        keys.append(_line("missing", color="black", marker="o", mfc="none", ls="none"))
    _legend(ax, keys)
    ax.tick_params(length=0)
    ax.spines[:].set_visible(False)
    return ax


def _axes(ax: Axes | None, size: tuple[float, float] = (6.8, 4.0)) -> Axes:
    if ax is not None:
        return ax
    _, axes = pyplot.subplots(figsize=size, layout="constrained")
    axes.spines[["top", "right"]].set_visible(False)
    return axes


def _columns(known: tuple[str, ...], wanted: Sequence[str] | None) -> list[int]:
    for name in wanted or ():
        if name not in known:
            raise DataError(f'There is no state "{name}". {did_you_mean(name, known)}')
    return [known.index(name) for name in wanted or known]


def _like(values: ArrayLike | None, coef: Floats, where: str) -> Floats:
    """The values, checked to have the shape of the coefficients; NaN throughout if there are none."""
    array = np.full(coef.shape, np.nan) if values is None else numbers(values, where)
    if array.shape != coef.shape:
        raise DataError(f"{where} must have shape {coef.shape}, terms by states, but has {array.shape}.")
    return array


def _dots(samples: Sized) -> dict[str, Any]:
    """A style of dots that are visible if few, and do not hide each other if many."""
    few = len(samples) <= _FEW_SAMPLES
    style: dict[str, Any] = {"marker": "o", "ms": 4.5, "mfc": "none", "mew": 1.1} if few else {"marker": "."}
    return {"ms": 4, "mew": 0, "alpha": 0.9 if few else 0.55, "ls": "none", **style}


def _colour(state: int) -> str:
    return COLOURS[state % len(COLOURS)]


def _line(label: str, **style: Any) -> Line2D:
    return Line2D([], [], label=label, **style)


def _legend(ax: Axes, handles: Sequence[Any]) -> None:
    """Names above the axes, where they hide no data; an inch holds twelve letters, a key counts as six."""
    if 0 < len(handles) <= _MOST_IN_LEGEND:
        names = [str(handle.get_label()) for handle in handles]
        names = [name if len(name) <= 24 else f"{name[:11]}…{name[-11:]}" for name in names]
        space, sizes = 12 * ax.get_window_extent().width / ax.figure.dpi, [6 + len(name) for name in names]
        columns = len(names) if sum(sizes) <= space else max(1, int(space / max(sizes)))
        place: dict[str, Any] = {"loc": "lower left", "bbox_to_anchor": (0.0, 1.0), "ncols": columns}
        ax.legend(list(handles), names, frameon=False, fontsize="small", handlelength=1.2, **place)


def _along_axis(names: Sequence[str]) -> str:
    joined = ", ".join(map(pretty, names))
    return joined if len(names) == 1 or len(joined) <= 40 else f"{len(names)} states"
