"""Formulas with corners, from text to values, slopes, code and files; and those that are refused."""

import pickle
import shutil
import subprocess
import xml.etree.ElementTree as ET

import numpy as np
import pytest

import cindy
from cindy.errors import DataError
from cindy.model import Model

CORNERS = {
    "friction": ("sign(v)", lambda x, v: np.sign(v)),
    "drag": ("abs(v)*v", lambda x, v: abs(v) * v),
    "larger": ("max(x, v)", lambda x, v: np.maximum(x, v)),
    "least": ("min(x, v, 0.3)", lambda x, v: np.minimum(np.minimum(x, v), 0.3)),
    "beyond": ("x*(x > 0.2)", lambda x, v: x * (x > 0.2)),
    "within": ("v <= x", lambda x, v: 1.0 * (v <= x)),
    "root": ("where(x > 0, sqrt(abs(x)), -x**2)", lambda x, v: np.where(x > 0, np.sqrt(abs(x)), -(x**2))),
    "guarded": (
        "where(v >= 0.1, log(max(v, 0.1)), x)",
        lambda x, v: np.where(v >= 0.1, np.log(np.maximum(v, 0.1)), x),
    ),
    "any": ("where(x, v, 1)", lambda x, v: v),
}
POINTS = np.random.default_rng(0).uniform(-1, 1, (40, 2))


def model_with(formula):
    return Model([[2.0, -1.0]], cindy.Custom({"f": formula}), ("x", "v"))


@pytest.mark.parametrize("name", CORNERS)
def test_a_formula_with_corners_has_the_values_that_it_says(name):
    formula, expected = CORNERS[name]
    found = cindy.Custom({"f": formula}).evaluate(POINTS, ("x", "v"))[:, 0]
    assert np.allclose(found, expected(*POINTS.T), rtol=1e-15)


def test_a_formula_with_a_blank_for_a_product_is_told_to_use_a_star():
    with pytest.raises(cindy.DataError, match=r"cannot be read .* Write products with \*"):
        cindy.Custom({"both": "x y"}).names(("x", "y"))


@pytest.mark.parametrize("name", CORNERS)
def test_its_derivative_is_that_of_the_differences_away_from_the_corners(name):
    basis, step = cindy.Custom({"f": CORNERS[name][0]}), 1e-7
    slopes = basis.derivative(POINTS, ("x", "v"))[:, 0]
    for k in range(2):
        shift = step * np.eye(2)[k]
        ahead, behind = (basis.evaluate(POINTS + s * shift, ("x", "v"))[:, 0] for s in (1, -1))
        assert np.allclose(slopes[:, k], (ahead - behind) / (2 * step), atol=1e-5)


@pytest.mark.parametrize("name", CORNERS)
def test_compiled_exported_saved_and_pickled_it_is_the_same_function(name, tmp_path):
    model = model_with(CORNERS[name][0])
    expected = model.predict(POINTS)
    model.save(tmp_path / "model.json")
    namespace = {}
    exec(model.to_python(), namespace)
    for again in (model, cindy.load(tmp_path / "model.json"), pickle.loads(pickle.dumps(model))):
        assert np.allclose([again.rhs(0.0, row) for row in POINTS.tolist()], expected, rtol=1e-14)
    assert np.allclose([namespace["rhs"](0.0, row) for row in POINTS.tolist()], expected, rtol=1e-14)
    assert "\\" in model.to_latex()
    ET.fromstring(model.to_sbml())


@pytest.mark.parametrize("name", CORNERS)
def test_sympy_agrees(name):
    sympy = pytest.importorskip("sympy")
    model = model_with(CORNERS[name][0])
    x, v = sympy.symbols("x v")
    for row in POINTS[:5]:
        values = [float(side.subs({x: row[0], v: row[1]})) for side in model.to_sympy()]
        assert np.allclose(values, model.predict(row), rtol=1e-12)


@pytest.mark.skipif(shutil.which("cc") is None, reason="there is no C compiler")
def test_c_agrees(tmp_path):
    basis = cindy.Custom({name: formula for name, (formula, _) in CORNERS.items()})
    model = Model(np.arange(1.0, 2 * len(CORNERS) + 1).reshape(-1, 2), basis, ("x", "v"))
    loop = 'while (scanf("%lf %lf", x, x + 1) == 2) { rhs(0, x, 0, d); printf("%.17g %.17g ", d[0], d[1]); }'
    main = f"int main(void) {{ double x[2], d[2]; {loop} return 0; }}"
    (tmp_path / "m.c").write_text(model.to_c() + "#include <stdio.h>\n" + main)
    subprocess.run(["cc", "-o", tmp_path / "m", tmp_path / "m.c", "-lm"], check=True)
    given = "\n".join(f"{a!r} {b!r}" for a, b in POINTS.tolist())
    out = subprocess.run([tmp_path / "m"], input=given, capture_output=True, text=True, check=True).stdout
    assert np.allclose(np.array(out.split(), dtype=float).reshape(-1, 2), model.predict(POINTS), rtol=1e-13)


@pytest.mark.parametrize(
    "formula",
    ["x*(1e300**1e300)", "x*1e308*10", "x + 1/0", "x*log(0)", "x*e**1000", "x**(10**400)", "x*sqrt(-1)"],
)
def test_a_formula_that_folds_to_no_number_is_refused(formula):
    with pytest.raises(DataError, match=r"finite|too large"):
        cindy.Custom({"f": formula}).names(("x",))


@pytest.mark.parametrize(
    "formula",
    ["max(x)", "where(x, 1)", "sin(x, x)", "0 < x < 1", "x if x else 1", "x and 1", "max(*x)", "foo(x)"],
)
def test_a_formula_that_is_none_is_refused_in_a_sentence(formula):
    with pytest.raises(DataError, match="formula 'f'"):
        cindy.Custom({"f": formula})


@pytest.mark.parametrize("formula", ["x*1e300**0.9", "x**1e15", "x*2.0**900", "(x + 1e300)*1e300/1e300"])
def test_a_formula_of_large_numbers_is_exported_without_delay(formula):
    pytest.importorskip("sympy")
    model = Model([[1.0]], cindy.Custom({"f": formula}), ("x",))
    assert len(model.to_sympy()) == 1


def test_dry_friction_is_found_as_a_formula():
    t = np.linspace(0, 8, 800)
    truth = cindy.Custom({"x": "x", "v": "v", "sign(v)": "sign(v)"})
    made = Model([[0.0, -4.0], [1.0, 0.0], [0.0, -0.3]], truth, ("x", "v")).simulate([2.0, 0.0], t)
    assert made.stopped is None
    model = cindy.identify(made, cindy.Polynomial(1) + cindy.Custom({"sign(v)": "sign(v)"}))
    assert np.isclose(model.coef[model.place("v", "sign(v)")], -0.3, atol=0.02)


@pytest.mark.parametrize("name", ["a\x01b", "a\x0bb", "\ufffe", "tab\tnew\nline", "<&\">'"])
def test_a_name_with_any_character_gives_xml_that_can_be_read(name):
    model = Model([[1.0]], cindy.Polynomial(1, bias=False), (name,))
    ET.fromstring(model.to_sbml())
