"""Equations: a right-hand side F(x) = Ξᵀ ψ(x), to evaluate, differentiate, compile and export."""

from __future__ import annotations

import os
import pathlib
from collections.abc import Callable, Mapping, Sequence
from dataclasses import KW_ONLY, dataclass, field, replace
from functools import cached_property
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray

from cindy._arrays import Floats
from cindy._check import did_you_mean, file_path, flag, floats, numbers, text
from cindy.basis import TIME, Basis, compile_rhs, term_label
from cindy.data import Field, Trajectory
from cindy.errors import DataError, require
from cindy.findings import Finding
from cindy.formulation import Formulation, Integral
from cindy.model.switching import Switches
from cindy.solver import Run
from cindy.states import Diffusion


class Estimate(NamedTuple):
    """A value and its standard error, NaN where unknown.

    >>> estimate = Estimate(0.37312, 0.0041)
    >>> print(estimate, float(estimate))
    0.373(4) 0.37312
    """

    value: float
    error: float

    def __float__(self) -> float:
        return self.value

    def __str__(self) -> str:
        from cindy.export import format_value

        return format_value(self.value, self.error)


@dataclass(frozen=True, eq=False)
class Equations:
    """The part of a `Model` that needs its equations alone; `Model` checks the fields and describes them."""

    coef: Floats
    basis: Basis
    states: tuple[str, ...]
    _: KW_ONLY
    inputs: tuple[str, ...] = ()
    coef_error: Floats = None  # type: ignore[assignment]
    formulation: Formulation = field(default_factory=Integral)
    noise: Floats = None  # type: ignore[assignment]
    noise_memory: Floats = None  # type: ignore[assignment]
    model_error: Floats = None  # type: ignore[assignment]
    diffusion: Diffusion | None = None
    inclusion: Floats = None  # type: ignore[assignment]
    parameters: Mapping[str, Estimate] = field(default_factory=dict)
    covariance: Floats | None = None
    near: Any = None
    scale: Floats = None  # type: ignore[assignment]
    gap: float = np.nan
    radius: float = np.nan
    violation: float = 0.0
    result: Run | None = None
    constraints: tuple[str, ...] = ()
    findings: tuple[Finding, ...] = ()
    denoised: bool = False
    explained: Mapping[str, float] = field(default_factory=dict)
    settings: Mapping[str, Any] = field(default_factory=dict)
    fitted: Any = field(default=None, repr=False)

    @property
    def hidden(self) -> tuple[str, ...]:
        """States that were not measured: of a denoised model, those without a noise estimate."""
        if not self.denoised:
            # With other coefficients a model is no longer denoised, and its states are as before. Models
            # that were only compared have no scale, from which hidden states could be estimated.
            named = self.settings.get("hidden")
            if not isinstance(named, (Mapping, Sequence)) or not np.isfinite(self.scale).all():
                return ()
            return tuple(state for state in self.states if state in named)
        return tuple(s for s, noise in zip(self.states, self.noise, strict=True) if np.isnan(noise))

    @property
    def warnings(self) -> tuple[str, ...]:
        """The sentences of the findings."""
        return tuple(finding.message for finding in self.findings)

    @property
    def variables(self) -> tuple[str, ...]:
        """States, their rates where terms may hold them, then inputs."""
        return self.formulation.variables(self.states, self.inputs)

    @property
    def rates(self) -> tuple[str, ...]:
        """The rates that terms may hold, as variables; none unless the form is x'' = F(x, x')."""
        return self.variables[len(self.states) : len(self.variables) - len(self.inputs)]

    @property
    def terms(self) -> tuple[str, ...]:
        """The names of the rows of `coef`."""
        return self.basis.names(self.variables)

    @property
    def labels(self) -> tuple[str, ...]:
        """The terms for readers: E·S if ES is a state too, and names that are not words in quotes."""
        return tuple(term_label(term, self.variables) for term in self.basis.plan(self.variables).terms)

    @property
    def order(self) -> int:
        """1 for x' = F, 2 for x'' = F."""
        return self.formulation.order

    @property
    def support(self) -> NDArray[np.bool_]:
        """(terms, states): where a term is present."""
        return np.asarray(self.coef != 0)

    @property
    def size(self) -> int:
        """How many coefficients are not zero."""
        return int(np.count_nonzero(self.coef))

    def place(self, state: str, term: str) -> tuple[int, int]:
        """The row and column of a coefficient, by name.

        >>> import cindy
        >>> decay = cindy.Model([[0.0], [-2.0]], cindy.Polynomial(1), ("x",), coef_error=[[0.0], [0.01]])
        >>> row, column = decay.place("x", "x")
        >>> f"{decay.coef[row, column]} ± {decay.coef_error[row, column]}"
        '-2.0 ± 0.01'
        """
        for name, known, what in ((state, self.states, "state"), (term, self.terms, "term")):
            if text(name, f"The name of a {what}") not in known:
                raise DataError(f'The model has no {what} "{name}". {did_you_mean(name, known)}')
        return self.terms.index(term), self.states.index(state)

    def predict(
        self, x: ArrayLike | Trajectory, u: ArrayLike | None = None, *, t: ArrayLike | None = None
    ) -> Floats:
        """F at the rows of x: (n, states) for (n, states), (states,) for one row; u are the inputs there.

        If terms may hold rates, x holds them too: (n, 2 · states), the positions and then their rates.
        Columns of a frame, and states of a Trajectory, are found by their names.

        t: (n,), or one number: the time, if terms hold it; a Trajectory has its own

        >>> import cindy
        >>> grow = cindy.Model([[0.0], [1.0], [-0.5]], cindy.Polynomial(2), ("x",))
        >>> grow.predict([[1.0], [2.0]]).ravel().tolist()
        [0.5, 0.0]
        """
        rows, single = self._rows(x, u, t, "predict")
        result: Floats = self.basis.evaluate(rows, self.variables) @ self.coef
        return result[0] if single else result

    def jacobian(
        self, x: ArrayLike | Trajectory, u: ArrayLike | None = None, *, t: ArrayLike | None = None
    ) -> Floats:
        """∂F/∂x at the rows of x, given as in `predict`: (n, states, states), (states, states) for one row.

        If terms may hold rates, (…, states, 2 · states). Exact, except for terms that are Python functions,
        whose derivatives are central differences.

        >>> import cindy
        >>> grow = cindy.Model([[0.0], [1.0], [-0.5]], cindy.Polynomial(2), ("x",))
        >>> grow.jacobian([2.0]).tolist()  # negative: 2 is a stable state
        [[-1.0]]
        """
        slopes, single = self._slopes(x, u, t, "jacobian")
        by_states = slopes[..., : len(self.states) + len(self.rates)]
        return by_states[0] if single else by_states

    def input_jacobian(
        self, x: ArrayLike | Trajectory, u: ArrayLike | None = None, *, t: ArrayLike | None = None
    ) -> Floats:
        """∂F/∂u at the rows of x: (n, states, inputs), (states, inputs) for one row; as `jacobian`.

        The time is no input here: the columns are those of `inputs` without t.
        """
        slopes, single = self._slopes(x, u, t, "input_jacobian")
        first = len(self.states) + len(self.rates)
        columns = [k for k, name in enumerate(self.variables) if k >= first and name != TIME]
        by_inputs = slopes[..., columns]
        return by_inputs[0] if single else by_inputs

    def _slopes(self, x: Any, u: Any, t: Any, where: str) -> tuple[Floats, bool]:
        """(n, states, variables): the derivative of every equation by every variable."""
        rows, single = self._rows(x, u, t, where)
        # Only terms with a coefficient: an infinite slope times a coefficient of zero would be NaN.
        used = np.flatnonzero(self.coef.any(axis=1))
        slopes = self.basis.derivative(rows, self.variables)[:, used]
        return np.einsum("nkv,kj->njv", slopes, self.coef[used]), single

    def _rows(self, x: Any, u: Any, t: Any, where: str) -> tuple[Floats, bool]:
        """(n, variables): states, rates, inputs and time together; and whether x was one row."""
        columns = self.states + self.rates
        if isinstance(x, Field):
            raise DataError(
                f"{where}: a Field has no rates at single rows. Use score(field), or "
                "simulate(field.first, t)."
            )
        if isinstance(x, Trajectory) and u is None and not self.rates:
            own = tuple(name for name in self.inputs if name != TIME or name in x.inputs)
            t = x.t if len(own) < len(self.inputs) else t
            # By name, so that data may have more states, or have them in another order.
            (x,) = reordered([x], self.states, own, where)
            u = x.u
        values = numbers(in_order(x, columns, f"{where}: x"), f"{where}: x")
        rows = np.atleast_2d(values)
        if values.ndim not in (1, 2) or rows.shape[1] != len(columns):
            what = "states and rates" if self.rates else "states"
            raise DataError(
                f"{where}: x must have one column for each of the {len(columns)} {what} "
                f"{', '.join(columns)}, but has shape {values.shape}."
            )
        if self.inputs:
            rows = np.hstack([rows, self._input_rows(u, t, len(rows), where)])
        elif u is not None:
            raise DataError(f"{where}: the model has no inputs, so `u` must be left out.")
        return rows, values.ndim == 1

    def _input_rows(self, u: ArrayLike | None, t: ArrayLike | None, rows: int, where: str) -> Floats:
        """(rows, inputs), with the time in its place among them if it is given as `t`."""
        apart = t is not None and TIME in self.inputs
        expected = [name for name in self.inputs if not (apart and name == TIME)]
        names = ", ".join(expected)
        if u is None and expected:
            time = ", and the time as `t`" if TIME in expected else ""
            raise DataError(f"{where}: the model has the inputs {names}; pass their values as `u`{time}.")
        array = numbers(np.empty((rows, 0)) if u is None else u, f"{where}: u")
        if array.ndim < 2:
            # A flat array is either all inputs of one row or one input of many rows.
            array = array.reshape(rows, -1) if array.size % rows == 0 else np.atleast_2d(array)
        if array.shape != (rows, len(expected)):
            raise DataError(
                f"{where}: u must have a row for each of the {rows} rows of x and a column for each of "
                f"{names}, but has shape {array.shape}."
            )
        if apart:
            times = numbers(np.empty(0) if t is None else t, f"{where}: t")
            if times.shape not in ((), (1,), (rows,)):
                raise DataError(
                    f"{where}: t must be one time, or one for each of the {rows} rows of x, but has shape "
                    f"{times.shape}."
                )
            times = np.broadcast_to(times, (rows,))
            array = np.insert(array, self.inputs.index(TIME), times, axis=1)
        return floats(array, f"{where}: u", ndim=2)

    @cached_property
    def rhs(self) -> Callable[..., list[float]]:
        """F compiled, as (t, x) → list, or (t, x, u) → list with inputs: ready for scipy.integrate.

        It does not check its arguments, since integrators call it a million times; `predict` does.

        >>> import cindy
        >>> from scipy.integrate import solve_ivp
        >>> decay = cindy.Model([[0.0], [-2.0]], cindy.Polynomial(1), ("x",))
        >>> solve_ivp(decay.rhs, (0, 1), [1.0], rtol=1e-8).y[0, -1].round(4)  # exp(-2)
        np.float64(0.1353)
        """
        # Rates are integrated with the states and therefore belong to x, not to u.
        given = len(self.states) + len(self.rates)
        return compile_rhs(self.basis.plan(self.variables).terms, self.coef, self.variables, given)

    @cached_property
    def switches(self) -> Switches | None:
        """F with a symbol for every sign, abs, max, min and comparison; None if it has none."""
        terms, given = self.basis.plan(self.variables).terms, len(self.states) + len(self.rates)
        # Only formulas can switch.
        if all(factor.expression is None for term in terms for factor in term):
            return None
        return Switches.of(terms, self.coef, self.variables, given)

    def __getstate__(self) -> dict[str, Any]:
        # Compiled functions cannot be pickled, and are compiled again when needed. The data are not copied.
        fields = {name: value for name, value in vars(self).items() if name not in ("rhs", "switches")}
        return {**fields, "fitted": None}

    def equations(self, *, errors: bool = True) -> list[str]:
        """One line per state, each coefficient as value(standard error in the last digit)."""
        lines = str(self._export("to_text", errors=flag(errors, "equations: `errors`"), parameters=False))
        return lines.splitlines()

    def to_text(self, *, errors: bool = True) -> str:
        """The equations, a line each, and then the parameters inside terms."""
        return str(self._export("to_text", errors=flag(errors, "to_text: `errors`")))

    def to_latex(self, *, errors: bool = False) -> str:
        r"""The equations in LaTeX, and the parameters inside terms.

        >>> import cindy
        >>> decay = cindy.Model([[0.0], [-2.0]], cindy.Polynomial(1), ("x",), coef_error=[[0.0], [0.01]])
        >>> print(decay.to_latex(errors=True).splitlines()[1])
        \dot{x} &= -2.00(1)\, x
        """
        return str(self._export("to_latex", errors=flag(errors, "to_latex: `errors`")))

    def to_sympy(self) -> Any:
        """The equations as SymPy expressions (extra: sympy).

        With random kicks they are the drift, and `diffusion.to_sympy()` gives the variances of the kicks.
        """
        return self._export("to_sympy")

    def to_python(self) -> str:
        """Python source of the right-hand side, which runs without this library.

        With random kicks (`diffusion`), a function `noise` gives their standard deviations.

        >>> import cindy
        >>> code = {}
        >>> exec(cindy.Model([[0.0], [-2.0]], cindy.Polynomial(1), ("x",)).to_python(), code)
        >>> code["rhs"](0.0, [3.0])
        [-6.0]
        """
        return str(self._export("to_python"))

    def to_c(self) -> str:
        """C source of the right-hand side, and with random kicks of `noise`, as in `to_python`."""
        return str(self._export("to_c"))

    def to_julia(self) -> str:
        """Julia source: f!(du, u, p, t) for DifferentialEquations.jl, and its parameters.

        With random kicks (`diffusion`), g! is the noise of an SDEProblem.
        """
        return str(self._export("to_julia"))

    def to_modelica(self, name: str = "Cindy", *, x0: ArrayLike | Mapping[str, float] | None = None) -> str:
        """A Modelica model called `name`; random kicks are left out, as its description says.

        x0: values to start from, as for `simulate`; zero if not given
        """
        text(name, "to_modelica: `name`")
        return str(self._export("to_modelica", name=name, x0=x0))

    def to_casadi(self) -> Any:
        """A casadi.Function of states, inputs and time that gives xdot, for optimal control (extra: control).

        It is of first order: for x'' = F both x and xdot hold positions and then rates. u is an argument if
        the model has inputs, and t if a term holds the time. A map gives x_next instead of xdot. Random
        kicks are left out.
        """
        return self._export("to_casadi")

    def to_fmu(
        self, path: str | os.PathLike[str], *, x0: ArrayLike | Mapping[str, float] | None = None
    ) -> pathlib.Path:
        """Write a functional mock-up unit, FMI 2.0, for model exchange and co-simulation; returns its path.

        States are outputs, inputs are inputs, coefficients and parameters are tunable parameters. The FMU
        holds C source and the library compiled from it; without a C compiler it holds the source alone, and
        a warning says so. Random kicks are left out, as its description says.

        x0: values to start from, as for `simulate`; zero if not given
        """
        file = file_path(path, "to_fmu: `path`")
        written: pathlib.Path = self._export("to_fmu", path=file, x0=x0)
        return written

    def to_sbml(self, x0: ArrayLike | Mapping[str, float] | None = None) -> str:
        """The equations as SBML, for biochemical simulators; of first order and without inputs only.

        Random kicks are left out, and a note says so.

        x0: (states,) concentrations to start from
        """
        return str(self._export("to_sbml", x0=x0))

    def _export(self, form: str, *, errors: bool = False, parameters: bool = True, **options: Any) -> Any:
        """What an exporter makes of the equations.

        errors, parameters: whether standard errors and the parameters inside terms are written
        """
        from cindy import export

        if options.get("x0") is not None:
            options["x0"] = start_of(self, options["x0"], None, form).tolist()
        kicks, order = self.diffusion, self.order
        variance = None if kicks is None else export.RightHandSides(
            kicks.basis.terms(kicks.variables), kicks.coef, self.states,
            errors=kicks.coef_error if errors else None, order=order,
        )  # fmt: skip
        sides = export.RightHandSides(
            self.basis.plan(self.variables).terms,
            self.coef,
            self.states,
            self.inputs,
            errors=self.coef_error if errors else None,
            order=order,
            discrete=self.formulation.discrete,
            parameters=self.parameters if parameters else {},
            kicks=variance,
        )
        return getattr(export, form)(sides, **options)

    def to_dataframe(self) -> Any:
        """A pandas table, a row per coefficient that is not zero: state, term, coef, error (extra: data).

        >>> import cindy
        >>> decay = cindy.Model([[0.0], [-2.0]], cindy.Polynomial(1), ("x",), coef_error=[[0.0], [0.01]])
        >>> decay.to_dataframe().values.tolist()
        [['x', 'x', -2.0, 0.01]]
        """
        pandas = require("pandas", "data", "Model.to_dataframe")
        equation, term = np.nonzero(self.coef.T)
        return pandas.DataFrame(
            {
                "state": [self.states[j] for j in equation],
                "term": [self.terms[i] for i in term],
                "coef": self.coef[term, equation],
                "error": self.coef_error[term, equation],
            }
        )

    def to_xarray(self) -> Any:
        """An xarray dataset: coef and error over (term, state) (extra: data)."""
        xarray = require("xarray", "data", "Model.to_xarray")
        axes = ("term", "state")
        return xarray.Dataset(
            {"coef": (axes, self.coef), "error": (axes, self.coef_error)},
            coords={"term": list(self.terms), "state": list(self.states)},
        )


