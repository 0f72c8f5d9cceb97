"""x'' = F(x, x') from positions alone: rates are states that nobody measured."""

from functools import cache

import numpy as np
import pytest
from numpy.typing import NDArray
from scipy.integrate import solve_ivp
from scipy.linalg import expm
from typer.testing import CliRunner

import cindy
from cindy.cli.app import app
from cindy.problem.constraint import Names

FORM = cindy.Integral(order=2, rates=True)
T = np.linspace(0.0, 15.0, 500)


def van_der_pol(t: float, z: NDArray[np.float64]) -> list[float]:
    return [z[1], (1 - z[0] ** 2) * z[1] - z[0]]


def coupled(t: float, z: NDArray[np.float64]) -> list[float]:
    a, b, p, q = z
    return [p, q, -2 * a + 0.5 * (b - a) - 0.1 * p + np.sin(1.3 * t), -2 * b + 0.5 * (a - b) - 0.1 * q]


def solved(law, start) -> NDArray[np.float64]:  # type: ignore[no-untyped-def]
    return np.asarray(solve_ivp(law, (0.0, T[-1]), start, t_eval=T, rtol=1e-10, atol=1e-12).y.T)


@cache
def positions(noise: float = 0.05) -> tuple[cindy.Trajectory, ...]:
    rng = np.random.default_rng(5)
    paths = [solved(van_der_pol, start)[:, :1] for start in ((0.5, 0.0), (-2.5, 1.0))]
    noisy = (x + noise * x.std() * rng.standard_normal(x.shape) for x in paths)
    return tuple(cindy.Trajectory(T, x, ("x",)) for x in noisy)


@cache
def model() -> cindy.Model:
    return cindy.identify(list(positions()), cindy.Polynomial(3), formulation=FORM)


@cache
def two_with_input() -> tuple[cindy.Trajectory, ...]:
    rng = np.random.default_rng(1)
    paths = [solved(coupled, start)[:, :2] for start in ((1.0, 0.0, 0.0, 0.0), (0.0, -1.5, 0.5, 0.0))]
    force = np.sin(1.3 * T)
    noisy = (x + 0.01 * rng.standard_normal(x.shape) for x in paths)
    return tuple(cindy.Trajectory(T, x, ("a", "b"), u=force, inputs=("u",)) for x in noisy)


def present(found: cindy.Model) -> set[tuple[str, str]]:
    return {(found.states[j], found.terms[i]) for i, j in np.argwhere(found.support)}


def test_noisy_positions_give_the_damping_that_depends_on_the_position() -> None:
    found = model()
    assert present(found) == {("x", "x"), ("x", "x'"), ("x", "x^2 x'")}
    truth = {"x": -1.0, "x'": 1.0, "x^2 x'": -1.0}
    for term, value in truth.items():
        i, j = found.place("x", term)
        assert abs(found.coef[i, j] - value) < 4 * found.coef_error[i, j] < 0.1
    assert found.coef.shape == found.inclusion.shape == (10, 1)
    assert found.noise.shape == found.model_error.shape == (1,)
    assert str(found).startswith("x'' = ")


def test_noise_of_positions_is_told_and_the_certificate_holds() -> None:
    found = model()
    size = 0.05 * np.mean([one.x.std() for one in positions()])
    assert abs(found.noise[0] / size - 1) < 0.1
    assert 0 <= found.gap < 1e-4
    assert found.result is not None
    assert found.result.status == "converged"
    assert found.covariance is not None
    assert np.allclose(np.sqrt(np.diagonal(found.covariance)), found.coef_error[found.support])


def test_fitted_rates_are_closer_to_the_truth_than_differences_of_positions() -> None:
    [first, _] = model().smooth(list(positions()))
    truth = solved(van_der_pol, (0.5, 0.0))
    assert first.states == ("x", "x'")
    off = np.sqrt(np.mean((first.x - truth) ** 2, axis=0)) / truth.std(axis=0)
    assert np.all(off < 0.02)


def test_a_solution_starts_from_positions_and_rates() -> None:
    found = model()
    together, apart = found.simulate((0.5, 1.0), T[:100]), found.simulate((0.5,), T[:100], v0=(1.0,))
    truth = solved(van_der_pol, (0.5, 1.0))[:100, 0]
    assert np.array_equal(together.x, apart.x)
    assert together.states == ("x",)
    assert np.max(np.abs(together.x[:, 0] - truth)) < 0.15
    with pytest.raises(cindy.DataError, match="x0 must have"):
        found.simulate((0.5, 1.0, 2.0), T)


