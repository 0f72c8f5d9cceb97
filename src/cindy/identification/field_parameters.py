"""Parameters inside terms of fields: scanned, then fitted by Gauss-Newton on the weak rows.

1. A law is found in one pass at each of a few values of the parameters, and the best one taken.
2. Around these values each parameter is one more column, the tangent Σ ξ ∂ψ/∂θ, which the weak form
   integrates and frees of noise like any other. Where it is made of several slopes, equalities keep their
   coefficients in proportion. Its coefficient is a step of Gauss and Newton (`_Tangents`).
3. A law is chosen at the new values, and step 2 repeated, until the terms come back (`FieldSearch`).

Every value in step 1 and every step in 2 costs one pass over the grid.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence, Set
from dataclasses import dataclass, replace
from functools import cached_property
from itertools import product
from typing import ClassVar, NamedTuple

import numpy as np

from cindy._arrays import Floats, Ints
from cindy.basis import Basis, Listed, Parameter, Term, differentiate_by_parameter, term_name
from cindy.errors import DataError, NoModelError
from cindy.evidence import WeakRows
from cindy.findings import Finding
from cindy.identification.field_estimates import with_noise_errors
from cindy.identification.inference import Estimates
from cindy.identification.parametric_model import end_of_range, with_parameters
from cindy.model import Estimate, Model
from cindy.problem import Problem, linear
from cindy.regression import Refit, independent, refit
from cindy.search import Loop, Values, fewest_values
from cindy.selection import EFFORT

Pose = Callable[[Basis], tuple[WeakRows, Problem]]
"""The evidence for a basis, and its problem."""


class _Placed(NamedTuple):
    """A law, and the values of the parameters that it was chosen at."""

    model: Model
    values: Values


@dataclass(eq=False)
class FieldSearch(Loop[_Placed, _Placed]):
    """The search for laws of fields with unknown parameters: the values are fitted on the terms of a law, and
    a law is chosen at these values, until its terms come back.

    at: the law of a basis without unknowns
    """

    basis: Basis
    at: Callable[[Basis], Model]
    pose: Pose

    rounds: ClassVar[int] = 4
    """Choices of terms, each at the parameters fitted to the last: a bound on work. Two are typical."""

    def model(self) -> Model:
        """The law at the values with the least residuals, with the joint covariance of all numbers."""
        values = self._scanned()
        last = self.follow(_Placed(self.at(self.basis.at(values)), values))
        assert last is not None
        tangents = _Tangents.of(last.model, self.basis.unknowns(), last.values, self.pose)
        return last.model if tangents is None else tangents.with_parameters(last.model)

    def support(self, start: _Placed) -> bytes:
        return np.flatnonzero(start.model.coef).tobytes()

    def model_on(self, start: _Placed, *, near: bool) -> _Placed:
        """The law that is chosen at the values that fit the terms of the last one best."""
        values = self._refined(start.model, start.values)
        return _Placed(self.at(self.basis.at(values)), values)

    def following(self, met: _Placed, seen: Set[bytes]) -> _Placed | None:
        return met

    def _scanned(self) -> Values:
        """Step 1: of a few values of each parameter, those at which the criterion of the law is least."""
        unknown = self.basis.unknowns()
        scores: list[tuple[float, Values]] = []
        failed: DataError | NoModelError | None = None
        # The criterion has several minima in a parameter; Gauss-Newton finds the one near its start.
        for place in product(*(parameter.grid(fewest_values(len(unknown))) for parameter in unknown)):
            values = {parameter.name: float(value) for parameter, value in zip(unknown, place, strict=True)}
            try:
                path = self.at(self.basis.at(values)).path
            except (DataError, NoModelError) as error:
                # There is a pole at these values, or no law explains the data.
                failed = error
            else:
                scores.append((path.scores[path.chosen or 0], values))
        if not scores:
            assert failed is not None
            raise failed
        return min(scores, key=lambda pair: pair[0])[1]

    def _refined(self, model: Model, values: Values) -> Values:
        """Step 2: the values at which the terms of a model fit best."""
        unknown = self.basis.unknowns()
        now = _Tangents.of(model, unknown, values, self.pose)
        step = np.zeros(0) if now is None else now.step
        for _ in range(EFFORT.field_parameters_steps):
            if now is None or now.still(step):
                break
            new = _Tangents.of(model, unknown, now.moved(step), self.pose)
            if new is not None and new.left <= now.left:
                now, step = new, new.step
            else:
                # A step that fits worse was too long, as the model is linearised.
                step = 0.5 * step
        return values if now is None else now.values


@dataclass(frozen=True, eq=False)
class _Tangents:
    """A model linearised in the parameters that its terms hold.

    problem: that of its basis with the slopes by parameters as further terms
    own: flat places of the model's coefficients; support: of those and of all slopes
    first: (p,) a slope of each parameter; size: (p,) its coefficient for a unit of the parameter's place
    """

    evidence: WeakRows
    problem: Problem
    unknown: tuple[Parameter, ...]
    values: Values
    own: Ints
    support: Ints
    first: Ints
    size: Floats

    @classmethod
    def of(cls, model: Model, unknown: Sequence[Parameter], values: Values, pose: Pose) -> _Tangents | None:
        """None where the model has no term with a parameter."""
        terms = list(model.basis.at(values).terms(model.variables))
        own = np.flatnonzero(model.coef)
        slopes = {parameter: _slopes(model, terms, parameter, values) for parameter in unknown}
        held = tuple(parameter for parameter in unknown if slopes[parameter])
        if not held:
            return None
        names = [(state, term_name(term)) for term in terms for state in model.states]
        ties = []
        for parameter in held:
            (first, size), *others = slopes[parameter].items()
            # Slopes of one parameter move together: one number is fitted for all of them.
            ties += [linear({names[k]: size, names[first]: -amount}, 0.0, 0.0) for k, amount in others]
        evidence, problem = pose(Listed(tuple(terms)))
        problem = replace(problem, constraints=(*problem.constraints, *ties))
        support = np.union1d(own, [flat for parameter in held for flat in slopes[parameter]])
        first_of = np.array([next(iter(slopes[parameter].items())) for parameter in held])
        places, sizes = first_of[:, 0].astype(np.intp), first_of[:, 1]
        return cls(evidence, problem, held, values, own, support, places, sizes)

    @cached_property
    def fit(self) -> Refit:
        return refit(self.problem.regression, self.support)

    @cached_property
    def left(self) -> float:
        """Sum over the equations of the logarithm of their residuals, without the tangents."""
        return float(np.sum(np.log(refit(self.problem.regression, self.own).left)))

    @property
    def places(self) -> Floats:
        """(p,) where the parameters stand on the scale of the search."""
        return np.array([parameter.place(self.values[parameter.name]) for parameter in self.unknown])

    @property
    def step(self) -> Floats:
        """(p,) the step of Gauss and Newton of the places of the parameters, inside their ranges."""
        whole = self.problem.physical(self.fit.x).ravel()[self.first] / self.size
        ends = np.array([parameter.places for parameter in self.unknown]).T
        # A linearisation holds nearby only: a factor, or a fifth of the range, at a time.
        far = np.where(
            [parameter.logarithmic for parameter in self.unknown],
            EFFORT.field_parameters_furthest,
            0.2 * (ends[1] - ends[0]),
        )
        return np.asarray(np.clip(self.places + np.clip(whole, -far, far), *ends) - self.places)

    def still(self, step: Floats) -> bool:
        """Whether a step is small beside the errors of the places."""
        error = self.problem.physical(self.fit.error).ravel()[self.first] / np.abs(self.size)
        return bool(np.all(np.abs(step) <= np.maximum(EFFORT.field_parameters_still * error, 1e-9)))

    def moved(self, step: Floats) -> Values:
        """All values, those of the model's parameters a step further."""
        pairs = zip(self.unknown, self.places + step, strict=True)
        return self.values | {parameter.name: parameter.value(place) for parameter, place in pairs}

    def with_parameters(self, model: Model) -> Model:
        """The model with its parameters, the joint covariance of these and the coefficients, and findings."""
        plain = Estimates(self.problem.physical(self.fit.x), self.problem.physical(self.fit.error))
        whole = with_noise_errors(self.problem, plain, self.evidence)
        unit = np.array([p.slope(self.values[p.name]) for p in self.unknown]) / self.size
        errors = np.abs(unit) * whole.error.ravel()[self.first]
        pairs = zip(self.unknown, errors, strict=True)
        values = {p.name: Estimate(self.values[p.name], float(error)) for p, error in pairs}
        error = np.where(model.coef != 0, whole.error[: len(model.coef)], 0.0)
        covariance = model.covariance
        if whole.covariance is not None and len(whole.covariance) == len(self.support):
            # Coefficients, then parameters: the first slope of each stands for it, in the units of the
            # parameter.
            at = np.searchsorted(self.support, np.concatenate([self.own, self.first]))
            scale = np.concatenate([np.ones(len(self.own)), unit])
            covariance = whole.covariance[np.ix_(at, at)] * np.outer(scale, scale)
        at_places = zip(self.unknown, self.places.tolist(), strict=True)
        ends = [finding for parameter, place in at_places for finding in end_of_range(parameter, place)]
        return replace(
            model,
            coef_error=error,
            parameters=values,
            covariance=covariance,
            path=with_parameters(model.path, values, error),
            near=with_parameters(model.near, values, error),
            findings=(*model.findings, *ends, *self._tied()),
        )

    def _tied(self) -> Iterator[Finding]:
        """Findings on parameters whose slope is a combination of the terms of its equation."""
        design, d = self.problem.regression.total.design, len(self.problem.summary.states)
        for parameter, flat in zip(self.unknown, self.first, strict=True):
            beside = self.support[self.support % d == flat % d] // d
            if independent(design[:, beside]) < len(beside):
                message = (
                    f"The parameter {parameter.name} cannot be told from the coefficients beside it: its "
                    "slope is a combination of their terms. Leave one of them out."
                )
                yield Finding("tied-parameter", message, {"parameter": parameter.name})


def _slopes(model: Model, terms: list[Term], parameter: Parameter, values: Values) -> dict[int, float]:
    """By flat index, the coefficients of the slopes that a unit of a parameter's place adds.

    Slopes that are no terms are appended to these.
    """
    d, slopes = len(model.states), dict[int, float]()
    for flat in np.flatnonzero(model.coef):
        for factor, slope in differentiate_by_parameter(terms[flat // d], parameter.name, model.variables):
            if slope not in terms:
                terms.append(slope)
            place = terms.index(slope) * d + int(flat % d)
            amount = factor * float(model.coef.ravel()[flat]) * parameter.slope(values[parameter.name])
            slopes[place] = slopes.get(place, 0.0) + amount
    return slopes
