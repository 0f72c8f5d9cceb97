"""Linear programs to more digits than their solver has: what it leaves of the costs is solved for again."""

import highspy
import numpy as np
import scipy.sparse

from cindy._types import Floats
from cindy.solver.highs import optimum, quiet_model
from cindy.solver.region import Region

__all__ = ["Refinement", "lower_bound"]

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
        half = region.matrix @ scipy.sparse.diags_array(self._corner)
        largest = np.asarray(abs(half).max(axis=1).todense()).ravel() if rows else np.zeros(0)
        self._row_scale = 1.0 / np.where(largest > 0, largest, 1.0)
        half = scipy.sparse.diags_array(self._row_scale) @ half
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
