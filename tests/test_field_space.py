"""Fields over two and three axes of space: exact solutions, with holes and without."""

import numpy as np
import pytest

import cindy


def carried(
    shape: tuple[int, ...], times: int, *, noise: float, seed: int = 0
) -> tuple[np.ndarray, dict[str, np.ndarray]]:
    """u_t = −u_x + 0.2 Δu on a ring in every direction, wave by wave."""
    draw = np.random.default_rng(7)
    axes = {name: 2 * np.pi * np.arange(n) / n for name, n in zip("xyz", shape, strict=False)}
    t = np.linspace(0, 1.5, times)
    grids = np.meshgrid(*axes.values(), t, indexing="ij")
    u = np.zeros((*shape, times))
    for _ in range(8):
        wave = draw.integers(-2, 3, len(shape))
        phase = sum(w * g for w, g in zip(wave, grids[:-1], strict=True)) - wave[0] * grids[-1]
        u += np.exp(-0.2 * np.sum(wave**2) * grids[-1]) * np.cos(phase + draw.uniform(0, 6))
    shaken = u + noise * u.std() * np.random.default_rng(seed).standard_normal(u.shape)
    return shaken, {**axes, "t": t}


def found(model: cindy.Model) -> dict[str, float]:
    return {model.terms[i]: float(model.coef[i, 0]) for i in np.flatnonzero(model.coef[:, 0])}


def test_an_equation_in_three_dimensions_is_found_and_solved():
    u, axes = carried((14, 14, 14), 17, noise=0.2)
    field = cindy.Field(u=u, **axes, periodic=("x", "y", "z"))
    alike = [cindy.tie(("u", "u_xx"), ("u", f"u_{axis * 2}")) for axis in "yz"]
    model = cindy.identify(field, cindy.Derivatives(1, 2), constraints=alike)
    terms = found(model)
    assert set(terms) == {"u_x", "u_xx", "u_yy", "u_zz"}
    assert terms["u_x"] == pytest.approx(-1.0, abs=0.03)
    assert terms["u_yy"] == pytest.approx(0.2, abs=0.02)
    assert terms["u_zz"] == pytest.approx(terms["u_yy"], rel=1e-9)
    exact, _ = carried((14, 14, 14), 17, noise=0.0)
    np.testing.assert_allclose(model.simulate(field.smoothed(), field.t)["u"], exact, atol=0.5)
    assert model.score(field) > 0.9


def test_a_tenth_of_the_plane_may_be_missing():
    u, axes = carried((32, 32), 31, noise=0.2)
    x, y = axes["x"][:, None], axes["y"]
    hole = (x - 2.5) ** 2 + (y - 4.0) ** 2 < 0.1 * (2 * np.pi) ** 2 / np.pi
    assert 0.08 < hole.mean() < 0.12
    models = [
        cindy.identify(cindy.Field(u=u, **axes, periodic=("x", "y"), mask=mask), cindy.Derivatives(2, 2))
        for mask in (None, hole)
    ]
    for model in models:
        assert set(found(model)) == {"u_x", "u_xx", "u_yy"}
        assert not any("missing values" in said for said in model.warnings)
    whole, holed = (m.coef_error[m.coef != 0] for m in models)
    assert (holed < 2.5 * whole).all()
    truth = np.array([-1.0, 0.2, 0.2])
    assert (abs(models[1].coef[models[1].coef != 0] - truth) < 4 * holed).all()


def test_holes_that_take_most_rows_are_told_of():
    u, axes = carried((32, 32), 31, noise=0.2)
    holes = np.zeros((32, 32), dtype=bool)
    holes[0:4, 0:4] = holes[16:20, 0:6] = holes[8:12, 16:20] = True
    model = cindy.identify(cindy.Field(u=u, **axes, periodic=("x", "y"), mask=holes), cindy.Derivatives(2, 2))
    assert any("touch missing values" in said for said in model.warnings)


def test_noise_shared_by_neighbours_in_the_plane_is_noticed():
    exact, axes = carried((48, 48), 24, noise=0.0)
    white = np.random.default_rng(0).standard_normal((49, 49, 24))
    shared = 0.25 * (white[1:, 1:] + white[:-1, 1:] + white[1:, :-1] + white[:-1, :-1])
    field = cindy.Field(u=exact + 0.4 * exact.std() * shared, **axes, periodic=("x", "y"))
    model = cindy.identify(field, cindy.Derivatives(1, 2))
    assert any("neighbouring samples is correlated" in said for said in model.warnings)
    assert set(found(model)) == {"u_x", "u_xx", "u_yy"}


def test_an_uneven_axis_in_the_plane_is_no_hindrance():
    u, axes = carried((64, 24), 31, noise=0.1)
    some = np.unique(np.round(63 * np.linspace(0, 1, 44) ** 1.2).astype(int))
    field = cindy.Field(u=u[some], x=axes["x"][some], y=axes["y"], t=axes["t"], periodic="y")
    assert not field.uniform("x")
    terms = found(cindy.identify(field, cindy.Derivatives(1, 2)))
    assert set(terms) == {"u_x", "u_xx", "u_yy"}
    assert terms["u_x"] == pytest.approx(-1.0, abs=0.05)
