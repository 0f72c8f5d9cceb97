"""States that nobody measured."""

import re
from dataclasses import dataclass, field, replace

import numpy as np
import pytest
from scipy.integrate import solve_ivp

import cindy
from cindy import DataError, Differential, Integral, Polynomial, Significance, Trajectory
from cindy.data import as_source, noise_variance
from cindy.identification.hidden import Sought, not_needed, with_hidden
from cindy.identification.hidden_gauge import _best_move
from cindy.identification.hidden_starts import Pin, starts_in_gauges
from cindy.identification.judgement import _weighted_median, with_forecasts
from cindy.identification.sensors import _guesses, _rare_state
from cindy.search.request import Pieces, Request, Settings

T = np.arange(300) * 0.05


def runs(rhs, starts, t=T, *, noise=0.01, seed=0):
    rng = np.random.default_rng(seed)
    for x0 in starts:
        x = solve_ivp(lambda _, x: rhs(x), (0, t[-1]), x0, t_eval=t, rtol=1e-9, atol=1e-10).y.T
        yield x + noise * x.std(axis=0) * rng.standard_normal(x.shape)


def oscillator(x):
    return [x[1], -2 * x[0] - 0.2 * x[1]]


@pytest.fixture(scope="module")
def positions():
    return [Trajectory(T, x[:, :1], ("q",)) for x in runs(oscillator, [[1, 0], [0, 2]])]


@pytest.fixture(scope="module")
def model(positions):
    return cindy.identify(positions, Polynomial(2), hidden="v")


def codes(model):
    return {one.code for one in model.findings}


def test_the_velocity_of_an_oscillator_is_found_from_its_position(model):
    assert model.states == ("q", "v")
    wanted = np.zeros((6, 2))
    wanted[[1, 2, 2], [1, 0, 1]] = [-2, 1, -0.2]
    np.testing.assert_array_equal(model.coef != 0, wanted != 0)
    assert np.all(np.abs(model.coef - wanted) <= 5 * model.coef_error + 1e-12)
    assert model.violation < 1e-12


def test_what_is_hidden_is_told_and_has_no_noise(model, positions):
    assert {"hidden-state", "hidden-gauge"} <= codes(model)
    assert np.isnan(model.noise).tolist() == [False, True]
    gauge = next(one for one in model.findings if one.code == "hidden-gauge")
    assert gauge.values == {"state": "v", "equation": "q", "one": "v", "zero": ["1", "q"]}
    truth = next(runs(oscillator, [[1, 0]], noise=0))
    [first, _] = model.smoothed
    assert first.states == ("q", "v")
    assert np.abs(first.x - truth).max() < 0.02


def test_the_summary_gives_the_noise_of_measured_states_and_the_page_the_same_r2(model, positions):
    text = " ".join(model.summary().split())
    assert f"noise q {model.noise[0]:.2g} (standard deviation)" in text
    shown = re.sub("<[^>]+>", " ", cindy.report.render(model, positions))
    r2 = re.search(r"R² of equations (\S+)", text)[1]
    assert f"R² of the equations {r2} " in " ".join(shown.split())


def test_solutions_start_from_all_states(model, tmp_path):
    truth = next(runs(oscillator, [[0.5, 1.0]], noise=0))
    np.testing.assert_allclose(model.simulate([0.5, 1.0], T).x, truth, atol=0.02)
    model.save(tmp_path / "model.json")
    again = cindy.load(tmp_path / "model.json")
    np.testing.assert_array_equal(again.coef, model.coef)
    assert np.isnan(again.noise).tolist() == [False, True]


def test_data_without_the_hidden_state_are_smoothed_and_compared(model, positions, tmp_path):
    model.save(tmp_path / "model.json")
    loaded = cindy.load(tmp_path / "model.json")
    assert loaded.hidden == ("v",)
    for one, own in zip(loaded.smooth(positions), model.smoothed, strict=True):
        np.testing.assert_allclose(one.x, own.x, atol=1e-3)
    fresh = next(runs(oscillator, [[0.5, 1.0]], seed=5))
    [found] = loaded.smooth(Trajectory(T, fresh[:, :1], ("q",)))
    np.testing.assert_allclose(found.x, next(runs(oscillator, [[0.5, 1.0]], noise=0)), atol=0.03)
    assert loaded.score(positions) > 0.99
    # The noise of what was measured counts, and the hidden state, of which only estimates exist, does not.
    noisy = next(runs(oscillator, [[0.5, 1.0]], noise=0.2, seed=5))
    score = loaded.score(Trajectory(T, noisy[:, :1], ("q",)), kind="trajectory")
    assert score == pytest.approx(1 / 1.04, abs=0.01)
    with pytest.raises(DataError, match="`smooth` estimates it"):
        loaded.simulate([0.5], T)


