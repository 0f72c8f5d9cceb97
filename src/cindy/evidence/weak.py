"""The evidence of fields: the rows of the weak form, and what noise adds to their Gram matrix.

For every test function φ on a lattice over space and time there is one row

    ∫ φ ∂_t^r u  =  Σ_k ξ_k ∫ φ D^{a_k} g_k(u)

whose derivatives are moved onto φ. `WeakRows` holds all rows of a run: the fields, the settings chosen from
them, their noise, and one `FieldRows` for each field. The cost is linear in the number of values.

1. Settings and noise are chosen from the fields (`fit_weak`).
2. A field is read in slabs of time. Terms are evaluated without the bias of noise and integrated against φ.
3. Rows that use a missing value, or lie at a front that the grid does not resolve, are left out.
4. Rows are reduced to triangles, one for each box of space and time, together with the sum over rows of the
   covariance of the noise in their columns (`Gathered`).
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field as dataclass_field, replace
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from cindy._arrays import Floats, Ints
from cindy.basis import Basis, Factor, Term
from cindy.calculus import derivative_weights
from cindy.data import Field
from cindy.errors import DataError
from cindy.evidence.grid_operators import (
    AxisRows,
    Counted,
    alternating_sums,
    apply,
    bumps,
    counted,
    integrals,
    products,
    reduce,
)
from cindy.evidence.noise_in_terms import Unbiased
from cindy.evidence.weak_settings import Noise, fit_weak
from cindy.formulation import Formulation, Weak
from cindy.least_squares import LeastSquares, triangle

_MOST_ROWS = 6000
"""Most rows of all fields together: neighbouring test functions are nearly redundant."""
_LATTICE = 0.5
"""Distance of test functions, in half-widths: a quarter of the width."""
_SLAB = 6_000_000
"""Most values of one variable that are held in memory at a time."""
_LOCAL_DEGREE = 4
"""Degree of the local polynomials for slopes inside products."""
_MODES = 24
"""Number of cosines in a window of the integral form in time."""


@dataclass(frozen=True, eq=False)
class Gathered:
    """Rows as triangles that can be added.

    blocks, labels: one for each box of space and time, and its place
    spurious: (terms + states, terms + states) what noise adds to the Gram matrix of all blocks
    samples: number of values that were read
    """

    blocks: tuple[LeastSquares, ...]
    labels: tuple[str, ...]
    spurious: Floats
    samples: int


@dataclass(frozen=True, eq=False)
class FieldRows:
    """The rows of one field: test functions along every axis, evaluated in slabs of time.

    noise: standard deviation of each state
    share: of the rows of all fields that this field may have
    columns: the terms that are wanted; None: all
    spacing: distance of test functions, in half-widths
    most: largest number of rows of all fields together
    """

    field: Field
    basis: Basis
    form: Weak
    noise: Noise
    share: float
    columns: tuple[int, ...] | None = None
    spacing: float = _LATTICE
    most: int = _MOST_ROWS

    @cached_property
    def terms(self) -> list[tuple[Term, tuple[int, ...]]]:
        """Every column as a function of the fields, and the orders of its derivatives in space and time."""
        axes = self.field.axes
        columns: list[tuple[Term, tuple[int, ...]]] = []
        for term in self.basis.terms(self.field.variables):
            alone = len(term) == 1 and term[0].kind == "derivative" and term[0].power == 1
            inner = term[0].of if alone else term
            orders = tuple(term[0].by.count(axis) if alone else 0 for axis in axes)
            columns.append((inner, (*orders, 0)))
        if self.columns is not None:
            columns = [columns[k] for k in self.columns]
        none = (0,) * len(axes)
        for state in self.field.states:
            columns.append(((Factor("variable", (state,)),), (*none, self.form.order)))
        return columns

    @cached_property
    def axes(self) -> list[AxisRows]:
        """The rows along space and time."""
        names = (*self.field.axes, self.field.time)
        stretch = 1.0
        for _ in range(40):
            # Neighbouring test functions overlap by three quarters. If there are too many rows, the lattice
            # is stretched along all axes alike.
            axes = [self._axis(k, axis, stretch) for k, axis in enumerate(names)]
            if np.prod([float(a.rows) for a in axes]) <= max(self.share * self.most, 1.0):
                break
            stretch *= 1.1
        return axes

    def _axis(self, k: int, axis: str, stretch: float) -> AxisRows:
        form, field = self.form, self.field
        x = field.coordinate(axis)[:: form.steps[k]]
        if axis == field.time and form.time == "integral":
            windows = max(1, min(3, len(x) // 40))
            return integrals(x, order=form.order, windows=windows, modes=max(4, int(_MODES / stretch)))
        orders = {0, form.order} if axis == field.time else {orders[k] for _, orders in self.terms}
        rows = bumps(
            x,
            half_width=form.widths[k],
            power=form.exponents[k],
            orders=tuple(sorted(orders)),
            spacing=stretch * self.spacing * form.widths[k],
            period=field.period(axis) if axis != field.time else None,
        )
        if not rows.rows:
            raise DataError(
                f"Weak: a test function of half-width {form.widths[k]:g} does not fit into {axis} = "
                f"{x[0]:g} … {x[-1]:g} of {field!r}. Give more samples, or smaller half_widths."
            )
        return rows

    def only(self, columns: tuple[int, ...]) -> FieldRows:
        """The same rows for some of the terms."""
        restricted = replace(self, columns=columns)
        # Which rows count does not depend on the terms, so that the result is shared.
        restricted.__dict__["counted"] = self.counted
        return restricted

    def divisions(self, blocks: int) -> tuple[int, ...]:
        """The number of boxes along every axis, for about this number of blocks."""
        rows = np.array([a.rows for a in self.axes], dtype=float)
        cuts = np.ones(len(rows), dtype=int)
        if self.form.time == "integral":
            # Rows of one window share their initial state.
            rows[-1] = len(np.unique(self.axes[-1].starts))
        while np.prod(cuts) < blocks:
            lengths = rows / cuts
            # The longest side is cut next, so that boxes are compact and share little noise.
            k = int(np.argmax(np.where(cuts < rows, lengths, 0.0)))
            if cuts[k] >= rows[k]:
                break
            cuts[k] += 1
        return tuple(int(c) for c in cuts)

    def gathered(self, blocks: int, name: str, told: Callable[[int], None]) -> Gathered:
        """Step 4. The rows in about this number of boxes, one stretch of time after the other.

        name: of the field, for the labels; told: called with the number of values that were read
        """
        cuts, read, samples = self.divisions(blocks), 0, 0
        spurious = np.zeros((len(self.terms),) * 2)
        boxes: dict[tuple[int, int], LeastSquares] = {}
        times: dict[tuple[int, int], tuple[float, float]] = {}
        t = self.field.t[:: self.form.steps[-1]]
        for part, piece, low, high in self._pieces(cuts[-1]):
            samples += max(0, high - max(read, low)) * int(np.prod(self.field.shape[:-1]))
            read = max(read, high)
            factors, noise = self._factored(piece, low, high, cuts[:-1])
            spurious += noise
            for k, lot in factors:
                key = part, k
                boxes[key] = boxes[key] + lot if key in boxes else lot
                times[key] = times.get(key, (float(t[low]),))[0], float(t[high - 1])
            told(samples)
        labels = [
            f"{name}, box {k}, {self.field.time} = {times[part, k][0]:.6g} … {times[part, k][1]:.6g}"
            for part, k in boxes
        ]
        return Gathered(tuple(boxes.values()), tuple(labels), spurious, samples)

    @cached_property
    def table(self) -> Floats:
        """(rows along space …, rows in time, columns): all rows; 0 where they do not count."""
        table = np.empty((*(a.rows for a in self.axes), len(self.terms)))
        for _, piece, low, high in self._pieces():
            rows = self._table(self._cut(piece, low, high), self.unbiased(low, high))
            if self.counted.kept is not None:
                rows = np.where(self.counted.kept[..., piece, None], rows, 0.0)
            table[..., piece, :] = rows
        return table

    @cached_property
    def counted(self) -> Counted:
        """Step 3. Which rows count: not those with a missing value, or at a front steeper than the grid."""
        states, order = self.field.states, self.form.order
        shape = tuple(a.rows for a in self.axes)
        sums, whole = np.zeros((len(states), len(shape) + 1, *shape)), np.ones(shape, dtype=bool)
        for _, piece, low, high in self._pieces():
            values, valid = self.values(low, high)
            axes = self._cut(piece, low, high)
            if valid is not None:
                whole[..., piece] = _untouched(axes, ~valid)
            sums[..., piece] = alternating_sums({state: values[state] for state in states}, axes, order)
        return counted(sums, whole, [self.noise[state] for state in states], self.axes, order)

    def _pieces(self, stretches: int = 1) -> Iterator[tuple[int, Ints, int, int]]:
        """(stretch of time, rows in time that are computed together, their samples low … high − 1)."""
        time = self.axes[-1]
        order = np.argsort(time.starts, kind="stable")
        for number, part in enumerate(np.array_split(order, stretches)):
            for piece in self._portions(part):
                yield number, piece, int(time.starts[piece].min()), int(time.stops[piece].max())

    def _cut(self, piece: Ints, low: int, high: int) -> list[AxisRows]:
        """The rows along every axis, restricted to these rows and samples in time."""
        time = self.axes[-1]
        cut = {a: m[piece, low:high] for a, m in time.matrices.items()}
        rough = None if time.rough is None else time.rough[low:high, low:high]
        return [*self.axes[:-1], AxisRows(cut, time.starts[piece], time.stops[piece], rough)]

    def _portions(self, part: Ints) -> list[Ints]:
        """Rows in time that are computed together: as many as memory allows."""
        time, place = self.axes[-1], int(np.prod(self.field.shape[:-1]))
        longest = int((time.stops[part] - time.starts[part]).max())
        extent = int(time.stops[part].max() - time.starts[part].min())
        count = 1
        while (
            count < len(part) and place * max(longest, extent / count + longest) > _SLAB and extent > longest
        ):
            count += 1
        return [p for p in np.array_split(part, count) if len(p)]

    def _factored(
        self, piece: Ints, low: int, high: int, cuts: tuple[int, ...]
    ) -> tuple[list[tuple[int, LeastSquares]], Floats]:
        """The rows of one portion by number of the box in space, and what noise adds to their Gram matrix.

        On return its arrays are freed, before those of the next.
        """
        axes, unbiased = self._cut(piece, low, high), self.unbiased(low, high)
        keep = None if self.counted.kept is None else self.counted.kept[..., piece]
        table, spurious = self._table(axes, unbiased), self._spurious(axes, keep, unbiased)
        scale, terms = np.sqrt(self.field.weight), len(self.terms) - len(self.field.states)
        boxes = enumerate(_boxes(table, keep, cuts))
        factors = [(k, LeastSquares(triangle(scale * box), terms, len(box))) for k, box in boxes if len(box)]
        return factors, spurious * self.field.weight

    def _table(self, axes: list[AxisRows], unbiased: Unbiased) -> Floats:
        """The rows of some samples."""
        table = np.empty((*(a.rows for a in axes), len(self.terms)))
        for g in dict.fromkeys(g for g, _ in self.terms):
            wanted = {orders for inner, orders in self.terms if inner == g}
            reduced = reduce(unbiased(g), [a.matrices for a in axes], wanted)
            for column, (inner, orders) in enumerate(self.terms):
                if inner == g:
                    table[..., column] = reduced[orders]
        return table

    def values(self, low: int, high: int) -> tuple[dict[str, Floats], NDArray[np.bool_] | None]:
        """All variables at the samples low … high − 1 of the thinned grid, and where all are present."""
        *space, last = self.form.steps
        steps = (*(slice(None, None, k) for k in space), slice(None, None, last))
        values, valid = {}, None
        for name in self.field.variables:
            raw = self.field.slab(name, low * last, (high - 1) * last + 1)[steps]
            missing = np.isnan(raw)
            if missing.any():
                raw = np.where(missing, 0.0, raw)
                valid = ~missing if valid is None else valid & ~missing
            values[name] = raw
        return values, valid

    def unbiased(self, low: int, high: int) -> Unbiased:
        """The functions of the fields at the samples low … high − 1."""
        values, _ = self.values(low, high)
        return Unbiased(values, self.noise, self._slopes(values))

    def _slopes(self, values: Mapping[str, Floats]) -> dict[Factor, tuple[Floats, Floats]]:
        """First derivatives at the samples by local polynomials, and the variance of their noise."""
        factors = {f.base for g, _ in self.terms for f in g if f.kind == "derivative"}
        slopes = {}
        for factor in factors:
            name, axis = factor.of[0].variables[0], factor.by[0]
            k = self.field.axes.index(axis)
            x = self.field.coordinate(axis)[:: self.form.steps[k]]
            step = float(np.mean(np.diff(x)))
            # As wide as half a test function, which averages over faster variation anyway.
            half = int(np.clip(round(0.5 * self.form.widths[k] / step), 3, (len(x) - 1) // 2))
            period = self.field.period(axis)
            weights = _slope_weights(x, half, period)
            size = np.sqrt(np.sum(weights**2, axis=1)) * self.noise.get(name, 0.0)
            shape = [1] * values[name].ndim
            shape[k] = -1
            slopes[factor] = apply(weights, values[name], k), (size**2).reshape(shape)
        return slopes

    def _spurious(self, axes: list[AxisRows], keep: NDArray[np.bool_] | None, unbiased: Unbiased) -> Floats:
        """The sum over rows of the covariance of the columns' noise, without bias."""
        total = np.zeros((len(self.terms),) * 2)
        squares = [products(a.matrices) for a in axes]
        if keep is None:
            # All rows count, so that they are summed before the samples are.
            squares = [{key: m.sum(axis=0, keepdims=True) for key, m in axis.items()} for axis in squares]
        for (a, b), rows in self.covariances(unbiased, squares):
            total[a, b] = total[b, a] = float(rows.sum() if keep is None else rows[keep].sum())
        return total

    def covariances(
        self, unbiased: Unbiased, squares: Sequence[Mapping[tuple[int, int], Floats]]
    ) -> Iterator[tuple[tuple[int, int], Floats]]:
        """Every two columns that share noise, with the covariance of their noise in each row, without bias.

        Noise in different samples is independent, so that the covariance of two columns in a row is the sum
        over samples of the product of their weights and the covariance there.

        squares: for every axis the products of the weights of two orders
        """
        # Locally estimated derivatives share noise between samples, and are not corrected.
        noisy = [g for g in dict.fromkeys(g for g, _ in self.terms) if self.is_noisy(g) and not has_slope(g)]
        for i, g in enumerate(noisy):
            for h in noisy[i:]:
                if self.share_noise(g, h):
                    pairs = {
                        (a, b): tuple((min(p), max(p)) for p in zip(orders, others, strict=True))
                        for a, (inner, orders) in enumerate(self.terms)
                        for b, (other, others) in enumerate(self.terms)
                        if inner == g and other == h and (g != h or a <= b)
                    }
                    reduced = reduce(unbiased.covariance(g, h), squares, set(pairs.values()))
                    yield from ((columns, reduced[orders]) for columns, orders in pairs.items())

    def is_noisy(self, g: Term) -> bool:
        """Whether noise enters a function of the fields."""
        return any(self.noise.get(v, 0.0) > 0 for f in g for v in f.variables)

    def share_noise(self, g: Term, h: Term) -> bool:
        """Whether the same noise enters two functions of the fields."""
        names = {v for f in g for v in f.variables if self.noise.get(v, 0.0) > 0}
        return any(v in names for f in h for v in f.variables)


