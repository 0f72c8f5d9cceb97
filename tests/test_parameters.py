"""Parameters inside terms: found with the coefficients, told with their errors, kept in files."""

import contextlib
import re
import sys

import numpy as np
import pytest
from scipy.integrate import solve_ivp

import cindy
from cindy.basis import Parameter, differentiate_by_parameter, term_name
from cindy.cli.app import main
from cindy.cli.settings import FitSettings
from cindy.least_squares import Rows
from cindy.search.moves import Move
from cindy.search.parametric import ParametricSearch
from cindy.search.request import Options
from cindy.search.scan import groups_of
from cindy.states import LEVELS, start_of
from cindy.systems import integrate

UPTAKE = cindy.Custom({"uptake": "S/(K + S)"}, parameters={"K": (0.01, 10)})


def substrate(starts=(2.0, 4.0), noise=0.02, samples=200, horizon=6.0):
    law = cindy.Model([[-1.2]], cindy.Custom({"uptake": "S/(0.37 + S)"}), ("S",))
    t, rng = np.linspace(0, horizon, samples), np.random.default_rng(1)
    exact = [law.simulate([start], t).x for start in starts]
    return [cindy.Trajectory(t, x + noise * rng.standard_normal(x.shape), ("S",)) for x in exact]


@pytest.fixture(scope="module")
def found():
    return cindy.identify(substrate(), cindy.Polynomial(2) + UPTAKE)


def test_the_right_term_and_its_parameter_are_found_within_three_errors(found):
    assert np.array_equal(found.coef.ravel() != 0, [False, False, False, True])
    for value, error, truth in (
        (found.coef[3, 0], found.coef_error[3, 0], -1.2),
        (*found.parameters["K"], 0.37),
    ):
        assert abs(value - truth) < 3 * error < 0.15 * abs(truth)


def test_coefficients_and_parameters_have_one_covariance(found):
    assert found.covariance.shape == (2, 2)
    error = np.sqrt(np.diagonal(found.covariance))
    assert np.allclose(error, [found.coef_error[3, 0], found.parameters["K"].error])
    # A larger K is made up for by a faster uptake, whose coefficient is negative.
    assert found.covariance[0, 1] < -0.5 * error[0] * error[1]


@pytest.mark.parametrize("rule", ["terms:2", "cv:5", "discrepancy"])
def test_a_rule_without_a_price_picks_beside_an_unknown_parameter(rule):
    model = cindy.identify(substrate(samples=120), cindy.Polynomial(1) + UPTAKE, selection=rule)
    assert model.size == (2 if rule == "terms:2" else 1)
    assert model.parameters["K"].value == pytest.approx(0.37, abs=4 * model.parameters["K"].error)
    assert model.settings["selection"] != "Significance()"


def test_a_file_keeps_parameters_values_and_ranges(found, tmp_path):
    found.save(tmp_path / "model.json")
    again = cindy.load(tmp_path / "model.json")
    assert again.parameters == found.parameters
    assert again.basis == found.basis
    assert np.array_equal(again.covariance, found.covariance)
    assert np.array_equal(again.predict([[1.0]]), found.predict([[1.0]]))
    assert again.to_text() == found.to_text()


def test_a_file_keeps_the_parameters_of_every_model_that_was_compared(found, tmp_path):
    found.save(tmp_path / "model.json")
    loaded = cindy.load(tmp_path / "model.json")
    assert len({model.parameters["K"].value for model in found.near}) > 1
    for mine, theirs in zip([*found.near, *found.path], [*loaded.near, *loaded.path], strict=True):
        assert theirs.parameters == mine.parameters
        np.testing.assert_array_equal(theirs.predict([[0.5]]), mine.predict([[0.5]]))


def test_a_model_without_the_parameter_has_a_report_too(found):
    without = found.with_coef({("S", "uptake"): 0.0, ("S", "S"): -0.3})
    page = cindy.report.render(cindy.Model(without.coef, without.basis, ("S",)), substrate())
    assert "cindyTerms" in page


def test_a_damaged_parameter_in_a_file_gets_a_sentence(found):
    from cindy.model.model_file import from_dict

    plain = found.to_dict()
    plain["parameters"]["K"] = "__import__('os')"
    with pytest.raises(cindy.DataError, match='parameter "K" must be'):
        from_dict(plain)


