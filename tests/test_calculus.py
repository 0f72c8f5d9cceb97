"""Weights of local polynomials: exact, convergent, the same in pieces."""

import numpy as np
import pytest
from hypothesis import given, strategies as st
from numpy.polynomial import Polynomial

from cindy.calculus import (
    cumulative,
    derivative,
    derivative_weights,
    interval_weights,
    reach,
)
from cindy.errors import DataError

SETTINGS = [(6, 3), (4, 3), (2, 2), (8, 4), (8, 7), (1, 1)]


def random_grid(seed: int, samples: int, start: float = 0.0) -> np.ndarray:
    steps = np.random.default_rng(seed).uniform(0.2, 1.8, samples - 1)
    return start + np.concatenate([[0.0], np.cumsum(steps)]) * 0.1


def polynomial_on(t: np.ndarray, degree: int, seed: int) -> tuple[Polynomial, np.ndarray, float]:
    """A polynomial of (t − middle) / half, its argument at the samples, and that half."""
    half = np.ptp(t) / 2
    coef = np.random.default_rng(seed).uniform(-1, 1, degree + 1)
    return Polynomial(coef), (t - t[0]) / half - 1, half


def relative(got: np.ndarray, exact: np.ndarray) -> float:
    return float(np.max(np.abs(got - exact)) / max(np.max(np.abs(exact)), 1e-300))


@pytest.mark.parametrize(("degree", "half_width"), SETTINGS)
@given(seed=st.integers(0, 10**6), samples=st.integers(3, 60))
def test_weights_are_exact_for_polynomials_on_random_grids_ends_included(degree, half_width, seed, samples):
    t = random_grid(seed, samples)
    degree = min(degree, samples - 1, 2 * half_width)
    p, s, half = polynomial_on(t, degree, seed + 1)
    for order in range(min(degree, 2) + 1):
        exact = (p.deriv(order)(s) if order else p(s)) / half**order
        weights = derivative_weights(t, order=order, degree=degree, half_width=half_width)
        # The size of a derivative between samples this close: what rounding of p can make of it.
        scale = np.max(np.abs(p(s))) * np.max(np.abs(weights).sum(axis=1)) * 1e-15
        assert np.max(np.abs(weights @ p(s) - exact)) <= 1e-9 * np.max(np.abs(exact)) + scale
    integral = cumulative(p(s), interval_weights(t, degree=degree, half_width=half_width))
    antiderivative = p.integ()
    assert np.allclose(
        integral, (antiderivative(s) - antiderivative(s[0])) * half, rtol=1e-9, atol=1e-11 * half
    )


@pytest.mark.parametrize("start", [0.0, -40.0, 1e6])
def test_weights_do_not_depend_on_where_time_begins(start):
    t = np.linspace(0, 4, 41)
    moved = derivative_weights(t + start, order=1, degree=4, half_width=3)
    assert abs(moved - derivative_weights(t, order=1, degree=4, half_width=3)).max() < 1e-6


