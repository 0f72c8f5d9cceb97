"""Scan: terms with unknown parameters, at a few values each, as atoms to choose from.

While a term is only a candidate its parameter is not fitted: the dictionary has the term once for each of a
few values. Adding the best atom and then moving it to where it fits best is the sliding Frank-Wolfe algorithm
(Denoyelle, Duval, Peyré, Soubies 2019).

1. Parameters that share terms form a group, which is scanned together (`groups_of`).
2. The values of each parameter are refined until the columns of neighbouring values are almost parallel,
   the other parameters being in mid-range (`_axis`).
3. The values of a group are the lattice of its axes, thinned to a bound, without values at which a term has a
   pole or is not defined on the data (`_scanned`).
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import pairwise

import numpy as np
from numpy.typing import NDArray
from scipy.sparse import csr_array

from cindy._arrays import Floats, Ints
from cindy.basis import Expression, Listed, Parameter, Plan, Term, term_name, term_parameters
from cindy.errors import DataError
from cindy.least_squares import Rows
from cindy.selection import EFFORT
from cindy.states import Motion

Values = dict[str, float]
"""Values of parameters by name."""


def fewest_values(together: int) -> int:
    """The least number of values at which each parameter is scanned, if so many are scanned together."""
    return {1: 9, 2: 5, 3: 4}.get(together, 3)


@dataclass(frozen=True, eq=False)
class Group:
    """Parameters that share terms, those terms, and the values to scan.

    terms: places of the terms in the basis; at: (values, parameters) place of each value on the lattice
    """

    unknown: tuple[Parameter, ...]
    terms: Ints
    values: tuple[Values, ...]
    at: Ints

    def neighbours(self, place: int) -> Ints:
        """The values next to one on the lattice."""
        near = np.max(np.abs(self.at - self.at[place]), axis=1) == 1
        return np.flatnonzero(near)


def groups_in(groups: Sequence[Group], terms: Ints) -> list[int]:
    """The numbers of the groups that some of the terms belong to."""
    return [g for g, group in enumerate(groups) if np.isin(group.terms, terms).any()]


@dataclass(frozen=True, eq=False)
class Atoms:
    """The terms of a basis, those with parameters at one value or several.

    terms: all atoms; base: place in the basis of each; group: number of its group, −1 for a plain term
    value: which of the values given for its group
    """

    terms: tuple[Term, ...]
    base: Ints
    group: Ints
    value: Ints

    @classmethod
    def of(cls, motion: Motion, groups: Sequence[Group], values: Sequence[Sequence[Values]]) -> Atoms:
        """values: for each group those at which its terms are atoms; none for a group that is left out."""
        owned = {int(i) for group in groups for i in group.terms}
        atoms: list[tuple[Term, int, int, int]] = []
        # Plain terms come first and keep their order, then every group at each of its values.
        for i, term in enumerate(motion.basis.terms(motion.variables)):
            if i not in owned:
                atoms.append((term, i, -1, -1))
        for g, group in enumerate(groups):
            for v, at in enumerate(values[g]):
                fixed = motion.basis.at(at).terms(motion.variables)
                atoms += [(_named(fixed[i], f"{g}.{v}"), int(i), g, v) for i in group.terms]
        terms, base, number, value = zip(*atoms, strict=True)
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

    def columns(self, flat: Ints, states: int) -> tuple[Ints, Ints, Ints]:
        """Of coefficients of atoms, by flat index: those of the basis that they stand for, their groups, and
        which of its values each has."""
        atom = flat // states
        return self.base[atom] * states + flat % states, self.group[atom], self.value[atom]

    def rows(self, rows: Rows, states: int, *, without: Ints | None = None) -> Rows:
        """Constraints over atoms: what holds for a coefficient holds for the sum over its atoms.

        without: flat indices of atoms; constraints that name one of these are left out
        """
        if not len(rows):
            return Rows.none(len(self.base) * states)
        pairs, _, _ = self.columns(np.arange(len(self.base) * states), states)
        matrix = csr_array(rows.matrix[:, pairs])
        which = np.arange(len(rows))
        if without is not None and len(without):
            which = np.flatnonzero(np.asarray(abs(matrix[:, without]).sum(axis=1)).ravel() == 0)
        return Rows(csr_array(matrix[which]), rows.lower[which], rows.upper[which], rows.owner[which])


def _named(term: Term, mark: str) -> Term:
    """The term with factors whose names tell atoms apart."""
    return tuple(replace(f, name=f"{f.name} at {mark}") if f.values else f for f in term)


def groups_of(motion: Motion) -> tuple[Group, ...]:
    """Step 1: the parameters of a motion's basis in groups, with the values to scan."""
    terms = motion.basis.terms(motion.variables)
    ungrouped = {parameter.name: parameter for parameter in motion.basis.unknowns()}
    inside = [term_parameters(term) & ungrouped.keys() for term in terms]
    groups = []
    while ungrouped:
        names = {next(iter(ungrouped))}
        # Parameters that share a term cannot be scanned apart; the group grows until no term links it to
        # another.
        while more := {n for held in inside if held & names for n in held} - names:
            names |= more
        unknown = tuple(ungrouped.pop(name) for name in list(ungrouped) if name in names)
        places = np.array([i for i, held in enumerate(inside) if held & names], dtype=np.intp)
        if len(places):
            groups.append(_scanned(motion, unknown, places))
    return tuple(groups)


