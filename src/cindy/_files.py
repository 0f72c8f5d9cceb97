"""Files that are written completely or not at all, and values in JSON.

A file is written under a temporary name in the folder of its target, and then renamed.
"""

import math
import os
import secrets
import stat
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any, BinaryIO

import numpy as np

from cindy._check import file_path
from cindy.errors import DataError


@contextmanager
def whole_file(path: str | os.PathLike[str], what: str) -> Iterator[BinaryIO]:
    """A binary stream that becomes the file `path` when the block ends; no file is left if the block fails.

    If `path` is a link, its target is replaced and the link stays. A pipe or a device is written to directly.
    A file that is replaced keeps its permissions.

    what: the content in the words of a message, such as "the model"
    """
    target = file_path(path, f"The name of the file for {what}")
    if not os.fspath(path):
        raise DataError(f"Cannot write {what}: the name of the file is empty.")
    try:
        real, mode = _destination(target)
    except (OSError, ValueError) as error:
        raise _unwritable(what, target, error) from error
    direct = mode is not None and not stat.S_ISREG(mode)
    # Not tempfile, whose files only their owner can read, and still so after the rename.
    written = real if direct else real.with_name(f".{real.name[:100]}.{secrets.token_hex(6)}.part")
    try:
        stream = written.open("wb" if direct else "xb")
    except OSError as error:
        raise _unwritable(what, target, error) from error
    try:
        with stream:
            yield stream
            if direct:
                return
            stream.flush()
            if mode is not None:
                os.chmod(written, stat.S_IMODE(mode))
            # The data must be on the disk before the name is, or a power cut could leave a damaged file.
            os.fsync(stream.fileno())
        os.replace(written, real)
    except BaseException as error:
        if not direct:
            written.unlink(missing_ok=True)
        if isinstance(error, OSError):
            raise _unwritable(what, target, error) from error
        raise


def make_folder(folder: str | os.PathLike[str]) -> None:
    """Make a folder and those that contain it, unless they exist."""
    try:
        Path(folder).mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise DataError(f"Cannot make the folder {folder}: {error.strerror or error}.") from error


def _destination(target: Path) -> tuple[Path, int | None]:
    """The target of a path after all links, and its mode; None if it does not exist."""
    real = Path(os.path.realpath(target)) if target.is_symlink() else target
    try:
        return real, real.stat().st_mode
    except FileNotFoundError:
        return real, None


def _unwritable(what: str, target: Path, error: Exception) -> DataError:
    return DataError(f"Cannot write {what} to {target}: {getattr(error, 'strerror', None) or error}.")


def write_text(path: str | os.PathLike[str], text: str, what: str) -> None:
    """Write `text` to `path` in UTF-8, completely or not at all."""
    try:
        encoded = text.encode("utf-8")
    except UnicodeEncodeError as error:
        raise DataError(
            f"Cannot write {what}: it holds {text[error.start]!r}, which is no character."
        ) from error
    with whole_file(path, what) as stream:
        stream.write(encoded)


def is_file(path: Path) -> bool:
    """Whether there is a file or a pipe of that name; the name may be one that no file can have."""
    try:
        return path.is_file() or path.is_fifo()
    except (OSError, ValueError):
        return False


def json_number(value: Any) -> float | str | None:
    """A number as JSON, which has no NaN and no infinity: null and "inf" stand for them."""
    number = float(value)
    if math.isfinite(number):
        return number
    return None if math.isnan(number) else str(number)


def json_value(value: Any) -> Any:
    """A setting as JSON: numbers, texts, lists and mappings as they are, anything else by its repr."""
    if value is None or isinstance(value, (str, bool, int)):
        return value
    if isinstance(value, (float, np.floating)):
        return json_number(value)
    if isinstance(value, np.integer):
        return int(value)
    if isinstance(value, Mapping):
        return {str(key): json_value(item) for key, item in value.items()}
    if isinstance(value, Sequence):
        return [json_value(item) for item in value]
    return repr(value)


def to_float(value: Any, what: str) -> float:
    """The number that `json_number` wrote, or an error about `what`."""
    if value is None:
        return math.nan
    if value in ("inf", "-inf") or (isinstance(value, (int, float)) and not isinstance(value, bool)):
        return float(value)
    raise DataError(f"{what} must be a number, but is {str(value)[:40]!r}")


def to_names(value: Any, what: str) -> tuple[str, ...]:
    """A list of texts as a tuple, or an error about `what`."""
    if not isinstance(value, list) or not all(isinstance(name, str) for name in value):
        raise DataError(f'"{what}" must be a list of texts')
    return tuple(value)


def to_mapping(value: Any, what: str) -> dict[str, Any]:
    """An object of JSON as it is, or an error about `what`."""
    if not isinstance(value, dict):
        raise DataError(f'"{what}" must be an object, but is {str(value)[:40]!r}')
    return value


def no_constant(name: str) -> float:
    """An error, for the constants NaN and Infinity that Python accepts beyond JSON."""
    raise DataError(f"it holds {name}, which is not JSON")
