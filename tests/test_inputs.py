"""Inputs between samples, steps in place of times, and channels that are read late."""

import pickle
from dataclasses import replace

import numpy as np
import pytest
from typer.testing import CliRunner

import cindy
from cindy.cli.app import app
from cindy.cli.screen import as_typed
from cindy.data import Held, as_trajectories
from cindy.data.readers import Lazy
from cindy.errors import DataError

HOLDS = ("zero", "linear", "band")
STEP = 0.1
T = STEP * np.arange(300)


def wave(t):
    """Nothing above half of the highest frequency that the samples tell."""
    return np.stack([np.sin(2 * np.pi * 1.7 * t + 0.3) + 0.4 * t, np.cos(2 * np.pi * 2.3 * t)], axis=1)


@pytest.mark.parametrize("hold", HOLDS)
def test_every_hold_passes_through_the_samples(hold):
    signal = Held(T, wave(T), hold)
    assert np.allclose(signal.at(T), wave(T), atol=1e-12)


@pytest.mark.parametrize("hold", HOLDS)
def test_one_time_and_many_times_give_the_same_values_and_the_ends_go_on(hold):
    signal = Held(T, wave(T), hold)
    times = np.linspace(-1.0, T[-1] + 1.0, 97)
    assert np.allclose(signal.at(times), [signal(float(s)) for s in times], atol=1e-13)
    assert np.allclose(signal(T[-1] + 5.0), wave(T)[-1])
    assert np.allclose(signal(T[0] - 5.0), wave(T)[0])


def test_a_held_input_keeps_its_value_until_the_next_sample():
    signal = Held(T, wave(T), "zero")
    assert np.allclose(signal.at(T[:-1] + 0.99 * STEP), wave(T)[:-1])
    assert np.allclose(signal.at(T[7:8] - 1e-15), wave(T)[7])


def test_a_linear_input_lies_on_the_chord():
    signal = Held(T, wave(T), "linear")
    assert np.allclose(signal.at(T[:-1] + 0.25 * STEP), 0.75 * wave(T)[:-1] + 0.25 * wave(T)[1:])


def test_a_band_limited_input_is_found_again_between_the_samples():
    between = np.linspace(T[60], T[-60], 2345)
    worst = {hold: np.max(np.abs(Held(T, wave(T), hold).at(between) - wave(between))) for hold in HOLDS}
    assert worst["band"] < 5e-4 < 0.1 < worst["linear"] < worst["zero"]


def test_a_band_limited_input_with_missing_samples_is_still_close():
    some = np.delete(np.arange(len(T)), [50, 120, 121, 200])
    slow = np.sin(2 * np.pi * 0.4 * T)[:, None]
    between = np.linspace(T[60], T[-60], 999)
    error = Held(T[some], slow[some], "band").at(between)[:, 0] - np.sin(2 * np.pi * 0.4 * between)
    assert np.max(np.abs(error)) < 2e-3


def test_a_trajectory_carries_its_hold_to_all_that_is_made_of_it():
    x = np.sin(T)
    x[100] = np.nan
    given = cindy.Trajectory(T, x, u=wave(T), hold="zero", name="a")
    parts = [given.part(3, 9), *given.segments(), replace(given, x=x), pickle.loads(pickle.dumps(given))]
    assert {part.hold for part in parts} == {"zero"}
    assert "held" in repr(given)


@pytest.mark.parametrize("hold", ["Zero", "cubic", None, 0, ["zero"]])
def test_a_hold_that_does_not_exist_is_refused(hold):
    with pytest.raises(DataError, match='"zero"'):
        cindy.Trajectory(T, np.sin(T), u=wave(T), hold=hold)


def test_band_needs_a_constant_step():
    uneven = np.sort(np.random.default_rng(0).uniform(0, 1, 50))
    with pytest.raises(DataError, match="constant step"):
        cindy.Trajectory(uneven, uneven, u=uneven, hold="band")
    cindy.Trajectory(uneven, uneven, hold="band")


def test_trajectories_that_hold_inputs_differently_are_not_mixed():
    one = cindy.Trajectory(T, np.sin(T), u=wave(T), hold="zero")
    with pytest.raises(DataError, match="same `hold`"):
        as_trajectories([one, replace(one, hold="linear")])


