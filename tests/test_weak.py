"""The weak form: exact on exact data, blind to how it is cut, without bias from noise."""

from dataclasses import replace
from functools import cache

import numpy as np
import pytest
from benchmarks.pde_systems import pde_systems

import cindy
from cindy.basis import Factor
from cindy.data import grid_noise, shared_by_neighbours
from cindy.evidence import WeakRows, modes, modes_of
from cindy.evidence.noise_in_terms import Unbiased, calibration, hermite
from cindy.least_squares import LeastSquares

N, T = 128, np.linspace(0, 2, 81)
X = np.linspace(0, 2 * np.pi, N, endpoint=False)


@cache
def carried(speed: float = -1.0, spread: float = 0.1) -> np.ndarray:
    """u_t = speed u_x + spread u_xx, exactly."""
    draw = np.random.default_rng(3)
    u = np.zeros((N, len(T)))
    for k in range(1, 6):
        a, b = draw.standard_normal(2)
        phase = k * (X[:, None] + speed * T)
        u += np.exp(-spread * k**2 * T) * (a * np.cos(phase) + b * np.sin(phase)) / k
    return u


def noisy(share: float, seed: int = 0) -> cindy.Field:
    u = carried()
    noise = share * np.sqrt(np.mean(u**2)) * np.random.default_rng(seed).standard_normal(u.shape)
    return cindy.Field(u=u + noise, x=X, t=T, periodic="x")


def found(model: cindy.Model) -> dict[str, float]:
    return {model.terms[i]: float(model.coef[i, 0]) for i in np.flatnonzero(model.coef[:, 0])}


def test_exact_data_give_the_exact_equation():
    terms = found(cindy.identify(noisy(0.0), cindy.Derivatives(3, 3)))
    assert set(terms) == {"u_x", "u_xx"}
    assert terms["u_x"] == pytest.approx(-1.0, abs=1e-5)
    assert terms["u_xx"] == pytest.approx(0.1, abs=1e-5)


@pytest.mark.parametrize("seed", range(3))
def test_the_equation_is_found_in_noise_of_two_fifths_of_the_field(seed):
    model = cindy.identify(noisy(0.4, seed), cindy.Derivatives(3, 3))
    assert set(found(model)) == {"u_x", "u_xx"}
    assert found(model)["u_x"] == pytest.approx(-1.0, abs=0.05)
    rms = np.sqrt(np.mean(carried() ** 2))
    assert model.noise[0] == pytest.approx(0.4 * rms, rel=0.05)


def test_calibration_takes_the_bias_of_noise_away():
    narrow = cindy.Weak(half_widths=(0.5, 0.25), powers=(6, 5))
    estimates: dict[bool, list[np.ndarray]] = {True: [], False: []}
    for seed in range(6):
        summary = cindy.accumulate(noisy(1.0, seed), cindy.Derivatives(1, 2), formulation=narrow)
        used = [summary.terms.index(name) for name in ("u_x", "u_xx")]
        for calibrated, blocks in ((True, summary.calibrated), (False, summary.blocks)):
            rows = np.vstack([b.factor for b in blocks])
            estimates[calibrated].append(np.linalg.lstsq(rows[:, used], rows[:, -1])[0])
    with_noise, without = (np.abs(np.mean(estimates[c], axis=0) - [-1.0, 0.1]) for c in (False, True))
    assert (without < 0.4 * with_noise).all()


def test_noise_is_taken_out_of_a_few_terms_as_if_there_were_no_others():
    summary = cindy.accumulate(noisy(0.5), cindy.Derivatives(3, 3))
    few = np.array([summary.terms.index(name) for name in ("u_x", "u_xx", "(u^2)_x")])
    places = np.append(few, len(summary.terms))
    alone = tuple(LeastSquares(b.factor[:, places], len(few), b.rows) for b in summary.blocks)
    expected = calibration(alone, summary.spurious[np.ix_(places, places)])
    got = summary.of_terms(few).calibration
    assert got[np.ix_(places, places)] == pytest.approx(expected, rel=1e-9, abs=1e-12)
    assert not np.delete(got, places, axis=1).any()