def test_a_hidden_state_stays_hidden_with_other_coefficients(model, positions):
    changed = model.with_coef({("v", "v"): -0.19})
    assert changed.hidden == ("v",)
    for other in (changed, *model.sample(2)):
        assert other.score(positions, "trajectory") > 0.9
    assert "was not measured" in cindy.report.render(changed, positions)
    assert all(other.hidden == () for other in model.path)


def test_a_law_that_does_not_predict_from_earlier_samples_is_told(model, positions):
    assert "not-forecast" not in codes(model)
    slower = replace(model, coef=model.coef * [[1, 1], [1, 0.7], [1, 1], [1, 1], [1, 1], [1, 1]], fitted=None)
    told = [one for one in with_forecasts(slower, positions).findings if one.code == "not-forecast"]
    assert len(told) == 1
    assert told[0].values["explained"] < 0.95


def test_first_values_by_a_formula_keep_the_unit_that_a_known_equation_gives(positions, tmp_path):
    basis = Polynomial(1, bias=False)
    model = cindy.identify(positions, basis, hidden={"v": "0.7*q'"}, known={"q": "v"})
    np.testing.assert_allclose(model.coef, [[0, -2], [1, -0.2]], atol=0.02)
    assert "hidden-gauge" not in codes(model)
    model.save(tmp_path / "model.json")
    [found] = cindy.load(tmp_path / "model.json").smooth(positions[0])
    np.testing.assert_allclose(found.x, next(runs(oscillator, [[1, 0]], noise=0)), atol=0.03)


def test_a_known_equation_gives_the_unit_of_a_hidden_state(positions):
    model = cindy.identify(positions, Polynomial(1, bias=False), hidden="v", known={"q": "2*v - 0.1*q"})
    # q' = 2 v − 0.1 q and q'' = −2 q − 0.2 q'
    np.testing.assert_allclose(model.coef, [[-0.1, -0.995], [2, -0.1]], atol=0.02)


def test_a_hidden_state_more_than_the_data_can_tell_is_named(positions):
    model = cindy.identify(positions, Polynomial(1), hidden=2)
    [said] = [one for one in model.findings if one.code == "hidden-not-needed"]
    assert said.values["state"] == "w2"
    assert "Leave it out" in said.message


def roessler(s):
    return [-s[1] - s[2], s[0] + 0.2 * s[1], 0.2 + s[2] * (s[0] - 5.7)]


def test_the_sparsest_gauge_is_chosen_and_said():
    """Where x' = w with w = −y − z the law has nine terms, and seven with w = −z."""
    t = np.arange(300) * 0.08
    data = [
        Trajectory(t, x[:, :2], ("x", "y"))
        for x in runs(roessler, [[1, 1, 1], [-5, 3, 0.5]], t, noise=0.005, seed=1)
    ]
    model = cindy.identify(data, Polynomial(2), hidden=1)
    wanted = {("y", "x"): -1, ("w", "x"): 1, ("x", "y"): 1, ("y", "y"): 0.2}
    wanted |= {("1", "w"): -0.2, ("w", "w"): -5.7, ("x w", "w"): 1}
    places = {(model.terms[i], model.states[j]): model.coef[i, j] for i, j in np.argwhere(model.coef)}
    assert places.keys() == wanted.keys()
    assert all(abs(places[k] - wanted[k]) < 0.1 * max(abs(wanted[k]), 0.5) for k in wanted)
    [gauge] = [one for one in model.findings if one.code == "hidden-gauge"]
    assert any("in that of w" in one for one in gauge.values["zero"])


@dataclass(frozen=True)
class Gauges:
    """A law on coefficients 0 … 5 of which some are zero, in two gauges that one number leads to."""

    support: np.ndarray
    others: tuple = ()
    allowed: np.ndarray = field(default_factory=lambda: np.arange(6))
    coef: np.ndarray = field(default_factory=lambda: np.ones(6))

    def zeros_along(self, w, along):
        return [(5, 1.0), (5, 2.0)]

    def moved(self, w, along, amount, place):
        return self.others[int(amount) - 1]


