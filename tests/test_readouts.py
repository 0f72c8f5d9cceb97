"""Read-outs: sensors that measure combinations of states."""

from dataclasses import replace

import numpy as np
import pytest
from scipy.integrate import solve_ivp
from scipy.linalg import expm

import cindy
from cindy.model import Readouts
from cindy.states import Fitted, deviance
from cindy.systems import lotka_volterra


def measured():
    [data] = lotka_volterra().simulate(seed=0, trajectories=1, points=300, noise=0.01)
    return data


def test_a_full_set_of_states_gives_the_model_of_today_to_the_digits():
    data = measured()
    basis = cindy.Polynomial(2)
    plain = cindy.identify(data, basis)
    same = cindy.identify(data, basis, observe={name: name for name in data.states})
    np.testing.assert_array_equal(plain.coef, same.coef)
    np.testing.assert_array_equal(plain.coef_error, same.coef_error)


@pytest.fixture(scope="module")
def sums():
    """The sum of prey and predators, and the prey."""
    data = measured()
    return cindy.Trajectory(data.t, np.column_stack([data.x.sum(axis=1), data.x[:, 0]]), ("total", "x"))


@pytest.fixture(scope="module")
def model(sums):
    return cindy.identify(sums, cindy.Polynomial(2), observe={"total": "x + y"})


def test_the_models_that_were_compared_know_the_read_outs(model, sums):
    assert all(np.isfinite(other.score(sums)) for other in (*model.path, *model.near))


def test_a_state_that_read_outs_give_is_no_hidden_one(sums):
    with pytest.raises(
        cindy.DataError, match=r'"y" has the name of a state .* `observe` gives is not hidden'
    ):
        cindy.identify(sums, cindy.Polynomial(2), observe={"total": "x + y"}, hidden=("y",))


def test_a_sum_and_one_state_give_the_law_of_both(model):
    assert measured().states == ("x", "y")
    found = {(model.terms[i], model.states[j]) for i, j in np.argwhere(model.coef)}
    assert found == {("x", "x"), ("x y", "x"), ("y", "y"), ("x y", "y")}
    # Errors of fitted states allow for the noise that states share; those of measured ones do not.
    assert "shared-readouts" not in {finding.code for finding in model.findings}


def test_states_that_are_not_fitted_have_errors_for_independent_noise_and_a_finding_says_so(sums):
    model = cindy.identify(sums, cindy.Polynomial(2), observe={"total": "x + y"}, passes=1)
    assert "shared-readouts" in {finding.code for finding in model.findings}
    averaged = Readouts.of({"a": "x", "b": "x"}, ("a", "b", "y"))
    assert averaged.correlation(np.ones(3)) is None


def test_states_of_other_data_are_estimated_with_the_noise_that_read_outs_share(model, sums, tmp_path):
    model.save(tmp_path / "model.json")
    [again] = cindy.load(tmp_path / "model.json").smooth(sums)
    [own] = model.smooth(sums)
    # For independent noise they differ by 0.015 of it.
    assert np.max(np.abs(again.x - own.x) / model.noise) < 1e-4


def linear_law(seed):
    """total = x + y and x of a damped oscillator, 2 % noise each; (x, y)' = A (x, y)."""
    law = np.array([[-0.3, 2.0], [-2.0, -0.3]])
    t = np.linspace(0, 6, 120)
    states = np.stack([expm(law * time) @ [1.0, 0.5] for time in t])
    columns = np.stack([states.sum(axis=1), states[:, 0]], axis=1)
    noise = 0.02 * np.random.default_rng(seed).standard_normal(columns.shape)
    return cindy.Trajectory(t, columns + noise, ("total", "x")), law


