"""What a user must be told about a model: how much it explains, what the data give away, and which fault of
an instrument would explain them better."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from functools import partial

import numpy as np
from numpy.typing import NDArray

from cindy._arrays import Floats, Ints
from cindy.basis import Basis, listed, pretty
from cindy.data import Trajectory, excerpt, oddities, some_segments, spread_over
from cindy.errors import CindyError, NoModelError
from cindy.findings import Finding, has_finding, without_repeats
from cindy.formulation import Formulation
from cindy.least_squares import Rows, lengths
from cindy.model import (
    Comparison,
    Diagnostics,
    Model,
    compare_few,
    diagnose,
    excerpt_of,
    inside_domain,
)
from cindy.pipeline.passes import NEAR, Found
from cindy.selection import Supports
from cindy.states import Distortion, Motion, distorted_rows

__all__ = ["beside_positions", "instrument_fault", "judged", "refusals_told", "with_forecasts"]


@dataclass(frozen=True)
class _Looks:
    """How much is looked at once a model is known, and from where on a sentence is worth it."""

    most_numbers: int = 5_000_000
    """Samples times terms that residuals are looked at: with thousands of terms their sums would take longer
    than the model."""
    # `python -m benchmarks oddities` has right models and models without a term of the law: of 25 right ones
    # two get a sentence, none of them that the model is wrong; of 16 that lack a term all do.
    low: float = 0.5
    """R² below which a model is called wrong, loudly. Equations of right models reach 0.87 and more there."""
    follows: float = 0.8
    """R² of solutions above which a model is not called wrong, whatever its equations leave step by step.
    Right models reach 0.98 and more."""
    noisy: float = 1.3
    """Of the noise: residuals below this are noise and nothing else."""
    driven: float = 1.0
    """Of the noise: model error from one sample to the next that deserves a sentence. Right models stay below
    0.1, those that lack a term reach 0.2 to 4e4, or hide it in others."""


_LOOKS = _Looks()


@dataclass(frozen=True)
class _Forecasts:
    """How a law with hidden states is tried on the data that it was found from."""

    runs: int = 3
    each: int = 3
    """Runs, and stretches of each: a bound on work."""
    begins: float = 0.2
    """Of a run: the samples that tell the states from which it is predicted."""
    share: float = 0.5
    """Of the time over which solutions from states fitted to all samples follow the data: for so long the
    rest is predicted. States fitted to earlier samples alone are worse, and chaos makes more of it."""
    least: int = 20
    """Samples to begin with, and to predict."""
    enough: float = 0.95
    """R² of the median stretch, over what noise leaves of it; right laws have 0.97 and more at 5 % noise
    (benchmark: hidden)."""


_FORECASTS = _Forecasts()


@contextmanager
def refusals_told(
    data: Sequence[Trajectory], basis: Basis, form: Formulation, known: Sequence[Finding] = ()
) -> Iterator[None]:
    """Where no law is found in the block, the error also says what the data give away.

    known: what was noticed before
    """
    try:
        yield
    except NoModelError as error:
        some = excerpt_of(data)
        powers = _has_powers(basis, form.variables(data[0].states, data[0].inputs))
        odd = [*known, *oddities(some, order=form.order, discrete=form.discrete, powers=powers)]
        if not odd:
            raise
        raise NoModelError(" ".join([str(error), *(one.message for one in odd)])) from error


def judged(model: Model, data: Sequence[Trajectory]) -> Model:
    """The model with R² of its equations and solutions on some of the data, and everything to beware of."""
    some, moved = inside_domain(model, excerpt_of(data))
    looked = some_segments(some)
    # States that were fitted need no windows. Solutions are compared over one that the motion asks for.
    model = replace(model, formulation=model.formulation.with_window(looked, sum(map(len, data))))
    give_aways = partial(
        oddities,
        some,
        looked,
        order=model.order,
        discrete=model.formulation.discrete,
        powers=_has_powers(model.basis, model.variables),
    )
    try:
        found = diagnose(model, excerpt(some, _LOOKS.most_numbers // len(model.terms)))
        compared, runs = compare_few(model, some)
    except CindyError as error:
        failed = Finding("not-compared", f"The model could not be compared with the data: {error}")
        return replace(model, findings=without_repeats((*model.findings, *give_aways(), failed)))
    equations = 1 - found.loss
    explained = {
        "equations": float(np.mean(equations)),
        "solutions": float(np.mean(compared.explained)),
        "through": float(np.mean(compared.through)),
        "span": compared.span,
        "allowed": float(np.mean(compared.allowed)),
        **({"runs": float(runs), "of": float(len(data))} if len(data) > runs else {}),
    }
    findings = [
        *_loud(model, equations, _as_noise(model, found), compared),
        *give_aways(followed=bool(np.min(compared.explained, initial=1.0) > _LOOKS.follows)),
        *found.findings,
        *_outside(moved),
        *_driven(model, data),
        *(
            Finding("solution-stopped", f"A solution did not reach the end of the data: {reason}.")
            for reason in compared.stopped[:3]
        ),
    ]
    return replace(model, findings=without_repeats(findings), explained=explained)


def _has_powers(basis: Basis, variables: tuple[str, ...]) -> bool:
    """Whether a term is a power or a product of variables."""
    return any(sum(f.power for f in term if f.kind == "variable") > 1 for term in basis.terms(variables))


def _loud(
    model: Model, equations: Floats, noisy: NDArray[np.bool_], compared: Comparison
) -> Iterator[Finding]:
    if model.diffusion is not None:
        # Nor the equations of the drift alone nor their solutions follow paths that are kicked.
        return
    # Noise inside the terms spoils equations at measured states; solutions that follow the data speak louder.
    # The worst state decides, in both.
    follows = bool(np.min(compared.explained, initial=1.0) > _LOOKS.follows)
    poor = [] if follows else [j for j, value in enumerate(equations) if value < _LOOKS.low]
    drowned = [j for j in poor if noisy[j]]
    if drowned and len(drowned) == len(poor):
        named = listed([f"{pretty(model.states[j])} (R² = {equations[j]:.2g})" for j in drowned])
        yield Finding(
            "mostly-noise",
            f"Within a stretch of data noise exceeds the motion of {named}. The equations fit as well as "
            "this noise allows; longer stretches, or more of them, would show more.",
            {model.states[j]: float(equations[j]) for j in drowned},
        )
    elif poor:
        named = listed([f"{pretty(model.states[j])} (R² = {equations[j]:.2g})" for j in poor])
        yield Finding(
            "not-explained",
            f"These equations do not explain the data: {named}. Do not use them. The basis may lack "
            "a term, a state may not have been measured, or the samples may be too few or too coarse.",
            {model.states[j]: float(equations[j]) for j in poor},
        )
    elif np.min(compared.explained, initial=1.0) < _LOOKS.low:
        worst = float(np.min(compared.explained))
        over = f"over {compared.span:.3g} time units" if compared.window else "over the whole length"
        yield Finding(
            "not-predictive",
            f"Solutions do not follow the data even {over} (R² = {worst:.2g}): "
            "do not predict with these equations.",
            {"explained": worst, "span": compared.span},
        )


def _as_noise(model: Model, found: Diagnostics) -> NDArray[np.bool_]:
    """(states,) where residuals are no larger than the roughness of the data."""
    told = has_finding(model.findings, "unexplained-motion", "smooth-residual", "random-forcing")
    # Like states of a map leave alike residuals where a state is missing, too.
    return np.asarray((found.beyond < _LOOKS.noisy) & (not told and not model.formulation.discrete))


def _outside(moved: int) -> Iterator[Finding]:
    if moved:
        yield Finding(
            "outside-domain",
            f"{moved} measurement(s) lie where a term is not defined, probably because of noise. The states "
            "were fitted to them as they are; for R² they were replaced by values between their neighbours.",
            {"count": moved},
        )


def _driven(model: Model, data: Sequence[Trajectory]) -> Iterator[Finding]:
    """Model error, as fitted states have it, beside the noise."""
    steps = [np.median(np.diff(one.t)) for one in data if len(one) > 1]
    told = has_finding(model.findings, "unexplained-motion", "smooth-residual", "random-forcing")
    if told or not steps or not np.any(np.isfinite(model.model_error)):
        return
    # A random walk of q per unit of time moves by √(q h) in a step; in x'' = F by h more.
    kick = model.model_error * float(np.median(steps)) ** (model.order - 0.5)
    for j in np.flatnonzero(kick > _LOOKS.driven * model.noise):
        yield Finding(
            "unexplained-steps",
            f"From one sample to the next {pretty(model.states[j])} changes by about {kick[j]:.2g} that the "
            f"equations do not explain, more than its noise ({model.noise[j]:.2g}). A term may be missing, "
            "or a random force drives it.",
            {"state": model.states[j], "change": float(kick[j]), "noise": float(model.noise[j])},
        )


def beside_positions(
    model: Model, data: Sequence[Trajectory], identify: Callable[[list[Trajectory]], Model]
) -> Model:
    """The model, whose finding on derived rates also says what the positions alone give.

    Rates that were computed from positions bring filtered noise and no information (`derived_rates`),
    so that x'' = F(x, x') from the positions is the better question.

    identify: the model of positions, rates being unknowns
    """
    told = next((one for one in model.findings if one.code == "derived-rates"), None)
    if told is None:
        return model
    rates = told.values["rates"]
    positions = [name for name in model.states if name not in rates]
    if sorted(positions) != sorted(rates.values()):
        # A state that is neither a position nor a rate has no place in x'' = F(x, x').
        return model
    places = [model.states.index(name) for name in positions]
    try:
        alone = identify(
            [replace(one, x=one.x[:, places], states=tuple(positions), delay={}) for one in data]
        )
    except CindyError:
        # The basis may name the rates; then the advice stands by itself.
        return model
    text = "; ".join(" ".join(line.split()) for line in alone.to_text().splitlines())
    also = replace(
        told,
        message=f"{told.message} Positions alone give {text}.",
        values={**told.values, "equations": text, "terms": int(np.count_nonzero(alone.coef))},
    )
    return replace(model, findings=tuple(also if one is told else one for one in model.findings))


def with_forecasts(model: Model, measured: Sequence[Trajectory]) -> Model:
    """The model that says so where it does not predict stretches of its own data from what was before them.

    Estimates of hidden states bend to all samples, those to be predicted included: a law that leaves no more
    than noise need not predict. Here states are fitted to the samples before a stretch alone, and the
    solution from the last of them is compared with it.
    """
    whole = np.nanvar(np.concatenate([one.x for one in measured]), axis=0)
    span = model.explained.get("span", np.inf) if model.explained else np.inf
    explained, ahead = [], 0
    for one in spread_over(measured, _FORECASTS.runs):
        begun = max(int(_FORECASTS.begins * len(one)), _FORECASTS.least)
        steps = _FORECASTS.share * span / float(np.median(np.diff(one.t)))
        ahead = max(int(min(steps, len(one) - begun)), _FORECASTS.least)
        for k in range(min(len(one) // (begun + ahead), _FORECASTS.each)):
            first = k * (begun + ahead)
            explained.append(_predicted(model, one.part(first, first + begun + ahead), begun, whole))
    value = _weighted_median(explained) if explained else np.inf
    noise = [model.noise[model.states.index(name)] for name in measured[0].states]
    allowed = float(np.min(1.0 - np.minimum(np.square(noise) / np.where(whole > 0, whole, np.inf), 1.0)))
    if value > _FORECASTS.enough * allowed:
        return model
    message = (
        f"From states fitted to earlier samples alone the equations predict the next {ahead} with "
        f"R² = {value:.2g}, the median of {len(explained)} stretches of the data. So few samples do not tell "
        f"{listed(model.hidden)} well enough, or the law is wrong: do not predict with it before you have "
        "tried fresh data."
    )
    said = Finding("not-forecast", message, {"explained": value, "samples": ahead})
    return replace(model, findings=(said, *model.findings))


def _weighted_median(values: Sequence[tuple[float, float]]) -> float:
    """The median of (value, weight): of a state that is still for most of the time, the motion counts."""
    ordered = sorted(values)
    share = np.cumsum([weight for _, weight in ordered])
    return ordered[int(np.searchsorted(share, share[-1] / 2.0))][0]


def _predicted(model: Model, stretch: Trajectory, begun: int, whole: Floats) -> tuple[float, float]:
    """R² of the worst column along the solution from states that are fitted to the first samples alone.

    And how much there is to predict: the variance within the stretch, in units of that of all data.
    """
    later = stretch.part(begun - 1, len(stretch))
    weight = float(np.nanmax(np.nanvar(later.x, axis=0) / np.where(whole > 0, whole, np.inf)))
    try:
        [first] = model.smooth(stretch.part(0, begun))
        solved = model.simulate(first.x[-1], later.t, later.u)
    except CindyError:
        return -np.inf, weight
    if len(solved) < len(later):
        return -np.inf, weight
    places = [model.states.index(name) for name in later.states]
    left = np.nanmean((solved.x[:, places] - later.x) ** 2, axis=0)
    return float(np.min(1.0 - np.divide(left, whole, out=np.zeros(len(left)), where=whole > 0))), weight


_MOST_STATES = 12
"""Measured states up to which faults are tested: a bound on work."""


_INEXACT = 1e-2
"""Model error from one sample to the next, in units of σ², beyond which only the clock is tested: a delay
would be found in three of three Ornstein-Uhlenbeck processes (benchmark: honesty)."""


@dataclass(frozen=True)
class _Fault:
    """A distortion, its size and error, by how much the criterion falls with it, and the terms beside it."""

    distortion: Distortion
    size: float
    error: float
    gain: float
    terms: int

    @property
    def interval(self) -> str:
        return f"{abs(self.size):.3g} ± {1.96 * self.error:.1g}"


def instrument_fault(motion: Motion, found: Found) -> Finding | None:
    """What to say where a fault of an instrument explains what terms do not, or explains it without them.

    A channel that is read late, a gain that drifts or a clock that drifts is one more unknown of the rows
    D y − W J (y − x̂) = W ψ(x̂) Ξ + B e, with a column of its own: a score test that its size is zero
    (Rao, Proc. Camb. Phil. Soc. 44, 1948). The terms may change with it, since a fault that is not allowed
    for makes false ones:

    1. At the states of the law that was found, white rows are made for all candidates, for the delay and the
       gain of each measured state, and for the clock (`distorted_rows`).
    2. From the law's terms with one fault, terms are added and dropped while the criterion falls, a fault at
       the price of a term.
    3. The fault that lowers the criterion most is told of, if it is by more than models that count as almost
       equal differ. That all states are late together cannot be seen; of a delay of one state and an earlier
       reading of another that explain as much, the delay is told.
    """
    measured = np.flatnonzero(motion.measured & ~motion.known)
    shaped = len(found.options.rows) > 0 or len(found.best.fitted.law.unknown) > 0
    if shaped or motion.known.any() or motion.parts == 0 or len(measured) > _MOST_STATES:
        return None
    faults = _faults(motion, found, measured)
    best = max(faults, key=lambda one: one.gain, default=None)
    if best is None or best.gain <= NEAR:
        return None
    if best.distortion.kind == "late":
        delays = [one for one in faults if one.distortion.kind == "late" and one.size > 0.0]
        likely = [one for one in delays if one.gain > best.gain - NEAR]
        best = max(likely, key=lambda one: one.gain, default=best)
    return _told(motion, best, len(found.best.support) - best.terms)


def _told(motion: Motion, fault: _Fault, fewer: int) -> Finding:
    """The finding on a fault; fewer: terms that the law needs less with it."""
    shorter = f", with {fewer} term(s) fewer" if fewer > 0 else ""
    better = (
        f"With that the equations explain the data better{shorter} (the criterion is lower by "
        f"{fault.gain:.0f})."
    )
    values = {"error": fault.error, "gain": fault.gain}
    if fault.distortion.kind == "clock":
        message = (
            f"The clock seems to change its rate by {fault.interval} of it along a run: the motion becomes "
            f"{'faster' if fault.size > 0.0 else 'slower'} in all states alike. {better} Correct the time "
            "stamps if that may be so; else something that changes with time speeds up the law."
        )
        return Finding("drifting-clock", message, {"change": fault.size, **values})
    name = motion.variables[fault.distortion.state]
    if fault.distortion.kind == "gain":
        message = (
            f'The gain of "{name}" seems to {"rise" if fault.size > 0.0 else "fall"} by {fault.interval} of '
            f"it along a run. {better} Calibrate the channel if that may be so; else a coefficient changes "
            "with time."
        )
        return Finding("drifting-gain", message, {"state": name, "change": fault.size, **values})
    message = (
        f'"{name}" seems to be read {fault.interval} {"later" if fault.size > 0.0 else "earlier"} than the '
        f'other channels. {better} Give Trajectory(…, delay={{"{name}": {fault.size:.3g}}}) if that may be '
        "so; a hidden state causes such a lag too."
    )
    return Finding("late-channel", message, {"state": name, "delay": fault.size, **values})


def _faults(motion: Motion, found: Found, measured: Ints) -> list[_Fault]:
    """The size of each fault that is worth its price, from the white rows at the states of the best law."""
    fitted = found.best.fitted
    alone = motion.states == 1 and len(motion.variables) == 1
    tested = [Distortion("clock")]
    # Kicks are in the columns of gains and delays as well as in what is left. That of the clock follows from
    # the states before a kick.
    if not np.any(fitted.error * motion.step > _INEXACT * fitted.variance):
        tested += [Distortion("gain", int(j)) for j in measured]
        tested += [] if alone else [Distortion("late", int(j)) for j in measured]
    objective = distorted_rows(motion, fitted, motion.candidates, tested)
    if objective is None:
        return []
    terms, size = len(motion.candidates), lengths(objective.design)
    design = objective.design / size
    price = np.append(found.options.prices(motion.candidates), found.options.price)
    own = np.searchsorted(motion.candidates, found.best.support)
    faults = []
    for k, distortion in enumerate(tested):
        columns = design[:, [*range(terms), terms + k]]
        supports = Supports(columns, objective.target[:, 0], objective.rows, Rows.none(terms + 1), price)
        fit = supports.settle(supports.fit([*own, terms]))
        if len(fit.support) and fit.support[-1] == terms:
            unit = float(size[terms + k])
            error = float(np.linalg.norm(fit.spread[-1])) / unit
            gain = supports.criterion(supports.fit(own)) - supports.criterion(fit)
            faults.append(_Fault(distortion, float(fit.x[-1]) / unit, error, gain, len(fit.support) - 1))
    # Columns are those of small drifts. A gain or a clock that would change by as much as itself does not
    # drift: growth that slows down with age, say, is the law's own.
    return [one for one in faults if one.distortion.kind == "late" or abs(one.size) < 1.0]
