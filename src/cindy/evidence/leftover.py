"""The residuals of equations at the weak rows, compared with the noise: overall, by place and by scale.

The residual of a row, r = ∫ φ (∂_t^r u − Σ ξ_k D^{a_k} g_k(u)), has a known variance v from the noise at the
samples. If the law holds and there is nothing else than noise, r² / v has mean 1.

1. Overall: the mean of r² / v over all rows, times their degrees of freedom, is χ².
2. By place: the same in boxes of space and time, with Bonferroni's correction for their number.
3. By scale: the same over modes in bands of similar noise. A law that lacks a term leaves a smooth residual,
   which slow modes show long before the mean over all modes does.
4. Which coefficient: the target is fitted once more with one coefficient that may vary along one axis,
   linearly between a few nodes. The pair of term and axis that explains most of the excess is named.

Rows overlap. With C the correlation of their noise, Σ z² over n rows has mean n and variance 2 Σ C², as χ²
with n² / Σ C² degrees of freedom has; C is a product over the axes. The variance itself is known to a tenth
at best, which bounds the degrees of freedom.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from cindy._arrays import Floats, Ints
from cindy.evidence.grid_operators import INEXACT
from cindy.evidence.modes import NoisyRows, as_columns, modes_of
from cindy.evidence.weak import FieldRows, WeakRows, has_slope
from cindy.least_squares import lengths


@dataclass(frozen=True)
class _Test:
    """When the residuals of equations of fields exceed noise (`python -m benchmarks field_honesty`)."""

    level: float = 1e-3
    """Significance level of each of the first three tests (benchmark: field_honesty)."""
    doubt: float = 0.1
    """Relative standard error of the variances."""
    boxes: int = 6
    """Largest number of boxes along an axis."""
    band: int = 32
    """Number of modes in the slowest band; each further band has twice as many."""
    nodes: int = 8
    """Number of nodes between which a varying coefficient is linear."""
    varies: float = 0.8
    """Share of the excess over noise that one varying coefficient must explain to be named."""


_TEST = _Test()


_FLOOR = 2.0 * INEXACT
"""Relative error of rows that is allowed without noise: half the digits of many solvers."""


@dataclass(frozen=True, eq=False)
class Unexplained:
    """The residuals of the equation of one state, where they exceed noise.

    share: of the squares of the time derivative in all rows
    ratio: mean square of the residuals, in units of the noise
    chance: probability of such residuals by noise alone
    field: number of the field with the worst box of space and time
    boxes: by axis, (low, high) of the boxes of this field along it; map: the ratio in every box, NaN where no
        rows are
    term, axis: the coefficient that varies, and along which axis; "1" is a source; empty: none is named
    taken: share of the excess over noise that this coefficient explains
    """

    state: str
    share: float
    ratio: float
    chance: float
    field: int
    boxes: dict[str, list[list[float]]]
    map: Floats
    term: str = ""
    axis: str = ""
    taken: float = 0.0

    @property
    def worst(self) -> dict[str, list[float]]:
        """(low, high) along every axis of the box with the largest ratio."""
        place = np.unravel_index(np.nanargmax(self.map), self.map.shape)
        return {axis: sides[k] for (axis, sides), k in zip(self.boxes.items(), place, strict=True)}

    @property
    def local(self) -> bool:
        """Whether one box stands out from most others."""
        return bool(self.map.size > 1 and np.nanmax(self.map) > 3.0 * np.nanmedian(self.map))


def unexplained(evidence: WeakRows, coef: Floats) -> list[Unexplained] | None:
    """The states whose equations, with coefficients (terms, states), have residuals that exceed noise.

    None where the noise of the rows is not known, because a term holds locally estimated derivatives.
    """
    terms = np.flatnonzero(coef.any(axis=1))
    columns = tuple(int(k) for k in terms)
    residual = as_columns(coef[terms])
    # A filled sample repeats the noise of its neighbours, which increases the variance of a sum.
    inflation = 1.0 + 2.0 * evidence.filled
    fields = [_Residuals(NoisyRows(rows.only(columns)), residual, inflation) for rows in evidence.rows]
    if any(has_slope(g) for part in fields for g, _ in part.noisy.rows.terms):
        return None
    bands = [_Residuals(mode, residual, inflation) for mode in modes_of(evidence, columns)]
    judged = (_judged(fields, bands, evidence.rows, j) for j in range(coef.shape[1]))
    return [residuals for residuals in judged if residuals is not None]


class _Residuals:
    """Residuals and their variance, for the rows or the modes of one field."""

    def __init__(self, noisy: NoisyRows, residual: Floats, inflation: float) -> None:
        self.noisy, self.residual, self.inflation = noisy, residual, inflation
        counted = noisy.rows.counted.kept
        self.kept = np.ones(len(noisy.table), dtype=bool) if counted is None else counted.ravel()
        self.values = noisy.table @ residual.T
        # Squares of all summands of the equation: their sum cannot cancel more exactly than these allow.
        self.size = noisy.table**2 @ (residual**2).T

    @cached_property
    def variance(self) -> Floats:
        """(rows, states): of the noise, which is the only error of the rows."""
        return self.inflation * self.noisy.variance(self.residual).T

    def target(self, state: int) -> Floats:
        return np.asarray(self.noisy.table[:, len(self.noisy.rows.terms) - len(self.residual) + state])


def _judged(
    fields: Sequence[_Residuals], bands: Sequence[_Residuals], whole: Sequence[FieldRows], state: int
) -> Unexplained | None:
    """Steps 1 to 4 for one equation; None where noise explains its residuals."""
    squares, expected, target, freedom, z_square, count = 0.0, 0.0, 0.0, 0.0, 0.0, 0
    boxes: list[tuple[Floats, Floats]] = []
    for part in fields:
        used, rows = part.kept, part.noisy.rows
        allowed = _FLOOR**2 * float(np.mean(part.size[used, state])) if used.any() else 0.0
        z2 = part.values[:, state] ** 2 / np.maximum(part.variance[:, state] + allowed, 1e-300)
        squares += float(np.sum(part.values[used, state] ** 2))
        expected += float(np.sum(part.variance[used, state]))
        target += float(np.sum(part.target(state)[used] ** 2))
        count += int(used.sum())
        freedom += _freedom(rows, None) * float(np.mean(used))
        boxes.append(_by_place(rows, z2, used))
        z_square += float(np.sum(z2[used]))
    if not count:
        return None
    ratio = z_square / count
    # Steps 1 to 3. The mean over all rows hardly shows a residual in one place, nor a smooth one, which is in
    # few of many modes.
    places = [pair for means, freedoms in boxes for pair in zip(means.flat, freedoms.flat, strict=True)]
    scales = [band for part in bands for band in _bands(part, state)]
    chance = min(1.0, _chance(ratio, freedom), _least_chance(places), _least_chance(scales))
    if chance > _TEST.level:
        return None
    worst = int(np.argmax([np.nanmax(means, initial=0.0) for means, _ in boxes]))
    # Step 4, in the field with the worst box.
    term, axis, taken = _varying(fields[worst], whole[worst], state)
    return Unexplained(
        state=whole[0].field.states[state],
        share=max(squares - expected, 0.0) / max(target, 1e-300),
        ratio=ratio,
        chance=chance,
        field=worst,
        boxes=_sides(fields[worst].noisy.rows),
        map=boxes[worst][0],
        term=term,
        axis=axis,
        taken=taken,
    )


def _least_chance(means: Sequence[tuple[float, float]]) -> float:
    """The least of the chances of means of squares, with their degrees of freedom, times their number."""
    # Boxes in a hole of the field have no rows.
    chances = [_chance(ratio, freedom) for ratio, freedom in means if freedom > 0]
    return min(chances, default=1.0) * max(len(chances), 1)


def _chance(ratio: float, freedom: float) -> float:
    """The probability of so large a mean of squares, with uncertain variances."""
    from scipy.stats import chi2

    # The relative variance of the ratio, 2/f, grows by the squared relative error of the variances.
    freedom = freedom / (1.0 + 0.5 * _TEST.doubt**2 * freedom)
    return float(chi2.sf(ratio * freedom, freedom))


def _correlation(rows: FieldRows, k: int) -> Floats:
    """(rows, rows): of white noise in the rows along one axis."""
    matrix = rows.axes[k].matrices[rows.form.order if k == len(rows.axes) - 1 else 0]
    shared = matrix @ matrix.T
    size = np.sqrt(np.diagonal(shared))
    return np.asarray(shared / np.outer(size, size))


def _independent(c: Floats) -> float:
    """Satterthwaite: χ² with this many degrees of freedom has the mean and variance of correlated squares."""
    return len(c) ** 2 / float(np.sum(c**2))


def _freedom(rows: FieldRows, part: Sequence[Ints] | None) -> float:
    """Degrees of freedom of all rows, or of those at these places along the axes."""
    total = 1.0
    for k in range(len(rows.axes)):
        c = _correlation(rows, k)
        total *= _independent(c if part is None else c[np.ix_(part[k], part[k])])
    return total


def _parts(rows: FieldRows) -> list[list[Ints]]:
    """The rows of each box along every axis, about four independent ones in each."""
    parts = []
    for k in range(len(rows.axes)):
        c = _correlation(rows, k)
        number = int(np.clip(round(_independent(c) / 4), 1, min(_TEST.boxes, len(c))))
        parts.append(np.array_split(np.argsort(_centres(rows, k), kind="stable"), number))
    return parts


def _centres(rows: FieldRows, k: int) -> Floats:
    """The coordinates of the rows along an axis."""
    axis = rows.axes[k]
    name = (*rows.field.axes, rows.field.time)[k]
    x = rows.field.coordinate(name)[:: rows.form.steps[k]]
    if k == len(rows.axes) - 1 and rows.form.time == "integral":
        return np.asarray(0.5 * (x[axis.starts] + x[axis.stops - 1]))
    return np.asarray(x[axis.matrices[0].argmax(axis=1)])


def _sides(rows: FieldRows) -> dict[str, list[list[float]]]:
    """By axis, (low, high) of the boxes along it."""
    sides = {}
    for k, (axis, parts) in enumerate(zip((*rows.field.axes, rows.field.time), _parts(rows), strict=True)):
        centres = [_centres(rows, k)[part] for part in parts]
        sides[axis] = [[float(c.min()), float(c.max())] for c in centres]
    return sides


def _by_place(rows: FieldRows, z2: Floats, used: NDArray[np.bool_]) -> tuple[Floats, Floats]:
    """Step 2. The mean of z² in every box, NaN where no rows count, and its degrees of freedom."""
    shape, parts = tuple(axis.rows for axis in rows.axes), _parts(rows)
    z2, used = z2.reshape(shape), used.reshape(shape)
    means = np.full([len(part) for part in parts], np.nan)
    freedom = np.zeros(means.shape)
    for corner in np.ndindex(*means.shape):
        places = [part[i] for part, i in zip(parts, corner, strict=True)]
        inside = np.ix_(*places)
        if used[inside].any():
            means[corner] = np.mean(z2[inside][used[inside]])
            freedom[corner] = _freedom(rows, places) * float(np.mean(used[inside]))
    return means, freedom


def _bands(part: _Residuals, state: int) -> Iterator[tuple[float, float]]:
    """Step 3. (mean square in units of the noise, number of modes) from the slowest band to the fastest."""
    noise = part.variance[:, state]
    order = np.argsort(noise, kind="stable")
    balance = part.size[:, state] + float(np.mean(part.size[:, state]))
    z2 = part.values[:, state] ** 2 / np.maximum(noise + _FLOOR**2 * balance, 1e-300)
    begin, size = 0, _TEST.band
    while begin < len(order):
        end = len(order) if len(order) - begin - size < size else begin + size
        yield float(np.mean(z2[order[begin:end]])), float(end - begin)
        begin, size = end, 2 * size


def _varying(part: _Residuals, whole: FieldRows, state: int) -> tuple[str, str, float]:
    """Step 4. (term, axis, share): the coefficient that varies, and its share of the excess over noise.

    part: of the rows of the terms in the equations; whole: the same rows for all terms of the basis
    """
    used, names = part.kept, (*whole.field.axes, whole.field.time)
    weight = 1.0 / np.sqrt(part.variance[used, state] + _FLOOR**2 * float(np.mean(part.size[used, state])))
    terms = whole.basis.names(whole.field.variables)
    table = whole.table.reshape(len(used), -1)[used] * weight[:, None]
    held = np.flatnonzero(part.residual[state, : part.residual.shape[1] - len(part.residual)])
    # Constant coefficients are fitted at the same time, so that only the variation counts.
    constant, _ = np.linalg.qr(part.noisy.table[used][:, held] * weight[:, None])
    target = part.target(state)[used] * weight
    target = target - constant @ (constant.T @ target)
    # The excess over noise: squares in units of the noise have mean 1, so that noise adds one for each row.
    excess = max(float(target @ target) - len(target), 1e-300)
    places = np.meshgrid(*(_centres(whole, k) for k in range(len(names))), indexing="ij")
    best = ("", "", 0.0)
    for k, axis in enumerate(names):
        hats = _hats(places[k].ravel()[used], whole.field.period(axis) if k < len(names) - 1 else None)
        for name, column in (("1", weight), *zip(terms, table.T, strict=False)):
            varied = column[:, None] * hats
            varied -= constant @ (constant.T @ varied)
            taken = _explained(varied, target) / excess
            if taken > best[2]:
                best = (name, axis, float(min(taken, 1.0)))
    return best if best[2] > _TEST.varies else ("", "", 0.0)


def _explained(design: Floats, target: Floats) -> float:
    """The sum of squares that least squares explains."""
    turn, values, _ = np.linalg.svd(design / lengths(design), full_matrices=False)
    return float(np.sum((turn[:, values > 1e-6 * max(values[0], 1e-300)].T @ target) ** 2))


def _hats(places: Floats, period: float | None) -> Floats:
    """(rows, nodes): functions that are 1 at one node and linear between nodes, also around a ring."""
    low, high = float(places.min()), float(places.max())
    length = period or max(high - low, 1e-300)
    nodes = np.arange(_TEST.nodes) * length / (_TEST.nodes if period else _TEST.nodes - 1)
    away = places[:, None] - low - nodes
    if period:
        away -= period * np.round(away / period)
    return np.asarray(np.maximum(0.0, 1.0 - np.abs(away) / (nodes[1] - nodes[0])))
