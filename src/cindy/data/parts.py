"""Data that are not in numpy arrays yet: samples on a device, and parts that are loaded when they are needed,
from files, functions and Dask collections."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from functools import cached_property, partial
from itertools import pairwise, product
from os import PathLike
from typing import Any

import numpy as np

from cindy._arrays import Floats, Space, device_of, is_foreign, namespace, to_numpy
from cindy._check import short, stretch
from cindy.data.trajectory import Trajectory, is_pair, same_variables
from cindy.errors import DataError, require


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
        t = self.times[start:stop]
        xp, count = namespace(t), stop - start
        first, last = float(t[0]), float(t[-1])
        step = (last - first) / (count - 1)
        ideal = xp.arange(count, dtype=xp.float64, device=device_of(t)) * step
        # As `calculus.uniform_step`, but on the device, so that one number is copied and not all times.
        off = float(xp.max(xp.abs(t - first - ideal)))
        return step if off <= 4 * np.finfo(float).eps * max(abs(first), abs(last)) else None

    def on_device(self, space: Space, start: int, stop: int) -> Any:
        given = space.put(self.columns[start:stop, :])
        rows = space.xp.empty((self.dimension, stop - start), dtype=space.xp.float64, device=space.device)
        rows[...] = space.xp.permute_dims(given, (1, 0))
        return rows

    def segments(self) -> list[Trajectory]:
        xp = namespace(self.columns)
        if not bool(xp.any(xp.isnan(self.columns))):
            return [self]
        return Trajectory(self.t, self.x, self.states, name=self.name, weight=self.weight).segments()


def as_trajectory(item: Any) -> Trajectory:
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
        return 'Turn it into a Dataset first: .to_dataset(dim="…") with the axis that lists the states.'
    if hasattr(item, "to_frame") and hasattr(item, "index"):
        return "Turn the Series into a DataFrame first, with .to_frame()."
    if isinstance(item, Mapping):
        return "Turn it into a DataFrame first, or pass (d[time], d[states])."
    if getattr(item, "ndim", 0) in (1, 2):
        return "The times are missing: pass the pair (t, x), x with one row per time."
    return "Wrap the data in cindy.Trajectory(t, x, states=…)."


Part = Callable[[], list[Trajectory]]
"""A function that returns some trajectories, always the same ones; it can be sent to another process."""


def loaded(part: Part) -> list[Trajectory]:
    """The trajectories of a part, or an error if it loads anything else."""
    items: Any = part()
    if not isinstance(items, (list, tuple)) or not all(isinstance(item, Trajectory) for item in items):
        raise DataError(f"Lazy: a part must load a list of trajectories, but loaded {short(items)}.")
    return list(items)


def glimpse(part: Part, samples: int) -> list[Trajectory]:
    """The trajectories of a part, complete at least for the given number of samples at its beginning.

    A part that can be opened without loading it whole has a method of this name; any other is loaded.
    """
    method: Callable[[int], list[Trajectory]] | None = getattr(part, "glimpse", None)
    return loaded(part) if method is None else method(samples)


class Lazy:
    """Trajectories that are loaded only when they are needed, and anew each time.

    Iterating loads one part after the other. All functions that take trajectories also take a `Lazy`.

    parts: callables without arguments, each of which loads some trajectories; if other processes are to use
        them they must be picklable, which functions of a module are and lambdas are not
    source: what they are loaded from, in words

    >>> t = [0.0, 0.1, 0.2]
    >>> data = Lazy([lambda: [Trajectory(t, t)], lambda: [Trajectory(t, [1, 4, 9])]], "two functions")
    >>> data
    Lazy(2 parts of two functions)
    >>> len(list(data)), len(list(data))
    (2, 2)
    """

    def __init__(self, parts: Iterable[Part], source: str = "data") -> None:
        try:
            self.parts = tuple(parts)
        except TypeError:
            raise DataError(
                f"Lazy: expected functions that load trajectories, but got {short(parts)}."
            ) from None
        self.source = str(source)
        if not self.parts:
            raise DataError(f"Lazy: there are no parts of {self.source} to load.")
        for part in self.parts:
            if not callable(part):
                raise DataError(f"Lazy: a part must be a function that loads trajectories, but is {part!r}.")

    def __iter__(self) -> Iterator[Trajectory]:
        return same_variables(trajectory for part in self.parts for trajectory in loaded(part))

    def __repr__(self) -> str:
        return f"Lazy({len(self.parts)} part{'s' if len(self.parts) > 1 else ''} of {self.source})"


def _computed(packed: bytes, label: str, make: Callable[[Any], list[Trajectory]]) -> list[Trajectory]:
    """The trajectories that `make` makes of the result of a Dask graph, named after its label.

    packed: the graph, pickled by cloudpickle as Dask does it, so that any executor can send it
    """
    lazy = require("cloudpickle", "dask", "a Dask collection").loads(packed)
    # The graph runs in this thread: a task that waited for other tasks would block its worker.
    (value,) = require("dask", "dask", "a Dask collection").compute(lazy, scheduler="synchronous")
    return named_after(label, make(value))


def named_after(label: str, trajectories: Iterable[Trajectory]) -> list[Trajectory]:
    """The trajectories with the name of their source in front of their own names."""
    return [
        replace(trajectory, name=f"{label}, {trajectory.name}" if trajectory.name else label)
        for trajectory in trajectories
    ]


def parts_of(data: Any) -> tuple[Part, ...]:
    """The parts of a Dask bag of trajectories, or of a pair (t, x) of Dask arrays with chunks along time."""
    if isinstance(data, (tuple, list)):
        return _parts_of_arrays(data)
    kind = type(data).__name__
    if kind == "Bag":
        return _packed(data.to_delayed(), "partition", _trajectories)
    raise DataError(
        f"A Dask {kind} alone has no times. "
        "Pass a pair (t, x), a bag of trajectories, or cindy.read(frame, …)."
    )


def parts_of_frame(frame: Any, make: Callable[[Any], list[Trajectory]]) -> tuple[Part, ...]:
    """The partitions of a Dask data frame; `make` turns a pandas frame into trajectories."""
    return _packed(frame.to_delayed(), "partition", make)


def parts_of_dataset(dataset: Any, make: Callable[[Any], list[Trajectory]]) -> tuple[Part, ...]:
    """The chunks of an xarray Dataset of Dask arrays; `make` turns a loaded one into trajectories."""
    # Chunks may be cut along several dimensions: a part takes one stretch along each of them.
    stretches = []
    for dimension, sizes in dataset.chunksizes.items():
        edges = np.concatenate([[0], np.cumsum(sizes)])
        stretches.append([(dimension, slice(int(a), int(b))) for a, b in pairwise(edges)])
    return _packed([dataset.isel(dict(box)) for box in product(*stretches)], "chunk", make)


def is_dask(data: Any) -> bool:
    """Whether data are a collection of Dask."""
    return type(data).__module__.partition(".")[0] == "dask" and hasattr(data, "__dask_graph__")


def is_dask_frame(data: Any) -> bool:
    """Whether `data` is a Dask data frame."""
    return hasattr(data, "to_delayed") and hasattr(data, "columns") and hasattr(data, "npartitions")


def is_lazy_dataset(data: Any) -> bool:
    """Whether `data` is an xarray Dataset with chunks."""
    return hasattr(data, "data_vars") and bool(getattr(data, "chunksizes", None))


def _parts_of_arrays(data: Sequence[Any]) -> tuple[Part, ...]:
    require("dask.array", "dask", "a Dask array")
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
    return _packed(pairs, "chunk", _trajectories)


def _trajectories(items: Any) -> list[Trajectory]:
    return [as_trajectory(item) for item in items]


def _packed(pieces: Sequence[Any], word: str, make: Callable[[Any], list[Trajectory]]) -> tuple[Part, ...]:
    dumps = require("cloudpickle", "dask", "a Dask collection").dumps
    return tuple(partial(_computed, dumps(piece), f"{word} {k}", make) for k, piece in enumerate(pieces))