def test_a_library_of_141_terms_has_no_false_ones_in_a_tenth_of_noise():
    [system] = [one for one in pde_systems() if one.name == "nonlinear Schrödinger"]
    model = cindy.identify(system.simulate(0, noise=0.1), cindy.Derivatives(5, 6))
    terms = [{model.terms[i] for i in np.flatnonzero(column)} for column in model.coef.T]
    assert terms == [{"u^2 v", "v^3", "v_xx"}, {"u^3", "u v^2", "u_xx"}]


def test_errors_are_as_large_as_the_scatter_over_draws_of_the_noise():
    """Rows of a field that is carried along cancel each other: by blocks errors are more than twice that."""
    models = [cindy.identify(noisy(0.3, seed), cindy.Derivatives(1, 2)) for seed in range(12)]
    used = [models[0].terms.index(name) for name in ("u_x", "u_xx")]
    scatter = np.std([m.coef[used, 0] for m in models], axis=0, ddof=1)
    error = np.mean([m.coef_error[used, 0] for m in models], axis=0)
    assert (abs(np.log(scatter / error)) < np.log(1.6)).all()
    covariance = models[0].covariance
    np.testing.assert_allclose(np.sqrt(np.diagonal(covariance)), models[0].coef_error[models[0].coef != 0])


def test_rows_weighed_by_their_noise_tell_more_than_rows_that_count_alike(monkeypatch):
    """Waves that fade: the fast ones are in the first rows only, and slow mixtures have least noise."""
    x, t = np.linspace(0, 10, 120), np.linspace(0, 0.5, 100)
    u = sum(np.exp(-0.16 * k**2 * t) * np.cos(k * x[:, None] + k**2) for k in (0.6, 1.3, 2.5, 3.8))
    field = cindy.Field(u=u + 0.1 * np.random.default_rng(0).standard_normal(u.shape), x=x, t=t)
    weighed = cindy.identify(field, cindy.Derivatives(1, 2))
    monkeypatch.setattr("cindy.identification.field_estimates.weighed", lambda *_: None)
    alike = cindy.identify(field, cindy.Derivatives(1, 2))
    assert found(weighed)["u_xx"] == pytest.approx(0.16, abs=4 * weighed.coef_error.max())
    assert weighed.coef_error.max() < 0.93 * alike.coef_error.max()


def test_where_values_are_missing_all_rows_count_alike(monkeypatch):
    mask = np.zeros((N, len(T)), dtype=bool)
    mask[50:60, 40:50] = True
    field = cindy.Field(u=noisy(0.2)["u"], x=X, t=T, periodic="x", mask=mask)
    model = cindy.identify(field, cindy.Derivatives(1, 2))
    monkeypatch.setattr("cindy.identification.field_estimates.weighed", lambda *_: None)
    np.testing.assert_array_equal(model.coef, cindy.identify(field, cindy.Derivatives(1, 2)).coef)


def test_the_noise_of_different_modes_is_nearly_independent():
    """Draws of the noise alone: their mean square in every mode is what the modes tell, and no two agree."""
    basis = cindy.Derivatives(1, 2).on_axes(("x",))
    form = WeakRows.of([noisy(0.3)], basis, cindy.Weak(noise=0.5)).form
    residual, tables = np.array([[1.0, -0.1, 1.0]]), []
    for seed in range(60):
        white = 0.5 * np.random.default_rng(seed).standard_normal((N, len(T)))
        columns = tuple(basis.names(("u",)).index(name) for name in ("u_x", "u_xx"))
        evidence = WeakRows.of([cindy.Field(u=white, x=X, t=T, periodic="x")], basis, form)
        [modes] = modes_of(evidence, columns)
        tables.append(modes.table @ residual[0])
    scaled = np.array(tables) / np.sqrt(modes.variance(residual)[0])
    assert np.mean(scaled**2) == pytest.approx(1.0, abs=0.02)
    correlation = scaled.T @ scaled / len(scaled)
    chance = 1.0 / np.sqrt(len(scaled))
    outside = correlation[~np.eye(len(correlation), dtype=bool)]
    assert np.sqrt(np.mean(outside**2)) < 1.1 * chance


