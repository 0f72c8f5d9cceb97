"""Basis pursuit: the smallest radius at which the loss ‖A x − B‖² is at most epsilon.

The least loss φ(r) within radius r is convex and falls with r. The gradient at any point x gives a line below
it for every radius at once, φ(r) ≥ level − slope · r (`floor`). Newton's method finds the root of
φ(r) = epsilon with these lines, from below (van den Berg and Friedlander, Probing the Pareto frontier for
basis pursuit solutions, 2008):

1. Begin at the least radius that the rows allow.
2. Minimise the loss within the radius, no more accurately than the distance to epsilon asks for. If the loss
   is at most epsilon, this point is the answer.
3. No radius below (level − epsilon) / slope meets the bound, so this is the next radius.
4. If the minimiser lies inside the ball, a larger ball changes nothing: minimise to full accuracy, and if the
   loss is still above epsilon, no coefficients meet the bound.

Each radius costs one run of the conditional gradient, which starts at the point of the radius before.
"""

from dataclasses import dataclass
from functools import partial

import numpy as np

from cindy._arrays import Floats
from cindy._check import instance, integer, non_negative, positive
from cindy.errors import CindyError, InfeasibleError, SolverError
from cindy.least_squares import LeastSquares
from cindy.solver.correction import Correction
from cindy.solver.linear_program import nearest_to_zero
from cindy.solver.loop import check_problem, conditional_gradient, oracle_for
from cindy.solver.region import Ball, Line, Oracle, Region
from cindy.solver.result import Result, Status, Step, floor


@dataclass(frozen=True)
class _Search:
    """Tolerances of the search for the smallest radius."""

    room: float = 1e-9
    """The first radius exceeds the least one by this part: a region of a single point has no slope."""
    inside: float = 0.99
    """A minimiser whose norm is below this part of the radius does not touch the ball."""
    furthest: float = 100.0
    """Factor by which a radius may exceed the one before. Where the rows allow only a single point, the slope
    is rounding. It may then ask for a radius of 1e16, at which no row holds in its own units."""
    beyond: float = 1e9
    """If the ball does not bind and the bound asks for a radius larger by this factor, no radius meets it:
    what is left of the slope is rounding."""
    outside: float = 1e-9
    """By how much a point may leave a row, in units of the sizes of its terms: rounding of products."""
    finest: float = 1e-15
    """Relative gap of a run to full accuracy. A short column that is not used at 1e-8 may need a large
    radius."""


_SEARCH = _Search()


_ROUNDING = 8 * float(np.finfo(float).eps)
"""Relative error of a quotient of two bounds."""


