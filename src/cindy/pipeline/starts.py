"""Starts: models at measured states whose terms stand at scanned values of their parameters."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from cindy._types import Floats
from cindy.pipeline.models_met import Search
from cindy.pipeline.moves import Move
from cindy.pipeline.options import Options
from cindy.pipeline.scan import Atoms, Group
from cindy.problem import StandardForm
from cindy.selection import SupportFit, Supports
from cindy.states import Motion, drift_of_data, drift_of_nothing, first_objective

__all__ = ["starts_of"]

Ints = NDArray[np.intp]
Values = dict[str, float]

_SHARES = (1.0, 0.5, 1.5)
"""Sizes of the starts, in units of the best model on a path."""
_SWEEPS = 3
"""Over the groups, each at its best value beside the others; values that stay end it sooner."""
_GROWN = 9
"""Values of a group that supports grow from."""


def starts_of(motion: Motion, options: Options, groups: Sequence[Group], variance: Floats) -> Iterator[Move]:
    """The most promising first; where the profile of a parameter has two valleys, one in each."""
    atoms = Atoms.of(motion, groups, [group.values for group in groups])
    rows = atoms.rows(options.rows, motion.states)
    state = Search(atoms.motion(motion), replace(options, rows=rows))
    seen: set[bytes] = set()
    for drift in (drift_of_data(motion, variance), drift_of_nothing(motion)):
        first = _First.of(state, atoms, groups, drift)
        made = sorted(first.starts(), key=lambda start: start.criterion)
        for start in made:
            key = start.support.tobytes() + repr(sorted(start.values.items())).encode()
            if key not in seen:
                seen.add(key)
                yield start


@dataclass(frozen=True, eq=False)
class _First:
    """The rows of all atoms at measured states.

    pairs: the coefficient of the basis that each candidate stands for
    group, value: what each candidate's term belongs to, and where its parameters are
    """

    state: Search
    form: StandardForm
    supports: Supports
    groups: Sequence[Group]
    pairs: Ints
    group: Ints
    value: Ints

    @classmethod
    def of(cls, state: Search, atoms: Atoms, groups: Sequence[Group], drift: Floats) -> _First:
        form = state.form((first_objective(state.motion, drift),))
        terms = state.columns // state.motion.states
        return cls(
            state,
            form,
            Supports.of_form(form, state.options.price),
            groups,
            atoms.pair(state.columns, state.motion.states),
            atoms.group[terms],
            atoms.value[terms],
        )

    def starts(self) -> Iterator[Move]:
        """Models on the path of the conditional gradient and, where terms may come from elsewhere, on that
        of the largest gain, sizes around the best of each."""
        options = self.state.options
        own = self.state.path(self.form)[1]
        for path in (own,) if options.faithful else (own, self.greedy()):
            best = replace(self.supports, known=False).best(path)
            if best is None:
                continue
            for share in _SHARES:
                near = min(path, key=lambda s: abs(len(s) - share * len(best.support)))
                yield from self.profiled(near)
        for g in range(0 if options.faithful else len(self.groups)):
            whole = self.grown(g)
            if whole is not None:
                yield from self.profiled(whole.support)

    def grown(self, g: int) -> SupportFit | None:
        """The best support that grows from all terms of a group, at a few of its values."""
        made = []
        thin = max(len(self.groups[g].values) // _GROWN, 1)
        for v in range(thin // 2, len(self.groups[g].values), thin):
            seed = self.supports.possible(np.flatnonzero((self.group == g) & (self.value == v)))
            if seed is not None:
                made.append(self.supports.settle(seed))
        return min(made, key=self.supports.criterion, default=None)

    def greedy(self) -> list[Ints]:
        """Supports that grow by the atom of largest gain; a group stays at the value it entered with."""
        support = np.zeros(0, dtype=np.intp)
        made: list[Ints] = []
        most = 4 * self.state.motion.states + 4
        chosen: dict[int, int] = {}
        while len(support) < most:
            fit = self.supports.possible(support)
            if fit is None:
                break
            gain = self.supports.gains(fit)
            for g, v in chosen.items():
                gain[(self.group == g) & (self.value != v)] = 0.0
            best = int(np.argmax(gain))
            if gain[best] <= 0:
                break
            support = np.union1d(support, [best])
            if self.group[best] >= 0:
                chosen[int(self.group[best])] = int(self.value[best])
                pairs, chosen, _ = self._settled(np.unique(self.pairs[support]), chosen)
                support = self._columns(pairs, chosen)
            made.append(support)
        return made

    def profiled(self, support: Ints) -> Iterator[Move]:
        """The support with one value for each group, where the loss is least; and in its second valley."""
        fit = self.supports.possible(support)
        if fit is None:
            return
        chosen: dict[int, int] = {}
        for g in np.unique(self.group[fit.support]):
            if g >= 0:
                mine = np.flatnonzero(self.group[fit.support] == g)
                heaviest = mine[np.argmax(np.abs(fit.x[mine]))]
                chosen[int(g)] = int(self.value[fit.support[heaviest]])
        pairs, chosen, profile = self._settled(np.unique(self.pairs[fit.support]), chosen)
        yield from self._start(pairs, chosen)
        for g, loss in profile.items():
            second = self._second_valley(g, chosen[g], loss)
            if second is not None:
                yield from self._start(pairs, {**chosen, g: second})

    def _settled(self, pairs: Ints, chosen: dict[int, int]) -> tuple[Ints, dict[int, int], dict[int, Floats]]:
        """Values of least loss, one group after the other, and the loss over the values of each."""
        profile: dict[int, Floats] = {}
        for _ in range(_SWEEPS if len(chosen) > 1 else 1):
            before = dict(chosen)
            for g in chosen:
                loss = np.full(len(self.groups[g].values), np.inf)
                for v in range(len(loss)):
                    fit = self.supports.possible(self._columns(pairs, {**chosen, g: v}))
                    loss[v] = np.inf if fit is None else fit.loss
                chosen = {**chosen, g: int(np.argmin(loss))}
                profile[g] = loss
            if chosen == before:
                break
        return pairs, chosen, profile

    def _columns(self, pairs: Ints, chosen: dict[int, int]) -> Ints:
        """Where the terms of a support stand, parameters at the values chosen."""
        here = np.isin(self.pairs, pairs)
        fitting = self.group < 0
        for g, v in chosen.items():
            fitting |= (self.group == g) & (self.value == v)
        return np.flatnonzero(here & fitting)

    def _second_valley(self, g: int, best: int, loss: Floats) -> int | None:
        group = self.groups[g]
        low = [
            v
            for v in np.argsort(loss)
            if np.isfinite(loss[v]) and v != best and not np.any(loss[group.neighbours(int(v))] < loss[v])
        ]
        far = [int(v) for v in low if v not in group.neighbours(best)]
        return far[0] if far else None

    def _start(self, pairs: Ints, chosen: dict[int, int]) -> Iterator[Move]:
        columns = self._columns(pairs, chosen)
        fit: SupportFit | None = self.supports.possible(columns)
        if fit is None:
            return
        order = np.argsort(self.pairs[fit.support])
        coef = (fit.x * self.form.unit.ravel()[fit.support])[order]
        values = {one.name: one.middle for group in self.groups for one in group.unknown}
        for g, v in chosen.items():
            values.update(self.groups[g].values[v])
        rows = self.supports.rows
        numbers = fit.free + sum(len(self.groups[g].unknown) for g in chosen)
        score = rows * np.log(max(fit.loss, 1e-300)) + self.state.options.price * numbers
        yield Move(self.pairs[fit.support][order], coef, values, float(score))
