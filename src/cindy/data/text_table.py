"""Text files of numbers in columns.

1. Unpack gzip and decode the text.
2. Find the line that names the columns, and a line of units below it. Pass over a title, or the settings of
   an instrument, above it.
3. Take the sign that occurs most often in the line of names as the delimiter.
4. Split the rows into cells and leave out comments.
5. Decide whether commas or points mark decimals.

A cell that could be read in two ways is an error that names its line. numpy converts files that need no care
in steps 4 and 5, which is ten times as fast as going cell by cell.
"""

from __future__ import annotations

import csv
import gzip
import re
import zlib
from collections.abc import Iterator, Sequence
from functools import cache
from io import BytesIO
from itertools import islice
from pathlib import Path
from typing import NamedTuple

import numpy as np

from cindy._arrays import Floats
from cindy.data.moments import is_date, unit_in_name
from cindy.data.tables import ROW_NAMES, Table, counts, holds_units, is_number, most_unpacked, parsed
from cindy.errors import DataError

_DELIMITERS = ",;\t"
_CONTROL = re.compile(rb"[\x00-\x08\x0e-\x1f]")
"""Control characters, which no text file contains."""
_OTHER = re.compile(r"[^\d,; \teE+-]")
_COMMA = re.compile(r"[+-]?\d*,\d*([eE][+-]?\d+)?")
_GROUPS = re.compile(r"[+-]?[1-9]\d{0,2}([.,])\d{3}(\1\d{3})*")
"""1,000 or 1.000.000: thousands, or a number with three decimals."""
_BOTH = re.compile(r"[+-]?\d{1,3}(([.,])\d{3})+(?!\2)[.,]\d*([eE][+-]?\d+)?")
"""1,000.5 or 1.000,5"""


class _Head(NamedTuple):
    """names, units: of each column, the unit "" if none is given; delimiter: what separates cells
    first: the number of lines above the rows; line: the number of the line with the names, from 1"""

    names: list[str]
    units: list[str]
    delimiter: str
    first: int
    line: int


_Row = tuple[int, list[str]]
"""The number of the line on which a row begins, from 1, and its cells."""


def from_text(path: Path) -> Table:
    """A text file with a header, cells separated by commas, semicolons, tabs or blanks; also gzipped.

    Lines that start with # or % are comments. If no other line names the columns, the last comment before the
    numbers is taken for their names.
    """
    # Step 1.
    lines = _text(path).split("\n")
    # Steps 2 and 3.
    head = _head(path, _without_titles(path, lines))
    names, nameless = _with_index(head.names)
    if all(is_number(name) for name in names):
        raise DataError(
            f"{path}, line {head.line}: expected the names of the columns, but got numbers: "
            f"{', '.join(names[:8])}. Put a line with names above them, such as t, x, y."
        )
    # Steps 4 and 5, line by line if no cell needs care.
    plain = _plain_lines(lines, head, len(names))
    rows = [] if plain else _decimals(path, _rows(path, lines, head, len(names)), head.delimiter)
    places = [line for line, _ in plain or rows]
    if not places:
        raise DataError(f"{path} has a header but no rows.")
    split = "," if head.delimiter == " " else head.delimiter

    def text(name: str) -> list[str]:
        k = names.index(name)
        if plain:
            return [line.split(split)[k].strip() for _, line in plain]
        return [cells[k].strip() for _, cells in rows]

    @cache
    def all_numbers() -> Floats | None:
        try:
            return np.loadtxt([line for _, line in plain], delimiter=split, comments=None, ndmin=2)
        except (ValueError, OverflowError):  # an empty cell or a word, perhaps in a column nobody needs
            return None

    def column(name: str) -> Floats:
        numeric = all_numbers() if plain else None
        if numeric is not None:
            return numeric[:, names.index(name)]
        return parsed(text(name), lambda i: f'{path}, line {places[i]}, column "{name}"')

    # An error only for a user who needs it: a nameless column beside good ones does no harm.
    refused = _refused(path, names, head.line)
    # One comma too many at the end of every line makes an empty column.
    empty = {name for name in refused if names.count(name) == 1 and not any(text(name))}
    units = dict(zip(names, head.units, strict=True))
    counted = nameless and counts(text("index"))
    return Table(
        source=_source(path, lines, head.line),
        names=tuple(name for name in names[counted:] if name not in refused),
        rows=len(places),
        column=column,
        text=text,
        place=lambda i, name: f'line {places[i]}, column "{name}"',
        index=("index",) if nameless and not counted else tuple({names[0]} & ROW_NAMES),
        refused={name: why for name, why in refused.items() if name not in empty},
        unit=lambda name: units[name] or unit_in_name(name),
    )


