"""Model: what it says, and that a file gives back what was saved, or an error."""

import contextlib
import copy
import json
import pickle
import tempfile
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, strategies as st

import cindy
from cindy.basis import Custom, Fourier, Polynomial, Trigonometric
from cindy.data.trajectory import Trajectory
from cindy.errors import DataError
from cindy.findings import Finding
from cindy.formulation import Differential, Discrete, Integral
from cindy.model.model import Model, Path as ModelPath
from cindy.model.model_file import load
from cindy.solver import Run, Step
from cindy.systems import lorenz, michaelis_menten, spring_masses

STATES = ("x", "y")
BASES = [
    Polynomial(3),
    Trigonometric(2) + Polynomial(1),
    Fourier([1, 2.5]) * Polynomial(1).on("x"),
    Custom({"decay": "x*exp(-y)"}) + Polynomial(1),
]
FORMS = [Integral(order=2, window=20), Differential(degree=4, half_width=3), Discrete()]
LORENZ = lorenz()


def random_model(basis, formulation, seed=0, **more):
    rng = np.random.default_rng(seed)
    shape = (len(basis.names(STATES)), 2)
    coef = rng.normal(size=shape) * (rng.random(shape) < 0.5)
    coef[0, 0] = 1 / 3
    return Model(
        coef, basis, STATES, coef_error=np.abs(rng.normal(size=shape)), formulation=formulation, **more
    )


def full_model():
    small = random_model(Polynomial(3), Integral(), seed=1)
    return random_model(
        Polynomial(3),
        Integral(window=40),
        noise=[0.1, np.nan],
        scale=[1.0, 2.0],
        gap=1e-7,
        radius=np.inf,
        violation=1e-12,
        result=Run(
            1e-9, 2.0, "converged", 2, 3, 0.5, (Step(0, 1.0, 9.0, 1, 0.1), Step(1, 1e-9, 2.0, 2, 0.5))
        ),
        path=ModelPath((small, small.with_coef({("x", "y"): 2.0})), (1.0, -np.inf), 1),
        constraints=("x + y conserved",),
        findings=(Finding("outliers", "a sentence", {"count": 3}),),
        denoised=True,
        settings={"tol": 1e-6, "selection": object, "nested": {"a": [1, np.float64(2), None]}},
    )


def lorenz_model(**more):
    return Model(LORENZ.coef, LORENZ.basis, LORENZ.states, **more)


@pytest.fixture(scope="module")
def measured():
    return LORENZ.simulate(seed=0, noise=0.01)


# ── what it says ──


def test_a_prediction_is_the_right_hand_side():
    x = np.random.default_rng(0).normal(size=(20, 3))
    model = lorenz_model()
    np.testing.assert_allclose(model.predict(x), LORENZ.rhs(x), rtol=1e-13)
    np.testing.assert_allclose(model.predict(x[0]), LORENZ.rhs(x[0]), rtol=1e-13)
    np.testing.assert_allclose(model.rhs(0.0, x[0]), LORENZ.rhs(x[0]), rtol=1e-13)


def test_the_jacobian_is_the_slope_of_the_right_hand_side():
    model, x, h = random_model(BASES[1], Integral()), np.array([0.3, -0.7]), 1e-6
    slopes = [(model.predict(x + h * e) - model.predict(x - h * e)) / (2 * h) for e in np.eye(2)]
    np.testing.assert_allclose(model.jacobian(x), np.transpose(slopes), atol=1e-8)
    np.testing.assert_array_equal(model.jacobian([x, 2 * x])[0], model.jacobian(x))


def test_inputs_are_columns_after_the_states():
    model = Model(np.array([[0.0], [-1.0], [2.0]]), Polynomial(1), ("x",), inputs=("u",))
    assert model.predict([[1.0], [2.0]], [3.0, 4.0]).tolist() == [[5.0], [6.0]]
    assert model.predict([1.0], [3.0]).tolist() == [5.0]
    with pytest.raises(DataError, match="inputs u"):
        model.predict([1.0])
    with pytest.raises(DataError, match="a column for each of u"):
        model.predict([[1.0], [2.0]], np.zeros((2, 2)))


