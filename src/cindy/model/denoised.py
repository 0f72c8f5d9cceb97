"""Denoised: the noise-free states that were estimated together with the equations, and the rows at them.

Identification ends with the most likely states x̂ under the equations, and with the white rows

    L⁻¹ [W ψ(x̂) | D y − W J (y − x̂)],   L Lᵀ = S,

for all candidate coefficients (D differences, W integrals, J the Jacobian at x̂, S the covariance of the
residuals by noise and model error). Both stay with the model in memory, so that `smooth`, solutions,
diagnostics and the report need not estimate them again. For other data they are estimated under the
equations, the noise and the model error of the model.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from cindy._arrays import Floats, Ints
from cindy.basis import Custom
from cindy.data import Trajectory, as_trajectories
from cindy.errors import DataError
from cindy.least_squares import LeastSquares, Rows
from cindy.model.equations import Equations, reordered
from cindy.model.matching import as_states, shared_noise, unmeasured, with_inputs
from cindy.states import Fitted, Motion, smoothed, states_under

_MOST_COLUMNS = 300
"""Coefficients up to which the rows of other data are computed for every term. Beyond, only for the terms of
the model: 1,000 terms and 10,000 samples would take longer than the report that needs them."""
_FIRST_VALUE_NOISE = 0.1
"""Noise that is assumed of first values of a hidden state, relative to its scale."""
_MOST_SEARCHED = 200
"""Trajectories that are searched for a part that begins within one of them."""


@dataclass(frozen=True, eq=False)
class EquationRows:
    """Rows of one equation in square-root form: `design` (m, len(terms)) beside `target` (m,).

    terms: those that have a column; rows: how many rows the m stand for
    """

    terms: Ints
    design: Floats
    target: Floats
    rows: int


@dataclass(frozen=True, eq=False)
class Denoised:
    """Denoised states of the data of a model, and the white rows at them.

    states: by number of trajectory, (samples, states and rates); NaN where a stretch was too short
    white: the white rows as one objective; columns: (k,) flat places of its coefficients in `coef`
    loss: (states,) sum of squared residuals of the white rows over that of their targets
    measured: the trajectories, to recognise data of the model
    constraints: on the coefficients of `columns`; None if there are none
    """

    states: dict[int, Floats]
    white: LeastSquares
    columns: Ints
    loss: Floats
    measured: tuple[Trajectory, ...] = ()
    constraints: Rows | None = None

    @classmethod
    def of(
        cls,
        motion: Motion,
        fitted: Fitted,
        white: LeastSquares,
        candidates: Ints,
        constraints: Rows | None = None,
    ) -> Denoised | None:
        """From the motion that was searched, its fitted states and the white rows of the candidates.

        None if only a part of very long data was searched, since states of the rest were not estimated.
        """
        if [len(x) for x in fitted.x] != [record.stretches for record in motion.records]:
            return None
        count = len(motion.sought)
        equation = np.searchsorted(motion.sought, candidates % motion.states)
        columns = candidates // motion.states * count + equation
        states, loss = _by_trajectory(motion, fitted), _loss(motion, fitted)
        return cls(states, white, columns, loss, constraints=constraints)

    def of_data(self, measured: Sequence[Trajectory]) -> Denoised:
        """The same with the data that the states belong to."""
        states = {k: _at_all(x, measured[k]) for k, x in self.states.items() if k < len(measured)}
        return replace(self, states=states, measured=tuple(measured))

    @property
    def complete(self) -> bool:
        """Whether every trajectory has its states."""
        return all(number in self.states for number in range(len(self.measured)))

    @cached_property
    def _beginnings(self) -> dict[tuple[float, bytes], int]:
        return {(float(run.t[0]), run.x[0].tobytes()): k for k, run in enumerate(self.measured)}

    def states_of(self, part: Trajectory) -> Floats | None:
        """The states of a trajectory, or of some samples of one; None if it is not among the data."""
        own = self._own(part)
        return None if own is None else self.states[own[0]][own[1]]

    def with_hidden(self, part: Trajectory) -> Trajectory | None:
        """A trajectory without hidden states, with those of the data to which it belongs; None if to none."""
        own = self._own(part)
        if own is None:
            return None
        whole = self.measured[own[0]]
        hidden = whole.x[own[1], len(part.states) :]
        return replace(part, x=np.hstack([part.x, hidden]), states=whole.states)

    def _own(self, part: Trajectory) -> tuple[int, Ints] | None:
        """(number, samples) of the trajectory to which a part belongs, which may lack its hidden states."""
        # Most parts begin where a trajectory begins, which a dictionary finds at once. Its keys are bytes,
        # because NaN does not equal itself.
        first = self._beginnings.get((float(part.t[0]), part.x[0].tobytes()))
        numbers = range(min(len(self.measured), _MOST_SEARCHED)) if first is None else [first]
        width = len(part.states)
        for number in numbers:
            whole = self.measured[number]
            places = np.minimum(np.searchsorted(whole.t, part.t), len(whole) - 1)
            same = whole.states[:width] == part.states and np.array_equal(whole.t[places], part.t)
            # Missing values may have been filled in with denoised states.
            x = whole.x[places, :width]
            if same and np.all((x == part.x) | np.isnan(x)) and number in self.states:
                return number, places
        return None

    def equation(self, j: int, coef: Floats) -> EquationRows:
        """The rows of one equation, with the terms of the other equations subtracted from the target."""
        own = self.columns % coef.shape[1] == j
        # White rows mix the equations, since noise in one state enters all of them.
        others = self.white.design[:, ~own] @ coef.ravel()[self.columns[~own]]
        target = self.white.target[:, 0] - others
        terms = self.columns[own] // coef.shape[1]
        return EquationRows(terms, self.white.design[:, own], target, self.white.rows)

    def correlations(self, places: Ints) -> Floats | None:
        """(k, k) root of the correlation of the coefficients at flat places; None if one has no column."""
        column_of = {int(c): k for k, c in enumerate(self.columns)}
        if not all(int(place) in column_of for place in places):
            return None
        columns = self.white.design[:, [column_of[int(place)] for place in places]]
        # With A = Q R the covariance of the coefficients is R⁻¹ R⁻ᵀ. Scaling the rows of R⁻¹ to unit length
        # gives a root of their correlation.
        triangle = np.linalg.qr(columns / np.linalg.norm(columns, axis=0), mode="r")
        root = np.linalg.pinv(triangle)
        return np.asarray(root / np.linalg.norm(root, axis=1, keepdims=True))

    def relative_loss(self, coef: Floats) -> float:
        """Sum of squared residuals of the white rows over that of their targets."""
        left = self.white.design @ coef.ravel()[self.columns] - self.white.target[:, 0]
        return float(left @ left / max(float(np.sum(self.white.target**2)), 1e-300))


def matched(model: Equations, trajectories: Any, where: str) -> list[Trajectory]:
    """Anything that holds trajectories, as trajectories with the variables of the model in its order.

    The time, the runs and hidden states are added.
    """
    data = as_states(model, as_trajectories(trajectories))[0]
    seen = tuple(s for s in model.states if s in data[0].states or s not in model.hidden)
    own = tuple(name for name in model.inputs if name in data[0].inputs or not unmeasured(name))
    data = with_inputs(reordered(data, seen, own, where), model.inputs)
    return _with_hidden_states(model, reordered(data, seen, model.inputs, where))


def smooth(model: Equations, trajectories: Any) -> list[Trajectory]:
    """The trajectories with denoised states in place of measured ones; NaN where a stretch was too short.

    If rates were estimated too, they are further states of these trajectories.
    """
    if model.formulation.for_fields:
        raise DataError("smooth: states are estimated along trajectories; values of fields are not.")
    data = matched(model, trajectories, "smooth")
    states = denoised_states(model, data)
    if states is None and np.isfinite([*model.noise, *model.model_error]).all():
        raise DataError(
            "smooth: the denoised states diverge, because these data do not follow the equations."
        )
    if states is None:
        raise DataError(
            "smooth: only models that were identified with denoised states can denoise data, and this one "
            "was not. Identify it with `passes=None`, in the integral form or as a map."
        )
    names = model.states + model.rates
    inputs = tuple(name for name in model.inputs if not unmeasured(name))
    whole = [replace(run, x=x, states=names, delay={}) for run, x in zip(data, states, strict=True)]
    return reordered(whole, names, inputs, "smooth")


def denoised_states(model: Equations, data: Sequence[Trajectory]) -> list[Floats] | None:
    """(samples, states and rates) for each trajectory: those in memory, or else estimated now.

    None if noise or model error are unknown, or if the estimate diverges.
    """
    if model.fitted is not None:
        own = [model.fitted.states_of(run) for run in data]
        in_memory = [states for states in own if states is not None]
        if len(in_memory) == len(data):
            return in_memory
    solved = _solved(model, data)
    if solved is None:
        return None
    states = _by_trajectory(*solved)
    width = solved[0].states
    return [_at_all(states.get(k, np.empty((0, width))), run) for k, run in enumerate(data)]


def completed(model: Equations, data: Sequence[Trajectory]) -> list[Trajectory]:
    """The data, with missing values replaced by denoised states if most samples lack a value.

    Sensors that report at different times have no complete sample, so that nothing could be compared.
    Values that are filled in count as explained.
    """
    seen = [np.isfinite(run.x) for run in data]
    complete = sum(int(measured.all(axis=1).sum()) for measured in seen)
    # If most samples are complete, the others are better left out than filled in.
    if 2 * complete > sum(int(measured.any(axis=1).sum()) for measured in seen) or not model.denoised:
        return list(data)
    states = denoised_states(model, data)
    if states is None:
        return list(data)
    return [
        replace(run, x=np.where(measured, run.x, x[:, : run.dimension]))
        for run, measured, x in zip(data, seen, states, strict=True)
    ]


def inside_domain(model: Equations, data: Sequence[Trajectory]) -> tuple[list[Trajectory], int]:
    """The data with the few samples at which terms are undefined replaced by interpolation, and how many.

    Noise can push a concentration below zero, where √x has no value.
    """
    if not model.basis.parameter_names() or model.rates:
        return list(data), 0
    points = np.concatenate([trajectory.values for trajectory in data])
    outside = model.basis.outside_domain(model.variables, points)
    if not outside.any():
        return list(data), 0
    masks = np.split(outside, np.cumsum([len(trajectory) for trajectory in data])[:-1])
    moved = [
        replace(trajectory, x=between(trajectory.t, trajectory.x, mask))
        for trajectory, mask in zip(data, masks, strict=True)
    ]
    return moved, int(outside.sum())


def between(t: Floats, x: Floats, outside: NDArray[np.bool_]) -> Floats:
    """(samples, states): the marked samples replaced by linear interpolation between the others."""
    filled = np.array(x)
    for column in filled.T:
        known = ~outside & np.isfinite(column)
        if known.any():
            column[outside] = np.interp(t[outside], t[known], column[known])
    return filled


def denoised_under(model: Equations, data: Sequence[Trajectory]) -> Denoised | None:
    """The model's own denoised states if the data are its own, or else those of the data; None as above."""
    own: Denoised | None = model.fitted
    if own is not None and own.complete and all(own.states_of(run) is not None for run in data):
        return own
    solved = _solved(model, data)
    if solved is None:
        return None
    motion, fitted = solved
    columns = np.arange(model.coef.size) if model.coef.size <= _MOST_COLUMNS else np.flatnonzero(model.coef)
    candidates = motion.widened(columns)
    blocks = motion.objectives(fitted, candidates, blocks=1)
    if blocks is None:
        return None
    white = sum(blocks, LeastSquares.empty(len(candidates), 1))
    denoised = Denoised.of(motion, fitted, white, candidates)
    return None if denoised is None else denoised.of_data(data)