def test_a_change_of_gauge_does_not_bring_back_what_another_pin_says_is_zero():
    """The second gauge has fewer terms, but one at 4, where the pin of the second hidden state has a zero."""
    pins = tuple(Pin(f"w{k}", "x", "1", k, np.array([3 + k]), np.array([-1])) for k in range(2))
    others = Gauges(np.array([0, 1, 2])), Gauges(np.array([0, 4]))
    law, place, along, amount = _best_move(Gauges(np.arange(3), others), pins, 0, 1) or (None,) * 4
    assert law is None
    wider = Gauges(np.array([0, 1, 2, 5]), others)
    law, place, along, amount = _best_move(wider, pins, 0, 1)
    assert (law, place, along, amount) == (others[0], 5, -1, 1.0)


def test_a_state_that_is_not_needed_is_left_out():
    data = [Trajectory(T, x, ("q", "v")) for x in runs(oscillator, [[1, 0]])]
    model = cindy.identify(data, Polynomial(1), hidden="auto")
    assert model.states == ("q", "v")
    assert "hidden-not-needed" in codes(model)


def glucose():
    """A glucose tolerance test from 8 minutes on; Pacini and Bergman 1986, in docs/preparing.md."""
    minutes = [8, 10, 12, 14, 16, 19, 22, 27, 32, 42, 52, 62, 72, 82, 92, 102, 122, 142, 162, 182]
    level = [240, 216, 211, 205, 196, 192, 172, 163, 142, 124, 105, 92, 84, 77, 82, 81, 82, 82, 85, 90]
    insulin = [51, 49, 45, 41, 35, 30, 30, 27, 30, 22, 15, 15, 11, 10, 8, 11, 7, 8, 8, 7]
    inputs = (np.array(insulin) - 7.0) / 100
    return Trajectory(np.array(minutes, float), np.array(level) / 100, ("G",), u=inputs, inputs=("I",))


def test_a_hidden_state_that_no_term_changes_is_told():
    """Twenty samples do not show remote insulin; and what does not vary needs no prediction."""
    basis = {
        "G": cindy.Custom({"base": "0.92-G", "G X": "G*X"}),
        "X": cindy.Custom({"X": "X", "I": "I"}),
    }
    model = cindy.identify(glucose(), basis, hidden="X", constraints=[cindy.fix("G", "G X", -1)])
    assert not model.coef[:, 1].any()
    [said] = [one for one in model.findings if one.code == "hidden-not-needed"]
    assert said.values["state"] == "X"
    assert "constant" in said.message
    assert not codes(model) & {"hidden-state", "not-predictive"}


def test_a_hidden_state_of_little_worth_is_said_to_be_of_little_worth():
    model = cindy.identify(glucose(), Polynomial(2), hidden="auto")
    assert model.states == ("G",)
    [said] = [one for one in model.findings if one.code == "hidden-not-needed"]
    assert 0 < said.values["gain"] < 14
    assert "higher by only" in said.message
    assert "higher by only 13.7, and 14 is" in not_needed(("w",), 13.7).message


def test_a_state_that_is_rarely_measured_has_its_equation():
    """Rows complete in all states lie 50 samples apart, and say nothing of noise and bending."""
    t = np.arange(400) * 0.02
    data = []
    for x in runs(lorenz, [[-8, 8, 27], [5, 3, 20]], t):
        x[np.arange(400) % 50 > 0, 2] = np.nan
        data.append(Trajectory(t, x, ("x", "y", "z")))
    model = cindy.identify(data, Polynomial(2))
    terms = {(model.terms[i], model.states[j]) for i, j in np.argwhere(model.coef)}
    lorenz_terms = [("x", "x"), ("y", "x"), ("x", "y"), ("y", "y"), ("x z", "y"), ("z", "z"), ("x y", "z")]
    assert terms == set(lorenz_terms)


def lorenz(s):
    return [10 * (s[1] - s[0]), s[0] * (28 - s[2]) - s[1], s[0] * s[1] - 8 / 3 * s[2]]


def asked_for(data, basis):
    """What `identify` asks for by default."""
    return Request(Pieces(as_source(data)), data, basis, Integral(), {}, Settings(Significance()))


