"""Exports: what they print, and that the code they write computes what the basis computes."""

import ctypes
import json
import math
import re
import shutil
import subprocess
import sys

import numpy as np
import pytest
from hypothesis import given, strategies as st
from tests.basis.bases import BASES, VARIABLES, is_saved_whole, saved_bases, states

from cindy.basis import Custom, Polynomial, Trigonometric
from cindy.errors import DataError
from cindy.export import RightHandSides, format_value, to_c, to_latex, to_python, to_sympy, to_text

LORENZ = {("x", "x"): -10.0, ("x", "y"): 10.0, ("y", "x"): 28.0, ("y", "y"): -1.0, ("y", "x z"): -1.0}
LORENZ |= {("z", "z"): -8 / 3, ("z", "x y"): 1.0}
TERMS = Polynomial(2).terms(VARIABLES)
NAMES = Polynomial(2).names(VARIABLES)
HOSTILE_NAMES = (
    'quote"); import os; os.abort(); ("',
    "line\nbreak */ #error \\",
    "'''\"\"\"",
    "*/ int main(void) { return 1; } /*",
    "${x}%s{0}\\input{secret}",
    "tab\tbell\x07",
    "?\u2028?/",
    "2",
    "class",
    "math",
    "été λ 𝛼",
)


sides = RightHandSides


def lorenz():
    coef = np.zeros((len(NAMES), 3))
    for (state, term), value in LORENZ.items():
        coef[NAMES.index(term), VARIABLES.index(state)] = value
    return coef


def random_coef(terms, columns, *, seed=0):
    rng = np.random.default_rng(seed)
    coef = rng.normal(size=(terms, columns)) * 10.0 ** rng.integers(-6, 3, size=(terms, columns))
    return coef * (rng.random((terms, columns)) < 0.7)


def run_python(source):
    space = {}
    exec(compile(source, "exported.py", "exec"), space)
    return space["rhs"]


@pytest.fixture(scope="session")
def run_c(tmp_path_factory):
    """A function that compiles C source, warnings being errors, and returns its rhs as (x, u) → list."""
    compiler = shutil.which("cc") or shutil.which("gcc") or shutil.which("clang")
    if compiler is None:
        pytest.skip("there is no C compiler on this machine")

    def build(source, outputs):
        folder = tmp_path_factory.mktemp("c")
        (folder / "rhs.c").write_text(source, encoding="utf-8")
        flags = ["-std=c99", "-Wall", "-Wextra", "-Werror", "-pedantic", "-shared", "-fPIC", "-O1"]
        library = str(folder / "rhs.so")
        subprocess.run([compiler, *flags, "rhs.c", "-o", library, "-lm"], cwd=folder, check=True)
        function = ctypes.CDLL(library).rhs
        function.restype = None

        def rhs(x, u=()):
            result = (ctypes.c_double * outputs)()
            arrays = [(ctypes.c_double * max(len(v), 1))(*v) for v in (x, u)]
            function(ctypes.c_double(0.0), *arrays, result)
            return list(result)

        return rhs

    return build


@saved_bases
def test_python_and_sympy_compute_what_the_basis_computes(basis):
    sympy = pytest.importorskip("sympy")
    terms = basis.terms(VARIABLES)
    coef = random_coef(len(terms), 2)
    x = states(20, seed=3)
    expected = basis.evaluate(x, VARIABLES) @ coef
    scale = np.abs(basis.evaluate(x, VARIABLES)) @ np.abs(coef)
    rhs = run_python(to_python(sides(terms, coef, VARIABLES[:2], VARIABLES[2:])))
    symbols = [sympy.Symbol(name) for name in VARIABLES]
    symbolic = sympy.lambdify(symbols, to_sympy(sides(terms, coef, VARIABLES[:2], VARIABLES[2:])), "numpy")
    for row, value, size in zip(x, expected, scale, strict=True):
        assert np.all(np.abs(np.subtract(rhs(0.0, row[:2], row[2:]), value)) <= 1e-12 * size)
        assert np.all(np.abs(np.subtract(symbolic(*row), value)) <= 1e-12 * size)


def test_c_computes_what_every_basis_computes(run_c):
    # one file for all bases: compiling is what takes time
    saved = [basis for basis in BASES if is_saved_whole(basis)]
    tables = [(basis, random_coef(len(basis.terms(VARIABLES)), 2, seed=4)) for basis in saved]
    sources = []
    calls = []
    for k, (basis, coef) in enumerate(tables):
        source = to_c(sides(basis.terms(VARIABLES), coef, VARIABLES[:2], VARIABLES[2:]))
        sources.append(source.replace("void rhs(", f"static void rhs{k}("))
        calls.append(f"rhs{k}(t, x, u, dx + {2 * k});")
    head = "void rhs(double t, const double *x, const double *u, double *dx)"
    rhs = run_c("\n".join([*sources, head, "{", *calls, "}", ""]), 2 * len(tables))
    for row in states(20, seed=5):
        got = np.reshape(rhs(row[:2], row[2:]), (-1, 2))
        for (basis, coef), values in zip(tables, got, strict=True):
            terms = basis.evaluate(row[None, :], VARIABLES)[0]
            assert np.all(np.abs(values - terms @ coef) <= 1e-12 * (np.abs(terms) @ np.abs(coef)))


