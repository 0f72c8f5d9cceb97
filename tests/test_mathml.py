"""MathML of names, numbers, terms and whole equations."""

import re
from xml.etree import ElementTree

import pytest

from cindy.basis import Custom, Derivatives, Fourier, Polynomial, Trigonometric
from cindy.export.markup import differential, left_sides, name, number, summand, term_markup as term

BASES = [
    Polynomial(3),
    Trigonometric(2),
    Fourier([1, 2.5]) * Polynomial(1),
    Custom({"decay": "x*exp(-y)", "ratio": "(x + 1)/(x_max + y**2)", "root": "sqrt(abs(x) - 2*y)"})
    + Polynomial(1),
    Custom({"a < b & c": lambda x: x}) * Polynomial(1),
    Derivatives(2, 2, axes=("s",)),
]


def read(markup):
    return ElementTree.fromstring(f"<math>{markup}</math>")


def words(markup):
    return " ".join("".join(read(markup).itertext()).replace("\u2061", "").split())


@pytest.mark.parametrize("basis", BASES, ids=repr)
def test_every_term_is_well_formed_and_names_its_variables(basis):
    variables = ("x", "y", "x_max")
    for one in basis.terms(variables):
        shown = words(term(one))
        for factor in one:
            for variable in factor.variables if factor.expression is None and factor.kind != "call" else ():
                assert variable[0] in shown


@pytest.mark.parametrize(
    ("text", "shown"),
    [("x", "x"), ("x1", "x1"), ("omega_2", "ω2"), ("ES", "ES"), ("v_max", "vmax"), ("a<b", "a<b")],
)
def test_a_name_has_its_number_as_subscript_and_greek_letters(text, shown):
    assert words(name(text)) == shown
    assert ("<msub>" in name(text)) == bool(re.search(r"\d|_", text))


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("28.00(2)", "28.00(2)"),
        ("-2.00(3)e-4", "−2.00(3)×10−4"),
        ("5", "5"),
        ("(1.0 ± 3)", "(1.0 ± 3)"),
        ("nan", "nan"),
    ],
)
def test_a_number_keeps_its_error_and_its_power_of_ten(text, shown):
    assert words(number(text)) == shown


def test_a_power_of_a_numbered_variable_stands_above_its_number():
    [square] = [one for one in Polynomial(2).terms(("x1",)) if one and one[0].power == 2]
    [whole] = read(term(square))
    assert whole.tag == "msubsup"
    assert ["".join(part.itertext()) for part in whole] == ["x", "1", "2"]


def test_a_power_of_a_letter_is_raised_by_the_font_and_not_by_the_height_of_a_row():
    [square] = [one for one in Polynomial(2).terms(("x",)) if one and one[0].power == 2]
    [whole] = read(term(square))
    assert [part.tag for part in whole] == ["mi", "mrow"]


def test_the_increment_of_random_forcing_has_a_subscript_only_beside_other_states():
    [constant] = Polynomial(0).terms(("x", "y"))
    several = [differential(state, 1, [], [(0.25, 0.1, constant)])[1][-1] for state in ("x", "x_1")]
    assert [words(re.sub("</?math>", "", side)) for side in several] == ["0.5(1)dWx", "0.5(1)dWx1"]
    [alone] = differential("x", 1, [], [(0.25, 0.1, constant)], alone=True)[1]
    assert words(re.sub("</?math>", "", alone)) == "0.5(1)dW"


def test_brackets_stretch_around_what_is_tall_and_around_nothing_else():
    low, tall = Custom({"f": "sin(x)", "g": "x*(1 + x/y)"}).terms(("x", "y"))
    assert "<mo>(</mo>" not in term(low)
    assert "<mo>(</mo>" in term(tall)


def test_a_sum_has_its_signs_between_the_summands_and_only_a_minus_in_front():
    constant, x = Polynomial(1).terms(("x",))
    assert re.sub("<[^>]*>", "", summand(-2.0, 0.1, x, first=True)) == "−2.0(1)x"
    assert re.sub("<[^>]*>", "", summand(2.0, 0.1, x, first=True)) == "2.0(1)x"
    assert re.sub("<[^>]*>", "", summand(2.0, 0.1, constant, first=False)) == "+2.0(1)"


def test_left_sides_are_dotted_letters_fractions_or_the_next_sample():
    assert "˙" in left_sides(["x1"], 1)[0]
    assert "¨" in left_sides(["x"], 2)[0]
    assert "<mfrac>" in left_sides(["ES"], 1)[0]
    assert (
        words(left_sides(["x"], 1, discrete=True)[0].replace("<math>", "").replace("</math>", ""))
        == "x[k+1]="
    )
