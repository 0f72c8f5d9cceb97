"""Times as they are written: dates, durations, units, and the names of columns that hold them.

Every date becomes seconds since the first one, whether it is given as an object, as text or as a number with
a unit such as "hours since 2000-01-01". So a file gives the same times, whichever reader opens it.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from datetime import UTC, date, datetime, timedelta
from typing import Any

import numpy as np
from numpy.typing import NDArray

from cindy._arrays import Floats
from cindy.errors import DataError

MISSING = {"", "na", "n/a", "nan", "nat", "null", "none"}
"""How an empty cell may be written, in lower case."""
_ISO = re.compile(r"\s*\d{4}-\d{2}(-\d{2}([T ]\d{2}(:?\d{2}){0,2}.*)?)?\s*")
_ZONE = re.compile(r"(Z|[+-]\d{2}:?\d{2})$")
_LOCAL = re.compile(r"(\d{1,2})([./])(\d{1,2})\2(\d{4})(?:[ T]+(\d{1,2}:\d{2}(?::\d{2}(?:[.,]\d+)?)?))?")
"""31.03.2024 00:00, 31/03/2024 or 03/31/2024 00:00:10.5"""
_CLOCK = re.compile(r"(\d+):([0-5]\d)(?::([0-5]\d(?:[.,]\d+)?))?(?:\s*([AP])\.?M\.?)?", flags=re.I)
"""20:00, 20:00:05.5, 8:00:05 PM, and 100:30:00 of a stop watch."""
_MINUTES = re.compile(r"(\d+):([0-5]\d[.,]\d+)")
"""05:30.5, as spreadsheets write minutes and fractions of seconds."""
_CF = re.compile(r"\s*((?:nano|micro|milli)?second|minute|hour|day)s?(\s+since\s.*)?\s*", flags=re.I)
_LENGTHS = {"second": 1.0, "minute": 60.0, "hour": 3600.0, "day": 86400.0}
UNITS_IN_SECONDS = {**_LENGTHS, "week": 7 * 86400.0, "year": 365.25 * 86400.0}
_FRACTIONS = {"millisecond": 1e-3, "microsecond": 1e-6, "nanosecond": 1e-9}
_NAMES = (
    *("t", "time", "times", "timestamp", "datetime", "date", "year", "month", "week", "day", "hour"),
    *("minute", "second", "sec", "elapsed", "zeit", "temps", "tiempo"),
)
"""What a column of times is called, the surest first; plurals, capitals and a unit after it do not matter."""
_UNITS = r"(s|sec|secs|seconds?|ms|us|µs|μs|ns|min|h|hr|hours?|d|days?|y|yr|years?)"


def seconds(values: Any) -> Floats | None:
    """Dates as seconds since the first of them, durations as seconds; None if the values are neither.

    Time zones are taken into account. A missing date is NaN.

    >>> seconds(np.array(["2024-01-01", "2024-01-02"], dtype="datetime64[D]")).tolist()
    [0.0, 86400.0]
    """
    array = np.asarray(values)
    if array.dtype == object:
        array = _from_objects(array)
    if array.dtype.kind not in "mM":
        return None
    missing = np.isnat(array)
    # Seconds since 1970 would have ten digits before the point, and steps would lose that precision.
    if array.dtype.kind == "M":
        first = array[~missing][:1]
        array = array - (first[0] if len(first) else np.datetime64(0, "s"))
    return np.asarray(np.where(missing, np.nan, array / np.timedelta64(1, "s")))


def in_seconds(values: Any, unit: str) -> Floats | None:
    """Numbers with a unit as netCDF spells it, "hours since 2000-01-01" or "days", in seconds.

    Dates count from the first of them. The result is None for any other unit.

    >>> in_seconds([6, 12, 18], "hours since 2000-01-01").tolist()
    [0.0, 21600.0, 43200.0]
    """
    match = _CF.fullmatch(unit)
    array = np.asarray(values)
    if match is None or array.dtype.kind not in "iuf" or array.size == 0:
        return None
    word, since = match[1].lower(), match[2]
    # A unit without a date must be a plural, as for xarray.
    if since is None and not unit.strip().lower().endswith("s"):
        return None
    numbers = array.astype(np.float64)
    if since is not None:
        numbers = numbers - numbers.flat[0]
    return np.asarray(numbers * (_LENGTHS | _FRACTIONS)[word])


def in_unit(t: Floats, unit: str, wanted: str, where: str) -> Floats:
    """Times in another unit; numbers without a unit are taken to be in it already.

    >>> in_unit(np.array([0.0, 43200.0]), "s", "day", "read").tolist()
    [0.0, 0.5]
    """
    if unit in ("", wanted):
        return t
    if unit not in ("s", "second"):
        raise DataError(f'{where} has times in "{unit}", and only dates and seconds become other units.')
    return t / UNITS_IN_SECONDS[wanted]


def text_seconds(entries: Sequence[str], where: str) -> Floats | None:
    """Dates in text as seconds since the first; None if an entry is no date. An empty entry is NaN.

    2024-05-01, 2024-05-01 12:30 and 2024-05-01T12:30:05.25+02:00 are read, and so are 31.03.2024 12:30 and
    31/03/2024 if some day beyond 12 shows whether the day or the month comes first. Times of a clock without
    a date, 12:30, 12:30:05.25 and 00:30:05 PM, are seconds since midnight.
    """
    texts = [None if entry.strip().lower() in MISSING else entry.strip() for entry in entries]
    first = next((text for text in texts if text is not None), "")
    if _ISO.fullmatch(first):
        return _iso_seconds(texts)
    return _local_seconds(texts, where) if _LOCAL.fullmatch(first) else _clock_seconds(texts)


def _clock_seconds(texts: Sequence[str | None]) -> Floats | None:
    """Times of a clock as seconds since midnight; None if an entry is none.

    A clock that goes back by more than half a day has passed midnight.
    """
    values, hours = np.full(len(texts), np.nan), []
    clock = all(text is None or _CLOCK.fullmatch(text) for text in texts)
    for i, text in enumerate(texts):
        if text is None:
            continue
        match = (_CLOCK if clock else _MINUTES).fullmatch(text)
        if match is None:
            return None
        if clock:
            half = match[4] and match[4].upper()
            hours.append(int(match[1]) % 12 + 12 * (half == "P") if half else int(match[1]))
            values[i] = 3600.0 * hours[-1] + 60.0 * int(match[2])
        else:
            values[i] = 60.0 * int(match[1])
        values[i] += float((match[3 if clock else 2] or "0").replace(",", "."))
    known = np.flatnonzero(np.isfinite(values))
    if hours and max(hours) < 24:
        day = _LENGTHS["day"]
        values[known[1:]] += day * np.cumsum(np.diff(values[known]) < -day / 2)
    return values if len(known) else None


def odd_date(entries: Sequence[str]) -> tuple[int, str] | None:
    """The place of the first entry that is no date written like the first one, and that first date.

    None if the first entry is no date, or if all entries are written alike.
    """
    texts = [(i, entry.strip()) for i, entry in enumerate(entries) if entry.strip().lower() not in MISSING]
    if not texts or not is_date(texts[0][1]):
        return None

    def form(text: str) -> tuple[bool, ...]:
        kinds = tuple(bool(kind.fullmatch(text)) for kind in (_ISO, _LOCAL, _CLOCK, _MINUTES))
        return *kinds, bool(_ZONE.search(text[10:]))

    first = texts[0][1]
    for i, text in texts:
        if form(text) != form(first) or (_ISO.fullmatch(text) and _iso_seconds([text]) is None):
            return i, first
    return None


def is_date(text: str) -> bool:
    """Whether a cell is written like a date or a time of the clock."""
    return any(kind.fullmatch(text.strip()) for kind in (_ISO, _LOCAL, _CLOCK, _MINUTES))


def _iso_seconds(texts: Sequence[str | None]) -> Floats | None:
    """ISO dates as seconds since the first; None if only some of them have a time zone."""
    try:
        # numpy reads dates much faster than datetime does, but it knows no time zones.
        zoned = any(text and _ZONE.search(text[10:]) for text in texts)
        if not zoned:
            return seconds(np.array(["NaT" if text is None else text for text in texts], "datetime64[us]"))
        moments = [None if text is None else datetime.fromisoformat(text) for text in texts]
    except (ValueError, OverflowError):
        return None
    if any(moment is not None and moment.tzinfo is None for moment in moments):
        return None
    return seconds(np.array(moments, dtype=object))


def _local_seconds(texts: Sequence[str | None], where: str) -> Floats | None:
    """Dates such as 31.03.2024 or 03/31/2024 as seconds since the first; None if an entry is no such date."""
    parts = [None if text is None else _LOCAL.fullmatch(text) for text in texts]
    if any(part is None and text is not None for part, text in zip(parts, texts, strict=True)):
        return None
    dates = [part for part in parts if part is not None]
    # With points the day always comes first; with slashes that depends on the country.
    day_first = any(part[2] == "." or int(part[1]) > 12 for part in dates)
    month_first = any(int(part[3]) > 12 for part in dates)
    if day_first == month_first:
        example = next(text for text in texts if text is not None)
        raise DataError(
            f"{where}: {example!r} may have the day first or the month first. Write dates as 2024-03-31."
        )
    iso: list[str | None] = []
    for part in parts:
        if part is None:
            iso.append(None)
            continue
        day, month = (part[1], part[3]) if day_first else (part[3], part[1])
        clock = (part[5] or "0:00").replace(",", ".")
        iso.append(f"{part[4]}-{int(month):02}-{int(day):02}T{clock:0>{len(clock) + (clock[1] == ':')}}")
    return _iso_seconds(iso)


def yyyymmdd_seconds(values: Floats) -> Floats | None:
    """Whole numbers such as 20240331 as seconds since the first; None unless all are days of the calendar."""
    if len(values) < 2 or not np.all((values >= 1800_01_01) & (values <= 2200_12_31)):
        return None
    if np.any(values != np.floor(values)):
        return None
    texts = [f"{value // 10_000:04}-{value // 100 % 100:02}-{value % 100:02}" for value in values.astype(int)]
    return _iso_seconds(texts)


def _from_objects(array: NDArray[Any]) -> NDArray[Any]:
    """Dates and durations of Python, pandas and cftime as those of numpy; other objects unchanged."""
    present = [v for v in array.flat if not _is_missing(v)]
    kinds = {type(v) for v in present}
    if not kinds:
        return array
    if all(issubclass(kind, (date, np.datetime64)) for kind in kinds):
        # A date without a time zone beside others with one may be hours from where it would be put.
        if len({getattr(v, "tzinfo", None) is None for v in present}) > 1:
            return array
        return np.array([_universal(v) for v in array.flat], dtype="datetime64[us]").reshape(array.shape)
    if all(hasattr(kind, "calendar") and hasattr(kind, "__sub__") for kind in kinds):  # cftime
        array = np.array([v - array.flat[0] for v in array.flat], dtype=object).reshape(array.shape)
        kinds = {timedelta}
    if all(issubclass(kind, (timedelta, np.timedelta64)) for kind in kinds):
        durations = [np.timedelta64("NaT") if _is_missing(v) else v for v in array.flat]
        return np.array(durations, dtype="timedelta64[us]").reshape(array.shape)
    return array


def _is_missing(value: Any) -> bool:
    """Whether a value is None, NaN, NaT or pandas' NA."""
    try:
        return value is None or bool(value != value)
    except TypeError:  # NA is neither equal nor unequal to itself
        return True
    except ValueError:  # an array in a cell, whose comparison gives no single truth value
        return False


