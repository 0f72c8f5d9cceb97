"""Rows around given states: the linearised equations of motion, their covariance, and its banded factors.

`Law` evaluates and differentiates the terms of a support. `Linearised` holds the rows of one record around
given states, and `Factor` the Cholesky factor of their banded covariance, in time linear in the rows.
`Forcing` describes random kicks that also act between samples:

A law with kicks reads dx = F(x) dt + G dW. The residual ε of its rows D x = W F(x) + ε contains the kick of
the row's own step and the error that kicks cause in the quadrature W: F follows a kick at once, whereas a
polynomial through the samples does not know when in the step it came. To first order in J h, with the
increment w_j of step j and its first moment η_j,

    ε_k = w_k + Σ_j C_kj J_j w_j − J_k η_k,   w_j ~ N(0, Q_j h),   η_j = ∫ (s − middle) dW ~ N(0, Q_j h³/12),

w and η independent. So the covariance of ε is K = A (Q h) Aᵀ + J (Q h³/12) Jᵀ with A = I + C J. It is
positive definite if a kicked state drives one that is not kicked, as a velocity drives a position. With q h
alone the rows of the position would have no covariance, and the motion of the velocity between samples would
be taken as noise. Q_j has the variances q_i(x_j) = error_i Σ_t shape_ti φ_t(x_j) and one matrix of
correlations.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property, lru_cache

import numpy as np
from numpy.lib.stride_tricks import as_strided
from numpy.typing import NDArray
from scipy.linalg import blas, lapack

from cindy._arrays import Floats, Ints
from cindy.basis import Basis, Parameter, Plan, Polynomial, Term, differentiate_by_parameter
from cindy.states.grid import Grid
from cindy.states.record import Record


@dataclass(frozen=True, eq=False)
class Law:
    """F(x) = Σ ξ_ij ψ_i(x) in equation j, over the pairs (i, j) of the support and of the given terms.

    variables: names of states, then inputs
    states: number of equations
    support: (k,) flat indices i · states + j of the coefficients to be fitted, increasing
    given: (m,) flat indices of coefficients that are known to be 1
    unknown: parameters inside terms that are fitted too. The numbers of the law, `coef` below, are then
        (k + p,): the coefficients and the places of these parameters. The basis holds all others
    """

    basis: Basis
    variables: tuple[str, ...]
    states: int
    support: Ints
    given: Ints
    unknown: tuple[Parameter, ...] = ()

    @property
    def numbers(self) -> int:
        """The number of fitted coefficients and parameters."""
        return len(self.support) + len(self.unknown)

    def at(self, coef: Floats) -> Law:
        """The law with its parameters fixed at these numbers, so that only coefficients are unknown."""
        if not self.unknown:
            return self
        return _at(self, tuple(float(place) for place in coef[len(self.support) :]))

    def tangents(self, points: Floats, coef: Floats) -> Floats:
        """(n, states, p): Σ ξ_ij ∂ψ_i/∂(place of the parameter) in equation j, at points (n, variables)."""
        law, d = self.at(coef), self.states
        terms = self.basis.at(self.values_of(coef)).terms(self.variables)
        columns: dict[Term, int] = {}
        dense = self.table(coef)
        entries = []
        for p, parameter in enumerate(self.unknown):
            scale = parameter.slope(self.values_of(coef)[parameter.name])
            for row, i in enumerate(law.terms):
                for factor, slope in differentiate_by_parameter(terms[i], parameter.name, self.variables):
                    entries.append((columns.setdefault(slope, len(columns)), p, factor * scale * dense[row]))
        weights = np.zeros((len(columns), d, len(self.unknown)))
        for column, p, amount in entries:
            weights[column, :, p] += amount
        table = _evaluated(Plan.of(tuple(columns), self.variables), points)
        return (table @ weights.reshape(len(columns), -1)).reshape(len(points), d, len(self.unknown))

    def values_of(self, coef: Floats) -> dict[str, float]:
        """The value of each parameter, by name."""
        pairs = zip(self.unknown, coef[len(self.support) :], strict=True)
        return {parameter.name: parameter.value(float(place)) for parameter, place in pairs}

    @cached_property
    def pairs(self) -> Ints:
        """Flat indices of all coefficients: those to be fitted, then those given."""
        return np.concatenate([self.support, self.given])

    @cached_property
    def terms(self) -> Ints:
        """The terms that occur in the law, as indices of the basis."""
        return np.unique(self.pairs // self.states)

    @cached_property
    def columns(self) -> Ints:
        """The place of the term of each pair among `terms`."""
        return np.searchsorted(self.terms, self.pairs // self.states)

    @cached_property
    def targets(self) -> Ints:
        """The equation of each pair."""
        return self.pairs % self.states

    @cached_property
    def _plan(self) -> Plan:
        terms = self.basis.plan(self.variables).terms
        return Plan.of([terms[i] for i in self.terms], self.variables)

    def table(self, coef: Floats) -> Floats:
        """(terms, states) coefficients of the terms that occur."""
        dense = np.zeros((len(self.terms), self.states))
        dense[self.columns, self.targets] = np.concatenate(
            [coef[: len(self.support)], np.ones(len(self.given))]
        )
        return dense

    def values(self, points: Floats) -> Floats:
        """(n, terms): values of the terms that occur, at points (n, variables)."""
        return _evaluated(self._plan, points) if len(self.terms) else np.empty((len(points), 0))

    def jacobian(self, points: Floats, coef: Floats) -> Floats:
        """(n, states, states): ∂F_a / ∂x_c at points (n, variables) for coefficients (k,)."""
        if self.unknown:
            return self.at(coef).jacobian(points, coef[: len(self.support)])
        d = self.states
        if not len(self.terms):
            return np.zeros((len(points), d, d))
        plan, slopes = self._plan.slopes
        dense = self.table(coef)
        weights = np.zeros((len(plan.terms), d, d))
        for term, variable, coefficient, column in slopes:
            if variable < d:
                weights[column, :, variable] += coefficient * dense[term]
        return (_evaluated(plan, points) @ weights.reshape(len(plan.terms), d * d)).reshape(len(points), d, d)

    def pulled(self, points: Floats, weights: Floats) -> Floats:
        """(k,): Σ_m Σ_j ∂ψ_k/∂x_j weights[m, j, i] for every pair (k, i) of the support.

        points: (n, variables); weights: (n, states, states)
        """
        d = self.states
        plan, slopes = self._plan.slopes
        total = np.zeros((len(self.terms), d))
        sums = (_evaluated(plan, points).T @ weights.reshape(len(points), d * d)).reshape(-1, d, d)
        for term, variable, coefficient, column in slopes:
            if variable < d:
                total[term] += coefficient * sums[column, variable]
        free = len(self.support)
        return np.asarray(total[self.columns[:free], self.targets[:free]])

    def collected(self, points: Floats, weights: Floats) -> Floats:
        """(k,): Σ_m ψ_k(x_m) weights[m, i] for every pair (k, i) of the support; weights: (…, states)."""
        total = self.values(points).T @ weights.reshape(len(points), self.states)
        free = len(self.support)
        return np.asarray(total[self.columns[:free], self.targets[:free]])


def _evaluated(plan: Plan, points: Floats) -> Floats:
    """(n, terms): the terms of a plan at points (n, variables)."""
    table = np.empty((len(points), len(plan.terms)), order="F")
    plan.run(points, table)
    return table


@lru_cache(maxsize=8)
def _at(law: Law, places: tuple[float, ...]) -> Law:
    values = {parameter.name: parameter.value(u) for parameter, u in zip(law.unknown, places, strict=True)}
    return Law(law.basis.at(values), law.variables, law.states, law.support, law.given)


_FEW = 1500
"""Number of columns times width of the band up to which one banded solve is faster than a loop over blocks.
Timed for widths of 25 to 64 and 16 to 100 columns, the two take equal time at 1,200 to 2,000."""
_CACHED = 60_000
"""Numbers in the blocks that are copied at once: half a megabyte fits in the cache."""
_WIDE = 64
"""Largest width of a block. Timed for bands of width 300, which 30 states have, 48 to 64 take four fifths of
the time of blocks as wide as the band, whose products are half zeros."""


@dataclass(frozen=True, eq=False)
class Factor:
    """The banded Cholesky factor L of S = L Lᵀ.

    band: (kd + 1, size), column by column: band[i, j] = L[i + j, j]
    """

    band: Floats

    @property
    def log_det(self) -> float:
        """log det S."""
        return 2.0 * float(np.sum(np.log(self.band[0])))

    def columns(self, wide: int, reach: int, first: int = 0, most: int | None = None) -> Floats:
        """(count, (reach + 1) wide, wide): L by blocks of columns from the diagonal down, then an identity.

        Element (r, c) of L lies at c · height + (r − c) in memory. So a block is a dense matrix of leading
        dimension height − 1, in whose other triangle stand numbers of other columns.

        reach: number of blocks below the diagonal that hold the whole band
        first, most: the block to begin with, and how many are wanted; by default all
        """
        height, size = self.band.shape
        count, tall = -(-size // wide) - first, (reach + 1) * wide
        count = count if most is None else min(count, most)
        begin, needed = first * wide * height, (count * wide + 1) * height + tall
        flat = self.band.ravel(order="K")[begin : begin + needed]
        if len(flat) < needed:
            flat = np.concatenate([flat, np.zeros(needed - len(flat))])
        item = flat.itemsize
        along = (wide * height * item, item, (height - 1) * item)
        view = as_strided(flat, (count, tall, wide), along, writeable=False)
        columns = np.where(_inside(tall, wide, height), view, 0.0)
        # The band continues below the last row with meaningless numbers.
        row, column = (np.arange(first, first + count) * wide)[:, None] + np.arange(tall), np.arange(wide)
        columns[row >= size] = 0.0
        padding = column[row[-1, :wide] >= size]
        columns[-1, padding, padding] = 1.0
        return columns

    def whiten(self, values: Floats) -> Floats:
        """L⁻¹ values, which are (size, columns) row by row in memory and are overwritten."""
        reached = max(self.band.shape[0] - 1, 1)
        if values.shape[1] * reached <= _FEW:
            values[...] = _banded_solve(self.band, values, transposed=False)
            return values
        assert values.flags.c_contiguous
        wide = min(reached, _WIDE)
        reach = -(-reached // wide)
        at_once = max(_CACHED // (reach * wide**2), 1)
        for k, begin in enumerate(range(0, len(values), wide)):
            if k % at_once == 0:
                blocks = self.columns(wide, reach, k, at_once)
            block, part = blocks[k % at_once], values[begin : begin + wide]
            # Xᵀ Lᵀ = Bᵀ: row-major blocks are column-major transposes, solved where they are.
            blas.dtrsm(1.0, block[: len(part), : len(part)].T, part.T, side=1, lower=0, overwrite_b=1)
            below = values[begin + wide : begin + (reach + 1) * wide]
            if len(below):
                below -= block[wide : wide + len(below)] @ part
        return values

    def whiten_back(self, values: Floats) -> Floats:
        """L⁻ᵀ values, (size, columns)."""
        return _banded_solve(self.band, values, transposed=True)


@lru_cache(maxsize=16)
def _inside(tall: int, wide: int, height: int) -> NDArray[np.bool_]:
    """(tall, wide): where a block of columns from the diagonal down lies inside the band."""
    return np.asarray(np.tri(tall, wide, dtype=bool) & ~np.tri(tall, wide, -height, dtype=bool))


def factored(band: Floats) -> Factor | None:
    """The factor of a symmetric matrix in lower band storage, overwritten; None if not positive definite."""
    factor, info = lapack.dpbtrf(band, lower=1, overwrite_ab=1)
    return None if info else Factor(factor)


def _banded_solve(band: Floats, values: Floats, *, transposed: bool) -> Floats:
    solution, info = lapack.dtbtrs(band, values, uplo="L", trans="T" if transposed else "N")
    if info:
        raise ArithmeticError("a covariance of the rows is singular")
    return np.asarray(solution)


MONOMIALS = Polynomial(2)
"""The basis of a diffusion."""
_FLOOR = 1e-3
"""Least diffusion by which a row is weighed, relative to the mean."""


@dataclass(frozen=True, eq=False)
class Forcing:
    """The shape of the diffusion, q_i(x) over its mean, and the correlations of kicks of different equations.

    variables: names of the states
    shape: (terms, states) coefficients of 1, x, …, x², x y, …
    correlation: (states, states)
    """

    variables: tuple[str, ...]
    shape: Floats
    correlation: Floats

    @classmethod
    def everywhere(cls, variables: tuple[str, ...]) -> Forcing:
        """Independent kicks of constant size."""
        shape = np.zeros((len(MONOMIALS.names(variables)), len(variables)))
        shape[0] = 1.0
        return cls(variables, shape, np.eye(len(variables)))

    def on(self, grid: Grid, x: Floats, jacobian: Floats) -> _Forced:
        """The kicks of a record at its states (stretches, samples, states)."""
        before = x[:, : grid.rows]
        values = MONOMIALS.evaluate(before.reshape(-1, before.shape[2]), self.variables) @ self.shape
        relative = np.maximum(values, _FLOOR).reshape(before.shape)
        middle = (jacobian + np.concatenate([jacobian[:, 1:], jacobian[:, -1:]], axis=1)) / 2.0
        slope = None
        if np.any(self.shape[1:]):
            derivatives = MONOMIALS.derivative(before.reshape(-1, before.shape[2]), self.variables)
            slope = np.einsum("nta,ti->nia", derivatives, self.shape).reshape(*before.shape, -1)
            slope = np.where((relative > _FLOOR)[..., None], slope, 0.0) * grid.step[:, None, None]
        return _Forced(grid, middle, np.sqrt(relative * grid.step[:, None]), self.correlation, slope)


@dataclass(frozen=True, eq=False)
class _Forced:
    """The kicks in the steps of one record, in two channels: increments and first moments.

    jacobian: (stretches, samples, states, states) at the middle of the steps, the last one repeated
    size: (stretches, rows, states) standard deviations of increments if the mean diffusion is 1
    slope: (stretches, rows, states i, states a): ∂ size_i² / ∂x_a; None if kicks have constant size
    """

    grid: Grid
    jacobian: Floats
    size: Floats
    correlation: Floats
    slope: Floats | None

    @property
    def _moment(self) -> Floats:
        """(rows, 1): ratio of the standard deviations of a first moment and of its increment."""
        return np.asarray(self.grid.step[:, None] / np.sqrt(12.0))

    def back(self, z: Floats) -> Floats:
        """(2, stretches, rows, states): Aᵀ z and Jᵀ z √(h²/12) from rows z."""
        steps, rows = self.grid.steps, self.grid.rows
        pulled = (steps.integrals_back(z)[..., None, :] @ self.jacobian)[..., 0, :]
        moments = (z[..., None, :] @ self.jacobian[:, :rows])[..., 0, :]
        return np.stack([(steps.differences_back(z) - pulled)[:, :rows], self._moment * moments])

    def moved(self, kicks: Floats) -> Floats:
        """(stretches, rows, states): the transpose of `back`."""
        steps, rows = self.grid.steps, self.grid.rows
        increments = np.concatenate([kicks[0], np.zeros_like(kicks[0][:, :1])], axis=1)
        pushed = steps.integrals((self.jacobian @ increments[..., None])[..., 0])
        moments = (self.jacobian[:, :rows] @ (self._moment * kicks[1])[..., None])[..., 0]
        return np.asarray(steps.differences(increments) - pushed + moments)

    def covariance(self, error: Floats) -> Floats:
        """(stretches, rows, states, states): Q h, the covariance of the increments."""
        size = self.size * np.sqrt(error)
        return size[..., :, None] * self.correlation * size[..., None, :]

    def weighted(self, error: Floats, kicks: Floats) -> Floats:
        """Q h times kicks, in the shape that `back` returns."""
        size = self.size * np.sqrt(error)
        return np.asarray(size * ((size * kicks) @ self.correlation))

    def drawn(self, error: Floats, rng: np.random.Generator) -> Floats:
        """(stretches, rows, states): a random draw of what kicks add to the rows."""
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
        # A first moment acts in its own step alone, so that it adds to the diagonal blocks only.
        own = twice[:, :rows] * self._moment[..., None] ** 2
        for a in range(d):
            band[..., a, : d - a] += own[..., a, a:]
        return band


@dataclass(frozen=True, eq=False)
class Linearised:
    """D y − W J (y − x) = W ψ(x) Ξ + B e, with B = D − W J and e the noise of the measurements.

    D are differences and W integrals of the grid, J is the Jacobian of the current model at the
    current states x. The rows are ordered by (row of the grid, state).

    x: (stretches, samples, states)
    jacobian: (stretches, samples, states, states)
    forced: how kicks reach the rows; None if each row has an independent model error
    in_order: whether the rows stay in the order of time; otherwise they are mixed at the ends
    """

    record: Record
    x: Floats
    jacobian: Floats
    forced: _Forced | None = None
    in_order: bool = False

    @property
    def grid(self) -> Grid:
        """The grid of the rows whose covariance is factorised."""
        return self.record.grid if self.in_order else self.record.grid.narrow

    def turned(self, rows: Floats, *, back: bool = False) -> Floats:
        """Rows (stretches, rows, …) mixed at the ends as their covariance is, or mixed back. Overwritten."""
        return rows if self.in_order else self.record.grid.turned(rows, back=back)

    @cached_property
    def target(self) -> Floats:
        """(stretches, rows, states): D y − W J (y − x)."""
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
        """(stretches, size, kd + 1): the lower band of S = B Σ Bᵀ + K, column by column, in `turned` rows.

        variance: (states,) of the noise; error: (states,) q, in K = q h or `_Forced.band`

        Row k and row k + o share samples, at which the weights are known beforehand and only J changes:
        S = Σ_m D D Σ − D W Σ Jᵀ − W D J Σ + W W J Σ Jᵀ.
        """
        grid, d = self.grid, self.record.states
        sigma, record = self.record.covariance(variance), self.record
        if record.correlation is None:
            js = self.jacobian * (record.spread * variance)[..., None, :]
        else:
            js = self.jacobian @ sigma
        feedback = js @ np.swapaxes(self.jacobian, -1, -2)
        kinds = np.stack([sigma, -np.swapaxes(js, -1, -2), -js, feedback])
        kinds = kinds.reshape(*kinds.shape[:3], d * d)
        band = grid.banded(kinds)
        if self.forced is None:
            band[..., 0] += np.broadcast_to(error * grid.step[:, None], band.shape[:3])
        else:
            band += self.forced.band(error)
        return band.reshape(len(band), grid.rows * d, -1)

    def kicks_of(self, values: Floats) -> Floats:
        """(channels, stretches, rows, states): Aᵀ values, from values at the rows to kicks of the steps."""
        return values[None] if self.forced is None else self.forced.back(values)

    def kicked(self, kicks: Floats) -> Floats:
        """(stretches, rows, states): what kicks (channels, stretches, rows, states) add to the rows."""
        return np.asarray(kicks[0]) if self.forced is None else self.forced.moved(kicks)

    def weighted(self, error: Floats, kicks: Floats) -> Floats:
        """The covariance of the kicks times kicks (channels, stretches, rows, states)."""
        if self.forced is not None:
            return self.forced.weighted(error, kicks)
        return np.asarray(error * self.record.grid.step[:, None] * kicks)

    def drawn_kicks(self, error: Floats, rng: np.random.Generator) -> Floats:
        """(stretches, rows, states): what random kicks add to the rows."""
        if self.forced is not None:
            return self.forced.drawn(error, rng)
        return np.sqrt(error * self.record.grid.step[:, None]) * rng.standard_normal(self.target.shape)

    def factors(self, variance: Floats, error: Floats) -> list[Factor] | None:
        """The factor of each stretch; None if a covariance is not positive definite."""
        factors = []
        for band in self.bands(variance, error):
            factor = factored(band.T)
            if factor is None:
                return None
            factors.append(factor)
        return factors
