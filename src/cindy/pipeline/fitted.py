"""From trajectories to a model whose states were fitted too."""

from __future__ import annotations

from dataclasses import replace
from functools import partial

import numpy as np
from numpy.typing import NDArray

from cindy._types import Floats
from cindy.basis import term_variables
from cindy.errors import DataError, NoModelError
from cindy.findings import Finding, has_finding
from cindy.formulation import Formulation
from cindy.model import Model
from cindy.pipeline.inference import LastPass
from cindy.pipeline.kicks import forced, walk_of, with_kicks
from cindy.pipeline.large import confirmed, screened, some_of
from cindy.pipeline.models_met import Search
from cindy.pipeline.options import Options
from cindy.pipeline.passes import NEAR, Found, picked, search
from cindy.pipeline.request import Request
from cindy.pipeline.second_look import Look, second_look
from cindy.pipeline.tolerance import solve_with_samples
from cindy.problem import Problem
from cindy.regression import independent
from cindy.selection import Selection
from cindy.states import LEVELS, Motion, quadrature_error, start_of

__all__ = ["findings_of", "identify_with_states"]

_MOST_COMPARED = 30_000
"""Samples up to which other holds of the inputs are tried: a bound on work."""


def identify_with_states(request: Request) -> Model | None:
    """The model of passes over the data; None where form, rule or data allow one pass at measured states."""
    motion = request.motion()
    if motion is None or not motion.records:
        _check_one_pass(request.form)
        return None
    searched = partial(_searched, request, motion, request.variance(motion))
    return solve_with_samples(request.problem(motion), request.data, searched)


def _searched(request: Request, motion: Motion, variance: Floats, problem: Problem) -> Model:
    """The model that the search ends with, on all data, and what to say of it."""
    options = request.options(motion, problem)
    whole, look = _looked(request, request.narrowed(motion, problem), variance, options)
    look, kicks = with_kicks(look, variance)
    here, found = look.motion, _required(look, request.selection)
    found = picked(request.selection, here, found)
    if here.samples < whole.samples or request.pieces.source.whole is None:
        here, found = confirmed(request, replace(whole, candidates=here.candidates), here, found)
    model = LastPass.of(problem, here, found, request.callback).model()
    told = (*findings_of(look, found, model, problem.summary.skipped), *_other_hold(request, look, variance))
    model = replace(model, findings=(*look.findings, *model.findings, *told), settings=request.settings)
    return forced(model, kicks, here.rows)


def _looked(request: Request, motion: Motion, variance: Floats, options: Options) -> tuple[Motion, Look]:
    """What is found in a part of the data, and the motion of all of them, in steps as fine as it asks for."""
    whole, here = motion, screened(some_of(motion, request.seed), options, variance)
    found = search(here, options, variance)
    parts = _parts_for(here, found)
    if parts > motion.parts:
        finer = request.form.motion(request.data, request.basis, instants=parts)
        assert finer is not None
        whole, here = finer, replace(some_of(finer, request.seed), candidates=here.candidates)
        assert found is not None
        start = start_of(here, found.best.support, found.best.fitted.coef, variance)
        found = search(here, found.options, variance, start)
    return whole, second_look(Look(here, found), variance)


