"""cindy reproduce and cindy bench: the experiments of the paper, and the measurements of this library."""

import runpy
import sys
from collections.abc import Sequence
from pathlib import Path

import numpy as np
import typer

from cindy._extras import require
from cindy.cli import screen
from cindy.cli.texts import number, whole
from cindy.errors import DataError

__all__ = ["levels", "run_bench", "run_reproduce"]


def run_reproduce(
    experiment: str,
    repetitions: int | None,
    noise: str | None,
    out: Path | None,
    *,
    quick: bool,
    processes: int,
) -> None:
    """Repeat one experiment of the paper."""
    folder = _checkout("reproduce", "experiments of the paper")
    experiments = require("benchmarks.paper", "bench", "cindy reproduce")
    with screen.bar(f"Reproducing {experiment}") as progress:
        files = experiments.reproduce(
            experiment,
            out=out or folder / "benchmarks" / "results" / "paper",
            repetitions=repetitions,
            noise=None if noise is None else levels(noise),
            quick=quick,
            processes=processes,
            progress=progress,
        )
    screen.show_files([(Path(file), "") for file in files])
    failed = experiments.failures([Path(file) for file in files])
    if failed:
        screen.show_failures(failed)
        raise typer.Exit(1)


def levels(text: str) -> tuple[float, ...]:
    """Levels of noise as "lowest:highest:count", evenly spaced in the logarithm, or with commas.

    >>> levels("1e-4:1e-2:3")
    (0.0001, 0.001, 0.01)
    """
    if ":" not in text:
        return tuple(number(part, "--noise") for part in text.split(","))
    parts = text.split(":")
    if len(parts) != 3:
        raise DataError(f'--noise: expected "lowest:highest:count", as in "1e-8:1e-2:13", but got "{text}".')
    low, high, count = number(parts[0], "--noise"), number(parts[1], "--noise"), whole(parts[2], "--noise")
    if not (0 < low <= high and 1 <= count <= 1000):
        raise DataError(f'--noise: "{text}" needs 0 < lowest ≤ highest and a count from 1 to 1000.')
    # Rounded, so that a level is the same number however it was typed, and finished work is found again.
    return tuple(float(f"{level:.6g}") for level in np.geomspace(low, high, count))


def run_bench(sections: Sequence[str]) -> None:
    """Run the benchmarks of the checkout."""
    _checkout("bench", "benchmarks")
    sys.argv = ["benchmarks", *sections]
    runpy.run_module("benchmarks", run_name="__main__")


def _checkout(command: str, what: str) -> Path:
    """The checkout that the current folder lies in, and from now on the place of the package `benchmarks`."""
    here = Path.cwd()
    for folder in (here, *here.parents):
        if (folder / "benchmarks" / "paper").is_dir() and (folder / "src" / "cindy").is_dir():
            sys.path.insert(0, str(folder))
            return folder
    raise DataError(
        f"{command}: the {what} are part of the repository and not of the installed package, so clone the "
        'repository, run pip install -e ".[bench]" in it and repeat this command there.'
    )
