"""Moves: the supports that may follow a fitted model whose terms hold parameters.

At the fitted states every candidate has a column; terms with parameters have theirs at the fitted values or,
where the model has none of their group, at a few scanned ones. The tangents of the parameters, Σ ξ ∂ψ/∂θ, are
further columns. They are a part of every fit, so that a term is judged with the parameters free to follow.

1. All columns and the target become one triangle (`Moves.of`).
2. Supports are chosen by price from the triangle, with the terms that hold parameters in the fit: as they
   are, without a group or one of its terms, or with one term more (`all`).
3. Terms are exchanged one by one (`exchanges`), or dropped in the order of their significance (`fewer`).

The cost is one pass over the white rows; moves cost least squares on the triangle.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from cindy._arrays import Floats, Ints
from cindy.least_squares import LeastSquares, Rows, triangle
from cindy.search.loop import Met, Search
from cindy.search.request import Options
from cindy.search.scan import Atoms, Group, Values, groups_in
from cindy.selection import EFFORT, SupportFit, Supports
from cindy.states import Motion

Mask = NDArray[np.bool_]
"""(columns,) which of them."""


@dataclass(frozen=True, eq=False)
class Move:
    """A support, with coefficients and values of parameters to start from.

    criterion: χ² of the rows at the present states, and the price of all numbers
    """

    support: Ints
    coef: Floats
    values: Values
    criterion: float


@dataclass(frozen=True, eq=False)
class Moves:
    """The rows at the states of a model, for all candidates.

    offered: for each group the values at which its terms have columns
    atoms, scan: the terms at these values, and the motion that has them
    pairs: the coefficient of the basis that each column stands for
    group, value: the group of each column, −1 for a plain term, and which of its values it has
    factor: the triangle of [tangents | columns | target]; rows: how many there were
    """

    motion: Motion
    options: Options
    groups: tuple[Group, ...]
    met: Met
    offered: tuple[tuple[Values, ...], ...]
    atoms: Atoms
    scan: Motion
    pairs: Ints
    group: Ints
    value: Ints
    factor: Floats
    rows: int

    @classmethod
    def of(cls, motion: Motion, options: Options, groups: tuple[Group, ...], met: Met) -> Moves | None:
        """Step 1; None where the states of the model have diverged."""
        law, fitted = met.fitted.law, met.fitted
        now = law.values_of(fitted.coef)
        offered = tuple(_offered(group, now) for group in groups)
        atoms = Atoms.of(motion, groups, offered)
        scan = atoms.motion(motion)
        whole = scan.law(scan.candidates)
        k, tables = len(law.support), []
        for white in motion.whitened(fitted):
            if white is None:
                return None
            # With the tangents in every fit, the parameters follow to first order.
            tangents = motion.table(white, law, fitted.coef)[:, k:-1]
            tables.append(np.concatenate([tangents, scan.table(white, whole)], axis=1))
        rows = sum(len(table) for table in tables)
        factor = triangle(np.concatenate(tables))
        columns = atoms.columns(scan.candidates, motion.states)
        return cls(motion, options, groups, met, offered, atoms, scan, *columns, factor, rows)

    @cached_property
    def present(self) -> Mask:
        """The columns of the terms that the model has."""
        return np.isin(self.pairs, self.met.support) & np.isin(self.group, [-1, *self.active])

    @cached_property
    def active(self) -> list[int]:
        """The groups that the model has terms of."""
        return groups_in(self.groups, self.met.support // self.motion.states)

    @property
    def criterion(self) -> float:
        """That of the model itself, by these rows."""
        k, law = len(self.met.support), self.met.fitted.law
        columns = self.factor[:, len(law.unknown) : -1][:, self.present]
        coef = self.met.fitted.coef[:k][np.searchsorted(self.met.support, self.pairs[self.present])]
        left = self.factor[:, -1] - columns @ coef
        return float(left @ left) + self.options.price * law.numbers

    def all(self) -> list[Move]:
        """Step 2: the supports to go on to, the least criterion first.

        One has the same terms with parameters. The others, which have a group or such a term less, or one
        more, count where their criterion is better than that of the model.
        """
        # Terms with parameters stay while plain ones are chosen, since their tangents belong to them.
        forced = self.present & (self.group >= 0)
        # The first move counts in any case: χ² at these states is not the likelihood at its own.
        moves = [self._move(forced, np.ones(len(self.pairs), dtype=bool), self.active)]
        moves += self.without_a_group()
        for g in self.active:
            mine = np.flatnonzero(forced & (self.group == g))
            for out in mine if len(mine) > 1 else ():
                others = np.arange(len(self.pairs)) != out
                moves.append(self._move(forced & others, others, self.active))
        for column in self._absent():
            entering = np.arange(len(self.pairs)) == column
            # A group has one value for all of its terms, so its atoms at other values are out.
            elsewhere = (self.group == self.group[column]) & (self.value != self.value[column])
            moves.append(self._move(forced | entering, ~elsewhere, self.active))
        present = self.criterion
        useful = [move for n, move in enumerate(moves) if move and (n == 0 or move.criterion < present)]
        return sorted(useful, key=lambda move: move.criterion)

    def without_a_group(self) -> list[Move | None]:
        """The supports that are chosen without the terms of one group that the model has."""
        forced, moves = self.present & (self.group >= 0), []
        for g in self.active:
            others = self.group != g
            moves.append(self._move(forced & others, others, [a for a in self.active if a != g]))
        return moves

    def exchanges(self) -> list[Move]:
        """Step 3: supports with one term in the place of another, the least criterion first.

        The last term of a group stays, without which the group would have no parameters to fit. Where
        equalities tie terms to each other there are no exchanges, as one term alone cannot go.
        """
        if len(self.options.rows):
            return []
        usable = np.isin(self.group, [-1, *self.active]) & ~self.present
        price = self.options.price * self.met.fitted.law.numbers
        moves = []
        for out in np.flatnonzero(self.present & ~self._last_of_groups(self.present)):
            others = self.present & (np.arange(len(self.pairs)) != out)
            fit, gain = self._beside(others)
            gain[~usable] = 0.0
            for best in np.argsort(-gain)[: EFFORT.moves_instead]:
                if gain[best] > 0.0:
                    picked = np.sort(np.append(np.flatnonzero(others), best))
                    moves.append(self._merged(picked, fit.loss - float(gain[best]) + price))
        return sorted(moves, key=lambda move: move.criterion)

    def _last_of_groups(self, columns: Mask) -> Mask:
        """(columns,) which of some columns is the only one of its group."""
        last = [g >= 0 and np.sum(columns & (self.group == g)) == 1 for g in self.group]
        return np.asarray(columns & np.array(last, dtype=bool))

    def fewer(self) -> list[Move]:
        """Step 3: supports without the least significant term, without the two least, and so on.

        The last term of a group stays, and where equalities tie terms to each other, all do.
        """
        moves: list[Move] = []
        p, columns, criterion = len(self.met.fitted.law.unknown), self.present.copy(), self.criterion
        for _ in range(0 if len(self.options.rows) else EFFORT.moves_fewer):
            places = np.flatnonzero(columns)
            z = self._beside(columns)[0].z[p:]
            last = self._last_of_groups(columns)[places]
            if np.all(last):
                break
            least = int(np.argmin(np.where(last, np.inf, z)))
            columns[places[least]] = False
            # Without a term χ² rises by the square of its z, and a price is saved.
            criterion += float(z[least]) ** 2 - self.options.price
            moves.append(self._merged(np.flatnonzero(columns), criterion))
        return moves

    def _beside(self, columns: Mask) -> tuple[SupportFit, Floats]:
        """Least squares on some columns and the tangents, and by how much each column then lowers χ²."""
        factor, p = self.factor, len(self.met.fitted.law.unknown)
        count = factor.shape[1] - 1
        supports = Supports(factor[:, :-1], factor[:, -1], self.rows, Rows.none(count), np.zeros(count))
        fit = supports.fit(np.append(np.arange(p), p + np.flatnonzero(columns)))
        return fit, supports.gains(fit)[p:]

    def _absent(self) -> Iterator[int]:
        """Columns of terms with parameters that the model lacks, each at the value of largest gain."""
        gain = np.where(self.group < 0, 0.0, self._beside(self.present)[1])
        pairs: set[int] = set()
        for column in np.argsort(-gain):
            if gain[column] <= 0 or len(pairs) == EFFORT.moves_most:
                return
            if int(self.pairs[column]) not in pairs:
                pairs.add(int(self.pairs[column]))
                yield int(column)

    def _move(self, forced: Mask, allowed: Mask, active: Sequence[int]) -> Move | None:
        """The support that is chosen by price, with some columns in the fit whatever they explain.

        forced: those columns; allowed: the columns that there may be
        active: the groups whose parameters are free to follow
        """
        held = {parameter.name for g in active for parameter in self.groups[g].unknown}
        unknown = self.met.fitted.law.unknown
        tangents = np.flatnonzero([parameter.name in held for parameter in unknown])
        fixed = np.concatenate([tangents, len(unknown) + np.flatnonzero(forced)])
        rest = np.flatnonzero(allowed & ~forced)
        order = np.concatenate([fixed, len(unknown) + rest, [self.factor.shape[1] - 1]])
        # With the fixed columns first, the rows below their triangle are the problem of the other columns.
        turned = triangle(self.factor[:, order])
        price = self.options.price * len(fixed)
        if not len(rest):
            left = float(np.sum(turned[len(fixed) :, -1] ** 2))
            return self._merged(np.flatnonzero(forced), left + price)
        objective = LeastSquares(
            turned[len(fixed) :, len(fixed) :], len(rest), max(self.rows - len(fixed), 1)
        )
        columns = self.scan.candidates
        rows = self.atoms.rows(self.options.rows, self.motion.states, without=columns[forced])
        loop = Search(replace(self.scan, candidates=columns[rest]), replace(self.options, rows=rows))
        form = loop.form((objective,))
        supports = Supports.of_form(form, self.options.price)
        fits = [supports.best(loop.path(form)[1])]
        if not self.options.faithful:
            own = supports.possible(np.flatnonzero(self.present[rest]))
            fits = [supports.settle(fit) for fit in (*fits, own) if fit is not None]
        best = min((fit for fit in fits if fit is not None), key=supports.criterion, default=None)
        if best is None:
            return None
        picked = np.concatenate([np.flatnonzero(forced), rest[best.support]])
        return self._merged(picked, supports.criterion(best) + price)

    def _merged(self, picked: Ints, criterion: float) -> Move:
        """The move to some columns; atoms of one group at several values become one, at the heaviest."""
        p = len(self.met.fitted.law.unknown)
        columns = self.factor[:, p:-1][:, picked]
        coef = np.linalg.lstsq(columns, self.factor[:, -1], rcond=1e-10)[0]
        weight = np.abs(coef) * np.linalg.norm(columns, axis=0)
        values = self.met.fitted.law.values_of(self.met.fitted.coef)
        group, value = self.group[picked], self.value[picked]
        new = [int(g) for g in np.unique(group) if g >= 0 and g not in self.active]
        # A group that comes in begins at the value of its heaviest atom, and its parameters have a price.
        for g in new:
            mine = np.flatnonzero(group == g)
            values.update(self.offered[g][value[mine[np.argmax(weight[mine])]]])
            criterion += self.options.price * len(self.groups[g].unknown)
        support = np.unique(self.pairs[picked])
        merged = np.zeros(len(support))
        np.add.at(merged, np.searchsorted(support, self.pairs[picked]), coef)
        return Move(support, merged, values, criterion)


def _offered(group: Group, now: Values) -> tuple[Values, ...]:
    """The values at which terms of a group have columns: the fitted ones, or a few of those scanned."""
    if group.unknown[0].name in now:
        return ({parameter.name: now[parameter.name] for parameter in group.unknown},)
    # A few values show whether an absent term is worth a fit, which then finds its value.
    thin = max(-(-len(group.values) // EFFORT.moves_coarse), 1)
    return tuple(group.values[thin // 2 :: thin])
