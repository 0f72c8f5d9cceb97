"""Every export is run, and computes what `predict` and `simulate` compute: over models with time, inputs,
parameters, rates, switches and maps."""

import csv
import ctypes
import math
import re
import shutil
import subprocess
import zipfile
from dataclasses import dataclass, replace
from types import SimpleNamespace
from xml.etree import ElementTree

import numpy as np
import pytest
from scipy.integrate import solve_ivp
from typer.testing import CliRunner

import cindy
from cindy.cli import app
from cindy.errors import DataError
from cindy.model import Model
from cindy.states import Diffusion

COMPILER = shutil.which("cc") or shutil.which("gcc") or shutil.which("clang")
needs_compiler = pytest.mark.skipif(COMPILER is None, reason="there is no C compiler")


@dataclass(frozen=True)
class Case:
    """A model, where it starts (rates after positions) and (samples, inputs) what drives it."""

    model: Model
    start: tuple[float, ...]

    @property
    def inputs(self):
        return tuple(name for name in self.model.inputs if name != "t")

    @property
    def t(self):
        return np.linspace(0.5, 4.5, 41)

    @property
    def u(self):
        """Samples of the inputs; None where there are none."""
        return (
            np.column_stack([np.sin((k + 1) * self.t) for k in range(len(self.inputs))])
            if self.inputs
            else None
        )

    def given(self, t):
        """The inputs at a time, on straight lines between samples."""
        return [float(np.interp(t, self.t, column)) for column in self.u.T] if self.inputs else []

    def held(self, t):
        """The inputs at a time, each sample held until the next."""
        k = min(int((t - self.t[0]) / 0.1 + 1e-9), len(self.t) - 1)
        return self.u[k].tolist()

    def first_order(self, rhs):
        """(t, y) → y' from F as (t, x, u), by hand: positions change by their rates."""
        d, model = len(self.model.states), self.model
        if model.order == 1:
            return lambda t, y: rhs(t, y, self.given(t))
        return lambda t, y: [*y[d:], *rhs(t, y if model.rates else y[:d], self.given(t))]

    def solve(self, rhs):
        """Positions at the samples, from a right-hand side of first order."""
        options = {"rtol": 1e-10, "atol": 1e-12, "method": "DOP853", "max_step": 0.1}
        found = solve_ivp(rhs, (self.t[0], self.t[-1]), self.start, t_eval=self.t, **options)
        return found.y[: len(self.model.states)].T


def made(basis, coef, states, inputs=(), form=None):
    """A model from coefficients by (state, term); an input called t is for the terms that name it."""
    form = form or cindy.Integral()
    basis = basis.apart_from(("t",)) if "t" in inputs else basis
    names = basis.names(form.variables(states, inputs))
    table = np.zeros((len(names), len(states)))
    for (state, term), value in coef.items():
        table[names.index(term), states.index(state)] = value
    return Model(table, basis, states, inputs=inputs, formulation=form)


