"""The output of the command line: equations, facts, path, warnings, progress; with colours on a terminal."""

from __future__ import annotations

import re
import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import fields
from itertools import pairwise
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from rich.console import Console
from rich.padding import Padding
from rich.progress import (
    BarColumn,
    MofNCompleteColumn,
    Progress,
    SpinnerColumn,
    TextColumn,
    TimeElapsedColumn,
    TimeRemainingColumn,
)
from rich.table import Column, Table
from rich.text import Text

from cindy._check import units_of_time
from cindy.cli.settings import FitSettings
from cindy.findings import leaves_motion
from cindy.model import definitions, difference, facts

if TYPE_CHECKING:
    from cindy.data import Trajectory
    from cindy.model import Model, Path as ModelPath


# Files and pipes have no width, so that lines are not wrapped there.
# Nothing is markup, since names of columns may contain brackets.
out = Console(highlight=False, markup=False, width=None if sys.stdout.isatty() else 10_000)
err = Console(stderr=True, highlight=False, markup=False)

_PATH_ROWS = 11
"""Models in the table of the path: as many as fit on a terminal together with the equations."""
_MOST_FAILURES = 10
"""Failures that are printed; further ones are counted."""
_VALUE = re.compile(r"(?<![\w^(])[-+]?\s?\d[\d.]*(\(\d+\))?(e[-+]?\d+)?(?![\w)])")


def section(title: str) -> None:
    """A heading with a blank line before it."""
    out.print()
    out.print(Text(title, style="bold"))


def plain(line: str | Text | Table) -> None:
    """One indented line, or a table."""
    out.print(Padding.indent(Text(line) if isinstance(line, str) else line, 2))


def columns(*heads: str | Column) -> Table:
    """A table without lines around it."""
    return Table(*heads, box=None, pad_edge=False, header_style="dim", padding=(0, 3, 0, 0))


def show_data(files: Sequence[str], data: Sequence[Trajectory]) -> None:
    """Print which files, trajectories, samples, states and inputs were read."""
    samples = sum(len(run) for run in data)
    missing = sum(int(np.isnan(run.values).any(axis=1).sum()) for run in data)
    begin, end = min(run.t[0] for run in data), max(run.t[-1] for run in data)
    section("Data")
    many = f"{len(data)} trajectories, " if len(data) > 1 else ""
    unit = f" {units_of_time(data[0].time_unit)}" if data[0].time_unit else ""
    plain(f"{', '.join(files)}: {many}{samples:,} samples over t = {begin:g} … {end:g}{unit}")
    states = f"states {', '.join(data[0].states)}"
    inputs = f"; inputs {', '.join(data[0].inputs)}" if data[0].inputs else ""
    plain(states + inputs + (f"; {missing:,} samples with missing values" if missing else ""))


def _show_equations(model: Model) -> None:
    """Print the equations, on a terminal wrapped between terms, elsewhere one per line."""
    section("Equations")
    for line in model.to_text().splitlines():
        left, _, right = line.partition(" = ")
        width = max(20, out.width - len(left) - 6) if out.is_terminal else 10**9
        for k, piece in enumerate(_wrapped(right, width)):
            head = f"{left} = " if k == 0 else " " * (len(left) + 3)
            body = Text(piece)
            body.highlight_regex(_VALUE, "cyan")
            plain(Text.assemble((head, "bold"), body))
    for line in definitions(model):
        plain(f"where {line}")


def _wrapped(text: str, width: int) -> Iterator[str]:
    line = ""
    for term in re.split(r"(?= [+-] )", text):
        if line and len(line) + len(term) > width:
            yield line
            line = ""
        line += term
    yield line


def show_model(model: Model, warnings: Sequence[str] = (), hint: str = "") -> None:
    """Print the equations, the facts about them, the path, and last the warnings and notes.

    warnings: further ones, of the run itself; hint: printed after warnings, and where random kicks
        drive a state
    """
    _show_equations(model)
    _show_facts(model)
    _show_path(model)
    own = [finding.message for finding in model.findings if not finding.note]
    sentences = list(dict.fromkeys([*warnings, *own]))
    out.print()
    show_warnings(sentences)
    if not sentences:
        plain("No warnings.")
    # A switched input that was taken for a state looks like random kicks.
    if hint and (sentences or leaves_motion(model.findings)):
        _say("Hint: ", "bold", hint)
    for finding in model.findings:
        if finding.note:
            _say("Note: ", "bold", finding.message)


def show_near(model: Model) -> None:
    """Print the models that explain the data almost as well, and how each differs from the best."""
    if len(model.near) < 2:
        alone = "No other model is nearly as good." if len(model.near) else "The file has no near models."
        plain(alone)
        return
    section("Models near the best")
    right = (Column(name, justify="right") for name in ("worse by", "terms"))
    table = columns(*right, "compared with the best")
    for other, above in zip(model.near, model.near.scores, strict=True):
        change = difference(model.near[0], other, 3) or ("other values" if above else "the best")
        table.add_row(f"{above:.1f}", str(other.size), change)
    plain(table)
    plain(Text(f"worse by: {model.near.criterion}", "dim"))


