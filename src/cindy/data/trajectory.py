"""Trajectory: the samples of one motion, checked once when it is made."""

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
    counted,
    did_you_mean,
    floats,
    increasing,
    instance,
    number,
    one_of,
    positive,
    short,
    stretch,
    text,
    unique_names,
    units_of_time,
)
from cindy.calculus import uniform_step
from cindy.data.inputs import HOLDS, Held, Hold, at_common_times, constant_step, interpolated, moved_holds
from cindy.data.moments import seconds
from cindy.errors import DataError, require


@dataclass(frozen=True)
class _Grid:
    """Limits on times and on steps between them."""

    longest_bridge: float = 2.5
    """A step over missing samples that is longer than this many median steps is a gap."""
    pause: float = 100.0
    """A step longer than this many of its neighbours is a pause, across which no polynomial is fitted."""
    one_time: float = 1e-6
    """Share of the shortest step of a sensor: times that are closer to each other count as equal."""
    uneven: float = 1e-6
    """Relative difference between the steps of a grid of a field above which it is not uniform."""
    longest: float = 1e60
    """Largest time, and largest inverse of a step: local polynomials raise both to the fifth power."""


GRID = _Grid()


@dataclass(frozen=True, eq=False, init=False)
class Trajectory:
    """States measured along one solution, at increasing times.

    The time grid need not be even. A missing value is NaN or masked; infinite values are an error. The arrays
    are read-only copies: a trajectory does not change.

    t: (n,) times; dates count in seconds from the first, durations in seconds. A number is the constant step
        between samples that start at t = 0
    x: (n, d) states; (n,) is taken as a single state
    states: d names, by default those of a data frame, else x1 … xd
    u: (n, p) inputs, known functions of time without an equation of their own
    inputs: p names, by default those of a data frame, else u1 … up
    hold: what the inputs do between samples: "zero", each value stays until the next, as a digital controller
        holds it; "linear", straight lines; "band", band-limited, for a constant step
    u_t: (m,) times of the inputs, if they were sampled at times of their own; u is then (m, p). A number is
        their constant step. The times at which the inputs jump or bend join `t`, and the states are missing
        there. A held input keeps its last value, so that the times of switching are enough
    delay: {"p": 0.02}: the sample of p at t was taken at t − 0.02; `aligned` moves it there
    time_unit: the unit of `t`, such as "s"; "" if unknown. Dates and durations give "s"
    stopped: why a simulation ended early, or None
    weight: every row that comes from this trajectory counts this many times
    given: times at which the inputs were given, if `u` was filled in between, as from `u_t`

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
    given: Floats | None

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
        given: ArrayLike | None = None,
    ) -> None:
        where = f'Trajectory "{name}"' if text(name, "Trajectory: `name`") else "Trajectory"
        times, unit = _times(t, x, where)
        values = _columns(x, f"{where}: `x`", len(times))
        input_times = times if u_t is None else _times_of_inputs(t, u_t, u, where)
        signals = None if u is None else _columns(u, f"{where}: `u`", len(input_times))
        one_of(hold, HOLDS, f"{where}: `hold`")
        if u_t is not None and signals is not None:
            given = input_times[np.isfinite(signals).all(axis=1)]
            times, values, signals = at_common_times(times, values, input_times, signals, hold, where)
        if hold == "band" and signals is not None and len(times) > 2:
            constant_step(times, where)
        named = _of_frame(x) if states is None else states
        state_names = _names(named, "x", values.shape[1], f"{where}: `states`")
        # `replace` passes on an empty tuple of names, which stands for the default names.
        labels = _of_frame(u) if isinstance(inputs, (tuple, list, type(None))) and not inputs else inputs
        input_names = _names(labels, "u", 0 if signals is None else signals.shape[1], f"{where}: `inputs`")
        unique_names(state_names + input_names, f"{where}: `states` and `inputs` together")
        self.__dict__.update(
            t=_read_only(times, t),
            x=_read_only(values, x),
            states=state_names,
            u=None if signals is None else _read_only(signals, u),
            inputs=input_names,
            hold=hold,
            delay=_delays(delay, state_names + input_names, where),
            time_unit=text(time_unit, f"{where}: `time_unit`") or unit,
            stopped=None if stopped is None else text(stopped, f"{where}: `stopped`"),
            name=name,
            weight=positive(weight, f"{where}: `weight`"),
            given=None if given is None else _read_only(floats(given, f"{where}: `given`", ndim=1), given),
        )

    def __len__(self) -> int:
        return len(self.t)

    def plot(self, **options: Any) -> Any:
        """States against time; the options are those of `cindy.plot.trajectories` (extra: plot)."""
        return require("cindy.plot", "plot", "Trajectory.plot").trajectories(self, **options)

    def _repr_html_(self) -> str:
        """The range of every variable as a table for notebooks."""
        cells: list[tuple[str, ...]] = [("", "min", "mean", "max", "missing")]
        for name, column in zip(self.variables, self.values.T, strict=True):
            known = column[np.isfinite(column)]
            numbers = [f"{f(known):.4g}" if len(known) else "" for f in (np.min, np.mean, np.max)]
            cells.append((name, *numbers, str(len(column) - len(known))))
        return html_table(repr(self), cells)

    def __repr__(self) -> str:
        variables = ", ".join(self.variables[:6]) + (", …" if len(self.variables) > 6 else "")
        name = f'"{self.name}", ' if self.name else ""
        kind = {"linear": "", "zero": " (held)", "band": " (band-limited)"}[self.hold] if self.inputs else ""
        unit = f" {units_of_time(self.time_unit)}" if self.time_unit else ""
        times = f"t = {self.t[0]:.6g} … {self.t[-1]:.6g}{unit}"
        late = "".join(f", {channel} read {lag:g} late" for channel, lag in self.delay.items())
        return f"Trajectory({name}{len(self)} samples of {variables}{kind} over {times}{late})"

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
        """The inputs as a function of time, by `hold`; None if there are no inputs.

        Samples at which an input is missing are left out.
        """
        if self.u is None:
            return None
        sampled = np.isfinite(self.u).all(axis=1)
        if not sampled.any():
            raise DataError("Trajectory: the inputs are missing at every sample.")
        return Held(self.t[sampled], self.u[sampled], self.hold)

    def aligned(self) -> Trajectory:
        """The trajectory with every delayed channel moved to the common instants.

        The samples of a channel with delay τ belong to the times t − τ, and its values at t are interpolated
        between them by local polynomials. They are missing where the channel was not measured: for a positive
        delay, at the end of the record. A delay of a whole number of steps moves the samples unchanged. The
        jumps of a held input are moved to earlier times, which join those of the trajectory.
        """
        if not any(self.delay.values()):
            return self
        columns = dict(zip(self.variables, self.values.T, strict=True))
        lags = [self.delay.get(name, 0.0) for name in self.inputs]
        moves_jumps = self.hold == "zero" and any(lags)
        for name, lag in self.delay.items():
            if not moves_jumps or name in self.states:
                columns[name] = interpolated(self.t - lag, columns[name], np.asarray(self.t))
        x = np.column_stack([columns[name] for name in self.states])
        u = np.column_stack([columns[name] for name in self.inputs]) if self.inputs else None
        t, x, u = moved_holds(self.t, x, u, lags) if moves_jumps and u is not None else (self.t, x, u)
        return replace(self, t=t, x=x, u=u, delay={})

    @classmethod
    def merged(cls, sensors: Sequence[Trajectory]) -> Trajectory:
        """One trajectory of a motion that several sensors measured, each at times of its own.

        Its times are those of all sensors; a state is missing (NaN) where its sensor took no sample. Inputs
        are continued to all times by their `hold`. A state that two sensors measure at one time is an error.

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
        """Samples start … stop − 1; they share memory with this trajectory if it is stored row by row."""
        stretch(start, stop, len(self), "Trajectory", "samples")
        # Streams are cut into many parts, so that what the constructor checked is not checked again.
        part = object.__new__(Trajectory)
        part.__dict__.update(self.__dict__)
        for name, array in (("t", self.t), ("x", self.x), ("u", self.u)):
            # Contiguous, as it would arrive in another process: the layout decides how sums are rounded.
            part.__dict__[name] = None if array is None else np.ascontiguousarray(array[start:stop])
        return part

    def step(self, start: int, stop: int) -> float | None:
        """The time step of samples start … stop − 1 if it is uniform up to rounding, else None."""
        stretch(start, stop, len(self), "Trajectory", "samples")
        return uniform_step(self.t[start:stop]) if stop - start > 1 else None

    def on_device(self, space: Space, start: int, stop: int) -> Any:
        """(d + p, stop − start): states and inputs of these samples in a space of arrays, one row each."""
        return space.put(self.values[start:stop].T)

    def segments(self) -> list[Trajectory]:
        """The segments without missing values; none if no sample is complete.

        A sample is left out if any of its values is missing. The trajectory is split where the time step over
        samples that were left out exceeds 2.5 times the median step; shorter holes become one longer step.
        It is also split at pauses, steps 100 times as long as those before and after them.
        """
        missing = np.isnan(self.x).any(axis=1)
        if self.u is not None:
            missing |= np.isnan(self.u).any(axis=1)
        complete = np.flatnonzero(~missing)
        if len(complete) == 0:
            return []
        joined = self
        if missing.any():
            u = None if self.u is None else self.u[complete]
            joined = replace(self, t=self.t[complete], x=self.x[complete], u=u)
        steps = np.diff(joined.t)
        # Only steps over missing samples are gaps: an irregular grid has long steps of its own.
        holes = np.flatnonzero(np.diff(complete) > 1)
        if len(holes):
            holes = holes[steps[holes] > GRID.longest_bridge * np.median(steps)]
        cuts = np.union1d(holes, _pauses(steps)) + 1
        edges = [0, *map(int, cuts), len(complete)]
        return [joined.part(a, b) for a, b in pairwise(edges)] if len(cuts) else [joined]


