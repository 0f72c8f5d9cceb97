"""The problem that is solved: a summary, constraints and a radius, in names and physical units.

`StandardForm` brings it to the form that the solver takes,

    minimise ‖A x − B‖²   over Σ weights_i |x_i| ≤ radius, lower ≤ R x ≤ upper,

1. Columns of A and B are scaled to unit root mean square, so that one radius means the same for all terms.
2. A pilot estimate by lightly ridged least squares under the equalities gives the weights (`Adaptive`).
3. Without a given radius, it is twice the norm of least squares, or of what the rows need if that is more.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterator, Sequence
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
from cindy.problem.constraint import Constraint, Names, Row, at_samples
from cindy.regression import Regression
from cindy.solver import Oracle, Region, Result, contradictory, gap_at, oracle_for, smallest_radius
from cindy.summary import Summary

_STEEPEST = 1e6
"""Largest ratio of two weights: a larger one would practically forbid a term."""


class Weights(ABC):
    """The rule by which the weights follow from a pilot estimate of the scaled coefficients.

    adapts: whether terms that are large in the pilot come first on the path

    >>> import numpy as np
    >>> issubclass(Uniform, Weights), Uniform().of(np.zeros((2, 1))).tolist()
    (True, [[1.0], [1.0]])
    """

    adapts: ClassVar[bool] = False

    @abstractmethod
    def of(self, pilot: Floats) -> Floats:
        """(terms, targets): positive weights."""


@dataclass(frozen=True)
class Uniform(Weights):
    """All coefficients have the same weight: the plain l1 ball.

    >>> import numpy as np
    >>> Uniform().of(np.array([[2.0], [1.0]])).ravel().tolist()
    [1.0, 1.0]
    """

    def of(self, pilot: Floats) -> Floats:
        return np.ones_like(pilot)


@dataclass(frozen=True)
class Adaptive(Weights):
    """A coefficient has the weight 1 / |pilot| ** power: terms that are large in the pilot cost little.

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
        # The adaptive lasso (Zou, J. Am. Stat. Assoc. 101, 2006): the path reaches terms of small weight
        # first.
        return np.asarray(np.maximum(size / top, 1.0 / _STEEPEST) ** -self.power)


_RIDGE = 1e-6
"""Ridge of the pilot, in units of the largest singular value: directions below it are noise."""
_LARGE = 800
"""Terms beyond which all equations are solved with one factor, and not each with its own."""


