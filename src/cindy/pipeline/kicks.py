"""Kicks: what random forces do to the equations that a search found, and what to say of them.

Where the diffusion depends on the state the rows are weighed by it and the search goes on from where it
ended: the terms of the drift are then judged by kicks of the size that they have where they act.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

import numpy as np

from cindy._types import Floats
from cindy.basis import listed, pretty
from cindy.findings import Finding, has_finding
from cindy.model import Model
from cindy.pipeline.passes import search
from cindy.pipeline.second_look import Look
from cindy.states import Kicks, estimate_kicks

__all__ = ["forced", "walk_of", "with_kicks"]

_TOGETHER, _CHANCE = 0.1, 5.0
"""Correlation of kicks that is told, and by how many standard errors, 1/√rows, it must differ from none."""


def with_kicks(look: Look, variance: Floats) -> tuple[Look, Kicks | None]:
    """What is found when rows are weighed by a diffusion that depends on the state; and the kicks, if any."""
    if look.found is None or not len(look.found.best.support):
        return look, None
    if has_finding(look.findings, "smooth-residual"):
        return look, None
    kicks = estimate_kicks(look.motion, look.found.best.fitted)
    if kicks is None or kicks.diffusion.additive:
        return look, kicks
    start = replace(look.found.best.fitted, error=kicks.error, settled=False)
    found = search(kicks.motion, look.found.options, variance, start)
    if found is None or not len(found.best.support):
        return look, kicks
    again = estimate_kicks(look.motion, found.best.fitted)
    return replace(look, motion=kicks.motion, found=found), again or kicks


def walk_of(look: Look) -> str:
    """A sentence on data that are kicked and nothing else; empty where there is more or less to them."""
    if look.found is None or len(look.found.best.support):
        return ""
    kicks = estimate_kicks(look.motion, look.found.best.fitted)
    if kicks is None:
        return ""
    motion, kicked = look.motion, kicks.diffusion.coef.any(axis=0)
    sizes = [f"{kicks.error[j]:.3g} ({pretty(motion.variables[j])})" for j in motion.sought[kicked]]
    return (
        "As far as these data tell, the states are moved by random kicks alone, of variance "
        f"{', '.join(sizes)} per unit of time."
    )


def forced(model: Model, kicks: Kicks | None, rows: int) -> Model:
    """The model with its diffusion, and what to say of it in the place of motion that no term explains."""
    if kicks is None:
        return model
    diffusion = kicks.diffusion
    names = [state for state, column in zip(model.states, diffusion.coef.T, strict=True) if column.any()]
    rest = [
        one
        for one in model.findings
        if one.code != "unexplained-motion" or set(one.values["states"]) - set(names)
    ]
    told = Finding(
        "random-forcing",
        f"Random kicks drive {listed([pretty(name) for name in names])}. The equations give the drift, "
        "`diffusion` the variance of the kicks per unit of time. Solutions without kicks follow the data "
        "only for a short while; simulate(noise=True) draws paths with them.",
        {"states": names},
    )
    error = np.sqrt(kicks.error[len(kicks.error) - len(model.states) :])
    return replace(
        model,
        diffusion=diffusion,
        model_error=np.where(diffusion.coef.any(axis=0), error, model.model_error),
        findings=(told, *_together(model, kicks, rows), *rest),
    )


def _together(model: Model, kicks: Kicks, rows: int) -> Iterator[Finding]:
    """Kicks of two equations that come together."""
    kicked = np.flatnonzero(kicks.diffusion.coef.any(axis=0))
    least = max(_TOGETHER, _CHANCE / np.sqrt(max(rows // len(model.states), 1)))
    for i in kicked:
        for j in kicked[kicked > i]:
            value = float(kicks.correlation[i, j])
            if abs(value) > least:
                pair = [model.states[i], model.states[j]]
                yield Finding(
                    "correlated-kicks",
                    f"The kicks of {pretty(pair[0])} and {pretty(pair[1])} are correlated ({value:.2f}): one "
                    "force may drive both. They were taken for independent, which biases the drift.",
                    {"states": pair, "correlation": value},
                )
