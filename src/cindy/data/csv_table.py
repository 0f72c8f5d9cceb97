"""Text files of comma-separated numbers, read with care for whoever must correct them."""

import csv
import gzip
import io
import zlib
from functools import cache
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from cindy._types import Floats
from cindy.data.tables import Table, parsed
from cindy.errors import DataError

__all__ = ["from_csv"]


_DELIMITERS = ",;\t"


def from_csv(path: Path) -> Table:
    """A text file with a header, cells separated by commas, semicolons or tabs; also gzipped."""
    body = _text(path)
    first, _, rest = body.partition("\n")
    if not first.strip():
        raise DataError(f"{path} is empty. The first line must name the columns.")
    delimiter = max(_DELIMITERS, key=first.count)
    names = tuple(
        name.strip() for name in next(csv.reader([first], delimiter=delimiter, skipinitialspace=True))
    )
    _check_header(path, names)
    lines = rest.split("\n")
    while lines and not lines[-1].strip():
        lines.pop()
    if not lines:
        raise DataError(f"{path} has a header but no rows.")
    plain = '"' not in rest and all(line.count(delimiter) == len(names) - 1 and line for line in lines)
    if plain:
        cells = None
        numbers = np.arange(2, len(lines) + 2)
    else:
        cells, numbers = _cells(path, rest, delimiter, len(names))

    def text(name: str) -> list[str]:
        k = names.index(name)
        return [row[k].strip() for row in cells or (line.split(delimiter) for line in lines)]

    @cache
    def all_numbers() -> Floats | None:
        try:
            return None if cells else np.loadtxt(lines, delimiter=delimiter, comments=None, ndmin=2)
        except ValueError:  # an empty cell or a word somewhere: column by column, it may not matter
            return None

    def column(name: str) -> Floats:
        numeric = all_numbers()
        if numeric is not None:
            return numeric[:, names.index(name)]
        return parsed(text(name), lambda i: f'{path}, line {numbers[i]}, column "{name}"')

    return Table(
        source=str(path),
        names=names,
        rows=len(numbers),
        column=column,
        text=text,
        place=lambda i, name: f'line {numbers[i]}, column "{name}"',
    )


def _text(path: Path) -> str:
    try:
        raw = path.read_bytes()
        if raw[:2] == b"\x1f\x8b":
            raw = gzip.decompress(raw)
    except (gzip.BadGzipFile, EOFError, zlib.error) as error:
        raise DataError(f"{path} is damaged and cannot be unpacked: {error}.") from error
    except OSError as error:
        raise DataError(f"{path} cannot be read: {error}.") from error
    try:
        body = raw.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        line = raw[: error.start].count(b"\n") + 1
        raise DataError(
            f"{path}, line {line}: this is not text. Expected csv, csv.gz, parquet or npz."
        ) from error
    if "\x00" in body:
        line = body[: body.index("\x00")].count("\n") + 1
        raise DataError(f"{path}, line {line}: this is not text. Expected csv, csv.gz, parquet or npz.")
    return body.replace("\r\n", "\n").replace("\r", "\n")


def _check_header(path: Path, names: tuple[str, ...]) -> None:
    for k, name in enumerate(names):
        if not name:
            raise DataError(f"{path}, line 1: column {k + 1} has no name.")
        if name in names[:k]:
            raise DataError(f'{path}, line 1: the column name "{name}" occurs more than once.')
    if all(_is_number(name) for name in names):
        raise DataError(
            f"{path}, line 1: expected the names of the columns, but got numbers: {', '.join(names)}."
        )


def _cells(path: Path, rest: str, delimiter: str, width: int) -> tuple[list[list[str]], NDArray[np.int64]]:
    """The cells of every row, and the lines on which the rows stand."""
    cells, numbers = [], []
    reader = csv.reader(io.StringIO(rest), delimiter=delimiter, skipinitialspace=True)
    try:
        for row in reader:
            if not row:
                continue
            if len(row) != width:
                raise DataError(
                    f"{path}, line {reader.line_num + 1}: expected {width} cells as in the header, "
                    f"but got {len(row)}."
                )
            cells.append(row)
            numbers.append(reader.line_num + 1)
    except csv.Error as error:
        raise DataError(
            f"{path}, line {reader.line_num + 1}: this is not a row of cells: {error}."
        ) from error
    return cells, np.array(numbers)


def _is_number(entry: str) -> bool:
    try:
        float(entry)
    except ValueError:
        return False
    return True