def html_table(title: str, cells: Iterable[Iterable[str]]) -> str:
    """A table for notebooks under its title."""
    rows = "".join("<tr>" + "".join(f"<td>{escape(cell)}</td>" for cell in row) + "</tr>" for row in cells)
    return f"<p>{escape(title)}</p><table>{rows}</table>"


def _merged(sensors: Sequence[Trajectory]) -> Trajectory:
    """As `Trajectory.merged`, without delays."""
    where = "Trajectory.merged"
    if not sensors:
        raise DataError(f"{where}: there is no sensor. Give a trajectory for each.")
    for setting in ("hold", "time_unit"):
        values = {getattr(sensor, setting) for sensor in sensors if setting != "hold" or sensor.inputs}
        if len(values) > 1:
            raise DataError(f"{where}: all sensors must have the same `{setting}`, but they have {values}.")
    times = np.sort(np.concatenate([sensor.t for sensor in sensors]))
    steps = [float(np.min(np.diff(sensor.t))) for sensor in sensors if len(sensor) > 1]
    # Times that differ only by rounding are equal: 10 / 100 and 7 / 70 s may differ in the last bit.
    t = times[np.append(True, np.diff(times) > GRID.one_time * min(steps, default=1.0))]
    states = tuple(dict.fromkeys(name for sensor in sensors for name in sensor.states))
    inputs = tuple(dict.fromkeys(name for sensor in sensors for name in sensor.inputs))
    x, u = np.full((len(t), len(states)), np.nan), np.full((len(t), len(inputs)), np.nan)
    for sensor in sensors:
        rows = np.searchsorted(t, sensor.t, side="right") - 1
        for name, column in zip(sensor.states, sensor.x.T, strict=True):
            j, measured = states.index(name), np.isfinite(column)
            twice = rows[measured][np.isfinite(x[rows[measured], j])]
            if len(twice):
                raise DataError(
                    f"{where}: {name!r} is measured twice at t = {t[twice[0]]:g}. Give the two sensors names "
                    f'of their own, and say what they measure: observe={{"{name}2": "{name}"}}.'
                )
            x[rows[measured], j] = column[measured]
        signal = sensor.signal()
        if signal is not None:
            u[:, [inputs.index(name) for name in sensor.inputs]] = signal.at(t)
    hold: Hold = next((sensor.hold for sensor in sensors if sensor.inputs), "linear")
    signals = u if inputs else None
    return replace(sensors[0], t=t, x=x, states=states, u=signals, inputs=inputs, hold=hold, stopped=None)


