"""The page in a real browser: it draws, it answers, and it says nothing on the console."""

import base64
import json
from pathlib import Path

import numpy as np
import pytest
from tests.browser import browser
from tests.report.models import SYSTEM, hunters, true_model

import cindy
from cindy.data import Trajectory
from cindy.data.readers import read
from cindy.systems import lotka_volterra
from cindy.systems.catalogue import KINETICS

PICTURES = Path(__file__).parent.parent / "screenshots"
VIEWS = {"wide": (1280, False, "light"), "phone": (390, True, "light"), "dark": (1280, False, "dark")}


@pytest.fixture(scope="module")
def driver():
    with browser() as made:
        yield made


@pytest.fixture(scope="module")
def demo(tmp_path_factory):
    """The report of `cindy demo`."""
    data = read(KINETICS, by="run")
    laws = [cindy.conserve({"E": 1, "ES": 1}), cindy.conserve({"S": 1, "ES": 1, "P": 1})]
    model = cindy.identify(data, cindy.Polynomial(2), constraints=laws)
    path = tmp_path_factory.mktemp("demo") / "report.html"
    cindy.report.write(model, data, path)
    return path


@pytest.fixture(scope="module")
def identified(tmp_path_factory):
    """A model that was identified, its data, and its report."""
    data = lotka_volterra().simulate(seed=1, noise=0.03, trajectories=2, points=150)
    model = cindy.identify(data, cindy.Polynomial(2))
    path = tmp_path_factory.mktemp("identified") / "report.html"
    cindy.report.write(model, data, path)
    return model, data, path


@pytest.fixture(scope="module")
def small(tmp_path_factory):
    path = tmp_path_factory.mktemp("small") / "report.html"
    cindy.report.write(*hunters(), path, units={"t": "years"})
    return path


def look(driver, path, view="wide", *, changes=True):
    """Open the page and wait until every figure is drawn.

    A page that is open, and that the last test left as it was, is not opened again.
    changes: whether this test leaves the page otherwise than it was
    """
    width, mobile, scheme = VIEWS[view]
    untouched = getattr(driver, "untouched", None)
    driver.untouched = None if changes else (path, view)
    if untouched == (path, view):
        return
    size = {"width": width, "height": 900, "deviceScaleFactor": 1, "mobile": mobile}
    driver.execute_cdp_cmd("Emulation.setDeviceMetricsOverride", size)
    prefer(driver, scheme)
    driver.get_log("browser")
    driver.get(path.as_uri())
    wait(driver, lambda d: d.execute_script("return document.documentElement.dataset.drawn"))


def wait(driver, until):
    from selenium.webdriver.support.ui import WebDriverWait

    WebDriverWait(driver, 60, poll_frequency=0.05).until(until)


def prefer(driver, scheme):
    """Let the browser ask for light or for dark pages."""
    media = {"features": [{"name": "prefers-color-scheme", "value": scheme}]}
    driver.execute_cdp_cmd("Emulation.setEmulatedMedia", media)


def keep(driver, name):
    """A picture of the whole page."""
    PICTURES.mkdir(exist_ok=True)
    width, height = driver.execute_script(
        "const r = document.documentElement; return [r.clientWidth, r.scrollHeight]"
    )
    clip = {"x": 0, "y": 0, "width": width, "height": height, "scale": 1}
    shot = driver.execute_cdp_cmd("Page.captureScreenshot", {"captureBeyondViewport": True, "clip": clip})
    (PICTURES / f"{name}.png").write_bytes(base64.b64decode(shot["data"]))


def colours(driver, selector, name):
    script = "return [...document.querySelectorAll(arguments[0])].map(e => getComputedStyle(e)[arguments[1]])"
    return driver.execute_script(script, selector, name)


def click(driver, state, term):
    """Check or clear the box of a term, and the coefficients of the explorer afterwards."""
    script = "document.querySelector(`[aria-label='${arguments[0]}']`).click(); return explored.values()"
    return driver.execute_script(script, f"{term} in {state}′")


