"""Readers of binary files: npz, parquet, Excel, Matlab and netCDF.

All of them follow two rules. The size that a file declares for its content is compared with the size of the
file before anything is unpacked, because a file of a kilobyte may declare a terabyte. An error inside numpy,
zipfile, pandas, pyarrow or HDF5 becomes a `DataError` that names the file.
"""

from __future__ import annotations

import os
import re
import struct
import subprocess
import sys
import warnings
import zipfile
import zlib
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from itertools import islice
from math import prod
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from cindy._files import is_file
from cindy.data.moments import time_column
from cindy.data.tables import Table, from_arrays, from_frame, most_unpacked
from cindy.errors import DataError, require

Array = NDArray[Any]

NETCDF = {".nc", ".nc3", ".nc4", ".cdf", ".netcdf"}
_TRIAL = """
import sys
try:
    import h5netcdf
except ImportError:
    sys.exit()
with h5netcdf.File(sys.argv[1], "r", phony_dims="access", decode_vlen_strings=True) as file:
    print([(v.dimensions, v.shape, dict(v.attrs)) for v in file.variables.values()])
"""
_TRIAL_SECONDS = 10
"""A sound file takes a third of a second, most of it to start Python."""
_ENGINES = {".xls": "xlrd", ".ods": "odf"}
_CELL = re.compile(rb'<c [^>]*?r="([A-Z]{1,3})(\d{1,7})"')
_REPEATED = re.compile(rb'<table:table-cell(?=[^>]*office:value)[^>]*number-columns-repeated="(\d+)"')


@contextmanager
def _reading(path: Path | str, kind: str) -> Iterator[None]:
    """Turn any error inside the block into a `DataError` that names the file."""
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            yield
    except DataError as error:
        reason = str(error)
        message = reason if str(path) in reason else f"{path} cannot be read as {kind}: {reason}."
        raise DataError(message) from error
    # A damaged file may raise any error of the library that reads it.
    except (Exception, MemoryError) as error:
        reason = (str(error).strip().splitlines() or [""])[0].rstrip(".") or type(error).__name__
        raise DataError(f"{path} cannot be read as {kind}: {reason}.") from error


def _must_fit(path: Path, declared: int) -> None:
    """Raise if a file declares far more content than measurements of its size can be packed from."""
    size = path.stat().st_size
    if declared > most_unpacked(size):
        raise DataError(
            f"{path} has {size:,} bytes and declares {declared:,}; measurements cannot be packed so tightly. "
            "If the file is correct, save it without compression."
        )


def _check_archive(path: Path) -> None:
    with zipfile.ZipFile(path) as archive:
        _must_fit(path, sum(entry.file_size for entry in archive.infolist()))


def from_npz(path: Path) -> Table:
    """The arrays t (n,) and x (n, d), optionally u, states and inputs; or else one array per column."""
    return from_arrays(str(path), _npz_arrays(path))


def _npz_arrays(path: Path) -> dict[str, Array]:
    with _reading(path, "an npz file of plain arrays"):
        _check_archive(path)
        with np.load(path, allow_pickle=False) as file:
            return {name: np.asarray(file[name]) for name in file.files}


def from_parquet(path: Path, rows: int | None = None) -> Table:
    """A parquet file, read through pandas; if `rows` is given, only that many rows at its beginning."""
    for module in ("pandas", "pyarrow.parquet"):
        require(module, "data", f"{path}: reading parquet")
    pyarrow: Any = require("pyarrow", "data", f"{path}: reading parquet")
    with _reading(path, "parquet"), pyarrow.parquet.ParquetFile(path, pre_buffer=False) as file:
        declared = file.metadata
        if rows is None:
            # The sizes that the file declares are those of its uncompressed row groups.
            groups = (declared.row_group(k).total_byte_size for k in range(declared.num_row_groups))
            # Repeated values take hardly any room in the file, but eight bytes each in memory.
            _must_fit(path, max(sum(groups), 8 * declared.num_rows * max(declared.num_columns, 1)))
            frame = file.read().to_pandas()
        else:
            first = islice(file.iter_batches(batch_size=rows), 1)
            frame = pyarrow.Table.from_batches(list(first), schema=file.schema_arrow).to_pandas()
    return from_frame(frame, str(path))