@pytest.mark.parametrize("x", [[1.0, 2.0], [[1.0, 2.0]], np.zeros((2, 3, 1)), 1.0])
def test_a_prediction_wants_as_many_columns_as_states(x):
    with pytest.raises(DataError, match="3 states x, y, z"):
        lorenz_model().predict(x)


def test_a_printed_model_shows_its_equations_with_errors():
    model = lorenz_model(coef_error=np.abs(LORENZ.coef) * 1e-3)
    assert str(model).splitlines() == model.equations()
    assert model.equations()[0] == "x' = -10.00(1) x + 10.00(1) y"
    assert model.equations(errors=False)[0] == "x' = -10 x + 10 y"


def test_coefficients_are_set_by_name():
    model = lorenz_model(coef_error=np.abs(LORENZ.coef) * 1e-3, gap=1.0)
    changed = model.with_coef({("y", "x"): 30.0})
    assert changed.coef[changed.place("y", "x")] == 30.0
    assert np.isnan(changed.coef_error[changed.place("y", "x")])
    assert changed.coef_error[changed.place("x", "y")] == pytest.approx(0.01)
    assert np.isnan(changed.gap)
    assert np.count_nonzero(changed.coef != model.coef) == 1
    with pytest.raises(DataError, match=r'no term "x\*z"\. Did you mean "x z"'):
        model.with_coef({("y", "x*z"): 1.0})
    with pytest.raises(DataError, match='no state "w"'):
        model.with_coef({("w", "x"): 1.0})


def test_a_model_does_not_change():
    model = full_model()
    with pytest.raises(ValueError, match="read-only"):
        model.coef[0, 0] = 5.0
    with pytest.raises(AttributeError):
        model.gap = 0.0


def test_an_absent_term_has_no_error():
    model = full_model()
    assert np.all(model.coef_error[model.coef == 0] == 0)


def test_tables_hold_what_is_present():
    model = full_model()
    table = model.to_dataframe()
    assert len(table) == model.size
    for state, term, value, error in table.itertuples(index=False):
        assert (model.coef[model.place(state, term)], model.coef_error[model.place(state, term)]) == (
            value,
            error,
        )
    np.testing.assert_array_equal(model.to_xarray()["coef"].sel(state="y"), model.coef[:, 1])


# ── scores ──


@pytest.mark.parametrize("kind", ["equation", "trajectory", "derivative"])
def test_the_truth_scores_one_on_clean_data(kind):
    for system in (michaelis_menten(), spring_masses()):
        truth = Model(system.coef, system.basis, system.states, formulation=Integral(order=system.order))
        assert truth.score(system.simulate(seed=0)[:5], kind) == pytest.approx(1.0, abs=1e-6)


def test_the_truth_scores_high_on_noisy_chaos_and_a_wrong_model_does_not(measured):
    truth = lorenz_model(formulation=Integral(window=50))
    wrong = truth.with_coef({("y", "x"): 20.0})
    assert truth.score(measured) > 0.98
    assert truth.score(measured, "trajectory", window=50) > 0.98
    assert wrong.score(measured) < truth.score(measured) - 0.02


def test_a_model_that_blows_up_scores_minus_infinity():
    t = np.linspace(0, 2, 50)
    model = Model(np.array([[0.0], [0.0], [1.0]]), Polynomial(2), ("x",))
    assert model.score(Trajectory(t, np.exp(t), ("x",)), "trajectory") == -np.inf


