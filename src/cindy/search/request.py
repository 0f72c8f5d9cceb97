"""The request of a user, and how the convex problems of a search are posed and solved.

`Settings` hold the rule and what a user asks of the solver. `Request` holds these, the data and the terms,
and makes the motion, the physics and the options from them. `Options` hold the constraints and the price of
each coefficient. Conservation laws that must hold within a tolerance at every sample are imposed where a
model violates them most, until none is violated (`solve_with_samples`).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from concurrent.futures import Executor
from dataclasses import dataclass, field, replace
from functools import cached_property, partial
from inspect import signature
from typing import Any, TypeVar

import numpy as np
from numpy.typing import NDArray
from scipy.sparse import csr_array

from cindy._arrays import Floats, Ints
from cindy._check import integer, one_of, positive
from cindy.basis import Basis
from cindy.data import Source, Trajectory, looked_at, noise_variance
from cindy.errors import ConstraintError, DataError
from cindy.formulation import Formulation
from cindy.least_squares import Rows
from cindy.model import Model
from cindy.problem import Adaptive, Conservation, Names, Physics, Problem, Weights, at_samples
from cindy.selection import EFFORT, Selection
from cindy.solver import Correction, Direct, Step
from cindy.states import Motion

Known = TypeVar("Known", Problem, Physics)
"""What is solved: with its rows, or where these follow from denoised states, without."""


@dataclass(frozen=True, eq=False)
class Settings:
    """How a user wants the convex problem solved and terms chosen, as in `identify`.

    correction: None for the usual one; seed: of random draws
    least: "significant", or "best" to return a model even if it is no better than chance
    """

    selection: Selection
    correction: Correction | None = None
    tol: float = 1e-6
    max_iter: int = 10_000
    callback: Callable[[Step], bool | None] | None = None
    seed: int = 0
    least: str = "significant"

    def __post_init__(self) -> None:
        if not isinstance(self.selection, Selection):
            raise DataError(
                f"solve: `selection` must be a rule such as Significance(), but is {self.selection!r}."
            )
        if self.correction is not None and not isinstance(self.correction, Correction):
            raise DataError(f"solve: `correction` must be one such as Direct(), but is {self.correction!r}.")
        if self.callback is not None and not callable(self.callback):
            raise DataError(f"solve: `callback` must be a function of a Step, but is {self.callback!r}.")
        positive(self.tol, "solve: `tol`")
        integer(self.max_iter, "solve: `max_iter`", least=1)
        integer(self.seed, "identify: `seed`", least=0)
        one_of(self.least, ("significant", "best"), "identify: `least`")

    def to_dict(self) -> dict[str, Any]:
        """The settings that a model with denoised states stores."""
        correction = repr(self.correction or Direct())
        return {"selection": repr(self.selection), "correction": correction, "tol": self.tol}


@dataclass(frozen=True, eq=False)
class Options:
    """How the convex problems of a search are posed and solved.

    price: what a coefficient must lower χ² by; likely: what it must lower −2 log p by, if that differs
    surcharge: (coefficients,) what is added to the price of each, or taken from it, by the rule
    spared: by how much all prices have fallen since a law is known; falls: by how much they may, from the
        candidates that are not in the law and the correlations of their tests
    faithful: whether terms may only come from the path of the solver, as the user's options shape it
    met: called for every model whose states are fitted
    """

    rows: Rows
    texts: tuple[object, ...]
    price: float
    weights: Weights = field(default_factory=Adaptive)
    radius: float | None = None
    correction: Correction = field(default_factory=Direct)
    tol: float = 1e-6
    max_iter: int = 10_000
    faithful: bool = False
    likely: float | None = None
    surcharge: Floats | None = None
    spared: float = 0.0
    falls: Callable[[Ints, Floats], float] | None = None
    met: Callable[[], None] | None = None

    def prices(self, columns: Ints, *, likelihood: bool = False) -> Floats:
        """(columns,) what each coefficient must lower χ² by, or −2 log p."""
        price = self.likely if likelihood and self.likely is not None else self.price
        more = np.zeros(len(columns)) if self.surcharge is None else self.surcharge[columns]
        return price - self.spared + more

    def cost(self, support: Ints, memory: Floats | float = 1.0) -> float:
        """The price of a support in −2 log p; where equalities tie coefficients, of as many as are free.

        memory: how many correlated samples count as one, for each coefficient: −2 log p counts all of them
        """
        # Equalities make some of the coefficients functions of the others: only those that are free have a
        # price.
        free = self.rows.equalities.freedom(support) if len(self.rows) else None
        share = 1.0 if free is None or not len(support) else free.basis.shape[1] / len(support)
        return share * float(np.sum(memory * self.prices(support, likelihood=True)))

    def resolved(self, rows: int) -> Options:
        """The options where residuals are not noise: a term must then also matter relative to them.

        Without the term the residuals of its equation must grow by the share m, `Effort.options_matters`, of
        what they are with it: χ² then rises by rows · m², and −2 log p, each model with its own variance, by
        rows · log(1 + m²).
        """
        least = EFFORT.options_matters**2 * rows
        likely = rows * float(np.log1p(EFFORT.options_matters**2))
        return replace(self, price=max(self.price, least), likely=max(self.price, likely))


class Stages:
    """Reports of progress to the user's function: progress(done, of, stage) in every stage.

    Stages are "data" (samples read, of all), "search" (models fitted; of how many is not known before) and
    "comparison" (0 of 1, 1 of 1). A function of two arguments is called for the data only.
    """

    def __init__(self, progress: Callable[..., Any] | None) -> None:
        self._progress, self._models = progress, 0
        self._named = progress is not None and _takes_three(progress)

    @property
    def data(self) -> Callable[[int, int | None], None] | None:
        """The function for passes over the data; None where the user gave none."""
        if self._progress is None or not self._named:
            return self._progress
        return lambda done, of: self.tell(done, of, "data")

    def tell(self, done: int, of: int | None, stage: str) -> None:
        """Report how far a stage is."""
        if self._progress is not None and self._named:
            self._progress(done, of, stage)

    def model(self) -> None:
        """Report that the states of one more model are fitted."""
        self._models += 1
        self.tell(self._models, None, "search")


def _takes_three(function: Callable[..., Any]) -> bool:
    try:
        signature(function).bind(0, 1, "data")
    except TypeError:
        return False
    except ValueError:  # Some built-in functions have no signature.
        pass
    return True


@dataclass(frozen=True, eq=False)
class Pieces:
    """All data, where they are and who works on them.

    source: trajectories in parts; executor: None for this process; stages: reports of progress
    """

    source: Source
    executor: Executor | None = None
    stages: Stages = field(default_factory=lambda: Stages(None))

    def told(self, done: int) -> None:
        """Report that so many samples are done."""
        if self.stages.data is not None:
            whole = self.source.whole
            self.stages.data(done, None if whole is None else sum(map(len, whole)))


@dataclass(frozen=True, eq=False)
class Request:
    """The law that a user asks for: of which data, in which terms, chosen by which rule.

    pieces: all data, and who works on them; data: those in memory, or an excerpt
    known: arguments of `Physics` and `Problem`: the radius, the constraints and the weights
    correlation: of the noise of the first states, where several come from one column; None if independent
    """

    pieces: Pieces
    data: list[Trajectory]
    basis: Basis
    form: Formulation
    known: Mapping[str, Any]
    settings: Settings
    correlation: Floats | None = None

    def motion(self, data: list[Trajectory] | None = None, instants: int | None = None) -> Motion | None:
        """The equations with the states unknown; None where the form takes them as measured.

        data: other data than those of the request; instants: into how many parts steps are divided
        """
        given = self.data if data is None else data
        motion = self.form.motion(given, self.basis, instants=instants)
        if motion is None or self.correlation is None:
            return motion
        states = self.data[0].dimension
        return motion.sharing(self.correlation[:states, :states])

    def price(self, motion: Motion) -> float:
        """What a coefficient must lower −2 log p by."""
        return self.settings.selection.price(motion.informed, len(motion.candidates))

    def variance(self, motion: Motion) -> Floats:
        """The variance of the noise of each state of the motion, estimated by the roughness of the data."""
        return motion.variances(self._roughness)

    @cached_property
    def _roughness(self) -> Floats:
        """(states,) variance of the noise by the roughness of the data, which are read once for that."""
        groups, states = looked_at(self.data), self.data[0].states
        if len(groups) == 1 and groups[0][0].dimension == len(states):
            return noise_variance(self.data)
        noise = {
            name: value
            for group in groups
            for name, value in zip(group[0].states, noise_variance(group), strict=True)
        }
        places = [states.index(name) for name in noise]
        values = np.array(list(noise.values()))
        # States that are rarely measured have no roughness: their noise is assumed to be the same share of
        # their spread as that of the others. Of hidden states nothing is known.
        every = np.concatenate([run.x for run in self.data])
        seen = np.isfinite(every).any(axis=0)
        spread = np.full(len(states), np.nan)
        spread[seen] = np.nanstd(every[:, seen], axis=0)
        relative = float(np.median(values / np.maximum(spread[places] ** 2, 1e-300)))
        variance = relative * spread**2
        variance[places] = values
        return np.asarray(variance)

    def physics(self, motion: Motion) -> Physics:
        """The physics of the coefficients; an error where the motion has too few rows to test them."""
        like = self.data[0]
        physics = Physics(Names(self.basis, like.states, like.inputs, self.form), **self.known)
        physics.require_rows(motion.informed // int(np.count_nonzero(motion.measured)))
        return physics

    def narrowed(self, motion: Motion, physics: Physics) -> Motion:
        """The motion without the candidates that a constraint fixes at zero."""
        rows = motion.constraints(physics.rows)
        zero = np.unique(rows.matrix[_says_zero(rows)].indices)
        if not len(zero):
            return motion
        return replace(motion, candidates=np.setdiff1d(motion.candidates, zero))

    def options(self, motion: Motion, physics: Physics) -> Options:
        """The options of the search; constraints that only fix a coefficient at zero are left out."""
        rows = motion.constraints(physics.rows)
        others = ~_says_zero(rows)
        return Options(
            Rows(csr_array(rows.matrix[others]), rows.lower[others], rows.upper[others], rows.owner[others]),
            tuple(physics.constraints),
            self.price(motion),
            physics.weights,
            physics.radius,
            self.settings.correction or Direct(),
            self.settings.tol,
            self.settings.max_iter,
            faithful=not physics.weights.adapts,
            surcharge=self._surcharge(motion),
            falls=partial(self._spared, motion),
            met=self.pieces.stages.model,
        )

    def _surcharge(self, motion: Motion) -> Floats:
        """(terms · states,) what the rule adds to the price of each coefficient, or takes from it."""
        factors, candidates = _factors(motion), motion.candidates
        rule, information = self.settings.selection, self._information(motion)
        prices = rule.prices(motion.informed, factors[candidates], information)
        beyond = np.zeros(len(factors))
        beyond[candidates] = prices - self.price(motion)
        return beyond

    def _spared(self, motion: Motion, tested: Ints, correlation: Floats) -> float:
        """By how much the rule lets prices fall where only these coefficients are still tested."""
        candidates = motion.candidates
        factors, places = _factors(motion)[candidates], np.searchsorted(candidates, tested)
        rule, information = self.settings.selection, self._information(motion)
        return rule.spared(motion.informed, factors, information, places, correlation)

    def _information(self, motion: Motion) -> float:
        """Sum of the squared signal-to-noise ratio over the samples, as a geometric mean over the states."""
        signal = (motion.spread**2 / np.maximum(self.variance(motion), 1e-300))[motion.measured]
        return motion.samples * float(np.exp(np.mean(np.log(np.maximum(signal, 1.0)))))


def _factors(motion: Motion) -> Ints:
    """(terms · states,) the number of factors of the term of each coefficient."""
    terms = motion.basis.plan(motion.variables).terms
    return np.repeat([sum(abs(factor.power) for factor in term) for term in terms], motion.states)


def _says_zero(rows: Rows) -> NDArray[np.bool_]:
    """(rows,) which of them fix one coefficient at zero."""
    return np.asarray((np.diff(rows.matrix.indptr) == 1) & (rows.lower == 0) & (rows.upper == 0))


def solve_with_samples(problem: Known, data: list[Trajectory], solve: Callable[[Known], Model]) -> Model:
    """The model that `solve` makes of the problem, with laws that have a tolerance imposed at every sample.

    Few samples bind: from a few on, those that a model violates most are added until none is violated.
    """
    laws = [c for c in problem.constraints if at_samples(c)]
    if not laws:
        return solve(problem)
    if problem.names.formulation.needs_states:
        raise ConstraintError(
            f"{laws[0]}: a tolerance speaks of samples, and rates were not measured at them. "
            "Impose it exactly: tolerance=None."
        )
    variables = problem.names.variables
    values = np.concatenate([segment.values for run in data for segment in run.segments()])
    terms = problem.names.basis.evaluate(values, variables)
    imposed = np.unique(np.linspace(0, len(terms) - 1, EFFORT.tolerance_at_a_time).astype(int))
    while True:
        model = solve(replace(problem, samples=terms[imposed]))
        excess = _excess(problem.names, laws, terms, model.coef)
        violated = np.flatnonzero(excess > EFFORT.tolerance_slack)
        worst = violated[np.argsort(-excess[violated])][: EFFORT.tolerance_at_a_time]
        new = np.setdiff1d(worst, imposed)
        if not len(new):
            return replace(model, violation=max(model.violation, float(excess.max())))
        imposed = np.union1d(imposed, new)


def _excess(names: Names, laws: list[Conservation], terms: Floats, coef: Floats) -> Floats:
    """(samples,) by how much the law that is violated most exceeds its tolerance at each sample."""
    worst = np.zeros(len(terms))
    for law in laws:
        rate = np.zeros(len(terms))
        for j, weight in law.sample_weights(names).items():
            rate += weight * (terms @ coef[:, j])
        worst = np.maximum(worst, np.abs(rate - law.rate) - (law.tolerance or 0.0))
    return worst
