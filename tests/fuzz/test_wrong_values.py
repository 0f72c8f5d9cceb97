"""Values of every wrong kind at the doors of the solver, of constraints and of the estimators.

Each argument of each call is replaced by each wrong value in turn. The call may succeed, for what is wrong
for one argument is right for another; if it fails, it fails with an error of this library.
"""

import inspect
import math
import warnings
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import cindy
from cindy import systems
from cindy._check import short
from cindy.errors import CindyError
from cindy.least_squares import LeastSquares
from cindy.model import diagnose
from cindy.problem import Problem
from cindy.solver import (
    Blended,
    DeviceRows,
    Direct,
    FullyCorrective,
    Region,
    SampledRows,
    basis_pursuit,
    conditional_gradient,
    contradictory,
    gap_at,
    oracle_for,
    smallest_radius,
)

WRONG: list[Any] = [
    None,
    True,
    0,
    -1,
    1.5,
    math.nan,
    math.inf,
    10**400,
    2j,
    "a",
    "",
    b"x",
    (),
    [],
    {},
    set(),
    {"a"},
    [None],
    ["a"],
    ["a", "a"],
    [[1.0], [1.0, 2.0]],
    {"a": None},
    {"a": "b"},
    {1: 1.0},
    {("x", "y"): "z"},
    {("x",): 1.0},
    (1, 2),
    ("x", 1),
    range(3),
    object(),
    object,
    len,
    np.array(["a"]),
    np.array(2.0),
    np.zeros((2, 2, 2)),
    np.array([1.0, np.nan]),
    np.array([object()]),
    np.datetime64("2020-01-01"),
    slice(1),
    "\ud800",
]

DESIGN, TARGET = np.eye(3), np.ones((3, 1))
OBJECTIVE = LeastSquares.from_rows(DESIGN, TARGET)
BALL = Region(3, 2.0)
T = np.linspace(0.0, 2.0, 40)
SWING = cindy.Trajectory(T, np.column_stack([np.cos(T), -np.sin(T)]), ("x", "v"))
MODEL = cindy.identify(SWING, cindy.Polynomial(1), passes=1)
FIELD = cindy.Field(u=np.sin(np.arange(8.0)[:, None] - T), x=np.arange(8.0), t=T)
SUMMARY = cindy.accumulate(SWING, cindy.Polynomial(1))
FITTED = cindy.identify(SWING, cindy.Polynomial(1), passes=2)
DRIVEN = cindy.Model(np.ones((4, 2)), cindy.Polynomial(1), ("x", "v"), inputs=("u",))
FIELD_MODEL = cindy.Model(
    np.array([[0.0], [-1.0], [0.0]]), cindy.Derivatives(1, 1, axes=("x",)), ("u",), formulation=cindy.Weak()
)

