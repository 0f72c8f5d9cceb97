"""One line where there were many: texts for settings, energy, time and runs in terms."""

import numpy as np
import pytest

import cindy
from cindy.errors import CindyError, ConstraintError, DataError
from cindy.identification import shortcuts
from cindy.problem import Names
from cindy.systems import lorenz

T = np.linspace(0, 10, 400)
OSCILLATOR = cindy.Trajectory(T, np.column_stack([np.cos(2 * T), -2 * np.sin(2 * T)]), ("x", "v"))


def test_texts_stand_for_the_objects_that_they_name():
    objects = cindy.identify(
        OSCILLATOR,
        cindy.Polynomial(3),
        formulation=cindy.Differential(),
        selection=cindy.BIC(),
        correction=cindy.Blended(),
        weights=cindy.Uniform(),
    )
    words = cindy.identify(
        OSCILLATOR,
        "poly:3",
        formulation="differential",
        selection="bic",
        correction="blended",
        weights="uniform",
    )
    assert np.array_equal(words.coef, objects.coef)
    assert words.settings == objects.settings


@pytest.mark.parametrize(
    ("setting", "sentence"),
    [
        ({"basis": "pol:3"}, 'identify: `basis`.*there is no "pol". Did you mean "poly"'),
        ({"selection": "bik"}, 'identify: `selection`.*Did you mean "bic"'),
        ({"formulation": "integral:3"}, "order must be 1 or 2"),
        ({"weights": "even"}, "Known"),
        ({"correction": ""}, "there is no"),
    ],
)
def test_a_text_that_names_nothing_is_refused_with_the_nearest(setting, sentence):
    with pytest.raises(DataError, match=f"(?s){sentence}"):
        cindy.identify(OSCILLATOR, **({"basis": "poly:1"} | setting))


def test_second_order_is_a_text_too():
    assert shortcuts.formulation_from_text("integral:2") == cindy.Integral(order=2)


# energy


def test_quadratic_terms_of_a_constrained_model_conserve_the_energy_of_any_state():
    runs = lorenz().simulate(seed=0, noise=0.1, trajectories=2, points=400, horizon=4.0)
    model = cindy.identify(runs, "poly:2", constraints=[cindy.preserve_energy()], selection="terms:12")
    quadratic = np.array([sum(1 for c in name if c in "xyz^") > 1 or "^2" in name for name in model.terms])
    part = model.with_coef(np.where(quadratic[:, None], model.coef, 0.0))
    x = np.random.default_rng(1).standard_normal((50, 3))
    assert np.abs(np.sum(x * part.predict(x), axis=1)).max() < 1e-9
    assert np.abs(np.sum(x * model.predict(x), axis=1)).max() > 1
    assert model.violation < 1e-9


def test_weights_and_some_states_are_another_energy():
    names = Names(cindy.Polynomial(2), ("x", "y", "z"))
    [row] = [
        r
        for r in cindy.preserve_energy({"x": 1, "y": 3}).rows(names)
        if r.weights.keys() == {names.flat("x", "x y"), names.flat("y", "x^2")}
    ]
    assert row.weights == {names.flat("x", "x y"): 1.0, names.flat("y", "x^2"): 3.0}
    assert "3 y²" in str(cindy.preserve_energy({"x": 1, "y": 3}))


@pytest.mark.parametrize("call", [{"x": -1}, {"x": np.nan}, [], "x", ["x", "x"]])
def test_an_energy_that_cannot_be_meant_is_refused(call):
    with pytest.raises(CindyError):
        cindy.preserve_energy(call)


def test_an_energy_needs_quadratic_terms():
    with pytest.raises(ConstraintError, match="no quadratic terms"):
        cindy.identify(OSCILLATOR, "poly:1", constraints=[cindy.preserve_energy()])


# time as a variable


