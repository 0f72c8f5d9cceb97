"""What is done with a task, wherever that is: from samples to triangular factors."""

from __future__ import annotations

from dataclasses import dataclass, replace
from itertools import islice
from typing import Any, Protocol

import numpy as np

from cindy._types import Floats
from cindy.basis import Basis
from cindy.data import LOOK, Part, Trajectory, glimpse
from cindy.errors import DataError
from cindy.formulation import Formulation
from cindy.summary.pieces import PORTION, Load, Origin, Piece, Task
from cindy.summary.running_qr import RunningTriangle

__all__ = ["Factored", "Factoring", "Glimpse"]

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