def _scanned(motion: Motion, unknown: tuple[Parameter, ...], places: Ints) -> Group:
    """Step 3: a group with its values, an error if its terms are not defined on the data at any."""
    # A sample of the data is enough to tell values apart.
    states = np.concatenate([record.points(record.y) for record in motion.records])
    points = states[:: max(len(states) // EFFORT.scan_points, 1)]
    axes = [_axis(motion, unknown, k, places, points) for k in range(len(unknown))]
    # The lattice grows with the number of parameters: the longest axis is thinned first.
    while np.prod([len(axis) for axis in axes], dtype=float) > EFFORT.scan_most:
        longest = max(range(len(axes)), key=lambda k: len(axes[k]))
        size = int(0.8 * len(axes[longest]))
        axes[longest] = unknown[longest].grid(size) if size > 1 else np.array([unknown[longest].middle])
    values, at = [], []
    for place in np.ndindex(*map(len, axes)):
        value = {p.name: float(axes[k][place[k]]) for k, p in enumerate(unknown)}
        if _trouble(motion, places, value, points) is None:
            values.append(value)
            at.append(place)
    if not values:
        raise _undefined(motion, unknown, places, points)
    return Group(unknown, places, tuple(values), np.array(at, dtype=np.intp))


def _axis(motion: Motion, unknown: tuple[Parameter, ...], which: int, places: Ints, points: Floats) -> Floats:
    """Step 2: values of one parameter, the others in mid-range."""
    parameter = unknown[which]
    middle = {p.name: p.middle for p in unknown}
    line = list(np.linspace(*parameter.places, fewest_values(len(unknown))))
    known: dict[float, list[Floats]] = {}

    def shape(place: float) -> list[Floats]:
        if place not in known:
            values = {**middle, parameter.name: parameter.value(place)}
            known[place] = _shapes(motion, places, values, points)
        return known[place]

    while len(line) < EFFORT.scan_most:
        # The cosine between the columns of neighbouring values does not depend on the scale of the parameter.
        cosines = [
            min((abs(float(a @ b)) for a, b in zip(shape(u), shape(v), strict=False)), default=1.0)
            for u, v in pairwise(line)
        ]
        wide = [k for k, cosine in enumerate(cosines) if cosine < EFFORT.scan_alike]
        if not wide or line[1] - line[0] < 1e-9:
            break
        line = sorted([*line, *(0.5 * (line[k] + line[k + 1]) for k in wide)])
    return np.array([parameter.value(place) for place in line])


def _shapes(motion: Motion, places: Ints, values: Values, points: Floats) -> list[Floats]:
    """The terms at the points, centred and of unit length; none where they are not finite."""
    if _trouble(motion, places, values, points) is not None:
        return []
    terms = motion.basis.at(values).terms(motion.variables)
    table = np.empty((len(points), len(places)), order="F")
    Plan.of([terms[i] for i in places], motion.variables).run(points, table)
    # A constant is nearly always among the terms, so the mean of a column does not tell values apart.
    table -= table.mean(axis=0)
    size = np.linalg.norm(table, axis=0)
    return [table[:, k] / size[k] if size[k] else table[:, k] for k in range(len(places))]


def _trouble(motion: Motion, places: Ints, values: Values, points: Floats) -> str | None:
    """What is wrong with the terms at these values of the parameters: a pole or an undefined power."""
    columns = dict(zip(motion.variables, points.T, strict=True))
    terms = motion.basis.at(values).terms(motion.variables)
    with np.errstate(all="ignore"):
        for i in places:
            for factor in terms[i]:
                if factor.expression is None:
                    continue
                result = np.broadcast_to(factor.expression.evaluate(columns), len(points))
                if not np.isfinite(result).all():
                    return _at_sample(term_name(terms[i]), "is not finite", columns, ~np.isfinite(result))
                for denominator in _denominators(factor.expression):
                    negative = np.broadcast_to(denominator.evaluate(columns), len(points)) <= 0
                    # A denominator of both signs has a zero between samples, even where no sample meets it.
                    if negative.any() and not negative.all():
                        rarer = negative if negative.mean() < 0.5 else ~negative
                        return _at_sample(term_name(terms[i]), "has a pole", columns, rarer)
    return None


def _at_sample(name: str, what: str, columns: Mapping[str, Floats], where: NDArray[np.bool_]) -> str:
    """A clause on a term and the first of the samples that it concerns."""
    row = int(np.argmax(where))
    at = ", ".join(f"{variable} = {column[row]:.4g}" for variable, column in columns.items())
    return f"the term {name!r} {what} on the data, at or near {at}"


def _denominators(node: Expression) -> Iterator[Expression]:
    """All expressions that another one is divided by."""
    if node.operation == "/":
        yield node.operands[1]
    for operand in node.operands:
        yield from _denominators(operand)


def _undefined(motion: Motion, unknown: tuple[Parameter, ...], places: Ints, points: Floats) -> DataError:
    """The error where terms are not defined at any value; it names a sample for the middle of the range."""
    middle = {parameter.name: parameter.middle for parameter in unknown}
    why = _trouble(motion, places, middle, points)
    named = ", ".join(f"{name} = {value:.4g}" for name, value in middle.items())
    ranges = ", ".join(
        f"{parameter.name} in ({parameter.lower:g}, {parameter.upper:g})" for parameter in unknown
    )
    return DataError(
        f"identify: for no value of {ranges} all terms are defined on the data: with {named} {why}. "
        "Give another range, write the term so that it is defined there, or leave those samples out."
    )
