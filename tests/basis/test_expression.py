"""Formulas: what they mean, and that nothing else gets in."""

import math

import numpy as np
import pytest
from hypothesis import given, strategies as st

from cindy.basis import Custom
from cindy.basis.expression import FUNCTIONS, Expression, parse
from cindy.basis.plan import Language, formula
from cindy.errors import DataError

# everything stays of the size of 1, so that no cancellation blurs the comparison
leaves = st.sampled_from(["x", "y", "0", "1", "0.25", "0.7"])


def compound(inner):
    return st.one_of(
        st.builds("({}) {} ({})".format, inner, st.sampled_from("+-*"), inner),
        st.builds("{} {} {}".format, inner, st.sampled_from("+-*"), inner),
        st.builds("({}) / (3 + ({})**2)".format, inner, inner),
        st.builds("{}({})".format, st.sampled_from(["sin", "cos", "tanh", "atan", "abs"]), inner),
        st.builds("-({})".format, inner),
        st.builds("{} / 2".format, inner),
    )


formulas = st.recursive(leaves, compound, max_leaves=10)
PYTHON = {"sin": math.sin, "cos": math.cos, "tanh": math.tanh, "atan": math.atan, "abs": abs}


def value_of(node: Expression, x: float, y: float) -> float:
    with np.errstate(all="ignore"):
        return float(node.evaluate({"x": np.float64(x), "y": np.float64(y)}))


@given(formulas, st.floats(-1, 1), st.floats(-1, 1))
def test_a_formula_means_what_python_means(text, x, y):
    expected = eval(text, {**PYTHON, "x": x, "y": y})
    assert value_of(parse(text, "test"), x, y) == pytest.approx(expected, rel=1e-12, abs=1e-12)


@given(formulas, st.floats(-1, 1), st.floats(-1, 1))
def test_a_formula_written_out_means_the_same(text, x, y):
    node = parse(text, "test")
    for names in ({"x": "a0", "y": "a1"}, {"x": "(a0)", "y": "-(-a1)"}):
        source = formula(node, names, Language("", "", ""))
        result = eval(source, {**PYTHON, "fabs": abs, "pow": pow, "a0": x, "a1": y})
        assert result == pytest.approx(value_of(node, x, y), rel=1e-12, abs=1e-12)


@pytest.mark.parametrize("name", FUNCTIONS)
def test_every_function_has_its_derivative(name):
    node = parse(f"{name}(0.3*x + 0.2)", "test")
    slope = node.derivative("x")
    for x in (-0.5, 0.1, 0.9):
        if name in ("log", "sqrt"):
            x = abs(x)
        shifted = [value_of(node, x + h, 0.0) for h in (1e-3, -1e-3, 2e-3, -2e-3)]
        difference = (8 * (shifted[0] - shifted[1]) - (shifted[2] - shifted[3])) / 12e-3
        assert value_of(slope, x, 0.0) == pytest.approx(difference, rel=1e-8)


@pytest.mark.parametrize(
    ("text", "meaning"),
    [
        ("2^3^2", 512.0),
        ("-2^2", -4.0),
        ("8/4/2", 1.0),
        ("7-3-2", 2.0),
        ("2*-3", -6.0),
        ("6/(2*3)", 1.0),
        ("-(-2*x)**3", 64.0),
        ("x - (1 - x)", 3.0),
        ("--x", 2.0),
        ("1e3*x", 2000.0),
        ("2**-1", 0.5),
    ],
)
def test_operators_bind_as_in_python(text, meaning):
    assert value_of(parse(text, "test"), 2.0, 0.0) == meaning


HOSTILE = [
    "",
    "x y",
    "__import__('os')",
    "x.real",
    "x[0]",
    "(lambda: x)()",
    "x if x else y",
    "[x for x in y]",
    "f'{x}'",
    "'x'",
    "x, y",
    "x := 2",
    "x; y",
    "x\ny",
    "exp(x, y)",
    "exp(*x)",
    "exp(x=y)",
    "eval(x)",
    "sin",
    "x < y < 1",
    "x and y",
    "not x",
    "~x",
    "x % y",
    "x // y",
    "x @ y",
    "1j*x",
    "True",
    "None",
    "1e999*x",
    "9" * 400,
    "9" * 3999,
    "(" * 1000 + "x" + ")" * 1000,
    "sin(" * 150 + "x" + ")" * 150,
    "-" * 3000 + "x",
    "x" + "**x" * 900,
    "x+" * 1900 + "x",
    "x" * 5000,
    "x\0",
]


@pytest.mark.parametrize("text", HOSTILE, ids=lambda text: text[:20])
def test_anything_else_is_refused(text):
    with pytest.raises(DataError):
        Custom({"f": text}).names(("x", "y"))


def test_an_unknown_function_is_answered_with_the_nearest():
    with pytest.raises(DataError, match='Did you mean "sqrt"'):
        parse("sqr(x)", "test")
