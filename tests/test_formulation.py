"""Laws of the formulations: rows that hold on exact data, white noise, pieces like the whole."""

import numpy as np
import pytest

from cindy.basis import Polynomial
from cindy.calculus import apply_alike, without_polynomials
from cindy.data.time_scales import half_period, noise_level, periods
from cindy.data.trajectory import Trajectory
from cindy.errors import DataError
from cindy.formulation import Differential, Discrete, Formulation, Integral, formulation_from_dict
from cindy.formulation.scales import derivative_window, split
from cindy.summary.accumulation import accumulate

RULE = {"degree": 8, "half_width": 4, "feedback": 0.0}
FORMULATIONS: list[Formulation] = [
    Differential(degree=8, half_width=4),
    Differential(order=2, degree=8, half_width=5),
    Differential(degree=6, half_width=4, smooth=2),
    Integral(window=0, **RULE),
    Integral(window=20, **RULE),
    Integral(window=20, degree=4, half_width=3, feedback=2.0),
    Integral(order=2, window=0, **RULE),
    Integral(order=2, window=20, **RULE),
    Integral(order=2, window=30, degree=6, half_width=3, feedback=0.5),
    Integral(initial="first", window=0, **RULE),
    Integral(initial="first", window=20, **RULE),
    Integral(order=2, initial="first", window=0, rate=(8, 4), **RULE),
    Integral(window=25, smooth=3, **RULE),
]
each = pytest.mark.parametrize("formulation", FORMULATIONS, ids=str)

LINEAR = Polynomial(1)


def oscillator(order: int, t: np.ndarray, **more) -> Trajectory:
    """x' = y, y' = −x for order 1; x'' = −x, y'' = −y for order 2. LINEAR has the terms 1, x, y."""
    x = np.column_stack([np.sin(t), np.cos(t)]) if order == 1 else np.column_stack([np.sin(t + 1), np.cos(t)])
    return Trajectory(t, x, ("x", "y"), **more)


def truth(order: int) -> np.ndarray:
    return np.array([[0, 0], [0, -1], [1, 0]]) if order == 1 else np.array([[0, 0], [-1, 0], [0, -1]])


GRIDS = {
    "uniform": np.linspace(0, 6, 121),
    "irregular": np.cumsum(np.random.default_rng(3).uniform(0.02, 0.08, 121)),
    "late": np.linspace(0, 6, 121) + 1e5,
}


@each
@pytest.mark.parametrize("grid", GRIDS)
def test_the_true_coefficients_satisfy_every_row_on_exact_data(formulation, grid):
    t = GRIDS[grid]
    rows = formulation.rows(oscillator(formulation.order, t - (1e5 if grid == "late" else 0)), LINEAR)
    late = formulation.rows(Trajectory(t, oscillator(formulation.order, t - t[0]).x), LINEAR)
    tolerance = 1e-4 if formulation.smooth else 1e-6
    for design, target in rows + late:
        assert np.max(np.abs(design @ truth(formulation.order) - target)) < tolerance


@each
def test_rows_of_pieces_are_rows_of_the_whole(formulation):
    segment = oscillator(formulation.order, GRIDS["irregular"])
    edges = formulation.edges(len(segment))
    whole = formulation.matrix(segment, LINEAR, edges)
    pieces = [formulation.matrix(segment, LINEAR, edges[i : i + 2]) for i in range(len(edges) - 1)]
    assert np.allclose(np.vstack(pieces), whole, rtol=0, atol=1e-11)
    assert sum(len(d) for d, _ in formulation.rows(segment, LINEAR)) == len(whole)


@each
def test_a_weight_of_four_doubles_the_rows(formulation):
    edges = formulation.edges(121)
    plain, heavy = (
        formulation.matrix(oscillator(formulation.order, GRIDS["uniform"], weight=w), LINEAR, edges)
        for w in (1.0, 4.0)
    )
    assert np.allclose(heavy, 2 * plain)


@each
def test_a_formulation_survives_its_dictionary_and_fitting_twice_changes_nothing(formulation):
    assert formulation_from_dict(formulation.to_dict()) == formulation
    data = [oscillator(formulation.order, GRIDS["uniform"])]
    assert formulation.fit_to(data) == formulation


@pytest.mark.parametrize(
    "formulation",
    [
        Differential(),
        Differential(order=2),
        Differential(degree=4),
        Integral(),
        Integral(order=2, initial="first"),
    ],
    ids=str,
)
def test_settings_left_open_are_chosen_once_and_survive_json(formulation):
    import json

    data = [oscillator(formulation.order, GRIDS["uniform"])]
    fitted = formulation.fit_to(data)
    assert fitted.fit_to(data[:1]) == fitted
    assert formulation_from_dict(json.loads(json.dumps(fitted.to_dict()))) == fitted
    assert formulation.signature == fitted.signature


