"""Linear programs over a region by HiGHS: the oracle of any region, smallest radii, contradictory rows."""

from dataclasses import dataclass, replace
from typing import Any, cast

import highspy
import numpy as np
import scipy.sparse
from numpy.typing import NDArray

from cindy._arrays import Floats, Ints
from cindy._check import instance, numbers, short
from cindy.errors import DataError, InfeasibleError, SolverError
from cindy.solver.region import Atom, Line, Oracle, Region
from cindy.solver.result import lower_bound


@dataclass(frozen=True)
class _Precision:
    """Tolerances and codes of HiGHS, and when its answer is refined."""

    tolerance: float = 1e-10
    """HiGHS's tightest. Columns and rows are scaled to one beforehand, so it is relative."""
    smallest: float = 1e-12
    """HiGHS drops smaller entries, and so solves another program. Its default is 1e-9; it allows no less than
    this."""
    uneven: float = 1e-5
    """Where the entries of a row differ by more, the units of the coefficients are balanced (`_balance`)."""
    dual: int = 1
    primal: int = 4
    most_steps: int = 1_000
    """Steps of the simplex method for each row and column. About three are usual, so a run that reaches the
    limit is cycling."""
    nothing: float = 1e-14
    """Smaller coefficients, in units of what the ball allows, are rounding of the basis."""
    exact: float = 1e-12
    """By how much a row may miss its bound, in units of its own terms; a larger miss is corrected."""
    rounds: int = 8
    """Rounds of refinement. Each adds nine or ten digits, so that costs and bounds from 1e-30 to 1 count."""
    largest: float = 1e15
    """Largest factor for the bounds of a correction, far below 1e20, which HiGHS takes for infinite."""
    steepest: float = 1e7
    """Reduced costs are cut at this multiple of the one that matters: their columns stay out of the basis."""


_PRECISION = _Precision()


# HiGHS may answer these for programs that have an optimum, where the last basis is ill conditioned.
_DOUBTFUL = (
    highspy.HighsModelStatus.kUnknown,
    highspy.HighsModelStatus.kUnbounded,
    highspy.HighsModelStatus.kUnboundedOrInfeasible,
    highspy.HighsModelStatus.kSolveError,
)


def _quiet_model(rows: scipy.sparse.csr_array, low: Floats, high: Floats) -> highspy.Highs:
    """The program low ≤ x ≤ high, rows x = 0 without costs, on one thread and to the tightest tolerance."""
    model = highspy.HighsLp()
    model.num_row_, model.num_col_ = rows.shape
    model.col_cost_ = np.zeros(rows.shape[1])
    model.col_lower_, model.col_upper_ = low, high
    model.row_lower_, model.row_upper_ = np.zeros(rows.shape[0]), np.zeros(rows.shape[0])
    model.a_matrix_.format_ = highspy.MatrixFormat.kRowwise
    model.a_matrix_.start_ = rows.indptr
    model.a_matrix_.index_ = rows.indices
    model.a_matrix_.value_ = rows.data
    highs = highspy.Highs()
    for option, value in (
        ("output_flag", False),
        ("threads", 1),
        ("solver", "simplex"),
        ("simplex_strategy", _PRECISION.primal),
        ("presolve", "off"),
        ("simplex_iteration_limit", _PRECISION.most_steps * sum(rows.shape)),
        ("small_matrix_value", _PRECISION.smallest),
        ("primal_feasibility_tolerance", _PRECISION.tolerance),
        ("dual_feasibility_tolerance", _PRECISION.tolerance),
    ):
        highs.setOptionValue(option, value)
    highs.passModel(model)
    return highs


