"""Local search: better supports than elimination finds, never worse ones."""

from itertools import combinations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.regressions import made, regressions, rows_of

from cindy.least_squares import LeastSquares
from cindy.regression.regression import Regression
from cindy.rows import Rows
from cindy.selection.elimination import eliminate
from cindy.selection.search import Criterion, best_stage, criterion_of, forward, improve


def value(regression, criterion, support, targets):
    fit = regression.fit(support, targets)
    return criterion(fit.loss, fit.free)


def starts(regression):
    width = regression.shape[1]
    every = np.arange(np.prod(regression.shape))
    return [every[np.isin(every % width, g)] for g in regression.groups]


@given(regressions(kinds=("none", "ties", "sums")), st.integers(0, 2**20))
def test_search_never_makes_a_support_worse(regression, bits):
    for group, start in zip(regression.groups, starts(regression), strict=True):
        given_one = np.array([i for i in start if bits >> int(i) & 1], dtype=np.intp)
        criterion = criterion_of(regression, group)
        found = improve(regression, group, given_one, criterion)
        before = value(regression, criterion, given_one, group)
        assert value(regression, criterion, found, group) <= before + 1e-6 * abs(before)
        assert set(found) <= set(start)


@pytest.mark.parametrize("seed", range(8))
def test_search_finds_the_best_of_all_supports_from_any_start(seed):
    regression = made(seed=seed, terms=7, targets=1, noise=0.5, sparse=3)
    group = np.array([0])
    criterion = criterion_of(regression, group)
    every = [np.array(c, dtype=np.intp) for k in range(8) for c in combinations(range(7), k)]
    best = min(value(regression, criterion, s, group) for s in every)
    for start in (np.arange(7), np.zeros(0, dtype=np.intp), np.array([seed % 7])):
        found = improve(regression, group, start, criterion)
        assert value(regression, criterion, found, group) == pytest.approx(best, rel=1e-9)


def test_a_term_that_stands_for_many_comes_back_and_they_go():
    rng = np.random.default_rng(0)
    parts = rng.standard_normal((400, 6))
    whole = parts.sum(axis=1, keepdims=True) + 0.01 * rng.standard_normal((400, 1))
    target = whole + 0.01 * rng.standard_normal((400, 1))
    regression = Regression((LeastSquares.from_rows(np.hstack([parts, whole]), target),), Rows.none(7))
    group = np.array([0])
    found = improve(regression, group, np.arange(6), criterion_of(regression, group))
    assert found.tolist() == [6]


def test_what_equalities_connect_enters_together():
    plain = made(terms=5, targets=2, noise=0.01, seed=3)
    truth = np.linalg.lstsq(plain.total.design, plain.total.target)[0]
    i, k = (int(np.argmax(np.abs(truth[:, j]))) for j in (0, 1))
    tie = np.zeros((1, 10))
    tie[0, [2 * i, 2 * k + 1]] = truth[k, 1], -truth[i, 0]
    regression = Regression(plain.blocks, rows_of(tie, [0.0]))
    group = regression.groups[0]
    found = improve(regression, group, np.zeros(0, dtype=np.intp), criterion_of(regression, group))
    assert {2 * i, 2 * k + 1} <= set(found)


def test_the_extended_criterion_asks_more_of_a_term_and_fewer_rows_ask_more_still():
    regression = made(terms=6)
    group = np.array([0])
    plain = criterion_of(regression, group, extended=False)
    extended = criterion_of(regression, group)
    assert extended.price == pytest.approx(plain.price + 2 * np.log(6))
    assert plain.price == pytest.approx(np.log(regression.total.rows))
    assert criterion_of(regression, group, effect=4.0).rows == extended.rows / 4
    assert Criterion(10, 3)(np.e, 2) == pytest.approx(16)


def test_the_best_stage_is_that_of_least_criterion():
    regression = made(terms=8, noise=0.2)
    for trail in eliminate(regression, starts(regression)):
        criterion = criterion_of(regression, trail.targets)
        values = [criterion(s.loss, s.free) for s in trail.stages]
        assert values[best_stage(trail, criterion)] == min(values)


def nearly_dependent(seed):
    """Forty terms out of a space of little more than thirty dimensions, two of them in the target."""
    rng = np.random.default_rng(seed)
    mixed = rng.standard_normal((600, 30)) @ rng.standard_normal((30, 40))
    design = mixed + 0.02 * rng.standard_normal((600, 40))
    target = design[:, [7]] - 2 * design[:, [31]] + 0.3 * rng.standard_normal((600, 1))
    return Regression((LeastSquares.from_rows(design, target),), Rows.none(40))


@pytest.mark.parametrize("seed", range(5))
def test_from_the_other_side_a_true_term_among_many_nearly_dependent_ones_is_found_at_once(seed):
    regression = nearly_dependent(seed)
    group = np.array([0])
    criterion = criterion_of(regression, group)
    worth, support = forward(regression, group, criterion)
    assert support.tolist() == [7, 31]
    assert worth == pytest.approx(value(regression, criterion, support, group))


def test_a_term_that_adds_nothing_to_those_that_stand_for_it_takes_the_place_of_one():
    rng = np.random.default_rng(0)
    one, two, three = rng.standard_normal((3, 500, 1))
    true = one + two + three + 0.05 * rng.standard_normal((500, 1))
    design = np.hstack([one, two, three, true])
    regression = Regression(
        (LeastSquares.from_rows(design, true + 0.3 * rng.standard_normal((500, 1))),), Rows.none(4)
    )
    group = np.array([0])
    criterion = criterion_of(regression, group)
    assert improve(regression, group, np.array([0, 1, 2]), criterion).tolist() == [3]


def test_under_ties_what_is_added_comes_with_what_it_is_tied_to():
    plain = made(terms=6, targets=2, noise=0.05)
    tie = np.zeros((6, 12))
    for i in range(6):
        tie[i, [2 * i, 2 * ((i + 1) % 6) + 1]] = 1.0, -1.0
    regression = Regression(plain.blocks, rows_of(tie, np.zeros(6)))
    _, support = forward(regression, regression.groups[0], criterion_of(regression, regression.groups[0]))
    for row in tie:
        assert np.isin(np.flatnonzero(row), support).sum() in (0, 2)


@pytest.mark.parametrize("seed", range(12))
def test_among_nearly_dependent_terms_nothing_small_is_better_than_what_is_found(seed):
    rng = np.random.default_rng(seed)
    x, y = rng.uniform(0.5, 1.5, (2, 60))
    design = np.stack([x**i * y**k for i in range(5) for k in range(5 - i)], axis=1)
    first, second = rng.choice(np.arange(1, 15), 2, replace=False)
    target = design[:, [first]] - 0.8 * design[:, [second]] + 0.02 * rng.standard_normal((60, 1))
    regression = Regression((LeastSquares.from_rows(design, target),), Rows.none(15))
    group = np.array([0])
    criterion = criterion_of(regression, group)
    trail = eliminate(regression, [np.arange(15)])[0]
    start = trail.stages[best_stage(trail, criterion)].support
    found = value(regression, criterion, improve(regression, group, start, criterion), group)
    small = [np.array(c, dtype=np.intp) for k in (1, 2, 3) for c in combinations(range(15), k)]
    best = min(value(regression, criterion, s, group) for s in small)
    assert found <= best + 1e-9 * abs(best)
