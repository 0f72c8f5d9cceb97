"""Least squares on a support under equalities and bounds, and the errors of its coefficients.

    minimise Σ_j ‖A ξ_j − b_j‖² / σ_j²    over ξ with lower ≤ R ξ ≤ upper, ξ = 0 outside the support

1. Inequalities that bind at the optimum become equalities (`binding`).
2. Equalities are met by their null space, ξ = N θ + ξ₀ with free parameters θ (`Regression.fit`).
3. The triangle of [A | b] gives θ, and its spread S with S Sᵀ = (AᵀA)⁻¹, the covariance at unit noise.
4. Rows of one block of time depend on each other. Standard errors therefore come from the scatter between
   blocks (`jackknife`, `sandwich`), and are never below the classical ones.

A fit of k terms to p candidates costs O(p k²), whatever the number of samples.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np
import scipy.linalg
from scipy.sparse import csr_array

from cindy._arrays import Floats, Ints
from cindy.errors import InfeasibleError
from cindy.least_squares import Equalities, Freedom, LeastSquares, Rows, lengths, pieces, stacked, triangle

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
"""Pivots of unit columns below this part of the largest are rounding of columns that depend on each other."""


@dataclass(frozen=True, eq=False)
class Fit:
    """The least-squares coefficients on a support, and their covariance.

    support: (k,) flat indices; x: (k,) coefficients
    spread: (k, free); spread spreadᵀ is the covariance where the noise is as `Regression.noise` says
    loss: the sum of squared residuals in units of the noise
    """

    support: Ints
    x: Floats
    spread: Floats
    loss: float

    @property
    def free(self) -> int:
        """The number of free parameters; there are fewer than coefficients where some are tied."""
        return int(self.spread.shape[1])


@dataclass(frozen=True, eq=False)
class Regression:
    """Blocks of rows that share their coefficients, (terms, targets) flattened, under equalities.

    Targets that an equality connects are fitted together, each in units of its own noise; all others are
    fitted one by one.

    rows: constraints over the flattened coefficients; a fit obeys the equalities among them
    floor: (targets,) root mean square error of the rows themselves, by discretisation for example; no term
        is needed to explain a residual below it
    unit: (targets,) the noise, where it is known from a larger regression
    """

    blocks: tuple[LeastSquares, ...]
    rows: Rows
    floor: Floats | None = None
    unit: Floats | None = None

    @cached_property
    def equal(self) -> Equalities:
        """The equalities among the rows."""
        return self.rows.equalities

    @cached_property
    def total(self) -> LeastSquares:
        factor = stacked([block.factor for block in self.blocks])
        return LeastSquares(factor, self.blocks[0].terms, sum(block.rows for block in self.blocks))

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
        together, loose = pieces(touch)
        groups = [*(columns for _, columns in together if len(columns)), *loose[:, None]]
        return sorted(groups, key=min)

    @cached_property
    def _row_target(self) -> Ints:
        """(equalities,): a target that each of them names, which tells its group."""
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
        """(targets,) standard deviation of the residual of the full model, and no less than the floor."""
        if self.unit is not None:
            return self.unit
        terms = self.shape[0]
        # The rows below the triangle of the terms are the residual of the full model.
        squares = np.sum(self.total.target[min(terms, len(self.total.factor)) :] ** 2, axis=0)
        sigma = np.sqrt(squares / max(self.total.rows - self.independent, 1))
        return np.asarray(np.hypot(sigma, self._floor))

    @cached_property
    def _floor(self) -> Floats:
        """(targets,) error of the rows themselves and of rounding, which even an exact model leaves."""
        size = np.sqrt(np.sum(self.total.target**2, axis=0) / self.total.rows)
        size[size == 0.0] = 1.0
        return np.asarray(np.hypot(1e-14 * size, 0.0 if self.floor is None else self.floor))

    def coefficients(self, targets: Ints) -> Ints:
        """The flat indices of all coefficients of the targets."""
        terms, width = self.shape
        return (np.arange(terms)[:, None] * width + targets).ravel()

    def fit(self, support: Ints, targets: Ints) -> Fit:
        """Least squares for the targets of a group, on a support within them.

        Parameters of a single target are eliminated target by target; those that equalities share between
        targets are then fitted to what is left of all targets.
        """
        # Without equalities each target is a regression of its own.
        if not len(self.equal):
            columns, goal = self._rows_of(support, int(targets[0]))
            x, spread, loss = _solved(columns, goal)
            return Fit(support, x, spread, loss + self.unexplained(targets))
        # Step 2. The null space suits small supports: equalities may depend on each other there, and the
        # spread of θ gives that of x. The solver keeps all coefficients and meets the equalities by
        # multipliers (`least_squares_within`).
        # An equality with a value other than zero applies even where none of its coefficients is left.
        needed = (self.equal.goal != 0) & np.isin(self._row_target, targets)
        free = self.equal.freedom(support, also=needed) or Freedom.whole(len(support))
        owner = _owners(free.basis, support % self.shape[1])
        shared = np.flatnonzero(owner < 0)
        parts = [self._part(support, j, free, np.flatnonzero(owner == j), shared) for j in targets]
        across, left = [part.across for part in parts], [part.left for part in parts]
        common, spread, loss = _solved(np.vstack(across), np.concatenate(left))
        theta = np.zeros(len(owner))
        theta[shared] = common
        root = np.zeros((len(owner), len(owner)))
        root[np.ix_(shared, shared)] = spread
        for part in parts:
            # Back substitution: the own parameters of a target follow from those that it shares.
            theta[part.own] = part.spread @ (part.goal - part.link @ common)
            root[np.ix_(part.own, part.own)] = part.spread
            if len(shared):
                root[np.ix_(part.own, shared)] = -part.spread @ (part.link @ spread)
        x = np.asarray(free.basis @ theta) + free.offset
        spread = np.asarray(free.basis @ root)
        return Fit(support, x, spread, loss + self.unexplained(targets))

    def _part(self, support: Ints, j: int, free: Freedom, own: Ints, shared: Ints) -> _Part:
        """The rows of target j, in units of its noise, without its own parameters."""
        members = np.flatnonzero(support % self.shape[1] == j)
        columns, goal = self._rows_of(support[members], j)
        goal = goal - columns @ free.offset[members]
        basis = free.basis[members].toarray()
        design, across = columns @ basis[:, own], columns @ basis[:, shared]
        size, count = lengths(design), len(own)
        # One QR factorisation eliminates the own parameters. Its first rows determine them, given the shared
        # ones; the rows below are the equations that are left for the shared ones.
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
        """The part of the loss that no combination of the terms can reduce."""
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
        """(blocks, k): the score Aᵀ residual of each block on a support, at flat coefficients x."""
        design, target = self._stack
        terms, targets = np.divmod(support, self.shape[1])
        scores = np.zeros((len(self.blocks), len(support)))
        table = x.reshape(self.shape)
        for j in np.unique(targets):
            members = np.flatnonzero(targets == j)
            used = np.flatnonzero(table[:, j])
            residual = target[j] - np.tensordot(table[used, j], design[used], 1)
            columns = design[terms[members]].transpose(1, 0, 2)
            scores[:, members] = (columns @ residual[:, :, None])[:, :, 0]
        return scores


@dataclass(frozen=True, eq=False)
class _Part:
    """One target after its own parameters θ = spread (goal − link · shared) are eliminated.

    across, left: the remaining equations across · shared ≈ left
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
    """Least squares: parameters, their spread, and the sum of squared residuals."""
    count = design.shape[1]
    if not count:
        return np.zeros(0), np.zeros((0, 0)), float(goal @ goal)
    size = lengths(design)
    r = triangle(np.hstack([design / size, goal[:, None]]))
    spread = scipy.linalg.solve_triangular(r[:count, :count], np.eye(count)) / size[:, None]
    return spread @ r[:count, -1], spread, float(np.sum(r[count:, -1] ** 2))


