"""Data beside solutions for as long as the model can predict."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from cindy._types import Floats
from cindy.data import Trajectory, noise_level
from cindy.model.equations import Equations
from cindy.model.solution import Solution, solutions

__all__ = ["Comparison", "compare"]

_FOLLOWS = 0.9
"""R² of every state, as a share of what noise leaves to explain, above which solutions run through."""
_OFF = 0.5
"""Of the spread, beyond the noise: a solution that is further off has left the data, at R² = 0.75."""
_SHORTEST = 20
"""Samples of a window, at least: in fewer, any curve follows the data."""
_TRIES = 3
"""Halvings of the window: an eighth of the time over which solutions seem to follow."""


@dataclass(frozen=True, eq=False)
class Comparison:
    """Solutions beside stretches of data.

    solutions: in order; window: samples after which they start afresh; None where they run through
    span: the time that a solution lasts, at most
    explained: (states,) R² of the solutions; through: the same without starting afresh; −∞ after a blow-up
    stopped: why solutions that run through ended early, in sentences
    """

    solutions: tuple[Solution, ...]
    window: int | None
    span: float
    explained: Floats
    through: Floats
    stopped: tuple[str, ...]


def compare(model: Equations, data: Sequence[Trajectory]) -> Comparison:
    """Solutions from fitted starts, afresh after the time over which the model can predict.

    That time is the median over the solutions of how long each stays within half of the spread of the data,
    beyond their noise; it is halved where solutions of that length do not follow either.
    """
    least = 4 if model.order == 2 else 2
    # A stretch that is too short to start from has nothing to be compared with.
    kept = [one for one in data if one.segments() and min(len(part) for part in one.segments()) >= least]
    whole = tuple(solutions(model, kept))
    states = len(model.states)
    explained = through = _explained(whole, states)
    stopped = tuple(dict.fromkeys(one.simulated.stopped for one in whole if one.simulated.stopped))
    found, window = whole, None
    enough = _FOLLOWS * _explainable(whole, states)
    if np.any(explained < enough) and whole:
        shortest = max(getattr(model.formulation, "window", 0) or 0, _SHORTEST)
        length = int(np.median([_follows(one) for one in whole]))
        longest = max(len(one.measured) for one in whole)
        for _ in range(_TRIES):
            length = max(length, min(shortest, longest))
            if length >= longest:
                break
            again = tuple(solutions(model, kept, window=length))
            if np.min(_explained(again, states)) > np.min(explained):
                found, window, explained = again, length, _explained(again, states)
            if np.all(explained >= enough) or length == shortest:
                break
            length //= 2
    span = max((float(one.measured.t[-1] - one.measured.t[0]) for one in found), default=np.nan)
    return Comparison(found, window, span, explained, through, stopped)


def _follows(one: Solution) -> int:
    """Samples over which a solution stays with the data, in the root mean square over a few of them."""
    spread = one.measured.x.std(axis=0)
    spread = np.where(spread > 0, spread, np.inf)
    off = (one.simulated.x - one.measured.x[: len(one.simulated)]) / spread
    allowed = (
        np.hypot(_OFF, float(np.max(noise_level(one.measured) / spread))) if len(one.measured) >= 8 else _OFF
    )
    few = max(3, len(one.measured) // 50)
    size = np.convolve(np.mean(off**2, axis=1), np.ones(few) / few, mode="same")
    lost = np.flatnonzero(size > allowed**2)
    return int(lost[0]) if len(lost) else len(one.simulated)


def _explainable(found: Sequence[Solution], states: int) -> Floats:
    """R² of each state that noise leaves to the best of solutions; 1 where samples are too few to tell."""
    told = [one.measured for one in found if len(one.measured) >= 8]
    if not told:
        return np.ones(states)
    noise = np.mean([noise_level(one) ** 2 for one in told], axis=0)
    whole = np.vstack([one.x for one in told]).var(axis=0)
    return np.asarray(1 - np.minimum(np.divide(noise, whole, out=np.zeros(states), where=whole > 0), 1.0))


def _explained(found: Sequence[Solution], states: int) -> Floats:
    """R² of each state, over all solutions; −∞ where one blew up."""
    if not found:
        return np.full(states, np.nan)
    if any(len(one.simulated) < len(one.measured) for one in found):
        return np.full(states, -np.inf)
    x = np.vstack([one.measured.x for one in found])
    left = np.sum((x - np.vstack([one.simulated.x for one in found])) ** 2, axis=0)
    whole = np.sum((x - x.mean(axis=0)) ** 2, axis=0)
    return np.asarray(1 - np.divide(left, whole, out=np.zeros(states), where=whole > 0))