def test_a_discrete_model_is_scored_by_its_steps():
    x = 0.5 ** np.arange(20.0)
    model = Model(np.array([[0.0], [0.5]]), Polynomial(1), ("x",), formulation=Discrete())
    data = Trajectory(np.arange(20.0), x, ("x",))
    assert model.score(data) == pytest.approx(1.0)
    assert model.score(data, "trajectory") == pytest.approx(1.0)
    with pytest.raises(DataError, match="no derivatives"):
        model.score(data, "derivative")


def test_a_score_skips_gaps(measured):
    with_gap = np.array(measured[0].x)
    with_gap[100:140, 1] = np.nan
    data = Trajectory(measured[0].t, with_gap, LORENZ.states)
    assert lorenz_model(formulation=Integral(window=50)).score(data) > 0.98


def test_a_score_refuses_other_states_other_kinds_and_too_little_data(measured):
    model = lorenz_model()
    with pytest.raises(DataError, match="x, y, z, but the data hold x1, x2, x3"):
        model.score((measured[0].t, measured[0].x))
    with pytest.raises(DataError, match='`kind` must be "equation", "trajectory" or "derivative"'):
        model.score(measured, "r2")
    with pytest.raises(DataError, match="enough complete samples"):
        model.score(Trajectory([0.0], [[1.0, 2.0, 3.0]], LORENZ.states))


# ── files ──


def assert_same(a, b):
    for name in ("coef", "coef_error", "noise", "scale", "gap", "radius", "violation"):
        np.testing.assert_array_equal(getattr(a, name), getattr(b, name), err_msg=name)
    for name in ("basis", "states", "inputs", "formulation", "constraints", "findings", "denoised", "result"):
        assert getattr(a, name) == getattr(b, name), name
    assert (len(a.path), a.path.scores, a.path.chosen) == (len(b.path), b.path.scores, b.path.chosen)
    for one, other in zip(a.path, b.path, strict=True):
        np.testing.assert_array_equal(one.coef, other.coef)


MODELS = [random_model(basis, form) for basis in BASES for form in FORMS] + [full_model()]


@pytest.mark.parametrize("model", MODELS, ids=repr)
def test_a_save_and_a_load_give_the_same_model(model, tmp_path):
    model.save(tmp_path / "model.json")
    again = cindy.load(tmp_path / "model.json")
    assert_same(model, again)
    assert str(again) == str(model)
    again.save(tmp_path / "again.json")
    assert_same(again, cindy.load(tmp_path / "again.json"))


@pytest.mark.parametrize("model", MODELS, ids=repr)
def test_a_pickle_gives_the_same_model_even_after_compilation(model):
    model.rhs(0.0, [1.0, 2.0])
    again = pickle.loads(pickle.dumps(model))
    assert_same(model, again)
    assert again.rhs(0.0, [1.0, 2.0]) == model.rhs(0.0, [1.0, 2.0])


def test_a_python_function_is_asked_for_again(tmp_path):
    def product(x, y):
        return x * y

    model = Model(np.array([[2.0, -1.0]]), Custom({"f": product}), STATES)
    model.save(tmp_path / "model.json")
    with pytest.raises(DataError, match="f"):
        load(tmp_path / "model.json")
    again = load(tmp_path / "model.json", functions={"f": product})
    assert again.predict([2.0, 3.0]).tolist() == [12.0, -6.0]


def test_a_failed_save_leaves_the_old_file_and_nothing_else(tmp_path, monkeypatch):
    file = tmp_path / "model.json"
    full_model().save(file)
    before = file.read_bytes()

    def fail(*_):
        raise OSError("disk full")

    monkeypatch.setattr("cindy._files.os.replace", fail)
    with pytest.raises(DataError, match="Cannot write the model"):
        full_model().save(file)
    assert file.read_bytes() == before
    assert [p.name for p in tmp_path.iterdir()] == ["model.json"]
    with pytest.raises(DataError, match="Cannot write the model"):
        full_model().save(tmp_path / "no such folder" / "model.json")


def _without(key):
    return lambda d: {k: v for k, v in d.items() if k != key}


