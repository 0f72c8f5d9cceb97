"""cindy reproduce and cindy bench: the experiments of the paper, and the measurements of this library."""

import runpy
import sys
from collections.abc import Sequence
from importlib.util import find_spec
from pathlib import Path

from cindy.errors import DataError

__all__ = ["run_bench", "run_reproduce"]


def run_reproduce(experiment: str, repetitions: int | None, noise: str | None, out: Path) -> None:
    """Repeat one experiment of the paper."""
    raise DataError("reproduce: not there yet.")


def run_bench(sections: Sequence[str]) -> None:
    """Run the benchmarks of the checkout in the current folder."""
    sys.path.insert(0, str(Path.cwd()))
    if not Path("benchmarks", "__main__.py").is_file() or find_spec("benchmarks") is None:
        raise DataError(
            "bench: the benchmarks are part of the repository, not of the installed package. "
            "Run this in a checkout."
        )
    sys.argv = ["benchmarks", *sections]
    runpy.run_module("benchmarks", run_name="__main__")
