"""Rows of a memory map, read by their place in its file."""

from __future__ import annotations

import mmap
import os
from typing import Any, BinaryIO

import numpy as np

from cindy._types import Ints

__all__ = ["let_go", "rows_in_file"]

_SPAN = 2**16
"""Bytes that are read in one go where rows lie close: below it a call costs more than what it reads."""


def rows_in_file(rows: np.memmap[Any, Any], which: slice | Ints) -> np.ndarray[Any, Any] | None:
    """The given rows as a copy; None where the file does not hold them as the map shows them.

    Every page that a map touches counts as memory of the process, and the system may map megabytes for one
    of them: two thousand rows of 4 kB, drawn from 4 GB, took 2 GB (`python -m benchmarks sampled`).

    which: a slice with both ends, or increasing numbers of rows
    """
    place = _place(rows)
    if place is None or not len(rows):
        return None
    try:
        with open(str(rows.filename), "rb", buffering=0) as file:
            # Another file may have taken the name since.
            same = _read(file, place, rows, 0, 1)
            if same is None or same.tobytes() != rows[:1].tobytes():
                return None
            if isinstance(which, slice):
                return _read(file, place, rows, which.start, which.stop)
            return _chosen(file, place, rows, which)
    except OSError:
        return None
    finally:
        let_go(rows)


def let_go(rows: np.memmap[Any, Any]) -> None:
    """Give back the pages that a memory map has read: they would count as memory of this process.

    Not where the map is private to the process: its changes live in those pages alone.
    """
    held = getattr(rows, "_mmap", None)
    if isinstance(held, mmap.mmap) and hasattr(held, "madvise") and getattr(rows, "mode", "c") != "c":
        held.madvise(mmap.MADV_DONTNEED)


def _place(rows: np.memmap[Any, Any]) -> int | None:
    """Where in the file the first row begins; None where rows do not follow each other there."""
    held, mode = getattr(rows, "_mmap", None), getattr(rows, "mode", "c")
    # Only POSIX promises that a file and a map of it that was written to agree.
    shared = mode == "r" or (mode != "c" and os.name == "posix")
    if not (isinstance(held, mmap.mmap) and shared and rows.flags.c_contiguous and rows.filename):
        return None
    # A part of a map has the offset of the whole: only its address tells where it begins.
    begin = np.frombuffer(held, dtype=np.uint8).__array_interface__["data"][0]
    inside = int(rows.__array_interface__["data"][0]) - int(begin)
    return rows.offset - rows.offset % mmap.ALLOCATIONGRANULARITY + inside


def _chosen(
    file: BinaryIO, place: int, rows: np.memmap[Any, Any], numbers: Ints
) -> np.ndarray[Any, Any] | None:
    """Rows by their numbers; those that lie close are read together."""
    found = np.empty((len(numbers), *rows.shape[1:]), dtype=rows.dtype)
    near = max(_SPAN * len(rows) // max(rows.nbytes, 1), 1)
    begin = 0
    while begin < len(numbers):
        first = int(numbers[begin])
        end = begin + 1
        while end < len(numbers) and numbers[end] - first < near:
            end += 1
        last = int(numbers[end - 1])
        part = _read(file, place, rows, first, last + 1)
        if part is None:
            return None
        found[begin:end] = part[numbers[begin:end] - first]
        begin = end
    return found


def _read(
    file: BinaryIO, place: int, rows: np.memmap[Any, Any], first: int, stop: int
) -> np.ndarray[Any, Any] | None:
    """Rows from the first up to the last; None where the file ends before."""
    part = np.empty((stop - first, *rows.shape[1:]), dtype=rows.dtype)
    room = memoryview(part.data).cast("B")
    file.seek(place + first * (part.nbytes // len(part)))
    while len(room):
        count = file.readinto(room)  # type: ignore[attr-defined]
        if not count:
            return None
        room = room[count:]
    return part