@pytest.mark.parametrize("order", [1, 2])
def test_hostile_names_break_nothing(run_c, order):
    sympy = pytest.importorskip("sympy")
    basis = Polynomial(2) + Trigonometric(1)
    terms = basis.terms(HOSTILE_NAMES)
    coef = random_coef(len(terms), len(HOSTILE_NAMES), seed=6)
    options = {"order": order}
    x = np.random.default_rng(7).uniform(-1, 1, len(HOSTILE_NAMES))
    expected = basis.evaluate(x[None, :], HOSTILE_NAMES)[0] @ coef
    source = to_python(sides(terms, coef, HOSTILE_NAMES, **options))
    space = {}
    exec(compile(source, "exported.py", "exec"), space)
    assert space["STATES"] == HOSTILE_NAMES
    np.testing.assert_allclose(space["rhs"](0.0, x), expected, rtol=1e-9)
    rhs = run_c(to_c(sides(terms, coef, HOSTILE_NAMES, **options)), len(HOSTILE_NAMES))
    np.testing.assert_allclose(rhs(x), expected, rtol=1e-9)
    symbols = {sympy.Symbol(name): value for name, value in zip(HOSTILE_NAMES, x, strict=True)}
    symbolic = [float(e.subs(symbols)) for e in to_sympy(sides(terms, coef, HOSTILE_NAMES, **options))]
    np.testing.assert_allclose(symbolic, expected, rtol=1e-9)
    assert len(to_text(sides(terms, coef, HOSTILE_NAMES, **options)).splitlines()) == len(HOSTILE_NAMES)
    latex = to_latex(sides(terms, coef, HOSTILE_NAMES, **options))
    assert len(latex.splitlines()) == len(HOSTILE_NAMES) + 2
    assert r"\input" not in latex
    assert latex.count("{") - latex.count(r"\{") == latex.count("}") - latex.count(r"\}")


def test_exported_python_runs_without_this_library(tmp_path):
    path = tmp_path / "model.py"
    path.write_text(to_python(sides(TERMS, lorenz(), VARIABLES)), encoding="utf-8")
    program = "import sys, json, model; print(json.dumps([model.rhs(0, [1, 2, 3]), 'cindy' in sys.modules]))"
    done = subprocess.run([sys.executable, "-c", program], cwd=tmp_path, capture_output=True, check=True)
    values, loaded = json.loads(done.stdout)
    assert values == pytest.approx([10.0, 23.0, -6.0])
    assert not loaded


def test_coefficients_are_exported_to_the_last_bit():
    coef = np.array([[0.1 + 0.2], [math.pi * 1e-300], [-1 / 3]])
    found = re.findall(r"\d[\d.]*e?-?\d+\*", to_python(sides(Polynomial(2).terms(("x",)), coef, ("x",))))
    assert [float(f[:-1]) for f in found] == [abs(coef[1, 0]), abs(coef[2, 0])]


def test_a_thousand_terms_in_one_equation_are_no_trouble(run_c):
    basis = Polynomial(4)
    names = tuple(f"x{i + 1}" for i in range(10))
    terms = basis.terms(names)
    assert len(terms) == 1001
    coef = np.ones((len(terms), 1))
    x = np.full(10, 0.1)
    expected = float(np.sum(basis.evaluate(x[None, :], names)))
    # one equation in the first state, the others being inputs
    whole = sides(terms, coef, names[:1], names[1:])
    assert run_python(to_python(whole))(0.0, x[:1], x[1:]) == pytest.approx([expected])
    assert run_c(to_c(whole), 1)(x[:1], x[1:]) == pytest.approx([expected])


def test_text_is_as_promised():
    errors = np.full((len(NAMES), 3), 0.01)
    errors[NAMES.index("x"), 1] = 0.02
    errors[NAMES.index("x z"), 1] = errors[NAMES.index("x y"), 2] = 0.001
    errors[NAMES.index("z"), 2] = 0.002
    assert to_text(sides(TERMS, lorenz(), VARIABLES, errors=errors)).splitlines() == [
        "x' = -10.00(1) x + 10.00(1) y",
        "y' =  28.00(2) x - 1.00(1) y - 1.000(1) x z",
        "z' = -2.667(2) z + 1.000(1) x y",
    ]