def test_a_summary_tells_how_much_of_a_field_its_equations_explain():
    model = cindy.identify(noisy(0.1), cindy.Derivatives(1, 2))
    assert model.explained["equations"] == pytest.approx(model.score(noisy(0.1)), abs=1e-9)
    assert "R² of equations" in model.summary()


def test_errors_by_noise_do_not_depend_on_how_time_is_cut(monkeypatch):
    whole = cindy.identify(noisy(0.3), cindy.Derivatives(2, 2))
    monkeypatch.setattr(modes, "_MODES", replace(modes._MODES, held=1))
    cut = cindy.identify(noisy(0.3), cindy.Derivatives(2, 2))
    np.testing.assert_allclose(cut.covariance, whole.covariance, rtol=1e-9)


def test_errors_know_of_what_noise_does_not_explain():
    """A term that the basis lacks leaves residuals beyond the noise; the scatter between blocks is added."""
    field = noisy(0.01)
    lacking = cindy.identify(field, cindy.Derivatives(1, 1))
    whole = cindy.identify(field, cindy.Derivatives(1, 2))
    place = lacking.terms.index("u_x")
    assert lacking.coef_error[place, 0] > 5 * whole.coef_error[whole.terms.index("u_x"), 0]
    assert abs(lacking.coef[place, 0] + 1.0) < 4 * lacking.coef_error[place, 0]


def test_summaries_of_two_fields_add_up_with_what_noise_adds():
    basis = cindy.Derivatives(2, 2)
    one = cindy.accumulate(noisy(0.3, 0), basis)
    two = cindy.accumulate(noisy(0.3, 1), basis)
    both = one + two
    np.testing.assert_allclose(both.spurious, one.spurious + two.spurious)
    assert set(found(cindy.solve(cindy.Problem(both)))) == {"u_x", "u_xx"}


def test_a_saved_summary_has_the_same_calibrated_blocks(tmp_path):
    summary = cindy.accumulate(noisy(0.3), cindy.Derivatives(2, 2))
    summary.save(tmp_path / "summary.npz")
    again = cindy.Summary.load(tmp_path / "summary.npz")
    for a, b in zip(summary.calibrated, again.calibrated, strict=True):
        np.testing.assert_array_equal(a.factor, b.factor)


def test_slabs_of_any_length_give_the_same_rows(monkeypatch):
    basis = cindy.Derivatives(2, 2)
    whole = cindy.accumulate(noisy(0.3), basis)
    monkeypatch.setattr("cindy.evidence.weak._SLAB", 1)
    cut = cindy.accumulate(noisy(0.3), basis)
    assert [b.rows for b in whole.blocks] == [b.rows for b in cut.blocks]
    largest = abs(whole.spurious).max()
    np.testing.assert_allclose(cut.spurious, whole.spurious, rtol=1e-9, atol=1e-12 * largest)
    for a, b in zip(whole.blocks, cut.blocks, strict=True):
        np.testing.assert_allclose(a.factor.T @ a.factor, b.factor.T @ b.factor, rtol=1e-9, atol=1e-9)


def test_two_runs_give_the_same_answer():
    a, b = (cindy.identify(noisy(0.5), cindy.Derivatives(3, 3)) for _ in range(2))
    np.testing.assert_array_equal(a.coef, b.coef)
    np.testing.assert_array_equal(a.coef_error, b.coef_error)


def test_holes_do_no_harm():
    field = noisy(0.3)
    mask = np.zeros(field.shape, dtype=bool)
    mask[20:32, 10:40] = True
    mask[90, 60] = True
    holed = cindy.Field(u=field["u"], x=X, t=T, periodic="x", mask=mask)
    assert set(found(cindy.identify(holed, cindy.Derivatives(3, 3)))) == {"u_x", "u_xx"}


def test_an_axis_need_not_be_uniform_nor_periodic():
    inner = np.sort(np.concatenate([X[::2], X[1:60:2]]))
    places = np.searchsorted(X, inner)
    field = noisy(0.1)
    part = cindy.Field(u=field["u"][places], x=inner, t=T)
    terms = found(cindy.identify(part, cindy.Derivatives(2, 2)))
    assert set(terms) == {"u_x", "u_xx"}
    assert terms["u_x"] == pytest.approx(-1.0, abs=0.02)


