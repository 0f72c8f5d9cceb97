"""Field: values on a rectangular grid of space and time."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from copy import copy
from os import PathLike
from typing import Any

import numpy as np

from cindy._arrays import Floats
from cindy._check import (
    did_you_mean,
    floats,
    increasing,
    numbers,
    positive,
    short,
    stretch,
    text,
    unique_names,
)
from cindy.data.files import arrays_of_file, from_dataset
from cindy.data.grid_statistics import grid_noise, without_noise
from cindy.data.moments import in_seconds, seconds, time_column, unit_in_name
from cindy.data.trajectory import GRID, html_table
from cindy.errors import DataError

_DIMENSIONS = 3
"""Axes of space that a field may have at most."""


class Field:
    """One or more fields measured on a rectangular grid of one to three axes of space, and of time.

    A missing value is NaN or masked; rows of the regression that would need it are left out. Values are read
    in slabs of time when they are needed, so that a field may live in a file that is larger than memory.

    arrays: given by keyword; arrays of one dimension are coordinates, all others are fields, whose
        dimensions are the coordinates in the order given
    data: in place of the keywords a dictionary of arrays, which may have any names, an xarray Dataset, or the
        path of a netCDF or npz file
    periodic: names of the axes on which the last sample is followed by the first; {"x": length} where the
        grid is not uniform
    inputs: known fields without noise or equation, {"a": values over space, or over space and time}; a text
        names a coordinate
    mask: True where a value must not be used; over space, or over space and time
    time: the name of the coordinate of time; by default the one called t, time, date or similar
    time_unit: the unit of time, such as "s"; dates and the attributes of netCDF files give it, too

    >>> x, t = np.linspace(0, 1, 50, endpoint=False), np.linspace(0, 2, 30)
    >>> Field(u=np.sin(2 * np.pi * (x[:, None] - t)), x=x, t=t, periodic="x")
    Field(u over x × t, 50 × 30, periodic in x)
    """

    states: tuple[str, ...]
    inputs: tuple[str, ...]
    axes: tuple[str, ...]
    time: str
    time_unit: str
    name: str
    weight: float
    stopped: str | None

    def __init__(
        self,
        data: Any = None,
        /,
        *,
        periodic: str | Iterable[str] | Mapping[str, float] = (),
        inputs: str | Iterable[str] | Mapping[str, Any] = (),
        mask: Any = None,
        time: str | None = None,
        time_unit: str = "",
        name: str = "",
        weight: float = 1.0,
        stopped: str | None = None,
        **arrays: Any,
    ) -> None:
        self.name, self.stopped = text(name, "Field: `name`"), stopped
        self._where = f'Field "{name}"' if name else "Field"
        if time is not None:
            text(time, f"{self._where}: `time`")
        self.weight = positive(weight, f"{self._where}: `weight`")
        units: dict[str, str] = {}
        if data is not None:
            if arrays:
                raise DataError(f"{self._where}: pass a Dataset or arrays by name, not both.")
            if isinstance(data, dict):
                arrays = data
            else:
                is_path = isinstance(data, (str, PathLike))
                arrays, units = (arrays_of_file if is_path else from_dataset)(data, time, self._where)
        order, values = _coordinates_and_fields(arrays, self._where)
        self.time = str(time_column(order) or "t") if time is None else time
        if self.time not in order:
            raise DataError(
                f'{self._where}: the coordinate of time "{self.time}" is missing; there are '
                f"{', '.join(order) or 'none'}. Pass it, or name another with `time`."
            )
        self.axes = tuple(axis for axis in order if axis != self.time)
        if not 1 <= len(self.axes) <= _DIMENSIONS:
            raise DataError(
                f"{self._where}: one to {_DIMENSIONS} axes of space are needed, but there are "
                f"{len(self.axes)}. Values at one place are a Trajectory."
            )
        moments, unit = _moments(order[self.time], self.time, units.get(self.time, ""))
        self.time_unit = text(time_unit, f"{self._where}: `time_unit`") or unit
        self._coordinates = {
            axis: _increasing(moments if axis == self.time else order[axis], axis, self._where)
            for axis in (*self.axes, self.time)
        }
        self.states = unique_names(values, f"{self._where}: fields")
        if not self.states:
            raise DataError(f"{self._where}: there is no field: every array has one dimension.")
        # Arrays, or objects that read them from a file when they are indexed.
        self._grids: dict[str, Any] = {
            state: _in_order(values[state], state, tuple(order), self.axes, self) for state in self.states
        }
        self._periods = _periods(periodic, self)
        self.inputs = self._take_inputs(inputs)
        self._mask = None if mask is None else _broad(_as_mask(mask, self._where), "mask", self)

    def _take_inputs(self, inputs: str | Iterable[str] | Mapping[str, Any]) -> tuple[str, ...]:
        """Add the grids of the inputs, and return their names."""
        if isinstance(inputs, str):
            inputs = [inputs]
        if not isinstance(inputs, Mapping):
            inputs = {name: name for name in unique_names(inputs, f"{self._where}: `inputs`")}
        for name, given in inputs.items():
            if isinstance(given, str):
                axis = self._axis(given, "inputs")
                shape = [1] * (len(self.axes) + 1)
                shape[axis] = -1
                # A view takes no memory, however large the grid is.
                values = np.broadcast_to(self._coordinates[given].reshape(shape), self.shape)
            else:
                values = _broad(numbers(given, f"{self._where}: input {name!r}"), name, self)
            self._grids[name] = values
        names = tuple(inputs)
        unique_names((*self.states, *names), f"{self._where}: fields and inputs together")
        return names

    def _axis(self, name: str, argument: str) -> int:
        """The number of the axis of that name; `argument` is where the user named it."""
        axes = (*self.axes, self.time)
        if not isinstance(name, str) or name not in axes:
            raise DataError(
                f"{self._where}: `{argument}` names {name!r}, which is no axis. {did_you_mean(name, axes)}"
            )
        return axes.index(name)

    @property
    def shape(self) -> tuple[int, ...]:
        """Samples along the axes of space, then of time."""
        return tuple(len(self._coordinates[axis]) for axis in (*self.axes, self.time))

    @property
    def variables(self) -> tuple[str, ...]:
        """Fields, then inputs: the variables of a basis."""
        return self.states + self.inputs

    @property
    def dimension(self) -> int:
        """Number of fields that have an equation."""
        return len(self.states)

    @property
    def t(self) -> Floats:
        """(n,) times."""
        return self._coordinates[self.time]

    def coordinate(self, axis: str) -> Floats:
        """The coordinate of an axis, or of time."""
        self._axis(axis, "coordinate")
        return self._coordinates[axis]

    def period(self, axis: str) -> float | None:
        """The length after which an axis repeats itself; None if it is not periodic."""
        self._axis(axis, "period")
        return self._periods.get(axis)

    def uniform(self, axis: str) -> bool:
        """Whether the samples along an axis are equally spaced."""
        steps = np.diff(self.coordinate(axis))
        return len(steps) == 0 or bool(np.ptp(steps) <= GRID.uneven * abs(float(np.mean(steps))))

    def __len__(self) -> int:
        return len(self.t)

    def _repr_html_(self) -> str:
        """The axes as a table for notebooks; the values are not read."""
        cells = [("axis", "points", "from", "to")]
        for axis, points in zip((*self.axes, self.time), self.shape, strict=True):
            values = self.coordinate(axis)
            cells.append((axis, str(points), f"{values[0]:.6g}", f"{values[-1]:.6g}"))
        return html_table(repr(self), cells)

    def __repr__(self) -> str:
        variables = ", ".join(self.variables)
        grid = " × ".join(map(str, self.shape))
        periodic = f", periodic in {', '.join(self._periods)}" if self._periods else ""
        name = f'"{self.name}": ' if self.name else ""
        return f"Field({name}{variables} over {' × '.join((*self.axes, self.time))}, {grid}{periodic})"

    def __getitem__(self, name: str) -> Floats:
        """The whole of one field or input, (space …, time)."""
        return self.slab(name, 0, len(self))

    def slab(self, name: str, start: int, stop: int) -> Floats:
        """A field or an input at the times start … stop − 1: (space …, stop − start), NaN where missing."""
        if not isinstance(name, str) or name not in self._grids:
            raise DataError(f"{self._where}: there is no field {name!r}. {did_you_mean(name, self._grids)}")
        try:
            # Only this slab is read from the file, which may be larger than memory.
            raw = self._grids[name][..., start:stop]
            values = np.ma.filled(np.ma.asarray(raw).astype(np.float64), np.nan)
        # A file is read only now; a damaged one may raise any error of the library that reads it.
        except (Exception, MemoryError) as error:
            raise DataError(f"{self._where}: {name!r} cannot be read: {error}.") from error
        if np.isinf(values).any():
            raise DataError(
                f"{self._where}: {name!r} holds infinite values. Write NaN where values are missing."
            )
        if self._mask is not None:
            values = np.where(self._mask[..., start:stop], np.nan, values)
        return values

    def part(self, start: int, stop: int) -> Field:
        """The field at the times start … stop − 1, read into memory."""
        stretch(start, stop, len(self), self._where, "times")
        part = copy(self)
        part._coordinates = {**self._coordinates, self.time: self.t[start:stop]}
        part._grids = {name: self.slab(name, start, stop) for name in self._grids}
        # `slab` has applied the mask.
        part._mask = None
        return part

    @property
    def first(self) -> Field:
        """The field at its first time, from which a simulation starts."""
        return self.part(0, 1)

    @property
    def last(self) -> Field:
        """The field at its last time."""
        return self.part(len(self) - 1, len(self))

    def with_values(self, t: Any, values: Mapping[str, Any], *, stopped: str | None = None) -> Field:
        """A field with other values and times on the same axes of space, and without inputs."""
        if not isinstance(values, Mapping):
            raise DataError(f"{self._where}: `values` must be arrays by name, but is {short(values)}.")
        arrays: dict[str, Any] = {axis: self._coordinates[axis] for axis in self.axes}
        unique_names(values, f"{self._where}: `values`")
        arrays |= {self.time: t, **values}
        return Field(
            arrays,
            periodic=self._periods,
            time=self.time,
            time_unit=self.time_unit,
            name=self.name,
            stopped=stopped,
        )

    def with_inputs_of(self, other: Field) -> Field:
        """This field with the inputs of another one on the same grid."""
        if not isinstance(other, Field):
            raise DataError(f"{self._where}: expected another Field, but got {short(other)}.")
        joined = copy(self)
        joined.inputs = other.inputs
        joined._grids = self._grids | {name: other._grids[name] for name in other.inputs}
        return joined

    def smoothed(self) -> Field:
        """The fields after most of their noise has been removed by thresholding their waves.

        A wave is kept if its amplitude exceeds σ √(2 log n), a threshold that noise alone hardly ever exceeds
        (Donoho and Johnstone, Biometrika 81, 1994). Identification needs no smoothed data; a simulation may
        start from them.
        """
        coordinates = [self._coordinates[axis] for axis in (*self.axes, self.time)]
        values = {}
        for state in self.states:
            measured = self[state]
            if np.isnan(measured).any():
                raise DataError(f"{self._where}: {state!r} has missing values and cannot be smoothed.")
            noise = grid_noise(measured, coordinates)
            values[state] = without_noise(measured, noise, [axis in self._periods for axis in self.axes])
        return self.with_values(self.t, values).with_inputs_of(self)

    def to_xarray(self) -> Any:
        """The fields as an xarray Dataset (extra: data)."""
        import xarray

        dims = (*self.axes, self.time)
        return xarray.Dataset(
            {name: (dims, self[name]) for name in self.states},
            coords={axis: self._coordinates[axis] for axis in dims},
        )


def as_fields(data: Any) -> list[Field]:
    """A list of fields, checked to have the same variables and axes."""
    try:
        fields = [data] if isinstance(data, Field) else list(data)
    except TypeError:
        raise DataError(f"Expected a Field or a list of them, but got {short(data)}.") from None
    for i, field in enumerate(fields):
        if not isinstance(field, Field):
            raise DataError(f"Fields and other data cannot be mixed: item {i} is a {type(field).__name__}.")
        for names in ("states", "inputs", "axes"):
            expected, got = getattr(fields[0], names), getattr(field, names)
            if expected != got:
                raise DataError(
                    f"All fields must have the same {names}, but field 0 has ({', '.join(expected)}) and "
                    f"field {i} has ({', '.join(got)}). Give all the same names in the same order."
                )
    return fields


def _in_order(values: Any, name: str, order: tuple[str, ...], axes: tuple[str, ...], field: Field) -> Any:
    """The values over the axes of space and then time, whatever order the coordinates were given in."""
    grid_axes = (*axes, field.time)
    lengths = {axis: len(field._coordinates[axis]) for axis in grid_axes}
    array = values if hasattr(values, "shape") and hasattr(values, "__getitem__") else np.asarray(values)
    if getattr(getattr(array, "dtype", None), "kind", "") == "c":
        raise DataError(
            f"{field._where}: {name!r} must be real, but holds complex numbers. Pass real and imaginary "
            "parts as two fields."
        )
    dims = getattr(values, "dims", None)
    order = tuple(dims) if dims is not None and set(dims) == set(grid_axes) else order
    expected = tuple(lengths[axis] for axis in order)
    if tuple(array.shape) != expected:
        hint = " Pass the transpose." if tuple(array.shape) == expected[::-1] else ""
        raise DataError(
            f"{field._where}: {name!r} must have shape {expected}, for ({', '.join(order)}), but has "
            f"{tuple(array.shape)}.{hint}"
        )
    if order == grid_axes and isinstance(array, np.ndarray):
        return array
    return _Moved(array, tuple(order.index(axis) for axis in grid_axes))


def _broad(values: Any, name: str, field: Field) -> Any:
    """Values over space, or over space and time, broadcast to space and time."""
    shape = field.shape
    if values.shape == shape[:-1] and values.shape != shape:
        values = values[..., None]
    try:
        return np.broadcast_to(values, shape)
    except ValueError as error:
        raise DataError(
            f"{field._where}: {name!r} must have shape {shape}, or {shape[:-1]} over space alone, "
            f"but has {values.shape}."
        ) from error


def _periods(periodic: str | Iterable[str] | Mapping[str, float], field: Field) -> dict[str, float]:
    given: Mapping[str, float | None]
    if not isinstance(periodic, Iterable):
        raise DataError(
            f"{field._where}: `periodic` must name axes, as in periodic='x', but is {periodic!r}."
        )
    if isinstance(periodic, Mapping):
        given = periodic
    else:
        names = [periodic] if isinstance(periodic, str) else periodic
        given = dict.fromkeys(unique_names(names, f"{field._where}: `periodic`"))
    lengths = {}
    for axis, length in given.items():
        if field._axis(axis, "periodic") == len(field.axes):
            raise DataError(f"{field._where}: time cannot be periodic.")
        x = field._coordinates[axis]
        if length is None:
            if not field.uniform(axis):
                raise DataError(
                    f"{field._where}: {axis!r} is periodic but not uniform, so its length must be said: "
                    f"periodic={{{axis!r}: length}}."
                )
            # The point after the last one is the first again, so that n samples span n steps, not n − 1.
            length = float(x[-1] - x[0]) * len(x) / max(len(x) - 1, 1)
        length = positive(length, f"{field._where}: the period of {axis!r}")
        if length <= x[-1] - x[0]:
            raise DataError(
                f"{field._where}: the period of {axis!r} must exceed {x[-1] - x[0]:g}, the distance from "
                f"its first sample to its last, but is {length:g}. Drop the sample that repeats the first."
            )
        lengths[axis] = float(length)
    return lengths


def _coordinates_and_fields(arrays: Mapping[str, Any], where: str) -> tuple[dict[str, Any], dict[str, Any]]:
    """The coordinates (arrays of one dimension) and the fields, each in the order given."""
    coordinates: dict[str, Any] = {}
    values: dict[str, Any] = {}
    for name, array in arrays.items():
        try:
            dimensions = np.ndim(array)
        except (TypeError, ValueError) as error:
            raise DataError(f"{where}: {name!r} must be an array of numbers: {error}.") from error
        if dimensions == 0:
            raise DataError(f"{where}: {name!r} must be an array, but is {array!r}.")
        (coordinates if dimensions == 1 else values)[name] = array
    return coordinates, values


def _moments(values: Any, name: str, unit: str) -> tuple[Any, str]:
    """The coordinate of time and its unit; dates, and numbers with a unit of netCDF, come out in seconds."""
    try:
        converted = in_seconds(values, unit)
        converted = seconds(values) if converted is None else converted
    except (TypeError, ValueError):  # ragged, or no array at all; `_increasing` then says what is wrong
        converted = None
    return (values, unit or unit_in_name(name)) if converted is None else (converted, "s")


def _as_mask(mask: Any, where: str) -> Any:
    try:
        return np.asarray(mask, dtype=bool)
    except (TypeError, ValueError) as error:
        raise DataError(f"{where}: `mask` must be an array of True and False: {error}.") from error


def _increasing(values: Any, axis: str, where: str) -> Floats:
    coordinate = floats(np.asarray(values), f"{where}: `{axis}`", ndim=1)
    advice = {"repeated": "Keep one sample of each place.", "unsorted": "Sort the grid along this axis."}
    increasing(coordinate, axis, where, **advice)
    return _unrounded(coordinate)


def _unrounded(coordinate: Floats) -> Floats:
    """The coordinate; if its equal steps were rounded to single precision, in double precision."""
    if len(coordinate) < 3 or not np.array_equal(coordinate, coordinate.astype(np.float32)):
        return coordinate
    even = np.linspace(coordinate[0], coordinate[-1], len(coordinate))
    precision = float(np.finfo(np.float32).eps) * float(np.max(np.abs(coordinate[[0, -1]])))
    # Rounding moves each value by up to half of the precision, and the two ends of the even grid likewise.
    return even if float(np.max(np.abs(even - coordinate))) <= precision else coordinate


class _Moved:
    """A grid whose axes are stored in another order, transposed slab by slab."""

    def __init__(self, grid: Any, order: tuple[int, ...]) -> None:
        self._grid, self._order = grid, order

    @property
    def shape(self) -> tuple[int, ...]:
        return tuple(self._grid.shape[axis] for axis in self._order)

    def __getitem__(self, key: Any, /) -> Any:
        selection = [slice(None)] * len(self._order)
        selection[self._order[-1]] = key[-1]
        raw = self._grid[tuple(selection)]
        raw = getattr(raw, "values", raw)
        return raw.transpose(self._order)
