"""Dates, moments and durations as seconds."""

from __future__ import annotations

import re
from collections.abc import Sequence
from datetime import UTC, date, datetime, timedelta
from typing import Any

import numpy as np
from numpy.typing import NDArray

from cindy._types import Floats

__all__ = ["iso_seconds", "seconds"]

_ISO = re.compile(r"\s*\d{4}-\d{2}(-\d{2}([T ]\d{2}(:?\d{2}){0,2}.*)?)?\s*")
_MISSING = {"", "na", "n/a", "nan", "nat", "null", "none"}


def seconds(values: Any) -> Floats | None:
    """Dates as seconds since the first of them, durations as seconds; None where they are neither.

    Time zones count; a missing moment is NaN.

    >>> seconds(np.array(["2024-01-01", "2024-01-02"], dtype="datetime64[D]")).tolist()
    [0.0, 86400.0]
    """
    array = np.asarray(values)
    if array.dtype == object:
        array = _from_objects(array)
    if array.dtype.kind not in "mM":
        return None
    missing = np.isnat(array)
    if array.dtype.kind == "M":
        first = array[~missing][:1]
        array = array - (first[0] if len(first) else np.datetime64(0, "s"))
    return np.asarray(np.where(missing, np.nan, array / np.timedelta64(1, "s")))


def iso_seconds(entries: Sequence[str]) -> Floats | None:
    """Dates such as 2024-05-01, 2024-05-01 12:30 or 2024-05-01T12:30:05.25+02:00 in seconds since the first.

    None where an entry is no such date, or where only some of them have a time zone. An empty entry is NaN.
    """
    if not any(_ISO.fullmatch(entry) for entry in entries[:1]):
        return None
    texts = ["NaT" if entry.strip().lower() in _MISSING else entry.strip() for entry in entries]
    try:
        zoned = any(re.search(r"(Z|[+-]\d{2}:?\d{2})$", text[10:]) for text in texts)
        if not zoned:
            return seconds(np.array(texts, dtype="datetime64[us]"))
        moments = [None if text == "NaT" else datetime.fromisoformat(text) for text in texts]
    except ValueError:
        return None
    if any(one is not None and one.tzinfo is None for one in moments):
        return None
    return seconds(np.array(moments, dtype=object))


def _from_objects(array: NDArray[Any]) -> NDArray[Any]:
    """Python's and pandas' own moments and durations as those of numpy; anything else as it came."""
    kinds = {type(v) for v in array.flat if v is not None and v == v}
    if not kinds:
        return array
    if all(issubclass(kind, (date, np.datetime64)) for kind in kinds):
        return np.array([_universal(v) for v in array.flat], dtype="datetime64[us]").reshape(array.shape)
    if all(issubclass(kind, (timedelta, np.timedelta64)) for kind in kinds):
        given = [v if v is not None and v == v else np.timedelta64("NaT") for v in array.flat]
        return np.array(given, dtype="timedelta64[us]").reshape(array.shape)
    return array


def _universal(value: Any) -> Any:
    """A moment without its zone, which numpy does not know."""
    if value is None or value != value:
        return np.datetime64("NaT")
    if isinstance(value, datetime):
        if value.tzinfo is not None:
            value = value.astimezone(UTC).replace(tzinfo=None)
        return np.datetime64(value)
    return np.datetime64(value)
