"""Derivatives: names, order, images under renaming, and what a file keeps."""

import numpy as np
import pytest

import cindy
from cindy.basis import Basis


def test_terms_are_named_as_they_are_written():
    names = cindy.Derivatives(2, 2).on_axes(("x",)).names(("u",))
    assert names == ("1", "u", "u^2", "u_x", "(u^2)_x", "u_xx", "(u^2)_xx")


def test_mixed_derivatives_stand_once():
    names = cindy.Derivatives(1, 2).on_axes(("x", "y")).names(("u",))
    assert names == ("1", "u", "u_x", "u_y", "u_xx", "u_xy", "u_yy")


def test_axes_of_several_letters_are_told_apart():
    assert "u_lon,lat" in cindy.Derivatives(1, 2).on_axes(("lon", "lat")).names(("u",))


def test_derivatives_of_coordinates_alone_are_no_terms():
    names = cindy.Derivatives(2, 1).on_axes(("x",)).names(("u", "x"))
    assert "x" in names
    assert "(u x)_x" in names
    assert "x_x" not in names
    assert "(x^2)_x" not in names


def test_products_that_are_no_derivative_are_added_when_asked():
    names = cindy.Derivatives(2, 1, products=True).on_axes(("x",)).names(("u", "v"))
    assert {"u v_x", "u_x^2", "u_x v_x", "v_x^2"} <= set(names)
    assert "v u_x" not in names


def test_functions_of_the_fields_come_under_derivatives():
    names = cindy.Derivatives(1, 1, of=cindy.Trigonometric(1)).on_axes(("x",)).names(("u",))
    assert names == ("1", "u", "sin(u)", "cos(u)", "u_x", "(sin(u))_x", "(cos(u))_x")


@pytest.mark.parametrize(
    "basis",
    [
        cindy.Derivatives(3, 2),
        cindy.Derivatives(2, 4, products=True, bias=False, axes=("x", "y")),
        cindy.Derivatives(0, 1, of=cindy.Custom({"decay": "exp(-u)"})),
        cindy.Derivatives(2, 1) + cindy.Polynomial(1),
    ],
    ids=repr,
)
def test_a_file_keeps_the_basis(basis):
    assert Basis.from_dict(basis.to_dict()) == basis


def test_renaming_fields_maps_derivatives():
    basis = cindy.Derivatives(2, 1).on_axes(("x",))
    names = basis.names(("u", "v"))
    image = basis.renamed(("u", "v"), {"u": "v", "v": "u"})
    assert names[image[names.index("u_x")]] == "v_x"
    assert names[image[names.index("(u v)_x")]] == "(u v)_x"


def test_rows_of_values_cannot_give_a_derivative():
    with pytest.raises(cindy.DataError, match="need a Field"):
        cindy.Derivatives(1, 1, axes=("x",)).evaluate(np.ones((3, 1)), ("u",))


@pytest.mark.parametrize("mistake", [(0, 1), (1, 9), (-1, 1)])
def test_a_mistake_gets_a_sentence(mistake):
    with pytest.raises(cindy.DataError, match="Derivatives"):
        cindy.Derivatives(*mistake)
