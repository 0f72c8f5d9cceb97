"""The iterates along a run, kept small."""

import numpy as np
from numpy.typing import NDArray

__all__ = ["Trace"]

Floats = NDArray[np.float64]
Ints = NDArray[np.int32]


class Trace:
    """Iterates as their nonzeros, one a support, in the order of the run.

    Supports of every size are kept until they hold more nonzeros than `room`
    together; from then on a support must differ in size from the one before by
    a few per cent, so that small supports all stay and large ones thin out.
    """

    def __init__(self, room: int) -> None:
        self._room = room
        self._held = 0
        self._spacing = 0.0
        self._entries: dict[int, tuple[Ints, Floats]] = {}

    def add(self, flat: Floats) -> None:
        """Keep a flat iterate; a support seen before takes its new place and values."""
        support = np.flatnonzero(flat).astype(np.int32)
        key = hash(support.tobytes())
        self._drop(key)
        if self._spacing > 0.0:
            self._drop_newest_if_near()
        self._entries[key] = (support, flat[support])
        self._held += len(support)
        while self._held > self._room and self._spacing < 1.0:
            self._thin_out()

    def entries(self) -> tuple[tuple[Ints, Floats], ...]:
        return tuple(self._entries.values())

    def _drop(self, key: int) -> None:
        entry = self._entries.pop(key, None)
        if entry is not None:
            self._held -= len(entry[0])

    def _drop_newest_if_near(self) -> None:
        """The newest always stays until the next comes, however near to the one before."""
        keys = reversed(self._entries)
        newest, before = next(keys, None), next(keys, None)
        if newest is not None and before is not None and self._near(newest, before):
            self._drop(newest)

    def _near(self, key: int, other: int) -> bool:
        size, last = len(self._entries[key][0]), len(self._entries[other][0])
        return abs(size - last) < self._spacing * last

    def _thin_out(self) -> None:
        self._spacing = max(0.01, 1.5 * self._spacing)
        keys = list(self._entries)
        last = keys[0]
        for key in keys[1:-1]:
            if self._near(key, last):
                self._drop(key)
            else:
                last = key