def _with(**changes):
    return lambda d: {**d, **changes}


DAMAGE = {
    "another format": _with(format="pickle"),
    "a later version": _with(version=99),
    "a list": lambda d: [d],
    "a number": lambda d: 3,
    **{
        f"no {key}": _without(key)
        for key in ("states", "basis", "coefficients", "path", "formulation", "noise")
    },
    "states that are no names": _with(states=[1, 2]),
    "states repeated": _with(states=["x", "x"]),
    "an unknown basis": _with(basis={"basis": "os.system"}),
    "a basis without end": _with(basis={"basis": "Polynomial", "degree": 10**6}),
    "code for an expression": _with(
        basis={"basis": "Custom", "functions": {"f": "__import__('os').getcwd()"}}
    ),
    "code among the settings of the formulation": _with(formulation={"kind": "integral", "order": "exit()"}),
    "an unknown formulation": _with(formulation={"kind": "magic"}),
    "a formulation that is a list": _with(formulation=[1]),
    "an unknown term": _with(coefficients={"x": {"z^9": [1.0, 0.1]}, "y": {}}),
    "a coefficient without error": _with(coefficients={"x": {"y": [1.0]}, "y": {}}),
    "a coefficient of text": _with(coefficients={"x": {"y": ["1; import os", 0.0]}, "y": {}}),
    "a coefficient of null": _with(coefficients={"x": {"y": [None, 0.0]}, "y": {}}),
    "a coefficient of true": _with(coefficients={"x": {"y": [True, 0.0]}, "y": {}}),
    "an equation missing": _with(coefficients={"x": {}}),
    "coefficients in a list": _with(coefficients=[[1.0, 2.0]]),
    "noise too short": _with(noise=[1.0]),
    "noise of text": _with(noise="ab"),
    "kicks of null": _with(
        diffusion={"terms": ["1"], "coef": None, "coef_error": [[0.1, 0.1]], "variables": ["x", "y"]}
    ),
    "scores without models": _with(path={"chosen": 0, "scores": [1.0], "models": []}),
    "a history that is ragged": _with(
        result={
            "gap": 0,
            "objective": 0,
            "seconds": 0,
            "status": "x",
            "iterations": 1,
            "oracle_calls": 1,
            "history": {"iteration": [1, 2], "gap": [1], "objective": [1], "atoms": [1], "seconds": [1]},
        }
    ),
    "counts that are no numbers": _with(result={"gap": 0, "objective": 0, "history": {}}),
}


@pytest.mark.parametrize("damage", DAMAGE.values(), ids=DAMAGE.keys())
def test_a_damaged_or_hostile_file_is_refused_by_name(damage, tmp_path):
    file = tmp_path / "model.json"
    full_model().save(file)
    file.write_text(json.dumps(damage(json.loads(file.read_text()))))
    with pytest.raises(DataError, match=r"model\.json is not a model file, or is damaged"):
        load(file)


JSON_VALUES = st.recursive(
    st.none()
    | st.booleans()
    | st.integers()
    | st.floats(allow_nan=False, allow_infinity=False)
    | st.text(max_size=8),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner, max_size=3),
    max_leaves=5,
)


def _places(value, trail=()):
    yield trail
    if isinstance(value, (dict, list)):
        for key in value if isinstance(value, dict) else range(len(value)):
            yield from _places(value[key], (*trail, key))


SAVED = full_model().to_dict()
PLACES = [place for place in _places(SAVED) if place]


@given(st.sampled_from(PLACES), JSON_VALUES)
def test_a_file_with_any_one_entry_changed_is_read_or_refused(place, value):
    damaged = copy.deepcopy(SAVED)
    inside = damaged
    for key in place[:-1]:
        inside = inside[key]
    inside[place[-1]] = value
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder, "model.json")
        file.write_text(json.dumps(damaged))
        with contextlib.suppress(DataError):
            assert isinstance(load(file), Model)


