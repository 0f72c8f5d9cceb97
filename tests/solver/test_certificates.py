"""No certificate is false: small problems whose optima are known in rational numbers."""

from fractions import Fraction

import numpy as np
import pytest
from benchmarks.certificates import Exact, faults, problem

from cindy.errors import InfeasibleError
from cindy.least_squares import LeastSquares
from cindy.solver import Region, Status, basis_pursuit, conditional_gradient, oracle_for


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


@pytest.mark.parametrize("seed", [10_110, 10_192, 10_289, 10_367])
def test_atoms_obey_rows_whose_entries_differ_by_many_orders(seed):
    """HiGHS drops entries below 1e-9 unless it is told not to, and then solves another program."""
    _, region, _ = problem(seed)
    oracle, rng = oracle_for(region), np.random.default_rng(seed)
    for _ in range(20):
        gradient = rng.normal(size=region.size) * 10.0 ** rng.uniform(-9, 9, region.size)
        for atom in (oracle(gradient), oracle.proved(gradient)[0]):
            assert region.outside(atom.point()) <= 1e-11


@pytest.mark.parametrize("seed", [10_110, 10_275, 10_854])
def test_no_certificate_is_false_where_units_differ_by_twelve_orders(seed):
    assert faults(seed)[0] == []


def test_a_region_that_is_empty_by_a_part_in_ten_billion_is_called_empty():
    objective, region, _ = problem(10_881)
    assert Exact.of(objective, region).least_loss(Fraction(region.radius)) is None
    with pytest.raises(InfeasibleError, match=r"smallest feasible radius is 524288\.0000\d"):
        conditional_gradient(objective, oracle_for(region))


def test_an_objective_that_rises_and_falls_by_turns_makes_no_progress():
    """A run on such digits went on to its last iteration; see `_Patience`."""
    objective, region, _ = problem(10_807)
    ends: list[Status] = []
    for radius in (8189.35695993, 8190.26557331):
        oracle = oracle_for(region.with_radius(radius))
        ends.append(conditional_gradient(objective, oracle, tol=1e-15, quiet=True).status)
    assert Status.ITERATIONS not in ends
