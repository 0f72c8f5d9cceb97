"""The tables of the reproduction page: every method at one noise level, and the authors' own figures."""

from collections.abc import Sequence

import numpy as np

from benchmarks.paper.methods import METHODS

__all__ = ["AUTHORS", "FRONT_NOISE", "anchors_table", "front_table"]

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
    no part a dash; a star marks tuned values at an end of their range. The last column has the
    repetitions and the version of the library that ran them, by form where these differ.
    """
    clock: dict[tuple[str, str], list[float]] = {}
    for row in seconds:
        if float(row["noise"]) == FRONT_NOISE:
            clock.setdefault((row["method"], row["formulation"]), []).append(float(row["seconds"]))
    lines = [
        "| method | " + " | ".join(f"{head}: E_R/η | terms | s" for head in GROUPS) + " | repetitions |",
        "|---|" + "--:|:-:|--:|" * len(GROUPS) + ":-:|",
    ]
    for name, method in METHODS.items():
        cells, counts = [], []
        for group in GROUPS.values():
            own = [f for f in group if f in method.formulations] or [group[0]]
            mine = [row for row in rows if _at_front(row, name, own[0])]
            cells.append(_cells(mine, clock.get((name, own[0]), [np.nan])))
            counts += [_repetitions(mine)] if mine else []
        cells.append(" / ".join(dict.fromkeys(counts)))
        lines.append(f"| {method.label} | " + " | ".join(cells) + " |")
    return "\n".join(lines) + "\n"


def _at_front(row: Record, method: str, formulation: str) -> bool:
    own = row["method"] == method and row["formulation"] == formulation
    return own and float(row["noise"]) == FRONT_NOISE


def _repetitions(mine: Sequence[Record]) -> str:
    versions = sorted({row["version"] for row in mine})
    return f"{len(mine)} ({', '.join(versions)})"


def _cells(mine: Sequence[Record], spent: Sequence[float]) -> str:
    if not mine:
        return "– | – | –"
    good = [r for r in mine if not r["error"]]
    if not good:
        return "failed | | "
    error = float(np.median([float(r["recovery"]) for r in good])) / FRONT_NOISE
    extra, missing = (float(np.median([int(r[k]) for r in good])) for k in ("extra", "missing"))
    star = "\\*" if any(r["edge"] for r in good) else ""
    return f"{error:.3g}{star} | {_terms(extra, missing)} | {float(np.median(spent)):.2f}"


def _terms(extra: float, missing: float) -> str:
    return "exact" if extra == missing == 0 else f"+{extra:g}\N{NO-BREAK SPACE}−{missing:g}"


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
