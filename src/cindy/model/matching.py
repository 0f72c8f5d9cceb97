"""Data as a model needs them: read-outs as states, time and run as inputs.

Read-outs are sensors that measure combinations of states, y = H x with H known, of any rank.

1. Read the formulas of `observe` as linear combinations of states. H has a column for each state and a row
   for each column of the data; a column without a formula is a state itself.
2. Choose coordinates c = Z x that the data determine: every state that the rows of H determine, then columns
   of the data until all rows are combinations of them, H = A Z. Z is the identity if H determines all states.
3. Compute the coordinates of a sample from its read-outs, c = A⁺ y with the rows of A for these. Two sensors
   of one state are averaged, samples may have different sensors, and a coordinate that these do not determine
   is missing. If sensors report at different times, few samples determine more than what one sensor
   measures; then c are the columns, and the states follow from them.
4. Directions of x that no row sees are hidden states. For each, name a state whose unit vector completes Z
   to an invertible matrix. If S + ES and P are measured, the equations are those of total = S + ES, P and a
   hidden ES, and S = total − ES follows; `identification/hidden.py` says what stays open about hidden states.

A model remembers H: data in the columns that it was identified from are turned into states wherever they are
used, and `score` compares read-outs. The noise of states that share a read-out is correlated, which the
rows at denoised states account for (`Record.correlation`). Without denoising the standard errors assume
independent noise, and a finding says so.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from cindy._arrays import Floats
from cindy._check import did_you_mean, short
from cindy.basis import TIME, Custom, is_run, listed
from cindy.data import Trajectory
from cindy.errors import CindyError, DataError
from cindy.findings import Finding
from cindy.model.equations import Equations

_NAME = re.compile(r"[^\W\d]\w*")
_MEAN = re.compile(r"\s*mean\((.*?)(?:,([^,()]*))?\)\s*")
_NUMBER = re.compile(r"\b\d+(\.\d*)?([eE][-+]?\d+)?")
_JOINT_SHARE = 0.5
"""Share of the samples with read-outs of a state that determine it: below, sensors report separately."""
_DETERMINED = 1e-9
"""Rounding error of H⁺ H, relative to a state."""


@dataclass(frozen=True, eq=False)
class Readouts:
    """What the columns of data measure.

    formulas: by column, of all columns; named: the states that formulas name
    states: the coordinates that the data determine; coordinates: Z, (coordinates, named states)
    matrix: A, (columns, coordinates)
    hidden: states for the directions that no read-out sees; none if H determines all states
    exposure: of each column, the time before a sample over which it is a mean; 0 for a value
    """

    formulas: Mapping[str, str]
    named: tuple[str, ...]
    states: tuple[str, ...]
    coordinates: Floats
    matrix: Floats
    hidden: tuple[str, ...]
    exposure: tuple[float, ...]

    @classmethod
    def of(cls, observe: Any, columns: tuple[str, ...], wanted: Sequence[str] = ()) -> Readouts:
        """From the argument of `identify`, for data with these columns.

        wanted: states that the user calls hidden, which are tried first as hidden states
        """
        if not isinstance(observe, Mapping) or not all(isinstance(v, str) for v in observe.values()):
            raise DataError(
                'identify: `observe` must be formulas by column, such as {"total": "S + ES"}, but is '
                f"{short(observe)}."
            )
        for name in observe:
            if name not in columns:
                raise DataError(
                    f"identify: `observe` names the column {name!r}, and the data have {', '.join(columns)}. "
                    + did_you_mean(str(name), columns)
                )
        formulas = {name: observe.get(name, name) for name in columns}
        # Step 1.
        parsed = {name: _averaged(name, text) for name, text in formulas.items()}
        named = tuple(
            dict.fromkeys(n for text, _ in parsed.values() for n in _NAME.findall(_NUMBER.sub(" ", text)))
        )
        matrix = np.array([_weights(name, text, named) for name, (text, _) in parsed.items()])
        exposure = tuple(seconds for _, seconds in parsed.values())
        _check_names(formulas, named, matrix, exposure)
        # Step 2: states first, then columns.
        unit = np.eye(len(named))
        seen = np.linalg.norm(unit - np.linalg.pinv(matrix) @ matrix, axis=0) < _DETERMINED
        own = tuple(name for name, determined in zip(named, seen, strict=True) if determined)
        states, coordinates = _independent(columns, matrix, own, unit[seen])
        parts = matrix if len(states) == len(named) else _combinations(matrix, coordinates)
        # Step 4. After the states that the user calls hidden come the last named, often reaction products.
        rest = [name for name in (*wanted, *named[::-1]) if name in named and name not in states]
        others = tuple(dict.fromkeys(rest))
        hidden = _independent(others, unit[[named.index(name) for name in others]], (), coordinates)[0]
        return cls(formulas, named, states, coordinates, parts, hidden, exposure)

    @property
    def derived(self) -> dict[str, str]:
        """Formulas of the named states that are neither determined nor hidden, in terms of those that are."""
        units = np.eye(len(self.named))[[self.named.index(name) for name in self.hidden]]
        inverse = np.linalg.inv(np.concatenate([self.coordinates, units]))
        known = (*self.states, *self.hidden)
        return {
            name: _sum(known, row) for name, row in zip(self.named, inverse, strict=True) if name not in known
        }

    def apart(self, data: Sequence[Trajectory]) -> bool:
        """Whether sensors report at different times, so that few samples determine a state.

        data: columns at the middle of their exposures
        """
        seen = np.concatenate([np.isfinite(trajectory.x) for trajectory in data])
        determined = np.concatenate([np.isfinite(self._states(trajectory.x)) for trajectory in data])
        reported = np.stack([seen[:, row != 0].any(axis=1) for row in self.matrix.T], axis=1)
        return bool(np.any(determined.sum(axis=0) < _JOINT_SHARE * reported.sum(axis=0)))

    def in_columns(self) -> Readouts:
        """The same read-outs with columns as the states, for sensors that report at different times.

        Equations of the states are equations of the columns in other coordinates.
        """
        columns = tuple(self.formulas)
        rows = self.matrix @ self.coordinates
        states, coordinates = _independent(columns, rows, (), np.zeros((0, len(self.named))))
        parts = _combinations(rows, coordinates)
        formulas = {}
        for column, row, seconds in zip(columns, parts, self.exposure, strict=True):
            inner = _sum(states, row)
            formulas[column] = f"mean({inner}, {seconds!r})" if seconds else inner
        return replace(self, formulas=formulas, states=states, coordinates=coordinates, matrix=parts)

    def findings(self) -> Iterator[Finding]:
        """The findings about a model that was identified from these columns."""
        if not self.hidden and self.derived:
            follow = ", ".join(f"{state} is {formula}" for state, formula in self.derived.items())
            message = (
                f"The sensors report at times of their own, and few samples have what determines all states. "
                f"The equations are those of {listed(self.states)}, which were measured; {follow}."
            )
            yield Finding("separate-readouts", message, {"told": list(self.states), "follow": self.derived})
        if self.hidden:
            follow = "".join(f" {state} is {formula}." for state, formula in self.derived.items())
            were = "was" if len(self.hidden) == 1 else "were"
            message = (
                f"The read-outs {', '.join(self.formulas)} determine {listed(self.states)} and no more of "
                f"the states {listed(self.named)}. {listed(self.hidden)} {were} found as "
                f"hidden, only up to a change of unit and zero and of what is added of the others.{follow}"
            )
            values = {"told": list(self.states), "hidden": list(self.hidden), "follow": self.derived}
            yield Finding("partial-readouts", message, values)

    def correlation(self, noise: Floats) -> Floats | None:
        """(states, states) correlation of the noise of states; None if independent.

        States are A⁺ y, so that their noise has the covariance A⁺ diag(noise²) A⁺ᵀ with that of the columns.
        """
        shares = _inverse(self.matrix)[0] * noise
        shares = shares / np.linalg.norm(shares, axis=1, keepdims=True)
        correlation = shares @ shares.T
        np.fill_diagonal(correlation, 1.0)
        return correlation if np.any(np.abs(correlation - np.eye(len(correlation))) > _DETERMINED) else None

    def shared_noise(self) -> Finding:
        """The finding that states share noise, which the standard errors do not account for."""
        message = (
            "States were computed from several read-outs and share their noise, but the standard errors "
            "assume independent noise."
        )
        return Finding("shared-readouts", message, {"observe": dict(self.formulas)})

    def aligned(self, data: Sequence[Trajectory]) -> list[Trajectory]:
        """The columns at the middle of their exposures, each at times of its own if these differ."""
        return [self._aligned(trajectory) for trajectory in data] if any(self.exposure) else list(data)

    def _aligned(self, trajectory: Trajectory) -> Trajectory:
        signal, sensors = trajectory.signal(), []
        for exposure in dict.fromkeys(self.exposure):
            own = [j for j, seconds in enumerate(self.exposure) if seconds == exposure]
            t = trajectory.t - exposure / 2
            u = None if signal is None else signal.at(t)
            states = tuple(trajectory.states[j] for j in own)
            sensors.append(replace(trajectory, t=t, x=trajectory.x[:, own], states=states, u=u))
        both = Trajectory.merged(sensors) if len(sensors) > 1 else sensors[0]
        order = [both.states.index(name) for name in trajectory.states]
        return replace(both, x=both.x[:, order], states=trajectory.states)

    def of_data(self, data: Sequence[Trajectory]) -> list[Trajectory]:
        """The trajectories of the states."""
        return self.of_aligned(self.aligned(data))

    def of_aligned(self, data: Sequence[Trajectory]) -> list[Trajectory]:
        """The same from columns at the middle of their exposures."""
        trajectories = [
            replace(trajectory, x=self._states(trajectory.x), states=self.states) for trajectory in data
        ]
        for j, state in enumerate(self.states):
            if all(np.isnan(trajectory.x[:, j]).all() for trajectory in trajectories):
                columns = [name for name, row in zip(self.formulas, self.matrix, strict=True) if row[j]]
                raise DataError(
                    f"identify: no sample has the read-outs that determine the state {state}: "
                    f"{', '.join(columns)} and those of the states in their formulas are needed at one time. "
                    "Put them on common times."
                )
        return trajectories

    def _states(self, y: Floats) -> Floats:
        """(samples, states): A⁺ y by the read-outs of each sample; NaN if these do not determine a state."""
        x = np.full((len(y), len(self.states)), np.nan)
        # Step 3, once for every combination of sensors that report together.
        reported = np.isfinite(y)
        for pattern in np.unique(reported, axis=0):
            if pattern.any():
                rows = (reported == pattern).all(axis=1)
                inverse, determined = _inverse(self.matrix[pattern])
                x[rows] = np.where(determined, y[np.ix_(rows, pattern)] @ inverse.T, np.nan)
        return x

    def columns_of(self, states: tuple[str, ...], values: Floats) -> Floats:
        """(samples, columns) read-outs of the states of a model."""
        return np.asarray(values[:, [states.index(name) for name in self.states]] @ self.matrix.T)


def _inverse(matrix: Floats) -> tuple[Floats, Any]:
    """The pseudo-inverse of a matrix, and which states it determines."""
    rows, states = matrix.shape
    square = rows == states and np.linalg.matrix_rank(matrix) == states
    inverse = np.asarray(np.linalg.inv(matrix) if square else np.linalg.pinv(matrix), dtype=np.float64)
    inverse[np.abs(inverse) < 1e-12 * np.abs(inverse).max()] = 0.0
    return np.asarray(inverse, dtype=np.float64), np.abs(np.diagonal(inverse @ matrix) - 1.0) < _DETERMINED


def _combinations(rows: Floats, coordinates: Floats) -> Floats:
    """The matrix A by which rows are combinations of the coordinates, rows = A Z; rounding becomes zero."""
    parts: Floats = np.linalg.lstsq(coordinates.T, rows.T, rcond=None)[0].T.astype(np.float64)
    parts[np.abs(parts) < _DETERMINED * np.abs(parts).max()] = 0.0
    return parts


def _averaged(column: str, text: str) -> tuple[str, float]:
    """The formula inside a mean, and its exposure; 0 without a mean."""
    mean = _MEAN.fullmatch(text)
    if mean is None:
        return text, 0.0
    try:
        exposure = float(mean[2] or "nan")
    except ValueError:
        exposure = np.nan
    if not 0 < exposure < np.inf:
        raise DataError(
            f'identify: the mean in the read-out {column!r} needs a time, as in "mean(x, 0.4)", but it is '
            f"{text!r}."
        )
    return mean[1], exposure


def _check_names(
    formulas: Mapping[str, str], named: tuple[str, ...], matrix: Floats, exposure: Sequence[float]
) -> None:
    """Refuse columns that measure nothing, and names of columns that formulas use for another state."""
    for (column, text), row, seconds in zip(formulas.items(), matrix, exposure, strict=True):
        if not row.any():
            raise DataError(f"identify: the read-out {column!r} is {text!r}, which is zero for all states.")
        if column in named and (seconds or np.any(row != (np.array(named) == column))):
            raise DataError(
                f"identify: the column {column!r} measures {text!r}, and a formula names a state {column} "
                "as well. Give the column another name."
            )


def _independent(
    columns: tuple[str, ...], matrix: Floats, names: tuple[str, ...], rows: Floats
) -> tuple[tuple[str, ...], Floats]:
    """The rows and their names, with those rows of a matrix that are no combinations of the rows before."""
    for column, row in zip(columns, matrix, strict=True):
        longer = np.concatenate([rows, row[None]])
        if np.linalg.matrix_rank(longer) > len(rows):
            names, rows = (*names, column), longer
    return names, rows


def _sum(names: Sequence[str], weights: Floats) -> str:
    """A linear combination as a formula."""
    text = ""
    for name, weight in zip(names, weights, strict=True):
        if abs(weight) > _DETERMINED:
            size = "" if abs(abs(weight) - 1) < _DETERMINED else f"{abs(weight):.6g}*"
            text += (" - " if weight < 0 else " + ") + size + name
    return text.removeprefix(" + ").replace(" - ", "-", 1) if text.startswith(" - ") else text[3:]


def _weights(name: str, text: str, states: tuple[str, ...]) -> Floats:
    """The row of H of one read-out; an error where its formula is not linear."""
    points = np.concatenate([np.zeros((1, len(states))), np.eye(len(states))])
    probe = np.random.default_rng(0).uniform(-2.0, 2.0, (4, len(states)))
    try:
        values = np.asarray(Custom({name: text}).evaluate(np.concatenate([points, probe]), states))[:, 0]
    except CindyError as error:
        why = str(error).removeprefix("Custom: ")
        raise DataError(
            f'identify: the read-out {name!r} must be a linear combination of states such as "S + 2*ES", but '
            f"{text!r} is none. {why[:1].upper()}{why[1:]}"
        ) from error
    weights = values[1 : len(states) + 1] - values[0]
    if abs(values[0]) > 1e-12 or not np.allclose(probe @ weights, values[len(states) + 1 :], atol=1e-9):
        raise DataError(
            f"identify: the read-out {name!r} must be a linear combination of states, but is {text!r}. "
            "Work the states out beforehand, or give terms of your own."
        )
    return np.asarray(weights)


def as_states(model: Equations, data: list[Trajectory]) -> tuple[list[Trajectory], Readouts | None]:
    """The data as trajectories of states, and the read-outs if their columns are those of the model."""
    names = data[0].states
    readouts = None if set(names) <= set(model.states) else _readouts(model, names)
    return (data, None) if readouts is None else (readouts.of_data(data), readouts)


def shared_noise(model: Equations) -> Floats | None:
    """The correlation of the noise of states that follow from read-outs; None if it is independent."""
    columns = model.settings.get("column_noise")
    if not isinstance(columns, Mapping):
        return None
    readouts = _readouts(model, tuple(columns))
    return None if readouts is None else readouts.correlation(np.array([float(v) for v in columns.values()]))


def _readouts(model: Equations, columns: tuple[str, ...]) -> Readouts | None:
    """The read-outs of a model, if the columns are those that it was identified from."""
    observe = model.settings.get("observe")
    if not isinstance(observe, Mapping) or set(columns) != set(observe):
        return None
    return Readouts.of({name: observe[name] for name in columns}, columns)


def unmeasured(name: str) -> bool:
    """Whether an input is the time or a run, which follow from the trajectory itself."""
    return name == TIME or is_run(name)


def run_names(data: Sequence[Trajectory]) -> tuple[str, ...]:
    """The input of every trajectory, called by its name if all have different names, else by its number."""
    names = [trajectory.name for trajectory in data]
    if not all(names) or len(set(names)) < len(names):
        names = [f"run {k}" for k in range(1, len(data) + 1)]
    return tuple(f"[{name}]" for name in names)


def with_inputs(data: Sequence[Trajectory], inputs: Sequence[str]) -> list[Trajectory]:
    """The trajectories with the time and the runs as inputs, as far as `inputs` names them.

    A trajectory belongs to the run of its name, or else to the run of its number.
    """
    present = data[0].inputs
    missing = [name for name in inputs if name not in present and unmeasured(name)]
    if not missing:
        return list(data)
    runs = [name for name in inputs if is_run(name)]
    own = run_names(data)
    # The model cannot predict a run that it has no coefficients for.
    if runs and not set(own) <= set(runs):
        unknown = ", ".join(sorted(set(own) - set(runs))[:3])
        raise DataError(
            f"The model has coefficients for {', '.join(runs[:6])}{', …' if len(runs) > 6 else ''}, "
            f"but not for {unknown}. Give the trajectories the names of those runs."
        )
    return [_with(trajectory, missing, run) for trajectory, run in zip(data, own, strict=True)]


def _with(trajectory: Trajectory, missing: Sequence[str], run: str) -> Trajectory:
    def column(name: str) -> Floats:
        return np.asarray(trajectory.t) if name == TIME else np.full(len(trajectory), float(name == run))

    measured = [] if trajectory.u is None else [trajectory.u]
    u = np.column_stack([*measured, *(column(name) for name in missing)])
    return replace(trajectory, u=u, inputs=(*trajectory.inputs, *missing))