def test_a_law_is_as_likely_in_states_as_in_the_columns_they_are_worked_out_from():
    """p(states) = p(columns) |det H|: the noise of states must be that of columns in other coordinates."""
    data, law = linear_law(0)
    readouts = Readouts.of({"total": "x + y"}, data.states)
    there, noise = np.array([[1.0, 1.0], [1.0, 0.0]]), np.array([0.03, 0.02])
    order = [("x", "y").index(name) for name in readouts.states]
    there, law = there[:, order], law[np.ix_(order, order)]
    back = np.linalg.inv(there)
    found = []
    for one, matrix, variance, shared in (
        (data, there @ law @ back, noise**2, None),
        (*readouts.of_data([data]), law, back**2 @ noise**2, readouts.correlation(noise)),
    ):
        motion = cindy.Integral().motion([one], cindy.Polynomial(1, bias=False))
        motion = motion.part([replace(record, correlation=shared) for record in motion.records])
        states = tuple(record.y for record in motion.records)
        fitted = Fitted(motion.law(np.arange(4)), states, matrix.T.ravel(), variance, 1e-9 * variance)
        found.append(deviance(motion, fitted))
        [record] = motion.records
        values = np.random.default_rng(1).standard_normal(record.y.shape)
        weighted = (record.covariance(variance) @ values[..., None])[..., 0]
        np.testing.assert_allclose(
            sum(record.varied(variance, values, i) for i in range(2)), weighted, atol=1e-15
        )
        np.testing.assert_allclose(
            record.spread * variance * values + record.shared(variance, values), weighted, atol=1e-15
        )
    rows = len(data) - 1
    volume = 2 * rows * np.log(abs(np.linalg.det(there)))
    np.testing.assert_allclose(found[0] - found[1], volume, atol=1e-3)


def test_intervals_of_states_that_share_a_read_out_hold_the_truth():
    inside = []
    for seed in range(20):
        data, law = linear_law(seed)
        model = cindy.identify(data, cindy.Polynomial(1, bias=False), observe={"total": "x + y", "x": "x"})
        order = [("x", "y").index(name) for name in model.states]
        inside.append(np.abs(model.coef.T - law[np.ix_(order, order)]) < 1.96 * model.coef_error.T)
    # 95 % of 80 are 76; 68 or fewer have a probability below 0.001.
    assert np.sum(inside) > 68


def test_a_model_takes_read_outs_wherever_it_takes_data_and_scores_them(model, sums, tmp_path):
    model.save(tmp_path / "model.json")
    loaded = cindy.load(tmp_path / "model.json")
    [states] = loaded.smooth(sums)
    assert set(states.states) == {"x", "y"}
    np.testing.assert_allclose(states.x.sum(axis=1), sums.x[:, 0], atol=0.2 * sums.x.std())
    same = measured().x[:, [("x", "y").index(name) for name in model.states]]
    by_states = loaded.score(cindy.Trajectory(sums.t, same, model.states), kind="trajectory")
    by_readouts = loaded.score(sums, kind="trajectory")
    assert by_readouts > 0.99
    assert by_readouts != by_states


def test_sensors_of_one_state_may_report_at_different_instants():
    """Two sensors of x, of which every other sample has one, and y by a difference."""
    x, y = np.arange(6.0), 10 - np.arange(6.0)
    first, second = np.where(np.arange(6) % 2, np.nan, x), np.where(np.arange(6) % 3, x + 1, np.nan)
    columns = np.column_stack([first, second, y - x])
    readouts = Readouts.of({"a": "x", "b": "x", "gap": "y - x"}, ("a", "b", "gap"))
    [states] = readouts.of_data([cindy.Trajectory(0.1, columns, ("a", "b", "gap"))])
    # Samples 0 … 5 have the sensors a, b, both, none, both, b.
    expected = np.array([0, 2, 2.5, np.nan, 4.5, 6])
    np.testing.assert_allclose(states.x[:, 0], expected)
    np.testing.assert_allclose(states.x[:, 1], expected + (y - x))