def ranked_starts(data, names):
    """The first starts of hidden states, the most likely first, and the noise of the data."""
    request = asked_for(with_hidden(data, names), Polynomial(2))
    motion, noise = request.motion(), noise_variance(data)
    options = request.options(motion, request.physics(motion))
    starts = starts_in_gauges(motion, names, np.sqrt(noise), {})
    return starts, Sought(motion, options, noise).ranked(starts)


def test_the_start_in_the_gauge_of_the_law_is_the_most_likely():
    """z' = y w − 8/3 z with w = x. In the gauges y' = w and z' = w the law has no equation in the library."""
    t = np.arange(500) * 0.02
    data = [Trajectory(t, x[:, 1:], ("y", "z")) for x in runs(lorenz, [[-8, 8, 27], [5, 3, 20]], t)]
    _, [best, *_] = ranked_starts(data, ("w",))
    assert [(pin.equation, pin.factor) for pin in best.pins] == [("z", "y")]


def test_first_values_along_a_random_walk_follow_states_that_a_quotient_does_not_tell():
    """Rössler's z is near zero for most of the time; w1 = x − 5.7 and w2 = −y − z make it spike."""
    t, first = np.arange(600) * 0.05, [[1, 1, 1], [-5, 3, 0.5]]
    data = [Trajectory(t, x[:, 2:], ("z",)) for x in runs(roessler, first, t)]
    truth = np.stack(list(runs(roessler, first, t, noise=0)))
    raw, ranked = ranked_starts(data, ("w1", "w2"))
    gauge = [("z", "z"), ("w1", "1")]
    before, after = (
        next(s for s in starts if [(pin.equation, pin.factor) for pin in s.pins] == gauge)
        for starts in (raw, ranked)
    )
    assert after is ranked[0]
    for k, state in enumerate((truth[..., 0], -truth[..., 1] - truth[..., 2])):
        told = [np.corrcoef(s.values[0][..., k].ravel(), state.ravel())[0, 1] for s in (before, after)]
        assert told[1] > max(told[0], 0.8)


def test_first_values_follow_a_factor_that_is_zero_elsewhere_than_its_state():
    """Of x alone Rössler's equations are x' = w1, w1' = (x − 5.5) w2 + …, w2 = −z − 1: not x but x − 5.5."""
    t, first = np.arange(600) * 0.05, [[1, 1, 1], [-5, 3, 0.5]]
    data = [Trajectory(t, x[:, :1], ("x",)) for x in runs(roessler, first, t)]
    truth = np.stack(list(runs(roessler, first, t, noise=0)))
    _, [best, *_] = ranked_starts(data, ("w1", "w2"))
    assert [(pin.equation, pin.factor) for pin in best.pins] == [("x", "1"), ("w1", "x")]
    told = np.corrcoef(best.values[0][..., 1].ravel(), -truth[..., 2].ravel())[0, 1]
    # Over x alone it is 0.6.
    assert told > 0.9


@pytest.mark.parametrize(
    ("starts", "end", "seed"),
    [([(0.99, 0.01), (0.95, 0.05), (0.9, 0.1)], 40, 4), ([(0.99, 0.01)] * 3, 50, 7)],
)
def test_another_gauge_is_tried_where_the_first_needs_many_terms(starts, end, seed):
    def sir(s):
        return np.stack([-0.5 * s[0] * s[1], 0.5 * s[0] * s[1] - 0.2 * s[1]])

    rng, t, data = np.random.default_rng(seed), np.linspace(0, end, 50), []
    for start in starts:
        path = solve_ivp(lambda _, s: sir(s), (0, end), start, t_eval=t, rtol=1e-10, atol=1e-12).y[1]
        noisy = path + 0.01 * path.max() * rng.normal(size=len(t))
        data.append(Trajectory(t, noisy[:, None], ("I",)))
    found = cindy.identify(data, Polynomial(2), hidden=1)
    terms = {(found.states[j], found.terms[i]) for i, j in np.argwhere(found.coef != 0)}
    assert terms == {("I", "I w"), ("w", "I"), ("w", "I w")}
    assert found.coef[found.terms.index("I w"), 1] == pytest.approx(-0.5, abs=0.03)


