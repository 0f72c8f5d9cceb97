"""Any data that a user may have, as trajectories: in memory, on a device, or in parts.

`as_trajectories` makes a list of them, `as_source` parts that are loaded when they are needed.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property, partial
from itertools import islice, pairwise
from os import PathLike
from typing import Any

import numpy as np

from cindy._arrays import Floats, Space, is_foreign, space_holding, to_numpy
from cindy._check import stretch
from cindy.data.field import Field
from cindy.data.readers import Lazy, Part, glimpse, is_dask_frame, is_lazy_dataset, loaded, packed, read
from cindy.data.tables import is_frame
from cindy.data.time_scales import LOOK, spread_over
from cindy.data.trajectory import Trajectory, is_pair, same_variables
from cindy.errors import DataError, require


@dataclass(frozen=True, eq=False)
class Source:
    """Trajectories in parts.

    parts: all parts, in order
    whole: the trajectories themselves if they are in memory, else None
    apart: whether each part can be loaded by itself, in any order and by any process
    again: whether the parts can be read more than once
    """

    parts: Sequence[Part] | _Stream
    whole: list[Trajectory] | None = None
    apart: bool = False
    again: bool = True

    def __iter__(self) -> Iterator[Trajectory]:
        return same_variables(trajectory for part in self.parts for trajectory in loaded(part))

    def first_parts(self) -> list[Part]:
        """A few parts by which settings are chosen: spread over the data, or the first of a stream.

        The first pass over a stream gives these parts again, even if it can be read only once.
        """
        if isinstance(self.parts, Sequence):
            # Spread over all parts: files are often sorted, and the first few are then similar.
            return spread_over(self.parts, LOOK)
        return self.parts.first(LOOK)

    def some(self, samples: int) -> list[Trajectory]:
        """The whole of data in memory; of other data the beginnings of a few trajectories."""
        if self.whole is not None:
            return self.whole
        beginnings: list[Trajectory] = []
        parts = self.first_parts()
        for part in parts:
            room = max(samples // len(parts), 1)
            for trajectory in glimpse(part, room):
                if room > 0:
                    beginnings.append(trajectory.part(0, min(len(trajectory), room)))
                    room -= len(trajectory)
        if not beginnings:
            raise DataError("No trajectories: there is nothing to read. Pass at least one.")
        return list(same_variables(beginnings))


def as_source(data: Any) -> Source:
    """The parts of any data that a user may have.

    One trajectory, a pair (t, x), a data frame or a list of these is kept in memory. A `Lazy`, a Dask bag of
    trajectories, a Dask frame, a pair (t, x) of Dask arrays or a Dataset with chunks is loaded part by part.
    Any other iterable is read in order: a generator once, anything else as often as needed.
    """
    if isinstance(data, Source):
        return data
    if isinstance(data, Lazy):
        return Source(data.parts, apart=True)
    if is_dask_frame(data) or is_lazy_dataset(data):
        return Source(read(data, lazy=True).parts, apart=True)
    if _is_dask(data) or (isinstance(data, (tuple, list)) and any(map(_is_dask, data))):
        return Source(_parts_of(data), apart=True)
    # Texts and mappings are iterable too, but only as letters and keys; `as_trajectories` refuses them.
    kinds = (Trajectory, list, tuple, str, bytes, np.ndarray, Mapping)
    in_memory = isinstance(data, kinds) or is_frame(data) or hasattr(data, "to_frame")
    if in_memory or not isinstance(data, Iterable):
        trajectories = as_trajectories(data)
        return Source(tuple(partial(list, (trajectory,)) for trajectory in trajectories), whole=trajectories)
    stream = _Stream(data)
    return Source(stream, again=stream.again)


def is_fields(data: Any) -> bool:
    """Whether the data are a field, or a list that contains one."""
    if isinstance(data, (list, tuple)):
        return any(isinstance(item, Field) for item in data)
    return isinstance(data, Field)


class _Stream:
    """The items of an iterable as parts; a second pass over a generator is an error."""

    def __init__(self, data: Iterable[Any]) -> None:
        self._data = data
        self._rest = iter(data)
        # iter(x) is x for a generator and all else that is used up by reading; containers give new iterators.
        self.again = self._rest is not data
        self._read: list[Part] = []
        self._spent = False

    def first(self, count: int) -> list[Part]:
        """The first parts, which a pass gives again."""
        if self.again:
            return list(islice(self, count))
        self._read += map(_held, islice(self._rest, count - len(self._read)))
        return list(self._read)

    def __iter__(self) -> Iterator[Part]:
        if self.again:
            yield from map(_held, self._data)
            return
        if self._spent:
            raise DataError(
                "These trajectories come from a generator, which can be read only once. Pass a list, "
                "read(paths, lazy=True), or an object whose __iter__ begins anew."
            )
        self._spent = True
        first, self._read = self._read, []
        yield from first
        yield from map(_held, self._rest)


def _held(item: Any) -> Part:
    return partial(list, as_trajectories(item))


def as_trajectories(data: Any) -> list[Trajectory]:
    """A list of trajectories with the same variables, from any data that a user may have.

    `data` is one trajectory, one pair (t, x), a DataFrame, an xarray Dataset, or an iterable of these.
    """
    if isinstance(data, Trajectory) or is_pair(data):
        return [_as_trajectory(data)]
    if is_frame(data):
        return read(data)
    mistaken = isinstance(data, (str, bytes, np.ndarray, Mapping)) or hasattr(data, "to_frame")
    if mistaken or not isinstance(data, Iterable):
        _as_trajectory(data)  # raises, and says what to do
    several = (read(item) if is_frame(item) else [item] for item in data)
    trajectories = list(same_variables(_as_trajectory(item) for items in several for item in items))
    if not trajectories:
        raise DataError("No trajectories: the list is empty. Pass at least one Trajectory or pair (t, x).")
    return trajectories


def _as_trajectory(item: Any) -> Trajectory:
    """A trajectory from a trajectory or from a pair (t, x), which may be on a device."""
    if isinstance(item, Trajectory):
        return item.aligned()
    if is_pair(item):
        if all(map(is_foreign, item)):
            return _DeviceTrajectory(item[0], item[1])
        return Trajectory(*(to_numpy(part) if is_foreign(part) else part for part in item))
    raise DataError(f"Expected a Trajectory or a pair (t, x), but got {type(item).__name__}. {_advice(item)}")


def _advice(item: Any) -> str:
    """How to turn an object that is no trajectory into one."""
    if isinstance(item, (str, PathLike)):
        return f"If it names a file, read that first: cindy.read({str(item)!r})."
    if hasattr(item, "to_dataset"):
        return (
            'Turn it into a Dataset first: .to_dataset(dim="…") with the axis that lists the states. '
            "A field over space and time is cindy.Field(…)."
        )
    if hasattr(item, "to_frame") and hasattr(item, "index"):
        return "Turn the Series into a DataFrame first, with .to_frame()."
    if isinstance(item, Mapping):
        return "Turn it into a DataFrame first, or pass (d[time], d[states])."
    if getattr(item, "ndim", 0) in (1, 2):
        return "The times are missing: pass the pair (t, x), x with one row per time."
    return "Wrap the data in cindy.Trajectory(t, x, states=…)."


class _DeviceTrajectory(Trajectory):
    """A trajectory whose arrays are of PyTorch, CuPy or another library of the array API standard.

    Code that works on the device takes `times` and `columns` as they are. All other code uses `t` and `x` as
    those of any trajectory; they are copied from the device when they are first used.

    times: (n,); columns: (n, d), both of that library
    """

    times: Any
    columns: Any

    def __init__(self, t: Any, x: Any, *names: Any, **settings: Any) -> None:
        x = x[:, None] if len(x.shape) == 1 else x
        if len(x.shape) != 2 or t.shape != (x.shape[0],):
            raise DataError(
                "A pair (t, x) on a device must be a vector and a matrix with as many rows, but has shapes "
                f"{tuple(t.shape)} and {tuple(x.shape)}."
            )
        # A trajectory of two samples checks the names, the weight and the direction of time; the samples
        # themselves stay unchecked, because reading them would copy them from the device.
        count = min(int(x.shape[0]), 2)
        checked = Trajectory(to_numpy(t[:count]), np.zeros((count, int(x.shape[1]))), *names, **settings)
        self.__dict__.update(checked.__dict__ | {"times": t, "columns": x})
        del self.__dict__["t"], self.__dict__["x"]

    @cached_property
    def t(self) -> Floats:
        return np.asarray(to_numpy(self.times), dtype=np.float64)

    @cached_property
    def x(self) -> Floats:
        return np.asarray(to_numpy(self.columns), dtype=np.float64)

    def __len__(self) -> int:
        return int(self.columns.shape[0])

    @property
    def dimension(self) -> int:
        return int(self.columns.shape[1])

    def part(self, start: int, stop: int) -> Trajectory:
        stretch(start, stop, len(self), "Trajectory", "samples")
        part = object.__new__(_DeviceTrajectory)
        settings = {key: value for key, value in self.__dict__.items() if key not in ("t", "x")}
        part.__dict__.update(
            settings | {"times": self.times[start:stop], "columns": self.columns[start:stop, :]}
        )
        return part

    def step(self, start: int, stop: int) -> float | None:
        t, count = self.times[start:stop], stop - start
        space = space_holding(t)
        first, last = float(t[0]), float(t[-1])
        step = (last - first) / (count - 1)
        ideal = space.xp.arange(count, dtype=space.xp.float64, device=space.device) * step
        # As `calculus.uniform_step`, but on the device, so that one number is copied and not all times.
        off = float(space.xp.max(space.xp.abs(t - first - ideal)))
        return step if off <= 4 * np.finfo(float).eps * max(abs(first), abs(last)) else None

    def on_device(self, space: Space, start: int, stop: int) -> Any:
        given = space.put(self.columns[start:stop, :])
        rows = space.xp.empty((self.dimension, stop - start), dtype=space.xp.float64, device=space.device)
        rows[...] = space.xp.permute_dims(given, (1, 0))
        return rows

    def segments(self) -> list[Trajectory]:
        xp = space_holding(self.columns).xp
        if not bool(xp.any(xp.isnan(self.columns))):
            return [self]
        return Trajectory(self.t, self.x, self.states, name=self.name, weight=self.weight).segments()


def _is_dask(data: Any) -> bool:
    """Whether data are a collection of Dask."""
    return type(data).__module__.partition(".")[0] == "dask" and hasattr(data, "__dask_graph__")


def _parts_of(data: Any) -> tuple[Part, ...]:
    """The parts of a Dask bag of trajectories, or of a pair (t, x) of Dask arrays with chunks along time."""
    kind = type(data).__name__
    if kind == "Bag":
        return packed(data.to_delayed(), "partition", _trajectories)
    if not isinstance(data, (tuple, list)):
        raise DataError(
            f"A Dask {kind} alone has no times. "
            "Pass a pair (t, x), a bag of trajectories, or cindy.read(frame, …)."
        )
    if len(data) != 2 or not hasattr(data[1], "chunks"):
        raise DataError(
            "Expected a pair (t, x) in which x is a Dask array; "
            f"got {', '.join(type(item).__name__ for item in data)}. Pass several trajectories as a bag."
        )
    t, x = data
    if len(t) != len(x):
        raise DataError(f"Of the pair (t, x), t has {len(t)} entries and x has {len(x)} rows.")
    edges = np.concatenate([[0], np.cumsum(x.chunks[0])])
    delayed = require("dask", "dask", "a Dask array").delayed
    pairs = [delayed([(t[int(a) : int(b)], x[int(a) : int(b)])]) for a, b in pairwise(edges) if b > a]
    return packed(pairs, "chunk", _trajectories)


def _trajectories(items: Any) -> list[Trajectory]:
    return [_as_trajectory(item) for item in items]
