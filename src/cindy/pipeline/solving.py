"""solve: from a problem to the model that a rule picks, with the certificate of the solver's run."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import numpy as np

from cindy._check import integer, positive
from cindy._types import Floats
from cindy.errors import DataError
from cindy.findings import Finding
from cindy.model import Model, Path, Run
from cindy.problem import Problem
from cindy.regression import Refit
from cindy.selection import Choice, Selection, Significance, choose
from cindy.solver import Correction, Result, Step

__all__ = ["check_settings", "solve"]

_AROUND = 12
"""Sizes on either side of the chosen model that the path shows one by one."""


def solve(
    problem: Problem,
    *,
    correction: Correction | None = None,
    selection: Selection | None = None,
    tol: float = 1e-6,
    max_iter: int = 10_000,
    callback: Callable[[Step], bool | None] | None = None,
) -> Model:
    """The model that a rule picks for a problem, with the certificate of the solver's run."""
    rule = selection or Significance()
    check_settings(rule, correction, tol, max_iter, callback)
    if not isinstance(problem, Problem):
        raise DataError(f"solve: `problem` must be a Problem, but is {problem!r}.")
    choice = choose(problem.form, rule, correction, tol=tol, max_iter=max_iter, callback=callback)
    result, fit = choice.result, choice.fit
    if not np.any(fit.x):
        raise rule.nothing_kept("solve")
    model = _model(problem, fit, result)
    path = _path(problem, rule, choice, model) if rule.refits else Path((model,), (0.0,), 0)
    return replace(
        model,
        result=Run.of(result),
        path=path,
        findings=_findings(problem, fit.x, result.status.value if not result.converged else ""),
        settings={
            "selection": repr(rule),
            "correction": repr(choice.correction),
            "tol": rule.tolerance(tol),
        },
    )


def _model(problem: Problem, fit: Refit, run: Result) -> Model:
    coef = problem.physical(fit.x)
    summary = problem.summary
    return Model(
        coef,
        summary.basis,
        summary.states,
        inputs=summary.inputs,
        coef_error=problem.physical(fit.error),
        formulation=summary.formulation,
        noise=fit.left * problem.size,
        gap=problem.form.gap(fit.x, run),
        radius=problem.region.radius,
        violation=problem.violation(coef),
        constraints=tuple(str(c) for c in problem.constraints),
    )


def _path(problem: Problem, rule: Selection, choice: Choice, model: Model) -> Path:
    """Nested models through the chosen one: all sizes near it, fewer far from it."""
    candidates = choice.candidates
    chosen = len(choice.support)
    ranking = candidates.ranking(choice.support, 3 * chosen + 10)
    near = range(max(1, chosen - _AROUND), min(len(ranking), chosen + _AROUND) + 1)
    far = np.unique(np.linspace(1, min(len(ranking), 3 * chosen + 10), 12).astype(int))
    models: list[Model] = []
    scores: list[float] = []
    place = None
    seen = {(model.coef != 0).tobytes()}
    for size in sorted({*near, *(int(k) for k in far)}):
        fit = candidates.possible(np.sort(ranking[:size]))
        pattern = b"" if fit is None else (fit.x != 0).tobytes()
        if fit is None or (size != chosen and pattern in seen):
            continue
        seen.add(pattern)
        if size == chosen:
            place = len(models)
        models.append(model if size == chosen else _model(problem, fit, choice.result))
        scores.append(rule.score(candidates, fit))
    return Path(tuple(models), tuple(scores), place, rule.criterion)


def check_settings(
    rule: Selection,
    correction: Correction | None,
    tol: float,
    max_iter: int,
    callback: object,
    seed: int = 0,
) -> None:
    if not isinstance(rule, Selection):
        raise DataError(f"solve: `selection` must be a rule such as Significance(), but is {rule!r}.")
    if correction is not None and not isinstance(correction, Correction):
        raise DataError(f"solve: `correction` must be one such as Direct(), but is {correction!r}.")
    if callback is not None and not callable(callback):
        raise DataError(f"solve: `callback` must be a function of a Step, but is {callback!r}.")
    positive(tol, "solve: `tol`")
    integer(max_iter, "solve: `max_iter`", least=1)
    integer(seed, "identify: `seed`", least=0)


def _findings(problem: Problem, x: Floats, status: str) -> tuple[Finding, ...]:
    summary, found = problem.summary, []
    if summary.skipped:
        message = f"{summary.skipped} stretch(es) of data were too short to use and were left out."
        found.append(Finding("short-stretches", message, {"count": summary.skipped}))
    rank, terms = problem.regression.independent, len(summary.terms)
    if rank < terms:
        message = f"Only {rank} of the {terms} terms are independent on these data: other models fit as well."
        if summary.spurious is not None:
            message = (
                f"At this noise the data tell only {rank} of the {terms} terms apart: models with other "
                "terms may fit as well."
            )
        found.append(Finding("dependent-terms", message, {"independent": rank, "terms": terms}))
    if problem.radius is not None and problem.region.norm(x) >= problem.radius * (1 - 1e-9):
        message = f"The radius {problem.radius:g} binds: it keeps the coefficients smaller than they fit."
        found.append(Finding("radius-binds", message, {"radius": problem.radius}))
    if status:
        message = f"The solver ended before its gap fell below the tolerance: {status}."
        found.append(Finding("not-converged", message, {"status": status}))
    return tuple(found)
