"""Which samples belong to which block, and in which portions they are worked on.

Blocks are what errors are judged by, so that each is contiguous in time; portions are what fits in memory.
The cuts depend on the data alone, never on who does the work, so that any number of workers gives the same
bits.

1. With many trajectories a block is a run of whole ones; with few, each is cut into contiguous parts.
2. Cuts lie between the windows of the formulation, which no row crosses.
3. A block that is larger than a portion is worked on in several tasks, the last of which closes it.
"""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace

import numpy as np

from cindy._arrays import Ints
from cindy.data import Part, Trajectory, same_variables
from cindy.formulation import Formulation

PORTION = 32_768
"""Samples in a task: much work for little traffic between processes, in little memory."""


@dataclass(frozen=True, eq=False)
class Piece:
    """Consecutive stretches of a segment, with the neighbours they depend on."""

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
        """The edges in runs of at most so many samples, though of one stretch at least.

        Whole stretches only, so that the rows do not depend on the size of a run.
        """
        ends = np.cumsum(np.diff(self.edges))
        first = 0
        while first < len(ends):
            before = ends[first - 1] if first else 0
            last = max(int(np.searchsorted(ends, before + most, side="right")), first + 1)
            yield self.edges[first : last + 1]
            first = last

    def _moment(self, sample: int) -> float:
        # Of a trajectory on a device no more than the one time should be copied.
        return float(self.segment.part(sample, sample + 1).t[0])


@dataclass(frozen=True)
class Origin:
    """From where to where a block reaches: names of trajectories, and times unless they are whole."""

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
    """Pieces that are worked on together, and whether they complete a block.

    origin: where the pieces come from; None when there are none
    samples, skipped, read: samples used, segments too short to be used, samples gone through
    """

    pieces: tuple[Piece, ...]
    closes: bool
    origin: Origin | None
    samples: int
    skipped: int
    read: int

    def opened(self, formulation: Formulation) -> "_Opened":
        """Itself: its samples came with it."""
        return _Opened((self,), joined=False)


@dataclass(frozen=True)
class _Opened:
    """Tasks that are at hand now.

    joined: whether tasks that complete no block are factorised together with those that follow
    variables, where: of a part that was loaded: its states and inputs, and what to call it
    """

    tasks: Iterable[Task]
    joined: bool
    variables: tuple[tuple[str, ...], tuple[str, ...]] | None = None
    where: str = ""


@dataclass(frozen=True)
class Load:
    """A part of the data that is loaded by whoever works on it, and how many blocks to make of it."""

    part: Part
    number: int
    aim: int
    portion: int = PORTION

    def opened(self, formulation: Formulation) -> _Opened:
        """The tasks of the part."""
        trajectories = list(same_variables(self.part()))
        if not trajectories:
            return _Opened((), joined=True)
        named = [
            trajectory if trajectory.name else replace(trajectory, name=f"part {self.number}, {k}")
            for k, trajectory in enumerate(trajectories)
        ]
        work = tasks(
            iter(named), formulation, self.aim, [len(trajectory) for trajectory in named], self.portion
        )
        return _Opened(work, True, (trajectories[0].states, trajectories[0].inputs), named[0].name)


def tasks(
    trajectories: Iterator[Trajectory],
    formulation: Formulation,
    aim: int,
    sizes: Sequence[int] | None,
    portion: int = PORTION,
) -> Iterator[Task]:
    """The work on all trajectories, in order; it depends on the data alone.

    A block is a run of whole trajectories when there are at least `aim` of them, and
    a contiguous part of one otherwise. Of a stream, whose end is not known, blocks
    come out smaller than needed, for the receiver to join.

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
    """Pieces that wait to become a task."""

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
    """Into how many blocks trajectory i is cut."""
    if sizes is None:
        # Of a stream nobody knows how many trajectories follow: cut as if this one were the last, and let
        # the receiver join what turns out too small.
        return -(-aim * samples // seen) if i < aim else 1
    return max(1, round(aim * samples / sum(sizes))) if len(sizes) < aim else 1


def _complete(i: int, held: int, seen: int, aim: int, sizes: Sequence[int] | None) -> bool:
    """Whether a block ends with trajectory i."""
    if sizes is None:
        return held >= seen / (2 * aim)
    if len(sizes) < aim or i + 1 == len(sizes):
        return True
    # By the middles of the trajectories: a long one belongs to the block that most of it lies in.
    here, following = seen - sizes[i] / 2, seen + sizes[i + 1] / 2
    total = sum(sizes)
    return int(aim * here / total) != int(aim * following / total)


def _groups(
    trajectory: Trajectory, formulation: Formulation, parts: int, most: int
) -> tuple[list[list[Piece]], int]:
    """The pieces of a trajectory in that many contiguous groups, and how many segments were too short."""
    segments = trajectory.segments()
    usable = [s for s in segments if len(s) >= formulation.min_samples]
    total = sum(len(s) for s in usable)
    groups: dict[int, list[Piece]] = {}
    before = 0
    for segment in usable:
        edges = formulation.edges(len(segment))
        # Step 2: a window goes to the part that its middle lies in.
        middles = (edges[:-1] + edges[1:]) / 2 + before
        group = (middles * parts / total).astype(int)
        portion = edges[:-1] // most
        cuts = np.flatnonzero((np.diff(group) != 0) | (np.diff(portion) != 0)) + 1
        for a, b in zip([0, *cuts], [*cuts, len(middles)], strict=True):
            groups.setdefault(int(group[a]), []).append(Piece(*formulation.nearby(segment, edges[a : b + 1])))
        before += len(segment)
    return list(groups.values()), len(segments) - len(usable)
