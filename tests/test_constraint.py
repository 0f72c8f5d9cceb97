"""Constraints: what is written in names is what the rows demand."""

import numpy as np
import pytest
import scipy.linalg
from hypothesis import given, strategies as st

import cindy
from cindy.errors import CindyError, ConstraintError
from cindy.problem.constraint import Names, at_samples, bound, conserve, exchange, fix, linear, tie
from cindy.systems import fput, kuramoto, michaelis_menten, spring_masses

NAMES = Names(cindy.Polynomial(2), ("S", "ES", "P"))

BASES = [
    cindy.Polynomial(3),
    cindy.Polynomial(2, bias=False, interaction=False),
    cindy.Trigonometric(2),
    cindy.Fourier((1, 2)),
    cindy.Polynomial(1) * cindy.Trigonometric(1),
    cindy.Polynomial(2) + cindy.Fourier((1,)),
    cindy.Polynomial(2).on("x", "y") + cindy.Polynomial(1),
    cindy.Custom({"a": "exp(-x)", "b": "exp(-y)"}) + cindy.Polynomial(1),
]
every_basis = pytest.mark.parametrize("basis", BASES, ids=repr)


def table(constraint, names=NAMES):
    """The rows as (dense weights, lower, upper)."""
    size = len(names.terms) * len(names.states)
    rows = list(constraint.rows(names))
    matrix = np.zeros((len(rows), size))
    for k, row in enumerate(rows):
        for i, weight in row.weights.items():
            matrix[k, i] = weight
    return matrix, np.array([r.lower for r in rows]), np.array([r.upper for r in rows])


def satisfying(constraint, names, seed=0):
    """Random coefficients (terms, states) that satisfy equalities."""
    matrix, lower, upper = table(constraint, names)
    np.testing.assert_array_equal(lower, upper)
    null = scipy.linalg.null_space(matrix)
    x = np.linalg.lstsq(matrix, lower)[0] + null @ np.random.default_rng(seed).standard_normal(null.shape[1])
    return x.reshape(len(names.terms), len(names.states))


SINGLE = [
    (fix("P", "ES", 2.0), {("P", "ES"): 1.0}, 2.0, 2.0, "[P: ES] = 2"),
    (bound("S", "S ES", upper=0.0), {("S", "S ES"): 1.0}, -np.inf, 0.0, "[S: S ES] ≤ 0"),
    (bound("S", "1", 0.5), {("S", "1"): 1.0}, 0.5, np.inf, "0.5 ≤ [S: 1]"),
    (bound("S", "1", -1, 1), {("S", "1"): 1.0}, -1.0, 1.0, "-1 ≤ [S: 1] ≤ 1"),
    (tie(("S", "S"), ("P", "P")), {("S", "S"): 1, ("P", "P"): -1}, 0, 0, "[S: S] = [P: P]"),
    (tie(("S", "S"), ("P", "P"), -3), {("S", "S"): 1, ("P", "P"): 3}, 0, 0, "[S: S] = -3 [P: P]"),
    (
        linear({("S", "S"): 1, ("P", "ES"): 2.5}, 1, 2),
        {("S", "S"): 1, ("P", "ES"): 2.5},
        1.0,
        2.0,
        "1 ≤ [S: S] + 2.5 [P: ES] ≤ 2",
    ),
    (linear({("S", "S"): 4}, 1, 1), {("S", "S"): 4.0}, 1.0, 1.0, "4 [S: S] = 1"),
]


@pytest.mark.parametrize(("constraint", "weights", "lower", "upper", "text"), SINGLE, ids=lambda v: str(v))
def test_a_constraint_is_one_row_and_its_text_says_it(constraint, weights, lower, upper, text):
    matrix, low, high = table(constraint)
    expected = np.zeros((len(NAMES.terms), len(NAMES.states)))
    for (state, term), weight in weights.items():
        expected[NAMES.terms.index(term), NAMES.states.index(state)] = weight
    np.testing.assert_array_equal(matrix, expected.ravel()[None])
    assert (low[0], high[0]) == (lower, upper)
    assert str(constraint) == text


