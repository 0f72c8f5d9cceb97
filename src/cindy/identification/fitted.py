"""Models whose states are denoised, of few candidates and of very many.

`identify_with_states` goes through the steps of every such model:

1. Find the law on a part of the data (`_some_of`), among the likely candidates (`_screened`). If the samples
   are too far apart for the law that was found, divide the steps and search again.
2. Search once more where the noise is not as was assumed (`second_look`), and test for random kicks
   (`with_kicks`).
3. Let a rule without a price pick at the denoised states (`picked`), and confirm the law on all data.
4. Drop the terms that are not significant by their final errors, build the model (`LastPass`) and collect its
   findings.

`refined` serves thousands of candidates, whose rows at denoised states would take too much time and memory.
It begins with the law that one pass found. The score of a candidate, cᵀ S⁻¹ r with c its column and r the
residual of the law, needs one solve for all of them (Rao, Proc. Camb. Phil. Soc. 44, 1948); the length of the
part of c that is orthogonal to the columns of the law is estimated from a few stretches. Terms are then
chosen among those of the law and those of the largest scores.
"""

from __future__ import annotations

from collections.abc import Sequence, Set
from dataclasses import dataclass, field, replace
from functools import partial
from typing import ClassVar

import numpy as np
from scipy.sparse import csr_array

from cindy._arrays import Floats, Ints
from cindy.basis import RUN, listed
from cindy.errors import NoModelError
from cindy.findings import Finding, has_finding
from cindy.identification.inference import LastPass, not_significant, plain_findings, shown_by_errors
from cindy.identification.judgement import instrument_fault
from cindy.least_squares import Rows, connected
from cindy.model import Model
from cindy.problem import Physics, at_samples
from cindy.regression import independent
from cindy.search import (
    Found,
    Look,
    Met,
    Options,
    Request,
    Search,
    confirmed,
    findings_beside,
    forced,
    least_squares_of,
    look_again,
    picked,
    rows_by_run,
    runs_apart,
    search,
    solve_with_samples,
    stepped_down,
    triangle_of,
    walk_of,
    with_kicks,
)
from cindy.selection import EFFORT, Supports, Terms
from cindy.states import Fitted, Motion, drift_of_data, first_objective, quadrature_error, start_of


@dataclass(frozen=True)
class _Alone:
    """When runs count as following equations of their own."""

    explained: float = 0.8
    """R² of the same coefficients for all runs, from sample to sample, above which they are not doubted."""
    left: float = 0.5
    """Share of the squares that coefficients of their own may leave. Growth at other temperatures leaves 0.4;
    Lorenz without its products, and a pendulum without its sine, leave 0.9."""
    chance: float = 1e-6
    """Probability below which the finding is reported, as for a single coefficient (`runs_apart`)."""


_ALONE = _Alone()


def identify_with_states(request: Request, motion: Motion) -> Model:
    """The model whose states are denoised, with laws that have a tolerance imposed at the samples."""
    searched = partial(_searched, request, motion, request.variance(motion))
    return solve_with_samples(request.physics(motion), request.data, searched)


def _searched(request: Request, motion: Motion, variance: Floats, physics: Physics) -> Model:
    """The model that the search ends with, on all data, and its findings."""
    options, skipped = request.options(motion, physics), _skipped(request, motion)
    whole, look = _looked(request, request.narrowed(motion, physics), variance, options)
    # Step 2. Kicks change the likelihood that terms are chosen by, hence before a rule picks. They would also
    # explain runs that do not share a coefficient.
    apart = None
    if look.found is not None:
        apart = runs_apart(look.motion, look.found, request.data) or _each_alone(look.motion, look.found)
    look, kicks = with_kicks(look, variance)
    # Step 3.
    found, chance = _required(look, request, variance, apart)
    motion = look.motion
    if motion.samples < whole.samples or request.pieces.source.whole is None:
        whole = replace(whole, candidates=motion.candidates, forcing=motion.forcing)
        motion, found = confirmed(request, whole, motion, found)
    # Step 4.
    last = LastPass.of(physics, motion, found, request.settings.callback)
    if request.settings.selection.by_price and motion is look.motion:
        last = shown_by_errors(last)
        found = last.found
    model = last.model()
    findings = (
        *chance,
        *look.findings,
        *model.findings,
        *_findings(request, look, found, model, skipped),
        *(() if look.found is None else findings_beside(request, look.motion, look.found, variance)),
        *(() if apart is None else (apart,)),
    )
    return forced(
        replace(model, findings=findings, settings=request.settings.to_dict()), kicks, found.options.price
    )


