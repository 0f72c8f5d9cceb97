"""Data beside the solutions of a model that start where the data do."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from cindy.calculus import derivative_weights
from cindy.errors import DataError
from cindy.formulation import Differential, Discrete
from cindy.trajectory import Trajectory

if TYPE_CHECKING:
    from cindy.model import Model

__all__ = ["solutions"]

Floats = NDArray[np.float64]


def solutions(
    model: Model, data: Sequence[Trajectory], *, window: int | None = None
) -> Iterator[tuple[Trajectory, Trajectory]]:
    """(measured, simulated) for every stretch of the data without gaps, in order.

    A solution starts from the first sample, less what a local polynomial takes for noise, and afresh every
    `window` samples if given. It has fewer samples than the data where it blew up.
    """
    smoother = None if isinstance(model.formulation, Discrete) else Differential().fit_to(data)
    for segment in (part for one in data for part in one.segments()):
        length = window or len(segment)
        for begin in range(0, len(segment) - 1, length):
            piece = segment.part(begin, min(begin + length, len(segment)))
            if len(piece) > 1:
                start = _start(segment, begin, model.order, smoother)
                yield piece, model.simulate(start, piece.t, piece.u)


def _start(segment: Trajectory, begin: int, order: int, smoother: Differential | None) -> Floats:
    """The state at a sample, and its rate for order 2, by the local polynomial that suits the noise."""
    if smoother is None or len(segment) < 4:
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
