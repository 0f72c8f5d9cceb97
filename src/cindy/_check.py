"""Checks at the doors: arrays, numbers and names that come from outside."""

from collections.abc import Iterable
from difflib import get_close_matches
from os import PathLike
from pathlib import Path

import numpy as np
from numpy.typing import ArrayLike

from cindy._arrays import Floats
from cindy.errors import DataError

__all__ = [
    "did_you_mean",
    "file_path",
    "flag",
    "floats",
    "instance",
    "integer",
    "non_negative",
    "number",
    "numbers",
    "one_of",
    "positive",
    "short",
    "stretch",
    "text",
    "unique_names",
]


def floats(values: ArrayLike, where: str, *, ndim: int, allow_nan: bool = False) -> Floats:
    """`values` as a contiguous float array of `ndim` dimensions, finite throughout.

    A masked entry is a missing value. Complex numbers, dates and durations are refused, since a float would
    hold only a part of what they say.
    """
    try:
        given = values if isinstance(values, np.ma.MaskedArray) else np.asarray(values)
        if given.dtype.kind == "O" and any(isinstance(v, complex) for v in given.flat):
            given = given.astype(complex)
        if given.dtype.kind == "c":
            raise DataError(
                f"{where} must be real, but holds complex numbers. Pass real and imaginary parts apart."
            )
        if given.dtype.kind in "mM":
            raise DataError(f"{where} must be numbers, but holds dates or durations ({given.dtype}).")
        if isinstance(given, np.ma.MaskedArray):
            given = np.ma.filled(given.astype(np.float64), np.nan)
        array = np.asarray(given, dtype=np.float64, order="C")  # ascontiguousarray makes a number a list
    except (TypeError, ValueError, OverflowError) as error:
        if isinstance(error, DataError):
            raise
        raise DataError(f"{where} must be numbers, but could not be read as such: {error}.") from error
    if array.ndim != ndim:
        raise DataError(f"{where} must have {ndim} dimension(s), but has shape {array.shape}.")
    bad = np.isinf(array) if allow_nan else ~np.isfinite(array)
    if bad.any():
        index = tuple(int(i) for i in np.argwhere(bad)[0])
        raise DataError(
            f"{where} must be finite, but entry {list(index)} is {array[index]} "
            f"({int(bad.sum())} such in all). Remove or repair those samples."
        )
    return array


def numbers(values: ArrayLike, where: str) -> Floats:
    """`values` as floats of any shape, whatever they are."""
    try:
        return np.asarray(values, dtype=np.float64)
    except (TypeError, ValueError, OverflowError) as error:
        raise DataError(f"{where} must be numbers, but is {short(values)}.") from error


def short(value: object) -> str:
    """What was given, in a few words: arrays and tables by their size."""
    shape = getattr(value, "shape", None)
    if isinstance(shape, tuple):
        return f"a {type(value).__name__} of shape {shape}"
    try:
        said = repr(value)
    except (
        Exception
    ):  # an integer of more digits than Python prints, or an object that cannot describe itself
        return f"a {type(value).__name__} that cannot be printed"
    return said if len(said) <= 80 else f"{said[:77]}…"


def positive(value: float, where: str) -> float:
    """`value` as a float that is finite and above zero."""
    number = _number(value, where)
    if not (np.isfinite(number) and number > 0):
        raise DataError(f"{where} must be a positive number, but is {short(value)}.")
    return number


def non_negative(value: float, where: str) -> float:
    """`value` as a float that is finite and not below zero."""
    number = _number(value, where)
    if not (np.isfinite(number) and number >= 0):
        raise DataError(f"{where} must be a number of at least 0, but is {short(value)}.")
    return number


def number(value: float, where: str) -> float:
    """`value` as a float that is finite."""
    result = _number(value, where)
    if not np.isfinite(result):
        raise DataError(f"{where} must be a finite number, but is {short(value)}.")
    return result


