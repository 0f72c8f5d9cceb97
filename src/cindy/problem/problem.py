"""Problem: a summary, a radius and constraints, all in names and physical units."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import suppress
from dataclasses import KW_ONLY, dataclass, field
from functools import cached_property
from typing import Any

import numpy as np
from scipy.sparse import coo_array, csr_array

from cindy._check import floats, instance, positive, short
from cindy._types import Floats
from cindy.errors import ConstraintError, DataError
from cindy.least_squares import LeastSquares
from cindy.problem.constraint import Conservation, Constraint, Names, at_samples
from cindy.problem.standard_form import Adaptive, StandardForm, Weights
from cindy.regression import Regression
from cindy.rows import Rows
from cindy.solver import Oracle, Region
from cindy.summary import Summary

__all__ = ["Problem"]


@dataclass(frozen=True, eq=False)
class Problem:
    """The rows of a summary, to be explained by few coefficients that obey the constraints.

    What is solved is its standard form, in which one radius and one arg-max mean the same
    in every equation; `physical` undoes the scaling.

    radius: of the weighted l1 ball, in scaled units; None: twice what least squares or the rows need
    samples: (m, terms) the basis at the samples where a conservation law with a tolerance
        must hold; `identify` fills it in
    floor: (states,) error of the rows themselves, in physical units; likewise
    """

    summary: Summary
    _: KW_ONLY
    radius: float | None = None
    constraints: Sequence[Constraint] = ()
    weights: Weights = field(default_factory=Adaptive)
    samples: Floats | None = None
    floor: Floats | None = None

    def __post_init__(self) -> None:
        instance(self.summary, Summary, "Problem: `summary`", "the Summary that cindy.accumulate gives")
        if self.radius is not None:
            positive(self.radius, "Problem: `radius`")
        for name, ndim in (("samples", 2), ("floor", 1)):
            if getattr(self, name) is not None:
                object.__setattr__(self, name, floats(getattr(self, name), f"Problem: `{name}`", ndim=ndim))
        object.__setattr__(self, "constraints", _all_constraints(self.constraints))
        if not isinstance(self.weights, Weights):
            raise DataError(f"Problem: `weights` must be Adaptive() or Uniform(), but is {self.weights!r}.")
        rows, terms = sum(block.rows for block in self.summary.blocks), len(self.summary.terms)
        if rows < terms:
            raise DataError(
                f"Problem: {rows} rows of data cannot tell {terms} terms apart. "
                "Give more data, or a smaller basis."
            )

    @cached_property
    def names(self) -> Names:
        summary = self.summary
        every = summary.formulation.variables(summary.states, summary.inputs)
        rates = every[len(summary.states) : len(every) - len(summary.inputs)]
        return Names(summary.basis, summary.states, summary.inputs, rates)

    @cached_property
    def form(self) -> StandardForm:
        """The same without names, and scaled."""
        moved = np.any([block.target.any(axis=0) for block in self.summary.blocks], axis=0)
        for state, moves in zip(self.summary.states, moved, strict=True):
            if not moves:
                raise DataError(
                    f'Problem: the state "{state}" does not change in the data, so nothing can be learnt '
                    "about it. Leave it out, or pass it as an input."
                )
        return StandardForm(
            self.summary.calibrated,
            self.rows,
            weights=self.weights,
            radius=self.radius,
            texts=self.constraints,
            floor=self.floor,
        )

    @property
    def size(self) -> Floats:
        """(states,): the size of the targets, which is one when scaled."""
        return self.form.sizes[1]

    @property
    def regression(self) -> Regression:
        """The scaled blocks and rows."""
        return self.form.regression

    @property
    def objective(self) -> LeastSquares:
        """The scaled objective."""
        return self.form.objective

    @property
    def region(self) -> Region:
        """The scaled feasible set."""
        return self.form.region

    @property
    def oracle(self) -> Oracle:
        """Of the region; a region without a point is told in the names of the constraints."""
        return self.form.oracle

    def physical(self, x: Floats) -> Floats:
        """Physical coefficients (terms, states) of scaled ones."""
        return self.form.physical(x)

    @cached_property
    def rows(self) -> Rows:
        """The constraints as rows over the physical coefficients."""
        width = len(self.summary.states)
        size = len(self.summary.terms) * width
        entries: list[tuple[int, int, float]] = []
        lower: list[float] = []
        upper: list[float] = []
        owner: list[int] = []
        for k, constraint in enumerate(self.constraints):
            for row in constraint.rows(self.names):
                entries += [(len(lower), i, w) for i, w in row.weights.items()]
                lower.append(row.lower)
                upper.append(row.upper)
                owner.append(k)
            if at_samples(constraint):
                weights = constraint.sample_weights(self.names)
                for sample in self._samples(constraint):
                    entries += [
                        (len(lower), i * width + j, w * v)
                        for i, v in enumerate(sample)
                        for j, w in weights.items()
                    ]
                    lower.append(constraint.rate - (constraint.tolerance or 0.0))
                    upper.append(constraint.rate + (constraint.tolerance or 0.0))
                    owner.append(k)
        at, column, value = (np.array([e[i] for e in entries]) for i in range(3))
        places = (at.astype(np.intp), column.astype(np.intp))
        matrix = csr_array(coo_array((value.astype(np.float64), places), shape=(len(lower), size)))
        return Rows(matrix, np.array(lower), np.array(upper), np.array(owner, dtype=np.intp))

    def _samples(self, constraint: Conservation) -> Floats:
        if self.samples is None:
            raise ConstraintError(
                f"{constraint}: a tolerance speaks of samples, which a summary no longer holds. "
                "Use identify(), or pass Problem(…, samples=basis.evaluate(x, variables))."
            )
        return self.samples

    def require_feasible(self) -> None:
        """Raise InfeasibleError, in the names of the constraints, where no coefficients satisfy them."""
        self.oracle.origin  # noqa: B018

    def violation(self, coef: Floats) -> float:
        """By how much physical coefficients miss a constraint at most, in its own units."""
        return self.rows.violation(coef)


def _all_constraints(constraints: Sequence[Constraint]) -> tuple[Constraint, ...]:
    every: tuple[Any, ...] = (constraints,)
    if not isinstance(constraints, (Constraint, str)):
        with suppress(TypeError):
            every = tuple(constraints)
    for one in every:
        if not isinstance(one, Constraint):
            raise ConstraintError(
                "Problem: constraints are made by cindy.fix, bound, tie, conserve, exchange or linear, "
                f"but one is {short(one)}."
            )
    return every
