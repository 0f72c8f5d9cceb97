"""Moves: the supports that may follow a fitted model whose terms hold parameters.

At the fitted states every candidate has a column; terms with parameters have one at the fitted values, where
the model has a term of their group, and at a few scanned ones. The tangents of the parameters, Σ ξ ∂ψ/∂θ, are
further columns. They are a part of every fit, so that a term is judged with the parameters free to follow.

1. All columns and the target become one triangle (`Moves.of`).
2. Plain terms are chosen by price from the triangle, with the terms that hold parameters in the fit (`all`).
3. All terms of one equation are replaced by others, with or without parameters. Where constraints tie
   equations together, or the user has limited the path, terms with parameters enter and leave one by one
   instead (`others`).

The cost is one pass over the white rows; moves cost least squares on the triangle.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from math import comb

import numpy as np
from numpy.typing import NDArray

from cindy._arrays import Floats, Ints
from cindy.least_squares import LeastSquares, Rows, triangle
from cindy.search.loop import Met, Search
from cindy.search.request import Options
from cindy.search.scan import Atoms, Group, Values, groups_in
from cindy.selection import EFFORT, SupportFit, Supports, combinations_of, gains_of
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

    offered: for each group the values at which its terms have columns, first the fitted one if there is one
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
        return (
            np.isin(self.pairs, self.met.support) & ~self.elsewhere & np.isin(self.group, [-1, *self.active])
        )

    @cached_property
    def elsewhere(self) -> Mask:
        """The columns of groups that the model has, at other values than the fitted ones."""
        return np.isin(self.group, self.active) & (self.value > 0)

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

        One has the same terms with parameters. The others count where their criterion is better than that of
        the model.
        """
        # Terms with parameters stay while plain ones are chosen, since their tangents belong to them.
        forced = self.present & (self.group >= 0)
        # The first move counts in any case: χ² at these states is not the likelihood at its own.
        first = self._move(forced, np.ones(len(self.pairs), dtype=bool), self.active)
        least = self.criterion
        moves = [move for move in self.others() if move.criterion < least]
        return sorted(moves if first is None else [first, *moves], key=lambda move: move.criterion)

    def others(self) -> list[Move]:
        """Step 3: supports with other terms that hold parameters."""
        tied = self.options.faithful or len(self.options.rows) > 0
        return self._one_by_one() if tied else self._recombined()

    def _recombined(self) -> list[Move]:
        """Supports with other terms in one equation, the best few of each equation.

        Terms with parameters can stand for each other, and because of noise all terms of an equation may be
        others than those of the law. Then no change of one or two of them is better. So all combinations are
        compared that have at most one number more than the equation has now.
        """
        moves: list[Move] = []
        for equation in self.motion.sought:
            mine = self._replaceable(equation)
            rest = np.flatnonzero(self.present & ~mine)
            best: dict[bytes, tuple[float, Ints]] = {}
            for criterion, columns in self._combined(rest, mine):
                terms = np.sort(self.pairs[columns]).tobytes()
                if terms not in best or criterion < best[terms][0]:
                    best[terms] = criterion, columns
            best.pop(self.pairs[self.present & mine].tobytes(), None)
            promising = sorted(best.values(), key=lambda pair: pair[0])[: EFFORT.moves_combined]
            moves += [self._merged(np.union1d(rest, columns), criterion) for criterion, columns in promising]
        return moves

    def _replaceable(self, equation: int) -> Mask:
        """The columns of an equation.

        Those of its most significant terms are left out, and the terms stay, while there are too many
        combinations.
        """
        mine = np.asarray(self.pairs % self.motion.states == equation)
        own = np.flatnonzero(self.present & mine)
        strength = np.zeros(len(mine))
        strength[self.present] = self._beside(self.present)[0].z[len(self.met.fitted.law.unknown) :]
        for strongest in own[np.argsort(-strength[own])]:
            if comb(len(np.unique(self.pairs[mine])), self._most(mine)) <= EFFORT.orders_combinations:
                break
            mine = mine & (self.pairs != self.pairs[strongest])
        return mine

    def _most(self, mine: Mask) -> int:
        """One more than the numbers that some columns of the model have: coefficients, and own parameters."""
        extra = self._extra(np.flatnonzero(self.present & ~mine))
        return int(np.sum(self.present & mine)) + int(extra[self.active].sum()) + 1

    def _extra(self, rest: Ints) -> Ints:
        """(groups,) the parameters that each has, if no column of the rest has them too."""
        kept = np.isin(np.arange(len(self.groups)), self.group[rest])
        return np.where(kept, 0, [len(group.unknown) for group in self.groups])

    def _combined(self, rest: Ints, mine: Mask) -> Iterator[tuple[float, Ints]]:
        """Combinations of some columns beside the rest of the model, and the criterion of each.

        The parameters of the rest follow as their tangents allow. Others have their fitted values, except for
        one group at a time, which has each of its values.
        """
        most, extra = self._most(mine), self._extra(rest)
        kept = [g for g in self.active if not extra[g]]
        fixed, columns = self._fixed(rest, kept), np.flatnonzero(mine)
        alone, target = self._beyond(fixed, columns)
        left = float(target @ target) + self.options.price * len(fixed)
        alone = alone / np.maximum(np.linalg.norm(alone, axis=0), 1e-300)
        group, value = self.group[columns], self.value[columns]
        fitted = np.isin(group, [-1, *self.active]) & ~self.elsewhere[columns]
        scanned = [(g, v) for g, values in enumerate(self.offered) if extra[g] for v in range(len(values))]
        for g, v in [(-1, -1), *scanned]:
            at = np.flatnonzero(np.where(group == g, value == v, fitted))
            for count in range(most + 1):
                sets = combinations_of(len(at), count)
                of = group[at][sets]
                numbers = count + (of[:, :, None] == np.arange(len(extra))).any(axis=1) @ extra
                # Combinations without a term of the group are those at the fitted values.
                useful = (numbers <= most) & ((of == g).any(axis=1) | (g < 0))
                sets, numbers = sets[useful], numbers[useful]
                above = self.options.price * numbers - gains_of(sets, alone[:, at], target)
                # Of the best combinations, one may be that of the model.
                for n in np.argsort(above)[: EFFORT.moves_combined + 1]:
                    yield left + float(above[n]), columns[at[sets[n]]]

    def _fixed(self, columns: Ints, active: Sequence[int]) -> Ints:
        """Places in the triangle of some columns, and of the tangents of some groups."""
        held = {parameter.name for g in active for parameter in self.groups[g].unknown}
        unknown = self.met.fitted.law.unknown
        tangents = np.flatnonzero([parameter.name in held for parameter in unknown])
        return np.concatenate([tangents, len(unknown) + columns])

    def _beyond(self, fixed: Ints, columns: Ints) -> tuple[Floats, Floats]:
        """Some columns and the target, orthogonal to what is in the fit in any case."""
        p = len(self.met.fitted.law.unknown)
        order = np.concatenate([fixed, p + columns, [self.factor.shape[1] - 1]])
        # With the fixed columns first, the rows below their triangle are the problem of the other columns.
        turned = triangle(self.factor[:, order])[len(fixed) :, len(fixed) :]
        return turned[:, :-1], turned[:, -1]

    def _one_by_one(self) -> list[Move]:
        """Supports chosen with a group or a term with parameters less, or with one such term more.

        This is for equations that constraints tie together, and for a path that the user has limited.
        """
        forced, moves = self.present & (self.group >= 0), list[Move | None]()
        for g in self.active:
            others = self.group != g
            moves.append(self._move(forced & others, others, [a for a in self.active if a != g]))
            mine = np.flatnonzero(forced & (self.group == g))
            for out in mine if len(mine) > 1 else ():
                others = np.arange(len(self.pairs)) != out
                moves.append(self._move(forced & others, others, self.active))
        for column in self._absent():
            entering = np.arange(len(self.pairs)) == column
            # A group has one value for all of its terms, so its atoms at other values are out.
            elsewhere = (self.group == self.group[column]) & (self.value != self.value[column])
            moves.append(self._move(forced | entering, ~elsewhere, self.active))
        return [move for move in moves if move is not None]

    def _beside(self, columns: Mask) -> tuple[SupportFit, Floats]:
        """Least squares on some columns and the tangents, and by how much each column then lowers χ²."""
        factor, p = self.factor, len(self.met.fitted.law.unknown)
        count = factor.shape[1] - 1
        supports = Supports(factor[:, :-1], factor[:, -1], self.rows, Rows.none(count), np.zeros(count))
        fit = supports.fit(np.append(np.arange(p), p + np.flatnonzero(columns)))
        return fit, supports.gains(fit)[p:]

    def _absent(self) -> Iterator[int]:
        """Columns of terms with parameters that the model lacks, each at the value of largest gain."""
        gain = np.where((self.group < 0) | self.elsewhere, 0.0, self._beside(self.present)[1])
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
        fixed = self._fixed(np.flatnonzero(forced), active)
        rest = np.flatnonzero(allowed & ~self.elsewhere & ~forced)
        design, target = self._beyond(fixed, rest)
        price = self.options.price * len(fixed)
        if not len(rest):
            return self._entering(np.flatnonzero(forced), float(target @ target) + price)
        table = np.column_stack([design, target])
        objective = LeastSquares(table, len(rest), max(self.rows - len(fixed), 1))
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
        return self._entering(picked, supports.criterion(best) + price)

    def _entering(self, picked: Ints, criterion: float) -> Move:
        """The move to some columns; the parameters of groups that come in have a price."""
        new = np.setdiff1d(self.group[picked], [-1, *self.active])
        return self._merged(picked, criterion + self.options.price * int(self._extra(picked[:0])[new].sum()))

    def _merged(self, picked: Ints, criterion: float) -> Move:
        """The move to some columns; atoms of one group at several values become one, at the heaviest."""
        p = len(self.met.fitted.law.unknown)
        columns = self.factor[:, p:-1][:, picked]
        coef = np.linalg.lstsq(columns, self.factor[:, -1], rcond=1e-10)[0]
        weight = np.abs(coef) * np.linalg.norm(columns, axis=0)
        values = self.met.fitted.law.values_of(self.met.fitted.coef)
        group, value = self.group[picked], self.value[picked]
        # A group that comes in begins at the value of its heaviest atom.
        for g in np.setdiff1d(group, [-1]):
            mine = np.flatnonzero(group == g)
            values.update(self.offered[g][value[mine[np.argmax(weight[mine])]]])
        support = np.unique(self.pairs[picked])
        merged = np.zeros(len(support))
        np.add.at(merged, np.searchsorted(support, self.pairs[picked]), coef)
        return Move(support, merged, values, criterion)


def _offered(group: Group, now: Values) -> tuple[Values, ...]:
    """The values at which terms of a group have columns: the fitted ones, and a few of those scanned."""
    fitted = {parameter.name: now[parameter.name] for parameter in group.unknown if parameter.name in now}
    # A few values show whether a term is worth a fit, which then finds its value.
    thin = max(-(-len(group.values) // EFFORT.moves_coarse), 1)
    return (*([fitted] if fitted else []), *group.values[thin // 2 :: thin])