def explored(model, coef=None):
    """Coefficients as the explorer names them."""
    values = model.coef if coef is None else coef
    return {f"{model.states[j]}′: {model.terms[i]}": values[i, j] for i, j in np.argwhere(values != 0)}


@pytest.mark.parametrize("view", VIEWS)
def test_the_demo_draws_every_figure_fits_the_window_and_the_console_stays_silent(driver, demo, view):
    look(driver, demo, view, changes=False)
    plots = driver.execute_script(
        "return [...document.querySelectorAll('.plot')].map(p => p.querySelectorAll('.trace').length)"
    )
    assert len(plots) == 4 + 1 + 4 + 1 + 4 + 2 * 4 + 1
    assert all(traces > 0 for traces in plots)
    assert driver.get_log("browser") == []
    overflow = "return document.documentElement.scrollWidth - document.documentElement.clientWidth"
    assert driver.execute_script(overflow) == 0
    keep(driver, f"report-{view}")


def test_an_exponent_stands_beside_the_top_of_its_letter(driver, demo):
    look(driver, demo, changes=False)
    script = """return [...document.querySelectorAll('#explore-terms msup')].map(power => {
        const [letter, exponent] = [...power.children].map(part => part.getBoundingClientRect());
        const from = (edge) => (letter[edge] - exponent[edge]) / letter.height;
        return [from("bottom"), from("top")];
    })"""
    heights = driver.execute_script(script)
    assert len(heights) == 4
    # The exponent ends above the foot of the letter, and begins no more than half a letter above its head.
    assert all(0.1 < foot < 0.75 and head < 0.5 for foot, head in heights), heights


def test_a_subscript_begins_below_the_head_of_its_letter_and_ends_below_its_foot(driver, tmp_path):
    data = Trajectory(0.1, np.exp(-np.arange(40.0)[:, None] * [0.1, 0.2]), states=("W_x", "x_1"))
    cindy.report.write(cindy.identify(data, "poly:2:nobias"), data, tmp_path / "lower.html")
    look(driver, tmp_path / "lower.html")
    script = """return [...document.querySelectorAll('#explore-terms :is(msub, msubsup)')].map(whole => {
        const [letter, below] = [...whole.children].map(part => part.getBoundingClientRect());
        return [(below.top - letter.top) / letter.height, (below.bottom - letter.bottom) / letter.height];
    })"""
    depths = driver.execute_script(script)
    assert len(depths) > 4
    assert all(head > 0.2 and 0.05 < foot < 0.7 for head, foot in depths), depths


@pytest.mark.parametrize(("view", "cut"), [("phone", True), ("wide", False)])
def test_a_table_that_is_wider_than_the_page_says_so(driver, demo, view, cut):
    look(driver, demo, view)
    box = "document.querySelector('#coefficients .scroll')"
    driver.execute_script("document.getElementById('all-coefficients').open = true")
    wait(driver, lambda d: d.execute_script(f"return {box}.clientWidth > 0"))
    wait(driver, lambda d: d.execute_script(f"return {box}.hasAttribute('data-cut')") is cut)
    hint = driver.execute_script(f"return getComputedStyle({box}, '::after').content")
    assert ("scroll it sideways" in hint) is cut


def test_a_table_of_terms_that_is_longer_than_its_place_says_so(driver, tmp_path):
    data = SYSTEM.simulate(seed=0, noise=0.01, trajectories=1, points=200)
    for degree, longer in ((2, False), (7, True)):
        path = tmp_path / f"{degree}.html"
        cindy.report.write(cindy.identify(data, cindy.Polynomial(degree), passes=1), data, path)
        look(driver, path)
        box = "document.querySelector('.explore .scroll')"
        wait(driver, lambda d: d.execute_script(f"return {box}.hasAttribute('data-more')") is longer)  # noqa: B023
        hint = driver.execute_script(f"return getComputedStyle({box}, '::after').content")
        assert ("The table goes on" in hint) is longer