def test_every_export_holds_the_fitted_value(found):
    value = repr(found.parameters["K"].value)
    assert value in found.to_c()
    assert value in found.to_python()
    assert value in found.to_sbml()
    assert r"\frac{S}{K + S}" in found.to_latex()
    assert "K &= 0.3" in found.to_latex()
    assert found.to_text().splitlines()[-1].startswith("K")
    assert len(found.equations()) == 1
    expression = pytest.importorskip("sympy") and found.to_sympy()[0]
    assert np.isclose(float(expression.subs("S", 2.0)), found.predict([2.0])[0])


@pytest.mark.parametrize(
    "formula", ["S/(K + S)", "S^n/(K^n + S^n)", "exp(-S/K)", "sin(n*S + K)", "tanh(S/K)*S"]
)
def test_the_slope_by_a_parameter_is_that_of_differences(formula):
    names = ("K", "n") if "n*" in formula or "^n" in formula else ("K",)
    basis = cindy.Custom({"f": formula}, parameters=dict.fromkeys(names, (0.1, 5.0)))
    x, here = np.linspace(0.2, 3, 20)[:, None], dict(zip(names, (0.7, 1.9), strict=False))
    for name in names:
        up, down = ({**here, name: here[name] + h} for h in (1e-6, -1e-6))
        difference = (basis.at(up).evaluate(x, ("S",)) - basis.at(down).evaluate(x, ("S",)))[:, 0] / 2e-6
        term = basis.at(here).terms(("S",))[0]
        slope = np.zeros(len(x))
        for factor, part in differentiate_by_parameter(term, name, ("S",)):
            slope += factor * part[0].expression.evaluate({"S": x[:, 0]})
        assert np.allclose(slope, difference, rtol=1e-6, atol=1e-8)


def test_two_equations_share_a_parameter_and_obey_a_law():
    t, rng = np.linspace(0, 8, 200), np.random.default_rng(2)
    law = cindy.Model([[-1.5, 1.5]], cindy.Custom({"f": "x/(0.7 + x)"}), ("x", "y"))
    exact = [law.simulate(x0, t).x for x0 in ([3.0, 0.2], [6.0, 1.0])]
    data = [cindy.Trajectory(t, x + 0.02 * rng.standard_normal(x.shape), ("x", "y")) for x in exact]
    basis = cindy.Polynomial(1) + cindy.Custom({"f": "x/(K + x)"}, parameters={"K": 0.5})
    model = cindy.identify(data, basis, constraints=[cindy.conserve(["x", "y"])])
    assert np.array_equal(model.coef != 0, [[False] * 2] * 3 + [[True] * 2])
    assert abs(model.coef[3].sum()) < 1e-9
    assert abs(model.parameters["K"].value - 0.7) < 3 * model.parameters["K"].error


def test_a_radius_that_does_not_bind_changes_nothing(found):
    free = cindy.identify(substrate(), cindy.Polynomial(2) + UPTAKE, radius=2 * found.radius)
    assert np.array_equal(free.coef, found.coef)
    assert free.parameters == found.parameters
    assert free.warnings == found.warnings


def test_a_radius_that_binds_keeps_the_coefficients_smaller(found):
    bound = cindy.identify(substrate(), cindy.Polynomial(2) + UPTAKE, radius=0.05 * found.radius)
    assert np.sum(np.abs(bound.coef)) < 0.6 * np.sum(np.abs(found.coef))
    assert any("The radius" in said for said in bound.warnings)


def test_a_measurement_below_zero_does_not_keep_a_power_from_being_found():
    t, rng = np.linspace(0, 3, 300), np.random.default_rng(4)
    exact = [((start**-0.5 + 0.6 * t) ** -2)[:, None] for start in (1.0, 2.0)]
    data = [cindy.Trajectory(t, x + 0.06 * rng.standard_normal(x.shape), ("x",)) for x in exact]
    assert min(one.x.min() for one in data) < 0
    loss = cindy.Custom({"loss": "x^n"}, parameters={"n": (1.1, 4)})
    model = cindy.identify(data, cindy.Polynomial(1) + loss)
    assert np.array_equal(model.coef.ravel() != 0, [False, False, True])
    assert abs(model.parameters["n"].value - 1.5) < 3 * model.parameters["n"].error < 0.3
    assert any("A term is not defined at" in said for said in model.warnings)
    assert model.explained["equations"] > 0.9
    assert model.score(data) > 0.9
    assert "loss" in pytest.importorskip("cindy.report").render(model, data)


def test_a_law_that_needs_not_all_parameters_is_complete_without_them():
    other = cindy.Custom({"poison": "S*exp(-S/L)"}, parameters={"L": (0.1, 10)})
    model = cindy.identify(substrate(), UPTAKE + other)
    assert set(model.parameters) == {"K"}
    assert model.basis.unknowns() == ()
    assert model.explained["equations"] > 0.9
    assert "L" not in model.to_text()


