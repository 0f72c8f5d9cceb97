"""Small tables of results: csv in, csv out, whole or not at all."""

import csv
import io
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from cindy._files import make_folder, write_text

__all__ = ["read_table", "shown", "write_table"]


def shown(value: Any) -> str:
    """A value as it stands in a table; six digits hide the last bits, in which machines differ."""
    return f"{value:.6g}" if isinstance(value, float) else str(value)


def read_table(path: Path) -> list[dict[str, str]]:
    """The rows of a table as text; none where there is no file."""
    if not path.exists():
        return []
    with path.open(newline="", encoding="utf-8") as file:
        return list(csv.DictReader(file))


def write_table(path: Path, columns: Sequence[str], rows: Sequence[Mapping[str, Any]]) -> Path:
    """Write all rows, whole or not at all."""
    make_folder(path.parent)
    text = io.StringIO()
    writer = csv.DictWriter(text, columns, lineterminator="\n")
    writer.writeheader()
    writer.writerows({k: shown(v) for k, v in row.items()} for row in rows)
    write_text(path, text.getvalue(), "a table of results")
    return path
