"""Corrections: how the iterate moves between two calls of the oracle.

- `Plain`: a step towards the new atom (Frank and Wolfe, 1956).
- `FullyCorrective`: minimise over the hull of all atoms so far (Lacoste-Julien and Jaggi, 2015).
- `Blended`: minimise over the hull only while that pays (Braun, Pokutta, Tu and Wright, 2019).
- `Direct`: minimise over the hull exactly, by an active-set method (Wolfe, 1976; `hull.py`).
"""

from abc import ABC, abstractmethod
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
import scipy.linalg

from cindy._arrays import Floats
from cindy._check import integer, positive
from cindy.least_squares import LeastSquares
from cindy.solver.hull import Corral
from cindy.solver.iterate import ActiveSet, Iterate, Walk, accelerated, project
from cindy.solver.region import Atom, Oracle, Region
from cindy.solver.sampled_rows import LocalModel

# Takes the atom that the oracle found and the gap, and gives the iterate to go on with.
Advance = Callable[[Atom, float], Iterate]
Begun = tuple[Iterate, Advance]
# Atoms with their weights.
Start = list[tuple[Atom, float]]


class Correction(ABC):
    """A variant of the method: how the iterate is stored, and how it moves once the oracle has found an atom.

    `conditional_gradient` checks the arguments before it calls `begin`, which does not check them again.

    >>> import numpy as np
    >>> from cindy import LeastSquares
    >>> from cindy.solver import Direct, Plain, Region, conditional_gradient, oracle_for
    >>> objective = LeastSquares.from_rows(np.eye(2), np.array([[3.0], [2.0]]))
    >>> oracle = oracle_for(Region(2, radius=2.0))
    >>> for correction in (Direct(), Plain()):
    ...     print(conditional_gradient(objective, oracle, correction).x.round(3).ravel().tolist())
    [1.5, 0.5]
    [1.5, 0.5]
    """

    @abstractmethod
    def begin(self, objective: LeastSquares, oracle: Oracle, target: float, start: Start) -> Begun:
        """The first iterate, and the function that moves it after each oracle call.

        target: the gap at which the run will stop
        start: atoms and weights to begin with; none means the oracle's origin
        """


@dataclass(frozen=True)
class Plain(Correction):
    """The conditional gradient method itself: a step towards the atom with exact line search.

    Steps are cheap, but there are many of them: after k steps the gap has only fallen like 1/k.

    >>> import numpy as np
    >>> from cindy.least_squares import LeastSquares
    >>> from cindy.solver import Region, conditional_gradient, oracle_for
    >>> objective = LeastSquares.from_rows(np.eye(3), np.array([[3.0], [1.0], [0.0]]))
    >>> result = conditional_gradient(objective, oracle_for(Region(3, 2.0)), Plain(), tol=1e-3)
    >>> result.x.ravel().round(2).tolist()
    [2.0, 0.0, 0.0]
    """

    def begin(self, objective: LeastSquares, oracle: Oracle, target: float, start: Start) -> Begun:
        walk = Walk(objective, oracle.origin)
        walk.place(start)

        def advance(atom: Atom, gap: float) -> Iterate:
            walk.step(atom, walk.line_search(atom, gap))
            return walk

        return walk, advance


@dataclass(frozen=True)
class FullyCorrective(Correction):
    """After each new atom, minimise over the hull of all atoms so far to a fixed accuracy.

    accuracy: gap over the hull to reach, as a part of the gap at which the run stops
    inner_steps: accelerated gradient steps allowed for it; where they are too few, `Direct` takes over

    >>> import numpy as np
    >>> from cindy.least_squares import LeastSquares
    >>> from cindy.solver import Region, conditional_gradient, oracle_for
    >>> objective = LeastSquares.from_rows(np.eye(3), np.array([[3.0], [1.0], [0.0]]))
    >>> result = conditional_gradient(objective, oracle_for(Region(3, 2.0)), FullyCorrective())
    >>> result.x.ravel().round(2).tolist()
    [2.0, 0.0, 0.0]
    """

    accuracy: float = 0.1
    inner_steps: int = 300

    def __post_init__(self) -> None:
        positive(self.accuracy, "FullyCorrective: `accuracy`")
        integer(self.inner_steps, "FullyCorrective: `inner_steps`", least=1)

    def begin(self, objective: LeastSquares, oracle: Oracle, target: float, start: Start) -> Begun:
        hull = _Hull(objective, oracle, start, self.inner_steps)

        def advance(atom: Atom, gap: float) -> Iterate:
            hull.take(atom, gap)
            hull.minimise(self.accuracy * target)
            return hull.iterate

        return hull.iterate, advance


