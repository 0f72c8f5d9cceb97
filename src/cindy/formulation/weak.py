"""The weak form: fields times test functions, so that no derivative of data is ever taken."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any, ClassVar, Literal, Self
from weakref import WeakKeyDictionary

import numpy as np
from numpy.typing import NDArray

from cindy._types import Floats
from cindy.basis import Basis
from cindy.data import Field, corner, grid_noise, shared_by_neighbours
from cindy.errors import DataError
from cindy.formulation.base import Formulation

__all__ = ["Weak", "looked_at"]

Ints = NDArray[np.int64]

_TAIL = 2.0
"""Standard deviations of the spectrum of the test function at which the corner of the data's lies; 1.5 to 3
behave alike in `python -m benchmarks pde`."""
_EDGE = 1e-3
"""The test function at the last sample inside it, in units of the noise relative to the data."""
_INDEPENDENT = 3.0
"""Independent rows a term that the widths must leave; fewer, and terms are told apart by chance."""
_HIGHEST_POWER = 16
"""Of the test function: beyond, it is so narrow within its window that most samples hardly count."""
_FEWEST = 4
"""Samples on each side of a test function, at least."""
_LOOK = 4_000_000
"""Values of a field that are looked at to choose the settings; a larger one is looked at in parts."""


@dataclass(frozen=True)
class Weak(Formulation):
    """∫ φ ∂_t^r u = Σ ξ_k ∫ φ D^{a_k} g_k(u) with smooth test functions φ of compact support in space and
    time.

    Derivatives are moved onto φ, so a term costs no derivative of the data; powers are taken without the
    bias of the noise, and what noise adds to the Gram matrix is known and taken off (Hermite polynomials,
    `Summary.spurious`).

    order: of the derivative by time
    time: "weak": test functions in time too; "integral": integrals from a free initial state, which see the
        ends of the time interval, and so transients at the beginning
    half_widths: of φ along the axes of space and along time, in the units of the axes; None: chosen from the
        data
    powers: p of φ = (1 − s²)^p, likewise
    noise: standard deviation of the fields, one or one a field; None: measured
    thin: along space and time, of how many samples one is used; None: as many as share no noise
    """

    kind: ClassVar[str] = "weak"
    for_fields: ClassVar[bool] = True
    smooth: ClassVar[None] = None  # type: ignore[misc]
    order: int = 1
    time: Literal["weak", "integral"] = "weak"
    half_widths: tuple[float, ...] | None = None
    powers: tuple[int, ...] | None = None
    noise: tuple[float, ...] | float | None = None
    thin: tuple[int, ...] | None = None

    def __post_init__(self) -> None:
        if self.order not in (1, 2):
            raise DataError(f"Weak: `order` must be 1 (u_t = F) or 2 (u_tt = F), but is {self.order!r}.")
        if self.time not in ("weak", "integral"):
            raise DataError(f'Weak: `time` must be "weak" or "integral", but is {self.time!r}.')
        for name in ("half_widths", "powers", "noise", "thin"):
            value = getattr(self, name)
            if isinstance(value, (list, np.ndarray)):
                object.__setattr__(self, name, tuple(np.asarray(value).tolist()))
        noise = self.noise
        if noise is not None and not np.all(np.asarray(noise, dtype=float) >= 0):
            raise DataError(f"Weak: `noise` must be at least 0, but is {self.noise!r}.")

    @property
    def signature(self) -> dict[str, Any]:
        return {"kind": self.kind, "order": self.order, "time": self.time}

    def noise_of(self, field: Field) -> dict[str, float]:
        """The standard deviation of the noise of every field."""
        if self.noise is None:
            return field_noise(field, self.thin)
        given = np.broadcast_to(np.asarray(self.noise, dtype=float), (len(field.states),))
        return dict(zip(field.states, map(float, given), strict=True))

    @property
    def widths(self) -> tuple[float, ...]:
        """The half-widths, chosen."""
        return self.half_widths or ()

    @property
    def exponents(self) -> tuple[int, ...]:
        """The powers, chosen."""
        return self.powers or ()

    @property
    def steps(self) -> tuple[int, ...]:
        """Of how many samples one is used, chosen."""
        return self.thin or ()

    @property
    def thinned(self) -> str:
        kept = self.thin or ()
        return "" if all(k == 1 for k in kept) else " × ".join(f"{k}." for k in kept)

    def fit_to_fields(self, fields: Sequence[Field], basis: Basis) -> Self:
        """The same with every setting that is None chosen from the fields."""
        for field in fields:
            _check_size(field)
        looks = [looked_at(field) for field in fields[:4]]
        thin = self.thin or _thinning(looks)
        axes = (*fields[0].axes, fields[0].time)
        if len(thin) != len(axes):
            raise DataError(
                f"Weak: `thin` must have one number for each of {', '.join(axes)}, but is {thin!r}."
            )
        form = replace(self, thin=tuple(int(k) for k in thin))
        if form.half_widths is not None and form.powers is not None:
            return form
        derivatives = [highest_order(basis, fields[0].variables, axis) for axis in fields[0].axes] + [
            self.order
        ]
        terms = len(basis.names(fields[0].variables))
        half_widths, powers = chosen_widths(fields, looks, form, derivatives, terms)
        return replace(form, half_widths=self.half_widths or half_widths, powers=self.powers or powers)

    # What follows is asked of forms for trajectories.

    @property
    def min_samples(self) -> int:
        return 2 * _FEWEST + 1

    @property
    def margin(self) -> int:
        return 0

    def edges(self, samples: int) -> Ints:
        raise _for_fields()

    def fit_to(self, trajectories: Sequence[Any]) -> Self:
        raise _for_fields()

    def _matrix(self, segment: Any, basis: Basis, edges: Ints) -> Floats:
        raise _for_fields()


def _for_fields() -> DataError:
    return DataError(
        "Weak() is for fields on a grid of space and time, cindy.Field. Trajectories take Integral(), "
        "which is weak in "
        "time as well."
    )


def _check_size(field: Field) -> None:
    for axis in (*field.axes, field.time):
        if len(field.coordinate(axis)) < 2 * _FEWEST + 1:
            raise DataError(
                f"Weak: {field!r} has only {len(field.coordinate(axis))} samples along {axis}; at least "
                f"{2 * _FEWEST + 1} are needed for a test function."
            )


def highest_order(basis: Basis, variables: tuple[str, ...], axis: str) -> int:
    """The highest derivative by an axis in the terms of a basis."""
    return max(
        (f.by.count(axis) for term in basis.terms(variables) for f in term if f.kind == "derivative"),
        default=0,
    )


def looked_at(field: Field) -> list[Field]:
    """The field, or of a large one a few slabs of time."""
    size = int(np.prod(field.shape))
    if size <= _LOOK:
        return [field.part(0, len(field))]
    each = max(4 * _FEWEST, min(len(field), int(_LOOK / 4 / (size / len(field)))))
    starts = np.unique(np.linspace(0, len(field) - each, 4).astype(int))
    return [field.part(int(s), int(s) + each) for s in starts]


def _thinning(looks: list[list[Field]]) -> tuple[int, ...]:
    """Along every axis the most that any field of the first few needs."""
    found = []
    for slabs in looks:
        for state in slabs[0].states:
            xs = [slabs[0].coordinate(a) for a in slabs[0].axes]
            found.append(shared_by_neighbours(slabs[0][state], [*xs, slabs[0].t]))
    return tuple(int(k) for k in np.median(np.array(found), axis=0))


_MEASURED: WeakKeyDictionary[Field, dict[tuple[int, ...], dict[str, float]]] = WeakKeyDictionary()
"""The noise of fields that were looked at, which is asked for several times on the way to a model."""


def field_noise(field: Field, thin: tuple[int, ...] | None = None) -> dict[str, float]:
    """The noise of every field of one grid."""
    known = _MEASURED.setdefault(field, {})
    steps = thin or (1,) * len(field.shape)
    if steps not in known:
        known[steps] = _measured(field, steps)
    return dict(known[steps])


def _measured(field: Field, thin: tuple[int, ...]) -> dict[str, float]:
    slabs = looked_at(field)
    steps = tuple(slice(None, None, k) for k in thin)
    found = {}
    for state in field.states:
        levels = []
        for slab in slabs:
            xs = [
                slab.coordinate(axis)[cut] for axis, cut in zip((*slab.axes, slab.time), steps, strict=True)
            ]
            levels.append(grid_noise(slab[state][steps], xs) ** 2)
        found[state] = float(np.sqrt(np.median(levels)))
    return found


def chosen_widths(
    fields: Sequence[Field], looks: list[list[Field]], form: Weak, derivatives: list[int], terms: int
) -> tuple[tuple[float, ...], tuple[int, ...]]:
    """Half-widths along every axis, and powers.

    The spectrum of (1 − s²)^p is nearly a Gaussian of standard deviation √(2p + 3) / half-width.
    """
    field, slabs = fields[0], looks[0]
    thin = form.thin or (1,) * len(field.shape)
    noise = field_noise(field, thin)
    relative = min(noise[s] / max(float(np.sqrt(np.nanmean(slabs[0][s] ** 2))), 1e-300) for s in field.states)
    edge = _EDGE * min(max(relative, 1e-6), 1.0)
    half_widths, powers, lengths, steps = [], [], [], []
    for k, axis in enumerate((*field.axes, field.time)):
        x = field.coordinate(axis)[:: thin[k]]
        period = field.period(axis) if axis != field.time else None
        length = period or float(x[-1] - x[0])
        step = length / (len(x) if period else len(x) - 1)
        fastest = max(
            _corner(slab, state, k, thin[k], period is not None) for slab in slabs for state in field.states
        )
        m, p = _width(fastest, edge, derivatives[k], most=len(x) // 2 if period else (len(x) - 1) / 2.5)
        half_widths.append(m * step)
        powers.append(p)
        lengths.append(length)
        steps.append(step)
    return _narrowed(half_widths, powers, lengths, steps, derivatives, edge, terms, len(fields))


def _corner(slab: Field, state: str, axis: int, thin: int, periodic: bool) -> float:
    values = slab[state]
    cut = [slice(None)] * values.ndim
    cut[axis] = slice(None, None, thin)
    return corner(values[tuple(cut)], axis, periodic=periodic)


def _width(fastest: float, edge: float, order: int, *, most: float) -> tuple[float, int]:
    """Half-width in samples, and power, that belong together."""
    m, p = 2.0 * _FEWEST, order + 2
    for _ in range(20):
        m = float(np.clip(_TAIL * np.sqrt(2 * p + 3) / max(fastest, 1e-3), _FEWEST, max(most, _FEWEST)))
        p = _power(m, edge, order)
    return m, p


def _power(m: float, edge: float, order: int) -> int:
    """The least power at which the last sample inside counts for no more than `edge`.

    Derivatives of φ end more steeply than φ; half their order makes up for it (the whole blurs, none leaves
    false terms in Kuramoto-Sivashinsky at 1 % noise).
    """
    needed = np.log(edge) / np.log((2 * m - 1) / m**2) + 0.5 * order
    return int(np.clip(np.ceil(needed), order + 2, _HIGHEST_POWER))


def _narrowed(
    half_widths: list[float],
    powers: list[int],
    lengths: list[float],
    steps: list[float],
    derivatives: list[int],
    edge: float,
    terms: int,
    fields: int,
) -> tuple[tuple[float, ...], tuple[int, ...]]:
    """Narrower, all axes alike, until there are enough independent rows for the terms."""
    widths, least = np.array(half_widths), _FEWEST * np.array(steps)
    for _ in range(60):
        independent = fields * float(np.prod(np.maximum(np.array(lengths) / widths - 1.0, 1.0)))
        if independent >= _INDEPENDENT * terms or np.all(widths <= least):
            break
        widths = np.maximum(0.95 * widths, least)
    made = [_power(w / s, edge, order) for w, s, order in zip(widths, steps, derivatives, strict=True)]
    return tuple(float(w) for w in widths), tuple(made)