UPTAKE = cindy.Custom({"uptake": "S*X/(K + S)"}, parameters={"K": (0.1, 10)}).at({"K": 0.7})
SWITCH = cindy.Custom(
    {"step": "where(x > 0.2, 1, -0.5)", "dry": "sign(y)", "gap": "max(x - 0.1, 0)", "low": "abs(x)*(y <= 1)"}
)
PUSH = cindy.Custom({"push": "cos(3*t)*x"})
RATES = cindy.Integral(order=2, rates=True)
CASES = {
    "lorenz": Case(
        made(
            cindy.Polynomial(2),
            {("x", "x"): -10, ("x", "y"): 10, ("y", "x"): 28, ("y", "y"): -1, ("y", "x z"): -1}
            | {("z", "x y"): 1, ("z", "z"): -8 / 3},
            ("x", "y", "z"),
        ),
        (0.1, 0.2, 1.0),
    ),
    "time": Case(
        made(
            cindy.Polynomial(1) + PUSH,
            {("x", "y"): 1.0, ("y", "x"): -1.0, ("y", "push"): 0.5},
            ("x", "y"),
            ("t",),
        ),
        (1.0, 0.0),
    ),
    "inputs": Case(
        made(
            cindy.Polynomial(2) + cindy.Trigonometric(1),
            {("x", "y"): 1.0, ("y", "sin(x)"): -2.0, ("y", "u"): 1.0, ("y", "y w"): -0.3},
            ("x", "y"),
            ("u", "w"),
        ),
        (1.0, 0.0),
    ),
    "parameters": Case(
        made(
            UPTAKE + cindy.Polynomial(1),
            {("S", "uptake"): -1.2, ("X", "uptake"): 0.6, ("X", "X"): -0.1},
            ("S", "X"),
        ),
        (3.0, 0.2),
    ),
    "everything": Case(
        made(
            cindy.Polynomial(2)
            + PUSH
            + cindy.Custom({"sat": "x/(a + x^2)"}, parameters={"a": (0.1, 9)}).at({"a": 2.0}),
            {("x", "y"): 1.0, ("y", "x"): -1.0, ("y", "push"): 0.5, ("y", "u"): 0.7, ("x", "sat"): -0.4},
            ("x", "y"),
            ("u", "t"),
        ),
        (1.0, 0.5),
    ),
    "rates": Case(
        made(
            cindy.Polynomial(2) + cindy.Custom({"drive": "cos(2*t)"}),
            {("a", "a"): -1.0, ("a", "a'"): -0.2, ("a", "u"): 1.0, ("b", "b"): -2.0, ("b", "drive"): 0.5}
            | {("b", "a b'"): -0.3, ("a", "b"): 0.4},
            ("a", "b"),
            ("u", "t"),
            RATES,
        ),
        (1.0, 0.5, 0.0, -0.2),
    ),
    "positions": Case(
        made(
            cindy.Polynomial(3), {("q", "q"): -1.0, ("q", "q^3"): -0.5}, ("q",), (), cindy.Integral(order=2)
        ),
        (1.0, 0.3),
    ),
    "switches": Case(
        made(
            SWITCH + cindy.Polynomial(1),
            {("x", "y"): 1.0, ("y", "x"): -1.0, ("y", "step"): 0.3, ("y", "gap"): -0.4, ("x", "low"): 0.1}
            | {("x", "dry"): 0.2},
            ("x", "y"),
        ),
        (1.0, 0.3),
    ),
    "map": Case(
        made(
            cindy.Polynomial(2) + cindy.Custom({"season": "cos(t)"}),
            {("x", "x"): 0.9, ("x", "x^2"): -0.3, ("x", "u"): 0.2, ("x", "season"): 0.1},
            ("x",),
            ("u", "t"),
            cindy.Discrete(),
        ),
        (0.5,),
    ),
}
FLOWS = {name: case for name, case in CASES.items() if not case.model.formulation.discrete}
every_case = pytest.mark.parametrize("case", CASES.values(), ids=CASES)
every_flow = pytest.mark.parametrize("case", FLOWS.values(), ids=FLOWS)
THREE = {name: CASES[name] for name in ("everything", "parameters", "rates")}
three_cases = pytest.mark.parametrize("case", THREE.values(), ids=THREE)


def points(case):
    """Rows of states (with rates), inputs and times, and F there."""
    rng = np.random.default_rng(0)
    model = case.model
    x = rng.uniform(0.3, 2.0, (12, len(model.states) + len(model.rates)))
    u = rng.uniform(-1, 1, (12, len(case.inputs)))
    t = rng.uniform(0, 5, 12)
    return x, u, t, model.predict(x, u if case.inputs else None, t=t)


def agree(case, rhs):
    x, u, t, expected = points(case)
    found = [rhs(s, row.tolist(), given.tolist()) for s, row, given in zip(t, x, u, strict=True)]
    np.testing.assert_allclose(found, expected, rtol=1e-12, atol=1e-13)


def c_function(source, outputs, folder):
    (folder / "rhs.c").write_text(source, encoding="utf-8")
    flags = ["-std=c99", "-Wall", "-Wextra", "-Werror", "-pedantic", "-shared", "-fPIC", "-O1"]
    subprocess.run([COMPILER, *flags, "rhs.c", "-o", "rhs.so", "-lm"], cwd=folder, check=True)
    function = ctypes.CDLL(str(folder / "rhs.so")).rhs
    function.restype = None

    def rhs(t, x, u):
        result = (ctypes.c_double * outputs)()
        # No inputs are no array: what is read beyond would end the test.
        arrays = [(ctypes.c_double * len(v))(*v) if len(v) else None for v in (x, u)]
        function(ctypes.c_double(t), *arrays, result)
        return list(result)

    return rhs


