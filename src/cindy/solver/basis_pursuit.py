"""The other form of the problem: the smallest radius at which the residual meets a bound.

The least loss φ(r) within radius r falls convexly, and the gradient at any point x bounds it from below
for every radius at once: φ(r) ≥ level − slope · r (`floor`). Newton's method climbs to the root of
φ(r) = epsilon from below:

1. Begin at the least radius that the rows allow.
2. Minimise the loss within the radius, no more accurately than the distance to epsilon asks for. If the
   bound is met, this is the answer.
3. No radius below (level − epsilon) / slope meets the bound. Go on from there.
4. If the minimiser lies inside the ball, a larger ball changes nothing: minimise to the end, and if the
   loss is still above epsilon, no coefficients meet the bound.
"""

from dataclasses import dataclass
from functools import partial

import numpy as np

from cindy._arrays import Floats
from cindy._check import instance, integer, non_negative, positive
from cindy.errors import CindyError, InfeasibleError, SolverError
from cindy.least_squares import LeastSquares
from cindy.solver.correction import Correction
from cindy.solver.linear_program import nearest_to_zero, oracle_for
from cindy.solver.loop import check_problem, conditional_gradient
from cindy.solver.oracle import Ball, Line, Oracle
from cindy.solver.region import Region
from cindy.solver.result import Result, Status, Step, floor


@dataclass(frozen=True)
class _Search:
    """How the smallest feasible radius is bracketed."""

    room: float = 1e-9
    """Part of the least radius by which the first is larger: a region of a single point has no slope."""
    inside: float = 0.99
    """A minimiser whose norm is below this part of the radius does not touch the ball."""
    furthest: float = 100.0
    """Factor by which a radius may exceed the one before. Where the rows allow a single point the slope is
    rounding, and the radius that it asks for may be 1e16, where no row holds in its own units."""
    beyond: float = 1e9
    """Factor by which the least radius that may meet the bound must exceed one whose ball does not bind, for
    no radius to do: what remains of the slope there is rounding."""
    outside: float = 1e-9
    """By how much a point may leave a row, in units of the sizes of its terms: rounding of products."""
    finest: float = 1e-15
    """Relative gap of a run to the end. A short column that takes no part at 1e-8 may need a large radius."""


_SEARCH = _Search()


