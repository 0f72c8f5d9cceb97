"""Modes: the rows of a field, mixed along every axis so that their noise is nearly independent."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from cindy._types import Floats
from cindy.basis import Basis, Term, product
from cindy.data import Field
from cindy.formulation.bumps import apply, reduce
from cindy.formulation.propagation import propagated, stretches
from cindy.formulation.unbiased import Unbiased
from cindy.formulation.weak import Weak
from cindy.formulation.weak_rows import FieldRows, field_rows, has_slope

__all__ = ["Modes", "modes_of"]

_SPACING = 0.35
"""Distance of test functions, in half-widths: what overlaps costs nothing here, and closer ones come nearer
to the bound (by the variances of transport and heat, 0.5 makes errors 5 to 8 % larger; benchmark:
pde_short)."""
_MOST_ROWS = 60_000
"""Modes of all fields together, ten times the rows that terms are chosen by: a bound on work and memory."""
_DEPENDENT = 1e-6
"""Variance of a mixture of test functions, relative to the largest, below which it is the others again: of
double precision half the digits are left."""
_LEAST_NOISE = 0.25
"""Of the noise in a mode's target, the least that the whole residual is taken to have: covariances of powers
are estimates, and in single modes may come out too small."""


@dataclass(frozen=True, eq=False)
class Modes:
    """The rows of one field as modes.

    Rows overlap and share noise. The residual of an equation is ∂_t^r of one function and space derivatives
    of others, so the covariance of its noise is a sum of products, one factor an axis. Along every axis the
    mixtures of test functions that are independent under white noise, and under its highest derivative too
    (a generalized eigenvalue problem; on a ring they are waves), make each of these products diagonal or
    nearly so. What is left is a variance a mode, which `variance` gives.
    """

    rows: FieldRows

    @property
    def known(self) -> bool:
        """Whether the noise of every mode is: no row is left out, and no derivative is estimated locally."""
        if any(has_slope(g) for g, _ in self.rows.terms):
            return False
        states = self.rows.field.states
        if not all(self.rows.noise.get(state, 0.0) > 0 for state in states):
            return False
        rows = self.rows
        return FieldRows(rows.field, rows.basis, rows.form, rows.share, 1).kept is None

    @cached_property
    def turns(self) -> list[Floats]:
        """For every axis (modes, rows)."""
        found = []
        for axis in self.rows.axes:
            low, high = axis.matrices[0], axis.matrices[max(axis.matrices)]
            values, vectors = np.linalg.eigh(low @ low.T)
            kept = values > _DEPENDENT * values[-1]
            white = vectors[:, kept] / np.sqrt(values[kept])
            _, turn = np.linalg.eigh(white.T @ (high @ high.T) @ white)
            found.append(np.ascontiguousarray((white @ turn).T))
        return found

    @cached_property
    def table(self) -> Floats:
        """(modes, columns), all axes in one."""
        mixed = self.rows.table
        for k, turn in enumerate(self.turns):
            mixed = apply(turn, mixed, k)
        return mixed.reshape(-1, mixed.shape[-1])

    @cached_property
    def covariances(self) -> dict[tuple[int, int], Floats]:
        """For every two columns that share noise, (modes,): the covariance of their noise, without bias."""
        rows = self.rows
        found: dict[tuple[int, int], Floats] = {}
        weights = [
            {order: turn @ m for order, m in axis.matrices.items()}
            for turn, axis in zip(self.turns, rows.axes, strict=True)
        ]
        squares = [{(a, b): w[a] * w[b] for a in w for b in w if a <= b} for w in weights]
        noisy = list(dict.fromkeys(g for g, _ in rows.terms if rows.is_noisy(g)))
        pairs = [(g, h) for i, g in enumerate(noisy) for h in noisy[i:] if rows.share_noise(g, h)]
        for low, high in stretches(rows, len(noisy) + 2):
            values, _ = rows.values(low, high)
            unbiased = Unbiased(values, rows.noise)
            here = [*squares[:-1], {key: m[:, low:high] for key, m in squares[-1].items()}]
            for g, h in pairs:
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
        """The covariance of the noise of two columns, mode by mode."""
        return self.covariances.get((a, b), self.covariances.get((b, a), 0.0))

    def variance(self, residual: Floats) -> Floats:
        """(states, modes): of the noise in residuals, sums of columns by the weights (states, columns)."""
        found = np.zeros((len(residual), len(self.table)))
        first = len(self.rows.terms) - len(residual)
        for j, weights in enumerate(residual):
            used = np.flatnonzero(weights)
            for a in used:
                for b in used:
                    found[j] += weights[a] * weights[b] * self.shared(int(a), int(b))
            found[j] = np.maximum(found[j], _LEAST_NOISE * self.shared(first + j, first + j))
        return found

    def scatter(self, moved: Floats, residual: Floats) -> Floats | None:
        """(k, k) covariance of coefficients, which the residuals (k, states, modes) move by so much."""
        sizes = [len(turn) for turn in self.turns]
        moved = moved.reshape(*moved.shape[:2], *sizes)
        for k, turn in enumerate(self.turns, 2):
            moved = apply(np.ascontiguousarray(turn.T), moved, k)
        return propagated(self.rows, moved, residual)


def modes_of(fields: Sequence[Field], basis: Basis, form: Weak, columns: tuple[int, ...]) -> list[Modes]:
    """The modes of every field, for some terms of the basis."""
    return [
        Modes(FieldRows(r.field, basis, form, r.share, 1, columns=columns, spacing=_SPACING, most=_MOST_ROWS))
        for r in field_rows(fields, basis, form)
    ]
