"""A state that is measured so rarely that nothing can be interpolated between its samples.

The search begins at measured states, and where a state is missing, between its neighbours in time. Of Lorenz'
z in one sample of 200 that is no motion at all, and the search ends in a wrong law. A state without any
sample is found all the same (`hidden.py`), in a unit and with a zero of its own:

1. Find the law without the samples of the rare state z, as that of a hidden state w.
2. The few samples of z tell how the two belong together: z = a w + b + c·x, x the other states, by least
   squares. Where that does not hold, w is not the rare state.
3. Put a w + b + c·x where z was not measured, and search as usual from there.

This costs a second search. It is made only where a state is rare and the law that was found without it
leaves more than noise.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from cindy._arrays import Floats
from cindy.data import Trajectory
from cindy.errors import CindyError
from cindy.findings import has_finding
from cindy.model import Model
from cindy.pipeline.fitted import identify_with_states
from cindy.pipeline.hidden import identify_with_hidden, with_hidden
from cindy.pipeline.request import Request
from cindy.states import Motion, Record

__all__ = ["with_rare_state"]

_RARE = 0.1
"""Of the samples that have any state: below this share a state is rare."""
_BELONGS = 0.9
"""R² of the samples of the rare state by a w + b + c·x, above which w is that state (benchmark: hidden)."""


def with_rare_state(request: Request, motion: Motion, model: Model) -> Model:
    """The model that is found from the law of a hidden state; the same where none is rare, or it is good."""
    rare = _rare_state(request.data)
    doubted = has_finding(model.findings, "unexplained-motion", "smooth-residual", "random-forcing")
    if rare is None or not doubted or request.form.needs_states or request.form.discrete:
        return model
    try:
        guesses = _guesses(request, rare)
        if guesses is None:
            return model
        place = request.data[0].states.index(rare)
        records = [_with_first_values(record, place, guesses, motion.parts) for record in motion.records]
        again = identify_with_states(request, motion.part(records))
    except CindyError:
        # The law of a hidden state needs not exist; then the model stays, with what is said of it.
        return model
    worse = has_finding(again.findings, "unexplained-motion", "smooth-residual", "random-forcing")
    return model if worse else again


def _rare_state(data: Sequence[Trajectory]) -> str | None:
    """The state that is rarely measured, if there is one such; None where others are rare, too."""
    seen = np.concatenate([np.isfinite(one.x) for one in data])
    share = seen.sum(axis=0) / max(int(seen.any(axis=1).sum()), 1)
    few = np.flatnonzero(share < _RARE)
    return data[0].states[int(few[0])] if len(few) == 1 and len(share) > 1 else None


def _guesses(request: Request, rare: str) -> list[Floats] | None:
    """(samples,) of the rare state in each trajectory, from the law of a hidden one in its place."""
    place = request.data[0].states.index(rare)
    others = [k for k in range(request.data[0].dimension) if k != place]
    states = tuple(request.data[0].states[k] for k in others)
    without = [replace(one, x=one.x[:, others], states=states) for one in request.data]
    hidden = identify_with_hidden(replace(request, data=with_hidden(without, (rare,))), (rare,), None, {})
    if hidden is None or hidden.model.fitted is None:
        return None
    found = hidden.model.fitted.states
    tables = [np.column_stack([np.ones(len(found[k])), found[k]]) for k in range(len(without))]
    measured = [one.x[: len(table), place] for one, table in zip(request.data, tables, strict=True)]
    table, samples = np.concatenate(tables), np.concatenate(measured)
    known = np.isfinite(samples) & np.isfinite(table).all(axis=1)
    if known.sum() <= table.shape[1]:
        return None
    weights = np.linalg.lstsq(table[known], samples[known], rcond=1e-10)[0]
    left = samples[known] - table[known] @ weights
    if left.var() > (1 - _BELONGS) * samples[known].var():
        return None
    return [each @ weights for each in tables]


def _with_first_values(record: Record, place: int, guesses: Sequence[Floats], parts: int) -> Record:
    """The record with guesses where the state at a place was not measured."""
    y, missing = record.y.copy(), record.missing[..., place]
    for k, (source, offset) in enumerate(zip(record.source, record.offset, strict=True)):
        guess = guesses[int(source)]
        at = int(offset) + np.arange(y.shape[1]) / max(parts, 1)
        values = np.interp(at, np.arange(len(guess)), guess)
        y[k, :, place] = np.where(missing[k], values, y[k, :, place])
    return replace(record, y=y)
