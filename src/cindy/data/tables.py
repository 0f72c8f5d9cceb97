"""Table: named columns from a file or a data frame, that knows where each row came from."""

from __future__ import annotations

import zipfile
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from cindy._check import did_you_mean
from cindy._types import Floats
from cindy.errors import DataError

__all__ = ["Table", "from_frame", "from_npz", "from_parquet", "parsed"]


_MISSING = {"", "na", "n/a", "nan", "null", "none"}


@dataclass(frozen=True, eq=False)
class Table:
    """Columns of equal length, read when asked for.

    source: what the user passed, for messages
    column: the numbers of a column by its name; missing ones are NaN
    text: the entries of a column as strings
    place: what to call row i of the column of that name, such as 'line 7, column "x"'
    inputs: the columns that the source itself calls inputs
    """

    source: str
    names: tuple[str, ...]
    rows: int
    column: Callable[[str], Floats]
    text: Callable[[str], list[str]]
    place: Callable[[int, str], str]
    inputs: tuple[str, ...] = ()

    def numbers(self, name: str) -> Floats:
        """The column, which must exist and be finite where it is not missing."""
        self.need(name)
        values = self.column(name)
        infinite = np.flatnonzero(np.isinf(values))
        if len(infinite):
            i = int(infinite[0])
            raise DataError(
                f"{self.source}, {self.place(i, name)}: {values[i]} is not a measurement. "
                "Leave the cell empty where a value is missing."
            )
        return values

    def need(self, name: str) -> None:
        """Raise unless there is a column of that name."""
        if name not in self.names:
            raise DataError(f'{self.source} has no column "{name}". {did_you_mean(name, self.names)}')


def from_npz(path: Path) -> Table:
    """Arrays t (n,) and x (n, d), with u, states and inputs where there are any; or one array per column."""
    try:
        with np.load(path, allow_pickle=False) as file:
            arrays = {name: np.asarray(file[name]) for name in file.files}
    except (OSError, ValueError, EOFError, zipfile.BadZipFile, AttributeError) as error:
        raise DataError(f"{path} is not an npz file of plain arrays: {error}.") from error
    inputs: tuple[str, ...] = ()
    for key, label in (("x", "states"), ("u", "inputs")):
        matrix = arrays.get(key)
        named = arrays.pop(label, None)
        if matrix is None or matrix.ndim != 2:
            continue
        del arrays[key]
        names = (
            [str(n) for n in named]
            if named is not None
            else [f"{key}{i + 1}" for i in range(matrix.shape[1])]
        )
        if len(names) != matrix.shape[1]:
            raise DataError(
                f'{path}: "{label}" has {len(names)} names for {matrix.shape[1]} columns of "{key}".'
            )
        if key == "u":
            inputs = tuple(names)
        arrays.update(zip(names, matrix.T, strict=True))
    return _from_columns(str(path), arrays, inputs)


def _from_columns(source: str, arrays: Mapping[str, Any], inputs: tuple[str, ...] = ()) -> Table:
    lengths = {name: len(a) if np.ndim(a) == 1 else -1 for name, a in arrays.items()}
    if not arrays:
        raise DataError(f"{source} holds no columns.")
    if len(set(lengths.values())) > 1 or -1 in lengths.values():
        shapes = ", ".join(f'"{name}" {np.shape(a)}' for name, a in arrays.items())
        raise DataError(f"{source}: expected columns of one length, but got {shapes}.")
    rows = next(iter(lengths.values()))
    if rows == 0:
        raise DataError(f"{source} has columns but no rows.")

    def column(name: str) -> Floats:
        values = arrays[name]
        if np.asarray(values).dtype.kind in "mM":
            return _seconds(np.asarray(values))
        try:
            return np.asarray(values, dtype=np.float64)
        except (TypeError, ValueError):
            entries = ["" if v is None else str(v) for v in values]
            return parsed(entries, lambda i: f'{source}, row {i}, column "{name}"')

    return Table(
        source=source,
        names=tuple(arrays),
        rows=rows,
        column=column,
        text=lambda name: [str(v) for v in arrays[name]],
        place=lambda i, name: f'row {i}, column "{name}"',
        inputs=inputs,
    )


def _seconds(moments: NDArray[Any]) -> Floats:
    """Dates as seconds since the first of them, durations as seconds."""
    since = moments - moments[0] if moments.dtype.kind == "M" else moments
    return np.where(np.isnat(since), np.nan, since / np.timedelta64(1, "s"))


def from_parquet(path: Path) -> Table:
    """A parquet file, through pandas."""
    try:
        import pandas as pd
        import pyarrow  # noqa: F401
    except ImportError as error:
        raise DataError(
            f"{path}: reading parquet needs pandas and pyarrow, and {error.name} is missing. "
            'Install them with pip install "cindy[data]".'
        ) from error
    try:
        frame = pd.read_parquet(path)
    except (OSError, ValueError) as error:
        raise DataError(f"{path} cannot be read as parquet: {error}.") from error
    return from_frame(frame, str(path))


def from_frame(frame: Any, source: str = "") -> Table:
    """A DataFrame of pandas or polars, or an xarray Dataset."""
    source = source or f"the {type(frame).__name__}"
    if hasattr(frame, "data_vars") and hasattr(frame, "to_dataframe"):  # xarray.Dataset
        frame = frame.to_dataframe().reset_index()
    if not (hasattr(frame, "columns") and hasattr(frame, "__getitem__")):
        raise DataError(
            f"read: expected a path, a data frame or an xarray Dataset, but got {type(frame).__name__}."
        )
    names = [str(name) for name in frame.columns]
    for name in names:
        if names.count(name) > 1:
            raise DataError(f'{source}: the column name "{name}" occurs more than once.')
    return _from_columns(source, {n: _array(frame[c]) for n, c in zip(names, frame.columns, strict=True)})


def _array(column: Any) -> NDArray[Any]:
    values = np.asarray(column.to_numpy())
    if values.dtype == object:  # nullable columns of pandas: let it turn its own missing values into NaN
        try:
            values = np.asarray(column.to_numpy(dtype=np.float64, na_value=np.nan))
        except (TypeError, ValueError):
            return values
    return values


def parsed(entries: list[str], where: Callable[[int], str]) -> Floats:
    """The numbers that the entries spell; `where` names an entry that spells none."""
    values = np.empty(len(entries))
    for i, entry in enumerate(entries):
        try:
            values[i] = np.nan if entry.lower() in _MISSING else float(entry)
        except ValueError:
            raise DataError(
                f"{where(i)}: expected a number, but got {entry!r}. "
                "Correct it, leave the cell empty, or name the columns to read with `states`."
            ) from None
    return values
