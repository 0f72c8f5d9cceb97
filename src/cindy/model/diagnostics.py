"""What a careful reader would check, computed from model and data, and said in plain words.

What a model leaves unexplained is judged in one unit for every form and rule, the noise of the measurements
(`_beyond_noise`):

1. With denoised states the estimated noise is compared with σ, the roughness of the data.
2. At measured states residuals are those of the integral form, x(t) − x(0) − ∫ ψ(x) Ξ ds with x(0) free in
   every window, whitened for the drift that noise inside ψ makes. For the true law they are white and as
   large as σ, whereas residuals of estimated rates are as smooth as the estimate, whatever is missing.
3. Their root mean square over σ, and their correlation from one sample to the next, tell whether something
   is missing.
4. Maps have no roughness: the residuals of a step are compared with those at like states elsewhere, which
   noise makes differ and a missing term does not (`lack_of_fit`).

Fields have rows of their own, the weak ones, and are compared with a solution from their first sample.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from cindy._arrays import Floats, Ints, one_thread
from cindy._check import instance
from cindy.basis import equation_label, listed, pretty
from cindy.data import Field, Roughness, Trajectory, as_trajectories, lack_of_fit, rough_noise
from cindy.errors import CindyError, DataError
from cindy.findings import Finding, has_finding, without_repeats
from cindy.formulation import Formulation, Integral
from cindy.least_squares import LeastSquares
from cindy.model.comparison import Residual, autocorrelation, field_rows_of, residuals, solved_field
from cindy.model.denoised import Denoised, EquationRows, denoised_under
from cindy.model.matching import inside_domain
from cindy.model.model import Model
from cindy.model.story import SURE, spoken
from cindy.summary import accumulate


@dataclass(frozen=True)
class _Limits:
    """From where on a sentence is worth it: these decide sentences, not models."""

    most_named: int = 4
    """Terms that a sentence names."""
    alike: float = 0.99
    """Two terms whose columns have a larger cosine c can hardly be told apart: errors are 1 / √(1 − c²),
    seven times those of either alone. Like the next it decides a sentence, not a model."""
    telling: float = 12.0
    """Rise of the loss, in units of its mean a row, from which data tell two terms apart: 3.5 errors."""
    inflated: float = 10.0
    """Factor on the error of a term by its neighbours: a variance inflation of 100; 10 of the variance is the
    usual alarm (Belsley, Kuh and Welsch, Regression Diagnostics, 1980)."""
    sharp: float = 0.05
    """Relative error below which a coefficient is known well enough."""
    exact: float = 1e-5
    """Residuals below this share of a state are those of integration, not of measurement."""
    lags: int = 40
    """Of the autocorrelation that is shown: a picture has room for as many bars."""
    correlated: float = 0.3
    """Correlation of neighbouring residuals from which a sentence is worth it; only above twice its own
    error."""
    too_large: float = 1.5
    """Residuals over the roughness of the data, itself an estimate: no right model of the tests reaches it.
    Noise about fitted states: up to 1.25 of it in right models of `python -m benchmarks oddities`, 4.4 in a
    wrong one."""
    too_large_steps: float = 2.0
    """The same for maps: right ones of `python -m benchmarks every_form` reach 1.5 where an orbit is so thin
    that the noise shows in the state, wrong ones 2.3 to 28 with noise up to 1 %."""
    gap: float = 2.5
    """Median steps: samples that are further apart, with missing ones between them, are not neighbours."""
    shortest: int = 11
    most: int = 50
    """Samples of a stretch of a map that is looked at, and how many stretches are."""
    few: float = 20.0
    enough: int = 30
    """Samples: 1 + 20/n allows for how uncertain roughness is, 99 times in 100 of white noise with 30 samples
    or more; with fewer nothing is said."""
    most_samples: int = 2_000_000
    """Values of a field beyond which it is not solved for a picture: that would take minutes."""


_AT = _Limits()


@dataclass(frozen=True, eq=False)
class _MeasuredRows:
    """Rows with the terms at measured states, the same for every equation."""

    total: LeastSquares

    def equation(self, j: int, coef: Floats) -> EquationRows:
        """The rows of one equation."""
        terms = np.arange(len(coef))
        return EquationRows(terms, self.total.design, self.total.target[:, j], self.total.rows)

    def losses(self, coef: Floats) -> Floats:
        """(states,) squares that coefficients leave, over those of the targets."""
        left = np.sum((self.total.design @ coef - self.total.target) ** 2, axis=0)
        whole = np.sum(self.total.target**2, axis=0)
        return np.asarray(np.divide(left, whole, out=np.zeros(len(left)), where=whole > 0))

    def relative_loss(self, coef: Floats) -> float:
        """The same in equal parts for every state."""
        return float(np.mean(self.losses(coef)))


@dataclass(frozen=True, eq=False)
class Diagnostics:
    """Figures and findings about a model on its data.

    rows: what the coefficients were fitted to
    loss: (states,) squares left by the model over those of the data
    residuals: per window; rms: (states,) their root mean square
    correlation: (lags + 1, states) autocorrelation of the residuals; band: 95 % of white noise stays within
    noise: (states,) standard deviation of the measurements
    beyond: (states,) what the model leaves of the measurements, over their roughness; NaN where not known
    findings: the model's own first
    """

    formulation: Formulation
    rows: _MeasuredRows | Denoised
    loss: Floats
    residuals: list[Residual]
    rms: Floats
    correlation: Floats
    band: float
    noise: Floats
    beyond: Floats
    findings: tuple[Finding, ...]

    @property
    def warnings(self) -> tuple[str, ...]:
        """The messages of the findings."""
        return tuple(finding.message for finding in self.findings)


def diagnose(model: Model, data: Sequence[Trajectory]) -> Diagnostics:
    """All diagnostics of a model on data.

    With denoised states, rows and residuals are those at the estimated states, which are at hand where the
    data are the model's own. Otherwise the rows are accumulated once more, at measured states.
    """
    instance(model, Model, "diagnose: `model`", "a Model, such as identify makes")
    data = as_trajectories(data)
    denoised = denoised_under(model, data) if model.denoised else None
    if denoised is not None:
        return _at_denoised_states(model, data, denoised)
    data = inside_domain(model, data)[0]
    form = model.formulation.fit_to(data)
    rows = _MeasuredRows(accumulate(data, model.basis, formulation=form, blocks=1).total)
    left = residuals(model, data)
    rms, correlation, band = _statistics(left)
    size = np.sqrt(np.mean(np.vstack([part.x for run in data for part in run.segments()]) ** 2, axis=0))
    findings = [
        *model.findings,
        *_uncertain(model),
        *_unsure(model),
        *_alike(model, rows),
    ]
    rough = rough_noise(data)
    if model.denoised:  # residuals at the measured states would include the noise inside the terms
        beyond = _beyond_noise(model, data, rough, model.noise)
    else:
        judge = _judging_form(form, data)
        # Residuals of estimated rates are as smooth as the estimate, so that they look correlated whatever
        # the law is.
        judged = left if judge is form else residuals(replace(model, formulation=judge), data)
        size_left, memory, _ = _statistics(judged)
        beyond = _beyond_noise(model, data, rough, size_left)
        findings += _correlated(model, judge, memory, band, size_left > _AT.exact * size)
    findings += _left_over(model, rough.samples, form, beyond)
    noise = np.where(np.isfinite(model.noise), model.noise, rms if form.integrates else np.nan)
    loss, distinct = rows.losses(model.coef), without_repeats(findings)
    return Diagnostics(form, rows, loss, left, rms, correlation, band, noise, beyond, distinct)


def _judging_form(form: Formulation, data: Sequence[Trajectory]) -> Formulation:
    """The form whose residuals are white and as large as the noise for the true law."""
    if form.leaves_noise or form.discrete:
        return form
    return Integral(order=form.order, smooth=form.smooth).fit_to(data)


def _at_denoised_states(model: Model, data: Sequence[Trajectory], denoised: Denoised) -> Diagnostics:
    """The same where the states were estimated: residuals are measurements less states."""
    # Residuals in runs without gaps: correlations are between neighbours only.
    residual = []
    for number, run in enumerate(data):
        states = denoised.states_of(run)
        if states is not None:
            values = run.x - states[:, : len(model.states)]
            seen = np.isfinite(values)
            for piece in _runs(run.t, seen):
                if len(piece) > 1:
                    residual.append(Residual(number, run.t[piece], values[piece]))
    if not residual:
        raise DataError("diagnose: no trajectory has enough complete samples in a row.")
    rms, correlation, band = _statistics(residual)
    form, noise, rough = model.formulation, np.asarray(model.noise), rough_noise(data)
    beyond = _beyond_noise(model, data, rough, noise)
    findings = [
        *model.findings,
        *_uncertain(model),
        *_unsure(model),
        *_alike(model, denoised),
        *_left_over(model, rough.samples, form, beyond),
    ]
    distinct = without_repeats(findings)
    return Diagnostics(
        form, denoised, denoised.loss, residual, rms, correlation, band, noise, beyond, distinct
    )


def _runs(t: Floats, seen: NDArray[np.bool_]) -> list[NDArray[np.intp]]:
    """Rows of measurements without a gap between them.

    Sensors with clocks of their own have no complete rows; instants of inputs alone have no measurement, and
    are no gap.
    """
    partial, complete = (np.flatnonzero(kind) for kind in (seen.any(axis=1), seen.all(axis=1)))
    rows = complete if 2 * len(complete) > len(partial) else partial
    steps = np.diff(t[rows])
    usual = float(np.median(steps)) if len(steps) else 0.0
    return np.split(rows, np.flatnonzero((np.diff(rows) > 1) & (steps > _AT.gap * usual)) + 1)


def _statistics(windows: Sequence[Residual]) -> tuple[Floats, Floats, float]:
    """Root mean squares of the residuals, their autocorrelation, and the band in which white noise stays."""
    values = np.vstack([window.values for window in windows])
    # Beyond a third of a window too few pairs are left to average.
    lags = min(_AT.lags, max(len(window.values) for window in windows) // 3)
    rms = np.sqrt(np.nanmean(values**2, axis=0))
    return rms, autocorrelation(windows, max(lags, 1)), float(1.96 / np.sqrt(len(values)))


def _uncertain(model: Model) -> Iterator[Finding]:
    """Terms that the data do not tell from zero."""
    with np.errstate(invalid="ignore", divide="ignore"):
        weak = model.support & (np.abs(model.coef) < 1.96 * model.coef_error)
    if weak.any():
        named = [f"{_label(model, i)} in {_equation(model, j)}" for i, j in np.argwhere(weak)]
        single = len(named) == 1
        yield Finding(
            "uncertain-terms",
            f"The 95 % interval of {listed(named)} includes zero: "
            f"the data do not show that {'this term is' if single else 'these terms are'} there.",
            {"terms": _places(model, weak)},
        )


def _label(model: Model, i: int) -> str:
    """A term within a sentence."""
    return spoken(model.terms[i], pretty(model.labels[i]))


def _unsure(model: Model) -> Iterator[Finding]:
    """Terms without which other models are almost as likely."""
    with np.errstate(invalid="ignore", divide="ignore"):
        clear = np.abs(model.coef) >= 1.96 * model.coef_error
        open_calls = model.support & clear & (model.inclusion < SURE)
    places = np.argwhere(open_calls)
    if len(places):
        named = [f"{_label(model, i)} in {_equation(model, j)}" for i, j in places[: _AT.most_named]]
        more = f" and {len(places) - _AT.most_named} more" if len(places) > _AT.most_named else ""
        least = float(np.min(model.inclusion[open_calls]))
        yield Finding(
            "unsure-terms",
            f"Models without {listed(named)}{more} explain the data almost as well "
            f"(`inclusion` {least:.2g}{' or more' if len(places) > 1 else ''}; see `near`).",
            {"terms": _places(model, open_calls), "inclusion": least},
        )


def _alike(model: Model, rows: _MeasuredRows | Denoised) -> Iterator[Finding]:
    """Collinear terms: pairs that move together, and terms that the others of an equation imitate."""
    pairs: dict[tuple[int, int], float] = {}
    inflated: list[Finding] = []
    for j in range(model.coef.shape[1]):
        own = rows.equation(j, model.coef)
        size = np.linalg.norm(own.design, axis=0)
        unit = own.design / np.where(size > 0, size, 1.0)
        present = np.flatnonzero(model.support[own.terms, j])
        # Cosines of all columns with those in the model: 1 for terms that the data cannot tell apart.
        cosine = np.abs(unit[:, present].T @ unit)
        for row, other in np.argwhere(cosine > _AT.alike).tolist():
            i, k = sorted((int(own.terms[present[row]]), int(own.terms[other])))
            new = model.support[i, j] != model.support[k, j] and (i, k) not in pairs
            if new and _exchangeable(replace(own, design=unit), present, int(present[row]), other):
                pairs[i, k] = float(cosine[row, other])
        inflated += _inflated(model, j, own.terms[present], unit[:, present])
    if pairs:
        ordered = sorted(pairs, key=lambda pair: -pairs[pair])
        named = [f"{_label(model, i)} and {_label(model, k)}" for i, k in ordered]
        yield Finding(
            "exchangeable-terms",
            f"In these data {listed(named)} move together almost exactly: a model with the one in place "
            "of the other would fit nearly as well. Data that explore more states would tell them apart.",
            {"pairs": [[model.terms[i], model.terms[k]] for i, k in ordered]},
        )
    yield from inflated


def _inflated(model: Model, j: int, terms: Ints, unit: Floats) -> Iterator[Finding]:
    """Terms of an equation that the others of it imitate, where that makes errors large."""
    if len(terms) < 3:
        return
    # A variance inflation factor for each term, from the triangle and not from the Gram matrix.
    r = np.linalg.qr(unit, mode="r")
    # Rows of R⁻¹ are the errors of coefficients of unit columns: 1 where a term is orthogonal to all
    # others.
    factor = np.sqrt(np.sum(np.linalg.pinv(r) ** 2, axis=1))
    # Where the errors are small all the same, nobody need know.
    poor = (factor > _AT.inflated) & ~(model.coef_error[terms, j] < _AT.sharp * np.abs(model.coef[terms, j]))
    if poor.any():
        named = [_label(model, i) for i in terms[poor]]
        verb = "is" if len(named) == 1 else "are"
        yield Finding(
            "collinear-terms",
            f"In {_equation(model, j)}, {listed(named)} {verb} nearly a combination of the other terms. "
            f"That makes errors up to {factor.max():.0f} times as large as they would be otherwise.",
            {"state": model.states[j], "inflation": float(factor.max())},
        )


def _exchangeable(own: EquationRows, present: Ints, gone: int, instead: int) -> bool:
    """Whether an equation with one term in place of another fits about as well; columns have unit length."""

    def loss(columns: Ints) -> float:
        design = own.design[:, columns]
        x = np.linalg.lstsq(design, own.target, rcond=None)[0]
        return float(np.sum((design @ x - own.target) ** 2))

    before = loss(present)
    after = loss(np.where(present == gone, instead, present))
    return (after - before) * own.rows <= _AT.telling * before


def _beyond_noise(model: Model, data: Sequence[Trajectory], rough: Roughness, left: Floats) -> Floats:
    """(states,) residuals, or noise about fitted states, in units of the noise; NaN where it is unknown."""
    if model.formulation.discrete:
        return _lack_of_steps(model, data)
    if not rough.samples:
        return np.full(len(left), np.nan)
    # Roughness does not show noise with a memory, of which a finding of its own tells.
    slow = {state for own in model.findings if own.code == "noise-memory" for state in own.values["states"]}
    noise = np.where([state in slow for state in model.states], np.nan, rough.noise)
    floor = 1e-6 * np.sqrt(np.nanmean(np.vstack([trajectory.x for trajectory in data]) ** 2, axis=0))
    return np.asarray(left / np.maximum(noise, np.maximum(floor, np.finfo(float).tiny)))


def _lack_of_steps(model: Model, data: Sequence[Trajectory]) -> Floats:
    """(states,) the lack of fit of a map; NaN where no stretch without missing steps is long enough."""
    segments = [part for trajectory in data for part in trajectory.segments() if len(part) >= _AT.shortest]
    pairs = [model.formulation.compared(segment, model.basis, model.coef) for segment in segments[: _AT.most]]
    left = [measured - modelled for measured, modelled in pairs]
    whole = [
        (segment, rest)
        for segment, rest in zip(segments, left, strict=False)
        if len(rest) == len(segment) - 1
    ]
    if not whole:
        return np.full(len(model.states), np.nan)
    return lack_of_fit([segment for segment, _ in whole], [rest for _, rest in whole])


def _left_over(model: Model, samples: int, form: Formulation, beyond: Floats) -> Iterator[Finding]:
    """States that the equations miss by more than the roughness of so many samples accounts for."""
    fitted = model.denoised
    explained = has_finding(model.findings, "unexplained-motion", "smooth-residual", "random-forcing")
    if fitted and (explained or samples < _AT.enough):
        return
    # Roughness is an estimate itself, and with few samples a poor one.
    limit = _AT.too_large * (1 + _AT.few / samples) if fitted else _AT.too_large
    limit = _AT.too_large_steps if form.discrete else limit
    cause = "A term may be missing from the basis"
    if form.differentiates:
        cause += ", or noise biases the coefficients: Integral() suffers less from that"
    for j in np.flatnonzero(beyond > limit):
        yield Finding(
            "large-residuals",
            f"The residuals of {pretty(model.states[j])} are {beyond[j]:.1f} times as large as the noise in "
            f"the data. {cause}.",
            {"state": model.states[j], "ratio": float(beyond[j])},
        )


def _correlated(
    model: Model, form: Formulation, correlation: Floats, band: float, matters: NDArray[np.bool_]
) -> Iterator[Finding]:
    """Residuals that are correlated in time, in forms that do not correlate neighbours themselves."""
    if not form.integrates or len(correlation) < 2:
        return
    first = correlation[1]
    slow = [j for j in range(len(model.states)) if matters[j] and first[j] > max(_AT.correlated, 2 * band)]
    if slow:
        named = listed([pretty(model.states[j]) for j in slow])
        yield Finding(
            "correlated-residuals",
            f"The residuals of {named} are correlated in time (up to {np.max(first[slow]):.2f} from one "
            "sample to the next): the equations miss something slow, or the noise is not white.",
            {"states": [model.states[j] for j in slow], "correlation": float(np.max(first[slow]))},
        )


def _places(model: Model, where: NDArray[np.bool_]) -> list[list[str]]:
    """[state, term] of each coefficient that is marked."""
    return [[model.states[j], model.terms[i]] for i, j in np.argwhere(where)]


def _equation(model: Model, state: int) -> str:
    return f"the equation of {equation_label(model.states[state], model.order)}"


@dataclass(frozen=True, eq=False)
class FieldComparison:
    """A field beside the solution that starts as it does.

    solved: by state, over space and time, NaN after a blow-up; empty where there is no solution
    explained: (states,) R² of the solution; NaN without one
    follows: the time until which the solution explains half of every state at least
    said: why there is none, or why it ended
    """

    field: Field
    solved: dict[str, Floats]
    explained: Floats
    follows: float
    said: tuple[str, ...] = ()


def diagnose_fields(model: Model, fields: Sequence[Field]) -> Diagnostics:
    """The rows and what the equations leave of them; fields have no residuals in time alone."""
    form, total = field_rows_of(model, fields)
    rows, nothing = _MeasuredRows(total), np.full(len(model.states), np.nan)
    return Diagnostics(
        formulation=form,
        rows=rows,
        loss=rows.losses(model.coef),
        residuals=[],
        rms=nothing,
        correlation=nothing[None, :],
        band=0.0,
        noise=np.asarray(model.noise),
        beyond=nothing,
        findings=model.findings,
    )


@one_thread()
def compare_fields(model: Model, field: Field) -> FieldComparison:
    """The solution of a model beside a field, if it can be had in reasonable time."""
    unknown = np.full(len(model.states), np.nan)
    if np.prod(field.shape) > _AT.most_samples:
        return FieldComparison(
            field, {}, unknown, np.nan, ("The grid is too large to be solved for a page.",)
        )
    try:
        solved = solved_field(model, field)
    except CindyError as error:
        return FieldComparison(field, {}, unknown, np.nan, (f"There is no solution to show: {error}",))
    missed, whole = [], []
    for state in model.states:
        measured = field[state]
        space = tuple(range(measured.ndim - 1))
        missed.append(np.nansum((measured - solved[state]) ** 2, axis=space))
        whole.append(np.nansum((measured - np.nanmean(measured)) ** 2, axis=space))
    reached = np.all(
        [np.isfinite(solved[s]).any(axis=tuple(range(solved[s].ndim - 1))) for s in solved], axis=0
    )
    remarks = () if reached.all() else (f"The solution ends at {field.time} = {field.t[reached][-1]:.4g}.",)
    # At each time the squares left are compared with the mean over time, since a field may be flat for a
    # moment.
    follows = reached & np.all(np.array(missed) <= 0.5 * np.mean(whole, axis=1, keepdims=True), axis=0)
    last = int(np.argmin(follows)) if not follows.all() else len(follows)
    explained = 1.0 - np.array(missed)[:, reached].sum(axis=1) / np.maximum(
        np.array(whole)[:, reached].sum(axis=1), 1e-300
    )
    return FieldComparison(field, solved, explained, float(field.t[max(last - 1, 0)]), remarks)
