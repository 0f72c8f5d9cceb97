"""What the report warns of, and that it keeps quiet where nothing is wrong."""

import numpy as np
import pytest
from tests.report.models import SYSTEM, true_model

from cindy.basis import Polynomial
from cindy.data.trajectory import Trajectory
from cindy.findings import Finding
from cindy.formulation import Discrete
from cindy.model import compare
from cindy.model.diagnostics import diagnose
from cindy.model.model import Model
from cindy.report.figures import thinned, trajectories
from cindy.systems import lorenz, lotka_volterra


@pytest.fixture(scope="module")
def data():
    return SYSTEM.simulate(seed=0, noise=0.01)


def messages(found):
    return tuple(finding.message for finding in found.findings)


def test_a_right_model_on_white_noise_gives_no_warning(data):
    found = diagnose(true_model(SYSTEM), data)
    assert messages(found) == ()
    assert np.all(found.loss < 1e-3)
    assert np.all(np.abs(found.correlation[1:]) < 0.2)


def test_a_missing_term_is_suspected(data):
    model = true_model(SYSTEM).with_coef({("x", "x y"): -0.45})
    said = " ".join(messages(diagnose(model, data)))
    assert "The residuals of x are" in said
    assert "The residuals of x are correlated in time" in said
    assert "miss y" not in said


def test_terms_that_the_data_cannot_tell_apart_are_named():
    t = np.linspace(0, 3, 200)
    rng = np.random.default_rng(0)
    circle = Trajectory(t, np.exp(-t)[:, None] * [1.0, 2.0] + 1e-4 * rng.normal(size=(200, 2)), ("x", "y"))
    model = Model(np.zeros((3, 2)), Polynomial(1), ("x", "y")).with_coef({("x", "x"): -1.0, ("y", "y"): -1.0})
    said = " ".join(messages(diagnose(model, [circle])))
    assert "x and y move together" in said


def test_a_term_whose_interval_holds_zero_is_named(data):
    error = np.where(SYSTEM.coef != 0, 0.01, 0.0)
    model = true_model(SYSTEM, coef_error=error)
    error = error.copy()
    error[model.place("y", "x y")] = 0.4
    said = messages(diagnose(true_model(SYSTEM, coef_error=error), data))
    assert said == (
        "The 95 % interval of x y in y′ includes zero: the data do not show that this term is there.",
    )


def test_warnings_about_a_map_name_its_equations_as_the_map_does():
    error = np.array([[0.0, 0.0], [0.5, 0.0], [0.0, 0.01]])
    model = Model(
        np.array([[0.0, 0.0], [0.5, 0.0], [0.0, 0.5]]), Polynomial(1), ("x", "y"), coef_error=error,
        formulation=Discrete(),
    )  # fmt: skip
    steps = Trajectory(1.0, 0.5 ** np.arange(20.0)[:, None] * [1.0, 2.0], ("x", "y"))
    assert any("interval of x in x[k+1] includes" in said for said in messages(diagnose(model, [steps])))


def test_the_models_own_warnings_come_first_and_none_twice(data):
    model = true_model(SYSTEM, findings=[Finding("uncoded", text) for text in ("One.", "Two.", "One.")])
    assert messages(diagnose(model, data)) == ("One.", "Two.")


def test_solutions_of_a_chaotic_system_start_afresh_and_others_run_through():
    chaotic, tame = lorenz(), lotka_volterra()
    long = chaotic.simulate(seed=0, noise=0.02, trajectories=1, points=1500, horizon=45.0)
    found = compare(true_model(chaotic), long)
    assert found.window is not None
    assert found.explained.min() > 0.8 > found.through.min()
    found = compare(true_model(tame), tame.simulate(seed=0, noise=0.01))
    assert found.window is None
    assert found.explained.min() > 0.98


def test_a_solution_that_blows_up_is_reported_with_its_reason():
    model = true_model(SYSTEM).with_coef({("x", "x^2"): 3.0})
    found = compare(model, SYSTEM.simulate(seed=0, trajectories=1, points=60))
    assert len(found.stopped) == 1
    assert "t = " in found.stopped[0]


def test_many_long_trajectories_are_thinned_to_what_a_page_can_hold():
    data = SYSTEM.simulate(seed=0, trajectories=40, points=80_000)
    found = trajectories(true_model(SYSTEM), data)
    assert len(found.series) == 16
    assert found.left_out == 24
    assert max(len(one["t"]) for one in found.series) <= 600
    assert found.compared.explained.min() > 0.99


def test_data_without_a_stretch_to_start_from_are_left_out():
    model = true_model(SYSTEM)
    [whole] = SYSTEM.simulate(seed=0, trajectories=1, points=100)
    gone = Trajectory(whole.t, np.full(whole.x.shape, np.nan), whole.states)
    found = trajectories(model, [whole, gone])
    assert [one["name"] for one in found.series] == ["trajectory 1"]


def test_thinning_keeps_the_ends_and_what_must_be_kept():
    assert thinned(5, 10) == [0, 1, 2, 3, 4]
    some = thinned(1000, 10, keep=333)
    assert {0, 332, 333, 334, 999} <= set(some)
    assert len(some) <= 13


def test_the_roughness_of_a_map_is_no_noise_of_its_measurements():
    """Solutions of a chaotic map are restarted, and then follow it."""
    x = [0.3]
    for _ in range(199):
        x.append(3.8 * x[-1] * (1 - x[-1]))
    data = Trajectory(np.arange(200.0), np.array(x), ("n",))
    model = Model([[0], [3.8], [-3.8]], Polynomial(2), ("n",), formulation=Discrete(), noise=[1e-9])
    compared = compare(model, [data])
    assert (compared.window or 0) > 20
    assert min(*compared.explained, *compared.allowed) > 0.9
