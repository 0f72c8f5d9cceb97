"""Timing on one thread, and tables as csv and markdown: read, extended by a row, written whole."""

import csv
import errno
import gc
import io
import os
import platform
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any, BinaryIO

from cindy._files import make_folder, write_text
from cindy.errors import DataError

__all__ = ["RESULTS", "alone", "append_row", "best_of", "mend", "read_table", "shown", "write", "write_table"]

RESULTS = Path(__file__).parent / "results"


def best_of(action: Callable[[], Any], *, times: int = 3, enough: float = 2.0) -> tuple[float, Any]:
    """Least processor time of a few calls, and what the last returned; one call if that takes long.

    Processor time: everything here runs on one thread, and other programs on
    the machine then do not count.
    """
    least, result = float("inf"), None
    spent = 0.0
    for _ in range(times):
        gc.collect()
        began = time.process_time()
        result = action()
        taken = time.process_time() - began
        least, spent = min(least, taken), spent + taken
        if spent > enough:
            break
    return least, result


def write(
    name: str,
    title: str,
    rows: list[dict[str, Any]],
    notes: str = "",
    *,
    show: bool = True,
    folder: Path = RESULTS,
    how: str = "one thread, processor time",
) -> None:
    """Write rows to results/name.csv and results/name.md, and show the table; nothing without rows.

    how: what was measured, for the last line, which names the machine
    """
    if not rows:
        return
    columns = list(dict.fromkeys(key for row in rows for key in row))
    write_table(folder / f"{name}.csv", columns, rows)
    lines = [f"# {title}", ""]
    if notes:
        lines += [notes, ""]
    lines += ["| " + " | ".join(columns) + " |", "|" + "---|" * len(columns)]
    lines += ["| " + " | ".join(_text(row.get(c, "")) for c in columns) + " |" for row in rows]
    lines += ["", f"{platform.machine()}, Python {platform.python_version()}, {how}."]
    (folder / f"{name}.md").write_text("\n".join(lines) + "\n")
    if show:
        print("\n".join(lines[2:]), flush=True)


def shown(value: Any) -> str:
    """A value as it stands in a table; six digits hide the last bits, in which machines differ."""
    return f"{value:.6g}" if isinstance(value, float) else str(value)


def read_table(path: Path) -> list[dict[str, str]]:
    """The rows of a table as text; none where there is no file."""
    if not path.exists():
        return []
    with path.open(newline="", encoding="utf-8") as file:
        return list(csv.DictReader(file))


def write_table(path: Path, columns: Sequence[str], rows: Iterable[Mapping[str, Any]]) -> Path:
    """Write all rows, whole or not at all."""
    make_folder(path.parent)
    write_text(path, _lines(columns, rows, header=True), "a table of results")
    return path


def append_row(path: Path, columns: Sequence[str], row: Mapping[str, Any]) -> None:
    """Add one row, after the names of the columns where the file is new."""
    make_folder(path.parent)
    try:
        fresh = not path.exists() or path.stat().st_size == 0
        # One write for one row: a run that is killed leaves a whole one, or a last line without its end.
        with path.open("ab") as file:
            file.write(_lines(columns, [row], header=fresh).encode("utf-8"))
    except OSError as error:
        raise DataError(f"Cannot write to {path}: {error.strerror or error}.") from error


def mend(path: Path) -> None:
    """Drop a last line that a killed run left half written."""
    if path.exists():
        text = path.read_text(encoding="utf-8")
        if text and not text.endswith("\n"):
            path.write_text(text[: text.rfind("\n") + 1], encoding="utf-8")


def _lines(columns: Sequence[str], rows: Iterable[Mapping[str, Any]], *, header: bool) -> str:
    text = io.StringIO()
    writer = csv.DictWriter(text, columns, lineterminator="\n")
    if header:
        writer.writeheader()
    writer.writerows({key: shown(value) for key, value in row.items()} for row in rows)
    return text.getvalue()


def _text(value: Any) -> str:
    return f"{value:.3g}" if isinstance(value, float) else str(value)


@contextmanager
def alone(path: Path) -> Iterator[None]:
    """While the block lasts no other process enters it for the same file; a second one is refused at once.

    The lock is the system's own, on a file beside `path`, and ends with the process however that ends.
    """
    lock = path.with_name(f".{path.name}.lock")
    try:
        stream = lock.open("ab")
    except OSError as error:
        raise DataError(f"Cannot write to {path.parent}: {error.strerror or error}.") from error
    with stream:
        if not _locked(stream) or not _same(stream, lock):
            raise DataError(f"Another run is writing to {path}. Wait for it, or choose another folder.")
        try:
            yield
        finally:
            lock.unlink(missing_ok=True)


def _same(stream: BinaryIO, lock: Path) -> bool:
    """Whether others would open the same file: who held it before may just have removed it."""
    try:
        return os.path.samestat(os.fstat(stream.fileno()), lock.stat())
    except FileNotFoundError:
        return False


def _locked(stream: BinaryIO) -> bool:
    """Whether this process holds the lock now; True where the system has no locks."""
    try:
        import fcntl
    except ImportError:  # not a Unix
        return True
    try:
        fcntl.flock(stream, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError as error:
        # A network file system may refuse locks altogether, and then nothing can be told.
        return error.errno not in (errno.EWOULDBLOCK, errno.EACCES)
    return True
