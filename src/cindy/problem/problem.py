"""Problem: a summary, a radius and constraints, all in names and physical units.

Its `StandardForm` is least squares under linear rows, in units in which one radius means the same everywhere.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import KW_ONLY, dataclass, field
from functools import cached_property
from typing import Any, ClassVar

import numpy as np
import scipy.linalg
from numpy.typing import ArrayLike
from scipy.sparse import coo_array, csr_array
from scipy.sparse.linalg import svds

from cindy._arrays import Floats, Ints
from cindy._check import floats, instance, positive, short
from cindy.errors import ConstraintError, DataError, InfeasibleError
from cindy.least_squares import LeastSquares, Rows
from cindy.problem.constraint import Conservation, Constraint, Names, at_samples
from cindy.regression import Regression
from cindy.solver import Oracle, Region, Result, contradictory, gap_at, oracle_for, smallest_radius
from cindy.summary import Summary

_STEEPEST = 1e6
"""Ratio of the largest weight to the smallest: beyond it a term is as good as forbidden."""


class Weights(ABC):
    """How the weights follow from a pilot estimate of the scaled coefficients, which a `Problem` makes.

    adapts: whether terms that are large in the pilot come first on the path

    >>> import numpy as np
    >>> issubclass(Uniform, Weights), Uniform().of(np.zeros((2, 1))).tolist()
    (True, [[1.0], [1.0]])
    """

    adapts: ClassVar[bool] = False

    @abstractmethod
    def of(self, pilot: Floats) -> Floats:
        """(terms, targets), positive."""


@dataclass(frozen=True)
class Uniform(Weights):
    """All coefficients cost the same: the plain l1 ball.

    >>> import numpy as np
    >>> Uniform().of(np.array([[2.0], [1.0]])).ravel().tolist()
    [1.0, 1.0]
    """

    def of(self, pilot: Floats) -> Floats:
        return np.ones_like(pilot)


@dataclass(frozen=True)
class Adaptive(Weights):
    """A coefficient costs the less, the larger it is in the pilot: 1 / |pilot| ** power.

    >>> import numpy as np
    >>> Adaptive().of(np.array([[2.0], [1.0]])).ravel().tolist()
    [1.0, 2.0]
    """

    adapts: ClassVar[bool] = True
    power: float = 1.0

    def __post_init__(self) -> None:
        positive(self.power, "Adaptive: `power`")

    def of(self, pilot: Floats) -> Floats:
        size = np.abs(pilot)
        top = float(size.max(initial=0.0))
        if top == 0.0:
            return np.ones_like(pilot)
        # The adaptive lasso of Zou (J. Am. Stat. Assoc. 101, 2006): what least squares finds large is
        # cheap, so that the path reaches it first.
        return np.asarray(np.maximum(size / top, 1.0 / _STEEPEST) ** -self.power)


_RIDGE = 1e-6
"""Of the pilot, in units of the largest singular value: what is below is noise, not information."""
_LARGE = 800
"""Terms beyond which all equations are solved with one factor, and not each with its own."""


@dataclass(frozen=True, eq=False)
class StandardForm:
    """Blocks and rows in physical units, and the same problem with terms and targets of unit size.

    Inside, columns and targets have unit root mean square, so that one radius and one
    arg-max mean the same for every coefficient; `physical` undoes it.

    blocks: the objective, in parts; rows: constraints over the flattened coefficients (terms, targets)
    radius: of the weighted l1 ball, in scaled units; None: twice what least squares or the rows need
    texts: what the constraints say, by `Rows.owner`; errors quote them
    floor: (targets,) error of the blocks' rows themselves, in physical units
    ridge: of the pilot, in units of a column; None: next to none, in units of the largest singular value
    """

    blocks: tuple[LeastSquares, ...]
    rows: Rows
    _: KW_ONLY
    weights: Weights = field(default_factory=Adaptive)
    radius: float | None = None
    texts: Sequence[object] = ()
    floor: Floats | None = None
    ridge: float | None = None

    @cached_property
    def sizes(self) -> tuple[Floats, Floats]:
        """Root mean square of the terms, (terms,), and of the targets, (targets,); 1 where it is 0."""
        # A factor has the same column norms as the rows that it stands for, so that the mean square needs
        # their number.
        rows = max(sum(b.rows for b in self.blocks), 1)
        whole = np.sqrt(sum(np.sum(b.factor**2, axis=0) for b in self.blocks) / rows)
        whole[whole == 0.0] = 1.0
        return whole[: self.blocks[0].terms], whole[self.blocks[0].terms :]

    @cached_property
    def unit(self) -> Floats:
        """(terms, targets): a scaled coefficient times this is the physical one."""
        columns, targets = self.sizes
        return np.asarray(targets[None, :] / columns[:, None])

    def physical(self, x: Floats) -> Floats:
        """Physical coefficients (terms, targets) of scaled ones."""
        return x.reshape(self.unit.shape) * self.unit

    def scaled(self, coef: ArrayLike) -> Floats:
        """Scaled coefficients (terms, targets) of physical ones."""
        return np.asarray(np.asarray(coef, dtype=np.float64) / self.unit)

    @cached_property
    def scaled_rows(self) -> Rows:
        """The rows over the scaled coefficients, each divided by its largest weight."""
        return self.rows.scaled(self.unit.ravel())

    @cached_property
    def regression(self) -> Regression:
        """The scaled blocks and rows."""
        floor = None if self.floor is None else self.floor / self.sizes[1]
        return Regression(tuple(b.scaled(*self.sizes) for b in self.blocks), self.scaled_rows, floor)

    @property
    def objective(self) -> LeastSquares:
        return self.regression.total

    @cached_property
    def pilot(self) -> Floats:
        """(terms, targets): lightly ridged least squares under the equalities, scaled.

        The ridge keeps directions that the data do not determine from swelling the weights.
        """
        total = self.objective
        terms, width = self.regression.shape
        if self.ridge is not None:
            ridge = self.ridge * float(np.sqrt(total.rows))
        else:
            # Small beside every direction that data determine, and much larger than rounding.
            ridge = _RIDGE * _largest(total.design)
        # A ridge is a further block of rows, √λ ξ = 0, so that the same fit serves.
        extra = LeastSquares(np.hstack([ridge * np.eye(terms), np.zeros((terms, width))]), terms, 0)
        eased = Regression((total, extra), self.scaled_rows)
        if terms > _LARGE and not len(eased.equal):
            return _solved(eased.total)
        x = np.zeros(terms * width)
        try:
            for group in eased.groups:
                fit = eased.fit(eased.coefficients(group), group)
                x[fit.support] = fit.x
        except InfeasibleError as error:
            raise self.named(error) from error
        return x.reshape(terms, width)

    @cached_property
    def region(self) -> Region:
        """The scaled feasible set."""
        weights = self.weights.of(self.pilot).ravel()
        rows = self.scaled_rows
        if self.radius is not None:
            return _region(weights, self.radius, rows)
        # Twice the norm of least squares: the ball then holds the unconstrained optimum, and the path that
        # leads to it.
        norm = float(weights @ np.abs(self.pilot).ravel())
        if self.regression.shape[0] > _LARGE and not len(rows) and self.weights.adapts:
            # So many small numbers in the pilot make steep weights: least squares may be far outside. Inside,
            # it is the end of the run, which thousands of steps would not reach.
            norm = max(norm, self._norm_of_least_squares(weights))
        # The pilot obeys equalities only. Where inequalities ask for larger coefficients, the ball must
        # hold those too.
        if rows.violation(self.pilot) > 0.0:
            norm = max(norm, self._least_radius(weights))
        return _region(weights, 2.0 * max(norm, 1e-12), rows)

    def _norm_of_least_squares(self, weights: Floats) -> float:
        """0 where the data do not determine it."""
        if self.regression.independent < self.regression.shape[0]:
            return 0.0
        return float(weights @ np.abs(_solved(self.objective)).ravel())

    def _least_radius(self, weights: Floats) -> float:
        try:
            return smallest_radius(_region(weights, 1.0, self.scaled_rows))[0]
        except InfeasibleError as error:
            raise self.named(error) from error

    @cached_property
    def oracle(self) -> Oracle:
        """Of the region; a region without a point is told in the texts of the constraints."""
        try:
            return oracle_for(self.region)
        except InfeasibleError as error:
            raise self.named(error) from error

    def named(self, error: InfeasibleError, support: Ints | None = None) -> InfeasibleError:
        """The error in the texts of the constraints that exclude each other, as few as possible.

        Where the constraints are possible together it is the radius that is too small, and the error says so.

        support: the coefficients that may differ from zero; None: all
        """
        return _conflict(self.texts, self.rows, error, support)

    def gap(self, x: Floats, run: Result) -> float:
        """No coefficients in the region fit better than x by more than this share of the loss of zero.

        By the Frank-Wolfe gap at x itself, or by what the run says of the least loss that there can
        be, whichever is the tighter.
        """
        # Both bounds hold, so the tighter one does: the gap at x, and the loss of x over the least loss
        # that the run has proved to be possible.
        at_zero = float(np.sum(self.objective.target**2))
        below = self.objective.value(x) - (run.objective - run.gap)
        gap = min(gap_at(self.objective, self.oracle, x), max(below, 0.0))
        return gap / (at_zero if at_zero > 0 else 1.0)


def _solved(objective: LeastSquares) -> Floats:
    """(terms, targets): least squares with all terms, which must be independent."""
    terms = objective.terms
    return np.asarray(
        scipy.linalg.solve_triangular(objective.design[:terms], objective.target[:terms], check_finite=False)
    )


def _largest(design: Floats) -> float:
    """The largest singular value; of many columns by Lanczos' method, without the others."""
    if design.shape[1] <= _LARGE:
        return float(np.linalg.norm(design, 2))
    start = np.full(min(design.shape), 1.0)
    return float(svds(design, k=1, v0=start, return_singular_vectors=False)[0])


