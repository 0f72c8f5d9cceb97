"""Scan: terms with unknown parameters, at a few values each, as atoms to choose from.

While a term is only a candidate its parameter is not fitted: the term stands in the dictionary once for each
of a few values, as many as the data can tell apart. Adding the best atom and then moving it to where it fits
best is the sliding Frank-Wolfe algorithm (Denoyelle, Duval, Peyré, Soubies 2019).
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import pairwise
from itertools import product as cartesian

import numpy as np
from numpy.typing import NDArray
from scipy.sparse import csr_array

from cindy._arrays import Floats, Ints
from cindy.basis import Expression, Listed, Parameter, Plan, Term, term_name, term_parameters
from cindy.errors import DataError
from cindy.least_squares import Rows
from cindy.selection import EFFORT
from cindy.states import Motion

__all__ = ["Atoms", "Group", "fewest_values", "groups_of"]

Values = dict[str, float]


def fewest_values(together: int) -> int:
    """Values of a parameter that are scanned at the least, where so many are scanned together."""
    return {1: 9, 2: 5, 3: 4}.get(together, 3)


@dataclass(frozen=True, eq=False)
class Group:
    """Parameters that share terms, those terms, and the values to scan.

    terms: places of the terms in the basis; values: what is scanned; at: (values, parameters) grid indices
    """

    unknown: tuple[Parameter, ...]
    terms: Ints
    values: tuple[Values, ...]
    at: Ints

    def neighbours(self, place: int) -> Ints:
        """The values next to one on the grid."""
        near = np.max(np.abs(self.at - self.at[place]), axis=1) == 1
        return np.flatnonzero(near)


@dataclass(frozen=True, eq=False)
class Atoms:
    """The terms of a basis, each with parameters at one value or several.

    terms: all atoms; base: place in the basis of each; group: number of its group, −1 for a plain term
    value: which of the values given for its group
    """

    terms: tuple[Term, ...]
    base: Ints
    group: Ints
    value: Ints

    @classmethod
    def of(cls, motion: Motion, groups: Sequence[Group], values: Sequence[Sequence[Values]]) -> Atoms:
        """values: for each group those to stand in the dictionary; none for one that is left out."""
        owner = {int(i): g for g, group in enumerate(groups) for i in group.terms}
        made: list[tuple[Term, int, int, int]] = []
        # Plain terms come first and keep their order, then every group at each of its values.
        for i, term in enumerate(motion.basis.terms(motion.variables)):
            if i not in owner:
                made.append((term, i, -1, -1))
        for g, group in enumerate(groups):
            for v, one in enumerate(values[g]):
                every = motion.basis.at(one).terms(motion.variables)
                made += [(_named(every[i], f"{g}.{v}"), int(i), g, v) for i in group.terms]
        terms, base, number, value = zip(*made, strict=True)
        return cls(terms, *(np.array(column, dtype=np.intp) for column in (base, number, value)))

    def motion(self, motion: Motion) -> Motion:
        """The same equations with these atoms to choose from."""
        d = motion.states
        flat = (self.base[:, None] * d + np.arange(d)).ravel()
        place = np.empty(len(motion.basis.terms(motion.variables)), dtype=np.intp)
        place[self.base] = np.arange(len(self.base))
        given = place[motion.given // d] * d + motion.given % d
        allowed = np.flatnonzero(np.isin(flat, motion.candidates))
        return replace(motion, basis=Listed(self.terms), candidates=allowed, given=given)

    def pair(self, flat: Ints, states: int) -> Ints:
        """The coefficients of the basis that atoms' coefficients stand for."""
        return self.base[flat // states] * states + flat % states

    def rows(self, rows: Rows, states: int, *, without: Ints | None = None) -> Rows:
        """Constraints over atoms: what a coefficient obeys, the sum over its atoms does.

        without: flat indices of atoms; constraints that name one of these are left out
        """
        if not len(rows):
            return Rows.none(len(self.base) * states)
        matrix = csr_array(rows.matrix[:, self.pair(np.arange(len(self.base) * states), states)])
        kept = np.arange(len(rows))
        if without is not None and len(without):
            kept = np.flatnonzero(np.asarray(abs(matrix[:, without]).sum(axis=1)).ravel() == 0)
        return Rows(csr_array(matrix[kept]), rows.lower[kept], rows.upper[kept], rows.owner[kept])


def _named(term: Term, mark: str) -> Term:
    return tuple(replace(f, name=f"{f.name} at {mark}") if f.values else f for f in term)


def groups_of(motion: Motion) -> tuple[Group, ...]:
    """The parameters of a motion's basis, those that share terms together, with what to scan."""
    terms = motion.basis.terms(motion.variables)
    left = {one.name: one for one in motion.basis.unknowns()}
    inside = [term_parameters(term) & left.keys() for term in terms]
    groups = []
    while left:
        names = {next(iter(left))}
        # Parameters that share a term cannot be scanned apart; the group grows until no term links it to
        # another.
        while more := {n for held in inside if held & names for n in held} - names:
            names |= more
        unknown = tuple(left.pop(name) for name in list(left) if name in names)
        places = np.array([i for i, held in enumerate(inside) if held & names], dtype=np.intp)
        if len(places):
            groups.append(_scanned(motion, unknown, places))
    return tuple(groups)


def _scanned(motion: Motion, unknown: tuple[Parameter, ...], places: Ints) -> Group:
    points = _sample(motion)
    axes = [_axis(motion, unknown, k, places, points) for k in range(len(unknown))]
    # Together the axes span a lattice, which grows with the number of parameters: the longest is thinned
    # first.
    while np.prod([len(axis) for axis in axes], dtype=float) > EFFORT.scan_most:
        longest = max(range(len(axes)), key=lambda k: len(axes[k]))
        if len(axes[longest]) <= 2:
            break
        axes[longest] = unknown[longest].grid(max(int(0.8 * len(axes[longest])), 2))
    values, at = [], []
    for index in _indices([len(axis) for axis in axes]):
        one = {p.name: float(axes[k][index[k]]) for k, p in enumerate(unknown)}
        if _trouble(motion, places, one, points) is None:
            values.append(one)
            at.append(index)
    if not values:
        _refuse(motion, unknown, places, points)
    return Group(unknown, places, tuple(values), np.array(at, dtype=np.intp))


def _indices(sizes: Sequence[int]) -> Iterator[tuple[int, ...]]:
    if np.prod(sizes, dtype=float) <= 4 * EFFORT.scan_most:
        yield from cartesian(*(range(size) for size in sizes))
        return
    # A lattice of many parameters is too large to go through; a draw from it is spread as evenly as is
    # needed.
    rng = np.random.default_rng(0)
    for row in rng.integers(0, sizes, size=(EFFORT.scan_most, len(sizes))):
        yield tuple(int(i) for i in row)


def _axis(motion: Motion, unknown: tuple[Parameter, ...], which: int, places: Ints, points: Floats) -> Floats:
    """Values of one parameter, the others in mid-range, close enough that neighbours are alike."""
    one = unknown[which]
    middle = {p.name: p.middle for p in unknown}
    line = list(np.linspace(*one.places, fewest_values(len(unknown))))
    known: dict[float, list[Floats]] = {}

    def shape(place: float) -> list[Floats]:
        if place not in known:
            known[place] = _shapes(motion, places, {**middle, one.name: one.value(place)}, points)
        return known[place]

    while len(line) < EFFORT.scan_most:
        # Neighbouring values are close enough where the columns they make are almost parallel, whatever the
        # scale of the parameter is.
        alike = [
            min((abs(float(a @ b)) for a, b in zip(shape(u), shape(v), strict=False)), default=1.0)
            for u, v in pairwise(line)
        ]
        wide = [k for k, value in enumerate(alike) if value < EFFORT.scan_alike]
        if not wide or line[1] - line[0] < 1e-9:
            break
        line = sorted([*line, *(0.5 * (line[k] + line[k + 1]) for k in wide)])
    return np.array([one.value(place) for place in line])


def _shapes(motion: Motion, places: Ints, values: Values, points: Floats) -> list[Floats]:
    """The terms at the points, centred and of unit length; none where they are not finite."""
    if _trouble(motion, places, values, points) is not None:
        return []
    every = motion.basis.at(values).terms(motion.variables)
    table = np.empty((len(points), len(places)), order="F")
    Plan.of([every[i] for i in places], motion.variables).run(points, table)
    # A constant is nearly always among the terms: what a shape has in common with it tells nothing.
    table -= table.mean(axis=0)
    size = np.linalg.norm(table, axis=0)
    return [table[:, k] / size[k] if size[k] else table[:, k] for k in range(len(places))]


def _sample(motion: Motion) -> Floats:
    points = np.concatenate([record.points(record.y) for record in motion.records])
    return np.asarray(points[:: max(len(points) // EFFORT.scan_points, 1)])


def _trouble(motion: Motion, places: Ints, values: Values, points: Floats) -> str | None:
    """What is wrong with the terms at these values of the parameters: a pole or an undefined power."""
    columns = dict(zip(motion.variables, points.T, strict=True))
    every = motion.basis.at(values).terms(motion.variables)
    with np.errstate(all="ignore"):
        for i in places:
            for factor in every[i]:
                if factor.expression is None:
                    continue
                result = np.broadcast_to(factor.expression.evaluate(columns), len(points))
                if not np.isfinite(result).all():
                    return _at_sample(term_name(every[i]), "is not finite", columns, ~np.isfinite(result))
                for below in _denominators(factor.expression):
                    value = np.broadcast_to(below.evaluate(columns), len(points))
                    less = value <= 0
                    # A denominator of both signs has a zero between samples, even where no sample meets it.
                    if less.any() and not less.all():
                        rarer = less if less.mean() < 0.5 else ~less
                        return _at_sample(term_name(every[i]), "has a pole", columns, rarer)
    return None


def _at_sample(name: str, what: str, columns: Mapping[str, Floats], where: NDArray[np.bool_]) -> str:
    row = int(np.argmax(where))
    at = ", ".join(f"{variable} = {column[row]:.4g}" for variable, column in columns.items())
    return f"the term {name!r} {what} on the data, at or near {at}"


def _denominators(node: Expression) -> Iterator[Expression]:
    if node.operation == "/":
        yield node.operands[1]
    for operand in node.operands:
        yield from _denominators(operand)


def _refuse(motion: Motion, unknown: tuple[Parameter, ...], places: Ints, points: Floats) -> None:
    values = {one.name: one.middle for one in unknown}
    why = _trouble(motion, places, values, points)
    told = ", ".join(f"{name} = {value:.4g}" for name, value in values.items())
    ranges = ", ".join(f"{one.name} in ({one.lower:g}, {one.upper:g})" for one in unknown)
    raise DataError(
        f"identify: for no value of {ranges} all terms are defined on the data: with {told} {why}. "
        "Give another range, write the term so that it is defined there, or leave those samples out."
    )
