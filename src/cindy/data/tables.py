"""Table: named columns from a file or a data frame, with the place that each row came from."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from cindy._arrays import Floats
from cindy._check import did_you_mean
from cindy.data.moments import (
    MISSING,
    in_seconds,
    is_date,
    odd_date,
    seconds,
    text_seconds,
    unit_in_name,
    yyyymmdd_seconds,
)
from cindy.errors import DataError

ROW_NAMES = frozenset({"rownames", "row.names"})
"""A first column with such a name holds the names that R gives to rows: neither times nor a state."""
_MIDNIGHT = re.compile(r"[T ]00:00(:00(\.0*)?)?$")
"""The end of a date that is stored as a moment."""


def most_unpacked(packed: int) -> int:
    """The most bytes that a packed file of measurements unpacks to: 200 times its size, or 64 MB."""
    return max(64_000_000, 200 * packed)


@dataclass(frozen=True, eq=False)
class Table:
    """Columns of equal length, which are read when they are needed.

    source: what the user passed, for messages
    column: the numbers of a column by its name; missing ones are NaN
    text: the entries of a column as strings
    place: the place of row i in a column for messages, such as 'line 7, column "x"'
    inputs: the columns that the source itself calls inputs
    index: the columns that label the rows of a frame: times or runs, never states
    refused: names of columns that cannot be used, and why: an error for a user who needs one of them
    unit: the unit of a column according to the source, "" if it gives none
    """

    source: str
    names: tuple[str, ...]
    rows: int
    column: Callable[[str], Floats]
    text: Callable[[str], list[str]]
    place: Callable[[int, str], str]
    inputs: tuple[str, ...] = ()
    index: tuple[str, ...] = ()
    refused: Mapping[str, str] = field(default_factory=dict)
    unit: Callable[[str], str] = unit_in_name

    def moments(self, name: str) -> tuple[Floats, str]:
        """The column as times and their unit; dates become seconds since the first."""
        self.need(name)
        try:
            values = self.numbers(name)
        except DataError:
            entries = self.text(name)
            dates = text_seconds(entries, f'{self.source}, column "{name}"')
            if dates is None and (odd := odd_date(entries)) is not None:
                i, first = odd
                raise DataError(
                    f"{self.source}, {self.place(i, name)}: expected a date of the calendar, written like "
                    f"{first!r}, but got {entries[i]!r}. Write all dates in one form, with a time zone in "
                    "all or in none."
                ) from None
            words = [
                i for i, e in enumerate(entries) if e.strip().lower() not in MISSING and not is_number(e)
            ]
            if dates is None and words:
                raise DataError(
                    f"{self.source}, {self.place(words[0], name)}: expected a time, but got "
                    f"{entries[words[0]]!r}. Write times as numbers, as dates such as 2024-03-31 or "
                    "2024-03-31 12:30:05, or as times of a clock such as 12:30:05."
                ) from None
            if dates is None:
                raise
            return dates, "s"
        days = yyyymmdd_seconds(values)
        return (values, self.unit(name)) if days is None else (days, "s")

    def joined(self, names: Sequence[str]) -> tuple[Table, str]:
        """The table with some columns joined into one, as a date and a time of the clock; and its name."""
        for part in names:
            self.need(part)
        whole = " ".join(names)
        if len(names) == 1:
            return self, whole

        def text(name: str) -> list[str]:
            if name != whole:
                return self.text(name)
            dates, *clocks = ([entry.strip() for entry in self.text(part)] for part in names)
            rows = zip((_MIDNIGHT.sub("", date) for date in dates), *clocks, strict=True)
            return ["" if any(cell.lower() in MISSING for cell in row) else " ".join(row) for row in rows]

        def column(name: str) -> Floats:
            if name != whole:
                return self.column(name)
            return parsed(text(whole), lambda i: f"{self.source}, {self.place(i, whole)}")

        def unit(name: str) -> str:
            return "" if name == whole else self.unit(name)

        rest = tuple(name for name in self.names if name not in names and name != whole)
        return replace(self, names=(whole, *rest), column=column, text=text, unit=unit), whole

    def numbers(self, name: str) -> Floats:
        """The numbers of a column, which must exist and hold no infinite values."""
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
        """Raise unless there is a column of that name and it can be used."""
        if name in self.refused:
            raise DataError(self.refused[name])
        if name not in self.names:
            raise DataError(f'{self.source} has no column "{name}". {did_you_mean(name, self.names)}')


def from_arrays(path: str, arrays: Mapping[str, NDArray[Any]]) -> Table:
    """A table of named columns; x and u may be matrices, whose columns are named by states and inputs."""
    inputs: tuple[str, ...] = ()
    columns: dict[str, Any] = {}

    def add(name: str, values: Any) -> None:
        if name in columns:
            raise DataError(f'{path}: the column name "{name}" occurs more than once.')
        columns[name] = values

    labels = {"x": "states", "u": "inputs"}
    matrices = [key for key in labels if key in arrays and arrays[key].ndim == 2]
    for name, values in arrays.items():
        if name in matrices:
            names = _column_names(path, name, labels[name], values, arrays)
            if name == "u":
                inputs = tuple(names)
            for label, column in zip(names, values.T, strict=True):
                add(label, column)
        elif not any(name == labels[key] for key in matrices):
            add(name, values)
    return _from_columns(path, columns, inputs)


def _column_names(
    path: str, key: str, label: str, matrix: NDArray[Any], arrays: Mapping[str, Any]
) -> list[str]:
    """The names of the columns of a matrix: those in the array `label`, or x1, x2, …"""
    given = arrays.get(label)
    names = [f"{key}{i + 1}" for i in range(matrix.shape[1])]
    if given is not None:
        names = [str(name) for name in np.atleast_1d(given)]
    if len(names) != matrix.shape[1]:
        raise DataError(f'{path}: "{label}" has {len(names)} names for {matrix.shape[1]} columns of "{key}".')
    return names


def _from_columns(
    source: str,
    arrays: Mapping[str, Any],
    inputs: tuple[str, ...] = (),
    index: tuple[str, ...] = (),
    refused: Mapping[str, str] | None = None,
    units: Mapping[str, str] | None = None,
) -> Table:
    """A table of arrays of one dimension and of equal length."""
    lengths = {name: len(array) if np.ndim(array) == 1 else -1 for name, array in arrays.items()}
    if not arrays:
        raise DataError(f"{source} holds no columns.")
    if len(set(lengths.values())) > 1 or -1 in lengths.values():
        shapes = ", ".join(f'"{name}" {np.shape(array)}' for name, array in arrays.items())
        raise DataError(f"{source}: expected columns of one length, but got {shapes}.")
    rows = next(iter(lengths.values()))
    if rows == 0:
        raise DataError(f"{source} has columns but no rows.")

    def column(name: str) -> Floats:
        values = arrays[name]
        moments = seconds(values)
        if moments is not None:
            return moments
        kind = np.asarray(values).dtype.kind
        if kind == "c" or (kind == "O" and any(isinstance(value, complex) for value in values)):
            raise DataError(
                f'{source}, column "{name}": expected real numbers, but got complex ones. '
                "Store real and imaginary parts in columns of their own."
            )
        try:
            return np.asarray(values, dtype=np.float64)
        except (TypeError, ValueError, OverflowError):
            return parsed(text(name), lambda i: f"{source}, {place(i, name)}")

    def text(name: str) -> list[str]:
        return ["" if value is None else str(value) for value in arrays[name]]

    def place(i: int, name: str) -> str:
        return f'row {i}, column "{name}"'

    def unit(name: str) -> str:
        return "s" if seconds(arrays[name]) is not None else (units or {}).get(name) or unit_in_name(name)

    return Table(
        source=source,
        names=tuple(arrays),
        rows=rows,
        column=column,
        text=text,
        place=place,
        inputs=inputs,
        index=index,
        refused=refused or {},
        unit=unit,
    )


def is_frame(data: Any) -> bool:
    """Whether `data` is a DataFrame of pandas or polars, or an xarray Dataset."""
    return not isinstance(data, type) and (
        (hasattr(data, "data_vars") and hasattr(data, "to_dataframe"))
        or type(data).__name__ == "LazyFrame"
        or (hasattr(data, "columns") and hasattr(data, "__getitem__"))
    )


def from_frame(frame: Any, source: str = "") -> Table:
    """The table in a DataFrame of pandas or polars, or in an xarray Dataset."""
    source = source or f"the {type(frame).__name__}"
    if not is_frame(frame):
        raise DataError(
            f"read: expected a path, a data frame or an xarray Dataset, but got {type(frame).__name__}."
        )
    units: dict[str, str] = {}
    if hasattr(frame, "data_vars"):  # xarray.Dataset
        if not frame.data_vars or not frame.sizes:
            raise DataError(f"{source} holds no columns.")
        units = {str(name): str(values.attrs.get("units", "")) for name, values in frame.variables.items()}
        frame = frame.to_dataframe()
    if type(frame).__name__ == "LazyFrame":
        frame = frame.collect()
    if hasattr(frame, "to_delayed"):  # a frame of Dask
        frame = frame.compute()
    frame, index = _index_as_columns(frame)
    names = [str(name) for name in frame.columns]
    refused = {
        name: f'{source}: the column name "{name}" occurs more than once.'
        for name in names
        if names.count(name) > 1
    }
    columns = {
        name: _array(frame[label])
        for name, label in zip(names, frame.columns, strict=True)
        if name not in refused
    }
    for name, unit in units.items():
        moments = in_seconds(columns[name], unit) if name in columns else None
        if moments is not None:
            columns[name], units[name] = moments, "s"
    columns, units = _without_unit_row(columns, units)
    if not index:
        index = tuple({*names[:1]} & ROW_NAMES)
    if names and names[0].startswith("Unnamed: 0") and not index:
        # The name that pandas gives to the index in a csv file which it wrote with one.
        labels = columns.pop(names[0])
        if not counts([str(value) for value in labels]):
            columns, index = {"index": labels, **columns}, ("index",)
    return _from_columns(source, columns, index=index, refused=refused, units=units)


def counts(entries: Sequence[str]) -> bool:
    """Whether the entries are 0, 1, 2, … or 1, 2, 3, …"""
    return any(entries == [str(i + first) for i in range(len(entries))] for first in (0, 1))


def holds_units(line: Sequence[str], below: Sequence[str]) -> bool:
    """Whether a line under the names holds units: no numbers, but words above numbers of the next line."""
    if len(line) != len(below) or any(is_number(cell) or is_date(cell) for cell in line):
        return False
    above = [word.strip().lower() for word, cell in zip(line, below, strict=True) if is_number(cell)]
    return bool(above) and not any(word in MISSING for word in above)


def is_number(entry: str) -> bool:
    """Whether a cell is written as a number."""
    try:
        float(entry)
    except ValueError:
        return False
    return True


def _without_unit_row(
    columns: dict[str, NDArray[Any]], units: dict[str, str]
) -> tuple[dict[str, NDArray[Any]], dict[str, str]]:
    """The columns and their units after a first row of units, which makes all columns text, was taken off."""
    arrays = list(columns.values())
    if not arrays or len(arrays[0]) < 3 or any(array.dtype.kind not in "OUT" for array in arrays):
        return columns, units
    words, below = ([str(array[k]) for array in arrays] for k in (0, 1))
    if not holds_units(words, below):
        return columns, units
    units = {name: word.strip(" ()[]{}") for name, word in zip(columns, words, strict=True)}
    return {name: array[1:] for name, array in columns.items()}, units


def _index_as_columns(frame: Any) -> tuple[Any, tuple[str, ...]]:
    """The frame with its index as columns, unless the index only counts the rows; and their names."""
    labels = getattr(frame, "index", None)
    if labels is None or not hasattr(frame, "reset_index"):
        return frame, ()
    # Whole numbers without a name may count the rows of a longer frame, of which this one is a part.
    if labels.nlevels == 1 and labels.name is None and labels.dtype.kind not in "fmM":
        return frame, ()
    names = [f"index {k}" if name is None else name for k, name in enumerate(labels.names)]
    names = ["index"] if labels.names == [None] else names
    if any(name in frame.columns for name in names):
        return frame, ()
    return frame.reset_index(names=names), tuple(str(name) for name in names)


def _array(column: Any) -> NDArray[Any]:
    """A column of a frame as an array."""
    values = np.asarray(column.to_numpy())
    if values.dtype == object and seconds(values) is None:
        # In nullable columns pandas itself must turn its missing values into NaN.
        try:
            if not any(isinstance(value, complex) for value in values):
                values = np.asarray(column.to_numpy(dtype=np.float64, na_value=np.nan))
        except (TypeError, ValueError, OverflowError):
            return values
    return values


def parsed(entries: list[str], where: Callable[[int], str]) -> Floats:
    """The entries as numbers; an entry that is none is an error, in which `where` names its place."""
    values = np.empty(len(entries))
    for i, entry in enumerate(entries):
        try:
            # Python reads 1_000 as a thousand, but in a file it is a name or a mistake.
            values[i] = np.nan if entry.strip().lower() in MISSING else float(entry.replace("_", "?"))
        except ValueError:
            raise DataError(
                f"{where(i)}: expected a number, but got {entry!r}. "
                "Correct it, leave the cell empty, or name the columns to read with `states`; a column that "
                "separates runs is named with `by`."
            ) from None
    return values


def must_go_on(
    table: Table, rows: NDArray[np.int64] | slice, time: str, times: Floats, name: str, by: tuple[str, ...]
) -> None:
    """Raise if the times of a run repeat or go back, name the place in the table, and say what to do."""
    back = np.flatnonzero(np.diff(times) <= 0)
    if len(back) == 0:
        return
    i = int(back[0])
    row = i + 1 if isinstance(rows, slice) else int(rows[i + 1])
    repeats = times[i] == times[i + 1]
    separate = "If the rows belong to several trajectories, name the column that separates them with `by`."
    hints = [] if by else [separate]
    step = _step_of_rounded(times)
    if step is not None:
        hints.append(
            "If the samples are evenly spaced and their times were rounded, name the states and give "
            f"`dt={step:.6g}` in place of the column."
        )
    if repeats:
        keys = ", ".join(f'"{key}"' for key in (*by, time))
        hints.append(
            "If a time was measured more than once, average the rows that share it (in pandas "
            f"table.groupby([{keys}], as_index=False).mean()), or keep one of each."
        )
    else:
        hints.append(
            "Rows that are out of order must be sorted by time. Where a counter began again, as at midnight, "
            "add what it had reached."
        )
    raise DataError(
        f"{table.source}, {table.place(row, time)}: time {'repeats' if repeats else 'goes back'}, "
        f"from {times[i]:.12g} to {times[i + 1]:.12g}{' in ' + name if name else ''}. {' '.join(hints)}"
    )


def _step_of_rounded(times: Floats) -> float | None:
    """The step of evenly spaced times that were rounded so coarsely that many repeat; None if others."""
    steps = np.diff(times)
    # A row that was written twice is no rounding.
    if np.any(steps < 0) or np.count_nonzero(steps == 0) < max(len(steps) // 10, 3) or not steps.any():
        return None
    # After times that repeat, rounded ones go on by one unit; repeated measurements may go on by any step.
    after = steps[1:][(steps[:-1] == 0) & (steps[1:] > 0)]
    if len(after) and after.max() > 1.5 * after.min():
        return None
    numbers = np.arange(len(times))
    step, start = np.polyfit(numbers, times, 1)
    # Rounding moves no time by more than the largest step that it leaves.
    return float(step) if np.max(np.abs(times - start - step * numbers)) <= steps.max() else None
