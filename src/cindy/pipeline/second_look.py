"""A second look: the search once more where the noise, or the motion, is not as was assumed.

The first search takes the noise for white, of one size a state, and without outliers. Its model tells whether
that holds; where it does not, each measurement counts by its own noise, or terms must matter beside an error
that is no noise at all.

Noise with memory, as filters, averages and drifting sensors make it, looks to white noise like a law that is
inexact. So both hypotheses are tried (`_instrument_before_law`):

1. the law is inexact and the noise white: the search as it was;
2. the law is exact and the noise has a memory: the model error is held negligible, states are solutions of
   the law, and a term of equation j must be worth κ_j times its price, κ_j the autocorrelation time of what
   equation j leaves. Estimates stay consistent for any noise that does not depend on the motion; κ is found
   by repeating the search until it stays.

They are compared by −2 log p with an autoregressive process on what each leaves (`autoregression`). A random
walk must leave white rows, though, as kicked motion does. Where it does not, as with drifts and splines
whose high frequencies carry nothing, the first hypothesis fails too, and a law that the data follow wins.

Kicks (`with_kicks`): the search takes what a law leaves for a kick of its own in every row. Real kicks act
between the samples too, may depend on the state and may come together: the rows get the covariance that such
kicks have (`Forcing`), and the search goes on from where it ended.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace

import numpy as np

from cindy._arrays import Floats
from cindy.basis import listed, pretty
from cindy.findings import Finding, has_finding
from cindy.model import Model
from cindy.pipeline.models_met import Met, Search
from cindy.pipeline.passes import NEAR, Found, search
from cindy.pipeline.request import Options
from cindy.selection import EFFORT
from cindy.states import (
    Fitted,
    Kicks,
    Motion,
    autoregression,
    doubted,
    estimate_kicks,
    growing,
    kicked_everywhere,
    kicked_rates,
    leaves_noise,
    sensor_memory,
    without_outliers,
)

__all__ = ["Look", "forced", "second_look", "walk_of", "whole_criterion", "with_kicks"]

_SMOOTH = Finding(
    "smooth-residual",
    "What these equations leave unexplained is not noise but smooth, as from the tolerance of a solver, a "
    "filter or a missing term: only terms that matter more than it were kept.",
)


_INEXACT = 1e-2
"""Model error from one sample to the next, in units of σ², beyond which the law may be inexact: the share
that is told. Not varied yet; `python -m benchmarks wrong_noise` can tell."""
_ROUNDS = 4
"""Searches with the memory that the last one found; a bound on work."""
_LONGER = 1.2
"""A memory that is not longer than this times the last is the same. Not varied yet."""
_TOLD = 1.5
"""Samples from which a memory is told of."""
_BEYOND, _SHARE = 3.0, 0.2
"""Standard errors beyond the usual ones that a term must have, and the share of what is left of its equation
that makes up for them. Filters and averages bend the motion itself, and false terms that mend that reach 5 to
6.1 standard errors, memory allowed for, and 0.07 to 0.12 of what is left; true terms beside them 9 and more,
beside slow drifts fewer, but more than all that is left (benchmark: wrong_noise)."""
_FOLLOWED, _DOUBTFUL = 0.4, 0.2
"""What is left, in units of the spread, up to which data follow a law whose states are its solutions, and
beyond which that is doubted. Noise of 10 % stays well below the second, random walks reach 0.5 and more
(benchmarks: wrong_noise, honesty); two cascaded tanks of which one is seen leave 0.35."""
_FEW = 10
"""Independent values of what is left, of a state, below which a drift looks like a missing term. Not varied;
with it 10 of 144 right laws are doubted (benchmark: wrong_noise)."""


@dataclass(frozen=True, eq=False)
class Look:
    """What was found in a motion, and what there is to say about the measurements.

    usual: the options without what noise with memory adds to the price of a term; None: those of the search
    """

    motion: Motion
    found: Found | None
    findings: tuple[Finding, ...] = ()
    usual: Options | None = None

    def again(self, motion: Motion, variance: Floats, finding: Finding) -> Look:
        """The search once more, from where it ended."""
        assert self.found is not None
        found = search(motion, self.found.options, variance, self.found.best.fitted) or self.found
        return Look(motion, found, (*self.findings, finding))


def second_look(first: Look, variance: Floats) -> Look:
    """What is found when the measurements are taken for what they are."""
    if first.found is None or not len(first.found.best.support):
        return first
    if first.found.options.likely is not None:
        return replace(first, findings=(*first.findings, _SMOOTH))
    fitted = first.found.best.fitted
    # Where the law is wrong by more than the noise, it cannot judge the measurements.
    wrong = bool(np.any(fitted.error * first.motion.step > fitted.variance))
    # Nor do errors of rounding have a size of their own.
    exact = bool(np.all(fitted.variance < 10.0 * first.motion.floor))
    look = first if wrong or exact else _each_by_its_own(first, variance)
    assert look.found is not None
    if leaves_noise(look.motion, look.found.best.fitted):
        return _instrument_before_law(look, variance)
    resolved = first.found.options.resolved(first.motion.rows // first.motion.states)
    found = search(first.motion, resolved, variance, known=first.found.best)
    if found is None or not len(found.best.support):
        return look
    return Look(first.motion, found, (*first.findings, _SMOOTH))


def _each_by_its_own(look: Look, variance: Floats) -> Look:
    """Measurements weighted by their noise: what grows with the state, outliers, unequal trajectories."""
    assert look.found is not None
    uneven, which = growing(look.motion, look.found.best.fitted)
    if which:
        names = listed([look.motion.variables[j] for j in which])
        message = f"The noise of {names} grows with the state; each measurement is weighted by its own noise."
        states = [look.motion.variables[j] for j in which]
        look = look.again(uneven, variance, Finding("growing-noise", message, {"states": states}))
    assert look.found is not None
    clean, count = without_outliers(look.motion, look.found.best.fitted)
    if count:
        message = (
            f"{count} measurement(s) lie more than 6 standard deviations from the fitted states "
            "and were left out as outliers."
        )
        look = look.again(clean, variance, Finding("outliers", message, {"count": count}))
    assert look.found is not None
    unequal = doubted(look.motion, look.found.best.fitted)
    if unequal is not None:
        message = "The trajectories differ in their noise; each is weighted by its own noise."
        look = look.again(unequal, variance, Finding("unequal-noise", message))
    return look


def _instrument_before_law(look: Look, variance: Floats) -> Look:
    """The law exact and noise with memory, where that explains the measurements better."""
    assert look.found is not None
    motion, found = look.motion, look.found
    fitted = found.best.fitted
    inexact = (fitted.error * motion.step > _INEXACT * fitted.variance)[motion.sought]
    white = all(one.white for one in sensor_memory(motion, fitted))
    # Of three states one seems to have a memory by chance in a tenth of short records; the likelihood of an
    # autoregressive process, its order paid for, must say so too.
    if not inexact.any() and (white or autoregression(motion, fitted) >= 0.0):
        return look
    prices = found.options
    # Both readings at the same price of a term, so that only the likelihoods differ.
    least = whole_criterion(motion, found.best, prices)
    # κ and the law depend on each other: the search is repeated until κ no longer grows.
    memory = np.ones(motion.states)
    other: Found | None = None
    for number in range(_ROUNDS):
        here = replace(motion, memory=memory)
        # Nothing is known of the memory at first: every term must be beyond doubt, so that none hides it.
        strict = _beyond_doubt(found.options, here, memory - 1.0 if number else np.ones(motion.states))
        other = _exact_law(here, strict, variance, fitted, other)
        if other is None or not len(other.best.support):
            return look
        criterion = whole_criterion(here, other.best, prices)
        # A longer memory takes terms away: it saves no more than all of them cost.
        if white and criterion - prices.cost(other.best.support) > least:
            return look
        times = np.array([one.time for one in sensor_memory(here, other.best.fitted)])
        # Never shorter than before: the price would oscillate between two laws.
        longer = np.maximum(memory, np.where(motion.measured, times, times[motion.measured].max()))
        if number and (longer <= _LONGER * memory).all():
            break
        memory = longer
    assert other is not None
    left = (np.sqrt(other.best.fitted.variance) / motion.spread)[motion.measured]
    if not (criterion < least or (not white and np.all(left < _FOLLOWED))):
        return look
    told = [motion.variables[j] for j in np.flatnonzero((memory > _TOLD) & motion.measured)]
    if not told:
        return Look(here, other, look.findings, usual=prices)
    message = (
        f"The noise of {listed(told)} is correlated over up to {memory[motion.measured].max():.3g} samples, "
        "as after a filter, an average or in a drifting sensor. CINDy assumes that the equations are exact, "
        "and the standard errors account for the correlation."
    )
    finding = Finding("noise-memory", message, {"states": told, "samples": memory.tolist()})
    findings = (*look.findings, finding, *_doubts(motion, left, memory))
    return Look(here, other, findings, usual=prices)


def _exact_law(
    motion: Motion, options: Options, variance: Floats, first: Fitted, last: Found | None
) -> Found | None:
    """The search with the law held exact, from where the last one ended.

    Its likelihood has many maxima. One that leaves far more than the law of white noise does is contradicted
    by the data, which follow that law more closely: that law is then a start as well, and the better counts.
    """
    found = search(motion, options, variance, None if last is None else last.best.fitted)
    if last is not None or found is None or not len(found.best.support):
        return found
    if not np.any(
        (found.best.fitted.variance > EFFORT.second_look_contradicted * first.variance)[motion.measured]
    ):
        return found
    again = search(motion, options, variance, first)
    if again is None or not len(again.best.support):
        return found
    return min(found, again, key=lambda one: Search(motion, options, rough=variance).rank(one.best))


def _doubts(motion: Motion, left: Floats, memory: Floats) -> Iterator[Finding]:
    """What to say where what is left may be motion and no noise: where it is much, or slow beside the runs.

    left: in units of the spread; memory: in samples, of all states
    """
    values = motion.rows / motion.states / memory[motion.measured]
    names = [
        motion.variables[j] for j in np.flatnonzero(motion.measured)[(left > _DOUBTFUL) | (values < _FEW)]
    ]
    if names:
        yield Finding(
            "unexplained-motion",
            f"The equations leave a slow residual of {listed(names)}, up to {left.max():.2g} of its spread. "
            "A term or a state may be missing, unless the sensor drifts.",
            {"states": names},
        )


def _beyond_doubt(options: Options, motion: Motion, doubt: Floats) -> Options:
    """The same where noise has a memory: a term must be beyond doubt, or matter beside what is left.

    In units of χ² with rows that repeat each other counted once, an equation has rows / κ of them.

    doubt: (states,) samples of memory; what lasts less than one more bends the motion less
    """
    assert motion.memory is not None
    # The χ² of a term that explains this share of what its equation leaves.
    effect = _SHARE * motion.rows / motion.states / motion.memory
    beyond = _BEYOND * np.clip(doubt, 0.0, 1.0)
    price = np.clip(effect, options.price, (np.sqrt(options.price) + beyond) ** 2)
    more = np.tile(price - options.price, len(motion.basis.names(motion.variables)))
    return replace(options, surcharge=more if options.surcharge is None else options.surcharge + more)


def whole_criterion(motion: Motion, met: Met, options: Options) -> float:
    """−2 log p with an autoregressive process on what is left, and the price of the terms."""
    return met.deviance + autoregression(motion, met.fitted) + options.cost(met.support)


def with_kicks(look: Look, variance: Floats) -> tuple[Look, Kicks | None]:
    """What is found when rows are weighed by a diffusion that depends on the state; and the kicks, if any."""
    if look.found is None or has_finding(look.findings, "smooth-residual"):
        return look, None
    best = look.found.best
    if len(best.support):
        kicks, fitted = _kicks(look, best, variance)
    else:
        # A kicked oscillator may be no better than a walk while it is taken for an exact law.
        refused = next((met for met in look.found.met if len(met.support)), None)
        kicks, fitted = (None, best.fitted) if refused is None else _kicks_of_rates(look, refused, variance)
    if kicks is None:
        return look, None
    start = replace(fitted, error=kicks.error, settled=False)
    # Kicks leave white noise, unless the noise beside them has a memory of its own.
    usual = look.found.options if kicks.motion.memory is not None else look.usual
    found = search(kicks.motion, usual or look.found.options, variance, start)
    if found is None or not len(found.best.support):
        return look, kicks if len(best.support) else None
    again = estimate_kicks(kicks.motion, found.best.fitted)
    # Kicks take the place of noise with memory, where that was the reading before.
    findings = tuple(
        one for one in look.findings if one.code != "noise-memory" or kicks.motion.memory is not None
    )
    return replace(look, motion=kicks.motion, found=found, findings=findings), again or kicks


def _kicks(look: Look, law: Met, variance: Floats) -> tuple[Kicks | None, Fitted]:
    """The kicks that drive a law, and the law refitted under kicks of one size."""
    assert look.found is not None
    motion = kicked_everywhere(look.motion, law.fitted)
    if motion is None:
        return _kicks_of_rates(look, law, variance)
    met = Search(motion, look.found.options).fit(replace(law.fitted, settled=False), ())
    return (None, law.fitted) if met is None else (estimate_kicks(motion, met.fitted), met.fitted)


def _kicks_of_rates(look: Look, law: Met, variance: Floats) -> tuple[Kicks | None, Fitted]:
    """The same where rates are kicked and positions alone are measured, if that is the likelier reading."""
    assert look.found is not None
    rates = kicked_rates(look.motion, law.fitted, variance)
    if rates is None:
        return None, law.fitted
    motion, start = rates
    usual = look.usual or look.found.options
    # An exact law needs no damping, a kicked one does: terms are chosen again.
    kicked = search(motion, usual, variance, replace(start, settled=False))
    if kicked is None or not len(kicked.best.support):
        return None, law.fitted
    # What a law leaves that the data do not follow is motion, not noise with a memory.
    best = look.found.best
    left = (np.sqrt(best.fitted.variance) / motion.spread)[motion.measured]
    followed = len(best.support) > 0 and bool(np.all(left < _FOLLOWED))
    exact = best.deviance + usual.cost(best.support)
    if followed:
        exact += autoregression(look.motion, best.fitted)
    if whole_criterion(motion, kicked.best, usual) > exact - NEAR:
        return None, law.fitted
    fitted = kicked.best.fitted
    return estimate_kicks(motion, fitted), fitted


def walk_of(look: Look, variance: Floats) -> str:
    """A sentence on data that are kicked and nothing else; empty where there is more or less to them."""
    if look.found is None or len(look.found.best.support):
        return ""
    kicks, _ = _kicks(look, look.found.best, variance)
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
