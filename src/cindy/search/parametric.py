"""The search for laws whose terms hold unknown parameters.

1. Starts come from atoms, which are terms at scanned values of their parameters, at measured states
   (`_starts_of`). Several are followed, until two lead to one model.
2. From a start, states, coefficients and parameters are fitted together. Terms are chosen at the fitted
   states, with the parameters free to follow (`moves`), until the support comes back (`ParametricSearch`).
3. Models with other terms in one equation of a model near the best are fitted (`look_around`).
4. The models are compared by −2 log p, with each parameter at the price of a coefficient.

The cost is that of some tens of fits of the states.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence, Set
from dataclasses import dataclass, replace
from heapq import heappop, heappush
from itertools import count, islice
from typing import Any, ClassVar

import numpy as np

from cindy._arrays import Floats, Ints
from cindy.errors import DataError
from cindy.model import between
from cindy.search.loop import Met, Search
from cindy.search.moves import Move, Moves
from cindy.search.request import Options
from cindy.search.scan import Atoms, Group, Values, groups_in, groups_of
from cindy.search.starts import NEAR, Picking
from cindy.selection import EFFORT, Selection, SupportFit, Supports
from cindy.states import NEARBY, Fitted, Motion, drift_of_data, drift_of_nothing, first_objective


@dataclass(eq=False)
class ParametricSearch(Search):
    """The search where terms hold parameters: a fit is of states, coefficients and parameters together, and
    the next support is that of the best move."""

    groups: tuple[Group, ...] = ()

    rounds: ClassVar[int] = 8

    def rank(self, met: Met) -> Any:
        return met.order

    def key(self, start: Fitted) -> bytes:
        """Support and parameters: the same terms may have two valleys."""
        return super().key(start) + start.coef[len(start.law.support) :].tobytes()

    def start(self, fitted: Fitted, move: Move) -> Fitted:
        """Fitted states with the terms, coefficients and parameters of a move."""
        groups = groups_in(self.groups, move.support // self.motion.states)
        unknown = [parameter for g in groups for parameter in self.groups[g].unknown]
        places = [parameter.place(move.values[parameter.name]) for parameter in unknown]
        law = replace(self.motion.law(move.support), unknown=tuple(unknown))
        return replace(fitted, law=law, coef=np.concatenate([move.coef, places]), settled=False)

    def fit(self, start: Fitted, levels: tuple[float, ...]) -> Met | None:
        try:
            return super().fit(start, levels)
        except DataError:
            # A term has left its domain: there is no law at these states.
            self.met[self.key(start)] = None
            return None

    def following(self, met: Met, seen: Set[bytes]) -> Fitted | None:
        """The most promising move to a support that was not seen."""
        moves = Moves.of(self.motion, self.options, self.groups, met)
        new = [] if moves is None else [m for m in moves.all() if m.support.tobytes() not in seen]
        return self.start(met.fitted, new[0]) if new else None

    def look_around(self) -> None:
        """Step 3: fit models with other terms in one equation of a model near the best, by their promise.

        A promise is the criterion of the model at whose states a move was found, and by how much the rows
        there say that the move lowers it. A model that is fitted is looked around from too, if it is near
        the best. The law is often two or three such moves from the models that starts lead to.
        """
        promised, order = list[tuple[float, int, Fitted]](), count()
        looked, known = set[bytes](), {met.support.tobytes() for met in self.models}
        for _ in range(EFFORT.parametric_looks):
            for met in self.models:
                if met.support.tobytes() not in looked and met.criterion < self.models[0].criterion + NEAR:
                    looked.add(met.support.tobytes())
                    for promise, start in self._around(met):
                        heappush(promised, (promise, next(order), start))
            while promised and promised[0][-1].law.support.tobytes() in known:
                heappop(promised)
            if not promised or promised[0][0] >= self.models[0].criterion + EFFORT.starts_close:
                return
            start = heappop(promised)[-1]
            known.add(start.law.support.tobytes())
            self.fit(start, NEARBY)

    def _around(self, met: Met) -> Iterator[tuple[float, Fitted]]:
        """The starts that moves from a model lead to, each with its promise."""
        moves = Moves.of(self.motion, self.options, self.groups, met)
        if moves is None:
            return
        for move in moves.others():
            yield met.criterion + move.criterion - moves.criterion, self.start(met.fitted, move)


def search_with_parameters(motion: Motion, options: Options, variance: Floats) -> tuple[Met, ...]:
    """All models that were met, the best first."""
    # A measurement at which a term is not defined, because of its noise, must not end the search before the
    # states are fitted.
    first = _motion_inside(motion)
    loop = ParametricSearch(motion, options, groups=groups_of(first))
    measured = Fitted(
        motion.law(np.zeros(0, dtype=np.intp)),
        tuple(record.y for record in first.records),
        np.zeros(0),
        variance,
        variance / motion.step,
    )
    reached: list[Met] = []
    for start in islice(_starts_of(first, options, loop.groups, variance), EFFORT.parametric_most_starts):
        met = loop.follow(loop.start(measured, start))
        if met is None:
            continue
        # The likelihood may have several maxima in the parameters, so the same terms are not enough.
        agreed = any(
            np.array_equal(met.support, other.support)
            and abs(met.criterion - other.criterion) < EFFORT.parametric_agree
            for other in reached
        )
        reached.append(met)
        least = min(other.criterion for other in reached)
        if (
            agreed
            and len(reached) >= EFFORT.parametric_least_starts
            and met.criterion <= least + EFFORT.parametric_agree
        ):
            break
    if not options.faithful:
        loop.look_around()
    return tuple(loop.models)


@dataclass(eq=False)
class _PickingWithParameters(Picking, ParametricSearch):
    """The search by a rule without a price, which picks from the rows at fitted states and parameters.

    Both are fitted again on what it picks. Parameters of terms that no model had yet stand in mid-range.
    """

    def plain(self, met: Met) -> tuple[Motion, Fitted]:
        motion = plain_motion(self.motion, met)
        return motion, plain_fitted(motion, met)

    def begun(self, met: Met, support: Ints, coef: Floats) -> Fitted:
        return self.start(met.fitted, Move(support, coef, values_of(self.motion, met), np.nan))


def picked_with_parameters(rule: Selection, motion: Motion, options: Options, best: Met) -> Met:
    """The model that a rule without a price picks, from the states and parameters of the best model on."""
    groups = groups_of(_motion_inside(motion))
    loop = _PickingWithParameters(motion, options, groups=groups, rule=rule)
    loop.met[loop.key(best.fitted)] = best
    return loop.follow(best.fitted) or best


def values_of(motion: Motion, met: Met) -> Values:
    """Values of all parameters: those of terms that a model does not have stand in mid-range."""
    known = met.fitted.law.values_of(met.fitted.coef)
    return {
        parameter.name: known.get(parameter.name, parameter.middle) for parameter in motion.basis.unknowns()
    }


def plain_motion(motion: Motion, met: Met) -> Motion:
    """The motion with the parameters of a model as numbers."""
    return replace(motion, basis=motion.basis.at(values_of(motion, met)))


def plain_fitted(motion: Motion, met: Met) -> Fitted:
    """The fitted states of a model, whose parameters are numbers in the terms of a motion."""
    return replace(met.fitted, law=motion.law(met.support), coef=met.fitted.coef[: len(met.support)])


def _motion_inside(motion: Motion) -> Motion:
    """The motion with measurements between their neighbours where terms are not defined at them."""
    flat = np.concatenate([record.points(record.y) for record in motion.records])
    outside = motion.basis.outside_domain(motion.variables, flat)
    if not outside.any():
        return motion
    records, first = [], 0
    for record in motion.records:
        undefined = outside[first : first + record.y[..., 0].size].reshape(record.y.shape[:2])
        first += undefined.size
        moved = [between(record.grid.t, x, mask) for x, mask in zip(record.y, undefined, strict=True)]
        records.append(replace(record, y=np.stack(moved)))
    return replace(motion, records=tuple(records))


def _starts_of(motion: Motion, options: Options, groups: Sequence[Group], variance: Floats) -> Iterator[Move]:
    """Step 1: starts from the rows of all atoms at measured states, the least criterion first.

    Where the loss has two local minima in a parameter there is a start in each. Two guesses of how noise
    drifts give two lists.
    """
    atoms = Atoms.of(motion, groups, [group.values for group in groups])
    rows = atoms.rows(options.rows, motion.states)
    loop = Search(atoms.motion(motion), replace(options, rows=rows))
    seen: set[bytes] = set()
    for drift in (drift_of_data(motion, variance), drift_of_nothing(motion)):
        first = _First(loop, atoms, groups, drift)
        for start in sorted(first.starts(), key=lambda start: start.criterion):
            key = start.support.tobytes() + repr(sorted(start.values.items())).encode()
            if key not in seen:
                seen.add(key)
                yield start


class _First:
    """The rows of all atoms at measured states, for one guess of how noise drifts.

    pairs: the coefficient of the basis that each candidate stands for
    group, value: the group of each candidate's term, and which of its values the parameters have
    """

    def __init__(self, loop: Search, atoms: Atoms, groups: Sequence[Group], drift: Floats) -> None:
        self.loop, self.groups = loop, groups
        self.form = loop.form((first_objective(loop.motion, drift),))
        self.supports = Supports.of_form(self.form, loop.options.price)
        self.pairs, self.group, self.value = atoms.columns(loop.columns, loop.motion.states)

    def starts(self) -> Iterator[Move]:
        """Models of sizes around the best on the path of the conditional gradient.

        Where terms may come from elsewhere, also those on a greedy path, and those that grow from each group.
        """
        faithful = self.loop.options.faithful
        paths = [self.loop.path(self.form)[1]]
        paths += [] if faithful else [self.greedy()]
        for path in paths:
            best = replace(self.supports, known=False).best(path)
            if best is None:
                continue
            for share in EFFORT.parametric_shares:
                size = share * len(best.support)
                yield from self.profiled(min(path, key=lambda support: abs(len(support) - size)))
        for g in range(0 if faithful else len(self.groups)):
            grown = self.grown(g)
            if grown is not None:
                yield from self.profiled(grown.support)

    def grown(self, g: int) -> SupportFit | None:
        """The best support that grows from all terms of a group, at a few of its values."""
        fits = []
        thin = max(len(self.groups[g].values) // EFFORT.parametric_grown, 1)
        for v in range(thin // 2, len(self.groups[g].values), thin):
            seed = self.supports.possible(np.flatnonzero((self.group == g) & (self.value == v)))
            if seed is not None:
                fits.append(self.supports.settle(seed))
        return min(fits, key=self.supports.criterion, default=None)

    def greedy(self) -> list[Ints]:
        """Supports that grow by the atom of largest gain; a group stays at the value it entered with."""
        support = np.zeros(0, dtype=np.intp)
        path: list[Ints] = []
        most = 4 * self.loop.motion.states + 4
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
                pairs = np.unique(self.pairs[support])
                chosen, _ = self._at_best_values(pairs, chosen)
                support = self._columns(pairs, chosen)
            path.append(support)
        return path

    def profiled(self, support: Ints) -> Iterator[Move]:
        """The support with one value for each group, where the loss is least, and at its second minimum."""
        fit = self.supports.possible(support)
        if fit is None:
            return
        chosen: dict[int, int] = {}
        for g in np.unique(self.group[fit.support]):
            if g >= 0:
                mine = np.flatnonzero(self.group[fit.support] == g)
                # Several atoms of one group may stand for one term whose parameter lies between them; the
                # heaviest is nearest.
                heaviest = mine[np.argmax(np.abs(fit.x[mine]))]
                chosen[int(g)] = int(self.value[fit.support[heaviest]])
        pairs = np.unique(self.pairs[fit.support])
        chosen, profile = self._at_best_values(pairs, chosen)
        yield from self._start(pairs, chosen)
        for g, loss in profile.items():
            second = self._second_minimum(g, chosen[g], loss)
            if second is not None:
                yield from self._start(pairs, {**chosen, g: second})

    def _at_best_values(
        self, pairs: Ints, chosen: dict[int, int]
    ) -> tuple[dict[int, int], dict[int, Floats]]:
        """Values of least loss, one group after the other, and the loss over the values of each."""
        profile: dict[int, Floats] = {}
        for _ in range(EFFORT.parametric_sweeps if len(chosen) > 1 else 1):
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
        return chosen, profile

    def _columns(self, pairs: Ints, chosen: dict[int, int]) -> Ints:
        """The columns of the terms of a support, with parameters at the chosen values."""
        chosen_atoms = self.group < 0
        for g, v in chosen.items():
            chosen_atoms |= (self.group == g) & (self.value == v)
        return np.flatnonzero(np.isin(self.pairs, pairs) & chosen_atoms)

    def _second_minimum(self, g: int, best: int, loss: Floats) -> int | None:
        """The value of a group at the second local minimum of the loss that is no neighbour of the best."""
        group = self.groups[g]
        low = [
            v
            for v in np.argsort(loss)
            if np.isfinite(loss[v]) and v != best and not np.any(loss[group.neighbours(int(v))] < loss[v])
        ]
        far = [int(v) for v in low if v not in group.neighbours(best)]
        return far[0] if far else None

    def _start(self, pairs: Ints, chosen: dict[int, int]) -> Iterator[Move]:
        """The start on some terms with parameters at the chosen values, if there is one."""
        columns = self._columns(pairs, chosen)
        fit: SupportFit | None = self.supports.possible(columns)
        if fit is None:
            return
        order = np.argsort(self.pairs[fit.support])
        coef = (fit.x * self.form.unit.ravel()[fit.support])[order]
        values = {parameter.name: parameter.middle for group in self.groups for parameter in group.unknown}
        for g, v in chosen.items():
            values.update(self.groups[g].values[v])
        rows = self.supports.rows
        numbers = fit.free + sum(len(self.groups[g].unknown) for g in chosen)
        criterion = rows * np.log(max(fit.loss, 1e-300)) + self.loop.options.price * numbers
        yield Move(self.pairs[fit.support][order], coef, values, float(criterion))
