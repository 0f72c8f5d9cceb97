"""The triangular factor of rows that come in one lot after the other."""

from __future__ import annotations

from dataclasses import dataclass, replace
from itertools import islice
from typing import Any, Protocol

import numpy as np
import scipy.linalg.lapack

from cindy._types import Floats
from cindy.basis import Basis
from cindy.data import LOOK, Part, Trajectory, glimpse
from cindy.errors import DataError
from cindy.formulation import Formulation
from cindy.least_squares import LeastSquares
from cindy.summary.pieces import PORTION, Load, Origin, Piece, Task
from cindy.summary.summary import Summary, add_up

__all__ = ["Factored", "Factoring", "Gathering", "Glimpse", "RunningTriangle"]

_LOT = 512
"""Rows worked on together: fewer would be mostly overhead."""
_PANEL = 32
"""Columns that are eliminated one by one before the rest is brought up to date with them all at once."""
_NARROW_PANEL = 16
"""The same for narrow matrices."""
_NARROW = range(33, 257)
"""Columns of matrices for which a panel takes half of the work: with 61 of them sums are a tenth faster by
the narrower panel (`python -m benchmarks stream`)."""


class RunningTriangle:
    """The R factor of all rows added so far, brought up to date lot by lot."""

    def __init__(self) -> None:
        self.rows = 0
        self._triangle: Floats | None = None
        self._waiting: list[Floats] = []
        self._height = 0

    def add(self, matrix: Floats) -> None:
        """Add the rows of a matrix, which is overwritten."""
        if len(matrix) == 0:
            return
        self.rows += len(matrix)
        self._height += len(matrix)
        self._waiting.append(matrix)
        if self._height >= _LOT:
            self._work()

    def factor(self) -> Floats:
        """(min(rows, columns), columns), upper triangular; (0, 0) when there were no rows."""
        if self._waiting:
            self._work()
        if self._triangle is None:
            return np.zeros((0, 0))
        return np.ascontiguousarray(self._triangle[: min(self.rows, len(self._triangle))])

    def _work(self) -> None:
        lot = self._waiting[0] if len(self._waiting) == 1 else np.concatenate(self._waiting)
        self._waiting, self._height = [], 0
        width = lot.shape[1]
        if self._triangle is None:
            self._triangle = np.zeros((width, width), order="F")
        panel = _NARROW_PANEL if width in _NARROW else _PANEL
        # Only the lot is dense: a plain QR of both would work on the zeros of the triangle too.
        self._triangle, _, _, _ = scipy.linalg.lapack.dtpqrt(
            0, min(panel, width), self._triangle, np.asfortranarray(lot), overwrite_a=True, overwrite_b=True
        )


DEVICE_PORTION = 4_194_304
"""Samples in a task for a device, before terms are counted (`python -m benchmarks gpu`)."""
_GLIMPSE = 20_000
"""Samples of a trajectory that settings are chosen by: five times what any of them looks at."""


@dataclass(frozen=True, eq=False)
class Factored:
    """What became of a task: small, whatever the task had to go through.

    factors: (factor, rows, origin, closes) of runs of samples, in order; `closes` where a block ends
    samples, skipped, read: samples used, segments too short to be used, samples gone through
    variables: states and inputs, where they were loaded on the spot; where: what to call the part
    """

    factors: tuple[tuple[Floats, int, Origin | None, bool], ...]
    samples: int
    skipped: int
    read: int
    variables: tuple[tuple[str, ...], tuple[str, ...]] | None
    where: str


class _Factor(Protocol):
    """Rows of pieces, factorised as they come."""

    @property
    def rows(self) -> int: ...

    def add(self, piece: Piece) -> None: ...

    def factor(self) -> Floats: ...


