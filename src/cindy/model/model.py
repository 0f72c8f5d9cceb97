"""Model: identified equations with standard errors and an optimality gap, to simulate, score and save."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from copy import copy
from dataclasses import dataclass, field, replace
from os import PathLike
from typing import Any, Literal, overload

import numpy as np
from numpy.typing import ArrayLike, NDArray

from cindy._arrays import Floats
from cindy._check import flag, floats, instance, integer, numbers, unique_names
from cindy._files import json_number, json_value, write_text
from cindy.basis import Basis
from cindy.data import Field, Hold, Trajectory
from cindy.errors import DataError
from cindy.formulation import Formulation
from cindy.model.comparison import score
from cindy.model.denoised import smooth
from cindy.model.ensemble import RandomPath
from cindy.model.equations import Equations, Estimate
from cindy.model.field_simulation import Boundary, simulate_field
from cindy.model.simulation import Limits, simulate
from cindy.model.story import as_html, difference, facts, models_as_html, summary

FORMAT = "cindy-model"
VERSION = 1
_AS_THEY_ARE = ("gap", "radius", "violation", "constraints", "denoised", "explained", "settings")
_BY_STATE = ("noise", "noise_memory", "model_error", "scale")


@dataclass(frozen=True, eq=False)
class Path(Sequence["Model"]):
    """The models that were compared, from few terms to many, and the score of each.

    scores: one per model; lower is better
    criterion: what the scores measure, in words
    chosen: the index of the model that was chosen, or None

    >>> import numpy as np
    >>> import cindy
    >>> t = np.linspace(0, 6, 200)
    >>> swing = cindy.Trajectory(t, np.stack([np.cos(t), -np.sin(t)], axis=1), ("x", "v"))
    >>> model = cindy.identify(swing, "poly:2", passes=1)
    >>> [candidate.size for candidate in model.path][:4], model.path.chosen
    ([1, 2, 3, 4], 1)
    """

    models: tuple[Model, ...] = ()
    scores: tuple[float, ...] = ()
    chosen: int | None = None
    criterion: str = ""

    def __post_init__(self) -> None:
        if len(self.models) != len(self.scores):
            raise DataError(f"Path: {len(self.models)} models need as many scores, not {len(self.scores)}.")

    def __len__(self) -> int:
        return len(self.models)

    @overload
    def __getitem__(self, index: int) -> Model: ...
    @overload
    def __getitem__(self, index: slice) -> Sequence[Model]: ...
    def __getitem__(self, index: int | slice) -> Model | Sequence[Model]:
        return self.models[index]

    def __repr__(self) -> str:
        sizes = sorted({model.size for model in self.models})
        terms = f" of {sizes[0]} to {sizes[-1]} terms" if len(sizes) > 1 else ""
        return f"Path({len(self)} models{terms}, by {self.criterion})" if sizes else "Path()"

    def __str__(self) -> str:
        chosen = None if self.chosen is None else self.models[self.chosen]
        changes = ["chosen" if model is chosen else difference(chosen, model) for model in self.models]
        lines = [
            f"{score:>12.5g}  {model.size:>3} terms  {change}"
            for model, score, change in zip(self.models, self.scores, changes, strict=True)
        ]
        return "\n".join([self.criterion, *lines]) if lines else "no models were compared"

    def _repr_html_(self) -> str:
        """The scores, numbers of terms and differences as a table: for notebooks."""
        return models_as_html(self.models, self.scores, self.chosen, self.criterion)

    def with_settings(self, settings: Mapping[str, Any]) -> Path:
        """The same models with the settings of the model that was chosen, such as `hold` and `observe`."""
        models = tuple(copy(model) for model in self.models)
        for model in models:
            object.__setattr__(model, "settings", settings)
        return replace(self, models=models)

    def to_dict(self) -> dict[str, Any]:
        """The models as plain values."""
        models = [
            {"coefficients": _coefficients(m), "parameters": _parameters(m)}
            | {"gap": json_number(m.gap), "violation": json_number(m.violation)}
            for m in self
        ]
        scores = [json_number(s) for s in self.scores]
        return {"criterion": self.criterion, "chosen": self.chosen, "scores": scores, "models": models}


@dataclass(frozen=True, eq=False)
class Model(Equations):
    """Sparse equations x' = Ξᵀ ψ(x) in physical units: x'' for order 2, the next sample for `Discrete`.

    coef: (terms, states) Ξ; zero where a term is absent
    coef_error: (terms, states) standard errors; NaN where unknown, 0 for an absent term
    noise: (states,) estimated standard deviation of the measurements; NaN where unknown
    noise_memory: (states,) autocorrelation time of that noise in samples: 1 for white noise, more behind a
        filter, an average or a drifting sensor; NaN where unknown
    model_error: (states,) unexplained forcing, standard deviation per √time; NaN where unknown
    diffusion: variance of random kicks per unit of time, with its terms; None if no kicks were identified
    inclusion: (terms, states) probability that the term is in the equations, from the models compared;
        NaN where unknown
    parameters: numbers inside terms by name, each (value, error); empty where terms hold none
    covariance: (k, k) of the non-zero coefficients, in the order of numpy.flatnonzero(coef), and then of the
        parameters in their order; or None
    near: models of almost equal criterion, best first, scores relative to the best
    scale: (states,) size of the states in the data; NaN where unknown
    gap: the optimality gap: no coefficients in the region fit better by more than this
    radius: of the weighted l1 ball that the search was confined to
    violation: the largest violation of a constraint, in its own units
    result: the record of the solver's run
    path: the smaller and larger models that were compared
    constraints: the imposed constraints, as sentences
    findings: warnings and notes, each with a code; `warnings` are their sentences
    denoised: whether the noise-free states were estimated together with the equations
    explained: R² on the data that the model was identified from, by name: of the "equations"; of the
        "solutions", which last a "span" of time; of solutions that run "through" to the end. If not all runs
        were compared, "runs" says how many "of" all. Empty where unknown
    settings: the options of `identify`
    fitted: the denoised states and the whitened rows of the regression at them; they stay in memory, and are
        neither saved nor copied to other processes; None if there are none

    >>> from cindy.basis import Polynomial
    >>> model = Model(np.zeros((3, 2)), Polynomial(1), ("x", "v"))
    >>> model = model.with_coef({("x", "v"): 1.0, ("v", "x"): -4.0})
    >>> model.predict([0.5, 3.0])
    array([ 3., -2.])
    >>> bool(abs(model.simulate([1.0, 0.0], [0.0, np.pi / 2]).x[1, 0] + 1) < 1e-6)
    True
    """

    near: Path = field(default_factory=Path)
    path: Path = field(default_factory=Path)

    def __post_init__(self) -> None:
        instance(self.basis, Basis, "Model: `basis`", "a basis such as Polynomial(2)")
        instance(self.formulation, Formulation, "Model: `formulation`", "a formulation such as Integral()")
        states = unique_names(self.states, "Model: states")
        inputs = unique_names(self.inputs, "Model: inputs")
        names = unique_names((*states, *inputs), "Model: states and inputs")
        variables = self.formulation.variables(states, names[len(states) :])
        shape = (len(self.basis.names(variables)), len(states))
        coef = _shaped(self.coef, "coef", shape, allow_nan=False)
        error = np.where(coef == 0, 0.0, _shaped(self.coef_error, "coef_error", shape))
        given = {"states": states, "inputs": names[len(states) :], "coef": coef}
        given |= {name: _shaped(getattr(self, name), name, shape[1:]) for name in _BY_STATE}
        given |= {"coef_error": _shaped(error, "coef_error", shape)}
        given |= {"inclusion": _shaped(self.inclusion, "inclusion", shape)}
        for name, value in given.items():
            object.__setattr__(self, name, value)

    def __repr__(self) -> str:
        states = ", ".join(self.states)
        return f"Model({self.size} of {self.coef.size} coefficients; {states}; {self.basis!r})"

    def __str__(self) -> str:
        return self.to_text()

    def summary(self) -> str:
        """The model as text: equations, how much they explain, how certain they are, and warnings."""
        return summary(self)

    def _repr_html_(self) -> str:
        """The equations, the main facts and the warnings as HTML: for notebooks."""
        return as_html(self, facts(self)[:3])

    def _repr_latex_(self) -> str:
        return f"$${self.to_latex()}$$"

    @overload
    def simulate(
        self,
        x0: Field,
        t: ArrayLike,
        *,
        boundary: Boundary = ...,
        limits: Limits | None = ...,
        progress: Callable[[int, int], None] | None = ...,
    ) -> Field: ...
    @overload
    def simulate(
        self,
        x0: ArrayLike | Mapping[str, float],
        t: ArrayLike,
        u: Callable[[float], ArrayLike] | ArrayLike | None = ...,
        hold: Hold | None = ...,
        *,
        u_t: ArrayLike | None = ...,
        v0: ArrayLike | None = ...,
        run: str | None = ...,
        limits: Limits | None = ...,
        noise: bool = ...,
        seed: int = ...,
    ) -> Trajectory: ...
    def simulate(
        self,
        x0: Any,
        t: ArrayLike,
        u: Callable[[float], ArrayLike] | ArrayLike | None = None,
        hold: Hold | None = None,
        *,
        u_t: ArrayLike | None = None,
        v0: ArrayLike | None = None,
        run: str | None = None,
        boundary: Boundary = "reflecting",
        limits: Limits | None = None,
        progress: Callable[[int, int], None] | None = None,
        noise: bool = False,
        seed: int = 0,
    ) -> Any:
        """The solution at the times t from x0 at t[0]; for `Discrete`, one step per time.

        If the solution blows up, the trajectory holds the samples before the blow-up, and `stopped` says
        where and why it ended.

        x0: (states,), or by name, as {"x": 1, "y": 0}; for order 2 the positions, or positions and velocities
            (2 · states,). Equations of fields start from a Field, such as field.first; it also gives the
            inputs, and for order 2 its first times give the rates
        u: the inputs as a function of time, or (len(t), inputs)
        hold: how sampled inputs continue between their times: "zero", "linear" or "band", see `Trajectory`;
            by default as in the data that the model was identified from
        u_t: times of the samples in u if they are not t: (m,), or their step; u is then (m, inputs)
        v0: (states,) velocities for order 2; at rest if not given
        run: the trajectory whose coefficients are used, if terms have one per trajectory (`PerRun`)
        boundary: of fields, on axes that are not periodic: "reflecting" lets nothing flow through the ends,
            "held" keeps the values there as they are
        progress: for fields, called with the number of times done and of all times
        noise: whether random kicks of the size of `diffusion` drive the states; no measurement noise is added
        seed: of the kicks; another seed gives another path
        """
        limits = Limits() if limits is None else limits
        instance(limits, Limits, "simulate: `limits`", "Limits such as Limits(rtol=1e-6)")
        if self.formulation.for_fields:
            return simulate_field(self, x0, t, boundary=boundary, limits=limits, progress=progress)
        hold = self.settings.get("hold", "linear") if hold is None else hold
        path = RandomPath.of(self, seed) if flag(noise, "simulate: `noise`") else None
        return simulate(self, x0, t, u, hold=hold, u_t=u_t, v0=v0, run=run, limits=limits, path=path)

    def score(
        self,
        trajectories: Any,
        kind: Literal["equation", "trajectory", "derivative"] = "equation",
        *,
        window: int | None = None,
    ) -> float:
        """How much of the data the model explains: R², the mean over the states; 1 is perfect.

        "equation": the data against the equations, in the form that the model was fitted in. The integral
        form compares states with integrals of F, which neither magnifies noise nor suffers from chaos.
        "trajectory": the data against solutions from the first sample, restarted every `window` samples if
        that is given; the score is −∞ if a solution blows up.
        "derivative": derivatives estimated from the data against F; noise in the data makes them noisy.
        For fields, equations are compared in the weak form, and solutions start from the smoothed field.
        """
        return score(self, trajectories, kind, window=window)

    @property
    def smoothed(self) -> tuple[Trajectory, ...]:
        """The denoised states of the data that the model was identified from; empty if not in memory."""
        if self.fitted is None or not self.fitted.complete:
            return ()
        return tuple(smooth(self, self.fitted.measured))

    def smooth(self, trajectories: Any) -> list[Trajectory]:
        """The trajectories with denoised states, estimated from the equations and the measurements."""
        return smooth(self, trajectories)

    def with_coef(
        self, coef: ArrayLike | Mapping[tuple[str, str], float], coef_error: ArrayLike | None = None
    ) -> Model:
        """The model with other coefficients: all of them, or only those named by (state, term).

        The gap, the run and the path belong to the old coefficients and are dropped. So are the standard
        errors of the coefficients that change, unless new ones are given.
        """
        if isinstance(coef, Mapping):
            new, error = np.array(self.coef), np.array(self.coef_error)
            for key, value in coef.items():
                if not isinstance(key, tuple) or len(key) != 2:
                    raise DataError(f"with_coef: name each coefficient by (state, term), not by {key!r}.")
                place = self.place(*key)
                # The error of a coefficient that was set by hand is not known.
                new[place], error[place] = floats(value, f"with_coef: {key}", ndim=0), np.nan
        else:
            new, error = numbers(coef, "with_coef: `coef`"), np.full(self.coef.shape, np.nan)
        return replace(
            self,
            coef=new,
            coef_error=error if coef_error is None else numbers(coef_error, "with_coef: `coef_error`"),
            gap=np.nan,
            violation=np.nan if self.constraints else 0.0,
            result=None,
            path=Path(),
            near=Path(),
            denoised=False,
            fitted=None,
            explained={},
            inclusion=None,  # type: ignore[arg-type]
            covariance=None,
        )

    def sample(self, n: int, *, seed: int = 0) -> list[Model]:
        """Models that the data allow, drawn at random, for bands around any result of a model.

        The terms are those of the model or of a near model, with a probability proportional to exp(−Δ/2)
        for a criterion that is Δ higher. Coefficients and parameters are normal about their estimates, with
        their covariance. Under constraints, near models keep their estimates, which satisfy them.

        >>> from cindy.basis import Polynomial
        >>> model = Model([[0.0], [-2.0]], Polynomial(1), ("x",), covariance=[[0.01]])
        >>> ends = [drawn.simulate([1.0], [0.0, 1.0]).x[1, 0] for drawn in model.sample(200)]
        >>> np.quantile(ends, [0.16, 0.84]).round(2).tolist()
        [0.12, 0.15]
        """
        integer(n, "sample: `n`", least=1, most=10_000_000)
        integer(seed, "sample: `seed`", least=0)
        random = np.random.default_rng(seed)
        models = (self, *self.near.models[1:])
        # The model itself has Δ = 0.
        above = np.array([0.0, *self.near.scores[1:]])
        # Akaike weights: the criterion is −2 log-likelihood plus a price per term, so that exp(−Δ/2) is a
        # relative probability.
        weights = np.exp(-0.5 * above) / np.sum(np.exp(-0.5 * above))
        chosen = random.choice(len(weights), size=n, p=weights)
        return [_drawn(self, models[k], random) for k in chosen]

    def save(self, path: str | PathLike[str]) -> None:
        """Write the model as JSON, whole or not at all; `cindy.load` reads it back."""
        text = json.dumps(self.to_dict(), indent=1, ensure_ascii=False, allow_nan=False)
        write_text(path, text, "the model")

    def to_dict(self) -> dict[str, Any]:
        """The model as plain values. Coefficients stand by name, as [value, standard error]."""
        return {
            "format": FORMAT,
            "version": VERSION,
            "equations": self.equations(),
            "states": list(self.states),
            "inputs": list(self.inputs),
            "basis": self.basis.to_dict(),
            "formulation": self.formulation.to_dict(),
            "coefficients": _coefficients(self),
            "parameters": _parameters(self),
            **{name: json_value(getattr(self, name).tolist()) for name in _BY_STATE},
            "diffusion": None if self.diffusion is None else self.diffusion.to_dict(),
            "inclusion": _inclusion(self),
            "covariance": json_value(
                None if self.covariance is None else np.asarray(self.covariance).tolist()
            ),
            **{name: json_value(getattr(self, name)) for name in _AS_THEY_ARE},
            "findings": [json_value(vars(finding)) for finding in self.findings],
            "result": None if self.result is None else self.result.to_dict(),
            "path": self.path.to_dict(),
            "near": self.near.to_dict(),
        }


def _drawn(model: Model, like: Model, random: np.random.Generator) -> Model:
    """`model` with the terms of itself or of a near model, and numbers drawn for these.

    Its own coefficients and parameters are drawn from their covariance, or else from their errors. Of a near
    model coefficients alone are drawn, correlated as the white rows say.
    """
    places = np.flatnonzero(like.coef)
    given = list(like.parameters.values())
    draw = np.concatenate([like.coef.ravel()[places], [estimate.value for estimate in given]])
    error = np.concatenate([like.coef_error.ravel()[places], [estimate.error for estimate in given]])
    if like is model:
        if model.covariance is None and not np.all(np.isfinite(error)):
            raise DataError("sample: the model has no standard errors to draw from. Identify it from data.")
        covariance = np.diag(np.square(error)) if model.covariance is None else model.covariance
        values, vectors = np.linalg.eigh(covariance)
        draw = draw + vectors @ (np.sqrt(np.maximum(values, 0.0)) * random.standard_normal(len(draw)))
    elif not model.constraints and np.all(np.isfinite(error[: len(places)])):
        normal = random.standard_normal(len(places))
        root = None if model.fitted is None else model.fitted.correlations(places)
        draw[: len(places)] += error[: len(places)] * (normal if root is None else root @ normal)
    coef = np.zeros(like.coef.size)
    coef[places] = draw[: len(places)]
    numbers = dict(zip(like.parameters, draw[len(places) :].tolist(), strict=True))
    basis = like.basis.at(numbers) if numbers else like.basis
    parameters = {name: Estimate(value, np.nan) for name, value in numbers.items()}
    changed = model.with_coef(coef.reshape(like.coef.shape))
    return replace(changed, basis=basis, parameters=parameters, findings=())


def _shaped(values: ArrayLike | None, name: str, shape: tuple[int, ...], *, allow_nan: bool = True) -> Floats:
    """A read-only copy, checked to have this shape; NaN throughout if nothing is given."""
    if values is None:
        array = np.full(shape, np.nan)
    else:
        array = np.array(floats(values, f"Model: {name}", ndim=len(shape), allow_nan=allow_nan))
    if array.shape != shape:
        raise DataError(f"Model: {name} must have shape {shape}, but has shape {array.shape}.")
    array.flags.writeable = False
    return array


def _inclusion(model: Model) -> dict[str, dict[str, Any]] | None:
    """For every state, the terms of any of the compared models and their probability; None if unknown."""
    if np.isnan(model.inclusion).all():
        return None
    return _by_name(model, model.inclusion != 0, lambda i, j: json_number(model.inclusion[i, j]))


def _parameters(model: Model) -> dict[str, list[float | str | None]]:
    """The numbers inside terms: {name: [value, standard error]}."""
    return {name: [json_number(v) for v in estimate] for name, estimate in model.parameters.items()}


def _coefficients(model: Model) -> dict[str, dict[str, Any]]:
    """For every state, the terms that are present: {term: [value, standard error]}."""
    return _by_name(
        model, model.support, lambda i, j: [json_number(v[i, j]) for v in (model.coef, model.coef_error)]
    )


def _by_name(
    model: Model, where: NDArray[np.bool_], entry: Callable[[int, int], Any]
) -> dict[str, dict[str, Any]]:
    """{state: {term: entry}} of the marked places of `coef`."""
    return {
        state: {model.terms[i]: entry(i, j) for i in np.flatnonzero(where[:, j]).tolist()}
        for j, state in enumerate(model.states)
    }
