"""The command line: what it prints, what it writes, and how it refuses."""

import contextlib
import os
import re
import subprocess
import sys
from dataclasses import fields, replace

import numpy as np
import pytest
from hypothesis import given, strategies as st

import cindy
from cindy.cli import screen, texts
from cindy.cli.app import main
from cindy.cli.commands import levels
from cindy.cli.screen import as_typed
from cindy.cli.settings import FitSettings, read_settings
from cindy.errors import CindyError, ConstraintError, DataError
from cindy.findings import Finding
from cindy.identification import (
    basis_from_text,
    correction_from_text,
    name_list,
    selection_from_text,
    weights_from_text,
)
from cindy.model.model import Model, Path
from cindy.solver import Run
from cindy.systems import lorenz
from cindy.systems.catalogue import KINETICS, kinetics


@pytest.fixture
def cli(capsys, monkeypatch, tmp_path):
    """Runs a command in an empty folder; gives its status, its output and its complaints."""
    monkeypatch.chdir(tmp_path)

    def run(*arguments):
        monkeypatch.setattr(sys, "argv", ["cindy", *map(str, arguments)])
        status = 0
        try:
            main()
        except SystemExit as end:
            status = end.code or 0
        captured = capsys.readouterr()
        return status, captured.out, captured.err

    return run


@pytest.fixture
def model_file(tmp_path):
    system = lorenz()
    model = Model(
        system.coef,
        system.basis,
        system.states,
        coef_error=np.abs(system.coef) * 1e-3,
        noise=[0.1, 0.2, 0.3],
        gap=1e-5,
        radius=4.0,
        constraints=("x + y is conserved",),
        findings=(Finding("uncoded", "a word of caution"),),
        result=Run(1e-7, 2.0, "converged", 12, 15, 0.05),
    )
    smaller = model.with_coef({("y", "x z"): 0.0})
    model = replace(model, path=Path((smaller, model), (2.0, 1.0), 1))
    model.save(tmp_path / "model.json")
    return tmp_path / "model.json"


# ── texts ──


@pytest.mark.parametrize(
    ("text", "made"),
    [
        ("poly:3", cindy.Polynomial(3)),
        ("poly", cindy.Polynomial(2)),
        ("poly:2:nobias", cindy.Polynomial(2, bias=False)),
        ("trig:2", cindy.Trigonometric(2)),
        ("fourier:1,2.5", cindy.Fourier([1, 2.5])),
        ("poly:2 + trig:1@x,y", cindy.Polynomial(2) + cindy.Trigonometric(1).on("x", "y")),
        ("fourier:2*poly:1+poly:1", cindy.Fourier([2]) * cindy.Polynomial(1) + cindy.Polynomial(1)),
    ],
)
def test_a_basis_is_typed_as_it_is_thought(text, made):
    assert basis_from_text(text) == made


def test_further_terms_are_formulas():
    settings = FitSettings(term=["decay=x*exp(-y)", "sqrt(x)"])
    assert settings.terms() == {"decay": "x*exp(-y)", "sqrt(x)": "sqrt(x)"}
    made = basis_from_text("poly:1", settings.terms())
    assert made.names(("x", "y")) == ("1", "x", "y", "decay", "sqrt(x)")


@pytest.mark.parametrize(
    ("text", "sentence"),
    [
        ("ploy:3", 'no "ploy". Did you mean "poly"'),
        ("poly:x", '"x" is not a number'),
        ("poly:2.5", "not a whole number"),
        ("poly:2:odd", '"nobias" or "nointeraction"'),
        ("", "expected a basis"),
        ("poly:2 +", 'there is no ""'),
        ("poly:2@", "names separated by commas"),
    ],
)
def test_a_basis_that_does_not_exist_is_refused(text, sentence):
    with pytest.raises(DataError) as caught:
        basis_from_text(text)
    assert sentence in str(caught.value)


def test_times_include_their_end_where_a_step_meets_it():
    assert len(texts.times("0:20:0.01")) == 2001
    assert texts.times("0:1:0.1")[-1] == pytest.approx(1.0)
    assert texts.times("0:1:0.3").tolist() == pytest.approx([0, 0.3, 0.6, 0.9])
    assert texts.times("0,1,5").tolist() == [0.0, 1.0, 5.0]
    for bad in ("10", "0:1", "1:0:0.1", "0:1:0", "0:1:x", "0:1e99:1"):
        with pytest.raises(DataError, match=r"--t: (times are|expected|.*samples)"):
            texts.times(bad)


