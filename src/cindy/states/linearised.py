"""Linearised: the equations of motion around given states, as rows with a banded covariance."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import numpy as np

from cindy._arrays import Floats
from cindy.states.banded import Factor, factored
from cindy.states.forcing import Forced
from cindy.states.record import Record

__all__ = ["Linearised"]


@dataclass(frozen=True, eq=False)
class Linearised:
    """D y − W J (y − x) = W ψ(x) Ξ + B e, with B = D − W J and e the noise of the measurements.

    D are differences and W integrals of the grid, J the Jacobian of the current model at the
    current states x. The rows are ordered (row of the grid, state).

    x: (stretches, samples, states); jacobian: (stretches, samples, states, states)
    forced: how kicks reach the rows; None where the model error of each row is a kick of its own
    """

    record: Record
    x: Floats
    jacobian: Floats
    forced: Forced | None = None

    @cached_property
    def target(self) -> Floats:
        """(stretches, rows, states)."""
        grid, e = self.record.grid, self.record.y - self.x
        pulled = (self.jacobian @ e[..., None])[..., 0]
        return grid.differences(self.record.y) - grid.integrals(pulled)

    def noise_of(self, values: Floats) -> Floats:
        """Bᵀ values: (stretches, samples, states) from (stretches, rows, states)."""
        grid = self.record.grid
        back = grid.integrals_back(values)
        return grid.differences_back(values) - (back[..., None, :] @ self.jacobian)[..., 0, :]

    def moved(self, noise: Floats) -> Floats:
        """B noise: (stretches, rows, states)."""
        grid = self.record.grid
        return grid.differences(noise) - grid.integrals((self.jacobian @ noise[..., None])[..., 0])

    def bands(self, variance: Floats, error: Floats) -> Floats:
        """(stretches, size, kd + 1): S = B Σ Bᵀ + K, the lower band of each column; K = q h without kicks.

        variance: (states,) of the noise; error: (states,) q, variance per unit of time.
        Row k and row k + o meet at the samples both look at, where the weights are known beforehand
        and only J changes: S = Σ_m D D Σ − D W Σ Jᵀ − W D J Σ + W W J Σ Jᵀ.
        """
        grid, d = self.record.grid, self.record.states
        sigma = self.record.spread * variance
        js = self.jacobian * sigma[..., None, :]
        feedback = js @ np.swapaxes(self.jacobian, -1, -2)
        kinds = np.stack([sigma[..., None] * np.eye(d), -np.swapaxes(js, -1, -2), -js, feedback])
        kinds = kinds.reshape(*kinds.shape[:3], d * d)
        band = grid.banded(kinds)
        if self.forced is None:
            band[..., 0] += np.broadcast_to(error * grid.step[:, None], band.shape[:3])
        else:
            band += self.forced.band(error)
        return band.reshape(len(band), grid.rows * d, -1)

    def kicks_of(self, values: Floats) -> Floats:
        """(channels, stretches, rows, states): what kicks of the steps a weighting of the rows collects."""
        return values[None] if self.forced is None else self.forced.back(values)

    def kicked(self, kicks: Floats) -> Floats:
        """(stretches, rows, states): what kicks (channels, stretches, rows, states) add to the rows."""
        return np.asarray(kicks[0]) if self.forced is None else self.forced.moved(kicks)

    def weighted(self, error: Floats, kicks: Floats) -> Floats:
        """The covariance of the kicks times such an array."""
        if self.forced is not None:
            return self.forced.weighted(error, kicks)
        return np.asarray(error * self.record.grid.step[:, None] * kicks)

    def drawn_kicks(self, error: Floats, rng: np.random.Generator) -> Floats:
        """(stretches, rows, states): what random kicks add to the rows."""
        if self.forced is not None:
            return self.forced.drawn(error, rng)
        return np.sqrt(error * self.record.grid.step[:, None]) * rng.standard_normal(self.target.shape)

    def factors(self, variance: Floats, error: Floats) -> list[Factor] | None:
        """One for each stretch; None where a covariance is not positive."""
        made = []
        for band in self.bands(variance, error):
            one = factored(band.T)
            if one is None:
                return None
            made.append(one)
        return made
