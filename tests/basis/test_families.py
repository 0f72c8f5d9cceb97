"""What each family holds, and what it refuses."""

import math

import numpy as np
import pytest

from cindy.basis import Basis, Custom, Fourier, Polynomial, Trigonometric
from cindy.errors import DataError


def numbered(d):
    return tuple(f"x{i + 1}" for i in range(d))


@pytest.mark.parametrize(("degree", "d", "count"), [(3, 5, 56), (3, 10, 286), (2, 4, 15), (0, 3, 1)])
def test_monomials_are_counted_by_the_binomial(degree, d, count):
    assert len(Polynomial(degree).names(numbered(d))) == count


@pytest.mark.parametrize(("d", "count"), [(5, 56), (10, 211)])
def test_products_of_two_distinct_waves_are_counted(d, count):
    assert len(Trigonometric(2).names(numbered(d))) == count


def test_monomials_come_by_degree_then_by_variable():
    expected = ("1", "x", "y", "z", "x^2", "x y", "x z", "y^2", "y z", "z^2")
    assert Polynomial(2).names(("x", "y", "z")) == expected
    assert Polynomial(3, interaction=False).names(("x", "y")) == ("1", "x", "y", "x^2", "y^2", "x^3", "y^3")
    assert Polynomial(1, bias=False).names(("x", "y")) == ("x", "y")


def test_waves_come_with_sin_before_cos():
    single = ("1", "sin(x)", "cos(x)", "sin(y)", "cos(y)")
    double = (
        "sin(x) cos(x)",
        "sin(x) sin(y)",
        "sin(x) cos(y)",
        "cos(x) sin(y)",
        "cos(x) cos(y)",
        "sin(y) cos(y)",
    )
    assert Trigonometric(2).names(("x", "y")) == single + double
    expected = ("sin(x)", "cos(x)", "sin(0.5 x)", "cos(0.5 x)", "sin(2 x)", "cos(2 x)")
    assert Fourier([1, 0.5, 2]).names(("x",)) == expected


def test_products_merge_equal_factors_into_powers():
    squares = (Trigonometric(1) * Trigonometric(1)).names(("x",))
    assert squares == ("1", "sin(x)", "cos(x)", "sin(x)^2", "sin(x) cos(x)", "cos(x)^2")
    mixed = Custom({"x + y": "x + y", "f(x)": "exp(x)"})
    names = (mixed * mixed).names(("x", "y"))
    assert names == ("(x + y)^2", "f(x) (x + y)", "f(x)^2")


def test_a_polynomial_times_a_polynomial_is_the_higher_polynomial():
    names = ("x", "y", "z")
    assert set((Polynomial(2) * Polynomial(1)).terms(names)) == set(Polynomial(3).terms(names))


def test_a_subset_keeps_the_order_it_was_given_and_writes_factors_in_the_order_of_the_states():
    assert Polynomial(2).on("y", "x").names(("x", "y", "z")) == ("1", "y", "x", "y^2", "x y", "x^2")


def test_inputs_are_variables_like_states():
    assert (Polynomial(1) * Fourier([1]).on("u")).names(("x", "u"))[:2] == ("sin(u)", "cos(u)")


def test_a_constant_and_squares_of_waves_are_linearly_dependent():
    values = (Trigonometric(1) * Trigonometric(1)).evaluate(np.linspace(0, 6, 50)[:, None])
    assert np.linalg.matrix_rank(values) == values.shape[1] - 1


def test_exchange_knows_formulas_up_to_the_order_of_their_operands():
    basis = Custom({"f": "x*exp(-y) + 1", "g": "1 + exp(-x)*y", "h": "x*y", "k": "x - 2*y"})
    assert list(basis.renamed(("x", "y"), {"x": "y", "y": "x"})) == [1, 0, 2, -1]


def test_a_constant_of_nature_is_a_variable_where_a_state_has_its_name():
    x = np.array([[3.0, 4.0]])
    assert Custom({"f": "e*pi*x"}).evaluate(x, ("x", "y"))[0, 0] == pytest.approx(math.e * math.pi * 3)
    assert Custom({"f": "e*x"}).evaluate(x, ("x", "e"))[0, 0] == 12.0