@every_case
def test_the_compiled_side_and_python_compute_what_predict_computes(case):
    agree(case, case.model.rhs)
    space = {}
    exec(case.model.to_python(), space)
    assert space["INPUTS"] == case.inputs
    agree(case, space["rhs"])


@needs_compiler
@every_case
def test_c_computes_what_predict_computes_and_its_solution_is_that_of_simulate(case, tmp_path):
    rhs = c_function(case.model.to_c(), len(case.model.states), tmp_path)
    agree(case, rhs)
    if not case.model.formulation.discrete:
        expected = simulated(case)
        np.testing.assert_allclose(case.solve(case.first_order(rhs)), expected, rtol=1e-6, atol=1e-6)


def simulated(case, held=False):
    found = case.model.simulate(case.start, case.t, case.held if held else case.u)
    assert found.stopped is None
    return found.x


@every_case
def test_sympy_computes_what_predict_computes(case):
    sympy = pytest.importorskip("sympy")
    names = (*case.model.states, *case.model.rates, *case.inputs, "t")
    function = sympy.lambdify([sympy.Symbol(name) for name in names], case.model.to_sympy(), "math")
    agree(case, lambda t, x, u: function(*x, *u, t))


@every_case
def test_casadi_computes_what_predict_computes_in_first_order_form(case):
    pytest.importorskip("casadi")
    model, function = case.model, case.model.to_casadi()
    d = len(model.states)
    expected = ["x", *(["u"] if case.inputs else []), *(["t"] if "t" in model.inputs else [])]
    assert function.name_in() == expected
    assert function.name_out() == ["x_next" if model.formulation.discrete else "xdot"]

    def rhs(t, x, u):
        # Equations of second order whose terms hold no rates still have rates as states.
        full = x if len(x) == model.order * d else [*x, *([7.0] * d)]
        given = {"x": full, "u": u, "t": t}
        result = np.array(function(*(given[name] for name in expected))).ravel()
        if model.order == 2:
            assert result[:d].tolist() == list(full[d:])
        return result[-d:]

    agree(case, rhs)


def test_casadi_takes_one_number_for_an_input_in_brackets():
    pytest.importorskip("casadi")
    model = made(cindy.Polynomial(1), {("c", "[run 1]"): 2.0}, ("c",), ("[run 0]", "[run 1]"))
    assert float(model.to_casadi()(5.0, [3.0, 7.0])) == 14.0


@three_cases
def test_the_solution_by_casadi_is_that_of_simulate(case):
    pytest.importorskip("casadi")
    function = case.model.to_casadi()
    names = function.name_in()

    def rhs(t, y):
        given = {"x": y, "u": case.given(t), "t": t}
        return np.array(function(*(given[name] for name in names))).ravel()

    np.testing.assert_allclose(case.solve(rhs), simulated(case), rtol=1e-6, atol=1e-6)


@pytest.mark.parametrize("name", ["lorenz", "time", "parameters", "switches"])
def test_sbml_is_read_and_holds_the_time_as_a_symbol_of_its_own(name):
    text = CASES[name].model.to_sbml()
    ElementTree.fromstring(text)
    assert ("symbols/time" in text) == (name == "time")


# Jacobians


@every_case
def test_jacobians_are_the_slopes_of_predict(case):
    if case is CASES["switches"]:
        pytest.skip("corners have no slope")
    x, u, t, _ = points(case)
    given = u if case.inputs else None
    step = 1e-6

    def difference(dx, du):
        ahead, behind = (
            case.model.predict(x + s * dx, u + s * du if case.inputs else None, t=t) for s in (1, -1)
        )
        return (ahead - behind) / (2 * step)

    for k, column in enumerate(np.eye(x.shape[1]) * step):
        expected = difference(column, np.zeros(u.shape[1]))
        np.testing.assert_allclose(case.model.jacobian(x, given, t=t)[:, :, k], expected, atol=1e-7)
    slopes = case.model.input_jacobian(x, given, t=t)
    assert slopes.shape == (len(x), len(case.model.states), len(case.inputs))
    for k, column in enumerate(np.eye(u.shape[1]) * step):
        np.testing.assert_allclose(slopes[:, :, k], difference(np.zeros(x.shape[1]), column), atol=1e-7)


