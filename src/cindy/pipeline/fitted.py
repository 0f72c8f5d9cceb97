"""From trajectories to a model whose states were fitted too."""

from __future__ import annotations

from dataclasses import replace
from functools import partial

import numpy as np

from cindy._arrays import Floats
from cindy.errors import NoModelError
from cindy.findings import Finding, has_finding
from cindy.model import Model
from cindy.pipeline.inference import LastPass, not_significant, plain_findings, shown_by_errors
from cindy.pipeline.inputs import beside_the_law
from cindy.pipeline.instrument import instrument_fault
from cindy.pipeline.large import confirmed, screened, some_of
from cindy.pipeline.passes import Found, picked, search
from cindy.pipeline.request import Options, Request, solve_with_samples
from cindy.pipeline.second_look import Look, forced, second_look, walk_of, with_kicks
from cindy.problem import Problem
from cindy.regression import independent
from cindy.states import Motion, quadrature_error, start_of

__all__ = ["findings_of", "identify_with_states"]


def identify_with_states(request: Request, motion: Motion) -> Model:
    """The model of passes over the data, its states fitted too."""
    searched = partial(_searched, request, motion, request.variance(motion))
    return solve_with_samples(request.problem(motion), request.data, searched)


def _searched(request: Request, motion: Motion, variance: Floats, problem: Problem) -> Model:
    """The model that the search ends with, on all data, and what to say of it."""
    options = request.options(motion, problem)
    whole, look = _looked(request, request.narrowed(motion, problem), variance, options)
    look, kicks = with_kicks(look, variance)
    here, found, more = look.motion, *_required(look, request, variance)
    found = picked(request.selection, here, found)
    if here.samples < whole.samples or request.pieces.source.whole is None:
        here, found = confirmed(
            request, replace(whole, candidates=here.candidates, forcing=here.forcing), here, found
        )
    last = LastPass.of(problem, here, found, request.callback)
    if request.selection.by_price and here is look.motion:
        last = shown_by_errors(last)
        found = last.found
    model = last.model()
    told = (
        *findings_of(look, found, model, problem.summary.skipped),
        *beside_the_law(request, look, variance),
    )
    findings = (*more, *look.findings, *model.findings, *told)
    model = replace(model, findings=findings, settings=request.settings)
    return forced(model, kicks)


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


def _required(look: Look, request: Request, variance: Floats) -> tuple[Found, tuple[Finding, ...]]:
    """What was found, if anything was, or the best there is where that was asked for; and what to say."""
    found = look.found
    if found is None:
        raise NoModelError(
            "identify: no fit converged on these data: the denoised states diverge. "
            "Give `passes=1`, another basis, or more samples."
        )
    # A rule without a price, such as a number of terms, picks from the path whatever that is worth.
    if len(found.best.support) or not request.selection.by_price:
        return found, ()
    some = tuple(met for met in found.met if len(met.support))
    if request.least == "best" and some:
        worse = some[0].criterion - found.best.criterion
        return replace(found, best=some[0], met=some), (not_significant(worse),)
    error = request.selection.nothing_kept("identify")
    walk = walk_of(look, variance)
    raise NoModelError(f"{error} {walk}") if walk else error


def _parts_for(motion: Motion, found: Found | None) -> int:
    """Into how many parts steps must be divided for what integrals are wrong by not to make terms."""
    if found is None or not motion.parts or not len(found.best.support):
        return motion.parts
    wrong = quadrature_error(motion, found.best.fitted)
    # The error falls with the ninth power of the step.
    return motion.parts if wrong < 1.0 else motion.parts * min(int(np.ceil((10 * wrong) ** (1 / 18))), 4)


def findings_of(look: Look, found: Found, model: Model, skipped: int) -> tuple[Finding, ...]:
    """What a user must know of the model."""
    assert look.found is not None
    motion, fitted, terms = look.motion, found.best.fitted, len(model.terms)
    rank = independent(motion.values(look.found.best.fitted, 4 * terms + 1_000))
    done = model.result is None or model.result.status == "converged"
    said = plain_findings(skipped, rank, terms, "" if done or model.result is None else model.result.status)
    large = (fitted.error * motion.step > 1e-2 * fitted.variance)[motion.sought]
    if large.any() and not has_finding(look.findings, "smooth-residual"):
        names = [n for n, big in zip(model.states, large, strict=True) if big]
        message = (
            f"The equations of {', '.join(names)} leave more than noise unexplained (see `model_error`): "
            "a term may be missing."
        )
        said.append(Finding("unexplained-motion", message, {"states": names}))
    fault = instrument_fault(motion, look.found)
    return (*said, *(() if fault is None else (fault,)))