def test_a_start_is_given_by_place_or_by_name():
    states = ("x", "y")
    assert texts.start("1,2", states, "--x0").tolist() == [1.0, 2.0]
    assert texts.start("y = 2, x = 1", states, "--x0").tolist() == [1.0, 2.0]
    with pytest.raises(DataError, match='no state "z"'):
        texts.start("z=2,x=1", states, "--x0")
    with pytest.raises(DataError, match="no value for y"):
        texts.start("x=1", states, "--x0")


@pytest.mark.parametrize(
    ("text", "parts"),
    [
        ("S + ES + P", [(1, "S"), (1, "ES"), (1, "P")]),
        ("S+ES-P", [(1, "S"), (1, "ES"), (-1, "P")]),
        ("2 A - 0.5*B", [(2, "A"), (-0.5, "B")]),
        ("-A + 1e-3 B", [(-1, "A"), (1e-3, "B")]),
        ("Ca2+ + Na+", [(1, "Ca2+"), (1, "Na+")]),
        ("x:x y - 2 z:sin(x) cos(y)", [(1, "x:x y"), (-2, "z:sin(x) cos(y)")]),
    ],
)
def test_a_sum_is_read_with_its_numbers(text, parts):
    assert texts._sum(text, "here") == parts


@pytest.mark.parametrize(
    ("kind", "text"),
    [
        ("conserve", "S + 3"),
        ("conserve", "S ± 0.1"),
        ("exchange", "x1"),
        ("exchange", "x1,x2:some"),
        ("fix", "x:y"),
        ("fix", "x=1"),
        ("fix", "x:y>=1"),
        ("bound", "x:y"),
        ("bound", "x:y=3"),
        ("tie", "x:y"),
        ("tie", "x:y = "),
        ("linear", "x:y + y:x"),
        ("linear", "x <= 3"),
    ],
)
def test_a_law_that_cannot_be_read_is_refused_with_an_example(kind, text):
    with pytest.raises(ConstraintError, match=f'--{kind} "'):
        texts.KINDS[kind](text)


PARSERS = [
    basis_from_text,
    texts.formulation,
    selection_from_text,
    correction_from_text,
    weights_from_text,
    texts.times,
    levels,
    lambda text: texts.start(text, ("x", "y"), "--x0"),
    lambda text: name_list(text, "--states"),
    *texts.KINDS.values(),
]
PIECES = [
    "x",
    "y",
    "S",
    "poly",
    "trig",
    "fourier",
    "terms",
    "cv",
    ":",
    ",",
    "+",
    "-",
    "*",
    "=",
    "<=",
    ">=",
    "@",
    "±",
]
PIECES += [" ", "1", "2", "1e400", "-0", "nan", "inf", "(", "all", "x:y", "", "\x00", "é"]


@given(st.one_of(st.text(max_size=20), st.lists(st.sampled_from(PIECES), max_size=8).map("".join)))
def test_whatever_is_typed_is_understood_or_refused_in_a_sentence(text):
    for parse in PARSERS:
        with contextlib.suppress(CindyError):
            parse(text)


# ── cindy.toml ──


def test_what_is_typed_overrules_the_file(tmp_path):
    file = tmp_path / "cindy.toml"
    file.write_text('[fit]\nbasis = "poly:3"\ntime = "s"\nconserve = "A + B"\ntol = 1\n[other]\nx = 1\n')
    settings = read_settings(file, {"time": "t", "by": None, "conserve": []})
    assert (settings.basis, settings.time, settings.conserve, settings.tol) == ("poly:3", "t", ["A + B"], 1)
    file.write_text('data = ["a.csv"]\norder = 2\n')
    assert read_settings(file, {}).order == 2


@pytest.mark.parametrize(
    ("text", "sentence"),
    [
        ("basis = 3", "basis must be a text"),
        ('order = "2"', "order must be a whole number"),
        ("order = true", "order must be a whole number"),
        ("conserve = [1]", "a text or a list of texts"),
        ('bsais = "poly:2"', 'no option "bsais". Did you mean "basis"'),
        ("basis = ", "Cannot read the settings"),
        ("fit = 3", "must be a table"),
    ],
)
def test_a_file_of_options_is_checked(text, sentence, tmp_path):
    file = tmp_path / "cindy.toml"
    file.write_text(text)
    with pytest.raises(DataError) as caught:
        read_settings(file, {})
    assert sentence in str(caught.value)