def _source(path: Path, lines: list[str], names: int) -> str:
    """What errors call the file; a line above the names may be the header that the user meant."""
    above = [number for number, _ in _content(lines[: names - 1], 0)]
    if not above:
        return str(path)
    titles = f"line {above[0]}" if len(above) == 1 else f"lines {above[0]} to {above[-1]}"
    return f"{path} ({titles} read as a title, line {names} as the names)"


def _text(path: Path) -> str:
    """The text of a file, with lines that end in a line feed."""
    try:
        raw = path.read_bytes()
        if raw[:2] == b"\x1f\x8b":
            raw = _unpacked(path, raw)
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
    """The text in UTF-8; in UTF-16 if its mark is there (spreadsheets); else in CP 1252 (instruments, °C)."""
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


def _unpacked(path: Path, packed: bytes) -> bytes:
    """The content of a gzipped file, or an error if it is far larger than packed numbers can be."""
    most = most_unpacked(len(packed))
    with gzip.open(BytesIO(packed)) as stream:
        raw = stream.read(most + 1)
    if len(raw) > most:
        raise DataError(
            f"{path} has {len(packed):,} bytes and unpacks to more than {most:,}; numbers cannot be packed "
            "so tightly. If the file is correct, unpack it first."
        )
    return raw


def _head(path: Path, lines: list[str]) -> _Head:
    """The names of the columns, from one line, or from two if units stand below them."""
    # The first three lines decide: they may hold names, units and the first numbers.
    top = [number - 1 for number, _ in islice(_content(lines, 0), 3)]
    if not top:
        raise DataError(f"{path} is empty. The first line must name the columns.")
    first = top[0]
    header, above = lines[first], first + 1
    cells = _split(path, header, _delimiter(header), first + 1)
    if all(is_number(cell) for cell in cells) and first > 0:
        # numpy.savetxt and many instruments write the names as a comment.
        for line in reversed(lines[:first]):
            comment = line.strip().lstrip("#%").strip()
            words = _split(path, comment, _delimiter(comment), first) if comment else []
            if len(words) == len(cells) and not any(is_number(word) for word in words):
                header, above, cells = comment, first, words
                break
    delimiter = _delimiter(header)
    if len(top) == 3 and above == first + 1:
        second = lines[top[1]]
        below = delimiter if delimiter in second and _delimiter(second) not in ";\t" else _delimiter(second)
        words = _split(path, second, below, top[1] + 1)
        two_lines = [words, _split(path, lines[top[2]], below, top[2] + 1)]
        if below != ",":  # a comma inside a cell is then the decimal sign
            two_lines = [[cell.replace(",", ".") for cell in line] for line in two_lines]
        if holds_units(*two_lines):
            names = [name.strip() for name in cells]
            # If the first line cannot be names, it is a title, and the second line names the columns.
            if len(names) != len(words) or len(set(names)) < len(names) or not all(names[1:]):
                names = [word.strip() for word in words]
                return _Head(names, [""] * len(words), below, top[1] + 1, top[1] + 1)
            units = [word.strip(" ()[]{}") for word in words]
            return _Head(names, units, delimiter, top[1] + 1, first + 1)
    if delimiter == "\t" and above < len(lines) and "\t" not in lines[above]:
        delimiter = " "  # blanks of both kinds, mixed
    names = [name.strip() for name in _split(path, header, delimiter, first + 1)]
    return _Head(names, [""] * len(names), delimiter, above, above)


