"""The search for laws whose terms hold unknown parameters.

Starts come from atoms: terms at scanned values of their parameters, at measured states. From a start, states,
coefficients and parameters are fitted together; terms are chosen at the fitted states, the parameters free to
follow; and the models that were met are compared by −2 log p, each parameter at the price of a coefficient.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from itertools import islice, product

import numpy as np
from numpy.typing import NDArray

from cindy._types import Floats
from cindy.errors import DataError
from cindy.pipeline.domain import motion_inside
from cindy.pipeline.models_met import Met, Search
from cindy.pipeline.moves import Move, Moves
from cindy.pipeline.options import Options
from cindy.pipeline.scan import Group, groups_of
from cindy.pipeline.starts import starts_of
from cindy.states import LEVELS, NEARBY, Fitted, Motion

__all__ = ["ParametricSearch", "search_with_parameters"]

Ints = NDArray[np.intp]

_ROUNDS = 8
"""Passes from one start."""
_AGREE = 0.5
"""Units of −2 log p within which two ways have led to the same place."""
_LEAST_STARTS = 3
"""Two starts may come from neighbours on one path: their agreement alone says little (parameters)."""
_MOST_STARTS = 8
"""A bound on work: without agreement by then, the best of them is taken (parameters)."""
_SOURCES, _CROSSED = 4, 8
"""Models that each equation is taken from where several are near, and laws made of them that are fitted.
With them a chemostat at 5 % noise is found in one draw of five, else in none (benchmark: parameters)."""
_LOOKS = 3
"""How often a better model is looked around from; one is typical."""
_AROUND = 6
"""Exchanges that are fitted, the most promising: with them the truth is among the near-equal models of the
genetic switch at 5 % noise where another fits a little better (parameters)."""
_NEAR = 14.0
"""Units of the criterion up to which an exchange is fitted: beyond, it would not be told as near."""


@dataclass(eq=False)
class ParametricSearch:
    """The models met so far, and how to go on from one."""

    motion: Motion
    options: Options
    groups: tuple[Group, ...]
    met: list[Met] = field(default_factory=list)

    def unknown_of(self, support: Ints) -> list[int]:
        """The groups whose terms a support has."""
        terms = support // self.motion.states
        return [g for g, group in enumerate(self.groups) if np.isin(group.terms, terms).any()]

    def fit(self, start: Fitted, move: Move, levels: Sequence[float]) -> Met | None:
        """States, coefficients and parameters on a support; None where they do not settle."""
        used = [one for g in self.unknown_of(move.support) for one in self.groups[g].unknown]
        places = [one.place(move.values[one.name]) for one in used]
        law = replace(self.motion.law(move.support), unknown=tuple(used))
        begin = replace(start, law=law, coef=np.concatenate([move.coef, places]), settled=False)
        try:
            met = Search(self.motion, self.options).fit(begin, tuple(levels))
        except DataError:
            # A term has left its domain: no law for these states.
            return None
        if met is None:
            return None
        met = replace(met, criterion=met.criterion + self.options.price * len(used))
        self.met.append(met)
        return met

    def follow(self, start: Move, begin: Fitted) -> Met | None:
        """From a start, fit and move until nothing new is promised: the best model on that way."""
        best: Met | None = None
        seen: set[bytes] = set()
        now, move = begin, start
        levels: tuple[float, ...] = LEVELS
        for _ in range(_ROUNDS):
            met = self.fit(now, move, levels)
            seen.add(move.support.tobytes())
            if met is None:
                return best
            if best is None or met.criterion < best.criterion:
                best = met
            moves = Moves.of(self.motion, self.options, self.groups, met)
            new = [] if moves is None else [m for m in moves.all() if m.support.tobytes() not in seen]
            if not new:
                return best
            now, move, levels = met.fitted, new[0], NEARBY
        return best

    def recombine(self) -> None:
        """Fit laws whose equations come from different models that were met, the most promising ones.

        Starts that end at different models are often right in different equations.
        """
        known = {met.support.tobytes() for met in self.met}
        sources = [self._sources(j) for j in self.motion.sought]
        pairs = sorted(product(*sources), key=lambda mets: sum(met.criterion for met in mets))
        tried = 0
        for mets in pairs:
            if tried >= _CROSSED:
                return
            move = self._joined(mets)
            if move.support.tobytes() not in known:
                known.add(move.support.tobytes())
                tried += 1
                self.fit(min(mets, key=lambda met: met.criterion).fitted, move, NEARBY)

    def _sources(self, equation: int) -> list[Met]:
        """The best models that differ in one equation, and explain the data about as well as any."""
        found: dict[bytes, Met] = {}
        ranked = sorted(self.met, key=lambda met: met.criterion)
        for met in (m for m in ranked if m.criterion < ranked[0].criterion + _NEAR):
            found.setdefault(met.support[met.support % self.motion.states == equation].tobytes(), met)
        return list(found.values())[:_SOURCES]

    def _joined(self, mets: Sequence[Met]) -> Move:
        """One equation of each model, with the parameters of the best that has them."""
        supports, coefs, values = [], [], dict[str, float]()
        for equation, met in zip(self.motion.sought, mets, strict=True):
            mine = met.support % self.motion.states == equation
            supports.append(met.support[mine])
            coefs.append(met.fitted.coef[: len(met.support)][mine])
        for met in sorted(mets, key=lambda met: -met.criterion):
            values.update(met.fitted.law.values_of(met.fitted.coef))
        order = np.argsort(np.concatenate(supports))
        return Move(np.concatenate(supports)[order], np.concatenate(coefs)[order], values, np.nan)

    def look_around(self) -> None:
        """Fit what has a term in the place of another, few terms less or a group less than the best, while
        that is better.

        Starts lead to one of several models that fit almost equally well; the others are told too.
        """
        for _ in range(_LOOKS):
            best = min(self.met, key=lambda m: m.criterion, default=None)
            moves = None if best is None else Moves.of(self.motion, self.options, self.groups, best)
            if best is None or moves is None:
                return
            known = {met.support.tobytes() for met in self.met}
            for move in (*moves.fewer(), *moves.without_a_group(), *moves.exchanges()[:_AROUND]):
                near = move is not None and move.criterion < moves.criterion + _NEAR
                if move is not None and near and move.support.tobytes() not in known:
                    known.add(move.support.tobytes())
                    self.fit(best.fitted, move, NEARBY)
            if min(met.criterion for met in self.met) >= best.criterion:
                return


def search_with_parameters(motion: Motion, options: Options, variance: Floats) -> tuple[Met, ...]:
    """All models that were met, the best first."""
    first = motion_inside(motion)
    state = ParametricSearch(motion, options, groups_of(first))
    begin = Fitted(
        motion.law(np.zeros(0, dtype=np.intp)),
        tuple(record.y for record in first.records),
        np.zeros(0),
        variance,
        variance / motion.step,
    )
    reached: list[Met] = []
    for start in islice(starts_of(first, options, state.groups, variance), _MOST_STARTS):
        met = state.follow(start, begin)
        if met is None:
            continue
        agreed = any(_same(met, other) for other in reached)
        reached.append(met)
        least = min(other.criterion for other in reached)
        if agreed and len(reached) >= _LEAST_STARTS and met.criterion <= least + _AGREE:
            break
    if not options.faithful:
        state.recombine()
        state.look_around()
    return tuple(sorted(state.met, key=lambda m: m.criterion))


def _same(met: Met, other: Met) -> bool:
    return np.array_equal(met.support, other.support) and abs(met.criterion - other.criterion) < _AGREE