# ── show and simulate ──


def test_show_prints_equations_path_and_certificate(cli, model_file):
    status, out, err = cli("show", model_file)
    assert status == 0
    assert "x' = -10.00(1) x + 10.00(1) y\n" in out
    assert "+ x z in y'" in out
    assert "x + y is conserved" in out
    assert "converged, 12 iterations" in out
    assert err == "Warning: a word of caution\n"


def test_a_model_without_findings_says_so(cli, tmp_path):
    Model([[0.0], [-1.0]], cindy.Polynomial(1), ("x",)).save(tmp_path / "m.json")
    status, out, err = cli("show", "m.json")
    assert (status, err) == (0, "")
    assert "No warnings." in out


def test_show_lists_the_models_that_are_near(cli, tmp_path):
    model = Model([[0.0], [-1.0], [0.0]], cindy.Polynomial(2), ("x",))
    other = model.with_coef({("x", "x"): 0.0, ("x", "x^2"): -1.0})
    replace(model, near=Path((model, other), (0.0, 3.25), 0, "−2 log p")).save(tmp_path / "m.json")
    status, out, _ = cli("show", "m.json", "--near")
    assert status == 0
    assert re.search(r"3\.2\s+1\s+\+ x\^2 in x', − x in x'", out)


def test_the_report_of_a_field_needs_no_name_for_its_time_as_the_fit_did_not(cli, tmp_path):
    xarray = pytest.importorskip("xarray")
    x, time = np.arange(48) * 2 * np.pi / 48, np.linspace(0, 1, 40)
    u = np.sin(x - time[:, None]) + 0.5 * np.cos(2 * (x - time[:, None]))
    data = xarray.Dataset({"u": (("time", "x"), u)}, {"time": time, "x": x})
    data.to_netcdf(tmp_path / "u.nc", engine="h5netcdf")
    assert cli("fit", "u.nc", "--periodic", "x", "--out", "m.json")[0] == 0
    status, _, err = cli("report", "m.json", "u.nc", "--periodic", "x", "--out", "page.html")
    assert (status, err) == (0, "")


def test_report_compares_a_saved_model_with_data(cli, tmp_path):
    Model([[0.0], [-1.0]], cindy.Polynomial(1), ("x",)).save(tmp_path / "m.json")
    (tmp_path / "data.csv").write_text(DECAY)
    status, out, err = cli("report", "m.json", "data.csv", "--out", "page.html")
    assert (status, err) == (0, "")
    assert "page.html" in out
    assert (tmp_path / "page.html").read_text(encoding="utf-8").lstrip().startswith("<!")


def test_report_holds_the_inputs_of_a_file_as_the_model_does(cli, tmp_path):
    t, u = np.arange(0.0, 20.0, 0.5), np.arange(40) // 2 % 2
    law = Model([[0.0], [-1.0], [1.0]], cindy.Polynomial(1), ("x",), inputs=("u",), settings={"hold": "zero"})
    x = law.simulate([1.0], t, u).x[:, 0]
    law.save(tmp_path / "m.json")
    rows = [f"{when},{value!r},{drive}" for when, value, drive in zip(t, x.tolist(), u, strict=True)]
    (tmp_path / "data.csv").write_text("\n".join(["t,x,u", *rows]))
    assert cli("report", "m.json", "data.csv", "--out", "page.html")[0] == 0
    page = (tmp_path / "page.html").read_text(encoding="utf-8")
    assert "<dt>R² of the solutions</dt><dd>1.000000</dd>" in page


def test_errors_speak_of_options_and_not_of_arguments(cli, tmp_path):
    (tmp_path / "data.csv").write_text("a,b\n1,2\n2,3\n")
    status, _, err = cli("fit", "data.csv")
    assert status == 2
    assert "--time" in err
    assert "`time`" not in err
    assert (
        as_typed("with formulation=Integral(order=2, rates=True).") == "with --formulation integral:2:rates."
    )
    assert as_typed("Try `Integral(order=2)`, or Discrete().") == (
        "Try --formulation integral:2, or --formulation discrete."
    )
    assert as_typed('joined by `time=("date", "clock")`.') == "joined by --time date,clock."
    assert as_typed("Give `passes=1`, or passes=2; see model.near.") == (
        "Give --passes 1, or --passes 2; see cindy show --near."
    )


