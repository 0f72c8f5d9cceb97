"""Ways through the supports of one triangle, and the supports near a given one.

Starts: `eliminated` is backward elimination of the whole dictionary, `greedy` forward selection, `regrown`
goes on where the two and the solver's path disagree, and `equation_by_equation` does all of this for each
equation alone. `ranking` orders coefficients by both directions from a given support.

Near models: `rivals` are one or two moves away from a support, `recombined` have other terms in one equation;
the criterion of either is almost as small.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import combinations
from math import comb

import numpy as np
import scipy.linalg

from cindy._arrays import Floats, Ints
from cindy.selection.effort import EFFORT
from cindy.selection.supports import SupportFit, Supports


@dataclass(frozen=True, eq=False)
class _Stage:
    """A support that backward elimination passes through.

    left: the coefficients that left in the last step; strength: their |z| then
    """

    support: Ints
    loss: float
    free: int
    left: Ints
    strength: float


@dataclass(frozen=True, eq=False)
class Rival:
    """A fit on another support than the model's, and by how much its criterion is larger."""

    fit: SupportFit
    above: float


def eliminated(supports: Supports, first: Sequence[int] | Ints = ()) -> SupportFit | None:
    """The best support in a backward elimination of the whole dictionary; None where that is too large.

    first: where terms depend on each other, the coefficients that elimination begins with if possible
    """
    if supports.size > EFFORT.orders_eliminated or supports.rows <= supports.size:
        return None
    start = supports.possible(_independent(supports, first))
    if start is None:
        return None
    return supports.possible(_best_below(supports, start))


def recombined(
    supports: Supports, own: SupportFit, groups: Iterable[Ints], within: float, most: int
) -> list[Rival]:
    """Models with other terms in one group of columns and a criterion larger by at most `within`.

    Where terms are nearly collinear on the data, a better support may differ in all terms of an equation, and
    exchanges of one or two do not lead there. So all combinations of as many terms as the group has now, and
    of fewer, are compared, unless there are too many. From the best the moves of `settle` follow.

    groups: the columns of each equation; most: how many models are returned at most, the best first
    """
    near: dict[bytes, Rival] = {}
    least = supports.criterion(own)
    for columns in () if len(supports.constraints) else groups:
        inside = np.isin(own.support, columns)
        rest = own.support[~inside]
        # Unit columns orthogonal to the terms of the other equations.
        others = np.linalg.qr(supports.design[:, rest])[0]
        alone = supports.design[:, columns] - others @ (others.T @ supports.design[:, columns])
        alone /= np.maximum(np.linalg.norm(alone, axis=0), 1e-300)
        for count in range(1, int(inside.sum()) + 1):
            sets = combinations_of(len(columns), count)
            above = supports.price[columns][sets].sum(axis=1) - gains_of(sets, alone, supports.target)
            for chosen in sets[np.argsort(above)[: most + 1]]:
                fit = supports.possible(np.sort(np.append(rest, columns[chosen])))
                if fit is None or supports.criterion(fit) > least + within:
                    continue
                # Beside other terms more may be significant, but the moves may also lead back to the model.
                for end in (supports.settle(fit), fit):
                    if not np.array_equal(end.support, own.support):
                        near[end.support.tobytes()] = Rival(end, supports.criterion(end) - least)
                        break
    return sorted(near.values(), key=lambda rival: rival.above)[:most]


def combinations_of(size: int, count: int) -> Ints:
    """(sets, count): all combinations of so many out of so many columns; none where there are too many."""
    if comb(size, count) > EFFORT.orders_combinations:
        return np.zeros((0, count), dtype=np.intp)
    sets = list(combinations(range(size), count))
    return np.array(sets, dtype=np.intp).reshape(len(sets), count)


def gains_of(sets: Ints, design: Floats, target: Floats) -> Floats:
    """(sets,) by how much each set of unit columns lowers χ²."""
    # With the ridge dependent columns can be solved for too; the caller fits the best without it.
    gram, pull = design.T @ design + 1e-10 * np.eye(design.shape[1]), design.T @ target
    x = np.linalg.solve(gram[sets[:, :, None], sets[:, None, :]], pull[sets][..., None])[..., 0]
    return np.asarray(np.sum(x * pull[sets], axis=1))