@pytest.mark.parametrize("degree", [2, 14])
def test_the_explorer_says_whether_candidates_have_no_box(driver, tmp_path, degree):
    data = SYSTEM.simulate(seed=0, noise=0.01, trajectories=1, points=400)
    model = cindy.identify(data, cindy.Polynomial(degree), passes=1)
    cindy.report.write(model, data, tmp_path / "boxes.html")
    look(driver, tmp_path / "boxes.html")
    empty = "return document.querySelectorAll('#explore-terms td + td:not(:has(input))').length > 0"
    said = driver.execute_script("return document.querySelector('#explore p').textContent")
    assert ("have no box" in said) is driver.execute_script(empty) is (degree > 2)


def test_the_band_of_the_explorer_leaves_the_curve_fine(driver, tmp_path):
    data = SYSTEM.simulate(seed=0, noise=0.01, trajectories=1, points=400)
    cindy.report.write(true_model(SYSTEM), data, tmp_path / "long.html")
    look(driver, tmp_path / "long.html")
    points = "return document.querySelector('#explore-plots .plot').data.at(-1).x.length"
    traces = "return document.querySelector('#explore-plots .plot').data.length"
    driver.execute_script(
        "const time = [...document.querySelectorAll('#explore-start input')].at(-1); time.value = time.max;"
        "time.dispatchEvent(new Event('input'))"
    )
    before = driver.execute_script(points)
    wait(driver, lambda d: d.execute_script(traces) == 4)
    assert driver.execute_script(points) == before > 500


def test_paper_is_light_and_every_figure_fits_it(driver, demo):
    look(driver, demo, "dark", changes=False)
    line = "#solution-plots .plot .js-line"
    dark = colours(driver, line, "stroke")
    prefer(driver, "light")
    wait(driver, lambda d: set(colours(d, line, "stroke")).isdisjoint(dark))
    light = colours(driver, line, "stroke")
    prefer(driver, "dark")
    wait(driver, lambda d: colours(d, line, "stroke") == dark)
    driver.execute_script("dispatchEvent(new Event('beforeprint'))")
    assert colours(driver, line, "stroke") == light
    wider = (
        "return [...document.querySelectorAll('.plot')].filter(p => p.scrollWidth > p.clientWidth + 1).length"
    )
    assert driver.execute_script(wider) == 0
    driver.execute_script("dispatchEvent(new Event('afterprint'))")
    assert set(colours(driver, line, "stroke")).isdisjoint(light)
    printed = driver.execute_cdp_cmd("Page.printToPDF", {"paperWidth": 8.27, "paperHeight": 11.69})
    PICTURES.mkdir(exist_ok=True)
    (PICTURES / "report-print.pdf").write_bytes(base64.b64decode(printed["data"]))
    assert driver.get_log("browser") == []


def test_constraints_hold_in_the_explorer(driver, demo):
    look(driver, demo, "dark")
    before = driver.execute_script("return explored.values()")
    values = click(driver, "E", "E^2")  # brings the other coefficients that the constraints tie it to
    assert len(values) > len(before) + 1
    for term in {name.partition(": ")[2] for name in values}:
        for law in (("E", "ES"), ("S", "ES", "P")):
            terms = [values.get(f"{state}′: {term}", 0.0) for state in law]
            assert sum(terms) == pytest.approx(0, abs=1e-9 * max(map(abs, values.values())))
    while extra := [name for name in values if name.endswith("E^2")]:
        values = click(driver, extra[0].partition("′")[0], "E^2")
    assert values == pytest.approx(before, rel=1e-12)


def test_nothing_is_fetched(driver, small):
    look(driver, small, changes=False)
    asked = driver.execute_script("return performance.getEntriesByType('resource').map(e => e.name)")
    assert [one for one in asked if not one.startswith(("data:", "blob:"))] == []


