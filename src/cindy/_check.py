"""Checks of arguments that come from users: arrays, numbers, names and paths."""

from collections.abc import Iterable, Mapping
from difflib import get_close_matches
from os import PathLike
from pathlib import Path

import numpy as np
from numpy.typing import ArrayLike

from cindy._arrays import Floats
from cindy.errors import DataError


def floats(values: ArrayLike, where: str, *, ndim: int, allow_nan: bool = False) -> Floats:
    """`values` as a contiguous array of floats with `ndim` dimensions, all of them finite.

    A masked entry becomes NaN, which `allow_nan` permits. Complex numbers, dates and durations are errors,
    because a float would keep only a part of them.
    """
    try:
        given = values if isinstance(values, np.ma.MaskedArray) else np.asarray(values)
        if given.dtype.kind == "O" and any(isinstance(value, complex) for value in given.flat):
            given = given.astype(complex)
        if given.dtype.kind == "c":
            raise DataError(
                f"{where} must be real, but holds complex numbers. Pass real and imaginary parts apart."
            )
        if given.dtype.kind in "mM":
            raise DataError(f"{where} must be numbers, but holds dates or durations ({given.dtype}).")
        if isinstance(given, np.ma.MaskedArray):
            given = np.ma.filled(given.astype(np.float64), np.nan)
        # Not ascontiguousarray, which turns a number into an array of one dimension.
        array = np.asarray(given, dtype=np.float64, order="C")
    except (TypeError, ValueError, OverflowError) as error:
        if isinstance(error, DataError):
            raise
        raise DataError(f"{where} must be numbers, but could not be read as such: {error}.") from error
    if array.ndim != ndim:
        raise DataError(f"{where} must have {counted(ndim, 'dimension')}, but has shape {array.shape}.")
    bad = np.isinf(array) if allow_nan else ~np.isfinite(array)
    if bad.any():
        index = tuple(int(i) for i in np.argwhere(bad)[0])
        raise DataError(
            f"{where} must be finite, but entry {list(index)} is {array[index]} "
            f"({int(bad.sum())} such in all). Remove or repair those samples."
        )
    return array


def numbers(values: ArrayLike, where: str) -> Floats:
    """`values` as floats of any shape, which may be infinite or NaN; a masked entry becomes NaN."""
    try:
        if isinstance(values, np.ma.MaskedArray):
            return np.ma.filled(values.astype(np.float64), np.nan)
        return np.asarray(values, dtype=np.float64)
    except (TypeError, ValueError, OverflowError) as error:
        raise DataError(f"{where} must be numbers, but is {short(values)}.") from error


def short(value: object) -> str:
    """A short description of a value for messages; of arrays and tables, the shape."""
    shape = getattr(value, "shape", None)
    if isinstance(shape, tuple):
        return f"a {type(value).__name__} of shape {shape}"
    try:
        description = " ".join(repr(value).split())
    # Python does not print integers of very many digits, and the repr of an object may raise any error.
    except Exception:
        return f"a {type(value).__name__} that cannot be printed"
    return description if len(description) <= 80 else f"{description[:77]}…"


def positive(value: float, where: str) -> float:
    """`value` as a float that is finite and above zero."""
    return number(value, where, "a positive number", above=0.0)


def non_negative(value: float, where: str) -> float:
    """`value` as a float that is finite and not below zero."""
    return number(value, where, "a number of at least 0", least=0.0)


def number(
    value: float, where: str, what: str = "a finite number", *, least: float = -np.inf, above: float = -np.inf
) -> float:
    """`value` as a float that is finite and in a range, which `what` puts in words."""
    try:
        result = float(value)
    except (TypeError, ValueError, OverflowError):
        result = np.nan
    if not (np.isfinite(result) and result >= least and result > above):
        raise DataError(f"{where} must be {what}, but is {short(value)}.")
    return result


def integer(value: int, where: str, *, least: int, most: int | None = None) -> int:
    """`value` as an int that is at least `least`, and at most `most` if that is given."""
    if isinstance(value, bool) or not isinstance(value, (int, np.integer)) or value < least:
        raise DataError(f"{where} must be a whole number of at least {least}, but is {short(value)}.")
    if most is not None and value > most:
        raise DataError(f"{where} must be a whole number of at most {most}, but is {short(value)}.")
    return int(value)