@pytest.mark.parametrize("order", [1, 2])
@pytest.mark.parametrize("window", [0, 12])
def test_white_noise_in_the_states_is_white_in_the_rows_of_the_free_form(order, window):
    """The target of pure noise has covariance one: its map from states to rows has orthonormal rows."""
    n = 36
    formulation = Integral(order=order, window=window, **RULE)
    t = np.cumsum(np.random.default_rng(1).uniform(0.5, 1.5, n))
    segment = Trajectory(t, np.eye(n))
    operator = formulation.matrix(segment, Polynomial(1).on("x1"), formulation.edges(n))[:, 2:]
    windows = len(formulation.edges(n)) - 1
    assert operator.shape == (n - order * windows, n)
    assert np.allclose(operator @ operator.T, np.eye(len(operator)), atol=1e-12)


def test_noise_is_not_white_in_the_rows_of_the_first_form():
    n = 20
    formulation = Integral(initial="first", window=0, **RULE)
    segment = Trajectory(np.arange(float(n)), np.eye(n))
    operator = formulation.matrix(segment, Polynomial(1).on("x1"), formulation.edges(n))[:, 2:]
    covariance = operator @ operator.T
    assert np.allclose(np.diag(covariance), 2.0)
    assert np.allclose(covariance - np.diag(np.diag(covariance)), 1.0 - np.eye(n - 1))


@pytest.mark.parametrize("order", [1, 2])
def test_the_free_form_is_blind_to_the_initial_state(order):
    t = GRIDS["irregular"]
    powers = (t[:, None] - t[0]) ** np.arange(order)
    moved = powers @ np.random.default_rng(0).standard_normal((order, 2))
    stack = without_polynomials(moved[None].copy(), t[None], order)
    assert np.max(np.abs(stack)) < 1e-12 * np.max(np.abs(moved))


def test_windows_are_nearly_equal_and_never_too_short():
    for samples in range(3, 60):
        for length in range(3, 30):
            sizes = np.diff(split(samples, length, least=3))
            assert sizes.sum() == samples
            assert sizes.max() - sizes.min() <= 1
            assert sizes.min() >= 3


def test_windows_share_no_sample():
    formulation = Integral(window=20, **RULE)
    x = np.random.default_rng(0).standard_normal((100, 2))
    other = x.copy()
    other[40:60] = -x[40:60]
    a, b = (
        [target for _, target in formulation.rows(Trajectory(np.arange(100.0), states), LINEAR)]
        for states in (x, other)
    )
    changed = [not np.allclose(p, q) for p, q in zip(a, b, strict=True)]
    assert changed == [False, False, True, False, False]


def test_inputs_are_variables_without_an_equation():
    t = np.linspace(0, 5, 200)
    u = np.sin(3 * t)
    x = np.exp(-t) + 0.3 * np.sin(3 * t) - 0.9 * np.cos(3 * t)  # a solution of x' = −x + 3 u
    driven = Trajectory(t, x, ("x",), u=u, inputs=("u",))
    total = accumulate(driven, Polynomial(1)).total
    coef = np.linalg.lstsq(total.design, total.target)[0][:, 0]
    assert np.allclose(coef, [0, -1, 3], atol=1e-6)


def test_discrete_rows_pair_neighbours_and_pass_over_missing_samples():
    x = np.empty(30)
    x[0] = 0.3
    for k in range(29):
        x[k + 1] = 3.5 * x[k] * (1 - x[k])
    x[10] = np.nan
    segment = Trajectory(np.arange(30.0), x, ("x",)).segments()[0]
    rows = np.vstack([np.hstack(pair) for pair in Discrete().rows(segment, Polynomial(2))])
    assert len(rows) == 27
    assert np.allclose(rows[:, :3] @ [0, 3.5, -3.5], rows[:, 3])


def test_discrete_refuses_an_irregular_grid():
    for t in ([0.0, 1.0, 2.5, 3.0], [0.0, 1.0, 2.0, 3.3], [0.0, 1.0, 2.0, 2.5]):
        with pytest.raises(DataError, match="steps must be equal"):
            Discrete().rows(Trajectory(t, np.arange(4.0)), Polynomial(1))


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: Integral(order=3), "must be 1 or 2"),
        (lambda: Integral(initial="last"), "`initial` must be"),
        (lambda: Integral(window=2), "at least 3"),
        (lambda: Integral(smooth=0), "`smooth`"),
        (lambda: Integral(degree=0), "`degree`"),
        (lambda: Differential(order=2, degree=1), "at least 2"),
        (lambda: Differential(half_width=0), "`half_width`"),
        (lambda: formulation_from_dict({"kind": "strong"}), "unknown kind 'strong'"),
        (lambda: formulation_from_dict({"kind": "integral", "windows": 3}), "not settings"),
    ],
)
def test_settings_that_make_no_sense_are_refused(make, message):
    with pytest.raises(DataError, match=message):
        make()