def _surely_independent(r: Floats, size: Floats) -> bool:
    """Whether an estimate of its condition proves that a triangle has full rank, without pivoting."""
    # The last pivot is no smaller than the least singular value. The factor of ten allows for the estimate
    # (Higham, Accuracy and Stability of Numerical Algorithms, 2002, chapter 15), and `count` for its norm.
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
    # The pivot of a unit column that depends on those before it is rounding.
    pivoted = scipy.linalg.qr(design / np.where(size > 0, size, 1.0), mode="r", pivoting=True)[0]
    diagonal = np.abs(np.diagonal(pivoted))
    return int((diagonal > _ROUNDING * diagonal[0]).sum()) if len(diagonal) else 0


_MOST_PARAMETERS = 100
"""Parameters beyond which the jackknife takes too long, and the sandwich is used."""
_ALONE = 0.002
"""Share of the information that stays in every direction when a block is left out, even if that block alone
determines the direction. At 0.1, one of 32 data sets of `python -m benchmarks constants` loses its terms."""


def classical(regression: Regression, fit: Fit) -> Floats:
    """(k,) variances of the coefficients, if all rows were independent of each other.

    diag (AᵀA)⁻¹ · loss / (rows − parameters), with (AᵀA)⁻¹ = spread spreadᵀ.
    """
    # The targets of a group share one χ², each in units of its own noise.
    targets = len(np.unique(fit.support % regression.shape[1]))
    freedom = max(regression.total.rows * targets - fit.free, 1)
    return np.asarray(np.sum(fit.spread**2, axis=1) * (fit.loss / freedom))


