"""One pass at measured states: the rows of all data as sums, a rule, and the model that it picks.

The terms are evaluated at the measurements, so their columns have errors too. In return one pass over the
data is enough, which may be larger than memory, or fields.

1. The rows are added up piece by piece (`accumulate`), and posed with the constraints.
2. With a first model the drift of the noise and the error of the integrals are estimated (`reposed`).
3. A rule picks a support (`selection.choose`). If the evidence knows better standard errors, terms that are
   not worth their price by them are dropped (`_OnePass`), and near models compared.
   Where noise was taken out of all terms, the rule picks once more from those it picked.
4. The model is inferred from the rows (`inference`).

The cost is one pass over the data, or two where step 2 changes the drift, and no more than the solver's for
the rest.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import ClassVar, cast

import numpy as np

from cindy._arrays import Floats
from cindy.basis import Basis
from cindy.data import Source, Trajectory, some_segments
from cindy.errors import DataError, NoModelError
from cindy.findings import Finding
from cindy.formulation import Integral, feedback_of_model
from cindy.identification.inference import Estimates, Inference, not_significant, plain_findings
from cindy.model import Model
from cindy.problem import Problem, at_samples
from cindy.regression import Refit
from cindy.search import NEAR, Settings
from cindy.selection import BIC, EFFORT, Candidates, Choice, Selection, Significance, Terms, choose, rivals
from cindy.solver import Correction, Step
from cindy.summary import Summary

Estimator = Callable[[Problem, Estimates], Estimates]
"""Coefficients and errors by what is known of the noise, from those of least squares on the same terms."""
Leaves = Callable[[Sequence[Floats]], "Floats | None"]
"""(models, states) mean squared residuals in units of the noise; None where the noise is not known."""


@dataclass(frozen=True, eq=False)
class _AtMeasuredStates(Inference):
    """Inference from the sums of a problem: one column a term, one target an equation."""

    scored_by: ClassVar[str] = "extended information criterion per row"

    @classmethod
    def of(cls, problem: Problem, choice: Choice, rule: Selection) -> _AtMeasuredStates:
        candidates = choice.candidates
        price = rule.priced(candidates)
        return cls(problem, problem.form, candidates, choice.result, choice.support, price)

    def score(self, fit: Refit) -> float:
        # The same for all rules, so that their models can be compared.
        regression = self.candidates.regression
        rows = regression.total.rows * regression.shape[1]
        price = BIC().price(rows, regression.shape[0])
        return float(np.log(max(fit.loss, 1e-300))) + price * fit.free / rows


def solve(
    problem: Problem,
    *,
    correction: Correction | None = None,
    selection: Selection | None = None,
    tol: float = 1e-6,
    max_iter: int = 10_000,
    callback: Callable[[Step], bool | None] | None = None,
    least: str = "significant",
) -> Model:
    """The model that a selection rule picks for a problem, with the certificate of the solver's run.

    correction, selection, tol, max_iter, callback: as in `identify`
    least: "best" returns the most important term alone, with a finding, where the rule keeps no term

    >>> import numpy as np
    >>> import cindy
    >>> t = np.linspace(0, 6, 200)
    >>> swing = cindy.Trajectory(t, np.stack([np.cos(t), -np.sin(t)], axis=1), ("x", "v"))
    >>> problem = cindy.Problem(cindy.accumulate(swing, cindy.Polynomial(1)))
    >>> print(solve(problem).to_text(errors=False))
    x' =  1 v
    v' = -1 x
    """
    rule = Significance() if selection is None else selection
    return model_of(problem, Settings(rule, correction, tol, max_iter, callback, least=least))


def model_of(
    problem: Problem, settings: Settings, *, estimator: Estimator | None = None, leaves: Leaves | None = None
) -> Model:
    """`solve` with the settings in one object, for evidence that may know the noise of its rows.

    estimator: better coefficients and errors on given terms; leaves: residuals in units of the noise
    """
    if not isinstance(problem, Problem):
        raise DataError(f"solve: `problem` must be a Problem, but is {problem!r}.")
    once = _OnePass(problem, settings, estimator, leaves)
    model, among = once.model(), np.arange(len(problem.summary.terms))
    # Without noise to take out nothing changes; constraints may need terms that were not chosen.
    by_price = settings.selection.by_price
    calibrated = problem.summary.spurious is not None and not problem.constraints and by_price
    # From very many terms noise is taken out inaccurately. Among 190 terms, an equation of three gets four
    # false ones at 18 standard errors in 10 % of noise (benchmark: measured, the nonlinear Schrödinger
    # equation). The rule therefore picks again among the terms that it picked, with noise taken out of these
    # alone, until all of them stay.
    while calibrated and 1 < np.count_nonzero(model.coef.any(axis=1)) < len(among):
        among = np.flatnonzero(model.coef.any(axis=1))
        try:
            some = replace(problem, summary=problem.summary.of_terms(among))
            fewer = replace(once, problem=some).model()
        except NoModelError:
            break
        if np.count_nonzero(fewer.coef) >= np.count_nonzero(model.coef):
            break
        # Whether terms depend on each other is a question to all of them.
        dependent = [finding for finding in model.findings if finding.code == "dependent-terms"]
        others = [finding for finding in fewer.findings if finding.code != "dependent-terms"]
        model = replace(fewer, findings=(*dependent, *others))
    return model


@dataclass(frozen=True, eq=False)
class _OnePass:
    """Steps 3 and 4, from the rows of a problem as they are."""

    problem: Problem
    settings: Settings
    estimator: Estimator | None
    leaves: Leaves | None

    def model(self) -> Model:
        """The model that the rule picks."""
        how, rule = self.settings, self.settings.selection
        form = self.problem.form
        choice = choose(form, rule, how.correction, tol=how.tol, max_iter=how.max_iter, callback=how.callback)
        if not np.any(choice.fit.x):
            if how.least != "best":
                raise rule.nothing_kept("solve")
            # A rule may keep nothing; where a model is wanted all the same, the most important term alone is
            # one.
            alone = replace(self, settings=replace(how, selection=Terms(1), least="significant")).model()
            return replace(alone, findings=(not_significant(), *alone.findings))
        choice, estimates = self._shown_by_errors(choice)
        if self.leaves is not None and rule.by_price:
            choice, estimates = self._reconsidered(choice, estimates, self.leaves)
        inference = _AtMeasuredStates.of(self.problem, choice, rule)
        model = inference.inferred(estimates) if rule.refits else inference.alone(estimates)
        return replace(
            model,
            noise=choice.fit.left * self.problem.size,
            findings=tuple(_findings(self.problem, choice)),
            settings={
                "selection": repr(rule),
                "correction": repr(choice.correction),
                "tol": rule.tolerance(how.tol),
            },
        )

    def _shown_by_errors(self, choice: Choice) -> tuple[Choice, Estimates]:
        """The choice without terms that are not worth their price by the errors that the evidence knows.

        A rule judges terms by the scatter between some fifty blocks, which is itself uncertain by a tenth, so
        that among many false terms one whose error came out too small is kept. Where the evidence knows the
        errors that noise makes, those are far more precise, and the weakest term is dropped while

            ξ_i² / error_i² ≤ price of a coefficient (Bonferroni's quantile, squared, for Significance)

        `python -m benchmarks pde` has no true term below this where all terms are found.
        """
        problem, rule = self.problem, self.settings.selection
        while True:
            estimates = Estimates(problem.physical(choice.fit.x), problem.physical(choice.fit.error))
            if self.estimator is None:
                return choice, estimates
            estimates = self.estimator(problem, estimates)
            coef, error = estimates.coef.ravel(), estimates.error.ravel()
            support = np.flatnonzero(coef)
            if not rule.by_price or len(support) < 2:
                return choice, estimates
            # A coefficient that a constraint fixes has no error and no price.
            worth = np.full(len(support), np.inf)
            np.divide(coef[support] ** 2, error[support] ** 2, out=worth, where=error[support] > 0)
            if worth.min() > rule.price(problem.summary.total.rows, coef.size):
                return choice, estimates
            smaller = choice.on(problem.form, np.delete(support, worth.argmin()))
            if np.count_nonzero(smaller.fit.x) >= len(support):
                # Constraints bring the term back, so it stays.
                return choice, estimates
            choice = smaller

    def _reconsidered(self, choice: Choice, estimates: Estimates, leaves: Leaves) -> tuple[Choice, Estimates]:
        """The model that was chosen, or a better one near it; the equations group by group.

        1. Rows that overlap are almost equal, and the search may end in a local minimum of its criterion. A
           model with no more terms and a smaller criterion takes the place of the chosen one. For λ-ω
           reaction and diffusion at 50 % of noise (v³)_xx + (u² v)_xx was chosen instead of v_xx (benchmark:
           pde).
        2. Where an equation leaves more than noise, a near model that leaves noise alone takes its place. For
           the Allen-Cahn equation at 100 % (u³)_xx was chosen instead of u³ and u_xx, with residuals twice as
           large as noise makes them.
        """
        problem, rule = self.problem, self.settings.selection
        width, most = estimates.coef.shape[1], EFFORT.field_estimates_explained
        residuals = leaves([estimates.coef])
        for group in _AtMeasuredStates.of(problem, choice, rule).groups():
            equations = np.unique(group.columns % width)
            rest = np.setdiff1d(choice.support, group.columns)
            others = rivals(group.supports, group.own, NEAR)
            # Step 1. Terms that would come in addition were not significant: fewer or others are tried.
            tried = [rival for rival in others if rival.above < 0 and rival.fit.free <= group.own.free][:1]
            wrong = not tried and residuals is not None and bool((residuals[0, equations] > most).any())
            if wrong:
                tried = others[: EFFORT.field_estimates_rivals]
            near = [
                choice.on(problem.form, np.union1d(rest, group.columns[rival.fit.support])) for rival in tried
            ]
            if wrong and near:
                # Step 2.
                left = leaves([problem.physical(other.fit.x) for other in near])
                explained = [] if left is None else [(row <= most).all() for row in left[:, equations]]
                near = [near[k] for k in np.flatnonzero(explained)]
            if near:
                choice, estimates = self._shown_by_errors(near[0])
        return choice, estimates


def _findings(problem: Problem, choice: Choice) -> list[Finding]:
    """Findings on the terms, the run of the solver, and a radius that binds."""
    summary, run = problem.summary, choice.result
    status = "" if run.converged else run.status.value
    rank, noisy = problem.regression.independent, summary.spurious is not None
    findings = plain_findings(summary.skipped, rank, len(summary.terms), status, noisy=noisy)
    if problem.radius is not None and problem.region.norm(choice.fit.x) >= problem.radius * (1 - 1e-9):
        message = f"The radius {problem.radius:g} binds: larger coefficients would fit better."
        findings.append(Finding("radius-binds", message, {"radius": problem.radius}))
    return findings


def reposed(
    problem: Problem,
    source: Source,
    data: list[Trajectory],
    gather: Callable[..., Summary],
    *,
    drift_known: bool,
) -> Problem:
    """The problem in the integral form, with a better drift of the noise and a floor for the residuals.

    1. A few terms are fitted by least squares, which estimates the Jacobian well enough; the solver need not
       run for it.
    2. The drift of the noise follows from this model. If it differs from the rough guess by which the rows
       were made, a second pass over the data makes them again, where the data can be read again.
    3. The floor is the error of the quadrature and of rounding: residuals below it are not to be explained by
       terms.
    """
    form, basis = cast(Integral, problem.summary.formulation), problem.summary.basis
    # Step 1 leaves out laws that hold at samples only.
    first = replace(problem, constraints=tuple(c for c in problem.constraints if not at_samples(c)))
    first.require_feasible()
    start = Candidates(first.regression, first.form.pilot, first.size)
    rows, size = first.regression.total.rows, int(np.prod(first.regression.shape))
    fit = start.refit(start.by_price(Significance().price(rows, size)))
    coef, noise = first.physical(fit.x), fit.left * first.size
    # Step 2. A drift that the user gave stays, even where it is wrong.
    feedback = form.feedback if drift_known else _drift(form, coef, noise, basis, data)
    if source.again and feedback != form.feedback:
        form = replace(form, feedback=feedback)
        problem = replace(problem, summary=gather(source, formulation=form))
    # Step 3.
    values = np.abs(np.concatenate([run.x for run in data]))
    rounding = EFFORT.measured_rounding * np.nanmax(values, axis=0)
    return replace(problem, floor=np.hypot(_quadrature_error(form, basis, coef, data), rounding))


def _drift(form: Integral, coef: Floats, noise: Floats, basis: Basis, data: list[Trajectory]) -> float | None:
    """The feedback of a model, or the guess by which the rows were made, where the two are close."""
    feedback = feedback_of_model(coef, noise, basis, data, form.order, form.window or 0)
    guess = form.feedback or 0.0
    close = guess > 0 and 1 / EFFORT.measured_close <= feedback / guess <= EFFORT.measured_close
    return form.feedback if close else feedback


def _quadrature_error(form: Integral, basis: Basis, coef: Floats, data: Sequence[Trajectory]) -> Floats:
    """(states,) root mean square difference between the rows of a model by this rule and a lower degree.

    Where samples are dense the rule in use is better than that by orders of magnitude; where they are sparse,
    both have about this error, and no term should be kept to explain it.
    """
    fitted = form.fit_to(data)
    assert fitted.degree is not None
    # Two degrees lower: on a symmetric window a single one changes nothing.
    coarser = replace(fitted, degree=max(fitted.degree - 2, 1))
    squares, count = np.zeros(coef.shape[1]), 0
    for segment in some_segments(data):
        if len(segment) < fitted.min_samples:
            continue
        edges = fitted.edges(len(segment))
        fine = fitted.matrix(segment, basis, edges)[:, : len(coef)]
        rough = coarser.matrix(segment, basis, edges)[:, : len(coef)]
        squares += np.sum(((fine - rough) @ coef) ** 2, axis=0)
        count += len(fine)
    return np.asarray(np.sqrt(squares / max(count, 1)))
