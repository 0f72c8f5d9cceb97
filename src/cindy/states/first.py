"""The first pass: rows at the measured states, one equation at a time, and the likelihood of the empty model.

With x̂ = y and J = 0 the rows are D y = W ψ(y) Ξ + D e + drift, and the equations decouple:

1. The drift, a multiple of the noise variance per step, stands for noise inside terms and for missing terms.
2. S = σ² (D Dᵀ + drift) is banded with `order` subdiagonals. Rows are whitened by its Cholesky factor.
3. The triangles of all equations, each divided by the residual of the whole dictionary, form one objective.

The empty model is a random walk observed in noise. Every law must have a larger likelihood. The cost is
linear in the number of samples.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

import numpy as np

from cindy._arrays import Floats
from cindy.least_squares import LeastSquares, triangle
from cindy.states.grid import grid_of
from cindy.states.linearised import Factor, factored
from cindy.states.motion import Fitted, Motion
from cindy.states.record import Record

_DRIFTS = 10.0 ** np.arange(-6.0, 4.1, 0.5)
"""Variances tried for the drift, in units of the noise variance, half a decade apart: from a state that
hardly moves to one that jumps."""


def first_objective(motion: Motion, drift: Floats) -> LeastSquares:
    """White rows [W ψ(y) | D y] of all candidates at the measured states, with residuals of unit size.

    drift: (states,) for each equation
    """
    pieces: list[tuple[Floats, np.ndarray]] = []
    count = 0
    parts = [_integrated(motion, record) for record in motion.records]
    unit = _unit(motion)
    for j in range(motion.states):
        places = np.flatnonzero(motion.candidates % motion.states == j)
        if not len(places):
            continue
        terms = motion.candidates[places] // motion.states
        factor = np.zeros((0, len(places) + 1))
        rows = 0
        for record, (values, differences) in zip(motion.records, parts, strict=True):
            explained, state = _explained(motion, record, j)
            white = _white(
                explained, state, float(drift[j]), unit, [values[..., terms], differences[..., j : j + 1]]
            )
            rows += len(white)
            # Record by record, so that the rows of long data are never in memory together.
            factor = triangle(np.concatenate([factor, white]))
        # Step 3: divide by the residual of all candidates together, so that equations have equal weight.
        unexplained = float(np.linalg.norm(factor[len(places) :, -1]))
        size = unexplained / np.sqrt(max(rows - len(places), 1))
        whole = float(np.linalg.norm(factor[:, -1])) / np.sqrt(rows)
        pieces.append((factor / max(size, 1e-13 * whole, 1e-300), places))
        count += rows
    stacked = np.zeros((sum(len(f) for f, _ in pieces), len(motion.candidates) + 1))
    begin = 0
    for factor, places in pieces:
        stacked[begin : begin + len(factor), places] = factor[:, :-1]
        stacked[begin : begin + len(factor), -1] = factor[:, -1]
        begin += len(factor)
    return LeastSquares(triangle(stacked), len(motion.candidates), count)


def drift_of_data(motion: Motion, variance: Floats) -> Floats:
    """(states,) (h J)², estimated from the size of the steps: the gain of noise that passes through terms."""
    squares, count = np.zeros(motion.states), 0
    for record in motion.records:
        steps = np.diff(record.y, axis=1)
        squares += np.sum(steps**2, axis=(0, 1))
        count += steps.shape[0] * steps.shape[1]
    # The mean square of a step is that of the motion and twice the variance of the noise.
    motion_squared = np.maximum(squares / count - 2.0 * variance, 0.0)
    return np.asarray(np.clip(motion_squared / motion.spread**2, 1e-5, 1.0))


def drift_of_nothing(motion: Motion) -> Floats:
    """(states,) drift of the empty model by maximum likelihood."""
    return _walks(motion)[0]


def deviance_of_nothing(motion: Motion) -> float:
    """−2 log p of the measurements under the empty model, at the best of the drifts tried.

    Without a law J = 0: the states are independent, det B₂ is one, and with the variance profiled out

        −2 log p = Σ_j n log(rᵀ S⁻¹ r / n) + n + log det S,     S = D Dᵀ + drift .

    The grid of drifts makes this too high by at most a twentieth of a unit per row. With rates or missing
    entries this formula does not hold, and the result is −∞: the empty model may then be the best.
    """
    if len(motion.given) or any(record.missing.any() for record in motion.records):
        return -np.inf
    return float(np.sum(_walks(motion)[1]))


def _walks(motion: Motion) -> tuple[Floats, Floats]:
    """(states,) the drift of the largest likelihood of the empty model, and its −2 log p."""
    best, least = np.ones(motion.states), np.zeros(motion.states)
    unit = _unit(motion)
    for j in motion.sought:
        squares, logs, rows = np.zeros(len(_DRIFTS)), np.zeros(len(_DRIFTS)), 0
        for record in motion.records:
            explained, state = _explained(motion, record, j)
            differences = explained.grid.differences(record.y[..., state])
            rows += differences.size
            for group, noise in _alike(explained, state):
                columns = np.ascontiguousarray(differences[group].T)
                for i, drift in enumerate(_DRIFTS):
                    factor = _drifting(noise, drift * explained.grid.step / unit)
                    squares[i] += np.sum(factor.whiten(columns.copy()) ** 2)
                    logs[i] += len(group) * factor.log_det
        # −2 log p with the variance profiled out.
        values = rows * (1.0 + np.log(np.maximum(squares / rows, 1e-300))) + logs
        least[j], best[j] = values.min(), _DRIFTS[np.argmin(values)]
    return best, least


def _alike(record: Record, j: int) -> Iterator[tuple[list[int], Floats]]:
    """Stretches with the same missing samples of state j, whose noise therefore has one covariance D Σ Dᵀ.

    Yields their numbers and the lower band of this matrix, (order + 1, rows).
    """
    groups: dict[bytes, list[int]] = {}
    for number, row in enumerate(record.spread[..., j]):
        groups.setdefault(row.tobytes(), []).append(number)
    grid = record.grid
    for group in groups.values():
        variances = record.spread[group[0], :, j][grid.window]
        band = (grid.products[0][:, : grid.order + 1] @ variances[..., None])[..., 0]
        yield group, np.asfortranarray(band.T[: min(grid.order + 1, grid.rows)])


def start_of(motion: Motion, support: np.ndarray, coef: Floats, variance: Floats) -> Fitted:
    """The start of a fit: the measured states and the coefficients of the first pass."""
    y = tuple(record.y for record in motion.records)
    variance = np.maximum(variance, motion.floor)
    return Fitted(motion.law(support), y, coef, variance, variance / motion.step)


def _unit(motion: Motion) -> float:
    """The mean `step` of the rows that the first pass uses."""
    return motion.step ** (3 if len(motion.given) else 1)


def _explained(motion: Motion, record: Record, j: int) -> tuple[Record, int]:
    """The record and the state whose differences equation j explains: for a rate, those of its position."""
    if not len(motion.given):
        return record, j
    return replace(record, grid=grid_of(record.grid.t, order=2)), j % (motion.states // 2)


def start_of_nothing(motion: Motion, variance: Floats) -> Fitted:
    """The start of a fit of the empty model, in which all motion is model error."""
    start = start_of(motion, motion.candidates[:0], np.zeros(0), variance)
    noise = (2.0 if motion.records[0].grid.order == 1 else 6.0) * start.variance
    error = np.maximum(motion.moved**2 - noise, 0.1 * start.variance) / motion.step
    return replace(start, error=np.where(motion.known, start.error, error))


def _integrated(motion: Motion, measured: Record) -> tuple[Floats, Floats]:
    """(stretches, rows, terms) integrals, and (stretches, rows, states) the differences they explain."""
    explained = [_explained(motion, measured, j) for j in range(motion.states)]
    record = explained[0][0]
    integrals = record.integrated(measured.y, lambda points: motion.basis.evaluate(points, motion.variables))
    return integrals, record.grid.differences(measured.y[..., [state for _, state in explained]])


def _white(record: Record, j: int, drift: float, step: float, columns: list[Floats]) -> Floats:
    """L⁻¹ of the rows, all stretches one below the other."""
    rows = np.concatenate(columns, axis=-1)
    for group, noise in _alike(record, j):
        factor = _drifting(noise, drift * record.grid.step / step)
        for number in group:
            factor.whiten(rows[number])
    return rows.reshape(-1, rows.shape[-1])


def _drifting(noise: Floats, drift: Floats) -> Factor:
    """The Cholesky factor of D Σ Dᵀ + drift, with (rows,) drifts on the diagonal."""
    band = noise.copy(order="F")
    band[0] += drift
    factor = factored(band)
    assert factor is not None
    return factor
