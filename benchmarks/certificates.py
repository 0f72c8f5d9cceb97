"""Certificates against exact optima: a thousand small problems solved in rational numbers.

For each problem the least loss over the region is worked out exactly. The region falls apart into the
orthants of the coefficients, and in each of them the minimiser lies in the relative interior of a face:

1. choose which coefficients differ from zero, with signs, and which rows and whether the radius bind;
2. solve the equations of Karush, Kuhn and Tucker for that face, in fractions;
3. of the solutions that obey signs, rows and radius, the least loss is the optimum.

A certificate is false if the optimum lies below `objective − gap`, or if a radius below `least_radius`
meets the bound of a pursuit, or if a bound that was refused can be met.
"""

import itertools
import warnings
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from fractions import Fraction

import numpy as np

from benchmarks.cells import Row, Subset, measured
from benchmarks.table import write
from cindy.errors import CindyError, ConvergenceWarning, InfeasibleError
from cindy.least_squares import LeastSquares
from cindy.solver import Blended, Direct, Region, basis_pursuit, conditional_gradient, oracle_for

__all__ = ["Exact", "faults", "problem", "run"]

FIRST, PROBLEMS = 20_000, 1_000
TOL = 1e-8
"""Of every run, relative to the loss at zero: what `basis_pursuit` says its two ends hold to."""
OUTSIDE = Fraction(1, 10**9)
"""By how much a point may leave a row or the ball, in units of the row's own terms: rounding of products."""

Vector = list[Fraction]


@dataclass(frozen=True)
class Exact:
    """A problem in rational numbers: the loss ‖A x − b‖² of the factor, weights and rows of the region."""

    design: list[Vector]
    target: Vector
    weights: Vector
    matrix: list[Vector]
    lower: list[Fraction | None]
    upper: list[Fraction | None]

    @classmethod
    def of(cls, objective: LeastSquares, region: Region) -> "Exact":
        def bounds(values: np.ndarray) -> list[Fraction | None]:
            return [Fraction(float(v)) if np.isfinite(v) else None for v in values]

        return cls(
            [_fractions(row) for row in objective.design],
            _fractions(objective.target.ravel()),
            _fractions(region.weights),
            [_fractions(row) for row in region.matrix.toarray()],
            bounds(region.lower),
            bounds(region.upper),
        )

    def loss(self, x: Sequence[Fraction]) -> Fraction:
        """‖A x − b‖²"""
        misses = (_dot(row, x) - b for row, b in zip(self.design, self.target, strict=True))
        return sum((miss * miss for miss in misses), Fraction(0))

    def norm(self, x: Sequence[Fraction]) -> Fraction:
        """Σ weight |x|"""
        return _dot(self.weights, [abs(v) for v in x])

    def outside(self, x: Sequence[Fraction]) -> Fraction:
        """By how much x leaves a row at most, in units of the sizes of the row's terms and bound."""
        worst = Fraction(0)
        for row, low, high in zip(self.matrix, self.lower, self.upper, strict=True):
            value = _dot(row, x)
            size = sum((abs(a * v) for a, v in zip(row, x, strict=True)), Fraction(0))
            for bound, miss in ((low, (low or 0) - value), (high, value - (high or 0))):
                if bound is not None and miss > 0:
                    worst = max(worst, miss / (size + abs(bound)))
        return worst

    def least_loss(self, radius: Fraction | None) -> Fraction | None:
        """Over the rows and the ball; None where no point obeys both. radius: None for no ball"""
        losses = [
            self.loss(x)
            for signs in itertools.product((-1, 0, 1), repeat=len(self.weights))
            for x in self._stationary(signs, radius)
            if self._inside(x, signs, radius)
        ]
        return min(losses, default=None)

    def _inside(self, x: Vector, signs: tuple[int, ...], radius: Fraction | None) -> bool:
        if any(v * s < 0 for v, s in zip(x, signs, strict=True)):
            return False
        if radius is not None and self.norm(x) > radius:
            return False
        values = [_dot(row, x) for row in self.matrix]
        return all(
            (low is None or value >= low) and (high is None or value <= high)
            for value, low, high in zip(values, self.lower, self.upper, strict=True)
        )

    def _stationary(self, signs: tuple[int, ...], radius: Fraction | None) -> Iterator[Vector]:
        """The minimisers on the affine hulls of the faces of an orthant."""
        used = [i for i, sign in enumerate(signs) if sign]
        design = [[row[i] for i in used] for row in self.design]
        gram = [[_dot(a, b) for b in zip(*design, strict=True)] for a in zip(*design, strict=True)]
        slope = [_dot(column, self.target) for column in zip(*design, strict=True)]
        for sides, goals in self._faces(signs, used, radius):
            system = [
                [*g, *(side[i] for side in sides), s]
                for i, (g, s) in enumerate(zip(gram, slope, strict=True))
            ]
            system += [
                [*side, *([Fraction(0)] * len(sides)), goal] for side, goal in zip(sides, goals, strict=True)
            ]
            solution = _solved(system)
            if solution is not None:
                x = [Fraction(0)] * len(signs)
                for place, value in zip(used, solution, strict=False):
                    x[place] = value
                yield x

    def _faces(
        self, signs: tuple[int, ...], used: list[int], radius: Fraction | None
    ) -> Iterator[tuple[list[Vector], Vector]]:
        """Every choice of rows, and of the ball, that hold with equality."""
        choices: list[list[tuple[Vector, Fraction] | None]] = []
        for row, low, high in zip(self.matrix, self.lower, self.upper, strict=True):
            part = [row[i] for i in used]
            ends = [low] if low == high else [low, high]
            choices.append([None, *((part, end) for end in ends if end is not None)])
        if radius is not None:
            choices.append([None, ([self.weights[i] * signs[i] for i in used], radius)])
        for chosen in itertools.product(*choices):
            held = [side for side in chosen if side is not None]
            if len(held) <= len(used):
                yield [side for side, _ in held], [goal for _, goal in held]