def _balance(matrix: scipy.sparse.csr_array) -> Floats:
    """(columns,), at most one: factors of the columns that make the entries of each row similar in size.

    Rows and columns in turn are divided by the geometric mean of their least and largest entries (Curtis and
    Reid, On the automatic scaling of matrices for Gaussian elimination, 1972, use all entries). The factors
    are rounded to powers of two, which change no digit; they are ones where the rows are even already.
    """
    entries = scipy.sparse.coo_array(abs(matrix))
    row, column = entries.row.astype(np.intp), entries.col.astype(np.intp)
    size = np.log2(entries.data)

    def middle(place: Ints, count: int, values: Floats) -> Floats:
        """(count,): for each place the mean of the least and the largest value there."""
        low, high = np.full(count, np.inf), np.full(count, -np.inf)
        np.minimum.at(low, place, values)
        np.maximum.at(high, place, values)
        low[np.isinf(low)] = high[np.isinf(high)] = 0.0
        return np.asarray(0.5 * (low + high))

    largest = np.full(matrix.shape[0], -np.inf)
    np.maximum.at(largest, row, size)
    if np.min(size - largest[row], initial=0.0) > np.log2(_PRECISION.uneven):
        return np.ones(matrix.shape[1])
    scale = np.zeros(matrix.shape[1])
    for _ in range(_PRECISION.rounds):
        rows = middle(row, matrix.shape[0], size + scale[column])
        scale = -middle(column, matrix.shape[1], size - rows[row])
    return np.asarray(np.exp2(np.maximum(np.round(scale - scale.max()), -32.0)))


