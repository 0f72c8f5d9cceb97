"""Which samples belong to which block, and in which portions they are processed.

Errors are estimated from the differences between blocks, so that each block is contiguous in time. Portions
are as many samples as fit in memory. All cuts depend on the data alone, so that the result is the same to the
bit for any number of workers.

1. If there are many trajectories, a block is a run of whole ones; otherwise each is cut into contiguous
   parts.
2. Cuts lie between the windows of the formulation, which no row crosses.
3. A block that is larger than a portion becomes several tasks, the last of which closes the block.
"""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import pairwise

import numpy as np

from cindy._arrays import Ints
from cindy.data import Part, Trajectory, loaded, same_variables
from cindy.formulation import Formulation

PORTION = 32_768
"""Samples in a task: enough work to outweigh the traffic between processes, in little memory."""


@dataclass(frozen=True, eq=False)
class Piece:
    """Consecutive stretches of a segment, with the neighbours on which their rows depend."""

    segment: Trajectory
    edges: Ints

    @property
    def samples(self) -> int:
        return int(self.edges[-1] - self.edges[0])

    @property
    def begin(self) -> float:
        return self._moment(int(self.edges[0]))

    @property
    def end(self) -> float:
        return self._moment(int(self.edges[-1]) - 1)

    def cut(self, most: int) -> Iterator[Ints]:
        """The edges in runs of whole stretches, of at most so many samples or of a single stretch.

        No stretch is cut, so that the rows do not depend on the size of a run.
        """
        ends = np.cumsum(np.diff(self.edges))
        first = 0
        while first < len(ends):
            before = ends[first - 1] if first else 0
            last = max(int(np.searchsorted(ends, before + most, side="right")), first + 1)
            yield self.edges[first : last + 1]
            first = last

    def _moment(self, sample: int) -> float:
        # From a trajectory on a device only this one time is copied.
        return float(self.segment.part(sample, sample + 1).t[0])


@dataclass(frozen=True)
class Origin:
    """Where a block begins and ends: the names of trajectories, and times unless these are whole."""

    first: str
    last: str
    begin: float
    end: float
    whole: bool

    def __add__(self, other: "Origin") -> "Origin":
        return Origin(self.first, other.last, self.begin, other.end, self.whole and other.whole)

    @property
    def label(self) -> str:
        if self.first != self.last:
            return f"{self.first} … {self.last}"
        return self.first if self.whole else f"{self.first}, t = {self.begin:.6g} … {self.end:.6g}"


@dataclass(frozen=True, eq=False)
class Task:
    """Pieces that are processed together, and whether they complete a block.

    origin: where the pieces come from; None if there are none
    samples, skipped, read: samples used, segments that were too short, samples read
    """

    pieces: tuple[Piece, ...]
    closes: bool
    origin: Origin | None
    samples: int
    skipped: int
    read: int

    def opened(self, formulation: Formulation) -> "_Opened":
        """The task itself, whose samples are in memory."""
        return _Opened((self,), joined=False)


@dataclass(frozen=True)
class _Opened:
    """Tasks whose samples are in memory.

    joined: whether a task that completes no block is factorised together with the next one
    variables, where: the states and inputs of a part that was loaded, and its name
    """

    tasks: Iterable[Task]
    joined: bool
    variables: tuple[tuple[str, ...], tuple[str, ...]] | None = None
    where: str = ""


@dataclass(frozen=True)
class Load:
    """A part of the data that the worker itself loads, and the number of blocks to make of it."""

    part: Part
    number: int
    aim: int
    portion: int = PORTION

    def opened(self, formulation: Formulation) -> _Opened:
        """The tasks of the part."""
        trajectories = list(same_variables(loaded(self.part)))
        if not trajectories:
            return _Opened((), joined=True)
        named = [
            trajectory if trajectory.name else replace(trajectory, name=f"part {self.number}, {k}")
            for k, trajectory in enumerate(trajectories)
        ]
        work = tasks(iter(named), formulation, self.aim, list(map(len, named)), self.portion)
        return _Opened(work, True, (trajectories[0].states, trajectories[0].inputs), named[0].name)