def test_predict_says_that_the_time_is_missing():
    with pytest.raises(DataError, match="the time as `t`"):
        CASES["time"].model.predict([1.0, 2.0])


def test_predict_takes_the_times_of_a_trajectory():
    case = CASES["everything"]
    found = case.model.simulate(case.start, case.t, case.u)
    assert found.inputs == ("u",)
    expected = case.model.predict(found.x, found.u, t=found.t)
    np.testing.assert_array_equal(case.model.predict(found), expected)


# FMUs


@needs_compiler
@every_flow
def test_an_fmu_holds_what_the_standard_asks_for(case, tmp_path):
    fmpy = pytest.importorskip("fmpy")
    from fmpy.validation import validate_fmu

    path = case.model.to_fmu(tmp_path / "model.fmu", x0=case.start)
    assert validate_fmu(str(path)) == []
    with zipfile.ZipFile(path) as archive:
        names = set(archive.namelist())
    assert {"modelDescription.xml", "sources/fmu.c", "sources/model.h"} <= names
    variables = fmpy.read_model_description(str(path)).modelVariables
    by = {
        kind: [v.name for v in variables if v.causality == kind] for kind in ("input", "output", "parameter")
    }
    assert tuple(by["input"]) == case.inputs
    assert tuple(by["output"][: len(case.model.states)]) == case.model.states
    assert len(by["parameter"]) == case.model.size + len({"parameters", "everything"} & {case_name(case)})


@needs_compiler
def test_an_fmu_announces_where_its_terms_switch(tmp_path):
    fmpy = pytest.importorskip("fmpy")
    counts = {}
    for name in ("switches", "everything"):
        path = CASES[name].model.to_fmu(tmp_path / f"{name}.fmu")
        counts[name] = fmpy.read_model_description(str(path)).numberOfEventIndicators
    assert counts == {"switches": 5, "everything": 0}


def case_name(case):
    return next(name for name, other in CASES.items() if other is case)


def run_fmu(case, path, kind, **options):
    fmpy = pytest.importorskip("fmpy")
    signals = None
    if case.inputs:
        kinds = [("time", np.float64), *((name, np.float64) for name in case.inputs)]
        rows = np.column_stack([case.t, case.u])
        signals = np.array([tuple(row) for row in rows], dtype=kinds)
    found = fmpy.simulate_fmu(
        str(path),
        fmi_type=kind,
        start_time=case.t[0],
        stop_time=case.t[-1],
        output_interval=0.1,
        relative_tolerance=1e-9,
        input=signals,
        output=list(case.model.states),
        **options,
    )
    at = [int(np.argmin(np.abs(found["time"] - s))) for s in case.t]
    return np.column_stack([found[name][at] for name in case.model.states])


@needs_compiler
@every_flow
def test_an_fmu_solved_in_co_simulation_is_the_solution_of_simulate(case, tmp_path):
    path = case.model.to_fmu(tmp_path / "model.fmu", x0=case.start)
    found = run_fmu(case, path, "CoSimulation")
    np.testing.assert_allclose(found, simulated(case, held=bool(case.inputs)), rtol=1e-6, atol=1e-6)


@needs_compiler
@pytest.mark.parametrize("name", ["parameters", "time", "positions", "switches"])
def test_an_fmu_solved_by_cvode_is_the_solution_of_simulate(name, tmp_path):
    case = CASES[name]
    path = case.model.to_fmu(tmp_path / "model.fmu", x0=case.start)
    found = run_fmu(case, path, "ModelExchange")
    np.testing.assert_allclose(found, simulated(case), rtol=1e-6, atol=1e-6)


@needs_compiler
@every_flow
def test_an_fmu_solved_by_model_exchange_is_the_solution_of_simulate(case, tmp_path):
    # Step by step, for FMPy's own integrator sees inputs at the ends of its steps only.
    fmpy = pytest.importorskip("fmpy")
    from fmpy.fmi2 import FMU2Model

    path = str(case.model.to_fmu(tmp_path / "model.fmu", x0=case.start))
    about = fmpy.read_model_description(path)
    folder = fmpy.extract(path, str(tmp_path / "unpacked"))
    identifier = about.modelExchange.modelIdentifier
    fmu = FMU2Model(guid=about.guid, unzipDirectory=folder, modelIdentifier=identifier, instanceName="one")
    fmu.instantiate()
    fmu.setupExperiment(startTime=case.t[0])
    fmu.enterInitializationMode()
    fmu.exitInitializationMode()
    references = [v.valueReference for v in about.modelVariables if v.causality == "input"]
    x, dx = ((ctypes.c_double * len(case.start))() for _ in range(2))
    fmu.getContinuousStates(x, len(x))
    assert tuple(x) == case.start

    def rhs(t, y):
        fmu.setTime(t)
        fmu.setReal(references, case.given(t))
        x[:] = y
        fmu.setContinuousStates(x, len(x))
        fmu.getDerivatives(dx, len(dx))
        return list(dx)

    np.testing.assert_allclose(case.solve(rhs), simulated(case), rtol=1e-6, atol=1e-6)
    fmu.terminate()
    fmu.freeInstance()


