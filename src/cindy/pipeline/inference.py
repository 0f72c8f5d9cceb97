"""From the model that a search found, or that a rule picks for a problem, to a Model: the one builder.

It gives the model its errors, its certificate, its path and the models beside it. `LastPass` does so at
fitted states, `solve` for the sums of a problem.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import NamedTuple

import numpy as np

from cindy._check import integer, positive
from cindy._types import Floats, Ints
from cindy.errors import DataError
from cindy.findings import Finding
from cindy.least_squares import LeastSquares
from cindy.model import Denoised, Model, Path, Run
from cindy.pipeline.large import BLOCKS
from cindy.pipeline.models_met import Search
from cindy.pipeline.passes import NEAR, Found
from cindy.problem import Problem, StandardForm
from cindy.regression import Refit, Regression, refit
from cindy.selection import (
    Choice,
    Selection,
    Significance,
    SupportFit,
    Supports,
    choose,
    rivals,
    within_radius,
)
from cindy.solver import Correction, Result, Step, conditional_gradient
from cindy.states import Motion

__all__ = ["LastPass", "check_settings", "solve"]

_MOST_NEAR = 50
"""Models that are told as almost equal: with 20, laws with one term more than the best fill the list
(benchmark: honesty, lorenz 30 %)."""
_AROUND = 12
"""Sizes on either side of the chosen model that the path shows."""


class _Beside(NamedTuple):
    """A model almost as good: flat coefficients, errors, and its criterion less that of the best."""

    coef: Floats
    error: Floats
    above: float


@dataclass(frozen=True, eq=False)
class LastPass:
    """The convex problem at fitted states, its run, and fits on supports.

    found: where the search ended; own: the fit on its support
    """

    problem: Problem
    motion: Motion
    found: Found
    form: StandardForm
    supports: Supports
    result: Result
    own: SupportFit

    @classmethod
    def of(
        cls, problem: Problem, motion: Motion, found: Found, callback: Callable[[Step], bool | None] | None
    ) -> LastPass:
        """Solved as the user asked for."""
        options, best = found.options, found.best
        blocks = motion.objectives(best.fitted, motion.candidates, blocks=1)
        assert blocks is not None
        form = Search(motion, options).form(blocks)
        result = conditional_gradient(
            form.objective,
            form.oracle,
            options.correction,
            tol=options.tol,
            max_iter=options.max_iter,
            callback=callback,
        )
        supports = Supports.of_form(form, options.prices(motion.candidates))
        own = supports.fit(np.searchsorted(motion.candidates, best.support))
        return cls(problem, motion, found, form, supports, result, own)

    def model(self) -> Model:
        """The model that the search found."""
        motion, best, radius = self.motion, self.found.best, self.found.options.radius
        chosen = np.searchsorted(motion.candidates, best.support)
        coef = self._physical(chosen, best.fitted.coef / self.form.unit.ravel()[chosen])
        findings: tuple[Finding, ...] = ()
        if radius is not None and self.form.region.norm(self._scaled(coef)) > radius:
            inside = within_radius(self.form, chosen)
            coef = self._physical(np.arange(inside.size), inside.ravel())
            message = f"The radius {radius:g} binds: it keeps the coefficients smaller than they fit."
            findings = (Finding("radius-binds", message, {"radius": radius}),)
        elif radius is not None and self.form.region.norm(self.result.x) > radius * (1 - 1e-6):
            message = f"The radius {radius:g} binds: terms that it leaves no room for were not considered."
            findings = (Finding("radius-binds", message, {"radius": radius}),)
        covariance, error = self._covariance()
        model = self._made(coef, error)
        near = self._near()
        return replace(
            model,
            noise=self._of_measured(motion.noise(best.fitted), np.nan),
            noise_memory=self._of_measured(motion.noise_memory, 1.0),
            model_error=np.sqrt(best.fitted.error[motion.sought]),
            covariance=covariance,
            inclusion=self._shaped(_inclusion(coef, near)),
            near=Path(
                (model, *(self._made(one.coef, one.error) for one in near[1:])),
                tuple(one.above for one in near),
                0,
                "−2 log p + z² k, less that of the best",
            ),
            path=self._path(model),
            result=Run.of(self.result),
            findings=findings,
            denoised=True,
            fitted=Denoised.of(motion, best.fitted, self._white(), motion.candidates),
        )

    def _of_measured(self, values: Floats, otherwise: float) -> Floats:
        """(states,) from values of the measured ones, which come first; hidden ones have no noise."""
        more = len(self.problem.summary.states) - len(values)
        return np.concatenate([values, np.full(max(more, 0), otherwise)])

    def _white(self) -> LeastSquares:
        """The white rows of all candidates, in physical units."""
        blocks = self.form.blocks
        return sum(blocks, LeastSquares.empty(blocks[0].terms, blocks[0].targets))

    def _made(self, coef: Floats, error: Floats) -> Model:
        """A model of flat coefficients."""
        summary, physical = self.problem.summary, self._shaped(coef)
        return Model(
            physical,
            summary.basis,
            summary.states,
            inputs=summary.inputs,
            coef_error=self._shaped(error),
            formulation=summary.formulation,
            gap=self.form.gap(self._scaled(coef), self.result),
            radius=self.form.region.radius,
            violation=self.problem.violation(physical),
            constraints=tuple(str(c) for c in self.problem.constraints),
        )

    def _physical(self, support: Ints, values: Floats) -> Floats:
        """(terms · states,) flat, of scaled values on a support of the candidates."""
        terms = len(self.motion.basis.names(self.motion.variables))
        out = np.zeros(terms * self.motion.states)
        out[self.motion.candidates[support]] = values * self.form.unit.ravel()[support]
        return out

    def _scaled(self, coef: Floats) -> Floats:
        """(candidates, 1) of flat coefficients."""
        return self.form.scaled(coef[self.motion.candidates][:, None])

    def _shaped(self, flat: Floats) -> Floats:
        """(terms, states) of the problem."""
        return self.motion.narrowed(flat)[: len(self.problem.summary.terms)]

    def _coefficients(self, fit: SupportFit) -> tuple[Floats, Floats]:
        """Flat coefficients of a fit, and their errors."""
        errors = np.linalg.norm(fit.spread, axis=1)
        return self._physical(fit.support, fit.x), self._physical(fit.support, errors)

    def _covariance(self) -> tuple[Floats, Floats]:
        """(k, k) covariance of the coefficients and flat errors, never below what blocks of rows say."""
        own, best, options = self.own, self.found.best, self.found.options
        unit = self.form.unit.ravel()[own.support]
        covariance = (own.spread * unit[:, None]) @ (own.spread * unit[:, None]).T
        classical = np.sqrt(np.diagonal(covariance))
        blocks = self.motion.objectives(best.fitted, best.support, blocks=BLOCKS)
        size = np.ones(len(classical))
        if blocks is not None and len(blocks) > 1 and len(best.support):
            rows = replace(options.rows, matrix=options.rows.matrix[:, best.support])
            fit = refit(Regression(blocks, rows), np.arange(len(best.support)))
            known = classical > 0
            size[known] = np.maximum(fit.error[:, 0][known] / classical[known], 1.0)
        covariance = covariance * size[:, None] * size
        return covariance, self._physical(own.support, classical * size / unit)

    def _near(self) -> list[_Beside]:
        """Models almost as good as the best, which is the first.

        Models that were fitted have their own criterion; others are judged by the rows at the best's states.
        """
        supports, own, best = self.supports, self.own, self.found.best
        known: dict[bytes, tuple[SupportFit, float]] = {_terms(own): (own, 0.0)}
        memory = 1.0 if self.motion.memory is None else float(self.motion.memory.mean())
        for met in self.found.met[1:]:
            above = (met.criterion - best.criterion) / memory
            fit = supports.possible(np.searchsorted(self.motion.candidates, met.support))
            if fit is not None and above <= NEAR and not met.blurred:
                known.setdefault(_terms(fit), (fit, above))
        for rival in rivals(supports, own, NEAR):
            known.setdefault(_terms(rival.fit), (rival.fit, rival.above))
        ranked = sorted(known.values(), key=lambda pair: pair[1])
        ranked = [(own, 0.0)] + [(f, max(a, 0.0)) for f, a in ranked if f is not own]
        return [_Beside(*self._coefficients(f), a) for f, a in ranked[:_MOST_NEAR]]

    def _path(self, model: Model) -> Path:
        """The models of the run around the chosen one, from few terms to many."""
        supports, own, chosen = self.supports, self.own, len(self.own.support)
        fits = {chosen: own}
        first: dict[int, Ints] = {}
        for support, _ in self.result.path:
            if 0 < len(support) <= 3 * chosen + 10:
                first.setdefault(len(support), support)
        for size in sorted(first, key=lambda size: (abs(size - chosen), size)):
            fit = None if size in fits or len(fits) > 2 * _AROUND else supports.possible(first[size])
            if fit is not None:
                fits[size] = fit
        ordered = [fits[size] for size in sorted(fits)]
        models = tuple(model if fit is own else self._made(*self._coefficients(fit)) for fit in ordered)
        rows = max(self.form.objective.rows, 1)
        scores = tuple(supports.criterion(fit) / rows for fit in ordered)
        return Path(models, scores, ordered.index(own), "χ² + z² k at the fitted states, per row")


def _terms(fit: SupportFit) -> bytes:
    """What tells one model from another: constraints may keep coefficients of a support at zero."""
    return bytes(fit.support[fit.x != 0].tobytes())


def _inclusion(coef: Floats, near: Sequence[_Beside]) -> Floats:
    """Weight of the models that have a term, exp(−Δ/2) each."""
    weights = np.exp(-0.5 * np.array([one.above for one in near]))
    present = np.array([coef != 0, *(one.coef != 0 for one in near[1:])], dtype=np.float64)
    return np.asarray(weights @ present / weights.sum())


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
