"""Trajectories from files and data frames (`read`), and from any data of a user (`as_trajectories`)."""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from glob import glob
from pathlib import Path
from typing import Any, Literal, overload

import numpy as np
from numpy.typing import NDArray

from cindy._arrays import Floats
from cindy._check import did_you_mean, flag, positive, text, unique_names
from cindy._files import is_file
from cindy.data.files import from_excel, from_matlab, from_npz, from_parquet
from cindy.data.inputs import Hold, as_hold
from cindy.data.moments import time_column, word_of_time
from cindy.data.parts import (
    Lazy,
    as_trajectory,
    is_dask_frame,
    is_lazy_dataset,
    named_after,
    parts_of_dataset,
    parts_of_frame,
)
from cindy.data.tables import Table, from_frame, is_frame
from cindy.data.text_table import from_text
from cindy.data.trajectory import Trajectory, is_pair, same_variables
from cindy.errors import DataError

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
_BEGINNINGS = {".parquet": from_parquet, ".pq": from_parquet}
"""Readers that can read the first rows of a file without the others."""
_TOGETHER = {"date", "year", "month", "day", "hour", "minute", "second", "time"}
"""Several columns with these names may together give one time; the user must then choose one."""


_Text = str | None
_Names = Iterable[str] | None


@overload
def read(
    path: Any, time: _Text = ..., states: _Names = ..., by: _Text = ..., inputs: _Names = ...,
    *, dt: float | None = ..., hold: Hold = ..., lazy: Literal[False] = ...,
) -> list[Trajectory]: ...  # fmt: skip
@overload
def read(
    path: Any, time: _Text = ..., states: _Names = ..., by: _Text = ..., inputs: _Names = ...,
    *, dt: float | None = ..., hold: Hold = ..., lazy: Literal[True],
) -> Lazy: ...  # fmt: skip
def read(
    path: Any,
    time: str | None = None,
    states: Iterable[str] | None = None,
    by: str | None = None,
    inputs: Iterable[str] | None = None,
    *,
    dt: float | None = None,
    hold: Hold = "linear",
    lazy: bool = False,
) -> list[Trajectory] | Lazy:
    """The trajectories in files or in a data frame.

    path: a text file with a header (cells separated by commas, semicolons, tabs or blanks, lines that
        start with # or % are comments; also gzipped); a parquet, Excel or Matlab file; an npz file with
        the arrays t (n,) and x (n, d) (optional: u, and the names states and inputs; or one array per
        column); a pandas, polars or Dask DataFrame; or an xarray Dataset. A list of files, or a pattern
        such as "runs/*.parquet", whose files are read in the order of their names
    time: name of the column of times; by default the one with a usual name (t, time, year, date, …), or
        the index of a DataFrame. Dates count in seconds from the first
    states: names of the columns of states; by default all columns that are not used otherwise
    by: name of a column; the rows that share a value in it are one trajectory
    inputs: names of the columns of inputs
    dt: the constant step between rows, for data without a column of times
    hold: what the inputs do between samples: "zero", "linear" or "band"; see `Trajectory`
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
    for column, argument in ((time, "time"), (by, "by")):
        if column is not None:
            text(column, f"read: `{argument}`")
    columns = _Columns(
        time,
        None if states is None else unique_names(states, "read: `states`"),
        by,
        None if inputs is None else unique_names(inputs, "read: `inputs`"),
        None if dt is None else positive(dt, "read: `dt`"),
        as_hold(hold, "read: `hold`"),
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
        return Lazy(parts_of_frame(path, columns), "a Dask data frame")
    if is_lazy_dataset(path):
        return Lazy(parts_of_dataset(path, columns), "an xarray Dataset")
    raise DataError(
        "read: lazy=True needs files, a Dask DataFrame or a Dataset with chunks, "
        f"but got {type(path).__name__}, which is in memory already."
    )


@dataclass(frozen=True)
class _Columns:
    """The role of each column; called with a data frame or a path, it returns the trajectories."""

    time: str | None
    states: tuple[str, ...] | None
    by: str | None
    inputs: tuple[str, ...] | None
    dt: float | None = None
    hold: Hold = "linear"

    def __call__(self, source: Any) -> list[Trajectory]:
        return _trajectories(_table(source), self)


@dataclass(frozen=True)
class _File:
    """A part that loads one of several files and names the trajectories after it."""

    path: Path
    columns: _Columns

    def __call__(self) -> list[Trajectory]:
        return named_after(self.path.name, self.columns(self.path))

    def glimpse(self, samples: int) -> list[Trajectory]:
        """The first rows alone if the format allows it; otherwise the whole file."""
        if self.columns.by is not None or self.path.suffix.lower() not in _BEGINNINGS:
            return self()
        table = _BEGINNINGS[self.path.suffix.lower()](self.path, samples)
        # One level of the index may separate runs, whose rows can stand anywhere in the file.
        if len(table.index) > 1:
            return self()
        return named_after(self.path.name, _trajectories(table, self.columns))


def as_trajectories(data: Any) -> list[Trajectory]:
    """A list of trajectories with the same variables, from any data that a user may have.

    `data` is one trajectory, one pair (t, x), a DataFrame, an xarray Dataset, or an iterable of these.
    """
    if isinstance(data, Trajectory) or is_pair(data):
        return [as_trajectory(data)]
    if is_frame(data):
        return _BY_DEFAULT(data)
    mistaken = isinstance(data, (str, bytes, np.ndarray, Mapping)) or hasattr(data, "to_frame")
    if mistaken or not isinstance(data, Iterable):
        as_trajectory(data)  # raises, and says what to do
    several = (_BY_DEFAULT(item) if is_frame(item) else [item] for item in data)
    trajectories = list(same_variables(as_trajectory(item) for items in several for item in items))
    if not trajectories:
        raise DataError("No trajectories: the list is empty. Pass at least one Trajectory or pair (t, x).")
    return trajectories


def _trajectories(table: Table, columns: _Columns) -> list[Trajectory]:
    """The trajectories of a table: find the role of each column, then cut the rows into runs."""
    time, by = columns.time, columns.by
    if columns.dt is not None:
        _must_have_no_times(table, columns)
    elif time is None:
        time = _column_of_times(table)
    if by is None and len(table.index) == 2 and time in table.index:
        by = next(name for name in table.index if name != time)
    inputs = table.inputs if columns.inputs is None else columns.inputs
    special = [name for name in (time, by) if name is not None]
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
    x = np.column_stack([table.numbers(name) for name in states])
    u = np.column_stack([table.numbers(name) for name in inputs]) if inputs else None
    # No other code holds these arrays: once they are read-only, a trajectory of all rows need not copy them.
    for array in (x, *(() if u is None else (u,))):
        array.flags.writeable = False
    trajectories = []
    for name, rows in _runs(table, by):
        if t is not None and time is not None:
            _must_go_on(table, rows, time, t[rows], name, by)
        u_rows = None if u is None else u[rows]
        times: Any = columns.dt if t is None else t[rows]
        with_inputs, with_states = _instants(x[rows], u_rows) if t is not None else (None, slice(None))
        trajectories.append(
            Trajectory(
                times if with_inputs is None else times[with_states],
                x[rows][with_states],
                states,
                u=u_rows if with_inputs is None or u_rows is None else u_rows[with_inputs],
                u_t=None if with_inputs is None else times[with_inputs],
                inputs=inputs or None,
                hold=columns.hold,
                time_unit=unit,
                name=name,
            )
        )
    return trajectories


def _instants(x: Floats, u: Floats | None) -> tuple[Any, Any]:
    """The rows of inputs and those of states if inputs have times of their own; else None and all rows."""
    if u is None:
        return None, slice(None)
    states, inputs = np.isfinite(x).any(axis=1), np.isfinite(u).all(axis=1)
    # If most samples of the states have inputs, the inputs of the others are missing values.
    if 2 * np.sum(states & inputs) > np.sum(states) or not inputs.any():
        return None, slice(None)
    return inputs, states


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
    return _KINDS.get(path.suffix.lower(), from_text)(path)


def _column_of_times(table: Table) -> str:
    """The column with a usual name for times, else the index of a frame unless it only counts the rows."""
    for names in (tuple(name for name in table.names if name not in table.index), table.index):
        surest = time_column(names)
        if surest is not None and word_of_time(surest) != "t":
            parts = [name for name in names if word_of_time(name) in _TOGETHER]
            if len(parts) > 1:
                listed = " and ".join(f'"{name}"' for name in parts[:3])
                raise DataError(
                    f"{table.source}: {listed} may be times. Say which with `time`, or join them into one."
                )
        if surest is not None:
            return surest
    if len(table.index) == 1:
        return table.index[0]
    raise DataError(
        f'{table.source} has no column "t", nor one called time, date, year or similar. '
        f"Say which column holds the times with `time`. {did_you_mean('t', table.names)}"
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


def _runs(table: Table, by: str | None) -> list[tuple[str, NDArray[np.int64] | slice]]:
    """The name and the rows of each trajectory, in the order in which they first occur."""
    if by is None:
        return [("", slice(0, table.rows))]
    labels, first, inverse = np.unique(np.array(table.text(by)), return_index=True, return_inverse=True)
    ordered = np.argsort(inverse, kind="stable")
    groups = np.split(ordered, np.cumsum(np.bincount(inverse))[:-1])
    return [(f"{by} {labels[k]}", groups[k]) for k in np.argsort(first)]


def _must_go_on(
    table: Table,
    rows: NDArray[np.int64] | slice,
    time: str,
    times: Floats,
    name: str,
    by: str | None,
) -> None:
    """Raise if the times of a run repeat or go back, and name the place in the table."""
    back = np.flatnonzero(np.diff(times) <= 0)
    if len(back) == 0:
        return
    i = int(back[0])
    row = i + 1 if isinstance(rows, slice) else int(rows[i + 1])
    repeats = times[i] == times[i + 1]
    separate = "If the rows belong to several trajectories, name the column that separates them with `by`."
    hints = [separate] if by is None else []
    if repeats:
        keys = ", ".join(f'"{key}"' for key in (by, time) if key is not None)
        hints.append(
            "If a time was measured more than once, keep the mean of its rows (in pandas "
            f"table.groupby([{keys}], as_index=False).mean())."
        )
    else:
        hints.append("Rows that are out of order must be sorted by time.")
    raise DataError(
        f"{table.source}, {table.place(row, time)}: time {'repeats' if repeats else 'goes back'}, "
        f"from {times[i]:.12g} to {times[i + 1]:.12g}{' in ' + name if name else ''}. {' '.join(hints)}"
    )


_BY_DEFAULT = _Columns(None, None, None, None)
