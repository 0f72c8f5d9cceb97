"""Comparison of a model with its data: how much it explains, and findings on what the user should beware of.

1. `judged` computes R² of the equations and of solutions, and collects the findings on the model, on its
   residuals and on oddities of the data.
2. `beside_positions` identifies x'' = F(x, x') from positions where the data hold rates computed from them.
3. `with_forecasts` tests whether a law with hidden states predicts data that its states were not fitted to.
4. `instrument_fault` tests whether a delay, a drifting gain or a drifting clock explains the data better.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from functools import partial

import numpy as np
from numpy.typing import NDArray

from cindy._arrays import Floats, Ints
from cindy._check import counted, units_of_time
from cindy.basis import Basis, listed, pretty
from cindy.data import Trajectory, excerpt, long_in_seconds, oddities, some_segments, spread_over
from cindy.errors import CindyError, NoModelError
from cindy.findings import Finding, leaves_motion, without_repeats
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
    paths_apart,
    unmeasured,
)
from cindy.search import NEAR, Found
from cindy.selection import Supports
from cindy.states import Distortion, Fitted, Motion, distorted_rows


@dataclass(frozen=True)
class _Looks:
    """Thresholds of the findings on how well a model explains the data, and a bound on the work for them."""

    most_numbers: int = 5_000_000
    """Samples times terms that residuals are computed of: with thousands of terms that would take longer than
    the identification."""
    # `python -m benchmarks oddities` has right models and models without a term of the law: of 25 right ones
    # two get a finding, none of them that the model is wrong; of 16 that lack a term all do.
    low: float = 0.5
    """R² below which a model is called wrong. Equations of right models reach 0.87 and more there."""
    follows: float = 0.8
    """R² of solutions above which a model is not called wrong, whatever the R² of its equations is. Right
    models reach 0.98 and more."""
    noisy: float = 1.3
    """In units of the noise: residuals below this count as noise."""
    driven: float = 1.0
    """In units of the noise: model error from one sample to the next that is reported. Right models stay
    below 0.1, those that lack a term reach 0.2 to 4e4, or other terms replace it."""


_LOOKS = _Looks()


@dataclass(frozen=True)
class _Forecasts:
    """How the predictions of a law with hidden states are tested on its own data."""

    runs: int = 3
    each: int = 3
    """Runs, and stretches of each: a bound on work."""
    begins: float = 0.2
    """Share of a run whose samples the states are fitted to before a prediction."""
    share: float = 0.5
    """Length of a prediction, as a share of the time over which solutions from states fitted to all samples
    follow the data. States fitted to earlier samples alone have larger errors, which chaos amplifies."""
    least: int = 20
    """Least number of samples that states are fitted to, and that are predicted."""
    enough: float = 0.95
    """R² of the median stretch, divided by the largest R² that the noise allows. Right laws have 0.97 and
    more at 5 % noise (benchmark: hidden)."""


_FORECASTS = _Forecasts()


@contextmanager
def refusals_told(
    data: Sequence[Trajectory], basis: Basis, form: Formulation, known: Sequence[Finding]
) -> Iterator[None]:
    """Where no law is found in the block, the error also names the oddities of the data.

    known: findings on the data that were made before
    """
    try:
        yield
    except NoModelError as error:
        some = excerpt_of(data)
        powers = _has_powers(basis, form.variables(data[0].states, data[0].inputs))
        odd = [*known, *oddities(some, order=form.order, discrete=form.discrete, powers=powers)]
        if not odd:
            raise
        raise NoModelError(" ".join([str(error), *(finding.message for finding in odd)])) from error


def judged(model: Model, data: Sequence[Trajectory]) -> Model:
    """The model with R² of its equations and solutions on an excerpt of the data, and with all findings."""
    some, moved = inside_domain(model, excerpt_of(data))
    segments = some_segments(some)
    # Denoised states need no window, but solutions are compared with the data over one, whose length follows
    # from how fast the states change.
    model = replace(model, formulation=model.formulation.with_window(segments, sum(map(len, data))))
    odd = partial(
        oddities,
        some,
        segments,
        order=model.order,
        discrete=model.formulation.discrete,
        powers=_has_powers(model.basis, model.variables),
        hidden=len(model.hidden),
    )
    try:
        diagnostics = diagnose(model, excerpt(some, _LOOKS.most_numbers // len(model.terms)))
        compared, runs = compare_few(model, some)
    except CindyError as error:
        failed = Finding("not-compared", f"The model could not be compared with the data: {error}")
        return replace(model, findings=without_repeats((*model.findings, *odd(), failed)))
    equations = 1 - diagnostics.loss
    explained = {
        "equations": float(np.mean(equations)),
        "solutions": float(np.mean(compared.explained)),
        "through": float(np.mean(compared.through)),
        "span": compared.span,
        **({"allowed": float(np.mean(compared.allowed))} if compared.rough else {}),
        **({"runs": float(runs), "of": float(len(data))} if len(data) > runs else {}),
    }
    findings = [
        *_not_explained(model, equations, _as_noise(model, diagnostics), compared),
        *odd(followed=_follows(compared)),
        *diagnostics.findings,
        *_outside(moved),
        *_driven(model, data),
        *(() if model.formulation.discrete else long_in_seconds(data)),
        *(() if model.diffusion is None else paths_apart(model, some)),
        *(
            Finding("solution-stopped", f"A solution did not reach the end of the data: {reason}.")
            for reason in compared.stopped[:3]
        ),
    ]
    return replace(model, findings=without_repeats(findings), explained=explained)


def _has_powers(basis: Basis, variables: tuple[str, ...]) -> bool:
    """Whether a term is a power or a product of variables."""
    return any(sum(f.power for f in term if f.kind == "variable") > 1 for term in basis.plan(variables).terms)


def _follows(compared: Comparison) -> bool:
    """Whether solutions follow the data, in the state in which they do so worst."""
    return bool(np.min(compared.explained, initial=1.0) > _LOOKS.follows)


def _not_explained(
    model: Model, equations: Floats, noisy: NDArray[np.bool_], compared: Comparison
) -> Iterator[Finding]:
    """A finding where neither the equations nor their solutions explain the data, or solutions do not.

    equations: (states,) R²; noisy: (states,) whether residuals are no larger than the noise
    """
    if model.diffusion is not None:
        # Paths with random kicks are followed neither by the drift alone nor by its solutions.
        return
    # Noise inside the terms lowers R² of equations at measured states, so solutions that follow the data
    # count more.
    poor = [] if _follows(compared) else [j for j, value in enumerate(equations) if value < _LOOKS.low]
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
        # Rates are hidden states already, and maps have none.
        hidden = "" if model.hidden or model.rates or model.formulation.discrete else " (try `hidden=1`)"
        yield Finding(
            "not-explained",
            f"These equations do not explain the data: {named}. Do not use them. The basis may lack "
            f"a term, a state may not have been measured{hidden}, or the samples may be too few or too "
            "coarse.",
            {model.states[j]: float(equations[j]) for j in poor},
        )
    elif np.min(compared.explained, initial=1.0) < _LOOKS.low:
        worst = float(np.min(compared.explained))
        span = f"{compared.span:.3g} {units_of_time(model.settings.get('time_unit'))}"
        over = f"over {span}" if compared.window else "over the whole length"
        yield Finding(
            "not-predictive",
            f"Solutions do not follow the data even {over} (R² = {worst:.2g}): "
            "do not predict with these equations.",
            {"explained": worst, "span": compared.span},
        )


def _as_noise(model: Model, diagnostics: Diagnostics) -> NDArray[np.bool_]:
    """(states,) where residuals are no larger than the roughness of the data."""
    # Residuals of a map that lacks a state look like noise, too.
    possible = not leaves_motion(model.findings) and not model.formulation.discrete
    return np.asarray((diagnostics.beyond < _LOOKS.noisy) & possible)


def _outside(moved: int) -> Iterator[Finding]:
    """A finding on measurements outside the domain of a term."""
    if moved:
        yield Finding(
            "outside-domain",
            f"A term is not defined at {counted(moved, 'measurement')}, probably because of noise. The "
            "states were fitted to the data as they are; R² takes values between the neighbours instead.",
            {"count": moved},
        )


def _driven(model: Model, data: Sequence[Trajectory]) -> Iterator[Finding]:
    """Findings on states whose model error within a sampling step exceeds their noise."""
    steps = [np.median(np.diff(run.t)) for run in data if len(run) > 1]
    if leaves_motion(model.findings) or not steps or not np.any(np.isfinite(model.model_error)):
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
    """The model, whose finding on derived rates also gives the equations that follow from positions alone.

    Rates that were computed from positions add filtered noise and no information (`derived_rates`), so
    x'' = F(x, x') from the positions is the better model.

    identify: a function of the positions, which estimates the rates
    """
    derived = next((finding for finding in model.findings if finding.code == "derived-rates"), None)
    if derived is None:
        return model
    rates = derived.values["rates"]
    positions = [name for name in model.states if name not in rates]
    if sorted(positions) != sorted(rates.values()):
        # A state that is neither a position nor a rate has no place in x'' = F(x, x').
        return model
    places = [model.states.index(name) for name in positions]
    try:
        alone = identify(
            [replace(run, x=run.x[:, places], states=tuple(positions), delay={}) for run in data]
        )
    except CindyError:
        # The basis may name the rates; then the finding stays as it is.
        return model
    text = "; ".join(" ".join(line.split()) for line in alone.to_text().splitlines())
    longer = replace(
        derived,
        message=f"{derived.message} Positions alone give {text}.",
        values={**derived.values, "equations": text, "terms": int(np.count_nonzero(alone.coef))},
    )
    return replace(
        model, findings=tuple(longer if finding is derived else finding for finding in model.findings)
    )


def with_forecasts(model: Model, measured: Sequence[Trajectory]) -> Model:
    """The model with a finding if it does not predict stretches of its own data from the samples before them.

    The states of a model are fitted to all samples, and hidden ones adapt to them: that the residuals are no
    more than noise does not show that the law predicts. Here states are fitted to the samples before a
    stretch alone, and the solution from the last of them is compared with the stretch.
    """
    whole = np.nanvar(np.concatenate([run.x for run in measured]), axis=0)
    span = model.explained.get("span", np.inf) if model.explained else np.inf
    explained, ahead = [], 0
    for run in spread_over(measured, _FORECASTS.runs):
        before = max(int(_FORECASTS.begins * len(run)), _FORECASTS.least)
        steps = _FORECASTS.share * span / float(np.median(np.diff(run.t)))
        ahead = max(int(min(steps, len(run) - before)), _FORECASTS.least)
        for k in range(min(len(run) // (before + ahead), _FORECASTS.each)):
            first = k * (before + ahead)
            explained.append(_predicted(model, run.part(first, first + before + ahead), before, whole))
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
    finding = Finding("not-forecast", message, {"explained": value, "samples": ahead})
    return replace(model, findings=(finding, *model.findings))


def _weighted_median(values: Sequence[tuple[float, float]]) -> float:
    """The median of (value, weight), so that stretches in which the states rest count little."""
    ordered = sorted(values)
    share = np.cumsum([weight for _, weight in ordered])
    return ordered[int(np.searchsorted(share, share[-1] / 2.0))][0]


def _predicted(model: Model, stretch: Trajectory, before: int, whole: Floats) -> tuple[float, float]:
    """R² of the worst state along the solution from states fitted to the first samples alone; its weight.

    The weight is the variance within the predicted samples, relative to that of all data.

    before: how many samples the states are fitted to; whole: (states,) variance of all data
    """
    later = stretch.part(before - 1, len(stretch))
    weight = float(np.nanmax(np.nanvar(later.x, axis=0) / np.where(whole > 0, whole, np.inf)))
    try:
        [first] = model.smooth(stretch.part(0, before))
        solved = model.simulate(first.x[-1], later.t, later.u)
    except CindyError:
        return -np.inf, weight
    if len(solved) < len(later):
        return -np.inf, weight
    places = [model.states.index(name) for name in later.states]
    left = np.nanmean((solved.x[:, places] - later.x) ** 2, axis=0)
    return float(np.min(1.0 - np.divide(left, whole, out=np.zeros(len(left)), where=whole > 0))), weight


@dataclass(frozen=True)
class _Faults:
    """When faults of an instrument are tested."""

    most_states: int = 12
    """Measured states up to which faults are tested: a bound on work."""
    inexact: float = 1e-2
    """Model error from one sample to the next, in units of σ², beyond which only the clock is tested: a delay
    would be found in three of three Ornstein-Uhlenbeck processes (benchmark: honesty)."""


_FAULTS = _Faults()


@dataclass(frozen=True)
class _Fault:
    """A fault of an instrument that explains the data better.

    size, error: of the distortion; gain: by how much the criterion falls with it
    terms: of the law beside it
    """

    distortion: Distortion
    size: float
    error: float
    gain: float
    terms: int

    @property
    def interval(self) -> str:
        return f"{abs(self.size):.3g} ± {1.96 * self.error:.1g}"

    def is_small(self, motion: Motion, fitted: Fitted) -> bool:
        """Whether the column holds: it is linear in the size.

        A fault is none where its 95 % interval reaches a gain or a clock that changes by 100 %, or a delay in
        which the state moves as far as its spread. Growth that slows down with age, say, belongs to the law.
        """
        change = abs(self.size) + 1.96 * self.error
        if self.distortion.kind == "late":
            law, j = fitted.law, self.distortion.state
            points = [record.points(x) for record, x in zip(motion.records, fitted.x, strict=True)]
            rates = (law.values(np.concatenate(points)) @ law.table(fitted.coef))[:, j]
            change *= float(np.sqrt(np.mean(rates**2)) / motion.spread[j])
        return change < 1.0


def instrument_fault(motion: Motion, found: Found, time_unit: str) -> Finding | None:
    """A finding where a fault of an instrument explains the data better than terms do, or in their place.

    The test asks whether a channel is read late, a gain drifts or the clock drifts. Each fault has one column
    in the rows D y − W J (y − x̂) = W ψ(x̂) Ξ + B e, whose coefficient is the size of the fault: a score test
    that it is zero (Rao, Proc. Camb. Phil. Soc. 44, 1948). Terms may change with it, since an unknown fault
    causes false terms:

    1. At the states of the law that was found, white rows are made for all candidates, for the delay and the
       gain of each measured state, and for the clock (`distorted_rows`).
    2. From the law's terms with one fault, terms are added and dropped while the criterion falls, a fault at
       the price of a term.
    3. The fault that lowers the criterion most is reported, if it does so by more than the difference up to
       which models count as almost equal. A delay common to all states cannot be seen. Where a delay of one
       state and an earlier reading of another explain the data equally well, the delay is reported.
    """
    measured = np.flatnonzero(motion.measured & ~motion.known)
    shaped = len(found.options.rows) > 0 or len(found.best.fitted.law.unknown) > 0
    if shaped or motion.known.any() or motion.parts == 0 or len(measured) > _FAULTS.most_states:
        return None
    faults = _faults(motion, found, measured)
    best = max(faults, key=lambda fault: fault.gain, default=None)
    if best is None or best.gain <= NEAR:
        return None
    if best.distortion.kind == "late":
        delays = [fault for fault in faults if fault.distortion.kind == "late" and fault.size > 0.0]
        likely = [fault for fault in delays if fault.gain > best.gain - NEAR]
        best = max(likely, key=lambda fault: fault.gain, default=best)
    return _finding_on(motion, best, len(found.best.support) - best.terms, time_unit)


def _finding_on(motion: Motion, fault: _Fault, fewer: int, time_unit: str) -> Finding:
    """The finding on a fault; fewer: how many terms fewer the law needs with it."""
    shorter = f", with {counted(fewer, 'term')} fewer" if fewer > 0 else ""
    better = (
        f"With that the equations explain the data better{shorter} (the criterion is lower by "
        f"{fault.gain:.0f})."
    )
    values = {"error": fault.error, "gain": fault.gain}
    if fault.distortion.kind == "clock":
        message = (
            f"The clock seems to change its rate by {fault.interval} of it along a run: the motion becomes "
            f"{'faster' if fault.size > 0.0 else 'slower'} in all states alike. {better} Correct the time "
            "stamps if that may be so; otherwise something that changes with time has the same effect."
        )
        return Finding("drifting-clock", message, {"change": fault.size, **values})
    name = motion.variables[fault.distortion.state]
    if fault.distortion.kind == "gain":
        message = (
            f'The gain of "{name}" seems to {"rise" if fault.size > 0.0 else "fall"} by {fault.interval} of '
            f"it along a run. {better} Calibrate the channel if that may be so; otherwise a coefficient "
            "changes with time."
        )
        return Finding("drifting-gain", message, {"state": name, "change": fault.size, **values})
    message = (
        f'"{name}" seems to be read {fault.interval} {units_of_time(time_unit)} '
        f"{'later' if fault.size > 0.0 else 'earlier'} than the other channels. {better} If that may be so, "
        f'give Trajectory(…, delay={{"{name}": {fault.size:.3g}}}), or --delay "{name}={fault.size:.3g}" '
        "to `cindy fit`; a hidden state causes such a lag too."
    )
    return Finding("late-channel", message, {"state": name, "delay": fault.size, **values})


def _faults(motion: Motion, found: Found, measured: Ints) -> list[_Fault]:
    """Steps 1 and 2: each fault that is worth its price, from the white rows at the fitted states."""
    fitted = found.best.fitted
    # A channel that is read late differs from another one; the time and the runs were not read.
    inputs = [name for name in motion.variables[motion.states :] if not unmeasured(name)]
    alone = len(measured) + len(inputs) == 1
    tested = [Distortion("clock")]
    # Random kicks are in the columns of gains and delays as well as in the residuals, which would correlate
    # them. The column of the clock follows from the states before a kick.
    if not np.any(fitted.error * motion.step > _FAULTS.inexact * fitted.variance):
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
    return [fault for fault in faults if fault.is_small(motion, fitted)]