def test_text_without_errors_shows_six_digits():
    lines = to_text(sides(TERMS, lorenz(), VARIABLES)).splitlines()
    assert lines[1:] == ["y' =  28 x - 1 y - 1 x z", "z' = -2.66667 z + 1 x y"]


def test_left_sides_say_the_kind_of_equation():
    terms, coef = Polynomial(1).terms(("x",)), np.array([[0.5], [0.0]])
    assert to_text(sides(terms, coef, ("x",))) == "x' = 0.5"
    assert to_text(sides(terms, coef, ("x",), order=2)) == "x'' = 0.5"
    assert to_text(sides(terms, coef, ("x",), discrete=True)) == "x[k+1] = 0.5"
    assert to_text(sides(terms, 0 * coef, ("x",))) == "x' = 0"
    assert r"\ddot{x} &= 0.5" in to_latex(sides(terms, coef, ("x",), order=2))
    assert "x[k+1] &= 0.5" in to_latex(sides(terms, coef, ("x",), discrete=True))
    assert "the next states" in to_python(sides(terms, coef, ("x",), discrete=True))


def test_latex_knows_subscripts_greek_letters_and_words():
    names = ("x1", "theta", "ES", "omega_max")
    terms = (Polynomial(2, bias=False) + Trigonometric(1)).terms(names)
    coef, errors = np.full((len(terms), 4), -2e-4), np.full((len(terms), 4), 3e-6)
    latex = to_latex(sides(terms, coef, names, errors=errors))
    for piece in (
        r"\dot{x}_{1} &= -2.00(3) \times 10^{-4}\, x_{1}",
        r"\dot{\theta} &=",
        r"\dot{\mathrm{ES}} &=",
        r"\dot{\omega}_{\mathrm{max}} &=",
        r"x_{1}\, \mathrm{ES}",
        r"\theta^{2}",
        r"\sin\left(x_{1}\right)",
    ):
        assert piece in latex


def test_latex_writes_formulas_as_mathematics():
    basis = Custom({"f": "x/(1 + x^2) - sqrt(abs(y))", "g": "x*exp(-y)"})
    latex = to_latex(sides(basis.terms(("x", "y")), np.eye(2), ("x", "y")))
    assert r"\frac{x}{1 + x^{2}}" in latex
    assert r"\sqrt{\left|y\right|}" in latex
    assert r"1\, x\, \exp\left(-y\right)" in latex


def test_a_python_function_with_a_coefficient_has_no_source():
    basis = Polynomial(1) + Custom({"f": np.tanh})
    terms = basis.terms(("x",))
    with pytest.raises(DataError, match="'f' is a Python function"):
        to_python(sides(terms, np.ones((3, 1)), ("x",)))
    assert run_python(to_python(sides(terms, np.array([[1.0], [2.0], [0.0]]), ("x",))))(0.0, [3.0]) == [7.0]
    assert to_text(sides(terms, np.ones((3, 1)), ("x",))) == "x' = 1 + 1 x + 1 f"


@pytest.mark.parametrize(
    ("value", "error", "text"),
    [
        (28.0, 0.02, "28.00(2)"),
        (-2e-4, 3e-6, "-2.00(3)e-4"),
        (2.6667, 0.0021, "2.667(2)"),
        (9.996, 0.0096, "10.00(1)"),
        (99999.7, 0.1, "99999.7(1)"),
        (9.97e-4, 1e-6, "9.97(1)e-4"),
        (1234.0, 56.0, "1.23(6)e3"),
        (28.0, 3.0, "28(3)"),
        (0.5, 3.0, "0.5(30)"),
        (1e-20, 1.0, "(1e-20 ± 1)"),
        (0.0, 0.02, "0.00(2)"),
        (0.0, 30.0, "0(3)e1"),
        (28.0, 1e-14, "28"),
        (1 / 3, 0.0, "0.333333"),
        (1 / 3, math.nan, "0.333333"),
        (1e6, None, "1e6"),
        (-2e-4, None, "-2e-4"),
        (1.0, None, "1"),
    ],
)
def test_a_number_is_printed_to_its_certain_digits(value, error, text):
    assert format_value(value, error) == text


@given(st.floats(1e-300, 1e300), st.floats(1e-10, 50), st.sampled_from([-1, 1]))
def test_the_printed_number_lies_within_its_error(value, ratio, sign):
    error = value * ratio
    text = format_value(sign * value, error)
    if "±" in text:
        assert error > 9 * value
        return
    digits, uncertain, power = re.fullmatch(r"(-?[\d.]+)\((\d+)\)(?:e(-?\d+))?", text).groups()
    shown = float(f"{digits}e{power or 0}")
    unit = 10.0 ** (int(power or 0) - len(digits.partition(".")[2]))
    assert abs(shown - sign * value) <= 0.5001 * unit
    assert abs(int(uncertain) * unit - error) <= 0.5001 * unit
    assert shown != 0
