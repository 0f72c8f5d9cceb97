"""Calibration: rows whose least squares is that of rows without noise in their terms."""

from __future__ import annotations

import numpy as np

from cindy._types import Floats
from cindy.least_squares import LeastSquares, lengths, triangle

__all__ = ["calibrated", "calibration"]


_ROUNDING = 1e-10
"""Directions of the terms below this share of the largest are not told apart by the data."""


def calibrated(blocks: tuple[LeastSquares, ...], matrix: Floats) -> tuple[LeastSquares, ...]:
    """Blocks times a matrix such as `calibration` gives."""
    return tuple(LeastSquares(triangle(b.factor @ matrix), b.terms, b.rows) for b in blocks)


def calibration(blocks: tuple[LeastSquares, ...], spurious: Floats) -> Floats:
    """The matrix by which blocks are mapped so that noise in the terms no longer biases the coefficients.

    With G = XᵀX over all blocks and C what noise adds to [X | Y]ᵀ[X | Y], the map

        X → X (I − G⁻¹ C_xx),   Y → Y − X G⁻¹ C_xy

    makes least squares solve (G − C_xx) ξ = XᵀY − C_xy, the equations without noise (total least squares
    with known covariance; Fuller, Measurement Error Models, 1987). No direction can be less than nothing or
    more than all noise: the eigenvalues of G⁻¹ C_xx are held between 0 and 1.
    """
    terms = blocks[0].terms
    total = triangle(np.vstack([b.factor for b in blocks]))
    design = total[: min(terms, len(total)), :terms]
    size = lengths(design)
    # The right singular vectors whiten the terms without forming G, whose condition is the square.
    _, values, turn = np.linalg.svd(design / size, full_matrices=False)
    known = values > _ROUNDING * values[0]
    white = turn[known].T / values[known]
    noise = spurious[:terms, :terms] / np.outer(size, size)
    share, directions = np.linalg.eigh(white.T @ noise @ white)
    share = np.clip(share, 0.0, 1.0)
    back = turn[known].T * values[known]
    fraction = white @ (directions * share) @ directions.T @ back.T
    keep = (np.eye(terms) - fraction) * size[None, :] / size[:, None]
    across = white @ (white.T @ (spurious[:terms, terms:] / size[:, None])) / size[:, None]
    matrix = np.eye(total.shape[1])
    matrix[:terms, :terms] = keep
    matrix[:terms, terms:] = -across
    return matrix
