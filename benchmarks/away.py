"""Away and pairwise steps, tried here and not in the package: what they cost beside Direct and Blended."""

import warnings
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from benchmarks import problems
from benchmarks.table import best_of, write
from cindy.least_squares import LeastSquares
from cindy.solver import Atom, Blended, Correction, Direct, Oracle, conditional_gradient, oracle_for
from cindy.solver.correction import Advance, Start
from cindy.solver.iterate import Group, Iterate

__all__ = ["run"]

Floats = NDArray[np.float64]
LONGEST = 2.0


@dataclass(frozen=True)
class Stepwise(Correction):
    """One step with exact line search an oracle call, along the best direction that weights allow.

    pairwise: move weight from the worst atom to the new one; otherwise towards
        the new atom or away from the worst, whichever falls more steeply
    """

    pairwise: bool

    def begin(
        self, objective: LeastSquares, oracle: Oracle, target: float, start: Start
    ) -> tuple[Iterate, Advance]:
        point = _Weighted(objective, oracle)

        def advance(atom: Atom, gap: float) -> Iterate:
            point.move(atom, gap, self.pairwise)
            return point

        return point, advance


class _Weighted(Iterate):
    """A point as a mixture of atoms; what is left of the weight is the origin's."""

    def __init__(self, objective: LeastSquares, oracle: Oracle) -> None:
        super().__init__(objective, oracle.origin)
        self._group = Group(np.arange(self.targets))
        self._group.append(Atom(np.zeros(0, dtype=np.intp), np.zeros(0), oracle.origin))
        self._group.weights[0] = 1.0

    @property
    def count(self) -> int:
        return len(self._group.atoms)

    def move(self, atom: Atom, gap: float, pairwise: bool) -> None:
        """A step of either kind; atoms whose weight it takes leave."""
        slopes = self._group.gather(self.gradient)
        worst = int(slopes.argmax())
        held = self._group.weights[worst]
        away = float(slopes[worst]) - self.slope()
        there = self._position(atom)
        change = np.zeros(len(self._group.atoms))
        if pairwise:
            change[worst] -= 1.0
            change[there] += 1.0
            most, fall = held, gap + away
        elif gap >= away or held >= 1.0:
            change -= self._group.weights
            change[there] += 1.0
            most, fall = 1.0, gap
        else:
            change += self._group.weights
            change[worst] -= 1.0
            most, fall = held / (1.0 - held), away
        displacement = np.zeros_like(self.flat)
        self._group.write(displacement, change)
        curvature = float(np.sum((self.design @ displacement.reshape(self.x.shape)) ** 2))
        share = min(most, 0.5 * fall / curvature) if curvature > 0.0 else most
        weights = self._group.weights + share * change
        if share == most and most < 1.0:
            weights[worst] = 0.0
        self._group.weights = np.maximum(weights, 0.0)
        self._group.keep(self._group.weights > 0.0)
        self.flat[:] = self.origin
        self._group.write(self.flat)
        self.refresh()

    def _position(self, atom: Atom) -> int:
        keys = [one.key for one in self._group.atoms]
        if atom.key in keys:
            return keys.index(atom.key)
        self._group.append(atom)
        return len(keys)


METHODS: dict[str, Correction] = {
    "Direct": Direct(),
    "Blended": Blended(),
    "Away steps": Stepwise(pairwise=False),
    "Pairwise steps": Stepwise(pairwise=True),
}


def run() -> None:
    warnings.simplefilter("ignore")
    rows: list[dict[str, Any]] = []
    for name in problems.NAMES:
        for ties in (False, True):
            for tol in (1e-6, 1e-8):
                rows += _one(name, ties, tol)
    write(
        "away",
        "Away and pairwise steps, seconds to a relative gap",
        rows,
        "Radius half the norm of least squares. Away and pairwise steps take one step with exact line search "
        f"an oracle call, and keep no products of atoms; cut off after {LONGEST:g} s of wall time, and the "
        "gap reached says so.",
    )


def _one(name: str, ties: bool, tol: float) -> list[dict[str, Any]]:
    objective, region = problems.objective(name), problems.region(name, 0.5, ties=ties)
    rows: list[dict[str, Any]] = []
    for label, correction in METHODS.items():

        def solve(correction: Correction = correction) -> Any:
            return conditional_gradient(
                objective, oracle_for(region), correction, tol=tol, max_iter=10**6, max_seconds=LONGEST
            )

        seconds, result = best_of(solve, enough=0.5)
        rows.append({"problem": name, "ties": "yes" if ties else "no", "tol": tol, "method": label})
        rows[-1] |= {"seconds": seconds, "oracle calls": result.oracle_calls, "gap": result.relative_gap}
        rows[-1]["times Direct"] = seconds / rows[0]["seconds"]
    return rows
