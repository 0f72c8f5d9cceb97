"""Devices: the same code on numpy, array-api-strict, PyTorch and CUDA gives the summary of the CPU."""

import numpy as np
import pytest

import cindy
from cindy._arrays import space_of, to_numpy
from cindy.least_squares import LeastSquares
from cindy.solver import Region, conditional_gradient, gap_at, oracle_for
from cindy.solver.sampled_rows import DeviceRows
from cindy.summary.executor import DeviceTriangle

pytest.importorskip("array_api_compat")


def device(name: str):
    """The device of that name, or a skip that says what is missing."""
    if name == "strict":
        return pytest.importorskip("array_api_strict")
    if name == "numpy":
        return np
    torch = pytest.importorskip("torch", reason="PyTorch is not installed")
    if name == "cuda" and not torch.cuda.is_available():
        pytest.skip("there is no CUDA device here")
    return name


every_device = pytest.mark.parametrize("name", ["numpy", "strict", "cpu", "cuda"])


def lorenz(samples: int, seed: int, noise: float = 0.0) -> cindy.Trajectory:
    rng = np.random.default_rng(seed)
    law = cindy.Polynomial(2)
    coef = np.zeros((10, 3))
    names = law.names(("x", "y", "z"))
    for term, state, value in [
        ("x", 0, -10), ("y", 0, 10), ("x", 1, 28), ("y", 1, -1), ("x z", 1, -1), ("z", 2, -8 / 3),
        ("x y", 2, 1),
    ]:  # fmt: skip
        coef[names.index(term), state] = value
    from scipy.integrate import solve_ivp

    t = np.arange(samples) * 0.01
    start = rng.uniform(-5, 5, 3) + np.array([0, 0, 20])
    x = solve_ivp(
        lambda _, y: (law.evaluate(y[None], ("x", "y", "z")) @ coef)[0],
        (0, t[-1]),
        start,
        t_eval=t,
        rtol=1e-8,
    ).y.T
    return cindy.Trajectory(t, x + noise * rng.standard_normal(x.shape), ("x", "y", "z"))


@pytest.fixture(scope="module")
def runs():
    return [lorenz(900, k, noise=0.02) for k in range(3)]


def solution(summary: cindy.Summary) -> np.ndarray:
    total = summary.total
    return np.linalg.lstsq(total.design, total.target, rcond=None)[0]


def agree(a: np.ndarray, b: np.ndarray) -> bool:
    return bool(np.max(np.abs(a - b)) <= 1e-10 * np.max(np.abs(b)))


BASES = [
    cindy.Polynomial(3),
    cindy.Polynomial(1) + cindy.Trigonometric(1) + cindy.Fourier([0.5]),
    cindy.Polynomial(2) + cindy.Custom({"tanh(x/20)": lambda x: np.tanh(x / 20)}).on("x"),
]
FORMULATIONS = [
    cindy.Integral(window=50),
    cindy.Integral(window=50, feedback=40.0),
    cindy.Integral(order=2, window=50, feedback=0.0),
    cindy.Integral(window=7, feedback=0.0),
    cindy.Integral(window=0, feedback=0.0),
    cindy.Integral(window=50, smooth=2, feedback=0.0),
    cindy.Differential(degree=4, half_width=3),
    cindy.Discrete(),
]


@every_device
@pytest.mark.parametrize("basis", BASES, ids=str)
def test_a_device_agrees_with_the_cpu(name, basis, runs):
    there = cindy.accumulate(runs, basis, device=device(name))
    here = cindy.accumulate(runs, basis)
    assert there.labels == here.labels
    assert there.total.rows == here.total.rows
    assert agree(solution(there), solution(here))


@pytest.mark.parametrize("formulation", FORMULATIONS, ids=str)
def test_every_formulation_agrees_on_a_device(formulation, runs):
    there, here = (cindy.accumulate(runs, BASES[0], formulation=formulation, device=d) for d in (np, None))
    assert agree(solution(there), solution(here))


@every_device
def test_arrays_that_live_on_a_device_stay_there_and_work_without_it(name, runs, monkeypatch):
    space = space_of(device(name))
    pairs = [(space.put(one.t), space.put(one.x)) for one in runs]
    form = cindy.Integral(window=50, feedback=0.0, degree=8, half_width=4)
    here = cindy.accumulate([(one.t, one.x) for one in runs], BASES[0], formulation=form)
    there = cindy.accumulate(pairs, BASES[0], formulation=form, device=device(name))
    assert agree(solution(there), solution(here))
    assert agree(solution(cindy.accumulate(pairs, BASES[0], formulation=form)), solution(here))


