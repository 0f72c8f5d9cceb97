"""Data as a model needs them: read-outs as states, time and run as inputs, samples where terms are defined.

Read-outs are sensors that measure combinations of states, y = H x with H known.

1. The formulas of `observe` are read as linear combinations of states: H has a column for each state, and a
   row for each column of the data. A column without a formula is a state itself.
2. The states of a sample follow from the read-outs that it has, x = H⁺ y with the rows of H that are there:
   two sensors of one state are averaged, and which sensors report may differ from sample to sample. A state
   that these do not determine is missing there.
3. Where all rows together do not determine a state, nothing here can tell it apart, and that is said.

A model remembers H. Data in the columns that it was identified from are turned into states wherever it meets
data again, and `score` compares read-outs. The noise of states that share a read-out is correlated. Estimates
stay consistent, but errors take the noise of the states for independent; a finding says so.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from cindy._arrays import Floats
from cindy._check import did_you_mean, short
from cindy.basis import TIME, Basis, Custom, is_run, term_parameters
from cindy.data import Trajectory
from cindy.errors import DataError
from cindy.model.equations import Equations

__all__ = [
    "Readouts",
    "as_states",
    "between",
    "inside_domain",
    "outside_domain",
    "run_names",
    "unmeasured",
    "with_inputs",
]

_NAME = re.compile(r"[^\W\d]\w*")
_DETERMINED = 1e-9
"""Of a state: what rounding may leave of it in H⁺ H."""


@dataclass(frozen=True, eq=False)
class Readouts:
    """What the columns of data measure.

    formulas: by column, of all columns; states: those that formulas name; matrix: H, (columns, states)
    """

    formulas: Mapping[str, str]
    states: tuple[str, ...]
    matrix: Floats

    @classmethod
    def of(cls, observe: Any, columns: tuple[str, ...]) -> Readouts:
        """From the argument of `identify`, for data with these columns; an error says what cannot be."""
        if not isinstance(observe, Mapping) or not all(isinstance(v, str) for v in observe.values()):
            raise DataError(
                'identify: `observe` must be formulas by column, such as {"total": "S + ES"}, but is '
                f"{short(observe)}."
            )
        for name in observe:
            if name not in columns:
                raise DataError(
                    f"identify: `observe` names the column {name!r}, and the data have {', '.join(columns)}. "
                    + did_you_mean(name, columns)
                )
        formulas = {name: observe.get(name, name) for name in columns}
        states = tuple(dict.fromkeys(n for text in formulas.values() for n in _NAME.findall(text)))
        matrix = np.array([_weights(name, text, states) for name, text in formulas.items()])
        # Step 3.
        rank = int(np.linalg.matrix_rank(matrix))
        if rank < len(states):
            raise DataError(
                f"identify: the {len(columns)} read-outs {', '.join(columns)} determine {rank} "
                f"combination(s) of the {len(states)} states {', '.join(states)}. Measure more of them, or "
                "leave a state that nobody measured out of the formulas and find it with hidden=1."
            )
        return cls(formulas, states, matrix)

    @property
    def shared(self) -> bool:
        """Whether a state is worked out from several read-outs."""
        return bool((np.count_nonzero(_inverse(self.matrix)[0], axis=1) > 1).any())

    def of_data(self, data: Sequence[Trajectory]) -> list[Trajectory]:
        """The trajectories of the states."""
        trajectories = [replace(one, x=self._states(one.x), states=self.states) for one in data]
        for j, state in enumerate(self.states):
            if all(np.isnan(one.x[:, j]).all() for one in trajectories):
                columns = [name for name, row in zip(self.formulas, self.matrix, strict=True) if row[j]]
                raise DataError(
                    f"identify: no sample has the read-outs that determine the state {state}: "
                    f"{', '.join(columns)} and those of the states in their formulas are needed at one time. "
                    "Put them on common times."
                )
        return trajectories

    def _states(self, y: Floats) -> Floats:
        """(samples, states): H⁺ y by the read-outs that are there; NaN where these do not tell a state."""
        x = np.full((len(y), len(self.states)), np.nan)
        there = np.isfinite(y)
        # Step 2: samples that lack the same read-outs share one inverse.
        for pattern in np.unique(there, axis=0):
            if pattern.any():
                rows = (there == pattern).all(axis=1)
                inverse, determined = _inverse(self.matrix[pattern])
                x[rows] = np.where(determined, y[np.ix_(rows, pattern)] @ inverse.T, np.nan)
        return x

    def columns_of(self, states: tuple[str, ...], values: Floats) -> Floats:
        """(samples, columns) that states of a model would be measured as."""
        return np.asarray(values[:, [states.index(name) for name in self.states]] @ self.matrix.T)


def _inverse(matrix: Floats) -> tuple[Floats, Any]:
    """H⁺, and which states it determines."""
    rows, states = matrix.shape
    square = rows == states and np.linalg.matrix_rank(matrix) == states
    inverse = np.asarray(np.linalg.inv(matrix) if square else np.linalg.pinv(matrix), dtype=np.float64)
    # Rounding would make a state depend on a read-out that has nothing to do with it, and be missing with
    # it.
    inverse[np.abs(inverse) < 1e-12 * np.abs(inverse).max()] = 0.0
    return np.asarray(inverse, dtype=np.float64), np.abs(np.diagonal(inverse @ matrix) - 1.0) < _DETERMINED


def _weights(name: str, text: str, states: tuple[str, ...]) -> Floats:
    """The row of H of one read-out; an error where its formula is not linear."""
    term = Custom({name: text})
    points = np.concatenate([np.zeros((1, len(states))), np.eye(len(states))])
    # A formula is linear if its values at unit vectors predict those at random points.
    probe = np.random.default_rng(0).uniform(-2.0, 2.0, (4, len(states)))
    values = np.asarray(term.evaluate(np.concatenate([points, probe]), states))[:, 0]
    weights = values[1 : len(states) + 1] - values[0]
    if abs(values[0]) > 1e-12 or not np.allclose(probe @ weights, values[len(states) + 1 :], atol=1e-9):
        raise DataError(
            f"identify: the read-out {name!r} must be a linear combination of states, but is {text!r}. "
            "Work the states out beforehand, or give terms of your own."
        )
    return np.asarray(weights)


def as_states(model: Equations, data: list[Trajectory]) -> tuple[list[Trajectory], Readouts | None]:
    """The data as trajectories of states, and what their columns are where they are a model's read-outs."""
    observe = model.settings.get("observe")
    names = data[0].states
    if not isinstance(observe, Mapping) or set(names) != set(observe) or set(names) <= set(model.states):
        return data, None
    readouts = Readouts.of({name: observe[name] for name in names}, names)
    return readouts.of_data(data), readouts