_ROUNDING = 8 * float(np.finfo(float).eps)
"""Relative error of a quotient of two bounds."""


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

    Both ends hold to `tol` times the loss at zero.

    region: weights and rows; its radius plays no part
    epsilon: bound on the loss: the paper's bound on the norm of the residual, squared

    >>> f = LeastSquares.from_rows(np.eye(2), np.array([[3.0], [4.0]]))
    >>> pursuit = basis_pursuit(f, Region(2, 1.0), 2.0)
    >>> round(pursuit.radius, 6), pursuit.x.ravel().round(6)
    (5.0, array([2., 3.]))
    """
    positive(tol, "basis_pursuit: `tol`")
    integer(max_radii, "basis_pursuit: `max_radii`", least=1)
    epsilon = non_negative(epsilon, "basis_pursuit: `epsilon`")
    least, point = _begin(objective, region, correction)
    scale = float(np.sum(objective.target**2)) or objective.value(point) or 1.0
    radius = (1.0 + _SEARCH.room) * region.norm(point)
    if radius == 0.0:
        if objective.value(point) <= epsilon:
            return Pursuit(_at_zero(objective, point, scale), 0.0, 0.0, epsilon)
        radius = least = _first_radius(objective, region, epsilon)
    # Newton's method only approaches a root, from below: it aims a little beneath the bound to cross it.
    aim = max(epsilon - 0.5 * tol * scale, 0.0)
    run = partial(_solve, objective, correction=correction, tol=0.25 * tol, max_iter=max_iter)
    stalled = 0
    for _ in range(max_radii):
        oracle = oracle_for(region.with_radius(radius))
        result = run(oracle, point, aim)
        # Step 4: the ball does not bind, so that only the accuracy of the run stands between it and the
        # least loss.
        if region.norm(result.x) < _SEARCH.inside * radius and result.objective > epsilon:
            result = run(oracle, result.x, None)
        point, inside = result.x, region.norm(result.x) < _SEARCH.inside * radius
        last = inside or result.status is Status.STALLED
        if result.objective <= (epsilon + tol * scale if last else max(epsilon, tol * scale)):
            return _checked(Pursuit(result, radius, min(least, radius), epsilon), region)
        # Step 3, by a bound that holds in spite of rounding: no radius below the root of this line meets
        # epsilon.
        line = floor(objective, oracle, point)
        if inside and _hopeless(_root(line, epsilon), radius, result):
            raise _unreachable(epsilon, result)
        least = max(least, _root(line, epsilon))
        stalled += result.status is Status.STALLED
        further = max(_root(line, aim), (1.0 + _creep(result, stalled)) * radius)
        radius = min(further, _SEARCH.furthest * radius)
    raise SolverError(
        f"basis_pursuit: after {max_radii} radii the loss is {result.objective:g}, still above "
        f"epsilon = {epsilon:g}. Raise `max_radii`, or loosen `tol`."
    )


def _checked(pursuit: Pursuit, region: Region) -> Pursuit:
    """The answer, if it obeys the rows in their own units."""
    worst = region.outside(pursuit.x)
    if worst > _SEARCH.outside:
        raise SolverError(
            f"basis_pursuit: rounding leaves a row of the region by {worst:.2g} of its terms. Bring "
            "terms and rows to similar sizes."
        )
    return pursuit


def _root(line: Line, epsilon: float) -> float:
    """The radius at which a line falls to epsilon, or a little less."""
    return (line.level - epsilon) / line.slope * (1.0 - _ROUNDING) if line.slope > 0.0 else 0.0


def _hopeless(root: float, radius: float, result: Result) -> bool:
    """Whether no larger radius will help a minimiser that does not touch the ball; root: of its bound."""
    # A short column may need a far larger radius, so that the bound on every radius must exclude that too.
    # Where it does not even ask for more than this radius, rounding is all that hides the answer.
    return root > _SEARCH.beyond * radius or (result.status is Status.STALLED and root <= radius)


def _creep(result: Result, stalled: int) -> float:
    """By what part a radius must grow. Where rounding has the upper hand more room is what brings the loss
    down: twice as much each time."""
    return 1e-8 * 2.0**stalled if result.status is Status.STALLED else 1e-12


def _unreachable(epsilon: float, result: Result) -> CindyError:
    """The minimiser whatever the radius is known, and it does not meet the bound; or rounding hides it."""
    if result.objective - result.gap > epsilon:
        return InfeasibleError(
            f"basis_pursuit: no coefficients bring the loss down to epsilon = {epsilon:g}, whatever the "
            f"radius.\nThe least loss is {result.objective:.6g}."
        )
    return SolverError(
        f"basis_pursuit: the least loss lies between {result.objective - result.gap:.6g} and "
        f"{result.objective:.6g}, and rounding hides whether it can be epsilon = {epsilon:g}. "
        "Raise `epsilon`, or bring terms and rows to similar sizes."
    )


def _solve(
    objective: LeastSquares,
    oracle: Oracle,
    start: Floats,
    aim: float | None,
    *,
    correction: Correction | None,
    tol: float,
    max_iter: int,
) -> Result:
    """A run at one radius, no more accurate than the distance to the aim makes worth while."""

    # A gap of a tenth of the distance moves Newton's next radius by a tenth at most, which costs less than
    # an exact run.
    def go_on(step: Step) -> bool:
        return aim is None or step.gap > 0.1 * abs(step.objective - aim)

    outside = oracle.region.violation(start) > 1e-10 * oracle.region.radius
    return conditional_gradient(
        objective,
        oracle,
        correction,
        tol=_SEARCH.finest if aim is None else tol,
        max_iter=max_iter,
        callback=go_on,
        start=None if outside else start,
        quiet=True,
    )


def _begin(objective: LeastSquares, region: Region, correction: Correction | None) -> tuple[float, Floats]:
    """A radius that the rows do not allow any point to be below, and a point about there."""
    instance(objective, LeastSquares, "basis_pursuit: `objective`", "LeastSquares.from_rows(design, target)")
    instance(region, Region, "basis_pursuit: `region`", "a Region, such as Region(size, radius)")
    check_problem(objective, Ball(region), correction, "basis_pursuit")
    shape = (objective.terms, objective.targets)
    if (region.lower <= 0).all() and (region.upper >= 0).all():
        return 0.0, np.zeros(shape)
    point, least = nearest_to_zero(region)
    return least, point.reshape(shape)


def _first_radius(objective: LeastSquares, region: Region, epsilon: float) -> float:
    """Newton's step from radius zero without the rows: below the root, for rows only raise the loss."""
    zero = np.zeros((objective.terms, objective.targets))
    line = floor(objective, oracle_for(Region(region.size, 1.0, region.weights)), zero)
    if not line.slope > 0.0:
        raise InfeasibleError(
            "basis_pursuit: no coefficients bring the loss below that of the zero model, "
            f"{objective.value(zero):.6g}, whatever the radius."
        )
    return max(_root(line, epsilon), 1e-300)


def _at_zero(objective: LeastSquares, point: Floats, scale: float) -> Result:
    """The ball of radius zero has one point, so there is no gap."""
    return Result(
        x=point,
        objective=objective.value(point),
        gap=0.0,
        scale=scale,
        status=Status.CONVERGED,
        iterations=0,
        oracle_calls=0,
        seconds=0.0,
    )