def _solved(model: Equations, data: Sequence[Trajectory], *, unseen: int = 0) -> tuple[Motion, Fitted] | None:
    """The motion of some data, and its states under the equations of the model.

    unseen: how many of the last states have first values only, and no measurements
    """
    # A hidden state has no measurements. With a large noise its first values count little against the
    # equations.
    noise = np.where([s in model.hidden for s in model.states], _FIRST_VALUE_NOISE * model.scale, model.noise)
    if not np.isfinite([*noise, *model.model_error]).all():
        return None
    motion = model.formulation.motion(data, model.basis)
    if motion is None:
        return None
    motion = motion.sharing(shared_noise(model))
    if unseen:
        # First values of hidden states may be far too small, such as a fifth derivative of a noisy record.
        records = tuple(record.unmeasured(unseen) for record in motion.records)
        motion = replace(motion, records=records, sizes=model.scale)
    support = np.flatnonzero(model.coef)
    # Noise and unexplained forcing are those of identification: nothing is tuned to the new data.
    variance = motion.variances(np.square(noise))
    error = motion.errors(0.0, variance)
    error[motion.sought] = np.square(model.model_error)
    law = motion.law(motion.widened(support))
    fitted = states_under(motion, law, model.coef.ravel()[support], variance, error)
    return (motion, fitted) if fitted.alive else None


