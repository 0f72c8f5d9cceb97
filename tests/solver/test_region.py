"""Regions: what they accept, what they refuse, and how they fall apart."""

import numpy as np
import pytest
import scipy.sparse
from hypothesis import given, strategies as st
from scipy.optimize import linprog

from cindy.errors import DataError, InfeasibleError, SolverError
from cindy.least_squares import LeastSquares
from cindy.solver import Region, conditional_gradient, contradictory, oracle_for
from cindy.solver.corners import Rays
from cindy.solver.linear_program import LinearProgram
from cindy.solver.region import Ball

EYE = np.eye(4)


@pytest.mark.parametrize(
    ("arguments", "sentence"),
    [
        ({"radius": -1.0}, "`radius` must be a positive number"),
        ({"radius": np.nan}, "`radius` must be a positive number"),
        ({"weights": np.ones(3)}, "`weights` must have 4 entries"),
        ({"weights": [1, 1, 0, 1]}, r"weights\[2\] = 0"),
        ({"weights": [1, 1, np.nan, 1]}, "must be finite"),
        ({"matrix": np.eye(3)}, "`matrix` must have 4 columns"),
        ({"matrix": np.full((1, 4), np.inf)}, "must be finite"),
        ({"matrix": EYE, "lower": [0, 0]}, "`lower` must have one entry for each of the 4 rows"),
        ({"matrix": EYE, "upper": np.nan}, r"upper\[0\] is nan"),
    ],
)
def test_wrong_numbers_and_shapes_raise(arguments, sentence):
    with pytest.raises(DataError, match=sentence):
        Region(4, **{"radius": 1.0, **arguments})


@pytest.mark.parametrize("gradient", [np.full(4, np.nan), np.zeros(3), np.zeros((2, 2))])
@pytest.mark.parametrize("rows", [None, EYE])
def test_an_oracle_refuses_gradients_it_cannot_use(gradient, rows):
    oracle = oracle_for(Region(4, 1.0, None, rows, -1, 1))
    with pytest.raises(DataError, match="gradient"):
        oracle(gradient)


@pytest.mark.parametrize(
    ("rows", "lower", "upper"),
    [
        (EYE[:2], [3, 4], [3, 4]),
        (EYE[:2], [3, 4], [5, 5]),
        (EYE[:2], [3, -8], [np.inf, -4]),
        ([[1, 1, 0, 0], [1, -1, 0, 0]], [7, -1], [7, -1]),
        ([[1, 1, 1, 1], [1, 1, 1, 1]], [7, -np.inf], [np.inf, 9]),
    ],
)
def test_a_radius_too_small_raises_with_the_smallest_that_is_not(rows, lower, upper):
    with pytest.raises(InfeasibleError, match=r"within radius 1[. ](.|\n)*smallest feasible radius is 7\."):
        oracle_for(Region(4, 1.0, None, rows, lower, upper))
    enough = Region(4, 7.0 * (1 + 1e-9), None, rows, lower, upper)
    assert enough.violation(oracle_for(enough)(np.arange(4.0)).point()) <= 1e-9


@pytest.mark.parametrize(
    ("rows", "lower", "upper"),
    [
        (EYE[[0, 0]], [3, 4], [3, 4]),
        (EYE[[0, 0]], [3, -np.inf], [np.inf, 2]),
        (EYE[[0, 0]], [3, -np.inf], [3, 0]),
        ([[1, 1, 0, 0], [2, 2, 0, 0]], [1, 3], [1, 3]),
        (np.zeros((1, 4)), [1], [2]),
    ],
)
def test_rows_that_contradict_each_other_raise_whatever_the_radius(rows, lower, upper):
    with pytest.raises(InfeasibleError, match=r"contradict|must not be zero"):
        oracle_for(Region(4, 100.0, None, rows, lower, upper))


def test_bounds_in_the_wrong_order_raise():
    with pytest.raises(InfeasibleError, match="row 1 asks for a value from 2 to 1"):
        Region(4, 1.0, None, EYE[:2], [0, 2], [1, 1])


def test_a_linear_program_that_fails_raises():
    program = LinearProgram(Region(4, 1.0, None, EYE, -0.3, 0.3))
    program._program.highs.setOptionValue("simplex_iteration_limit", 0)
    with pytest.raises(SolverError, match="ended without an optimum"):
        program(np.array([1.0, -2.0, 3.0, -4.0]))


@pytest.mark.parametrize(
    ("rows", "lower", "upper", "kind"),
    [
        (None, -np.inf, np.inf, Ball),
        ([[1, -1, 0, 0]], 0, 0, Rays),
        ([[1, 1, 1, 0], [0, 0, 1, 1]], 0, 0, Rays),
        (EYE, 0, np.inf, Rays),
        (EYE[:1], 0.5, 0.5, Rays),
        (EYE, -1, 1, LinearProgram),
        ([[1, 1, 0, 0]], 0.5, 0.5, LinearProgram),
    ],
)
def test_a_linear_program_is_used_only_where_nothing_simpler_will_do(rows, lower, upper, kind):
    assert type(oracle_for(Region(4, 1.0, None, rows, lower, upper))) is kind


def test_a_row_that_couples_very_many_coefficients_is_left_to_the_linear_program():
    assert type(oracle_for(Region(300, 1.0, None, np.ones((1, 300)), 0, 0))) is LinearProgram