def test_read_outs_that_are_never_there_together_give_the_law_of_what_they_measure(tmp_path):
    """The sum and the prey in turns: a law of both columns, in which y = total − x."""
    data = measured()
    x = np.column_stack([data.x.sum(axis=1), data.x[:, 0]])
    x[::2, 0], x[1::2, 1] = np.nan, np.nan
    turns = cindy.Trajectory(data.t, x, ("total", "x"))
    model = cindy.identify(turns, cindy.Polynomial(2), observe={"total": "x + y"})
    assert model.states == ("total", "x")
    [said] = [one for one in model.findings if one.code == "separate-readouts"]
    assert said.values["follow"] == {"y": "total - x"}
    # x' = x − x y / 2 and y' = x y / 2 − y
    coef = {(model.terms[i], model.states[j]): model.coef[i, j] for i, j in np.argwhere(model.coef)}
    wanted = {
        ("x", "x"): 1,
        ("total x", "x"): -0.5,
        ("x^2", "x"): 0.5,
        ("x", "total"): 2,
        ("total", "total"): -1,
    }
    assert coef.keys() == wanted.keys()
    assert all(abs(coef[name] - wanted[name]) < 0.05 for name in wanted)
    model.save(tmp_path / "model.json")
    assert cindy.load(tmp_path / "model.json").score(turns, kind="trajectory") > 0.99


def test_a_rate_is_measured_beside_its_position():
    t = np.arange(0, 10, 0.05)
    noise = 0.02 * np.random.default_rng(0).standard_normal((200, 2))
    both = np.column_stack([np.cos(2 * t), -2 * np.sin(2 * t)]) + noise
    data = cindy.Trajectory(t, both, ("q", "gyro"))
    model = cindy.identify(data, cindy.Polynomial(1), observe={"gyro": "v"}, known={"q": "v"})
    assert model.states == ("q", "v")
    np.testing.assert_allclose(model.coef, [[0, 0], [0, -4], [1, 0]], atol=0.05)


@pytest.mark.parametrize(
    ("observe", "said"),
    [
        ({"nobody": "x"}, "nobody"),
        ({"x": "a^2"}, "linear combination"),
        ({"x": "a + 1"}, "linear combination"),
        ({"x": "a +"}, "a +"),
        ({"x": ""}, "formula"),
        ({"x": "0*a"}, "depends on no variable"),
        ({"x": "a - a"}, "zero for all states"),
        ({"x": "2*x"}, "Give the column another name"),
        ({"x": "a + force"}, "force, which is an input"),
        ({"x": "mean(a)"}, "needs a time"),
        ({"x": "mean(a, b)"}, "needs a time"),
        ({"x": "mean(a, -1)"}, "needs a time"),
        ({"x": "mean(x, 0.1)"}, "Give the column another name"),
        ({"x": 3}, "formulas by column"),
        ({3: "x"}, "names the column 3"),
        ("x + y", "formulas by column"),
    ],
)
def test_a_bad_read_out_is_told_in_a_sentence(observe, said):
    values = np.random.default_rng(0).standard_normal((50, 3))
    data = cindy.Trajectory(0.1, values[:, :2], ("x", "y"), u=values[:, 2], inputs=("force",))
    with pytest.raises(cindy.CindyError, match=said):
        cindy.identify(data, cindy.Polynomial(1), observe=observe)


def test_columns_that_no_read_out_resolves_are_coordinates_of_what_is_told():
    """x is told, b + c is told by two sensors, and c stands for what nobody sees."""
    readouts = Readouts.of({"one": "x", "two": "x + b + c", "three": "2*b + 2*c"}, ("one", "two", "three"))
    assert readouts.states == ("x", "two")
    assert readouts.hidden == ("c",)
    assert readouts.derived == {"b": "-x + two - c"}
    assert Readouts.of({"s": "b + c"}, ("s",), wanted=("b",)).hidden == ("b",)
    x, b, c = np.random.default_rng(0).standard_normal((3, 20))
    data = cindy.Trajectory(1.0, np.column_stack([x, x + b + c, 2 * b + 2 * c]), ("one", "two", "three"))
    [told] = readouts.of_data([data])
    np.testing.assert_allclose(told.x, np.column_stack([x, x + b + c]), atol=1e-12)


@pytest.fixture(scope="module")
def doses():
    """A drug in the gut and in the blood, G' = −2 G and B' = 2 G − B, of which the sum is measured."""
    t, rng = np.linspace(0, 5, 200), np.random.default_rng(0)
    data = []
    for gut, blood in [(1.0, 0.0), (0.3, 1.0), (2.0, 0.5)]:
        total = gut * (2 * np.exp(-t) - np.exp(-2 * t)) + blood * np.exp(-t)
        data.append(cindy.Trajectory(t, total + 0.003 * rng.standard_normal(200), ("total",)))
    return data


