"""StandardForm: least squares under linear rows, in units in which one radius means the same everywhere."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import KW_ONLY, dataclass, field
from functools import cached_property
from typing import ClassVar

import numpy as np
import scipy.linalg
from numpy.typing import ArrayLike

from cindy._check import positive
from cindy._types import Floats, Ints
from cindy.errors import InfeasibleError
from cindy.least_squares import LeastSquares
from cindy.regression import Regression
from cindy.rows import Rows
from cindy.solver import Oracle, Region, Result, contradictory, gap_at, oracle_for, smallest_radius

__all__ = ["Adaptive", "StandardForm", "Uniform", "Weights"]


_STEEPEST = 1e6
"""Ratio of the largest weight to the smallest: beyond it a term is as good as forbidden."""


class Weights(ABC):
    """How the weights follow from a pilot estimate of the scaled coefficients.

    adapts: whether the path that they make leads to the terms that matter, so that more may be asked of it
    """

    adapts: ClassVar[bool] = False

    @abstractmethod
    def of(self, pilot: Floats) -> Floats:
        """(terms, targets), positive."""


@dataclass(frozen=True)
class Uniform(Weights):
    """All coefficients cost the same: the plain l1 ball."""

    def of(self, pilot: Floats) -> Floats:
        return np.ones_like(pilot)


@dataclass(frozen=True)
class Adaptive(Weights):
    """A coefficient costs the less, the larger it is in the pilot: 1 / |pilot| ** power."""

    adapts: ClassVar[bool] = True
    power: float = 1.0

    def __post_init__(self) -> None:
        positive(self.power, "Adaptive: `power`")

    def of(self, pilot: Floats) -> Floats:
        size = np.abs(pilot)
        top = float(size.max(initial=0.0))
        if top == 0.0:
            return np.ones_like(pilot)
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
        ridge = _RIDGE * float(np.linalg.norm(total.design, 2))
        if self.ridge is not None:
            ridge = self.ridge * float(np.sqrt(total.rows))
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
        norm = float(weights @ np.abs(self.pilot).ravel())
        if self.regression.shape[0] > _LARGE and not len(rows) and self.weights.adapts:
            # So many small numbers in the pilot make steep weights: least squares may be far outside. Inside,
            # it is the end of the run, which thousands of steps would not reach.
            norm = max(norm, self._norm_of_least_squares(weights))
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


def _region(weights: Floats, radius: float, rows: Rows) -> Region:
    return Region(weights.size, radius, weights, rows.matrix if len(rows) else None, rows.lower, rows.upper)


def _conflict(
    constraints: Sequence[object], rows: Rows, error: InfeasibleError, support: Ints | None
) -> InfeasibleError:
    """The error again, in the texts of the constraints that exclude each other."""
    rows = rows.scaled(np.ones(rows.matrix.shape[1]))
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
