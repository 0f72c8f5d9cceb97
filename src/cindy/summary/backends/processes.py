"""Work spread over processes, with its results in the order of the work."""

import ctypes
import importlib
import multiprocessing
import pickle
import sys
from collections import deque
from collections.abc import Callable, Iterator
from concurrent.futures import Future, ProcessPoolExecutor
from typing import Any, TypeVar

from cindy.errors import DataError

__all__ = ["in_order"]

T = TypeVar("T")
R = TypeVar("R")

_IN_FLIGHT = 2
"""Tasks handed out per process: one at work, one waiting, so that a stream is not read ahead."""
_BLAS_MODULES = ("numpy._core._multiarray_umath", "scipy.linalg._fblas")
_BLAS_SETTERS = (
    "scipy_openblas_set_num_threads64_",
    "scipy_openblas_set_num_threads",
    "openblas_set_num_threads64_",
    "openblas_set_num_threads",
)

_fixed: tuple[Callable[..., Any], tuple[Any, ...]] | None = None
"""In a worker: the function, and the arguments that are the same for every task."""


def in_order(
    function: Callable[..., R], work: Iterator[T], settings: tuple[Any, ...], processes: int
) -> Iterator[tuple[T, R]]:
    """(task, function(task, *settings)) for every task of `work`, in order, a few at a time."""
    if processes == 1:
        for task in work:
            yield task, function(task, *settings)
        return
    # Forked workers inherit the settings, Python functions of a basis included; the
    # system libraries of macOS do not survive a fork.
    method = "fork" if sys.platform == "linux" else "spawn"
    pool = ProcessPoolExecutor(
        processes, multiprocessing.get_context(method), initializer=_start, initargs=(function, settings)
    )
    waiting: deque[tuple[T, Future[R]]] = deque()
    try:
        for task in work:
            waiting.append((task, pool.submit(_work, task)))
            if len(waiting) >= _IN_FLIGHT * processes:
                yield _finished(waiting.popleft())
        while waiting:
            yield _finished(waiting.popleft())
    finally:
        pool.shutdown(cancel_futures=True)


def _finished(item: tuple[T, "Future[R]"]) -> tuple[T, R]:
    task, future = item
    try:
        return task, future.result()
    except (pickle.PicklingError, AttributeError) as error:
        raise DataError(
            f"accumulate: the basis cannot be sent to other processes: {error}. "
            "Write its functions as expressions or define them in a module, or use processes=1."
        ) from error


def _start(function: Callable[..., Any], settings: tuple[Any, ...]) -> None:
    global _fixed
    _fixed = (function, settings)
    _one_thread()


def _work(task: Any) -> Any:
    assert _fixed is not None
    function, settings = _fixed
    return function(task, *settings)


def _one_thread() -> None:
    """Keep the linear algebra of this process to one thread, as the processes share the cores.

    The environment variables for this are read when numpy is loaded, which a forked
    worker is past; a BLAS other than OpenBLAS keeps its threads, and is merely slower.
    """
    for name in _BLAS_MODULES:
        library = ctypes.CDLL(importlib.import_module(name).__file__)
        for setter in _BLAS_SETTERS:
            if hasattr(library, setter):
                getattr(library, setter)(1)