def _fractions(values: np.ndarray) -> Vector:
    return [Fraction(float(v)) for v in values]


def _dot(a: Sequence[Fraction], b: Sequence[Fraction]) -> Fraction:
    return sum((p * q for p, q in zip(a, b, strict=True)), Fraction(0))


def _solved(system: list[Vector]) -> Vector | None:
    """Gauss and Jordan on [matrix | goal]; None where the matrix is singular."""
    rows = [list(row) for row in system]
    for i in range(len(rows)):
        pivot = next((k for k in range(i, len(rows)) if rows[k][i]), None)
        if pivot is None:
            return None
        rows[i], rows[pivot] = rows[pivot], rows[i]
        inverse = 1 / rows[i][i]
        rows[i] = [v * inverse for v in rows[i]]
        for k in range(len(rows)):
            if k != i and rows[k][i]:
                factor = rows[k][i]
                rows[k] = [a - factor * b for a, b in zip(rows[k], rows[i], strict=True)]
    return [row[-1] for row in rows]


def problem(seed: int, most: int = 3) -> tuple[LeastSquares, Region, float]:
    """Two to `most` coefficients, up to three rows, and a bound on the loss for a pursuit.

    Small whole numbers make vertices at which more rows meet than there are coefficients, dependent columns
    and dependent rows. Columns and rows are then multiplied by powers of two, up to 2^20 either way.
    """
    rng = np.random.default_rng(seed)
    terms = int(rng.integers(2, most + 1))
    design = rng.integers(-3, 4, (terms + 2, terms)).astype(float)
    if rng.random() < 0.2:
        design[:, 0] = design[:, -1] * rng.choice([1, -2])
    inside = rng.integers(-2, 3, terms).astype(float)
    target = design @ inside + rng.choice([0, 1, 3]) * rng.integers(-1, 2, len(design))
    count = int(rng.integers(0, 4))
    matrix = rng.integers(-2, 3, (count, terms)).astype(float)
    values = matrix @ inside
    kinds = rng.integers(0, 4, count)
    lower = np.where(kinds == 0, -np.inf, np.where(kinds == 3, values, values - rng.integers(0, 3, count)))
    upper = np.where(kinds == 1, np.inf, np.where(kinds == 3, values, values + rng.integers(0, 3, count)))
    # Some rows exclude each other, or what the loss asks for.
    shift = rng.integers(-3, 4, count) * (rng.random(count) < 0.3)
    lower, upper = lower + shift, upper + shift
    strength = int(rng.choice([0, 4, 20]))
    units = 2.0 ** rng.integers(-strength, strength + 1, terms)
    heights = 2.0 ** rng.integers(-strength, strength + 1, count)
    weights = units if rng.random() < 0.5 else 2.0 ** rng.integers(-2, 3, terms)
    radius = max(float(weights @ np.abs(inside / units)), float(weights.min())) * float(
        rng.choice([0.5, 1, 4])
    )
    region = Region(
        terms, radius, weights, heights[:, None] * matrix * units, heights * lower, heights * upper
    )
    # The rows themselves, not their triangle, which rounding would make another problem.
    objective = LeastSquares(np.column_stack([design * units, target]), terms, len(design))
    return objective, region, float(np.sum(target**2)) * float(rng.choice([0, 0.01, 0.1, 0.5, 1, 2]))


def faults(seed: int, most: int = 3) -> tuple[list[str], str]:
    """What an exact check refutes of the two answers to a problem, and how they ended."""
    objective, region, epsilon = problem(seed, most)
    exact = Exact.of(objective, region)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)
        found, ended = _of_a_run(objective, region, exact, seed)
        also, other = _of_a_pursuit(objective, region, exact, epsilon)
    return found + also, f"run {ended}, pursuit {other}"


