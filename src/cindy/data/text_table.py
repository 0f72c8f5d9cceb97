"""Text files of comma-separated numbers, read with care for whoever must correct them."""

import csv
import gzip
import io
import re
import zlib
from functools import cache
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from cindy._types import Floats
from cindy.data.tables import LEAST_SUSPECT, MOST_PACKED, Table, parsed
from cindy.errors import DataError

__all__ = ["from_csv"]


_DELIMITERS = ",;\t"
_CONTROL = re.compile(rb"[\x00-\x08\x0e-\x1f]")
"""Bytes that no text holds."""


def from_csv(path: Path) -> Table:
    """A text file with a header, cells separated by commas, semicolons, tabs or blanks; also gzipped.

    Lines that start with # or % are comments; if no other line names the columns, the last one before the
    numbers does.
    """
    lines = _text(path).split("\n")
    head, first = _header(path, lines)
    delimiter = _delimiter(head)
    if delimiter == "\t" and first < len(lines) and "\t" not in lines[first]:
        delimiter = " "  # blanks of both kinds, mixed
    names, nameless = _with_index(tuple(name.strip() for name in _split(head, delimiter)))
    _check_header(path, names, first)
    numbered = [
        (i, line)
        for i, line in enumerate(lines[first:], start=first + 1)
        if line.strip() and not _comment(line)
    ]
    if not numbered:
        raise DataError(f"{path} has a header but no rows.")
    cells: list[list[str]] | None = None
    if delimiter == ";" and any("," in line for _, line in numbered) and "." not in numbered[0][1]:
        numbered = [(i, line.replace(",", ".")) for i, line in numbered]  # numbers as 3,14
    if delimiter == " ":
        numbered, delimiter = [(i, ",".join(line.split())) for i, line in numbered], ","
    if all('"' not in line and line.count(delimiter) == len(names) - 1 for _, line in numbered):
        rows, numbers = [line for _, line in numbered], np.array([i for i, _ in numbered])
    else:
        kept = dict(numbered)
        rest = "\n".join(kept.get(i, "") for i in range(first + 1, len(lines) + 1))
        rows = []
        cells, numbers = _cells(path, rest, delimiter, len(names), first)

    def text(name: str) -> list[str]:
        k = names.index(name)
        return [row[k].strip() for row in cells or (line.split(delimiter) for line in rows)]

    @cache
    def all_numbers() -> Floats | None:
        try:
            return None if cells else np.loadtxt(rows, delimiter=delimiter, comments=None, ndmin=2)
        except ValueError:  # an empty cell or a word somewhere: column by column, it may not matter
            return None

    def column(name: str) -> Floats:
        numeric = all_numbers()
        if numeric is not None:
            return numeric[:, names.index(name)]
        return parsed(text(name), lambda i: f'{path}, line {numbers[i]}, column "{name}"')

    counts = nameless and _counts(text("index"))
    return Table(
        source=str(path),
        names=names[counts:],
        rows=len(numbers),
        column=column,
        text=text,
        place=lambda i, name: f'line {numbers[i]}, column "{name}"',
        index=("index",) if nameless and not counts else (),
    )


def _text(path: Path) -> str:
    try:
        raw = path.read_bytes()
        if raw[:2] == b"\x1f\x8b":
            raw = _unpacked(path, len(raw))
    except (gzip.BadGzipFile, EOFError, zlib.error) as error:
        raise DataError(f"{path} is damaged and cannot be unpacked: {error}.") from error
    except OSError as error:
        raise DataError(f"{path} cannot be read: {error}.") from error
    try:
        body = _decoded(raw)
    except UnicodeDecodeError as error:
        raise _no_text(path, raw[: error.start].count(b"\n")) from error
    if "\x00" in body:
        raise _no_text(path, body[: body.index("\x00")].count("\n"))
    return body.replace("\r\n", "\n").replace("\r", "\n")


def _decoded(raw: bytes) -> str:
    """UTF-8; UTF-16 by its mark, as spreadsheets save it; or one byte a letter, as instruments write °C."""
    if raw[:2] in (b"\xff\xfe", b"\xfe\xff"):
        return raw.decode("utf-16")
    try:
        return raw.decode("utf-8-sig")
    except UnicodeDecodeError:
        if _CONTROL.search(raw):
            raise
        return raw.decode("cp1252")


