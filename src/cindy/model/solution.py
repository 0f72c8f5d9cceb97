"""Data beside the solutions of a model that start where the data do."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import cache

import numpy as np

from cindy._types import Floats
from cindy.calculus import cumulative, derivative_weights, interval_weights
from cindy.data import Trajectory, noise_level
from cindy.errors import DataError
from cindy.formulation import Differential, half_period
from cindy.model.domain import inside_domain
from cindy.model.equations import Equations
from cindy.model.fitted_start import fitted_start
from cindy.model.integration import Limits
from cindy.model.simulation import simulate

__all__ = ["Solution", "solutions"]


_DEGREE, _HALF_WIDTH = 6, 3
"""Of the polynomials that are integrated to find where a solution starts."""
_MOST_MISSED = 3.0
"""In units of the noise; right equations miss by more than one where noise is integrated twice."""


@dataclass(frozen=True, eq=False)
class Solution:
    """A stretch of data without gaps, and the solution that starts with it.

    trajectory: the place of its trajectory in the data
    simulated: fewer samples than measured where the solution blew up
    """

    trajectory: int
    measured: Trajectory
    simulated: Trajectory


def solutions(
    model: Equations,
    data: Sequence[Trajectory],
    *,
    window: int | None = None,
    smoother: Callable[[], Differential] | None = None,
) -> Iterator[Solution]:
    """A solution for every stretch of the data, in order, and afresh every `window` samples if given.

    A solution starts where it follows the samples ahead best, within the range of the data: see
    `fitted_start`.

    smoother: makes that of the first samples, where the equations are too far off to tell their noise; it
        costs more than the solutions do, and is chosen from the data by default
    """
    smooth = smoother or cache(lambda: Differential().fit_to(data))
    near = half_period(data, least=model.order + 2)
    for i, segment in ((i, part) for i, one in enumerate(data) for part in one.segments()):
        length = window or len(segment)
        noise = noise_level(segment)
        for begin in range(0, len(segment) - 1, length):
            piece = segment.part(begin, min(begin + length, len(segment)))
            first = min(near or length, len(piece))
            guesses = [] if model.order == 2 else [np.asarray(piece.x[0])]
            if not model.formulation.discrete:
                start = _start_of_equations(model, piece.part(0, first), noise)
                if start is None:
                    start = _start_of_data(segment, begin, model.order, smooth())
                guesses.insert(0, start)
            start = fitted_start(model, piece, guesses, first=first)
            yield Solution(i, piece, simulate(model, start, piece.t, piece.u, limits=Limits()))


def _start_of_equations(model: Equations, ahead: Trajectory, noise: Floats) -> Floats | None:
    """The initial state, and rate for order 2, from which the equations miss the samples ahead least.

    It averages the noise of all of them, but only if the equations are right: None where they miss by much
    more than noise, or where terms hold rates that nobody measured.
    """
    if len(ahead) < 4 + 2 * model.order or model.rates:
        return None
    [defined], _ = inside_domain(model, [ahead])
    values = model.predict(defined.x, defined.u)
    weights = interval_weights(ahead.t, degree=_DEGREE, half_width=_HALF_WIDTH)
    for _ in range(model.order):
        values = cumulative(values, weights)
    powers = (ahead.t - ahead.t[0])[:, None] ** np.arange(model.order)
    left = ahead.x - values
    best = np.linalg.lstsq(powers, left)[0]
    missed = np.sqrt(np.sum((left - powers @ best) ** 2, axis=0) / (len(left) - model.order))
    return np.ravel(best) if np.all(missed <= _MOST_MISSED * noise) else None


def _start_of_data(segment: Trajectory, begin: int, order: int, smoother: Differential) -> Floats:
    """The state at a sample, and its rate for order 2, by the local polynomial that suits the noise."""
    if len(segment) < 4:
        if order == 2:
            raise DataError("A solution of second order needs at least 4 samples in a row to start from.")
        return np.asarray(segment.x[begin])
    degree, half_width = smoother.degree or 2, smoother.half_width or 1
    low = max(0, begin - 2 * half_width)
    near = segment.part(low, min(len(segment), begin + 2 * half_width + 1))
    estimates = [
        (derivative_weights(near.t, order=k, degree=degree, half_width=half_width) @ near.x)[begin - low]
        for k in range(order)
    ]
    return np.concatenate(estimates)
