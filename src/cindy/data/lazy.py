"""Lazy: trajectories that are loaded when they are asked for."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass

from cindy.data.trajectory import Trajectory, same_variables
from cindy.errors import DataError

__all__ = ["Held", "Lazy", "Part", "glimpse"]

Part = Callable[[], list[Trajectory]]
"""Gives some trajectories, the same ones each time it is called; can be sent to another process."""


@dataclass(frozen=True)
class Held:
    """A part that is in memory."""

    trajectories: tuple[Trajectory, ...]

    def __call__(self) -> list[Trajectory]:
        return list(self.trajectories)


def glimpse(part: Part, samples: int) -> list[Trajectory]:
    """The trajectories of a part, of which no more than the first so many samples need be right.

    A part that can be opened without loading it whole has a method of this name; any other is loaded.
    """
    look: Callable[[int], list[Trajectory]] | None = getattr(part, "glimpse", None)
    return part() if look is None else look(samples)


class Lazy:
    """Trajectories that are loaded when they are asked for, and as often as they are.

    Iterating loads one part after the other; functions that take trajectories take it as it is.

    parts: callables without arguments, each of which loads some trajectories; to be used
        by other processes they must be picklable, so functions of a module and no lambdas
    source: what they are loaded from, in words

    >>> t = [0.0, 0.1, 0.2]
    >>> data = Lazy([lambda: [Trajectory(t, t)], lambda: [Trajectory(t, [1, 4, 9])]], "two functions")
    >>> data
    Lazy(2 parts of two functions)
    >>> len(list(data)), len(list(data))
    (2, 2)
    """

    def __init__(self, parts: Iterable[Part], source: str = "data") -> None:
        self.parts = tuple(parts)
        self.source = str(source)
        if not self.parts:
            raise DataError(f"Lazy: there are no parts of {self.source} to load.")
        for part in self.parts:
            if not callable(part):
                raise DataError(f"Lazy: a part must be a function that loads trajectories, but is {part!r}.")

    def __iter__(self) -> Iterator[Trajectory]:
        return same_variables(one for part in self.parts for one in part())

    def __repr__(self) -> str:
        return f"Lazy({len(self.parts)} part{'s' if len(self.parts) > 1 else ''} of {self.source})"
