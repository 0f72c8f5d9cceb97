"""The noise of weak rows: how it is shared between them, and what it does to coefficients.

Test functions overlap, so their rows share noise. Two views of it are here.

1. `propagated`: samples are independent, so the covariance of coefficients is a sum over samples of the
   square of their influence (the delta method; Fuller, Measurement Error Models, 1987, section 3.1).
2. `Modes`: mixtures of test functions along every axis whose noise is nearly independent, so that each mode
   has a variance and may be weighed by it.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np

from cindy._arrays import Floats, Ints
from cindy.basis import Term, product
from cindy.evidence.grid_operators import apply, reduce
from cindy.evidence.noise_in_terms import Unbiased
from cindy.evidence.weak import FieldRows, WeakRows, has_slope

__all__ = ["Modes", "NoisyRows", "modes_of", "noise_covariance"]


@dataclass(frozen=True)
class _Modes:
    """How many modes are kept, and what they cost."""

    spacing: float = 0.35
    """Distance of test functions, in half-widths: what overlaps costs nothing here, and closer ones come
    nearer to the bound (by the variances of transport and heat, 0.5 makes errors 5 to 8 % larger; benchmark:
    pde_short)."""
    most_rows: int = 60_000
    """Modes of all fields together, ten times the rows that terms are chosen by: a bound on work and
    memory."""
    dependent: float = 1e-6
    """Variance of a mixture of test functions, relative to the largest, below which it is the others again:
    of double precision half the digits are left."""
    least_noise: float = 0.25
    """Of the noise in a mode's target, the least that the whole residual is taken to have: covariances of
    powers are estimates, and in single modes may come out too small."""
    held: int = 6_000_000
    """Values of the influence that are held in memory at a time."""


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
        """For every two columns that share noise, (rows,): the covariance of their noise, without bias."""
        rows = self.rows
        found: dict[tuple[int, int], Floats] = {}
        squares = [{(a, b): w[a] * w[b] for a in w for b in w if a <= b} for w in self.weights]
        noisy = list(dict.fromkeys(g for g, _ in rows.terms if rows.is_noisy(g)))
        pairs = [(g, h) for i, g in enumerate(noisy) for h in noisy[i:] if rows.share_noise(g, h)]
        for low, high in stretches(rows, len(noisy) + 2):
            values, _ = rows.values(low, high)
            unbiased = Unbiased(values, rows.noise)
            here = [*squares[:-1], {key: m[:, low:high] for key, m in squares[-1].items()}]
            for g, h in pairs:
                # The covariance of g and h at a sample, without bias: the product of the estimates less the
                # estimate of the product.
                both = unbiased(g) * unbiased(h) - unbiased(product((*g, *h), rows.field.variables))
                wanted = self._orders(g, h)
                reduced = reduce(both, here, set(wanted.values()))
                for key, orders in wanted.items():
                    found[key] = found.get(key, 0.0) + reduced[orders].ravel()
        return found

    def _orders(self, g: Term, h: Term) -> dict[tuple[int, int], tuple[tuple[int, int], ...]]:
        """Columns of the one function with those of the other: the orders of both along every axis."""
        terms = self.rows.terms
        return {
            (a, b): tuple((min(p), max(p)) for p in zip(terms[a][1], terms[b][1], strict=True))
            for a, (inner, _) in enumerate(terms)
            for b, (other, _) in enumerate(terms)
            if inner == g and other == h and (g != h or a <= b)
        }

    def shared(self, a: int, b: int) -> Floats | float:
        """The covariance of the noise of two columns, row by row."""
        return self.covariances.get((a, b), self.covariances.get((b, a), 0.0))

    def variance(self, residual: Floats) -> Floats:
        """(states, rows): of the noise in residuals, sums of columns by the weights (states, columns)."""
        found = np.zeros((len(residual), len(self.table)))
        first = len(self.rows.terms) - len(residual)
        for j, weights in enumerate(residual):
            used = np.flatnonzero(weights)
            for a in used:
                for b in used:
                    found[j] += weights[a] * weights[b] * self.shared(int(a), int(b))
            found[j] = np.maximum(found[j], _MODES.least_noise * self.shared(first + j, first + j))
        return found


@dataclass(frozen=True, eq=False)
class Modes(NoisyRows):
    """The rows of one field as modes.

    Rows overlap and share noise. The residual of an equation is ∂_t^r of one function and space derivatives
    of others, so the covariance of its noise is a sum of products, one factor an axis. Along every axis the
    mixtures of test functions that are independent under white noise, and under its highest derivative too
    (a generalized eigenvalue problem; on a ring they are waves), make each of these products diagonal or
    nearly so. What is left is a variance a mode, which `variance` gives.

    rows: on a closer lattice than those that terms are chosen by, which are `chosen_by`
    """

    chosen_by: FieldRows

    @property
    def known(self) -> bool:
        """Whether the noise of every mode is: no row is left out, and no derivative is estimated locally."""
        if any(has_slope(g) for g, _ in self.rows.terms):
            return False
        states = self.rows.field.states
        if not all(self.rows.noise.get(state, 0.0) > 0 for state in states):
            return False
        return self.chosen_by.kept is None

    @cached_property
    def turns(self) -> list[Floats]:
        """For every axis (modes, rows)."""
        found = []
        for axis in self.rows.axes:
            low, high = axis.matrices[0], axis.matrices[max(axis.matrices)]
            # White noise first: mixtures of test functions whose noise is independent, the nearly dependent
            # ones left out. Then, among those, the ones that its highest derivative leaves independent as
            # well.
            values, vectors = np.linalg.eigh(low @ low.T)
            kept = values > _MODES.dependent * values[-1]
            white = vectors[:, kept] / np.sqrt(values[kept])
            _, turn = np.linalg.eigh(white.T @ (high @ high.T) @ white)
            found.append(np.ascontiguousarray((white @ turn).T))
        return found

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

    def scatter(self, moved: Floats, residual: Floats) -> Floats | None:
        """(k, k) covariance of coefficients, which the residuals (k, states, modes) move by so much."""
        sizes = [len(turn) for turn in self.turns]
        moved = moved.reshape(*moved.shape[:2], *sizes)
        for k, turn in enumerate(self.turns, 2):
            moved = apply(np.ascontiguousarray(turn.T), moved, k)
        return propagated(self.rows, moved, residual)


def modes_of(evidence: WeakRows, columns: tuple[int, ...]) -> list[Modes]:
    """The modes of every field, for some terms of the basis."""
    if columns not in evidence.modes:
        # Errors and findings ask for the same columns one after the other; older ones are not needed again.
        evidence.modes.clear()
        evidence.modes[columns] = [
            Modes(replace(rows, spacing=_MODES.spacing, most=_MODES.most_rows).only(columns), rows)
            for rows in evidence.rows
        ]
    modes: list[Modes] = evidence.modes[columns]
    return modes


def noise_covariance(rows: FieldRows, influence: Floats, residual: Floats) -> Floats | None:
    """(k, k) covariance of coefficients that are least squares, by the noise at every sample of one field.

    influence: (k, states, terms) by which the residual of a state, times a row's terms, moves coefficients
    residual: (states, terms + states) the residual of every state as a sum of columns
    None where a derivative was estimated from neighbours: its noise is not that of one sample.
    """
    terms = influence.shape[-1]
    moved = np.tensordot(influence, rows.table[..., :terms], axes=(2, -1))
    return propagated(rows, moved * rows.field.weight, residual)


def propagated(rows: FieldRows, moved: Floats, residual: Floats) -> Floats | None:
    """(k, k) covariance of coefficients, by the noise at every sample of one field.

    Test functions overlap, and their derivatives have both signs: what a sample adds to one row it takes
    from the next. Rows, and boxes of rows, are then far from independent, mostly with less scatter in the sum
    than in the parts. Samples are independent, so the sum is taken over them:

        δβ = Σ_s Σ_g I_g(s) ε_g(s),   I_g(s) = Σ over rows of influence · residual weight of g(u_s) there

    with ε_g the noise of the function g at a sample, whose covariance ĝ ĥ − (g h)^ is known without bias
    (as in `FieldRows`). This is the delta method (Fuller, Measurement Error Models, 1987, section 3.1).

    moved: (k, states, rows …) by which the residual of a state in a row moves coefficients
    residual, None: as in `noise_covariance`
    """
    used: dict[Term, dict[tuple[int, ...], Floats]] = {}
    for column, (g, orders) in enumerate(rows.terms):
        if residual[:, column].any() and rows.is_noisy(g):
            by_orders = used.setdefault(g, {})
            by_orders[orders] = by_orders.get(orders, 0.0) + residual[:, column]
    if any(has_slope(g) for g in used):
        return None
    total = np.zeros((len(moved), len(moved)))
    for low, high in stretches(rows, len(moved) * max(len(used), 1)):
        total += _stretch(rows, used, moved, low, high)
    return total


def stretches(rows: FieldRows, copies: int) -> list[tuple[int, int]]:
    """Samples in time that are worked on together."""
    samples = next(iter(rows.axes[-1].matrices.values())).shape[1]
    place = int(np.prod([next(iter(a.matrices.values())).shape[1] for a in rows.axes[:-1]]))
    each = max(1, _MODES.held // (place * copies))
    return [(low, min(low + each, samples)) for low in range(0, samples, each)]


def _stretch(
    rows: FieldRows,
    used: dict[Term, dict[tuple[int, ...], Floats]],
    moved: Floats,
    low: int,
    high: int,
) -> Floats:
    """The part of the covariance that comes from the samples low … high − 1."""
    time = rows.axes[-1]
    # Only rows that look at these samples are moved by their noise.
    near = np.flatnonzero((time.starts < high) & (time.stops > low))
    if not len(near):
        return np.zeros((len(moved), len(moved)))
    values, _ = rows.values(low, high)
    unbiased = Unbiased(values, rows.noise)
    functions = list(used)
    spread = [
        _influence(rows, used[g], moved[..., near], near, low, high).reshape(len(moved), -1)
        for g in functions
    ]
    total = np.zeros((len(moved), len(moved)))
    for i, g in enumerate(functions):
        for j, h in enumerate(functions[i:], i):
            if rows.share_noise(g, h):
                both = unbiased(g) * unbiased(h) - unbiased(product((*g, *h), rows.field.variables))
                part = (spread[i] * both.ravel()) @ spread[j].T
                # Each pair of functions stands for both orders.
                total += part if i == j else part + part.T
    return total


def _influence(
    rows: FieldRows,
    by_orders: dict[tuple[int, ...], Floats],
    moved: Floats,
    near: Ints,
    low: int,
    high: int,
) -> Floats:
    """(k, samples …): what the noise of one function at each sample moves the coefficients by.

    From few rows to many samples: the last axis of space, which makes most of them, comes last, once for all
    derivatives that are of the same order along it.
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