def _pauses(steps: Floats) -> NDArray[np.intp]:
    """The steps that are far longer than their neighbours; a grid that coarsens gradually has none."""
    if len(steps) < 3:
        return np.zeros(0, dtype=np.intp)
    before = np.concatenate([steps[1:2], steps[:-1]])
    after = np.concatenate([steps[1:], steps[-2:-1]])
    return np.flatnonzero(steps > GRID.pause * np.maximum(before, after))


def same_variables(trajectories: Iterable[Trajectory]) -> Iterator[Trajectory]:
    """The trajectories one by one, without delays; each is checked to have the variables of the first."""
    first: Trajectory | None = None
    for i, trajectory in enumerate(trajectories):
        first = first or trajectory
        for names in ("states", "inputs"):
            expected, got = getattr(first, names), getattr(trajectory, names)
            if expected != got:
                raise DataError(
                    f"All trajectories must have the same {names}, but trajectory 0 has {_named(expected)} "
                    f"and trajectory {i} has {_named(got)}. Give all the same names in the same order."
                )
        if trajectory.inputs and trajectory.hold != first.hold:
            raise DataError(
                f"All trajectories must have the same `hold`, but trajectory 0 has hold={first.hold!r} "
                f"and trajectory {i} has hold={trajectory.hold!r}."
            )
        yield trajectory.aligned()


