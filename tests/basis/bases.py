"""One of every kind of basis, and combinations of them: what every law of bases runs over."""

import numpy as np
import pytest

from cindy.basis import Basis, Custom, Fourier, Polynomial, Trigonometric

VARIABLES = ("x", "y", "z")


def saturation(x, z):
    return x * z / (1 + x**2)


def whole(rows):
    return rows[:, 0] * np.exp(-(rows[:, 2] ** 2))


FORMULAS = Custom(
    {
        "drop": "x*exp(-y)",
        "y/(1 + z^2)": "y/(1 + z^2)",
        "root": "sqrt(1 + x^2)*atan(y - z) - 3^x/pi",
        "mix": "-(tanh(x) - cosh(y/4)) / (2 + cos(z)^3) + log(4 + sin(x)) - abs(x - 9)**1.5",
        "more": "tan(x/9) + asin(x/9)*acos(z/9) - sinh(y)/e + (1.5 + x^2)^sin(y) - -z",
    }
)
FUNCTIONS = Custom({"sat": saturation, "whole": whole})

BASES: list[Basis] = [
    Polynomial(3),
    Polynomial(2, bias=False),
    Polynomial(4, interaction=False),
    Trigonometric(),
    Trigonometric(3),
    Fourier([1, 2.5]),
    Fourier(3),
    FORMULAS,
    FUNCTIONS,
    Polynomial(2) + Trigonometric(2) + Fourier(2),
    Polynomial(1) * Trigonometric(1),
    Trigonometric(1) * Trigonometric(1) * Fourier([0.5]),
    (Polynomial(2) + FORMULAS) * Polynomial(1),
    FUNCTIONS * FUNCTIONS + Polynomial(1),
    Polynomial(3).on("z", "x") + Trigonometric(2).on("y"),
    (Polynomial(1) * Fourier(1)).on("y", "z") * FORMULAS.on("x", "y", "z"),
]

every_basis = pytest.mark.parametrize("basis", BASES, ids=repr)


def is_saved_whole(basis: Basis) -> bool:
    return "<function>" not in repr(basis)


saved_bases = pytest.mark.parametrize("basis", [b for b in BASES if is_saved_whole(b)], ids=repr)


def states(n: int = 40, *, seed: int = 0) -> np.ndarray:
    """Random rows in the domain of every basis above."""
    return np.random.default_rng(seed).uniform(-2.0, 2.0, (n, len(VARIABLES)))
