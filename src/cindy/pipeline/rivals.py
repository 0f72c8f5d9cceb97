"""Rivals: models that explain the rows at the states of a law almost as well as the law itself.

One move drops a term, adds one, or puts one in the place of others; the next begins with the best so far.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from cindy.selection import SupportFit, Supports

__all__ = ["Rival", "rivals"]


class _Effort(NamedTuple):
    """How much is tried.

    more: terms as one more, those of the largest gain; instead: terms in the place of one, likewise
    moves: one after the other; wide: models that the next is made from, those of the least criterion
    """

    more: int
    instead: int
    moves: int
    wide: int


_FULL = _Effort(more=40, instead=10, moves=2, wide=6)
"""With a third of it the truth is missing from the models near Lorenz at 30 % noise (benchmark: honesty)."""
_COUPLED = _Effort(more=10, instead=3, moves=1, wide=1)
"""Where equalities couple coefficients: a fit costs a hundred times as much."""


@dataclass(frozen=True, eq=False)
class Rival:
    """A fit on another support, and by how much its criterion exceeds that of the law."""

    fit: SupportFit
    above: float


def rivals(supports: Supports, own: SupportFit, within: float) -> list[Rival]:
    """The models within so many units of the criterion of a law, the best first."""
    least = supports.criterion(own)
    known = {own.support.tobytes(): Rival(own, 0.0)}
    tried: set[bytes] = set()
    effort = _COUPLED if supports.coupled else _FULL
    for _ in range(effort.moves):
        best = sorted(known.values(), key=lambda rival: rival.above)[: effort.wide]
        for rival in best:
            key = rival.fit.support.tobytes()
            if key not in tried:
                tried.add(key)
                for fit in _one_move(supports, rival.fit, within - rival.above, effort):
                    above = supports.criterion(fit) - least
                    if above <= within:
                        known.setdefault(fit.support.tobytes(), Rival(fit, above))
    del known[own.support.tobytes()]
    return sorted(known.values(), key=lambda rival: rival.above)


def _one_move(supports: Supports, own: SupportFit, within: float, effort: _Effort) -> Iterator[SupportFit]:
    """One term more, one less, one in the place of another and of what is superfluous beside it."""
    gain = supports.gains(own)
    for place in np.argsort(-gain)[: effort.more]:
        if gain[place] <= 0 or supports.price - gain[place] > within:
            break
        more = supports.possible(np.union1d(own.support, [place]))
        if more is not None:
            yield more
    for place in supports.replaceable(own, within):
        less = supports.possible(np.delete(own.support, place))
        if less is None or len(less.support) == len(own.support):
            continue
        yield less
        gain = supports.gains(less)
        gain[own.support] = 0.0
        for other in np.argsort(-gain)[: effort.instead]:
            if gain[other] <= 0 or less.loss - gain[other] - own.loss > within + supports.price:
                break
            fit = supports.possible(np.union1d(less.support, [other]))
            while fit is not None:
                yield fit
                fit = supports.without_weakest(fit, keep=int(other))