def _looked(request: Request, motion: Motion, variance: Floats, options: Options) -> tuple[Motion, Look]:
    """The motion of all data, and what the searches find in a part of them."""
    # Step 1. Terms and steps are found on a part of much data, and later confirmed on all of them.
    whole, part = motion, _screened(_some_of(motion, request.settings.seed), options, variance)
    found = search(part, options, variance)
    while found is not None and (parts := _parts_for(part, found)) > part.parts:
        # Samples are too far apart for the law that was found: errors of its integrals would be explained by
        # false terms. The search goes on from that law, on instants between the samples. Where the law has
        # changed, more of them may be needed.
        finer = request.motion(instants=parts)
        assert finer is not None
        whole, part = finer, replace(_some_of(finer, request.settings.seed), candidates=part.candidates)
        start = start_of(part, found.best.support, found.best.fitted.coef, variance)
        found = search(part, found.options, variance, start)
    if found is not None and len(part.candidates) == len(motion.candidates):
        found = stepped_down(part, found, variance)
    return whole, look_again(Look(part, found), variance)


def _some_of(motion: Motion, seed: int) -> Motion:
    """Stretches spread over the data, some 20,000 samples at most; all data if there are not many more.

    seed: of the draw of where the first stretch lies
    """
    enough = max(
        min(EFFORT.large_enough, int(EFFORT.large_work / max(len(motion.candidates), 1) ** 2)),
        EFFORT.large_fewest,
    )
    if motion.samples <= 1.5 * enough:
        return motion
    # Stretches are evenly spread from a random place on, as the beginnings of runs are often transients.
    share, offset = enough / motion.samples, np.random.default_rng(seed).random()
    records, before, taken = [], 0, 0
    for record in motion.records:
        number = np.arange(before, before + record.stretches)
        before += record.stretches
        keep = np.flatnonzero(np.floor((number + 1) * share + offset) > np.floor(number * share + offset))
        taken += len(keep)
        if len(keep):
            records.append(record.part(keep))
    return motion.part(records) if taken else motion


def _screened(motion: Motion, options: Options, variance: Floats) -> Motion:
    """The motion with the candidates that are likely at measured states, where there are very many."""
    if len(motion.candidates) <= EFFORT.large_many:
        return motion
    loop = Search(motion, options)
    form = loop.form((first_objective(motion, drift_of_data(motion, variance)),))
    supports = replace(Supports.of_form(form, options.prices(loop.columns, likelihood=True)), known=False)
    result, path = loop.path(form)
    best = supports.best(path, most=EFFORT.large_likely)
    likely: Ints = np.flatnonzero(result.x) if best is None else best.support
    # Constraints may need terms that explain nothing by themselves.
    likely = np.union1d(likely, supports.required)
    if best is not None:
        gain = supports.gains(best)
        likely = np.union1d(likely, np.argsort(-gain)[: max(EFFORT.large_likely - len(likely), 0)])
    # Candidates that equalities connect enter together.
    whole = np.flatnonzero(np.isin(supports.group, supports.group[likely]))
    return replace(motion, candidates=motion.candidates[whole])