def test_a_sum_alone_gives_its_law_with_a_hidden_state(doses, tmp_path):
    """total'' = −3 total' − 2 total, whichever of its two parts is called hidden."""
    basis = cindy.Polynomial(1, bias=False)
    model = cindy.identify(doses, basis, observe={"total": "G + B"})
    assert model.states == ("total", "B")
    assert model.hidden == ("B",)
    (change, rate) = model.coef[:, 0], model.coef[:, 1]
    trace, determinant = change[0] + rate[1], change[0] * rate[1] - change[1] * rate[0]
    assert abs(trace + 3) < 0.15
    assert abs(determinant - 2) < 0.15
    [said] = [one for one in model.findings if one.code == "partial-readouts"]
    assert said.values == {"told": ["total"], "hidden": ["B"], "follow": {"G": "total - B"}}
    model.save(tmp_path / "model.json")
    again = cindy.load(tmp_path / "model.json")
    assert again.smooth(doses)[0].states == ("total", "B")
    assert again.score(doses, kind="trajectory") > 0.99


def exposed():
    """A van der Pol oscillator; x read at instants, v as the mean over the last 0.4."""
    fine = np.arange(8001) * 0.0025
    x = solve_ivp(
        lambda _, x: [x[1], 1.5 * (1 - x[0] ** 2) * x[1] - x[0]],
        (0, 20),
        [1.0, 0.0],
        t_eval=fine,
        rtol=1e-9,
        atol=1e-10,
    ).y
    total = np.append(0.0, np.cumsum((x[1, 1:] + x[1, :-1]) / 2) * 0.0025)
    at = np.arange(160, 8000, 40)
    y = np.column_stack([x[0, at], (total[at] - total[at - 160]) / 0.4])
    y += 0.01 * y.std(axis=0) * np.random.default_rng(3).standard_normal(y.shape)
    return cindy.Trajectory(fine[at], y, ("position", "speed"))


def test_means_over_an_exposure_are_undone():
    """Taken for values, the means give false terms in both equations."""
    observe = {"position": "x", "speed": "mean(v, 0.4)"}
    model = cindy.identify(exposed(), cindy.Polynomial(3), observe=observe)
    wanted = {("v", "x"): 1, ("x", "v"): -1, ("v", "v"): 1.5, ("x^2 v", "v"): -1.5}
    found = {(model.terms[i], model.states[j]): (i, j) for i, j in np.argwhere(model.coef)}
    assert found.keys() == wanted.keys()
    for name, (i, j) in found.items():
        assert abs(model.coef[i, j] - wanted[name]) < 4 * model.coef_error[i, j] + 0.002
    assert "long-exposure" not in {one.code for one in model.findings}


def test_means_need_fitted_states_and_fields_have_no_read_outs():
    observe = {"position": "x", "speed": "mean(v, 0.4)"}
    for how in ({"passes": 1}, {"formulation": "differential"}, {"formulation": "discrete"}):
        with pytest.raises(cindy.DataError, match="undone along fitted states"):
            cindy.identify(exposed(), cindy.Polynomial(1), observe=observe, **how)
    axis = np.linspace(0, 1, 20)
    field = cindy.Field(u=np.outer(axis, axis), x=axis, t=axis)
    with pytest.raises(cindy.DataError, match="`observe` is for trajectories"):
        cindy.identify(field, "pde:2,2", observe={"u": "a"})


@pytest.mark.parametrize(
    ("hidden", "said"),
    [
        ("auto", "would leave their number open"),
        ({"other": "total"}, "no formula of the first values of B"),
        (5, "one to 5 states"),
        ("total", "has the name of a state"),
    ],
)
def test_hidden_states_beside_partial_read_outs_are_told_in_a_sentence(doses, hidden, said):
    with pytest.raises(cindy.DataError, match=said):
        cindy.identify(doses, cindy.Polynomial(1), observe={"total": "G + B"}, hidden=hidden)
