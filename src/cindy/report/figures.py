"""The numbers of each figure of the page, as plain lists that its script draws, and of its coefficients."""

from __future__ import annotations

import math
import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from markupsafe import Markup, escape
from numpy.typing import NDArray

from cindy._arrays import Floats
from cindy.basis import Term, listed, pretty, term_label
from cindy.data import Trajectory, beginning
from cindy.export import definition, format_value, shorter, term_markup, with_symbols
from cindy.model import (
    Comparison,
    Denoised,
    Diagnostics,
    Model,
    Solution,
    band,
    compare,
    completed,
    densities,
    equation_labels,
    fine_curve,
)


@dataclass(frozen=True)
class _Sizes:
    """How much a figure draws: more would make the page larger and no clearer."""

    most_trajectories: int = 16
    """Trajectories, spread over the data."""
    most_samples: int = 600
    """Samples of a curve: as many as a figure has pixels to a side."""
    most_numbers: int = 40_000
    """Numbers of the data, and as many of solutions: they take about half a megabyte."""
    most_residuals: int = 600
    """Residuals, drawn at random from all."""
    most_models: int = 60
    """Models of the path."""
    most_summands: int = 8000
    """Summands of all these models, which are part of the page as text."""
    still: float = 0.01
    """Range of a state in one trajectory, relative to that in all, below which it does not move there: an
    absent species, or a valve that stays shut."""


_SIZES = _Sizes()


@dataclass(frozen=True, eq=False)
class Shown:
    """Trajectories beside solutions from their starts.

    compared: the solutions and their R²; series: what the page draws, one entry per trajectory
    left_out: how many trajectories are not shown; cut: how many of those shown are not shown to their end
    inside: share of the samples that lie in the bands of paths with kicks; NaN without kicks
    still: for each trajectory shown, the states that do not move in it, with their values; NaN: not measured
    """

    compared: Comparison
    series: list[dict[str, Any]]
    left_out: int
    cut: int
    inside: float
    still: list[dict[str, float]]

    @property
    def opened(self) -> int:
        """The trajectory that a page opens with: the first of those in which most states move."""
        return min(range(len(self.still)), key=lambda k: len(self.still[k]), default=0)

    @property
    def stopped(self) -> list[str]:
        """A sentence for each of the first solutions that do not reach the end of the data."""
        reasons = self.compared.stopped[:3]
        return [f"A solution did not reach the end of the data: {reason}." for reason in reasons]

    @property
    def names(self) -> list[str]:
        """The names of the trajectories, and which states do not move in them."""
        names = []
        for series, still in zip(self.series, self.still, strict=True):
            absent = listed([pretty(state) for state, value in still.items() if value == 0.0])
            others = [f"{pretty(state)} {_at(value)}" for state, value in still.items() if value != 0.0]
            names.append(", ".join([series["name"], *([f"without {absent}"] if absent else []), *others]))
        return names