def _without_titles(path: Path, lines: list[str]) -> list[str]:
    """The lines with those above the names blank: a title, or the settings that an instrument writes there.

    The names are the first words alone that are as many as the cells of the next line, with numbers in that
    line or below units in it, where no line above has as many cells. Rows of numbers are never passed over.
    """

    def cells(row: tuple[int, str], delimiter: str) -> list[str]:
        split = _split(path, row[1], delimiter, row[0])
        return split if delimiter == "," else [cell.replace(",", ".") for cell in split]

    above: list[tuple[int, str]] = []
    last = next((line for line in reversed(lines) if line.strip() and not _comment(line)), "")
    rows = _content(lines, 0)
    window = list(islice(rows, 3))
    while len(window) > 1:
        delimiter = _delimiter(window[0][1])
        names, *below = (cells(row, delimiter) for row in window)
        # The usual file, and rows of numbers.
        if not above and len(names) == len(cells((len(lines), last), delimiter)):
            break
        if len(names) > 1 and all(map(is_number, names)):
            break
        words = not any(is_number(name) or is_date(name) for name in names)
        follow = len(below[0]) == len(names) > 1 and any(is_number(c) or is_date(c) for b in below for c in b)
        if above and words and follow and all(len(cells(row, delimiter)) != len(names) for row in above):
            return ["" if k < window[0][0] - 1 else line for k, line in enumerate(lines)]
        above.append(window[0])
        window = [*window[1:], *islice(rows, 1)]
    return lines


def _comment(line: str) -> bool:
    return line.lstrip()[:1] in ("#", "%")


def _content(lines: list[str], first: int) -> Iterator[tuple[int, str]]:
    """The lines below the first few that are neither blank nor comments, and their numbers, from 1."""
    numbered = enumerate(lines[first:], start=first + 1)
    return ((number, line) for number, line in numbered if line.strip() and not _comment(line))


def _delimiter(line: str) -> str:
    """The sign that separates the names in a line; a blank stands for any number of blanks."""
    sign = max(_DELIMITERS, key=line.count)
    if sign == "\t" and len(line.split()) > len(line.split(sign)) and all(map(is_number, line.split())):
        return " "  # numbers with blanks and tabs between them
    return " " if not line.count(sign) and len(line.split()) > 1 else sign


def _split(path: Path, line: str, delimiter: str, number: int) -> list[str]:
    if delimiter == " ":
        return line.split()
    try:
        return next(csv.reader([line], delimiter=delimiter, skipinitialspace=True), [])
    except csv.Error as error:
        raise DataError(f"{path}, line {number}: this is not a row of cells: {error}.") from error


def _with_index(names: Sequence[str]) -> tuple[tuple[str, ...], bool]:
    """The names, and whether the first was empty, as pandas writes the index of a frame."""
    nameless = len(names) > 1 and not names[0] and "index" not in names
    named = ["index", *names[1:]] if nameless else list(names)
    return tuple(name or f"column {k + 1}" for k, name in enumerate(named)), nameless


def _refused(path: Path, names: Sequence[str], line: int) -> dict[str, str]:
    """The columns that have no name or share one, with the message for a user who needs them."""
    refused = {}
    for k, name in enumerate(names):
        if name == f"column {k + 1}":
            refused[name] = f"{path}, line {line}: column {k + 1} has no name. Give it one, or remove it."
        elif names.count(name) > 1:
            refused[name] = f'{path}, line {line}: the column name "{name}" occurs more than once.'
    return refused


def _plain_lines(lines: list[str], head: _Head, width: int) -> list[tuple[int, str]]:
    """Line numbers and lines of rows that can be cut at their delimiters; no rows if one of them cannot."""
    rows, split = list(_content(lines, head.first)), head.delimiter
    if split != "," and any("," in line for _, line in rows):
        if not _only_decimal_commas(rows, split):
            return []
        rows = [(i, line.replace(",", ".")) for i, line in rows]
    if split == " ":
        rows, split = [(i, ",".join(line.split())) for i, line in rows], ","
    plain = all('"' not in line and line.count(split) == width - 1 for _, line in rows)
    return rows if plain else []


def _only_decimal_commas(rows: list[tuple[int, str]], delimiter: str) -> bool:
    """Whether the rows hold no points, and some comma in them can only be a decimal comma."""
    if any(_OTHER.search(line) for _, line in rows):
        return False
    cells = (cell.strip() for _, line in rows for cell in (line.split(delimiter.strip() or None)))
    return any("," in cell and _COMMA.fullmatch(cell) and not _GROUPS.fullmatch(cell) for cell in cells)


