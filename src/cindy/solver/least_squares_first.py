"""Least squares under the equalities of a region: the answer wherever nothing else binds."""

import numpy as np
import scipy.linalg

from cindy._types import Floats
from cindy.least_squares import LeastSquares
from cindy.solver.region import Region

__all__ = ["least_squares_within"]


def least_squares_within(objective: LeastSquares, region: Region) -> Floats | None:
    """(size,): the minimiser under the equality rows if it lies in the region; None otherwise.

    Without rows any data will do; with rows the terms must be independent.
    """
    rows = region.matrix[np.flatnonzero(region.equality)]
    goal = region.lower[region.equality]
    x: Floats = np.asarray(np.linalg.lstsq(objective.design, objective.target, rcond=None)[0], dtype=float)
    if rows.shape[0]:
        corrected = _onto(objective, x, rows.toarray(), goal)
        if corrected is None:
            return None
        x = corrected
    flat = np.asarray(x, dtype=np.float64).ravel()
    return flat if region.violation(flat) <= 1e-12 * region.radius else None


def _onto(objective: LeastSquares, x: Floats, rows: Floats, goal: Floats) -> Floats | None:
    """The point on {rows x = goal} nearest to x in the norm of the objective.

    x − R⁻¹ T (TᵀT)⁻¹ (rows x − goal), T = R⁻ᵀ rowsᵀ: by prices of the rows, of which there are few. A null
    space, as `Regression.fit` has it, would join the targets that rows connect, thousands of coefficients.
    """
    terms, targets = x.shape
    triangle = objective.design[:terms]
    diagonal = np.abs(np.diag(triangle))
    if len(triangle) < terms or objective.design[terms:].any() or diagonal.min() <= 1e-10 * diagonal.max():
        return None
    length = np.linalg.norm(rows, axis=1).clip(min=1e-300)
    rows, goal = rows / length[:, None], goal / length
    # With z = R x the norm is Euclidean, and the rows become rows R⁻¹, target by target.
    turned = scipy.linalg.solve_triangular(
        triangle, rows.reshape(len(rows), terms, targets).transpose(1, 0, 2).reshape(terms, -1), trans="T"
    )
    turned = turned.reshape(terms, len(rows), targets).transpose(0, 2, 1).reshape(-1, len(rows))
    for _ in range(2):
        # The second pass takes off the rounding of the first.
        miss = rows @ x.ravel() - goal
        shift = scipy.linalg.lstsq(turned.T, miss, cond=1e-10)[0].reshape(terms, targets)
        x = x - scipy.linalg.solve_triangular(triangle, shift)
    return x