def _with_hidden_states(model: Equations, data: Sequence[Trajectory]) -> list[Trajectory]:
    """The data with the hidden states that they lack, estimated under the equations from first values."""
    hidden = model.hidden
    if not hidden or data[0].states != tuple(s for s in model.states if s not in hidden):
        return list(data)
    if model.fitted is not None:
        own = [model.fitted.with_hidden(run) for run in data]
        in_memory = [run for run in own if run is not None]
        if len(in_memory) == len(data):
            return in_memory
    rough = [_with_first_values(model, run) for run in data]
    solved = _solved(model, rough, unseen=len(hidden))
    if solved is None:
        raise DataError(
            f"the hidden state {', '.join(hidden)} cannot be estimated: "
            "these data do not follow the equations."
        )
    states = _by_trajectory(*solved)
    completed_data = []
    for k, run in enumerate(rough):
        x = run.x.copy()
        x[:, -len(hidden) :] = np.nan
        if k in states:
            count = len(model.states)
            x[:, -len(hidden) :] = _at_all(states[k], run)[:, count - len(hidden) : count]
        completed_data.append(replace(run, x=x))
    return completed_data


def _with_first_values(model: Equations, run: Trajectory) -> Trajectory:
    """The trajectory with first values of its hidden states, by the formulas in the settings if given.

    Otherwise the first values of a hidden state w are those at which the equations of the measured states,
    linear in w near 0, fit the rates best: w = Σ G_j (x_j' − F_j) / Σ G_j², with F_j at w = 0 and G_j its
    slope by w.
    """
    from scipy.interpolate import CubicSpline

    seen = np.array(run.x)
    for column in seen.T:
        hole = np.isnan(column)
        column[hole] = np.interp(run.t[hole], run.t[~hole], column[~hole]) if not hole.all() else 0.0
    x = smoothed(run.t, seen)
    rates = CubicSpline(run.t, x)(run.t, 1)
    formulas = model.settings.get("hidden")
    if isinstance(formulas, Mapping):
        names = (*run.states, *(f"{name}'" for name in run.states), *run.inputs)
        variables = [x, rates] if run.u is None else [x, rates, np.asarray(run.u)]
        first = Custom(dict(formulas)).evaluate(np.hstack(variables), names)
        return replace(run, x=np.hstack([run.x, first]), states=run.states + model.hidden)
    d, hidden = x.shape[1], np.zeros((len(x), len(model.hidden)))
    for k, (name, equation) in enumerate(_pinned_in(model)):
        place = model.states.index(name) - d
        all_rates = np.column_stack([rates, CubicSpline(run.t, hidden)(run.t, 1)])
        at_one = hidden.copy()
        at_one[:, place] = 1.0
        # F_j, G_j and x_j'; the rates of hidden states found before count as measured.
        at_zero = model.predict(np.hstack([x, hidden]), run.u)
        slope = model.predict(np.hstack([x, at_one]), run.u) - at_zero
        # The first hidden state may enter several equations of measured states; a later one its own.
        own = np.arange(d) if k == 0 else np.array([model.states.index(equation)])
        # Where these equations hardly depend on the hidden state the ratio is noise; interpolate there.
        weight = np.sum(slope[:, own] ** 2, axis=1)
        strong = weight > 0.04 * weight.mean()
        ratio = np.sum(slope[:, own] * (all_rates - at_zero)[:, own], axis=1) / np.where(strong, weight, 1.0)
        w = np.interp(run.t, run.t[strong], ratio[strong]) if strong.any() else hidden[:, place]
        limit = model.scale[d + place]
        hidden[:, place] = np.clip(w, -limit, limit)
        if len(model.hidden) > 1:
            hidden[:, place] = smoothed(run.t, hidden[:, [place]])[:, 0]
    return replace(run, x=np.hstack([run.x, hidden]), states=run.states + model.hidden)


