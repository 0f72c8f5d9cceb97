"""What a careful reader would check, computed from model and data, and said in plain words."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from cindy._types import Floats
from cindy.basis import equation_label, listed, pretty
from cindy.data import Trajectory, noise_level
from cindy.findings import Finding, has_finding, without_repeats
from cindy.formulation import Formulation
from cindy.least_squares import LeastSquares
from cindy.model.comparison import Residual, autocorrelation, residuals
from cindy.model.matching import inside_domain
from cindy.model.model import Model
from cindy.model.story import SURE
from cindy.summary import accumulate

__all__ = ["Diagnostics", "diagnose"]


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
class Diagnostics:
    """Figures and sentences about a model on its data.

    total: the rows the model was fitted to, as one objective
    loss: (states,) squares left by the model over those of the data
    residuals: per window; rms: (states,) their root mean square
    correlation: (lags + 1, states) autocorrelation of the residuals; band: 95 % of white noise stays within
    noise: (states,) standard deviation of the measurements
    findings: the model's own first
    """

    formulation: Formulation
    total: LeastSquares
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

    def relative_loss(self, coef: Floats) -> float:
        """The squares that coefficients leave over those of the data, in equal parts for every state."""
        return float(np.mean(_loss(self.total, coef)))


def diagnose(model: Model, data: Sequence[Trajectory]) -> Diagnostics:
    """All diagnostics, in one pass over the data for each."""
    data = inside_domain(model, data)[0]
    form = model.formulation.fit_to(data)
    total = accumulate(data, model.basis, formulation=form, blocks=1).total
    left = residuals(model, data)
    values = np.vstack([one.values for one in left])
    rms = np.sqrt(np.mean(values**2, axis=0))
    # Beyond a third of a window too few pairs are left to average.
    lags = min(_LAGS, max(len(one.values) for one in left) // 3)
    correlation = autocorrelation(left, max(lags, 1))
    band = 1.96 / np.sqrt(len(values))
    findings = [
        *model.findings,
        *_uncertain(model),
        *_unsure(model),
        *_alike(model, total),
    ]
    if model.denoised:  # residuals at the measured states would include the noise inside the terms
        findings += _left_over(model, data, form, model.noise)
    else:
        size = np.sqrt(np.mean(np.vstack([part.x for one in data for part in one.segments()]) ** 2, axis=0))
        findings += [
            *(_left_over(model, data, form, rms) if form.order == 1 else ()),
            *_correlated(model, form, correlation, band, rms > _EXACT * size),
        ]
    return Diagnostics(
        formulation=form,
        total=total,
        loss=_loss(total, model.coef),
        residuals=left,
        rms=rms,
        correlation=correlation,
        band=float(band),
        noise=_noise(model, form, rms),
        findings=without_repeats(findings),
    )


def _loss(total: LeastSquares, coef: Floats) -> Floats:
    left = np.sum((total.design @ coef - total.target) ** 2, axis=0)
    whole = np.sum(total.target**2, axis=0)
    return np.asarray(np.divide(left, whole, out=np.zeros(len(left)), where=whole > 0))


def _noise(model: Model, form: Formulation, rms: Floats) -> Floats:
    """The model's estimate; for the integral form the residuals stand in where it has none."""
    known = np.isfinite(model.noise)
    return np.asarray(np.where(known, model.noise, rms if form.integrates else np.nan))


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


def _alike(model: Model, total: LeastSquares) -> Iterator[Finding]:
    """Collinear terms: pairs that move together, and terms that the others of an equation imitate."""
    size = np.linalg.norm(total.design, axis=0)
    unit = total.design / np.where(size > 0, size, 1.0)
    cosine = np.asarray(np.abs(unit.T @ unit))
    np.fill_diagonal(cosine, 0.0)
    close = np.argwhere(np.triu(cosine > _ALIKE)).tolist()
    pairs = [(i, k) for i, k in close if _exchangeable(model, total, i, k)]
    pairs.sort(key=lambda pair: -float(cosine[pair]))
    if pairs:
        named = [f"{pretty(model.labels[i])} and {pretty(model.labels[k])}" for i, k in pairs]
        yield Finding(
            "exchangeable-terms",
            f"In these data {listed(named)} move together almost exactly: a model with the one in place "
            "of the other would fit nearly as well. Data that explore more states would tell them apart.",
            {"pairs": [[model.terms[i], model.terms[k]] for i, k in pairs]},
        )
    for j in range(model.coef.shape[1]):
        rows = np.flatnonzero(model.support[:, j])
        if len(rows) < 3:
            continue
        r = np.linalg.qr(unit[:, rows], mode="r")
        factor = np.sqrt(np.sum(np.linalg.pinv(r) ** 2, axis=1))
        # Where the errors are small all the same, nobody need know.
        poor = (factor > _INFLATED) & ~(model.coef_error[rows, j] < _SHARP * np.abs(model.coef[rows, j]))
        if poor.any():
            named = [pretty(model.labels[i]) for i in rows[poor]]
            verb = "is" if len(named) == 1 else "are"
            yield Finding(
                "collinear-terms",
                f"In {_equation(model, j)}, {listed(named)} {verb} nearly a combination of the other terms. "
                f"That makes errors up to {factor.max():.0f} times as large as they would be otherwise.",
                {"state": model.states[j], "inflation": float(factor.max())},
            )


def _exchangeable(model: Model, total: LeastSquares, i: int, k: int) -> bool:
    """Whether in some equation that has one of two terms the other fits about as well."""

    def loss(rows: NDArray[np.bool_], j: int) -> float:
        x = np.linalg.lstsq(total.design[:, rows], total.target[:, j], rcond=None)[0]
        return float(np.sum((total.design[:, rows] @ x - total.target[:, j]) ** 2))

    for j in np.flatnonzero(model.support[i] != model.support[k]).tolist():
        present = model.support[:, j].copy()
        before = loss(present, j)
        present[[i, k]] = present[[k, i]]
        if (loss(present, j) - before) * total.rows <= _TELLING * before:
            return True
    return False


def _left_over(
    model: Model, data: Sequence[Trajectory], form: Formulation, left: Floats
) -> Iterator[Finding]:
    """Residuals, or noise about fitted states, beyond what the roughness of the data accounts for."""
    fitted = model.denoised
    told = has_finding(model.findings, "unexplained-motion", "smooth-residual")
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
