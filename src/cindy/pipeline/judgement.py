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
        raise NoModelError(" ".join([str(error), *odd])) from error


def judged(model: Model, data: Sequence[Trajectory]) -> Model:
    """The model with R² of its equations and solutions on some of the data, and all sentences of warning."""
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
        told = (*model.warnings, *give_aways(), f"The model could not be compared with the data: {error}")
        return replace(model, warnings=tuple(dict.fromkeys(told)))
    equations = 1 - found.loss
    explained = {
        "equations": float(np.mean(equations)),
        "solutions": float(np.mean(compared.explained)),
        "through": float(np.mean(compared.through)),
        "span": compared.span,
        **({"runs": float(_MOST_RUNS), "of": float(len(data))} if len(data) > _MOST_RUNS else {}),
    }
    sentences = [
        *_loud(model, equations, _as_noise(found, some), compared),
        *give_aways(followed=bool(np.min(compared.explained, initial=1.0) > _FOLLOWS)),
        *found.warnings,
        *_outside(moved),
        *_driven(model, data),
        *(f"A solution did not reach the end of the data: {reason}." for reason in compared.stopped[:3]),
    ]
    return replace(model, warnings=tuple(dict.fromkeys(sentences)), explained=explained)


def _has_powers(basis: Basis, variables: tuple[str, ...]) -> bool:
    """Whether a term is a power or a product of variables."""
    return any(sum(f.power for f in term if f.kind == "variable") > 1 for term in basis.terms(variables))


def _loud(model: Model, equations: Floats, noisy: NDArray[np.bool_], compared: Comparison) -> Iterator[str]:
    # Noise inside the terms spoils equations at measured states; solutions that follow the data speak louder.
    follows = bool(np.min(compared.explained, initial=1.0) > _FOLLOWS)
    poor = [] if follows else [j for j, value in enumerate(equations) if value < _LOW]
    drowned = [j for j in poor if noisy[j]]
    if drowned and len(drowned) == len(poor):
        named = listed([f"{pretty(model.states[j])} (R² = {equations[j]:.2g})" for j in drowned])
        yield (
            f"Most of what was measured of {named} within a stretch of data is noise. The equations do as "
            "well as that allows; longer stretches or more of them would show more."
        )
    elif poor:
        named = listed([f"{pretty(model.states[j])} (R² = {equations[j]:.2g})" for j in poor])
        yield (
            f"These equations do not explain the data: {named}. Do not use them. The law needs terms that "
            "the basis lacks or a state that was not measured, or the samples are too few or too coarse."
        )
    elif np.min(compared.explained, initial=1.0) < _LOW:
        worst = float(np.min(compared.explained))
        over = f"over {compared.span:.3g} time units" if compared.window else "over the whole length"
        yield (
            f"Solutions do not follow the data even {over} (R² = {worst:.2g}): "
            "do not predict with these equations."
        )


def _as_noise(found: Diagnostics, data: Sequence[Trajectory]) -> NDArray[np.bool_]:
    """(states,) where residuals are no larger than the roughness of the data."""
    segments = [part for one in data for part in one.segments() if len(part) >= 11][:50]
    if not segments or not found.formulation.integrates:
        return np.zeros(len(found.rms), dtype=bool)
    rough = np.sqrt(np.mean([noise_level(one) ** 2 for one in segments], axis=0))
    return np.asarray(found.rms < _NOISY * rough)


def _outside(moved: int) -> Iterator[str]:
    if moved:
        yield (
            f"{moved} measurement(s) lie where a term is not defined, as noise may have it. States were "
            "fitted to them as they are; for R² they stand where their neighbours are."
        )


def _driven(model: Model, data: Sequence[Trajectory]) -> Iterator[str]:
    """Model error, as fitted states have it, beside the noise."""
    steps = [np.median(np.diff(one.t)) for one in data if len(one) > 1]
    told = any("model_error" in said or "not noise but smooth" in said for said in model.warnings)
    if told or not steps or not np.any(np.isfinite(model.model_error)):
        return
    kick = model.model_error * float(np.median(steps)) ** (model.order - 0.5)
    for j in np.flatnonzero(kick > _DRIVEN * model.noise):
        yield (
            f"From one sample to the next {pretty(model.states[j])} is moved by about {kick[j]:.2g} that the "
            f"equations do not hold, more than its noise ({model.noise[j]:.2g}): a term may be missing, or "
            "something random drives it."
        )
