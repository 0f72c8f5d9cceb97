"""What a run leaves behind: steps, status, the path, and the point with its certificate."""

from collections.abc import Callable
from dataclasses import dataclass, field
from enum import StrEnum
from functools import partial
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from cindy._types import Floats, Ints

__all__ = ["Nonzeros", "Result", "Snapshot", "Status", "Step", "Trace", "way_back"]


# Gives back a flat iterate.
Snapshot = Callable[[], Floats]
# Flat indices and the values there.
Nonzeros = tuple[NDArray[np.int32], Floats]


class Trace:
    """Snapshots of a run with the number of nonzeros of each, in order.

    All are kept until they hold more nonzeros than `room` together; from then
    on a snapshot must differ in size from the one before by a few per cent, so
    that small supports all stay and large ones thin out. The newest always
    stays until the next comes.
    """

    def __init__(self, room: int) -> None:
        self._room = room
        self._held = 0
        self._spacing = 0.0
        self._entries: list[tuple[int, Snapshot]] = []

    def add(self, size: int, snapshot: Snapshot) -> None:
        """Keep a snapshot of about `size` nonzeros."""
        if self._spacing > 0.0 and len(self._entries) > 1 and self._near(-1, -2):
            self._held -= self._entries.pop()[0]
        self._entries.append((size, snapshot))
        self._held += size
        while self._held > self._room and self._spacing < 1.0:
            self._thin_out()

    def path(self) -> tuple[tuple[Ints, Floats], ...]:
        """(flat indices of the nonzeros, flat iterate), one a support: where it came last."""
        found: dict[bytes, tuple[Ints, Floats]] = {}
        for _, snapshot in self._entries:
            flat = snapshot()
            support = np.flatnonzero(flat)
            key = support.tobytes()
            found.pop(key, None)
            found[key] = (support, flat)
        return tuple(found.values())

    def _near(self, position: int, before: int) -> bool:
        size, last = self._entries[position][0], self._entries[before][0]
        return abs(size - last) < self._spacing * last

    def _thin_out(self) -> None:
        self._spacing = max(0.01, 1.5 * self._spacing)
        kept = self._entries[:1]
        for entry in self._entries[1:-1]:
            if abs(entry[0] - kept[-1][0]) >= self._spacing * kept[-1][0]:
                kept.append(entry)
        self._entries = [*kept, *self._entries[1:][-1:]]
        self._held = sum([size for size, _ in self._entries])


def way_back(origin: Floats, parts: list[Nonzeros]) -> Snapshot:
    """To the point that differs from the origin in the given parts only."""
    return partial(_restored, origin, parts)


def _restored(origin: Floats, parts: list[Nonzeros]) -> Floats:
    flat = origin.copy()
    for indices, values in parts:
        flat[indices] = values
    return flat


class Status(StrEnum):
    """Why a run ended."""

    CONVERGED = "converged"
    ITERATIONS = "iteration limit"
    TIME = "time limit"
    STOPPED = "stopped by callback"
    STALLED = "stalled"


class Step(NamedTuple):
    """One iteration as the callback sees it: the state before the step is taken.

    gap: Frank-Wolfe gap over the whole region, absolute
    objective: ‖A x − B‖²
    atoms: how many atoms carry weight
    seconds: since the run began
    passes: data read so far, in units of the whole; of sampled rows only
    """

    iteration: int
    gap: float
    objective: float
    atoms: int
    seconds: float
    passes: float = 0.0


@dataclass(frozen=True, eq=False)
class Result:
    """A feasible point, and how far it can be from the best one.

    No point of the region has an objective below `objective − gap`: that is
    what the Frank-Wolfe gap certifies, whatever the status.

    x: (terms, targets)
    scale: loss at zero, the unit of `tol`
    history: one Step an iteration; the gap of the last is `gap`
    passes: data read, in units of the whole; 0 for a LeastSquares, which holds its data
    """

    x: Floats
    objective: float
    gap: float
    scale: float
    status: Status
    iterations: int
    oracle_calls: int
    seconds: float
    history: tuple[Step, ...] = ()
    trace: Trace | None = field(default=None, repr=False)
    passes: float = 0.0

    @property
    def relative_gap(self) -> float:
        """The gap over the loss at zero."""
        return self.gap / self.scale

    @property
    def converged(self) -> bool:
        return self.status is Status.CONVERGED

    @property
    def path(self) -> tuple[tuple[Ints, Floats], ...]:
        """The iterates along the run, one a support: (flat indices of the nonzeros, x).

        In the order of the run, each with the last values seen on that support;
        long runs thin out large supports (see `Trace`). Worked out at every
        access, from what the run kept.
        """
        if self.trace is None:
            return ((np.flatnonzero(self.x), self.x),)
        steps = [(support, flat.reshape(self.x.shape)) for support, flat in self.trace.path()]
        return (*steps[:-1], (np.flatnonzero(self.x), self.x))
