"""The settings of the weak form that follow from the fields: thinning, noise, and widths of test functions.

1. Samples are left out until neighbours share no noise.
2. The noise of every field is measured.
3. A test function (1 − s²)^p of half-width m has nearly a Gaussian spectrum of standard deviation √(2p + 3)
   / m. The width puts the corner of the data's spectrum two standard deviations out.
4. Widths are narrowed, all axes alike, until there are three independent rows a term.
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

__all__ = ["Noise", "fit_weak"]

Noise = dict[str, float]
"""Standard deviation of the noise by field."""


@dataclass(frozen=True)
class _Widths:
    """How wide and how smooth test functions are, and how many rows terms need."""

    tail: float = 2.0
    """Standard deviations of the spectrum of the test function at which the corner of the data's lies; 1.5 to
    3 behave alike in `python -m benchmarks pde`."""
    edge: float = 1e-3
    """The test function at the last sample inside it, in units of the noise relative to the data."""
    independent: float = 3.0
    """Independent rows a term that the widths must leave; fewer, and terms are told apart by chance."""
    highest_power: int = 16
    """Of the test function: beyond, it is so narrow within its window that most samples hardly count."""
    fewest: int = 4
    """Samples on each side of a test function, at least."""
    look: int = 4_000_000
    """Values of a field that are looked at to choose the settings; a larger one is looked at in parts."""


_WIDTHS = _Widths()


def fit_weak(
    form: Weak, fields: Sequence[Field], basis: Basis, known: Sequence[Noise | None] = ()
) -> tuple[Weak, list[Noise]]:
    """The form with every setting that is None chosen from the fields, and the noise of each of them.

    known: the noise of fields, where it is not to be measured
    """
    for field in fields:
        _check_size(field)
    looks = [_looked_at(field) for field in fields[:4]]
    thin = form.thin or _thinning(looks)
    axes = (*fields[0].axes, fields[0].time)
    if len(thin) != len(axes):
        raise DataError(f"Weak: `thin` must have one number for each of {', '.join(axes)}, but is {thin!r}.")
    form = replace(form, thin=tuple(int(k) for k in thin))
    noise = [
        form.given_noise(field) or (before if before is not None else _measured(field, form.steps))
        for field, before in zip_longest(fields, known)
    ]
    if form.half_widths is None or form.powers is None:
        first = fields[0]
        # Widths follow what the data show, even where a user gave the noise: the edge of a test function must
        # hide what is there.
        measured = noise[0] if form.noise is None else _measured(first, form.steps)
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
    """The highest derivative by an axis in the terms of a basis."""
    return max(
        (f.by.count(axis) for term in basis.terms(variables) for f in term if f.kind == "derivative"),
        default=0,
    )


def _looked_at(field: Field) -> list[Field]:
    """The field, or of a large one a few slabs of time."""
    size = int(np.prod(field.shape))
    if size <= _WIDTHS.look:
        return [field.part(0, len(field))]
    each = max(4 * _WIDTHS.fewest, min(len(field), int(_WIDTHS.look / 4 / (size / len(field)))))
    # Spread over time: a field that decays is noise at its end, and the beginning alone would hide that.
    starts = np.unique(np.linspace(0, len(field) - each, 4).astype(int))
    return [field.part(int(s), int(s) + each) for s in starts]


def _thinning(looks: list[list[Field]]) -> tuple[int, ...]:
    """Along every axis the most that any field of the first few needs."""
    found = []
    for slabs in looks:
        for state in slabs[0].states:
            xs = [slabs[0].coordinate(a) for a in slabs[0].axes]
            found.append(shared_by_neighbours(slabs[0][state], [*xs, slabs[0].t]))
    # The median over fields and states, since one state with smooth motion and little noise seems to share
    # it.
    return tuple(int(k) for k in np.median(np.array(found), axis=0))


def _measured(field: Field, thin: tuple[int, ...]) -> Noise:
    """The noise of every field of one grid."""
    slabs = _looked_at(field)
    steps = tuple(slice(None, None, k) for k in thin)
    found = {}
    for state in field.states:
        levels = []
        for slab in slabs:
            xs = [
                slab.coordinate(axis)[cut] for axis, cut in zip((*slab.axes, slab.time), steps, strict=True)
            ]
            levels.append(grid_noise(slab[state][steps], xs) ** 2)
        # The median over slabs: a front that passes through one of them counts as noise there.
        found[state] = float(np.sqrt(np.median(levels)))
    return found


def _chosen_widths(
    fields: Sequence[Field],
    slabs: list[Field],
    thin: tuple[int, ...],
    noise: Noise,
    derivatives: list[int],
    terms: int,
) -> tuple[tuple[float, ...], tuple[int, ...]]:
    """Half-widths along every axis, and powers."""
    field = fields[0]
    relative = min(noise[s] / max(float(np.sqrt(np.nanmean(slabs[0][s] ** 2))), 1e-300) for s in field.states)
    # Below a millionth of the field rounding sets the limit, and above its own size noise hides any edge.
    edge = _WIDTHS.edge * min(max(relative, 1e-6), 1.0)
    half_widths, lengths, steps = [], [], []
    for k, axis in enumerate((*field.axes, field.time)):
        x = field.coordinate(axis)[:: thin[k]]
        period = field.period(axis) if axis != field.time else None
        length = period or float(x[-1] - x[0])
        step = length / (len(x) if period else len(x) - 1)
        fastest = max(
            _corner(slab, state, k, thin[k], period is not None) for slab in slabs for state in field.states
        )
        m = _width(fastest, edge, derivatives[k], most=len(x) // 2 if period else (len(x) - 1) / 2.5)
        half_widths.append(m * step)
        lengths.append(length)
        steps.append(step)
    return _narrowed(half_widths, lengths, steps, derivatives, edge, terms, len(fields))


def _corner(slab: Field, state: str, axis: int, thin: int, periodic: bool) -> float:
    values = slab[state]
    cut = [slice(None)] * values.ndim
    cut[axis] = slice(None, None, thin)
    return corner(values[tuple(cut)], axis, periodic=periodic)


def _width(fastest: float, edge: float, order: int, *, most: float) -> float:
    """Half-width in samples, with the power that belongs to it."""
    m, p = 2.0 * _WIDTHS.fewest, order + 2
    # Width and power depend on each other: a higher power is narrower in space and wider in frequency, and
    # its last sample counts for less. The two settle within a few rounds.
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
    """The least power at which the last sample inside counts for no more than `edge`.

    Derivatives of φ end more steeply than φ; half their order makes up for it (the whole blurs, none leaves
    false terms in Kuramoto-Sivashinsky at 1 % noise).
    """
    needed = np.log(edge) / np.log((2 * m - 1) / m**2) + 0.5 * order
    return int(np.clip(np.ceil(needed), order + 2, _WIDTHS.highest_power))


def _narrowed(
    half_widths: list[float],
    lengths: list[float],
    steps: list[float],
    derivatives: list[int],
    edge: float,
    terms: int,
    fields: int,
) -> tuple[tuple[float, ...], tuple[int, ...]]:
    """Narrower, all axes alike, until there are enough independent rows for the terms."""
    widths, least = np.array(half_widths), _WIDTHS.fewest * np.array(steps)
    for _ in range(60):
        # Boxes side by side that share no sample; a box that is as long as the axis is one.
        independent = fields * float(np.prod(np.maximum(np.array(lengths) / widths - 1.0, 1.0)))
        if independent >= _WIDTHS.independent * terms or np.all(widths <= least):
            break
        widths = np.maximum(0.95 * widths, least)
    made = [_power(w / s, edge, order) for w, s, order in zip(widths, steps, derivatives, strict=True)]
    return tuple(float(w) for w in widths), tuple(made)
