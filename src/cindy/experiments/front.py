"""The table at the front of the reproduction page: every method of a system at one level of noise."""

from collections.abc import Sequence

import numpy as np

from cindy.experiments.methods import METHODS

__all__ = ["FRONT_NOISE", "front_table"]

Record = dict[str, str]

FRONT_NOISE = 1e-4
GROUPS = {
    "differential form": ("differential",),
    "integral form": ("integral",),
    "free initial state, or weak": ("free", "weak"),
}
"""The columns: no method takes part in both formulations of the last."""


def front_table(rows: Sequence[Record], seconds: Sequence[Record]) -> str:
    """Markdown: E_R/η, S_E + S_M, and seconds, medians over the repetitions, a line for each method.

    Methods that failed in every repetition show the word "failed", those that took
    no part a dash; a star marks tuned values at an end of their range.
    """
    clock: dict[tuple[str, str], list[float]] = {}
    for row in seconds:
        if float(row["noise"]) == FRONT_NOISE:
            clock.setdefault((row["method"], row["formulation"]), []).append(float(row["seconds"]))
    lines = [
        "| method | " + " | ".join(f"{head}: E_R/η | terms | s" for head in GROUPS) + " |",
        "|---|" + "--:|:-:|--:|" * len(GROUPS),
    ]
    for name, method in METHODS.items():
        cells = []
        for group in GROUPS.values():
            own = [f for f in group if f in method.formulations] or [group[0]]
            cells.append(_cells(rows, clock, name, own[0]))
        lines.append(f"| {method.label} | " + " | ".join(cells) + " |")
    return "\n".join(lines) + "\n"


def _cells(
    rows: Sequence[Record],
    clock: dict[tuple[str, str], list[float]],
    name: str,
    formulation: str,
) -> str:
    mine = [
        r for r in rows
        if r["method"] == name and r["formulation"] == formulation and float(r["noise"]) == FRONT_NOISE
    ]  # fmt: skip
    if not mine:
        return "– | – | –"
    good = [r for r in mine if not r["error"]]
    if not good:
        return "failed | | "
    error = float(np.median([float(r["recovery"]) for r in good])) / FRONT_NOISE
    extra, missing = (float(np.median([int(r[k]) for r in good])) for k in ("extra", "missing"))
    star = "\\*" if any(r["edge"] for r in good) else ""
    spent = float(np.median(clock.get((name, formulation), [np.nan])))
    return f"{error:.3g}{star} | {_terms(extra, missing)} | {spent:.2f}"


def _terms(extra: float, missing: float) -> str:
    return "exact" if extra == missing == 0 else f"+{extra:g}\N{NO-BREAK SPACE}−{missing:g}"