@pytest.mark.parametrize("kind", ["equation", "trajectory", "derivative"])
def test_a_right_model_scores_well_on_noisy_positions(kind: str) -> None:
    assert model().score(list(positions()), kind) > 0.8  # type: ignore[arg-type]


def test_a_model_with_rates_is_saved_and_loaded(tmp_path) -> None:  # type: ignore[no-untyped-def]
    found = model()
    found.save(tmp_path / "model.json")
    again = cindy.load(tmp_path / "model.json")
    assert again.formulation.variables(("x",), ()) == ("x", "x'")
    assert np.array_equal(again.coef, found.coef)
    assert str(again) == str(found)
    assert again.formulation == found.formulation
    assert again.near.scores == found.near.scores


def test_exported_source_takes_positions_and_then_rates() -> None:
    found, space = model(), {}
    exec(found.to_python(), space)
    at = [0.7, -1.2]
    assert np.allclose(space["rhs"](0.0, at), found.predict(at))  # type: ignore[operator]
    assert r"\dot{x}" in found.to_latex()
    assert r"\ddot{x} &=" in found.to_latex()
    h = 1e-6
    slope = [
        (found.predict([0.7 + h * (k == 0), -1.2 + h * (k == 1)]) - found.predict(at)) / h for k in (0, 1)
    ]
    assert np.allclose(found.jacobian(at), np.transpose(slope), atol=1e-4)
    with pytest.raises(cindy.DataError, match="2 states and rates x, x'"):
        found.predict([0.7])


def test_two_positions_and_an_input_are_told_apart() -> None:
    found = cindy.identify(list(two_with_input()), cindy.Polynomial(1), formulation=FORM)
    assert found.variables == ("a", "b", "a'", "b'", "u")
    assert present(found) == {
        *(("a", term) for term in ("a", "b", "a'", "u")),
        *(("b", term) for term in ("a", "b", "b'")),
    }


def test_constraints_hold_where_rates_are_variables() -> None:
    laws = [cindy.exchange("a", "b"), cindy.bound("a", "a'", upper=-0.2), cindy.fix("b", "a", 0.5)]
    found = cindy.identify(list(two_with_input()), cindy.Polynomial(1), formulation=FORM, constraints=laws)
    assert found.violation < 1e-9
    at = {key: found.coef[found.place(*key)] for key in (("a", "a'"), ("b", "b'"), ("a", "b"), ("b", "a"))}
    assert at["a", "a'"] == pytest.approx(at["b", "b'"], abs=1e-9)
    assert at["a", "a'"] <= -0.2 + 1e-9
    assert at["a", "b"] == pytest.approx(0.5, abs=1e-9) == at["b", "a"]