@needs_compiler
def test_coefficients_and_parameters_of_an_fmu_can_be_tuned(tmp_path):
    case = CASES["parameters"]
    path = case.model.to_fmu(tmp_path / "model.fmu", x0=case.start)
    found = run_fmu(case, path, "CoSimulation", start_values={"c1": -0.6, "K": 1.5})
    other = made(
        UPTAKE.at({"K": 1.5}) + cindy.Polynomial(1),
        {("S", "uptake"): -0.6, ("X", "uptake"): 0.6, ("X", "X"): -0.1},
        ("S", "X"),
    )
    np.testing.assert_allclose(found, simulated(Case(other, case.start)), rtol=1e-6, atol=1e-6)


@needs_compiler
@every_flow
def test_the_source_of_an_fmu_compiles_without_a_warning(case, tmp_path):
    path = case.model.to_fmu(tmp_path / "model.fmu")
    with zipfile.ZipFile(path) as archive:
        archive.extractall(tmp_path)
    flags = ["-std=c99", "-Wall", "-Wextra", "-Wconversion", "-Wno-sign-conversion", "-pedantic", "-Werror"]
    subprocess.run([COMPILER, *flags, "-fsyntax-only", "fmu.c"], cwd=tmp_path / "sources", check=True)


def test_without_a_compiler_an_fmu_holds_its_source_and_says_so(tmp_path, monkeypatch):
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.warns(UserWarning, match="no C compiler"):
        path = CASES["time"].model.to_fmu(tmp_path / "model.fmu")
    with zipfile.ZipFile(path) as archive:
        assert not any(name.startswith("binaries") for name in archive.namelist())


@pytest.mark.parametrize("form", ["to_fmu", "to_modelica"])
def test_a_map_is_no_continuous_system(form, tmp_path):
    arguments = [tmp_path / "map.fmu"] if form == "to_fmu" else []
    with pytest.raises(DataError, match="map has no derivatives"):
        getattr(CASES["map"].model, form)(*arguments)


# Julia and Modelica, without their compilers: grammars read the text, and it is close enough to Python to be
# run as Python.


class OneBased:
    """A list that counts from one."""

    def __init__(self, values):
        self.values = list(values)

    def __getitem__(self, k):
        return self.values[k - 1]

    def __setitem__(self, k, value):
        self.values[k - 1] = value


def julia_function(text, name, outputs):
    """A function of the exported text as (t, u, inputs) → du, run as Python that counts from one."""
    entries = re.search(r"^parameters = \((.*),\)$", text, flags=re.M)[1].replace(
        "t -> zeros(", "lambda t: ("
    )
    known = eval(f"dict({entries})", {})
    body = text.split(f"function {name}(du, u, p, t)\n")[1].split("return nothing")[0]
    lines = "\n".join(line.strip() for line in body.splitlines()).replace("^", "**")

    def function(t, u, inputs):
        p = SimpleNamespace(**{k: OneBased(v) if isinstance(v, list) else v for k, v in known.items()})
        p.input = lambda s: OneBased(inputs)
        du = OneBased([math.nan] * outputs)
        exec(lines, {**vars(math), "max": max, "du": du, "u": OneBased(u), "p": p, "t": t})
        return du.values

    return function


@pytest.mark.parametrize("name", [name for name in CASES if name != "switches"])
def test_julia_computes_what_predict_computes(name):
    case = CASES[name]
    d, order = len(case.model.states), case.model.order
    function = julia_function(case.model.to_julia(), "f!", order * d)

    def rhs(t, x, u):
        full = x if len(x) == order * d else [*x, *([7.0] * d)]
        changes = function(t, full, u)
        assert order == 1 or changes[:d] == full[d:]
        return changes[-d:]

    agree(case, rhs)


