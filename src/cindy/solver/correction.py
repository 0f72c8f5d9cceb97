"""What happens between two calls of the oracle: the variants of the conditional gradient method."""

from abc import ABC, abstractmethod
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from cindy._check import integer, positive
from cindy.least_squares import LeastSquares
from cindy.solver.active_set import ActiveSet, Iterate
from cindy.solver.corral import Corral
from cindy.solver.oracle import Atom, Oracle
from cindy.solver.simplex import accelerated, accelerated_strongly, project

__all__ = ["Blended", "Correction", "Direct", "FullyCorrective", "Plain"]

Floats = NDArray[np.float64]

# Takes the atom that the oracle found and the gap; says whether the iterate could be improved.
Advance = Callable[[Atom, float], bool]
Start = list[tuple[Atom, float]]


class Correction(ABC):
    """A variant of the method: how an iterate is kept and what is done with a new atom."""

    @abstractmethod
    def begin(
        self, objective: LeastSquares, oracle: Oracle, target: float, start: Start
    ) -> tuple[Iterate, Advance]:
        """A fresh iterate, and the move that follows each oracle call.

        target: the gap at which the run will stop
        start: atoms and weights to begin with; none means the oracle's origin
        """


@dataclass(frozen=True)
class Plain(Correction):
    """The conditional gradient method itself: step towards the atom, exact line search.

    Cheap steps, many of them: the gap falls like 1/k.
    """

    def begin(
        self, objective: LeastSquares, oracle: Oracle, target: float, start: Start
    ) -> tuple[Iterate, Advance]:
        active = ActiveSet(objective, oracle)
        active.place(start)
        return active, active.step


@dataclass(frozen=True)
class FullyCorrective(Correction):
    """After each new atom, minimise over the hull of all atoms so far to a fixed accuracy.

    accuracy: gap over the hull to reach, as a part of the gap at which the run stops
    inner_steps: accelerated gradient steps allowed for it; if they do not
        suffice the minimiser is computed exactly, as by `Direct`
    """

    accuracy: float = 0.1
    inner_steps: int = 500

    def __post_init__(self) -> None:
        positive(self.accuracy, "FullyCorrective: `accuracy`")
        integer(self.inner_steps, "FullyCorrective: `inner_steps`", least=0)

    def begin(
        self, objective: LeastSquares, oracle: Oracle, target: float, start: Start
    ) -> tuple[Iterate, Advance]:
        active = ActiveSet(objective, oracle)
        active.place(start)

        def advance(atom: Atom, gap: float) -> bool:
            moved = active.step(atom, gap)
            return _minimise(objective, active, self.accuracy * target, self.inner_steps) or moved

        return active, advance


@dataclass(frozen=True)
class Blended(Correction):
    """Blended conditional gradients, the paper's method.

    The hull of the atoms is minimised over no more accurately than Φ. While the
    gap of the region exceeds Φ a new atom is worth more than a better hull; once
    it does not, Φ becomes half of the gap.

    inner_steps: accelerated gradient steps allowed to reach Φ; if they do not
        suffice the minimiser is computed exactly, as by `Direct`
    """

    inner_steps: int = 500

    def __post_init__(self) -> None:
        integer(self.inner_steps, "Blended: `inner_steps`", least=0)

    def begin(
        self, objective: LeastSquares, oracle: Oracle, target: float, start: Start
    ) -> tuple[Iterate, Advance]:
        active = ActiveSet(objective, oracle)
        active.place(start)
        accuracy = np.inf

        def advance(atom: Atom, gap: float) -> bool:
            nonlocal accuracy
            if not np.isfinite(accuracy):
                accuracy = 0.5 * gap
            moved = False
            if gap <= accuracy:
                accuracy = 0.5 * gap
            else:
                moved = active.step(atom, gap)
            return _minimise(objective, active, accuracy, self.inner_steps) or moved

        return active, advance


@dataclass(frozen=True)
class Direct(Correction):
    """Minimise exactly over the hull of the atoms after each oracle call; the default.

    Where zero is feasible it counts as an atom, so that as long as the radius
    does not bind the run is orthogonal matching pursuit with exact refits.
    """

    def begin(
        self, objective: LeastSquares, oracle: Oracle, target: float, start: Start
    ) -> tuple[Iterate, Advance]:
        corral = Corral(objective, oracle)
        for atom, _ in start:
            corral.enter(atom)

        def advance(atom: Atom, gap: float) -> bool:
            return corral.enter(atom)

        return corral, advance


class _Hull(Oracle):
    """The oracle of the hull of finitely many atoms and their origin."""

    def __init__(self, active: ActiveSet) -> None:
        self.region = active.oracle.region
        self.origin = active.origin
        self.active = active

    def minimise(self, gradient: Floats) -> Atom:
        return min(self.active.atoms, key=lambda atom: atom.slope(gradient))

    def components(self, targets: int) -> NDArray[np.intp]:
        return self.active.oracle.components(targets)


def _minimise(objective: LeastSquares, active: ActiveSet, accuracy: float, steps: int) -> bool:
    """Bring the gap over the hull of the active atoms and the origin down to `accuracy`."""
    if not active.count or _hull_gap(active.slopes(), active.weights) <= accuracy:
        return False
    before = active.objective
    _accelerate(active, accuracy, steps)
    if _hull_gap(active.slopes(), active.weights) > accuracy:
        _finish(objective, active, accuracy)
    return active.objective < before


def _hull_gap(slopes: Floats, weights: Floats) -> float:
    return float(slopes @ weights - min(0.0, slopes.min()))


def _accelerate(active: ActiveSet, accuracy: float, steps: int) -> None:
    """Accelerated projected gradient in the weights, each in units of its atom's product."""
    scales = active.scales
    base, slopes = active.weights * scales, active.slopes() / scales
    # Slopes are taken relative to the base point, where the residual gave them to
    # full precision; gram · weights − constant would lose digits near the end.
    hessian = 2.0 * active.gram / np.outer(scales, scales)
    costs = 1.0 / scales

    def gradient(point: Floats) -> Floats:
        return slopes + hessian @ (point - base)

    def projection(point: Floats) -> Floats:
        return project(point, costs=costs, below=True)

    def done(point: Floats) -> bool:
        return _hull_gap(gradient(point) * scales, point / scales) <= accuracy

    largest, smallest = active.curvature()
    smoothness, convexity = 2.0 * largest, 2.0 * smallest
    if convexity > 1e-12 * smoothness:
        point = accelerated_strongly(
            gradient, projection, base, smoothness=smoothness, convexity=convexity, steps=steps, done=done
        )
    else:
        point = accelerated(gradient, projection, base, smoothness=smoothness, steps=steps, done=done)
    active.assign_if_better(point / scales)


def _finish(objective: LeastSquares, active: ActiveSet, accuracy: float) -> None:
    """Minimise over the hull exactly: `Direct` with the active atoms as its oracle."""
    hull = _Hull(active)
    corral = Corral(objective, hull)
    for _ in range(3 * active.count + 10):
        atom = hull.minimise(corral.gradient)
        if corral.gap(atom) <= accuracy:
            break
        before = corral.objective
        if not corral.enter(atom) or corral.objective >= before:
            break
    weights = dict(corral.weights())
    active.assign_if_better(np.array([weights.get(id(atom), 0.0) for atom in active.atoms]))