def _region(weights: Floats, radius: float, rows: Rows) -> Region:
    return Region(weights.size, radius, weights, rows.matrix if len(rows) else None, rows.lower, rows.upper)


def _conflict(
    constraints: Sequence[object], rows: Rows, error: InfeasibleError, support: Ints | None
) -> InfeasibleError:
    """The error again, in the texts of the constraints that exclude each other."""
    rows = rows.scaled(np.ones(rows.matrix.shape[1]))
    # Radius and data play no part in a contradiction between constraints, so that the rows alone are asked.
    columns = np.arange(rows.matrix.shape[1]) if support is None else support
    if not (len(rows) and len(columns)):
        return error
    region = Region(len(columns), 1.0, None, rows.matrix[:, columns], rows.lower, rows.upper)
    texts = [f'"{constraints[i]}"' for i in contradictory(region, rows.owner)]
    if not texts:
        return error
    listed = ", ".join(texts)
    if support is not None:
        which = "the constraint" if len(texts) == 1 else f"these {len(texts)} constraints"
        return InfeasibleError(
            f"the selection keeps {len(support)} coefficients, and {which} cannot be satisfied with those "
            f"alone: {listed}. Keep more terms, or drop or change a constraint."
        )
    if len(texts) == 1:
        return InfeasibleError(f"the constraint {listed} cannot be satisfied by any coefficients.")
    which = "these two constraints exclude" if len(texts) == 2 else f"these {len(texts)} constraints exclude"
    return InfeasibleError(f"{which} each other: {listed}. Drop or change one of them.")