def test_functions_get_the_columns_that_their_parameters_name():
    x = np.array([[3.0, 4.0], [5.0, 6.0]])
    basis = Custom(
        {
            "named": lambda y, x: y - x,
            "all": lambda rows: rows[:, 0] * rows[:, 1],
            "any": lambda *columns: sum(columns),
            "default": lambda y, scale=2.0: scale * y,
        }
    )
    np.testing.assert_array_equal(basis.evaluate(x, ("x", "y")), [[1, 12, 7, 8], [1, 30, 11, 12]])


def test_names_default_to_numbered_states():
    np.testing.assert_array_equal(Polynomial(1).evaluate([[3.0, 4.0]]), [[1.0, 3.0, 4.0]])
    assert Custom({"f": "x1*x2"}).evaluate([[3.0, 4.0]])[0, 0] == 12.0


def test_a_custom_function_cannot_change_the_data():
    def greedy(x):
        x[:] = 0.0
        return x

    with pytest.raises(DataError, match="'greedy' raised ValueError"):
        Custom({"greedy": greedy}).evaluate(np.ones((3, 1)), ("x",))


BAD_FUNCTIONS = {
    "nan": (lambda x: np.where(x > 1.5, np.nan, x), r"'nan' must return finite .* sample 2 \(x = 2\)"),
    "inf": ("1/(x - 2)", r"'inf' must return finite numbers, but gave inf at sample 2"),
    "log": ("log(x)", r"'log' must return finite numbers, but gave -inf at sample 0"),
    "short": (lambda x: x[1:], r"'short' must return one number per sample"),
    "scalar": (lambda x: np.sum(x), r"'scalar' must return one number per sample"),
    "matrix": (lambda x: x[:, None], r"'matrix' must return one number per sample"),
    "none": (lambda x: None, r"'none' must return one number per sample"),
    "words": (lambda x: np.array(["a"] * len(x)), r"'words' must return real numbers"),
    "complex": (lambda x: x + 1j, r"'complex' must return real numbers"),
    "raises": (lambda x: x / {}["key"], r"'raises' raised KeyError"),
    "branch": (lambda x: x if x > 0 else -x, r"'branch' raised ValueError"),
    "math": (lambda x: math.exp(x), r"'math' raised TypeError"),
}


@pytest.mark.parametrize("name", BAD_FUNCTIONS)
def test_a_bad_function_is_named_with_what_it_did(name):
    function, message = BAD_FUNCTIONS[name]
    with pytest.raises(DataError, match=message):
        Custom({name: function}).evaluate([[0.0], [1.0], [2.0]], ("x",))


REFUSED = {
    "a negative degree": lambda: Polynomial(-1),
    "a broken degree": lambda: Polynomial(1.5),
    "an absurd degree": lambda: Polynomial(10**9),
    "bias that is no truth": lambda: Polynomial(2, bias="no"),
    "a wave of no degree": lambda: Trigonometric(0),
    "no frequencies": lambda: Fourier([]),
    "a frequency twice": lambda: Fourier([1, 1.0]),
    "a frequency below zero": lambda: Fourier([-1]),
    "a frequency that is no number": lambda: Fourier(["a"]),
    "frequencies that are no list": lambda: Fourier(2.5),
    "no functions": lambda: Custom({}),
    "functions without names": lambda: Custom([np.sin]),
    "a function that is no function": lambda: Custom({"f": 3}),
    "a name that breaks the line": lambda: Custom({"a\nb": "x"}),
    "the name of the constant": lambda: Custom({"1": "x"}),
    "too many terms": lambda: Polynomial(60).names(numbered(20)),
    "too many products": lambda: (Polynomial(5) * Polynomial(5)).names(numbered(8)),
    "no terms": lambda: Polynomial(0, bias=False).names(("x",)),
    "a variable twice": lambda: Polynomial(1).names(("x", "x")),
    "names given as one word": lambda: Polynomial(1).names("xy"),
    "a state called like a term": lambda: Polynomial(2).names(("x", "x^2")),
    "two functions of one name": lambda: (Custom({"f": "x"}) + Custom({"f": "x^2"})).names(("x",)),
    "one function of two names": lambda: Custom({"f": "x*2", "g": "2*x"}).names(("x",)),
    "a formula of no variable": lambda: Custom({"f": "2*pi"}).names(("x",)),
    "a function of strangers": lambda: Custom({"f": lambda a, b: a}).names(("x", "y")),
    "rows that are not a table": lambda: Polynomial(1).evaluate([1.0, 2.0]),
    "rows with nan": lambda: Polynomial(1).evaluate([[1.0, np.nan]]),
    "rows of words": lambda: Polynomial(1).evaluate([["a"]]),
    "too few columns": lambda: Polynomial(1).evaluate([[1.0]], ("x", "y")),
    "powers beyond floating point": lambda: Polynomial(3).evaluate([[1e150]]),
    "an output of another shape": lambda: Polynomial(1).evaluate([[1.0]], out=np.empty((1, 3))),
}