class _Program:
    """A region as a linear program in v = (p, q, rows, norm) with x_i = (p_i − q_i) unit_i.

        half p − half q − rows = 0,   Σ share · (p + q) − norm = 0,   low ≤ v ≤ high

    A unit is share_i · radius / weights_i, with a share of one unless rows have entries of very different
    size (`_balance`). `half` is the matrix over these units, each row scaled to a largest entry of one. The
    values of the rows are columns too, so that they have bounds and costs like the others. The last basis
    starts the next call: if only the costs have changed it is still primal feasible.

    HiGHS lets a row be off by 1e-10 in these units, which may be as large as a bound that is small beside the
    radius. Iterative refinement corrects that (Gleixner, Steffy and Wolter, Iterative refinement for linear
    programming, 2016):

    1. Solve. Compute the rows at the solution, and by how much they leave their bounds.
    2. If that is more than rounding of a row's own terms, solve for the correction: the same program, with
       bounds relative to the solution and enlarged, so that what was below the tolerance is far above it.

    unit, share: (size,) what a column of one adds to its coefficient, and to the norm over the radius
    row_scale: (rows,) factors of the rows of the region
    low, high: bounds of the columns
    """

    def __init__(self, region: Region, *, budget: float) -> None:
        size, rows = region.size, region.rows
        corner = region.radius / region.weights
        self.share = _balance(scipy.sparse.csr_array(region.matrix @ scipy.sparse.diags_array(corner)))
        self.unit = corner * self.share
        # The tolerances of HiGHS are absolute, so coefficients and rows are scaled to a natural size of one.
        half = scipy.sparse.csr_array(region.matrix @ scipy.sparse.diags_array(self.unit))
        largest = np.asarray(abs(half).max(axis=1).todense()).ravel() if rows else np.zeros(0)
        self.row_scale = 1.0 / np.where(largest > 0, largest, 1.0)
        self._half: Any = scipy.sparse.csr_array(scipy.sparse.diags_array(self.row_scale) @ half)
        # The norm is a column too. The budget bounds it, and it is the cost where the least norm is sought.
        norm: Any = scipy.sparse.csr_array(self.share[None])
        less: Any = scipy.sparse.csr_array([[-1.0]])
        self.matrix = scipy.sparse.csr_array(
            scipy.sparse.block_array(
                [[self._half, -self._half, -scipy.sparse.eye_array(rows), None], [norm, norm, None, less]]
            )
        )
        self.low = np.concatenate([np.zeros(2 * size), region.lower * self.row_scale, [0.0]])
        self.high = np.concatenate([np.full(2 * size, np.inf), region.upper * self.row_scale, [budget]])
        self.highs = _quiet_model(self.matrix, self.low, self.high)
        self._columns = np.arange(len(self.low), dtype=np.int32)
        self._size = size

    def status(self) -> highspy.HighsModelStatus:
        """Run the primal method from the last basis; if its answer is doubtful, the dual one from scratch."""
        self.highs.run()
        if self.highs.getModelStatus() in _DOUBTFUL:
            # The last basis may be so ill conditioned that the answer is wrong. A run from scratch does not
            # depend on it.
            self.highs.clearSolver()
            self.highs.setOptionValue("simplex_strategy", _PRECISION.dual)
            self.highs.run()
            self.highs.setOptionValue("simplex_strategy", _PRECISION.primal)
        return cast(highspy.HighsModelStatus, self.highs.getModelStatus())

    @property
    def possible(self) -> bool:
        """Whether some coefficients obey the rows within the budget."""
        return self.status() != highspy.HighsModelStatus.kInfeasible

    def solve(self, cost: Floats) -> tuple[Floats, Floats]:
        """The columns at the least cost, and the dual prices of the rows of `matrix`."""
        self.highs.changeColsCost(len(cost), self._columns, cost)
        values, prices = self._optimum()
        values, miss = self._completed(np.where(np.abs(values) < _PRECISION.nothing, 0.0, values))
        enlarged = 1.0
        try:
            for _ in range(_PRECISION.rounds):
                if miss == 0.0:
                    break
                # The factor makes the miss a number of size one, far above the tolerance of HiGHS.
                enlarged = min(1.0 / miss, 1e10 * enlarged, _PRECISION.largest)
                self._bound((self.low - values) * enlarged, (self.high - values) * enlarged)
                try:
                    change, prices = self._optimum()
                except InfeasibleError as error:
                    raise SolverError(
                        f"the linear program over {self._size} coefficients and {len(self.row_scale)} rows "
                        f"has a point that misses a row by {miss:.1e} of its largest entry, and none that "
                        "misses it by less. Check the rows for entries of very different size."
                    ) from error
                change = np.where(np.abs(change) < _PRECISION.nothing, 0.0, change) / enlarged
                values, miss = self._completed(values + change)
        finally:
            if enlarged > 1.0:
                self._bound(self.low, self.high)
        return values, prices

    def point(self, values: Floats) -> Floats:
        """(size,): the coefficients of given columns."""
        return np.asarray((values[: self._size] - values[self._size : 2 * self._size]) * self.unit)

    def _completed(self, values: Floats) -> tuple[Floats, float]:
        """The columns with rows and norm computed from p and q, and the largest miss that matters."""
        size = self._size
        halves = np.maximum(values[: 2 * size], 0.0)
        # x = p − q has many representations. The one with p q = 0 has the least norm, which is the norm of x.
        both = np.minimum(halves[:size], halves[size:])
        halves -= np.concatenate([both, both])
        total, x = float(self.share @ (halves[:size] + halves[size:])), halves[:size] - halves[size:]
        outcome = np.concatenate([halves, self._half @ x, [total]])
        sizes = np.append(abs(self._half) @ np.abs(x), total)
        low, high, reached = self.low[2 * size :], self.high[2 * size :], outcome[2 * size :]
        miss = np.maximum(low - reached, reached - high)
        bounds = np.where(reached < low, np.abs(low), np.abs(high))
        # A miss below the rounding of the row's own terms cannot be corrected and does no harm.
        matters = miss > _PRECISION.exact * (sizes + np.where(np.isfinite(bounds), bounds, 0.0))
        return outcome, float(np.max(miss, where=matters, initial=0.0))

    def _bound(self, low: Floats, high: Floats) -> None:
        self.highs.changeColsBounds(len(low), self._columns, low, high)

    def _optimum(self) -> tuple[Floats, Floats]:
        """Columns and prices at the optimum."""
        status = self.status()
        if status not in _DOUBTFUL or not np.isfinite(self.high[-1]):
            return self._answer(status)
        # Where bounds differ by ten orders of magnitude HiGHS may call a program unbounded, although the norm
        # bounds p and q. They then get the explicit bounds that follow from the norm, low + room.
        program, halves = self.highs.getLp(), 2 * self._size
        low, high = np.array(program.col_lower_), np.array(program.col_upper_)
        share = np.concatenate([self.share, self.share])
        room = high[-1] - float(share @ low[:halves])
        self._bound(low, np.concatenate([low[:halves] + room / share, high[halves:]]))
        try:
            return self._answer(self.status())
        finally:
            self._bound(low, high)

    def _answer(self, status: highspy.HighsModelStatus) -> tuple[Floats, Floats]:
        if status == highspy.HighsModelStatus.kInfeasible:
            raise InfeasibleError("the linear program has no feasible point (HiGHS: infeasible).")
        if status != highspy.HighsModelStatus.kOptimal:
            raise SolverError(
                f"the linear program over {self._size} coefficients and {len(self.row_scale)} rows ended "
                f"without an optimum (HiGHS: {self.highs.modelStatusToString(status).lower()}). "
                "Check the rows for entries of very different size."
            )
        solution = self.highs.getSolution()
        return np.array(solution.col_value), np.array(solution.row_dual)


