"""read: files and data frames to trajectories."""

from __future__ import annotations

import os
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from cindy._check import unique_names
from cindy._types import Floats
from cindy.data.csv_table import from_csv
from cindy.data.tables import Table, from_frame, from_npz, from_parquet
from cindy.data.trajectory import Trajectory
from cindy.errors import DataError

__all__ = ["read"]


def read(
    path: str | os.PathLike[str] | Any,
    time: str = "t",
    states: Iterable[str] | None = None,
    by: str | None = None,
    inputs: Iterable[str] | None = None,
) -> list[Trajectory]:
    """The trajectories in a file, or in a data frame.

    path: a csv file (also gzipped), a parquet file, an npz file with the arrays t (n,)
        and x (n, d) (optional: u, and the names states and inputs; or one array per
        column), a pandas or polars DataFrame, or an xarray Dataset
    time: name of the column of times; dates count in seconds from the first
    states: names of the columns of states; by default all that have no other part
    by: name of a column whose every value is one trajectory
    inputs: names of the columns of inputs

    An empty cell is a missing value.
    """
    table = _table(path)
    known = table.inputs if inputs is None else unique_names(inputs, "read: `inputs`")
    others = {time, *known} | ({by} if by else set())
    for name in (time, *known, *([by] if by else [])):
        table.need(name)
    if states is None:
        chosen = tuple(name for name in table.names if name not in others)
    else:
        chosen = unique_names(states, "read: `states`")
    if not chosen:
        raise DataError(f"{table.source} has no column left for the states: {', '.join(table.names)}.")
    clash = [name for name in chosen if name in others]
    if clash:
        raise DataError(f'read: the column "{clash[0]}" cannot be a state and have another part as well.')
    t = _times(table, time)
    x = np.column_stack([table.numbers(name) for name in chosen])
    u = np.column_stack([table.numbers(name) for name in known]) if known else None
    return [
        _trajectory(table, rows, time, t, x, chosen, u, known, name=name, separated=by is not None)
        for name, rows in _runs(table, by)
    ]


def _table(source: Any) -> Table:
    if not isinstance(source, (str, os.PathLike)):
        return from_frame(source)
    path = Path(source)
    if not path.is_file():
        raise DataError(f"read: there is no file {path}.")
    ending = path.suffix.lower()
    return {".npz": from_npz, ".parquet": from_parquet, ".pq": from_parquet}.get(ending, from_csv)(path)


def _times(table: Table, time: str) -> Floats:
    t = table.numbers(time)
    missing = np.flatnonzero(np.isnan(t))
    if len(missing):
        raise DataError(
            f"{table.source}, {table.place(int(missing[0]), time)}: the time is missing. "
            "Every row needs one; only other values may be missing."
        )
    return t


def _runs(table: Table, by: str | None) -> list[tuple[str, NDArray[np.int64]]]:
    """The name and the rows of each trajectory, in the order in which they first occur."""
    if by is None:
        return [("", np.arange(table.rows))]
    labels, first, inverse = np.unique(np.array(table.text(by)), return_index=True, return_inverse=True)
    ordered = np.argsort(inverse, kind="stable")
    groups = np.split(ordered, np.cumsum(np.bincount(inverse))[:-1])
    return [(f"{by} {labels[k]}", groups[k]) for k in np.argsort(first)]


def _trajectory(
    table: Table,
    rows: NDArray[np.int64],
    time: str,
    t: Floats,
    x: Floats,
    states: tuple[str, ...],
    u: Floats | None,
    inputs: tuple[str, ...],
    *,
    name: str,
    separated: bool,
) -> Trajectory:
    times = t[rows]
    back = np.flatnonzero(np.diff(times) <= 0)
    if len(back):
        i = int(back[0])
        what = "repeats" if times[i] == times[i + 1] else "goes back"
        hint = (
            ""
            if separated
            else " If the rows are of several trajectories, name the column that tells, with `by`."
        )
        raise DataError(
            f"{table.source}, {table.place(int(rows[i + 1]), time)}: time {what}, "
            f"from {times[i]:.12g} to {times[i + 1]:.12g}{' in ' + name if name else ''}.{hint}"
        )
    known = None if u is None else u[rows]
    return Trajectory(times, x[rows], states, u=known, inputs=inputs or None, name=name)
