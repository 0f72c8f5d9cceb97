"""From trajectories to a model whose states were fitted too."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from cindy._types import Floats
from cindy.basis import Basis
from cindy.data import Trajectory, noise_level
from cindy.errors import DataError, NoModelError
from cindy.formulation import Formulation
from cindy.least_squares import LeastSquares
from cindy.model import Model, Path, Run
from cindy.pipeline.confirmation import BLOCKS, Pieces, confirmed
from cindy.pipeline.passes import Found, Met, Options, Search, search
from cindy.pipeline.second_look import SMOOTH, Look, second_look
from cindy.pipeline.sizes import screened, some_of
from cindy.pipeline.tolerance import solve_with_samples
from cindy.problem import Problem, StandardForm
from cindy.regression import Regression, independent, refit
from cindy.selection import Selection, SupportFit, Supports, within_radius
from cindy.solver import Correction, Result, Step, conditional_gradient
from cindy.states import Motion, quadrature_error, start_of
from cindy.summary import Summary

__all__ = ["fitted_model", "identify_with_states", "summary_of", "warnings_of"]

Ints = NDArray[np.intp]

_NEAR = 14.0
"""Units of the criterion within which a model counts as almost equal (benchmark: chaotic at 40 %)."""
_MOST_NEAR = 20
_AROUND = 12


@dataclass(frozen=True, eq=False)
class _Last:
    """The convex problem at the states of the model that was found, its run, and fits on supports."""

    motion: Motion
    form: StandardForm
    supports: Supports
    result: Result

    def physical(self, fit: SupportFit) -> Floats:
        """(terms · states,) flat coefficients."""
        return self.spread_out(fit.support, fit.x)

    def errors(self, fit: SupportFit) -> Floats:
        return self.spread_out(fit.support, np.linalg.norm(fit.spread, axis=1))

    def spread_out(self, support: Ints, values: Floats) -> Floats:
        terms = len(self.motion.basis.names(self.motion.variables))
        out = np.zeros(terms * self.motion.states)
        out[self.motion.candidates[support]] = values * self.form.unit.ravel()[support]
        return out


def identify_with_states(
    data: list[Trajectory],
    basis: Basis,
    form: Formulation,
    pose: Callable[[Summary], Problem],
    *,
    selection: Selection,
    correction: Correction | None,
    tol: float,
    max_iter: int,
    callback: Callable[[Step], bool | None] | None,
    seed: int,
    pieces: Pieces,
) -> Model | None:
    """The model of passes over `pieces`, all data of which `data` are some; None where one pass is known."""
    motion = form.motion(data, basis) if isinstance(form, Formulation) else None
    if motion is not None and not motion.records:
        motion = None
    price = None if motion is None else selection.price(motion.rows, len(motion.candidates))
    if motion is None or price is None:
        _check_one_pass(form, selection)
        return None
    noise = np.mean([noise_level(s) ** 2 for one in data for s in one.segments()], axis=0)
    variance = motion.variances(noise)

    def run(problem: Problem) -> Model:
        options = Options.of(problem, motion, price, correction, tol=tol, max_iter=max_iter)
        whole, here = motion, screened(some_of(motion, seed), options, variance)
        found = search(here, options, variance)
        parts = _parts_for(here, found)
        if parts > motion.parts:
            finer = form.motion(data, basis, instants=parts)
            assert finer is not None
            whole, here = finer, replace(some_of(finer, seed), candidates=here.candidates)
            assert found is not None
            start = start_of(here, found.best.support, found.best.fitted.coef, variance)
            found = search(here, found.options, variance, start)
        look = second_look(Look(here, found), variance)
        here, said = look.motion, look.said
        found = _required(look.found, selection)
        options = found.options
        if here.samples < whole.samples or pieces.source.whole is None:
            whole = replace(whole, candidates=here.candidates)
            here, found = confirmed(whole, found, options, pieces, form, basis, data[0])
        model = fitted_model(problem, here, found, options, callback=callback)
        return replace(
            model,
            warnings=(*said, *model.warnings, *warnings_of(look, found, model, problem.summary.skipped)),
            settings={"selection": repr(selection), "correction": repr(options.correction), "tol": tol},
        )

    return solve_with_samples(pose(summary_of(motion, data, basis, form.fit_to(data))), data, run)


def _check_one_pass(form: Formulation, rule: Selection) -> None:
    """Refuse to go on without fitted states where terms hold rates that nobody measured."""
    if isinstance(form, Formulation) and form.needs_states:
        raise DataError(
            "identify: the rates in x'' = F(x, x') are found with fitted states. That takes trajectories of "
            f"{form.min_samples} samples at least, and Significance() or BIC(); the selection is {rule!r}."
        )


def _parts_for(motion: Motion, found: Found | None) -> int:
    """Into how many parts steps must be divided for what integrals are wrong by not to make terms."""
    if found is None or not motion.parts or not len(found.best.support):
        return motion.parts
    wrong = quadrature_error(motion, found.best.fitted)
    # The error falls with the ninth power of the step.
    return motion.parts if wrong < 1.0 else motion.parts * min(int(np.ceil((10 * wrong) ** (1 / 18))), 4)


def warnings_of(look: Look, found: Found, model: Model, skipped: int) -> tuple[str, ...]:
    """What a user must know of the model."""
    said = []
    if skipped:
        said.append(f"{skipped} stretch(es) of data were too short to use and were left out.")
    if model.result is not None and model.result.status != "converged":
        said.append(f"The solver ended before its gap fell below the tolerance: {model.result.status}.")
    assert look.found is not None
    motion, fitted, terms = look.motion, found.best.fitted, len(model.terms)
    rank = independent(motion.values(look.found.best.fitted, 4 * terms + 1_000))
    if rank < terms:
        said.append(
            f"Only {rank} of the {terms} terms are independent on these data: other models fit as well."
        )
    large = (fitted.error * motion.step > 1e-2 * fitted.variance)[motion.sought]
    if large.any() and SMOOTH not in look.said:
        names = ", ".join(n for n, big in zip(model.states, large, strict=True) if big)
        said.append(
            f"The equations of {names} leave more than noise unexplained (see `model_error`): "
            "a term may be missing."
        )
    return tuple(said)


def _required(found: Found | None, rule: Selection) -> Found:
    """What was found, if anything was."""
    if found is None:
        raise NoModelError(
            "identify: no model settles on these data: the states that it fits run away. "
            "Give `passes=1`, another basis, or more samples."
        )
    if not len(found.best.support):
        raise NoModelError(
            f"identify: {rule!r} keeps no term at all: nothing in the basis explains the data better than "
            "chance. Try another basis, a looser selection, or more data."
        )
    return found


def summary_of(motion: Motion, data: list[Trajectory], basis: Basis, form: Formulation) -> Summary:
    """What a problem must know of the data: names and the number of rows, but no rows."""
    like = data[0]
    terms = len(basis.names(motion.variables))
    rows = motion.rows // motion.states
    used = {int(k) for record in motion.records for k in record.source}
    skipped = len(data) - len(used)
    nothing = LeastSquares(np.zeros((0, terms + like.dimension)), terms, rows)
    return Summary((nothing,), ("all",), like.states, like.inputs, basis, form, motion.samples, skipped)


def fitted_model(
    problem: Problem,
    motion: Motion,
    found: Found,
    options: Options,
    *,
    callback: Callable[[Step], bool | None] | None = None,
) -> Model:
    """The model that the search found, with errors, certificate and the models beside it."""
    best = found.best
    last = _last_pass(motion, best, options, callback)
    chosen = np.searchsorted(motion.candidates, best.support)
    own = last.supports.fit(chosen)
    coef = last.spread_out(chosen, best.fitted.coef / last.form.unit.ravel()[chosen])
    said: tuple[str, ...] = ()
    if (
        options.radius is not None
        and last.form.region.norm(last.form.scaled(coef[motion.candidates][:, None])) > options.radius
    ):
        inside = within_radius(last.form, chosen)
        coef = last.spread_out(np.arange(inside.size), inside.ravel())
        said = (f"The radius {options.radius:g} binds: it keeps the coefficients smaller than they fit.",)
    covariance, error = _covariance(motion, best, own, last, options)
    make = _Maker(problem, last)
    model = make(coef, error)
    near = _near(last, found, own)
    return replace(
        model,
        noise=motion.noise(best.fitted),
        model_error=np.sqrt(best.fitted.error[motion.sought]),
        covariance=covariance,
        inclusion=make.shaped(_inclusion(coef, near)),
        near=Path(
            tuple(model if k == 0 else make(c, e) for k, (c, e, _) in enumerate(near)),
            tuple(s for _, _, s in near),
            0,
            "−2 log p + z² k, less that of the best",
        ),
        path=_path(make, last, own, model),
        result=Run.of(last.result),
        warnings=said,
    )


def _last_pass(
    motion: Motion, best: Met, options: Options, callback: Callable[[Step], bool | None] | None
) -> _Last:
    """The convex problem at the fitted states, solved as the user asked for."""
    state = Search(motion, options)
    blocks = motion.objectives(best.fitted, motion.candidates, blocks=1)
    assert blocks is not None
    form = state.form(blocks)
    result = conditional_gradient(
        form.objective,
        form.oracle,
        options.correction,
        tol=options.tol,
        max_iter=options.max_iter,
        callback=callback,
    )
    return _Last(motion, form, Supports(form, options.price), result)


@dataclass(frozen=True, eq=False)
class _Maker:
    """Models of one problem from flat coefficients."""

    problem: Problem
    last: _Last

    def shaped(self, flat: Floats) -> Floats:
        """(terms, states) of the problem."""
        return self.last.motion.narrowed(flat)[: len(self.problem.summary.terms)]

    def __call__(self, coef: Floats, error: Floats) -> Model:
        problem, summary, form = self.problem, self.problem.summary, self.last.form
        physical = self.shaped(coef)
        scaled = form.scaled(coef[self.last.motion.candidates][:, None])
        return Model(
            physical,
            summary.basis,
            summary.states,
            inputs=summary.inputs,
            coef_error=self.shaped(error),
            formulation=summary.formulation,
            gap=form.gap(scaled, self.last.result),
            radius=form.region.radius,
            violation=problem.violation(physical),
            constraints=tuple(str(c) for c in problem.constraints),
        )


def _covariance(
    motion: Motion, best: Met, own: SupportFit, last: _Last, options: Options
) -> tuple[Floats, Floats]:
    """(k, k) covariance of the coefficients and their flat errors, never below what blocks of rows say."""
    unit = last.form.unit.ravel()[own.support]
    covariance = (own.spread * unit[:, None]) @ (own.spread * unit[:, None]).T
    classical = np.sqrt(np.diagonal(covariance))
    blocks = motion.objectives(best.fitted, best.support, blocks=BLOCKS)
    size = np.ones(len(classical))
    if blocks is not None and len(blocks) > 1 and len(best.support):
        rows = replace(options.rows, matrix=options.rows.matrix[:, best.support])
        fit = refit(Regression(blocks, rows), np.arange(len(best.support)))
        known = classical > 0
        size[known] = np.maximum(fit.error[:, 0][known] / classical[known], 1.0)
    covariance = covariance * size[:, None] * size
    return covariance, last.spread_out(own.support, classical * size / unit)


def _near(last: _Last, found: Found, own: SupportFit) -> list[tuple[Floats, Floats, float]]:
    """Flat coefficients, errors and criterion, relative to the best, of models almost as good, best first.

    Models that were fitted have their own criterion; those one term away from the best are judged by
    the rows at its states.
    """
    supports = last.supports
    known: dict[bytes, tuple[SupportFit, float]] = {own.support.tobytes(): (own, 0.0)}
    for met in found.met[1:]:
        above = met.criterion - found.best.criterion
        fit = supports.possible(np.searchsorted(last.motion.candidates, met.support))
        if fit is not None and above <= _NEAR:
            known.setdefault(fit.support.tobytes(), (fit, above))
    for fit in _neighbours(supports, own):
        above = supports.criterion(fit) - supports.criterion(own)
        if above <= _NEAR:
            known.setdefault(fit.support.tobytes(), (fit, above))
    ranked = sorted(known.values(), key=lambda pair: pair[1])
    ranked = [(own, 0.0)] + [(f, max(a, 0.0)) for f, a in ranked if f is not own]
    return [(last.physical(f), last.errors(f), a) for f, a in ranked[:_MOST_NEAR]]


def _neighbours(supports: Supports, own: SupportFit) -> list[SupportFit]:
    """One term more, one less, one exchanged for another."""
    made = []
    gain = supports.gains(own)
    for place in np.argsort(-gain)[:10]:
        if gain[place] > 0:
            made.append(supports.possible(np.union1d(own.support, [place])))
    for place in supports.replaceable(own, _NEAR):
        less = supports.possible(np.delete(own.support, place))
        if less is None or len(less.support) == len(own.support):
            continue
        made.append(less)
        gain = supports.gains(less)
        gain[own.support] = 0.0
        if gain.max(initial=0.0) > 0 and less.loss - gain.max() - own.loss < _NEAR:
            for other in np.argsort(-gain)[:3]:
                made.append(supports.possible(np.union1d(less.support, [other])))
    return [fit for fit in made if fit is not None]


def _inclusion(coef: Floats, near: Sequence[tuple[Floats, Floats, float]]) -> Floats:
    """Weight of the models that have a term, exp(−Δ/2) each."""
    weights = np.exp(-0.5 * np.array([score for _, _, score in near]))
    present = np.array([coef != 0, *(c != 0 for c, _, _ in near[1:])], dtype=np.float64)
    return np.asarray(weights @ present / weights.sum())


def _path(make: Any, last: _Last, own: SupportFit, model: Model) -> Path:
    """The models of the run around the chosen one, from few terms to many."""
    supports = last.supports
    chosen = len(own.support)
    fits = {chosen: own}
    first: dict[int, Ints] = {}
    for support, _ in last.result.path:
        if 0 < len(support) <= 3 * chosen + 10:
            first.setdefault(len(support), support)
    for size in sorted(first, key=lambda size: (abs(size - chosen), size)):
        fit = None if size in fits or len(fits) > 2 * _AROUND else supports.possible(first[size])
        if fit is not None:
            fits[size] = fit
    ordered = sorted(fits)
    models = tuple(
        model if fits[s] is own else make(last.physical(fits[s]), last.errors(fits[s])) for s in ordered
    )
    rows = max(last.form.objective.rows, 1)
    scores = tuple(supports.criterion(fits[s]) / rows for s in ordered)
    return Path(models, scores, ordered.index(len(own.support)), "χ² + z² k at the fitted states, per row")
