"""Faults of measured fields: recognised, corrected where that is safe, told; good fields are left alone."""

from functools import partial

import numpy as np
import pytest
from benchmarks import field_honesty
from benchmarks.field_honesty import BASIS, FAULTS, GOOD, T, X, _right

import cindy
from cindy.evidence import screened

# The good laws are then solved to eight digits, in a quarter of the time.
made = partial(field_honesty.made, substeps=5)


def codes(model: cindy.Model) -> set[str]:
    return {finding.code for finding in model.findings}


@pytest.mark.parametrize("noise", [0.0, 0.05, 0.5])
@pytest.mark.parametrize("name", GOOD)
def test_a_good_field_is_left_alone(name, noise):
    field, _ = made("good", name, noise, 11)
    screen = screened([field])
    assert screen.faults == ()
    assert screen.fields == (field,)


@pytest.mark.parametrize(
    ("name", "code"),
    [
        ("offset pixels", "unequal-pixels"),
        ("unequal gains", "unequal-pixels"),
        ("dead pixels", "dead-pixels"),
        ("saturated sensor", "saturated-values"),
        ("false period", "false-period"),
        ("flicker", "unequal-frames"),
        ("outliers", "outliers"),
        ("dropped frames", "lost-frames"),
    ],
)
@pytest.mark.parametrize("seed", [3, 4])
def test_a_fault_is_recognised(name, code, seed):
    field, _ = made("faults", name, 0.01, seed)
    assert code in {fault.kind for fault in screened([field]).faults}


@pytest.mark.parametrize("name", ["dead pixels", "false period", "outliers"])
def test_what_can_be_corrected_leaves_the_right_law(name):
    field, truth = made("faults", name, 0.01, 3)
    assert _right(cindy.identify(field, BASIS), truth)


@pytest.mark.parametrize("name", FAULTS)
def test_no_fault_gives_a_wrong_law_without_a_word(name):
    field, truth = made("faults", name, 0.01, 5)
    try:
        model = cindy.identify(field, BASIS)
    except cindy.NoModelError:
        return
    assert _right(model, truth) or codes(model) - {"dependent-terms"}


@pytest.mark.parametrize("share", [0.01, 0.3])
@pytest.mark.parametrize("name", ["carried", "burgers"])
def test_scattered_missing_values_are_filled(name, share):
    field, truth = made("good", name, 0.05, 6)
    u = np.where(np.random.default_rng(0).uniform(size=field.shape) < share, np.nan, field["u"])
    model = cindy.identify(cindy.Field(u=u, x=X, t=T, periodic="x"), BASIS)
    assert _right(model, truth)
    assert "filled-values" in codes(model)
    assert "unexplained-motion" not in codes(model)
    assert model.noise[0] == pytest.approx(0.05 * field["u"].std(), rel=0.1)


def test_a_filled_value_is_the_cubic_through_its_neighbours():
    x, t = np.linspace(0, 1, 40), np.linspace(0, 1, 30)
    u = 1 + x[:, None] ** 3 - 2 * t * x[:, None] + t**2
    u = u + 1e-3 * np.random.default_rng(0).standard_normal(u.shape)
    holes = u.copy()
    holes[10, 12] = holes[20, 25] = holes[21, 25] = np.nan
    [filled] = screened([cindy.Field(u=holes, x=x, t=t)]).fields
    np.testing.assert_allclose(
        filled["u"][[10, 20, 21], [12, 25, 25]], u[[10, 20, 21], [12, 25, 25]], atol=5e-3
    )
    np.testing.assert_array_equal(filled["u"][~np.isnan(holes)], u[~np.isnan(holes)])


def test_a_large_hole_stays_open():
    field, _ = made("good", "carried", 0.01, 6)
    u = field["u"].copy()
    u[30:42, 40:60] = np.nan
    [open_] = screened([cindy.Field(u=u, x=X, t=T, periodic="x")]).fields
    assert np.isnan(open_["u"][36, 50])


def test_a_field_with_a_lost_frame_is_cut_there():
    field, truth = made("good", "carried", 0.01, 8)
    u = np.delete(field["u"], 50, axis=1)
    screen = screened([cindy.Field(u=u, x=X, t=T[:-1], periodic="x")])
    assert [len(part) for part in screen.fields] == [50, 50]
    model = cindy.identify(cindy.Field(u=u, x=X, t=T[:-1], periodic="x"), BASIS)
    assert _right(model, truth)


def test_units_do_not_matter():
    field, _ = made("faults", "outliers", 0.01, 3)
    [a] = screened([field]).faults
    [b] = screened([cindy.Field(u=1e-6 * field["u"], x=1e3 * X, t=1e-3 * T, periodic="x")]).faults
    assert (a.kind, a.count) == (b.kind, b.count)


def test_fields_that_are_missing_at_whole_times_are_fitted_or_refused_without_warnings_of_numpy():
    x, t = np.linspace(0, 2 * np.pi, 48, endpoint=False), np.linspace(0, 2, 60)
    waves = [a * np.exp(-0.1 * k * k * t) * np.sin(k * (x[:, None] - t) + k) for k, a in ((1, 1.0), (2, 0.5))]
    u = sum(waves) + 0.01 * np.random.default_rng(0).standard_normal((48, 60))
    u[:, [0, -1]] = np.nan
    model = cindy.identify(cindy.Field(u=u, x=x, t=t, periodic="x"), cindy.Derivatives(1, 2))
    assert np.array_equal(model.support[:, 0], [name in ("u_x", "u_xx") for name in model.terms])
    assert np.isfinite(model.scale).all()
    u[:, ::2] = np.nan
    with pytest.raises(cindy.DataError, match="every test function touches a missing value"):
        cindy.identify(cindy.Field(u=u, x=x, t=t, periodic="x"), cindy.Derivatives(1, 2))