@dataclass(frozen=True, eq=False)
class Pursuit:
    """A point of least radius with ‖A x − B‖² ≤ epsilon, with certificates of its loss and of its radius.

    result: the run at `radius`; its gap certifies the objective there
    radius: at which the bound is met; the LASSO over the ball of this radius has the same solution
    least_radius: no radius below this one meets the bound
    epsilon: the bound

    >>> import numpy as np
    >>> from cindy import LeastSquares
    >>> from cindy.solver import Region, basis_pursuit
    >>> objective = LeastSquares.from_rows(np.eye(2), np.array([[3.0], [1.0]]))
    >>> pursuit = basis_pursuit(objective, Region(2, radius=10.0), epsilon=1.0)
    >>> pursuit.x.ravel().round(3).tolist(), round(pursuit.radius, 3)
    ([2.293, 0.293], 2.586)
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

    The loss may exceed epsilon by `tol` times the loss at zero.

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
            return Pursuit(_at_zero(objective, region), 0.0, 0.0, epsilon)
        radius = least = _first_radius(objective, region, epsilon)
    # Newton's method approaches a root from below and never crosses it. It therefore aims a little below the
    # bound.
    aim = max(epsilon - 0.5 * tol * scale, 0.0)
    run = partial(_solve, objective, correction=correction, tol=0.25 * tol, max_iter=max_iter)
    stalled = 0
    for _ in range(max_radii):
        oracle = oracle_for(region.with_radius(radius))
        result = run(oracle, point, aim)
        # Step 4. The ball does not bind: only the accuracy of the run separates it from the least loss.
        if region.norm(result.x) < _SEARCH.inside * radius and result.objective > epsilon:
            result = run(oracle, result.x, None)
        point, inside = result.x, region.norm(result.x) < _SEARCH.inside * radius
        last = inside or result.status is Status.STALLED
        if result.objective <= (epsilon + tol * scale if last else max(epsilon, tol * scale)):
            return _checked(Pursuit(result, radius, min(least, radius), epsilon), region)
        # Step 3. The line counts rounding in: no radius below its root meets epsilon.
        line = floor(objective, oracle, point)
        if inside and _hopeless(_root(line, epsilon), radius, result):
            raise _unreachable(epsilon, result)
        least = max(least, _root(line, epsilon))
        # Where rounding stalls runs only a larger radius lowers the loss: the least growth doubles each time.
        stalled += result.status is Status.STALLED
        growth = 1e-8 * 2.0**stalled if result.status is Status.STALLED else 1e-12
        radius = min(max(_root(line, aim), (1.0 + growth) * radius), _SEARCH.furthest * radius)
    raise SolverError(
        f"basis_pursuit: after {max_radii} radii the loss is {result.objective:g}, still above "
        f"epsilon = {epsilon:g}. Raise `max_radii`, or loosen `tol`."
    )


def _checked(pursuit: Pursuit, region: Region) -> Pursuit:
    """Return the answer if it obeys the rows in their own units."""
    worst = region.outside(pursuit.x)
    if worst > _SEARCH.outside:
        raise SolverError(
            f"basis_pursuit: rounding leaves a row of the region by {worst:.2g} of its terms. Bring "
            "terms and rows to similar sizes."
        )
    return pursuit


def _root(line: Line, epsilon: float) -> float:
    """The radius at which a line falls to epsilon, less what rounding of the quotient may add."""
    return (line.level - epsilon) / line.slope * (1.0 - _ROUNDING) if line.slope > 0.0 else 0.0


def _hopeless(root: float, radius: float, result: Result) -> bool:
    """Whether no larger radius helps a minimiser that does not touch the ball.

    root: the radius at which the line below the loss falls to epsilon
    """
    # A short column may need a far larger radius, so the line must exclude even that. If the run has stalled
    # and the line asks for no larger radius, only rounding hides the answer.
    return root > _SEARCH.beyond * radius or (result.status is Status.STALLED and root <= radius)


def _unreachable(epsilon: float, result: Result) -> CindyError:
    """The error where the least loss over all radii exceeds epsilon, or rounding hides whether it does."""
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
    """Step 2: a run at one radius, to a tenth of its distance to the aim; to full accuracy without an aim."""

    # A gap of a tenth of the distance changes Newton's next radius by a tenth at most. That costs less than
    # an exact run.
    def inaccurate(step: Step) -> bool:
        return aim is None or step.gap > 0.1 * abs(step.objective - aim)

    outside = oracle.region.violation(start) > 1e-10 * oracle.region.radius
    return conditional_gradient(
        objective,
        oracle,
        correction,
        tol=_SEARCH.finest if aim is None else tol,
        max_iter=max_iter,
        callback=inaccurate,
        start=None if outside else start,
        quiet=True,
    )


def _begin(objective: LeastSquares, region: Region, correction: Correction | None) -> tuple[float, Floats]:
    """Step 1: a radius below which no point obeys the rows, and a point near that radius."""
    instance(objective, LeastSquares, "basis_pursuit: `objective`", "LeastSquares.from_rows(design, target)")
    instance(region, Region, "basis_pursuit: `region`", "a Region, such as Region(size, radius)")
    check_problem(objective, Ball(region), correction, "basis_pursuit")
    shape = (objective.terms, objective.targets)
    if (region.lower <= 0).all() and (region.upper >= 0).all():
        return 0.0, np.zeros(shape)
    point, least = nearest_to_zero(region)
    return least, point.reshape(shape)


def _first_radius(objective: LeastSquares, region: Region, epsilon: float) -> float:
    """Newton's step from radius zero without the rows. It stays below the root: rows only raise the loss."""
    zero = np.zeros((objective.terms, objective.targets))
    line = floor(objective, oracle_for(Region(region.size, 1.0, region.weights)), zero)
    if not line.slope > 0.0:
        raise InfeasibleError(
            "basis_pursuit: no coefficients bring the loss below that of the zero model, "
            f"{objective.value(zero):.6g}, whatever the radius."
        )
    return max(_root(line, epsilon), 1e-300)


def _at_zero(objective: LeastSquares, region: Region) -> Result:
    """The result at radius zero: of the smallest ball, which has no point but zero for all that matters."""
    return conditional_gradient(objective, Ball(Region(region.size, 1e-300, region.weights)), quiet=True)
