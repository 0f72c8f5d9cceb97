"""Least squares under equalities, and errors that know of blocks."""

import numpy as np
import pytest
from hypothesis import given, strategies as st
from tests.regressions import KINDS, by_null_space, made, regressions, rows_of

from cindy.errors import InfeasibleError
from cindy.least_squares import Freedom, LeastSquares, Rows
from cindy.regression import Regression, classical, design_effect, jackknife, refit, sandwich

every_kind = pytest.mark.parametrize("kind", KINDS)


def everything(regression):
    return np.arange(np.prod(regression.shape))


def fitted(regression, support):
    """x (flat), the loss, and the number of parameters, group by group."""
    x, loss, free = np.zeros(np.prod(regression.shape)), 0.0, 0
    for group in regression.groups:
        fit = regression.fit(support[np.isin(support % regression.shape[1], group)], group)
        x[fit.support] = fit.x
        loss, free = loss + fit.loss, free + fit.free
    return x, loss, free


@given(regressions())
def test_a_fit_is_what_least_squares_over_the_null_space_gives(regression):
    x, loss, _ = fitted(regression, everything(regression))
    expected, least = by_null_space(regression, everything(regression))
    np.testing.assert_allclose(x, expected, atol=1e-7)
    assert loss == pytest.approx(least, rel=1e-7)


@given(regressions(kinds=("none", "ties", "sums")), st.integers(0, 2**20))
def test_a_fit_on_any_support_is_what_least_squares_over_the_null_space_gives(regression, bits):
    support = np.array([i for i in everything(regression) if bits >> i & 1], dtype=np.intp)
    x, loss, _ = fitted(regression, support)
    expected, least = by_null_space(regression, support)
    np.testing.assert_allclose(x, expected, atol=1e-7)
    assert loss == pytest.approx(least, rel=1e-7)


@given(regressions())
def test_a_fit_obeys_the_equalities(regression):
    x, *_ = fitted(regression, everything(regression))
    assert regression.rows.violation(x) < 1e-11


@given(regressions())
def test_each_independent_equality_takes_one_parameter_away(regression):
    *_, free = fitted(regression, everything(regression))
    matrix = regression.rows.matrix.toarray()
    rank = np.linalg.matrix_rank(matrix) if len(matrix) else 0
    assert free == np.prod(regression.shape) - rank


@every_kind
def test_targets_that_no_equality_connects_are_fitted_apart(kind):
    regression = made(kind)
    together = {tuple(g) for g in regression.groups}
    assert sorted(j for g in together for j in g) == [0, 1, 2]
    for row in regression.rows.matrix.toarray():
        touched = set(np.flatnonzero(row) % 3)
        assert any(touched <= set(g) for g in together)
    if kind in ("none", "within one target"):
        assert len(together) == 3


def test_an_equality_without_its_coefficients_is_told():
    regression = Regression(made().blocks, rows_of(np.eye(18)[:1], [1.0]))
    with pytest.raises(InfeasibleError, match="none of its coefficients"):
        regression.fit(np.array([3]), np.array([0]))


def test_equalities_that_contradict_each_other_are_told():
    with pytest.raises(InfeasibleError, match="contradict"):
        rows_of([[1.0, 1.0], [2.0, 2.0]], [1.0, 3.0]).equalities.freedom(np.arange(2))


@given(st.integers(0, 1000), st.integers(1, 6), st.integers(1, 9))
def test_freedom_spans_what_satisfies_the_equalities(seed, count, size):
    rng = np.random.default_rng(seed)
    matrix = rng.standard_normal((count, size)) * (rng.random((count, size)) < 0.4)
    goal = matrix @ rng.standard_normal(size)
    free = rows_of(matrix, goal).equalities.freedom(np.arange(size)) or Freedom.whole(size)
    basis = free.basis.toarray()
    assert basis.shape == (size, size - np.linalg.matrix_rank(matrix))
    theta = rng.standard_normal(basis.shape[1])
    np.testing.assert_allclose(matrix @ (basis @ theta + free.offset), goal, atol=1e-9)
    assert np.linalg.matrix_rank(basis) == basis.shape[1]


def test_noise_is_what_no_combination_of_the_terms_explains():
    regression = made(rows=2000, noise=0.3)
    np.testing.assert_allclose(regression.noise, 0.3, rtol=0.05)


def test_a_floor_adds_to_the_noise_and_to_the_loss_alike():
    plain = made(noise=0.1)
    raised = Regression(plain.blocks, plain.rows, np.full(3, 0.5))
    np.testing.assert_allclose(raised.noise, np.hypot(plain.noise, 0.5))
    group = np.array([0])
    support = plain.coefficients(group)
    before, after = plain.fit(support, group), raised.fit(support, group)
    np.testing.assert_allclose(after.x, before.x)
    rows = plain.total.rows
    assert after.loss == pytest.approx(
        (before.loss * plain.noise[0] ** 2 + rows * 0.25) / raised.noise[0] ** 2
    )


