"""The walk of a datum from a csv file to equations: the modules it visits, and how often it is read."""

import contextlib
import io
import sys
import tempfile
from collections import Counter
from inspect import CO_OPTIMIZED
from pathlib import Path
from types import FrameType
from typing import Any

from cindy.cli import main
from cindy.systems.catalogue import KINETICS

SOURCE = "cindy"


def followed() -> tuple[list[str], Counter[str]]:
    """`cindy fit` on the bundled data, call by call: the modules visited, and who reads the first run."""
    visited: dict[str, None] = {}
    readers: Counter[str] = Counter()
    first: list[object] = []

    def watch(frame: FrameType, event: str, _: Any) -> None:
        # The bodies of classes are no functions: they run as a module is loaded, whatever a datum does.
        if event != "call" or not frame.f_code.co_flags & CO_OPTIMIZED:
            return
        module = frame.f_globals.get("__name__", "")
        if not module.startswith(SOURCE + ".") or module.startswith("cindy.cli"):
            return
        if not frame.f_code.co_name.startswith(("<", "__")):
            visited.setdefault(module)
        if frame.f_code.co_name == "segments":
            one = frame.f_locals.get("self")
            if not first:
                first.append(one)
            # Copies of a trajectory share its times.
            if one is first[0] or getattr(one, "t", None) is getattr(first[0], "t", 0):
                readers[_caller(frame)] += 1

    with tempfile.TemporaryDirectory() as folder:
        before = sys.argv
        sys.argv = ["cindy", "fit", str(KINETICS), "--time", "t", "--by", "run", "--basis", "poly:2"]
        sys.argv += ["--out", str(Path(folder, "model.json"))]
        printed = io.StringIO()
        sys.setprofile(watch)
        try:
            with contextlib.redirect_stdout(printed), contextlib.suppress(SystemExit):
                main()
        finally:
            sys.setprofile(None)
            sys.argv = before
    return list(visited), readers


def run() -> None:
    """Print the modules in the order of the walk, and the readers."""
    visited, readers = followed()
    for number, module in enumerate(visited, start=1):
        print(f"{number:3} {module.removeprefix('cindy.')}")
    print(f"{len(visited)} modules; the samples of the first run are gone through {readers.total()} times:")
    for caller, count in readers.items():
        print(f"    {count} × {caller}")


def _caller(frame: FrameType) -> str:
    """The function that reads, past comprehensions and generators of the same name."""
    above = frame.f_back
    while above is not None and above.f_code.co_name.startswith("<"):
        above = above.f_back
    if above is None:
        return "?"
    return f"{above.f_globals.get('__name__', '').removeprefix('cindy.')}.{above.f_code.co_name}"
