"""Inference: from rows, a run of the solver and a support to a `Model`, for every kind of evidence.

Trajectories with denoised or measured states and fields all give white rows, a run of the solver on them and
the support Ŝ that was chosen. Supports are compared by

    C(S) = χ²(S) / s² + Σ price_i over S,      s² = 1 where the noise of the rows is known,
                                               s² = effect · χ²(Ŝ) / (rows − |Ŝ|) otherwise,

with the design effect of the blocks, by which rows that depend on each other count less.

1. Coefficients and errors on Ŝ come from least squares under all constraints, with errors clustered by
   block (`refit`), unless the evidence has a better estimate (`Estimates`).
2. The near models are those that differ from Ŝ by one or two moves and whose C is larger by 14 at most
   (`rivals`). Groups of equations that no equality connects are independent: their C add up.
3. The inclusion of a term is the weight exp(−ΔC / 2) of the near models that have it (Burnham and Anderson,
   Model Selection and Multimodel Inference, 2002).
4. The path shows nested models through Ŝ: terms leave in the order of their significance, and enter in the
   order of what they explain.
5. The certificate is the gap of the run, at the coefficients of each model.

The cost is that of least squares on the models of the path and of the near models, all from one triangle.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import ClassVar, NamedTuple

import numpy as np

from cindy._arrays import Floats, Ints
from cindy._check import counted
from cindy.findings import Finding
from cindy.least_squares import LeastSquares
from cindy.model import Denoised, Model, Path
from cindy.problem import Physics, StandardForm
from cindy.regression import Refit, Regression, refit
from cindy.search import BLOCKS, NEAR, Found, Search, WhiteSums, white_candidates
from cindy.selection import EFFORT, Candidates, Judged, SupportFit, Supports, rivals, within_radius
from cindy.solver import Result, Run, Step, conditional_gradient
from cindy.states import (
    NEARBY,
    Motion,
    by_averages,
    exact,
    propagated,
    with_unknown_sizes,
)

_GROWS = 1.3
"""Factor by which the variance of the noise may grow when a term is dropped. False terms that compensate for
a running mean in the sensor explain a tenth (benchmark: wrong_noise)."""


class Estimates(NamedTuple):
    """Coefficients of chosen terms in physical units, with standard errors.

    coef, error: (terms, states); covariance: (k, k) of the coefficients that are not zero, or None
    """

    coef: Floats
    error: Floats
    covariance: Floats | None = None


class _Beside(NamedTuple):
    """A near model: scaled coefficients and errors, and its criterion less that of the chosen model."""

    x: Floats
    error: Floats
    above: float


@dataclass(frozen=True, eq=False)
class Inference:
    """Rows, a run of the solver on them, and the support that was chosen.

    physics: names, constraints and radius; form: the rows, scaled; candidates: the rows as a regression
    support: flat indices of the columns that were chosen; price: of every column, or of each
    """

    physics: Physics
    form: StandardForm
    candidates: Candidates
    result: Result
    support: Ints
    price: Floats | float

    scored_by: ClassVar[str] = "criterion (χ² + z² k) per row, at the denoised states"
    """The name of the scores of the path."""

    def table(self, flat: Floats) -> Floats:
        """(terms, states) from physical values of all columns."""
        return flat.reshape(self.form.unit.shape)

    def flat(self, table: Floats) -> Floats:
        """Physical values of all columns from (terms, states)."""
        return table.ravel()

    def score(self, fit: Refit) -> float:
        """The score of a model on the path, the lower the better."""
        prices = np.broadcast_to(self.price, (self.form.unit.size,))[fit.x.ravel() != 0]
        # Where equalities tie coefficients, as many count as are free.
        cost = fit.free * float(np.mean(prices)) if len(prices) else 0.0
        return (fit.loss + cost) / max(self.candidates.regression.total.rows, 1)

    def known_beside(self) -> Sequence[tuple[Ints, float]]:
        """Supports that were fitted themselves, and their criteria less that of the chosen one."""
        return ()

    def groups(self) -> Iterator[Judged]:
        """The equations, in groups that equalities connect."""
        for targets in self.candidates.groups:
            yield self.candidates.judged(targets, self.price, self.support)

    def inferred(self, estimates: Estimates) -> Model:
        """The model with these estimates on its support, its near models, inclusion, path and certificate."""
        model = self._model(estimates.coef, estimates.error)
        beside = self._beside()
        unit = self.form.unit.ravel()
        others = tuple(
            self._model(self.table(near.x * unit), self.table(near.error * unit)) for near in beside[1:]
        )
        above = tuple(near.above for near in beside)
        return replace(
            model,
            covariance=estimates.covariance,
            inclusion=_inclusion((model, *others), above),
            near=Path((model, *others), above, 0, "criterion (−2 log p + z² k), above the best"),
            path=self._path(model),
            result=Run.of(self.result),
        )

    def alone(self, estimates: Estimates) -> Model:
        """The model that the run itself ended with, for rules that neither refit nor compare."""
        model = self._model(estimates.coef, estimates.error)
        return replace(model, path=Path((model,), (0.0,), 0), result=Run.of(self.result))

    def _model(self, coef: Floats, error: Floats) -> Model:
        """A model of coefficients (terms, states), with its gap and the violation of constraints (step 5)."""
        names = self.physics.names
        return Model(
            coef,
            names.basis,
            names.states,
            inputs=names.inputs,
            coef_error=error,
            formulation=names.formulation,
            gap=self.form.gap(self.form.scaled(self.flat(coef).reshape(self.form.unit.shape)), self.result),
            radius=self.form.region.radius,
            violation=self.physics.violation(coef),
            constraints=tuple(str(c) for c in self.physics.constraints),
        )

    def _beside(self) -> list[_Beside]:
        """The near models, after the chosen one, which is the first."""
        nothing = np.zeros(self.form.unit.size)
        best = [_Beside(nothing, nothing, 0.0)]
        for group in self.groups():
            options = self._options(group)
            # Step 2: groups of equations are independent, so that criteria add up; only the best
            # combinations are carried on.
            combined = [(model, fit, model.above + above) for model in best for fit, above in options]
            near = sorted((one for one in combined if one[2] <= NEAR), key=lambda one: one[2])
            best = []
            for model, fit, above in near[: EFFORT.inference_most_near]:
                x, error, columns = model.x.copy(), model.error.copy(), group.columns[fit.support]
                x[columns], error[columns] = fit.x, np.linalg.norm(fit.spread, axis=1)
                best.append(_Beside(x, error, above))
        return best

    def _options(self, group: Judged) -> list[tuple[SupportFit, float]]:
        """Fits of one group of equations, the chosen one first, and their criteria less that of the first."""
        supports, own = group.supports, group.own
        known: dict[bytes, tuple[SupportFit, float]] = {}
        for columns, above in self.known_beside():
            fit = supports.possible(np.flatnonzero(np.isin(group.columns, columns)))
            if fit is not None and above <= NEAR:
                known.setdefault(_terms(fit), (fit, above))
        for rival in rivals(supports, own, NEAR):
            known.setdefault(_terms(rival.fit), (rival.fit, rival.above))
        known.pop(_terms(own), None)
        # A rule may have chosen a model whose criterion is not the least: others count as equal then.
        others = [(fit, max(above, 0.0)) for fit, above in known.values()]
        return [(own, 0.0), *sorted(others, key=lambda pair: pair[1])]

    def _path(self, model: Model) -> Path:
        """Step 4: nested models through the chosen one: all sizes near it, fewer far below it."""
        chosen, around = len(self.support), EFFORT.inference_around
        ranking = self.candidates.ranking(self.support, chosen + around)
        near = range(max(1, chosen - around), min(len(ranking), chosen + around) + 1)
        far = np.linspace(1, max(chosen, 1), around).astype(int).tolist()
        models: list[Model] = []
        scores: list[float] = []
        place = None
        seen = {(model.coef != 0).tobytes()}
        for size in sorted({*near, *far}):
            fit = self.candidates.possible(np.sort(ranking[:size]))
            if fit is None:
                continue
            table = self.table(self.form.physical(fit.x).ravel())
            pattern = (table != 0).tobytes()
            if size != chosen and (pattern in seen or not table.any()):
                continue
            seen.add(pattern)
            if size == chosen:
                place = len(models)
            error = self.table(self.form.physical(fit.error).ravel())
            models.append(model if size == chosen else self._model(table, error))
            scores.append(self.score(fit))
        return Path(tuple(models), tuple(scores), place, self.scored_by)


def _terms(fit: SupportFit) -> bytes:
    """A key of the terms of a fit: constraints may keep coefficients of a support at zero."""
    return bytes(fit.support[fit.x != 0].tobytes())


def _inclusion(models: Sequence[Model], above: Sequence[float]) -> Floats:
    """(terms, states) weight of the models that have a term, exp(−Δ/2) each."""
    # Step 3: exp(−ΔC/2) is the probability of a model relative to the best, where prices stand for priors.
    weights = np.exp(-0.5 * np.array(above))
    present = np.array([model.coef != 0 for model in models], dtype=np.float64)
    return np.asarray(np.tensordot(weights, present, axes=1) / weights.sum())


@dataclass(frozen=True, eq=False)
class LastPass(Inference):
    """Inference at denoised states: one column a candidate, one target for all equations, noise of size 1.

    motion: the measurements and the candidates; found: where the search ended
    """

    motion: Motion
    found: Found

    @classmethod
    def of(
        cls, physics: Physics, motion: Motion, found: Found, callback: Callable[[Step], bool | None] | None
    ) -> LastPass:
        """With the run of the solver on the rows of all candidates, as the user asked for it."""
        options, best = found.options, found.best
        form = found.form(motion)
        result = conditional_gradient(
            form.objective,
            form.oracle,
            options.correction,
            tol=options.tol,
            max_iter=options.max_iter,
            callback=callback,
        )
        support = np.searchsorted(motion.candidates, best.support)
        price = options.prices(motion.candidates)
        return cls(physics, form, white_candidates(form, result), result, support, price, motion, found)

    @cached_property
    def supports(self) -> Supports:
        """Least squares on supports of the candidates."""
        return self.candidates.supports(self.candidates.groups[0], self.price)

    @cached_property
    def own(self) -> SupportFit:
        """The fit on the support that the search found."""
        return self.supports.fit(self.support)

    def table(self, flat: Floats) -> Floats:
        motion = self.motion
        coef = np.zeros(len(motion.basis.names(motion.variables)) * motion.states)
        coef[motion.candidates] = flat
        return motion.narrowed(coef)[: len(self.physics.names.terms)]

    def flat(self, table: Floats) -> Floats:
        motion = self.motion
        coef = np.zeros(len(motion.basis.names(motion.variables)) * motion.states)
        coef[motion.widened(np.arange(table.size))] = table.ravel()
        return coef[motion.candidates]

    def known_beside(self) -> Sequence[tuple[Ints, float]]:
        """Models that the search fitted, with their criteria at their own states.

        Where noise has a memory the criterion counts samples that are not independent, and is divided by it.
        """
        motion, best = self.motion, self.found.best
        memory = 1.0 if motion.memory is None else float(motion.memory.mean())
        return [
            (np.searchsorted(motion.candidates, met.support), (met.criterion - best.criterion) / memory)
            for met in self.found.met[1:]
            if not met.blurred
        ]

    def model(self) -> Model:
        """The model that the search found."""
        motion, best = self.motion, self.found.best
        coef, findings = self._within_radius()
        errors = np.zeros(self.form.unit.size)
        errors[self.own.support] = np.sqrt(np.diagonal(self.covariance))
        return replace(
            self.inferred(Estimates(coef, self.table(errors), self.covariance)),
            noise=self._of_measured(motion.noise(best.fitted), np.nan),
            noise_memory=self._of_measured(motion.noise_memory, 1.0),
            model_error=np.sqrt(best.fitted.error[motion.sought]),
            findings=findings,
            denoised=True,
            fitted=Denoised.of(motion, best.fitted, self._white(), motion.candidates, self.form.rows),
        )

    def _within_radius(self) -> tuple[Floats, tuple[Finding, ...]]:
        """The coefficients of the search, or where a radius binds, those within it; and a finding on that."""
        radius = self.found.options.radius
        values = np.zeros(self.form.unit.size)
        values[self.support] = self.found.best.fitted.coef
        scaled = self.form.scaled(values[:, None])
        if radius is not None and self.form.region.norm(scaled) > radius:
            values = self.form.physical(within_radius(self.form, self.support)).ravel()
            message = f"The radius {radius:g} binds: larger coefficients would fit better."
        elif radius is not None and self.form.region.norm(self.result.x) > radius * (1 - 1e-6):
            message = f"The radius {radius:g} binds: terms for which it leaves no room were not considered."
        else:
            return self.table(values), ()
        return self.table(values), (Finding("radius-binds", message, {"radius": radius}),)

    def _of_measured(self, values: Floats, otherwise: float) -> Floats:
        """(states,) from values of the measured states, which come first; hidden states have no noise."""
        hidden = max(len(self.physics.names.states) - len(values), 0)
        return np.concatenate([values, np.full(hidden, otherwise)])

    def _white(self) -> LeastSquares:
        """The white rows of all candidates, in physical units."""
        blocks = self.form.blocks
        return sum(blocks, LeastSquares.empty(blocks[0].terms, blocks[0].targets))

    @cached_property
    def covariance(self) -> Floats:
        """(k, k) covariance of the coefficients of the best model."""
        motion, fitted = self.motion, self.found.best.fitted
        directions = self.own.spread * self.form.unit.ravel()[self.own.support][:, None]
        covariance = directions @ directions.T
        if motion.memory is None and motion.forcing is not None and not fitted.law.unknown:
            # Errors by blocks do not hold here: determinants correct the scores of kicked rows in total, not
            # in each block.
            if isinstance(motion, WhiteSums):
                # All sums grow with the data: a part of them tells by how much the errors grow.
                return motion.share * with_unknown_sizes(motion.kept, fitted, covariance / motion.share)
            return with_unknown_sizes(motion, fitted, covariance)
        # Sums over all data hold no states, which the errors of an exact law need.
        if isinstance(motion, WhiteSums) or not exact(motion, fitted):
            return self._between_blocks(covariance)
        covariance = propagated(motion, fitted, directions)
        if len(self.form.rows):
            return covariance
        return covariance + by_averages(motion, fitted, self.found.options.price)

    def _between_blocks(self, covariance: Floats) -> Floats:
        """The covariance by the white rows, enlarged where blocks of them scatter more."""
        best, options = self.found.best, self.found.options
        blocks = self.motion.objectives(best.fitted, best.support, blocks=BLOCKS)
        if blocks is None or len(blocks) < 2 or not len(best.support):
            return covariance
        rows = replace(options.rows, matrix=options.rows.matrix[:, best.support])
        return enlarged(covariance, Regression(blocks, rows))


def enlarged(covariance: Floats, regression: Regression) -> Floats:
    """The covariance by white rows, with errors that are no smaller than those by the scatter of blocks.

    The correlations stay as they are.

    regression: the blocks of white rows of the same coefficients, one target
    """
    classical = np.sqrt(np.diagonal(covariance))
    clustered = refit(regression, np.arange(len(classical))).error[:, 0]
    size, known = np.ones(len(classical)), classical > 0
    size[known] = np.maximum(clustered[known] / classical[known], 1.0)
    return np.asarray(covariance * size[:, None] * size)


def not_significant(worse: float | None = None) -> Finding:
    """The finding on a model that explains the data no better than chance, and is returned all the same.

    worse: by how much its criterion exceeds that of no law at all, where that is known
    """
    by = "" if worse is None else f" (the criterion is higher by {worse:.1f} than without any term)"
    message = (
        f'These equations explain the data no better than chance{by}; least="best" returned them '
        "nevertheless. Treat them as a guess."
    )
    return Finding("not-significant", message, {} if worse is None else {"worse": worse})


def plain_findings(
    skipped: int | Sequence[str], rank: int, terms: int, status: str, *, noisy: bool = False
) -> list[Finding]:
    """Findings on any model: data that were left out, terms that depend on each other, the run of the solver.

    skipped: the runs left out, or how many stretches, where only their number is known; rank: how many of
    the terms are independent; status: of a run that did not converge, or empty; noisy: whether noise hides
    terms that differ without it
    """
    findings = []
    if skipped:
        runs = () if isinstance(skipped, int) else tuple(skipped)
        count = skipped if isinstance(skipped, int) else len(runs)
        what = counted(count, "run") if runs else f"{counted(count, 'piece')} of the data"
        which = f": {', '.join(runs[:4])}{', …' if count > 4 else ''}" if runs else ""
        message = f"{what} {'was' if count == 1 else 'were'} left out, with too few samples to use{which}."
        findings.append(Finding("short-stretches", message, {"count": count}))
    if rank < terms:
        message = (
            f"Only {rank} of the {terms} terms are independent on these data: other models fit equally well."
        )
        if noisy:
            message = (
                f"At this noise the data distinguish only {rank} of the {terms} terms: models with other "
                "terms may fit equally well."
            )
        findings.append(Finding("dependent-terms", message, {"independent": rank, "terms": terms}))
    if status:
        message = f"The solver ended before its gap fell below the tolerance: {status}."
        findings.append(Finding("not-converged", message, {"status": status}))
    return findings


def shown_by_errors(last: LastPass) -> LastPass:
    """The last pass without terms that are not significant by its errors, where noise has a memory.

    The search judges terms by white rows, and memory by one number an equation. The final errors are more
    precise: they allow for how slow each term is, and for what a filter would change. The weakest term is
    dropped while its 95 % interval includes zero, unless the noise of a state would grow by more than a
    false term explains: then only a combination of terms is known, which the findings on collinear terms
    name.
    """
    options, motion = last.found.options, last.motion
    free = motion.memory is not None and not (len(options.rows) or last.found.best.fitted.law.unknown)
    while free and len((best := last.found.best).support) > 1:
        fitted = best.fitted
        z = np.abs(fitted.coef) / np.sqrt(np.diagonal(last.covariance))
        weakest = int(np.argmin(z))
        if z[weakest] > 1.96:
            break
        law = replace(fitted.law, support=np.delete(best.support, weakest))
        start = replace(fitted, law=law, coef=np.delete(fitted.coef, weakest), settled=False)
        met = Search(motion, options).fit(start, NEARBY)
        if met is None or np.any(met.fitted.variance > _GROWS * fitted.variance):
            break
        found = replace(last.found, best=met, met=(met, *last.found.met))
        last = LastPass.of(last.physics, motion, found, None)
    return last
