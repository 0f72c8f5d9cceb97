"""The page as text: complete in itself, safe whatever the names, whole on disk."""

import base64
import gzip
import json
import re
from dataclasses import replace
from html.parser import HTMLParser

import numpy as np
import pytest
from plotly.offline import get_plotlyjs
from tests.report.models import hunters, true_model

import cindy
from cindy.basis import Custom, Polynomial
from cindy.data.trajectory import Trajectory
from cindy.errors import DataError
from cindy.formulation import Differential, Discrete, Integral
from cindy.model import compare, difference
from cindy.model.model import Model, Path
from cindy.model.story import facts
from cindy.report import DIGITS, figures, page as page_module, plotly, render, write
from cindy.report.explorer import near_models
from cindy.report.figures import percent
from cindy.report.page import in_words
from cindy.selection import Beyond
from cindy.solver import Correction
from cindy.states import Diffusion
from cindy.systems import lotka_volterra, spring_masses


class Reader(HTMLParser):
    """Collects text, links and the order of tags."""

    def __init__(self):
        super().__init__()
        self.links, self.texts, self.open = [], [], []

    def handle_starttag(self, tag, attributes):
        self.links += [v for k, v in attributes if k in ("src", "href")]
        if tag not in ("meta", "link", "input", "br", "mspace"):
            self.open.append(tag)

    def handle_endtag(self, tag):
        assert self.open.pop() == tag

    def handle_startendtag(self, tag, attributes):
        pass

    def handle_data(self, data):
        if not set(self.open) & {"script", "style"}:
            self.texts.append(data)


def read(page):
    reader = Reader()
    reader.feed(page)
    assert reader.open == []
    return reader, " ".join(" ".join(reader.texts).split())


def numbers(page):
    return json.loads(re.search(r'id="numbers">(.*?)</script>', page, re.S)[1])


@pytest.fixture(scope="module")
def page():
    return render(*hunters())


def test_the_page_needs_nothing_from_elsewhere_and_is_smaller_than_6_mb(page):
    reader, _ = read(page)
    assert [link for link in reader.links if not link.startswith("#")] == ["data:,"]
    assert "@import" not in page
    assert "default-src 'none'" in page
    assert len(page.encode()) < 6e6


def test_the_page_says_everything_there_is_to_say(page):
    _, text = read(page)
    for expected in (
        "The equations of x and y",
        "4 trajectories with 400 samples: 4 terms out of 12 candidates",
        "A sentence with <b>marks</b>.",
        "x is <conserved> & kept",
        "The largest violation, over all of them, is 2.0 × 10⁻¹⁶",
        "could explain at most 0.0030 % of the squares more",
        "see below.",
        "The search converged after 3 iterations",
        "selection significance at level 0.05",
        "The rule, significance at level 0.05, weighs fit",
        "numpy " + np.__version__,
        "formulation integral states are compared with integrals",
        r"\begin{aligned}",
        "def ",
    ):
        assert expected in text


@pytest.mark.parametrize(
    ("call", "value"),
    [
        (
            repr(cindy.Significance(level=0.01)),
            "significance at level 0.01 (each further factor of a term costs 4)",
        ),
        (repr(cindy.CrossValidation(folds=7)), "cross-validation in 7 folds"),
        (repr(cindy.BIC()), "information criterion (extended)"),
        (repr(cindy.BIC(extended=False)), "information criterion"),
        (repr(cindy.Discrepancy()), "discrepancy"),
        (repr(cindy.Discrepancy(0.25)), "discrepancy (noise 0.25)"),
        (repr(cindy.Terms(3)), "the 3 most important terms"),
        (repr(cindy.Gap(1e-6)), "gap below 1e-06"),
        (repr(cindy.Direct(leap=True)), "direct (leap)"),
        (repr(cindy.Plain()), "plain"),
        ("Mine(level=3)", "Mine(level=3)"),
        ("as before", "as before"),
    ],
)
def test_a_rule_of_the_settings_is_told_in_words(call, value):
    assert in_words(call)[0] == value


