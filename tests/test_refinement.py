"""Laws among very many candidates: found in one pass, then refined with fitted states."""

from dataclasses import replace
from functools import cache

import numpy as np
import pytest

import cindy
from cindy.identification import fitted as refinement, identification
from cindy.least_squares import Rows
from cindy.selection import EFFORT

BASIS = cindy.Polynomial(2)


@cache
def data() -> tuple[cindy.Trajectory, ...]:
    system = cindy.systems.lotka_volterra()
    return tuple(system.simulate(seed=3, noise=0.02, trajectories=3, points=150))


@pytest.fixture
def large(monkeypatch):  # type: ignore[no-untyped-def]
    """Twelve coefficients are very many, and two beside a law are all that rows are made for."""
    monkeypatch.setattr(identification, "_LARGE", 11)
    monkeypatch.setattr(refinement, "EFFORT", replace(EFFORT, refinement_likely=2))


def test_a_law_among_very_many_candidates_has_fitted_states(large) -> None:  # type: ignore[no-untyped-def]
    found = cindy.identify(list(data()), BASIS)
    truth = cindy.systems.lotka_volterra().coef
    assert np.array_equal(found.support, truth != 0)
    assert np.isfinite(found.model_error).all()
    assert found.result is not None
    assert not any("states were not denoised" in sentence for sentence in found.warnings)
    assert np.max(np.abs(found.coef - truth)[found.support] / found.coef_error[found.support]) < 4


def test_screening_leads_to_the_model_of_all_candidates(large, monkeypatch) -> None:  # type: ignore[no-untyped-def]
    few = cindy.identify(list(data()), BASIS)
    monkeypatch.setattr(identification, "_LARGE", 1000)
    assert np.allclose(few.coef, cindy.identify(list(data()), BASIS).coef, rtol=1e-3)


def test_a_true_term_that_a_law_lacks_has_the_largest_score() -> None:
    truth = cindy.systems.lotka_volterra().coef
    motion = cindy.Integral().motion(list(data()), BASIS)
    assert motion is not None
    full = np.flatnonzero(truth)
    for left_out in range(len(full)):
        support = np.delete(full, left_out)
        law, coef = motion.law(support), truth.ravel()[support]
        states = tuple(record.y for record in motion.records)
        variance = np.full(2, 1e-3)
        fitted = refinement.Fitted(law, states, coef, variance, variance / motion.step)
        gradient, size = refinement._gradient(motion, fitted), refinement._lengths(motion, fitted)
        assert gradient is not None
        assert size is not None
        outside = ~np.isin(motion.candidates, support)
        score = np.where(outside, gradient**2 / np.where(size > 0, size, np.inf), 0.0)
        assert full[left_out] in np.argsort(-score)[:3]


@pytest.mark.parametrize(("left", "whole"), [(10.0, True), (1e-3, False)])
def test_an_equation_that_leaves_much_gets_all_of_its_candidates(left, whole, monkeypatch) -> None:  # type: ignore[no-untyped-def]
    monkeypatch.setattr(refinement, "EFFORT", replace(EFFORT, refinement_likely=1))
    truth = cindy.systems.lotka_volterra().coef
    motion = cindy.Integral().motion(list(data()), BASIS)
    assert motion is not None
    support = np.flatnonzero((truth != 0) & [True, False])
    states = tuple(record.y for record in motion.records)
    variance = np.full(2, 1e-3)
    error = variance / motion.step * [1e-4, left]
    fitted = refinement.Fitted(motion.law(support), states, truth.ravel()[support], variance, error)
    likely = refinement._likely(motion, Rows.none(truth.size), fitted)
    assert likely is not None
    second = motion.candidates[motion.candidates % 2 == 1]
    assert np.isin(second, likely).all() == whole


def test_too_much_work_is_left_alone_and_said(large, monkeypatch) -> None:  # type: ignore[no-untyped-def]
    monkeypatch.setattr(refinement, "EFFORT", replace(EFFORT, refinement_most_work=1.0))
    assert any("states were not denoised" in w for w in cindy.identify(list(data()), BASIS).warnings)
    assert np.isfinite(cindy.identify(list(data()), BASIS, passes=2).model_error).all()


def test_constraints_hold_among_very_many_candidates(large) -> None:  # type: ignore[no-untyped-def]
    names = data()[0].states
    law = cindy.tie((names[0], " ".join(names)), (names[1], " ".join(names)), -1.0)
    found = cindy.identify(list(data()), BASIS, constraints=[law])
    assert found.violation < 1e-9
    assert np.isfinite(found.model_error).all()