TEXTS = {
    "nothing": b"",
    "half a file": b'{"format": "cindy-model", "version": 1, "states": ["x"',
    "a pickle": pickle.dumps({"a": 1}),
    "not utf-8": b"\xff\xfe{}",
    "not a number": b'{"format": "cindy-model", "version": 1, "states": NaN}',
    "brackets without end": b"[" * 100_000,
    "a number without end": b'{"format": "cindy-model", "version": ' + b"9" * 10_000 + b"}",
}


@pytest.mark.parametrize("text", TEXTS.values(), ids=TEXTS.keys())
def test_what_is_not_json_is_refused(text, tmp_path):
    file = tmp_path / "model.json"
    file.write_bytes(text)
    with pytest.raises(DataError, match=r"model\.json is not a model file"):
        load(file)


def test_a_missing_file_is_named(tmp_path):
    with pytest.raises(DataError, match=r"Cannot read the model .*nowhere\.json"):
        load(tmp_path / "nowhere.json")
    with pytest.raises(DataError, match="Cannot read the model"):
        load(tmp_path)


BAD_MODELS = [
    ({"coef": np.zeros((2, 2))}, "coef must have shape"),
    ({"coef": np.full((3, 2), np.nan)}, "coef must be finite"),
    ({"states": ("x", "x")}, "distinct"),
    ({"states": "xy"}, "single string"),
    ({"coef_error": np.zeros(3)}, "coef_error must have 2 dimensions, but"),
    ({"noise": [1.0]}, "noise must have shape"),
]


@pytest.mark.parametrize(("changes", "sentence"), BAD_MODELS)
def test_a_model_is_consistent_or_is_not_made(changes, sentence):
    with pytest.raises(DataError, match=sentence):
        Model(**{"coef": np.zeros((3, 2)), "basis": Polynomial(1), "states": STATES, **changes})


def test_a_path_has_a_score_for_each_model():
    with pytest.raises(DataError, match="2 models need as many scores"):
        ModelPath((lorenz_model(), lorenz_model()), (1.0,))


def test_values_with_names_are_found_by_their_names():
    pd = pytest.importorskip("pandas")
    model = random_model(Polynomial(2), Integral())
    rows = np.random.default_rng(0).normal(size=(20, 2))
    t = np.linspace(0, 1, 20)
    frame = pd.DataFrame({"t": t, "y": rows[:, 1], "x": rows[:, 0]})
    expected = model.predict(rows)
    assert np.array_equal(model.predict(frame), expected)
    assert model.predict(frame.iloc[3]) == pytest.approx(expected[3], rel=1e-12)
    assert np.array_equal(model.predict({"y": rows[:, 1], "x": rows[:, 0]}), expected)
    assert np.array_equal(model.predict(Trajectory(t, rows[:, ::-1], ("y", "x"))), expected)
    assert np.array_equal(model.predict(pd.DataFrame(rows)), expected)
    assert model.simulate({"y": 2, "x": 1}, [0, 0.01]).x[0].tolist() == [1, 2]
    assert model.score(frame) == model.score(Trajectory(t, rows, STATES))
    with pytest.raises(DataError, match='no value for "y"'):
        model.predict(pd.DataFrame({"x": [1.0], "z": [2.0]}))
    with pytest.raises(DataError, match="must be numbers"):
        model.predict("x")
    with pytest.raises(DataError, match="must be the times"):
        model.simulate((1, 0), 10)


def test_an_estimator_finds_columns_by_their_names():
    pytest.importorskip("sklearn")
    pd = pytest.importorskip("pandas")
    t = np.linspace(0, 10, 200)
    frame = pd.DataFrame({"a": np.cos(t), "b": -np.sin(t)})
    fitted = cindy.CINDy("poly:1", passes=1).fit(frame, t=t)
    assert np.array_equal(fitted.predict(frame[["b", "a"]]), fitted.predict(frame))
