"""Backward elimination: the order in which terms can be spared."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace

import numpy as np

from cindy._types import Floats, Ints
from cindy.regression import Descent, Regression

__all__ = ["Stage", "Trail", "eliminate"]


_HOPELESS = 0.5
"""Terms this far below their standard error may leave together; with 2 no search of the benchmark
`constants` fails."""
_AT_ONCE = 0.1
"""Share of the terms that may leave together; with 0.5 no search of the benchmark `constants` fails."""
_REFRESH = 12
"""Rounds of updates, at least, after which rounding is cleared away by a new factorisation."""


@dataclass(frozen=True, eq=False)
class Stage:
    """One support on the way down; loss: in units of the noise; free: parameters."""

    support: Ints
    loss: float
    free: int


@dataclass(frozen=True, eq=False)
class Trail:
    """The way down of one group of targets.

    stages: from the start to the empty support
    order: flat indices as they left, the last the most important
    strength: |t| at which each left, by errors that take rows as independent; never falling
    """

    targets: Ints
    stages: tuple[Stage, ...]
    order: Ints
    strength: Floats

    def named(self, names: Callable[[Ints], Ints], targets: Ints) -> Trail:
        """The same in the names of a larger regression."""
        stages = tuple(replace(stage, support=names(stage.support)) for stage in self.stages)
        return Trail(targets, stages, names(self.order), self.strength)


def eliminate(regression: Regression, starts: list[Ints]) -> list[Trail]:
    """The trail of every group, from its start (flat indices) down to nothing."""
    return [_down(regression, g, start) for g, start in zip(regression.groups, starts, strict=True)]


def _down(regression: Regression, group: Ints, start: Ints) -> Trail:
    d = Descent(group, regression.fit(start, group))
    rows = regression.total.rows * len(group)
    stages, strength = [Stage(d.support, d.loss, d.free)], []
    while len(d.support):
        # The order follows the loss alone: with more terms than blocks, errors clustered by
        # block are too uncertain to rank single terms by.
        error = np.sqrt(d.variance * (d.loss / max(rows - d.free, 1)))
        t = np.full(len(error), np.inf)
        np.divide(np.abs(d.x), error, out=t, where=error > 0)
        if np.isinf(t).all():
            break
        out = _weakest(t)
        before = len(d.order)
        d.leave(out)
        strength += [float(t[out].max())] * (len(d.order) - before)
        if d.age >= max(_REFRESH, len(d.support) // 10) and len(d.support):
            d.take(regression.fit(d.support, group))
        stages.append(Stage(d.support, d.loss, d.free))
    never_falling = np.maximum.accumulate(np.array(strength)) if strength else np.zeros(0)
    return Trail(group, tuple(stages), np.array(d.order, dtype=np.intp), never_falling)


def _weakest(t: Floats) -> Ints:
    hopeless = int((t < _HOPELESS).sum())
    count = max(1, min(hopeless, int(_AT_ONCE * len(t))))
    return np.argsort(t, kind="stable")[:count]