def test_every_rule_and_correction_of_the_library_has_words():
    families = [*cindy.Selection.__subclasses__(), *Correction.__subclasses__()]
    public = [
        kind.__name__ for kind in families if kind.__module__.startswith("cindy") and kind is not Beyond
    ]
    assert [name for name in public if name not in page_module._CALLS] == []


@pytest.mark.parametrize(("form", "side", "typed"), [(Integral(), "x′", "x'"), (Discrete(), *2 * ["x[k+1]"])])
def test_near_models_name_equations_as_the_page_does(form, side, typed):
    model = Model([[0.0], [-1.0], [0.0]], Polynomial(2), ("x",), formulation=form)
    other = model.with_coef({("x", "x^2"): -1.0})
    [row] = near_models(replace(model, near=Path((model, other), (0.0, 3.0), 0, "−2 log p")), None)
    assert row["changes"] == f"+ x² in {side}"
    assert difference(model, other) == f"+ x^2 in {typed}"


def test_the_settings_are_no_code_but_for_the_basis():
    t = np.linspace(0, 6, 200)
    data = Trajectory(t, np.sin(t), ("x",), u=np.cos(t), inputs=("push",), hold="band")
    model = cindy.identify(data, "poly:1", passes=1)
    _, text = read(render(model, data))
    settings = text[text.index("Settings and versions") :]
    assert "1, x and push 3 candidate terms for each equation; in Python, Polynomial(degree=1)" in settings
    assert "hold band inputs between samples" in settings
    assert "states measured the terms are evaluated at the measurements" in settings
    assert settings.count("(degree=") == 1
    assert "None" not in settings


def test_a_page_opens_with_a_run_in_which_every_state_moves_and_says_what_is_absent():
    t = np.linspace(0, 6, 80)
    wave = np.stack([np.sin(t), np.cos(t)], axis=1)
    nothing, off = np.zeros(80), np.full(80, np.nan)
    columns = {
        "alone": (wave[:, 0], nothing),
        "both": (wave[:, 0], wave[:, 1]),
        "held": (nothing + 0.25, wave[:, 1]),
    }
    runs = [Trajectory(t, np.stack(both, axis=1), ("A", "C"), name=name) for name, both in columns.items()]
    model = Model([[0.0, 0.0], [0.0, -1.0], [1.0, 0.0]], Polynomial(1), ("A", "C"))
    page = render(model, runs)
    options = re.findall(r'<option value="(\d)"( selected)?>(.*?)</option>', page)[:3]
    assert options == [
        ("0", "", "alone, without C"),
        ("1", " selected", "both"),
        ("2", "", "held, A constant at 0.25"),
    ]
    gone = replace(runs[1], x=np.stack([wave[:, 0], off], axis=1), name="lost")
    assert figures._still(("A", "C"), [gone, runs[1]])[1] == {}
    assert list(figures._still(("A", "C"), [gone, runs[1]])[0]) == ["C"]
    # A state that is at rest in every run is no reason to prefer one.
    assert figures._still(("A", "C"), [runs[0], runs[0]]) == [{}, {}]


def test_the_numbers_behind_the_figures_are_those_of_model_and_data(page):
    _, data = hunters()
    drawn = numbers(page)
    np.testing.assert_allclose(drawn["trajectories"][0]["x"][0], data[0].x[:, 0], rtol=1e-4)
    assert drawn["path"]["size"] == [1, 2, 3, 4, 5, 6]
    assert drawn["path"]["chosen"] == 3
    assert drawn["path"]["models"][5][1][0] == [0, 1, "2.00(2)e-4"]
    [x, _] = drawn["coefficients"]
    assert x["terms"] == ["x", "x y"]
    np.testing.assert_allclose(x["value"], [1.0, -0.5])
    np.testing.assert_allclose(x["half"], [0.0196, 0.0098])
    assert len(drawn["residuals"]) == 2