def from_excel(path: Path) -> Table:
    """The first sheet of a workbook, read through pandas; its first row must name the columns."""
    engine = _ENGINES.get(path.suffix.lower(), "openpyxl")
    pandas: Any = require("pandas", "data", f"{path}: reading this")
    require(engine, "data", f"{path}: reading this")
    with _reading(path, "a workbook"):
        if engine != "xlrd":
            _check_archive(path)
            _check_sheets(path)
        frame = pandas.read_excel(path, engine=engine)
    empty = [str(name) for name in frame.columns if str(name).startswith("Unnamed:")]
    blank = [name for name in empty if frame[name].isna().all()]
    frame = frame.drop(columns=blank).dropna(how="all")
    if [name for name in empty if name not in blank and name != "Unnamed: 0"]:
        raise DataError(
            f"{path}: a column of the first sheet has no name. The first row must name the columns."
        )
    return from_frame(frame.reset_index(drop=True), str(path))


def _check_sheets(path: Path) -> None:
    """Raise if the few cells of a sheet lie so far apart that the table around them would fill the memory."""
    with zipfile.ZipFile(path) as archive:
        for entry in archive.infolist():
            name = entry.filename
            if name == "content.xml":  # OpenDocument, in which one cell may stand for many equal ones
                copies = max(map(int, _REPEATED.findall(archive.read(entry))), default=0)
                if copies > 20_000:
                    raise DataError(f"one cell with a value stands for {copies:,} cells")
            elif name.startswith("xl/worksheets/") and name.endswith(".xml"):
                cells = _CELL.findall(archive.read(entry))
                number = require("openpyxl.utils", "data", f"{path}: reading this").column_index_from_string
                width = max(
                    (number(column.decode()) for column in {column for column, _ in cells}), default=0
                )
                height = max((int(row) for _, row in cells), default=0)
                # A single cell at XFD1048576 makes pandas allocate seventeen thousand million cells.
                if width * height > 1_000_000 + 100 * len(cells):
                    raise DataError(f"{len(cells):,} cells are spread over {height:,} × {width:,}")


def from_matlab(path: Path) -> Table:
    """The variables of a Matlab file: vectors are columns; matrices x and u are read as in an npz file."""
    with _reading(path, "a Matlab file"):
        raw = path.read_bytes()
        if raw[:4] == b"\x89HDF" or raw[512:516] == b"\x89HDF" or raw[:20].startswith(b"MATLAB 7.3"):
            raise DataError(
                f"{path} is a Matlab file of version 7.3, which is not read. Save it with save(…, '-v7')."
            )
        if 0 in raw[:4]:  # version 4
            from scipy.io import loadmat

            variables = {name: np.asarray(value) for name, value in loadmat(path).items() if name[:2] != "__"}
        else:
            variables = matlab_arrays(raw, most_unpacked(len(raw)))
    arrays = {name: _plain(value) for name, value in variables.items()}
    # Single numbers are left out: a file often holds a step or a constant beside the columns.
    return from_arrays(str(path), {name: a for name, a in arrays.items() if a is not None and a.size > 1})


def _plain(array: Array) -> Array | None:
    """Vectors with one dimension, matrices and names as they are; None for anything else."""
    if array.dtype.kind == "U":
        return np.array([str(text).strip() for text in array.flat])
    if array.ndim > 2 or array.size == 0 or array.dtype.kind not in "fiubc":
        return None
    return array.reshape(-1) if 1 in array.shape and array.size > 1 else array


