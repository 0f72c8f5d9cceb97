"""One list of pysindy's libraries, for laws that hold for all of them. Made afresh: fitting changes them."""

import numpy as np
import pysindy as ps
from pysindy.feature_library.base import BaseFeatureLibrary

STATES = ("y", "x", "z")


class Tanh(BaseFeatureLibrary):
    """A library of one's own, known only by what it computes."""

    def fit(self, x, y=None):
        first = x if isinstance(x, np.ndarray) else x[0]
        self.n_features_in_ = self.n_output_features_ = first.shape[1]
        return self

    def transform(self, x):
        return np.tanh(x) if isinstance(x, np.ndarray) else [np.tanh(one) for one in x]

    def get_feature_names(self, input_features=None):
        return [f"tanh({name})" for name in input_features or ()]


def gauss(x):
    return np.exp(-(x**2))


def wave(y, x):
    return x * np.sin(y)


def custom(**settings):
    names = [lambda x: f"gauss({x})", lambda a, b: f"wave({a},{b})"]
    return ps.CustomLibrary([gauss, wave], names, **settings)


def polynomial(degree, **settings):
    return ps.PolynomialLibrary(degree, **settings)


MADE = {
    "polynomial": lambda: polynomial(3),
    "pure powers": lambda: polynomial(3, include_interaction=False),
    "products": lambda: polynomial(3, interaction_only=True, include_bias=False),
    "identity": ps.IdentityLibrary if hasattr(ps, "IdentityLibrary") else lambda: polynomial(1),
    "fourier": lambda: ps.FourierLibrary(2),
    "sines": lambda: ps.FourierLibrary(2, include_cos=False),
    "custom": lambda: custom(include_bias=True),
    "custom, a variable twice": lambda: custom(interaction_only=False),
    "unnamed": lambda: ps.CustomLibrary([gauss, wave]),
    "sum": lambda: polynomial(2) + ps.FourierLibrary(),
    "sum with a term twice": lambda: polynomial(2) + polynomial(1),
    "product": lambda: polynomial(1, include_bias=False) * ps.FourierLibrary(),
    "on some variables": lambda: ps.GeneralizedLibrary(
        [polynomial(2, include_bias=False), ps.FourierLibrary(), custom()],
        tensor_array=[[1, 1, 0]],
        inputs_per_library=[[0, 1], [2], [1, 0]],
    ),
    "with parameters": lambda: ps.ParameterizedLibrary(
        parameter_library=polynomial(1), feature_library=polynomial(2), num_parameters=1, num_features=2
    ),
    "of one's own": Tanh,
    "a sum with one's own": lambda: polynomial(2) + Tanh(),
}
