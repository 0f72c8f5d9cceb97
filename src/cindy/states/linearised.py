"""Linearised: the equations of motion around given states, as rows with a banded covariance."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import numpy as np

from cindy._types import Floats
from cindy.states.banded import Factor, factored
from cindy.states.record import Record

__all__ = ["Linearised"]


@dataclass(frozen=True, eq=False)
class Linearised:
    """D y − W J (y − x) = W ψ(x) Ξ + B e, with B = D − W J and e the noise of the measurements.

    D are differences and W integrals of the grid, J the Jacobian of the current model at the
    current states x. The rows are ordered (row of the grid, state).

    x: (stretches, samples, states); jacobian: (stretches, samples, states, states)
    """

    record: Record
    x: Floats
    jacobian: Floats

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
        """(stretches, size, kd + 1): S = B Σ Bᵀ + q h, the lower band of each column.

        variance: (states,) of the noise; error: (states,) q, variance per unit of time.
        Products of diagonals: row k and row k + o meet at the samples both look at, where
        the weights are known beforehand and only J changes:
        S = Σ_m D D Σ − D W Σ Jᵀ − W D J Σ + W W J Σ Jᵀ.
        """
        grid, d = self.record.grid, self.record.states
        sigma = self.record.spread * variance
        js = self.jacobian * sigma[..., None, :]
        count, samples = sigma.shape[:2]
        feedback = (js @ np.swapaxes(self.jacobian, -1, -2)).reshape(count, samples, d * d)
        across = np.swapaxes(js, -1, -2).reshape(count, samples, d * d)
        parts = (sigma, across, js.reshape(count, samples, d * d), feedback)
        blocks = np.zeros((grid.reach + 1, count, grid.rows, d * d))
        own = np.zeros((grid.reach + 1, count, grid.rows, d))
        rows, products = grid.alike
        for o, p, (dd, dw, wd, ww) in products:
            first = int(grid.start[rows.start]) + p
            at = slice(first, first + rows.stop - rows.start)
            into = blocks[o, :, rows]
            into += ww * feedback[:, at]
            if wd:
                into -= wd * parts[2][:, at]
            if dw:
                into -= dw * across[:, at]
            if dd:
                own[o, :, rows] += dd * sigma[:, at]
        for rest in (slice(0, rows.start), slice(rows.stop, grid.rows)):
            if rest.stop > rest.start:
                ends = [product[rest] for product in grid.products]
                near = [part[:, grid.window[rest]] for part in parts]
                own[:, :, rest] = np.moveaxis(ends[0] @ near[0], 2, 0)
                blocks[:, :, rest] = np.moveaxis(
                    ends[3] @ near[3] - ends[2] @ near[2] - ends[1] @ near[1], 2, 0
                )
        blocks = blocks.reshape(*blocks.shape[:3], d, d)
        diagonal = np.arange(d)
        blocks[..., diagonal, diagonal] += own
        blocks[0][..., diagonal, diagonal] += error * grid.step[:, None]
        return _lower_band(blocks)

    def factors(self, variance: Floats, error: Floats) -> list[Factor] | None:
        """One for each stretch; None where a covariance is not positive."""
        made = []
        for band in self.bands(variance, error):
            one = factored(band.T)
            if one is None:
                return None
            made.append(one)
        return made


def _lower_band(blocks: Floats) -> Floats:
    """(stretches, size, kd + 1) from blocks (reach + 1, stretches, rows, d, d) of row k with row k + o."""
    reach, count, rows, d, _ = blocks.shape
    reach = min(reach, rows)
    band = np.zeros((count, rows, d, reach * d))
    for o in range(reach):
        for a in range(d):
            first = max(a - o * d, 0)
            band[:, :, a, o * d + first - a : (o + 1) * d - a] = blocks[o, :, :, a, first:]
    return band.reshape(count, rows * d, reach * d)