def _required(
    look: Look, request: Request, variance: Floats, apart: Finding | None
) -> tuple[Found, tuple[Finding, ...]]:
    """What the rule picks, or with least="best" the best model that has terms; an error if there is neither.

    The findings say where the model that is returned is no better than chance.

    apart: the finding that the runs follow different equations, which the error then tells
    """
    found = look.found
    if found is None:
        raise NoModelError(
            "identify: no fit converged on these data: the denoised states diverge. "
            "Give `passes=1`, another basis, or more samples."
        )
    by_price = request.settings.selection.by_price
    if len(found.best.support) or not by_price:
        # A rule without a price, such as a number of terms, picks from the path whatever that is worth.
        try:
            return picked(request.settings.selection, look.motion, found), ()
        except NoModelError:
            if request.settings.least != "best":
                raise
    with_terms = tuple(met for met in found.met if len(met.support))
    if request.settings.least == "best" and by_price and with_terms:
        worse = with_terms[0].criterion - found.best.criterion
        return replace(found, best=with_terms[0], met=with_terms), (not_significant(worse),)
    if request.settings.least == "best":
        # No start led to a model with terms, or the rule keeps none: the most important term alone is one.
        return picked(Terms(1), look.motion, found), (not_significant(),)
    error = request.settings.selection.nothing_kept("identify")
    more = walk_of(look, variance) if apart is None else apart.message
    raise NoModelError(f"{error} {more}") if more else error


def _each_alone(motion: Motion, found: Found) -> Finding | None:
    """A finding where no coefficients serve all runs, and coefficients of their own serve each of them.

    The rows are those of all candidates, since the law that was found for all runs lacks terms where the
    runs contradict each other. The F test compares their least squares, over all runs and run by run. A
    missing term lowers the sum of squares of every run only a little.
    """
    from scipy.special import fdtrc

    fitted, candidates = found.best.fitted, motion.candidates
    varying = motion.basis.asks_for(RUN) or fitted.law.unknown or len(found.options.rows)
    known = None if varying else rows_by_run(motion, fitted, fitted.law.support)
    if known is None or len(known) < 2:
        return None
    table = np.concatenate([triangle_of(own) for own in known.values()])
    left, size = least_squares_of(table)[1], float(np.sum(table[:, -1] ** 2))
    # Where the law explains enough, or a run has too few samples for all candidates, nothing is tested.
    each = motion.rows / len(known) / max(motion.parts, 1)
    if left < (1 - _ALONE.explained) * size or 2 * len(candidates) > each:
        return None
    rows = rows_by_run(motion, fitted, candidates)
    assert rows is not None
    runs = [triangle_of(own) for own in rows.values()]
    together = least_squares_of(np.concatenate(runs))[1]
    alone = sum(least_squares_of(run)[1] for run in runs)
    more = (len(runs) - 1) * len(candidates)
    rest = motion.rows / max(motion.parts, 1) - more - len(candidates)
    chance = float(fdtrc(more, rest, (together - alone) / more / max(alone / rest, 1e-300)))
    if together < (1 - _ALONE.explained) * size or alone > _ALONE.left * together or chance > _ALONE.chance:
        return None
    message = (
        "The runs follow different equations: with coefficients of its own for every run the terms explain "
        f"{1 - alone / size:.2g} of the motion from sample to sample, with the same ones for all runs "
        f"{1 - together / size:.2g}. If a condition differs between the runs, such as a temperature or a "
        "dose, identify the runs one by one, or use `PerRun`."
    )
    return Finding("runs-differ", message, {"alone": 1 - alone / size, "together": 1 - together / size})


def _parts_for(motion: Motion, found: Found) -> int:
    """Into how many parts steps must be divided, so that the error of integrals is below the noise."""
    if not motion.parts or not len(found.best.support):
        return motion.parts
    error = quadrature_error(motion, found.best.fitted)
    # The error falls with the ninth power of the step, and more slowly where a state decays within a step.
    finer = motion.parts * int(np.ceil((10 * error) ** (1 / 18)))
    return motion.parts if error < 1.0 else min(finer, max(4, motion.parts))


