"""Random regions and objectives with columns from 1e-8 to 1e8: the gap bounds the truth, in exact arithmetic.

No optimum is needed to catch a false certificate: any feasible point that is better than the
solution by more than the gap will do. Such points are sought by refining the solution itself, by
runs in other units and by the corners of the region; objectives are compared as fractions.
"""

import warnings
from fractions import Fraction

import numpy as np
import pytest

from cindy.errors import ConvergenceWarning, InfeasibleError
from cindy.least_squares import LeastSquares
from cindy.solver import Blended, Direct, Region, Status, conditional_gradient, gap_at, oracle_for

SEEDS = (*range(200), 480)
"""Two hundred draws, and one with a linear program that HiGHS calls unbounded, though its norm is bounded."""
PARTS = 8


def exact(objective: LeastSquares, x: np.ndarray) -> Fraction:
    """‖A x − B‖² of the factor's numbers, without rounding."""
    total = Fraction(0)
    point = [[Fraction(float(v)) for v in row] for row in x]
    for design, target in zip(objective.design, objective.target, strict=True):
        row = [(i, Fraction(float(a))) for i, a in enumerate(design) if a]
        for j, b in enumerate(target):
            total += (sum((a * point[i][j] for i, a in row), Fraction(0)) - Fraction(float(b))) ** 2
    return total


def problem(rng: np.random.Generator) -> tuple[LeastSquares, Region, np.ndarray]:
    """An objective and a region around a point, and that point: so the region is not empty."""
    terms, targets = int(rng.integers(2, 7)), int(rng.integers(1, 3))
    size = terms * targets
    units = 10.0 ** rng.uniform(-8, 8, terms)
    design = rng.normal(size=(3 * terms, terms))
    inside = rng.normal(size=(terms, targets)) * (rng.random((terms, targets)) < 0.6)
    target = design @ inside + rng.choice([0.0, 0.1, 1.0]) * rng.normal(size=(3 * terms, targets))
    flat_units = np.repeat(units, targets)
    point = (inside.ravel() / flat_units) * rng.uniform(0.2, 1.0)
    weights = flat_units if rng.random() < 0.5 else np.ones(size)
    radius = float(weights @ np.abs(point)) * rng.choice([1.0, 1.5, 10.0]) + 1e-3 * float(
        weights.max() / units.max()
    )
    matrix, lower, upper = rows(rng, size, flat_units, point)
    return (
        LeastSquares.from_rows(design * units, target),
        Region(size, radius, weights, matrix, lower, upper),
        point,
    )


def rows(rng, size, units, point):
    """A few bounds, ties, laws and inequalities that the point obeys, in the units of the coefficients."""
    matrix, lower, upper = [], [], []
    for _ in range(int(rng.integers(0, 4))):
        row = np.zeros(size)
        chosen = rng.choice(size, size=min(size, int(rng.integers(1, 4))), replace=False)
        row[chosen] = rng.normal(size=len(chosen)) * units[chosen]
        value = float(row @ point)
        kind = rng.integers(0, 4)
        spread = abs(rng.normal()) * float(np.abs(row) @ np.abs(point) + 0.1)
        matrix.append(row)
        lower.append(-np.inf if kind == 0 else value if kind == 3 else value - spread)
        upper.append(np.inf if kind == 1 else value if kind == 3 else value + spread)
    if not matrix:
        return None, -np.inf, np.inf
    return np.array(matrix), np.array(lower), np.array(upper)


def rivals(
    objective: LeastSquares, region: Region, result: np.ndarray, point: np.ndarray
) -> list[np.ndarray]:
    """Feasible points that may be better than the result."""
    found = [point.reshape(result.shape)]
    targets = result.shape[1]
    lengths = np.maximum(np.linalg.norm(objective.design, axis=0), 1e-300)
    flat = np.repeat(lengths, targets)
    # The same problem with columns of unit length: nothing is far from one there.
    scaled = objective.scaled(lengths, np.ones(targets))
    matrix = region.matrix.toarray() / flat if region.rows else None
    same = Region(region.size, region.radius, region.weights / flat, matrix, region.lower, region.upper)
    oracle = oracle_for(region)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)
        for f, where, unit in ((scaled, same, flat), (objective, region, np.ones(region.size))):
            other = conditional_gradient(f, oracle_for(where), Direct(), tol=1e-13, max_iter=300).x
            found.append(other / unit.reshape(result.shape))
    for sign in (1.0, -1.0):
        for i in range(region.size):
            cost = np.zeros(region.size)
            cost[i] = sign
            corner = oracle(cost).point().reshape(result.shape)
            found += [corner, result + 1e-3 * (corner - result)]
    return [x for x in found if feasible(region, x)]


def feasible(region: Region, x: np.ndarray) -> bool:
    """In the region in exact arithmetic, but for what the result itself is allowed: rounding of a row."""
    flat = x.ravel()
    if region.norm(flat) > region.radius * (1 + 1e-9):
        return False
    if not region.rows:
        return True
    size = abs(region.matrix) @ np.abs(flat) + 1e-300
    values = region.matrix @ flat
    return bool(((values >= region.lower - 1e-9 * size) & (values <= region.upper + 1e-9 * size)).all())


@pytest.mark.parametrize("part", range(PARTS))
def test_no_feasible_point_is_better_than_the_gap_says(part):
    false = []
    for seed in SEEDS[part::PARTS]:
        rng = np.random.default_rng(seed)
        objective, region, point = problem(rng)
        correction = Direct() if seed % 3 else Blended()
        try:
            oracle = oracle_for(region)
            with warnings.catch_warnings():
                warnings.simplefilter("ignore", ConvergenceWarning)
                result = conditional_gradient(objective, oracle, correction, max_iter=500)
            gap = min(result.gap, gap_at(objective, oracle, result.x))
        except InfeasibleError as error:
            false.append((seed, "infeasible", str(error)))
            continue
        if result.status is Status.CONVERGED and result.gap > 1.0001e-8 * result.scale:
            false.append((seed, "converged above the tolerance", result.gap))
        reached = exact(objective, result.x)
        certified = reached - Fraction(gap)
        # Rivals may leave the region by a part in 1e9, and so may the bound be off by that.
        slack = Fraction(1e-8) * Fraction(float(np.sum(objective.target**2))) + Fraction(1e-8) * reached
        for rival in rivals(objective, region, result.x, point):
            if exact(objective, rival) < certified - slack:
                false.append((seed, result.status, float(certified - exact(objective, rival)), result.scale))
                break
    assert not false


def test_a_small_cost_beside_a_large_one_is_heard():
    objective = LeastSquares.from_rows(np.diag([1e6, 1.0]), np.array([[0.0], [5.0]]))
    region = Region(2, 10.0, None, np.array([[1.0, 0.0]]), 0.5, 0.6)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)
        result = conditional_gradient(objective, oracle_for(region))
    best = exact(objective, np.array([[0.5], [5.0]]))
    assert exact(objective, result.x) - best <= Fraction(result.gap)
    assert result.x.ravel() == pytest.approx([0.5, 5.0], abs=1e-2)
