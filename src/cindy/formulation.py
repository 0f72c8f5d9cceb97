"""How a trajectory and a basis become rows of a least-squares problem."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import asdict, dataclass, replace
from typing import Any, ClassVar, Literal, Self

import numpy as np
from numpy.typing import NDArray

from cindy._check import integer
from cindy.basis import Basis
from cindy.calculus import derivative, interval_weights, reach
from cindy.errors import DataError
from cindy.scales import derivative_window, window_length
from cindy.trajectory import Trajectory
from cindy.windows import single_steps, split, stacks, without_first, without_polynomials

__all__ = ["Differential", "Discrete", "Formulation", "Integral", "formulation_from_dict"]

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]
Rows = tuple[Floats, Floats]

_SMOOTHING_DEGREE = 4
_STRETCH = 64
"""Samples in an indivisible stretch where a formulation has no windows of its own."""


class Formulation(ABC):
    """What the coefficients Ξ must satisfy: rows design · Ξ = target.

    A formulation cuts a gap-free segment into stretches of consecutive samples,
    and makes the rows of any run of stretches from those samples and a few
    neighbours; so a segment can be taken in pieces of any size, with the same rows.
    """

    kind: ClassVar[str]
    order: int
    smooth: int | None

    @property
    @abstractmethod
    def min_samples(self) -> int:
        """A segment with fewer samples has no rows."""

    @property
    @abstractmethod
    def margin(self) -> int:
        """How many samples beyond a stretch its rows may depend on."""

    @abstractmethod
    def edges(self, samples: int) -> Ints:
        """Stretch k of a segment of that many samples is edges[k] … edges[k + 1] − 1."""

    @abstractmethod
    def _matrix(self, segment: Trajectory, basis: Basis, edges: Ints) -> Floats:
        """As `matrix`, before the weight of the trajectory."""

    @abstractmethod
    def fit_to(self, trajectories: Sequence[Trajectory]) -> Self:
        """The same formulation with every setting that is None chosen from the data."""

    @property
    def signature(self) -> dict[str, Any]:
        """What two summaries must share to be added: not the settings that follow the data."""
        settings = self.to_dict()
        return {key: settings[key] for key in ("kind", "order", "initial", "smooth") if key in settings}

    def matrix(self, segment: Trajectory, basis: Basis, edges: Ints) -> Floats:
        """(k, terms + states): the rows [design | target] of consecutive stretches, in order."""
        rows = self._matrix(segment, basis, edges)
        if segment.weight != 1.0:
            rows *= np.sqrt(segment.weight)
        return rows

    def rows(self, segment: Trajectory, basis: Basis) -> list[Rows]:
        """One pair (design (k, terms), target (k, states)) for every stretch of a gap-free segment."""
        edges = self.edges(len(segment))
        each = [self.matrix(segment, basis, edges[i : i + 2]) for i in range(len(edges) - 1)]
        return [(rows[:, : -segment.dimension], rows[:, -segment.dimension :]) for rows in each]

    def to_dict(self) -> dict[str, Any]:
        """Plain values from which `formulation_from_dict` makes an equal formulation."""
        return {"kind": self.kind, **asdict(self)}  # type: ignore[call-overload]

    def _variables(self, segment: Trajectory, start: int, stop: int) -> Floats:
        """(stop − start, d + p): states and inputs as the basis sees them."""
        if self.smooth is None:
            x = segment.x[start:stop]
        else:
            degree = min(_SMOOTHING_DEGREE, 2 * self.smooth)
            x = derivative(segment.t, segment.x, start, stop, order=0, degree=degree, half_width=self.smooth)
        return x if segment.u is None else np.hstack([x, segment.u[start:stop]])

    def _evaluate(self, segment: Trajectory, basis: Basis, start: int, stop: int) -> Floats:
        return basis.evaluate(self._variables(segment, start, stop), segment.variables)

    def _check_common(self) -> None:
        where = type(self).__name__
        if self.order not in (1, 2):
            raise DataError(f"{where}: `order` must be 1 (x' = F) or 2 (x'' = F), but is {self.order!r}.")
        if self.smooth is not None:
            integer(self.smooth, f"{where}: `smooth`", least=1)


@dataclass(frozen=True)
class Differential(Formulation):
    """The derivative of the given order, estimated at every sample, equals ψ(x) Ξ.

    The derivative is that of a local least-squares polynomial of `degree` through
    2 half_width + 1 samples; None: as wide as the noise in the data asks for.

    smooth: half-width of a local-polynomial smoother of the states inside ψ
    """

    kind: ClassVar[str] = "differential"
    order: int = 1
    degree: int | None = None
    half_width: int | None = None
    smooth: int | None = None

    def __post_init__(self) -> None:
        self._check_common()
        if self.degree is not None:
            integer(self.degree, "Differential: `degree`", least=self.order)
        if self.half_width is not None:
            integer(self.half_width, "Differential: `half_width`", least=1)

    @property
    def min_samples(self) -> int:
        return self.order + 2

    @property
    def margin(self) -> int:
        return max(self.half_width or 0, self.smooth or 0)

    def edges(self, samples: int) -> Ints:
        return split(samples, _STRETCH)

    def fit_to(self, trajectories: Sequence[Trajectory]) -> Self:
        if self.degree is not None and self.half_width is not None:
            return self
        pair = derivative_window(
            trajectories, order=self.order, degree=self.degree, half_width=self.half_width
        )
        return replace(self, degree=pair[0], half_width=pair[1])

    def _matrix(self, segment: Trajectory, basis: Basis, edges: Ints) -> Floats:
        fitted = self.fit_to([segment])
        degree, half_width = fitted.degree or 0, fitted.half_width or 0
        a, b = int(edges[0]), int(edges[-1])
        slope = derivative(segment.t, segment.x, a, b, order=self.order, degree=degree, half_width=half_width)
        return np.hstack([self._evaluate(segment, basis, a, b), slope])


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
    degree, half_width: of the local polynomials that are integrated
    rate: degree and half-width for the first derivative, where one is estimated
    smooth: half-width of a local-polynomial smoother of the states inside ψ
    """

    kind: ClassVar[str] = "integral"
    order: int = 1
    initial: Literal["free", "first"] = "free"
    window: int | None = None
    degree: int = 6
    half_width: int = 3
    smooth: int | None = None
    rate: tuple[int, int] | None = None

    def __post_init__(self) -> None:
        self._check_common()
        if self.initial not in ("free", "first"):
            raise DataError(f'Integral: `initial` must be "free" or "first", but is {self.initial!r}.')
        if self.window is not None and self.window != 0:
            integer(self.window, "Integral: `window` (0: whole trajectories)", least=self.min_samples)
        integer(self.degree, "Integral: `degree`", least=1)
        integer(self.half_width, "Integral: `half_width`", least=1)
        if self.rate is not None:
            object.__setattr__(self, "rate", (int(self.rate[0]), int(self.rate[1])))

    @property
    def min_samples(self) -> int:
        return self.order + 2

    @property
    def margin(self) -> int:
        rate = self.rate[1] if self.rate else 0
        return max(self.order * self.half_width + (self.smooth or 0), rate)

    def edges(self, samples: int) -> Ints:
        return split(samples, self.window or samples, least=self.min_samples)

    def fit_to(self, trajectories: Sequence[Trajectory]) -> Self:
        if self.initial == "first":
            rate = self.rate or (derivative_window(trajectories, order=1) if self.order == 2 else None)
            return replace(self, window=self.window or 0, rate=rate)
        if self.window is not None:
            return self
        return replace(self, window=window_length(trajectories, least=self.min_samples))

    def _matrix(self, segment: Trajectory, basis: Basis, edges: Ints) -> Floats:
        a, b = int(edges[0]), int(edges[-1])
        free = self.initial == "free"
        gamma = self._integrated(segment, basis, a, b, self.order if free else 1)
        if free or self.order == 1:
            target = segment.x[a:b]
        else:
            degree, half_width = self.rate or derivative_window([segment], order=1)
            target = derivative(segment.t, segment.x, a, b, order=1, degree=degree, half_width=half_width)
        joined = np.hstack([gamma, target])
        return np.concatenate(
            [
                without_polynomials(stack, times, self.order) if free else without_first(stack)
                for stack, times in stacks(joined, segment.t[a:b], edges - a)
            ]
        )

    def _integrated(self, segment: Trajectory, basis: Basis, start: int, stop: int, times: int) -> Floats:
        """ψ integrated `times` times, at samples start … stop − 1, up to a polynomial in t.

        One running sum over all windows: what an earlier window adds to a later one
        is such a polynomial, which the elimination removes.
        """
        low, high = reach(len(segment), start, max(stop - 1, start + 1), self.half_width)
        if times == 1:
            inner = self._evaluate(segment, basis, low, high)
        else:
            inner = self._integrated(segment, basis, low, high, times - 1)
        weights = interval_weights(segment.t[low:high], degree=self.degree, half_width=self.half_width)
        result = np.zeros((stop - start, inner.shape[1]))
        np.cumsum((weights @ inner)[start - low : stop - 1 - low], axis=0, out=result[1:])
        return result


