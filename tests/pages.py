"""Pages of documentation as programs: their code runs, and what it prints is compared with what they show.

A block ```python runs in the page's one namespace, and the lines of a block ```bash that begin with "cindy"
run as commands; a block ```text right after shows the output. `make outputs` lets the tests write outputs and
pictures into the pages, to be looked at and committed. What several pages fit is fitted once in a process.
"""

import contextlib
import hashlib
import io
import os
import pickle
import re
import shlex
import shutil
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any
from unittest import mock

ROOT = Path(__file__).parent.parent
IMAGES = ROOT / "docs" / "images"
UPDATE = bool(os.environ.get("CINDY_UPDATE_DOCS"))

BLOCK = re.compile(r"^```(python|bash)\n(.*?)^```\n(\n*```text\n.*?^```\n)?", re.MULTILINE | re.DOTALL)
NUMBER = re.compile(r"(?P<value>\d+(?:\.(?P<decimals>\d+))?)(?:\((?P<error>\d+)\))?(?:e(?P<power>[+-]?\d+))?")
EFFORT = re.compile(r"\d+ iterations|[\d.]+ s\b")
LONG = ("cindy reproduce", "cindy bench")
WATCHING = ("callback", "progress")
FITS: dict[bytes, Any] = {}


def executed(text: str) -> str:
    """The page with every output as its code prints it now, run in the folder that is the current one."""
    namespace: dict[str, object] = {"__name__": "__main__"}

    def run(block: re.Match[str]) -> str:
        kind, source, shown = block.groups()
        output = _python(source, namespace) if kind == "python" else _commands(source)
        head = f"```{kind}\n{source}```\n"
        if shown is None:
            return head
        lines = "\n".join(line.rstrip() for line in output.strip("\n").splitlines())
        return f"{head}\n```text\n{lines}\n```\n"

    import cindy

    with mock.patch.object(cindy, "identify", once(cindy.identify)):
        return BLOCK.sub(run, text)


def once(identify: Callable[..., Any]) -> Callable[..., Any]:
    """`identify` that gives the model it gave before where data and options are equal, byte by byte."""

    def fit(*given: Any, **options: Any) -> Any:
        asked = {name: value for name, value in options.items() if name not in WATCHING}
        try:
            key = hashlib.sha256(pickle.dumps((given, asked))).digest()
        except (pickle.PicklingError, AttributeError, TypeError):  # functions of the page
            return identify(*given, **options)
        if key not in FITS:
            FITS[key] = identify(*given, **options)
        return FITS[key]

    return fit


def same(now: str, shown: str) -> bool:
    """Whether two texts agree, their numbers to one unit of the last digit shown, or to six digits.

    Results repeat to rounding, so a digit changes only where it was on the edge: 0.641(9) may become 0.64(1).
    Effort is not compared, nor what is rounding itself.
    """
    now, shown = (EFFORT.sub("some", text) for text in (now, shown))
    if NUMBER.sub("#", now) != NUMBER.sub("#", shown):
        return False
    return all(map(_close, NUMBER.finditer(now), NUMBER.finditer(shown)))


def _close(a: re.Match[str], b: re.Match[str]) -> bool:
    if a[0].isdigit() or b[0].isdigit():  # a count
        return a[0] == b[0]
    units = [10.0 ** (int(m["power"] or 0) - len(m["decimals"] or "")) for m in (a, b)]
    one, two = (float(f"{m['value']}e{m['power'] or 0}") for m in (a, b))
    errors = [float(m["error"] or 0) * unit for m, unit in zip((a, b), units, strict=True)]
    slack = 1.01 * max(units)
    return abs(one - two) <= max(slack, 1e-6 * two, 1e-12) and abs(errors[0] - errors[1]) <= slack


def keep_pictures(folder: Path) -> None:
    """Bring the pictures that code has just made to the documentation."""
    IMAGES.mkdir(exist_ok=True)
    for picture in folder.glob("*.png"):
        shutil.copy(picture, IMAGES)


def _python(code: str, namespace: dict[str, object]) -> str:
    import matplotlib

    matplotlib.use("agg")
    from matplotlib import pyplot

    output = io.StringIO()
    with contextlib.redirect_stdout(output):
        exec(compile(code, "<a block of the page>", "exec"), namespace)
    pyplot.close("all")
    return output.getvalue()


def _commands(code: str) -> str:
    """What the commands print; the long ones only have to exist.

    They run in this process: starting Python anew takes longer than most of them.
    """
    output = ""
    for line in code.replace("\\\n", " ").splitlines():
        if line.startswith("cindy "):
            words = shlex.split(line, comments=True)
            long = line.startswith(LONG)
            printed = _command([*words[:2], "--help"] if long else words)
            output += "" if long else printed
    return output


def _command(words: list[str]) -> str:
    from cindy.cli.app import main

    output, errors, status = io.StringIO(), io.StringIO(), None
    with (
        mock.patch.object(sys, "argv", words),
        mock.patch.dict(os.environ, {"COLUMNS": "100"}),
        contextlib.redirect_stdout(output),
        contextlib.redirect_stderr(errors),
    ):
        try:
            main()
        except SystemExit as end:
            status = end.code
    assert not status, f"{shlex.join(words)}\n{errors.getvalue()}"
    return output.getvalue()
