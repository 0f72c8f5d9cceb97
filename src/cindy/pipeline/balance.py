"""Trajectories of unequal noise: each counts by its own."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from cindy._types import Floats
from cindy.basis import Basis
from cindy.data import Trajectory
from cindy.formulation import Formulation
from cindy.summary import Summary

__all__ = ["balanced", "unequal"]


_CLEAR = 0.1
"""Variance of the logarithm of the noise power, beyond what chance gives it, from which weighting pays
(`python -m benchmarks hard_data`)."""


def unequal(summary: Summary, coef: Floats, noise: Floats) -> bool:
    """Whether the noise of the blocks differs clearly: all that one pass over the data can tell."""
    powers = [np.mean(np.sum(b.residual(coef) ** 2, axis=0) / noise**2) / b.rows for b in summary.blocks]
    rows = np.array([b.rows for b in summary.blocks], dtype=float)
    return len(powers) > 1 and _differing(np.array(powers), rows * len(noise)) > _CLEAR


def balanced(
    data: Sequence[Trajectory], form: Formulation, basis: Basis, coef: Floats, noise: Floats
) -> list[Trajectory]:
    """The trajectories, each weighted by the power of its residuals from a first model.

    What is measured in few rows is drawn towards the mean of all. The mean square of
    the weighted residuals is that of the residuals.
    """
    rows, squares = np.zeros(len(data)), np.zeros(len(data))
    for i, one in enumerate(data):
        for segment in one.segments():
            if len(segment) >= form.min_samples:
                left = np.subtract(*form.compared(segment, basis, coef))
                rows[i] += len(left)
                squares[i] += float(np.sum((left / noise) ** 2))
    used = (rows > 0) & (squares > 0)
    counts, power = rows[used] * len(noise), np.ones(len(data))
    power[used] = squares[used] / counts
    differing = _differing(power[used], counts)
    middle = float(np.average(np.log(power[used]), weights=counts))
    trust = differing / (differing + 2.0 / counts) if differing > 0 else np.zeros(len(counts))
    weight = np.ones(len(data))
    weight[used] = np.exp(-trust * (np.log(power[used]) - middle))
    weight *= np.sum(squares) / np.sum(weight * squares)
    return [replace(one, weight=float(w)) for one, w in zip(data, weight, strict=True)]


def _differing(power: Floats, counts: Floats) -> float:
    """The variance of log power among sources, without that of its estimate from so many residuals."""
    return float(np.var(np.log(np.maximum(power, 1e-300))) - np.mean(2.0 / counts))
