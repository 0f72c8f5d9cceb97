"""The other form of the problem: the smallest radius at which the residual meets a bound."""

from dataclasses import dataclass

import numpy as np

from cindy._check import integer, positive
from cindy._types import Floats
from cindy.errors import DataError, InfeasibleError, SolverError
from cindy.least_squares import LeastSquares
from cindy.solver.correction import Correction
from cindy.solver.linear_program import oracle_for
from cindy.solver.loop import conditional_gradient
from cindy.solver.oracle import Oracle
from cindy.solver.region import Region
from cindy.solver.result import Result, Status, Step

__all__ = ["Pursuit", "basis_pursuit"]


@dataclass(frozen=True, eq=False)
class Pursuit:
    """A point of least radius with ‖A x − B‖² ≤ epsilon, and the certificate of both.

    result: the run at `radius`; its gap certifies the objective there
    radius: at which the bound is met
    least_radius: no radius below this one meets the bound
    epsilon: the bound

    The radius is the α with which the LASSO form has the same solution.
    """

    result: Result
    radius: float
    least_radius: float
    epsilon: float

    @property
    def x(self) -> Floats:
        """(terms, targets)"""
        return self.result.x


def basis_pursuit(
    objective: LeastSquares,
    region: Region,
    epsilon: float,
    correction: Correction | None = None,
    *,
    tol: float = 1e-8,
    max_iter: int = 10_000,
    max_radii: int = 100,
) -> Pursuit:
    """The smallest radius, and a point, with ‖A x − B‖² ≤ epsilon under the rows of the region.

    The least loss falls convexly with the radius, and its slope comes with every
    oracle call, so Newton's method climbs to the root from below; each step
    rests on the certified lower bound of the loss and never leaps over it.
    Both ends hold to `tol` times the loss at zero.

    region: weights and rows; its radius plays no part
    epsilon: bound on the loss: the paper's bound on the norm of the residual, squared

    >>> f = LeastSquares.from_rows(np.eye(2), np.array([[3.0], [4.0]]))
    >>> found = basis_pursuit(f, Region(2, 1.0), 2.0)
    >>> round(found.radius, 6), found.x.ravel().round(6)
    (5.0, array([2., 3.]))
    """
    positive(tol, "basis_pursuit: `tol`")
    integer(max_radii, "basis_pursuit: `max_radii`", least=1)
    if not (np.isfinite(epsilon) and epsilon >= 0):
        raise DataError(f"basis_pursuit: `epsilon` must be a number of at least 0, but is {epsilon!r}.")
    scale = float(np.sum(objective.target**2))
    radius, point = _begin(objective, region)
    if objective.value(point) <= epsilon:
        return Pursuit(_at_once(objective, point, scale), radius, radius, epsilon)
    aim = max(epsilon - 0.5 * tol * scale, 0.0)
    least = radius
    # At the start the region is a single point; the slope there needs a little room.
    radius = radius * (1 + 1e-9) if radius > 0 else _first_radius(objective, region, aim)
    for _ in range(max_radii):
        oracle = oracle_for(region.with_radius(radius))
        result = _solve(objective, oracle, correction, tol, max_iter, point, aim)
        point, bound = result.x, result.objective - result.gap
        slope = oracle.price(objective.gradient(point).ravel())
        if bound > epsilon and slope > 0:
            least = max(least, radius + (bound - epsilon) / slope)
        rise = (bound - aim) / slope if slope > 0 else np.inf
        flat = not rise <= 1e6 * max(radius, region.norm(point))
        if result.objective <= epsilon or (flat and result.objective <= epsilon + tol * scale):
            return Pursuit(result, radius, min(least, radius), epsilon)
        if flat:
            best = _solve(objective, oracle, correction, tol, max_iter, point, None)
            raise InfeasibleError(
                f"basis_pursuit: no coefficients bring the loss down to epsilon = {epsilon:g}, whatever the "
                f"radius.\nThe least loss is {best.objective:.6g}."
            )
        radius += max(rise, 1e-12 * radius)
    raise SolverError(
        f"basis_pursuit: after {max_radii} radii the loss is {result.objective:g}, still above "
        f"epsilon = {epsilon:g}. Raise `max_radii`, or loosen `tol`."
    )


def _solve(
    objective: LeastSquares,
    oracle: Oracle,
    correction: Correction | None,
    tol: float,
    max_iter: int,
    start: Floats,
    aim: float | None,
) -> Result:
    """A run at one radius, no more accurate than the distance to the aim makes worth while."""

    def go_on(step: Step) -> bool:
        return aim is None or step.gap > 0.1 * abs(step.objective - aim)

    return conditional_gradient(
        objective, oracle, correction, tol=0.25 * tol, max_iter=max_iter, callback=go_on, start=start
    )


def _begin(objective: LeastSquares, region: Region) -> tuple[float, Floats]:
    """The smallest radius that the rows allow, and a point there."""
    shape = (objective.terms, objective.targets)
    if region.size != shape[0] * shape[1]:
        raise DataError(
            f"basis_pursuit: the region has {region.size} coefficients, but the objective has "
            f"{shape[0]} terms × {shape[1]} targets."
        )
    if (region.lower <= 0).all() and (region.upper >= 0).all():
        return 0.0, np.zeros(shape)
    # HiGHS takes long to import, and most runs need no linear program.
    from cindy.solver.linear_program import smallest_radius

    least, point = smallest_radius(region)
    return least, point.reshape(shape)


def _first_radius(objective: LeastSquares, region: Region, aim: float) -> float:
    """Newton's step from radius zero without the rows: below the root, for rows only raise the loss."""
    zero = np.zeros((objective.terms, objective.targets))
    steepest = float(np.max(np.abs(objective.gradient(zero).ravel()) / region.weights))
    if not steepest > 0:
        raise InfeasibleError(
            "basis_pursuit: no coefficients bring the loss below that of the zero model, "
            f"{objective.value(zero):.6g}, whatever the radius."
        )
    return (objective.value(zero) - aim) / steepest


def _at_once(objective: LeastSquares, point: Floats, scale: float) -> Result:
    return Result(
        x=point,
        objective=objective.value(point),
        gap=0.0,
        scale=scale if scale > 0 else 1.0,
        status=Status.CONVERGED,
        iterations=0,
        oracle_calls=0,
        seconds=0.0,
    )