@pytest.mark.parametrize("passes", [None, 1])
def test_the_page_and_the_summary_state_the_same_r2(passes):
    runs = lotka_volterra().simulate(seed=3, trajectories=5, points=1500, noise=0.05)
    model = cindy.identify(runs, "poly:2", passes=passes)
    _, text = read(render(model, runs))
    said = {name: what.split()[0] for name, what in facts(model) if name.startswith("R²")}
    assert f"R² of the equations {said['R² of equations']} " in text
    assert f"R² of the solutions {said['R² of solutions']} " in text
    assert "checked on 2 of 5 runs" in text


def test_digits_in_parentheses_are_explained_by_a_number_of_the_page(page):
    _, text = read(page)
    told = re.search(
        r"in units of the last digit: (\S+)\((\d)\) means (\S+) with a standard error of 0\.0+(\d)", text
    )
    assert told[1] == told[3]
    assert told[2] == told[4]
    assert f"{told[1]} ({told[2]})" in text


def test_lengths_of_time_on_the_page_are_those_of_the_summary():
    [run] = lotka_volterra().simulate(seed=3, trajectories=1, points=300, noise=0.02)
    slow = replace(run, t=1000 * run.t)
    model = cindy.identify(slow, "poly:2")
    span = re.search(r"over up to ([\d,]+ time units)", " ".join(model.summary().split()))[1]
    assert f"simulation over up to {span}" in read(render(model, slow))[1]


def test_the_residual_under_the_slider_is_the_one_of_the_certificate(page):
    _, text = read(page)
    path = numbers(page)["path"]
    residual = " ".join(path["left"][path["chosen"]].split())
    assert residual.endswith(" %")
    assert (
        f"Residual: {residual} of the squares of the data stay unexplained by these equations (4 terms)"
        in text
    )
    assert 'href="#path"' in page


@pytest.mark.parametrize(
    ("share", "text"),
    [
        (0.97, "97 %"),
        (0.00049, "0.049 %"),
        (2.1e-6, "2.1 × 10⁻⁴ %"),
        (0.01, "1.0 %"),
        (1.0, "100 %"),
        (0.0, "0.0 %"),
    ],
)
def test_a_share_is_told_in_per_cent_however_small(share, text):
    assert percent(share).replace("\N{NO-BREAK SPACE}", " ") == text


def test_constraints_without_a_violation_hold_exactly():
    model, data = hunters()
    _, text = read(render(replace(model, violation=0.0), data))
    assert "All of them hold exactly." in text
    assert "1 constraint holds exactly" in text
    assert dict(facts(replace(model, violation=0.0)))["violation"] == "none: the constraints hold exactly"
    assert dict(facts(model))["violation"] == "2.0e-16 at most"


def test_the_page_states_the_noise_of_measured_states_beside_a_hidden_one():
    t = np.arange(300) * 0.05
    noise = 0.01 * np.random.default_rng(0).standard_normal((2, 300))
    data = [Trajectory(t, np.cos(t + k) + noise[k], ("q",)) for k in range(2)]
    model = cindy.identify(data, Polynomial(1), hidden="v")
    _, text = read(render(model, data))
    assert model.hidden == ("v",)
    assert "of the spread of a state, in the median" in text


HOSTILE = ("</script><script>alert(1)</script>", "<img src=x onerror=alert(2)>", "a & b {{ 7 * 7 }}")


def test_names_cannot_break_out_of_the_page():
    t = np.linspace(0, 1, 60)
    data = Trajectory(t, np.stack([np.exp(-k * t) for k in (1, 2, 3)], axis=1), HOSTILE, name="</option><b>")
    model = Model(np.vstack([np.zeros(3), -np.diag([1.0, 2.0, 3.0])]), Polynomial(1), HOSTILE)
    page = render(model, data, title="<i>title</i>", units={"t": "</script>"})
    _, text = read(page)
    assert page.count("<script") == 4
    assert "onerror" not in " ".join(re.findall(r"<(?!/?script)[^>]*>", page.split("<script>")[0]))
    assert "{{ 7 * 7 }}" in text
    assert numbers(page)["states"] == list(HOSTILE)


