"""What a field is made of: coordinates, grids in any order of axes, data sets."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from cindy._check import floats
from cindy._types import Floats
from cindy.errors import DataError

__all__ = ["Moved", "floats_any", "from_dataset", "increasing", "sorted_out"]


def floats_any(values: Any, where: str) -> Floats:
    """Numbers of any shape; masked ones become NaN."""
    try:
        return np.ma.filled(np.ma.asarray(values).astype(np.float64), np.nan)
    except (TypeError, ValueError) as error:
        raise DataError(f"{where} must be numbers: {error}.") from error


def sorted_out(arrays: Mapping[str, Any], where: str) -> tuple[dict[str, Any], dict[str, Any]]:
    """Coordinates and fields, each in the order given."""
    coordinates: dict[str, Any] = {}
    values: dict[str, Any] = {}
    for name, array in arrays.items():
        dimensions = getattr(array, "ndim", None)
        dimensions = np.ndim(array) if dimensions is None else dimensions
        if dimensions == 0:
            raise DataError(f"{where}: {name!r} must be an array, but is {array!r}.")
        (coordinates if dimensions == 1 else values)[name] = array
    return coordinates, values


def increasing(values: Any, axis: str, where: str) -> Floats:
    array = np.asarray(values)
    if array.dtype.kind == "M":
        array = (array - array[0]) / np.timedelta64(1, "s")
    result = floats(array, f"{where}: `{axis}`", ndim=1)
    bad = np.flatnonzero(np.diff(result) <= 0)
    if len(bad):
        i = int(bad[0])
        raise DataError(
            f"{where}: `{axis}` must increase, but {axis}[{i}] = {result[i]:g} is followed by "
            f"{axis}[{i + 1}] = {result[i + 1]:g}. Sort the grid along this axis."
        )
    return result


class Moved:
    """A grid whose axes come in another order, read slab by slab."""

    def __init__(self, grid: Any, order: tuple[int, ...]) -> None:
        self._grid, self._order = grid, order

    @property
    def shape(self) -> tuple[int, ...]:
        return tuple(self._grid.shape[k] for k in self._order)

    def __getitem__(self, key: Any, /) -> Any:
        times = key[-1]
        inner = [slice(None)] * len(self._order)
        inner[self._order[-1]] = times
        raw = self._grid[tuple(inner)]
        raw = getattr(raw, "values", raw)
        return raw.transpose(self._order)


def from_dataset(data: Any, time: str, where: str) -> dict[str, Any]:
    """Coordinates and fields of an xarray Dataset, the fields unread."""
    if hasattr(data, "to_dataset"):
        data = data.to_dataset(name=data.name or "u")
    if not (hasattr(data, "data_vars") and hasattr(data, "coords")):
        raise DataError(
            f"{where}: expected arrays by name or an xarray Dataset, but got {type(data).__name__}. "
            "Write Field(u=u, x=x, t=t)."
        )
    fields = {str(name): values for name, values in data.data_vars.items() if values.ndim > 1}
    if not fields:
        raise DataError(f"{where}: the Dataset holds no variable over space and time.")
    dims = next(iter(fields.values())).dims
    order = [d for d in dims if d != time] + [d for d in dims if d == time]
    missing = [str(d) for d in order if d not in data.coords]
    if missing:
        raise DataError(f"{where}: the Dataset has no coordinate for its dimension {missing[0]!r}.")
    return {**{str(d): np.asarray(data.coords[d].values) for d in order}, **fields}