def _boxes(table: Floats, keep: NDArray[np.bool_] | None, cuts: tuple[int, ...]) -> Iterator[Floats]:
    """The rows box by box of space, in order."""
    edges = [np.linspace(0, n, c + 1).astype(int) for n, c in zip(table.shape, cuts, strict=False)]
    for corner in np.ndindex(*cuts):
        inside = tuple(slice(e[i], e[i + 1]) for e, i in zip(edges, corner, strict=True))
        rows = table[inside].reshape(-1, table.shape[-1])
        yield rows if keep is None else rows[keep[inside].ravel()]


def has_slope(g: Term) -> bool:
    """Whether a function contains a locally estimated derivative."""
    return any(f.kind == "derivative" for f in g)


def _untouched(axes: list[AxisRows], missing: NDArray[np.bool_]) -> NDArray[np.bool_]:
    """Which rows use no missing value."""
    used = missing.astype(np.float64)
    for k in range(len(axes) - 1, -1, -1):
        used = apply(axes[k].touched, used, k)
    return np.asarray(used < 0.5)


def _slope_weights(x: Floats, half: int, period: float | None) -> Floats:
    """(samples, samples): weights of first derivatives by local polynomials, also around a ring."""
    degree = min(_LOCAL_DEGREE, 2 * half)
    if period is None:
        return np.asarray(derivative_weights(x, order=1, degree=degree, half_width=half).toarray())
    around = np.concatenate([x[-half:] - period, x, x[:half] + period])
    wide = derivative_weights(around, order=1, degree=degree, half_width=half).toarray()[half:-half]
    folded = np.zeros((len(x), len(x)))
    np.add.at(folded.T, np.arange(-half, len(x) + half) % len(x), wide.T)
    return folded