def test_an_epidemic_is_found_from_the_infected_alone():
    """First comes I' = I w1 with six terms, which leave but noise; from its states the right five."""
    t, first = np.arange(300) * 0.25, [[0.99, 0.005, 0.005], [0.8, 0.01, 0.1]]
    data = [Trajectory(t, x[:, 2:], ("I",)) for x in runs(seir, first, t, seed=1)]
    model = cindy.identify(data, Polynomial(2), hidden=2)
    terms = {(model.terms[i], model.states[j]) for i, j in np.argwhere(model.coef)}
    assert terms == {("w1", "I"), ("w1", "w1"), ("I w2", "w1"), ("I", "w2"), ("I w2", "w2")}


def test_first_values_from_the_states_of_a_law_follow_the_susceptible():
    """w1 = I', w1' = −0.5 w1 + I w2, w2 = 0.27 S − 0.06: least squares of w1' on w1 and 1 miss the −0.5."""
    t, first, names = np.arange(300) * 0.25, [[0.99, 0.005, 0.005], [0.8, 0.01, 0.1]], ("w1", "w2")
    truth = np.stack(list(runs(seir, first, t, noise=0)))
    data = [Trajectory(t, x[:, 2:], ("I",)) for x in truth]
    motion = asked_for(with_hidden(data, names), Polynomial(2)).motion()
    starts = starts_in_gauges(motion, names, np.full(1, 1e-4), {}, [truth[..., 2:]])
    told = [
        np.corrcoef(start.values[0][..., 1].ravel(), truth[..., 0].ravel())[0, 1]
        for start in starts
        if [(pin.equation, pin.factor) for pin in start.pins] == [("I", "1"), ("w1", "I")]
    ]
    # Without second derivatives it is 0.6.
    assert max(told) > 0.8


def seir(s):
    return [-0.9 * s[0] * s[2], 0.9 * s[0] * s[2] - 0.3 * s[1], 0.3 * s[1] - 0.2 * s[2]]


def test_what_is_forecast_counts_by_how_much_moves():
    """Nine stretches in which nothing happens do not outweigh the one with the motion."""
    assert _weighted_median([(1.0, 0.01)] * 9 + [(-3.0, 1.0)]) == -3.0
    assert _weighted_median([(0.9, 1.0), (1.0, 1.0), (-5.0, 1.0)]) == 0.9


def test_a_rare_state_begins_where_the_law_of_a_hidden_one_says():
    t = np.arange(300) * 0.05
    data = []
    for x in runs(oscillator, [[1, 0], [0, 2]], t):
        x[np.arange(300) % 100 > 0, 1] = np.nan
        data.append(Trajectory(t, x, ("q", "v")))
    assert _rare_state(data) == "v"
    asked = asked_for(data, Polynomial(1))
    for guess, truth in zip(
        _guesses(asked, "v"), runs(oscillator, [[1, 0], [0, 2]], t, noise=0), strict=True
    ):
        assert np.abs(guess - truth[:, 1]).max() < 0.1


def test_fields_have_no_hidden_states():
    axis = np.linspace(0, 1, 20)
    field = cindy.Field(u=np.outer(axis, axis), x=axis, t=axis)
    with pytest.raises(DataError, match="these data are fields"):
        cindy.identify(field, "pde:2,2", hidden=1)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"hidden": "q"}, 'hidden state "q" has the name of a state'),
        ({"hidden": "t"}, 'hidden state "t" has the name of the time'),
        ({"hidden": 6}, "one to 5 states with names of their own"),
        ({"hidden": -1}, "one to 5 states with names of their own"),
        ({"hidden": ()}, "one to 5 states with names of their own"),
        ({"hidden": ("a", "a")}, "one to 5 states with names of their own"),
        ({"hidden": b"w"}, "`hidden` must be a number"),
        ({"hidden": 1, "constraints": [cindy.fix("q", term, 0) for term in ("w", "q w")]}, "no term"),
        ({"hidden": {"v": "1"}}, "first values in `hidden` cannot be worked out"),
        ({"hidden": 1.5}, "`hidden` must be a number"),
        ({"hidden": "a b"}, "must have a name such as w"),
        ({"hidden": {"v": 2}}, "must be a formula in the measured states and their rates"),
        ({"hidden": {"v": "p'"}}, "p"),
        ({"hidden": {"v": "sqrt(-1 - q^2)"}}, "finite"),
        ({"hidden": 1, "passes": 1}, "with passes=1 they are not"),
        ({"hidden": 1, "formulation": Differential()}, r"use Integral\(\)"),
        ({"hidden": 1, "formulation": "integral:2"}, "equations of first order"),
    ],
)
def test_what_cannot_be_is_said_in_one_sentence(positions, options, message):
    with pytest.raises(DataError, match=message):
        cindy.identify(positions, Polynomial(2), **options)