def _pinned_in(model: Equations) -> list[tuple[str, str]]:
    """Each hidden state, and the state whose equation fixed its gauge."""
    gauges = [finding.values for finding in model.findings if finding.code == "hidden-gauge"]
    equations = {str(values.get("state")): str(values.get("equation")) for values in gauges}
    first = next(s for s in model.states if s not in model.hidden)
    return [(name, equations.get(name, first)) for name in model.hidden]


def _by_trajectory(motion: Motion, fitted: Fitted) -> dict[int, Floats]:
    """The states at the samples of each trajectory, by its number; NaN between its stretches."""
    pieces: dict[int, list[tuple[int, Floats]]] = {}
    for record, x in zip(motion.records, fitted.x, strict=True):
        for number, offset, states in zip(record.source, record.offset, x, strict=True):
            at_samples = states[:: max(motion.parts, 1)]
            pieces.setdefault(int(number), []).append((int(offset), at_samples))
    by_number = {}
    for number, parts in pieces.items():
        states = np.full((max(a + len(x) for a, x in parts), motion.states), np.nan)
        for offset, x in parts:
            states[offset : offset + len(x)] = x
        by_number[number] = states
    return by_number


def _at_all(states: Floats, run: Trajectory) -> Floats:
    """(samples of the trajectory, columns of the states): NaN after the last sample that has states.

    No states were estimated where only inputs were measured.
    """
    return np.concatenate([states, np.full((len(run) - len(states), states.shape[1]), np.nan)])


def _loss(motion: Motion, fitted: Fitted) -> Floats:
    """(equations sought,) sum of squared residuals of the white rows over that of their targets."""
    left, whole = np.zeros(motion.states), np.zeros(motion.states)
    for white in motion.whitened(fitted):
        if white is None:
            return np.full(len(motion.sought), np.nan)
        table = motion.table(white, fitted.law)
        # The rows of a record are ordered (row of the grid, state).
        rest = (table[:, -1] - table[:, :-1] @ fitted.coef[: table.shape[1] - 1]).reshape(-1, motion.states)
        left += np.sum(rest**2, axis=0)
        whole += np.sum(table[:, -1].reshape(-1, motion.states) ** 2, axis=0)
    share = np.divide(left, whole, out=np.zeros(motion.states), where=whole > 0)
    return np.asarray(share[motion.sought])
