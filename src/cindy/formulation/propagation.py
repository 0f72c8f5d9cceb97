"""From noise at the samples of a field to the scatter of the coefficients."""

from __future__ import annotations

import numpy as np

from cindy._types import Floats, Ints
from cindy.basis import Term, product
from cindy.formulation.bumps import apply
from cindy.formulation.unbiased import Unbiased
from cindy.formulation.weak_rows import FieldRows, has_slope

__all__ = ["noise_covariance", "propagated", "stretches"]


_HELD = 6_000_000
"""Values of the influence that are held in memory at a time."""


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
    each = max(1, _HELD // (place * copies))
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