class _Stored:
    """A variable of a classic netCDF file, which stays on disk until it is indexed."""

    def __init__(self, variable: Any, file: Any, start: int) -> None:
        data = variable.data
        self.dims, self.shape, self.ndim = tuple(variable.dimensions), tuple(data.shape), data.ndim
        offset = data.__array_interface__["data"][0] - start
        # A view of our own, because the views of scipy would keep its file open.
        self._data = np.ndarray(data.shape, data.dtype, buffer=file, offset=offset, strides=data.strides)
        attributes = variable._attributes
        self._fill = [attributes[key] for key in ("_FillValue", "missing_value") if key in attributes]
        self._scale = float(attributes.get("scale_factor", 1.0))
        self._offset = float(attributes.get("add_offset", 0.0))
        unit = attributes.get("units", b"")
        self.unit = unit.decode("utf-8", "replace") if isinstance(unit, bytes) else str(unit)
        if len(self.dims) != self.ndim or data.dtype.kind not in "iuf":
            raise DataError("a variable does not hold numbers over its dimensions")

    def __getitem__(self, key: Any, /) -> Any:
        raw = self._data[key]
        values = raw.astype(np.float64)
        for fill in self._fill:
            # The comparison is with stored values: after scaling, 9.96921e36 would not be recognised.
            values[raw == fill] = np.nan
        return values * self._scale + self._offset


Grids = tuple[dict[str, Any], dict[str, str]]
"""Coordinates, time last, and fields by name, which are not read yet; and the units of coordinates."""


def arrays_of_file(path: str | os.PathLike[str], time: str | None, where: str) -> Grids:
    """The coordinates and fields of a file.

    time: the name of the coordinate of time; None: the one with a usual name
    """
    file = Path(path)
    if not is_file(file):
        raise DataError(f"{where}: there is no file {str(file)[:200]}.")
    if file.suffix.lower() == ".npz":
        return _npz_arrays(file), {}
    if file.suffix.lower() not in NETCDF:
        raise DataError(f"{where}: {file} must be netCDF (.nc) or npz.")
    with _reading(file, "netCDF"):
        with file.open("rb") as stream:
            classic = stream.read(3) == b"CDF"
        if classic:
            return _classic(file, time, where)
    xarray = require("xarray", "data", f"reading {file}, which is netCDF 4,")
    _try_elsewhere(file)
    with _reading(file, "netCDF 4, for which xarray and h5netcdf or netCDF4 are needed (cindy[data])"):
        return from_dataset(xarray.open_dataset(file, decode_times=False), time, where)


def _try_elsewhere(file: Path) -> None:
    """Raise if a trial in another process shows that a netCDF 4 file is damaged.

    HDF5 trusts the counts inside a file, so that a damaged file may crash it or keep it busy for ever.
    """
    if not sys.executable:
        return
    try:
        trial = subprocess.run(
            [sys.executable, "-c", _TRIAL, str(file)],
            stdout=subprocess.DEVNULL,
            stderr=subprocess.PIPE,
            timeout=_TRIAL_SECONDS,
            check=False,
        )
    except subprocess.TimeoutExpired:
        raise DataError(f"{file} is damaged: HDF5 does not finish reading it.") from None
    except OSError:  # no process can be started here
        return
    if trial.returncode:
        lines = trial.stderr.decode("utf-8", "replace").strip().splitlines() or ["HDF5 crashes on it"]
        raise DataError(f"{file} cannot be read as netCDF 4: {lines[-1].rstrip('.')}.")


def _classic(file: Path, time: str | None, where: str) -> Grids:
    """As `arrays_of_file`, for netCDF 3."""
    from scipy.io import netcdf_file  # 30 ms to import

    with netcdf_file(file, "r", mmap=True) as opened:
        contents: Any = opened
        start = contents._mm_buf.__array_interface__["data"][0]
        disk = np.memmap(file, dtype=np.uint8, mode="r")
        stored = {
            name: _Stored(variable, disk, start)
            for name, variable in contents.variables.items()
            if variable.data.dtype.kind in "iuf" and variable.data.ndim > 0
        }
    highest = max((variable.ndim for variable in stored.values()), default=0)
    dims = next((variable.dims for variable in stored.values() if variable.ndim == highest), ())
    order = _time_last(dims, time)
    missing = [dim for dim in order if dim not in stored]
    if missing or highest < 2:
        lacking = (
            f"coordinate for its dimension {missing[0]!r}" if missing else "variable over space and time"
        )
        raise DataError(f"{where}: {file} holds no {lacking}.")
    arrays: dict[str, Any] = {dim: stored[dim][:] for dim in order}
    arrays |= {
        name: variable
        for name, variable in stored.items()
        if variable.ndim == highest and set(variable.dims) == set(dims)
    }
    return arrays, {dim: stored[dim].unit for dim in order}


