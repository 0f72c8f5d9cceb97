"""Run sections by name; all of them without one. A section is a module here with a function `run`.

Sections of many cells take a subset: `python -m benchmarks chaotic --noise 0.1 --seeds 0 --names Lorenz`.
"""

import sys
import time
from collections.abc import Callable
from importlib import import_module
from inspect import signature
from pathlib import Path

from threadpoolctl import threadpool_limits

from benchmarks.cells import Subset, subset_of


def sections() -> list[str]:
    """Names of the modules that define `run`, found without importing them: some need heavy peers."""
    files = sorted(Path(__file__).parent.glob("*.py"))
    return [file.stem for file in files if "\ndef run(" in file.read_text(encoding="utf-8")]


def main(arguments: list[str]) -> int:
    known = sections()
    at = next((i for i, one in enumerate(arguments) if one.startswith("--")), len(arguments))
    subset = subset_of(arguments[at:])
    for name in arguments[:at] or known:
        if name not in known:
            print(f'no section "{name}"; there are: {", ".join(known)}.', file=sys.stderr)
            return 2
        print(f"== {name}", flush=True)
        began = time.perf_counter()
        with threadpool_limits(1):
            _run(import_module(f"benchmarks.{name}").run, subset)
        print(f"   {time.perf_counter() - began:.0f} s", flush=True)
    return 0


def _run(section: Callable[..., None], subset: Subset) -> None:
    if signature(section).parameters:
        section(subset)
    else:
        section()


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
