"""Backward elimination: updates of low rank, and the order in which terms go."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.regressions import made, regressions, rows_of

from cindy.regression.descent import Descent
from cindy.regression.regression import Regression
from cindy.selection.elimination import eliminate

KINDS = ("none", "ties", "sums", "within one target")


def everything(regression):
    width = regression.shape[1]
    every = np.arange(np.prod(regression.shape))
    return [every[np.isin(every % width, g)] for g in regression.groups]


@given(regressions(kinds=KINDS), st.integers(0, 1000))
def test_updates_agree_with_fitting_from_scratch(regression, seed):
    rng = np.random.default_rng(seed)
    for group, start in zip(regression.groups, everything(regression), strict=True):
        descent = Descent(group, regression.fit(start, group))
        while len(descent.support) and (descent.variance > 1e-14).any():
            free = np.flatnonzero(descent.variance > 1e-14)
            descent.leave(rng.choice(free, min(len(free), rng.integers(1, 4)), replace=False))
            fresh = regression.fit(descent.support, group)
            np.testing.assert_allclose(descent.x, fresh.x, atol=1e-8)
            np.testing.assert_allclose(descent.variance, np.sum(fresh.spread**2, axis=1), atol=1e-10)
            assert descent.loss == pytest.approx(fresh.loss, rel=1e-8)
            assert descent.free == fresh.free


@given(regressions(kinds=(*KINDS, "goals")))
def test_the_loss_never_falls_and_parameters_never_rise_on_the_way_down(regression):
    for trail in eliminate(regression, everything(regression)):
        losses = np.array([s.loss for s in trail.stages])
        assert (np.diff(losses) >= -1e-9 * losses[1:]).all()
        assert (np.diff([s.free for s in trail.stages]) < 0).all()
        assert (np.diff(trail.strength) >= 0).all()


@given(regressions(kinds=KINDS))
def test_everything_that_is_free_leaves_once(regression):
    for trail, start in zip(
        eliminate(regression, everything(regression)), everything(regression), strict=True
    ):
        left = trail.stages[-1].support
        assert sorted([*trail.order, *left]) == sorted(start)
        assert len(trail.strength) == len(trail.order)
        assert trail.stages[-1].free == 0
        for one, following in zip(trail.stages[:-1], trail.stages[1:], strict=True):
            assert set(following.support) < set(one.support)


def test_tied_coefficients_leave_together():
    plain = made(targets=2, terms=5)
    tie = np.zeros((2, 10))
    tie[0, [0, 3]] = 1.0, -2.0
    tie[1, [4, 9]] = 1.0, 1.0
    regression = Regression(plain.blocks, rows_of(tie, [0.0, 0.0]))
    (trail,) = eliminate(regression, everything(regression))
    for stage in trail.stages:
        for one, other in ((0, 3), (4, 9)):
            assert (one in stage.support) == (other in stage.support)


def test_what_must_not_be_zero_never_leaves():
    plain = made(targets=2, terms=4)
    regression = Regression(plain.blocks, rows_of(np.eye(8)[:1], [3.0]))
    trail = eliminate(regression, everything(regression))[0]
    assert all(0 in stage.support for stage in trail.stages)


def test_true_terms_leave_last():
    for seed in range(5):
        regression = made(seed=seed, terms=12, rows=60, noise=0.05)
        for trail in eliminate(regression, everything(regression)):
            j = int(trail.targets[0])
            best = np.linalg.lstsq(regression.total.design, regression.total.target[:, j])[0]
            large = set(np.flatnonzero(np.abs(best) > 0.5) * 3 + j)
            assert set(trail.order[-2:]) == large


def test_the_first_stage_is_the_start_and_single_steps_follow_the_least_rise_of_the_loss():
    regression = made(terms=4, targets=1, noise=1.0, sparse=4)
    (trail,) = eliminate(regression, [np.arange(4)])
    assert trail.stages[0].support.tolist() == [0, 1, 2, 3]
    group = np.array([0])
    for one, following in zip(trail.stages[:-1], trail.stages[1:], strict=True):
        rises = [regression.fit(np.setdiff1d(one.support, [i]), group).loss for i in one.support]
        if len(one.support) - len(following.support) == 1:
            assert following.loss == pytest.approx(min(rises))
