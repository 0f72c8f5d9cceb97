"""Files are written whole: a temporary file beside the target, then a rename."""

import os
import secrets
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import BinaryIO

from cindy.errors import DataError

__all__ = ["whole_file", "write_text"]


@contextmanager
def whole_file(path: str | os.PathLike[str], what: str) -> Iterator[BinaryIO]:
    """A binary stream that becomes the file `path` when the block ends, and nothing if it fails.

    what: names the content in an error, "the model" for example
    """
    target = Path(path)
    # Not tempfile: its files are readable by their owner alone, and stay so after the rename.
    temporary = target.with_name(f".{target.name}.{secrets.token_hex(6)}.part")
    try:
        stream = temporary.open("xb")
    except OSError as error:
        raise DataError(f"Cannot write {what} to {target}: {error.strerror or error}.") from error
    try:
        with stream:
            yield stream
        os.replace(temporary, target)
    except OSError as error:
        temporary.unlink(missing_ok=True)
        raise DataError(f"Cannot write {what} to {target}: {error.strerror or error}.") from error
    except BaseException:
        temporary.unlink(missing_ok=True)
        raise


def write_text(path: str | os.PathLike[str], text: str, what: str) -> None:
    """Write `text` to `path` in UTF-8, whole or not at all."""
    with whole_file(path, what) as stream:
        stream.write(text.encode("utf-8"))