def test_a_short_trajectory_stays_whole_and_a_long_oscillation_is_cut_into_one_and_a_half_periods():
    t = np.linspace(0, 2 * np.pi, 100)
    assert Integral().with_window([oscillator(1, t)], len(t)).window == 0
    long = np.linspace(0, 40 * np.pi, 4000)
    assert half_period([oscillator(1, long)]) == pytest.approx(100, rel=0.1)
    window = Integral().with_window([oscillator(1, long)], len(long)).window
    assert window == pytest.approx(min(300, len(long) / 12), rel=0.1)


def test_a_run_at_rest_has_no_part_in_the_period_of_the_others():
    long = np.linspace(0, 40 * np.pi, 4000)
    still = Trajectory(long, np.full((4000, 2), 0.5), oscillator(1, long).states)
    assert half_period([oscillator(1, long), still]) == pytest.approx(100, rel=0.1)


def test_noise_about_the_mean_is_not_taken_for_motion():
    t = np.linspace(0, 12 * np.pi, 1200)
    noise = 0.05 * np.random.default_rng(0).standard_normal((1200, 2))
    noisy = Trajectory(t, oscillator(1, t).x + noise)
    assert periods(noisy) == pytest.approx(6, abs=0.5)


@pytest.mark.parametrize("sigma", [1e-6, 1e-3, 1e-1])
def test_the_noise_level_is_found(sigma):
    t = GRIDS["irregular"]
    noise = sigma * np.random.default_rng(0).standard_normal((121, 2))
    estimate = noise_level(Trajectory(t, oscillator(1, t).x + noise))
    assert np.allclose(estimate, sigma, rtol=0.35)


def test_derivative_windows_widen_with_the_noise():
    t = np.linspace(0, 6, 300)
    noise = np.random.default_rng(0).standard_normal((300, 2))
    gains = []
    for sigma in (0, 1e-4, 1e-2):
        data = [Trajectory(t, oscillator(1, t).x + sigma * noise)]
        degree, half_width = derivative_window(data, order=1)
        gains.append(half_width / degree)
    assert gains[0] <= gains[1] < gains[2]


@pytest.mark.parametrize("samples", [3, 4, 5, 8])
@pytest.mark.parametrize(
    "formulation", [Integral(), Differential(), Integral(initial="first"), Discrete()], ids=str
)
def test_a_few_samples_are_enough(formulation, samples):
    data = [oscillator(1, np.linspace(0, 0.5, samples) + k) for k in range(6)]
    total = accumulate(data, LINEAR, formulation=formulation).total
    coef = np.linalg.lstsq(total.design, total.target)[0]
    assert np.isfinite(coef).all()
    if not isinstance(formulation, Discrete):
        assert np.max(np.abs(coef - truth(1))) < 0.1


@pytest.mark.parametrize("sigma", [1e-4, 1e-2])
def test_noise_on_a_very_uneven_grid_is_not_blown_up(sigma):
    """Interpolation of degree 8 through clustered samples has weights of either sign, and large."""
    rng = np.random.default_rng(0)
    data = []
    for _ in range(20):
        t = np.cumsum(rng.exponential(0.05, 120) + 0.001)
        data.append(Trajectory(t, oscillator(1, t).x + sigma * rng.standard_normal((120, 2)), ("x", "y")))

    def error(formulation: Formulation) -> float:
        total = accumulate(data, LINEAR, formulation=formulation).total
        return float(np.linalg.norm(np.linalg.lstsq(total.design, total.target)[0] - truth(1)))

    assert error(Integral()) < 0.5 * sigma
    assert error(Integral()) < 0.2 * error(Integral(degree=8, half_width=4))


def test_exact_data_on_an_uneven_grid_keep_the_high_degree():
    t = np.cumsum(np.random.default_rng(0).uniform(0.01, 0.1, 200))
    assert Integral().fit_to([oscillator(1, t)]).degree == 8


@pytest.mark.parametrize("formulation", [f for f in FORMULATIONS if f.kind == "integral"], ids=str)
def test_windows_that_are_alike_have_the_rows_that_each_alone_would_have(formulation):
    t = np.linspace(0, 20, 400)
    nearly = t.copy()
    nearly[::7] += 1e-9  # no longer uniform: every window is worked out on its own
    edges = formulation.edges(400)
    shared, alone = (
        formulation.matrix(oscillator(formulation.order, grid), LINEAR, edges) for grid in (t, nearly)
    )
    assert shared.shape == alone.shape
    assert np.max(np.abs(shared - alone)) < 1e-5 * np.max(np.abs(alone))


def test_windows_that_are_alike_look_at_no_sample_outside_of_what_they_are_given():
    values = np.asfortranarray(np.ones((10, 2)))
    out = np.empty((6, 2), order="F")
    with pytest.raises(IndexError, match="0 … 10 of 10"):
        apply_alike(np.ones((3, 6)), values, 0, 5, out)
