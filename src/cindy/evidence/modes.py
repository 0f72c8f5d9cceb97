"""The noise of weak rows: its covariance between rows, and the covariance of coefficients that follows.

Test functions overlap, so that their rows share noise. Two views of it are here.

1. `propagated`: samples are independent, so that the covariance of coefficients is a sum over samples of the
   square of their influence (the delta method; Fuller, Measurement Error Models, 1987, section 3.1).
2. `Modes`: mixtures of test functions along every axis whose noise is nearly independent, so that each mode
   has a variance and can be weighted by it.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np

from cindy._arrays import Floats, Ints
from cindy.basis import Term
from cindy.evidence.grid_operators import apply, products
from cindy.evidence.weak import FieldRows, WeakRows, has_slope


@dataclass(frozen=True)
class _Modes:
    """How many modes are used, and how much memory they take."""

    spacing: float = 0.35
    """Distance of test functions, in half-widths. Modes account for their overlap, and close functions bring
    the errors near to their lower bound: with 0.5, those of transport and heat are 5 to 8 % larger
    (benchmark: pde_short)."""
    most_rows: int = 60_000
    """Most modes of all fields together, ten times the rows for the choice of terms: a bound on work."""
    dependent: float = 1e-6
    """Variance of a mixture of test functions, relative to the largest, below which it depends on the others
    up to rounding."""
    least_noise: float = 0.25
    """Least noise variance of a residual, relative to that of the mode's target: the covariances of powers
    are estimates, and can be too small in single modes."""
    held: int = 6_000_000
    """Most values of the influence that are held in memory at a time."""


_MODES = _Modes()


@dataclass(frozen=True, eq=False)
class NoisyRows:
    """The rows of one field with the covariance of the noise in their columns."""

    rows: FieldRows

    @property
    def weights(self) -> list[dict[int, Floats]]:
        """For every axis, by order of the derivative: (rows, samples)."""
        return [dict(axis.matrices) for axis in self.rows.axes]

    @cached_property
    def table(self) -> Floats:
        """(rows, columns), all axes in one."""
        return self.rows.table.reshape(-1, len(self.rows.terms))

    @cached_property
    def covariances(self) -> dict[tuple[int, int], Floats]:
        """For every two columns that share noise, (rows,): the unbiased covariance of their noise."""
        rows = self.rows
        covariances: dict[tuple[int, int], Floats] = {}
        squares = [products(weights) for weights in self.weights]
        # In stretches of time, so that the functions of a large field are never in memory as a whole.
        for low, high in stretches(rows, len({g for g, _ in rows.terms if rows.is_noisy(g)}) + 2):
            part = [*squares[:-1], {key: m[:, low:high] for key, m in squares[-1].items()}]
            for columns, covariance in rows.covariances(rows.unbiased(low, high), part):
                covariances[columns] = covariances.get(columns, 0.0) + covariance.ravel()
        return covariances

    def shared(self, a: int, b: int) -> Floats | float:
        """The covariance of the noise of two columns, row by row."""
        return self.covariances.get((a, b), self.covariances.get((b, a), 0.0))

    def variance(self, residual: Floats) -> Floats:
        """(states, rows): variance of the noise in residuals, columns weighted by (states, columns)."""
        variance = np.zeros((len(residual), len(self.table)))
        first = len(self.rows.terms) - len(residual)
        for j, weights in enumerate(residual):
            used = np.flatnonzero(weights)
            for a in used:
                for b in used:
                    variance[j] += weights[a] * weights[b] * self.shared(int(a), int(b))
            variance[j] = np.maximum(variance[j], _MODES.least_noise * self.shared(first + j, first + j))
        return variance


@dataclass(frozen=True, eq=False)
class Modes(NoisyRows):
    """The rows of one field as modes.

    Rows overlap and share noise. The residual of an equation consists of ∂_t^r of one function and space
    derivatives of others, so that the covariance of its noise is a sum of products with one factor for each
    axis. Along every axis there are mixtures of test functions that are independent under white noise and
    under its highest derivative (a generalized eigenvalue problem; on a ring they are waves). They make each
    of these products diagonal, or nearly so, and `variance` gives the variance of each mode.
    """

    @cached_property
    def turns(self) -> list[Floats]:
        """For every axis (modes, rows)."""
        turns = []
        for axis in self.rows.axes:
            low, high = axis.matrices[0], axis.matrices[max(axis.matrices)]
            # First the mixtures that are independent under white noise, without nearly dependent ones, then
            # among these the mixtures that are independent under its highest derivative.
            values, vectors = np.linalg.eigh(low @ low.T)
            independent = values > _MODES.dependent * values[-1]
            white = vectors[:, independent] / np.sqrt(values[independent])
            _, turn = np.linalg.eigh(white.T @ (high @ high.T) @ white)
            turns.append(np.ascontiguousarray((white @ turn).T))
        return turns

    @property
    def weights(self) -> list[dict[int, Floats]]:
        return [
            {order: turn @ m for order, m in axis.matrices.items()}
            for turn, axis in zip(self.turns, self.rows.axes, strict=True)
        ]

    @cached_property
    def table(self) -> Floats:
        """(modes, columns), all axes in one."""
        mixed = self.rows.table
        for k, turn in enumerate(self.turns):
            mixed = apply(turn, mixed, k)
        return mixed.reshape(-1, mixed.shape[-1])

    def scatter(self, moved: Floats, residual: Floats) -> Floats:
        """(k, k) covariance of coefficients that residuals of modes (k, states, modes) move by `moved`."""
        sizes = [len(turn) for turn in self.turns]
        moved = moved.reshape(*moved.shape[:2], *sizes)
        # From modes back to rows, in which the influence of each sample is known.
        for k, turn in enumerate(self.turns, 2):
            moved = apply(np.ascontiguousarray(turn.T), moved, k)
        return propagated(self.rows, moved, residual)


def modes_of(evidence: WeakRows, columns: tuple[int, ...]) -> list[Modes]:
    """The modes of every field, for some terms of the basis; none if the noise of some mode is not known.

    It is known where all rows count and no derivative is a local estimate. The rows are on a closer lattice
    than those for the choice of terms.
    """
    if columns not in evidence.modes:
        # Errors and findings use the same columns one after the other. Older ones are not needed again.
        evidence.modes.clear()
        slopes = any(has_slope(g) for rows in evidence.rows for g, _ in rows.only(columns).terms)
        known = not slopes and all(
            rows.counted.kept is None and min(rows.noise.values()) > 0 for rows in evidence.rows
        )
        closer = [replace(rows, spacing=_MODES.spacing, most=_MODES.most_rows) for rows in evidence.rows]
        modes = [Modes(rows.only(columns)) for rows in closer] if known else []
        evidence.modes[columns] = modes
    found: list[Modes] = evidence.modes[columns]
    return found


def as_columns(coef: Floats) -> Floats:
    """(states, terms + states) the residual of every state as a sum of columns."""
    return np.hstack([-coef.T, np.eye(coef.shape[1])])


def noise_covariance(rows: FieldRows, influence: Floats, residual: Floats) -> Floats | None:
    """(k, k) covariance of least-squares coefficients, by the noise at every sample of one field.

    influence: (k, states, terms) the change of coefficients by the residual of a state times a row's terms
    residual: (states, terms + states) the residual of every state as a sum of columns

    None where a derivative was estimated from neighbours: its noise is not that of one sample.
    """
    used = [g for column, (g, _) in zip(residual.T, rows.terms, strict=True) if column.any()]
    if any(has_slope(g) and rows.is_noisy(g) for g in used):
        return None
    terms = influence.shape[-1]
    moved = np.tensordot(influence, rows.table[..., :terms], axes=(2, -1))
    return propagated(rows, moved * rows.field.weight, residual)


def propagated(rows: FieldRows, moved: Floats, residual: Floats) -> Floats:
    """View 1. (k, k) covariance of coefficients, by the noise at every sample of one field.

    Test functions overlap, and their derivatives have both signs, so that a sample adds to one row and
    subtracts from the next. Rows, and boxes of rows, are therefore far from independent, and their sum mostly
    scatters less than its parts. Samples are independent, so that the sum is taken over them:

        δβ = Σ_s Σ_g I_g(s) ε_g(s),   I_g(s) = Σ over rows of influence · residual weight of g(u_s) there

    with ε_g the noise of the function g at a sample, whose covariance ĝ ĥ − (g h)^ is known without bias (as
    in `FieldRows`).

    moved: (k, states, rows …) the change of coefficients by the residual of a state in a row
    residual: as in `noise_covariance`
    """
    used: dict[Term, dict[tuple[int, ...], Floats]] = {}
    for column, (g, orders) in enumerate(rows.terms):
        if residual[:, column].any() and rows.is_noisy(g):
            by_orders = used.setdefault(g, {})
            by_orders[orders] = by_orders.get(orders, 0.0) + residual[:, column]
    total = np.zeros((len(moved), len(moved)))
    for low, high in stretches(rows, len(moved) * max(len(used), 1)):
        total += _stretch(rows, used, moved, low, high)
    return total


def stretches(rows: FieldRows, copies: int) -> list[tuple[int, int]]:
    """(first, last + 1) samples of the stretches of time that fit into memory with so many copies."""
    samples = next(iter(rows.axes[-1].matrices.values())).shape[1]
    place = int(np.prod([next(iter(a.matrices.values())).shape[1] for a in rows.axes[:-1]]))
    length = max(1, _MODES.held // (place * copies))
    return [(low, min(low + length, samples)) for low in range(0, samples, length)]


def _stretch(
    rows: FieldRows, used: dict[Term, dict[tuple[int, ...], Floats]], moved: Floats, low: int, high: int
) -> Floats:
    """The part of the covariance from the samples low … high − 1."""
    time = rows.axes[-1]
    # Only rows that use these samples contain their noise.
    near = np.flatnonzero((time.starts < high) & (time.stops > low))
    if not len(near):
        return np.zeros((len(moved), len(moved)))
    unbiased = rows.unbiased(low, high)
    functions = list(used)
    influences = [
        _influence(rows, used[g], moved[..., near], near, low, high).reshape(len(moved), -1)
        for g in functions
    ]
    total = np.zeros((len(moved), len(moved)))
    for i, g in enumerate(functions):
        for j, h in enumerate(functions[i:], i):
            if rows.share_noise(g, h):
                covariance = unbiased.covariance(g, h)
                part = (influences[i] * covariance.ravel()) @ influences[j].T
                # Each pair of functions stands for both orders.
                total += part if i == j else part + part.T
    return total


def _influence(
    rows: FieldRows, by_orders: dict[tuple[int, ...], Floats], moved: Floats, near: Ints, low: int, high: int
) -> Floats:
    """(k, samples …): the change of the coefficients by the noise of one function at each sample.

    The axes go from few rows to many samples. The last axis of space, which makes most of them, comes last,
    once for all derivatives of the same order along it.
    """
    *space, time = rows.axes
    gathered: dict[int, Floats] = {}
    for orders, weights in by_orders.items():
        part = np.tensordot(moved, weights, axes=(1, 0))
        part = apply(np.ascontiguousarray(time.matrices[orders[-1]][near, low:high].T), part, len(orders))
        for axis, (of_axis, order) in enumerate(zip(space[:-1], orders, strict=False), 1):
            part = apply(np.ascontiguousarray(of_axis.matrices[order].T), part, axis)
        gathered[orders[-2]] = gathered[orders[-2]] + part if orders[-2] in gathered else part
    parts = [
        apply(np.ascontiguousarray(space[-1].matrices[order].T), part, len(space))
        for order, part in gathered.items()
    ]
    return np.asarray(sum(parts[1:], start=parts[0]))
