"""The price that spends a level over many tests, against simulated tests."""

import numpy as np
import pytest
from scipy.stats import multivariate_normal, norm

from cindy.least_squares import Rows
from cindy.selection import Significance
from cindy.selection.prices import _both, correlated_tests, least_price
from cindy.selection.supports import Supports

MANY = 10**7
"""Degrees of freedom at which Student's distribution is the normal one."""


def correlation_of(tests: int, *, seed: int, shared: float) -> np.ndarray:
    rng = np.random.default_rng(seed)
    columns = rng.standard_normal((4 * tests, tests)) + shared * rng.standard_normal((4 * tests, 1))
    columns /= np.linalg.norm(columns, axis=0)
    return np.asarray(columns.T @ columns)


@pytest.mark.parametrize("correlation", [0.0, 0.3, -0.7, 0.99])
@pytest.mark.parametrize("a", [0.5, 2.0, 3.0])
def test_two_tests_fail_together_as_often_as_the_normal_distribution_says(a, correlation):
    b = 2.4
    both = multivariate_normal([0, 0], [[1, correlation], [correlation, 1]])
    corners = (both.cdf([sign * -a, other * b]) for sign, other in ((1, -1), (1, 1), (-1, -1), (-1, 1)))
    low_low, low_high, high_low, high_high = corners
    # P(z1 < -a, z2 < -b) + P(z1 < -a, z2 > b) + P(z1 > a, z2 < -b) + P(z1 > a, z2 > b)
    expected = (
        low_low
        + (norm.cdf(-a) - low_high)
        + (norm.cdf(-b) - high_low)
        + (1 - norm.cdf(a) - norm.cdf(b) + high_high)
    )
    got = _both(np.array([a]), np.array([b]), np.array([correlation]))
    np.testing.assert_allclose(got, expected, rtol=1e-3, atol=1e-7)


@pytest.mark.parametrize("shared", [0.0, 1.0, 5.0])
@pytest.mark.parametrize("surcharge", [0.0, 4.0])
def test_false_terms_come_in_no_more_often_than_the_level(shared, surcharge):
    tests, level, draws = 25, 0.05, 40_000
    correlation = correlation_of(tests, seed=3, shared=shared)
    more = surcharge * (np.arange(tests) % 2)
    price = least_price(level, MANY, more, correlation)
    root = np.linalg.cholesky(correlation)
    z = np.random.default_rng(5).standard_normal((draws, tests)) @ root.T
    share = np.mean((z**2 > price + more).any(axis=1))
    assert share < level + 4 * np.sqrt(level / draws)
    assert share > 0.25 * level
    assert price <= least_price(level, MANY, more)


def test_the_price_lies_between_that_of_one_test_and_that_of_all():
    surcharge, level = np.zeros(30), 0.05
    one = norm.isf(level / 2) ** 2
    equal = norm.isf(level / 60) ** 2
    assert least_price(level, MANY, surcharge) == pytest.approx(equal, rel=1e-5)
    assert least_price(level, MANY, surcharge, np.ones((30, 30))) == pytest.approx(one, rel=1e-3)
    prices = [
        least_price(level, MANY, surcharge, correlation_of(30, seed=1, shared=s)) for s in (5.0, 1.0, 0.0)
    ]
    assert one < prices[0] < prices[1] < prices[2] <= equal


def test_tests_beside_a_law_are_of_what_the_law_leaves_of_a_column():
    rng = np.random.default_rng(2)
    design = rng.standard_normal((50, 6))
    design[:, 4] = design[:, 0] - 2 * design[:, 1]
    supports = Supports(design, design[:, 0], 50, Rows.none(6), np.full(6, 9.0))
    columns, correlation = correlated_tests(supports, supports.fit([0, 1]))
    # The fifth column is a sum of those of the law: there is nothing to test.
    np.testing.assert_array_equal(columns, [2, 3, 5])
    left = design[:, columns]
    left = left - design[:, :2] @ np.linalg.lstsq(design[:, :2], left, rcond=None)[0]
    left /= np.linalg.norm(left, axis=0)
    np.testing.assert_allclose(correlation, left.T @ left, atol=1e-12)


def test_prices_fall_where_noise_hides_terms_and_stay_where_it_does_not():
    rule, factors = Significance(), np.repeat([0, 1, 1, 1, 2, 2, 2, 2, 2, 2], 3)
    tested = np.arange(5, 30)
    correlation = correlation_of(len(tested), seed=1, shared=2.0)
    assert 0.5 < rule.spared(3000, factors, 1e3, tested, correlation) < 4.0
    assert rule.spared(3000, factors, 1e7, tested, correlation) == 0.0