def test_a_state_that_nobody_measured_a_known_equation_and_read_outs_are_options(cli, tmp_path):
    t = np.linspace(0, 12, 500)
    x, v = np.exp(-0.1 * t) * np.cos(2 * t), -2 * np.exp(-0.1 * t) * np.sin(2 * t)
    noise = 1e-3 * np.random.default_rng(0).standard_normal((500, 2))
    rows = "\n".join(f"{a},{b},{c}" for a, b, c in zip(t, x + noise[:, 0], x + v + noise[:, 1], strict=True))
    (tmp_path / "data.csv").write_text("t,x,total\n" + rows)
    written = ("--basis", "poly:1", "--out", "m.json")
    asked = ("--states", "x", "--hidden", "w", "--known", "x=w")
    assert cli("fit", "data.csv", *asked, *written)[0] == 0
    hidden = cindy.load(tmp_path / "m.json")
    assert hidden.states == ("x", "w")
    assert hidden.coef[hidden.terms.index("x"), 1] == pytest.approx(-4.01, abs=0.05)
    assert cli("fit", "data.csv", "--observe", "x=x", "--observe", "total=x + v", *written)[0] == 0
    assert cindy.load(tmp_path / "m.json").states == ("x", "v")
    status, _, err = cli("fit", "data.csv", "--known", "x", *written)
    assert status == 2
    assert '--known "x": expected a name and a formula' in err


def test_a_parameter_is_aligned_with_the_equations(cli, tmp_path):
    basis = cindy.Custom({"uptake": "S/(K + S)"}, parameters={"K": 0.37})
    model = Model([[-1.0, 1.0]], basis, ("S", "P"), parameters={"K": (0.37, 0.005)})
    model.save(tmp_path / "uptake.json")
    _, out, _ = cli("show", tmp_path / "uptake.json")
    lines = [line for line in out.splitlines() if re.match(r"  (S'|P'|K) ", line)]
    assert len({line.index("=") for line in lines}) == 1
    assert len({re.search(r"\d", line).start() for line in lines}) == 1
    assert [line.split()[0] for line in lines] == ["S'", "P'", "K"]


def test_every_setting_is_an_option_with_a_help_text(cli):
    status, out, _ = cli("fit", "--help")
    assert status == 0
    for field in fields(FitSettings):
        assert field.name == "data" or (
            f"--{field.name.replace('_', '-')} " in out and field.metadata["help"]
        )
    assert "cindy fit data.csv" in out


@pytest.mark.parametrize("form", ["latex", "python", "c", "sympy", "sbml"])
def test_show_prints_source_and_nothing_else(cli, model_file, form):
    status, out, err = cli("show", model_file, f"--{form}")
    assert (status, err) == (0, "")
    if form == "python":
        names = {}
        exec(out, names)
        assert names["rhs"](0.0, [1.0, 2.0, 3.0]) == pytest.approx(lorenz().rhs(np.array([1.0, 2.0, 3.0])))
    else:
        assert {"latex": r"\dot{x}", "c": "double", "sympy": "x' = -10.0*x", "sbml": "<sbml"}[form] in out


def test_simulate_writes_a_table_that_can_be_read_again(cli, model_file, tmp_path):
    status, out, err = cli(
        "simulate", model_file, "--x0", "x=1,y=0,z=25", "--t", "0:1:0.01", "--out", "sim.csv"
    )
    assert (status, out, err) == (0, "", "")
    (found,) = cindy.read(tmp_path / "sim.csv")
    exact = cindy.load(model_file).simulate([1, 0, 25], np.linspace(0, 1, 101))
    np.testing.assert_allclose(found.x, exact.x, rtol=1e-9)
    assert cli("simulate", model_file, "--x0", "1,0,25", "--t", "0:0.1:0.1")[1].startswith(
        "t,x,y,z\n0,1,0,25\n"
    )


def test_simulate_says_where_a_solution_ends(cli, tmp_path):
    Model(np.array([[0.0], [0.0], [1.0]]), cindy.Polynomial(2), ("x",)).save(tmp_path / "m.json")
    status, out, err = cli("simulate", "m.json", "--x0", "1", "--t", "0:2:0.5")
    assert status == 0
    assert len(out.splitlines()) == 3
    assert "x blew up at t = 1" in err