def _universal(value: Any) -> Any:
    """A date in universal time and without its time zone, which numpy does not know."""
    if _is_missing(value):
        return np.datetime64("NaT")
    if isinstance(value, datetime) and value.tzinfo is not None:
        value = value.astimezone(UTC).replace(tzinfo=None)
    return np.datetime64(value)


def time_column(names: Iterable[str]) -> str | None:
    """The name that is most surely that of a column of times; None if there is none."""
    ranked = sorted((rank, name) for name in names if (rank := _rank(name)) is not None)
    return ranked[0][1] if ranked else None


def _rank(name: str) -> tuple[int, bool] | None:
    """The rank of a name among those of columns of times, the surest first; None if it is not one of them.

    T, and t with a unit that is not one of time, may be a temperature; they come after all other names.
    """
    word = word_of_time(name)
    if word not in _NAMES:
        return None
    # T is the temperature in chemistry and engineering, and "t [m]" a thickness.
    if word == "t":
        unit = re.search(r"[\(\[{/]\s*([^\)\]}]*)", name)
        other_unit = unit is not None and not re.fullmatch(_UNITS, unit[1].strip().lower())
        capital = name.strip().startswith("T")
        if capital and other_unit:
            return None
        if capital or other_unit:
            return len(_NAMES), capital
    return _NAMES.index(word), name != word


def word_of_time(name: str) -> str:
    """The name of a column without its unit: "Time (s)" and "time_ms" become "time", "t [h]" becomes "t"."""
    plain = re.sub(r"[\(\[{/].*$", "", name.strip().lower()).strip()
    plain = re.sub(rf"[_ .]{_UNITS}$", "", plain)
    return plain[:-1] if plain.endswith("s") and plain[:-1] in _NAMES and len(plain) > 2 else plain


def unit_in_name(name: str) -> str:
    """The unit of time at the end of the name of a column, "ms" for "Time (ms)"; "" if there is none.

    >>> unit_in_name("Time (ms)"), unit_in_name("t_h"), unit_in_name("time")
    ('ms', 'h', '')
    """
    match = re.search(rf"[\(\[{{/_ .]\s*{_UNITS}\s*[\)\]}}]?\s*$", name.strip(), flags=re.I)
    if match is not None:
        return match[1]
    word = name.strip().lower().rstrip("s")
    return word if word in ("year", "month", "week", "day", "hour", "minute", "second") else ""
