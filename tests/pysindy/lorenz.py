"""The Lorenz system as users of pysindy meet it: samples, time step, true terms."""

from functools import cache

import numpy as np
from scipy.integrate import solve_ivp

STEP = 0.002
NAMES = ["x", "y", "z"]
TRUTH = {("x", "x"), ("x", "y"), ("y", "x"), ("y", "y"), ("y", "x z"), ("z", "z"), ("z", "x y")}


def velocity(t, s):
    x, y, z = s
    return [10 * (y - x), x * (28 - z) - y, x * y - 8 / 3 * z]


@cache
def clean(end=10.0, step=STEP):
    t = np.arange(0, end, step)
    return solve_ivp(velocity, (0, end), (-8, 8, 27), t_eval=t, rtol=1e-10, atol=1e-10).y.T


def noisy(seed=0, end=10.0, step=STEP, level=0.01):
    x = clean(end, step)
    return x + level * x.std(axis=0) * np.random.default_rng(seed).normal(size=x.shape)


def terms(model):
    """(state, term) of every coefficient of a fitted pysindy model."""
    names = model.get_feature_names()
    return {
        (model.feature_names[i], names[j]) for i, j in zip(*np.nonzero(model.coefficients()), strict=True)
    }