def test_time_as_an_integral_finds_the_same_equation():
    model = cindy.identify(noisy(0.3), cindy.Derivatives(2, 2), formulation=cindy.Weak(time="integral"))
    assert set(found(model)) == {"u_x", "u_xx"}


def test_noise_shared_by_neighbours_is_noticed():
    u = carried()
    white = np.random.default_rng(0).standard_normal((N + 1, len(T) + 1))
    shared = 0.25 * (white[1:, 1:] + white[:-1, 1:] + white[1:, :-1] + white[:-1, :-1])
    field = cindy.Field(u=u + 0.5 * shared, x=X, t=T, periodic="x")
    model = cindy.identify(field, cindy.Derivatives(2, 2))
    assert any("neighbouring samples is correlated" in said for said in model.warnings)
    assert set(found(model)) == {"u_x", "u_xx"}
    assert shared_by_neighbours(noisy(0.3)["u"], [X, T]) == (1, 1)


@pytest.mark.parametrize("share", [0.01, 0.1, 1.0])
def test_the_noise_is_measured(share):
    sigma = share * np.sqrt(np.mean(carried() ** 2))
    assert grid_noise(noisy(share)["u"], [X, T]) == pytest.approx(sigma, rel=0.03)


def test_constraints_hold_by_name():
    model = cindy.identify(noisy(0.3), cindy.Derivatives(2, 2), constraints=[cindy.fix("u", "u_xx", 0.1)])
    assert found(model)["u_xx"] == 0.1
    tied = cindy.tie(("u", "u_x"), ("u", "u_xx"), ratio=-10.0)
    model = cindy.identify(noisy(0.3), cindy.Derivatives(2, 2), constraints=[tied])
    assert found(model)["u_x"] == pytest.approx(-10 * found(model)["u_xx"])


def test_powers_of_noisy_values_have_no_bias():
    draw = np.random.default_rng(0)
    y = 0.7 + 0.5 * draw.standard_normal(400_000)
    for power in range(1, 5):
        assert hermite(y, power, 0.25).mean() == pytest.approx(0.7**power, abs=0.01)


@pytest.mark.parametrize("kind", ["sin", "cos"])
def test_functions_of_noisy_values_have_no_bias(kind):
    draw = np.random.default_rng(0)
    y = 0.7 + 0.5 * draw.standard_normal(400_000)
    term = (Factor("variable", ("u",)), Factor(kind, ("u",)))
    value = Unbiased({"u": y}, {"u": 0.5})(term).mean()
    assert value == pytest.approx(0.7 * getattr(np, kind)(0.7), abs=0.01)


def test_tiny_grids_get_a_sentence():
    with pytest.raises(cindy.DataError, match="only 5 samples along x"):
        cindy.identify(cindy.Field(u=carried()[:5], x=X[:5], t=T), cindy.Derivatives(2, 2))
    tiny = cindy.Field(u=carried()[:9, :9], x=X[:9], t=T[:9])
    with pytest.raises(cindy.DataError, match=r"rows|samples"):
        cindy.identify(tiny, cindy.Derivatives(3, 4))


def test_a_field_that_stands_still_gets_a_sentence():
    rounded = 1e-16 * np.random.default_rng(0).standard_normal((N, len(T)))
    for u in (np.ones((N, len(T))), 1.0 + rounded):
        with pytest.raises(cindy.DataError, match="does not change"):
            cindy.identify(cindy.Field(u=u, x=X, t=T), cindy.Derivatives(2, 2))


def test_a_field_that_is_at_rest_before_and_after_a_pulse_is_learnt_from():
    x, t = np.linspace(0, 1, 60), np.linspace(0, 3, 151)
    away = np.clip(x[:, None] - t + 1.0, -0.5, 0.5)  # the pulse enters at one end and leaves at the other
    model = cindy.identify(cindy.Field(u=np.cos(np.pi * away) ** 4, x=x, t=t), cindy.Derivatives(2, 2))
    kept = dict(zip(model.terms, model.coef[:, 0], strict=True))
    assert {name: value for name, value in kept.items() if value} == pytest.approx({"u_x": -1.0}, rel=1e-6)


