"""Measured benchmarks of nonlinear identification by their official splits, published results beside.

`python -m benchmarks measured --data FOLDER`: the folder holds silverbox, emps, cascaded_tanks, weakident and
sindy_pi, and docs/measured.md says where they are from; `--names silverbox` measures one of them.
"""

from pathlib import Path
from typing import Any

from benchmarks import emps, silverbox, sindy_pi, tanks, weakident
from benchmarks.cells import Subset
from benchmarks.table import write

__all__ = ["run"]

PARTS = (0, 24_000, 48_000)
"""Where parts of Silverbox's training data begin, spread over all of them."""


def run(subset: Subset) -> None:
    """Three machines by free simulation, then SINDy-PI's and WeakIDENT's data by their coefficients."""
    if subset.data is None or not subset.data.is_dir():
        raise SystemExit(
            "--data: name the folder that holds silverbox, emps, cascaded_tanks, weakident, sindy_pi."
        )
    machines = {"silverbox": _silverbox, "emps": _emps, "tanks": _tanks}
    sets = (*weakident.SYSTEMS, *weakident.FIELDS, "weakident")
    unknown = [n for n in subset.names if n not in (*machines, *sets, "sindy_pi")]
    if unknown:
        raise SystemExit(
            f"--names: no {unknown[0]!r} here; there are: {', '.join(machines)}, weakident, sindy_pi."
        )
    rows: list[dict[str, Any]] = []
    for name, measure in machines.items():
        if not subset.names or name in subset.names:
            rows += measure(subset.data)
    if rows:
        write(
            "measured",
            "Measured benchmarks",
            rows,
            "Root mean square of free simulations on the official test parts. Silverbox: multisine / arrow / "
            "arrow without extrapolation, the law from 2,048 of 65,062 training samples. "
            "Published: arXiv 2405.10779.",
            folder=subset.out,
        )
    if not subset.names or "sindy_pi" in subset.names:
        sindy_pi.compare(subset, subset.data / "sindy_pi")
    if not subset.names or set(subset.names) & set(sets):
        weakident.compare(subset, subset.data / "weakident")


def _silverbox(folder: Path) -> list[dict[str, Any]]:
    rows = []
    for offset in PARTS:
        first = silverbox.TRAINING[0] + offset
        got = silverbox.measure(folder / "silverbox", first)
        errors = " / ".join(f"{size:.2f}" for size in got["errors"])
        rows.append(_row(f"Silverbox, from sample {first}", f"{errors} mV", got, silverbox.PUBLISHED))
    return rows


def _emps(folder: Path) -> list[dict[str, Any]]:
    got = emps.measure(folder / "emps")
    return [_row("EMPS", f"{got['test mm']:.2f} mm", got, emps.PUBLISHED)]


def _tanks(folder: Path) -> list[dict[str, Any]]:
    got = tanks.measure(folder / "cascaded_tanks")
    published = "linear 0.588, NARX 0.413, CT-SUBNET 0.306, physics with overflow 0.191"
    return [_row("cascaded tanks", f"{got['test V']:.3f} V", got, published)]


def _row(data: str, error: str, got: Any, published: str) -> dict[str, Any]:
    law = "; ".join(str(got["law"]).splitlines()).replace("|", "\\|")
    return {"data": data, "error": error, "published": published, "s": got["seconds"], "law": law}
