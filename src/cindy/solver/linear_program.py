"""Linear minimisation over a region by HiGHS: built once, then only the costs change."""

import highspy
import numpy as np
import scipy.sparse

from cindy._types import Floats
from cindy.errors import InfeasibleError, SolverError
from cindy.solver.highs import optimum, quiet_model
from cindy.solver.oracle import Atom, Oracle
from cindy.solver.refinement import Refinement
from cindy.solver.region import Region

__all__ = ["LinearProgram", "smallest_radius"]


class LinearProgram(Oracle):
    """A region as a linear program in p, q ≥ 0 with x_i = (p_i − q_i) radius / weights_i.

    The last basis starts the next call: with only the costs changed it stays
    primal feasible, so the primal simplex method goes on from it. A program
    that does not end with an optimum raises, always.
    """

    costly = True

    def __init__(self, region: Region) -> None:
        self.region = region
        self._corner = region.radius / region.weights
        self._columns = np.arange(2 * region.size, dtype=np.int32)
        self._highs = _model(region, budget=1.0)
        self._refinement: Refinement | None = None
        self._run(np.zeros(region.size))
        zero = bool((region.lower <= 0).all() and (region.upper >= 0).all())
        self.origin = np.zeros(region.size) if zero else self._solution()

    def minimise(self, gradient: Floats) -> Atom:
        cost = gradient * self._corner
        largest = float(np.max(np.abs(cost)))
        self._run(cost / largest if largest > 0 else cost)
        displacement = self._solution() - self.origin
        indices = np.flatnonzero(displacement)
        return Atom(indices, displacement[indices], self.origin)

    def proved(self, gradient: Floats) -> tuple[Atom, float]:
        if self._refinement is None:
            self._refinement = Refinement(self.region)
        point, least = self._refinement.minimise(gradient, self.origin)
        atom, displacement = self.minimise(gradient), point - self.origin
        if float(gradient @ displacement) < atom.slope(gradient):
            indices = np.flatnonzero(displacement)
            atom = Atom(indices, displacement[indices], self.origin)
        return atom, least

    def price(self, gradient: Floats) -> float:
        self.minimise(gradient)
        largest = float(np.max(np.abs(gradient * self._corner)))
        dual = float(self._highs.getSolution().row_dual[-1])
        return max(0.0, -dual * largest / self.region.radius)

    def _run(self, cost: Floats) -> None:
        highs = self._highs
        highs.changeColsCost(len(self._columns), self._columns, np.concatenate([cost, -cost]))
        status = optimum(highs)
        if status == highspy.HighsModelStatus.kInfeasible:
            raise InfeasibleError(_why_infeasible(self.region))
        if status != highspy.HighsModelStatus.kOptimal:
            raise SolverError(
                f"the linear program over {self.region.size} coefficients and {self.region.rows} rows ended "
                f"without an optimum (HiGHS: {highs.modelStatusToString(status).lower()}). "
                "Check the rows for entries of very different size."
            )

    def _solution(self) -> Floats:
        halves = np.array(self._highs.getSolution().col_value)
        x = halves[: self.region.size] - halves[self.region.size :]
        x[np.abs(x) < 1e-14] = 0.0
        return np.asarray(x * self._corner)


def _why_infeasible(region: Region) -> str:
    """The sentence for an empty region, with the smallest radius that is not."""
    text = f"no coefficients satisfy the {region.rows} linear rows within radius {region.radius:g}"
    try:
        least, _ = smallest_radius(region)
    except InfeasibleError:
        return f"{text}, nor within any other (HiGHS: infeasible): the rows contradict each other."
    return f"{text} (HiGHS: infeasible).\nThe smallest feasible radius is {least:.6g}."


def smallest_radius(region: Region) -> tuple[float, Floats]:
    """The least radius at which the rows can be met, and a point there, (size,)."""
    size = region.size
    highs = _model(region, budget=np.inf)
    highs.changeColsCost(2 * size, np.arange(2 * size, dtype=np.int32), np.ones(2 * size))
    status = optimum(highs)
    if status == highspy.HighsModelStatus.kInfeasible:
        raise InfeasibleError(
            f"no coefficients satisfy the {region.rows} linear rows, whatever the radius (HiGHS: "
            "infeasible): they contradict each other."
        )
    if status != highspy.HighsModelStatus.kOptimal:
        raise SolverError(
            f"the least radius for {region.rows} linear rows was not found (HiGHS: "
            f"{highs.modelStatusToString(status).lower()}). "
            "Check the rows for entries of very different size."
        )
    halves = np.array(highs.getSolution().col_value)
    point = (halves[:size] - halves[size:]) * region.radius / region.weights
    return region.norm(point), point


def _model(region: Region, *, budget: float) -> highspy.Highs:
    half = region.matrix @ scipy.sparse.diags_array(region.radius / region.weights)
    largest = np.asarray(abs(half).max(axis=1).todense()).ravel() if region.rows else np.zeros(0)
    row_scale = 1.0 / np.where(largest > 0, largest, 1.0)
    half = scipy.sparse.diags_array(row_scale) @ half
    size = region.size
    budget_row = scipy.sparse.csr_array(np.ones((1, 2 * size)))
    rows = scipy.sparse.vstack([scipy.sparse.hstack([half, -half]), budget_row]).tocsr()
    return quiet_model(
        rows,
        np.zeros(2 * size),
        np.full(2 * size, highspy.kHighsInf),
        np.append(region.lower * row_scale, -highspy.kHighsInf),
        np.append(region.upper * row_scale, budget),
    )