def kicked():
    """A model whose first state is kicked, a state, and the standard deviations there."""
    monomials = cindy.Polynomial(2).names(("x", "y"))
    coef = np.zeros((len(monomials), 2))
    coef[[0, monomials.index("x^2")], 0] = 0.25, 0.5
    kicks = Diffusion(monomials, coef, np.zeros_like(coef), ("x", "y"))
    x = [0.7, -1.2]
    return replace(CASES["time"].model, diffusion=kicks), x, np.sqrt(kicks.variance(np.array([x])))[0]


def test_julia_python_and_sympy_have_the_noise_of_kicked_motion():
    model, x, expected = kicked()
    text = model.to_julia()
    assert reads_as_julia(text)
    np.testing.assert_allclose(julia_function(text, "g!", 2)(0.0, x, []), expected, rtol=1e-14)
    space = {}
    exec(model.to_python(), space)
    assert "dx" not in model.to_python().partition("def noise")[2]  # a variance is no derivative
    np.testing.assert_allclose(space["noise"](0.0, x), expected, rtol=1e-14)
    first, second = model.diffusion.to_sympy()
    assert float(first.subs({"x": x[0]})) == pytest.approx(expected[0] ** 2, rel=1e-14)
    assert second == 0


@needs_compiler
def test_c_has_the_noise_of_kicked_motion(tmp_path):
    model, x, expected = kicked()
    (tmp_path / "rhs.c").write_text(model.to_c())
    flags = ["-std=c99", "-shared", "-fPIC", "-Wall", "-Werror"]
    command = [COMPILER, *flags, "-o", "rhs.so", "rhs.c", "-lm"]
    subprocess.run(command, cwd=tmp_path, check=True)
    result = (ctypes.c_double * 2)()
    ctypes.CDLL(str(tmp_path / "rhs.so")).noise(ctypes.c_double(0.0), (ctypes.c_double * 2)(*x), result)
    np.testing.assert_allclose(list(result), expected, rtol=1e-14)


def test_exports_without_a_place_for_noise_say_that_they_leave_it_out(tmp_path):
    model, _, _ = kicked()
    exported = [model.to_modelica(), model.to_sbml()]
    with zipfile.ZipFile(model.to_fmu(tmp_path / "kicked.fmu")) as archive:
        exported.append(archive.read("modelDescription.xml").decode())
    for text in exported:
        assert "random kicks are left out" in text
    plain = replace(model, diffusion=None)
    assert "kicks" not in plain.to_modelica() + plain.to_sbml() + plain.to_python() + plain.to_c()


@pytest.mark.parametrize("name", [name for name in FLOWS if name != "switches"])
def test_modelica_computes_what_predict_computes(name):
    case, text = CASES[name], CASES[name].model.to_modelica("Plant", x0=CASES[name].start)
    head, equations = text.split("equation\n")
    assert re.findall(r"^(?:model|end) (\w+)", text, flags=re.M) == ["Plant", "Plant"]
    numbers = {n: float(v) for n, v in re.findall(r"parameter Real (\w+) = (\S+)", head)}
    states = re.findall(r"^  Real (\w+)\(start = (\S+), fixed = true\)", head, flags=re.M)
    assert [float(value) for _, value in states] == list(case.start)
    inputs = re.findall(r"input Real (\w+)", head)
    assert len(inputs) == len(case.inputs)
    sides = re.findall(r"der\((\w+)\) = (.*);", equations)
    assert [left for left, _ in sides] == [name for name, _ in states]
    d = len(case.model.states)

    def rhs(t, x, u):
        full = x if len(x) == len(states) else [*x, *([7.0] * d)]
        space = {**vars(math), **numbers, "time": t, **dict(zip(inputs, u, strict=True))}
        space |= {name: value for (name, _), value in zip(states, full, strict=True)}
        return [eval(side.replace("^", "**"), space) for _, side in sides][-d:]

    agree(case, rhs)


def reads_as_julia(text):
    tree_sitter, grammar = pytest.importorskip("tree_sitter"), pytest.importorskip("tree_sitter_julia")
    return (
        not tree_sitter.Parser(tree_sitter.Language(grammar.language()))
        .parse(text.encode())
        .root_node.has_error
    )


