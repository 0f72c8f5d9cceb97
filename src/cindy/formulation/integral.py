"""The integral form: the states themselves on the left-hand side, from a free initial state."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import ClassVar, Literal, Self

import numpy as np
from numpy.typing import NDArray

from cindy._check import integer
from cindy.basis import Basis
from cindy.calculus import derivative, interval_weights, reach
from cindy.errors import DataError
from cindy.feedback import feedback_of_data
from cindy.formulation.base import Formulation
from cindy.scales import derivative_window, integral_window, window_length
from cindy.trajectory import Trajectory
from cindy.whitening import whitened
from cindy.windows import split, stacks, without_first, without_polynomials

__all__ = ["Integral"]

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]


@dataclass(frozen=True)
class Integral(Formulation):
    """The states equal the integral of ψ(x) Ξ, once or twice, from an initial state.

    initial: "free" (default): the initial state of every window, and its rate when
        the order is 2, is unknown and is eliminated exactly; white noise in the states
        stays white in the rows, and no derivative is estimated. "first": the first
        sample is taken as the initial state, as in the original method; for order
        2 the first derivative is then estimated.
    window: samples in a window with an initial state of its own; 0: trajectories stay
        whole; None: chosen from the data. Windows share no sample: a step between
        windows goes unused, and in return no noise is common to two windows.
    degree, half_width: of the local polynomials that are integrated; None: 8 and 4, or less
        where the time grid is so uneven that noise would be blown up
    rate: degree and half-width for the first derivative, where one is estimated
    smooth: half-width of a local-polynomial smoother of the states inside ψ
    feedback: mean square of the Jacobian, each state in units of its noise: how strongly noise
        in the states drifts through the terms; rows are made white for it. 0: no drift;
        None: guessed from the data, and settled by `identify` from a first model
    """

    kind: ClassVar[str] = "integral"
    order: int = 1
    initial: Literal["free", "first"] = "free"
    window: int | None = None
    degree: int | None = None
    half_width: int | None = None
    smooth: int | None = None
    rate: tuple[int, int] | None = None
    feedback: float | None = None

    def __post_init__(self) -> None:
        self._check_common()
        if self.initial not in ("free", "first"):
            raise DataError(f'Integral: `initial` must be "free" or "first", but is {self.initial!r}.')
        if self.window is not None and self.window != 0:
            integer(self.window, "Integral: `window` (0: whole trajectories)", least=self.min_samples)
        if self.degree is not None:
            integer(self.degree, "Integral: `degree`", least=1)
        if self.half_width is not None:
            integer(self.half_width, "Integral: `half_width`", least=1)
        if self.feedback is not None and not 0 <= self.feedback < np.inf:
            raise DataError(f"Integral: `feedback` must be at least 0, but is {self.feedback!r}.")
        if self.rate is not None:
            object.__setattr__(self, "rate", (int(self.rate[0]), int(self.rate[1])))

    @property
    def min_samples(self) -> int:
        return self.order + 2

    @property
    def margin(self) -> int:
        rate = self.rate[1] if self.rate else 0
        return max(self.order * (self.half_width or 0) + (self.smooth or 0), rate)

    def edges(self, samples: int) -> Ints:
        return split(samples, self.window or samples, least=self.min_samples)

    def fit_to(self, trajectories: Sequence[Trajectory]) -> Self:
        degree, half_width, window, rate = self.degree, self.half_width, self.window, self.rate
        if degree is None or half_width is None:
            degree, half_width = integral_window(trajectories, degree=degree, half_width=half_width)
        if window is None:
            whole = self.initial == "first"
            window = 0 if whole else window_length(trajectories, least=self.min_samples)
        if rate is None and self._estimates_a_rate:
            rate = derivative_window(trajectories, order=1)
        feedback = self.feedback
        if feedback is None:
            free = self.initial == "free"
            feedback = feedback_of_data(trajectories, self.order, window) if free else 0.0
        return replace(
            self, degree=degree, half_width=half_width, window=window, rate=rate, feedback=feedback
        )

    @property
    def _estimates_a_rate(self) -> bool:
        return self.initial == "first" and self.order == 2

    def _matrix(self, segment: Trajectory, basis: Basis, edges: Ints) -> Floats:
        if None in (self.degree, self.half_width) or (self.rate is None and self._estimates_a_rate):
            return self.fit_to([segment])._matrix(segment, basis, edges)
        a, b = int(edges[0]), int(edges[-1])
        free = self.initial == "free"
        gamma = self._integrated(segment, basis, a, b, self.order if free else 1)
        if self._estimates_a_rate and self.rate is not None:
            degree, half_width = self.rate
            target = derivative(segment.t, segment.x, a, b, order=1, degree=degree, half_width=half_width)
        else:
            target = segment.x[a:b]
        joined = np.hstack([gamma, target])
        return np.concatenate(
            [self._eliminated(stack, times) for stack, times in stacks(joined, segment.t[a:b], edges - a)]
        )

    def _eliminated(self, stack: Floats, t: Floats) -> Floats:
        """The rows of windows of one length without their initial states."""
        if self.initial == "first":
            return without_first(stack)
        if self.feedback:
            return whitened(stack, t, self.order, self.feedback)
        return without_polynomials(stack, t, self.order)

    def _integrated(self, segment: Trajectory, basis: Basis, start: int, stop: int, times: int) -> Floats:
        """ψ integrated `times` times, at samples start … stop − 1, up to a polynomial in t.

        One running sum over all windows: what an earlier window adds to a later one
        is such a polynomial, which the elimination removes.
        """
        assert self.degree is not None
        assert self.half_width is not None
        low, high = reach(len(segment), start, max(stop - 1, start + 1), self.half_width)
        if times == 1:
            inner = self._evaluate(segment, basis, low, high)
        else:
            inner = self._integrated(segment, basis, low, high, times - 1)
        weights = interval_weights(segment.t[low:high], degree=self.degree, half_width=self.half_width)
        result = np.zeros((stop - start, inner.shape[1]))
        np.cumsum((weights @ inner)[start - low : stop - 1 - low], axis=0, out=result[1:])
        return result
