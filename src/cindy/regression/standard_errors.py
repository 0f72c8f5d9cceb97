"""Errors of coefficients, where rows of one block are not independent of each other."""

from __future__ import annotations

import numpy as np

from cindy._types import Floats
from cindy.regression.regression import Fit, Regression

__all__ = ["classical", "design_effect", "jackknife", "sandwich"]


_MOST = 100
"""Parameters beyond which leaving blocks out, one by one, would take too long."""
_ALONE = 0.002
"""A direction that one block determines but for this share is not left to the others. At 0.1, one of 32 data
sets of `python -m benchmarks constants` loses its terms."""


def classical(regression: Regression, fit: Fit) -> Floats:
    """(k,) variances of the coefficients, if all rows were independent and scattered as they do.

    diag (AᵀA)⁻¹ · loss / (rows − parameters), with (AᵀA)⁻¹ = spread spreadᵀ.
    """
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
    if fit.free > len(regression.blocks) * len(np.unique(targets)):
        independent = classical(regression, fit)
        return independent * design_effect(independent, sandwich(regression, fit, x))
    if fit.free > _MOST:
        return sandwich(regression, fit, x)
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
