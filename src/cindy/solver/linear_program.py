"""Linear minimisation over a region by HiGHS, and the choice of the cheapest oracle for a region."""

from typing import Any, cast

import highspy
import numpy as np
import scipy.sparse
from numpy.typing import NDArray

from cindy._types import Floats, Ints
from cindy.errors import InfeasibleError, SolverError
from cindy.solver.oracle import Atom, Ball, Oracle, Rays
from cindy.solver.presolve import presolve
from cindy.solver.region import Region

__all__ = ["LinearProgram", "contradictory", "oracle_for", "smallest_radius"]


_TOLERANCE = 1e-10
"""HiGHS's tightest. Columns and rows are scaled to one beforehand, so it holds in relative terms."""
_DUAL, _PRIMAL = 1, 4
# Answers that an ill-conditioned last basis gives to programs that have an optimum.
_DOUBTFUL = (
    highspy.HighsModelStatus.kUnknown,
    highspy.HighsModelStatus.kUnbounded,
    highspy.HighsModelStatus.kUnboundedOrInfeasible,
    highspy.HighsModelStatus.kSolveError,
)


def quiet_model(
    rows: scipy.sparse.csr_array, low: Floats, high: Floats, row_low: Floats, row_high: Floats
) -> highspy.Highs:
    """A program without costs: low ≤ x ≤ high, row_low ≤ rows x ≤ row_high; infinite where free."""
    model = highspy.HighsLp()
    model.num_row_, model.num_col_ = rows.shape
    model.col_cost_ = np.zeros(rows.shape[1])
    model.col_lower_, model.col_upper_ = low, high
    model.row_lower_, model.row_upper_ = row_low, row_high
    model.a_matrix_.format_ = highspy.MatrixFormat.kRowwise
    model.a_matrix_.start_ = rows.indptr
    model.a_matrix_.index_ = rows.indices
    model.a_matrix_.value_ = rows.data
    highs = highspy.Highs()
    for option, value in (
        ("output_flag", False),
        ("threads", 1),
        ("solver", "simplex"),
        ("simplex_strategy", _PRIMAL),
        ("presolve", "off"),
        ("primal_feasibility_tolerance", _TOLERANCE),
        ("dual_feasibility_tolerance", _TOLERANCE),
    ):
        highs.setOptionValue(option, value)
    highs.passModel(model)
    return highs


def optimum(highs: highspy.Highs) -> highspy.HighsModelStatus:
    """Run, by the primal method from the last basis; in doubt once more from scratch, by the dual."""
    highs.run()
    status = highs.getModelStatus()
    if status in _DOUBTFUL:
        highs.clearSolver()
        highs.setOptionValue("simplex_strategy", _DUAL)
        highs.run()
        highs.setOptionValue("simplex_strategy", _PRIMAL)
        status = highs.getModelStatus()
    return cast(highspy.HighsModelStatus, status)


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
    try:
        least, _ = smallest_radius(region)
    except InfeasibleError as error:
        return str(error)
    return (
        f"no coefficients satisfy the {region.rows} linear rows within radius {region.radius:g} "
        f"(HiGHS: infeasible).\nThe smallest feasible radius is {least:.6g}."
    )


