"""Runs that do not share a coefficient are told, with the coefficient and its values; others are not."""

from pathlib import Path

import numpy as np
import pytest
from scipy.integrate import solve_ivp

import cindy

DAMPING = (0.10, 0.12, 0.08, 0.10, 0.11, 0.09)


def _oscillators(damping: tuple[float, ...], noise: float, memory: float = 0.0) -> list[cindy.Trajectory]:
    """x'' = −x − c x' with a damping c of its own in every run; noise with an autoregressive memory."""
    rng, t, runs = np.random.default_rng(5), np.linspace(0.0, 20.0, 400), []
    for number, c in enumerate(damping):
        start = rng.normal(size=2) * 2.0
        path = solve_ivp(
            lambda _, x, c=c: [x[1], -x[0] - c * x[1]], (0, 20), start, t_eval=t, rtol=1e-9, atol=1e-11
        ).y.T
        error = rng.standard_normal(path.shape)
        for k in range(1, len(t)):
            error[k] = memory * error[k - 1] + np.sqrt(1.0 - memory**2) * error[k]
        runs.append(cindy.Trajectory(t, path + noise * error, ("x", "v"), name=f"cart {number + 1}"))
    return runs


def _told(model: cindy.Model) -> list[cindy.Finding]:
    return [one for one in model.findings if one.code == "runs-differ"]


def test_the_coefficient_that_differs_between_runs_is_told_with_its_values() -> None:
    [told] = _told(cindy.identify(_oscillators(DAMPING, 0.01), cindy.Polynomial(2)))
    assert (told.values["state"], told.values["term"]) == ("v", "v")
    values = told.values["values"]
    assert list(values) == [f"cart {number + 1}" for number in range(len(DAMPING))]
    assert list(values.values()) == pytest.approx([-c for c in DAMPING], abs=0.004)
    assert told.values["log10_p"] < -6.0
    assert not told.note


def test_runs_that_hardly_say_what_a_coefficient_is_are_not_named() -> None:
    """Two runs differ in their damping; a third is at rest, so that its value is noise alone."""
    runs = _oscillators((0.08, 0.12), 0.01)
    resting = 0.01 * np.random.default_rng(1).standard_normal((400, 2))
    runs.append(cindy.Trajectory(runs[0].t, resting, ("x", "v"), name="at rest"))
    [told] = _told(cindy.identify(runs, cindy.Polynomial(1)))
    values = told.values["values"]
    assert not -0.12 < values["at rest"] < -0.08
    assert 'is -0.12 in "cart 2" and -0.0795 in "cart 1"' in told.message


def test_the_equation_of_positions_alone_is_named_as_the_model_has_it() -> None:
    runs = [
        cindy.Trajectory(run.t, run.x[:, 0], ("x",), name=run.name) for run in _oscillators(DAMPING, 0.01)
    ]
    model = cindy.identify(runs, cindy.Polynomial(1), formulation="integral:2:rates")
    [told] = _told(model)
    assert model.coef[model.place(told.values["state"], told.values["term"])] != 0.0
    assert "the coefficient of x' in the equation of x″ is" in told.message


@pytest.mark.parametrize("memory", [0.0, 0.9])
@pytest.mark.parametrize("noise", [0.01, 0.1])
def test_runs_of_one_law_are_not_told_apart(noise: float, memory: float) -> None:
    model = cindy.identify(_oscillators((0.1,) * 6, noise, memory), cindy.Polynomial(2))
    assert not _told(model)


def test_many_short_runs_of_one_law_are_not_told_apart() -> None:
    """As many runs as a fifth of the rows: what is left must be counted without the values that are free."""
    rng, t = np.random.default_rng(8), np.linspace(0.0, 1.5, 7)
    runs = [
        cindy.Trajectory(t, rng.uniform(1, 3) * np.exp(-t) + 0.02 * rng.standard_normal(7), ("c",))
        for _ in range(150)
    ]
    model = cindy.identify(runs, cindy.Polynomial(2))
    assert np.flatnonzero(model.coef[:, 0]).tolist() == [1]
    assert not _told(model)


def test_a_value_for_every_run_leaves_nothing_to_tell(tmp_path: Path) -> None:
    basis = cindy.Polynomial(1) + cindy.PerRun(cindy.Custom({"damping": "v"}))
    runs = _oscillators(DAMPING, 0.01)
    model = cindy.identify(runs, basis)
    assert not _told(model)
    model.save(tmp_path / "model.json")
    for kept, new in zip(model.smooth(runs), cindy.load(tmp_path / "model.json").smooth(runs), strict=True):
        np.testing.assert_allclose(kept.x, new.x, atol=1e-3)
    own = [model.coef[model.place("v", f"[cart {number + 1}] damping")] for number in range(len(DAMPING))]
    shared = model.coef[model.place("v", "v")]
    assert np.add(own, shared) == pytest.approx([-c for c in DAMPING], abs=0.004)


def _cultures(rates: tuple[float, ...], yields: tuple[float, ...], seed: int) -> list[cindy.Trajectory]:
    """Growth to a limit, with a rate and a limit of its own at every temperature; 3 % noise, 14 samples."""
    rng, runs = np.random.default_rng([seed, 3]), []
    for number, (r, most) in enumerate(zip(rates, yields, strict=True)):
        t = np.linspace(0.0, 10.0 / r, 14)
        x = most / (1 + (most / 0.2 - 1) * np.exp(-r * t))
        runs.append(cindy.Trajectory(t, x + 0.03 * most * rng.standard_normal(14), ("x",), name=f"{number}"))
    return runs


@pytest.mark.parametrize("seed", range(3))
def test_runs_whose_coefficients_all_differ_are_told_to_be_looked_at_one_by_one(seed: int) -> None:
    runs = _cultures((0.01, 0.08, 0.2, 0.25, 0.3), (3.0, 8.0, 11.0, 4.0, 1.0), seed)
    try:
        said = " ".join(cindy.identify(runs, "poly:2:nobias").warnings)
    except cindy.NoModelError as error:
        said = str(error)
    assert "The runs follow different equations" in said
    for run in runs[1:4]:
        assert cindy.identify(run, "poly:2:nobias").coef.all()


@pytest.mark.parametrize("seed", range(3))
def test_runs_of_one_law_that_lacks_a_term_do_not_follow_different_equations(seed: int) -> None:
    data = cindy.systems.lorenz().simulate(seed=seed, trajectories=5, points=500, horizon=4, noise=0.05)
    assert not _told(cindy.identify(data, cindy.Polynomial(1)))
    assert not _told(cindy.identify(_cultures((0.5,) * 5, (10.0,) * 5, seed), "poly:2:nobias"))