def start_of(model: Equations, x0: Any, v0: Any, where: str) -> Floats:
    """The state to start from: positions, and velocities after them for order 2, at rest if not given."""
    d, names = len(model.states), model.states
    if isinstance(x0, Mapping) and len(x0) == 2 * d and model.order == 2:
        names += tuple(f"{name}'" for name in names)
    start = floats(in_order(x0, names, f"{where}: x0"), f"{where}: x0", ndim=1)
    if model.order == 2 and len(start) == d:
        rest = np.zeros(d) if v0 is None else in_order(v0, model.states, f"{where}: v0")
        start = np.concatenate([start, floats(rest, f"{where}: v0", ndim=1)])
    elif v0 is not None:
        why = "x0 holds velocities already" if model.order == 2 else "the equations are of first order"
        raise DataError(f"{where}: `v0` must be left out: {why}.")
    if len(start) != model.order * d:
        expected = f"{d} values ({', '.join(model.states)})"
        expected += f", with as many in v0, or {2 * d}" * (model.order == 2)
        hint = f" {', '.join(model.hidden)}: `smooth` estimates it from data." if model.hidden else ""
        raise DataError(f"{where}: x0 must have {expected}, but there are {len(start)} in all.{hint}")
    return start


def in_order(values: Any, names: Sequence[str], where: str) -> ArrayLike:
    """One value or column per name from a dict, a Series, a frame or a Trajectory; anything else unchanged.

    Frames whose columns have numbers for names are taken as arrays.
    """
    if isinstance(values, Trajectory):
        (trajectory,) = reordered([values], tuple(names), (), where)
        return trajectory.x
    keys = _keys(values)
    if not keys or not all(isinstance(key, str) for key in keys):
        return values  # type: ignore[no-any-return]
    for name in names:
        if name not in keys:
            raise DataError(f'{where} has no value for "{name}". {did_you_mean(name, keys)}')
    return np.stack([np.asarray(values[name]) for name in names], axis=-1)


def _keys(values: Any) -> list[Any]:
    if isinstance(values, Mapping):
        return list(values)
    if hasattr(values, "columns"):  # a frame
        return list(values.columns)
    return list(values.index) if hasattr(values, "to_frame") and hasattr(values, "index") else []


def reordered(
    data: list[Trajectory], states: tuple[str, ...], inputs: tuple[str, ...], where: str
) -> list[Trajectory]:
    """The trajectories with these states and inputs, in this order, and no others."""
    matching = []
    for trajectory in data:
        if (trajectory.states, trajectory.inputs) != (states, inputs):
            lacks = [name for name in states + inputs if name not in trajectory.variables]
            if lacks:
                raise DataError(
                    f"{where}: the model is about {', '.join(states + inputs)}, but the data hold "
                    f"{', '.join(trajectory.variables)}. Give the trajectories the names of the model."
                )
            place = {name: k for k, name in enumerate(trajectory.variables)}
            x, u = (trajectory.values[:, [place[name] for name in names]] for names in (states, inputs))
            measured = u if inputs else None
            trajectory = replace(trajectory.aligned(), x=x, states=states, u=measured, inputs=inputs)
        matching.append(trajectory)
    return matching
