"""From trajectories to a summary: in chunks, over processes, in one pass."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from itertools import chain, islice
from typing import Any

import numpy as np

from cindy._check import integer
from cindy._types import Floats
from cindy.basis import Basis
from cindy.data import Trajectory, as_trajectories, as_trajectory, same_variables
from cindy.errors import DataError
from cindy.formulation import Formulation, Integral
from cindy.least_squares import LeastSquares
from cindy.summary.backends.processes import in_order
from cindy.summary.pieces import Origin, Task, tasks
from cindy.summary.running_qr import RunningTriangle
from cindy.summary.summary import Summary, add_up

__all__ = ["accumulate"]

Progress = Callable[[int, int | None], None]

_BLOCK_MEMORY = 256e6
"""Bytes that all blocks together may take: fewer blocks when terms are many."""
_PEEK = 12
"""Trajectories of a stream that are looked at before the settings are chosen."""


def accumulate(
    trajectories: Trajectory | Iterable[Any],
    basis: Basis,
    *,
    formulation: Formulation | None = None,
    blocks: int = 50,
    processes: int = 1,
    chunk: int = 4096,
    progress: Progress | None = None,
) -> Summary:
    """The summary of the trajectories, in one pass over them.

    trajectories: one trajectory, a pair (t, x), a list of these, or any iterable of
        them, which is then read once and never held in memory
    formulation: by default Integral()
    blocks: how many blocks to aim for; fewer when the data or the memory ask for it
    processes: how many processes share the work; the result does not depend on it
    chunk: samples whose terms are held in memory at a time; nor on this
    progress: called with the samples done so far and their total (None for a stream)

    >>> from cindy.basis import Polynomial
    >>> t = np.linspace(0, 5, 200)
    >>> decay = Trajectory(t, np.exp(-2 * t), states=("x",))
    >>> total = accumulate(decay, Polynomial(1)).total
    >>> np.linalg.lstsq(total.design, total.target)[0].round(6) + 0.0
    array([[ 0.],
           [-2.]])
    """
    formulation = Integral() if formulation is None else formulation
    _check_arguments(basis, formulation)
    integer(blocks, "accumulate: `blocks`", least=1)
    integer(processes, "accumulate: `processes`", least=1)
    integer(chunk, "accumulate: `chunk`", least=1)
    stream, look, sizes = _opened(trajectories)
    first = look[0]
    width = len(basis.names(first.variables)) + first.dimension
    aim = max(1, min(blocks, int(_BLOCK_MEMORY / (8 * width**2))))
    fitted = formulation.fit_to(look)
    gathering = _Gathering(aim, width - first.dimension, stream=sizes is None)
    total = None if sizes is None else sum(sizes)
    done = 0
    work = tasks(stream, fitted, aim, sizes)
    for task, (factor, rows) in in_order(_factor, work, (basis, fitted, chunk), processes):
        gathering.add(task, factor, rows)
        done += task.read
        if progress is not None:
            progress(done, total)
    return gathering.summary(first, basis, fitted)


def _check_arguments(basis: Basis, formulation: Formulation) -> None:
    if not isinstance(basis, Basis):
        raise DataError(f"accumulate: `basis` must be a basis such as Polynomial(3), but is {basis!r}.")
    if not isinstance(formulation, Formulation):
        raise DataError(
            "accumulate: `formulation` must be Integral(), Differential() or Discrete(), "
            f"but is {formulation!r}."
        )


def _opened(data: Any) -> tuple[Iterator[Trajectory], list[Trajectory], list[int] | None]:
    """The trajectories one by one, some to look at, and the sizes of all where they are known."""
    if isinstance(data, (Trajectory, list, tuple)) or not isinstance(data, Iterable):
        known = as_trajectories(data)
        return iter(known), known, [len(one) for one in known]
    stream = same_variables(as_trajectory(item) for item in data)
    look = list(islice(stream, _PEEK))
    if not look:
        raise DataError("accumulate: no trajectories: the iterable is empty.")
    return chain(look, stream), look, None


def _factor(task: Task, basis: Basis, formulation: Formulation, chunk: int) -> tuple[Floats, int]:
    """The triangular factor of the rows of one task, and how many rows there were."""
    running = RunningTriangle()
    for piece in task.pieces:
        ends = np.cumsum(np.diff(piece.edges))
        first = 0
        while first < len(ends):
            before = ends[first - 1] if first else 0
            last = max(int(np.searchsorted(ends, before + chunk, side="right")), first + 1)
            running.add(formulation.matrix(piece.segment, basis, piece.edges[first : last + 1]))
            first = last
    factor = running.factor()
    if not np.isfinite(factor).all():
        where = task.origin.label if task.origin else "the data"
        raise DataError(
            f"accumulate: on {where} a term takes values beyond floating point. "
            "Use other units for the states, or a lower degree."
        )
    return factor, running.rows


@dataclass(frozen=True, eq=False)
class _Block:
    objective: LeastSquares
    origin: Origin

    def __add__(self, other: _Block) -> _Block:
        return _Block(add_up((self.objective, other.objective)), self.origin + other.origin)


class _Gathering:
    """Blocks as they come in; of a stream without end never more than twice as many as wanted."""

    def __init__(self, aim: int, terms: int, *, stream: bool) -> None:
        self.aim, self.terms, self.stream = aim, terms, stream
        self.blocks: list[_Block] = []
        self.parts: list[LeastSquares] = []
        self.origin: Origin | None = None
        self.samples = self.skipped = 0

    def add(self, task: Task, factor: Floats, rows: int) -> None:
        if task.origin is not None:
            self.parts.append(LeastSquares(factor, self.terms, rows))
            self.origin = task.origin if self.origin is None else self.origin + task.origin
        self.samples += task.samples
        self.skipped += task.skipped
        if task.closes and self.origin is not None:
            whole = self.parts[0] if len(self.parts) == 1 else add_up(tuple(self.parts))
            self.blocks.append(_Block(whole, self.origin))
            self.parts, self.origin = [], None
            if len(self.blocks) > 2 * self.aim:
                self._merge()

    def _merge(self) -> None:
        """Join the smallest neighbours until there are as many blocks as wanted."""
        while len(self.blocks) > self.aim:
            rows = np.array([b.objective.rows for b in self.blocks])
            i = int(np.argmin(rows[:-1] + rows[1:]))
            self.blocks[i : i + 2] = [self.blocks[i] + self.blocks[i + 1]]

    def summary(self, like: Trajectory, basis: Basis, formulation: Formulation) -> Summary:
        if self.stream:
            self._merge()
        if not self.blocks:
            least = f"{formulation.min_samples} samples that {type(formulation).__name__} needs"
            raise DataError(
                f"accumulate: nothing is left: each of the {self.skipped} stretch(es) without missing values "
                f"has fewer than the {least}. Give longer trajectories."
            )
        return Summary(
            tuple(b.objective for b in self.blocks),
            tuple(b.origin.label for b in self.blocks),
            like.states,
            like.inputs,
            basis,
            formulation,
            self.samples,
            self.skipped,
        )