def _skipped(request: Request, motion: Motion) -> list[str]:
    """The trajectories without a stretch that is long enough to use, by name or number."""
    used = {int(k) for record in motion.records for k in record.source}
    runs = enumerate(request.data)
    return [f'"{run.name}"' if run.name else f"number {k + 1}" for k, run in runs if k not in used]


def _findings(
    request: Request, look: Look, found: Found, model: Model, skipped: Sequence[str]
) -> tuple[Finding, ...]:
    """Findings on the terms, the run of the solver, unexplained motion and faults of an instrument."""
    assert look.found is not None
    motion, fitted, terms = look.motion, found.best.fitted, len(model.terms)
    rank = independent(motion.values(look.found.best.fitted, 4 * terms + 1_000))
    status = "converged" if model.result is None else model.result.status
    findings = plain_findings(skipped, rank, terms, "" if status == "converged" else status)
    large = (fitted.error * motion.step > 1e-2 * fitted.variance)[motion.sought]
    if large.any() and not has_finding(look.findings, "smooth-residual", "tiny-residual"):
        names = [name for name, unexplained in zip(model.states, large, strict=True) if unexplained]
        message = (
            f"The equations of {listed(names)} leave more than noise unexplained (see `model_error`): "
            "a term may be missing."
        )
        findings.append(Finding("unexplained-motion", message, {"states": names}))
    fault = instrument_fault(motion, look.found, request.data[0].time_unit)
    return (*findings, *(() if fault is None else (fault,)))


def refined(request: Request, motion: Motion, model: Model, *, anyway: bool) -> Model:
    """The model with denoised states, found from one at measured states, which is returned if none converges.

    anyway: whether to do so even where it takes very long
    """
    support = motion.widened(np.flatnonzero(model.coef))
    work = motion.rows * (10.0 * motion.states + len(support)) * len(support)
    physics, skipped = request.physics(motion), _skipped(request, motion)
    if (work > EFFORT.refinement_most_work and not anyway) or any(at_samples(c) for c in physics.constraints):
        return model
    start = start_of(motion, support, model.coef[model.coef != 0], request.variance(motion))
    loop = ManyTerms(request.narrowed(motion, physics), request.options(motion, physics))
    best = loop.follow(start, near=True)
    if best is None or not len(best.support):
        return model
    motion, found = loop.looked_at, Found(best, tuple(loop.models), loop.returned, loop.options)
    found = picked(request.settings.selection, motion, found)
    denoised = LastPass.of(physics, motion, found, request.settings.callback).model()
    findings = _findings(request, Look(motion, found), found, denoised, skipped)
    return replace(denoised, findings=(*denoised.findings, *findings), settings=model.settings)


@dataclass(eq=False)
class ManyTerms(Search):
    """The search among very many candidates: rows are made for the terms of a law and the likely ones.

    likely: the coefficients that the last rows were made for
    returned: whether the last rows led to the support that they were made at
    """

    likely: Ints = field(default_factory=lambda: np.zeros(0, dtype=np.intp))
    returned: bool = False

    rounds: ClassVar[int] = 8
    """A support that comes back ends it sooner. Four were needed where 16 of 20 terms were missing."""

    @property
    def looked_at(self) -> Motion:
        """The motion with the candidates of the last rows and those of all models."""
        return replace(self.motion, candidates=self._with_models(self.likely))

    def _with_models(self, likely: Ints) -> Ints:
        return np.unique(np.concatenate([likely, *(met.support for met in self.models)]))

    def candidates_at(self, fitted: Fitted) -> Ints | None:
        likely = _likely(self.motion, self.options.rows, fitted)
        if likely is None:
            return None
        self.likely = self._with_models(likely)
        return self.likely

    def following(self, met: Met, seen: Set[bytes]) -> Fitted | None:
        chosen = self.choose(met.fitted)
        self.returned = chosen is not None and np.array_equal(chosen.law.support, met.support)
        return chosen


