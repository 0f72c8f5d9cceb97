"""Data beside the solutions of a model that start where the data do."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np

from cindy._types import Floats
from cindy.calculus import cumulative, derivative_weights, interval_weights
from cindy.data import Trajectory, noise_level
from cindy.errors import DataError
from cindy.formulation import half_period
from cindy.model.domain import inside_domain
from cindy.model.equations import Equations
from cindy.model.fitted_start import MOST, fitted_start
from cindy.model.integration import Limits
from cindy.model.simulation import simulate
from cindy.model.smooth import fitted_states

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
    model: Equations, data: Sequence[Trajectory], *, window: int | None = None
) -> Iterator[Solution]:
    """A solution for every stretch of the data, in order, and afresh every `window` samples if given.

    A solution that runs through starts where it follows the samples ahead best, within the range of the
    data: see `fitted_start`. Those that start afresh have too few samples ahead for that where noise is
    large: they start at fitted states, which know of the samples before as well.
    """
    near = half_period(data, least=model.order + 2)
    stretches = [(i, part) for i, one in enumerate(data) for part in one.segments()]
    known = _fitted(model, [part for _, part in stretches], window)
    for (i, segment), states in zip(stretches, known, strict=True):
        length = window or len(segment)
        noise = noise_level(segment)
        for begin in range(0, len(segment) - 1, length):
            piece = segment.part(begin, min(begin + length, len(segment)))
            start = states[begin]
            if window is None or not np.all(np.isfinite(start)):
                first = min(near or length, len(piece))
                guesses = [start] if model.order == 2 else [start, np.asarray(piece.x[0])]
                if not model.formulation.discrete:
                    told = _start_of_equations(model, piece.part(0, first), noise)
                    if told is None:
                        told = _start_of_data(segment, begin, model.order, near or len(segment) // 4)
                    guesses.append(told)
                start = fitted_start(model, piece, guesses, first=first)
            yield Solution(i, piece, simulate(model, start, piece.t, piece.u, limits=Limits()))


def _fitted(model: Equations, stretches: list[Trajectory], window: int | None) -> list[Floats]:
    """(samples, order · states): where solutions may start; NaN where states are not fitted."""
    width = model.order * len(model.states)
    ahead = stretches if window else [one.part(0, min(len(one), MOST)) for one in stretches]
    possible = ahead and width == len(model.states + model.rates)
    try:
        found = fitted_states(model, ahead) if possible else None
    except DataError:
        # On the way a state has left the domain of a term.
        found = None
    return found or [np.full((len(one), width), np.nan) for one in ahead]


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


def _start_of_data(segment: Trajectory, begin: int, order: int, near: int) -> Floats:
    """The state at a sample, and its rate for order 2, by a cubic through the samples around it."""
    if len(segment) < 4:
        if order == 2:
            raise DataError("A solution of second order needs at least 4 samples in a row to start from.")
        return np.asarray(segment.x[begin])
    half_width = max(near // 4, 2)
    low = max(0, begin - 2 * half_width)
    around = segment.part(low, min(len(segment), begin + 2 * half_width + 1))
    degree = min(3, len(around) - 1)
    estimates = [
        (derivative_weights(around.t, order=k, degree=degree, half_width=half_width) @ around.x)[begin - low]
        for k in range(order)
    ]
    return np.concatenate(estimates)