def driven():
    model = cindy.Model(np.zeros((3, 1)), cindy.Polynomial(1), ("x",), inputs=("u",))
    return model.with_coef({("x", "x"): -1.0, ("x", "u"): 2.0})


def test_a_simulation_with_held_inputs_follows_the_exact_recursion():
    u = np.where(np.arange(60) % 7 < 3, 1.0, -0.5)
    u[30] = 40.0
    t = 0.25 * np.arange(60)
    solved = driven().simulate([0.3], t, u, hold="zero")
    exact, decay = [0.3], np.exp(-0.25)
    for level in u[:-1]:
        exact.append(decay * exact[-1] + 2 * level * (1 - decay))
    assert np.allclose(solved.x[:, 0], exact, rtol=1e-7, atol=1e-8)
    assert solved.hold == "zero"
    assert np.array_equal(solved.u[:, 0], u)


def test_a_simulation_with_a_band_limited_input_follows_the_input_itself():
    t = 0.1 * np.arange(400)
    force = lambda s: np.sin(2 * np.pi * 2.0 * s)  # noqa: E731
    exact = driven().simulate([0.0], t, force).x
    later = slice(100, 300)  # beyond what the ends of the record leave open
    solved = {hold: driven().simulate([0.0], t, force(t), hold).x for hold in HOLDS}
    error = {hold: np.abs(x - exact)[later].max() for hold, x in solved.items()}
    assert 20 * error["band"] < error["linear"] < error["zero"]


def test_a_model_simulates_as_the_data_it_came_from_were_held(tmp_path):
    rng = np.random.default_rng(3)
    u = np.repeat(rng.normal(size=40), 5)
    t = 0.1 * np.arange(200)
    data = driven().simulate([1.0], t, u, hold="zero")
    model = cindy.identify(data, cindy.Polynomial(1), passes=1)
    assert model.settings["hold"] == "zero"
    model.save(tmp_path / "m.json")
    for known in (model, cindy.load(tmp_path / "m.json")):
        assert known.simulate([1.0], t, u).hold == "zero"
        assert known.simulate([1.0], t, u, hold="linear").hold == "linear"


@pytest.mark.parametrize("hold", ["cubic", 3])
def test_simulate_refuses_a_hold_that_does_not_exist(hold):
    with pytest.raises(DataError, match="hold"):
        driven().simulate([0.0], T, np.sin(T), hold=hold)


def test_a_number_in_place_of_times_is_the_step():
    x = np.random.default_rng(0).normal(size=(5, 2))
    whole = cindy.Trajectory(0.05, x)
    assert np.array_equal(whole.t, 0.05 * np.arange(5))
    (paired,) = as_trajectories((0.05, x))
    assert np.array_equal(paired.t, whole.t)
    assert np.array_equal(paired.x, x)


@pytest.mark.parametrize("step", [0, -1.0, np.nan, np.inf])
def test_a_step_must_be_positive(step):
    with pytest.raises(DataError, match="step"):
        cindy.Trajectory(step, [1.0, 2.0])


def table(tmp_path):
    path = tmp_path / "tank.csv"
    rows = "\n".join(f"{k // 30},{np.sin(0.1 * k)},{k % 2}" for k in range(60))
    path.write_text(f"run,level,pump\n{rows}\n")
    return path


def test_a_file_without_times_is_read_with_a_step(tmp_path):
    for data in (
        cindy.read(table(tmp_path), by="run", inputs=["pump"], dt=0.5, hold="zero"),
        list(cindy.read(table(tmp_path), by="run", inputs=["pump"], dt=0.5, hold="zero", lazy=True)),
    ):
        assert [len(one) for one in data] == [30, 30]
        assert all(one.hold == "zero" and one.states == ("level",) for one in data)
        assert np.array_equal(data[1].t, 0.5 * np.arange(30))


def test_a_step_beside_a_column_of_times_is_refused(tmp_path):
    path = tmp_path / "a.csv"
    path.write_text("t,x\n0,1\n1,2\n2,4\n")
    with pytest.raises(DataError, match='"t", which looks like times'):
        cindy.read(path, dt=0.1)
    with pytest.raises(DataError, match="not both"):
        cindy.read(path, "t", dt=0.1)
    assert np.array_equal(cindy.read(path, states=["x"], dt=0.1)[0].t, 0.1 * np.arange(3))
    with pytest.raises(DataError, match="dt"):
        cindy.read(path, states=["x"], dt="quick")