def smallest_radius(region: Region) -> tuple[float, Floats]:
    """The least radius at which the rows can be met, and a point there, (size,)."""
    size = region.size
    highs = _model(region, budget=np.inf)
    highs.changeColsCost(2 * size, np.arange(2 * size, dtype=np.int32), np.ones(2 * size))
    status = optimum(highs)
    if status == highspy.HighsModelStatus.kInfeasible:
        named = ", ".join(str(i) for i in contradictory(region)) or "given"
        raise InfeasibleError(
            f"no coefficients satisfy the linear rows {named} together, whatever the radius (HiGHS: "
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


def contradictory(region: Region, owner: Ints | None = None) -> list[int]:
    """A set of rows that no coefficients satisfy together, and that without any of its members can be.

    The deletion filter of Chinneck and Dravnieks (Locating minimal infeasible constraint sets in linear
    programs, 1991):

    1. The multipliers that prove the program infeasible (Farkas) name rows that contradict each other.
    2. Each of these is left out in turn, and stays out if the rest is still impossible.

    owner: (rows,) labels of rows that belong together and stay or go as one; the answer is in these labels

    Empty where HiGHS finds the rows possible after all.
    """
    label = np.arange(region.rows) if owner is None else owner
    highs = _model(region, budget=np.inf)
    if optimum(highs) != highspy.HighsModelStatus.kInfeasible:
        return []
    _, has_ray, ray = highs.getDualRay()
    members = np.unique(label[np.flatnonzero(np.asarray(ray)[:-1])]) if has_ray else np.unique(label)
    if _possible(region, np.isin(label, members)):
        members = np.unique(label)
    for member in members:
        rest = members[members != member]
        if not _possible(region, np.isin(label, rest)):
            members = rest
    return [int(member) for member in members]


def _possible(region: Region, chosen: NDArray[np.bool_]) -> bool:
    """Whether some coefficients satisfy the chosen rows."""
    if not chosen.any():
        return True
    part = Region(
        region.size,
        region.radius,
        region.weights,
        region.matrix[chosen],
        region.lower[chosen],
        region.upper[chosen],
    )
    return optimum(_model(part, budget=np.inf)) != highspy.HighsModelStatus.kInfeasible


def _scaled_rows(region: Region) -> tuple[Any, Floats]:
    """The rows over coefficients of unit size, each with a largest entry of one, and their factors."""
    half = scipy.sparse.csr_array(region.matrix @ scipy.sparse.diags_array(region.radius / region.weights))
    largest = np.asarray(abs(half).max(axis=1).todense()).ravel() if region.rows else np.zeros(0)
    scale = 1.0 / np.where(largest > 0, largest, 1.0)
    return scipy.sparse.csr_array(scipy.sparse.diags_array(scale) @ half), scale


def _model(region: Region, *, budget: float) -> highspy.Highs:
    half, row_scale = _scaled_rows(region)
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


_ROUNDS = 8
"""Each brings nine or ten digits, so that costs from 1e-30 to 1 are all heard; more are never needed."""
_STEEPEST = 1e7
"""Costs beyond this many times the one that matters are cut: their columns stay out of the basis anyway."""


class Refinement:
    """A region as a linear program whose rows have columns of their own, so that these may have costs.

    Iterative refinement as by Gleixner, Steffy and Wolter (Iterative refinement for linear
    programming, 2016), of the dual side: the prices of one solution change the costs to
    reduced costs, which are small where the solver was right; enlarged, they are the costs
    of the next program. The prices add up.
    """

    def __init__(self, region: Region) -> None:
        self.region = region
        size, rows = region.size, region.rows
        self._corner = region.radius / region.weights
        half, self._row_scale = _scaled_rows(region)
        ones, less = scipy.sparse.csr_array(np.ones((1, size))), scipy.sparse.csr_array([[-1.0]])
        self._matrix = scipy.sparse.csr_array(
            scipy.sparse.block_array(
                [[half, -half, -scipy.sparse.eye_array(rows), None], [ones, ones, None, less]]
            )
        )
        self._low = np.concatenate([np.zeros(2 * size), region.lower * self._row_scale, [0.0]])
        self._high = np.concatenate([np.full(2 * size, np.inf), region.upper * self._row_scale, [1.0]])
        nothing = np.zeros(rows + 1)
        self._highs = quiet_model(self._matrix, self._low, self._high, nothing, nothing)

    def minimise(self, gradient: Floats, origin: Floats) -> tuple[Floats, float]:
        """A point of the region, (size,), and a bound from below on ⟨gradient, x − origin⟩ over it."""
        size = self.region.size
        cost = np.concatenate([gradient * self._corner, -gradient * self._corner])
        cost = np.concatenate([cost, np.zeros(self._matrix.shape[0])])
        prices, point = np.zeros(self._matrix.shape[0]), origin
        best = lower_bound(self.region, gradient, origin, prices[:-1])
        reduced, unit = cost, float(np.abs(cost).max(initial=0.0))
        for _ in range(_ROUNDS):
            if unit == 0.0:
                break
            found = self._solve(np.clip(reduced / unit, -_STEEPEST, _STEEPEST))
            if found is None:
                break
            trial = (found[0][:size] - found[0][size : 2 * size]) * self._corner
            prices = prices + unit * found[1]
            bound = lower_bound(self.region, gradient, origin, prices[:-1] * self._row_scale)
            if gradient @ (trial - point) < 0.0:
                point = trial
            better = bound > best
            best = max(best, bound)
            value = float(gradient @ (point - origin))
            if not better or value - best <= 1e-14 * abs(value):
                break
            reduced = cost - self._matrix.T @ prices
            unit = self._amiss(found[0], reduced)
        return point, best

    def _amiss(self, values: Floats, reduced: Floats) -> float:
        """The largest reduced cost of the wrong sign: what the solver did not hear."""
        may_rise = values < self._high - 1e-9
        may_fall = values > self._low + 1e-9
        return float(np.max(np.maximum(-reduced * may_rise, reduced * may_fall), initial=0.0))

    def _solve(self, cost: Floats) -> tuple[Floats, Floats] | None:
        """Values of the columns and prices of the rows; None where HiGHS finds no optimum."""
        highs = self._highs
        highs.changeColsCost(len(cost), np.arange(len(cost), dtype=np.int32), cost)
        if optimum(highs) != highspy.HighsModelStatus.kOptimal:
            return None
        solution = highs.getSolution()
        return np.array(solution.col_value), np.array(solution.row_dual)


def lower_bound(region: Region, gradient: Floats, origin: Floats, prices: Floats) -> float:
    """On ⟨gradient, x − origin⟩ over the region, by any prices of its rows: weak duality.

    The rows give at least Σ prices · (a bound − matrix origin), the ball at least
    −radius · max |gradient − matrixᵀ prices| / weights; worked out with the longest numbers
    that the machine has, and less what these may be off by.
    """
    wide = np.longdouble
    slack = np.where(prices > 0, region.lower, region.upper)
    prices = np.where(np.isfinite(slack), prices, 0.0).astype(wide)
    slack = np.where(np.isfinite(slack), slack, 0.0).astype(wide)
    matrix = region.matrix.astype(wide)
    rest = gradient.astype(wide) - matrix.T @ prices
    of_rows = prices * (slack - matrix @ origin.astype(wide))
    of_ball = region.radius * np.max(np.abs(rest) / region.weights, initial=0.0)
    bound = of_rows.sum() - of_ball - rest @ origin
    unit = (region.rows + region.size + 4) * np.finfo(wide).eps
    size = np.abs(gradient) + abs(matrix).T @ np.abs(prices)
    off = (
        np.abs(of_rows).sum()
        + region.radius * np.max(size / region.weights, initial=0.0)
        + size @ np.abs(origin)
    )
    off += np.abs(prices) @ (np.abs(slack) + abs(matrix) @ np.abs(origin))
    return float(bound - unit * off)


def oracle_for(region: Region) -> Oracle:
    """The cheapest oracle that is exact on the region.

    Without rows: closed form. Rows that fall apart into small homogeneous
    blocks (ties, conservation laws, signs): closed form over the corners of the
    blocks, after presolve. Anything else: a linear program, kept between calls.
    """
    if region.rows == 0:
        return Ball(region)
    try:
        hull = presolve(region)
    except InfeasibleError as error:
        if not contradictory(region):
            raise
        raise InfeasibleError(_why_infeasible(region)) from error
    return LinearProgram(region) if hull is None else Rays(region, hull)