class LinearProgram(Oracle):
    """The oracle of any region: a linear program that is built once, and of which only the costs change."""

    costly = True

    def __init__(self, region: Region) -> None:
        self.region = region
        self._program = _Program(region, budget=1.0)
        self.origin = np.zeros(region.size)
        origin = self._solved(np.zeros(len(self._program.low)))[0]
        # Where zero is feasible it is the origin: runs then start at the sparsest point.
        if (region.lower > 0).any() or (region.upper < 0).any():
            self.origin = self._program.point(origin)

    def minimise(self, gradient: Floats) -> Atom:
        cost = self._cost(gradient)
        largest = float(np.max(np.abs(cost)))
        return self._atom(self._solved(cost / largest if largest > 0 else cost)[0])

    def proved(self, gradient: Floats) -> tuple[Atom, Line]:
        """An atom and a bound, by iterative refinement of the dual prices.

        1. Solve for the reduced costs; add the prices of its rows to those known so far.
        2. Weak duality turns any prices into a bound (`lower_bound`). If it meets the value, end.
        3. Reduced costs of the wrong sign are what HiGHS missed: enlarge the reduced costs and repeat.
        """
        program, region = self._program, self.region
        cost = self._cost(gradient)
        prices, atom = np.zeros(program.matrix.shape[0]), Atom.at(self.origin, self.origin)
        best = lower_bound(region, gradient, self.origin, prices[:-1])
        reduced, unit = cost, float(np.abs(cost).max(initial=0.0))
        for _ in range(_PRECISION.rounds):
            if unit == 0.0:
                break
            # Step 1. In units of the largest wrong reduced cost, what was below the tolerance of HiGHS in the
            # round before is of size one.
            values, change = self._solved(self._cut(reduced / unit))
            prices = prices + unit * change
            # Step 2.
            line = lower_bound(region, gradient, self.origin, prices[:-1] * program.row_scale)
            trial = self._atom(values)
            if trial.slope(gradient) < atom.slope(gradient):
                atom = trial
            better = line.at(region.radius) > best.at(region.radius)
            best = line if better else best
            value = atom.slope(gradient)
            if not better or value - best.at(region.radius) <= 1e-14 * abs(value):
                break
            # Step 3. A column at its upper bound may only fall, one at its lower bound only rise.
            reduced = cost - program.matrix.T @ prices
            may_rise, may_fall = values < program.high - 1e-9, values > program.low + 1e-9
            unit = float(np.max(np.maximum(-reduced * may_rise, reduced * may_fall), initial=0.0))
        return atom, best

    def _cost(self, gradient: Floats) -> Floats:
        """The costs of all columns for a flat gradient."""
        cost = gradient * self._program.unit
        return np.concatenate([cost, -cost, np.zeros(self.region.rows + 1)])

    def _cut(self, reduced: Floats) -> Floats:
        """Reduced costs, with those that are far larger than the rest cut."""
        cost = np.clip(reduced, -_PRECISION.steepest, _PRECISION.steepest)
        # Where p, q and the norm grow together, their costs add up to zero. The cut must not make that sum
        # negative: p and q would fill the ball, and x = p − q would lose its digits.
        both = cost[: self.region.size] + cost[self.region.size : 2 * self.region.size]
        cost[-1] = max(cost[-1], -0.5 * float(np.min(both / self._program.share)))
        return cost

    def _solved(self, cost: Floats) -> tuple[Floats, Floats]:
        try:
            return self._program.solve(cost)
        except InfeasibleError as error:
            raise InfeasibleError(why_infeasible(self.region)) from error
        except SolverError as error:
            # A region may be empty by less than the tolerance of HiGHS; the prices of the rows prove it.
            if nearest_to_zero(self.region)[1] > self.region.radius:
                raise InfeasibleError(why_infeasible(self.region)) from error
            raise

    def _atom(self, values: Floats) -> Atom:
        return Atom.at(self._program.point(values), self.origin)


def why_infeasible(region: Region) -> str:
    """The message for an empty region, with the smallest radius at which it is not empty."""
    try:
        least, _ = smallest_radius(region)
    except InfeasibleError as error:
        return str(error)
    # Print as many digits as it takes to tell the two radii apart.
    digits = next((n for n in range(6, 17) if f"{least:.{n}g}" != f"{region.radius:.{n}g}"), 17)
    return (
        f"no coefficients satisfy the {region.rows} linear rows within radius {region.radius:.{digits}g} "
        f"(HiGHS: infeasible).\nThe smallest feasible radius is {least:.{digits}g}."
    )