def test_a_law_that_fits_almost_as_well_is_told_with_its_own_coefficients():
    # A little substrate: uptake, a straight line that bends, and S^2 beside S are much the same.
    model = cindy.identify(substrate(starts=(0.3,), noise=0.01), cindy.Polynomial(2) + UPTAKE)
    near = {tuple(np.flatnonzero(one.coef)): one for one in model.near}
    line, both = near[1, 2], near[2, 3]
    [rival] = [said for said in model.warnings if "would fit almost as well" in said]
    assert rival.startswith("With ")
    assert '"' not in rival
    assert line.parameters == {}
    # S/(K + S) = S/K − S²/K² + …, and two terms that are fitted lie between
    assert -1.2 / 0.37 < line.coef[1, 0] < -0.5 * 1.2 / 0.37
    own = both.parameters["K"].value
    assert own != model.parameters["K"].value
    assert both.predict([0.2])[0] == pytest.approx(
        both.coef[2, 0] * 0.04 + both.coef[3, 0] * 0.2 / (own + 0.2)
    )


def test_a_parameter_at_the_end_of_its_range_is_told():
    narrow = cindy.Custom({"uptake": "S/(K + S)"}, parameters={"K": (1, 10)})
    model = cindy.identify(substrate(), narrow)
    assert model.parameters["K"].value == pytest.approx(1.0)
    assert any("K sits at the end 1 of its range (1, 10)" in said for said in model.warnings)


def test_a_parameter_that_cannot_be_told_from_its_coefficient_is_told():
    t, rng = np.linspace(0, 3, 200), np.random.default_rng(3)
    S = 0.05 * np.exp(-t)[:, None]
    data = cindy.Trajectory(t, S + 5e-4 * rng.standard_normal(S.shape), ("S",))
    wide = cindy.Custom({"uptake": "S/(K + S)"}, parameters={"K": (0.01, 1000)})
    told = " ".join(cindy.identify(data, wide).warnings)
    assert "The parameter K" in told or "the parameter K" in told


def test_a_value_given_beforehand_is_kept():
    basis = UPTAKE.at({"K": 0.5})
    assert basis.unknowns() == ()
    model = cindy.identify(substrate(), basis)
    assert model.parameters == {}
    assert model.basis == basis


@pytest.mark.parametrize(
    ("parameters", "said"),
    [
        ({"K": (10, 0.01)}, "the lower first"),
        ({"K": (1, 1)}, "the lower first"),
        ({"K": (0, np.inf)}, "finite"),
        ({"K": "wide"}, "needs a range"),
        ({"K": 0}, "other than 0"),
        ({"K": (0.1, 1), "n": (1, 4)}, "no formula holds the parameter 'n'"),
        ({"sin": (0.1, 1)}, "has a meaning in formulas already"),
        ({"a b": (0.1, 1)}, "must be a word"),
        ([("K", (0.1, 1))], "must be a mapping"),
    ],
)
def test_a_bad_range_gets_a_sentence(parameters, said):
    with pytest.raises(cindy.DataError, match=said):
        cindy.Custom({"uptake": "S/(K + S)"}, parameters=parameters)


def test_a_name_without_a_range_is_told_how_to_get_one():
    with pytest.raises(cindy.DataError, match=r'parameters=\{"K": \(lower, upper\)\}'):
        cindy.Custom({"uptake": "S/(K + S)"}).names(("S",))


def test_a_variable_cannot_be_a_parameter_and_ranges_must_agree():
    with pytest.raises(cindy.DataError, match="cannot be a parameter too"):
        UPTAKE.names(("S", "K"))
    with pytest.raises(cindy.DataError, match="in two places"):
        (UPTAKE + cindy.Custom({"g": "S*K"}, parameters={"K": (1, 2)})).unknowns()


def test_a_term_with_a_pole_on_the_data_gets_a_sentence():
    t = np.linspace(0, 10, 200)
    data = cindy.Trajectory(t, np.stack([np.cos(t)], axis=1), ("S",))
    pole = cindy.Custom({"pole": "1/(K + S)"}, parameters={"K": (-0.5, 0.5)})
    with pytest.raises(cindy.DataError, match="has a pole on the data"):
        cindy.identify(data, pole)
    power = cindy.Custom({"power": "S^n"}, parameters={"n": (1.1, 1.9)})
    with pytest.raises(cindy.DataError, match="is not finite on the data"):
        cindy.identify(data, power)