def test_the_slider_opens_on_the_chosen_model_with_the_equations_of_the_page(driver, small):
    look(driver, small, changes=False)
    sides = (
        "return [...document.querySelectorAll(arguments[0] + ' .right')]"
        ".map(e => e.textContent.replace(/\\s/g, ''))"
    )
    assert driver.execute_script(sides, "#model-equations") == driver.execute_script(sides, "#equations")


def test_another_trajectory_shows_other_data(driver, small):
    look(driver, small, changes=False)
    first = "return document.querySelector('#solution-plots .plot').data[0].y[0]"
    before = driver.execute_script(first)
    driver.execute_script(
        "const s = document.getElementById('trajectory'); s.value = 2; s.dispatchEvent(new Event('change'))"
    )
    _, data = hunters()
    assert before == pytest.approx(data[0].x[0, 0], rel=1e-4)
    assert driver.execute_script(first) == pytest.approx(data[2].x[0, 0], rel=1e-4)
    driver.execute_script(
        "const s = document.getElementById('trajectory'); s.value = 0; s.dispatchEvent(new Event('change'))"
    )
    assert driver.execute_script(first) == before


def test_the_switch_shows_shares_in_place_of_values(driver, small):
    look(driver, small, changes=False)
    value = "return document.querySelector('#coefficient-plots .plot').data[0].x[1]"
    assert driver.execute_script(value) == -0.5
    driver.execute_script("document.querySelector('[data-scale=share]').click()")
    assert driver.execute_script(value) != -0.5
    assert driver.execute_script("return document.querySelector('[data-for=value]').hidden")
    driver.execute_script("document.querySelector('[data-scale=value]').click()")
    assert driver.execute_script(value) == -0.5


def test_colours_follow_the_scheme_while_the_page_is_open(driver, small):
    look(driver, small, changes=False)
    line = "#solution-plots .plot .js-line"
    light = (colours(driver, "body", "backgroundColor"), colours(driver, line, "stroke"))
    prefer(driver, "dark")
    dark = (colours(driver, "body", "backgroundColor"), colours(driver, line, "stroke"))
    assert light[0] != dark[0]
    assert light[1]
    assert set(light[1]).isdisjoint(dark[1])
    prefer(driver, "light")
    wait(driver, lambda d: colours(d, line, "stroke") == light[1])


def test_the_slider_moves_the_equations_and_marks_what_is_beyond_the_chosen_model(driver, small):
    look(driver, small)
    seen = []
    for place in range(6):
        driver.execute_script(
            "const s = document.getElementById('model'); s.value = arguments[0];"
            "s.dispatchEvent(new Event('input'))",
            place,
        )
        summands = driver.execute_script(
            "return document.querySelectorAll('#model-equations math mn').length"
        )
        extra = driver.execute_script("return document.querySelectorAll('#model-equations .extra').length")
        size = driver.execute_script("return document.getElementById('model-size').textContent")
        seen.append((summands > 0, extra, size.split()[0]))
    assert seen == [(True, max(0, k - 3), str(k + 1)) for k in range(6)]
    ring = driver.execute_script("return document.getElementById('path-plot').data.at(-1).x[0]")
    assert ring == 6


def test_hostile_names_are_shown_and_not_obeyed(driver, tmp_path):
    states = ("<img src=x onerror=document.title=1>", "<b>bold</b>")
    t = np.linspace(0, 1, 60)
    data = cindy.Trajectory(t, np.stack([np.exp(-t), np.exp(-2 * t)], axis=1), states, name="<i>run</i>")
    model = cindy.Model([[0.0, 0.0], [-1.0, 0.0], [0.0, -2.0]], cindy.Polynomial(1), states)
    path = tmp_path / "hostile.html"
    cindy.report.write(model, [data, data], path)
    look(driver, path)
    assert driver.get_log("browser") == []
    assert driver.execute_script("return document.querySelectorAll('img, main b, main i').length") == 0
    titles = driver.execute_script("return [...document.querySelectorAll('.ytitle')].map(e => e.textContent)")
    assert "<b>bold</b>" in titles