def smallest_radius(region: Region) -> tuple[float, Floats]:
    """The least radius at which the rows can be met, and a point there, (size,).

    >>> import numpy as np
    >>> from cindy.solver import Region, smallest_radius
    >>> rows = Region(2, radius=9.0, matrix=np.array([[1.0, 2.0]]), lower=[4.0], upper=[4.0])
    >>> radius, point = smallest_radius(rows)
    >>> radius, point.tolist()
    (2.0, [0.0, 2.0])
    """
    instance(region, Region, "smallest_radius: `region`", "a Region, such as Region(size, radius)")
    point, _ = nearest_to_zero(region)
    return region.norm(point), point


def nearest_to_zero(region: Region) -> tuple[Floats, float]:
    """A point of least norm that obeys the rows, (size,), and a bound below the norms of all such points."""
    program = _Program(region, budget=np.inf)
    cost = np.zeros(len(program.low))
    # The last column is the norm.
    cost[-1] = 1.0
    try:
        values, prices = program.solve(cost)
    except InfeasibleError as error:
        named = ", ".join(str(i) for i in contradictory(region)) or "given"
        raise InfeasibleError(
            f"no coefficients satisfy the linear rows {named} together, whatever the radius (HiGHS: "
            "infeasible): they contradict each other."
        ) from error
    zero = np.zeros(region.size)
    # 0 = ⟨0, x⟩ ≥ level − slope · norm(x) for every x that obeys the rows.
    line = lower_bound(region, zero, zero, prices[:-1] * program.row_scale)
    bound = line.level / line.slope if line.slope > 0.0 else 0.0
    return program.point(values), max((1.0 - 4.0 * float(np.finfo(float).eps)) * bound, 0.0)


def contradictory(region: Region, owner: Ints | None = None) -> list[int]:
    """A minimal set of rows that contradict each other: without any one of them the others can be satisfied.

    The deletion filter of Chinneck and Dravnieks (Locating minimal infeasible constraint sets in linear
    programs, 1991):

    1. The multipliers that prove the program infeasible (Farkas) name rows that contradict each other.
    2. Each of these is left out in turn, and stays out if the rest is still infeasible.

    The answer is empty where HiGHS finds the rows feasible after all.

    owner: (rows,) labels of rows that belong to one constraint and stay or go together; None: each by itself.
        The answer consists of these labels.

    >>> import numpy as np
    >>> from cindy.solver import Region, contradictory
    >>> rows = np.array([[1.0, 0.0], [0.0, 1.0], [1.0, 1.0]])
    >>> contradictory(Region(2, radius=9.0, matrix=rows, lower=[1.0, 0.0, -9.0], upper=[9.0, 9.0, 0.0]))
    [0, 1, 2]
    """
    instance(region, Region, "contradictory: `region`", "a Region, such as Region(size, radius)")
    label = np.arange(region.rows) if owner is None else numbers(owner, "contradictory: `owner`")
    if label.shape != (region.rows,):
        raise DataError(
            f"contradictory: `owner` must have a number for each of the {region.rows} rows, "
            f"but is {short(owner)}."
        )
    program = _Program(region, budget=np.inf)
    if program.possible:
        return []
    # Step 1. Rows with a zero multiplier play no part in the contradiction.
    _, has_ray, ray = program.highs.getDualRay()
    members = np.unique(label[np.flatnonzero(np.asarray(ray)[:-1])]) if has_ray else np.unique(label)
    # Rounding can give a zero multiplier to a row that the contradiction needs; then all rows are filtered.
    if _possible(region, np.isin(label, members)):
        members = np.unique(label)
    # Step 2.
    for member in members:
        rest = members[members != member]
        if not _possible(region, np.isin(label, rest)):
            members = rest
    return [int(member) for member in members]


def _possible(region: Region, chosen: NDArray[np.bool_]) -> bool:
    """Whether some coefficients satisfy the chosen rows."""
    if not chosen.any():
        return True
    part = replace(
        region, matrix=region.matrix[chosen], lower=region.lower[chosen], upper=region.upper[chosen]
    )
    return _Program(part, budget=np.inf).possible
