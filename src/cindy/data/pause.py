"""Pauses: steps of a time grid over which nothing was measured and the motion went on."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from cindy._types import Floats

__all__ = ["pauses"]

_FAR = 0.7
"""Of the spread of a state: what moves less far in a pause is bridged. `python -m benchmarks damage`: from
0.5 to 2 Lorenz with pauses is right and slow hares are bridged; were all bridged, Lorenz would have 21
false terms, were none, hares 3 to 15 times the error."""


def pauses(t: Floats, x: Floats, longest: int) -> NDArray[np.intp]:
    """Numbers k of the steps from t[k] to t[k + 1] that nothing can be said about.

    A step is one when it is longer than `longest` of its neighbours and of the usual steps, when as
    many samples lie on either side (a lone sample or a few would be lost for good), and when a
    state moves far in such a time: a slow motion is bridged.

    x: (samples, states), missing entries nan
    """
    steps = np.diff(t)
    if len(steps) < 2 * longest:
        return np.zeros(0, dtype=np.intp)
    near = np.maximum(np.append(steps[0], steps[:-1]), np.append(steps[1:], steps[-1]))
    long = np.flatnonzero(steps > longest * np.maximum(near, np.median(steps)))
    edges = np.concatenate([[0], long + 1, [len(t)]])
    enough = np.diff(edges) >= longest
    bursts = [(t[a:b], x[a:b]) for a, b in zip(edges[:-1][enough], edges[1:][enough], strict=True)]
    spread = np.nanstd(x, axis=0)
    spread = np.where(spread > 0, spread, np.inf)
    far = [enough[i] and enough[i + 1] and _moves(bursts, spread, float(steps[k])) > _FAR
           for i, k in enumerate(long)]  # fmt: skip
    return np.asarray(long[np.array(far, dtype=bool)])


def _moves(bursts: list[tuple[Floats, Floats]], spread: Floats, time: float) -> float:
    """How far a state moves in such a time, at most, in units of its spread.

    √12 times the standard deviation of a straight line is its range; half the mean square of
    differences is the variance of white noise and a little more. A burst that is shorter than the
    time is thought to go on as it does.
    """
    found = []
    for t, x in bursts:
        length = t[-1] - t[0]
        pieces = np.array_split(x, max(int(length / time), 1))
        noise = 0.5 * np.nanmean(np.diff(x, axis=0) ** 2, axis=0)
        variance = np.nanmean([np.nanvar(piece, axis=0) for piece in pieces], axis=0) - noise
        found.append(np.sqrt(12.0 * np.maximum(variance, 0.0)) * max(time / length, 1.0))
    return float(np.nanmax(np.nanmedian(found, axis=0) / spread, initial=0.0))
