"""Figures measured with the authors' own code, and this library's under the same noise."""

from collections.abc import Sequence

import numpy as np

__all__ = ["AUTHORS", "anchors_table"]

Record = dict[str, str]

AUTHORS = {
    "kuramoto5": (1.2e-3, 9.0e-4, 5.7e-4, 4.3e-4),
    "fput5": (3.1, 7.7, 1.9, 5.9),
    "michaelis": (1.4e-4, 8.8e-5, 1.2e-4, 4.3e-5),
}
"""E_R at η = 1e-4, one seed: differential and integral form, then both with constraints."""
FORMS = ("differential", "integral", "differential (c)", "integral (c)")


def anchors_table(rows: Sequence[Record], seconds: Sequence[Record]) -> str:
    """Markdown: a line for each system, without and with constraints; median and worst of the repetitions."""
    lines = [
        "| system | their E_R: "
        + " | ".join(FORMS)
        + " | this library | E_R, median | worst | exact terms | s "
        "| times below their best: median | worst |",
        "|---|" + "--:|" * len(FORMS) + "---|--:|--:|:-:|--:|--:|--:|",
    ]
    for system, theirs in AUTHORS.items():
        for method, label in (("default", "defaults"), ("default-c", "with constraints")):
            mine = [r for r in rows if _is(r, system, method) and not r["error"]]
            if not mine:
                continue
            errors = np.array([float(r["recovery"]) for r in mine])
            exact = sum(r["extra"] == r["missing"] == "0" for r in mine)
            spent = np.median([float(r["seconds"]) for r in seconds if _is(r, system, method)])
            best = min(theirs)
            cells = [
                *(f"{e:.2g}" for e in theirs),
                label,
                f"{np.median(errors):.2g}",
                f"{errors.max():.2g}",
                f"{exact} of {len(mine)}",
                f"{spent:.2f}",
                f"{best / np.median(errors):.3g}",
                f"{best / errors.max():.3g}",
            ]
            lines.append(f"| {system} | " + " | ".join(cells) + " |")
    return "\n".join(lines) + "\n"


def _is(row: Record, system: str, method: str) -> bool:
    return row["system"] == system and row["method"] == method and row["formulation"] == "free"