def test_simulate_takes_inputs_from_a_file(cli, tmp_path):
    driven = Model(np.array([[0.0], [-1.0], [1.0]]), cindy.Polynomial(1), ("x",), inputs=("u",))
    driven.save(tmp_path / "m.json")
    (tmp_path / "u.csv").write_text("t,u\n0,0\n2,2\n")
    status, out, _ = cli("simulate", "m.json", "--x0", "0", "--t", "0:2:1", "--inputs", "u.csv")
    assert status == 0
    assert float(out.splitlines()[-1].split(",")[1]) == pytest.approx(1 + np.exp(-2), abs=1e-6)
    assert cli("simulate", "m.json", "--x0", "0", "--t", "0:3:1", "--inputs", "u.csv")[0] == 2


def test_simulate_takes_the_coefficients_of_the_run_that_is_named(cli, tmp_path):
    drag = cindy.PerRun(cindy.Custom({"drag": "x"}))
    apart = Model(np.array([[-1.0], [-2.0]]), drag, ("x",), inputs=("[a]", "[b]"))
    apart.save(tmp_path / "m.json")
    arguments = ("simulate", "m.json", "--x0", "1", "--t", "0:1:0.5")
    status, out, _ = cli(*arguments, "--run", "b")
    assert status == 0
    assert float(out.splitlines()[-1].split(",")[1]) == pytest.approx(np.exp(-2), abs=1e-6)
    status, _, err = cli(*arguments)
    assert status == 2
    assert "--run" in err
    assert "'a', 'b'" in err


def test_fit_takes_several_columns_that_tell_runs_apart(cli, tmp_path):
    t = 0.1 * np.arange(60)
    rows = [
        f"{who},{dose},{s:.2f},{(k + dose) * np.exp(-s):.12g}"
        for k, who in enumerate("ab")
        for dose in (1, 2)
        for s in t
    ]
    (tmp_path / "runs.csv").write_text("\n".join(["who,dose,t,x", *rows]))
    status, out, _ = cli("fit", "runs.csv", "--by", "who, dose", "--basis", "poly:1", "--out", "m.json")
    assert status == 0
    assert "4 trajectories" in out
    assert cli("report", "m.json", "runs.csv", "--by", "who,dose", "--out", "r.html")[0] == 0
    assert "who b, dose 2" in (tmp_path / "r.html").read_text()


def test_fit_counts_dates_in_the_unit_that_is_named(cli, tmp_path):
    rows = [f"2024-05-{k + 1:02},{np.exp(-0.1 * k):.12g}" for k in range(30)]
    (tmp_path / "daily.csv").write_text("\n".join(["date,x", *rows]))
    arguments = ("fit", "daily.csv", "--basis", "poly:1", "--out", "m.json")
    status, out, _ = cli(*arguments, "--time-unit", "day")
    assert status == 0
    assert "t = 0 … 29 days" in out
    assert cindy.load(tmp_path / "m.json").coef[1, 0] == pytest.approx(-0.1, rel=1e-3)
    assert cli("report", "m.json", "daily.csv", "--time-unit", "day", "--out", "r.html")[0] == 0
    assert '--time-unit must be "second", "minute"' in cli(*arguments, "--time-unit", "dya")[2]


def test_fit_corrects_a_delay(cli, tmp_path):
    t = 0.05 * np.arange(200)
    x = np.column_stack([np.cos(t), -np.sin(t - 0.02)])
    np.savetxt(tmp_path / "late.csv", np.column_stack([t, x]), delimiter=",", header="t,q,p", comments="")
    arguments = ("fit", "late.csv", "--basis", "poly:1", "--out", "m.json")
    assert cli(*arguments, "--delay", "p=0.02")[0] == 0
    corrected = cindy.Trajectory(t, x, ("q", "p"), delay={"p": 0.02})
    expected = cindy.identify(corrected, cindy.Polynomial(1)).coef
    np.testing.assert_allclose(cindy.load(tmp_path / "m.json").coef, expected, rtol=1e-6)
    for wrong, told in (("p", "expected a name and a number"), ("v=1", "names 'v'"), ("p=so", "--delay")):
        status, _, err = cli(*arguments, "--delay", wrong)
        assert status == 2
        assert told in err


