"""What is accepted as a trajectory; DeviceTrajectory: samples that stay on the device they were given on."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from functools import cached_property
from os import PathLike
from typing import Any

import numpy as np

from cindy._arrays import Floats, Space, device_of, is_foreign, namespace, to_numpy
from cindy._check import stretch
from cindy.data.inputs import Hold
from cindy.data.trajectory import Trajectory, is_pair
from cindy.errors import DataError

__all__ = ["DeviceTrajectory", "as_trajectory"]


class DeviceTrajectory(Trajectory):
    """A trajectory whose arrays are of PyTorch, CuPy or another library of the array API standard.

    To all that knows numpy only it is a trajectory like any other, copied when that
    is asked for. What works on the device takes the arrays as they are.

    times: (n,); columns: (n, d), both of that library
    """

    times: Any
    columns: Any

    def __init__(
        self,
        t: Any,
        x: Any,
        states: Iterable[str] | None = None,
        u: Any = None,
        inputs: Iterable[str] | None = None,
        hold: Hold = "linear",
        *,
        delay: Mapping[str, float] | None = None,
        time_unit: str = "",
        stopped: str | None = None,
        name: str = "",
        weight: float = 1.0,
    ) -> None:
        x = x[:, None] if len(x.shape) == 1 else x
        if len(x.shape) != 2 or t.shape != (x.shape[0],) or u is not None or delay:
            raise DataError(
                "A pair (t, x) on a device must be a vector and a matrix with as many rows, without inputs "
                f"or delays, but the shapes are {tuple(t.shape)} and {tuple(x.shape)}."
            )
        # The names, the weight and the direction of time are checked as ever; the samples by what uses them.
        few = min(int(x.shape[0]), 2)
        zeros = np.zeros((few, int(x.shape[1])))
        like = Trajectory(
            to_numpy(t[:few]), zeros, states, hold=hold, time_unit=time_unit, name=name, weight=weight
        )
        settings = {k: v for k, v in like.__dict__.items() if k not in ("t", "x")}
        self.__dict__.update(settings | {"stopped": stopped, "times": t, "columns": x})

    @cached_property
    def t(self) -> Floats:
        return np.asarray(to_numpy(self.times), dtype=np.float64)

    @cached_property
    def x(self) -> Floats:
        return np.asarray(to_numpy(self.columns), dtype=np.float64)

    def __len__(self) -> int:
        return int(self.columns.shape[0])

    @property
    def dimension(self) -> int:
        return int(self.columns.shape[1])

    def part(self, start: int, stop: int) -> Trajectory:
        stretch(start, stop, len(self), "Trajectory", "samples")
        part = object.__new__(DeviceTrajectory)
        settings = {k: v for k, v in self.__dict__.items() if k not in ("t", "x")}
        part.__dict__.update(
            settings | {"times": self.times[start:stop], "columns": self.columns[start:stop, :]}
        )
        return part

    def step(self, start: int, stop: int) -> float | None:
        t = self.times[start:stop]
        xp, count = namespace(t), stop - start
        first, last = float(t[0]), float(t[-1])
        step = (last - first) / (count - 1)
        ideal = xp.arange(count, dtype=xp.float64, device=device_of(t)) * step
        off = float(xp.max(xp.abs(t - first - ideal)))
        return step if off <= 4 * np.finfo(float).eps * max(abs(first), abs(last)) else None

    def on_device(self, space: Space, start: int, stop: int) -> Any:
        given = space.put(self.columns[start:stop, :])
        rows = space.xp.empty((self.dimension, stop - start), dtype=space.xp.float64, device=space.device)
        rows[...] = space.xp.permute_dims(given, (1, 0))
        return rows

    def segments(self) -> list[Trajectory]:
        xp = namespace(self.columns)
        if not bool(xp.any(xp.isnan(self.columns))):
            return [self]
        return Trajectory(self.t, self.x, self.states, name=self.name, weight=self.weight).segments()


def as_trajectory(item: Any) -> Trajectory:
    """A trajectory from a trajectory or from a pair (t, x), which may be on a device."""
    if isinstance(item, Trajectory):
        return item.aligned()
    if is_pair(item):
        if all(map(is_foreign, item)):
            return DeviceTrajectory(item[0], item[1])
        return Trajectory(*(to_numpy(part) if is_foreign(part) else part for part in item))
    raise DataError(
        f"Expected a Trajectory or a pair (t, x), but got {type(item).__name__}. " + _what_to_do(item)
    )


def _what_to_do(item: Any) -> str:
    if isinstance(item, (str, PathLike)):
        return f"If it names a file, read that first: cindy.read({str(item)!r})."
    if hasattr(item, "to_dataset"):
        return 'Turn it into a Dataset first: .to_dataset(dim="…") with the axis that lists the states.'
    if hasattr(item, "to_frame") and hasattr(item, "index"):
        return "Turn the Series into a DataFrame first, with .to_frame()."
    if isinstance(item, Mapping):
        return "Turn it into a DataFrame first, or pass (d[time], d[states])."
    if getattr(item, "ndim", 0) in (1, 2):
        return "The times are missing: pass the pair (t, x), x with one row per time."
    return "Wrap the data in cindy.Trajectory(t, x, states=…)."