def reads_as_modelica(text):
    parser = pytest.importorskip("pymoca.parser")
    try:
        return parser.parse(text) is not None
    except SyntaxError:
        return False


def test_the_grammars_of_julia_and_modelica_refuse_what_is_wrong():
    assert not reads_as_julia("function f(x)\n y = x*(2 +\nend")
    assert not reads_as_modelica("model A Real x; equation der(x) = ; end A;")


@every_case
def test_the_text_follows_the_grammars_of_julia_and_modelica(case):
    assert reads_as_julia(case.model.to_julia())
    if not case.model.formulation.discrete:
        assert reads_as_modelica(case.model.to_modelica("Plant", x0=case.start))


@pytest.mark.parametrize("form", ["to_julia", "to_modelica"])
def test_names_that_are_no_words_are_replaced(form):
    hostile = ("end", "x'; quit()", "u", "été", "c1", "s1")
    names = cindy.Polynomial(1).names(hostile)
    model = Model(np.eye(len(names), 6, -1), cindy.Polynomial(1), hostile)
    text = getattr(model, form)()
    code = re.sub(r'#.*|"[^"]*"', "", text)
    assert "quit" not in code
    assert code.isascii()
    assert (reads_as_julia if form == "to_julia" else reads_as_modelica)(text)


# The command line


@pytest.mark.parametrize("name", ["everything", "time", "rates"])
def test_a_solution_written_as_csv_has_every_column_once(name, tmp_path):
    case = CASES[name]
    case.model.save(tmp_path / "model.json")
    arguments = [
        "simulate",
        str(tmp_path / "model.json"),
        "--x0",
        ",".join(map(repr, case.start[: len(case.model.states)])),
    ]
    if case.model.order == 2:
        arguments += ["--v0", ",".join(map(repr, case.start[len(case.model.states) :]))]
    if case.inputs:
        rows = np.column_stack([case.t, case.u])
        np.savetxt(tmp_path / "u.csv", rows, delimiter=",", header=",".join(("t", *case.inputs)), comments="")
        arguments += ["--inputs", str(tmp_path / "u.csv")]
    else:
        arguments += ["--t", "0.5:4.5:0.1"]
    done = CliRunner().invoke(app, [*arguments, "--out", str(tmp_path / "out.csv")])
    assert done.exit_code == 0, done.output
    with (tmp_path / "out.csv").open() as stream:
        header, *rows = csv.reader(stream)
    assert header == ["t", *case.model.states, *case.inputs]
    np.testing.assert_allclose(
        np.array(rows, dtype=float)[:, 1 : 1 + len(case.model.states)], simulated(case), rtol=1e-8
    )


@needs_compiler
@pytest.mark.parametrize("ending", ["fmu", "casadi", "mo", "jl", "c", "py", "tex", "xml"])
def test_the_ending_of_a_file_says_how_a_model_is_exported(ending, tmp_path):
    if ending == "casadi":
        pytest.importorskip("casadi")
    CASES["parameters"].model.save(tmp_path / "model.json")
    start = ["--x0", "S=3,X=0.2"] if ending in ("fmu", "mo", "xml") else []
    target = tmp_path / f"model.{ending}"
    done = CliRunner().invoke(app, ["export", str(tmp_path / "model.json"), str(target), *start])
    assert done.exit_code == 0, done.output
    assert target.stat().st_size > 100
    if ending == "mo":
        assert "S(start = 3.0" in target.read_text()


def test_an_unknown_ending_is_refused_in_a_sentence(tmp_path):
    CASES["parameters"].model.save(tmp_path / "model.json")
    arguments = ["export", str(tmp_path / "model.json"), str(tmp_path / "model.docx")]
    assert isinstance(CliRunner().invoke(app, arguments).exception, (DataError, SystemExit))


@pytest.mark.parametrize("form", ["julia", "modelica", "sbml", "casadi"])
def test_show_prints_the_forms_that_are_text(form, tmp_path):
    if form == "casadi":
        pytest.importorskip("casadi")
    CASES["parameters"].model.save(tmp_path / "model.json")
    done = CliRunner().invoke(app, ["show", str(tmp_path / "model.json"), f"--{form}"])
    assert done.exit_code == 0, done.output
    assert "xdot" in done.output if form == "casadi" else str(CASES["parameters"].model.size) in done.output
