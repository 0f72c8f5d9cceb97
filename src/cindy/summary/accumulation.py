"""From trajectories to a summary, in one pass over the data, in chunks, and on any executor.

1. Cut the data into pieces whose rows fit in memory (`pieces`).
2. Compute the rows [A | B] of each piece and reduce them to the triangle R of their QR factorisation, for
   which ‖R x‖ = ‖[A | B] x‖ for every x. Lots of rows are added to a running triangle one after another.
3. Add the triangles of pieces, from whatever worker, in the order of the data.

The cost is one evaluation of the terms and 2 n m² operations for n rows of m columns; the memory is one lot
of rows and the triangles.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Executor
from dataclasses import dataclass, replace
from functools import reduce
from itertools import chain, islice
from operator import add
from typing import Any, NamedTuple

import numpy as np
import scipy.linalg.lapack

from cindy._arrays import Floats, space_of
from cindy._check import counted, instance, integer, short
from cindy.basis import Basis
from cindy.data import (
    LOOK,
    Part,
    Source,
    Trajectory,
    as_fields,
    as_source,
    glimpse,
    is_fields,
    same_variables,
)
from cindy.errors import DataError
from cindy.evidence import WeakRows
from cindy.formulation import Formulation, Integral, Weak
from cindy.least_squares import LeastSquares
from cindy.summary.executor import DeviceTriangle, map_in_order, workers
from cindy.summary.pieces import PORTION, Load, Origin, Piece, Task, tasks
from cindy.summary.summary import Summary, add_up


@dataclass(frozen=True)
class _Lots:
    """Sizes of the lots and panels in which rows are factorised."""

    lot: int = 512
    """Rows that are factorised together: fewer would be mostly overhead."""
    panel: int = 32
    """Columns that are eliminated one by one before the other columns are updated by all of them at once."""
    narrow_panel: int = 16
    """The same for narrow matrices."""
    glimpse: int = 20_000
    """Samples of a trajectory from which settings are chosen: five times as many as any setting needs."""
    device_portion: int = 4_194_304
    """Samples in a task for a device, whatever the number of terms (`python -m benchmarks gpu`)."""
    device_elements: int = 64_000_000
    """Numbers in a matrix on a device: half a gigabyte, of which ten are in use at a time."""
    block_memory: float = 256e6
    """Bytes that all blocks together may take; with many terms there are fewer blocks."""


_LOTS = _Lots()


_NARROW = range(33, 257)
"""Numbers of columns for which a narrower panel is faster, by a tenth for 61 of them (`python -m benchmarks
stream`)."""


class _RunningTriangle:
    """The R factor of all rows added so far, updated lot by lot."""

    def __init__(self) -> None:
        self.rows = 0
        self._triangle: Floats | None = None
        self._waiting: list[Floats] = []

    def add(self, matrix: Floats) -> None:
        """Add the rows of a matrix, which is overwritten."""
        if len(matrix) == 0:
            return
        self.rows += len(matrix)
        self._waiting.append(matrix)
        if sum(map(len, self._waiting)) >= _LOTS.lot:
            self._work()

    def factor(self) -> Floats:
        """(min(rows, columns), columns), upper triangular; (0, 0) if there were no rows."""
        if self._waiting:
            self._work()
        if self._triangle is None:
            return np.zeros((0, 0))
        return np.ascontiguousarray(self._triangle[: min(self.rows, len(self._triangle))])

    def _work(self) -> None:
        """Add the waiting rows to the triangle."""
        lot = self._waiting[0] if len(self._waiting) == 1 else np.concatenate(self._waiting)
        self._waiting = []
        width = lot.shape[1]
        if self._triangle is None:
            self._triangle = np.zeros((width, width), order="F")
        panel = _LOTS.narrow_panel if width in _NARROW else _LOTS.panel
        # Unlike a plain QR factorisation of both, this one does not work on the zeros of the triangle.
        self._triangle, _, _, _ = scipy.linalg.lapack.dtpqrt(
            0, min(panel, width), self._triangle, np.asfortranarray(lot), overwrite_a=True, overwrite_b=True
        )


class _Block(NamedTuple):
    """The objective of a contiguous part of the data, and where it comes from."""

    objective: LeastSquares
    origin: Origin


def _joined(blocks: Sequence[_Block]) -> _Block:
    """Neighbouring blocks as one, in the order of the data."""
    # One block keeps its triangle: to factorise it once more would round its numbers once more.
    objective = blocks[0].objective if len(blocks) == 1 else add_up(tuple(b.objective for b in blocks))
    return _Block(objective, reduce(add, (block.origin for block in blocks)))


class _Factored(NamedTuple):
    """The result of a task, whose size does not depend on the amount of data in the task.

    blocks: in order, what each run of samples gives, None if it has no rows, and whether a block ends there
    samples, skipped, read: samples used, segments that were too short, samples read
    """

    blocks: list[tuple[_Block | None, bool]]
    samples: int
    skipped: int
    read: int


@dataclass(frozen=True)
class _Factoring:
    """The function that factorises one task; its result depends on the task and these settings only."""

    basis: Basis
    formulation: Formulation
    terms: int
    chunk: int
    device: Any = None

    @property
    def portion(self) -> int:
        """Samples in a task: many for a device, which would be idle while small tasks are prepared."""
        return PORTION if self.device is None else _LOTS.device_portion

    def __call__(self, task: Task | Load) -> _Factored:
        blocks: list[tuple[_Block | None, bool]] = []
        pieces: list[Piece] = []
        samples = skipped = read = 0
        for portion in task.opened(self.formulation):
            pieces += portion.pieces
            samples += sum(piece.samples for piece in portion.pieces)
            skipped, read = skipped + portion.skipped, read + portion.read
            if portion.closes:
                blocks.append((self._block(pieces), True))
                pieces = []
        if pieces:
            blocks.append((self._block(pieces), False))
        return _Factored(blocks, samples, skipped, read)

    def _block(self, pieces: Sequence[Piece]) -> _Block | None:
        """Step 2 for samples that the receiver puts into one block; None if there are none."""
        if not pieces:
            return None
        running = _RunningTriangle() if self.device is None else DeviceTriangle(space_of(self.device))
        for rows in chain.from_iterable(map(self._rows, pieces)):
            running.add(rows)
        factor, origin = running.factor(), reduce(add, (piece.origin for piece in pieces))
        if not np.isfinite(factor).all():
            raise DataError(
                f"accumulate: on {origin.label} a term takes values beyond floating point. "
                "Use other units for the states, or a lower degree."
            )
        return _Block(LeastSquares(factor, self.terms, running.rows), origin)

    def _rows(self, piece: Piece) -> Iterator[Any]:
        """The rows of a piece, as many at a time as fit in memory."""
        segment, basis, form = piece.segment, self.basis, self.formulation
        if self.device is None:
            return (form.matrix(segment, basis, edges) for edges in piece.cut(self.chunk))
        most, space = _LOTS.device_elements // (self.terms + segment.dimension), space_of(self.device)
        return (form.on_device(segment, basis, edges, space) for edges in piece.cut(most))


def _glimpsed(part: Part) -> list[Trajectory]:
    """The beginnings of the first trajectories of a part, which are enough to choose settings."""
    return [_beginning(trajectory) for trajectory in islice(glimpse(part, _LOTS.glimpse), LOOK)]


def _beginning(trajectory: Trajectory) -> Trajectory:
    """The first samples of a trajectory, copied so that the memory of the others can be freed."""
    if len(trajectory) <= _LOTS.glimpse:
        return trajectory
    first = slice(0, _LOTS.glimpse)
    u = None if trajectory.u is None else trajectory.u[first].copy()
    return replace(trajectory, t=trajectory.t[first].copy(), x=trajectory.x[first].copy(), u=u)


class _Gathering:
    """Collects the results of tasks in blocks; of a stream it holds at most twice as many as wanted."""

    def __init__(self, aim: int, *, stream: bool) -> None:
        self.aim, self.stream = aim, stream
        self.blocks: list[_Block] = []
        self.parts: list[_Block] = []
        self.samples = self.skipped = 0

    def add(self, factored: _Factored) -> None:
        """Add the result of a task; results come in the order of the tasks."""
        self.samples += factored.samples
        self.skipped += factored.skipped
        for part, closes in factored.blocks:
            self.parts += [] if part is None else [part]
            if closes and self.parts:
                # Step 3, in the order of the data and not in that of completion: sums of floats depend on
                # their order, and results must not depend on the number of workers.
                self.blocks.append(_joined(self.parts))
                self.parts = []
                # Blocks are not merged at every new one, so that the work stays linear.
                if len(self.blocks) > 2 * self.aim:
                    self._merge()

    def _merge(self) -> None:
        """Join the smallest pairs of neighbours until there are as many blocks as wanted.

        The end of a stream is not known, so that blocks begin small and are joined as more come. Any number
        of samples ends in between one and two times as many blocks as wanted.
        """
        while len(self.blocks) > self.aim:
            rows = np.array([block.objective.rows for block in self.blocks])
            i = int(np.argmin(rows[:-1] + rows[1:]))
            self.blocks[i : i + 2] = [_joined(self.blocks[i : i + 2])]

    def summary(self, like: Trajectory, basis: Basis, formulation: Formulation) -> Summary:
        """The summary of all results, for trajectories with the variables of the given one."""
        if self.stream:
            self._merge()
        if not self.blocks:
            least = f"{formulation.min_samples} samples that {type(formulation).__name__} needs"
            pieces = counted(self.skipped, "piece")
            short = f"each of the {pieces} without missing values has fewer than the {least}"
            raise DataError(
                f"accumulate: nothing is left: {short if self.skipped else 'no sample has all its values'}. "
                + ("Give longer trajectories." if self.skipped else "Leave out the states that are missing.")
            )
        return Summary(
            tuple(block.objective for block in self.blocks),
            tuple(block.origin.label for block in self.blocks),
            like.states,
            like.inputs,
            basis,
            formulation,
            self.samples,
            self.skipped,
        )


Progress = Callable[[int, int | None], None]


def accumulate(
    trajectories: Any,
    basis: Basis,
    *,
    formulation: Formulation | None = None,
    blocks: int = 50,
    processes: int = 1,
    executor: Executor | None = None,
    device: Any = None,
    chunk: int = 4096,
    progress: Progress | None = None,
) -> Summary:
    """The summary of the trajectories, in one pass over them.

    trajectories: one trajectory, a pair (t, x), a list of these, or any iterable of them, which is then read
        once and never held in memory as a whole; files by read(paths, lazy=True), a Dask bag of trajectories
        and the like, whose parts are loaded by the processes that work on them; fields
    formulation: by default Integral(), and Weak() for fields
    blocks: the number of blocks to aim for; there are fewer if the data are short or the terms many
    processes: how many processes share the work; the result does not depend on it
    executor: any concurrent.futures.Executor, or a Dask client, that does the work instead; the result is the
        same, bit for bit
    device: "cuda", or another device of PyTorch or CuPy, where terms are evaluated, integrated and
        factorised; None for numpy
    chunk: samples whose terms are held in memory at a time; the result does not depend on it either
    progress: called with the number of samples done so far and in all (None if that is not known)

    >>> import numpy as np
    >>> from cindy.basis import Polynomial
    >>> t = np.linspace(0, 5, 200)
    >>> decay = Trajectory(t, np.exp(-2 * t), states=("x",))
    >>> total = accumulate(decay, Polynomial(1)).total
    >>> np.abs(np.linalg.lstsq(total.design, total.target)[0]).round(6).tolist()
    [[0.0], [2.0]]
    """
    if formulation is None:
        formulation = Weak() if is_fields(trajectories) else Integral()
    _check_arguments(basis, formulation, progress)
    integer(chunk, "accumulate: `chunk`", least=1)
    if is_fields(trajectories):
        return summary_of_fields(WeakRows.of(as_fields(trajectories), basis, formulation), blocks, progress)
    integer(blocks, "accumulate: `blocks`", least=1)
    source = as_source(trajectories)
    with workers(executor, processes, where="accumulate") as hands:
        examples = _examples(source, hands)
        first = examples[0]
        terms = len(basis.names(formulation.variables(first.states, first.inputs)))
        aim = max(1, min(blocks, int(_LOTS.block_memory / (8 * (terms + first.dimension) ** 2))))
        fitted = formulation.fit_to(examples)
        factoring = _Factoring(basis, fitted, terms, chunk, device)
        gathering = _Gathering(aim, stream=source.whole is None)
        total = None if source.whole is None else sum(map(len, source.whole))
        done = 0
        for factored in map_in_order(factoring, _work(source, first, fitted, aim, factoring.portion), hands):
            gathering.add(factored)
            done += factored.read
            if progress is not None:
                progress(done, total)
    return gathering.summary(first, basis, fitted)


def summary_of_fields(evidence: WeakRows, blocks: int = 50, progress: Progress | None = None) -> Summary:
    """The summary of fields in the weak form, in one pass over their values."""
    gathered = evidence.gathered(integer(blocks, "accumulate: `blocks`", least=1), progress)
    first = evidence.fields[0]
    return Summary(
        gathered.blocks,
        gathered.labels,
        first.states,
        first.inputs,
        evidence.basis,
        evidence.form,
        gathered.samples,
        0,
        gathered.spurious,
    )


def _check_arguments(basis: Basis, formulation: Formulation, progress: Progress | None) -> None:
    if progress is not None and not callable(progress):
        raise DataError(f"accumulate: `progress` must be a function, but is {short(progress)}.")
    instance(basis, Basis, "accumulate: `basis`", "a basis such as Polynomial(3)")
    forms = "Integral(), Differential() or Discrete()"
    instance(formulation, Formulation, "accumulate: `formulation`", forms)
    if basis.unknowns():
        names = ", ".join(parameter.name for parameter in basis.unknowns())
        raise DataError(
            f"accumulate: the terms of {basis!r} hold {names}, whose value is not known. `identify` finds "
            "such parameters; or give them values with basis.at({…})."
        )


def _examples(source: Source, executor: Executor | None) -> list[Trajectory]:
    """The trajectories from which settings are chosen: all of data in memory, some of other data."""
    if source.whole is not None:
        return source.whole
    parts = source.first_parts()
    beginnings = map_in_order(_glimpsed, parts, executor if source.apart else None)
    examples = list(same_variables(chain.from_iterable(beginnings)))
    if not examples:
        raise DataError("accumulate: no trajectories: the iterable is empty.")
    return examples


def _work(
    source: Source, first: Trajectory, formulation: Formulation, aim: int, portion: int
) -> Iterator[Task | Load]:
    """The tasks for all data; parts that can be loaded by themselves are loaded by the workers."""
    # Step 1. Workers cut the parts that they load; everything else is cut here, in the order of the data.
    if source.apart:
        parts = tuple(source.parts)
        each, variables = -(-aim // len(parts)), (first.states, first.inputs)
        return (Load(part, k, each, portion, variables) for k, part in enumerate(parts))
    sizes = None if source.whole is None else [len(trajectory) for trajectory in source.whole]
    return tasks(iter(source), formulation, aim, sizes, portion)
