"""Source: the data that a user passed, in parts that are loaded where they are needed."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from itertools import islice
from typing import Any

import numpy as np

from cindy.data.field import Field
from cindy.data.parts import Lazy, Part, glimpse, is_dask_frame, is_lazy_dataset, loaded, parts_of
from cindy.data.readers import as_trajectories, read
from cindy.data.tables import is_frame
from cindy.data.time_scales import LOOK, spread_over
from cindy.data.trajectory import Trajectory, same_variables
from cindy.errors import DataError


@dataclass(frozen=True, eq=False)
class Source:
    """Trajectories in parts.

    parts: all parts, in order
    whole: the trajectories themselves if they are in memory, else None
    apart: whether each part can be loaded by itself, in any order and by any process
    again: whether the parts can be read more than once
    """

    parts: Iterable[Part]
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
        if isinstance(self.parts, _Stream):
            return self.parts.first(LOOK)
        return list(islice(self.parts, LOOK))

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
        return Source(parts_of(data), apart=True)
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


def _is_dask(data: Any) -> bool:
    return type(data).__module__.partition(".")[0] == "dask" and hasattr(data, "__dask_graph__")


class _Stream:
    """The items of an iterable as parts; a second pass over a generator is an error."""

    def __init__(self, data: Iterable[Any]) -> None:
        self._data = data
        first = iter(data)
        # iter(x) is x for a generator and all else that is used up by reading; containers give new iterators.
        self.again = first is not data
        self._rest = first
        self._read: list[Part] = []
        self._spent = False

    def first(self, count: int) -> list[Part]:
        """The first parts, which a pass gives again."""
        if self.again:
            return list(islice(self, count))
        missing = max(count - len(self._read), 0)
        self._read.extend(_held(item) for item in islice(self._rest, missing))
        return self._read[:count]

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