@dataclass(frozen=True, eq=False)
class Problem:
    """The rows of a summary, to be explained by few coefficients that obey the constraints.

    What is solved is its standard form, in which one radius and one arg-max mean the same
    in every equation; `physical` undoes the scaling.

    radius: of the weighted l1 ball, in scaled units; None: twice what least squares or the rows need
    samples: (m, terms) the basis at the samples where a conservation law with a tolerance
        must hold; `identify` fills it in
    floor: (states,) error of the rows themselves, in physical units; likewise

    >>> import numpy as np
    >>> import cindy
    >>> t = np.linspace(0, 6, 200)
    >>> swing = cindy.Trajectory(t, np.stack([np.cos(t), -np.sin(t)], axis=1), ("x", "v"))
    >>> summary = cindy.accumulate(swing, cindy.Polynomial(1))
    >>> problem = Problem(summary, constraints=[cindy.fix("x", "v", 1.0)])
    >>> cindy.solve(problem).coef.round(6).tolist()
    [[0.0, 0.0], [0.0, -1.0], [1.0, 0.0]]
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
        # With fewer rows than terms any target is explained exactly, and nothing can be tested.
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
                # Physical coefficients: rows are scaled later, together with the columns.
                entries += [(len(lower), i, w) for i, w in row.weights.items()]
                lower.append(row.lower)
                upper.append(row.upper)
                owner.append(k)
            if at_samples(constraint):
                weights = constraint.sample_weights(self.names)
                # d/dt Σ w_j x_j = Σ_j w_j Σ_i ψ_i(sample) ξ_ij must stay within the tolerance at this
                # sample: one row.
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
