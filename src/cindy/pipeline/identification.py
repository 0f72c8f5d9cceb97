"""identify: from data to a model, with states fitted or at measured ones."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import Executor
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

import numpy as np

from cindy._arrays import one_thread
from cindy._check import integer
from cindy._types import Floats
from cindy.basis import RUN, TIME, Basis
from cindy.data import Source, Trajectory, as_source, is_fields, noise_variance
from cindy.errors import DataError, NoModelError
from cindy.findings import Finding
from cindy.formulation import Formulation
from cindy.model import Model, run_names, with_inputs
from cindy.pipeline.field_identification import identify_fields
from cindy.pipeline.fitted import identify_with_states
from cindy.pipeline.hidden import hidden_names, identify_with_hidden, not_needed, with_hidden
from cindy.pipeline.inference import check_settings, solve
from cindy.pipeline.judgement import judged, refusals_told
from cindy.pipeline.libraries import Equations, check_agreement
from cindy.pipeline.parametric_model import identify_with_parameters
from cindy.pipeline.readouts import observed, with_readouts
from cindy.pipeline.refinement import refined
from cindy.pipeline.request import Pieces, Request, Stages
from cindy.pipeline.settle import settled
from cindy.pipeline.shortcuts import Settings
from cindy.pipeline.tolerance import solve_with_samples
from cindy.problem import Constraint, Names, Problem, Weights, at_samples
from cindy.selection import Selection
from cindy.solver import Correction, Step
from cindy.summary import Summary, accumulate, summary_of_fields, workers

__all__ = ["identify"]


_LARGE = 1_000
"""Coefficients beyond which one pass finds the law first, and states are fitted from there."""
_NO_DEVICE = "The states were fitted by the processor: `device` serves one pass only (passes=1)."
_SOME = 200_000
"""Samples of data larger than memory by which noise, drift and quadrature are judged; sums are of all."""


@one_thread()
def identify(
    trajectories: Any,
    basis: Basis | str | Mapping[str, Basis | str],
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
    progress: Callable[..., Any] | None = None,
    passes: int | None = None,
    known: Mapping[str, str] | None = None,
    hidden: int | str | Sequence[str] = 0,
    observe: Mapping[str, str] | None = None,
) -> Model:
    """The sparse equations behind measured trajectories.

    trajectories: a Trajectory, a pair (t, x), a DataFrame, a Dataset, a Field, a list of these; `Lazy` files
    basis: the terms to choose from, or {"x": Polynomial(2), "y": "poly:3"}; settings may be short texts
    formulation: Integral() by default; Differential(), Discrete(); Weak() for fields
    constraints: known physics, by name: fix, bound, tie, conserve, exchange, linear
    selection: how one model is picked; Significance() by default
    correction: of the solver between oracle calls; Direct() by default, with a leap for large problems
    weights, radius: of the l1 ball; Adaptive() and twice that of least squares, in scaled units
    tol: of the Frank-Wolfe gap, relative to the loss of the zero model
    callback, seed: receives each Step and may return False to stop; of the part of much data looked at first
    blocks, processes, executor, device: as in `accumulate`
    progress: called with (done, of, stage); stages are "data" (samples), "search" (models), "comparison"
    passes: None: states are fitted too, unless that takes very long; 1: at measured states; 2: anyway
    known: formulas of equations that are known, by state: {"q": "v"}
    hidden: a state that nobody measured: 1, its name, or "auto" for one if it is worth its price
    observe: what columns measure, as linear combinations of states: {"total": "S + ES"}

    >>> import cindy
    >>> t = np.linspace(0, 10, 300)
    >>> x = np.stack([np.cos(2 * t), -2 * np.sin(2 * t)], axis=1)
    >>> model = cindy.identify(cindy.Trajectory(t, x, ("x", "v")), cindy.Polynomial(2))
    >>> model.coef.round(4)[[1, 2]].tolist()
    [[0.0, -4.0], [1.0, 0.0]]
    """
    equations = Equations.of(basis, known)
    settings = Settings.of(equations.union, formulation, selection, correction, weights)
    check_settings(settings.selection, settings.correction, tol, max_iter, callback, seed)
    stages = Stages(progress)
    asked = _Asked(
        settings, equations, constraints, radius, tol, max_iter, callback, seed, blocks, device, stages
    )
    if is_fields(trajectories):
        return asked.of_fields(trajectories, settings.formulation if formulation else None, hidden)
    hire = partial(workers, executor, processes, where="identify")
    return asked.of_readouts(trajectories, observe, passes, hire, hidden)


@dataclass(frozen=True, eq=False)
class _Asked:
    """What `identify` was asked for, apart from the data; as its arguments, texts read."""

    settings: Settings
    equations: Equations
    constraints: Any
    radius: float | None
    tol: float
    max_iter: int
    callback: Callable[[Step], bool | None] | None
    seed: int
    blocks: int
    device: Any
    stages: Stages

    def pose(self, laws: tuple[Constraint, ...] = ()) -> Callable[[Summary], Problem]:
        """The problem that sums over the data make, with what is said of single equations."""
        constraints = (*self.constraints, *laws) if laws else self.constraints
        return partial(Problem, radius=self.radius, constraints=constraints, weights=self.settings.weights)

    @property
    def run(self) -> Callable[[Problem], Model]:
        return partial(
            solve,
            selection=self.settings.selection,
            correction=self.settings.correction,
            tol=self.tol,
            max_iter=self.max_iter,
            callback=self.callback,
        )

    def of_fields(self, fields: Any, form: Formulation | None, hidden: Any) -> Model:
        self.equations.refuse_fields()
        if hidden:
            raise DataError(
                "identify: hidden states are found along trajectories, and these data are fields."
            )
        add = partial(summary_of_fields, blocks=self.blocks, progress=self.stages.data)
        basis, rule = self.settings.basis, self.settings.selection
        return identify_fields(fields, basis, form, add, self.pose(), self.run, rule, self.seed)

    def of_readouts(
        self,
        measured: Any,
        observe: Mapping[str, str] | None,
        passes: int | None,
        hire: Callable[..., Any],
        hidden: Any,
    ) -> Model:
        """The model of trajectories whose columns measure states, or combinations of them."""
        if observe is None:
            return self.of_trajectories(measured, passes, hire, hidden)
        states, shared = observed(measured, observe)
        return with_readouts(self.of_trajectories(states, passes, hire, hidden), observe, shared)

    def of_trajectories(
        self, trajectories: Any, passes: int | None, hire: Callable[..., Any], hidden: Any = 0
    ) -> Model:
        """hire: those who work on the pieces, given what they must know"""
        if not (isinstance(hidden, int) and hidden == 0):
            return self._with_hidden(trajectories, passes, hire, hidden)
        form = self.settings.formulation
        source, data, basis, laws = _opened(trajectories, self.settings.basis, self.equations, form)
        if laws:
            names = Names(basis, data[0].states, data[0].inputs, _rates(form, data[0]))
            check_agreement(laws, self.constraints, names)
        with refusals_told(data, basis, form), hire((basis,)) as hands:
            request = self._request(Pieces(source, hands, self.stages), data, basis, laws)
            model = _with_fitted_states(request, passes)
            if model is None:
                sums = partial(accumulate, blocks=self.blocks, device=self.device, progress=self.stages.data)
                gather = partial(sums, basis=basis, executor=hands)
                model = _then_states(request, _one_pass(request, gather, self.run), passes)
        told = _told(model, source, self.constraints, passes, self.device)
        return _compared(told, data, self.seed, self.stages)

    def _with_hidden(
        self, trajectories: Any, passes: int | None, hire: Callable[..., Any], hidden: Any
    ) -> Model:
        """The law with a hidden state, or without one where it may be left out and is not worth its price."""
        form, measured = self.settings.formulation, as_source(trajectories).some(_SOME)
        names = hidden_names(hidden, measured[0])
        _check_motion(measured)
        wide = with_hidden(measured, names)
        source, data, basis, laws = _opened(wide, self.settings.basis, self.equations, form, hidden=True)
        check_agreement(laws, self.constraints, Names(basis, data[0].states, data[0].inputs))
        request = self._request(Pieces(source, None, self.stages), data, basis, laws)
        found = identify_with_hidden(request, passes)
        if isinstance(hidden, str) and hidden == "auto" and not (found and found.needed):
            model = self.of_trajectories(trajectories, passes, hire)
            told = not_needed(names[0], found.gain if found else -np.inf)
            return replace(model, findings=(*model.findings, told))
        if found is None:
            raise NoModelError(
                f'identify: no law with the hidden state "{names[0]}" settles on these data. Give another '
                "basis, or a library for each equation."
            )
        model = _told(found.model, source, self.constraints, passes, self.device)
        return _compared(model, found.data, self.seed, self.stages)

    def _request(
        self, pieces: Pieces, data: list[Trajectory], basis: Basis, laws: tuple[Constraint, ...]
    ) -> Request:
        rule, correction = self.settings.selection, self.settings.correction
        how = (rule, correction, self.tol, self.max_iter, self.callback, self.seed)
        return Request(pieces, data, basis, self.settings.formulation, self.pose(laws), *how)


def _compared(model: Model, data: list[Trajectory], seed: int, stages: Stages) -> Model:
    """The model with what a comparison with the data shows."""
    stages.tell(0, 1, "comparison")
    model = judged(_with_scales(model, data, seed), data)
    stages.tell(1, 1, "comparison")
    return model


def _with_fitted_states(request: Request, passes: int | None) -> Model | None:
    """The model with states fitted: where terms hold parameters, or where passes and data allow it."""
    source, basis, form = request.pieces.source, request.basis, request.form
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
        large = not unmeasured and (passes is None or source.whole is not None) and _is_large(request)
        return None if passes == 1 or large or not source.again else identify_with_states(request)
    if source.whole is None:
        names = ", ".join(one.name for one in basis.unknowns())
        raise DataError(
            f"identify: the parameters {names} are found with the states, but these data are loaded in "
            "parts. Read a part of them into memory, or give the parameters values: basis.at({…})."
        )
    return identify_with_parameters(request)


def _is_large(request: Request) -> bool:
    like = request.data[0]
    return len(request.basis.names(like.variables)) * like.dimension > _LARGE


def _then_states(request: Request, model: Model, passes: int | None) -> Model:
    """The model with states fitted from there, where coefficients were too many to begin with them."""
    if request.pieces.source.whole is None or passes == 1 or model.coef.size <= _LARGE:
        return model
    return refined(request, model, anyway=passes is not None)


def _opened(
    trajectories: Any, basis: Basis, equations: Equations, form: Formulation, *, hidden: bool = False
) -> tuple[Source, list[Trajectory], Basis, tuple[Constraint, ...]]:
    """The data in parts; as trajectories, all that is in memory or some to look at; the basis for them.

    And what is said of single equations, as constraints.
    """
    source = as_source(trajectories)
    data = source.some(_SOME)
    if not hidden:
        _check_motion(data)
    basis, laws = equations.resolved(
        basis, data[0], (*data[0].states, *_rates(form, data[0]), *data[0].inputs)
    )
    data, basis = _with_unmeasured(data, basis, whole=source.whole is not None)
    return (source if source.whole is None else as_source(data)), data, basis, laws


def _rates(form: Any, like: Trajectory) -> tuple[str, ...]:
    """The names of rates, where terms may hold them."""
    if not isinstance(form, Formulation):
        # What is no formulation is refused where it is used.
        return ()
    every = form.variables(like.states, like.inputs)
    return every[like.dimension : len(every) - len(like.inputs)]


def _one_pass(request: Request, gather: Callable[..., Summary], run: Callable[[Problem], Model]) -> Model:
    """The model at measured states."""
    source, data, form = request.pieces.source, request.data, request.form
    problem = request.pose(gather(source, formulation=form))
    if request.selection.refits and form.leaves_noise:
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


def _told(
    model: Model, source: Source, constraints: Sequence[Constraint], passes: int | None, device: Any
) -> Model:
    """The model that says what could not be done with data that are not in memory."""
    found = []
    if not source.again:
        message = (
            "The data came from a generator and were read only once: nothing was refined from a first model. "
            "Pass a list, or read(paths, lazy=True), to have that."
        )
        found.append(Finding("read-once", message))
    elif (
        passes is None and model.formulation.leaves_noise and model.coef.size > _LARGE and not model.denoised
    ):
        message = (
            f"States were not fitted: with {model.coef.size:,} coefficients to choose from that would take "
            "long. The terms were evaluated at the measured states. Give passes=2 to have the states fitted."
        )
        found.append(Finding("not-denoised", message, {"coefficients": model.coef.size}))
    if device is not None and model.denoised:
        found.append(Finding("device-unused", _NO_DEVICE))
    if source.whole is None and any(at_samples(c) for c in constraints):
        message = f"A conservation law with a tolerance was imposed at {_SOME:,} samples at most, not at all."
        found.append(Finding("tolerance-at-samples", message, {"samples": _SOME}))
    return replace(model, findings=model.findings + tuple(found))


def _with_scales(model: Model, data: list[Trajectory], seed: int) -> Model:
    return replace(
        model,
        scale=np.nanmax(np.abs(np.concatenate([one.x for one in data])), axis=0),
        noise=model.noise if model.denoised else _measured_noise(model, data),
        settings={**model.settings, "seed": seed, **_of_data(data[0])},
        fitted=None if model.fitted is None else model.fitted.of_data(data),
    )


def _of_data(first: Trajectory) -> dict[str, str]:
    """What a simulation and a page must know of the data: how inputs were held, and the unit of time."""
    held = {"hold": first.hold} if first.inputs and first.hold != "linear" else {}
    return held | ({"time_unit": first.time_unit} if first.time_unit else {})


def _measured_noise(model: Model, data: list[Trajectory]) -> Floats:
    """Residuals of the free integral form are noise; for other forms the data must tell."""
    if model.formulation.leaves_noise:
        return model.noise
    return np.asarray(np.sqrt(noise_variance(data)))


def _check_motion(data: list[Trajectory]) -> None:
    for place, state in enumerate(data[0].states):
        columns = [one.x[np.isfinite(one.x[:, place]), place] for one in data]
        if not any(map(len, columns)) and any(np.isfinite(one.x).any() for one in data):
            raise DataError(
                f'identify: the state "{state}" is missing at every sample, and a sample counts only where '
                "all states are known. Leave it out."
            )
        # A single sample cannot change: that there is only one is said elsewhere.
        columns = [column for column in columns if len(column) > 1]
        if columns and all(np.ptp(column) == 0 for column in columns):
            raise DataError(
                f'identify: the state "{state}" is constant in every trajectory ({columns[0][0]:g} in the '
                "first), so nothing can be learnt about it. Leave it out, or pass it as an input."
            )
