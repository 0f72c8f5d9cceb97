"""Laws that hold for every basis."""

import json
import math
import pickle
import re

import numpy as np
from tests.basis.bases import FORMULAS, VARIABLES, every_basis, saturation, saved_bases, states, whole

from cindy.basis import Basis, Custom, Fourier, Polynomial, Trigonometric, term_variables
from cindy.basis.plan import BLOCK, compile_rhs

KNOWN = {name: str(text).replace("^", "**") for name, text in FORMULAS.functions}


def by_hand(name: str, row: np.ndarray) -> float:
    """A term's value, read from its name by rules that share nothing with the library."""
    values = {**vars(math), "abs": abs, **dict(zip(VARIABLES, map(float, row), strict=True))}
    if name in KNOWN:
        return eval(KNOWN[name], values)
    result = 1.0
    for word in re.split(r" (?![^(]*\))", name):
        base, power = re.fullmatch(r"(.*?)(?:\^(\d+))?", word).groups()
        if base == "sat":
            value = saturation(values["x"], values["z"])
        elif base == "whole":
            value = whole(row[None, :])[0]
        else:
            formula = KNOWN.get(base, KNOWN.get(base[1:-1], base))
            value = eval(re.sub(r"(\d) ([xyz])", r"\1*\2", formula), values)
        result *= value ** int(power or 1)
    return result


@every_basis
def test_names_and_values_agree_in_order(basis):
    x = states(3)
    values = basis.evaluate(x, VARIABLES)
    names = basis.names(VARIABLES)
    assert values.shape == (3, len(names))
    expected = [[by_hand(name, row) for name in names] for row in x]
    np.testing.assert_allclose(values, expected, rtol=1e-13, atol=1e-14)


@every_basis
def test_names_are_distinct_and_need_no_data(basis):
    names = basis.names(VARIABLES)
    assert len(set(names)) == len(names) == len(basis.terms(VARIABLES))


@every_basis
def test_the_derivative_agrees_with_differences(basis):
    x = states(10)
    slopes = basis.derivative(x, VARIABLES)
    h = 1e-3
    for k in range(len(VARIABLES)):
        shift = np.zeros(len(VARIABLES))
        shift[k] = h
        sides = [basis.evaluate(x + c * shift, VARIABLES) for c in (1, -1, 2, -2)]
        differences = (8 * (sides[0] - sides[1]) - (sides[2] - sides[3])) / (12 * h)
        np.testing.assert_allclose(slopes[:, :, k], differences, rtol=1e-8, atol=1e-8)


@every_basis
def test_exchanging_two_variables_twice_changes_nothing(basis):
    mapping = {"x": "z", "z": "x"}
    image = basis.renamed(VARIABLES, mapping)
    for i, j in enumerate(image):
        assert j == -1 or image[j] == i
    values = basis.evaluate(states(), VARIABLES)
    swapped = basis.evaluate(states()[:, ::-1], VARIABLES)
    present = image >= 0
    np.testing.assert_allclose(swapped[:, present], values[:, image[present]], rtol=1e-13)
    constant = [i for i, term in enumerate(basis.terms(VARIABLES)) if not term]
    assert all(image[i] == i for i in constant)


@every_basis
def test_a_description_makes_the_same_basis_again(basis):
    text = json.dumps(basis.to_dict())
    again = Basis.from_dict(json.loads(text), functions={"sat": saturation, "whole": whole})
    assert again == basis
    assert again.names(VARIABLES) == basis.names(VARIABLES)
    np.testing.assert_array_equal(again.evaluate(states(), VARIABLES), basis.evaluate(states(), VARIABLES))


@saved_bases
def test_what_is_typed_is_what_is_shown(basis):
    names = {kind.__name__: kind for kind in (Polynomial, Trigonometric, Fourier, Custom)}
    assert eval(repr(basis), names) == basis


@every_basis
def test_pickles_are_equal(basis):
    assert pickle.loads(pickle.dumps(basis)) == basis


@every_basis
def test_evaluation_is_blind_to_blocks_and_memory_order(basis):
    x = states(BLOCK + 7)
    whole_table = basis.evaluate(x, VARIABLES)
    assert whole_table.flags.f_contiguous
    out = np.full(whole_table.shape, np.nan)
    assert basis.evaluate(np.asfortranarray(x), VARIABLES, out=out) is out
    np.testing.assert_array_equal(out, whole_table)
    np.testing.assert_array_equal(basis.evaluate(x[-3:], VARIABLES), whole_table[-3:])


@every_basis
def test_a_term_depends_on_its_variables_only(basis):
    x = states()
    for k, name in enumerate(VARIABLES):
        moved = x.copy()
        moved[:, k] += 0.1
        change = (basis.evaluate(moved, VARIABLES) != basis.evaluate(x, VARIABLES)).any(axis=0)
        for term, differs in zip(basis.terms(VARIABLES), change, strict=True):
            assert name in term_variables(term) or not differs


@every_basis
def test_a_sum_with_itself_and_its_parts_adds_nothing(basis):
    assert (basis + basis).terms(VARIABLES) == basis.terms(VARIABLES)


@every_basis
def test_products_commute_up_to_order(basis):
    other = Polynomial(1) + Fourier([2])
    assert set((basis * other).names(VARIABLES)) == set((other * basis).names(VARIABLES))


@every_basis
def test_the_compiled_right_hand_side_agrees_with_evaluation(basis):
    rng = np.random.default_rng(1)
    terms = basis.terms(VARIABLES)
    coef = rng.normal(size=(len(terms), 2)) * (rng.random((len(terms), 2)) < 0.6)
    rhs = compile_rhs(terms, coef, VARIABLES)
    x = states(20, seed=2)
    for row, value in zip(x, basis.evaluate(x, VARIABLES) @ coef, strict=True):
        np.testing.assert_allclose(rhs(0.0, row[:2], row[2:]), value, rtol=1e-12, atol=1e-12)
