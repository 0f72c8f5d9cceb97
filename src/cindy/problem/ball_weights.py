"""Weights of the l1 ball: what a unit of each coefficient costs."""

from abc import ABC, abstractmethod
from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from cindy._check import positive
from cindy._types import Floats

__all__ = ["Adaptive", "Uniform", "Weights"]


_STEEPEST = 1e6
"""Ratio of the largest weight to the smallest: beyond it a term is as good as forbidden."""


class Weights(ABC):
    """How the weights follow from a pilot estimate of the scaled coefficients.

    adapts: whether the path that they make leads to the terms that matter, so that more may be asked of it
    """

    adapts: ClassVar[bool] = False

    @abstractmethod
    def of(self, pilot: Floats) -> Floats:
        """(terms, targets), positive."""


@dataclass(frozen=True)
class Uniform(Weights):
    """All coefficients cost the same: the plain l1 ball."""

    def of(self, pilot: Floats) -> Floats:
        return np.ones_like(pilot)


@dataclass(frozen=True)
class Adaptive(Weights):
    """A coefficient costs the less, the larger it is in the pilot: 1 / |pilot| ** power."""

    adapts: ClassVar[bool] = True
    power: float = 1.0

    def __post_init__(self) -> None:
        positive(self.power, "Adaptive: `power`")

    def of(self, pilot: Floats) -> Floats:
        size = np.abs(pilot)
        top = float(size.max(initial=0.0))
        if top == 0.0:
            return np.ones_like(pilot)
        return np.asarray(np.maximum(size / top, 1.0 / _STEEPEST) ** -self.power)