def test_long_names_of_states_do_not_make_the_page_wider_than_a_phone(driver, tmp_path):
    _, data = hunters()
    t, x = data[0].t, data[0].x
    named = cindy.Trajectory(t, x, ("Prey, all of them [1/m²]", "rate of the hunters [/s]"))
    found = cindy.identify(named, cindy.Polynomial(2), passes=1)
    cindy.report.write(found, named, tmp_path / "long.html")
    look(driver, tmp_path / "long.html", "phone")
    assert driver.execute_script("return document.documentElement.scrollWidth - innerWidth") <= 0


@pytest.mark.parametrize("view", ["wide", "phone"])
def test_long_names_and_long_values_are_not_cut_off_in_figures(driver, tmp_path, view):
    names = tuple(f"concentration of metabolite {k} (mmol/L)" for k in (1, 2))
    noise = 1e-3 * np.random.default_rng(0).standard_normal((40, 2))
    data = Trajectory(0.1, np.exp(-np.arange(40.0)[:, None] * [0.00123, 0.2]) + noise, states=names)
    cindy.report.write(cindy.identify(data, "poly:1"), data, tmp_path / "long.html")
    look(driver, tmp_path / "long.html", view)
    cut = """return [...document.querySelectorAll('#solutions .plot, #coefficients .plot')].flatMap(plot => {
        const frame = plot.getBoundingClientRect();
        return [...plot.querySelectorAll('text')].filter(text => {
            const box = text.getBoundingClientRect();
            return box.width && (box.left < frame.left - 1 || box.right > frame.right + 1 ||
                box.top < frame.top - 1 || box.bottom > frame.bottom + 1);
        }).map(text => text.textContent);
    })"""
    assert driver.execute_script(cut) == []
    assert driver.execute_script("return document.querySelector('h1').offsetHeight") < 200


def test_equations_with_long_names_fit_a_phone_and_their_noise_fits_paper(driver, tmp_path):
    _, data = hunters()
    named = cindy.Trajectory(data[0].t, data[0].x, ("population", "temperature"))
    cindy.report.write(cindy.identify(named, cindy.Polynomial(2)), named, tmp_path / "words.html")
    look(driver, tmp_path / "words.html", "phone")
    cut = "return [...document.querySelectorAll(arguments[0])].map(e => e.scrollWidth - e.clientWidth)"
    assert max(driver.execute_script(cut, ".equations")) <= 0
    look(driver, tmp_path / "words.html", "wide")
    driver.execute_script("dispatchEvent(new Event('beforeprint'))")
    assert driver.execute_script(cut, "#trust .scroll") == [0]


def test_a_term_added_in_the_explorer_gives_the_coefficients_of_identify_on_that_support(driver, identified):
    model, _, path = identified
    look(driver, path, changes=False)
    assert driver.execute_script("return explored.values()") == pytest.approx(explored(model), rel=1e-12)
    added = [one for one in model.near if one.size == model.size + 1][:4]
    assert added
    for near in added:
        [(i, j)] = np.argwhere(near.support & ~model.support)
        assert click(driver, model.states[j], model.terms[i]) == pytest.approx(explored(near), rel=1e-6)
        assert click(driver, model.states[j], model.terms[i]) == pytest.approx(explored(model), rel=1e-12)
    assert driver.get_log("browser") == []