def _time_last(dims: Any, time: str | None) -> list[str]:
    names = [str(dim) for dim in dims]
    last = time_column(names) if time is None else time
    return sorted(names, key=lambda name: name == last)


def from_dataset(data: Any, time: str | None, where: str) -> Grids:
    """The coordinates and fields of an xarray Dataset."""
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
    order = _time_last(next(iter(fields.values())).dims, time)
    missing = [dim for dim in order if dim not in data.coords]
    if missing:
        raise DataError(f"{where}: the Dataset has no coordinate for its dimension {missing[0]!r}.")
    coordinates = {dim: data.coords[dim] for dim in order}
    units = {dim: str(values.attrs.get("units", "")) for dim, values in coordinates.items()}
    return {dim: np.asarray(values.values) for dim, values in coordinates.items()} | fields, units


@dataclass(frozen=True)
class _Codes:
    """Codes of the elements in Matlab's files, version 5."""

    header: int = 128
    matrix: int = 14
    compressed: int = 15
    cell: int = 1
    char: int = 4
    deepest: int = 4
    """Levels of cells within cells that are read."""


_CODES = _Codes()


_STORED = {1: "i1", 2: "u1", 3: "i2", 4: "u2", 5: "i4", 6: "u4", 7: "f4", 9: "f8", 12: "i8", 13: "u8"}
_TEXT = {16: "utf-8", 17: "utf-16", 18: "utf-32"}
_CLASSES = {6: "f8", 7: "f4", 8: "i1", 9: "u1", 10: "i2", 11: "u2", 12: "i4", 13: "u4", 14: "i8", 15: "u8"}


def matlab_arrays(raw: bytes, most: int) -> dict[str, Array]:
    """The numeric matrices, texts and cells of texts in a Matlab file of version 5 to 7, by name.

    A file is a header of 128 bytes and then elements: a tag (kind, bytes), the bytes, and padding to a
    multiple of eight. An element of up to four bytes may stand in its tag. A variable is an element that
    holds others, in this order: flags with the class, dimensions, name, and values. Elements may be packed
    with zlib. Structures, objects and sparse matrices are passed over.

    Every length is compared with the bytes that are there before anything is read or allocated: on a damaged
    file scipy.io.loadmat, which trusts the lengths, can end the process.
    Reference: "MAT-File Format", The MathWorks, chapter 1.

    most: bytes that packed elements may unpack to, all together
    """
    # The mark "MI" is one number of two bytes, so that its byte order is that of all numbers in the file.
    order = {b"IM": "<", b"MI": ">"}.get(raw[126:128])
    if order is None or len(raw) < _CODES.header:
        raise DataError("it does not begin as Matlab files of version 5 to 7 do")
    arrays: dict[str, Array] = {}
    for kind, body in _elements(memoryview(raw)[_CODES.header :], order, small=False):
        if kind == _CODES.compressed:
            unpacked = _unpacked(body, most)
            most -= len(unpacked)
            inner = list(_elements(memoryview(unpacked), order, small=False))
        else:
            inner = [(kind, body)]
        for kind_inside, content in inner:
            if kind_inside == _CODES.matrix:
                name, array = _variable(content, order, 0)
                if array is not None and name and not name.startswith("__"):
                    arrays[name] = array
    return arrays