def trajectories(model: Model, data: Sequence[Trajectory]) -> Shown:
    """Some trajectories, spread evenly over the data, and solutions for as long as the model can predict."""
    places = thinned(len(data), _SIZES.most_trajectories)
    most = min(max(_SIZES.most_numbers // (len(places) * len(model.states)), 60), _SIZES.most_samples)
    whole = completed(model, data)
    shown = {k: beginning(whole[k], most) for k in places if whole[k].segments()}
    least = 4 if model.order == 2 else 2
    shown = {k: run for k, run in shown.items() if max(len(part) for part in run.segments()) >= least}
    compared = compare(model, list(shown.values()))
    # The dots are measurements only, without values that were filled in for the comparison.
    shown = {k: beginning(data[k], most) if whole[k] is not data[k] else run for k, run in shown.items()}
    bands: list[_Band] = []
    if model.diffusion is not None:
        bands = [(solution.measured, *band(model, solution)) for solution in compared.solutions]
    share = _SIZES.most_numbers // (max(len(shown), 1) * (len(model.states) + 1))
    series = []
    for i, (k, run) in enumerate(shown.items()):
        own = [n for n, s in enumerate(compared.solutions) if s.trajectory == i]
        base = _series(model, run, [compared.solutions[n] for n in own], k + 1, share)
        series.append(base | {"band": _outlines([bands[n] for n in own]) if bands else None})
    inside = np.concatenate([_inside(*each) for each in bands]) if bands else np.zeros(0)
    cut = sum(run.t[-1] < data[k].t[-1] for k, run in shown.items())
    share_inside = float(np.mean(inside)) if len(inside) else np.nan
    still = _still(model.states, list(shown.values()))
    return Shown(compared, series, len(data) - len(shown), cut, share_inside, still)


def _at(value: float) -> str:
    return f"constant at {value:.3g}" if np.isfinite(value) else "not measured"


def _still(states: Sequence[str], runs: Sequence[Trajectory]) -> list[dict[str, float]]:
    """For each trajectory the states that do not move in it, while they do in another, with their values."""
    measured = [np.ma.masked_invalid(run.x) for run in runs]
    low, high = (np.ma.array([getattr(x, end)(axis=0) for x in measured]) for end in ("min", "max"))
    least = _SIZES.still * (high.max(axis=0) - low.min(axis=0))
    moves = np.ma.filled(high - low > least, False)
    still = ~moves & moves.any(axis=0)
    values = np.ma.filled(low, np.nan).tolist()
    return [
        {state: value for state, value, rests in zip(states, row, own, strict=True) if rests}
        for row, own in zip(values, still.tolist(), strict=True)
    ]


_Band = tuple[Trajectory, Floats, Floats]
"""Samples, and the lower and upper edge of 90 % of the measurements of paths with kicks."""


def _inside(measured: Trajectory, low: Floats, high: Floats) -> NDArray[np.bool_]:
    """Whether samples lie in the band; the first does by construction, and is left out."""
    y, low, high = measured.x[1:], low[1:], high[1:]
    return np.asarray(((low <= y) & (y <= high))[np.isfinite(y) & np.isfinite(low)])


def _outlines(bands: Sequence[_Band]) -> dict[str, Any]:
    """The closed outlines of the bands, one after the other: {"t": …, "x": a list for each state}."""
    gap = np.full((1, bands[0][0].dimension), np.nan)
    t = np.concatenate([[*run.t, *run.t[::-1], np.nan] for run, _, _ in bands])
    x = np.concatenate([part for _, low, high in bands for part in (high, low[::-1], gap)])
    return {"t": plain(t, 7), "x": [plain(column, 4) for column in x.T]}


def density_series(model: Model, data: Sequence[Trajectory]) -> list[dict[str, Any]]:
    """For every state of a model with kicks: middles of bins, and densities of data and model there."""
    if model.diffusion is None:
        return []
    return [
        {
            "x": plain((density.edges[1:] + density.edges[:-1]) / 2),
            "width": float(f"{density.edges[1] - density.edges[0]:.5g}"),
            "data": plain(density.data, 4),
            "model": plain(density.model, 4),
        }
        for density in densities(model, completed(model, data))
    ]


def _series(
    model: Model, run: Trajectory, solved: Sequence[Solution], number: int, most: int
) -> dict[str, Any]:
    """The numbers of one trajectory; most: points of its curves, which share them by their samples."""
    samples = sum(len(solution.measured) for solution in solved)
    curves = [fine_curve(model, one, most * len(one.measured) // samples) for one in solved]
    start = solved[0].start if solved else np.nan_to_num(run.x[0])
    # A null between two solutions interrupts the line.
    gap = np.full((1, run.dimension), np.nan)
    t = np.concatenate([np.append(curve.t, np.nan) for curve in curves]) if curves else np.zeros(0)
    x = np.vstack([part for curve in curves for part in (curve.x, gap)]) if curves else gap[:0]
    return {
        "name": run.name or f"trajectory {number}",
        "t": plain(run.t, 7),
        "x": [plain(column) for column in run.x.T],
        "u": [] if run.u is None else [plain(column) for column in run.u.T],
        "start": plain(start, 7),
        "solved_t": plain(t, 7),
        "solved": [plain(column) for column in x.T],
    }


def coefficients(model: Model, diagnostics: Diagnostics) -> list[dict[str, Any]]:
    """For every equation: terms, values, half-widths of the intervals, and relative sizes.

    The relative size of a summand is its norm over the data relative to that of the whole left-hand side.
    Coefficients have units and may differ by orders of magnitude; relative sizes can be compared.
    """
    equations = []
    for j, state in enumerate(model.states):
        rows = np.flatnonzero(model.coef[:, j])
        value, error = model.coef[rows, j], 1.96 * model.coef_error[rows, j]
        own = diagnostics.rows.equation(j, model.coef)
        size = dict(zip(own.terms.tolist(), np.linalg.norm(own.design, axis=0), strict=True))
        weight = np.array([size[i] for i in rows.tolist()]) / (np.linalg.norm(own.target) or 1.0)
        equations.append(
            {
                "state": pretty(state),
                "terms": [pretty(model.labels[i]) for i in rows],
                "value": plain(value),
                "half": plain(error),
                "share": plain(value * weight),
                "share_half": plain(error * weight),
                "text": [minus(format_value(model.coef[i, j], model.coef_error[i, j])) for i in rows],
            }
        )
    return equations


def coefficient_rows(model: Model) -> list[dict[str, Any]]:
    """The rows of the table of coefficients, and after them of parameters."""
    rows = []
    for j, side in enumerate(equation_labels(model)):
        for k, i in enumerate(np.flatnonzero(model.coef[:, j])):
            names = {
                "first": k == 0,
                "equation": lowered(model, side),
                "term": lowered(model, pretty(model.labels[i])),
            }
            numbers = float(model.coef[i, j]), float(model.coef_error[i, j]), float(model.inclusion[i, j])
            rows.append(names | _cells(*numbers))
    for k, (name, (value, error)) in enumerate(model.parameters.items()):
        rows.append({"first": k == 0, "equation": "parameters", "term": name} | _cells(value, error, np.nan))
    return rows


def _cells(value: float, error: float, inclusion: float) -> dict[str, Any]:
    """The cells of a coefficient: value, 95 % interval, value over error, and inclusion probability."""
    known = np.isfinite(error) and error > 0
    return {
        "value": minus(format_value(value, error)),
        "low": minus(f"{value - 1.96 * error:.4g}") if known else "",
        "high": minus(f"{value + 1.96 * error:.4g}") if known else "",
        "ratio": f"{abs(value) / error:,.0f}" if known else "",
        "belongs": f"{100 * inclusion:.0f} %" if np.isfinite(inclusion) else "",
    }


def lowered(model: Model, text: str) -> str | Markup:
    """A label; derivatives of a field become subscripts."""
    if not model.formulation.for_fields:
        return text
    return Markup(re.sub(r"_([^\W\d_]+)", r"<sub>\1</sub>", str(escape(text))))


def terms_of(model: Model) -> list[Term]:
    """The terms, with identified parameters by name."""
    terms = model.basis.terms(model.variables)
    return [with_symbols(term) for term in terms] if model.parameters else list(terms)


def has_dots(model: Model) -> bool:
    """Whether products need a dot, because names could be misread without it."""
    return any("·" in label for label in model.labels)


def typeset(model: Model, rows: Iterable[int]) -> dict[int, str]:
    """Some of the terms as MathML, by their numbers; nothing stands for the constant."""
    terms, dots = terms_of(model), has_dots(model)
    return {int(i): term_markup(terms[i], dots=dots) if terms[i] else "" for i in rows}


def brackets(model: Model) -> str:
    """What the digits in parentheses mean, by the first coefficient that has them; empty if none has."""
    for value, error in zip(model.coef.T[model.support.T], model.coef_error.T[model.support.T], strict=True):
        text = minus(format_value(value, error))
        if parts := re.fullmatch(r"(.*\.(\d+))\((\d+)\)", text):
            size = f"{int(parts[3]) / 10 ** len(parts[2]):.{len(parts[2])}f}"
            return (
                f"The digit in parentheses is the standard error, in units of the last digit: {text} means "
                f"{parts[1]} with a standard error of {size}."
            )
    return ""


def rewritten(model: Model) -> str:
    """A sentence on terms of fields that text and LaTeX write in another form; empty if there are none."""
    terms = model.basis.terms(model.variables)
    told = []
    for i in np.flatnonzero(model.support.any(axis=1)).tolist():
        times, term = shorter(terms[i])
        labels = (model.labels[i], term_label(term, model.variables))
        before, after = (lowered(model, pretty(label)) for label in labels)
        if times != 1.0:
            told.append(Markup("{} as {:g} {}").format(before, times, after))
    return Markup("Text and LaTeX write {}.").format(Markup(", ").join(told)) if told else ""


def path(model: Model, diagnostics: Diagnostics) -> dict[str, Any] | None:
    """The models that were compared, each as [term, sign, number] by equation; None without a path."""
    if not len(model.path):
        return None
    # Fewer models if they are large, so that the page stays small.
    usual = int(np.mean([other.size for other in model.path])) or 1
    most = min(_SIZES.most_models, max(_SIZES.most_summands // usual, 6))
    places = thinned(len(model.path), most, keep=model.path.chosen)
    models = [model.path[k] for k in places]
    chosen, losses = model.path.chosen, [diagnostics.rows.relative_loss(other.coef) for other in models]
    return {
        "size": [other.size for other in models],
        "score": plain(np.array([model.path.scores[k] for k in places], dtype=float)),
        "loss": plain(np.array(losses)),
        "left": [percent(loss) for loss in losses],
        "weighted": isinstance(diagnostics.rows, Denoised),
        "kicked": model.diffusion is not None,
        "chosen": places.index(chosen) if chosen in places else None,
        "parameters": [
            [definition(name, *estimate) for name, estimate in other.parameters.items()] for other in models
        ],
        "models": [[_numbers(other, j) for j in range(len(other.states))] for other in models],
        "left_out": len(model.path) - len(places),
    }


def _numbers(model: Model, equation: int) -> list[tuple[int, int, str]]:
    return [
        (int(i), int(np.sign(model.coef[i, equation])), format_value(abs(value), error))
        for i in np.flatnonzero(model.coef[:, equation])
        for value, error in [(float(model.coef[i, equation]), float(model.coef_error[i, equation]))]
    ]


def residual_series(model: Model, diagnostics: Diagnostics) -> list[dict[str, Any]]:
    """For every state that was measured: residuals against time, thinned, and their autocorrelation."""
    t = np.concatenate([window.t for window in diagnostics.residuals])
    values = np.vstack([window.values for window in diagnostics.residuals])
    # At random: a stride could meet the same place of every window.
    drawn_samples = np.random.default_rng(0).permutation(len(t))[: _SIZES.most_residuals]
    drawn_samples.sort()
    return [
        {
            "state": j,
            "t": plain(t[drawn_samples]),
            "value": plain(values[drawn_samples, j], 4),
            "correlation": plain(diagnostics.correlation[:, j], 4),
            "band": diagnostics.band,
        }
        for j in range(values.shape[1])
        if model.states[j] not in model.hidden
    ]


def history(model: Model) -> dict[str, Any] | None:
    """The gap and the objective along the run of the solver; None if they were not recorded."""
    if model.result is None or len(model.result.history) < 2:
        return None
    steps = model.result.history
    places = thinned(len(steps), 400)
    return {
        "iteration": [steps[k].iteration for k in places],
        "gap": plain(np.array([steps[k].gap for k in places], dtype=float)),
        "objective": plain(np.array([steps[k].objective for k in places], dtype=float)),
    }


def thinned(count: int, most: int, keep: int | None = None) -> list[int]:
    """About `most` places out of `count`, evenly, with both ends, and `keep` with its neighbours."""
    places = set(np.linspace(0, count - 1, min(count, most)).round().astype(int).tolist())
    if keep is not None:
        places |= {k for k in (keep - 1, keep, keep + 1) if 0 <= k < count}
    return sorted(places)


def plain(values: Floats, digits: int = 5) -> list[float | None]:
    """Numbers for JSON, rounded; null where there is none."""
    return [float(f"{v:.{digits}g}") if math.isfinite(v) else None for v in np.asarray(values).tolist()]


def minus(text: str) -> str:
    """The text with true minus signs."""
    return text.replace("-", "−")


def power(value: float) -> str:
    """A number with two digits, as 2.3 × 10⁻⁵ if it is small or large."""
    if value == 0 or not np.isfinite(value):
        return f"{value:g}"
    mantissa, _, exponent = f"{value:.1e}".partition("e")
    if -3 <= int(exponent) <= 3:
        return f"{value:.2g}"
    raised = str(int(exponent)).translate(str.maketrans("0123456789-", "⁰¹²³⁴⁵⁶⁷⁸⁹⁻"))
    return f"{mantissa}\N{NO-BREAK SPACE}×\N{NO-BREAK SPACE}10{raised}"


def percent(share: float) -> str:
    """A share in per cent with two digits, such as 0.99 %, 1.0 % and 2.1 × 10⁻⁴ %."""
    if 0 < share < 1e-5:
        return f"{power(100 * share)}\N{NO-BREAK SPACE}%"
    digits = f"{100 * share:#.2g}".removesuffix(".") if 100 * share < 100 else f"{100 * share:.0f}"
    return f"{digits}\N{NO-BREAK SPACE}%"
