"""What a careful reader would check, computed from model and data, and said in plain words."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from cindy._types import Floats, Ints
from cindy.basis import equation_label, listed, pretty
from cindy.data import Trajectory, noise_level
from cindy.errors import DataError
from cindy.findings import Finding, has_finding, without_repeats
from cindy.formulation import Formulation
from cindy.least_squares import LeastSquares
from cindy.model.comparison import Residual, autocorrelation, residuals
from cindy.model.denoised import Denoised, EquationRows, denoised_under
from cindy.model.matching import inside_domain
from cindy.model.model import Model
from cindy.model.story import SURE
from cindy.summary import accumulate

__all__ = ["Diagnostics", "MeasuredRows", "diagnose"]


_MOST_NAMED = 4
"""Terms that a sentence names."""
_ALIKE = 0.99
"""Two terms whose columns have a larger cosine c can hardly be told apart: errors are 1 / √(1 − c²), seven
times those of either alone. Like the next it decides a sentence, not a model."""
_TELLING = 12.0
"""Rise of the loss, in units of its mean a row, from which data tell two terms apart: 3.5 errors."""
_INFLATED = 10.0
"""Factor on the error of a term by its neighbours: a variance inflation of 100; 10 of the variance is the
usual alarm (Belsley, Kuh and Welsch, Regression Diagnostics, 1980)."""
_SHARP = 0.05
"""Relative error below which a coefficient is known well enough."""
_EXACT = 1e-5
"""Residuals below this share of a state are those of integration, not of measurement."""
_LAGS = 40
"""Of the autocorrelation that is shown: a picture has room for as many bars."""
_CORRELATED = 0.3
"""Correlation of neighbouring residuals from which a sentence is worth it; only above twice its own error."""
_TOO_LARGE = 1.5
"""Residuals over the roughness of the data, itself an estimate: no right model of the tests reaches it.
Noise about fitted states: up to 1.25 of it in right models of `python -m benchmarks oddities`, 4.4 in a
wrong one."""
_FEW, _ENOUGH = 20.0, 30
"""Samples: 1 + 20/n allows for how uncertain roughness is, 99 times in 100 of white noise with 30 samples or
more; with fewer nothing is said."""


@dataclass(frozen=True, eq=False)
class MeasuredRows:
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
    findings: the model's own first
    """

    formulation: Formulation
    rows: MeasuredRows | Denoised
    loss: Floats
    residuals: list[Residual]
    rms: Floats
    correlation: Floats
    band: float
    noise: Floats
    findings: tuple[Finding, ...]

    @property
    def warnings(self) -> tuple[str, ...]:
        """The messages of the findings."""
        return tuple(one.message for one in self.findings)


def diagnose(model: Model, data: Sequence[Trajectory]) -> Diagnostics:
    """All diagnostics of a model on data.

    With denoised states, rows and residuals are those at the estimated states, which are at hand where the
    data are the model's own. Otherwise the rows are accumulated once more, at measured states.
    """
    known = denoised_under(model, data) if model.denoised else None
    if known is not None:
        return _at_denoised_states(model, data, known)
    data = inside_domain(model, data)[0]
    form = model.formulation.fit_to(data)
    rows = MeasuredRows(accumulate(data, model.basis, formulation=form, blocks=1).total)
    left = residuals(model, data)
    rms, correlation, band = _statistics(left)
    size = np.sqrt(np.mean(np.vstack([part.x for one in data for part in one.segments()]) ** 2, axis=0))
    findings = [
        *model.findings,
        *_uncertain(model),
        *_unsure(model),
        *_alike(model, rows),
    ]
    if model.denoised:  # residuals at the measured states would include the noise inside the terms
        findings += _left_over(model, data, form, model.noise)
    else:
        findings += _left_over(model, data, form, rms) if form.order == 1 else ()
        findings += _correlated(model, form, correlation, band, rms > _EXACT * size)
    noise = np.where(np.isfinite(model.noise), model.noise, rms if form.integrates else np.nan)
    loss, told = rows.losses(model.coef), without_repeats(findings)
    return Diagnostics(form, rows, loss, left, rms, correlation, band, noise, told)


def _at_denoised_states(model: Model, data: Sequence[Trajectory], known: Denoised) -> Diagnostics:
    """The same where the states were estimated: residuals are measurements less states."""
    left = []
    for number, one in enumerate(data):
        states = known.states_of(one)
        if states is not None:
            values = one.x - states[:, : len(model.states)]
            whole = np.flatnonzero(np.isfinite(values).all(axis=1))
            for piece in np.split(whole, np.flatnonzero(np.diff(whole) > 1) + 1):
                if len(piece) > 1:
                    left.append(Residual(number, one.t[piece], values[piece]))
    if not left:
        raise DataError("diagnose: no trajectory has enough complete samples in a row.")
    rms, correlation, band = _statistics(left)
    findings = [
        *model.findings,
        *_uncertain(model),
        *_unsure(model),
        *_alike(model, known),
        *_left_over(model, data, model.formulation, model.noise),
    ]
    told, form = without_repeats(findings), model.formulation
    return Diagnostics(form, known, known.loss, left, rms, correlation, band, np.asarray(model.noise), told)