@dataclass(frozen=True, eq=False)
class StandardForm:
    """Blocks and rows in physical units, and the same problem in scaled units.

    In scaled units columns and targets have unit root mean square; `physical` undoes the scaling.

    blocks: the objective, in parts; rows: constraints over the flattened coefficients (terms, targets)
    radius: of the weighted l1 ball, in scaled units; None: twice what least squares or the rows need
    texts: the constraints in words, by `Rows.owner`; errors quote them
    floor: (targets,) error of the rows of the blocks themselves, in physical units
    ridge: of the pilot, in units of a column; None: a very small part of the largest singular value
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
        # A factor has the column norms of the rows that it stands for.
        rows = max(sum(block.rows for block in self.blocks), 1)
        sizes = np.sqrt(sum(np.sum(block.factor**2, axis=0) for block in self.blocks) / rows)
        sizes[sizes == 0.0] = 1.0
        return sizes[: self.blocks[0].terms], sizes[self.blocks[0].terms :]

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
        return Regression(tuple(block.scaled(*self.sizes) for block in self.blocks), self.scaled_rows, floor)

    @property
    def objective(self) -> LeastSquares:
        return self.regression.total

    @cached_property
    def pilot(self) -> Floats:
        """(terms, targets): lightly ridged least squares under the equalities, scaled."""
        # The ridge keeps coefficients small in directions that the data do not determine.
        total = self.objective
        terms, width = self.regression.shape
        if self.ridge is not None:
            ridge = self.ridge * float(np.sqrt(total.rows))
        else:
            # Small beside every direction that the data determine, and much larger than rounding.
            ridge = _RIDGE * _largest(total.design)
        # A ridge is a further block of rows, √λ ξ = 0.
        block = LeastSquares(np.hstack([ridge * np.eye(terms), np.zeros((terms, width))]), terms, 0)
        ridged = Regression((total, block), self.scaled_rows)
        if terms > _LARGE and not len(ridged.equal):
            return _solved(ridged.total)
        x = np.zeros(terms * width)
        try:
            for group in ridged.groups:
                fit = ridged.fit(ridged.coefficients(group), group)
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
        # At twice the norm of least squares the ball holds the unconstrained optimum and the path to it.
        norm = float(weights @ np.abs(self.pilot).ravel())
        terms = self.regression.shape[0]
        if terms > _LARGE and not len(rows) and self.weights.adapts and self.regression.independent == terms:
            # With very many terms the pilot has many small coefficients and the weights differ widely, so
            # that least squares may lie far outside the ball. Inside it is the end of the run, found at once.
            norm = max(norm, float(weights @ np.abs(_solved(self.objective)).ravel()))
        # The pilot obeys only the equalities. The ball must also hold what the inequalities need.
        if rows.violation(self.pilot) > 0.0:
            try:
                norm = max(norm, smallest_radius(_region(weights, 1.0, rows))[0])
            except InfeasibleError as error:
                raise self.named(error) from error
        return _region(weights, 2.0 * max(norm, 1e-12), rows)

    @cached_property
    def oracle(self) -> Oracle:
        """The oracle of the region; the error of an empty region quotes the texts of the constraints."""
        try:
            return oracle_for(self.region)
        except InfeasibleError as error:
            raise self.named(error) from error

    def named(self, error: InfeasibleError, support: Ints | None = None) -> InfeasibleError:
        """The error in the texts of the constraints that contradict each other, as few as possible.

        If the constraints can be satisfied together, the radius is too small, and the error stays as it is.

        support: the coefficients that may differ from zero; None: all
        """
        rows = self.rows.scaled(np.ones(self.rows.matrix.shape[1]))
        columns = np.arange(rows.matrix.shape[1]) if support is None else support
        if not (len(rows) and len(columns)):
            return error
        # A contradiction between constraints does not depend on radius and data, only on the rows.
        region = Region(len(columns), 1.0, None, rows.matrix[:, columns], rows.lower, rows.upper)
        texts = [f'"{self.texts[i]}"' for i in contradictory(region, rows.owner)]
        if not texts:
            return error
        listed = ", ".join(texts)
        if support is not None:
            which = "the constraint" if len(texts) == 1 else f"these {len(texts)} constraints"
            return InfeasibleError(
                f"the selection keeps {len(support)} coefficients, and {which} cannot be satisfied with "
                f"those alone: {listed}. Keep more terms, or drop or change a constraint."
            )
        if len(texts) == 1:
            return InfeasibleError(f"the constraint {listed} cannot be satisfied by any coefficients.")
        count = "two" if len(texts) == 2 else len(texts)
        return InfeasibleError(
            f"these {count} constraints exclude each other: {listed}. Drop or change one of them."
        )

    def gap(self, x: Floats, run: Result) -> float:
        """No coefficients in the region fit better than x by more than this share of the loss at zero.

        Two bounds hold, and this is the smaller one: the Frank-Wolfe gap at x, and the loss at x less the
        lower bound on the loss that the run has proved.
        """
        at_zero = float(np.sum(self.objective.target**2))
        above = self.objective.value(x) - (run.objective - run.gap)
        gap = min(gap_at(self.objective, self.oracle, x), max(above, 0.0))
        return gap / (at_zero if at_zero > 0 else 1.0)


def _solved(objective: LeastSquares) -> Floats:
    """(terms, targets): least squares with all terms, which must be linearly independent."""
    terms = objective.terms
    return np.asarray(
        scipy.linalg.solve_triangular(objective.design[:terms], objective.target[:terms], check_finite=False)
    )


def _largest(design: Floats) -> float:
    """The largest singular value; of many columns by Lanczos' method, which computes no others."""
    if design.shape[1] <= _LARGE:
        return float(np.linalg.norm(design, 2))
    start = np.full(min(design.shape), 1.0)
    return float(svds(design, k=1, v0=start, return_singular_vectors=False)[0])


def _region(weights: Floats, radius: float, rows: Rows) -> Region:
    return Region(weights.size, radius, weights, rows.matrix if len(rows) else None, rows.lower, rows.upper)