def chain(x):
    """Three masses in a row between two walls: positions x[::2], velocities x[1::2]."""
    left, right = np.r_[0, x[:4:2]], np.r_[x[2::2], 0]
    slope = np.empty(6)
    slope[::2], slope[1::2] = x[1::2], left - 2 * x[::2] + right - 0.1 * x[1::2]
    return slope


@pytest.fixture(scope="module")
def one_mass():
    t, starts = np.arange(600) * 0.08, [[1, 0, 0, 0, 0, 0], [0, 1, -1, 0, 0, 1], [0.5, 0.5, 1, -1, 0, 1]]
    seen = [Trajectory(t, x[:, :1], ("p",)) for x in runs(chain, starts, t)]
    return cindy.identify(seen, Polynomial(1, bias=False), hidden=5)


def test_a_chain_of_three_masses_is_found_from_one_of_them(one_mass):
    """In the cascade p' = w1, w1' = w2, … the last equation has the chain's characteristic polynomial."""
    matrix = np.column_stack([chain(unit) for unit in np.eye(6)])
    wanted = -np.poly(matrix)[:0:-1]
    last = one_mass.coef[:, -1]
    assert np.all(np.abs(last - wanted) <= 5 * one_mass.coef_error[:, -1])
    assert np.count_nonzero(last) == 6
    assert sum(one.code == "hidden-gauge" for one in one_mass.findings) == 5


def test_five_hidden_states_are_estimated_for_another_run(one_mass):
    t = np.arange(600) * 0.08
    [truth] = runs(chain, [[1, 1, 0, -0.5, 1, 0]], t, noise=0)
    [seen] = runs(chain, [[1, 1, 0, -0.5, 1, 0]], t, seed=5)
    [begun] = one_mass.smooth(Trajectory(t[:150], seen[:150, :1], ("p",)))
    solved = one_mass.simulate(begun.x[0], t).x[:, 0]
    assert 1 - np.var(solved - truth[:, 0]) / np.var(truth[:, 0]) > 0.95


def test_states_may_become_as_large_as_other_data_say(positions):
    """First values of a fifth derivative may be a tenth of it; then the truth would count as run away."""
    motion = Integral().motion(positions, Polynomial(1))
    assert (replace(motion, sizes=motion.bounds).bounds == 10 * motion.bounds).all()


@pytest.fixture(scope="module")
def driven() -> cindy.Model:
    """v' = −14.4 q − 0.04 v + 14.4 u, its v hidden, in noise far below what the search leaves on its way."""
    rng, t, tones = np.random.default_rng(0), 0.1 * np.arange(400), np.arange(0.25, 20.0, 0.39)[:, None]
    waves = np.exp(1j * (tones * t + rng.uniform(0, 2 * np.pi, tones.shape))) / 8
    forced = np.sum((14.4 / (14.4 - tones**2 + 0.04j * tones) * waves).real, axis=0)
    q = forced - forced[0] * np.exp(-0.02 * t) * np.cos(np.sqrt(14.4 - 0.02**2) * t)
    q, u = q + 1e-4 * rng.standard_normal(400), np.sum(waves.real, axis=0)
    data = cindy.Trajectory(0.1, q, ("q",), u=u, inputs=("u",), hold="band")
    return cindy.identify(data, "poly:1", hidden="v")


def test_errors_beside_a_hidden_state_are_right_where_there_is_hardly_any_noise(driven):
    for term, true in (("q", -14.4), ("v", -0.04), ("u", 14.4)):
        place = driven.place("v", term)
        assert abs(driven.coef[place] - true) < 4 * driven.coef_error[place] < 0.01 * abs(true) + 0.002
    assert {"hidden-state"} == {f.code for f in driven.findings} - {"hidden-gauge"}


def test_estimates_of_hidden_states_are_not_taken_for_measurements(driven):
    assert "derived-rates" not in {finding.code for finding in driven.findings}


