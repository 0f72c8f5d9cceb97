"""Forcing: how random kicks, which act all the time, reach rows that look at samples.

A law with kicks reads dx = F(x) dt + G dW. Its rows D x = W F(x) + ε leave the kick of their own step, and
what the quadrature W makes of kicks: F follows a kick at once, and no polynomial through the samples knows
when in the step it came. To first order in J h, with the increment w_j of step j and its first moment η_j,

    ε_k = w_k + Σ_j C_kj J_j w_j − J_k η_k,   w_j ~ N(0, Q_j h),   η_j = ∫ (s − middle) dW ~ N(0, Q_j h³/12),

w and η independent. So the covariance of ε is K = A (Q h) Aᵀ + J (Q h³/12) Jᵀ with A = I + C J. It is
positive definite where a kicked state drives another that is not kicked itself, as a velocity drives a
position. With q h alone the rows of such a position would have no covariance, and what the velocity does
between samples is taken for noise. Q_j has the variances q_i(x_j) = error_i Σ_t shape_ti φ_t(x_j) and one
matrix of correlations.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from cindy._arrays import Floats
from cindy.basis import Polynomial
from cindy.states.grid import Grid

__all__ = ["MONOMIALS", "Forced", "Forcing"]

MONOMIALS = Polynomial(2)
"""The terms of a diffusion."""
_FLOOR = 1e-3
"""Of the mean: the least diffusion by which a row is weighed."""


@dataclass(frozen=True, eq=False)
class Forcing:
    """The shape of the diffusion: q_i(x) over its mean, and how kicks of different equations go together.

    variables: names of the states; shape: (terms, states) coefficients of 1, x, …, x², x y, …
    correlation: (states, states)
    """

    variables: tuple[str, ...]
    shape: Floats
    correlation: Floats

    @classmethod
    def everywhere(cls, variables: tuple[str, ...]) -> Forcing:
        """Independent kicks of one size."""
        shape = np.zeros((len(MONOMIALS.names(variables)), len(variables)))
        shape[0] = 1.0
        return cls(variables, shape, np.eye(len(variables)))

    def on(self, grid: Grid, x: Floats, jacobian: Floats) -> Forced:
        """The kicks of a record at its states (stretches, samples, states)."""
        before = x[:, : grid.rows]
        values = MONOMIALS.evaluate(before.reshape(-1, before.shape[2]), self.variables) @ self.shape
        relative = np.maximum(values, _FLOOR).reshape(before.shape)
        middle = (jacobian + np.concatenate([jacobian[:, 1:], jacobian[:, -1:]], axis=1)) / 2.0
        return Forced(grid, middle, np.sqrt(relative * grid.step[:, None]), self.correlation)


@dataclass(frozen=True, eq=False)
class Forced:
    """Kicks in two channels, increments and first moments, of the steps of one record.

    jacobian: (stretches, samples, states, states) in the middle of the steps, and once more
    size: (stretches, rows, states) standard deviations of increments where the mean diffusion is 1
    """

    grid: Grid
    jacobian: Floats
    size: Floats
    correlation: Floats

    @property
    def _moment(self) -> Floats:
        """(rows, 1): standard deviation of a first moment over that of its increment."""
        return np.asarray(self.grid.step[:, None] / np.sqrt(12.0))

    def back(self, z: Floats) -> Floats:
        """(2, stretches, rows, states): Aᵀ z and Jᵀ z √(h²/12) from rows z."""
        steps, rows = self.grid.steps, self.grid.rows
        pulled = (steps.integrals_back(z)[..., None, :] @ self.jacobian)[..., 0, :]
        own = (z[..., None, :] @ self.jacobian[:, :rows])[..., 0, :]
        return np.stack([(steps.differences_back(z) - pulled)[:, :rows], self._moment * own])

    def moved(self, kicks: Floats) -> Floats:
        """(stretches, rows, states): the transpose of `back`."""
        steps, rows = self.grid.steps, self.grid.rows
        increments = np.concatenate([kicks[0], np.zeros_like(kicks[0][:, :1])], axis=1)
        pushed = steps.integrals((self.jacobian @ increments[..., None])[..., 0])
        own = (self.jacobian[:, :rows] @ (self._moment * kicks[1])[..., None])[..., 0]
        return np.asarray(steps.differences(increments) - pushed + own)

    def covariance(self, error: Floats) -> Floats:
        """(stretches, rows, states, states) of increments: Q h."""
        size = self.size * np.sqrt(error)
        return size[..., :, None] * self.correlation * size[..., None, :]

    def weighted(self, error: Floats, kicks: Floats) -> Floats:
        """Q h times what `back` gives."""
        size = self.size * np.sqrt(error)
        return np.asarray(size * ((size * kicks) @ self.correlation))

    def drawn(self, error: Floats, rng: np.random.Generator) -> Floats:
        """(stretches, rows, states): a draw of what they add to the rows."""
        half = np.linalg.cholesky(self.correlation).T
        return self.moved(self.size * np.sqrt(error) * (rng.standard_normal((2, *self.size.shape)) @ half))

    def band(self, error: Floats) -> Floats:
        """(stretches, rows, d, kd + 1): the lower band of A (Q h) Aᵀ + J (Q h³/12) Jᵀ."""
        d, rows = self.size.shape[2], self.grid.rows
        variance = np.zeros_like(self.jacobian)
        variance[:, :rows] = self.covariance(error)
        pushed = self.jacobian @ variance
        twice = pushed @ np.swapaxes(self.jacobian, -1, -2)
        kinds = np.stack([variance, -np.swapaxes(pushed, -1, -2), -pushed, twice])
        band = self.grid.steps.banded(kinds.reshape(*kinds.shape[:3], d * d))
        own = twice[:, :rows] * self._moment[..., None] ** 2
        for a in range(d):
            band[..., a, : d - a] += own[..., a, a:]
        return band