def test_a_model_found_on_a_device_is_that_of_the_cpu(runs):
    here, there = (cindy.identify(runs, cindy.Polynomial(2), device=d) for d in (None, np))
    assert np.array_equal(here.coef != 0, there.coef != 0)
    assert agree(there.coef, here.coef)


@every_device
@pytest.mark.parametrize("kind", ["alike", "growing", "turning", "dependent", "few"])
def test_the_factor_on_a_device_has_the_gram_matrix_of_its_rows(name, kind):
    space = space_of(device(name))
    rng = np.random.default_rng(0)
    rows = rng.standard_normal((9000, 12)) * np.logspace(0, -6, 12)
    rows[:, 11] = rows[:, :11] @ rng.standard_normal(11) + 1e-9 * rng.standard_normal(9000)
    if kind == "growing":
        rows *= np.logspace(0, 5, 9000)[:, None] * np.where(
            np.arange(12) % 3, 1.0, np.linspace(1, 0, 9000)[:, None]
        )
    if kind == "turning":  # what comes first says nothing of half of the columns
        rows[:4000, 6:] = 1e-14 * rows[:4000, 6:]
    if kind == "dependent":
        rows[:, 5] = rows[:, 2]
    if kind == "few":
        rows = rows[:7]
    triangle = DeviceTriangle(space)
    for part in np.array_split(rows, 5):
        triangle.add(space.put(part.T))
    factor = triangle.factor()
    assert triangle.rows == len(rows)
    assert factor.shape == (min(len(rows), 12), 12)
    assert not np.tril(factor, -1).any()
    # As Householder QR promises: no column is off by more than rounding of its own length.
    length = np.linalg.norm(rows, axis=0)
    exact = np.linalg.qr(rows, mode="r")
    gram, want = factor.T @ factor, exact.T @ exact
    assert np.max(np.abs(gram - want) / np.outer(length, length)) < 1e-13
    if kind in ("alike", "growing"):
        assert np.allclose(np.abs(np.diag(factor)), np.abs(np.diag(exact)), rtol=1e-5)


def test_a_device_that_is_none_is_told():
    with pytest.raises(cindy.DataError, match="expected"):
        cindy.accumulate([lorenz(100, 0)], BASES[0], device="tpu")


def test_arrays_come_back_as_they_went():
    space = space_of(np)
    values = np.arange(6.0).reshape(2, 3)
    assert np.array_equal(space.get(space.put(values)), values)
    assert to_numpy(values) is values


@every_device
@pytest.mark.parametrize(
    "correction", [cindy.Plain(), cindy.Blended(), cindy.FullyCorrective(), cindy.Direct()], ids=str
)
@pytest.mark.parametrize("shape", [(90, 40), (30, 40)])
def test_a_design_on_a_device_has_the_solution_of_the_cpu(name, correction, shape):
    rng = np.random.default_rng(1)
    design = rng.standard_normal(shape)
    target = design[:, [3, 17, 5]] @ rng.standard_normal((3, 2)) + 0.1 * rng.standard_normal((shape[0], 2))
    here = LeastSquares.from_rows(design, target)
    there = DeviceRows(design, target, device=device(name))
    oracle = oracle_for(Region(80, 2.0))
    tol = 1e-3 if correction == cindy.Plain() else 1e-12
    a, b = (conditional_gradient(f, oracle, correction, tol=tol, max_iter=2000) for f in (here, there))
    assert b.converged
    assert abs(a.objective - b.objective) <= 2 * tol * a.scale
    if tol < 1e-6:
        assert agree(b.x, a.x)
    x = rng.standard_normal((40, 2))
    assert there.value(x) == pytest.approx(here.value(x), rel=1e-12)
    assert np.allclose(there.gradient(x), here.gradient(x))
    assert gap_at(there, oracle, a.x) == pytest.approx(a.gap, abs=1e-8 * a.scale)
    assert (there + there).value(x) == pytest.approx(2 * here.value(x), rel=1e-12)
