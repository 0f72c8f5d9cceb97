"""What a user must be told about a model: how much it explains, and what the data give away."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from functools import partial

import numpy as np
from numpy.typing import NDArray

from cindy._types import Floats
from cindy.basis import Basis, listed, pretty
from cindy.data import Trajectory, beginning, excerpt, noise_level, oddities, spread_over
from cindy.errors import CindyError, NoModelError
from cindy.findings import Finding, has_finding, without_repeats
from cindy.formulation import Formulation
from cindy.model import Comparison, Diagnostics, Model, compare, diagnose, inside_domain

__all__ = ["judged", "refusals_told"]

_MOST_SAMPLES = 20_000
"""That residuals are looked at; a sentence needs no more."""
_MOST_NUMBERS = 5_000_000
"""Samples times terms, likewise: with thousands of terms their sums would take longer than the model."""
_MOST_LOOKED_AT = 300
"""Runs, likewise: of very many short ones each costs as much as a long one."""
_MOST_RUNS, _MOST_SOLVED = 2, 200
"""Runs, and samples of each, that solutions are compared with: a fraction of a second."""
# `python -m benchmarks oddities` has right models and models without a term of the law: of 25 right ones two
# get a sentence, none of them that the model is wrong; of 16 that lack a term all do.
_LOW = 0.5
"""R² below which a model is called wrong, loudly. Equations of right models reach 0.87 and more there."""
_FOLLOWS = 0.8
"""R² of solutions above which a model is not called wrong, whatever its equations leave step by step. Right
models reach 0.98 and more."""
_NOISY = 1.3
"""Of the noise: residuals below this are noise and nothing else."""
_DRIVEN = 1.0
"""Of the noise: model error from one sample to the next that deserves a sentence. Right models stay below
0.1, those that lack a term reach 0.2 to 4e4, or hide it in others."""


@contextmanager
def refusals_told(data: Sequence[Trajectory], basis: Basis, form: Formulation) -> Iterator[None]:
    """Where no law is found in the block, the error also says what the data give away."""
    try:
        yield
    except NoModelError as error:
        some = excerpt(data, _MOST_SAMPLES)
        powers = _has_powers(basis, form.variables(data[0].states, data[0].inputs))
        odd = oddities(some, order=form.order, discrete=form.discrete, powers=powers)
        if not odd:
            raise
        raise NoModelError(" ".join([str(error), *(one.message for one in odd)])) from error


def judged(model: Model, data: Sequence[Trajectory]) -> Model:
    """The model with R² of its equations and solutions on some of the data, and everything to beware of."""
    some, moved = inside_domain(model, excerpt(spread_over(data, _MOST_LOOKED_AT), _MOST_SAMPLES))
    give_aways = partial(
        oddities,
        some,
        order=model.order,
        discrete=model.formulation.discrete,
        powers=_has_powers(model.basis, model.variables),
    )
    try:
        found = diagnose(model, excerpt(some, min(_MOST_SAMPLES, _MOST_NUMBERS // len(model.terms))))
        compared = compare(model, [beginning(one, _MOST_SOLVED) for one in spread_over(some, _MOST_RUNS)])
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
        **({"runs": float(_MOST_RUNS), "of": float(len(data))} if len(data) > _MOST_RUNS else {}),
    }
    findings = [
        *_loud(model, equations, _as_noise(model, found, some), compared),
        *give_aways(followed=bool(np.min(compared.explained, initial=1.0) > _FOLLOWS)),
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
    follows = bool(np.min(compared.explained, initial=1.0) > _FOLLOWS)
    poor = [] if follows else [j for j, value in enumerate(equations) if value < _LOW]
    drowned = [j for j in poor if noisy[j]]
    if drowned and len(drowned) == len(poor):
        named = listed([f"{pretty(model.states[j])} (R² = {equations[j]:.2g})" for j in drowned])
        yield Finding(
            "mostly-noise",
            f"Most of what was measured of {named} within a stretch of data is noise. The equations do as "
            "well as that allows; longer stretches or more of them would show more.",
            {model.states[j]: float(equations[j]) for j in drowned},
        )
    elif poor:
        named = listed([f"{pretty(model.states[j])} (R² = {equations[j]:.2g})" for j in poor])
        yield Finding(
            "not-explained",
            f"These equations do not explain the data: {named}. Do not use them. The law needs terms that "
            "the basis lacks or a state that was not measured, or the samples are too few or too coarse.",
            {model.states[j]: float(equations[j]) for j in poor},
        )
    elif np.min(compared.explained, initial=1.0) < _LOW:
        worst = float(np.min(compared.explained))
        over = f"over {compared.span:.3g} time units" if compared.window else "over the whole length"
        yield Finding(
            "not-predictive",
            f"Solutions do not follow the data even {over} (R² = {worst:.2g}): "
            "do not predict with these equations.",
            {"explained": worst, "span": compared.span},
        )


def _as_noise(model: Model, found: Diagnostics, data: Sequence[Trajectory]) -> NDArray[np.bool_]:
    """(states,) where residuals are no larger than the roughness of the data."""
    if has_finding(model.findings, "unexplained-motion", "smooth-residual", "random-forcing"):
        return np.zeros(len(found.rms), dtype=bool)
    segments = [part for one in data for part in one.segments() if len(part) >= 11][:50]
    if not segments or not found.formulation.integrates:
        return np.zeros(len(found.rms), dtype=bool)
    rough = np.sqrt(np.mean([noise_level(one) ** 2 for one in segments], axis=0))
    return np.asarray(found.rms < _NOISY * rough)


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
    kick = model.model_error * float(np.median(steps)) ** (model.order - 0.5)
    for j in np.flatnonzero(kick > _DRIVEN * model.noise):
        yield Finding(
            "unexplained-steps",
            f"From one sample to the next {pretty(model.states[j])} changes by about {kick[j]:.2g} that the "
            f"equations do not explain, more than its noise ({model.noise[j]:.2g}). A term may be missing, "
            "or a random force drives it.",
            {"state": model.states[j], "change": float(kick[j]), "noise": float(model.noise[j])},
        )
