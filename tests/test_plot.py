"""Plots: what stands on them, checked on the artists; the pictures are kept for a person to look at."""

import warnings
from dataclasses import replace
from pathlib import Path as File

import matplotlib as mpl
import numpy as np
import pytest

mpl.use("Agg")

from matplotlib import pyplot

import cindy
from cindy import plot
from cindy.basis import Custom, PerRun, Polynomial
from cindy.basis.term import axis_label, equation_label, pretty
from cindy.data import Trajectory
from cindy.errors import DataError
from cindy.formulation import Differential, Discrete, Integral
from cindy.model import Limits, fine_curve, solutions
from cindy.model.model import Model, Path
from cindy.states import Diffusion
from cindy.systems import kuramoto, lorenz, lotka_volterra

PICTURES = File(__file__).parent / "screenshots"
SYSTEM = lotka_volterra()
DATA = SYSTEM.simulate(seed=0, noise=0.02, trajectories=3, points=450)
UNITS = {"x": "hares", "y": "lynxes", "t": "years"}


def model_of(system, **more):
    error = np.where(system.coef != 0, 0.02 * np.abs(system.coef), 0.0)
    return Model(system.coef, system.basis, system.states, coef_error=error, **more)


MODEL = model_of(SYSTEM)


def with_path():
    places = [("x", "x"), ("y", "y"), ("x", "x y"), ("y", "x y"), ("x", "y"), ("y", "1")]
    models = [MODEL.with_coef(np.zeros(MODEL.coef.shape))]
    for place in places:
        value = MODEL.coef[MODEL.place(*place)] or 0.01
        models.append(models[-1].with_coef({place: value}))
    return replace(MODEL, path=Path(tuple(models[1:]), (0.9, 0.5, 0.2, 0.01, 0.0099, 0.0098), 3))


KICKED = replace(
    MODEL,
    diffusion=Diffusion(
        ("1", "x", "y", "x^2", "x y", "y^2"),
        np.array([[0.01, 0.02]] + [[0.0, 0.0]] * 5),
        np.zeros((6, 2)),
        ("x", "y"),
    ),
)


PLOTS = {
    "density": lambda ax=None: plot.density(DATA, KICKED, ax=ax),
    "trajectories-kicked": lambda ax=None: plot.trajectories(DATA[0], KICKED, ax=ax),
    "trajectories": lambda ax=None: plot.trajectories(DATA, MODEL, units=UNITS, ax=ax),
    "trajectories-data": lambda ax=None: plot.trajectories(DATA[0], ax=ax),
    "phase": lambda ax=None: plot.phase(DATA, MODEL, units=UNITS, ax=ax),
    "coefficients": lambda ax=None: plot.coefficients(MODEL, truth=SYSTEM.coef, ax=ax),
    "path": lambda ax=None: plot.path(with_path(), ax=ax),
    "residuals": lambda ax=None: plot.residuals(MODEL, DATA, ax=ax),
    "sparsity": lambda ax=None: plot.sparsity(MODEL, ax=ax),
    "sparsity-truth": lambda ax=None: plot.sparsity(
        MODEL.with_coef({("x", "1"): 0.1, ("y", "y"): 0.0}), truth=SYSTEM.coef, ax=ax
    ),
}


@pytest.fixture(autouse=True)
def _close():
    yield
    pyplot.close("all")


@pytest.mark.parametrize("name", PLOTS)
def test_a_plot_draws_on_the_axes_it_is_given_and_on_no_other(name):
    _, (left, right) = pyplot.subplots(1, 2)
    assert PLOTS[name](left) is left
    assert left.has_data()
    assert not right.has_data()
    assert len(pyplot.get_fignums()) == 1


@pytest.mark.parametrize("name", PLOTS)
def test_a_plot_without_axes_makes_them_names_both_and_renders(name):
    ax = PLOTS[name]()
    assert ax.get_xlabel()
    assert ax.get_ylabel() or name == "coefficients"
    PICTURES.mkdir(exist_ok=True)
    ax.figure.savefig(PICTURES / f"plot-{name}.png", dpi=110)


def test_names_and_units_stand_on_the_axes():
    ax = plot.phase(DATA, MODEL, units=UNITS)
    assert (ax.get_xlabel(), ax.get_ylabel()) == ("x (hares)", "y (lynxes)")
    ax = plot.trajectories(DATA, states=["y"], units=UNITS)
    assert (ax.get_xlabel(), ax.get_ylabel()) == ("t (years)", "y (lynxes)")
    ax = plot.trajectories(DATA, units={"x": "mm", "y": "mm"})
    assert ax.get_ylabel() == "x, y (mm)"
    assert plot.trajectories(DATA, units=UNITS).get_ylabel() == "x, y"


