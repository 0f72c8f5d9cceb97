"""Least squares on a support under equalities and bounds, and the errors of its coefficients.

    minimise Σ_j ‖A ξ_j − b_j‖² / σ_j²    over ξ with lower ≤ R ξ ≤ upper, ξ = 0 outside the support

1. Inequalities that bind at the optimum become equalities (`binding`).
2. Equalities are met by their null space, ξ = N θ + ξ₀, so that θ is free (`Regression.fit`).
3. θ follows from the triangle of [A | b], and its spread S with S Sᵀ = (AᵀA)⁻¹ comes with it.
4. Rows of one block of time are not independent of each other: errors come from the scatter between blocks
   (`jackknife`, `sandwich`), and are never below the classical ones.

A fit of k terms to p candidates costs O(p k²), whatever the number of samples.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np
import scipy.linalg
from numpy.typing import NDArray
from scipy.sparse import csr_array
from scipy.sparse.csgraph import connected_components

from cindy._arrays import Floats, Ints
from cindy.errors import InfeasibleError
from cindy.least_squares import Equalities, Freedom, LeastSquares, Rows, lengths, stacked, triangle

__all__ = [
    "Fit",
    "Refit",
    "Regression",
    "binding",
    "classical",
    "design_effect",
    "independent",
    "jackknife",
    "refit",
    "sandwich",
]

_ROUNDING = 1e-11
"""Of the largest pivot: what pivoting leaves of unit columns that depend on each other, and a thousand
times more than double precision does."""


@dataclass(frozen=True, eq=False)
class Fit:
    """The least-squares coefficients on a support, and how they vary.

    support: (k,) flat indices; x: (k,) coefficients
    spread: (k, free), times its transpose the covariance, where the noise has unit size
    loss: what is left, in units of the noise
    valued: (k,) which an equality that must not be zero holds; None: none of them
    """

    support: Ints
    x: Floats
    spread: Floats
    loss: float
    valued: NDArray[np.bool_] | None = None

    @property
    def free(self) -> int:
        """How many parameters were fitted: fewer than coefficients where some are tied."""
        return int(self.spread.shape[1])


@dataclass(frozen=True, eq=False)
class Regression:
    """Blocks of rows that share their coefficients, (terms, targets) flattened, under equalities.

    Targets that no equality connects are fitted apart; those it connects, together, each in
    units of its own noise.

    rows: constraints over the flattened coefficients; a fit obeys the equalities among them
    floor: (targets,) root mean square error of the rows themselves, by discretisation say; a
        residual below it is not to be explained
    unit: (targets,) the noise, where a larger regression has told it
    """

    blocks: tuple[LeastSquares, ...]
    rows: Rows
    floor: Floats | None = None
    unit: Floats | None = None

    @cached_property
    def equal(self) -> Equalities:
        """Over terms · targets."""
        return self.rows.equalities

    @cached_property
    def total(self) -> LeastSquares:
        factor = stacked([b.factor for b in self.blocks])
        return LeastSquares(factor, self.blocks[0].terms, sum(b.rows for b in self.blocks))

    @cached_property
    def _products(self) -> Floats:
        """(terms, terms + targets): Aᵀ[A B] of all blocks."""
        terms = self.total.terms
        return np.asarray(self.total.design[:terms].T @ self.total.factor[:terms])

    def products(self, target: int) -> tuple[Floats, Floats, float]:
        """AᵀA, Aᵀb of a target, and the variance of its noise."""
        terms = self.total.terms
        return self._products[:, :terms], self._products[:, terms + target], float(self.noise[target]) ** 2

    @property
    def shape(self) -> tuple[int, int]:
        return self.total.terms, self.total.targets

    @cached_property
    def groups(self) -> list[Ints]:
        """Targets that must be fitted together."""
        matrix, targets = self.equal.matrix, self.shape[1]
        # Two targets are fitted together where an equality names coefficients of both.
        touch = csr_array(
            (np.ones(matrix.nnz), matrix.indices % targets, matrix.indptr), shape=(len(self.equal), targets)
        )
        labels = connected_components(touch.T @ touch, directed=False)[1]
        return [np.flatnonzero(labels == k) for k in range(labels.max() + 1)]

    @cached_property
    def _row_target(self) -> Ints:
        """A target that each equality speaks of, and so its group."""
        matrix = self.equal.matrix
        if not matrix.nnz:
            return np.zeros(len(self.equal), dtype=np.intp)
        first = matrix.indices[np.minimum(matrix.indptr[:-1], matrix.nnz - 1)]
        return np.asarray(first % self.shape[1], dtype=np.intp)

    @cached_property
    def independent(self) -> int:
        """The numerical rank of the design."""
        return independent(self.total.design)

    @cached_property
    def noise(self) -> Floats:
        """(targets,) standard deviation of what no combination of the terms explains."""
        if self.unit is not None:
            return self.unit
        terms = self.shape[0]
        # Below the triangle of the terms stands what no combination of them explains: the residual of the
        # full model.
        left = np.sum(self.total.target[min(terms, len(self.total.factor)) :] ** 2, axis=0)
        sigma = np.sqrt(left / max(self.total.rows - self.independent, 1))
        return np.asarray(np.hypot(sigma, self._floor))

    @cached_property
    def _floor(self) -> Floats:
        """(targets,) error of the rows themselves, and of rounding, which even an exact model leaves."""
        whole = np.sqrt(np.sum(self.total.target**2, axis=0) / self.total.rows)
        # A target may be zero throughout.
        whole[whole == 0.0] = 1.0
        return np.asarray(np.hypot(1e-14 * whole, 0.0 if self.floor is None else self.floor))

    def coefficients(self, targets: Ints) -> Ints:
        """The flat indices of all coefficients of the targets."""
        terms, width = self.shape
        return (np.arange(terms)[:, None] * width + targets).ravel()

    def fit(self, support: Ints, targets: Ints) -> Fit:
        """Least squares for the targets of a group, on a support within them.

        Parameters of one target alone are eliminated target by target; only those that
        equalities share between targets are fitted to what is left of all of them.

        Equalities are met by the null space, x = basis θ + offset: supports are small, equalities may
        repeat each other on them, and the spread of θ is that of x. The solver meets them by prices
        instead (`correction.least_squares_within`, and `GrowingQR` for one), which keeps all coefficients.
        """
        # Without equalities a target has a regression of its own, and only its own columns are touched.
        if not len(self.equal):
            columns, goal = self._rows_of(support, int(targets[0]))
            x, spread, least = _solved(columns, goal)
            return Fit(support, x, spread, least + self.unexplained(targets))
        free = self._freedom(support, targets)
        owner = _owners(free.basis, support % self.shape[1])
        shared = np.flatnonzero(owner < 0)
        parts = [self._part(support, j, free, np.flatnonzero(owner == j), shared) for j in targets]
        common, spread, least = _solved(
            np.vstack([p.across for p in parts]), np.concatenate([p.left for p in parts])
        )
        theta = np.zeros(len(owner))
        theta[shared] = common
        whole = np.zeros((len(owner), len(owner)))
        whole[np.ix_(shared, shared)] = spread
        for p in parts:
            # Back substitution: a target's own parameters follow once those that it shares are known.
            theta[p.own] = p.spread @ (p.goal - p.link @ common)
            whole[np.ix_(p.own, p.own)] = p.spread
            if len(shared):
                whole[np.ix_(p.own, shared)] = -p.spread @ (p.link @ spread)
        x = np.asarray(free.basis @ theta) + free.offset
        spread = np.asarray(free.basis @ whole)
        return Fit(support, x, spread, least + self.unexplained(targets), free.valued)

    def _part(self, support: Ints, j: int, free: Freedom, own: Ints, shared: Ints) -> _Part:
        """The rows of target j, in units of its noise, without its own parameters."""
        here = np.flatnonzero(support % self.shape[1] == j)
        columns, goal = self._rows_of(support[here], j)
        goal = goal - columns @ free.offset[here]
        basis = free.basis[here].toarray()
        design, across = columns @ basis[:, own], columns @ basis[:, shared]
        size, count = lengths(design), len(own)
        # One QR factorisation eliminates the own parameters: its first rows determine them, given the
        # shared ones, and the rows below hold what is left for the shared ones.
        r = triangle(np.hstack([design / size, across, goal[:, None]]))
        spread = scipy.linalg.solve_triangular(r[:count, :count], np.eye(count)) / size[:, None]
        return _Part(
            own, spread, r[:count, count:-1], r[:count, -1], across=r[count:, count:-1], left=r[count:, -1]
        )

    def _rows_of(self, support: Ints, j: int) -> tuple[Floats, Floats]:
        """Design on a support of target j, and the target, both in units of its noise."""
        terms, width = self.shape
        columns = self.total.design[:terms, support // width] / self.noise[j]
        return columns, self.total.target[:terms, j] / self.noise[j]

    def unexplained(self, targets: Ints) -> float:
        """The part of the loss that no combination of the terms can lower."""
        beyond = np.sum(self.total.target[self.shape[0] :, targets] ** 2, axis=0)
        floor = self.total.rows * self._floor[targets] ** 2
        return float(np.sum((beyond + floor) / self.noise[targets] ** 2))

    @cached_property
    def _stack(self) -> tuple[Floats, Floats]:
        """The factors of all blocks by columns, of one height: (terms, blocks, height), (targets, …)."""
        height = max(len(b.factor) for b in self.blocks)
        stack = np.zeros((sum(self.shape), len(self.blocks), height))
        for k, block in enumerate(self.blocks):
            stack[:, k, : len(block.factor)] = block.factor.T
        return stack[: self.shape[0]], stack[self.shape[0] :]

    def grams(self, terms: Ints) -> Floats:
        """(blocks, k, k): AᵀA of each block, for some of the terms."""
        design = self._stack[0][terms].transpose(1, 0, 2)
        return np.asarray(design @ design.transpose(0, 2, 1))

    def scores(self, x: Floats, support: Ints) -> Floats:
        """(blocks, k): what each block pulls some coefficients towards, at flat coefficients x."""
        design, target = self._stack
        terms, targets = np.divmod(support, self.shape[1])
        scores = np.zeros((len(self.blocks), len(support)))
        table = x.reshape(self.shape)
        for j in np.unique(targets):
            here = np.flatnonzero(targets == j)
            used = np.flatnonzero(table[:, j])
            left = target[j] - np.tensordot(table[used, j], design[used], 1)
            scores[:, here] = (design[terms[here]].transpose(1, 0, 2) @ left[:, :, None])[:, :, 0]
        return scores

    def _freedom(self, support: Ints, targets: Ints) -> Freedom:
        """What the equalities leave free on the support."""
        # An equality that must not be zero counts even where none of its coefficients is left.
        needed = (self.equal.goal != 0) & np.isin(self._row_target, targets)
        return self.equal.freedom(support, also=needed) or Freedom.whole(len(support))


@dataclass(frozen=True, eq=False)
class _Part:
    """One target after its own parameters θ = spread (goal − link · shared) are eliminated.

    across, left: what is left of the columns of the shared parameters, and of the target
    """

    own: Ints
    spread: Floats
    link: Floats
    goal: Floats
    across: Floats
    left: Floats


def _owners(basis: csr_array, targets: Ints) -> Ints:
    """(free,): the target that each parameter belongs to; −1 where several share it."""
    entries = basis.tocoo()
    least = np.full(basis.shape[1], np.iinfo(np.intp).max)
    most = np.full(basis.shape[1], -1)
    np.minimum.at(least, entries.col, targets[entries.row])
    np.maximum.at(most, entries.col, targets[entries.row])
    return np.where(least == most, most, -1)


def _solved(design: Floats, goal: Floats) -> tuple[Floats, Floats, float]:
    """Least squares: parameters, their spread, and what is left of the squares of the goal."""
    count = design.shape[1]
    if not count:
        return np.zeros(0), np.zeros((0, 0)), float(goal @ goal)
    size = lengths(design)
    r = triangle(np.hstack([design / size, goal[:, None]]))
    spread = scipy.linalg.solve_triangular(r[:count, :count], np.eye(count)) / size[:, None]
    return spread @ r[:count, -1], spread, float(np.sum(r[count:, -1] ** 2))


def _surely_independent(r: Floats, size: Floats) -> bool:
    """Whether an estimate of the condition tells that a triangle has full rank, without pivoting.

    The last pivot is no smaller than the least singular value; the factor of ten allows for the estimate
    (Higham, Accuracy and Stability of Numerical Algorithms, 2002, chapter 15), n for its norm.
    """
    count = r.shape[1]
    if len(r) < count or not count or not size.all() or np.tril(r[:count], -1).any() or r[count:].any():
        return False
    rcond, info = scipy.linalg.lapack.dtrcon(np.asfortranarray(r[:count] / size))
    return bool(info == 0 and rcond > 10.0 * count * _ROUNDING)


def independent(design: Floats) -> int:
    """How many columns are linearly independent, each in units of its own size."""
    size = np.linalg.norm(design, axis=0)
    if _surely_independent(design, size):
        return int(design.shape[1])
    # Pivots of unit columns fall to rounding where a column depends on those before it.
    pivoted = scipy.linalg.qr(design / np.where(size > 0, size, 1.0), mode="r", pivoting=True)[0]
    diagonal = np.abs(np.diagonal(pivoted))
    return int((diagonal > _ROUNDING * diagonal[0]).sum()) if len(diagonal) else 0


_MOST = 100
"""Parameters beyond which leaving blocks out, one by one, would take too long."""
_ALONE = 0.002
"""A direction that one block determines but for this share is not left to the others. At 0.1, one of 32 data
sets of `python -m benchmarks constants` loses its terms."""


def classical(regression: Regression, fit: Fit) -> Floats:
    """(k,) variances of the coefficients, if all rows were independent and scattered as they do.

    diag (AᵀA)⁻¹ · loss / (rows − parameters), with (AᵀA)⁻¹ = spread spreadᵀ.
    """
    # Groups of targets share one χ², each in units of its own noise.
    targets = len(np.unique(fit.support % regression.shape[1]))
    freedom = max(regression.total.rows * targets - fit.free, 1)
    return np.asarray(np.sum(fit.spread**2, axis=1) * (fit.loss / freedom))


def sandwich(regression: Regression, fit: Fit, x: Floats) -> Floats:
    """(k,) variances by the scatter of what the blocks pull at.

    diag (AᵀA)⁻¹ (Σ_g s_g s_gᵀ) (AᵀA)⁻¹ · G / (G − 1), s_g = A_gᵀ r_g the score of block g of G
    (Liang and Zeger, Biometrika 73, 1986).

    x: flat coefficients of all equations, those of the fit among them
    """
    moved = _pulls(regression, fit, x) @ fit.spread.T
    return np.asarray(np.sum(moved**2, axis=0) * (len(moved) / max(len(moved) - 1, 1)))


def jackknife(regression: Regression, fit: Fit, x: Floats) -> Floats:
    """(k,) variances by how far the coefficients move when a block is left out.

    Σ_g (ξ_{−g} − ξ)² · (G − 1) / G, with ξ_{−g} − ξ = −(AᵀA − A_gᵀ A_g)⁻¹ s_g (Bell and McCaffrey,
    Surv. Methodol. 28, 2002).

    As the sandwich, but honest where few blocks determine a coefficient: their residuals
    are small because the fit follows them. With more parameters than blocks could tell
    apart, what blocks add to the errors is taken to be the same for all.
    """
    terms, targets = np.divmod(fit.support, regression.shape[1])
    # With more parameters than blocks the scatter between blocks has too low a rank to tell the errors of
    # single coefficients apart.
    if fit.free > len(regression.blocks) * len(np.unique(targets)):
        independent = classical(regression, fit)
        return independent * design_effect(independent, sandwich(regression, fit, x))
    if fit.free > _MOST:
        return sandwich(regression, fit, x)
    # In the coordinates of θ the information of all blocks is the identity, so that leaving out block g
    # leaves I − Sᵀ A_gᵀ A_g S. The small addition keeps that invertible where one block determines a
    # direction alone.
    rest = np.tile((1.0 + _ALONE) * np.eye(fit.free), (len(regression.blocks), 1, 1))
    for j in np.unique(targets):
        here = np.flatnonzero(targets == j)
        spread = fit.spread[here] / regression.noise[j]
        rest -= spread.T @ regression.grams(terms[here]) @ spread
    moved = np.linalg.solve(rest, _pulls(regression, fit, x)[:, :, None])[:, :, 0] @ fit.spread.T
    return np.asarray(np.sum(moved**2, axis=0) * ((len(moved) - 1) / len(moved)))


def design_effect(independent: Floats, clustered: Floats) -> float:
    """By how much correlation within blocks inflates the variances, at least 1.

    The median over the coefficients of clustered over independent variance (Kish, Survey
    Sampling, 1965).
    """
    known = independent > 0
    return max(1.0, float(np.median(clustered[known] / independent[known]))) if known.any() else 1.0


def _pulls(regression: Regression, fit: Fit, x: Floats) -> Floats:
    """(blocks, free): the scores in the parameters of the fit."""
    noise = regression.noise[fit.support % regression.shape[1]]
    return np.asarray((regression.scores(x, fit.support) / noise**2) @ fit.spread)


@dataclass(frozen=True, eq=False)
class Refit:
    """Scaled coefficients on a support, and their standard errors.

    x, error: (terms, targets); error is clustered by block, and never below the classical one
    loss: in units of the noise; free: parameters
    left: (targets,) root mean square residual, for the rows left after the parameters
    """

    x: Floats
    error: Floats
    loss: float
    free: int
    left: Floats


def binding(regression: Regression, support: Ints) -> Regression:
    """The regression with those inequalities as equalities that bind at the optimum on the support."""
    rows = regression.rows
    loose = np.flatnonzero(~rows.equality)
    if not len(loose):
        return regression
    fits = [regression.fit(support[np.isin(support % regression.shape[1], g)], g) for g in regression.groups]
    at = np.concatenate([f.support for f in fits])
    x = np.concatenate([f.x for f in fits])
    spread = scipy.linalg.block_diag(*(f.spread for f in fits))
    active, values = _active(rows, loose, at, x, spread)
    if not len(active):
        return regression
    return replace(regression, rows=rows.bound(active, values))


def _active(rows: Rows, loose: Ints, at: Ints, x: Floats, spread: Floats) -> tuple[Ints, Floats]:
    """Rows on one of their bounds at the feasible point nearest to x in the metric of its covariance.

    That point is x + spread z with the least ‖z‖: a least-distance problem, solved by
    non-negative least squares on its dual.
    """
    from scipy.optimize import nnls

    matrix = rows.matrix[loose][:, at].toarray()
    value, slope = matrix @ x, matrix @ spread
    lower, upper = rows.lower[loose], rows.upper[loose]
    # slopes z ≥ needs: each row twice, once for either bound; without those that are infinite.
    needs, level = np.concatenate([lower - value, value - upper]), np.concatenate([lower, upper])
    bounded = np.isfinite(needs)
    slopes, number = np.vstack([slope, -slope])[bounded], np.tile(loose, 2)[bounded]
    needs, level = needs[bounded], level[bounded]
    # The unconstrained optimum is feasible: nothing binds.
    if (needs <= 0).all():
        return np.zeros(0, dtype=np.intp), np.zeros(0)
    size = np.linalg.norm(slopes, axis=1)
    # A row that equalities hold fast moves with none of its coefficients, however little those vary.
    reach = np.abs(matrix) @ np.linalg.norm(spread, axis=1)
    stuck = size <= 1e-9 * np.tile(reach, 2)[bounded]
    if (needs[stuck] > 1e-9).any():
        raise InfeasibleError("an inequality cannot be met with the terms that are left.")
    slopes, needs = slopes[~stuck] / size[~stuck, None], needs[~stuck] / size[~stuck]
    scale = needs.max()
    # Lawson and Hanson, Solving least squares problems (1974), chapter 23: the least ‖z‖ with slopes z ≥
    # needs follows from non-negative least squares on [slopesᵀ; needsᵀ] w ≈ (0, …, 0, 1). Rows of positive
    # weight bind.
    dual = np.vstack([slopes.T, needs[None, :] / scale])
    goal = np.zeros(len(dual))
    goal[-1] = 1.0
    weight, distance = nnls(dual, goal, maxiter=30 * dual.shape[1])
    # A residual of zero is Farkas' proof that no z satisfies all rows.
    if distance <= 1e-10:
        raise InfeasibleError("the inequalities cannot be met with the terms that are left.")
    on = weight > 1e-12 * weight.max()
    return number[~stuck][on], level[~stuck][on]


def refit(regression: Regression, support: Ints) -> Refit:
    """The coefficients on the support (flat indices), fitted under all constraints, with errors."""
    regression = binding(regression, support)
    terms, width = regression.shape
    x, error = np.zeros(terms * width), np.zeros(terms * width)
    fits = [regression.fit(support[np.isin(support % width, g)], g) for g in regression.groups]
    for fit in fits:
        x[fit.support] = fit.x
    rows = regression.total.rows
    for fit in fits:
        moved = jackknife(regression, fit, x)
        # Few blocks may agree by chance; the classical error is then the one to believe.
        error[fit.support] = np.sqrt(np.maximum(classical(regression, fit), moved))
    table = x.reshape(terms, width)
    squares = np.sum(regression.total.residual(table) ** 2, axis=0)
    used = np.bincount(support % width, minlength=width)
    left = np.sqrt(squares / np.maximum(rows - used, 1))
    return Refit(
        table, error.reshape(terms, width), sum(f.loss for f in fits), sum(f.free for f in fits), left
    )
