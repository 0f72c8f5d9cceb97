"""Fronts steeper than the grid can tell, and terms that the noise at the samples does not bear out."""

import re
from dataclasses import dataclass
from functools import partial

import numpy as np
import pytest
from benchmarks.pde_systems import inviscid_burgers
from numpy.typing import NDArray

import cindy
from cindy.evidence import WeakRows
from cindy.identification.field_estimates import with_noise_errors
from cindy.identification.measured import model_of
from cindy.search import Settings
from cindy.selection import Candidates

FRONTS = "changes faster than the grid resolves"
BASIS = cindy.Derivatives(4, 4)
X, T = np.arange(96) * 2 * np.pi / 96, np.linspace(0, 2, 81)


def kept(field: cindy.Field, **settings: float) -> np.ndarray | None:
    """Which rows count, along x and t."""
    [rows] = WeakRows.of([field], BASIS, cindy.Weak(**settings)).rows
    return rows.counted.kept


def wave(noise: float, seed: int = 0) -> cindy.Field:
    """u_t = −u_x."""
    u = np.sin(X[:, None] - T) + 0.5 * np.cos(3 * (X[:, None] - T))
    return cindy.Field(
        u=u + noise * np.random.default_rng(seed).standard_normal(u.shape), x=X, t=T, periodic="x"
    )


@pytest.mark.parametrize("noise", [0.0, 1e-3, 1e-2])
def test_a_shock_between_samples_leaves_no_false_terms(noise):
    model = cindy.identify(inviscid_burgers().simulate(3, noise=noise), BASIS)
    [term] = np.flatnonzero(model.coef)
    assert model.terms[term] == "(u^2)_x"
    assert abs(model.coef[term, 0] + 0.5) < max(4 * model.coef_error[term, 0], 1e-4)
    [told] = [said for said in model.warnings if FRONTS in said]
    assert re.match(r"In 1\d% of the rows .* left out", told)


def past_the_shock(x: np.ndarray, t: np.ndarray) -> np.ndarray:
    """u_t = −u u_x long after a sine broke: nearly straight lines, and the jump between them at π."""
    foot = np.zeros((len(x), len(t)))
    away = (x - np.where(x < np.pi, 0, 2 * np.pi))[:, None]
    for _ in range(60):
        foot -= (foot + t * np.sin(foot) - away) / (1 + t * np.cos(foot))
    return np.sin(foot)


@pytest.mark.parametrize("noise", [1e-3, 1e-2])
def test_a_shock_on_an_uneven_axis_leaves_no_false_terms(noise):
    even = (np.arange(256) + 0.5) * 2 * np.pi / 256
    x, t = even + 0.3 * np.sin(2 * even) + 0.002, np.linspace(1.6, 2.6, 101)
    u = past_the_shock(x, t)
    u += noise * u.std() * np.random.default_rng(0).standard_normal(u.shape)
    model = cindy.identify(cindy.Field(u=u, x=x, t=t, periodic={"x": 2 * np.pi}), BASIS)
    assert [model.terms[k] for k in np.flatnonzero(model.coef)] == ["(u^2)_x"]
    assert any(FRONTS in said for said in model.warnings)


def test_rows_at_a_shock_are_left_out_and_those_before_and_beside_it_are_kept():
    rows = kept(inviscid_burgers().simulate(3, noise=1e-2))
    assert rows is not None
    middle = len(rows) // 2
    assert not rows[middle, rows.shape[1] // 2 + 1 : -2].any()
    assert rows[:, 0].all()
    assert rows[: middle // 2].all()


@pytest.mark.parametrize("noise", [0.0, 1e-3, 0.1, 1.0])
def test_smooth_fields_keep_all_rows(noise):
    assert kept(wave(noise)) is None
    assert not any(FRONTS in said for said in cindy.identify(wave(noise), BASIS).warnings)


def test_a_test_function_too_narrow_for_every_second_sample_makes_no_front():
    x, t = np.linspace(0, 1, 16), np.linspace(0, 1, 50)
    assert kept(cindy.Field(u=np.sin(6 * (x[:, None] - t)), x=x, t=t)) is None
    decay = cindy.Field(u=np.exp(-t) + 0 * x[:, None], x=x, t=t)
    assert not any(FRONTS in said for said in cindy.identify(decay, cindy.Derivatives(2, 2)).warnings)


@pytest.mark.parametrize("noise", [0.0, 1e-3, 0.1])
def test_smooth_fields_on_uneven_axes_keep_all_rows(noise):
    draw = np.random.default_rng(0)
    x, t = X + draw.uniform(-0.02, 0.02, len(X)), T + draw.uniform(-0.007, 0.007, len(T))
    u = np.sin(x[:, None] - t) + 0.5 * np.cos(3 * (x[:, None] - t))
    u += noise * draw.standard_normal(u.shape)
    assert kept(cindy.Field(u=u, x=x, t=t, periodic={"x": 2 * np.pi})) is None


def test_an_odd_number_of_samples_around_a_ring_is_no_front():
    x = np.arange(95) * 2 * np.pi / 95
    u = np.sin(x[:, None] - T)
    assert kept(cindy.Field(u=u, x=x, t=T, periodic="x")) is None


def test_a_grid_that_is_coarse_throughout_is_taken_as_it_is():
    rough = np.random.default_rng(0).standard_normal((len(X), len(T)))
    field = cindy.Field(u=wave(0.0)["u"] + 0.1 * rough, x=X, t=T, periodic="x")
    assert kept(field, noise=0.0) is None
    model = cindy.identify(field, cindy.Derivatives(1, 2), formulation=cindy.Weak(noise=0.0))
    [told] = [said for said in model.warnings if FRONTS in said]
    assert "These are most rows, and they were kept" in told


def test_what_touches_a_hole_is_left_out_and_is_no_front():
    field = wave(0.1)
    u = field["u"].copy()
    u[40:44, 30:34] = np.nan
    rows = kept(cindy.Field(u=u, x=X, t=T, periodic="x"))
    assert rows is not None
    assert rows[0].all()
    assert 0 < np.count_nonzero(~rows) < 0.3 * rows.size


def test_terms_that_the_noise_does_not_bear_out_leave_and_the_path_goes_with_them():
    field = wave(0.5)
    evidence = WeakRows.of([field], BASIS, cindy.Weak())
    problem = cindy.Problem(cindy.accumulate(field, basis=BASIS, formulation=cindy.Weak()))
    by_noise = partial(with_noise_errors, evidence=evidence)

    def modelled(selection):
        return model_of(problem, Settings(selection), estimator=by_noise)

    @dataclass(frozen=True)
    class FourTerms(cindy.Significance):
        def pick(self, candidates: Candidates) -> NDArray[np.intp]:
            return cindy.Terms(4).pick(candidates)

    model = modelled(FourTerms())
    assert [model.terms[k] for k in np.flatnonzero(model.coef)] == ["u_x"]
    assert np.array_equal(model.path[model.path.chosen].coef, model.coef)
    assert np.array_equal(model.near[0].coef, model.coef)
    assert np.count_nonzero(modelled(cindy.Terms(4)).coef) == 4
