"""Moves: the supports that lead on from a fitted model whose terms hold parameters.

At the fitted states every candidate has a column, terms with parameters at the fitted values or, where the
model has none of their group, at a few scanned ones. The columns of parameters, Σ ξ ∂ψ/∂θ, are taken out
first, so that a term is judged with the parameters free to follow.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from cindy._arrays import Floats, Ints
from cindy.least_squares import LeastSquares, triangle
from cindy.pipeline.models_met import Met, Search
from cindy.pipeline.request import Options
from cindy.pipeline.scan import Atoms, Group
from cindy.selection import EFFORT, SupportFit, Supports
from cindy.states import Motion

__all__ = ["Move", "Moves"]

Mask = NDArray[np.bool_]
Values = dict[str, float]


@dataclass(frozen=True, eq=False)
class Move:
    """A support, coefficients and values of parameters to start from, and what they promise.

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
    factor: the triangle of [tangents | columns | target]; rows: how many there were
    """

    motion: Motion
    options: Options
    groups: tuple[Group, ...]
    met: Met
    offered: tuple[tuple[Values, ...], ...]
    atoms: Atoms
    scan: Motion
    factor: Floats
    rows: int

    @classmethod
    def of(cls, motion: Motion, options: Options, groups: tuple[Group, ...], met: Met) -> Moves | None:
        law, fitted = met.fitted.law, met.fitted
        now = law.values_of(fitted.coef)
        offered = tuple(_offered(group, now) for group in groups)
        atoms = Atoms.of(motion, groups, offered)
        scan = atoms.motion(motion)
        every = scan.law(scan.candidates)
        k, tables = len(law.support), []
        for white in motion.whitened(fitted):
            if white is None:
                return None
            # Columns of the parameters, ∂/∂θ of the law at its values: with them in every fit, θ follows to
            # first order.
            tangents = motion.table(white, law, fitted.coef)[:, k:-1]
            tables.append(np.concatenate([tangents, scan.table(white, every)], axis=1))
        rows = sum(len(table) for table in tables)
        factor = triangle(np.concatenate(tables))
        return cls(motion, options, groups, met, offered, atoms, scan, factor, rows)

    @cached_property
    def pairs(self) -> Ints:
        """The coefficient of the basis that each column stands for."""
        return self.atoms.pair(self.scan.candidates, self.motion.states)

    @cached_property
    def group(self) -> Ints:
        """The group of each column, −1 for a plain term."""
        return np.asarray(self.atoms.group[self.scan.candidates // self.motion.states])

    @cached_property
    def value(self) -> Ints:
        return np.asarray(self.atoms.value[self.scan.candidates // self.motion.states])

    @cached_property
    def present(self) -> Mask:
        """The columns of the terms that the model has."""
        return np.isin(self.pairs, self.met.support) & np.isin(self.group, [-1, *self.active])

    @cached_property
    def active(self) -> list[int]:
        """The groups that the model has terms of."""
        terms = self.met.support // self.motion.states
        return [g for g, group in enumerate(self.groups) if np.isin(group.terms, terms).any()]

    @property
    def criterion(self) -> float:
        """Of the model itself, by these rows."""
        k, law = len(self.met.support), self.met.fitted.law
        columns = self.factor[:, len(law.unknown) : -1][:, self.present]
        coef = self.met.fitted.coef[:k][np.searchsorted(self.met.support, self.pairs[self.present])]
        left = self.factor[:, -1] - columns @ coef
        return float(left @ left) + self.options.price * law.numbers

    def all(self) -> list[Move]:
        """What leads on: the support that all rows ask for; and, where the rows promise a better
        criterion, a group or a term with parameters less, and one more. The most promising first."""
        # Terms with parameters stay while plain ones are chosen: without them their tangents would mean
        # nothing.
        forced = self.present & (self.group >= 0)
        every = np.ones(len(self.pairs), dtype=bool)
        # The first is taken whatever it promises: χ² at these states is not yet the likelihood at its own.
        made = [self._move(forced, every, self.active)]
        made += self.without_a_group()
        for g in self.active:
            mine = forced & (self.group == g)
            if np.sum(mine) > 1:
                made += [self._move(forced & ~one, ~one, self.active) for one in _each(mine)]
        for one in self._absent():
            g = self.group[np.argmax(one)]
            # A group has one value for all of its terms, so its atoms at other values are out.
            others = (self.group == g) & (self.value != self.value[np.argmax(one)])
            made.append(self._move(forced | one, every & ~others, self.active))
        below = self.criterion
        useful = [move for n, move in enumerate(made) if move and (n == 0 or move.criterion < below)]
        return sorted(useful, key=lambda move: move.criterion)

    def without_a_group(self) -> list[Move | None]:
        """What the rows ask for without the terms of one group that the model has."""
        forced, made = self.present & (self.group >= 0), []
        for g in self.active:
            mine = self.group == g
            made.append(self._move(forced & ~mine, ~mine, [a for a in self.active if a != g]))
        return made

    def exchanges(self) -> list[Move]:
        """Supports with one term in the place of another, by the rows at hand; the most promising first.

        The last term of a group stays: without it the group would have no parameters to fit.

        Where equalities tie terms to each other, none: one alone cannot go.
        """
        if len(self.options.rows):
            return []
        usable = np.isin(self.group, [-1, *self.active])
        price = self.options.price * self.met.fitted.law.numbers
        made = []
        for out in np.flatnonzero(self.present):
            # The last term of a group stays.
            if self.group[out] >= 0 and np.sum(self.present & (self.group == self.group[out])) == 1:
                continue
            kept = self.present & (np.arange(len(self.pairs)) != out)
            gain, left = self._gains(kept)
            gain[~usable | self.present] = -1.0
            for best in np.argsort(-gain)[: EFFORT.moves_instead]:
                if gain[best] >= 0.0:
                    picked = np.sort(np.append(np.flatnonzero(kept), best))
                    made.append(self._merged(picked, kept, left - float(gain[best]) + price))
        return sorted(made, key=lambda move: move.criterion)

    def fewer(self) -> list[Move]:
        """Supports without the least significant term, without the two least, and so on, by the rows at hand.

        The last term of a group stays, and where equalities tie terms to each other, all do.
        """
        made: list[Move] = []
        p, kept, promised = len(self.met.fitted.law.unknown), self.present.copy(), self.criterion
        for _ in range(0 if len(self.options.rows) else EFFORT.moves_fewer):
            places = np.flatnonzero(kept)
            columns = np.concatenate([self.factor[:, :p], self.factor[:, p:-1][:, places]], axis=1)
            size = np.linalg.norm(columns, axis=0)
            inverse = np.linalg.pinv(columns / np.where(size > 0, size, 1.0), rcond=1e-12)[p:]
            # Rows of the pseudo-inverse give estimate and error of each coefficient, for white rows with
            # noise of size 1.
            z = np.abs(inverse @ self.factor[:, -1]) / np.maximum(np.linalg.norm(inverse, axis=1), 1e-300)
            last = [g >= 0 and np.sum(kept & (self.group == g)) == 1 for g in self.group[places]]
            if np.all(last):
                break
            least = int(np.argmin(np.where(last, np.inf, z)))
            kept[places[least]] = False
            # Without a term χ² rises by the square of its z, and a price is saved.
            promised += float(z[least]) ** 2 - self.options.price
            made.append(self._merged(np.flatnonzero(kept), kept, promised))
        return made

    def _gains(self, kept: Mask) -> tuple[Floats, float]:
        """(columns,) by how much each lowers χ² beside those kept and the tangents, −1 where it depends on
        them; and the χ² without it.

        With c⊥ what is left of a column c, and r of the target, that is (c⊥ᵀ r)² / ‖c⊥‖².
        """
        p = len(self.met.fitted.law.unknown)
        columns, target = self.factor[:, p:-1], self.factor[:, -1]
        q = np.linalg.qr(np.concatenate([self.factor[:, :p], columns[:, kept]], axis=1))[0]
        left, beyond = target - q @ (q.T @ target), columns - q @ (q.T @ columns)
        size, whole = np.linalg.norm(beyond, axis=0), np.linalg.norm(columns, axis=0)
        # What is left of a dependent column is rounding.
        new = size > 1e-5 * np.where(whole > 0, whole, np.inf)
        gain = np.where(new, (beyond.T @ left / np.where(new, size, 1.0)) ** 2, -1.0)
        return gain, float(left @ left)

    def _absent(self) -> Iterator[Mask]:
        """Terms with parameters that the model lacks, each at the value of largest gain."""
        gain, _ = self._gains(self.present)
        gain[self.present | (self.group < 0)] = -1.0
        taken_pairs: set[int] = set()
        for column in np.argsort(-gain):
            if gain[column] < 0 or len(taken_pairs) == EFFORT.moves_most:
                return
            if int(self.pairs[column]) not in taken_pairs:
                taken_pairs.add(int(self.pairs[column]))
                yield np.arange(len(gain)) == column

    def _move(self, forced: Mask, allowed: Mask, active: Sequence[int]) -> Move | None:
        """The support that the rows ask for when some columns are in whatever they explain.

        active: the groups whose parameters are free to follow
        """
        held = {one.name for g in active for one in self.groups[g].unknown}
        unknown = self.met.fitted.law.unknown
        tangents = np.flatnonzero([one.name in held for one in unknown])
        fixed = np.concatenate([tangents, len(unknown) + np.flatnonzero(forced)])
        rest = np.flatnonzero(allowed & ~forced)
        order = np.concatenate([fixed, len(unknown) + rest, [self.factor.shape[1] - 1]])
        # With the fixed columns first, the rows below their triangle are what is left for the others to
        # explain.
        turned = triangle(self.factor[:, order])
        price = self.options.price * len(fixed)
        if not len(rest):
            left = float(np.sum(turned[len(fixed) :, -1] ** 2))
            return self._merged(np.flatnonzero(forced), forced, left + price)
        objective = LeastSquares(
            turned[len(fixed) :, len(fixed) :], len(rest), max(self.rows - len(fixed), 1)
        )
        columns = self.scan.candidates
        rows = self.atoms.rows(self.options.rows, self.motion.states, without=columns[forced])
        state = Search(replace(self.scan, candidates=columns[rest]), replace(self.options, rows=rows))
        chosen = self._chosen(state, objective, np.flatnonzero(self.present[rest]))
        if chosen is None:
            return None
        fit, supports = chosen
        picked = np.concatenate([np.flatnonzero(forced), rest[fit.support]])
        return self._merged(picked, forced, supports.criterion(fit) + price)

    def _chosen(
        self, state: Search, objective: LeastSquares, present: Ints
    ) -> tuple[SupportFit, Supports] | None:
        form = state.form((objective,))
        supports = Supports.of_form(form, self.options.price)
        fits = [supports.best(state.path(form)[1])]
        if not self.options.faithful:
            own = supports.possible(present)
            fits = [supports.settle(f) for f in (*fits, own) if f is not None]
        best = min((f for f in fits if f is not None), key=supports.criterion, default=None)
        return None if best is None else (best, supports)

    def _merged(self, picked: Ints, forced: Mask, criterion: float) -> Move:
        """Atoms of one group at several values become one, where it is heaviest."""
        p = len(self.met.fitted.law.unknown)
        columns = self.factor[:, p:-1][:, picked]
        coef = np.linalg.lstsq(columns, self.factor[:, -1], rcond=1e-10)[0]
        weight = np.abs(coef) * np.linalg.norm(columns, axis=0)
        values = self.met.fitted.law.values_of(self.met.fitted.coef)
        group, value = self.group[picked], self.value[picked]
        new = [int(g) for g in np.unique(group) if g >= 0 and g not in self.active]
        # A group that comes in begins at the value of its heaviest atom, and pays for its parameters.
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
        return ({one.name: now[one.name] for one in group.unknown},)
    # Few values: what is absent needs a sign that it is worth a fit, which then finds its value.
    thin = max(-(-len(group.values) // EFFORT.moves_coarse), 1)
    return tuple(group.values[thin // 2 :: thin])


def _each(mask: Mask) -> Iterator[Mask]:
    for place in np.flatnonzero(mask):
        yield np.arange(len(mask)) == place
