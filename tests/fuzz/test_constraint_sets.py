"""Random sets of constraints: an independent interior-point method finds the same optimum, or none."""

import numpy as np
import pytest
from tests.fuzz.test_certificates import rows
from tests.solver.independent import optimal_value

from cindy.errors import InfeasibleError
from cindy.least_squares import LeastSquares
from cindy.solver import Region, conditional_gradient, oracle_for

CASES, PARTS = 200, 4


@pytest.mark.parametrize("part", range(PARTS))
def test_the_optimum_under_random_constraints_is_that_of_an_interior_point_method(part):
    wrong = []
    for seed in range(part, CASES, PARTS):
        rng = np.random.default_rng(seed)
        terms, targets = int(rng.integers(2, 7)), int(rng.integers(1, 4))
        design = rng.normal(size=(4 * terms, terms))
        point = rng.normal(size=(terms, targets)) * (rng.random((terms, targets)) < 0.6)
        objective = LeastSquares.from_rows(design, design @ point + rng.normal(size=(4 * terms, targets)))
        matrix, lower, upper = rows(rng, point.size, np.ones(point.size), point.ravel())
        radius = (float(np.abs(point).sum()) + 1e-3) * float(rng.choice([1.0, 2.0]))
        region = Region(point.size, radius, None, matrix, lower, upper)
        try:
            result = conditional_gradient(objective, oracle_for(region), tol=1e-9)
        except InfeasibleError as error:
            # The point itself is in the region.
            wrong.append((seed, str(error)))
            continue
        best = optimal_value(objective, region)
        if not -1e-7 * result.scale <= result.objective - best <= result.gap + 1e-7 * result.scale:
            wrong.append((seed, result.objective - best, result.gap))
        if region.violation(result.x) > 1e-8 * radius:
            wrong.append((seed, "violation", region.violation(result.x)))
    assert not wrong