def test_a_coefficient_named_twice_counts_twice():
    matrix, *_ = table(tie(("S", "S"), ("S", "S"), 3.0))
    assert matrix[0, NAMES.flat("S", "S")] == -2.0


@given(
    st.lists(st.floats(-5, 5).filter(lambda w: abs(w) > 1e-3), min_size=3, max_size=3),
    st.floats(-3, 3),
    st.integers(0, 99),
)
def test_a_total_changes_at_its_rate_wherever_the_states_are(weights, rate, seed):
    law = conserve(dict(zip(NAMES.states, weights, strict=True)), rate=rate)
    coef = satisfying(law, NAMES, seed)
    x = np.random.default_rng(seed).standard_normal((20, 3))
    rates = NAMES.basis.evaluate(x, NAMES.states) @ coef @ np.array(weights)
    np.testing.assert_allclose(rates, rate, atol=1e-9 * max(1.0, np.abs(coef).max()))


def test_laws_are_written_as_they_are_meant():
    assert str(conserve(["S", "ES"])) == "S + ES is conserved"
    assert str(conserve({"S": 2, "P": -1})) == "2 S - 1 P is conserved"
    assert str(conserve({"S": 1}, rate=0.5)) == "S changes at the rate 0.5"
    assert str(conserve("S", tolerance=0.01)) == "S is conserved within 0.01 at every sample"
    assert str(exchange("S", "P")) == "S and P are interchangeable"
    assert str(exchange("S", "P", terms=("S", "P"))) == "S and P are interchangeable in S, P"
    assert str(exchange("S", "P", scope="all")) == "S and P are interchangeable in every equation"


def test_a_law_with_a_tolerance_waits_for_the_samples():
    law = conserve({"S": 1, "P": 2}, tolerance=0.1)
    assert list(law.rows(NAMES)) == []
    assert at_samples(law)
    assert law.sample_weights(NAMES) == {0: 1.0, 2: 2.0}
    assert not at_samples(conserve(["S"]))


@every_basis
def test_two_states_exchanged_everywhere_leave_the_motion_as_it_was(basis):
    names = Names(basis, ("x", "y", "z"))
    coef = satisfying(exchange("x", "y", scope="all"), names)
    assert np.abs(coef).max() > 0
    x = np.random.default_rng(1).uniform(0.5, 1.5, (20, 3))
    swapped = x[:, [1, 0, 2]]
    there = basis.evaluate(swapped, names.states) @ coef
    here = basis.evaluate(x, names.states) @ coef
    np.testing.assert_allclose(there, here[:, [1, 0, 2]], atol=1e-10)


@every_basis
def test_a_pair_exchanged_maps_one_equation_onto_the_other_in_the_terms_of_both_alone(basis):
    names = Names(basis, ("x", "y", "z"))
    coef = satisfying(exchange("x", "y"), names)
    of_pair = np.array(
        [t != "1" and not set("z") & set(t.replace("exp", "").replace("cos", "")) for t in names.terms]
    )
    x = np.random.default_rng(1).uniform(0.5, 1.5, (20, 3))
    there = basis.evaluate(x[:, [1, 0, 2]], names.states)[:, of_pair] @ coef[of_pair, 0]
    here = basis.evaluate(x, names.states)[:, of_pair] @ coef[of_pair, 1]
    np.testing.assert_allclose(there, here, atol=1e-10)
    matrix, *_ = table(exchange("x", "y"), names)
    untouched = ~matrix.reshape(-1, *coef.shape).any(axis=(0, 2))
    np.testing.assert_array_equal(untouched, ~of_pair)
    assert not matrix.reshape(-1, *coef.shape)[:, :, 2].any()


def test_an_exchange_may_be_restricted_to_terms():
    matrix, *_ = table(exchange("S", "P", terms=("S", "P")))
    assert len(matrix) == 2
    np.testing.assert_array_equal(
        np.flatnonzero(matrix[0]), sorted([NAMES.flat("S", "S"), NAMES.flat("P", "P")])
    )