@dataclass(frozen=True)
class Blended(Correction):
    """Blended conditional gradients, the paper's method.

    1. Φ begins as half of the first gap over the region.
    2. While the gap over the region exceeds Φ, a new atom lowers the objective more than further steps over
       the hull: take it in. Otherwise halve the gap to get the next Φ.
    3. Minimise over the hull of the atoms until the gap over the hull is at most Φ.

    inner_steps: accelerated gradient steps allowed in step 3; where they are too few, `Direct` takes over

    >>> import numpy as np
    >>> from cindy.least_squares import LeastSquares
    >>> from cindy.solver import Region, conditional_gradient, oracle_for
    >>> objective = LeastSquares.from_rows(np.eye(3), np.array([[3.0], [1.0], [0.0]]))
    >>> result = conditional_gradient(objective, oracle_for(Region(3, 2.0)), Blended())
    >>> result.x.ravel().round(2).tolist()
    [2.0, 0.0, 0.0]
    """

    inner_steps: int = 300

    def __post_init__(self) -> None:
        integer(self.inner_steps, "Blended: `inner_steps`", least=1)

    def begin(self, objective: LeastSquares, oracle: Oracle, target: float, start: Start) -> Begun:
        hull = _Hull(objective, oracle, start, self.inner_steps)
        accuracy: float | None = None

        def advance(atom: Atom, gap: float) -> Iterate:
            nonlocal accuracy
            # Steps 1 and 2.
            if accuracy is None or gap <= accuracy:
                accuracy = 0.5 * gap
            # Where the hull is minimised exactly already, only a new atom can help.
            if gap > accuracy or isinstance(hull.iterate, Corral):
                hull.take(atom, gap)
            # Step 3.
            hull.minimise(accuracy)
            return hull.iterate

        return hull.iterate, advance


@dataclass(frozen=True)
class Direct(Correction):
    """Minimise exactly over the hull of the atoms after each oracle call; the default.

    Where zero is feasible it counts as an atom. As long as the radius does not bind, the run is then
    orthogonal matching pursuit with exact refits.

    leap: try least squares under the equalities first. If it lies in the region it is the answer and is
        certified at once, but there is no path that leads to it.

    >>> import numpy as np
    >>> from cindy.least_squares import LeastSquares
    >>> from cindy.solver import Region, conditional_gradient, oracle_for
    >>> objective = LeastSquares.from_rows(np.eye(3), np.array([[3.0], [1.0], [0.0]]))
    >>> result = conditional_gradient(objective, oracle_for(Region(3, 2.0)), Direct())
    >>> result.x.ravel().round(2).tolist()
    [2.0, 0.0, 0.0]
    """

    leap: bool = False

    def begin(self, objective: LeastSquares, oracle: Oracle, target: float, start: Start) -> Begun:
        if isinstance(objective, LocalModel):
            # A sample gives only an estimate of the curvature, which does not deserve an exact minimiser.
            return Blended().begin(objective, oracle, target, start)
        landed = _leap(objective, oracle, target) if self.leap else None
        if landed is not None:
            return landed
        corral = Corral(objective, oracle)
        # The weights of the start are not needed: the best weights of its atoms are computed exactly, and are
        # no worse.
        corral.gather([atom for atom, _ in start], 0.5 * target)

        def advance(atom: Atom, gap: float) -> Iterate:
            corral.enter(atom)
            return corral

        return corral, advance


def _leap(objective: LeastSquares, oracle: Oracle, target: float) -> Begun | None:
    """An iterate at the least-squares solution; None where that does not solve the problem."""
    solution = least_squares_within(objective, oracle.region)
    if solution is None:
        return None
    walk = Walk(objective, oracle.origin)
    walk.flat[:] = solution
    walk.refresh()
    # Columns that depend on each other make least squares ambiguous, and rounding may then leave a gap. The
    # solution is taken only if its own gap proves it.
    if walk.gap(oracle.minimise(walk.gradient)) > target:
        return None
    return walk, lambda atom, gap: walk


class _Hull:
    """The hull of the atoms so far. Once accelerated gradients are too slow it is minimised over exactly."""

    def __init__(self, objective: LeastSquares, oracle: Oracle, start: Start, steps: int) -> None:
        self._objective = objective
        self._oracle = oracle
        self._steps = steps
        active = ActiveSet(objective, oracle)
        active.place(start)
        self.iterate: ActiveSet | Corral = active

    def take(self, atom: Atom, gap: float) -> None:
        """Take in an atom, with a step towards it."""
        if isinstance(self.iterate, Corral):
            self.iterate.enter(atom)
        else:
            self.iterate.step(atom, self.iterate.line_search(atom, gap))

    def minimise(self, accuracy: float) -> None:
        """Bring the gap over the hull down to `accuracy`."""
        active = self.iterate
        if isinstance(active, Corral) or not active.count:
            return
        if _gap(active.slopes(), active.weights) <= accuracy:
            return
        _accelerate(active, accuracy, self._steps)
        # The exact minimiser of a sampled model would only follow the noise of the sample.
        if isinstance(self._objective, LocalModel):
            return
        if active.count and _gap(active.slopes(), active.weights) > accuracy:
            corral = Corral(self._objective, self._oracle)
            corral.gather(active.atoms, accuracy)
            if corral.objective <= active.objective:
                self.iterate = corral