CALLS: dict[str, tuple[Callable[..., Any], dict[str, Any]]] = {
    "fix": (cindy.fix, {"state": "x", "term": "y", "value": 1.0}),
    "bound": (cindy.bound, {"state": "x", "term": "y", "lower": 0.0, "upper": 1.0}),
    "tie": (cindy.tie, {"first": ("x", "y"), "second": ("y", "x"), "ratio": 2.0}),
    "linear": (cindy.linear, {"weights": {("x", "y"): 1.0}, "lower": 0.0, "upper": 1.0}),
    "conserve": (cindy.conserve, {"weights": {"x": 1.0}, "rate": 0.0, "tolerance": 0.1}),
    "exchange": (cindy.exchange, {"first": "x", "second": "y", "scope": "pair", "terms": ("x",)}),
    "preserve_energy": (cindy.preserve_energy, {"states": ("x", "y")}),
    "Adaptive": (cindy.Adaptive, {"power": 1.0}),
    "Direct": (Direct, {"leap": False}),
    "Blended": (Blended, {"inner_steps": 10}),
    "FullyCorrective": (FullyCorrective, {"accuracy": 0.1, "inner_steps": 10}),
    "Region": (
        Region,
        {"size": 3, "radius": 1.0, "weights": np.ones(3), "matrix": np.eye(3), "lower": 0.0, "upper": 1.0},
    ),
    "with_radius": (BALL.with_radius, {"radius": 1.0}),
    "norm": (BALL.norm, {"x": np.zeros(3)}),
    "violation": (BALL.violation, {"x": np.zeros(3)}),
    "SampledRows": (SampledRows, {"design": DESIGN, "target": TARGET, "batch": 2, "seed": 0}),
    "DeviceRows": (DeviceRows, {"design": DESIGN, "target": TARGET, "device": np}),
    "from_rows": (LeastSquares.from_rows, {"design": DESIGN, "target": TARGET}),
    "oracle_for": (oracle_for, {"region": BALL}),
    "oracle": (oracle_for(BALL), {"gradient": np.ones(3)}),
    "smallest_radius": (smallest_radius, {"region": BALL}),
    "contradictory": (contradictory, {"region": BALL, "owner": None}),
    "conditional_gradient": (
        conditional_gradient,
        {
            "objective": OBJECTIVE,
            "oracle": oracle_for(BALL),
            "correction": Direct(),
            "tol": 1e-6,
            "max_iter": 10,
            "max_seconds": 1.0,
            "start": np.zeros((3, 1)),
        },
    ),
    "gap_at": (gap_at, {"objective": OBJECTIVE, "oracle": oracle_for(BALL), "x": np.zeros((3, 1))}),
    "basis_pursuit": (
        basis_pursuit,
        {
            "objective": OBJECTIVE,
            "region": BALL,
            "epsilon": 1.0,
            "correction": Direct(),
            "tol": 1e-6,
            "max_iter": 10,
            "max_radii": 10,
        },
    ),
    "equations": (MODEL.equations, {"errors": True}),
    "place": (MODEL.place, {"state": "x", "term": "v"}),
    "predict": (MODEL.predict, {"x": SWING.x, "u": None, "t": None}),
    "jacobian": (MODEL.jacobian, {"x": SWING.x, "u": None, "t": None}),
    "score": (MODEL.score, {"trajectories": SWING, "kind": "equation", "window": None}),
    "simulate": (
        MODEL.simulate,
        {
            "x0": [1.0, 0.0],
            "t": T[:5],
            "u": None,
            "hold": None,
            "v0": None,
            "run": None,
            "limits": None,
            "noise": False,
            "seed": 0,
        },
    ),
    "simulate a field": (
        FIELD_MODEL.simulate,
        {"x0": FIELD, "t": T[:3], "boundary": "held", "limits": None},
    ),
    "simulate with inputs": (MODEL.simulate, {"x0": [1.0, 0.0], "t": T[:5], "u_t": None}),
    "input_jacobian": (DRIVEN.input_jacobian, {"x": SWING.x, "u": T[:, None], "t": None}),
    "smooth": (FITTED.smooth, {"trajectories": SWING}),
    "to_text": (MODEL.to_text, {"errors": False}),
    "to_latex": (MODEL.to_latex, {"errors": False}),
    "to_modelica": (MODEL.to_modelica, {"name": "A", "x0": None}),
    "to_sbml": (MODEL.to_sbml, {"x0": [1.0, 0.0]}),
    "with_coef": (MODEL.with_coef, {"coef": MODEL.coef, "coef_error": None}),
    "Model": (
        cindy.Model,
        {
            "coef": MODEL.coef,
            "basis": cindy.Polynomial(1),
            "states": ("x", "v"),
            "inputs": (),
            "formulation": cindy.Integral(),
            "noise": [0.1, 0.1],
        },
    ),
    "slab": (FIELD.slab, {"name": "u", "start": 0, "stop": 3}),
    "merged": (cindy.Trajectory.merged, {"sensors": [SWING]}),
    "with_values": (FIELD.with_values, {"t": T, "values": {"u": FIELD["u"]}, "stopped": None}),
    "evaluate": (cindy.Polynomial(2).evaluate, {"x": SWING.x, "variables": ("x", "v"), "out": None}),
    "derivative": (cindy.Polynomial(2).derivative, {"x": SWING.x, "variables": ("x", "v")}),
    "names": (cindy.Polynomial(2).names, {"variables": ("x", "v")}),
    "on": (lambda variable: cindy.Polynomial(2).on(variable), {"variable": "x"}),
    "on_axes": (cindy.Derivatives(2, 2).on_axes, {"axes": ("x",)}),
    "accumulate": (
        cindy.accumulate,
        {
            "trajectories": SWING,
            "basis": cindy.Polynomial(1),
            "formulation": None,
            "blocks": 3,
        },
    ),
    "solve": (cindy.solve, {"problem": Problem(SUMMARY), "correction": None, "selection": None, "tol": 1e-6}),
    "Integral": (
        cindy.Integral,
        {
            "order": 1,
            "initial": "free",
            "window": None,
            "degree": None,
            "half_width": None,
            "smooth": None,
            "rate": None,
            "feedback": None,
            "rates": False,
        },
    ),
    "Differential": (cindy.Differential, {"order": 1, "degree": None, "half_width": None, "smooth": None}),
    "Weak": (
        cindy.Weak,
        {"order": 1, "time": "weak", "half_widths": None, "powers": None, "noise": None, "thin": None},
    ),
    "Limits": (cindy.Limits, {"rtol": 1e-6, "atol": 1e-9, "growth": 1e10, "steps": 10}),
    "Significance": (cindy.Significance, {"level": 0.05, "per_factor": 4.0}),
    "Discrepancy": (cindy.Discrepancy, {"noise": 0.1}),
    "CrossValidation": (cindy.CrossValidation, {"folds": 3}),
    "Terms": (cindy.Terms, {"k": 3}),
    "Gap": (cindy.Gap, {"tol": 1e-3}),
    "Custom": (cindy.Custom, {"functions": {"a": "x"}, "parameters": (), "found": ()}),
    "Derivatives": (cindy.Derivatives, {"degree": 2, "order": 2, "axes": ("x",)}),
    "Polynomial": (cindy.Polynomial, {"degree": 2, "bias": True}),
    "Trigonometric": (cindy.Trigonometric, {"degree": 2}),
    "Fourier": (cindy.Fourier, {"frequencies": (1.0, 2.0)}),
    "PerRun": (cindy.PerRun, {"basis": cindy.Polynomial(1)}),
    "at": (cindy.Custom({"a": "exp(-k*x)"}, parameters={"k": (0.1, 1.0)}).at, {"values": {"k": 0.5}}),
    "renamed": (cindy.Polynomial(1).renamed, {"variables": ("x", "y"), "mapping": {"x": "y", "y": "x"}}),
    "from_dict": (
        cindy.Basis.from_dict,
        {"data": cindy.Polynomial(1).to_dict(), "functions": None},
    ),
    "Finding": (cindy.Finding, {"code": "a-code", "message": "A sentence.", "values": {}}),
    "sample": (MODEL.sample, {"n": 2, "seed": 0}),
    "diagnose": (diagnose, {"model": MODEL, "data": [SWING]}),
    "identify": (
        cindy.identify,
        {
            "trajectories": cindy.Trajectory(T[:15], SWING.x[:15], ("x", "v")),
            "basis": cindy.Polynomial(1),
            "passes": 1,
            "blocks": 5,
            "processes": 1,
            "executor": None,
            "device": None,
            "known": None,
            "hidden": 0,
            "observe": None,
            "least": "significant",
        },
    ),
    "kuramoto": (
        systems.kuramoto,
        {"d": 3, "coupling": 2.0, "forcing": 0.2, "frequencies": None, "seed": 0},
    ),
    "fput": (systems.fput, {"d": 3, "amplitude": 0.1, "beta": 0.7}),
    "spring_masses": (systems.spring_masses, {"mass": 1.0, "left": 1.0, "between": 0.5, "right": 1.0}),
    "michaelis_menten": (systems.michaelis_menten, {"binding": 0.1, "release": 1.0, "catalysis": 1.0}),
    "lorenz": (systems.lorenz, {"sigma": 10.0, "rho": 28.0, "beta": 2.0}),
    "duffing": (systems.duffing, {"linear": -1.0, "cubic": 1.0, "damping": 0.3}),
    "rossler": (systems.rossler, {"a": 0.2, "b": 0.2, "c": 5.7}),
    "sir": (systems.sir, {"infection": 0.5, "recovery": 0.1}),
    "van_der_pol": (systems.van_der_pol, {"damping": 1.0}),
    "lotka_volterra": (
        systems.lotka_volterra,
        {"growth": 1.0, "predation": 0.5, "gain": 0.5, "death": 1.0},
    ),
    "System.simulate": (
        systems.duffing().simulate,
        {
            "seed": 0,
            "noise": 0.1,
            "trajectories": 1,
            "points": 5,
            "horizon": 0.1,
            "times": None,
            "initial": None,
            "spread": "pooled",
        },
    ),
    "Problem": (
        Problem,
        {
            "summary": SUMMARY,
            "radius": 1.0,
            "constraints": [cindy.fix("x", "v", 1.0)],
            "weights": cindy.Adaptive(),
            "samples": None,
            "floor": None,
        },
    ),
    "Problem.violation": (Problem(SUMMARY).violation, {"coef": np.zeros((3, 2))}),
    "LeastSquares.residual": (OBJECTIVE.residual, {"x": np.zeros((3, 1))}),
    "LeastSquares.value": (OBJECTIVE.value, {"x": np.zeros((3, 1))}),
    "LeastSquares.gradient": (OBJECTIVE.gradient, {"x": np.zeros((3, 1))}),
    "LeastSquares.empty": (cindy.LeastSquares.empty, {"terms": 2, "targets": 1}),
}