def unmeasured(name: str) -> bool:
    """Whether an input follows from the trajectory itself."""
    return name == TIME or is_run(name)


def run_names(data: Sequence[Trajectory]) -> tuple[str, ...]:
    """An input for every trajectory, called as it is where all have names, and by number otherwise."""
    names = [one.name for one in data]
    if not all(names) or len(set(names)) < len(names):
        names = [f"run {k}" for k in range(1, len(data) + 1)]
    return tuple(f"[{name}]" for name in names)


def with_inputs(data: Sequence[Trajectory], inputs: Sequence[str]) -> list[Trajectory]:
    """The trajectories with what is missing of `inputs`, as far as nobody measures it: the time and the runs.

    A trajectory belongs to the run that is called as it is, or else to the one in its place.
    """
    known = data[0].inputs
    missing = [name for name in inputs if name not in known and unmeasured(name)]
    if not missing:
        return list(data)
    runs = [name for name in inputs if is_run(name)]
    own = run_names(data)
    # A run that the model has no coefficients for cannot be predicted, and another's coefficients would be
    # wrong.
    if runs and not set(own) <= set(runs):
        shown = ", ".join(sorted(set(own) - set(runs))[:3])
        raise DataError(
            f"The model has coefficients for {', '.join(runs[:6])}{', …' if len(runs) > 6 else ''}, "
            f"but not for {shown}. Give the trajectories the names of those runs."
        )
    return [_with(one, missing, run) for one, run in zip(data, own, strict=True)]


def _with(one: Trajectory, missing: Sequence[str], run: str) -> Trajectory:
    def column(name: str) -> Floats:
        return np.asarray(one.t) if name == TIME else np.full(len(one), float(name == run))

    known = [] if one.u is None else [one.u]
    u = np.column_stack([*known, *(column(name) for name in missing)])
    return replace(one, u=u, inputs=(*one.inputs, *missing))


Mask = NDArray[np.bool_]

_FEW = 0.05
"""Share of the samples that noise may be blamed for. Where more are outside, the range of a parameter is."""
_VALUES = 5
"""Values of an unknown parameter at which its terms are looked at, from end to end."""


def inside_domain(model: Equations, data: Sequence[Trajectory]) -> tuple[list[Trajectory], int]:
    """The data with the few samples at which terms are undefined moved in between their neighbours in time,
    and how many these are."""
    if not model.basis.parameter_names() or model.rates:
        return list(data), 0
    # Noise can push a concentration below zero, where √x has no value; few such samples are noise, many a
    # wrong range of a parameter.
    points = np.concatenate([one.values for one in data])
    outside = outside_domain(model.basis, model.variables, points)
    if not outside.any():
        return list(data), 0
    # Back to trajectory by trajectory.
    masks = np.split(outside, np.cumsum([len(one) for one in data])[:-1])
    moved = [replace(one, x=between(one.t, one.x, mask)) for one, mask in zip(data, masks, strict=True)]
    return moved, int(outside.sum())


def outside_domain(basis: Basis, variables: tuple[str, ...], points: Floats) -> Mask:
    """(n,) where a term with parameters has no value although everything was measured."""
    columns = dict(zip(variables, points.T, strict=True))
    every = np.zeros(len(points), dtype=bool)
    measured = np.isfinite(points).all(axis=1)
    for placed in _placed(basis):
        here = np.zeros(len(points), dtype=bool)
        with np.errstate(all="ignore"):
            for term in placed.terms(variables):
                for factor in term if term_parameters(term) else ():
                    if factor.expression is not None:
                        here |= measured & ~np.isfinite(factor.expression.evaluate(columns))
        if here.mean() <= _FEW:
            every |= here
    return every


def _placed(basis: Basis) -> Iterator[Basis]:
    """The basis as it is, or with each unknown parameter at a few values, the others in mid-range."""
    unknown = basis.unknowns()
    middle = {one.name: one.middle for one in unknown}
    if not unknown:
        yield basis
    for one in unknown:
        for value in one.grid(_VALUES):
            yield basis.at({**middle, one.name: float(value)})


def between(t: Floats, x: Floats, outside: Mask) -> Floats:
    """(samples, states): straight lines through the measurements around."""
    filled = np.array(x)
    for column in filled.T:
        known = ~outside & np.isfinite(column)
        if known.any():
            column[outside] = np.interp(t[outside], t[known], column[known])
    return filled
