"""Forms that ask for something at every sample: a derivative (Differential) or the next sample (Discrete)."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import ClassVar, Self

import numpy as np
from numpy.typing import NDArray

from cindy._arrays import Floats
from cindy._check import integer
from cindy.basis import Basis
from cindy.calculus import derivative
from cindy.data import Trajectory
from cindy.formulation.base import STRETCH, Formulation, Pair
from cindy.formulation.scales import derivative_window, single_steps, split
from cindy.states import Motion, map_grid, records_of

__all__ = ["Differential", "Discrete"]

Ints = NDArray[np.int64]


@dataclass(frozen=True)
class Differential(Formulation):
    """The derivative of the given order, estimated at every sample, equals ψ(x) Ξ.

    The derivative is that of a local least-squares polynomial of `degree` through
    2 half_width + 1 samples; None: as wide as the noise in the data asks for.

    smooth: half-width of a local-polynomial smoother of the states inside ψ

    >>> import numpy as np
    >>> import cindy
    >>> t = np.linspace(0, 3, 200)
    >>> model = cindy.identify(cindy.Trajectory(t, np.exp(-t), ("x",)), "poly:1", formulation=Differential())
    >>> model.terms, model.coef.ravel().round(3).tolist()
    (('1', 'x'), [0.0, -1.0])
    """

    kind: ClassVar[str] = "differential"
    differentiates: ClassVar[bool] = True
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
        return split(samples, STRETCH)

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
class Discrete(Formulation):
    """The next sample equals ψ(x) Ξ at this one: x[k + 1] = F(x[k]), on a uniform grid.

    A step of two or more (a missing sample) is passed over.

    >>> import numpy as np
    >>> import cindy
    >>> x = [0.4]
    >>> for _ in range(60):
    ...     x.append(3.7 * x[-1] * (1 - x[-1]))
    >>> print(cindy.identify((np.arange(61.0), x), "poly:2", formulation=Discrete()).to_text(errors=False))
    x1[k+1] = 3.7 x1 - 3.7 x1^2
    """

    kind: ClassVar[str] = "discrete"
    discrete: ClassVar[bool] = True
    order: ClassVar[int] = 1  # type: ignore[misc]
    smooth: int | None = None

    def __post_init__(self) -> None:
        self._check_common()

    def motion(
        self, trajectories: Sequence[Trajectory], basis: Basis, *, instants: int | None = None
    ) -> Motion | None:
        # The states are fitted step by step, so that a missing sample would be a step of two, which no map
        # describes.
        if self.smooth is not None or not all(single_steps(one.t).all() for one in trajectories):
            return None
        first = trajectories[0]
        records = records_of(trajectories, lambda t: map_grid(len(t)), least=self.min_samples)
        every = np.arange(len(basis.names(first.variables)) * first.dimension)
        return Motion(records, basis, first.variables, first.dimension, every, every[:0], parts=0)

    @property
    def min_samples(self) -> int:
        return 2

    @property
    def margin(self) -> int:
        return 1 + (self.smooth or 0)

    def edges(self, samples: int) -> Ints:
        return split(samples, STRETCH)

    def fit_to(self, trajectories: Sequence[Trajectory]) -> Self:
        return self

    def at_samples(self, segment: Trajectory, rows: Floats) -> Iterator[Pair]:
        yield segment.t[1:][single_steps(segment.t)], rows

    def _matrix(self, segment: Trajectory, basis: Basis, edges: Ints) -> Floats:
        a, b = int(edges[0]), min(int(edges[-1]), len(segment) - 1)
        # The last stretch may consist of the last sample alone, which has no successor: an empty design of
        # the right width.
        if a >= b:
            a, b = len(segment) - 1, len(segment) - 1
        joined = np.hstack([self._evaluate(segment, basis, a, b), segment.x[a + 1 : b + 1]])
        return np.asarray(joined[single_steps(segment.t)[a:b]])