@dataclass(frozen=True)
class Factoring:
    """The work on one task: a function of the task and of these settings, and of nothing else."""

    basis: Basis
    formulation: Formulation
    chunk: int
    device: Any = None

    @property
    def portion(self) -> int:
        """Samples in a task: many for a device, which is idle while small ones are prepared."""
        return PORTION if self.device is None else DEVICE_PORTION

    def __call__(self, task: Task | Load) -> Factored:
        opened = task.opened(self.formulation)
        factors: list[tuple[Floats, int, Origin | None, bool]] = []
        samples = skipped = read = 0
        running, origin = self._begin(), None
        for one in opened.tasks:
            for piece in one.pieces:
                running.add(piece)
            samples, skipped, read = samples + one.samples, skipped + one.skipped, read + one.read
            if one.origin is not None:
                origin = one.origin if origin is None else origin + one.origin
            if one.closes or not opened.joined:
                factors.append((_finite(running, origin), running.rows, origin, one.closes))
                running, origin = self._begin(), None
        return Factored(tuple(factors), samples, skipped, read, opened.variables, opened.where)

    def _begin(self) -> _Factor:
        if self.device is None:
            return _OnHost(self.basis, self.formulation, self.chunk)
        from cindy.summary.backends.gpu import OnDevice

        return OnDevice(self.basis, self.formulation, self.device)


class _OnHost:
    """By numpy and LAPACK, a chunk of samples at a time."""

    def __init__(self, basis: Basis, formulation: Formulation, chunk: int) -> None:
        self._basis, self._formulation, self._chunk = basis, formulation, chunk
        self._running = RunningTriangle()

    @property
    def rows(self) -> int:
        return self._running.rows

    def add(self, piece: Piece) -> None:
        ends = np.cumsum(np.diff(piece.edges))
        first = 0
        while first < len(ends):
            before = ends[first - 1] if first else 0
            last = max(int(np.searchsorted(ends, before + self._chunk, side="right")), first + 1)
            edges = piece.edges[first : last + 1]
            self._running.add(self._formulation.matrix(piece.segment, self._basis, edges))
            first = last

    def factor(self) -> Floats:
        return self._running.factor()


def _finite(running: _Factor, origin: Origin | None) -> Floats:
    factor = running.factor()
    if not np.isfinite(factor).all():
        where = origin.label if origin else "the data"
        raise DataError(
            f"accumulate: on {where} a term takes values beyond floating point. "
            "Use other units for the states, or a lower degree."
        )
    return factor


@dataclass(frozen=True)
class Glimpse:
    """The beginnings of the first trajectories of a part: enough to choose settings by."""

    def __call__(self, part: Part) -> list[Trajectory]:
        return [_beginning(one) for one in islice(glimpse(part, _GLIMPSE), LOOK)]


def _beginning(one: Trajectory) -> Trajectory:
    """At most so many samples, in memory of their own: the rest of a long one is not to be kept for them."""
    if len(one) <= _GLIMPSE:
        return one
    few = slice(0, _GLIMPSE)
    known = None if one.u is None else one.u[few].copy()
    return replace(one, t=one.t[few].copy(), x=one.x[few].copy(), u=known)


@dataclass(frozen=True, eq=False)
class _Block:
    objective: LeastSquares
    origin: Origin

    def __add__(self, other: _Block) -> _Block:
        return _Block(add_up((self.objective, other.objective)), self.origin + other.origin)


class Gathering:
    """Blocks as they come in; of a stream without end never more than twice as many as wanted."""

    def __init__(self, aim: int, terms: int, *, stream: bool) -> None:
        self.aim, self.terms, self.stream = aim, terms, stream
        self.blocks: list[_Block] = []
        self.parts: list[LeastSquares] = []
        self.origin: Origin | None = None
        self.samples = self.skipped = 0

    def add(self, made: Factored) -> None:
        """Take in what became of a task; tasks come in order."""
        self.samples += made.samples
        self.skipped += made.skipped
        for factor, rows, origin, closes in made.factors:
            if origin is not None:
                self.parts.append(LeastSquares(factor, self.terms, rows))
                self.origin = origin if self.origin is None else self.origin + origin
            if closes and self.origin is not None:
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
        """The summary of all that came in, for trajectories like the given one."""
        if self.stream:
            self._merge()
        if not self.blocks:
            least = f"{formulation.min_samples} samples that {type(formulation).__name__} needs"
            short = (
                f"each of the {self.skipped} stretch(es) without missing values has fewer than the {least}"
            )
            raise DataError(
                f"accumulate: nothing is left: {short if self.skipped else 'no sample has all its values'}. "
                + ("Give longer trajectories." if self.skipped else "Leave out the states that are missing.")
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
