"""Candidates: where elimination begins, and in which order coefficients matter."""

import numpy as np
import pytest
from tests.regressions import made, rows_of

import cindy.selection.candidates
from cindy.least_squares import LeastSquares
from cindy.regression.regression import Regression
from cindy.rows import Rows
from cindy.selection import views
from cindy.selection.candidates import Candidates


def candidates(regression, solution=None):
    shape = regression.shape
    return Candidates(regression, np.zeros(shape) if solution is None else solution, np.ones(shape[1]))


def ring(terms=8, targets=4):
    """Each target's term j is tied to the next target's term j + 1: one group of all targets."""
    rng = np.random.default_rng(0)
    truth = np.zeros((terms, targets))
    for j in range(targets):
        truth[j, j], truth[j + 1, j] = 1.0, -2.0
    parts = []
    for _ in range(12):
        design = rng.standard_normal((40, terms))
        parts.append(
            LeastSquares.from_rows(design, design @ truth + 0.05 * rng.standard_normal((40, targets)))
        )
    size = terms * targets
    ties = [
        (i * targets + j, (i + 1) % terms * targets + j + 1) for i in range(terms) for j in range(targets - 1)
    ]
    matrix = np.zeros((len(ties), size))
    for row, (a, b) in zip(matrix, ties, strict=True):
        row[[a, b]] = 1.0, -1.0
    return Regression(tuple(parts), rows_of(matrix, np.zeros(len(ties)))), truth


def test_a_small_problem_begins_with_every_coefficient():
    assert candidates(made("ties")).start.tolist() == list(range(18))


def test_many_coupled_coefficients_begin_with_what_the_equations_keep_and_need(monkeypatch):
    regression, truth = ring()
    whole = candidates(regression).by_criterion()
    monkeypatch.setattr(cindy.selection.candidates, "_MANY", 10)
    monkeypatch.setattr(cindy.selection.candidates, "_SPARE", 0)
    screened = candidates(regression)
    assert len(screened.start) < truth.size
    for row in regression.equal.matrix.toarray():
        inside = np.isin(np.flatnonzero(row), screened.start)
        assert inside.all() or not inside.any()
    np.testing.assert_array_equal(screened.by_criterion(), whole)
    np.testing.assert_array_equal(whole, np.flatnonzero(truth))


def many(dependent=False):
    """Sixty correlated terms, of which each of three equations has a few."""
    rng = np.random.default_rng(1)
    truth = np.zeros((60, 3))
    truth[[3, 10, 50], 0], truth[[0, 20], 1], truth[[7, 8, 9, 41], 2] = (2, -1, 0.5), (1, 3), (1, -1, 1, 0.3)
    parts = []
    for _ in range(12):
        design = rng.standard_normal((60, 60)) + rng.standard_normal((60, 1))
        if dependent:
            design[:, 59] = design[:, 58] + design[:, 57]
        parts.append(LeastSquares.from_rows(design, design @ truth + 0.1 * rng.standard_normal((60, 3))))
    return Regression(tuple(parts), Rows.none(180), np.array([0.01, 0.0, 0.02])), truth


@pytest.mark.parametrize("dependent", [False, True])
def test_among_many_terms_the_likely_ones_lead_to_the_same_supports_losses_and_effects(
    dependent, monkeypatch
):
    regression, truth = many(dependent)
    whole = candidates(regression, truth)
    monkeypatch.setattr(views, "LARGE", 30)
    monkeypatch.setattr(views, "_IDLE", 5)
    monkeypatch.setattr(views, "_LIKELY", 10)
    likely = candidates(regression, truth)
    assert len(likely.start) < 0.7 * truth.size
    np.testing.assert_array_equal(likely.by_criterion(), np.flatnonzero(truth))
    np.testing.assert_array_equal(whole.by_criterion(), np.flatnonzero(truth))
    np.testing.assert_allclose(likely.effects, whole.effects)
    for one, other in zip(likely.trails, whole.trails, strict=True):
        assert one.targets == other.targets
        losses = {stage.support.tobytes(): stage.loss for stage in other.stages}
        shared = [stage for stage in one.stages if stage.support.tobytes() in losses]
        assert len(shared) > len(truth[:, one.targets[0]].nonzero()[0])
        for stage in shared:
            assert stage.loss == pytest.approx(losses[stage.support.tobytes()])


def test_what_must_not_be_zero_is_there_from_the_beginning(monkeypatch):
    monkeypatch.setattr(cindy.selection.candidates, "_MANY", 1)
    monkeypatch.setattr(cindy.selection.candidates, "_SPARE", 0)
    plain = made(terms=8, targets=2)
    matrix = np.zeros((3, 16))
    matrix[0, [0, 1, 15]], matrix[1, [2, 3, 4]], matrix[2, 14] = 1.0, 1.0, 1.0
    regression = Regression(plain.blocks, rows_of(matrix, [1.0, 0.0, 3.0]))
    start = candidates(regression).start
    assert {0, 1, 14, 15} <= set(start)
    assert np.isin([2, 3, 4], start).sum() != 1


@pytest.mark.parametrize("kind", ["none", "ties", "sums"])
def test_a_ranking_has_every_coefficient_once_and_the_chosen_ones_first(kind):
    every = candidates(made(kind, noise=0.5))
    chosen = every.by_criterion()
    ranking = every.ranking(chosen)
    assert sorted(ranking) == sorted(every.start)
    assert set(ranking[: len(chosen)]) == set(chosen)


def test_of_dependent_terms_those_stay_that_the_solver_used():
    plain = made(terms=4, targets=1)
    parts = tuple(
        LeastSquares.from_rows(np.hstack([b.design, b.design[:, :1] + b.design[:, 1:2]]), b.target)
        for b in plain.blocks
    )
    for used in (0, 1, 4):
        solution = np.zeros((5, 1))
        solution[[used, 2]] = 1.0
        every = candidates(Regression(parts, Rows.none(5)), solution)
        assert len(every.columns) == 4
        assert {used, 2} <= set(every.columns)


def test_a_support_that_the_constraints_rule_out_is_no_candidate():
    plain = made()
    every = candidates(Regression(plain.blocks, rows_of(np.eye(18)[:1], [1.0])))
    assert every.possible(np.arange(3, 18)) is None
    assert every.possible(np.arange(18)).x[0, 0] == pytest.approx(1.0)