def test_what_cannot_find_parameters_says_so():
    with pytest.raises(cindy.DataError, match="whose value is not known"):
        cindy.accumulate(substrate(), UPTAKE)
    with pytest.raises(cindy.DataError, match="cannot find the parameters K"):
        cindy.identify(substrate(), UPTAKE, formulation=cindy.Differential(smooth=None))


@pytest.mark.parametrize("ends", [(0.01, 10.0), (-10.0, -0.1), (-1.0, 2.0), (1.0, 1.5)])
def test_places_lead_to_values_and_back_inside_the_range(ends):
    one = Parameter("K", *ends)
    grid = one.grid(5)
    assert all(one.lower <= value <= one.upper for value in grid)
    for value in grid[1:-1]:
        assert one.value(one.place(value)) == pytest.approx(value)
        step = (one.value(one.place(value) + 1e-7) - one.value(one.place(value) - 1e-7)) / 2e-7
        assert step == pytest.approx(one.slope(value), rel=1e-5)


@pytest.mark.parametrize(
    "basis",
    [UPTAKE, cindy.Polynomial(1) + UPTAKE, UPTAKE.on("S"), cindy.Derivatives(1, 1, of=UPTAKE)],
)
def test_a_value_for_a_parameter_that_is_not_there_is_refused(basis):
    with pytest.raises(cindy.DataError, match="'k' is no parameter"):
        basis.at({"k": 0.5})
    assert basis.at({"K": 0.5}).unknowns() == ()
    assert basis.at({"K": 0.5}).at({"K": 0.4}).unknowns() == ()


def test_a_basis_without_parameters_takes_no_values():
    with pytest.raises(cindy.DataError, match="It has no parameters"):
        cindy.Polynomial(2).at({"K": 1.0})


def uptake_in_space():
    """u_t = 0.05 u_xx − 1.5 u/(0.5 + u), v_t = 0.05 v_xx + 1.5 u/(0.5 + u) − 0.5 v on a ring."""
    t, x = np.linspace(0, 4, 60), np.linspace(0, 2 * np.pi, 32, endpoint=False)
    wave = np.fft.rfftfreq(32, 1 / 32)

    def slope(states):
        u, v = states[:, :32], states[:, 32:]
        spread = [np.fft.irfft(-0.05 * wave**2 * np.fft.rfft(field), 32) for field in (u, v)]
        eaten = 1.5 * u / (0.5 + u)
        return np.concatenate([spread[0] - eaten, spread[1] + eaten - 0.5 * v], axis=1)

    start = np.concatenate([1.5 + 0.8 * np.cos(x) + 0.2 * np.sin(3 * x), 0.5 + 0.3 * np.sin(2 * x)])
    exact = integrate(slope, start[None], t)[:, 0]
    exact += 0.01 * np.random.default_rng(3).standard_normal(exact.shape)
    return {"u": exact[:, :32], "v": exact[:, 32:], "t": t, "x": x}


def test_a_parameter_that_two_equations_of_fields_share_is_found():
    uptake = cindy.Custom({"uptake": "u/(K + u)"}, parameters={"K": (0.05, 5)})
    model = cindy.identify(cindy.Field(**uptake_in_space()), cindy.Derivatives(1, 2, of=uptake))
    kept = [
        (state, term)
        for i, term in enumerate(model.terms)
        for j, state in enumerate("uv")
        if model.coef[i, j]
    ]
    assert sorted(kept) == [("u", "u_xx"), ("u", "uptake"), ("v", "uptake"), ("v", "v"), ("v", "v_xx")]
    assert abs(model.parameters["K"].value - 0.5) < 3 * model.parameters["K"].error < 0.1
    place = model.terms.index("uptake")
    assert np.all(np.abs(np.abs(model.coef[place]) - 1.5) < 3 * model.coef_error[place])
    # Five coefficients, and K, which is made up for by the rate of uptake.
    assert model.covariance.shape == (6, 6)
    assert np.sqrt(model.covariance[5, 5]) == pytest.approx(model.parameters["K"].error)
    assert model.basis.unknowns() == ()


def test_the_slope_of_a_derivative_in_space_by_a_parameter_is_the_derivative_of_the_slope():
    basis = cindy.Derivatives(1, 1, of=UPTAKE).on_axes(("x",))
    ((weight, slope),) = differentiate_by_parameter(basis.terms(("S",))[-1], "K", ("S",))
    assert weight == 1.0
    assert term_name(slope) == "(d(uptake)/d(K))_x"


