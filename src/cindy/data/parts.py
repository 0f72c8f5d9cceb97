"""Parts of the data that are loaded when they are needed: files, functions, Dask collections."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import pairwise, product
from typing import Any

import numpy as np

from cindy._check import short
from cindy.data.device_trajectory import as_trajectory
from cindy.data.trajectory import Trajectory, same_variables
from cindy.errors import DataError, require

__all__ = [
    "Held",
    "Lazy",
    "Part",
    "glimpse",
    "is_dask_frame",
    "is_lazy_dataset",
    "loaded",
    "parts_of",
    "parts_of_dataset",
    "parts_of_frame",
]


Part = Callable[[], list[Trajectory]]
"""Gives some trajectories, the same ones each time it is called; can be sent to another process."""


@dataclass(frozen=True)
class Held:
    """A part that is in memory."""

    trajectories: tuple[Trajectory, ...]

    def __call__(self) -> list[Trajectory]:
        return list(self.trajectories)


def loaded(part: Part) -> list[Trajectory]:
    """What a part loads, which must be trajectories."""
    given: Any = part()
    if not isinstance(given, (list, tuple)) or not all(isinstance(item, Trajectory) for item in given):
        raise DataError(f"Lazy: a part must load a list of trajectories, but loaded {short(given)}.")
    return list(given)


def glimpse(part: Part, samples: int) -> list[Trajectory]:
    """The trajectories of a part, of which no more than the first so many samples need be right.

    A part that can be opened without loading it whole has a method of this name; any other is loaded.
    """
    look: Callable[[int], list[Trajectory]] | None = getattr(part, "glimpse", None)
    return loaded(part) if look is None else look(samples)


class Lazy:
    """Trajectories that are loaded when they are asked for, and as often as they are.

    Iterating loads one part after the other; functions that take trajectories take it as it is.

    parts: callables without arguments, each of which loads some trajectories; to be used
        by other processes they must be picklable, so functions of a module and no lambdas
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


@dataclass(frozen=True)
class _Computed:
    """A part that a Dask graph makes.

    packed: the graph, pickled the way Dask does it, so that any executor can send it
    finish: from what the graph gives to trajectories
    """

    packed: bytes
    finish: Callable[[Any], list[Trajectory]]

    def __call__(self) -> list[Trajectory]:
        lazy = require("cloudpickle", "dask", "a Dask collection").loads(self.packed)
        # In this process and thread: a task that waited for other tasks would block its worker.
        (value,) = require("dask", "dask", "a Dask collection").compute(lazy, scheduler="synchronous")
        return self.finish(value)


@dataclass(frozen=True)
class _Named:
    """Trajectories of one part, named by it where they have no name of their own."""

    label: str
    make: Callable[[Any], list[Trajectory]]

    def __call__(self, value: Any) -> list[Trajectory]:
        return [
            replace(trajectory, name=f"{self.label}, {trajectory.name}" if trajectory.name else self.label)
            for trajectory in self.make(value)
        ]


def parts_of(data: Any) -> tuple[_Computed, ...]:
    """The parts of a bag of trajectories, or of a pair (t, x) of arrays that are cut along time."""
    if isinstance(data, (tuple, list)):
        return _parts_of_arrays(data)
    kind = type(data).__name__
    if kind == "Bag":
        return _packed(data.to_delayed(), "partition", _trajectories)
    raise DataError(
        f"A Dask {kind} alone has no times. "
        "Pass a pair (t, x), a bag of trajectories, or cindy.read(frame, …)."
    )


def parts_of_frame(frame: Any, make: Callable[[Any], list[Trajectory]]) -> tuple[_Computed, ...]:
    """The partitions of a Dask data frame; `make` turns a pandas one into trajectories."""
    return _packed(frame.to_delayed(), "partition", make)


def parts_of_dataset(dataset: Any, make: Callable[[Any], list[Trajectory]]) -> tuple[_Computed, ...]:
    """The chunks of an xarray Dataset of Dask arrays; `make` turns a loaded one into trajectories."""
    ends = {name: np.concatenate([[0], np.cumsum(sizes)]) for name, sizes in dataset.chunksizes.items()}
    places = [
        {name: slice(int(ends[name][k]), int(ends[name][k + 1])) for name, k in zip(ends, at, strict=True)}
        for at in product(*(range(len(edges) - 1) for edges in ends.values()))
    ]
    return _packed([dataset.isel(place) for place in places], "chunk", make)


def is_dask_frame(data: Any) -> bool:
    """Whether it is a data frame of Dask."""
    return hasattr(data, "to_delayed") and hasattr(data, "columns") and hasattr(data, "npartitions")


def is_lazy_dataset(data: Any) -> bool:
    """Whether it is an xarray Dataset with chunks."""
    return hasattr(data, "data_vars") and bool(getattr(data, "chunksizes", None))


def _parts_of_arrays(data: Sequence[Any]) -> tuple[_Computed, ...]:
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
    stretches = [
        delayed(_pair, pure=True)(t[int(a) : int(b)], x[int(a) : int(b)]) for a, b in pairwise(edges) if b > a
    ]
    return _packed(stretches, "chunk", _trajectories)


def _pair(t: Any, x: Any) -> list[Any]:
    return [Trajectory(t, x)]


def _trajectories(items: Any) -> list[Trajectory]:
    return [as_trajectory(item) for item in items]


def _packed(
    pieces: Sequence[Any], word: str, make: Callable[[Any], list[Trajectory]]
) -> tuple[_Computed, ...]:
    dumps = require("cloudpickle", "dask", "a Dask collection").dumps
    return tuple(_Computed(dumps(piece), _Named(f"{word} {k}", make)) for k, piece in enumerate(pieces))