def _likely(motion: Motion, rows: Rows, fitted: Fitted) -> Ints | None:
    """The coefficients of a law, those of the largest scores, and those that constraints tie to them."""
    gradient = _gradient(motion, fitted)
    size = None if gradient is None else _lengths(motion, fitted)
    if gradient is None or size is None:
        return None
    score = np.where(size > 0, gradient**2 / np.where(size > 0, size, 1.0), 0.0)
    score[np.isin(motion.candidates, fitted.law.support)] = 0.0
    best = motion.candidates[np.argsort(-score)[: EFFORT.refinement_likely]]
    likely = np.union1d(fitted.law.support, best)
    # Terms that explain something only together have no score alone: an equation with a large residual gets
    # all of its candidates.
    poor = np.flatnonzero(fitted.error * motion.step > EFFORT.refinement_poor * fitted.variance)
    whole = motion.candidates[np.isin(motion.candidates % motion.states, poor)]
    if len(whole) <= EFFORT.refinement_whole:
        likely = np.union1d(likely, whole)
    if not len(rows):
        return likely
    # Constraints that zero coefficients violate need their terms.
    missed = (rows.lower > 0) | (rows.upper < 0)
    likely = np.union1d(likely, np.unique(csr_array(rows.matrix[missed]).indices))
    tied = connected(rows.equalities.matrix)[1]
    return np.asarray(motion.candidates[np.isin(tied[motion.candidates], tied[likely])])


def _gradient(motion: Motion, fitted: Fitted) -> Floats | None:
    """(candidates,) the scores cᵀ S⁻¹ r; None where the states have diverged."""
    d = motion.states
    total = np.zeros((len(motion.basis.names(motion.variables)), d))
    for white, x in zip(motion.whitened(fitted), fitted.x, strict=True):
        if white is None:
            return None
        table = motion.table(white, fitted.law)
        record = white.linear.record
        back = record.grid.integrals_back(white.solved(table[:, -1] - table[:, :-1] @ fitted.coef))
        total += motion.basis.evaluate(record.points(x), motion.variables).T @ back.reshape(-1, d)
    return np.asarray(total.ravel()[motion.candidates])


def _lengths(motion: Motion, fitted: Fitted) -> Floats | None:
    """(candidates,) squared length of the part of each white column that is orthogonal to those of the law.

    It is estimated from a few stretches of each record, until the rows are enough.
    """
    total, rows = np.zeros(len(motion.candidates)), 0
    each = -(-EFFORT.refinement_stretches // len(motion.records))
    for record, x in zip(motion.records, fitted.x, strict=True):
        size = record.grid.rows * motion.states
        most = min(each, record.stretches, max(EFFORT.refinement_rows // size, 1))
        which = np.unique(np.linspace(0, record.stretches - 1, most).astype(np.intp))
        part = motion.part([record.part(which)])
        [white] = part.whitened(replace(fitted, x=(x[which],)))
        if white is None:
            return None
        inside = part.table(white, fitted.law)[:, :-1]
        directions = np.linalg.qr(inside)[0]
        pieces = np.array_split(
            motion.candidates, -(-len(motion.candidates) * len(inside) // EFFORT.refinement_numbers)
        )
        first = 0
        for piece in pieces:
            table = part.table(white, motion.law(piece))[:, :-1]
            whole = np.sum(table**2, axis=0)
            beyond = whole - np.sum((directions.T @ table) ** 2, axis=0)
            apart = beyond > EFFORT.supports_dependent**2 * whole
            total[first : first + len(piece)] += np.where(apart, beyond, 0.0)
            first += len(piece)
        rows += len(inside)
        enough = min(EFFORT.refinement_stretches * size, EFFORT.refinement_rows)
        if rows > 5 * inside.shape[1] and rows >= enough:
            break
    return total * (motion.rows / max(rows, 1))
