"""Equations: a right-hand side F(x) = Ξᵀ ψ(x), evaluated, compiled and written down."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from cindy._check import did_you_mean, floats, numbers
from cindy._extras import require
from cindy._types import Floats
from cindy.basis import Basis, compile_jacobian, compile_rhs, term_label
from cindy.data import Field, Trajectory
from cindy.errors import DataError
from cindy.findings import Finding
from cindy.formulation import Formulation
from cindy.model.records import Estimate, Run

__all__ = ["Equations", "in_order", "reordered"]


class Equations:
    """What a model is by its equations alone; `Model` describes the attributes, which are its fields."""

    coef: Floats
    coef_error: Floats
    basis: Basis
    states: tuple[str, ...]
    inputs: tuple[str, ...]
    formulation: Formulation
    noise: Floats
    model_error: Floats
    scale: Floats
    parameters: Mapping[str, Estimate]
    inclusion: Floats
    near: Any
    gap: float
    radius: float
    violation: float
    result: Run | None
    constraints: tuple[str, ...]
    findings: tuple[Finding, ...]
    denoised: bool
    explained: Mapping[str, float]

    @property
    def warnings(self) -> tuple[str, ...]:
        """The sentences of the findings."""
        return tuple(one.message for one in self.findings)

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
        """The terms as they are shown: E·S where ES is a state too, names that are no words in quotes."""
        return tuple(term_label(term, self.variables) for term in self.basis.terms(self.variables))

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
        """The row and column of a coefficient, by name."""
        for name, known, what in ((state, self.states, "state"), (term, self.terms, "term")):
            if name not in known:
                raise DataError(f'The model has no {what} "{name}". {did_you_mean(name, known)}')
        return self.terms.index(term), self.states.index(state)

    def predict(self, x: ArrayLike | Trajectory, u: ArrayLike | None = None) -> Floats:
        """F at the rows of x: (n, states) for (n, states), (states,) for one row; u alike, for the inputs.

        Where terms may hold rates, x holds them too: (n, 2 · states), the positions and then their rates.
        Columns of a frame, and states of a Trajectory, are found by their names.
        """
        columns = self.states + self.rates
        if isinstance(x, Field):
            raise DataError(
                "predict: a Field has no rates at single rows. Use score(field), or simulate(field.first, t)."
            )
        if isinstance(x, Trajectory) and u is None and not self.rates:
            (x,) = reordered([x], self.states, self.inputs, "predict")
            u = x.u
        values = numbers(in_order(x, columns, "predict: x"), "predict: x")
        rows = np.atleast_2d(values)
        if values.ndim not in (1, 2) or rows.shape[1] != len(columns):
            what = "states and rates" if self.rates else "states"
            raise DataError(
                f"predict: x must have one column for each of the {len(columns)} {what} "
                f"{', '.join(columns)}, but has shape {values.shape}."
            )
        if self.inputs:
            rows = np.hstack([rows, self._input_rows(u, len(rows))])
        elif u is not None:
            raise DataError("predict: the model has no inputs, so `u` must be left out.")
        result: Floats = self.basis.evaluate(rows, self.variables) @ self.coef
        return result[0] if values.ndim == 1 else result

    def _input_rows(self, u: ArrayLike | None, rows: int) -> Floats:
        names = ", ".join(self.inputs)
        if u is None:
            raise DataError(f"predict: the model has the inputs {names}; pass their values as `u`.")
        array = np.asarray(u, dtype=np.float64)
        if array.ndim < 2:
            array = array.reshape(rows, -1) if array.size % rows == 0 else np.atleast_2d(array)
        if array.shape != (rows, len(self.inputs)):
            raise DataError(
                f"predict: u must have a row for each of the {rows} rows of x and a column for each of "
                f"{names}, but has shape {np.shape(u)}."
            )
        return floats(array, "predict: u", ndim=2)

    @cached_property
    def rhs(self) -> Callable[..., list[float]]:
        """F compiled, as (t, x) → a list, or (t, x, u) with inputs: ready for scipy.integrate."""
        given = len(self.states) + len(self.rates)
        return compile_rhs(self.basis.terms(self.variables), self.coef, self.variables, given)

    @cached_property
    def jacobian(self) -> Callable[..., list[list[float]]]:
        """∂F/∂x compiled, as (t, x) → a list of rows, or (t, x, u) with inputs; x as in `predict`."""
        given = len(self.states) + len(self.rates)
        return compile_jacobian(self.basis.terms(self.variables), self.coef, self.variables, given)

    def __getstate__(self) -> dict[str, Any]:
        # Compiled functions cannot be pickled; they are made again when needed.
        return {name: value for name, value in vars(self).items() if name not in ("rhs", "jacobian")}

    def equations(self, *, errors: bool = True) -> list[str]:
        """One line per state, each coefficient as value(standard error in the last digit)."""
        return str(self._export("to_text", errors=errors)).splitlines()

    def to_text(self, *, errors: bool = True) -> str:
        """The equations, a line each, and then the parameters inside terms."""
        return str(self._export("to_text", errors=errors, parameters=self.parameters))

    def to_latex(self, *, errors: bool = False) -> str:
        """The equations in LaTeX, and the parameters inside terms."""
        return str(self._export("to_latex", errors=errors, parameters=self.parameters))

    def to_sympy(self) -> Any:
        """The equations as SymPy objects (extra: sympy)."""
        return self._export("to_sympy")

    def to_python(self) -> str:
        """Python source of the right-hand side, which runs without this library."""
        return str(self._export("to_python"))

    def to_c(self) -> str:
        """C source of the right-hand side."""
        return str(self._export("to_c"))

    def to_sbml(self, x0: ArrayLike | None = None) -> str:
        """The equations as SBML, for biochemical simulators; of first order and without inputs only.

        x0: (states,) concentrations to start from
        """
        return str(self._export("to_sbml", initial=x0))

    def _export(self, form: str, *, errors: bool = False, **options: Any) -> Any:
        from cindy import export

        sides = export.RightHandSides.of(
            self.basis.terms(self.variables),
            self.coef,
            self.states,
            self.inputs,
            errors=self.coef_error if errors else None,
            order=self.order,
            discrete=self.formulation.discrete,
        )
        return getattr(export, form)(sides, **options)

    def to_dataframe(self) -> Any:
        """A pandas table, a row per coefficient that is not zero: state, term, coef, error (extra: data)."""
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


def in_order(values: Any, names: Sequence[str], where: str) -> ArrayLike:
    """One value, or column, for each name, of a dict, a Series, a frame or a Trajectory; else as it came.

    Frames whose columns have no names, only numbers, are taken as arrays.
    """
    if isinstance(values, Trajectory):
        (one,) = reordered([values], tuple(names), (), where)
        return one.x
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
    """The trajectories with these states and inputs, in this order; what else they hold is left out."""
    found = []
    for one in data:
        if (one.states, one.inputs) != (states, inputs):
            lacks = [name for name in states + inputs if name not in one.variables]
            if lacks:
                raise DataError(
                    f"{where}: the model is about {', '.join(states + inputs)}, but the data hold "
                    f"{', '.join(one.variables)}. Give the trajectories the names of the model."
                )
            place = {name: k for k, name in enumerate(one.variables)}
            x, u = (one.values[:, [place[name] for name in names]] for names in (states, inputs))
            known = u if inputs else None
            one = replace(one.aligned(), x=x, states=states, u=known, inputs=inputs)
        found.append(one)
    return found