def _best_below(supports: Supports, start: SupportFit) -> Ints:
    """The support of least criterion that backward elimination from a start passes."""
    best, least = start.support, np.inf
    for stage in _way_down(supports, start):
        # χ² only rises: once it exceeds the best criterion without any price, all that follows is worse.
        if supports.value(stage.loss, 0.0) > least:
            break
        value = supports.value(stage.loss, supports.cost(stage.support, stage.free))
        if value < least:
            best, least = stage.support, value
    return best


def _independent(supports: Supports, first: Sequence[int] | Ints) -> Ints:
    """A largest set of independent columns, with as many as possible of those preferred."""
    size = np.where(supports.lengths > 0, supports.lengths, 1.0)
    # A pivoted factorisation takes the longest column first, so preferred columns are made long.
    length = np.where(np.isin(np.arange(supports.size), np.asarray(first, dtype=np.intp)), 1e3, 1.0)
    unit = supports.design / size * (supports.lengths > 0)
    r, order = scipy.linalg.qr(unit * length, mode="r", pivoting=True)
    pivots = np.abs(np.diagonal(r)) / length[order[: len(np.diagonal(r))]]
    keep = order[: len(pivots)][pivots > 1e-11]
    if supports.coupled:
        # Coefficients that equalities connect stay together; the fit's pseudo-inverse allows for dependence.
        keep = np.flatnonzero(np.isin(supports.group, supports.group[keep]))
    return np.sort(keep.astype(np.intp))


def _way_down(supports: Supports, start: SupportFit) -> Iterator[_Stage]:
    """Backward elimination: supports from a start down to the required one, the cheapest coefficient first.

    With S the root of the covariance, a coefficient leaves by a reflection that turns its row s_i onto one
    axis, which is then cut off: x ← x − S s_i x_i / |s_i|², χ² ← χ² + x_i² / |s_i|². This needs no new
    factorisation, and with n coefficients an n-th of the work of elimination by refits.
    """
    names, x, spread, loss = start.support, start.x.copy(), start.spread.copy(), start.loss
    error = np.linalg.norm(spread, axis=1)
    yield _Stage(names, loss, spread.shape[1], names[:0], 0.0)
    fixed = np.isin(names, supports.required)
    # With as many directions as coefficients none is tied to another.
    untied = spread.shape[0] == spread.shape[1]
    while spread.shape[1]:
        squares = np.einsum("ij,ij->i", spread, spread)
        movable = (squares > 0) & ~fixed
        if not movable.any():
            break
        # z² of a coefficient is the rise of χ² if it leaves.
        rise = np.full(len(x), np.inf)
        np.divide(x**2, squares, out=rise, where=movable)
        i = int((rise - supports.price[names]).argmin())
        # Least squares under x_i = 0: move along the i-th row of the covariance until x_i vanishes.
        size = float(np.sqrt(squares[i]))
        axis = spread[i] / size
        loss += float(rise[i])
        x = x - spread @ axis * (x[i] / size)
        # Householder: reflect row i of the root onto the first axis, and cut that axis off. The sign avoids
        # cancellation.
        axis[0] += np.copysign(1.0, axis[0])
        turned = spread @ axis * (2.0 / float(axis @ axis))
        spread = spread[:, 1:] - turned[:, None] * axis[1:]
        gone = np.zeros(len(x), dtype=bool)
        if not untied:
            # Coefficients that equalities tie to it are zero now and cannot vary.
            gone = (np.linalg.norm(spread, axis=1) <= 1e-7 * error) & (np.abs(x) <= 1e-6 * error) & ~fixed
        gone[i] = True
        left, stays = names[gone], ~gone
        names, x, fixed = names[stays], x[stays], fixed[stays]
        spread, error = spread[stays], error[stays]
        yield _Stage(names, loss, spread.shape[1], left, float(np.sqrt(max(rise[i], 0.0))))