def test_classical_variances_are_those_of_textbooks():
    regression = made()
    group = np.array([1])
    fit = regression.fit(regression.coefficients(group), group)
    design = np.vstack([b.design for b in regression.blocks])
    target = np.concatenate([b.target[:, 1] for b in regression.blocks])
    x = np.linalg.lstsq(design, target)[0]
    squares = np.sum((target - design @ x) ** 2)
    expected = np.diag(np.linalg.inv(design.T @ design)) * squares / (regression.total.rows - len(x))
    np.testing.assert_allclose(classical(regression, fit), expected, rtol=1e-9)


def block_scores(regression, x, j):
    return np.array([b.design.T @ (b.target[:, j] - b.design @ x) for b in regression.blocks])


def test_the_sandwich_is_that_of_textbooks():
    regression = made()
    group = np.array([1])
    fit = regression.fit(regression.coefficients(group), group)
    table = np.zeros(regression.shape)
    table[:, 1] = fit.x
    scores = block_scores(regression, fit.x, 1)
    inverse = np.linalg.inv(regression.total.design.T @ regression.total.design)
    expected = np.diag(inverse @ (scores.T @ scores) @ inverse) * 6 / 5
    np.testing.assert_allclose(sandwich(regression, fit, table.ravel()), expected, rtol=1e-9)


@pytest.mark.parametrize("kind", ["none", "ties", "goals"])
def test_the_jackknife_is_the_scatter_of_fits_without_a_block(kind):
    regression = made(kind, blocks=12)
    x, *_ = fitted(regression, everything(regression))
    found = np.zeros(x.size)
    for group in regression.groups:
        fit = regression.fit(regression.coefficients(group), group)
        found[fit.support] = jackknife(regression, fit, x)
    moved = []
    for k in range(12):
        rest = Regression(tuple(b for i, b in enumerate(regression.blocks) if i != k), regression.rows)
        # The units of the noise must stay: they weigh targets that are tied.
        object.__setattr__(rest, "noise", regression.noise)
        moved.append(fitted(rest, everything(rest))[0] - x)
    np.testing.assert_allclose(found, np.sum(np.square(moved), axis=0) * 11 / 12, rtol=0.02)


def clustered_sample(rng, truth, blocks=25, rows=20, shared=1.0):
    """Rows whose noise has a part that all rows of a block share, along the first column."""
    parts = []
    for _ in range(blocks):
        design = rng.standard_normal((rows, 2)) + 1.0
        noise = rng.standard_normal((rows, 1)) + shared * rng.standard_normal()
        parts.append(LeastSquares.from_rows(design, design @ truth + noise))
    return Regression(tuple(parts), Rows.none(2))


@pytest.mark.parametrize("shared", [0.0, 1.0])
def test_errors_agree_with_simulation_whether_rows_are_independent_or_not(shared):
    rng = np.random.default_rng(0)
    truth = np.array([[1.0], [-2.0]])
    fits = [refit(clustered_sample(rng, truth, shared=shared), np.arange(2)) for _ in range(300)]
    scatter = np.std([f.x.ravel() for f in fits], axis=0)
    claimed = np.sqrt(np.mean([f.error.ravel() ** 2 for f in fits], axis=0))
    np.testing.assert_allclose(claimed, scatter, rtol=0.15)


def test_rows_that_share_noise_inflate_the_design_effect_and_independent_ones_do_not():
    rng = np.random.default_rng(1)
    effects = []
    for shared in (0.0, 1.0):
        regression = clustered_sample(rng, np.ones((2, 1)), blocks=50, shared=shared)
        fit = regression.fit(np.arange(2), np.array([0]))
        effects.append(design_effect(classical(regression, fit), sandwich(regression, fit, fit.x)))
    assert effects[0] < 1.5
    assert effects[1] > 3.0


def test_one_block_says_nothing_about_scatter():
    regression = made(blocks=1, rows=200)
    fit = refit(regression, everything(regression))
    group = np.array([0])
    alone = regression.fit(regression.coefficients(group), group)
    np.testing.assert_allclose(fit.error[:, 0] ** 2, classical(regression, alone))


def test_dependent_terms_are_counted_once():
    regression = made(terms=4)
    doubled = tuple(
        LeastSquares.from_rows(np.hstack([b.design, b.design[:, :1]]), b.target) for b in regression.blocks
    )
    assert Regression(doubled, Rows.none(15)).independent == 4


def test_with_more_parameters_than_blocks_all_errors_grow_alike():
    regression = made(terms=10, targets=1, blocks=6, rows=60)
    fit = regression.fit(np.arange(10), np.array([0]))
    ratio = jackknife(regression, fit, fit.x) / classical(regression, fit)
    np.testing.assert_allclose(ratio, ratio[0])
    assert ratio[0] >= 1
