"""Library: laws over a list of pysindy's libraries."""

import numpy as np
import pysindy as ps
import pytest
from numpy.testing import assert_allclose
from tests.pysindy.libraries import MADE, STATES, custom, polynomial
from tests.pysindy.lorenz import NAMES, STEP, noisy

import cindy
from cindy.basis import Basis
from cindy.pysindy import Library
from cindy.pysindy.libraries import basis_of, terms_of

X = np.random.default_rng(0).normal(size=(60, 3))

libraries = pytest.mark.parametrize("made", MADE.values(), ids=MADE)


@libraries
@pytest.mark.parametrize(
    "view", [lambda library: Library(library), lambda library: basis_of(library, STATES)]
)
def test_terms_compute_what_the_features_compute_in_their_order(made, view):
    library = made()
    basis, terms = view(library), terms_of(library, STATES)
    place = {term: i for i, term in enumerate(basis.terms(STATES))}
    ours = basis.evaluate(X, STATES)[:, [place[term] for term in terms]]
    assert_allclose(ours, np.asarray(made().fit(X).transform(X)), rtol=1e-12, atol=1e-14)


@libraries
def test_derivatives_agree_with_differences_of_the_features(made):
    basis, step = Library(made()), 1e-6
    for j in range(3):
        shift = step * np.eye(3)[j]
        slope = (basis.evaluate(X + shift, STATES) - basis.evaluate(X - shift, STATES)) / (2 * step)
        assert_allclose(basis.derivative(X, STATES)[:, :, j], slope, rtol=1e-4, atol=1e-6)


@libraries
def test_the_library_that_was_given_stays_as_it_was(made):
    library = made()
    before = set(vars(library))
    Library(library).evaluate(X, STATES)
    assert set(vars(library)) == before


@libraries
def test_a_description_and_the_library_give_the_basis_back(made):
    basis = Library(made())
    again = Basis.from_dict(basis.to_dict(), {basis.description: basis.library})
    assert again == basis
    with pytest.raises(cindy.DataError, match="functions="):
        Basis.from_dict(basis.to_dict())


@pytest.mark.parametrize(
    ("library", "names"),
    [
        (polynomial(2), ("1", "y", "x", "y^2", "y x", "x^2")),
        (ps.FourierLibrary(2), ("sin(y)", "cos(y)", "sin(x)", "cos(x)", "sin(2 y)", "cos(2 y)")),
        (custom(), ("gauss(y)", "gauss(x)", "wave(y,x)")),
        (ps.ParameterizedLibrary(polynomial(1), polynomial(1), 1, 1), ("1", "y", "x", "y x")),
    ],
)
def test_names_are_those_of_this_library(library, names):
    assert Library(library).names(("y", "x"))[: len(names)] == names


def test_functions_go_by_position_and_not_by_the_names_of_their_parameters():
    values = Library(custom()).evaluate(X[:, :2], ("y", "x"))[:, 2]
    assert_allclose(values, X[:, 1] * np.sin(X[:, 0]))


def test_a_weak_library_without_derivatives_is_its_functions():
    grid = np.linspace(0, 1, 50)
    weak = ps.WeakPDELibrary(
        polynomial(2, include_bias=False), spatiotemporal_grid=grid, K=5, include_bias=True
    )
    assert Library(weak).names(("x",)) == ("1", "x", "x^2")
    assert repr(basis_of(weak, ("x",))) == "Polynomial(degree=0) + Polynomial(degree=2, bias=False)"


def test_what_is_no_basis_over_states_is_refused():
    grid = np.linspace(0, 1, 20)
    with pytest.raises(cindy.DataError, match="partial differential"):
        Library(ps.PDELibrary(polynomial(1), derivative_order=1, spatial_grid=grid)).names(("x",))
    with pytest.raises(cindy.DataError, match="implicit"):
        Library(ps.SINDyPILibrary([lambda x: x], x_dot_library_functions=[lambda x: x], t=grid)).names(("x",))
    with pytest.raises(cindy.DataError, match="feature library"):
        Library("poly")


def test_identify_takes_a_library_for_a_basis():
    x = noisy()[::2]
    data = cindy.Trajectory(2 * STEP * np.arange(len(x)), x, tuple(NAMES))
    theirs, ours = (cindy.identify(data, b) for b in (Library(polynomial(2)), cindy.Polynomial(2)))
    assert theirs.terms == ours.terms
    assert_allclose(theirs.coef, ours.coef)
