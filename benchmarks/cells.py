"""Cells of a large table: measured one by one, kept as they come, and not measured twice."""

import csv
import tempfile
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field, fields
from pathlib import Path
from typing import Any

from benchmarks.table import RESULTS, append_row, mend, read_table, shown, write_table

__all__ = ["Subset", "measured", "subset_of"]

Row = dict[str, Any]


def _default_cache() -> Path:
    return Path(tempfile.gettempdir(), "cindy-benchmarks")


@dataclass(frozen=True)
class Subset:
    """What part of a section to run; empty means all of it.

    anew: measure cells again that are in the table
    write: keep what was measured as what later runs are compared with
    size: how many data sets of each kind; 0 for all
    out: the folder of the tables
    cache: the folder that keeps simulations from one run to the next
    data: the folder of measured data that cannot be part of this repository
    """

    names: tuple[str, ...] = ()
    methods: tuple[str, ...] = ()
    noise: tuple[float, ...] = ()
    seeds: tuple[int, ...] = ()
    anew: bool = False
    write: bool = False
    size: int = 0
    out: Path = RESULTS
    cache: Path = field(default_factory=_default_cache)
    data: Path | None = None

    def pick(self, of: str, known: Sequence[Any]) -> list[Any]:
        """Those of `known` that were asked for; seeds may be any."""
        asked = getattr(self, of)
        if of == "seeds":
            return list(asked or known)
        strangers = [one for one in asked if one not in known]
        if strangers:
            raise SystemExit(f"--{of}: no {strangers[0]!r} here; there are: {', '.join(map(str, known))}.")
        return [one for one in known if not asked or one in asked]


def subset_of(options: Sequence[str]) -> Subset:
    """The subset that options describe, as --names a,b --noise 0.1 --seeds 0,1 --size 2 --out F --anew."""
    kinds: dict[str, Callable[[str], Any]] = {"names": str, "methods": str, "noise": float, "seeds": int}
    given: dict[str, Any] = {}
    rest = list(options)
    while rest:
        option = rest.pop(0).removeprefix("--")
        if option in ("anew", "write"):
            given[option] = True
        elif option == "size" and rest:
            given[option] = int(rest.pop(0))
        elif option in kinds and rest:
            given[option] = tuple(kinds[option](part.strip()) for part in rest.pop(0).split(","))
        elif option in ("out", "cache", "data") and rest:
            given[option] = Path(rest.pop(0))
        else:
            known = ", ".join(f"--{one.name}" for one in fields(Subset))
            raise SystemExit(f"--{option}: not an option, or its value is missing; there are: {known}.")
    return Subset(**given)


def measured(
    name: str, cells: Iterable[Row], work: Callable[..., Row], subset: Subset, *, show: bool = True
) -> list[Row]:
    """Every row of out/name.csv, after `work(**cell)` has measured those cells that it lacked.

    A row is appended as soon as it is known, so a run that was stopped goes on
    where it ended, and two runs may fill one table. Where a cell stands twice
    the later row holds.
    """
    path = subset.out / f"{name}.csv"
    cells = list(cells)
    if not cells:
        return _read(path)
    keys = list(cells[0])
    mend(path)
    known = {} if subset.anew else {_key(row, keys): row for row in _read(path)}
    for cell in cells:
        if _key(cell, keys) in known:
            continue
        row = {**cell, **work(**cell)}
        known[_key(cell, keys)] = row
        _append(path, row)
        if show:
            print("   " + ", ".join(f"{key} {_short(value)}" for key, value in row.items()), flush=True)
    last = {_key(row, keys): row for row in _read(path)}
    if len(last) < len(_read(path)):
        rows = list(last.values())
        write_table(path, list(rows[0]), rows)
    return list(last.values())


def _key(row: Row, keys: Sequence[str]) -> tuple[str, ...]:
    return tuple(shown(row.get(key, "")) for key in keys)


def _append(path: Path, row: Row) -> None:
    columns = list(row)
    if path.exists():
        with path.open(newline="") as file:
            columns = next(csv.reader(file))
        if set(columns) != set(row):
            raise SystemExit(f"{path}: its columns are {columns}, not {list(row)}; move it away.")
    append_row(path, columns, row)


def _read(path: Path) -> list[Row]:
    return [{key: _value(text) for key, text in row.items()} for row in read_table(path)]


def _value(text: str) -> Any:
    for kind in (int, float):
        try:
            return kind(text)
        except ValueError:
            continue
    return text


def _short(value: Any) -> str:
    return f"{value:.3g}" if isinstance(value, float) else str(value)
