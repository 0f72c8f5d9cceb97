"""The iterates along a run, kept small."""

from collections.abc import Callable
from functools import partial

import numpy as np
from numpy.typing import NDArray

from cindy._types import Floats, Ints

__all__ = ["Nonzeros", "Snapshot", "Trace", "way_back"]

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
