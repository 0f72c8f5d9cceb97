"""A second look: the search is repeated where the noise, or the motion, is not what the first search assumed.

The first search assumes white noise of one size for each state, without outliers. Its residuals tell whether
that holds. Where it does not, measurements are weighted by their own noise (`each_by_its_own`); where the
residual is smooth and no noise at all, a term must have an effect larger than that residual.

Filters, averages and drifting sensors give noise a memory. To a search that assumes white noise this looks
like a law that is inexact. So two hypotheses are compared (`_instrument_before_law`):

1. The law is inexact and the noise is white. This is the first search.
2. The law is exact and the noise has a memory. The model error is held negligible, so that the states are
   solutions of the law, and a term of equation j must be worth κ_j times its price, where κ_j is the
   autocorrelation time of the residual of equation j. Estimates are consistent for any noise that does not
   depend on the motion. κ depends on the law, so the search is repeated until κ no longer grows.

The criterion of the comparison is −2 log p with an autoregressive process for the residual of each
(`autoregression`). The first hypothesis must also leave white rows, as randomly kicked motion does. With
drifts, and with splines whose high frequencies hold no information, it does not; then the second hypothesis
is taken if its solutions follow the data.

Kicks (`with_kicks`): the search treats the residual of a law as one independent kick in every row. Real kicks
act between the samples too, may depend on the state and may be correlated. The rows then get the covariance
of such kicks (`Forcing`), and the search continues from its last model.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace

import numpy as np

from cindy._arrays import Floats
from cindy._check import counted
from cindy.basis import Polynomial, listed, pretty
from cindy.findings import Finding, has_finding
from cindy.model import Model, unmeasured
from cindy.search.beside_the_law import beside_terms
from cindy.search.loop import Met, Search
from cindy.search.request import Options
from cindy.search.starts import NEAR, Found, search
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
    leaves_little,
    leaves_noise,
    sensor_memory,
    without_outliers,
)

_SMOOTH = Finding(
    "smooth-residual",
    "The residuals of these equations are not noise but smooth, as the tolerance of a solver, a filter or a "
    "missing term makes them. Only terms that explain more than they do were kept.",
)
_TINY = Finding(
    "tiny-residual",
    "The residuals of these equations are as small as errors of a computation, such as the tolerance of a "
    "solver. Only terms that explain more than they do were kept.",
)

_INEXACT = 1e-2
"""Model error from one sample to the next, in units of σ², beyond which the law may be inexact: the share
that the model reports. Not varied yet; `python -m benchmarks wrong_noise` can tell."""
_ROUNDS = 4
"""Searches, each with the memory that the one before found: a bound on work."""
_LONGER = 1.2
"""Growth of the memory below which it counts as unchanged. Not varied yet."""
_REPORTED = 1.5
"""Samples of memory beyond which a finding reports it."""
_BEYOND, _SHARE = 3.0, 0.2
"""Standard errors that a term needs beyond the usual number, and the effect, as a share of the residual of
its equation, that replaces them. Filters and averages distort the motion itself. False terms that correct
for this reach 5 to 6.1 standard errors, with memory allowed for, and an effect of 0.07 to 0.12 of the
residual. True terms reach 9 standard errors and more; beside slow drifts fewer, but then their effect exceeds
the whole residual (benchmark: wrong_noise)."""
_FOLLOWED, _DOUBTFUL = 0.4, 0.2
"""Residual of the solutions, in units of the spread of the data: up to the first the data follow the law, and
beyond the second a finding doubts it. Noise of 10 % stays well below the second, random walks reach 0.5 and
more (benchmarks: wrong_noise, honesty); two cascaded tanks of which one is measured leave 0.35."""
_FEW = 10
"""Independent values in the residual of a state below which a drift cannot be told from a missing term. Not
varied; with it 10 of 144 right laws are doubted (benchmark: wrong_noise)."""


@dataclass(frozen=True, eq=False)
class Look:
    """The result of a search, the motion that was searched, and findings about the measurements.

    usual: the options without the surcharge that noise with memory puts on the price of a term; None where
        there is none
    """

    motion: Motion
    found: Found | None
    findings: tuple[Finding, ...] = ()
    usual: Options | None = None

    def again(self, motion: Motion, variance: Floats, finding: Finding) -> Look:
        """The same search on another motion, started at the last model."""
        assert self.found is not None
        found = search(motion, self.found.options, variance, self.found.best.fitted) or self.found
        return Look(motion, found, (*self.findings, finding))


def look_again(first: Look, variance: Floats) -> Look:
    """The search repeated with the noise that the first model's residuals show, where that is needed."""
    if first.found is None or not len(first.found.best.support):
        return first
    if first.found.options.likely is not None:
        return _resolved(first, replace(first.motion, forgetful=True), first.found)
    look = each_by_its_own(first, variance)
    assert look.found is not None
    if leaves_noise(look.motion, look.found.best.fitted):
        return _instrument_before_law(look, variance)
    resolved = first.found.options.resolved(first.motion.rows // first.motion.states)
    motion = replace(first.motion, forgetful=True)
    found = search(motion, resolved, variance, known=first.found.best)
    if found is None or not len(found.best.support):
        return look
    return _resolved(first, motion, found)


def _resolved(first: Look, motion: Motion, found: Found) -> Look:
    """The result of a search in which terms had to matter beside the residual, and the finding on that."""
    finding = _TINY if leaves_little(motion, found.best.fitted) else _SMOOTH
    return Look(motion, found, (*first.findings, finding))


def each_by_its_own(look: Look, variance: Floats) -> Look:
    """Each measurement weighted by its noise: it may grow with the state or differ between trajectories."""
    assert look.found is not None
    motion, fitted = look.motion, look.found.best.fitted
    # Where the law is wrong by more than the noise, it cannot judge the measurements.
    wrong = bool(np.any(fitted.error * motion.step > fitted.variance))
    # Rounding errors have no size that could be estimated.
    exact = bool(np.all((fitted.variance < 10.0 * motion.floor)[motion.measured]))
    if wrong or exact:
        return look
    # Outliers bend the states beside them, so that noise is compared at states without them.
    clean = _left_out(look, variance)
    assert clean.found is not None
    uneven, causes = growing(motion, clean.found.best.fitted)
    if causes:
        how = {
            "state": "with the state",
            "later": "along the runs",
            "sooner": "towards the start of the runs",
        }
        states = {name: [motion.variables[j] for j in which] for name, which in causes.items()}
        grows = [f"The noise of {listed(names)} grows {how[name]}." for name, names in states.items()]
        message = " ".join([*grows, "Each measurement is weighted by its own noise."])
        told = Finding("growing-noise", message, {"states": states})
        # What was an outlier in noise of one size may be none now.
        clean = _left_out(replace(clean, findings=look.findings).again(uneven, variance, told), variance)
    look = clean
    assert look.found is not None
    unequal = doubted(look.motion, look.found.best.fitted)
    if unequal is not None:
        message = "The trajectories differ in their noise; each is weighted by its own noise."
        look = look.again(unequal, variance, Finding("unequal-noise", message))
    return look


def _left_out(look: Look, variance: Floats) -> Look:
    """The search without outliers, where there are any."""
    assert look.found is not None
    clean, count = without_outliers(look.motion, look.found.best.fitted)
    if not count:
        return look
    left_out = "was left out as an outlier" if count == 1 else "were left out as outliers"
    message = (
        f"{counted(count, 'measurement')} more than 6 standard deviations from the fitted states {left_out}."
    )
    return look.again(clean, variance, Finding("outliers", message, {"count": count}))


def _instrument_before_law(look: Look, variance: Floats) -> Look:
    """The model of an exact law and noise with memory, where it explains the measurements better."""
    assert look.found is not None
    motion, found = look.motion, look.found
    fitted = found.best.fitted
    inexact = (fitted.error * motion.step > _INEXACT * fitted.variance)[motion.sought]
    white = all(sensor.white for sensor in sensor_memory(motion, fitted))
    # In a tenth of short records with three states one residual looks correlated by chance. The likelihood of
    # an autoregressive process, with a price for its order, must agree.
    if not inexact.any() and (white or autoregression(motion, fitted) >= 0.0):
        return look
    prices = found.options
    # Both hypotheses are judged at the same price of a term, so that only the likelihoods differ.
    least = _whole_criterion(motion, found.best, prices)
    # κ and the law depend on each other: the search is repeated until κ no longer grows.
    memory = np.ones(motion.states)
    other: Found | None = None
    for number in range(_ROUNDS):
        remembering = replace(motion, memory=memory)
        # At first the memory is unknown: every term must be beyond doubt, lest false ones explain the memory.
        strict = _beyond_doubt(found.options, remembering, memory - 1.0 if number else np.ones(motion.states))
        other = _exact_law(remembering, strict, variance, fitted, other)
        if other is None or not len(other.best.support):
            return look
        criterion = _whole_criterion(remembering, other.best, prices)
        # A longer memory removes terms. That saves at most the price of all of them.
        if white and criterion - prices.cost(other.best.support) > least:
            return look
        times = np.array([sensor.time for sensor in sensor_memory(remembering, other.best.fitted)])
        # The memory only grows, or the search would oscillate between two laws.
        longer = np.maximum(memory, np.where(motion.measured, times, times[motion.measured].max()))
        if number and (longer <= _LONGER * memory).all():
            break
        memory = longer
    assert other is not None
    left = (np.sqrt(other.best.fitted.variance) / motion.spread)[motion.measured]
    if not (criterion < least or (not white and np.all(left < _FOLLOWED))):
        return look
    correlated = [motion.variables[j] for j in np.flatnonzero((memory > _REPORTED) & motion.measured)]
    if not correlated:
        return Look(remembering, other, look.findings, usual=prices)
    doubts = tuple(_doubts(motion, left, memory))
    message = (
        f"The noise of {listed(correlated)} is correlated over up to {memory[motion.measured].max():.3g} "
        "samples, as after a filter, an average or in a drifting sensor. CINDy assumes that the "
        "equations are exact, and the standard errors account for the correlation."
    )
    if not doubts:
        message += f" If no instrument does so, a term or a state is missing: {_to_offer(motion)}."
    finding = Finding("noise-memory", message, {"states": correlated, "samples": memory.tolist()})
    findings = (*look.findings, finding, *doubts)
    return Look(remembering, other, findings, usual=prices)


def _exact_law(
    motion: Motion, options: Options, variance: Floats, first: Fitted, last: Found | None
) -> Found | None:
    """The search for an exact law, started at the last one.

    The likelihood of an exact law has many maxima. Where the residual of the result is far larger than that
    of the first model, the data contradict the result, as they do follow the first model more closely. Then
    the search is repeated from the first model, and the better result is taken.

    first: the first model; last: the result of the round before
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
    return min(found, again, key=lambda result: Search(motion, options, rough=variance).rank(result.best))


def _doubts(motion: Motion, left: Floats, memory: Floats) -> Iterator[Finding]:
    """A finding where the residual may be motion and no noise: it is large, or slow compared with the runs.

    left: (measured states,) size of the residual in units of the spread; memory: (states,) in samples
    """
    values = motion.rows / motion.states / memory[motion.measured]
    names = [
        motion.variables[j] for j in np.flatnonzero(motion.measured)[(left > _DOUBTFUL) | (values < _FEW)]
    ]
    if names:
        yield Finding(
            "unexplained-motion",
            f"The equations leave a slow residual of {listed(names)}, up to {left.max():.2g} of its spread. "
            f"A term or a state may be missing, unless the sensor drifts: {_to_offer(motion)}.",
            {"states": names},
        )


def _to_offer(motion: Motion) -> str:
    """What may explain a residual that is no noise."""
    # Rates are hidden states already, and maps have none.
    if len(motion.given) or not motion.parts:
        return "offer other terms"
    return "offer other terms, or a state that nobody measured, with `hidden=1`"


def _beyond_doubt(options: Options, motion: Motion, doubt: Floats) -> Options:
    """Options with a surcharge: a term must be more significant, or have an effect that its residual shows.

    The surcharge is in units of χ² in which an equation has rows / κ independent rows.

    doubt: (states,) samples of memory beyond the first; below one sample the surcharge is less
    """
    assert motion.memory is not None
    # The χ² of a term whose effect is this share of the residual of its equation.
    effect = _SHARE * motion.rows / motion.states / motion.memory
    beyond = _BEYOND * np.clip(doubt, 0.0, 1.0)
    price = np.clip(effect, options.price, (np.sqrt(options.price) + beyond) ** 2)
    more = np.tile(price - options.price, len(motion.basis.names(motion.variables)))
    return replace(options, surcharge=more if options.surcharge is None else options.surcharge + more)


def _whole_criterion(motion: Motion, met: Met, options: Options) -> float:
    """−2 log p with an autoregressive process for the residual, and the price of the terms."""
    return met.deviance + autoregression(motion, met.fitted) + options.cost(met.support)


def with_kicks(look: Look, variance: Floats) -> tuple[Look, Kicks | None]:
    """The search repeated with rows weighted by a diffusion, which may depend on the state; and the kicks."""
    if look.found is None or has_finding(look.findings, "smooth-residual", "tiny-residual"):
        return look, None
    best = look.found.best
    # An oscillator that is kicked may be no better than a random walk as long as its law counts as exact.
    refused = next((met for met in look.found.met if len(met.support)), None)
    if len(best.support):
        kicks = _kicks(look, best, variance)
    else:
        kicks = None if refused is None else _kicks_of_rates(look, refused, variance)
    if kicks is None:
        return look, None
    start = replace(kicks.fitted, settled=False)
    # Beside kicks the noise is white, unless it has a memory of its own.
    usual = look.found.options if kicks.motion.memory is not None else look.usual
    found = search(kicks.motion, usual or look.found.options, variance, start)
    if found is None or not len(found.best.support):
        return look, kicks if len(best.support) else None
    again = estimate_kicks(kicks.motion, found.best.fitted)
    # Kicks replace noise with memory as the explanation of the residual.
    findings = tuple(
        finding
        for finding in look.findings
        if finding.code != "noise-memory" or kicks.motion.memory is not None
    )
    return replace(look, motion=kicks.motion, found=found, findings=findings), again or kicks


def _kicks(look: Look, law: Met, variance: Floats) -> Kicks | None:
    """The kicks that drive a law, which is refitted beside kicks of one size; None where there are none."""
    assert look.found is not None
    motion = kicked_everywhere(look.motion, law.fitted)
    if motion is None:
        return _kicks_of_rates(look, law, variance)
    # The rates are uncertain by their whole spread, however precisely the positions are measured.
    noise = np.where(motion.measured, law.fitted.variance, motion.spread**2)
    met = Search(motion, look.found.options).fit(replace(law.fitted, variance=noise, settled=False), ())
    return None if met is None else estimate_kicks(motion, met.fitted)


def _kicks_of_rates(look: Look, law: Met, variance: Floats) -> Kicks | None:
    """The same where rates are kicked and only positions are measured, if that hypothesis is likelier."""
    assert look.found is not None
    rates = kicked_rates(look.motion, law.fitted, variance)
    if rates is None:
        return None
    motion, start = rates
    usual = look.usual or look.found.options
    # Terms are chosen again: kicked motion needs a damping that an exact law does without.
    kicked = search(motion, usual, variance, replace(start, settled=False))
    if kicked is None or not len(kicked.best.support):
        return None
    # If the data do not follow the law, its residual is motion and gets no credit as noise with memory.
    best = look.found.best
    left = (np.sqrt(best.fitted.variance) / motion.spread)[motion.measured]
    followed = len(best.support) > 0 and bool(np.all(left < _FOLLOWED))
    exact = best.deviance + usual.cost(best.support)
    if followed:
        exact += autoregression(look.motion, best.fitted)
    if _whole_criterion(motion, kicked.best, usual) > exact - NEAR:
        return None
    return estimate_kicks(motion, kicked.best.fitted)


def walk_of(look: Look, variance: Floats) -> str:
    """A sentence for data that random kicks alone explain; empty for others."""
    if look.found is None or len(look.found.best.support):
        return ""
    kicks = _kicks(look, look.found.best, variance)
    if kicks is None:
        return ""
    motion, kicked = look.motion, kicks.diffusion.coef.any(axis=0)
    sizes = [f"{kicks.fitted.error[j]:.3g} ({pretty(motion.variables[j])})" for j in motion.sought[kicked]]
    return (
        "As far as these data tell, the states are moved by random kicks alone, of variance "
        f"{', '.join(sizes)} per unit of time."
    )


def forced(model: Model, kicks: Kicks | None, price: float) -> Model:
    """The model with its diffusion; the finding on kicks replaces the one on unexplained motion.

    price: of a term
    """
    if kicks is None:
        return model
    diffusion = kicks.diffusion
    names = [state for state, column in zip(model.states, diffusion.coef.T, strict=True) if column.any()]
    rest = [
        finding
        for finding in model.findings
        if finding.code != "unexplained-motion" or set(finding.values["states"]) - set(names)
    ]
    lacking = tuple(_followed(kicks, price))
    # Kicks that follow the states are a missing term: the model has them, but they do not drive the motion.
    moved = dict(zip(model.states, (kicks.motion.variables[j] for j in kicks.motion.sought), strict=True))
    following = {finding.values["state"] for finding in lacking}
    follow = [name for name in names if moved[name] in following]
    random = [name for name in names if name not in follow]
    driven = f"Random kicks drive {listed([pretty(name) for name in random])}. " if random else ""
    taken = f"What the law of {listed([pretty(name) for name in follow])} lacks is taken for random kicks. "
    kicked = Finding(
        "random-forcing",
        f"{driven}{taken if follow else ''}The equations give the drift, `diffusion` the variance of the "
        "kicks per unit of time. Solutions without kicks follow the data only for a short while; "
        "`simulate(noise=True)` draws paths with them.",
        {"states": names},
    )
    error = np.sqrt(kicks.fitted.error[-len(model.states) :])
    return replace(
        model,
        diffusion=diffusion,
        model_error=np.where(diffusion.coef.any(axis=0), error, model.model_error),
        findings=(*lacking, kicked, *_together(model, kicks), *rest),
    )


def _followed(kicks: Kicks, price: float) -> Iterator[Finding]:
    """A finding for each equation whose kicks follow the states before them: the law lacks a term.

    Random kicks are independent of the state before them. So χ² falls by chance alone where the law gets one
    more term that the basis lacks (Ramsey, J. R. Stat. Soc. B 31, 1969): a power or product of a degree that
    is one higher, and at least three. A pendulum without its sine, or drag without its square, is then worth
    17 to 56 beyond the price of a term; none of 49 kicked motions has the finding (benchmark: kicks).
    """
    motion, fitted = kicks.motion, kicks.fitted
    powers = [
        sum(factor.power for factor in term if factor.kind == "variable")
        for term in motion.basis.plan(motion.variables).terms
    ]
    measured = [name for name in motion.variables if not unmeasured(name)]
    wider = motion.basis + Polynomial(max(2, *powers) + 1).on(*measured)
    names, known = wider.names(motion.variables), len(powers)
    kicked = motion.sought[kicks.diffusion.coef.any(axis=0)]
    added = (np.arange(known, len(names))[:, None] * motion.states + kicked).ravel()
    if not len(added) or len(added) > EFFORT.large_many:
        return
    columns = np.concatenate([fitted.law.support, added])
    blocks = replace(motion, basis=wider).objectives(fitted, columns, blocks=1)
    if blocks is None:
        return
    [rows] = blocks
    gains = beside_terms(rows, len(fitted.law.support))[1]
    for equation in kicked:
        own = np.where(added % motion.states == equation, gains, 0.0)
        best = int(np.argmax(own))
        if own[best] > price + NEAR:
            state, term = motion.variables[equation], names[added[best] // motion.states]
            yield Finding(
                "kicks-follow-states",
                f"The kicks of {pretty(state)} are not random, since they follow {pretty(term)}: with it the "
                f"criterion falls by {own[best] - price:.0f}. The basis lacks this term, or one that is like "
                "it: offer terms of higher degree, or the formula that you expect.",
                {"state": state, "term": term, "gain": float(own[best] - price)},
            )


def _together(model: Model, kicks: Kicks) -> Iterator[Finding]:
    """A finding for each pair of equations whose kicks are correlated."""
    together = kicks.diffusion.correlation
    if together is None:
        return
    for i, j in np.argwhere(np.triu(together, 1)):
        pair, value = [model.states[i], model.states[j]], float(together[i, j])
        yield Finding(
            "correlated-kicks",
            f"The kicks of {pretty(pair[0])} and {pretty(pair[1])} are correlated ({value:.2f}): one force "
            "may drive both. The model has the correlation, and `simulate(noise=True)` draws it.",
            {"states": pair, "correlation": value},
        )
