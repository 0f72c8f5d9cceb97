"""Much data and many terms: a law is found on a part, among the likely."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from cindy._types import Floats, Ints
from cindy.pipeline.models_met import Search
from cindy.pipeline.options import Options
from cindy.selection import Supports
from cindy.states import Motion, drift_of_data, first_objective

__all__ = ["screened", "some_of"]

_ENOUGH = 20_000
"""Samples on which a law is found, to be confirmed on all: passes over as many take seconds."""
_FEWEST = 5_000
"""Those where each sample makes rows for many coefficients: what chaotic systems are found from."""
_WORK = 5e8
"""Samples times the square of coefficients that a search is worth: 20,000 of three states to degree 4."""
_MANY = 700
"""Coefficients beyond which the rows at fitted states are made for the likely ones only."""
_LIKELY = 500
"""Those that are kept: the path of the first pass, then by the gain that each promises alone."""


def some_of(motion: Motion, seed: int) -> Motion:
    """Stretches spread over the data, at most some 20,000 samples; all where there are not many more.

    seed: of where the first of them lies
    """
    enough = max(min(_ENOUGH, int(_WORK / max(len(motion.candidates), 1) ** 2)), _FEWEST)
    if motion.samples <= 1.5 * enough:
        return motion
    share, offset = enough / motion.samples, np.random.default_rng(seed).random()
    records, before, taken = [], 0, 0
    for record in motion.records:
        number = np.arange(before, before + record.stretches)
        before += record.stretches
        keep = np.flatnonzero(np.floor((number + 1) * share + offset) > np.floor(number * share + offset))
        taken += len(keep)
        if len(keep):
            records.append(record.part(keep))
    return motion.part(records) if taken else motion


def screened(motion: Motion, options: Options, variance: Floats) -> Motion:
    """The same with the candidates that the first pass finds likely, where there are very many."""
    if len(motion.candidates) <= _MANY:
        return motion
    state = Search(motion, options)
    form = state.form((first_objective(motion, drift_of_data(motion, variance)),))
    supports = replace(Supports.of_form(form, options.prices(state.columns, likelihood=True)), known=False)
    result, path = state.path(form)
    best = supports.best(path, most=_LIKELY)
    kept: Ints = np.flatnonzero(result.x) if best is None else best.support
    kept = np.union1d(kept, supports.required)
    if best is not None:
        gain = supports.gains(best)
        kept = np.union1d(kept, np.argsort(-gain)[: max(_LIKELY - len(kept), 0)])
    whole = np.flatnonzero(np.isin(supports.group, supports.group[kept]))
    return replace(motion, candidates=motion.candidates[whole])