@dataclass(frozen=True, eq=False)
class WeakRows:
    """All rows of a run in the weak form.

    fields: with the same variables and axes
    basis: on these axes; form: with all settings chosen
    noise: of every field, standard deviation by state
    filled: share of the samples that were filled, whose noise is that of their neighbours
    modes: by columns, the last result of `modes_of`
    """

    fields: tuple[Field, ...]
    basis: Basis
    form: Weak
    noise: tuple[Noise, ...]
    filled: float = 0.0
    modes: dict[tuple[int, ...], Any] = dataclass_field(default_factory=dict)

    @classmethod
    def of(
        cls,
        fields: Sequence[Field],
        basis: Basis,
        form: Formulation,
        noise: Sequence[Noise | None] = (),
        filled: float = 0.0,
    ) -> WeakRows:
        """Step 1. The rows of fields for a basis, with settings that follow from the fields.

        noise: of fields, where it is not to be measured
        """
        if not form.for_fields:
            raise DataError(
                f"{type(form).__name__} is for trajectories; fields on a grid of space and time take Weak()."
            )
        weak: Any = form
        basis = basis.on_axes(fields[0].axes)
        fitted, levels = fit_weak(weak, fields, basis, noise)
        return cls(tuple(fields), basis, fitted, tuple(levels), filled)

    @cached_property
    def rows(self) -> tuple[FieldRows, ...]:
        """The rows of every field; their number is in proportion to its values."""
        sizes = np.array([np.prod(f.shape) for f in self.fields], dtype=float)
        return tuple(
            FieldRows(field, self.basis, self.form, noise, float(share))
            for field, noise, share in zip(self.fields, self.noise, sizes / sizes.sum(), strict=True)
        )

    def gathered(self, blocks: int, progress: Callable[[int, int | None], None] | None = None) -> Gathered:
        """Step 4. The rows in about this number of blocks, in one pass over the values."""
        size, parts = int(sum(np.prod(f.shape) for f in self.fields)), list[Gathered]()

        def told(done: int) -> None:
            if progress is not None:
                progress(sum(part.samples for part in parts) + done, size)

        for i, rows in enumerate(self.rows):
            name = rows.field.name or (f"field {i}" if len(self.fields) > 1 else "field")
            parts.append(rows.gathered(max(1, round(blocks * rows.share)), name, told))
        if not any(part.blocks for part in parts):
            raise DataError(
                "accumulate: there are no rows, because every test function touches a missing value. Give "
                "smaller half_widths to Weak, or fill small holes."
            )
        return Gathered(
            tuple(block for part in parts for block in part.blocks),
            tuple(label for part in parts for label in part.labels),
            np.sum([part.spurious for part in parts], axis=0),
            sum(part.samples for part in parts),
        )
