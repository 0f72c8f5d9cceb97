"""Refitting a support under all constraints, against an interior-point method."""

import clarabel
import numpy as np
import pytest
import scipy.sparse as sp
from hypothesis import assume, given, strategies as st
from tests.regressions import combined, made, rows_of

from cindy.errors import InfeasibleError
from cindy.regression import Regression, binding, refit


def by_clarabel(regression: Regression, support) -> np.ndarray:
    """min Σ ‖(A x − B) / noise‖² under all rows, x zero off the support."""
    terms, targets = regression.shape
    design = np.kron(regression.total.design, np.diag(1 / regression.noise))[:, support]
    target = (regression.total.target / regression.noise).ravel()
    matrix, lower, upper = (
        regression.rows.matrix.toarray()[:, support],
        regression.rows.lower,
        regression.rows.upper,
    )
    equal = lower == upper
    high, low = ~equal & np.isfinite(upper), ~equal & np.isfinite(lower)
    whole = np.vstack([matrix[equal], matrix[high], -matrix[low]])
    sides = np.concatenate([lower[equal], upper[high], -lower[low]])
    settings = clarabel.DefaultSettings()
    settings.verbose = False
    settings.tol_gap_abs = settings.tol_gap_rel = settings.tol_feas = 1e-10
    cones = [clarabel.ZeroConeT(int(equal.sum())), clarabel.NonnegativeConeT(int(high.sum() + low.sum()))]
    solution = clarabel.DefaultSolver(
        sp.csc_matrix(2 * design.T @ design),
        -2 * design.T @ target,
        sp.csc_matrix(whole),
        sides,
        cones,
        settings,
    ).solve()
    # It gives up short of the optimum now and then; such an answer proves nothing.
    assume(solution.status == clarabel.SolverStatus.Solved)
    x = np.zeros(terms * targets)
    x[support] = solution.x
    return x


def cut(kind: str, seed: int, count: int) -> Regression:
    """A regression whose unconstrained optimum some of its inequalities forbid."""
    plain = made(kind, seed)
    rng = np.random.default_rng(seed + 1)
    size = int(np.prod(plain.shape))
    best = refit(plain, np.arange(size)).x.ravel()
    matrix = rng.standard_normal((count, size)) * (rng.random((count, size)) < 0.3)
    matrix[:, 0] += 1.0
    middle = matrix @ best + rng.standard_normal(count)
    width = rng.uniform(0.1, 2.0, count)
    lower, upper = middle - width, middle + width
    lower[::3], upper[1::3] = -np.inf, np.inf
    return Regression(plain.blocks, combined(plain.rows, rows_of(matrix, lower, upper)))


@given(st.sampled_from(["none", "ties", "sums", "goals"]), st.integers(0, 500), st.integers(1, 5))
def test_a_refit_under_inequalities_is_the_optimum_of_the_quadratic_program(kind, seed, count):
    regression = cut(kind, seed, count)
    every = np.arange(np.prod(regression.shape))
    found = refit(regression, every)
    expected = by_clarabel(regression, every)
    assert regression.rows.violation(found.x) < 1e-9
    residual = regression.total.residual(expected.reshape(regression.shape)) / regression.noise
    assert found.loss == pytest.approx(float(np.sum(residual**2)), rel=1e-5)
    assert found.loss <= float(np.sum(residual**2)) * (1 + 1e-9)


@given(
    st.sampled_from(["none", "ties", "sums", "goals", "redundant"]), st.integers(0, 500), st.integers(1, 5)
)
def test_constraints_hold_to_1e9_in_their_own_units(kind, seed, count):
    regression = cut(kind, seed, count)
    found = refit(regression, np.arange(np.prod(regression.shape)))
    assert regression.rows.violation(found.x) < 1e-9


def test_inequalities_that_do_not_bind_change_nothing():
    plain = made("ties")
    every = np.arange(18)
    free = refit(plain, every)
    loose = Regression(plain.blocks, combined(plain.rows, rows_of(np.eye(18), [-100.0] * 18, [100.0] * 18)))
    found = refit(loose, every)
    np.testing.assert_array_equal(found.x, free.x)
    np.testing.assert_array_equal(found.error, free.error)


def test_a_coefficient_on_its_bound_has_that_value_and_no_error():
    plain = made()
    at = int(np.argmax(np.abs(refit(plain, np.arange(18)).x)))
    bounded = Regression(plain.blocks, rows_of(np.eye(18)[at : at + 1], [-0.5], [0.5]))
    found = refit(bounded, np.arange(18))
    assert abs(found.x.ravel()[at]) == pytest.approx(0.5, abs=1e-12)
    assert found.error.ravel()[at] == pytest.approx(0.0, abs=1e-12)
    assert (np.delete(found.error.ravel(), at) > 0).all()


def test_a_bound_that_binds_becomes_an_equality_and_costs_a_parameter():
    plain = made()
    best = refit(plain, np.arange(18))
    at = int(np.argmax(np.abs(best.x)))
    bounded = Regression(plain.blocks, rows_of(np.eye(18)[at : at + 1], [-0.5], [0.5]))
    assert binding(bounded, np.arange(18)).rows.equality.tolist() == [True]
    assert refit(bounded, np.arange(18)).free == best.free - 1


def test_what_cannot_be_met_with_the_terms_that_are_left_is_told():
    plain = made()
    needed = Regression(plain.blocks, rows_of(np.eye(18)[:1], [1.0], [np.inf]))
    with pytest.raises(InfeasibleError, match="terms that are left"):
        refit(needed, np.arange(3, 18))
    opposed = np.vstack([np.eye(18)[0] + np.eye(18)[4], -np.eye(18)[0] - np.eye(18)[4]])
    with pytest.raises(InfeasibleError, match="terms that are left"):
        refit(Regression(plain.blocks, rows_of(opposed, [1.0, 1.0], [np.inf, np.inf])), np.arange(18))


def test_terms_off_the_support_are_zero_and_what_is_left_is_counted_by_its_freedom():
    regression = made(rows=50)
    support = np.array([0, 4, 8, 10])
    found = refit(regression, support)
    assert set(np.flatnonzero(found.x.ravel())) == set(support)
    assert found.free == 4
    squares = np.sum(regression.total.residual(found.x) ** 2, axis=0)
    np.testing.assert_allclose(found.left**2, squares / (300 - np.bincount(support % 3)))