def test_the_command_line_takes_a_step_and_a_hold(tmp_path):
    model = tmp_path / "m.json"
    arguments = [
        "fit",
        str(table(tmp_path)),
        "--by",
        "run",
        "--inputs",
        "pump",
        "--dt",
        "0.5",
        "--hold",
        "zero",
    ]
    said = CliRunner().invoke(app, [*arguments, "--basis", "poly:1", "--passes", "1", "--out", str(model)])
    assert said.exit_code == 0, said.output
    assert cindy.load(model).settings["hold"] == "zero"
    wrong = CliRunner().invoke(app, [*arguments[:-1], "spline"])
    assert isinstance(wrong.exception, DataError)
    assert "--hold must be" in as_typed(str(wrong.exception))


def late(lag):
    """Two waves, of which the second is stamped `lag` later than it was read."""
    t = 0.05 * np.arange(400)
    x = np.stack([np.cos(t), np.sin(1.3 * (t - lag))], axis=1)
    return cindy.Trajectory(t, x, ("q", "p"), delay={"p": lag})


@pytest.mark.parametrize("lag", [0.02, 0.13, -0.04, 1.0])
def test_a_late_channel_is_taken_to_the_instants_of_the_others(lag):
    given = late(lag)
    shown = given.aligned()
    assert np.array_equal(shown.x[:, 0], given.x[:, 0])
    assert not shown.delay
    known = np.isfinite(shown.x[:, 1])
    assert np.allclose(shown.x[known, 1], np.sin(1.3 * given.t[known]), atol=1e-8)
    assert np.count_nonzero(~known) == int(np.ceil(abs(lag) / 0.05 - 1e-9))
    assert np.isfinite(shown.x[10:-25]).all()


def test_a_delay_of_whole_steps_moves_samples_unchanged():
    rng = np.random.default_rng(0)
    x = rng.normal(size=(40, 2))
    given = cindy.Trajectory(0.25 * np.arange(40), x, ("q", "p"), delay={"p": 0.75})
    assert np.allclose(given.aligned().x[:-3, 1], x[3:, 1], rtol=0, atol=1e-12)


def test_missing_samples_of_a_late_channel_stay_missing_where_the_hole_is_long():
    given = late(0.02)
    x = given.x.copy()
    x[100:110, 1] = np.nan
    shown = replace(given, x=x).aligned()
    assert np.isnan(shown.x[100:109, 1]).all()
    assert np.isfinite(shown.x[:99, 1]).all()


def test_delays_are_undone_wherever_trajectories_are_taken():
    given = late(0.02)
    expected = given.aligned().x
    taken = (as_trajectories(given), as_trajectories([given, given]), list(Lazy([lambda: [given]])))
    assert all(np.array_equal(data[0].x, expected, equal_nan=True) for data in taken)


@pytest.mark.parametrize(
    ("delay", "said"),
    [({"z": 0.1}, "'z'"), (0.1, "each late channel"), ({"p": "late"}, "'p'"), ({"p": np.nan}, "'p'")],
)
def test_a_delay_that_makes_no_sense_is_refused(delay, said):
    with pytest.raises(DataError, match=said):
        cindy.Trajectory([0, 1], [[1, 2], [3, 4]], ("q", "p"), delay=delay)


def test_a_known_lag_gives_the_law_that_a_lag_nobody_knows_spoils():
    model = cindy.Model(np.zeros((10, 2)), cindy.Polynomial(3), ("q", "p"))
    law = model.with_coef({("q", "p"): 1.0, ("p", "q"): 1.0, ("p", "q^3"): -1.0, ("p", "p"): -0.15})
    rng = np.random.default_rng(0)
    step, data = 0.05, []
    for _ in range(3):
        fine = law.simulate(rng.uniform(-1.5, 1.5, 2), step / 2 * np.arange(802))
        x = np.stack([fine.x[1::2, 0], fine.x[::2, 1]], axis=1)
        x += 0.01 * x.std(axis=0) * rng.standard_normal(x.shape)
        data.append(cindy.Trajectory(fine.t[::2], x, ("q", "p"), delay={"q": -step / 2}))
    found = cindy.identify(data, cindy.Polynomial(3))
    assert np.array_equal(found.coef != 0, law.coef != 0)
    assert np.allclose(found.coef, law.coef, atol=0.01)