@pytest.mark.parametrize("samples", [5, 13, 14, 15, 40])
@pytest.mark.parametrize(("degree", "half_width"), SETTINGS)
def test_a_uniform_grid_is_not_special(samples, degree, half_width):
    t = np.linspace(1.0, 3.0, samples)
    nearly = t.copy()
    nearly[samples // 2] += 1e-9
    for make in (interval_weights, lambda *a, **k: derivative_weights(*a, order=1, **k)):
        shortcut, general = (make(g, degree=degree, half_width=half_width) for g in (t, nearly))
        assert abs(shortcut - general).max() < 1e-5 * abs(shortcut).max()


@pytest.mark.parametrize("uniform", [True, False])
@pytest.mark.parametrize(
    ("degree", "half_width", "order", "rate"), [(4, 2, 1, 4), (4, 2, 2, 3), (6, 3, 1, 6)]
)
def test_derivatives_converge_at_the_order_of_the_degree(degree, half_width, order, rate, uniform):
    errors = []
    for samples in (40, 80):
        t = np.linspace(0, 1, samples) * 3
        if not uniform:
            t = t + 0.2 / samples * np.sin(40 * t)
        exact = np.cos(t) if order == 1 else -np.sin(t)
        weights = derivative_weights(t, order=order, degree=degree, half_width=half_width)
        errors.append(np.max(np.abs(weights @ np.sin(t) - exact)))
    assert errors[0] / errors[1] > 2 ** (rate - 0.6)


@pytest.mark.parametrize(("degree", "half_width", "rate"), [(2, 1, 3), (4, 2, 5), (6, 3, 7)])
def test_integrals_converge_one_order_above_the_degree(degree, half_width, rate):
    errors = []
    for samples in (20, 40):
        t = np.linspace(0, 3, samples)
        got = cumulative(np.sin(t), interval_weights(t, degree=degree, half_width=half_width))
        errors.append(np.max(np.abs(got - (1 - np.cos(t)))))
    assert errors[0] / errors[1] > 2 ** (rate - 0.6)


@given(seed=st.integers(0, 10**6))
def test_integrating_twice_reproduces_cubic_motions(seed):
    t = random_grid(seed, 25)
    motion = Polynomial(np.random.default_rng(seed).uniform(-1, 1, 4))
    weights = interval_weights(t, degree=6, half_width=3)
    twice = cumulative(cumulative(motion.deriv(2)(t), weights), weights)
    exact = motion(t) - motion(t[0]) - motion.deriv()(t[0]) * (t - t[0])
    assert np.allclose(twice, exact, rtol=1e-9, atol=1e-9 * np.max(np.abs(exact)))


def test_parabolas_through_three_samples_give_the_textbook_rules():
    t, parabola = np.linspace(0, 1, 5), {"degree": 2, "half_width": 1}
    simpson = interval_weights(t, **parabola).toarray()[:2].sum(axis=0)
    assert np.allclose(simpson, np.array([1, 4, 1, 0, 0]) / 12)
    assert np.allclose(derivative_weights(t, order=1, **parabola).toarray()[1], [-2, 0, 2, 0, 0])
    assert np.allclose(derivative_weights(t, order=2, **parabola).toarray()[1], [16, -32, 16, 0, 0])


@given(
    seed=st.integers(0, 1000),
    start=st.integers(0, 58),
    length=st.integers(1, 20),
    half_width=st.integers(1, 6),
)
def test_a_stretch_has_the_rows_of_the_whole(seed, start, length, half_width):
    t = random_grid(seed, 60)
    x = np.random.default_rng(seed).standard_normal((60, 2))
    stop = min(start + length, 60)
    whole = derivative_weights(t, order=1, degree=2, half_width=half_width) @ x
    piece = derivative(t, x, start, stop, order=1, degree=2, half_width=half_width)
    assert np.allclose(piece, whole[start:stop], rtol=0, atol=1e-11 * np.max(np.abs(whole)))


@given(
    samples=st.integers(1, 50), start=st.integers(0, 49), length=st.integers(1, 50), width=st.integers(1, 9)
)
def test_reach_stays_inside_and_holds_the_rows_it_was_asked_for(samples, start, length, width):
    start = min(start, samples - 1)
    stop = min(start + length, samples)
    low, high = reach(samples, start, stop, width)
    assert 0 <= low <= start
    assert stop <= high <= samples


def test_order_zero_smooths_noise_and_keeps_the_polynomial():
    t = np.linspace(0, 1, 101)
    noise = np.random.default_rng(0).standard_normal(101)
    weights = derivative_weights(t, order=0, degree=2, half_width=10)
    assert np.std(weights @ noise) < 0.5
    assert np.allclose(weights @ t**2, t**2)


@pytest.mark.parametrize(
    ("samples", "order", "degree", "half_width"),
    [(1, 0, 1, 1), (5, 2, 1, 2), (2, 2, 2, 2), (5, -1, 2, 2), (5, 1, 2, 0)],
)
def test_what_cannot_be_computed_is_refused(samples, order, degree, half_width):
    with pytest.raises(DataError):
        derivative_weights(np.arange(float(samples)), order=order, degree=degree, half_width=half_width)
