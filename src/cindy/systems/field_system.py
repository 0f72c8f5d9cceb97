"""FieldSystem: a partial differential equation whose sparse coefficients are known."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import cached_property, lru_cache

import numpy as np

from cindy._types import Floats
from cindy.basis import Basis
from cindy.data import Field

__all__ = ["FieldSystem"]


@dataclass(frozen=True, eq=False)
class FieldSystem:
    """A partial differential equation, its dictionary, its true coefficients, and one solution of it.

    solution: makes the exact field; called once
    equations: the true coefficient of each (field, term) that is not zero
    known: fields whose equations are known; the others are measured, but no equation of the dictionary moves
        them
    order: 2 for u_tt = F
    """

    name: str
    basis: Basis
    equations: Mapping[tuple[str, str], float]
    solution: Callable[[], Field]
    known: tuple[str, ...]
    order: int = 1

    @cached_property
    def exact(self) -> Field:
        """The solution without noise, to 1e-10 of its size."""
        return _once(self.solution)

    @cached_property
    def coef(self) -> Floats:
        """The true coefficients, (terms, fields)."""
        field = self.exact
        names = self.basis.on_axes(field.axes).names(field.variables)
        coef = np.zeros((len(names), len(field.states)))
        for (state, term), value in self.equations.items():
            coef[names.index(term), field.states.index(state)] = value
        return coef

    def simulate(self, seed: int = 0, *, noise: float = 0.0) -> Field:
        """The solution with white Gaussian noise, of `noise` times the root mean square of each field."""
        field = self.exact
        draw = np.random.default_rng(seed)
        values = {}
        for state in field.states:
            u = field[state]
            values[state] = u + noise * np.sqrt(np.mean(u**2)) * draw.standard_normal(u.shape)
        return field.with_values(field.t, values)


@lru_cache(maxsize=32)
def _once(solution: Callable[[], Field]) -> Field:
    return solution()
