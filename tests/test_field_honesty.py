"""Fields that say what they do not know: what a law leaves beyond noise, where, and what varies."""

from functools import partial

import numpy as np
import pytest
from benchmarks import field_honesty
from benchmarks.field_honesty import BASIS, GOOD, OUTSIDE

import cindy
from cindy.evidence import WeakRows, unexplained

UNEXPLAINED = "unexplained-motion"
# The good laws are then solved to eight digits, in a quarter of the time.
made = partial(field_honesty.made, substeps=5)


def told(kind: str, name: str, noise: float = 0.01, seed: int = 3) -> list[cindy.Finding]:
    field, _ = made(kind, name, noise, seed)
    return [f for f in cindy.identify(field, BASIS).findings if f.code == UNEXPLAINED]


@pytest.mark.parametrize("noise", [0.0, 0.01, 0.05])
@pytest.mark.parametrize("name", GOOD)
def test_a_law_of_the_library_leaves_nothing_beyond_noise(name, noise):
    assert told("good", name, noise) == []


VARYING = {
    "speed_in_space": ("u_x", "x"),
    "diffusivity_in_space": ("u_xx", "x"),
    "growth_in_space": ("u", "x"),
    "speed_in_time": ("u_x", "t"),
    "switched": ("u_x", "t"),
    "source_in_space": ("1", "x"),
}


@pytest.mark.parametrize("name", [n for n in OUTSIDE if n not in ("fractional", "nonlocal_jump", *VARYING)])
def test_a_law_outside_the_library_is_told_of_or_refused(name):
    try:
        [finding] = told("outside", name)
    except cindy.NoModelError:
        return
    assert finding.values["ratio"] > 1.3
    assert "noise does not account for" in finding.message


@pytest.mark.parametrize("name", VARYING)
def test_a_coefficient_that_varies_is_named_with_its_axis(name):
    [finding] = told("outside", name)
    axis = VARYING[name][1]
    assert (finding.values["term"], finding.values["axis"]) == VARYING[name]
    assert finding.values["ratio"] > 1.3
    assert "noise does not account for" in finding.message
    assert finding.values["taken"] > 0.8
    assert f"varies along {axis}" in finding.message


def test_the_map_shows_where_a_law_fails():
    x, t = np.arange(96) * 2 * np.pi / 96, np.linspace(0, 3, 101)
    u = np.sin(x[:, None] - t) + 0.5 * np.cos(2 * (x[:, None] - t) + 1)
    # The wave is carried along; around 4.75 it also swings, which no term explains.
    u += 0.05 * np.exp(-(((x[:, None] - 4.75) / 0.4) ** 2)) * np.sin(3 * t)
    u += 0.01 * np.random.default_rng(0).standard_normal(u.shape)
    model = cindy.identify(cindy.Field(u=u, x=x, t=t, periodic="x"), cindy.Derivatives(1, 2))
    [finding] = [f for f in model.findings if f.code == UNEXPLAINED]
    by_place = np.array(finding.values["map"]).mean(axis=1)
    low, high = finding.values["boxes"]["x"][int(by_place.argmax())]
    assert low - 0.8 < 4.75 < high + 0.8
    assert by_place.max() > 5 * by_place.min()


def test_the_worst_place_is_told_of_a_field_with_a_hole_in_its_first_corner():
    x, t = np.linspace(0, 18, 280), np.linspace(0, 9, 220)
    u = np.sin(x[:, None] - t) + 0.5 * np.cos(2 * (x[:, None] - t) + 1)
    u += 0.05 * t * np.exp(-(((x[:, None] - 13) / 0.8) ** 2))
    u += 0.01 * np.random.default_rng(0).standard_normal(u.shape)
    u[:140, :120] = np.nan
    evidence = WeakRows.of([cindy.Field(u=u, x=x, t=t)], cindy.Derivatives(1, 2), cindy.Weak())
    carried = np.array([[-float(name == "u_x")] for name in evidence.basis.names(("u",))])
    [rest] = unexplained(evidence, carried)
    assert np.isnan(rest.map[0, 0])
    low, high = rest.worst["x"]
    assert low - 0.8 < 13 < high + 0.8


def test_residuals_of_the_true_law_are_as_large_as_noise_makes_them():
    ratios = []
    for seed in range(5):
        field, truth = made("good", "burgers", 0.05, 50 + seed)
        evidence = WeakRows.of([field], BASIS, cindy.Weak())
        coef = np.array([[truth.get(name, 0.0)] for name in evidence.basis.names(("u",))])
        assert unexplained(evidence, coef) == []
        coef[coef != 0] *= 1.2
        [rest] = unexplained(evidence, coef)
        ratios.append(rest.ratio)
    assert min(ratios) > 2
