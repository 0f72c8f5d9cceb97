"""Trajectories from files and data frames (`read`), at once or in parts that are loaded one by one."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import partial
from glob import glob
from itertools import pairwise, product
from pathlib import Path
from typing import Any, Literal, overload

import numpy as np
from numpy.typing import NDArray

from cindy._arrays import Floats
from cindy._check import counted, did_you_mean, flag, one_of, positive, short, unique_names
from cindy._files import is_file
from cindy.data.files import NETCDF, from_excel, from_matlab, from_npz, from_parquet
from cindy.data.inputs import HOLDS, Hold
from cindy.data.moments import UNITS_IN_SECONDS, in_unit, time_column, word_of_time
from cindy.data.tables import ROW_NAMES, Table, from_frame, must_go_on
from cindy.data.text_table import from_text
from cindy.data.trajectory import Trajectory, same_variables
from cindy.errors import DataError, require

_KINDS = {
    ".npz": from_npz,
    ".parquet": from_parquet,
    ".pq": from_parquet,
    ".xls": from_excel,
    ".xlsx": from_excel,
    ".xlsm": from_excel,
    ".ods": from_excel,
    ".mat": from_matlab,
}
_TOGETHER = {"date", "year", "month", "day", "hour", "minute", "second", "time"}
"""Several columns with these names may together give one time; the user must then choose one."""


_Text = str | None
_Names = Iterable[str] | None
_Name = str | _Names


@overload
def read(
    path: Any, time: _Name = ..., states: _Names = ..., by: _Name = ..., inputs: _Names = ...,
    *, dt: float | None = ..., hold: Hold = ..., time_unit: _Text = ..., lazy: Literal[False] = ...,
) -> list[Trajectory]: ...  # fmt: skip
@overload
def read(
    path: Any, time: _Name = ..., states: _Names = ..., by: _Name = ..., inputs: _Names = ...,
    *, dt: float | None = ..., hold: Hold = ..., time_unit: _Text = ..., lazy: Literal[True],
) -> Lazy: ...  # fmt: skip
def read(
    path: Any,
    time: str | Iterable[str] | None = None,
    states: Iterable[str] | None = None,
    by: str | Iterable[str] | None = None,
    inputs: Iterable[str] | None = None,
    *,
    dt: float | None = None,
    hold: Hold = "linear",
    time_unit: str | None = None,
    lazy: bool = False,
) -> list[Trajectory] | Lazy:
    """The trajectories in files or in a data frame.

    path: a text file with a header (cells separated by commas, semicolons, tabs or blanks, lines that
        start with # or % are comments; also gzipped); a parquet, Excel or Matlab file; an npz file with
        the arrays t (n,) and x (n, d) (optional: u, and the names states and inputs; or one array per
        column); a pandas, polars or Dask DataFrame; or an xarray Dataset. A list of files, or a pattern
        such as "runs/*.parquet", whose files are read in the order of their names
    time: name of the column of times; by default the one with a usual name (t, time, year, date, …), or
        the index of a DataFrame; ("date", "time") joins a date and a time of the clock in two columns.
        Dates count from the first, in seconds unless `time_unit` is given
    states: names of the columns of states; by default all columns that are not used otherwise
    by: name of a column; the rows that share a value in it are one trajectory. With names of several
        columns, such as ("subject", "dose"), the rows that share all of these values
    inputs: names of the columns of inputs
    dt: the constant step between rows, for data without a column of times
    hold: what the inputs do between samples: "zero", "linear" or "band"; see `Trajectory`
    time_unit: "second", "minute", "hour", "day", "week" or "year" (of 365.25 days): the unit into which dates
        and seconds are converted, and the unit of `dt` and of times that have none
    lazy: load a file only when it is needed, and forget it afterwards: for data larger than memory.
        Partitions of a Dask DataFrame and chunks of a Dataset are also loaded one by one; a trajectory
        then ends where its partition or chunk ends

    An empty cell is a missing value. If most rows of states have no inputs, the inputs are taken to be
    sampled at times of their own: see `u_t` of `Trajectory`.

    >>> import pandas
    >>> table = pandas.DataFrame({"run": ["a", "a", "b", "b"], "t": [0, 1, 0, 1], "x": [1.0, 0.5, 2.0, 1.0]})
    >>> [len(run) for run in read(table, by="run")]
    [2, 2]
    """
    keys, times = ((name,) if isinstance(name, str) else name for name in (by, time))
    columns = _Columns(
        None if times is None else unique_names(times, "read: `time`"),
        None if states is None else unique_names(states, "read: `states`"),
        () if keys is None else unique_names(keys, "read: `by`"),
        None if inputs is None else unique_names(inputs, "read: `inputs`"),
        None if dt is None else positive(dt, "read: `dt`"),
        hold,
        time_unit,
    )
    files = _files(path)
    if flag(lazy, "read: `lazy`"):
        return _lazy(path, files, columns)
    if files is None:
        return columns(path.compute() if is_dask_frame(path) else path)
    if len(files) == 1:
        return columns(files[0])
    return [trajectory for file in files for trajectory in _File(file, columns)()]


def _files(path: Any) -> list[Path] | None:
    """The files that a path, a pattern or a list of paths stands for; None for a data frame."""
    if isinstance(path, (list, tuple)):
        if not path:
            raise DataError("read: the list of files is empty.")
        if all(isinstance(name, (str, os.PathLike)) for name in path):
            return [Path(name) for name in path]
        return None
    if isinstance(path, str) and any(sign in path for sign in "*?[") and not is_file(Path(path)):
        matching = sorted(glob(path))
        if not matching:
            raise DataError(f"read: no file matches {path!r}.")
        return [Path(name) for name in matching]
    return [Path(path)] if isinstance(path, (str, os.PathLike)) else None


def _lazy(path: Any, files: list[Path] | None, columns: _Columns) -> Lazy:
    """The parts of files, of a Dask DataFrame or of a Dataset with chunks."""
    if files is not None:
        for file in files:
            if not is_file(file):
                raise DataError(f"read: there is no file {str(file)[:200]}.")
        return Lazy([_File(file.absolute(), columns) for file in files], "files")
    if is_dask_frame(path):
        return Lazy(packed(path.to_delayed(), "partition", columns), "a Dask data frame")
    if is_lazy_dataset(path):
        # Chunks may be cut along several dimensions: a part takes one stretch along each of them.
        stretches = []
        for dimension, sizes in path.chunksizes.items():
            edges = np.concatenate([[0], np.cumsum(sizes)])
            stretches.append([(dimension, slice(int(a), int(b))) for a, b in pairwise(edges)])
        chunks = [path.isel(dict(box)) for box in product(*stretches)]
        return Lazy(packed(chunks, "chunk", columns), "an xarray Dataset")
    raise DataError(
        "read: lazy=True needs files, a Dask DataFrame or a Dataset with chunks, "
        f"but got {type(path).__name__}, which is in memory already."
    )


@dataclass(frozen=True)
class _Columns:
    """The role of each column; called with a data frame or a path, it returns the trajectories."""

    time: tuple[str, ...] | None
    states: tuple[str, ...] | None
    by: tuple[str, ...]
    inputs: tuple[str, ...] | None
    dt: float | None = None
    hold: Hold = "linear"
    time_unit: str | None = None

    def __post_init__(self) -> None:
        one_of(self.hold, HOLDS, "read: `hold`")
        if self.time_unit is not None:
            one_of(self.time_unit, UNITS_IN_SECONDS, "read: `time_unit`")

    def __call__(self, source: Any) -> list[Trajectory]:
        return _trajectories(_table(source), self)


@dataclass(frozen=True)
class _File:
    """A part that loads one of several files and names the trajectories after it."""

    path: Path
    columns: _Columns

    def __call__(self) -> list[Trajectory]:
        return _named_after(self.path.name, self.columns(self.path))

    def glimpse(self, samples: int) -> list[Trajectory]:
        """The first rows alone if the format allows it; otherwise the whole file."""
        if self.columns.by or _KINDS.get(self.path.suffix.lower()) is not from_parquet:
            return self()
        table = from_parquet(self.path, samples)
        # One level of the index may separate runs, whose rows can stand anywhere in the file.
        if len(table.index) > 1:
            return self()
        return _named_after(self.path.name, _trajectories(table, self.columns))


def _trajectories(table: Table, columns: _Columns) -> list[Trajectory]:
    """The trajectories of a table: find the role of each column, then cut the rows into runs."""
    time, by = None, columns.by
    if columns.dt is not None:
        _must_have_no_times(table, columns)
    elif columns.time:
        table, time = table.joined(columns.time)
    else:
        time = _column_of_times(table, {*by, *(columns.states or ()), *(columns.inputs or ())})
    if not by and time in table.index:
        by = tuple(name for name in table.index if name != time)
    inputs = table.inputs if columns.inputs is None else columns.inputs
    special = [*by] if time is None else [time, *by]
    others = {*special, *inputs}
    for name in (*special, *inputs):
        table.need(name)
    if columns.states is None:
        for reason in table.refused.values():
            raise DataError(reason)
        states = tuple(name for name in table.names if name not in others and name not in table.index)
    else:
        states = columns.states
    if not states:
        raise DataError(f"{table.source} has no column left for the states: {', '.join(table.names)}.")
    clash = [name for name in states if name in others] or [name for name in inputs if name in special]
    if clash or len(set(special)) < len(special):
        twice = clash[0] if clash else time
        raise DataError(f'read: the column "{twice}" cannot be a state, an input, the time and `by` at once.')
    t, unit = (None, "") if time is None else _times(table, time)
    if columns.time_unit is not None:
        t = None if t is None else in_unit(t, unit, columns.time_unit, table.source)
        unit = columns.time_unit
    x = np.column_stack([table.numbers(name) for name in states])
    u = np.column_stack([table.numbers(name) for name in inputs]) if inputs else None
    # No other code holds these arrays: once they are read-only, a trajectory of all rows need not copy them.
    for array in (x, *(() if u is None else (u,))):
        array.flags.writeable = False
    trajectories = []
    for name, rows in _runs(table, by):
        if t is not None and time is not None:
            must_go_on(table, rows, time, t[rows], name, by)
        times = columns.dt if t is None else t[rows]
        samples = _samples(times, x[rows], None if u is None else u[rows])
        settings: dict[str, Any] = {"hold": columns.hold, "time_unit": unit, "name": name}
        trajectories.append(Trajectory(**samples, states=states, inputs=inputs or None, **settings))
    return trajectories


def _samples(t: Floats | float | None, x: Floats, u: Floats | None) -> dict[str, Any]:
    """The arguments t, x and u of a trajectory, and u_t if inputs have times of their own."""
    if u is not None and isinstance(t, np.ndarray):
        states, inputs = np.isfinite(x).any(axis=1), np.isfinite(u).all(axis=1)
        # If most samples of the states have inputs, the inputs of the others are missing values.
        if 2 * np.sum(states & inputs) <= np.sum(states) and inputs.any():
            return {"t": t[states], "x": x[states], "u": u[inputs], "u_t": t[inputs]}
    return {"t": t, "x": x, "u": u}


def _must_have_no_times(table: Table, columns: _Columns) -> None:
    """Raise if a step `dt` is given for rows that seem to have times."""
    if columns.time is not None:
        raise DataError("read: pass `time`, a column, or `dt`, the step between rows, but not both.")
    times = time_column(table.names)
    if times is not None and columns.states is None:
        raise DataError(
            f'{table.source} has a column "{times}", which looks like times. Leave `dt` out; or name the '
            "columns of states, if it does not hold times."
        )


def _table(source: Any) -> Table:
    """The table in a file, by the reader for its kind, or in a data frame."""
    if not isinstance(source, (str, os.PathLike)):
        return from_frame(source)
    path = Path(source)
    if not is_file(path):
        if os.path.isdir(path):
            raise DataError(f'read: {path} is a folder. Name a file in it, or several: "{path / "*.csv"}".')
        raise DataError(f"read: there is no file {str(path)[:200]}.")
    if path.suffix.lower() in NETCDF:
        raise DataError(
            f'read: {path} is a netCDF file, which holds a field. Read it with cindy.Field("{path}").'
        )
    return _KINDS.get(path.suffix.lower(), from_text)(path)


def _column_of_times(table: Table, taken: set[str]) -> str:
    """The column with a usual name for times, else the index of a frame unless it only counts the rows.

    taken: columns that the user has named as something else
    """
    # A column of times that was also named as something else is told where the roles are compared.
    free = [name for name in table.names if name not in taken]
    free = free if time_column(free) is not None else list(table.names)
    labels = [name for name in free if name in table.index and name not in ROW_NAMES]
    for names in ([name for name in free if name not in table.index], labels):
        surest = time_column(names)
        if surest is not None and word_of_time(surest) != "t":
            parts = [name for name in names if word_of_time(name) in _TOGETHER]
            if len(parts) > 1:
                quoted = [f'"{name}"' for name in parts[:3]]
                raise DataError(
                    f"{table.source}: {' and '.join(quoted)} may be times. Say which with `time`. A date and "
                    f"a time of the clock that belong together are joined by `time=({', '.join(quoted)})`."
                )
        if surest is not None:
            return surest
    if len(labels) == 1:
        return labels[0]
    raise DataError(
        f'{table.source} has no column "t", nor one called time, date, year or similar. '
        "Say which column holds the times with `time`, or give the step with `dt`. "
        f"{did_you_mean('t', table.names)} If these are no names, delete the lines above the right ones."
    )


def _times(table: Table, time: str) -> tuple[Floats, str]:
    """The column of times, of which none may be missing, and its unit."""
    t, unit = table.moments(time)
    missing = np.flatnonzero(np.isnan(t))
    if len(missing):
        raise DataError(
            f"{table.source}, {table.place(int(missing[0]), time)}: the time is missing. "
            "Every row needs one; only other values may be missing."
        )
    return t, unit


def _runs(table: Table, by: tuple[str, ...]) -> list[tuple[str, NDArray[np.int64] | slice]]:
    """The name and the rows of each trajectory, in the order in which they first occur."""
    if not by:
        return [("", slice(0, table.rows))]
    groups: dict[tuple[str, ...], list[int]] = {}
    for row, key in enumerate(zip(*map(table.text, by), strict=True)):
        groups.setdefault(key, []).append(row)
    return [
        (", ".join(f"{column} {value}" for column, value in zip(by, key, strict=True)), np.array(rows))
        for key, rows in groups.items()
    ]


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
        return f"Lazy({counted(len(self.parts), 'part')} of {self.source})"


def is_dask_frame(data: Any) -> bool:
    """Whether `data` is a Dask data frame."""
    return hasattr(data, "to_delayed") and hasattr(data, "columns") and hasattr(data, "npartitions")


def is_lazy_dataset(data: Any) -> bool:
    """Whether `data` is an xarray Dataset with chunks."""
    return hasattr(data, "data_vars") and bool(getattr(data, "chunksizes", None))


def packed(pieces: Sequence[Any], word: str, make: Callable[[Any], list[Trajectory]]) -> tuple[Part, ...]:
    """The results of Dask graphs as parts, called after the word and their number."""
    dumps = require("cloudpickle", "dask", "a Dask collection").dumps
    return tuple(partial(_computed, dumps(piece), f"{word} {k}", make) for k, piece in enumerate(pieces))


def _computed(packed: bytes, label: str, make: Callable[[Any], list[Trajectory]]) -> list[Trajectory]:
    """The trajectories that `make` makes of the result of a Dask graph, named after its label.

    packed: the graph, pickled by cloudpickle as Dask does it, so that any executor can send it
    """
    lazy = require("cloudpickle", "dask", "a Dask collection").loads(packed)
    # The graph runs in this thread: a task that waited for other tasks would block its worker.
    (value,) = require("dask", "dask", "a Dask collection").compute(lazy, scheduler="synchronous")
    return _named_after(label, make(value))


def _named_after(label: str, trajectories: Iterable[Trajectory]) -> list[Trajectory]:
    """The trajectories with the name of their source in front of their own names."""
    return [
        replace(trajectory, name=f"{label}, {trajectory.name}" if trajectory.name else label)
        for trajectory in trajectories
    ]