def _statistics(left: Sequence[Residual]) -> tuple[Floats, Floats, float]:
    """Root mean squares of the residuals, their autocorrelation, and the band in which white noise stays."""
    values = np.vstack([one.values for one in left])
    # Beyond a third of a window too few pairs are left to average.
    lags = min(_LAGS, max(len(one.values) for one in left) // 3)
    rms = np.sqrt(np.mean(values**2, axis=0))
    return rms, autocorrelation(left, max(lags, 1)), float(1.96 / np.sqrt(len(values)))


def _uncertain(model: Model) -> Iterator[Finding]:
    """Terms that the data do not tell from zero."""
    with np.errstate(invalid="ignore", divide="ignore"):
        weak = model.support & (np.abs(model.coef) < 1.96 * model.coef_error)
    if weak.any():
        named = [f"{pretty(model.labels[i])} in {_equation(model, j)}" for i, j in np.argwhere(weak)]
        one = len(named) == 1
        yield Finding(
            "uncertain-terms",
            f"The 95 % interval of {listed(named)} includes zero: "
            f"the data do not show that {'this term is' if one else 'these terms are'} there.",
            {"terms": _places(model, weak)},
        )


def _unsure(model: Model) -> Iterator[Finding]:
    """Terms without which other models are almost as likely."""
    with np.errstate(invalid="ignore", divide="ignore"):
        clear = np.abs(model.coef) >= 1.96 * model.coef_error
        open_calls = model.support & clear & (model.inclusion < SURE)
    places = np.argwhere(open_calls)
    if len(places):
        named = [f"{pretty(model.labels[i])} in {_equation(model, j)}" for i, j in places[:_MOST_NAMED]]
        more = f" and {len(places) - _MOST_NAMED} more" if len(places) > _MOST_NAMED else ""
        least = float(np.min(model.inclusion[open_calls]))
        yield Finding(
            "unsure-terms",
            f"Models without {listed(named)}{more} explain the data almost as well "
            f"(`inclusion` {least:.2g}{' or more' if len(places) > 1 else ''}; see `near`).",
            {"terms": _places(model, open_calls), "inclusion": least},
        )


def _alike(model: Model, rows: MeasuredRows | Denoised) -> Iterator[Finding]:
    """Collinear terms: pairs that move together, and terms that the others of an equation imitate."""
    pairs: dict[tuple[int, int], float] = {}
    inflated: list[Finding] = []
    for j in range(model.coef.shape[1]):
        own = rows.equation(j, model.coef)
        size = np.linalg.norm(own.design, axis=0)
        unit = own.design / np.where(size > 0, size, 1.0)
        present = np.flatnonzero(model.support[own.terms, j])
        cosine = np.abs(unit[:, present].T @ unit)
        for row, other in np.argwhere(cosine > _ALIKE).tolist():
            i, k = sorted((int(own.terms[present[row]]), int(own.terms[other])))
            new = model.support[i, j] != model.support[k, j] and (i, k) not in pairs
            if new and _exchangeable(own, present, int(present[row]), other):
                pairs[i, k] = float(cosine[row, other])
        inflated += _inflated(model, j, own.terms[present], unit[:, present])
    if pairs:
        ordered = sorted(pairs, key=lambda pair: -pairs[pair])
        named = [f"{pretty(model.labels[i])} and {pretty(model.labels[k])}" for i, k in ordered]
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
    r = np.linalg.qr(unit, mode="r")
    factor = np.sqrt(np.sum(np.linalg.pinv(r) ** 2, axis=1))
    # Where the errors are small all the same, nobody need know.
    poor = (factor > _INFLATED) & ~(model.coef_error[terms, j] < _SHARP * np.abs(model.coef[terms, j]))
    if poor.any():
        named = [pretty(model.labels[i]) for i in terms[poor]]
        verb = "is" if len(named) == 1 else "are"
        yield Finding(
            "collinear-terms",
            f"In {_equation(model, j)}, {listed(named)} {verb} nearly a combination of the other terms. "
            f"That makes errors up to {factor.max():.0f} times as large as they would be otherwise.",
            {"state": model.states[j], "inflation": float(factor.max())},
        )


def _exchangeable(own: EquationRows, present: Ints, gone: int, instead: int) -> bool:
    """Whether an equation with one term in the place of another fits about as well."""

    def loss(columns: Ints) -> float:
        design = own.design[:, columns]
        x = np.linalg.lstsq(design, own.target, rcond=None)[0]
        return float(np.sum((design @ x - own.target) ** 2))

    before = loss(present)
    after = loss(np.where(present == gone, instead, present))
    return (after - before) * own.rows <= _TELLING * before


def _left_over(
    model: Model, data: Sequence[Trajectory], form: Formulation, left: Floats
) -> Iterator[Finding]:
    """Residuals, or noise about fitted states, beyond what the roughness of the data accounts for."""
    fitted = model.denoised
    told = has_finding(model.findings, "unexplained-motion", "smooth-residual", "random-forcing")
    segments = [part for one in data for part in one.segments() if len(part) >= 11][:50]
    samples = sum(map(len, segments))
    if not form.integrates or not segments or (fitted and (told or samples < _ENOUGH)):
        return
    rough = np.sqrt(np.mean([noise_level(one) ** 2 for one in segments], axis=0))
    floor = 1e-6 * np.sqrt(np.mean(np.vstack([one.x for one in segments]) ** 2, axis=0))
    ratio = left / np.maximum(rough, np.maximum(floor, np.finfo(float).tiny))
    limit = _TOO_LARGE * (1 + _FEW / samples) if fitted else _TOO_LARGE
    for j in np.flatnonzero(ratio > limit):
        yield Finding(
            "large-residuals",
            f"The equations miss {pretty(model.states[j])} by {ratio[j]:.1f} times what the noise in the "
            "data accounts for. A term may be missing from the basis.",
            {"state": model.states[j], "ratio": float(ratio[j])},
        )


def _correlated(
    model: Model, form: Formulation, correlation: Floats, band: float, matters: NDArray[np.bool_]
) -> Iterator[Finding]:
    """Residuals that remember: only where the form does not itself make neighbours alike."""
    if not form.integrates or len(correlation) < 2:
        return
    first = correlation[1]
    slow = [j for j in range(len(model.states)) if matters[j] and first[j] > max(_CORRELATED, 2 * band)]
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
