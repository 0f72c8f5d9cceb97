"""Rows around given states: linearised equations of motion, the kicks that reach them, and banded factors.

`Law` evaluates and differentiates the terms of a support at states.
`Linearised` holds the rows of one record around given states, and `Factor` the Cholesky factor of their
banded covariance, in time linear in the rows. `Forcing` says how random kicks reach rows that look at samples
only. A law with kicks reads dx = F(x) dt + G dW. Its rows D x = W F(x) + ε leave the kick of their own step,
and what the quadrature W makes of kicks: F follows a kick at once, and no polynomial through the samples
knows when in the step it came. To first order in J h, with the increment w_j of step j and its first moment
η_j,

    ε_k = w_k + Σ_j C_kj J_j w_j − J_k η_k,   w_j ~ N(0, Q_j h),   η_j = ∫ (s − middle) dW ~ N(0, Q_j h³/12),

w and η independent. So the covariance of ε is K = A (Q h) Aᵀ + J (Q h³/12) Jᵀ with A = I + C J. It is
positive definite where a kicked state drives another that is not kicked itself, as a velocity drives a
position. With q h alone the rows of such a position would have no covariance, and what the velocity does
between samples is taken for noise. Q_j has the variances q_i(x_j) = error_i Σ_t shape_ti φ_t(x_j) and one
matrix of correlations.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property, lru_cache

import numpy as np
from numpy.lib.stride_tricks import as_strided
from scipy.linalg import blas, lapack

from cindy._arrays import Floats, Ints
from cindy.basis import Basis, Dictionary, Parameter, Plan, Polynomial, Term, differentiate_by_parameter
from cindy.states.grid import Grid
from cindy.states.record import Record

__all__ = ["MONOMIALS", "Factor", "Forced", "Forcing", "Law", "Linearised", "factored"]


@dataclass(frozen=True, eq=False)
class Law:
    """F(x) = Σ ξ_ij ψ_i(x) in equation j, over the support's pairs (i, j) and those that are given.

    variables: names of states, then inputs; states: how many equations there are
    support: (k,) flat indices i · states + j of the coefficients to be fitted, increasing
    given: (m,) flat indices of coefficients that are known beforehand, all of them 1
    unknown: parameters inside terms that are fitted too. The numbers of the law, `coef` below, are then
        (k + p,): the coefficients, and the places of the parameters; others are where the basis has them
    """

    basis: Basis
    variables: tuple[str, ...]
    states: int
    support: Ints
    given: Ints
    unknown: tuple[Parameter, ...] = ()

    @property
    def numbers(self) -> int:
        """How many numbers are fitted."""
        return len(self.support) + len(self.unknown)

    def at(self, coef: Floats) -> Law:
        """The same law with its parameters where they are: coefficients alone are left to be fitted."""
        if not self.unknown:
            return self
        return _at(self, tuple(float(place) for place in coef[len(self.support) :]))

    def tangents(self, points: Floats, coef: Floats) -> Floats:
        """(n, states, p): Σ ξ_ij ∂ψ_i/∂(place of the parameter) in equation j, at points (n, variables)."""
        law, d = self.at(coef), self.states
        every = self.basis.at(self.values_of(coef)).terms(self.variables)
        columns: dict[Term, int] = {}
        dense = self.table(coef)
        entries = []
        for p, one in enumerate(self.unknown):
            scale = one.slope(self.values_of(coef)[one.name])
            for row, i in enumerate(law.terms):
                for factor, slope in differentiate_by_parameter(every[i], one.name, self.variables):
                    entries.append((columns.setdefault(slope, len(columns)), p, factor * scale * dense[row]))
        weights = np.zeros((len(columns), d, len(self.unknown)))
        for column, p, added in entries:
            weights[column, :, p] += added
        table = np.empty((len(points), len(columns)), order="F")
        Plan.of(tuple(columns), self.variables).run(points, table)
        return (table @ weights.reshape(len(columns), -1)).reshape(len(points), d, len(self.unknown))

    def values_of(self, coef: Floats) -> dict[str, float]:
        """The parameters by name."""
        places = coef[len(self.support) :]
        return {one.name: one.value(float(u)) for one, u in zip(self.unknown, places, strict=True)}

    @cached_property
    def pairs(self) -> Ints:
        """Flat indices of all coefficients: those to be fitted, then those given."""
        return np.concatenate([self.support, self.given])

    @cached_property
    def terms(self) -> Ints:
        """The terms that occur."""
        return np.unique(self.pairs // self.states)

    @cached_property
    def columns(self) -> Ints:
        """Where the term of each pair stands among `terms`."""
        return np.searchsorted(self.terms, self.pairs // self.states)

    @cached_property
    def targets(self) -> Ints:
        """The equation of each pair."""
        return self.pairs % self.states

    @cached_property
    def _dictionary(self) -> Dictionary:
        every = self.basis.terms(self.variables)
        return Dictionary.of(tuple(every[i] for i in self.terms), self.variables, repr(self.basis))

    def table(self, coef: Floats) -> Floats:
        """(terms, states) of the terms that occur."""
        dense = np.zeros((len(self.terms), self.states))
        dense[self.columns, self.targets] = np.concatenate(
            [coef[: len(self.support)], np.ones(len(self.given))]
        )
        return dense

    def values(self, points: Floats) -> Floats:
        """(n, terms): of the terms that occur, at points (n, variables)."""
        out = np.empty((len(points), len(self.terms)), order="F")
        if len(self.terms):
            self._dictionary.plan.run(points, out)
        return out

    def jacobian(self, points: Floats, coef: Floats) -> Floats:
        """(n, states, states): ∂F_a / ∂x_c at points (n, variables) for coefficients (k,)."""
        if self.unknown:
            return self.at(coef).jacobian(points, coef[: len(self.support)])
        d = self.states
        if not len(self.terms):
            return np.zeros((len(points), d, d))
        plan, slopes = self._dictionary.slopes
        dense = self.table(coef)
        weights = np.zeros((len(plan.terms), d, d))
        for term, variable, coefficient, column in slopes:
            if variable < d:
                weights[column, :, variable] += coefficient * dense[term]
        if not len(plan.terms):
            return np.zeros((len(points), d, d))
        table = np.empty((len(points), len(plan.terms)), order="F")
        plan.run(points, table)
        return (table @ weights.reshape(len(plan.terms), d * d)).reshape(len(points), d, d)

    def pulled(self, points: Floats, weights: Floats) -> Floats:
        """(k,): Σ_m Σ_j ∂ψ_k/∂x_j weights[m, j, i] for every pair (k, i) of the support.

        points: (n, variables); weights: (n, states, states)
        """
        d = self.states
        plan, slopes = self._dictionary.slopes
        total = np.zeros((len(self.terms), d))
        if len(plan.terms):
            table = np.empty((len(points), len(plan.terms)), order="F")
            plan.run(points, table)
            sums = (table.T @ weights.reshape(len(points), d * d)).reshape(-1, d, d)
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


@lru_cache(maxsize=8)
def _at(law: Law, places: tuple[float, ...]) -> Law:
    values = {one.name: one.value(u) for one, u in zip(law.unknown, places, strict=True)}
    return Law(law.basis.at(values), law.variables, law.states, law.support, law.given)


_FEW = 1500
"""Columns times width of the band up to which one banded solve is faster than a loop over blocks. Timed for
widths of 25 to 64 and 16 to 100 columns the two cross at 1,200 to 2,000."""
_CACHED = 60_000
"""Numbers of the blocks that are copied at once: half a megabyte stays in a cache."""


@dataclass(frozen=True, eq=False)
class Factor:
    """L of S = L Lᵀ, banded.

    band: (kd + 1, size), column by column: band[i, j] = L[i + j, j]
    """

    band: Floats

    @property
    def log_det(self) -> float:
        """log det S."""
        return 2.0 * float(np.sum(np.log(self.band[0])))

    def _blocks(self) -> Iterator[tuple[Floats, Floats]]:
        """The diagonal blocks of L and those below them, (width, width) each: L is block bidiagonal.

        Element (r, c) of L lies at c · height + (r − c) in memory: a block is a dense matrix of leading
        dimension height − 1 whose other triangle holds other columns' numbers. Blocks are copied a cache's
        worth at a time: all at once would take as much memory as the band, many times per step.
        """
        height, size = self.band.shape
        wide = max(height - 1, 1)
        count = -(-size // wide)
        flat = self.band.ravel(order="K")
        item = flat.itemsize
        along = (wide * height * item, item, wide * item)
        # Below the diagonal blocks L has upper triangles; what else the view shows are numbers of other
        # columns.
        upper = np.tri(wide, dtype=bool).T
        at_once = max(_CACHED // wide**2, 1)
        for first in range(0, count, at_once):
            some = min(at_once, count - first)
            begin, needed = first * wide * height, some * wide * height + wide
            run = flat[begin : begin + needed]
            if len(run) < needed:
                # What is beyond the last row is never looked at.
                run = np.concatenate([run, np.zeros(needed - len(run))])
            square = (some, wide, wide)
            diagonal = np.ascontiguousarray(as_strided(run, square, along, writeable=False))
            yield from zip(
                diagonal,
                np.where(upper, as_strided(run[wide:], square, along, writeable=False), 0.0),
                strict=True,
            )

    def columns(self, wide: int, reach: int) -> Floats:
        """(count, (reach + 1) wide, wide): L by blocks of columns, from their diagonals down, ones beyond.

        reach: blocks below the diagonal that hold the whole band
        """
        height, size = self.band.shape
        count, tall = -(-size // wide), (reach + 1) * wide
        flat = np.zeros((count * wide + 1) * height + tall)
        flat[: height * size] = self.band.ravel(order="K")
        item = flat.itemsize
        seen = as_strided(flat, (count, tall, wide), (wide * height * item, item, (height - 1) * item))
        row, column = np.ogrid[:tall, :wide]
        inside = (row >= column) & (row - column < height)
        made = np.where(inside, seen, 0.0)
        # The band goes on below the last row, and what it holds there means nothing.
        row, column = np.arange(count)[:, None] * wide + np.arange(tall), np.arange(count * wide)
        made[row >= size] = 0.0
        beyond = column[size:]
        made[-1, beyond % wide, beyond % wide] = 1.0
        return made

    def whiten(self, values: Floats) -> Floats:
        """L⁻¹ values, (size, columns) row by row in memory, written over them."""
        wide = max(self.band.shape[0] - 1, 1)
        if values.shape[1] * (self.band.shape[0] - 1) <= _FEW:
            values[...] = _banded_solve(self.band, values, transposed=False)
            return values
        assert values.flags.c_contiguous
        before, below = values[:0], np.zeros((wide, 0))
        for k, (diagonal, next_below) in enumerate(self._blocks()):
            part = values[k * wide : (k + 1) * wide]
            rows = len(part)
            if k:
                part -= below[:rows] @ before
            # Xᵀ Lᵀ = Bᵀ: row-major blocks are column-major transposes, solved where they are.
            blas.dtrsm(1.0, diagonal[:rows, :rows].T, part.T, side=1, lower=0, overwrite_b=1)
            before, below = part, next_below
        return values

    def whiten_back(self, values: Floats) -> Floats:
        """L⁻ᵀ values, (size, columns)."""
        return _banded_solve(self.band, values, transposed=True)


def factored(band: Floats) -> Factor | None:
    """The factor of a symmetric matrix in lower band storage, overwritten; None where it is not positive."""
    made, info = lapack.dpbtrf(band, lower=1, overwrite_ab=1)
    return None if info else Factor(made)


def _banded_solve(band: Floats, values: Floats, *, transposed: bool) -> Floats:
    solution, info = lapack.dtbtrs(band, values, uplo="L", trans="T" if transposed else "N")
    if info:
        raise ArithmeticError("a covariance of the rows is singular")
    return np.asarray(solution)


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
        slope = None
        if np.any(self.shape[1:]):
            each = MONOMIALS.derivative(before.reshape(-1, before.shape[2]), self.variables)
            slope = np.einsum("nta,ti->nia", each, self.shape).reshape(*before.shape, -1)
            slope = np.where((relative > _FLOOR)[..., None], slope, 0.0) * grid.step[:, None, None]
        return Forced(grid, middle, np.sqrt(relative * grid.step[:, None]), self.correlation, slope)


@dataclass(frozen=True, eq=False)
class Forced:
    """Kicks in two channels, increments and first moments, of the steps of one record.

    jacobian: (stretches, samples, states, states) in the middle of the steps, and once more
    size: (stretches, rows, states) standard deviations of increments where the mean diffusion is 1
    slope: (stretches, rows, states i, states a): ∂ size_i² / ∂x_a; None where kicks are of one size
    """

    grid: Grid
    jacobian: Floats
    size: Floats
    correlation: Floats
    slope: Floats | None

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

    @property
    def grid(self) -> Grid:
        """That of the rows whose covariance is factorised: kicks that act within steps want them unmixed."""
        return self.record.grid.narrow if self.forced is None else self.record.grid

    def turned(self, rows: Floats, *, back: bool = False) -> Floats:
        """Rows (stretches, rows, …) as their covariance has them, written over them; or back."""
        return rows if self.forced is not None else self.record.grid.turned(rows, back=back)

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

        Its rows are `turned`: mixed at the ends.

        variance: (states,) of the noise; error: (states,) q, variance per unit of time.
        Row k and row k + o meet at the samples both look at, where the weights are known beforehand
        and only J changes: S = Σ_m D D Σ − D W Σ Jᵀ − W D J Σ + W W J Σ Jᵀ.
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