def _rows(path: Path, lines: list[str], head: _Head, width: int) -> list[_Row]:
    """The cells of every row, by the rules of csv for quotes, and the line on which each row begins."""
    rows = []
    for number, cells in _records(path, lines, head):
        if len(cells) != width:
            raise DataError(
                f"{path}, line {number}: expected {width} cells as in the header, but got {len(cells)}. "
                f"The header is line {head.line}; delete the lines above the names of the columns, if it is "
                "none."
            )
        for cell in cells:
            inner = cell.split("\n")[1:]
            # The rows after a quote that is not closed would all become one cell, without an error of csv.
            if any(line.count(head.delimiter) == width - 1 for line in inner if width > 1):
                raise DataError(
                    f"{path}, line {number}: a quote opens here and closes lines later, with whole rows "
                    "between. Close it on its own line, or remove it."
                )
        rows.append((number, cells))
    return rows


def _records(path: Path, lines: list[str], head: _Head) -> Iterator[_Row]:
    """The rows as they are in the file."""
    if head.delimiter == " ":
        yield from ((number, line.split()) for number, line in _content(lines, head.first))
        return
    begin, inside = 0, False  # the line on which the row begins, and whether the reader is inside that row

    def feed() -> Iterator[str]:
        nonlocal begin, inside
        for number, line in enumerate(lines[head.first :], start=head.first + 1):
            if not inside:
                if not line.strip() or _comment(line):
                    continue
                begin, inside = number, True
            yield line + "\n"

    reader = csv.reader(feed(), delimiter=head.delimiter, skipinitialspace=True, strict=True)
    try:
        for cells in reader:
            inside = False
            yield begin, cells
    except csv.Error as error:
        raise DataError(f"{path}, line {begin}: this is not a row of cells: {error}.") from error


def _decimals(path: Path, rows: list[_Row], delimiter: str) -> list[_Row]:
    """The rows with points for decimals, in files whose cells commas do not separate.

    A comma that is not followed by exactly three digits is a decimal comma, and likewise a point. 1,000 alone
    is ambiguous, and so is 1.000 beside decimal commas; both are errors unless another cell of the file has
    both signs in one number.
    """
    if delimiter == "," or not any("," in cell for _, cells in rows for cell in cells):
        return rows
    sure: dict[str, int] = {}
    doubtful: dict[str, tuple[int, str]] = {}
    grouped = False
    for line, cells in rows:
        for cell in map(str.strip, cells):
            if _BOTH.fullmatch(cell):
                sure.setdefault(max(",.", key=cell.rfind), line)
                grouped = True
            elif (groups := _GROUPS.fullmatch(cell)) is not None:
                if cell.count(groups[1]) > 1:
                    sure.setdefault("." if groups[1] == "," else ",", line)
                else:
                    doubtful.setdefault(groups[1], (line, cell))
            elif _COMMA.fullmatch(cell) and cell != ",":
                sure.setdefault(",", line)
            elif "." in cell and is_number(cell):
                sure.setdefault(".", line)
    if len(sure) == 2:
        raise DataError(
            f"{path}: decimals have commas in line {sure[',']} and points in line {sure['.']}. "
            "Write all with points."
        )
    decimal = next(iter(sure), None)
    unclear = doubtful.get("." if decimal == "," else ",")
    if unclear is not None and not grouped and decimal != ".":
        line, cell = unclear
        raise DataError(
            f"{path}, line {line}: {cell!r} may be a number with three decimals, or thousands. "
            "Write decimals with points, and no separator of thousands."
        )
    if decimal is None:
        return rows
    drop = "." if decimal == "," else ","
    return [(line, [_pointed(cell.strip(), drop, decimal) for cell in cells]) for line, cells in rows]


def _pointed(cell: str, drop: str, decimal: str) -> str:
    """A number without separators of thousands, which are dropped, and with a decimal point."""
    if _COMMA.fullmatch(cell) or _GROUPS.fullmatch(cell) or _BOTH.fullmatch(cell):
        return cell.replace(drop, "").replace(decimal, ".")
    return cell
