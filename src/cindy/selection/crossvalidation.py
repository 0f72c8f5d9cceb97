"""Losses on blocks left out, for every number of terms."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from cindy._types import Floats
from cindy.selection.candidates import Candidates

__all__ = ["fold_losses"]


_BEYOND = 30
"""Models larger than the criterion's choice by more than this are not looked at."""


def fold_losses(candidates: Candidates, folds: int, *, most: int) -> Floats:
    """(blocks, sizes): loss per row on each block, of the model of each size fitted without its fold.

    The whole elimination is repeated without the fold: a path that has seen the data
    that judge it would favour large models. Each state counts in units of its noise.
    """
    regression = candidates.regression
    blocks = regression.blocks
    top = min(most, len(candidates.by_criterion()) + _BEYOND)
    losses = np.zeros((len(blocks), top + 1))
    for held in np.array_split(np.arange(len(blocks)), folds):
        rest = tuple(b for k, b in enumerate(blocks) if k not in set(held))
        part = Candidates(replace(candidates.regression, blocks=rest), candidates.solution, candidates.size)
        ranking = part.ranking(part.by_criterion())
        for size in range(top + 1):
            fit = part.possible(np.sort(ranking[:size]))
            for k in held:
                residual = np.inf if fit is None else blocks[k].residual(fit.x) / regression.noise
                losses[k, size] = np.sum(residual**2) / max(blocks[k].rows, 1)
    return losses