OF_EACH_OTHER = {
    "Basis": "terms to_dict unknowns parameter_names asks_for apart_from on_device outside_domain plan",
    "Constraint": "rows",
    "Correction": "begin",
    "Formulation": (
        "at_samples compared edges fit_to given_noise matrix motion nearby on_device rows to_dict unweighted "
        "variables with_window"
    ),
    "LeastSquares": "scaled",
    "Limits": "steps_per_sample",
    "Problem": "physical require_feasible require_rows",
    "Selection": "nothing_kept pick price priced prices quantile score spared tolerance",
    "Summary": "of_terms",
    "Trajectory": "on_device",
    "Weights": "of",
}
"""Methods that parts of the library call with what they made: the doors have checked it."""
MADE_HERE = {"Basis", "Constraint", "Formulation", "Path", "Plain", "Run", "Selection", "Step", "Summary"}
MADE_HERE |= {"Uniform", "Weights", "BIC", "Discrete", "LeastSquares"}
"""Kinds that a user does not make, makes without an argument, or by a function that is tried."""
ELSEWHERE = {
    "Field": "Field part coordinate period uniform with_inputs_of",
    "Lazy": "Lazy",
    "Model": "save to_fmu",
    "Summary": "load save",
    "Trajectory": "Trajectory part step plot",
    "load": "load",
    "read": "read",
}
"""By the last tests of this file, of figures, and in test_wrong_types.py."""


