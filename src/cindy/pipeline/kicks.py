"""Kicks: what random forces do to the equations that a search found, and what to say of them.

The search takes what a law leaves for a kick of its own in every row. Where it is kicks, they act between the
samples too, may depend on the state and may come together: the rows get the covariance that such kicks have
(`Forcing`), and the search goes on from where it ended.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

import numpy as np

from cindy._arrays import Floats
from cindy.basis import listed, pretty
from cindy.findings import Finding, has_finding
from cindy.model import Model
from cindy.pipeline.models_met import Search
from cindy.pipeline.passes import NEAR, search
from cindy.pipeline.second_look import Look, whole_criterion
from cindy.states import Fitted, Kicks, estimate_kicks, kicked_everywhere, kicked_rates

__all__ = ["forced", "walk_of", "with_kicks"]


def with_kicks(look: Look, variance: Floats) -> tuple[Look, Kicks | None]:
    """What is found when rows are weighed by a diffusion that depends on the state; and the kicks, if any."""
    if look.found is None or not len(look.found.best.support):
        return look, None
    if has_finding(look.findings, "smooth-residual"):
        return look, None
    kicks, fitted = _kicks(look, variance)
    if kicks is None:
        return look, None
    start = replace(fitted, error=kicks.error, settled=False)
    found = search(kicks.motion, look.found.options, variance, start)
    if found is None or not len(found.best.support):
        return look, kicks
    again = estimate_kicks(kicks.motion, found.best.fitted)
    # Kicks take the place of noise with memory, where that was the reading before.
    findings = tuple(
        one for one in look.findings if one.code != "noise-memory" or kicks.motion.memory is not None
    )
    return replace(look, motion=kicks.motion, found=found, findings=findings), again or kicks


def _kicks(look: Look, variance: Floats) -> tuple[Kicks | None, Fitted]:
    """The kicks that drive the best law, and the law refitted under kicks of one size."""
    assert look.found is not None
    best, options = look.found.best, look.found.options
    motion, met = kicked_everywhere(look.motion, best.fitted), None
    if motion is not None:
        met = Search(motion, options).fit(replace(best.fitted, settled=False), ())
    elif (rates := kicked_rates(look.motion, best.fitted, variance)) is not None:
        motion, start = rates
        met = Search(motion, options).fit(replace(start, settled=False), ())
        least = whole_criterion(look.motion, best, options) - NEAR
        if met is not None and whole_criterion(motion, met, options) > least:
            met = None
    if motion is None or met is None:
        return None, best.fitted
    return estimate_kicks(motion, met.fitted), met.fitted


def walk_of(look: Look, variance: Floats) -> str:
    """A sentence on data that are kicked and nothing else; empty where there is more or less to them."""
    if look.found is None or len(look.found.best.support):
        return ""
    kicks, _ = _kicks(look, variance)
    if kicks is None:
        return ""
    motion, kicked = look.motion, kicks.diffusion.coef.any(axis=0)
    sizes = [f"{kicks.error[j]:.3g} ({pretty(motion.variables[j])})" for j in motion.sought[kicked]]
    return (
        "As far as these data tell, the states are moved by random kicks alone, of variance "
        f"{', '.join(sizes)} per unit of time."
    )


def forced(model: Model, kicks: Kicks | None) -> Model:
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
        findings=(told, *_together(model, kicks), *rest),
    )


def _together(model: Model, kicks: Kicks) -> Iterator[Finding]:
    """Kicks of two equations that come together."""
    together = kicks.diffusion.correlation
    if together is None:
        return
    for i, j in np.argwhere(np.triu(together, 1)):
        pair, value = [model.states[i], model.states[j]], float(together[i, j])
        yield Finding(
            "correlated-kicks",
            f"The kicks of {pretty(pair[0])} and {pretty(pair[1])} are correlated ({value:.2f}): one force "
            "may drive both. The model has the correlation, and simulate(noise=True) draws it.",
            {"states": pair, "correlation": value},
        )