@pytest.mark.parametrize(
    "form", [Differential(), Discrete(), Integral(initial="first"), Integral(window=40)], ids=repr
)
def test_every_formulation_has_a_page(form):
    system = lotka_volterra()
    data = system.simulate(seed=0, noise=0.01, trajectories=2, points=300)
    coef = system.coef
    if isinstance(form, Discrete):
        coef = np.zeros(coef.shape)
        coef[1, 0] = coef[2, 1] = 1.0
    read(render(true_model(system, formulation=form).with_coef(coef), data))


def test_second_order_inputs_gaps_and_missing_errors_have_a_page():
    system = spring_masses()
    data = system.simulate(seed=0, noise=0.01, trajectories=2)
    x = np.array(data[0].x)
    x[20:60, 0] = np.nan
    _, text = read(render(true_model(system), [Trajectory(data[0].t, x, data[0].states), data[1]]))
    assert "¨" in text
    t = np.linspace(0, 5, 200)
    pushed = Trajectory(t, np.sin(t), ("x",), u=np.cos(t), inputs=("push",))
    model = Model([[0.0], [0.0], [1.0]], Polynomial(1), ("x",), inputs=("push",))
    _, text = read(render(model, pushed))
    assert "There is no certificate" in text


def test_a_python_function_in_the_basis_says_why_it_has_no_source():
    basis = Custom({"kick": lambda x: np.tanh(x)})
    t = np.linspace(0, 1, 50)
    _, text = read(render(Model([[1.0]], basis, ("x",)), Trajectory(t, np.exp(t), ("x",))))
    assert "kick" in text


def test_an_empty_equation_says_zero():
    _, text = read(
        render(
            Model([[0.0], [0.0]], Polynomial(1), ("x",)),
            Trajectory([0.0, 1, 2, 3, 4, 5], [1.0, 1.1, 1.0, 0.9, 1.0, 1.1], ("x",)),
        )
    )
    assert "0 terms out of 2 candidates" in text


def test_the_file_is_written_whole_or_not_at_all(tmp_path):
    model, data = hunters()
    target = tmp_path / "report.html"
    write(model, data, target)
    assert target.read_text(encoding="utf-8").endswith("</html>")
    with pytest.raises(DataError, match="the model is about x, y"):
        write(model, Trajectory([0.0, 1.0], [[1.0, 2.0], [1.0, 2.0]]), target)
    assert [file.name for file in tmp_path.iterdir()] == ["report.html"]
    with pytest.raises(DataError, match="Cannot write the report"):
        write(model, data, tmp_path / "nowhere" / "report.html")


def test_the_report_is_reached_by_its_public_name():
    assert cindy.report.write is write


def test_what_is_packed_into_the_page_is_the_library_and_nothing_that_html_would_read():
    text, length = plotly()
    standard = text.translate(str.maketrans(".,:/[", "&<>`$"))
    assert gzip.decompress(base64.b85decode(standard)[:length]).decode() == get_plotlyjs()
    assert not set("<>&\"'`\\") & set(DIGITS)
    assert len(set(DIGITS)) == 85


def test_a_page_about_few_data_takes_less_than_two_megabytes():
    assert len(render(*hunters()).encode()) < 2e6


@pytest.mark.parametrize(("unit", "shown"), [("year", "2 years"), ("min", "2 min"), ("", "2 time units")])
def test_lengths_of_time_have_the_unit_of_the_data(unit, shown):
    t = np.linspace(0.0, 2.0, 60)
    data = Trajectory(t, np.exp(-t), ("x",), time_unit=unit)
    model = cindy.identify(data, Polynomial(1))
    assert f"over up to {shown}" in " ".join(model.summary().split())
    page = render(model, data)
    assert f"over up to {shown}" in read(page)[1]
    assert numbers(page)["time"] == {"year": "t (years)", "min": "t (min)", "": "t"}[unit]
    assert numbers(render(model, data, units={"t": "a"}))["time"] == "t (a)"


