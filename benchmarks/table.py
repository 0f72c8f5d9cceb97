"""Timing on one thread, and tables as csv and markdown."""

import csv
import gc
import platform
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

__all__ = ["RESULTS", "best_of", "write"]

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
    folder.mkdir(parents=True, exist_ok=True)
    columns = list(dict.fromkeys(key for row in rows for key in row))
    with (folder / f"{name}.csv").open("w", newline="") as file:
        writer = csv.DictWriter(file, columns)
        writer.writeheader()
        writer.writerows(rows)
    lines = [f"# {title}", ""]
    if notes:
        lines += [notes, ""]
    lines += ["| " + " | ".join(columns) + " |", "|" + "---|" * len(columns)]
    lines += ["| " + " | ".join(_text(row.get(c, "")) for c in columns) + " |" for row in rows]
    lines += ["", f"{platform.machine()}, Python {platform.python_version()}, {how}."]
    (folder / f"{name}.md").write_text("\n".join(lines) + "\n")
    if show:
        print("\n".join(lines[2:]), flush=True)


def _text(value: Any) -> str:
    return f"{value:.3g}" if isinstance(value, float) else str(value)
