"""No certificate is false: small problems whose optima are known in rational numbers."""

import numpy as np
import pytest
from benchmarks.certificates import Exact, faults

from cindy.errors import InfeasibleError
from cindy.least_squares import LeastSquares
from cindy.solver import Plain, Region, basis_pursuit, conditional_gradient, oracle_for
from cindy.solver.iterate import Iterate, Walk
from cindy.solver.loop import obeying


@pytest.mark.parametrize("part", range(4))
def test_an_exact_rational_check_refutes_no_certificate(part):
    false = {seed: faults(seed, most=2)[0] for seed in range(5_000 + part, 5_080, 4)}
    false |= {seed: faults(seed)[0] for seed in range(6_000 + part, 6_020, 4)}
    assert not {seed: fault for seed, fault in false.items() if fault}


def test_the_exact_optimum_is_that_of_a_problem_solved_by_hand():
    # min (x - 2)² + (y - 1)² with |x| + |y| ≤ 2 and y ≥ x: the point (1, 1).
    objective = LeastSquares(np.array([[1.0, 0.0, 2.0], [0.0, 1.0, 1.0]]), 2, 2)
    region = Region(2, 2.0, None, np.array([[-1.0, 1.0]]), 0.0)
    assert Exact.of(objective, region).least_loss(2) == 1
    assert Exact.of(objective, region).least_loss(None) == 0.5


def test_the_gap_of_a_pursuit_that_ends_at_once_is_true():
    # Every point of x + y = 1 between the axes has the least radius; they differ in their loss.
    objective = LeastSquares.from_rows(np.eye(2), np.array([[0.5], [0.5]]))
    rows = Region(2, 1.0, None, np.array([[1.0, 1.0]]), 1.0, 1.0)
    pursuit = basis_pursuit(objective, rows, 10.0)
    best = conditional_gradient(objective, oracle_for(rows.with_radius(pursuit.radius)))
    assert pursuit.radius == pytest.approx(1.0, rel=1e-8)
    assert pursuit.result.objective - pursuit.result.gap <= best.objective


@pytest.mark.parametrize("seed", range(12))
def test_a_bound_that_nothing_reaches_is_refused_with_the_least_loss(seed):
    """Of these draws the rows exclude the fit, and their entries differ in size by 1e12."""
    rng = np.random.default_rng(seed)
    units = 10.0 ** rng.uniform(-6, 6, 8)
    design = rng.normal(size=(26, 8))
    objective = LeastSquares.from_rows(design * units, design @ rng.normal(size=(8, 3)))
    weights = np.repeat(units, 3)
    matrix = np.where(rng.random((4, 24)) < 0.6, rng.normal(size=(4, 24)), 0.0) * weights
    lower = 3.0 * rng.normal(size=4)
    rows = Region(24, 1e3, weights, matrix, lower, np.append(np.inf, lower[1:]))
    least = conditional_gradient(objective, oracle_for(rows), tol=1e-9).objective
    with pytest.raises(InfeasibleError, match="whatever the radius") as caught:
        basis_pursuit(objective, rows, 0.4 * least)
    assert float(str(caught.value).split()[-1].rstrip(".")) == pytest.approx(least, rel=1e-5)


def off_its_rows(rng, slip):
    """Rows that a point obeys, the point, and the same moved off them by a part of every coefficient."""
    point = rng.normal(size=6) * 10.0 ** rng.integers(-5, 6, 6)
    point[rng.integers(6)] = 0.0
    matrix = rng.normal(size=(3, 6)) / np.where(point == 0.0, 1.0, np.abs(point))
    values = matrix @ point
    rows = Region(6, 2.0 * np.abs(point).sum(), None, matrix, [values[0], values[1], -np.inf], [*values])
    return rows, (point * (1.0 + slip * rng.normal(size=6))).reshape(6, 1)


@pytest.mark.parametrize("seed", range(20))
def test_a_point_that_rounding_moved_off_its_rows_is_brought_back(seed):
    rows, moved = off_its_rows(np.random.default_rng(seed), 1e-6)
    assert rows.outside(moved) > 1e-8
    back = obeying(rows, moved)
    assert rows.outside(back) < 1e-14
    assert np.array_equal(back == 0.0, moved == 0.0)
    assert np.all(np.abs(back - moved) <= 1e-4 * np.abs(moved))


def test_a_point_that_obeys_its_rows_is_left_as_it_is():
    rows, point = off_its_rows(np.random.default_rng(0), 0.0)
    assert obeying(rows, point) is point


def test_a_run_that_rounding_moves_off_a_row_ends_on_it_with_a_true_gap(monkeypatch):
    """Atoms 1e10 times as long as the point they make up leave a row by the rounding of their weights."""
    objective = LeastSquares.from_rows(np.eye(2), np.array([[3.0], [1.0]]))
    region = Region(2, 10.0, None, np.array([[1.0, 1.0]]), 2.0, 2.0)
    refresh = Iterate.refresh

    def moved(self):
        self.flat[:] *= 1.0 + 1e-7
        refresh(self)

    monkeypatch.setattr(Walk, "refresh", moved)
    result = conditional_gradient(objective, oracle_for(region), Plain(), tol=1e-6, max_iter=200, quiet=True)
    assert region.outside(result.x) < 1e-14
    assert result.objective == pytest.approx(objective.value(result.x), rel=1e-12)
    assert result.objective - result.gap <= 2.0  # (2, 0) is the best point
    assert result.history[-1].gap == result.gap