def test_every_public_name_with_an_argument_is_tried():
    tried = {name.rpartition(".")[2].split()[0] for name in CALLS}
    missing = []
    for name in cindy.__all__:
        kind = getattr(cindy, name)
        if isinstance(kind, type) and issubclass(kind, Exception):
            continue
        known = {*tried, *ELSEWHERE.get(name, "").split()}
        if name not in known | MADE_HERE:
            missing.append(name)
        if isinstance(kind, type) and name not in ("Path", "Run", "Step"):
            of_each_other = {m for base in kind.__mro__ for m in OF_EACH_OTHER.get(base.__name__, "").split()}
            with_arguments = {method for method in vars_of(kind) if takes_arguments(kind, method)}
            missing += [f"{name}.{method}" for method in sorted(with_arguments - known - of_each_other)]
    assert missing == []


def vars_of(kind: type) -> set[str]:
    return {name for name in dir(kind) if not name.startswith("_")}


def takes_arguments(kind: type, method: str) -> bool:
    """Whether a user has something to give to it, beside the object itself."""
    static = inspect.getattr_static(kind, method)
    of_the_kind = isinstance(static, (classmethod, staticmethod))
    if not of_the_kind and not inspect.isfunction(static):
        return False
    return len(inspect.signature(getattr(kind, method)).parameters) > (0 if of_the_kind else 1)


def foreign(call: Callable[..., Any], arguments: dict[str, Any]) -> list[str]:
    """What ends in an error that is not of this library."""
    found = []
    for name in arguments:
        for wrong in WRONG:
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")
                try:
                    call(**{**arguments, name: wrong})
                except CindyError as error:
                    if len(str(error)) < 20:
                        found.append(f"{name}={short(wrong)}: says only {error}")
                except Exception as error:
                    found.append(f"{name}={short(wrong)}: {type(error).__name__}: {error}")
    return found