def _no_text(path: Path, lines_before: int) -> DataError:
    return DataError(
        f"{path}, line {lines_before + 1}: this is not text. Expected csv, csv.gz, parquet, npz, xlsx or mat."
    )


def _unpacked(path: Path, packed: int) -> bytes:
    """The content of a gzipped file, unless it is far larger than numbers can be packed."""
    most = max(LEAST_SUSPECT, MOST_PACKED * packed)
    with gzip.open(path) as stream:
        raw = stream.read(most + 1)
    if len(raw) > most:
        raise DataError(
            f"{path} holds {packed:,} bytes and unpacks to more than {most:,}, which numbers never do. "
            "If it is all right, unpack it first."
        )
    return raw


def _header(path: Path, lines: list[str]) -> tuple[str, int]:
    """The line that names the columns, without its comment sign, and how many lines stand up to it."""
    first = next((i for i, line in enumerate(lines) if line.strip() and not _comment(line)), None)
    if first is None:
        raise DataError(f"{path} is empty. The first line must name the columns.")
    cells = _split(lines[first], _delimiter(lines[first]))
    if all(_is_number(cell) for cell in cells) and first > 0:
        # numpy.savetxt, and many instruments, write the names as a comment.
        for before in reversed(lines[:first]):
            head = before.strip().lstrip("#%").strip()
            names = _split(head, _delimiter(head)) if head else []
            if len(names) == len(cells) and not any(_is_number(name) for name in names):
                return head, first
    return lines[first], first + 1


def _comment(line: str) -> bool:
    return line.lstrip()[:1] in ("#", "%")


def _delimiter(line: str) -> str:
    found = max(_DELIMITERS, key=line.count)
    cells = line.split(found)
    if found == "\t" and len(line.split()) > len(cells) and all(map(_is_number, line.split())):
        return " "  # numbers with blanks and tabs between them
    return " " if not line.count(found) and len(line.split()) > 1 else found


def _split(line: str, delimiter: str) -> list[str]:
    if delimiter == " ":
        return line.split()
    return next(csv.reader([line], delimiter=delimiter, skipinitialspace=True))


def _with_index(names: tuple[str, ...]) -> tuple[tuple[str, ...], bool]:
    """The names, and whether the first was empty: so pandas writes the index of a frame."""
    nameless = len(names) > 1 and not names[0] and "index" not in names
    return (("index", *names[1:]) if nameless else names), nameless


def _counts(entries: list[str]) -> bool:
    """Whether they are 0, 1, 2, … or 1, 2, 3, …"""
    return any(entries == [str(i + first) for i in range(len(entries))] for first in (0, 1))


def _check_header(path: Path, names: tuple[str, ...], line: int) -> None:
    for k, name in enumerate(names):
        if not name:
            raise DataError(f"{path}, line {line}: column {k + 1} has no name. Give it one, or remove it.")
        if name in names[:k]:
            raise DataError(f'{path}, line {line}: the column name "{name}" occurs more than once.')
    if all(_is_number(name) for name in names):
        raise DataError(
            f"{path}, line {line}: expected the names of the columns, but got numbers: {', '.join(names)}. "
            "Put a line with names above them, such as t, x, y."
        )


def _cells(
    path: Path, rest: str, delimiter: str, width: int, before: int
) -> tuple[list[list[str]], NDArray[np.int64]]:
    """The cells of every row, and the lines on which the rows stand; `before` lines stand above."""
    cells, numbers = [], []
    reader = csv.reader(io.StringIO(rest), delimiter=delimiter, skipinitialspace=True)
    try:
        for row in reader:
            if not row:
                continue
            if len(row) != width:
                raise DataError(
                    f"{path}, line {reader.line_num + before}: expected {width} cells as in the header, "
                    f"but got {len(row)}."
                )
            cells.append(row)
            numbers.append(reader.line_num + before)
    except csv.Error as error:
        raise DataError(
            f"{path}, line {reader.line_num + before}: this is not a row of cells: {error}."
        ) from error
    return cells, np.array(numbers)


def _is_number(entry: str) -> bool:
    try:
        float(entry)
    except ValueError:
        return False
    return True