def _other_hold(request: Request, look: Look, variance: Floats) -> tuple[Finding, ...]:
    """A finding where inputs that are held in another way explain the data better by the same equations.

    The states are fitted once more with the same terms and each other hold: −2 log p of the measurements
    tells which of them the input had.
    """
    first, found = request.data[0], look.found
    few = sum(map(len, request.data)) <= _MOST_COMPARED
    if not first.inputs or found is None or not few or look.motion.parts == 0:
        return ()
    best = found.best
    if not np.isin(np.flatnonzero(_with_inputs(request, look.motion)), best.support).any():
        return ()
    fits: dict[str, float] = {}
    for hold in ("zero", "linear", "band"):
        try:
            held = [replace(one, hold=hold) for one in request.data]
        except DataError:
            # A band-limited input needs even steps.
            continue
        motion = None if hold == first.hold else request.form.motion(held, request.basis)
        if motion is None:
            continue
        start = start_of(motion, best.support, best.fitted.coef, variance)
        met = Search(replace(motion, memory=look.motion.memory), found.options).fit(start, LEVELS)
        if met is not None:
            fits[hold] = met.deviance
    if not fits or min(fits.values()) > best.deviance - NEAR:
        return ()
    likely = min(fits, key=lambda hold: fits[hold])
    gain = best.deviance - fits[likely]
    message = (
        f'Inputs with hold="{likely}" explain the data better than with hold="{first.hold}" (−2 log p is '
        f'lower by {gain:.0f}): give the trajectories hold="{likely}" if that is how the inputs were made.'
    )
    return (Finding("other-hold", message, {"hold": likely, "gain": gain}),)


def _with_inputs(request: Request, motion: Motion) -> NDArray[np.bool_]:
    """(terms · states,) whether the term of a coefficient holds an input."""
    inputs = set(request.data[0].inputs)
    each = [bool(term_variables(term) & inputs) for term in motion.basis.terms(motion.variables)]
    return np.repeat(each, motion.states)


def _required(look: Look, rule: Selection) -> Found:
    """What was found, if anything was."""
    found = look.found
    if found is None:
        raise NoModelError(
            "identify: no model settles on these data: the states that it fits run away. "
            "Give `passes=1`, another basis, or more samples."
        )
    if not len(found.best.support):
        error = rule.nothing_kept("identify")
        walk = walk_of(look)
        raise NoModelError(f"{error} {walk}") if walk else error
    return found


def _check_one_pass(form: Formulation) -> None:
    """Refuse to go on without fitted states where terms hold rates that nobody measured."""
    if isinstance(form, Formulation) and form.needs_states:
        raise DataError(
            "identify: the rates in x'' = F(x, x') are found with fitted states. That takes trajectories of "
            f"{form.min_samples} samples at least."
        )


def _parts_for(motion: Motion, found: Found | None) -> int:
    """Into how many parts steps must be divided for what integrals are wrong by not to make terms."""
    if found is None or not motion.parts or not len(found.best.support):
        return motion.parts
    wrong = quadrature_error(motion, found.best.fitted)
    # The error falls with the ninth power of the step.
    return motion.parts if wrong < 1.0 else motion.parts * min(int(np.ceil((10 * wrong) ** (1 / 18))), 4)


def findings_of(look: Look, found: Found, model: Model, skipped: int) -> tuple[Finding, ...]:
    """What a user must know of the model."""
    said = []
    if skipped:
        message = f"{skipped} stretch(es) of data were too short to use and were left out."
        said.append(Finding("short-stretches", message, {"count": skipped}))
    if model.result is not None and model.result.status != "converged":
        status = model.result.status
        message = f"The solver ended before its gap fell below the tolerance: {status}."
        said.append(Finding("not-converged", message, {"status": status}))
    assert look.found is not None
    motion, fitted, terms = look.motion, found.best.fitted, len(model.terms)
    rank = independent(motion.values(look.found.best.fitted, 4 * terms + 1_000))
    if rank < terms:
        message = f"Only {rank} of the {terms} terms are independent on these data: other models fit as well."
        said.append(Finding("dependent-terms", message, {"independent": rank, "terms": terms}))
    large = (fitted.error * motion.step > 1e-2 * fitted.variance)[motion.sought]
    if large.any() and not has_finding(look.findings, "smooth-residual"):
        names = [n for n, big in zip(model.states, large, strict=True) if big]
        message = (
            f"The equations of {', '.join(names)} leave more than noise unexplained (see `model_error`): "
            "a term may be missing."
        )
        said.append(Finding("unexplained-motion", message, {"states": names}))
    return tuple(said)