def sandwich(regression: Regression, fit: Fit, x: Floats) -> Floats:
    """(k,) variances by the scatter of the scores between blocks.

    diag (AᵀA)⁻¹ (Σ_g s_g s_gᵀ) (AᵀA)⁻¹ · G / (G − 1), with the score s_g = A_gᵀ r_g of block g of G
    (Liang and Zeger, Biometrika 73, 1986).

    x: flat coefficients of all equations, those of the fit among them
    """
    moved = _pulls(regression, fit, x) @ fit.spread.T
    return np.asarray(np.sum(moved**2, axis=0) * (len(moved) / max(len(moved) - 1, 1)))


def jackknife(regression: Regression, fit: Fit, x: Floats) -> Floats:
    """(k,) variances by how far the coefficients move when a block is left out.

    Σ_g (ξ_{−g} − ξ)² · (G − 1) / G, with ξ_{−g} − ξ = −(AᵀA − A_gᵀ A_g)⁻¹ s_g (Bell and McCaffrey,
    Surv. Methodol. 28, 2002).

    Where few blocks determine a coefficient the sandwich is too small, because the fit follows those blocks;
    the jackknife is not. With more parameters than blocks can tell apart, the classical variances are
    multiplied by one design effect instead.
    """
    terms, targets = np.divmod(fit.support, regression.shape[1])
    # With more parameters than blocks, the scatter between blocks has too low a rank to tell the errors of
    # single coefficients apart.
    if fit.free > len(regression.blocks) * len(np.unique(targets)):
        variances = classical(regression, fit)
        return variances * design_effect(variances, sandwich(regression, fit, x))
    if fit.free > _MOST_PARAMETERS:
        return sandwich(regression, fit, x)
    # In the coordinates of θ the information of all blocks is the identity I, and without block g it is
    # I − Sᵀ A_gᵀ A_g S. The small addition keeps that invertible where block g alone determines a direction.
    rest = np.tile((1.0 + _ALONE) * np.eye(fit.free), (len(regression.blocks), 1, 1))
    for j in np.unique(targets):
        members = np.flatnonzero(targets == j)
        spread = fit.spread[members] / regression.noise[j]
        rest -= spread.T @ regression.grams(terms[members]) @ spread
    moved = np.linalg.solve(rest, _pulls(regression, fit, x)[:, :, None])[:, :, 0] @ fit.spread.T
    return np.asarray(np.sum(moved**2, axis=0) * ((len(moved) - 1) / len(moved)))


