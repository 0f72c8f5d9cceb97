"""Excel and Matlab files as tables."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np

from cindy.data.tables import Table, from_arrays, from_frame
from cindy.errors import DataError

__all__ = ["from_excel", "from_matlab"]

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
