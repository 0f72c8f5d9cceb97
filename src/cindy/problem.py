"""Problem: a summary, a radius and constraints; all scaling, and its undoing, lives here."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import KW_ONLY, dataclass, field
from functools import cached_property

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.sparse import coo_array, csr_array

from cindy._check import positive
from cindy.conflict import name_conflict
from cindy.constraint import Conservation, Constraint, Names, at_samples
from cindy.errors import ConstraintError, DataError, InfeasibleError
from cindy.least_squares import LeastSquares
from cindy.regression import Regression
from cindy.rows import Rows
from cindy.solver import Oracle, Region, oracle_for
from cindy.summary import Summary
from cindy.weights import Adaptive, Weights

__all__ = ["Problem"]

Floats = NDArray[np.float64]
Ints = NDArray[np.intp]

_RIDGE = 1e-6
"""Of the pilot, in units of the largest singular value: what is below is noise, not information."""


@dataclass(frozen=True, eq=False)
class Problem:
    """The rows of a summary, to be explained by few coefficients that obey the constraints.

    Inside, the terms have unit root mean square and so have the targets, so that one
    radius and one arg-max mean the same in every equation; `physical` undoes it.

    radius: of the weighted l1 ball, in scaled units; None: twice that of least squares
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
        if self.radius is not None:
            positive(self.radius, "Problem: `radius`")
        object.__setattr__(self, "constraints", _all_constraints(self.constraints))
        if not isinstance(self.weights, Weights):
            raise DataError(f"Problem: `weights` must be Adaptive() or Uniform(), but is {self.weights!r}.")
        rows, terms = self.summary.total.rows, len(self.summary.terms)
        if rows < terms:
            raise DataError(
                f"Problem: {rows} rows of data cannot tell {terms} terms apart. "
                "Give more data, or a smaller basis."
            )

    @cached_property
    def names(self) -> Names:
        return Names(self.summary.basis, self.summary.states, self.summary.inputs)

    @cached_property
    def _sizes(self) -> tuple[Floats, Floats]:
        """Root mean square of the terms, (terms,), and of the targets, (states,), over the rows."""
        total = self.summary.total
        columns = np.sqrt(np.sum(total.design**2, axis=0) / total.rows)
        targets = np.sqrt(np.sum(total.target**2, axis=0) / total.rows)
        for state, size in zip(self.summary.states, targets, strict=True):
            if size == 0.0:
                raise DataError(
                    f'Problem: the state "{state}" does not change in the data, so nothing can be learnt '
                    "about it. Leave it out, or pass it as an input."
                )
        columns[columns == 0.0] = 1.0
        return columns, targets

    @property
    def size(self) -> Floats:
        """(states,): the size of the targets, which is one when scaled."""
        return self._sizes[1]

    @cached_property
    def unit(self) -> Floats:
        """(terms, states): a scaled coefficient times this is the physical one."""
        columns, targets = self._sizes
        return np.asarray(targets[None, :] / columns[:, None])

    def physical(self, x: Floats) -> Floats:
        """Physical coefficients (terms, states) of scaled ones."""
        return x.reshape(self.unit.shape) * self.unit

    def scaled(self, coef: ArrayLike) -> Floats:
        """Scaled coefficients (terms, states) of physical ones."""
        return np.asarray(np.asarray(coef, dtype=np.float64) / self.unit)

    @cached_property
    def regression(self) -> Regression:
        """The scaled blocks and rows."""
        blocks = tuple(b.scaled(*self._sizes) for b in self.summary.blocks)
        return Regression(blocks, self.scaled_rows, None if self.floor is None else self.floor / self.size)

    @property
    def objective(self) -> LeastSquares:
        return self.regression.total

    @cached_property
    def rows(self) -> Rows:
        """The constraints as rows over the physical coefficients."""
        size = self.unit.size
        width = len(self.summary.states)
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

    @cached_property
    def scaled_rows(self) -> Rows:
        """The same rows over the scaled coefficients, each divided by its largest weight."""
        return self.rows.scaled(self.unit.ravel())

    @cached_property
    def pilot(self) -> Floats:
        """(terms, states): lightly ridged least squares under the equalities, scaled.

        The ridge keeps directions that the data do not determine from swelling the weights.
        """
        total = self.regression.total
        terms, width = self.regression.shape
        ridge = _RIDGE * float(np.linalg.norm(total.design, 2))
        extra = LeastSquares(np.hstack([ridge * np.eye(terms), np.zeros((terms, width))]), terms, 0)
        eased = Regression((total, extra), self.scaled_rows)
        x = np.zeros(terms * width)
        try:
            for group in eased.groups:
                fit = eased.fit(eased.coefficients(group), group)
                x[fit.support] = fit.x
        except InfeasibleError as error:
            raise name_conflict(self.constraints, self.rows, error) from error
        return x.reshape(terms, width)

    @cached_property
    def region(self) -> Region:
        """The scaled feasible set; the default radius is twice the norm of the pilot."""
        weights = self.weights.of(self.pilot).ravel()
        rows = self.scaled_rows
        norm = float(weights @ np.abs(self.pilot).ravel())
        radius = self.radius if self.radius is not None else 2.0 * max(norm, 1e-12)
        return Region(
            weights.size, radius, weights, rows.matrix if len(rows) else None, rows.lower, rows.upper
        )

    @cached_property
    def oracle(self) -> Oracle:
        """Of the region; a region without a point is told in the names of the constraints."""
        try:
            return oracle_for(self.region)
        except InfeasibleError as error:
            raise name_conflict(self.constraints, self.rows, error) from error

    def require_feasible(self) -> None:
        """Raise InfeasibleError, in the names of the constraints, where no coefficients satisfy them."""
        self.oracle.origin  # noqa: B018

    def violation(self, coef: Floats) -> float:
        """By how much physical coefficients miss a constraint at most, in its own units."""
        return self.rows.violation(coef)


def _all_constraints(constraints: Sequence[Constraint]) -> tuple[Constraint, ...]:
    if isinstance(constraints, Constraint):
        constraints = (constraints,)
    for one in constraints:
        if not isinstance(one, Constraint):
            raise ConstraintError(
                "Problem: constraints are made by cindy.fix, bound, tie, conserve, exchange or linear, "
                f"but one is {one!r}."
            )
    return tuple(constraints)