class Growth:
    """A support to which terms are added one by one, with the gains of all columns outside.

    A column c that is added gives one new direction q, the part of c orthogonal to the directions so far.
    With b_j the squared length of column j beyond these directions and r the residual, the update is

        b_j ← b_j − (qᵀ c_j)²,   c_jᵀ r ← c_jᵀ r − (qᵀ r)(qᵀ c_j),   χ² ← χ² − (qᵀ r)²

    This costs one product with the design for a term; a new fit costs as many as the support has terms. Of
    very many columns the products with each other are known, and qᵀ c_j follows without the design. Under
    equalities, which add several columns at a time, the support is fitted anew.
    """

    def __init__(self, supports: Supports, fit: SupportFit) -> None:
        self.supports = supports
        self._begin(fit)

    def _begin(self, fit: SupportFit) -> None:
        self.support, self.loss, self.free = fit.support, fit.loss, fit.free
        self._directions, self._left = fit.directions.T, fit.left
        self._inside, self._pull = self.supports.products_at(fit)
        self._beyond = self.supports.lengths**2 - np.sum(self._inside**2, axis=0)

    @property
    def criterion(self) -> float:
        return self.supports.value(self.loss, self.supports.cost(self.support, self.free))

    def gains(self) -> Floats:
        """(coefficients,) by how much χ² falls when each term alone is added, as `Supports.gains`."""
        return self.supports.gains_by(self.support, self._beyond, self._pull)

    def grow(self, without: int = -1) -> tuple[Ints, float] | None:
        """Add the term of largest gain, and those that equalities connect to it: these terms, and its gain.

        None where no term has a gain, or none can be added. without: a term that stays away
        """
        gain = self.gains()
        gain[without if without >= 0 else self.support[:0]] = 0.0
        place = int(gain.argmax()) if len(gain) else -1
        taken = self.take(place) if place >= 0 and gain[place] > 0.0 else None
        return None if taken is None else (taken, float(gain[place]))

    def take(self, place: int) -> Ints | None:
        """Add a term: the terms that enter, or None if that is impossible."""
        if self.supports.coupled:
            names = np.setdiff1d(self.supports.connected_to(place), self.support)
            fit = self.supports.possible(np.union1d(self.support, names))
            if fit is None:
                return None
            self._begin(fit)
            return names
        column = self.supports.design[:, place]
        shares = np.zeros(self.free)
        for _ in range(2):
            # Twice, because one projection of a long column is not orthogonal enough.
            share = self._directions @ column
            column, shares = column - share @ self._directions, shares + share
        size = float(np.sqrt(column @ column))
        column = column / size
        along, amount = self._products(place, column, shares, size), float(column @ self._left)
        self._beyond = self._beyond - along**2
        self._pull = self._pull - amount * along
        self._left = self._left - amount * column
        self._directions = np.concatenate([self._directions, column[None]])
        self._inside = np.concatenate([self._inside, along[None]])
        self.support = np.insert(self.support, self.support.searchsorted(place), place)
        self.loss, self.free = self.loss - amount**2, self.free + 1
        return np.array([place])

    def _products(self, place: int, direction: Floats, shares: Floats, size: float) -> Floats:
        """(coefficients,) products of the new direction with all columns.

        direction: the column at `place` less its shares of the directions before, divided by `size`
        """
        if self.supports.products is None:
            return np.asarray(direction @ self.supports.design)
        columns, _, unit = self.supports.products
        return np.asarray((columns[place] / unit - shares @ self._inside) / size)