@pytest.mark.parametrize("case", REFUSED)
def test_it_refuses(case):
    with pytest.raises(DataError):
        REFUSED[case]()


def test_an_unknown_variable_is_answered_with_the_nearest():
    with pytest.raises(DataError, match='Did you mean "theta"'):
        Polynomial(1).on("tetha").names(("theta", "phi"))
    with pytest.raises(DataError, match='Did you mean "theta"'):
        Custom({"f": "thta^2"}).names(("theta", "phi"))
    with pytest.raises(DataError, match='Did you mean "theta"'):
        Polynomial(1).renamed(("theta", "phi"), {"tetha": "phi"})


DAMAGED = [
    None,
    [],
    {},
    {"basis": 3},
    {"basis": "Polynomal", "degree": 2},
    {"basis": "Polynomial"},
    {"basis": "Polynomial", "degree": "2"},
    {"basis": "Polynomial", "degree": 2, "colour": 1},
    {"basis": "Trigonometric", "degree": None},
    {"basis": "Fourier", "frequencies": "all"},
    {"basis": "Sum", "parts": "all"},
    {"basis": "Sum", "parts": []},
    {"basis": "Product", "left": {"basis": "Polynomial", "degree": 1}},
    {"basis": "Subset", "of": {"basis": "Polynomial", "degree": 1}, "variables": "xy"},
    {"basis": "Custom", "functions": ["x"]},
    {"basis": "Custom", "functions": {"f": 3}},
    {"basis": "Custom", "functions": {"f": "__import__('os').system('true')"}},
    {"basis": "Custom", "functions": {"f": "x.__class__"}},
    {"basis": "Basis"},
]


@pytest.mark.parametrize("data", DAMAGED, ids=str)
def test_a_damaged_description_is_refused(data):
    with pytest.raises(DataError):
        Basis.from_dict(data)


def test_a_description_nested_beyond_reason_is_refused():
    data = {"basis": "Polynomial", "degree": 1}
    for _ in range(300):
        data = {"basis": "Sum", "parts": [data]}
    with pytest.raises(DataError):
        Basis.from_dict(data)


def test_a_python_function_must_be_handed_back():
    data = Custom({"f": np.tanh}).to_dict()
    with pytest.raises(DataError, match=r"functions=\{'f'"):
        Basis.from_dict(data)
    assert Basis.from_dict(data, functions={"f": np.tanh}) == Custom({"f": np.tanh})


def test_a_class_of_the_users_named_sum_does_not_change_addition():
    kinds = dict(Basis.kinds)
    try:

        class Sum(Polynomial):
            pass

        assert type(Polynomial(1) + Trigonometric(1)).__module__.startswith("cindy.")
        assert Sum(1).names(("x",)) == ("1", "x")
    finally:
        Basis.kinds.clear()
        Basis.kinds.update(kinds)