def test_simulate_names_the_inputs_that_are_missing_and_takes_the_name_of_their_time(cli, tmp_path):
    driven = Model(np.array([[0.0], [-1.0], [1.0]]), cindy.Polynomial(1), ("x",), inputs=("u",))
    driven.save(tmp_path / "m.json")
    status, _, err = cli("simulate", "m.json", "--x0", "0", "--t", "0:2:1")
    assert status == 2
    assert "the inputs u." in err
    assert "--inputs" in err
    (tmp_path / "u.csv").write_text("Uhr,u\n0,0\n2,2\n")
    arguments = ("simulate", "m.json", "--x0", "0", "--t", "0:2:1", "--inputs", "u.csv")
    assert "--time" in cli(*arguments)[2]
    assert cli(*arguments, "--time", "Uhr")[0] == 0


def test_fit_tells_units_of_time_and_hints_at_inputs_where_something_is_wrong(cli, tmp_path):
    t = np.arange(200)
    u = np.where(t // 40 % 2, 1.0, 0.0)
    x = [0.0]
    for value in u[:-1]:
        x.append(x[-1] + 0.05 * (value - x[-1]))
    x += 0.01 * np.random.default_rng(0).standard_normal(200)
    rows = [f"2026-01-01 00:{k // 60:02}:{k % 60:02},{a:.3f},{b:g}" for k, a, b in zip(t, x, u, strict=True)]
    (tmp_path / "oven.csv").write_text("\n".join(["time,x,u", *rows]))
    _, out, err = cli("fit", "oven.csv", "--basis", "poly:1")
    assert "200 samples over t = 0 … 199 s" in out
    assert "--inputs" in err
    _, _, err = cli("fit", "oven.csv", "--basis", "poly:1", "--inputs", "u", "--hold", "zero")
    assert "--inputs" not in err


def test_random_kicks_bring_the_hint_at_inputs_without_any_warning(capsys):
    calm = Model([[0.0], [-1.0]], cindy.Polynomial(1), ("pump",))
    kicked = replace(calm, findings=(Finding("random-forcing", "Random kicks drive pump.", {}),))
    for model, hinted in ((calm, False), (kicked, True)):
        screen.show_model(model, hint="Name the inputs.")
        shown = capsys.readouterr()
        assert "No warnings." in shown.out
        assert ("Hint: Name the inputs." in shown.err) is hinted


# ── fit and demo ──


def test_fit_goes_from_a_file_to_equations_and_files(cli, tmp_path):
    laws_told = ["--conserve", "E + ES", "--conserve", "S + ES + P"]
    arguments = ["--by", "run", "--out", "model.json", "--report", "report.html", "--figures", "figures"]
    status, out, err = cli("fit", KINETICS, *laws_told, *arguments)
    assert status == 0, err
    assert "24 trajectories, 1,224 samples over t = 0 … 5" in out
    model = cindy.load(tmp_path / "model.json")
    assert all(line in out for line in model.equations())
    np.testing.assert_array_equal(model.support, kinetics().coef != 0)
    assert model.violation < 1e-9
    assert "E + ES is conserved" in out
    assert (tmp_path / "report.html").read_text().lstrip().startswith("<!")
    images = sorted((tmp_path / "figures").glob("*.png"))
    assert len(images) >= 3
    assert all(image.read_bytes().startswith(b"\x89PNG") for image in images)
    assert not list(tmp_path.rglob("*.part"))


def test_fit_takes_its_options_from_cindy_toml(cli, tmp_path):
    (tmp_path / "cindy.toml").write_text(
        f'[fit]\ndata = "{KINETICS}"\nby = "run"\nbasis = "poly:1"\n'
        'selection = "terms:5"\npasses = 1\nout = "model.json"\n'
    )
    status, out, err = cli("fit", "--selection", "terms:4")
    assert status == 0, err
    assert "Options from cindy.toml" in out
    model = cindy.load(tmp_path / "model.json")
    assert (model.basis, model.size) == (cindy.Polynomial(1), 4)


def test_the_demonstration_finds_the_reaction(cli, tmp_path):
    status, out, err = cli("demo", "--out", "demo")
    assert status == 0, err
    assert "E + ES does not change" in out
    written = {file.name for file in (tmp_path / "demo").iterdir()}
    assert {"model.json", "report.html", "trajectories.png", "coefficients.png"} <= written
    model = cindy.load(tmp_path / "demo" / "model.json")
    np.testing.assert_array_equal(model.support, kinetics().coef != 0)
    off = np.abs(model.coef - kinetics().coef)[model.support] / model.coef_error[model.support]
    # Seven estimates of Student's t: beyond 4.5 would be one chance in ten thousand.
    assert np.all(off < 4.5)


def table(columns, rows):
    return "\n".join([columns, *(",".join(f"{v:.10g}" for v in row) for row in rows)]) + "\n"


T = np.linspace(0, 5, 60)
DECAY = table("t,x", np.column_stack([T, np.exp(-T)]))
TURN = table("t,x,y", np.column_stack([T, np.cos(T), -np.sin(T)]))

BAD_FITS = {
    "constant data": (table("t,x", [(t, 3.0) for t in T]), [], "constant"),
    "one sample": (table("t,x", [(0, 1)]), [], ""),
    "two samples": (table("t,x", [(0, 1), (1, 2)]), [], ""),
    "more terms than rows": (
        table("t,x,y", [(0, 1, 2), (1, 2, 3), (2, 4, 3), (3, 1, 2)]),
        ["--basis", "poly:3"],
        "",
    ),
    "no column of times": ("x,y\n1,2\n", [], '"t"'),
    "text for a number": ("t,x\n0,1\n1,abc\n", [], "abc"),
    "times that go back": (table("t,x", [(0, 1), (2, 2), (1, 3)]), [], "goes back"),
    "nothing": ("", [], ""),
    "an empty selection": (
        table("t,x", np.column_stack([T, np.random.default_rng(0).normal(size=60)])),
        ["--basis", "trig:1", "--selection", "significance:1e-12"],
        "no term",
    ),
    "a term without a value": (TURN, ["--term", "log(y)"], "log(y)"),
    "an unknown function": (TURN, ["--term", "os.system(y)"], ""),
    "an unknown variable": (TURN, ["--term", "z*y"], ""),
    "an unknown state in a law": (TURN, ["--conserve", "x + z"], '"z"'),
    "an unknown term in a law": (TURN, ["--fix", "x:x*y=1"], 'Did you mean "x y"'),
    "contradictory laws": (TURN, ["--fix", "x:y=1", "--fix", "x:y=2"], "exclude each other"),
    "a radius of zero": (DECAY, ["--radius", "0"], "positive"),
    "a negative radius": (DECAY, ["--radius", "-1"], "positive"),
    "a radius too small for the laws": (TURN, ["--fix", "x:y=1", "--radius", "1e-9"], "radius"),
    "a tolerance of zero": (DECAY, ["--tol", "0"], "positive"),
    "a negative tolerance": (DECAY, ["--tol", "-1e-3"], "positive"),
    "an order of three": (DECAY, ["--order", "3"], "order"),
    "a window of one sample": (DECAY, ["--window", "1"], "window"),
    "an unknown formulation": (DECAY, ["--formulation", "integrl"], 'Did you mean "integral"'),
    "a setting that does not apply": (DECAY, ["--formulation", "differential", "--window", "9"], "--window"),
    "an unknown rule": (DECAY, ["--selection", "aic"], "bic"),
    "a rule without its number": (DECAY, ["--selection", "terms"], "terms:7"),
    "an unknown column": (DECAY, ["--states", "x,z"], '"z"'),
    "an unknown column to separate by": (DECAY, ["--by", "run"], '"run"'),
}


@pytest.mark.parametrize(("text", "options", "sentence"), BAD_FITS.values(), ids=BAD_FITS.keys())
def test_a_fit_that_cannot_be_is_one_sentence_and_no_file(cli, tmp_path, text, options, sentence):
    (tmp_path / "data.csv").write_text(text)
    status, _, err = cli("fit", "data.csv", *options, "--out", "model.json")
    assert status == 2, err
    assert err.startswith("Error: ")
    assert sentence in err
    assert "Traceback" not in err
    assert [file.name for file in tmp_path.iterdir()] == ["data.csv"]


def test_noise_levels_are_spaced_by_their_logarithm():
    assert levels("1e-8:1e-2:13")[::6] == (1e-8, 1e-5, 1e-2)
    assert levels("1e-3,0.1") == (1e-3, 0.1)
    for bad in ("1:2", "0:1:3", "1e-2:1e-4:3", "1e-4:1e-2:0", "a"):
        with pytest.raises(DataError, match="--noise"):
            levels(bad)


def test_the_version_is_told(cli):
    assert cli("--version") == (0, f"cindy {cindy.__version__}\n", "")


# ── mistakes ──


def test_a_mistake_is_one_sentence_and_status_2(cli, model_file, tmp_path):
    (tmp_path / "damaged.json").write_text(model_file.read_text()[:200])
    mistakes = [
        ["show", "nowhere.json"],
        ["show", "damaged.json"],
        ["show", model_file, "--latex", "--c"],
        ["simulate", model_file, "--x0", "1,2", "--t", "0:1:0.1"],
        ["simulate", model_file, "--x0", "1,2,3"],
        ["simulate", model_file, "--x0", "1,2,3", "--t", "0:1:0.1", "--out", "no/such/folder.csv"],
        ["fit"],
        ["fit", "nowhere.csv"],
        ["bench"],
        ["reproduce", "michaelis"],
    ]
    for mistake in mistakes:
        status, _, err = cli(*mistake)
        assert status == 2, mistake
        assert err.startswith("Error: "), mistake
        assert "Traceback" not in err


@pytest.mark.parametrize(
    "mistake", [["shwo"], ["fit", "--baiss", "poly:2"], ["fit", "a.csv", "--order", "x"]]
)
def test_a_command_that_does_not_exist_is_status_2(cli, mistake):
    status, _, err = cli(*mistake)
    assert status == 2
    assert "Error" in err
    assert "Traceback" not in err


@pytest.mark.parametrize("encoding", ["ascii", "cp1252"])
def test_a_stream_without_our_characters_gets_plain_ones(model_file, encoding):
    command = [sys.executable, "-m", "cindy", "show", str(model_file)]
    done = subprocess.run(command, capture_output=True, env={**os.environ, "PYTHONIOENCODING": encoding})
    assert (done.returncode, b"Traceback" in done.stderr) == (0, False)
    assert b"x' = -10.00(1) x + 10.00(1) y" in done.stdout


def test_a_closed_output_ends_without_a_traceback(model_file):
    command = f'exec "{sys.executable}" -m cindy show "{model_file}" >&-'
    done = subprocess.run(["/bin/sh", "-c", command], capture_output=True, text=True)
    assert (done.returncode, "Traceback" in done.stderr) == (0, False)


def test_a_fit_whose_reader_closes_the_pipe_still_writes_its_files(tmp_path):
    (tmp_path / "data.csv").write_text(DECAY)
    code = (
        "import cindy.cli.screen as screen\n"
        "def closed(*_): raise BrokenPipeError\n"
        "screen.show_model = closed\n"
        "from cindy.cli import main; main()"
    )
    command = [sys.executable, "-c", code, "fit", "data.csv", "--out", "m.json"]
    done = subprocess.run(command, capture_output=True, cwd=tmp_path)
    assert (done.returncode, done.stderr) == (1, b"")
    assert cindy.load(tmp_path / "m.json").coef.any()


def test_a_state_with_two_values_is_refused():
    with pytest.raises(DataError, match='"x" has two values, 1 and 2'):
        texts.start("x=1,x=2,v=0", ("x", "v"), "--x0")


def test_anything_else_is_status_1(tmp_path):
    code = "import cindy; cindy.load = lambda f: 1/0; from cindy.cli import main; main()"
    done = subprocess.run([sys.executable, "-c", code, "show", "x"], capture_output=True, text=True)
    assert done.returncode == 1
    assert "ZeroDivisionError" in done.stderr


def test_the_bundled_data_are_simulated():
    runs = kinetics().simulate(seed=2021, noise=0.01, trajectories=24, points=1224, horizon=5.0)
    for bundled, run in zip(cindy.read(KINETICS, by="run"), runs, strict=True):
        np.testing.assert_allclose(bundled.t, run.t, rtol=5.1e-6)
        np.testing.assert_allclose(bundled.x, run.x, rtol=5.1e-6)


def test_every_error_of_the_library_is_a_mistake_of_the_user():
    assert all(issubclass(kind, CindyError) for kind in (DataError, ConstraintError))