def test_the_report_of_kicks_does_not_blame_the_equations_for_them():
    well = Model(np.array([[0.0], [1.0], [0.0], [-1.0]]), Polynomial(3), ("x",))
    kicks = Diffusion(("1", "x", "x^2"), np.array([[0.5], [0], [0]]), np.zeros((3, 1)), ("x",))
    clean = replace(well, diffusion=kicks).simulate([1.0], np.arange(6000) * 0.05, noise=True, seed=0)
    noise = 0.05 * np.random.default_rng(0).standard_normal(clean.x.shape)
    data = Trajectory(clean.t, clean.x + noise, ("x",))
    model = cindy.identify(data, Polynomial(3))
    assert model.diffusion is not None
    page = render(model, data)
    _, text = read(page)
    assert "This includes the random kicks, which no equation explains." in text
    assert "Dots are the data, the line is the solution from the initial state" in text
    assert "the data leave the line and the band even if the equations are right." in text
    assert "correlated negatively although the equations are right" in text
    assert "The band of paths, the density and new data show whether the terms are right." in text
    assert numbers(page)["path"]["kicked"]


def test_the_report_of_a_kicked_model_has_its_kicks_the_band_of_paths_and_the_density():
    kicks = Diffusion(("1", "x", "x^2"), np.array([[0.25], [0], [0.5]]), np.zeros((3, 1)), ("x",))
    model = Model(np.array([[0.0], [-1.0]]), Polynomial(1), ("x",), diffusion=kicks)
    data = model.simulate([0.5], np.arange(0.0, 20.0, 0.1), noise=True, seed=1)
    page = render(model, data)
    _, words = read(page)
    assert "Density of the states" in words
    assert "random kicks from the same start" in words
    assert "<msqrt>" in page
    drawn = numbers(page)
    [density] = drawn["densities"]
    assert sum(density["model"]) * density["width"] == pytest.approx(1.0, abs=0.01)
    assert sum(density["data"]) * density["width"] == pytest.approx(1.0, abs=0.01)
    outline = drawn["trajectories"][0]["band"]
    assert len(outline["t"]) == len(outline["x"][0])
    plain = render(replace(model, diffusion=None), data)
    assert "Density of the states" not in plain
    assert numbers(plain)["trajectories"][0]["band"] is None


def test_a_violation_that_nobody_computed_is_not_given_as_a_number():
    model = replace(true_model(lotka_volterra()), constraints=("a law",), violation=np.nan)
    page = render(model, lotka_volterra().simulate(seed=0, trajectories=1))
    assert "were not compared with them" in page
    assert not any("nan" in text for text in (page.split("<body")[1].split("<script")[0], model.summary()))


def test_a_model_whose_paths_with_kicks_all_blow_up_has_a_report():
    kicks = Diffusion(("1", "x", "x^2"), np.array([[0.25], [0], [0]]), np.zeros((3, 1)), ("x",))
    model = Model([[0], [0], [1e4]], Polynomial(2), ("x",), diffusion=kicks)
    page = render(model, Trajectory(np.arange(50.0), np.sin(np.arange(50.0)), ("x",)))
    assert not any(numbers(page)["densities"][0]["model"])


def test_a_single_sample_between_gaps_hides_no_trajectory():
    [data] = lotka_volterra().simulate(seed=0, trajectories=1, points=200)
    x = data.x.copy()
    x[100:121] = np.nan
    x[110] = data.x[110]
    compared = compare(true_model(lotka_volterra()), [replace(data, x=x)])
    assert [len(solution.measured) for solution in compared.solutions] == [100, 79]
    assert compare(true_model(lotka_volterra()), []).solutions == ()
