"""Fields in files: netCDF, read slab by slab, and npz."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import numpy as np

from cindy._extras import require
from cindy.data.field_arrays import from_dataset
from cindy.errors import DataError

__all__ = ["NETCDF", "arrays_of_file"]

NETCDF = {".nc", ".nc3", ".nc4", ".cdf", ".netcdf"}


class _Stored:
    """A variable of a classic netCDF file, on disk until it is asked for."""

    def __init__(self, variable: Any, file: Any, start: int) -> None:
        data = variable.data
        self.dims, self.shape, self.ndim = tuple(variable.dimensions), tuple(data.shape), data.ndim
        place = data.__array_interface__["data"][0] - start
        # A view of our own: those of scipy keep its file open, which then cannot be closed without a warning.
        self._data = np.ndarray(data.shape, data.dtype, buffer=file, offset=place, strides=data.strides)
        known = variable._attributes
        self._fill = [known[name] for name in ("_FillValue", "missing_value") if name in known]
        self._scale, self._offset = float(known.get("scale_factor", 1.0)), float(known.get("add_offset", 0.0))

    def __getitem__(self, key: Any, /) -> Any:
        raw = self._data[key]
        values = raw.astype(np.float64)
        for fill in self._fill:
            values[raw == fill] = np.nan
        return values * self._scale + self._offset


def arrays_of_file(path: str | os.PathLike[str], time: str, where: str) -> dict[str, Any]:
    """Coordinates and fields of a file by name, the fields of netCDF unread."""
    file = Path(path)
    if not file.is_file():
        raise DataError(f"{where}: there is no file {file}.")
    if file.suffix.lower() == ".npz":
        try:
            with np.load(file, allow_pickle=False) as found:
                return {name: found[name] for name in found.files}
        except (OSError, ValueError) as error:
            raise DataError(f"{where}: {file} is not an npz file of arrays: {error}.") from error
    if file.suffix.lower() not in NETCDF:
        raise DataError(f"{where}: {file} must be netCDF (.nc) or npz.")
    with file.open("rb") as stream:
        classic = stream.read(3) == b"CDF"
    if classic:
        return _classic(file, time, where)
    xarray = require("xarray", "data", f"reading {file}, which is netCDF 4,")
    try:
        return from_dataset(xarray.open_dataset(file, decode_times=False), time, where)
    except (OSError, ValueError) as error:
        raise DataError(
            f"{where}: cannot read {file}: {error}. netCDF 4 needs h5netcdf or netCDF4 beside xarray, which "
            "the extra cindy[data] brings; classic netCDF needs nothing."
        ) from error


def _classic(file: Path, time: str, where: str) -> dict[str, Any]:
    from scipy.io import netcdf_file  # 30 ms to import

    try:
        found: Any = netcdf_file(file, "r", mmap=True)
    except (OSError, ValueError, TypeError) as error:
        raise DataError(f"{where}: {file} is not a netCDF file, or is damaged: {error}.") from error
    with found:
        start = found._mm_buf.__array_interface__["data"][0]
        disk = np.memmap(file, dtype=np.uint8, mode="r")
        stored = {name: _Stored(v, disk, start) for name, v in found.variables.items()}
    most = max((v.ndim for v in stored.values()), default=0)
    dims = next((v.dims for v in stored.values() if v.ndim == most), ())
    order = [d for d in dims if d != time] + [d for d in dims if d == time]
    missing = [d for d in order if d not in stored]
    if missing or most < 2:
        what = f"coordinate for its dimension {missing[0]!r}" if missing else "variable over space and time"
        raise DataError(f"{where}: {file} holds no {what}.")
    coordinates: dict[str, Any] = {d: np.array(stored[d][:], dtype=np.float64) for d in order}
    return coordinates | {
        name: v for name, v in stored.items() if v.ndim == most and set(v.dims) == set(dims)
    }