def _of_a_run(objective: LeastSquares, region: Region, exact: Exact, seed: int) -> tuple[list[str], str]:
    radius = Fraction(region.radius)
    least = exact.least_loss(radius)
    try:
        result = conditional_gradient(
            objective, oracle_for(region), Blended() if seed % 3 == 0 else Direct(), tol=TOL, max_iter=2_000
        )
    except InfeasibleError:
        return (["a region with a point is called empty"] if least is not None else []), "infeasible"
    except CindyError as error:
        return [], type(error).__name__
    return _of_a_point(exact, result.x, result.gap, radius, least), str(result.status)


def _of_a_point(
    exact: Exact, x: np.ndarray, gap: float, radius: Fraction, least: Fraction | None
) -> list[str]:
    found = []
    point = _fractions(x.ravel())
    if least is None:
        # Rows that rounding of one number makes impossible: the point must then nearly obey them.
        return ["an empty region has a solution"] if exact.outside(point) > OUTSIDE else []
    if least < exact.loss(point) - Fraction(gap):
        found.append(f"gap {gap:.3g}, but {float(exact.loss(point) - least):.3g} is possible")
    if exact.norm(point) > radius * (1 + OUTSIDE):
        found.append(f"outside the ball by {float(exact.norm(point) / radius - 1):.3g}")
    if exact.outside(point) > OUTSIDE:
        found.append(f"outside a row by {float(exact.outside(point)):.3g}")
    return found


def _of_a_pursuit(
    objective: LeastSquares, region: Region, exact: Exact, epsilon: float
) -> tuple[list[str], str]:
    try:
        pursuit = basis_pursuit(objective, region, epsilon, tol=TOL)
    except InfeasibleError:
        least = exact.least_loss(None)
        reached = least is not None and least < Fraction(epsilon)
        return (["pursuit: a bound that can be met is refused"] if reached else []), "infeasible"
    except CindyError as error:
        return [], type(error).__name__
    radius, scale = Fraction(pursuit.radius), Fraction(pursuit.result.scale)
    found = (
        []
        if not radius
        else _of_a_point(exact, pursuit.x, pursuit.result.gap, radius, exact.least_loss(radius))
    )
    if exact.loss(_fractions(pursuit.x.ravel())) > Fraction(epsilon) + Fraction(TOL) * scale:
        found.append("the bound is not met")
    if pursuit.least_radius > 0:
        below = exact.least_loss(Fraction(pursuit.least_radius) * (1 - Fraction(1, 2**40)))
        if below is not None and below <= Fraction(epsilon):
            found.append(f"least radius {pursuit.least_radius:.6g} is too large")
    return [f"pursuit: {fault}" for fault in found], "solved"


def features(seed: int, most: int = 3) -> Row:
    """What is hard about a problem, at the solution of its run: 1 where it holds."""
    objective, region, _ = problem(seed, most)
    lengths = np.linalg.norm(objective.design, axis=0)
    lengths = lengths[lengths > 0]
    scaled = {"badly scaled": int(lengths.size > 0 and lengths.max() > 256 * lengths.min())}
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", ConvergenceWarning)
            x = conditional_gradient(
                objective, oracle_for(region), Direct(), tol=TOL, max_iter=2_000
            ).x.ravel()
    except CindyError:
        return {**scaled, "radius binds": 0, "degenerate": 0}
    values, size = region.matrix @ x, abs(region.matrix) @ np.abs(x) + 1e-300
    at_an_end = [np.abs(values - end) <= 1e-9 * (size + np.abs(end)) for end in (region.lower, region.upper)]
    met = int(np.sum(at_an_end[0] | at_an_end[1]))
    binds = bool(region.norm(x) > region.radius * (1 - 1e-9))
    # More conditions that hold with equality than there are coefficients.
    degenerate = met + binds + int(np.sum(x == 0)) > region.size
    return {**scaled, "radius binds": int(binds), "degenerate": int(degenerate)}


def run(subset: Subset = Subset()) -> None:  # noqa: B008
    """Every problem, and a row for each kind of end."""

    def work(seed: int) -> Row:
        refuted, ended = faults(seed)
        return {"ended": ended, "refuted": len(refuted), "said": "; ".join(refuted), **features(seed)}

    cells = [{"seed": seed} for seed in subset.pick("seeds", range(FIRST, FIRST + PROBLEMS))]
    rows = measured("certificates_cells", cells, work, subset, show=False)
    kinds = ("badly scaled", "radius binds", "degenerate")
    table = []
    for ended in [*sorted({row["ended"] for row in rows}), "all"]:
        group = [row for row in rows if ended in (row["ended"], "all")]
        counts = {kind: sum(row[kind] for row in group) for kind in kinds}
        table.append(
            {
                "ended": ended,
                "problems": len(group),
                **counts,
                "refuted": sum(row["refuted"] > 0 for row in group),
            }
        )
    title = "Certificates that an exact rational check refutes"
    write("certificates", title, table, __doc__ or "", folder=subset.out)
