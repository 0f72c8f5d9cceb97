"""Diagnostics of a model on data: residuals, their autocorrelation, uncertain and collinear terms.

The residuals of every formulation are judged in one unit, the noise of the measurements (`_beyond_noise`).
Here σ is the roughness of the data, an estimate of their noise from neighbouring samples alone:

1. If the states were denoised, the residuals are measurements less denoised states, and the noise that was
   estimated with the equations is compared with σ.
2. If they were not, the residuals are those of the integral form, x(t) − x(0) − ∫ ψ(x) Ξ ds, with x(0) free
   in every window, whitened for the drift that noise inside ψ causes. For the true equations they are white
   and as large as σ. Residuals of estimated rates are as smooth as the estimate, whatever is missing.
3. Residuals much larger than σ, or correlated from one sample to the next, mean that a term is missing.
4. For maps, the residuals of a step are compared with those at similar states elsewhere. Noise makes these
   differ and a missing term does not (`lack_of_fit`).

Fields are judged by the rows of the weak form, and compared with a solution from their first sample.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from cindy._arrays import Floats, Ints, one_thread
from cindy._check import instance
from cindy.basis import listed, pretty
from cindy.data import Field, Roughness, Trajectory, as_trajectories, lack_of_fit, rough_noise
from cindy.errors import CindyError, DataError
from cindy.findings import Finding, leaves_motion, without_repeats
from cindy.formulation import Formulation, Integral
from cindy.least_squares import LeastSquares
from cindy.model.comparison import (
    Residual,
    autocorrelation,
    field_errors,
    field_rows_of,
    residuals,
    solved_field,
    unexplained_rows,
)
from cindy.model.denoised import Denoised, EquationRows, denoised_under, inside_domain
from cindy.model.model import Model
from cindy.model.story import SURE, equation_labels, named_term
from cindy.summary import accumulate


@dataclass(frozen=True)
class _Limits:
    """Thresholds of the findings: they decide which sentences are written, not which model is chosen."""

    most_named: int = 4
    """Terms that a sentence names."""
    alike: float = 0.99
    """Cosine c of two columns above which their terms are hardly distinguishable: the errors of both are
    1 / √(1 − c²), or seven times, those of either alone."""
    telling: float = 12.0
    """Rise of the loss, over its mean per row, from which data distinguish two terms: 3.5 errors, squared."""
    inflated: float = 10.0
    """Factor by which the other terms inflate the error of one: a variance inflation of 100, where 10 is the
    usual alarm (Belsley, Kuh and Welsch, Regression Diagnostics, 1980)."""
    sharp: float = 0.05
    """Relative error below which a coefficient is known well enough."""
    exact: float = 1e-5
    """Share of a state below which residuals are errors of integration, not of measurement."""
    lags: int = 40
    """Lags of the autocorrelation: as many bars as a figure has room for."""
    correlated: float = 0.3
    """Correlation of neighbouring residuals that is reported, if it is also above twice its own error."""
    too_large: float = 1.5
    """Ratio of residuals to roughness, itself an estimate, that no right model of the tests reaches. With
    denoised states, right models of `python -m benchmarks oddities` reach 1.25 and a wrong one 4.4."""
    too_large_steps: float = 2.0
    """The same for maps: right models of `python -m benchmarks every_form` reach 1.5 if an orbit is so thin
    that its noise shows in the state, wrong ones 2.3 to 28 with noise up to 1 %."""
    gap: float = 2.5
    """Median steps between samples beyond which they are not neighbours, because some are missing."""
    shortest: int = 11
    most: int = 50
    """Fewest samples of a stretch of a map that is judged, and how many stretches are."""
    few: float = 20.0
    enough: int = 30
    """With n samples the limit is raised by 1 + 20/n for the uncertainty of roughness. That covers 99 in 100
    records of white noise with 30 samples or more; with fewer nothing is reported."""
    most_samples: int = 2_000_000
    """Values of a field beyond which it is not solved for a figure: that would take minutes."""


_LIMITS = _Limits()


@dataclass(frozen=True, eq=False)
class _MeasuredRows:
    """Rows of the regression with the terms at measured states, the same for every equation."""

    total: LeastSquares

    def equation(self, j: int, coef: Floats) -> EquationRows:
        """The rows of one equation."""
        terms = np.arange(len(coef))
        return EquationRows(terms, self.total.design, self.total.target[:, j], self.total.rows)

    def relative_loss(self, coef: Floats) -> float:
        """Sum of squared residuals over that of the targets, the mean over the states."""
        return float(np.mean(unexplained_rows(self.total, coef)))


@dataclass(frozen=True, eq=False)
class Diagnostics:
    """Statistics and findings of a model on data.

    rows: the rows of the regression
    loss: (states,) sum of squared residuals of these rows over that of their targets
    residuals: one per window; rms: (states,) their root mean square
    correlation: (lags + 1, states) their autocorrelation; band: 95 % of white noise stays within ± this
    noise: (states,) standard deviation of the measurement noise
    beyond: (states,) residuals over the roughness of the data; NaN where unknown
    findings: those of the model first
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


