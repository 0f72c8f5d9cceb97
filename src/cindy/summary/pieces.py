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
from cindy.errors import DataError
from cindy.formulation import Formulation

PORTION = 32_768
"""Samples in a task: enough work to outweigh the traffic between processes, in little memory."""


@dataclass(frozen=True)
class Origin:
    """Where samples come from: the names of trajectories, and times unless these are whole."""

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
class Piece:
    """Consecutive stretches of a segment, with the neighbours on which their rows depend.

    name: that of the trajectory; whole: whether all of it belongs to one block
    """

    segment: Trajectory
    edges: Ints
    name: str
    whole: bool

    @property
    def samples(self) -> int:
        return int(self.edges[-1] - self.edges[0])

    @property
    def origin(self) -> Origin:
        # From a trajectory on a device only these two times are copied.
        ends = (int(self.edges[0]), int(self.edges[-1]) - 1)
        begin, end = (float(self.segment.part(k, k + 1).t[0]) for k in ends)
        return Origin(self.name, self.name, begin, end, self.whole)

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


@dataclass(frozen=True, eq=False)
class Task:
    """Pieces that are processed together, and whether they complete a block.

    skipped, read: segments that were too short, and samples that were read
    """

    pieces: tuple[Piece, ...]
    closes: bool
    skipped: int
    read: int

    def opened(self, formulation: Formulation) -> Iterable["Task"]:
        """The task itself, whose samples are in memory."""
        return (self,)


@dataclass(frozen=True)
class Load:
    """A part of the data that the worker itself loads, and the number of blocks to make of it.

    variables: the states and the inputs of the first trajectory of all data
    """

    part: Part
    number: int
    aim: int
    portion: int
    variables: tuple[tuple[str, ...], tuple[str, ...]]

    def opened(self, formulation: Formulation) -> Iterator[Task]:
        """The tasks of the part; an error unless its trajectories have those variables."""
        named = [
            trajectory if trajectory.name else replace(trajectory, name=f"part {self.number}, {k}")
            for k, trajectory in enumerate(same_variables(loaded(self.part)))
        ]
        for trajectory in named[:1]:
            if (trajectory.states, trajectory.inputs) != self.variables:
                expected, got = sum(self.variables, ()), trajectory.variables
                raise DataError(
                    f"All trajectories must have the same variables, but the first has {', '.join(expected)} "
                    f"and {trajectory.name} has {', '.join(got)}. "
                    "Give all the same names in the same order."
                )
        return tasks(iter(named), formulation, self.aim, list(map(len, named)), self.portion)


def tasks(
    trajectories: Iterator[Trajectory],
    formulation: Formulation,
    aim: int,
    sizes: Sequence[int] | None,
    portion: int,
) -> Iterator[Task]:
    """The tasks for all trajectories, in order; they depend on the data alone.

    aim: the number of blocks. They are runs of whole trajectories if there are at least so many, otherwise
        contiguous parts. Blocks of a stream, whose end is not known, are smaller, and the receiver joins them
    sizes: the samples of each trajectory; None for a stream
    portion: samples in a task, about
    """
    pieces: list[Piece] = []
    size = held = seen = skipped = read = 0  # size: samples in the pieces; held: samples in the block

    def task(*, closes: bool) -> Task:
        nonlocal pieces, size, held, skipped, read
        complete = Task(tuple(pieces), closes, skipped, read)
        pieces, size, skipped, read = [], 0, 0, 0
        held = 0 if closes else held
        return complete

    for i, trajectory in enumerate(trajectories):
        seen += len(trajectory)
        parts = _parts(i, len(trajectory), seen, aim, sizes)
        name = trajectory.name or f"trajectory {i}"
        groups, short = _groups(trajectory, formulation, parts, portion, name)
        skipped, read = skipped + short, read + len(trajectory)
        for k, group in enumerate(groups):
            for piece in group:
                # Step 3.
                if pieces and size + piece.samples > portion:
                    yield task(closes=False)
                pieces.append(piece)
                size, held = size + piece.samples, held + piece.samples
            if k < len(groups) - 1:
                yield task(closes=True)
        if _complete(i, held, seen, aim, sizes):
            yield task(closes=True)
    yield task(closes=True)


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
    trajectory: Trajectory, formulation: Formulation, parts: int, most: int, name: str
) -> tuple[list[list[Piece]], int]:
    """The pieces of a trajectory in that many contiguous groups, and how many segments were too short."""
    segments = trajectory.segments()
    usable = [segment for segment in segments if len(segment) >= formulation.min_samples]
    total = sum(map(len, usable))
    groups: dict[int, list[tuple[Trajectory, Ints]]] = {}
    before = 0
    for segment in usable:
        edges = formulation.edges(len(segment))
        # Step 2. A window belongs to the part in which its middle lies.
        middles = (edges[:-1] + edges[1:]) / 2 + before
        group = (middles * parts / total).astype(int)
        portion = edges[:-1] // most
        cuts = np.flatnonzero((np.diff(group) != 0) | (np.diff(portion) != 0)) + 1
        for a, b in pairwise([0, *cuts, len(middles)]):
            groups.setdefault(int(group[a]), []).append(formulation.nearby(segment, edges[a : b + 1]))
        before += len(segment)
    whole = len(groups) == 1
    pieces = [[Piece(*nearby, name, whole) for nearby in group] for group in groups.values()]
    return pieces, len(segments) - len(usable)
