"""SBML: read back by an evaluator of its own, it says what the model says."""

import math
from xml.etree import ElementTree

import numpy as np
import pytest

from cindy.basis import Custom, Fourier, Polynomial, Trigonometric
from cindy.errors import DataError
from cindy.formulation import Discrete, Integral
from cindy.model.model import Model

CORE = "{http://www.sbml.org/sbml/level3/version2/core}"
MATH = "{http://www.w3.org/1998/Math/MathML}"
BASES = [
    Polynomial(3),
    Trigonometric(2),
    Fourier([1, 2.5]) * Polynomial(1),
    Custom({"decay": "x*exp(-y)", "odd": "sqrt(abs(x)) - atan(y)**2/3 + log(2 + x**2)"}) + Polynomial(1),
]
FUNCTIONS = {
    "plus": lambda *a: math.fsum(a),
    "times": lambda *a: math.prod(a),
    "divide": lambda a, b: a / b,
    "power": lambda a, b: a**b,
    "minus": lambda a: -a,
    "root": math.sqrt,
    "ln": math.log,
    "exp": math.exp,
    "abs": abs,
    "sin": math.sin,
    "cos": math.cos,
    "arctan": math.atan,
}


def value(node, state):
    tag = node.tag.removeprefix(MATH)
    if tag == "cn":
        parts = list(node.itertext())
        return float(parts[0]) * 10.0 ** (int(parts[1]) if len(parts) > 1 else 0)
    if tag == "ci":
        return state[node.text]
    operation, *operands = node
    return FUNCTIONS[operation.tag.removeprefix(MATH)](*(value(one, state) for one in operands))


def random_model(basis, states=("x", "y")):
    rng = np.random.default_rng(1)
    shape = (len(basis.names(states)), len(states))
    coef = rng.normal(size=shape) * 10.0 ** rng.integers(-9, 3, shape) * (rng.random(shape) < 0.7)
    return Model(coef, basis, states)


@pytest.mark.parametrize("basis", BASES, ids=repr)
def test_the_rate_rules_are_the_right_hand_side(basis):
    model = random_model(basis)
    document = ElementTree.fromstring(model.to_sbml([0.5, 2.0]))
    rules = {r.get("variable"): r.find(f"{MATH}math")[0] for r in document.iter(f"{CORE}rateRule")}
    starts = {s.get("id"): float(s.get("initialConcentration")) for s in document.iter(f"{CORE}species")}
    assert starts == {"x": 0.5, "y": 2.0}
    for x in np.random.default_rng(0).uniform(0.1, 2, (5, 2)):
        state = dict(zip(("x", "y"), x, strict=True))
        found = [value(rules[name], state) for name in ("x", "y")]
        np.testing.assert_allclose(found, model.predict(x), rtol=1e-12, atol=1e-15)


def test_an_absent_equation_is_zero_and_names_that_are_no_identifiers_are_kept_as_names():
    model = Model(np.zeros((3, 2)), Polynomial(1), ("a<b", '"c" & d'))
    document = ElementTree.fromstring(model.with_coef({("a<b", '"c" & d'): -1.0}).to_sbml())
    names = {s.get("id"): s.get("name") for s in document.iter(f"{CORE}species")}
    assert names == {"s0": "a<b", "s1": '"c" & d'}
    first, second = (r.find(f"{MATH}math")[0] for r in document.iter(f"{CORE}rateRule"))
    assert value(first, {"s0": 1.0, "s1": 3.0}) == -3.0
    assert value(second, {}) == 0.0


@pytest.mark.parametrize(
    ("model", "message"),
    [
        (Model([[1.0], [0.0]], Polynomial(1), ("x",), formulation=Integral(order=2)), "without inputs"),
        (Model([[1.0], [0.0]], Polynomial(1), ("x",), formulation=Discrete()), "without inputs"),
        (Model([[1.0], [0.0], [1.0]], Polynomial(1), ("x",), inputs=("u",)), "without inputs"),
        (Model([[1.0]], Custom({"kick": lambda x: x}), ("x",)), "Python function"),
    ],
)
def test_what_sbml_cannot_say_is_refused(model, message):
    with pytest.raises(DataError, match=message):
        model.to_sbml()


def test_a_start_of_the_wrong_length_is_refused():
    with pytest.raises(DataError, match=r"x0 must have 2 values .*, but there are 1"):
        random_model(Polynomial(1)).to_sbml([1.0])