@dataclass(frozen=True, eq=False)
class Physics:
    """What is known of coefficients apart from the data, in names and physical units.

    radius, constraints, weights, samples: as in `Problem`
    """

    names: Names
    _: KW_ONLY
    radius: float | None = None
    constraints: Sequence[Constraint] = ()
    weights: Weights = field(default_factory=Adaptive)
    samples: Floats | None = None

    def __post_init__(self) -> None:
        if self.radius is not None:
            positive(self.radius, "Problem: `radius`")
        if self.samples is not None:
            object.__setattr__(self, "samples", floats(self.samples, "Problem: `samples`", ndim=2))
        object.__setattr__(self, "constraints", _all_constraints(self.constraints))
        if not isinstance(self.weights, Weights):
            raise DataError(f"Problem: `weights` must be Adaptive() or Uniform(), but is {self.weights!r}.")

    def require_rows(self, rows: int) -> None:
        """Refuse data without more rows than terms: they explain any target, so that nothing is tested."""
        terms = len(self.names.terms)
        if rows <= terms:
            raise DataError(
                f"Problem: {rows} rows of data cannot tell {terms} terms apart and from noise. "
                "Give more data, or a smaller basis."
            )

    @cached_property
    def rows(self) -> Rows:
        """The constraints as rows over the physical coefficients."""
        rows = [
            (k, row)
            for k, constraint in enumerate(self.constraints)
            for row in (*constraint.rows(self.names), *self._at_samples(constraint))
        ]
        entries = [(i, *entry) for i, (_, row) in enumerate(rows) for entry in row.weights.items()]
        number, column, weight = (np.array([entry[i] for entry in entries]) for i in range(3))
        places = (number.astype(np.intp), column.astype(np.intp))
        shape = (len(rows), len(self.names.terms) * len(self.names.states))
        lower, upper = (np.array([getattr(row, side) for _, row in rows]) for side in ("lower", "upper"))
        matrix = csr_array(coo_array((weight.astype(np.float64), places), shape=shape))
        return Rows(matrix, lower, upper, np.array([k for k, _ in rows], dtype=np.intp))

    def _at_samples(self, constraint: Constraint) -> Iterator[Row]:
        """One row for each sample where a law holds within a tolerance.

        d/dt Σ w_j x_j = Σ_j w_j Σ_i ψ_i(sample) ξ_ij stays within the tolerance.
        """
        if not at_samples(constraint):
            return
        if self.samples is None:
            raise ConstraintError(
                f"{constraint}: a tolerance speaks of samples, which a summary no longer holds. "
                "Use identify(), or pass Problem(…, samples=basis.evaluate(x, variables))."
            )
        states, tolerance = constraint.sample_weights(self.names), constraint.tolerance or 0.0
        width = len(self.names.states)
        for sample in self.samples:
            weights = {i * width + j: w * v for i, v in enumerate(sample) for j, w in states.items()}
            yield Row(weights, constraint.rate - tolerance, constraint.rate + tolerance)

    def violation(self, coef: Floats) -> float:
        """The largest amount by which physical coefficients miss a constraint, in its own units."""
        return self.rows.violation(coef)


@dataclass(frozen=True, eq=False)
class Problem(Physics):
    """The rows of a summary, to be explained by few coefficients that obey the constraints.

    The solver gets its standard form (`StandardForm`); `physical` undoes the scaling.

    radius: of the weighted l1 ball, in scaled units; None: twice what least squares or the rows need
    samples: (m, terms), the basis at the samples where a conservation law with a tolerance must hold;
        `identify` fills it in
    floor: (states,) error of the rows themselves, in physical units; `identify` fills it in

    >>> import numpy as np
    >>> import cindy
    >>> t = np.linspace(0, 6, 200)
    >>> swing = cindy.Trajectory(t, np.stack([np.cos(t), -np.sin(t)], axis=1), ("x", "v"))
    >>> summary = cindy.accumulate(swing, cindy.Polynomial(1))
    >>> problem = Problem(summary, constraints=[cindy.fix("x", "v", 1.0)])
    >>> cindy.solve(problem).coef.round(6).tolist()
    [[0.0, 0.0], [0.0, -1.0], [1.0, 0.0]]
    """

    names: Names = field(init=False, repr=False)
    summary: Summary
    _: KW_ONLY
    floor: Floats | None = None

    def __post_init__(self) -> None:
        instance(self.summary, Summary, "Problem: `summary`", "the Summary that cindy.accumulate gives")
        if self.floor is not None:
            object.__setattr__(self, "floor", floats(self.floor, "Problem: `floor`", ndim=1))
        summary = self.summary
        names = Names(summary.basis, summary.states, summary.inputs, summary.formulation)
        object.__setattr__(self, "names", names)
        super().__post_init__()
        self.require_rows(sum(block.rows for block in summary.blocks))

    @cached_property
    def form(self) -> StandardForm:
        """The same problem without names, scaled."""
        changes = np.any([block.target.any(axis=0) for block in self.summary.blocks], axis=0)
        for state, changed in zip(self.summary.states, changes, strict=True):
            if not changed:
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
        """(states,): the physical size of the targets; their scaled size is one."""
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
        """The oracle of the region; the error of an empty region quotes the constraints."""
        return self.form.oracle

    def physical(self, x: Floats) -> Floats:
        """Physical coefficients (terms, states) of scaled ones."""
        return self.form.physical(x)

    def require_feasible(self) -> None:
        """Raise an InfeasibleError that quotes the constraints where no coefficients satisfy them."""
        self.oracle.origin  # noqa: B018


def _all_constraints(constraints: Sequence[Constraint]) -> tuple[Constraint, ...]:
    listed: tuple[Any, ...] = (constraints,)
    if not isinstance(constraints, (Constraint, str)):
        with suppress(TypeError):
            listed = tuple(constraints)
    for constraint in listed:
        if not isinstance(constraint, Constraint):
            raise ConstraintError(
                "Problem: constraints are made by cindy.fix, bound, tie, conserve, exchange or linear, "
                f"but one is {short(constraint)}."
            )
    return listed
