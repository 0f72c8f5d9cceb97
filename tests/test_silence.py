"""What a user must be told: by the model itself, by its summary and by the command line."""

import re
import warnings
import xml.etree.ElementTree as ET
from functools import cache
from pathlib import Path

import numpy as np
import pytest
from scipy.integrate import odeint
from scipy.interpolate import CubicSpline
from typer.testing import CliRunner

import cindy
from cindy.cli import app
from cindy.data import oddities, without_faults
from cindy.findings import Finding
from cindy.model import Model
from cindy.model.story import models_as_html
from cindy.states import Diffusion
from cindy.systems import lorenz, lotka_volterra, michaelis_menten

T = np.linspace(0, 20, 800)
OSCILLATION = np.column_stack([np.cos(2 * T), -2 * np.sin(2 * T)])


def walk():
    return cindy.Trajectory(
        T, np.cumsum(np.random.default_rng(1).standard_normal((800, 2)), axis=0), ("a", "b")
    )


def of_a_map(count=400):
    x = [0.3]
    for _ in range(count - 1):
        x.append(3.9 * x[-1] * (1 - x[-1]))
    return cindy.Trajectory(np.arange(float(count)), np.array(x), ("x",))


def interpolated(join):
    """The oscillation with noise, measured at every fourth time only."""
    noisy = OSCILLATION + 0.01 * np.random.default_rng(0).standard_normal(OSCILLATION.shape)
    return np.column_stack([join(T, T[::4], column[::4]) for column in noisy.T])


def cubic(t, knots, values):
    return CubicSpline(knots, values)(t)


