"""The settings of the weak form that follow from the fields: thinning, noise, and widths of test functions.

1. Samples are left out until neighbours share no noise.
2. The noise of every field is measured.
3. A test function (1 − s²)^p of half-width m has nearly a Gaussian spectrum of standard deviation √(2p + 3) /
   m. The width places the corner of the data's spectrum at two standard deviations.
4. Widths are reduced along all axes alike, until there are three independent rows for each term.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from itertools import zip_longest

import numpy as np

from cindy.basis import Basis
from cindy.data import Field, corner, grid_noise, shared_by_neighbours
from cindy.errors import DataError
from cindy.formulation import Weak

Noise = dict[str, float]
"""Standard deviation of the noise by field."""


@dataclass(frozen=True)
class _Widths:
    """The width and smoothness of test functions, and the number of rows that terms need."""

    tail: float = 2.0
    """Standard deviations of the test function's spectrum at which the corner of the data's spectrum lies.
    With 1.5 to 3 results are alike (benchmark: pde)."""
    edge: float = 1e-3
    """Value of the test function at its last sample, in units of the noise relative to the data."""
    independent: float = 3.0
    """Independent rows for each term. With fewer, chance decides between terms."""
    highest_power: int = 16
    """Highest power of a test function. With more, most samples of its window have hardly any weight."""
    fewest: int = 4
    """Fewest samples on each side of the centre of a test function."""
    look: int = 4_000_000
    """Number of values from which the settings are chosen. Of a larger field a few parts are used."""


_WIDTHS = _Widths()


def fit_weak(
    form: Weak, fields: Sequence[Field], basis: Basis, known: Sequence[Noise | None] = ()
) -> tuple[Weak, list[Noise]]:
    """The form with every setting that is None chosen from the fields, and the noise of each field.

    known: the noise of fields that is not to be measured; None: measure it
    """
    for field in fields:
        _check_size(field)
    looks = [_looked_at(field) for field in fields[:4]]
    # Step 1, before the others, which take the noise of samples as independent.
    thin = form.thin or _thinning(looks)
    axes = (*fields[0].axes, fields[0].time)
    if len(thin) != len(axes):
        raise DataError(f"Weak: `thin` must have one number for each of {', '.join(axes)}, but is {thin!r}.")
    form = replace(form, thin=tuple(int(k) for k in thin))
    noise = [
        form.given_noise(field) or (given if given is not None else _measured(field, form.steps))
        for field, given in zip_longest(fields, known)
    ]
    if form.half_widths is None or form.powers is None:
        first = fields[0]
        # Widths follow the measured noise even if a user gave another: the edge of a test function must be
        # smaller than the noise that is there.
        measured = noise[0] if form.noise is None else _measured(first, form.steps)
        # Steps 3 and 4.
        orders = [_highest_order(basis, first.variables, axis) for axis in first.axes] + [form.order]
        terms = len(basis.names(first.variables))
        half_widths, powers = _chosen_widths(fields, looks[0], form.steps, measured, orders, terms)
        form = replace(form, half_widths=form.half_widths or half_widths, powers=form.powers or powers)
    return form, noise


def _check_size(field: Field) -> None:
    for axis in (*field.axes, field.time):
        if len(field.coordinate(axis)) < 2 * _WIDTHS.fewest + 1:
            raise DataError(
                f"Weak: {field!r} has only {len(field.coordinate(axis))} samples along {axis}; at least "
                f"{2 * _WIDTHS.fewest + 1} are needed for a test function."
            )


def _highest_order(basis: Basis, variables: tuple[str, ...], axis: str) -> int:
    """The highest derivative along an axis in the terms of a basis."""
    return max(
        (f.by.count(axis) for term in basis.terms(variables) for f in term if f.kind == "derivative"),
        default=0,
    )


def _looked_at(field: Field) -> list[Field]:
    """The field, or a few slabs of time of a large one."""
    size = int(np.prod(field.shape))
    if size <= _WIDTHS.look:
        return [field.part(0, len(field))]
    length = max(4 * _WIDTHS.fewest, min(len(field), int(_WIDTHS.look / 4 / (size / len(field)))))
    # Spread over time: a field that decays may be only noise at its end.
    starts = np.unique(np.linspace(0, len(field) - length, 4).astype(int))
    return [field.part(int(s), int(s) + length) for s in starts]


def _thinning(looks: list[list[Field]]) -> tuple[int, ...]:
    """Step 1. Along every axis the median of what the first few fields need."""
    needed = []
    for slabs in looks:
        for state in slabs[0].states:
            xs = [slabs[0].coordinate(a) for a in slabs[0].axes]
            needed.append(shared_by_neighbours(slabs[0][state], [*xs, slabs[0].t]))
    # A median, since in one state with smooth motion and little noise neighbours seem to share the noise.
    return tuple(int(k) for k in np.median(np.array(needed), axis=0))


def _measured(field: Field, thin: tuple[int, ...]) -> Noise:
    """Step 2. The noise of every state of a field."""
    slabs = _looked_at(field)
    steps = tuple(slice(None, None, k) for k in thin)
    noise = {}
    for state in field.states:
        levels = []
        for slab in slabs:
            xs = [
                slab.coordinate(axis)[cut] for axis, cut in zip((*slab.axes, slab.time), steps, strict=True)
            ]
            levels.append(grid_noise(slab[state][steps], xs) ** 2)
        # The median over slabs, since a front in one of them would count as noise.
        noise[state] = float(np.sqrt(np.median(levels)))
    return noise


def _chosen_widths(
    fields: Sequence[Field],
    slabs: list[Field],
    thin: tuple[int, ...],
    noise: Noise,
    derivatives: list[int],
    terms: int,
) -> tuple[tuple[float, ...], tuple[int, ...]]:
    """Steps 3 and 4. Half-widths along every axis, and powers."""
    field = fields[0]
    relative = min(noise[s] / max(float(np.sqrt(np.nanmean(slabs[0][s] ** 2))), 1e-300) for s in field.states)
    # The limits are rounding, at a millionth of the field, and the size of the field itself.
    edge = _WIDTHS.edge * min(max(relative, 1e-6), 1.0)
    samples, lengths, steps = [], [], []
    for k, axis in enumerate((*field.axes, field.time)):
        x = field.coordinate(axis)[:: thin[k]]
        period = field.period(axis) if axis != field.time else None
        cut = (slice(None),) * k + (slice(None, None, thin[k]),)
        corners = [
            corner(slab[s][cut], k, periodic=period is not None) for slab in slabs for s in field.states
        ]
        most = len(x) // 2 if period else (len(x) - 1) / 2.5
        samples.append(_width(max(corners), edge, derivatives[k], most=most))
        lengths.append(period or float(x[-1] - x[0]))
        steps.append(lengths[-1] / (len(x) if period else len(x) - 1))
    widths, least = np.multiply(samples, steps), _WIDTHS.fewest * np.array(steps)
    # Step 4: smaller along all axes alike, until there are enough independent rows for the terms.
    for _ in range(60):
        # The number of boxes side by side that share no sample; at least one along each axis.
        independent = len(fields) * float(np.prod(np.maximum(np.array(lengths) / widths - 1.0, 1.0)))
        if independent >= _WIDTHS.independent * terms or np.all(widths <= least):
            break
        widths = np.maximum(0.95 * widths, least)
    powers = [_power(w / s, edge, order) for w, s, order in zip(widths, steps, derivatives, strict=True)]
    return tuple(float(w) for w in widths), tuple(powers)


def _width(fastest: float, edge: float, order: int, *, most: float) -> float:
    """Half-width in samples, with the power that belongs to it."""
    m, p = 2.0 * _WIDTHS.fewest, order + 2
    # Width and power depend on each other: a higher power is narrower in space and wider in frequency, and
    # has smaller edges. The iteration converges within a few rounds.
    for _ in range(20):
        m = float(
            np.clip(
                _WIDTHS.tail * np.sqrt(2 * p + 3) / max(fastest, 1e-3),
                _WIDTHS.fewest,
                max(most, _WIDTHS.fewest),
            )
        )
        p = _power(m, edge, order)
    return m


def _power(m: float, edge: float, order: int) -> int:
    """The least power at which the last sample inside has no more weight than `edge`.

    Derivatives of φ have steeper edges than φ; half their order makes up for it (the whole order blurs, none
    leaves false terms in Kuramoto-Sivashinsky at 1 % noise).
    """
    needed = np.log(edge) / np.log((2 * m - 1) / m**2) + 0.5 * order
    return int(np.clip(np.ceil(needed), order + 2, _WIDTHS.highest_power))