def test_a_term_dropped_in_the_explorer_gives_least_squares_on_the_white_rows(driver, identified):
    model, _, path = identified
    look(driver, path, changes=False)
    white, columns = model.fitted.white, model.fitted.columns
    for i, j in np.argwhere(model.support):
        left = [k for k in np.flatnonzero(model.coef) if k != i * len(model.states) + j]
        design = white.design[:, [int(np.flatnonzero(columns == k)[0]) for k in left]]
        coef = np.zeros(model.coef.size)
        coef[left] = np.linalg.lstsq(design, white.target[:, 0], rcond=None)[0]
        seen = click(driver, model.states[j], model.terms[i])
        assert seen == pytest.approx(explored(model, coef.reshape(model.coef.shape)), rel=1e-6)
        click(driver, model.states[j], model.terms[i])


def test_the_simulation_in_the_page_is_that_of_the_library(driver, identified):
    model, _, path = identified
    look(driver, path, changes=False)
    t, x = driver.execute_script(
        "const d = document.querySelector('#explore-plots .plot').data.at(-1); return [d.x, d.y]"
    )
    start = driver.execute_script("return JSON.parse(document.getElementById('numbers').textContent)")
    solved = model.simulate(start["trajectories"][0]["start"], t)
    assert x == pytest.approx(solved.x[:, 0], rel=1e-4)


def test_the_model_of_the_explorer_is_saved_as_a_file_that_loads(driver, identified, tmp_path):
    model, _, path = identified
    look(driver, path, changes=False)
    file = tmp_path / "model.json"
    file.write_text(json.dumps(driver.execute_script("return explored.file()")))
    assert cindy.load(file).coef == pytest.approx(model.coef)
    shown = driver.execute_script("return explored.text()").replace("′", "'")
    assert shown == model.to_text().replace("=  ", "= ")
    asked = driver.execute_script("return performance.getEntriesByType('resource').map(e => e.name)")
    assert [one for one in asked if not one.startswith(("data:", "blob:"))] == []


def test_a_near_model_loads_by_a_click(driver, identified):
    model, _, path = identified
    look(driver, path)
    driver.execute_script("document.querySelector('[data-explore]').click()")
    assert driver.execute_script("return explored.values()") == pytest.approx(
        explored(model.near[1]), rel=1e-6
    )
    verdict = driver.execute_script("return document.getElementById('explore-verdict').textContent")
    assert verdict.startswith("χ² is")


def test_a_slider_moves_the_curve_and_the_band_follows(driver, identified):
    look(driver, identified[2])
    curve = "return document.querySelector('#explore-plots .plot').data.at(-1).y"
    traces = "return document.querySelector('#explore-plots .plot').data.length"
    before = driver.execute_script(curve)
    for group in ("coefficients", "start"):
        driver.execute_script(
            f"const s = document.querySelector('#explore-{group} input'); s.value = s.max;"
            "s.dispatchEvent(new Event('input'))"
        )
        after = driver.execute_script(curve)
        assert np.ptp(np.subtract(after[:50], before[:50])) > 0
        before = after
    wait(driver, lambda d: d.execute_script(traces) == 4)
    low, high = driver.execute_script(
        "return document.querySelector('#explore-plots .plot').data.slice(1, 3).map(d => d.y)"
    )
    assert np.all(np.subtract(high, low) >= 0)
    assert np.max(np.subtract(high, low)) > 0


def test_the_page_draws_the_run_that_it_opens_with(driver, tmp_path):
    data = SYSTEM.simulate(seed=0, trajectories=2, points=120)
    alone = cindy.Trajectory(data[0].t, data[0].x * [1.0, 0.0], data[0].states, name="alone")
    cindy.report.write(true_model(SYSTEM), [alone, data[1]], tmp_path / "report.html")
    look(driver, tmp_path / "report.html")
    drawn = driver.execute_script(
        "return [...document.querySelectorAll('#solution-plots .plot')].map(p => p.data[0].y)"
    )
    np.testing.assert_allclose(np.transpose(drawn), data[1].x, rtol=1e-3, atol=1e-3)
    picker = "return document.getElementById('trajectory').selectedOptions[0].text"
    assert driver.execute_script(picker) == "trajectory 2"
