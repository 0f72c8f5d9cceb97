"""Read-outs: sensors that measure combinations of states, y = H x with H known.

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
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from cindy._arrays import Floats
from cindy._check import did_you_mean, short
from cindy.basis import Custom
from cindy.data import Trajectory
from cindy.errors import DataError
from cindy.model.equations import Equations

__all__ = ["Readouts", "as_states"]

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
        made = [replace(one, x=self._states(one.x), states=self.states) for one in data]
        for j, state in enumerate(self.states):
            if all(np.isnan(one.x[:, j]).all() for one in made):
                columns = [name for name, row in zip(self.formulas, self.matrix, strict=True) if row[j]]
                raise DataError(
                    f"identify: no sample has the read-outs that determine the state {state}: "
                    f"{', '.join(columns)} and those of the states in their formulas are needed at one time. "
                    "Put them on common times."
                )
        return made

    def _states(self, y: Floats) -> Floats:
        """(samples, states): H⁺ y by the read-outs that are there; NaN where these do not tell a state."""
        x = np.full((len(y), len(self.states)), np.nan)
        there = np.isfinite(y)
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
    inverse[np.abs(inverse) < 1e-12 * np.abs(inverse).max()] = 0.0
    return np.asarray(inverse, dtype=np.float64), np.abs(np.diagonal(inverse @ matrix) - 1.0) < _DETERMINED


def _weights(name: str, text: str, states: tuple[str, ...]) -> Floats:
    """The row of H of one read-out; an error where its formula is not linear."""
    term = Custom({name: text})
    points = np.concatenate([np.zeros((1, len(states))), np.eye(len(states))])
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