def test_a_row_without_bounds_joins_no_blocks():
    laws = np.zeros((5, 60))
    laws[0, :30] = laws[1, 30:] = 1.0
    laws[2, [0, 30]] = laws[3, [1, 31]] = laws[4, [2, 32]] = 1.0
    apart = np.array([0.0, 0.0, -np.inf, -np.inf, -np.inf])
    assert type(oracle_for(Region(60, 1.0, None, laws, apart, -apart))) is Rays
    assert type(oracle_for(Region(60, 1.0, None, laws, 0.0, 0.0))) is LinearProgram


@st.composite
def homogeneous(draw):
    """A region of small homogeneous blocks, some rows repeated, in all proportions."""
    rng = np.random.default_rng(draw(st.integers(0, 2**32 - 1)))
    size, count = 12, draw(st.integers(1, 8))
    rows = np.zeros((count, size))
    for row in rows:
        width = rng.integers(1, 4)
        row[rng.choice(size, width, replace=False)] = rng.choice([-2, -1, 1, 3], width)
    rows = np.vstack([rows, rows[: draw(st.integers(0, count))]])
    upper = np.where(rng.random(len(rows)) < 0.5, 0.0, np.inf)
    return Region(size, 2.0, rng.uniform(0.1, 5, size), rows, 0, upper)


@given(homogeneous(), st.integers(0, 2**32 - 1))
def test_presolve_and_the_linear_program_agree_on_any_homogeneous_region(region, seed):
    gradient = np.random.default_rng(seed).normal(size=region.size)
    closed, program = oracle_for(region), LinearProgram(region)
    assert isinstance(closed, Rays)
    point = closed(gradient).point()
    assert region.violation(point) <= 1e-12
    assert gradient @ point == pytest.approx(gradient @ program(gradient).point(), abs=1e-9)


@given(homogeneous(), st.integers(0, 2**32 - 1))
def test_a_point_is_given_back_by_the_atoms_it_decomposes_into(region, seed):
    oracle = oracle_for(region)
    rng = np.random.default_rng(seed)
    points = [oracle(rng.normal(size=region.size)).point() for _ in range(4)]
    x = rng.dirichlet(np.ones(4)) @ points
    again = oracle.origin.copy()
    parts = oracle.decompose(x, 3)
    for atom, weight in parts:
        again[atom.indices] += weight * atom.values
        assert region.violation(atom.point()) <= 1e-10
    np.testing.assert_allclose(again, x, atol=1e-12)
    assert sum(weight for _, weight in parts) <= 1 + 1e-12


def test_a_fully_fixed_region_has_one_point():
    values = np.array([1.0, -2.0, 0.0, 3.0])
    region = Region(4, 6.0, None, EYE, values, values)
    objective = LeastSquares.from_rows(EYE, np.ones((4, 1)))
    result = conditional_gradient(objective, oracle_for(region))
    assert result.converged
    np.testing.assert_array_equal(result.x.ravel(), values)


def test_sparse_and_dense_rows_are_the_same_region():
    rows = np.array([[1.0, -2.0, 0.0, 0.0], [0.0, 1.0, 0.0, 1.0]])
    gradient = np.array([1.0, -1.0, 0.5, 2.0])
    dense = oracle_for(Region(4, 1.0, None, rows, -0.1, 0.2))
    sparse = oracle_for(Region(4, 1.0, None, scipy.sparse.coo_array(rows), -0.1, 0.2))
    np.testing.assert_allclose(dense(gradient).point(), sparse(gradient).point())


@pytest.mark.parametrize("seed", range(30))
def test_rows_that_contradict_each_other_are_named_and_none_of_them_is_idle(seed):
    rng = np.random.default_rng(seed)
    size, count = 5, 12
    matrix = np.where(rng.random((count, size)) < 0.5, rng.integers(-2, 3, (count, size)), 0).astype(float)
    matrix *= 10.0 ** rng.uniform(-3, 3, (count, 1))
    middle = matrix @ rng.normal(size=size)
    lower = middle - rng.exponential(size=count) * np.abs(matrix).sum(axis=1)
    upper = np.where(rng.random(count) < 0.5, np.inf, middle + np.abs(matrix).sum(axis=1))
    # Two rows more that no point satisfies together with one of those above.
    sums = matrix[2] + matrix[5]
    matrix = np.vstack([matrix, sums])
    lower = np.append(lower, -np.inf)
    upper = np.append(upper, lower[2] + lower[5] - 1.0 - abs(lower[2]) - abs(lower[5]))
    named = contradictory(Region(size, 1.0, None, matrix, lower, upper))
    assert named
    everything = (matrix, lower, upper)
    assert not satisfiable(*(part[named] for part in everything))
    for row in named:
        rest = [i for i in named if i != row]
        assert satisfiable(*(part[rest] for part in everything))
    with pytest.raises(InfeasibleError, match="linear rows " + ", ".join(map(str, named))):
        oracle_for(Region(size, 1.0, None, matrix, lower, upper))


def satisfiable(matrix, lower, upper):
    """By scipy, whatever the radius."""
    both = np.vstack([matrix, -matrix])
    sides = np.concatenate([upper, -lower])
    finite = np.isfinite(sides)
    if not finite.any():
        return True
    found = linprog(np.zeros(matrix.shape[1]), A_ub=both[finite], b_ub=sides[finite], bounds=(None, None))
    return found.status == 0