@pytest.mark.parametrize("name", CALLS)
def test_a_wrong_value_is_told_in_a_sentence(name):
    call, arguments = CALLS[name]
    call(**arguments)
    assert foreign(call, arguments) == []


FIGURES: dict[str, dict[str, Any]] = {
    "trajectories": {"data": SWING, "model": MODEL, "states": None, "window": None, "units": None},
    "phase": {"data": SWING, "model": None, "states": ("x", "v"), "window": None, "units": None},
    "coefficients": {"model": MODEL, "truth": None, "level": 0.95, "ax": None},
    "path": {"model": MODEL, "ax": None},
    "residuals": {"model": MODEL, "data": SWING, "states": None, "units": None},
    "sparsity": {"model": MODEL, "truth": None, "ax": None},
    "field": {"data": FIELD, "model": None, "states": None, "smooth": True},
}


@pytest.mark.parametrize("name", FIGURES)
def test_a_figure_refuses_a_wrong_value_in_a_sentence(name):
    pyplot = pytest.importorskip("matplotlib.pyplot")

    def drawn(**arguments: Any) -> None:
        getattr(cindy.plot, name)(**arguments)
        pyplot.close("all")

    drawn(**FIGURES[name])
    assert foreign(drawn, FIGURES[name]) == []
    pyplot.close("all")


def test_a_number_of_hidden_states_that_no_memory_holds_is_refused_at_once():
    with pytest.raises(CindyError, match="one to 5"):
        cindy.identify(SWING, cindy.Polynomial(1), hidden=10**12)


SETTINGS: dict[str, dict[str, Any]] = {
    "CINDy": {
        "basis": None,
        "formulation": None,
        "constraints": (),
        "selection": None,
        "correction": None,
        "weights": None,
        "radius": None,
        "tol": 1e-3,
        "max_iter": 20,
        "seed": 0,
        "passes": 1,
        "time": None,
    },
    "ConditionalGradientRegressor": {
        "radius": None,
        "weights": None,
        "matrix": np.eye(3),
        "lower": -1.0,
        "upper": 1.0,
        "scale": True,
        "fit_intercept": False,
        "correction": None,
        "tol": 1e-3,
        "max_iter": 20,
    },
}


@pytest.mark.parametrize("name", SETTINGS)
def test_a_wrong_setting_of_an_estimator_is_told_by_fit(name):
    pytest.importorskip("sklearn")
    kind = getattr(cindy, name)
    data = ([SWING],) if name == "CINDy" else (np.random.default_rng(0).normal(size=(20, 3)), np.arange(20.0))
    assert foreign(lambda **settings: kind(**settings).fit(*data), SETTINGS[name]) == []


def test_cindy_refuses_what_is_no_data_in_a_sentence():
    pytest.importorskip("sklearn")

    def fit(**data: Any) -> None:
        cindy.CINDy(passes=1, max_iter=20).fit(**data)

    assert foreign(fit, {"X": SWING.x, "t": 0.05, "u": None}) == []


@pytest.mark.parametrize("write", ["save", "to_fmu", "report", "summary"])
def test_what_is_no_path_is_refused_and_no_open_file_is_written_to(write, tmp_path, monkeypatch):
    """A number names an open file: 1 is where the terminal listens."""
    monkeypatch.chdir(tmp_path)
    calls = {
        "save": MODEL.save,
        "to_fmu": MODEL.to_fmu,
        "report": lambda path: pytest.importorskip("cindy.report").write(MODEL, SWING, path),
        "summary": SUMMARY.save,
    }
    for wrong in (None, True, 1, 1.5, b"x", ["a"], SWING.x, ""):
        with pytest.raises(CindyError, match=r"file|directory"):
            calls[write](wrong)
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize("load", [cindy.load, cindy.Summary.load])
def test_what_is_no_path_is_not_read(load):
    for wrong in (None, True, 0, b"x", ["a"], SWING.x, "", "\0", "a" * 5000):
        with pytest.raises(CindyError):
            load(wrong)