def instance(value: object, kind: type | tuple[type, ...], where: str, what: str) -> None:
    """Raise unless `value` is an instance of a class; `what` describes one and how to make it."""
    if not isinstance(value, kind):
        raise DataError(f"{where} must be {what}, but is {short(value)}.")


def text(value: str, where: str) -> str:
    """`value`, which must be a string."""
    instance(value, str, where, "a text")
    return value


def flag(value: bool, where: str) -> bool:
    """`value`, which must be True or False."""
    instance(value, (bool, np.bool_), where, "True or False")
    return bool(value)


def one_of(value: object, options: Iterable[object], where: str) -> None:
    """Raise unless `value` is one of a few words or numbers."""
    known = tuple(options)
    if not isinstance(value, (str, int, np.integer)) or isinstance(value, bool) or value not in known:
        *rest, last = (f'"{k}"' if isinstance(k, str) else str(k) for k in known)
        listed = f"{', '.join(rest)} or {last}" if rest else last
        raise DataError(f"{where} must be {listed}, but is {short(value)}.")


def increasing(values: Floats, name: str, where: str, *, repeated: str, unsorted: str) -> None:
    """Raise unless the values of `name` increase; two sentences say what to do if they do not."""
    bad = np.flatnonzero(np.diff(values) <= 0)
    if len(bad):
        i = int(bad[0])
        raise DataError(
            f"{where}: `{name}` must increase, but {name}[{i}] = {values[i]:g} is followed by "
            f"{name}[{i + 1}] = {values[i + 1]:g}. {repeated if values[i] == values[i + 1] else unsorted}"
        )


def file_path(value: str | PathLike[str], where: str) -> Path:
    """`value` as the path of a file. Numbers are errors, because Python takes them for open files."""
    if not isinstance(value, (str, PathLike)) or "\0" in str(value):
        raise DataError(f"{where} must be the path of a file, but is {short(value)}.")
    return Path(value)


def stretch(start: int, stop: int, length: int, where: str, what: str) -> None:
    """Raise unless start … stop − 1 is a stretch of `length` samples; `what` names them in the message."""
    integers = all(isinstance(end, (int, np.integer)) and not isinstance(end, bool) for end in (start, stop))
    if not integers or not 0 <= start < stop <= length:
        last = stop - 1 if integers else stop
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
    """A sentence that proposes the most similar known name, or lists the known names."""
    names, name = [str(candidate) for candidate in known], str(name)
    same = [candidate for candidate in names if _factors(candidate) == _factors(name)]
    similar = same or get_close_matches(name, names, n=1, cutoff=0.5)
    if similar:
        return f'Did you mean "{similar[0]}"?'
    listed = ", ".join(f'"{candidate}"' for candidate in names[:12])
    return f"Known: {listed}{', …' if len(names) > 12 else ''}."


def _factors(name: str) -> list[str]:
    """The sorted factors of a term, whatever the notation of its powers and products."""
    return sorted(name.lower().replace("**", "^").replace("*", " ").split())


def all_units(units: Mapping[str, str] | None, unit: object) -> dict[str, str]:
    """Units by name for the labels of axes; the time has the unit of the data unless another is given."""
    return {**({"t": units_of_time(unit)} if unit else {}), **(units or {})}


def counted(number: int, noun: str) -> str:
    """A number and its noun, in the plural if it is not 1.

    >>> counted(1, "term"), counted(1200, "term")
    ('1 term', '1,200 terms')
    """
    return f"{number:,} {noun}" + ("" if number == 1 else "s")


def units_of_time(unit: object) -> str:
    """What follows a number of units of time: words in the plural, abbreviations as they are.

    >>> units_of_time("second"), units_of_time("min"), units_of_time("")
    ('seconds', 'min', 'time units')
    """
    words = ("year", "month", "week", "day", "hour", "minute", "second")
    return f"{unit}s" if unit in words else str(unit or "time units")