def test_forms_are_for_fields_or_for_trajectories():
    with pytest.raises(cindy.DataError, match="Weak"):
        cindy.identify(noisy(0.1), cindy.Derivatives(2, 2), formulation=cindy.Integral())
    with pytest.raises(cindy.DataError, match="Weak"):
        cindy.identify((T, np.sin(T)), cindy.Polynomial(1), formulation=cindy.Weak())


def test_equations_of_fields_are_written_with_derivatives():
    basis = cindy.Derivatives(2, 2, axes=("x",))
    empty = np.zeros((len(basis.names(("u",))), 1))
    model = cindy.Model(empty, basis, ("u",), formulation=cindy.Weak())
    model = model.with_coef({("u", "(u^2)_x"): -0.5, ("u", "u_xx"): 0.1})
    assert str(model) == "u_t = -1 u u_x + 0.1 u_xx"
    assert r"\partial_{t} u &= -1\, u\, \partial_{x} u + 0.1\, \partial_{x x} u" in model.to_latex()
    sympy = pytest.importorskip("sympy")
    x, t = sympy.symbols("x t")
    u = sympy.Function("u")(x, t)
    assert sympy.simplify(model.to_sympy()[0] - (-u * u.diff(x) + 0.1 * u.diff(x, 2))) == 0
    with pytest.raises(cindy.DataError, match="code"):
        model.to_python()


def test_coefficients_that_vary_in_space_come_with_the_coordinate_as_an_input():
    """Fokker-Planck: p_t = (x p)_x + p_xx / 2 spreads a hump to the normal density."""
    x, t = np.linspace(-4, 4, 121), np.linspace(0.05, 2, 81)
    centre, width = 1.5 * np.exp(-t), 0.5 + (0.1 - 0.5) * np.exp(-2 * t)
    p = np.exp(-((x[:, None] - centre) ** 2) / (2 * width)) / np.sqrt(2 * np.pi * width)
    noise = 0.1 * np.sqrt(np.mean(p**2)) * np.random.default_rng(0).standard_normal(p.shape)
    field = cindy.Field(p=p + noise, x=x, t=t, inputs="x")
    model = cindy.identify(field, cindy.Derivatives(2, 2))
    terms = found(model)
    assert set(terms) == {"(p x)_x", "p_xx"}
    assert terms["(p x)_x"] == pytest.approx(1.0, abs=0.05)
    assert terms["p_xx"] == pytest.approx(0.5, abs=0.05)


def test_the_command_line_fits_a_netcdf_file(tmp_path):
    from typer.testing import CliRunner

    from cindy.cli.app import app

    field = noisy(0.1)
    np.savez(tmp_path / "u.npz", u=field["u"], x=X, t=T)
    options = ["--basis", "pde:2,2", "--periodic", "x", "--out", str(tmp_path / "model.json")]
    result = CliRunner().invoke(app, ["fit", str(tmp_path / "u.npz"), *options])
    assert result.exit_code == 0, result.output
    assert "u_t" in result.output
    assert set(found(cindy.load(tmp_path / "model.json"))) == {"u_x", "u_xx"}


def test_the_command_line_solves_a_field_and_writes_its_report(tmp_path):
    from typer.testing import CliRunner

    from cindy.cli.app import app

    field = noisy(0.05)
    np.savez(tmp_path / "u.npz", u=field["u"], x=X, t=T)
    names = {name: str(tmp_path / name) for name in ("u.npz", "model.json", "page.html", "later.npz")}
    options = ["--basis", "pde:1,2", "--periodic", "x", "--out", names["model.json"]]
    result = CliRunner().invoke(app, ["fit", names["u.npz"], *options, "--report", names["page.html"]])
    assert result.exit_code == 0, result.output
    assert "field-plots" in (tmp_path / "page.html").read_text(encoding="utf-8")
    start = ["simulate", names["model.json"], "--x0", names["u.npz"], "--periodic", "x"]
    result = CliRunner().invoke(app, [*start, "--t", "0:1:0.25", "--out", names["later.npz"]])
    assert result.exit_code == 0, result.output
    later = cindy.Field(tmp_path / "later.npz", periodic="x")
    np.testing.assert_allclose(later.t, [0, 0.25, 0.5, 0.75, 1.0])
    assert np.abs(later["u"] - carried()[:, :41:10]).max() < 0.5
    result = CliRunner().invoke(app, [*start, "--t", "0:1:0.25"])
    assert result.exit_code != 0