def driven(seed=0, noise=0.0):
    truth = cindy.Polynomial(1) + cindy.Custom({"drive": "sin(3*t)"})
    first = cindy.Trajectory(T, np.zeros((len(T), 2)), ("x", "v"))
    model = cindy.Model(
        np.array([[0, 0], [0, -4], [1, -0.2], [0, 1.5]]),
        truth.apart_from(("t",)),
        first.states,
        inputs=("t",),
    )
    made = model.simulate([1.0, 0.0], T)
    x = made.x + noise * np.random.default_rng(seed).standard_normal(made.x.shape)
    return cindy.Trajectory(T, x, ("x", "v"))


def test_time_is_a_variable_of_the_formulas_that_name_it_and_of_no_others(tmp_path):
    data = driven(noise=0.001)
    model = cindy.identify(data, cindy.Polynomial(2) + cindy.Custom({"drive": "sin(3*t)"}))
    assert "t" not in model.terms
    assert "x t" not in model.terms
    assert model.coef[model.place("v", "drive")] == pytest.approx(1.5, abs=0.02)
    assert model.size == 4
    model.save(tmp_path / "model.json")
    again = cindy.load(tmp_path / "model.json")
    for one in (model, again):
        found = one.simulate([1.0, 0.0], T)
        assert np.abs(found.x - data.x).max() < 0.05
        assert one.score(data) > 0.99
        assert one.score(data, "trajectory") > 0.99
    assert "3" in model.to_python()


def test_a_python_function_may_take_the_time():
    model = cindy.identify(driven(), cindy.Polynomial(1) + cindy.Custom({"drive": lambda t: np.sin(3 * t)}))
    assert model.coef[model.place("v", "drive")] == pytest.approx(1.5, abs=0.01)


def test_a_state_called_t_is_that_state():
    data = cindy.Trajectory(T, np.exp(-T), ("t",))
    model = cindy.identify(data, cindy.Custom({"decay": "t"}))
    assert model.inputs == ()
    assert model.coef[0, 0] == pytest.approx(-1, abs=1e-3)


# coefficients for each run


def balls(count=5, noise=0.0):
    t = np.linspace(0, 2, 120)
    rng = np.random.default_rng(0)
    runs = []
    for k in range(count):
        drag = 0.2 + 0.1 * k
        v = -9.81 / drag * (1 - np.exp(-drag * t))
        runs.append(cindy.Trajectory(t, v + noise * rng.standard_normal(len(t)), ("v",), name=f"ball {k}"))
    return runs


def test_terms_may_have_a_coefficient_for_each_run_beside_those_that_are_shared(tmp_path):
    data = balls(noise=0.01)
    model = cindy.identify(data, cindy.Polynomial(0) + cindy.PerRun(cindy.Custom({"drag": "v"})))
    assert model.coef[model.place("v", "1")] == pytest.approx(-9.81, abs=0.05)
    found = [model.coef[model.place("v", f"[ball {k}] drag")] for k in range(5)]
    assert np.allclose(found, [-0.2, -0.3, -0.4, -0.5, -0.6], atol=0.02)
    model.save(tmp_path / "model.json")
    again = cindy.load(tmp_path / "model.json")
    made = again.simulate([0.0], data[3].t, run="ball 3")
    assert np.abs(made.x - data[3].x).max() < 0.1
    assert again.score(data[2:4]) > 0.99
    with pytest.raises(DataError, match="'ball 0', 'ball 1'"):
        model.simulate([0.0], data[0].t)
    with pytest.raises(DataError, match="names of those runs"):
        model.score(cindy.Trajectory(data[0].t, data[0].x, ("v",), name="another"))


def test_weak_is_a_formulation_of_fields_and_trajectories_are_told_what_to_take():
    assert shortcuts.formulation_from_text("weak") == cindy.Weak()
    t = np.linspace(0, 5, 50)
    with pytest.raises(DataError, match="Trajectories take Integral"):
        cindy.identify((t, np.cos(t)), "poly:1", formulation="weak")