def greedy(supports: Supports, most: int) -> SupportFit | None:
    """The best of the supports that grow from none by the term of largest gain."""
    fit = supports.possible(())
    if fit is None:
        return None
    growth = Growth(supports, fit)
    best, least = growth.support, growth.criterion
    while len(growth.support) < min(most, supports.rows // 2) and growth.grow():
        if growth.criterion < least:
            best, least = growth.support, growth.criterion
    return supports.possible(best)


def regrown(supports: Supports, fits: Sequence[SupportFit]) -> SupportFit:
    """The best of some fits, or a better one that no single move leads to.

    If the starts have led to the same support, it is returned. Otherwise it may be wrong because one term
    replaces many others. Then, until the criterion no longer falls,

    1. each of the weakest terms is replaced by the four terms of largest gain, and
    2. supports grow anew from each of the terms of largest gain, to the size of the best one.

    Backward elimination and the moves of `settle` follow on either. This is done for one equation at a time,
    and not under equalities, where a fit costs a hundred times as much.
    """
    fit = min(fits, key=supports.criterion)
    agreed = len(fits) > 1 and all(np.array_equal(other.support, fit.support) for other in fits)
    if agreed or supports.coupled or supports.size > EFFORT.orders_eliminated:
        return fit
    seen: set[bytes] = set()
    while True:
        best = min(_regrowths(supports, fit, seen), key=supports.criterion, default=fit)
        if not supports.criterion(best) < supports.criterion(fit) - 1e-9 * abs(supports.criterion(fit)):
            return fit
        fit = supports.settle(best)


def equation_by_equation(
    supports: Supports, parts: Iterable[tuple[Ints, Supports]], path: Sequence[Ints]
) -> SupportFit | None:
    """The best support of each equation alone, and under equalities the terms that these connect to it.

    At measured states equations are independent, and elimination and regrowth go through the terms of one at
    a time. On short and nearly clean data the path alone ends in local minima, and this start is right
    (benchmark: short_clean). With equalities it is right too where terms depend on each other along a
    conserved quantity, which keeps elimination of all equations together from finding them.

    parts: the columns of each equation, and its rows without equalities; path: supports of the solver's run
    """
    chosen = []
    for columns, alone in parts:
        place = np.full(supports.size, -1, dtype=np.intp)
        place[columns] = np.arange(len(columns))
        places = (place[support] for support in path)
        offered = {own.tobytes(): own for own in (at[at >= 0] for at in places)}
        starts = [alone.best(list(offered.values())), eliminated(alone)]
        fits = [alone.settle(fit) for fit in starts if fit is not None]
        if not fits:
            return None
        chosen.append(columns[regrown(alone, fits).support])
    terms = np.concatenate(chosen)
    fit = supports.possible(np.flatnonzero(np.isin(supports.group, supports.group[terms])))
    return fit if fit is None or not supports.coupled else supports.settle(fit)


def _regrowths(supports: Supports, fit: SupportFit, seen: set[bytes]) -> Iterator[SupportFit]:
    """Supports that grow from a fit without one term, and from single terms; then backward elimination.

    seen: supports from which elimination was begun before
    """
    for place in np.argsort(fit.z)[: EFFORT.orders_weakest]:
        less = supports.possible(np.delete(fit.support, place))
        if less is not None and len(less.support) < len(fit.support):
            grown = _grown(supports, less, EFFORT.orders_others, without=int(fit.support[place]))
            yield from _shrunk(supports, grown, seen)
    if len(fit.support) > EFFORT.orders_longest:
        return
    nothing = supports.possible(())
    gain = np.zeros(0) if nothing is None else supports.gains(nothing)
    for first in np.argsort(-gain)[: EFFORT.orders_first]:
        start = supports.possible([first]) if gain[first] > 0 else None
        if start is not None:
            yield from _shrunk(supports, _grown(supports, start, len(fit.support)), seen)


def _grown(supports: Supports, fit: SupportFit, count: int, without: int = -1) -> SupportFit:
    """A support with so many terms more, each the one of largest gain when it is added."""
    growth = Growth(supports, fit)
    for _ in range(count):
        if not growth.grow(without):
            break
    return supports.possible(growth.support) or fit


def _shrunk(supports: Supports, fit: SupportFit, seen: set[bytes]) -> Iterator[SupportFit]:
    """The best support in a backward elimination from a grown one, unless that was done before."""
    if fit.support.tobytes() in seen:
        return
    seen.add(fit.support.tobytes())
    refit = supports.possible(_best_below(supports, fit))
    if refit is not None:
        yield refit


def smallest(supports: Supports, allowed: float, starts: Sequence[SupportFit]) -> SupportFit:
    """The smallest support with a loss of at most so much, by backward elimination from some starts.

    A start whose loss is larger first grows by the terms of largest gain.
    """
    best: Ints | None = None
    for start in starts:
        growth = Growth(supports, start)
        while growth.loss > allowed and growth.grow():
            pass
        fit = supports.possible(growth.support)
        if fit is None or fit.loss > allowed:
            continue
        # The loss rises with every term that leaves, so the last stage within the limit is the smallest.
        support = [stage.support for stage in _way_down(supports, fit) if stage.loss <= allowed][-1]
        if best is None or len(support) < len(best):
            best = support
    return supports.fit(np.arange(supports.size) if best is None else best)


def ranking(supports: Supports, through: SupportFit, most: int) -> tuple[Ints, Floats]:
    """Coefficients from the most to the least important, and the |z| of each.

    Those of the support `through` come first, in the reverse order of backward elimination; then those that
    it would grow by, up to `most` in all.
    """
    stages = list(_way_down(supports, through))
    inside = [(stage.left, stage.strength) for stage in stages[1:]][::-1]
    held = stages[-1].support
    order, strength = [held], [np.full(len(held), np.inf)]
    # A term that left later counts at least as much as those before it, even if its own |z| was smaller.
    rising = np.maximum.accumulate(np.array([s for _, s in inside[::-1]]))[::-1]
    for (names, _), value in zip(inside, rising, strict=True):
        order.append(names)
        strength.append(np.full(len(names), value))
    growth = Growth(supports, through)
    last = float(rising[-1]) if len(inside) else np.inf
    while len(growth.support) < most and (taken := growth.grow()):
        last = min(last, float(np.sqrt(taken[1])))
        order.append(taken[0])
        strength.append(np.full(len(taken[0]), last))
    return np.concatenate(order).astype(np.intp), np.concatenate(strength)


def rivals(supports: Supports, own: SupportFit, within: float) -> list[Rival]:
    """Models whose criterion exceeds that of a fit by at most so many units, the best first.

    One move drops a term, adds one, or replaces one by another; a second move begins with the best models of
    the first. With a third of the effort the truth is missing from the models near Lorenz at 30 % noise
    (benchmark: honesty). Under equalities a fit costs a hundred times as much, and less is tried.
    """
    more, instead, moves, wide = (10, 3, 1, 1) if supports.coupled else (40, 10, 2, 6)
    least = supports.criterion(own)
    met = {own.support.tobytes(): Rival(own, 0.0)}
    tried: set[bytes] = set()
    for _ in range(moves):
        # The second move reaches models that differ in two terms.
        for rival in sorted(met.values(), key=lambda rival: rival.above)[:wide]:
            key = rival.fit.support.tobytes()
            if key in tried:
                continue
            tried.add(key)
            for fit in _one_move(supports, rival.fit, within - rival.above, more, instead):
                above = supports.criterion(fit) - least
                if above <= within:
                    met.setdefault(fit.support.tobytes(), Rival(fit, above))
    del met[own.support.tobytes()]
    return sorted(met.values(), key=lambda rival: rival.above)


def _one_move(
    supports: Supports, own: SupportFit, within: float, more: int, instead: int
) -> Iterator[SupportFit]:
    """Supports with one term more, one less, or one replaced and without what is then superfluous."""
    above = supports.price - supports.gains(own)
    for place in np.argsort(above)[:more]:
        if above[place] > within:
            break
        larger = None if above[place] == supports.price[place] else supports.possible([*own.support, place])
        if larger is not None:
            yield larger
    for place in _replaceable(supports, own, within):
        less = supports.possible(np.delete(own.support, place))
        if less is None or len(less.support) == len(own.support):
            continue
        yield less
        gain = supports.gains(less)
        gain[own.support] = 0.0
        above = supports.price - gain + less.loss - own.loss - supports.price[own.support[place]]
        for other in np.argsort(above)[:instead]:
            if above[other] > within:
                break
            fit = None if gain[other] <= 0 else supports.possible([*less.support, other])
            while fit is not None:
                yield fit
                fit = supports.without_weakest(fit, keep=int(other))


def _replaceable(supports: Supports, own: SupportFit, within: float) -> Ints:
    """Places in a support whose term can leave, or be replaced by another, with a rise of C up to `within`.

    Few can, and a fit without each of the others takes longer than all further fits. Without term i the
    residual r is longer by z_i along a unit vector u_i, so that a column c of squared length b beyond the
    support has the gain (cᵀ r + cᵀ u_i z_i)² / (b + (cᵀ u_i)²). Where equalities hold, or columns depend on
    each other, all places are returned.
    """
    if own.free < len(own.support):
        return np.arange(len(own.support))
    inside, pull = supports.products_at(own)
    along = inside.T @ (own.spread / np.linalg.norm(own.spread, axis=1)[:, None]).T
    beyond = np.maximum(supports.lengths**2 - np.einsum("ij,ij->j", inside, inside), 0.0)
    size, gain = beyond[:, None] + along**2, np.zeros(along.shape)
    np.divide((pull[:, None] + along * (np.sign(own.x) * own.z)) ** 2, size, out=gain, where=size > 0)
    gain[own.support] = 0.0
    # A term leaves for nothing, or for a column that has a price too.
    regained = (gain - supports.price[:, None]).max(axis=0, initial=0.0)
    return np.flatnonzero(own.z**2 - supports.price[own.support] - regained <= within)