def diagnose(model: Model, data: Sequence[Trajectory]) -> Diagnostics:
    """All diagnostics of a model on data.

    If the states were denoised, rows and residuals are those at the denoised states, which the model holds
    for its own data. Otherwise the rows are accumulated once more, at measured states.
    """
    instance(model, Model, "diagnose: `model`", "a Model, such as identify makes")
    data = as_trajectories(data)
    rows: _MeasuredRows | Denoised | None = denoised_under(model, data) if model.denoised else None
    form, noise = model.formulation, np.asarray(model.noise)
    if isinstance(rows, Denoised):
        left, loss = _beside_states(model, data, rows), rows.loss
    else:
        data = inside_domain(model, data)[0]
        form = form.fit_to(data)
        rows = _MeasuredRows(accumulate(data, model.basis, formulation=form, blocks=1).total)
        left, loss = residuals(model, data), unexplained_rows(rows.total, model.coef)
    rms, correlation, band = _statistics(left)
    if not isinstance(rows, Denoised) and form.integrates:
        noise = np.where(np.isfinite(noise), noise, rms)
    findings = [*model.findings, *_uncertain(model), *_unsure(model), *_alike(model, rows)]
    rough = rough_noise(data)
    if model.denoised:  # residuals at the measured states would include the noise inside the terms
        beyond = _beyond_noise(model, data, rough, model.noise)
    else:
        # Step 2.
        white = form.leaves_noise or form.discrete
        judge = form if white else Integral(order=form.order, smooth=form.smooth).fit_to(data)
        judged = left if white else residuals(replace(model, formulation=judge), data)
        size_left, memory, _ = _statistics(judged)
        beyond = _beyond_noise(model, data, rough, size_left)
        size = np.sqrt(np.mean(np.vstack([part.x for run in data for part in run.segments()]) ** 2, axis=0))
        findings += _correlated(model, judge, memory, band, size_left > _LIMITS.exact * size)
    findings += _left_over(model, rough.samples, form, beyond)
    distinct = without_repeats(findings)
    return Diagnostics(form, rows, loss, left, rms, correlation, band, noise, beyond, distinct)


def _beside_states(model: Model, data: Sequence[Trajectory], denoised: Denoised) -> list[Residual]:
    """Residuals at denoised states: measurements less states (step 1)."""
    # Each window is a stretch without gaps, since correlations are between neighbours.
    left = []
    for number, run in enumerate(data):
        states = denoised.states_of(run)
        if states is not None:
            values = run.x - states[:, : len(model.states)]
            seen = np.isfinite(values)
            for piece in _runs(run.t, seen):
                if len(piece) > 1:
                    left.append(Residual(number, run.t[piece], values[piece]))
    if not left:
        raise DataError("diagnose: no trajectory has enough complete samples in a row.")
    return left


def _runs(t: Floats, seen: NDArray[np.bool_]) -> list[NDArray[np.intp]]:
    """Places of samples without a gap between them.

    If sensors report at different times hardly any sample is complete, and partial ones count as well.
    Samples of the inputs alone measure no state; leaving them out makes no gap.
    """
    partial, complete = (np.flatnonzero(kind) for kind in (seen.any(axis=1), seen.all(axis=1)))
    rows = complete if 2 * len(complete) > len(partial) else partial
    steps = np.diff(t[rows])
    usual = float(np.median(steps)) if len(steps) else 0.0
    return np.split(rows, np.flatnonzero((np.diff(rows) > 1) & (steps > _LIMITS.gap * usual)) + 1)


