"""Linear algebra on one thread: the same bits wherever a task runs, and no quarrel about cores."""

from __future__ import annotations

import ctypes
import importlib
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from functools import lru_cache
from typing import Any

__all__ = ["one_thread"]

_MODULES = ("numpy._core._multiarray_umath", "scipy.linalg._fblas")
_NAMES = (
    "scipy_openblas_{}_num_threads64_",
    "scipy_openblas_{}_num_threads",
    "openblas_{}_num_threads64_",
    "openblas_{}_num_threads",
)

_lock = threading.Lock()
_inside = 0
_before: list[int] = []


@contextmanager
def one_thread() -> Iterator[None]:
    """Within it the OpenBLAS of numpy and scipy uses one thread; afterwards as many as before.

    A product shared by several threads adds up in another order, so a model would depend on
    how many cores a machine has. The environment variables for this are read when numpy is loaded,
    which is past; a BLAS other than OpenBLAS keeps its threads. The number is one for the
    whole process: threads that are inside at the same time share the change.
    """
    global _inside, _before
    libraries = _libraries()
    with _lock:
        if _inside == 0:
            _before = [get() for get, _ in libraries]
            for _, put in libraries:
                put(1)
        _inside += 1
    try:
        yield
    finally:
        with _lock:
            _inside -= 1
            if _inside == 0:
                for (_, put), count in zip(libraries, _before, strict=True):
                    put(count)


@lru_cache(maxsize=1)
def _libraries() -> tuple[tuple[Any, Any], ...]:
    """(get, set) of the number of threads of every OpenBLAS that is loaded."""
    found = []
    for name in _MODULES:
        library = ctypes.CDLL(importlib.import_module(name).__file__)
        for pattern in _NAMES:
            get, put = pattern.format("get"), pattern.format("set")
            if hasattr(library, get) and hasattr(library, put):
                found.append((getattr(library, get), getattr(library, put)))
                break
    return tuple(found)