ODD = {
    "wraps": ((T, np.mod(3 * T, 2 * np.pi)), "jumps by about 2π 9 times.*numpy.unwrap"),
    "wraps in degrees": ((T, np.mod(100 * T, 360) - 180), "about 360 5 times.*period=360"),
    "map": ((of_a_map().t, of_a_map().x), "steps of a map.*Discrete"),
    "coarse": ((T[:40], np.cos(1.5 * np.arange(40.0))), "only 4.2 samples per oscillation"),
    "rounded": ((T, np.round(OSCILLATION * 20) / 20), 'rounded: "x1" in steps of 0.05'),
    "state missing": ((T, OSCILLATION[:, 0]), "a state is missing.*order=2"),
    "held": ((T, OSCILLATION[np.arange(800) // 4 * 4]), "only changes at every 4. sample"),
    "on lines": ((T, interpolated(np.interp)), "every 4. sample its values lie on straight lines"),
    "on cubics": ((T, interpolated(cubic)), "every 4. sample its values lie on cubic"),
    "noise": ((T, np.random.default_rng(0).standard_normal(800)), "mostly noise"),
}


@pytest.mark.parametrize("name", ODD)
def test_data_that_betray_a_mistake_are_told_in_one_sentence(name):
    (t, x), sentence = ODD[name]
    found = [
        finding for finding in oddities([cindy.Trajectory(t, x)]) if re.search(sentence, finding.message)
    ]
    assert len(found) == 1


def a_walk(rng):
    return np.cumsum(rng.standard_normal(800))


def a_kicked_decay(rng):
    x = [0.0]
    for _ in range(799):
        x.append(0.95 * x[-1] + rng.standard_normal())
    return np.array(x)


@pytest.mark.parametrize("noise", [0.05, 0.15])
def test_a_single_state_that_swings_in_noise_lacks_another(noise):
    x = OSCILLATION[:, 0] + noise * OSCILLATION[:, 0].std() * np.random.default_rng(1).standard_normal(800)
    (finding,) = oddities([cindy.Trajectory(T, x)])
    assert finding.code == "missing-state"
    assert "Integral(order=2, rates=True)" in finding.message


def test_short_runs_of_one_decay_lack_no_state():
    t, rng = np.arange(12) * 0.1, np.random.default_rng(0)
    runs = [
        cindy.Trajectory(t, start * np.exp(-t) + 0.01 * rng.standard_normal(12))
        for start in np.linspace(0.5, 2.0, 40)
    ]
    assert "missing-state" not in {finding.code for finding in oddities(runs)}


@pytest.mark.parametrize("path", [a_walk, a_kicked_decay])
def test_a_state_that_kicks_drive_to_and_fro_lacks_no_other(path):
    for seed in range(20):
        findings = oddities([cindy.Trajectory(T, path(np.random.default_rng(seed)))])
        assert "missing-state" not in {finding.code for finding in findings}


def test_runs_that_are_listed_twice_are_told_by_name():
    runs = [cindy.Trajectory(T, OSCILLATION * k, name=f"run {k}") for k in (1.0, 2.0)]
    again = cindy.Trajectory(T + 5.0, OSCILLATION, name="again")
    (found,) = oddities([*runs, again])
    assert found.code == "repeated-runs"
    assert '"again" repeats "run 1.0"' in found.message
    assert found.values["pairs"] == ((0, 2),)


def test_a_state_whose_motion_is_mostly_below_its_rounding_is_told_of():
    spikes = [size * np.exp(8 * (np.sin(T + size) - 1)) + 0.01 * T for size in (1.0, 1.1)]
    # Each run has a step of its own, as a sensor that sets its own range.
    steps = zip(spikes, (0.3, 0.31), strict=True)
    data = [cindy.Trajectory(T, step * np.round(x / step), ("z",)) for x, step in steps]
    codes = {finding.code for finding in oddities(data)}
    assert {"rounded-data", "motion-below-rounding"} <= codes
    finer = [cindy.Trajectory(T, 0.01 * np.round(x / 0.01), ("z",)) for x in spikes]
    assert "motion-below-rounding" not in {finding.code for finding in oddities(finer)}


def test_a_state_that_comes_to_rest_is_not_clipped():
    settling = np.round(np.column_stack([np.exp(-T), 1 - np.exp(-3 * T)]), 6)
    data = [cindy.Trajectory(T, settling)]
    kept, found = without_faults(data)
    assert not found
    assert kept == data


def test_weeks_without_a_case_are_measurements():
    outbreak = np.round(40 * np.exp(-(((np.arange(30) - 15) / 5.0) ** 2)))
    cases = np.concatenate([outbreak[6:25], np.zeros(20), outbreak[6:25]])
    (kept,), (found,) = without_faults([cindy.Trajectory(np.arange(58.0), cases, ("cases",))])
    assert "count" in found.message
    assert np.array_equal(kept.x[:, 0], cases)


def test_clipped_values_are_taken_as_missing():
    clipped = np.minimum(OSCILLATION, [0.8, np.inf])
    (kept,), (found,) = without_faults([cindy.Trajectory(T, clipped)])
    assert re.search('x1" has its highest value, 0.8,.*clipped.*taken as missing', found.message)
    assert np.array_equal(np.isnan(kept.x), clipped == [0.8, np.inf])
    noisy = np.minimum(OSCILLATION + 0.01 * np.random.default_rng(0).standard_normal((800, 2)), [0.8, np.inf])
    model = cindy.identify((T, noisy), cindy.Polynomial(2))
    assert [one.code for one in model.findings] == ["clipped-data"]
    assert np.count_nonzero(model.coef) == 2


def test_a_state_that_is_mostly_at_its_limit_is_told_of_and_left():
    (kept,), (found,) = without_faults([cindy.Trajectory(T, np.minimum(OSCILLATION, [-0.2, np.inf]))])
    assert found.values["share"] > 0.5
    assert np.isfinite(kept.x).all()


def turning():
    return np.column_stack([3 * T + 0.3 * np.sin(T), 3 + 0.3 * np.cos(T)])


# Functions, so that only the process that is given a case makes its data.
FLAWLESS = {
    **{
        f"lorenz, noise {noise}": lambda noise=noise: lorenz().simulate(
            seed=0, noise=noise, trajectories=2, points=4000, horizon=20.0
        )
        for noise in (0, 0.01, 0.2)
    },
    "hunters": lambda: lotka_volterra().simulate(seed=0, noise=0.02),
    "enzyme": lambda: michaelis_menten(binding=2.0, release=0.5).simulate(
        seed=0, trajectories=12, points=1200, horizon=5
    ),
    "oscillation": lambda: [cindy.Trajectory(T, OSCILLATION, ("x", "v"))],
    "an angle that turns": lambda: [cindy.Trajectory(T, turning(), ("theta", "w"))],
    "a walk": lambda: [walk()],
}


@pytest.mark.parametrize("data", FLAWLESS.values(), ids=FLAWLESS)
def test_data_without_a_mistake_are_told_nothing(data):
    assert oddities(data()) == []


def test_a_map_is_nothing_odd_for_a_map_and_positions_alone_for_second_order():
    assert oddities([of_a_map()], discrete=True) == []
    assert oddities([cindy.Trajectory(T, OSCILLATION[:, :1], ("x",))], order=2) == []


def test_a_right_model_has_its_scores_and_no_warnings():
    data = lotka_volterra().simulate(seed=0, noise=0.01)
    model = cindy.identify(data, "poly:2")
    assert model.warnings == ()
    assert 0.99 < model.explained["equations"] < 1
    assert 0.99 < model.explained["solutions"] < 1
    assert "R² of equations  0.999" in model.summary()
    assert "R² of solutions  0.999" in model.summary()
    assert model.summary().endswith("No warnings.")


def test_a_model_that_explains_little_is_called_so_loudly_everywhere(tmp_path):
    data = lorenz().simulate(seed=0, noise=0.01, trajectories=1, points=500, horizon=5.0)
    wrong = cindy.identify(data, cindy.Trigonometric(1), selection="terms:3")
    assert wrong.explained["equations"] < 0.5
    assert wrong.warnings[0].startswith("These equations do not explain the data")
    assert "a state may not have been measured (try `hidden=1`)" in wrong.warnings[0]
    assert "Do not use them" in wrong.summary().replace("\n    ", " ")
    assert "Do not use them" in wrong._repr_html_()
    wrong.save(tmp_path / "model.json")
    assert cindy.load(tmp_path / "model.json").explained == pytest.approx(wrong.explained, nan_ok=True)
    table = np.column_stack([data[0].t, data[0].x])
    np.savetxt(tmp_path / "data.txt", table, header="t x y z")
    run = CliRunner().invoke(
        app, ["fit", str(tmp_path / "data.txt"), "--basis", "trig:1", "--selection", "terms:3"]
    )
    assert run.exit_code == 0
    assert "Do not use them" in run.stderr
    assert "try --hidden 1" in run.stderr
    assert "R² of equations" in run.stdout


@cache
def enzyme():
    """A reaction whose totals are conserved, from six short runs."""
    data = michaelis_menten(binding=2.0, release=0.5).simulate(
        seed=0, trajectories=6, points=300, horizon=5, noise=0.01
    )
    totals = [cindy.conserve(["E", "ES"]), cindy.conserve(["S", "ES", "P"])]
    return cindy.identify(data, "poly:2", constraints=totals)


def test_the_summary_tells_of_laws_noise_and_the_run():
    text = enzyme().summary()
    for word in ("E + ES is conserved", "violation", "noise", "gap", "terms", "E·S"):
        assert word in text
    assert len(max(text.splitlines(), key=len)) <= 110


def test_a_notebook_shows_the_equations_as_markup_that_obeys_no_name():
    model = Model(
        [[0.0], [-1.0]], cindy.Polynomial(1), ("<script>",), findings=(cindy.Finding("uncoded", "a <b> c"),)
    )
    html = model._repr_html_()
    assert "&lt;script&gt;" in html
    assert "<script>" not in html
    ET.fromstring(html.replace("&#x2061;", "").replace("<details open>", "<details>"))


@pytest.mark.parametrize(
    ("states", "shown"),
    [
        (("E", "S", "ES"), "E·S"),
        (("x", "y", "z"), "x y"),
        (("my state", "y", "z"), '"my state"·y'),
        (("a", "b", "[run 1]"), "a·b"),
        (("x1", "x2", "x12"), "x1 x2"),
    ],
)
def test_names_that_could_be_misread_are_shown_unambiguously(states, shown):
    coef = np.zeros((10, 3))
    coef[cindy.Polynomial(2).names(states).index(f"{states[0]} {states[1]}"), 2] = 1.5
    assert Model(coef, cindy.Polynomial(2), states).equations()[2].endswith(f"1.5 {shown}")


def test_scores_of_a_path_are_distinguishable():
    from cindy.cli.screen import _distinguishable

    assert _distinguishable([1000.01, 1000.02, 7.0]) == ["1000.01", "1000.02", "7"]
    assert _distinguishable([1.0, 1.0]) == ["1", "1"]


def test_few_runs_that_differ_give_the_six_terms_of_competition_and_no_false_alarm():
    file = Path(__file__).parent.parent / "examples" / "measured" / "paramecium.csv"
    runs = cindy.read(file, by="Treatment")
    model = cindy.identify(runs, "poly:2:nobias", passes=None)
    assert model.size == 6
    assert model.explained["solutions"] > 0.95
    assert not any("Do not use" in sentence for sentence in model.warnings)


def test_a_refusal_says_what_the_data_give_away():
    with pytest.raises(cindy.NoModelError, match="steps of a map"):
        cindy.identify(of_a_map(), cindy.Polynomial(1))


def test_a_law_that_a_smooth_curve_beats_is_told_of():
    t = np.arange(50.0)
    assert any(
        "term or a state may be missing" in said for said in cindy.identify((t, t**2), "poly:2").warnings
    )


@cache
def swings(force):
    """x'' = −x − 0.2 x' + force(t, x), three runs with 1 % noise."""
    rng, t, runs = np.random.default_rng(0), np.arange(0, 20, 0.05), []
    for start in rng.uniform(-2, 2, (3, 2)):
        x = odeint(lambda x, s: [x[1], -x[0] - 0.2 * x[1] + force(s, x[0])], start, t, rtol=1e-9, atol=1e-9)
        noisy = x + 0.01 * x.std(axis=0) * rng.standard_normal(x.shape)
        runs.append(cindy.Trajectory(t, noisy, ("x", "v")))
    return runs


def hardening(t, x):
    return -0.1 * x**3


OUTSIDE = {
    "a force that nobody measured": lambda t, x: 0.4 * np.cos(1.7 * t),
    "a fifth power": lambda t, x: -0.15 * x**5,
    "a spring that ages": lambda t, x: 0.02 * t * x,
}
FORMS = {
    "integral, one pass": {"passes": 1},
    "integral from the first sample": {"formulation": cindy.Integral(initial="first")},
    "differential": {"formulation": "differential"},
    "differential, smoothed": {"formulation": cindy.Differential(smooth=3)},
    "differential, bic": {"formulation": "differential", "selection": "bic"},
}


@pytest.mark.parametrize(
    ("form", "law"),
    [(form, law) for form in FORMS for law in OUTSIDE if form == "differential" or law == "a fifth power"],
)
def test_every_form_tells_that_a_law_lies_outside_the_library(form, law):
    model = cindy.identify(swings(OUTSIDE[law]), cindy.Polynomial(3), **FORMS[form])
    (said,) = [finding for finding in model.findings if finding.code == "large-residuals"]
    assert said.values["state"] == "v"
    assert said.values["ratio"] > 3


@pytest.mark.parametrize("form", FORMS)
def test_no_form_warns_of_a_law_inside_the_library(form):
    model = cindy.identify(swings(hardening), cindy.Polynomial(3), **FORMS[form])
    assert not {finding.code for finding in model.findings} & {"large-residuals", "correlated-residuals"}


def told(model):
    return model.support.tolist(), sorted(finding.code for finding in model.findings)


@pytest.mark.parametrize("law", [hardening, OUTSIDE["a spring that ages"]], ids=["inside", "outside"])
@pytest.mark.parametrize("form", ["integral, one pass", "differential"])
def test_units_of_states_and_of_time_change_no_term_and_no_finding(form, law):
    runs = [run.part(0, 200) for run in swings(law)[:2]]
    first = told(cindy.identify(runs, cindy.Polynomial(3), **FORMS[form]))
    for units, second in [((1e-12, 1e-12), 1e9), ((1e6, 1e-6), 1.0)]:
        scaled = [cindy.Trajectory(second * run.t, run.x * units, run.states) for run in runs]
        assert told(cindy.identify(scaled, cindy.Polynomial(3), **FORMS[form])) == first, units


def exact_errors(data, model):
    """Of the coefficients, by the Fisher information of trajectories with a free start and white noise.

    The derivatives of a solution by coefficients and start are finite differences of solutions.
    """
    places = np.argwhere(model.support)
    sigma, blocks = model.noise, []
    for run, smooth in zip(data, model.smooth(data), strict=True):
        values = np.concatenate([model.coef[model.support], smooth.x[0]])

        def path(z, t=run.t):
            coef = np.zeros_like(model.coef)
            coef[tuple(places.T)] = z[: len(places)]
            law = cindy.Polynomial(3).evaluate
            return odeint(lambda x, s: law(x[None], ("x", "v"))[0] @ coef, z[-2:], t, rtol=1e-10, atol=1e-10)

        columns = [(path(values + h) - path(values - h)) / 2e-5 for h in 1e-5 * np.eye(len(values))]
        design = np.stack([(column / sigma).ravel() for column in columns], axis=1)
        # What the start explains is projected out, run by run.
        own, start = design[:, : len(places)], design[:, len(places) :]
        blocks.append(own - start @ np.linalg.lstsq(start, own, rcond=None)[0])
    design = np.vstack(blocks)
    return np.sqrt(np.diag(np.linalg.inv(design.T @ design)))


def test_runs_that_are_cut_in_halves_have_larger_errors_by_what_the_likelihood_says():
    """A damping is seen in how far an amplitude falls: two short runs tell it less well than one long one."""
    runs = [run.part(0, 200) for run in swings(hardening)]
    halves = [run.part(*ends) for run in runs for ends in ((0, 100), (100, 200))]
    whole, cut = (cindy.identify(data, cindy.Polynomial(3)) for data in (runs, halves))
    assert np.array_equal(whole.support, cut.support)
    expected = exact_errors(halves, cut) / exact_errors(runs, whole)
    ratio = cut.coef_error[whole.support] / whole.coef_error[whole.support]
    assert expected.max() > 1.3
    assert np.all(np.abs(np.log(ratio / expected)) < np.log(1.35))
    errors = whole.coef_error[whole.support]
    assert np.all(np.abs(np.log(errors / exact_errors(runs, whole))) < np.log(1.25)), errors / exact_errors(
        runs, whole
    )


def test_positions_alone_tell_in_every_form_that_friction_is_missing():
    positions = [cindy.Trajectory(run.t, run.x[:, :1], ("x",)) for run in swings(hardening)]
    for form in (cindy.Differential(order=2), cindy.Integral(order=2)):
        model = cindy.identify(positions, cindy.Polynomial(3), formulation=form, passes=1)
        assert "large-residuals" in {finding.code for finding in model.findings}


def test_a_notebook_shows_the_chosen_model_among_the_first_fifteen():
    one = Model([[0.0], [-1.0]], cindy.Polynomial(1), ("x",))
    for chosen, rows in ((3, 15 + 2), (18, 15 + 3)):  # the head and "… more"; a chosen one further down
        html = models_as_html([one] * 20, range(20), chosen, "score")
        assert f"<b>{chosen}</b>" in html
        assert html.count("<tr") == rows
        assert f"… {20 + 2 - rows} more" in html


def test_compared_models_of_a_notebook_are_written_in_letters():
    small = Model([[0.0], [-1.0], [0.0]], cindy.Polynomial(2), ("x_1",))
    large = small.with_coef({("x_1", "x_1^2"): 0.5})
    assert "+ x₁² in x₁′" in models_as_html([small, large], [0.0, 3.0], 0, "score")


def test_equations_of_a_notebook_can_be_read_where_their_marks_are_removed():
    model = Model(
        [[0.0], [-2.5e-5], [1.0]], cindy.Polynomial(2), ("hare_1",), coef_error=[[0.0], [1e-6], [0.1]]
    )
    words = re.sub(r"<[^>]*>", "", model._repr_html_())
    assert words.startswith("hare₁′ =−2.5(1)·10⁻⁵ hare₁ + 1.0(1) hare₁²")


def test_a_notebook_sets_names_of_attributes_as_code_and_the_state_of_a_random_force_below_it():
    sizes = np.zeros((6, 2))
    sizes[0, 0] = 0.25
    kicks = Diffusion(cindy.Polynomial(2).names(("x_1", "v")), sizes, np.zeros((6, 2)), ("x_1", "v"))
    note = Finding("random-forcing", "The equations give the drift, `diffusion` the variance.", {})
    model = Model(
        [[0.0, 0.0], [-2.0, 0.0], [0.0, -1.0]],
        cindy.Polynomial(1),
        ("x_1", "v"),
        diffusion=kicks,
        findings=(note,),
    )
    html = model._repr_html_()
    assert "dW<sub>x₁</sub>" in html
    assert "<code>diffusion</code>" in html


def test_near_models_differ_and_so_do_their_names_in_a_page():
    model = enzyme()
    assert len({one.support.tobytes() for one in model.near}) == len(model.near)
    assert "of 6 runs" in " ".join(model.summary().split())
    assert "E·S" in model._repr_html_()


def test_states_that_diverge_while_kicks_and_gaps_are_fitted_raise_no_warning_of_numpy():
    rng, x, samples = np.random.default_rng(1), np.array([0.5, 0.0]), []
    for k in range(15_000):
        if k % 10 == 0:
            samples.append(x.copy())
        x = x + 0.002 * np.array([x[1] - x[0], -x[0] - x[1]]) + 0.4 * 0.002**0.5 * rng.standard_normal(2)
    measured = np.array(samples)
    measured[::7, 0] = np.nan
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        cindy.identify((0.02 * np.arange(1500), measured), "poly:1")


@pytest.mark.parametrize("glitch", [-9999.0, 1e30])
def test_a_sample_that_no_motion_reaches_is_taken_as_missing(glitch):
    x = OSCILLATION + 0.01 * np.random.default_rng(0).standard_normal(OSCILLATION.shape)
    x[100, 0] = x[500, 0] = glitch
    for passes in (None, 1):
        model = cindy.identify((T, x), cindy.Polynomial(2), passes=passes)
        assert {finding.code for finding in model.findings} == {"outliers"}
        assert np.array_equal(np.argwhere(model.coef), [[1, 1], [2, 0]])


def test_a_glitch_beside_a_hidden_state_is_taken_as_missing():
    x = OSCILLATION[:, :1] + 0.01 * np.random.default_rng(0).standard_normal((len(T), 1))
    x[100] = -9999.0
    data = cindy.Trajectory(T, x, ("q",))
    model = cindy.identify(data, cindy.Polynomial(1), hidden=("w",), known={"q": "w"})
    assert np.array_equal(np.argwhere(model.coef), [[1, 1], [2, 0]])
    assert "outliers" in {finding.code for finding in model.findings}


@pytest.mark.parametrize("form", ["integral", "differential"])
def test_readings_off_by_the_range_of_a_state_cost_no_term_at_measured_states(form):
    rng = np.random.default_rng(3)
    x = OSCILLATION + 0.01 * rng.standard_normal(OSCILLATION.shape)
    off = np.ptp(x, axis=0) * rng.uniform(1.0, 4.0, x.shape) * rng.choice([-1.0, 1.0], x.shape)
    # Also in the first sample, which has a neighbour on one side only.
    wrong = rng.random(x.shape) < 0.01
    wrong[0, 0] = True
    model = cindy.identify((T, x + wrong * off), cindy.Polynomial(2), formulation=form, passes=1)
    assert np.array_equal(np.argwhere(model.coef), [[1, 1], [2, 0]])
    told = [finding for finding in model.findings if finding.code == "outliers"]
    assert [finding.values["count"] for finding in told] == list(wrong.sum(axis=0))


def relaxing(samples):
    """Ten swings of van der Pol's oscillator, whose rate is almost zero between short spikes."""

    def rates(x, t):
        return [x[1], 20.0 * (1.0 - x[0] ** 2) * x[1] - x[0]]

    t = np.linspace(0.0, 420.0, samples)
    return t, odeint(rates, [2.0, 0.0], t, rtol=1e-9, atol=1e-9)


@pytest.mark.parametrize("samples", [400, 1500, 6000])
@pytest.mark.parametrize("noise", [0.0, 0.01])
def test_spikes_of_the_motion_are_no_glitches(samples, noise):
    t, x = relaxing(samples)
    rng = np.random.default_rng(samples)
    noisy = x + noise * x.std(axis=0) * rng.standard_normal(x.shape)
    assert without_faults([cindy.Trajectory(t, noisy)])[1] == []


def test_doses_and_pulses_that_last_are_no_glitches():
    decays = np.exp(-20.0 * np.minimum(T, 1.0))
    pulses = 1e-3 + 1e3 * ((np.arange(len(T)) % 100 == 50) | (np.arange(len(T)) % 100 == 51))
    data = [cindy.Trajectory(T, np.column_stack([decays, pulses]))]
    kept, found = without_faults(data)
    assert kept == data
    assert not found


@pytest.mark.parametrize("step", [1, 5, 10, 30])
def test_hours_and_minutes_in_one_number_are_told_and_plain_numbers_are_not(step):
    minutes = np.arange(480, 1080, step)
    x = np.random.default_rng(0).normal(size=len(minutes)).cumsum()

    def told(t):
        run = cindy.Trajectory(t, x[: len(t)], ("x",))
        return [f.code for f in oddities([run]) if f.code == "clock-times"]

    hours = minutes // 60 * 100 + minutes % 60
    assert told(hours) == told(100 * hours) == ["clock-times"]
    plain = [minutes, 100 * np.arange(20), 50 * np.arange(20), np.arange(20)]
    assert [told(t) for t in plain] == [[]] * len(plain)


def test_an_input_given_at_single_samples_is_told_and_one_that_is_switched_is_not():
    t = np.arange(0.0, 36.0, 0.5)
    decay = np.exp(-0.15 * (t % 12.0))

    def told(u):
        run = cindy.Trajectory(t, decay, ("conc",), u=u, inputs=("dose",))
        return [f.values["count"] for f in oddities([run]) if f.code == "pulsed-input"]

    assert told(np.where(t % 12.0 == 0.0, 50.0, 0.0)) == [3]
    assert told(np.where(t % 12.0 < 1.0, 50.0, 0.0)) == told(np.sin(t)) == told(np.zeros(len(t))) == []


@pytest.mark.parametrize("apart", [True, False])
def test_doses_in_a_column_that_is_empty_elsewhere_are_told_and_a_slow_sensor_is_not(tmp_path, apart):
    """apart: the doses stand in rows of their own, as in Phenobarb of R's nlme."""
    t = np.arange(0.0, 36.0, 3.0)

    def told(cells, **how):
        rows = []
        for run in range(3):
            for time, cell in zip(t, cells, strict=True):
                empty = apart and cell != ""
                rows.append((run, time, cell, "" if empty else np.exp(-0.1 * (time % 12.0)) + run))
        path = tmp_path / "a.csv"
        path.write_text("\n".join(["run,t,u,x", *(",".join(map(str, row)) for row in rows)]))
        runs = cindy.read(path, by="run", inputs=["u"], **how)
        return [f.code for f in oddities(runs) if f.code == "pulsed-input"]

    given = t % 6.0 == 3.0
    doses = np.where(given, np.where(t < 6.0, 20.0, 2.5).astype(str), "")
    assert told(doses) == ["pulsed-input"]
    assert told(doses, hold="zero") == told(np.where(given, np.sin(t).astype(str), "")) == []


def test_dates_over_months_are_told_to_count_in_seconds(tmp_path):
    days = np.arange("2024-01-01", "2024-04-10", dtype="datetime64[D]")
    level = (
        1.0 + np.exp(-0.05 * np.arange(len(days))) + 1e-3 * np.random.default_rng(0).normal(size=len(days))
    )
    table = "date,x\n" + "".join(f"{day},{x}\n" for day, x in zip(days, level, strict=True))
    (tmp_path / "a.csv").write_text(table)
    models = [
        cindy.identify(cindy.read(tmp_path / "a.csv", time_unit=unit), "poly:1") for unit in (None, "day")
    ]
    notes = [[f.note for f in model.findings if f.code == "long-in-seconds"] for model in models]
    assert notes == [[True], []]


def test_an_input_that_never_changes_is_no_dose():
    t = np.linspace(0.0, 10.0, 200)
    x = 1.0 + np.exp(-t)[:, None] + 0.01 * np.random.default_rng(0).standard_normal((200, 1))
    runs = [
        cindy.Trajectory(t, x, ("x",), u=np.full((6, 1), 2.0), u_t=np.linspace(0.0, 10.0, 6), inputs=("u",))
    ]
    assert "pulsed-input" not in {finding.code for finding in oddities(runs)}