def _statistics(windows: Sequence[Residual]) -> tuple[Floats, Floats, float]:
    """Root mean square of the residuals, their autocorrelation, and the band of that of white noise."""
    values = np.vstack([window.values for window in windows])
    # Beyond a third of a window too few pairs are left to average.
    lags = min(_LIMITS.lags, max(len(window.values) for window in windows) // 3)
    rms = np.sqrt(np.nanmean(values**2, axis=0))
    return rms, autocorrelation(windows, max(lags, 1)), float(1.96 / np.sqrt(len(values)))


def _uncertain(model: Model) -> Iterator[Finding]:
    """Terms whose coefficients do not differ significantly from zero."""
    with np.errstate(invalid="ignore", divide="ignore"):
        weak = model.support & (np.abs(model.coef) < 1.96 * model.coef_error)
    if weak.any():
        named = [f"{named_term(model, i)} in {equation_labels(model)[j]}" for i, j in np.argwhere(weak)]
        single = len(named) == 1
        yield Finding(
            "uncertain-terms",
            f"The 95 % interval of {listed(named)} includes zero: "
            f"the data do not show that {'this term is' if single else 'these terms are'} there.",
            {"terms": _places(model, weak)},
        )


def _unsure(model: Model) -> Iterator[Finding]:
    """Terms without which other models are almost as likely."""
    with np.errstate(invalid="ignore", divide="ignore"):
        clear = np.abs(model.coef) >= 1.96 * model.coef_error
        open_calls = model.support & clear & (model.inclusion < SURE)
    places = np.argwhere(open_calls)
    if len(places):
        named = [
            f"{named_term(model, i)} in {equation_labels(model)[j]}" for i, j in places[: _LIMITS.most_named]
        ]
        more = f" and {len(places) - _LIMITS.most_named} more" if len(places) > _LIMITS.most_named else ""
        least = float(np.min(model.inclusion[open_calls]))
        yield Finding(
            "unsure-terms",
            f"Models without {listed(named)}{more} explain the data almost as well "
            f"(`inclusion` {least:.2g}{' or more' if len(places) > 1 else ''}; see `near`).",
            {"terms": _places(model, open_calls), "inclusion": least},
        )


def _alike(model: Model, rows: _MeasuredRows | Denoised) -> Iterator[Finding]:
    """Collinear terms: pairs of almost equal columns, and terms that the others of an equation imitate."""
    pairs: dict[tuple[int, int], float] = {}
    inflated: list[Finding] = []
    for j in range(model.coef.shape[1]):
        own = rows.equation(j, model.coef)
        size = np.linalg.norm(own.design, axis=0)
        unit = own.design / np.where(size > 0, size, 1.0)
        present = np.flatnonzero(model.support[own.terms, j])
        # Cosines of all columns with those in the model: 1 for terms that the data cannot distinguish.
        cosine = np.abs(unit[:, present].T @ unit)
        for row, other in np.argwhere(cosine > _LIMITS.alike).tolist():
            i, k = sorted((int(own.terms[present[row]]), int(own.terms[other])))
            new = model.support[i, j] != model.support[k, j] and (i, k) not in pairs
            if new and _exchangeable(replace(own, design=unit), present, int(present[row]), other):
                pairs[i, k] = float(cosine[row, other])
        inflated += _inflated(model, j, own.terms[present], unit[:, present])
    if pairs:
        ordered = sorted(pairs, key=lambda pair: -pairs[pair])
        joined = "with" if len(ordered) > 1 else "and"
        named = [f"{named_term(model, i)} {joined} {named_term(model, k)}" for i, k in ordered]
        yield Finding(
            "exchangeable-terms",
            f"In these data {listed(named)} move together almost exactly: a model with the one in place "
            "of the other would fit nearly as well. Data that explore more states would tell them apart.",
            {"pairs": [[model.terms[i], model.terms[k]] for i, k in ordered]},
        )
    yield from inflated


def _inflated(model: Model, j: int, terms: Ints, unit: Floats) -> Iterator[Finding]:
    """Terms of an equation that are nearly combinations of its others, if that makes their errors large."""
    if len(terms) < 3:
        return
    # The root of the variance inflation factor of each term. The rows of R⁻¹ give the errors of coefficients
    # of unit columns: 1 for a column that is orthogonal to all others. The Gram matrix would lose digits.
    r = np.linalg.qr(unit, mode="r")
    factor = np.sqrt(np.sum(np.linalg.pinv(r) ** 2, axis=1))
    # Collinearity is harmless as long as the errors are small.
    poor = (factor > _LIMITS.inflated) & ~(
        model.coef_error[terms, j] < _LIMITS.sharp * np.abs(model.coef[terms, j])
    )
    if poor.any():
        named = [named_term(model, i) for i in terms[poor]]
        verb = "is" if len(named) == 1 else "are"
        yield Finding(
            "collinear-terms",
            f"In the equation of {equation_labels(model)[j]}, {listed(named)} {verb} nearly a combination "
            f"of the other terms. That makes errors up to {factor.max():.0f} times as large as they would be "
            "otherwise.",
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
    return (after - before) * own.rows <= _LIMITS.telling * before


def _beyond_noise(model: Model, data: Sequence[Trajectory], rough: Roughness, left: Floats) -> Floats:
    """(states,) residuals, or noise about denoised states, over the roughness of the data; NaN if unknown."""
    if model.formulation.discrete:
        return _lack_of_steps(model, data)
    if not rough.samples:
        return np.full(len(left), np.nan)
    # Roughness misses correlated noise, which has a finding of its own.
    slow = {state for own in model.findings if own.code == "noise-memory" for state in own.values["states"]}
    noise = np.where([state in slow for state in model.states], np.nan, rough.noise)
    floor = 1e-6 * np.sqrt(np.nanmean(np.vstack([trajectory.x for trajectory in data]) ** 2, axis=0))
    return np.asarray(left / np.maximum(noise, np.maximum(floor, np.finfo(float).tiny)))


def _lack_of_steps(model: Model, data: Sequence[Trajectory]) -> Floats:
    """(states,) the lack of fit of a map (step 4); NaN if no stretch without missing steps is long enough."""
    segments = [part for run in data for part in run.segments() if len(part) >= _LIMITS.shortest]
    whole, left = [], []
    for segment in segments[: _LIMITS.most]:
        measured, modelled = model.formulation.compared(segment, model.basis, model.coef)
        if len(measured) == len(segment) - 1:
            whole.append(segment)
            left.append(measured - modelled)
    return lack_of_fit(whole, left) if whole else np.full(len(model.states), np.nan)


def _left_over(model: Model, samples: int, form: Formulation, beyond: Floats) -> Iterator[Finding]:
    """States whose residuals are larger than the noise, as estimated from so many samples, accounts for."""
    if model.denoised and (leaves_motion(model.findings) or samples < _LIMITS.enough):
        return
    # Roughness is an estimate itself, and a poor one if samples are few.
    limit = _LIMITS.too_large * (1 + _LIMITS.few / samples) if model.denoised else _LIMITS.too_large
    limit = _LIMITS.too_large_steps if form.discrete else limit
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
    """Residuals that are correlated in time; differential forms correlate neighbours by themselves."""
    if not form.integrates or len(correlation) < 2:
        return
    first = correlation[1]
    slow = [
        j for j in range(len(model.states)) if matters[j] and first[j] > max(_LIMITS.correlated, 2 * band)
    ]
    if slow:
        named = listed([pretty(model.states[j]) for j in slow])
        yield Finding(
            "correlated-residuals",
            f"The residuals of {named} are correlated in time (up to {np.max(first[slow]):.2f} from one "
            "sample to the next): the equations miss something slow, or the noise is not white.",
            {"states": [model.states[j] for j in slow], "correlation": float(np.max(first[slow]))},
        )


def _places(model: Model, where: NDArray[np.bool_]) -> list[list[str]]:
    """[state, term] of the marked coefficients."""
    return [[model.states[j], model.terms[i]] for i, j in np.argwhere(where)]


@dataclass(frozen=True, eq=False)
class FieldComparison:
    """A field beside the solution that starts from its first sample.

    solved: by state, over space and time, NaN after a blow-up; empty if there is no solution
    explained: (states,) R² of the solution; NaN without one
    follows: the time until which the solution explains at least half of every state
    remarks: why there is no solution, or why it ended
    """

    field: Field
    solved: dict[str, Floats]
    explained: Floats
    follows: float
    remarks: tuple[str, ...] = ()


def diagnose_fields(model: Model, fields: Sequence[Field]) -> Diagnostics:
    """The rows of the weak form and the loss there; fields have no residuals in time alone."""
    form, total = field_rows_of(model, fields)
    unknown, noise = np.full(len(model.states), np.nan), np.asarray(model.noise)
    rows, loss = _MeasuredRows(total), unexplained_rows(total, model.coef)
    return Diagnostics(form, rows, loss, [], unknown, unknown[None], 0.0, noise, unknown, model.findings)


@one_thread()
def compare_fields(model: Model, field: Field) -> FieldComparison:
    """The solution of a model beside a field, if it takes a reasonable time."""
    unknown = np.full(len(model.states), np.nan)
    if np.prod(field.shape) > _LIMITS.most_samples:
        remark = "The grid is too large to be solved for a page."
        return FieldComparison(field, {}, unknown, np.nan, (remark,))
    try:
        solved = solved_field(model, field)
    except CindyError as error:
        return FieldComparison(field, {}, unknown, np.nan, (f"There is no solution to show: {error}",))
    missed, whole = field_errors(field, solved)
    reached = np.all([np.isfinite(v).reshape(-1, len(field)).any(axis=0) for v in solved.values()], axis=0)
    remarks = () if reached.all() else (f"The solution ends at {field.time} = {field.t[reached][-1]:.4g}.",)
    # The reference is the mean over all times, since a field may be flat for a moment.
    follows = reached & np.all(missed <= 0.5 * np.mean(whole, axis=1, keepdims=True), axis=0)
    last = int(np.argmin(follows)) if not follows.all() else len(follows)
    explained = 1.0 - missed[:, reached].sum(axis=1) / np.maximum(whole[:, reached].sum(axis=1), 1e-300)
    return FieldComparison(field, solved, explained, float(field.t[max(last - 1, 0)]), remarks)