def _unpacked(body: memoryview, most: int) -> bytes:
    stream = zlib.decompressobj()
    # One byte more than allowed is enough to see that the limit is exceeded.
    unpacked = stream.decompress(body, max(most, 0) + 1)
    if len(unpacked) > most:
        raise DataError("it unpacks to far more than its size; measurements cannot be packed so tightly")
    if not stream.eof:
        raise DataError("a packed variable ends too early")
    return unpacked


def _elements(raw: memoryview, order: str, *, small: bool = True) -> Iterator[tuple[int, memoryview]]:
    """Kind and content of one element after the other."""
    tag = 0
    while len(raw) - tag >= 8:
        kind, size = struct.unpack_from(order + "II", raw, tag)
        if small and kind >> 16:  # the length stands in the upper half, the content in the rest of the tag
            kind, size, begin, step = kind & 0xFFFF, kind >> 16, tag + 4, 8
            if size > 4:
                raise DataError("a short element is longer than four bytes")
        else:
            # Packed variables follow one another without padding.
            begin, step = tag + 8, 8 + (size if kind == _CODES.compressed else -(-size // 8) * 8)
        if begin + size > len(raw):
            raise DataError(f"an element of {size:,} bytes begins {len(raw) - begin:,} bytes before the end")
        yield kind, raw[begin : begin + size]
        tag += step


def _variable(content: memoryview, order: str, depth: int) -> tuple[str, Array | None]:
    """The name of a matrix and its values; None instead of values that are neither numbers nor text."""
    parts = _elements(content, order)
    flags = _numbers(next(parts, None), order)
    shape = tuple(int(n) for n in _numbers(next(parts, None), order))
    label = _numbers(next(parts, None), order)
    if len(flags) != 2 or len(shape) < 2 or min(shape) < 0:
        raise DataError("a variable has no class or no dimensions")
    name = bytes(label.astype(np.uint8)).decode("latin-1")
    size, kind, is_complex = prod(shape), int(flags[0]) & 0xFF, bool(int(flags[0]) & 0x800)
    if kind == _CODES.cell:
        if size > len(content) // 8 or depth >= _CODES.deepest:
            raise DataError(f'"{name}" has more cells than bytes')
        cells = [
            _variable(body, order, depth + 1)[1] if inner == _CODES.matrix else None for inner, body in parts
        ]
        # The text or the single number in a cell; otherwise an empty text.
        texts = ["" if cell is None or cell.size != 1 else str(cell.flat[0]) for cell in cells[:size]]
        return name, np.array(texts) if texts and len(texts) == size else None
    if kind != _CODES.char and kind not in _CLASSES:
        return name, None
    values = _numbers(next(parts, None), order, text=kind == _CODES.char)
    if len(values) != size:
        raise DataError(f'"{name}" has the shape {shape}, but {len(values):,} values')
    if kind == _CODES.char:
        letters = values.reshape(shape, order="F").reshape(shape[0], -1)
        return name, np.array(["".join(map(chr, row)) for row in letters])
    values = values.astype(_CLASSES[kind])
    if is_complex:
        imaginary = _numbers(next(parts, None), order)
        if len(imaginary) != size:
            raise DataError(f'"{name}" lacks imaginary parts')
        values = values + 1j * imaginary
    return name, values.reshape(shape, order="F")


def _numbers(element: tuple[int, memoryview] | None, order: str, *, text: bool = False) -> Array:
    """The values of an element as they are stored; for text, the code points of its letters."""
    if element is None:
        raise DataError("a variable ends too early")
    kind, body = element
    if text and kind in _TEXT:
        encoding = _TEXT[kind] + ("" if kind == 16 else "-le" if order == "<" else "-be")
        return np.array([ord(letter) for letter in str(body, encoding)], dtype=np.int64)
    if kind not in _STORED:
        raise DataError(f"an element is of the unknown kind {kind}")
    stored = np.dtype(order + _STORED[kind])
    return np.frombuffer(body, dtype=stored, count=len(body) // stored.itemsize)