def test_a_slow_residual_leads_to_the_hidden_state_that_explains_it():
    # Water cools in a mug, which is warmed by it at first.
    law = np.array([[-0.068, 0.06], [0.1, -0.106]])
    rates, modes = np.linalg.eig(law)
    t = np.arange(0.0, 200.0)
    water = (modes * np.linalg.solve(modes, [71.0, 0.0])) @ np.exp(np.outer(rates, t))
    noisy = 24 + water[0] + 0.1 * np.random.default_rng(0).standard_normal(len(t))
    data = cindy.Trajectory(t, noisy, ("T",))
    for basis in ("poly:1", "poly:2"):
        assert any("hidden=1" in told for told in cindy.identify(data, basis).warnings)
    model = cindy.identify(data, "poly:1", hidden=1)
    assert {f.code for f in model.findings} == {"hidden-state", "hidden-gauge"}
    product, total = (-model.coef[model.place("w", term)] for term in ("T", "w"))
    assert product == pytest.approx(rates[0] * rates[1], rel=0.05)
    assert total == pytest.approx(-rates.sum(), rel=0.05)


def test_the_model_without_a_hidden_state_is_said_to_have_kicks_where_it_has():
    rng, x = np.random.default_rng(2), np.zeros(400)
    for k in range(399):
        x[k + 1] = np.exp(-0.1) * x[k] + 0.3 * rng.standard_normal()
    data = cindy.Trajectory(0.1, x + 0.05 * rng.standard_normal(400), ("x",))
    told = next(f for f in cindy.identify(data, "poly:1", hidden=1).findings if f.code == "hidden-not-needed")
    assert "in which random kicks drive the measured states" in told.message


@pytest.mark.parametrize("seed", range(3))
def test_noise_that_grows_with_the_state_is_weighed_beside_a_hidden_state(seed):
    # A drug in the blood that leaves it and is exchanged with a tissue; six subjects, errors of 15 %.
    rng, t = np.random.default_rng([seed, 5]), np.arange(5.0, 365.0, 10.0)
    fast, slow = 0.06, 0.008
    exact = [dose * (0.7 * np.exp(-fast * t) + 0.3 * np.exp(-slow * t)) for dose in rng.uniform(60, 140, 6)]
    runs = [cindy.Trajectory(t, c * (1 + 0.15 * rng.standard_normal(len(t))), ("c",)) for c in exact]
    model = cindy.identify(runs, "poly:1:nobias", hidden="w")
    assert "growing-noise" in {finding.code for finding in model.findings}
    # c'' = −(fast + slow) c' − fast slow c
    assert model.coef[:, 1].tolist() == pytest.approx([-fast * slow, -fast - slow], rel=0.25)


@pytest.mark.parametrize("seed", range(3))
def test_a_hidden_state_is_found_over_steps_that_grow_tenfold(seed):
    # Remote insulin X lowers the glucose G of the blood: the minimal model of a tolerance test.
    t = np.array([8, 10, 12, 14, 16, 19, 22, 27, 32, 42, 52, 62, 72, 82, 92, 102, 122, 142, 162, 182.0])
    rng = np.random.default_rng([seed, 13])
    insulin = np.maximum(0.45 * np.exp(-0.03 * (t - 8)) * (1 + 0.3 * rng.standard_normal(20)), 0.01)

    def law(s, x):
        return [0.03 * (0.9 - x[0]) - x[0] * x[1], -0.03 * x[1] + 0.002 * np.interp(s, t, insulin)]

    exact = solve_ivp(law, (8, 182), [2.5, 0.0], t_eval=t, rtol=1e-9, max_step=0.5).y[0]
    test = Trajectory(t, exact + 0.01 * rng.standard_normal(20), ("G",), u=insulin, inputs=("I",))
    terms = {
        "G": cindy.Custom({"0.9-G": "0.9-G", "G X": "G*X"}),
        "X": cindy.Custom({"X": "X", "I": "I"}),
    }
    first = {"X": "max(-G'/G - 0.03*(1 - 0.9/G), 0)"}
    model = cindy.identify(test, terms, hidden=first, constraints=[cindy.fix("G", "G X", -1)])
    found = [model.coef[model.place(*place)] for place in (("G", "0.9-G"), ("X", "X"), ("X", "I"))]
    assert found == pytest.approx([0.03, -0.03, 0.002], rel=0.4)