def test_the_score_of_a_field_is_that_of_its_equations_or_of_its_solutions():
    field, basis = noisy(0.1), cindy.Derivatives(1, 2)
    model = cindy.identify(field, basis)
    still = model.with_coef(np.zeros_like(model.coef))
    assert 0.95 < model.score(field) < 1.0
    assert still.score(field) == pytest.approx(0.0, abs=1e-12)
    whole, anew = (model.score([field, field], "trajectory", window=w) for w in (None, 20))
    assert 0.95 < whole <= anew + 1e-3 < 1.0
    wild = model.with_coef({("u", "u"): 200.0})
    assert wild.score(field, "trajectory") == -np.inf
    with pytest.raises(cindy.DataError, match="derivatives of fields are not estimated"):
        model.score(field, "derivative")
    with pytest.raises(cindy.DataError, match="needs a Field"):
        model.score(3.0)
    with pytest.raises(cindy.DataError, match="is about u"):
        model.score(cindy.Field(w=carried(), x=X, t=T))


def test_a_simulation_tells_how_far_it_is():
    model, told = cindy.identify(noisy(0.1), cindy.Derivatives(1, 2)), []
    model.simulate(noisy(0.1).first, T[:5], progress=lambda done, total: told.append((done, total)))
    assert told == [(1, 4), (2, 4), (3, 4), (4, 4)]


def test_a_field_is_drawn_beside_the_solution_of_its_model():
    pyplot = pytest.importorskip("matplotlib.pyplot")
    field = noisy(0.1)
    axes = cindy.plot.field(field, cindy.identify(field, cindy.Derivatives(2, 2)))
    assert axes.shape == (1, 3)
    assert [ax.get_title() for ax in axes[0]] == ["u, data", "u, model", "difference"]
    pyplot.close("all")


def test_squares_of_slopes_are_found_where_products_are_asked_for():
    """Growth of an interface, h_t = h_xx / 2 + h_x² / 2, by the logarithm of a solution of the heat
    equation."""
    t = np.linspace(0, 2, 121)
    heat = sum(np.exp(-0.5 * k * k * t) * np.cos(k * X[:, None] + k * k) for k in (1, 2, 3))
    h = np.log(3 + 0.9 * heat)
    noise = 0.05 * h.std() * np.random.default_rng(0).standard_normal(h.shape)
    field = cindy.Field(h=h + noise, x=X, t=t, periodic="x")
    terms = found(cindy.identify(field, cindy.Derivatives(2, 2, products=True)))
    assert set(terms) == {"h_xx", "h_x^2"}
    assert terms["h_x^2"] == pytest.approx(0.5, abs=0.04)


def test_terms_that_depend_on_each_other_are_told_and_the_shorter_form_is_kept():
    """With v = u_x the terms v and u_x are the same, and so are v_x and u_xx."""
    u = carried()
    v = np.real(np.fft.ifft(1j * np.fft.fftfreq(N, 1 / N)[:, None] * np.fft.fft(u, axis=0), axis=0))
    draw = np.random.default_rng(0)
    fields = {name: w + 0.05 * w.std() * draw.standard_normal(w.shape) for name, w in (("u", u), ("v", v))}
    model = cindy.identify(cindy.Field(**fields, x=X, t=T, periodic="x"), cindy.Derivatives(1, 2))
    assert any(finding.code == "dependent-terms" for finding in model.findings)
    assert np.count_nonzero(model.coef[:, 0]) == 2


@pytest.mark.parametrize("seed", [420, 424])
def test_a_model_that_leaves_more_than_noise_gives_way_to_one_near_it_that_does_not(seed):
    """(u³)_xx stands for u³ and u_xx where rows overlap, and leaves twice what noise makes."""
    [system] = [one for one in pde_systems() if one.name == "Allen-Cahn"]
    model = cindy.identify(system.simulate(seed, noise=1.0), system.basis)
    assert set(found(model)) == {"u", "u^3", "u_xx"}
