"""Linearised: the equations of motion around given states, as rows with a banded covariance."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import numpy as np
from numpy.lib.stride_tricks import as_strided

from cindy._types import Floats, Ints
from cindy.states.banded import Factor, factored
from cindy.states.record import Record

__all__ = ["Linearised"]

_IN_STEP = 512
"""Rows whose covariances are made at once: what they take stays in a cache."""


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
        Row k and row k + o meet at the samples both look at, where the weights are known beforehand
        and only J changes: S = Σ_m D D Σ − D W Σ Jᵀ − W D J Σ + W W J Σ Jᵀ.
        """
        grid, d = self.record.grid, self.record.states
        sigma = self.record.spread * variance
        js = self.jacobian * sigma[..., None, :]
        feedback = js @ np.swapaxes(self.jacobian, -1, -2)
        kinds = np.stack([sigma[..., None] * np.eye(d), -np.swapaxes(js, -1, -2), -js, feedback])
        kinds = kinds.reshape(*kinds.shape[:3], d * d)
        drift = np.broadcast_to(error * self.record.durations, (len(sigma), grid.rows, d))
        band = np.zeros((len(sigma), grid.rows, d, (grid.reach + 1) * d))
        rows, used, weights = grid.alike
        for begin in range(rows.start, rows.stop, _IN_STEP):
            at = slice(begin, min(begin + _IN_STEP, rows.stop))
            first = int(grid.start[begin])
            for c in range(len(band)):
                seen = kinds[:, c, first : first + at.stop - at.start + grid.width - 1]
                sums = weights @ _shifted(seen, grid.width, used)
                _enter(band[c : c + 1, at], sums.reshape(len(sums), 1, -1, d, d), drift[c : c + 1, at])
        for at in (slice(0, rows.start), slice(rows.stop, grid.rows)):
            if at.stop > at.start:
                near = zip(grid.products, kinds[:, :, grid.window[at]], strict=True)
                sums = sum(products[at] @ kind for products, kind in near)
                _enter(band[:, at], np.moveaxis(sums, 2, 0).reshape(-1, *sums.shape[:2], d, d), drift[:, at])
        return band.reshape(len(band), grid.rows * d, -1)

    def factors(self, variance: Floats, error: Floats) -> list[Factor] | None:
        """One for each stretch; None where a covariance is not positive."""
        made = []
        for band in self.bands(variance, error):
            one = factored(band.T)
            if one is None:
                return None
            made.append(one)
        return made


def _shifted(kinds: Floats, width: int, used: Ints) -> Floats:
    """(used, rows · entries): what each row meets at some of its kinds · width places, row by row."""
    count, samples, entries = kinds.shape
    step = kinds.itemsize
    along = (kinds.strides[0], entries * step, step)
    places = as_strided(kinds, (count, width, (samples - width + 1) * entries), along)
    return np.asarray(places[np.divmod(used, width)])


def _enter(band: Floats, blocks: Floats, drift: Floats) -> None:
    """Blocks (reach + 1, stretches, rows, d, d) of row k with row k + o, into the lower band of S.

    band: (stretches, rows, d, kd + 1); drift: (stretches, rows, d), what is added to the diagonal
    """
    d = blocks.shape[-1]
    for a in range(d):
        band[..., a, : d - a] = blocks[0][..., a, a:]
    band[..., 0] += drift
    # Element (a, b) of block o lies at o · d + b − a of column a.
    step = band.itemsize
    along = (d * step, *band.strides[:2], band.strides[2] - step, step)
    beyond = as_strided(band[..., d:], (len(blocks) - 1, *blocks.shape[1:]), along)
    beyond[...] = blocks[1:]
