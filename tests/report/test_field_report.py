"""The page about equations of fields: pictures of data, solution and what is between them."""

import numpy as np
import pytest
from tests.browser import browser
from tests.report.test_browser import keep, look
from tests.report.test_report import numbers, read

import cindy
from cindy.report import render


def waves(name: str = "waves", noise: float = 0.1) -> cindy.Field:
    """u_t = −u_x + 0.1 u_xx on a ring."""
    x, t = 2 * np.pi * np.arange(64) / 64, np.linspace(0, 2, 61)
    u = sum(np.exp(-0.1 * k * k * t) * np.sin(k * (x[:, None] - t) + k * k) / k for k in range(1, 5))
    shaken = u + noise * u.std() * np.random.default_rng(0).standard_normal(u.shape)
    return cindy.Field(u=shaken, x=x, t=t, periodic="x", name=name)


@pytest.fixture(scope="module")
def carried() -> tuple[cindy.Model, list[cindy.Field]]:
    data = [waves(), waves("the same once more", 0.2)]
    return cindy.identify(data, cindy.Derivatives(2, 2)), data


def test_the_page_says_what_there_is_to_say_of_fields(carried):
    page = render(*carried)
    _, text = read(page)
    for expected in (
        "The equations of u",
        "2 fields, the first of 64 × 61 values over x and t",
        "R² of the equations",
        "R² of the solutions",
        "the smoothed first field",
        "formulation weak fields are averaged with smooth test functions",
        r"\partial_{t} u",
    ):
        assert expected in text
    data, drawn = carried[1][0], numbers(page)
    [[measured, solved, apart]] = drawn["fields"][0]["panels"]
    np.testing.assert_allclose(np.array(measured["z"]), data["u"].T, rtol=1e-3, atol=1e-3)
    np.testing.assert_allclose(
        np.array(measured["z"]) - np.array(solved["z"]), np.array(apart["z"]), atol=2e-3
    )
    assert drawn["residuals"] == []


def test_the_page_says_which_terms_text_and_latex_write_in_another_way():
    field = waves()
    form = cindy.identify(field, cindy.Derivatives(2, 2))
    model = form.with_coef({("u", "u_x"): 0.0, ("u", "(u^2)_x"): -0.5, ("u", "u_xx"): 0.1})
    assert str(model) == "u_t = -1 u u_x + 0.1 u_xx"
    assert "Text and LaTeX write (u²) x as 2 u u x ." in read(render(model, field))[1]


def test_the_page_maps_where_a_law_leaves_more_than_noise():
    x, t = 2 * np.pi * np.arange(64) / 64, np.linspace(0, 2, 61)
    bump = np.exp(-(((x[:, None] - 4.0) / 0.5) ** 2)) * np.sin(4 * t)
    u = waves(noise=0.01)["u"] + 0.1 * bump
    field = cindy.Field(u=u, x=x, t=t, periodic="x")
    model = cindy.identify(field, cindy.Derivatives(1, 2))
    [finding] = [f for f in model.findings if f.code == "unexplained-motion"]
    page = numbers(render(model, field))
    left = page["fields"][0]["panels"][0][-1]
    assert left["title"] == "residuals in units of their noise"
    ratios = np.array(left["z"], dtype=float)
    assert ratios.shape == (61, 64)
    assert ratios.max() == pytest.approx(np.sqrt(np.max(finding.values["map"])), rel=1e-3)


def test_two_fields_in_the_plane_with_holes_have_a_page():
    x, t = np.linspace(0, 1, 24), np.linspace(0, 1, 15)
    grid = np.broadcast_to(np.sin(3 * x)[:, None, None] * np.cos(2 * x)[:, None] * np.exp(-t), (24, 24, 15))
    basis = cindy.Derivatives(1, 2, axes=("x", "y"))
    coef = np.zeros((len(basis.names(("u", "v"))), 2))
    model = cindy.Model(coef, basis, ("u", "v"), formulation=cindy.Weak())
    model = model.with_coef({("u", "u"): -1.0, ("v", "v"): -1.0})
    mask = np.zeros((24, 24), dtype=bool)
    mask[0, 1] = True
    field = cindy.Field(u=grid, v=2 * grid, x=x, y=x, t=t, mask=mask)
    _, text = read(render(model, field))
    assert "There is no solution to show" in text
    assert "Shown at the last time, t = 1" in text


@pytest.fixture(scope="module")
def driver():
    with browser() as made:
        yield made


@pytest.mark.parametrize("view", ["phone", "dark"])
def test_every_picture_of_a_field_is_drawn_and_the_console_stays_silent(driver, carried, tmp_path, view):
    path = tmp_path / "field.html"
    cindy.report.write(*carried, path, units={"x": "m", "t": "s"})
    look(driver, path, view)
    drawn = driver.execute_script(
        "return [...document.querySelectorAll('#field-plots .plot')]"
        ".map(p => p.querySelectorAll('.hm image').length)"
    )
    assert drawn == [1, 1, 1]
    assert driver.get_log("browser") == []
    overflow = "return document.documentElement.scrollWidth - document.documentElement.clientWidth"
    assert driver.execute_script(overflow) == 0
    keep(driver, f"field-report-{view}")
    first = "return document.querySelector('#field-plots .plot').data[0].z[0][0]"
    before = driver.execute_script(first)
    driver.execute_script(
        "const s = document.getElementById('trajectory'); s.value = 1; s.dispatchEvent(new Event('change'))"
    )
    assert driver.execute_script(first) != before
