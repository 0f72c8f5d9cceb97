"""LeastSquares: the same objective as its rows, however they are cut up."""

import numpy as np
import pytest
from hypothesis import given, strategies as st
from scipy.sparse import csr_array

from cindy import least_squares
from cindy.errors import DataError
from cindy.least_squares import LeastSquares


def rows(count, terms=4, targets=2, seed=0):
    rng = np.random.default_rng(seed)
    return rng.normal(size=(count, terms)), rng.normal(size=(count, targets))


points = st.integers(0, 2**32 - 1).map(lambda seed: np.random.default_rng(seed).normal(size=(4, 2)))


@given(x=points, count=st.integers(1, 40))
def test_value_and_gradient_are_those_of_the_rows(x, count):
    design, target = rows(count)
    objective = LeastSquares.from_rows(design, target)
    residual = design @ x - target
    assert objective.value(x) == pytest.approx(np.sum(residual**2), rel=1e-12)
    np.testing.assert_allclose(objective.gradient(x), 2 * design.T @ residual, rtol=1e-10, atol=1e-10)


@given(x=points, cuts=st.sets(st.integers(1, 39)))
def test_the_sum_of_chunks_has_the_same_objective_as_the_whole(x, cuts):
    design, target = rows(40)
    total = LeastSquares.empty(4, 2)
    for a, b in zip(np.split(design, sorted(cuts)), np.split(target, sorted(cuts)), strict=True):
        total = total + LeastSquares.from_rows(a, b)
    assert total.rows == 40
    assert total.value(x) == pytest.approx(LeastSquares.from_rows(design, target).value(x), rel=1e-12)


@given(x=points)
def test_addition_is_associative_and_commutative(x):
    a, b, c = (LeastSquares.from_rows(*rows(10, seed=s)) for s in range(3))
    for other in ((a + b) + c, (c + a) + b):
        assert other.value(x) == pytest.approx((a + (b + c)).value(x), rel=1e-12)


@given(x=points)
def test_scaling_columns_rescales_the_coefficients(x):
    columns, targets = np.array([1e-3, 1.0, 10.0, 1e4]), np.array([0.1, 7.0])
    objective = LeastSquares.from_rows(*rows(20))
    scaled = objective.scaled(columns, targets)
    expected = np.sum((objective.residual(x * targets / columns[:, None]) / targets) ** 2)
    assert scaled.value(x) == pytest.approx(expected, rel=1e-10)


def test_the_loss_on_clean_data_is_zero_to_the_last_digit():
    design, _ = rows(500, terms=30)
    design = design @ np.diag(np.logspace(0, 6, 30))
    truth = np.ones((30, 1))
    objective = LeastSquares.from_rows(design, design @ truth)
    assert objective.value(truth) <= 1e-28 * objective.value(np.zeros((30, 1)))


def test_memory_does_not_grow_with_the_number_of_rows():
    assert LeastSquares.from_rows(*rows(10_000)).factor.shape == (6, 6)
    assert LeastSquares.from_rows(*rows(3)).factor.shape == (3, 6)


def test_shapes_that_do_not_fit_raise():
    design, target = rows(5)
    with pytest.raises(DataError, match="as many rows"):
        LeastSquares.from_rows(design, target[:4])
    with pytest.raises(DataError, match="cannot add"):
        LeastSquares.from_rows(design, target) + LeastSquares.from_rows(design[:, :2], target)


@pytest.mark.parametrize("heights", [(5, 5, 5), (5, 3), (4, 5), (5, 0, 2)])
def test_wide_triangles_on_top_of_each_other_stand_for_the_rows_of_all(heights, monkeypatch):
    monkeypatch.setattr(least_squares, "_WIDE", 5)
    rng = np.random.default_rng(0)
    factors = [np.triu(rng.normal(size=(height, 5))) for height in heights]
    whole = np.vstack(factors)
    r = least_squares.stacked(factors)
    np.testing.assert_allclose(r.T @ r, whole.T @ whole, atol=1e-13)
    assert not np.tril(r, -1).any()


def test_columns_that_no_row_names_are_no_pieces():
    empty, loose = least_squares.pieces(csr_array((0, 3)))
    assert not empty
    np.testing.assert_array_equal(loose, [0, 1, 2])
    together, loose = least_squares.pieces(
        csr_array([[0.0, 1, 0, 2, 0], [0, 0, 3, 0, 0], [0, 0, 0, 4, 0], [0, 0, 0, 0, 0]])
    )
    for found, expected in zip(together, [([0, 2], [1, 3]), ([1], [2]), ([3], [])], strict=True):
        np.testing.assert_array_equal(found[0], expected[0])
        np.testing.assert_array_equal(found[1], expected[1])
    np.testing.assert_array_equal(loose, [0, 4])
