"""Inputs between samples: rows and simulations take them as they were held."""

import itertools

import numpy as np
import pytest

import cindy
from cindy.data import Held, beginning
from cindy.data.inputs import lattice


def driven(held, seed, noise=0.01, samples=600, step=0.05):
    """x' = -x + 2 u with u held for some samples, exactly, and measured with noise."""
    rng = np.random.default_rng(seed)
    u = np.repeat(rng.standard_normal(samples // held + 1), held)[:samples]
    x = np.zeros(samples)
    for k in range(samples - 1):
        x[k + 1] = 2 * u[k] + (x[k] - 2 * u[k]) * np.exp(-step)
    y = x + noise * x.std() * rng.standard_normal(samples)
    return step * np.arange(samples), y, u


def identified(held, seed, hold):
    t, y, u = driven(held, seed)
    return cindy.identify(cindy.Trajectory(t, y, ("x",), u=u, inputs=("u",), hold=hold), cindy.Polynomial(2))


def the_law_is_within_three_errors(model):
    x, u = model.terms.index("x"), model.terms.index("u")
    assert set(np.flatnonzero(model.coef[:, 0])) == {x, u}
    assert abs(model.coef[x, 0] + 1) < 3 * model.coef_error[x, 0]
    assert abs(model.coef[u, 0] - 2) < 3 * model.coef_error[u, 0]


@pytest.mark.parametrize("held", [1, 5, 20])
def test_a_held_input_gives_the_law_within_three_errors(held):
    model = identified(held, seed=held, hold="zero")
    the_law_is_within_three_errors(model)
    assert "other-hold" not in {finding.code for finding in model.findings}


@pytest.mark.parametrize("held", [1, 5, 20])
def test_a_wrong_hold_is_told_and_the_right_one_named(held):
    model = identified(held, seed=10 + held, hold="linear")
    [finding] = [finding for finding in model.findings if finding.code == "other-hold"]
    assert finding.values["hold"] == "zero"


def test_a_band_limited_input_gives_the_law():
    rng = np.random.default_rng(3)
    step, samples = 0.1, 800
    fine = 40
    t = np.arange(samples * fine) * step / fine
    frequency = rng.uniform(0.2, 4.0, 12)
    phase = rng.uniform(0, 2 * np.pi, 12)
    u = np.cos(2 * np.pi * frequency * t[:, None] + phase).sum(axis=1)
    x = np.zeros(len(t))
    # The exact solution between fine instants, u on straight lines there.
    decay, h = np.exp(-step / fine), step / fine
    for k in range(len(t) - 1):
        slope = (u[k + 1] - u[k]) / h
        offset = 2 * u[k] - 2 * slope
        x[k + 1] = offset + 2 * slope * h + (x[k] - offset) * decay
    y = x[::fine] + 0.002 * x.std() * rng.standard_normal(samples)
    data = cindy.Trajectory(t[::fine], y, ("x",), u=u[::fine], inputs=("u",), hold="band")
    model = cindy.identify(data, cindy.Polynomial(2))
    found = {term: model.coef[i, 0] for i, term in enumerate(model.terms) if model.coef[i, 0]}
    assert set(found) == {"x", "u"}
    assert found["x"] == pytest.approx(-1, rel=0.02)
    assert found["u"] == pytest.approx(2, rel=0.02)


def exact(t, u_t, u, hold, seed=0, noise=0.0):
    """x' = -x + 2 u at the times t, u known at times of its own, exactly, and measured with noise."""
    every = np.union1d(t, u_t[(u_t > t[0]) & (u_t < t[-1])])
    signal = Held(u_t, u[:, None], hold)
    x = [0.3]
    for begin, end in itertools.pairwise(every):
        value = signal(begin)[0]
        # The solution over one step: an offset, a slope that the input gives, and a decay.
        slope = 0.0 if hold == "zero" else 2 * (signal(end)[0] - value) / (end - begin)
        offset = 2 * value - slope
        x.append(offset + slope * (end - begin) + (x[-1] - offset) * np.exp(begin - end))
    kept = np.array(x)[np.isin(every, t)]
    return kept + noise * kept.std() * np.random.default_rng(seed).standard_normal(len(t))


@pytest.mark.parametrize(("hold", "step"), [("zero", 0.0371), ("linear", 0.43)])
def test_inputs_at_times_of_their_own_give_the_law_and_its_solution(hold, step):
    t, u_t = np.arange(0, 12, 0.05), np.arange(-0.013, 12.5, step)
    u = np.random.default_rng(1).standard_normal(len(u_t))
    data = cindy.Trajectory(
        t, exact(t, u_t, u, hold, noise=0.01), ("x",), u=u, inputs=("u",), hold=hold, u_t=u_t
    )
    model = cindy.identify(data, cindy.Polynomial(2))
    the_law_is_within_three_errors(model)
    assert not {"not-compared", "other-hold", "poor-solutions"} & {one.code for one in model.findings}
    assert model.score(data, "trajectory") > 0.999


@pytest.mark.parametrize("hold", ["zero", "linear"])
def test_a_simulation_takes_inputs_at_times_of_their_own(hold):
    t, u_t = np.arange(0, 5, 0.05), np.arange(0, 5, 0.0371)
    u = np.random.default_rng(2).standard_normal(len(u_t))
    model = cindy.Model([[0.0], [-1.0], [2.0]], cindy.Polynomial(1), ("x",), inputs=("u",))
    solved = model.simulate([0.3], t, u, hold, u_t=u_t)
    assert solved.t.tolist() == t.tolist()
    assert np.abs(solved.x[:, 0] - exact(t, u_t, u, hold)).max() < 1e-7


def test_a_held_input_that_jumps_at_the_last_sample_does_not_act_before():
    t = np.linspace(0.0, 10.0, 200)
    u = np.where(t < 10.0, 0.0, 1e8)
    model = cindy.Model([[0.0], [-1.0], [1.0]], cindy.Polynomial(1), ("x",), inputs=("u",))
    np.testing.assert_allclose(model.simulate([1.0], t, u, "zero").x[:, 0], np.exp(-t), atol=1e-9)


def test_a_band_limited_input_at_times_of_its_own_is_found_again():
    t, u_t = np.arange(0, 40, 0.1), np.arange(0, 41, 0.03)
    data = cindy.Trajectory(t, np.cos(t), ("x",), u=np.sin(9 * u_t), inputs=("u",), hold="band", u_t=u_t)
    assert np.isin(t, data.t).all()
    assert lattice(data.t) <= 0.03
    inside = slice(40, -40)
    assert np.abs(data.u[:, 0] - np.sin(9 * data.t))[inside].max() < 1e-3
    assert data.x[np.isin(data.t, t), 0].tolist() == np.cos(t).tolist()


def test_states_before_the_first_input_have_none_and_a_held_one_stays():
    data = cindy.Trajectory([0.0, 1.0, 2.0, 3.0], [1, 2, 3, 4], u=[5, 6], u_t=[0.5, 1.5], hold="zero")
    assert data.t.tolist() == [0.0, 0.5, 1.0, 1.5, 2.0, 3.0]
    assert np.array_equal(data.u[:, 0], [np.nan, 5, 5, 6, 6, 6], equal_nan=True)
    straight = cindy.Trajectory([0.0, 1.0, 2.0, 3.0], [1, 2, 3, 4], u=[5, 6], u_t=[0.5, 1.5])
    assert np.array_equal(straight.u[:, 0], [np.nan, 5, 5.5, 6, np.nan, np.nan], equal_nan=True)


def test_instants_that_differ_by_rounding_are_one():
    t = np.arange(0, 3, 0.1)
    data = cindy.Trajectory(t, t, u=np.arange(30), u_t=np.cumsum(np.full(30, 0.1)) - 0.1, hold="zero")
    assert data.t.tolist() == t.tolist()
    assert data.u[:, 0].tolist() == list(range(30))


def test_dates_of_inputs_count_from_the_first_of_the_states():
    days = np.array(["2024-01-02", "2024-01-03", "2024-01-04"], dtype="datetime64[s]")
    own = np.array(["2024-01-01", "2024-01-03T12:00"], dtype="datetime64[s]")
    data = cindy.Trajectory(days, [1, 2, 3], u=[1, 2], u_t=own, hold="zero")
    assert (data.t / 86400).tolist() == [0.0, 1.0, 1.5, 2.0]
    assert data.u[:, 0].tolist() == [1, 1, 2, 2]


@pytest.mark.parametrize(
    ("given", "said"),
    [
        ({"u_t": [0, 1]}, "`u` is missing"),
        ({"u": [1, 2, 3], "u_t": [0, 1]}, "one row per time"),
        ({"u": [1, 2], "u_t": [1, 0]}, "`u_t` must increase"),
        ({"u": [1, 2], "u_t": np.array(["2024-01-01", "2024-01-02"], dtype="datetime64[D]")}, "both"),
        ({"u": [np.nan, np.nan], "u_t": [0, 1]}, "missing at every sample"),
    ],
)
def test_times_of_inputs_that_make_no_sense_are_refused(given, said):
    with pytest.raises(cindy.DataError, match=said):
        cindy.Trajectory([0.0, 1.0, 2.0], [1, 2, 3], **given)


def test_a_log_whose_rows_hold_states_or_inputs_is_read(tmp_path):
    file = tmp_path / "log.csv"
    file.write_text("t,x,u\n0,1.0,\n0.4,,3\n1,2.0,\n1.4,,4\n2,3.0,\n3,4.0,\n")
    [data] = cindy.read(file, inputs=("u",), hold="zero")
    assert data.t.tolist() == [0, 0.4, 1, 1.4, 2, 3]
    assert np.array_equal(data.u[:, 0], [np.nan, 3, 3, 4, 4, 4], equal_nan=True)
    assert np.isnan(data.x[:, 0]).tolist() == [False, True, False, True, False, False]


def test_a_held_input_that_is_late_jumps_between_the_samples():
    t, u = np.arange(6.0), np.array([0.0, 0, 1, 1, 2, 2])
    late = cindy.Trajectory(t, t, ("x",), u=u, inputs=("u",), hold="zero", delay={"u": 0.25}).aligned()
    assert late.t.tolist() == [0, 1, 1.75, 2, 3, 3.75, 4, 5]
    assert np.array_equal(late.u[:, 0], [0, 0, 1, 1, 1, 2, 2, np.nan], equal_nan=True)


def test_a_late_state_has_no_estimate_where_only_inputs_were_measured():
    # Neither the last instant, at which only the input was measured, nor states read late may fail.
    t = np.arange(0, 40, 0.1)
    u = np.where(np.arange(len(t)) // 40 % 2 == 0, 1.0, -1.0)
    x = exact(t, t, u, "zero", noise=0.01)
    late = cindy.Trajectory(t, x, ("x",), u=u, inputs=("u",), hold="zero", delay={"x": 0.1})
    model = cindy.identify(late, cindy.Polynomial(1))
    [states] = model.smooth([late])
    assert np.isnan(states.x[:, 0]).tolist() == [False] * (len(t) - 1) + [True]


def test_rough_inputs_are_not_thinned_with_the_samples():
    t = np.arange(0, 60, 0.05)
    u = np.random.default_rng(4).standard_normal(len(t))
    data = cindy.Trajectory(t, exact(t, t, u, "zero", noise=0.01), ("x",), u=u, inputs=("u",), hold="zero")
    model = cindy.Model([[0.0], [-1.0], [2.0]], cindy.Polynomial(1), ("x",), inputs=("u",))
    few = beginning(data, 100)
    assert np.isfinite(few.x).sum() <= 100
    assert model.score(few, "trajectory") > 0.999


def test_the_models_that_were_compared_hold_inputs_like_the_chosen_one(tmp_path):
    model = identified(5, 0, "zero")
    model.save(tmp_path / "model.json")
    t, u = np.arange(0.0, 5.0, 0.5), np.arange(10) % 2
    for every in (model, cindy.load(tmp_path / "model.json")):
        for other in (*every.path, *every.near):
            expected = other.simulate([1.0], t, u, hold="zero").x
            np.testing.assert_array_equal(other.simulate([1.0], t, u).x, expected)
