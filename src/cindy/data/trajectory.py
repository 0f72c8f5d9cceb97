"""Trajectory: the only door for data."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import KW_ONLY, dataclass, replace
from html import escape
from itertools import pairwise
from typing import Any, cast

import numpy as np
from numpy.typing import ArrayLike, NDArray

from cindy._arrays import Floats, Space
from cindy._check import (
    floats,
    instance,
    integer,
    positive,
    short,
    stretch,
    text,
    unique_names,
)
from cindy.calculus import uniform_step
from cindy.data.inputs import (
    Held,
    Hold,
    at_common_times,
    checked_delay,
    checked_hold,
    interpolated,
    moved_holds,
)
from cindy.data.moments import seconds
from cindy.errors import DataError, require


@dataclass(frozen=True)
class _Grid:
    """What counts as one time, a step and a pause."""

    longest_bridge: float = 2.5
    """A step over missing samples that is longer than this many median steps is a gap."""
    pause: float = 100.0
    """A step that is longer than this many of its neighbours is a pause: no polynomial reaches across it."""
    one_time: float = 1e-6
    """Of the shortest step of a sensor: times that are closer are one time."""
    most_refined: int = 10**9
    """Samples of a refined trajectory: more are asked for by mistake only."""
    longest: float = 1e60
    """Of times, and of the inverse of a step: local polynomials raise both to the fifth power."""


_GRID = _Grid()


@dataclass(frozen=True, eq=False, init=False)
class Trajectory:
    """States measured along one solution, at increasing times.

    Any increasing time grid will do. A missing value is NaN, or masked; infinite values
    are refused. The arrays are copies that cannot be written: a trajectory does not change.

    t: (n,) times; dates count in seconds from the first, durations in seconds. A number is the constant step
        between samples that start at t = 0
    x: (n, d) states; (n,) is taken as a single state
    states: d names, by default x1 … xd
    u: (n, p) inputs, known functions of time without an equation of their own
    inputs: p names, by default u1 … up
    hold: what the inputs do between samples: "zero", each value stays until the next, as a digital controller
        holds it; "linear", straight lines; "band", band-limited, for a constant step
    u_t: (m,) times of the inputs, u then being (m, p), where they were sampled at times of their own; a
        number is their constant step. The times at which the inputs jump or bend join `t`, and the states are
        missing there. A held input keeps its last value, so that times of switching are enough
    delay: {"p": 0.02}: the sample of p at t belongs to t − 0.02; `aligned` takes it there
    time_unit: what one unit of `t` is, such as "s"; "" where nobody said. Dates and durations give "s"
    stopped: why a simulation ended early, or None
    weight: every row this trajectory contributes counts this many times

    >>> Trajectory([0.0, 0.1, 0.3], [[1, 2], [3, 4], [5, 6]], states=("x", "y"))
    Trajectory(3 samples of x, y over t = 0 … 0.3)
    >>> Trajectory(0.5, [1, 2, 4], u=[0, 1, 1], hold="zero")
    Trajectory(3 samples of x1, u1 (held) over t = 0 … 1)
    >>> valve = Trajectory(1.0, [4, 3, 5, 7], u=[0, 1], u_t=[0.0, 1.25], hold="zero")  # opened at t = 1.25
    >>> valve.t.tolist(), valve.u.ravel().tolist()
    ([0.0, 1.0, 1.25, 2.0, 3.0], [0.0, 0.0, 1.0, 1.0, 1.0])
    """

    t: Floats
    x: Floats
    states: tuple[str, ...]
    u: Floats | None
    inputs: tuple[str, ...]
    hold: Hold
    _: KW_ONLY
    delay: Mapping[str, float]
    time_unit: str
    stopped: str | None
    name: str
    weight: float

    def __init__(
        self,
        t: ArrayLike,
        x: ArrayLike,
        states: Iterable[str] | None = None,
        u: ArrayLike | None = None,
        inputs: Iterable[str] | None = None,
        hold: Hold = "linear",
        *,
        u_t: ArrayLike | None = None,
        delay: Mapping[str, float] | None = None,
        time_unit: str = "",
        stopped: str | None = None,
        name: str = "",
        weight: float = 1.0,
    ) -> None:
        where = f'Trajectory "{name}"' if text(name, "Trajectory: `name`") else "Trajectory"
        times, unit = _times(t, x, where)
        values = _columns(x, f"{where}: `x`", len(times))
        own = None if u_t is None else _times_of_inputs(t, u_t, u, where)
        known = None if u is None else _columns(u, f"{where}: `u`", len(times if own is None else own))
        if own is not None and known is not None:
            hold = checked_hold(hold, own, known, where)
            times, values, known = at_common_times(times, values, own, known, hold, where)
        state_names = _names(states, "x", values.shape[1], f"{where}: `states`")
        count = 0 if known is None else known.shape[1]
        # An empty list of names, as `replace` hands it on, stands for the names by default.
        given = None if isinstance(inputs, (tuple, list)) and not inputs else inputs
        input_names = _names(given, "u", count, f"{where}: `inputs`")
        unique_names(state_names + input_names, f"{where}: `states` and `inputs` together")
        fields = {
            "t": _kept(times, t),
            "x": _kept(values, x),
            "states": state_names,
            "u": None if known is None else _kept(known, u),
            "inputs": input_names,
            "hold": checked_hold(hold, times, known, where),
            "delay": checked_delay(delay, state_names + input_names, where),
            "time_unit": text(time_unit, f"{where}: `time_unit`") or unit,
            "stopped": None if stopped is None else text(stopped, f"{where}: `stopped`"),
            "name": name,
            "weight": positive(weight, f"{where}: `weight`"),
        }
        for field, value in fields.items():
            object.__setattr__(self, field, value)

    def __len__(self) -> int:
        return len(self.t)

    def plot(self, **options: Any) -> Any:
        """States against time; the options are those of `cindy.plot.trajectories` (extra: plot)."""
        return require("cindy.plot", "plot", "Trajectory.plot").trajectories(self, **options)

    def _repr_html_(self) -> str:
        """What was measured, as a table: for notebooks."""
        cells: list[tuple[str, ...]] = [("", "min", "mean", "max", "missing")]
        for name, column in zip(self.variables, self.values.T, strict=True):
            known = column[np.isfinite(column)]
            told = [f"{f(known):.4g}" if len(known) else "" for f in (np.min, np.mean, np.max)]
            cells.append((name, *told, str(len(column) - len(known))))
        rows = "".join("<tr>" + "".join(f"<td>{escape(c)}</td>" for c in row) + "</tr>" for row in cells)
        return f"<p>{escape(repr(self))}</p><table>{rows}</table>"

    def __repr__(self) -> str:
        of = ", ".join(self.variables[:6]) + (", …" if len(self.variables) > 6 else "")
        name = f'"{self.name}", ' if self.name else ""
        kind = {"linear": "", "zero": " (held)", "band": " (band-limited)"}[self.hold] if self.inputs else ""
        over = f"t = {self.t[0]:.6g} … {self.t[-1]:.6g}{' ' if self.time_unit else ''}{self.time_unit}"
        late = "".join(f", {channel} read {lag:g} late" for channel, lag in self.delay.items())
        return f"Trajectory({name}{len(self)} samples of {of}{kind} over {over}{late})"

    @property
    def dimension(self) -> int:
        """Number of states."""
        return int(self.x.shape[1])

    @property
    def variables(self) -> tuple[str, ...]:
        """States, then inputs: the variables of a basis."""
        return self.states + self.inputs

    @property
    def values(self) -> Floats:
        """(n, d + p): the states and the inputs side by side."""
        return self.x if self.u is None else np.hstack([self.x, self.u])

    def signal(self) -> Held | None:
        """The inputs as a function of time, by `hold`; None where there are none.

        Samples at which an input is missing are left out.
        """
        if self.u is None:
            return None
        known = np.isfinite(self.u).all(axis=1)
        if not known.any():
            raise DataError("Trajectory: the inputs are missing at every sample.")
        return Held(self.t[known], self.u[known], self.hold)

    def refined(self, times: int) -> Trajectory:
        """The trajectory with instants added, so that each step becomes so many; states are missing there.

        The inputs at the new instants follow from `hold`: quadrature on the finer grid sees what they did
        between the samples.
        """
        times = integer(times, "Trajectory.refined: `times`", least=1)
        if times == 1 or len(self) == 1:
            return self
        if times * len(self) > _GRID.most_refined:
            raise DataError(f"Trajectory.refined: {times} times {len(self)} samples are too many to hold.")
        signal = self.signal()
        numbers = np.arange(len(self))
        t = np.interp(np.arange((len(self) - 1) * times + 1) / times, numbers, self.t)
        t[::times] = self.t
        x = np.full((len(t), self.dimension), np.nan)
        x[::times] = self.x
        return replace(self, t=t, x=x, u=None if signal is None else signal.at(t))

    def aligned(self) -> Trajectory:
        """The trajectory with every delayed channel taken to the common instants.

        The value of a channel with delay τ at time t is interpolated between its samples, which belong to
        t − τ, by local polynomials; it is missing where it was not measured, at the end of the record for a
        positive delay. A delay of a whole number of steps moves the samples unchanged. An input that is held
        jumps as much earlier, and the instants of its jumps join the times.
        """
        if not any(self.delay.values()):
            return self
        columns = dict(zip(self.variables, self.values.T, strict=True))
        lags = [self.delay.get(name, 0.0) for name in self.inputs]
        held = self.hold == "zero" and any(lags)
        for name, lag in self.delay.items():
            if not held or name in self.states:
                columns[name] = interpolated(self.t - lag, columns[name], np.asarray(self.t))
        x = np.column_stack([columns[name] for name in self.states])
        u = np.column_stack([columns[name] for name in self.inputs]) if self.inputs else None
        t, x, u = moved_holds(self.t, x, u, lags) if held and u is not None else (self.t, x, u)
        return replace(self, t=t, x=x, u=u, delay={})

    @classmethod
    def merged(cls, sensors: Sequence[Trajectory]) -> Trajectory:
        """One trajectory of one motion that several sensors saw, each at times of its own.

        Its times are those of all sensors; a state is missing (NaN) where its sensor took no sample. Inputs
        are taken to all times by their `hold`. A state that two sensors measure at one time is refused.

        >>> position = Trajectory([0.0, 0.1, 0.2], [1.0, 1.1, 1.3], ("x",))
        >>> speed = Trajectory([0.05, 0.2], [1.5, 2.5], ("v",))
        >>> both = Trajectory.merged([position, speed])
        >>> both
        Trajectory(4 samples of x, v over t = 0 … 0.2)
        >>> both.x.tolist()
        [[1.0, nan], [nan, 1.5], [1.1, nan], [1.3, 2.5]]
        """
        given: Sequence[Any] = sensors if isinstance(sensors, (list, tuple)) else [sensors]
        for sensor in given:
            instance(sensor, Trajectory, "Trajectory.merged: a sensor", "a Trajectory")
        return _merged([sensor.aligned() for sensor in given])

    def part(self, start: int, stop: int) -> Trajectory:
        """Samples start … stop − 1, sharing memory with this trajectory where that is stored row by row."""
        stretch(start, stop, len(self), "Trajectory", "samples")
        # What was checked once need not be checked again: streams are cut into many parts.
        part = object.__new__(Trajectory)
        # Row by row, as it would arrive in another process: the order of samples in memory decides how
        # sums are rounded.
        arrays = ("t", self.t), ("x", self.x), ("u", self.u)
        cut = {name: None if a is None else np.ascontiguousarray(a[start:stop]) for name, a in arrays}
        part.__dict__.update(self.__dict__ | cut)
        return part

    def step(self, start: int, stop: int) -> float | None:
        """The time step of samples start … stop − 1 where it is uniform up to rounding, else None."""
        stretch(start, stop, len(self), "Trajectory", "samples")
        return uniform_step(self.t[start:stop])

    def on_device(self, space: Space, start: int, stop: int) -> Any:
        """(d + p, stop − start): states and inputs of these samples in a space of arrays, one row each."""
        return space.put(self.values[start:stop].T)

    def segments(self) -> list[Trajectory]:
        """The stretches without missing values.

        A sample with a missing value, be it of one variable, is left out. A short
        hole is bridged by one longer time step; where that step would exceed 2.5
        times the median step the trajectory is split. Without missing values it is
        split only at a pause: a step 100 times as long as those before and after it,
        as between bursts of samples. Empty when no sample is complete.
        """
        missing = np.isnan(self.x).any(axis=1)
        if self.u is not None:
            missing |= np.isnan(self.u).any(axis=1)
        if not missing.any():
            pauses = _pauses(np.diff(self.t)) + 1
            edges = [0, *(int(c) for c in pauses), len(self)]
            return [self.part(a, b) for a, b in pairwise(edges)] if len(pauses) else [self]
        complete = np.flatnonzero(~missing)
        if len(complete) == 0:
            return []
        whole = replace(
            self, t=self.t[complete], x=self.x[complete], u=None if self.u is None else self.u[complete]
        )
        steps = np.diff(whole.t)
        # Only a step over missing samples may split: an irregular grid has long steps of its own.
        limit = _GRID.longest_bridge * float(np.median(steps)) if len(steps) else np.inf
        holes = np.flatnonzero((np.diff(complete) > 1) & (steps > limit))
        cuts = np.union1d(holes, _pauses(steps)) + 1
        edges = [0, *(int(c) for c in cuts), len(complete)]
        return [whole.part(a, b) for a, b in pairwise(edges)]


def _merged(sensors: Sequence[Trajectory]) -> Trajectory:
    where = "Trajectory.merged"
    if not sensors:
        raise DataError(f"{where}: there is no sensor. Give a trajectory for each.")
    for what in ("hold", "time_unit"):
        given = {getattr(sensor, what) for sensor in sensors if what != "hold" or sensor.inputs}
        if len(given) > 1:
            raise DataError(f"{where}: all sensors must have the same `{what}`, but they have {given}.")
    every = np.sort(np.concatenate([sensor.t for sensor in sensors]))
    steps = [float(np.min(np.diff(sensor.t))) for sensor in sensors if len(sensor) > 1]
    # Times that differ by rounding are one time: 10 / 100 and 7 / 70 s need not be equal to the last bit.
    t = every[np.append(True, np.diff(every) > _GRID.one_time * min(steps, default=1.0))]
    states = tuple(dict.fromkeys(name for sensor in sensors for name in sensor.states))
    inputs = tuple(dict.fromkeys(name for sensor in sensors for name in sensor.inputs))
    x, u = np.full((len(t), len(states)), np.nan), np.full((len(t), len(inputs)), np.nan)
    for sensor in sensors:
        rows = np.searchsorted(t, sensor.t, side="right") - 1
        for name, column in zip(sensor.states, sensor.x.T, strict=True):
            j, seen = states.index(name), np.isfinite(column)
            twice = rows[seen][np.isfinite(x[rows[seen], j])]
            if len(twice):
                raise DataError(
                    f"{where}: {name!r} is measured twice at t = {t[twice[0]]:g}. Give the two sensors names "
                    f'of their own, and say what they measure: observe={{"{name}2": "{name}"}}.'
                )
            x[rows[seen], j] = column[seen]
        signal = sensor.signal()
        if signal is not None:
            u[:, [inputs.index(name) for name in sensor.inputs]] = signal.at(t)
    held: Hold = next((sensor.hold for sensor in sensors if sensor.inputs), "linear")
    first = sensors[0]
    return replace(
        first, t=t, x=x, states=states, u=u if inputs else None, inputs=inputs, hold=held, stopped=None
    )


def _pauses(steps: Floats) -> NDArray[np.intp]:
    """The steps that are far longer than their neighbours; a grid that coarsens by and by has none."""
    if len(steps) < 3:
        return np.zeros(0, dtype=np.intp)
    before = np.concatenate([steps[1:2], steps[:-1]])
    after = np.concatenate([steps[1:], steps[-2:-1]])
    return np.flatnonzero(steps > _GRID.pause * np.maximum(before, after))


def same_variables(trajectories: Iterable[Trajectory]) -> Iterator[Trajectory]:
    """The trajectories as they come, each checked to have the variables of the first; delays are undone."""
    first: Trajectory | None = None
    for i, trajectory in enumerate(trajectories):
        first = first or trajectory
        for what in ("states", "inputs"):
            expected, got = getattr(first, what), getattr(trajectory, what)
            if expected != got:
                raise DataError(
                    f"All trajectories must have the same {what}, but trajectory 0 has {_named(expected)} "
                    f"and trajectory {i} has {_named(got)}. Give all the same names in the same order."
                )
        if trajectory.inputs and trajectory.hold != first.hold:
            raise DataError(
                f"All trajectories must hold their inputs alike, but trajectory 0 has hold={first.hold!r} "
                f"and trajectory {i} has hold={trajectory.hold!r}."
            )
        yield trajectory.aligned()


def _named(names: Sequence[str]) -> str:
    return "(" + ", ".join(names) + ")" if names else "none"


def is_pair(item: Any) -> bool:
    if not isinstance(item, (tuple, list)) or len(item) != 2 or isinstance(item[0], Trajectory):
        return False
    try:
        step = isinstance(item[0], (int, float, np.number)) and np.ndim(item[1]) in (1, 2)
        return bool(step or np.ndim(item[0]) == 1)
    except (TypeError, ValueError):  # ragged, or on a device: a list of pairs, not a pair
        return False


def _columns(values: ArrayLike, where: str, samples: int) -> Floats:
    try:
        array = values if isinstance(values, np.ma.MaskedArray) else np.asarray(values)
    except (TypeError, ValueError) as error:
        raise DataError(f"{where} must be a table of numbers, but its rows differ in length.") from error
    array = floats(array[:, None] if array.ndim == 1 else array, where, ndim=2, allow_nan=True)
    if len(array) != samples:
        raise DataError(
            f"{where} must have one row per time, but there are {samples} times and {len(array)} rows."
            + (" Pass the transpose." if array.shape[1] == samples else "")
        )
    if array.shape[1] == 0:
        raise DataError(f"{where} has no columns.")
    return array


def _names(names: Iterable[str] | None, letter: str, count: int, where: str) -> tuple[str, ...]:
    if names is None:
        return tuple(f"{letter}{i + 1}" for i in range(count))
    result = unique_names(names, where)
    if len(result) != count:
        raise DataError(
            f"{where} must name {count} column(s), but there are {len(result)} names: {', '.join(result)}."
        )
    return result


def _must_increase(t: Floats, where: str, name: str) -> None:
    bad = np.flatnonzero(np.diff(t) <= 0)
    if len(bad) == 0:
        return
    i = int(bad[0])
    repeats = t[i] == t[i + 1]
    raise DataError(
        f"{where}: `{name}` must increase, but {name}[{i}] = {t[i]:g} is followed by "
        f"{name}[{i + 1}] = {t[i + 1]:g}. "
        + (
            "Drop the repeated sample, or pass the two stretches as separate trajectories."
            if repeats
            else "Sort the samples by time, or pass the two stretches as separate trajectories."
        )
    )


def _times(t: Any, x: Any, where: str, name: str = "t") -> tuple[Floats, str]:
    """The times of the samples and their unit: as given, from moments, or from a constant step."""
    if isinstance(t, (int, float, np.number)) and not isinstance(t, bool):
        step = positive(cast(float, t), f"{where}: `{name}` is a number, the step between samples, which")
        try:
            count = len(x)
        except TypeError:
            raise DataError(f"{where}: `x` must be a table of numbers, but is {short(x)}.") from None
        times, unit = np.arange(count, dtype=np.float64) * step, ""
    else:
        try:
            moments = seconds(t)
        except (TypeError, ValueError):  # ragged, or no array at all: the check of numbers says what is wrong
            moments = None
        unit = "" if moments is None else "s"
        times = floats(t if moments is None else moments, f"{where}: `{name}`", ndim=1)
    if len(times) == 0:
        raise DataError(f"{where}: `{name}` is empty. A trajectory needs at least one sample.")
    _must_increase(times, where, name)
    _must_have_a_scale(times, where, name)
    return times, unit


def _times_of_inputs(t: Any, u_t: Any, u: Any, where: str) -> Floats:
    """The times of inputs that have their own; dates count from the first of the states."""
    if u is None:
        raise DataError(f"{where}: `u_t` gives the times of the inputs, but `u` is missing.")
    times, _ = _times(u_t, u, where, "u_t")
    dates = [seconds(given) is not None for given in (t, u_t)]
    if dates[0] != dates[1]:
        raise DataError(f"{where}: `t` and `u_t` must both be numbers, or both dates or durations.")
    both = seconds(np.concatenate([np.ravel(t)[:1], np.ravel(u_t)])) if dates[0] else None
    return times if both is None else both[1:]


def _must_have_a_scale(t: Floats, where: str, name: str) -> None:
    """Times whose powers floating point can hold."""
    if len(t) == 1:
        return
    size, step = max(abs(float(t[0])), abs(float(t[-1]))), float(np.min(np.diff(t)))
    if size > _GRID.longest or step < 1 / _GRID.longest:
        what = f"{name}[-1] = {t[-1]:.3g}" if size > _GRID.longest else f"a step of {step:.3g}"
        raise DataError(
            f"{where}: `{name}` reaches beyond what can be computed with ({what}). Use other units for time."
        )


def _kept(array: Floats, given: Any) -> Floats:
    """The array, read-only; a copy unless it is new, or nobody can write to the memory it shares."""
    new = not np.may_share_memory(array, given) if isinstance(given, np.ndarray) else array.base is None
    lender: Any = array
    while isinstance(lender, np.ndarray) and not lender.flags.writeable:
        lender = lender.base
    if not new and isinstance(lender, np.ndarray):
        array = array.copy()
    view = array.view()
    view.flags.writeable = False
    return view
