"""Trajectories of unequal noise: found out, weighted, and of use."""

from dataclasses import replace

import numpy as np
import pytest

import cindy
from cindy.pipeline.balance import balanced, unequal
from cindy.systems import duffing, fput, kuramoto, lotka_volterra, michaelis_menten

EQUAL = {
    "oscillators": (kuramoto(3), {"trajectories": 20, "points": 2000, "noise": 1e-3}),
    "chain": (fput(3), {"trajectories": 40, "points": 1600, "noise": 1e-4}),
    "kinetics": (michaelis_menten(), {"noise": 1e-3}),
    "predators": (lotka_volterra(), {"trajectories": 10, "points": 1000, "noise": 0.05}),
    "spring": (duffing(), {"trajectories": 20, "points": 2000, "noise": 0.02}),
}


def told(system, data):
    """The true equations, and everything that the two functions ask about the data."""
    form = cindy.Integral(order=system.order).fit_to(data)
    summary = cindy.accumulate(data, system.basis, formulation=form)
    left = sum(np.sum(b.residual(system.coef) ** 2, axis=0) for b in summary.blocks)
    return form, summary, np.sqrt(left / summary.total.rows)


def noisier(data, factors, level, seed=0):
    rng = np.random.default_rng(seed)
    return [
        replace(one, x=one.x + level * f * rng.normal(size=one.x.shape))
        for one, f in zip(data, factors, strict=True)
    ]


@pytest.mark.parametrize("name", EQUAL)
def test_equal_noise_is_not_taken_for_unequal(name):
    system, settings = EQUAL[name]
    data = system.simulate(1, **settings)
    _, summary, noise = told(system, data)
    assert not unequal(summary, system.coef, noise)


@pytest.mark.parametrize("ratio", [2.0, 10.0, 1e3])
def test_weights_are_the_inverse_of_the_noise_power(ratio):
    system = lotka_volterra()
    factors = np.where(np.arange(12) % 3 == 0, ratio, 1.0)
    data = noisier(system.simulate(0, trajectories=12, points=2400, noise=0.0), factors, 1e-6)
    form, summary, noise = told(system, data)
    assert unequal(summary, system.coef, noise)
    weighted = balanced(data, form, system.basis, system.coef, noise)
    weight = np.array([one.weight for one in weighted])
    np.testing.assert_allclose(weight * factors**2, np.mean(weight * factors**2), rtol=0.5)


def test_weighting_leaves_the_mean_square_of_the_residuals_as_it_is():
    system = lotka_volterra()
    factors = 10.0 ** np.linspace(-1, 1, 12)
    data = noisier(system.simulate(0, trajectories=12, points=2400, noise=0.0), factors, 1e-4)
    form, summary, noise = told(system, data)
    weighted = balanced(data, form, system.basis, system.coef, noise)
    after = cindy.accumulate(weighted, system.basis, formulation=form).total
    relative = [np.sum((s.residual(system.coef) / noise) ** 2) for s in (summary.total, after)]
    np.testing.assert_allclose(relative[1], relative[0], rtol=1e-9)


def test_trajectories_without_rows_or_residuals_keep_finite_weights():
    system = lotka_volterra()
    data = noisier(system.simulate(0, trajectories=4, points=400, noise=0.0), [1, 3, 1, 3], 1e-3)
    short = replace(data[0], t=data[0].t[:2], x=data[0].x[:2])
    still = replace(data[0], x=np.zeros_like(data[0].x))
    form, _, noise = told(system, data)
    weights = [one.weight for one in balanced([*data, short, still], form, system.basis, system.coef, noise)]
    assert np.isfinite(weights).all()
    assert min(weights) > 0


def test_own_weights_are_left_alone_and_the_automatic_ones_are_better():
    system = michaelis_menten()
    errors = []
    for seed in range(4):
        data = system.simulate(seed, noise=1e-4, spread="trajectory")
        # A weight other than one, however little, is the caller's word.
        own = [replace(one, weight=1.0 + 1e-12) for one in data]
        models = [cindy.identify(d, system.basis, passes=1) for d in (own, data)]
        errors.append([np.linalg.norm(m.coef - system.coef) for m in models])
        np.testing.assert_array_equal(models[1].support, system.coef != 0)
    plain, weighted = np.median(errors, axis=0)
    assert weighted < 0.7 * plain


def test_errors_of_weighted_fits_cover_the_truth():
    system = fput(5)
    data = system.simulate(3, noise=1e-4, spread="trajectory")
    model = cindy.identify(data, system.basis, formulation=cindy.Integral(order=2))
    used = system.coef != 0
    np.testing.assert_array_equal(model.support, used)
    z = (model.coef - system.coef)[used] / model.coef_error[used]
    assert 0.6 < np.sqrt(np.mean(z**2)) < 1.5
