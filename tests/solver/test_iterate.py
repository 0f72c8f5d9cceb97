"""Projection and accelerated gradients on the simplex."""

from functools import cache

import numpy as np
import pytest
from hypothesis import given, strategies as st
from hypothesis.extra.numpy import arrays

from cindy.solver.iterate import accelerated, project

numbers = st.floats(-1e3, 1e3, allow_nan=False)
prices = st.floats(1e-2, 1e2)


@st.composite
def projections(draw):
    size = draw(st.integers(1, 12))
    return (
        draw(arrays(np.float64, size, elements=numbers)),
        draw(st.none() | arrays(np.float64, size, elements=prices)),
        draw(st.booleans()),
    )


@given(projections())
def test_a_projection_is_the_nearest_point(case):
    point, costs, below = case
    price = np.ones_like(point) if costs is None else costs
    nearest = project(point, costs=costs, below=below)
    size = 1 + np.abs(point).max()
    assert (nearest >= 0).all()
    assert price @ nearest <= 1 + 1e-9 * size * price.sum()
    assert below or price @ nearest >= 1 - 1e-9 * size * price.sum()
    # Nearest: no corner of the set lies on the far side of the tangent plane.
    away = point - nearest
    corners = [0.0] * below + list(away / price)
    assert max(corners) <= away @ nearest + 1e-8 * size**2 * price.max() / price.min()


@cache
def quadratic(condition, size=20, seed=0):
    """A quadratic with curvature from 1/condition to 1, and its minimiser over the simplex."""
    rng = np.random.default_rng(seed)
    basis, _ = np.linalg.qr(rng.normal(size=(size, size)))
    hessian = basis @ np.diag(np.geomspace(1 / condition, 1, size)) @ basis.T
    centre = rng.dirichlet(np.ones(size)) + 0.05 * rng.normal(size=size)

    def value(x):
        return 0.5 * (x - centre) @ hessian @ (x - centre)

    def gradient(x):
        return hessian @ (x - centre)

    best = np.full(size, 1 / size)
    for _ in range(5_000):
        best = project(best - gradient(best))
    # Gradients find which entries are zero; the others are the solution of a linear system.
    inside = np.flatnonzero(best)
    system = np.block([[hessian[np.ix_(inside, inside)], np.ones((len(inside), 1))],
                       [np.ones((1, len(inside))), np.zeros((1, 1))]])  # fmt: skip
    best[inside] = np.linalg.solve(system, np.append((hessian @ centre)[inside], 1.0))[:-1]
    np.testing.assert_allclose(project(best - gradient(best)), best, atol=1e-14)
    return value, gradient, best


@pytest.mark.parametrize("condition", [10, 1_000])
def test_the_convex_method_meets_its_rate(condition):
    value, gradient, best = quadratic(condition)
    start = np.eye(20)[0]
    for steps in (1, 3, 10, 30, 100, 300):
        point = accelerated(gradient, project, start, smoothness=1.0, steps=steps, done=lambda _: False)
        bound = 2 * np.sum((start - best) ** 2) / (steps + 1) ** 2
        assert value(point) - value(best) <= bound + 1e-15


@pytest.mark.parametrize("condition", [10, 1_000])
def test_the_strongly_convex_method_meets_its_rate(condition):
    value, gradient, best = quadratic(condition)
    start = np.eye(20)[0]
    first = value(start) - value(best) + 0.5 / condition * np.sum((start - best) ** 2)
    for steps in (1, 3, 10, 30, 100, 300):
        point = accelerated(
            gradient,
            project,
            start,
            smoothness=1.0,
            convexity=1 / condition,
            steps=steps,
            done=lambda _: False,
        )
        bound = first * (1 - 1 / np.sqrt(condition)) ** (steps - 1)
        assert value(point) - value(best) <= bound + 1e-15


def test_both_methods_stop_as_soon_as_they_are_told_to():
    _, gradient, best = quadratic(10)
    start = np.eye(20)[0]
    asked = []

    def done(point):
        asked.append(point)
        return np.linalg.norm(point - best) < 1e-3

    point = accelerated(gradient, project, start, smoothness=1.0, steps=10_000, done=done, every=1)
    assert np.linalg.norm(point - best) < 1e-3
    assert len(asked) < 1_000
    again = accelerated(
        gradient, project, start, smoothness=1.0, convexity=0.1, steps=10_000, done=done, every=1
    )
    assert np.linalg.norm(again - best) < 1e-3