def integer(value: int, where: str, *, least: int, most: int | None = None) -> int:
    """`value` as an int that is at least `least`, and at most `most` if that is given."""
    if isinstance(value, bool) or not isinstance(value, (int, np.integer)) or value < least:
        raise DataError(f"{where} must be a whole number of at least {least}, but is {short(value)}.")
    if most is not None and value > most:
        raise DataError(f"{where} must be a whole number of at most {most}, but is {short(value)}.")
    return int(value)


def instance(value: object, kind: type | tuple[type, ...], where: str, what: str) -> None:
    """Raise unless `value` is of a kind; `what` says in words what would be, and how to make one."""
    if not isinstance(value, kind):
        raise DataError(f"{where} must be {what}, but is {short(value)}.")


def text(value: str, where: str) -> str:
    """`value`, which must be a text."""
    if not isinstance(value, str):
        raise DataError(f"{where} must be a text, but is {short(value)}.")
    return value


def flag(value: bool, where: str) -> bool:
    """`value`, which must be true or false."""
    if not isinstance(value, (bool, np.bool_)):
        raise DataError(f"{where} must be True or False, but is {short(value)}.")
    return bool(value)


def one_of(value: object, options: Iterable[object], where: str) -> None:
    """Raise unless `value` is one of a few words or numbers."""
    known = tuple(options)
    if not isinstance(value, (str, int, np.integer)) or isinstance(value, bool) or value not in known:
        *rest, last = (f'"{k}"' if isinstance(k, str) else str(k) for k in known)
        listed = f"{', '.join(rest)} or {last}" if rest else last
        raise DataError(f"{where} must be {listed}, but is {short(value)}.")


def file_path(value: str | PathLike[str], where: str) -> Path:
    """`value` as the path of a file. A number is none: it would be taken for an open file."""
    if not isinstance(value, (str, PathLike)) or "\0" in str(value):
        raise DataError(f"{where} must be the path of a file, but is {short(value)}.")
    return Path(value)


def stretch(start: int, stop: int, length: int, where: str, what: str) -> None:
    """Raise unless start … stop − 1 are some of so many samples."""
    whole = all(isinstance(end, (int, np.integer)) and not isinstance(end, bool) for end in (start, stop))
    if not whole or not 0 <= start < stop <= length:
        last = stop - 1 if whole else stop
        raise DataError(f"{where}: there are no {what} {short(start)} … {short(last)} among {length}.")


def unique_names(names: Iterable[str], where: str) -> tuple[str, ...]:
    """`names` as a tuple of distinct, non-empty strings."""
    if isinstance(names, str):
        raise DataError(f"{where} must be a sequence of names, but is the single string {names!r}.")
    try:
        result = tuple(names)
    except TypeError:
        raise DataError(f"{where} must be a sequence of names, but is {short(names)}.") from None
    for i, name in enumerate(result):
        if not isinstance(name, str) or not name.strip():
            raise DataError(f"{where}[{i}] must be a non-empty string, but is {short(name)}.")
        if name in result[:i]:
            raise DataError(f"{where} must be distinct, but {name!r} occurs more than once.")
    return result


def did_you_mean(name: str, known: Iterable[str]) -> str:
    """A sentence that offers the nearest known name, or lists what there is."""
    names, name = [str(k) for k in known], str(name)
    alike = [k for k in names if _spelling(k) == _spelling(name)]
    near = alike or get_close_matches(name, names, n=1, cutoff=0.5)
    if near:
        return f'Did you mean "{near[0]}"?'
    listed = ", ".join(f'"{k}"' for k in names[:12])
    return f"Known: {listed}{', …' if len(names) > 12 else ''}."


def _spelling(name: str) -> list[str]:
    """The factors of a term in any order, case, and notation of powers and products."""
    return sorted(name.lower().replace("**", "^").replace("*", " ").split())


def _number(value: float, where: str) -> float:
    try:
        return float(value)
    except (TypeError, ValueError, OverflowError) as error:
        raise DataError(f"{where} must be a number, but is {short(value)}.") from error
