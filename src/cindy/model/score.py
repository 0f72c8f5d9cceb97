"""How much of some data a model explains, by its equations, its trajectories or its derivatives."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np

from cindy._check import integer
from cindy._types import Floats
from cindy.calculus import derivative
from cindy.data import Trajectory
from cindy.errors import DataError
from cindy.formulation import Differential, Formulation
from cindy.model.domain import inside_domain
from cindy.model.equations import Equations
from cindy.model.field_comparison import score_fields
from cindy.model.solution import solutions
from cindy.model.unmeasured import matched

__all__ = ["KINDS", "score"]

Compared = tuple[Floats, Floats]

KINDS = ("equation", "trajectory", "derivative")


def score(model: Equations, trajectories: Any, kind: str = "equation", *, window: int | None = None) -> float:
    """R², the mean over the states; see `Model.score`."""
    if kind not in KINDS:
        raise DataError(f"score: `kind` must be one of {', '.join(KINDS)}, but is {kind!r}.")
    if model.formulation.for_fields:
        return score_fields(model, trajectories, kind, window=window)
    data = inside_domain(model, matched(model, trajectories, "score"))[0]
    if kind == "trajectory":
        pairs = list(_solutions(model, data, window))
    elif kind == "derivative" and model.formulation.discrete:
        raise DataError('score: a discrete model has no derivatives. Use kind="equation".')
    else:
        form = model.formulation if kind == "equation" else Differential(order=model.order)
        compared = _slopes if kind == "derivative" and model.rates else _rows
        pairs = list(compared(model, data, form.fit_to(data).unweighted()))
    if not pairs:
        raise DataError("score: no trajectory has enough complete samples in a row to be compared.")
    # The integral form has taken the unknown initial state out already: there is no mean left to take out.
    centred = not (kind == "equation" and model.formulation.integrates)
    return _determination(*(np.concatenate(parts) for parts in zip(*pairs, strict=True)), centred=centred)


def _rows(model: Equations, data: list[Trajectory], form: Formulation) -> Iterator[Compared]:
    """(what the data say, what the equations say), for each stretch without gaps."""
    for segment in (part for one in data for part in one.segments()):
        if len(segment) >= form.min_samples:
            yield form.compared(segment, model.basis, model.coef)


def _slopes(model: Equations, data: list[Trajectory], form: Formulation) -> Iterator[Compared]:
    """The same for derivatives where terms hold rates: those are estimated as the derivatives are."""
    settings = form.to_dict()
    how = {"degree": settings["degree"], "half_width": settings["half_width"]}
    for segment in (part for one in data for part in one.segments()):
        if len(segment) >= form.min_samples:
            rates, slopes = (
                derivative(segment.t, segment.x, 0, len(segment), order=k, **how) for k in (1, 2)
            )
            yield slopes, model.predict(np.hstack([segment.x, rates]), segment.u)


def _solutions(model: Equations, data: list[Trajectory], window: int | None) -> Iterator[Compared]:
    """(measured, simulated) states; those after a blow-up are NaN."""
    if window is not None:
        integer(window, "score: `window`", least=2)
    for one in solutions(model, data, window=window):
        simulated = np.full(one.measured.x.shape, np.nan)
        simulated[: len(one.simulated)] = one.simulated.x
        yield np.asarray(one.measured.x), simulated


def _determination(measured: Floats, modelled: Floats, *, centred: bool) -> float:
    if not np.all(np.isfinite(modelled)):
        return -np.inf
    spread = measured - measured.mean(axis=0) if centred else measured
    total = np.sum(spread**2, axis=0)
    rest = np.sum((measured - modelled) ** 2, axis=0)
    # A state that does not vary is explained if the model says so too, up to rounding.
    exact = rest <= 1e-24 * np.sum(measured**2, axis=0)
    ratio = np.divide(rest, total, out=np.ones(len(rest)), where=total > 0)
    return float(np.mean(np.where(exact, 1.0, 1.0 - ratio)))
