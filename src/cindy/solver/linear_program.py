"""Linear minimisation over a region by HiGHS: built once, then only the costs change."""

import highspy
import numpy as np
import scipy.sparse

from cindy._types import Floats
from cindy.errors import InfeasibleError, SolverError
from cindy.solver.oracle import Atom, Oracle
from cindy.solver.region import Region

__all__ = ["LinearProgram", "smallest_radius"]


# HiGHS's tightest. Columns and rows are scaled to one beforehand, so it holds in relative terms.
TOLERANCE = 1e-10
DUAL, PRIMAL = 1, 4


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

    def price(self, gradient: Floats) -> float:
        self.minimise(gradient)
        largest = float(np.max(np.abs(gradient * self._corner)))
        dual = float(self._highs.getSolution().row_dual[-1])
        return max(0.0, -dual * largest / self.region.radius)

    def _run(self, cost: Floats) -> None:
        highs = self._highs
        highs.changeColsCost(len(self._columns), self._columns, np.concatenate([cost, -cost]))
        highs.run()
        status = highs.getModelStatus()
        if status == highspy.HighsModelStatus.kUnknown:
            # An ill-conditioned last basis: the same program from scratch, by the dual method.
            highs.clearSolver()
            highs.setOptionValue("simplex_strategy", DUAL)
            highs.run()
            highs.setOptionValue("simplex_strategy", PRIMAL)
            status = highs.getModelStatus()
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
    highs.run()
    if highs.getModelStatus() != highspy.HighsModelStatus.kOptimal:
        raise InfeasibleError(
            f"no coefficients satisfy the {region.rows} linear rows, whatever the radius (HiGHS: "
            f"{highs.modelStatusToString(highs.getModelStatus()).lower()}): they contradict each other."
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
    model = highspy.HighsLp()
    model.num_col_ = 2 * size
    model.num_row_ = region.rows + 1
    model.col_cost_ = np.zeros(2 * size)
    model.col_lower_ = np.zeros(2 * size)
    model.col_upper_ = np.full(2 * size, highspy.kHighsInf)
    model.row_lower_ = np.append(region.lower * row_scale, -highspy.kHighsInf)
    model.row_upper_ = np.append(region.upper * row_scale, budget)
    model.a_matrix_.format_ = highspy.MatrixFormat.kRowwise
    model.a_matrix_.start_ = rows.indptr
    model.a_matrix_.index_ = rows.indices
    model.a_matrix_.value_ = rows.data
    highs = highspy.Highs()
    for option, value in (
        ("output_flag", False),
        ("threads", 1),
        ("solver", "simplex"),
        ("simplex_strategy", PRIMAL),
        ("presolve", "off"),
        ("primal_feasibility_tolerance", TOLERANCE),
        ("dual_feasibility_tolerance", TOLERANCE),
    ):
        highs.setOptionValue(option, value)
    highs.passModel(model)
    return highs
