"""identify: from data to a model.

1. Arguments are read and checked (`Objects`, `Settings`, `Equations`), the data opened (`_opened`), and time
   or runs added as inputs where the basis names them.
2. `_law` decides which search identifies the law: with parameters, with denoised states, or in one pass at
   measured states. Fields and hidden states have searches of their own.
3. The model is compared with the data, which adds findings (`judgement`).
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import Executor
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

import numpy as np

from cindy._arrays import Floats, one_thread
from cindy._check import integer
from cindy.basis import RUN, TIME, Basis
from cindy.data import (
    Source,
    Trajectory,
    as_source,
    is_fields,
    noise_variance,
    without_faults,
    without_glitches,
)
from cindy.errors import CindyError, DataError, NoModelError
from cindy.findings import Finding, leaves_motion
from cindy.formulation import Formulation, Integral
from cindy.identification.field_identification import identify_fields
from cindy.identification.fitted import identify_with_states, refined
from cindy.identification.hidden import (
    Discovery,
    auto_names,
    criterion_without,
    hidden_names,
    identify_with_hidden,
    not_needed,
    with_hidden,
)
from cindy.identification.judgement import beside_positions, judged, refusals_told, with_forecasts
from cindy.identification.measured import model_of, reposed
from cindy.identification.parametric_model import identify_with_parameters
from cindy.identification.sensors import identify_readouts, with_rare_state
from cindy.identification.shortcuts import Equations, Objects, check_agreement
from cindy.model import Model, run_names, with_inputs
from cindy.problem import Constraint, Names, Problem, Weights, at_samples
from cindy.search import NEAR, Pieces, Request, Settings, Stages, solve_with_samples
from cindy.selection import Selection
from cindy.solver import Correction, Step
from cindy.summary import Summary, accumulate, summary_of_fields, workers

_LARGE = 1_000
"""Coefficients beyond which one pass finds the law first, and states are denoised from there."""
_SOME = 200_000
"""Samples by which noise, drift and quadrature are estimated if not all data are in memory. The sums are over
all samples."""


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
    hidden: int | str | Sequence[str] | Mapping[str, str] = 0,
    observe: Mapping[str, str] | None = None,
    least: str = "significant",
) -> Model:
    """The sparse equations behind measured trajectories.

    trajectories: a Trajectory, a pair (t, x), a DataFrame, a Dataset, a Field, a list of these; `Lazy` files
    basis: the candidate terms, for all states or by state: {"x": Polynomial(2), "y": "poly:3"}
    formulation: Integral() by default; Differential(), Discrete(); Weak() for fields
    constraints: known physics, by name: fix, bound, tie, conserve, exchange, linear
    selection: the rule that decides which terms are kept; Significance() by default
    correction: what the solver does after each new term; Direct() by default, with a leap for large problems
    weights, radius: of the l1 ball in scaled units; by default Adaptive(), and twice that of least squares
    tol, max_iter: the solver stops below this gap, relative to the loss of no model, or after so many steps
    callback: receives each Step of the solver and may return False to stop it
    blocks, processes, executor, device: as in `accumulate`; seed: of random draws
    progress: called with (done, of, stage); stages are "data" (samples), "search" (models), "comparison"
    passes: None: denoise the states if the problem is small enough; 1: never; 2: always
    known: formulas of equations that are known, by state: {"q": "v"}
    hidden: unmeasured states: how many, their names, "auto", or formulas of their first values
    observe: what columns measure, {"total": "S + ES"}; {"speed": "mean(v, 0.4)"}: over the last 0.4
    least: "best" returns a model with the finding `not-significant` where otherwise NoModelError is raised

    >>> import cindy
    >>> t = np.linspace(0, 10, 300)
    >>> x = np.stack([np.cos(2 * t), -2 * np.sin(2 * t)], axis=1)
    >>> model = cindy.identify(cindy.Trajectory(t, x, ("x", "v")), cindy.Polynomial(2))
    >>> model.coef.round(4)[[1, 2]].tolist()
    [[0.0, -4.0], [1.0, 0.0]]
    """
    laws = Equations.of(basis, known)
    given = Objects.of(laws.union, formulation, selection, correction, weights)
    settings = Settings(given.selection, given.correction, tol, max_iter, callback, seed, least)
    hire = partial(workers, executor, processes, where="identify")
    asked = _Asked(given, laws, constraints, radius, settings, blocks, device, Stages(progress), passes, hire)
    if is_fields(trajectories):
        return asked.of_fields(trajectories, given.formulation if formulation else None, hidden, observe)
    return asked.of_readouts(trajectories, observe, hidden)


@dataclass(frozen=True, eq=False)
class _Asked:
    """The arguments of `identify` apart from the data, with objects in the place of texts.

    hire: makes a context manager of the executor for the pieces of the data
    """

    given: Objects
    equations: Equations
    constraints: Any
    radius: float | None
    settings: Settings
    blocks: int
    device: Any
    stages: Stages
    passes: int | None
    hire: Callable[..., Any]
    shared: Floats | None = None
    """Correlation of the noise of the states, where several are computed from one column."""

    def known(self, laws: tuple[Constraint, ...] = ()) -> dict[str, Any]:
        """Arguments of `Physics` and `Problem`; laws: libraries and known equations."""
        constraints = (*self.constraints, *laws) if laws else self.constraints
        return {"radius": self.radius, "constraints": constraints, "weights": self.given.weights}

    def of_fields(self, fields: Any, form: Formulation | None, hidden: Any, observe: Any) -> Model:
        """The partial differential equations of fields."""
        self.equations.refuse_fields()
        if observe is not None:
            raise DataError("identify: `observe` is for trajectories, and these data are fields.")
        if hidden:
            raise DataError(
                "identify: hidden states are found along trajectories, and these data are fields."
            )
        add = partial(summary_of_fields, blocks=self.blocks, progress=self.stages.data)
        return identify_fields(
            fields, self.given.basis, form, add, partial(Problem, **self.known()), self.settings
        )

    def of_readouts(self, measured: Any, observe: Mapping[str, str] | None, hidden: Any) -> Model:
        """The model of trajectories whose columns measure states, or combinations of them."""
        if hidden is None or isinstance(hidden, np.integer):
            hidden = int(hidden or 0)
        if observe is None:
            return self.of_trajectories(measured, hidden)
        data = as_source(measured).whole
        if data is None:
            raise DataError(
                "identify: `observe` needs the data in memory, and these are loaded in parts. "
                "Read them without lazy=True."
            )
        form = self.given.formulation
        fitted = self.passes != 1 and form.leaves_noise and not form.discrete
        return identify_readouts(
            data,
            observe,
            hidden,
            lambda states, w, shared: replace(self, shared=shared).of_trajectories(states, w),
            fitted=fitted,
        )

    def of_trajectories(self, trajectories: Any, hidden: Any = 0) -> Model:
        """The model of trajectories whose columns are states."""
        if not (isinstance(hidden, int) and hidden == 0):
            return self._with_hidden(trajectories, hidden)
        form = self.given.formulation
        measured, faults = _without_faults(as_source(trajectories), form)
        source, data, basis, laws = self._opened(measured)
        with refusals_told(data, basis, form, faults), self.hire() as executor:
            request = self._request(Pieces(source, executor, self.stages), data, basis, laws)
            sums = partial(accumulate, blocks=self.blocks, device=self.device, progress=self.stages.data)
            gather = partial(sums, basis=basis, executor=executor)
            model = _law(request, self.passes, partial(_one_pass, request, gather))
        model = self._told(model, source, faults, data)
        # A second model, of positions alone, is only for advice: it is not made where constraints, libraries
        # or `passes` might not fit it.
        free = not self.constraints and not laws and self.passes is None and source.whole is not None
        return beside_positions(model, data, self._of_positions) if free else model

    def _of_positions(self, positions: list[Trajectory]) -> Model:
        """The model x'' = F(x, x') of positions alone, with the other settings as they are."""
        given = self.given._replace(formulation=Integral(order=2, rates=True))
        settings = replace(self.settings, callback=None)
        return replace(self, given=given, settings=settings, shared=None).of_trajectories(positions)

    def _with_hidden(self, trajectories: Any, hidden: Any) -> Model:
        """The law with hidden states; with "auto" their number grows while one more is worth its price."""
        # Clipped values stay: the limit may belong to the hidden motion, as of a tank that overflows.
        measured, faults = without_glitches(as_source(trajectories).some(_SOME))
        _check_motion(measured)
        auto = isinstance(hidden, str) and hidden == "auto"
        formulas = hidden if isinstance(hidden, Mapping) else {}
        best: Discovery | None = None
        gain, least, kicked = -np.inf, np.inf, False
        for names in auto_names(measured[0]) if auto else [hidden_names(hidden, measured[0])]:
            request = self._hidden_request(measured, names)
            law = identify_with_hidden(request, names, self.passes, formulas)
            if best is None:
                least, kicked = criterion_without(request, len(names))
            worth = -np.inf if law is None else least - law.criterion
            if auto and not worth > NEAR:
                # One more is not worth its price: the law before is the model.
                gain = gain if best is not None else worth
                break
            best, gain = law, worth
            least = np.inf if law is None else law.criterion
        if best is None and auto:
            model = self.of_trajectories(trajectories)
            return replace(model, findings=(*model.findings, not_needed(("w",), gain, kicked)))
        if best is None:
            raise NoModelError(
                f"identify: the fit of equations with hidden={hidden!r} did not converge. Give another "
                "basis, or a library for each equation."
            )
        if not auto and not formulas and len(names) > 1:
            best = self._last_judged(measured, names, best)
        model = self._told(best.told(gain, kicked), request.pieces.source, faults, best.data)
        return with_forecasts(model, measured)

    def _last_judged(self, measured: list[Trajectory], names: tuple[str, ...], law: Discovery) -> Discovery:
        """The law, with a finding where one without the last hidden state is as good."""
        try:
            request = self._hidden_request(measured, names[:-1])
            less = identify_with_hidden(request, names[:-1], self.passes, {})
        except CindyError:
            # A library or a constraint names that state, so the user wants it.
            return law
        if less is None or less.criterion - law.criterion > NEAR:
            return law
        finding = not_needed(names[-1:], less.criterion - law.criterion)
        return replace(law, model=replace(law.model, findings=(*law.model.findings, finding)))

    def _hidden_request(self, measured: list[Trajectory], names: tuple[str, ...]) -> Request:
        """The request for a law in measured and hidden states, the latter missing at every sample."""
        source, data, basis, laws = self._opened(with_hidden(measured, names), hidden=True)
        return self._request(Pieces(source, None, self.stages), data, basis, laws)

    def _opened(
        self, trajectories: Any, *, hidden: bool = False
    ) -> tuple[Source, list[Trajectory], Basis, tuple[Constraint, ...]]:
        """The data in parts; the trajectories in memory, or an excerpt; the basis; and constraints.

        The basis has the terms of known equations, and the trajectories have the time or the runs as inputs
        where the basis names them. The constraints are those of libraries and known equations.
        """
        form, source = self.given.formulation, as_source(trajectories)
        data = source.some(_SOME)
        _check_time(data)
        if not hidden:
            _check_motion(data)
        variables = form.variables(data[0].states, data[0].inputs)
        basis, laws = self.equations.resolved(self.given.basis, data[0], variables)
        wider, basis = _with_unmeasured(data, basis, whole=source.whole is not None)
        # These and the user's constraints may contradict each other, which is checked before the fit.
        if laws:
            check_agreement(laws, self.constraints, Names(basis, wider[0].states, wider[0].inputs, form))
        return (source if wider is data else as_source(wider)), wider, basis, laws

    def _request(
        self, pieces: Pieces, data: list[Trajectory], basis: Basis, laws: tuple[Constraint, ...]
    ) -> Request:
        form, known = self.given.formulation, self.known(laws)
        return Request(pieces, data, basis, form, known, self.settings, self.shared)

    def _told(self, model: Model, source: Source, faults: Sequence[Finding], data: list[Trajectory]) -> Model:
        """The model with its R² on the data and all findings."""
        findings = (*faults, *model.findings, *self._limits(model, source))
        self.stages.tell(0, 1, "comparison")
        model = replace(model, findings=findings)
        model = judged(_with_scales(model, data, self.settings.seed), data)
        self.stages.tell(1, 1, "comparison")
        return model

    def _limits(self, model: Model, source: Source) -> Iterator[Finding]:
        """Findings on what was not done because of the size of the data or their source."""
        large = self.passes is None and model.formulation.leaves_noise and model.coef.size > _LARGE
        if not source.again:
            yield Finding(
                "read-once",
                "The data came from a generator and were read only once, so the first model could not be "
                "refined. Pass a list, or read(paths, lazy=True).",
            )
        elif large and not model.denoised:
            yield Finding(
                "not-denoised",
                f"The states were not denoised, because with {model.coef.size:,} candidate coefficients that "
                "would take long: the terms were evaluated at the measured states. passes=2 denoises them "
                "anyway.",
                {"coefficients": model.coef.size},
            )
        if self.device is not None and model.denoised:
            message = "The states were denoised on the processor: `device` is used with passes=1 only."
            yield Finding("device-unused", message)
        if source.whole is None and any(at_samples(c) for c in self.constraints):
            message = (
                f"A conservation law with a tolerance was imposed at {_SOME:,} samples, not at all of them."
            )
            yield Finding("tolerance-at-samples", message, {"samples": _SOME})


def _law(request: Request, passes: int | None, one_pass: Callable[[], Model]) -> Model:
    """The law of trajectories. What is estimated beside its coefficients is decided here, and only here.

    1. Where the basis has unknown parameters, these and the states are estimated.
    2. With passes=1, for data that can be read only once and for forms that take states as measured, nothing
       is: terms are evaluated at the measurements (`one_pass`).
    3. With more than 1,000 coefficients, states are denoised from a law on that was found in one pass.
    4. In every other case states are denoised.
    """
    source, form = request.pieces.source, request.form
    _check_passes(request, passes)
    if request.basis.unknowns():
        return identify_with_parameters(request)
    motion = None if passes == 1 or not source.again else request.motion()
    if motion is None or not motion.records:
        if form.needs_states:
            raise DataError(
                "identify: the rates in x'' = F(x, x') are found with fitted states. That takes trajectories "
                f"of {form.min_samples} samples at least."
            )
        return one_pass()
    like = request.data[0]
    # Terms may name rates that only denoised states have; such a dictionary is not counted beforehand.
    large = not form.needs_states and len(request.basis.names(like.variables)) * like.dimension > _LARGE
    if large and source.whole is not None:
        return refined(request, motion, one_pass(), anyway=passes is not None)
    if large and passes is None:
        return one_pass()
    model = identify_with_states(request, motion)
    return with_rare_state(request, motion, model) if leaves_motion(model.findings) else model


def _check_passes(request: Request, passes: int | None) -> None:
    """Refuse `passes` and data that are read in parts where rates or parameters need denoised states."""
    source, basis, form = request.pieces.source, request.basis, request.form
    if passes is not None:
        integer(passes, "identify: `passes`", least=1)
    if form.needs_states and (passes == 1 or source.whole is None):
        why = "with passes=1 they are not" if passes == 1 else "these data are read in parts"
        raise DataError(
            f"identify: the rates in x'' = F(x, x') are found with fitted states, but {why}. "
            + ("Leave `passes` out." if passes == 1 else "Read a part of them into memory.")
        )
    if basis.unknowns() and source.whole is None:
        names = ", ".join(parameter.name for parameter in basis.unknowns())
        raise DataError(
            f"identify: the parameters {names} are found with the states, but these data are loaded in "
            "parts. Read a part of them into memory, or give the parameters values: basis.at({…})."
        )


def _without_faults(source: Source, form: Formulation) -> tuple[Any, list[Finding]]:
    """The data with glitches and clipped values as missing ones, and the findings on them.

    Data that are not in memory stay as they are, and so do those of maps, whose law may hold a limit.
    """
    if source.whole is None or form.discrete:
        return source, []
    cleaned, findings = without_faults(source.whole)
    return (cleaned, findings) if findings else (source, [])


def _one_pass(request: Request, gather: Callable[..., Summary]) -> Model:
    """The model at measured states."""
    source, data, form = request.pieces.source, request.data, request.form
    problem = Problem(gather(source, formulation=form), **request.known)
    if request.settings.selection.refits and form.leaves_noise:
        known = getattr(form, "feedback", None) is not None
        problem = reposed(problem, source, data, gather, drift_known=known)
    return solve_with_samples(problem, data, partial(model_of, settings=request.settings))


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


def _with_scales(model: Model, data: list[Trajectory], seed: int) -> Model:
    """The model with the sizes of the states, their noise, and what a simulation must know of the data."""
    first = data[0]
    held = {"hold": first.hold} if first.inputs and first.hold != "linear" else {}
    unit = {"time_unit": first.time_unit} if first.time_unit else {}
    settings = {**model.settings, "seed": seed, **held, **unit}
    # Denoised states and the free integral form leave noise alone; for other forms the roughness tells it.
    leaves_noise = model.denoised or model.formulation.leaves_noise
    return replace(
        model,
        scale=np.nanmax(np.abs(np.concatenate([run.x for run in data])), axis=0),
        noise=model.noise if leaves_noise else np.asarray(np.sqrt(noise_variance(data))),
        settings=settings,
        path=model.path.with_settings(settings),
        near=model.near.with_settings(settings),
        fitted=None if model.fitted is None else model.fitted.of_data(data),
    )


def _check_time(data: list[Trajectory]) -> None:
    """Refuse an input that is called like the time but is something else: simulations put the time there."""
    for run in data:
        if run.u is not None and TIME in run.inputs:
            other = run.u[:, run.inputs.index(TIME)]
            if not np.allclose(other[np.isfinite(other)], run.t[np.isfinite(other)]):
                raise DataError(
                    f'identify: the input "{TIME}" is not the time, which has this name in terms and in '
                    'simulations. Give the input another name, such as "T".'
                )


def _check_motion(data: list[Trajectory]) -> None:
    """Refuse states that are never measured, that do not change, or with powers beyond floating point."""
    for place, state in enumerate(data[0].states):
        columns = [run.x[np.isfinite(run.x[:, place]), place] for run in data]
        if not any(map(len, columns)) and any(np.isfinite(run.x).any() for run in data):
            raise DataError(
                f'identify: the state "{state}" is missing at every sample, and a sample counts only where '
                "all states are known. Leave it out."
            )
        # A single sample cannot change; runs that are too short are refused elsewhere.
        columns = [column for column in columns if len(column) > 1]
        if columns and all(np.ptp(column) == 0 for column in columns):
            raise DataError(
                f'identify: the state "{state}" is constant in every trajectory ({columns[0][0]:g} in the '
                "first), so nothing can be learnt about it. Leave it out of `states`, name it in `by` if it "
                "tells runs apart, or pass it in `inputs`."
            )
        size = max((float(np.abs(column).max()) for column in columns), default=1.0)
        if not 1e-50 < size < 1e50:
            raise DataError(f'identify: the state "{state}" is {size:.3g} in size. Use other units for it.')