def _show_path(model: Model) -> None:
    """Print the compared models around the chosen one, and what each adds to the one before."""
    path = model.path
    rows = _distinct(path)
    if len(rows) < 2:
        return
    shown = f", {_PATH_ROWS} shown" if len(rows) > _PATH_ROWS else ""
    section(f"Path ({len(rows)} models compared{shown})")
    middle = rows.index(path.chosen) if path.chosen is not None else len(rows) - 1
    # A window around the chosen model, moved inwards at the ends.
    first = max(0, min(middle - _PATH_ROWS // 2, len(rows) - _PATH_ROWS))
    right = (Column(name, justify="right") for name in ("terms", "score"))
    table = columns(Column(width=1), *right, "compared with the row above")
    places = range(first, min(first + _PATH_ROWS, len(rows)))
    scores = _distinguishable([path.scores[rows[place]] for place in places])
    for place in places:
        k = rows[place]
        candidate, mark = path[k], "●" if k == path.chosen else ""
        change = difference(path[rows[place - 1]], candidate, 3) if place else ""
        style = "bold green" if k == path.chosen else ""
        table.add_row(mark, str(candidate.size), scores[place - first], change, style=style)
    plain(table)
    if path.criterion:
        plain(Text(f"score: {path.criterion}", "dim"))


def _distinguishable(scores: Sequence[float]) -> list[str]:
    """The scores with at least four digits, and as many as different neighbours need to look different."""
    for digits in range(4, 13):
        shown = [f"{score:.{digits}g}" for score in scores]
        if all(a != b or x == y for (a, x), (b, y) in pairwise(zip(shown, scores, strict=True))):
            break
    return shown


def _distinct(path: ModelPath) -> list[int]:
    """Places on the path, each support once: under constraints several numbers of terms may give the same."""
    places: list[int] = []
    for k, candidate in enumerate(path):
        if places and np.array_equal(candidate.support, path[places[-1]].support):
            places[-1] = k if k == path.chosen else places[-1]
        else:
            places.append(k)
    return places


def _show_facts(model: Model) -> None:
    """Print the facts about a model: fit, terms, noise, constraints and search."""
    section("How sure")
    table = Table.grid(padding=(0, 2))
    table.add_column(style="dim", no_wrap=True)
    table.add_column()
    for name, text in facts(model):
        table.add_row(name, as_typed(text))
    plain(table)


def show_warnings(sentences: Sequence[str]) -> None:
    """Print warnings on the error stream."""
    for sentence in sentences:
        _say("Warning: ", "bold yellow", sentence)


def show_error(sentence: str) -> None:
    """Print why a command failed."""
    _say("Error: ", "bold red", sentence)


def _say(head: str, style: str, sentence: str) -> None:
    """Print on the error stream, on a terminal wrapped between words, elsewhere on one line."""
    err.print(Text.assemble((head, style), as_typed(sentence)), soft_wrap=not err.is_terminal)


_FORMULATION = re.compile(
    r"`?(?:formulation=)?`?(Integral|Differential|Discrete|Weak)\((?:order=(\d))?(?:, (rates)=True)?\)`?"
)


def as_typed(sentence: str) -> str:
    """A sentence of the library in terms of options: --time for `time`, --passes 1 for passes=1."""
    names = "|".join((*(setting.name for setting in fields(FitSettings)), "x0", "t", "v0"))
    sentence = _FORMULATION.sub(
        lambda match: "--formulation " + ":".join(part.lower() for part in match.groups() if part), sentence
    )
    sentence = re.sub(rf"`({names})(?:=([^`]*))?`", _option, sentence)
    sentence = re.sub(rf'\b({names})="?([\w.]+)"?', _option, sentence)
    sentence = re.sub(r"see (model\.near|`near`)", "see cindy show --near", sentence)
    return re.sub(r"`([^`]+)`", r"\1", sentence)


def _option(match: re.Match[str]) -> str:
    value = match[2] or ""
    several = re.findall(r'"([^"]*)"', value) if value[:1] == "(" else []
    return f"--{match[1].replace('_', '-')} {','.join(several) or value}".rstrip()


def show_files(files: Sequence[tuple[Path, str]]) -> None:
    """Print which files were written, and the content of each."""
    if not files:
        return
    section("Written")
    widest = max(len(str(path)) for path, _ in files)
    for path, what in files:
        plain(Text.assemble((str(path).ljust(widest), "cyan"), (f"  {what}", "dim")))


def show_failures(sentences: Sequence[str]) -> None:
    """Print what failed while the rest went on; of many the first."""
    for sentence in sentences[:_MOST_FAILURES]:
        _say("Failed: ", "bold red", sentence)
    if len(sentences) > _MOST_FAILURES:
        err.print(f"… and {len(sentences) - _MOST_FAILURES} more.")


@contextmanager
def working(what: str) -> Iterator[Callable[[str], None]]:
    """Show on a terminal what is being done and for how long. Yields a function that shows the progress."""
    if not err.is_terminal:
        yield lambda _: None
        return
    columns: list[Any] = [
        SpinnerColumn(),
        TextColumn("{task.description}", markup=False),
        TimeElapsedColumn(),
    ]
    with Progress(*columns, console=err, transient=True) as progress:
        task = progress.add_task(what)
        yield lambda text: progress.update(task, description=f"{what}: {text}")


@contextmanager
def bar(what: str) -> Iterator[Callable[[int, int, str], None]]:
    """Show a bar on a terminal. Yields a function of the number done, that of all, and the last name."""
    if not err.is_terminal:
        yield lambda done, total, name: None
        return
    columns: list[Any] = [
        TextColumn("{task.description}", markup=False),
        BarColumn(),
        MofNCompleteColumn(),
        TimeElapsedColumn(),
        TimeRemainingColumn(),
        TextColumn("{task.fields[last]}", style="dim", markup=False),
    ]
    with Progress(*columns, console=err, transient=True) as progress:
        task = progress.add_task(what, total=None, last="")
        yield lambda done, total, name: progress.update(task, completed=done, total=total, last=name)