def test_a_parameter_of_fields_that_moves_its_term_as_another_does_is_told():
    line = cindy.Custom({"line": "K*u + u/(0.5 + u)"}, parameters={"K": (0.1, 0.2)})
    field = cindy.Field(**{name: values for name, values in uptake_in_space().items() if name != "v"})
    held = cindy.bound("u", "u", lower=0.01)
    model = cindy.identify(field, cindy.Derivatives(1, 2, of=line), constraints=[held])
    assert any("K cannot be told from the coefficients beside it" in said for said in model.warnings)


def test_the_command_line_finds_shows_and_reports_a_parameter(tmp_path, monkeypatch, capsys):
    rows = [(one.t[k], one.x[k, 0], run) for run, one in enumerate(substrate(samples=80)) for k in range(80)]
    np.savetxt(tmp_path / "uptake.csv", rows, delimiter=",", header="t,S,run", comments="")
    typed = "fit uptake.csv --by run --basis poly:1 --parameter K=0.01:10 --report page.html"
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "argv", ["cindy", *typed.split(), "--term", "uptake=S/(K + S)"])
    with contextlib.suppress(SystemExit):
        main()
    assert re.search(r"^  K  =  0\.3\d*\(\d+\)$", capsys.readouterr().out, flags=re.M)
    page = (tmp_path / "page.html").read_text(encoding="utf-8")
    assert '<mi class="v">K</mi><mo>+</mo><mi class="v">S</mi>' in page
    assert '<math><mi class="v">K</mi><mo>=</mo></math>' in page


@pytest.mark.parametrize("text", ["K", "K=", "=1:2", "K=1:2:3", "K=a:b"])
def test_a_range_that_cannot_be_read_is_named(text):
    with pytest.raises(cindy.DataError, match="--parameter"):
        FitSettings(parameter=[text]).parameters()


def test_the_law_is_found_from_a_model_with_other_terms_in_every_equation():
    def force(t, z):
        return [0.5 - 1.2 * z[0] / (0.4 + z[0]), 1.2 * z[0] / (0.4 + z[0]) - 0.7 * z[1]]

    t = np.linspace(0, 6, 80)
    rng = np.random.default_rng(3)
    data = []
    for start in ((2.0, 0.2), (0.1, 2.0)):
        x = solve_ivp(force, (0, 6), start, t_eval=t, rtol=1e-9, atol=1e-9).y.T
        data.append(cindy.Trajectory(t, x + 0.02 * rng.standard_normal(x.shape), ("x", "y")))
    basis = cindy.Polynomial(1) + cindy.Custom({"uptake": "x/(K + x)"}, {"K": (0.05, 5)})
    names = basis.names(("x", "y"))
    motion = cindy.Integral().motion(data, basis)
    rows = Rows.none(2 * len(names))
    state = ParametricSearch(motion, Options(rows, (), price=9.0), groups=groups_of(motion))
    variance = np.full(2, 4e-4)

    def met(law):
        support = np.array(sorted(2 * names.index(term) + "xy".index(eq) for eq, term in law))
        begin = start_of(motion, support[:0], np.zeros(0), variance)
        move = Move(support, np.zeros(len(support)), {"K": 1.0}, np.nan)
        return state.fit(state.start(begin, move), LEVELS)

    assert met([("x", "x"), ("y", "1"), ("y", "x")])
    state.look_around()
    best = state.models[0]
    assert {(("x", "y")[k % 2], names[k // 2]) for k in best.support} == {
        ("x", "1"),
        ("x", "uptake"),
        ("y", "uptake"),
        ("y", "y"),
    }


def test_coefficients_that_constraints_hold_at_zero_are_no_terms():
    """A constant in S' alone cannot stand beside S + P = const: with it the law is the same at no price."""
    data = [
        cindy.Trajectory(run.t, np.hstack([run.x, run.x[0, 0] - run.x]), ("S", "P")) for run in substrate()
    ]
    noise = 0.02 * np.random.default_rng(3).standard_normal((len(data), len(data[0]), 1))
    data = [
        cindy.Trajectory(run.t, run.x + np.hstack([0 * e, e]), run.states)
        for run, e in zip(data, noise, strict=True)
    ]
    model = cindy.identify(data, cindy.Polynomial(1) + UPTAKE, constraints=[cindy.conserve(["S", "P"])])
    count = np.count_nonzero(model.coef)
    assert model.covariance.shape == (count + 1, count + 1)
    assert np.all(np.diagonal(model.covariance) > 0)