def test_states_that_change_places_take_their_rates_with_them() -> None:
    names = Names(cindy.Polynomial(1), ("a", "b"), formulation=cindy.Integral(order=2, rates=True))
    rows = [row.weights for row in cindy.exchange("a", "b").rows(names)]
    pairs = {tuple(sorted((names.terms[k // 2], names.states[k % 2]) for k in row)) for row in rows}
    assert (("a'", "a"), ("b'", "b")) in pairs
    assert (("a'", "b"), ("b'", "a")) in pairs


def test_a_formula_may_name_a_rate() -> None:
    basis = cindy.Polynomial(1) + cindy.Custom({"pump": "x^2*x'"})
    found = cindy.identify(list(positions()), basis, formulation="integral:2:rates")
    assert present(found) == {("x", "x"), ("x", "x'"), ("x", "pump")}


def test_a_basis_need_not_hold_the_rate_itself() -> None:
    t = np.linspace(0, 12, 300)
    x = np.cos(2 * t) + 0.01 * np.random.default_rng(0).standard_normal(300)
    found = cindy.identify((t, x), cindy.Polynomial(2).on("x1"), formulation=FORM)
    assert present(found) == {("x1", "x1")}
    assert abs(found.coef[found.place("x1", "x1")] + 4) < 0.02


@pytest.mark.parametrize(
    ("how", "said"),
    [
        (lambda: cindy.Integral(rates=True), "order=2"),
        (lambda: cindy.Integral(order=2, initial="first", rates=True), 'initial="free"'),
        (lambda: identify(passes=1), "Leave `passes` out"),
        (lambda: cindy.identify(iter(positions()), cindy.Polynomial(2), formulation=FORM), "in parts"),
        (lambda: identify(constraints=[cindy.conserve({"x": 1}, tolerance=0.1)]), "tolerance=None"),
        (lambda: identify(formulation="differential:2:rates"), "integral:2:rates"),
        (lambda: cindy.identify(primed(), cindy.Polynomial(2), formulation=FORM), "x'"),
        (lambda: cindy.identify(field(), cindy.Derivatives(2, 1), formulation=FORM), "is for trajectories"),
    ],
)
def test_what_cannot_be_done_with_rates_is_said(how, said) -> None:  # type: ignore[no-untyped-def]
    with pytest.raises(cindy.CindyError) as caught:
        how()
    assert said in str(caught.value)


def identify(**settings) -> cindy.Model:  # type: ignore[no-untyped-def]
    return cindy.identify(list(positions()), cindy.Polynomial(2), **{"formulation": FORM, **settings})


def primed() -> cindy.Trajectory:
    return cindy.Trajectory(T, np.stack([np.sin(T), np.cos(T)], axis=1), ("x", "x'"))


def field() -> cindy.Field:
    t, x = np.linspace(0, 1, 30), np.linspace(0, 1, 32)
    return cindy.Field(u=np.sin(6 * x[:, None] - t), x=x, t=t)


def test_the_command_line_takes_rates_and_passes(tmp_path) -> None:  # type: ignore[no-untyped-def]
    x = np.concatenate([one.x[:, 0] for one in positions()])
    run = np.repeat([1, 2], len(T))
    table = np.column_stack([np.tile(T, 2), x, run])
    np.savetxt(tmp_path / "x.csv", table, delimiter=",", header="t,x,run", comments="")
    given = ["fit", str(tmp_path / "x.csv"), "--by", "run", "--basis", "poly:3"]
    done = CliRunner().invoke(app, [*given, "--formulation", "integral:2:rates"])
    assert done.exit_code == 0
    assert "x'' = " in done.stdout
    assert "x^2 x'" in done.stdout
    assert "denoised: estimated together" in done.stdout
    once = CliRunner().invoke(app, [*given, "--order", "2", "--passes", "1"])
    assert once.exit_code == 0
    assert "as measured, not denoised" in once.stdout


def test_white_noise_of_positions_has_no_memory_though_rates_are_unmeasured():
    rng, t = np.random.default_rng(5), np.arange(0, 30, 0.05)
    x = np.cos(1.3 * t) * np.exp(-0.02 * t)
    noisy = x + 0.02 * x.std() * rng.standard_normal(len(t))
    model = cindy.identify((t, noisy), cindy.Polynomial(2), formulation=FORM)
    assert model.noise_memory == pytest.approx([1.0])
    assert "noise-memory" not in {finding.code for finding in model.findings}


def stepped_circuit(fast: float, slow: float, seed: int = 0) -> cindy.Trajectory:
    """x'' = −(fast + slow) x' − fast slow (x − u) under a square wave, at steps of 1, with 0.5 % noise."""
    law = np.array([[0, 1, 0], [-fast * slow, -(fast + slow), fast * slow], [0, 0, 0]])
    step, z = expm(law), np.zeros(3)
    u = np.where(np.arange(600) // 30 % 2 == 0, 0.5, -0.5)
    x = np.empty(600)
    for k in range(600):
        z[2], x[k] = u[k], z[0]
        z = step @ z
    noisy = x + 0.0025 * np.random.default_rng(seed).standard_normal(600)
    return cindy.Trajectory(1.0, noisy, ("x",), u=u, inputs=("u",), hold="zero")


@pytest.mark.parametrize("fast", [0.8, 1.6, 3.5])
def test_a_law_that_decays_within_a_sampling_step_is_found(fast):
    model = cindy.identify(stepped_circuit(fast, 0.2), "poly:1", formulation=FORM)
    true = {"x": -0.2 * fast, "x'": -(0.2 + fast), "u": 0.2 * fast}
    for term, value in true.items():
        place = model.place("x", term)
        assert abs(model.coef[place] - value) < 3.5 * model.coef_error[place]
    assert np.count_nonzero(model.coef) == 3
