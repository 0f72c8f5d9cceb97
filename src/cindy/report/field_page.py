"""The page about equations of fields: pictures of the data, the solution and their difference."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import numpy as np

from cindy._arrays import Floats
from cindy._check import counted
from cindy.basis import axis_label, pretty
from cindy.data import Field
from cindy.model import FieldComparison, Model, compare_fields, determination, diagnose_fields
from cindy.report.figures import minus, percent, plain, thinned
from cindy.report.page import certificate, common, noise_row, sentences

_MOST_FIELDS = 4
"""Fields that a page shows, each with three pictures."""
_MOST_SAMPLES = 120
"""Along either side of a picture: three of them take a tenth of a megabyte each."""


def field_contents(
    model: Model, fields: Sequence[Field], *, title: str | None, units: Mapping[str, str]
) -> dict[str, Any]:
    """The values of the template, by name."""
    diagnostics = diagnose_fields(model, fields)
    places = thinned(len(fields), _MOST_FIELDS)
    comparisons = [compare_fields(model, fields[k]) for k in places]
    base = common(model, diagnostics, title=title, units=units)
    remarks = [sentence for comparison in comparisons for sentence in comparison.remarks]
    base["drawn"]["fields"] = [
        _pictures(model, k, comparison, units) for k, comparison in zip(places, comparisons, strict=True)
    ]
    return base | {
        "lead": _lead(model, fields),
        "highlights": list(_highlights(model, diagnostics.loss, comparisons)),
        "messages": sentences(model.findings, remarks),
        "solutions": _about(comparisons),
        "names": [comparison.field.name or f"field {k}" for k, comparison in enumerate(comparisons, 1)],
        "opened": 0,
        "looked_at": "",
        "residual_of": "",
        "noise": list(_noise(model, comparisons)),
        "noise_caption": "Standard deviations of the measurement noise and of data less solution.",
    }


def _lead(model: Model, fields: Sequence[Field]) -> str:
    first = fields[0]
    grid = " × ".join(f"{n:,}" for n in first.shape)
    several = f"{len(fields)} fields, the first" if len(fields) > 1 else "a field"
    over = f"{', '.join(first.axes)} and {first.time}"
    return (
        f"Found in {several} of {grid} values over {over}: {counted(model.size, 'term')} "
        f"out of {model.coef.size:,} candidates."
    )


def _highlights(
    model: Model, loss: Floats, compared: Sequence[FieldComparison]
) -> Iterator[tuple[str, str, str]]:
    """(value, name, what it means)."""
    yield (
        minus(determination(float(np.mean(1 - loss)))),
        "R² of the equations",
        "of the rates, averaged over test functions; noise lowers it",
    )
    explained = np.array([comparison.explained for comparison in compared])
    if np.all(np.isfinite(explained)):
        yield (
            minus(determination(float(np.mean(explained)))),
            "R² of the solutions",
            "data against simulation from the smoothed first field",
        )
    if np.all(np.isfinite(model.noise)):
        spread = _spread(model, compared)
        share = float(np.median(model.noise / np.where(spread > 0, spread, np.inf)))
        yield percent(share), "noise", "of the spread of a field, in the median"
    yield from certificate(model)


def _about(compared: Sequence[FieldComparison]) -> list[str]:
    """Sentences under the pictures."""
    sentences = []
    if len(compared[0].field.axes) > 1:
        at = compared[0].field
        sentences.append(f"Shown at the last time, {at.time} = {at.t[-1]:.4g}.")
    early = [comparison for comparison in compared if comparison.follows < comparison.field.t[-1]]
    if early:
        first = early[0]
        sentences.append(
            f"The solution follows the data until about {first.field.time} = {first.follows:.3g}. After that "
            "either the system is chaotic, or the equations are not exactly right."
        )
    return sentences


def _pictures(
    model: Model, number: int, comparison: FieldComparison, units: Mapping[str, str]
) -> dict[str, Any]:
    """Coordinates, and for every state its pictures: data, model, difference, unexplained rest."""
    data = comparison.field
    flat = len(data.axes) == 1
    across, up = (data.axes[0], data.time) if flat else data.axes[:2]
    columns, rows = (thinned(len(data.coordinate(a)), _MOST_SAMPLES) for a in (across, up))
    panels = []
    for state in model.states:
        measured = data[state]
        low, high = (float(v) for v in np.nanpercentile(measured, [0.5, 99.5]))
        name = pretty(state)
        # Only what is about zero has a scale with two colours.
        pictures = [(f"{name}, data", measured, low, high, False)]
        if comparison.solved:
            pictures.append((f"{name}, model", comparison.solved[state], low, high, False))
            left = measured - comparison.solved[state]
            # On the scale of the data the picture of a good model would be empty; its own shows a structure.
            sizes = np.abs(left[np.isfinite(left)])
            half = (float(np.percentile(sizes, 99.5)) if len(sizes) else 0.0) or 0.5 * (high - low)
            pictures.append(("data less model, magnified", left, -half, half, True))
        for ratio in _unexplained(model, state, number, data):
            most = float(np.nanmax(ratio, initial=1.0))
            pictures.append(("residuals in units of their noise", ratio, 0.0, most, False))
        panel = [
            {"title": title, "z": _table(values, rows, columns), "low": low, "high": high, "apart": apart}
            for title, values, low, high, apart in pictures
        ]
        panels.append(panel)
    return {
        "x": plain(data.coordinate(across)[columns], 6),
        "y": plain(data.coordinate(up)[rows], 6),
        "across": axis_label(across, units),
        "up": axis_label(up, units),
        "panels": panels,
    }


def _unexplained(model: Model, state: str, number: int, data: Field) -> Iterator[Floats]:
    """The map of unexplained motion of a state on the grid of a field; NaN if it is about another field."""
    for finding in model.findings:
        values = finding.values
        if finding.code == "unexplained-motion" and values.get("state") == state and "map" in values:
            ratio = np.full(data.shape, np.nan)
            if values["field"] == number:
                # A sample takes the value of the box whose middle is nearest.
                nearest = []
                for axis in (*data.axes, data.time):
                    middles = np.mean(values["boxes"][axis], axis=1)
                    nearest.append(np.abs(data.coordinate(axis)[:, None] - middles).argmin(axis=1))
                ratio = np.sqrt(np.array(values["map"])[np.ix_(*nearest)])
            yield ratio if len(data.axes) == 1 else ratio.mean(axis=-1, keepdims=True)


def _table(values: Floats, rows: list[int], columns: list[int]) -> list[list[float | None]]:
    """Some of the values, row by row upwards; with several axes of space at the last time."""
    if values.ndim > 2:
        values = values[..., -1]
        while values.ndim > 2:
            values = values[..., values.shape[-1] // 2]
    return [plain(values[columns, k], 4) for k in rows]


def _noise(model: Model, compared: Sequence[FieldComparison]) -> Iterator[dict[str, str]]:
    for state, noise, spread in zip(model.states, model.noise, _spread(model, compared), strict=True):
        left = [np.ravel(each.field[state] - each.solved[state]) for each in compared if each.solved]
        rest = np.sqrt(np.nanmean(np.concatenate(left) ** 2)) if left else np.nan
        yield noise_row(state, noise, spread, rest)


def _spread(model: Model, compared: Sequence[FieldComparison]) -> Floats:
    return np.array([np.nanstd(compared[0].field[state]) for state in model.states])