def tasks(
    trajectories: Iterator[Trajectory],
    formulation: Formulation,
    aim: int,
    sizes: Sequence[int] | None,
    portion: int = PORTION,
) -> Iterator[Task]:
    """The tasks for all trajectories, in order; they depend on the data alone.

    aim: the number of blocks. They are runs of whole trajectories if there are at least so many, otherwise
        contiguous parts. Blocks of a stream, whose end is not known, are smaller, and the receiver joins them
    sizes: the samples of each trajectory; None for a stream
    portion: samples in a task, about
    """
    pending = _Pending()
    seen = 0
    for i, trajectory in enumerate(trajectories):
        seen += len(trajectory)
        name = trajectory.name or f"trajectory {i}"
        groups, skipped = _groups(
            trajectory, formulation, _parts(i, len(trajectory), seen, aim, sizes), portion
        )
        pending.skipped += skipped
        pending.read += len(trajectory)
        for k, group in enumerate(groups):
            whole = len(groups) == 1
            for piece in group:
                # Step 3.
                if pending.pieces and pending.size + piece.samples > portion:
                    yield pending.task(closes=False)
                pending.add(piece, Origin(name, name, piece.begin, piece.end, whole))
            if k < len(groups) - 1:
                yield pending.task(closes=True)
        if _complete(i, pending.held, seen, aim, sizes):
            yield pending.task(closes=True)
    yield pending.task(closes=True)


class _Pending:
    """The pieces of the next task."""

    def __init__(self) -> None:
        self.pieces: list[Piece] = []
        self.origin: Origin | None = None
        self.size = self.held = self.skipped = self.read = 0

    def add(self, piece: Piece, origin: Origin) -> None:
        self.origin = origin if self.origin is None else self.origin + origin
        self.pieces.append(piece)
        self.size += piece.samples
        self.held += piece.samples

    def task(self, *, closes: bool) -> Task:
        task = Task(tuple(self.pieces), closes, self.origin, self.size, self.skipped, self.read)
        self.pieces, self.origin = [], None
        self.size = self.skipped = self.read = 0
        self.held = 0 if closes else self.held
        return task


def _parts(i: int, samples: int, seen: int, aim: int, sizes: Sequence[int] | None) -> int:
    """The number of blocks into which trajectory i is cut."""
    if sizes is None:
        # In a stream each trajectory is cut as if it were the last, and the receiver joins small blocks.
        return -(-aim * samples // seen) if i < aim else 1
    return max(1, round(aim * samples / sum(sizes))) if len(sizes) < aim else 1


def _complete(i: int, held: int, seen: int, aim: int, sizes: Sequence[int] | None) -> bool:
    """Whether a block ends with trajectory i."""
    if sizes is None:
        return held >= seen / (2 * aim)
    if len(sizes) < aim or i + 1 == len(sizes):
        return True
    # A trajectory belongs to the block in which its middle lies.
    middle, next_middle = seen - sizes[i] / 2, seen + sizes[i + 1] / 2
    total = sum(sizes)
    return int(aim * middle / total) != int(aim * next_middle / total)


def _groups(
    trajectory: Trajectory, formulation: Formulation, parts: int, most: int
) -> tuple[list[list[Piece]], int]:
    """The pieces of a trajectory in that many contiguous groups, and how many segments were too short."""
    segments = trajectory.segments()
    usable = [segment for segment in segments if len(segment) >= formulation.min_samples]
    total = sum(map(len, usable))
    groups: dict[int, list[Piece]] = {}
    before = 0
    for segment in usable:
        edges = formulation.edges(len(segment))
        # Step 2. A window belongs to the part in which its middle lies.
        middles = (edges[:-1] + edges[1:]) / 2 + before
        group = (middles * parts / total).astype(int)
        portion = edges[:-1] // most
        cuts = np.flatnonzero((np.diff(group) != 0) | (np.diff(portion) != 0)) + 1
        for a, b in pairwise([0, *cuts, len(middles)]):
            groups.setdefault(int(group[a]), []).append(Piece(*formulation.nearby(segment, edges[a : b + 1])))
        before += len(segment)
    return list(groups.values()), len(segments) - len(usable)
