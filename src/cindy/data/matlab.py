"""Matlab files of version 5 to 7, read by their own description of themselves.

A file is a header of 128 bytes and then elements: a tag (kind, bytes), the bytes, and padding to a multiple
of eight. An element of up to four bytes may stand in its tag. A variable is an element that holds others, in
this order: flags with the class, dimensions, name, and values. Elements may be packed with zlib.

Every length is compared with the bytes that are there before anything is read or made, because a damaged file
ends the process where scipy.io.loadmat trusts it. Structures, objects and sparse matrices are passed over.

Reference: "MAT-File Format", The MathWorks, chapter 1.
"""

from __future__ import annotations

import struct
import zlib
from collections.abc import Iterator
from dataclasses import dataclass
from math import prod
from typing import Any

import numpy as np
from numpy.typing import NDArray

from cindy.errors import DataError

__all__ = ["matlab_arrays"]

Array = NDArray[Any]


@dataclass(frozen=True)
class _Codes:
    """Numbers of the format of Matlab's files, version 5."""

    header: int = 128
    matrix: int = 14
    compressed: int = 15
    cell: int = 1
    char: int = 4
    deepest: int = 4
    """Cells within cells that are opened."""


_CODES = _Codes()


_STORED = {1: "i1", 2: "u1", 3: "i2", 4: "u2", 5: "i4", 6: "u4", 7: "f4", 9: "f8", 12: "i8", 13: "u8"}
_TEXT = {16: "utf-8", 17: "utf-16", 18: "utf-32"}
_CLASSES = {6: "f8", 7: "f4", 8: "i1", 9: "u1", 10: "i2", 11: "u2", 12: "i4", 13: "u4", 14: "i8", 15: "u8"}


def matlab_arrays(raw: bytes, most: int) -> dict[str, Array]:
    """The numeric matrices, texts and cells of texts in a file, by name.

    most: bytes that packed elements may unpack to, all together
    """
    # The mark "MI" is written as one number of two bytes, so that its order tells that of all others.
    order = {b"IM": "<", b"MI": ">"}.get(raw[126:128])
    if order is None or len(raw) < _CODES.header:
        raise DataError("it does not begin as Matlab files of version 5 to 7 do")
    arrays: dict[str, Array] = {}
    for kind, body in _elements(memoryview(raw)[_CODES.header :], order, small=False):
        if kind == _CODES.compressed:
            unpacked = _unpacked(body, most)
            most -= len(unpacked)
            inner = list(_elements(memoryview(unpacked), order, small=False))
        else:
            inner = [(kind, body)]
        for kind_inside, content in inner:
            if kind_inside == _CODES.matrix:
                name, array = _variable(content, order, 0)
                if array is not None and name and not name.startswith("__"):
                    arrays[name] = array
    return arrays


def _unpacked(body: memoryview, most: int) -> bytes:
    stream = zlib.decompressobj()
    # One byte more than allowed is enough to know that it is too much.
    unpacked = stream.decompress(body, max(most, 0) + 1)
    if len(unpacked) > most:
        raise DataError("it unpacks to far more than its size, which measurements never do")
    if not stream.eof:
        raise DataError("a packed variable ends too early")
    return unpacked


def _elements(raw: memoryview, order: str, *, small: bool = True) -> Iterator[tuple[int, memoryview]]:
    """Kind and content of one element after the other."""
    at = 0
    while len(raw) - at >= 8:
        kind, size = struct.unpack_from(order + "II", raw, at)
        if small and kind >> 16:  # the length stands in the upper half, the content in the rest of the tag
            kind, size, begin, step = kind & 0xFFFF, kind >> 16, at + 4, 8
            if size > 4:
                raise DataError("a short element is longer than four bytes")
        else:
            # Packed variables follow one another without padding.
            begin, step = at + 8, 8 + (size if kind == _CODES.compressed else -(-size // 8) * 8)
        if begin + size > len(raw):
            raise DataError(f"an element of {size:,} bytes begins {len(raw) - begin:,} bytes before the end")
        yield kind, raw[begin : begin + size]
        at += step


def _variable(content: memoryview, order: str, depth: int) -> tuple[str, Array | None]:
    """The name of a matrix and its values; None for what is neither numbers nor text."""
    parts = _elements(content, order)
    flags = _numbers(next(parts, None), order)
    shape = tuple(int(n) for n in _numbers(next(parts, None), order))
    label = _numbers(next(parts, None), order)
    if len(flags) != 2 or len(shape) < 2 or min(shape) < 0:
        raise DataError("a variable has no class or no dimensions")
    name = bytes(label.astype(np.uint8)).decode("latin-1")
    size, kind, is_complex = prod(shape), int(flags[0]) & 0xFF, bool(int(flags[0]) & 0x800)
    if kind == _CODES.cell:
        if size > len(content) // 8 or depth >= _CODES.deepest:
            raise DataError(f'"{name}" has more cells than bytes')
        cells = [
            _variable(body, order, depth + 1)[1] if inner == _CODES.matrix else None for inner, body in parts
        ]
        texts = [_joined(cell) for cell in cells[:size]]
        return name, np.array(texts) if texts and len(texts) == size else None
    if kind != _CODES.char and kind not in _CLASSES:
        return name, None
    values = _numbers(next(parts, None), order, text=kind == _CODES.char)
    if len(values) != size:
        raise DataError(f'"{name}" has the shape {shape}, but {len(values):,} values')
    if kind == _CODES.char:
        letters = values.reshape(shape, order="F").reshape(shape[0], -1)
        return name, np.array(["".join(map(chr, row)) for row in letters])
    values = values.astype(_CLASSES[kind])
    if is_complex:
        imaginary = _numbers(next(parts, None), order)
        if len(imaginary) != size:
            raise DataError(f'"{name}" lacks imaginary parts')
        values = values + 1j * imaginary
    return name, values.reshape(shape, order="F")


def _joined(cell: Array | None) -> str:
    """A cell as text: what it says, or its only number."""
    return "" if cell is None or cell.size != 1 else str(cell.flat[0])


def _numbers(element: tuple[int, memoryview] | None, order: str, *, text: bool = False) -> Array:
    """The values of an element as they are stored; of text, the numbers of its letters."""
    if element is None:
        raise DataError("a variable ends too early")
    kind, body = element
    if text and kind in _TEXT:
        endless = _TEXT[kind] + ("" if kind == 16 else "-le" if order == "<" else "-be")
        return np.array([ord(letter) for letter in str(body, endless)], dtype=np.int64)
    if kind not in _STORED:
        raise DataError(f"an element is of the unknown kind {kind}")
    stored = np.dtype(order + _STORED[kind])
    return np.frombuffer(body, dtype=stored, count=len(body) // stored.itemsize)