def test_dots_are_the_data_and_lines_are_solutions():
    ax = plot.trajectories(DATA[0], MODEL, states=["x"])
    dots, line = ax.get_lines()
    np.testing.assert_array_equal(dots.get_ydata(), DATA[0].x[:, 0])
    assert len(line.get_xdata()) >= 300
    at_samples = np.interp(DATA[0].t, line.get_xdata(), line.get_ydata())
    assert np.abs(at_samples - DATA[0].x[:, 0]).max() < 0.3
    assert len(plot.trajectories(DATA[0], MODEL, states=["x"], window=50).get_lines()) == 1 + 3


def test_a_phase_portrait_has_no_kinks_where_the_curve_turns_sharply():
    system = lorenz()
    data = system.simulate(seed=1, trajectories=1, points=300, horizon=10, noise=0.05)
    ax = plot.phase(data, model_of(system), states=("x", "z"), window=100)
    curve = max(ax.get_lines()[1:], key=lambda line: len(line.get_xdata())).get_xydata()
    steps = np.diff(curve / np.ptp(curve, axis=0), axis=0)
    length = np.linalg.norm(steps, axis=1)
    # Neither a step nor a turn that a figure of 1000 pixels would show as a corner.
    (x, z), (x_next, z_next) = steps[:-1].T, steps[1:].T
    turn = (x * z_next - z * x_next) / (length[:-1] * length[1:])
    seen = np.minimum(length[:-1], length[1:]) > 3e-3
    assert np.degrees(np.abs(np.arcsin(turn)))[seen].max() < 10


def test_a_fine_curve_is_the_solution_and_keeps_to_the_points_it_is_given():
    system = lorenz()
    data = system.simulate(seed=1, trajectories=1, points=100, horizon=2)
    [solved] = solutions(model_of(system), data)
    fine, coarse = (fine_curve(model_of(system), solved, most) for most in (6000, 450))
    assert 450 >= len(coarse) >= 300
    assert len(fine) > len(coarse)
    at = np.searchsorted(fine.t, data[0].t)
    np.testing.assert_array_equal(fine.t[at], data[0].t)
    np.testing.assert_allclose(fine.x[at], solved.simulated.x, atol=1e-3)


T = np.arange(0.0, 12.01, 0.6)
PUSHED = Model([[0, 0], [0, -4], [1, -0.3], [0, 3]], Polynomial(1), ("x", "v"), inputs=("u",))
HOLDS = {
    "zero": Trajectory(T, np.zeros((21, 2)), ("x", "v"), np.sign(np.sin(T)), ("u",), "zero"),
    "linear": Trajectory(T, np.zeros((21, 2)), ("x", "v"), np.sin(1.7 * T), ("u",)),
    "band": Trajectory(T, np.zeros((21, 2)), ("x", "v"), np.sin(1.7 * T), ("u",), "band"),
    "own times": Trajectory(T, np.zeros((21, 2)), ("x", "v"), [1, -1, 2], ("u",), "zero", u_t=[0, 2, 7.5]),
}


def followed(inputs):
    """Samples of the motion that these inputs drive; missing where only inputs are known."""
    x = PUSHED.simulate([1.0, 0.0], inputs.t, inputs.signal()).x
    return replace(inputs, x=np.where(np.isfinite(inputs.x), x, np.nan))


@pytest.mark.parametrize("hold", HOLDS)
def test_a_curve_with_inputs_follows_them_between_the_samples(hold):
    data = followed(HOLDS[hold])
    [solved] = solutions(PUSHED, [data])
    curve = fine_curve(PUSHED, solved)
    assert len(curve) >= 300
    assert set(T) <= set(curve.t)
    exact = PUSHED.simulate(solved.start, curve.t, data.signal(), limits=Limits(steps=10**6))
    np.testing.assert_allclose(curve.x, exact.x, atol=1e-6)


def test_lines_of_a_model_with_inputs_are_no_polygons():
    data = followed(HOLDS["linear"])
    for window in (None, 7):
        lines = plot.phase(data, PUSHED, window=window).get_lines()[1:]
        assert min(len(line.get_xdata()) for line in lines) >= 300


