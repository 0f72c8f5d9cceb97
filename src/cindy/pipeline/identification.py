"""solve and identify: from a problem, or straight from the data, to a model."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from concurrent.futures import Executor
from dataclasses import replace
from functools import partial
from typing import Any

import numpy as np

from cindy._check import integer, positive
from cindy._types import Floats
from cindy.basis import RUN, Basis
from cindy.data import Source, Trajectory, as_source, is_fields, noise_level
from cindy.errors import DataError, NoModelError
from cindy.formulation import Formulation
from cindy.model import TIME, Model, Path, Run, run_names, with_inputs
from cindy.pipeline.confirmation import Pieces
from cindy.pipeline.field_identification import identify_fields
from cindy.pipeline.fitted import identify_with_states
from cindy.pipeline.judgement import judged, refusals_explained
from cindy.pipeline.parametric_model import identify_with_parameters
from cindy.pipeline.refinement import refined
from cindy.pipeline.settle import settled
from cindy.pipeline.shortcuts import Settings
from cindy.pipeline.tolerance import solve_with_samples
from cindy.problem import Constraint, Problem, Weights, at_samples
from cindy.regression import Refit
from cindy.selection import Choice, Selection, Significance, choose
from cindy.solver import Correction, Result, Step
from cindy.summary import Summary, accumulate, workers

__all__ = ["identify", "solve"]


_AROUND = 12
"""Sizes on either side of the chosen model that the path shows one by one."""
_LARGE = 1_000
"""Coefficients beyond which one pass finds the law first, and states are fitted from there."""
_NO_DEVICE = "The states were fitted by the processor: `device` serves one pass only (passes=1)."
_SOME = 200_000
"""Samples of data larger than memory by which noise, drift and quadrature are judged; sums are of all."""


def identify(
    trajectories: Any,
    basis: Basis | str,
    *,
    formulation: Formulation | str | None = None,
    constraints: Sequence[Constraint] = (),
    selection: Selection | str | None = None,
    correction: Correction | str | None = None,
    weights: Weights | str | None = None,
    radius: float | None = None,
    tol: float = 1e-6,
    max_iter: int = 10_000,
    callback: Callable[[Step], bool | None] | None = None,
    seed: int = 0,
    blocks: int = 50,
    processes: int = 1,
    executor: Executor | None = None,
    device: Any = None,
    progress: Callable[[int, int | None], None] | None = None,
    passes: int | None = None,
) -> Model:
    """The sparse equations behind measured trajectories.

    trajectories: a Trajectory, a pair (t, x), a DataFrame, a Dataset, a Field, a list of these; `Lazy` files
    basis: the terms to choose from; this and the next settings may be short texts, as on the command line:
        basis="poly:3", formulation="integral:2", selection="bic", correction="blended", weights="uniform"
    formulation: Integral() by default; Differential(), Discrete(); Weak() for fields
    constraints: known physics, by name: fix, bound, tie, conserve, exchange, linear
    selection: how one model is picked; Significance() by default
    correction: of the solver between oracle calls; Direct() by default, with a leap for large problems
    weights, radius: of the l1 ball; Adaptive() and twice that of least squares, in scaled units
    tol: of the Frank-Wolfe gap, relative to the loss of the zero model
    callback, seed: receives each Step and may return False to stop; of the part of much data looked at first
    blocks, processes, executor, device, progress: as in `accumulate`, for passes over all data
    passes: None: states are fitted too, unless that takes very long; 1: at measured states; 2: anyway

    >>> import cindy
    >>> t = np.linspace(0, 10, 300)
    >>> x = np.stack([np.cos(2 * t), -2 * np.sin(2 * t)], axis=1)
    >>> model = cindy.identify(cindy.Trajectory(t, x, ("x", "v")), cindy.Polynomial(2))
    >>> model.coef.round(4)[[1, 2]].tolist()
    [[0.0, -4.0], [1.0, 0.0]]
    """
    basis, form, rule, correction, weights = Settings.of(basis, formulation, selection, correction, weights)
    _check_settings(rule, correction, tol, max_iter, callback, seed)
    pose = partial(Problem, radius=radius, constraints=constraints, weights=weights)
    how: dict[str, Any] = {"correction": correction, "tol": tol, "max_iter": max_iter, "callback": callback}
    run = partial(solve, selection=rule, **how)
    sums = partial(accumulate, blocks=blocks, device=device, progress=progress)
    if is_fields(trajectories):
        return identify_fields(trajectories, basis, form if formulation else None, sums, pose, run, seed)
    source, data, basis = _opened(trajectories, basis)
    with refusals_explained(data, form), workers(executor, processes, (basis,), where="identify") as hands:
        fitted = _with_fitted_states(Pieces(source, hands, progress), passes, basis, form, data, seed)
        model = fitted(data, basis, form, pose, selection=rule, **how)
        if model is None:
            gather = partial(sums, basis=basis, executor=hands)
            model = _one_pass(source, data, form, gather, pose, run, again=rule.refits)
            model = _then_states(source, passes, model, data, basis, form, pose, selection=rule, **how)
    return judged(_with_scales(_with_warnings(model, source, constraints, passes, device), data, seed), data)


def _with_fitted_states(
    pieces: Pieces,
    passes: int | None,
    basis: Basis,
    form: Formulation,
    data: list[Trajectory],
    seed: int,
) -> Callable[..., Model | None]:
    """What fits states: always where terms hold parameters, else where the passes and the data allow it."""
    source = pieces.source
    if passes is not None:
        integer(passes, "identify: `passes`", least=1)
    unmeasured = isinstance(form, Formulation) and form.needs_states
    if unmeasured and (passes == 1 or source.whole is None):
        why = "with passes=1 they are not" if passes == 1 else "these data are read in parts"
        raise DataError(
            f"identify: the rates in x'' = F(x, x') are found with fitted states, but {why}. "
            + ("Leave `passes` out." if passes == 1 else "Read a part of them into memory.")
        )
    if not basis.unknowns():
        large = (
            not unmeasured and _size(basis, data) > _LARGE and (passes is None or source.whole is not None)
        )
        one = passes == 1 or large or not source.again
        return _none if one else partial(identify_with_states, seed=seed, pieces=pieces)
    if source.whole is None:
        names = ", ".join(one.name for one in basis.unknowns())
        raise DataError(
            f"identify: the parameters {names} are found with the states, but these data are loaded in "
            "parts. Read a part of them into memory, or give the parameters values: basis.at({…})."
        )
    return identify_with_parameters


def _then_states(source: Source, passes: int | None, model: Model, *given: Any, **how: Any) -> Model:
    """The model with states fitted from there, where coefficients were too many to begin with them."""
    if source.whole is None or passes == 1 or model.coef.size <= _LARGE:
        return model
    return refined(model, *given, **how, anyway=passes is not None)


def _size(basis: Basis, data: list[Trajectory]) -> int:
    """How many coefficients there are to choose from."""
    return len(basis.names(data[0].variables)) * data[0].dimension


def _none(*_: Any, **__: Any) -> None:
    """No model: one pass must do."""


def _opened(trajectories: Any, basis: Basis) -> tuple[Source, list[Trajectory], Basis]:
    """The data in parts; as trajectories, all that is in memory or some to look at; the basis for them."""
    source = as_source(trajectories)
    data = source.some(_SOME)
    _check_motion(data)
    data, basis = _with_unmeasured(data, basis, whole=source.whole is not None)
    return (source if source.whole is None else as_source(data)), data, basis


def _one_pass(
    source: Source,
    data: list[Trajectory],
    form: Formulation,
    gather: Callable[..., Summary],
    pose: Callable[[Summary], Problem],
    run: Callable[[Problem], Model],
    *,
    again: bool,
) -> Model:
    """The model at measured states; `data`: all that is in memory, or some of the source."""
    problem = pose(gather(source, formulation=form))
    if again and form.leaves_noise:
        known = getattr(form, "feedback", None) is not None
        problem = settled(problem, source, data, gather, drift_known=known)
    return solve_with_samples(problem, data, run)


def _with_unmeasured(data: list[Trajectory], basis: Basis, *, whole: bool) -> tuple[list[Trajectory], Basis]:
    """Time and run as inputs, where the basis names them and the data do not, for those terms alone."""
    hidden: tuple[str, ...] = (TIME,) if basis.asks_for(TIME) and TIME not in data[0].variables else ()
    hidden += run_names(data) if basis.asks_for(RUN) else ()
    if not hidden:
        return data, basis
    if not whole:
        raise DataError(
            f"identify: terms in {' and '.join(hidden[:2])} need the data in memory, and these are loaded in "
            "parts. Give the trajectories such an input, or read them without lazy=True."
        )
    return with_inputs(data, (*data[0].inputs, *hidden)), basis.apart_from(hidden)


def _with_warnings(
    model: Model, source: Source, constraints: Sequence[Constraint], passes: int | None, device: Any
) -> Model:
    """The model that says what could not be done with data that are not in memory."""
    found = []
    if not source.again:
        found.append(
            "The data came from a generator and were read only once: nothing was refined from a first model. "
            "Pass a list, or read(paths, lazy=True), to have that."
        )
    elif passes is None and model.formulation.leaves_noise and model.coef.size > _LARGE and not model.near:
        found.append(
            f"States were not fitted: with {model.coef.size:,} coefficients to choose from that would "
            "take long: terms are at measured states. Give passes=2 or more to have them fitted."
        )
    if device is not None and len(model.near):
        found.append(_NO_DEVICE)
    if source.whole is None and any(at_samples(c) for c in constraints):
        found.append(
            f"A conservation law with a tolerance was imposed at {_SOME:,} samples at most, not at all."
        )
    return replace(model, warnings=model.warnings + tuple(found))


def _with_scales(model: Model, data: list[Trajectory], seed: int) -> Model:
    return replace(
        model,
        scale=np.nanmax(np.abs(np.concatenate([one.x for one in data])), axis=0),
        noise=model.noise if model.near else _measured_noise(model, data),
        settings={**model.settings, "seed": seed},
    )


def _measured_noise(model: Model, data: list[Trajectory]) -> Floats:
    """Residuals of the free integral form are noise; for other forms the data must tell."""
    if model.formulation.leaves_noise:
        return model.noise
    levels = [noise_level(s) ** 2 for one in data for s in one.segments()]
    return np.asarray(np.sqrt(np.mean(levels, axis=0)))


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
    _check_settings(rule, correction, tol, max_iter, callback)
    if not isinstance(problem, Problem):
        raise DataError(f"solve: `problem` must be a Problem, but is {problem!r}.")
    choice = choose(problem.form, rule, correction, tol=tol, max_iter=max_iter, callback=callback)
    result, fit = choice.result, choice.fit
    if not np.any(fit.x):
        raise NoModelError(
            f"solve: {rule!r} keeps no term at all: nothing in the basis explains the data better than "
            "chance. Try another basis, a looser selection, or more data."
        )
    model = _model(problem, fit, result)
    path = _path(problem, rule, choice, model) if rule.refits else Path((model,), (0.0,), 0)
    return replace(
        model,
        result=Run.of(result),
        path=path,
        warnings=_warnings(problem, fit.x, result.status.value if not result.converged else ""),
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
    ranking = candidates.ranking(choice.support)
    chosen = len(choice.support)
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


def _check_settings(
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


def _check_motion(data: list[Trajectory]) -> None:
    for place, state in enumerate(data[0].states):
        columns = [one.x[np.isfinite(one.x[:, place]), place] for one in data]
        # A single sample cannot change: that there is only one is said elsewhere.
        columns = [column for column in columns if len(column) > 1]
        if columns and all(np.ptp(column) == 0 for column in columns):
            raise DataError(
                f'identify: the state "{state}" is constant in every trajectory ({columns[0][0]:g} in the '
                "first), so nothing can be learnt about it. Leave it out, or pass it as an input."
            )


def _warnings(problem: Problem, x: Floats, status: str) -> tuple[str, ...]:
    summary, found = problem.summary, []
    if summary.skipped:
        found.append(f"{summary.skipped} stretch(es) of data were too short to use and were left out.")
    rank, terms = problem.regression.independent, len(summary.terms)
    if rank < terms and summary.spurious is not None:
        found.append(
            f"At this noise the data tell only {rank} of the {terms} terms apart: models with other terms "
            "may fit as well."
        )
    elif rank < terms:
        found.append(
            f"Only {rank} of the {terms} terms are independent on these data: other models fit as well."
        )
    if problem.radius is not None and problem.region.norm(x) >= problem.radius * (1 - 1e-9):
        found.append(f"The radius {problem.radius:g} binds: it keeps the coefficients smaller than they fit.")
    if status:
        found.append(f"The solver ended before its gap fell below the tolerance: {status}.")
    return tuple(found)
