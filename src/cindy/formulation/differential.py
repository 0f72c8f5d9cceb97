"""The differential form: an estimated derivative on the left-hand side."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import ClassVar, Self

import numpy as np
from numpy.typing import NDArray

from cindy._arrays import Floats
from cindy._check import integer
from cindy.basis import Basis
from cindy.calculus import derivative
from cindy.data import Trajectory
from cindy.formulation.base import STRETCH, Formulation
from cindy.formulation.scales import derivative_window, split

__all__ = ["Differential"]

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
