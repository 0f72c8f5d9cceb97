"""Rivals: models that explain the rows at the states of a law almost as well as the law itself.

One move drops a term, adds one, or puts one in the place of others; the next begins with the best so far.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from cindy.selection import SupportFit, Supports

__all__ = ["Rival", "rivals"]

Ints = NDArray[np.intp]

_MORE = 40
"""Terms that are tried as one more, those of the largest gain."""
_INSTEAD = 10
"""Terms that are tried in the place of one, likewise."""
_MOVES, _WIDE = 2, 6
"""Moves one after the other, and models that the next is made from, those of the least criterion."""


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
    for _ in range(_MOVES):
        best = sorted(known.values(), key=lambda rival: rival.above)[:_WIDE]
        for rival in best:
            key = rival.fit.support.tobytes()
            if key not in tried:
                tried.add(key)
                for fit in _one_move(supports, rival.fit, within - rival.above):
                    above = supports.criterion(fit) - least
                    if above <= within:
                        known.setdefault(fit.support.tobytes(), Rival(fit, above))
    del known[own.support.tobytes()]
    return sorted(known.values(), key=lambda rival: rival.above)


def _one_move(supports: Supports, own: SupportFit, within: float) -> Iterator[SupportFit]:
    """One term more, one less, one in the place of another and of what is superfluous beside it."""
    gain = supports.gains(own)
    for place in np.argsort(-gain)[:_MORE]:
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
        for other in np.argsort(-gain)[:_INSTEAD]:
            if gain[other] <= 0 or less.loss - gain[other] - own.loss > within + supports.price:
                break
            fit = supports.possible(np.union1d(less.support, [other]))
            while fit is not None:
                yield fit
                fit = supports.without_weakest(fit, keep=int(other))
