"""Binary files: npz, parquet, Excel, Matlab and netCDF, each opened with care."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from cindy._extras import require
from cindy.data.tables import LEAST_SUSPECT, MOST_PACKED, Table, from_arrays, from_frame
from cindy.errors import DataError

__all__ = [
    "NETCDF",
    "arrays_of_file",
    "from_dataset",
    "from_excel",
    "from_matlab",
    "from_npz",
    "from_parquet",
]


_ENGINES = {".xls": "xlrd", ".ods": "odf"}


def from_excel(path: Path) -> Table:
    """The first sheet of a workbook whose first row names the columns, through pandas."""
    engine = _ENGINES.get(path.suffix.lower(), "openpyxl")
    try:
        import pandas as pd

        __import__(engine)
    except ImportError as error:
        raise DataError(
            f"{path}: reading this needs pandas and {engine}, and {error.name} is missing. "
            'Install them with pip install "cindy[data]".'
        ) from error
    try:
        frame = pd.read_excel(path, engine=engine)  # type: ignore[call-overload]
    # A damaged file may fail in any part of pandas, of the engine or of zipfile, each with errors of its own.
    except (Exception, MemoryError) as error:
        said = str(error).rstrip(".") or type(error).__name__
        raise DataError(f"{path} cannot be read as a workbook: {said}.") from error
    empty = [str(name) for name in frame.columns if str(name).startswith("Unnamed:")]
    blank = [name for name in empty if frame[name].isna().all()]
    frame = frame.drop(columns=blank).dropna(how="all")
    if len(empty) > len(blank):
        raise DataError(
            f"{path}: a column of the first sheet has no name. The first row must name the columns."
        )
    return from_frame(frame.reset_index(drop=True), str(path))


def from_matlab(path: Path) -> Table:
    """The variables of a Matlab file: vectors are columns; matrices x and u as in an npz file."""
    from scipy.io import loadmat

    try:
        found = loadmat(path, squeeze_me=False, chars_as_strings=True)
    except NotImplementedError as error:
        raise DataError(
            f"{path} is a Matlab file of version 7.3, which is not read. Save it with save(…, '-v7')."
        ) from error
    # A damaged file may fail in any part of scipy or zlib, each with errors of its own.
    except (Exception, MemoryError) as error:
        said = str(error).rstrip(".") or type(error).__name__
        raise DataError(f"{path} cannot be read as a Matlab file: {said}.") from error
    arrays = {name: _plain(value) for name, value in found.items() if not name.startswith("__")}
    # A file often holds a step or a constant beside the columns.
    return from_arrays(str(path), {name: a for name, a in arrays.items() if a is not None and a.size > 1})


def _plain(value: Any) -> np.ndarray[Any, Any] | None:
    """A vector as one dimension, a matrix or names as they are; None for what holds no numbers or names."""
    array = np.asarray(value)
    if array.dtype.kind == "O":  # a cell array, of names for example
        array = np.array([str(np.squeeze(one)) for one in array.flat])
    if array.dtype.kind == "U":
        return np.array([str(one).strip() for one in array.flat])
    if array.dtype.kind not in "fiubc" or array.ndim > 2 or array.size == 0:
        return None
    return array.reshape(-1) if array.ndim == 2 and 1 in array.shape and array.size > 1 else array


def from_npz(path: Path) -> Table:
    """Arrays t (n,) and x (n, d), with u, states and inputs where there are any; or one array per column."""
    return from_arrays(str(path), _arrays(path))


def _arrays(path: Path) -> dict[str, NDArray[Any]]:
    try:
        with np.load(path, allow_pickle=False) as file:
            unpacked = sum(entry.file_size for entry in file.zip.infolist())
            if unpacked > max(LEAST_SUSPECT, MOST_PACKED * path.stat().st_size):
                raise DataError(f"{path} would unpack to {unpacked:,} bytes, which is no measurement.")
            return {name: np.asarray(file[name]) for name in file.files}
    except DataError:
        raise
    # A damaged file may fail in any part of numpy, zipfile or zlib, each with errors of its own.
    except (Exception, MemoryError) as error:
        said = str(error).rstrip(".") or type(error).__name__
        raise DataError(f"{path} is not an npz file of plain arrays: {said}.") from error


def from_parquet(path: Path, rows: int | None = None) -> Table:
    """A parquet file, through pandas; with `rows`, no more than its first so many."""
    try:
        import pandas as pd
        import pyarrow  # noqa: F401
    except ImportError as error:
        raise DataError(
            f"{path}: reading parquet needs pandas and pyarrow, and {error.name} is missing. "
            'Install them with pip install "cindy[data]".'
        ) from error
    try:
        frame = pd.read_parquet(path) if rows is None else _first_rows(path, rows)
    # A damaged file may fail in any part of pandas, pyarrow or a codec, each with errors of its own.
    except (Exception, MemoryError) as error:
        raise DataError(f"{path} cannot be read as parquet: {str(error).rstrip('.')}.") from error
    return from_frame(frame, str(path))


def _first_rows(path: Path, rows: int) -> Any:
    """A data frame of the first rows of a parquet file; an empty one where it has none."""
    import pyarrow as pa
    import pyarrow.parquet as pq

    with pq.ParquetFile(path, pre_buffer=False) as file:
        batch = next(file.iter_batches(batch_size=rows), None)
        table = file.schema_arrow.empty_table() if batch is None else pa.Table.from_batches([batch])
    return table.to_pandas()


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