def design_effect(independent: Floats, clustered: Floats) -> float:
    """The factor by which correlation within blocks inflates the variances, at least 1.

    It is the median over the coefficients of clustered over independent variance (Kish, Survey Sampling,
    1965).
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
    loss: sum of squared residuals in units of the noise; free: number of parameters
    left: (targets,) standard deviation of the residuals
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
    fits = _fits(regression, support)
    columns = np.concatenate([fit.support for fit in fits])
    x = np.concatenate([fit.x for fit in fits])
    spread = scipy.linalg.block_diag(*(fit.spread for fit in fits))
    active, values = _active(rows, loose, columns, x, spread)
    if not len(active):
        return regression
    return replace(regression, rows=rows.bound(active, values))


def _fits(regression: Regression, support: Ints) -> list[Fit]:
    """The fits of all groups of targets."""
    target = support % regression.shape[1]
    return [regression.fit(support[np.isin(target, group)], group) for group in regression.groups]


def _active(rows: Rows, loose: Ints, columns: Ints, x: Floats, spread: Floats) -> tuple[Ints, Floats]:
    """Inequalities on one of their bounds at the feasible point nearest to x in the metric of its covariance.

    That point is x + spread z with the least ‖z‖. It follows from non-negative least squares on the dual
    (Lawson and Hanson, Solving least squares problems, 1974, chapter 23).

    loose: numbers of the inequalities; columns: the coefficients of x
    """
    from scipy.optimize import nnls

    matrix = rows.matrix[loose][:, columns].toarray()
    value, slope = matrix @ x, matrix @ spread
    lower, upper = rows.lower[loose], rows.upper[loose]
    # The condition on z is slopes z ≥ needs, with each row twice, once for either bound that is finite.
    needs, level = np.concatenate([lower - value, value - upper]), np.concatenate([lower, upper])
    bounded = np.isfinite(needs)
    slopes, number = np.vstack([slope, -slope])[bounded], np.tile(loose, 2)[bounded]
    needs, level = needs[bounded], level[bounded]
    # If x itself is feasible, nothing binds.
    if (needs <= 0).all():
        return np.zeros(0, dtype=np.intp), np.zeros(0)
    size = np.linalg.norm(slopes, axis=1)
    # A row that equalities fix does not move with z, however little its coefficients vary.
    reach = np.abs(matrix) @ np.linalg.norm(spread, axis=1)
    stuck = size <= 1e-9 * np.tile(reach, 2)[bounded]
    if (needs[stuck] > 1e-9).any():
        raise InfeasibleError("an inequality cannot be met with the terms that are left.")
    slopes, needs = slopes[~stuck] / size[~stuck, None], needs[~stuck] / size[~stuck]
    scale = needs.max()
    # The dual is [slopesᵀ; needsᵀ] w ≈ (0, …, 0, 1) over w ≥ 0. Rows of positive weight bind.
    dual = np.vstack([slopes.T, needs[None, :] / scale])
    goal = np.zeros(len(dual))
    goal[-1] = 1.0
    weight, distance = nnls(dual, goal, maxiter=30 * dual.shape[1])
    # A residual of zero is Farkas' proof that no z satisfies all rows.
    if distance <= 1e-10:
        raise InfeasibleError("the inequalities cannot be met with the terms that are left.")
    binds = weight > 1e-12 * weight.max()
    return number[~stuck][binds], level[~stuck][binds]


def refit(regression: Regression, support: Ints) -> Refit:
    """The coefficients on the support (flat indices), fitted under all constraints, with errors."""
    regression = binding(regression, support)
    terms, width = regression.shape
    x, error = np.zeros(terms * width), np.zeros(terms * width)
    fits = _fits(regression, support)
    for fit in fits:
        x[fit.support] = fit.x
    for fit in fits:
        clustered = jackknife(regression, fit, x)
        # A few blocks may agree by chance; the classical error is then the more reliable one.
        error[fit.support] = np.sqrt(np.maximum(classical(regression, fit), clustered))
    table = x.reshape(terms, width)
    squares = np.sum(regression.total.residual(table) ** 2, axis=0)
    used = np.bincount(support % width, minlength=width)
    left = np.sqrt(squares / np.maximum(regression.total.rows - used, 1))
    loss, free = sum(fit.loss for fit in fits), sum(fit.free for fit in fits)
    return Refit(table, error.reshape(terms, width), loss, free, left)
