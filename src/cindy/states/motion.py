"""Motion: measurements, the candidate terms of their law, and the white rows that relate the two.

Let y = x + e be measurements with noise e of variance σ², and let the law x' = ψ(x) Ξ leave a random motion
of variance q per unit of time unexplained. With the differences D and integrals W of a grid, linearised
around the current states x̂ with the Jacobian J, the rows are

    D y − W J (y − x̂) = W ψ(x̂) Ξ + B e + ε,     B = D − W J,   cov = S = B Σ Bᵀ + K,   S = L Lᵀ .

Least squares on L⁻¹ of these rows is Gauss-Newton for the likelihood with the states profiled out
(`fitting`). S is banded, so that the cost of all steps is linear in the number of samples.

1. `whitened` linearises each record around fitted states and factorises S.
2. `table` computes the white rows of any terms, `objectives` their triangles in blocks.
3. For kicked motion the gradient of the determinants moves the targets (`determinants`, `shifted`).
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property

import numpy as np
from numpy.typing import NDArray
from scipy.sparse import coo_array, csr_array

from cindy._arrays import Floats, Ints, evenly
from cindy.basis import Basis
from cindy.data import rounding_step
from cindy.least_squares import LeastSquares, Rows, lengths, quick_triangle, triangle
from cindy.states.determinants import determinant_slopes, inverse_blocks, sums_at_samples, weight_lean
from cindy.states.linearised import Factor, Forcing, Law, Linearised
from cindy.states.record import Record

_QUIET = 0.02
"""Noise, in units of the spread, up to which measured states serve as fitted ones (chaotic)."""
_STILL = 0.1
"""Step of the states, as a share of the noise, below which they have converged (benchmark: chaotic). With
0.01 or 1 errors agree to six digits (benchmark: constants)."""
_ROUNDING = 1e-12
"""Rounding error of the rows, which are differences, relative to ten times the largest state."""
_KNOWN = 1e-6
"""Model error of an equation that is known, in units of σ²/h: negligible beside the noise."""
_KICKED = 1e-3
"""Model error over one sampling step, in units of σ², above which motion may be kicked: ten times that of
laws without kicks. An Ornstein-Uhlenbeck process with 0.02 has a bias of 8 standard errors if the
determinants are left out (benchmark: kicks)."""
_MOVES = 0.1
"""Standard errors by which the determinants must move coefficients to be used. Laws without kicks stay below
0.01 (benchmark: frozen); wrong laws during the search reach 0.1 to 1.4."""
_DEPENDENT = 1e-8
"""Singular values of unit columns below this share of the largest belong to undetermined directions."""
_HELD = 100_000
"""Number of samples up to which the factors at the last fitted states are held in memory."""


@dataclass(frozen=True, eq=False)
class Fitted:
    """States and coefficients that belong together.

    x: for each record (stretches, samples, states); coef: (k,) on the support of the law
    variance: (states,) σ² of the noise
    error: (states,) q, the variance per unit of time of the unexplained motion
    moved: root mean square of the last step of the states in units of σ; alive: False if the states diverged
    settled: whether noise and model error maximise the likelihood
    heeded: whether the determinants count where motion may be kicked. They cost ten times as much as a step
        without them, so that a search includes them only once its support no longer changes
    """

    law: Law
    x: tuple[Floats, ...]
    coef: Floats
    variance: Floats
    error: Floats
    moved: float = np.inf
    alive: bool = True
    settled: bool = False
    heeded: bool = True

    @property
    def converged(self) -> bool:
        return self.alive and self.moved < _STILL


@dataclass(frozen=True, eq=False)
class Whitened:
    """One record linearised around fitted states, with the factors of its covariance."""

    linear: Linearised
    factors: list[Factor]
    variance: Floats
    error: Floats

    @cached_property
    def inverse(self) -> tuple[Floats, Ints, Ints]:
        """S⁻¹ near its diagonal, as `inverse_blocks` gives it."""
        return inverse_blocks(self.linear, self.factors)

    @cached_property
    def sums(self) -> tuple[Floats, Floats, Floats]:
        """S⁻¹ summed at the samples, by `sums_at_samples`, for determinants and traces."""
        return sums_at_samples(self.linear.grid, self.inverse[0])

    @cached_property
    def slopes(self) -> Floats:
        """The derivative of both determinants by the Jacobians, from `determinant_slopes`.

        It does not depend on candidates, so that a fit, the rows of all candidates and the errors share it.
        """
        return determinant_slopes(self.linear, self.variance, self.sums)

    @cached_property
    def lean(self) -> Floats | None:
        """(stretches, rows, states): S⁻¹ u, with the bias u from `weight_lean`; None if there is none."""
        shift = weight_lean(self.linear, self.error, self.inverse[0], self._inverted)
        return None if shift is None else self._inverted(shift)

    def _inverted(self, rows: Floats) -> Floats:
        """(stretches, rows, states): S⁻¹ rows."""
        return self.solved(self.white(rows[..., None].copy())[:, 0])

    @cached_property
    def log_det(self) -> float:
        return sum(f.log_det for f in self.factors)

    def white(self, rows: Floats) -> Floats:
        """(stretches · size, columns): L⁻¹ rows, often written over them."""
        flat = self.linear.turned(rows).reshape(len(rows), -1, rows.shape[-1])
        for factor, stretch in zip(self.factors, flat, strict=True):
            factor.whiten(stretch)
        return flat.reshape(-1, rows.shape[-1])

    def solved(self, white: Floats) -> Floats:
        """(stretches, rows, states): L⁻ᵀ of white (stretches · size,), which turns L⁻¹ r into S⁻¹ r."""
        parts = white.reshape(len(self.factors), -1, 1)
        solutions = [f.whiten_back(part) for f, part in zip(self.factors, parts, strict=True)]
        return self.linear.turned(np.stack(solutions).reshape(self.linear.target.shape), back=True)

    def varied(self, z: Floats, collected: Floats) -> Floats:
        """(size, 2 · states): L⁻¹ v_i S_i z for the noise v_i of every state, then for its model error.

        z, collected: S⁻¹ r and Bᵀ z of a residual
        """
        linear, states = self.linear, range(len(self.variance))
        columns = [linear.moved(linear.record.varied(self.variance, collected, i)) for i in states]
        kicks = linear.kicks_of(z)
        weighted = linear.weighted(self.error, kicks)
        for i in states:
            selected = np.zeros_like(kicks)
            selected[..., i] = kicks[..., i]
            # Covariances are proportional to √(q_i q_j): half of row i and half of column i.
            crossed = linear.weighted(self.error, selected)
            selected[..., i] = weighted[..., i]
            columns.append(linear.kicked((selected + crossed) / 2.0))
        return self.white(np.stack(columns, axis=-1))


@dataclass(eq=False)
class _Recent:
    """The factors that were computed last, and the fitted states they belong to."""

    fitted: Fitted | None = None
    whitened: tuple[Whitened | None, ...] = ()


@dataclass(frozen=True, eq=False)
class Motion:
    """The measurements and the candidate terms: D x = W ψ(x) Ξ on every record, x measured with noise.

    records: the measurements; basis, variables: the terms ψ and the names of their variables
    states: number of equations; candidates: flat indices of the coefficients to choose from
    given: flat indices of coefficients known to be 1: the derivative of a position is its rate. The positions
        are then the first half of the states, and their rates, which are never measured, the second
    parts: number of parts into which the steps between samples are divided; 0 for a map
    memory: (states,) autocorrelation time of the noise, in samples. With it the law is taken as exact, and
        all residuals as noise with a memory, from a filter or a drifting sensor. None: the noise is white
    forcing: the shape of random kicks that also act between samples; None if there are none, or not yet
    forgetful: whether the residual may be no noise, which must not bend the states for long
    """

    records: tuple[Record, ...]
    basis: Basis
    variables: tuple[str, ...]
    states: int
    candidates: Ints
    given: Ints
    parts: int = 1
    memory: Floats | None = None
    forcing: Forcing | None = None
    forgetful: bool = False
    sizes: Floats | None = None
    """(states,) sizes that states are known to reach, from other data; None: those of the records."""
    _recent: _Recent = field(default_factory=_Recent, init=False, repr=False)

    def law(self, support: Ints) -> Law:
        return Law(self.basis, self.variables, self.states, np.asarray(support, dtype=np.intp), self.given)

    @cached_property
    def rows(self) -> int:
        return sum(r.rows for r in self.records)

    @cached_property
    def samples(self) -> int:
        return sum(r.y.shape[0] * r.y.shape[1] for r in self.records)

    @cached_property
    def informed(self) -> int:
        """Number of rows less that of entries without a measurement, such as instants between samples."""
        return self.rows - sum(int(np.count_nonzero(r.missing)) for r in self.records)

    @cached_property
    def work(self) -> float:
        """Number of multiplications of the Cholesky factors of all covariances."""
        return float(sum(r.rows * ((r.grid.reach + 1) * self.states) ** 2 for r in self.records))

    @cached_property
    def step(self) -> float:
        """Mean time of a row, or of its cube for second order; q is given per this unit."""
        return float(
            np.average([r.grid.step.mean() for r in self.records], weights=[r.rows for r in self.records])
        )

    @cached_property
    def measured(self) -> NDArray[np.bool_]:
        """(states,): whether a state has any measurement."""
        return np.asarray(~np.all([r.missing.all(axis=(0, 1)) for r in self.records], axis=0))

    @cached_property
    def known(self) -> NDArray[np.bool_]:
        """(states,): whether an equation is given, so that it has no terms to be found."""
        return np.isin(np.arange(self.states), self.given % self.states)

    @cached_property
    def sought(self) -> Ints:
        """The equations whose terms are to be found, which are the columns of a model."""
        return np.flatnonzero(~self.known)

    def narrowed(self, flat: Floats) -> Floats:
        """(terms, sought equations) from flat values (terms · states,)."""
        return np.asarray(flat.reshape(-1, self.states)[:, self.sought])

    def widened(self, flat: Ints) -> Ints:
        """Flat indices over all states from flat indices over the sought equations."""
        count = len(self.sought)
        return np.asarray(flat // count * self.states + self.sought[flat % count])

    def constraints(self, rows: Rows) -> Rows:
        """Constraints on the coefficients of all equations, from those on the sought equations."""
        if len(self.sought) == self.states:
            return rows
        entries = coo_array(rows.matrix)
        shape = (len(rows), len(self.basis.names(self.variables)) * self.states)
        places = (entries.row, self.widened(entries.col.astype(np.intp)))
        matrix = csr_array(coo_array((entries.data, places), shape=shape))
        return Rows(matrix, rows.lower, rows.upper, rows.owner)

    @property
    def noise_memory(self) -> Floats:
        """(measured states,) autocorrelation time of the noise in samples; 1 for white noise."""
        return (np.ones(self.states) if self.memory is None else self.memory)[self.measured]

    def variances(self, noise: Floats) -> Floats:
        """(states,) noise, from that of the measured states; of rates in proportion to their spread."""
        if len(noise) == self.states:
            return noise
        return np.concatenate([noise, noise * (self.spread[len(noise) :] / self.spread[: len(noise)]) ** 2])

    def quiet(self, variance: Floats) -> bool:
        """Whether the noise is so small that measured states are nearly as good as fitted ones."""
        return bool(np.all((np.sqrt(variance) < _QUIET * self.spread)[self.measured]))

    def errors(self, level: float, variance: Floats) -> Floats:
        """(states,) model error: level^r in units of σ²/h, for differences of order r.

        Differences turn noise into σ² ω^2r at frequency ω, so that motion with ω² below the level is hidden,
        whatever the order. For an exact law (`memory`) σ² is that of the state with the least noise relative
        to its spread, so that the model error does not bend a badly measured state for the sake of another.
        At 1e-4 states forget after 100 samples: what is no noise does not bend them for long.
        """
        clean = np.all((variance < (1e-4 * self.spread) ** 2)[self.measured])
        if clean or self.forgetful or self.memory is not None:
            level = max(level, 1e-4)
        if self.memory is not None:
            # The model error of each measured state is then the same share of its spread.
            least = self.spread**2 * np.min((variance / self.spread**2)[self.measured])
            variance = np.where(self.measured, least, variance)
        share = np.where(self.known, min(level, _KNOWN), level) ** self.records[0].grid.order
        return np.asarray(share * variance / self.step)

    @cached_property
    def floor(self) -> Floats:
        """(states,) least variance of the noise: that of rounding.

        A sensor that reports in steps of s adds an error between −s/2 and s/2, of variance s²/12, which is
        averaged over runs.
        """
        reported = [
            [rounding_step(run[..., j][~missing[..., j]]) ** 2 / 12.0 for j in range(self.states)]
            for record in self.records
            for run, missing in zip(record.y, record.missing, strict=True)
        ]
        return np.maximum((_ROUNDING * self.bounds) ** 2, np.mean(reported, axis=0))

    @cached_property
    def bounds(self) -> Floats:
        """(states,): sizes beyond which states count as diverged."""
        reached = np.max([np.abs(r.y).max(axis=(0, 1)) for r in self.records], axis=0)
        return np.asarray(10.0 * (reached if self.sizes is None else np.maximum(reached, self.sizes)))

    @cached_property
    def spread(self) -> Floats:
        """(states,) standard deviation of the measured states over all records."""
        values = np.concatenate([r.y.reshape(-1, self.states) for r in self.records])
        spread = values.std(axis=0)
        return np.where(spread == 0, 1.0, spread)

    @cached_property
    def moved(self) -> Floats:
        """(states,) root mean square of the differences of the measured states."""
        differences = [r.grid.differences(r.y).reshape(-1, self.states) for r in self.records]
        return np.asarray(np.sqrt(np.mean(np.concatenate(differences) ** 2, axis=0)))

    @property
    def held(self) -> bool:
        """Whether the factors of all records fit in memory."""
        return self.samples <= _HELD

    def part(self, records: Sequence[Record]) -> Motion:
        return replace(self, records=tuple(records))

    def sharing(self, correlation: Floats | None) -> Motion:
        """The motion with correlated noise of its first states, or itself if `correlation` is None."""
        if correlation is None:
            return self
        shared, count = np.eye(self.states), len(correlation)
        shared[:count, :count] = correlation
        return self.part([replace(record, correlation=shared) for record in self.records])

    def whitened(self, fitted: Fitted) -> Iterator[Whitened | None]:
        """Step 1. Each record around the fitted states; None where S is not positive definite."""
        if not self.held:
            return self._whitened(fitted)
        recent = self._recent
        if recent.fitted is not fitted:  # Coefficients, errors and the criterion use the same rows.
            recent.whitened, recent.fitted = tuple(self._whitened(fitted)), fitted
        return iter(recent.whitened)

    def in_time_order(self, fitted: Fitted) -> Iterator[Whitened | None]:
        """The same with all rows in the order of time, for whatever compares neighbouring rows."""
        return self._whitened(fitted, in_order=True)

    def _whitened(self, fitted: Fitted, in_order: bool = False) -> Iterator[Whitened | None]:
        for record, x in zip(self.records, fitted.x, strict=True):
            jacobian = fitted.law.jacobian(record.points(x), fitted.coef)
            jacobian = jacobian.reshape(*x.shape, self.states)
            forced = None if self.forcing is None else self.forcing.on(record.grid, x, jacobian)
            # Kicks within a step tie its row to its time.
            in_order |= forced is not None
            linear = Linearised(record.centred(x), x, jacobian, forced, in_order)
            factors = linear.factors(fitted.variance, fitted.error)
            yield None if factors is None else Whitened(linear, factors, fitted.variance, fitted.error)

    def noise(self, fitted: Fitted) -> Floats:
        """(measured states,) root mean square of the noise over all measurements."""
        parts = [np.where(r.missing, np.nan, r.spread)[..., self.measured] for r in self.records]
        factor = np.nanmean(np.concatenate([part.reshape(-1, part.shape[-1]) for part in parts]), axis=0)
        return np.asarray(np.sqrt(fitted.variance[self.measured] * factor))

    def values(self, fitted: Fitted, most: int) -> Floats:
        """(points, terms): all terms of the basis at the fitted states, at about `most` samples."""
        points = np.concatenate([r.points(x) for r, x in zip(self.records, fitted.x, strict=True)])
        return self.basis.evaluate(points[:: max(len(points) // most, 1)], self.variables)

    def table(self, white: Whitened, law: Law, coef: Floats | None = None) -> Floats:
        """Step 2. (size, k + 1): white rows [W ψ(x) | target] of a record, for the coefficients of a law.

        Given terms are moved to the right-hand side. A law with unknown parameters, linearised around the
        numbers `coef`, has one more column for each: [W ψ(x) | W Σ ξ ∂ψ/∂θ | target].
        """
        linear = white.linear
        record, x = linear.record, linear.x
        current = law if coef is None else law.at(coef)
        integrals = record.integrated(x, current.values)
        free, extra = len(law.support), len(law.unknown)
        rows = np.zeros((*linear.target.shape, free + extra + 1))
        for j in range(self.states):
            places = np.flatnonzero(law.targets[:free] == j)
            rows[:, :, j, evenly(places)] = integrals[..., evenly(law.columns[places])]
        rows[..., -1] = linear.target
        for column, j in zip(law.columns[free:], law.targets[free:], strict=True):
            rows[:, :, j, -1] -= integrals[..., column]
        if extra:
            assert coef is not None
            tangents = record.integrated(
                x, lambda points: law.tangents(points, coef).reshape(len(points), -1)
            )
            tangents = tangents.reshape(*linear.target.shape, extra)
            rows[..., free:-1] = tangents
            rows[..., -1] += tangents @ coef[free:]
        return white.white(rows)

    def counted_once(self, table: Floats) -> Floats:
        """White rows (size, columns), overwritten, with a weight that accounts for autocorrelated noise.

        They are divided by √κ of their equation, as in quasi-likelihood (c-hat of QAIC, by equation).
        """
        if self.memory is not None:
            table /= np.sqrt(np.tile(self.memory, len(table) // self.states))[:, None]
        return table

    def noise_beside_kicks(self, fitted: Fitted) -> Floats:
        """(states,) variances that kicks are compared with; 0 for unmeasured states with `forcing`."""
        return np.where(self.measured | (self.forcing is None), fitted.variance, 0.0)

    def kicked(self, fitted: Fitted) -> NDArray[np.bool_]:
        """(states,): the equations whose unexplained motion is large enough for the determinants to matter.

        With kicks of variance q h a row has the variance 2 σ² + q h, and the determinants move a coefficient
        by about √rows · q h / (spread √(2 σ² + q h)) standard errors. Below a tenth of what counts they are
        not computed.
        """
        kicks, noise = fitted.error * self.step, self.noise_beside_kicks(fitted)
        moves = np.sqrt(self.rows) * kicks / (np.sqrt(2.0 * noise + kicks) * self.spread)
        return np.asarray((kicks > _KICKED * noise) & (moves > 0.1 * _MOVES) & ~self.known)

    def may_be_kicked(self, fitted: Fitted) -> bool:
        """Whether the determinants may move the coefficients of a law. They are not used with parameters."""
        asked = self.memory is None and len(fitted.law.support) > 0 and not fitted.law.unknown
        return asked and bool(self.kicked(fitted).any())

    def determinants(self, fitted: Fitted, law: Law) -> Floats | None:
        """Step 3. (k,) g: the gradient of log det S − 2 log |det B₂| by the coefficients of a law.

        None where a determinant is zero, or where states have diverged.
        """
        total = np.zeros(len(law.support))
        for white in self.whitened(fitted):
            if white is None:
                return None
            linear = white.linear
            try:
                slopes = white.slopes
            except np.linalg.LinAlgError:
                return None
            points = linear.record.points(linear.x)
            total += law.pulled(points, slopes.reshape(-1, *slopes.shape[2:]))
            if (lean := white.lean) is not None:
                total -= 2.0 * law.collected(points, linear.record.grid.integrals_back(lean))
        return total if np.isfinite(total).all() else None

    def objectives(
        self, fitted: Fitted, columns: Ints, blocks: int, *, apart: float | None = None
    ) -> tuple[LeastSquares, ...] | None:
        """White rows at the fitted states for any coefficients, in about this number of blocks.

        apart: columns that are further apart than this are factored by Cholesky's method, which is ten times
            as fast and keeps 16 + 2 log₁₀(apart) digits; None for QR. White rows are independent, so that
            contiguous runs of them can serve as blocks.
        """
        law = self.law(columns)
        length = max(self.rows // blocks, 1)
        triangles: list[LeastSquares] = []
        for white in self.whitened(fitted):
            if white is None:
                return None
            table = self.counted_once(self.table(white, law))
            # A long stretch is divided by itself, so that the order of trajectories does not matter.
            own = len(table) // white.linear.record.stretches
            runs = np.split(table, white.linear.record.stretches) if own >= length else [table]
            parts = [p for run in runs for p in np.array_split(run, max(round(len(run) / length), 1))]
            for part in parts:
                factor = triangle(part) if apart is None else quick_triangle(part, apart)
                triangles.append(LeastSquares(factor, len(columns), len(part)))
        if not (fitted.heeded or self.forcing is not None) or not self.kicked(fitted).any():
            return tuple(triangles)
        gradient = self.determinants(fitted, law)
        return None if gradient is None else tuple(shifted(triangles, gradient))


def shifted(blocks: Sequence[LeastSquares], gradient: Floats) -> list[LeastSquares]:
    """The same rows with targets y − X δ, δ = ½ (XᵀX)⁻¹ g, whose least squares maximise the likelihood.

    ‖X Ξ − y‖² + gᵀ Ξ has the normal equations XᵀX Ξ = Xᵀy − ½ g, on every support: those of the new targets.
    If g moves the coefficients by a small part of their standard errors, the rows are returned unchanged.
    """
    design = np.concatenate([block.design for block in blocks])
    size = lengths(design)
    _, s, directions = np.linalg.svd(triangle(design / size), full_matrices=False)
    # Nothing is moved along directions that the rows do not determine.
    s = np.where(s > _DEPENDENT * s.max(initial=0.0), s, np.inf)
    delta = directions.T @ (directions @ (gradient / size) / s**2) / size / 2.0
    moves = [block.design @ delta for block in blocks]
    if np.sqrt(sum(float(move @ move) for move in moves)) < _MOVES:
        return list(blocks)
    moved_blocks = []
    for block, move in zip(blocks, moves, strict=True):
        factor = block.factor.copy()
        factor[:, -1] -= move
        moved_blocks.append(LeastSquares(factor, block.terms, block.rows))
    return moved_blocks