def _named(names: Sequence[str]) -> str:
    return "(" + ", ".join(names) + ")" if names else "none"


def is_pair(item: Any) -> bool:
    """Whether an object is a pair (t, x) of times, or a step, and states."""
    if not isinstance(item, (tuple, list)) or len(item) != 2 or isinstance(item[0], Trajectory):
        return False
    try:
        step = isinstance(item[0], (int, float, np.number)) and np.ndim(item[1]) in (1, 2)
        return bool(step or np.ndim(item[0]) == 1)
    except (TypeError, ValueError):  # ragged, or on a device: a list of pairs, not a pair
        return False


def _columns(values: ArrayLike, where: str, samples: int) -> Floats:
    """States or inputs as an array (samples, columns)."""
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


def _of_frame(values: Any) -> list[str] | None:
    """The names of the columns of a data frame, if they are texts."""
    names = list(getattr(values, "columns", ()))
    return names if names and all(isinstance(name, str) for name in names) else None


def _names(given: Iterable[str] | None, letter: str, count: int, where: str) -> tuple[str, ...]:
    """The names of columns: those given, or the letter with a number."""
    if given is None:
        return tuple(f"{letter}{i + 1}" for i in range(count))
    names = unique_names(given, where)
    if len(names) != count:
        raise DataError(
            f"{where} must name {counted(count, 'column')}, "
            f"but holds {counted(len(names), 'name')}: {', '.join(names)}."
        )
    return names


def _delays(given: Any, channels: tuple[str, ...], where: str) -> Mapping[str, float]:
    """The delays that a user gave, by channel."""
    if given is None:
        return {}
    instance(given, Mapping, f"{where}: `delay`", 'a time for each late channel, as in {"p": 0.02}')
    for name in given:
        if name not in channels:
            raise DataError(f"{where}: `delay` names {name!r}. {did_you_mean(name, channels)}")
    return {name: number(lag, f"{where}: the delay of {name!r}") for name, lag in given.items()}


def _times(t: Any, x: Any, where: str, name: str = "t") -> tuple[Floats, str]:
    """The times of the samples and their unit, from numbers, dates, durations or a constant step."""
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
        except (TypeError, ValueError):  # ragged, or no array at all; `floats` then says what is wrong
            moments = None
        unit = "" if moments is None else "s"
        times = floats(t if moments is None else moments, f"{where}: `{name}`", ndim=1)
    if len(times) == 0:
        raise DataError(f"{where}: `{name}` is empty. A trajectory needs at least one sample.")
    apart = "or pass the two stretches as separate trajectories."
    again = f"Average or drop the repeated samples, {apart}"
    increasing(times, name, where, repeated=again, unsorted=f"Sort the samples by time, {apart}")
    _must_have_a_scale(times, where, name)
    return times, unit


def _times_of_inputs(t: Any, u_t: Any, u: Any, where: str) -> Floats:
    """The times of inputs that have times of their own; dates count from the first of the states."""
    if u is None:
        raise DataError(f"{where}: `u_t` gives the times of the inputs, but `u` is missing.")
    times, _ = _times(u_t, u, where, "u_t")
    t_is_dates, u_t_is_dates = (seconds(given) is not None for given in (t, u_t))
    if t_is_dates != u_t_is_dates:
        raise DataError(f"{where}: `t` and `u_t` must both be numbers, or both dates or durations.")
    from_first = seconds(np.concatenate([np.ravel(t)[:1], np.ravel(u_t)])) if t_is_dates else None
    return times if from_first is None else from_first[1:]


def _must_have_a_scale(t: Floats, where: str, name: str) -> None:
    """Raise if powers of the times, or of their steps, are beyond floating point."""
    if len(t) == 1:
        return
    size, step = max(abs(float(t[0])), abs(float(t[-1]))), float(np.min(np.diff(t)))
    if size > GRID.longest or step < 1 / GRID.longest:
        value = f"{name}[-1] = {t[-1]:.3g}" if size > GRID.longest else f"a step of {step:.3g}"
        raise DataError(
            f"{where}: `{name}` is outside the range of floating point ({value}). Use other units for time."
        )


def _read_only(array: Floats, given: Any) -> Floats:
    """The array, read-only; copied if it shares memory with what was given and that memory can be written."""
    new = not np.may_share_memory(array, given) if isinstance(given, np.ndarray) else array.base is None
    lender: Any = array
    while isinstance(lender, np.ndarray) and not lender.flags.writeable:
        lender = lender.base
    if not new and isinstance(lender, np.ndarray):
        array = array.copy()
    view = array.view()
    view.flags.writeable = False
    return view