def test_a_curve_with_time_in_its_terms_or_coefficients_of_each_run_is_smooth_too():
    clock = Model([[1.0]], Custom({"push": "cos(t)"}), ("x",), inputs=("t",))
    runs = [Trajectory(T, np.sin(T), ("x",), name=name) for name in ("a", "b")]
    apart = Model([[-0.2], [-0.4]], PerRun(Custom({"drag": "x"})), ("x",), inputs=("[a]", "[b]"))
    [first] = plot.trajectories(runs[0], clock).get_lines()[1:]
    np.testing.assert_allclose(first.get_ydata(), np.sin(first.get_xdata()), atol=1e-6)
    for line in plot.trajectories(runs, apart).get_lines()[2:]:
        assert len(line.get_xdata()) >= 300


def test_an_absent_species_stays_absent_in_the_solution_however_the_others_are_fitted():
    [data] = SYSTEM.simulate(seed=0, trajectories=1, points=120, noise=0.05)
    grows = MODEL.with_coef({("x", "x"): 0.3, ("x", "x y"): 0.0, ("y", "y"): 0.2})
    run = replace(data, x=np.stack([np.exp(0.3 * data.t) + 0.1 * data.x[:, 0], 0 * data.t], axis=1))
    [solved] = solutions(grows, [run])
    assert not solved.simulated.x[:, 1].any()
    assert np.abs(solved.simulated.x[:, 0] - run.x[:, 0]).mean() < 0.5
    # Predators alone, whose equation has another sign, must not overflow either.
    [solved] = solutions(MODEL, [replace(data, x=data.x * [1.0, 0.0])])
    assert not solved.simulated.x[:, 1].any()


def test_an_interval_is_as_wide_as_its_level_says():
    ax = plot.coefficients(MODEL, level=0.6827)
    spans = [bar.get_segments()[0][:, 0] for bar in ax.collections]
    expected = [abs(value) * 0.02 for value in MODEL.coef.T[MODEL.support.T]]
    np.testing.assert_allclose([(b - a) / 2 for a, b in spans], expected, rtol=1e-3)
    assert [label.get_text() for label in ax.get_yticklabels()] == [
        "x′:  x",
        "x′:  x y",
        "y′:  y",
        "y′:  x y",
    ]
    assert ax.texts[0].get_text() == "1.00(2)"


def test_coefficients_of_very_different_sizes_are_all_visible():
    wide = MODEL.with_coef({("x", "x"): 1e-4})
    assert plot.coefficients(wide).get_xscale() == "symlog"
    assert plot.coefficients(MODEL).get_xscale() == "linear"


def test_the_path_marks_the_chosen_model():
    ax = plot.path(with_path())
    line, mark = ax.get_lines()
    np.testing.assert_array_equal(line.get_xdata(), [1, 2, 3, 4, 5, 6])
    assert (mark.get_xdata()[0], mark.get_ydata()[0]) == (4, 0.01)
    assert ax.get_yscale() == "log"
    assert ax.get_legend().get_texts()[0].get_text() == "chosen, 4 terms"


def test_sparsity_has_a_square_for_every_term_and_marks_what_is_wrong():
    ax = plot.sparsity(MODEL.with_coef({("x", "1"): 0.1, ("y", "y"): 0.0}), truth=SYSTEM.coef)
    markers = [line.get_marker() for line in ax.get_lines()]
    assert (markers.count("s"), markers.count("x"), markers.count("o")) == (4, 1, 1)


def test_residuals_say_of_what():
    assert plot.residuals(MODEL, DATA).get_ylabel() == "residual of x, y"
    assert (
        plot.residuals(model_of(SYSTEM, formulation=Differential()), DATA).get_ylabel()
        == "residual of x′, y′"
    )
    ax = plot.residuals(MODEL, DATA, states=["x"], units=UNITS)
    assert ax.get_ylabel() == "residual of x (hares)"


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: plot.path(MODEL), "no path"),
        (lambda: plot.density(DATA, MODEL), "no random kicks"),
        (lambda: plot.phase(DATA, states=("x",)), "two states"),
        (lambda: plot.trajectories(DATA, states=["z"]), 'no state "z"'),
        (lambda: plot.sparsity(MODEL, truth=np.zeros((2, 2))), r"shape \(6, 2\)"),
        (lambda: plot.coefficients(MODEL, level=95), "between 0 and 1"),
    ],
)
def test_a_mistake_is_named(make, message):
    with pytest.raises(DataError, match=message):
        make()


