"""Least squares on the rows of each formulation finds the equations of every reference system."""

import numpy as np
import pytest

from cindy.formulation import Differential, Formulation, Integral
from cindy.summary.accumulation import accumulate
from cindy.systems import (
    duffing,
    fput,
    kuramoto,
    lorenz,
    lotka_volterra,
    michaelis_menten,
    rossler,
    sir,
    spring_masses,
    van_der_pol,
)

SYSTEMS = [
    kuramoto(),
    fput(),
    fput(amplitude=1.0),
    michaelis_menten(),
    spring_masses(),
    lorenz(),
    lotka_volterra(),
    van_der_pol(),
    duffing(),
    rossler(),
    sir(),
]
every_system = pytest.mark.parametrize(
    "system", SYSTEMS, ids=[s.name + str(i) for i, s in enumerate(SYSTEMS)]
)


def least_squares(system, data, formulation: Formulation, *, support: bool) -> np.ndarray:
    total = accumulate(data, system.basis, formulation=formulation).total
    coef = np.zeros_like(system.coef)
    for j in range(coef.shape[1]):
        chosen = system.coef[:, j] != 0 if support else np.ones(len(coef), bool)
        scale = np.linalg.norm(total.design[:, chosen], axis=0)
        coef[chosen, j] = np.linalg.lstsq(total.design[:, chosen] / scale, total.target[:, j])[0] / scale
    return coef


def relative_error(system, data, formulation) -> float:
    coef = least_squares(system, data, formulation, support=False)
    return float(np.linalg.norm(coef - system.coef) / np.linalg.norm(system.coef))


def half(system):
    """Half as many trajectories as the system has, as finely sampled."""
    trajectories = max(system.trajectories // 2, 1)
    points = trajectories * (system.points // system.trajectories)
    return system.simulate(0, trajectories=trajectories, points=points)


def irregular(system):
    """As many on two grids of uneven steps."""
    samples = system.points // system.trajectories
    steps = np.random.default_rng(1).uniform(0.7, 1.3, (2, samples - 1))
    grids = np.hstack([np.zeros((2, 1)), np.cumsum(steps, axis=1)])
    grids *= system.horizon / grids[:, -1:]
    trajectories = max(system.trajectories // 2, 1)
    return system.simulate(0, times=[grids[k % 2] for k in range(trajectories)])


@pytest.mark.parametrize("sampled", [half, irregular])
@every_system
def test_on_exact_data_all_coefficients_come_out_to_1e6_integrated_and_1e4_differentiated(system, sampled):
    data = sampled(system)
    assert relative_error(system, data, Integral(order=system.order)) < 1e-6
    assert relative_error(system, data, Differential(order=system.order)) < 1e-4


@pytest.mark.parametrize("window", [30, 60])
def test_windows_do_as_well_as_whole_trajectories_on_exact_data(window):
    system = lorenz()
    assert relative_error(system, system.simulate(0), Integral(window=window)) < 1e-6


def recovery(system, formulation: Formulation, noise: float) -> float:
    """E_R over the noise, given the true support: median of three seeds."""
    errors = []
    for seed in range(3):
        data = system.simulate(seed, noise=noise)
        coef = least_squares(system, data, formulation, support=True)
        errors.append(np.linalg.norm(coef - system.coef) / noise)
    return float(np.median(errors))


@pytest.mark.parametrize(
    ("system", "bound"), [(kuramoto(), 4.7), (fput(amplitude=1.0), 19.0), (michaelis_menten(), 11.5)]
)
def test_the_free_form_is_near_the_best_that_noise_allows(system, bound):
    assert recovery(system, Integral(order=system.order), 1e-4) <= bound


def test_the_free_form_beats_the_differential_form_tenfold_on_second_order_motion():
    system = fput(amplitude=1.0)
    free, differential = (recovery(system, f(order=2), 1e-4) for f in (Integral, Differential))
    assert 10 * free <= differential
