"""Models whose terms hold parameters: from trajectories to the model, its errors and its findings.

1. The search finds models with parameters (`parametric`); where the user's options limit the path of the
   solver, it is made again with terms from that path alone.
2. A rule without a price picks its terms at the states and parameters of the best model.
3. With the parameters as numbers the model is that of a basis without any (`inference.LastPass`).
4. Coefficients and parameters have a joint covariance: that of least squares on the columns of the terms and
   on the tangents Σ ξ ∂ψ/∂θ of the parameters (`_Joint`).
5. Findings name parameters at the end of their range, or that the data hardly determine, terms that have
   become the same function, and near models.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray
from scipy.sparse import csr_array

from cindy._arrays import Floats
from cindy.basis import Basis, Parameter, listed, term_parameters
from cindy.errors import ConstraintError, DataError, NoModelError
from cindy.findings import Finding
from cindy.identification.inference import LastPass, enlarged
from cindy.least_squares import LeastSquares, Rows, triangle
from cindy.model import Estimate, Model, Path, equation_labels, named_term
from cindy.problem import at_samples
from cindy.regression import Regression
from cindy.search import (
    BLOCKS,
    Found,
    Met,
    Options,
    Request,
    Search,
    picked_with_parameters,
    plain_fitted,
    plain_motion,
    search_with_parameters,
    values_of,
)
from cindy.selection import EFFORT, Selection, Supports
from cindy.states import Motion, exact, propagated


def identify_with_parameters(request: Request) -> Model:
    """The model of trajectories whose terms, coefficients, states and parameters are estimated together."""
    motion, basis, rule = request.motion(), request.basis, request.settings.selection
    if motion is None:
        raise DataError(
            f"identify: the formulation {request.form!r} cannot find the parameters {_named(basis)}. "
            "Use Integral(), or give the parameters values: basis.at({…})."
        )
    physics = request.physics(motion)
    # Whether the residual is noise is not tested beside parameters.
    motion = replace(request.narrowed(motion, physics), forgetful=True)
    if any(at_samples(c) for c in physics.constraints):
        raise ConstraintError(
            f"identify: a constraint with a tolerance cannot be imposed while {_named(basis)} is unknown. "
            "Impose it exactly, or give the parameters values: basis.at({…})."
        )
    # Every parameter of a term has a price of its own, in the place of a surcharge on the term.
    options = replace(request.options(motion, physics), surcharge=None)
    met = _searched(motion, options, request.variance(motion), rule)
    if not rule.by_price:
        met = (picked_with_parameters(rule, motion, options, met[0]),)
    # Step 3: from here on parameters are numbers.
    values, final = values_of(motion, met[0]), plain_motion(motion, met[0])
    plain = tuple(replace(model, fitted=plain_fitted(final, model)) for model in met)
    found = Found(plain[0], plain, agreed=False, options=options)
    plain_physics = replace(physics, names=replace(physics.names, basis=basis.at(values)))
    model = LastPass.of(plain_physics, final, found, request.settings.callback).model()
    return replace(_with_parameters(model, motion, met, options), settings=request.settings.to_dict())


def _searched(motion: Motion, options: Options, variance: Floats, rule: Selection) -> tuple[Met, ...]:
    """Step 1: all models met, the best first.

    A radius limits the last pass, whose terms stand at fitted parameters: at scanned values there is none.
    """
    met = search_with_parameters(motion, replace(options, radius=None), variance)
    _require(met, rule)
    final = plain_motion(motion, met[0])
    state, blocks = Search(final, options), final.objectives(met[0].fitted, final.candidates, blocks=1)
    assert blocks is not None
    form = state.form(blocks)
    state.bound_to(form, state.path(form)[0])
    if not state.bound:
        return met
    met = search_with_parameters(motion, replace(options, faithful=True), variance)
    _require(met, rule)
    return met


def _named(basis: Basis) -> str:
    return ", ".join(parameter.name for parameter in basis.unknowns())


def _require(met: tuple[Met, ...], rule: Selection) -> None:
    if not met:
        raise NoModelError(
            "identify: no fit converged on these data: the denoised states diverge, or leave the domain "
            "of the terms. Give narrower ranges, another basis, or more samples."
        )
    if not len(met[0].support):
        raise rule.nothing_kept("identify")


def _with_parameters(model: Model, motion: Motion, met: tuple[Met, ...], options: Options) -> Model:
    """The model with its parameters, the joint covariance of these and the coefficients, and findings."""
    best = met[0]
    if not best.fitted.law.unknown:
        return model
    joint = _Joint.of(motion, best, options)
    own = _fitted(model, motion, best, joint)
    known = {fit.support.tobytes(): fit for fit in reversed(met)}
    near = [replace(own, coef=model.coef)]
    for other in model.near.models[1:]:
        fit = known.get(motion.widened(np.flatnonzero(other.coef)).tobytes())
        # A near model has its own parameters where it was fitted itself, those of the best model otherwise.
        if fit is None:
            near.append(replace(other, parameters=_inside(other, own.parameters)))
        else:
            near.append(_fitted(other, motion, fit, _Joint.of(motion, fit, options)))
    return replace(
        model,
        coef_error=own.coef_error,
        covariance=joint.covariance,
        parameters=own.parameters,
        path=with_parameters(model.path, own.parameters, own.coef_error),
        near=replace(model.near, models=tuple(near)),
        findings=(*model.findings, *_findings(model, motion, best, joint)),
    )


def with_parameters(path: Path, parameters: Mapping[str, Estimate], error: Floats) -> Path:
    """The path whose models have those parameters that their terms hold; error: of the chosen model."""
    models = [replace(model, parameters=_inside(model, parameters)) for model in path.models]
    if path.chosen is not None:
        models[path.chosen] = replace(models[path.chosen], coef_error=error)
    return replace(path, models=tuple(models))


def _inside(model: Model, parameters: Mapping[str, Estimate]) -> dict[str, Estimate]:
    """Those parameters that terms of the model hold."""
    terms = model.basis.terms(model.variables)
    held = {name for i in np.flatnonzero(model.coef.any(axis=1)) for name in term_parameters(terms[i])}
    return {name: estimate for name, estimate in parameters.items() if name in held}


def _fitted(model: Model, motion: Motion, met: Met, joint: _Joint) -> Model:
    """The model with the coefficients, errors and parameters of one that was met."""
    law, coef = met.fitted.law, met.fitted.coef
    values, k = law.values_of(coef), len(law.support)
    place = law.support // motion.states, np.searchsorted(motion.sought, law.support % motion.states)
    table, error = np.zeros_like(model.coef), np.zeros_like(model.coef)
    table[place], error[place] = coef[:k], joint.error[:k]
    parameters = {
        parameter.name: Estimate(values[parameter.name], float(joint.error[k + p]))
        for p, parameter in enumerate(law.unknown)
    }
    return replace(model, coef=table, coef_error=error, basis=model.basis.at(values), parameters=parameters)


@dataclass(frozen=True, eq=False)
class _Joint:
    """The joint covariance of coefficients and parameters.

    covariance: (k + p, k + p), parameters in their own units; places: (p,) errors of their places
    factor: the triangle of the columns of the terms and the tangents of the parameters
    """

    covariance: Floats
    places: Floats
    factor: Floats

    @property
    def error(self) -> Floats:
        return np.asarray(np.sqrt(np.diagonal(self.covariance)))

    @classmethod
    def of(cls, motion: Motion, best: Met, options: Options) -> _Joint:
        """By the noise where the law is exact; else by white rows, and no smaller than by blocks of them."""
        fitted, law = best.fitted, best.fitted.law
        count, k = law.numbers, len(law.support)
        rows = _padded(options.rows, law.support, count)
        blocks: list[LeastSquares] = []
        for white in motion.whitened(fitted):
            assert white is not None
            table = motion.table(white, law, fitted.coef)
            length = max(motion.rows // BLOCKS, 1)
            parts = np.array_split(table, max(round(len(table) / length), 1))
            blocks += [LeastSquares(triangle(part), count, len(part)) for part in parts]
        factor = triangle(np.concatenate([block.factor for block in blocks]))[:, :count]
        supports = Supports(factor, np.zeros(len(factor)), motion.rows, rows, np.zeros(count))
        spread = supports.fit(np.arange(count)).spread
        if exact(motion, fitted):
            covariance = propagated(motion, fitted, spread)
        elif len(blocks) > 1:
            covariance = enlarged(spread @ spread.T, Regression(tuple(blocks), rows))
        else:
            covariance = spread @ spread.T
        values = law.values_of(fitted.coef)
        # The fit is of places, such as logarithms; the delta method gives errors of the values.
        unit = np.concatenate(
            [np.ones(k), [parameter.slope(values[parameter.name]) for parameter in law.unknown]]
        )
        return cls(covariance * unit[:, None] * unit, np.sqrt(np.diagonal(covariance))[k:], factor)


def _padded(rows: Rows, support: NDArray[np.intp], count: int) -> Rows:
    """The constraints on a support, with room for parameters, which they do not name."""
    inner = csr_array(rows.matrix[:, support])
    matrix = csr_array((inner.data, inner.indices, inner.indptr), shape=(len(rows), count))
    return replace(rows, matrix=matrix)


def _findings(model: Model, motion: Motion, best: Met, joint: _Joint) -> list[Finding]:
    """Step 5."""
    law, findings = best.fitted.law, list[Finding]()
    places = best.fitted.coef[len(law.support) :]
    for p, (parameter, place) in enumerate(zip(law.unknown, places, strict=True)):
        findings += end_of_range(parameter, float(place)) or _vague(model, best, joint, p)
    findings += (*_coalesced(model, best, joint), *_doubted(model))
    names = [motion.variables[j] for j in np.flatnonzero(motion.kicked(best.fitted))]
    if names:
        message = (
            f"Much of the motion of {listed(names)} is unexplained. If random kicks drive it, coefficients "
            "and parameters are biased towards zero, because the fit of parameters assumes that there are "
            "none."
        )
        findings.append(Finding("parameters-with-kicks", message, {"states": names}))
    return findings


def end_of_range(parameter: Parameter, place: float) -> list[Finding]:
    """A finding where a parameter is at an end of its range."""
    first, last = parameter.places
    if min(place - first, last - place) > 1e-6 * (last - first):
        return []
    lower, upper = parameter.lower, parameter.upper
    end = lower if abs(parameter.value(place) - lower) < abs(parameter.value(place) - upper) else upper
    message = (
        f"The parameter {parameter.name} sits at the end {end:g} of its range ({lower:g}, {upper:g}): a "
        "value beyond would fit better, or the term is not the right one. Widen the range, or leave the "
        "term out."
    )
    return [Finding("parameter-at-end", message, {"parameter": parameter.name, "end": end})]


def _vague(model: Model, best: Met, joint: _Joint, p: int) -> list[Finding]:
    """A finding where the data hardly determine a parameter, or only together with a coefficient."""
    law = best.fitted.law
    parameter, k = law.unknown[p], len(law.support)
    span = parameter.places[1] - parameter.places[0]
    limit = (
        EFFORT.parametric_model_vague if parameter.logarithmic else 0.5 * EFFORT.parametric_model_vague * span
    )
    if joint.places[p] <= limit:
        return []
    error = joint.error
    # V and K of V S/(K + S) at small S are an example: only their ratio is known.
    correlation = joint.covariance[k + p, :k] / np.maximum(error[k + p] * error[:k], 1e-300)
    partner = int(np.argmax(np.abs(correlation)))
    value = law.values_of(best.fitted.coef)[parameter.name]
    estimate = f"{parameter.name} = {value:.3g} ± {error[k + p]:.2g}"
    values = {"parameter": parameter.name, "value": float(value), "error": float(error[k + p])}
    if abs(correlation[partner]) < EFFORT.parametric_model_tied:
        message = f"The data hardly determine the parameter {parameter.name}: {estimate}."
        return [Finding("vague-parameter", message, values)]
    pair = int(law.support[partner])
    term, state = model.terms[pair // law.states], model.states[pair % law.states % len(model.states)]
    message = (
        f'The parameter {parameter.name} cannot be told from the coefficient of "{term}" in {state}\': '
        f"{estimate}, correlation {correlation[partner]:.3f}. Only a combination of the two is known; data "
        "where the term bends more would tell them apart."
    )
    return [Finding("tied-parameter", message, {**values, "correlation": float(correlation[partner])})]


def _coalesced(model: Model, best: Met, joint: _Joint) -> Iterator[Finding]:
    """Findings on terms of an equation that have become the same function at the fitted parameters."""
    law, d = best.fitted.law, best.fitted.law.states
    columns = joint.factor / np.maximum(np.linalg.norm(joint.factor, axis=0), 1e-300)
    basis = model.basis.terms(model.variables)
    for a, first in enumerate(law.support):
        for b in range(a):
            second = law.support[b]
            if first % d != second % d or not any(f.values for i in (first, second) for f in basis[i // d]):
                continue
            cosine = abs(float(columns[:, a] @ columns[:, b]))
            if cosine > EFFORT.parametric_model_coalesced:
                one, other = model.terms[second // d], model.terms[first // d]
                state = model.states[first % d % len(model.states)]
                message = (
                    f'The terms "{one}" and "{other}" in {state}\' have become the same function '
                    f"(cosine {cosine:.5f}), so the data cannot tell them apart. Keep one of them."
                )
                yield Finding("coalesced-terms", message, {"terms": [one, other], "state": state})


def _doubted(model: Model) -> Iterator[Finding]:
    """A finding where terms of the model could be left out or exchanged for others at hardly any loss."""

    def named(which: NDArray[np.bool_]) -> str:
        left = equation_labels(model)
        return listed([f"{named_term(model, i)} in {left[j]}" for i, j in np.argwhere(which)])

    for other, above in zip(model.near.models[1:], model.near.scores[1:], strict=True):
        lost, gained = (model.coef != 0) & (other.coef == 0), (model.coef == 0) & (other.coef != 0)
        if above <= EFFORT.parametric_model_doubt and lost.any():
            instead = f"With {named(gained)} in place of" if gained.any() else "Without"
            message = (
                f"{instead} {named(lost)} the equations would fit almost as well (criterion {above:.1f} "
                "higher, see `near`): these data hardly tell the two apart. Data from other states would."
            )
            yield Finding("rival-model", message, {"above": float(above)})
            return