@dataclass(frozen=True)
class Discrete(Formulation):
    """The next sample equals ψ(x) Ξ at this one: x[k + 1] = F(x[k]), on a uniform grid.

    A step of two or more (a missing sample) is passed over.
    """

    kind: ClassVar[str] = "discrete"
    order: ClassVar[int] = 1  # type: ignore[misc]
    smooth: int | None = None

    def __post_init__(self) -> None:
        self._check_common()

    @property
    def min_samples(self) -> int:
        return 2

    @property
    def margin(self) -> int:
        return 1 + (self.smooth or 0)

    def edges(self, samples: int) -> Ints:
        return split(samples, _STRETCH)

    def fit_to(self, trajectories: Sequence[Trajectory]) -> Self:
        return self

    def _matrix(self, segment: Trajectory, basis: Basis, edges: Ints) -> Floats:
        a, b = int(edges[0]), min(int(edges[-1]), len(segment) - 1)
        if a >= b:
            a, b = len(segment) - 1, len(segment) - 1
        joined = np.hstack([self._evaluate(segment, basis, a, b), segment.x[a + 1 : b + 1]])
        return np.asarray(joined[single_steps(segment.t)[a:b]])


def formulation_from_dict(settings: dict[str, Any]) -> Formulation:
    """The formulation that `to_dict` described."""
    kinds: dict[str, type[Formulation]] = {c.kind: c for c in (Differential, Integral, Discrete)}
    values = dict(settings)
    kind = values.pop("kind", None)
    if kind not in kinds:
        raise DataError(f"formulation_from_dict: unknown kind {kind!r}. Known: {', '.join(kinds)}.")
    try:
        return kinds[kind](**values)
    except TypeError as error:
        raise DataError(f"formulation_from_dict: these are not settings of {kind!r}: {error}.") from error