def _gap(slopes: Floats, weights: Floats) -> float:
    """Frank-Wolfe gap over the hull of the atoms and the origin."""
    return float(slopes @ weights - min(0.0, slopes.min()))


def _accelerate(active: ActiveSet, accuracy: float, steps: int) -> None:
    """Accelerated projected gradient in the weights, each in units of its atom's product."""
    groups = [group for group in active.groups if group.atoms]
    # In these units the Hessian has a unit diagonal, so that long and short atoms converge alike.
    scales = np.concatenate([group.lengths for group in groups])
    base, slopes, costs = active.weights * scales, active.slopes() / scales, 1.0 / scales
    ends = np.cumsum([len(group.atoms) for group in groups])
    parts = [slice(end - len(group.atoms), end) for end, group in zip(ends, groups, strict=True)]
    units = [np.outer(scales[part], scales[part]) for part in parts]
    hessians = [2.0 * group.gram / unit for group, unit in zip(groups, units, strict=True)]

    def gradient(point: Floats) -> Floats:
        # At the base point the slopes come from the residual, with all digits. Only the change is computed
        # by the Gram matrix: gram · weights − constant would lose digits near the optimum.
        change = point - base
        result: Floats = slopes.copy()
        for part, hessian in zip(parts, hessians, strict=True):
            result[part] += hessian @ change[part]
        return result

    def projection(point: Floats) -> Floats:
        return project(point, costs=costs, below=True)

    def done(point: Floats) -> bool:
        return _gap(gradient(point) * scales, point * costs) <= accuracy

    smoothness = 2.0 * max(group.largest for group in groups)
    convexity = 2.0 * min(group.smallest for group in groups)
    # A smaller bound on the least curvature is rounding, and the convergence rate from it would be wrong.
    convexity = convexity if convexity > 1e-12 * smoothness else 0.0
    point = accelerated(
        gradient, projection, base, smoothness=smoothness, convexity=convexity, steps=steps, done=done
    )
    active.propose(point * costs)


def least_squares_within(objective: LeastSquares, region: Region) -> Floats | None:
    """(size,): the minimiser under the equality rows if it lies in the region; None otherwise.

    With equality rows the terms must be linearly independent; without them they need not be.
    """
    rows = region.matrix[np.flatnonzero(region.equality)]
    goal = region.lower[region.equality]
    x = _least_squares(objective)
    if rows.shape[0]:
        corrected = _onto(objective, x, rows.toarray(), goal)
        if corrected is None:
            return None
        x = corrected
    flat = np.asarray(x, dtype=np.float64).ravel()
    return flat if region.violation(flat) <= 1e-12 * region.radius else None


def _least_squares(objective: LeastSquares) -> Floats:
    """(terms, targets): least squares, by the triangle if its condition proves the columns independent."""
    terms = objective.terms
    triangle = objective.design[:terms]
    square = len(triangle) == terms > 0 and not np.tril(objective.design, -1).any()
    if square and scipy.linalg.lapack.dtrcon(triangle)[0] > 1e-8:
        return np.asarray(scipy.linalg.solve_triangular(triangle, objective.target[:terms]), dtype=np.float64)
    # Of many solutions the one of least norm is the most likely to lie in the ball.
    return np.asarray(np.linalg.lstsq(objective.design, objective.target, rcond=None)[0], dtype=np.float64)


def _onto(objective: LeastSquares, x: Floats, rows: Floats, goal: Floats) -> Floats | None:
    """The point on {rows x = goal} nearest to x in the norm of the objective.

    x − R⁻¹ T (TᵀT)⁻¹ (rows x − goal),   T = R⁻ᵀ rowsᵀ
    """
    # The unknowns are the multipliers of the rows, of which there are few. The null space that
    # `Regression.fit` uses would have as many columns as all targets that rows connect have coefficients.
    terms, targets = x.shape
    triangle = objective.design[:terms]
    diagonal = np.abs(np.diag(triangle))
    # A singular triangle has no unique solution to correct. The loop handles such data, this shortcut does
    # not.
    if len(triangle) < terms or objective.design[terms:].any() or diagonal.min() <= 1e-10 * diagonal.max():
        return None
    length = np.linalg.norm(rows, axis=1).clip(min=1e-300)
    rows, goal = rows / length[:, None], goal / length
    # With z = R x the norm is Euclidean, and the rows become rows R⁻¹, target by target.
    turned = scipy.linalg.solve_triangular(
        triangle, rows.reshape(len(rows), terms, targets).transpose(1, 0, 2).reshape(terms, -1), trans="T"
    )
    turned = turned.reshape(terms, len(rows), targets).transpose(0, 2, 1).reshape(-1, len(rows))
    for _ in range(2):
        # The second pass corrects the rounding of the first.
        miss = rows @ x.ravel() - goal
        shift = scipy.linalg.lstsq(turned.T, miss, cond=1e-10)[0].reshape(terms, targets)
        x = x - scipy.linalg.solve_triangular(triangle, shift)
    return x