def test_the_data_of_a_kicked_model_lie_in_the_band_of_its_paths():
    paths = KICKED.simulate(DATA[0].x[0], DATA[0].t, noise=True, seed=3)
    ax = plot.trajectories(paths, KICKED, states=["x"])
    [band] = ax.collections
    assert not plot.trajectories(paths, MODEL, states=["x"]).collections
    inside = band.get_paths()[0].contains_points(np.column_stack([paths.t, paths.x[:, 0]])[1:])
    assert inside.mean() > 0.6


def test_names_are_typeset():
    assert pretty("x1^2 x12") == "x₁² x₁₂"
    assert pretty("sin(2 theta_1) cos(omega)") == "sin(2 θ₁) cos(ω)"
    assert pretty("alphabet ES x_max y^10") == "alphabet ES x_max y¹⁰"
    assert axis_label("x1", {"x1": "m"}) == "x₁ (m)"
    assert [equation_label("x", 1), equation_label("x", 2), equation_label("x", 1, True)] == [
        "x′",
        "x″",
        "x[k+1]",
    ]


def test_large_and_discrete_models_are_drawn_too():
    system = kuramoto()
    ax = plot.sparsity(model_of(system))
    assert len(ax.get_xticklabels()) == len(system.terms)
    discrete = model_of(lorenz(), formulation=Discrete())
    assert plot.sparsity(discrete).get_yticklabels()[0].get_text() == "x[k+1]"
    assert (
        plot.coefficients(model_of(system, formulation=Integral(order=2))).get_yticklabels()[0].get_text()[1]
        == "₁"
    )


def test_a_trajectory_draws_and_describes_itself():
    assert len(DATA[0].plot().get_lines()) == len(DATA[0].states)
    html = DATA[0]._repr_html_()
    assert all(f"<td>{state}</td>" in html for state in DATA[0].states)


def test_few_samples_are_open_circles_and_many_are_dots():
    few, many = (plot._dots(range(n)) for n in (20, 2000))
    assert few["marker"] == "o"
    assert few["mew"] > 0
    assert many["marker"] == "."


@pytest.mark.parametrize("draw", ["trajectories", "residuals", "coefficients"])
@pytest.mark.filterwarnings("error")
def test_no_name_or_value_lies_outside_the_figure_of_states_with_long_names(draw):
    names = tuple(f"concentration of metabolite {k} (mmol/L)" for k in range(1, 9))
    model = Model(-np.eye(9)[:, 1:], Polynomial(1), names, coef_error=0.02 * np.eye(9)[:, 1:])
    data = Trajectory(0.1, np.exp(-np.arange(40.0)[:, None] * 0.1 * np.ones(8)), names)
    figures = {"trajectories": (data, model), "residuals": (model, data), "coefficients": (model,)}
    ax = getattr(plot, draw)(*figures[draw])
    ax.figure.canvas.draw()
    inside = ax.figure.bbox
    legend = ax.get_legend().get_texts() if ax.get_legend() else []
    texts = (*legend, *ax.texts, *ax.get_yticklabels(), ax.yaxis.label, ax.xaxis.label)
    for text in filter(lambda text: text.get_text(), texts):
        box = text.get_window_extent()
        assert inside.x0 <= box.x0, text
        assert box.x1 <= inside.x1, text
        assert box.y1 <= inside.y1 + 1, text
    pyplot.close(ax.figure)


def test_long_names_leave_room_for_the_squares():
    states = ("angle of the arm [rad]", "rate of the arm [rad/s]")
    ax = plot.sparsity(Model(np.ones((6, 2)), SYSTEM.basis, states))
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        ax.figure.canvas.draw()
    pyplot.close(ax.figure)


def test_the_axis_of_time_has_the_unit_of_the_data_unless_another_is_given(tmp_path):
    t = np.arange(0, 5, 0.1)
    lines = [f"{time:.1f},{np.exp(-time):.6f}" for time in t]
    (tmp_path / "decay.csv").write_text("\n".join(["time [h],x", *lines]), encoding="utf-8")
    data = cindy.read(tmp_path / "decay.csv")
    model = cindy.identify(data, "poly:1")
    assert data[0].plot().get_xlabel() == "t (h)"
    assert plot.residuals(model, data).get_xlabel() == "t (h)"
    assert plot.trajectories(data, model, units={"t": "hours"}).get_xlabel() == "t (hours)"
