"""The discrete form: the next sample on the left-hand side."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import ClassVar, Self

import numpy as np
from numpy.typing import NDArray

from cindy._arrays import Floats
from cindy.basis import Basis
from cindy.data import Trajectory
from cindy.formulation.base import STRETCH, Formulation, Pair
from cindy.formulation.scales import single_steps, split
from cindy.states import Motion, map_grid, records_of

__all__ = ["Discrete"]

Ints = NDArray[np.int64]


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
        if a >= b:
            a, b = len(segment) - 1, len(segment) - 1
        joined = np.hstack([self._evaluate(segment, basis, a, b), segment.x[a + 1 : b + 1]])
        return np.asarray(joined[single_steps(segment.t)[a:b]])