def test_an_input_is_no_state_but_may_stand_in_terms():
    names = Names(cindy.Polynomial(1), ("x",), ("u",))
    matrix, *_ = table(fix("x", "u", 1.0), names)
    assert matrix.shape == (1, 3)
    with pytest.raises(ConstraintError, match='state "u"'):
        table(fix("u", "x", 1.0), names)


SYSTEMS = [kuramoto(5), kuramoto(10), fput(5), fput(10), michaelis_menten(), spring_masses()]


@pytest.mark.parametrize("system", SYSTEMS, ids=lambda s: s.name)
def test_the_true_coefficients_satisfy_the_physics_of_a_system(system):
    assert system.constraints()
    names = Names(system.basis, system.states)
    for constraint in system.constraints():
        matrix, lower, upper = table(constraint, names)
        assert len(matrix) > 0
        values = matrix @ system.coef.ravel()
        assert np.max(np.maximum(lower - values, values - upper)) < 1e-15


WRONG = [
    (lambda: table(fix("S", "S*ES", 1)), 'term "S.ES".*Polynomial.*Did you mean "S ES"'),
    (lambda: table(fix("S", "P S", 1)), 'Did you mean "S P"'),
    (lambda: table(fix("S", "S**2", 1)), 'Did you mean "S.2"'),
    (lambda: table(fix("s", "S", 1)), 'state "s".*Did you mean "S"'),
    (lambda: table(tie(("S", "S"), ("Q", "S"))), 'state "Q"'),
    (lambda: table(conserve({"S": 1, "Es": 1})), 'state "Es".*Did you mean "ES"'),
    (lambda: table(exchange("S", "p")), 'state "p".*Did you mean "P"'),
    (lambda: table(exchange("S", "P", terms=["S^3"])), 'term "S\\^3"'),
    (lambda: table(linear({("S", "S P P"): 1}, 0)), "Did you mean"),
    (lambda: fix("S", "S", np.nan), "finite number, but is nan"),
    (lambda: fix("S", "S", "two"), "a number, but is 'two'"),
    (lambda: bound("S", "S"), "without either there is no constraint"),
    (lambda: bound("S", "S", 2, 1), "no number lies between lower = 2 and upper = 1"),
    (lambda: bound("S", "S", np.nan, 1), "no number lies between"),
    (lambda: bound("S", "S", np.inf), "no number lies between"),
    (lambda: linear({}, 0, 1), "at least one coefficient"),
    (lambda: linear({"S": 1}, 0, 1), 'pair \\("state", "term"\\)'),
    (lambda: tie("S", ("P", "P")), 'pair \\("state", "term"\\)'),
    (lambda: tie(("S", "S"), ("P", "P"), np.inf), "`ratio` must be a finite number"),
    (lambda: conserve({}), "at least one state"),
    (lambda: conserve({"S": "x"}), "weight of 'S'"),
    (lambda: conserve({"S": 1}, tolerance=0.0), "`tolerance` must be positive"),
    (lambda: conserve({"S": 1}, rate=np.nan), "`rate` must be a finite number"),
    (lambda: exchange("S", "S"), "two different states"),
    (lambda: exchange("S", "P", scope="none"), '"pair" or "all", but is \'none\''),
    (
        lambda: table(conserve({"x": 1}, rate=1.0), Names(cindy.Polynomial(2, bias=False), ("x",))),
        'constant term "1"',
    ),
    (
        lambda: table(exchange("x", "y"), Names(cindy.Polynomial(2).on("x"), ("x", "y"))),
        'the term "x" has no image',
    ),
]


@pytest.mark.parametrize(("mistake", "sentence"), WRONG, ids=[w[1] for w in WRONG])
def test_a_mistake_is_told_in_a_sentence(mistake, sentence):
    with pytest.raises(ConstraintError, match=sentence) as error:
        mistake()
    assert isinstance(error.value, CindyError)
    assert str(error.value).endswith((".", "?"))
